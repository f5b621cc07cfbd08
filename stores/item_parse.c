#include "stores/item.h"

enum esp_status esp_json_value_size(struct esp_str text, uint32_t *size, struct esp_error *err) {
    (void)text, (void)size, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_item_parse(const struct esp_schema *schema, struct esp_str json,
                               struct esp_arena *arena, struct esp_item *out,
                               struct esp_error *err) {
    (void)schema, (void)json, (void)arena, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_value_parse(struct esp_str json, struct esp_arena *arena, struct esp_value *out,
                                struct esp_error *err) {
    (void)json, (void)arena, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}
