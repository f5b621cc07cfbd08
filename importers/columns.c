#include "importers/importer.h"

enum esp_status esp_column_put(const struct esp_column *column, struct esp_str value, bool infer,
                               struct esp_buf *out, uint32_t *size, struct esp_error *err) {
    (void)column, (void)value, (void)infer, (void)out, (void)size;
    return esp_fail(err, ESP_ERR_UNSUPPORTED, "importers are not there yet");
}
