/* espalier edit: one write operation. */
#include "cli/shared.h"
#include "importers/columns.h"

enum { OUTPUT_BYTES_MAX = 1 << 20, DATA_BYTES_MAX = 32 << 20, NAMES_BYTES_MAX = 1 << 20 };

struct edit_options {
    struct esp_cli_options shared;
    struct esp_strings data, remove;
    const char *data_json;
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
    if (has_data && op != ESP_OP_INSERT && op != ESP_OP_UPDATE) {
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

static enum esp_status print_result(struct esp_cli *cli, const struct edit_options *o,
                                    enum esp_op op, const struct esp_usage *usage) {
    struct esp_buf out;
    esp_buf_init(&out, cli->alloc, OUTPUT_BYTES_MAX);
    if (o->shared.json) {
        esp_buf_printf(&out, "{\"schema\":1,\"operation\":\"%s\",", esp_op_info[op].name);
        esp_cli_put_cost_json(&out, usage, true);
        ESP_BUF_LIT(&out, "}\n");
    } else {
        esp_cli_put_cost(&out, usage, true);
    }
    enum esp_status status = esp_cli_print(cli, &out);
    esp_buf_fini(&out);
    return status;
}

/* A store with trials does the whole operation or nothing of it, and lets nobody write in
 * between; elsewhere it is as many requests as the layout's plan has. */
static enum esp_status operate(struct esp_cli_access *t, enum esp_op op,
                               const struct esp_args *args) {
    const struct esp_store_ops *ops = t->store->ops;
    bool whole = ops->trial_begin != NULL;
    enum esp_status status = whole ? ops->trial_begin(t->session, t->access.err) : ESP_OK;
    if (status != ESP_OK) {
        return status;
    }
    status = esp_operate(&t->access, op, args, NULL, NULL);
    if (whole) {
        bool keep = status == ESP_OK;
        enum esp_status ended = ops->trial_end(t->session, keep, keep ? t->access.err : NULL);
        status = keep ? ended : status;
    }
    return status;
}

static enum esp_status write_node(struct esp_cli *cli, const struct edit_options *o, enum esp_op op,
                                  char **words, size_t count, struct esp_data data,
                                  const char *store) {
    struct esp_str removed[ESP_OPTION_LIST_MAX];
    struct esp_args args = {.data = data, .remove = removed, .remove_count = o->remove.count};
    struct esp_cli_access t;
    for (size_t i = 0; i < o->remove.count; i++) {
        removed[i] = esp_str_from(o->remove.value[i]);
    }
    if (op == ESP_OP_INSERT) {
        args.id = esp_str_from(words[0]);
    } else {
        args.at.id = esp_str_from(words[0]);
    }
    if (count > 1) {
        args.to.id = esp_str_from(words[1]);
    }
    enum esp_status status = esp_cli_access_open(cli, &o->shared, store, &t);
    if (status == ESP_OK) {
        status = operate(&t, op, &args);
        if (status == ESP_OK) {
            status = print_result(cli, o, op, &t.session->usage);
        } else {
            esp_fail(&cli->err, status, "%s: %s", esp_op_info[op].name, esp_status_text(status));
        }
    }
    esp_cli_access_close(&t);
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
        status = write_node(cli, o, op, operands + 2, count - 2, data, operands[0]);
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
        "insert, update: an attribute; may be repeated"),
    OWN(data_json, ESP_OPT_STRING, "data-json", "OBJECT", "insert, update: attributes as JSON"),
    OWN(remove, ESP_OPT_LIST, "remove", "NAME", "update: take an attribute away; may be repeated"),
    {.name = NULL}};
static const struct esp_option *const tables[] = {
    esp_cli_table_options, esp_cli_layout_options, own_options, esp_cli_read_options,
    esp_cli_json_option,   esp_cli_store_options,  NULL};

const struct esp_command esp_command_edit = {
    .name = "edit",
    .summary = "do one write operation: insert, update, move, remove",
    .operands = "STORE OPERATION [ARGUMENT...]",
    .required = "--table NAME --layout LAYOUT",
    .details =
        "insert ID [PARENT], update ID, move ID [PARENT], remove ID. Without a parent the node\n"
        "becomes a root. remove deletes the whole subtree.\n",
    .example =
        "  espalier edit local:db --table world --layout path insert X1 150 --data name=New\n"
        "  espalier edit local:db --table world --layout path update X1 --data pop:N=5\n",
    .options = tables,
    .options_size = sizeof(struct edit_options),
    .operand_min = 2,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
