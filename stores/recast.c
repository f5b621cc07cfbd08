#include "stores/recast.h"

bool esp_schema_same_attrs(const struct esp_schema *a, const struct esp_schema *b) {
    bool same = a->attr_count == b->attr_count;
    for (size_t i = 0; i < a->attr_count && same; i++) {
        same = esp_str_eq(a->attr[i].name, b->attr[i].name);
    }
    return same;
}

enum { RECAST_BYTES_MAX = 64 << 20 }; /* of the text of one payload */

static void put_comma(struct esp_buf *out) {
    if (out->len) {
        esp_buf_put_char(out, ',');
    }
}

/* Members that stay payload, and attributes that become it. */
static void put_payload(const struct esp_schema *from, const struct esp_schema *to,
                        const struct esp_item *item, struct esp_arena *arena, struct esp_buf *out,
                        uint32_t *size) {
    struct esp_member member;
    uint32_t value_size = 0;
    for (size_t pos = 0; esp_data_next(item->data, &pos, arena, &member);) {
        if (esp_schema_find_attr(to, member.name) < 0 &&
            esp_json_value_size(member.value, &value_size, NULL) == ESP_OK) {
            put_comma(out);
            esp_buf_put_str(out, member.raw);
            *size += (uint32_t)member.name.len + value_size;
        }
    }
    for (size_t i = 0; i < from->attr_count; i++) {
        const struct esp_value *value = &item->value[i];
        if (value->type != ESP_TYPE_NONE && esp_schema_find_attr(to, from->attr[i].name) < 0) {
            put_comma(out);
            esp_json_put_string(out, from->attr[i].name);
            esp_buf_put_char(out, ':');
            esp_value_put_json(out, value);
            *size += (uint32_t)from->attr[i].name.len + esp_value_size(value);
        }
    }
}

enum esp_status esp_item_recast(const struct esp_schema *from, const struct esp_schema *to,
                                const struct esp_item *item, struct esp_arena *arena,
                                struct esp_item *out, struct esp_error *err) {
    struct esp_buf text;
    uint32_t size = 0;
    for (size_t i = 0; i < to->attr_count; i++) {
        enum esp_status status =
            esp_item_find(from, item, to->attr[i].name, arena, &out->value[i], err);
        if (status != ESP_OK) {
            return status;
        }
    }
    esp_buf_init(&text, arena->alloc, RECAST_BYTES_MAX);
    put_payload(from, to, item, arena, &text, &size);
    struct esp_str copy = esp_arena_dup(arena, esp_buf_str(&text));
    bool failed = text.failed || !copy.ptr;
    esp_buf_fini(&text);
    out->data = (struct esp_data){copy.ptr, (uint32_t)copy.len, size};
    return failed ? esp_fail_nomem(err) : ESP_OK;
}
