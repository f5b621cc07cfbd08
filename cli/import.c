/* espalier import: check, convert, make the table, load, count. */
#include "cli/edges.h"
#include "cli/progress.h"

#include "bench/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { RESULT_BYTES_MAX = 64 << 10, REJECT_BYTES_MAX = 8 << 20 };

struct import_options {
    struct esp_cli_options shared;
    const char *to, *billing, *rejects;
    int if_exists; /* enum esp_if_exists */
    uint64_t workers, max_errors;
    bool dry_run, verify;
};

struct import {
    struct esp_cli *cli;
    const struct import_options *options;
    struct esp_layout layout;
    struct esp_table_options table_options;
    struct esp_forest *forest;
    uint64_t rows;
    struct esp_load_result result;
    struct esp_cli_progress progress;
    /* refused items: called by one worker at a time */
    FILE *rejects;
    struct esp_buf reject_text;
    bool rejects_failed;
    uint64_t refused;
    char first_reason[512];
};

/* --- options ----------------------------------------------------------------------- */

static enum esp_status parse_billing(struct import *im) {
    struct esp_table_options *out = &im->table_options;
    const char *text = im->options->billing;
    static const char provisioned[] = "provisioned:";
    out->billing = ESP_BILLING_ON_DEMAND;
    if (strcmp(text, "on-demand") == 0) {
        return ESP_OK;
    }
    if (strncmp(text, provisioned, sizeof provisioned - 1) == 0) {
        const char *at = text + sizeof provisioned - 1;
        char *end = NULL;
        out->billing = ESP_BILLING_PROVISIONED;
        out->provisioned_read = *at >= '1' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        if (end && *end == ',' && end[1] >= '1' && end[1] <= '9') {
            out->provisioned_write = strtoull(end + 1, &end, 10);
            if (*end == 0) {
                return ESP_OK;
            }
        }
    }
    return esp_fail(&im->cli->err, ESP_ERR_USAGE,
                    "--billing takes on-demand or provisioned:READ,WRITE (units a second), not "
                    "'%s'",
                    text);
}

static enum esp_status check_options(struct import *im) {
    const struct import_options *o = im->options;
    struct esp_cli *cli = im->cli;
    enum esp_status status =
        esp_cli_layout_open(cli, o->shared.layout, &o->shared.set, &im->layout);
    if (status == ESP_OK && !o->dry_run) {
        status = esp_cli_require(cli, o->to, "--to STORE");
    }
    if (status == ESP_OK && !o->dry_run) {
        status = esp_cli_require(cli, o->shared.table, "--table NAME");
    }
    if (status == ESP_OK) {
        status = parse_billing(im);
    }
    if (status == ESP_OK && o->workers > UINT32_MAX) {
        status = esp_fail(&cli->err, ESP_ERR_USAGE, "--workers takes at most %u", UINT32_MAX);
    }
    if (status == ESP_OK && o->verify && o->if_exists == ESP_IF_EXISTS_APPEND) {
        status = esp_fail(&cli->err, ESP_ERR_USAGE,
                          "--verify counts the whole table: it cannot be used with --if-exists "
                          "append");
    }
    if (status == ESP_OK) {
        status = esp_cli_progress_init(cli, &o->shared, &im->progress);
    }
    return status;
}

/* --- refused items ------------------------------------------------------------------ */

static void refuse(void *ctx, const struct esp_item *item, const struct esp_error *why) {
    struct import *im = ctx;
    if (im->refused++ == 0) {
        snprintf(im->first_reason, sizeof im->first_reason, "%s", why->message);
    }
    if (im->rejects) {
        struct esp_buf *text = &im->reject_text;
        esp_buf_reset(text);
        ESP_BUF_LIT(text, "{\"Item\":{");
        esp_item_put_json(text, &im->layout.schema, item);
        ESP_BUF_LIT(text, "},\"reason\":");
        esp_json_put_string(text, esp_str_from(why->message));
        ESP_BUF_LIT(text, "}\n");
        im->rejects_failed = im->rejects_failed || text->failed ||
                             fwrite(text->ptr, 1, text->len, im->rejects) != text->len;
    }
    if (im->refused > im->options->max_errors) {
        esp_cli_stop();
    }
}

static enum esp_status rejects_open(struct import *im) {
    const char *path = im->options->rejects;
    esp_buf_init(&im->reject_text, im->cli->alloc, REJECT_BYTES_MAX);
    if (!path) {
        return ESP_OK;
    }
    im->rejects = fopen(path, "wb");
    return im->rejects ? ESP_OK
                       : esp_fail(&im->cli->err, esp_cli_open_status(errno), "cannot write %s: %s",
                                  path, strerror(errno));
}

static enum esp_status rejects_close(struct import *im) {
    bool failed = im->rejects_failed;
    if (im->rejects) {
        failed = fclose(im->rejects) != 0 || failed;
    }
    esp_buf_fini(&im->reject_text);
    return failed ? esp_fail(&im->cli->err, ESP_ERR_IO,
                             "cannot write %s: refused items are missing "
                             "in it",
                             im->options->rejects)
                  : ESP_OK;
}

/* --- the load ------------------------------------------------------------------------ */

/* What was written stays; the same command would find the table in its way. */
static void say_how_to_go_on(struct import *im, enum esp_status status) {
    if (esp_status_class(status) == ESP_CLASS_RETRY && im->result.items_written > 0) {
        im->cli->hint = "items that were written stay: repeat the command with --if-exists append "
                        "(writes all of them again) or --if-exists replace";
    }
}

/* A load whose refused items are within --max-errors is done, with findings. */
static enum esp_status judge(struct import *im, enum esp_status status) {
    struct esp_cli *cli = im->cli;
    uint64_t allowed = im->options->max_errors;
    if (im->result.items_refused > allowed &&
        (status == ESP_ERR_REFUSED || status == ESP_ERR_CANCELLED)) {
        esp_error_clear(&cli->err);
        cli->hint = "--max-errors N goes on after N refused items, --rejects FILE keeps them";
        return esp_fail(&cli->err, ESP_ERR_REFUSED, "the store refused %llu items, the first: %s",
                        (unsigned long long)im->result.items_refused, im->first_reason);
    }
    if (status == ESP_ERR_REFUSED && im->result.items_left == 0) {
        esp_error_clear(&cli->err);
        cli->findings = true;
        return ESP_OK;
    }
    return status;
}

static enum esp_status load_into(struct import *im, struct esp_store *store) {
    struct esp_cli *cli = im->cli;
    const struct import_options *o = im->options;
    struct esp_table *table = NULL;
    struct esp_load_options load = {.workers = (uint32_t)o->workers,
                                    .verify = o->verify,
                                    .on_refused = refuse,
                                    .on_refused_ctx = im};
    enum esp_status status =
        esp_table_prepare(store, o->shared.table, &im->layout.schema,
                          (enum esp_if_exists)o->if_exists, &im->table_options, &cli->err);
    if (status == ESP_ERR_EXISTS) {
        cli->hint = "--if-exists append adds to it, --if-exists replace drops it first";
    }
    if (status == ESP_OK) {
        status = esp_table_open(store, o->shared.table, &im->layout.schema, &table, &cli->err);
    }
    if (status == ESP_OK) {
        status = esp_load_run(im->forest, &im->layout, table, &load, esp_cli_catch_signals(),
                              esp_cli_progress_load, &im->progress, &im->result, &cli->err);
        esp_cli_progress_end(&im->progress);
        status = judge(im, status);
        say_how_to_go_on(im, status);
    }
    esp_table_close(table);
    return status;
}

static enum esp_status load(struct import *im) {
    struct esp_store *store;
    enum esp_status status = rejects_open(im);
    if (status != ESP_OK) {
        return status;
    }
    status = esp_cli_store_open(im->cli, &im->options->shared, im->options->to, &store);
    if (status == ESP_OK) {
        status = load_into(im, store);
        esp_store_close(store);
    }
    enum esp_status closed = rejects_close(im);
    return status == ESP_OK ? closed : status;
}

static enum esp_status quote(struct import *im) {
    const struct esp_layout *layout = &im->layout;
    uint64_t started = esp_now_ns(im->cli->clock);
    im->result.items_planned = layout->ops->item_count(layout, im->forest, 0, im->forest->count);
    im->result.items_left = im->result.items_planned;
    enum esp_status status = esp_load_quote(im->forest, layout, (uint32_t)im->options->workers,
                                            im->cli->alloc, &im->result.usage, &im->cli->err);
    im->result.elapsed_ns = esp_now_ns(im->cli->clock) - started;
    return status;
}

/* --- the result ----------------------------------------------------------------------- */

static void put_json(const struct import *im, double usd, struct esp_buf *out) {
    const struct esp_load_result *r = &im->result;
    const struct {
        const char *name;
        uint64_t value;
    } counts[] = {
        {"rows_read", im->rows},
        {"rows_rejected", 0}, /* a row that cannot be used stops an import */
        {"nodes", im->forest->count},
        {"items_planned", r->items_planned},
        {"items_written", r->items_written},
        {"items_refused", r->items_refused},
        {"items_left", r->items_left},
        {"requests", r->usage.requests},
        {"retries", r->usage.retries},
        {"throttled", r->usage.throttled},
    };
    ESP_BUF_LIT(out, "{\"schema\":1");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        esp_buf_printf(out, ",\"%s\":%llu", counts[i].name, (unsigned long long)counts[i].value);
    }
    ESP_BUF_LIT(out, ",\"write_units\":");
    esp_cli_put_number(out, esp_units_total(&r->usage.write));
    ESP_BUF_LIT(out, ",\"write_units_billed\":");
    if (r->usage.billed) {
        esp_cli_put_number(out, esp_units_total(&r->usage.billed_write));
    } else {
        ESP_BUF_LIT(out, "null");
    }
    ESP_BUF_LIT(out, ",\"usd_on_demand\":");
    esp_cli_put_number(out, usd);
    esp_buf_printf(out, ",\"elapsed_s\":%.3f,\"verified\":%s}\n", (double)r->elapsed_ns / 1e9,
                   r->verified < 0 ? "null" : (r->verified ? "true" : "false"));
}

static void put_text(const struct import *im, const struct esp_prices *prices, double usd,
                     struct esp_buf *out) {
    const struct esp_load_result *r = &im->result;
    char a[ESP_TEXT_MAX], b[ESP_TEXT_MAX], c[ESP_TEXT_MAX];
    bool dry = im->options->dry_run;
    esp_buf_printf(out, "%s nodes become %s items of layout %s",
                   esp_text_count(a, im->forest->count), esp_text_count(b, r->items_planned),
                   im->layout.ops->name);
    if (dry) {
        ESP_BUF_LIT(out, "; nothing was written\n");
    } else {
        esp_buf_printf(out, " in table %s: %s written, %s refused, %s left\n",
                       im->options->shared.table, esp_text_count(a, r->items_written),
                       esp_text_count(b, r->items_refused), esp_text_count(c, r->items_left));
    }
    esp_buf_printf(out, "%s of items, %s of index entries, %s write units: ",
                   esp_text_bytes(a, (double)r->usage.bytes_written),
                   esp_text_bytes(b, (double)r->usage.index_bytes_written),
                   esp_text_count(c, (uint64_t)esp_units_total(&r->usage.write)));
    esp_buf_printf(out, "%s on demand (%s, prices of %s)\n", esp_text_usd(a, usd), prices->region,
                   prices->date);
    double seconds = (double)r->elapsed_ns / 1e9;
    if (!dry) {
        double rate = seconds > 0 ? (double)r->items_written / seconds : 0;
        esp_buf_printf(out, "%s, %s items/s, %s requests, %s retries\n",
                       esp_text_seconds(a, seconds), esp_text_count(b, (uint64_t)rate),
                       esp_text_count(c, r->usage.requests),
                       esp_text_count((char[ESP_TEXT_MAX]){0}, r->usage.retries));
    }
    if (r->verified >= 0) {
        esp_buf_printf(out, "a scan counts %s items: %s\n", esp_text_count(a, r->items_counted),
                       r->verified ? "all there" : "that is not what was written");
    }
}

static enum esp_status print_result(struct import *im) {
    struct esp_prices prices;
    struct esp_buf out;
    enum esp_status status = esp_cli_prices(im->cli, im->options->shared.region, &prices);
    if (status != ESP_OK) {
        return status;
    }
    double usd = esp_price_requests(&prices, esp_units_total(&im->result.usage.read),
                                    esp_units_total(&im->result.usage.write));
    esp_buf_init(&out, im->cli->alloc, RESULT_BYTES_MAX);
    if (im->options->shared.json) {
        put_json(im, usd, &out);
    } else {
        put_text(im, &prices, usd, &out);
    }
    status = esp_cli_print(im->cli, &out);
    esp_buf_fini(&out);
    return status;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    struct import im = {.cli = cli, .options = options, .result = {.verified = -1}};
    enum esp_status status = check_options(&im);
    if (status == ESP_OK) {
        status =
            esp_cli_read_source(cli, &im.options->shared, operands, count, &im.forest, &im.rows);
    }
    if (status == ESP_OK) {
        status = esp_cli_validate(cli, &im.layout, im.forest, operands, count);
    }
    if (status == ESP_OK) {
        status = im.options->dry_run ? quote(&im) : load(&im);
        if (im.result.items_planned > 0) { /* also what a failed load has written is a result */
            enum esp_status printed = print_result(&im);
            status = status == ESP_OK ? printed : status;
        }
    }
    esp_forest_free(im.forest);
    return status;
}

/* --- the table -------------------------------------------------------------------------- */

static const char *const if_exists_names[] = {"fail", "append", "replace", NULL};

#define OWN(field, kind, flag, argument_text, help_text)                                           \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct import_options, field),              \
        .argument = argument_text, .help = help_text                                               \
    }
static const struct esp_option own_options[] = {
    OWN(to, ESP_OPT_STRING, "to", "STORE", "where to: local:DIR, dynamodb:, http://host:port ..."),
    {.name = "if-exists",
     .type = ESP_OPT_CHOICE,
     .offset = offsetof(struct import_options, if_exists),
     .argument = "WHAT",
     .fallback = "fail",
     .help = "when the table exists",
     .choices = if_exists_names},
    {.name = "billing",
     .type = ESP_OPT_STRING,
     .offset = offsetof(struct import_options, billing),
     .argument = "MODE",
     .fallback = "on-demand",
     .help = "of a table that is made: on-demand or provisioned:READ,WRITE"},
    OWN(dry_run, ESP_OPT_FLAG, "dry-run", NULL, "convert and price it; write nothing"),
    OWN(verify, ESP_OPT_FLAG, "verify", NULL, "count the table at the end, by a scan"),
    OWN(max_errors, ESP_OPT_U64, "max-errors", "N",
        "go on while at most N items are refused; exit code 4 then (0)"),
    OWN(rejects, ESP_OPT_STRING, "rejects", "FILE",
        "write refused items there, as JSON lines with the reason"),
    OWN(workers, ESP_OPT_U64, "workers", "N", "threads, with a session each (one a core)"),
    {.name = NULL}};
static const struct esp_option *const tables[] = {
    esp_cli_layout_options,  esp_cli_table_options,   own_options,
    esp_source_option_table, esp_cli_edges_option,    esp_cli_store_options,
    esp_cli_json_option,     esp_cli_progress_option, NULL};

const struct esp_command esp_command_import = {
    .name = "import",
    .summary = "read a tree, lay it out and write it into a table",
    .operands = "SOURCE...",
    .required = "--layout LAYOUT --to STORE --table NAME",
    .details =
        "SOURCE is a CSV or JSON file, plain, .gz or .zst, or - for stdin. The whole tree is\n"
        "checked before the first write; the table and its indexes are made.\n",
    .example = "  espalier import datasets/world.csv --layout path --to local:db --table world\n",
    .options = tables,
    .options_size = sizeof(struct import_options),
    .operand_min = 1,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
