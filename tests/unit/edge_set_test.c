/* Texts of edges and sets of them: read from both ends, whatever ids hold. */
#include "converters/graph/edge_set.h"
#include "core/rng.h"
#include "tests/support/support.h"

#include <stdio.h>

static void entries_are_read_from_both_ends(void **state) {
    (void)state;
    static const struct {
        const char *entry, *type, *key, *gsi0; /* type NULL: it is no entry */
    } cases[] = {
        {"PARENT-NODE-p-0000001000", "PARENT", "NODE-p", "0000001000"},
        {"GOALMEMBERSHIP-USER-U1-500-LEAD", "GOALMEMBERSHIP", "USER-U1", "500-LEAD"},
        {"T-a-500-5", "T", "a-500", "5"},
        {"T-a-500-LEAD-5", "T", "a-500-LEAD", "5"},
        {"T-a-1-2-R", "T", "a-1", "2-R"},
        {"T-5-5", "T", "5", "5"},
        {"T---5", "T", "-", "5"},
        {"T-\"-\\-7-x", "T", "\"-\\", "7-x"},
        {"T-500-LEAD", NULL, NULL, NULL},
        {"T-a-LEAD", NULL, NULL, NULL},
        {"T-a-", NULL, NULL, NULL},
        {"-a-5", NULL, NULL, NULL},
        {"T", NULL, NULL, NULL},
        {"", NULL, NULL, NULL},
        {"-", NULL, NULL, NULL},
        {"5", NULL, NULL, NULL},
        {"T#-a-5", NULL, NULL, NULL},
        {"T-a-5-#", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_edge edge;
        bool entry = esp_edge_parse_entry(esp_str_from(cases[i].entry), &edge);
        if (entry != (cases[i].type != NULL)) {
            fail_msg("%s", cases[i].entry);
        }
        if (entry && !(esp_str_eq(edge.type, esp_str_from(cases[i].type)) &&
                       esp_str_eq(edge.key, esp_str_from(cases[i].key)) &&
                       esp_str_eq(edge.gsi0, esp_str_from(cases[i].gsi0)))) {
            fail_msg("%s: %.*s %.*s %.*s", cases[i].entry, ESP_FMT(edge.type), ESP_FMT(edge.key),
                     ESP_FMT(edge.gsi0));
        }
    }
}

static void ranks_have_ten_digits(void **state) {
    (void)state;
    char text[ESP_RANK_DIGITS];
    esp_edge_put_rank(ESP_RANK_MAX, text);
    assert_memory_equal(text, "9999999999", sizeof text);
    assert_int_equal(esp_edge_rank((struct esp_str){text, sizeof text}), ESP_RANK_MAX);
    esp_edge_put_rank(1000, text);
    assert_memory_equal(text, "0000001000", sizeof text);
    assert_int_equal(esp_edge_rank((struct esp_str){text, sizeof text}), 1000);
    assert_int_equal(esp_edge_rank(ESP_STR("1000")), -1);
    assert_int_equal(esp_edge_rank(ESP_STR("000000100x")), -1);
    assert_int_equal(esp_edge_rank((struct esp_str){NULL, 0}), -1);
}

static struct esp_edge edge(const char *type, const char *key, const char *gsi0) {
    return (struct esp_edge){
        .type = esp_str_from(type), .key = esp_str_from(key), .gsi0 = esp_str_from(gsi0)};
}

static void add(struct esp_edge_set *set, const char *type, const char *key, const char *gsi0) {
    struct esp_edge e = edge(type, key, gsi0);
    assert_int_equal(esp_edge_set_add(set, &e), ESP_OK);
}

/* The values are these; "" = no attribute.  Read again they are the same set. */
static void expect(struct esp_edge_set *set, const char *omit, uint64_t bytes, const char *entries,
                   const char *omitted) {
    struct esp_value have[2], again[2];
    struct esp_edge_set copy;
    assert_int_equal(esp_edge_set_fit(set, omit, bytes), ESP_OK);
    assert_int_equal(esp_edge_set_values(set, &have[0], &have[1]), ESP_OK);
    const char *want[2] = {entries, omitted};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(have[i].type, *want[i] ? ESP_TYPE_JSON : ESP_TYPE_NONE);
        if (*want[i] && !esp_str_eq(have[i].s, esp_str_from(want[i]))) {
            fail_msg("%.*s, not %s", ESP_FMT(have[i].s), want[i]);
        }
    }
    assert_int_equal(esp_edge_set_read(&copy, set->arena, &have[0], &have[1]), ESP_OK);
    assert_int_equal(esp_edge_set_values(&copy, &again[0], &again[1]), ESP_OK);
    assert_true(esp_value_equal(&have[0], &again[0]) && esp_value_equal(&have[1], &again[1]));
}

static void sets_leave_out_what_is_too_much(void **state) {
    (void)state;
    struct esp_arena arena;
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    struct esp_edge_set set = {.arena = &arena};
    expect(&set, NULL, 100, "", "");
    add(&set, "B", "x\"y", "500-R"); /* 11 bytes */
    add(&set, "A", "k1", "1");       /* 6 bytes each */
    add(&set, "A", "k2", "2");
    expect(&set, NULL, 100, "{\"SS\":[\"A-k1-1\",\"A-k2-2\",\"B-x\\\"y-500-R\"]}", "");
    expect(&set, NULL, 23, "{\"SS\":[\"A-k1-1\",\"A-k2-2\",\"B-x\\\"y-500-R\"]}", "");
    expect(&set, NULL, 22, "{\"SS\":[\"B-x\\\"y-500-R\"]}", "{\"SS\":[\"A\"]}");
    /* what is left out stays so although there is room */
    expect(&set, NULL, 100, "{\"SS\":[\"B-x\\\"y-500-R\"]}", "{\"SS\":[\"A\"]}");
    assert_true(esp_edge_set_omits(&set, ESP_STR("A")));
    add(&set, "A", "k3", "3");
    expect(&set, "X,B", 100, "", "{\"SS\":[\"A\",\"B\"]}");
    esp_edge_set_remove(&set, esp_edge_set_find(&set, ESP_STR("B"), ESP_STR("x\"y")));
    esp_edge_set_unmark(&set, ESP_STR("B"));
    expect(&set, "X,B", 100, "", "{\"SS\":[\"A\"]}");
    assert_null(esp_edge_set_find(&set, ESP_STR("B"), ESP_STR("x\"y")));
    uint32_t at = 0, count = 0;
    while (esp_edge_set_next(&set, ESP_STR("A"), &at)) {
        count++;
    }
    assert_int_equal(count, 3);
    esp_arena_fini(&arena);
}

/* Random changes of a set that is large enough to be looked up; a list of what is there says what
 * each look-up has to find. */
static void large_sets_find_what_is_there(void **state) {
    (void)state;
    enum { KEYS = 300, STEPS = 20000, FIT_ONE_IN = 1000 };
    static const char *const types[] = {"A", "B"};
    static char keys[KEYS][8];
    static bool there[2][KEYS];
    struct esp_rng rng;
    struct esp_arena arena;
    esp_rng_init(&rng, 1, 0);
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    struct esp_edge_set set = {.arena = &arena};
    uint32_t count = 0;
    for (int k = 0; k < KEYS; k++) {
        snprintf(keys[k], sizeof keys[k], "k%d", k);
    }
    for (int i = 0; i < STEPS; i++) {
        /* it grows, and shrinks again */
        uint64_t most = i < STEPS / 2 ? KEYS : KEYS / 20;
        int t = (int)esp_rng_below(&rng, 2), k = (int)esp_rng_below(&rng, KEYS);
        struct esp_edge *found =
            esp_edge_set_find(&set, esp_str_from(types[t]), esp_str_from(keys[k]));
        assert_true((found != NULL) == there[t][k]);
        if (found) {
            assert_true(esp_str_eq(found->key, esp_str_from(keys[k])));
            assert_true(esp_str_eq(found->type, esp_str_from(types[t])));
        }
        if (found && esp_rng_below(&rng, 2 * KEYS) >= most) {
            esp_edge_set_remove(&set, found);
        } else if (!found && esp_rng_below(&rng, KEYS) < most) {
            add(&set, types[t], keys[k], "1");
        }
        there[t][k] = found ? set.count == count : set.count > count;
        count = set.count;
        if (esp_rng_below(&rng, FIT_ONE_IN) == 0) {
            assert_int_equal(esp_edge_set_fit(&set, NULL, UINT64_MAX), ESP_OK);
        }
    }
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < KEYS; k++) {
            count -= there[t][k];
        }
    }
    assert_int_equal(count, 0);
    esp_arena_fini(&arena);
}

/* What is no entry stays in the set as it is, and no other value is taken for a set. */
static void strange_values_do_no_harm(void **state) {
    (void)state;
    struct esp_arena arena;
    struct esp_edge_set set;
    struct esp_value none = {.type = ESP_TYPE_NONE}, entries, omitted;
    struct esp_value strange = {ESP_TYPE_JSON, ESP_STR("{\"SS\":[\"T-a-5\",\"strange\"]}"), 0};
    struct esp_value list = {ESP_TYPE_JSON, ESP_STR("{\"L\":[{\"S\":\"T-a-5\"}]}"), 0};
    struct esp_value text = esp_s(ESP_STR("{\"SS\":[\"T-a-5\"]}"));
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    assert_int_equal(esp_edge_set_read(&set, &arena, &strange, &none), ESP_OK);
    assert_int_equal(set.count, 2);
    assert_int_equal(esp_edge_set_fit(&set, NULL, 100), ESP_OK);
    assert_int_equal(esp_edge_set_values(&set, &entries, &omitted), ESP_OK);
    assert_true(esp_value_equal(&entries, &strange));
    assert_int_equal(esp_edge_set_read(&set, &arena, &list, &text), ESP_OK);
    assert_int_equal(set.count + set.omitted_count, 0);
    esp_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_are_read_from_both_ends),
        cmocka_unit_test(ranks_have_ten_digits),
        cmocka_unit_test(sets_leave_out_what_is_too_much),
        cmocka_unit_test(large_sets_find_what_is_there),
        cmocka_unit_test(strange_values_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
