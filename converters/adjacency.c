/*
 * adjacency: each node stores its parent's id, and its depth.  Roots have no parentId, so they
 * are not in the index.
 *
 * Children are one query by id; whatever is deeper goes level by level, all queries of a level
 * in flight together.  Ancestors are one GetItem after another.
 */
#include "converters/check.h"
#include "converters/validate.h"

enum { ID, PARENT, DEPTH, ATTR_COUNT };
enum { BY_PARENT }; /* position of the index */
enum { LEVEL_QUERIES_MAX = 16384 /* in one call: bounds the memory of wide levels */ };

struct adjacency_key {
    struct esp_str parent; /* len == 0: the node is a root */
    int64_t depth;         /* -1: not known */
};

/* --- bulk conversion -------------------------------------------------------------- */

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    (void)l, (void)f, (void)first;
    return n;
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    (void)l, (void)scratch;
    struct esp_item item = {0};
    item.value[DEPTH] = esp_n(0);
    for (esp_node v = first; v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        esp_node parent = f->parent[v];
        item.value[ID] = esp_s(esp_forest_id(f, v));
        item.value[PARENT] = (struct esp_value){.type = ESP_TYPE_NONE};
        if (parent != ESP_NODE_NONE) {
            item.value[PARENT] = esp_s(esp_forest_id(f, parent));
        }
        item.value[DEPTH].n = f->depth[v];
        item.data = esp_forest_data(f, v);
        enum esp_status status = fn(ctx, &item);
        if (status != ESP_OK) {
            return status;
        }
    }
    return ESP_OK;
}

/* --- naming nodes ----------------------------------------------------------------- */

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    (void)l;
    struct adjacency_key *key = esp_arena_calloc(arena, 1, sizeof *key);
    if (!key) {
        return ESP_ERR_NOMEM;
    }
    if (f->parent[v] != ESP_NODE_NONE) {
        key->parent = esp_forest_id(f, f->parent[v]);
    }
    key->depth = f->depth[v];
    *out = (struct esp_locator){esp_forest_id(f, v), key};
    return ESP_OK;
}

static struct adjacency_key key_of(const struct esp_item *item) {
    return (struct adjacency_key){esp_item_text(item, PARENT), esp_item_number(item, DEPTH, -1)};
}

static enum esp_status resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    struct esp_item item;
    enum esp_status status = esp_access_get(a, id, &item);
    if (status != ESP_OK) {
        return status;
    }
    struct adjacency_key *key = esp_arena_alloc(a->scratch, sizeof *key);
    if (!key) {
        return esp_fail_nomem(a->err);
    }
    *key = key_of(&item);
    *out = (struct esp_locator){esp_item_text(&item, ID), key};
    return ESP_OK;
}

static enum esp_status key_at(struct esp_access *a, const struct esp_locator *at,
                              struct adjacency_key *key) {
    struct esp_locator found = *at;
    enum esp_status status = at->key ? ESP_OK : resolve(a, at->id, &found);
    if (status == ESP_OK) {
        *key = *(const struct adjacency_key *)found.key;
    }
    return status;
}

static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    (void)l;
    struct adjacency_key key = key_of(item);
    *out = (struct esp_node_view){
        .id = esp_item_text(item, ID),
        .parent_id = key.parent.ptr ? key.parent : (struct esp_str){"", 0},
        .depth = key.depth,
        .data = item->data,
    };
    return out->id.ptr != NULL;
}

/* --- reads ------------------------------------------------------------------------ */

static enum esp_status op_node(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct esp_item item;
    enum esp_status status = esp_access_get(a, args->at.id, &item);
    return status == ESP_OK ? esp_access_pass(a, &item, fn, ctx) : status;
}

static enum esp_status op_parent(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct adjacency_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct esp_args up = {.at.id = key.parent};
    return op_node(a, &up, fn, ctx);
}

static struct esp_query children_query(struct esp_str id) {
    return (struct esp_query){.index = BY_PARENT, .pk = esp_s(id), .op = ESP_ANY};
}

/* The children of a node are asked for by its id: only when there are none is it worth a
 * GetItem to tell a leaf from a node that is not there. */
static enum esp_status op_children(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct esp_query q = children_query(args->at.id);
    uint64_t count;
    enum esp_status status = esp_access_query(a, &q, (struct esp_str){0}, fn, ctx, &count);
    return status == ESP_OK && count == 0 && !args->at.key ? esp_access_exists(a, args->at.id)
                                                           : status;
}

static enum esp_status op_siblings(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct adjacency_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct esp_query q = children_query(key.parent);
    return esp_access_query(a, &q, args->at.id, fn, ctx, NULL);
}

static enum esp_status damaged_cycle(struct esp_access *a, struct esp_str id) {
    return esp_fail(a->err, ESP_ERR_CYCLE,
                    "the table is damaged: '%.*s' is its own ancestor; check names the others",
                    ESP_FMT(id));
}

/* The nodes above the one with this key, parent first, copied into scratch. */
static enum esp_status climb(struct esp_access *a, struct adjacency_key key,
                             struct esp_item_list *above) {
    struct esp_idmap seen;
    esp_idmap_init(&seen, a->scratch);
    esp_item_list_init(above, a);
    while (key.parent.len) {
        struct esp_item item;
        uint32_t number, before = seen.count;
        enum esp_status status = esp_idmap_intern(&seen, key.parent, &number);
        if (status == ESP_OK && number < before) {
            return damaged_cycle(a, key.parent);
        }
        if (status == ESP_OK) {
            status = esp_access_get(a, key.parent, &item);
        }
        if (status == ESP_OK) {
            status = esp_item_list_add(above, &item);
        }
        if (status != ESP_OK) {
            return status;
        }
        key = key_of(&above->item[above->count - 1]);
    }
    return ESP_OK;
}

static enum esp_status op_ancestors(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct adjacency_key key;
    struct esp_item_list above;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status == ESP_OK) {
        status = climb(a, key, &above);
    }
    for (uint32_t i = status == ESP_OK ? above.count : 0; status == ESP_OK && i-- > 0;) {
        status = esp_access_pass(a, &above.item[i], fn, ctx);
    }
    return status;
}

/* Breadth first: the ids of one level, and what to do with each item of the next. */
struct level {
    struct esp_access *access;
    struct esp_str start; /* the node at the top: meeting it again is a cycle */
    struct esp_str *id;
    uint32_t count, cap;
    esp_item_fn *fn; /* NULL: the level is only passed through */
    void *ctx;
};

static enum esp_status level_add(void *ctx, const struct esp_item *item) {
    struct level *next = ctx;
    struct esp_str id = esp_item_text(item, ID);
    struct esp_str *ids =
        esp_arena_grow(next->access->scratch, next->id, &next->cap, next->count + 1, sizeof *ids);
    struct esp_str copy = esp_arena_dup(next->access->scratch, id);
    if (!ids || !copy.ptr) {
        return ESP_ERR_NOMEM;
    }
    next->id = ids;
    ids[next->count++] = copy;
    if (esp_str_eq(id, next->start)) {
        return damaged_cycle(next->access, id);
    }
    return next->fn ? next->fn(next->ctx, item) : ESP_OK;
}

/* Ask for the children of all nodes of `level`; their ids come back in `next`. */
static enum esp_status level_descend(struct level *level, struct level *next) {
    struct esp_access *a = level->access;
    uint32_t most = level->count < LEVEL_QUERIES_MAX ? level->count : LEVEL_QUERIES_MAX;
    struct esp_query *q = esp_arena_calloc(a->scratch, most, sizeof *q);
    enum esp_status status = q ? ESP_OK : esp_fail_nomem(a->err);
    for (uint32_t done = 0; status == ESP_OK && done < level->count; done += most) {
        uint32_t n = level->count - done < most ? level->count - done : most;
        for (uint32_t i = 0; i < n; i++) {
            q[i] = children_query(level->id[done + i]);
        }
        status = esp_session_query_many(a->session, q, n, level_add, next, a->err);
    }
    return status;
}

/* Items of the levels lo to hi (lo >= 1) below a node go to fn; *first: how many are at 1. */
static enum esp_status walk(struct esp_access *a, struct esp_str id, uint32_t lo, uint32_t hi,
                            esp_item_fn *fn, void *ctx, uint64_t *first) {
    struct level level = {.access = a, .start = id, .id = &id, .count = 1};
    enum esp_status status = ESP_OK;
    *first = 0;
    for (uint32_t depth = 1; status == ESP_OK && level.count; depth++) {
        struct level next = {.access = a, .start = id, .fn = depth >= lo ? fn : NULL, .ctx = ctx};
        status = level_descend(&level, &next);
        *first = depth == 1 ? next.count : *first;
        level = next;
        if (depth == hi) {
            break;
        }
    }
    return status;
}

static enum esp_status op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct esp_node_sink sink = {.access = a, .fn = fn, .ctx = ctx};
    uint64_t first = 1;
    enum esp_status status = args->lo == 0 ? op_node(a, args, fn, ctx) : ESP_OK;
    if (status == ESP_OK && args->hi > 0) {
        status = walk(a, args->at.id, args->lo, args->hi, esp_node_sink_add, &sink, &first);
    }
    return status == ESP_OK && first == 0 && args->lo > 0 && !args->at.key
               ? esp_access_exists(a, args->at.id)
               : status;
}

static enum esp_status op_descendants(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    struct esp_args window = {.at = args->at, .lo = 1, .hi = UINT32_MAX};
    return op_window(a, &window, fn, ctx);
}

static enum esp_status op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct esp_args window = {.at = args->at, .lo = args->lo, .hi = args->lo};
    return op_window(a, &window, fn, ctx);
}

static enum esp_status op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct esp_args window = {.at = args->at, .lo = 0, .hi = UINT32_MAX};
    return op_window(a, &window, fn, ctx);
}

/* --- writes ----------------------------------------------------------------------- */

static enum esp_status op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item = {.data = args->data};
    item.value[ID] = esp_s(args->id);
    item.value[DEPTH] = esp_n(0);
    if (args->to.id.len) {
        struct adjacency_key parent;
        enum esp_status status = key_at(a, &args->to, &parent);
        if (status != ESP_OK) {
            return status;
        }
        item.value[PARENT] = esp_s(args->to.id);
        item.value[DEPTH].n = parent.depth + 1;
    }
    return esp_access_insert(a, &item, args->id);
}

struct move {
    struct adjacency_key at, to; /* of the node and of its new parent */
    struct esp_item item;        /* the node, if `known` */
    bool known;
    int64_t depth; /* of the node after the move */
};

static enum esp_status move_look_up(struct esp_access *a, const struct esp_args *args,
                                    struct move *m) {
    struct esp_str none = {0};
    struct esp_item parent;
    bool look_to = args->to.id.len && !args->to.key;
    enum esp_status status = ESP_OK;
    if (!args->at.key) {
        status =
            esp_access_get_two(a, args->at.id, look_to ? args->to.id : none, &m->item, &parent);
        m->known = true;
    } else if (look_to) {
        status = esp_access_get(a, args->to.id, &parent);
    }
    if (status != ESP_OK) {
        return status;
    }
    m->at = args->at.key ? *(const struct adjacency_key *)args->at.key : key_of(&m->item);
    m->to = (struct adjacency_key){.depth = -1};
    if (args->to.id.len) {
        m->to = look_to ? key_of(&parent) : *(const struct adjacency_key *)args->to.key;
    }
    m->depth = m->to.depth + 1;
    return ESP_OK;
}

/* A new parent in the subtree is deeper than the node; only then is the way up worth its
 * GetItems. */
static enum esp_status move_check(struct esp_access *a, const struct esp_args *args,
                                  const struct move *m) {
    struct esp_item_list above = {0};
    bool below = esp_str_eq(args->at.id, args->to.id);
    if (!below && args->to.id.len && (m->at.depth < 0 || m->to.depth > m->at.depth)) {
        enum esp_status status = climb(a, m->to, &above);
        if (status != ESP_OK) {
            return status;
        }
    }
    for (uint32_t i = 0; i < above.count; i++) {
        below = below || esp_str_eq(esp_item_text(&above.item[i], ID), args->at.id);
    }
    return below ? esp_fail(a->err, ESP_ERR_CYCLE,
                            "'%.*s' cannot move below itself: '%.*s' is in its subtree",
                            ESP_FMT(args->at.id), ESP_FMT(args->to.id))
                 : ESP_OK;
}

/* Updates, not puts: payloads that others change meanwhile are left alone. */
static enum esp_status write_depth(struct esp_writes *writes, const struct esp_item *item,
                                   int64_t depth) {
    struct esp_access *a = writes->access;
    struct esp_change *change = esp_arena_calloc(a->scratch, 1, sizeof *change);
    if (!change) {
        return esp_fail_nomem(a->err);
    }
    *change = esp_set(&a->layout->schema, DEPTH, esp_n(depth));
    struct esp_write write = {
        .kind = ESP_UPDATE,
        .item = esp_item_key(&a->layout->schema, esp_item_text(item, ID), 0),
        .changes = change,
        .change_count = 1,
        .condition = &writes->exists,
        .condition_count = 1,
        .old = item,
    };
    return esp_writes_add(writes, &write);
}

/* The descendants of a node, level by level. */
struct below {
    struct esp_item_list list;
    uint32_t *end; /* of each level in the list; the children's first */
    uint32_t levels, cap;
};

static enum esp_status read_below(struct esp_access *a, struct esp_str id, struct below *below) {
    struct level level = {.access = a, .start = id, .id = &id, .count = 1};
    enum esp_status status = ESP_OK;
    while (status == ESP_OK && level.count) {
        struct level next = {
            .access = a, .start = id, .fn = esp_item_list_add, .ctx = &below->list};
        uint32_t *end =
            esp_arena_grow(a->scratch, below->end, &below->cap, below->levels + 1, sizeof *end);
        if (!end) {
            return esp_fail_nomem(a->err);
        }
        status = level_descend(&level, &next);
        below->end = end;
        end[below->levels++] = below->list.count;
        level = next;
    }
    return status;
}

/* Depths follow from the levels, not from the depths as they are, some of which a torn move may
 * have written already; the node itself comes when all of them have arrived.  So the same move
 * can be repeated after a cut: it finds the node below its old parent and does all again. */
static enum esp_status move_write(struct esp_access *a, const struct esp_args *args,
                                  const struct move *m, const struct below *below) {
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_writes writes;
    enum esp_status status = esp_writes_init(&writes, a, (size_t)below->list.count + 1);
    for (uint32_t i = 0, level = 0; status == ESP_OK && i < below->list.count; i++) {
        const struct esp_item *item = &below->list.item[i];
        while (i == below->end[level]) {
            level++;
        }
        int64_t depth = m->depth + 1 + level;
        status = key_of(item).depth == depth ? ESP_OK : write_depth(&writes, item, depth);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    if (status != ESP_OK) {
        return status;
    }
    struct esp_change change[2] = {args->to.id.len ? esp_set(schema, PARENT, esp_s(args->to.id))
                                                   : esp_unset(schema, PARENT),
                                   esp_set(schema, DEPTH, esp_n(m->depth))};
    struct esp_write write = {
        .kind = ESP_UPDATE,
        .item = esp_item_key(schema, args->at.id, 0),
        .changes = change,
        .change_count = 2,
        .condition = &writes.exists,
        .condition_count = 1,
        .old = m->known ? &m->item : NULL,
    };
    status = esp_writes_add(&writes, &write);
    return status == ESP_OK ? esp_writes_flush(&writes) : status;
}

static enum esp_status op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct move m = {0};
    struct below below = {0};
    esp_item_list_init(&below.list, a);
    enum esp_status status = move_look_up(a, args, &m);
    if (status == ESP_OK) {
        status = move_check(a, args, &m);
    }
    if (status != ESP_OK || esp_str_eq(m.at.parent, args->to.id)) {
        return status; /* refused, or there already */
    }
    if (m.depth != m.at.depth) {
        status = read_below(a, args->at.id, &below);
    }
    if (status == ESP_OK) {
        status = move_write(a, args, &m, &below);
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

/* Deepest nodes first, so that what is left of a torn remove still hangs together and can be
 * removed again. */
static enum esp_status op_remove(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item;
    struct esp_item_list below;
    struct esp_writes writes;
    uint64_t children;
    esp_item_list_init(&below, a);
    enum esp_status status = args->at.key ? ESP_OK : esp_access_get(a, args->at.id, &item);
    if (status == ESP_OK) {
        status = walk(a, args->at.id, 1, UINT32_MAX, esp_item_list_add, &below, &children);
    }
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, below.count);
    }
    for (uint32_t i = below.count; status == ESP_OK && i-- > 0;) {
        struct esp_write write = {.kind = ESP_DELETE, .item = below.item[i], .old = &below.item[i]};
        if (i + 1 < below.count &&
            key_of(&below.item[i]).depth != key_of(&below.item[i + 1]).depth) {
            status = esp_writes_flush(&writes);
        }
        if (status == ESP_OK) {
            status = esp_writes_add(&writes, &write);
        }
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    return status == ESP_OK ? esp_access_delete(a, NULL, args->at.id, args->at.key ? NULL : &item)
                            : status;
}

/* --- check ------------------------------------------------------------------------ */

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct esp_check *check = ctx;
    struct adjacency_key key = key_of(item);
    struct esp_check_way way = {.present = true, .depth = key.depth};
    uint32_t number, parent;
    enum esp_status status = esp_check_number(check, esp_item_text(item, ID), &number);
    if (status == ESP_OK && key.parent.len) {
        status = esp_check_number(check, key.parent, &parent);
        way.parent = parent + 1;
    }
    if (status == ESP_OK) {
        *(struct esp_check_way *)esp_check_record(check, number) = way;
    }
    return status;
}

static enum esp_status check(struct esp_access *a, esp_finding_fn *fn, void *ctx) {
    struct esp_check c;
    esp_check_init(&c, a, sizeof(struct esp_check_way), fn, ctx);
    enum esp_status status = esp_check_scan(&c, check_item);
    if (status == ESP_OK) {
        status = esp_check_ways(&c, true);
    }
    esp_check_fini(&c);
    return status;
}

extern const struct esp_layout_ops esp_layout_adjacency;
const struct esp_layout_ops esp_layout_adjacency = {
    .name = "adjacency",
    .family = "adjacency",
    .summary = "each node stores its parent; children are one query, a subtree one a node",
    .schema =
        {
            .attr = {[ID] = {{"id", 2}, ESP_TYPE_S},
                     [PARENT] = {{"parentId", 8}, ESP_TYPE_S},
                     [DEPTH] = {{"depth", 5}, ESP_TYPE_N}},
            .attr_count = ATTR_COUNT,
            .pk = ID,
            .sk = -1,
            .index = {[BY_PARENT] = {.name = {"parentId-index", 14}, .pk = PARENT, .sk = -1}},
            .index_count = 1,
        },
    .parent_attr = PARENT,
    .view = view,
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
            [ESP_OP_INSERT] = op_insert,
            [ESP_OP_UPDATE] = esp_access_update,
            [ESP_OP_MOVE] = op_move,
            [ESP_OP_REMOVE] = op_remove,
        },
    .check = check,
};
