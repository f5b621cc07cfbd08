#include "stores/store.h"

void esp_cursor_set(struct esp_cursor *cursor, const struct esp_schema *schema, int index,
                    const struct esp_item *item) {
    (void)cursor, (void)schema, (void)index, (void)item;
}

enum esp_status esp_session_open(struct esp_table *table, struct esp_session **out,
                                 struct esp_error *err) {
    (void)table, (void)out, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

void esp_session_close(struct esp_session *session) {
    (void)session;
}

enum esp_status esp_session_get(struct esp_session *s, struct esp_item *keys, size_t n,
                                bool consistent, esp_item_fn *fn, void *ctx,
                                struct esp_error *err) {
    (void)s, (void)keys, (void)n, (void)consistent, (void)fn, (void)ctx, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_query(struct esp_session *s, const struct esp_query *q, esp_item_fn *fn,
                                  void *ctx, struct esp_error *err) {
    (void)s, (void)q, (void)fn, (void)ctx, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_query_page(struct esp_session *s, const struct esp_query *q,
                                       struct esp_cursor *cursor, bool *more, esp_item_fn *fn,
                                       void *ctx, struct esp_error *err) {
    (void)s, (void)q, (void)cursor, (void)more, (void)fn, (void)ctx, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_query_many(struct esp_session *s, const struct esp_query *q, size_t n,
                                       esp_item_fn *fn, void *ctx, struct esp_error *err) {
    (void)s, (void)q, (void)n, (void)fn, (void)ctx, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_scan(struct esp_session *s, const struct esp_scan *scan,
                                 esp_item_fn *fn, void *ctx, struct esp_error *err) {
    (void)s, (void)scan, (void)fn, (void)ctx, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_write(struct esp_session *s, struct esp_write *w, size_t n,
                                  size_t *left, struct esp_error *err) {
    (void)s, (void)w, (void)n, (void)left, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_transact(struct esp_session *s, struct esp_write *w, size_t n,
                                     struct esp_error *err) {
    (void)s, (void)w, (void)n, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_bulk_put(struct esp_session *s, const struct esp_item *item,
                                     struct esp_error *err) {
    (void)s, (void)item, (void)err;
    return ESP_ERR_UNSUPPORTED;
}

enum esp_status esp_session_bulk_flush(struct esp_session *s, struct esp_error *err) {
    (void)s, (void)err;
    return ESP_ERR_UNSUPPORTED;
}
