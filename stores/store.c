#include "stores/store.h"

#define ESP_STORE(name, source) extern const struct esp_store_ops esp_store_##name;
#include "stores/stores.def"
#undef ESP_STORE

const struct esp_store_ops *const esp_stores[] = {
#define ESP_STORE(name, source) &esp_store_##name,
#include "stores/stores.def"
#undef ESP_STORE
    NULL};

enum esp_status esp_store_open(const char *url, const struct esp_store_config *config,
                               const struct esp_clock *clock, const struct esp_alloc *alloc,
                               struct esp_store **out, struct esp_error *err) {
    (void)url, (void)config, (void)clock, (void)alloc, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

void esp_store_close(struct esp_store *store) {
    (void)store;
}

enum esp_status esp_table_open(struct esp_store *store, const char *name,
                               const struct esp_schema *schema, struct esp_table **out,
                               struct esp_error *err) {
    (void)store, (void)name, (void)schema, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

void esp_table_close(struct esp_table *table) {
    (void)table;
}
