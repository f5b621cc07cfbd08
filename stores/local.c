/* keeps tables in a folder, in an LMDB database */
#include "stores/engine.h"

static enum esp_status open_store(struct esp_store *store, struct esp_error *err) {
    (void)store;
    return esp_fail(err, ESP_ERR_UNSUPPORTED, "the local store is not built yet");
}

static void close_store(struct esp_store *store) {
    (void)store;
}

const struct esp_store_ops esp_store_local = {
    .name = "local",
    .schemes = "local:",
    .summary = "keeps tables in a folder, in an LMDB database",
    .open = open_store,
    .close = close_store,
};
