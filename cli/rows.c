#include "cli/rows.h"

enum { NAMES_BYTES_MAX = 64 << 20, NAME_SLOTS = 4 * ESP_ROW_COLUMNS_MAX };

/* Names already seen: open addressing over positions in rows->column, 0 = free. */
struct name_table {
    uint16_t slot[NAME_SLOTS];
};

static enum esp_status note_name(struct esp_rows *rows, struct name_table *seen,
                                 struct esp_str name, struct esp_error *err) {
    size_t at = esp_hash64(name.ptr, name.len, 0) % NAME_SLOTS;
    while (seen->slot[at]) {
        if (esp_str_eq(rows->column[seen->slot[at] - 1], name)) {
            return ESP_OK;
        }
        at = (at + 1) % NAME_SLOTS;
    }
    if (rows->count == ESP_ROW_COLUMNS_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "the nodes have more than %d different attributes: too many for columns",
                        ESP_ROW_COLUMNS_MAX);
    }
    struct esp_str copy = esp_arena_dup(&rows->names, name);
    if (!copy.ptr) {
        return esp_fail_nomem(err);
    }
    rows->column[rows->count++] = copy;
    seen->slot[at] = (uint16_t)rows->count;
    return ESP_OK;
}

enum esp_status esp_rows_init(struct esp_rows *rows, const struct esp_schema *schema,
                              const struct esp_forest *forest, const struct esp_alloc *alloc,
                              struct esp_error *err) {
    rows->schema = schema;
    rows->alloc = alloc;
    rows->count = 0;
    esp_arena_init(&rows->names, alloc, NAMES_BYTES_MAX);
    struct name_table *seen = esp_calloc(alloc, 1, sizeof *seen);
    struct esp_arena scratch;
    enum esp_status status = seen ? ESP_OK : esp_fail_nomem(err);
    esp_arena_init(&scratch, alloc, NAMES_BYTES_MAX);
    for (esp_node v = 0; status == ESP_OK && v < forest->count; v++) {
        struct esp_data data = esp_forest_data(forest, v);
        struct esp_member member;
        for (size_t pos = 0; status == ESP_OK && esp_data_next(data, &pos, &scratch, &member);) {
            status = note_name(rows, seen, member.name, err);
        }
        esp_arena_reset(&scratch);
    }
    esp_arena_fini(&scratch);
    esp_release(alloc, seen, sizeof *seen);
    return status;
}

void esp_rows_fini(struct esp_rows *rows) {
    esp_arena_fini(&rows->names);
}

struct esp_str esp_rows_name(const struct esp_rows *rows, size_t column) {
    size_t structural = rows->schema->attr_count;
    return column < structural ? rows->schema->attr[column].name
                               : rows->column[column - structural];
}

static void put_value(const struct esp_value *value, struct esp_str raw, struct esp_buf *out) {
    switch (value->type) {
    case ESP_TYPE_NONE:
        break;
    case ESP_TYPE_N:
        if (value->s.len == 0) {
            esp_buf_put_i64(out, value->n);
            break;
        }
        esp_buf_put_str(out, value->s);
        break;
    case ESP_TYPE_S:
        esp_buf_put_str(out, value->s);
        break;
    case ESP_TYPE_B:
    case ESP_TYPE_JSON: { /* as a member with an empty name, that name left out again */
        static const char head[] = "\"\":";
        size_t start = out->len;
        ESP_BUF_LIT(out, "\"\":");
        esp_buf_put_str(out, raw);
        if (out->failed) {
            break;
        }
        struct esp_buf plain;
        esp_buf_init(&plain, out->alloc, out->limit);
        esp_data_put_plain_json(
            &plain, (struct esp_data){out->ptr + start, (uint32_t)(out->len - start), 0});
        out->len = start;
        if (plain.len >= sizeof head - 1) {
            esp_buf_put(out, plain.ptr + sizeof head - 1, plain.len - (sizeof head - 1));
        }
        out->failed = out->failed || plain.failed;
        esp_buf_fini(&plain);
        break;
    }
    }
}

void esp_rows_put_cell(const struct esp_rows *rows, const struct esp_item *item, size_t column,
                       struct esp_arena *scratch, struct esp_buf *out) {
    struct esp_value value = {.type = ESP_TYPE_NONE};
    struct esp_str raw = {NULL, 0};
    if (column < rows->schema->attr_count) {
        put_value(&item->value[column], raw, out);
    } else if (esp_data_find(item->data, esp_rows_name(rows, column), &raw) &&
               esp_value_parse(raw, scratch, &value, NULL) == ESP_OK) {
        put_value(&value, raw, out);
    }
}

void esp_csv_put_cell(struct esp_buf *out, struct esp_str cell) {
    bool quote = false;
    for (size_t i = 0; i < cell.len && !quote; i++) {
        char c = cell.ptr[i];
        quote = c == ',' || c == '"' || c == '\n' || c == '\r';
    }
    if (!quote) {
        esp_buf_put_str(out, cell);
        return;
    }
    esp_buf_put_char(out, '"');
    for (size_t i = 0; i < cell.len; i++) {
        if (cell.ptr[i] == '"') {
            esp_buf_put_char(out, '"');
        }
        esp_buf_put_char(out, cell.ptr[i]);
    }
    esp_buf_put_char(out, '"');
}
