/*
 * graph: items are edges.  A node is the edge from itself to itself; an edge of a type leads from
 * `source` to `target`, which begins with the type, and the index (`target`, `gsi0`) gives what
 * leads to a node, in order.  The tree is made of edges of one type, whose gsi0 is the child's
 * rank.  Each node carries the set of the edges that leave it.
 *
 * Design: docs/layouts/graph.md.  The operations are in graph_read.c and graph_edit.c.
 */
#include "converters/graph/graph.h"
#include "converters/validate.h"

#include <stdlib.h>

/* --- keys --------------------------------------------------------------------------- */

struct esp_str graph_key(const struct esp_layout *l, struct esp_str id, struct esp_arena *arena) {
    struct esp_str prefix = esp_str_from(l->settings.node);
    return prefix.len ? esp_edge_target(arena, prefix, id) : id;
}

bool graph_id(const struct esp_layout *l, struct esp_str key, struct esp_str *id) {
    struct esp_str prefix = esp_str_from(l->settings.node);
    size_t skip = prefix.len ? prefix.len + 1 : 0;
    bool is_key =
        key.len > skip &&
        (skip == 0 || (memcmp(key.ptr, prefix.ptr, prefix.len) == 0 && key.ptr[prefix.len] == '-'));
    if (is_key) {
        *id = (struct esp_str){key.ptr + skip, key.len - skip};
    }
    return is_key;
}

bool graph_is_node(const struct esp_item *item) {
    struct esp_str source = esp_item_text(item, GRAPH_SOURCE);
    return source.ptr && esp_str_eq(source, esp_item_text(item, GRAPH_TARGET));
}

struct esp_item graph_item_key(struct esp_str source, struct esp_str target) {
    struct esp_item item = {0};
    item.value[GRAPH_SOURCE] = esp_s(source);
    item.value[GRAPH_TARGET] = esp_s(target);
    return item;
}

enum esp_status graph_check_type(const struct esp_layout *l, struct esp_str type,
                                 struct esp_error *err) {
    if (!esp_edge_type_valid(type)) {
        return esp_fail(err, ESP_ERR_USAGE,
                        "'%.*s' is no type of edges: one or more characters, no '-' and no '#'",
                        ESP_FMT(type));
    }
    if (esp_str_eq(type, esp_str_from(l->settings.node))) {
        return esp_fail(err, ESP_ERR_USAGE, "'%.*s' is the prefix of nodes and no type of edges",
                        ESP_FMT(type));
    }
    return ESP_OK;
}

static enum esp_status tree_weight(struct esp_str weight, int64_t last, char rank[ESP_RANK_DIGITS],
                                   struct esp_error *err) {
    if (weight.len == 0) {
        int64_t next = last + GRAPH_RANK_STEP <= ESP_RANK_MAX ? last + GRAPH_RANK_STEP : last + 1;
        if (next > ESP_RANK_MAX) {
            return esp_fail(err, ESP_ERR_LIMIT,
                            "the last child has the largest rank there is: link it again with a "
                            "smaller one");
        }
        esp_edge_put_rank(next, rank);
        return ESP_OK;
    }
    if (weight.len <= ESP_RANK_DIGITS) {
        memset(rank, '0', ESP_RANK_DIGITS);
        memcpy(rank + ESP_RANK_DIGITS - weight.len, weight.ptr, weight.len);
        if (esp_edge_rank((struct esp_str){rank, ESP_RANK_DIGITS}) >= 0) {
            return ESP_OK;
        }
    }
    return esp_fail(err, ESP_ERR_USAGE,
                    "'%.*s' is no rank among siblings: a whole number of at most %d digits",
                    ESP_FMT(weight), ESP_RANK_DIGITS);
}

enum esp_status graph_weight(const struct esp_layout *l, struct esp_str type, struct esp_str weight,
                             int64_t last, struct esp_arena *arena, struct esp_str *out,
                             struct esp_error *err) {
    char rank[ESP_RANK_DIGITS];
    if (esp_str_eq(type, graph_tree_type(l))) {
        enum esp_status status = tree_weight(weight, last, rank, err);
        if (status != ESP_OK) {
            return status;
        }
        weight = (struct esp_str){rank, sizeof rank};
    } else if (weight.len == 0) {
        weight = ESP_STR(ESP_EDGE_WEIGHT);
    } else if (!esp_edge_weight_valid(weight)) {
        return esp_fail(err, ESP_ERR_USAGE,
                        "'%.*s' is no weight: digits, and perhaps '-' and a role that has no '-' "
                        "or '#' and is no number, e.g. 500-LEAD",
                        ESP_FMT(weight));
    }
    *out = esp_arena_dup(arena, weight);
    return out->ptr ? ESP_OK : esp_fail_nomem(err);
}

/* --- edge sets ---------------------------------------------------------------------- */

enum esp_status graph_fit_set(const struct esp_layout *l, struct esp_edge_set *set,
                              struct esp_item *item) {
    uint64_t bytes = l->settings.edge_set_bytes, before = UINT64_MAX;
    for (;;) {
        enum esp_status status = esp_edge_set_fit(set, l->settings.omit, bytes);
        if (status == ESP_OK) {
            status =
                esp_edge_set_values(set, &item->value[GRAPH_EDGE_SET], &item->value[GRAPH_OMITTED]);
        }
        uint64_t size = esp_item_size(&l->schema, item), stored = esp_edge_set_bytes(set);
        if (status != ESP_OK || size <= ESP_ITEM_BYTES_MAX || stored == before) {
            return status; /* what is too large without a set is found by the item's check */
        }
        before = stored;
        bytes = stored > size - ESP_ITEM_BYTES_MAX ? stored - (size - ESP_ITEM_BYTES_MAX) : 0;
    }
}

/* --- bulk conversion ---------------------------------------------------------------- */

/* Ranks on import: how far the child is behind its parent in pre-order, in steps that leave
 * room as long as that has ten digits.  Siblings come in order, and what a subtree has of ranks
 * is free for its nodes should they take its top's place. */
static int64_t rank_step(const struct esp_forest *f) {
    enum { NODES_MAX = 9999990 };
    return (uint64_t)f->count + f->link_count <= NODES_MAX ? GRAPH_RANK_STEP : 1;
}

/* What makes the items of one node. */
struct emitter {
    const struct esp_layout *layout;
    const struct esp_forest *forest;
    struct esp_arena *arena;
    struct esp_str tree; /* type of tree edges */
    int64_t step;
    struct esp_str top; /* see graph_emit_node */
    int64_t top_last;
};

/* The edges of a node as items: the tree's first. */
struct outgoing {
    struct esp_item *item;
    uint32_t count;
    struct esp_edge_set set;
};

static enum esp_status add_edge(const struct emitter *e, struct outgoing *out, struct esp_str from,
                                struct esp_str type, struct esp_str to, struct esp_str gsi0,
                                struct esp_data data) {
    struct esp_edge edge = {.type = type, .key = to, .gsi0 = gsi0};
    struct esp_str target = esp_edge_target(e->arena, type, to);
    if (!target.ptr || !gsi0.ptr || !to.ptr) {
        return ESP_ERR_NOMEM;
    }
    struct esp_item *item = &out->item[out->count++];
    *item = graph_item_key(from, target);
    item->value[GRAPH_GSI0] = esp_s(gsi0);
    item->data = data;
    return esp_edge_set_add(&out->set, &edge);
}

static struct esp_str rank_text(const struct emitter *e, int64_t rank) {
    char *text = esp_arena_alloc(e->arena, ESP_RANK_DIGITS);
    if (text) {
        esp_edge_put_rank(rank, text);
    }
    return (struct esp_str){text, ESP_RANK_DIGITS};
}

/* The edge to the tree's parent, or to the one that all roots get. */
static enum esp_status add_tree_edge(const struct emitter *e, struct outgoing *out,
                                     struct esp_str key, esp_node v) {
    const struct esp_forest *f = e->forest;
    esp_node parent = f->parent[v];
    struct esp_data none = {NULL, 0, 0};
    if (parent != ESP_NODE_NONE) {
        struct esp_str to = graph_key(e->layout, esp_forest_id(f, parent), e->arena);
        return add_edge(e, out, key, e->tree, to, rank_text(e, (int64_t)(v - parent) * e->step),
                        none);
    }
    if (e->top.len) {
        int64_t rank = e->top_last + ((int64_t)v + 1) * e->step;
        return add_edge(e, out, key, e->tree, e->top, rank_text(e, rank), none);
    }
    return ESP_OK;
}

/* Further parents come behind the tree's own children. */
static int64_t link_rank(const struct emitter *e, const struct esp_link *link) {
    const struct esp_forest *f = e->forest;
    uint32_t first, n = esp_forest_links_to(f, link->parent, &first), at = 0;
    while (at < n) { /* they are in the order of their numbers */
        uint32_t middle = at + (n - at) / 2;
        if (f->link[f->link_in[first + middle]].number < link->number) {
            at = middle + 1;
        } else {
            n = middle;
        }
    }
    return ((int64_t)f->size[link->parent] + at) * e->step;
}

static enum esp_status add_link(const struct emitter *e, struct outgoing *out, struct esp_str key,
                                const struct esp_link *link) {
    struct esp_str type = link->type.len ? link->type : e->tree, gsi0;
    struct esp_str to = graph_key(e->layout, esp_forest_id(e->forest, link->parent), e->arena);
    if (esp_str_eq(type, e->tree) && link->weight.len == 0) {
        gsi0 = rank_text(e, link_rank(e, link));
    } else {
        enum esp_status status =
            graph_weight(e->layout, type, link->weight, 0, e->arena, &gsi0, NULL);
        if (status != ESP_OK) {
            return status;
        }
    }
    return add_edge(e, out, key, type, to, gsi0, link->data);
}

static int by_text(const void *a, const void *b) {
    return esp_str_cmp(*(const struct esp_str *)a, *(const struct esp_str *)b);
}

/* The types of the links that lead to v, each once. */
static enum esp_status incoming_types(const struct emitter *e, esp_node v, struct esp_value *out) {
    const struct esp_forest *f = e->forest;
    uint32_t first, n = f->link_count ? esp_forest_links_to(f, v, &first) : 0, count = 0;
    *out = (struct esp_value){.type = ESP_TYPE_NONE};
    if (n == 0) {
        return ESP_OK;
    }
    struct esp_str *type = esp_arena_calloc(e->arena, n, sizeof *type);
    if (!type) {
        return ESP_ERR_NOMEM;
    }
    for (uint32_t i = first; i < first + n; i++) {
        struct esp_str t = f->link[f->link_in[i]].type;
        bool tree = t.len == 0 || esp_str_eq(t, e->tree);
        type[count] = t;
        count += !tree;
    }
    if (count > 1) {
        qsort(type, count, sizeof *type, by_text);
    }
    n = count;
    count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || !esp_str_eq(type[i], type[i - 1])) {
            type[count++] = type[i];
        }
    }
    return esp_set_make(type, count, e->arena, out);
}

static enum esp_status emit_node(const struct emitter *e, esp_node v, esp_item_fn *fn, void *ctx) {
    const struct esp_forest *f = e->forest;
    uint32_t first = 0, links = f->link_count ? esp_forest_links_from(f, v, &first) : 0;
    struct outgoing out = {.set = {.arena = e->arena}};
    struct esp_str key = graph_key(e->layout, esp_forest_id(f, v), e->arena);
    out.item = esp_arena_alloc(e->arena, (links + 1) * sizeof *out.item);
    if (!out.item || !key.ptr) {
        return ESP_ERR_NOMEM;
    }
    struct esp_item node = graph_item_key(key, key);
    node.data = esp_forest_data(f, v);
    enum esp_status status = add_tree_edge(e, &out, key, v);
    for (uint32_t i = 0; status == ESP_OK && i < links; i++) {
        status = add_link(e, &out, key, &f->link[first + i]);
    }
    if (status == ESP_OK) {
        status = incoming_types(e, v, &node.value[GRAPH_INCOMING]);
    }
    if (status == ESP_OK) {
        status = graph_fit_set(e->layout, &out.set, &node);
    }
    if (status == ESP_OK) {
        status = fn(ctx, &node);
    }
    for (uint32_t i = 0; status == ESP_OK && i < out.count; i++) {
        status = fn(ctx, &out.item[i]);
    }
    return status;
}

enum esp_status graph_emit_node(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                                struct esp_str top, int64_t top_last, struct esp_arena *arena,
                                esp_item_fn *fn, void *ctx) {
    struct emitter e = {l, f, arena, graph_tree_type(l), rank_step(f), top, top_last};
    return emit_node(&e, v, fn, ctx);
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    struct emitter e = {.layout = l,
                        .forest = f,
                        .arena = scratch,
                        .tree = graph_tree_type(l),
                        .step = rank_step(f)};
    enum esp_status status = ESP_OK;
    for (esp_node v = first; status == ESP_OK && v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        status = emit_node(&e, v, fn, ctx);
    }
    return status;
}

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    uint64_t count = n;
    (void)l;
    for (esp_node v = first; v < first + n; v++) {
        count += f->parent[v] != ESP_NODE_NONE;
    }
    if (f->link_count) {
        uint32_t from, end;
        (void)esp_forest_links_from(f, first, &from);
        (void)esp_forest_links_from(f, first + n, &end);
        count += end - from;
    }
    return count;
}

/* --- checks before the first write -------------------------------------------------- */

static enum esp_status link_fail(const struct esp_link *link, enum esp_status status,
                                 struct esp_error *err) {
    if (err && !err->line) {
        err->line = link->line;
        if (link->source && !err->source[0]) {
            memcpy(err->source, link->source, strnlen(link->source, sizeof err->source - 1) + 1);
            err->source[sizeof err->source - 1] = 0;
        }
    }
    return status;
}

/* The target of edges to v is a key too. */
static enum esp_status check_keys(const struct esp_layout *l, const struct esp_forest *f,
                                  struct esp_error *err) {
    size_t prefix = strlen(l->settings.node) + (*l->settings.node ? 1 : 0);
    size_t tree = strlen(l->settings.edge) + 1;
    if (prefix + tree + f->id_len_max <= ESP_SK_BYTES_MAX) {
        return ESP_OK;
    }
    for (esp_node v = 0; v < f->count; v++) {
        struct esp_str id = esp_forest_id(f, v);
        size_t bytes = prefix + id.len + (f->size[v] > 1 ? tree : 0);
        if (bytes > ESP_SK_BYTES_MAX) {
            return esp_validate_fail(f, v, err, ESP_ERR_LIMIT,
                                     "the target of edges to '%.200s...' (an id of %zu bytes) has "
                                     "%zu bytes; a sort key takes at most %d: use shorter ids, or "
                                     "another layout",
                                     id.ptr, id.len, bytes, ESP_SK_BYTES_MAX);
        }
    }
    return ESP_OK;
}

/* Without a prefix an edge from T-x to x, of type T, has the key of the node T-x. */
static bool is_own_target(const struct esp_layout *l, struct esp_str from, struct esp_str type,
                          struct esp_str to) {
    return *l->settings.node == 0 && from.len == type.len + 1 + to.len &&
           memcmp(from.ptr, type.ptr, type.len) == 0 && from.ptr[type.len] == '-' &&
           memcmp(from.ptr + type.len + 1, to.ptr, to.len) == 0;
}

static enum esp_status own_target(struct esp_str from, struct esp_str type, struct esp_str to,
                                  struct esp_error *err) {
    return esp_fail(err, ESP_ERR_INPUT,
                    "the edge %.*s from '%.*s' to '%.*s' has the key of the node '%.*s': use a "
                    "prefix for nodes, --set node=NAME",
                    ESP_FMT(type), ESP_FMT(from), ESP_FMT(to), ESP_FMT(from));
}

static enum esp_status check_own_targets(const struct esp_layout *l, const struct esp_forest *f,
                                         struct esp_error *err) {
    struct esp_str tree = graph_tree_type(l);
    for (esp_node v = 0; *l->settings.node == 0 && v < f->count; v++) {
        esp_node parent = f->parent[v];
        if (parent != ESP_NODE_NONE &&
            is_own_target(l, esp_forest_id(f, v), tree, esp_forest_id(f, parent))) {
            if (err && err->status == ESP_OK) {
                err->line = esp_forest_line(f, v);
            }
            return own_target(esp_forest_id(f, v), tree, esp_forest_id(f, parent), err);
        }
    }
    return ESP_OK;
}

/* An edge of the tree's type may say again what the tree or a further row says. */
static bool says_again(const struct esp_layout *l, const struct esp_forest *f, uint32_t at) {
    const struct esp_link *link = &f->link[at];
    if (!esp_str_eq(link->type, graph_tree_type(l))) {
        return false;
    }
    uint32_t first, n = esp_forest_links_from(f, link->child, &first), lo = first, hi = first + n;
    while (lo < hi) { /* further rows come first, by their parents */
        uint32_t middle = lo + (hi - lo) / 2;
        if (f->link[middle].type.len == 0 && f->link[middle].parent < link->parent) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return f->parent[link->child] == link->parent ||
           (lo < first + n && f->link[lo].type.len == 0 && f->link[lo].parent == link->parent);
}

static enum esp_status check_link(const struct esp_layout *l, const struct esp_forest *f,
                                  uint32_t at, struct esp_arena *scratch, struct esp_error *err) {
    const struct esp_link *link = &f->link[at];
    struct esp_str type = link->type.len ? link->type : graph_tree_type(l), gsi0;
    struct esp_str from = esp_forest_id(f, link->child), to = esp_forest_id(f, link->parent);
    struct esp_member member;
    enum esp_status status = graph_check_type(l, type, err);
    if (status == ESP_OK) {
        status = graph_weight(l, type, link->weight, 0, scratch, &gsi0, err);
    }
    if (status == ESP_OK && is_own_target(l, from, type, to)) {
        status = own_target(from, type, to, err);
    }
    if (status == ESP_OK && says_again(l, f, at)) {
        status = esp_fail(err, ESP_ERR_DUPLICATE,
                          "the edge %.*s from '%.*s' to '%.*s' is one of the tree already",
                          ESP_FMT(type), ESP_FMT(from), ESP_FMT(to));
    }
    for (size_t pos = 0; status == ESP_OK && esp_data_next(link->data, &pos, scratch, &member);) {
        if (esp_schema_find_attr(&l->schema, member.name) >= 0) {
            status = esp_fail(err, ESP_ERR_INPUT,
                              "the edge from '%.*s' to '%.*s' has an attribute '%.*s', which is "
                              "what the layout calls one of its own",
                              ESP_FMT(from), ESP_FMT(to), ESP_FMT(member.name));
        }
    }
    return status;
}

struct item_check {
    const struct esp_layout *layout;
    struct esp_error *err;
};

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    const struct item_check *check = ctx;
    return esp_item_check(&check->layout->schema, item, check->err);
}

/* Items of nodes with links can be of any size and have long keys. */
static enum esp_status check_links(const struct esp_layout *l, const struct esp_forest *f,
                                   struct esp_error *err) {
    struct item_check check = {l, err};
    struct esp_arena scratch;
    enum esp_status status = ESP_OK;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    for (uint32_t i = 0; status == ESP_OK && i < f->link_count; i++) {
        const struct esp_link *link = &f->link[i];
        status = check_link(l, f, i, &scratch, err);
        if (status == ESP_OK && (i == 0 || link[-1].child != link->child)) {
            status = emit(l, f, link->child, 1, &scratch, check_item, &check);
            status = status == ESP_ERR_NOMEM ? esp_fail_nomem(err) : status;
        }
        if (status != ESP_OK) {
            link_fail(link, status, err);
        }
        esp_arena_reset(&scratch);
    }
    esp_arena_fini(&scratch);
    return status == ESP_OK ? esp_forest_check_links(f, graph_tree_type(l), err) : status;
}

static enum esp_status validate(const struct esp_layout *l, const struct esp_forest *f,
                                struct esp_error *err) {
    enum esp_status status = esp_validate_items(l, f, err);
    if (status == ESP_OK) {
        status = check_keys(l, f, err);
    }
    if (status == ESP_OK) {
        status = check_own_targets(l, f, err);
    }
    return status == ESP_OK && f->link_count ? check_links(l, f, err) : status;
}

/* --- naming nodes ------------------------------------------------------------------- */

static bool has_further_parents(const struct esp_layout *l, const struct esp_forest *f) {
    return esp_forest_has_link_type(f, (struct esp_str){NULL, 0}) ||
           esp_forest_has_link_type(f, graph_tree_type(l));
}

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    uint32_t first = 0, n = f->link_count ? esp_forest_links_from(f, v, &first) : 0;
    struct graph_place *place = esp_arena_calloc(arena, 1, sizeof *place);
    struct esp_edge_set set = {.arena = arena};
    enum esp_status status = place ? ESP_OK : ESP_ERR_NOMEM;
    for (uint32_t i = 0; status == ESP_OK && i <= n; i++) {
        const struct esp_link *link = i < n ? &f->link[first + i] : NULL;
        esp_node parent = link ? link->parent : f->parent[v];
        if (parent == ESP_NODE_NONE ||
            (link && link->type.len && !esp_str_eq(link->type, graph_tree_type(l)))) {
            continue;
        }
        struct esp_edge edge = {.type = graph_tree_type(l),
                                .key = graph_key(l, esp_forest_id(f, parent), arena)};
        status = edge.key.ptr ? esp_edge_set_add(&set, &edge) : ESP_ERR_NOMEM;
    }
    if (status == ESP_OK) {
        status = graph_parents(l, &set, arena, place);
    }
    if (status == ESP_OK) {
        place->depth = has_further_parents(l, f) ? -1 : (int64_t)f->depth[v];
        *out = (struct esp_locator){esp_forest_id(f, v), place};
    }
    return status;
}

static enum esp_status node_key(const struct esp_layout *l, struct esp_str id,
                                struct esp_arena *arena, struct esp_item *key) {
    struct esp_str text = graph_key(l, id, arena);
    *key = graph_item_key(text, text);
    return text.ptr || id.len == 0 ? ESP_OK : ESP_ERR_NOMEM;
}

/* The edge set is shown as it is; whose child the node is say its tree edges (relation). */
static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    static const char head[] = "{\"SS\":";
    const struct esp_value *set = &item->value[GRAPH_EDGE_SET];
    *out = (struct esp_node_view){.depth = -1, .data = item->data};
    if (set->type == ESP_TYPE_JSON && set->s.len > sizeof head &&
        memcmp(set->s.ptr, head, sizeof head - 1) == 0) {
        out->edges = (struct esp_str){set->s.ptr + sizeof head - 1, set->s.len - sizeof head};
    }
    return graph_is_node(item) && graph_id(l, esp_item_text(item, GRAPH_SOURCE), &out->id);
}

static enum esp_relation relation(const struct esp_layout *l, const struct esp_item *item,
                                  struct esp_node_view *out) {
    struct esp_str type, key;
    *out = (struct esp_node_view){.depth = -1};
    if (graph_is_node(item) ||
        !esp_edge_parse_target(esp_item_text(item, GRAPH_TARGET), &type, &key) ||
        !esp_str_eq(type, graph_tree_type(l)) || !graph_id(l, key, &out->parent_id) ||
        !graph_id(l, esp_item_text(item, GRAPH_SOURCE), &out->id)) {
        return ESP_RELATION_NONE;
    }
    int64_t rank = esp_edge_rank(esp_item_text(item, GRAPH_GSI0));
    out->order = rank < 0 ? 0 : rank;
    return ESP_RELATION_OWN;
}

/* --- the layout --------------------------------------------------------------------- */

static enum esp_status check_omit(const struct esp_layout *l, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (const char *at = l->settings.omit; status == ESP_OK && at && *at;) {
        struct esp_str type = {at, strcspn(at, ",")};
        status = graph_check_type(l, type, err);
        at += type.len;
        at += *at == ',';
    }
    return status;
}

static enum esp_status configure(struct esp_layout *l, struct esp_error *err) {
    struct esp_str node = esp_str_from(l->settings.node);
    if (node.len && !esp_edge_type_valid(node)) {
        return esp_fail(err, ESP_ERR_USAGE, "--set node=%.*s: a prefix has no '-' and no '#'",
                        ESP_FMT(node));
    }
    enum esp_status status = graph_check_type(l, graph_tree_type(l), err);
    if (status == ESP_OK && l->settings.edge_set_bytes > ESP_ITEM_BYTES_MAX) {
        status =
            esp_fail(err, ESP_ERR_USAGE, "--set edge-set-max=%llu: an item has at most %d bytes",
                     (unsigned long long)l->settings.edge_set_bytes, ESP_ITEM_BYTES_MAX);
    }
    return status == ESP_OK ? check_omit(l, err) : status;
}

#define GRAPH_OPTION(field, kind, flag, argument_text, fallback_text, help_text)                   \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct esp_layout_settings, field),         \
        .argument = argument_text, .fallback = fallback_text, .help = help_text                    \
    }
static const struct esp_option options[] = {
    GRAPH_OPTION(node, ESP_OPT_STRING, "node", "NAME", "NODE",
                 "what the key of a node begins with; empty: ids are keys"),
    GRAPH_OPTION(edge, ESP_OPT_STRING, "edge", "TYPE", "PARENT",
                 "the type of the edges that make the tree"),
    GRAPH_OPTION(omit, ESP_OPT_STRING, "edge-set-omit", "TYPE,...", NULL,
                 "types of edges that edge sets leave out"),
    GRAPH_OPTION(edge_set_bytes, ESP_OPT_U64, "edge-set-max", "BYTES", "102400",
                 "larger edge sets leave out their largest types"),
    {.name = NULL}};

/* Nothing in the table says what should be there instead. */
static const char *const not_mended[] = {"bad-key", "bad-gsi0", "cycle", "wrong-type", NULL};

extern const struct esp_layout_ops esp_layout_graph;
const struct esp_layout_ops esp_layout_graph =
    {
        .name = "graph",
        .family = "adjacency",
        .summary = "items are edges of any type; a node carries the set of its edges",
        .ordered = true,
        .several_parents = true,
        .schema =
            {
                .attr = {[GRAPH_SOURCE] = {{"source", 6}, ESP_TYPE_S},
                         [GRAPH_TARGET] = {{"target", 6}, ESP_TYPE_S},
                         [GRAPH_GSI0] = {{"gsi0", 4}, ESP_TYPE_S},
                         [GRAPH_EDGE_SET] = {{"edgeSet", 7}, ESP_TYPE_NONE},
                         [GRAPH_OMITTED] = {{"edgeSetOmitted", 14}, ESP_TYPE_NONE},
                         [GRAPH_INCOMING] = {{"edgeTypesIn", 11}, ESP_TYPE_NONE}},
                .attr_count = GRAPH_ATTR_COUNT,
                .pk = GRAPH_SOURCE,
                .sk = GRAPH_TARGET,
                .index = {[GRAPH_BY_TARGET] = {.name = {"gsi0-index", 10},
                                               .pk = GRAPH_TARGET,
                                               .sk = GRAPH_GSI0}},
                .index_count = 1,
            },
        .options = options,
        .configure = configure,
        .parent_attr = -1,
        .view = view,
        .relation = relation,
        .item_count = item_count,
        .validate = validate,
        .emit = emit,
        .locate = locate,
        .resolve = graph_resolve,
        .node_key = node_key,
        .op =
            {
                [ESP_OP_NODE] = graph_op_node,
                [ESP_OP_PARENT] = graph_op_parent,
                [ESP_OP_CHILDREN] = graph_op_children,
                [ESP_OP_SIBLINGS] = graph_op_siblings,
                [ESP_OP_ANCESTORS] = graph_op_ancestors,
                [ESP_OP_DESCENDANTS] = graph_op_descendants,
                [ESP_OP_WINDOW] = graph_op_window,
                [ESP_OP_LEVEL] = graph_op_level,
                [ESP_OP_TREE] = graph_op_tree,
                [ESP_OP_LEAVES] = graph_op_leaves,
                [ESP_OP_COUNT] = graph_op_count,
                [ESP_OP_LCA] = graph_op_lca,
                [ESP_OP_ROOTS] = graph_op_roots,
                [ESP_OP_NEIGHBOURS] = graph_op_neighbours,
                [ESP_OP_HYDRATE] = graph_op_hydrate,
                [ESP_OP_INSERT] = graph_op_insert,
                [ESP_OP_INSERT_SUBTREE] = graph_op_insert_subtree,
                [ESP_OP_UPDATE] = esp_access_update,
                [ESP_OP_MOVE] = graph_op_move,
                [ESP_OP_REMOVE] = graph_op_remove,
                [ESP_OP_PROMOTE] = graph_op_promote,
                [ESP_OP_LINK] = graph_op_link,
                [ESP_OP_UNLINK] = graph_op_unlink,
            },
        .check = graph_check,
        .mend = graph_mend,
        .not_mended = not_mended,
};
