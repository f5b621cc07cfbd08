/* espalier check: every broken invariant of a table, with the ids concerned. */
#include "cli/shared.h"

#include "core/spill.h"

enum { OUTPUT_BYTES_MAX = 64 << 20, FLUSH_BYTES = 64 << 10 };

struct check_options {
    struct esp_cli_options shared;
    uint64_t memory;
};

struct check {
    struct esp_cli *cli;
    struct esp_buf out;
    bool json;
    uint64_t findings;
};

static enum esp_status report(void *ctx, const struct esp_finding *finding) {
    struct check *check = ctx;
    struct esp_buf *out = &check->out;
    check->findings++;
    if (check->json) {
        esp_buf_printf(out, "%s{", check->findings > 1 ? "," : "");
    }
    esp_cli_put_finding(out, finding, check->json);
    if (check->json) {
        ESP_BUF_LIT(out, "}");
    }
    return out->len >= FLUSH_BYTES ? esp_cli_print(check->cli, out) : ESP_OK;
}

static enum esp_status check_table(struct check *check, struct esp_cli_access *t) {
    struct esp_cli *cli = check->cli;
    if (check->json) {
        ESP_BUF_LIT(&check->out, "{\"schema\":1,\"findings\":[");
    }
    enum esp_status status = t->layout.ops->check(&t->access, report, check);
    if (status != ESP_OK) {
        return esp_fail(&cli->err, status, "check: %s", esp_status_text(status));
    }
    if (check->json) {
        esp_buf_printf(&check->out, "],\"count\":%llu,", (unsigned long long)check->findings);
        esp_cli_put_cost_json(&check->out, &t->session->usage, false);
        ESP_BUF_LIT(&check->out, "}\n");
    } else if (check->findings == 0) {
        esp_buf_printf(&check->out, "%s: no findings in %llu items\n", t->table->name,
                       (unsigned long long)t->session->usage.items_returned);
    }
    cli->findings = check->findings > 0;
    return esp_cli_print(cli, &check->out);
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct check_options *o = options;
    struct check check = {.cli = cli, .json = o->shared.json};
    struct esp_cli_access t;
    struct esp_spill spill;
    (void)count;
    esp_spill_init(&spill, cli->alloc, (size_t)o->memory);
    esp_buf_init(&check.out, cli->alloc, OUTPUT_BYTES_MAX);
    enum esp_status status = esp_cli_access_open(cli, &o->shared, operands[0], &t);
    if (status == ESP_OK) {
        t.session->memory = &spill.alloc;
        status = check_table(&check, &t);
    }
    esp_cli_access_close(&t);
    esp_spill_fini(&spill);
    esp_buf_fini(&check.out);
    return status;
}

static const struct esp_option own_options[] = {
    {.name = "memory",
     .type = ESP_OPT_U64,
     .offset = offsetof(struct check_options, memory),
     .argument = "BYTES",
     .fallback = "256M",
     .help = "beyond this much, what is remembered of nodes goes to files in TMPDIR"},
    {.name = NULL}};
static const struct esp_option *const tables[] = {
    esp_cli_table_options, esp_cli_layout_options, own_options, esp_cli_read_options,
    esp_cli_json_option,   esp_cli_store_options,  NULL};

const struct esp_command esp_command_check = {
    .name = "check",
    .summary = "find what is broken in a table, ids named",
    .operands = "STORE",
    .required = "--table NAME --layout LAYOUT",
    .details =
        "Reads the whole table, once, and remembers some 100 bytes of each node. Exit code 4\n"
        "when something is found.\n",
    .example = "  espalier check local:db --table world --layout path\n",
    .options = tables,
    .options_size = sizeof(struct check_options),
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
