/* espalier verify: is a table exactly what a source makes? */
#include "cli/edges.h"
#include "cli/shared.h"

#include "core/spill.h"
#include "loader/verify.h"

enum { OUTPUT_BYTES_MAX = 64 << 20, NAMED = 20 };

struct verify_options {
    struct esp_cli_options shared;
    uint64_t workers, memory;
};

/* Differences come kind by kind, but counts are known only at the end: a text for each. */
struct verification {
    struct esp_cli *cli;
    bool json;
    struct esp_buf named[ESP_DIFFERENCE_KINDS];
    struct esp_verify_result result;
};

static const struct {
    const char *name, *text;
} kinds[ESP_DIFFERENCE_KINDS] = {
    [ESP_DIFFERENCE_MISSING] = {"missing", "missing in the table"},
    [ESP_DIFFERENCE_DIFFERENT] = {"different", "different"},
    [ESP_DIFFERENCE_EXTRA] = {"extra", "too many in the table"},
};

static enum esp_status note(void *ctx, const struct esp_difference *d) {
    struct verification *v = ctx;
    struct esp_buf *out = &v->named[d->kind];
    if (v->json) {
        esp_buf_printf(out, "%s{\"id\":", out->len ? "," : "");
        esp_json_put_string(out, d->id);
        ESP_BUF_LIT(out, ",\"key\":");
        esp_buf_put_str(out, d->key);
        if (d->kind == ESP_DIFFERENCE_DIFFERENT) {
            ESP_BUF_LIT(out, ",\"attributes\":");
            esp_json_put_string(out, d->attributes);
        }
        ESP_BUF_LIT(out, "}");
    } else {
        esp_buf_printf(out, "  %s %.*s %.*s%s%.*s\n", kinds[d->kind].name, ESP_FMT(d->id),
                       ESP_FMT(d->key), d->attributes.len ? ": " : "", ESP_FMT(d->attributes));
    }
    return out->failed ? ESP_ERR_NOMEM : ESP_OK;
}

static void put_json(const struct verification *v, uint32_t nodes, struct esp_buf *out) {
    const struct esp_verify_result *r = &v->result;
    esp_buf_printf(out,
                   "{\"schema\":1,\"equal\":%s,\"source\":{\"nodes\":%u,\"items\":%llu,"
                   "\"digest\":\"%016llx\"},\"table\":{\"items\":%llu,\"digest\":\"%016llx\"}",
                   esp_verify_equal(r) ? "true" : "false", nodes,
                   (unsigned long long)r->source_items, (unsigned long long)r->source_digest,
                   (unsigned long long)r->table_items, (unsigned long long)r->table_digest);
    for (int kind = 0; kind < ESP_DIFFERENCE_KINDS; kind++) {
        esp_buf_printf(out, ",\"%s\":{\"count\":%llu,\"items\":[", kinds[kind].name,
                       (unsigned long long)r->count[kind]);
        esp_buf_put_str(out, esp_buf_str(&v->named[kind]));
        ESP_BUF_LIT(out, "]}");
    }
    esp_buf_put_char(out, ',');
    esp_cli_put_cost_json(out, &r->usage, false);
    ESP_BUF_LIT(out, "}\n");
}

static void put_text(const struct verification *v, const char *table, uint32_t nodes,
                     struct esp_buf *out) {
    const struct esp_verify_result *r = &v->result;
    if (esp_verify_equal(r)) {
        esp_buf_printf(
            out, "%s: exactly what the source makes: %u nodes, %llu items, digest %016llx\n", table,
            nodes, (unsigned long long)r->table_items, (unsigned long long)r->table_digest);
        return;
    }
    esp_buf_printf(out,
                   "%s: not what the source makes: %llu items, digest %016llx; expected %llu, "
                   "digest %016llx\n",
                   table, (unsigned long long)r->table_items, (unsigned long long)r->table_digest,
                   (unsigned long long)r->source_items, (unsigned long long)r->source_digest);
    for (int kind = 0; kind < ESP_DIFFERENCE_KINDS; kind++) {
        if (r->count[kind]) {
            esp_buf_printf(out, "%llu %s%s\n", (unsigned long long)r->count[kind], kinds[kind].text,
                           r->count[kind] > NAMED ? "; the first:" : ":");
            esp_buf_put_str(out, esp_buf_str(&v->named[kind]));
        }
    }
}

static enum esp_status verify(struct verification *v, const struct verify_options *o,
                              struct esp_cli_access *t, const struct esp_forest *forest) {
    struct esp_spill spill;
    struct esp_buf out;
    esp_spill_init(&spill, v->cli->alloc, (size_t)o->memory);
    struct esp_verify_options options = {.workers = (uint32_t)o->workers,
                                         .named = NAMED,
                                         .memory = &spill.alloc,
                                         .stop = t->session->stop};
    enum esp_status status =
        esp_table_verify(forest, &t->layout, t->table, &options, note, v, &v->result, &v->cli->err);
    esp_spill_fini(&spill);
    if (status != ESP_OK) {
        return status;
    }
    esp_buf_init(&out, v->cli->alloc, OUTPUT_BYTES_MAX);
    if (v->json) {
        put_json(v, forest->count, &out);
    } else {
        put_text(v, t->table->name, forest->count, &out);
    }
    v->cli->findings = !esp_verify_equal(&v->result);
    status = esp_cli_print(v->cli, &out);
    esp_buf_fini(&out);
    return status;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct verify_options *o = options;
    struct verification v = {.cli = cli, .json = o->shared.json};
    struct esp_cli_access t;
    struct esp_forest *forest = NULL;
    for (int kind = 0; kind < ESP_DIFFERENCE_KINDS; kind++) {
        esp_buf_init(&v.named[kind], cli->alloc, OUTPUT_BYTES_MAX);
    }
    enum esp_status status = esp_cli_access_open(cli, &o->shared, operands[count - 1], &t);
    if (status == ESP_OK && o->workers > UINT32_MAX) {
        status = esp_fail(&cli->err, ESP_ERR_USAGE, "--workers takes at most %u", UINT32_MAX);
    }
    if (status == ESP_OK) {
        status = esp_cli_read_source(cli, &o->shared, operands, count - 1, &forest, NULL);
    }
    if (status == ESP_OK) {
        status = esp_cli_validate(cli, &t.layout, forest, operands, count - 1);
    }
    if (status == ESP_OK) {
        status = verify(&v, o, &t, forest);
    }
    esp_forest_free(forest);
    esp_cli_access_close(&t);
    for (int kind = 0; kind < ESP_DIFFERENCE_KINDS; kind++) {
        esp_buf_fini(&v.named[kind]);
    }
    return status;
}

static const struct esp_option own_options[] = {
    {.name = "workers",
     .type = ESP_OPT_U64,
     .offset = offsetof(struct verify_options, workers),
     .argument = "N",
     .help = "threads, with a session each (one a core)"},
    {.name = "memory",
     .type = ESP_OPT_U64,
     .offset = offsetof(struct verify_options, memory),
     .argument = "BYTES",
     .fallback = "256M",
     .help = "beyond this much, what is remembered of items goes to files in TMPDIR"},
    {.name = NULL}};
static const struct esp_option *const tables[] = {
    esp_cli_table_options, esp_cli_layout_options, own_options,           esp_source_option_table,
    esp_cli_edges_option,  esp_cli_json_option,    esp_cli_store_options, NULL};

const struct esp_command esp_command_verify = {
    .name = "verify",
    .summary = "compare a table with the source it should be made of",
    .operands = "SOURCE... STORE",
    .required = "--table NAME --layout LAYOUT",
    .details =
        "Converts the source with the settings given (those of the import) and reads the whole\n"
        "table, consistently. Items that are missing, different or too many are counted, and the\n"
        "first 20 of each are named by node and key. Exit code 4 when there are any.\n",
    .example = "  espalier verify datasets/world.csv local:db --table world --layout path\n",
    .options = tables,
    .options_size = sizeof(struct verify_options),
    .operand_min = 2,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
