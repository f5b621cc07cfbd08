/* The worked figures of the facts sheet (4.7, 9.1, 10), and price files that are not right. */
#include "tests/support/support.h"

#include "bench/prices.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define assert_near(actual, expected) assert_true(fabs((actual) - (expected)) < 1e-9)

static struct esp_prices load(const char *region) {
    struct esp_prices prices;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_prices_load(NULL, region, &esp_alloc_libc, &prices, &err), &err);
    return prices;
}

static void built_in_prices_are_dated_and_sourced(void **state) {
    (void)state;
    struct esp_prices p = load(NULL);
    assert_string_equal(p.region, "us-east-1");
    assert_int_equal(strlen(p.date), 10);
    assert_true(strlen(p.source) > 20);
    assert_near(p.write_request_per_million, 0.625);
    assert_near(p.storage_free_gb, 25);
}

static void a_region_has_its_own_prices_and_note(void **state) {
    (void)state;
    struct esp_prices p = load("ap-northeast-2");
    assert_near(p.write_request_per_million, 0.68);
    assert_near(p.read_unit_hour, 0.00014098);
    assert_non_null(strstr(p.source, "ap-northeast-2: storage"));
    assert_near(load("us-west-2").read_request_per_million, 0.125);
}

static void units_and_bytes_become_money(void **state) {
    (void)state;
    const double gb = 1024.0 * 1024 * 1024;
    struct esp_prices p = load(NULL);
    assert_near(esp_price_requests(&p, 0, 1e6), 0.625);
    assert_near(esp_price_requests(&p, 1e6, 2e6), 0.125 + 1.25);
    assert_near(esp_price_provisioned(&p, 0, 1), 0.4745);
    assert_near(esp_price_provisioned(&p, 1, 0), 0.0949);
    assert_near(esp_price_import(&p, gb), 0.15);
    assert_near(esp_price_storage(&p, 30 * gb, false), 7.5);
    assert_near(esp_price_storage(&p, 30 * gb, true), 1.25);
    assert_near(esp_price_storage(&p, 3 * gb, true), 0);
}

static void an_unknown_region_lists_the_known_ones(void **state) {
    (void)state;
    struct esp_prices p;
    struct esp_error err = ESP_ERROR_INIT;
    assert_status(ESP_ERR_USAGE, esp_prices_load(NULL, "moon-1", &esp_alloc_libc, &p, &err));
    assert_non_null(strstr(err.message, "moon-1"));
    assert_non_null(strstr(err.message, "us-east-1, us-east-2"));
}

/* Loads `text` as a price file; the message must hold `expected`. */
static void assert_refused(const char *text, const char *expected) {
    char folder[256], path[300];
    struct esp_prices p;
    struct esp_error err = ESP_ERROR_INIT;
    esp_test_mkdir(folder);
    snprintf(path, sizeof path, "%s/prices.json", folder);
    esp_test_write_file(path, text, strlen(text));
    assert_status(ESP_ERR_INPUT, esp_prices_load(path, NULL, &esp_alloc_libc, &p, &err));
    if (!strstr(err.message, expected)) {
        fail_msg("\"%s\" does not say \"%s\"", err.message, expected);
    }
    assert_string_equal(err.source, path);
    esp_test_rmdir(folder);
}

static void a_wrong_file_is_refused_by_member(void **state) {
    (void)state;
    assert_refused("{\"date\":\"2026-01-01\",}", "not valid JSON");
    assert_refused("{}", "\"date\" is missing");
    assert_refused("{\"date\":\"2026-01-01\",\"default_region\":7}", "\"default_region\" must be");
    assert_refused("{\"date\":\"2026-01-01\",\"default_region\":\"r\"}", "\"regions\"");
    assert_refused("{\"date\":\"2026-01-01\",\"default_region\":\"r\",\"source\":\"s\","
                   "\"regions\":{\"r\":{\"write_request_per_million\":1}}}",
                   "r: member \"read_request_per_million\" is missing");
    assert_refused("{\"date\":\"2026-01-01\",\"default_region\":\"r\",\"source\":\"s\","
                   "\"regions\":{\"r\":{\"write_request_per_million\":-1}}}",
                   "r: member \"write_request_per_million\" must not be negative");
    assert_refused("{\"date\":\"2026-01-01 and much later\"}", "\"date\" is too long");
}

static void syntax_errors_have_a_place(void **state) {
    (void)state;
    char folder[256], path[300];
    struct esp_prices p;
    struct esp_error err = ESP_ERROR_INIT;
    esp_test_mkdir(folder);
    snprintf(path, sizeof path, "%s/prices.json", folder);
    esp_test_write_file(path, "{\n\"date\": 1,\n]", 14);
    assert_status(ESP_ERR_INPUT, esp_prices_load(path, NULL, &esp_alloc_libc, &p, &err));
    assert_int_equal(err.line, 3);
    esp_test_rmdir(folder);
}

static void a_missing_file_is_an_io_error(void **state) {
    (void)state;
    struct esp_prices p;
    struct esp_error err = ESP_ERROR_INIT;
    assert_status(ESP_ERR_IO,
                  esp_prices_load("no-such-file.json", NULL, &esp_alloc_libc, &p, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_prices_are_dated_and_sourced),
        cmocka_unit_test(a_region_has_its_own_prices_and_note),
        cmocka_unit_test(units_and_bytes_become_money),
        cmocka_unit_test(an_unknown_region_lists_the_known_ones),
        cmocka_unit_test(a_wrong_file_is_refused_by_member),
        cmocka_unit_test(syntax_errors_have_a_place),
        cmocka_unit_test(a_missing_file_is_an_io_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
