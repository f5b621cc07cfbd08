/* The read operations of the layout graph. */
#include "converters/graph/graph.h"
#include "converters/paging.h"

enum { FETCH_NODES_MAX = 16384 /* at a time: bounds the memory of large answers */ };

/* --- passing nodes on --------------------------------------------------------------- */

/* A node of an answer before its item is read, and what is known of it by the way. */
struct pick {
    struct esp_str key;
    struct esp_str parent; /* id; ptr == NULL: its edge set tells */
    int64_t depth, order;
    bool must; /* ERR_NOT_FOUND when it is missing */
    const struct esp_edge_view *edge;
};
struct picks {
    struct esp_access *access;
    struct pick *pick;
    uint32_t count, cap;
};

static enum esp_status add_pick(struct picks *picks, const struct pick *pick) {
    struct pick *grown = esp_arena_grow(picks->access->scratch, picks->pick, &picks->cap,
                                        picks->count + 1, sizeof *grown);
    if (!grown) {
        return esp_fail_nomem(picks->access->err);
    }
    picks->pick = grown;
    grown[picks->count++] = *pick;
    return ESP_OK;
}

/* Whose child the node is when nobody knows by the way: the first parent its edge set names. */
static enum esp_status parent_of(struct esp_access *a, const struct esp_item *item,
                                 struct esp_arena *arena, struct esp_node_view *view) {
    struct esp_str tree = graph_tree_type(a->layout);
    struct esp_edge_set set;
    struct graph_place place;
    enum esp_status status =
        esp_edge_set_read(&set, arena, &item->value[GRAPH_EDGE_SET], &item->value[GRAPH_OMITTED]);
    if (status == ESP_OK) {
        status = graph_parents(a->layout, &set, arena, &place);
    }
    if (status != ESP_OK || esp_edge_set_omits(&set, tree)) {
        return status;
    }
    view->parent_id = (struct esp_str){"", 0};
    if (place.parent_count && graph_id(a->layout, place.parent[0], &view->parent_id)) {
        int64_t rank = esp_edge_rank(esp_edge_set_find(&set, tree, place.parent[0])->gsi0);
        view->order = rank < 0 ? 0 : rank;
    }
    return ESP_OK;
}

static enum esp_status pass_node(struct esp_access *a, const struct esp_item *item,
                                 const struct pick *pick, struct esp_arena *arena, esp_node_fn *fn,
                                 void *ctx) {
    struct esp_node_view view;
    enum esp_status status = ESP_OK;
    if (!a->layout->ops->view(a->layout, item, &view)) {
        return ESP_OK;
    }
    if (pick->parent.ptr) {
        view.parent_id = pick->parent;
        view.order = pick->order;
    } else {
        status = parent_of(a, item, arena, &view);
    }
    view.depth = pick->depth;
    view.edge = pick->edge;
    return status == ESP_OK ? fn(ctx, &view) : status;
}

static enum esp_status missing(struct esp_access *a, struct esp_str key) {
    struct esp_str id = key;
    (void)graph_id(a->layout, key, &id);
    return esp_access_missing(a, id);
}

/* One round trip's worth of picks, in an arena of its own. */
static enum esp_status fetch(struct esp_access *a, const struct pick *pick, uint32_t n,
                             struct esp_arena *arena, esp_node_fn *fn, void *ctx) {
    struct esp_access inner = *a;
    struct esp_str *key = esp_arena_calloc(arena, n, sizeof *key);
    struct graph_node *node = esp_arena_calloc(arena, n, sizeof *node);
    inner.scratch = arena;
    if (!key || !node) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; i < n; i++) {
        key[i] = pick[i].key;
    }
    enum esp_status status = graph_read(&inner, key, n, node);
    for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
        if (node[i].found) {
            status = pass_node(a, &node[i].item, &pick[i], arena, fn, ctx);
        } else if (pick[i].must) {
            status = missing(a, key[i]);
        }
    }
    return status;
}

/* All picks in their order; missing nodes are skipped (check reports them). */
static enum esp_status pass_picks(const struct picks *picks, esp_node_fn *fn, void *ctx) {
    struct esp_access *a = picks->access;
    struct esp_arena arena;
    enum esp_status status = ESP_OK;
    esp_arena_init(&arena, a->session->table->store->alloc, SIZE_MAX);
    for (uint32_t at = 0; status == ESP_OK && at < picks->count; at += FETCH_NODES_MAX) {
        uint32_t n = picks->count - at < FETCH_NODES_MAX ? picks->count - at : FETCH_NODES_MAX;
        esp_arena_reset(&arena);
        status = fetch(a, picks->pick + at, n, &arena, fn, ctx);
    }
    esp_arena_fini(&arena);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* What the query of an index finds, by and by. */
struct sources {
    struct picks picks;
    struct pick like;        /* what is known of all of them */
    struct esp_str but;      /* the key of one that is not meant; ptr == NULL: all are */
    struct esp_str type, to; /* nodes come with their edges, of that type to that id; to.ptr ==
                                NULL: without them */
};

/* In the scratch arena.  `source` is a key, `target` an id. */
static struct esp_edge_view *edge_view(struct esp_access *a, struct esp_str source,
                                       struct esp_str type, struct esp_str target,
                                       struct esp_str weight) {
    struct esp_edge_view *edge = esp_arena_calloc(a->scratch, 1, sizeof *edge);
    if (edge) {
        *edge = (struct esp_edge_view){source, target, type, weight, false, {NULL, 0, 0}};
        (void)graph_id(a->layout, source, &edge->source);
    }
    return edge;
}

/* The edge that an item of the index is, with its attributes. */
static const struct esp_edge_view *edge_of_item(const struct sources *s, struct esp_str key,
                                                const struct esp_item *item) {
    struct esp_access *a = s->picks.access;
    struct esp_str weight = esp_arena_dup(a->scratch, esp_item_text(item, GRAPH_GSI0));
    struct esp_str data = {item->data.text, item->data.len};
    struct esp_edge_view *edge = edge_view(a, key, s->type, s->to, weight);
    data = data.len ? esp_arena_dup(a->scratch, data) : (struct esp_str){"", 0};
    if (!edge || !weight.ptr || !data.ptr) {
        return NULL;
    }
    edge->has_data = true;
    edge->data = (struct esp_data){data.ptr, (uint32_t)data.len, item->data.size};
    return edge;
}

static enum esp_status pick_source(void *ctx, const struct esp_item *item) {
    struct sources *s = ctx;
    struct pick pick = s->like;
    int64_t rank = esp_edge_rank(esp_item_text(item, GRAPH_GSI0));
    if (s->but.ptr && esp_str_eq(esp_item_text(item, GRAPH_SOURCE), s->but)) {
        return ESP_OK;
    }
    pick.key = esp_arena_dup(s->picks.access->scratch, esp_item_text(item, GRAPH_SOURCE));
    pick.order = rank < 0 ? 0 : rank;
    if (pick.key.ptr && s->to.ptr) {
        pick.edge = edge_of_item(s, pick.key, item);
    }
    return pick.key.ptr && (pick.edge || !s->to.ptr) ? add_pick(&s->picks, &pick)
                                                     : esp_fail_nomem(s->picks.access->err);
}

static enum esp_status pass_sources(void *ctx, esp_node_fn *fn, void *fn_ctx) {
    const struct sources *s = ctx;
    return pass_picks(&s->picks, fn, fn_ctx);
}

/* The nodes with an edge to the target, from a weight up (len 0: all), in pages where those are
 * asked for.  *none: there are none, on no page. */
static enum esp_status query_sources(struct sources *s, struct esp_str type, struct esp_str key,
                                     struct esp_str weight, esp_node_fn *fn, void *ctx,
                                     bool *none) {
    struct esp_access *a = s->picks.access;
    struct esp_str target = esp_edge_target(a->scratch, type, key);
    struct esp_query q = graph_sources_query(target, weight);
    struct esp_page_keys keys = {
        .add = pick_source, .pass = pass_sources, .sink = s, .kept = &s->picks.count};
    bool earlier = false;
    enum esp_status status =
        target.ptr ? esp_paging_query_keys(a, &q, &keys, fn, ctx, &earlier) : ESP_ERR_NOMEM;
    *none = !earlier && s->picks.count == 0;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

static enum esp_status key_of(struct esp_access *a, struct esp_str id, struct esp_str *key) {
    *key = graph_key(a->layout, id, a->scratch);
    return key->ptr || id.len == 0 ? ESP_OK : esp_fail_nomem(a->err);
}

/* What a locator tells of the depth; -1: nothing. */
static int64_t known_depth(const struct esp_locator *at) {
    return at->key ? ((const struct graph_place *)at->key)->depth : -1;
}

/* --- one level ---------------------------------------------------------------------- */

enum esp_status graph_op_node(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                              void *ctx) {
    struct picks picks = {.access = a};
    struct pick self = {.depth = known_depth(&args->at), .must = true};
    enum esp_status status = key_of(a, args->at.id, &self.key);
    if (status == ESP_OK) {
        status = add_pick(&picks, &self);
    }
    return status == ESP_OK ? pass_picks(&picks, fn, ctx) : status;
}

enum esp_status graph_op_parent(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct graph_place place;
    struct picks picks = {.access = a};
    enum esp_status status = graph_place_of(a, &args->at, &place);
    for (uint32_t i = 0; status == ESP_OK && i < place.parent_count; i++) {
        struct pick pick = {.key = place.parent[i],
                            .depth = place.depth > 0 ? place.depth - 1 : -1};
        status = add_pick(&picks, &pick);
    }
    return status == ESP_OK ? pass_picks(&picks, fn, ctx) : status;
}

/* The children of a node in order; those in `seen` are left out, and noted. */
static enum esp_status pick_children(struct picks *picks, struct esp_str key, int64_t depth,
                                     struct esp_idmap *seen) {
    struct esp_access *a = picks->access;
    struct graph_sources children;
    struct pick pick = {.depth = depth};
    enum esp_status status =
        graph_sources(a, graph_tree_type(a->layout), key, (struct esp_str){NULL, 0}, &children);
    for (uint32_t i = 0; status == ESP_OK && i < children.count; i++) {
        uint32_t number = 0, before = seen->count;
        int64_t rank = esp_edge_rank(children.gsi0[i]);
        pick.key = children.key[i];
        pick.order = rank < 0 ? 0 : rank;
        if (!graph_id(a->layout, key, &pick.parent)) {
            pick.parent = (struct esp_str){NULL, 0};
        }
        status = esp_idmap_intern(seen, pick.key, &number);
        if (status == ESP_OK && number >= before) {
            status = add_pick(picks, &pick);
        }
    }
    return status;
}

/* Only when nothing is there is it worth a GetItem to tell a leaf from a node that is none. */
static enum esp_status none_or_missing(struct esp_access *a, const struct esp_locator *at) {
    return at->key ? ESP_OK : esp_access_exists(a, at->id);
}

enum esp_status graph_op_children(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    struct sources children = {.picks = {.access = a}};
    int64_t depth = known_depth(&args->at);
    struct esp_str key, none_given = {NULL, 0};
    bool none = false;
    enum esp_status status = key_of(a, args->at.id, &key);
    children.like.depth = depth < 0 ? -1 : depth + 1;
    if (status == ESP_OK && !graph_id(a->layout, key, &children.like.parent)) {
        children.like.parent = none_given;
    }
    if (status == ESP_OK) {
        status =
            query_sources(&children, graph_tree_type(a->layout), key, none_given, fn, ctx, &none);
    }
    return status == ESP_OK && none ? none_or_missing(a, &args->at) : status;
}

/* The other children of its only parent. */
static enum esp_status pass_siblings(struct esp_access *a, struct esp_str key,
                                     const struct graph_place *place, esp_node_fn *fn, void *ctx) {
    struct sources row = {.picks = {.access = a}, .like = {.depth = place->depth}, .but = key};
    struct esp_str all = {NULL, 0};
    bool none;
    if (!graph_id(a->layout, place->parent[0], &row.like.parent)) {
        row.like.parent = all;
    }
    return query_sources(&row, graph_tree_type(a->layout), place->parent[0], all, fn, ctx, &none);
}

enum esp_status graph_op_siblings(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    struct picks picks = {.access = a};
    struct graph_place place;
    struct esp_idmap seen;
    struct esp_str key;
    uint32_t number;
    enum esp_status status = graph_place_of(a, &args->at, &place);
    esp_idmap_init(&seen, a->scratch);
    if (status == ESP_OK) {
        status = key_of(a, args->at.id, &key);
    }
    if (status == ESP_OK && place.parent_count == 1) {
        return pass_siblings(a, key, &place, fn, ctx);
    }
    if (status == ESP_OK) {
        status = esp_idmap_intern(&seen, key, &number);
    }
    for (uint32_t i = 0; status == ESP_OK && i < place.parent_count; i++) {
        status = pick_children(&picks, place.parent[i], place.depth, &seen);
    }
    return status == ESP_OK ? pass_picks(&picks, fn, ctx) : status;
}

/* --- down --------------------------------------------------------------------------- */

/* Which nodes of a walk are answered. */
struct window {
    uint32_t lo, hi; /* depths */
    bool leaves;     /* only those without children */
    int64_t depth;   /* of the node at the top; -1: not known */
};

static enum esp_status pick_below(struct picks *picks, const struct graph_below *below,
                                  const struct window *window, uint32_t v) {
    const struct graph_below_node *node = &below->node[v];
    struct pick pick = {.key = below->keys.id[v],
                        .depth = window->depth < 0 ? -1 : window->depth + node->depth,
                        .order = node->rank,
                        .must = v == 0};
    if (node->depth < window->lo || node->depth > window->hi || (window->leaves && node->first)) {
        return ESP_OK;
    }
    if (v > 0 && !graph_id(picks->access->layout, below->keys.id[node->parent], &pick.parent)) {
        pick.parent = (struct esp_str){NULL, 0};
    }
    return add_pick(picks, &pick);
}

/* The first of the edges from `at` on that leads to a node which was met by it; 0: none. */
static uint32_t own_edge(const struct graph_below *below, uint32_t parent, uint32_t at) {
    while (at && below->node[below->edge[at - 1].child].parent != parent) {
        at = below->edge[at - 1].next;
    }
    return at;
}

/* In pre-order, each node below the parent by which it was met first. */
static enum esp_status pick_all(struct picks *picks, const struct graph_below *below,
                                const struct window *window) {
    struct esp_access *a = picks->access;
    uint32_t *way = esp_arena_calloc(a->scratch, below->keys.count, sizeof *way); /* edges */
    uint32_t levels = 0, at = own_edge(below, 0, below->node[0].first);
    enum esp_status status = way ? pick_below(picks, below, window, 0) : esp_fail_nomem(a->err);
    while (status == ESP_OK && (at || levels)) {
        if (!at) {
            uint32_t edge = way[--levels], v = below->edge[edge - 1].child;
            at = own_edge(below, below->node[v].parent, below->edge[edge - 1].next);
            continue;
        }
        uint32_t v = below->edge[at - 1].child;
        status = pick_below(picks, below, window, v);
        way[levels++] = at;
        at = own_edge(below, v, below->node[v].first);
    }
    return status;
}

static enum esp_status walk(struct esp_access *a, const struct esp_locator *at,
                            const struct window *window, esp_node_fn *fn, void *ctx) {
    struct picks picks = {.access = a};
    struct graph_below below;
    struct esp_str key;
    /* Whether a node has children shows when they have been asked for. */
    enum esp_status status = key_of(a, at->id, &key);
    if (status == ESP_OK) {
        status = graph_descend(a, key, window->hi, &below);
    }
    if (status == ESP_OK && window->lo > 0 && below.keys.count == 1) {
        return none_or_missing(a, at);
    }
    if (status == ESP_OK) {
        status = pick_all(&picks, &below, window);
    }
    return status == ESP_OK ? pass_picks(&picks, fn, ctx) : status;
}

enum esp_status graph_op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct window window = {.lo = args->lo, .hi = args->hi, .depth = known_depth(&args->at)};
    return walk(a, &args->at, &window, fn, ctx);
}

enum esp_status graph_op_descendants(struct esp_access *a, const struct esp_args *args,
                                     esp_node_fn *fn, void *ctx) {
    struct window window = {.lo = 1, .hi = UINT32_MAX, .depth = known_depth(&args->at)};
    return walk(a, &args->at, &window, fn, ctx);
}

enum esp_status graph_op_leaves(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct window window = {
        .lo = 1, .hi = UINT32_MAX, .leaves = true, .depth = known_depth(&args->at)};
    return walk(a, &args->at, &window, fn, ctx);
}

enum esp_status graph_op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct window window = {.lo = args->lo, .hi = args->lo, .depth = 0};
    return walk(a, &args->at, &window, fn, ctx);
}

enum esp_status graph_op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                              void *ctx) {
    struct window window = {.lo = 0, .hi = UINT32_MAX, .depth = 0};
    return walk(a, &args->at, &window, fn, ctx);
}

/* Edges tell: no item of a node is read. */
enum esp_status graph_op_count(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct graph_below below;
    struct esp_str key;
    enum esp_status status = key_of(a, args->at.id, &key);
    if (status == ESP_OK) {
        status = graph_descend(a, key, UINT32_MAX, &below);
    }
    a->value = status == ESP_OK ? below.keys.count - 1 : 0;
    return status == ESP_OK && a->value == 0 ? none_or_missing(a, &args->at) : status;
}

/* --- up ----------------------------------------------------------------------------- */

/* What is above a node, itself last: no node before one that is above it.  *depths: each of them
 * has one parent at most, so that the position is the depth. */
static enum esp_status order_above(struct esp_access *a, const struct graph_above *above,
                                   uint32_t start, uint32_t *order, uint32_t *count, bool *depths) {
    uint32_t total = above->keys.count, levels = 0;
    uint32_t *way = esp_arena_calloc(a->scratch, total, sizeof *way);
    uint32_t *next = esp_arena_calloc(a->scratch, total, sizeof *next); /* parent to look at */
    bool *met = esp_arena_calloc(a->scratch, total, sizeof *met);
    *count = 0;
    *depths = true;
    if (!way || !next || !met) {
        return esp_fail_nomem(a->err);
    }
    way[levels++] = start;
    met[start] = true;
    while (levels) {
        uint32_t v = way[levels - 1];
        const struct graph_above_node *node = &above->node[v];
        if (next[v] == node->place.parent_count) {
            *depths = *depths && node->place.parent_count <= 1 && (v == start || node->node.found);
            order[(*count)++] = v;
            levels--;
            continue;
        }
        uint32_t parent = node->parent[next[v]++];
        if (parent == start) {
            struct esp_str id = above->keys.id[start];
            (void)graph_id(a->layout, above->keys.id[start], &id);
            return esp_fail(a->err, ESP_ERR_CYCLE,
                            "the table is damaged: '%.*s' is its own ancestor; check names the "
                            "others",
                            ESP_FMT(id));
        }
        if (!met[parent]) {
            met[parent] = true;
            way[levels++] = parent;
        }
    }
    return ESP_OK;
}

enum esp_status graph_op_ancestors(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct graph_above above;
    struct graph_place place;
    struct esp_str key;
    uint32_t start, count = 0, *order = NULL;
    bool depths;
    enum esp_status status = graph_place_of(a, &args->at, &place);
    graph_above_init(&above, a);
    if (status == ESP_OK) {
        status = key_of(a, args->at.id, &key);
    }
    if (status == ESP_OK) {
        status = graph_above_add(&above, a, key, &place, &start);
    }
    if (status == ESP_OK) {
        status = graph_climb(&above, a);
    }
    if (status == ESP_OK) {
        order = esp_arena_calloc(a->scratch, above.keys.count, sizeof *order);
        status =
            order ? order_above(a, &above, start, order, &count, &depths) : esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; status == ESP_OK && i + 1 < count; i++) {
        const struct graph_above_node *node = &above.node[order[i]];
        struct pick pick = {.parent = {"", 0}, .depth = depths ? (int64_t)i : -1};
        if (node->place.parent_count && !graph_id(a->layout, node->place.parent[0], &pick.parent)) {
            pick.parent = (struct esp_str){NULL, 0};
        }
        status =
            node->node.found ? pass_node(a, &node->node.item, &pick, a->scratch, fn, ctx) : ESP_OK;
    }
    return status;
}

enum { OF_ONE = 1, OF_OTHER = 2, OF_BOTH = 3, COVERED = 4 };

/* Gives the flag to a node and to all that is above it. */
static enum esp_status flag_above(struct esp_access *a, const struct graph_above *above,
                                  uint32_t start, unsigned char flag, unsigned char *flags) {
    uint32_t *queue = esp_arena_calloc(a->scratch, above->keys.count, sizeof *queue);
    uint32_t count = 0;
    if (!queue) {
        return esp_fail_nomem(a->err);
    }
    queue[count++] = start;
    flags[start] |= flag;
    for (uint32_t at = 0; at < count; at++) {
        const struct graph_above_node *node = &above->node[queue[at]];
        for (uint32_t i = 0; i < node->place.parent_count; i++) {
            if (!(flags[node->parent[i]] & flag)) {
                flags[node->parent[i]] |= flag;
                queue[count++] = node->parent[i];
            }
        }
    }
    return ESP_OK;
}

/* A node that is above both is lowest when it is no parent of another such node. */
static enum esp_status pick_lowest(struct picks *picks, const struct graph_above *above,
                                   unsigned char *flags) {
    enum esp_status status = ESP_OK;
    for (uint32_t v = 0; v < above->keys.count; v++) {
        const struct graph_above_node *node = &above->node[v];
        for (uint32_t i = 0; (flags[v] & OF_BOTH) == OF_BOTH && i < node->place.parent_count; i++) {
            flags[node->parent[i]] |= COVERED;
        }
    }
    for (uint32_t v = 0; status == ESP_OK && v < above->keys.count; v++) {
        struct pick pick = {.key = above->keys.id[v], .depth = -1};
        status = flags[v] == OF_BOTH ? add_pick(picks, &pick) : ESP_OK;
    }
    return status;
}

static enum esp_status lca_start(struct esp_access *a, const struct esp_locator *at,
                                 struct graph_above *above, uint32_t *number) {
    struct graph_place place;
    struct esp_str key;
    enum esp_status status = graph_place_of(a, at, &place);
    if (status == ESP_OK) {
        status = key_of(a, at->id, &key);
    }
    return status == ESP_OK ? graph_above_add(above, a, key, &place, number) : status;
}

/* Both ways up are read together, what they share once. */
enum esp_status graph_op_lca(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                             void *ctx) {
    struct picks picks = {.access = a};
    struct graph_above above;
    uint32_t one = 0, other = 0;
    unsigned char *flags = NULL;
    if (esp_str_eq(args->at.id, args->to.id)) {
        return graph_op_node(a, args, fn, ctx);
    }
    graph_above_init(&above, a);
    enum esp_status status = lca_start(a, &args->at, &above, &one);
    if (status == ESP_OK) {
        status = lca_start(a, &args->to, &above, &other);
    }
    if (status == ESP_OK) {
        status = graph_climb(&above, a);
    }
    if (status == ESP_OK) {
        flags = esp_arena_calloc(a->scratch, above.keys.count, 1);
        status = flags ? flag_above(a, &above, one, OF_ONE, flags) : esp_fail_nomem(a->err);
    }
    if (status == ESP_OK) {
        status = flag_above(a, &above, other, OF_OTHER, flags);
    }
    if (status == ESP_OK) {
        status = pick_lowest(&picks, &above, flags);
    }
    return status == ESP_OK ? pass_picks(&picks, fn, ctx) : status;
}

/* --- roots -------------------------------------------------------------------------- */

struct roots {
    struct esp_access *access;
    struct esp_arena arena; /* of one item */
    esp_node_fn *fn;
    void *ctx;
};

static enum esp_status take_root(void *ctx, const struct esp_item *item) {
    struct roots *roots = ctx;
    const struct esp_layout *l = roots->access->layout;
    struct esp_str tree = graph_tree_type(l);
    struct pick pick = {.parent = {"", 0}};
    struct esp_edge_set set;
    uint32_t at = 0;
    if (!graph_is_node(item) || esp_item_reserved(&l->schema, item)) {
        return ESP_OK;
    }
    esp_arena_reset(&roots->arena);
    enum esp_status status = esp_edge_set_read(&set, &roots->arena, &item->value[GRAPH_EDGE_SET],
                                               &item->value[GRAPH_OMITTED]);
    if (status != ESP_OK || esp_edge_set_omits(&set, tree) || esp_edge_set_next(&set, tree, &at)) {
        return status;
    }
    return pass_node(roots->access, item, &pick, &roots->arena, roots->fn, roots->ctx);
}

/* A scan of everything; edges, which alone have a gsi0, need not come over. */
enum esp_status graph_op_roots(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)args;
    struct esp_condition filter = {.name = a->layout->schema.attr[GRAPH_GSI0].name,
                                   .op = ESP_NOT_EXISTS};
    struct esp_scan scan = {
        .index = ESP_PRIMARY, .filter = &filter, .filter_count = 1, .consistent = a->consistent};
    struct roots roots = {.access = a, .fn = fn, .ctx = ctx};
    esp_arena_init(&roots.arena, a->session->table->store->alloc, SIZE_MAX);
    enum esp_status status = esp_session_scan(a->session, &scan, take_root, &roots, a->err);
    esp_arena_fini(&roots.arena);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- edges of any type -------------------------------------------------------------- */

/* What neighbours and hydrate ask for: the weight as edges of the type have it. */
static enum esp_status neighbours_args(struct esp_access *a, const struct esp_args *args,
                                       struct esp_str *key, struct esp_str *weight) {
    enum esp_status status = graph_check_type(a->layout, args->type, a->err);
    *weight = args->weight;
    if (status == ESP_OK && args->weight.len) {
        status = graph_weight(a->layout, args->type, args->weight, 0, a->scratch, weight, a->err);
    }
    return status == ESP_OK ? key_of(a, args->at.id, key) : status;
}

enum esp_status graph_op_neighbours(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct sources sources = {
        .picks = {.access = a}, .like = {.depth = -1}, .type = args->type, .to = args->at.id};
    struct esp_str key, weight;
    bool none = false;
    enum esp_status status = neighbours_args(a, args, &key, &weight);
    if (status == ESP_OK) {
        status = query_sources(&sources, args->type, key, weight, fn, ctx, &none);
    }
    return status == ESP_OK && none ? none_or_missing(a, &args->at) : status;
}

/* Everything the edge sets of the nodes name, each once, and none of the nodes themselves. */
static enum esp_status pick_named(struct picks *picks, const struct graph_node *nodes, uint32_t n) {
    struct esp_access *a = picks->access;
    struct esp_idmap seen;
    uint32_t number;
    enum esp_status status = ESP_OK;
    esp_idmap_init(&seen, a->scratch);
    for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
        status = esp_idmap_intern(&seen, nodes[i].key, &number);
    }
    for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
        for (uint32_t k = 0; status == ESP_OK && k < nodes[i].set.count; k++) {
            const struct esp_edge *edge = &nodes[i].set.edge[k];
            struct pick pick = {.key = edge->key, .depth = -1};
            struct esp_str to = edge->key;
            uint32_t before = seen.count;
            status = esp_idmap_intern(&seen, edge->key, &number);
            if (status == ESP_OK && edge->type.len && number >= before) {
                (void)graph_id(a->layout, edge->key, &to);
                pick.edge = edge_view(a, nodes[i].key, edge->type, to, edge->gsi0);
                status = pick.edge ? add_pick(picks, &pick) : ESP_ERR_NOMEM;
            }
        }
    }
    return status;
}

/* The nodes of the first step, with their keys and all of their edges. */
static enum esp_status read_found(const struct picks *found, struct graph_node **nodes) {
    struct esp_access *a = found->access;
    struct esp_str *key = esp_arena_calloc(a->scratch, found->count, sizeof *key);
    struct graph_node *node = esp_arena_calloc(a->scratch, found->count, sizeof *node);
    *nodes = node;
    if (!key || !node) {
        return ESP_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < found->count; i++) {
        key[i] = found->pick[i].key;
    }
    enum esp_status status = graph_read(a, key, found->count, node);
    return status == ESP_OK ? graph_read_omitted(a, node, found->count, (struct esp_str){NULL, 0})
                            : status;
}

/* The three steps of seed 4: the index, the nodes, and all that their edge sets name. */
enum esp_status graph_op_hydrate(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct sources found = {
        .picks = {.access = a}, .like = {.depth = -1}, .type = args->type, .to = args->at.id};
    const struct picks *first = &found.picks;
    struct picks named = {.access = a};
    struct graph_node *node = NULL;
    struct esp_str key, weight;
    enum esp_status status = neighbours_args(a, args, &key, &weight);
    if (status == ESP_OK) {
        struct esp_str target = esp_edge_target(a->scratch, args->type, key);
        struct esp_query q = graph_sources_query(target, weight);
        status = target.ptr ? esp_session_query(a->session, &q, pick_source, &found, a->err)
                            : ESP_ERR_NOMEM;
    }
    if (status == ESP_OK && first->count == 0) {
        return none_or_missing(a, &args->at);
    }
    if (status == ESP_OK) {
        status = read_found(first, &node);
    }
    for (uint32_t i = 0; status == ESP_OK && i < first->count; i++) {
        status = node[i].found ? pass_node(a, &node[i].item, &first->pick[i], a->scratch, fn, ctx)
                               : ESP_OK;
    }
    if (status == ESP_OK) {
        status = pick_named(&named, node, first->count);
    }
    status = status == ESP_OK ? pass_picks(&named, fn, ctx) : status;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}
