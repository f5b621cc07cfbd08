/*
 * entity: one partition for each node, with an item for the node itself (META) and one for each
 * end of each link: PARENT#parent at the child, CHILD#child at the parent.  Ids stand behind the
 * first separator and may contain it.
 *
 * A node with its parent is one query (META and PARENT stand side by side), so are the ids of its
 * children; payloads of other nodes come from their META items in one batch.  Both ends of a link
 * change in one transaction, so that they cannot tear.
 */
#include "converters/check.h"
#include "converters/validate.h"

#include <stdlib.h>

enum { PK, SK, DEPTH, PARENT_REF, CHILD_REF, ATTR_COUNT };
enum {
    PREFIX_BYTES_MAX = 255,
    KEY_BYTES_MAX = PREFIX_BYTES_MAX + 8 + ESP_ID_BYTES_MAX,
    OVERLAP_MAX = 16384, /* queries or gets in one call: bounds the memory of wide levels */
    TRANSACT_MAX = 100,
};

static const struct esp_str meta = {"META", 4}, parent_kind = {"PARENT", 6},
                            child_kind = {"CHILD", 5};

struct entity_key {
    struct esp_str parent; /* len == 0: the node is a root */
    int64_t depth;         /* -1: not known */
};

/* --- keys ------------------------------------------------------------------------- */

static bool has_depth(const struct esp_layout *l) {
    return l->settings.depth == ESP_SWITCH_ON;
}

static struct esp_str prefix_of(const struct esp_layout *l) {
    return esp_str_from(l->settings.node);
}

/* "head#id" into `out`, which has room for it. */
static struct esp_str put_key(char *out, struct esp_str head, struct esp_str separator,
                              struct esp_str id) {
    struct esp_str part[] = {head, separator, id}, key = {out, 0};
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        if (part[i].len) {
            memcpy(out + key.len, part[i].ptr, part[i].len);
            key.len += part[i].len;
        }
    }
    return key;
}

static struct esp_str make_key(const struct esp_layout *l, struct esp_arena *arena,
                               struct esp_str head, struct esp_str id) {
    char *text = esp_arena_alloc(arena, head.len + l->separator.len + id.len + 1);
    return text ? put_key(text, head, l->separator, id) : (struct esp_str){0};
}

/* The id behind "head#"; ptr == NULL: the text is something else. */
static struct esp_str id_behind(struct esp_str text, struct esp_str head,
                                struct esp_str separator) {
    size_t skip = head.len + separator.len;
    bool is = text.ptr && text.len > skip && memcmp(text.ptr, head.ptr, head.len) == 0 &&
              memcmp(text.ptr + head.len, separator.ptr, separator.len) == 0;
    return is ? (struct esp_str){text.ptr + skip, text.len - skip} : (struct esp_str){0};
}

/* What an item is: tables of this kind hold other things beside the tree. */
enum kind { OTHER, META, PARENT, CHILD };

static enum kind kind_of(const struct esp_layout *l, const struct esp_item *item,
                         struct esp_str *id, struct esp_str *other) {
    struct esp_str sk = esp_item_text(item, SK);
    *id = id_behind(esp_item_text(item, PK), prefix_of(l), l->separator);
    *other = (struct esp_str){0};
    if (!id->ptr || !sk.ptr) {
        return OTHER;
    }
    if (esp_str_eq(sk, meta)) {
        return META;
    }
    *other = id_behind(sk, parent_kind, l->separator);
    if (other->ptr) {
        return PARENT;
    }
    *other = id_behind(sk, child_kind, l->separator);
    return other->ptr ? CHILD : OTHER;
}

static enum esp_status node_key(const struct esp_layout *l, struct esp_str id,
                                struct esp_arena *arena, struct esp_item *key) {
    struct esp_str pk = make_key(l, arena, prefix_of(l), id);
    *key = (struct esp_item){.value = {[PK] = esp_s(pk), [SK] = esp_s(meta)}};
    return pk.ptr ? ESP_OK : ESP_ERR_NOMEM;
}

/* The item by which `at` knows `other`, its parent or a child of it. */
static enum esp_status make_link(struct esp_access *a, enum kind kind, struct esp_str at,
                                 struct esp_str other, struct esp_item *out) {
    const struct esp_layout *l = a->layout;
    struct esp_str pk = make_key(l, a->scratch, prefix_of(l), at);
    struct esp_str sk = make_key(l, a->scratch, kind == PARENT ? parent_kind : child_kind, other);
    *out = (struct esp_item){.value = {[PK] = esp_s(pk), [SK] = esp_s(sk)}};
    if (l->settings.refs) {
        out->value[kind == PARENT ? PARENT_REF : CHILD_REF] = esp_s(other);
    }
    return pk.ptr && sk.ptr ? ESP_OK : esp_fail_nomem(a->err);
}

/* Names that are not stored are not taken, and no key may look like one of espalier's own. */
static enum esp_status configure(struct esp_layout *l, struct esp_error *err) {
    char text[PREFIX_BYTES_MAX + 8];
    struct esp_str reserved = ESP_STR(ESP_RESERVED_PREFIX), prefix = prefix_of(l);
    if (prefix.len > PREFIX_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_USAGE, "--set node=%.*s: must have at most %d bytes",
                        ESP_FMT(prefix), PREFIX_BYTES_MAX);
    }
    struct esp_str head = put_key(text, prefix, l->separator, (struct esp_str){0});
    size_t len = head.len < reserved.len ? head.len : reserved.len;
    if (memcmp(head.ptr, reserved.ptr, len) == 0) {
        return esp_fail(err, ESP_ERR_USAGE,
                        "--set node=%.*s: keys that begin with '%.*s' could be espalier's own",
                        ESP_FMT(prefix), ESP_FMT(head));
    }
    if (!l->settings.refs) {
        l->schema.attr_count = has_depth(l) ? PARENT_REF : DEPTH;
    }
    return ESP_OK;
}

/* --- bulk conversion -------------------------------------------------------------- */

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    (void)l;
    uint64_t count = n;
    for (esp_node v = first; v < first + n; v++) {
        count += f->parent[v] == ESP_NODE_NONE ? 0 : 2;
    }
    return count;
}

/* Both ends of a node's link to its parent. */
static enum esp_status emit_links(const struct esp_layout *l, struct esp_str id,
                                  struct esp_str parent, esp_item_fn *fn, void *ctx) {
    char pk[KEY_BYTES_MAX], sk[KEY_BYTES_MAX];
    struct esp_item item = {0};
    item.value[PK] = esp_s(put_key(pk, prefix_of(l), l->separator, id));
    item.value[SK] = esp_s(put_key(sk, parent_kind, l->separator, parent));
    if (l->settings.refs) {
        item.value[PARENT_REF] = esp_s(parent);
    }
    enum esp_status status = fn(ctx, &item);
    if (status != ESP_OK) {
        return status;
    }
    item.value[PARENT_REF].type = ESP_TYPE_NONE;
    item.value[PK] = esp_s(put_key(pk, prefix_of(l), l->separator, parent));
    item.value[SK] = esp_s(put_key(sk, child_kind, l->separator, id));
    if (l->settings.refs) {
        item.value[CHILD_REF] = esp_s(id);
    }
    return fn(ctx, &item);
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    (void)scratch;
    char pk[KEY_BYTES_MAX];
    struct esp_item item = {.value = {[SK] = esp_s(meta)}};
    for (esp_node v = first; v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        struct esp_str id = esp_forest_id(f, v);
        item.value[PK] = esp_s(put_key(pk, prefix_of(l), l->separator, id));
        if (has_depth(l)) {
            item.value[DEPTH] = esp_n(f->depth[v]);
        }
        item.data = esp_forest_data(f, v);
        enum esp_status status = fn(ctx, &item);
        if (status == ESP_OK && f->parent[v] != ESP_NODE_NONE) {
            status = emit_links(l, id, esp_forest_id(f, f->parent[v]), fn, ctx);
        }
        if (status != ESP_OK) {
            return status;
        }
    }
    return ESP_OK;
}

/* An id must fit behind the prefixes: a node's in the partition key, a child's and a parent's
 * in the sort keys of the links. */
static enum esp_status validate_ids(const struct esp_layout *l, const struct esp_forest *f,
                                    struct esp_error *err) {
    size_t node = prefix_of(l).len + l->separator.len;
    for (esp_node v = 0; v < f->count; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        struct esp_str id = esp_forest_id(f, v);
        bool child = f->parent[v] != ESP_NODE_NONE, parent = f->size[v] > 1;
        struct esp_str kind = parent ? parent_kind : child_kind;
        size_t sk = child || parent ? kind.len + l->separator.len + id.len : 0;
        if (id.len + node > ESP_PK_BYTES_MAX) {
            return esp_validate_fail(f, v, err, ESP_ERR_LIMIT,
                                     "the partition key %.*s%.*s... has %zu bytes, DynamoDB takes "
                                     "at most %d: use a shorter id than '%.*s'",
                                     ESP_FMT(prefix_of(l)), ESP_FMT(l->separator), id.len + node,
                                     ESP_PK_BYTES_MAX, ESP_FMT(id));
        }
        if (sk > ESP_SK_BYTES_MAX) {
            return esp_validate_fail(f, v, err, ESP_ERR_LIMIT,
                                     "the sort key %.*s%.*s... of a link has %zu bytes, DynamoDB "
                                     "takes at most %d: use the layout adjacency, or a shorter id "
                                     "than '%.*s'",
                                     ESP_FMT(kind), ESP_FMT(l->separator), sk, ESP_SK_BYTES_MAX,
                                     ESP_FMT(id));
        }
    }
    return ESP_OK;
}

static enum esp_status validate(const struct esp_layout *l, const struct esp_forest *f,
                                struct esp_error *err) {
    size_t pk = f->id_len_max + prefix_of(l).len + l->separator.len;
    size_t sk = f->id_len_max + parent_kind.len + l->separator.len;
    bool fits = pk <= ESP_PK_BYTES_MAX && sk <= ESP_SK_BYTES_MAX;
    enum esp_status status = fits ? ESP_OK : validate_ids(l, f, err);
    return status == ESP_OK ? esp_validate_items(l, f, err) : status;
}

/* --- naming nodes ----------------------------------------------------------------- */

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    (void)l;
    struct entity_key *key = esp_arena_calloc(arena, 1, sizeof *key);
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

static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    struct esp_str id, other;
    enum kind kind = kind_of(l, item, &id, &other);
    *out = (struct esp_node_view){.id = id, .depth = -1, .data = item->data};
    if (has_depth(l)) {
        out->depth = esp_item_number(item, DEPTH, -1);
    }
    return kind == META;
}

static enum esp_relation relation(const struct esp_layout *l, const struct esp_item *item,
                                  struct esp_node_view *out) {
    struct esp_str id, other;
    enum kind kind = kind_of(l, item, &id, &other);
    *out = (struct esp_node_view){.id = id, .parent_id = other, .depth = -1};
    if (kind == CHILD) {
        out->id = other;
        out->parent_id = id;
    }
    return kind == PARENT  ? ESP_RELATION_OWN
           : kind == CHILD ? ESP_RELATION_COPY
                           : ESP_RELATION_NONE;
}

/* A node with its parent: META and PARENT are what sorts from META on. */
struct own {
    struct esp_str id;
    struct esp_item item; /* META */
    struct entity_key key;
    bool there;
};
struct look_up {
    struct esp_access *access;
    struct own *own[2]; /* the second may be NULL */
};

static enum esp_status look_up_add(void *ctx, const struct esp_item *item) {
    struct look_up *look = ctx;
    struct esp_access *a = look->access;
    struct esp_str id, other;
    enum kind kind = kind_of(a->layout, item, &id, &other);
    bool second = look->own[1] && esp_str_eq(id, look->own[1]->id);
    struct own *own = look->own[second ? 1 : 0];
    if (kind == META) {
        own->there = true;
        own->key.depth = has_depth(a->layout) ? esp_item_number(item, DEPTH, -1) : -1;
        return esp_item_dup(&a->layout->schema, a->scratch, item, &own->item);
    }
    if (kind == PARENT) {
        own->key.parent = esp_arena_dup(a->scratch, other);
        return own->key.parent.ptr ? ESP_OK : ESP_ERR_NOMEM;
    }
    return ESP_OK;
}

/* One or two different nodes in one round trip; ERR_NOT_FOUND names the one that is missing. */
static enum esp_status look_up(struct esp_access *a, struct own *first, struct own *second) {
    struct look_up look = {.access = a, .own = {first, second}};
    struct esp_query q[2];
    size_t n = second ? 2 : 1;
    for (size_t i = 0; i < n; i++) {
        struct own *own = look.own[i];
        struct esp_str pk = make_key(a->layout, a->scratch, prefix_of(a->layout), own->id);
        *own = (struct own){.id = own->id, .key.depth = -1};
        q[i] = (struct esp_query){.index = ESP_PRIMARY,
                                  .pk = esp_s(pk),
                                  .op = ESP_GE,
                                  .lo = esp_s(meta),
                                  .consistent = a->consistent};
        if (!pk.ptr) {
            return esp_fail_nomem(a->err);
        }
    }
    enum esp_status status = esp_session_query_many(a->session, q, n, look_up_add, &look, a->err);
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        status = look.own[i]->there ? ESP_OK : esp_access_missing(a, look.own[i]->id);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

static enum esp_status key_at(struct esp_access *a, const struct esp_locator *at,
                              struct entity_key *key) {
    struct own own = {.id = at->id};
    if (at->key) {
        *key = *(const struct entity_key *)at->key;
        return ESP_OK;
    }
    enum esp_status status = look_up(a, &own, NULL);
    *key = own.key;
    return status;
}

static enum esp_status resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    struct entity_key *key = esp_arena_alloc(a->scratch, sizeof *key);
    *out = (struct esp_locator){.id = esp_arena_dup(a->scratch, id)};
    if (!key || !out->id.ptr) {
        return esp_fail_nomem(a->err);
    }
    enum esp_status status = key_at(a, out, key);
    out->key = status == ESP_OK ? key : NULL;
    return status;
}

/* --- reads up --------------------------------------------------------------------- */

static enum esp_status op_parent(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct entity_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct esp_args up = {.at.id = key.parent};
    return esp_access_node(a, &up, fn, ctx);
}

static enum esp_status damaged_cycle(struct esp_access *a, struct esp_str id) {
    return esp_fail(a->err, ESP_ERR_CYCLE,
                    "the table is damaged: '%.*s' is its own ancestor or has two parents; check "
                    "names the others",
                    ESP_FMT(id));
}

struct above {
    struct own *own; /* parent first */
    uint32_t count, cap;
};

/* The nodes above the one with this key. */
static enum esp_status climb(struct esp_access *a, struct entity_key key, struct above *above) {
    struct esp_idmap seen;
    *above = (struct above){.own = NULL};
    esp_idmap_init(&seen, a->scratch);
    while (key.parent.len) {
        uint32_t number, before = seen.count;
        enum esp_status status = esp_idmap_intern(&seen, key.parent, &number);
        if (status == ESP_OK && number < before) {
            return damaged_cycle(a, key.parent);
        }
        struct own *own =
            esp_arena_grow(a->scratch, above->own, &above->cap, above->count + 1, sizeof *own);
        if (status != ESP_OK || !own) {
            return esp_fail_nomem(a->err);
        }
        above->own = own;
        own[above->count].id = key.parent;
        status = look_up(a, &own[above->count], NULL);
        if (status != ESP_OK) {
            return status;
        }
        key = own[above->count++].key;
    }
    return ESP_OK;
}

static enum esp_status op_ancestors(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct entity_key key;
    struct above above;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status == ESP_OK) {
        status = climb(a, key, &above);
    }
    for (uint32_t i = status == ESP_OK ? above.count : 0; status == ESP_OK && i-- > 0;) {
        const struct own *own = &above.own[i];
        struct esp_node_view node = {
            .id = own->id,
            .parent_id = own->key.parent.ptr ? own->key.parent : (struct esp_str){"", 0},
            .depth = (int64_t)above.count - 1 - i,
            .data = own->item.data,
        };
        status = fn(ctx, &node);
    }
    return status;
}

/* --- reads down ------------------------------------------------------------------- */

/* Ids below a node, breadth first, by number: the node itself is 0, then level follows level. */
struct walk {
    struct esp_access *access;
    struct esp_idmap ids;
    struct walked {
        uint32_t parent, level;
        bool inner; /* has children; known when the level below was read */
    } * node;
    uint32_t cap, level; /* of the children being read */
};

static enum esp_status walk_enter(struct walk *w, struct esp_str id, struct esp_str parent) {
    uint32_t number, before = w->ids.count, above = esp_idmap_find(&w->ids, parent);
    enum esp_status status = esp_idmap_intern(&w->ids, id, &number);
    struct walked *node = status == ESP_OK ? esp_arena_grow(w->access->scratch, w->node, &w->cap,
                                                            w->ids.count, sizeof *node)
                                           : NULL;
    if (!node) {
        return esp_fail_nomem(w->access->err);
    }
    w->node = node;
    if (number < before) {
        return damaged_cycle(w->access, id);
    }
    node[number] = (struct walked){.parent = above, .level = w->level};
    if (above != ESP_IDMAP_NONE) {
        node[above].inner = true;
    }
    return ESP_OK;
}

static enum esp_status walk_add(void *ctx, const struct esp_item *item) {
    struct walk *w = ctx;
    struct esp_str id, other;
    enum kind kind = kind_of(w->access->layout, item, &id, &other);
    return kind == CHILD ? walk_enter(w, other, id) : ESP_OK;
}

/* Ask for the children of the nodes from `first` up to `end`. */
static enum esp_status walk_level(struct walk *w, uint32_t first, uint32_t end) {
    struct esp_access *a = w->access;
    const struct esp_layout *l = a->layout;
    uint32_t most = end - first < OVERLAP_MAX ? end - first : OVERLAP_MAX;
    struct esp_query *q = esp_arena_calloc(a->scratch, most, sizeof *q);
    struct esp_str head = make_key(l, a->scratch, child_kind, (struct esp_str){0});
    enum esp_status status = q && head.ptr ? ESP_OK : esp_fail_nomem(a->err);
    for (; status == ESP_OK && first < end; first += most) {
        uint32_t n = end - first < most ? end - first : most;
        for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
            struct esp_str pk = make_key(l, a->scratch, prefix_of(l), w->ids.id[first + i]);
            q[i] = (struct esp_query){.index = ESP_PRIMARY,
                                      .pk = esp_s(pk),
                                      .op = ESP_PREFIX,
                                      .lo = esp_s(head),
                                      .consistent = a->consistent};
            status = pk.ptr ? ESP_OK : esp_fail_nomem(a->err);
        }
        if (status == ESP_OK) {
            status = esp_session_query_many(a->session, q, n, walk_add, w, a->err);
        }
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* All ids down to `levels` below a node. */
static enum esp_status walk(struct esp_access *a, struct esp_str id, uint32_t levels,
                            struct walk *w) {
    *w = (struct walk){.access = a};
    esp_idmap_init(&w->ids, a->scratch);
    enum esp_status status = walk_enter(w, id, (struct esp_str){0});
    uint32_t first = 0;
    while (status == ESP_OK && first < w->ids.count && w->level < levels) {
        uint32_t end = w->ids.count;
        w->level++;
        status = walk_level(w, first, end);
        first = end;
    }
    return status;
}

/* The META items of walked nodes, passed on with what the walk knows of them. */
struct fetch {
    struct walk *walk;
    struct esp_str parent; /* of the node at the top; ptr == NULL: not known */
    int64_t depth;         /* of it; -1: not known */
    esp_node_fn *fn;
    void *ctx;
    bool top; /* it came */
};

static enum esp_status fetch_add(void *ctx, const struct esp_item *item) {
    struct fetch *f = ctx;
    const struct walk *w = f->walk;
    struct esp_node_view node;
    if (!view(w->access->layout, item, &node)) {
        return ESP_OK;
    }
    uint32_t number = esp_idmap_find(&w->ids, node.id);
    if (number == ESP_IDMAP_NONE) {
        return ESP_OK;
    }
    f->top = f->top || number == 0;
    node.parent_id = number ? w->ids.id[w->node[number].parent] : f->parent;
    node.depth = f->depth >= 0 ? f->depth + w->node[number].level : node.depth;
    return f->fn(f->ctx, &node);
}

/* Fetch the nodes with the numbers pick[0 .. n). */
static enum esp_status fetch(struct fetch *f, const uint32_t *pick, uint32_t n) {
    struct esp_access *a = f->walk->access;
    uint32_t most = n < OVERLAP_MAX ? n : OVERLAP_MAX;
    struct esp_item *keys = esp_arena_calloc(a->scratch, (size_t)most + 1, sizeof *keys);
    enum esp_status status = keys ? ESP_OK : esp_fail_nomem(a->err);
    for (uint32_t done = 0; status == ESP_OK && done < n; done += most) {
        uint32_t part = n - done < most ? n - done : most;
        for (uint32_t i = 0; status == ESP_OK && i < part; i++) {
            status = esp_access_key(a, f->walk->ids.id[pick[done + i]], &keys[i]);
        }
        if (status == ESP_OK) {
            status = esp_session_get(a->session, keys, part, a->consistent, fetch_add, f, a->err);
        }
    }
    return status;
}

/* When nothing was found below a node, is it there? */
static enum esp_status walk_check(const struct walk *w, const struct esp_locator *at) {
    return w->ids.count == 1 && !at->key ? esp_access_exists(w->access, at->id) : ESP_OK;
}

/* Levels lo to hi below a node, of which f tells what is known. */
static enum esp_status read_window(struct esp_access *a, const struct esp_args *args, uint32_t lo,
                                   uint32_t hi, struct fetch *f) {
    struct walk w;
    enum esp_status status = walk(a, args->at.id, hi, &w);
    if (status == ESP_OK && lo > 0) {
        status = walk_check(&w, &args->at);
    }
    if (status != ESP_OK) {
        return status;
    }
    uint32_t n = 0, *pick = esp_arena_calloc(a->scratch, w.ids.count, sizeof *pick);
    if (!pick) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; i < w.ids.count; i++) {
        pick[n] = i;
        n += w.node[i].level >= lo;
    }
    f->walk = &w;
    status = fetch(f, pick, n);
    return status == ESP_OK && lo == 0 && !f->top ? esp_access_missing(a, args->at.id) : status;
}

static struct fetch fetch_from(const struct esp_locator *at, esp_node_fn *fn, void *ctx) {
    const struct entity_key *key = at->key;
    struct fetch f = {.depth = -1, .fn = fn, .ctx = ctx};
    if (key) {
        f.parent = key->parent.ptr ? key->parent : (struct esp_str){"", 0};
        f.depth = key->depth;
    }
    return f;
}

static enum esp_status op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct fetch f = fetch_from(&args->at, fn, ctx);
    return read_window(a, args, args->lo, args->hi, &f);
}

static enum esp_status op_children(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct fetch f = fetch_from(&args->at, fn, ctx);
    return read_window(a, args, 1, 1, &f);
}

static enum esp_status op_descendants(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    struct fetch f = fetch_from(&args->at, fn, ctx);
    return read_window(a, args, 1, UINT32_MAX, &f);
}

static const struct entity_key root_key = {{"", 0}, 0};

static enum esp_status op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct esp_locator root = {.key = &root_key};
    struct fetch f = fetch_from(&root, fn, ctx);
    return read_window(a, args, args->lo, args->lo, &f);
}

static enum esp_status op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    struct esp_locator root = {.key = &root_key};
    struct fetch f = fetch_from(&root, fn, ctx);
    return read_window(a, args, 0, UINT32_MAX, &f);
}

static enum esp_status op_siblings(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct entity_key key;
    struct walk w;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status == ESP_OK && key.parent.len) {
        status = walk(a, key.parent, 1, &w);
    }
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct fetch f = {.walk = &w, .depth = -1, .fn = fn, .ctx = ctx};
    uint32_t n = 0, *pick = esp_arena_calloc(a->scratch, w.ids.count, sizeof *pick);
    if (!pick) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = 1; i < w.ids.count; i++) {
        pick[n] = i;
        n += !esp_str_eq(w.ids.id[i], args->at.id);
    }
    return fetch(&f, pick, n);
}

/* No payload is read but the leaves'. */
static enum esp_status op_leaves(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct walk w;
    struct fetch f = fetch_from(&args->at, fn, ctx);
    enum esp_status status = walk(a, args->at.id, UINT32_MAX, &w);
    if (status == ESP_OK) {
        status = walk_check(&w, &args->at);
    }
    if (status != ESP_OK) {
        return status;
    }
    uint32_t n = 0, *pick = esp_arena_calloc(a->scratch, w.ids.count, sizeof *pick);
    if (!pick) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = 1; i < w.ids.count; i++) {
        pick[n] = i;
        n += !w.node[i].inner;
    }
    f.walk = &w;
    return fetch(&f, pick, n);
}

static enum esp_status op_count(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    (void)fn, (void)ctx;
    struct walk w;
    enum esp_status status = walk(a, args->at.id, UINT32_MAX, &w);
    a->value = status == ESP_OK ? w.ids.count - 1 : 0;
    return status == ESP_OK ? walk_check(&w, &args->at) : status;
}

/* Without depths: a root has a META item and no PARENT, which would come right behind it.  So
 * one node is kept until the next item decides. */
struct root_sink {
    struct esp_access *access;
    struct esp_arena arena; /* of `item` */
    struct esp_item item;
    bool pending;
    esp_node_fn *fn;
    void *ctx;
};

static enum esp_status root_sink_flush(struct root_sink *sink) {
    struct esp_node_view node;
    bool pending = sink->pending && view(sink->access->layout, &sink->item, &node);
    sink->pending = false;
    if (!pending) {
        return ESP_OK;
    }
    node.parent_id = (struct esp_str){"", 0};
    node.depth = 0;
    return sink->fn(sink->ctx, &node);
}

static enum esp_status root_sink_add(void *ctx, const struct esp_item *item) {
    struct root_sink *sink = ctx;
    struct esp_str id, other;
    enum kind kind = kind_of(sink->access->layout, item, &id, &other);
    if (kind == PARENT) {
        sink->pending =
            sink->pending && !esp_str_eq(esp_item_text(item, PK), esp_item_text(&sink->item, PK));
    }
    if (kind != META) {
        return ESP_OK;
    }
    enum esp_status status = root_sink_flush(sink);
    esp_arena_reset(&sink->arena);
    if (status == ESP_OK) {
        status = esp_item_dup(&sink->access->layout->schema, &sink->arena, item, &sink->item);
        sink->pending = status == ESP_OK;
    }
    return status;
}

static enum esp_status op_roots(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    (void)args;
    bool depth = has_depth(a->layout);
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_condition filter = {.name = schema->attr[depth ? DEPTH : SK].name,
                                   .op = depth ? ESP_EQ : ESP_GE,
                                   .lo = depth ? esp_n(0) : esp_s(meta)};
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

/* Writes of one transaction, on the items of links. */
struct links {
    struct esp_access *access;
    struct esp_write w[TRANSACT_MAX];
    size_t n;
};

static enum esp_status links_flush(struct links *links) {
    size_t n = links->n;
    links->n = 0;
    return n ? esp_access_transact(links->access, links->w, n) : ESP_OK;
}

/* Put or delete both ends of the link between a node and its parent. */
static enum esp_status links_add(struct links *links, enum esp_write_kind kind, struct esp_str id,
                                 struct esp_str parent) {
    struct esp_access *a = links->access;
    struct esp_item *end = esp_arena_calloc(a->scratch, 2, sizeof *end);
    enum esp_status status = end ? ESP_OK : esp_fail_nomem(a->err);
    if (status == ESP_OK) {
        status = make_link(a, PARENT, id, parent, &end[0]);
    }
    if (status == ESP_OK) {
        status = make_link(a, CHILD, parent, id, &end[1]);
    }
    for (size_t i = 0; status == ESP_OK && i < 2; i++) {
        struct esp_write write = {.kind = kind, .item = end[i]};
        if (kind == ESP_DELETE) {
            write.old = &end[i];
        } else {
            status = esp_item_check(&a->layout->schema, &end[i], a->err);
        }
        links->w[links->n++] = write;
    }
    return status;
}

static struct esp_condition condition_on(const struct esp_access *a, enum esp_compare op) {
    return (struct esp_condition){.name = a->layout->schema.attr[PK].name, .op = op};
}

/* The new parent's depth, or -1; the node must be there if it is looked up. */
static enum esp_status parent_depth(struct esp_access *a, const struct esp_locator *to,
                                    int64_t *depth) {
    struct esp_item item;
    *depth = -1;
    if (to->key) {
        *depth = ((const struct entity_key *)to->key)->depth;
        return ESP_OK;
    }
    enum esp_status status = to->id.len ? esp_access_get(a, to->id, &item) : ESP_OK;
    if (status != ESP_OK || to->id.len == 0) {
        return status;
    }
    *depth = has_depth(a->layout) ? esp_item_number(&item, DEPTH, -1) : -1;
    return esp_access_rely(a, &item);
}

static enum esp_status op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct esp_item item;
    struct links links = {.access = a};
    int64_t depth;
    if (args->id.len == 0) {
        return esp_fail(a->err, ESP_ERR_REFUSED, "a node needs an id");
    }
    enum esp_status status = parent_depth(a, &args->to, &depth);
    if (status == ESP_OK) {
        status = esp_access_key(a, args->id, &item);
    }
    if (status != ESP_OK) {
        return status;
    }
    item.data = args->data;
    if (has_depth(a->layout)) {
        item.value[DEPTH] = esp_n(depth + 1);
    }
    if (args->to.id.len == 0) {
        return esp_access_insert(a, &item, args->id);
    }
    struct esp_condition absent = condition_on(a, ESP_NOT_EXISTS);
    status = esp_access_check_insert(a, &item);
    links.w[links.n++] = (struct esp_write){
        .kind = ESP_PUT, .item = item, .condition = &absent, .condition_count = 1};
    if (status == ESP_OK) {
        status = links_add(&links, ESP_PUT, args->id, args->to.id);
    }
    if (status == ESP_OK) {
        status = links_flush(&links);
    }
    return esp_access_outcome(a, status, args->id, ESP_ERR_EXISTS);
}

/* Depths of what the walk found below its top, the top's own left out: `top` is its new one. */
static enum esp_status write_depths(struct esp_access *a, const struct walk *w, int64_t top) {
    struct esp_writes writes;
    enum esp_status status = esp_writes_init(&writes, a, w->ids.count);
    for (uint32_t i = 1; status == ESP_OK && i < w->ids.count; i++) {
        struct esp_write write = {.kind = ESP_UPDATE,
                                  .change_count = 1,
                                  .condition = &writes.exists,
                                  .condition_count = 1};
        struct esp_change *change = esp_arena_calloc(a->scratch, 1, sizeof *change);
        if (!change) {
            return esp_fail_nomem(a->err);
        }
        *change = esp_set(&a->layout->schema, DEPTH, esp_n(top + w->node[i].level));
        write.changes = change;
        status = esp_access_key(a, w->ids.id[i], &write.item);
        if (status == ESP_OK) {
            status = esp_writes_add(&writes, &write);
        }
    }
    return status == ESP_OK ? esp_writes_flush(&writes) : status;
}

static enum esp_status below_itself(struct esp_access *a, const struct esp_args *args) {
    return esp_fail(a->err, ESP_ERR_CYCLE,
                    "'%.*s' cannot move below itself: '%.*s' is in its subtree",
                    ESP_FMT(args->at.id), ESP_FMT(args->to.id));
}

/* The keys of the node and of its new parent; a new parent in the subtree is refused.  It would
 * be deeper than the node; only then is the way up worth its queries. */
static enum esp_status move_look_up(struct esp_access *a, const struct esp_args *args,
                                    struct own *at, struct own *to) {
    bool look_at = !args->at.key, look_to = args->to.id.len && !args->to.key;
    bool itself = esp_str_eq(args->at.id, args->to.id);
    struct above above = {.count = 0};
    enum esp_status status = ESP_OK;
    *at = (struct own){.id = args->at.id};
    *to = (struct own){.id = args->to.id, .key.depth = -1};
    if (look_at) {
        status = look_up(a, at, look_to && !itself ? to : NULL);
    } else if (look_to && !itself) {
        status = look_up(a, to, NULL);
    }
    at->key = look_at ? at->key : *(const struct entity_key *)args->at.key;
    to->key = args->to.key ? *(const struct entity_key *)args->to.key : to->key;
    if (status == ESP_OK && itself) {
        return below_itself(a, args);
    }
    if (status == ESP_OK && to->there) {
        status = esp_access_rely(a, &to->item);
    }
    if (status == ESP_OK && args->to.id.len &&
        (at->key.depth < 0 || to->key.depth < 0 || to->key.depth > at->key.depth)) {
        status = climb(a, to->key, &above);
    }
    for (uint32_t i = 0; status == ESP_OK && i < above.count; i++) {
        status = esp_str_eq(above.own[i].id, args->at.id) ? below_itself(a, args) : ESP_OK;
    }
    return status;
}

/* Both ends of the old link, both of the new one, and the node's depth; whoever else moves the
 * node meanwhile wins or loses as a whole, because the old link must still be there. */
static enum esp_status move_links(struct esp_access *a, const struct esp_args *args,
                                  const struct own *at, int64_t depth) {
    struct links links = {.access = a};
    struct esp_condition exists = condition_on(a, ESP_EXISTS);
    struct esp_change change = esp_set(&a->layout->schema, DEPTH, esp_n(depth));
    enum esp_status status = ESP_OK;
    if (args->to.id.len) {
        status = links_add(&links, ESP_PUT, args->at.id, args->to.id);
    }
    if (status == ESP_OK && at->key.parent.len) {
        size_t own = links.n;
        status = links_add(&links, ESP_DELETE, args->at.id, at->key.parent);
        links.w[own].condition = &exists;
        links.w[own].condition_count = 1;
    }
    if (status == ESP_OK && has_depth(a->layout)) {
        struct esp_write *write = &links.w[links.n++];
        *write = (struct esp_write){.kind = ESP_UPDATE,
                                    .changes = &change,
                                    .change_count = 1,
                                    .condition = &exists,
                                    .condition_count = 1,
                                    .old = at->there ? &at->item : NULL};
        status = esp_access_key(a, args->at.id, &write->item);
    }
    return status == ESP_OK ? links_flush(&links) : status;
}

/* Depths below the node come first and follow from the levels, so the same move can be repeated
 * after a cut: it finds the node below its old parent and does all again. */
static enum esp_status op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct own at, to;
    struct walk w;
    enum esp_status status = move_look_up(a, args, &at, &to);
    if (status != ESP_OK || esp_str_eq(at.key.parent, args->to.id)) {
        return status; /* refused, or there already */
    }
    int64_t depth = to.key.depth + 1;
    if (has_depth(a->layout) && depth != at.key.depth) {
        status = walk(a, args->at.id, UINT32_MAX, &w);
        if (status == ESP_OK) {
            status = write_depths(a, &w, depth);
        }
    }
    if (status == ESP_OK) {
        status = move_links(a, args, &at, depth);
    }
    if (status == ESP_ERR_CONDITION && at.key.parent.len) {
        esp_error_clear(a->err);
        return esp_fail(a->err, ESP_ERR_NOT_FOUND, "there is no node '%.*s' below '%.*s'",
                        ESP_FMT(args->at.id), ESP_FMT(at.key.parent));
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

/* The node with the link to its parent, in one transaction. */
static enum esp_status remove_node(struct links *links, const struct esp_args *args,
                                   const struct own *at) {
    struct esp_access *a = links->access;
    struct esp_condition exists = condition_on(a, ESP_EXISTS);
    enum esp_status status = ESP_OK;
    if (links->n == 0 && at->key.parent.len == 0) {
        return esp_access_delete(a, NULL, args->at.id, at->there ? &at->item : NULL);
    }
    struct esp_write *write = &links->w[links->n++];
    *write = (struct esp_write){.kind = ESP_DELETE,
                                .condition = &exists,
                                .condition_count = 1,
                                .old = at->there ? &at->item : NULL};
    status = esp_access_key(a, args->at.id, &write->item);
    if (status == ESP_OK && at->key.parent.len) {
        status = links_add(links, ESP_DELETE, args->at.id, at->key.parent);
    }
    if (status == ESP_OK) {
        status = links_flush(links);
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

/* Delete what the partition of a walked node holds but its links to children. */
static enum esp_status remove_walked(struct esp_writes *writes, const struct walk *w, uint32_t i) {
    struct esp_access *a = w->access;
    struct esp_item *link = esp_arena_calloc(a->scratch, 1, sizeof *link);
    if (!link) {
        return esp_fail_nomem(a->err);
    }
    struct esp_write write = {.kind = ESP_DELETE, .old = link};
    enum esp_status status = make_link(a, PARENT, w->ids.id[i], w->ids.id[w->node[i].parent], link);
    if (status == ESP_OK) {
        write.item = *link;
        status = esp_writes_add(writes, &write);
    }
    write.old = NULL;
    if (status == ESP_OK) {
        status = esp_access_key(a, w->ids.id[i], &write.item);
    }
    return status == ESP_OK ? esp_writes_add(writes, &write) : status;
}

/* Delete the CHILD item by which a walked node is found. */
static enum esp_status remove_found(struct esp_writes *writes, const struct walk *w, uint32_t i) {
    struct esp_access *a = w->access;
    struct esp_item *link = esp_arena_calloc(a->scratch, 1, sizeof *link);
    if (!link) {
        return esp_fail_nomem(a->err);
    }
    enum esp_status status = make_link(a, CHILD, w->ids.id[w->node[i].parent], w->ids.id[i], link);
    struct esp_write write = {.kind = ESP_DELETE, .item = *link, .old = link};
    return status == ESP_OK ? esp_writes_add(writes, &write) : status;
}

/* Level by level, the deepest first; of each the nodes, together with the links to the level
 * below, which is gone by then.  So whatever is left of a torn remove is still found from the
 * top and can be removed again. */
static enum esp_status remove_below(struct esp_access *a, const struct walk *w) {
    struct esp_writes writes;
    uint32_t end = w->ids.count, below_end = end; /* of the level, and of the one below it */
    enum esp_status status = esp_writes_init(&writes, a, 3 * (size_t)w->ids.count);
    while (status == ESP_OK && end > 0) {
        uint32_t first = end;
        while (first > 0 && w->node[first - 1].level == w->node[end - 1].level) {
            first--;
            status = first && status == ESP_OK ? remove_walked(&writes, w, first) : status;
        }
        for (uint32_t i = end; status == ESP_OK && i < below_end; i++) {
            status = remove_found(&writes, w, i);
        }
        if (status == ESP_OK) {
            status = esp_writes_flush(&writes);
        }
        below_end = end;
        end = first;
    }
    return status;
}

static enum esp_status look_up_at(struct esp_access *a, const struct esp_args *args,
                                  struct own *at) {
    *at = (struct own){.id = args->at.id};
    if (args->at.key) {
        at->key = *(const struct entity_key *)args->at.key;
        return ESP_OK;
    }
    return look_up(a, at, NULL);
}

static enum esp_status op_remove(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct own at;
    struct walk w;
    struct links links = {.access = a};
    enum esp_status status = look_up_at(a, args, &at);
    if (status == ESP_OK) {
        status = walk(a, args->at.id, UINT32_MAX, &w);
    }
    if (status == ESP_OK) {
        status = remove_below(a, &w);
    }
    return status == ESP_OK ? remove_node(&links, args, &at) : status;
}

/* Depths first, then the links of the children, as many as a transaction takes, each wholly here
 * or there, and the node with the last of them.  A repeat goes on with the children that are
 * left. */
static enum esp_status op_promote(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    enum { CHILD_WRITES = 4, NODE_WRITES = 3 };
    struct own at;
    struct walk w;
    struct links links = {.access = a};
    bool depth = has_depth(a->layout);
    enum esp_status status = look_up_at(a, args, &at);
    if (status == ESP_OK) {
        status = walk(a, args->at.id, depth ? UINT32_MAX : 1, &w);
    }
    if (status == ESP_OK && at.key.parent.len == 0 && w.ids.count > 1) {
        return esp_access_root_has_children(a, args->at.id);
    }
    if (status == ESP_OK && depth) {
        status = write_depths(a, &w, at.key.depth - 1);
    }
    for (uint32_t i = 1; status == ESP_OK && i < w.ids.count && w.node[i].level == 1; i++) {
        if (links.n + CHILD_WRITES > TRANSACT_MAX) {
            status = links_flush(&links);
        }
        if (status == ESP_OK) {
            status = links_add(&links, ESP_PUT, w.ids.id[i], at.key.parent);
        }
        if (status == ESP_OK) {
            status = links_add(&links, ESP_DELETE, w.ids.id[i], args->at.id);
        }
    }
    if (status == ESP_OK && links.n + NODE_WRITES > TRANSACT_MAX) {
        status = links_flush(&links);
    }
    return status == ESP_OK ? remove_node(&links, args, &at) : status;
}

/* --- check ------------------------------------------------------------------------ */

/* One end of a link. */
struct end {
    uint32_t node, parent; /* numbers */
    enum kind kind;
};

/* 12 bytes an end beside what esp_check keeps for each node. */
struct link_check {
    struct esp_check check; /* first: the scan's ctx is the check */
    struct end *end;
    uint32_t count, cap;
    bool met;             /* an item that is of a node ... */
    struct esp_str other; /* ... and the partition of the first that is not; in check's arena */
};

static enum esp_status check_reference(struct esp_check *check, const struct esp_item *item,
                                       enum kind kind, struct esp_str other, uint32_t node,
                                       uint32_t parent) {
    struct esp_str ref = esp_item_text(item, kind == PARENT ? PARENT_REF : CHILD_REF);
    bool right = !check->access->layout->settings.refs || esp_str_eq(ref, other);
    return right ? ESP_OK
                 : esp_check_report(check, "wrong-reference", node, parent,
                                    "parentId or childId is not what the sort key says");
}

static enum esp_status note_other(struct link_check *c, const struct esp_item *item) {
    struct esp_str pk = esp_item_text(item, PK);
    if (c->other.ptr || !pk.len) {
        return ESP_OK;
    }
    c->other = esp_arena_dup(&c->check.arena, pk);
    return c->other.ptr ? ESP_OK : esp_fail_nomem(c->check.access->err);
}

/* Other things may be beside the tree, but not alone: then the keys are of other settings. */
static enum esp_status check_others(struct link_check *c) {
    const struct esp_finding finding = {
        .name = "no-nodes",
        .id = c->other,
        .text = "no item of the table is of a node: it was made with another node prefix or "
                "separator"};
    return c->met || !c->other.ptr ? ESP_OK : c->check.fn(c->check.ctx, &finding);
}

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct link_check *c = ctx;
    struct esp_check *check = &c->check;
    struct esp_str id, other;
    uint32_t number, with = ESP_IDMAP_NONE;
    enum kind kind = kind_of(check->access->layout, item, &id, &other);
    if (kind == OTHER) {
        return note_other(c, item);
    }
    c->met = true;
    enum esp_status status = esp_check_number(check, id, &number);
    if (status == ESP_OK && other.ptr) {
        status = esp_check_number(check, other, &with);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (kind == META) {
        struct esp_check_way *way = esp_check_record(check, number);
        way->present = true;
        way->depth = esp_item_number(item, DEPTH, -1);
        return ESP_OK;
    }
    struct end *ends = c->count < UINT32_MAX ? esp_arena_grow(&check->arena, c->end, &c->cap,
                                                              c->count + 1, sizeof *ends)
                                             : NULL;
    if (!ends) {
        return esp_fail_nomem(check->access->err);
    }
    struct end end = {number, with, kind};
    if (kind == CHILD) {
        end = (struct end){with, number, kind};
    }
    c->end = ends;
    ends[c->count++] = end;
    return check_reference(check, item, kind, other, end.node, end.parent);
}

static int by_node_and_parent(const void *a, const void *b) {
    const struct end *x = a, *y = b;
    if (x->node != y->node) {
        return x->node < y->node ? -1 : 1;
    }
    if (x->parent != y->parent) {
        return x->parent < y->parent ? -1 : 1;
    }
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* The ends of one link: both, or one that lacks the other. */
static enum esp_status check_link(struct link_check *c, const struct end *end, uint32_t n) {
    struct esp_check *check = &c->check;
    struct esp_check_way *way = esp_check_record(check, end->node);
    enum esp_status status = ESP_OK;
    if (n == 1) {
        status = end->kind == PARENT
                     ? esp_check_report(check, "missing-child-item", end->node, end->parent,
                                        "the parent has no CHILD item for it")
                     : esp_check_report(check, "missing-parent-item", end->node, end->parent,
                                        "it has no PARENT item for the parent that lists it");
    }
    if (status == ESP_OK && end->kind == PARENT && way->parent) {
        status = esp_check_report(check, "two-parents", end->node, end->parent,
                                  "it has PARENT items for several parents");
    } else if (end->kind == PARENT) {
        way->parent = end->parent + 1;
    }
    return status;
}

/* A node that only links speak of.  As somebody's parent it is a missing-parent. */
static enum esp_status check_presence(struct esp_check *check, const struct end *end) {
    const struct esp_check_way *way = esp_check_record(check, end->node);
    return way->present ? ESP_OK
                        : esp_check_report(check, "missing-meta", end->node, end->parent,
                                           "it is linked to a parent but has no META item");
}

static enum esp_status check_links(struct link_check *c) {
    enum esp_status status = ESP_OK;
    if (c->count) {
        qsort(c->end, c->count, sizeof *c->end, by_node_and_parent);
    }
    for (uint32_t i = 0, n; status == ESP_OK && i < c->count; i += n) {
        const struct end *end = &c->end[i];
        bool last = i + 1 == c->count || end[1].node != end->node;
        n = last || end[1].parent != end->parent ? 1 : 2;
        status = check_link(c, end, n);
        if (status == ESP_OK && (i + n == c->count || end[n].node != end->node)) {
            status = check_presence(&c->check, end);
        }
    }
    return status;
}

static enum esp_status check(struct esp_access *a, esp_finding_fn *fn, void *ctx) {
    struct link_check c = {.end = NULL};
    esp_check_init(&c.check, a, sizeof(struct esp_check_way), fn, ctx);
    enum esp_status status = esp_check_scan(&c.check, check_item);
    if (status == ESP_OK) {
        status = check_others(&c);
    }
    if (status == ESP_OK) {
        status = check_links(&c);
    }
    if (status == ESP_OK) {
        status = esp_check_ways(&c.check, has_depth(a->layout));
    }
    esp_check_fini(&c.check);
    return status;
}

static const char *const refs_names[] = {"off", "on", NULL};

static const struct esp_option options[] = {
    {.name = "separator",
     .type = ESP_OPT_STRING,
     .offset = offsetof(struct esp_layout_settings, separator),
     .argument = "C",
     .fallback = "#",
     .help = "character between NODE, PARENT, CHILD and the id"},
    {.name = "node",
     .type = ESP_OPT_STRING,
     .offset = offsetof(struct esp_layout_settings, node),
     .argument = "TEXT",
     .fallback = "NODE",
     .help = "what partition keys begin with"},
    {.name = "refs",
     .type = ESP_OPT_CHOICE,
     .offset = offsetof(struct esp_layout_settings, refs),
     .argument = "on|off",
     .fallback = "off",
     .help = "store parentId and childId in the link items too",
     .choices = refs_names},
    {.name = "depth",
     .type = ESP_OPT_CHOICE,
     .offset = offsetof(struct esp_layout_settings, depth),
     .argument = "on|off",
     .fallback = "on",
     .help = "store the depth; without it a move is one transaction",
     .choices = esp_switch_names},
    {.name = NULL},
};

extern const struct esp_layout_ops esp_layout_entity;
const struct esp_layout_ops esp_layout_entity = {
    .name = "entity",
    .family = "adjacency",
    .summary = "a partition for each node, with items for itself, its parent and each child",
    .schema =
        {
            .attr = {[PK] = {{"pk", 2}, ESP_TYPE_S},
                     [SK] = {{"sk", 2}, ESP_TYPE_S},
                     [DEPTH] = {{"depth", 5}, ESP_TYPE_N},
                     [PARENT_REF] = {{"parentId", 8}, ESP_TYPE_S},
                     [CHILD_REF] = {{"childId", 7}, ESP_TYPE_S}},
            .attr_count = ATTR_COUNT,
            .pk = PK,
            .sk = SK,
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
    .resolve = resolve,
    .node_key = node_key,
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
            [ESP_OP_LEAVES] = op_leaves,
            [ESP_OP_COUNT] = op_count,
            [ESP_OP_ROOTS] = op_roots,
            [ESP_OP_INSERT] = op_insert,
            [ESP_OP_UPDATE] = esp_access_update,
            [ESP_OP_MOVE] = op_move,
            [ESP_OP_REMOVE] = op_remove,
            [ESP_OP_PROMOTE] = op_promote,
        },
    .check = check,
};
