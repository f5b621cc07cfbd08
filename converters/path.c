/*
 * path and tree-path: each node stores the way down to it, as the ids from the root on, each
 * followed by the separator.  The two differ in what of it an item has:
 *
 *   path       the root's part is empty, because `Root` names it, and the node's own id is left
 *              out: "/" for children of the root, "/V/d/" two levels further.  Roots have
 *              neither Root nor Path, so they are not in the index.
 *   tree-path  all of it: "D#" for the root D, "D#V#d#i#" three levels further.
 *
 * Here a node's `down` is its whole way, itself included, in either form ("/V/d/i/"): what the
 * paths of all nodes below it begin with.  Knowing root and down (a locator's key), children and
 * descendants are one query and ancestors one batch of gets; by id alone a GetItem comes first.
 */
#include "converters/check.h"
#include "converters/paging.h"
#include "converters/validate.h"
#include "converters/way.h"

enum { ID, ROOT, PATH, DEPTH, ATTR_COUNT };
enum { BY_PATH }; /* position of the index */

struct path_key {
    struct esp_str root; /* id of the tree's root; a root's own id */
    struct esp_str down;
};

extern const struct esp_layout_ops esp_layout_path, esp_layout_tree_path;

/* Do items have their whole way: root and node included? */
static bool is_whole(const struct esp_layout *l) {
    return l->ops == &esp_layout_tree_path;
}

static bool has_depth(const struct esp_layout *l) {
    return l->settings.depth == ESP_SWITCH_ON;
}

static enum esp_status configure(struct esp_layout *l, struct esp_error *err) {
    if (!has_depth(l)) {
        l->schema.attr_count = DEPTH; /* it is the last one */
    }
    return esp_way_configure(l, err);
}

/* The way down to the parent; empty for a root. */
static struct esp_str above_of(const struct esp_layout *l, struct esp_str down) {
    return (struct esp_str){down.ptr, esp_way_last(l, down)};
}

/* What the item of a node has as its path; empty for a root of `path`. */
static struct esp_str stored_path(const struct esp_layout *l, struct esp_str down) {
    return is_whole(l) ? down : above_of(l, down);
}

/* Of the way down to a node, itself included. */
static uint32_t depth_of(const struct esp_layout *l, struct esp_str down) {
    uint32_t n = esp_way_count(l, down);
    return n ? n - 1 : 0;
}

/* --- bulk conversion -------------------------------------------------------------- */

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    (void)l, (void)f, (void)first;
    return n;
}

/* The way down to v, whose ancestors are on the stack.  Too long a way is for the caller to see:
 * the stack has room for it. */
static struct esp_str enter(const struct esp_layout *l, struct esp_way_stack *stack,
                            const struct esp_forest *f, esp_node v) {
    uint32_t depth = f->depth[v];
    struct esp_str id = esp_forest_id(f, v);
    id.len = depth || is_whole(l) ? id.len : 0;
    esp_way_push(l, stack, depth, id);
    return (struct esp_str){stack->text, stack->end[depth + 1]};
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    (void)scratch;
    struct esp_way_stack stack;
    struct esp_item item = {0};
    bool whole = is_whole(l);
    if (n == 0) {
        return ESP_OK;
    }
    if (!esp_way_above(l, &stack, f, first, whole)) {
        return ESP_ERR_LIMIT; /* validate says where */
    }
    item.value[DEPTH] = esp_n(0);
    item.value[ROOT] = esp_s(esp_forest_id(f, esp_forest_root(f, first)));
    item.value[PATH] = esp_s((struct esp_str){stack.text, 0});
    for (esp_node v = first; v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        uint32_t depth = f->depth[v];
        struct esp_str id = esp_forest_id(f, v);
        size_t above = stack.end[depth];
        if (above > ESP_SK_BYTES_MAX) {
            return ESP_ERR_LIMIT;
        }
        /* Nobody needs the way down to a leaf of `path`. */
        size_t down = whole || f->size[v] > 1 ? enter(l, &stack, f, v).len : 0;
        item.value[ID] = esp_s(id);
        item.value[DEPTH].n = depth;
        item.data = esp_forest_data(f, v);
        if (depth == 0) {
            item.value[ROOT].s = id;
        }
        item.value[PATH].s.len = whole ? down : above;
        item.value[ROOT].type = item.value[PATH].type = whole || depth ? ESP_TYPE_S : ESP_TYPE_NONE;
        enum esp_status status =
            item.value[PATH].s.len > ESP_SK_BYTES_MAX ? ESP_ERR_LIMIT : fn(ctx, &item);
        if (status != ESP_OK) {
            return status;
        }
    }
    return ESP_OK;
}

static enum esp_status path_error(const struct esp_forest *f, esp_node v, size_t bytes,
                                  struct esp_error *err) {
    struct esp_str id = esp_forest_id(f, v);
    return esp_validate_fail(f, v, err, ESP_ERR_LIMIT,
                             "the path of '%.*s' at depth %u has %zu bytes; a sort key has at most "
                             "%d: use shorter ids, path-key with --set segment=N, or another "
                             "layout (replica, nested-set, adjacency)",
                             ESP_FMT(id), f->depth[v], bytes, ESP_SK_BYTES_MAX);
}

/* Node by node. */
static enum esp_status validate_lengths(const struct esp_layout *l, const struct esp_forest *f,
                                        struct esp_error *err) {
    uint32_t len[ESP_WAY_LEVELS_MAX + 2] = {0}; /* of the ways to the nodes above */
    bool whole = is_whole(l);
    for (esp_node v = 0; v < f->count; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        uint32_t depth = f->depth[v];
        size_t part = depth || whole ? esp_way_put(l, esp_forest_id(f, v), NULL) : 0;
        uint32_t down = len[depth] + (uint32_t)(part + l->separator.len);
        uint32_t stored = whole ? down : len[depth];
        if (stored > ESP_SK_BYTES_MAX) {
            return path_error(f, v, stored, err);
        }
        /* A path that fits has fewer levels than `len` has room for. */
        len[depth + 1] = down;
    }
    return ESP_OK;
}

static enum esp_status validate(const struct esp_layout *l, const struct esp_forest *f,
                                struct esp_error *err) {
    enum esp_status status = esp_way_validate(l, f, err);
    /* Most forests can be told to be fine without a look at their nodes. */
    uint64_t part_max = f->id_len_max * (uint64_t)(l->settings.escape ? ESP_WAY_ESCAPE_BYTES : 1) +
                        l->separator.len;
    if (status == ESP_OK && (f->depth_max + (uint64_t)is_whole(l)) * part_max > ESP_SK_BYTES_MAX) {
        status = validate_lengths(l, f, err);
    }
    return status == ESP_OK ? esp_validate_items(l, f, err) : status;
}

/* --- naming nodes ----------------------------------------------------------------- */

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    struct path_key *key = esp_arena_calloc(arena, 1, sizeof *key);
    struct esp_way_stack stack;
    if (!key) {
        return ESP_ERR_NOMEM;
    }
    if (!esp_way_above(l, &stack, f, v, is_whole(l))) {
        return ESP_ERR_LIMIT;
    }
    *out = (struct esp_locator){esp_forest_id(f, v), key};
    key->root = esp_forest_id(f, esp_forest_root(f, v));
    key->down = esp_arena_dup(arena, enter(l, &stack, f, v));
    return key->down.ptr ? ESP_OK : ESP_ERR_NOMEM;
}

/* An item has a path that can be read: one that begins as the layout's do, and is closed. */
static bool is_framed(const struct esp_layout *l, struct esp_str path) {
    size_t pos = 0;
    struct esp_str first;
    return esp_way_closed(l, path) && esp_way_next(l, path, &pos, &first) &&
           (first.len > 0) == is_whole(l);
}

/* The last part of a way; empty where the way is, and in `path` for a root. */
static struct esp_str last_part(const struct esp_layout *l, struct esp_str down) {
    size_t start = esp_way_last(l, down);
    size_t end = down.len - (esp_way_closed(l, down) ? l->separator.len : 0);
    return (struct esp_str){down.ptr + start, end > start ? end - start : 0};
}

/* Is the last part of the way this node's own? */
static bool names_itself(const struct esp_layout *l, const struct esp_item *item) {
    return esp_way_is_part(l, last_part(l, esp_item_text(item, PATH)), esp_item_text(item, ID));
}

/* The parent an item names, escaped or not; len 0: it is a root.  ptr == NULL: the path cannot be
 * read.  It may be one of another separator, so nothing is guessed from the rest of the item. */
static struct esp_str item_parent(const struct esp_layout *l, const struct esp_item *item,
                                  bool *escaped) {
    struct esp_str root = esp_item_text(item, ROOT), path = esp_item_text(item, PATH);
    struct esp_str none = {"", 0}, unknown = {NULL, 0};
    *escaped = false;
    if (!is_whole(l) && !root.ptr && !path.ptr) {
        return none;
    }
    if (!is_framed(l, path) || (is_whole(l) && !names_itself(l, item))) {
        return unknown;
    }
    struct esp_str last = last_part(l, is_whole(l) ? above_of(l, path) : path);
    *escaped = last.len > 0;
    if (last.len || is_whole(l)) {
        return last.len ? last : none;
    }
    return esp_str_eq(root, esp_item_text(item, ID)) ? none : root;
}

/* Of the path that an item has; len 0: none. */
static uint32_t path_depth(const struct esp_layout *l, struct esp_str path) {
    return is_whole(l) ? depth_of(l, path) : esp_way_count(l, path);
}

/* Does the rest agree with a path that is a root's?  A Root or a Path that got lost makes none. */
static bool says_root(const struct esp_layout *l, const struct esp_item *item) {
    struct esp_str root = esp_item_text(item, ROOT);
    bool at_top = !has_depth(l) || esp_item_number(item, DEPTH, -1) == 0;
    return at_top && (is_whole(l) ? esp_str_eq(root, esp_item_text(item, ID)) : !root.ptr);
}

static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    *out = (struct esp_node_view){
        .id = esp_item_text(item, ID), .depth = -1, .data = item->data, .escaped = false};
    out->parent_id = item_parent(l, item, &out->escaped);
    if (out->parent_id.len == 0 && !says_root(l, item)) {
        out->parent_id = (struct esp_str){NULL, 0};
    }
    if (has_depth(l)) {
        out->depth = esp_item_number(item, DEPTH, -1);
    }
    if (out->depth < 0) {
        out->depth = path_depth(l, esp_item_text(item, PATH));
    }
    return out->id.ptr != NULL;
}

/* A path names the ancestors, so it tells whose child the parent is. */
static bool hint(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_id_room room[2], struct esp_node_view *out) {
    struct esp_str root = esp_item_text(item, ROOT), path = esp_item_text(item, PATH);
    struct esp_str way = is_whole(l) ? above_of(l, path) : path;
    *out = (struct esp_node_view){.id = root, .parent_id = {"", 0}, .depth = -1};
    struct esp_str id = esp_item_text(item, ID);
    if (!root.ptr || !is_framed(l, path) ||
        (is_whole(l) && !esp_str_eq(esp_way_id(l, last_part(l, path), &room[0]), id))) {
        return false;
    }
    struct esp_str parent = last_part(l, way), above = last_part(l, above_of(l, way));
    if (parent.len) {
        out->id = esp_way_id(l, parent, &room[0]);
    }
    if (above.len) {
        out->parent_id = esp_way_id(l, above, &room[1]);
    } else if (parent.len && !is_whole(l)) {
        out->parent_id = root;
    }
    return !esp_str_eq(out->id, id);
}

static enum esp_status read_key(struct esp_access *a, const struct esp_item *item,
                                struct path_key *key) {
    const struct esp_layout *l = a->layout;
    struct esp_str id = esp_item_text(item, ID), path = esp_item_text(item, PATH);
    key->root = esp_item_text(item, ROOT);
    if (path.ptr && !is_framed(l, path)) {
        return esp_fail(
            a->err, ESP_ERR_REFUSED,
            "the path '%.*s' of '%.*s' does not %s the separator '%.*s': the table was made with "
            "another one, or is damaged",
            ESP_FMT(path), ESP_FMT(id), is_whole(l) ? "end with" : "begin and end with",
            ESP_FMT(l->separator));
    }
    if (is_whole(l)) {
        key->down = path;
        return key->root.ptr && path.ptr
                   ? ESP_OK
                   : esp_fail(a->err, ESP_ERR_REFUSED,
                              "the item of '%.*s' has no path: the table is damaged", ESP_FMT(id));
    }
    if (!key->root.ptr || !path.ptr) {
        *key = (struct path_key){id, l->separator};
        return ESP_OK;
    }
    key->down = esp_way_join(l, a->scratch, path, id, l->separator);
    return key->down.ptr ? ESP_OK : esp_fail_nomem(a->err);
}

/* A root's id is its key: no look-up is needed. */
static enum esp_status root_key(struct esp_access *a, struct esp_str id, struct path_key *key) {
    const struct esp_layout *l = a->layout;
    *key = (struct path_key){id, l->separator};
    if (is_whole(l)) {
        key->down = esp_way_join(l, a->scratch, (struct esp_str){0}, id, l->separator);
    }
    return key->down.ptr ? ESP_OK : esp_fail_nomem(a->err);
}

/* The item and the key of a node by its id. */
static enum esp_status look_up(struct esp_access *a, struct esp_str id, struct esp_item *item,
                               struct path_key *key) {
    enum esp_status status = esp_access_get(a, id, item);
    return status == ESP_OK ? read_key(a, item, key) : status;
}

static enum esp_status resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    struct esp_item item;
    struct path_key *key = esp_arena_alloc(a->scratch, sizeof *key);
    if (!key) {
        return esp_fail_nomem(a->err);
    }
    enum esp_status status = look_up(a, id, &item, key);
    if (status == ESP_OK) {
        *out = (struct esp_locator){esp_item_text(&item, ID), key};
    }
    return status;
}

/* The key of a locator, looked up if it has none. */
static enum esp_status key_at(struct esp_access *a, const struct esp_locator *at,
                              struct path_key *key) {
    struct esp_item item;
    if (at->key) {
        *key = *(const struct path_key *)at->key;
        return ESP_OK;
    }
    return look_up(a, at->id, &item, key);
}

/* --- reads ------------------------------------------------------------------------ */

/* The ids of all ancestors, root first, in the scratch arena. */
static enum esp_status ancestor_ids(struct esp_access *a, const struct path_key *key,
                                    struct esp_str **out, size_t *count) {
    struct esp_str above = above_of(a->layout, key->down), none = {0};
    bool named = is_whole(a->layout) || above.len == 0;
    enum esp_status status =
        esp_way_ids(a->layout, a->scratch, named ? none : key->root, above, out, count);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

static enum esp_status op_parent(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct path_key key;
    struct esp_str *id;
    size_t count = 0;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status == ESP_OK) {
        status = ancestor_ids(a, &key, &id, &count);
    }
    if (status != ESP_OK || count == 0) {
        return status;
    }
    struct esp_args up = {.at.id = id[count - 1]};
    return esp_access_node(a, &up, fn, ctx);
}

static enum esp_status op_ancestors(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct path_key key;
    struct esp_str *id;
    size_t count;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status == ESP_OK) {
        status = ancestor_ids(a, &key, &id, &count);
    }
    return status == ESP_OK ? esp_access_get_ordered(a, id, count, fn, ctx) : status;
}

/* Does the way down to a node with this key pass `id`?  Whether it begins with the way to `id`
 * would not tell of a descendant that a torn move has moved already. */
static enum esp_status passes(struct esp_access *a, const struct path_key *key, struct esp_str id,
                              bool *out) {
    struct esp_str *way;
    size_t count;
    enum esp_status status = ancestor_ids(a, key, &way, &count);
    *out = false;
    for (size_t i = 0; status == ESP_OK && i < count; i++) {
        *out = *out || esp_str_eq(way[i], id);
    }
    return status;
}

static enum esp_status op_is_descendant(struct esp_access *a, const struct esp_args *args,
                                        esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct path_key key;
    bool to_exists = args->to.key != NULL, below = false;
    enum esp_status status = ESP_OK;
    if (args->at.key) {
        key = *(const struct path_key *)args->at.key;
    } else {
        struct esp_item at, to;
        status = esp_access_get_two(a, args->at.id, to_exists ? (struct esp_str){0} : args->to.id,
                                    &at, &to);
        if (status == ESP_OK) {
            status = read_key(a, &at, &key);
        }
        to_exists = true;
    }
    if (status == ESP_OK) {
        status = passes(a, &key, args->to.id, &below);
    }
    a->value = below;
    return status == ESP_OK && !below && !to_exists ? esp_access_exists(a, args->to.id) : status;
}

/* A query of everything below the node; in tree-path it finds the node too.  False: its way is as
 * long as a sort key can be, so that nothing is below it. */
static bool query_below(const struct esp_layout *l, const struct path_key *key,
                        struct esp_query *q) {
    *q = (struct esp_query){.index = BY_PATH, .pk = esp_s(key->root), .op = ESP_ANY};
    if (is_whole(l) || depth_of(l, key->down)) { /* else everything in the partition */
        q->op = ESP_PREFIX;
        q->lo = esp_s(key->down);
    }
    return key->down.len <= ESP_SK_BYTES_MAX;
}

/* Passes on the nodes of some depths. */
struct depths {
    uint32_t lo, hi;
    esp_node_fn *fn;
    void *ctx;
    uint64_t count;
};

static enum esp_status pass_depths(void *ctx, const struct esp_node_view *node) {
    struct depths *d = ctx;
    if (node->depth < d->lo || node->depth > d->hi) {
        return ESP_OK;
    }
    d->count++;
    return d->fn(d->ctx, node);
}

/* What one query is to find below a node, or with it. */
struct range {
    struct path_key key;
    uint32_t lo, hi;     /* absolute depths; hi == UINT32_MAX: all; lo is not above the node */
    struct esp_str skip; /* a node to leave out; ptr == NULL: none */
};

/* The children have their parent's way as their path in `path`.  Other depths are read with all
 * below the node and filtered: by DynamoDB, or here when items do not have their depth. */
static enum esp_status query_range(struct esp_access *a, const struct range *range, esp_node_fn *fn,
                                   void *ctx, uint64_t *count) {
    const struct esp_layout *l = a->layout;
    uint32_t depth = depth_of(l, range->key.down);
    struct depths d = {.hi = UINT32_MAX, .fn = fn, .ctx = ctx};
    struct esp_node_sink sink = {.access = a, .fn = pass_depths, .ctx = &d, .skip = range->skip};
    bool earlier = false;
    struct esp_query q;
    struct esp_condition filter = {
        .name = l->schema.attr[DEPTH].name, /* depth=off: not used */
        .op = range->hi == UINT32_MAX ? ESP_GE : ESP_BETWEEN,
        .lo = esp_n(range->lo),
        .hi = esp_n(range->hi),
    };
    enum esp_status status = ESP_OK;
    bool some = query_below(l, &range->key, &q);
    if (!is_whole(l) && range->lo == depth + 1 && range->hi == range->lo) {
        q.op = ESP_EQ;
        q.lo = esp_s(range->key.down);
    } else if (range->lo > depth + 1 || range->hi != UINT32_MAX) {
        if (has_depth(l)) {
            q.filter = &filter;
            q.filter_count = 1;
        } else {
            d.lo = range->lo;
            d.hi = range->hi;
        }
    }
    if (some) {
        status = esp_paging_query(a, &q, esp_node_sink_add, &sink, fn, ctx, &earlier);
    }
    if (count) {
        *count = d.count + earlier;
    }
    return status;
}

static enum esp_status op_children(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct range range = {.lo = 0};
    enum esp_status status = key_at(a, &args->at, &range.key);
    if (status == ESP_OK) {
        range.lo = range.hi = depth_of(a->layout, range.key.down) + 1;
        status = query_range(a, &range, fn, ctx, NULL);
    }
    return status;
}

static enum esp_status op_siblings(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct range range = {.skip = args->at.id};
    enum esp_status status = key_at(a, &args->at, &range.key);
    if (status != ESP_OK) {
        return status;
    }
    range.lo = range.hi = depth_of(a->layout, range.key.down);
    range.key.down = above_of(a->layout, range.key.down);
    return range.lo ? query_range(a, &range, fn, ctx, NULL) : ESP_OK;
}

static enum esp_status op_descendants(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    struct range range = {.hi = UINT32_MAX, .skip = args->at.id};
    enum esp_status status = key_at(a, &args->at, &range.key);
    if (status == ESP_OK) {
        range.lo = depth_of(a->layout, range.key.down) + 1;
        status = query_range(a, &range, fn, ctx, NULL);
    }
    return status;
}

/* With lo == 0 the node is part of the answer: what was looked up, or what the query of tree-path
 * finds anyway. */
static enum esp_status op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    const struct esp_layout *l = a->layout;
    struct range range = {.skip = args->at.id};
    bool with_node = args->lo == 0;
    if (args->at.key) {
        range.key = *(const struct path_key *)args->at.key;
    }
    if (with_node && args->at.key && is_whole(l) && args->hi > 0) {
        range.skip = (struct esp_str){0};
        with_node = false;
    }
    if (!args->at.key || with_node) { /* one GetItem is look-up and answer */
        struct esp_item item;
        enum esp_status status = look_up(a, args->at.id, &item, &range.key);
        if (status == ESP_OK && with_node) {
            status = esp_access_pass(a, &item, fn, ctx);
        }
        if (status != ESP_OK) {
            return status;
        }
    }
    if (args->hi == 0) {
        return ESP_OK;
    }
    uint64_t depth = depth_of(l, range.key.down), hi = depth + args->hi;
    uint64_t lo = depth + (args->lo == 0 && range.skip.ptr ? 1 : args->lo);
    range.lo = lo < UINT32_MAX ? (uint32_t)lo : UINT32_MAX;
    range.hi = args->hi < UINT32_MAX && hi < UINT32_MAX ? (uint32_t)hi : UINT32_MAX;
    return query_range(a, &range, fn, ctx, NULL);
}

static enum esp_status op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct range range = {.lo = args->lo, .hi = args->lo};
    uint64_t count;
    if (args->lo == 0) {
        return esp_access_node(a, args, fn, ctx);
    }
    enum esp_status status = root_key(a, args->at.id, &range.key);
    if (status == ESP_OK) {
        status = query_range(a, &range, fn, ctx, &count);
    }
    return status == ESP_OK && count == 0 && !args->at.key ? esp_access_exists(a, args->at.id)
                                                           : status;
}

/* In tree-path the root is in the index, so one query answers. */
static enum esp_status op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct range range = {.hi = UINT32_MAX};
    uint64_t count;
    enum esp_status status = root_key(a, args->at.id, &range.key);
    if (status == ESP_OK && !is_whole(a->layout)) {
        range.lo = 1;
        status = esp_access_node(a, args, fn, ctx);
    }
    if (status == ESP_OK) {
        status = query_range(a, &range, fn, ctx, &count);
    }
    return status == ESP_OK && range.lo == 0 && count == 0 ? esp_access_missing(a, args->at.id)
                                                           : status;
}

static enum esp_status add_root(void *sink, const struct esp_item *item) {
    const struct esp_node_sink *s = sink;
    const struct esp_layout *l = s->access->layout;
    bool is_root = path_depth(l, esp_item_text(item, PATH)) == 0;
    return is_root && !esp_item_reserved(&l->schema, item) ? esp_node_sink_add(sink, item) : ESP_OK;
}

/* tree-path: every node has a treeId, so roots are told by their depth. */
static enum esp_status op_roots(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    (void)args;
    const struct esp_layout *l = a->layout;
    struct esp_condition filter = {
        .name = l->schema.attr[DEPTH].name, .op = ESP_EQ, .lo = esp_n(0)};
    struct esp_scan scan = {.index = ESP_PRIMARY,
                            .filter = &filter,
                            .filter_count = has_depth(l) ? 1 : 0,
                            .consistent = a->consistent};
    struct esp_node_sink sink = {.access = a, .fn = fn, .ctx = ctx};
    return esp_session_scan(a->session, &scan, add_root, &sink, a->err);
}

/* --- writes ----------------------------------------------------------------------- */

static enum esp_status check_path(struct esp_access *a, size_t bytes, struct esp_str id) {
    return bytes <= ESP_SK_BYTES_MAX
               ? ESP_OK
               : esp_fail(a->err, ESP_ERR_LIMIT,
                          "the path of '%.*s' would have %zu bytes; a sort key has at most %d",
                          ESP_FMT(id), bytes, ESP_SK_BYTES_MAX);
}

/* The key of the node `id` below a parent; `parent` NULL: as a root. */
static enum esp_status key_below(struct esp_access *a, const struct path_key *parent,
                                 struct esp_str id, struct path_key *out) {
    if (!parent) {
        return root_key(a, id, out);
    }
    out->root = parent->root;
    out->down = esp_way_join(a->layout, a->scratch, parent->down, id, a->layout->separator);
    return out->down.ptr ? ESP_OK : esp_fail_nomem(a->err);
}

static enum esp_status op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    const struct esp_layout *l = a->layout;
    struct esp_item item = {.data = args->data}, parent_item;
    struct path_key parent, key;
    bool root = args->to.id.len == 0;
    enum esp_status status = esp_way_check_id(a, args->id);
    if (status == ESP_OK && !root && args->to.key) {
        parent = *(const struct path_key *)args->to.key;
    } else if (status == ESP_OK && !root) {
        status = look_up(a, args->to.id, &parent_item, &parent);
        if (status == ESP_OK) {
            status = esp_access_rely(a, &parent_item);
        }
    }
    if (status == ESP_OK) {
        status = key_below(a, root ? NULL : &parent, args->id, &key);
    }
    if (status != ESP_OK) {
        return status;
    }
    struct esp_str path = stored_path(l, key.down);
    status = check_path(a, path.len, args->id);
    if (status != ESP_OK) {
        return status;
    }
    item.value[ID] = esp_s(args->id);
    if (path.len) {
        item.value[ROOT] = esp_s(key.root);
        item.value[PATH] = esp_s(path);
    }
    item.value[DEPTH] = esp_n(depth_of(l, key.down));
    return esp_access_insert(a, &item, args->id);
}

/* A node that goes elsewhere or away, and all below it. */
struct rewrite {
    struct esp_str id;
    struct path_key at, to; /* to.down: what the ways of those below it begin with then */
    struct esp_item item;   /* the node, if `known` */
    bool known;
    struct esp_access *access;
    struct esp_item_list below;
};

static enum esp_status add_below(void *ctx, const struct esp_item *item) {
    struct rewrite *r = ctx;
    if (!esp_str_eq(esp_item_text(item, ID), r->id)) {
        return esp_item_list_add(&r->below, item);
    }
    enum esp_status status =
        r->known ? ESP_OK
                 : esp_item_dup(&r->access->layout->schema, r->access->scratch, item, &r->item);
    r->known = r->known || status == ESP_OK;
    return status;
}

static enum esp_status collect_below(struct rewrite *r) {
    struct esp_query q;
    esp_item_list_init(&r->below, r->access);
    return query_below(r->access->layout, &r->at, &q)
               ? esp_session_query(r->access->session, &q, add_below, r, r->access->err)
               : ESP_OK;
}

/* The rest of a path below the node, behind the way down to it. */
static enum esp_status rest_of(const struct rewrite *r, const struct esp_item *item,
                               struct esp_str *out) {
    struct esp_str path = esp_item_text(item, PATH), down = r->at.down;
    if (path.len < down.len || memcmp(path.ptr, down.ptr, down.len) != 0) {
        return esp_fail(r->access->err, ESP_ERR_REFUSED,
                        "the path '%.*s' of '%.*s' does not begin with '%.*s': the table is "
                        "damaged",
                        ESP_FMT(path), ESP_FMT(esp_item_text(item, ID)), ESP_FMT(down));
    }
    *out = (struct esp_str){path.ptr + down.len, path.len - down.len};
    return ESP_OK;
}

/* All checks before the first write; ERR_LIMIT. */
static enum esp_status check_below(const struct rewrite *r) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < r->below.count; i++) {
        struct esp_str rest = {0};
        status = rest_of(r, &r->below.item[i], &rest);
        if (status == ESP_OK) {
            status = check_path(r->access, r->to.down.len + rest.len,
                                esp_item_text(&r->below.item[i], ID));
        }
    }
    return status;
}

/* Updates, not puts: payloads that others change meanwhile are left alone.  `path` empty: the node
 * becomes a root of `path`. */
static enum esp_status write_path(struct esp_writes *writes, struct esp_str id, struct esp_str root,
                                  struct esp_str path, const struct esp_item *old) {
    struct esp_access *a = writes->access;
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_change *change = esp_arena_calloc(a->scratch, 3, sizeof *change);
    if (!change) {
        return esp_fail_nomem(a->err);
    }
    change[0] = path.len ? esp_set(schema, ROOT, esp_s(root)) : esp_unset(schema, ROOT);
    change[1] = path.len ? esp_set(schema, PATH, esp_s(path)) : esp_unset(schema, PATH);
    if (has_depth(a->layout)) {
        change[2] = esp_set(schema, DEPTH, esp_n(path_depth(a->layout, path)));
    }
    struct esp_write write = {
        .kind = ESP_UPDATE,
        .item = esp_item_key(schema, id, 0),
        .changes = change,
        .change_count = has_depth(a->layout) ? 3 : 2,
        .condition = &writes->exists,
        .condition_count = 1,
        .old = old,
    };
    return esp_writes_add(writes, &write);
}

/* Acknowledged when it returns: what becomes of the node itself comes after that, so that a write
 * that was cut can be repeated.  It finds the node in its old place and rewrites what is left
 * below it; the rest is where it goes. */
static enum esp_status rewrite_below(const struct rewrite *r, struct esp_writes *writes) {
    enum esp_status status = esp_writes_init(writes, r->access, (size_t)r->below.count + 1);
    for (uint32_t i = 0; status == ESP_OK && i < r->below.count; i++) {
        const struct esp_item *item = &r->below.item[i];
        struct esp_str rest, path;
        status = rest_of(r, item, &rest);
        if (status == ESP_OK) {
            path = esp_access_join(r->access, r->to.down, rest, (struct esp_str){0});
            status = path.ptr ? write_path(writes, esp_item_text(item, ID), r->to.root, path, item)
                              : esp_fail_nomem(r->access->err);
        }
    }
    return status == ESP_OK ? esp_writes_flush(writes) : status;
}

/* The node's key and its new parent's, of which each may have to be looked up. */
static enum esp_status move_keys(struct rewrite *r, const struct esp_args *args,
                                 struct path_key *parent) {
    struct esp_access *a = r->access;
    struct esp_item to;
    bool look_at = !args->at.key, look_to = args->to.id.len && !args->to.key;
    enum esp_status status = ESP_OK;
    if (look_at) {
        status = esp_access_get_two(a, args->at.id, look_to ? args->to.id : (struct esp_str){0},
                                    &r->item, &to);
        r->known = true;
    } else if (look_to) {
        status = esp_access_get(a, args->to.id, &to);
    }
    if (status == ESP_OK && look_at) {
        status = read_key(a, &r->item, &r->at);
    } else if (status == ESP_OK) {
        r->at = *(const struct path_key *)args->at.key;
    }
    if (status == ESP_OK && look_to) {
        status = read_key(a, &to, parent);
    } else if (status == ESP_OK && args->to.id.len) {
        *parent = *(const struct path_key *)args->to.key;
    }
    return status == ESP_OK && look_to ? esp_access_rely(a, &to) : status;
}

/* See whether the move may be.  *nothing: the node is there already. */
static enum esp_status move_begin(struct rewrite *r, const struct esp_args *args, bool *nothing) {
    struct esp_access *a = r->access;
    struct path_key parent = {.root = {0}};
    struct esp_str *above;
    size_t count = 0;
    bool to_root = args->to.id.len == 0, below = esp_str_eq(args->at.id, args->to.id);
    enum esp_status status = move_keys(r, args, &parent);
    if (status == ESP_OK && !below && !to_root) {
        status = passes(a, &parent, args->at.id, &below);
    }
    if (status == ESP_OK && below) {
        status = esp_fail(a->err, ESP_ERR_CYCLE,
                          "'%.*s' cannot move below itself: '%.*s' is in its subtree",
                          ESP_FMT(args->at.id), ESP_FMT(args->to.id));
    }
    if (status == ESP_OK) {
        status = ancestor_ids(a, &r->at, &above, &count);
    }
    if (status != ESP_OK) {
        return status;
    }
    *nothing = to_root ? count == 0 : count && esp_str_eq(above[count - 1], args->to.id);
    return key_below(a, to_root ? NULL : &parent, args->at.id, &r->to);
}

static enum esp_status op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct rewrite r = {.id = args->at.id, .access = a};
    struct esp_writes writes;
    bool nothing = false;
    enum esp_status status = move_begin(&r, args, &nothing);
    if (status != ESP_OK || nothing) {
        return status;
    }
    struct esp_str path = stored_path(a->layout, r.to.down);
    status = check_path(a, path.len, args->at.id);
    if (status == ESP_OK) {
        status = collect_below(&r);
    }
    if (status == ESP_OK) {
        status = check_below(&r);
    }
    if (status == ESP_OK) {
        status = rewrite_below(&r, &writes);
    }
    if (status == ESP_OK) {
        status = write_path(&writes, args->at.id, r.to.root, path, r.known ? &r.item : NULL);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

/* Two entries tell whether there is one besides the root's own. */
static enum esp_status root_has_children(struct rewrite *r, bool *out) {
    struct esp_query q;
    struct esp_cursor cursor = {.set = false};
    enum esp_status status = ESP_OK;
    esp_item_list_init(&r->below, r->access);
    bool more = query_below(r->access->layout, &r->at, &q);
    q.limit = 2;
    while (status == ESP_OK && more && r->below.count == 0) {
        status = esp_session_query_page(r->access->session, &q, &cursor, &more, add_below, r,
                                        r->access->err);
    }
    *out = r->below.count > 0;
    return status;
}

/* The node's id is cut out of the ways of all below it. */
static enum esp_status op_promote(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct rewrite r = {.id = args->at.id, .access = a};
    struct esp_writes writes;
    bool children = false;
    enum esp_status status = ESP_OK;
    if (args->at.key) {
        r.at = *(const struct path_key *)args->at.key;
    } else {
        status = look_up(a, args->at.id, &r.item, &r.at);
        r.known = true;
    }
    if (status == ESP_OK && depth_of(a->layout, r.at.down) == 0) {
        status = root_has_children(&r, &children);
        if (status == ESP_OK && children) {
            status = esp_fail(a->err, ESP_ERR_REFUSED,
                              "'%.*s' is a root with children: there is no node they could go to",
                              ESP_FMT(args->at.id));
        }
    } else if (status == ESP_OK) {
        r.to = (struct path_key){r.at.root, above_of(a->layout, r.at.down)};
        status = collect_below(&r);
        if (status == ESP_OK) {
            status = rewrite_below(&r, &writes);
        }
    }
    status = esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
    return status == ESP_OK ? esp_access_delete(a, NULL, args->at.id, r.known ? &r.item : NULL)
                            : status;
}

static enum esp_status op_remove(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item;
    struct path_key key;
    struct esp_query q;
    enum esp_status status = ESP_OK;
    if (args->at.key) {
        key = *(const struct path_key *)args->at.key;
    } else {
        status = look_up(a, args->at.id, &item, &key);
    }
    if (status != ESP_OK) {
        return status;
    }
    bool some = query_below(a->layout, &key, &q);
    return esp_access_delete(a, some ? &q : NULL, args->at.id, args->at.key ? NULL : &item);
}

/* --- check ------------------------------------------------------------------------ */

struct record {
    bool present, damaged, root;
    uint32_t parent; /* number + 1; 0 = unknown */
    uint64_t tree;   /* hash of the id of the tree's root */
    uint64_t above;  /* hash of the way down to the parent, as the path has it */
    uint64_t down;   /* hash of the way that the children must have above them */
};

/* Of a way whose last part is `last`, without making its text. */
static uint64_t hash_way(struct esp_str before, struct esp_str last) {
    return esp_hash64(last.ptr, last.len, esp_hash64(before.ptr, before.len, 0));
}

static uint64_t hash_text(const struct esp_layout *l, struct esp_str way) {
    return hash_way(above_of(l, way), last_part(l, way));
}

/* What the item says, whether it is damaged, and whose child it is. */
static void read_record(const struct esp_layout *l, const struct esp_item *item,
                        struct record *record) {
    char text[ESP_WAY_ESCAPE_BYTES * ESP_ID_BYTES_MAX];
    struct esp_str id = esp_item_text(item, ID), root = esp_item_text(item, ROOT);
    struct esp_str path = esp_item_text(item, PATH);
    bool whole = is_whole(l);
    struct esp_str part = {text, esp_way_put(l, id, text)};
    *record = (struct record){.present = true};
    if (!whole && !root.ptr && !path.ptr) {
        record->root = true;
        record->tree = esp_hash64(id.ptr, id.len, 0);
        record->down = hash_text(l, l->separator);
        return;
    }
    record->damaged = !root.ptr || !is_framed(l, path) || (whole && !names_itself(l, item));
    record->tree = esp_hash64(root.ptr, root.len, 0);
    record->down = whole ? hash_text(l, path) : hash_way(path, part);
    if (!record->damaged) {
        struct esp_str above = whole ? above_of(l, path) : path;
        record->root = above.len == 0;
        record->above = hash_text(l, above);
    }
}

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct esp_check *check = ctx;
    const struct esp_layout *l = check->access->layout;
    struct esp_str id = esp_item_text(item, ID), path = esp_item_text(item, PATH);
    struct esp_id_room room;
    struct record record;
    uint32_t number, parent;
    bool escaped;
    read_record(l, item, &record);
    enum esp_status status = esp_check_number(check, id, &number);
    if (status == ESP_OK && !record.root && !record.damaged) {
        struct esp_str above = item_parent(l, item, &escaped);
        status = esp_check_number(check, escaped ? esp_way_id(l, above, &room) : above, &parent);
        record.parent = parent + 1;
    }
    if (status != ESP_OK) {
        return status;
    }
    *(struct record *)esp_check_record(check, number) = record;
    if (record.damaged) {
        status = esp_check_report(check, "bad-path", number, ESP_IDMAP_NONE,
                                  is_whole(l) ? "treeId or path is missing, or path does not end "
                                                "with the node and a separator; on most nodes: the "
                                                "table has another separator"
                                              : "Root or Path is missing, or Path is not framed by "
                                                "separators; on most nodes: the table has another "
                                                "separator");
    }
    if (status == ESP_OK && has_depth(l) &&
        esp_item_number(item, DEPTH, -1) != path_depth(l, path)) {
        status = esp_check_report(check, "wrong-depth", number, ESP_IDMAP_NONE,
                                  "the depth is not the number of ancestors in the path");
    }
    if (status == ESP_OK && record.root && is_whole(l) &&
        !esp_str_eq(esp_item_text(item, ROOT), id)) {
        status = esp_check_report(check, "wrong-tree", number, ESP_IDMAP_NONE,
                                  "treeId of a root is not its own id");
    }
    return status;
}

static enum esp_status check_node(struct esp_check *check, uint32_t number) {
    const struct record *record = esp_check_record(check, number);
    bool whole = is_whole(check->access->layout);
    if (!record->present || !record->parent) {
        return ESP_OK;
    }
    const struct record *parent = esp_check_record(check, record->parent - 1);
    if (!parent->present) {
        return esp_check_report(check, "missing-parent", number, record->parent - 1,
                                "the parent that the path names does not exist");
    }
    enum esp_status status = ESP_OK;
    if (record->above != parent->down) {
        status = esp_check_report(check, "bad-path", number, record->parent - 1,
                                  "the path does not go on from the parent's");
    }
    if (status == ESP_OK && record->tree != parent->tree) {
        status = esp_check_report(
            check, whole ? "wrong-tree" : "wrong-root", number, record->parent - 1,
            whole ? "treeId is not the parent's" : "Root is not the root of the parent's tree");
    }
    return status;
}

static enum esp_status check(struct esp_access *a, esp_finding_fn *fn, void *ctx) {
    struct esp_check c;
    esp_check_init(&c, a, sizeof(struct record), fn, ctx);
    enum esp_status status = esp_check_scan(&c, check_item);
    for (uint32_t i = 0; status == ESP_OK && i < c.ids.count; i++) {
        status = check_node(&c, i);
    }
    esp_check_fini(&c);
    return status;
}

/* --- the two layouts -------------------------------------------------------------- */

#define DEPTH_OPTION                                                                               \
    {                                                                                              \
        .name = "depth", .type = ESP_OPT_CHOICE,                                                   \
        .offset = offsetof(struct esp_layout_settings, depth), .argument = "on|off",               \
        .fallback = "on", .choices = esp_switch_names,                                             \
        .help = "off: items do not have their depth; windows and levels count ids instead"         \
    }

static const struct esp_option path_options[] = {
    ESP_WAY_SEPARATOR("/"), ESP_WAY_ESCAPE, DEPTH_OPTION, {.name = NULL}};
static const struct esp_option tree_path_options[] = {
    ESP_WAY_SEPARATOR("#"), ESP_WAY_ESCAPE, DEPTH_OPTION, {.name = NULL}};

/* Everything but names, and what tree-path does about roots. */
#define SHARED                                                                                     \
    .family = "path", .configure = configure, .view = view, .hint = hint,                          \
    .item_count = item_count, .validate = validate, .emit = emit, .locate = locate,                \
    .resolve = resolve, .check = check

#define SHARED_OPERATIONS                                                                          \
    [ESP_OP_NODE] = esp_access_node, [ESP_OP_PARENT] = op_parent, [ESP_OP_CHILDREN] = op_children, \
    [ESP_OP_SIBLINGS] = op_siblings, [ESP_OP_ANCESTORS] = op_ancestors,                            \
    [ESP_OP_DESCENDANTS] = op_descendants, [ESP_OP_WINDOW] = op_window, [ESP_OP_LEVEL] = op_level, \
    [ESP_OP_TREE] = op_tree, [ESP_OP_IS_DESCENDANT] = op_is_descendant,                            \
    [ESP_OP_INSERT] = op_insert, [ESP_OP_UPDATE] = esp_access_update, [ESP_OP_MOVE] = op_move,     \
    [ESP_OP_REMOVE] = op_remove, [ESP_OP_PROMOTE] = op_promote

const struct esp_layout_ops esp_layout_path = {
    .name = "path",
    .summary = "each node stores the way down to it; a subtree is one query by prefix",
    .schema =
        {
            .attr = {[ID] = {{"ID", 2}, ESP_TYPE_S},
                     [ROOT] = {{"Root", 4}, ESP_TYPE_S},
                     [PATH] = {{"Path", 4}, ESP_TYPE_S},
                     [DEPTH] = {{"Depth", 5}, ESP_TYPE_N}},
            .attr_count = ATTR_COUNT,
            .pk = ID,
            .sk = -1,
            .index = {[BY_PATH] = {.name = {"gsi1", 4}, .pk = ROOT, .sk = PATH}},
            .index_count = 1,
        },
    .options = path_options,
    .parent_attr = ROOT,
    .op = {SHARED_OPERATIONS},
    SHARED,
};

const struct esp_layout_ops esp_layout_tree_path = {
    .name = "tree-path",
    .summary = "path with root and node in it; ancestors are one batch, the root is in the index",
    .schema =
        {
            .attr = {[ID] = {{"nodeId", 6}, ESP_TYPE_S},
                     [ROOT] = {{"treeId", 6}, ESP_TYPE_S},
                     [PATH] = {{"path", 4}, ESP_TYPE_S},
                     [DEPTH] = {{"depth", 5}, ESP_TYPE_N}},
            .attr_count = ATTR_COUNT,
            .pk = ID,
            .sk = -1,
            .index = {[BY_PATH] = {.name = {"tree-index", 10}, .pk = ROOT, .sk = PATH}},
            .index_count = 1,
        },
    .options = tree_path_options,
    .parent_attr = -1,
    .op = {SHARED_OPERATIONS, [ESP_OP_ROOTS] = op_roots},
    SHARED,
};
