/*
 * replica: a closure table whose rows carry the payload.  A node at depth d becomes d + 1
 * items: one for itself (relative depth 0) and one for each ancestor at its distance.
 *
 * Any window of levels below a node is one query that reads nothing else, by id: no look-up is
 * needed.  Writes pay for it: an update changes every copy, a move replaces, for every node of
 * the subtree, the rows that point above the moved node.
 */
#include "converters/check.h"
#include "converters/paging.h"
#include "converters/validate.h"

#include <stdio.h>
#include <stdlib.h>

enum { ID, DISTANCE, ANCESTOR, ATTR_COUNT };
enum { BY_ANCESTOR }; /* position of the index */

struct chain_key {
    const struct esp_str *above; /* ids of the ancestors, parent first */
    uint32_t count;              /* the node's depth */
};

/* --- bulk conversion -------------------------------------------------------------- */

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    (void)l;
    uint64_t count = n;
    for (esp_node v = first; v < first + n; v++) {
        count += f->depth[v];
    }
    return count;
}

/* The ids of v's ancestors into above[0 .. depth), root first. */
static void ancestors_of(const struct esp_forest *f, esp_node v, struct esp_str *above) {
    for (uint32_t i = f->depth[v]; i-- > 0;) {
        v = f->parent[v];
        above[i] = esp_forest_id(f, v);
    }
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    (void)l;
    struct esp_item item = {0};
    struct esp_str *way = esp_arena_alloc(scratch, ((size_t)f->depth_max + 1) * sizeof *way);
    if (!way) {
        return ESP_ERR_NOMEM;
    }
    if (n) {
        ancestors_of(f, first, way);
    }
    item.value[ANCESTOR].type = ESP_TYPE_S;
    item.value[DISTANCE] = esp_n(0);
    for (esp_node v = first; v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        uint32_t depth = f->depth[v];
        way[depth] = esp_forest_id(f, v);
        item.value[ID] = esp_s(way[depth]);
        item.data = esp_forest_data(f, v);
        for (uint32_t distance = 0; distance <= depth; distance++) {
            item.value[DISTANCE].n = distance;
            item.value[ANCESTOR].s = way[depth - distance];
            enum esp_status status = fn(ctx, &item);
            if (status != ESP_OK) {
                return status;
            }
        }
    }
    return ESP_OK;
}

/* --- naming nodes ----------------------------------------------------------------- */

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    (void)l;
    uint32_t depth = f->depth[v];
    struct chain_key *key = esp_arena_calloc(arena, 1, sizeof *key);
    struct esp_str *above = esp_arena_calloc(arena, (size_t)depth + 1, sizeof *above);
    if (!key || !above) {
        return ESP_ERR_NOMEM;
    }
    esp_node parent = f->parent[v];
    for (uint32_t i = 0; i < depth; i++, parent = f->parent[parent]) {
        above[i] = esp_forest_id(f, parent);
    }
    *key = (struct chain_key){above, depth};
    *out = (struct esp_locator){esp_forest_id(f, v), key};
    return ESP_OK;
}

/* The chain that a node's own rows tell, which are sorted by distance. */
static enum esp_status chain_of(struct esp_access *a, const struct esp_item *row, uint32_t count,
                                struct chain_key *key) {
    struct esp_str *above = esp_arena_calloc(a->scratch, (size_t)count + 1, sizeof *above);
    if (!above) {
        return esp_fail_nomem(a->err);
    }
    *key = (struct chain_key){above, 0};
    for (uint32_t i = 0; i < count; i++) {
        struct esp_str id = esp_item_text(&row[i], ANCESTOR);
        if (esp_item_number(&row[i], DISTANCE, 0) > 0 && id.ptr) {
            above[key->count++] = id;
        }
    }
    return ESP_OK;
}

/* All rows of a node; ERR_NOT_FOUND without the one for itself. */
static enum esp_status read_rows(struct esp_access *a, struct esp_str id,
                                 struct esp_item_list *rows) {
    struct esp_query q = {
        .index = ESP_PRIMARY, .pk = esp_s(id), .op = ESP_ANY, .consistent = a->consistent};
    esp_item_list_init(rows, a);
    enum esp_status status = esp_session_query(a->session, &q, esp_item_list_add, rows, a->err);
    bool there = rows->count && esp_item_number(&rows->item[0], DISTANCE, -1) == 0;
    return status == ESP_OK && !there ? esp_access_missing(a, id) : status;
}

static enum esp_status key_at(struct esp_access *a, const struct esp_locator *at,
                              struct chain_key *key) {
    struct esp_item_list rows;
    if (at->key) {
        *key = *(const struct chain_key *)at->key;
        return ESP_OK;
    }
    enum esp_status status = read_rows(a, at->id, &rows);
    return status == ESP_OK ? chain_of(a, rows.item, rows.count, key) : status;
}

static enum esp_status resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    struct chain_key *key = esp_arena_alloc(a->scratch, sizeof *key);
    *out = (struct esp_locator){.id = esp_arena_dup(a->scratch, id)};
    if (!key || !out->id.ptr) {
        return esp_fail_nomem(a->err);
    }
    enum esp_status status = key_at(a, out, key);
    out->key = status == ESP_OK ? key : NULL;
    return status;
}

/* A row says nothing of the node's depth and parent, unless its distance is 1. */
static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    (void)l;
    *out = (struct esp_node_view){.id = esp_item_text(item, ID), .depth = -1, .data = item->data};
    return out->id.ptr && esp_item_number(item, DISTANCE, -1) == 0;
}

/* The row at distance 1 names the parent. */
static enum esp_relation relation(const struct esp_layout *l, const struct esp_item *item,
                                  struct esp_node_view *out) {
    (void)l;
    *out = (struct esp_node_view){
        .id = esp_item_text(item, ID), .parent_id = esp_item_text(item, ANCESTOR), .depth = -1};
    return out->id.ptr && out->parent_id.ptr && esp_item_number(item, DISTANCE, -1) == 1
               ? ESP_RELATION_OWN
               : ESP_RELATION_NONE;
}

static bool copy(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    (void)l;
    *out = (struct esp_node_view){.id = esp_item_text(item, ID),
                                  .depth = -1,
                                  .order = esp_item_number(item, DISTANCE, -1),
                                  .data = item->data};
    return out->id.ptr && out->order > 0;
}

/* --- reads ------------------------------------------------------------------------ */

/* Rows of a query on one ancestor, passed on as nodes with what is known of them. */
struct row_sink {
    struct esp_access *access;
    esp_node_fn *fn;
    void *ctx;
    const struct chain_key *key; /* of the ancestor; NULL: not known */
    struct esp_str skip;
    uint64_t count;
};

static enum esp_status row_sink_add(void *ctx, const struct esp_item *row) {
    struct row_sink *sink = ctx;
    int64_t distance = esp_item_number(row, DISTANCE, 0);
    struct esp_node_view node = {.id = esp_item_text(row, ID), .depth = -1, .data = row->data};
    sink->count++;
    if (sink->key) {
        node.depth = sink->key->count + distance;
    }
    if (distance == 1) {
        node.parent_id = esp_item_text(row, ANCESTOR);
    } else if (distance == 0 && sink->key) {
        node.parent_id = sink->key->count ? sink->key->above[0] : (struct esp_str){"", 0};
    }
    return sink->skip.ptr && esp_str_eq(sink->skip, node.id) ? ESP_OK : sink->fn(sink->ctx, &node);
}

/* The rows whose distance to `id` lies in the window; hi == UINT32_MAX: no end. */
static struct esp_query window_query(struct esp_str id, uint32_t lo, uint32_t hi) {
    return (struct esp_query){
        .index = BY_ANCESTOR,
        .pk = esp_s(id),
        .op = hi == UINT32_MAX ? ESP_GE
              : lo == hi       ? ESP_EQ
                               : ESP_BETWEEN,
        .lo = esp_n(lo),
        .hi = esp_n(hi),
    };
}

static enum esp_status window_of(struct esp_access *a, const struct esp_locator *at,
                                 const struct chain_key *key, uint32_t lo, uint32_t hi,
                                 esp_node_fn *fn, void *ctx) {
    struct row_sink sink = {.access = a, .fn = fn, .ctx = ctx, .key = key};
    struct esp_query q = window_query(at->id, lo, hi);
    bool earlier;
    enum esp_status status = esp_paging_query(a, &q, row_sink_add, &sink, fn, ctx, &earlier);
    /* Only an empty answer leaves open whether the node is there. */
    return status == ESP_OK && sink.count == 0 && !earlier && !at->key
               ? esp_access_exists(a, at->id)
               : status;
}

static enum esp_status op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    return window_of(a, &args->at, args->at.key, args->lo, args->hi, fn, ctx);
}

static enum esp_status op_children(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    return window_of(a, &args->at, args->at.key, 1, 1, fn, ctx);
}

static enum esp_status op_descendants(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    return window_of(a, &args->at, args->at.key, 1, UINT32_MAX, fn, ctx);
}

static const struct chain_key root_key = {NULL, 0};

static enum esp_status op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    return window_of(a, &args->at, &root_key, args->lo, args->lo, fn, ctx);
}

static enum esp_status op_node(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct row_sink sink = {.access = a, .fn = fn, .ctx = ctx, .key = args->at.key};
    struct esp_item row;
    enum esp_status status = esp_access_get(a, args->at.id, &row);
    return status == ESP_OK ? row_sink_add(&sink, &row) : status;
}

/* The id of the parent from the first two rows of a node; empty for a root. */
static enum esp_status find_parent(struct esp_access *a, const struct esp_locator *at,
                                   struct esp_str *parent) {
    const struct chain_key *key = at->key;
    struct esp_item_list rows;
    struct esp_query q = {.index = ESP_PRIMARY,
                          .pk = esp_s(at->id),
                          .op = ESP_LE,
                          .lo = esp_n(1),
                          .consistent = a->consistent};
    *parent = (struct esp_str){"", 0};
    if (key) {
        *parent = key->count ? key->above[0] : *parent;
        return ESP_OK;
    }
    esp_item_list_init(&rows, a);
    enum esp_status status = esp_session_query(a->session, &q, esp_item_list_add, &rows, a->err);
    if (status == ESP_OK && rows.count == 0) {
        return esp_access_missing(a, at->id);
    }
    if (status == ESP_OK && rows.count == 2) {
        *parent = esp_item_text(&rows.item[1], ANCESTOR);
    }
    return status;
}

static enum esp_status op_parent(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct esp_args up = {.at = {{0}, NULL}};
    enum esp_status status = find_parent(a, &args->at, &up.at.id);
    return status == ESP_OK && up.at.id.len ? op_node(a, &up, fn, ctx) : status;
}

static enum esp_status op_siblings(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct row_sink sink = {.access = a, .fn = fn, .ctx = ctx, .skip = args->at.id};
    struct esp_str parent;
    enum esp_status status = find_parent(a, &args->at, &parent);
    struct esp_query q = window_query(parent, 1, 1);
    return status == ESP_OK && parent.len
               ? esp_paging_query(a, &q, row_sink_add, &sink, fn, ctx, NULL)
               : status;
}

/* Ancestors come root first, so depth and parent follow from the order. */
struct ancestor_sink {
    const struct esp_str *id; /* root first */
    size_t count, at;
    esp_node_fn *fn;
    void *ctx;
};

static enum esp_status ancestor_sink_add(void *ctx, const struct esp_node_view *node) {
    struct ancestor_sink *sink = ctx;
    struct esp_node_view full = *node;
    while (sink->at < sink->count && !esp_str_eq(sink->id[sink->at], node->id)) {
        sink->at++;
    }
    full.depth = (int64_t)sink->at;
    full.parent_id = sink->at ? sink->id[sink->at - 1] : (struct esp_str){"", 0};
    return sink->fn(sink->ctx, &full);
}

static enum esp_status op_ancestors(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct chain_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_str *way = esp_arena_calloc(a->scratch, (size_t)key.count + 1, sizeof *way);
    if (!way) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; i < key.count; i++) {
        way[i] = key.above[key.count - 1 - i];
    }
    struct ancestor_sink sink = {.id = way, .count = key.count, .fn = fn, .ctx = ctx};
    return esp_access_get_ordered(a, way, key.count, ancestor_sink_add, &sink);
}

static bool chain_has(const struct chain_key *key, struct esp_str id) {
    for (uint32_t i = 0; i < key->count; i++) {
        if (esp_str_eq(key->above[i], id)) {
            return true;
        }
    }
    return false;
}

static enum esp_status op_is_descendant(struct esp_access *a, const struct esp_args *args,
                                        esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct chain_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    a->value = status == ESP_OK && chain_has(&key, args->to.id);
    return status == ESP_OK && !a->value && !args->to.key ? esp_access_exists(a, args->to.id)
                                                          : status;
}

/* Whose child each row's node is: the row at distance 1 says so, one get for each node that
 * is not a child of the ancestor asked for. */
struct parents {
    struct esp_arena *arena;
    struct esp_idmap ids;   /* nodes, then their parents too */
    struct esp_str *parent; /* by row; len 0: the root itself, or not found */
};

static enum esp_status parents_add(void *ctx, const struct esp_item *row) {
    struct parents *p = ctx;
    uint32_t at = esp_idmap_find(&p->ids, esp_item_text(row, ID));
    if (at == ESP_IDMAP_NONE) {
        return ESP_OK;
    }
    p->parent[at] = esp_arena_dup(p->arena, esp_item_text(row, ANCESTOR));
    return p->parent[at].ptr ? ESP_OK : ESP_ERR_NOMEM;
}

static enum esp_status read_parents(struct esp_access *a, const struct esp_item *row, size_t n,
                                    struct esp_arena *arena, struct parents *p) {
    struct esp_item *keys = esp_arena_calloc(arena, n + 1, sizeof *keys);
    size_t key_count = 0;
    *p = (struct parents){.arena = arena,
                          .parent = esp_arena_calloc(arena, n + 1, sizeof *p->parent)};
    esp_idmap_init(&p->ids, arena);
    enum esp_status status = keys && p->parent ? ESP_OK : ESP_ERR_NOMEM;
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        uint32_t number;
        int64_t distance = esp_item_number(&row[i], DISTANCE, 0);
        status = esp_idmap_intern(&p->ids, esp_item_text(&row[i], ID), &number);
        if (status == ESP_OK && distance == 1) {
            p->parent[number] = esp_item_text(&row[i], ANCESTOR);
        } else if (status == ESP_OK && distance > 1) {
            keys[key_count++] = esp_item_key(&a->layout->schema, esp_item_text(&row[i], ID), 1);
        }
    }
    return status == ESP_OK && key_count
               ? esp_session_get(a->session, keys, key_count, a->consistent, parents_add, p, a->err)
               : status;
}

/* Rows as nodes of a tree: with depth and parent. */
struct tree_page {
    struct esp_access *access;
    esp_node_fn *fn;
    void *ctx;
    uint64_t count;
};

static enum esp_status tree_page(void *ctx, struct esp_item *rows, size_t n,
                                 struct esp_arena *arena) {
    struct tree_page *page = ctx;
    struct parents parents;
    enum esp_status status = read_parents(page->access, rows, n, arena, &parents);
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        struct esp_str parent = parents.parent[i];
        struct esp_node_view node = {
            .id = esp_item_text(&rows[i], ID),
            .parent_id = parent.ptr ? parent : (struct esp_str){"", 0},
            .depth = esp_item_number(&rows[i], DISTANCE, -1),
            .data = rows[i].data,
        };
        page->count++;
        status = page->fn(page->ctx, &node);
    }
    return status;
}

static enum esp_status op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct tree_page page = {.access = a, .fn = fn, .ctx = ctx};
    struct esp_query q = window_query(args->at.id, 0, UINT32_MAX);
    enum esp_status status = esp_access_pages(a, &q, tree_page, &page);
    return status == ESP_OK && page.count == 0 && !args->at.key ? esp_access_missing(a, args->at.id)
                                                                : status;
}

static enum esp_status op_leaves(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct row_sink sink = {.access = a, .fn = fn, .ctx = ctx, .key = args->at.key};
    struct esp_query q = window_query(args->at.id, 1, UINT32_MAX);
    struct esp_item_list rows;
    struct parents parents;
    struct esp_idmap inner;
    uint32_t number;
    esp_item_list_init(&rows, a);
    esp_idmap_init(&inner, a->scratch);
    enum esp_status status = esp_session_query(a->session, &q, esp_item_list_add, &rows, a->err);
    if (status == ESP_OK && rows.count == 0 && !args->at.key) {
        return esp_access_exists(a, args->at.id);
    }
    if (status == ESP_OK) {
        status = read_parents(a, rows.item, rows.count, a->scratch, &parents);
    }
    for (uint32_t i = 0; status == ESP_OK && i < rows.count; i++) {
        status = esp_idmap_intern(&inner, parents.parent[i], &number);
    }
    for (uint32_t i = 0; status == ESP_OK && i < rows.count; i++) {
        if (esp_idmap_find(&inner, esp_item_text(&rows.item[i], ID)) == ESP_IDMAP_NONE) {
            status = row_sink_add(&sink, &rows.item[i]);
        }
    }
    return status;
}

/* A root has a row at distance 0 and none at 1.  A scan gives the rows of one id together and
 * in order, so one node is kept until the next row decides. */
struct root_sink {
    struct esp_access *access;
    struct esp_arena arena; /* of `row` */
    struct esp_item row;
    bool pending;
    esp_node_fn *fn;
    void *ctx;
};

static enum esp_status root_sink_flush(struct root_sink *sink) {
    struct row_sink out = {
        .access = sink->access, .fn = sink->fn, .ctx = sink->ctx, .key = &root_key};
    bool pending = sink->pending;
    sink->pending = false;
    return pending ? row_sink_add(&out, &sink->row) : ESP_OK;
}

static enum esp_status root_sink_add(void *ctx, const struct esp_item *row) {
    struct root_sink *sink = ctx;
    if (esp_item_reserved(&sink->access->layout->schema, row)) {
        return ESP_OK;
    }
    if (esp_item_number(row, DISTANCE, 0) == 1) {
        sink->pending =
            sink->pending && !esp_str_eq(esp_item_text(row, ID), esp_item_text(&sink->row, ID));
        return ESP_OK;
    }
    enum esp_status status = root_sink_flush(sink);
    esp_arena_reset(&sink->arena);
    if (status == ESP_OK) {
        status = esp_item_dup(&sink->access->layout->schema, &sink->arena, row, &sink->row);
        sink->pending = status == ESP_OK;
    }
    return status;
}

static enum esp_status op_roots(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    (void)args;
    struct esp_condition filter = {
        .name = a->layout->schema.attr[DISTANCE].name, .op = ESP_LE, .lo = esp_n(1)};
    struct esp_scan scan = {
        .index = ESP_PRIMARY, .filter = &filter, .filter_count = 1, .consistent = a->consistent};
    struct root_sink sink = {.access = a, .fn = fn, .ctx = ctx};
    esp_arena_init(&sink.arena, a->session->table->store->alloc, SIZE_MAX);
    enum esp_status status = esp_session_scan(a->session, &scan, root_sink_add, &sink, a->err);
    if (status == ESP_OK) {
        status = root_sink_flush(&sink);
    }
    esp_arena_fini(&sink.arena);
    return status;
}

/* --- writes ----------------------------------------------------------------------- */

static struct esp_item make_row(struct esp_str id, int64_t distance, struct esp_str ancestor,
                                struct esp_data data) {
    struct esp_item row = {.data = data};
    row.value[ID] = esp_s(id);
    row.value[DISTANCE] = esp_n(distance);
    row.value[ANCESTOR] = esp_s(ancestor);
    return row;
}

static enum esp_status rely_on_rows(struct esp_access *a, const struct esp_item_list *rows) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < rows->count; i++) {
        status = esp_access_rely(a, &rows->item[i]);
    }
    return status;
}

/* The chain of a new parent; what is written follows from all of its rows. */
static enum esp_status look_up_parent(struct esp_access *a, const struct esp_locator *to,
                                      struct chain_key *key) {
    struct esp_item_list rows;
    if (to->key || to->id.len == 0) {
        *key = to->key ? *(const struct chain_key *)to->key : root_key;
        return ESP_OK;
    }
    enum esp_status status = read_rows(a, to->id, &rows);
    if (status == ESP_OK) {
        status = rely_on_rows(a, &rows);
    }
    return status == ESP_OK ? chain_of(a, rows.item, rows.count, key) : status;
}

/* The row for the node itself is put first, because it finds out whether the id is new; until
 * the others are there the node is a root of its own. */
static enum esp_status op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct chain_key parent = {0};
    struct esp_writes writes;
    bool root = args->to.id.len == 0;
    enum esp_status status = look_up_parent(a, &args->to, &parent);
    uint32_t copies = root ? 0 : parent.count + 1;
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, copies);
    }
    for (uint32_t i = 0; status == ESP_OK && i < copies; i++) {
        struct esp_str above = i ? parent.above[i - 1] : args->to.id;
        struct esp_item row = make_row(args->id, i + 1, above, args->data);
        status = esp_access_check_insert(a, &row);
    }
    if (status == ESP_OK) {
        struct esp_item row = make_row(args->id, 0, args->id, args->data);
        status = esp_access_insert(a, &row, args->id);
    }
    for (uint32_t i = 0; status == ESP_OK && i < copies; i++) {
        struct esp_str above = i ? parent.above[i - 1] : args->to.id;
        struct esp_write write = {.kind = ESP_PUT,
                                  .item = make_row(args->id, i + 1, above, args->data)};
        status = esp_writes_add(&writes, &write);
    }
    return status == ESP_OK ? esp_writes_flush(&writes) : status;
}

static enum esp_status op_update(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    const struct chain_key *key = args->at.key;
    struct esp_item_list rows = {0};
    struct esp_change *changes;
    struct esp_writes writes;
    size_t count;
    enum esp_status status = esp_access_changes(a, args, &changes, &count);
    if (status == ESP_OK && !key) {
        status = read_rows(a, args->at.id, &rows);
    }
    uint32_t copies = key ? key->count + 1 : rows.count;
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, copies);
    }
    for (uint32_t i = 0; status == ESP_OK && i < copies; i++) {
        struct esp_write write = {
            .kind = ESP_UPDATE,
            .item = key ? esp_item_key(&a->layout->schema, args->at.id, i) : rows.item[i],
            .changes = changes,
            .change_count = count,
            .condition = &writes.exists,
            .condition_count = 1,
            .old = key ? NULL : &rows.item[i],
        };
        status = esp_writes_add(&writes, &write);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

/* Rows of a subtree (those that point to its top) and what becomes of the rows above it. */
struct move {
    struct esp_access *access;
    struct esp_writes writes;
    struct chain_key from, to; /* ancestors of the top, now and then */
    struct esp_item_list own;  /* rows of the top itself, if they were looked up */
    struct esp_item top;       /* the one for itself */
    bool found;                /* `top` is set */
};

/* A copy for `old` that lives as long as the page does. */
static const struct esp_item *keep_row(struct esp_arena *arena, struct esp_item row) {
    struct esp_item *kept = esp_arena_alloc(arena, sizeof *kept);
    if (kept) {
        *kept = row;
    }
    return kept;
}

/* Put rows whose ancestor changes; the payload is that of the row that was read. */
static enum esp_status put_rows(struct move *m, const struct esp_item *row,
                                struct esp_arena *arena) {
    struct esp_str id = esp_item_text(row, ID);
    int64_t distance = esp_item_number(row, DISTANCE, 0) + 1;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < m->to.count; i++) {
        bool had = i < m->from.count;
        if (had && esp_str_eq(m->from.above[i], m->to.above[i])) {
            continue;
        }
        struct esp_write write = {.kind = ESP_PUT,
                                  .item = make_row(id, distance + i, m->to.above[i], row->data)};
        if (had) {
            write.old = keep_row(arena, make_row(id, distance + i, m->from.above[i], row->data));
        }
        status = esp_writes_add(&m->writes, &write);
    }
    return status;
}

/* Delete rows beyond the new root. */
static enum esp_status delete_rows(struct move *m, const struct esp_item *row,
                                   struct esp_arena *arena) {
    struct esp_str id = esp_item_text(row, ID);
    int64_t distance = esp_item_number(row, DISTANCE, 0) + 1;
    enum esp_status status = ESP_OK;
    for (uint32_t i = m->from.count; status == ESP_OK && i-- > m->to.count;) {
        struct esp_item old = make_row(id, distance + i, m->from.above[i], row->data);
        struct esp_write write = {.kind = ESP_DELETE, .item = old, .old = keep_row(arena, old)};
        status = esp_writes_add(&m->writes, &write);
    }
    return status;
}

/* The rows of the descendants; the top's wait until all of these are acknowledged. */
static enum esp_status move_page(void *ctx, struct esp_item *rows, size_t n,
                                 struct esp_arena *arena) {
    struct move *m = ctx;
    const struct esp_schema *schema = &m->access->layout->schema;
    enum esp_status status = ESP_OK;
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        if (esp_item_number(&rows[i], DISTANCE, -1) == 0) {
            m->found = true;
            status = esp_item_dup(schema, m->access->scratch, &rows[i], &m->top);
        } else {
            status = put_rows(m, &rows[i], arena);
        }
    }
    if (status == ESP_OK) { /* everything is there in its new place before any row goes */
        status = esp_writes_flush(&m->writes);
    }
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        if (esp_item_number(&rows[i], DISTANCE, -1) != 0) {
            status = delete_rows(m, &rows[i], arena);
        }
    }
    return status == ESP_OK ? esp_writes_flush(&m->writes) : status;
}

/* The rows of the top, after all others: as long as they are not those of the new place, the
 * same move does everything again.  What goes is what was read, because a torn move may have
 * left holes in it, or what the key tells. */
static enum esp_status move_top(struct move *m, bool by_key) {
    struct esp_arena *arena = m->access->scratch;
    enum esp_status status = put_rows(m, &m->top, arena);
    if (status == ESP_OK) {
        status = esp_writes_flush(&m->writes);
    }
    if (status == ESP_OK && by_key) {
        status = delete_rows(m, &m->top, arena);
    }
    /* The row that names the parent goes last: until then the others can be brought back. */
    for (uint32_t i = m->own.count; status == ESP_OK && i-- > 0;) {
        const struct esp_item *row = &m->own.item[i];
        struct esp_write write = {.kind = ESP_DELETE, .item = *row, .old = row};
        if (esp_item_number(row, DISTANCE, 0) > (int64_t)m->to.count) {
            status = esp_writes_add(&m->writes, &write);
        }
    }
    return status == ESP_OK ? esp_writes_flush(&m->writes) : status;
}

static bool chain_eq(const struct chain_key *a, const struct chain_key *b) {
    bool equal = a->count == b->count;
    for (uint32_t i = 0; equal && i < a->count; i++) {
        equal = esp_str_eq(a->above[i], b->above[i]);
    }
    return equal;
}

/* The chains of both nodes, looked up in one round trip where they must be; then *own are the
 * rows of the first. */
static enum esp_status two_chains(struct esp_access *a, const struct esp_args *args,
                                  struct chain_key *at, struct chain_key *to,
                                  struct esp_item_list *own) {
    struct esp_query q[2];
    struct esp_item_list rows, part[2];
    size_t n = 0;
    const struct esp_locator *node[2] = {&args->at, &args->to};
    struct chain_key *key[2] = {at, to};
    esp_item_list_init(&rows, a);
    for (size_t i = 0; i < 2; i++) {
        esp_item_list_init(&part[i], a);
        if (node[i]->key) {
            *key[i] = *(const struct chain_key *)node[i]->key;
        } else if (node[i]->id.len && !(n && esp_str_eq(node[i]->id, node[0]->id))) {
            q[n++] = (struct esp_query){.index = ESP_PRIMARY,
                                        .pk = esp_s(node[i]->id),
                                        .op = ESP_ANY,
                                        .consistent = a->consistent};
        }
    }
    enum esp_status status =
        n ? esp_session_query_many(a->session, q, n, esp_item_list_add, &rows, a->err) : ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < rows.count; i++) {
        bool first = esp_str_eq(esp_item_text(&rows.item[i], ID), args->at.id);
        status = esp_item_list_add(&part[first ? 0 : 1], &rows.item[i]);
    }
    *own = part[0];
    if (status == ESP_OK) {
        status = rely_on_rows(a, &part[1]);
    }
    for (size_t i = 0; status == ESP_OK && i < 2; i++) {
        bool same = i == 1 && esp_str_eq(args->to.id, args->at.id);
        if (node[i]->key || node[i]->id.len == 0 || same) {
            continue;
        }
        status = part[i].count ? chain_of(a, part[i].item, part[i].count, key[i])
                               : esp_access_missing(a, node[i]->id);
    }
    return status;
}

static enum esp_status op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct move m = {.access = a};
    struct chain_key parent = {0};
    bool to_root = args->to.id.len == 0;
    enum esp_status status = two_chains(a, args, &m.from, &parent, &m.own);
    if (status != ESP_OK) {
        return status;
    }
    if (!to_root && (esp_str_eq(args->at.id, args->to.id) || chain_has(&parent, args->at.id))) {
        return esp_fail(a->err, ESP_ERR_CYCLE,
                        "'%.*s' cannot move below itself: '%.*s' is in its subtree",
                        ESP_FMT(args->at.id), ESP_FMT(args->to.id));
    }
    if (!to_root) {
        struct esp_str *above =
            esp_arena_calloc(a->scratch, (size_t)parent.count + 1, sizeof *above);
        if (!above) {
            return esp_fail_nomem(a->err);
        }
        above[0] = args->to.id;
        for (uint32_t i = 0; i < parent.count; i++) {
            above[i + 1] = parent.above[i];
        }
        m.to = (struct chain_key){above, parent.count + 1};
    }
    if (chain_eq(&m.from, &m.to)) {
        return ESP_OK; /* it is there already */
    }
    struct esp_query q = window_query(args->at.id, 0, UINT32_MAX);
    status = esp_writes_init(&m.writes, a, ESP_WRITES_MAX);
    if (status == ESP_OK) {
        status = esp_access_pages(a, &q, move_page, &m);
    }
    if (status == ESP_OK && !m.found) {
        status = esp_access_missing(a, args->at.id);
    }
    return status == ESP_OK ? move_top(&m, args->at.key != NULL) : status;
}

/* Of each node on the page: first the rows by which it is not found from the top, then the
 * one by which it is, so that a torn remove can be repeated. */
static enum esp_status remove_page(void *ctx, struct esp_item *rows, size_t n,
                                   struct esp_arena *arena) {
    struct move *m = ctx;
    enum esp_status status = ESP_OK;
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        struct esp_str id = esp_item_text(&rows[i], ID);
        int64_t distance = esp_item_number(&rows[i], DISTANCE, 0);
        for (int64_t k = 0; status == ESP_OK && k < distance; k++) {
            struct esp_write write = {.kind = ESP_DELETE,
                                      .item = esp_item_key(&m->access->layout->schema, id, k)};
            if (k == 0) {
                write.old = keep_row(arena, make_row(id, 0, id, rows[i].data));
            }
            status = esp_writes_add(&m->writes, &write);
        }
        if (status == ESP_OK) {
            status = delete_rows(m, &rows[i], arena);
        }
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&m->writes);
    }
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        struct esp_write write = {.kind = ESP_DELETE, .item = rows[i], .old = &rows[i]};
        status = esp_writes_add(&m->writes, &write);
    }
    return status == ESP_OK ? esp_writes_flush(&m->writes) : status;
}

/* The node's own rows but the one for itself, the parent's last: as read, because a torn remove
 * may have taken some already, or as the key tells. */
static enum esp_status remove_own_rows(struct move *m, struct esp_str id,
                                       const struct esp_item_list *rows) {
    const struct esp_schema *schema = &m->access->layout->schema;
    enum esp_status status = ESP_OK;
    for (uint32_t i = rows ? rows->count : 0; status == ESP_OK && i-- > 0;) {
        struct esp_write write = {.kind = ESP_DELETE, .item = rows->item[i], .old = &rows->item[i]};
        if (esp_item_number(&rows->item[i], DISTANCE, 0) > 0) {
            status = esp_writes_add(&m->writes, &write);
        }
    }
    for (uint32_t i = rows ? 0 : m->from.count; status == ESP_OK && i > 0; i--) {
        struct esp_write write = {.kind = ESP_DELETE, .item = esp_item_key(schema, id, i)};
        status = esp_writes_add(&m->writes, &write);
    }
    return status == ESP_OK ? esp_writes_flush(&m->writes) : status;
}

/* The chain of the node that goes, and its rows where they must be looked up. */
static enum esp_status look_up_own(struct esp_access *a, const struct esp_locator *at,
                                   struct chain_key *from, struct esp_item_list *rows) {
    if (at->key) {
        *from = *(const struct chain_key *)at->key;
        return ESP_OK;
    }
    enum esp_status status = read_rows(a, at->id, rows);
    return status == ESP_OK ? chain_of(a, rows->item, rows->count, from) : status;
}

static enum esp_status remove_node(struct move *m, const struct esp_locator *at,
                                   const struct esp_item_list *rows) {
    enum esp_status status = remove_own_rows(m, at->id, at->key ? NULL : rows);
    return status == ESP_OK
               ? esp_access_delete(m->access, NULL, at->id, at->key ? NULL : &rows->item[0])
               : status;
}

static enum esp_status op_remove(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct move m = {.access = a};
    struct esp_item_list rows = {0};
    struct esp_query q = window_query(args->at.id, 1, UINT32_MAX);
    enum esp_status status = look_up_own(a, &args->at, &m.from, &rows);
    if (status == ESP_OK) {
        status = esp_writes_init(&m.writes, a, ESP_WRITES_MAX);
    }
    if (status == ESP_OK) {
        status = esp_access_pages(a, &q, remove_page, &m);
    }
    return status == ESP_OK ? remove_node(&m, &args->at, &rows) : status;
}

/* Of each node below: what was i above the promoted node's parent is now one nearer.  The last
 * row goes when all of them are there in their new places. */
static enum esp_status promote_page(void *ctx, struct esp_item *rows, size_t n,
                                    struct esp_arena *arena) {
    struct move *m = ctx;
    const struct chain_key *from = &m->from;
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < n; i++) {
        struct esp_str id = esp_item_text(&rows[i], ID), there = esp_item_text(&rows[i], ANCESTOR);
        int64_t distance = esp_item_number(&rows[i], DISTANCE, 0);
        for (uint32_t k = 0; status == ESP_OK && k < from->count; k++) {
            struct esp_data data = rows[i].data;
            struct esp_write write = {
                .kind = ESP_PUT,
                .item = make_row(id, distance + k, from->above[k], data),
                .old = keep_row(arena, make_row(id, distance + k, there, data)),
            };
            there = from->above[k];
            status = esp_writes_add(&m->writes, &write);
        }
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&m->writes);
    }
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        struct esp_item old = make_row(esp_item_text(&rows[i], ID),
                                       esp_item_number(&rows[i], DISTANCE, 0) + from->count,
                                       from->above[from->count - 1], rows[i].data);
        struct esp_write write = {.kind = ESP_DELETE, .item = old, .old = keep_row(arena, old)};
        status = esp_writes_add(&m->writes, &write);
    }
    return status == ESP_OK ? esp_writes_flush(&m->writes) : status;
}

static enum esp_status refuse_page(void *ctx, struct esp_item *rows, size_t n,
                                   struct esp_arena *arena) {
    struct move *m = ctx;
    (void)n, (void)arena;
    return esp_access_root_has_children(m->access, esp_item_text(&rows[0], ANCESTOR));
}

static enum esp_status op_promote(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct move m = {.access = a};
    struct esp_item_list rows = {0};
    struct esp_query q = window_query(args->at.id, 1, UINT32_MAX);
    enum esp_status status = look_up_own(a, &args->at, &m.from, &rows);
    if (status == ESP_OK) {
        status = esp_writes_init(&m.writes, a, ESP_WRITES_MAX);
    }
    if (status == ESP_OK) {
        status = esp_access_pages(a, &q, m.from.count ? promote_page : refuse_page, &m);
    }
    return status == ESP_OK ? remove_node(&m, &args->at, &rows) : status;
}

/* --- check ------------------------------------------------------------------------ */

struct record {
    bool present; /* has a row for itself */
    bool seen;
    uint64_t payload;      /* digest of the first row's */
    uint32_t first, count; /* its rows, once they are sorted */
};

struct row {
    uint32_t node, distance, ancestor;
};

/* 12 bytes a row beside what esp_check keeps for each node. */
struct row_check {
    struct esp_check check; /* first: the scan's ctx is the check */
    struct row *row;
    uint32_t count, cap;
};

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct row_check *c = ctx;
    struct esp_check *check = &c->check;
    int64_t distance = esp_item_number(item, DISTANCE, -1);
    struct esp_item payload = {.data = item->data};
    uint64_t digest = esp_item_digest(&check->access->layout->schema, &payload);
    struct row row = {.distance =
                          distance < 0 || distance > UINT32_MAX ? UINT32_MAX : (uint32_t)distance};
    enum esp_status status = esp_check_number(check, esp_item_text(item, ID), &row.node);
    if (status == ESP_OK) {
        status = esp_check_number(check, esp_item_text(item, ANCESTOR), &row.ancestor);
    }
    struct row *rows =
        status == ESP_OK && c->count < UINT32_MAX
            ? esp_arena_grow(&check->arena, c->row, &c->cap, c->count + 1, sizeof *rows)
            : NULL;
    if (!rows) {
        return status == ESP_OK ? esp_fail_nomem(check->access->err) : status;
    }
    c->row = rows;
    c->row[c->count++] = row;
    struct record *record = esp_check_record(check, row.node);
    record->present = record->present || row.distance == 0;
    if (!record->seen) {
        record->seen = true;
        record->payload = digest;
    }
    return record->payload == digest
               ? ESP_OK
               : esp_check_report(check, "stale-payload", row.node, row.ancestor,
                                  "the copy for this ancestor differs from the node itself");
}

static int by_node_and_distance(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    return x->distance < y->distance ? -1 : x->distance > y->distance;
}

/* Rows at distances from `lo` up to but not at `hi` are missing. */
static enum esp_status report_missing(struct esp_check *check, uint32_t node, uint32_t other,
                                      uint32_t lo, uint32_t hi) {
    char text[96];
    snprintf(text, sizeof text, "the rows at relative depth %u to %u are missing", lo, hi - 1);
    return esp_check_report(check, "missing-row", node, other, text);
}

/* One row against the parent's rows: what is k above the node is k - 1 above its parent. */
static enum esp_status check_row(struct row_check *c, const struct row *row,
                                 const struct record *parent) {
    struct esp_check *check = &c->check;
    const struct record *ancestor = esp_check_record(check, row->ancestor);
    if (!ancestor->present) {
        return esp_check_report(check, "dangling-row", row->node, row->ancestor,
                                "a row points to an ancestor that does not exist");
    }
    if (!parent || !parent->present || row->distance == 0) {
        return row->distance || row->ancestor == row->node
                   ? ESP_OK
                   : esp_check_report(check, "wrong-ancestor", row->node, row->ancestor,
                                      "the row at relative depth 0 points to another node");
    }
    if (row->distance > parent->count) {
        return esp_check_report(check, "dangling-row", row->node, row->ancestor,
                                "a row points beyond the root of the parent's tree");
    }
    return c->row[parent->first + row->distance - 1].ancestor == row->ancestor
               ? ESP_OK
               : esp_check_report(check, "wrong-ancestor", row->node, row->ancestor,
                                  "the parent's rows have another ancestor there");
}

static enum esp_status check_rows(struct row_check *c, uint32_t node) {
    struct esp_check *check = &c->check;
    const struct record *record = esp_check_record(check, node), *parent = NULL;
    const struct row *row = c->row + record->first;
    uint32_t expected = 0;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; i < record->count; i++) {
        if (row[i].distance == 1) {
            parent = esp_check_record(check, row[i].ancestor);
        }
    }
    for (uint32_t i = 0; status == ESP_OK && i < record->count; i++, expected++) {
        if (expected < row[i].distance) {
            status = report_missing(check, node, row[i].ancestor, expected, row[i].distance);
            expected = row[i].distance;
        }
        if (status == ESP_OK) {
            status = check_row(c, &row[i], parent);
        }
    }
    if (status == ESP_OK && parent && parent->present && expected <= parent->count) {
        status = report_missing(check, node, ESP_IDMAP_NONE, expected, parent->count + 1);
    }
    return status;
}

static enum esp_status check(struct esp_access *a, esp_finding_fn *fn, void *ctx) {
    struct row_check c = {.row = NULL};
    esp_check_init(&c.check, a, sizeof(struct record), fn, ctx);
    enum esp_status status = esp_check_scan(&c.check, check_item);
    if (status == ESP_OK && c.count) {
        qsort(c.row, c.count, sizeof *c.row, by_node_and_distance);
    }
    for (uint32_t i = 0; status == ESP_OK && i < c.count; i++) {
        struct record *record = esp_check_record(&c.check, c.row[i].node);
        record->first = record->count ? record->first : i;
        record->count++;
    }
    for (uint32_t i = 0; status == ESP_OK && i < c.check.ids.count; i++) {
        status = check_rows(&c, i);
    }
    esp_check_fini(&c.check);
    return status;
}

extern const struct esp_layout_ops esp_layout_replica;
const struct esp_layout_ops esp_layout_replica = {
    .name = "replica",
    .family = "replica",
    .summary = "a copy of each node for each ancestor; any window of levels is one query",
    .schema =
        {
            .attr = {[ID] = {{"ID", 2}, ESP_TYPE_S},
                     [DISTANCE] = {{"Relative Depth", 14}, ESP_TYPE_N},
                     [ANCESTOR] = {{"Ancestor ID", 11}, ESP_TYPE_S}},
            .attr_count = ATTR_COUNT,
            .pk = ID,
            .sk = DISTANCE,
            .index = {[BY_ANCESTOR] = {.name = {"gsi1", 4}, .pk = ANCESTOR, .sk = DISTANCE}},
            .index_count = 1,
        },
    .parent_attr = -1,
    .view = view,
    .relation = relation,
    .copy = copy,
    .item_count = item_count,
    .validate = esp_validate_items,
    .emit = emit,
    .locate = locate,
    .resolve = resolve,
    .op =
        {
            [ESP_OP_NODE] = op_node,
            [ESP_OP_PARENT] = op_parent,
            [ESP_OP_CHILDREN] = op_children,
            [ESP_OP_SIBLINGS] = op_siblings,
            [ESP_OP_ANCESTORS] = op_ancestors,
            [ESP_OP_DESCENDANTS] = op_descendants,
            [ESP_OP_WINDOW] = op_window,
            [ESP_OP_LEVEL] = op_level,
            [ESP_OP_TREE] = op_tree,
            [ESP_OP_LEAVES] = op_leaves,
            [ESP_OP_IS_DESCENDANT] = op_is_descendant,
            [ESP_OP_ROOTS] = op_roots,
            [ESP_OP_INSERT] = op_insert,
            [ESP_OP_UPDATE] = op_update,
            [ESP_OP_MOVE] = op_move,
            [ESP_OP_REMOVE] = op_remove,
            [ESP_OP_PROMOTE] = op_promote,
        },
    .check = check,
};
