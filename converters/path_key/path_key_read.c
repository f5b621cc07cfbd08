#include "converters/paging.h"
#include "converters/path_key/path_key.h"

enum { QUERIES_MAX = 16384 /* in one call: bounds the memory of wide steps */ };

/* --- looking up ------------------------------------------------------------------- */

/* An item of a scan that has one of the ids wanted. */
struct wanted {
    const struct esp_str *ids;
    size_t n;
    struct esp_item_list *found;
};

static enum esp_status keep_wanted(void *ctx, const struct esp_item *item) {
    struct wanted *wanted = ctx;
    struct esp_str id = esp_item_text(item, PATH_KEY_ID);
    bool is_wanted = false;
    for (size_t i = 0; i < wanted->n; i++) {
        is_wanted = is_wanted || (id.ptr && esp_str_eq(id, wanted->ids[i]));
    }
    return is_wanted && !esp_item_reserved(wanted->found->schema, item)
               ? esp_item_list_add(wanted->found, item)
               : ESP_OK;
}

enum esp_status esp_path_key_find(struct esp_access *a, const struct esp_str *ids, size_t n,
                                  struct esp_item_list *found) {
    const struct esp_schema *schema = &a->layout->schema;
    struct wanted wanted = {ids, n, found};
    esp_item_list_init(found, a);
    if (schema->index_count == 0) {
        struct esp_condition filter = {
            .name = schema->attr[PATH_KEY_ID].name, .op = ESP_EQ, .lo = esp_s(ids[0])};
        struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = a->consistent};
        if (n == 1) { /* conditions hold together: of two ids one would hide the other */
            scan.filter = &filter;
            scan.filter_count = 1;
        }
        return esp_session_scan(a->session, &scan, keep_wanted, &wanted, a->err);
    }
    struct esp_query *q = esp_arena_calloc(a->scratch, n, sizeof *q);
    if (!q) {
        return esp_fail_nomem(a->err);
    }
    for (size_t i = 0; i < n; i++) {
        q[i] = (struct esp_query){.index = PATH_KEY_BY_ID, .pk = esp_s(ids[i]), .op = ESP_ANY};
    }
    return esp_session_query_many(a->session, q, n, keep_wanted, &wanted, a->err);
}

const struct esp_item *esp_path_key_pick(const struct esp_item_list *list, struct esp_str id) {
    for (uint32_t i = 0; i < list->count; i++) {
        if (esp_str_eq(esp_item_text(&list->item[i], PATH_KEY_ID), id)) {
            return &list->item[i];
        }
    }
    return NULL;
}

/* The place of a node by its id; its item too if `item` is not NULL. */
static enum esp_status look_up(struct esp_access *a, struct esp_str id, struct esp_place *place,
                               struct esp_item *item) {
    struct esp_item_list found, whole;
    enum esp_status status = esp_path_key_find(a, &id, 1, &found);
    if (status != ESP_OK) {
        return status;
    }
    if (found.count == 0) {
        return esp_access_missing(a, id);
    }
    if (item && a->layout->schema.index_count) {
        /* Of several entries (a torn move) some may be of items that are gone. */
        esp_item_list_init(&whole, a);
        struct esp_item *keys = esp_arena_calloc(a->scratch, found.count, sizeof *keys);
        for (uint32_t i = 0; keys && i < found.count; i++) {
            keys[i] = found.item[i];
        }
        status = keys ? esp_session_get(a->session, keys, found.count, a->consistent,
                                        esp_item_list_add, &whole, a->err)
                      : esp_fail_nomem(a->err);
        if (status != ESP_OK || whole.count == 0) {
            return status != ESP_OK ? status : esp_access_missing(a, id);
        }
        found = whole;
    }
    if (item) {
        *item = found.item[0];
    }
    *place = esp_place_of(a->layout, &found.item[0]);
    return ESP_OK;
}

enum esp_status esp_path_key_get(struct esp_access *a, const struct esp_place *place,
                                 struct esp_str id, struct esp_item *out) {
    struct esp_item_list found;
    struct esp_item key = esp_place_key(place);
    esp_item_list_init(&found, a);
    enum esp_status status =
        esp_session_get(a->session, &key, 1, a->consistent, esp_item_list_add, &found, a->err);
    if (status == ESP_OK && found.count == 0) {
        return esp_access_missing(a, id);
    }
    if (status == ESP_OK) {
        *out = found.item[0];
    }
    return status;
}

enum esp_status esp_path_key_at(struct esp_access *a, const struct esp_locator *at,
                                struct esp_place *out) {
    if (at->key) {
        *out = *(const struct esp_place *)at->key;
        return ESP_OK;
    }
    return look_up(a, at->id, out, NULL);
}

enum esp_status esp_path_key_resolve(struct esp_access *a, struct esp_str id,
                                     struct esp_locator *out) {
    /* Only where ways are cut does the depth have to be read. */
    bool read = a->layout->settings.segment && esp_path_key_has_depth(a->layout);
    struct esp_item item;
    struct esp_place *place = esp_arena_calloc(a->scratch, 1, sizeof *place);
    struct esp_str copy = esp_arena_dup(a->scratch, id);
    if (!place || !copy.ptr) {
        return esp_fail_nomem(a->err);
    }
    *out = (struct esp_locator){copy, place};
    return look_up(a, id, place, read ? &item : NULL);
}

/* --- walking down ----------------------------------------------------------------- */

/* The levels of one step that matter: from *lo to *hi, anchors whose descendants are wanted among
 * them.  False: all of them. */
static bool step_levels(const struct esp_descent *d, uint64_t *lo, uint64_t *hi) {
    uint64_t segment = d->access->layout->settings.segment;
    uint64_t first = d->base < 0 ? 1 : (uint64_t)d->base + 1;
    uint64_t last = segment ? (uint64_t)(d->base + (int64_t)segment) : UINT32_MAX;
    *lo = d->hi > last && d->lo > last ? last : d->lo;
    *hi = d->hi > last ? last : d->hi;
    return *lo > first || *hi < last;
}

static void set_filter(const struct esp_descent *d, struct esp_condition *filter,
                       struct esp_query *q) {
    const struct esp_layout *l = d->access->layout;
    uint64_t lo, hi;
    if (!step_levels(d, &lo, &hi) || !esp_path_key_has_depth(l) || d->from.depth < 0) {
        return;
    }
    *filter = (struct esp_condition){
        .name = l->schema.attr[PATH_KEY_DEPTH].name,
        .op = hi == UINT32_MAX ? ESP_GE
              : lo == hi       ? ESP_EQ
                               : ESP_BETWEEN,
        .lo = esp_n(d->from.depth + (int64_t)lo),
        .hi = esp_n(d->from.depth + (int64_t)hi),
    };
    q->filter = filter;
    q->filter_count = 1;
}

static enum esp_status meet(void *ctx, const struct esp_item *item) {
    struct esp_descent *d = ctx;
    struct esp_access *a = d->access;
    struct esp_place place = esp_place_of(a->layout, item);
    int64_t below = d->base + (int64_t)esp_place_parts(a->layout, place.sk);
    if (below < (int64_t)d->hi && esp_place_is_anchor(a->layout, place.sk)) {
        struct esp_str pk, prefix;
        uint32_t number;
        enum esp_status status = esp_place_inside(a->layout, a->scratch, &place, &pk, &prefix);
        if (status == ESP_OK) { /* a partition twice: two items of one node, a torn move */
            status = esp_idmap_intern(&d->asked, pk, &number);
        }
        if (status != ESP_OK) {
            return status;
        }
    }
    return below >= (int64_t)d->lo && below <= (int64_t)d->hi ? d->fn(d->ctx, item, (uint32_t)below)
                                                              : ESP_OK;
}

/* The partitions of the anchors [from, to). */
static enum esp_status descend_step(struct esp_descent *d, uint32_t from, uint32_t to) {
    struct esp_access *a = d->access;
    struct esp_condition filter;
    struct esp_query q = {.index = ESP_PRIMARY, .op = ESP_ANY, .consistent = a->consistent};
    set_filter(d, &filter, &q);
    uint32_t most = to - from < QUERIES_MAX ? to - from : QUERIES_MAX;
    struct esp_query *queries = esp_arena_calloc(a->scratch, most, sizeof *queries);
    enum esp_status status = queries ? ESP_OK : esp_fail_nomem(a->err);
    while (status == ESP_OK && from < to) {
        uint32_t n = to - from < most ? to - from : most;
        for (uint32_t i = 0; i < n; i++) {
            queries[i] = q;
            queries[i].pk = esp_s(d->asked.id[from + i]);
        }
        status = esp_session_query_many(a->session, queries, n, meet, d, a->err);
        from += n;
    }
    return status;
}

enum esp_status esp_path_key_descend(struct esp_descent *d) {
    struct esp_access *a = d->access;
    struct esp_str pk, prefix;
    struct esp_condition filter;
    uint64_t segment = a->layout->settings.segment;
    uint32_t number, done = 0;
    esp_idmap_init(&d->asked, a->scratch);
    d->step = 0;
    enum esp_status status = esp_place_inside(a->layout, a->scratch, &d->from, &pk, &prefix);
    if (status == ESP_OK && prefix.len == 0) {
        d->base = 0;
        status = esp_idmap_intern(&d->asked, pk, &number);
    } else if (status == ESP_OK) {
        struct esp_query q = {.index = ESP_PRIMARY,
                              .pk = esp_s(pk),
                              .op = ESP_PREFIX,
                              .lo = esp_s(prefix),
                              .consistent = a->consistent};
        d->base = -(int64_t)esp_place_parts(a->layout, d->from.sk);
        set_filter(d, &filter, &q);
        status = d->pass && !segment ? esp_paging_query(a, &q, meet, d, d->pass, d->pass_ctx, NULL)
                                     : esp_session_query(a->session, &q, meet, d, a->err);
        d->base += (int64_t)segment;
        d->step++;
    }
    if (status == ESP_ERR_NOMEM) {
        return esp_fail_nomem(a->err);
    }
    while (status == ESP_OK && done < d->asked.count) {
        uint32_t end = d->asked.count;
        status = descend_step(d, done, end);
        done = end;
        d->base += (int64_t)segment;
        d->step++;
    }
    return status;
}

/* What a walk finds is passed on as nodes. */
struct sink {
    struct esp_access *access;
    esp_node_fn *fn;
    void *ctx;
    int64_t depth; /* of the node at the top; -1: not known */
    uint64_t count;
};

static enum esp_status pass_below(void *ctx, const struct esp_item *item, uint32_t below) {
    struct sink *sink = ctx;
    struct esp_id_room room;
    struct esp_node_view view;
    sink->count++;
    if (!esp_layout_view(sink->access->layout, item, &room, &view)) {
        return ESP_OK;
    }
    if (view.depth < 0 && sink->depth >= 0) {
        view.depth = sink->depth + below;
    }
    return sink->fn(sink->ctx, &view);
}

static enum esp_status window(struct esp_access *a, const struct esp_place *from, uint32_t lo,
                              uint32_t hi, esp_node_fn *fn, void *ctx, uint64_t *count) {
    struct sink sink = {.access = a, .fn = fn, .ctx = ctx, .depth = from->depth};
    struct esp_descent d = {.access = a,
                            .from = *from,
                            .lo = lo,
                            .hi = hi,
                            .fn = pass_below,
                            .ctx = &sink,
                            .pass = fn,
                            .pass_ctx = ctx};
    enum esp_status status = hi >= lo ? esp_path_key_descend(&d) : ESP_OK;
    if (count) {
        *count = sink.count;
    }
    return status;
}

/* --- walking up ------------------------------------------------------------------- */

static enum esp_status damaged(struct esp_access *a, struct esp_str id) {
    return esp_fail(a->err, ESP_ERR_CYCLE,
                    "the table is damaged: the way up from the segment of '%.*s' leads back to it; "
                    "check names the nodes",
                    ESP_FMT(id));
}

/* From partition to partition up to the top of a tree. */
struct ascent {
    struct esp_access *access;
    struct esp_idmap met; /* anchors */
};

/* *place becomes the place of the anchor that its partition belongs to; *more false: its partition
 * is the top, or the anchor is not there. */
static enum esp_status ascend(struct ascent *up, struct esp_place *place, bool *more) {
    struct esp_access *a = up->access;
    struct esp_str top, anchor;
    struct esp_id_room room;
    struct esp_item_list found;
    uint32_t number, before = up->met.count;
    *more = esp_place_cut(a->layout, place->pk, &top, &anchor);
    if (!*more) {
        return ESP_OK;
    }
    struct esp_str id = esp_arena_dup(a->scratch, esp_way_id(a->layout, anchor, &room));
    enum esp_status status =
        id.ptr ? esp_idmap_intern(&up->met, id, &number) : esp_fail_nomem(a->err);
    if (status == ESP_OK && number < before) {
        return damaged(a, id);
    }
    if (status == ESP_OK) {
        status = esp_path_key_find(a, &id, 1, &found);
    }
    if (status == ESP_OK) {
        *more = found.count > 0;
        *place = *more ? esp_place_of(a->layout, &found.item[0]) : *place;
    }
    return status;
}

static struct ascent ascent_from(struct esp_access *a) {
    struct ascent up = {.access = a};
    esp_idmap_init(&up.met, a->scratch);
    return up;
}

enum esp_status esp_path_key_up(struct esp_access *a, const struct esp_place *at,
                                struct esp_place *out) {
    const struct esp_layout *l = a->layout;
    struct ascent up = ascent_from(a);
    bool more;
    *out = *at;
    if (esp_place_parts(l, at->sk) > 1) {
        out->sk.len = esp_way_last(l, at->sk) - l->separator.len;
        out->depth = at->depth < 0 ? -1 : at->depth - 1;
        return ESP_OK;
    }
    enum esp_status status = ascend(&up, out, &more);
    return status == ESP_OK && !more ? esp_access_missing(a, out->pk) : status;
}

enum esp_status esp_path_key_is_below(struct esp_access *a, const struct esp_place *at,
                                      const struct esp_place *to, bool *out) {
    const struct esp_layout *l = a->layout;
    struct ascent up = ascent_from(a);
    struct esp_place place = *at;
    enum esp_status status = ESP_OK;
    bool more = true;
    *out = false;
    /* A node that is no deeper need not be looked for. */
    if (at->depth >= 0 && to->depth >= 0 && at->depth <= to->depth) {
        return ESP_OK;
    }
    for (bool first = true; status == ESP_OK && more && !*out; first = false) {
        size_t len = to->sk.len;
        *out = esp_str_eq(place.pk, to->pk) && place.sk.len >= len &&
               memcmp(place.sk.ptr, to->sk.ptr, len) == 0 &&
               (place.sk.len == len
                    ? !first
                    : place.sk.len - len >= l->separator.len &&
                          memcmp(place.sk.ptr + len, l->separator.ptr, l->separator.len) == 0);
        if (!*out) {
            status = ascend(&up, &place, &more);
        }
    }
    return status;
}

/* The places above a node, nearest first. */
struct above {
    struct esp_place *at;
    uint32_t count, cap;
};

static enum esp_status add_above(struct esp_access *a, struct above *above,
                                 const struct esp_place *place) {
    struct esp_place *grown =
        esp_arena_grow(a->scratch, above->at, &above->cap, above->count + 1, sizeof *grown);
    if (!grown) {
        return esp_fail_nomem(a->err);
    }
    above->at = grown;
    grown[above->count++] = *place;
    return ESP_OK;
}

static enum esp_status climb(struct esp_access *a, struct esp_place place, struct above *above) {
    const struct esp_layout *l = a->layout;
    struct ascent up = ascent_from(a);
    enum esp_status status = ESP_OK;
    bool more = true;
    *above = (struct above){.count = 0};
    while (status == ESP_OK && more) {
        while (status == ESP_OK && esp_place_parts(l, place.sk) > 1) {
            place.sk.len = esp_way_last(l, place.sk) - l->separator.len;
            status = add_above(a, above, &place);
        }
        if (status == ESP_OK) {
            status = ascend(&up, &place, &more);
        }
        if (status == ESP_OK && more) {
            status = add_above(a, above, &place);
        }
    }
    return status;
}

/* A key as one text: keys hold no zero bytes that could make two of them alike. */
static struct esp_str key_text(struct esp_access *a, struct esp_str pk, struct esp_str sk) {
    return esp_access_join(a, pk, (struct esp_str){"", 1}, sk);
}

/* Fetch the items at these places in one round trip and pass them on from the last to the first;
 * missing ones are skipped. */
static enum esp_status pass_places(struct esp_access *a, const struct above *above, esp_node_fn *fn,
                                   void *ctx) {
    struct esp_item *keys = esp_arena_calloc(a->scratch, above->count + 1, sizeof *keys);
    struct esp_item **slot = esp_arena_calloc(a->scratch, above->count + 1, sizeof *slot);
    struct esp_item_list found;
    struct esp_idmap map;
    uint32_t number;
    esp_item_list_init(&found, a);
    esp_idmap_init(&map, a->scratch);
    enum esp_status status = keys && slot ? ESP_OK : ESP_ERR_NOMEM;
    for (uint32_t i = 0; status == ESP_OK && i < above->count; i++) {
        const struct esp_place *place = &above->at[above->count - 1 - i];
        struct esp_str text = key_text(a, place->pk, place->sk);
        status = text.ptr ? esp_idmap_intern(&map, text, &number) : ESP_ERR_NOMEM;
        if (status == ESP_OK) {
            keys[number] = esp_place_key(place);
        }
    }
    if (status != ESP_OK) {
        return esp_fail_nomem(a->err);
    }
    status = map.count ? esp_session_get(a->session, keys, map.count, a->consistent,
                                         esp_item_list_add, &found, a->err)
                       : ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < found.count; i++) {
        struct esp_str text = key_text(a, esp_item_text(&found.item[i], PATH_KEY_PK),
                                       esp_item_text(&found.item[i], PATH_KEY_SK));
        number = text.ptr ? esp_idmap_find(&map, text) : ESP_IDMAP_NONE;
        status = text.ptr ? ESP_OK : esp_fail_nomem(a->err);
        if (number != ESP_IDMAP_NONE) {
            slot[number] = &found.item[i];
        }
    }
    for (uint32_t i = 0; status == ESP_OK && i < map.count; i++) {
        status = slot[i] ? esp_access_pass(a, slot[i], fn, ctx) : ESP_OK;
    }
    return status;
}

/* --- reads ------------------------------------------------------------------------ */

/* The item of a locator's node. */
static enum esp_status item_at(struct esp_access *a, const struct esp_locator *at,
                               struct esp_place *place, struct esp_item *item) {
    if (at->key) {
        *place = *(const struct esp_place *)at->key;
        return esp_path_key_get(a, place, at->id, item);
    }
    return look_up(a, at->id, place, item);
}

enum esp_status esp_path_key_node(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    struct esp_place place;
    struct esp_item item;
    enum esp_status status = item_at(a, &args->at, &place, &item);
    return status == ESP_OK ? esp_access_pass(a, &item, fn, ctx) : status;
}

enum esp_status esp_path_key_parent(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct esp_place at, up;
    struct esp_item item;
    enum esp_status status = esp_path_key_at(a, &args->at, &at);
    if (status != ESP_OK || esp_place_is_root(a->layout, &at)) {
        return status;
    }
    status = esp_path_key_up(a, &at, &up);
    if (status == ESP_OK) {
        status = esp_path_key_get(a, &up, up.sk, &item);
    }
    return status == ESP_OK ? esp_access_pass(a, &item, fn, ctx) : status;
}

enum esp_status esp_path_key_children(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    struct esp_place at;
    enum esp_status status = esp_path_key_at(a, &args->at, &at);
    return status == ESP_OK ? window(a, &at, 1, 1, fn, ctx, NULL) : status;
}

/* Siblings have the same partition, and the same way but for its last part. */
struct siblings {
    struct esp_access *access;
    struct esp_place at;
    esp_node_fn *fn;
    void *ctx;
};

static enum esp_status pass_sibling(void *ctx, const struct esp_item *item) {
    struct siblings *s = ctx;
    const struct esp_layout *l = s->access->layout;
    struct esp_str sk = esp_item_text(item, PATH_KEY_SK);
    return esp_str_eq(sk, s->at.sk) || esp_place_parts(l, sk) != esp_place_parts(l, s->at.sk)
               ? ESP_OK
               : esp_access_pass(s->access, item, s->fn, s->ctx);
}

enum esp_status esp_path_key_siblings(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    const struct esp_layout *l = a->layout;
    struct siblings s = {.access = a, .fn = fn, .ctx = ctx};
    enum esp_status status = esp_path_key_at(a, &args->at, &s.at);
    if (status != ESP_OK || esp_place_is_root(l, &s.at)) {
        return status;
    }
    struct esp_condition filter = {
        .name = l->schema.attr[PATH_KEY_DEPTH].name, .op = ESP_EQ, .lo = esp_n(s.at.depth)};
    struct esp_query q = {.index = ESP_PRIMARY,
                          .pk = esp_s(s.at.pk),
                          .op = ESP_ANY,
                          .filter = &filter,
                          .filter_count = esp_path_key_has_depth(l) && s.at.depth >= 0,
                          .consistent = a->consistent};
    struct esp_str before = {s.at.sk.ptr, esp_way_last(l, s.at.sk)};
    if (before.len) {
        q.op = ESP_PREFIX;
        q.lo = esp_s(before);
    }
    return esp_paging_query(a, &q, pass_sibling, &s, fn, ctx, NULL);
}

enum esp_status esp_path_key_ancestors(struct esp_access *a, const struct esp_args *args,
                                       esp_node_fn *fn, void *ctx) {
    struct esp_place at;
    struct above above;
    enum esp_status status = esp_path_key_at(a, &args->at, &at);
    if (status == ESP_OK) {
        status = climb(a, at, &above);
    }
    return status == ESP_OK ? pass_places(a, &above, fn, ctx) : status;
}

enum esp_status esp_path_key_descendants(struct esp_access *a, const struct esp_args *args,
                                         esp_node_fn *fn, void *ctx) {
    struct esp_place at;
    enum esp_status status = esp_path_key_at(a, &args->at, &at);
    return status == ESP_OK ? window(a, &at, 1, UINT32_MAX, fn, ctx, NULL) : status;
}

enum esp_status esp_path_key_window(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct esp_place at;
    struct esp_item item;
    enum esp_status status =
        args->lo == 0 ? item_at(a, &args->at, &at, &item) : esp_path_key_at(a, &args->at, &at);
    if (status == ESP_OK && args->lo == 0) {
        status = esp_access_pass(a, &item, fn, ctx);
    }
    return status == ESP_OK ? window(a, &at, args->lo ? args->lo : 1, args->hi, fn, ctx, NULL)
                            : status;
}

/* The place of a root follows from its id, unless ways are made of names. */
static enum esp_status root_at(struct esp_access *a, const struct esp_locator *at,
                               struct esp_place *out) {
    const struct esp_layout *l = a->layout;
    struct esp_str none = {"", 0};
    if (at->key || l->settings.by) {
        return esp_path_key_at(a, at, out);
    }
    struct esp_str part = esp_way_join(l, a->scratch, none, at->id, none);
    return part.ptr && esp_place_root(l, a->scratch, at->id, part, out) == ESP_OK
               ? ESP_OK
               : esp_fail_nomem(a->err);
}

enum esp_status esp_path_key_level(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct esp_place at;
    struct esp_item item;
    uint64_t count = 0;
    enum esp_status status = root_at(a, &args->at, &at);
    if (status == ESP_OK && args->lo > 0) {
        status = window(a, &at, args->lo, args->lo, fn, ctx, &count);
    }
    if (status == ESP_OK && count == 0 && (args->lo == 0 || !args->at.key)) {
        status = esp_path_key_get(a, &at, args->at.id, &item);
    }
    return status == ESP_OK && args->lo == 0 ? esp_access_pass(a, &item, fn, ctx) : status;
}

/* A tree that has partitions of its own, and but one, is one query. */
enum esp_status esp_path_key_tree(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    const struct esp_layout_settings *set = &a->layout->settings;
    struct esp_str none = {"", 0};
    struct esp_place at;
    struct esp_item item;
    enum esp_status status;
    if (!set->hierarchy && !set->segment) {
        uint64_t count;
        struct esp_str pk = esp_way_join(a->layout, a->scratch, none, args->at.id, none);
        struct esp_query q = {
            .index = ESP_PRIMARY, .pk = esp_s(pk), .op = ESP_ANY, .consistent = a->consistent};
        status = pk.ptr ? esp_access_query(a, &q, (struct esp_str){0}, fn, ctx, &count)
                        : esp_fail_nomem(a->err);
        return status == ESP_OK && count == 0 ? esp_access_missing(a, args->at.id) : status;
    }
    status = root_at(a, &args->at, &at);
    if (status == ESP_OK) {
        status = esp_path_key_get(a, &at, args->at.id, &item);
    }
    if (status == ESP_OK) {
        status = esp_access_pass(a, &item, fn, ctx);
    }
    return status == ESP_OK ? window(a, &at, 1, UINT32_MAX, fn, ctx, NULL) : status;
}

enum esp_status esp_path_key_is_descendant(struct esp_access *a, const struct esp_args *args,
                                           esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct esp_str ids[2];
    struct esp_item_list found = {.count = 0};
    struct esp_place place[2];
    const struct esp_locator *at[2] = {&args->at, &args->to};
    size_t n = 0;
    bool below = false;
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < 2; i++) {
        if (!at[i]->key && (n == 0 || !esp_str_eq(ids[0], at[i]->id))) {
            ids[n++] = at[i]->id;
        }
    }
    if (n) {
        status = esp_path_key_find(a, ids, n, &found);
    }
    for (size_t i = 0; status == ESP_OK && i < 2; i++) {
        const struct esp_item *item = at[i]->key ? NULL : esp_path_key_pick(&found, at[i]->id);
        if (at[i]->key) {
            place[i] = *(const struct esp_place *)at[i]->key;
        } else if (item) {
            place[i] = esp_place_of(a->layout, item);
        } else {
            status = esp_access_missing(a, at[i]->id);
        }
    }
    if (status == ESP_OK) {
        status = esp_path_key_is_below(a, &place[0], &place[1], &below);
    }
    a->value = below;
    return status;
}

static enum esp_status pass_root(void *ctx, const struct esp_item *item) {
    struct esp_node_sink *sink = ctx;
    const struct esp_layout *l = sink->access->layout;
    struct esp_place place = esp_place_of(l, item);
    return esp_item_reserved(&l->schema, item) || !esp_place_is_root(l, &place)
               ? ESP_OK
               : esp_node_sink_add(sink, item);
}

enum esp_status esp_path_key_roots(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    (void)args;
    struct esp_condition filter = {
        .name = a->layout->schema.attr[PATH_KEY_DEPTH].name, .op = ESP_EQ, .lo = esp_n(0)};
    struct esp_scan scan = {.index = ESP_PRIMARY,
                            .filter = &filter,
                            .filter_count = esp_path_key_has_depth(a->layout),
                            .consistent = a->consistent};
    struct esp_node_sink sink = {.access = a, .fn = fn, .ctx = ctx};
    return esp_session_scan(a->session, &scan, pass_root, &sink, a->err);
}
