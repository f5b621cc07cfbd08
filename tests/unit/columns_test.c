#include <stdio.h>
#include <stdlib.h>

#include "importers/columns.h"
#include "importers/encode.h"
#include "tests/support/support.h"

/* --- text ----------------------------------------------------------------------------- */

/* Every byte at every place of texts of many lengths, against the rule by the byte. */
static void escapes_at_every_place(void **state) {
    (void)state;
    struct esp_buf out, expected;
    esp_buf_init(&out, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&expected, &esp_alloc_libc, SIZE_MAX);
    for (size_t len = 1; len <= 34; len++) {
        for (size_t place = 0; place < len; place++) {
            for (int byte = 0; byte < 0x80; byte++) {
                char text[40];
                memset(text, 'x', len);
                text[place] = (char)byte;
                const char *short_form = byte ? strchr("\"\"\\\\\bb\ff\nn\rr\tt", byte) : NULL;
                esp_buf_reset(&out);
                esp_buf_reset(&expected);
                esp_buf_put(&expected, text, place);
                if (byte == '"' || byte == '\\') {
                    esp_buf_printf(&expected, "\\%c", byte);
                } else if (byte < 0x20 && short_form) {
                    esp_buf_printf(&expected, "\\%c", short_form[1]);
                } else if (byte < 0x20) {
                    esp_buf_printf(&expected, "\\u%04x", byte);
                } else {
                    esp_buf_put_char(&expected, (char)byte);
                }
                esp_buf_put(&expected, text + place + 1, len - place - 1);
                esp_text_put(&out, (struct esp_str){text, len});
                assert_int_equal(out.len, expected.len);
                assert_memory_equal(out.ptr, expected.ptr, out.len);
            }
        }
    }
    esp_buf_fini(&out);
    esp_buf_fini(&expected);
}

/* Where the first bad sequence starts, or -1; in pieces of `piece` bytes. */
static int64_t bad_utf8(struct esp_str text, size_t piece) {
    struct esp_utf8 utf8 = ESP_UTF8_INIT;
    for (size_t at = 0; at < text.len; at += piece) {
        size_t len = text.len - at < piece ? text.len - at : piece;
        int64_t bad;
        if (!esp_utf8_check(&utf8, (struct esp_str){text.ptr + at, len}, &bad)) {
            return (int64_t)at + bad;
        }
    }
    return utf8.need ? (int64_t)text.len - utf8.seen : -1;
}

static void utf8_is_checked(void **state) {
    (void)state;
    static const struct {
        struct esp_str text;
        int64_t bad;
    } cases[] = {
        {ESP_STR("plain text longer than a word"), -1},
        {ESP_STR("\xc3\xa9\xe6\xbc\xa2\xf0\x9f\x98\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf"), -1},
        {ESP_STR("12345678\x00"), 8},
        {ESP_STR("1234567\x80"), 7},
        {ESP_STR("12345\xc3(89"), 5},
        {ESP_STR("12\xc0\x80"), 2},
        {ESP_STR("12\xc1\xbf"), 2},
        {ESP_STR("12\xe0\x9f\xbf"), 2},
        {ESP_STR("12\xed\xa0\x80"), 2},
        {ESP_STR("\xed\x9f\xbf\xee\x80\x80"), -1},
        {ESP_STR("12\xf0\x8f\xbf\xbf"), 2},
        {ESP_STR("12\xf4\x90\x80\x80"), 2},
        {ESP_STR("12\xf5\x80\x80\x80"), 2},
        {ESP_STR("123\xe6\xbc"), 3},
        {ESP_STR("123\xf0\x9f\x98x"), 3},
        {ESP_STR("\xff"), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t piece = 1; piece <= cases[i].text.len; piece++) {
            assert_int_equal(bad_utf8(cases[i].text, piece), cases[i].bad);
        }
    }
}

/* --- columns -------------------------------------------------------------------------- */

/* "SIZE member", "none", or "CODE sentence". */
static const char *put(const char *option, bool infer, struct esp_str value) {
    static char text[512];
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_source_options options = {.column = {{option}, option ? 1 : 0}};
    struct esp_column column;
    struct esp_arena arena;
    struct esp_buf out;
    uint32_t size = 0;
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&out, &esp_alloc_libc, SIZE_MAX);
    assert_ok(esp_column_options_check(&options, &err), &err);
    assert_ok(esp_column_init(&column, &arena, ESP_STR("c"), &options, &err), &err);
    enum esp_status status = esp_column_put(&column, value, infer, &out, &size, &err);
    if (status != ESP_OK) {
        snprintf(text, sizeof text, "%s %s", esp_status_name(status), err.message);
    } else if (out.len == 0) {
        snprintf(text, sizeof text, "none");
    } else {
        snprintf(text, sizeof text, "%u %.*s", size, ESP_FMT(esp_buf_str(&out)));
    }
    esp_buf_fini(&out);
    esp_arena_fini(&arena);
    return text;
}
#define assert_put(option, value, expected)                                                        \
    assert_string_equal(put(option, false, ESP_STR(value)), expected)

static void text_by_type(void **state) {
    (void)state;
    assert_put(NULL, "", "none");
    assert_put("c:N", "", "none");
    assert_put(NULL, "a\tb", "4 \"c\":{\"S\":\"a\\tb\"}");
    assert_put("other:N", "1", "2 \"c\":{\"S\":\"1\"}");
    assert_put("c:N", "1e2", "3 \"c\":{\"N\":\"100\"}");
    assert_put("c:N", "-00.50", "4 \"c\":{\"N\":\"-0.5\"}");
    assert_put("c:BOOL", "False", "2 \"c\":{\"BOOL\":false}");
    assert_put("c:NULL", "NULL", "2 \"c\":{\"NULL\":true}");
    assert_put("c:B", "AQI=", "3 \"c\":{\"B\":\"AQI=\"}");
    assert_put("c:B", "AQ==", "2 \"c\":{\"B\":\"AQ==\"}");
    assert_put("c:B", "+/+/", "4 \"c\":{\"B\":\"+/+/\"}");
    assert_put("c:SS", "x|yy|\"", "5 \"c\":{\"SS\":[\"x\",\"yy\",\"\\\"\"]}");
    assert_put("c:SS", "[\"x|y\",\"\"]", "4 \"c\":{\"SS\":[\"x|y\",\"\"]}");
    assert_put("c:NS", "1|-1.50|1e2", "9 \"c\":{\"NS\":[\"1\",\"-1.5\",\"100\"]}");
    assert_put("c:NS", "[1,22,333]", "8 \"c\":{\"NS\":[\"1\",\"22\",\"333\"]}");
    assert_put("c:L", "[\"x\",{\"S\":null}]",
               "13 \"c\":{\"L\":[{\"S\":\"x\"},{\"M\":{\"S\":{\"NULL\":true}}}]}");
    assert_put("c:M", " {\"k\":\"x\",\"l\":\"yy\"} ",
               "11 \"c\":{\"M\":{\"k\":{\"S\":\"x\"},\"l\":{\"S\":\"yy\"}}}");
}

static void what_columns_refuse(void **state) {
    (void)state;
    static const struct {
        const char *option;
        const char *value, *expected;
    } cases[] = {
        {"c:N", " 1", "ERR_INPUT ' 1' in column 'c' is not a number (N)"},
        {"c:N", "1e126", "ERR_INPUT '1e126' in column 'c' is not a number (N)"},
        {"c:BOOL", "2", "ERR_INPUT '2' in column 'c' is not true or false"},
        {"c:B", "AQ=", "ERR_INPUT 'AQ=' in column 'c' is not base64"},
        {"c:B", "A=Q=", "ERR_INPUT 'A=Q=' in column 'c' is not base64"},
        {"c:B", "====", "ERR_INPUT '====' in column 'c' is not base64"},
        {"c:B", "AQJ=", "ERR_INPUT 'AQJ=' in column 'c' is not base64"},
        {"c:B", "_-_-", "ERR_INPUT '_-_-' in column 'c' is not base64"},
        {"c:SS", "|x", "ERR_INPUT '|x' in column 'c' is not a set"},
        {"c:SS", "x|", "ERR_INPUT 'x|' in column 'c' is not a set"},
        {"c:NS", "1|1e0", "ERR_INPUT the set's member \"1\" occurs more than once"},
        {"c:NS", "[[]]", "ERR_INPUT a number set (NS) may hold nothing but numbers"},
        {"c:M", "{\"\":1}", "ERR_INPUT an attribute needs a name"},
        {"c:M", "{\"a\":1", "ERR_INPUT '{\"a\":1' in column 'c' is not valid JSON"},
        {"c:M", "null", "ERR_INPUT a value in column 'c' is not a JSON object (M)"},
        {"c:L", "1", "ERR_INPUT a value in column 'c' is not a JSON array"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = put(cases[i].option, false, esp_str_from(cases[i].value));
        if (strncmp(got, cases[i].expected, strlen(cases[i].expected)) != 0) {
            fail_msg("%s: %s", cases[i].value, got);
        }
    }
}

/* Exactly as much as an item can hold, and a byte more. */
static void size_limit(void **state) {
    (void)state;
    char *text = malloc(ESP_DATA_BYTES_MAX);
    assert_non_null(text);
    memset(text, 'x', ESP_DATA_BYTES_MAX);
    assert_memory_equal(put(NULL, false, (struct esp_str){text, ESP_DATA_BYTES_MAX - 1}),
                        "409600 \"", 8);
    assert_memory_equal(put(NULL, false, (struct esp_str){text, ESP_DATA_BYTES_MAX}), "ERR_LIMIT",
                        9);
    free(text);
}

static void nesting_limit(void **state) {
    (void)state;
    for (size_t levels = 31; levels <= 33; levels++) {
        char text[80];
        memset(text, '[', levels);
        memset(text + levels, ']', levels);
        const char *got = put("c:L", false, (struct esp_str){text, 2 * levels});
        assert_int_equal(memcmp(got, "ERR_LIMIT", 9) == 0, levels > 32);
    }
}

static void usual_names(void **state) {
    (void)state;
    assert_true(esp_usual_id(ESP_STR("ID")) > esp_usual_id(ESP_STR("node_id")));
    assert_true(esp_usual_id(ESP_STR("Node-Id")) > esp_usual_id(ESP_STR("code")));
    assert_true(esp_usual_parent(ESP_STR("parentId")) > esp_usual_parent(ESP_STR("manager_id")));
    assert_true(esp_usual_parent(ESP_STR("Reports To")) > 0);
    assert_int_equal(esp_usual_id(ESP_STR("")), 0);
    assert_int_equal(esp_usual_id(ESP_STR("parent_id")), 0);
    assert_int_equal(esp_usual_parent(ESP_STR("a name that is much longer than any usual name is")),
                     0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_at_every_place),
        cmocka_unit_test(utf8_is_checked),
        cmocka_unit_test(text_by_type),
        cmocka_unit_test(what_columns_refuse),
        cmocka_unit_test(size_limit),
        cmocka_unit_test(nesting_limit),
        cmocka_unit_test(usual_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
