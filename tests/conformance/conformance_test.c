/* Every layout on every store that needs no network; see suite.h.
 *   conformance_test [SEED [FORESTS]]   other forests than those of every run */
#include "tests/conformance/suite.h"
#include "tests/support/random_forest.h"

#include <stdlib.h>

static uint64_t first_seed = 1;
static uint32_t forests = 0; /* 0: as many as each test wants */

static struct esp_store *open_store(const char *url, const struct esp_store_config *config) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    assert_ok(esp_store_open(url, config, &esp_clock_system, &esp_alloc_libc, &store, &err), &err);
    return store;
}

static void run_layouts(const char *url, uint64_t page_bytes, uint32_t count, uint32_t writes) {
    struct esp_store_config config = {.page_bytes = page_bytes, .no_sync = true};
    struct esp_store *store = open_store(url, &config);
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    for (size_t i = 0; i < n; i++) {
        struct suite_options options = {
            .seed = first_seed + 1000 * i,
            .forests = forests ? forests : count,
            .nodes_max = 60,
            .writes = writes,
            .sample = 4,
            .table = "conformance",
            .consistent = i % 2,
        };
        suite_run(store, &layouts[i], &options);
    }
    esp_store_close(store);
}

static void memory_with_small_pages(void **state) {
    (void)state;
    run_layouts("memory:", 100, 150, 32);
}

static void memory_with_whole_pages(void **state) {
    (void)state;
    run_layouts("memory:", 0, 50, 32);
}

static void local_with_small_pages(void **state) {
    (void)state;
    run_layouts("local:", 100, 40, 32);
}

/* The null store keeps nothing; what emit gives must be what item_count says, however the
 * nodes are divided among calls. */
static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    (void)item;
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static void null_counts(void **state) {
    (void)state;
    struct esp_store *store = open_store("null:", NULL);
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    for (uint64_t seed = first_seed; seed < first_seed + 50; seed++) {
        struct esp_rng rng;
        struct esp_arena scratch;
        esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
        esp_rng_init(&rng, seed, 0);
        struct esp_forest *forest = esp_test_random_forest(&rng, 60);
        for (size_t i = 0; i < n; i++) {
            struct suite_table t;
            suite_table_open(&t, store, &layouts[i], "null", forest);
            assert_int_equal(t.session->usage.items_written, t.session->bulk.planned);
            esp_session_close(t.session);
            esp_table_close(t.table);
            esp_arena_fini(&t.scratch);
            for (esp_node v = 0; v < forest->count; v++) {
                uint64_t emitted = 0;
                esp_arena_reset(&scratch);
                assert_int_equal(
                    layouts[i].ops->emit(&layouts[i], forest, v, 1, &scratch, count_item, &emitted),
                    ESP_OK);
                assert_int_equal(emitted, layouts[i].ops->item_count(&layouts[i], forest, v, 1));
            }
        }
        esp_forest_free(forest);
        esp_arena_fini(&scratch);
    }
    esp_store_close(store);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_with_small_pages),
        cmocka_unit_test(memory_with_whole_pages),
        cmocka_unit_test(local_with_small_pages),
        cmocka_unit_test(null_counts),
    };
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : first_seed;
    forests = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : forests;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
