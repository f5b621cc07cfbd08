/*
 * The figures of the seed documents, from which the layouts come: the tables that they print
 * (tests/golden/seeds/, taken from their texts; nothing here rewrites them), the answers that
 * they promise to their questions, and how many requests those take.
 *
 * seed-0-replica.txt begins with C | C | 0, where the document has C | I | 0 by mistake: a node's
 * row at relative depth 0 names the node itself.
 */
#include "tests/golden/golden_lines.h"
#include "tests/support/drives.h"

#include <stdio.h>
#include <stdlib.h>

/* --- tables ----------------------------------------------------------------------------- */

static const struct printed {
    const char *file, *layout, *source;
    const char *sets[4];
    bool whole; /* the document prints every item, in tree order */
} printed[] = {
    {"seed-0-path.txt", "path", "datasets/drives.csv", {NULL}, true},
    {"seed-0-replica.txt", "replica", "datasets/drives.csv", {NULL}, true},
    {"seed-3-adjacency.txt",
     "adjacency",
     "datasets/seeds/categories.csv",
     {"attr.id=categoryId"},
     true},
    {"seed-3-entity.txt", "entity", "datasets/seeds/categories.csv", {"refs=on"}, false},
    {"seed-3-nested-set.txt", "nested-set", "datasets/seeds/numbered.csv", {NULL}, true},
};

/* Items as rows of a table whose heading says which attributes. */
struct rows {
    const struct esp_schema *schema;
    const char *heading;
    struct golden_lines *lines;
    struct esp_arena arena;
};

static void put_cell(struct rows *rows, const struct esp_item *item, struct esp_str name,
                     struct esp_buf *out) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_value value;
    assert_ok(esp_item_find(rows->schema, item, name, &rows->arena, &value, &err), &err);
    if (value.type == ESP_TYPE_N) {
        esp_buf_put_i64(out, value.n);
    } else if (value.type == ESP_TYPE_S) {
        esp_buf_put_str(out, value.s);
    } else {
        assert_int_equal(value.type, ESP_TYPE_NONE);
        esp_buf_put_char(out, '-');
    }
}

static enum esp_status add_row(void *ctx, const struct esp_item *item) {
    struct rows *rows = ctx;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    for (const char *at = rows->heading; *at && *at != '\n';) {
        size_t len = strcspn(at, "|\n"), name_len = len - (at[len] == '|');
        if (at != rows->heading) {
            ESP_BUF_LIT(&text, " | ");
        }
        put_cell(rows, item, (struct esp_str){at, name_len}, &text);
        at += at[len] == '|' ? len + 2 : len;
    }
    golden_add(rows->lines, &text);
    esp_buf_fini(&text);
    return ESP_OK;
}

static bool has_line(const struct golden_lines *lines, const char *line, size_t len) {
    for (size_t i = 0; i < lines->count; i++) {
        if (strlen(lines->line[i]) == len && memcmp(lines->line[i], line, len) == 0) {
            return true;
        }
    }
    return false;
}

static void compare_rows(const struct printed *p, const struct golden_lines *lines,
                         const char *expected) {
    size_t number = 0;
    for (const char *at = expected; *at; number++) {
        size_t len = strcspn(at, "\n");
        if (p->whole) {
            assert_true(number < lines->count);
            assert_int_equal(strlen(lines->line[number]), len);
            assert_memory_equal(lines->line[number], at, len);
        } else if (!has_line(lines, at, len)) {
            fail_msg("%s: no item is %.*s", p->file, (int)len, at);
        }
        at += len + 1;
    }
    if (p->whole) {
        assert_int_equal(lines->count, number);
    }
}

static void tables_are_as_printed(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof printed / sizeof printed[0]; i++) {
        const struct printed *p = &printed[i];
        struct golden_lines lines = {.count = 0};
        struct esp_forest *forest = golden_import(p->source);
        struct esp_layout layout;
        struct esp_arena scratch;
        char path[128];
        size_t sets = 0;
        while (sets < sizeof p->sets / sizeof p->sets[0] && p->sets[sets]) {
            sets++;
        }
        snprintf(path, sizeof path, "tests/golden/seeds/%s", p->file);
        char *text = esp_test_read_file(path, NULL);
        golden_layout(&layout, p->layout, p->sets, sets);
        struct rows rows = {.schema = &layout.schema, .heading = text, .lines = &lines};
        esp_arena_init(&rows.arena, &esp_alloc_libc, SIZE_MAX);
        esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
        assert_int_equal(
            layout.ops->emit(&layout, forest, 0, forest->count, &scratch, add_row, &rows), ESP_OK);
        compare_rows(p, &lines, text + strcspn(text, "\n") + 1);
        for (size_t k = 0; k < lines.count; k++) {
            free(lines.line[k]);
        }
        esp_arena_fini(&scratch);
        esp_arena_fini(&rows.arena);
        esp_forest_free(forest);
        free(text);
    }
}

/* --- answers ----------------------------------------------------------------------------- */

static struct esp_store *store;

static int open_memory(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    return 0;
}

static int close_memory(void **state) {
    (void)state;
    esp_store_close(store);
    return 0;
}

/* A source in a layout, with locators that know their keys, as the documents' authors do. */
struct loaded {
    struct esp_forest *forest;
    struct esp_forest_ids *ids;
    struct esp_layout layout;
    struct esp_arena keys;
    struct suite_table table;
};

static void load_forest(struct loaded *l, struct esp_forest *forest, const char *layout,
                        const char *set) {
    struct esp_error err = ESP_ERROR_INIT;
    l->forest = forest;
    assert_ok(esp_forest_ids_new(forest, &esp_alloc_libc, &l->ids, &err), &err);
    esp_arena_init(&l->keys, &esp_alloc_libc, SIZE_MAX);
    golden_layout(&l->layout, layout, &set, set ? 1 : 0);
    suite_table_open(&l->table, store, &l->layout, "seed", forest);
}

static void load(struct loaded *l, const char *source, const char *layout, const char *set) {
    load_forest(l, golden_import(source), layout, set);
}

static void unload(struct loaded *l) {
    suite_table_close(&l->table);
    esp_arena_fini(&l->keys);
    esp_forest_ids_free(l->ids);
    esp_forest_free(l->forest);
}

static struct esp_locator by_key(struct loaded *l, const char *id) {
    struct esp_locator at;
    esp_node v = esp_forest_find(l->ids, esp_str_from(id));
    assert_true(v != ESP_NODE_NONE);
    assert_int_equal(l->layout.ops->locate(&l->layout, l->forest, v, &l->keys, &at), ESP_OK);
    return at;
}

static struct esp_locator by_id(const char *id) {
    return (struct esp_locator){.id = esp_str_from(id)};
}

/* Ids of an answer, with blanks between. */
static enum esp_status add_id(void *ctx, const struct esp_node_view *node) {
    struct golden_lines *ids = ctx;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_buf_put_str(&text, node->id);
    golden_add(ids, &text);
    esp_buf_fini(&text);
    return ESP_OK;
}

/* Ask, compare the ids (sorted, but for ancestors), and return the usage of it. */
static struct esp_usage ask(struct loaded *l, enum esp_op op, const struct esp_args *args,
                            const char *expected) {
    struct golden_lines ids = {.count = 0};
    struct suite_table *t = &l->table;
    char text[4096] = "";
    memset(&t->session->usage, 0, sizeof t->session->usage);
    esp_arena_reset(&t->scratch);
    esp_error_clear(&t->err);
    assert_ok(esp_operate(&t->access, op, args, add_id, &ids), &t->err);
    if (op != ESP_OP_ANCESTORS) {
        qsort(ids.line, ids.count, sizeof ids.line[0], golden_by_text);
    }
    for (size_t i = 0; i < ids.count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", ids.line[i]);
        free(ids.line[i]);
    }
    if (expected && strcmp(text, expected) != 0) {
        fail_msg("%s: %s of %.*s is '%s', expected '%s'", l->layout.ops->name, esp_op_info[op].name,
                 ESP_FMT(args->at.id), text, expected);
    }
    return t->session->usage;
}

static struct esp_usage ask_of(struct loaded *l, enum esp_op op, struct esp_locator at,
                               const char *expected) {
    struct esp_args args = {.at = at};
    return ask(l, op, &args, expected);
}

/* The session's usage is that of the write. */
static void do_write(struct loaded *l, enum esp_op op, const struct esp_args *args) {
    memset(&l->table.session->usage, 0, sizeof l->table.session->usage);
    esp_arena_reset(&l->table.scratch);
    assert_ok(esp_operate(&l->table.access, op, args, NULL, NULL), &l->table.err);
}

static enum esp_status try_write(struct loaded *l, enum esp_op op, const struct esp_args *args) {
    esp_arena_reset(&l->table.scratch);
    enum esp_status status = esp_operate(&l->table.access, op, args, NULL, NULL);
    esp_error_clear(&l->table.err);
    return status;
}

static enum esp_status no_finding(void *ctx, const struct esp_finding *finding) {
    (void)ctx;
    fail_msg("%s %.*s %.*s: %s", finding->name, ESP_FMT(finding->id), ESP_FMT(finding->other),
             finding->text);
    return ESP_OK;
}

static void assert_clean(struct loaded *l) {
    assert_ok(l->layout.ops->check(&l->table.access, no_finding, NULL), &l->table.err);
}

/* --- seed 0 -------------------------------------------------------------------------------- */

/* Both patterns: every question of the text is one request. */
static void the_drives_answer_in_one_request(void **state) {
    (void)state;
    static const char *const layouts[] = {"path", "replica"};
    for (size_t i = 0; i < 2; i++) {
        struct loaded l;
        load(&l, "datasets/drives.csv", layouts[i], NULL);
        assert_int_equal(ask_of(&l, ESP_OP_NODE, by_id("d"), "d").requests, 1);
        assert_int_equal(ask_of(&l, ESP_OP_CHILDREN, by_key(&l, "V"), "d e").requests, 1);
        assert_int_equal(ask_of(&l, ESP_OP_DESCENDANTS, by_key(&l, "V"), "d e i ii iii").requests,
                         1);
        unload(&l);
    }
}

/* "you'd have to query all items and filter": the path pattern reads three nodes more; the
 * replication pattern reads what it returns, whatever the window, and by the id alone. */
static void windows_are_what_replicas_are_for(void **state) {
    (void)state;
    static const struct {
        uint32_t lo, hi;
        const char *expected;
        uint64_t nodes;
    } windows[] = {
        {1, 2, "III IV V a b c d e", 8},
        {1, 3, "III IV V a b c d e i ii iii", 11},
        {0, 1, "D III IV V", 4},
        {2, 3, "a b c d e i ii iii", 8},
    };
    struct loaded replica, path;
    load(&replica, "datasets/drives.csv", "replica", NULL);
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        struct esp_args args = {.at = by_id("D"), .lo = windows[i].lo, .hi = windows[i].hi};
        struct esp_usage usage = ask(&replica, ESP_OP_WINDOW, &args, windows[i].expected);
        assert_int_equal(usage.requests, 1);
        assert_int_equal(usage.items_read, windows[i].nodes);
    }
    unload(&replica);
    load(&path, "datasets/drives.csv", "path", NULL);
    struct esp_args args = {.at = by_key(&path, "D"), .lo = 1, .hi = 2};
    assert_int_equal(ask(&path, ESP_OP_WINDOW, &args, windows[0].expected).items_read, 11);
    unload(&path);
}

/* "any time a record is updated you'll have to update ... all the replicated records as well";
 * "re-parenting just means updating the Path for the records at and below". */
static void writes_cost_what_the_text_says(void **state) {
    (void)state;
    static const char data[] = "\"Folder Name\":{\"S\":\"another\"}";
    struct esp_args update = {.at = by_id("i"), .data = {data, sizeof data - 1, 18}};
    struct loaded l;
    load(&l, "datasets/drives.csv", "replica", NULL);
    do_write(&l, ESP_OP_UPDATE, &update);
    assert_int_equal(l.table.session->usage.items_written, 4); /* depth 3 */
    unload(&l);
    load(&l, "datasets/drives.csv", "path", NULL);
    do_write(&l, ESP_OP_UPDATE, &update);
    assert_int_equal(l.table.session->usage.items_written, 1);
    struct esp_args move = {.at = by_id("d"), .to = by_id("C")};
    do_write(&l, ESP_OP_MOVE, &move);
    assert_int_equal(l.table.session->usage.items_written, 4); /* d, i, ii, iii */
    ask_of(&l, ESP_OP_DESCENDANTS, by_id("C"), "I II d i ii iii");
    assert_clean(&l);
    unload(&l);
}

/* --- seed 2 -------------------------------------------------------------------------------- */

/* `node` with two ancestors and three descendants in a tree of `count` nodes. */
static struct esp_forest *tree_around(const char *node, uint32_t count) {
    struct drives_row *rows = calloc(count, sizeof *rows);
    char(*ids)[16] = calloc(count, sizeof *ids);
    const struct drives_row kept[] = {{"root", ""}, {"above", "root"}, {node, "above"},
                                      {"b1", node}, {"b2", node},      {"b3", "b2"}};
    assert_non_null(rows);
    assert_non_null(ids);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(ids[i], sizeof ids[i], "n%u", i);
        rows[i] =
            i < 6 ? kept[i] : (struct drives_row){ids[i], i < 100 ? "above" : ids[6 + i / 50]};
    }
    struct esp_forest *forest = forest_of_rows(rows, count);
    free(rows);
    free(ids);
    return forest;
}

/* "efficient means that the number of requests does not grow with the number of nodes".  The
 * ancestors, by key, in one round trip. */
static void requests_do_not_grow_with_the_tree(void **state) {
    (void)state;
    static const uint32_t counts[] = {10, 1000, 100000};
    static const char *const layouts[] = {"path", "tree-path", "replica"};
    for (size_t k = 0; k < sizeof layouts / sizeof layouts[0]; k++) {
        struct esp_usage first[4];
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            struct loaded l;
            load_forest(&l, tree_around("G", counts[i]), layouts[k], NULL);
            struct esp_usage usage[4] = {
                ask_of(&l, ESP_OP_ANCESTORS, by_id("G"), "root above"),
                ask_of(&l, ESP_OP_DESCENDANTS, by_id("G"), "b1 b2 b3"),
                ask_of(&l, ESP_OP_ANCESTORS, by_key(&l, "G"), "root above"),
                ask_of(&l, ESP_OP_DESCENDANTS, by_key(&l, "G"), "b1 b2 b3"),
            };
            assert_int_equal(usage[2].round_trips, 1);
            assert_int_equal(usage[3].requests, 1);
            for (size_t n = 0; n < 4; n++) {
                first[n] = i == 0 ? usage[n] : first[n];
                assert_int_equal(usage[n].requests, first[n].requests);
                assert_int_equal(usage[n].round_trips, first[n].round_trips);
                assert_int_equal(usage[n].items_read, first[n].items_read);
            }
            unload(&l);
        }
    }
}

/* "not possible in DynamoDB", says the text of nested sets' ancestors; possible, but everything
 * to the left of the node is read, and that grows with the tree. */
static void ancestors_of_a_nested_set_read_all_to_the_left(void **state) {
    (void)state;
    uint64_t read[2];
    static const uint32_t counts[] = {100, 10000};
    for (size_t i = 0; i < 2; i++) {
        struct loaded l;
        char last[16];
        snprintf(last, sizeof last, "n%u", counts[i] - 1);
        load_forest(&l, tree_around("G", counts[i]), "nested-set", NULL);
        read[i] = ask_of(&l, ESP_OP_ANCESTORS, by_key(&l, last), NULL).items_read;
        assert_int_equal(ask_of(&l, ESP_OP_DESCENDANTS, by_key(&l, "G"), "b1 b2 b3").items_read, 3);
        unload(&l);
    }
    assert_true(read[1] > 20 * read[0]);
}

/* "the tree can be rebuilt": both answers carry each node's parent, in every layout. */
static enum esp_status has_parent(void *ctx, const struct esp_node_view *node) {
    assert_non_null(node->parent_id.ptr);
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static void answers_rebuild_the_tree(void **state) {
    (void)state;
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct loaded l;
        uint64_t count = 0;
        struct esp_args args = {.at = by_id("A")};
        load(&l, "datasets/seeds/tree.csv", esp_layouts[i]->name, NULL);
        assert_ok(esp_operate(&l.table.access, ESP_OP_TREE, &args, has_parent, &count),
                  &l.table.err);
        assert_int_equal(count, 11);
        args.at = by_id("K");
        assert_ok(esp_operate(&l.table.access, ESP_OP_ANCESTORS, &args, has_parent, &count),
                  &l.table.err);
        assert_int_equal(count, 11 + 4);
        unload(&l);
    }
}

/* Without the closing separator that the text forgot, the descendants of 1 would have been those
 * of 10 too. */
static void an_id_that_begins_like_another_is_another(void **state) {
    (void)state;
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct loaded l;
        load(&l, "datasets/seeds/tree.csv", esp_layouts[i]->name, NULL);
        ask_of(&l, ESP_OP_DESCENDANTS, by_id("1"), "2");
        struct esp_args move = {.at = by_id("10"), .to = by_id("A")};
        struct esp_args second = {.at = by_id("1"), .to = by_id("A")};
        do_write(&l, ESP_OP_MOVE, &move);
        do_write(&l, ESP_OP_MOVE, &second);
        ask_of(&l, ESP_OP_DESCENDANTS, by_id("1"), "2");
        ask_of(&l, ESP_OP_DESCENDANTS, by_id("10"), "11");
        unload(&l);
    }
}

/* The text's rules for trees and their changes, 1 to 6; the 7th is that they may be expensive. */
static void rules_hold(const char *layout) {
    struct loaded l;
    load(&l, "datasets/seeds/tree.csv", layout, NULL);
    /* 1: any number of disjoint trees */
    struct esp_args none = {.at = by_id("")};
    struct esp_args another = {.id = ESP_STR("X")};
    ask(&l, ESP_OP_ROOTS, &none, "1 10 A");
    do_write(&l, ESP_OP_INSERT, &another);
    ask(&l, ESP_OP_ROOTS, &none, "1 10 A X");
    /* 2: any depth, 3: any number of children */
    for (int i = 0; i < 30; i++) {
        char ids[3][16];
        snprintf(ids[0], sizeof ids[0], i ? "deep%02d" : "X", i);
        snprintf(ids[1], sizeof ids[1], "deep%02d", i + 1);
        snprintf(ids[2], sizeof ids[2], "wide%02d", i);
        struct esp_args deeper = {.to = by_id(ids[0]), .id = esp_str_from(ids[1])};
        struct esp_args wider = {.to = by_id("X"), .id = esp_str_from(ids[2])};
        do_write(&l, ESP_OP_INSERT, &deeper);
        do_write(&l, ESP_OP_INSERT, &wider);
    }
    struct esp_args children = {.at = by_id("X")}, above = {.at = by_id("deep30")};
    assert_int_equal(ask(&l, ESP_OP_CHILDREN, &children, NULL).items_returned >= 31, 1);
    do_write(&l, ESP_OP_COUNT, &children);
    assert_int_equal(l.table.access.value, 60);
    assert_true(ask(&l, ESP_OP_ANCESTORS, &above, NULL).items_returned >= 30);
    /* 4: all descendants move with a node */
    struct esp_args move = {.at = by_id("C"), .to = by_id("E")};
    do_write(&l, ESP_OP_MOVE, &move);
    ask_of(&l, ESP_OP_ANCESTORS, by_id("K"), "A B E C G J");
    ask_of(&l, ESP_OP_DESCENDANTS, by_id("E"), "C F G H I J K");
    ask_of(&l, ESP_OP_CHILDREN, by_id("A"), "B");
    if (esp_layout_has(&l.layout, ESP_OP_PROMOTE)) {
        /* 5: a deleted node's children replace it, with all below them */
        struct esp_args promote = {.at = by_id("G")}, root = {.at = by_id("A")};
        do_write(&l, ESP_OP_PROMOTE, &promote);
        ask_of(&l, ESP_OP_CHILDREN, by_id("C"), "F I J");
        ask_of(&l, ESP_OP_ANCESTORS, by_id("K"), "A B E C J");
        assert_int_equal(try_write(&l, ESP_OP_NODE, &promote), ESP_ERR_NOT_FOUND);
        /* 6: a root that has children stays */
        assert_int_not_equal(try_write(&l, ESP_OP_PROMOTE, &root), ESP_OK);
        ask_of(&l, ESP_OP_CHILDREN, by_id("A"), "B");
        ask_of(&l, ESP_OP_DESCENDANTS, by_id("A"), "B C D E F H I J K");
    }
    assert_clean(&l);
    unload(&l);
}

static void the_rules_hold_in_every_layout(void **state) {
    (void)state;
    for (size_t i = 0; esp_layouts[i]; i++) {
        rules_hold(esp_layouts[i]->name);
    }
}

/* --- seed 3 -------------------------------------------------------------------------------- */

/* "Getting ancestors requires multiple queries": a GetItem each, one after another. */
static void categories_as_an_adjacency_list(void **state) {
    (void)state;
    struct loaded l;
    load(&l, "datasets/seeds/categories.csv", "adjacency", "attr.id=categoryId");
    assert_int_equal(
        ask_of(&l, ESP_OP_CHILDREN, by_key(&l, "electronics"), "computers phones").requests, 1);
    struct esp_usage usage =
        ask_of(&l, ESP_OP_ANCESTORS, by_id("laptops"), "root electronics computers");
    assert_int_equal(usage.requests, 4); /* the node itself, as in the text, and three above it */
    assert_int_equal(usage.round_trips, 4);
    ask_of(&l, ESP_OP_DESCENDANTS, by_id("electronics"), "computers desktops laptops phones");
    struct esp_args level = {.at = by_id("root"), .lo = 2, .hi = 2};
    ask(&l, ESP_OP_LEVEL, &level, "computers phones");
    struct esp_args move = {.at = by_id("desktops"), .to = by_id("phones")}; /* no deeper */
    do_write(&l, ESP_OP_MOVE, &move);
    assert_int_equal(l.table.session->usage.items_written, 1); /* "just update parentId" */
    unload(&l);
}

/* electronics is 2 to 9: lft BETWEEN 3 AND 8, "a single query gets the entire subtree". */
static void categories_as_a_nested_set(void **state) {
    (void)state;
    struct loaded l;
    load(&l, "datasets/seeds/numbered.csv", "nested-set", NULL);
    struct esp_usage usage =
        ask_of(&l, ESP_OP_DESCENDANTS, by_id("electronics"), "computers laptops phones");
    assert_int_equal(usage.requests, 2); /* the node's numbers first, as in the text */
    usage = ask_of(&l, ESP_OP_DESCENDANTS, by_key(&l, "electronics"), "computers laptops phones");
    assert_int_equal(usage.requests, 1);
    assert_int_equal(usage.items_read, 3);
    unload(&l);
}

#define seed_test(name) cmocka_unit_test_setup_teardown(name, open_memory, close_memory)
/* Seed 1 and pattern 2 of seed 3.  Breadcrumbs need no more than the key; children are found among
 * all descendants by their depth; a moved subtree leaves nothing behind, not even its own top,
 * which seed 1's moveSubtree forgets. */
static void files_by_their_paths(void **state) {
    (void)state;
    struct loaded l;
    load(&l, "datasets/seeds/files.csv", "path-key", "hierarchy=FILESYSTEM");
    struct esp_usage usage = ask_of(&l, ESP_OP_DESCENDANTS, by_key(&l, "documents"),
                                    "letter.txt personal report.pdf work");
    assert_int_equal(usage.requests, 1);
    assert_int_equal(usage.items_read, 4);
    usage = ask_of(&l, ESP_OP_CHILDREN, by_key(&l, "documents"), "personal work");
    assert_int_equal(usage.requests, 1);
    assert_int_equal(usage.items_read, 4); /* the whole subtree is read and paid for */
    usage = ask_of(&l, ESP_OP_ANCESTORS, by_key(&l, "report.pdf"), "root documents work");
    assert_int_equal(usage.round_trips, 1);
    struct esp_args move = {.at = by_id("work"), .to = by_id("media")};
    do_write(&l, ESP_OP_MOVE, &move);
    ask_of(&l, ESP_OP_DESCENDANTS, by_id("documents"), "letter.txt personal");
    ask_of(&l, ESP_OP_DESCENDANTS, by_id("media"), "photos report.pdf vacation.jpg work");
    ask_of(&l, ESP_OP_ANCESTORS, by_id("report.pdf"), "root media work");
    assert_clean(&l);
    unload(&l);
}

/* "All relationships for a node in one query": the node, its parent and its children's ids; the
 * children themselves are one batch more. */
static void categories_as_entities(void **state) {
    (void)state;
    struct loaded l;
    load(&l, "datasets/seeds/categories.csv", "entity", "refs=on");
    struct esp_usage usage = ask_of(&l, ESP_OP_CHILDREN, by_id("electronics"), "computers phones");
    assert_int_equal(usage.round_trips, 2);
    assert_int_equal(usage.requests, 2);
    ask_of(&l, ESP_OP_ANCESTORS, by_id("laptops"), "root electronics computers");
    ask_of(&l, ESP_OP_DESCENDANTS, by_id("electronics"), "computers desktops laptops phones");
    unload(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        seed_test(tables_are_as_printed),
        seed_test(the_drives_answer_in_one_request),
        seed_test(windows_are_what_replicas_are_for),
        seed_test(writes_cost_what_the_text_says),
        seed_test(requests_do_not_grow_with_the_tree),
        seed_test(ancestors_of_a_nested_set_read_all_to_the_left),
        seed_test(answers_rebuild_the_tree),
        seed_test(an_id_that_begins_like_another_is_another),
        seed_test(the_rules_hold_in_every_layout),
        seed_test(categories_as_an_adjacency_list),
        seed_test(categories_as_a_nested_set),
        seed_test(categories_as_entities),
        seed_test(files_by_their_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
