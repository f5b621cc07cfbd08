/*
 * Compare on the two drives (15 folders; depths: 2 x 0, 5 x 1, 5 x 2, 3 x 3), in memory, with a
 * clock that stands still.  Every expected figure is worked out in the comment beside it.  All
 * items are far below 1 KB, so an item or entry written is 1 unit and a read of up to 4 KB 0.5.
 */
#include "tests/support/drives.h"

#include "bench/report.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 15, LAYOUTS_MAX = 8 };

struct fixture {
    struct esp_forest *forest;
    struct esp_virtual_clock time;
    struct esp_clock clock;
    struct esp_store *store;
    struct esp_layout layout[LAYOUTS_MAX];
    size_t layout_count;
    struct esp_prices prices;
};

static int set_up(void **state) {
    static struct fixture f;
    struct esp_strings sets = {.count = 0};
    struct esp_error err = ESP_ERROR_INIT;
    memset(&f, 0, sizeof f);
    f.forest = drives_forest();
    f.time = (struct esp_virtual_clock){.now_ns = 1, .wall_ns = 1795240800ull * 1000000000ull};
    f.clock = esp_clock_virtual(&f.time);
    assert_ok(esp_store_open("memory:", NULL, &f.clock, &esp_alloc_libc, &f.store, &err), &err);
    for (; esp_layouts[f.layout_count]; f.layout_count++) {
        assert_true(f.layout_count < LAYOUTS_MAX);
        assert_ok(
            esp_layout_init(&f.layout[f.layout_count], esp_layouts[f.layout_count], &sets, &err),
            &err);
    }
    assert_ok(esp_prices_load(NULL, NULL, &esp_alloc_libc, &f.prices, &err), &err);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    esp_store_close(f->store);
    esp_forest_free(f->forest);
    return 0;
}

static void all_operations(struct esp_compare_options *options, const struct fixture *f) {
    *options = (struct esp_compare_options){.layouts = f->layout,
                                            .layout_count = f->layout_count,
                                            .workers = 1,
                                            .seed = 1,
                                            .source_name = "datasets/drives.csv"};
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        options->op[op] = esp_op_measured(op);
    }
}

static void run(struct fixture *f, const struct esp_compare_options *options,
                struct esp_comparison *out) {
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(
        esp_compare_run(f->forest, f->store, options, &f->prices, NULL, NULL, NULL, out, &err),
        &err);
}

static const struct esp_layout_result *find_layout(const struct esp_comparison *c,
                                                   const char *name) {
    for (size_t i = 0; i < c->options.layout_count; i++) {
        if (strcmp(c->layout[i].layout->ops->name, name) == 0) {
            return &c->layout[i];
        }
    }
    fail_msg("no layout %s", name);
    return NULL;
}

#define assert_sum(figure, expected)                                                               \
    do {                                                                                           \
        double a_ = (figure).mean * NODES, e_ = (expected);                                        \
        if (fabs(a_ - e_) > 1e-6) {                                                                \
            fail_msg("%s: %g in all, not %g", #figure, a_, e_);                                    \
        }                                                                                          \
    } while (0)

static void loads_are_counted(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options = {.layouts = f->layout, .layout_count = f->layout_count};
    struct esp_comparison c;
    run(f, &options, &c);
    static const struct {
        const char *name;
        uint64_t items;
        double units;
    } expected[] = {
        {"path", 15, 15 + 13},    /* the roots are not in the index */
        {"replica", 39, 39 + 39}, /* depth + 1 items a node */
        {"nested-set", 15, 15 + 15},
        {"adjacency", 15, 15 + 13}, /* the roots have no parent */
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const struct esp_layout_result *r = find_layout(&c, expected[i].name);
        assert_int_equal(r->load.items_written, expected[i].items);
        assert_true(esp_units_total(&r->load.usage.write) == expected[i].units);
        assert_true(fabs(r->load_usd - expected[i].units * 0.625e-6) < 1e-12);
        /* The survey, which sees no store, must agree with the meter. */
        double surveyed = 0;
        for (size_t p = 0; p <= ESP_INDEX_MAX; p++) {
            surveyed += r->survey.part[p].write_units;
        }
        assert_true(surveyed == expected[i].units);
        assert_int_equal(r->load.usage.bytes_written, r->item_bytes);
        assert_int_equal(r->load.usage.index_bytes_written, r->index_bytes);
    }
    assert_int_equal(c.nodes, 15);
    assert_int_equal(c.roots, 2);
    assert_int_equal(c.depth_max, 3);
    assert_int_equal(c.payload_bytes, 15 * 12);
    esp_comparison_fini(&c, &esp_alloc_libc);
}

static void reads_cost_what_the_layout_says(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options;
    struct esp_comparison c;
    all_operations(&options, f);
    run(f, &options, &c);
    for (size_t i = 0; i < f->layout_count; i++) { /* a GetItem each; path-key looks first */
        const struct esp_op_result *node = &c.layout[i].op[ESP_OP_NODE];
        uint32_t requests = c.layout[i].layout->ops->key_is_place ? 2 : 1;
        assert_int_equal(node->samples, NODES);
        assert_int_equal(node->plan, ESP_PLAN_NATIVE);
        assert_sum(node->read_units, 0.5 * NODES * requests);
        assert_sum(node->round_trips, NODES * requests);
        assert_sum(node->items_read, NODES * requests);
        assert_true(node->write_units.max == 0);
        assert_true(fabs(node->usd_per_million - 0.5 * 0.125 * requests) < 1e-9);
    }
    /* One query each; after an empty one (9 leaves) a GetItem tells a leaf from a missing node.
     * 13 nodes are somebody's child. */
    static const char *const by_id[] = {"replica", "adjacency"};
    const struct esp_op_result *children;
    for (size_t i = 0; i < 2; i++) {
        children = &find_layout(&c, by_id[i])->op[ESP_OP_CHILDREN];
        assert_sum(children->read_units, 0.5 * NODES + 0.5 * 9);
        assert_sum(children->round_trips, NODES + 9);
        assert_sum(children->items_returned, 13 + 9);
    }
    /* path by id: the path is looked up first */
    children = &find_layout(&c, "path")->op[ESP_OP_CHILDREN];
    assert_sum(children->read_units, (0.5 + 0.5) * NODES);
    assert_sum(children->round_trips, 2 * NODES);
    assert_true(children->read_mean.table == 0.5 && children->read_mean.index[0] == 0.5);
    assert_int_equal(c.layout[0].op[ESP_OP_ROOTS].samples, 1);
    assert_int_equal(c.layout[0].op[ESP_OP_TREE].samples, 5);
    esp_comparison_fini(&c, &esp_alloc_libc);
}

static void a_known_key_saves_the_look_up(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options;
    struct esp_comparison c;
    all_operations(&options, f);
    options.addressing = ESP_ADDRESS_KEY;
    run(f, &options, &c);
    const struct esp_op_result *children = &find_layout(&c, "path")->op[ESP_OP_CHILDREN];
    assert_sum(children->read_units, 0.5 * NODES);
    assert_sum(children->round_trips, NODES);
    esp_comparison_fini(&c, &esp_alloc_libc);
}

static void writes_cost_what_the_layout_says(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options;
    struct esp_comparison c;
    all_operations(&options, f);
    run(f, &options, &c);
    static const struct {
        const char *name;
        double insert, update, remove;
    } expected[] = {
        /* insert: item + entry.  update: item + entry, no entry for 2 roots.  remove: the sum of
         * subtree sizes is 39 items; the entries are 2 fewer, each root being in 1 subtree. */
        {"path", 2 * 15, 15 + 13, 39 + 37},
        {"adjacency", 2 * 15, 15 + 13, 39 + 37},
        /* insert below depth d: d + 2 rows and entries, in all 39 + 15 each.  update: 39 rows.
         * remove: a node of depth d has d + 1 rows and is in d + 1 subtrees: 115. */
        {"replica", 2 * (39 + 15), 2 * 39, 2 * 115},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const struct esp_layout_result *r = find_layout(&c, expected[i].name);
        assert_sum(r->op[ESP_OP_INSERT].write_units, expected[i].insert);
        assert_sum(r->op[ESP_OP_UPDATE].write_units, expected[i].update);
        assert_sum(r->op[ESP_OP_REMOVE].write_units, expected[i].remove);
    }
    /* nested-set leaves a gap: 39 items and entries go, nothing else changes */
    assert_sum(find_layout(&c, "nested-set")->op[ESP_OP_REMOVE].write_units, 2 * 39);
    assert_sum(find_layout(&c, "nested-set")->op[ESP_OP_UPDATE].write_units, 2 * 15);
    esp_comparison_fini(&c, &esp_alloc_libc);
}

/* If undoing left anything behind, a second run of the reads would see it. */
static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    const struct esp_table *table = ((void **)ctx)[0];
    uint64_t *digest = ((void **)ctx)[1];
    *digest += esp_item_digest(&table->schema, item) | 1;
    return ESP_OK;
}

static uint64_t table_digest(struct fixture *f, const struct esp_layout *layout,
                             const char *prefix) {
    struct esp_table *table = NULL;
    struct esp_session *session = NULL;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_scan scan = {.index = ESP_PRIMARY};
    uint64_t digest = 0;
    char name[64];
    snprintf(name, sizeof name, "%s-%s", prefix, layout->ops->name);
    assert_ok(esp_table_open(f->store, name, &layout->schema, &table, &err), &err);
    void *ctx[] = {table, &digest};
    assert_ok(esp_session_open(table, &session, &err), &err);
    assert_ok(esp_session_scan(session, &scan, count_item, ctx, &err), &err);
    esp_session_close(session);
    esp_table_close(table);
    assert_ok(f->store->ops->drop_table(f->store, name, &err), &err);
    return digest;
}

static void writes_leave_nothing_behind(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options loaded_only = {.layouts = f->layout, .layout_count = 1};
    struct esp_compare_options options;
    struct esp_comparison a, b;
    all_operations(&options, f);
    options.layout_count = 1;
    options.keep_tables = loaded_only.keep_tables = true;
    options.table_prefix = "worked";
    loaded_only.table_prefix = "fresh";
    run(f, &options, &a);
    run(f, &loaded_only, &b);
    assert_int_equal(table_digest(f, &f->layout[0], "worked"),
                     table_digest(f, &f->layout[0], "fresh"));
    esp_comparison_fini(&a, &esp_alloc_libc);
    esp_comparison_fini(&b, &esp_alloc_libc);
}

/* A store on which every write request is done, but the n-th is said to have failed: somebody
 * wants to stop then. */
static struct failing {
    struct esp_store_ops ops;
    const struct esp_store_ops *real;
    int stop;
    unsigned writes_left;
} failing;

static enum esp_status execute_then_fail(struct esp_session *session, struct esp_request *requests,
                                         size_t n, struct esp_error *err) {
    enum esp_status status = failing.real->execute(session, requests, n, err);
    bool write = requests[0].kind == ESP_REQ_WRITE || requests[0].kind == ESP_REQ_TRANSACT;
    if (status == ESP_OK && write && failing.writes_left && --failing.writes_left == 0) {
        failing.stop = 1;
        return esp_fail(err, ESP_ERR_UNAVAILABLE, "the answer was lost");
    }
    return status;
}

static void fail_and_compare(struct fixture *f, const struct esp_layout *layout) {
    struct esp_compare_options options = {
        .layouts = layout, .layout_count = 1, .workers = 1, .keep_tables = true};
    struct esp_comparison c;
    struct esp_error err = ESP_ERROR_INIT;
    options.table_prefix = "fresh";
    run(f, &options, &c);
    esp_comparison_fini(&c, &esp_alloc_libc);
    options.table_prefix = "worked";
    options.op[ESP_OP_INSERT] = true;
    failing.stop = 0;
    failing.writes_left = 1; /* loads use the bulk stream */
    f->store->ops = &failing.ops;
    assert_status(ESP_ERR_UNAVAILABLE, esp_compare_run(f->forest, f->store, &options, &f->prices,
                                                       &failing.stop, NULL, NULL, &c, &err));
    esp_comparison_fini(&c, &esp_alloc_libc);
    f->store->ops = failing.real;
    assert_int_equal(failing.stop, 1);
    assert_int_equal(table_digest(f, layout, "worked"), table_digest(f, layout, "fresh"));
}

/* With undo by images, and by trials. */
static void a_failed_sample_is_taken_back(void **state) {
    struct fixture *f = *state;
    failing.real = f->store->ops;
    for (int trials = 0; trials < 2; trials++) {
        failing.ops = *failing.real;
        failing.ops.execute = execute_then_fail;
        if (!trials) {
            failing.ops.trial_begin = NULL;
            failing.ops.trial_end = NULL;
        }
        for (size_t i = 0; i < f->layout_count; i++) {
            fail_and_compare(f, &f->layout[i]);
        }
    }
}

static void an_existing_table_is_not_touched(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options = {.layouts = f->layout, .layout_count = 1};
    struct esp_comparison c;
    struct esp_error err = ESP_ERROR_INIT;
    options.keep_tables = true;
    run(f, &options, &c);
    esp_comparison_fini(&c, &esp_alloc_libc);
    options.keep_tables = false;
    assert_status(ESP_ERR_EXISTS, esp_compare_run(f->forest, f->store, &options, &f->prices, NULL,
                                                  NULL, NULL, &c, &err));
    esp_comparison_fini(&c, &esp_alloc_libc);
    assert_true(table_digest(f, &f->layout[0], "espalier-compare") != 0);
}

static void the_null_store_is_refused(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options;
    struct esp_comparison c;
    struct esp_store *store;
    struct esp_error err = ESP_ERROR_INIT;
    all_operations(&options, f);
    assert_ok(esp_store_open("null:", NULL, &f->clock, &esp_alloc_libc, &store, &err), &err);
    assert_status(ESP_ERR_UNSUPPORTED, esp_compare_run(f->forest, store, &options, &f->prices, NULL,
                                                       NULL, NULL, &c, &err));
    esp_comparison_fini(&c, &esp_alloc_libc);
    esp_store_close(store);
}

static void stop_is_obeyed(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options;
    struct esp_comparison c;
    struct esp_error err = ESP_ERROR_INIT;
    volatile int stop = 1;
    all_operations(&options, f);
    assert_status(ESP_ERR_CANCELLED, esp_compare_run(f->forest, f->store, &options, &f->prices,
                                                     &stop, NULL, NULL, &c, &err));
    esp_comparison_fini(&c, &esp_alloc_libc);
}

/* --- reports -------------------------------------------------------------------- */

static const json_t *member(const json_t *object, const char *name, json_type type) {
    const json_t *value = json_object_get(object, name);
    if (!value || json_typeof(value) != type) {
        fail_msg("member \"%s\" is missing or of another type", name);
    }
    return value;
}

static void check_figure(const json_t *object, const char *name) {
    static const char *const parts[] = {"mean", "p50", "p90", "p99", "max"};
    const json_t *figure = member(object, name, JSON_OBJECT);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        (void)member(figure, parts[i], JSON_REAL);
    }
}

static void check_operation(const json_t *operation) {
    static const char *const figures[] = {"read_units",   "write_units", "requests",
                                          "round_trips",  "items_read",  "items_returned",
                                          "items_written"};
    (void)member(operation, "name", JSON_STRING);
    (void)member(operation, "plan", JSON_STRING);
    (void)member(operation, "samples", JSON_INTEGER);
    (void)member(operation, "usd_per_million", JSON_REAL);
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        check_figure(operation, figures[i]);
    }
    assert_non_null(json_object_get(operation, "read_units_billed"));
    assert_non_null(json_object_get(operation, "write_units_billed"));
    const json_t *latency = member(operation, "latency_us", JSON_OBJECT);
    check_figure(latency, "measured");
    check_figure(latency, "modelled");
}

/* Every member that the command line's specification names. */
static void json_has_every_member(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options;
    struct esp_comparison c;
    struct esp_buf out;
    all_operations(&options, f);
    run(f, &options, &c);
    esp_buf_init(&out, &esp_alloc_libc, 1 << 22);
    assert_int_equal(esp_reporter_find("json")->compare(&c, &out), ESP_OK);
    json_t *root = json_loads(esp_buf_cstr(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(member(root, "schema", JSON_INTEGER)), 1);
    const json_t *source = member(root, "source", JSON_OBJECT);
    assert_int_equal(json_integer_value(member(source, "nodes", JSON_INTEGER)), 15);
    (void)member(source, "roots", JSON_INTEGER);
    (void)member(source, "depth_max", JSON_INTEGER);
    (void)member(source, "payload_bytes", JSON_INTEGER);
    assert_string_equal(json_string_value(member(root, "store", JSON_STRING)), "memory");
    assert_string_equal(json_string_value(member(root, "addressing", JSON_STRING)), "id");
    assert_int_equal(json_integer_value(member(root, "sample", JSON_INTEGER)), 200);
    (void)member(root, "seed", JSON_INTEGER);
    const json_t *layouts = member(root, "layouts", JSON_ARRAY);
    assert_int_equal(json_array_size(layouts), f->layout_count);
    size_t i, k;
    const json_t *layout, *operation;
    json_array_foreach((json_t *)layouts, i, layout) {
        static const char *const counts[] = {"items", "item_bytes", "index_bytes", "storage_bytes",
                                             "requests"};
        const json_t *load = member(layout, "load", JSON_OBJECT);
        for (size_t n = 0; n < sizeof counts / sizeof counts[0]; n++) {
            (void)member(load, counts[n], JSON_INTEGER);
        }
        (void)member(load, "write_units", JSON_REAL);
        (void)member(load, "usd_on_demand", JSON_REAL);
        (void)member(load, "elapsed_s", JSON_REAL);
        assert_non_null(json_object_get(load, "write_units_billed"));
        const json_t *operations = member(layout, "operations", JSON_ARRAY);
        size_t measured = 0;
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            measured += esp_op_measured(op);
        }
        assert_int_equal(json_array_size(operations), measured);
        json_array_foreach((json_t *)operations, k, operation) {
            check_operation(operation);
        }
    }
    json_decref(root);
    esp_buf_fini(&out);
    esp_comparison_fini(&c, &esp_alloc_libc);
}

static void assert_golden(const char *path, struct esp_buf *text) {
    if (getenv("ESP_GOLDEN_REWRITE")) {
        esp_test_write_file(path, text->ptr, text->len);
        return;
    }
    char *expected = esp_test_read_file(path, NULL);
    assert_string_equal(esp_buf_cstr(text), expected);
    free(expected);
}

/* ESP_GOLDEN_REWRITE=1 writes the files anew: read the difference before you commit it. */
static void reports_are_golden(void **state) {
    struct fixture *f = *state;
    struct esp_compare_options options;
    struct esp_comparison c;
    struct esp_workload workload;
    struct esp_plan_options plan_options = {.headroom_percent = 30};
    struct esp_plan_result plan;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_buf out;
    all_operations(&options, f);
    options.command = "espalier compare datasets/drives.csv --store memory:";
    run(f, &options, &c);
    assert_ok(esp_workload_load("balanced", &esp_alloc_libc, &workload, &err), &err);
    assert_ok(esp_plan_make(&c, &workload, &plan_options, &esp_alloc_libc, &plan, &err), &err);
    esp_buf_init(&out, &esp_alloc_libc, 1 << 22);
    for (size_t i = 0; esp_reporters[i]; i++) {
        char path[256];
        snprintf(path, sizeof path, "tests/golden/compare-drives.%s", esp_reporters[i]->name);
        esp_buf_reset(&out);
        assert_int_equal(esp_reporters[i]->compare(&c, &out), ESP_OK);
        assert_golden(path, &out);
        snprintf(path, sizeof path, "tests/golden/plan-drives.%s", esp_reporters[i]->name);
        esp_buf_reset(&out);
        assert_int_equal(esp_reporters[i]->plan(&plan, &out), ESP_OK);
        assert_golden(path, &out);
    }
    esp_buf_fini(&out);
    esp_plan_fini(&plan, &esp_alloc_libc);
    esp_comparison_fini(&c, &esp_alloc_libc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loads_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_cost_what_the_layout_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_known_key_saves_the_look_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_cost_what_the_layout_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(writes_leave_nothing_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failed_sample_is_taken_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_existing_table_is_not_touched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_null_store_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stop_is_obeyed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(json_has_every_member, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reports_are_golden, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
