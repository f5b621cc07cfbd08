#ifndef ESP_CONVERTERS_GRAPH_H
#define ESP_CONVERTERS_GRAPH_H
/*
 * What the files of the layout graph share: keys of its items, nodes as they are read, the ways
 * up and down along the tree edges.
 *
 *   graph.c        the layout: schema, conversion, naming
 *   graph_walk.c   reading nodes with their edges, and walking
 *   graph_read.c   the read operations
 *   graph_edit.c   the writes
 *   graph_check.c  check
 *   graph_mend.c   what the items of damaged nodes should be
 *
 * Memory is a->scratch and errors go to a->err unless a comment says otherwise.
 */
#include "converters/access.h"
#include "converters/graph/edge_set.h"

enum {
    GRAPH_SOURCE,
    GRAPH_TARGET,
    GRAPH_GSI0,
    GRAPH_EDGE_SET,
    GRAPH_OMITTED,  /* types that the edge set leaves out */
    GRAPH_INCOMING, /* of a node: types of the edges that lead to it, tree edges aside */
    GRAPH_ATTR_COUNT
};
enum { GRAPH_BY_TARGET }; /* position of the index */
enum { GRAPH_RANK_STEP = 1000 };

/* --- keys --------------------------------------------------------------------------- */

static inline struct esp_str graph_tree_type(const struct esp_layout *l) {
    return esp_str_from(l->settings.edge);
}
/* The key of the node with this id: borrowed from it, or in `arena`; ptr == NULL: no memory. */
struct esp_str graph_key(const struct esp_layout *l, struct esp_str id, struct esp_arena *arena);
/* The id in a key; false: it is no key of a node. */
bool graph_id(const struct esp_layout *l, struct esp_str key, struct esp_str *id);
bool graph_is_node(const struct esp_item *item); /* the edge from a node to itself */
/* The primary key of an edge; of a node: twice its key. */
struct esp_item graph_item_key(struct esp_str source, struct esp_str target);
/* The gsi0 of an edge: `weight`, for a tree edge with zeros before it; none given: the one that
 * edges get then, and the rank `last` + GRAPH_RANK_STEP for a tree edge (a little less where
 * ranks end).  In `arena`.  ERR_USAGE, ERR_LIMIT. */
enum esp_status graph_weight(const struct esp_layout *l, struct esp_str type, struct esp_str weight,
                             int64_t last, struct esp_arena *arena, struct esp_str *out,
                             struct esp_error *err);
/* ERR_USAGE when edges of this type cannot be. */
enum esp_status graph_check_type(const struct esp_layout *l, struct esp_str type,
                                 struct esp_error *err);

/* Puts both values of the set into a node's item, which is complete otherwise.  What is left out
 * is as the settings say, and more where the item would be larger than an item can be.
 * ERR_NOMEM without a text. */
enum esp_status graph_fit_set(const struct esp_layout *l, struct esp_edge_set *set,
                              struct esp_item *item);

/* The items of node v, to fn.  `top`: key of a parent for roots (len 0: none), whose children end
 * at the rank top_last. */
enum esp_status graph_emit_node(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                                struct esp_str top, int64_t top_last, struct esp_arena *arena,
                                esp_item_fn *fn, void *ctx);

/* --- nodes -------------------------------------------------------------------------- */

struct graph_node {
    struct esp_str key;
    bool found;
    struct esp_item item;    /* if found */
    struct esp_edge_set set; /* empty if not */
};
/* The nodes with these keys, none twice, in one round trip. */
enum esp_status graph_read(struct esp_access *a, const struct esp_str *keys, uint32_t n,
                           struct graph_node *out);
/* Fetch the edges of `type` (len 0: of every type) that the nodes' sets leave out, and add them to
 * the sets.  No request where nothing is left out. */
enum esp_status graph_read_omitted(struct esp_access *a, struct graph_node *nodes, uint32_t n,
                                   struct esp_str type);
/* One node with its tree edges; ERR_NOT_FOUND. */
enum esp_status graph_read_one(struct esp_access *a, struct esp_str id, struct graph_node *out);

/* The nodes with an edge of `type` to the node `key`, in order of gsi0, from a weight up (len 0:
 * all). */
struct graph_sources {
    struct esp_access *access;
    struct esp_str *key, *gsi0;
    uint32_t count, cap, gsi0_cap;
};
enum esp_status graph_sources(struct esp_access *a, struct esp_str type, struct esp_str key,
                              struct esp_str weight, struct graph_sources *out);
/* The query for them by the target of their edges; both are borrowed. */
struct esp_query graph_sources_query(struct esp_str target, struct esp_str weight);
/* The largest rank among the children of a node; 0: it has none. */
enum esp_status graph_last_rank(struct esp_access *a, struct esp_str key, int64_t *out);

/* --- naming ------------------------------------------------------------------------- */

/* What a locator's key points to. */
struct graph_place {
    const struct esp_str *parent; /* keys */
    uint32_t parent_count;
    int64_t depth; /* -1: not known */
};
enum esp_status graph_resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out);
/* From the locator, or by a look-up. */
enum esp_status graph_place_of(struct esp_access *a, const struct esp_locator *at,
                               struct graph_place *out);
/* The keys of its parents, by bytes. */
enum esp_status graph_parents(const struct esp_layout *l, const struct esp_edge_set *set,
                              struct esp_arena *arena, struct graph_place *out);

/* --- walks -------------------------------------------------------------------------- */

/* What is above some nodes; each node once. */
struct graph_above_node {
    bool known; /* its parents are */
    struct graph_node node;
    struct graph_place place;
    uint32_t *parent; /* numbers */
};
struct graph_above {
    struct esp_idmap keys;
    struct graph_above_node *node; /* by number */
    uint32_t cap, climbed;         /* climbed: of those before it the parents are known */
};
void graph_above_init(struct graph_above *above, struct esp_access *a);
/* A node whose parents are known, to begin with.  *number (may be NULL): its own. */
enum esp_status graph_above_add(struct graph_above *above, struct esp_access *a, struct esp_str key,
                                const struct graph_place *place, uint32_t *number);
/* All that is above those, level by level. */
enum esp_status graph_climb(struct graph_above *above, struct esp_access *a);
/* Is the node `key` above the one with these parents, or one of them?  *out. */
enum esp_status graph_is_above(struct esp_access *a, struct esp_str key,
                               const struct graph_place *place, bool *out);

/* What is below a node; each node once, and as near as it is. */
struct graph_below_node {
    uint32_t first, last;   /* of its tree edges that lead to it: position + 1, 0 = none */
    uint32_t parent, depth; /* by which it was met first, and how far down */
    int64_t rank;           /* under that parent */
};
struct graph_below_edge {
    uint32_t child, next; /* next: of the same parent; position + 1 */
};
struct graph_below {
    struct esp_idmap keys;         /* number 0: the node itself */
    struct graph_below_node *node; /* by number */
    struct graph_below_edge *edge; /* those of a parent in sibling order */
    uint32_t node_cap, edge_count, edge_cap;
};
/* Breadth first down to `hi` levels.  ERR_CYCLE when the node is met again. */
enum esp_status graph_descend(struct esp_access *a, struct esp_str key, uint32_t hi,
                              struct graph_below *below);

/* --- operations --------------------------------------------------------------------- */

esp_op_fn graph_op_node, graph_op_parent, graph_op_children, graph_op_siblings, graph_op_ancestors,
    graph_op_descendants, graph_op_window, graph_op_level, graph_op_tree, graph_op_leaves,
    graph_op_count, graph_op_lca, graph_op_roots, graph_op_neighbours, graph_op_hydrate;
esp_op_fn graph_op_insert, graph_op_insert_subtree, graph_op_move, graph_op_remove,
    graph_op_promote, graph_op_link, graph_op_unlink;
enum esp_status graph_check(struct esp_access *a, esp_finding_fn *fn, void *ctx);
enum esp_status graph_mend(struct esp_access *a, const struct esp_mend *mend);

#endif
