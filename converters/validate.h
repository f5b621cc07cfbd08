#ifndef ESP_CONVERTERS_VALIDATE_H
#define ESP_CONVERTERS_VALIDATE_H
/*
 * The checks before the first write that every layout needs: payload attributes that are
 * called like the layout's own, items over DynamoDB's 400 KB.
 */
#include "converters/layout.h"

/* ERR_INPUT or ERR_LIMIT with line and id of the first node concerned.  O(nodes). */
enum esp_status esp_validate_items(const struct esp_layout *l, const struct esp_forest *f,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* A failure that concerns node v: err gets its line. */
enum esp_status esp_validate_fail(const struct esp_forest *f, esp_node v, struct esp_error *err,
                                  enum esp_status status, const char *fmt, ...) ESP_PRINTF(5, 6);

/* Loops over a forest that was read in random order wait for memory; this asks for a node's
 * text early enough.  Always inline: gcc takes a function that only prefetches for one without
 * effect, and drops calls of it. */
enum { ESP_PREFETCH_NODES = 16, ESP_CACHE_LINE_BYTES = 64 };
__attribute__((always_inline)) static inline void esp_prefetch_text(const struct esp_forest *f,
                                                                    esp_node v) {
    if (v < f->count) {
        const char *text = f->text[v];
        __builtin_prefetch(text);
        __builtin_prefetch(text + ESP_CACHE_LINE_BYTES);
        __builtin_prefetch(text + 2 * ESP_CACHE_LINE_BYTES);
    }
}

#endif
