/*
 * Mending the layout graph.  Edges are the truth, for each write puts them no later than the set
 * that names them and takes them away no later than their node: what a node's item says of edges
 * is made again from the edges themselves.  Edges stay as they are, with their ranks and data.
 *
 * The partitions of the nodes that the check names are read twice: first to see which of them
 * exist and what leads to them, then, one after another, to make their items.
 */
#include "converters/graph/graph.h"

enum { QUERIES_AT_ONCE = 256 };

/* A type of the edges that lead to a node. */
struct incoming {
    uint32_t type, next; /* number; position + 1 */
};

struct named {
    bool told; /* its own item is there, or an edge that leaves it */
    uint32_t first;
};

/* What one partition holds. */
struct part {
    struct esp_item node; /* if found */
    bool found;
    struct esp_item *edge;
    uint32_t count, cap;
};

struct mending {
    struct esp_access *access;
    const struct esp_mend *mend;
    struct esp_arena arena, one; /* one: of one partition */
    struct esp_idmap keys, types;
    struct named *named; /* by number of the key */
    struct incoming *incoming;
    uint32_t incoming_count, incoming_cap;
    struct part part;
    struct esp_str tree; /* type of tree edges */
};

/* Is it an edge to a node's key? */
static bool parse_edge(const struct esp_layout *l, const struct esp_item *item,
                       struct esp_edge *out) {
    struct esp_str id;
    *out = (struct esp_edge){.gsi0 = esp_item_text(item, GRAPH_GSI0)};
    return esp_edge_parse_target(esp_item_text(item, GRAPH_TARGET), &out->type, &out->key) &&
           graph_id(l, out->key, &id);
}

static bool has_good_gsi0(const struct mending *m, const struct esp_edge *edge) {
    return esp_str_eq(edge->type, m->tree) ? esp_edge_rank(edge->gsi0) >= 0
                                           : esp_edge_weight_valid(edge->gsi0);
}

static enum esp_status leave(const struct mending *m, const char *name, struct esp_str key,
                             struct esp_str other, const char *text) {
    const struct esp_layout *l = m->access->layout;
    struct esp_finding finding = {.name = name, .id = key, .other = other, .text = text};
    (void)graph_id(l, key, &finding.id);
    (void)graph_id(l, other, &finding.other);
    return m->mend->left(m->mend->ctx, &finding);
}

static struct esp_query partition(struct esp_str key) {
    return (struct esp_query){
        .index = ESP_PRIMARY, .pk = esp_s(key), .op = ESP_ANY, .consistent = true};
}

/* --- first: what there is ---------------------------------------------------------------- */

static enum esp_status note_type(struct mending *m, struct named *to, struct esp_str type) {
    uint32_t number;
    if (esp_idmap_intern(&m->types, type, &number) != ESP_OK) {
        return ESP_ERR_NOMEM;
    }
    for (uint32_t at = to->first; at; at = m->incoming[at - 1].next) {
        if (m->incoming[at - 1].type == number) {
            return ESP_OK;
        }
    }
    struct incoming *grown = esp_arena_grow(&m->arena, m->incoming, &m->incoming_cap,
                                            m->incoming_count + 1, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    m->incoming = grown;
    grown[m->incoming_count++] = (struct incoming){number, to->first};
    to->first = m->incoming_count;
    return ESP_OK;
}

static enum esp_status look_at_item(void *ctx, const struct esp_item *item) {
    struct mending *m = ctx;
    struct esp_edge edge;
    uint32_t from = esp_idmap_find(&m->keys, esp_item_text(item, GRAPH_SOURCE)), to;
    bool node = graph_is_node(item);
    bool told = node || parse_edge(m->access->layout, item, &edge);
    if (from != ESP_IDMAP_NONE) {
        m->named[from].told = m->named[from].told || told;
    }
    to = told && !node ? esp_idmap_find(&m->keys, edge.key) : ESP_IDMAP_NONE;
    if (to == ESP_IDMAP_NONE) {
        return ESP_OK;
    }
    return esp_str_eq(edge.type, m->tree) ? ESP_OK : note_type(m, &m->named[to], edge.type);
}

/* The keys of the nodes, then one look at each partition. */
static enum esp_status look_at_all(struct mending *m) {
    const struct esp_mend *mend = m->mend;
    struct esp_query *q = esp_arena_calloc(&m->arena, QUERIES_AT_ONCE, sizeof *q);
    enum esp_status status = q ? ESP_OK : ESP_ERR_NOMEM;
    for (uint32_t i = 0; status == ESP_OK && i < mend->count; i++) {
        uint32_t number;
        esp_arena_reset(&m->one);
        struct esp_str key = graph_key(m->access->layout, mend->id[i], &m->one);
        status = key.ptr ? esp_idmap_intern(&m->keys, key, &number) : ESP_ERR_NOMEM;
    }
    m->named = esp_arena_calloc(&m->arena, (size_t)m->keys.count + 1, sizeof *m->named);
    if (!m->named) {
        return ESP_ERR_NOMEM;
    }
    for (uint32_t i = 0; status == ESP_OK && i < m->keys.count; i += QUERIES_AT_ONCE) {
        uint32_t n = m->keys.count - i < QUERIES_AT_ONCE ? m->keys.count - i : QUERIES_AT_ONCE;
        for (uint32_t k = 0; k < n; k++) {
            q[k] = partition(m->keys.id[i + k]);
        }
        status = esp_session_query_many(m->access->session, q, n, look_at_item, m, m->access->err);
    }
    return status;
}

/* --- then: a node's item ------------------------------------------------------------------ */

static enum esp_status take_item(void *ctx, const struct esp_item *item) {
    struct mending *m = ctx;
    const struct esp_schema *schema = &m->access->layout->schema;
    struct part *part = &m->part;
    if (graph_is_node(item)) {
        part->found = true;
        return esp_item_dup(schema, &m->one, item, &part->node);
    }
    struct esp_item *grown =
        esp_arena_grow(&m->one, part->edge, &part->cap, part->count + 1, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    part->edge = grown;
    return esp_item_dup(schema, &m->one, item, &grown[part->count++]);
}

static enum esp_status read_part(struct mending *m, uint32_t number) {
    struct esp_query q = partition(m->keys.id[number]);
    esp_arena_reset(&m->one);
    m->part = (struct part){.count = 0};
    return esp_session_query(m->access->session, &q, take_item, m, m->access->err);
}

/* What the table says of an edge whose gsi0 is wrong is not for the repair to change: its entry
 * stays. */
static enum esp_status add_entry(struct mending *m, const struct esp_edge_set *old,
                                 const struct esp_item *item, struct esp_edge_set *set) {
    struct esp_edge edge;
    if (!parse_edge(m->access->layout, item, &edge)) {
        return ESP_OK;
    }
    if (!has_good_gsi0(m, &edge)) {
        const struct esp_edge *entry = esp_edge_set_find(old, edge.type, edge.key);
        if (!entry) {
            return ESP_OK;
        }
        edge = *entry;
    }
    return esp_edge_set_add(set, &edge);
}

/* Types that were left out stay so as long as they have edges. */
static void keep_omitted(const struct esp_edge_set *old, struct esp_edge_set *set) {
    set->omitted = old->omitted;
    set->omitted_count = old->omitted_count;
    set->omitted_cap = old->omitted_cap;
    for (uint32_t i = set->omitted_count; i-- > 0;) {
        uint32_t at = 0;
        if (!esp_edge_set_next(set, set->omitted[i], &at)) {
            esp_edge_set_unmark(set, set->omitted[i]);
        }
    }
}

/* A node whose set tells of parents, and that has no such edge, would become a root. */
static bool has_lost_parent(const struct mending *m, const struct esp_edge_set *old,
                            const struct esp_edge_set *set) {
    uint32_t at = 0, old_at = 0;
    return !esp_edge_set_next(set, m->tree, &at) &&
           (esp_edge_set_next(old, m->tree, &old_at) || esp_edge_set_omits(old, m->tree));
}

static enum esp_status leave_lost_parent(const struct mending *m, const struct esp_edge_set *old) {
    uint32_t at = 0;
    const struct esp_edge *entry = esp_edge_set_next(old, m->tree, &at);
    return leave(m, "lost-parent", esp_item_text(&m->part.node, GRAPH_SOURCE),
                 entry ? entry->key : (struct esp_str){NULL, 0},
                 "the edge to the node's parent is gone; the node stays as it is");
}

static enum esp_status mend_set(struct mending *m, struct esp_item *after) {
    struct esp_edge_set old, set = {.arena = &m->one};
    enum esp_status status = esp_edge_set_read(&old, &m->one, &m->part.node.value[GRAPH_EDGE_SET],
                                               &m->part.node.value[GRAPH_OMITTED]);
    for (uint32_t i = 0; status == ESP_OK && i < m->part.count; i++) {
        status = add_entry(m, &old, &m->part.edge[i], &set);
    }
    if (status == ESP_OK && has_lost_parent(m, &old, &set)) {
        return leave_lost_parent(m, &old);
    }
    if (status == ESP_OK) {
        keep_omitted(&old, &set);
        status = graph_fit_set(m->access->layout, &set, after);
    }
    return status;
}

/* The types that the item names, and those that were met. */
static enum esp_status mend_types(struct mending *m, uint32_t number, struct esp_item *after) {
    const struct esp_value *known = &m->part.node.value[GRAPH_INCOMING];
    struct esp_str *type = NULL, text;
    struct esp_idmap all;
    uint32_t ignored;
    enum esp_status status = ESP_OK;
    esp_idmap_init(&all, &m->one);
    for (size_t pos = 0; status == ESP_OK && esp_set_next(known, &pos, &m->one, &text);) {
        status = text.ptr ? esp_idmap_intern(&all, text, &ignored) : ESP_ERR_NOMEM;
    }
    uint32_t before = all.count;
    for (uint32_t at = m->named[number].first; status == ESP_OK && at;
         at = m->incoming[at - 1].next) {
        status = esp_idmap_intern(&all, m->types.id[m->incoming[at - 1].type], &ignored);
    }
    type = all.id;
    return status == ESP_OK && all.count > before
               ? esp_set_make(type, all.count, &m->one, &after->value[GRAPH_INCOMING])
               : status;
}

/* The check has named every node that does not exist and that an edge leads to; one that edges
 * leave comes back. */
static bool is_missing(const struct mending *m, struct esp_str key) {
    uint32_t number = esp_idmap_find(&m->keys, key);
    return number != ESP_IDMAP_NONE && !m->named[number].told;
}

/* Edges to nodes that do not exist are named, and stay: what they say is nowhere else. */
static enum esp_status leave_edges(struct mending *m, struct esp_str key) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < m->part.count; i++) {
        struct esp_edge edge;
        if (parse_edge(m->access->layout, &m->part.edge[i], &edge) && is_missing(m, edge.key)) {
            status = leave(m, "edge-without-node", key, edge.key,
                           "the node that the edge leads to does not exist; the edge stays");
        }
    }
    return status;
}

/* The item as it should be.  Removes take edges before their node: where edges leave a node that
 * does not exist its item got lost, and an empty one takes its place. */
static enum esp_status mend_node(struct mending *m, uint32_t number) {
    struct esp_access *a = m->access;
    struct esp_str key = m->keys.id[number];
    enum esp_status status = read_part(m, number);
    if (status != ESP_OK || (!m->part.found && m->part.count == 0)) {
        return status; /* somebody else has removed it meanwhile */
    }
    struct esp_item after = m->part.found ? m->part.node : graph_item_key(key, key);
    status = mend_types(m, number, &after);
    if (status == ESP_OK) {
        status = mend_set(m, &after);
    }
    if (status == ESP_OK) {
        status = leave_edges(m, key);
    }
    if (status != ESP_OK ||
        (m->part.found && esp_item_equal(&a->layout->schema, &m->part.node, &after))) {
        return status;
    }
    if (esp_item_check(&a->layout->schema, &after, NULL) != ESP_OK) {
        return leave(m, "edge-set", key, (struct esp_str){NULL, 0},
                     "with all its edges the item would be larger than DynamoDB takes");
    }
    return m->mend->image(m->mend->ctx, m->part.found ? &m->part.node : NULL, &after);
}

enum esp_status graph_mend(struct esp_access *a, const struct esp_mend *mend) {
    struct mending m = {.access = a, .mend = mend, .tree = graph_tree_type(a->layout)};
    esp_arena_init(&m.arena, a->session->table->store->alloc, SIZE_MAX);
    esp_arena_init(&m.one, a->session->table->store->alloc, SIZE_MAX);
    esp_idmap_init(&m.keys, &m.arena);
    esp_idmap_init(&m.types, &m.arena);
    enum esp_status status = look_at_all(&m);
    for (uint32_t i = 0; status == ESP_OK && i < m.keys.count; i++) {
        status = m.named[i].told ? mend_node(&m, i) : ESP_OK;
    }
    esp_arena_fini(&m.one);
    esp_arena_fini(&m.arena);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}
