/* Decimal numbers: what DynamoDB accepts, returns, charges and sorts (facts sheet 2.2, 3.2). */
#include "core/number.h"
#include "core/rng.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

static struct esp_number parsed(const char *text) {
    struct esp_number n;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_number_parse(esp_str_from(text), &n, &err), &err);
    return n;
}

static void canonical_text_and_size(void **state) {
    (void)state;
    /* sizes: the 23 literals captured on the service, then those measured on engines */
    static const struct {
        const char *text, *canonical;
        uint32_t size;
    } rows[] = {
        {"0", "0", 1},
        {"1", "1", 2},
        {"12", "12", 2},
        {"123", "123", 3},
        {"1234", "1234", 3},
        {"12345678901234567890123456789012345678", "12345678901234567890123456789012345678", 20},
        {"0042", "42", 2},
        {"100", "100", 2},
        {"1010", "1010", 3},
        {"0.0000001", "0.0000001", 2},
        {"1E-100", NULL, 2},
        {"1E125", NULL, 2},
        {"1.5", "1.5", 3},
        {"15", "15", 2},
        {"1.2", "1.2", 3},
        {"1.200", "1.2", 3},
        {"1.234", "1.234", 4},
        {"3.14159", "3.14159", 5},
        {"123456", "123456", 4},
        {"100.5", "100.5", 4},
        {"0.15", "0.15", 2},
        {"-42", "-42", 3},
        {"-0", "0", 1},
        {"-10", "-10", 3},
        {"101", "101", 3},
        {"-123", "-123", 4},
        {"12.5", "12.5", 3},
        {"0.05", "0.05", 2},
        {"0.123", "0.123", 3},
        {"123.4", "123.4", 4},
        {"-0.12", "-0.12", 3},
        {"1e10", "10000000000", 2},
        {"1.5e10", "15000000000", 3},
        {"1.5e11", "150000000000", 2},
        {"1.5E-5", "0.000015", 2},
        {"1.5E-6", "0.0000015", 3},
        {"-99999999999999999999999999999999999999", "-99999999999999999999999999999999999999", 21},
        {"1234567890123456789012345678901234567.8", NULL, 21},
        {"-1234567890123456789012345678901234567.8", NULL, 21},
        {"9.9999999999999999999999999999999999999E+125", NULL, 20},
        {"+5", "5", 2},
        {".5", "0.5", 2},
        {"5.", "5", 2},
        {"1.e5", "100000", 2},
        {"0e500", "0", 1},
        {"123456789012345678901234567890123456780", "123456789012345678901234567890123456780", 21},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct esp_number n = parsed(rows[i].text), again;
        struct esp_error err = ESP_ERROR_INIT;
        char text[ESP_NUMBER_TEXT_MAX];
        size_t len = esp_number_format(&n, text);
        if (rows[i].canonical) {
            assert_int_equal(len, strlen(rows[i].canonical));
            assert_memory_equal(text, rows[i].canonical, len);
        }
        if (esp_number_size(&n) != rows[i].size) {
            fail_msg("%s: size %u, not %u", rows[i].text, esp_number_size(&n), rows[i].size);
        }
        assert_ok(esp_number_parse((struct esp_str){text, len}, &again, &err), &err);
        assert_int_equal(esp_number_cmp(&n, &again), 0);
    }
}

static void what_dynamodb_refuses(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "",         " 1",  "1 ",    "1e",     "e2",
        "--1",      "+-1", "1_000", "0x10",   "NaN",
        "Infinity", ".",   "-",     "1.2.3",  "1e1.5",
        "١",        "1,5", "1e126", "1e-131", "123456789012345678901234567890123456789",
        "0.1e-130", NULL};
    for (size_t i = 0; wrong[i]; i++) {
        struct esp_number n;
        struct esp_error err = ESP_ERROR_INIT;
        if (esp_number_parse(esp_str_from(wrong[i]), &n, &err) != ESP_ERR_INPUT) {
            fail_msg("'%s' is accepted", wrong[i]);
        }
        assert_true(err.message[0]);
    }
}

static void whole_numbers(void **state) {
    (void)state;
    static const int64_t values[] = {0,   1,    -1,        9,         10,        99,
                                     100, -100, 123456789, INT64_MAX, INT64_MIN, 1000000};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct esp_number n;
        int64_t back = 7;
        char text[32], formatted[ESP_NUMBER_TEXT_MAX];
        esp_number_from_i64(values[i], &n);
        assert_true(esp_number_to_i64(&n, &back));
        assert_int_equal(back, values[i]);
        assert_int_equal(esp_number_size(&n), esp_number_size_i64(values[i]));
        snprintf(text, sizeof text, "%lld", (long long)values[i]);
        assert_int_equal(esp_number_format(&n, formatted), strlen(text));
        assert_memory_equal(formatted, text, strlen(text));
    }
    struct esp_number n = parsed("9223372036854775808");
    int64_t out;
    assert_false(esp_number_to_i64(&n, &out));
    n = parsed("1.5");
    assert_false(esp_number_to_i64(&n, &out));
    n = parsed("1e40");
    assert_false(esp_number_to_i64(&n, &out));
}

static void sums_are_exact(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"0.1", "0.2", "0.3"},    {"1.50", "0.500", "2"},
        {"5", "-5", "0"},         {"1e20", "1", "100000000000000000001"},
        {"-3", "1", "-2"},        {"999", "1", "1000"},
        {"0", "-7.5", "-7.5"},    {"1e-130", "-1e-130", "0"},
        {"100", "-0.01", "99.99"}};
    struct esp_error err = ESP_ERROR_INIT;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct esp_number a = parsed(rows[i][0]), b = parsed(rows[i][1]), want = parsed(rows[i][2]);
        struct esp_number sum;
        assert_ok(esp_number_add(&a, &b, &sum, &err), &err);
        assert_int_equal(esp_number_cmp(&sum, &want), 0);
        assert_ok(esp_number_add(&b, &a, &sum, &err), &err);
        assert_int_equal(esp_number_cmp(&sum, &want), 0);
    }
    struct esp_number a = parsed("1e125"), b = parsed("1e-130"), sum;
    assert_status(ESP_ERR_LIMIT, esp_number_add(&a, &b, &sum, &err));
    a = parsed("9e125");
    esp_error_clear(&err);
    assert_status(ESP_ERR_LIMIT, esp_number_add(&a, &a, &sum, &err));
    assert_int_equal(err.status, ESP_ERR_LIMIT);
    assert_string_equal(err.message, "the number is larger than 9.99E+125");
}

/* Random numbers of all magnitudes and signs: order of keys = numeric order, prefix-free. */
static void keys_sort_as_numbers_do(void **state) {
    (void)state;
    enum { N = 400 };
    static struct esp_number numbers[N];
    struct esp_rng rng;
    esp_rng_init(&rng, 42, 0);
    for (int i = 0; i < N; i++) {
        char text[64];
        int exponent = (int)esp_rng_below(&rng, 8) ? (int)esp_rng_below(&rng, 6) - 3
                                                   : (int)esp_rng_below(&rng, 220) - 110;
        snprintf(text, sizeof text, "%s%u%s%ue%d", esp_rng_below(&rng, 2) ? "-" : "",
                 (unsigned)esp_rng_below(&rng, 1000), esp_rng_below(&rng, 2) ? "." : "",
                 (unsigned)esp_rng_below(&rng, 100), exponent);
        numbers[i] = parsed(text);
    }
    /* pairs of zeros inside must not look like an end */
    static const char *const alike[] = {"1",      "1.0001",    "1.00001", "1.000001",
                                        "-1",     "-1.0001",   "-1.001",  "-1.0000001",
                                        "0.9999", "0.9999001", "10",      "0"};
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++) {
        numbers[i] = parsed(alike[i]);
    }
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < N; k++) {
            unsigned char a[ESP_NUMBER_KEY_MAX], b[ESP_NUMBER_KEY_MAX];
            size_t a_len = esp_number_key(&numbers[i], a), b_len = esp_number_key(&numbers[k], b);
            size_t common = a_len < b_len ? a_len : b_len;
            int order = memcmp(a, b, common), want = esp_number_cmp(&numbers[i], &numbers[k]);
            assert_int_equal(want == 0, order == 0 && a_len == b_len);
            if (want) {
                assert_int_equal(order < 0, want < 0);
                assert_int_not_equal(order, 0); /* none is a prefix of another */
                double x = esp_number_to_double(&numbers[i]), y = esp_number_to_double(&numbers[k]);
                assert_true(want < 0 ? x <= y : x >= y);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_text_and_size), cmocka_unit_test(what_dynamodb_refuses),
        cmocka_unit_test(whole_numbers),           cmocka_unit_test(sums_are_exact),
        cmocka_unit_test(keys_sort_as_numbers_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
