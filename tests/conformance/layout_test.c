/* What layouts refuse: settings, forests that do not fit, writes that would break a table. */
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"

#include <stdio.h>
#include <stdlib.h>

static struct esp_layout layout_of(const char *name, const struct esp_strings *sets) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_layout layout;
    assert_ok(esp_layout_init(&layout, esp_layout_find(name), sets, &err), &err);
    return layout;
}

static void assert_message(const struct esp_error *err, const char *part) {
    if (!strstr(err->message, part)) {
        fail_msg("'%s' is not in: %s", part, err->message);
    }
}

/* --- settings --------------------------------------------------------------------- */

static void settings_are_taken(void **state) {
    (void)state;
    struct esp_strings sets = {
        {"separator=#", "attr.Path=p", "attr.Folder=x", "index.gsi1=by-root"}, 4};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_layout layout;
    assert_status(ESP_ERR_USAGE, esp_layout_init(&layout, esp_layout_find("path"), &sets, &err));
    assert_message(&err, "has no attribute 'Folder'");
    sets.value[2] = "attr.Depth=d=1";
    layout = layout_of("path", &sets);
    assert_true(esp_str_eq(layout.separator, ESP_STR("#")));
    assert_int_equal(esp_schema_find_attr(&layout.schema, ESP_STR("p")), 2);
    assert_int_equal(esp_schema_find_attr(&layout.schema, ESP_STR("d=1")), 3);
    assert_int_equal(esp_schema_find_attr(&layout.schema, ESP_STR("Path")), -1);
    assert_true(esp_str_eq(layout.schema.index[0].name, ESP_STR("by-root")));
    sets = (struct esp_strings){{"gap=1000"}, 1};
    assert_int_equal(layout_of("nested-set", &sets).settings.gap, 1000);
    assert_true(esp_str_eq(layout_of("path", NULL).separator, ESP_STR("/")));
    sets = (struct esp_strings){{"gap=4611686018427387904"}, 1};
    assert_int_equal(layout_of("nested-set", &sets).settings.gap, INT64_C(1) << 62);
    sets = (struct esp_strings){{"refs=on", "attr.parentId=up", "node=N"}, 3};
    layout = layout_of("entity", &sets);
    assert_int_equal(esp_schema_find_attr(&layout.schema, ESP_STR("up")), 3);
    assert_int_equal(layout_of("entity", NULL).schema.attr_count, 3);
    sets = (struct esp_strings){{"separator=:", "node=espalier"}, 2};
    esp_error_clear(&err);
    assert_status(ESP_ERR_USAGE, esp_layout_init(&layout, esp_layout_find("entity"), &sets, &err));
    assert_message(&err, "espalier's own");
}

static void wrong_settings_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *layout, *set, *part;
    } cases[] = {
        {"path", "separator", "must be KEY=VALUE"},
        {"path", "=x", "must be KEY=VALUE"},
        {"path", "separator=", "one character"},
        {"path", "separator=ab", "one character"},
        {"path", "escape=x", "escape"},
        {"tree-path", "depth=x", "depth"},
        {"path", "gap=2", "no setting 'gap'; it has separator"},
        {"replica", "separator=#", "no setting 'separator'; it has attr.OLD"},
        {"nested-set", "gap=x", "gap"},
        {"nested-set", "gap=4611686018427387905", "at most 4611686018427387904"},
        {"adjacency", "depth=no", "depth"},
        {"entity", "separator=##", "one character"},
        {"entity", "refs=yes", "refs"},
        {"entity", "node=espalier:", "espalier's own"},
        {"entity", "attr.parentId=up", "it is not stored"},
        {"path", "attr.Path", "must be attr.OLD=NEW"},
        {"path", "attr.Path=", "must be attr.OLD=NEW"},
        {"path", "attr.Path=Root", "two attributes would be called 'Root'"},
        {"path", "index.gsi1=x", "3 to 255 characters"},
        {"path", "index.gsi1=by root", "3 to 255 characters"},
        {"path", "index.gsi2=by-root", "has no index 'gsi2'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_strings sets = {{cases[i].set}, 1};
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_layout layout;
        assert_status(ESP_ERR_USAGE,
                      esp_layout_init(&layout, esp_layout_find(cases[i].layout), &sets, &err));
        assert_message(&err, cases[i].part);
    }
}

static void the_registry_is_whole(void **state) {
    (void)state;
    assert_null(esp_layout_find("no such"));
    assert_int_equal(esp_op_find("no such"), -1);
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        assert_int_equal(esp_op_find(esp_op_info[op].name), op);
    }
    for (size_t i = 0; esp_layouts[i]; i++) {
        const struct esp_layout_ops *ops = esp_layouts[i];
        struct esp_layout layout = layout_of(ops->name, NULL);
        assert_ptr_equal(esp_layout_find(ops->name), ops);
        assert_true(ops->family && ops->summary && ops->view && ops->item_count && ops->validate &&
                    ops->emit && ops->locate && ops->resolve && ops->check);
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            assert_true(ops->op[op] || esp_op_info[op].origin != ESP_OP_CORE);
            assert_true(ops->op[op] || esp_derived[op] || !esp_op_measured(op));
            bool derived = esp_derived[op] && !(op == ESP_OP_INSERT_SUBTREE && ops->ordered);
            assert_int_equal(esp_layout_has(&layout, (enum esp_op)op), ops->op[op] || derived);
            assert_int_equal(esp_layout_plan(&layout, (enum esp_op)op),
                             ops->op[op] ? ESP_PLAN_NATIVE : ESP_PLAN_DERIVED);
        }
    }
}

/* --- forests ---------------------------------------------------------------------- */

static void validate_fails(const char *layout_name, const struct esp_strings *sets,
                           const struct esp_forest *forest, enum esp_status expected, uint64_t line,
                           const char *part) {
    struct esp_layout layout = layout_of(layout_name, sets);
    struct esp_error err = ESP_ERROR_INIT;
    assert_int_equal(layout.ops->validate(&layout, forest, &err), expected);
    assert_int_equal(err.line, line);
    assert_message(&err, part);
}

static void separators_in_ids_are_named(void **state) {
    (void)state;
    static const struct drives_row some[] = {{"a", ""}, {"b", "a"}, {"c/d", "b"}, {"e#", "b"}};
    static const struct drives_row all[] = {{"/#|:~>\x1f", ""}};
    struct esp_forest *forest = forest_of_rows(some, 4);
    struct esp_error err = ESP_ERROR_INIT;
    validate_fails("path", NULL, forest, ESP_ERR_INPUT, 3,
                   "an id contains the separator '/': 'c/d' (line 3); no id contains the one of "
                   "--set 'separator=|', or keep it with --set escape=percent");
    struct esp_strings sets = {{"separator=|"}, 1};
    struct esp_layout layout = layout_of("path", &sets);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    layout = layout_of("replica", NULL);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    esp_forest_free(forest);
    forest = forest_of_rows(all, 1);
    validate_fails("path", NULL, forest, ESP_ERR_INPUT, 1, "every usual one occurs");
    esp_forest_free(forest);
}

/* root, then a chain of ids of 9 bytes: the path of the node at depth d has 1 + 10 (d - 1). */
static struct esp_forest *chain(uint32_t nodes) {
    char(*id)[16] = calloc(nodes, sizeof *id);
    struct drives_row *rows = calloc(nodes, sizeof *rows);
    assert_true(id && rows);
    for (uint32_t v = 0; v < nodes; v++) {
        snprintf(id[v], sizeof id[v], "n%08u", v);
        rows[v] = (struct drives_row){id[v], v ? id[v - 1] : ""};
    }
    struct esp_forest *forest = forest_of_rows(rows, nodes);
    free(rows);
    free(id);
    return forest;
}

static enum esp_status ignore_item(void *ctx, const struct esp_item *item) {
    (void)ctx, (void)item;
    return ESP_OK;
}

static void long_paths_are_named(void **state) {
    (void)state;
    struct esp_layout layout = layout_of("path", NULL);
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_arena scratch;
    struct esp_forest *forest = chain(104); /* the last one's path has 1021 bytes */
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    assert_int_equal(layout.ops->emit(&layout, forest, 0, 104, &scratch, ignore_item, NULL),
                     ESP_OK);
    assert_int_equal(layout.ops->emit(&layout, forest, 103, 1, &scratch, ignore_item, NULL),
                     ESP_OK);
    esp_forest_free(forest);
    forest = chain(2000); /* deeper than any path that fits */
    validate_fails("path", NULL, forest, ESP_ERR_LIMIT, 105,
                   "'n00000104' at depth 104 has 1031 bytes");
    validate_fails("tree-path", NULL, forest, ESP_ERR_LIMIT, 103,
                   "'n00000102' at depth 102 has 1030 bytes");
    assert_int_equal(layout.ops->emit(&layout, forest, 0, 2000, &scratch, ignore_item, NULL),
                     ESP_ERR_LIMIT);
    assert_int_equal(layout.ops->emit(&layout, forest, 1999, 1, &scratch, ignore_item, NULL),
                     ESP_ERR_LIMIT);
    esp_arena_fini(&scratch);
    for (size_t i = 0; esp_layouts[i]; i++) {
        if (strcmp(esp_layouts[i]->family, "path") != 0) {
            layout = layout_of(esp_layouts[i]->name, NULL);
            assert_ok(layout.ops->validate(&layout, forest, &err), &err);
        }
    }
    esp_forest_free(forest);
}

/* A chain of two, whose root's id has `root` bytes and whose leaf's has `leaf`. */
static struct esp_forest *long_ids(size_t root, size_t leaf) {
    static char id[2][ESP_ID_BYTES_MAX + 1];
    struct drives_row rows[2] = {{id[0], ""}, {id[1], id[0]}};
    memset(id, 0, sizeof id);
    memset(id[0], 'r', root);
    memset(id[1], 'l', leaf);
    return forest_of_rows(rows, leaf ? 2 : 1);
}

/* NODE#, PARENT# and CHILD# stand before the id, in a key of 2048 bytes and in one of 1024. */
static void ids_that_do_not_fit_behind_prefixes_are_named(void **state) {
    (void)state;
    static const struct {
        size_t root, leaf;
        uint64_t line; /* 0: it fits */
        const char *part;
    } cases[] = {
        {2043, 0, 0, NULL},
        {2044, 0, 1, "the partition key NODE#... has 2049 bytes, DynamoDB takes at most 2048"},
        {1017, 1018, 0, NULL},
        {1018, 5, 1,
         "the sort key PARENT#... of a link has 1025 bytes, DynamoDB takes at most 1024"},
        {5, 1019, 2,
         "the sort key CHILD#... of a link has 1025 bytes, DynamoDB takes at most 1024"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_forest *forest = long_ids(cases[i].root, cases[i].leaf);
        struct esp_layout layout = layout_of("entity", NULL);
        struct esp_error err = ESP_ERROR_INIT;
        if (cases[i].line) {
            validate_fails("entity", NULL, forest, ESP_ERR_LIMIT, cases[i].line, cases[i].part);
        } else {
            assert_ok(layout.ops->validate(&layout, forest, &err), &err);
        }
        esp_forest_free(forest);
    }
}

static void gaps_that_do_not_fit_are_named(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest(); /* D has 12 nodes, from line 4 on */
    struct esp_strings sets = {{"gap=384307168202282326"}, 1};
    validate_fails("nested-set", &sets, forest, ESP_ERR_LIMIT, 4,
                   "the tree 'D' has 12 nodes; with --set gap=384307168202282326 their numbers do "
                   "not fit 63 bits: the largest gap that fits is 384307168202282325");
    sets.value[0] = "gap=384307168202282325";
    struct esp_layout layout = layout_of("nested-set", &sets);
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    esp_forest_free(forest);
}

/* With its attribute's name, or with NULL: the source did not tell. */
static struct esp_forest *one_node(struct esp_data data, const struct esp_str *name) {
    struct esp_forest_options options = {.source = "rows"};
    struct esp_forest_builder *builder = NULL;
    struct esp_forest *forest = NULL;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_record record = {.id = ESP_STR("a"),
                                .data = data,
                                .line = 7,
                                .names_known = name != NULL,
                                .new_names = name,
                                .new_name_count = name != NULL};
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
    assert_ok(esp_forest_freeze(builder, &forest, &err), &err);
    return forest;
}

static void payload_must_not_be_called_like_structure(void **state) {
    (void)state;
    static const char text[] = "\"x\":{\"S\":\"Depth\"},\"Depth\":{\"N\":\"1\"}";
    struct esp_forest *forest = one_node((struct esp_data){text, sizeof text - 1, 13}, NULL);
    struct esp_error err = ESP_ERROR_INIT;
    validate_fails("path", NULL, forest, ESP_ERR_INPUT, 7, "--set attr.Depth=NAME");
    struct esp_strings sets = {{"attr.Depth=d"}, 1};
    struct esp_layout layout = layout_of("path", &sets);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    sets.value[0] = "attr.Root=x";
    validate_fails("path", &sets, forest, ESP_ERR_INPUT, 7, "--set attr.Root=NAME");
    esp_forest_free(forest);
}

/* A source that tells its names spares its nodes the look, not the complaint. */
static void listed_names_that_collide_are_found(void **state) {
    (void)state;
    static const char text[] = "\"Depth\":{\"N\":\"1\"}";
    struct esp_str name = ESP_STR("Depth");
    struct esp_forest *forest = one_node((struct esp_data){text, sizeof text - 1, 6}, &name);
    validate_fails("path", NULL, forest, ESP_ERR_INPUT, 7, "--set attr.Depth=NAME");
    esp_forest_free(forest);
    forest = one_node((struct esp_data){NULL, 0, 0}, &name); /* listed, but no node has it */
    struct esp_layout layout = layout_of("path", NULL);
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    esp_forest_free(forest);
}

/* ID + "a" and Depth + 0 are 9 bytes, "x" is one: 409590 bytes of text fit exactly. */
static void items_over_400_kb_are_named(void **state) {
    (void)state;
    enum { FITS = ESP_ITEM_BYTES_MAX - 10 };
    static char text[FITS + 64] = "\"x\":{\"S\":\"";
    const struct esp_str name = ESP_STR("x");
    struct esp_layout layout = layout_of("path", NULL);
    struct esp_error err = ESP_ERROR_INIT;
    size_t head = strlen(text);
    for (uint32_t more = 0; more < 2; more++) {
        memset(text + head, 'a', FITS + more);
        memcpy(text + head + FITS + more, "\"}", 2);
        struct esp_forest *forest = one_node(
            (struct esp_data){text, (uint32_t)(head + FITS + more + 2), FITS + more + 1}, &name);
        if (more) {
            validate_fails("path", NULL, forest, ESP_ERR_LIMIT, 7,
                           "'a' has 409601 bytes; DynamoDB takes at most 409600");
        } else {
            assert_ok(layout.ops->validate(&layout, forest, &err), &err);
        }
        esp_forest_free(forest);
    }
}

/* --- writes ----------------------------------------------------------------------- */

struct fixture {
    struct esp_store *store;
    struct esp_layout layout;
    struct suite_table table;
    struct esp_forest *forest;
};

static void open_fixture(struct fixture *f, const char *layout, struct esp_forest *forest) {
    struct esp_error err = ESP_ERROR_INIT;
    f->forest = forest;
    f->layout = layout_of(layout, NULL);
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &f->store, &err),
              &err);
    suite_table_open(&f->table, f->store, &f->layout, "layout", forest);
}

static void close_fixture(struct fixture *f) {
    suite_table_close(&f->table);
    esp_store_close(f->store);
    esp_forest_free(f->forest);
}

/* The operation fails like this, and nothing has been written. */
static void refused(struct fixture *f, enum esp_op op, const struct esp_args *args,
                    enum esp_status expected, const char *part) {
    uint64_t written = f->table.session->usage.items_written;
    esp_error_clear(&f->table.err);
    esp_arena_reset(&f->table.scratch);
    assert_int_equal(esp_operate(&f->table.access, op, args, NULL, NULL), expected);
    assert_message(&f->table.err, part);
    assert_int_equal(f->table.session->usage.items_written, written);
    esp_error_clear(&f->table.err);
}

static void writes_that_cannot_be(void **state) {
    (void)state;
    static const char depth[] = "\"Depth\":{\"N\":\"1\"}", name[] = "\"name\":{\"S\":\"x\"}";
    static char long_id[ESP_PK_BYTES_MAX + 2];
    struct esp_str id = ESP_STR("id"), remove = ESP_STR("name");
    struct fixture f;
    open_fixture(&f, "path", drives_forest());
    memset(long_id, 'x', ESP_PK_BYTES_MAX + 1);
    struct esp_args args = {.id = ESP_STR("a/b"), .to.id = ESP_STR("V")};
    refused(&f, ESP_OP_INSERT, &args, ESP_ERR_INPUT, "contains the separator");
    args.id = esp_str_from(long_id);
    refused(&f, ESP_OP_INSERT, &args, ESP_ERR_LIMIT, "2049");
    args.id = (struct esp_str){"", 0};
    refused(&f, ESP_OP_INSERT, &args, ESP_ERR_REFUSED, "the id is empty");
    args.id = ESP_STR("new");
    args.data = (struct esp_data){depth, sizeof depth - 1, 7};
    refused(&f, ESP_OP_INSERT, &args, ESP_ERR_USAGE, "'Depth' belongs to the layout path");
    args = (struct esp_args){.at.id = ESP_STR("V"), .data = {depth, sizeof depth - 1, 7}};
    refused(&f, ESP_OP_UPDATE, &args, ESP_ERR_USAGE, "'Depth' belongs to the layout path");
    args.data = (struct esp_data){NULL, 0, 0};
    refused(&f, ESP_OP_UPDATE, &args, ESP_ERR_USAGE, "nothing to set");
    args.remove = &f.layout.schema.attr[2].name;
    args.remove_count = 1;
    refused(&f, ESP_OP_UPDATE, &args, ESP_ERR_USAGE, "'Path' belongs to the layout path");
    args.remove = &remove;
    args.data = (struct esp_data){name, sizeof name - 1, 5};
    refused(&f, ESP_OP_UPDATE, &args, ESP_ERR_USAGE, "'name' is changed twice");
    args = (struct esp_args){.at.id = id, .lo = 2, .hi = 1};
    refused(&f, ESP_OP_WINDOW, &args, ESP_ERR_USAGE, "from 2 to 1");
    close_fixture(&f);
}

/* The end of a chain of 104 nodes is as deep as a path can go: nothing may go below it, and
 * the chain itself may not go below another node. */
static void paths_that_would_be_too_long(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, "path", chain(104));
    struct esp_args args = {.id = ESP_STR("new"), .to.id = ESP_STR("n00000103")};
    refused(&f, ESP_OP_INSERT, &args, ESP_ERR_LIMIT, "'new' would have 1031 bytes");
    args.at.id = args.to.id; /* what is below it would be, so there is nothing to ask for */
    assert_ok(esp_operate(&f.table.access, ESP_OP_CHILDREN, &args, NULL, NULL), &f.table.err);
    args.to.id = (struct esp_str){"", 0};
    assert_ok(esp_operate(&f.table.access, ESP_OP_INSERT, &args, NULL, NULL), &f.table.err);
    args = (struct esp_args){.at.id = ESP_STR("n00000000"), .to.id = ESP_STR("new")};
    refused(&f, ESP_OP_MOVE, &args, ESP_ERR_LIMIT, "'n00000103' would have 1031 bytes");
    args = (struct esp_args){.at.id = ESP_STR("new"), .to.id = ESP_STR("n00000103")};
    refused(&f, ESP_OP_MOVE, &args, ESP_ERR_LIMIT, "'new' would have 1031 bytes");
    close_fixture(&f);
}

static void a_cycle_writes_nothing(void **state) {
    (void)state;
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct fixture f;
        open_fixture(&f, esp_layouts[i]->name, drives_forest());
        struct esp_args args = {.at.id = ESP_STR("V"), .to.id = ESP_STR("ii")};
        refused(&f, ESP_OP_MOVE, &args, ESP_ERR_CYCLE, "'ii' is in its subtree");
        args.to.id = args.at.id;
        refused(&f, ESP_OP_MOVE, &args, ESP_ERR_CYCLE, "cannot move below itself");
        close_fixture(&f);
    }
}

/* Items that a write of `op` touches in nested-set with these settings. */
static uint64_t touched(struct fixture *f, enum esp_op op, const struct esp_args *args) {
    uint64_t before = f->table.session->usage.items_written;
    esp_arena_reset(&f->table.scratch);
    assert_ok(esp_operate(&f->table.access, op, args, NULL, NULL), &f->table.err);
    return f->table.session->usage.items_written - before;
}

/* Only what must be is renumbered: without gaps all that ends behind the place, with gaps
 * nothing, and the room that a remove leaves is used again. */
static void renumbering_is_what_it_must_be(void **state) {
    (void)state;
    struct fixture f;
    struct esp_args args = {.id = ESP_STR("new"), .to.id = ESP_STR("d")};
    open_fixture(&f, "nested-set", drives_forest());
    assert_int_equal(touched(&f, ESP_OP_INSERT, &args), 1 + 4 /* d, e, V, D */);
    args = (struct esp_args){.at.id = ESP_STR("new")};
    assert_int_equal(touched(&f, ESP_OP_REMOVE, &args), 1);
    args = (struct esp_args){.id = ESP_STR("new"), .to.id = ESP_STR("d")};
    assert_int_equal(touched(&f, ESP_OP_INSERT, &args), 1);
    args = (struct esp_args){.at.id = ESP_STR("d")};
    assert_int_equal(touched(&f, ESP_OP_MOVE, &args), 5); /* to be a root: itself alone */
    args.to.id = ESP_STR("C");
    assert_int_equal(touched(&f, ESP_OP_MOVE, &args), 5 + 1); /* and the end of C */
    close_fixture(&f);

    struct esp_strings sets = {{"gap=100"}, 1};
    struct esp_error err = ESP_ERROR_INIT;
    f.forest = drives_forest();
    f.layout = layout_of("nested-set", &sets);
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &f.store, &err),
              &err);
    suite_table_open(&f.table, f.store, &f.layout, "layout", f.forest);
    args = (struct esp_args){.id = ESP_STR("new"), .to.id = ESP_STR("d")};
    assert_int_equal(touched(&f, ESP_OP_INSERT, &args), 1);
    args = (struct esp_args){.at.id = ESP_STR("V"), .to.id = ESP_STR("C")};
    assert_int_equal(touched(&f, ESP_OP_MOVE, &args), 7);
    close_fixture(&f);
}

static enum esp_status no_finding(void *ctx, const struct esp_finding *finding) {
    (void)ctx;
    fail_msg("%s of '%.*s'", finding->name, ESP_FMT(finding->id));
    return ESP_OK;
}

/* Leaves below one root until its numbers are used up; how many fitted. */
static uint32_t fill(const char *gap, uint32_t most) {
    static const struct drives_row root[] = {{"root", ""}};
    struct fixture f = {.forest = forest_of_rows(root, 1)};
    struct esp_strings sets = {{gap}, 1};
    struct esp_error err = ESP_ERROR_INIT;
    enum esp_status status = ESP_OK;
    uint32_t n = 0;
    f.layout = layout_of("nested-set", &sets);
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &f.store, &err),
              &err);
    suite_table_open(&f.table, f.store, &f.layout, "layout", f.forest);
    while (status == ESP_OK && n < most) {
        char id[16];
        snprintf(id, sizeof id, "n%u", n);
        struct esp_args args = {.id = esp_str_from(id), .to.id = ESP_STR("root")};
        esp_arena_reset(&f.table.scratch);
        status = esp_operate(&f.table.access, ESP_OP_INSERT, &args, NULL, NULL);
        n += status == ESP_OK;
    }
    if (status != ESP_OK) {
        struct esp_args args = {.id = ESP_STR("new"), .to.id = ESP_STR("root")};
        refused(&f, ESP_OP_INSERT, &args, ESP_ERR_LIMIT, "'root' have used up 63 bits");
    }
    assert_ok(f.layout.ops->check(&f.table.access, no_finding, NULL), &f.table.err);
    close_fixture(&f);
    return n;
}

/* The largest gap leaves no number behind the root's; one less by n leaves some, side by side. */
static void numbers_end_with_an_error(void **state) {
    (void)state;
    uint32_t n = fill("gap=4611686018427387903", 1000);
    assert_in_range(n, 30, 100); /* a third of the room is left by each */
    assert_int_equal(fill("gap=4611686018427387703", 1000), n + 200);
    assert_int_equal(fill("gap=1000000000000", 100), 100);
}

static void a_root_with_children_is_not_promoted(void **state) {
    (void)state;
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct fixture f;
        open_fixture(&f, esp_layouts[i]->name, drives_forest());
        struct esp_args args = {.at.id = ESP_STR("C")};
        if (esp_layout_has(&f.layout, ESP_OP_PROMOTE)) {
            refused(&f, ESP_OP_PROMOTE, &args, ESP_ERR_REFUSED, "'C' is a root with children");
        }
        close_fixture(&f);
    }
}

/* Links of more children than a transaction takes: some in one, the rest in the next. */
static void many_children_are_promoted(void **state) {
    (void)state;
    enum { CHILDREN = 60 };
    static char id[CHILDREN][8];
    struct drives_row rows[CHILDREN + 2] = {{"root", ""}, {"v", "root"}};
    struct fixture f;
    for (uint32_t i = 0; i < CHILDREN; i++) {
        snprintf(id[i], sizeof id[i], "c%u", i);
        rows[i + 2] = (struct drives_row){id[i], "v"};
    }
    open_fixture(&f, "entity", forest_of_rows(rows, CHILDREN + 2));
    struct esp_args args = {.at.id = ESP_STR("v")};
    assert_int_equal(touched(&f, ESP_OP_PROMOTE, &args), CHILDREN + 4 * CHILDREN + 3);
    args.at.id = ESP_STR("root");
    esp_arena_reset(&f.table.scratch);
    assert_ok(esp_operate(&f.table.access, ESP_OP_COUNT, &args, NULL, NULL), &f.table.err);
    assert_int_equal(f.table.access.value, CHILDREN);
    assert_ok(f.layout.ops->check(&f.table.access, no_finding, NULL), &f.table.err);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_taken),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(the_registry_is_whole),
        cmocka_unit_test(separators_in_ids_are_named),
        cmocka_unit_test(long_paths_are_named),
        cmocka_unit_test(payload_must_not_be_called_like_structure),
        cmocka_unit_test(listed_names_that_collide_are_found),
        cmocka_unit_test(items_over_400_kb_are_named),
        cmocka_unit_test(writes_that_cannot_be),
        cmocka_unit_test(paths_that_would_be_too_long),
        cmocka_unit_test(a_cycle_writes_nothing),
        cmocka_unit_test(renumbering_is_what_it_must_be),
        cmocka_unit_test(ids_that_do_not_fit_behind_prefixes_are_named),
        cmocka_unit_test(gaps_that_do_not_fit_are_named),
        cmocka_unit_test(numbers_end_with_an_error),
        cmocka_unit_test(a_root_with_children_is_not_promoted),
        cmocka_unit_test(many_children_are_promoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
