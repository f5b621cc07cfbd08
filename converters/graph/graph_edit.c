/*
 * The writes of the layout graph.  An operation notes, by node, what becomes of the edges that
 * leave it; then the writes of each node go together: its edges, and its item with the edge set
 * that follows from them.  As many nodes as fit share a transaction.
 */
#include "converters/graph/graph.h"

enum {
    TRANSACT_WRITES_MAX = 100,
    TRANSACT_BYTES_MAX = 3 << 20, /* DynamoDB takes 4 MB */
};

/* --- transactions ------------------------------------------------------------------- */

/* Groups of writes that must not be torn apart, packed. */
struct pack {
    struct esp_access *access;
    struct esp_write *w;
    size_t n;
    uint64_t bytes;
};

static enum esp_status pack_init(struct pack *pack, struct esp_access *a) {
    *pack = (struct pack){.access = a};
    pack->w = esp_arena_calloc(a->scratch, TRANSACT_WRITES_MAX, sizeof *pack->w);
    return pack->w ? ESP_OK : esp_fail_nomem(a->err);
}

/* What was read and what is written hang together: somebody else was between. */
static enum esp_status conflict(struct esp_access *a, enum esp_status status) {
    if (status != ESP_ERR_CONDITION) {
        return status;
    }
    if (a->err) {
        esp_error_clear(a->err);
    }
    return esp_fail(a->err, ESP_ERR_CONFLICT,
                    "another writer changed one of the nodes after it was read");
}

static enum esp_status pack_flush(struct pack *pack) {
    size_t n = pack->n;
    pack->n = 0;
    pack->bytes = 0;
    return n ? conflict(pack->access, esp_access_transact(pack->access, pack->w, n)) : ESP_OK;
}

static uint64_t write_bytes(const struct esp_schema *schema, const struct esp_write *w) {
    uint64_t bytes = esp_item_size(schema, &w->item);
    for (size_t i = 0; i < w->change_count; i++) {
        bytes += esp_value_size(&w->changes[i].value);
    }
    return bytes;
}

/* A group of more than a transaction takes is cut: its last write comes last. */
static enum esp_status pack_add(struct pack *pack, const struct esp_write *w, size_t n) {
    const struct esp_schema *schema = &pack->access->layout->schema;
    enum esp_status status = ESP_OK;
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += write_bytes(schema, &w[i]);
    }
    if (pack->n + n > TRANSACT_WRITES_MAX || pack->bytes + bytes > TRANSACT_BYTES_MAX) {
        status = pack_flush(pack);
    }
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        if (pack->n == TRANSACT_WRITES_MAX) {
            status = pack_flush(pack);
        }
        if (status == ESP_OK) {
            pack->w[pack->n++] = w[i];
        }
    }
    pack->bytes += bytes;
    return status;
}

/* --- what becomes of nodes ---------------------------------------------------------- */

enum edge_fate { EDGE_PUT, EDGE_DELETE, EDGE_RANK /* gets another gsi0 */ };

struct edge_write {
    enum edge_fate fate;
    struct esp_str type, key, gsi0; /* key: of the node it leads to */
    struct esp_data data;
};

struct touched {
    struct graph_node node;
    bool remove;      /* the node's item goes */
    bool set_changed; /* so its edge set is written */
    struct edge_write *edge;
    uint32_t count, cap;
    struct esp_str *incoming; /* types of new edges to it */
    uint32_t incoming_count, incoming_cap;
};

struct edit {
    struct esp_access *access;
    struct esp_idmap keys;
    struct touched *node; /* by number */
    uint32_t cap;
    struct esp_str tree; /* type of tree edges */
};

static void edit_init(struct edit *e, struct esp_access *a) {
    *e = (struct edit){.access = a, .tree = graph_tree_type(a->layout)};
    esp_idmap_init(&e->keys, a->scratch);
}

/* Reads those of the nodes that have not been read, their edges of `type` included that their
 * sets leave out (len 0: of all types; ptr == NULL: of none). */
static enum esp_status touch(struct edit *e, const struct esp_str *keys, uint32_t n,
                             struct esp_str type) {
    struct esp_access *a = e->access;
    struct esp_str *fresh = esp_arena_calloc(a->scratch, (size_t)n + 1, sizeof *fresh);
    struct graph_node *read = esp_arena_calloc(a->scratch, (size_t)n + 1, sizeof *read);
    uint32_t first = e->keys.count, number;
    enum esp_status status = fresh && read ? ESP_OK : ESP_ERR_NOMEM;
    for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
        status = esp_idmap_intern(&e->keys, keys[i], &number);
    }
    uint32_t count = e->keys.count - first;
    struct touched *node =
        esp_arena_grow(a->scratch, e->node, &e->cap, e->keys.count + 1, sizeof *node);
    if (status != ESP_OK || !node) {
        return esp_fail_nomem(a->err);
    }
    e->node = node;
    for (uint32_t i = 0; i < count; i++) {
        fresh[i] = e->keys.id[first + i];
    }
    status = graph_read(a, fresh, count, read);
    if (status == ESP_OK && type.ptr) {
        status = graph_read_omitted(a, read, count, type);
    }
    for (uint32_t i = 0; i < count; i++) {
        node[first + i] = (struct touched){.node = read[i]};
    }
    return status;
}

static struct touched *touched(const struct edit *e, struct esp_str key) {
    uint32_t at = esp_idmap_find(&e->keys, key);
    return at == ESP_IDMAP_NONE ? NULL : &e->node[at];
}

static enum esp_status note_edge(struct edit *e, struct touched *from,
                                 const struct edge_write *edge) {
    struct edge_write *grown =
        esp_arena_grow(e->access->scratch, from->edge, &from->cap, from->count + 1, sizeof *grown);
    if (!grown) {
        return esp_fail_nomem(e->access->err);
    }
    from->edge = grown;
    grown[from->count++] = *edge;
    from->set_changed = true;
    return ESP_OK;
}

static bool has_type(const struct esp_value *set, struct esp_str type, struct esp_arena *arena,
                     enum esp_status *status) {
    struct esp_str member;
    for (size_t pos = 0; esp_set_next(set, &pos, arena, &member);) {
        if (!member.ptr) {
            *status = ESP_ERR_NOMEM;
            return false;
        }
        if (esp_str_eq(member, type)) {
            return true;
        }
    }
    return false;
}

/* The node an edge leads to knows of which types such edges are. */
static enum esp_status note_incoming(struct edit *e, struct touched *to, struct esp_str type) {
    struct esp_arena *arena = e->access->scratch;
    enum esp_status status = ESP_OK;
    if (esp_str_eq(type, e->tree) ||
        has_type(&to->node.item.value[GRAPH_INCOMING], type, arena, &status) || status != ESP_OK) {
        return status;
    }
    struct esp_str *grown = esp_arena_grow(arena, to->incoming, &to->incoming_cap,
                                           to->incoming_count + 1, sizeof *grown);
    if (!grown) {
        return esp_fail_nomem(e->access->err);
    }
    to->incoming = grown;
    grown[to->incoming_count++] = type;
    return ESP_OK;
}

/* Without a prefix for nodes the edge could have the key of the node. */
static enum esp_status check_target(struct esp_access *a, struct esp_str type, struct esp_str from,
                                    struct esp_str to) {
    struct esp_str target = esp_edge_target(a->scratch, type, to);
    if (!target.ptr) {
        return esp_fail_nomem(a->err);
    }
    return esp_str_eq(target, from)
               ? esp_fail(a->err, ESP_ERR_REFUSED,
                          "an edge %.*s from '%.*s' to '%.*s' would have the key of the node "
                          "'%.*s'",
                          ESP_FMT(type), ESP_FMT(from), ESP_FMT(to), ESP_FMT(from))
               : ESP_OK;
}

static enum esp_status put_edge(struct edit *e, struct touched *from, struct esp_str type,
                                struct esp_str to, struct esp_str gsi0, struct esp_data data) {
    struct edge_write edge = {EDGE_PUT, type, to, gsi0, data};
    struct esp_edge entry = {.type = type, .key = to, .gsi0 = gsi0};
    entry.left_out = esp_edge_set_omits(&from->node.set, type);
    enum esp_status status = check_target(e->access, type, from->node.key, to);
    if (status == ESP_OK) {
        status = note_edge(e, from, &edge);
    }
    return status == ESP_OK ? esp_edge_set_add(&from->node.set, &entry) : status;
}

static enum esp_status delete_edge(struct edit *e, struct touched *from, struct esp_str type,
                                   struct esp_str to) {
    struct edge_write edge = {.fate = EDGE_DELETE, .type = type, .key = to};
    struct esp_edge *entry = esp_edge_set_find(&from->node.set, type, to);
    if (entry) {
        edge.gsi0 = entry->gsi0;
        esp_edge_set_remove(&from->node.set, entry);
    }
    return note_edge(e, from, &edge);
}

static enum esp_status rank_edge(struct edit *e, struct touched *from, struct esp_str to,
                                 struct esp_str gsi0) {
    struct edge_write edge = {.fate = EDGE_RANK, .type = e->tree, .key = to, .gsi0 = gsi0};
    struct esp_edge *entry = esp_edge_set_find(&from->node.set, e->tree, to);
    if (entry) {
        entry->gsi0 = gsi0;
    }
    return note_edge(e, from, &edge);
}

/* --- from what becomes of a node to its writes --------------------------------------- */

static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    *(uint32_t *)ctx += !graph_is_node(item);
    return ESP_OK;
}

/* Types that the set leaves out and that lose edges: has any of them none left? */
static enum esp_status unmark_emptied(struct edit *e, struct touched *node) {
    struct esp_access *a = e->access;
    enum esp_status status = ESP_OK;
    for (uint32_t i = node->node.set.omitted_count; status == ESP_OK && i-- > 0;) {
        struct esp_str type = node->node.set.omitted[i];
        uint32_t gone = 0, there = 0;
        bool put = false, more = true;
        for (uint32_t k = 0; k < node->count; k++) {
            bool same = esp_str_eq(node->edge[k].type, type);
            gone += same && node->edge[k].fate == EDGE_DELETE;
            put = put || (same && node->edge[k].fate == EDGE_PUT);
        }
        struct esp_str begin = esp_edge_target(a->scratch, type, (struct esp_str){"", 0});
        struct esp_query q = {.index = ESP_PRIMARY,
                              .pk = esp_s(node->node.key),
                              .op = ESP_PREFIX,
                              .lo = esp_s(begin),
                              .consistent = a->consistent,
                              .limit = gone + 2};
        struct esp_cursor cursor = {.set = false};
        if (gone == 0 || put) {
            continue;
        }
        status = begin.ptr ? ESP_OK : esp_fail_nomem(a->err);
        while (status == ESP_OK && more && there <= gone) {
            status =
                esp_session_query_page(a->session, &q, &cursor, &more, count_item, &there, a->err);
        }
        if (status == ESP_OK && there <= gone) {
            esp_edge_set_unmark(&node->node.set, type);
        }
    }
    return status;
}

static enum esp_status edge_item(struct esp_access *a, const struct touched *node,
                                 const struct edge_write *edge, struct esp_write *out) {
    struct esp_str target = esp_edge_target(a->scratch, edge->type, edge->key);
    struct esp_item *old = NULL;
    if (!target.ptr) {
        return esp_fail_nomem(a->err);
    }
    *out = (struct esp_write){.kind = edge->fate == EDGE_PUT      ? ESP_PUT
                                      : edge->fate == EDGE_DELETE ? ESP_DELETE
                                                                  : ESP_UPDATE,
                              .item = graph_item_key(node->node.key, target)};
    if (edge->fate == EDGE_PUT) {
        out->item.value[GRAPH_GSI0] = esp_s(edge->gsi0);
        out->item.data = edge->data;
        return esp_item_check(&a->layout->schema, &out->item, a->err);
    }
    if (edge->fate == EDGE_DELETE && edge->gsi0.len) {
        old = esp_arena_calloc(a->scratch, 1, sizeof *old);
        if (!old) {
            return esp_fail_nomem(a->err);
        }
        *old = out->item;
        old->value[GRAPH_GSI0] = esp_s(edge->gsi0);
        out->old = old;
    } else if (edge->fate == EDGE_RANK) {
        struct esp_change *change = esp_arena_calloc(a->scratch, 1, sizeof *change);
        if (!change) {
            return esp_fail_nomem(a->err);
        }
        *change = esp_set(&a->layout->schema, GRAPH_GSI0, esp_s(edge->gsi0));
        out->changes = change;
        out->change_count = 1;
    }
    return ESP_OK;
}

/* The attribute is still as it was read. */
static struct esp_condition unchanged(const struct esp_schema *schema, const struct esp_item *item,
                                      int attr) {
    bool none = item->value[attr].type == ESP_TYPE_NONE;
    return (struct esp_condition){.name = schema->attr[attr].name,
                                  .op = none ? ESP_NOT_EXISTS : ESP_EQ,
                                  .lo = item->value[attr]};
}

static struct esp_change set_or_unset(const struct esp_schema *schema, int attr,
                                      struct esp_value value) {
    return value.type == ESP_TYPE_NONE ? esp_unset(schema, attr) : esp_set(schema, attr, value);
}

/* The update of a node's item.  change: room for three. */
static enum esp_status node_changes(struct edit *e, struct touched *node, struct esp_write *out,
                                    struct esp_change *change) {
    struct esp_access *a = e->access;
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_value incoming;
    struct esp_item after;
    enum esp_status status = ESP_OK;
    size_t n = 0;
    if (node->incoming_count) {
        status = esp_set_make(node->incoming, node->incoming_count, a->scratch, &incoming);
        change[n++] =
            (struct esp_change){ESP_CHANGE_ADD, schema->attr[GRAPH_INCOMING].name, incoming};
    }
    if (status == ESP_OK && node->set_changed) {
        status = unmark_emptied(e, node);
    }
    if (status == ESP_OK) {
        status = esp_item_apply(schema, &node->node.item, change, n, a->scratch, &after, a->err);
    }
    if (status == ESP_OK && node->set_changed) {
        status = graph_fit_set(a->layout, &node->node.set, &after);
        change[n++] = set_or_unset(schema, GRAPH_EDGE_SET, after.value[GRAPH_EDGE_SET]);
        change[n++] = set_or_unset(schema, GRAPH_OMITTED, after.value[GRAPH_OMITTED]);
    }
    out->kind = ESP_UPDATE;
    out->changes = change;
    out->change_count = n;
    if (status == ESP_OK) {
        status = esp_item_check(schema, &after, a->err);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* The write of a node's own item, on the condition that its edges are those that were read. */
static enum esp_status node_write(struct edit *e, struct touched *node, struct esp_write *out) {
    struct esp_access *a = e->access;
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_condition *condition = esp_arena_calloc(a->scratch, 3, sizeof *condition);
    struct esp_change *change = esp_arena_calloc(a->scratch, 3, sizeof *change);
    if (!condition || !change) {
        return esp_fail_nomem(a->err);
    }
    condition[0] =
        (struct esp_condition){.name = schema->attr[GRAPH_SOURCE].name, .op = ESP_EXISTS};
    condition[1] = unchanged(schema, &node->node.item, GRAPH_EDGE_SET);
    condition[2] = unchanged(schema, &node->node.item, GRAPH_OMITTED);
    *out = (struct esp_write){.kind = ESP_DELETE,
                              .item = graph_item_key(node->node.key, node->node.key),
                              .condition = condition,
                              .condition_count = node->remove || node->set_changed ? 3 : 1,
                              .old = &node->node.item};
    return node->remove ? ESP_OK : node_changes(e, node, out, change);
}

static enum esp_status write_node(struct edit *e, struct pack *pack, struct touched *node) {
    struct esp_access *a = e->access;
    struct esp_write *w = esp_arena_calloc(a->scratch, (size_t)node->count + 1, sizeof *w);
    size_t n = 0;
    enum esp_status status = w ? ESP_OK : esp_fail_nomem(a->err);
    for (uint32_t i = 0; status == ESP_OK && i < node->count; i++) {
        status = edge_item(a, node, &node->edge[i], &w[n++]);
    }
    if (status == ESP_OK && node->node.found &&
        (node->remove || node->set_changed || node->incoming_count)) {
        status = node_write(e, node, &w[n++]);
    }
    return status == ESP_OK ? pack_add(pack, w, n) : status;
}

/* All that was noted: nodes that stay first, then those that go, the last touched of them
 * first. */
static enum esp_status edit_run(struct edit *e) {
    struct pack pack;
    enum esp_status status = pack_init(&pack, e->access);
    for (uint32_t i = 0; status == ESP_OK && i < e->keys.count; i++) {
        status = e->node[i].remove ? ESP_OK : write_node(e, &pack, &e->node[i]);
    }
    for (uint32_t i = e->keys.count; status == ESP_OK && i-- > 0;) {
        status = e->node[i].remove ? write_node(e, &pack, &e->node[i]) : ESP_OK;
    }
    return status == ESP_OK ? pack_flush(&pack) : status;
}

/* --- helpers ------------------------------------------------------------------------ */

static enum esp_status key_of(struct esp_access *a, struct esp_str id, struct esp_str *key) {
    *key = graph_key(a->layout, id, a->scratch);
    return key->ptr ? ESP_OK : esp_fail_nomem(a->err);
}

static struct esp_str shown_id(const struct edit *e, struct esp_str key) {
    struct esp_str id = key;
    (void)graph_id(e->access->layout, key, &id);
    return id;
}

/* The rank behind the last child of a node, as text. */
static enum esp_status next_rank(struct esp_access *a, struct esp_str parent, struct esp_str *out) {
    int64_t last = 0;
    enum esp_status status = graph_last_rank(a, parent, &last);
    return status == ESP_OK ? graph_weight(a->layout, graph_tree_type(a->layout),
                                           (struct esp_str){NULL, 0}, last, a->scratch, out, a->err)
                            : status;
}

static const struct esp_str every_type = {"", 0}, no_type = {NULL, 0};

/* --- insert -------------------------------------------------------------------------- */

/* The new parent, when there is one and the caller does not know its key. */
static enum esp_status look_at_parent(struct esp_access *a, const struct esp_locator *to) {
    struct graph_node parent;
    if (to->id.len == 0 || to->key) {
        return ESP_OK;
    }
    struct esp_str key;
    enum esp_status status = key_of(a, to->id, &key);
    if (status == ESP_OK) {
        status = graph_read(a, &key, 1, &parent);
    }
    if (status == ESP_OK && !parent.found) {
        return esp_access_missing(a, to->id);
    }
    return status == ESP_OK ? esp_access_rely(a, &parent.item) : status;
}

/* Both writes of a child, or the one of a root. */
static enum esp_status insert_items(struct esp_access *a, const struct esp_args *args,
                                    struct esp_item item[2]) {
    struct esp_str key, to, target, rank;
    struct esp_edge edge = {.type = graph_tree_type(a->layout)};
    struct esp_edge_set set = {.arena = a->scratch};
    enum esp_status status = key_of(a, args->id, &key);
    if (status != ESP_OK) {
        return status;
    }
    item[0] = graph_item_key(key, key);
    item[0].data = args->data;
    if (args->to.id.len == 0) {
        return ESP_OK;
    }
    status = key_of(a, args->to.id, &to);
    if (status == ESP_OK) {
        status = check_target(a, edge.type, key, to);
    }
    if (status == ESP_OK) {
        status = next_rank(a, to, &rank);
    }
    if (status != ESP_OK) {
        return status;
    }
    edge.key = to;
    edge.gsi0 = rank;
    target = esp_edge_target(a->scratch, edge.type, to);
    item[1] = graph_item_key(key, target);
    item[1].value[GRAPH_GSI0] = esp_s(rank);
    status = target.ptr ? esp_edge_set_add(&set, &edge) : ESP_ERR_NOMEM;
    if (status == ESP_OK) {
        status = graph_fit_set(a->layout, &set, &item[0]);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status graph_op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item[2];
    struct esp_condition absent = {.name = a->layout->schema.attr[GRAPH_SOURCE].name,
                                   .op = ESP_NOT_EXISTS};
    bool child = args->to.id.len > 0;
    enum esp_status status = look_at_parent(a, &args->to);
    if (status == ESP_OK) {
        status = insert_items(a, args, item);
    }
    for (int i = 0; status == ESP_OK && i <= child; i++) {
        status = esp_access_check_insert(a, &item[i]);
    }
    if (status != ESP_OK) {
        return status;
    }
    struct esp_write write[2] = {
        {.kind = ESP_PUT, .item = item[0], .condition = &absent, .condition_count = 1},
        {.kind = ESP_PUT, .item = item[1]}};
    status = child ? esp_access_transact(a, write, 2) : esp_access_send(a, write, 1);
    return esp_access_outcome(a, status, args->id, ESP_ERR_EXISTS);
}

/* The items of one new node, and the pack they go to. */
struct graft {
    struct esp_access *access;
    struct pack pack;
    struct esp_condition absent;
    struct esp_write *w;
    uint32_t n, cap;
};

static enum esp_status graft_item(void *ctx, const struct esp_item *item) {
    struct graft *g = ctx;
    struct esp_write *grown =
        esp_arena_grow(g->access->scratch, g->w, &g->cap, g->n + 1, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    g->w = grown;
    grown[g->n] = (struct esp_write){.kind = ESP_PUT, .item = *item};
    if (graph_is_node(item)) {
        grown[g->n].condition = &g->absent;
        grown[g->n].condition_count = 1;
    }
    g->n++;
    return ESP_OK;
}

static enum esp_status none_is_there(struct esp_access *a, const struct esp_forest *f) {
    struct esp_str *key = esp_arena_calloc(a->scratch, f->count, sizeof *key);
    struct graph_node *node = esp_arena_calloc(a->scratch, f->count, sizeof *node);
    enum esp_status status = key && node ? ESP_OK : esp_fail_nomem(a->err);
    for (esp_node v = 0; status == ESP_OK && v < f->count; v++) {
        status = key_of(a, esp_forest_id(f, v), &key[v]);
    }
    if (status == ESP_OK) {
        status = graph_read(a, key, f->count, node);
    }
    for (esp_node v = 0; status == ESP_OK && v < f->count; v++) {
        if (node[v].found) {
            status = esp_fail(a->err, ESP_ERR_EXISTS, "there is a node '%.*s' already",
                              ESP_FMT(esp_forest_id(f, v)));
        }
    }
    return status;
}

/* Parents first, each node with its edges: what a cut leaves is a tree that ends early. */
enum esp_status graph_op_insert_subtree(struct esp_access *a, const struct esp_args *args,
                                        esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    const struct esp_forest *f = args->subtree;
    struct graft g = {
        .access = a,
        .absent = {.name = a->layout->schema.attr[GRAPH_SOURCE].name, .op = ESP_NOT_EXISTS}};
    struct esp_str top = {NULL, 0};
    int64_t last = 0;
    enum esp_status status = a->layout->ops->validate(a->layout, f, a->err);
    if (status == ESP_OK) {
        status = look_at_parent(a, &args->to);
    }
    if (status == ESP_OK && args->to.id.len) {
        status = key_of(a, args->to.id, &top);
        status = status == ESP_OK ? graph_last_rank(a, top, &last) : status;
    }
    for (esp_node v = 0; status == ESP_OK && top.len && v < f->count; v += f->size[v]) {
        struct esp_str key;
        status = key_of(a, esp_forest_id(f, v), &key);
        status = status == ESP_OK ? check_target(a, graph_tree_type(a->layout), key, top) : status;
    }
    if (status == ESP_OK && last > ESP_RANK_MAX - ((int64_t)f->count + 1) * GRAPH_RANK_STEP) {
        status = esp_fail(a->err, ESP_ERR_LIMIT, "the children of '%.*s' have no more ranks free",
                          ESP_FMT(args->to.id));
    }
    if (status == ESP_OK) {
        status = none_is_there(a, f);
    }
    if (status == ESP_OK) {
        status = pack_init(&g.pack, a);
    }
    for (esp_node v = 0; status == ESP_OK && v < f->count; v++) {
        g.n = 0;
        status = graph_emit_node(a->layout, f, v, top, last, a->scratch, graft_item, &g);
        for (uint32_t i = 0; status == ESP_OK && i < g.n; i++) {
            status = esp_item_check(&a->layout->schema, &g.w[i].item, a->err);
        }
        if (status == ESP_OK) {
            status = pack_add(&g.pack, g.w, g.n);
        }
    }
    status = status == ESP_OK ? pack_flush(&g.pack) : status;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- move ---------------------------------------------------------------------------- */

static enum esp_status refuse_below(struct esp_access *a, struct esp_str at, struct esp_str to) {
    return esp_fail(a->err, ESP_ERR_CYCLE,
                    "'%.*s' cannot move below itself: '%.*s' is in its subtree", ESP_FMT(at),
                    ESP_FMT(to));
}

static enum esp_status refuse_link(struct esp_access *a, struct esp_str at, struct esp_str to) {
    return esp_str_eq(at, to)
               ? esp_fail(a->err, ESP_ERR_CYCLE, "'%.*s' would be its own ancestor", ESP_FMT(at))
               : esp_fail(a->err, ESP_ERR_CYCLE,
                          "'%.*s' would be its own ancestor: '%.*s' is below it", ESP_FMT(at),
                          ESP_FMT(to));
}

/* Is the new parent the node itself, or below it? */
static enum esp_status check_cycle(struct edit *e, struct esp_str at, const struct esp_locator *to,
                                   struct esp_str to_key, bool link) {
    struct esp_access *a = e->access;
    struct graph_place place;
    const struct touched *parent = touched(e, to_key);
    enum esp_status status = ESP_OK;
    bool below = esp_str_eq(at, to_key);
    if (!below && to->key) {
        place = *(const struct graph_place *)to->key;
    } else if (!below) {
        status = graph_parents(a->layout, &parent->node.set, a->scratch, &place);
    }
    if (status == ESP_OK && !below) {
        status = graph_is_above(a, at, &place, &below);
    }
    if (status == ESP_OK && below) {
        struct esp_str id = shown_id(e, at);
        return link ? refuse_link(a, id, to->id) : refuse_below(a, id, to->id);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* The node, which must be there, and another one, which must be there unless its key is known. */
static enum esp_status touch_two(struct edit *e, const struct esp_args *args, struct esp_str at,
                                 struct esp_str to, struct esp_str type) {
    struct esp_access *a = e->access;
    struct esp_str keys[2] = {at, to};
    bool look = args->to.id.len && !args->to.key;
    enum esp_status status = touch(e, keys, look ? 2 : 1, type);
    if (status == ESP_OK && !touched(e, at)->node.found) {
        status = esp_access_missing(a, args->at.id);
    }
    if (status == ESP_OK && look && !touched(e, to)->node.found) {
        status = esp_access_missing(a, args->to.id);
    }
    return status == ESP_OK && look ? esp_access_rely(a, &touched(e, to)->node.item) : status;
}

/* All tree edges of the node but one to `to` are deleted; *there: that one is there. */
static enum esp_status drop_parents(struct edit *e, struct touched *node, struct esp_str to,
                                    bool *there) {
    struct graph_place place;
    enum esp_status status =
        graph_parents(e->access->layout, &node->node.set, e->access->scratch, &place);
    *there = false;
    for (uint32_t i = 0; status == ESP_OK && i < place.parent_count; i++) {
        bool same = to.len && esp_str_eq(place.parent[i], to);
        *there = *there || same;
        status = same ? ESP_OK : delete_edge(e, node, e->tree, place.parent[i]);
    }
    return status;
}

enum esp_status graph_op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                              void *ctx) {
    (void)fn, (void)ctx;
    struct edit e;
    struct esp_str at, to = {NULL, 0}, rank;
    bool there = false;
    edit_init(&e, a);
    enum esp_status status = key_of(a, args->at.id, &at);
    if (status == ESP_OK && args->to.id.len) {
        status = key_of(a, args->to.id, &to);
    }
    if (status == ESP_OK) {
        status = touch_two(&e, args, at, to, e.tree);
    }
    if (status == ESP_OK && to.len) {
        status = check_cycle(&e, at, &args->to, to, false);
    }
    if (status == ESP_OK) {
        status = drop_parents(&e, touched(&e, at), to, &there);
    }
    if (status == ESP_OK && to.len && !there) {
        status = next_rank(a, to, &rank);
        if (status == ESP_OK) {
            status = put_edge(&e, touched(&e, at), e.tree, to, rank, (struct esp_data){NULL, 0, 0});
        }
    }
    status = status == ESP_OK ? edit_run(&e) : status;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- link, unlink --------------------------------------------------------------------- */

struct found_edge {
    struct esp_access *access;
    bool found;
    struct esp_item item;
};

static enum esp_status take_edge(void *ctx, const struct esp_item *item) {
    struct found_edge *edge = ctx;
    edge->found = true;
    return esp_item_dup(&edge->access->layout->schema, edge->access->scratch, item, &edge->item);
}

/* The item of an edge, if there is one. */
static enum esp_status find_edge(struct esp_access *a, struct esp_str from, struct esp_str type,
                                 struct esp_str to, struct found_edge *out) {
    struct esp_str target = esp_edge_target(a->scratch, type, to);
    struct esp_item key = graph_item_key(from, target);
    *out = (struct found_edge){.access = a};
    if (!target.ptr) {
        return esp_fail_nomem(a->err);
    }
    return esp_session_get(a->session, &key, 1, a->consistent, take_edge, out, a->err);
}

/* Sets tell whether there is such an edge, but for the types they leave out. */
static enum esp_status has_edge(struct edit *e, const struct touched *from, struct esp_str type,
                                struct esp_str to, bool *out) {
    struct found_edge edge;
    *out = esp_edge_set_find(&from->node.set, type, to) != NULL;
    if (*out || !esp_edge_set_omits(&from->node.set, type)) {
        return ESP_OK;
    }
    enum esp_status status = find_edge(e->access, from->node.key, type, to, &edge);
    *out = status == ESP_OK && edge.found;
    return status;
}

/* What link and unlink begin with: both nodes, and whether the edge is there. */
static enum esp_status edge_start(struct esp_access *a, struct edit *e, const struct esp_args *args,
                                  struct esp_str *at, struct esp_str *to, bool *there) {
    struct esp_args named = *args;
    named.to.key = NULL; /* both items are needed */
    edit_init(e, a);
    enum esp_status status = graph_check_type(a->layout, args->type, a->err);
    if (status == ESP_OK && args->to.id.len == 0) {
        status = esp_access_missing(a, args->to.id);
    }
    if (status == ESP_OK) {
        status = key_of(a, args->at.id, at);
    }
    if (status == ESP_OK) {
        status = key_of(a, args->to.id, to);
    }
    if (status == ESP_OK) {
        /* the way up is needed when a parent is added */
        status =
            touch_two(e, &named, *at, *to, esp_str_eq(args->type, e->tree) ? e->tree : no_type);
    }
    return status == ESP_OK ? has_edge(e, touched(e, *at), args->type, *to, there) : status;
}

/* One more parent: not one that is below the node. */
static enum esp_status check_parent(struct edit *e, const struct esp_args *args, struct esp_str at,
                                    struct esp_str to) {
    struct esp_locator parent = {.id = args->to.id};
    return esp_str_eq(args->type, e->tree) ? check_cycle(e, at, &parent, to, true) : ESP_OK;
}

enum esp_status graph_op_link(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                              void *ctx) {
    (void)fn, (void)ctx;
    struct edit e;
    struct esp_str at, to, gsi0;
    bool there;
    int64_t last = 0;
    enum esp_status status = edge_start(a, &e, args, &at, &to, &there);
    if (status == ESP_OK && there) {
        return esp_fail(a->err, ESP_ERR_EXISTS,
                        "there is an edge %.*s from '%.*s' to '%.*s' "
                        "already",
                        ESP_FMT(args->type), ESP_FMT(args->at.id), ESP_FMT(args->to.id));
    }
    if (status == ESP_OK) {
        status = check_parent(&e, args, at, to);
    }
    if (status == ESP_OK && esp_str_eq(args->type, e.tree) && args->weight.len == 0) {
        status = graph_last_rank(a, to, &last);
    }
    if (status == ESP_OK) {
        status = graph_weight(a->layout, args->type, args->weight, last, a->scratch, &gsi0, a->err);
    }
    if (status == ESP_OK) {
        struct esp_item probe = graph_item_key(at, at);
        probe.data = args->data;
        status = esp_access_check_insert(a, &probe);
    }
    if (status == ESP_OK) {
        status = put_edge(&e, touched(&e, at), args->type, to, gsi0, args->data);
    }
    if (status == ESP_OK) {
        status = note_incoming(&e, touched(&e, to), args->type);
    }
    status = status == ESP_OK ? edit_run(&e) : status;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status graph_op_unlink(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    (void)fn, (void)ctx;
    struct edit e;
    struct esp_str at, to;
    bool there;
    enum esp_status status = edge_start(a, &e, args, &at, &to, &there);
    if (status == ESP_OK && !there) {
        return esp_fail(a->err, ESP_ERR_NOT_FOUND, "there is no edge %.*s from '%.*s' to '%.*s'",
                        ESP_FMT(args->type), ESP_FMT(args->at.id), ESP_FMT(args->to.id));
    }
    if (status == ESP_OK) {
        status = delete_edge(&e, touched(&e, at), args->type, to);
    }
    status = status == ESP_OK ? edit_run(&e) : status;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- remove --------------------------------------------------------------------------- */

/* The edges of other types that lead to nodes which go: asked for by the types that each of those
 * nodes knows. */
struct incoming {
    struct edit *edit;
    struct esp_query *q;
    uint32_t count, cap;
    struct esp_str *source, *type, *key; /* of each edge found */
    uint32_t found, source_cap, type_cap, key_cap;
};

static enum esp_status ask_incoming(struct incoming *in, const struct touched *node) {
    struct esp_access *a = in->edit->access;
    struct esp_str type;
    for (size_t pos = 0;
         esp_set_next(&node->node.item.value[GRAPH_INCOMING], &pos, a->scratch, &type);) {
        struct esp_query *q = esp_arena_grow(a->scratch, in->q, &in->cap, in->count + 1, sizeof *q);
        struct esp_str target = {NULL, 0};
        if (type.ptr) {
            target = esp_edge_target(a->scratch, type, node->node.key);
        }
        if (!q || !target.ptr) {
            return esp_fail_nomem(a->err);
        }
        in->q = q;
        q[in->count++] = (struct esp_query){.index = GRAPH_BY_TARGET, .pk = esp_s(target)};
    }
    return ESP_OK;
}

static enum esp_status take_incoming(void *ctx, const struct esp_item *item) {
    struct incoming *in = ctx;
    struct esp_arena *arena = in->edit->access->scratch;
    uint32_t need = in->found + 1;
    struct esp_str *source =
        esp_arena_grow(arena, in->source, &in->source_cap, need, sizeof *source);
    struct esp_str *type = esp_arena_grow(arena, in->type, &in->type_cap, need, sizeof *type);
    struct esp_str *key = esp_arena_grow(arena, in->key, &in->key_cap, need, sizeof *key);
    struct esp_str target = esp_arena_dup(arena, esp_item_text(item, GRAPH_TARGET));
    if (!source || !type || !key || !target.ptr) {
        return ESP_ERR_NOMEM;
    }
    in->source = source;
    in->type = type;
    in->key = key;
    source[in->found] = esp_arena_dup(arena, esp_item_text(item, GRAPH_SOURCE));
    if (!source[in->found].ptr) {
        return ESP_ERR_NOMEM;
    }
    in->found += esp_edge_parse_target(target, &type[in->found], &key[in->found]);
    return ESP_OK;
}

/* Nodes that stay lose their edges of other types to those that go. */
static enum esp_status drop_incoming(struct edit *e) {
    struct incoming in = {.edit = e};
    struct esp_access *a = e->access;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < e->keys.count; i++) {
        if (e->node[i].remove && e->node[i].node.found) {
            status = ask_incoming(&in, &e->node[i]);
        }
    }
    if (status == ESP_OK && in.count) {
        status = esp_session_query_many(a->session, in.q, in.count, take_incoming, &in, a->err);
    }
    if (status == ESP_OK && in.found) {
        status = touch(e, in.source, in.found, no_type);
    }
    for (uint32_t i = 0; status == ESP_OK && i < in.found; i++) {
        struct touched *from = touched(e, in.source[i]);
        status = from->remove ? ESP_OK : delete_edge(e, from, in.type[i], in.key[i]);
    }
    return status;
}

/* A node goes with every edge that leaves it. */
static enum esp_status remove_node(struct edit *e, struct touched *node) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < node->node.set.count; i++) {
        const struct esp_edge *entry = &node->node.set.edge[i];
        struct edge_write edge = {
            .fate = EDGE_DELETE, .type = entry->type, .key = entry->key, .gsi0 = entry->gsi0};
        status = entry->type.len ? note_edge(e, node, &edge) : ESP_OK;
    }
    node->remove = true;
    return status;
}

/* Which of the nodes below have a way up that does not lead through the top: they stay.  Nodes of
 * `below` and of `e` have the same numbers. */
static enum esp_status find_staying(struct edit *e, const struct graph_below *below, bool *stays) {
    struct esp_access *a = e->access;
    uint32_t *queue = esp_arena_calloc(a->scratch, below->keys.count, sizeof *queue);
    uint32_t count = 0;
    if (!queue) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t v = 1; v < below->keys.count; v++) {
        const struct esp_edge *edge;
        for (uint32_t at = 0; (edge = esp_edge_set_next(&e->node[v].node.set, e->tree, &at));) {
            if (!stays[v] && esp_idmap_find(&below->keys, edge->key) == ESP_IDMAP_NONE) {
                stays[v] = true;
                queue[count++] = v;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t at = below->node[queue[i]].first; at; at = below->edge[at - 1].next) {
            uint32_t child = below->edge[at - 1].child;
            if (child > 0 && !stays[child]) {
                stays[child] = true;
                queue[count++] = child;
            }
        }
    }
    return ESP_OK;
}

/* The tree edges between the nodes: those that lead to a node which goes. */
static enum esp_status drop_below(struct edit *e, const struct graph_below *below,
                                  const bool *stays) {
    enum esp_status status = ESP_OK;
    for (uint32_t v = 0; status == ESP_OK && v < below->keys.count; v++) {
        if (!stays[v]) {
            status = remove_node(e, &e->node[v]);
        }
    }
    for (uint32_t v = 0; status == ESP_OK && v < below->keys.count; v++) {
        for (uint32_t at = stays[v] ? 0 : below->node[v].first; status == ESP_OK && at;
             at = below->edge[at - 1].next) {
            struct touched *child = &e->node[below->edge[at - 1].child];
            bool known = esp_edge_set_find(&child->node.set, e->tree, below->keys.id[v]) != NULL;
            if (!child->remove || !known) { /* an edge that the set does not name goes too */
                status = delete_edge(e, child, e->tree, below->keys.id[v]);
            }
        }
    }
    return status;
}

/* The node and what is only below it; what has another way up loses an edge.  The top goes last,
 * so that what is left of a torn remove can be removed again. */
enum esp_status graph_op_remove(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    (void)fn, (void)ctx;
    struct edit e;
    struct graph_below below;
    struct esp_str at;
    bool *stays = NULL;
    edit_init(&e, a);
    enum esp_status status = key_of(a, args->at.id, &at);
    if (status == ESP_OK) {
        status = touch(&e, &at, 1, every_type);
    }
    if (status == ESP_OK && !e.node[0].node.found) {
        return esp_access_missing(a, args->at.id);
    }
    if (status == ESP_OK) {
        status = graph_descend(a, at, UINT32_MAX, &below);
    }
    if (status == ESP_OK) {
        status = touch(&e, below.keys.id, below.keys.count, every_type);
    }
    if (status == ESP_OK) {
        stays = esp_arena_calloc(a->scratch, below.keys.count, sizeof *stays);
        status = stays ? find_staying(&e, &below, stays) : esp_fail_nomem(a->err);
    }
    if (status == ESP_OK) {
        status = drop_below(&e, &below, stays);
    }
    if (status == ESP_OK) {
        status = drop_incoming(&e);
    }
    status = status == ESP_OK ? edit_run(&e) : status;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- promote -------------------------------------------------------------------------- */

/* The siblings from a node on, and where the node is among them. */
struct row {
    struct graph_sources all;
    uint32_t at;  /* of the node; all.count: it is not there */
    int64_t rank; /* where its children begin */
};

static enum esp_status read_row(struct edit *e, struct esp_str node, struct esp_str parent,
                                struct esp_str gsi0, struct row *row) {
    enum esp_status status = graph_sources(e->access, e->tree, parent, gsi0, &row->all);
    row->at = 0;
    while (status == ESP_OK && row->at < row->all.count &&
           !esp_str_eq(row->all.key[row->at], node)) {
        row->at++;
    }
    row->rank = esp_edge_rank(gsi0);
    row->rank = row->rank < 0 ? 0 : row->rank;
    row->rank += row->at > 0; /* somebody else has the same rank, and comes before */
    return status;
}

static enum esp_status rank_text(struct edit *e, int64_t rank, struct esp_str *out) {
    struct esp_access *a = e->access;
    char text[ESP_RANK_DIGITS];
    if (rank > ESP_RANK_MAX) {
        return esp_fail(a->err, ESP_ERR_LIMIT, "there is no rank left behind the last child");
    }
    esp_edge_put_rank(rank, text);
    *out = esp_arena_dup(a->scratch, (struct esp_str){text, sizeof text});
    return out->ptr ? ESP_OK : esp_fail_nomem(a->err);
}

/* Children of the node become children of its parent, at its place; the siblings behind make
 * room where there is too little. */
static enum esp_status move_up(struct edit *e, struct esp_str parent, struct row *row,
                               const struct graph_sources *children) {
    uint32_t behind = row->at + 1, n = 0;
    int64_t next = behind < row->all.count ? esp_edge_rank(row->all.gsi0[behind]) : -1, step = 0;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; i < children->count; i++) {
        n += !esp_edge_set_find(&touched(e, children->key[i])->node.set, e->tree, parent);
    }
    if (n > 0) {
        step = next < 0 ? GRAPH_RANK_STEP : (next - row->rank) / n;
        step = step < 1 ? 1 : step;
    }
    for (uint32_t i = 0; status == ESP_OK && i < children->count; i++) {
        struct touched *child = touched(e, children->key[i]);
        struct esp_str gsi0;
        if (esp_edge_set_find(&child->node.set, e->tree, parent)) {
            continue; /* it is below both */
        }
        status = rank_text(e, row->rank, &gsi0);
        if (status == ESP_OK) {
            status = put_edge(e, child, e->tree, parent, gsi0, (struct esp_data){NULL, 0, 0});
        }
        row->rank += step;
    }
    int64_t last = row->rank - step;
    for (uint32_t i = behind;
         status == ESP_OK && n > 0 && i < row->all.count && esp_edge_rank(row->all.gsi0[i]) <= last;
         i++) {
        struct esp_str gsi0;
        status = rank_text(e, ++last, &gsi0);
        if (status == ESP_OK) {
            status = touch(e, &row->all.key[i], 1, e->tree);
        }
        if (status == ESP_OK) {
            status = rank_edge(e, touched(e, row->all.key[i]), parent, gsi0);
        }
    }
    return status;
}

static enum esp_status promote_to(struct edit *e, struct esp_str node, struct esp_str parent,
                                  const struct graph_sources *children) {
    struct esp_edge *edge = esp_edge_set_find(&touched(e, node)->node.set, e->tree, parent);
    struct row row;
    enum esp_status status = read_row(e, node, parent, edge->gsi0, &row);
    return status == ESP_OK ? move_up(e, parent, &row, children) : status;
}

enum esp_status graph_op_promote(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct edit e;
    struct graph_sources children = {.count = 0};
    struct graph_place place = {.parent_count = 0};
    struct esp_str at;
    edit_init(&e, a);
    enum esp_status status = key_of(a, args->at.id, &at);
    if (status == ESP_OK) {
        status = touch(&e, &at, 1, every_type);
    }
    if (status == ESP_OK && !e.node[0].node.found) {
        return esp_access_missing(a, args->at.id);
    }
    if (status == ESP_OK) {
        status = graph_parents(a->layout, &e.node[0].node.set, a->scratch, &place);
    }
    if (status == ESP_OK) {
        status = graph_sources(a, e.tree, at, no_type, &children);
    }
    if (status == ESP_OK && place.parent_count == 0 && children.count) {
        return esp_access_root_has_children(a, args->at.id);
    }
    if (status == ESP_OK) {
        status = touch(&e, children.key, children.count, e.tree);
    }
    for (uint32_t i = 0; status == ESP_OK && i < place.parent_count; i++) {
        status = promote_to(&e, at, place.parent[i], &children);
    }
    for (uint32_t i = 0; status == ESP_OK && i < children.count; i++) {
        status = delete_edge(&e, touched(&e, children.key[i]), e.tree, at);
    }
    if (status == ESP_OK) {
        status = remove_node(&e, touched(&e, at));
    }
    if (status == ESP_OK) {
        status = drop_incoming(&e);
    }
    status = status == ESP_OK ? edit_run(&e) : status;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}
