/* espalier query: one read operation, its answer in a defined order, and what it cost. */
#include "cli/shared.h"
#include "converters/node_list.h"
#include "converters/paging.h"

#include <stdlib.h>

enum { OUTPUT_BYTES_MAX = 1 << 30, ROOT_ID_SHOWN_MAX = 200 };
static const size_t answer_bytes_max = (size_t)8 << 30;

struct query_options {
    struct esp_cli_options shared;
    bool cost;
    uint64_t limit; /* 0: the whole answer */
    const char *start;
};

static int by_id(const void *a, const void *b) {
    return esp_str_cmp(((const struct esp_node_view *)a)->id,
                       ((const struct esp_node_view *)b)->id);
}

/* --- arguments ------------------------------------------------------------------------ */

static enum esp_status parse_depth(struct esp_cli *cli, const char *text, uint32_t *out) {
    char *end = NULL;
    unsigned long long value = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end || value >= UINT32_MAX) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "'%s' is no depth: a whole number from 0", text);
    }
    *out = (uint32_t)value;
    return ESP_OK;
}

static enum esp_status parse_arguments(struct esp_cli *cli, enum esp_op op, char **words,
                                       size_t count, struct esp_args *args) {
    enum esp_status status = ESP_OK;
    if (count > 0) {
        args->at.id = esp_str_from(words[0]);
    }
    if (op == ESP_OP_IS_DESCENDANT || op == ESP_OP_LCA) {
        args->to.id = esp_str_from(words[1]);
    } else if (op == ESP_OP_NEIGHBOURS || op == ESP_OP_HYDRATE) {
        args->type = esp_str_from(words[1]);
        args->weight = esp_str_from(count > 2 ? words[2] : NULL);
    } else if (op == ESP_OP_LEVEL) {
        status = parse_depth(cli, words[1], &args->lo);
    } else if (op == ESP_OP_WINDOW) {
        args->hi = UINT32_MAX;
        status = parse_depth(cli, words[1], &args->lo);
        if (status == ESP_OK && strcmp(words[2], "max") != 0) {
            status = parse_depth(cli, words[2], &args->hi);
        }
        if (status == ESP_OK && args->lo > args->hi) {
            status = esp_fail(&cli->err, ESP_ERR_USAGE, "the window %s to %s is empty", words[1],
                              words[2]);
        }
    }
    return status;
}

/* level and tree start at a root: say which one it would be. */
static enum esp_status require_root(struct esp_cli *cli, struct esp_cli_access *t,
                                    const struct esp_args *args) {
    struct esp_answer above;
    enum esp_status status = esp_answer_read(&t->access, ESP_OP_ANCESTORS, &args->at, true, &above);
    if (status == ESP_OK && above.count > 0) {
        struct esp_str root = above.node[0].id;
        int shown = root.len < ROOT_ID_SHOWN_MAX ? (int)root.len : ROOT_ID_SHOWN_MAX;
        status =
            esp_fail(&cli->err, ESP_ERR_USAGE, "%.*s is not a root: the root of its tree is %.*s",
                     ESP_FMT(args->at.id), shown, root.ptr);
    }
    esp_arena_reset(&t->scratch);
    memset(&t->session->usage, 0, sizeof t->session->usage); /* not the operation's cost */
    return status;
}

/* --- output ----------------------------------------------------------------------------- */

static bool has_value(enum esp_op op) {
    return op == ESP_OP_COUNT || op == ESP_OP_IS_DESCENDANT;
}

static void put_edge_json(struct esp_buf *out, const struct esp_edge_view *edge) {
    ESP_BUF_LIT(out, ",\"edge\":{\"source\":");
    esp_json_put_string(out, edge->source);
    ESP_BUF_LIT(out, ",\"type\":");
    esp_json_put_string(out, edge->type);
    ESP_BUF_LIT(out, ",\"target\":");
    esp_json_put_string(out, edge->target);
    ESP_BUF_LIT(out, ",\"weight\":");
    esp_json_put_string(out, edge->weight);
    if (edge->has_data) {
        ESP_BUF_LIT(out, ",\"attributes\":{");
        esp_data_put_plain_json(out, edge->data);
        ESP_BUF_LIT(out, "}");
    }
    ESP_BUF_LIT(out, "}");
}

static void put_node_json(struct esp_buf *out, const struct esp_node_view *node) {
    ESP_BUF_LIT(out, "{\"id\":");
    esp_json_put_string(out, node->id);
    if (node->parent_id.ptr) {
        ESP_BUF_LIT(out, ",\"parent\":");
        if (node->parent_id.len) {
            esp_json_put_string(out, node->parent_id);
        } else {
            ESP_BUF_LIT(out, "null");
        }
    }
    ESP_BUF_LIT(out, ",\"depth\":");
    if (node->depth >= 0) {
        esp_buf_put_i64(out, node->depth);
    } else {
        ESP_BUF_LIT(out, "null"); /* this layout's answer does not carry it */
    }
    ESP_BUF_LIT(out, ",\"payload\":{");
    esp_data_put_plain_json(out, node->data);
    ESP_BUF_LIT(out, "}");
    if (node->edges.ptr) {
        ESP_BUF_LIT(out, ",\"edges\":");
        esp_buf_put_str(out, node->edges);
    }
    if (node->edge) {
        put_edge_json(out, node->edge);
    }
    ESP_BUF_LIT(out, "}");
}

static void put_json(struct esp_buf *out, enum esp_op op, const struct esp_answer *answer,
                     const struct esp_cli_access *t) {
    const struct esp_paging *paging = t->access.paging;
    esp_buf_printf(out, "{\"schema\":1,\"operation\":\"%s\",\"nodes\":[", esp_op_info[op].name);
    for (uint32_t i = 0; i < answer->count; i++) {
        if (i > 0) {
            esp_buf_put_char(out, ',');
        }
        put_node_json(out, &answer->node[i]);
    }
    ESP_BUF_LIT(out, "],");
    if (paging && paging->next.len) {
        esp_buf_printf(out, "\"next\":\"%.*s\",", ESP_FMT(paging->next));
    } else if (paging) {
        ESP_BUF_LIT(out, "\"next\":null,");
    }
    if (op == ESP_OP_COUNT) {
        esp_buf_printf(out, "\"value\":%llu,", (unsigned long long)t->access.value);
    } else if (op == ESP_OP_IS_DESCENDANT) {
        esp_buf_printf(out, "\"value\":%s,", t->access.value ? "true" : "false");
    }
    esp_cli_put_cost_json(out, &t->session->usage, false);
    ESP_BUF_LIT(out, "}\n");
}

/* Characters, as far as bytes tell. */
static size_t width_of(struct esp_str text) {
    size_t width = 0;
    for (size_t i = 0; i < text.len; i++) {
        width += ((unsigned char)text.ptr[i] & 0xC0) != 0x80;
    }
    return width;
}

static void put_cell(struct esp_buf *out, struct esp_str text, size_t width) {
    esp_buf_put_str(out, text);
    for (size_t i = width_of(text); i < width + 2; i++) {
        esp_buf_put_char(out, ' ');
    }
}

static struct esp_str parent_text(const struct esp_node_view *node) {
    if (!node->parent_id.ptr) {
        return ESP_STR("?"); /* the answer does not say */
    }
    return node->parent_id.len ? node->parent_id : ESP_STR("-");
}

/* The cells of a line of text; the payload follows. */
enum { CELL_ID, CELL_PARENT, CELL_TYPE, CELL_WEIGHT, CELLS };
static const struct esp_str headings[CELLS] = {
    {"id", 2}, {"parent", 6}, {"type", 4}, {"weight", 6}};

static void cells_of(const struct esp_node_view *node, struct esp_str cell[CELLS]) {
    const struct esp_edge_view *edge = node->edge;
    cell[CELL_ID] = node->id;
    cell[CELL_PARENT] = parent_text(node);
    cell[CELL_TYPE] = edge ? edge->type : ESP_STR("-");
    cell[CELL_WEIGHT] = edge ? edge->weight : ESP_STR("-");
}

/* Edges have columns in answers that come by them. */
static void put_table(struct esp_buf *out, const struct esp_answer *answer) {
    size_t width[CELLS];
    struct esp_str cell[CELLS];
    bool edges = answer->count > 0 && answer->node[0].edge;
    for (size_t k = 0; k < CELLS; k++) {
        width[k] = headings[k].len;
    }
    for (uint32_t i = 0; i < answer->count; i++) {
        cells_of(&answer->node[i], cell);
        for (size_t k = 0; k < CELLS; k++) {
            size_t w = width_of(cell[k]);
            width[k] = w > width[k] ? w : width[k];
        }
    }
    for (size_t k = 0; k < (edges ? CELLS : CELL_TYPE); k++) {
        put_cell(out, headings[k], width[k]);
    }
    ESP_BUF_LIT(out, "depth  payload\n");
    for (uint32_t i = 0; i < answer->count; i++) {
        const struct esp_node_view *node = &answer->node[i];
        cells_of(node, cell);
        for (size_t k = 0; k < (edges ? CELLS : CELL_TYPE); k++) {
            put_cell(out, cell[k], width[k]);
        }
        if (node->depth >= 0) {
            esp_buf_printf(out, "%5lld  {", (long long)node->depth);
        } else {
            ESP_BUF_LIT(out, "    ?  {");
        }
        esp_data_put_plain_json(out, node->data);
        ESP_BUF_LIT(out, "}\n");
    }
}

static enum esp_status print_answer(struct esp_cli *cli, const struct query_options *o,
                                    enum esp_op op, const struct esp_answer *answer,
                                    const struct esp_cli_access *t) {
    struct esp_buf out;
    esp_buf_init(&out, cli->alloc, OUTPUT_BYTES_MAX);
    if (o->shared.json) {
        put_json(&out, op, answer, t);
    } else if (op == ESP_OP_IS_DESCENDANT) {
        esp_buf_printf(&out, "%s\n", t->access.value ? "yes" : "no");
    } else if (has_value(op)) {
        esp_buf_printf(&out, "%llu\n", (unsigned long long)t->access.value);
    } else {
        put_table(&out, answer);
        if (t->access.paging && t->access.paging->next.len) {
            esp_buf_printf(&out, "the next page: --start %.*s\n", ESP_FMT(t->access.paging->next));
        }
    }
    if (o->cost && !o->shared.json) {
        esp_cli_put_cost(&out, &t->session->usage, false);
    }
    enum esp_status status = esp_cli_print(cli, &out);
    esp_buf_fini(&out);
    return status;
}

/* --- the command -------------------------------------------------------------------------- */

static enum esp_status ask(struct esp_cli *cli, const struct query_options *o, enum esp_op op,
                           const struct esp_args *args, struct esp_cli_access *t) {
    struct esp_arena arena;
    struct esp_answer answer = {.arena = &arena};
    struct esp_paging paging = {.limit = o->limit, .start = esp_str_from(o->start)};
    enum esp_status status = ESP_OK;
    if ((op == ESP_OP_LEVEL || op == ESP_OP_TREE) && !o->start) {
        status = require_root(cli, t, args);
    }
    esp_arena_init(&arena, cli->alloc, answer_bytes_max);
    t->access.paging = o->limit ? &paging : NULL;
    if (status == ESP_OK) {
        status = esp_operate(&t->access, op, args, esp_answer_add, &answer);
    }
    if (status == ESP_OK) {
        if (!t->layout.ops->ordered && op != ESP_OP_ANCESTORS && answer.count > 1) {
            qsort(answer.node, answer.count, sizeof *answer.node, by_id);
        }
        status = print_answer(cli, o, op, &answer, t);
    } else {
        esp_fail(&cli->err, status, "%s: %s", esp_op_info[op].name, esp_status_text(status));
    }
    t->access.paging = NULL;
    esp_arena_fini(&arena);
    return status;
}

static enum esp_status check_paging(struct esp_cli *cli, const struct query_options *o,
                                    enum esp_op op) {
    if (o->start && !o->limit) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--start needs --limit N, N nodes a page");
    }
    return o->limit && has_value(op)
               ? esp_fail(&cli->err, ESP_ERR_USAGE, "%s has no pages", esp_op_info[op].name)
               : ESP_OK;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct query_options *o = options;
    struct esp_args args = {.lo = 0};
    struct esp_cli_access t;
    enum esp_op op;
    enum esp_status status = esp_cli_operation(cli, operands[1], false, count - 2, &op);
    if (status == ESP_OK) {
        status = check_paging(cli, o, op);
    }
    if (status == ESP_OK) {
        status = parse_arguments(cli, op, operands + 2, count - 2, &args);
    }
    if (status != ESP_OK) {
        return status;
    }
    status = esp_cli_access_open(cli, &o->shared, operands[0], &t);
    if (status == ESP_OK) {
        status = ask(cli, o, op, &args, &t);
    }
    esp_cli_access_close(&t);
    return status;
}

static const struct esp_option own_options[] = {
    {.name = "cost",
     .type = ESP_OPT_FLAG,
     .offset = offsetof(struct query_options, cost),
     .help = "also print requests, round trips and read units"},
    {.name = "limit",
     .type = ESP_OPT_U64,
     .offset = offsetof(struct query_options, limit),
     .argument = "N",
     .min = 1,
     .help = "answer N nodes, and where the next page begins"},
    {.name = "start",
     .type = ESP_OPT_STRING,
     .offset = offsetof(struct query_options, start),
     .argument = "CURSOR",
     .help = "answer the page that begins there: what the page before said"},
    {.name = NULL}};
static const struct esp_option *const tables[] = {
    esp_cli_table_options, esp_cli_layout_options, own_options, esp_cli_read_options,
    esp_cli_json_option,   esp_cli_store_options,  NULL};

const struct esp_command esp_command_query = {
    .name = "query",
    .summary = "answer one read operation: children, ancestors, window ...",
    .operands = "STORE OPERATION [ARGUMENT...]",
    .required = "--table NAME --layout LAYOUT",
    .details =
        "espalier list operations shows the operations and their arguments. Nodes come root\n"
        "first for ancestors, else in sibling order where the layout keeps it, else by id; pages\n"
        "follow each other in the order of the table.\n"
        "\n"
        "A depth of ? (in JSON null) is one that the answer does not carry; no read asks for more\n"
        "to tell it. In replica and graph only ancestors, level, tree and roots have depths.\n",
    .example = "  espalier query local:db --table world --layout path children 150 --cost\n"
               "  espalier query local:db --table world --layout path window 001 1 2 --json\n",
    .options = tables,
    .options_size = sizeof(struct query_options),
    .operand_min = 2,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
