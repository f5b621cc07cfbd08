#include <stdio.h>
#include <stdlib.h>

#include "import_dump.h"
#include "importers/json_records.h"
#include "tests/support/support.h"

static void records_of_an_array(void **state) {
    (void)state;
    const char *expected = "1 a< 5 {\"name\":{\"S\":\"A\"}}\n"
                           "2 b<a 5 {\"name\":{\"S\":\"B\"}}\n"
                           "OK\n";
    assert_import("json", NULL,
                  "[{\"id\":\"a\",\"parent_id\":null,\"name\":\"A\"},\n"
                  " {\"parent_id\":\"a\",\"name\":\"B\",\"id\":\"b\"}]",
                  expected);
    assert_import("json", NULL,
                  "\xef\xbb\xbf{\"nodes\":[{\"id\":\"a\",\"parent\":\"\",\"name\":\"A\"},\n"
                  " {\"id\":\"b\",\"parent\":\"a\",\"name\":\"B\"}]}\n",
                  expected);
    assert_import("json", "--id nr --parent boss",
                  "[{\"nr\":\"a\",\"name\":\"A\"},\n{\"nr\":\"b\",\"boss\":\"a\",\"name\":\"B\"}]",
                  expected);
    assert_import("json", "--parent-none -",
                  "[{\"id\":\"a\",\"parent\":\"-\",\"name\":\"A\"},\n"
                  "{\"id\":\"b\",\"parent\":\"a\",\"name\":\"B\"}]",
                  expected);
    assert_import("json", NULL, "[]", "OK\n");
}

static void nested_records(void **state) {
    (void)state;
    assert_import("json", NULL,
                  "{\"id\":\"a\",\"x\":1,\"children\":[\n"
                  "  {\"id\":\"b\",\"children\":[\n"
                  "    {\"id\":\"c\"}]},\n"
                  "  {\"id\":\"d\",\"children\":[]},\n"
                  "  {\"id\":\"e\",\"children\":null}],\"y\":2}",
                  "3 c<b 0 {}\n2 b<a 0 {}\n4 d<a 0 {}\n5 e<a 0 {}\n"
                  "1 a< 6 {\"x\":{\"N\":\"1\"},\"y\":{\"N\":\"2\"}}\nOK\n");
    assert_import("json", "--children kids", "[{\"id\":1,\"kids\":[{\"id\":2,\"parent\":1}]}]",
                  "1 2<1 0 {}\n1 1< 0 {}\nOK\n");
    /* Nothing but children around: an envelope too. */
    assert_import("json", NULL, "{\"children\":[{\"id\":\"a\"},{\"id\":\"b\"}]}",
                  "1 a< 0 {}\n1 b< 0 {}\nOK\n");
}

static void id_after_the_children(void **state) {
    (void)state;
    assert_import("json", NULL,
                  "{\"children\":[\n"
                  "{\"children\":[{\"x\":\"1\",\"id\":\"c\"}],\"id\":\"b\"},\n"
                  "{\"id\":\"d\",\"parent\":\"a\"}],\n"
                  "\"id\":\"a\",\"z\":true}",
                  "2 c<b 2 {\"x\":{\"S\":\"1\"}}\n2 b<a 0 {}\n3 d<a 0 {}\n"
                  "1 a< 2 {\"z\":{\"BOOL\":true}}\nOK\n");
}

static void usual_names_are_ranked(void **state) {
    (void)state;
    /* "code" comes first, but "id" is the better name. */
    assert_import("json", NULL,
                  "[{\"code\":\"x\",\"id\":1},{\"code\":\"y\",\"id\":2,\"parent\":1}]",
                  "1 1< 5 {\"code\":{\"S\":\"x\"}}\n1 2<1 5 {\"code\":{\"S\":\"y\"}}\nOK\n");
    /* An array that is an attribute, not the records. */
    assert_import("json", NULL, "{\"tags\":[\"x\"],\"id\":1}",
                  "1 1< 9 {\"tags\":{\"L\":[{\"S\":\"x\"}]}}\nOK\n");
    assert_import("json", NULL, "{\"tags\":[],\"id\":1}", "1 1< 7 {\"tags\":{\"L\":[]}}\nOK\n");
    assert_import("json", NULL, "{\"tags\":[[]],\"id\":1}",
                  "1 1< 11 {\"tags\":{\"L\":[{\"L\":[]}]}}\nOK\n");
    /* A parent whose name shows up only after what is looked at first. */
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, SIZE_MAX);
    esp_buf_put_char(&text, '[');
    for (unsigned i = 0; text.len <= ESP_JSON_HEAD_BYTES; i++) {
        esp_buf_printf(&text, "{\"id\":\"r%u\"},\n", i);
    }
    esp_buf_put_str(&text, ESP_STR("{\"id\":\"x\",\"manager\":\"r0\"}]"));
    char *dump = import_dump("json", text.ptr, text.len, NULL);
    assert_non_null(strstr(dump, " x<r0 0 {}\nOK\n"));
    free(dump);
    esp_buf_fini(&text);
}

static void values_of_every_type(void **state) {
    (void)state;
    assert_import("json", NULL,
                  "{\"id\":\"a\",\"s\":\"\\u00e9\\ud83d\\ude00\\u0000\\n\\/\",\"e\":\"\","
                  "\"n\":1.50,\"i\":-12,\"big\":12345678901234567890.5e2,\"t\":true,\"z\":null,"
                  "\"l\":[1,[],{\"k\":\"v\"}],\"m\":{\"a\":{\"b\":false},\"\xc3\xa9\":[\"x\"]}}",
                  "1 a< 76 {\"s\":{\"S\":\"\xc3\xa9\xf0\x9f\x98\x80\\u0000\\n/\"},"
                  "\"e\":{\"S\":\"\"},\"n\":{\"N\":\"1.5\"},\"i\":{\"N\":\"-12\"},"
                  "\"big\":{\"N\":\"1234567890123456789050\"},\"t\":{\"BOOL\":true},"
                  "\"z\":{\"NULL\":true},"
                  "\"l\":{\"L\":[{\"N\":\"1\"},{\"L\":[]},{\"M\":{\"k\":{\"S\":\"v\"}}}]},"
                  "\"m\":{\"M\":{\"a\":{\"M\":{\"b\":{\"BOOL\":false}}},"
                  "\"\xc3\xa9\":{\"L\":[{\"S\":\"x\"}]}}}}\nOK\n");
}

static void types_of_keys(void **state) {
    (void)state;
    assert_import(
        "json",
        "--column s:S --column n:N --column t:SS --column u:NS --column b:BOOL "
        "--column l:L",
        "{\"id\":\"a\",\"s\":12.0,\"n\":\"007\",\"t\":[\"x\",\"y\"],\"u\":[1,\"2.0\"],"
        "\"b\":1,\"l\":\"[1]\"}",
        "1 a< 25 {\"s\":{\"S\":\"12.0\"},\"n\":{\"N\":\"7\"},\"t\":{\"SS\":[\"x\",\"y\"]},"
        "\"u\":{\"NS\":[\"1\",\"2\"]},\"b\":{\"BOOL\":true},"
        "\"l\":{\"L\":[{\"N\":\"1\"}]}}\nOK\n");
    /* JSON has types: nothing is inferred of its strings. */
    assert_import("json", "--infer", "{\"id\":\"a\",\"s\":\"12\"}",
                  "1 a< 3 {\"s\":{\"S\":\"12\"}}\nOK\n");
}

static void ids_of_numbers(void **state) {
    (void)state;
    assert_import("json", NULL,
                  "[{\"id\":1},{\"id\":2.0,\"parent\":1.0},{\"id\":1e3,\"parent\":2},"
                  "{\"id\":-0.0,\"parent\":1000},"
                  "{\"id\":123456789012345678901234567890123456789012,\"parent\":0}]",
                  "1 1< 0 {}\n1 2<1 0 {}\n1 1000<2 0 {}\n1 0<1000 0 {}\n"
                  "1 123456789012345678901234567890123456789012<0 0 {}\nOK\n");
}

static void lines(void **state) {
    (void)state;
    assert_import("jsonl", NULL,
                  "\xef\xbb\xbf{\"id\":\"a\"}\r\n"
                  "\n"
                  "  {\"id\":\"b\",\"parent\":\"a\",\"children\":[{\"id\":\"c\"}]}  \n"
                  "{\"id\":\"d\",\"parent\":\"b\"}",
                  "1 a< 0 {}\n3 c<b 0 {}\n3 b<a 0 {}\n4 d<b 0 {}\nOK\n");
}

/* Fed in pieces of every size, a text makes the same records and the same error. */
static void feed_in_pieces(const char *text, size_t len, size_t piece, struct esp_buf *out) {
    struct esp_error err = ESP_ERROR_INIT;
    struct import_options options;
    struct esp_json_records *records;
    struct esp_reader *in;
    size_t skip;
    import_options_set(&options, NULL);
    esp_buf_reset(out);
    assert_ok(esp_json_records_new(&options.values, false, &esp_alloc_libc, import_dump_record, out,
                                   &records, &err),
              &err);
    assert_ok(esp_reader_open_memory((struct esp_str){text, len}, "m", &esp_alloc_libc, &in, &err),
              &err);
    enum esp_status status = esp_json_records_begin(records, in, &skip, &err);
    for (size_t at = skip; at < len && status == ESP_OK; at += piece) {
        size_t rest = len - at;
        status = esp_json_records_feed(
            records, (struct esp_str){text + at, rest < piece ? rest : piece}, &err);
    }
    if (status == ESP_OK) {
        status = esp_json_records_finish(records, &err);
    }
    import_dump_end(out, status, &err);
    esp_reader_close(in);
    esp_json_records_free(records);
}

static void pieces_of_every_size(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\xef\xbb\xbf[{\"id\":\"a\",\"n\":-12.5e3,\"s\":\"\xe6\xbc\xa2\\ud83d\\ude00\\\\\"},\n"
        "{\"id\":\"b\",\n\"parent\":\"a\",\"m\":{\"k\":[true,null,{}]}}]\n",
        "{\"children\":[{\"id\":\"b\"},\n{\"id\":\"c\",\"x\":\"long enough a "
        "text\"}],\"id\":\"a\"}",
        "[{\"id\":\"a\"},\n {\"id\":\"b\",\"parent\":true}]",
        "[{\"id\":\"a\"},\n {\"id\":  \"\"}]",
        "[{\"id\":\"a\",\n\n\"x\":nul}]",
        "[{\"id\":\"a\",\n\"x\":\"abc\\ud800\\n\"}]",
        "[{\"id\":\"a\",\n\"x\":\"abc\\ud800\\u0041\"}]",
        "[{\"id\":\"a\",\n\"x\":\"abc\xe6\xbc!\"}]",
        "[{\"id\":\"a\",\n\"x\":\"abc\xed\xa0\x80\"}]",
        "[{\"id\":\"a\",\n\"x\" 1}]",
        "[{\"id\":\"a\",\n\"x\":\"unfinished",
        "[{\"id\":\"a\",\n\"x\":1,\n  \"y\":\"z\",\"x\":3}]",
        "[{\"id\":\"a\"},\n ,{\"id\":\"b\"}]",
        "[{\"id\":\"a\",\n\"x\": :1}]",
        "[{\"id\":\"a\",\n\"x\":/1}]",
        "  12345",
    };
    struct esp_buf whole, pieces;
    esp_buf_init(&whole, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&pieces, &esp_alloc_libc, SIZE_MAX);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        size_t len = strlen(texts[i]);
        feed_in_pieces(texts[i], len, len, &whole);
        for (size_t piece = 1; piece < len; piece++) {
            feed_in_pieces(texts[i], len, piece, &pieces);
            assert_string_equal(esp_buf_cstr(&pieces), esp_buf_cstr(&whole));
        }
    }
    esp_buf_fini(&whole);
    esp_buf_fini(&pieces);
}

static enum esp_status count_record(void *ctx, const struct esp_record *record,
                                    struct esp_error *err) {
    (void)record, (void)err;
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

/* A chain is as deep as it is long: no recursion may stand in its way. */
static void a_chain_of_a_million(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    static const struct esp_source_options options = {.from = "json"};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_reader *in;
    struct esp_buf text;
    uint64_t count = 0;
    esp_buf_init(&text, &esp_alloc_libc, SIZE_MAX);
    for (unsigned i = 0; i < COUNT; i++) {
        esp_buf_put_str(&text, ESP_STR("{\"id\":"));
        esp_buf_put_i64(&text, i);
        esp_buf_put_str(&text, ESP_STR(",\"children\":["));
    }
    for (unsigned i = 0; i < COUNT; i++) {
        esp_buf_put_str(&text, ESP_STR("]}"));
    }
    assert_ok(esp_reader_open_memory(esp_buf_str(&text), "chain", &esp_alloc_libc, &in, &err),
              &err);
    assert_ok(
        esp_importer_find("json")->run(in, &options, &esp_alloc_libc, count_record, &count, &err),
        &err);
    assert_int_equal(count, COUNT);
    esp_reader_close(in);
    esp_buf_fini(&text);
}

/* So many keys that the table of them grows, and records that never look alike. */
static void many_keys(void **state) {
    (void)state;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, SIZE_MAX);
    for (unsigned i = 0; i < 2000; i++) {
        esp_buf_printf(&text, "{\"id\":\"n%u\",\"k%u\":1,\"k%u\":2,\"parent\":\"n0\"}\n", i, i,
                       i / 2 + 5000);
    }
    char *dump = import_dump("jsonl", text.ptr, text.len, NULL);
    assert_non_null(
        strstr(dump, "\n2000 n1999<n0 14 {\"k1999\":{\"N\":\"1\"},\"k5999\":{\"N\":\"2\"}}\nOK\n"));
    free(dump);
    esp_buf_fini(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_an_array),
        cmocka_unit_test(nested_records),
        cmocka_unit_test(id_after_the_children),
        cmocka_unit_test(usual_names_are_ranked),
        cmocka_unit_test(values_of_every_type),
        cmocka_unit_test(types_of_keys),
        cmocka_unit_test(ids_of_numbers),
        cmocka_unit_test(lines),
        cmocka_unit_test(pieces_of_every_size),
        cmocka_unit_test(a_chain_of_a_million),
        cmocka_unit_test(many_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
