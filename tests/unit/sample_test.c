#include "tests/support/drives.h"

#include "bench/sample.h"
#include <stdio.h>

enum { SAMPLE = 200 };

static void nodes_are_different_and_the_same_for_all(void **state) {
    struct esp_forest *f = *state;
    struct esp_pick node[SAMPLE], children[SAMPLE], few[5];
    bool seen[15] = {false};
    assert_int_equal(esp_sample_draw(f, ESP_OP_NODE, SAMPLE, 7, node), 15);
    assert_int_equal(esp_sample_draw(f, ESP_OP_CHILDREN, SAMPLE, 7, children), 15);
    for (int i = 0; i < 15; i++) {
        assert_false(seen[node[i].at]);
        seen[node[i].at] = true;
        assert_int_equal(node[i].at, children[i].at);
        assert_int_equal(node[i].to, ESP_NODE_NONE);
    }
    assert_int_equal(esp_sample_draw(f, ESP_OP_NODE, 5, 7, few), 5);
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < i; k++) {
            assert_int_not_equal(few[i].at, few[k].at);
        }
    }
}

static void the_seed_decides(void **state) {
    struct esp_forest *f = *state;
    struct esp_pick a[SAMPLE], b[SAMPLE], other[SAMPLE];
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (!esp_op_measured(op)) {
            continue;
        }
        uint32_t n = esp_sample_draw(f, (enum esp_op)op, SAMPLE, 1, a);
        assert_int_equal(n, esp_sample_draw(f, (enum esp_op)op, SAMPLE, 1, b));
        assert_memory_equal(a, b, n * sizeof *a);
        assert_int_equal(n, esp_sample_draw(f, (enum esp_op)op, SAMPLE, 2, other));
        if (op == ESP_OP_NODE || op == ESP_OP_MOVE) {
            assert_memory_not_equal(a, other, n * sizeof *a);
        }
    }
}

/* Every node is drawn about equally often: 200 x 3 of 15 nodes, 40 expected each. */
static void nodes_are_drawn_uniformly(void **state) {
    struct esp_forest *f = *state;
    int seen[15] = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct esp_pick picks[3];
        assert_int_equal(esp_sample_draw(f, ESP_OP_NODE, 3, seed, picks), 3);
        for (int i = 0; i < 3; i++) {
            seen[picks[i].at]++;
        }
    }
    for (int v = 0; v < 15; v++) {
        assert_in_range(seen[v], 20, 60);
    }
}

static void moves_are_legal_and_change_something(void **state) {
    struct esp_forest *f = *state;
    struct esp_pick picks[SAMPLE];
    assert_int_equal(esp_sample_draw(f, ESP_OP_MOVE, SAMPLE, 3, picks), SAMPLE);
    for (int i = 0; i < SAMPLE; i++) {
        assert_true(picks[i].to != picks[i].at);
        assert_true(picks[i].to != f->parent[picks[i].at]);
        assert_false(esp_forest_is_below(f, picks[i].to, picks[i].at));
    }
}

static void arguments_fit_the_operation(void **state) {
    struct esp_forest *f = *state;
    struct esp_pick picks[SAMPLE];
    int below = 0;
    assert_int_equal(esp_sample_draw(f, ESP_OP_ROOTS, SAMPLE, 1, picks), 1);
    assert_int_equal(esp_sample_draw(f, ESP_OP_TREE, SAMPLE, 1, picks), ESP_SAMPLE_TREES_MAX);
    for (int i = 0; i < ESP_SAMPLE_TREES_MAX; i++) {
        assert_int_equal(f->depth[picks[i].at], 0);
    }
    assert_int_equal(esp_sample_draw(f, ESP_OP_LEVEL, SAMPLE, 1, picks), 15);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(f->depth[picks[i].at], 0);
        assert_true(picks[i].lo <= (picks[i].at == 0 ? 1u : 3u)); /* C: 1 deep, D: 3 */
    }
    assert_int_equal(esp_sample_draw(f, ESP_OP_LCA, SAMPLE, 1, picks), 15);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(esp_forest_root(f, picks[i].at), esp_forest_root(f, picks[i].to));
    }
    assert_int_equal(esp_sample_draw(f, ESP_OP_IS_DESCENDANT, SAMPLE, 1, picks), 15);
    for (int i = 0; i < 15; i++) {
        below += esp_forest_is_below(f, picks[i].at, picks[i].to);
    }
    assert_true(below >= 4); /* every second one, unless it is a root */
    assert_int_equal(esp_sample_draw(f, ESP_OP_WINDOW, SAMPLE, 1, picks), 15);
    assert_true(picks[0].lo == 1 && picks[0].hi == 2);
}

static void one_node_cannot_move(void **state) {
    (void)state;
    struct drives_row row = {"only", ""};
    struct esp_forest *f = forest_of_rows(&row, 1);
    struct esp_pick picks[SAMPLE];
    assert_int_equal(esp_sample_draw(f, ESP_OP_MOVE, SAMPLE, 1, picks), 0);
    assert_int_equal(esp_sample_draw(f, ESP_OP_NODE, SAMPLE, 1, picks), 1);
    esp_forest_free(f);
}

static int make(void **state) {
    *state = drives_forest();
    return 0;
}

static int forget(void **state) {
    esp_forest_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_different_and_the_same_for_all),
        cmocka_unit_test(the_seed_decides),
        cmocka_unit_test(nodes_are_drawn_uniformly),
        cmocka_unit_test(moves_are_legal_and_change_something),
        cmocka_unit_test(arguments_fit_the_operation),
        cmocka_unit_test(one_node_cannot_move),
    };
    return cmocka_run_group_tests(tests, make, forget);
}
