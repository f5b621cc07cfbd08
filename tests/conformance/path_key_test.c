/* What path-key does that others do not: keys that are ways of names, ways cut into segments,
 * keys that move with their nodes, and what its check finds when they did not. */
#include "converters/access.h"
#include "converters/write_plan.h"
#include "core/rng.h"
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"
#include "tests/support/model.h"

#include <stdio.h>
#include <stdlib.h>

static struct esp_layout layout_of(struct esp_strings sets) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_layout layout;
    assert_ok(esp_layout_init(&layout, esp_layout_find("path-key"), &sets, &err), &err);
    return layout;
}

static void assert_message(const struct esp_error *err, const char *part) {
    if (!strstr(err->message, part)) {
        fail_msg("'%s' is not in: %s", part, err->message);
    }
}

/* --- forests ---------------------------------------------------------------------- */

struct row {
    const char *id, *parent, *name; /* name NULL: none; "" as parent: a root */
};

static struct esp_data name_data(const char *name, char *room, size_t size) {
    int len = name ? snprintf(room, size, "\"name\":{\"S\":\"%s\"}", name) : 0;
    assert_true(len >= 0 && (size_t)len < size);
    return (struct esp_data){room, (uint32_t)len, name ? (uint32_t)(4 + strlen(name)) : 0};
}

static struct esp_forest *forest_of(const struct row *rows, size_t count) {
    struct esp_forest_options options = {.source = "rows"};
    struct esp_forest_builder *builder = NULL;
    struct esp_forest *forest = NULL;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (size_t i = 0; i < count; i++) {
        char room[128];
        struct esp_record record = {.id = esp_str_from(rows[i].id),
                                    .parent_id = esp_str_from(rows[i].parent),
                                    .data = name_data(rows[i].name, room, sizeof room),
                                    .line = i + 1};
        assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
    }
    assert_ok(esp_forest_freeze(builder, &forest, &err), &err);
    return forest;
}

/* --- tables ----------------------------------------------------------------------- */

struct fixture {
    struct esp_store *store;
    struct esp_layout layout;
    struct suite_table t;
    struct esp_forest *forest; /* given */
    struct model model;
};

static void open_fixture(struct fixture *f, struct esp_strings sets, struct esp_forest *forest) {
    static const struct esp_store_config config = {.page_bytes = 4000};
    struct esp_error err = ESP_ERROR_INIT;
    f->forest = forest;
    f->layout = layout_of(sets);
    assert_ok(
        esp_store_open("memory:", &config, &esp_clock_system, &esp_alloc_libc, &f->store, &err),
        &err);
    suite_table_open(&f->t, f->store, &f->layout, "path-key", f->forest);
    model_init(&f->model, forest);
}

static void close_fixture(struct fixture *f) {
    model_fini(&f->model);
    suite_table_close(&f->t);
    esp_store_close(f->store);
    esp_forest_free(f->forest);
}

/* Nodes of an answer by their number in the model. */
struct answer {
    const struct model *model;
    uint32_t *node, count, cap;
};

static enum esp_status keep(void *ctx, const struct esp_node_view *node) {
    struct answer *answer = ctx;
    if (answer->count == answer->cap) {
        answer->cap = answer->cap ? 2 * answer->cap : 64;
        answer->node = realloc(answer->node, answer->cap * sizeof *answer->node);
        assert_non_null(answer->node);
    }
    uint32_t v = model_find(answer->model, node->id);
    assert_int_not_equal(v, ESP_NODE_NONE);
    assert_true(esp_data_equal(node->data, answer->model->node[v].data));
    assert_true(node->depth < 0 || node->depth == model_depth(answer->model, v));
    answer->node[answer->count++] = v;
    return ESP_OK;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void compare(struct fixture *f, enum esp_op op, uint32_t v) {
    struct esp_args args = {.at.id = f->model.node[v].id};
    struct model_answer want = model_read(&f->model, op, &args);
    struct answer got = {.model = &f->model};
    esp_arena_reset(&f->t.scratch);
    assert_ok(esp_operate(&f->t.access, op, &args, keep, &got), &f->t.err);
    if (got.count != want.count) {
        fail_msg("%s of '%.*s': %u nodes, not %u", esp_op_info[op].name, ESP_FMT(args.at.id),
                 got.count, want.count);
    }
    if (got.count && op != ESP_OP_ANCESTORS) {
        qsort(got.node, got.count, sizeof *got.node, by_number);
        qsort(want.node, want.count, sizeof *want.node, by_number);
    }
    for (uint32_t i = 0; i < got.count; i++) {
        assert_int_equal(got.node[i], want.node[i]);
    }
    free(got.node);
    free(want.node);
}

static enum esp_status no_finding(void *ctx, const struct esp_finding *finding) {
    (void)ctx;
    fail_msg("check found %s of '%.*s' / '%.*s': %s", finding->name, ESP_FMT(finding->id),
             ESP_FMT(finding->other), finding->text);
    return ESP_OK;
}

static void table_is_whole(struct fixture *f) {
    esp_arena_reset(&f->t.scratch);
    assert_ok(f->layout.ops->check(&f->t.access, no_finding, NULL), &f->t.err);
}

static void tree_is_the_models(struct fixture *f) {
    table_is_whole(f);
    for (uint32_t v = 0; v < f->model.count; v++) {
        if (f->model.node[v].alive) {
            compare(f, ESP_OP_ANCESTORS, v);
            compare(f, v % 2 ? ESP_OP_CHILDREN : ESP_OP_DESCENDANTS, v);
        }
    }
}

static enum esp_status operate(struct fixture *f, enum esp_op op, const struct esp_args *args) {
    esp_arena_reset(&f->t.scratch);
    esp_error_clear(&f->t.err);
    return esp_operate(&f->t.access, op, args, NULL, NULL);
}

static uint32_t random_node(struct esp_rng *rng, const struct model *m) {
    uint32_t v;
    do {
        v = (uint32_t)esp_rng_below(rng, m->count);
    } while (!m->node[v].alive);
    return v;
}

/* --- settings --------------------------------------------------------------------- */

static void wrong_settings_are_refused(void **state) {
    (void)state;
    static const struct {
        struct esp_strings sets;
        const char *part;
    } cases[] = {
        {{{"segment=513"}, 1}, "at most 512 levels"},
        {{{"segment=2", "by=name"}, 2}, "segments are named by ids"},
        {{{"segment=2", "ancestors=on"}, 2}, "take one of the two"},
        {{{"hierarchy="}, 1}, "1 to 2048 bytes"},
        {{{"hierarchy=espalier:x"}, 1}, "are reserved"},
        {{{"hierarchy=a/b", "segment=2"}, 2}, "must not contain the separator '/'"},
        {{{"by=name", "name="}, 2}, "name="},
        {{{"by=path"}, 1}, "by"},
        {{{"attr.pk=depth"}, 1}, "two attributes would be called 'depth'"},
        {{{"separator=%", "escape=percent"}, 2}, "take another separator"},
        {{{"by-id=off", "index.by-id=xyz", "index.other=xyz"}, 3}, "no index 'other'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_layout layout;
        assert_status(ESP_ERR_USAGE,
                      esp_layout_init(&layout, esp_layout_find("path-key"), &cases[i].sets, &err));
        assert_message(&err, cases[i].part);
    }
    /* Without segments a hierarchy may be called as its owner likes. */
    layout_of((struct esp_strings){{"hierarchy=USER#1/docs", "separator=#"}, 2});
    /* What is not stored leaves its name to the payload. */
    struct esp_layout layout = layout_of((struct esp_strings){{"depth=off"}, 1});
    assert_int_equal(esp_schema_find_attr(&layout.schema, ESP_STR("depth")), -1);
    layout = layout_of((struct esp_strings){{NULL}, 0});
    assert_int_equal(esp_schema_find_attr(&layout.schema, ESP_STR("parentId")), -1);
    assert_int_equal(esp_schema_find_attr(&layout.schema, ESP_STR("depth")), 3);
}

/* --- what does not fit ------------------------------------------------------------ */

static void validate_fails(struct esp_strings sets, struct esp_forest *forest,
                           enum esp_status expected, uint64_t line, const char *part) {
    struct esp_layout layout = layout_of(sets);
    struct esp_error err = ESP_ERROR_INIT;
    assert_int_equal(expected, layout.ops->validate(&layout, forest, &err));
    assert_int_equal(err.line, line);
    assert_message(&err, part);
    esp_forest_free(forest);
}

static void names_that_make_no_key_are_named(void **state) {
    (void)state;
    static const struct row missing[] = {{"r", "", "root"}, {"a", "r", NULL}};
    static const struct row twice[] = {
        {"r", "", "root"}, {"a", "r", "x"}, {"b", "a", "x"}, {"c", "r", "x"}};
    static const struct row separated[] = {{"r", "", "root"}, {"a", "r", "x/y"}};
    static const struct row roots[] = {{"r", "", "x"}, {"s", "", "x"}};
    struct esp_strings by_name = {{"by=name"}, 1}, one = {{"by=name", "hierarchy=H"}, 2};
    struct esp_strings escaped = {{"by=name", "escape=percent"}, 2};
    struct esp_error err = ESP_ERROR_INIT;
    validate_fails(by_name, forest_of(missing, 2), ESP_ERR_INPUT, 2,
                   "'a' has no attribute 'name' with a text");
    validate_fails(by_name, forest_of(twice, 4), ESP_ERR_INPUT, 4,
                   "'a' (line 2) and 'c' are siblings with one name, 'x'");
    validate_fails(by_name, forest_of(separated, 2), ESP_ERR_INPUT, 2,
                   "the name 'x/y' of 'a' contains the separator '/'; no name contains the one of "
                   "--set 'separator=#'");
    validate_fails(one, forest_of(roots, 2), ESP_ERR_INPUT, 2, "are siblings with one name, 'x'");
    struct esp_layout layout = layout_of(by_name);
    struct esp_forest *forest = forest_of(roots, 2); /* trees have partitions of their own */
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    esp_forest_free(forest);
    layout = layout_of(escaped);
    forest = forest_of(separated, 2);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    esp_forest_free(forest);
    by_name.value[by_name.count++] = "name=title";
    validate_fails(by_name, forest_of(roots, 2), ESP_ERR_INPUT, 1, "no attribute 'title'");
}

/* Ids of 30 bytes, each the parent of the next. */
static struct esp_forest *chain(uint32_t nodes) {
    char(*id)[32] = calloc(nodes, sizeof *id);
    struct row *rows = calloc(nodes, sizeof *rows);
    assert_true(id && rows);
    for (uint32_t v = 0; v < nodes; v++) {
        snprintf(id[v], sizeof id[v], "node-%025u", v);
        rows[v] = (struct row){id[v], v ? id[v - 1] : "", NULL};
    }
    struct esp_forest *forest = forest_of(rows, nodes);
    free(rows);
    free(id);
    return forest;
}

static void long_keys_are_named(void **state) {
    (void)state;
    static char big[ESP_PK_BYTES_MAX + 1];
    struct row rows[] = {{big, "", NULL}, {"a", big, NULL}};
    struct esp_strings none = {{NULL}, 0}, cut = {{"segment=1"}, 1};
    validate_fails(none, chain(33), ESP_OK, 0, "");
    validate_fails(none, chain(40), ESP_ERR_LIMIT, 34,
                   "'node-0000000000000000000000033' at depth 33 has 1053 bytes");
    validate_fails(none, chain(40), ESP_ERR_LIMIT, 34, "--set segment=N cuts paths");
    validate_fails((struct esp_strings){{"segment=33"}, 1}, chain(4000), ESP_OK, 0, "");
    validate_fails((struct esp_strings){{"segment=34"}, 1}, chain(4000), ESP_ERR_LIMIT, 34,
                   "use shorter ids");
    memset(big, 'x', 1025);
    validate_fails(none, forest_of(rows, 1), ESP_ERR_LIMIT, 1, "has 1025 bytes");
    memset(big, 0, sizeof big);
    memset(big, 'x', 1024);
    validate_fails(cut, forest_of(rows, 2), ESP_ERR_LIMIT, 2, "partition key of 'a'");
    validate_fails(none, forest_of(rows, 1), ESP_OK, 0, "");
}

static void writes_that_would_not_fit(void **state) {
    (void)state;
    struct fixture f;
    open_fixture(&f, (struct esp_strings){{NULL}, 0}, chain(33)); /* 1022 bytes */
    struct esp_args args = {.id = ESP_STR("new"), .to.id = f.model.node[32].id};
    assert_status(ESP_ERR_LIMIT, operate(&f, ESP_OP_INSERT, &args));
    assert_message(&f.t.err, "'new' at depth 33 would have 1026 bytes");
    args.id = ESP_STR("n");
    assert_ok(operate(&f, ESP_OP_INSERT, &args), &f.t.err);
    args = (struct esp_args){.id = ESP_STR("top")};
    assert_ok(operate(&f, ESP_OP_INSERT, &args), &f.t.err);
    args = (struct esp_args){.at.id = f.model.node[0].id, .to.id = ESP_STR("top")};
    uint64_t written = f.t.session->usage.items_written;
    assert_status(ESP_ERR_LIMIT, operate(&f, ESP_OP_MOVE, &args));
    args = (struct esp_args){.id = ESP_STR("a/b")};
    assert_status(ESP_ERR_INPUT, operate(&f, ESP_OP_INSERT, &args));
    args = (struct esp_args){.id = {"", 0}};
    assert_status(ESP_ERR_REFUSED, operate(&f, ESP_OP_INSERT, &args));
    assert_int_equal(f.t.session->usage.items_written, written);
    table_is_whole(&f);
    close_fixture(&f);
}

/* --- keys ------------------------------------------------------------------------- */

static enum esp_status keep_keys(void *ctx, const struct esp_item *item) {
    struct esp_str pk = item->value[0].s, sk = item->value[1].s;
    esp_buf_printf(ctx, "%.*s %.*s\n", ESP_FMT(pk), ESP_FMT(sk));
    return ESP_OK;
}

static void keys_are(struct esp_strings sets, struct esp_forest *forest, const char *expected) {
    struct esp_layout layout = layout_of(sets);
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_arena scratch;
    struct esp_buf out;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&out, &esp_alloc_libc, 4096);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    for (esp_node v = 0; v < forest->count; v++) { /* each from the middle of the tree */
        assert_int_equal(layout.ops->emit(&layout, forest, v, 1, &scratch, keep_keys, &out),
                         ESP_OK);
    }
    assert_string_equal(esp_buf_cstr(&out), expected);
    esp_buf_fini(&out);
    esp_arena_fini(&scratch);
    esp_forest_free(forest);
}

static void ways_are_keys(void **state) {
    (void)state;
    static const struct row rows[] = {{"r", "", "root"},      {"a", "r", "docs"},
                                      {"b", "a", "work"},     {"c", "b", "100%"},
                                      {"d/d", "c", "report"}, {"e", "d/d", "x"}};
    struct esp_strings none = {{NULL}, 0};
    keys_are(none, forest_of(rows, 4), "r r\nr r/a\nr r/a/b\nr r/a/b/c\n");
    keys_are((struct esp_strings){{"by=name", "hierarchy=FILESYSTEM", "separator=#"}, 3},
             forest_of(rows, 4),
             "FILESYSTEM root\nFILESYSTEM root#docs\nFILESYSTEM root#docs#work\n"
             "FILESYSTEM root#docs#work#100%\n");
    keys_are((struct esp_strings){{"by=name", "escape=percent"}, 2}, forest_of(rows, 4),
             "r root\nr root/docs\nr root/docs/work\nr root/docs/work/100%25\n");
    keys_are((struct esp_strings){{"segment=2", "escape=percent"}, 2}, forest_of(rows, 6),
             "r r\nr r/a\nr/a b\nr/a b/c\nr/c d%2Fd\nr/c d%2Fd/e\n");
    keys_are((struct esp_strings){{"segment=1", "escape=percent", "hierarchy=H"}, 3},
             forest_of(rows, 6), "H r\nH/r a\nH/a b\nH/b c\nH/c d%2Fd\nH/d%2Fd e\n");
    keys_are((struct esp_strings){{"segment=9", "escape=percent"}, 2}, forest_of(rows, 6),
             "r r\nr r/a\nr r/a/b\nr r/a/b/c\nr r/a/b/c/d%2Fd\nr r/a/b/c/d%2Fd/e\n");
}

/* --- segments --------------------------------------------------------------------- */

static void a_chain_may_be_of_any_depth(void **state) {
    (void)state;
    static const struct esp_strings sets[] = {
        {{"segment=8"}, 1}, {{"segment=1", "depth=off"}, 2}, {{"segment=33", "hierarchy=H"}, 2}};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct fixture f;
        uint32_t last = 2499;
        open_fixture(&f, sets[i], chain(last + 1));
        table_is_whole(&f);
        compare(&f, ESP_OP_ANCESTORS, last);
        compare(&f, ESP_OP_DESCENDANTS, 0);
        compare(&f, ESP_OP_PARENT, 8);
        compare(&f, ESP_OP_LEAVES, 2000);
        struct esp_args args = {.at.id = f.model.node[last].id, .to.id = f.model.node[3].id};
        assert_ok(operate(&f, ESP_OP_IS_DESCENDANT, &args), &f.t.err);
        assert_int_equal(f.t.access.value, 1);
        args = (struct esp_args){.at.id = f.model.node[3].id, .to.id = f.model.node[last].id};
        assert_ok(operate(&f, ESP_OP_IS_DESCENDANT, &args), &f.t.err);
        assert_int_equal(f.t.access.value, 0);
        assert_status(ESP_ERR_CYCLE, operate(&f, ESP_OP_MOVE, &args));
        /* the lower half goes up, cut in other places */
        args = (struct esp_args){.at.id = f.model.node[1001].id, .to.id = f.model.node[2].id};
        assert_ok(operate(&f, ESP_OP_MOVE, &args), &f.t.err);
        assert_int_equal(model_write(&f.model, ESP_OP_MOVE, &args), ESP_OK);
        args = (struct esp_args){.at.id = f.model.node[5].id};
        assert_ok(operate(&f, ESP_OP_PROMOTE, &args), &f.t.err);
        assert_int_equal(model_write(&f.model, ESP_OP_PROMOTE, &args), ESP_OK);
        table_is_whole(&f);
        compare(&f, ESP_OP_ANCESTORS, last);
        compare(&f, ESP_OP_ANCESTORS, 1000);
        compare(&f, ESP_OP_DESCENDANTS, 0);
        args = (struct esp_args){.at.id = f.model.node[1200].id};
        assert_ok(operate(&f, ESP_OP_REMOVE, &args), &f.t.err);
        assert_int_equal(model_write(&f.model, ESP_OP_REMOVE, &args), ESP_OK);
        compare(&f, ESP_OP_DESCENDANTS, 0);
        table_is_whole(&f);
        close_fixture(&f);
    }
}

/* What an operation at D (by key) costs; its answer is the model's. */
static struct esp_usage usage_at_d(struct fixture *f, uint32_t hi) {
    struct esp_args args = {.lo = 1, .hi = hi};
    struct answer got = {.model = &f->model};
    esp_arena_reset(&f->t.scratch);
    assert_ok(esp_resolve(&f->t.access, ESP_STR("D"), &args.at), &f->t.err);
    memset(&f->t.session->usage, 0, sizeof f->t.session->usage);
    assert_ok(esp_operate(&f->t.access, ESP_OP_WINDOW, &args, keep, &got), &f->t.err);
    free(got.node);
    return f->t.session->usage;
}

/* D and its children are one partition; III, IV and V have one each, d ends no segment; i, ii and
 * iii do. */
static void partitions_of_a_step_are_asked_together(void **state) {
    (void)state;
    static const struct {
        uint32_t hi;
        uint64_t requests, round_trips;
    } wants[] = {{1, 1, 1}, {2, 1 + 3, 2}, {3, 1 + 3, 2}, {UINT32_MAX, 1 + 3 + 3, 3}};
    struct fixture f;
    open_fixture(&f, (struct esp_strings){{"segment=2"}, 1}, drives_forest());
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        struct esp_usage usage = usage_at_d(&f, wants[i].hi);
        assert_int_equal(usage.requests, wants[i].requests);
        assert_int_equal(usage.round_trips, wants[i].round_trips);
    }
    close_fixture(&f);
}

/* Mostly below one of the last three nodes. */
static struct esp_forest *deep_forest(struct esp_rng *rng, uint32_t nodes) {
    char(*id)[16] = calloc(nodes, sizeof *id), (*name)[16] = calloc(nodes, sizeof *name);
    struct row *rows = calloc(nodes, sizeof *rows);
    assert_true(id && rows && name);
    for (uint32_t v = 0; v < nodes; v++) {
        uint32_t back = 1 + (uint32_t)esp_rng_below(rng, v < 3 ? v + 1 : 3);
        snprintf(id[v], sizeof id[v], "n%u", v);
        /* n1, n2 ... differ among siblings, and are often the same below each other */
        snprintf(name[v], sizeof name[v], v % 5 ? "%u/%u" : "%u", v % 7, v / 7 % 9);
        rows[v] =
            (struct row){id[v], v >= back && esp_rng_below(rng, 30) ? id[v - back] : "", name[v]};
    }
    struct esp_forest *forest = forest_of(rows, nodes);
    free(rows);
    free(id);
    free(name);
    return forest;
}

static void random_write(struct fixture *f, struct esp_rng *rng) {
    struct model *m = &f->model;
    uint32_t v = random_node(rng, m), to = random_node(rng, m);
    struct esp_args args = {.at.id = m->node[v].id};
    enum esp_op op = ESP_OP_MOVE;
    if (esp_rng_below(rng, 6)) {
        args.to.id = m->node[to].id;
    }
    if (esp_rng_below(rng, 4) == 0) {
        args.to.id = (struct esp_str){"", 0};
        op = ESP_OP_PROMOTE;
    }
    struct esp_locator at;
    if (esp_rng_below(rng, 2)) {
        struct esp_arena *scratch = f->t.access.scratch;
        f->t.access.scratch = &m->arena; /* lives long enough */
        assert_ok(esp_resolve(&f->t.access, args.at.id, &at), &f->t.err);
        f->t.access.scratch = scratch;
        args.at.key = at.key;
    }
    enum esp_status status = operate(f, op, &args);
    assert_int_equal(status, model_write(m, op, &args));
}

static void deep_trees_move_in_segments(void **state) {
    (void)state;
    static const struct esp_strings sets[] = {{{"segment=1"}, 1},
                                              {{"segment=2", "depth=off"}, 2},
                                              {{"segment=3", "hierarchy=H"}, 2},
                                              {{"segment=5", "escape=percent"}, 2},
                                              {{"segment=4", "by-id=off"}, 2}};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct fixture f;
        struct esp_rng rng;
        esp_rng_init(&rng, seed, 7);
        open_fixture(&f, sets[seed % 5], deep_forest(&rng, 120));
        for (uint32_t i = 0; i < 40; i++) {
            random_write(&f, &rng);
            table_is_whole(&f);
            if (i % 13 == 12) {
                tree_is_the_models(&f);
            }
        }
        close_fixture(&f);
    }
}

/* --- names ------------------------------------------------------------------------ */

static struct esp_str name_of(const struct model *m, uint32_t v) {
    struct esp_str text;
    assert_true(esp_data_find(m->node[v].data, ESP_STR("name"), &text));
    return text;
}

/* Is the name taken below that parent, by another than v? */
static bool is_taken(const struct fixture *f, uint32_t parent, struct esp_str name, uint32_t v) {
    for (uint32_t other = 0; other < f->model.count; other++) {
        const struct model_node *node = &f->model.node[other];
        if (other != v && node->alive && node->parent == parent &&
            esp_str_eq(name_of(&f->model, other), name)) {
            return parent != ESP_NODE_NONE || f->layout.settings.hierarchy;
        }
    }
    return false;
}

static void rename_one(struct fixture *f, struct esp_rng *rng, uint32_t v) {
    char name[16], room[64];
    snprintf(name, sizeof name, "%u/%u", (uint32_t)esp_rng_below(rng, 7),
             (uint32_t)esp_rng_below(rng, 9));
    struct esp_args args = {.at.id = f->model.node[v].id,
                            .data = name_data(name, room, sizeof room)};
    char text[32];
    snprintf(text, sizeof text, "{\"S\":\"%s\"}", name);
    bool is = is_taken(f, f->model.node[v].parent, esp_str_from(text), v);
    assert_int_equal(is ? ESP_ERR_EXISTS : ESP_OK, operate(f, ESP_OP_UPDATE, &args));
    if (!is) {
        assert_int_equal(model_write(&f->model, ESP_OP_UPDATE, &args), ESP_OK);
    }
}

static void promote_one(struct fixture *f, uint32_t v) {
    struct model *m = &f->model;
    struct esp_args args = {.at.id = m->node[v].id};
    enum esp_status want = ESP_OK;
    for (uint32_t c = 0; c < m->count; c++) {
        if (!m->node[c].alive || m->node[c].parent != v) {
            continue;
        }
        if (m->node[v].parent == ESP_NODE_NONE) {
            want = ESP_ERR_REFUSED;
        } else if (is_taken(f, m->node[v].parent, name_of(m, c), c)) {
            want = ESP_ERR_EXISTS;
        }
    }
    assert_int_equal(want, operate(f, ESP_OP_PROMOTE, &args));
    if (want == ESP_OK) {
        assert_int_equal(model_write(m, ESP_OP_PROMOTE, &args), ESP_OK);
    }
}

static void move_one(struct fixture *f, struct esp_rng *rng, uint32_t v) {
    struct model *m = &f->model;
    uint32_t to = esp_rng_below(rng, 6) ? random_node(rng, m) : ESP_NODE_NONE;
    struct esp_args args = {.at.id = m->node[v].id};
    if (to != ESP_NODE_NONE) {
        args.to.id = m->node[to].id;
    }
    bool is = is_taken(f, to, name_of(m, v), v);
    enum esp_status status = operate(f, ESP_OP_MOVE, &args);
    if (status == ESP_ERR_EXISTS) {
        assert_true(is);
        assert_message(&f->t.err, "there is another node at ");
    } else {
        assert_int_equal(status, model_write(m, ESP_OP_MOVE, &args));
        assert_true(status != ESP_OK || !is);
    }
}

static void insert_one(struct fixture *f, struct esp_rng *rng, uint32_t to, uint32_t number) {
    char name[16], room[64], id[16], text[32];
    snprintf(name, sizeof name, "%u/%u", number % 3, (uint32_t)esp_rng_below(rng, 9));
    snprintf(text, sizeof text, "{\"S\":\"%s\"}", name);
    snprintf(id, sizeof id, "new%u", number);
    struct esp_args args = {.id = esp_str_from(id),
                            .to.id = f->model.node[to].id,
                            .data = name_data(name, room, sizeof room)};
    bool is = is_taken(f, to, esp_str_from(text), ESP_NODE_NONE);
    assert_int_equal(is ? ESP_ERR_EXISTS : ESP_OK, operate(f, ESP_OP_INSERT, &args));
    if (!is) {
        assert_int_equal(model_write(&f->model, ESP_OP_INSERT, &args), ESP_OK);
        args.to.id = f->model.node[random_node(rng, &f->model)].id;
        assert_status(ESP_ERR_EXISTS, operate(f, ESP_OP_INSERT, &args));
    }
}

static void names_are_keys(void **state) {
    (void)state;
    static const struct esp_strings sets[] = {
        {{"by=name", "escape=percent"}, 2},
        {{"by=name", "separator=#", "hierarchy=H", "ancestors=on"}, 4},
        {{"by=name", "separator=|", "depth=off", "by-id=off"}, 4}};
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct fixture f;
        struct esp_rng rng;
        esp_rng_init(&rng, seed, 8);
        open_fixture(&f, sets[seed % 3], deep_forest(&rng, 50));
        tree_is_the_models(&f);
        for (uint32_t i = 0; i < 60; i++) {
            uint32_t v = random_node(&rng, &f.model);
            switch (esp_rng_below(&rng, 4)) {
            case 0:
                rename_one(&f, &rng, v);
                break;
            case 1:
                promote_one(&f, v);
                break;
            case 2:
                insert_one(&f, &rng, v, i);
                break;
            default:
                move_one(&f, &rng, v);
            }
            table_is_whole(&f);
            if (i % 20 == 19) {
                tree_is_the_models(&f);
            }
        }
        close_fixture(&f);
    }
}

static void a_name_must_stay_one(void **state) {
    (void)state;
    static const struct row rows[] = {{"r", "", "root"}, {"a", "r", "x"}};
    struct fixture f;
    char room[64];
    struct esp_str name = ESP_STR("name");
    open_fixture(&f, (struct esp_strings){{"by=name"}, 1}, forest_of(rows, 2));
    struct esp_args args = {.at.id = ESP_STR("a"), .remove = &name, .remove_count = 1};
    assert_status(ESP_ERR_INPUT, operate(&f, ESP_OP_UPDATE, &args));
    assert_message(&f.t.err, "has no attribute 'name'");
    args = (struct esp_args){.at.id = ESP_STR("a"), .data = name_data("y/z", room, sizeof room)};
    assert_status(ESP_ERR_INPUT, operate(&f, ESP_OP_UPDATE, &args));
    assert_message(&f.t.err, "contains the separator '/'");
    args = (struct esp_args){.id = ESP_STR("b"), .to.id = ESP_STR("r")};
    assert_status(ESP_ERR_INPUT, operate(&f, ESP_OP_INSERT, &args));
    args.data = name_data("x", room, sizeof room);
    assert_status(ESP_ERR_EXISTS, operate(&f, ESP_OP_INSERT, &args));
    assert_message(&f.t.err, "there is another node at 'root/x'");
    tree_is_the_models(&f);
    close_fixture(&f);
}

/* --- writes that are cut ---------------------------------------------------------- */

/* The plan of the operation, cut after k writes, then the operation again; false: k was all. */
static bool tear(struct esp_strings sets, const struct row *rows, size_t count, enum esp_op op,
                 const struct esp_args *args, size_t k) {
    struct fixture f;
    struct esp_write_plan plan;
    struct esp_arena arena;
    open_fixture(&f, sets, forest_of(rows, count));
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    esp_write_plan_init(&plan, &f.layout.schema, &arena);
    f.t.access.plan = &plan;
    assert_ok(operate(&f, op, args), &f.t.err);
    f.t.access.plan = NULL;
    bool more = k < plan.count;
    /* Stages one after another, each from its end: its writes may go in any order. */
    uint32_t first = 0, end = 0;
    for (uint32_t i = 0; i < plan.count && i < k; i++) {
        if (i == end) {
            for (first = i; end < plan.count && plan.write[end].stage == plan.write[first].stage;) {
                end++;
            }
        }
        struct esp_write write = plan.write[end - 1 - (i - first)].write;
        assert_ok(esp_session_write(f.t.session, &write, 1, NULL, &f.t.err), &f.t.err);
        for (uint32_t later = i + 1; later < plan.count; later++) { /* puts come first */
            assert_true(write.kind != ESP_DELETE || plan.write[later].write.kind == ESP_DELETE);
        }
    }
    if (more) {
        assert_ok(operate(&f, op, args), &f.t.err);
    }
    assert_int_equal(model_write(&f.model, op, args), ESP_OK);
    tree_is_the_models(&f);
    esp_arena_fini(&arena);
    close_fixture(&f);
    return more;
}

static void cut_writes_are_repeated(void **state) {
    (void)state;
    static const struct row rows[] = {{"r", "", "r"},  {"a", "r", "a"}, {"b", "a", "b"},
                                      {"c", "b", "c"}, {"d", "c", "d"}, {"e", "d", "e"},
                                      {"f", "c", "f"}, {"g", "r", "g"}, {"h", "", "h"}};
    static const struct esp_strings by_name = {{"by=name"}, 1}, cut1 = {{"segment=1"}, 1},
                                    cut2 = {{"segment=2"}, 1}, none = {{NULL}, 0};
    static const struct {
        const struct esp_strings *sets;
        enum esp_op op;
        const char *at, *to;
    } cases[] = {
        {&by_name, ESP_OP_UPDATE, "a", ""}, {&by_name, ESP_OP_UPDATE, "r", ""},
        {&by_name, ESP_OP_MOVE, "b", "g"},  {&by_name, ESP_OP_PROMOTE, "b", ""},
        {&cut1, ESP_OP_PROMOTE, "b", ""},   {&cut2, ESP_OP_PROMOTE, "b", ""},
        {&none, ESP_OP_PROMOTE, "c", ""},   {&cut1, ESP_OP_MOVE, "b", "h"},
        {&cut2, ESP_OP_MOVE, "c", "g"},     {&cut2, ESP_OP_MOVE, "c", "r"},
        {&cut2, ESP_OP_MOVE, "d", "r"},     {&cut1, ESP_OP_MOVE, "c", ""},
        {&cut2, ESP_OP_MOVE, "h", "e"},     {&cut2, ESP_OP_MOVE, "b", "h"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char room[64];
        struct esp_args args = {.at.id = esp_str_from(cases[i].at),
                                .to.id = esp_str_from(cases[i].to)};
        if (cases[i].op == ESP_OP_UPDATE) {
            args.data = name_data("new", room, sizeof room);
        }
        size_t count = sizeof rows / sizeof rows[0];
        for (size_t k = 0; tear(*cases[i].sets, rows, count, cases[i].op, &args, k); k++) {
        }
    }
}

/* --- damage ----------------------------------------------------------------------- */

enum how { DELETE, SET, UNSET, REKEY, COPY };

static const struct damage {
    const char *set, *id;
    enum how how;
    const char *attr, *text; /* SET, UNSET; REKEY and COPY: pk and sk */
    const char *name, *found, *other;
} damages[] = {
    {NULL, "IV", DELETE, NULL, NULL, "missing-parent", "c", "IV"},
    {NULL, "e", SET, "depth", "7", "wrong-depth", "e", ""},
    {NULL, "e", UNSET, "depth", NULL, "wrong-depth", "e", ""},
    {NULL, "d", REKEY, "D", "D/IV/d", "bad-path", "i", "d"},
    {NULL, "e", REKEY, "D", "D/V/x", "bad-path", "e", ""},
    {NULL, "c", REKEY, "D", "D/no/c", "missing-parent", "c", "no"},
    {NULL, "i", COPY, "D", "D/IV/i", "duplicate-node", "i", ""},
    {NULL, "e", REKEY, "C", "D/V/e", "wrong-partition", "e", "V"},
    {NULL, "C", REKEY, "X", "C", "wrong-partition", "C", ""},
    {"ancestors=on", "e", SET, "ancestors", "x", "wrong-ancestors", "e", ""},
    {"ancestors=on", "e", UNSET, "ancestors", NULL, "wrong-ancestors", "e", ""},
    {"hierarchy=H", "e", REKEY, "J", "D/V/e", "wrong-partition", "e", ""},
    {"by=name", "V", SET, "name", "other", "bad-path", "V", ""},
    {"by=name", "i", SET, "parentId", "e", "bad-path", "i", "e"},
    {"by=name", "d", UNSET, "parentId", NULL, "bad-path", "d", ""},
    {"segment=2", "d", REKEY, "C/V", "d", "wrong-partition", "d", "V"},
    {"segment=2", "d", REKEY, "D/D", "d", "bad-path", "d", "D"},
    {"segment=2", "d", SET, "depth", "4", "wrong-depth", "d", "V"},
    {"segment=2", "V", DELETE, NULL, NULL, "missing-parent", "d", "V"},
    {"segment=1", "V", REKEY, "D/i", "V", "cycle", "i", "d"},
};

/* Every node's name is its id. */
static struct esp_forest *named_drives(void) {
    static const struct row rows[] = {
        {"C", "", "C"},    {"I", "C", "I"},   {"II", "C", "II"},   {"D", "", "D"},
        {"IV", "D", "IV"}, {"c", "IV", "c"},  {"V", "D", "V"},     {"d", "V", "d"},
        {"i", "d", "i"},   {"ii", "d", "ii"}, {"iii", "d", "iii"}, {"e", "V", "e"},
    };
    return forest_of(rows, sizeof rows / sizeof rows[0]);
}

static void break_item(struct fixture *f, const struct damage *damage) {
    struct esp_locator at;
    struct esp_item_list found;
    struct esp_error *err = &f->t.err;
    esp_item_list_init(&found, &f->t.access);
    assert_ok(esp_resolve(&f->t.access, esp_str_from(damage->id), &at), err);
    const struct esp_str *place = at.key; /* pk and sk come first */
    struct esp_item key = {0};
    key.value[0] = esp_s(place[0]);
    key.value[1] = esp_s(place[1]);
    struct esp_item copy = key;
    assert_ok(esp_session_get(f->t.session, &copy, 1, true, esp_item_list_add, &found, err), err);
    assert_int_equal(found.count, 1);
    struct esp_change change = {.kind = damage->how == UNSET ? ESP_CHANGE_REMOVE : ESP_CHANGE_SET};
    struct esp_write write = {.kind = ESP_UPDATE, .item = key, .changes = &change};
    if (damage->how == SET || damage->how == UNSET) {
        change.name = esp_str_from(damage->attr);
        change.value = strcmp(damage->attr, "depth") == 0 && damage->text
                           ? esp_n(strtol(damage->text, NULL, 10))
                           : esp_s(esp_str_from(damage->text));
        write.change_count = 1;
    } else if (damage->how != DELETE) {
        write = (struct esp_write){.kind = ESP_PUT, .item = found.item[0]};
        write.item.value[0] = esp_s(esp_str_from(damage->attr));
        write.item.value[1] = esp_s(esp_str_from(damage->text));
    }
    if (damage->how != DELETE) {
        assert_ok(esp_session_write(f->t.session, &write, 1, NULL, err), err);
    }
    if (damage->how == DELETE || damage->how == REKEY) {
        write = (struct esp_write){.kind = ESP_DELETE, .item = key};
        assert_ok(esp_session_write(f->t.session, &write, 1, NULL, err), err);
    }
}

struct findings {
    const struct damage *damage;
    bool found;
    char all[4096];
};

static enum esp_status note(void *ctx, const struct esp_finding *finding) {
    struct findings *f = ctx;
    size_t len = strlen(f->all);
    snprintf(f->all + len, sizeof f->all - len, "\n  %s '%.*s' '%.*s': %s", finding->name,
             ESP_FMT(finding->id), ESP_FMT(finding->other), finding->text);
    f->found = f->found || (strcmp(finding->name, f->damage->name) == 0 &&
                            esp_str_eq(finding->id, esp_str_from(f->damage->found)) &&
                            esp_str_eq(finding->other, esp_str_from(f->damage->other)));
    return ESP_OK;
}

static void every_damage_is_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *damage = &damages[i];
        struct findings after = {.damage = damage};
        struct fixture f;
        open_fixture(&f, (struct esp_strings){{damage->set}, damage->set != NULL}, named_drives());
        table_is_whole(&f);
        break_item(&f, damage);
        assert_ok(f.layout.ops->check(&f.t.access, note, &after), &f.t.err);
        if (!after.found) {
            fail_msg("case %zu: no %s '%s' '%s' among:%s", i, damage->name, damage->found,
                     damage->other, after.all);
        }
        close_fixture(&f);
    }
}

/* Anchors above each other: reads end, and say so where they cannot answer. */
static void loops_of_segments_end(void **state) {
    (void)state;
    static const struct damage loop = {.id = "V", .how = REKEY, .attr = "D/i", .text = "V"};
    struct fixture f;
    open_fixture(&f, (struct esp_strings){{"segment=1", "depth=off"}, 2}, named_drives());
    break_item(&f, &loop);
    struct esp_args args = {.at.id = ESP_STR("d"), .to.id = ESP_STR("c")};
    struct answer got = {.model = &f.model};
    esp_arena_reset(&f.t.scratch);
    assert_status(ESP_ERR_CYCLE, esp_operate(&f.t.access, ESP_OP_ANCESTORS, &args, keep, &got));
    assert_message(&f.t.err, "the table is damaged");
    assert_status(ESP_ERR_CYCLE, operate(&f, ESP_OP_IS_DESCENDANT, &args));
    esp_error_clear(&f.t.err);
    args.at.id = ESP_STR("d");
    assert_ok(operate(&f, ESP_OP_COUNT, &args), &f.t.err);
    assert_int_equal(f.t.access.value, 6); /* i, ii, iii, V, e, and itself again */
    free(got.node);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(names_that_make_no_key_are_named),
        cmocka_unit_test(long_keys_are_named),
        cmocka_unit_test(writes_that_would_not_fit),
        cmocka_unit_test(ways_are_keys),
        cmocka_unit_test(a_chain_may_be_of_any_depth),
        cmocka_unit_test(partitions_of_a_step_are_asked_together),
        cmocka_unit_test(deep_trees_move_in_segments),
        cmocka_unit_test(names_are_keys),
        cmocka_unit_test(a_name_must_stay_one),
        cmocka_unit_test(cut_writes_are_repeated),
        cmocka_unit_test(every_damage_is_found),
        cmocka_unit_test(loops_of_segments_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
