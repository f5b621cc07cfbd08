#include "tests/conformance/suite.h"

#include "converters/paging.h"
#include "tests/conformance/by_plan.h"
#include "tests/support/model.h"

#include <stdlib.h>

/* --- tables ----------------------------------------------------------------------- */

static enum esp_status put_item(void *ctx, const struct esp_item *item) {
    struct suite_table *t = ctx;
    return esp_session_bulk_put(t->session, item, &t->err);
}

/* In several ranges, the last one first: emit starts in the middle of trees, and finds nothing
 * useful in scratch from the range before. */
static void load(struct suite_table *t, const struct esp_forest *f) {
    uint32_t step = f->count > 6 ? f->count / 3 : f->count;
    uint64_t planned = 0;
    for (esp_node end = f->count; end > 0;) {
        uint32_t n = end < step ? end : step;
        esp_node v = end - n;
        end = v;
        esp_arena_reset(&t->scratch);
        assert_ok(t->layout->ops->emit(t->layout, f, v, n, &t->scratch, put_item, t), &t->err);
        planned += t->layout->ops->item_count(t->layout, f, v, n);
    }
    assert_ok(esp_session_bulk_flush(t->session, &t->err), &t->err);
    assert_int_equal(t->session->bulk.planned, planned);
    assert_int_equal(t->session->bulk.written, planned);
}

void suite_table_open(struct suite_table *t, struct esp_store *store,
                      const struct esp_layout *layout, const char *name,
                      const struct esp_forest *forest) {
    *t = (struct suite_table){.store = store, .layout = layout, .err = ESP_ERROR_INIT};
    esp_arena_init(&t->scratch, &esp_alloc_libc, SIZE_MAX);
    assert_ok(layout->ops->validate(layout, forest, &t->err), &t->err);
    assert_ok(store->ops->create_table(store, name, &layout->schema, &(struct esp_table_options){0},
                                       &t->err),
              &t->err);
    assert_ok(esp_table_open(store, name, &layout->schema, &t->table, &t->err), &t->err);
    assert_ok(esp_session_open(t->table, &t->session, &t->err), &t->err);
    t->access = (struct esp_access){
        .layout = layout, .session = t->session, .scratch = &t->scratch, .err = &t->err};
    load(t, forest);
}

void suite_table_close(struct suite_table *t) {
    char name[sizeof t->table->name];
    memcpy(name, t->table->name, sizeof name);
    esp_session_close(t->session);
    esp_table_close(t->table);
    assert_ok(t->store->ops->drop_table(t->store, name, &t->err), &t->err);
    esp_arena_fini(&t->scratch);
}

size_t suite_layouts(struct esp_layout layouts[SUITE_LAYOUTS_MAX]) {
    static const struct {
        const char *layout;
        struct esp_strings sets;
    } variants[] = {
        {"path", {{"separator=|", "attr.Path=p", "index.gsi1=by-root"}, 3}},
        {"path", {{"escape=percent"}, 1}},
        {"path", {{"depth=off", "separator=\xE2\x86\x92"}, 2}},
        {"tree-path", {{"separator=/", "escape=percent", "index.tree-index=by-tree"}, 3}},
        {"tree-path", {{"depth=off", "separator=\x1f"}, 2}},
        {"path-key", {{"by-id=off", "depth=off"}, 2}},
        {"path-key", {{"ancestors=on", "hierarchy=H"}, 2}},
        {"path-key", {{"separator=#", "escape=percent", "attr.sk=way", "index.by-id=ids"}, 4}},
        {"path-key", {{"segment=1"}, 1}},
        {"path-key", {{"segment=2", "hierarchy=H", "escape=percent"}, 3}},
        {"path-key", {{"segment=3", "by-id=off"}, 2}},
        {"path-key", {{"segment=3", "depth=off"}, 2}},
        {"nested-set", {{"gap=7"}, 1}},
        {"nested-set", {{"gap=2"}, 1}},
        {"nested-set", {{"gap=1000000"}, 1}},
        {"nested-set", {{"gap=1000000000000"}, 1}},
        {"adjacency", {{"depth=off"}, 1}},
        {"entity", {{"separator=|", "refs=on"}, 2}},
        {"entity", {{"depth=off"}, 1}},
        {"entity", {{"depth=off", "refs=on", "node=NODE#"}, 3}},
        {"graph", {{"node=", "edge=CHILDOF"}, 2}},
        {"graph", {{"edge-set-omit=PARENT"}, 1}},
        {"graph", {{"edge-set-max=200"}, 1}},
        {"graph", {{"edge-set-max=30", "attr.gsi0=rank", "index.gsi0-index=by-target"}, 3}},
    };
    struct esp_error err = ESP_ERROR_INIT;
    size_t n = 0;
    for (size_t i = 0; esp_layouts[i]; i++) {
        assert_ok(esp_layout_init(&layouts[n++], esp_layouts[i], NULL, &err), &err);
    }
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const struct esp_layout_ops *ops = esp_layout_find(variants[i].layout);
        assert_non_null(ops);
        assert_ok(esp_layout_init(&layouts[n++], ops, &variants[i].sets, &err), &err);
    }
    return n;
}

/* --- forests ---------------------------------------------------------------------- */

static bool is_path_family(const struct esp_layout *layout) {
    return strcmp(layout->ops->family, "path") == 0;
}

/* What ids the layout takes.  Paths have 1024 bytes, and so has a sort key with an id in it. */
static struct esp_test_forest_options forest_options(const struct esp_layout *layout,
                                                     uint32_t nodes_max) {
    bool paths = is_path_family(layout);
    return (struct esp_test_forest_options){
        .nodes_max = nodes_max,
        .without = paths && !layout->settings.escape ? layout->settings.separator : NULL,
        .long_id_bytes = paths ? 100 : 900,
    };
}

struct esp_forest *suite_forest(const struct esp_layout *layout, struct esp_rng *rng,
                                uint32_t nodes_max) {
    struct esp_test_forest_options options = forest_options(layout, nodes_max);
    for (;;) {
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_forest *forest = esp_test_random_forest(rng, &options);
        enum esp_status status = layout->ops->validate(layout, forest, &err);
        if (status != ESP_ERR_LIMIT || options.long_id_bytes == 0) {
            assert_ok(status, &err);
            return forest;
        }
        esp_forest_free(forest); /* the paths are too long */
        options.long_id_bytes = 0;
    }
}

/* --- one forest ------------------------------------------------------------------- */

struct run {
    struct suite_table t;
    const struct suite_options *options;
    const struct esp_forest *forest; /* NULL after the first write: keys come from resolve */
    struct esp_forest_ids *ids;
    struct esp_rng rng;
    uint64_t seed;
    uint32_t step; /* writes so far */
    uint32_t next_id;
    struct model model;
    struct esp_arena keys; /* of locators */
    /* what an operation answered */
    struct esp_arena kept;
    struct esp_node_view *node;
    uint32_t count, cap;
    const char *doing; /* "native", "derived" ... */
    bool beside;       /* the derived plan of an operation that has a native one */
    enum esp_op op;
    struct esp_args args;
};

#define run_fail(r, fmt, ...)                                                                      \
    fail_msg("%s seed %llu write %u: %s %s '%.*s' (key %d) to '%.*s' (key %d) %u..%u: " fmt,       \
             (r)->t.layout->ops->name, (unsigned long long)(r)->seed, (r)->step, (r)->doing,       \
             esp_op_info[(r)->op].name, ESP_FMT((r)->args.at.id), (r)->args.at.key != NULL,        \
             ESP_FMT((r)->args.to.id), (r)->args.to.key != NULL, (r)->args.lo, (r)->args.hi,       \
             __VA_ARGS__)

static enum esp_status keep_node(void *ctx, const struct esp_node_view *node) {
    struct run *r = ctx;
    if (r->count == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 64;
        r->node = realloc(r->node, r->cap * sizeof *r->node);
        assert_non_null(r->node);
    }
    struct esp_node_view *copy = &r->node[r->count++];
    struct esp_str data = {node->data.text, node->data.len};
    *copy = *node;
    copy->id = esp_arena_dup(&r->kept, node->id);
    if (node->parent_id.ptr) {
        copy->parent_id = esp_arena_dup(&r->kept, node->parent_id);
    }
    copy->data.text = esp_arena_dup(&r->kept, data).ptr;
    return ESP_OK;
}

static int by_id(const void *a, const void *b) {
    return esp_str_cmp(((const struct esp_node_view *)a)->id,
                       ((const struct esp_node_view *)b)->id);
}

static const struct model *sort_model;
static int by_model_id(const void *a, const void *b) {
    return esp_str_cmp(sort_model->node[*(const uint32_t *)a].id,
                       sort_model->node[*(const uint32_t *)b].id);
}

static void compare_node(struct run *r, const struct esp_node_view *got, uint32_t v) {
    const struct model_node *want = &r->model.node[v];
    if (!esp_str_eq(got->id, want->id)) {
        run_fail(r, "answered '%.*s', not '%.*s'", ESP_FMT(got->id), ESP_FMT(want->id));
    }
    if (!esp_data_equal(got->data, want->data) || got->data.size != want->data.size) {
        run_fail(r, "'%.*s' has the payload {%.*s} (%u), not {%.*s} (%u)", ESP_FMT(got->id),
                 (int)got->data.len, got->data.text, got->data.size, (int)want->data.len,
                 want->data.text, want->data.size);
    }
    if (got->depth >= 0 && got->depth != model_depth(&r->model, v)) {
        run_fail(r, "'%.*s' has the depth %lld, not %u", ESP_FMT(got->id), (long long)got->depth,
                 model_depth(&r->model, v));
    }
    struct esp_str parent =
        want->parent == ESP_NODE_NONE ? (struct esp_str){"", 0} : r->model.node[want->parent].id;
    if (got->parent_id.ptr && !esp_str_eq(got->parent_id, parent)) {
        run_fail(r, "'%.*s' has the parent '%.*s', not '%.*s'", ESP_FMT(got->id),
                 ESP_FMT(got->parent_id), ESP_FMT(parent));
    }
    if (r->op == ESP_OP_TREE && !r->beside && (got->depth < 0 || !got->parent_id.ptr)) {
        run_fail(r, "'%.*s' came without its parent or depth", ESP_FMT(got->id));
    }
}

static void compare_answer(struct run *r, enum esp_status status, bool ordered) {
    struct model_answer want = model_read(&r->model, r->op, &r->args);
    if (status != want.status) {
        run_fail(r, "%s (%s), not %s", esp_status_name(status), r->t.err.message,
                 esp_status_name(want.status));
    }
    if (r->count != want.count) {
        run_fail(r, "%u nodes, not %u", r->count, want.count);
    }
    if (status == ESP_OK && (r->op == ESP_OP_COUNT || r->op == ESP_OP_IS_DESCENDANT) &&
        r->t.access.value != want.value) {
        run_fail(r, "%llu, not %llu", (unsigned long long)r->t.access.value,
                 (unsigned long long)want.value);
    }
    if (!ordered && r->count) {
        qsort(r->node, r->count, sizeof *r->node, by_id);
        sort_model = &r->model;
        qsort(want.node, want.count, sizeof *want.node, by_model_id);
    }
    for (uint32_t i = 0; i < r->count; i++) {
        compare_node(r, &r->node[i], want.node[i]);
    }
    free(want.node);
}

static void begin(struct run *r, const char *doing) {
    r->doing = doing;
    r->count = 0;
    esp_arena_reset(&r->kept);
    esp_arena_reset(&r->t.scratch);
    esp_error_clear(&r->t.err);
}

enum { PAGED_READ_IN = 3 }; /* reads are also done in pages */

/* Page after page, each from nothing but the text that the one before ended with. */
static enum esp_status read_pages(struct run *r, uint64_t limit) {
    char start[1 << 14] = "";
    enum esp_status status = ESP_OK;
    for (uint32_t pages = 0; status == ESP_OK && (pages == 0 || start[0]); pages++) {
        struct esp_paging paging = {.limit = limit, .start = esp_str_from(start)};
        uint32_t before = r->count;
        esp_arena_reset(&r->t.scratch);
        r->t.access.paging = &paging;
        status = esp_operate(&r->t.access, r->op, &r->args, keep_node, r);
        r->t.access.paging = NULL;
        assert_null(paging.run);
        if (pages > r->model.count + 2) {
            run_fail(r, "there is no end of pages: %u", pages);
        }
        if (r->count - before > limit) {
            run_fail(r, "page %u has %u nodes, not %u at most", pages, r->count - before,
                     (unsigned)limit);
        }
        /* Only the last page may be less than full. */
        if (status == ESP_OK && paging.next.len && r->count - before != limit) {
            run_fail(r, "page %u has %u nodes, not %u", pages, r->count - before, (unsigned)limit);
        }
        assert_true(paging.next.len < sizeof start);
        memcpy(start, paging.next.ptr ? paging.next.ptr : "", paging.next.len);
        start[paging.next.len] = 0;
    }
    return status;
}

/* The operation as it is planned, now and then in pages; the derived plan beside a native one. */
static void read_and_compare(struct run *r) {
    const struct esp_layout_ops *ops = r->t.layout->ops;
    bool ordered = r->op == ESP_OP_ANCESTORS || (ops->ordered && r->op != ESP_OP_ROOTS);
    begin(r, ops->op[r->op] ? "native" : "derived");
    enum esp_status status = esp_operate(&r->t.access, r->op, &r->args, keep_node, r);
    compare_answer(r, status, ordered);
    static const uint64_t limits[] = {1, 2, 3, 1000};
    if (esp_rng_below(&r->rng, PAGED_READ_IN) == 0) {
        begin(r, "paged");
        status = read_pages(r, limits[esp_rng_below(&r->rng, sizeof limits / sizeof limits[0])]);
        compare_answer(r, status, r->op == ESP_OP_ANCESTORS);
    }
    if (ops->op[r->op] && esp_derived[r->op]) {
        begin(r, "derived too");
        status = esp_derived[r->op](&r->t.access, &r->args, keep_node, r);
        r->beside = true;
        if (status != ESP_ERR_UNSUPPORTED) {
            compare_answer(r, status, ordered);
        }
        r->beside = false;
    }
}

/* A locator with the key that a client knows, or that the table tells. */
static struct esp_locator locate(struct run *r, struct esp_str id, bool key) {
    struct esp_locator out = {.id = id};
    if (!key) {
        return out;
    }
    if (r->forest) {
        esp_node v = esp_forest_find(r->ids, id);
        assert_ok(r->t.layout->ops->locate(r->t.layout, r->forest, v, &r->keys, &out), &r->t.err);
    } else {
        begin(r, "resolve");
        struct esp_arena *scratch = r->t.access.scratch;
        r->t.access.scratch = &r->keys;
        assert_ok(esp_resolve(&r->t.access, id, &out), &r->t.err);
        r->t.access.scratch = scratch;
    }
    assert_true(esp_str_eq(out.id, id));
    return out;
}

static bool any_alive(const struct run *r) {
    for (uint32_t v = 0; v < r->model.count; v++) {
        if (r->model.node[v].alive) {
            return true;
        }
    }
    return false;
}

/* The caller knows that there is one. */
static uint32_t random_node(struct run *r) {
    uint32_t v;
    if (!any_alive(r)) {
        run_fail(r, "%s", "no node is left to ask of");
    }
    do {
        v = (uint32_t)esp_rng_below(&r->rng, r->model.count);
    } while (!r->model.node[v].alive);
    return v;
}

static void read_at(struct run *r, uint32_t v, bool key) {
    uint32_t other = random_node(r), root = model_root(&r->model, v);
    uint32_t depth = model_depth(&r->model, v);
    struct esp_locator at = locate(r, r->model.node[v].id, key);
    struct esp_locator top = locate(r, r->model.node[root].id, key);
    struct esp_locator to = locate(r, r->model.node[other].id, key && esp_rng_below(&r->rng, 2));
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (esp_op_info[op].write || !esp_op_measured(op)) {
            continue;
        }
        r->op = (enum esp_op)op;
        r->args = (struct esp_args){.at = at};
        if (op == ESP_OP_LEVEL || op == ESP_OP_TREE) {
            r->args.at = top;
            r->args.lo = (uint32_t)esp_rng_below(&r->rng, depth + 3);
        } else if (op == ESP_OP_LCA || op == ESP_OP_IS_DESCENDANT) {
            r->args.to = to;
        } else if (op == ESP_OP_WINDOW) {
            r->args.lo = (uint32_t)esp_rng_below(&r->rng, 4);
            r->args.hi = esp_rng_below(&r->rng, 3)
                             ? r->args.lo + (uint32_t)esp_rng_below(&r->rng, 3)
                             : UINT32_MAX;
        }
        read_and_compare(r);
    }
}

/* Every read of a node that is not there. */
static void read_missing(struct run *r) {
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (esp_op_info[op].write || !esp_op_measured(op) || op == ESP_OP_ROOTS) {
            continue;
        }
        r->op = (enum esp_op)op;
        r->args = (struct esp_args){.at.id = ESP_STR("not there"), .lo = 1, .hi = 2};
        r->args.to.id = r->model.node[random_node(r)].id;
        read_and_compare(r);
        if (op == ESP_OP_LCA || op == ESP_OP_IS_DESCENDANT) {
            struct esp_locator at = r->args.at;
            r->args.at = r->args.to;
            r->args.to = at;
            read_and_compare(r);
        }
    }
}

static enum esp_status no_finding(void *ctx, const struct esp_finding *finding) {
    struct run *r = ctx;
    run_fail(r, "check found %s of '%.*s' / '%.*s': %s", finding->name, ESP_FMT(finding->id),
             ESP_FMT(finding->other), finding->text);
    return ESP_OK;
}

static void check_table(struct run *r) {
    begin(r, "check after");
    assert_ok(r->t.layout->ops->check(&r->t.access, no_finding, r), &r->t.err);
}

static void read_round(struct run *r, uint32_t sample) {
    check_table(r);
    for (uint32_t i = 0; i < sample && any_alive(r); i++) {
        uint32_t v = random_node(r);
        esp_arena_reset(&r->keys);
        read_at(r, v, false);
        read_at(r, v, true);
    }
    r->op = ESP_OP_ROOTS;
    r->args = (struct esp_args){.lo = 0};
    read_and_compare(r);
}

/* --- writes ----------------------------------------------------------------------- */

/* A node, or now and then one that is not there; by id or by key. */
static struct esp_locator random_locator(struct run *r) {
    if (!any_alive(r) || esp_rng_below(&r->rng, 15) == 0) {
        return (struct esp_locator){.id = ESP_STR("not there")};
    }
    return locate(r, r->model.node[random_node(r)].id, esp_rng_below(&r->rng, 2));
}

/* Below a node, or now and then as a tree.  True: an id may be one that is there; not together
 * with a parent that is not, because then either may be complained of. */
static bool choose_parent(struct run *r) {
    if (esp_rng_below(&r->rng, 6)) {
        r->args.to = random_locator(r);
    }
    bool parent_there = !r->args.to.id.len || model_find(&r->model, r->args.to.id) != ESP_NODE_NONE;
    return parent_there && any_alive(r) && esp_rng_below(&r->rng, 8) == 0;
}

static void choose_insert(struct run *r, char id[TEST_ID_BYTES_MAX],
                          char data[TEST_DATA_BYTES_MAX]) {
    struct esp_test_forest_options options = forest_options(r->t.layout, 1);
    r->op = ESP_OP_INSERT;
    if (choose_parent(r)) {
        r->args.id = r->model.node[random_node(r)].id;
    } else {
        r->args.id = esp_test_random_id(&r->rng, &options, r->next_id++, id);
    }
    r->args.data = esp_test_random_data(&r->rng, data);
}

/* The subtree is the caller's to free. */
static struct esp_forest *choose_subtree(struct run *r) {
    struct esp_test_forest_options options = forest_options(r->t.layout, 8);
    options.numbers_from = r->next_id;
    r->next_id += options.nodes_max;
    r->op = ESP_OP_INSERT_SUBTREE;
    if (choose_parent(r)) {
        options.another_id = r->model.node[random_node(r)].id;
    }
    struct esp_forest *subtree = esp_test_random_forest(&r->rng, &options);
    r->args.subtree = subtree;
    return subtree;
}

static void choose_update(struct run *r, char data[TEST_DATA_BYTES_MAX], struct esp_str *remove) {
    r->op = ESP_OP_UPDATE;
    r->args.at = random_locator(r);
    r->args.data = esp_test_random_data(&r->rng, data);
    uint64_t at = esp_rng_below(&r->rng, 4);
    *remove = at < 3 ? esp_str_from(esp_test_data_names[at]) : ESP_STR("no such attribute");
    r->args.remove = remove;
    r->args.remove_count = 1;
    struct esp_member member;
    for (size_t pos = 0; esp_data_next(r->args.data, &pos, &r->t.scratch, &member);) {
        if (esp_str_eq(member.name, *remove)) {
            r->args.remove_count = 0;
        }
    }
}

/* Bytes of the ids from `top`'s child (NONE: from the root) down to v, with a byte each between. */
static size_t way_bytes(const struct model *m, uint32_t v, uint32_t top) {
    size_t bytes = 0;
    for (; v != top && v != ESP_NODE_NONE; v = m->node[v].parent) {
        bytes += m->node[v].id.len + 1;
    }
    return bytes;
}

static size_t subtree_way_bytes(const struct esp_forest *f) {
    size_t longest = 0;
    for (esp_node v = 0; v < f->count; v++) {
        size_t bytes = 0;
        for (esp_node u = v; u != ESP_NODE_NONE; u = f->parent[u]) {
            bytes += esp_forest_id(f, u).len + 1;
        }
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

/* May a path layout say that the paths would be too long?  Escapes make three bytes of one. */
static bool paths_may_be_too_long(const struct run *r) {
    const struct model *m = &r->model;
    uint32_t to = r->args.to.id.len ? model_find(m, r->args.to.id) : ESP_NODE_NONE;
    size_t below = r->args.id.len + 1;
    if (r->op == ESP_OP_INSERT_SUBTREE) {
        below = subtree_way_bytes(r->args.subtree);
    } else if (r->op == ESP_OP_MOVE) {
        struct model_answer all = model_read(m, ESP_OP_DESCENDANTS, &r->args);
        uint32_t at = model_find(m, r->args.at.id);
        below = r->args.at.id.len + 1;
        for (uint32_t i = 0; i < all.count; i++) {
            size_t bytes = way_bytes(m, all.node[i], m->node[at].parent);
            below = bytes > below ? bytes : below;
        }
        free(all.node);
    }
    bool longer = r->op == ESP_OP_INSERT || r->op == ESP_OP_INSERT_SUBTREE || r->op == ESP_OP_MOVE;
    return longer && is_path_family(r->t.layout) &&
           3 * (way_bytes(m, to, ESP_NODE_NONE) + below) > ESP_SK_BYTES_MAX;
}

/* At once or, half of the time, by a plan. */
static void do_write(struct run *r) {
    bool planned = esp_rng_below(&r->rng, 2);
    begin(r, planned ? "by plan" : "write");
    enum esp_status status = planned ? by_plan(&r->t, r->op, &r->args)
                                     : esp_operate(&r->t.access, r->op, &r->args, keep_node, r);
    assert_int_equal(r->count, 0);
    r->forest = NULL;
    r->step++;
    if (status == ESP_ERR_LIMIT && paths_may_be_too_long(r)) {
        return; /* nothing has changed */
    }
    enum esp_status want = model_write(&r->model, r->op, &r->args);
    /* What the items themselves refuse comes without the operation's words. */
    if (planned && status == ESP_ERR_CONDITION &&
        (want == ESP_ERR_EXISTS || want == ESP_ERR_NOT_FOUND)) {
        status = want;
    }
    if (status != want) {
        run_fail(r, "%s (%s), not %s", esp_status_name(status), r->t.err.message,
                 esp_status_name(want));
    }
}

/* An operation that some layouts have not, or another one. */
static enum esp_op one_of(const struct run *r, enum esp_op extra, enum esp_op other) {
    return esp_layout_has(r->t.layout, extra) ? extra : other;
}

static void random_write(struct run *r) {
    char id[TEST_ID_BYTES_MAX], data[TEST_DATA_BYTES_MAX];
    struct esp_str remove;
    struct esp_forest *subtree = NULL;
    uint64_t dice = esp_rng_below(&r->rng, 24);
    r->args = (struct esp_args){.lo = 0};
    esp_arena_reset(&r->keys);
    if (dice < 6 || !any_alive(r)) {
        choose_insert(r, id, data);
    } else if (dice < 9 && one_of(r, ESP_OP_INSERT_SUBTREE, ESP_OP_INSERT) == ESP_OP_INSERT) {
        choose_insert(r, id, data);
    } else if (dice < 9) {
        subtree = choose_subtree(r);
    } else if (dice < 12) {
        choose_update(r, data, &remove);
    } else {
        r->op = dice < 20   ? ESP_OP_MOVE
                : dice < 22 ? ESP_OP_REMOVE
                            : one_of(r, ESP_OP_PROMOTE, ESP_OP_MOVE);
        r->args.at = random_locator(r);
        if (r->op == ESP_OP_MOVE && esp_rng_below(&r->rng, 6)) {
            r->args.to = random_locator(r);
        }
    }
    do_write(r);
    esp_forest_free(subtree);
}

static void run_forest(struct run *r, struct esp_store *store, const struct esp_layout *layout) {
    struct esp_error err = ESP_ERROR_INIT;
    esp_rng_init(&r->rng, r->seed, 0);
    struct esp_forest *forest = suite_forest(layout, &r->rng, r->options->nodes_max);
    assert_ok(esp_forest_ids_new(forest, &esp_alloc_libc, &r->ids, &err), &err);
    suite_table_open(&r->t, store, layout, r->options->table, forest);
    r->t.access.consistent = r->options->consistent;
    esp_arena_init(&r->keys, &esp_alloc_libc, SIZE_MAX);
    esp_arena_init(&r->kept, &esp_alloc_libc, SIZE_MAX);
    model_init(&r->model, forest);
    r->forest = forest;
    r->next_id = forest->count + 1;
    read_round(r, r->options->sample);
    read_missing(r);
    for (uint32_t i = 0; i < r->options->writes; i++) {
        random_write(r);
        if (i % 8 == 7) {
            read_round(r, 1);
        }
    }
    read_round(r, r->options->sample);
    model_fini(&r->model);
    esp_arena_fini(&r->keys);
    esp_arena_fini(&r->kept);
    free(r->node);
    suite_table_close(&r->t);
    esp_forest_ids_free(r->ids);
    esp_forest_free(forest);
}

void suite_run(struct esp_store *store, const struct esp_layout *layout,
               const struct suite_options *options) {
    for (uint32_t i = 0; i < options->forests; i++) {
        struct run r = {.options = options, .seed = options->seed + i};
        run_forest(&r, store, layout);
    }
}
