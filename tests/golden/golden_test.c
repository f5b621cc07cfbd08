/*
 * The seed documents' examples, whole: the items of every layout as DynamoDB JSON, and the
 * answers to the questions the text asks.
 *
 *   tests/golden/drives       seed 0: two drives with 15 folders (datasets/drives.csv)
 *   tests/golden/categories   seed 3: categories, numbered 1 to 12 as a nested set
 *
 * ESP_GOLDEN_REWRITE=1 writes the files anew; the difference is then for review.
 */
#include "importers/importer.h"
#include "tests/conformance/suite.h"

#include <stdio.h>
#include <stdlib.h>

static struct esp_forest *import(const char *path) {
    struct esp_source_options options = {.from = NULL};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest;
    assert_ok(esp_import_files(&path, 1, &options, &esp_alloc_libc, &forest, NULL, &err), &err);
    return forest;
}

/* --- lines ------------------------------------------------------------------------ */

struct lines {
    const struct esp_schema *schema;
    char *line[256];
    size_t count;
};

static void add_line(struct lines *lines, struct esp_buf *text) {
    assert_true(lines->count < sizeof lines->line / sizeof lines->line[0]);
    lines->line[lines->count] = strdup(esp_buf_cstr(text));
    assert_non_null(lines->line[lines->count++]);
}

static enum esp_status add_item(void *ctx, const struct esp_item *item) {
    struct lines *lines = ctx;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_buf_put_char(&text, '{');
    esp_item_put_json(&text, lines->schema, item);
    esp_buf_put_char(&text, '}');
    add_line(lines, &text);
    esp_buf_fini(&text);
    return ESP_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void compare_lines(struct lines *lines, const char *path) {
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 20);
    for (size_t i = 0; i < lines->count; i++) {
        esp_buf_printf(&text, "%s\n", lines->line[i]);
        free(lines->line[i]);
    }
    assert_false(text.failed);
    if (getenv("ESP_GOLDEN_REWRITE")) {
        esp_test_write_file(path, text.ptr, text.len);
    }
    char *golden = esp_test_read_file(path, NULL);
    assert_string_equal(golden, esp_buf_cstr(&text));
    free(golden);
    esp_buf_fini(&text);
}

static void compare_items(const struct esp_layout *layout, const struct esp_forest *forest,
                          const char *path) {
    struct lines lines = {.schema = &layout->schema};
    struct esp_arena scratch;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    assert_int_equal(
        layout->ops->emit(layout, forest, 0, forest->count, &scratch, add_item, &lines), ESP_OK);
    qsort(lines.line, lines.count, sizeof lines.line[0], by_text);
    compare_lines(&lines, path);
    esp_arena_fini(&scratch);
}

static void layout_init(struct esp_layout *layout, const struct esp_layout_ops *ops) {
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_layout_init(layout, ops, NULL, &err), &err);
}

/* --- items ------------------------------------------------------------------------ */

static void items_of_the_drives(void **state) {
    (void)state;
    struct esp_forest *forest = import("datasets/drives.csv");
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
    struct esp_forest *forest = import("tests/golden/categories/categories.csv");
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
    struct lines *lines = ctx;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_buf_printf(&text, "  %.*s {", ESP_FMT(node->id));
    esp_buf_put(&text, node->data.text, node->data.len);
    esp_buf_put_char(&text, '}');
    add_line(lines, &text);
    esp_buf_fini(&text);
    return ESP_OK;
}

static void ask(struct suite_table *t, const struct question *q, struct lines *lines) {
    struct esp_args args = {
        .at.id = esp_str_from(q->at), .to.id = esp_str_from(q->to), .lo = q->lo, .hi = q->hi};
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_buf_printf(&text, "%s", q->text);
    add_line(lines, &text);
    esp_buf_fini(&text);
    size_t first = lines->count;
    esp_arena_reset(&t->scratch);
    assert_ok(esp_operate(&t->access, q->op, &args, add_node, lines), &t->err);
    if (q->op != ESP_OP_ANCESTORS) { /* the only order that every layout keeps */
        qsort(lines->line + first, lines->count - first, sizeof lines->line[0], by_text);
    }
}

/* One file for all layouts: they answer alike. */
static void answers_of_the_drives(void **state) {
    (void)state;
    struct esp_forest *forest = import("datasets/drives.csv");
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct lines lines = {.count = 0};
        struct suite_table t;
        struct esp_layout layout;
        layout_init(&layout, esp_layouts[i]);
        suite_table_open(&t, store, &layout, "drives", forest);
        for (size_t k = 0; k < sizeof questions / sizeof questions[0]; k++) {
            ask(&t, &questions[k], &lines);
        }
        compare_lines(&lines, "tests/golden/drives/answers.txt");
        suite_table_close(&t);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_of_the_drives),
        cmocka_unit_test(the_first_replica_row_is_right),
        cmocka_unit_test(numbers_of_the_categories),
        cmocka_unit_test(answers_of_the_drives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
