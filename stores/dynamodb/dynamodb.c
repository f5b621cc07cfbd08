/* The DynamoDB store: any endpoint that speaks its protocol. */
#include "stores/store.h"

static enum esp_status dynamodb_open(struct esp_store *store, struct esp_error *err) {
    (void)store;
    return esp_fail(err, ESP_ERR_UNSUPPORTED, "the DynamoDB store is not ready");
}
static void dynamodb_close(struct esp_store *store) {
    (void)store;
}

const struct esp_store_ops esp_store_dynamodb = {
    .name = "dynamodb",
    .schemes = "dynamodb: http:// https://",
    .summary = "DynamoDB, or any endpoint that speaks its protocol",
    .flags = ESP_STORE_BILLS | ESP_STORE_REMOTE,
    .open = dynamodb_open,
    .close = dynamodb_close,
};
