/* Writes that are cut after the k-th item, for every k: no node is lost, `check` finds what is
 * left half done, and a remove or a move can be repeated. */
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"
#include "tests/support/model.h"
#include "tests/support/torn.h"

#include <stdlib.h>

static struct torn_store torn;

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
    suite_table_open(&t, store, layout, "torn", forest);
    torn_store_cut(&torn, k);
    enum esp_status status = esp_operate(&t.access, op, &args, ignore_node, NULL);
    bool nothing = torn.spent == 0;
    torn_store_heal(&torn);
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
        bool whole = nothing || status == ESP_OK ||
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

/* The ids of an answer, in its order. */
struct ids {
    struct esp_arena *arena;
    struct esp_str id[32];
    uint32_t count;
};

static enum esp_status keep_id(void *ctx, const struct esp_node_view *node) {
    struct ids *ids = ctx;
    assert_true(ids->count < sizeof ids->id / sizeof ids->id[0]);
    ids->id[ids->count++] = esp_arena_dup(ids->arena, node->id);
    return ESP_OK;
}

static bool has_id(const struct ids *ids, struct esp_str id) {
    for (uint32_t i = 0; i < ids->count; i++) {
        if (esp_str_eq(ids->id[i], id)) {
            return true;
        }
    }
    return false;
}

/* The nodes above each node, and those below it, are the model's. */
static void tree_is_the_models(struct suite_table *t, const struct model *model) {
    for (uint32_t v = 0; v < 2 * model->count; v++) {
        enum esp_op op = v % 2 ? ESP_OP_ANCESTORS : ESP_OP_DESCENDANTS;
        struct esp_args args = {.at.id = model->node[v / 2].id};
        struct model_answer want = model_read(model, op, &args);
        struct ids got = {.arena = &t->scratch};
        esp_arena_reset(&t->scratch);
        assert_ok(esp_operate(&t->access, op, &args, keep_id, &got), &t->err);
        assert_int_equal(got.count, want.count);
        for (uint32_t i = 0; i < want.count; i++) {
            assert_true(has_id(&got, model->node[want.node[i]].id));
        }
        free(want.node);
    }
}

/* A move cut after k items, then the same move again; false when k was enough. */
static bool tear_move(struct esp_store *store, const struct esp_layout *layout,
                      const struct esp_forest *forest, const struct esp_args *move, size_t k) {
    struct suite_table t;
    struct model model;
    size_t findings = 0;
    suite_table_open(&t, store, layout, "torn", forest);
    model_init(&model, forest);
    assert_int_equal(model_write(&model, ESP_OP_MOVE, move), ESP_OK);
    torn_store_cut(&torn, k);
    enum esp_status first = esp_operate(&t.access, ESP_OP_MOVE, move, ignore_node, NULL);
    bool nothing = torn.spent == 0;
    torn_store_heal(&torn);
    assert_true(first == ESP_OK || first == ESP_ERR_UNAVAILABLE);
    esp_error_clear(&t.err);
    every_node_is_there(&t, forest);
    esp_arena_reset(&t.scratch);
    enum esp_status again = esp_operate(&t.access, ESP_OP_MOVE, move, ignore_node, NULL);
    /* Where a cut cannot be mended it is told: numbers pushed half way say nothing. */
    bool told = layout->ops->ordered && !nothing && first != ESP_OK;
    if (told ? again != ESP_ERR_INPUT : again != ESP_OK) {
        fail_msg("%s: '%.*s' to '%.*s' cut after %zu cannot be repeated: %s", layout->ops->name,
                 ESP_FMT(move->at.id), ESP_FMT(move->to.id), k, t.err.message);
    }
    esp_arena_reset(&t.scratch);
    esp_error_clear(&t.err);
    assert_ok(layout->ops->check(&t.access, count_finding, &findings), &t.err);
    if (told ? findings == 0 : findings != 0) {
        fail_msg("%s: '%.*s' to '%.*s' cut after %zu and repeated: %zu findings", layout->ops->name,
                 ESP_FMT(move->at.id), ESP_FMT(move->to.id), k, findings);
    }
    if (told) {
        every_node_is_there(&t, forest);
    } else {
        tree_is_the_models(&t, &model);
    }
    model_fini(&model);
    suite_table_close(&t);
    return first != ESP_OK;
}

static void moves_are_repeated(struct esp_store *store, const struct esp_layout *layout,
                               const struct esp_forest *forest) {
    static const struct {
        const char *at, *to;
    } moves[] = {
        {"d", "c"}, {"d", "D"},  {"d", "III"}, /* within a tree: deeper, higher, at one depth */
        {"V", "C"}, {"V", "II"}, {"C", "d"},   /* to another tree, a root under a node */
        {"D", "I"}, {"V", ""},   {"d", ""},
    };
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        struct esp_args move = {.at.id = esp_str_from(moves[i].at),
                                .to.id = esp_str_from(moves[i].to)};
        for (size_t k = 0; tear_move(store, layout, forest, &move, k); k++) {
        }
    }
}

static void writes_are_cut_after_every_item(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    torn_store_open(&torn);
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t count = suite_layouts(layouts);
    for (size_t i = 0; i < count; i++) {
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            for (size_t k = 0; esp_op_info[op].write && esp_op_measured(op); k++) {
                if (!tear(torn.store, &layouts[i], forest, (enum esp_op)op, k)) {
                    break;
                }
            }
        }
        moves_are_repeated(torn.store, &layouts[i], forest);
    }
    torn_store_close(&torn);
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes_are_cut_after_every_item)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
