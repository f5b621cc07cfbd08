#include "stores/item.h"

enum esp_status esp_value_from_number(const struct esp_number *number, struct esp_arena *arena,
                                      struct esp_value *out, struct esp_error *err) {
    (void)number, (void)arena, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

void esp_value_to_number(const struct esp_value *value, struct esp_number *out) {
    (void)value, (void)out;
}

int esp_schema_find_attr(const struct esp_schema *schema, struct esp_str name) {
    (void)schema, (void)name;
    return 0;
}

enum esp_status esp_schema_match(const struct esp_schema *want, const struct esp_schema *have,
                                 struct esp_error *err) {
    (void)want, (void)have, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

void esp_item_copy(const struct esp_schema *schema, struct esp_item *to,
                   const struct esp_item *from) {
    (void)schema, (void)to, (void)from;
}

enum esp_status esp_item_dup(const struct esp_schema *schema, struct esp_arena *arena,
                             const struct esp_item *from, struct esp_item *to) {
    (void)schema, (void)arena, (void)from, (void)to;
    return ESP_ERR_UNSUPPORTED;
}

uint32_t esp_value_size(const struct esp_value *value) {
    (void)value;
    return 0;
}

uint32_t esp_item_size(const struct esp_schema *schema, const struct esp_item *item) {
    (void)schema, (void)item;
    return 0;
}

uint32_t esp_entry_size(const struct esp_schema *schema, const struct esp_index *index,
                        const struct esp_item *item) {
    (void)schema, (void)index, (void)item;
    return 0;
}

enum esp_status esp_item_check(const struct esp_schema *schema, const struct esp_item *item,
                               struct esp_error *err) {
    (void)schema, (void)item, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

int esp_value_cmp(const struct esp_value *a, const struct esp_value *b) {
    (void)a, (void)b;
    return 0;
}
