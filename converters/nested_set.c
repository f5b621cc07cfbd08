/*
 * nested-set: each node stores an interval (lft, rgt) that encloses those of its descendants,
 * numbered depth first for each tree.  Keyed by id, never by lft: a torn renumbering would
 * lose nodes.
 *
 * Numbers are multiples of `gap`.  An insert or a move takes free numbers at the end of its
 * parent's interval; when there are none, the numbers from there on are pushed up until a gap
 * has swallowed the push (without gaps: to the end of the tree).  A remove leaves a gap.
 *
 * Numbers that were pushed up half way do not tell where they were, so a move that was cut
 * cannot be finished without a journal.  It writes the moved node first, alone: a repeat finds
 * the node below its new parent, looks at the whole table, and fails if numbers and parents
 * disagree.  No node is lost, parentId is right everywhere, and check names what is wrong.
 */
#include "converters/check.h"
#include "converters/validate.h"

#include <stdlib.h>

enum { ID, TREE, LFT, RGT, DEPTH, PARENT, ATTR_COUNT };
enum { BY_TREE };               /* position of the index */
enum { FIRST_PAGE_ITEMS = 32 }; /* of a push that gaps may end soon */

struct interval_key {
    struct esp_str tree, parent; /* parent.len == 0: the node is a root */
    int64_t lft, rgt, depth;
};

/* --- bulk conversion -------------------------------------------------------------- */

static uint64_t item_count(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n) {
    (void)l, (void)f, (void)first;
    return n;
}

static int64_t gap_of(const struct esp_layout *l) {
    return l->settings.gap ? (int64_t)l->settings.gap : 1;
}

/* Every node before v in its tree has taken two numbers, but for v's ancestors: one. */
static int64_t rank_of(const struct esp_forest *f, esp_node v, esp_node root) {
    return 2 * ((int64_t)v - root) - f->depth[v] + 1;
}

static enum esp_status emit(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx) {
    (void)scratch;
    struct esp_item item = {0};
    int64_t gap = gap_of(l);
    esp_node root = n ? esp_forest_root(f, first) : first;
    item.value[TREE] = n ? esp_s(esp_forest_id(f, root)) : item.value[TREE];
    item.value[LFT] = item.value[RGT] = item.value[DEPTH] = esp_n(0);
    for (esp_node v = first; v < first + n; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        esp_node parent = f->parent[v];
        struct esp_str id = esp_forest_id(f, v);
        item.value[ID] = item.value[PARENT] = esp_s(id);
        if (parent == ESP_NODE_NONE) {
            root = v;
            item.value[TREE] = esp_s(id);
            item.value[PARENT].type = ESP_TYPE_NONE;
        } else {
            item.value[PARENT].s = esp_forest_id(f, parent);
        }
        int64_t rank = rank_of(f, v, root);
        item.value[LFT].n = gap * rank;
        item.value[RGT].n = gap * (rank + 2 * (int64_t)f->size[v] - 1);
        item.value[DEPTH].n = f->depth[v];
        item.data = esp_forest_data(f, v);
        enum esp_status status = fn(ctx, &item);
        if (status != ESP_OK) {
            return status;
        }
    }
    return ESP_OK;
}

/* All numbers must fit: the largest tree says which gaps do. */
static enum esp_status validate(const struct esp_layout *l, const struct esp_forest *f,
                                struct esp_error *err) {
    esp_node largest = 0;
    for (esp_node root = 0; root < f->count; root += f->size[root]) {
        largest = f->size[root] > f->size[largest] ? root : largest;
    }
    int64_t fits = INT64_MAX / (2 * (int64_t)f->size[largest]);
    if (gap_of(l) > fits) {
        return esp_validate_fail(f, largest, err, ESP_ERR_LIMIT,
                                 "the tree '%.*s' has %u nodes; with --set gap=%lld their numbers "
                                 "do not fit 63 bits: the largest gap that fits is %lld",
                                 ESP_FMT(esp_forest_id(f, largest)), f->size[largest],
                                 (long long)gap_of(l), (long long)fits);
    }
    return esp_validate_items(l, f, err);
}

/* --- naming nodes ----------------------------------------------------------------- */

static enum esp_status locate(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out) {
    struct interval_key *key = esp_arena_calloc(arena, 1, sizeof *key);
    if (!key) {
        return ESP_ERR_NOMEM;
    }
    esp_node root = esp_forest_root(f, v);
    int64_t rank = rank_of(f, v, root), gap = gap_of(l);
    *key = (struct interval_key){
        .tree = esp_forest_id(f, root),
        .lft = gap * rank,
        .rgt = gap * (rank + 2 * (int64_t)f->size[v] - 1),
        .depth = f->depth[v],
    };
    if (f->parent[v] != ESP_NODE_NONE) {
        key->parent = esp_forest_id(f, f->parent[v]);
    }
    *out = (struct esp_locator){esp_forest_id(f, v), key};
    return ESP_OK;
}

static struct interval_key key_of(const struct esp_item *item) {
    return (struct interval_key){
        .tree = esp_item_text(item, TREE),
        .parent = esp_item_text(item, PARENT),
        .lft = esp_item_number(item, LFT, 0),
        .rgt = esp_item_number(item, RGT, 0),
        .depth = esp_item_number(item, DEPTH, -1),
    };
}

static enum esp_status resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    struct esp_item item;
    enum esp_status status = esp_access_get(a, id, &item);
    if (status != ESP_OK) {
        return status;
    }
    struct interval_key *key = esp_arena_alloc(a->scratch, sizeof *key);
    if (!key) {
        return esp_fail_nomem(a->err);
    }
    *key = key_of(&item);
    *out = (struct esp_locator){esp_item_text(&item, ID), key};
    return ESP_OK;
}

static enum esp_status key_at(struct esp_access *a, const struct esp_locator *at,
                              struct interval_key *key) {
    struct esp_locator found = *at;
    enum esp_status status = at->key ? ESP_OK : resolve(a, at->id, &found);
    if (status == ESP_OK) {
        *key = *(const struct interval_key *)found.key;
    }
    return status;
}

static bool view(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out) {
    (void)l;
    struct interval_key key = key_of(item);
    struct esp_str none = {"", 0}, unknown = {NULL, 0};
    /* Without a parent a node in another one's tree, or further down, has lost it: it is no root.
     */
    bool is_root = esp_str_eq(key.tree, esp_item_text(item, ID)) && key.depth == 0;
    *out = (struct esp_node_view){
        .id = esp_item_text(item, ID),
        .parent_id = key.parent.ptr ? key.parent
                     : is_root      ? none
                                    : unknown,
        .depth = key.depth,
        .order = key.lft,
        .data = item->data,
    };
    return out->id.ptr != NULL;
}

static bool interval(const struct esp_item *item, struct esp_interval *out) {
    struct interval_key key = key_of(item);
    *out = (struct esp_interval){key.tree, key.lft, key.rgt, key.depth};
    return key.tree.ptr && key.lft < key.rgt && key.depth >= 0;
}

static bool is_below(const struct interval_key *node, const struct interval_key *ancestor) {
    return esp_str_eq(node->tree, ancestor->tree) && node->lft > ancestor->lft &&
           node->rgt < ancestor->rgt;
}

/* --- reads ------------------------------------------------------------------------ */

static enum esp_status op_parent(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct interval_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct esp_args up = {.at.id = key.parent};
    return esp_access_node(a, &up, fn, ctx);
}

/* Nodes whose lft lies in [lft, rgt] and whose depth in [lo, hi] (hi < 0: any depth). */
static enum esp_status query_interval(struct esp_access *a, struct esp_str tree, int64_t lft,
                                      int64_t rgt, int64_t lo, int64_t hi, struct esp_str skip,
                                      esp_node_fn *fn, void *ctx) {
    struct esp_condition filter = {
        .name = a->layout->schema.attr[DEPTH].name,
        .op = lo == hi ? ESP_EQ : ESP_BETWEEN,
        .lo = esp_n(lo),
        .hi = esp_n(hi),
    };
    struct esp_query q = {
        .index = BY_TREE,
        .pk = esp_s(tree),
        .op = ESP_BETWEEN,
        .lo = esp_n(lft),
        .hi = esp_n(rgt),
        .filter = hi < 0 ? NULL : &filter,
        .filter_count = hi < 0 ? 0 : 1,
    };
    /* A leaf's interval has nothing in it, and DynamoDB refuses an empty BETWEEN. */
    return lft <= rgt ? esp_access_query(a, &q, skip, fn, ctx, NULL) : ESP_OK;
}

static enum esp_status children_of(struct esp_access *a, const struct interval_key *key,
                                   struct esp_str skip, esp_node_fn *fn, void *ctx) {
    return query_interval(a, key->tree, key->lft + 1, key->rgt - 1, key->depth + 1, key->depth + 1,
                          skip, fn, ctx);
}

static enum esp_status op_children(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct interval_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    return status == ESP_OK ? children_of(a, &key, (struct esp_str){0}, fn, ctx) : status;
}

static enum esp_status op_siblings(struct esp_access *a, const struct esp_args *args,
                                   esp_node_fn *fn, void *ctx) {
    struct interval_key key, parent;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct esp_locator up = {.id = key.parent};
    status = key_at(a, &up, &parent);
    return status == ESP_OK ? children_of(a, &parent, args->at.id, fn, ctx) : status;
}

static enum esp_status op_descendants(struct esp_access *a, const struct esp_args *args,
                                      esp_node_fn *fn, void *ctx) {
    struct interval_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    return status == ESP_OK ? query_interval(a, key.tree, key.lft + 1, key.rgt - 1, 0, -1,
                                             (struct esp_str){0}, fn, ctx)
                            : status;
}

/* lft < own reads everything to the left of the node; the filter leaves what encloses it. */
static enum esp_status op_ancestors(struct esp_access *a, const struct esp_args *args,
                                    esp_node_fn *fn, void *ctx) {
    struct interval_key key;
    enum esp_status status = key_at(a, &args->at, &key);
    if (status != ESP_OK || key.parent.len == 0) {
        return status;
    }
    struct esp_condition filter = {
        .name = a->layout->schema.attr[RGT].name, .op = ESP_GT, .lo = esp_n(key.rgt)};
    struct esp_query q = {
        .index = BY_TREE,
        .pk = esp_s(key.tree),
        .op = ESP_LT,
        .lo = esp_n(key.lft),
        .filter = &filter,
        .filter_count = 1,
    };
    return esp_access_query(a, &q, (struct esp_str){0}, fn, ctx, NULL);
}

static enum esp_status op_window(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    struct interval_key key;
    uint32_t from = args->lo;
    if (args->at.key) {
        key = *(const struct interval_key *)args->at.key;
    } else {
        struct esp_item item;
        enum esp_status status = esp_access_get(a, args->at.id, &item);
        if (status == ESP_OK && from == 0) { /* the look-up is part of the answer */
            status = esp_access_pass(a, &item, fn, ctx);
            from = 1;
        }
        if (status != ESP_OK) {
            return status;
        }
        key = key_of(&item);
    }
    if (from > args->hi) {
        return ESP_OK;
    }
    bool all = from <= 1 && args->hi == UINT32_MAX;
    return query_interval(a, key.tree, key.lft + (from > 0), key.rgt - 1, key.depth + from,
                          all ? -1 : key.depth + (int64_t)args->hi, (struct esp_str){0}, fn, ctx);
}

/* A root's id is the tree's: no look-up is needed. */
static enum esp_status query_tree(struct esp_access *a, const struct esp_args *args,
                                  const struct esp_condition *filter, esp_node_fn *fn, void *ctx) {
    struct esp_query q = {
        .index = BY_TREE,
        .pk = esp_s(args->at.id),
        .op = ESP_ANY,
        .filter = filter,
        .filter_count = filter ? 1 : 0,
    };
    uint64_t count;
    enum esp_status status = esp_access_query(a, &q, (struct esp_str){0}, fn, ctx, &count);
    return status == ESP_OK && count == 0 && !args->at.key ? esp_access_exists(a, args->at.id)
                                                           : status;
}

static enum esp_status op_level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct esp_condition filter = {
        .name = a->layout->schema.attr[DEPTH].name, .op = ESP_EQ, .lo = esp_n(args->lo)};
    return args->lo == 0 ? esp_access_node(a, args, fn, ctx)
                         : query_tree(a, args, &filter, fn, ctx);
}

static enum esp_status op_tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    return query_tree(a, args, NULL, fn, ctx);
}

/* Two nodes with their keys, looked up in one round trip as far as they must be; then `item`
 * is set.  to.id empty: only the first. */
struct two {
    struct interval_key at, to;
    const struct esp_item *at_item, *to_item; /* NULL: not looked up */
    struct esp_item items[2];
};

static enum esp_status look_up_two(struct esp_access *a, const struct esp_args *args,
                                   struct two *two) {
    struct esp_str none = {0};
    bool look_at = args->at.id.len && !args->at.key, look_to = args->to.id.len && !args->to.key;
    enum esp_status status = ESP_OK;
    if (look_at) {
        status = esp_access_get_two(a, args->at.id, look_to ? args->to.id : none, &two->items[0],
                                    &two->items[1]);
    } else if (look_to) {
        status = esp_access_get(a, args->to.id, &two->items[1]);
    }
    two->at_item = look_at ? &two->items[0] : NULL;
    two->to_item = look_to ? &two->items[1] : NULL;
    two->at = two->to = (struct interval_key){.depth = -1};
    if (status == ESP_OK && args->at.id.len) {
        two->at = look_at ? key_of(two->at_item) : *(const struct interval_key *)args->at.key;
    }
    if (status == ESP_OK && args->to.id.len) {
        two->to = look_to ? key_of(two->to_item) : *(const struct interval_key *)args->to.key;
    }
    return status;
}

static enum esp_status op_is_descendant(struct esp_access *a, const struct esp_args *args,
                                        esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct two two;
    enum esp_status status = look_up_two(a, args, &two);
    a->value = status == ESP_OK && is_below(&two.at, &two.to);
    return status;
}

/* --- making room ------------------------------------------------------------------ */

/* Where `need` new numbers go at the end of a parent's interval: last + step, last + 2 step ...
 * `pushed`: they reach the parent's rgt, so it and what follows must move up. */
struct place {
    int64_t last, step;
    bool pushed;
};

/* Up from a node to the child of `parent` that it is below: *rgt is that child's. */
static enum esp_status climb_to_child(struct esp_access *a, const struct interval_key *parent,
                                      struct interval_key key, int64_t *rgt) {
    while (key.depth > parent->depth + 1 && key.parent.len) {
        struct esp_item item;
        enum esp_status status = esp_access_get(a, key.parent, &item);
        if (status != ESP_OK) {
            return status;
        }
        struct interval_key up = key_of(&item);
        if (up.depth >= key.depth) {
            break; /* damaged: take the cautious bound */
        }
        key = up;
    }
    *rgt = key.rgt > *rgt ? key.rgt : *rgt;
    return ESP_OK;
}

/* The largest number taken inside the parent's interval.  Only looked for exactly where it
 * could leave room for `need`; else the largest it can be. */
static enum esp_status last_taken(struct esp_access *a, const struct interval_key *parent,
                                  int64_t need, int64_t *last) {
    struct esp_query q = {
        .index = BY_TREE,
        .pk = esp_s(parent->tree),
        .op = ESP_BETWEEN,
        .lo = esp_n(parent->lft + 1),
        .hi = esp_n(parent->rgt - 1),
        .reverse = true,
        .limit = 1,
    };
    struct esp_item_list found;
    struct esp_cursor cursor = {0};
    bool more;
    *last = parent->rgt - 1;
    if (parent->rgt - parent->lft - 1 < need) {
        return ESP_OK;
    }
    esp_item_list_init(&found, a);
    enum esp_status status =
        esp_session_query_page(a->session, &q, &cursor, &more, esp_item_list_add, &found, a->err);
    if (status != ESP_OK || found.count == 0) {
        *last = status == ESP_OK ? parent->lft : *last;
        return status;
    }
    /* The node with the largest lft; its ancestors below the parent end behind it. */
    struct interval_key key = key_of(&found.item[0]);
    int64_t between = key.depth - parent->depth - 1;
    if (parent->rgt - key.rgt - 1 - between < need) {
        return ESP_OK;
    }
    *last = key.rgt;
    return climb_to_child(a, parent, key, last);
}

static enum esp_status find_place(struct esp_access *a, const struct interval_key *parent,
                                  int64_t need, struct place *place) {
    int64_t gap = gap_of(a->layout), last;
    if (parent->lft < 0 || parent->rgt < 0) {
        return esp_fail(a->err, ESP_ERR_INPUT,
                        "the table is damaged: numbers of the tree '%.*s' are negative",
                        ESP_FMT(parent->tree));
    }
    enum esp_status status = last_taken(a, parent, need, &last);
    if (status != ESP_OK) {
        return status;
    }
    int64_t room = parent->rgt - last - 1, even = (room + 1) / (need + 1);
    place->last = last;
    place->pushed = room < need;
    /* Half gaps while pushing: the other halves of the gaps met swallow the push. */
    place->step = place->pushed ? (gap + 1) / 2 : gap < even ? gap : even;
    return ESP_OK;
}

/* Numbers from the parent's rgt on, in order: right ends of the parent and of its ancestors,
 * and both ends of the nodes to the right.  Planned completely before the first write: a node
 * pushed up in the index would be read again behind the place reached. */
struct push {
    struct esp_access *access;
    /* A subtree that leaves its numbers: its items by lft, and its top's key (tree.ptr NULL:
     * there is none). */
    const struct esp_item_list *subtree;
    struct interval_key moved;
    struct esp_query q;
    struct esp_cursor cursor;
    bool more;
    const struct esp_item **right; /* nodes to the right, as read so far */
    uint32_t right_count, right_cap;
    uint32_t next; /* the first one not entered yet */
    struct renumbered {
        struct esp_str id;
        const struct esp_item *item; /* as read; NULL: only its key is known */
        struct interval_key key;     /* as it was */
        int64_t lft, rgt;            /* the new numbers */
    } * open, *done;                 /* nodes entered and not left, innermost last; the plan */
    uint32_t open_count, open_cap, done_count, done_cap;
    struct renumbered above; /* innermost enclosing node not left; id.ptr NULL: past the root */
};

static const struct esp_item *keep_item(struct esp_access *a, const struct esp_item *item) {
    struct esp_item *copy = esp_arena_alloc(a->scratch, sizeof *copy);
    bool kept = copy && esp_item_dup(&a->layout->schema, a->scratch, item, copy) == ESP_OK;
    return kept ? copy : NULL;
}

static enum esp_status push_read(void *ctx, const struct esp_item *item) {
    struct push *p = ctx;
    const struct esp_item **right = esp_arena_grow(p->access->scratch, p->right, &p->right_cap,
                                                   p->right_count + 1, sizeof *right);
    const struct esp_item *copy = keep_item(p->access, item);
    if (!right || !copy) {
        return ESP_ERR_NOMEM;
    }
    p->right = right;
    p->right[p->right_count++] = copy;
    return ESP_OK;
}

/* The node's numbers are free when it moves; one that has come there since would stay. */
static enum esp_status push_pass(const struct push *p, const struct esp_item *item) {
    const struct esp_item_list *list = p->subtree;
    int64_t lft = key_of(item).lft;
    uint32_t lo = 0, hi = list->count;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (key_of(&list->item[mid]).lft < lft) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (lo < list->count && esp_item_same_key(list->schema, &list->item[lo], item)) {
        return ESP_OK;
    }
    return esp_fail(p->access->err, ESP_ERR_CONFLICT,
                    "another writer put the node '%.*s' below the one that moves",
                    ESP_FMT(esp_item_text(item, ID)));
}

/* The next node to the right, or NULL at the end of the tree. */
static enum esp_status push_peek(struct push *p, const struct esp_item **out) {
    *out = NULL;
    while (p->next < p->right_count || p->more) {
        if (p->next == p->right_count) {
            enum esp_status status = esp_session_query_page(p->access->session, &p->q, &p->cursor,
                                                            &p->more, push_read, p, p->access->err);
            if (status != ESP_OK) {
                return status;
            }
            p->q.limit = 0;
            continue;
        }
        struct interval_key key = key_of(p->right[p->next]);
        bool leaves = p->moved.tree.ptr && key.lft >= p->moved.lft && key.lft <= p->moved.rgt;
        if (!leaves) {
            *out = p->right[p->next];
            break;
        }
        enum esp_status status = push_pass(p, p->right[p->next]);
        if (status != ESP_OK) {
            return status;
        }
        p->next++;
    }
    return ESP_OK;
}

static struct renumbered renumbered_of(const struct esp_item *item) {
    struct interval_key key = key_of(item);
    return (struct renumbered){esp_item_text(item, ID), item, key, key.lft, key.rgt};
}

static enum esp_status push_enter(struct push *p, const struct esp_item *item, int64_t lft) {
    struct renumbered *open =
        esp_arena_grow(p->access->scratch, p->open, &p->open_cap, p->open_count + 1, sizeof *open);
    if (!open) {
        return esp_fail_nomem(p->access->err);
    }
    p->open = open;
    open[p->open_count] = renumbered_of(item);
    open[p->open_count++].lft = lft;
    p->next++;
    return ESP_OK;
}

static enum esp_status push_done(struct push *p, const struct renumbered *node) {
    struct renumbered *done =
        esp_arena_grow(p->access->scratch, p->done, &p->done_cap, p->done_count + 1, sizeof *done);
    if (!done) {
        return esp_fail_nomem(p->access->err);
    }
    p->done = done;
    done[p->done_count++] = *node;
    return ESP_OK;
}

/* Leave the innermost node with its new rgt. */
static enum esp_status push_leave(struct push *p, int64_t rgt) {
    struct renumbered node = p->open_count ? p->open[p->open_count - 1] : p->above;
    node.rgt = rgt;
    enum esp_status status = push_done(p, &node);
    if (p->open_count) {
        p->open_count--;
        return status;
    }
    p->above = (struct renumbered){.item = NULL};
    if (status == ESP_OK && node.key.parent.len) {
        struct esp_item item;
        status = esp_access_get(p->access, node.key.parent, &item);
        const struct esp_item *kept = status == ESP_OK ? keep_item(p->access, &item) : NULL;
        if (kept) {
            p->above = renumbered_of(kept);
        } else if (status == ESP_OK) {
            status = esp_fail_nomem(p->access->err);
        }
    }
    return status;
}

static enum esp_status no_numbers(struct esp_access *a, struct esp_str tree) {
    return esp_fail(a->err, ESP_ERR_LIMIT,
                    "the numbers of the tree '%.*s' have used up 63 bits: import it anew with a "
                    "smaller --set gap",
                    ESP_FMT(tree));
}

/* Push numbers up until one has room as it is; `last` is the largest number taken. */
static enum esp_status push_on(struct push *p, int64_t last, int64_t step) {
    while (p->open_count || p->above.id.ptr) {
        const struct esp_item *right;
        enum esp_status status = push_peek(p, &right);
        if (status != ESP_OK) {
            return status;
        }
        int64_t rgt = p->open_count ? p->open[p->open_count - 1].key.rgt : p->above.key.rgt;
        int64_t lft = right ? key_of(right).lft : INT64_MAX;
        int64_t old = lft < rgt ? lft : rgt;
        if (old > last && (uint64_t)old - (uint64_t)last >= (uint64_t)step) {
            break;
        }
        if (last > INT64_MAX - step) {
            return no_numbers(p->access, p->q.pk.s);
        }
        int64_t moved = last + step;
        status = lft < rgt ? push_enter(p, right, moved) : push_leave(p, moved);
        if (status != ESP_OK) {
            return status;
        }
        last = moved;
    }
    enum esp_status status = ESP_OK;
    while (status == ESP_OK && p->open_count) { /* these keep their rgt */
        status = push_done(p, &p->open[--p->open_count]);
    }
    return status;
}

/* Plan room from the rgt of a node on, whose numbers up to `last` are taken. */
static enum esp_status push_plan(struct push *p, struct esp_access *a,
                                 const struct renumbered *parent, const struct esp_item_list *moved,
                                 int64_t last, int64_t step) {
    *p = (struct push){.access = a, .above = *parent, .more = true};
    p->q = (struct esp_query){.index = BY_TREE,
                              .pk = esp_s(parent->key.tree),
                              .op = ESP_GT,
                              .lo = esp_n(parent->key.rgt),
                              .limit = gap_of(a->layout) > 1 ? FIRST_PAGE_ITEMS : 0};
    if (moved && esp_str_eq(key_of(moved->item).tree, parent->key.tree)) {
        p->subtree = moved;
        p->moved = key_of(moved->item);
    }
    return push_on(p, last, step);
}

/* Find `need` numbers at the end of a parent's interval, or plan to push for them.  `parent` may be
 * NULL: they are those of a new tree. */
static enum esp_status make_room(struct esp_access *a, const struct renumbered *parent,
                                 const struct esp_item_list *moved, int64_t need,
                                 struct place *place, struct push *push) {
    int64_t gap = gap_of(a->layout), most = INT64_MAX / need;
    if (!parent) {
        *place = (struct place){.last = 0, .step = gap < most ? gap : most};
        return ESP_OK;
    }
    enum esp_status status = find_place(a, &parent->key, need, place);
    for (; status == ESP_OK && place->pushed; place->step = 1) {
        if (place->step > (INT64_MAX - place->last) / need) {
            status = no_numbers(a, parent->key.tree);
        } else {
            status =
                push_plan(push, a, parent, moved, place->last + place->step * need, place->step);
        }
        if (status != ESP_ERR_LIMIT || place->step == 1) {
            break;
        }
        esp_error_clear(a->err); /* near the end of all numbers they stand side by side */
        status = ESP_OK;
    }
    return status;
}

/* Updates of the numbers that change. */
static enum esp_status push_write(const struct push *p, struct esp_writes *writes) {
    const struct esp_schema *schema = &writes->access->layout->schema;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < p->done_count; i++) {
        const struct renumbered *node = &p->done[i];
        struct esp_change *change = esp_arena_calloc(writes->access->scratch, 2, sizeof *change);
        size_t n = 0;
        if (!change) {
            return esp_fail_nomem(writes->access->err);
        }
        if (node->lft != node->key.lft) {
            change[n++] = esp_set(schema, LFT, esp_n(node->lft));
        }
        if (node->rgt != node->key.rgt) {
            change[n++] = esp_set(schema, RGT, esp_n(node->rgt));
        }
        struct esp_write write = {
            .kind = ESP_UPDATE,
            .item = esp_item_key(schema, node->id, 0),
            .changes = change,
            .change_count = n,
            .condition = &writes->exists,
            .condition_count = 1,
            .old = node->item,
        };
        status = n ? esp_writes_add(writes, &write) : ESP_OK;
    }
    return status;
}

/* --- writes ----------------------------------------------------------------------- */

/* Room for new nodes below `to`, or (no id) for a tree of their own. */
static enum esp_status room_below(struct esp_access *a, const struct esp_locator *to, int64_t need,
                                  struct two *two, struct place *place, struct push **push) {
    struct esp_args parent = {.to = *to};
    enum esp_status status = look_up_two(a, &parent, two);
    *push = esp_arena_calloc(a->scratch, 1, sizeof **push);
    if (status != ESP_OK || !*push) {
        return status == ESP_OK ? esp_fail_nomem(a->err) : status;
    }
    struct renumbered top = {to->id, two->to_item, two->to, two->to.lft, two->to.rgt};
    status = make_room(a, to->id.len ? &top : NULL, NULL, need, place, *push);
    return status == ESP_OK && two->to_item && !place->pushed ? esp_access_rely(a, two->to_item)
                                                              : status;
}

static enum esp_status op_insert(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct two two;
    struct place place;
    struct esp_item item = {.data = args->data};
    struct push *push;
    enum esp_status status = room_below(a, &args->to, 2, &two, &place, &push);
    if (status != ESP_OK) {
        return status;
    }
    int64_t lft = place.last + place.step, rgt = lft + place.step;
    item.value[ID] = item.value[TREE] = esp_s(args->id);
    item.value[LFT] = esp_n(lft);
    item.value[RGT] = esp_n(rgt);
    item.value[DEPTH] = esp_n(two.to.depth + 1);
    if (args->to.id.len) {
        item.value[TREE] = esp_s(two.to.tree);
        item.value[PARENT] = esp_s(args->to.id);
    }
    struct esp_writes writes;
    status = esp_access_insert(a, &item, args->id); /* first: it finds out whether the id is new */
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, push->done_count);
    }
    if (status == ESP_OK) {
        status = push_write(push, &writes);
    }
    return status == ESP_OK ? esp_writes_flush(&writes) : status;
}

static enum esp_status is_there(void *ctx, const struct esp_node_view *node) {
    return esp_access_outcome(ctx, ESP_ERR_CONDITION, node->id, ESP_ERR_EXISTS);
}

/* ERR_EXISTS when a node of the forest is in the table, before anything is written. */
static enum esp_status refuse_known(struct esp_access *a, const struct esp_forest *f) {
    struct esp_str *ids = esp_arena_calloc(a->scratch, (size_t)f->count + 1, sizeof *ids);
    if (!ids) {
        return esp_fail_nomem(a->err);
    }
    for (esp_node v = 0; v < f->count; v++) {
        ids[v] = esp_forest_id(f, v);
    }
    return esp_access_get_ordered(a, ids, f->count, is_there, a);
}

/* Items of the new nodes: all of them are numbered as the children of one node, or each root
 * begins its own tree.  `above` is the new parent, or has the depth -1. */
static enum esp_status put_forest(struct esp_writes *writes, const struct esp_forest *f,
                                  struct esp_str parent, const struct interval_key *above,
                                  const struct place *place) {
    esp_node root = 0;
    enum esp_status status = ESP_OK;
    for (esp_node v = 0; status == ESP_OK && v < f->count; v++) {
        bool top = f->parent[v] == ESP_NODE_NONE;
        root = top ? v : root;
        /* Nodes before the tree have taken two numbers each. */
        int64_t rank = rank_of(f, v, root) + (parent.len ? 2 * (int64_t)root : 0);
        struct esp_write write = {
            .kind = ESP_PUT, .condition = &writes->absent, .condition_count = 1};
        struct esp_item *item = &write.item;
        item->data = esp_forest_data(f, v);
        item->value[ID] = esp_s(esp_forest_id(f, v));
        item->value[TREE] = esp_s(parent.len ? above->tree : esp_forest_id(f, root));
        item->value[LFT] = esp_n(place->last + place->step * rank);
        item->value[RGT] = esp_n(item->value[LFT].n + place->step * (2 * (int64_t)f->size[v] - 1));
        item->value[DEPTH] = esp_n(above->depth + 1 + f->depth[v]);
        if (!top || parent.len) {
            item->value[PARENT] = esp_s(top ? parent : esp_forest_id(f, f->parent[v]));
        }
        status = esp_access_check_insert(writes->access, item);
        if (status == ESP_OK) {
            status = esp_writes_add(writes, &write);
        }
    }
    return status == ESP_OK ? esp_writes_flush(writes) : status;
}

static enum esp_status op_insert_subtree(struct esp_access *a, const struct esp_args *args,
                                         esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    const struct esp_forest *f = args->subtree;
    struct two two;
    struct place place;
    struct push *push;
    struct esp_writes writes;
    enum esp_status status = esp_validate_items(a->layout, f, a->err);
    if (status == ESP_OK) {
        status = room_below(a, &args->to, 2 * (int64_t)f->count, &two, &place, &push);
    }
    if (status == ESP_OK) {
        status = refuse_known(a, f);
    }
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, (size_t)f->count + push->done_count);
    }
    if (status == ESP_OK) {
        status = put_forest(&writes, f, args->to.id, &two.to, &place);
    }
    if (status == ESP_OK) {
        status = push_write(push, &writes);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    return esp_access_outcome(a, status, esp_forest_id(f, 0), ESP_ERR_EXISTS);
}

/* The moved subtree: its items in lft order, and the rank of each end among all ends. */
struct subtree {
    struct esp_item_list item;
    struct ends {
        int64_t lft, rgt;
        uint32_t level; /* below the top */
    } * rank;
};

static enum esp_status rank_subtree(struct esp_access *a, struct subtree *tree) {
    uint32_t n = tree->item.count, open = 0;
    int64_t rank = 0;
    uint32_t *stack = esp_arena_calloc(a->scratch, (size_t)n + 1, sizeof *stack);
    tree->rank = esp_arena_calloc(a->scratch, (size_t)n + 1, sizeof *tree->rank);
    if (!stack || !tree->rank) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t lft = key_of(&tree->item.item[i]).lft;
        while (open && key_of(&tree->item.item[stack[open - 1]]).rgt < lft) {
            tree->rank[stack[--open]].rgt = ++rank;
        }
        tree->rank[i].lft = ++rank;
        tree->rank[i].level = open;
        stack[open++] = i;
    }
    while (open) {
        tree->rank[stack[--open]].rgt = ++rank;
    }
    return ESP_OK;
}

static enum esp_status read_subtree(struct esp_access *a, struct esp_str id,
                                    const struct interval_key *key, struct subtree *tree) {
    struct esp_query q = {.index = BY_TREE,
                          .pk = esp_s(key->tree),
                          .op = ESP_BETWEEN,
                          .lo = esp_n(key->lft),
                          .hi = esp_n(key->rgt)};
    esp_item_list_init(&tree->item, a);
    enum esp_status status =
        esp_session_query(a->session, &q, esp_item_list_add, &tree->item, a->err);
    if (status == ESP_OK &&
        (tree->item.count == 0 || !esp_str_eq(esp_item_text(&tree->item.item[0], ID), id))) {
        return esp_access_missing(a, id); /* a key from before some other write */
    }
    return status == ESP_OK ? rank_subtree(a, tree) : status;
}

/* The new numbers, tree and depths of the subtree, and its top's parent.  The top is written
 * alone, before anything else is, the pushed numbers included. */
static enum esp_status write_subtree(struct esp_writes *writes, const struct esp_args *args,
                                     const struct subtree *tree, const struct place *place,
                                     struct esp_str tree_id, int64_t deeper) {
    struct esp_access *a = writes->access;
    const struct esp_schema *schema = &a->layout->schema;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < tree->item.count; i++) {
        const struct esp_item *item = &tree->item.item[i];
        struct esp_change *change = esp_arena_calloc(a->scratch, 5, sizeof *change);
        size_t n = 0;
        if (!change) {
            return esp_fail_nomem(a->err);
        }
        change[n++] = esp_set(schema, LFT, esp_n(place->last + place->step * tree->rank[i].lft));
        change[n++] = esp_set(schema, RGT, esp_n(place->last + place->step * tree->rank[i].rgt));
        change[n++] = esp_set(schema, TREE, esp_s(tree_id));
        change[n++] = esp_set(schema, DEPTH, esp_n(key_of(item).depth + deeper));
        if (i == 0) {
            change[n++] = args->to.id.len ? esp_set(schema, PARENT, esp_s(args->to.id))
                                          : esp_unset(schema, PARENT);
        }
        struct esp_write write = {
            .kind = ESP_UPDATE,
            .item = esp_item_key(schema, esp_item_text(item, ID), 0),
            .changes = change,
            .change_count = n,
            .condition = &writes->exists,
            .condition_count = 1,
            .old = item,
        };
        status = esp_writes_add(writes, &write);
        if (i == 0 && status == ESP_OK) {
            status = esp_writes_flush(writes);
        }
    }
    return status;
}

static enum esp_status check(struct esp_access *a, esp_finding_fn *fn, void *ctx);

static enum esp_status damaged(void *ctx, const struct esp_finding *finding) {
    struct esp_access *a = ctx;
    return esp_fail(a->err, ESP_ERR_INPUT,
                    "the table is damaged, perhaps by a move that was cut: %s of '%.*s'; check "
                    "names all of it",
                    finding->name, ESP_FMT(finding->id));
}

/* Updates, not puts: payloads that others change meanwhile are left alone. */
static enum esp_status op_move(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                               void *ctx) {
    (void)fn, (void)ctx;
    struct two two;
    struct place place;
    struct subtree tree;
    bool to_root = args->to.id.len == 0;
    enum esp_status status = look_up_two(a, args, &two);
    if (status != ESP_OK) {
        return status;
    }
    if (!to_root && (esp_str_eq(args->at.id, args->to.id) || is_below(&two.to, &two.at))) {
        return esp_fail(a->err, ESP_ERR_CYCLE,
                        "'%.*s' cannot move below itself: '%.*s' is in its subtree",
                        ESP_FMT(args->at.id), ESP_FMT(args->to.id));
    }
    if (esp_str_eq(two.at.parent, args->to.id)) {
        return check(a, damaged, a); /* it is there already; all of it, or was a move cut? */
    }
    struct push *push = esp_arena_calloc(a->scratch, 1, sizeof *push);
    status = push ? read_subtree(a, args->at.id, &two.at, &tree) : esp_fail_nomem(a->err);
    if (status == ESP_OK) {
        struct renumbered top = {args->to.id, two.to_item, two.to, two.to.lft, two.to.rgt};
        status = make_room(a, to_root ? NULL : &top, &tree.item, 2 * (int64_t)tree.item.count,
                           &place, push);
    }
    if (status == ESP_OK && two.to_item && !place.pushed) {
        status = esp_access_rely(a, two.to_item);
    }
    struct esp_writes writes;
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, (size_t)tree.item.count + push->done_count);
    }
    if (status == ESP_OK) {
        status = write_subtree(&writes, args, &tree, &place, to_root ? args->at.id : two.to.tree,
                               two.to.depth + 1 - two.at.depth);
    }
    if (status == ESP_OK) {
        status = push_write(push, &writes);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    return esp_access_outcome(a, status, args->at.id, ESP_ERR_NOT_FOUND);
}

static enum esp_status op_remove(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                 void *ctx) {
    (void)fn, (void)ctx;
    struct two two;
    struct esp_args one = {.at = args->at};
    enum esp_status status = look_up_two(a, &one, &two);
    struct esp_query q = {.index = BY_TREE,
                          .pk = esp_s(two.at.tree),
                          .op = ESP_BETWEEN,
                          .lo = esp_n(two.at.lft + 1),
                          .hi = esp_n(two.at.rgt - 1)};
    return status == ESP_OK ? esp_access_delete(a, two.at.lft + 1 < two.at.rgt ? &q : NULL,
                                                args->at.id, two.at_item)
                            : status;
}

/* What is below the node is one level higher and its children have its parent; numbers stay, so
 * they stand where it stood.  Levels follow from the numbers: a repeat does all again. */
static enum esp_status promote_below(struct esp_writes *writes, const struct subtree *tree,
                                     const struct interval_key *key) {
    struct esp_access *a = writes->access;
    const struct esp_schema *schema = &a->layout->schema;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 1; status == ESP_OK && i < tree->item.count; i++) {
        const struct esp_item *item = &tree->item.item[i];
        struct esp_change *change = esp_arena_calloc(a->scratch, 2, sizeof *change);
        if (!change) {
            return esp_fail_nomem(a->err);
        }
        change[0] = esp_set(schema, DEPTH, esp_n(key->depth + tree->rank[i].level - 1));
        change[1] = esp_set(schema, PARENT, esp_s(key->parent));
        struct esp_write write = {
            .kind = ESP_UPDATE,
            .item = esp_item_key(schema, esp_item_text(item, ID), 0),
            .changes = change,
            .change_count = tree->rank[i].level == 1 ? 2 : 1,
            .condition = &writes->exists,
            .condition_count = 1,
            .old = item,
        };
        status = esp_writes_add(writes, &write);
    }
    return status == ESP_OK ? esp_writes_flush(writes) : status;
}

static enum esp_status op_promote(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct two two;
    struct subtree tree;
    struct esp_writes writes;
    struct esp_args one = {.at = args->at};
    enum esp_status status = look_up_two(a, &one, &two);
    if (status == ESP_OK) {
        status = read_subtree(a, args->at.id, &two.at, &tree);
    }
    if (status == ESP_OK && two.at.parent.len == 0 && tree.item.count > 1) {
        return esp_access_root_has_children(a, args->at.id);
    }
    if (status == ESP_OK) {
        status = esp_writes_init(&writes, a, tree.item.count);
    }
    if (status == ESP_OK) {
        status = promote_below(&writes, &tree, &two.at);
    }
    return status == ESP_OK ? esp_access_delete(a, NULL, args->at.id, &tree.item.item[0]) : status;
}

/* --- check ------------------------------------------------------------------------ */

struct record {
    bool present, whole;   /* whole: lft and rgt are there */
    uint32_t tree, parent; /* numbers + 1; 0 = none */
    int64_t lft, rgt, depth;
};

/* An interval around the node that the sweep is at. */
struct open {
    uint32_t number;
    int64_t depth; /* what its place says */
};

/* Unplaced nodes on the way from a node to its next placed ancestor, at most. */
enum { UNPLACED_MAX = 4096 };

static bool has_number(const struct esp_item *item, int attr) {
    return item->value[attr].type == ESP_TYPE_N && item->value[attr].s.len == 0;
}

static enum esp_status check_item(void *ctx, const struct esp_item *item) {
    struct esp_check *check = ctx;
    struct interval_key key = key_of(item);
    struct record record = {.present = true, .lft = key.lft, .rgt = key.rgt, .depth = key.depth};
    record.whole = has_number(item, LFT) && has_number(item, RGT);
    uint32_t number, other;
    enum esp_status status = esp_check_number(check, esp_item_text(item, ID), &number);
    if (status == ESP_OK && key.tree.len) {
        status = esp_check_number(check, key.tree, &other);
        record.tree = other + 1;
    }
    if (status == ESP_OK && key.parent.len) {
        status = esp_check_number(check, key.parent, &other);
        record.parent = other + 1;
    }
    if (status == ESP_OK) {
        *(struct record *)esp_check_record(check, number) = record;
    }
    return status;
}

static const struct record *record_of(const struct esp_check *check, uint32_t number) {
    return esp_check_record(check, number);
}

/* Has the node a place among the others of its tree? */
static bool is_placed(const struct record *record) {
    return record->whole && record->tree;
}

static int by_tree_and_lft(const void *a, const void *b, void *ctx) {
    const struct record *x = record_of(ctx, *(const uint32_t *)a);
    const struct record *y = record_of(ctx, *(const uint32_t *)b);
    if (x->tree != y->tree) {
        return x->tree < y->tree ? -1 : 1;
    }
    return x->lft < y->lft ? -1 : x->lft > y->lft;
}

/* What a node's own words and its parent's say. */
static enum esp_status check_links(struct esp_check *check, uint32_t number) {
    const struct record *record = record_of(check, number);
    uint32_t parent = record->parent - 1, tree = record->tree - 1;
    enum esp_status status = ESP_OK;
    if (!record->whole) {
        status = esp_check_report(check, "missing-interval", number, ESP_IDMAP_NONE,
                                  "lft or rgt is missing or no whole number: no query finds the "
                                  "node below others");
    } else if (record->rgt <= record->lft) {
        status = esp_check_report(check, "interval", number, ESP_IDMAP_NONE,
                                  "rgt is not greater than lft");
    }
    if (status == ESP_OK && record->parent && !record_of(check, parent)->present) {
        return esp_check_report(check, "missing-parent", number, parent,
                                "the node that parentId names does not exist");
    }
    uint32_t above = record->parent ? record_of(check, parent)->tree : number + 1;
    bool wrong_tree = !record->tree || (above && above != record->tree);
    if (status == ESP_OK && wrong_tree) {
        status = esp_check_report(check, "wrong-tree", number, record->tree ? tree : ESP_IDMAP_NONE,
                                  "treeId is not the parent's treeId (a root's: its own id)");
    }
    return status;
}

/* The next ancestor of a node that has a place, as parentId tells it, number + 1; 0: there is
 * none.  *between: nodes without a place on the way there.  False: the way does not end. */
static bool placed_above(const struct esp_check *check, const struct record *record, uint32_t *out,
                         int64_t *between) {
    *out = record->parent;
    for (*between = 0; *out && *between < UNPLACED_MAX; ++*between) {
        const struct record *above = record_of(check, *out - 1);
        if (!above->present || is_placed(above)) {
            return true;
        }
        *out = above->parent;
    }
    return !*out;
}

/* One node of the sweep over a tree from left to right; `around` is the next interval around it,
 * NULL: none.  *depth: what its place says. */
static enum esp_status check_sweep(struct esp_check *check, uint32_t number,
                                   const struct open *around, int64_t *depth) {
    const struct record *record = record_of(check, number);
    uint32_t outer = around ? around->number : ESP_IDMAP_NONE, above = 0;
    int64_t between = 0;
    *depth = around ? around->depth + 1 : 0;
    if (around && record_of(check, outer)->rgt <= record->rgt) {
        return esp_check_report(check, "overlap", number, outer,
                                "the interval reaches out of the one it begins in");
    }
    /* Nodes without a place are reported themselves, not what is below them. */
    bool ends = placed_above(check, record, &above, &between);
    if (between && (!ends || above == outer + 1)) {
        *depth += between;
    }
    enum esp_status status = ESP_OK;
    if (record->depth != *depth) {
        status = esp_check_report(check, "wrong-depth", number, outer,
                                  "depth is not the number of intervals around the node");
    }
    bool missing = above && !record_of(check, above - 1)->present;
    if (status == ESP_OK && ends && !missing && above != outer + 1) {
        status = esp_check_report(check, "wrong-parent", number, outer,
                                  "parentId is not the node of the next interval around");
    }
    return status;
}

static enum esp_status sweep(struct esp_check *check, const uint32_t *order, uint32_t count,
                             struct open *open) {
    uint32_t open_count = 0;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < count; i++) {
        const struct record *record = record_of(check, order[i]);
        const struct record *before = i ? record_of(check, order[i - 1]) : NULL;
        bool same_tree = before && before->tree == record->tree;
        open_count = same_tree ? open_count : 0;
        status = check_links(check, order[i]);
        if (status == ESP_OK && same_tree && before->lft == record->lft) {
            status = esp_check_report(check, "duplicate-lft", order[i], order[i - 1],
                                      "two nodes of a tree have the same lft");
            continue;
        }
        while (open_count && record_of(check, open[open_count - 1].number)->rgt < record->lft) {
            open_count--;
        }
        if (status == ESP_OK && record->rgt > record->lft) {
            const struct open *around = open_count ? &open[open_count - 1] : NULL;
            struct open inner = {.number = order[i]};
            status = check_sweep(check, order[i], around, &inner.depth);
            open[open_count++] = inner;
        }
    }
    return status;
}

static enum esp_status check(struct esp_access *a, esp_finding_fn *fn, void *ctx) {
    struct esp_check c;
    esp_check_init(&c, a, sizeof(struct record), fn, ctx);
    enum esp_status status = esp_check_scan(&c, check_item);
    uint32_t *order = esp_arena_calloc(&c.arena, (size_t)c.ids.count + 1, sizeof *order);
    struct open *open = esp_arena_calloc(&c.arena, (size_t)c.ids.count + 1, sizeof *open);
    if (status == ESP_OK && (!order || !open)) {
        status = esp_fail_nomem(a->err);
    }
    if (status == ESP_OK) {
        uint32_t count = 0;
        for (uint32_t i = 0; status == ESP_OK && i < c.ids.count; i++) {
            const struct record *record = record_of(&c, i);
            order[count] = i;
            count += is_placed(record);
            if (record->present && !is_placed(record)) {
                status = check_links(&c, i);
            }
        }
        qsort_r(order, count, sizeof *order, by_tree_and_lft, &c);
        status = status == ESP_OK ? sweep(&c, order, count, open) : status;
    }
    esp_check_fini(&c);
    return status;
}

static const struct esp_option options[] = {
    {.name = "gap",
     .type = ESP_OPT_U64,
     .offset = offsetof(struct esp_layout_settings, gap),
     .argument = "N",
     .fallback = "1",
     .max = ESP_GAP_MAX,
     .help = "number in steps of N, so that inserts find room without renumbering"},
    {.name = NULL},
};

extern const struct esp_layout_ops esp_layout_nested_set;
const struct esp_layout_ops esp_layout_nested_set = {
    .name = "nested-set",
    .family = "nested set",
    .summary = "each node stores an interval around its descendants'; answers come in tree order",
    .ordered = true,
    .schema =
        {
            .attr = {[ID] = {{"id", 2}, ESP_TYPE_S},
                     [TREE] = {{"treeId", 6}, ESP_TYPE_S},
                     [LFT] = {{"lft", 3}, ESP_TYPE_N},
                     [RGT] = {{"rgt", 3}, ESP_TYPE_N},
                     [DEPTH] = {{"depth", 5}, ESP_TYPE_N},
                     [PARENT] = {{"parentId", 8}, ESP_TYPE_S}},
            .attr_count = ATTR_COUNT,
            .pk = ID,
            .sk = -1,
            .index = {[BY_TREE] = {.name = {"tree-index", 10}, .pk = TREE, .sk = LFT}},
            .index_count = 1,
        },
    .options = options,
    .parent_attr = PARENT,
    .view = view,
    .interval = interval,
    .item_count = item_count,
    .validate = validate,
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
            [ESP_OP_IS_DESCENDANT] = op_is_descendant,
            [ESP_OP_INSERT] = op_insert,
            [ESP_OP_UPDATE] = esp_access_update,
            [ESP_OP_MOVE] = op_move,
            [ESP_OP_REMOVE] = op_remove,
            [ESP_OP_INSERT_SUBTREE] = op_insert_subtree,
            [ESP_OP_PROMOTE] = op_promote,
        },
    .check = check,
};
