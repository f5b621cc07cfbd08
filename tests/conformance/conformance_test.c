/* Every layout on every store that needs no network; see suite.h.
 *   conformance_test [SEED [FORESTS]]   other forests than those of every run */
#include "tests/conformance/suite.h"

#include <stdlib.h>

static uint64_t first_seed = 1;
static uint32_t forests = 0; /* 0: as many as each test wants */

static struct esp_store *open_store(const char *url, const struct esp_store_config *config) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    assert_ok(esp_store_open(url, config, &esp_clock_system, &esp_alloc_libc, &store, &err), &err);
    return store;
}

static void run_layouts(struct esp_store *store, uint32_t count) {
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    for (size_t i = 0; i < n; i++) {
        struct suite_options options = {
            .seed = first_seed + 1000 * i,
            .forests = forests ? forests : count,
            .nodes_max = 60,
            .writes = 100,
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
    struct esp_store_config config = {.page_bytes = 100, .no_sync = true};
    run_layouts(open_store("memory:", &config), 16);
}

static void memory_with_whole_pages(void **state) {
    (void)state;
    struct esp_store_config config = {.page_bytes = 0, .no_sync = true};
    run_layouts(open_store("memory:", &config), 6);
}

static void local_with_small_pages(void **state) {
    (void)state;
    struct esp_store_config config = {.page_bytes = 100, .no_sync = true};
    run_layouts(open_store("local:", &config), 8);
}

/* A store may answer a batch of keys in any order; this one answers from the last to the first. */
static const struct esp_store_ops *inner;

struct answers {
    struct esp_item item[100];
    size_t count;
    struct esp_arena arena;
    const struct esp_schema *schema;
};

static enum esp_status keep_answer(void *ctx, const struct esp_item *item) {
    struct answers *answers = ctx;
    return esp_item_dup(answers->schema, &answers->arena, item, &answers->item[answers->count++]);
}

static enum esp_status execute_backwards(struct esp_session *session, struct esp_request *requests,
                                         size_t n, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        struct esp_request *r = &requests[i];
        struct answers answers = {.schema = &session->table->schema};
        esp_item_fn *fn = r->fn;
        void *ctx = r->ctx;
        if (r->kind != ESP_REQ_GET) {
            status = inner->execute(session, r, 1, err);
            continue;
        }
        esp_arena_init(&answers.arena, &esp_alloc_libc, SIZE_MAX);
        r->fn = keep_answer;
        r->ctx = &answers;
        status = inner->execute(session, r, 1, err);
        while (status == ESP_OK && r->status == ESP_OK && answers.count) {
            r->status = fn(ctx, &answers.item[--answers.count]);
        }
        esp_arena_fini(&answers.arena);
    }
    return status;
}

static void memory_that_answers_backwards(void **state) {
    (void)state;
    struct esp_store *store = open_store("memory:", NULL);
    inner = store->ops;
    struct esp_store_ops backwards = *inner;
    backwards.execute = execute_backwards;
    store->ops = &backwards;
    run_layouts(store, 4);
}

/* The null store keeps nothing; what emit gives must be what item_count says, however the
 * nodes are divided among calls. */
static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    (void)item;
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static void count_nodes(const struct esp_layout *layout, const struct esp_forest *forest,
                        struct esp_arena *scratch) {
    for (esp_node v = 0; v < forest->count; v++) {
        uint64_t emitted = 0;
        esp_arena_reset(scratch);
        assert_int_equal(layout->ops->emit(layout, forest, v, 1, scratch, count_item, &emitted),
                         ESP_OK);
        assert_int_equal(emitted, layout->ops->item_count(layout, forest, v, 1));
    }
}

static void null_counts(void **state) {
    (void)state;
    struct esp_store *store = open_store("null:", NULL);
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    struct esp_arena scratch;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    for (uint64_t i = 0; i < 50 * n; i++) {
        const struct esp_layout *layout = &layouts[i % n];
        struct esp_rng rng;
        struct suite_table t;
        esp_rng_init(&rng, first_seed + i / n, 0);
        struct esp_forest *forest = suite_forest(layout, &rng, 60);
        suite_table_open(&t, store, layout, "null", forest);
        assert_int_equal(t.session->usage.items_written, t.session->bulk.planned);
        esp_session_close(t.session);
        esp_table_close(t.table);
        esp_arena_fini(&t.scratch);
        count_nodes(layout, forest, &scratch);
        esp_forest_free(forest);
    }
    esp_arena_fini(&scratch);
    esp_store_close(store);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_with_small_pages),
        cmocka_unit_test(memory_with_whole_pages),
        cmocka_unit_test(local_with_small_pages),
        cmocka_unit_test(memory_that_answers_backwards),
        cmocka_unit_test(null_counts),
    };
    first_seed = argc > 1 ? strtoull(argv[1], NULL, 10) : first_seed;
    forests = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : forests;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
