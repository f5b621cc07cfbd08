#include "tests/support/support.h"

#include "bench/workload.h"
#include <math.h>
#include <stdio.h>

static enum esp_status load_text(const char *text, struct esp_workload *out,
                                 struct esp_error *err) {
    char folder[256], path[300];
    esp_test_mkdir(folder);
    snprintf(path, sizeof path, "%s/mine.json", folder);
    esp_test_write_file(path, text, strlen(text));
    enum esp_status status = esp_workload_load(path, &esp_alloc_libc, out, err);
    esp_test_rmdir(folder);
    return status;
}

static void every_built_in_one_is_whole(void **state) {
    (void)state;
    size_t count = 0;
    struct esp_workload w;
    for (; esp_workload_builtin(count, &w, NULL) == ESP_OK; count++) {
        struct esp_workload by_name;
        struct esp_error err = ESP_ERROR_INIT;
        assert_ok(esp_workload_load(w.name, &esp_alloc_libc, &by_name, &err), &err);
        assert_string_equal(by_name.summary, w.summary); /* the file is called as its content */
        assert_true(w.summary[0] != '\0');
        double sum = 0;
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            sum += w.share[op];
        }
        assert_true(fabs(sum - 1) < 1e-9);
    }
    assert_true(count >= 3);
    assert_status(ESP_ERR_NOT_FOUND, esp_workload_builtin(count, &w, NULL));
}

static void weights_become_shares(void **state) {
    (void)state;
    struct esp_workload w;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(load_text("{\"name\":\"mine\",\"rate_per_second\":2.5,"
                        "\"mix\":{\"children\":3,\"is-descendant\":1}}",
                        &w, &err),
              &err);
    assert_string_equal(w.name, "mine");
    assert_true(w.rate_per_second == 2.5);
    assert_true(w.share[ESP_OP_CHILDREN] == 0.75);
    assert_true(w.share[ESP_OP_IS_DESCENDANT] == 0.25);
    assert_true(w.share[ESP_OP_NODE] == 0);
}

static void a_name_finds_the_built_in_one(void **state) {
    (void)state;
    struct esp_workload w;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_workload_load("read-heavy", &esp_alloc_libc, &w, &err), &err);
    assert_string_equal(w.name, "read-heavy");
}

static void assert_refused(const char *text, const char *expected) {
    struct esp_workload w;
    struct esp_error err = ESP_ERROR_INIT;
    assert_status(ESP_ERR_INPUT, load_text(text, &w, &err));
    if (!strstr(err.message, expected)) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, expected);
    }
}

static void wrong_files_are_refused_by_member(void **state) {
    (void)state;
    assert_refused("[]", "object");
    assert_refused("{\"name\":\"a\"}", "\"rate_per_second\" is missing");
    assert_refused("{\"name\":\"a\",\"rate_per_second\":0,\"mix\":{\"node\":1}}", "above 0");
    assert_refused("{\"name\":\"a\",\"rate_per_second\":1}", "\"mix\"");
    assert_refused("{\"name\":\"a\",\"rate_per_second\":1,\"mix\":{\"node\":0}}", "no weight");
    assert_refused("{\"name\":\"a\",\"rate_per_second\":1,\"mix\":{\"node\":-1}}",
                   "mix: member \"node\" must not be negative");
    assert_refused("{\"name\":\"a\",\"rate_per_second\":1,\"mix\":{\"nodes\":1}}",
                   "\"nodes\" is no operation; there are: node, parent");
}

static void neither_name_nor_file_lists_the_names(void **state) {
    (void)state;
    struct esp_workload w;
    struct esp_error err = ESP_ERROR_INIT;
    assert_status(ESP_ERR_USAGE, esp_workload_load("no-such-mix", &esp_alloc_libc, &w, &err));
    assert_non_null(strstr(err.message, "read-heavy"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_built_in_one_is_whole),
        cmocka_unit_test(weights_become_shares),
        cmocka_unit_test(a_name_finds_the_built_in_one),
        cmocka_unit_test(wrong_files_are_refused_by_member),
        cmocka_unit_test(neither_name_nor_file_lists_the_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
