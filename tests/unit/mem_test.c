/* Arenas, buffers, big arrays, hashing, errors, clocks and random numbers. */
#include "core/clock.h"
#include "core/mem.h"
#include "core/prefault.h"
#include "core/rng.h"
#include "tests/support/alloc.h"
#include "tests/support/support.h"

static void arenas_hand_out_aligned_memory_within_their_limit(void **state) {
    (void)state;
    struct esp_test_alloc a;
    esp_test_alloc_init(&a, 0);
    a.alloc.arena_chunk_bytes = 0;
    struct esp_arena arena;
    esp_arena_init(&arena, &a.alloc, 1 << 20);
    char *first = esp_arena_alloc(&arena, 10), *second = esp_arena_alloc(&arena, 100000);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal((uintptr_t)first % 16, 0);
    assert_int_equal((uintptr_t)second % 16, 0);
    memset(second, 1, 100000);
    struct esp_str copy = esp_arena_dup(&arena, ESP_STR("abc"));
    assert_string_equal(copy.ptr, "abc");
    struct esp_str text = esp_arena_fmt(&arena, "%d-%s", 42, "x");
    assert_string_equal(text.ptr, "42-x");
    assert_int_equal(text.len, 4);
    assert_null(esp_arena_alloc(&arena, 1 << 20));
    assert_null(esp_arena_calloc(&arena, SIZE_MAX / 2, 4));
    size_t held = a.held_bytes;
    for (int i = 0; i < 100; i++) { /* reset keeps and reuses the memory */
        esp_arena_reset(&arena);
        assert_non_null(esp_arena_alloc(&arena, 10));
        assert_non_null(esp_arena_alloc(&arena, 100000));
    }
    assert_int_equal(a.held_bytes, held);
    esp_arena_fini(&arena);
    esp_test_alloc_done(&a);
}

static void buffers_grow_to_their_limit_and_remember_failure(void **state) {
    (void)state;
    struct esp_buf buf;
    esp_buf_init(&buf, &esp_alloc_libc, 1000);
    for (int i = 0; i < 99; i++) {
        esp_buf_put(&buf, "0123456789", 10);
    }
    assert_false(buf.failed);
    esp_buf_put_i64(&buf, INT64_MIN);
    assert_true(buf.failed);
    esp_buf_put_char(&buf, 'x'); /* nothing after a failure, however small */
    assert_int_equal(buf.len, 990);
    assert_null(esp_buf_cstr(&buf));
    esp_buf_reset(&buf);
    esp_buf_put_i64(&buf, INT64_MIN);
    esp_buf_put_char(&buf, ' ');
    esp_buf_put_i64(&buf, 0);
    esp_buf_printf(&buf, " %s", "text");
    assert_string_equal(esp_buf_cstr(&buf), "-9223372036854775808 0 text");
    esp_buf_fini(&buf);
}

static void big_arrays_keep_their_content(void **state) {
    (void)state;
    struct esp_test_alloc a;
    for (int counted = 0; counted < 2; counted++) {
        esp_test_alloc_init(&a, 0);
        const struct esp_alloc *alloc = counted ? &a.alloc : &esp_alloc_libc;
        static const size_t sizes[] = {100, 3 << 20, 9 << 20, 5 << 20, 50};
        unsigned char *array = NULL;
        size_t size = 0;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            array = esp_big_resize(alloc, array, size, sizes[i]);
            assert_non_null(array);
            for (size_t k = size; k < sizes[i]; k += 511) {
                assert_int_equal(array[k], 0); /* what is new is zeroed */
            }
            for (size_t k = 0; k < size && k < sizes[i] && i; k++) {
                assert_int_equal(array[k], 7);
            }
            size = sizes[i];
            memset(array, 7, size);
        }
        esp_big_free(alloc, array, size);
        esp_test_alloc_done(&a);
    }
}

static void hashes_differ_for_bytes_lengths_and_seeds(void **state) {
    (void)state;
    unsigned char bytes[64] = {0};
    for (size_t len = 0; len < 64; len++) {
        uint64_t hash = esp_hash64(bytes, len, 0);
        assert_true(hash != esp_hash64(bytes, len, 1));
        assert_true(hash != esp_hash64(bytes, len + 1, 0) || len == 63);
        for (size_t i = 0; i < len; i++) {
            bytes[i] ^= 1;
            assert_true(hash != esp_hash64(bytes, len, 0));
            bytes[i] ^= 1;
        }
    }
}

static void the_first_error_wins(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    assert_status(ESP_ERR_CYCLE, esp_fail(&err, ESP_ERR_CYCLE, "first %d", 1));
    assert_status(ESP_ERR_IO, esp_fail(&err, ESP_ERR_IO, "second"));
    assert_string_equal(err.message, "first 1");
    assert_int_equal(err.status, ESP_ERR_CYCLE);
    esp_error_clear(&err);
    assert_status(ESP_ERR_NOMEM, esp_fail_nomem(&err));
    assert_string_equal(err.message, "out of memory");
    assert_int_equal(esp_status_class(ESP_OK), ESP_CLASS_DONE);
    assert_int_equal(esp_status_class(ESP_ERR_THROTTLED), ESP_CLASS_RETRY);
    assert_int_equal(esp_status_class(ESP_ERR_CYCLE), ESP_CLASS_USER);
    assert_int_equal(esp_status_class(ESP_ERR_IO), ESP_CLASS_FATAL);
    for (int i = 0; i < ESP_STATUS_COUNT; i++) {
        assert_true(esp_status_text((enum esp_status)i)[0]);
    }
}

static void virtual_clock_moves_when_it_sleeps(void **state) {
    (void)state;
    struct esp_virtual_clock time = {.wall_ns = 1795239900000000000u};
    struct esp_clock clock = esp_clock_virtual(&time);
    char text[24];
    esp_sleep_ns(&clock, 1500000000);
    assert_int_equal(esp_now_ns(&clock), 1500000000);
    esp_wall_format_iso(1795239900000000000u, text);
    assert_string_equal(text, "20261121T054500Z");
    esp_wall_format_rfc3339(esp_wall_ns(&clock), text);
    assert_string_equal(text, "2026-11-21T05:45:01Z");
    uint64_t before = esp_now_ns(&esp_clock_system);
    esp_sleep_ns(&esp_clock_system, 1000);
    assert_true(esp_now_ns(&esp_clock_system) > before);
}

static void random_numbers_are_seeded_and_even(void **state) {
    (void)state;
    struct esp_rng a, b, c;
    esp_rng_init(&a, 5, 1);
    esp_rng_init(&b, 5, 1);
    esp_rng_init(&c, 5, 2);
    int same = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t x = esp_rng_u64(&a);
        assert_true(x == esp_rng_u64(&b));
        same += x == esp_rng_u64(&c);
    }
    assert_int_equal(same, 0);
    int count[7] = {0};
    double sum = 0, squares = 0;
    for (int i = 0; i < 70000; i++) {
        count[esp_rng_below(&a, 7)]++;
        double z = esp_rng_normal(&a), u = esp_rng_unit(&a);
        sum += z;
        squares += z * z;
        assert_true(u >= 0 && u < 1);
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(count[i], 9500, 10500);
    }
    assert_true(sum / 70000 > -0.02 && sum / 70000 < 0.02);
    assert_true(squares / 70000 > 0.97 && squares / 70000 < 1.03);
}

static void pages_made_ahead_keep_what_is_written(void **state) {
    (void)state;
    enum { SIZE = 6 << 20, STEP = 1000 };
    struct esp_prefault ahead = {.running = false};
    esp_prefault_wait(&ahead);
    for (size_t offset = 0; offset < 2; offset++) { /* from its page's start, and not */
        char *bytes = esp_big_alloc(&esp_alloc_libc, SIZE);
        assert_non_null(bytes);
        esp_prefault_start(&ahead, bytes + offset, SIZE - offset);
        for (size_t i = 0; i < SIZE; i += STEP) {
            bytes[i] = 'x';
        }
        esp_prefault_wait(&ahead);
        assert_false(ahead.running);
        for (size_t i = 0; i < SIZE; i++) {
            assert_int_equal(bytes[i], i % STEP ? 0 : 'x');
        }
        esp_big_free(&esp_alloc_libc, bytes, SIZE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arenas_hand_out_aligned_memory_within_their_limit),
        cmocka_unit_test(buffers_grow_to_their_limit_and_remember_failure),
        cmocka_unit_test(pages_made_ahead_keep_what_is_written),
        cmocka_unit_test(big_arrays_keep_their_content),
        cmocka_unit_test(hashes_differ_for_bytes_lengths_and_seeds),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(virtual_clock_moves_when_it_sleeps),
        cmocka_unit_test(random_numbers_are_seeded_and_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
