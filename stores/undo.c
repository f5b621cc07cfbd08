#include "stores/undo.h"

enum esp_status esp_undo_begin(struct esp_session *s, struct esp_error *err) {
    (void)s, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_undo_rollback(struct esp_session *s, struct esp_error *err) {
    (void)s, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

void esp_undo_end(struct esp_session *s) {
    (void)s;
}

uint64_t esp_undo_overhead_ns(const struct esp_session *s) {
    (void)s;
    return 0;
}

enum esp_status esp_undo_record(struct esp_session *s, const struct esp_write *w, size_t n,
                                struct esp_error *err) {
    (void)s, (void)w, (void)n, (void)err;
    return ESP_ERR_UNSUPPORTED;
}
