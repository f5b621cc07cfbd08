/*
 * path-key: the way down to a node is its table key.  A node is one GetItem for who knows the way,
 * and a subtree one query of the table itself, which may be read consistently; the price is that a
 * key cannot be updated: a move writes every item below anew.  The key design is in path_key.h.
 */
#include "converters/path_key/path_key.h"

#include "converters/check.h"
#include "converters/validate.h"

#include <stdio.h>

/* --- settings --------------------------------------------------------------------- */

static enum esp_status check_hierarchy(const struct esp_layout *l, struct esp_error *err) {
    struct esp_str name = esp_str_from(l->settings.hierarchy), sep = l->separator;
    struct esp_item item = {0};
    item.value[l->schema.pk] = esp_s(name);
    if (name.len == 0 || name.len > ESP_PK_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_USAGE, "hierarchy=: a partition key has 1 to %d bytes",
                        ESP_PK_BYTES_MAX);
    }
    if (esp_item_reserved(&l->schema, &item)) {
        return esp_fail(err, ESP_ERR_USAGE,
                        "--set hierarchy=%s: names that begin with '%s' are reserved",
                        l->settings.hierarchy, ESP_RESERVED_PREFIX);
    }
    return l->settings.segment && memmem(name.ptr, name.len, sep.ptr, sep.len)
               ? esp_fail(
                     err, ESP_ERR_USAGE,
                     "--set hierarchy=%s: with segment=N it must not contain the separator '%.*s'",
                     l->settings.hierarchy, ESP_FMT(sep))
               : ESP_OK;
}

enum { SEGMENT_MAX = ESP_SK_BYTES_MAX / 2 };

static enum esp_status configure(struct esp_layout *l, struct esp_error *err) {
    const struct esp_layout_settings *set = &l->settings;
    enum esp_status status = esp_way_configure(l, err);
    /* Attributes that are not stored leave their names to the payload. */
    l->schema.attr_count = set->by                     ? PATH_KEY_PARENT + 1
                           : set->ancestors            ? PATH_KEY_ANCESTORS + 1
                           : esp_path_key_has_depth(l) ? PATH_KEY_DEPTH + 1
                                                       : PATH_KEY_ID + 1;
    if (set->by_id == ESP_SWITCH_OFF) {
        l->schema.index_count = 0;
    }
    if (status == ESP_OK && set->segment > SEGMENT_MAX) {
        status =
            esp_fail(err, ESP_ERR_USAGE, "--set segment=%llu: a sort key holds at most %d levels",
                     (unsigned long long)set->segment, SEGMENT_MAX);
    }
    if (status == ESP_OK && set->segment && set->by) {
        status = esp_fail(err, ESP_ERR_USAGE,
                          "segment=N and by=name: segments are named by ids; take one of the two");
    }
    if (status == ESP_OK && set->segment && set->ancestors) {
        status = esp_fail(err, ESP_ERR_USAGE,
                          "segment=N and ancestors=on: every item would hold the whole way, which "
                          "segments are there to avoid; take one of the two");
    }
    if (status == ESP_OK && !set->name[0]) {
        status = esp_fail(err, ESP_ERR_USAGE, "name=: must be the name of a payload attribute");
    }
    return status == ESP_OK && set->hierarchy ? check_hierarchy(l, err) : status;
}

/* --- bulk conversion -------------------------------------------------------------- */

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    (void)l, (void)f, (void)first;
    return n;
}

/* The way that grows and shrinks while nodes pass in pre-order; of any depth. */
struct trail {
    const struct esp_layout *layout;
    const struct esp_forest *forest;
    struct esp_arena *arena;
    struct esp_str tree; /* id of the root */
    char *text;          /* a separator after each part */
    uint32_t cap;
    uint32_t *end; /* bytes of `text` that n parts take; end[0] == 0 */
    uint32_t end_cap;
    char pk[ESP_PK_BYTES_MAX];
};

/* What the part of node v is made of. */
static enum esp_status part_source(const struct trail *t, esp_node v, struct esp_str *out) {
    *out = esp_forest_id(t->forest, v);
    return t->layout->settings.by
               ? esp_path_key_name(t->layout, esp_forest_data(t->forest, v), t->arena, out)
               : ESP_OK;
}

/* The part of node v goes behind those of the nodes above it. */
static enum esp_status trail_enter(struct trail *t, esp_node v) {
    const struct esp_layout *l = t->layout;
    struct esp_str source, sep = l->separator;
    uint32_t depth = t->forest->depth[v];
    enum esp_status status = part_source(t, v, &source);
    if (status != ESP_OK || !source.ptr) {
        return status != ESP_OK ? status : ESP_ERR_INPUT; /* validate says which node */
    }
    uint32_t *end = esp_arena_grow(t->arena, t->end, &t->end_cap, depth + 2, sizeof *end);
    t->end = end ? end : t->end;
    uint64_t at = end ? end[depth] : 0;
    uint64_t need = at + ESP_WAY_ESCAPE_BYTES * (uint64_t)source.len + sep.len;
    char *text = end && need < UINT32_MAX
                     ? esp_arena_grow(t->arena, t->text, &t->cap, (uint32_t)need, 1)
                     : NULL;
    if (!text) {
        return ESP_ERR_NOMEM;
    }
    t->text = text;
    at += esp_way_put(l, source, text + at);
    memcpy(text + at, sep.ptr, sep.len);
    end[depth + 1] = (uint32_t)(at + sep.len);
    return ESP_OK;
}

/* Enter all nodes above v, root first. */
static enum esp_status trail_begin(struct trail *t, esp_node v) {
    uint32_t n = t->forest->depth[v];
    esp_node *chain = esp_arena_calloc(t->arena, (size_t)n + 1, sizeof *chain);
    enum esp_status status = chain ? ESP_OK : ESP_ERR_NOMEM;
    for (uint32_t i = n; chain && i-- > 0;) {
        v = t->forest->parent[v];
        chain[i] = v;
    }
    t->tree = esp_forest_id(t->forest, v); /* v is the root now */
    for (uint32_t i = 0; status == ESP_OK && i < n; i++) {
        status = trail_enter(t, chain[i]);
    }
    return status;
}

/* The place of node v, which was entered; in the trail until the next node is. */
static enum esp_status trail_place(struct trail *t, esp_node v, struct esp_place *out) {
    const struct esp_layout *l = t->layout;
    struct esp_str sep = l->separator;
    uint32_t depth = t->forest->depth[v];
    uint64_t segment = l->settings.segment;
    uint32_t above = segment ? (uint32_t)(depth / segment * segment) : 0; /* parts cut off */
    struct esp_str top = l->settings.hierarchy ? esp_str_from(l->settings.hierarchy) : t->tree;
    size_t top_len = l->settings.hierarchy ? top.len : esp_way_put(l, top, NULL);
    size_t anchor = above ? t->end[above - 1] : 0, anchor_end = t->end[above] - sep.len;
    size_t pk_len = top_len + (above ? sep.len + anchor_end - anchor : 0);
    uint32_t start = t->end[above];
    *out = (struct esp_place){
        {t->pk, pk_len}, {t->text + start, t->end[depth + 1] - sep.len - start}, depth};
    if (pk_len > sizeof t->pk || out->sk.len > ESP_SK_BYTES_MAX) {
        return ESP_ERR_LIMIT; /* validate says where */
    }
    if (l->settings.hierarchy) {
        memcpy(t->pk, top.ptr, top.len);
    } else {
        esp_way_put(l, top, t->pk);
    }
    if (above) {
        memcpy(t->pk + top_len, sep.ptr, sep.len);
        memcpy(t->pk + top_len + sep.len, t->text + anchor, anchor_end - anchor);
    }
    return ESP_OK;
}

static enum esp_status emit_one(struct trail *t, esp_node v, esp_item_fn *fn, void *ctx) {
    const struct esp_layout *l = t->layout;
    const struct esp_forest *f = t->forest;
    struct esp_place place;
    struct esp_item item = {.data = esp_forest_data(f, v)};
    if (f->depth[v] == 0) {
        t->tree = esp_forest_id(f, v);
    }
    enum esp_status status = trail_enter(t, v);
    if (status == ESP_OK) {
        status = trail_place(t, v, &place);
    }
    if (status == ESP_OK && l->settings.ancestors) {
        status = esp_place_ancestors(l, t->arena, place.sk, &item.value[PATH_KEY_ANCESTORS]);
    }
    if (status != ESP_OK) {
        return status;
    }
    item.value[PATH_KEY_PK] = esp_s(place.pk);
    item.value[PATH_KEY_SK] = esp_s(place.sk);
    item.value[PATH_KEY_ID] = esp_s(esp_forest_id(f, v));
    if (esp_path_key_has_depth(l)) {
        item.value[PATH_KEY_DEPTH] = esp_n(place.depth);
    }
    if (l->settings.by && f->parent[v] != ESP_NODE_NONE) {
        item.value[PATH_KEY_PARENT] = esp_s(esp_forest_id(f, f->parent[v]));
    }
    return fn(ctx, &item);
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    struct trail t = {.layout = l, .forest = f, .arena = scratch};
    enum esp_status status = n ? trail_begin(&t, first) : ESP_OK;
    for (esp_node v = first; status == ESP_OK && v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        status = emit_one(&t, v, fn, ctx);
    }
    return status;
}

/* --- what does not fit ------------------------------------------------------------ */

static enum esp_status key_error(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                                 const char *kind, size_t bytes, size_t most, struct esp_str way,
                                 struct esp_error *err) {
    enum { SHOWN_MAX = 60 };
    struct esp_str id = esp_forest_id(f, v);
    const char *offer = l->settings.segment ? "use shorter ids"
                        : l->settings.by    ? "use ids instead of names (by=id)"
                                            : "--set segment=N cuts paths into pieces of N levels";
    return esp_validate_fail(f, v, err, ESP_ERR_LIMIT,
                             "the %s key of '%.*s%s' at depth %u has %zu bytes (it ends with "
                             "'%.*s%s'); at most %zu are possible: %s, or take another layout "
                             "(replica, nested-set, adjacency)",
                             kind, id.len > SHOWN_MAX ? SHOWN_MAX : (int)id.len, id.ptr,
                             id.len > SHOWN_MAX ? "..." : "", f->depth[v], bytes,
                             way.len > SHOWN_MAX ? SHOWN_MAX : (int)way.len, way.ptr,
                             way.len > SHOWN_MAX ? "..." : "", most, offer);
}

/* Node by node, keys are measured without being written. */
static enum esp_status validate_lengths(const struct esp_layout *l, const struct esp_forest *f,
                                        struct trail *t, struct esp_error *err) {
    size_t sep = l->separator.len, top = 0;
    uint64_t segment = l->settings.segment;
    /* Of the parts down to each depth, and of the last one alone, without separators closing. */
    uint32_t *len = esp_arena_calloc(t->arena, (size_t)f->depth_max + 2, sizeof *len);
    uint32_t *last = esp_arena_calloc(t->arena, (size_t)f->depth_max + 2, sizeof *last);
    struct esp_str source;
    if (!len || !last) {
        return esp_fail_nomem(err);
    }
    for (esp_node v = 0; v < f->count; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        uint32_t depth = f->depth[v];
        if (part_source(t, v, &source) != ESP_OK) {
            return esp_fail_nomem(err);
        }
        bool cut = segment && depth % segment == 0 && depth > 0;
        last[depth] = (uint32_t)esp_way_put(l, source, NULL);
        len[depth] = last[depth] + (depth && !cut ? len[depth - 1] + (uint32_t)sep : 0);
        if (depth == 0) {
            top = l->settings.hierarchy ? strlen(l->settings.hierarchy)
                                        : esp_way_put(l, esp_forest_id(f, v), NULL);
        }
        if (len[depth] > ESP_SK_BYTES_MAX) {
            return key_error(l, f, v, "sort", len[depth], ESP_SK_BYTES_MAX, source, err);
        }
        size_t pk = top + (cut ? sep + last[depth - 1] : 0);
        if (pk > ESP_PK_BYTES_MAX) {
            return key_error(l, f, v, "partition", pk, ESP_PK_BYTES_MAX, source, err);
        }
    }
    return ESP_OK;
}

/* Names by parent: what must not be there twice. */
struct names {
    const struct esp_str *name; /* of each node */
    uint32_t *slot;             /* node + 1; 0: free */
    size_t mask;
};

/* The sibling that has the name of v already; ESP_NODE_NONE: v is noted. */
static esp_node note_name(const struct esp_layout *l, const struct esp_forest *f,
                          struct names *names, esp_node v) {
    esp_node parent = f->parent[v];
    if (parent == ESP_NODE_NONE && !l->settings.hierarchy) {
        return ESP_NODE_NONE; /* roots are in partitions of their own */
    }
    struct esp_str name = names->name[v];
    size_t at = esp_hash64(name.ptr, name.len, parent) & names->mask;
    for (; names->slot[at]; at = (at + 1) & names->mask) {
        esp_node other = names->slot[at] - 1;
        if (f->parent[other] == parent && esp_str_eq(names->name[other], name)) {
            return other;
        }
    }
    names->slot[at] = v + 1;
    return ESP_NODE_NONE;
}

/* The bytes that occur in some name; false: no memory. */
static bool note_bytes(const struct esp_layout *l, const struct esp_forest *f,
                       struct esp_arena *arena, bool has[256]) {
    for (esp_node v = 0; v < f->count; v++) {
        struct esp_str name;
        if (esp_path_key_name(l, esp_forest_data(f, v), arena, &name) != ESP_OK) {
            return false;
        }
        for (size_t i = 0; i < name.len; i++) {
            has[(unsigned char)name.ptr[i]] = true;
        }
    }
    return true;
}

static enum esp_status name_error(const struct esp_layout *l, const struct esp_forest *f,
                                  esp_node v, struct esp_str name, esp_node other,
                                  struct esp_arena *arena, struct esp_error *err) {
    struct esp_str id = esp_forest_id(f, v);
    if (name.len == 0) {
        return esp_validate_fail(
            f, v, err, ESP_ERR_INPUT,
            "'%.*s' has no attribute '%s' with a text, which by=name makes its "
            "key of: give another one with --set name=ATTR, or take by=id",
            ESP_FMT(id), l->settings.name);
    }
    if (other != ESP_NODE_NONE) {
        struct esp_str first = esp_forest_id(f, other);
        return esp_validate_fail(f, v, err, ESP_ERR_INPUT,
                                 "'%.*s' (line %u) and '%.*s' are siblings with one name, '%.*s': "
                                 "with by=name they would have one key; take by=id",
                                 ESP_FMT(first), esp_forest_line(f, other), ESP_FMT(id),
                                 ESP_FMT(name));
    }
    bool has[256] = {false};
    if (!note_bytes(l, f, arena, has)) {
        return esp_fail_nomem(err);
    }
    const char *setting = esp_way_free_separator(has);
    return esp_validate_fail(
        f, v, err, ESP_ERR_INPUT,
        "the name '%.*s' of '%.*s' contains the separator '%.*s'; %s%s, or keep it with --set "
        "escape=percent",
        ESP_FMT(name), ESP_FMT(id), ESP_FMT(l->separator),
        setting ? "no name contains the one of --set "
                : "every usual one occurs in some name: find one that does not and give it with "
                  "--set separator=C",
        setting ? setting : "");
}

static enum esp_status validate_names(const struct esp_layout *l, const struct esp_forest *f,
                                      struct esp_arena *arena, struct esp_error *err) {
    struct esp_str *name = esp_arena_calloc(arena, f->count, sizeof *name), sep = l->separator;
    struct names names = {.name = name, .mask = 1};
    while (names.mask < 2 * (size_t)f->count) {
        names.mask = 2 * names.mask + 1;
    }
    names.slot = esp_arena_calloc(arena, names.mask + 1, sizeof *names.slot);
    if (!name || !names.slot) {
        return esp_fail_nomem(err);
    }
    for (esp_node v = 0; v < f->count; v++) {
        if (esp_path_key_name(l, esp_forest_data(f, v), arena, &name[v]) != ESP_OK) {
            return esp_fail_nomem(err);
        }
        bool fits = name[v].len &&
                    (l->settings.escape || !memmem(name[v].ptr, name[v].len, sep.ptr, sep.len));
        esp_node other = fits ? note_name(l, f, &names, v) : ESP_NODE_NONE;
        if (!fits || other != ESP_NODE_NONE) {
            return name_error(l, f, v, name[v], other, arena, err);
        }
    }
    return ESP_OK;
}

static enum esp_status validate(const struct esp_layout *l, const struct esp_forest *f,
                                struct esp_error *err) {
    const struct esp_layout_settings *set = &l->settings;
    struct esp_arena arena;
    struct trail t = {.layout = l, .forest = f, .arena = &arena};
    uint64_t levels = (uint64_t)f->depth_max + 1;
    uint64_t part_max = (set->escape ? ESP_WAY_ESCAPE_BYTES : 1) * (uint64_t)f->id_len_max;
    uint64_t top_max = set->hierarchy ? strlen(set->hierarchy) : part_max;
    levels = set->segment && set->segment < levels ? set->segment : levels;
    /* Most forests can be told to fit without a look at their nodes. */
    bool fits = !set->by && levels * (part_max + l->separator.len) <= ESP_SK_BYTES_MAX &&
                top_max + l->separator.len + part_max <= ESP_PK_BYTES_MAX;
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    enum esp_status status =
        set->by ? validate_names(l, f, &arena, err) : esp_way_validate(l, f, err);
    if (status == ESP_OK && !fits) {
        status = validate_lengths(l, f, &t, err);
    }
    esp_arena_fini(&arena);
    return status == ESP_OK ? esp_validate_items(l, f, err) : status;
}

/* --- naming nodes ----------------------------------------------------------------- */

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    struct esp_place *place = esp_arena_calloc(arena, 1, sizeof *place);
    struct trail t = {.layout = l, .forest = f, .arena = arena};
    enum esp_status status = place ? trail_begin(&t, v) : ESP_ERR_NOMEM;
    if (status == ESP_OK) {
        status = trail_enter(&t, v);
    }
    if (status == ESP_OK) {
        status = trail_place(&t, v, place);
    }
    if (status != ESP_OK) {
        return status;
    }
    place->pk = esp_arena_dup(arena, place->pk);
    *out = (struct esp_locator){esp_forest_id(f, v), place};
    return place->pk.ptr ? ESP_OK : ESP_ERR_NOMEM;
}

/* The part of the node above; len 0: there is none. */
static struct esp_str part_above(const struct esp_layout *l, const struct esp_place *place) {
    struct esp_str top, anchor, above = {place->sk.ptr, esp_way_last(l, place->sk)};
    if (above.len) {
        above.len -= l->separator.len;
        return esp_place_last(l, above);
    }
    esp_place_cut(l, place->pk, &top, &anchor);
    return anchor;
}

/* Can the key be one of this layout's with these settings?  What another separator, hierarchy or
 * segment has made looks like something else, often like a root. */
static bool is_readable(const struct esp_layout *l, const struct esp_item *item,
                        const struct esp_place *place) {
    struct esp_str top, anchor, id = esp_item_text(item, PATH_KEY_ID);
    uint64_t segment = l->settings.segment, parts = esp_place_parts(l, place->sk);
    bool cut = esp_place_cut(l, place->pk, &top, &anchor);
    bool is_root = parts == 1 && !cut;
    if (l->settings.by ? is_root == (esp_item_text(item, PATH_KEY_PARENT).len > 0)
                       : !esp_way_is_part(l, esp_place_last(l, place->sk), id)) {
        return false;
    }
    if (is_root &&
        !(l->settings.hierarchy ? esp_str_eq(place->pk, esp_str_from(l->settings.hierarchy))
                                : esp_way_is_part(l, place->pk, id))) {
        return false;
    }
    int64_t depth = esp_path_key_has_depth(l) ? esp_item_number(item, PATH_KEY_DEPTH, -1) : -1;
    bool begins_elsewhere = cut && depth >= 0 && (uint64_t)depth + 1 >= parts &&
                            ((uint64_t)depth + 1 - parts) % segment != 0;
    return (segment == 0 || parts <= segment) && !begins_elsewhere;
}

/* The parent that the item names; len 0: none. */
static struct esp_str parent_of(const struct esp_layout *l, const struct esp_item *item,
                                const struct esp_place *place) {
    if (l->settings.by) {
        struct esp_str parent = esp_item_text(item, PATH_KEY_PARENT);
        return parent.ptr ? parent : (struct esp_str){"", 0};
    }
    return part_above(l, place);
}

static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    struct esp_place place = esp_place_of(l, item);
    *out = (struct esp_node_view){
        .id = esp_item_text(item, PATH_KEY_ID), .depth = place.depth, .data = item->data};
    if (!place.pk.ptr || !place.sk.ptr || !out->id.ptr) {
        return false;
    }
    if (is_readable(l, item, &place)) {
        out->parent_id = parent_of(l, item, &place);
        out->escaped = !l->settings.by && l->settings.escape;
    }
    return true;
}

/* --- check ------------------------------------------------------------------------ */

/* An esp_check, and memory for one item at a time. */
struct key_check {
    struct esp_check check;
    struct esp_arena scratch;
};

struct record {
    bool present, damaged, first, anchor; /* first: of a segment's way; anchor: its last */
    uint32_t parent;                      /* number + 1; 0 = a root */
    int64_t depth;
    uint64_t top, way, above; /* hashes: of the top, of the key, of the parent's key */
};

static uint64_t hash_key(struct esp_str pk, struct esp_str sk) {
    return esp_hash64(sk.ptr, sk.len, esp_hash64(pk.ptr, pk.len, 0));
}

/* Is the last part of the way this node's own? */
static bool names_itself(const struct esp_layout *l, const struct esp_item *item,
                         const struct esp_place *place, struct esp_arena *arena, bool *out) {
    struct esp_str source = esp_item_text(item, PATH_KEY_ID), none = {"", 0};
    if (l->settings.by && esp_path_key_name(l, item->data, arena, &source) != ESP_OK) {
        return false;
    }
    struct esp_str part = esp_way_join(l, arena, none, source, none);
    *out = part.len && esp_str_eq(part, esp_place_last(l, place->sk));
    return part.ptr != NULL;
}

/* With the key: the id alone does not tell where the item is. */
static enum esp_status report_place(struct esp_check *check, const struct esp_place *place,
                                    uint32_t number, bool has_id, const char *what) {
    char text[ESP_PK_BYTES_MAX + ESP_SK_BYTES_MAX + 256];
    snprintf(text, sizeof text, "%s (pk '%.*s', sk '%.*s')", has_id ? what : "the item has no id",
             ESP_FMT(place->pk), ESP_FMT(place->sk));
    return esp_check_report(check, has_id ? "bad-path" : "missing-id", number, ESP_IDMAP_NONE,
                            text);
}

/* What an item tells by itself. */
static enum esp_status check_alone(struct key_check *c, const struct esp_item *item,
                                   const struct esp_place *place, uint32_t number, bool damaged) {
    struct esp_check *check = &c->check;
    const struct esp_layout *l = check->access->layout;
    struct esp_arena *arena = &c->scratch;
    struct esp_str top, anchor, none = {"", 0};
    struct esp_value list;
    enum esp_status status = ESP_OK;
    bool cut = esp_place_cut(l, place->pk, &top, &anchor);
    if (damaged) {
        status =
            report_place(check, place, number, esp_item_text(item, PATH_KEY_ID).ptr,
                         l->settings.by ? "sk does not end with the node's name; on most nodes: "
                                          "the table has other options"
                                        : "sk does not end with the node's id; on most "
                                          "nodes: the table has another separator");
    }
    if (status == ESP_OK && l->settings.by && esp_place_parts(l, place->sk) > 1 &&
        !esp_item_text(item, PATH_KEY_PARENT).len) {
        status = esp_check_report(check, "bad-path", number, ESP_IDMAP_NONE,
                                  "parentId is missing although sk names nodes above");
    }
    int64_t depth = esp_item_number(item, PATH_KEY_DEPTH, -1);
    if (status == ESP_OK && esp_path_key_has_depth(l) && !cut &&
        depth != (int64_t)esp_place_parts(l, place->sk) - 1) {
        status = esp_check_report(check, "wrong-depth", number, ESP_IDMAP_NONE,
                                  "depth is not the number of nodes above in sk");
    }
    if (status == ESP_OK && l->settings.ancestors) {
        status = esp_place_ancestors(l, arena, place->sk, &list);
        if (status == ESP_OK && !esp_value_equal(&list, &item->value[PATH_KEY_ANCESTORS])) {
            status = esp_check_report(check, "wrong-ancestors", number, ESP_IDMAP_NONE,
                                      "ancestors is not the list of the paths that sk begins with");
        }
    }
    bool wrong = l->settings.hierarchy
                     ? !esp_str_eq(top, esp_str_from(l->settings.hierarchy))
                     : esp_place_is_root(l, place) && !damaged &&
                           !esp_str_eq(top, esp_way_join(l, arena, none,
                                                         esp_item_text(item, PATH_KEY_ID), none));
    return status == ESP_OK && wrong
               ? esp_check_report(check, "wrong-partition", number, ESP_IDMAP_NONE,
                                  l->settings.hierarchy ? "pk is not the hierarchy"
                                                        : "pk is not the id of the tree's root")
               : status;
}

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct key_check *c = ctx;
    struct esp_check *check = &c->check;
    struct esp_access *a = check->access;
    const struct esp_layout *l = a->layout;
    struct esp_place place = esp_place_of(l, item);
    struct esp_id_room room;
    struct esp_str top, anchor, id = esp_item_text(item, PATH_KEY_ID);
    uint32_t number, parent = ESP_IDMAP_NONE;
    bool own = false;
    esp_arena_reset(&c->scratch);
    if (!names_itself(l, item, &place, &c->scratch, &own)) {
        return esp_fail_nomem(a->err);
    }
    struct record record = {.present = true, .damaged = !id.ptr || !own};
    enum esp_status status = esp_check_number(
        check, id.ptr ? id : esp_way_id(l, esp_place_last(l, place.sk), &room), &number);
    struct esp_str above_id = id.ptr ? parent_of(l, item, &place) : (struct esp_str){0};
    if (status == ESP_OK && above_id.len) {
        above_id = l->settings.by ? above_id : esp_way_id(l, above_id, &room);
        status = esp_check_number(check, above_id, &parent);
        record.parent = parent + 1;
    }
    if (status != ESP_OK) {
        return status;
    }
    size_t above = esp_way_last(l, place.sk);
    record.first = above == 0;
    record.anchor = esp_place_is_anchor(l, place.sk);
    record.depth = esp_item_number(item, PATH_KEY_DEPTH, -1);
    esp_place_cut(l, place.pk, &top, &anchor);
    record.top = esp_hash64(top.ptr, top.len, 0);
    record.way = hash_key(place.pk, place.sk);
    place.sk.len = above ? above - l->separator.len : 0;
    record.above = hash_key(place.pk, place.sk);
    if (((struct record *)esp_check_record(check, number))->present) {
        return esp_check_report(check, "duplicate-node", number, ESP_IDMAP_NONE,
                                "two items have this id: a move was cut before the old one was "
                                "deleted");
    }
    *(struct record *)esp_check_record(check, number) = record;
    place = esp_place_of(l, item);
    return check_alone(c, item, &place, number, record.damaged);
}

/* What an item says of its parent. */
static enum esp_status check_node(struct esp_check *check, uint32_t number) {
    const struct esp_layout *l = check->access->layout;
    const struct record *record = esp_check_record(check, number);
    if (!record->present || !record->parent) {
        return ESP_OK;
    }
    uint32_t other = record->parent - 1;
    const struct record *parent = esp_check_record(check, other);
    if (!parent->present) {
        return esp_check_report(check, "missing-parent", number, other,
                                "the parent that the path names does not exist");
    }
    bool below = record->first && !l->settings.by ? parent->anchor : record->above == parent->way;
    bool cut = record->first && !l->settings.by;
    enum esp_status status = ESP_OK;
    if (record->top != parent->top) {
        status = esp_check_report(check, "wrong-partition", number, other,
                                  "pk is not of the tree that the parent is in");
    } else if (!below) {
        status = esp_check_report(check, "bad-path", number, other,
                                  cut ? "the path begins at a node where no segment ends"
                                      : "the path is not the parent's path and one part more");
    }
    if (status == ESP_OK && esp_path_key_has_depth(l) && l->settings.segment &&
        record->depth != parent->depth + 1) {
        status = esp_check_report(check, "wrong-depth", number, other,
                                  "depth is not the parent's depth + 1");
    }
    return status;
}

/* Segments may lead back to themselves: each is all right, and no read from a root finds them. */
static enum esp_status check_cycles(struct esp_check *check) {
    uint32_t count = check->ids.count;
    uint32_t *met = esp_arena_calloc(&check->arena, (size_t)count + 1, sizeof *met);
    enum esp_status status = met ? ESP_OK : esp_fail_nomem(check->access->err);
    for (uint32_t i = 0; status == ESP_OK && i < count; i++) {
        uint32_t at = i;
        while (!met[at]) {
            const struct record *record = esp_check_record(check, at);
            met[at] = i + 1;
            if (!record->parent) {
                break;
            }
            at = record->parent - 1;
            if (met[at] == i + 1) {
                uint32_t up = ((struct record *)esp_check_record(check, at))->parent - 1;
                status = esp_check_report(check, "cycle", at, up,
                                          "the segments above this node lead back to it");
            }
        }
    }
    return status;
}

static enum esp_status check(struct esp_access *a, esp_finding_fn *fn, void *ctx) {
    struct key_check c;
    esp_check_init(&c.check, a, sizeof(struct record), fn, ctx);
    esp_arena_init(&c.scratch, a->session->table->store->alloc, SIZE_MAX);
    enum esp_status status = esp_check_scan(&c.check, check_item);
    for (uint32_t i = 0; status == ESP_OK && i < c.check.ids.count; i++) {
        status = check_node(&c.check, i);
    }
    if (status == ESP_OK && a->layout->settings.segment) {
        status = check_cycles(&c.check);
    }
    esp_arena_fini(&c.scratch);
    esp_check_fini(&c.check);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- the layout ------------------------------------------------------------------- */

static const char *const on_off[] = {"on", "off", NULL}; /* enum esp_switch */
static const char *const off_on[] = {"off", "on", NULL};
static const char *const sources[] = {"id", "name", NULL};

#define OFFSET(field) offsetof(struct esp_layout_settings, field)
static const struct esp_option options[] = {
    ESP_WAY_SEPARATOR("/"),
    ESP_WAY_ESCAPE,
    {.name = "hierarchy",
     .type = ESP_OPT_STRING,
     .offset = OFFSET(hierarchy),
     .argument = "NAME",
     .help = "one partition key for all trees; default: each tree's id"},
    {.name = "by",
     .type = ESP_OPT_CHOICE,
     .offset = OFFSET(by),
     .argument = "id|name",
     .fallback = "id",
     .choices = sources,
     .help = "what paths are made of: ids, or names that no two siblings share"},
    {.name = "name",
     .type = ESP_OPT_STRING,
     .offset = OFFSET(name),
     .argument = "ATTR",
     .fallback = "name",
     .help = "the payload attribute that by=name takes"},
    {.name = "depth",
     .type = ESP_OPT_CHOICE,
     .offset = OFFSET(depth),
     .argument = "on|off",
     .fallback = "on",
     .choices = on_off,
     .help = "store the depth: filters on it keep what is not asked for from travelling"},
    {.name = "ancestors",
     .type = ESP_OPT_CHOICE,
     .offset = OFFSET(ancestors),
     .argument = "off|on",
     .fallback = "off",
     .choices = off_on,
     .help = "store the list of the ancestors' paths, for other programs to read"},
    {.name = "by-id",
     .type = ESP_OPT_CHOICE,
     .offset = OFFSET(by_id),
     .argument = "on|off",
     .fallback = "on",
     .choices = on_off,
     .help = "the index by-id; without it a node named by its id costs a scan of the table"},
    {.name = "segment",
     .type = ESP_OPT_U64,
     .offset = OFFSET(segment),
     .argument = "N",
     .fallback = "0",
     .help = "cut paths after every N levels, for trees of any depth; 0: never"},
    {.name = NULL},
};

extern const struct esp_layout_ops esp_layout_path_key;
const struct esp_layout_ops esp_layout_path_key =
    {
        .name = "path-key",
        .family = "path",
        .summary = "the way down to a node is its table key; a subtree is one query by prefix",
        .schema =
            {
                .attr = {[PATH_KEY_PK] = {{"pk", 2}, ESP_TYPE_S},
                         [PATH_KEY_SK] = {{"sk", 2}, ESP_TYPE_S},
                         [PATH_KEY_ID] = {{"id", 2}, ESP_TYPE_S},
                         [PATH_KEY_DEPTH] = {{"depth", 5}, ESP_TYPE_N},
                         [PATH_KEY_ANCESTORS] = {{"ancestors", 9}, ESP_TYPE_NONE},
                         [PATH_KEY_PARENT] = {{"parentId", 8}, ESP_TYPE_S}},
                .attr_count = PATH_KEY_ATTRS,
                .pk = PATH_KEY_PK,
                .sk = PATH_KEY_SK,
                .index = {[PATH_KEY_BY_ID] = {.name = {"by-id", 5},
                                              .pk = PATH_KEY_ID,
                                              .sk = -1,
                                              .projection = ESP_PROJECT_KEYS}},
                .index_count = 1,
            },
        .options = options,
        .configure = configure,
        .key_is_place = true,
        .parent_attr = -1,
        .view = view,
        .item_count = item_count,
        .validate = validate,
        .emit = emit,
        .locate = locate,
        .resolve = esp_path_key_resolve,
        .op =
            {
                [ESP_OP_NODE] = esp_path_key_node,
                [ESP_OP_PARENT] = esp_path_key_parent,
                [ESP_OP_CHILDREN] = esp_path_key_children,
                [ESP_OP_SIBLINGS] = esp_path_key_siblings,
                [ESP_OP_ANCESTORS] = esp_path_key_ancestors,
                [ESP_OP_DESCENDANTS] = esp_path_key_descendants,
                [ESP_OP_WINDOW] = esp_path_key_window,
                [ESP_OP_LEVEL] = esp_path_key_level,
                [ESP_OP_TREE] = esp_path_key_tree,
                [ESP_OP_IS_DESCENDANT] = esp_path_key_is_descendant,
                [ESP_OP_ROOTS] = esp_path_key_roots,
                [ESP_OP_INSERT] = esp_path_key_insert,
                [ESP_OP_UPDATE] = esp_path_key_update,
                [ESP_OP_MOVE] = esp_path_key_move,
                [ESP_OP_REMOVE] = esp_path_key_remove,
                [ESP_OP_PROMOTE] = esp_path_key_promote,
            },
        .check = check,
};
