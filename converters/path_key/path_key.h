#ifndef ESP_CONVERTERS_PATH_KEY_H
#define ESP_CONVERTERS_PATH_KEY_H
/*
 * path-key: the way down to a node is its key.  What the files of this layout share:
 *
 *   path_key.c        items: how nodes become them, what they say, whether they are whole
 *   path_key_place.c  places: the key that follows from a way
 *   path_key_read.c   looking nodes up, walking down and up, the reads
 *   path_key_write.c  inserts, updates, moves, deletes
 *
 * A way is the parts of the nodes from the root down to a node, itself included, joined by the
 * separator; a part is the node's id, or its name with by=name.  `pk` is the hierarchy, or the part
 * of the tree's id: the top.  `sk` is the way.
 *
 * With segment=N a way is cut after every N parts.  The node a piece ends with is an anchor: its
 * own item is the last of its piece, everything below it begins a partition of its own, with
 * pk = top + separator + part of the anchor's id, and sk = the way from there on.
 */
#include "converters/way.h"

/* Positions in the schema. */
enum {
    PATH_KEY_PK,
    PATH_KEY_SK,
    PATH_KEY_ID,
    PATH_KEY_DEPTH,
    PATH_KEY_ANCESTORS,
    PATH_KEY_PARENT, /* the parent's id, only with by=name: else the way tells it */
    PATH_KEY_ATTRS
};
enum { PATH_KEY_BY_ID }; /* position of the index */

static inline bool esp_path_key_has_depth(const struct esp_layout *l) {
    return l->settings.depth == ESP_SWITCH_ON;
}

/* --- places (path_key_place.c) ---------------------------------------------------- */

/* Where a node's item is: its key.  Also the private key of locators. */
struct esp_place {
    struct esp_str pk, sk;
    int64_t depth; /* -1: not known */
};
static inline bool esp_place_eq(const struct esp_place *a, const struct esp_place *b) {
    return esp_str_eq(a->sk, b->sk) && esp_str_eq(a->pk, b->pk);
}
/* Parts of a way. */
uint32_t esp_place_parts(const struct esp_layout *l, struct esp_str sk);
/* The last part of a way. */
struct esp_str esp_place_last(const struct esp_layout *l, struct esp_str sk);
/* Does the partition belong to an anchor?  *top and *anchor are in `pk`; anchor.len == 0: no. */
bool esp_place_cut(const struct esp_layout *l, struct esp_str pk, struct esp_str *top,
                   struct esp_str *anchor);
bool esp_place_is_root(const struct esp_layout *l, const struct esp_place *place);
bool esp_place_is_anchor(const struct esp_layout *l, struct esp_str sk);
/* Where an item is, as the item says; strings are the item's. */
struct esp_place esp_place_of(const struct esp_layout *l, const struct esp_item *item);
struct esp_item esp_place_key(const struct esp_place *place);

/* These compose in `arena`; ERR_NOMEM. */
/* The place of the root `id`, whose part is `part`. */
enum esp_status esp_place_root(const struct esp_layout *l, struct esp_arena *arena,
                               struct esp_str id, struct esp_str part,
                               struct esp_place *out) ESP_MUST_CHECK;
/* The place at the end of `way` (one part or more) below the node at `from`. */
enum esp_status esp_place_below(const struct esp_layout *l, struct esp_arena *arena,
                                const struct esp_place *from, struct esp_str way,
                                struct esp_place *out) ESP_MUST_CHECK;
/* The partition and the beginning of the sort keys of all that is below `from`, until the next
 * anchors.  prefix.len == 0: the whole partition. */
enum esp_status esp_place_inside(const struct esp_layout *l, struct esp_arena *arena,
                                 const struct esp_place *from, struct esp_str *pk,
                                 struct esp_str *prefix) ESP_MUST_CHECK;
/* The value of `ancestors`: the ways to the nodes above. */
enum esp_status esp_place_ancestors(const struct esp_layout *l, struct esp_arena *arena,
                                    struct esp_str sk, struct esp_value *out) ESP_MUST_CHECK;

/* The name of a node with by=name, decoded in `arena` where need be; ptr == NULL: the payload has
 * none that is text. */
enum esp_status esp_path_key_name(const struct esp_layout *l, struct esp_data data,
                                  struct esp_arena *arena, struct esp_str *out) ESP_MUST_CHECK;

/* --- looking up, walking (path_key_read.c) ---------------------------------------- */

/* Entries of the index by-id for these ids, none twice: at least keys and ids.  Without the index
 * it is a scan, and the items are whole. */
enum esp_status esp_path_key_find(struct esp_access *a, const struct esp_str *ids, size_t n,
                                  struct esp_item_list *found);
/* The first item of `list` with that id; NULL: none. */
const struct esp_item *esp_path_key_pick(const struct esp_item_list *list, struct esp_str id);
/* The place of a locator's node, looked up if it has no key; ERR_NOT_FOUND. */
enum esp_status esp_path_key_at(struct esp_access *a, const struct esp_locator *at,
                                struct esp_place *out);
/* The item at a place; ERR_NOT_FOUND names `id`. */
enum esp_status esp_path_key_get(struct esp_access *a, const struct esp_place *place,
                                 struct esp_str id, struct esp_item *out);
/* Is the node at `at` below the other one? */
enum esp_status esp_path_key_is_below(struct esp_access *a, const struct esp_place *at,
                                      const struct esp_place *to, bool *out);
/* Where the parent of the node at `at` is; at must not be a root.  By id across segments;
 * ERR_NOT_FOUND. */
enum esp_status esp_path_key_up(struct esp_access *a, const struct esp_place *at,
                                struct esp_place *out);

/* Everything from `lo` to `hi` levels (lo >= 1) below the node at `from`, partition after
 * partition: all anchors that one step finds are asked together in the next one. */
struct esp_descent {
    struct esp_access *access;
    struct esp_place from;
    uint32_t lo, hi;
    /* An item that is `below` levels under the node.  Must not use the session. */
    enum esp_status (*fn)(void *ctx, const struct esp_item *item, uint32_t below);
    void *ctx;
    /* What the operation passes nodes on to, if fn does: where one query is all, pages of the
     * answer read only their part of it.  pass NULL: all is read. */
    esp_node_fn *pass;
    void *pass_ctx;
    uint32_t step; /* 0: the node's own partition, 1: of the anchors in it ... */
    /* private */
    int64_t base;           /* levels from the node to the beginning of this step's ways */
    struct esp_idmap asked; /* partitions */
};
enum esp_status esp_path_key_descend(struct esp_descent *d);

/* --- operations -------------------------------------------------------------------- */

enum esp_status esp_path_key_resolve(struct esp_access *a, struct esp_str id,
                                     struct esp_locator *out);
esp_op_fn esp_path_key_node, esp_path_key_parent, esp_path_key_children, esp_path_key_siblings,
    esp_path_key_ancestors, esp_path_key_descendants, esp_path_key_window, esp_path_key_level,
    esp_path_key_tree, esp_path_key_is_descendant, esp_path_key_roots;
esp_op_fn esp_path_key_insert, esp_path_key_update, esp_path_key_move, esp_path_key_remove,
    esp_path_key_promote;

#endif
