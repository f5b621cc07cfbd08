/* DynamoDB JSON, both ways: what is encoded, what is accepted and what is refused. */
#include "stores/item_text.h"
#include "tests/support/alloc.h"
#include "tests/support/support.h"

static struct esp_arena arena;
static struct esp_buf out;

static int open_memory(void **state) {
    (void)state;
    esp_arena_init(&arena, &esp_alloc_libc, 64 << 20);
    esp_buf_init(&out, &esp_alloc_libc, 64 << 20);
    return 0;
}

static int close_memory(void **state) {
    (void)state;
    esp_arena_fini(&arena);
    esp_buf_fini(&out);
    return 0;
}

static struct esp_schema node_schema(void) {
    struct esp_schema s = {.attr_count = 3, .pk = 0, .sk = 1};
    s.attr[0] = (struct esp_attr){ESP_STR("p"), ESP_TYPE_S};
    s.attr[1] = (struct esp_attr){ESP_STR("s"), ESP_TYPE_N};
    s.attr[2] = (struct esp_attr){ESP_STR("b"), ESP_TYPE_NONE};
    return s;
}

/* --- out ------------------------------------------------------------------------ */

static const char *encode_string(struct esp_str bytes) {
    esp_buf_reset(&out);
    esp_json_put_string(&out, bytes);
    return esp_buf_cstr(&out);
}

static void strings_are_escaped(void **state) {
    (void)state;
    assert_string_equal(encode_string(ESP_STR("")), "\"\"");
    assert_string_equal(encode_string((struct esp_str){NULL, 0}), "\"\"");
    assert_string_equal(encode_string(ESP_STR("a\"b\\c/")), "\"a\\\"b\\\\c/\"");
    assert_string_equal(encode_string(ESP_STR("\b\t\n\f\r\0\x1f\x7f")),
                        "\"\\b\\t\\n\\f\\r\\u0000\\u001f\x7f\"");
    assert_string_equal(encode_string(ESP_STR("é漢😀")), "\"é漢😀\"");
}

/* The fast path looks at words: every length, and the bad byte at every place in it. */
static void an_escape_is_found_at_every_place(void **state) {
    (void)state;
    static const char bad[] = {'"', '\\', '\n', 0, 0x1f};
    char plain[40], want[64];
    for (size_t len = 1; len <= 40; len++) {
        memset(plain, 0xc3, sizeof plain); /* bytes with the top bit confuse sloppy tests */
        for (size_t k = 0; k < len; k++) {
            plain[k] = k % 3 == 0 ? ' ' : k % 3 == 1 ? '!' : (char)0xff;
        }
        encode_string((struct esp_str){plain, len});
        assert_int_equal(out.len, len + 2);
        assert_memory_equal(out.ptr + 1, plain, len);
        for (size_t at = 0; at < len; at++) {
            char kept = plain[at];
            for (size_t b = 0; b < sizeof bad; b++) {
                plain[at] = bad[b];
                encode_string((struct esp_str){plain, len});
                size_t more = bad[b] == 0 || bad[b] == 0x1f ? 5 : 1;
                assert_int_equal(out.len, len + 2 + more);
                memcpy(want, out.ptr + 1, out.len - 2);
                assert_int_equal(want[at], '\\');
                assert_memory_equal(want, plain, at);
                assert_memory_equal(want + at + 1 + more, plain + at + 1, len - at - 1);
            }
            plain[at] = kept;
        }
    }
}

static void items_are_encoded_in_schema_order(void **state) {
    (void)state;
    struct esp_schema s = node_schema();
    const char data[] = "\"name\":{\"S\":\"x\"}";
    struct esp_item item = {.value = {esp_s(ESP_STR("a/b")), esp_n(-7), esp_b(ESP_STR("\1\2\3\4"))},
                            .data = {data, sizeof data - 1, 5}};
    esp_buf_reset(&out);
    esp_item_put_json(&out, &s, &item);
    assert_string_equal(esp_buf_cstr(&out), "\"p\":{\"S\":\"a/b\"},\"s\":{\"N\":\"-7\"},"
                                            "\"b\":{\"B\":\"AQIDBA==\"},\"name\":{\"S\":\"x\"}");
    esp_buf_reset(&out);
    esp_item_put_key_json(&out, &s, &item);
    assert_string_equal(esp_buf_cstr(&out), "\"p\":{\"S\":\"a/b\"},\"s\":{\"N\":\"-7\"}");
    item.value[0] = esp_s(ESP_STR("a\nb, long enough for words"));
    s.attr[0].name = ESP_STR("p\"");
    esp_buf_reset(&out);
    esp_item_put_key_json(&out, &s, &item);
    assert_string_equal(esp_buf_cstr(&out), "\"p\\\"\":{\"S\":\"a\\nb, long enough for words\"},"
                                            "\"s\":{\"N\":\"-7\"}");
    s.attr[0].name = ESP_STR("p");
    esp_buf_reset(&out);
    esp_item_put_key_json(&out, &s, &item);
    assert_string_equal(esp_buf_cstr(&out), "\"p\":{\"S\":\"a\\nb, long enough for words\"},"
                                            "\"s\":{\"N\":\"-7\"}");
    item.value[0].type = item.value[1].type = item.value[2].type = ESP_TYPE_NONE;
    esp_buf_reset(&out);
    esp_item_put_json(&out, &s, &item);
    assert_string_equal(esp_buf_cstr(&out), data);
}

static void base64_of_every_length(void **state) {
    (void)state;
    static const char *const want[] = {"",         "Zg==",     "Zm8=",    "Zm9v",
                                       "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t len = 0; len <= 6; len++) {
        char back[8];
        esp_buf_reset(&out);
        esp_base64_put(&out, (struct esp_str){"foobar", len});
        assert_string_equal(len ? esp_buf_cstr(&out) : "", want[len]);
        assert_int_equal(esp_base64_decode(esp_buf_str(&out), back), len);
        assert_memory_equal(back, "foobar", len);
        assert_int_equal(esp_base64_size(esp_buf_str(&out)), len);
    }
}

/* --- in ------------------------------------------------------------------------- */

/* A value on its own: its canonical text after a round trip; NULL: refused. */
static const struct {
    const char *in, *canonical;
} values[] = {
    {"{\"S\":\"x\"}", "{\"S\":\"x\"}"},
    {" { \"S\"\t:\r\n\"x\" } ", "{\"S\":\"x\"}"},
    {"{\"S\":\"\"}", "{\"S\":\"\"}"},
    {"{\"S\":\"\\u0041\\/\\b\\f\\n\\r\\t\\\"\\\\\"}", "{\"S\":\"A/\\b\\f\\n\\r\\t\\\"\\\\\"}"},
    {"{\"S\":\"\\uD83D\\uDE00\\u00e9\\u6f22\\u0000\"}", "{\"S\":\"😀é漢\\u0000\"}"},
    {"{\"\\u0053\":\"x\"}", NULL},
    {"{\"S\":\"\\ud83d\"}", NULL},
    {"{\"S\":\"\\ude00\"}", NULL},
    {"{\"S\":\"\\ud83dx\\ude00\"}", NULL},
    {"{\"S\":\"\\u12g4\"}", NULL},
    {"{\"S\":\"\\x\"}", NULL},
    {"{\"S\":\"a\nb\"}", NULL},
    {"{\"S\":\"\xff\"}", NULL},
    {"{\"S\":\"\xc0\x80\"}", NULL},
    {"{\"S\":\"\xe0\x80\x80\"}", NULL},
    {"{\"S\":\"\xf0\x80\x80\x80\"}", NULL},
    {"{\"S\":\"\xed\xa0\x80\"}", NULL},
    {"{\"S\":\"\xf4\x90\x80\x80\"}", NULL},
    {"{\"S\":\"\xe6\xbc\"}", NULL},
    {"{\"S\":\"x}", NULL},
    {"{\"S\":\"x\\", NULL},
    {"{\"S\":5}", NULL},
    {"{\"N\":\"5\"}", "{\"N\":\"5\"}"},
    {"{\"N\":\"+005.50\"}", "{\"N\":\"5.5\"}"},
    {"{\"N\":\"1e3\"}", "{\"N\":\"1000\"}"},
    {"{\"N\":\"-0\"}", "{\"N\":\"0\"}"},
    {"{\"N\":\"\\u0031\"}", "{\"N\":\"1\"}"},
    {"{\"N\":\"9223372036854775808\"}", "{\"N\":\"9223372036854775808\"}"},
    {"{\"N\":\"-9223372036854775808\"}", "{\"N\":\"-9223372036854775808\"}"},
    {"{\"N\":5}", NULL},
    {"{\"N\":\"\"}", NULL},
    {"{\"N\":\" 5\"}", NULL},
    {"{\"N\":\"NaN\"}", NULL},
    {"{\"N\":\"1e126\"}", NULL},
    {"{\"N\":\"123456789012345678901234567890123456789\"}", NULL},
    {"{\"B\":\"AQI=\"}", "{\"B\":\"AQI=\"}"},
    {"{\"B\":\"\\/\\/\\/\\/\"}", "{\"B\":\"////\"}"},
    {"{\"B\":\"\"}", "{\"B\":\"\"}"},
    {"{\"B\":\"AQI\"}", NULL},
    {"{\"B\":\"AQJ=\"}", NULL},
    {"{\"B\":\"AR==\"}", NULL},
    {"{\"B\":\"A===\"}", NULL},
    {"{\"B\":\"AQ==AQ==\"}", NULL},
    {"{\"B\":\"-_==\"}", NULL},
    {"{\"B\":\"AQ I=\"}", NULL},
    {"{\"BOOL\":true}", "{\"BOOL\":true}"},
    {"{\"BOOL\":false}", "{\"BOOL\":false}"},
    {"{\"BOOL\":\"true\"}", NULL},
    {"{\"BOOL\":tru}", NULL},
    {"{\"NULL\":true}", "{\"NULL\":true}"},
    {"{\"NULL\":false}", NULL},
    {"{\"SS\":[\"b\",\"a\"]}", "{\"SS\":[\"b\",\"a\"]}"},
    {"{\"SS\":[\"\",\"a\"]}", "{\"SS\":[\"\",\"a\"]}"},
    {"{\"SS\":[]}", NULL},
    {"{\"SS\":[\"a\",\"a\"]}", NULL},
    {"{\"SS\":[\"a\",\"\\u0061\"]}", NULL},
    {"{\"SS\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"b\"]}", NULL},
    {"{\"SS\":[\"a\\\"\",\"\\\"a\"]}", "{\"SS\":[\"a\\\"\",\"\\\"a\"]}"},
    {"{\"SS\":[\"a\",]}", NULL},
    {"{\"SS\":[{\"S\":\"a\"}]}", NULL},
    {"{\"NS\":[\"1\",\"2.50\"]}", "{\"NS\":[\"1\",\"2.5\"]}"},
    {"{\"NS\":[\"1\",\"1.0\"]}", NULL},
    {"{\"NS\":[\"\"]}", NULL},
    {"{\"BS\":[\"AQ==\",\"\"]}", "{\"BS\":[\"AQ==\",\"\"]}"},
    {"{\"BS\":[\"AQ==\",\"AQ==\"]}", NULL},
    {"{\"L\":[]}", "{\"L\":[]}"},
    {"{\"L\" : [ {\"N\":\"1.0\"} , {\"L\":[ ]} ] }", "{\"L\":[{\"N\":\"1\"},{\"L\":[]}]}"},
    {"{\"L\":[1]}", NULL},
    {"{\"L\":[{\"S\":\"x\"}{\"S\":\"y\"}]}", NULL},
    {"{\"L\":[{\"S\":\"x\"}", NULL},
    {"{\"M\":{}}", "{\"M\":{}}"},
    {"{\"M\":{\"k\" :{\"S\":\"x\"}, \"\\u006c\":{\"SS\":[\"a\"]}}}",
     "{\"M\":{\"k\":{\"S\":\"x\"},\"l\":{\"SS\":[\"a\"]}}}"},
    {"{\"M\":{\"k\":\"x\"}}", NULL},
    {"{\"M\":{\"k\"}}", NULL},
    {"{\"M\":[]}", NULL},
    {"{}", NULL},
    {"{\"S\":\"x\",\"N\":\"1\"}", NULL},
    {"{\"s\":\"x\"}", NULL},
    {"{\"XX\":\"x\"}", NULL},
    {"{\"S\":\"x\"} x", NULL},
    {"[]", NULL},
    {"", NULL},
};

static void values_are_strict_and_canonical(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_value value;
        uint32_t size;
        struct esp_str text = esp_str_from(values[i].in);
        enum esp_status status = esp_value_parse(text, &arena, &value, &err);
        if (status != (values[i].canonical ? ESP_OK : ESP_ERR_INPUT) || err.status != status) {
            fail_msg("%s: %s %s", values[i].in, esp_status_name(status), err.message);
        }
        if (status != ESP_OK) {
            continue;
        }
        esp_buf_reset(&out);
        esp_value_put_json(&out, &value);
        assert_string_equal(esp_buf_cstr(&out), values[i].canonical);
        assert_status(ESP_OK, esp_json_value_size(text, &size, NULL));
        assert_int_equal(size, esp_value_size(&value));
    }
}

/* The text in memory of its own, so that a sanitizer sees a read past its end. */
static void truncated_text_is_refused(void **state) {
    (void)state;
    const char *item =
        "{\"p\":{\"S\":\"\\ud83d\\ude00é\"},\"m\":{\"M\":{\"k\":{\"NS\":[\"1\",\"2\"]},"
        "\"l\":{\"L\":[{\"BOOL\":true},{\"B\":\"AQI=\"}]}}}}";
    struct esp_schema s = node_schema();
    for (size_t len = 0; len < strlen(item); len++) {
        char *copy = test_malloc(len + 1);
        struct esp_item parsed;
        memcpy(copy, item, len);
        assert_status(ESP_ERR_INPUT,
                      esp_item_parse(&s, (struct esp_str){copy, len}, &arena, &parsed, NULL));
        test_free(copy);
    }
}

static char *nested(const char *open, const char *close, const char *inner, int levels) {
    esp_buf_reset(&out);
    for (int i = 0; i < levels; i++) {
        ESP_BUF_LIT(&out, "");
        esp_buf_put(&out, open, strlen(open));
    }
    esp_buf_put(&out, inner, strlen(inner));
    for (int i = 0; i < levels; i++) {
        esp_buf_put(&out, close, strlen(close));
    }
    return (char *)(uintptr_t)esp_arena_dup(&arena, esp_buf_str(&out)).ptr;
}

static void nesting_ends_at_32_levels(void **state) {
    (void)state;
    struct esp_value value;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_item item;
    struct esp_schema s = node_schema();
    const char *ok = nested("{\"L\":[", "]}", "{\"S\":\"x\"}", 31);
    const char *deep = nested("{\"M\":{\"k\":", "}}", "{\"S\":\"x\"}", 32);
    assert_ok(esp_value_parse(esp_str_from(ok), &arena, &value, &err), &err);
    assert_status(ESP_OK, esp_value_parse(
                              esp_str_from(nested("{\"M\":{\"k\":", "}}", "{\"SS\":[\"x\"]}", 31)),
                              &arena, &value, NULL));
    assert_status(ESP_ERR_INPUT, esp_value_parse(esp_str_from(deep), &arena, &value, &err));
    assert_non_null(strstr(err.message, "32 levels"));
    struct esp_str as_item = esp_arena_fmt(&arena, "{\"a\":%s}", ok);
    assert_status(ESP_OK, esp_item_parse(&s, as_item, &arena, &item, NULL));
    esp_buf_reset(&out);
    esp_data_put_plain_json(&out, item.data);
    assert_int_equal(out.len, 4 + 2 * 31 + 3);
    as_item = esp_arena_fmt(&arena, "{\"a\":%s}", deep);
    assert_status(ESP_ERR_INPUT, esp_item_parse(&s, as_item, &arena, &item, NULL));
    /* far deeper costs no stack */
    assert_status(ESP_ERR_INPUT, esp_value_parse(esp_str_from(nested("{\"L\":[", "]}", "", 100000)),
                                                 &arena, &value, NULL));
}

static void attributes_land_where_the_schema_says(void **state) {
    (void)state;
    struct esp_schema s = node_schema();
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_item item;
    assert_ok(
        esp_item_parse(
            &s,
            ESP_STR(
                " { \"z\" : {\"N\":\"1.0\"}, \"\\u0070\":{\"S\":\"a\\n\"} , \"b\":{\"SS\":[\"q\"]},"
                "\"s\":{\"N\":\"1e2\"},\"na\\/me\":{\"S\":\"\\u0041\"} } "),
            &arena, &item, &err),
        &err);
    assert_int_equal(item.value[0].type, ESP_TYPE_S);
    assert_int_equal(item.value[0].s.len, 2);
    assert_memory_equal(item.value[0].s.ptr, "a\n", 2);
    assert_int_equal(item.value[1].n, 100);
    assert_int_equal(item.value[1].s.len, 0);
    assert_int_equal(item.value[2].type, ESP_TYPE_JSON);
    const char data[] = "\"z\":{\"N\":\"1\"},\"na/me\":{\"S\":\"A\"}";
    assert_int_equal(item.data.len, sizeof data - 1);
    assert_memory_equal(item.data.text, data, item.data.len);
    assert_int_equal(item.data.size, 1 + 2 + 5 + 1);
    assert_ok(esp_item_parse(&s, ESP_STR("{}"), &arena, &item, &err), &err);
    assert_int_equal(item.value[0].type, ESP_TYPE_NONE);
    assert_int_equal(item.data.len, 0);
}

static void items_that_are_refused(void **state) {
    (void)state;
    struct esp_schema s = node_schema();
    struct esp_item item;
    struct esp_error err = ESP_ERROR_INIT;
    static const char *const bad[] = {"{\"\":{\"S\":\"x\"}}",
                                      "{\"a\":\"x\"}",
                                      "{\"p\":{\"S\":\"x\"},\"p\":{\"S\":\"y\"}}",
                                      "{\"a\":{\"S\":\"x\"},}",
                                      "{\"a\":{\"S\":\"x\"}} {}",
                                      "[]",
                                      "x",
                                      "{\"a\":{\"S\":\"x\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_status(ESP_ERR_INPUT, esp_item_parse(&s, esp_str_from(bad[i]), &arena, &item, NULL));
    }
    assert_status(ESP_ERR_REFUSED,
                  esp_item_parse(&s, ESP_STR("{\"p\":{\"N\":\"1\"}}"), &arena, &item, &err));
    assert_string_equal(err.message, "attribute p is a key and must be of type S");
    /* What is no key keeps the type that it has. */
    s.attr[s.attr_count++] = (struct esp_attr){{"level", 5}, ESP_TYPE_N};
    assert_ok(esp_item_parse(&s, ESP_STR("{\"p\":{\"S\":\"1\"},\"level\":{\"S\":\"2\"}}"), &arena,
                             &item, &err),
              &err);
    assert_int_equal(item.value[s.attr_count - 1].type, ESP_TYPE_S);
    s.attr_count--;
    esp_error_clear(&err);
    assert_status(ESP_ERR_INPUT,
                  esp_item_parse(&s, ESP_STR("{\"a\":{\"B\":\"?\"}}"), &arena, &item, &err));
    assert_string_equal(err.message, "not valid base64, at byte 13 of the DynamoDB JSON");
    char *name = test_malloc(65536 + 16);
    memset(name, 'n', 65536 + 16);
    memcpy(name, "{\"", 2);
    memcpy(name + 2 + 65535, "\":{\"S\":\"\"}}", 11);
    assert_status(ESP_OK,
                  esp_item_parse(&s, (struct esp_str){name, 2 + 65535 + 11}, &arena, &item, NULL));
    memcpy(name + 2 + 65535, "n\":{\"S\":\"\"}}", 12);
    assert_status(ESP_ERR_INPUT,
                  esp_item_parse(&s, (struct esp_str){name, 2 + 65535 + 12}, &arena, &item, NULL));
    test_free(name);
}

/* --- walking -------------------------------------------------------------------- */

static void members_are_walked(void **state) {
    (void)state;
    const char text[] = "\"a\":{\"S\":\"}\\\"]{\"},\"b\\nc\":{\"M\":{\"x\":{\"L\":[{\"S\":\"{\"}]}}"
                        "},\"\":{\"N\":\"1\"}";
    struct esp_data data = {text, sizeof text - 1, 0};
    struct esp_member m;
    struct esp_str value;
    size_t pos = 0;
    assert_true(esp_data_next(data, &pos, &arena, &m));
    assert_true(esp_str_eq(m.name, ESP_STR("a")));
    assert_true(esp_str_eq(m.value, ESP_STR("{\"S\":\"}\\\"]{\"}")));
    assert_true(esp_data_next(data, &pos, &arena, &m));
    assert_true(esp_str_eq(m.name, ESP_STR("b\nc")));
    assert_true(esp_str_eq(m.raw, ESP_STR("\"b\\nc\":{\"M\":{\"x\":{\"L\":[{\"S\":\"{\"}]}}}")));
    assert_true(esp_data_next(data, &pos, &arena, &m));
    assert_int_equal(m.name.len, 0);
    assert_false(esp_data_next(data, &pos, &arena, &m));
    assert_true(esp_data_find(data, ESP_STR("b\nc"), &value));
    assert_false(esp_data_find(data, ESP_STR("b\\nc"), &value));
    assert_false(esp_data_find((struct esp_data){0}, ESP_STR("a"), &value));
}

static void plain_json_has_no_tags(void **state) {
    (void)state;
    struct esp_schema none = {.attr_count = 0};
    struct esp_item item;
    assert_status(
        ESP_OK,
        esp_item_parse(&none,
                       ESP_STR("{\"s\":{\"S\":\"a\\nb\"},\"n\":{\"N\":\"-1.5\"},\"t\":{\"BOOL\":"
                               "false},\"o\":{\"NULL\":true},"
                               "\"b\":{\"B\":\"AQI=\"},\"ss\":{\"SS\":[\"a\",\"b\"]},\"ns\":{"
                               "\"NS\":[\"1\",\"2\"]},"
                               "\"l\":{\"L\":[{\"L\":[]},{\"M\":{}},{\"S\":\"x\"}]},"
                               "\"m\":{\"M\":{\"k\\\"\":{\"L\":[{\"N\":\"1\"},{\"N\":\"2\"}]},"
                               "\"j\":{\"M\":{\"i\":{\"S\":\"\"}}},\"q\":{\"SS\":[\"z\"]}}}}"),
                       &arena, &item, NULL));
    esp_buf_reset(&out);
    esp_data_put_plain_json(&out, item.data);
    assert_string_equal(
        esp_buf_cstr(&out),
        "\"s\":\"a\\nb\",\"n\":-1.5,\"t\":false,\"o\":null,\"b\":\"AQI=\",\"ss\":[\"a\",\"b\"],"
        "\"ns\":[1,2],"
        "\"l\":[[],{},\"x\"],\"m\":{\"k\\\"\":[1,2],\"j\":{\"i\":\"\"},\"q\":[\"z\"]}");
}

static void memory_runs_out(void **state) {
    (void)state;
    struct esp_schema s = node_schema();
    struct esp_test_alloc a;
    const struct esp_str json =
        ESP_STR("{\"p\":{\"S\":\"x\"},\"s\":{\"N\":\"1.5\"},\"b\":{\"SS\":[\"q\\n\",\"r\"]},"
                "\"z\\t\":{\"N\":\"1e100\"},\"y\":{\"L\":[{\"S\":\"\\u0041\"},{\"NS\":[\"1\"]}]}}");
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        struct esp_arena small;
        struct esp_item item;
        struct esp_error err = ESP_ERROR_INIT;
        esp_arena_init(&small, &a.alloc, 1 << 20);
        enum esp_status status = esp_item_parse(&s, json, &small, &item, &err);
        assert_int_equal(err.status, status);
        esp_arena_fini(&small);
        if (esp_test_alloc_done(&a)) {
            assert_int_equal(status, ESP_OK);
            assert_true(n > 6);
            break;
        }
        assert_int_equal(status, ESP_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(an_escape_is_found_at_every_place),
        cmocka_unit_test(items_are_encoded_in_schema_order),
        cmocka_unit_test(base64_of_every_length),
        cmocka_unit_test(values_are_strict_and_canonical),
        cmocka_unit_test(truncated_text_is_refused),
        cmocka_unit_test(nesting_ends_at_32_levels),
        cmocka_unit_test(attributes_land_where_the_schema_says),
        cmocka_unit_test(items_that_are_refused),
        cmocka_unit_test(members_are_walked),
        cmocka_unit_test(plain_json_has_no_tags),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
