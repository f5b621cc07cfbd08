/* Writes that are cut after the k-th item, for every k: no node is lost, `check` finds what is
 * left half done, and a remove can be repeated. */
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"

static const struct esp_store_ops *inner;
static size_t budget; /* items that may still be written */

/* Does what the budget allows; a batch may be cut in its middle. */
static enum esp_status execute_torn(struct esp_session *session, struct esp_request *requests,
                                    size_t n, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        struct esp_request *r = &requests[i];
        bool write = r->kind == ESP_REQ_WRITE, cut = write && r->write.n > budget;
        if (cut) {
            r->write.n = budget;
        }
        if (!write || r->write.n) {
            budget -= write ? r->write.n : 0;
            status = inner->execute(session, r, 1, err);
        }
        if (cut && status == ESP_OK) {
            status = esp_fail(err, ESP_ERR_UNAVAILABLE, "the connection is gone");
        }
    }
    return status;
}

static struct esp_args args_of(enum esp_op op) {
    static const char data[] = "\"name\":{\"S\":\"another\"}";
    struct esp_args args = {.at.id = ESP_STR("d"), .to.id = ESP_STR("c")};
    if (op == ESP_OP_REMOVE) {
        args.at.id = ESP_STR("V"); /* two levels below it */
    } else if (op == ESP_OP_INSERT || op == ESP_OP_UPDATE) {
        args.id = ESP_STR("new");
        args.data = (struct esp_data){data, sizeof data - 1, 11};
    }
    return args;
}

static enum esp_status ignore_node(void *ctx, const struct esp_node_view *node) {
    (void)ctx, (void)node;
    return ESP_OK;
}

static enum esp_status count_finding(void *ctx, const struct esp_finding *finding) {
    (void)finding;
    ++*(size_t *)ctx;
    return ESP_OK;
}

static void every_node_is_there(struct suite_table *t, const struct esp_forest *forest) {
    for (esp_node v = 0; v < forest->count; v++) {
        struct esp_args args = {.at.id = esp_forest_id(forest, v)};
        esp_arena_reset(&t->scratch);
        assert_ok(esp_operate(&t->access, ESP_OP_NODE, &args, ignore_node, NULL), &t->err);
    }
}

/* One write cut after k items; false when k was enough. */
static bool tear(struct esp_store *store, const struct esp_layout *layout,
                 const struct esp_forest *forest, enum esp_op op, size_t k) {
    struct suite_table t;
    struct esp_args args = args_of(op);
    size_t findings = 0;
    budget = SIZE_MAX;
    suite_table_open(&t, store, layout, "torn", forest);
    budget = k;
    enum esp_status status = esp_operate(&t.access, op, &args, ignore_node, NULL);
    budget = SIZE_MAX;
    assert_true(status == ESP_OK || status == ESP_ERR_UNAVAILABLE);
    esp_error_clear(&t.err);
    assert_ok(layout->ops->check(&t.access, count_finding, &findings), &t.err);
    if (op == ESP_OP_REMOVE) {
        assert_int_equal(esp_operate(&t.access, op, &args, ignore_node, NULL),
                         status == ESP_OK ? ESP_ERR_NOT_FOUND : ESP_OK);
        esp_error_clear(&t.err);
        findings = 0;
        assert_ok(layout->ops->check(&t.access, count_finding, &findings), &t.err);
        assert_int_equal(findings, 0);
    } else {
        /* The row that a replica insert begins with makes a whole node: a root. */
        bool whole = k == 0 || status == ESP_OK ||
                     (op == ESP_OP_INSERT && k == 1 && layout->ops->schema.sk >= 0);
        if (whole ? findings != 0 : findings == 0) {
            fail_msg("%s %s cut after %zu: %zu findings", layout->ops->name, esp_op_info[op].name,
                     k, findings);
        }
        every_node_is_there(&t, forest);
    }
    suite_table_close(&t);
    return status != ESP_OK;
}

static void writes_are_cut_after_every_item(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    inner = store->ops;
    struct esp_store_ops torn = *inner;
    torn.execute = execute_torn;
    store->ops = &torn;
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct esp_layout layout;
        assert_ok(esp_layout_init(&layout, esp_layouts[i], NULL, &err), &err);
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            for (size_t k = 0; esp_op_info[op].write; k++) {
                if (!tear(store, &layout, forest, (enum esp_op)op, k)) {
                    break;
                }
            }
        }
    }
    store->ops = inner;
    esp_store_close(store);
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_are_cut_after_every_item)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
