/*
 * adjacency: each node stores its parent's id, and its depth (depth=off: not).  Roots have no
 * parentId, so they are not in the index.
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

static bool has_depth(const struct esp_layout *l) {
    return l->settings.depth == ESP_SWITCH_ON;
}

static enum esp_status configure(struct esp_layout *l, struct esp_error *err) {
    (void)err;
    l->schema.attr_count = has_depth(l) ? ATTR_COUNT : DEPTH; /* it is the last one */
    return ESP_OK;
}

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

static struct adjacency_key key_of(const struct esp_layout *l, const struct esp_item *item) {
    return (struct adjacency_key){esp_item_text(item, PARENT),
                                  has_depth(l) ? esp_item_number(item, DEPTH, -1) : -1};
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
    *key = key_of(a->layout, &item);
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
    struct adjacency_key key = key_of(l, item);
    *out = (struct esp_node_view){
        .id = esp_item_text(item, ID),
        .parent_id = key.parent,
        .depth = key.depth,
        .data = item->data,
    };
    /* A parentId that got lost makes no root where the depth tells. */
    if (!key.parent.ptr && (!has_depth(l) || key.depth == 0)) {
        out->parent_id = (struct esp_str){"", 0};
    }
    return out->id.ptr != NULL;
}

/* --- reads ------------------------------------------------------------------------ */

static enum esp_status op_parent(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct adjacency_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct esp_args up = {.at.id = key.parent};
    return esp_access_node(a, &up, fn, ctx);
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
        key = key_of(a->layout, &above->item[above->count - 1]);
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

/* Nodes on their way to the caller; those that do not store their depth get it from the level. */
struct pass {
    struct esp_access *access;
    int64_t top;    /* depth of the node at the top; -1: not known */
    uint32_t level; /* of what comes now */
    esp_node_fn *fn;
    void *ctx;
};

static enum esp_status pass_add(void *ctx, const struct esp_item *item) {
    const struct pass *pass = ctx;
    struct esp_node_view node;
    if (!view(pass->access->layout, item, &node)) {
        return ESP_OK;
    }
    if (node.depth < 0 && pass->top >= 0) {
        node.depth = pass->top + pass->level;
    }
    return pass->fn(pass->ctx, &node);
}

/* The levels lo to hi (lo >= 1) below a node are passed on; *first: how many are at 1. */
static enum esp_status walk(struct pass *pass, struct esp_str id, uint32_t lo, uint32_t hi,
                            uint64_t *first) {
    struct esp_access *a = pass->access;
    struct level level = {.access = a, .start = id, .id = &id, .count = 1};
    enum esp_status status = ESP_OK;
    *first = 0;
    for (pass->level = 1; status == ESP_OK && level.count; pass->level++) {
        bool wanted = pass->level >= lo;
        struct level next = {.access = a, .start = id, .fn = wanted ? pass_add : NULL, .ctx = pass};
        status = level_descend(&level, &next);
        *first = pass->level == 1 ? next.count : *first;
        level = next;
        if (pass->level == hi) {
            break;
        }
    }
    return status;
}

static enum esp_status read_window(struct esp_access *a, const struct esp_locator *at, int64_t top,
                                   uint32_t lo, uint32_t hi, esp_node_fn *fn, void *ctx) {
    struct pass pass = {.access = a, .top = top, .fn = fn, .ctx = ctx};
    struct esp_item item;
    uint64_t first = 1;
    enum esp_status status = lo == 0 ? esp_access_get(a, at->id, &item) : ESP_OK;
    if (status == ESP_OK && lo == 0) {
        status = pass_add(&pass, &item);
    }
    if (status == ESP_OK && hi > 0) {
        status = walk(&pass, at->id, lo, hi, &first);
    }
    return status == ESP_OK && first == 0 && lo > 0 && !at->key ? esp_access_exists(a, at->id)
                                                                : status;
}

static enum esp_status op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    const struct adjacency_key *key = args->at.key;
    return read_window(a, &args->at, key ? key->depth : -1, args->lo, args->hi, fn, ctx);
}

static enum esp_status op_descendants(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    struct esp_args window = {.at = args->at, .lo = 1, .hi = UINT32_MAX};
    return op_window(a, &window, fn, ctx);
}

static enum esp_status op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    return read_window(a, &args->at, 0, args->lo, args->lo, fn, ctx);
}

static enum esp_status op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    return read_window(a, &args->at, 0, 0, UINT32_MAX, fn, ctx);
}

/* --- writes ----------------------------------------------------------------------- */

static enum esp_status op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item = {.data = args->data};
    item.value[ID] = esp_s(args->id);
    item.value[DEPTH] = esp_n(0);
    if (args->to.id.len) {
        const struct adjacency_key *key = args->to.key;
        struct esp_item parent;
        enum esp_status status = key ? ESP_OK : esp_access_get(a, args->to.id, &parent);
        if (status == ESP_OK && !key) {
            status = esp_access_rely(a, &parent);
        }
        if (status != ESP_OK) {
            return status;
        }
        item.value[PARENT] = esp_s(args->to.id);
        item.value[DEPTH].n = (key ? *key : key_of(a->layout, &parent)).depth + 1;
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
    const struct esp_layout *l = a->layout;
    m->at = args->at.key ? *(const struct adjacency_key *)args->at.key : key_of(l, &m->item);
    m->to = (struct adjacency_key){.depth = -1};
    if (args->to.id.len) {
        m->to = look_to ? key_of(l, &parent) : *(const struct adjacency_key *)args->to.key;
    }
    m->depth = m->to.depth + 1;
    return look_to ? esp_access_rely(a, &parent) : ESP_OK;
}

/* A new parent in the subtree is deeper than the node; only then, or when depths are not known,
 * is the way up worth its GetItems. */
static enum esp_status move_check(struct esp_access *a, const struct esp_args *args,
                                  const struct move *m) {
    struct esp_item_list above = {0};
    bool below = esp_str_eq(args->at.id, args->to.id);
    bool deeper = m->at.depth < 0 || m->to.depth < 0 || m->to.depth > m->at.depth;
    if (!below && args->to.id.len && deeper) {
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

static enum esp_status read_below(struct esp_access *a, struct esp_str id, uint32_t levels,
                                  struct below *below) {
    struct level level = {.access = a, .start = id, .id = &id, .count = 1};
    enum esp_status status = ESP_OK;
    *below = (struct below){.end = NULL};
    esp_item_list_init(&below->list, a);
    while (status == ESP_OK && level.count && below->levels < levels) {
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

/* Depths of what is below a node from the level `first` on (0: its children); the node's is
 * `top`.  They follow from the levels, not from the depths as they are, some of which a torn write
 * may have written already. */
static enum esp_status write_depths(struct esp_writes *writes, const struct below *below,
                                    uint32_t first, int64_t top) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0, level = 0; status == ESP_OK && i < below->list.count; i++) {
        const struct esp_item *item = &below->list.item[i];
        while (i == below->end[level]) {
            level++;
        }
        int64_t depth = top + 1 + level;
        if (level >= first && key_of(writes->access->layout, item).depth != depth) {
            status = write_depth(writes, item, depth);
        }
    }
    return status == ESP_OK ? esp_writes_flush(writes) : status;
}

/* A node's own place: below `parent`, or (len == 0) as a root. */
static enum esp_status write_place(struct esp_writes *writes, struct esp_str id,
                                   const struct esp_item *old, struct esp_str parent,
                                   int64_t depth) {
    struct esp_access *a = writes->access;
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_change *change = esp_arena_calloc(a->scratch, 2, sizeof *change);
    if (!change) {
        return esp_fail_nomem(a->err);
    }
    change[0] = parent.len ? esp_set(schema, PARENT, esp_s(parent)) : esp_unset(schema, PARENT);
    if (has_depth(a->layout)) {
        change[1] = esp_set(schema, DEPTH, esp_n(depth));
    }
    struct esp_write write = {
        .kind = ESP_UPDATE,
        .item = esp_item_key(schema, id, 0),
        .changes = change,
        .change_count = has_depth(a->layout) ? 2 : 1,
        .condition = &writes->exists,
        .condition_count = 1,
        .old = old,
    };
    return esp_writes_add(writes, &write);
}

/* The node itself comes when all depths below it have arrived.  So the same move can be repeated
 * after a cut: it finds the node below its old parent and does all again. */
static enum esp_status move_write(struct esp_access *a, const struct esp_args *args,
                                  const struct move *m, const struct below *below) {
    struct esp_writes writes;
    enum esp_status status = esp_writes_init(&writes, a, (size_t)below->list.count + 1);
    if (status == ESP_OK) {
        status = write_depths(&writes, below, 0, m->depth);
    }
    if (status == ESP_OK) {
        status =
            write_place(&writes, args->at.id, m->known ? &m->item : NULL, args->to.id, m->depth);
    }
    return status == ESP_OK ? esp_writes_flush(&writes) : status;
}

static enum esp_status op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct move m = {0};
    struct below below = {.levels = 0};
    enum esp_status status = move_look_up(a, args, &m);
    if (status == ESP_OK) {
        status = move_check(a, args, &m);
    }
    if (status != ESP_OK || esp_str_eq(m.at.parent, args->to.id)) {
        return status; /* refused, or there already */
    }
    if (has_depth(a->layout) && m.depth != m.at.depth) {
        status = read_below(a, args->at.id, UINT32_MAX, &below);
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
    struct below below;
    struct esp_writes writes;
    enum esp_status status = args->at.key ? ESP_OK : esp_access_get(a, args->at.id, &item);
    if (status == ESP_OK) {
        status = read_below(a, args->at.id, UINT32_MAX, &below);
    }
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, below.list.count);
    }
    for (uint32_t level = below.levels; status == ESP_OK && level-- > 0;) {
        for (uint32_t i = level ? below.end[level - 1] : 0;
             status == ESP_OK && i < below.end[level]; i++) {
            const struct esp_item *old = &below.list.item[i];
            struct esp_write write = {.kind = ESP_DELETE, .item = *old, .old = old};
            status = esp_writes_add(&writes, &write);
        }
        if (status == ESP_OK) {
            status = esp_writes_flush(&writes);
        }
    }
    return status == ESP_OK ? esp_access_delete(a, NULL, args->at.id, args->at.key ? NULL : &item)
                            : status;
}

/* Depths below the children first, then the children, each with its new parent at once, then the
 * node.  A repeat goes on with the children that are left. */
static enum esp_status op_promote(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item;
    struct adjacency_key key;
    struct below below;
    struct esp_writes writes;
    bool known = !args->at.key;
    enum esp_status status = known ? esp_access_get(a, args->at.id, &item) : ESP_OK;
    if (status == ESP_OK) {
        status = read_below(a, args->at.id, has_depth(a->layout) ? UINT32_MAX : 1, &below);
    }
    if (status != ESP_OK) {
        return status;
    }
    key = known ? key_of(a->layout, &item) : *(const struct adjacency_key *)args->at.key;
    if (key.parent.len == 0 && below.list.count) {
        return esp_access_root_has_children(a, args->at.id);
    }
    status = esp_writes_init(&writes, a, below.list.count);
    if (status == ESP_OK && has_depth(a->layout)) {
        status = write_depths(&writes, &below, 1, key.depth - 1);
    }
    for (uint32_t i = 0; status == ESP_OK && below.levels && i < below.end[0]; i++) {
        const struct esp_item *child = &below.list.item[i];
        status = write_place(&writes, esp_item_text(child, ID), child, key.parent, key.depth);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    return status == ESP_OK ? esp_access_delete(a, NULL, args->at.id, known ? &item : NULL)
                            : status;
}

/* --- check ------------------------------------------------------------------------ */

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct esp_check *check = ctx;
    struct adjacency_key key = key_of(check->access->layout, item);
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
        status = esp_check_ways(&c, has_depth(a->layout));
    }
    esp_check_fini(&c);
    return status;
}

static const struct esp_option options[] = {
    {.name = "depth",
     .type = ESP_OPT_CHOICE,
     .offset = offsetof(struct esp_layout_settings, depth),
     .argument = "on|off",
     .fallback = "on",
     .help = "store the depth; without it a move is one update",
     .choices = esp_switch_names},
    {.name = NULL},
};

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
    .options = options,
    .configure = configure,
    .parent_attr = PARENT,
    .view = view,
    .item_count = item_count,
    .validate = esp_validate_items,
    .emit = emit,
    .locate = locate,
    .resolve = resolve,
    .op =
        {
            [ESP_OP_NODE] = esp_access_node,
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
            [ESP_OP_PROMOTE] = op_promote,
        },
    .check = check,
};
