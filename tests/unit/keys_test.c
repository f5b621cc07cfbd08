/* Keys: their order is DynamoDB's, they are unambiguous, ranges and segments cut them right. */
#include "core/rng.h"
#include "stores/keys.h"
#include "tests/support/support.h"

#include <stdlib.h>

static const struct esp_schema strings = {.attr_count = 4,
                                          .attr = {{{"p", 1}, ESP_TYPE_S},
                                                   {{"s", 1}, ESP_TYPE_S},
                                                   {{"q", 1}, ESP_TYPE_S},
                                                   {{"t", 1}, ESP_TYPE_B}},
                                          .pk = 0,
                                          .sk = 1,
                                          .index_count = 1,
                                          .index = {{.name = {"i", 1}, .pk = 2, .sk = 3}}};

static struct esp_item item_of(struct esp_str p, struct esp_str s, struct esp_str t) {
    struct esp_item item = {.data = {0}};
    item.value[0] = esp_s(p);
    item.value[1] = esp_s(s);
    item.value[2] = esp_s(ESP_STR("root"));
    item.value[3] = esp_b(t);
    return item;
}

static int sign(int n) {
    return (n > 0) - (n < 0);
}

static struct esp_str random_bytes(struct esp_rng *rng, char *out) {
    static const char alphabet[] = {0, 1, 'a', 'b', (char)0xFE, (char)0xFF};
    size_t len = 1 + esp_rng_below(rng, 5);
    for (size_t i = 0; i < len; i++) {
        out[i] = alphabet[esp_rng_below(rng, sizeof alphabet)];
    }
    return (struct esp_str){out, len};
}

static void keys_sort_as_values_do(void **state) {
    (void)state;
    static struct esp_key x, y;
    struct esp_rng rng;
    esp_rng_init(&rng, 1, 0);
    for (int i = 0; i < 50000; i++) {
        char text[6][8];
        struct esp_str s[6];
        for (int k = 0; k < 6; k++) {
            s[k] = random_bytes(&rng, text[k]);
        }
        struct esp_item a = item_of(s[0], s[1], s[2]), b = item_of(s[3], s[4], s[5]);
        b.value[0] = i % 2 ? a.value[0] : b.value[0];
        esp_key_of_item(&strings, &a, &x);
        esp_key_of_item(&strings, &b, &y);
        int order = sign(esp_str_cmp(esp_key_str(&x), esp_key_str(&y)));
        if (esp_str_eq(a.value[0].s, b.value[0].s)) {
            assert_int_equal(order, esp_value_cmp(&a.value[1], &b.value[1]));
        } else {
            assert_true(order != 0); /* partitions have no order, but are kept apart */
        }
        assert_true(esp_key_of_entry(&strings, 0, 1, &a, &x));
        assert_true(esp_key_of_entry(&strings, 0, 1, &b, &y));
        int wanted = esp_value_cmp(&a.value[3], &b.value[3]);
        wanted = wanted ? wanted : esp_value_cmp(&a.value[0], &b.value[0]);
        wanted = wanted ? wanted : esp_value_cmp(&a.value[1], &b.value[1]);
        assert_int_equal(sign(esp_str_cmp(esp_key_str(&x), esp_key_str(&y))), wanted);
    }
}

static bool is_in(const struct esp_key *low, const struct esp_key *high,
                  const struct esp_key *key) {
    return esp_str_cmp(esp_key_str(low), esp_key_str(key)) <= 0 &&
           esp_str_cmp(esp_key_str(key), esp_key_str(high)) < 0;
}

static bool wanted_by(const struct esp_query *q, const struct esp_value *v) {
    int lo = q->op == ESP_ANY ? 0 : esp_value_cmp(v, &q->lo);
    switch (q->op) {
    case ESP_EQ:
        return lo == 0;
    case ESP_LT:
        return lo < 0;
    case ESP_LE:
        return lo <= 0;
    case ESP_GT:
        return lo > 0;
    case ESP_GE:
        return lo >= 0;
    case ESP_BETWEEN:
        return lo >= 0 && esp_value_cmp(v, &q->hi) <= 0;
    case ESP_PREFIX:
        return v->s.len >= q->lo.s.len && memcmp(v->s.ptr, q->lo.s.ptr, q->lo.s.len) == 0;
    default:
        return true;
    }
}

static void ranges_hold_what_the_query_asks(void **state) {
    (void)state;
    static struct esp_key low, high, key;
    struct esp_rng rng;
    esp_rng_init(&rng, 2, 0);
    for (int i = 0; i < 50000; i++) {
        char text[6][8];
        struct esp_item a = item_of(random_bytes(&rng, text[0]), random_bytes(&rng, text[1]),
                                    random_bytes(&rng, text[2]));
        bool primary = i % 2;
        struct esp_query q = {.index = primary ? ESP_PRIMARY : 0,
                              .op = (enum esp_compare)esp_rng_below(&rng, ESP_PREFIX + 1)};
        q.pk = primary ? a.value[0] : a.value[2];
        q.lo = a.value[primary ? 1 : 3];
        q.lo.s = random_bytes(&rng, text[3]);
        q.hi = q.lo;
        q.hi.s = random_bytes(&rng, text[4]);
        esp_key_range(&strings, &q, primary ? 0 : 1, &low, &high);
        if (primary) {
            esp_key_of_item(&strings, &a, &key);
        } else {
            assert_true(esp_key_of_entry(&strings, 0, 1, &a, &key));
        }
        assert_int_equal(is_in(&low, &high, &key), wanted_by(&q, &a.value[primary ? 1 : 3]));
        a.value[primary ? 0 : 2].s = random_bytes(&rng, text[5]);
        if (!esp_str_eq(a.value[primary ? 0 : 2].s, q.pk.s)) { /* another partition: never */
            if (primary) {
                esp_key_of_item(&strings, &a, &key);
            } else {
                assert_true(esp_key_of_entry(&strings, 0, 1, &a, &key));
            }
            assert_false(is_in(&low, &high, &key));
        }
    }
}

static void an_item_without_index_key_has_no_entry(void **state) {
    (void)state;
    static struct esp_key key;
    struct esp_item a = item_of(ESP_STR("p"), ESP_STR("s"), ESP_STR("t"));
    a.value[3].type = ESP_TYPE_NONE;
    assert_false(esp_key_of_entry(&strings, 0, 1, &a, &key));
}

static void the_longest_key_fits(void **state) {
    (void)state;
    static struct esp_key key;
    static char zeros[ESP_PK_BYTES_MAX];
    struct esp_str pk = {zeros, ESP_PK_BYTES_MAX}, sk = {zeros, ESP_SK_BYTES_MAX};
    struct esp_item a = item_of(pk, sk, sk);
    a.value[2].s = pk;
    assert_true(esp_key_of_entry(&strings, 0, 1, &a, &key));
    assert_true(key.len <= ESP_KEY_BYTES_MAX);
}

static void segments_are_disjoint_and_complete(void **state) {
    (void)state;
    static struct esp_key low, high, key;
    struct esp_rng rng;
    esp_rng_init(&rng, 3, 0);
    const uint32_t counts[] = {1, 2, 3, 7, 1000000};
    for (int i = 0; i < 2000; i++) {
        char text[2][8];
        struct esp_item a =
            item_of(random_bytes(&rng, text[0]), random_bytes(&rng, text[1]), ESP_STR("t"));
        esp_key_of_item(&strings, &a, &key);
        for (size_t c = 0; c < 4; c++) {
            uint32_t found = 0;
            for (uint32_t s = 0; s < counts[c]; s++) {
                esp_key_segment(0, s, counts[c], &low, &high);
                found += is_in(&low, &high, &key);
            }
            assert_int_equal(found, 1);
        }
    }
    static struct esp_key next;
    for (uint32_t s = 0; s + 1 < 1000; s++) { /* one ends where the next begins */
        esp_key_segment(2, s, counts[4], &low, &high);
        esp_key_segment(2, s + 1, counts[4], &next, &key);
        assert_true(esp_str_eq(esp_key_str(&high), esp_key_str(&next)));
    }
}

static void numbers_sort_over_the_whole_range(void **state) {
    (void)state;
    static const char *const sorted[] = {
        "-9.99e125", "-1e20", "-10", "-1.5", "-1", "-0.001",    "-1e-130", "0",       "1e-130",
        "0.001",     "1",     "1.5", "2",    "10", "123456789", "1e20",    "9.99e125"};
    static struct esp_key low, key;
    struct esp_schema schema = strings;
    struct esp_arena arena;
    struct esp_item a = item_of(ESP_STR("p"), ESP_STR(""), ESP_STR("t"));
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    schema.attr[1].type = ESP_TYPE_N;
    for (size_t i = 0; i < sizeof sorted / sizeof sorted[0]; i++) {
        struct esp_number number;
        assert_status(ESP_OK, esp_number_parse(esp_str_from(sorted[i]), &number, NULL));
        assert_status(ESP_OK, esp_value_from_number(&number, &arena, &a.value[1], NULL));
        esp_key_of_item(&schema, &a, &key);
        assert_true(i == 0 || esp_str_cmp(esp_key_str(&low), esp_key_str(&key)) < 0);
        low = key;
    }
    esp_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_sort_as_values_do),
        cmocka_unit_test(ranges_hold_what_the_query_asks),
        cmocka_unit_test(an_item_without_index_key_has_no_entry),
        cmocka_unit_test(the_longest_key_fits),
        cmocka_unit_test(segments_are_disjoint_and_complete),
        cmocka_unit_test(numbers_sort_over_the_whole_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
