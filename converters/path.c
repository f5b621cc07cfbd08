/*
 * path: each node stores the way down to it.  `Path` is the ids of the ancestors below the
 * root, each followed by the separator, starting with it: "/" for children of the root,
 * "/V/d/" two levels further.  The node itself is not part of it.  Roots have neither Root
 * nor Path, so they are not in the index.
 *
 * Knowing a node's Root and Path (its locator's key), its children and descendants are one
 * query and its ancestors one batch of gets; by id alone a GetItem comes first.
 */
#include "converters/check.h"
#include "converters/validate.h"

enum { ID, ROOT, PATH, DEPTH, ATTR_COUNT };
enum { BY_PATH }; /* position of the index */

/* A path of 1024 bytes holds at most this many levels: an id and a separator each. */
enum { LEVELS_MAX = ESP_SK_BYTES_MAX / 2 + 2 };

struct path_key {
    struct esp_str root; /* id of the tree's root; a root's own id */
    struct esp_str path; /* len == 0: the node is a root */
};

/* --- bulk conversion -------------------------------------------------------------- */

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    (void)l, (void)f, (void)first;
    return n;
}

/* The path that grows and shrinks while nodes pass in pre-order. */
struct path_stack {
    uint32_t len[LEVELS_MAX + 1]; /* of the Path of a node at this depth */
    char text[ESP_SK_BYTES_MAX + ESP_ID_BYTES_MAX + 8];
};

/* Enter node v: the Path of its children goes on from its own.  False: over 1024 bytes. */
static bool path_enter(struct path_stack *stack, struct esp_str separator, struct esp_str id,
                       uint32_t depth) {
    if (depth == 0) {
        memcpy(stack->text, separator.ptr, separator.len);
        stack->len[1] = (uint32_t)separator.len;
        return true;
    }
    uint32_t len = stack->len[depth];
    memcpy(stack->text + len, id.ptr, id.len);
    memcpy(stack->text + len + id.len, separator.ptr, separator.len);
    size_t total = len + id.len + separator.len;
    stack->len[depth + 1 <= LEVELS_MAX ? depth + 1 : LEVELS_MAX] = (uint32_t)total;
    return total <= ESP_SK_BYTES_MAX && depth + 1 <= LEVELS_MAX;
}

/* Enter all ancestors of `first`, root first. */
static bool path_rebuild(struct path_stack *stack, struct esp_str separator,
                         const struct esp_forest *f, esp_node first) {
    esp_node chain[LEVELS_MAX];
    uint32_t n = f->depth[first];
    if (n > LEVELS_MAX) {
        return false;
    }
    esp_node v = first;
    for (uint32_t i = n; i-- > 0;) {
        v = f->parent[v];
        chain[i] = v;
    }
    bool fits = true;
    for (uint32_t i = 0; fits && i < n; i++) {
        fits = path_enter(stack, separator, esp_forest_id(f, chain[i]), i);
    }
    return fits;
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    (void)scratch;
    struct path_stack stack;
    struct esp_item item = {0};
    if (n == 0) {
        return ESP_OK;
    }
    if (!path_rebuild(&stack, l->separator, f, first)) {
        return ESP_ERR_LIMIT; /* validate says where */
    }
    item.value[DEPTH] = esp_n(0);
    item.value[ROOT] = esp_s(esp_forest_id(f, esp_forest_root(f, first)));
    item.value[PATH].s.ptr = stack.text;
    for (esp_node v = first; v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        uint32_t depth = f->depth[v];
        struct esp_str id = esp_forest_id(f, v);
        item.value[ID] = esp_s(id);
        item.value[DEPTH].n = depth;
        item.data = esp_forest_data(f, v);
        if (depth == 0) {
            item.value[ROOT] = esp_s(id);
            item.value[ROOT].type = item.value[PATH].type = ESP_TYPE_NONE;
        } else {
            item.value[ROOT].type = item.value[PATH].type = ESP_TYPE_S;
            item.value[PATH].s.len = stack.len[depth];
        }
        enum esp_status status = fn(ctx, &item);
        if (status != ESP_OK) {
            return status;
        }
        if (f->size[v] > 1 && !path_enter(&stack, l->separator, id, depth)) {
            return ESP_ERR_LIMIT;
        }
    }
    return ESP_OK;
}

static bool contains(struct esp_str text, struct esp_str part) {
    return text.len >= part.len && memmem(text.ptr, text.len, part.ptr, part.len) != NULL;
}

/* A setting with a separator that occurs in no id, as a shell takes it; NULL: none. */
static const char *free_separator(const struct esp_forest *f) {
    static const struct {
        const char *text, *shown;
    } candidates[] = {
        {"/", "'separator=/'"},         {"#", "'separator=#'"}, {"|", "'separator=|'"},
        {":", "'separator=:'"},         {"~", "'separator=~'"}, {">", "'separator=>'"},
        {"\x1f", "$'separator=\\x1f'"},
    };
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        if (!f->id_has[(unsigned char)candidates[i].text[0]]) {
            return candidates[i].shown;
        }
    }
    return NULL;
}

static enum esp_status separator_error(const struct esp_layout *l, const struct esp_forest *f,
                                       esp_node v, struct esp_error *err) {
    const char *setting = free_separator(f);
    struct esp_str id = esp_forest_id(f, v);
    return setting ? esp_validate_fail(f, v, err, ESP_ERR_INPUT,
                                       "the id '%.*s' contains the separator '%.*s'; no id "
                                       "contains the one of --set %s",
                                       ESP_FMT(id), ESP_FMT(l->separator), setting)
                   : esp_validate_fail(f, v, err, ESP_ERR_INPUT,
                                       "the id '%.*s' contains the separator '%.*s', and every "
                                       "usual one occurs in some id: find one that does not and "
                                       "give it with --set separator=C",
                                       ESP_FMT(id), ESP_FMT(l->separator));
}

static enum esp_status path_error(const struct esp_forest *f, esp_node v, size_t bytes,
                                  struct esp_error *err) {
    struct esp_str id = esp_forest_id(f, v);
    return esp_validate_fail(f, v, err, ESP_ERR_LIMIT,
                             "the path of '%.*s' at depth %u has %zu bytes; a sort key has at most "
                             "%d: use shorter ids or another layout (replica, nested-set, "
                             "adjacency)",
                             ESP_FMT(id), f->depth[v], bytes, ESP_SK_BYTES_MAX);
}

/* Node by node: a separator inside an id, a path that is too long. */
static enum esp_status validate_paths(const struct esp_layout *l, const struct esp_forest *f,
                                      struct esp_error *err) {
    uint32_t len[LEVELS_MAX + 2] = {0};
    struct esp_str sep = l->separator;
    for (esp_node v = 0; v < f->count; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        struct esp_str id = esp_forest_id(f, v);
        uint32_t depth = f->depth[v];
        if (contains(id, sep)) {
            return separator_error(l, f, v, err);
        }
        if (depth > 0 && len[depth] > ESP_SK_BYTES_MAX) {
            return path_error(f, v, len[depth], err);
        }
        /* A path that fits has fewer levels than `len` has room for. */
        len[depth + 1] = (uint32_t)(sep.len + (depth ? len[depth] + id.len : 0));
    }
    return ESP_OK;
}

static enum esp_status validate(const struct esp_layout *l, const struct esp_forest *f,
                                struct esp_error *err) {
    /* Most forests can be told to be fine without a look at their nodes. */
    bool separated = !f->id_has[(unsigned char)l->separator.ptr[0]];
    uint64_t path_max = (uint64_t)f->depth_max * (f->id_len_max + l->separator.len);
    enum esp_status status =
        separated && path_max <= ESP_SK_BYTES_MAX ? ESP_OK : validate_paths(l, f, err);
    return status == ESP_OK ? esp_validate_items(l, f, err) : status;
}

/* --- naming nodes ----------------------------------------------------------------- */

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    struct path_key *key = esp_arena_calloc(arena, 1, sizeof *key);
    struct path_stack stack;
    if (!key) {
        return ESP_ERR_NOMEM;
    }
    if (!path_rebuild(&stack, l->separator, f, v)) {
        return ESP_ERR_LIMIT;
    }
    *out = (struct esp_locator){esp_forest_id(f, v), key};
    key->root = esp_forest_id(f, esp_forest_root(f, v));
    if (f->depth[v] > 0) {
        key->path = esp_arena_dup(arena, (struct esp_str){stack.text, stack.len[f->depth[v]]});
        return key->path.ptr ? ESP_OK : ESP_ERR_NOMEM;
    }
    return ESP_OK;
}

static struct path_key key_of(const struct esp_item *item) {
    struct esp_str root = esp_item_text(item, ROOT), path = esp_item_text(item, PATH);
    return root.ptr && path.ptr ? (struct path_key){root, path}
                                : (struct path_key){.root = esp_item_text(item, ID)};
}

/* A root has no path; any other begins and ends with the separator. */
static bool is_framed(struct esp_str path, struct esp_str separator) {
    return path.ptr == NULL ||
           (path.len >= separator.len && memcmp(path.ptr, separator.ptr, separator.len) == 0 &&
            memcmp(path.ptr + path.len - separator.len, separator.ptr, separator.len) == 0);
}

static enum esp_status read_key(struct esp_access *a, const struct esp_item *item,
                                struct path_key *key) {
    *key = key_of(item);
    if (is_framed(key->path, a->layout->separator)) {
        return ESP_OK;
    }
    return esp_fail(
        a->err, ESP_ERR_REFUSED,
        "the path '%.*s' of '%.*s' does not begin and end with the separator '%.*s': the "
        "table was made with another one, or is damaged",
        ESP_FMT(key->path), ESP_FMT(esp_item_text(item, ID)), ESP_FMT(a->layout->separator));
}

static enum esp_status resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    struct esp_item item;
    enum esp_status status = esp_access_get(a, id, &item);
    if (status != ESP_OK) {
        return status;
    }
    struct path_key *key = esp_arena_alloc(a->scratch, sizeof *key);
    if (!key) {
        return esp_fail_nomem(a->err);
    }
    *out = (struct esp_locator){esp_item_text(&item, ID), key};
    return read_key(a, &item, key);
}

/* The key of a locator, looked up if it has none. */
static enum esp_status key_at(struct esp_access *a, const struct esp_locator *at,
                              struct path_key *key) {
    struct esp_locator found = *at;
    enum esp_status status = at->key ? ESP_OK : resolve(a, at->id, &found);
    if (status == ESP_OK) {
        *key = *(const struct path_key *)found.key;
    }
    return status;
}

/* The id the path ends with: the parent's. */
static struct esp_str parent_of(const struct path_key *key, struct esp_str separator) {
    struct esp_str path = key->path;
    if (path.len < 2 * separator.len + 1 || !is_framed(path, separator)) {
        return path.len ? key->root : (struct esp_str){"", 0};
    }
    path.len -= separator.len;
    size_t start = path.len;
    while (start > separator.len &&
           memcmp(path.ptr + start - separator.len, separator.ptr, separator.len) != 0) {
        start--;
    }
    return (struct esp_str){path.ptr + start, path.len - start};
}

/* Separators in a path: the depth of the node it belongs to. */
static uint32_t depth_of(struct esp_str path, struct esp_str separator) {
    uint32_t n = 0;
    if (path.len == 0) {
        return 0;
    }
    for (const char *at = path.ptr, *end = path.ptr + path.len;
         (at = memmem(at, (size_t)(end - at), separator.ptr, separator.len)); at += separator.len) {
        n++;
    }
    return n;
}

static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    struct path_key key = key_of(item);
    *out = (struct esp_node_view){
        .id = esp_item_text(item, ID),
        .parent_id = parent_of(&key, l->separator),
        .depth = esp_item_number(item, DEPTH, -1),
        .data = item->data,
    };
    return out->id.ptr != NULL;
}

/* The Path of a node's children. */
static struct esp_str path_below(struct esp_access *a, const struct path_key *key,
                                 struct esp_str id) {
    struct esp_str sep = a->layout->separator;
    return key->path.len == 0 ? sep : esp_access_join(a, key->path, id, sep);
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
    struct path_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.path.len == 0) {
        return status;
    }
    struct esp_args up = {.at.id = parent_of(&key, a->layout->separator)};
    return op_node(a, &up, fn, ctx);
}

/* A query of everything below the node. */
static enum esp_status query_below(struct esp_access *a, const struct path_key *key,
                                   struct esp_str id, struct esp_query *q) {
    *q = (struct esp_query){.index = BY_PATH, .pk = esp_s(key->root), .op = ESP_ANY};
    if (key->path.len) { /* below a root is everything in its partition */
        q->op = ESP_PREFIX;
        q->lo = esp_s(path_below(a, key, id));
    }
    return q->op == ESP_ANY || q->lo.s.ptr ? ESP_OK : esp_fail_nomem(a->err);
}

static enum esp_status query_path(struct esp_access *a, const struct path_key *key,
                                  struct esp_str path, struct esp_str skip, esp_node_fn *fn,
                                  void *ctx) {
    struct esp_query q = {
        .index = BY_PATH, .pk = esp_s(key->root), .op = ESP_EQ, .lo = esp_s(path)};
    return path.ptr ? esp_access_query(a, &q, skip, fn, ctx, NULL) : esp_fail_nomem(a->err);
}

static enum esp_status op_children(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct path_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    return status == ESP_OK
               ? query_path(a, &key, path_below(a, &key, args->at.id), (struct esp_str){0}, fn, ctx)
               : status;
}

static enum esp_status op_siblings(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct path_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    return status == ESP_OK && key.path.len ? query_path(a, &key, key.path, args->at.id, fn, ctx)
                                            : status;
}

/* The ids of all ancestors, root first, in the scratch arena. */
static enum esp_status split(struct esp_access *a, const struct path_key *key, struct esp_str **out,
                             size_t *count) {
    struct esp_str sep = a->layout->separator, path = key->path;
    struct esp_str *id = esp_arena_calloc(a->scratch, depth_of(path, sep) + 1, sizeof *id);
    *out = id;
    *count = 0;
    if (!id) {
        return esp_fail_nomem(a->err);
    }
    if (path.len) {
        id[(*count)++] = key->root;
    }
    for (size_t start = sep.len; start < path.len;) {
        const char *end = memmem(path.ptr + start, path.len - start, sep.ptr, sep.len);
        size_t len = end ? (size_t)(end - path.ptr) - start : path.len - start;
        id[(*count)++] = (struct esp_str){path.ptr + start, len};
        start += len + sep.len;
    }
    return ESP_OK;
}

static enum esp_status op_ancestors(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct path_key key;
    struct esp_str *id;
    size_t count;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status == ESP_OK) {
        status = split(a, &key, &id, &count);
    }
    return status == ESP_OK ? esp_access_get_ordered(a, id, count, fn, ctx) : status;
}

static enum esp_status op_is_descendant(struct esp_access *a, const struct esp_args *args,
                                        esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct path_key key;
    struct esp_str *id;
    size_t count;
    bool to_exists = args->to.key != NULL;
    a->value = 0;
    if (args->at.key) {
        key = *(const struct path_key *)args->at.key;
    } else {
        struct esp_item at, to;
        enum esp_status status = esp_access_get_two(
            a, args->at.id, to_exists ? (struct esp_str){0} : args->to.id, &at, &to);
        if (status == ESP_OK) {
            status = read_key(a, &at, &key);
        }
        if (status != ESP_OK) {
            return status;
        }
        to_exists = true;
    }
    enum esp_status status = split(a, &key, &id, &count);
    for (size_t i = 0; status == ESP_OK && i < count; i++) {
        a->value |= esp_str_eq(id[i], args->to.id);
    }
    return status == ESP_OK && !a->value && !to_exists ? esp_access_exists(a, args->to.id) : status;
}

static enum esp_status op_descendants(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    struct path_key key;
    struct esp_query q;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status == ESP_OK) {
        status = query_below(a, &key, args->at.id, &q);
    }
    return status == ESP_OK ? esp_access_query(a, &q, (struct esp_str){0}, fn, ctx, NULL) : status;
}

/* Depths lo to hi (absolute) below a node, whose own depth is less than lo. */
static enum esp_status query_depths(struct esp_access *a, const struct path_key *key,
                                    struct esp_str id, uint32_t lo, uint32_t hi, esp_node_fn *fn,
                                    void *ctx, uint64_t *count) {
    struct esp_query q;
    struct esp_condition filter = {
        .name = a->layout->schema.attr[DEPTH].name,
        .op = hi == UINT32_MAX ? ESP_GE : ESP_BETWEEN,
        .lo = esp_n(lo),
        .hi = esp_n(hi),
    };
    uint32_t depth = depth_of(key->path, a->layout->separator);
    enum esp_status status = query_below(a, key, id, &q);
    if (status != ESP_OK) {
        return status;
    }
    if (lo == depth + 1 && hi == lo) { /* the children: their Path says so, without a filter */
        q.op = ESP_EQ;
        q.lo = esp_s(path_below(a, key, id));
    } else if (lo > depth + 1 || hi != UINT32_MAX) {
        q.filter = &filter;
        q.filter_count = 1;
    }
    return q.op == ESP_ANY || q.lo.s.ptr
               ? esp_access_query(a, &q, (struct esp_str){0}, fn, ctx, count)
               : esp_fail_nomem(a->err);
}

static enum esp_status op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct path_key key;
    if (args->at.key) {
        key = *(const struct path_key *)args->at.key;
    }
    if (!args->at.key || args->lo == 0) { /* one GetItem is look-up and answer */
        struct esp_item item;
        enum esp_status status = esp_access_get(a, args->at.id, &item);
        if (status == ESP_OK) {
            status = read_key(a, &item, &key);
        }
        if (status == ESP_OK && args->lo == 0) {
            status = esp_access_pass(a, &item, fn, ctx);
        }
        if (status != ESP_OK) {
            return status;
        }
    }
    if (args->hi == 0) {
        return ESP_OK;
    }
    uint32_t depth = depth_of(key.path, a->layout->separator);
    uint64_t lo = (uint64_t)depth + (args->lo ? args->lo : 1), hi = (uint64_t)depth + args->hi;
    return query_depths(a, &key, args->at.id, lo < UINT32_MAX ? (uint32_t)lo : UINT32_MAX,
                        args->hi == UINT32_MAX || hi >= UINT32_MAX ? UINT32_MAX : (uint32_t)hi, fn,
                        ctx, NULL);
}

/* A root's id is its key: no look-up is needed. */
static enum esp_status op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct path_key key = {.root = args->at.id};
    uint64_t count;
    if (args->lo == 0) {
        return op_node(a, args, fn, ctx);
    }
    enum esp_status status =
        query_depths(a, &key, args->at.id, args->lo, args->lo, fn, ctx, &count);
    return status == ESP_OK && count == 0 && !args->at.key ? esp_access_exists(a, args->at.id)
                                                           : status;
}

static enum esp_status op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct path_key key = {.root = args->at.id};
    struct esp_args below = {.at = {args->at.id, &key}};
    enum esp_status status = op_node(a, args, fn, ctx);
    return status == ESP_OK ? op_descendants(a, &below, fn, ctx) : status;
}

/* --- writes ----------------------------------------------------------------------- */

static enum esp_status check_path(struct esp_access *a, struct esp_str path, struct esp_str id) {
    return path.len <= ESP_SK_BYTES_MAX
               ? ESP_OK
               : esp_fail(a->err, ESP_ERR_LIMIT,
                          "the path of '%.*s' would have %zu bytes; a sort key has at most %d",
                          ESP_FMT(id), path.len, ESP_SK_BYTES_MAX);
}

static enum esp_status op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct esp_str sep = a->layout->separator;
    struct esp_item item = {.data = args->data};
    if (contains(args->id, sep)) {
        return esp_fail(a->err, ESP_ERR_INPUT, "the id '%.*s' contains the separator '%.*s'",
                        ESP_FMT(args->id), ESP_FMT(sep));
    }
    item.value[ID] = esp_s(args->id);
    item.value[DEPTH] = esp_n(0);
    if (args->to.id.len) {
        struct path_key parent;
        enum esp_status status = key_at(a, &args->to, &parent);
        if (status != ESP_OK) {
            return status;
        }
        struct esp_str path = path_below(a, &parent, args->to.id);
        status = path.ptr ? check_path(a, path, args->id) : esp_fail_nomem(a->err);
        if (status != ESP_OK) {
            return status;
        }
        item.value[ROOT] = esp_s(parent.root);
        item.value[PATH] = esp_s(path);
        item.value[DEPTH].n = depth_of(path, sep);
    }
    return esp_access_insert(a, &item, args->id);
}

/* A move: what Root and Path were and become. */
struct move {
    struct path_key at, to;            /* the node's own key, now and then */
    struct esp_str below_at, below_to; /* the Path of its children, now and then */
    struct esp_item item;              /* the node, if `known` */
    bool known;
    struct esp_item_list below;
};

/* Does the way down to a node with this key pass `id`?  The prefix of the path would not tell
 * of a descendant that a torn move has moved already. */
static enum esp_status passes(struct esp_access *a, const struct path_key *key, struct esp_str id,
                              bool *out) {
    struct esp_str *way;
    size_t count;
    enum esp_status status = split(a, key, &way, &count);
    for (size_t i = 0; status == ESP_OK && i < count; i++) {
        *out = *out || esp_str_eq(way[i], id);
    }
    return status;
}

/* Look both nodes up and see whether the move may be.  *nothing: it is there already. */
static enum esp_status move_begin(struct esp_access *a, const struct esp_args *args, struct move *m,
                                  bool *nothing) {
    struct esp_str sep = a->layout->separator, none = {0};
    bool to_root = args->to.id.len == 0, look_at = !args->at.key;
    bool look_to = !to_root && !args->to.key;
    struct path_key parent = {0};
    struct esp_item parent_item;
    enum esp_status status = ESP_OK;
    if (look_at) {
        status = esp_access_get_two(a, args->at.id, look_to ? args->to.id : none, &m->item,
                                    &parent_item);
        m->known = true;
    } else if (look_to) {
        status = esp_access_get(a, args->to.id, &parent_item);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (look_at) {
        status = read_key(a, &m->item, &m->at);
    } else {
        m->at = *(const struct path_key *)args->at.key;
    }
    if (status == ESP_OK && look_to) {
        status = read_key(a, &parent_item, &parent);
    } else if (!to_root && !look_to) {
        parent = *(const struct path_key *)args->to.key;
    }
    if (status != ESP_OK) {
        return status;
    }
    m->below_at = path_below(a, &m->at, args->at.id);
    m->to = (struct path_key){.root = to_root ? args->at.id : parent.root};
    m->to.path = to_root ? none : path_below(a, &parent, args->to.id);
    m->below_to = path_below(a, &m->to, args->at.id);
    if (!m->below_at.ptr || !m->below_to.ptr || (!to_root && !m->to.path.ptr)) {
        return esp_fail_nomem(a->err);
    }
    bool below = esp_str_eq(args->at.id, args->to.id);
    status = below || to_root ? ESP_OK : passes(a, &parent, args->at.id, &below);
    if (status != ESP_OK) {
        return status;
    }
    if (below) {
        return esp_fail(a->err, ESP_ERR_CYCLE,
                        "'%.*s' cannot move below itself: '%.*s' is in its "
                        "subtree",
                        ESP_FMT(args->at.id), ESP_FMT(args->to.id));
    }
    *nothing = to_root ? m->at.path.len == 0
                       : m->at.path.len && esp_str_eq(parent_of(&m->at, sep), args->to.id);
    return ESP_OK;
}

/* Where a descendant goes: the new way down to the node, then its old way on. */
static struct esp_str moved_path(struct esp_access *a, const struct move *m,
                                 const struct esp_item *item) {
    struct esp_str path = esp_item_text(item, PATH);
    struct esp_str rest = {path.ptr + m->below_at.len, path.len - m->below_at.len};
    return esp_access_join(a, m->below_to, rest, (struct esp_str){0});
}

/* All checks before the first write; ERR_LIMIT. */
static enum esp_status move_check(struct esp_access *a, const struct esp_args *args,
                                  const struct move *m) {
    enum esp_status status = check_path(a, m->to.path, args->at.id);
    for (uint32_t i = 0; status == ESP_OK && i < m->below.count; i++) {
        struct esp_str path = esp_item_text(&m->below.item[i], PATH);
        path.len = path.len - m->below_at.len + m->below_to.len;
        status = check_path(a, path, esp_item_text(&m->below.item[i], ID));
    }
    return status;
}

static enum esp_status move_one(struct esp_access *a, struct esp_writes *writes, struct esp_str id,
                                const struct path_key *to, const struct esp_item *old) {
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_change *change = esp_arena_calloc(a->scratch, 3, sizeof *change);
    if (!change || (to->path.len && !to->path.ptr)) {
        return esp_fail_nomem(a->err);
    }
    bool root = to->path.len == 0;
    change[0] = root ? esp_unset(schema, ROOT) : esp_set(schema, ROOT, esp_s(to->root));
    change[1] = root ? esp_unset(schema, PATH) : esp_set(schema, PATH, esp_s(to->path));
    change[2] = esp_set(schema, DEPTH, esp_n(depth_of(to->path, a->layout->separator)));
    struct esp_write write = {
        .kind = ESP_UPDATE,
        .item = esp_item_key(schema, id, 0),
        .changes = change,
        .change_count = 3,
        .condition = &writes->exists,
        .condition_count = 1,
        .old = old,
    };
    return esp_writes_add(writes, &write);
}

/* Updates, not puts: payloads that others change meanwhile are left alone.  The node itself is
 * written when all below it has arrived, so that the same move can be repeated after a cut: it
 * finds the node in its old place and moves what is left there; the rest is where it goes. */
static enum esp_status op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct move m = {0};
    struct esp_writes writes;
    struct esp_query q;
    bool nothing = false;
    esp_item_list_init(&m.below, a);
    enum esp_status status = move_begin(a, args, &m, &nothing);
    if (status != ESP_OK || nothing) {
        return status;
    }
    status = query_below(a, &m.at, args->at.id, &q);
    if (status == ESP_OK) {
        status = esp_session_query(a->session, &q, esp_item_list_add, &m.below, a->err);
    }
    if (status == ESP_OK) {
        status = move_check(a, args, &m);
    }
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, (size_t)m.below.count + 1);
    }
    for (uint32_t i = 0; status == ESP_OK && i < m.below.count; i++) {
        const struct esp_item *item = &m.below.item[i];
        struct path_key to = {m.to.root, moved_path(a, &m, item)};
        status = to.path.ptr ? move_one(a, &writes, esp_item_text(item, ID), &to, item)
                             : esp_fail_nomem(a->err);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    if (status == ESP_OK) {
        status = move_one(a, &writes, args->at.id, &m.to, m.known ? &m.item : NULL);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

static enum esp_status op_remove(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item;
    struct path_key key = {0};
    struct esp_query q;
    enum esp_status status = ESP_OK;
    if (args->at.key) {
        key = *(const struct path_key *)args->at.key;
    } else {
        status = esp_access_get(a, args->at.id, &item);
        if (status == ESP_OK) {
            status = read_key(a, &item, &key);
        }
    }
    if (status == ESP_OK) {
        status = query_below(a, &key, args->at.id, &q);
    }
    return status == ESP_OK ? esp_access_delete(a, &q, args->at.id, args->at.key ? NULL : &item)
                            : status;
}

/* --- check ------------------------------------------------------------------------ */

struct record {
    bool present, damaged, root;
    uint32_t parent; /* number + 1; 0 = unknown */
    uint64_t tree;   /* hash of the id of the tree's root */
    uint64_t path;   /* hash of Path */
    uint64_t below;  /* hash of the Path that its children must have */
};

/* Of a Path that ends with `last`, the parent's id: made so that the parent can make the same
 * from its own path and id. */
static uint64_t hash_path(struct esp_str path, struct esp_str last, struct esp_str sep) {
    if (path.len < sep.len + last.len + sep.len) {
        return 0; /* the children of a root */
    }
    return esp_hash64(last.ptr, last.len, esp_hash64(path.ptr, path.len - last.len - sep.len, 0));
}

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct esp_check *check = ctx;
    const struct esp_layout *l = check->access->layout;
    struct esp_str id = esp_item_text(item, ID), sep = l->separator;
    struct esp_str root = esp_item_text(item, ROOT), path = esp_item_text(item, PATH);
    struct path_key key = key_of(item);
    struct record record = {.present = true, .root = !root.ptr && !path.ptr};
    uint32_t number, parent = ESP_IDMAP_NONE;
    bool framed = path.len >= sep.len && memcmp(path.ptr, sep.ptr, sep.len) == 0 &&
                  memcmp(path.ptr + path.len - sep.len, sep.ptr, sep.len) == 0;
    record.damaged = !record.root && (!root.ptr || !framed || parent_of(&key, sep).len == 0);
    enum esp_status status = esp_check_number(check, id, &number);
    if (status == ESP_OK && !record.root && !record.damaged) {
        status = esp_check_number(check, parent_of(&key, sep), &parent);
        record.parent = parent + 1;
    }
    if (status != ESP_OK) {
        return status;
    }
    record.tree = esp_hash64(key.root.ptr, key.root.len, 0);
    record.path = hash_path(path, parent_of(&key, sep), sep);
    record.below = record.root ? 0 : esp_hash64(id.ptr, id.len, esp_hash64(path.ptr, path.len, 0));
    *(struct record *)esp_check_record(check, number) = record;
    if (record.damaged) {
        status = esp_check_report(check, "bad-path", number, ESP_IDMAP_NONE,
                                  "Root or Path is missing, or Path is not framed by separators");
    }
    if (status == ESP_OK && esp_item_number(item, DEPTH, -1) != depth_of(path, sep)) {
        status = esp_check_report(check, "wrong-depth", number, ESP_IDMAP_NONE,
                                  "Depth is not the number of ancestors in Path");
    }
    return status;
}

static enum esp_status check_node(struct esp_check *check, uint32_t number) {
    const struct record *record = esp_check_record(check, number);
    if (!record->present || !record->parent) {
        return ESP_OK;
    }
    const struct record *parent = esp_check_record(check, record->parent - 1);
    if (!parent->present) {
        return esp_check_report(check, "missing-parent", number, record->parent - 1,
                                "the parent that Path names does not exist");
    }
    enum esp_status status = ESP_OK;
    if (record->path != parent->below) {
        status = esp_check_report(check, "bad-path", number, record->parent - 1,
                                  "Path is not the parent's path followed by the parent's id");
    }
    if (status == ESP_OK && record->tree != parent->tree) {
        status = esp_check_report(check, "wrong-root", number, record->parent - 1,
                                  "Root is not the root of the parent's tree");
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

static const struct esp_option options[] = {
    {.name = "separator",
     .type = ESP_OPT_STRING,
     .offset = offsetof(struct esp_layout_settings, separator),
     .argument = "C",
     .fallback = "/",
     .help = "the character between the ids of a path; no id may contain it"},
    {.name = NULL},
};

extern const struct esp_layout_ops esp_layout_path;
const struct esp_layout_ops esp_layout_path = {
    .name = "path",
    .family = "path",
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
    .options = options,
    .parent_attr = ROOT,
    .view = view,
    .item_count = item_count,
    .validate = validate,
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
            [ESP_OP_IS_DESCENDANT] = op_is_descendant,
            [ESP_OP_INSERT] = op_insert,
            [ESP_OP_UPDATE] = esp_access_update,
            [ESP_OP_MOVE] = op_move,
            [ESP_OP_REMOVE] = op_remove,
        },
    .check = check,
};
