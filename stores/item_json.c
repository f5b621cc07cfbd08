#include "stores/item.h"

void esp_json_put_string(struct esp_buf *out, struct esp_str bytes) {
    (void)out, (void)bytes;
}

void esp_value_put_json(struct esp_buf *out, const struct esp_value *value) {
    (void)out, (void)value;
}

void esp_item_put_json(struct esp_buf *out, const struct esp_schema *schema,
                       const struct esp_item *item) {
    (void)out, (void)schema, (void)item;
}

void esp_item_put_key_json(struct esp_buf *out, const struct esp_schema *schema,
                           const struct esp_item *item) {
    (void)out, (void)schema, (void)item;
}

bool esp_data_next(struct esp_data data, size_t *pos, struct esp_arena *scratch,
                   struct esp_member *out) {
    (void)data, (void)pos, (void)scratch, (void)out;
    return 0;
}

void esp_data_put_plain_json(struct esp_buf *out, struct esp_data data) {
    (void)out, (void)data;
}
