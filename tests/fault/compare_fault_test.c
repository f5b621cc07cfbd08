/* Comparing, planning and reporting with an allocation failing: out of memory, nothing held. */
#include "tests/support/alloc.h"
#include "tests/support/drives.h"

#include "bench/report.h"

static enum esp_status report(const struct esp_comparison *c, const struct esp_alloc *alloc) {
    struct esp_workload workload;
    struct esp_plan_options options = {.headroom_percent = 30};
    struct esp_plan_result plan;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_buf out;
    assert_ok(esp_workload_load("browse", &esp_alloc_libc, &workload, &err), &err);
    enum esp_status status = esp_plan_make(c, &workload, &options, alloc, &plan, &err);
    esp_buf_init(&out, alloc, 1 << 22);
    for (size_t i = 0; esp_reporters[i] && status == ESP_OK; i++) {
        status = esp_reporters[i]->compare(c, &out);
        if (status == ESP_OK) {
            status = esp_reporters[i]->plan(&plan, &out);
        }
    }
    esp_buf_fini(&out);
    esp_plan_fini(&plan, alloc);
    return status;
}

static enum esp_status compare(const struct esp_forest *forest, const struct esp_layout *layout,
                               const struct esp_alloc *alloc) {
    struct esp_compare_options options = {
        .layouts = layout, .layout_count = 1, .sample = 2, .workers = 1};
    struct esp_store *store = NULL;
    struct esp_prices prices;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_comparison c;
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        options.op[op] = esp_op_measured(op);
    }
    enum esp_status status =
        esp_store_open("memory:", NULL, &esp_clock_system, alloc, &store, &err);
    if (status != ESP_OK) {
        return status;
    }
    assert_ok(esp_prices_load(NULL, NULL, &esp_alloc_libc, &prices, NULL), &err);
    status = esp_compare_run(forest, store, &options, &prices, NULL, NULL, NULL, &c, &err);
    if (status == ESP_OK) {
        status = report(&c, alloc);
    }
    esp_comparison_fini(&c, alloc);
    esp_store_close(store);
    return status;
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct esp_strings sets = {.count = 0};
        struct esp_layout layout;
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_test_alloc a;
        assert_ok(esp_layout_init(&layout, esp_layouts[i], &sets, &err), &err);
        /* Every one of the first hundred, then ever fewer: there are thousands.  A few may fail
         * unnoticed: layouts do without hints for the meter. */
        for (size_t n = 1; esp_test_alloc_init(&a, n); n += 1 + n / 100) {
            enum esp_status status = compare(forest, &layout, &a.alloc);
            if (status != ESP_OK && status != ESP_ERR_NOMEM) {
                fail_msg("%s, call %zu: %s", esp_layouts[i]->name, n, esp_status_name(status));
            }
            if (esp_test_alloc_done(&a)) {
                assert_int_equal(status, ESP_OK);
                break;
            }
        }
    }
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
