/* What the layouts with paths do that others do not: separators inside ids are named or escaped,
 * depths are counted in paths, one node is taken out of all paths below it. */
#include "converters/write_plan.h"
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"

static struct esp_layout layout_of(const char *name, struct esp_strings sets) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_layout layout;
    assert_ok(esp_layout_init(&layout, esp_layout_find(name), &sets, &err), &err);
    return layout;
}

static void assert_message(const struct esp_error *err, const char *part) {
    if (!strstr(err->message, part)) {
        fail_msg("'%s' is not in: %s", part, err->message);
    }
}

/* --- separators ------------------------------------------------------------------- */

static void validate_fails(const struct drives_row *rows, size_t count, const char *part) {
    struct esp_layout layout = layout_of("tree-path", (struct esp_strings){{NULL}, 0});
    struct esp_forest *forest = forest_of_rows(rows, count);
    struct esp_error err = ESP_ERROR_INIT;
    assert_int_equal(layout.ops->validate(&layout, forest, &err), ESP_ERR_INPUT);
    assert_int_equal(err.line, 1);
    assert_message(&err, part);
    esp_forest_free(forest);
}

/* The first few, in the order of the forest, and how many more there are. */
static void rows_with_a_separator_are_named(void **state) {
    (void)state;
    static const struct drives_row few[] = {{"a#", ""}, {"b", "a#"}, {"#", "b"}};
    static const struct drives_row many[] = {{"1#", ""}, {"2#", ""}, {"3#", ""}, {"4#", ""},
                                             {"5#", ""}, {"6#", ""}, {"7#", ""}};
    static const struct drives_row shown[] = {
        {"an id that is longer than what is shown of it, #", ""}};
    validate_fails(few, 3,
                   "ids contain the separator '#': 'a#' (line 1), '#' (line 3); no id contains the "
                   "one of --set 'separator=/', or keep it with --set escape=percent");
    validate_fails(many, 7, "'4#' (line 4), '5#' (line 5) and 2 more; no id");
    validate_fails(shown, 1, "'an id that is longer than what is shown ...' (line 1); no id");
}

static enum esp_status keep_path(void *ctx, const struct esp_item *item) {
    struct esp_buf *out = ctx;
    esp_buf_put_str(out, item->value[2].s);
    esp_buf_put_char(out, ' ');
    return ESP_OK;
}

static void paths_are(const char *layout_name, struct esp_strings sets,
                      const struct esp_forest *forest, const char *expected) {
    struct esp_layout layout = layout_of(layout_name, sets);
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_arena scratch;
    struct esp_buf out;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&out, &esp_alloc_libc, 4096);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    assert_int_equal(layout.ops->emit(&layout, forest, 0, forest->count, &scratch, keep_path, &out),
                     ESP_OK);
    assert_string_equal(esp_buf_cstr(&out), expected);
    esp_buf_fini(&out);
    esp_arena_fini(&scratch);
}

#define ARROW "\xE2\x86\x92"

static void ids_are_escaped_in_paths(void **state) {
    (void)state;
    static const struct drives_row rows[] = {
        {"/", ""}, {"%2F", "/"}, {" \t", "%2F"}, {ARROW "#", " \t"}, {"x", ARROW "#"}};
    struct esp_forest *forest = forest_of_rows(rows, 5);
    paths_are("path", (struct esp_strings){{"escape=percent"}, 1}, forest,
              " / /%252F/ /%252F/ %09/ /%252F/ %09/" ARROW "#/ ");
    paths_are("tree-path", (struct esp_strings){{"escape=percent"}, 1}, forest,
              "/# /#%252F# /#%252F# %09# /#%252F# %09#" ARROW "%23# /#%252F# %09#" ARROW "%23#x# ");
    paths_are("path", (struct esp_strings){{"escape=percent", "separator=" ARROW}, 2}, forest,
              " " ARROW " " ARROW "%252F" ARROW " " ARROW "%252F" ARROW " %09" ARROW " " ARROW
              "%252F" ARROW " %09" ARROW "%E2%86%92#" ARROW " ");
    esp_forest_free(forest);
}

/* %2F could not be told from an id's own. */
static void separators_of_escapes_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"separator=%", "separator=F", "separator=0", "separator=a"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct esp_strings sets = {{wrong[i], "escape=percent"}, 2};
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_layout layout;
        assert_status(ESP_ERR_USAGE,
                      esp_layout_init(&layout, esp_layout_find("path"), &sets, &err));
        assert_message(&err, "take another separator");
        sets.count = 1;
        esp_error_clear(&err);
        assert_ok(esp_layout_init(&layout, esp_layout_find("path"), &sets, &err), &err);
    }
}

/* --- tables ----------------------------------------------------------------------- */

struct fixture {
    struct esp_store *store;
    struct esp_layout layout;
    struct suite_table table;
    struct esp_forest *forest;
};

static void open_fixture(struct fixture *f, const char *layout, struct esp_strings sets) {
    struct esp_error err = ESP_ERROR_INIT;
    f->forest = drives_forest();
    f->layout = layout_of(layout, sets);
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &f->store, &err),
              &err);
    suite_table_open(&f->table, f->store, &f->layout, "paths", f->forest);
}

static void close_fixture(struct fixture *f) {
    suite_table_close(&f->table);
    esp_store_close(f->store);
    esp_forest_free(f->forest);
}

static enum esp_status ignore_node(void *ctx, const struct esp_node_view *node) {
    (void)ctx, (void)node;
    return ESP_OK;
}

static struct esp_usage usage_of(struct fixture *f, enum esp_op op, const struct esp_args *args) {
    struct esp_usage *usage = &f->table.session->usage;
    memset(usage, 0, sizeof *usage);
    esp_arena_reset(&f->table.scratch);
    assert_ok(esp_operate(&f->table.access, op, args, ignore_node, NULL), &f->table.err);
    return *usage;
}

/* Who filters does not change what is read; only what comes over the wire. */
static void depths_are_counted_in_paths(void **state) {
    (void)state;
    static const char *const layouts[] = {"path", "tree-path"};
    static const enum esp_op ops[] = {ESP_OP_CHILDREN, ESP_OP_WINDOW, ESP_OP_LEVEL};
    for (size_t i = 0; i < 2; i++) {
        struct fixture with, without;
        open_fixture(&with, layouts[i], (struct esp_strings){{NULL}, 0});
        open_fixture(&without, layouts[i], (struct esp_strings){{"depth=off"}, 1});
        assert_int_equal(without.layout.schema.attr_count + 1, with.layout.schema.attr_count);
        for (size_t k = 0; k < 3; k++) {
            struct esp_args args = {.at.id = ESP_STR("D"), .lo = 2, .hi = 2};
            struct esp_usage a = usage_of(&with, ops[k], &args);
            struct esp_usage b = usage_of(&without, ops[k], &args);
            assert_int_equal(a.items_read, b.items_read);
            assert_true(esp_units_total(&a.read) >= esp_units_total(&b.read));
            assert_int_equal(a.requests, b.requests);
        }
        close_fixture(&with);
        close_fixture(&without);
    }
}

/* Round trips and items are what the layouts' pages say. */
static void tree_path_needs_fewer_requests(void **state) {
    (void)state;
    static const struct {
        enum esp_op op;
        uint64_t path, tree_path;
    } requests[] = {{ESP_OP_TREE, 2, 1}, {ESP_OP_DESCENDANTS, 2, 2}, {ESP_OP_ANCESTORS, 2, 2}};
    struct fixture path, tree_path;
    open_fixture(&path, "path", (struct esp_strings){{NULL}, 0});
    open_fixture(&tree_path, "tree-path", (struct esp_strings){{NULL}, 0});
    for (size_t i = 0; i < 3; i++) {
        struct esp_args args = {.at.id = ESP_STR("V")};
        if (requests[i].op == ESP_OP_TREE) {
            args.at.id = ESP_STR("D");
        }
        assert_int_equal(usage_of(&path, requests[i].op, &args).round_trips, requests[i].path);
        assert_int_equal(usage_of(&tree_path, requests[i].op, &args).round_trips,
                         requests[i].tree_path);
    }
    close_fixture(&path);
    close_fixture(&tree_path);
}

static enum esp_status count_node(void *ctx, const struct esp_node_view *node) {
    (void)node;
    ++*(size_t *)ctx;
    return ESP_OK;
}

/* espalier's own items have no path, and neither has a root of `path`. */
static void locks_are_no_roots(void **state) {
    (void)state;
    static const struct {
        const char *layout;
        struct esp_strings sets;
    } cases[] = {{"path", {{"depth=off"}, 1}},
                 {"tree-path", {{NULL}, 0}},
                 {"tree-path", {{"depth=off"}, 1}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;
        struct esp_args args = {.lo = 0};
        struct esp_write lock = {.kind = ESP_PUT};
        size_t roots = 0;
        open_fixture(&f, cases[i].layout, cases[i].sets);
        lock.item.value[0] = esp_s(ESP_STR("espalier:lock"));
        assert_ok(esp_session_write(f.table.session, &lock, 1, NULL, &f.table.err), &f.table.err);
        assert_ok(esp_operate(&f.table.access, ESP_OP_ROOTS, &args, count_node, &roots),
                  &f.table.err);
        assert_int_equal(roots, 2);
        close_fixture(&f);
    }
}

/* --- promote ---------------------------------------------------------------------- */

static void promote_writes_each_item_once(void **state) {
    (void)state;
    static const char *const layouts[] = {"path", "tree-path"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        open_fixture(&f, layouts[i], (struct esp_strings){{NULL}, 0});
        struct esp_args args = {.at.id = ESP_STR("V")}; /* d, its three, e; and V itself */
        assert_int_equal(usage_of(&f, ESP_OP_PROMOTE, &args).items_written, 6);
        args.at.id = ESP_STR("a");
        assert_int_equal(usage_of(&f, ESP_OP_PROMOTE, &args).items_written, 1);
        close_fixture(&f);
    }
}

static void roots_with_children_are_not_promoted(void **state) {
    (void)state;
    static const char *const layouts[] = {"path", "tree-path"};
    for (size_t i = 0; i < 2; i++) {
        struct fixture f;
        struct esp_locator key;
        open_fixture(&f, layouts[i], (struct esp_strings){{NULL}, 0});
        struct esp_error *err = &f.table.err;
        struct esp_args args = {.at.id = ESP_STR("D")};
        assert_int_equal(esp_operate(&f.table.access, ESP_OP_PROMOTE, &args, NULL, NULL),
                         ESP_ERR_REFUSED);
        assert_message(err, "'D' is a root with children: ");
        esp_error_clear(err);
        args.at.id = ESP_STR("no");
        assert_int_equal(esp_operate(&f.table.access, ESP_OP_PROMOTE, &args, NULL, NULL),
                         ESP_ERR_NOT_FOUND);
        assert_message(err, "there is no node 'no'");
        esp_error_clear(err);
        assert_ok(esp_resolve(&f.table.access, ESP_STR("C"), &key), err);
        args.at = key;
        assert_int_equal(esp_operate(&f.table.access, ESP_OP_PROMOTE, &args, NULL, NULL),
                         ESP_ERR_REFUSED);
        esp_error_clear(err);
        for (const char *const *id = (const char *const[]){"I", "II", "C", NULL}; *id; id++) {
            args.at = (struct esp_locator){.id = esp_str_from(*id)};
            assert_int_equal(usage_of(&f, ESP_OP_PROMOTE, &args).items_written, 1);
        }
        close_fixture(&f);
    }
}

/* --- plans ------------------------------------------------------------------------ */

/* What is written follows from the new parent, if that was looked up. */
static void plans_rely_on_the_new_parent(void **state) {
    (void)state;
    static const char *const layouts[] = {"path", "tree-path"};
    static const enum esp_op ops[] = {ESP_OP_INSERT, ESP_OP_MOVE};
    for (size_t i = 0; i < 8; i++) {
        bool by_key = i & 4;
        struct fixture f;
        struct esp_arena arena;
        struct esp_write_plan plan;
        struct esp_args args = {.at.id = ESP_STR("d"), .id = ESP_STR("new")};
        open_fixture(&f, layouts[i & 1], (struct esp_strings){{NULL}, 0});
        esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
        esp_write_plan_init(&plan, &f.layout.schema, &arena);
        args.to.id = ESP_STR("c");
        if (by_key) {
            assert_ok(esp_resolve(&f.table.access, args.to.id, &args.to), &f.table.err);
        }
        f.table.access.plan = &plan;
        assert_ok(esp_operate(&f.table.access, ops[i >> 1 & 1], &args, NULL, NULL), &f.table.err);
        assert_int_equal(plan.basis_count, by_key ? 0 : 1);
        if (!by_key) {
            assert_true(esp_str_eq(plan.basis[0].value[0].s, args.to.id));
        }
        esp_arena_fini(&arena);
        close_fixture(&f);
    }
}

/* --- damage ----------------------------------------------------------------------- */

/* A repair rebuilds the tree of what view tells: where it cannot be read nothing
 * is guessed, and the answer has no parent (NULL here). */
static void views_of_damaged_items(void **state) {
    (void)state;
    static const struct {
        const char *layout, *root, *path, *parent;
        int64_t depth;
    } cases[] = {
        {"path", "D", "/V/d/", "d", 3},        {"path", "D", "/", "D", 1},
        {"path", NULL, NULL, "", 0},           {"path", NULL, "/V/d/", "d", 3},
        {"path", "D", NULL, NULL, 0},          {"path", "D", "V", NULL, 0},
        {"tree-path", "D", "D#V#i#", "V", 2},  {"tree-path", "i", "i#", "", 0},
        {"tree-path", NULL, "D#V#i#", "V", 2}, {"tree-path", "D", NULL, NULL, 0},
        {"tree-path", NULL, NULL, NULL, 0},    {"tree-path", "i", NULL, NULL, 0},
        {"tree-path", "D", "#V#i#", NULL, 2},  {"tree-path", "D", "D#V#d#", NULL, 2},
        {"path", "D", "|V|d|", NULL, 0},       {"tree-path", "D", "D|V|i|", NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_layout layout = layout_of(cases[i].layout, (struct esp_strings){{NULL}, 0});
        struct esp_item item = {.value = {esp_s(ESP_STR("i"))}};
        struct esp_node_view view;
        struct esp_id_room room;
        if (cases[i].root) {
            item.value[1] = esp_s(esp_str_from(cases[i].root));
        }
        if (cases[i].path) {
            item.value[2] = esp_s(esp_str_from(cases[i].path));
        }
        if (cases[i].depth == 0) {
            item.value[3] = esp_n(0);
        }
        assert_true(esp_layout_view(&layout, &item, &room, &view));
        if (!esp_str_eq(view.parent_id, esp_str_from(cases[i].parent)) ||
            !view.parent_id.ptr != !cases[i].parent || view.depth != cases[i].depth ||
            view.escaped) {
            fail_msg("case %zu: parent '%.*s', depth %lld", i, ESP_FMT(view.parent_id),
                     (long long)view.depth);
        }
    }
}

static void escaped_parents_are_told_as_they_are(void **state) {
    (void)state;
    static const struct {
        const char *path, *parent;
    } cases[] = {{"/a%2Fb/", "a/b"}, {"/a/b%25/", "b%"}, {"/%zz%4/", "%zz%4"}, {"/", "r%2Fx"}};
    struct esp_layout layout = layout_of("path", (struct esp_strings){{"escape=percent"}, 1});
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_item item = {.value = {esp_s(ESP_STR("i")), esp_s(ESP_STR("r%2Fx"))}};
        struct esp_node_view view;
        struct esp_id_room room;
        item.value[2] = esp_s(esp_str_from(cases[i].path));
        assert_true(esp_layout_view(&layout, &item, &room, &view));
        assert_true(esp_str_eq(view.parent_id, esp_str_from(cases[i].parent)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_with_a_separator_are_named),
        cmocka_unit_test(ids_are_escaped_in_paths),
        cmocka_unit_test(separators_of_escapes_are_refused),
        cmocka_unit_test(depths_are_counted_in_paths),
        cmocka_unit_test(tree_path_needs_fewer_requests),
        cmocka_unit_test(locks_are_no_roots),
        cmocka_unit_test(promote_writes_each_item_once),
        cmocka_unit_test(roots_with_children_are_not_promoted),
        cmocka_unit_test(plans_rely_on_the_new_parent),
        cmocka_unit_test(views_of_damaged_items),
        cmocka_unit_test(escaped_parents_are_told_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
