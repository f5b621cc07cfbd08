/* Sizes (shared facts sheet 3), checks, order, equality and changes of items. */
#include "stores/item.h"
#include "tests/support/alloc.h"
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

/* A table like the path layout's: keys tree (S) and path (S), an index by depth (N). */
static struct esp_schema tree_schema(void) {
    struct esp_schema s = {.attr_count = 4, .pk = 0, .sk = 1, .index_count = 1};
    s.attr[0] = (struct esp_attr){ESP_STR("t"), ESP_TYPE_S};
    s.attr[1] = (struct esp_attr){ESP_STR("p"), ESP_TYPE_S};
    s.attr[2] = (struct esp_attr){ESP_STR("d"), ESP_TYPE_N};
    s.attr[3] = (struct esp_attr){ESP_STR("x"), ESP_TYPE_NONE};
    s.index[0] = (struct esp_index){.name = ESP_STR("by-depth"), .pk = 0, .sk = 2};
    return s;
}

static struct esp_item parse(const struct esp_schema *schema, const char *json) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_item item;
    assert_ok(esp_item_parse(schema, esp_str_from(json), &arena, &item, &err), &err);
    return item;
}

static const char *text(const struct esp_schema *schema, const struct esp_item *item) {
    struct esp_buf out;
    esp_buf_init(&out, &esp_alloc_libc, 1 << 20);
    esp_item_put_json(&out, schema, item);
    struct esp_str copy = esp_arena_dup(&arena, esp_buf_str(&out));
    esp_buf_fini(&out);
    assert_non_null(copy.ptr);
    return copy.ptr;
}

/* --- sizes -------------------------------------------------------------------- */

/* Every row of facts sheet 3.3 (for empty strings the service's column), name included. */
static const struct {
    const char *item;
    uint32_t bytes;
} sizes[] = {
    {"{\"a\":{\"S\":\"\"}}", 1},
    {"{\"a\":{\"S\":\"hello\"}}", 6},
    {"{\"a\":{\"S\":\"é\"}}", 3},
    {"{\"a\":{\"S\":\"漢字\"}}", 7},
    {"{\"a\":{\"S\":\"😀\"}}", 5},
    {"{\"a\":{\"S\":\"\\ud83d\\ude00\"}}", 5},
    {"{\"a\":{\"S\":\"\\u0000\\n\"}}", 3},
    {"{\"é\":{\"S\":\"x\"}}", 3},
    {"{\"\\u00e9\":{\"S\":\"x\"}}", 3},
    {"{\"nnnnnnnnnnnnnnnnnnnn\":{\"S\":\"x\"}}", 21},
    {"{\"a\":{\"B\":\"\"}}", 1},
    {"{\"a\":{\"B\":\"AQ==\"}}", 2},
    {"{\"a\":{\"B\":\"AAAAAAAAAAAAAA==\"}}", 11},
    {"{\"a\":{\"BOOL\":true}}", 2},
    {"{\"a\":{\"BOOL\":false}}", 2},
    {"{\"a\":{\"NULL\":true}}", 2},
    {"{\"a\":{\"N\":\"0\"}}", 2},
    {"{\"a\":{\"N\":\"-0\"}}", 2},
    {"{\"a\":{\"N\":\"1\"}}", 3},
    {"{\"a\":{\"N\":\"-1\"}}", 4},
    {"{\"a\":{\"N\":\"-10\"}}", 4},
    {"{\"a\":{\"N\":\"12\"}}", 3},
    {"{\"a\":{\"N\":\"100\"}}", 3},
    {"{\"a\":{\"N\":\"101\"}}", 4},
    {"{\"a\":{\"N\":\"123\"}}", 4},
    {"{\"a\":{\"N\":\"-123\"}}", 5},
    {"{\"a\":{\"N\":\"1234\"}}", 4},
    {"{\"a\":{\"N\":\"12345\"}}", 5},
    {"{\"a\":{\"N\":\"-12345\"}}", 6},
    {"{\"a\":{\"N\":\"123456\"}}", 5},
    {"{\"a\":{\"N\":\"1.0\"}}", 3},
    {"{\"a\":{\"N\":\"1.5\"}}", 4},
    {"{\"a\":{\"N\":\"12.5\"}}", 4},
    {"{\"a\":{\"N\":\"0.1\"}}", 3},
    {"{\"a\":{\"N\":\"0.05\"}}", 3},
    {"{\"a\":{\"N\":\"0.123\"}}", 4},
    {"{\"a\":{\"N\":\"1.23\"}}", 4},
    {"{\"a\":{\"N\":\"123.4\"}}", 5},
    {"{\"a\":{\"N\":\"-0.12\"}}", 4},
    {"{\"a\":{\"N\":\"-1.23\"}}", 5},
    {"{\"a\":{\"N\":\"1e10\"}}", 3},
    {"{\"a\":{\"N\":\"1.5e10\"}}", 4},
    {"{\"a\":{\"N\":\"1.5e11\"}}", 3},
    {"{\"a\":{\"N\":\"1.5E-5\"}}", 3},
    {"{\"a\":{\"N\":\"1.5E-6\"}}", 4},
    {"{\"a\":{\"N\":\"1e125\"}}", 3},
    {"{\"a\":{\"N\":\"1e-130\"}}", 3},
    {"{\"a\":{\"N\":\"99999999999999999999999999999999999999\"}}", 21},
    {"{\"a\":{\"N\":\"-99999999999999999999999999999999999999\"}}", 22},
    {"{\"a\":{\"N\":\"-12345678901234567890\"}}", 13},
    {"{\"a\":{\"N\":\"1234567890123456789\"}}", 12},
    {"{\"a\":{\"N\":\"3.14159265358979\"}}", 10},
    {"{\"a\":{\"N\":\"1700000000.5\"}}", 8},
    {"{\"a\":{\"N\":\"1234567890123456789012345678901234567.8\"}}", 22},
    {"{\"a\":{\"N\":\"-1234567890123456789012345678901234567.8\"}}", 22},
    {"{\"a\":{\"N\":\"9.9999999999999999999999999999999999999E+125\"}}", 21},
    {"{\"a\":{\"N\":\"-9.9999999999999999999999999999999999999E+125\"}}", 22},
    {"{\"a\":{\"SS\":[\"x\"]}}", 2},
    {"{\"a\":{\"SS\":[\"a\",\"bb\",\"ccc\"]}}", 7},
    {"{\"a\":{\"SS\":[\"\",\"b\"]}}", 2},
    {"{\"a\":{\"SS\":[\"é\",\"漢\"]}}", 6},
    {"{\"a\":{\"NS\":[\"1\",\"22\",\"333\"]}}", 8},
    {"{\"a\":{\"NS\":[\"-1\",\"0\",\"10.5\"]}}", 8},
    {"{\"a\":{\"BS\":[\"AQ==\",\"AQI=\"]}}", 4},
    {"{\"a\":{\"L\":[]}}", 4},
    {"{\"a\":{\"L\":[{\"S\":\"x\"}]}}", 6},
    {"{\"a\":{\"L\":[{\"S\":\"x\"},{\"S\":\"yy\"}]}}", 9},
    {"{\"a\":{\"L\":[{\"NULL\":true}]}}", 6},
    {"{\"a\":{\"L\":[{\"N\":\"1\"}]}}", 7},
    {"{\"a\":{\"L\":[{\"N\":\"123\"}]}}", 8},
    {"{\"a\":{\"L\":[{\"SS\":[\"x\",\"y\"]}]}}", 7},
    {"{\"a\":{\"L\":[{\"L\":[]}]}}", 8},
    {"{\"a\":{\"L\":[{\"L\":[]},{\"L\":[]}]}}", 12},
    {"{\"a\":{\"L\":[{\"M\":{}}]}}", 8},
    {"{\"a\":{\"L\":[{\"S\":\"\"}]}}", 5},
    {"{\"a\":{\"M\":{}}}", 4},
    {"{\"a\":{\"M\":{\"k\":{\"S\":\"x\"}}}}", 7},
    {"{\"a\":{\"M\":{\"key\":{\"S\":\"x\"}}}}", 9},
    {"{\"a\":{\"M\":{\"k\":{\"S\":\"x\"},\"l\":{\"S\":\"yy\"}}}}", 11},
    {"{\"a\":{\"M\":{\"k\":{\"N\":\"1\"}}}}", 8},
    {"{\"a\":{\"M\":{\"k\":{\"SS\":[\"x\",\"y\"]}}}}", 8},
    {"{\"a\":{\"M\":{\"k\":{\"M\":{}}}}}", 9},
    {"{\"a\":{\"M\":{\"k\":{\"M\":{\"j\":{\"S\":\"x\"}}}}}}", 12},
    {"{\"a\":{\"M\":{\"k\":{\"L\":[{\"S\":\"x\"},{\"N\":\"1\"}]}}}}", 14},
    {"{\"a\":{\"M\":{\"é\":{\"S\":\"x\"}}}}", 8},
    {"{\"a\":{\"M\":{\"k\":{\"S\":\"\"}}}}", 6},
    {"{\"a\":{\"L\":[{\"L\":[{\"L\":[{\"L\":[{\"L\":[]}]}]}]}]}}", 20},
    {"{\"shirt-color\":{\"S\":\"R\"},\"shirt-size\":{\"S\":\"M\"}}", 23},
    {"{\"Name\":{\"S\":\"Sanford and Co\"},\"Parent\":{\"S\":\"a3f1c2\"},\"Depth\":{\"N\":\"4\"},"
     "\"Tags\":{\"SS\":[\"x1\",\"y2\"]}}",
     45},
};

/* The same figure whether the attribute is payload, structural, or a value on its own. */
static void sizes_are_dynamodbs(void **state) {
    (void)state;
    struct esp_schema payload = {.attr_count = 0};
    struct esp_schema structural = {.attr_count = 1};
    structural.attr[0] = (struct esp_attr){ESP_STR("a"), ESP_TYPE_NONE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct esp_item one = parse(&payload, sizes[i].item);
        struct esp_item two = parse(&structural, sizes[i].item);
        if (one.data.size != sizes[i].bytes || esp_item_size(&payload, &one) != sizes[i].bytes ||
            esp_item_size(&structural, &two) != sizes[i].bytes) {
            fail_msg("%s: %u as payload, %u as structural, expected %u", sizes[i].item,
                     one.data.size, esp_item_size(&structural, &two), sizes[i].bytes);
        }
    }
}

static void size_of_a_whole_number(void **state) {
    (void)state;
    struct esp_value five = esp_n(5), less = esp_n(-12345), zero = esp_n(0);
    assert_int_equal(esp_value_size(&five), 2);
    assert_int_equal(esp_value_size(&less), 5);
    assert_int_equal(esp_value_size(&zero), 1);
}

static void entries_hold_what_is_projected(void **state) {
    (void)state;
    struct esp_schema s = tree_schema();
    struct esp_item item = parse(&s, "{\"t\":{\"S\":\"tree\"},\"p\":{\"S\":\"/a/b\"},"
                                     "\"d\":{\"N\":\"2\"},\"x\":{\"S\":\"12345\"},"
                                     "\"name\":{\"S\":\"n\"},\"q\\u0041\":{\"S\":\"long\"}}");
    /* t 5, p 5, d 3, x 6, name 5, qA 6 */
    assert_int_equal(esp_item_size(&s, &item), 30);
    s.index[0].projection = ESP_PROJECT_ALL;
    assert_int_equal(esp_entry_size(&s, &s.index[0], &item), 30);
    s.index[0].projection = ESP_PROJECT_KEYS;
    assert_int_equal(esp_entry_size(&s, &s.index[0], &item), 13);
    s.index[0].projection = ESP_PROJECT_INCLUDE;
    s.index[0].include[0] = ESP_STR("qA");
    s.index[0].include[1] = ESP_STR("x");
    s.index[0].include[2] = ESP_STR("p"); /* a key: counted once */
    s.index[0].include[3] = ESP_STR("absent");
    s.index[0].include_count = 4;
    assert_int_equal(esp_entry_size(&s, &s.index[0], &item), 13 + 6 + 6);
    item.value[2].type = ESP_TYPE_NONE;
    assert_int_equal(esp_entry_size(&s, &s.index[0], &item), 0);
}

/* --- checks ------------------------------------------------------------------- */

static void check_names_what_is_wrong(void **state) {
    (void)state;
    struct esp_schema s = tree_schema();
    struct esp_error err = ESP_ERROR_INIT;
    static char long_key[2050];
    memset(long_key, 'k', sizeof long_key);
    struct esp_item good = {.value = {esp_s(ESP_STR("t")), esp_s(ESP_STR("/a"))}}, bad;
    assert_ok(esp_item_check(&s, &good, &err), &err);

    bad = good;
    bad.value[1] = (struct esp_value){.type = ESP_TYPE_NONE};
    assert_status(ESP_ERR_REFUSED, esp_item_check(&s, &bad, &err));
    assert_non_null(strstr(err.message, "key attribute p of the table"));
    bad = good;
    bad.value[0].s.len = 0;
    assert_status(ESP_ERR_REFUSED, esp_item_check(&s, &bad, NULL));
    bad.value[0].s = (struct esp_str){long_key, 2048};
    assert_status(ESP_OK, esp_item_check(&s, &bad, NULL));
    bad.value[0].s.len = 2049;
    esp_error_clear(&err);
    assert_status(ESP_ERR_LIMIT, esp_item_check(&s, &bad, &err));
    assert_non_null(strstr(err.message, "2049 bytes, at most 2048"));
    bad = good;
    bad.value[1].s = (struct esp_str){long_key, 1024};
    assert_status(ESP_OK, esp_item_check(&s, &bad, NULL));
    bad.value[1].s.len = 1025;
    assert_status(ESP_ERR_LIMIT, esp_item_check(&s, &bad, NULL));
    bad = good;
    bad.value[2] = esp_s(ESP_STR("2"));
    esp_error_clear(&err);
    assert_status(ESP_ERR_REFUSED, esp_item_check(&s, &bad, &err));
    assert_non_null(strstr(err.message, "d of by-depth must be of type N, not S"));
}

static void check_size_at_the_limit(void **state) {
    (void)state;
    struct esp_schema s = tree_schema();
    static char big[ESP_ITEM_BYTES_MAX];
    memset(big, 'x', sizeof big);
    struct esp_item item = {.value = {esp_s(ESP_STR("t")), esp_s(ESP_STR("/a"))}};
    item.value[3] = esp_s((struct esp_str){big, ESP_ITEM_BYTES_MAX - 2 - 3 - 1});
    assert_int_equal(esp_item_size(&s, &item), ESP_ITEM_BYTES_MAX);
    assert_status(ESP_OK, esp_item_check(&s, &item, NULL));
    item.value[3].s.len++;
    assert_status(ESP_ERR_LIMIT, esp_item_check(&s, &item, NULL));
    /* with an entry in a local index the two share the limit */
    item.value[3].s.len = ESP_ITEM_BYTES_MAX / 2 - 6;
    item.value[2] = esp_n(1);
    s.index[0].local = true;
    assert_status(ESP_ERR_LIMIT, esp_item_check(&s, &item, NULL));
    item.value[3].s.len -= 3;
    assert_status(ESP_OK, esp_item_check(&s, &item, NULL));
}

static void schemas_match_by_keys_and_indexes(void **state) {
    (void)state;
    struct esp_schema want = tree_schema(), have = tree_schema();
    struct esp_error err = ESP_ERROR_INIT;
    have.attr_count = 3; /* attributes that are no keys do not matter */
    assert_ok(esp_schema_match(&want, &have, &err), &err);
    have.attr[2].type = ESP_TYPE_S;
    assert_status(ESP_ERR_REFUSED, esp_schema_match(&want, &have, &err));
    assert_non_null(strstr(err.message, "by-depth"));
    have = tree_schema();
    have.index_count = 0;
    assert_status(ESP_ERR_REFUSED, esp_schema_match(&want, &have, NULL));
    assert_status(ESP_OK, esp_schema_match(&have, &want, NULL));
    have = tree_schema();
    have.sk = -1;
    assert_status(ESP_ERR_REFUSED, esp_schema_match(&want, &have, NULL));
    have = tree_schema();
    have.index[0].projection = ESP_PROJECT_KEYS;
    assert_status(ESP_ERR_REFUSED, esp_schema_match(&want, &have, NULL));
}

/* --- order and equality --------------------------------------------------------- */

static struct esp_value number(const char *digits) {
    struct esp_number n;
    struct esp_value value;
    assert_status(ESP_OK, esp_number_parse(esp_str_from(digits), &n, NULL));
    assert_status(ESP_OK, esp_value_from_number(&n, &arena, &value, NULL));
    return value;
}

static void keys_are_ordered_by_type(void **state) {
    (void)state;
    static const char *const numbers[] = {
        "-1e30", "-12.5", "-12", "0", "0.5", "1", "9223372036854775807", "9223372036854775808"};
    for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < 8; k++) {
            struct esp_value a = number(numbers[i]), b = number(numbers[k]);
            assert_int_equal(esp_value_cmp(&a, &b), (i > k) - (i < k));
        }
    }
    struct esp_value a = esp_s(ESP_STR("n1")), b = esp_s(ESP_STR("n10")),
                     c = esp_s(ESP_STR("n\xc3"));
    assert_int_equal(esp_value_cmp(&a, &b), -1);
    assert_int_equal(esp_value_cmp(&c, &b), 1);
    assert_int_equal(esp_value_cmp(&b, &b), 0);
}

static void equality_is_by_value(void **state) {
    (void)state;
    struct esp_schema s = {.attr_count = 0};
    static const struct {
        const char *a, *b;
        bool equal;
    } rows[] = {
        {"{}", "{}", true},
        {"{\"a\":{\"N\":\"1\"}}", "{\"a\":{\"N\":\"1.0\"}}", true},
        {"{\"a\":{\"N\":\"1\"}}", "{\"a\":{\"S\":\"1\"}}", false},
        {"{\"a\":{\"N\":\"1\"}}", "{\"a\":{\"N\":\"2\"}}", false},
        {"{\"a\":{\"N\":\"1\"}}", "{\"b\":{\"N\":\"1\"}}", false},
        {"{\"a\":{\"S\":\"x\"},\"b\":{\"S\":\"y\"}}", "{\"b\":{\"S\":\"y\"},\"a\":{\"S\":\"x\"}}",
         true},
        {"{\"a\":{\"S\":\"x\"},\"b\":{\"S\":\"y\"}}", "{\"b\":{\"S\":\"x\"},\"a\":{\"S\":\"y\"}}",
         false},
        {"{\"a\":{\"SS\":[\"x\",\"y\"]}}", "{\"a\":{\"SS\":[\"y\",\"x\"]}}", true},
        {"{\"a\":{\"SS\":[\"x\",\"y\"]}}", "{\"a\":{\"SS\":[\"y\",\"z\"]}}", false},
        {"{\"a\":{\"NS\":[\"1\",\"2\"]}}", "{\"a\":{\"NS\":[\"2.0\",\"1\"]}}", true},
        {"{\"a\":{\"NS\":[\"1\",\"2\"]}}", "{\"a\":{\"SS\":[\"1\",\"2\"]}}", false},
        {"{\"a\":{\"L\":[{\"S\":\"x\"},{\"S\":\"y\"}]}}",
         "{\"a\":{\"L\":[{\"S\":\"y\"},{\"S\":\"x\"}]}}", false},
        {"{\"a\":{\"L\":[{\"L\":[]},{\"S\":\"y\"}]}}", "{\"a\":{\"L\":[{\"L\":[{\"S\":\"y\"}]}]}}",
         false},
        {"{\"a\":{\"M\":{\"k\":{\"SS\":[\"x\",\"y\"]},\"l\":{\"L\":[{\"M\":{}}]}}}}",
         "{\"a\":{\"M\":{\"l\":{\"L\":[{\"M\":{}}]},\"k\":{\"SS\":[\"y\",\"x\"]}}}}", true},
        {"{\"a\":{\"M\":{\"k\":{\"M\":{\"j\":{\"S\":\"x\"}}}}}}",
         "{\"a\":{\"M\":{\"j\":{\"M\":{\"k\":{\"S\":\"x\"}}}}}}", false},
        {"{\"a\":{\"BOOL\":true}}", "{\"a\":{\"BOOL\":false}}", false},
        {"{\"a\":{\"M\":{\"k\":{\"S\":\"x\"},\"l\":{\"S\":\"y\"}}}}",
         "{\"a\":{\"M\":{\"k\":{\"S\":\"y\"},\"l\":{\"S\":\"x\"}}}}", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct esp_item a = parse(&s, rows[i].a), b = parse(&s, rows[i].b);
        if (esp_data_equal(a.data, b.data) != rows[i].equal ||
            esp_item_equal(&s, &a, &b) != rows[i].equal ||
            (esp_item_digest(&s, &a) == esp_item_digest(&s, &b)) != rows[i].equal) {
            fail_msg("%s and %s", rows[i].a, rows[i].b);
        }
    }
    /* what was encoded elsewhere may hold other escapes */
    struct esp_data plain = {"\"a\":{\"S\":\"x/é\"}", 17, 5},
                    escaped = {"\"\\u0061\":{\"S\":\"x\\/\\u00e9\"}", 27, 5};
    assert_true(esp_data_equal(plain, escaped));
    /* two that are absent are equal whatever is left in them */
    struct esp_value absent = {.type = ESP_TYPE_NONE}, left = {.s = {"x", 1}, .n = 5};
    assert_true(esp_value_equal(&absent, &left));
}

/* A digest does not depend on which attributes the schema knows. */
static void digests_ignore_the_schema(void **state) {
    (void)state;
    struct esp_schema one = tree_schema(), none = {.attr_count = 0};
    const char *json = "{\"t\":{\"S\":\"a\\nb\"},\"p\":{\"B\":\"AQID\"},\"d\":{\"N\":\"-1.5\"},"
                       "\"x\":{\"NS\":[\"1\",\"2\"]}}";
    one.attr[1].type = ESP_TYPE_B;
    struct esp_item a = parse(&one, json), b = parse(&none, json);
    assert_true(esp_item_digest(&one, &a) == esp_item_digest(&none, &b));
    a.value[2] = esp_n(-1);
    assert_false(esp_item_digest(&one, &a) == esp_item_digest(&none, &b));
}

/* --- copies --------------------------------------------------------------------- */

static void a_copy_owns_its_strings(void **state) {
    (void)state;
    struct esp_schema s = tree_schema();
    char id[] = "tree", data[] = "\"n\":{\"S\":\"x\"}";
    struct esp_item item = {.value = {esp_s((struct esp_str){id, 4}), esp_s(ESP_STR("/a"))},
                            .data = {data, sizeof data - 1, 2}};
    struct esp_item copy;
    assert_status(ESP_OK, esp_item_dup(&s, &arena, &item, &copy));
    memset(id, '!', sizeof id - 1);
    memset(data, '!', sizeof data - 1);
    assert_string_equal(text(&s, &copy),
                        "\"t\":{\"S\":\"tree\"},\"p\":{\"S\":\"/a\"},\"n\":{\"S\":\"x\"}");
}

static void attributes_are_found_anywhere(void **state) {
    (void)state;
    struct esp_schema s = tree_schema();
    struct esp_item item =
        parse(&s, "{\"t\":{\"S\":\"tree\"},\"na\\\"me\":{\"S\":\"x\"},\"pop\":{\"N\":\"1.5\"}}");
    struct esp_value value;
    assert_status(ESP_OK, esp_item_find(&s, &item, ESP_STR("t"), &arena, &value, NULL));
    assert_memory_equal(value.s.ptr, "tree", 4);
    assert_status(ESP_OK, esp_item_find(&s, &item, ESP_STR("na\"me"), &arena, &value, NULL));
    assert_int_equal(value.type, ESP_TYPE_S);
    assert_status(ESP_OK, esp_item_find(&s, &item, ESP_STR("pop"), &arena, &value, NULL));
    assert_int_equal(value.type, ESP_TYPE_N);
    assert_memory_equal(value.s.ptr, "1.5", 3);
    assert_status(ESP_OK, esp_item_find(&s, &item, ESP_STR("po"), &arena, &value, NULL));
    assert_int_equal(value.type, ESP_TYPE_NONE);
}

/* --- changes -------------------------------------------------------------------- */

static struct esp_value json(const char *value_text) {
    return (struct esp_value){ESP_TYPE_JSON, esp_str_from(value_text), 0};
}

static const char base[] =
    "{\"t\":{\"S\":\"T\"},\"p\":{\"S\":\"/\"},\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},"
    "\"n\":{\"N\":\"1.5\"},\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true}}";

/* One change of the item above: the text after it, or the status. */
static const struct {
    struct esp_change change;
    enum esp_status status;
    const char *after; /* of the payload and of d */
} changes[] = {
    {{ESP_CHANGE_SET, ESP_STR("name"), {ESP_TYPE_S, ESP_STR("new\n"), 0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"new\\n\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_SET, ESP_STR("more"), {ESP_TYPE_N, {0, 0}, 7}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true},\"more\":{\"N\":\"7\"}"},
    {{ESP_CHANGE_SET, ESP_STR("d"), {ESP_TYPE_N, {0, 0}, 9}},
     ESP_OK,
     "\"d\":{\"N\":\"9\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_REMOVE, ESP_STR("d"), {0}},
     ESP_OK,
     "\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},\"set\":{\"SS\":[\"a\",\"b\"]},"
     "\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_REMOVE, ESP_STR("last"), {0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]}"},
    {{ESP_CHANGE_ADD, ESP_STR("n"), {ESP_TYPE_N, ESP_STR("0.5"), 0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"2\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_ADD, ESP_STR("d"), {ESP_TYPE_N, {0, 0}, -5}},
     ESP_OK,
     "\"d\":{\"N\":\"-1\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_ADD, ESP_STR("set"), {ESP_TYPE_JSON, ESP_STR("{\"SS\":[\"\\u0062\",\"c\"]}"), 0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\",\"c\"]},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_DELETE, ESP_STR("set"), {ESP_TYPE_JSON, ESP_STR("{\"SS\":[\"a\",\"q\"]}"), 0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"b\"]},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_DELETE, ESP_STR("set"), {ESP_TYPE_JSON, ESP_STR("{\"SS\":[\"a\",\"b\"]}"), 0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_DELETE, ESP_STR("none"), {ESP_TYPE_JSON, ESP_STR("{\"SS\":[\"a\"]}"), 0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true}"},
    {{ESP_CHANGE_ADD, ESP_STR("none"), {ESP_TYPE_JSON, ESP_STR("{\"NS\":[\"1\"]}"), 0}},
     ESP_OK,
     "\"d\":{\"N\":\"4\"},\"name\":{\"S\":\"old\"},\"n\":{\"N\":\"1.5\"},"
     "\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true},\"none\":{\"NS\":[\"1\"]}"},
    {{ESP_CHANGE_SET, ESP_STR("p"), {ESP_TYPE_S, ESP_STR("x"), 0}}, ESP_ERR_REFUSED, NULL},
    {{ESP_CHANGE_REMOVE, ESP_STR("t"), {0}}, ESP_ERR_REFUSED, NULL},
    {{ESP_CHANGE_SET, ESP_STR("name"), {0}}, ESP_ERR_REFUSED, NULL},
    {{ESP_CHANGE_ADD, ESP_STR("name"), {ESP_TYPE_N, {0, 0}, 1}}, ESP_ERR_REFUSED, NULL},
    {{ESP_CHANGE_ADD, ESP_STR("name"), {ESP_TYPE_S, ESP_STR("x"), 0}}, ESP_ERR_REFUSED, NULL},
    {{ESP_CHANGE_ADD, ESP_STR("set"), {ESP_TYPE_JSON, ESP_STR("{\"NS\":[\"1\"]}"), 0}},
     ESP_ERR_REFUSED,
     NULL},
    {{ESP_CHANGE_DELETE, ESP_STR("n"), {ESP_TYPE_N, {0, 0}, 1}}, ESP_ERR_REFUSED, NULL},
    {{ESP_CHANGE_DELETE, ESP_STR("name"), {ESP_TYPE_JSON, ESP_STR("{\"SS\":[\"a\"]}"), 0}},
     ESP_ERR_REFUSED,
     NULL},
    {{ESP_CHANGE_ADD,
      ESP_STR("n"),
      {ESP_TYPE_N, ESP_STR("1000000000000000000000000000000000000000000"), 0}},
     ESP_ERR_LIMIT,
     NULL},
};

static void changes_do_what_update_item_does(void **state) {
    (void)state;
    struct esp_schema s = tree_schema(), plain = {.attr_count = 0};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct esp_item old = parse(&s, base), after;
        enum esp_status status =
            esp_item_apply(&s, &old, &changes[i].change, 1, &arena, &after, NULL);
        if (status != changes[i].status) {
            fail_msg("change %zu: %s", i, esp_status_name(status));
        }
        if (status != ESP_OK) {
            continue;
        }
        assert_string_equal(text(&s, &after) + strlen("\"t\":{\"S\":\"T\"},\"p\":{\"S\":\"/\"},"),
                            changes[i].after);
        /* the size kept beside the text is that of the text */
        struct esp_str all = esp_arena_fmt(&arena, "{%s}", text(&s, &after));
        struct esp_item again = parse(&plain, all.ptr);
        assert_int_equal(again.data.size, esp_item_size(&s, &after));
    }
}

static void changes_of_several_attributes(void **state) {
    (void)state;
    struct esp_schema s = tree_schema();
    struct esp_item old = parse(&s, base), after;
    struct esp_change both[] = {{ESP_CHANGE_REMOVE, ESP_STR("name"), {0}},
                                {ESP_CHANGE_SET, ESP_STR("x"), json("{\"L\":[]}")},
                                {ESP_CHANGE_SET, ESP_STR("n"), esp_b(ESP_STR("\1\2"))}};
    assert_status(ESP_OK, esp_item_apply(&s, &old, both, 3, &arena, &after, NULL));
    assert_string_equal(
        text(&s, &after),
        "\"t\":{\"S\":\"T\"},\"p\":{\"S\":\"/\"},\"d\":{\"N\":\"4\"},\"x\":{\"L\":[]},"
        "\"n\":{\"B\":\"AQI=\"},\"set\":{\"SS\":[\"a\",\"b\"]},\"last\":{\"BOOL\":true}");
    both[2].name = both[0].name;
    assert_status(ESP_ERR_REFUSED, esp_item_apply(&s, &old, both, 3, &arena, &after, NULL));
}

static void merging_payloads(void **state) {
    (void)state;
    struct esp_schema none = {.attr_count = 0};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_data old =
        parse(&none, "{\"a\":{\"N\":\"1\"},\"b\":{\"S\":\"bb\"},\"c\":{\"S\":\"c\"}}").data;
    struct esp_data set =
        parse(&none, "{\"z\":{\"S\":\"zz\"},\"b\":{\"SS\":[\"q\"]},\"\\u00e9\":{\"NULL\":true}}")
            .data;
    struct esp_str remove[] = {ESP_STR("c"), ESP_STR("absent")};
    struct esp_data out;
    assert_ok(esp_data_merge(old, set, remove, 2, &arena, &out, &err), &err);
    struct esp_data want = parse(&none, "{\"a\":{\"N\":\"1\"},\"b\":{\"SS\":[\"q\"]},\"z\":{\"S\":"
                                        "\"zz\"},\"é\":{\"NULL\":true}}")
                               .data;
    assert_int_equal(out.len, want.len);
    assert_memory_equal(out.text, want.text, want.len);
    assert_int_equal(out.size, want.size);
    remove[0] = ESP_STR("b");
    assert_status(ESP_ERR_REFUSED, esp_data_merge(old, set, remove, 1, &arena, &out, NULL));
    assert_ok(esp_data_merge(old, (struct esp_data){0}, remove, 0, &arena, &out, &err), &err);
    assert_true(esp_data_equal(old, out));
}

static void memory_runs_out(void **state) {
    (void)state;
    struct esp_schema s = tree_schema();
    struct esp_test_alloc a;
    struct esp_item old = parse(&s, base);
    struct esp_change some[] = {{ESP_CHANGE_ADD, ESP_STR("set"), json("{\"SS\":[\"c\",\"d\\n\"]}")},
                                {ESP_CHANGE_ADD, ESP_STR("n"), {ESP_TYPE_N, ESP_STR("0.25"), 0}},
                                {ESP_CHANGE_SET, ESP_STR("name"), esp_s(ESP_STR("x\ty"))}};
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        struct esp_arena small;
        struct esp_item after;
        struct esp_error err = ESP_ERROR_INIT;
        esp_arena_init(&small, &a.alloc, 1 << 20);
        enum esp_status status = esp_item_apply(&s, &old, some, 3, &small, &after, &err);
        assert_int_equal(err.status, status);
        esp_arena_fini(&small);
        if (esp_test_alloc_done(&a)) {
            assert_int_equal(status, ESP_OK);
            assert_true(n > 5);
            break;
        }
        assert_int_equal(status, ESP_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_dynamodbs),
        cmocka_unit_test(size_of_a_whole_number),
        cmocka_unit_test(entries_hold_what_is_projected),
        cmocka_unit_test(check_names_what_is_wrong),
        cmocka_unit_test(check_size_at_the_limit),
        cmocka_unit_test(schemas_match_by_keys_and_indexes),
        cmocka_unit_test(keys_are_ordered_by_type),
        cmocka_unit_test(equality_is_by_value),
        cmocka_unit_test(digests_ignore_the_schema),
        cmocka_unit_test(a_copy_owns_its_strings),
        cmocka_unit_test(attributes_are_found_anywhere),
        cmocka_unit_test(changes_do_what_update_item_does),
        cmocka_unit_test(changes_of_several_attributes),
        cmocka_unit_test(merging_payloads),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, open_arena, close_arena);
}
