/* Past its limit a spill takes big blocks from files; nothing else about memory changes. */
#include "core/spill.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20 };

static void big_blocks_past_the_limit_are_in_files(void **state) {
    (void)state;
    struct esp_spill spill;
    esp_spill_init(&spill, &esp_alloc_libc, 4 * MIB);
    const struct esp_alloc *a = &spill.alloc;
    char *first = esp_resize(a, NULL, 0, 3 * MIB);
    char *small = esp_resize(a, NULL, 0, 1000);
    assert_non_null(first);
    assert_non_null(small);
    assert_int_equal(spill.file_bytes, 0);
    char *second = esp_resize(a, NULL, 0, 2 * MIB);
    char *third = esp_calloc(a, 3, MIB);
    assert_non_null(second);
    assert_non_null(third);
    assert_int_equal(spill.file_bytes, 5 * MIB);
    assert_int_equal(spill.inner_bytes, 3 * MIB + 1000);
    char *more = esp_resize(a, NULL, 0, ESP_SPILL_BLOCK_BYTES_MIN - 1);
    assert_int_equal(spill.file_bytes, 5 * MIB); /* not worth a file */
    memset(second, 'x', 2 * MIB);
    for (size_t i = 0; i < 3 * MIB; i++) {
        assert_int_equal(third[i], 0);
    }
    esp_release(a, second, 2 * MIB);
    assert_int_equal(spill.file_bytes, 3 * MIB);
    esp_release(a, third, 3 * MIB);
    esp_release(a, first, 3 * MIB);
    esp_release(a, small, 1000);
    esp_release(a, more, ESP_SPILL_BLOCK_BYTES_MIN - 1);
    esp_release(a, NULL, 7);
    assert_int_equal(spill.file_bytes, 0);
    assert_int_equal(spill.inner_bytes, 0);
    esp_spill_fini(&spill);
}

static void a_block_keeps_its_bytes_when_it_moves(void **state) {
    (void)state;
    struct esp_spill spill;
    esp_spill_init(&spill, &esp_alloc_libc, 2 * MIB);
    const struct esp_alloc *a = &spill.alloc;
    size_t size = 1000, grown;
    char *p = esp_resize(a, NULL, 0, size);
    assert_non_null(p);
    memset(p, 'a', size);
    for (; size < 20 * (size_t)MIB; size = grown) { /* out to a file, and from file to file */
        grown = 3 * size;
        p = esp_resize(a, p, size, grown);
        assert_non_null(p);
        assert_int_equal(p[0], 'a');
        assert_int_equal(p[size - 1], 'a');
        memset(p, 'a', grown);
    }
    assert_int_equal(spill.file_bytes, size);
    p = esp_resize(a, p, size, 10); /* and back */
    assert_memory_equal(p, "aaaaaaaaaa", 10);
    assert_int_equal(spill.file_bytes, 0);
    esp_release(a, p, 10);
    assert_int_equal(spill.inner_bytes, 0);
    esp_spill_fini(&spill);
}

/* What an arena holds past the limit is not the process's own memory. */
static size_t own_kib(void) {
    char *text = esp_test_read_file("/proc/self/status", NULL);
    const char *at = strstr(text, "RssAnon:");
    size_t kib = at ? strtoul(at + strlen("RssAnon:"), NULL, 10) : 0;
    free(text);
    return kib;
}

static void an_arena_stays_near_the_limit(void **state) {
    (void)state;
    struct esp_spill spill;
    struct esp_arena arena;
    esp_spill_init(&spill, &esp_alloc_libc, 8 * MIB);
    esp_arena_init(&arena, &spill.alloc, SIZE_MAX);
    size_t before = own_kib();
    for (size_t i = 0; i < 200000; i++) {
        char *p = esp_arena_alloc(&arena, 512);
        assert_non_null(p);
        memset(p, (int)i, 512);
    }
    assert_true(spill.file_bytes > 80 * (size_t)MIB);
    if (before) { /* the system tells */
        assert_in_range(own_kib() - before, 0, 20 * 1024);
    }
    esp_arena_fini(&arena);
    assert_int_equal(spill.file_bytes + spill.inner_bytes, 0);
    esp_spill_fini(&spill);
}

static void a_folder_that_is_not_there_is_no_memory(void **state) {
    (void)state;
    struct esp_spill spill;
    char *kept = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    esp_spill_init(&spill, &esp_alloc_libc, 0);
    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_null(esp_resize(&spill.alloc, NULL, 0, 2 * MIB));
    char *small = esp_resize(&spill.alloc, NULL, 0, 100);
    assert_non_null(small);
    assert_null(esp_resize(&spill.alloc, small, 100, 2 * MIB)); /* the old one stays */
    small[99] = 1;
    esp_release(&spill.alloc, small, 100);
    assert_int_equal(spill.file_bytes + spill.inner_bytes, 0);
    if (kept) {
        setenv("TMPDIR", kept, 1);
    } else {
        unsetenv("TMPDIR");
    }
    free(kept);
    esp_spill_fini(&spill);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(big_blocks_past_the_limit_are_in_files),
        cmocka_unit_test(a_block_keeps_its_bytes_when_it_moves),
        cmocka_unit_test(an_arena_stays_near_the_limit),
        cmocka_unit_test(a_folder_that_is_not_there_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
