#ifndef ESP_TREE_FOREST_H
#define ESP_TREE_FOREST_H
/*
 * The hierarchy in memory: what importers build and layouts read.
 *
 * A frozen forest is immutable, so any number of threads may read it without
 * locks.  Nodes are numbered in pre-order, tree after tree, siblings in input
 * order: the subtree of v is exactly the index range [v, v + size[v]), and a
 * root's range is its tree.  Every layout's numbers follow from that by
 * arithmetic, and the forest doubles as the oracle that tests compare every
 * layout with.
 *
 * Knows nothing about file formats, items or stores.
 */
#include "core/mem.h"

typedef uint32_t esp_node; /* index into a frozen forest */
#define ESP_NODE_NONE UINT32_MAX
enum { ESP_ID_BYTES_MAX = 2048 }; /* DynamoDB's partition key limit */

/* A node's attributes, encoded once at import: the members of a DynamoDB JSON
 * object without its braces, e.g. `"name":{"S":"Americas"},"pop":{"N":"5"}`. */
struct esp_data {
    const char *text; /* may be NULL only when len == 0 */
    uint32_t len;     /* bytes of text; 0 = no attributes */
    uint32_t size;    /* bytes DynamoDB charges for them: names plus values */
};

/* An edge beside the tree's own: a further parent, or an edge of another type.  Only layouts with
 * several_parents take a forest that has any.  Texts are the forest's. */
struct esp_link {
    esp_node child, parent; /* it leads from one to the other */
    struct esp_str type;    /* "GOALMEMBERSHIP"; len 0: `parent` is a further parent of `child` */
    struct esp_str weight;  /* "500-LEAD"; len 0: none given */
    struct esp_data data;   /* the edge's own attributes */
    const char *source;     /* file that `line` is of; NULL: the nodes' own, or unknown */
    uint32_t line;          /* of its source, saturating; 0 = unknown */
    uint32_t number;        /* in the order they were added */
};

struct esp_forest {
    uint32_t count;
    uint32_t root_count;
    uint32_t depth_max;     /* a root has depth 0 */
    uint64_t id_bytes;      /* all ids together */
    uint64_t data_bytes;    /* all esp_data.size together */
    uint32_t id_len_max;    /* bytes */
    uint32_t data_size_max; /* the largest esp_data.size */
    bool id_has[256];       /* the bytes that occur in some id */
    bool several_sources;   /* lines are counted through several files (locate, below) */
    const esp_node *parent; /* ESP_NODE_NONE for a root */
    const uint32_t *size;   /* nodes in the subtree, itself included: >= 1 */
    const uint32_t *depth;
    /* Where each node's text lies: use the accessors below. */
    const char *const *text;
    const struct esp_link *link; /* by child, type and parent */
    const uint32_t *link_in;     /* positions of them, by parent and number */
    uint32_t link_count;
    const struct esp_str *link_type; /* each type that links have, in order of bytes */
    uint32_t link_type_count;
    struct esp_forest_owner *owner;
};

/* How a node's text is laid out; private to tree/ and the accessors. */
struct esp_node_text {
    uint32_t line; /* of the source, saturating; 0 = unknown */
    uint32_t data_len, data_size;
    uint16_t id_len;
    char bytes[]; /* id, then data */
} __attribute__((packed));

static inline struct esp_str esp_forest_id(const struct esp_forest *f, esp_node v) {
    const struct esp_node_text *t = (const void *)f->text[v];
    return (struct esp_str){t->bytes, t->id_len};
}
static inline struct esp_data esp_forest_data(const struct esp_forest *f, esp_node v) {
    const struct esp_node_text *t = (const void *)f->text[v];
    return (struct esp_data){t->bytes + t->id_len, t->data_len, t->data_size};
}
static inline uint32_t esp_forest_line(const struct esp_forest *f, esp_node v) {
    return ((const struct esp_node_text *)(const void *)f->text[v])->line;
}
/* Could a node have a payload attribute of this name?  False is certain; true may mean that
 * the source did not tell its names (esp_record), or that no node uses the name. */
bool esp_forest_may_have(const struct esp_forest *f, struct esp_str name);
/* First child of v, or the next sibling of c; ESP_NODE_NONE when there is none.
 * The next sibling of a root is the next root. */
static inline esp_node esp_forest_first_child(const struct esp_forest *f, esp_node v) {
    return f->size[v] > 1 ? v + 1 : ESP_NODE_NONE;
}
static inline esp_node esp_forest_next_sibling(const struct esp_forest *f, esp_node c) {
    esp_node p = f->parent[c], next = c + f->size[c];
    return next < (p == ESP_NODE_NONE ? f->count : p + f->size[p]) ? next : ESP_NODE_NONE;
}
static inline bool esp_forest_is_below(const struct esp_forest *f, esp_node v, esp_node ancestor) {
    return v > ancestor && v - ancestor < f->size[ancestor];
}
/* The root of v's tree; walks up: O(depth). */
esp_node esp_forest_root(const struct esp_forest *f, esp_node v);

/* The links that leave v: link[first .. first + n). */
uint32_t esp_forest_links_from(const struct esp_forest *f, esp_node v, uint32_t *first);
/* Those that lead to v: link[link_in[first]] .. link[link_in[first + n - 1]]. */
uint32_t esp_forest_links_to(const struct esp_forest *f, esp_node v, uint32_t *first);

/* Has any link this type (len 0: leads any to a further parent)? */
bool esp_forest_has_link_type(const struct esp_forest *f, struct esp_str type);

/* A link to be added, by ids.  Everything is borrowed for the duration of the call. */
struct esp_link_row {
    struct esp_str child, parent, type, weight; /* as in struct esp_link */
    struct esp_data data;
    uint64_t line; /* 0 = unknown */
};
/* Add links to a forest that nobody else uses yet.  ERR_ORPHAN: no such node, ERR_DUPLICATE: the
 * same edge twice, or a further parent that is the tree's, ERR_CYCLE; each with `source` (may be
 * NULL) and line, and nothing is added then. */
enum esp_status esp_forest_add_links(struct esp_forest *f, const struct esp_link_row *rows,
                                     size_t count, const char *source,
                                     struct esp_error *err) ESP_MUST_CHECK;
/* Would a node be its own ancestor over the tree, further parents and links of `type`?
 * ERR_CYCLE with all ids of the cycle, as many as fit, and the line of one of its links. */
enum esp_status esp_forest_check_links(const struct esp_forest *f, struct esp_str type,
                                       struct esp_error *err) ESP_MUST_CHECK;

void esp_forest_free(struct esp_forest *forest); /* NULL is fine */

/* Look-up by id, built on demand (12 to 23 bytes a node), immutable after that. */
struct esp_forest_ids;
enum esp_status esp_forest_ids_new(const struct esp_forest *f, const struct esp_alloc *alloc,
                                   struct esp_forest_ids **out,
                                   struct esp_error *err) ESP_MUST_CHECK;
void esp_forest_ids_free(struct esp_forest_ids *ids);                          /* NULL is fine */
esp_node esp_forest_find(const struct esp_forest_ids *ids, struct esp_str id); /* or NONE */

/* --- building ------------------------------------------------------------- */

/* One input row.  Everything is borrowed for the duration of the call. */
struct esp_record {
    struct esp_str id;        /* 1..ESP_ID_BYTES_MAX bytes */
    struct esp_str parent_id; /* empty, or equal to id if options allow it, = root */
    struct esp_data data;
    uint64_t line; /* where it came from, for messages; 0 = unknown */
    /* A source that knows its attribute names sets names_known, and lists here those that no
     * earlier record has listed: then nobody must look for them in every node's data. */
    bool names_known;
    size_t new_name_count;
    const struct esp_str *new_names;
};

struct esp_forest_builder;

/* What a builder does with rows it cannot use. */
struct esp_forest_options {
    const char *source; /* file name for messages; borrowed; may be NULL */
    /* Several files whose lines are counted through: the name of the one that has *line, which
     * becomes the number there.  NULL: there is one file. */
    const char *(*locate)(void *ctx, uint64_t *line);
    void *locate_ctx;
    bool own_id_is_root;   /* parent id == id means root; else that is an error */
    bool several_parents;  /* an id in further rows, with other parents: they become links.  Such a
                              row has the first one's payload, or none */
    uint64_t memory_limit; /* bytes; 0 = none */
};

/* Collects records in any order (a child may precede its parent).
 * Every id is interned as it arrives, so a row costs one look-up for itself and one
 * for its parent, done in batches behind prefetches. */
enum esp_status esp_forest_builder_new(const struct esp_alloc *alloc,
                                       const struct esp_forest_options *options,
                                       struct esp_forest_builder **out,
                                       struct esp_error *err) ESP_MUST_CHECK;
void esp_forest_builder_free(struct esp_forest_builder *builder); /* NULL is fine */
/* ERR_DUPLICATE names both lines; it may be reported up to a batch later. */
enum esp_status esp_forest_builder_add(struct esp_forest_builder *builder,
                                       const struct esp_record *record,
                                       struct esp_error *err) ESP_MUST_CHECK;
/* Check and number.  The builder is given: freed whatever the outcome.
 * ERR_ORPHAN (file, line, id, missing parent; how many more), ERR_CYCLE (all ids of
 * the cycle, as many as fit; over further parents too), ERR_DUPLICATE, ERR_LIMIT, ERR_NOMEM; an
 * empty input is ERR_INPUT.  No recursion: any depth works. */
enum esp_status esp_forest_freeze(struct esp_forest_builder *builder, struct esp_forest **out,
                                  struct esp_error *err) ESP_MUST_CHECK;

#endif
