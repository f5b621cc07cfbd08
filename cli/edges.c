#include "cli/edges.h"

#include "converters/idmap.h"

#include <stdio.h>

const struct esp_option esp_cli_edges_option[] = {
    {.name = "edges",
     .type = ESP_OPT_STRING,
     .offset = offsetof(struct esp_cli_options, edges),
     .argument = "FILE",
     .help = "graph: more edges, a file with the columns source, target, type, weight"},
    {.name = NULL}};

struct edges {
    struct esp_cli *cli;
    struct esp_arena arena;
    struct esp_link_row *row;
    uint32_t count, cap;
};

/* A column that is the layout's, as text: importers may have made a number of it. */
static enum esp_status take_text(struct edges *e, const struct esp_member *member,
                                 struct esp_str *out, struct esp_error *err) {
    struct esp_value value;
    enum esp_status status = esp_value_parse(member->value, &e->arena, &value, err);
    if (status == ESP_OK && value.type == ESP_TYPE_N && value.s.len == 0) {
        value.s = esp_arena_fmt(&e->arena, "%lld", (long long)value.n);
    }
    *out = value.s;
    return status == ESP_OK && !out->ptr ? ESP_ERR_NOMEM : status;
}

/* The members of the row: type and weight go to their places, the others stay attributes. */
static enum esp_status split(struct edges *e, struct esp_data data, struct esp_link_row *row,
                             struct esp_error *err) {
    struct esp_member member;
    struct esp_buf text;
    enum esp_status status = ESP_OK;
    esp_buf_init(&text, e->cli->alloc, ESP_ITEM_BYTES_MAX * 8);
    for (size_t pos = 0; status == ESP_OK && esp_data_next(data, &pos, &e->arena, &member);) {
        uint32_t size = 0;
        if (esp_str_eq(member.name, ESP_STR("type"))) {
            status = take_text(e, &member, &row->type, err);
        } else if (esp_str_eq(member.name, ESP_STR("weight"))) {
            status = take_text(e, &member, &row->weight, err);
        } else {
            status = esp_json_value_size(member.value, &size, err);
            if (text.len) {
                esp_buf_put_char(&text, ',');
            }
            esp_buf_put_str(&text, member.raw);
            row->data.size += (uint32_t)member.name.len + size;
        }
    }
    struct esp_str copy = {NULL, 0};
    if (text.len && !text.failed) {
        copy = esp_arena_dup(&e->arena, esp_buf_str(&text));
    }
    status = text.failed || (text.len && !copy.ptr) ? ESP_ERR_NOMEM : status;
    row->data.text = copy.ptr;
    row->data.len = (uint32_t)copy.len;
    esp_buf_fini(&text);
    return status;
}

static enum esp_status take_row(void *ctx, const struct esp_record *record, struct esp_error *err) {
    struct edges *e = ctx;
    struct esp_link_row *grown =
        esp_arena_grow(&e->arena, e->row, &e->cap, e->count + 1, sizeof *grown);
    struct esp_link_row row = {.line = record->line};
    if (!grown) {
        return esp_fail_nomem(err);
    }
    e->row = grown;
    row.child = esp_arena_dup(&e->arena, record->id);
    row.parent = esp_arena_dup(&e->arena, record->parent_id);
    enum esp_status status = row.child.ptr && row.parent.ptr ? ESP_OK : ESP_ERR_NOMEM;
    if (status == ESP_OK) {
        status = split(e, record->data, &row, err);
    }
    if (status == ESP_OK && (row.parent.len == 0 || row.type.len == 0)) {
        status = esp_fail(err, ESP_ERR_INPUT, "the edge from '%.*s' has no %s", ESP_FMT(row.child),
                          row.parent.len == 0 ? "target" : "type");
        err->line = record->line;
    }
    grown[e->count] = row;
    e->count += status == ESP_OK;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(err) : status;
}

static enum esp_status read_rows(struct edges *e, const struct esp_cli_options *options) {
    const struct esp_source_options columns = {
        .id = "source", .parent = "target", .infer = options->source.infer, .own_parent = true};
    const struct esp_importer *importer = NULL;
    struct esp_reader *in = NULL;
    struct esp_error *err = &e->cli->err;
    enum esp_status status = esp_reader_open(options->edges, e->cli->alloc, &in, err);
    if (status != ESP_OK) {
        return status == ESP_ERR_IO ? esp_cli_open_status(err->os_errno) : status;
    }
    status = esp_importer_choose(in, &columns, &importer, err);
    if (status == ESP_OK) {
        status = importer->run(in, &columns, e->cli->alloc, take_row, e, err);
    }
    esp_reader_close(in);
    return status;
}

enum esp_status esp_cli_read_edges(struct esp_cli *cli, const struct esp_cli_options *options,
                                   struct esp_forest *forest) {
    struct edges e = {.cli = cli};
    if (!options->edges) {
        return ESP_OK;
    }
    esp_arena_init(&e.arena, cli->alloc, SIZE_MAX);
    enum esp_status status = read_rows(&e, options);
    if (status == ESP_OK) {
        status = esp_forest_add_links(forest, e.row, e.count, options->edges, &cli->err);
    }
    if (status != ESP_OK && status != ESP_ERR_USAGE && !cli->err.source[0]) {
        snprintf(cli->err.source, sizeof cli->err.source, "%s", options->edges);
    }
    esp_arena_fini(&e.arena);
    return status;
}
