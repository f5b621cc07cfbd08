/* Reading the nodes of the layout graph with their edges, and the ways up and down. */
#include "converters/graph/graph.h"

#include <stdlib.h>

enum { LEVEL_QUERIES_MAX = 16384 /* in one call: bounds the memory of wide levels */ };

/* --- nodes -------------------------------------------------------------------------- */

struct reading {
    struct esp_access *access;
    const struct esp_idmap *keys;
    struct graph_node *node;
};

static enum esp_status take_node(void *ctx, const struct esp_item *item) {
    struct reading *r = ctx;
    struct esp_arena *arena = r->access->scratch;
    uint32_t at = esp_idmap_find(r->keys, esp_item_text(item, GRAPH_SOURCE));
    if (at == ESP_IDMAP_NONE) {
        return ESP_OK;
    }
    struct graph_node *node = &r->node[at];
    enum esp_status status = esp_item_dup(&r->access->layout->schema, arena, item, &node->item);
    if (status == ESP_OK) {
        node->found = true;
        status = esp_edge_set_read(&node->set, arena, &node->item.value[GRAPH_EDGE_SET],
                                   &node->item.value[GRAPH_OMITTED]);
    }
    return status;
}

enum esp_status graph_read(struct esp_access *a, const struct esp_str *keys, uint32_t n,
                           struct graph_node *out) {
    struct esp_idmap map;
    struct reading r = {a, &map, out};
    struct esp_item *key = esp_arena_calloc(a->scratch, (size_t)n + 1, sizeof *key);
    enum esp_status status = key ? ESP_OK : esp_fail_nomem(a->err);
    esp_idmap_init(&map, a->scratch);
    for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
        uint32_t number;
        out[i] = (struct graph_node){.key = keys[i], .set = {.arena = a->scratch}};
        key[i] = graph_item_key(keys[i], keys[i]);
        status = esp_idmap_intern(&map, keys[i], &number);
    }
    if (status == ESP_OK) {
        status = esp_session_get(a->session, key, n, a->consistent, take_node, &r, a->err);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

static enum esp_status take_omitted(void *ctx, const struct esp_item *item) {
    struct reading *r = ctx;
    struct esp_arena *arena = r->access->scratch;
    uint32_t at = esp_idmap_find(r->keys, esp_item_text(item, GRAPH_SOURCE));
    struct esp_str gsi0 = esp_item_text(item, GRAPH_GSI0);
    struct esp_str target = esp_arena_dup(arena, esp_item_text(item, GRAPH_TARGET));
    struct esp_edge edge = {.left_out = true};
    if (gsi0.len) {
        edge.gsi0 = esp_arena_dup(arena, gsi0);
    }
    if (!target.ptr || (gsi0.len && !edge.gsi0.ptr)) {
        return ESP_ERR_NOMEM;
    }
    if (at == ESP_IDMAP_NONE || graph_is_node(item) ||
        !esp_edge_parse_target(target, &edge.type, &edge.key) ||
        esp_edge_set_find(&r->node[at].set, edge.type, edge.key)) {
        return ESP_OK;
    }
    return esp_edge_set_add(&r->node[at].set, &edge);
}

/* Is the type of the node's list asked for? */
static bool wanted(struct esp_str omitted, struct esp_str type) {
    return type.len == 0 || esp_str_eq(omitted, type);
}

enum esp_status graph_read_omitted(struct esp_access *a, struct graph_node *nodes, uint32_t n,
                                   struct esp_str type) {
    struct esp_idmap map;
    struct reading r = {a, &map, nodes};
    uint32_t count = 0, most = 0, number;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < nodes[i].set.omitted_count; k++) {
            most += wanted(nodes[i].set.omitted[k], type);
        }
    }
    if (most == 0) {
        return ESP_OK;
    }
    struct esp_query *q = esp_arena_calloc(a->scratch, most, sizeof *q);
    esp_idmap_init(&map, a->scratch);
    for (uint32_t i = 0; q && status == ESP_OK && i < n; i++) {
        status = esp_idmap_intern(&map, nodes[i].key, &number);
        for (uint32_t k = 0; status == ESP_OK && k < nodes[i].set.omitted_count; k++) {
            if (!wanted(nodes[i].set.omitted[k], type)) {
                continue;
            }
            struct esp_str begin =
                esp_edge_target(a->scratch, nodes[i].set.omitted[k], (struct esp_str){"", 0});
            status = begin.ptr ? ESP_OK : ESP_ERR_NOMEM;
            q[count++] = (struct esp_query){.index = ESP_PRIMARY,
                                            .pk = esp_s(nodes[i].key),
                                            .op = ESP_PREFIX,
                                            .lo = esp_s(begin),
                                            .consistent = a->consistent};
        }
    }
    if (q && status == ESP_OK) {
        status = esp_session_query_many(a->session, q, count, take_omitted, &r, a->err);
    }
    return !q || status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status graph_read_one(struct esp_access *a, struct esp_str id, struct graph_node *out) {
    struct esp_str key = graph_key(a->layout, id, a->scratch);
    if (!key.ptr && id.len) {
        return esp_fail_nomem(a->err);
    }
    enum esp_status status = graph_read(a, &key, 1, out);
    if (status == ESP_OK && !out->found) {
        status = esp_access_missing(a, id);
    }
    return status == ESP_OK ? graph_read_omitted(a, out, 1, graph_tree_type(a->layout)) : status;
}

/* --- what leads to a node ----------------------------------------------------------- */

static enum esp_status add_source(void *ctx, const struct esp_item *item) {
    struct graph_sources *s = ctx;
    struct esp_arena *arena = s->access->scratch;
    struct esp_str *key = esp_arena_grow(arena, s->key, &s->cap, s->count + 1, sizeof *key);
    struct esp_str *gsi0 = esp_arena_grow(arena, s->gsi0, &s->gsi0_cap, s->count + 1, sizeof *gsi0);
    if (!key || !gsi0) {
        return ESP_ERR_NOMEM;
    }
    s->key = key;
    s->gsi0 = gsi0;
    key[s->count] = esp_arena_dup(arena, esp_item_text(item, GRAPH_SOURCE));
    gsi0[s->count] = esp_arena_dup(arena, esp_item_text(item, GRAPH_GSI0));
    return key[s->count].ptr && gsi0[s->count++].ptr ? ESP_OK : ESP_ERR_NOMEM;
}

struct esp_query graph_sources_query(struct esp_str target, struct esp_str weight) {
    return (struct esp_query){.index = GRAPH_BY_TARGET,
                              .pk = esp_s(target),
                              .op = weight.len ? ESP_GE : ESP_ANY,
                              .lo = esp_s(weight)};
}

enum esp_status graph_sources(struct esp_access *a, struct esp_str type, struct esp_str key,
                              struct esp_str weight, struct graph_sources *out) {
    struct esp_str target = esp_edge_target(a->scratch, type, key);
    struct esp_query q = graph_sources_query(target, weight);
    *out = (struct graph_sources){.access = a};
    enum esp_status status =
        target.ptr ? esp_session_query(a->session, &q, add_source, out, a->err) : ESP_ERR_NOMEM;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

static enum esp_status take_rank(void *ctx, const struct esp_item *item) {
    *(int64_t *)ctx = esp_edge_rank(esp_item_text(item, GRAPH_GSI0));
    return ESP_OK;
}

enum esp_status graph_last_rank(struct esp_access *a, struct esp_str key, int64_t *out) {
    struct esp_str target = esp_edge_target(a->scratch, graph_tree_type(a->layout), key);
    struct esp_query q = {
        .index = GRAPH_BY_TARGET, .pk = esp_s(target), .reverse = true, .limit = 1};
    struct esp_cursor cursor = {.set = false};
    bool more;
    *out = 0;
    enum esp_status status =
        target.ptr ? esp_session_query_page(a->session, &q, &cursor, &more, take_rank, out, a->err)
                   : esp_fail_nomem(a->err);
    *out = *out < 0 ? 0 : *out;
    return status;
}

/* --- naming ------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b) {
    return esp_str_cmp(*(const struct esp_str *)a, *(const struct esp_str *)b);
}

enum esp_status graph_parents(const struct esp_layout *l, const struct esp_edge_set *set,
                              struct esp_arena *arena, struct graph_place *out) {
    struct esp_str *parent = esp_arena_calloc(arena, (size_t)set->count + 1, sizeof *parent);
    const struct esp_edge *edge;
    uint32_t at = 0;
    *out = (struct graph_place){.parent = parent, .depth = -1};
    if (!parent) {
        return ESP_ERR_NOMEM;
    }
    while ((edge = esp_edge_set_next(set, graph_tree_type(l), &at))) {
        parent[out->parent_count++] = edge->key;
    }
    if (out->parent_count > 1) {
        qsort(parent, out->parent_count, sizeof *parent, by_bytes);
    }
    return ESP_OK;
}

enum esp_status graph_resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    struct graph_place *place = esp_arena_calloc(a->scratch, 1, sizeof *place);
    struct graph_node node;
    enum esp_status status = place ? graph_read_one(a, id, &node) : ESP_ERR_NOMEM;
    if (status == ESP_OK) {
        status = graph_parents(a->layout, &node.set, a->scratch, place);
    }
    if (status == ESP_OK) {
        struct esp_str found = id;
        (void)graph_id(a->layout, esp_item_text(&node.item, GRAPH_SOURCE), &found);
        *out = (struct esp_locator){found, place};
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status graph_place_of(struct esp_access *a, const struct esp_locator *at,
                               struct graph_place *out) {
    struct esp_locator found = *at;
    enum esp_status status = at->key ? ESP_OK : graph_resolve(a, at->id, &found);
    if (status == ESP_OK) {
        *out = *(const struct graph_place *)found.key;
    }
    return status;
}

/* --- up ----------------------------------------------------------------------------- */

void graph_above_init(struct graph_above *above, struct esp_access *a) {
    *above = (struct graph_above){.node = NULL};
    esp_idmap_init(&above->keys, a->scratch);
}

static enum esp_status above_intern(struct graph_above *above, struct esp_access *a,
                                    struct esp_str key, uint32_t *number) {
    uint32_t before = above->keys.count;
    enum esp_status status = esp_idmap_intern(&above->keys, key, number);
    struct graph_above_node *node = NULL;
    if (status == ESP_OK) {
        node =
            esp_arena_grow(a->scratch, above->node, &above->cap, above->keys.count, sizeof *node);
    }
    if (!node) {
        return esp_fail_nomem(a->err);
    }
    above->node = node;
    if (*number == before) {
        node[*number] = (struct graph_above_node){.known = false};
    }
    return ESP_OK;
}

enum esp_status graph_above_add(struct graph_above *above, struct esp_access *a, struct esp_str key,
                                const struct graph_place *place, uint32_t *number) {
    uint32_t own;
    enum esp_status status = above_intern(above, a, key, &own);
    uint32_t *parent =
        esp_arena_calloc(a->scratch, (size_t)place->parent_count + 1, sizeof *parent);
    if (status == ESP_OK && !parent) {
        status = esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; status == ESP_OK && i < place->parent_count; i++) {
        status = above_intern(above, a, place->parent[i], &parent[i]);
    }
    if (status == ESP_OK) {
        above->node[own].known = true;
        above->node[own].place = *place;
        above->node[own].parent = parent;
        if (number) {
            *number = own;
        }
    }
    return status;
}

/* One level: the nodes whose parents are not known are read. */
static enum esp_status climb_level(struct graph_above *above, struct esp_access *a,
                                   uint32_t unknown) {
    struct esp_str *key = esp_arena_calloc(a->scratch, unknown, sizeof *key);
    struct graph_node *node = esp_arena_calloc(a->scratch, unknown, sizeof *node);
    uint32_t n = 0;
    if (!key || !node) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = above->climbed; i < above->keys.count; i++) {
        if (!above->node[i].known) {
            key[n++] = above->keys.id[i];
        }
    }
    above->climbed = above->keys.count;
    enum esp_status status = graph_read(a, key, n, node);
    if (status == ESP_OK) {
        status = graph_read_omitted(a, node, n, graph_tree_type(a->layout));
    }
    for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
        struct graph_place place;
        uint32_t number;
        status = graph_parents(a->layout, &node[i].set, a->scratch, &place);
        if (status == ESP_OK) {
            status = graph_above_add(above, a, node[i].key, &place, &number);
        }
        if (status == ESP_OK) {
            above->node[number].node = node[i];
        }
    }
    return status;
}

enum esp_status graph_climb(struct graph_above *above, struct esp_access *a) {
    enum esp_status status = ESP_OK;
    while (status == ESP_OK) {
        uint32_t unknown = 0;
        for (uint32_t i = above->climbed; i < above->keys.count; i++) {
            unknown += !above->node[i].known;
        }
        if (unknown == 0) {
            break;
        }
        status = climb_level(above, a, unknown);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status graph_is_above(struct esp_access *a, struct esp_str key,
                               const struct graph_place *place, bool *out) {
    struct graph_above above;
    enum esp_status status = ESP_OK;
    graph_above_init(&above, a);
    for (uint32_t i = 0; status == ESP_OK && i < place->parent_count; i++) {
        uint32_t number;
        status = above_intern(&above, a, place->parent[i], &number);
    }
    if (status == ESP_OK) {
        status = graph_climb(&above, a);
    }
    *out = status == ESP_OK && esp_idmap_find(&above.keys, key) != ESP_IDMAP_NONE;
    return status;
}

/* --- down --------------------------------------------------------------------------- */

/* The level being read: nodes from `begin` on are of the next one. */
struct descent {
    struct esp_access *access;
    struct graph_below *below;
    uint32_t depth; /* of the nodes that come */
};

static bool grow_node(struct esp_access *a, struct graph_below *below, uint32_t count) {
    struct graph_below_node *node =
        esp_arena_grow(a->scratch, below->node, &below->node_cap, count, sizeof *node);
    below->node = node ? node : below->node;
    return node;
}

static enum esp_status take_child(void *ctx, const struct esp_item *item) {
    struct descent *d = ctx;
    struct graph_below *below = d->below;
    struct esp_str type, key;
    uint32_t before = below->keys.count, child;
    uint32_t parent = esp_edge_parse_target(esp_item_text(item, GRAPH_TARGET), &type, &key)
                          ? esp_idmap_find(&below->keys, key)
                          : ESP_IDMAP_NONE;
    if (parent == ESP_IDMAP_NONE) {
        return ESP_OK;
    }
    enum esp_status status =
        esp_idmap_intern(&below->keys, esp_item_text(item, GRAPH_SOURCE), &child);
    struct graph_below_edge *edge = esp_arena_grow(
        d->access->scratch, below->edge, &below->edge_cap, below->edge_count + 1, sizeof *edge);
    if (status != ESP_OK || !edge || !grow_node(d->access, below, below->keys.count)) {
        return ESP_ERR_NOMEM;
    }
    below->edge = edge;
    if (child == before) {
        int64_t rank = esp_edge_rank(esp_item_text(item, GRAPH_GSI0));
        below->node[child] = (struct graph_below_node){
            .parent = parent, .depth = d->depth, .rank = rank < 0 ? 0 : rank};
    } else if (child == 0) {
        struct esp_str id = below->keys.id[0];
        (void)graph_id(d->access->layout, below->keys.id[0], &id);
        return esp_fail(d->access->err, ESP_ERR_CYCLE,
                        "the table is damaged: '%.*s' is its own ancestor; check names the others",
                        ESP_FMT(id));
    }
    struct graph_below_node *top = &below->node[parent];
    edge[below->edge_count++] = (struct graph_below_edge){.child = child};
    if (top->last) {
        edge[top->last - 1].next = below->edge_count;
    } else {
        top->first = below->edge_count;
    }
    top->last = below->edge_count;
    return ESP_OK;
}

/* Ask for the children of the nodes [first, end). */
static enum esp_status descend_level(struct descent *d, uint32_t first, uint32_t end) {
    struct esp_access *a = d->access;
    uint32_t most = end - first < LEVEL_QUERIES_MAX ? end - first : LEVEL_QUERIES_MAX;
    struct esp_query *q = esp_arena_calloc(a->scratch, most, sizeof *q);
    enum esp_status status = q ? ESP_OK : ESP_ERR_NOMEM;
    for (uint32_t done = first; status == ESP_OK && done < end; done += most) {
        uint32_t n = end - done < most ? end - done : most;
        for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
            struct esp_str target = esp_edge_target(a->scratch, graph_tree_type(a->layout),
                                                    d->below->keys.id[done + i]);
            status = target.ptr ? ESP_OK : ESP_ERR_NOMEM;
            q[i] = (struct esp_query){.index = GRAPH_BY_TARGET, .pk = esp_s(target)};
        }
        if (status == ESP_OK) {
            status = esp_session_query_many(a->session, q, n, take_child, d, a->err);
        }
    }
    return status;
}

enum esp_status graph_descend(struct esp_access *a, struct esp_str key, uint32_t hi,
                              struct graph_below *below) {
    struct descent d = {.access = a, .below = below, .depth = 1};
    uint32_t number, first = 0;
    *below = (struct graph_below){.edge_count = 0};
    esp_idmap_init(&below->keys, a->scratch);
    enum esp_status status = esp_idmap_intern(&below->keys, key, &number);
    if (status != ESP_OK || !grow_node(a, below, 1)) {
        return esp_fail_nomem(a->err);
    }
    below->node[0] = (struct graph_below_node){.depth = 0};
    while (status == ESP_OK && first < below->keys.count && d.depth <= hi) {
        uint32_t end = below->keys.count;
        status = descend_level(&d, first, end);
        first = end;
        d.depth++;
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}
