#include "tests/support/alloc.h"

#include "tests/support/support.h"

#include <stdlib.h>

static void *resize(void *ctx, void *old, size_t old_size, size_t new_size) {
    struct esp_test_alloc *a = ctx;
    if (++a->calls == a->fail_at) {
        return NULL;
    }
    void *ptr = realloc(old, new_size ? new_size : 1);
    assert_non_null(ptr);
    a->held_bytes += new_size - (old ? old_size : 0);
    return ptr;
}

static void release(void *ctx, void *ptr, size_t size) {
    struct esp_test_alloc *a = ctx;
    a->held_bytes -= ptr ? size : 0;
    free(ptr);
}

bool esp_test_alloc_init(struct esp_test_alloc *a, size_t fail_at) {
    /* chunks of 1 byte: every allocation of an arena is one of ours */
    *a = (struct esp_test_alloc){.alloc = {resize, release, a, 1}, .fail_at = fail_at};
    return true;
}

bool esp_test_alloc_done(const struct esp_test_alloc *a) {
    assert_int_equal(a->held_bytes, 0);
    return a->fail_at == 0 || a->calls < a->fail_at;
}
