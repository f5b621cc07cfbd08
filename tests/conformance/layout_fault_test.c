/* Every operation of every layout with the n-th allocation failing, for every n: it ends with
 * ERR_NOMEM and a sentence, nothing leaks, and the table answers as before afterwards (after a
 * write: as before or as after it, as far as it came). */
#include "tests/conformance/suite.h"
#include "tests/support/alloc.h"
#include "tests/support/drives.h"

struct fixture {
    struct esp_test_alloc alloc;
    struct esp_store *store;
    struct esp_layout layout;
    struct suite_table table;
};

static void open_fixture(struct fixture *f, const struct esp_layout_ops *ops,
                         const struct esp_forest *forest) {
    struct esp_error err = ESP_ERROR_INIT;
    esp_test_alloc_init(&f->alloc, 0);
    assert_ok(esp_layout_init(&f->layout, ops, NULL, &err), &err);
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &f->alloc.alloc, &f->store, &err),
              &err);
    suite_table_open(&f->table, f->store, &f->layout, "fault", forest);
    esp_arena_fini(&f->table.scratch);
    esp_arena_init(&f->table.scratch, &f->alloc.alloc, SIZE_MAX);
}

static void close_fixture(struct fixture *f) {
    esp_error_clear(&f->table.err);
    suite_table_close(&f->table);
    esp_store_close(f->store);
    esp_test_alloc_done(&f->alloc);
}

/* What insert-subtree adds. */
static struct esp_forest *subtree;

static bool is_tried(const struct esp_layout *layout, enum esp_op op) {
    return esp_op_measured(op) ||
           ((op == ESP_OP_INSERT_SUBTREE || op == ESP_OP_PROMOTE) && esp_layout_has(layout, op));
}

static struct esp_args args_of(enum esp_op op) {
    static const char data[] = "\"name\":{\"S\":\"another\"}";
    struct esp_args args = {.at.id = ESP_STR("V"), .lo = 1, .hi = 2};
    if (op == ESP_OP_LEVEL || op == ESP_OP_TREE) {
        args.at.id = ESP_STR("D");
    } else if (op == ESP_OP_INSERT) {
        args.to.id = ESP_STR("V");
        args.id = ESP_STR("new");
    } else if (op == ESP_OP_MOVE) {
        args.to.id = ESP_STR("IV");
    } else if (op == ESP_OP_INSERT_SUBTREE) {
        args.to.id = ESP_STR("V");
        args.subtree = subtree;
    } else if (op == ESP_OP_LCA || op == ESP_OP_IS_DESCENDANT) {
        args.to.id = ESP_STR("a");
    }
    if (esp_op_info[op].write) {
        args.data = (struct esp_data){data, sizeof data - 1, 11};
    }
    return args;
}

static enum esp_status count_node(void *ctx, const struct esp_node_view *node) {
    (void)node;
    ++*(uint32_t *)ctx;
    return ESP_OK;
}

static enum esp_status operate(struct fixture *f, enum esp_op op, size_t fail_at, uint32_t *count) {
    struct esp_args args = args_of(op);
    esp_arena_fini(&f->table.scratch); /* no chunk kept, so that every allocation is one */
    esp_arena_init(&f->table.scratch, &f->alloc.alloc, SIZE_MAX);
    esp_error_clear(&f->table.err);
    *count = 0;
    f->alloc.calls = 0;
    f->alloc.fail_at = fail_at;
    enum esp_status status = esp_operate(&f->table.access, op, &args, count_node, count);
    f->alloc.fail_at = 0;
    if (status == ESP_ERR_NOMEM) {
        assert_int_equal(f->table.err.status, ESP_ERR_NOMEM);
        assert_true(f->table.err.message[0]);
    } else {
        assert_ok(status, &f->table.err);
    }
    return status;
}

static void reads(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct fixture f;
        open_fixture(&f, esp_layouts[i], forest);
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            uint32_t want, got;
            if (esp_op_info[op].write || !esp_op_measured(op)) {
                continue;
            }
            assert_int_equal(operate(&f, (enum esp_op)op, 0, &want), ESP_OK);
            for (size_t n = 1; operate(&f, (enum esp_op)op, n, &got) == ESP_ERR_NOMEM; n++) {
                assert_true(n < 10000);
                assert_int_equal(operate(&f, (enum esp_op)op, 0, &got), ESP_OK);
                assert_int_equal(got, want);
            }
        }
        close_fixture(&f);
    }
    esp_forest_free(forest);
}

static enum esp_status ignore_finding(void *ctx, const struct esp_finding *finding) {
    (void)ctx, (void)finding;
    return ESP_OK;
}

static void writes(void **state) {
    (void)state;
    static const struct drives_row rows[] = {{"X", ""}, {"x1", "X"}, {"x2", "X"}, {"Y", ""}};
    struct esp_forest *forest = drives_forest();
    subtree = forest_of_rows(rows, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; esp_layouts[i]; i++) {
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            struct esp_layout layout;
            struct esp_error err = ESP_ERROR_INIT;
            assert_ok(esp_layout_init(&layout, esp_layouts[i], NULL, &err), &err);
            bool tried = esp_op_info[op].write && is_tried(&layout, (enum esp_op)op);
            enum esp_status status = tried ? ESP_ERR_NOMEM : ESP_OK;
            for (size_t n = 1; status == ESP_ERR_NOMEM; n++) {
                struct fixture f;
                uint32_t count;
                assert_true(n < 10000);
                open_fixture(&f, esp_layouts[i], forest);
                status = operate(&f, (enum esp_op)op, n, &count);
                assert_int_equal(count, 0);
                esp_error_clear(&f.table.err);
                assert_ok(f.layout.ops->check(&f.table.access, ignore_finding, NULL), &f.table.err);
                close_fixture(&f);
            }
        }
    }
    esp_forest_free(subtree);
    esp_forest_free(forest);
}

static void checks(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct fixture f;
        enum esp_status status = ESP_ERR_NOMEM;
        open_fixture(&f, esp_layouts[i], forest);
        for (size_t n = 1; status == ESP_ERR_NOMEM; n++) {
            esp_error_clear(&f.table.err);
            f.alloc.calls = 0;
            f.alloc.fail_at = n;
            status = f.layout.ops->check(&f.table.access, ignore_finding, NULL);
            f.alloc.fail_at = 0;
            assert_true(status == ESP_OK || f.table.err.status == ESP_ERR_NOMEM);
        }
        assert_int_equal(status, ESP_OK);
        close_fixture(&f);
    }
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(writes),
        cmocka_unit_test(checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
