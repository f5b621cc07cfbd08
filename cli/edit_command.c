/* espalier edit: one write operation. */
#include "cli/edit_report.h"
#include "importers/columns.h"
#include "loader/lock.h"

#include <stdio.h>

enum {
    DATA_BYTES_MAX = 32 << 20,
    NAMES_BYTES_MAX = 1 << 20,
    COMMAND_BYTES_MAX = 1 << 16,
    LOCK_SECONDS = 60
};

struct edit_options {
    struct esp_cli_options shared;
    struct esp_strings data, remove;
    const char *data_json;
    bool dry_run, atomic;
    const char *lock; /* NULL: no; "": LOCK_SECONDS */
    const char *journal;
    uint64_t limit;
};

/* A payload being put together from the options. */
struct payload {
    struct esp_cli *cli;
    struct esp_arena arena;
    struct esp_buf text;
    uint32_t size;
};

/* --- payload from options ----------------------------------------------------------------- */

static enum esp_status refuse_twice(struct payload *p, struct esp_str name) {
    struct esp_str value;
    struct esp_data so_far = {p->text.ptr, (uint32_t)p->text.len, p->size};
    if (p->text.len && esp_data_find(so_far, name, &value)) {
        return esp_fail(&p->cli->err, ESP_ERR_USAGE, "attribute %.*s is given twice",
                        ESP_FMT(name));
    }
    return ESP_OK;
}

/* KEY=VALUE, or KEY:TYPE=VALUE. */
static enum esp_status add_pair(struct payload *p, const char *pair) {
    const char *equals = strchr(pair, '=');
    if (!equals || equals == pair) {
        return esp_fail(&p->cli->err, ESP_ERR_USAGE,
                        "--data takes NAME=VALUE or NAME:TYPE=VALUE, not '%s'", pair);
    }
    struct esp_str name = {pair, (size_t)(equals - pair)};
    struct esp_source_options types = {.from = NULL};
    if (memchr(pair, ':', name.len)) {
        struct esp_str typed = esp_arena_dup(&p->arena, name);
        if (!typed.ptr) {
            return esp_fail_nomem(&p->cli->err);
        }
        types.column.value[types.column.count++] = typed.ptr;
        name = esp_column_option_name(typed.ptr);
    }
    struct esp_column column;
    if (esp_column_options_check(&types, NULL) != ESP_OK) {
        return esp_fail(&p->cli->err, ESP_ERR_USAGE,
                        "--data %s: the type is none of S N BOOL NULL L M SS NS B", pair);
    }
    enum esp_status status = refuse_twice(p, name);
    if (status == ESP_OK) {
        status = esp_column_init(&column, &p->arena, name, &types, &p->cli->err);
    }
    if (status == ESP_OK) {
        size_t before = p->text.len;
        if (before) {
            esp_buf_put_char(&p->text, ',');
        }
        size_t start = p->text.len;
        status = esp_column_put(&column, esp_str_from(equals + 1), false, &p->text, &p->size,
                                &p->cli->err);
        if (p->text.len == start) { /* an empty value makes no attribute */
            p->text.len = before;
        }
    }
    return status;
}

static enum esp_status take_record(void *ctx, const struct esp_record *record,
                                   struct esp_error *err) {
    struct payload *p = ctx;
    (void)err;
    if (record->data.len) {
        esp_buf_put(&p->text, record->data.text, record->data.len);
        p->size += record->data.size;
    }
    return ESP_OK;
}

/* The JSON importer knows how plain JSON becomes attributes: it is given a record of one node
 * whose id has a name that no attribute has. */
static enum esp_status add_json(struct payload *p, const char *json) {
    static const char id_key[] = "\001espalier-id";
    const struct esp_source_options keys = {
        .from = "json", .id = id_key, .parent = "\001espalier-parent", .children = "\001children"};
    const struct esp_importer *importer = esp_importer_find("json");
    struct esp_str text = esp_str_from(json + strspn(json, " \t\r\n"));
    struct esp_reader *reader = NULL;
    struct esp_error failure = ESP_ERROR_INIT;
    if (text.len == 0 || text.ptr[0] != '{' || !importer) {
        return esp_fail(&p->cli->err, ESP_ERR_USAGE, "--data-json takes a JSON object, not '%s'",
                        json);
    }
    const char *first = text.ptr + 1 + strspn(text.ptr + 1, " \t\r\n");
    struct esp_str record = esp_arena_fmt(&p->arena, "[{\"\\u0001espalier-id\":\"x\"%s%s]",
                                          *first == '}' ? "" : ",", first);
    if (!record.ptr) {
        return esp_fail_nomem(&p->cli->err);
    }
    enum esp_status status =
        esp_reader_open_memory(record, "--data-json", p->cli->alloc, &reader, &failure);
    if (status == ESP_OK) {
        status = importer->run(reader, &keys, p->cli->alloc, take_record, p, &failure);
    }
    esp_reader_close(reader);
    if (status != ESP_OK) { /* positions would be those of the wrapped text */
        return esp_fail(&p->cli->err, status, "--data-json: %s", failure.message);
    }
    return ESP_OK;
}

static enum esp_status gather(struct payload *p, const struct edit_options *o,
                              struct esp_data *out) {
    enum esp_status status = o->data_json ? add_json(p, o->data_json) : ESP_OK;
    for (size_t i = 0; status == ESP_OK && i < o->data.count; i++) {
        status = add_pair(p, o->data.value[i]);
    }
    if (status == ESP_OK && p->text.failed) {
        status = esp_fail_nomem(&p->cli->err);
    }
    *out = (struct esp_data){p->text.ptr, (uint32_t)p->text.len, p->size};
    return status;
}

/* --- the operation -------------------------------------------------------------------------- */

static enum esp_status check_use(struct esp_cli *cli, const struct edit_options *o,
                                 enum esp_op op) {
    bool has_data = o->data.count || o->data_json;
    const char *name = esp_op_info[op].name;
    if (has_data && op != ESP_OP_INSERT && op != ESP_OP_UPDATE && op != ESP_OP_LINK) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s takes no --data", name);
    }
    if (o->remove.count && op != ESP_OP_UPDATE) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s takes no --remove", name);
    }
    if (op == ESP_OP_UPDATE && !has_data && !o->remove.count) {
        return esp_fail(&cli->err, ESP_ERR_USAGE,
                        "update needs --data NAME=VALUE, --data-json or --remove NAME");
    }
    return ESP_OK;
}

static enum esp_status lock_seconds(struct esp_cli *cli, const char *text, uint64_t *out) {
    static const struct esp_option number[] = {
        {.name = "lock", .type = ESP_OPT_U64, .argument = "SECONDS"}, {.name = NULL}};
    *out = text ? LOCK_SECONDS : 0;
    enum esp_status status =
        text && text[0] ? esp_option_set(number, out, "lock", text, &cli->err) : ESP_OK;
    return status == ESP_OK && text && (*out == 0 || *out > ESP_LOCK_SECONDS_MAX)
               ? esp_fail(&cli->err, ESP_ERR_USAGE, "--lock=%s: 1 to %d seconds", text,
                          ESP_LOCK_SECONDS_MAX)
               : status;
}

/* The words of the command line as the operation's arguments. */
static void name_nodes(enum esp_op op, char **words, size_t count, struct esp_args *args) {
    struct esp_str word[4] = {{"", 0}};
    for (size_t i = 0; i < count && i < sizeof word / sizeof word[0]; i++) {
        word[i] = esp_str_from(words[i]);
    }
    bool edge = op == ESP_OP_LINK || op == ESP_OP_UNLINK;
    args->to.id = word[edge ? 2 : 1];
    if (op == ESP_OP_INSERT) {
        args->id = word[0];
    } else if (op != ESP_OP_INSERT_SUBTREE) { /* whose first word is a file */
        args->at.id = word[0];
    }
    if (edge) {
        args->type = word[1];
        args->weight = word[3];
    }
}

/* As one types it. */
static void put_word(struct esp_buf *out, const char *word) {
    bool plain = word[0] != '\0';
    for (const char *at = word; *at; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
        plain = plain && (letter || (*at >= '0' && *at <= '9') || strchr("_-.:/=,+@%", *at));
    }
    ESP_BUF_LIT(out, " ");
    if (plain) {
        esp_buf_put_str(out, esp_str_from(word));
        return;
    }
    esp_buf_put_char(out, '\'');
    for (const char *at = word; *at; at++) {
        if (*at == '\'') {
            ESP_BUF_LIT(out, "'\\''");
        } else {
            esp_buf_put_char(out, *at);
        }
    }
    esp_buf_put_char(out, '\'');
}

/* The command that finishes or undoes this edit, should it be cut. */
static const char *repair_command(const struct edit_options *o, const char *store,
                                  struct esp_buf *out) {
    ESP_BUF_LIT(out, "`espalier repair");
    put_word(out, store);
    ESP_BUF_LIT(out, " --table");
    put_word(out, o->shared.table);
    ESP_BUF_LIT(out, " --layout");
    put_word(out, o->shared.layout);
    for (size_t i = 0; i < o->shared.set.count; i++) {
        ESP_BUF_LIT(out, " --set");
        put_word(out, o->shared.set.value[i]);
    }
    if (o->journal) {
        ESP_BUF_LIT(out, " --journal");
        put_word(out, o->journal);
    }
    ESP_BUF_LIT(out, "`");
    return esp_buf_cstr(out);
}

/* What the dry run's plan is handed on to. */
static enum esp_status report_plan(void *ctx, const struct esp_images *images) {
    return esp_edit_report_plan(ctx, images);
}

static void warn_taken_over(struct esp_str tree, struct esp_str owner) {
    fprintf(stderr,
            "espalier: warning: the lock of the tree '%.*s' had run out and is taken over from "
            "%.*s, whose edit may be half done: run check\n",
            ESP_FMT(tree), ESP_FMT(owner));
}

static enum esp_status carry_out(struct esp_cli *cli, const struct edit_options *o,
                                 struct esp_cli_access *t, enum esp_op op,
                                 const struct esp_args *args, char **operands, size_t count) {
    struct esp_edit_report report = {.cli = cli,
                                     .options = &o->shared,
                                     .op = op,
                                     .schema = &t->layout.schema,
                                     .limit = o->limit};
    struct esp_strings words = {.count = 0};
    struct esp_edit_options options = {
        .dry_run = o->dry_run,
        .atomic = o->atomic,
        .journal = o->journal,
        .edit = {t->layout.ops->name, &o->shared.set, esp_op_info[op].name, &words},
        .planned = o->dry_run ? report_plan : NULL,
        .took_over = warn_taken_over,
        .ctx = &report,
    };
    struct esp_edit_result result;
    struct esp_buf command;
    for (size_t i = 2; i < count && words.count < ESP_OPTION_LIST_MAX; i++) {
        words.value[words.count++] = operands[i];
    }
    esp_buf_init(&command, cli->alloc, COMMAND_BYTES_MAX);
    options.repair_command = repair_command(o, operands[0], &command);
    enum esp_status status = lock_seconds(cli, o->lock, &options.lock_s);
    if (status == ESP_OK && !options.repair_command) {
        status = esp_fail_nomem(&cli->err);
    }
    if (status == ESP_OK) {
        status = esp_edit_run(&t->access, op, args, &options, &result);
    }
    if (status == ESP_OK) {
        status = esp_edit_report_end(&report, &result, o->dry_run, &t->session->usage);
    } else {
        esp_fail(&cli->err, status, "%s: %s", esp_op_info[op].name, esp_status_text(status));
    }
    esp_buf_fini(&command);
    return status;
}

static enum esp_status write_node(struct esp_cli *cli, const struct edit_options *o, enum esp_op op,
                                  char **operands, size_t count, struct esp_data data) {
    struct esp_str removed[ESP_OPTION_LIST_MAX];
    struct esp_args args = {.data = data, .remove = removed, .remove_count = o->remove.count};
    struct esp_forest *subtree = NULL;
    struct esp_cli_access t;
    memset(&t, 0, sizeof t);
    for (size_t i = 0; i < o->remove.count; i++) {
        removed[i] = esp_str_from(o->remove.value[i]);
    }
    name_nodes(op, operands + 2, count - 2, &args);
    enum esp_status status = ESP_OK;
    if (op == ESP_OP_INSERT_SUBTREE) {
        status = esp_cli_read_source(cli, &o->shared, operands + 2, 1, &subtree, NULL);
        args.subtree = subtree;
    }
    if (status == ESP_OK) {
        status = esp_cli_access_open(cli, &o->shared, operands[0], &t);
    }
    if (status == ESP_OK && subtree) {
        status = esp_cli_validate(cli, &t.layout, subtree, operands + 2, 1);
    }
    if (status == ESP_OK) {
        status = carry_out(cli, o, &t, op, &args, operands, count);
    }
    esp_cli_access_close(&t);
    esp_forest_free(subtree);
    return status;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct edit_options *o = options;
    struct payload payload = {.cli = cli};
    struct esp_data data;
    enum esp_op op;
    enum esp_status status = esp_cli_operation(cli, operands[1], true, count - 2, &op);
    if (status == ESP_OK) {
        status = check_use(cli, o, op);
    }
    if (status != ESP_OK) {
        return status;
    }
    esp_arena_init(&payload.arena, cli->alloc, NAMES_BYTES_MAX);
    esp_buf_init(&payload.text, cli->alloc, DATA_BYTES_MAX);
    status = gather(&payload, o, &data);
    if (status == ESP_OK) {
        status = write_node(cli, o, op, operands, count, data);
    }
    esp_buf_fini(&payload.text);
    esp_arena_fini(&payload.arena);
    return status;
}

#define OWN(field, kind, flag, argument_text, help_text)                                           \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct edit_options, field),                \
        .argument = argument_text, .help = help_text                                               \
    }
static const struct esp_option own_options[] = {
    OWN(data, ESP_OPT_LIST, "data", "NAME[:TYPE]=VALUE",
        "insert, update, link: an attribute; may be repeated"),
    OWN(data_json, ESP_OPT_STRING, "data-json", "OBJECT",
        "insert, update, link: attributes as JSON"),
    OWN(remove, ESP_OPT_LIST, "remove", "NAME", "update: take an attribute away; may be repeated"),
    OWN(dry_run, ESP_OPT_FLAG, "dry-run", NULL, "plan and price it; write nothing"),
    OWN(atomic, ESP_OPT_FLAG, "atomic", NULL,
        "in one transaction of at most 100 items, at twice the write units"),
    OWN(lock, ESP_OPT_OPTFLAG, "lock", "SECONDS",
        "lock against edits with --lock; those without may read it half done (60)"),
    OWN(journal, ESP_OPT_STRING, "journal", "FILE",
        "what was and shall be, for repair (a file in ~/.local/state/espalier)"),
    {.name = "limit",
     .type = ESP_OPT_U64,
     .offset = offsetof(struct edit_options, limit),
     .argument = "N",
     .fallback = "20",
     .help = "writes that --dry-run shows"},
    {.name = NULL}};
static const struct esp_option *const tables[] = {
    esp_cli_table_options, esp_cli_layout_options,  own_options,           esp_cli_read_options,
    esp_cli_json_option,   esp_source_option_table, esp_cli_store_options, NULL};

const struct esp_command esp_command_edit = {
    .name = "edit",
    .summary = "do one write operation: insert, update, move, remove ...",
    .operands = "STORE OPERATION [ARGUMENT...]",
    .required = "--table NAME --layout LAYOUT",
    .details =
        "insert ID [PARENT], insert-subtree FILE [PARENT], update ID, move ID [PARENT],\n"
        "promote ID, remove ID; in graph also link ID TYPE OTHER [WEIGHT] and\n"
        "unlink ID TYPE OTHER. Without a parent the node becomes a root. remove deletes the\n"
        "whole subtree; promote deletes one node and gives its children to its parent.\n"
        "\n"
        "On an endpoint an edit of several items is planned first and written to a journal.\n"
        "Every write is conditional: when another writer was there, the edit is taken back\n"
        "and ends with 3. When it is cut, repair finishes or undoes it.\n",
    .example =
        "  espalier edit local:db --table world --layout path insert X1 150 --data name=New\n"
        "  espalier edit local:db --table world --layout path update X1 --data pop:N=5\n"
        "  espalier edit dynamodb: --table world --layout path move 150 142 --dry-run\n"
        "  espalier edit local:db --table world --layout path insert-subtree more.csv 150\n",
    .options = tables,
    .options_size = sizeof(struct edit_options),
    .operand_min = 2,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
