/*
 * The conformance suite, every layout, over HTTP on a real engine.
 *   layouts_on_engine_test ENGINE
 */
#include "tests/conformance/suite.h"
#include "tests/endpoint/engine_process.h"

static const char *engine_name;

static void every_layout_answers_as_the_model(void **state) {
    (void)state;
    struct esp_test_engine engine;
    struct esp_store_config config = {.seed = 1};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    assert_true(esp_test_engine_start(&engine, engine_name));
    assert_ok(esp_store_open(engine.url, &config, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; i < n; i++) {
        struct suite_options options = {.seed = 1 + 1000 * i,
                                        .forests = 6,
                                        .nodes_max = 40,
                                        .writes = 12,
                                        .sample = 2,
                                        .table = "layouts-on-engine",
                                        .consistent = i % 2};
        suite_run(store, &layouts[i], &options);
    }
    esp_store_close(store);
    esp_test_engine_stop(&engine);
}

int main(int argc, char **argv) {
    engine_name = argc > 1 ? argv[1] : "dynoxide";
    if (!esp_test_engine_available(engine_name)) {
        return 77; /* ctest: skipped */
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layout_answers_as_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
