#include "cli/edges.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

enum {
    SCRATCH_BYTES_MAX = 1 << 30,    /* of one operation */
    DESCRIPTION_BYTES_MAX = 1 << 20 /* of a table's definition */
};

/* --- options ---------------------------------------------------------------------- */

#define SHARED(field, kind, flag, argument_text, help_text)                                        \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct esp_cli_options, field),             \
        .argument = argument_text, .help = help_text                                               \
    }
const struct esp_option esp_cli_help_option[] = {
    SHARED(help, ESP_OPT_FLAG, "help", NULL, "show this help"), {.name = NULL}};
const struct esp_option esp_cli_layout_options[] = {
    SHARED(layout, ESP_OPT_STRING, "layout", "LAYOUT",
           "the layout (espalier list layouts shows them)"),
    SHARED(layout_file, ESP_OPT_STRING, "layout-file", "FILE",
           "layout, settings and names of a table, as JSON; --set wins"),
    SHARED(set, ESP_OPT_LIST, "set", "KEY=VALUE", "a setting of the layout; may be repeated"),
    {.name = NULL}};
const struct esp_option esp_cli_table_options[] = {
    SHARED(table, ESP_OPT_STRING, "table", "NAME", "the table in the store"), {.name = NULL}};
const struct esp_option esp_cli_store_options[] = {
    SHARED(connections, ESP_OPT_U64, "connections", "N",
           "connections of each worker to an endpoint (16)"),
    SHARED(batch, ESP_OPT_U64, "batch", "N", "items in one BatchWriteItem, at most 25 (25)"),
    SHARED(timeout_s, ESP_OPT_U64, "timeout", "SECONDS",
           "give up on a request, retries included, after this (60)"),
    SHARED(region, ESP_OPT_STRING, "region", "REGION",
           "AWS region; else from the environment and the config file"),
    SHARED(profile, ESP_OPT_STRING, "profile", "NAME",
           "profile of the AWS config and credentials files"),
    {.name = NULL}};
const struct esp_option esp_cli_read_options[] = {
    SHARED(consistent, ESP_OPT_FLAG, "consistent", NULL,
           "strongly consistent reads of the table, at twice the units"),
    {.name = NULL}};
const struct esp_option esp_cli_json_option[] = {
    SHARED(json, ESP_OPT_FLAG, "json", NULL, "the result as JSON"), {.name = NULL}};
const struct esp_option esp_cli_progress_option[] = {
    SHARED(progress, ESP_OPT_OPTFLAG, "progress", "json",
           "show progress also when stderr is no terminal; json: one object a line"),
    {.name = NULL}};

enum esp_status esp_cli_require(struct esp_cli *cli, const char *value, const char *option) {
    if (value && *value) {
        return ESP_OK;
    }
    return esp_fail(&cli->err, ESP_ERR_USAGE, "%s needs %s", cli->command->name, option);
}

/* --- opening -------------------------------------------------------------------- */

enum esp_status esp_cli_open_status(int number) {
    switch (number) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case ENAMETOOLONG:
        return ESP_ERR_INPUT;
    default:
        return ESP_ERR_IO;
    }
}

/* A line without its file is of little use; which file it was is known when there is one. */
static void name_source(struct esp_cli *cli, char **paths, size_t count) {
    struct esp_error *err = &cli->err;
    if (err->line && !err->source[0] && cli->line_starts) {
        struct esp_sources sources = {(const char *const *)paths, count, cli->line_starts};
        snprintf(err->source, sizeof err->source, "%s", esp_sources_locate(&sources, &err->line));
    }
}

enum esp_status esp_cli_read_source(struct esp_cli *cli, const struct esp_cli_options *options,
                                    char **paths, size_t count, struct esp_forest **forest,
                                    uint64_t *rows) {
    cli->source_count = count;
    cli->line_starts = esp_calloc(cli->alloc, count, sizeof *cli->line_starts);
    if (!cli->line_starts) {
        return esp_fail_nomem(&cli->err);
    }
    const struct esp_layout_ops *layout = options->layout ? esp_layout_find(options->layout) : NULL;
    struct esp_source_options source = options->source;
    source.several_parents = layout && layout->several_parents;
    if (options->edges && layout && !layout->several_parents) {
        return esp_fail(&cli->err, ESP_ERR_USAGE,
                        "--edges: the layout %s has no edges but the tree's", layout->name);
    }
    enum esp_status status =
        esp_import_files((const char *const *)paths, count, &source, cli->alloc, forest, rows,
                         cli->line_starts, &cli->err);
    if (count == 1) { /* with several, the importer has named the one it was reading */
        name_source(cli, paths, count);
    }
    if (status == ESP_OK) {
        status = esp_cli_read_edges(cli, options, *forest);
    }
    return status == ESP_ERR_IO ? esp_cli_open_status(cli->err.os_errno) : status;
}

/* A layout that copies nodes for their ancestors makes a long chain into billions of items; nobody
 * wants that, but finds out late. */
static enum esp_status check_multiple(struct esp_cli *cli, const struct esp_layout *layout,
                                      const struct esp_forest *forest) {
    enum { ITEMS_FREE = 100000000, ITEMS_PER_NODE_MAX = 100 };
    uint64_t items = layout->ops->item_count(layout, forest, 0, forest->count);
    if (items <= ITEMS_FREE || items / forest->count <= ITEMS_PER_NODE_MAX) {
        return ESP_OK;
    }
    return esp_fail(
        &cli->err, ESP_ERR_LIMIT,
        "the tree is too deep for the layout %s: %u nodes would become %llu items, more "
        "than %d a node; choose another layout",
        layout->ops->name, forest->count, (unsigned long long)items, ITEMS_PER_NODE_MAX);
}

enum esp_status esp_cli_validate(struct esp_cli *cli, const struct esp_layout *layout,
                                 const struct esp_forest *forest, char **paths, size_t count) {
    enum esp_status status = layout->ops->validate(layout, forest, &cli->err);
    if (status == ESP_OK) {
        status = check_multiple(cli, layout, forest);
    }
    name_source(cli, paths, count);
    return status;
}

static const char *layout_name(size_t i) {
    return esp_layouts[i]->name;
}

static enum esp_status unknown_layout(struct esp_cli *cli, const char *name) {
    char known[256] = "";
    size_t count = 0, used = 0;
    for (; esp_layouts[count]; count++) {
        int len = snprintf(known + used, sizeof known - used, "%s%s", count ? ", " : "",
                           esp_layouts[count]->name);
        used += (size_t)len < sizeof known - used ? (size_t)len : 0;
    }
    const char *nearest = esp_cli_nearest(name, layout_name, count);
    if (nearest) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is no layout: did you mean %s?", name,
                        nearest);
    }
    return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is no layout; there are %s", name, known);
}

enum esp_status esp_cli_layout_open(struct esp_cli *cli, const char *name,
                                    const struct esp_strings *sets, struct esp_layout *layout) {
    enum esp_status status = esp_cli_require(cli, name, "--layout LAYOUT");
    if (status != ESP_OK) {
        return status;
    }
    const struct esp_layout_ops *ops = esp_layout_find(name);
    return ops ? esp_layout_init(layout, ops, sets, &cli->err) : unknown_layout(cli, name);
}

static enum esp_status narrow(struct esp_cli *cli, const char *option, uint64_t value,
                              uint64_t most, uint32_t *out) {
    if (value > most) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--%s takes at most %llu, not %llu", option,
                        (unsigned long long)most, (unsigned long long)value);
    }
    *out = (uint32_t)value;
    return ESP_OK;
}

enum esp_status esp_cli_store_open(struct esp_cli *cli, const struct esp_cli_options *options,
                                   const char *url, struct esp_store **store) {
    enum { CONNECTIONS_MAX = 1024, BATCH_MAX = 25, TIMEOUT_S_MAX = 86400, MS = 1000 };
    uint32_t timeout_s = 0;
    *store = NULL;
    cli->config.region = options->region;
    cli->config.profile = options->profile;
    enum esp_status status =
        narrow(cli, "connections", options->connections, CONNECTIONS_MAX, &cli->config.connections);
    if (status == ESP_OK) {
        status = narrow(cli, "batch", options->batch, BATCH_MAX, &cli->config.batch);
    }
    if (status == ESP_OK) {
        status = narrow(cli, "timeout", options->timeout_s, TIMEOUT_S_MAX, &timeout_s);
    }
    cli->config.timeout_ms = (uint64_t)timeout_s * MS;
    return status == ESP_OK
               ? esp_store_open(url, &cli->config, cli->clock, cli->alloc, store, &cli->err)
               : status;
}

/* A table made by another layout would answer, and wrongly. */
static enum esp_status check_schema(struct esp_cli *cli, struct esp_store *store, const char *table,
                                    const struct esp_layout *layout) {
    struct esp_table_info info;
    struct esp_arena arena;
    if (store->ops->flags & ESP_STORE_DISCARDS) {
        return esp_fail(&cli->err, ESP_ERR_UNSUPPORTED, "%s keeps nothing that could be looked at",
                        store->ops->schemes);
    }
    esp_arena_init(&arena, cli->alloc, DESCRIPTION_BYTES_MAX);
    enum esp_status status = store->ops->describe_table(store, table, &arena, &info, &cli->err);
    if (status == ESP_OK) {
        status = esp_schema_match(&layout->schema, &info.schema, &cli->err);
        if (status != ESP_OK) {
            cli->hint = "the table was made with another --layout or other --set options";
        }
    } else if (status == ESP_ERR_NOT_FOUND) {
        cli->hint = "espalier tables STORE shows the tables there are";
    }
    esp_arena_fini(&arena);
    return status;
}

enum esp_status esp_cli_access_open(struct esp_cli *cli, const struct esp_cli_options *options,
                                    const char *url, struct esp_cli_access *out) {
    memset(out, 0, sizeof *out);
    esp_arena_init(&out->scratch, cli->alloc, SCRATCH_BYTES_MAX);
    enum esp_status status = esp_cli_require(cli, options->table, "--table NAME");
    if (status == ESP_OK) {
        status = esp_cli_layout_open(cli, options->layout, &options->set, &out->layout);
    }
    if (status == ESP_OK) {
        cli->config.must_exist = true;
        status = esp_cli_store_open(cli, options, url, &out->store);
    }
    if (status == ESP_OK) {
        status = check_schema(cli, out->store, options->table, &out->layout);
    }
    if (status == ESP_OK) {
        status =
            esp_table_open(out->store, options->table, &out->layout.schema, &out->table, &cli->err);
    }
    if (status == ESP_OK) {
        status = esp_session_open(out->table, &out->session, &cli->err);
    }
    if (status == ESP_OK) {
        out->session->stop = esp_cli_catch_signals();
        out->access = (struct esp_access){.layout = &out->layout,
                                          .session = out->session,
                                          .scratch = &out->scratch,
                                          .consistent = options->consistent,
                                          .err = &cli->err};
    }
    return status;
}

void esp_cli_access_close(struct esp_cli_access *access) {
    esp_session_close(access->session);
    esp_table_close(access->table);
    esp_store_close(access->store);
    esp_arena_fini(&access->scratch);
}

/* --- operations ------------------------------------------------------------------- */

static const char *operation_name(size_t i) {
    return esp_op_info[i].name;
}

/* Words of "ID [PARENT]": all of them, and those without brackets. */
static void count_arguments(const char *text, size_t *most, size_t *least) {
    *most = *least = 0;
    for (const char *at = text; *at; at++) {
        if (*at != ' ' && (at == text || at[-1] == ' ')) {
            ++*most;
            *least += *at != '[';
        }
    }
}

enum esp_status esp_cli_operation(struct esp_cli *cli, const char *name, bool write, size_t count,
                                  enum esp_op *op) {
    int found = esp_op_find(name);
    size_t most, least;
    if (found < 0) {
        const char *nearest = esp_cli_nearest(name, operation_name, ESP_OP_COUNT_ALL);
        cli->hint = "espalier list operations shows them all";
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is no operation%s%s%s", name,
                        nearest ? ": did you mean " : "", nearest ? nearest : "",
                        nearest ? "?" : "");
    }
    const struct esp_op_info *info = &esp_op_info[found];
    *op = (enum esp_op)found;
    if (info->write != write) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is an operation of espalier %s", name,
                        write ? "query" : "edit");
    }
    count_arguments(info->arguments, &most, &least);
    if (count < least || count > most) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s takes %s, %zu given", name,
                        info->arguments[0] ? info->arguments : "no arguments", count);
    }
    return ESP_OK;
}

static void put_billed(struct esp_buf *out, const struct esp_usage *usage,
                       const struct esp_units *units) {
    if (usage->billed) {
        esp_cli_put_number(out, esp_units_total(units));
    } else {
        ESP_BUF_LIT(out, "null");
    }
}

void esp_cli_put_cost_json(struct esp_buf *out, const struct esp_usage *usage, bool write) {
    esp_buf_printf(out, "\"cost\":{\"requests\":%llu,\"round_trips\":%llu,\"read_units\":",
                   (unsigned long long)usage->requests, (unsigned long long)usage->round_trips);
    esp_cli_put_number(out, esp_units_total(&usage->read));
    ESP_BUF_LIT(out, ",\"read_units_billed\":");
    put_billed(out, usage, &usage->billed_read);
    esp_buf_printf(out, ",\"items_read\":%llu,\"items_returned\":%llu",
                   (unsigned long long)usage->items_read,
                   (unsigned long long)usage->items_returned);
    if (write) {
        ESP_BUF_LIT(out, ",\"write_units\":");
        esp_cli_put_number(out, esp_units_total(&usage->write));
        ESP_BUF_LIT(out, ",\"write_units_billed\":");
        put_billed(out, usage, &usage->billed_write);
        esp_buf_printf(out, ",\"items_written\":%llu", (unsigned long long)usage->items_written);
    }
    ESP_BUF_LIT(out, "}");
}

static void put_units(struct esp_buf *out, const struct esp_usage *usage, const char *name,
                      const struct esp_units *units, const struct esp_units *billed) {
    ESP_BUF_LIT(out, ", ");
    esp_cli_put_number(out, esp_units_total(units));
    esp_buf_printf(out, " %s units", name);
    if (usage->billed) {
        ESP_BUF_LIT(out, " (billed ");
        esp_cli_put_number(out, esp_units_total(billed));
        ESP_BUF_LIT(out, ")");
    }
}

void esp_cli_put_cost(struct esp_buf *out, const struct esp_usage *usage, bool write) {
    esp_buf_printf(out, "cost: %llu requests in %llu round trips",
                   (unsigned long long)usage->requests, (unsigned long long)usage->round_trips);
    put_units(out, usage, "read", &usage->read, &usage->billed_read);
    if (write) {
        put_units(out, usage, "write", &usage->write, &usage->billed_write);
        esp_buf_printf(out, ", %llu items written\n", (unsigned long long)usage->items_written);
    } else {
        esp_buf_printf(out, ", %llu items read, %llu returned\n",
                       (unsigned long long)usage->items_read,
                       (unsigned long long)usage->items_returned);
    }
}

/* --- signals --------------------------------------------------------------------- */

static volatile int stop_flag; /* the only thing a signal handler may touch */

static void on_signal(int number) {
    (void)number;
    stop_flag = 1;
}

const volatile int *esp_cli_catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &stop_flag;
}

void esp_cli_stop(void) {
    __atomic_store_n(&stop_flag, 1, __ATOMIC_RELAXED);
}

/* --- money, printing, names ------------------------------------------------------- */

enum esp_status esp_cli_prices(struct esp_cli *cli, const char *region, struct esp_prices *out) {
    struct esp_error ignored = ESP_ERROR_INIT;
    if (region && esp_prices_load(NULL, region, cli->alloc, out, &ignored) == ESP_OK) {
        return ESP_OK;
    }
    return esp_prices_load(NULL, NULL, cli->alloc, out, &cli->err);
}

enum esp_status esp_cli_print(struct esp_cli *cli, struct esp_buf *text) {
    if (text->failed) {
        return esp_fail_nomem(&cli->err);
    }
    if (text->len && fwrite(text->ptr, 1, text->len, stdout) != text->len) {
        enum esp_status status =
            esp_fail(&cli->err, ESP_ERR_IO, "cannot write the result: %s", strerror(errno));
        cli->err.os_errno = errno;
        return status;
    }
    esp_buf_reset(text);
    return ESP_OK;
}

void esp_cli_put_number(struct esp_buf *out, double value) {
    if (value >= 1e-4 && value < 1e15 && value == (double)(uint64_t)value) {
        esp_buf_put_i64(out, (int64_t)value);
    } else {
        esp_buf_printf(out, "%.12g", value);
    }
}

const char *esp_cli_nearest(const char *name, const char *(*name_at)(size_t i), size_t count) {
    const char *nearest = NULL;
    int best = ESP_NAME_FAR;
    for (size_t i = 0; i < count; i++) {
        int distance = esp_name_distance(name, strlen(name), name_at(i));
        if (distance < best) {
            best = distance;
            nearest = name_at(i);
        }
    }
    return nearest;
}

void esp_cli_put_finding(struct esp_buf *out, const struct esp_finding *finding, bool json) {
    if (!json) {
        esp_buf_printf(out, "%s %.*s%s%.*s: %s\n", finding->name, ESP_FMT(finding->id),
                       finding->other.len ? " " : "", ESP_FMT(finding->other), finding->text);
        return;
    }
    esp_buf_printf(out, "\"name\":\"%s\",\"id\":", finding->name);
    esp_json_put_string(out, finding->id);
    ESP_BUF_LIT(out, ",\"other\":");
    esp_json_put_string(out, finding->other);
    ESP_BUF_LIT(out, ",\"text\":");
    esp_json_put_string(out, esp_str_from(finding->text));
}
