#include "stores/item.h"

enum esp_status esp_item_apply(const struct esp_schema *schema, const struct esp_item *old,
                               const struct esp_change *changes, size_t count,
                               struct esp_arena *arena, struct esp_item *out,
                               struct esp_error *err) {
    (void)schema, (void)old, (void)changes, (void)count, (void)arena, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_data_merge(struct esp_data old, struct esp_data set,
                               const struct esp_str *remove, size_t remove_count,
                               struct esp_arena *arena, struct esp_data *out,
                               struct esp_error *err) {
    (void)old, (void)set, (void)remove, (void)remove_count, (void)arena, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}
