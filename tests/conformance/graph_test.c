/*
 * The layout graph with several parents and edges of several types, against a model of its own:
 * a list of nodes and a list of edges.  Random writes, and after each of them the check, and after
 * some the answers.
 */
#include "converters/graph/edge_set.h"
#include "converters/paging.h"
#include "loader/repair.h"
#include "tests/conformance/by_plan.h"
#include "tests/support/alloc.h"
#include "tests/support/drives.h"

#include <stdio.h>
#include <stdlib.h>

enum { NODES_MAX = 256, EDGES_MAX = 1024, NONE = -1 };
static const char tree_type[] = "PARENT";

/* --- the model ---------------------------------------------------------------------- */

struct mnode {
    char id[24];
    bool alive;
};
struct medge {
    int from, to; /* nodes */
    const char *type;
    char gsi0[32]; /* tree edges: not compared */
    int order;     /* of tree edges: among the children of `to` */
    bool alive;
};
struct graph {
    struct mnode node[NODES_MAX];
    struct medge edge[EDGES_MAX];
    int nodes, edges;
    int next; /* order of what is added at the end */
};

static int add_node(struct graph *g, const char *id) {
    assert_true(g->nodes < NODES_MAX);
    snprintf(g->node[g->nodes].id, sizeof g->node[0].id, "%s", id);
    g->node[g->nodes].alive = true;
    return g->nodes++;
}

static void add_edge(struct graph *g, int from, int to, const char *type, const char *gsi0) {
    int at = 0;
    while (at < g->edges && g->edge[at].alive) {
        at++;
    }
    assert_true(at < EDGES_MAX);
    g->edges += at == g->edges;
    g->edge[at] =
        (struct medge){.from = from, .to = to, .type = type, .order = g->next++, .alive = true};
    snprintf(g->edge[at].gsi0, sizeof g->edge[at].gsi0, "%s", gsi0);
}

static struct medge *find_edge(struct graph *g, int from, int to, const char *type) {
    for (int i = 0; i < g->edges; i++) {
        struct medge *e = &g->edge[i];
        if (e->alive && e->from == from && e->to == to && strcmp(e->type, type) == 0) {
            return e;
        }
    }
    return NULL;
}

static bool is_tree(const struct medge *e) {
    return strcmp(e->type, tree_type) == 0;
}

static int parents(const struct graph *g, int v) {
    int count = 0;
    for (int i = 0; i < g->edges; i++) {
        count += g->edge[i].alive && g->edge[i].from == v && is_tree(&g->edge[i]);
    }
    return count;
}

/* Steps down from each node below v, the fewest; 0: v itself; NONE: not below. */
static void reach(const struct graph *g, int v, bool up, int *steps) {
    for (int i = 0; i < NODES_MAX; i++) {
        steps[i] = NONE;
    }
    steps[v] = 0;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < g->edges; i++) {
            const struct medge *e = &g->edge[i];
            int near = up ? e->from : e->to, far = up ? e->to : e->from;
            if (e->alive && is_tree(e) && steps[near] != NONE &&
                (steps[far] == NONE || steps[far] > steps[near] + 1)) {
                steps[far] = steps[near] + 1;
                more = true;
            }
        }
    }
}

static void kill(struct graph *g, int v) {
    g->node[v].alive = false;
    for (int i = 0; i < g->edges; i++) {
        g->edge[i].alive = g->edge[i].alive && g->edge[i].from != v && g->edge[i].to != v;
    }
}

/* What is only below v goes with it. */
static void remove_node(struct graph *g, int v) {
    int steps[NODES_MAX], orphans = 0;
    reach(g, v, false, steps);
    kill(g, v);
    do {
        orphans = 0;
        for (int i = 0; i < g->nodes; i++) {
            if (steps[i] > 0 && g->node[i].alive && parents(g, i) == 0) {
                kill(g, i);
                orphans++;
            }
        }
    } while (orphans);
}

static int by_order(const void *a, const void *b) {
    int x = (*(struct medge *const *)a)->order, y = (*(struct medge *const *)b)->order;
    return (x > y) - (x < y);
}

static int children(struct graph *g, int v, struct medge **out) {
    int count = 0;
    for (int i = 0; i < g->edges; i++) {
        if (g->edge[i].alive && g->edge[i].to == v && is_tree(&g->edge[i])) {
            out[count++] = &g->edge[i];
        }
    }
    qsort(out, (size_t)count, sizeof *out, by_order);
    return count;
}

/* Children come where the node was. */
static enum esp_status promote_node(struct graph *g, int v) {
    struct medge *child[EDGES_MAX];
    int n = children(g, v, child), from[EDGES_MAX], above[EDGES_MAX], count = 0;
    int order[EDGES_MAX];
    for (int i = 0; i < n; i++) {
        from[i] = child[i]->from;
    }
    for (int i = 0; i < g->edges; i++) {
        if (g->edge[i].alive && g->edge[i].from == v && is_tree(&g->edge[i])) {
            above[count] = g->edge[i].to;
            order[count++] = g->edge[i].order;
        }
    }
    if (count == 0 && n > 0) {
        return ESP_ERR_REFUSED;
    }
    for (int p = 0; p < count; p++) {
        for (int i = 0; i < g->edges; i++) { /* room behind the node */
            g->edge[i].order += g->edge[i].to == above[p] && g->edge[i].order > order[p] ? n : 0;
        }
        g->next += n;
        for (int i = 0; i < n; i++) {
            if (!find_edge(g, from[i], above[p], tree_type)) {
                add_edge(g, from[i], above[p], tree_type, "");
                find_edge(g, from[i], above[p], tree_type)->order = order[p] + i;
            }
        }
    }
    kill(g, v);
    return ESP_OK;
}

/* --- a run -------------------------------------------------------------------------- */

struct run {
    struct suite_table t;
    struct graph g;
    struct esp_rng rng;
    uint64_t seed;
    int step;
    enum esp_op op;
    struct esp_args args;
    char answer[NODES_MAX][24];
    int answered;
};

#define run_fail(r, fmt, ...)                                                                      \
    fail_msg("seed %llu write %d: %s '%.*s' %.*s '%.*s': " fmt, (unsigned long long)(r)->seed,     \
             (r)->step, esp_op_info[(r)->op].name, ESP_FMT((r)->args.at.id),                       \
             ESP_FMT((r)->args.type), ESP_FMT((r)->args.to.id), __VA_ARGS__)

static enum esp_status take_node(void *ctx, const struct esp_node_view *node) {
    struct run *r = ctx;
    assert_true(r->answered < NODES_MAX);
    snprintf(r->answer[r->answered++], sizeof r->answer[0], "%.*s", ESP_FMT(node->id));
    return ESP_OK;
}

static enum esp_status operate(struct run *r) {
    esp_arena_reset(&r->t.scratch);
    esp_error_clear(&r->t.err);
    r->answered = 0;
    return esp_operate(&r->t.access, r->op, &r->args, take_node, r);
}

static enum esp_status no_finding(void *ctx, const struct esp_finding *finding) {
    struct run *r = ctx;
    run_fail(r, "check found %s of '%.*s' / '%.*s': %s", finding->name, ESP_FMT(finding->id),
             ESP_FMT(finding->other), finding->text);
    return ESP_OK;
}

static void check_table(struct run *r) {
    esp_arena_reset(&r->t.scratch);
    assert_ok(r->t.layout->ops->check(&r->t.access, no_finding, r), &r->t.err);
}

/* The nodes of an answer are these, in this order or in any. */
static void expect(struct run *r, const int *want, int count, bool ordered) {
    char text[4096] = "";
    size_t len = 0;
    bool same = r->answered == count;
    for (int i = 0; i < count; i++) {
        bool found = false;
        for (int k = 0; k < r->answered; k++) {
            found =
                found || ((!ordered || i == k) && strcmp(r->answer[k], r->g.node[want[i]].id) == 0);
        }
        same = same && found;
        len += (size_t)snprintf(text + len, sizeof text - len, " %s", r->g.node[want[i]].id);
    }
    if (!same) {
        len += (size_t)snprintf(text + len, sizeof text - len, ", not");
        for (int i = 0; i < r->answered; i++) {
            len += (size_t)snprintf(text + len, sizeof text - len, " %s", r->answer[i]);
        }
        run_fail(r, "should be%s", text);
    }
}

/* The same answer, in pages of which only the last may be less than full. */
static enum esp_status operate_in_pages(struct run *r, int limit) {
    char start[1 << 12] = "";
    enum esp_status status = ESP_OK;
    r->answered = 0;
    do {
        struct esp_paging paging = {.limit = (uint64_t)limit, .start = esp_str_from(start)};
        int before = r->answered;
        esp_arena_reset(&r->t.scratch);
        esp_error_clear(&r->t.err);
        r->t.access.paging = &paging;
        status = esp_operate(&r->t.access, r->op, &r->args, take_node, r);
        r->t.access.paging = NULL;
        assert_true(r->answered - before == limit ||
                    (r->answered - before < limit && paging.next.len == 0));
        snprintf(start, sizeof start, "%.*s", ESP_FMT(paging.next));
    } while (status == ESP_OK && start[0]);
    return status;
}

/* What one query finds comes in the same order in pages. */
static void ask(struct run *r, enum esp_op op, int v) {
    int limit =
        op == ESP_OP_CHILDREN || op == ESP_OP_NEIGHBOURS ? (int)esp_rng_below(&r->rng, 4) : 0;
    r->op = op;
    r->args.at = (struct esp_locator){.id = esp_str_from(r->g.node[v].id)};
    assert_ok(limit ? operate_in_pages(r, limit) : operate(r), &r->t.err);
}

static void ask_around(struct run *r, int v) {
    struct graph *g = &r->g;
    struct medge *child[EDGES_MAX];
    int want[EDGES_MAX], count = 0, n = children(g, v, child);
    r->args = (struct esp_args){.lo = 0};
    for (int i = 0; i < n; i++) {
        want[i] = child[i]->from;
    }
    ask(r, ESP_OP_CHILDREN, v);
    expect(r, want, n, true);
    bool sibling[NODES_MAX] = {false};
    for (int i = 0; i < g->edges; i++) {
        const struct medge *e = &g->edge[i];
        if (e->alive && e->from == v && is_tree(e)) {
            want[count++] = e->to;
            n = children(g, e->to, child);
            for (int k = 0; k < n; k++) {
                sibling[child[k]->from] = child[k]->from != v;
            }
        }
    }
    ask(r, ESP_OP_PARENT, v);
    expect(r, want, count, false);
    count = 0;
    for (int i = 0; i < g->nodes; i++) {
        want[count] = i;
        count += sibling[i];
    }
    ask(r, ESP_OP_SIBLINGS, v);
    expect(r, want, count, false);
}

static void ask_below(struct run *r, int v) {
    struct graph *g = &r->g;
    struct medge *child[EDGES_MAX];
    int steps[NODES_MAX], want[NODES_MAX], count = 0, leaves[NODES_MAX], leaf_count = 0;
    reach(g, v, false, steps);
    for (int i = 0; i < g->nodes; i++) {
        if (steps[i] > 0) {
            want[count++] = i;
            leaves[leaf_count] = i;
            leaf_count += children(g, i, child) == 0;
        }
    }
    ask(r, ESP_OP_DESCENDANTS, v);
    expect(r, want, count, false);
    ask(r, ESP_OP_COUNT, v);
    assert_int_equal(r->t.access.value, count);
    ask(r, ESP_OP_LEAVES, v);
    expect(r, leaves, leaf_count, false);
    count = 0;
    for (int i = 0; i < g->nodes; i++) {
        want[count] = i;
        count += steps[i] >= 1 && steps[i] <= 2;
    }
    r->args.lo = 1;
    r->args.hi = 2;
    ask(r, ESP_OP_WINDOW, v);
    expect(r, want, count, false);
}

static void ask_above(struct run *r, int v, int other) {
    struct graph *g = &r->g;
    int steps[NODES_MAX], others[NODES_MAX], lower[NODES_MAX], want[NODES_MAX], count = 0;
    reach(g, v, true, steps);
    reach(g, other, true, others);
    for (int i = 0; i < g->nodes; i++) {
        want[count] = i;
        count += steps[i] > 0;
    }
    ask(r, ESP_OP_ANCESTORS, v);
    expect(r, want, count, false);
    for (int i = 0; i < r->answered; i++) { /* no node before one that is above it */
        for (int k = 0; k < i; k++) {
            for (int e = 0; e < g->edges; e++) {
                const struct medge *edge = &g->edge[e];
                if (edge->alive && is_tree(edge) &&
                    strcmp(g->node[edge->from].id, r->answer[k]) == 0 &&
                    strcmp(g->node[edge->to].id, r->answer[i]) == 0) {
                    run_fail(r, "%s comes before %s", r->answer[k], r->answer[i]);
                }
            }
        }
    }
    count = 0;
    for (int i = 0; i < g->nodes; i++) { /* above both, and above no other such node */
        bool lowest = steps[i] != NONE && others[i] != NONE;
        reach(g, i, false, lower);
        for (int k = 0; k < g->nodes; k++) {
            lowest = lowest && !(lower[k] > 0 && steps[k] != NONE && others[k] != NONE);
        }
        want[count] = i;
        count += lowest;
    }
    r->args.to.id = esp_str_from(g->node[other].id);
    ask(r, ESP_OP_LCA, v);
    expect(r, want, count, false);
    ask(r, ESP_OP_IS_DESCENDANT, v);
    assert_int_equal(r->t.access.value, steps[other] > 0);
}

static int by_gsi0(const void *a, const void *b) {
    const struct medge *x = *(struct medge *const *)a, *y = *(struct medge *const *)b;
    return strcmp(x->gsi0, y->gsi0);
}

/* In order of gsi0; of the same one, the nodes may come in any order. */
static void ask_neighbours(struct run *r, int v, const char *type, const char *weight) {
    struct graph *g = &r->g;
    struct medge *in[EDGES_MAX];
    int want[EDGES_MAX], count = 0, direct;
    for (int i = 0; i < g->edges; i++) {
        struct medge *e = &g->edge[i];
        if (e->alive && e->to == v && strcmp(e->type, type) == 0 && strcmp(e->gsi0, weight) >= 0) {
            in[count++] = e;
        }
    }
    qsort(in, (size_t)count, sizeof in[0], by_gsi0);
    for (int i = 0; i < count; i++) {
        want[i] = in[i]->from;
    }
    r->args = (struct esp_args){.type = esp_str_from(type), .weight = esp_str_from(weight)};
    ask(r, ESP_OP_NEIGHBOURS, v);
    expect(r, want, count, false);
    for (int i = 1; i < r->answered; i++) {
        const char *before = NULL, *after = NULL;
        for (int k = 0; k < count; k++) {
            before = strcmp(g->node[in[k]->from].id, r->answer[i - 1]) ? before : in[k]->gsi0;
            after = strcmp(g->node[in[k]->from].id, r->answer[i]) ? after : in[k]->gsi0;
        }
        assert_true(before && after && strcmp(before, after) <= 0);
    }
    direct = count;
    bool named[NODES_MAX] = {false};
    for (int i = 0; i < g->edges; i++) {
        for (int k = 0; k < direct; k++) {
            named[g->edge[i].to] =
                named[g->edge[i].to] || (g->edge[i].alive && g->edge[i].from == want[k]);
        }
    }
    for (int k = 0; k < direct; k++) {
        named[want[k]] = false;
    }
    for (int i = 0; i < g->nodes; i++) {
        want[count] = i;
        count += named[i];
    }
    ask(r, ESP_OP_HYDRATE, v);
    expect(r, want, count, false);
}

static int random_node(struct run *r) {
    for (;;) {
        int v = (int)esp_rng_below(&r->rng, (uint64_t)r->g.nodes);
        if (r->g.node[v].alive) {
            return v;
        }
    }
}

static void ask_all(struct run *r) {
    int v = random_node(r), other = random_node(r), want[NODES_MAX], count = 0;
    ask_around(r, v);
    ask_below(r, v);
    ask_above(r, v, other);
    ask_neighbours(r, v, "LIKES", "");
    ask_neighbours(r, v, "MEMBER", "400-B");
    for (int i = 0; i < r->g.nodes; i++) {
        want[count] = i;
        count += r->g.node[i].alive && parents(&r->g, i) == 0;
    }
    r->args = (struct esp_args){.lo = 0};
    r->op = ESP_OP_ROOTS;
    assert_ok(operate(r), &r->t.err);
    expect(r, want, count, false);
}

/* --- writes ------------------------------------------------------------------------- */

static const char *const types[] = {tree_type, tree_type, "LIKES", "MEMBER"};
static const char *const weights[] = {"", "500-A", "400-B", "300", "000-Z"};

static enum esp_status model_link(struct run *r, int from, int to, const char *type,
                                  const char *weight) {
    int steps[NODES_MAX];
    reach(&r->g, from, false, steps);
    if (find_edge(&r->g, from, to, type)) {
        return ESP_ERR_EXISTS;
    }
    if (strcmp(type, tree_type) == 0 && steps[to] != NONE) {
        return ESP_ERR_CYCLE;
    }
    add_edge(&r->g, from, to, type, *weight || strcmp(type, tree_type) == 0 ? weight : "000");
    return ESP_OK;
}

static enum esp_status model_move(struct run *r, int v, int to) {
    struct graph *g = &r->g;
    int steps[NODES_MAX];
    reach(g, v, false, steps);
    if (to != NONE && steps[to] != NONE) {
        return ESP_ERR_CYCLE;
    }
    for (int i = 0; i < g->edges; i++) {
        struct medge *e = &g->edge[i];
        e->alive = e->alive && !(e->from == v && is_tree(e) && e->to != to);
    }
    if (to != NONE && !find_edge(g, v, to, tree_type)) {
        add_edge(g, v, to, tree_type, "");
    }
    return ESP_OK;
}

static enum esp_status random_edge(struct run *r, int from, int to) {
    const char *type = types[esp_rng_below(&r->rng, 4)];
    bool tree = strcmp(type, tree_type) == 0;
    const char *weight = tree ? "" : weights[esp_rng_below(&r->rng, 5)];
    r->args.type = esp_str_from(type);
    r->args.to.id = esp_str_from(r->g.node[to].id);
    if (r->op == ESP_OP_LINK) {
        r->args.weight = esp_str_from(weight);
        return model_link(r, from, to, type, weight);
    }
    for (int i = 0; i < r->g.edges; i++) { /* mostly an edge that is there */
        const struct medge *e = &r->g.edge[i];
        if (e->alive && esp_rng_below(&r->rng, 6) == 0) {
            r->args.at.id = esp_str_from(r->g.node[e->from].id);
            r->args.to.id = esp_str_from(r->g.node[e->to].id);
            r->args.type = esp_str_from(e->type);
            r->g.edge[i].alive = false;
            return ESP_OK;
        }
    }
    struct medge *e = find_edge(&r->g, from, to, type);
    if (e) {
        e->alive = false;
    }
    return e ? ESP_OK : ESP_ERR_NOT_FOUND;
}

static void random_write(struct run *r) {
    int v = random_node(r), other = random_node(r);
    uint64_t dice = esp_rng_below(&r->rng, 20);
    enum esp_status want = ESP_OK;
    char id[24];
    r->args = (struct esp_args){.at.id = esp_str_from(r->g.node[v].id)};
    if (dice < 5 && r->g.nodes < NODES_MAX) {
        snprintf(id, sizeof id, "%s-%d", r->g.nodes % 3 ? "n" : "PARENT", r->g.nodes);
        r->op = ESP_OP_INSERT;
        r->args.id = esp_str_from(id);
        int child = add_node(&r->g, id);
        if (dice) {
            r->args.to.id = r->args.at.id;
            add_edge(&r->g, child, v, tree_type, "");
        }
    } else if (dice < 12) {
        r->op = ESP_OP_LINK;
        want = random_edge(r, v, other);
    } else if (dice < 15) {
        r->op = ESP_OP_UNLINK;
        want = random_edge(r, v, other);
    } else if (dice < 18) {
        bool root = dice == 17 && other % 2;
        r->op = ESP_OP_MOVE;
        r->args.to.id = root ? (struct esp_str){"", 0} : esp_str_from(r->g.node[other].id);
        want = model_move(r, v, root ? NONE : other);
    } else if (dice == 18) {
        r->op = ESP_OP_PROMOTE;
        want = promote_node(&r->g, v);
    } else {
        r->op = ESP_OP_REMOVE;
        remove_node(&r->g, v);
    }
    bool planned = esp_rng_below(&r->rng, 2);
    enum esp_status status = planned ? by_plan(&r->t, r->op, &r->args) : operate(r);
    r->answered = planned ? 0 : r->answered;
    r->step++;
    if (status != want) {
        run_fail(r, "%s (%s), not %s", esp_status_name(status), r->t.err.message,
                 esp_status_name(want));
    }
    assert_int_equal(r->answered, 0);
    check_table(r);
}

static int alive(const struct graph *g) {
    int count = 0;
    for (int v = 0; v < g->nodes; v++) {
        count += g->node[v].alive;
    }
    return count;
}

/* --- forests with links ------------------------------------------------------------- */

static void link_forest(struct run *r, struct esp_forest *f) {
    struct esp_link_row row[16];
    char weight[16][32];
    int steps[NODES_MAX], count = 0;
    struct esp_error err = ESP_ERROR_INIT;
    for (int i = 0; i < 16; i++) {
        int from = (int)esp_rng_below(&r->rng, f->count),
            to = (int)esp_rng_below(&r->rng, f->count);
        const char *type = types[esp_rng_below(&r->rng, 4)];
        bool tree = strcmp(type, tree_type) == 0;
        reach(&r->g, from, false, steps);
        if (find_edge(&r->g, from, to, type) || (tree && steps[to] != NONE)) {
            continue;
        }
        snprintf(weight[count], sizeof weight[0], "%s",
                 tree ? "" : weights[esp_rng_below(&r->rng, 5)]);
        row[count] = (struct esp_link_row){.child = esp_str_from(r->g.node[from].id),
                                           .parent = esp_str_from(r->g.node[to].id),
                                           .type = tree && i % 2 ? (struct esp_str){NULL, 0}
                                                                 : esp_str_from(type),
                                           .weight = esp_str_from(weight[count])};
        add_edge(&r->g, from, to, type, tree || weight[count][0] ? weight[count] : "000");
        count++;
    }
    assert_ok(esp_forest_add_links(f, row, (size_t)count, NULL, &err), &err);
}

static struct esp_forest *random_dag(struct run *r) {
    struct esp_forest_options options = {.source = "rows", .several_parents = true};
    struct esp_forest_builder *builder;
    struct esp_forest *forest;
    struct esp_error err = ESP_ERROR_INIT;
    int n = 1 + (int)esp_rng_below(&r->rng, 20);
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (int v = 0; v < n; v++) {
        char id[24];
        snprintf(id, sizeof id, "%d%s", v, v % 4 ? "" : "-5");
        add_node(&r->g, id);
        bool root = v == 0 || esp_rng_below(&r->rng, 8) == 0;
        int parent = root ? NONE : (int)esp_rng_below(&r->rng, (uint64_t)v);
        struct esp_record record = {.id = esp_str_from(id)};
        if (!root) {
            record.parent_id = esp_str_from(r->g.node[parent].id);
            add_edge(&r->g, v, parent, tree_type, "");
        }
        assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
    }
    for (int i = 0; i < n; i++) { /* further parents: only of lower numbers, so no cycle */
        int v = (int)esp_rng_below(&r->rng, (uint64_t)n);
        int parent = v ? (int)esp_rng_below(&r->rng, (uint64_t)v) : 0;
        if (v && !find_edge(&r->g, v, parent, tree_type)) {
            struct esp_record record = {.id = esp_str_from(r->g.node[v].id),
                                        .parent_id = esp_str_from(r->g.node[parent].id)};
            add_edge(&r->g, v, parent, tree_type, "");
            assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
        }
    }
    assert_ok(esp_forest_freeze(builder, &forest, &err), &err);
    link_forest(r, forest);
    return forest;
}

static void run_graph(struct esp_store *store, const struct esp_layout *layout, uint64_t seed) {
    struct run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->seed = seed;
    esp_rng_init(&r->rng, seed, 0);
    struct esp_forest *forest = random_dag(r);
    suite_table_open(&r->t, store, layout, "graph", forest);
    check_table(r);
    ask_all(r);
    for (int i = 0; i < 120 && alive(&r->g) > 0; i++) {
        random_write(r);
        if (i % 4 == 3 && alive(&r->g) > 0) {
            ask_all(r);
        }
    }
    suite_table_close(&r->t);
    esp_forest_free(forest);
    free(r);
}

static void several_parents_and_types(void **state) {
    (void)state;
    static const struct esp_strings sets[] = {
        {{NULL}, 0},
        {{"node=KEY"}, 1},
        {{"edge-set-omit=PARENT"}, 1},
        {{"edge-set-omit=LIKES,MEMBER"}, 1},
        {{"edge-set-max=200"}, 1},
        {{"edge-set-max=60"}, 1},
        {{"edge-set-max=0"}, 1},
    };
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    struct esp_store_config config = {.page_bytes = 300};
    assert_ok(esp_store_open("memory:", &config, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        struct esp_layout layout;
        assert_ok(esp_layout_init(&layout, esp_layout_find("graph"), &sets[i], &err), &err);
        for (uint64_t seed = 1; seed <= 12; seed++) {
            run_graph(store, &layout, 100 * i + seed);
        }
    }
    esp_store_close(store);
}

/* --- damage ------------------------------------------------------------------------- */

#define KEYS(SOURCE, TARGET) "\"source\":{\"S\":\"" SOURCE "\"},\"target\":{\"S\":\"" TARGET "\"}"
#define NODE(ID)             KEYS("NODE-" ID, "NODE-" ID)
#define GSI0(TEXT)           ",\"gsi0\":{\"S\":\"" TEXT "\"}"
#define SET(...)             ",\"edgeSet\":{\"SS\":[" __VA_ARGS__ "]}"
#define TREE(ID, PARENT)     KEYS("NODE-" ID, "PARENT-NODE-" PARENT)

/* The two drives with `gone` deleted and `put` put. */
static const struct damage {
    const char *set, *gone, *put[2];
    const char *name, *id, *other;
    size_t count; /* findings in all; 0: not compared */
} damages[] = {
    {NULL, NODE("V"), {NULL}, "edge-without-node", "V", "D", 3},
    {NULL, NODE("V"), {NULL}, "edge-without-node", "d", "V", 3},
    {NULL, NULL, {TREE("x", "V") GSI0("0000000009")}, "edge-without-node", "x", "V", 1},
    {NULL, TREE("d", "V"), {NULL}, "edge-set", "d", "V", 1},
    {NULL, NULL, {NODE("d")}, "edge-set", "d", "V", 1},
    {NULL, NULL, {NODE("d") SET("\"PARENT-NODE-V-0000002000\"")}, "edge-set", "d", "V", 1},
    {NULL, NULL, {NODE("C") SET("\"PARENT-NODE-V-0000002000\"")}, "edge-set", "C", "V", 1},
    {NULL, NULL, {NODE("C") SET("\"whatever\"")}, "edge-set", "C", "", 1},
    {NULL, NULL, {NODE("C") ",\"edgeSetOmitted\":{\"SS\":[\"PARENT\"]}"}, "edge-set", "C", "", 1},
    {NULL,
     NULL,
     {NODE("d") SET("\"PARENT-NODE-V-0000001000\"") ",\"edgeSetOmitted\":{\"SS\":[\"PARENT\"]}"},
     "edge-set",
     "d",
     "V",
     1},
    {"edge-set-omit=PARENT", NULL, {NODE("d")}, "edge-set", "d", "V", 1},
    {"edge-set-omit=PARENT", TREE("d", "V"), {NULL}, "edge-set", "d", "", 1},
    {NULL, NULL, {TREE("d", "V") GSI0("1000")}, "bad-gsi0", "d", "V", 2},
    {NULL, NULL, {TREE("d", "V")}, "bad-gsi0", "d", "V", 2},
    {NULL, NULL, {KEYS("NODE-C", "LIKES-NODE-D") GSI0("A")}, "bad-gsi0", "C", "D", 3},
    {NULL, NULL, {NODE("C") GSI0("500")}, "bad-gsi0", "C", "", 1},
    {NULL, NULL, {KEYS("C", "C")}, "bad-key", "C", "", 1},
    {NULL, NULL, {KEYS("NODE-C", "nothing")}, "bad-key", "C", "", 1},
    {NULL,
     NULL,
     {KEYS("NODE-C", "LIKES-NODE-D") GSI0("500-A"), NODE("C") SET("\"LIKES-NODE-D-500-A\"")},
     "edge-types",
     "D",
     "C",
     1},
    {NULL,
     NULL,
     {TREE("D", "i") GSI0("0000001000"), NODE("D") SET("\"PARENT-NODE-i-0000001000\"")},
     "cycle",
     "d",
     "V",
     1},
    {NULL,
     NULL,
     {TREE("C", "C") GSI0("0000009000"), NODE("C") SET("\"PARENT-NODE-C-0000009000\"")},
     "cycle",
     "C",
     "C",
     1},
};

static void write_json(struct suite_table *t, enum esp_write_kind kind, const char *members) {
    struct esp_write write = {.kind = kind};
    char json[512];
    int len = snprintf(json, sizeof json, "{%s}", members);
    assert_in_range(len, 2, sizeof json - 1);
    assert_ok(esp_item_parse(&t->layout->schema, (struct esp_str){json, (size_t)len}, &t->scratch,
                             &write.item, &t->err),
              &t->err);
    assert_ok(esp_session_write(t->session, &write, 1, NULL, &t->err), &t->err);
}

struct findings {
    const struct damage *damage;
    bool found;
    size_t count;
    char all[4096];
};

static enum esp_status note(void *ctx, const struct esp_finding *finding) {
    struct findings *f = ctx;
    const struct damage *d = f->damage;
    size_t len = strlen(f->all);
    f->count++;
    snprintf(f->all + len, sizeof f->all - len, "\n  %s '%.*s' '%.*s': %s", finding->name,
             ESP_FMT(finding->id), ESP_FMT(finding->other), finding->text);
    f->found = f->found || (strcmp(finding->name, d->name) == 0 &&
                            esp_str_eq(finding->id, esp_str_from(d->id)) &&
                            esp_str_eq(finding->other, esp_str_from(d->other)));
    return ESP_OK;
}

static struct esp_store *open_store(void) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    return store;
}

static struct esp_layout layout_of(const char *set) {
    struct esp_strings sets = {{set}, set != NULL};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_layout layout;
    assert_ok(esp_layout_init(&layout, esp_layout_find("graph"), &sets, &err), &err);
    return layout;
}

static void every_damage_is_found(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store = open_store();
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const struct damage *d = &damages[i];
        struct esp_layout layout = layout_of(d->set);
        struct findings findings = {.damage = d};
        struct suite_table t;
        suite_table_open(&t, store, &layout, "damage", forest);
        if (d->gone) {
            write_json(&t, ESP_DELETE, d->gone);
        }
        for (int k = 0; k < 2 && d->put[k]; k++) {
            write_json(&t, ESP_PUT, d->put[k]);
        }
        assert_ok(layout.ops->check(&t.access, note, &findings), &t.err);
        if (!findings.found || findings.count != d->count) {
            fail_msg("case %zu: no %s '%s' '%s', or not alone, among:%s", i, d->name, d->id,
                     d->other, findings.all);
        }
        suite_table_close(&t);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

/* --- mending ------------------------------------------------------------------------- */

#define SINCE              ",\"since\":{\"N\":\"2020\"}"
#define EDGE(ID, TYPE, TO) KEYS("NODE-" ID, TYPE "-NODE-" TO)

/* The two drives with links, some of which have data; `unset` is taken from an item's attributes,
 * then `gone` deleted and `put` put. */
static const struct mend_case {
    const char *set, *unset[3], *gone, *put[2];
    const char *note;  /* told of what is not as it was; NULL: the table is as it was */
    const char *as[2]; /* changes that change nothing then */
} mend_cases[] = {
    {NULL, {"c edgeSet"}, NULL, {NULL}, NULL, {NULL}},
    {NULL, {"c edgeSet", "C edgeSet", "i edgeSet"}, NULL, {NULL}, NULL, {NULL}},
    {NULL, {"D edgeTypesIn"}, NULL, {NULL}, NULL, {NULL}},
    {NULL, {"D edgeTypesIn", "C edgeSet", "V edgeTypesIn"}, NULL, {NULL}, NULL, {NULL}},
    {NULL,
     {"c edgeSet=\"whatever\"", "d edgeSet=\"PARENT-NODE-V-0000002000\""},
     NULL,
     {NULL},
     NULL,
     {NULL}},
    {NULL,
     {"i edgeSet=\"LIKES-NODE-C-500\",\"PARENT-NODE-d-0000001000\""},
     NULL,
     {NULL},
     NULL,
     {NULL}},
    {NULL,
     {"i edgeSetOmitted=\"PARENT\",\"MEMBER\"", "i edgeSet"},
     NULL,
     {NULL},
     "",
     {"i edgeSetOmitted=\"PARENT\"", "i edgeSet=\"LIKES-NODE-V-000\""}},
    {"edge-set-omit=LIKES", {"C edgeSetOmitted", "c edgeSet"}, NULL, {NULL}, NULL, {NULL}},
    {"edge-set-omit=PARENT", {"d edgeSetOmitted", "c edgeSetOmitted"}, NULL, {NULL}, NULL, {NULL}},
    {"edge-set-max=0", {"c edgeSetOmitted"}, NULL, {NULL}, NULL, {NULL}},
    /* What nothing tells. */
    {NULL,
     {NULL},
     EDGE("d", "PARENT", "V"),
     {NULL},
     "left lost-parent d",
     {"d edgeSet=\"PARENT-NODE-V-0000001000\""}},
    {"edge-set-omit=PARENT",
     {NULL},
     EDGE("d", "PARENT", "V"),
     {NULL},
     "left lost-parent d",
     {NULL}},
    {NULL,
     {NULL},
     NULL,
     {EDGE("d", "LIKES", "x") GSI0("9") SINCE},
     "left edge-without-node d",
     {NULL}},
    {NULL, {NULL}, NULL, {EDGE("C", "LIKES", "II") GSI0("A")}, "left bad-gsi0 C", {NULL}},
    {NULL, {"c edgeSet"}, NULL, {EDGE("c", "PARENT", "IV") GSI0("7")}, "left bad-gsi0 c", {NULL}},
    {NULL,
     {NULL},
     NULL,
     {EDGE("c", "PARENT", "IV") GSI0("7")},
     "left bad-gsi0 c",
     {"c edgeSet=\"PARENT-NODE-III-0000000005\",\"PARENT-NODE-IV-0000001000\""}},
    {NULL, {NULL}, NULL, {KEYS("C", "C")}, "left bad-key C", {NULL}},
    {NULL, {NULL}, NULL, {KEYS("NODE-C", "nothing")}, "left bad-key C", {NULL}},
    {NULL, {NULL}, NULL, {KEYS("NODE-x", "nothing")}, "left bad-key x", {NULL}},
    {NULL, {NULL}, NULL, {KEYS("C", "LIKES-NODE-D") GSI0("5")}, "left bad-key C", {NULL}},
    {NULL, {NULL}, NULL, {KEYS("NODE-C", "LIKES-D") GSI0("5")}, "left bad-key C", {NULL}},
    {NULL,
     {"D edgeSet=\"PARENT-NODE-i-0000001000\""},
     NULL,
     {EDGE("D", "PARENT", "i") GSI0("0000001000")},
     "left cycle",
     {NULL}},
    /* A node's item is gone, its edges are there. */
    {NULL, {NULL}, NODE("V"), {NULL}, "restored restored-without-payload V", {NULL}},
    {NULL, {"d edgeSet"}, NODE("V"), {NULL}, "restored restored-without-payload V", {NULL}},
    {NULL,
     {NULL},
     NULL,
     {EDGE("x", "PARENT", "V") GSI0("0000000009") SINCE,
      EDGE("y", "LIKES", "x") GSI0("0000000009")},
     "restored restored-without-payload x",
     {NULL}},
    {NULL, {NULL}, NODE("D"), {NULL}, "left edge-without-node III", {NULL}},
};

static struct esp_forest *linked_drives(void) {
    static const char text[] = "\"since\":{\"N\":\"2020\"}";
    const struct esp_data data = {text, sizeof text - 1, 8};
    const struct esp_link_row rows[] = {
        {.child = ESP_STR("C"),
         .parent = ESP_STR("D"),
         .type = ESP_STR("LIKES"),
         .weight = ESP_STR("500-A"),
         .data = data},
        {.child = ESP_STR("III"), .parent = ESP_STR("D"), .type = ESP_STR("MEMBER")},
        {.child = ESP_STR("i"), .parent = ESP_STR("V"), .type = ESP_STR("LIKES"), .data = data},
        {.child = ESP_STR("c"),
         .parent = ESP_STR("III"),
         .weight = ESP_STR("5"),
         .data = data,
         .type = ESP_STR("PARENT")},
    };
    struct esp_forest *forest = drives_forest();
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_forest_add_links(forest, rows, sizeof rows / sizeof rows[0], NULL, &err), &err);
    return forest;
}

struct digests {
    const struct esp_schema *schema;
    uint64_t all, edges;
};

static enum esp_status add_digest(void *ctx, const struct esp_item *item) {
    struct digests *d = ctx;
    uint64_t digest = esp_item_digest(d->schema, item);
    bool node = esp_str_eq(item->value[d->schema->pk].s, item->value[d->schema->sk].s);
    d->all += digest;
    d->edges += node ? 0 : digest;
    return ESP_OK;
}

static struct digests digests_of(struct suite_table *t) {
    struct digests d = {.schema = &t->layout->schema};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    assert_ok(esp_session_scan(t->session, &scan, add_digest, &d, &t->err), &t->err);
    return d;
}

/* "ID ATTRIBUTE" takes it away, "ID ATTRIBUTE=MEMBERS" makes it a set of those. */
static void change_node(struct suite_table *t, const char *text) {
    char key[64], json[256];
    const char *name = strchr(text, ' ') + 1, *members = strchr(name, '=');
    size_t len = members ? (size_t)(members - name) : strlen(name);
    struct esp_change change = {ESP_CHANGE_REMOVE, {name, len}, {.type = ESP_TYPE_NONE}};
    struct esp_write write = {.kind = ESP_UPDATE, .changes = &change, .change_count = 1};
    snprintf(key, sizeof key, "NODE-%.*s", (int)(name - 1 - text), text);
    snprintf(json, sizeof json, "{\"SS\":[%s]}", members ? members + 1 : "");
    write.item.value[t->layout->schema.pk] = esp_s(esp_str_from(key));
    write.item.value[t->layout->schema.sk] = esp_s(esp_str_from(key));
    if (members) {
        change.kind = ESP_CHANGE_SET;
        change.value = (struct esp_value){ESP_TYPE_JSON, esp_str_from(json), 0};
    }
    assert_ok(esp_session_write(t->session, &write, 1, NULL, &t->err), &t->err);
}

struct notes {
    char told[4096], all[4096];
};

static enum esp_status take_note(void *ctx, enum esp_repair_note kind,
                                 const struct esp_finding *finding) {
    struct notes *notes = ctx;
    size_t len = strlen(notes->all), told = strlen(notes->told);
    snprintf(notes->all + len, sizeof notes->all - len, "\n  %d %s '%.*s' '%.*s': %s", (int)kind,
             finding->name, ESP_FMT(finding->id), ESP_FMT(finding->other), finding->text);
    if (kind == ESP_REPAIR_LEFT || kind == ESP_REPAIR_RESTORED) {
        snprintf(notes->told + told, sizeof notes->told - told, "%s %s %.*s\n",
                 kind == ESP_REPAIR_LEFT ? "left" : "restored", finding->name,
                 ESP_FMT(finding->id));
    }
    return ESP_OK;
}

/* Is the table whole then? */
static bool mend_table(struct suite_table *t, bool dry_run, struct notes *notes) {
    struct esp_repair repair = {.dry_run = dry_run, .tell = take_note, .ctx = notes};
    *notes = (struct notes){.told = ""};
    esp_arena_reset(&t->scratch);
    esp_error_clear(&t->err);
    assert_ok(esp_repair_run(&t->access, &repair), &t->err);
    return esp_repair_is_whole(&repair);
}

static void mend_one(struct suite_table *t, const struct mend_case *c, size_t number) {
    struct notes notes;
    const struct digests before = digests_of(t);
    for (size_t k = 0; k < 3 && c->unset[k]; k++) {
        change_node(t, c->unset[k]);
    }
    if (c->gone) {
        write_json(t, ESP_DELETE, c->gone);
    }
    for (size_t k = 0; k < 2 && c->put[k]; k++) {
        write_json(t, ESP_PUT, c->put[k]);
    }
    const struct digests damaged = digests_of(t);
    bool would = mend_table(t, true, &notes);
    assert_int_equal(digests_of(t).all, damaged.all);
    bool whole = mend_table(t, false, &notes);
    const struct digests after = digests_of(t);
    bool left = c->note && strstr(c->note, "left");
    if (whole == left || would != whole || (c->note && !strstr(notes.told, c->note))) {
        fail_msg("case %zu: whole %d, said %d, and:%s", number, whole, would, notes.all);
    }
    if (after.edges != damaged.edges) {
        fail_msg("case %zu: edges are other ones:%s", number, notes.all);
    }
    if (!c->note && after.all != before.all) {
        fail_msg("case %zu: the table is not as it was:%s", number, notes.all);
    }
    for (size_t k = 0; k < 2 && c->as[k]; k++) {
        change_node(t, c->as[k]);
    }
    assert_int_equal(digests_of(t).all, after.all);
    assert_int_equal(mend_table(t, false, &notes), whole); /* nothing more to do */
    assert_int_equal(digests_of(t).all, after.all);
}

static void damage_is_mended(void **state) {
    (void)state;
    struct esp_forest *forest = linked_drives();
    struct esp_store *store = open_store();
    for (size_t i = 0; i < sizeof mend_cases / sizeof mend_cases[0]; i++) {
        struct esp_layout layout = layout_of(mend_cases[i].set);
        struct suite_table t;
        suite_table_open(&t, store, &layout, "graph", forest);
        mend_one(&t, &mend_cases[i], i);
        suite_table_close(&t);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

/* What nodes know of edges gets lost at random: the edges tell it again. */
static void lost_sets_are_mended(void **state) {
    (void)state;
    static const char *const sets[] = {NULL,
                                       "edge-set-omit=PARENT",
                                       "edge-set-omit=LIKES,MEMBER",
                                       "edge-set-max=200",
                                       "edge-set-max=60",
                                       "edge-set-max=0"};
    static const char *const attrs[] = {"edgeSet", "edgeSetOmitted", "edgeTypesIn"};
    struct esp_store *store = open_store();
    size_t damaged = 0;
    for (uint64_t seed = 0; seed < 120; seed++) {
        struct run *r = calloc(1, sizeof *r);
        struct esp_layout layout = layout_of(sets[seed % 6]);
        struct notes notes;
        assert_non_null(r);
        esp_rng_init(&r->rng, 7000 + seed, 0);
        struct esp_forest *forest = random_dag(r);
        suite_table_open(&r->t, store, &layout, "graph", forest);
        const struct digests before = digests_of(&r->t);
        for (int i = 0; i < 3; i++) {
            char text[64];
            snprintf(text, sizeof text, "%s %s", r->g.node[random_node(r)].id,
                     attrs[esp_rng_below(&r->rng, 3)]);
            change_node(&r->t, text);
        }
        damaged += digests_of(&r->t).all != before.all;
        if (!mend_table(&r->t, false, &notes) || digests_of(&r->t).all != before.all) {
            fail_msg("seed %llu: the table is not as it was:%s", (unsigned long long)seed,
                     notes.all);
        }
        suite_table_close(&r->t);
        esp_forest_free(forest);
        free(r);
    }
    assert_true(damaged > 60);
    esp_store_close(store);
}

/* With another type of tree edges all parents seem not to know of them: nothing is written. */
static void settings_of_another_table_mend_nothing(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store = open_store();
    struct esp_layout layout = layout_of(NULL), other = layout_of("edge=CHILDOF");
    struct suite_table t;
    suite_table_open(&t, store, &layout, "graph", forest);
    const struct digests before = digests_of(&t);
    struct esp_repair repair = {.journal = NULL};
    t.access.layout = &other;
    assert_int_equal(esp_repair_run(&t.access, &repair), ESP_ERR_REFUSED);
    t.access.layout = &layout;
    assert_int_equal(digests_of(&t).all, before.all);
    esp_error_clear(&t.err);
    suite_table_close(&t);
    esp_store_close(store);
    esp_forest_free(forest);
}

static enum esp_status drop_image(void *ctx, const struct esp_item *before,
                                  const struct esp_item *after) {
    (void)before, (void)after;
    ++*(size_t *)ctx;
    return ESP_OK;
}

static enum esp_status drop_finding(void *ctx, const struct esp_finding *finding) {
    (void)ctx, (void)finding;
    return ESP_OK;
}

static void mending_without_memory(void **state) {
    (void)state;
    const struct esp_str ids[] = {ESP_STR("c"), ESP_STR("C"), ESP_STR("D"), ESP_STR("x")};
    struct esp_forest *forest = linked_drives();
    struct esp_layout layout = layout_of("edge-set-omit=LIKES");
    struct esp_error err = ESP_ERROR_INIT;
    enum esp_status status = ESP_ERR_NOMEM;
    for (size_t n = 1; status == ESP_ERR_NOMEM; n++) {
        struct esp_test_alloc alloc;
        struct esp_store *store;
        struct suite_table t;
        size_t images = 0;
        struct esp_mend mend = {ids, 4, drop_image, drop_finding, &images};
        esp_test_alloc_init(&alloc, 0);
        assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &alloc.alloc, &store, &err),
                  &err);
        suite_table_open(&t, store, &layout, "graph", forest);
        change_node(&t, "c edgeSet");
        change_node(&t, "D edgeTypesIn");
        write_json(&t, ESP_PUT, EDGE("x", "PARENT", "V") GSI0("0000000009"));
        alloc.calls = 0;
        alloc.fail_at = n;
        status = layout.ops->mend(&t.access, &mend);
        alloc.fail_at = 0;
        assert_true(status == ESP_OK ? images == 3 : t.err.status == ESP_ERR_NOMEM);
        esp_error_clear(&t.err);
        suite_table_close(&t);
        esp_store_close(store);
        esp_test_alloc_done(&alloc);
    }
    assert_int_equal(status, ESP_OK);
    esp_forest_free(forest);
}

/* --- what is refused ----------------------------------------------------------------- */

static void wrong_settings_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *set, *part;
    } cases[] = {
        {"node=A-B", "a prefix has no '-'"},
        {"edge=", "no type of edges"},
        {"edge=A#", "no type of edges"},
        {"edge=NODE", "the prefix of nodes"},
        {"edge-set-omit=A,B-C", "'B-C' is no type of edges"},
        {"edge-set-max=500000", "at most 409600"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_strings sets = {{cases[i].set}, 1};
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_layout layout;
        assert_int_equal(esp_layout_init(&layout, esp_layout_find("graph"), &sets, &err),
                         ESP_ERR_USAGE);
        if (!strstr(err.message, cases[i].part)) {
            fail_msg("%s: %s", cases[i].set, err.message);
        }
    }
}

static void wrong_links_are_refused(void **state) {
    (void)state;
    static char long_type[ESP_SK_BYTES_MAX + 1];
    static const struct {
        const char *from, *to, *type, *weight, *set;
        enum esp_status status;
        const char *part;
    } cases[] = {
        {"a", "b", "A-B", "", NULL, ESP_ERR_USAGE, "no type of edges"},
        {"a", "b", "NODE", "", NULL, ESP_ERR_USAGE, "the prefix of nodes"},
        {"a", "b", "LIKES", "LEAD", NULL, ESP_ERR_USAGE, "is no weight"},
        {"a", "b", "LIKES", "500-5", NULL, ESP_ERR_USAGE, "is no weight"},
        {"a", "b", "LIKES", "500-A-B", NULL, ESP_ERR_USAGE, "is no weight"},
        {"a", "b", "PARENT", "500-A", NULL, ESP_ERR_USAGE, "is no rank"},
        {"a", "b", "PARENT", "12345678901", NULL, ESP_ERR_USAGE, "is no rank"},
        {"III", "D", "PARENT", "5", NULL, ESP_ERR_DUPLICATE, "is one of the tree already"},
        {"D", "d", "PARENT", "5", NULL, ESP_ERR_CYCLE, "a cycle of 3 nodes"},
        {"a", "b", long_type, "", NULL, ESP_ERR_LIMIT, "target"},
    };
    memset(long_type, 'T', sizeof long_type - 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_forest *forest = drives_forest();
        struct esp_layout layout = layout_of(cases[i].set);
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_link_row row = {.child = esp_str_from(cases[i].from),
                                   .parent = esp_str_from(cases[i].to),
                                   .type = esp_str_from(cases[i].type),
                                   .weight = esp_str_from(cases[i].weight),
                                   .line = 9};
        assert_ok(esp_forest_add_links(forest, &row, 1, "edges.csv", &err), &err);
        assert_int_equal(layout.ops->validate(&layout, forest, &err), cases[i].status);
        if (!strstr(err.message, cases[i].part)) {
            fail_msg("case %zu: %s", i, err.message);
        }
        assert_string_equal(err.source, "edges.csv");
        assert_int_equal(err.line, 9);
        esp_forest_free(forest);
    }
}

/* Keys are sort keys, and without a prefix an edge may look like a node. */
static void wrong_ids_are_refused(void **state) {
    (void)state;
    static char id[1016];
    memset(id, 'x', sizeof id - 1);
    struct drives_row rows[] = {{id, ""}, {"b", id}};
    struct drives_row twin[] = {{"b", ""}, {"PARENT-b", "b"}};
    struct esp_layout layout = layout_of(NULL);
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = forest_of_rows(rows, 2);
    assert_int_equal(layout.ops->validate(&layout, forest, &err), ESP_ERR_LIMIT);
    assert_int_equal(err.line, 1);
    assert_non_null(strstr(err.message, "(an id of 1015 bytes) has 1027 bytes"));
    esp_forest_free(forest);
    esp_error_clear(&err);
    forest = forest_of_rows(rows, 1); /* nothing leads to it */
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    esp_forest_free(forest);
    forest = forest_of_rows(twin, 2);
    assert_ok(layout.ops->validate(&layout, forest, &err), &err);
    layout = layout_of("node=");
    assert_int_equal(layout.ops->validate(&layout, forest, &err), ESP_ERR_INPUT);
    assert_int_equal(err.line, 2);
    esp_forest_free(forest);
}

static void refused(struct suite_table *t, enum esp_op op, const struct esp_args *args,
                    enum esp_status expected, const char *part) {
    uint64_t written = t->session->usage.items_written;
    esp_error_clear(&t->err);
    esp_arena_reset(&t->scratch);
    assert_int_equal(esp_operate(&t->access, op, args, NULL, NULL), expected);
    if (!strstr(t->err.message, part)) {
        fail_msg("'%s' is not in: %s", part, t->err.message);
    }
    assert_int_equal(t->session->usage.items_written, written);
    esp_error_clear(&t->err);
}

static void wrong_writes_are_refused(void **state) {
    (void)state;
    static const char data[] = "\"gsi0\":{\"S\":\"x\"}";
    struct esp_forest *forest = drives_forest();
    struct esp_store *store = open_store();
    struct esp_layout layout = layout_of(NULL);
    struct suite_table t;
    suite_table_open(&t, store, &layout, "graph", forest);
    struct esp_args args = {.at.id = ESP_STR("C"), .to.id = ESP_STR("D"), .type = ESP_STR("X-Y")};
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_USAGE, "no type of edges");
    refused(&t, ESP_OP_NEIGHBOURS, &args, ESP_ERR_USAGE, "no type of edges");
    args.type = ESP_STR("LIKES");
    refused(&t, ESP_OP_UNLINK, &args, ESP_ERR_NOT_FOUND, "no edge LIKES from 'C' to 'D'");
    args.weight = ESP_STR("5-5");
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_USAGE, "is no weight");
    refused(&t, ESP_OP_NEIGHBOURS, &args, ESP_ERR_USAGE, "'5-5' is no weight");
    refused(&t, ESP_OP_HYDRATE, &args, ESP_ERR_USAGE, "'5-5' is no weight");
    args.weight = (struct esp_str){NULL, 0};
    args.data = (struct esp_data){data, sizeof data - 1, 5};
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_USAGE, "'gsi0' belongs to the layout graph");
    args.data = (struct esp_data){NULL, 0, 0};
    args.to.id = ESP_STR("nobody");
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_NOT_FOUND, "no node 'nobody'");
    refused(&t, ESP_OP_HYDRATE, &(struct esp_args){.at.id = ESP_STR("nobody"), .type = args.type},
            ESP_ERR_NOT_FOUND, "no node 'nobody'");
    args =
        (struct esp_args){.at.id = ESP_STR("D"), .to.id = ESP_STR("i"), .type = ESP_STR("PARENT")};
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_CYCLE, "own ancestor: 'i' is below it");
    args.to.id = args.at.id;
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_CYCLE, "'D' would be its own ancestor");
    args =
        (struct esp_args){.at.id = ESP_STR("i"), .to.id = ESP_STR("d"), .type = ESP_STR("PARENT")};
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_EXISTS, "an edge PARENT from 'i' to 'd' already");
    suite_table_close(&t);
    esp_store_close(store);
    esp_forest_free(forest);
}

static enum esp_status count_node(void *ctx, const struct esp_node_view *node) {
    assert_true(node->id.len);
    ++*(int *)ctx;
    return ESP_OK;
}

/* The rank of a tree edge is given without the zeros before it. */
static void ranks_are_asked_for_as_numbers(void **state) {
    (void)state;
    static const struct {
        const char *weight;
        int children; /* of those whose ranks are 1000, 2000, 3000 */
    } cases[] = {{"", 3}, {"1000", 3}, {"0000001000", 3}, {"1001", 2}, {"3000", 1}, {"99999", 0}};
    static const struct drives_row rows[] = {{"r", ""}, {"a", "r"}, {"b", "r"}, {"c", "r"}};
    struct esp_forest *forest = forest_of_rows(rows, 4);
    struct esp_store *store = open_store();
    struct esp_layout layout = layout_of(NULL);
    struct suite_table t;
    suite_table_open(&t, store, &layout, "graph", forest);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_args args = {.at.id = ESP_STR("r"),
                                .type = esp_str_from(tree_type),
                                .weight = esp_str_from(cases[i].weight)};
        static const enum esp_op ops[] = {ESP_OP_NEIGHBOURS, ESP_OP_HYDRATE};
        for (int k = 0; k < 2; k++) {
            int count = 0, named = k == 1 && cases[i].children ? 1 : 0; /* r itself */
            esp_arena_reset(&t.scratch);
            assert_ok(esp_operate(&t.access, ops[k], &args, count_node, &count), &t.err);
            assert_int_equal(count, cases[i].children + named);
        }
    }
    struct esp_args args = {
        .at.id = ESP_STR("r"), .type = esp_str_from(tree_type), .weight = ESP_STR("5-A")};
    refused(&t, ESP_OP_NEIGHBOURS, &args, ESP_ERR_USAGE, "'5-A' is no rank");
    suite_table_close(&t);
    esp_store_close(store);
    esp_forest_free(forest);
}

/* Without a prefix the edge from PARENT-x to x has the key of PARENT-x. */
static void edges_with_the_key_of_a_node_are_refused(void **state) {
    (void)state;
    static const struct drives_row rows[] = {{"x", ""}, {"m", "x"}, {"PARENT-x", "m"}};
    static const struct drives_row top = {"PARENT-x", ""}, below[] = {{"x", ""}, {"n", "x"}};
    struct esp_forest *forest = forest_of_rows(rows, 3), *graft = forest_of_rows(&top, 1);
    struct esp_forest *other = forest_of_rows(below, 2);
    struct esp_store *store = open_store();
    struct esp_layout layout = layout_of("node=");
    struct suite_table t;
    suite_table_open(&t, store, &layout, "graph", forest);
    struct esp_args args = {.at.id = ESP_STR("m")};
    refused(&t, ESP_OP_PROMOTE, &args, ESP_ERR_REFUSED, "have the key of the node 'PARENT-x'");
    args = (struct esp_args){
        .at.id = ESP_STR("PARENT-x"), .to.id = ESP_STR("x"), .type = esp_str_from(tree_type)};
    refused(&t, ESP_OP_MOVE, &args, ESP_ERR_REFUSED, "have the key of the node 'PARENT-x'");
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_REFUSED, "have the key of the node 'PARENT-x'");
    suite_table_close(&t);
    suite_table_open(&t, store, &layout, "graft", other);
    args = (struct esp_args){.to.id = ESP_STR("x"), .subtree = graft};
    refused(&t, ESP_OP_INSERT_SUBTREE, &args, ESP_ERR_REFUSED,
            "have the key of the node 'PARENT-x'");
    args = (struct esp_args){.to.id = ESP_STR("x"), .id = ESP_STR("PARENT-x")};
    refused(&t, ESP_OP_INSERT, &args, ESP_ERR_REFUSED, "have the key of the node 'PARENT-x'");
    suite_table_close(&t);
    esp_store_close(store);
    esp_forest_free(forest);
    esp_forest_free(graft);
    esp_forest_free(other);
}

/* A node of 409575 bytes without its edges, so that no set of them fits, but the names of types
 * do: PARENT takes 20 bytes, and LIKES 5 more. */
enum { BIG_FREE = 25, BIG_KEYS = 28, BIG_NAME = 1 };
enum { BIG_VALUE = ESP_ITEM_BYTES_MAX - BIG_FREE - BIG_KEYS - BIG_NAME };

static struct esp_data big_data(char *text) {
    static const char head[] = "\"d\":{\"S\":\"", tail[] = "\"}";
    size_t len = sizeof head - 1;
    memcpy(text, head, len);
    memset(text + len, 'x', BIG_VALUE);
    len += BIG_VALUE;
    memcpy(text + len, tail, sizeof tail);
    return (struct esp_data){text, (uint32_t)(len + sizeof tail - 1), BIG_VALUE + BIG_NAME};
}

static struct esp_forest *one_node(const char *id, struct esp_data data) {
    struct esp_forest_options options = {.source = "rows"};
    struct esp_record record = {.id = esp_str_from(id), .data = data};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest_builder *builder;
    struct esp_forest *forest;
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
    assert_ok(esp_forest_freeze(builder, &forest, &err), &err);
    return forest;
}

static void written(struct suite_table *t, enum esp_op op, const struct esp_args *args) {
    struct findings findings = {.damage = &damages[0]};
    int count = 0;
    struct esp_args parent = {.at.id = args->at.id.len ? args->at.id : args->id};
    esp_arena_reset(&t->scratch);
    assert_ok(esp_operate(&t->access, op, args, NULL, NULL), &t->err);
    esp_arena_reset(&t->scratch);
    assert_ok(t->layout->ops->check(&t->access, note, &findings), &t->err);
    if (findings.count) {
        fail_msg("check found%s", findings.all);
    }
    esp_arena_reset(&t->scratch);
    assert_ok(esp_operate(&t->access, ESP_OP_PARENT, &parent, count_node, &count), &t->err);
    assert_int_equal(count, 1);
}

static void sets_give_way_to_large_nodes(void **state) {
    (void)state;
    static char text[BIG_VALUE + 64];
    struct esp_data data = big_data(text);
    struct esp_forest *forest = drives_forest(), *graft = one_node("two", data);
    struct esp_store *store = open_store();
    struct esp_layout layout = layout_of(NULL);
    struct suite_table t;
    suite_table_open(&t, store, &layout, "graph", forest);
    struct esp_args args = {.id = ESP_STR("big"), .to.id = ESP_STR("C"), .data = data};
    written(&t, ESP_OP_INSERT, &args);
    args = (struct esp_args){.id = ESP_STR("two"), .to.id = ESP_STR("C"), .subtree = graft};
    written(&t, ESP_OP_INSERT_SUBTREE, &args);
    args =
        (struct esp_args){.at.id = ESP_STR("big"), .to.id = ESP_STR("D"), .type = ESP_STR("LIKES")};
    written(&t, ESP_OP_LINK, &args);
    args.type = ESP_STR("MEMBER");
    refused(&t, ESP_OP_LINK, &args, ESP_ERR_LIMIT, "409600");
    args.type = ESP_STR("LIKES");
    written(&t, ESP_OP_UNLINK, &args);
    written(&t, ESP_OP_MOVE, &args);
    suite_table_close(&t);
    esp_store_close(store);
    esp_forest_free(forest);
    esp_forest_free(graft);
}

/* An edge set that grew after it was read makes the write fail, and nothing is written. */
static const struct esp_store_ops *inner;
static const char *interference; /* put before the next transaction; NULL: none */
static struct suite_table *interfered;

static enum esp_status execute_late(struct esp_session *session, struct esp_request *requests,
                                    size_t n, struct esp_error *err) {
    if (requests[0].kind == ESP_REQ_TRANSACT && interference) {
        const char *item = interference;
        interference = NULL;
        struct esp_session *own;
        struct suite_table other = *interfered;
        struct esp_error late = ESP_ERROR_INIT;
        assert_ok(esp_session_open(interfered->table, &own, &late), &late);
        other.session = own;
        write_json(&other, ESP_PUT, item);
        esp_session_close(own);
    }
    return inner->execute(session, requests, n, err);
}

static void other_writers_are_noticed(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store = open_store();
    struct esp_layout layout = layout_of(NULL);
    struct suite_table t;
    suite_table_open(&t, store, &layout, "graph", forest);
    inner = store->ops;
    struct esp_store_ops late = *inner;
    late.execute = execute_late;
    store->ops = &late;
    interfered = &t;
    static const enum esp_op ops[] = {ESP_OP_MOVE, ESP_OP_LINK, ESP_OP_REMOVE, ESP_OP_PROMOTE};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        struct esp_args args = {
            .at.id = ESP_STR("c"), .to.id = ESP_STR("V"), .type = ESP_STR("LIKES")};
        interference = i % 2 ? NODE("c") SET("\"PARENT-NODE-IV-0000001000\"")
                             : NODE("c") SET("\"PARENT-NODE-IV-0000001000\",\"LIKES-NODE-C-500\"");
        refused(&t, ops[i], &args, ESP_ERR_CONFLICT, "another writer");
    }
    store->ops = inner;
    suite_table_close(&t);
    esp_store_close(store);
    esp_forest_free(forest);
}

/* --- memory --------------------------------------------------------------------------- */

static enum esp_status ignore(void *ctx, const struct esp_node_view *node) {
    (void)ctx, (void)node;
    return ESP_OK;
}

/* The operations that only this layout has, with the n-th allocation failing. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    static const enum esp_op ops[] = {ESP_OP_LINK,    ESP_OP_UNLINK,     ESP_OP_PROMOTE,
                                      ESP_OP_HYDRATE, ESP_OP_NEIGHBOURS, ESP_OP_REMOVE};
    static const char *const sets[] = {NULL, "edge-set-omit=LIKES,PARENT"};
    struct esp_link_row rows[] = {
        {.child = ESP_STR("i"), .parent = ESP_STR("V"), .type = ESP_STR("LIKES")},
        {.child = ESP_STR("C"), .parent = ESP_STR("d"), .type = ESP_STR("LIKES")},
        {.child = ESP_STR("i"), .parent = ESP_STR("c")}};
    struct esp_forest *forest = drives_forest();
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_forest_add_links(forest, rows, 3, NULL, &err), &err);
    for (size_t i = 0; i < 2 * sizeof ops / sizeof ops[0]; i++) {
        enum esp_op op = ops[i / 2];
        enum esp_status status = ESP_ERR_NOMEM;
        for (size_t n = 1; status == ESP_ERR_NOMEM; n++) {
            struct esp_test_alloc alloc;
            struct esp_store *store;
            struct suite_table t;
            struct esp_layout layout = layout_of(sets[i % 2]);
            struct esp_args args = {.at.id = ESP_STR("V"), .type = ESP_STR("LIKES")};
            args.at.id = op == ESP_OP_LINK || op == ESP_OP_UNLINK ? ESP_STR("i") : args.at.id;
            args.to.id = op == ESP_OP_LINK ? ESP_STR("C") : ESP_STR("V");
            esp_test_alloc_init(&alloc, 0);
            assert_ok(
                esp_store_open("memory:", NULL, &esp_clock_system, &alloc.alloc, &store, &err),
                &err);
            suite_table_open(&t, store, &layout, "graph", forest);
            esp_arena_fini(&t.scratch);
            esp_arena_init(&t.scratch, &alloc.alloc, SIZE_MAX);
            alloc.calls = 0;
            alloc.fail_at = n;
            status = esp_operate(&t.access, op, &args, ignore, NULL);
            alloc.fail_at = 0;
            assert_true(status == ESP_OK || t.err.status == ESP_ERR_NOMEM);
            esp_error_clear(&t.err);
            suite_table_close(&t);
            esp_store_close(store);
            esp_test_alloc_done(&alloc);
        }
        assert_int_equal(status, ESP_OK);
    }
    esp_forest_free(forest);
}

static char folder[256];

static int make_folder(void **state) {
    (void)state;
    esp_test_mkdir(folder);
    return setenv("XDG_STATE_HOME", folder, 1);
}

static int remove_folder(void **state) {
    (void)state;
    esp_test_rmdir(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage_is_mended),
        cmocka_unit_test(lost_sets_are_mended),
        cmocka_unit_test(settings_of_another_table_mend_nothing),
        cmocka_unit_test(mending_without_memory),
        cmocka_unit_test(several_parents_and_types),
        cmocka_unit_test(every_damage_is_found),
        cmocka_unit_test(wrong_settings_are_refused),
        cmocka_unit_test(wrong_links_are_refused),
        cmocka_unit_test(wrong_ids_are_refused),
        cmocka_unit_test(wrong_writes_are_refused),
        cmocka_unit_test(edges_with_the_key_of_a_node_are_refused),
        cmocka_unit_test(sets_give_way_to_large_nodes),
        cmocka_unit_test(ranks_are_asked_for_as_numbers),
        cmocka_unit_test(other_writers_are_noticed),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
