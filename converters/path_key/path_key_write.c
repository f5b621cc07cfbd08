#include "converters/path_key/path_key.h"

/* --- checks before the first write -------------------------------------------------- */

static enum esp_status check_place(struct esp_access *a, const struct esp_place *place,
                                   struct esp_str id) {
    bool sk = place->sk.len > ESP_SK_BYTES_MAX;
    if (!sk && place->pk.len <= ESP_PK_BYTES_MAX) {
        return ESP_OK;
    }
    return esp_fail(a->err, ESP_ERR_LIMIT,
                    "the %s key of '%.*s' at depth %lld would have %zu bytes; at most %d are "
                    "possible%s",
                    sk ? "sort" : "partition", ESP_FMT(id), (long long)place->depth,
                    sk ? place->sk.len : place->pk.len, sk ? ESP_SK_BYTES_MAX : ESP_PK_BYTES_MAX,
                    sk ? ": a table made with --set segment=N has no such bound" : "");
}

/* The part of a new or renamed node. */
static enum esp_status part_of(struct esp_access *a, struct esp_str id, struct esp_data data,
                               struct esp_str *part) {
    const struct esp_layout *l = a->layout;
    struct esp_str text = id, none = {"", 0};
    enum esp_status status = ESP_OK;
    if (!l->settings.by) {
        status = esp_way_check_id(a, id);
    } else if (esp_path_key_name(l, data, a->scratch, &text) != ESP_OK) {
        status = esp_fail_nomem(a->err);
    } else if (text.len == 0) {
        status = esp_fail(a->err, ESP_ERR_INPUT,
                          "'%.*s' has no attribute '%s' with a text: with by=name it is part of "
                          "the key",
                          ESP_FMT(id), l->settings.name);
    } else if (!l->settings.escape &&
               memmem(text.ptr, text.len, l->separator.ptr, l->separator.len)) {
        status = esp_fail(a->err, ESP_ERR_INPUT,
                          "the name '%.*s' of '%.*s' contains the separator '%.*s'; a table made "
                          "with --set escape=percent takes it",
                          ESP_FMT(text), ESP_FMT(id), ESP_FMT(l->separator));
    }
    if (status == ESP_OK) {
        *part = esp_way_join(l, a->scratch, none, text, none);
        status = part->ptr ? ESP_OK : esp_fail_nomem(a->err);
    }
    return status;
}

static enum esp_status taken(struct esp_access *a, const struct esp_place *place) {
    return esp_fail(a->err, ESP_ERR_EXISTS, "there is another node at '%.*s' already",
                    ESP_FMT(place->sk));
}

/* The structural attributes that follow from a place. */
static enum esp_status set_place(struct esp_access *a, const struct esp_place *place,
                                 struct esp_item *item) {
    const struct esp_layout *l = a->layout;
    item->value[PATH_KEY_PK] = esp_s(place->pk);
    item->value[PATH_KEY_SK] = esp_s(place->sk);
    item->value[PATH_KEY_DEPTH] = (struct esp_value){.type = ESP_TYPE_NONE};
    if (esp_path_key_has_depth(l) && place->depth >= 0) {
        item->value[PATH_KEY_DEPTH] = esp_n(place->depth);
    }
    return l->settings.ancestors && esp_place_ancestors(l, a->scratch, place->sk,
                                                        &item->value[PATH_KEY_ANCESTORS]) != ESP_OK
               ? esp_fail_nomem(a->err)
               : ESP_OK;
}

static void set_parent(const struct esp_layout *l, struct esp_str parent, struct esp_item *item) {
    if (l->settings.by) {
        item->value[PATH_KEY_PARENT] = esp_s(parent);
        item->value[PATH_KEY_PARENT].type = parent.len ? ESP_TYPE_S : ESP_TYPE_NONE;
    }
}

/* --- insert ----------------------------------------------------------------------- */

/* The new parent's item, of an entry of the index. */
static enum esp_status read_parent(struct esp_access *a, const struct esp_item_list *found,
                                   struct esp_str id, struct esp_place *out) {
    const struct esp_item *entry = esp_path_key_pick(found, id);
    struct esp_item item;
    if (!entry) {
        return esp_access_missing(a, id);
    }
    struct esp_place place = esp_place_of(a->layout, entry);
    enum esp_status status = esp_path_key_get(a, &place, id, &item);
    if (status == ESP_OK) {
        *out = esp_place_of(a->layout, &item);
        status = esp_access_rely(a, &item);
    }
    return status;
}

/* Where a node goes: below the parent, or as a root. */
static enum esp_status place_under(struct esp_access *a, const struct esp_place *parent,
                                   struct esp_str id, struct esp_str part, struct esp_place *out) {
    enum esp_status status = parent ? esp_place_below(a->layout, a->scratch, parent, part, out)
                                    : esp_place_root(a->layout, a->scratch, id, part, out);
    return status == ESP_OK ? check_place(a, out, id) : esp_fail_nomem(a->err);
}

static enum esp_status check_new_id(struct esp_access *a, struct esp_str id) {
    if (id.len == 0) {
        return esp_fail(a->err, ESP_ERR_REFUSED, "the attribute '%.*s' is a key and empty",
                        ESP_FMT(a->layout->schema.attr[PATH_KEY_ID].name));
    }
    return id.len <= ESP_ID_BYTES_MAX
               ? ESP_OK
               : esp_fail(a->err, ESP_ERR_LIMIT, "the id has %zu bytes; at most %d are possible",
                          id.len, ESP_ID_BYTES_MAX);
}

/* The condition on the put guards the way only, so the id is looked for first. */
enum esp_status esp_path_key_insert(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    const struct esp_layout *l = a->layout;
    struct esp_str part, ids[2] = {args->id, args->to.id};
    bool look_to = args->to.id.len && !args->to.key;
    struct esp_item item = {.data = args->data};
    struct esp_item_list found;
    struct esp_place parent, place;
    enum esp_status status = check_new_id(a, args->id);
    if (status == ESP_OK) {
        status = part_of(a, args->id, args->data, &part);
    }
    if (status == ESP_OK) {
        bool two = look_to && !esp_str_eq(ids[0], ids[1]);
        status = esp_path_key_find(a, ids, two ? 2 : 1, &found);
    }
    if (status == ESP_OK && look_to) {
        status = read_parent(a, &found, args->to.id, &parent);
    } else if (status == ESP_OK && args->to.id.len) {
        parent = *(const struct esp_place *)args->to.key;
    }
    if (status == ESP_OK && esp_path_key_pick(&found, args->id)) {
        status = esp_access_outcome(a, ESP_ERR_CONDITION, args->id, ESP_ERR_EXISTS);
    }
    if (status == ESP_OK) {
        status = place_under(a, args->to.id.len ? &parent : NULL, args->id, part, &place);
    }
    if (status == ESP_OK) {
        item.value[PATH_KEY_ID] = esp_s(args->id);
        set_parent(l, args->to.id, &item);
        status = set_place(a, &place, &item);
    }
    if (status != ESP_OK || !l->settings.by) {
        return status == ESP_OK ? esp_access_insert(a, &item, args->id) : status;
    }
    struct esp_condition absent = {.name = l->schema.attr[PATH_KEY_PK].name, .op = ESP_NOT_EXISTS};
    struct esp_write write = {
        .kind = ESP_PUT, .item = item, .condition = &absent, .condition_count = 1};
    status = esp_access_check_insert(a, &item);
    status = status == ESP_OK ? esp_access_send(a, &write, 1) : status;
    if (status == ESP_ERR_CONDITION) {
        esp_error_clear(a->err);
        status = taken(a, &place);
    }
    return status;
}

/* --- subtrees --------------------------------------------------------------------- */

/* The descendants of a node, step by step of partitions. */
struct subtree {
    struct esp_descent descent;
    struct esp_item_list list;
    uint32_t *step; /* that found list.item[i] */
    uint32_t cap;
};

static enum esp_status add_below(void *ctx, const struct esp_item *item, uint32_t below) {
    (void)below;
    struct subtree *s = ctx;
    uint32_t *step =
        esp_arena_grow(s->list.arena, s->step, &s->cap, s->list.count + 1, sizeof *step);
    if (!step) {
        return ESP_ERR_NOMEM;
    }
    s->step = step;
    step[s->list.count] = s->descent.step;
    return esp_item_list_add(&s->list, item);
}

static enum esp_status read_subtree(struct esp_access *a, const struct esp_place *from,
                                    struct subtree *s) {
    *s = (struct subtree){.cap = 0};
    s->descent = (struct esp_descent){
        .access = a, .from = *from, .lo = 1, .hi = UINT32_MAX, .fn = add_below, .ctx = s};
    esp_item_list_init(&s->list, a);
    enum esp_status status = esp_path_key_descend(&s->descent);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* The partitions furthest from the top first, and each step when the one before is done: what is
 * left of a torn write still hangs together, so that it can be repeated.  `stay[i]`: this one's
 * key goes on; NULL: none. */
static enum esp_status delete_subtree(struct esp_writes *writes, const struct subtree *s,
                                      const bool *stay) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = s->list.count; status == ESP_OK && i-- > 0;) {
        const struct esp_item *item = &s->list.item[i];
        struct esp_write write = {.kind = ESP_DELETE, .item = *item, .old = item};
        if (i + 1 < s->list.count && s->step[i] != s->step[i + 1]) {
            status = esp_writes_flush(writes);
        }
        if (status == ESP_OK && !(stay && stay[i])) {
            status = esp_writes_add(writes, &write);
        }
    }
    return status == ESP_OK ? esp_writes_flush(writes) : status;
}

static enum esp_status delete_node(struct esp_access *a, const struct esp_place *at,
                                   struct esp_str id, const struct esp_item *old) {
    struct esp_write write = {.kind = ESP_DELETE, .item = esp_place_key(at), .old = old};
    return esp_access_write(a, &write, id, ESP_ERR_NOT_FOUND);
}

enum esp_status esp_path_key_remove(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct esp_place at;
    struct esp_writes writes;
    struct subtree s;
    enum esp_status status = esp_path_key_at(a, &args->at, &at);
    if (status == ESP_OK) {
        status = read_subtree(a, &at, &s);
    }
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, s.list.count);
    }
    if (status == ESP_OK) {
        status = delete_subtree(&writes, &s, NULL);
    }
    return status == ESP_OK ? delete_node(a, &at, args->at.id, NULL) : status;
}

/* --- new keys for a subtree ------------------------------------------------------- */

/* What is below `from` goes below `to`: a way below the one is the same way below the other. */
struct rekey {
    struct esp_access *access;
    struct esp_place from, to;
    struct esp_item item;        /* of the node at `from`, as it is */
    struct esp_str child_parent; /* by=name: the parent's id of what is right below `to` */
    struct subtree below;
    struct esp_place *place; /* where below.list.item[i] goes */
    bool *stay;              /* it stays where it is */
    struct esp_idmap cut;    /* partitions of the anchors as they are */
    struct esp_place *base;  /* where those anchors go */
    uint32_t base_cap;
};

/* The anchor whose partition this is now goes to `place`. */
static enum esp_status note_anchor(struct rekey *r, const struct esp_place *anchor,
                                   const struct esp_place *place) {
    struct esp_arena *arena = r->access->scratch;
    struct esp_str pk, prefix;
    uint32_t number;
    enum esp_status status = esp_place_inside(r->access->layout, arena, anchor, &pk, &prefix);
    if (status == ESP_OK) {
        status = esp_idmap_intern(&r->cut, pk, &number);
    }
    if (status == ESP_OK) {
        struct esp_place *base =
            esp_arena_grow(arena, r->base, &r->base_cap, r->cut.count, sizeof *base);
        status = base ? ESP_OK : ESP_ERR_NOMEM;
        r->base = base ? base : r->base;
    }
    if (status == ESP_OK) {
        r->base[number] = *place;
    }
    return status;
}

static enum esp_status place_one(struct rekey *r, uint32_t i) {
    const struct esp_layout *l = r->access->layout;
    struct esp_place now = esp_place_of(l, &r->below.list.item[i]);
    struct esp_str way = now.sk;
    const struct esp_place *base = &r->to;
    uint32_t number = esp_idmap_find(&r->cut, now.pk);
    if (number != ESP_IDMAP_NONE) {
        base = &r->base[number];
    } else {
        size_t head = r->from.sk.len + l->separator.len;
        way = (struct esp_str){way.ptr + head, way.len - head};
    }
    struct esp_place *place = &r->place[i];
    enum esp_status status = esp_place_below(l, r->access->scratch, base, way, place);
    if (status == ESP_OK) {
        status = check_place(r->access, place, esp_item_text(&r->below.list.item[i], PATH_KEY_ID));
    }
    r->stay[i] = status == ESP_OK && esp_place_eq(place, &now);
    return status == ESP_OK && esp_place_is_anchor(l, now.sk) ? note_anchor(r, &now, place)
                                                              : status;
}

/* Read what is below, and find out where it goes.  Nothing is written. */
static enum esp_status rekey_plan(struct rekey *r) {
    struct esp_access *a = r->access;
    enum esp_status status = read_subtree(a, &r->from, &r->below);
    if (status != ESP_OK) {
        return status;
    }
    uint32_t count = r->below.list.count;
    r->place = esp_arena_calloc(a->scratch, (size_t)count + 1, sizeof *r->place);
    r->stay = esp_arena_calloc(a->scratch, (size_t)count + 1, sizeof *r->stay);
    esp_idmap_init(&r->cut, a->scratch);
    status = r->place && r->stay ? ESP_OK : ESP_ERR_NOMEM;
    if (status == ESP_OK && esp_place_is_anchor(a->layout, r->from.sk)) {
        status = note_anchor(r, &r->from, &r->to);
    }
    for (uint32_t i = 0; status == ESP_OK && i < count; i++) {
        status = place_one(r, i);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* A key that stays: only the depth may change, and payloads are left alone. */
static enum esp_status write_depth(struct esp_writes *writes, const struct esp_item *item,
                                   const struct esp_place *place) {
    struct esp_access *a = writes->access;
    if (!esp_path_key_has_depth(a->layout) || place->depth < 0 ||
        esp_item_number(item, PATH_KEY_DEPTH, -1) == place->depth) {
        return ESP_OK;
    }
    struct esp_change *change = esp_arena_calloc(a->scratch, 1, sizeof *change);
    if (!change) {
        return esp_fail_nomem(a->err);
    }
    *change = esp_set(&a->layout->schema, PATH_KEY_DEPTH, esp_n(place->depth));
    struct esp_write write = {
        .kind = ESP_UPDATE,
        .item = esp_place_key(place),
        .changes = change,
        .change_count = 1,
        .condition = &writes->exists,
        .condition_count = 1,
        .old = item,
    };
    return esp_writes_add(writes, &write);
}

static enum esp_status write_below(struct rekey *r, struct esp_writes *writes) {
    enum esp_status status = ESP_OK;
    int64_t first = r->to.depth + 1;
    for (uint32_t i = 0; status == ESP_OK && i < r->below.list.count; i++) {
        const struct esp_item *item = &r->below.list.item[i];
        if (r->stay[i]) {
            status = write_depth(writes, item, &r->place[i]);
            continue;
        }
        struct esp_write write = {.kind = ESP_PUT, .item = *item};
        status = set_place(r->access, &r->place[i], &write.item);
        if (r->child_parent.ptr && r->place[i].depth == first) {
            set_parent(r->access->layout, r->child_parent, &write.item);
        }
        if (status == ESP_OK) {
            status = esp_writes_add(writes, &write);
        }
    }
    return status;
}

/* Put all, then delete all, the node's own item last: until then the same write can be repeated,
 * because it finds the node in its old place and does again what is left there.  `moved`: the
 * node's item in its new place; NULL: it has none. */
static enum esp_status rekey_write(struct rekey *r, const struct esp_item *moved) {
    struct esp_access *a = r->access;
    struct esp_writes writes;
    enum esp_status status = esp_writes_init(&writes, a, (size_t)r->below.list.count + 1);
    if (status == ESP_OK) {
        status = write_below(r, &writes);
    }
    if (status == ESP_OK && moved) {
        struct esp_write write = {.kind = ESP_PUT, .item = *moved};
        status = esp_writes_add(&writes, &write);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    if (status == ESP_OK) {
        status = delete_subtree(&writes, &r->below, r->stay);
    }
    return status == ESP_OK
               ? delete_node(a, &r->from, esp_item_text(&r->item, PATH_KEY_ID), &r->item)
               : status;
}

/* With by=name another node may be where one shall go; ERR_EXISTS. */
static enum esp_status check_free(struct esp_access *a, const struct esp_place *place,
                                  struct esp_str id) {
    struct esp_item_list found;
    struct esp_item key = esp_place_key(place);
    esp_item_list_init(&found, a);
    enum esp_status status =
        a->layout->settings.by
            ? esp_session_get(a->session, &key, 1, a->consistent, esp_item_list_add, &found, a->err)
            : ESP_OK;
    return status == ESP_OK && found.count && !esp_path_key_pick(&found, id) ? taken(a, place)
                                                                             : status;
}

/* --- move ------------------------------------------------------------------------- */

struct move {
    struct rekey r;
    struct esp_item_list nodes; /* the node's items: two after a torn move */
    struct esp_place parent;
    bool nothing; /* it is there already */
};

/* Both nodes by id in one round trip, then their items in another one. */
static enum esp_status move_look_up(struct esp_access *a, const struct esp_args *args,
                                    struct move *m) {
    bool itself = esp_str_eq(args->at.id, args->to.id), look_at = !args->at.key;
    bool look_to = args->to.id.len && !args->to.key && !itself;
    struct esp_item_list entries = {.count = 0}, items;
    struct esp_str ids[2];
    size_t n = 0;
    enum esp_status status = ESP_OK;
    if (look_at) {
        ids[n++] = args->at.id;
    }
    if (look_to) {
        ids[n++] = args->to.id;
    }
    if (n) {
        status = esp_path_key_find(a, ids, n, &entries);
    }
    struct esp_item *keys = esp_arena_calloc(a->scratch, (size_t)entries.count + 1, sizeof *keys);
    if (status != ESP_OK || !keys) {
        return status != ESP_OK ? status : esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; i < entries.count; i++) {
        struct esp_place place = esp_place_of(a->layout, &entries.item[i]);
        keys[i] = esp_place_key(&place);
    }
    n = entries.count;
    if (args->at.key) {
        keys[n++] = esp_place_key(args->at.key);
    }
    esp_item_list_init(&items, a);
    status =
        n ? esp_session_get(a->session, keys, n, a->consistent, esp_item_list_add, &items, a->err)
          : ESP_OK;
    esp_item_list_init(&m->nodes, a);
    for (uint32_t i = 0; status == ESP_OK && i < items.count; i++) {
        if (esp_str_eq(esp_item_text(&items.item[i], PATH_KEY_ID), args->at.id)) {
            status = esp_item_list_add(&m->nodes, &items.item[i]);
        }
    }
    if (status == ESP_OK && m->nodes.count == 0) {
        return esp_access_missing(a, args->at.id);
    }
    if (status == ESP_OK && look_to) {
        const struct esp_item *to = esp_path_key_pick(&items, args->to.id);
        m->parent = to ? esp_place_of(a->layout, to) : m->parent;
        status = to ? esp_access_rely(a, to) : esp_access_missing(a, args->to.id);
    } else if (args->to.key && !itself) {
        m->parent = *(const struct esp_place *)args->to.key;
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* Where the node goes, and which of its items is to go there. */
static enum esp_status move_begin(struct esp_access *a, const struct esp_args *args,
                                  struct move *m) {
    const struct esp_layout *l = a->layout;
    struct rekey *r = &m->r;
    bool to_root = args->to.id.len == 0, below = esp_str_eq(args->at.id, args->to.id);
    r->access = a;
    enum esp_status status = move_look_up(a, args, m);
    struct esp_place parent = m->parent;
    parent.depth = -1; /* depths may be those of a torn move: only the way itself is trusted */
    for (uint32_t i = 0; status == ESP_OK && !to_root && !below && i < m->nodes.count; i++) {
        struct esp_place at = esp_place_of(l, &m->nodes.item[i]);
        status = esp_path_key_is_below(a, &parent, &at, &below);
    }
    if (status == ESP_OK && below) {
        return esp_fail(a->err, ESP_ERR_CYCLE,
                        "'%.*s' cannot move below itself: '%.*s' is in its subtree",
                        ESP_FMT(args->at.id), ESP_FMT(args->to.id));
    }
    m->nothing = true;
    for (uint32_t i = 0; status == ESP_OK && m->nothing && i < m->nodes.count; i++) {
        r->item = m->nodes.item[i];
        r->from = esp_place_of(l, &r->item);
        status = place_under(a, to_root ? NULL : &m->parent, args->at.id,
                             esp_place_last(l, r->from.sk), &r->to);
        m->nothing = esp_place_eq(&r->from, &r->to);
    }
    return status == ESP_OK && !m->nothing ? check_free(a, &r->to, args->at.id) : status;
}

enum esp_status esp_path_key_move(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct move m = {.nothing = false};
    enum esp_status status = move_begin(a, args, &m);
    if (status != ESP_OK || m.nothing) {
        return status;
    }
    status = rekey_plan(&m.r);
    if (status == ESP_OK) {
        struct esp_item moved = m.r.item;
        set_parent(a->layout, args->to.id, &moved);
        status = set_place(a, &m.r.to, &moved);
        status = status == ESP_OK ? rekey_write(&m.r, &moved) : status;
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

/* --- promote ---------------------------------------------------------------------- */

/* With by=name the children's names may be taken where they go, also by the node itself. */
static enum esp_status check_children_free(struct rekey *r) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < r->below.list.count; i++) {
        if (r->place[i].depth == r->to.depth + 1) {
            status = check_free(r->access, &r->place[i],
                                esp_item_text(&r->below.list.item[i], PATH_KEY_ID));
        }
    }
    return status;
}

/* The ways of all below lose the node's part. */
enum esp_status esp_path_key_promote(struct esp_access *a, const struct esp_args *args,
                                     esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    const struct esp_layout *l = a->layout;
    struct rekey r = {.access = a};
    enum esp_status status = esp_path_key_at(a, &args->at, &r.from);
    if (status == ESP_OK) {
        status = esp_path_key_get(a, &r.from, args->at.id, &r.item);
    }
    if (status != ESP_OK) {
        return status;
    }
    r.from = esp_place_of(l, &r.item);
    if (esp_place_is_root(l, &r.from)) {
        struct subtree s;
        status = read_subtree(a, &r.from, &s);
        if (status == ESP_OK && s.list.count) {
            return esp_access_root_has_children(a, args->at.id);
        }
        return status == ESP_OK ? delete_node(a, &r.from, args->at.id, &r.item) : status;
    }
    status = esp_path_key_up(a, &r.from, &r.to);
    if (status == ESP_OK && r.from.depth >= 0) {
        r.to.depth = r.from.depth - 1;
    }
    if (status == ESP_OK && l->settings.by) {
        r.child_parent = esp_item_text(&r.item, PATH_KEY_PARENT);
    }
    if (status == ESP_OK) {
        status = rekey_plan(&r);
    }
    if (status == ESP_OK && l->settings.by) {
        status = check_children_free(&r);
    }
    status = status == ESP_OK ? rekey_write(&r, NULL) : status;
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

/* --- update ----------------------------------------------------------------------- */

static bool changes_name(const struct esp_layout *l, const struct esp_change *changes, size_t n) {
    for (size_t i = 0; l->settings.by && i < n; i++) {
        if (esp_str_eq(changes[i].name, esp_str_from(l->settings.name))) {
            return true;
        }
    }
    return false;
}

/* The node's item with its new payload, and where that name belongs. */
static enum esp_status rename_one(struct rekey *r, const struct esp_args *args,
                                  struct esp_item *renamed) {
    struct esp_access *a = r->access;
    struct esp_str part, none = {"", 0};
    *renamed = r->item;
    r->from = r->to = esp_place_of(a->layout, &r->item);
    enum esp_status status = esp_data_merge(r->item.data, args->data, args->remove,
                                            args->remove_count, a->scratch, &renamed->data, a->err);
    if (status == ESP_OK) {
        status = part_of(a, args->at.id, renamed->data, &part);
    }
    if (status == ESP_OK) {
        struct esp_str before = {r->from.sk.ptr, esp_way_last(a->layout, r->from.sk)};
        r->to.sk = esp_access_join(a, before, part, none);
        status = r->to.sk.ptr ? check_place(a, &r->to, args->at.id) : esp_fail_nomem(a->err);
    }
    return status;
}

/* A new name is a new key, for everything below too.  *same: it is the old one. */
static enum esp_status rename_node(struct esp_access *a, const struct esp_args *args, bool *same) {
    const struct esp_layout *l = a->layout;
    struct esp_args at = {.at = args->at};
    struct move m = {.r = {.access = a}};
    struct rekey *r = &m.r;
    struct esp_item renamed;
    enum esp_status status = move_look_up(a, &at, &m);
    *same = true;
    for (uint32_t i = 0; status == ESP_OK && *same && i < m.nodes.count; i++) {
        r->item = m.nodes.item[i];
        status = rename_one(r, args, &renamed);
        *same = status == ESP_OK && esp_place_eq(&r->from, &r->to);
    }
    if (status != ESP_OK || *same) {
        return status;
    }
    status = check_free(a, &r->to, args->at.id);
    if (status == ESP_OK) {
        status = rekey_plan(r);
    }
    if (status == ESP_OK) {
        status = set_place(a, &r->to, &renamed);
    }
    if (status == ESP_OK) {
        status = esp_item_check(&l->schema, &renamed, a->err);
    }
    status = status == ESP_OK ? rekey_write(r, &renamed) : status;
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

enum esp_status esp_path_key_update(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct esp_change *changes;
    struct esp_place at;
    size_t count;
    bool same = true;
    enum esp_status status = esp_access_changes(a, args, &changes, &count);
    if (status == ESP_OK && changes_name(a->layout, changes, count)) {
        status = rename_node(a, args, &same);
    }
    if (status != ESP_OK || !same) {
        return status;
    }
    status = esp_path_key_at(a, &args->at, &at);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_write write = {
        .kind = ESP_UPDATE, .item = esp_place_key(&at), .changes = changes, .change_count = count};
    return esp_access_write(a, &write, args->at.id, ESP_ERR_NOT_FOUND);
}
