#include "loader/loader.h"

enum { DESCRIPTION_BYTES_MAX = 1 << 20 };

/* *exists, and when the table may be used as it is: does it serve the schema? */
static enum esp_status look(struct esp_store *store, const char *name,
                            const struct esp_schema *schema, enum esp_if_exists if_exists,
                            bool *exists, struct esp_error *err) {
    struct esp_error local = ESP_ERROR_INIT;
    struct esp_table_info info;
    struct esp_arena arena;
    esp_arena_init(&arena, store->alloc, DESCRIPTION_BYTES_MAX);
    enum esp_status status = store->ops->describe_table(store, name, &arena, &info, &local);
    *exists = status == ESP_OK;
    if (status == ESP_ERR_NOT_FOUND) {
        status = ESP_OK;
    } else if (status != ESP_OK) {
        if (err && err->status == ESP_OK) {
            *err = local;
        }
    } else if (if_exists == ESP_IF_EXISTS_FAIL) {
        status = esp_fail(err, ESP_ERR_EXISTS, "table %s exists already", name);
    } else if (if_exists == ESP_IF_EXISTS_APPEND) {
        status = esp_schema_match(schema, &info.schema, err);
    }
    esp_arena_fini(&arena);
    return status;
}

enum esp_status esp_table_prepare(struct esp_store *store, const char *name,
                                  const struct esp_schema *schema, enum esp_if_exists if_exists,
                                  const struct esp_table_options *options, struct esp_error *err) {
    static const struct esp_table_options on_demand = {.billing = ESP_BILLING_ON_DEMAND};
    bool exists = false;
    enum esp_status status = look(store, name, schema, if_exists, &exists, err);
    if (status != ESP_OK || (exists && if_exists == ESP_IF_EXISTS_APPEND)) {
        return status;
    }
    if (exists) {
        status = store->ops->drop_table(store, name, err);
    }
    if (status == ESP_OK) {
        status = store->ops->create_table(store, name, schema, options ? options : &on_demand, err);
    }
    return status;
}
