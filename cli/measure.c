#include "cli/measure.h"

#include "bench/sample.h"
#include "cli/progress.h"
#include <errno.h>
#include <stdio.h>

enum { LAYOUTS_MAX = 32, TEXT_BYTES_MAX = 1 << 20, REPORT_BYTES_MAX = 64 << 20 };

static const char *const addressings[] = {"id", "key", NULL};

#define FIELD(name) offsetof(struct esp_measure_options, name)
const struct esp_option esp_measure_option_table[] = {
    {.name = "layouts",
     .type = ESP_OPT_STRING,
     .offset = FIELD(layouts),
     .argument = "A,B,...",
     .help = "layouts to measure (default all)"},
    {.name = "set",
     .type = ESP_OPT_LIST,
     .offset = FIELD(common.set),
     .argument = "[LAYOUT.]KEY=VALUE",
     .help = "a layout's setting, for every layout that has it or for one"},
    {.name = "store",
     .type = ESP_OPT_STRING,
     .offset = FIELD(store),
     .argument = "STORE",
     .fallback = "local:",
     .help = "where to measure; local: alone is a temporary one"},
    {.name = "sample",
     .type = ESP_OPT_U64,
     .offset = FIELD(sample),
     .argument = "N",
     .fallback = "200",
     .help = "nodes each operation is tried on"},
    {.name = "seed",
     .type = ESP_OPT_U64,
     .offset = FIELD(seed),
     .argument = "N",
     .fallback = "1",
     .help = "decides which nodes"},
    {.name = "addressing",
     .type = ESP_OPT_CHOICE,
     .offset = FIELD(addressing),
     .argument = "id|key",
     .fallback = "id",
     .help = "who looks up a node's key: the layout (counted), or the caller knows it",
     .choices = addressings},
    {.name = "workers",
     .type = ESP_OPT_U64,
     .offset = FIELD(workers),
     .argument = "N",
     .fallback = "0",
     .help = "threads of the load (0: one a core)"},
    {.name = "round-trip-ms",
     .type = ESP_OPT_DOUBLE,
     .offset = FIELD(round_trip_ms),
     .argument = "MS",
     .fallback = "1",
     .help = "of the modelled latency"},
    {.name = "table-prefix",
     .type = ESP_OPT_STRING,
     .offset = FIELD(table_prefix),
     .argument = "NAME",
     .fallback = "espalier-compare",
     .help = "tables are NAME-LAYOUT"},
    {.name = "keep-tables",
     .type = ESP_OPT_FLAG,
     .offset = FIELD(keep_tables),
     .help = "do not drop the tables at the end"},
    {.name = "prices",
     .type = ESP_OPT_STRING,
     .offset = FIELD(prices),
     .argument = "FILE",
     .help = "prices to use instead of the built-in ones"},
    {.name = "report",
     .type = ESP_OPT_STRING,
     .offset = FIELD(report),
     .argument = "FILE",
     .help = "write a report: FILE.md or FILE.json"},
    {.name = "no-report",
     .type = ESP_OPT_FLAG,
     .offset = FIELD(no_report),
     .help = "write no report files"},
    {.name = NULL},
};
#undef FIELD

/* --- comma-separated lists ------------------------------------------------------------ */

/* The next name of "a,b,c"; false at the end. */
static bool next_name(const char **list, char *out, size_t size) {
    size_t len = strcspn(*list, ",");
    if ((*list)[0] == '\0') {
        return false;
    }
    snprintf(out, size, "%.*s", (int)len, *list);
    *list += len + ((*list)[len] == ',');
    return true;
}

static const char *operation_name(size_t i) {
    return esp_op_info[i].name;
}

enum esp_status esp_measure_operations(struct esp_cli *cli, const char *list,
                                       bool op[ESP_OP_COUNT_ALL]) {
    char name[64];
    for (int i = 0; i < ESP_OP_COUNT_ALL; i++) {
        op[i] = !list && esp_op_measured(i);
    }
    while (list && next_name(&list, name, sizeof name)) {
        int found = esp_op_find(name);
        if (found < 0) {
            const char *near = esp_cli_nearest(name, operation_name, ESP_OP_COUNT_ALL);
            return esp_fail(&cli->err, ESP_ERR_USAGE, "there is no operation \"%s\"%s%s%s", name,
                            near ? "; did you mean \"" : ": see espalier list operations",
                            near ? near : "", near ? "\"?" : "");
        }
        if (!esp_op_measured(found)) {
            return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is not an operation that is compared",
                            name);
        }
        op[found] = true;
    }
    return ESP_OK;
}

/* --- layouts and their settings --------------------------------------------------------- */

static bool starts_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether KEY=VALUE is for this layout.  A text that starts with a layout's name and a dot is
 * for that one alone (*text is then what follows); renamings need that when there are several. */
static bool is_for(const struct esp_layout_ops *ops, const char **text) {
    size_t len = strlen(ops->name);
    if (starts_with(*text, ops->name) && (*text)[len] == '.') {
        *text += len + 1;
        return true;
    }
    for (const struct esp_option *o = ops->options; o && o->name; o++) {
        size_t name_len = strlen(o->name);
        if (starts_with(*text, o->name) && (*text)[name_len] == '=') {
            return true;
        }
    }
    return false;
}

static enum esp_status open_layout(struct esp_cli *cli, const char *name,
                                   const struct esp_strings *sets, bool alone, bool *used,
                                   struct esp_layout *out) {
    struct esp_strings own = {.count = 0};
    const struct esp_layout_ops *ops = esp_layout_find(name);
    for (size_t i = 0; ops && i < sets->count; i++) {
        const char *text = sets->value[i];
        if (is_for(ops, &text) || alone) {
            own.value[own.count++] = text;
            used[i] = true;
        }
    }
    return esp_cli_layout_open(cli, name, &own, out);
}

static enum esp_status open_layouts(struct esp_cli *cli, const struct esp_measure_options *options,
                                    struct esp_measurement *m) {
    const struct esp_strings *sets = &options->common.set;
    bool used[ESP_OPTION_LIST_MAX] = {false};
    const char *list = options->layouts;
    bool alone = list && list[0] && !strchr(list, ',');
    enum esp_status status = ESP_OK;
    char name[64];
    m->layouts = esp_calloc(cli->alloc, LAYOUTS_MAX, sizeof *m->layouts);
    if (!m->layouts) {
        return esp_fail_nomem(&cli->err);
    }
    size_t n = 0;
    for (;; n++) {
        if (list ? !next_name(&list, name, sizeof name) : !esp_layouts[n]) {
            break;
        }
        if (n == LAYOUTS_MAX) {
            return esp_fail(&cli->err, ESP_ERR_USAGE, "more than %d layouts", LAYOUTS_MAX);
        }
        status = open_layout(cli, options->layouts ? name : esp_layouts[n]->name, sets, alone, used,
                             &m->layouts[n]);
        for (size_t i = 0; i < n && status == ESP_OK; i++) {
            if (m->layouts[i].ops == m->layouts[n].ops) {
                status = esp_fail(&cli->err, ESP_ERR_USAGE, "--layouts names %s twice", name);
            }
        }
        if (status != ESP_OK) {
            return status;
        }
    }
    for (size_t i = 0; i < sets->count; i++) {
        if (!used[i]) {
            cli->hint = "say which layout it is for: --set LAYOUT.KEY=VALUE";
            return esp_fail(&cli->err, ESP_ERR_USAGE, "--set %s: no layout measured has that",
                            sets->value[i]);
        }
    }
    m->options.layouts = m->layouts;
    m->options.layout_count = n;
    return n ? ESP_OK : esp_fail(&cli->err, ESP_ERR_USAGE, "--layouts names none");
}

/* --- how to repeat it -------------------------------------------------------------------- */

static void put_shell_word(struct esp_buf *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=:,./@%";
    if (word[0] && word[strspn(word, plain)] == '\0') {
        esp_buf_put_str(out, esp_str_from(word));
        return;
    }
    esp_buf_put_char(out, '\'');
    for (; *word; word++) {
        if (*word == '\'') {
            ESP_BUF_LIT(out, "'\\''");
        } else {
            esp_buf_put_char(out, *word);
        }
    }
    esp_buf_put_char(out, '\'');
}

static void put_option(struct esp_buf *out, const struct esp_option *o, const char *value) {
    esp_buf_printf(out, " --%s", o->name);
    if (value) {
        esp_buf_put_char(out, o->type == ESP_OPT_OPTFLAG ? '=' : ' ');
        put_shell_word(out, value);
    }
}

/* The option, if it was given another value than it has by itself. */
static void put_if_given(struct esp_buf *out, const struct esp_option *o, const void *values,
                         const void *fallbacks) {
    const char *at = (const char *)values + o->offset;
    const char *other = (const char *)fallbacks + o->offset;
    char number[32];
    switch (o->type) {
    case ESP_OPT_FLAG:
        if (*(const bool *)at) {
            put_option(out, o, NULL);
        }
        break;
    case ESP_OPT_STRING:
    case ESP_OPT_OPTFLAG: {
        const char *text = *(const char *const *)(const void *)at;
        const char *usual = *(const char *const *)(const void *)other;
        if (text && (!usual || strcmp(text, usual) != 0)) {
            put_option(out, o, o->type == ESP_OPT_OPTFLAG && !text[0] ? NULL : text);
        }
        break;
    }
    case ESP_OPT_U64:
        if (memcmp(at, other, sizeof(uint64_t)) != 0) {
            snprintf(number, sizeof number, "%llu",
                     (unsigned long long)*(const uint64_t *)(const void *)at);
            put_option(out, o, number);
        }
        break;
    case ESP_OPT_DOUBLE:
        if (memcmp(at, other, sizeof(double)) != 0) {
            snprintf(number, sizeof number, "%.12g", *(const double *)(const void *)at);
            put_option(out, o, number);
        }
        break;
    case ESP_OPT_CHOICE:
        if (memcmp(at, other, sizeof(int)) != 0) {
            put_option(out, o, o->choices[*(const int *)(const void *)at]);
        }
        break;
    case ESP_OPT_LIST: {
        const struct esp_strings *list = (const void *)at;
        for (size_t i = 0; i < list->count; i++) {
            put_option(out, o, list->value[i]);
        }
        break;
    }
    }
}

/* The command line again, from the values of its options. */
static enum esp_status describe_command(struct esp_cli *cli, const void *options, char **operands,
                                        size_t count, struct esp_buf *out) {
    size_t size = cli->command->options_size;
    void *fallbacks = esp_calloc(cli->alloc, 1, size);
    enum esp_status status = fallbacks ? ESP_OK : esp_fail_nomem(&cli->err);
    esp_buf_printf(out, "espalier %s", cli->command->name);
    for (size_t i = 0; i < count; i++) {
        esp_buf_put_char(out, ' ');
        put_shell_word(out, operands[i]);
    }
    for (size_t t = 0; cli->command->options[t] && status == ESP_OK; t++) {
        const struct esp_option *table = cli->command->options[t];
        status = esp_options_default(table, fallbacks, size, &cli->err);
        for (const struct esp_option *o = table; o->name && status == ESP_OK; o++) {
            put_if_given(out, o, options, fallbacks);
        }
    }
    esp_release(cli->alloc, fallbacks, size);
    return status;
}

/* --- measuring ---------------------------------------------------------------------------- */

/* A report that cannot be written should be known before anything is measured. */
static enum esp_status check_report_path(struct esp_cli *cli, const char *path) {
    FILE *file = path ? fopen(path, "a") : NULL;
    if (path && !file) {
        int number = errno;
        return esp_fail(&cli->err, esp_cli_open_status(number), "cannot write %s: %s", path,
                        strerror(number));
    }
    if (file) {
        fclose(file);
    }
    return ESP_OK;
}

/* What can be known to be wrong before anything is read. */
static enum esp_status check_options(struct esp_cli *cli, const struct esp_measure_options *options,
                                     struct esp_measurement *m) {
    if (options->sample == 0 || options->sample > ESP_SAMPLE_MAX) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--sample %llu: must be 1 to %d",
                        (unsigned long long)options->sample, ESP_SAMPLE_MAX);
    }
    if (options->workers > UINT32_MAX) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--workers %llu: too many",
                        (unsigned long long)options->workers);
    }
    if (!(options->round_trip_ms > 0)) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--round-trip-ms must be above 0");
    }
    if (options->report && options->no_report) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--report and --no-report exclude each other");
    }
    if (options->report) {
        m->reporter = esp_reporter_find(options->report);
        if (!m->reporter || !m->reporter->extension) {
            return esp_fail(&cli->err, ESP_ERR_USAGE,
                            "--report %s: reports are written as FILE.md or FILE.json",
                            options->report);
        }
    }
    return check_report_path(cli, options->report);
}

/* A layout that cannot hold the tree is an error when it was asked for, else it is left out. */
static enum esp_status keep_fitting_layouts(struct esp_cli *cli,
                                            const struct esp_measure_options *options,
                                            char **operands, size_t count,
                                            struct esp_measurement *m) {
    size_t kept = 0, had = m->options.layout_count;
    for (size_t i = 0; i < had; i++) {
        enum esp_status status = esp_cli_validate(cli, &m->layouts[i], m->forest, operands, count);
        if (status == ESP_OK) {
            m->layouts[kept++] = m->layouts[i];
            continue;
        }
        bool last = kept == 0 && i + 1 == had;
        if (options->layouts || last || esp_status_class(status) != ESP_CLASS_USER) {
            return status;
        }
        fprintf(stderr, "espalier: %s is left out: %s\n", m->layouts[i].ops->name,
                cli->err.message);
        esp_error_clear(&cli->err);
    }
    m->options.layout_count = kept;
    return ESP_OK;
}

static enum esp_status open_all(struct esp_cli *cli, const struct esp_measure_options *options,
                                char **operands, size_t count, struct esp_measurement *m) {
    enum esp_status status = check_options(cli, options, m);
    if (status == ESP_OK) {
        status = open_layouts(cli, options, m);
    }
    if (status == ESP_OK) {
        status = esp_prices_load(options->prices, options->common.region, cli->alloc, &m->prices,
                                 &cli->err);
        if (status == ESP_ERR_USAGE) {
            cli->hint = "give prices of your region with --prices FILE";
        }
    }
    if (status == ESP_OK) {
        status = describe_command(cli, options, operands, count, &m->command);
    }
    for (size_t i = 0; i < count; i++) {
        esp_buf_printf(&m->source_name, "%s%s", i ? ", " : "",
                       strcmp(operands[i], "-") == 0 ? "stdin" : operands[i]);
    }
    if (status == ESP_OK) {
        status = esp_cli_read_source(cli, &options->common, operands, count, &m->forest, NULL);
    }
    if (status == ESP_OK) {
        status = keep_fitting_layouts(cli, options, operands, count, m);
    }
    if (status == ESP_OK) {
        status = esp_cli_store_open(cli, &options->common, options->store, &m->store);
    }
    return status;
}

enum esp_status esp_measure_run(struct esp_cli *cli, const struct esp_measure_options *options,
                                const bool op[ESP_OP_COUNT_ALL], char **operands, size_t count,
                                struct esp_measurement *out) {
    memset(out, 0, sizeof *out);
    esp_buf_init(&out->source_name, cli->alloc, TEXT_BYTES_MAX);
    esp_buf_init(&out->command, cli->alloc, TEXT_BYTES_MAX);
    enum esp_status status = open_all(cli, options, operands, count, out);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_compare_options *c = &out->options;
    struct esp_cli_progress progress;
    memcpy(c->op, op, sizeof c->op);
    c->sample = (uint32_t)options->sample;
    c->seed = options->seed;
    c->addressing = (enum esp_addressing)options->addressing;
    c->consistent = options->common.consistent;
    c->workers = (uint32_t)options->workers;
    c->round_trip_ms = options->round_trip_ms;
    c->table_prefix = options->table_prefix;
    c->keep_tables = options->keep_tables;
    c->source_name = esp_buf_cstr(&out->source_name);
    c->command = esp_buf_cstr(&out->command);
    if (!c->source_name || !c->command) {
        return esp_fail_nomem(&cli->err);
    }
    status = esp_cli_progress_init(cli, &options->common, &progress);
    if (status != ESP_OK) {
        return status;
    }
    out->compared = true;
    status = esp_compare_run(out->forest, out->store, c, &out->prices, esp_cli_catch_signals(),
                             esp_cli_progress_step, &progress, &out->comparison, &cli->err);
    esp_cli_progress_end(&progress);
    if (status == ESP_ERR_EXISTS) {
        cli->hint = "drop that table, or choose other names with --table-prefix NAME";
    }
    return status;
}

void esp_measure_close(struct esp_cli *cli, struct esp_measurement *m) {
    if (m->compared) {
        esp_comparison_fini(&m->comparison, cli->alloc);
    }
    esp_store_close(m->store);
    esp_forest_free(m->forest);
    esp_release(cli->alloc, m->layouts, LAYOUTS_MAX * sizeof *m->layouts);
    esp_buf_fini(&m->source_name);
    esp_buf_fini(&m->command);
}

/* --- reports --------------------------------------------------------------------------------- */

static enum esp_status format(struct esp_cli *cli, const struct esp_reporter *reporter,
                              const struct esp_comparison *comparison,
                              const struct esp_plan_result *plan, struct esp_buf *out) {
    enum esp_status status = plan ? reporter->plan(plan, out) : reporter->compare(comparison, out);
    return status == ESP_OK ? ESP_OK : esp_fail_nomem(&cli->err);
}

static enum esp_status write_file(struct esp_cli *cli, const char *path, struct esp_str text) {
    FILE *file = fopen(path, "w");
    bool ok = file && fwrite(text.ptr, 1, text.len, file) == text.len;
    int os_errno = errno;
    if (file && fclose(file) != 0 && ok) {
        ok = false;
        os_errno = errno;
    }
    if (ok) {
        return ESP_OK;
    }
    cli->err.os_errno = os_errno;
    return esp_fail(&cli->err, ESP_ERR_IO, "%s cannot be written: %s", path, strerror(os_errno));
}

static enum esp_status write_report(struct esp_cli *cli, const struct esp_reporter *reporter,
                                    const struct esp_comparison *comparison,
                                    const struct esp_plan_result *plan, const char *path) {
    struct esp_buf text;
    esp_buf_init(&text, cli->alloc, REPORT_BYTES_MAX);
    enum esp_status status = format(cli, reporter, comparison, plan, &text);
    if (status == ESP_OK) {
        status = write_file(cli, path, esp_buf_str(&text));
    }
    esp_buf_fini(&text);
    return status;
}

/* BASE.EXTENSION for every format that is a file; their names are added to `names`. */
static enum esp_status write_default_reports(struct esp_cli *cli,
                                             const struct esp_comparison *comparison,
                                             const struct esp_plan_result *plan, const char *base,
                                             struct esp_buf *names) {
    enum esp_status status = ESP_OK;
    for (size_t i = 0; esp_reporters[i] && status == ESP_OK; i++) {
        const struct esp_reporter *reporter = esp_reporters[i];
        if (reporter->extension) {
            char path[64];
            snprintf(path, sizeof path, "%s.%s", base, reporter->extension);
            status = write_report(cli, reporter, comparison, plan, path);
            esp_buf_printf(names, "%s%s", names->len ? ", " : "", path);
        }
    }
    return status;
}

enum esp_status esp_measure_report(struct esp_cli *cli, const struct esp_measure_options *options,
                                   const struct esp_measurement *m,
                                   const struct esp_comparison *comparison,
                                   const struct esp_plan_result *plan, const char *base) {
    struct esp_buf text, names;
    esp_buf_init(&text, cli->alloc, REPORT_BYTES_MAX);
    esp_buf_init(&names, cli->alloc, TEXT_BYTES_MAX);
    enum esp_status status = format(cli, esp_reporter_find(options->common.json ? "json" : "table"),
                                    comparison, plan, &text);
    if (status == ESP_OK) {
        status = esp_cli_print(cli, &text);
    }
    if (status == ESP_OK && options->report) {
        status = write_report(cli, m->reporter, comparison, plan, options->report);
        esp_buf_printf(&names, "%s", options->report);
    } else if (status == ESP_OK && !options->no_report && !options->common.json) {
        status = write_default_reports(cli, comparison, plan, base, &names);
    }
    if (status == ESP_OK && names.len && !options->common.json) {
        esp_buf_printf(&text, "\nreport: %s\n", esp_buf_cstr(&names));
        status = esp_cli_print(cli, &text);
    }
    esp_buf_fini(&names);
    esp_buf_fini(&text);
    return status;
}
