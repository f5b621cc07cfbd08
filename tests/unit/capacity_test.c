/* The meter against the rules of the shared facts sheet, 4.1 to 4.5 (service column). */
#include "stores/capacity.h"
#include "tests/support/support.h"

static struct esp_arena arena;

static int open_arena(void **state) {
    (void)state;
    esp_arena_init(&arena, &esp_alloc_libc, 64 << 20);
    return 0;
}

static int close_arena(void **state) {
    (void)state;
    esp_arena_fini(&arena);
    return 0;
}

static void units_round_up(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        double write, strong;
    } rows[] = {{0, 1, 1},    {1, 1, 1},          {1024, 1, 1}, {1025, 2, 1}, {4096, 4, 1},
                {4097, 5, 2}, {409600, 400, 100}, {8192, 8, 2}, {8193, 9, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(esp_write_units(rows[i].bytes) == rows[i].write);
        assert_true(esp_read_units(rows[i].bytes, true) == rows[i].strong);
        assert_true(esp_read_units(rows[i].bytes, false) == rows[i].strong / 2);
    }
}

/* --- writes --------------------------------------------------------------------- */

/* Keys p, s; indexes: 0 by (g, h) ALL, 1 by g KEYS_ONLY, 2 by g INCLUDE a and c. */
static struct esp_schema schema(void) {
    struct esp_schema s = {.attr_count = 5, .pk = 0, .sk = 1, .index_count = 3};
    static const char *const names[] = {"p", "s", "g", "h", "a"};
    for (size_t i = 0; i < 5; i++) {
        s.attr[i] = (struct esp_attr){esp_str_from(names[i]), i < 4 ? ESP_TYPE_S : ESP_TYPE_NONE};
    }
    s.index[0] = (struct esp_index){.name = ESP_STR("all"), .pk = 2, .sk = 3};
    s.index[1] = (struct esp_index){
        .name = ESP_STR("keys"), .pk = 2, .sk = -1, .projection = ESP_PROJECT_KEYS};
    s.index[2] = (struct esp_index){.name = ESP_STR("some"),
                                    .pk = 2,
                                    .sk = -1,
                                    .projection = ESP_PROJECT_INCLUDE,
                                    .include = {ESP_STR("a"), ESP_STR("c")},
                                    .include_count = 2};
    return s;
}

/* In the texts a `*` stands for 1500 bytes of payload, a `+` for 3000. */
static struct esp_item *item(const char *text) {
    struct esp_schema s = schema();
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_buf json;
    if (!text) {
        return NULL;
    }
    esp_buf_init(&json, &esp_alloc_libc, 1 << 20);
    for (; *text; text++) {
        int n = *text == '*' ? 1500 : *text == '+' ? 3000 : 1;
        for (int i = 0; i < n; i++) {
            esp_buf_put_char(&json, n > 1 ? 'x' : *text);
        }
    }
    struct esp_item *parsed = esp_arena_alloc(&arena, sizeof *parsed);
    assert_non_null(parsed);
    assert_ok(esp_item_parse(&s, esp_buf_str(&json), &arena, parsed, &err), &err);
    esp_buf_fini(&json);
    return parsed;
}

#define KEY  "\"p\":{\"S\":\"a\"},\"s\":{\"S\":\"b\"}"
#define G    ",\"g\":{\"S\":\"c\"}"
#define G2   ",\"g\":{\"S\":\"d\"}"
#define H    ",\"h\":{\"S\":\"e\"}"
#define H2   ",\"h\":{\"S\":\"f\"}"
#define BIG  ",\"d\":{\"S\":\"*\"}"
#define HUGE ",\"d\":{\"S\":\"+\"}"

static const struct {
    const char *about, *old, *new;
    double table, index[3];
} writes[] = {
    {"nothing there, nothing put", NULL, NULL, 1, {0}},
    {"put without index keys", NULL, "{" KEY "}", 1, {0}},
    {"put with g only: not in the index by (g, h)", NULL, "{" KEY G "}", 1, {0, 1, 1}},
    {"put in all", NULL, "{" KEY G H BIG "}", 2, {2, 1, 1}},
    {"delete from all", "{" KEY G H BIG "}", NULL, 2, {2, 1, 1}},
    {"identical put", "{" KEY G H BIG "}", "{" KEY G H BIG "}", 2, {0, 0, 0}},
    {"sets reordered",
     "{" KEY G H BIG ",\"c\":{\"SS\":[\"x\",\"y\"]}}",
     "{" KEY G H BIG ",\"c\":{\"SS\":[\"y\",\"x\"]}}",
     2,
     {0, 0, 0}},
    {"numbers by value",
     "{" KEY G H ",\"a\":{\"N\":\"1\"},\"c\":{\"N\":\"2.50\"}}",
     "{" KEY G H ",\"a\":{\"N\":\"1.0\"},\"c\":{\"N\":\"2.5\"}}",
     1,
     {0, 0, 0}},
    {"unprojected attribute changed", "{" KEY G H "}", "{" KEY G H BIG "}", 2, {2, 0, 0}},
    {"shrinks: the larger one counts", "{" KEY G H HUGE "}", "{" KEY G H BIG "}", 3, {3, 0, 0}},
    {"included payload attribute changed",
     "{" KEY G ",\"c\":{\"S\":\"*\"}}",
     "{" KEY G ",\"c\":{\"S\":\"y\"}}",
     2,
     {0, 0, 2}},
    {"included structural attribute appears",
     "{" KEY G "}",
     "{" KEY G ",\"a\":{\"S\":\"*\"}}",
     2,
     {0, 0, 2}},
    {"included attribute goes", "{" KEY G ",\"c\":{\"S\":\"y\"}}", "{" KEY G "}", 1, {0, 0, 1}},
    {"partition key of the indexes changed",
     "{" KEY G H HUGE "}",
     "{" KEY G2 H "}",
     3,
     {3 + 1, 1 + 1, 1 + 1}},
    {"sort key of one index changed", "{" KEY G H BIG "}", "{" KEY G H2 BIG "}", 2, {2 + 2, 0, 0}},
    {"leaves one index", "{" KEY G H BIG "}", "{" KEY G BIG "}", 2, {2, 0, 0}},
    {"leaves all", "{" KEY G H BIG "}", "{" KEY BIG "}", 2, {2, 1, 1}},
};

static void writes_cost_what_they_touch(void **state) {
    (void)state;
    struct esp_schema s = schema();
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++) {
        struct esp_item *old = item(writes[i].old), *new = item(writes[i].new);
        for (int transaction = 0; transaction < 2; transaction++) {
            struct esp_usage u = {0};
            esp_meter_write(&s, old, new, transaction, &u);
            bool right = u.write.table == writes[i].table * (transaction ? 2 : 1);
            for (int k = 0; k < 3; k++) {
                right = right && u.write.index[k] == writes[i].index[k];
            }
            if (!right) {
                fail_msg("%s: table %g, all %g, keys %g, some %g", writes[i].about, u.write.table,
                         u.write.index[0], u.write.index[1], u.write.index[2]);
            }
            assert_int_equal(u.items_written, 1);
            assert_int_equal(u.bytes_written, new ? esp_item_size(&s, new) : 0);
        }
    }
}

static void index_bytes_are_those_written(void **state) {
    (void)state;
    struct esp_schema s = schema();
    struct esp_usage u = {0};
    /* item 8 + 1501; entries: all of it, p s g 6, p s g a 8 */
    esp_meter_write(&s, NULL, item("{" KEY G H ",\"a\":{\"S\":\"y\"}" BIG "}"), false, &u);
    assert_int_equal(u.bytes_written, 1511);
    assert_int_equal(u.index_bytes_written, 1511 + 6 + 8);
}

static void checks_and_reads(void **state) {
    (void)state;
    struct esp_schema s = schema();
    struct esp_usage u = {0};
    esp_meter_check(&s, item("{" KEY BIG "}"), &u);
    assert_true(u.write.table == 4);
    esp_meter_check(&s, NULL, &u);
    assert_true(u.write.table == 6);
    assert_int_equal(u.items_written, 0);

    u = (struct esp_usage){0};
    esp_meter_get(4097, ESP_EVENTUAL, &u);
    assert_true(u.read.table == 1);
    esp_meter_get(4097, ESP_STRONG, &u);
    assert_true(u.read.table == 1 + 2);
    esp_meter_get(4097, ESP_TRANSACTION, &u);
    assert_true(u.read.table == 3 + 4);
    esp_meter_get(0, ESP_EVENTUAL, &u);
    esp_meter_get(0, ESP_TRANSACTION, &u);
    assert_true(u.read.table == 7 + 0.5 + 2);
    assert_int_equal(u.items_read, 3);
    assert_int_equal(u.bytes_read, 3 * 4097);
}

static void pages_are_rounded_once(void **state) {
    (void)state;
    struct esp_usage u = {0}, sum = {0};
    esp_meter_page(-1, 10010, 10, false, &u);
    assert_true(u.read.table == 1.5);
    esp_meter_page(1, 140, 10, false, &u);
    assert_true(u.read.index[1] == 0.5);
    esp_meter_page(-1, 0, 0, true, &u);
    assert_true(u.read.table == 2.5);
    for (int i = 0; i < 10; i++) {
        esp_meter_fetch(1000, false, &u);
    }
    assert_true(u.read.table == 7.5);
    assert_int_equal(u.items_read, 20);
    assert_int_equal(u.bytes_read, 10010 + 140 + 10000);
    u.billed = true;
    esp_usage_add(&sum, &u);
    esp_usage_add(&sum, &u);
    assert_true(esp_units_total(&sum.read) == 16);
    assert_int_equal(sum.items_read, 40);
    assert_true(sum.billed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_round_up),
        cmocka_unit_test(writes_cost_what_they_touch),
        cmocka_unit_test(index_bytes_are_those_written),
        cmocka_unit_test(checks_and_reads),
        cmocka_unit_test(pages_are_rounded_once),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
