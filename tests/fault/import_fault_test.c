/* Importing with every single allocation failing once: out of memory, nothing lost. */
#include <stdio.h>

#include "importers/importer.h"
#include "tests/support/alloc.h"
#include "tests/support/support.h"

static void import_with_failures(const char *name, const char *text) {
    char folder[256], path[300];
    esp_test_mkdir(folder);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    esp_test_write_file(path, text, strlen(text));
    const char *const paths[] = {path};
    struct esp_source_options options = {
        .column = {{"n:N", "l:L", "s:SS", "b:B"}, 4},
    };
    struct esp_test_alloc a;
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_forest *forest = NULL;
        enum esp_status status =
            esp_import_files(paths, 1, &options, &a.alloc, &forest, NULL, NULL, &err);
        if (status == ESP_OK) {
            assert_int_equal(forest->count, 4);
            assert_int_equal(forest->data_bytes, 27);
        } else {
            if (status != ESP_ERR_NOMEM) {
                fail_msg("call %zu: %s: %s", n, esp_status_name(status), err.message);
            }
            assert_null(forest);
        }
        esp_forest_free(forest);
        if (esp_test_alloc_done(&a)) {
            assert_int_equal(status, ESP_OK);
            break;
        }
        assert_true(n < 100000);
    }
    esp_test_rmdir(folder);
}

static void csv(void **state) {
    (void)state;
    import_with_failures("t.csv", "id,parent,n,l,s,b,\"t\nu\"\n"
                                  "a,,1,,,,\n"
                                  "b,a,,\"[{\"\"k\"\":1}]\",x|y,,\n"
                                  "c,a,,,,AQI=,\"x\ny\"\n"
                                  "d,c,,,,,\n");
}

static void json(void **state) {
    (void)state;
    import_with_failures("t.json", "{\"nodes\":[{\"id\":\"a\",\"n\":\"1\",\"children\":["
                                   "{\"id\":\"b\",\"l\":\"[{\\\"k\\\":1}]\",\"s\":[\"x\",\"y\"]},"
                                   "{\"children\":[{\"id\":\"d\"}],\"id\":\"c\",\"b\":\"AQI=\","
                                   "\"t\\nu\":\"x\\ny\"}]}]}");
}

static void jsonl(void **state) {
    (void)state;
    import_with_failures("t.jsonl",
                         "{\"id\":\"a\",\"n\":1}\n"
                         "{\"id\":\"b\",\"parent\":\"a\",\"l\":[{\"k\":1}],\"s\":\"x|y\"}\n"
                         "{\"id\":\"c\",\"parent\":\"a\",\"b\":\"AQI=\",\"t\\nu\":\"x\\ny\"}\n"
                         "{\"id\":\"d\",\"parent\":\"c\"}\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(csv), cmocka_unit_test(json),
                                       cmocka_unit_test(jsonl)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
