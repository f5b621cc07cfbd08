#ifndef ESP_TESTS_ALLOC_H
#define ESP_TESTS_ALLOC_H
/*
 * An allocator that fails the n-th call, and knows what is still held.
 *
 *   struct esp_test_alloc a;
 *   for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {   n = 1, 2, ...
 *       ... do the work with &a.alloc, expect ESP_OK or ESP_ERR_NOMEM, free everything ...
 *       if (esp_test_alloc_done(&a)) { break; }             nothing failed: all calls are covered
 *   }
 */
#include "core/mem.h"

struct esp_test_alloc {
    struct esp_alloc alloc;
    size_t calls, fail_at; /* fail_at 0: never */
    size_t held_bytes;
};
/* Always true, for use in a loop's condition. */
bool esp_test_alloc_init(struct esp_test_alloc *a, size_t fail_at);
/* Fails the test when something is still held; true when no call was made to fail. */
bool esp_test_alloc_done(const struct esp_test_alloc *a);

#endif
