/* keeps tables in memory, gone when the process ends */
#include "stores/engine.h"

static enum esp_status open_store(struct esp_store *store, struct esp_error *err) {
    (void)store;
    return esp_fail(err, ESP_ERR_UNSUPPORTED, "the memory store is not built yet");
}

static void close_store(struct esp_store *store) {
    (void)store;
}

const struct esp_store_ops esp_store_memory = {
    .name = "memory",
    .schemes = "memory:",
    .summary = "keeps tables in memory, gone when the process ends",
    .open = open_store,
    .close = close_store,
};
