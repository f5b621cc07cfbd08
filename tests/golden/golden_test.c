/*
 * The seed documents' examples, whole: the items of every layout as DynamoDB JSON, and the
 * answers to the questions the text asks.
 *
 *   tests/golden/drives       seed 0: two drives with 15 folders (datasets/drives.csv)
 *       costs.txt             requests, round trips, items and units of every operation
 *   tests/golden/categories   seed 3: categories, numbered 1 to 12 as a nested set
 *
 * ESP_GOLDEN_REWRITE=1 writes the files anew; the difference is then for review.
 */
#include "stores/undo.h"
#include "tests/golden/golden_lines.h"

#include <stdio.h>
#include <stdlib.h>

static void compare_items(const struct esp_layout *layout, const struct esp_forest *forest,
                          const char *path) {
    struct golden_lines lines = {.schema = &layout->schema};
    struct esp_arena scratch;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    assert_int_equal(
        layout->ops->emit(layout, forest, 0, forest->count, &scratch, golden_add_item, &lines),
        ESP_OK);
    qsort(lines.line, lines.count, sizeof lines.line[0], golden_by_text);
    golden_compare(&lines, path);
    esp_arena_fini(&scratch);
}

static void layout_init(struct esp_layout *layout, const struct esp_layout_ops *ops) {
    golden_layout(layout, ops->name, NULL, 0);
}

/* --- items ------------------------------------------------------------------------ */

static void items_of_the_drives(void **state) {
    (void)state;
    struct esp_forest *forest = golden_import("datasets/drives.csv");
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct esp_layout layout;
        char path[128];
        layout_init(&layout, esp_layouts[i]);
        snprintf(path, sizeof path, "tests/golden/drives/%s.jsonl", esp_layouts[i]->name);
        compare_items(&layout, forest, path);
    }
    esp_forest_free(forest);
}

/* The seed's table says C | I | 0, which is a slip: a node's own row names the node. */
static void the_first_replica_row_is_right(void **state) {
    (void)state;
    char *golden = esp_test_read_file("tests/golden/drives/replica.jsonl", NULL);
    assert_non_null(strstr(golden, "{\"ID\":{\"S\":\"C\"},\"Relative Depth\":{\"N\":\"0\"},"
                                   "\"Ancestor ID\":{\"S\":\"C\"},"
                                   "\"Folder Name\":{\"S\":\"Drive C\"}}\n"));
    free(golden);
}

/* root 1..12, electronics 2..9, computers 3..6, laptops 4..5, phones 7..8, clothing 10..11 */
static void numbers_of_the_categories(void **state) {
    (void)state;
    struct esp_forest *forest = golden_import("datasets/seeds/numbered.csv");
    struct esp_layout layout;
    layout_init(&layout, esp_layout_find("nested-set"));
    compare_items(&layout, forest, "tests/golden/categories/nested-set.jsonl");
    char *golden = esp_test_read_file("tests/golden/categories/nested-set.jsonl", NULL);
    assert_non_null(strstr(golden, "{\"id\":{\"S\":\"root\"},\"treeId\":{\"S\":\"root\"},"
                                   "\"lft\":{\"N\":\"1\"},\"rgt\":{\"N\":\"12\"},"));
    free(golden);
    esp_forest_free(forest);
}

/* --- answers ---------------------------------------------------------------------- */

static const struct question {
    enum esp_op op;
    const char *text, *at, *to;
    uint32_t lo, hi;
} questions[] = {
    {ESP_OP_NODE, "node d", "d", "", 0, 0},
    {ESP_OP_PARENT, "parent d", "d", "", 0, 0},
    {ESP_OP_CHILDREN, "children V", "V", "", 0, 0},
    {ESP_OP_CHILDREN, "children D", "D", "", 0, 0},
    {ESP_OP_SIBLINGS, "siblings V", "V", "", 0, 0},
    {ESP_OP_ANCESTORS, "ancestors i", "i", "", 0, 0},
    {ESP_OP_DESCENDANTS, "descendants V", "V", "", 0, 0},
    {ESP_OP_DESCENDANTS, "descendants C", "C", "", 0, 0},
    {ESP_OP_WINDOW, "window D 1 2", "D", "", 1, 2},
    {ESP_OP_WINDOW, "window D 0 1", "D", "", 0, 1},
    {ESP_OP_WINDOW, "window D 2 max", "D", "", 2, UINT32_MAX},
    {ESP_OP_LEVEL, "level D 2", "D", "", 2, 2},
    {ESP_OP_TREE, "tree C", "C", "", 0, 0},
    {ESP_OP_LEAVES, "leaves D", "D", "", 0, 0},
    {ESP_OP_LCA, "lca i e", "i", "e", 0, 0},
    {ESP_OP_ROOTS, "roots", "", "", 0, 0},
};

static enum esp_status add_node(void *ctx, const struct esp_node_view *node) {
    struct golden_lines *lines = ctx;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_buf_printf(&text, "  %.*s {", ESP_FMT(node->id));
    esp_buf_put(&text, node->data.text, node->data.len);
    esp_buf_put_char(&text, '}');
    golden_add(lines, &text);
    esp_buf_fini(&text);
    return ESP_OK;
}

static void ask(struct suite_table *t, const struct question *q, struct golden_lines *lines) {
    struct esp_args args = {
        .at.id = esp_str_from(q->at), .to.id = esp_str_from(q->to), .lo = q->lo, .hi = q->hi};
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_buf_printf(&text, "%s", q->text);
    golden_add(lines, &text);
    esp_buf_fini(&text);
    size_t first = lines->count;
    esp_arena_reset(&t->scratch);
    assert_ok(esp_operate(&t->access, q->op, &args, add_node, lines), &t->err);
    if (q->op != ESP_OP_ANCESTORS) { /* the only order that every layout keeps */
        qsort(lines->line + first, lines->count - first, sizeof lines->line[0], golden_by_text);
    }
}

/* One file for all layouts: they answer alike. */
static void answers_of_the_drives(void **state) {
    (void)state;
    struct esp_forest *forest = golden_import("datasets/drives.csv");
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct golden_lines lines = {.count = 0};
        struct suite_table t;
        struct esp_layout layout;
        layout_init(&layout, esp_layouts[i]);
        suite_table_open(&t, store, &layout, "drives", forest);
        for (size_t k = 0; k < sizeof questions / sizeof questions[0]; k++) {
            ask(&t, &questions[k], &lines);
        }
        golden_compare(&lines, "tests/golden/drives/answers.txt");
        suite_table_close(&t);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

/* --- costs ------------------------------------------------------------------------ */

/* Every operation once, on a node in the middle of the larger drive; by id and by key. */
static struct esp_args cost_args(enum esp_op op, const struct esp_locator at[3]) {
    static const char data[] = "\"Folder Name\":{\"S\":\"another\"}";
    struct esp_args args = {.at = at[0], .lo = 1, .hi = 2};
    if (op == ESP_OP_LEVEL || op == ESP_OP_TREE) {
        args.at = at[2];
    } else if (op == ESP_OP_INSERT) {
        args.to = at[0];
        args.id = ESP_STR("new");
        args.data = (struct esp_data){data, sizeof data - 1, 18};
    } else if (op == ESP_OP_UPDATE) {
        args.data = (struct esp_data){data, sizeof data - 1, 18};
    } else if (op == ESP_OP_MOVE || op == ESP_OP_LCA || op == ESP_OP_IS_DESCENDANT) {
        args.to = at[1];
    }
    return args;
}

static enum esp_status ignore_node(void *ctx, const struct esp_node_view *node) {
    (void)ctx, (void)node;
    return ESP_OK;
}

static void add_cost(struct suite_table *t, enum esp_op op, const struct esp_args *args,
                     const char *by, struct golden_lines *lines) {
    struct esp_usage *usage = &t->session->usage;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_arena_reset(&t->scratch);
    memset(usage, 0, sizeof *usage);
    assert_ok(esp_operate(&t->access, op, args, ignore_node, NULL), &t->err);
    esp_buf_printf(&text, "%-10s %-13s %-3s %8llu %11llu %10llu %14llu %13llu %10.1f %11.1f",
                   t->layout->ops->name, esp_op_info[op].name, by,
                   (unsigned long long)usage->requests, (unsigned long long)usage->round_trips,
                   (unsigned long long)usage->items_read, (unsigned long long)usage->items_returned,
                   (unsigned long long)usage->items_written, esp_units_total(&usage->read),
                   esp_units_total(&usage->write));
    golden_add(lines, &text);
    esp_buf_fini(&text);
    assert_ok(esp_undo_rollback(t->session, &t->err), &t->err);
}

static void costs_of(struct esp_store *store, const struct esp_layout_ops *ops,
                     const struct esp_forest *forest, struct golden_lines *lines) {
    static const char *const names[3] = {"V", "IV", "D"};
    struct suite_table t;
    struct esp_layout layout;
    struct esp_arena arena;
    struct esp_forest_ids *ids;
    struct esp_locator id[3], key[3];
    layout_init(&layout, ops);
    suite_table_open(&t, store, &layout, "drives", forest);
    assert_ok(esp_undo_begin(t.session, &t.err), &t.err);
    assert_ok(esp_forest_ids_new(forest, &esp_alloc_libc, &ids, &t.err), &t.err);
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    for (size_t i = 0; i < 3; i++) {
        id[i] = (struct esp_locator){.id = esp_str_from(names[i])};
        esp_node v = esp_forest_find(ids, id[i].id);
        assert_ok(ops->locate(&layout, forest, v, &arena, &key[i]), &t.err);
    }
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (!esp_op_measured(op)) {
            continue;
        }
        struct esp_args by_id = cost_args((enum esp_op)op, id);
        struct esp_args by_key = cost_args((enum esp_op)op, key);
        add_cost(&t, (enum esp_op)op, &by_id, "id", lines);
        add_cost(&t, (enum esp_op)op, &by_key, "key", lines);
    }
    esp_arena_fini(&arena);
    esp_forest_ids_free(ids);
    suite_table_close(&t);
}

static void costs_of_the_drives(void **state) {
    (void)state;
    struct esp_forest *forest = golden_import("datasets/drives.csv");
    struct golden_lines lines = {.count = 0};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    lines.line[lines.count++] =
        strdup("layout     operation     by  requests round_trips items_read "
               "items_returned items_written read_units write_units");
    for (size_t i = 0; esp_layouts[i]; i++) {
        costs_of(store, esp_layouts[i], forest, &lines);
    }
    golden_compare(&lines, "tests/golden/drives/costs.txt");
    esp_store_close(store);
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_of_the_drives),
        cmocka_unit_test(the_first_replica_row_is_right),
        cmocka_unit_test(numbers_of_the_categories),
        cmocka_unit_test(answers_of_the_drives),
        cmocka_unit_test(costs_of_the_drives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
