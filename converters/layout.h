#ifndef ESP_CONVERTERS_LAYOUT_H
#define ESP_CONVERTERS_LAYOUT_H
/*
 * Layout: how a forest becomes items, and how tree operations become requests on those
 * items.  A layout owns its key design, so both directions live in ONE file,
 * converters/NAME.c: the bulk converter (`emit`) and the operations (`children`, `move`, ...).
 *
 * To add one: write converters/NAME.c defining `const struct esp_layout_ops
 * esp_layout_NAME` and add one line to converters/layouts.def.  The command line, the
 * bench, the reports, the docs and tests/conformance pick it up from the registry.
 */
#include "stores/store.h"
#include "tree/forest.h"

enum esp_op {
#define ESP_OPERATION(NAME, name, kind, origin, arguments, text) ESP_OP_##NAME,
#include "converters/operations.def"
#undef ESP_OPERATION
    ESP_OP_COUNT_ALL
};

/* Where an operation's plan comes from: see converters/operations.def. */
enum esp_op_origin { ESP_OP_DERIVED, ESP_OP_CORE, ESP_OP_EXTRA };
/* What the registry says of an operation. */
struct esp_op_info {
    const char *name, *arguments, *text;
    bool write;
    enum esp_op_origin origin;
};
extern const struct esp_op_info esp_op_info[ESP_OP_COUNT_ALL];
int esp_op_find(const char *name); /* enum esp_op, or -1 */
/* Part of comparisons and workloads? */
static inline bool esp_op_measured(int op) {
    return esp_op_info[op].origin != ESP_OP_EXTRA;
}

/* graph: the edge by which neighbours or hydrate came to a node.  Ids of nodes. */
struct esp_edge_view {
    struct esp_str source, target, type, weight;
    bool has_data; /* the answer carries the edge's own attributes; else they were not read */
    struct esp_data data;
};

/* What an operation returns for one node.  Borrowed during the call. */
struct esp_node_view {
    struct esp_str id;
    struct esp_str parent_id; /* ptr == NULL: this answer does not carry it; len 0: a root */
    int64_t depth;            /* from the root; -1: the answer does not carry it */
    int64_t order;            /* among siblings, where the layout keeps it; else 0 */
    struct esp_data data;
    struct esp_str edges;             /* graph: the edge set as a JSON list; ptr == NULL: none */
    const struct esp_edge_view *edge; /* NULL: it is not by an edge that the answer has the node */
    bool escaped; /* only between ops->view and esp_layout_view: parent_id is as in a path */
};
typedef enum esp_status esp_node_fn(void *ctx, const struct esp_node_view *node);

/* How a caller names a node.  `id` alone is always enough; `key` is what the layout can use
 * to skip a look-up (a path, interval bounds): filled by `locate` (from the forest: the
 * client knows its keys) or by `resolve` (from the store: billed).  The bench reports which. */
struct esp_locator {
    struct esp_str id;
    const void *key; /* layout-private, in the arena given to locate/resolve; NULL = id only */
};

/* What an item says of the link between a node and its parent. */
enum esp_relation {
    ESP_RELATION_NONE, /* nothing */
    ESP_RELATION_COPY, /* the link as the parent's side tells it */
    ESP_RELATION_OWN,  /* the node's own word: where both are there and differ, this one holds */
};

struct esp_layout;

/* One caller's use of a layout in a table. */
struct esp_access {
    const struct esp_layout *layout;
    struct esp_session *session;
    struct esp_arena *scratch; /* the operation's memory; the caller resets it between operations */
    bool consistent;           /* read the table strongly where possible (indexes cannot be) */
    /* Writes are recorded here instead of being done (converters/write_plan.h); NULL: do them.
     * What is recorded no later read of the operation sees: a plan is made from the table as it
     * is, and an operation writes no key twice. */
    struct esp_write_plan *plan;
    struct esp_paging *paging; /* NULL: the whole answer (converters/paging.h) */
    uint64_t value;            /* out: count: descendants; is-descendant: 0 or 1 */
    struct esp_error *err;     /* may be NULL */
};

/* The arguments of every operation; each reads the ones it needs. */
struct esp_args {
    struct esp_locator at;        /* the node; insert: unused */
    struct esp_locator to;        /* insert, move: the new parent, id.len == 0 = become a root;
                                     is-descendant, lca: the other node */
    uint32_t lo, hi;              /* window: relative depths, hi == UINT32_MAX: to the leaves;
                                     level: lo */
    struct esp_str id;            /* insert: the new node */
    struct esp_data data;         /* insert: its payload; update: attributes to set */
    const struct esp_str *remove; /* update: names of attributes to remove */
    size_t remove_count;
    const struct esp_forest *subtree; /* insert-subtree: its roots go below `to` */
    struct esp_str type, weight;      /* graph: of edges; weight "500-LEAD", len 0: none given */
};

/* Reads call fn once per node; writes do not call it.
 *   ERR_NOT_FOUND  `at` (or `to`) is absent        ERR_EXISTS  insert of an id that exists
 *   ERR_CYCLE      move under itself or below; nothing is written then
 * `at` itself is part of the answer only for `node`, `tree` and a window from 0.
 * Order: ancestors root first; layouts with `ordered` return siblings and trees in sibling
 * order; the rest is free.  level and tree: `at` must be a root (the caller's duty). */
typedef enum esp_status esp_op_fn(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx);

/* A broken invariant, by name, with the ids concerned; borrowed during the call. */
struct esp_finding {
    const char *name; /* "wrong-depth", "missing-parent", "overlap" ... */
    struct esp_str id, other;
    const char *text; /* one sentence */
};
typedef enum esp_status esp_finding_fn(void *ctx, const struct esp_finding *finding);

/* What ops->mend mends, and whom it tells. */
struct esp_mend {
    const struct esp_str *id; /* of the nodes that the check's findings name, none twice */
    uint32_t count;
    /* An item as it is and as it shall be, both borrowed during the call; before == NULL: a node's
     * own item that is gone, with its payload. */
    enum esp_status (*image)(void *ctx, const struct esp_item *before,
                             const struct esp_item *after);
    esp_finding_fn *left; /* what cannot be told and stays as it is */
    void *ctx;            /* of the two */
};

/* For an id that an item has in another form. */
struct esp_id_room {
    char text[ESP_ID_BYTES_MAX];
};

/* Where a node stands in a tree that is numbered. */
struct esp_interval {
    struct esp_str tree; /* id of its root */
    int64_t lft, rgt, depth;
};

struct esp_layout_ops {
    const char *name;     /* "nested-set" */
    const char *family;   /* "path", "replica", "nested set", "adjacency" */
    const char *summary;  /* one line */
    bool ordered;         /* answers keep sibling order */
    bool several_parents; /* takes a forest with links (graph) */
    bool key_is_place;    /* a node's key says where it is: its id alone does not give the key, and
                             a new node's key may be free although there is a node of that id */
    struct esp_schema schema;         /* with default names */
    const struct esp_option *options; /* for --set KEY=VALUE; offsets into esp_layout_settings */

    /* Change the schema and check what the settings ask for; NULL: nothing to do. */
    enum esp_status (*configure)(struct esp_layout *l, struct esp_error *err);

    int parent_attr; /* position of an attribute that every node has but a root; -1: none */

    /* What an item of the table says of its node.  False: it is a further copy of a node, or
     * too damaged to tell.  Strings are borrowed from the item.  Callers use esp_layout_view. */
    bool (*view)(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out);
    /* For layouts whose view gives no parent (parent_id.ptr == NULL), because another item of the
     * table does (entity: PARENT and CHILD items, graph: the tree edge, replica: the row at
     * distance 1): the link that an item tells, as id, parent_id and order of *out.  A node of
     * whose parent no item tells is a root.  Strings are borrowed from the item.  NULL: view tells
     * all. */
    enum esp_relation (*relation)(const struct esp_layout *l, const struct esp_item *item,
                                  struct esp_node_view *out);
    /* For layouts that keep the payload in further items too (view is false): id and data of *out,
     * and in order how far the copy is from the node's own item.  Repairs bring a node back whose
     * own item is gone.  Strings are borrowed from the item.  NULL: there are no copies. */
    bool (*copy)(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_node_view *out);

    /* For layouts that number their trees: the interval of the item's node, which tells the parent
     * where the item does not.  False: the item has none.  NULL: there are no intervals. */
    bool (*interval)(const struct esp_item *item, struct esp_interval *out);

    /* What an item tells of its node's parent: id and parent_id of *out (len 0: a root), which are
     * borrowed from the item and the two rooms.  Asked where that node's own item tells nothing.
     * False: this item does not tell.  NULL: no item does. */
    bool (*hint)(const struct esp_layout *l, const struct esp_item *item,
                 struct esp_id_room room[2], struct esp_node_view *out);

    /* --- bulk conversion: pure, no I/O, safe in parallel over disjoint ranges --- */

    /* Items that nodes [first, first + n) become. */
    uint64_t (*item_count)(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                           uint32_t n);
    /* Everything that would make an item impossible, before the first one is written: a
     * separator inside an id, keys and items over DynamoDB's limits.  Names source line,
     * id and bytes, and what to do.  O(nodes). */
    enum esp_status (*validate)(const struct esp_layout *l, const struct esp_forest *f,
                                struct esp_error *err);
    /* Emit the items of nodes [first, first + n).  Strings are borrowed from the forest or
     * `scratch`; the caller may reset `scratch` between calls, never during one. */
    enum esp_status (*emit)(const struct esp_layout *l, const struct esp_forest *f, esp_node first,
                            uint32_t n, struct esp_arena *scratch, esp_item_fn *fn, void *ctx);

    /* --- naming nodes --- */
    enum esp_status (*locate)(const struct esp_layout *l, const struct esp_forest *f, esp_node v,
                              struct esp_arena *arena, struct esp_locator *out);
    enum esp_status (*resolve)(struct esp_access *a, struct esp_str id, struct esp_locator *out);
    /* The primary key of the node's own item where it is not the id itself: composed in `arena`;
     * ERR_NOMEM.  NULL: it is the id (with the number 0, if there is a sort key). */
    enum esp_status (*node_key)(const struct esp_layout *l, struct esp_str id,
                                struct esp_arena *arena, struct esp_item *key);

    /* --- operations: CORE ones are mandatory, NULL ones are derived --- */
    esp_op_fn *op[ESP_OP_COUNT_ALL];

    /* Stream the table and report every broken invariant. */
    enum esp_status (*check)(struct esp_access *a, esp_finding_fn *fn, void *ctx);
    /* Where items hold more than a forest tells (edges with data, of any type): what the items of
     * damaged nodes should be, by the table itself.  Writes nothing, reads consistently.  NULL:
     * repairs put damaged trees together from view, relation and copy, and emit them. */
    enum esp_status (*mend)(struct esp_access *a, const struct esp_mend *mend);
    const char *const *not_mended; /* names of findings that mend leaves; NULL-terminated */
};

/* So that half a gap more never overflows 64 bits; what fits a forest says nested-set's validate.
 */
#define ESP_GAP_MAX (UINT64_C(1) << 62)

enum esp_switch { ESP_SWITCH_ON, ESP_SWITCH_OFF };
extern const char *const esp_switch_names[]; /* "on", "off": for ESP_OPT_CHOICE */

/* What `--set` can change; zeroed fields mean the default. */
struct esp_layout_settings {
    const char *separator;    /* path layouts, entity */
    int escape;               /* path layouts: 1 = percent */
    int depth;                /* enum esp_switch: path layouts, adjacency store it, or not */
    uint64_t gap;             /* nested-set; 0 = 1 */
    const char *hierarchy;    /* path-key: pk of all items; NULL = the tree's id */
    int by;                   /* path-key: components of sk: 0 = ids, 1 = names */
    const char *name;         /* path-key: the payload attribute of by=name */
    int ancestors;            /* path-key: 1 = store the list of the ancestors' paths */
    int by_id;                /* path-key: enum esp_switch: the index by-id */
    uint64_t segment;         /* path-key: levels of a segment; 0 = all */
    int refs;                 /* entity: 1 = relation items carry parentId / childId too */
    const char *node, *edge;  /* entity, graph: prefix of node keys; graph: type of tree edges */
    const char *omit;         /* graph: edge types left out of edge sets, with commas */
    uint64_t edge_set_bytes;  /* graph: larger edge sets are left out */
    struct esp_strings attr;  /* "Path=p": rename attributes */
    struct esp_strings index; /* "gsi1=by-root" */
};

/* A layout with its settings: what everybody passes around.  Immutable after init. */
struct esp_layout {
    const struct esp_layout_ops *ops;
    struct esp_schema schema; /* with the names in use */
    struct esp_str separator;
    struct esp_layout_settings settings;
};

extern const struct esp_layout_ops *const esp_layouts[]; /* NULL-terminated */
/* "nested-set"; NULL when unknown. */
const struct esp_layout_ops *esp_layout_find(const char *name);
/* `sets` are the KEY=VALUE texts of --set (keys: separator, gap, attr.OLD, index.OLD); they are
 * borrowed for the layout's life. */
enum esp_status esp_layout_init(struct esp_layout *layout, const struct esp_layout_ops *ops,
                                const struct esp_strings *sets,
                                struct esp_error *err) ESP_MUST_CHECK;

/* --- what callers use --- */

/* ops->view with the ids as they are.  Strings are borrowed from the item and the room. */
bool esp_layout_view(const struct esp_layout *layout, const struct esp_item *item,
                     struct esp_id_room *room, struct esp_node_view *out);

enum esp_plan { ESP_PLAN_NATIVE, ESP_PLAN_DERIVED };
/* Has the layout the operation, natively or derived?  insert-subtree has no derived plan where
 * siblings are ordered: it cannot tell where the new nodes come. */
bool esp_layout_has(const struct esp_layout *layout, enum esp_op op);
enum esp_plan esp_layout_plan(const struct esp_layout *layout, enum esp_op op);
/* Native plan if the layout has one, else the derived one. */
enum esp_status esp_operate(struct esp_access *a, enum esp_op op, const struct esp_args *args,
                            esp_node_fn *fn, void *ctx) ESP_MUST_CHECK;
/* id only, or resolved with the layout's own look-up: a locator for later operations. */
enum esp_status esp_resolve(struct esp_access *a, struct esp_str id,
                            struct esp_locator *out) ESP_MUST_CHECK;

/* Ids that begin with it are espalier's own: items that are no nodes (locks).  Imports and
 * inserts refuse them; checks, scans and repairs pass over them. */
#define ESP_RESERVED_PREFIX "espalier:"
static inline bool esp_id_reserved(struct esp_str id) {
    return id.len > sizeof ESP_RESERVED_PREFIX - 1 &&
           memcmp(id.ptr, ESP_RESERVED_PREFIX, sizeof ESP_RESERVED_PREFIX - 1) == 0;
}
static inline bool esp_item_reserved(const struct esp_schema *schema, const struct esp_item *item) {
    return esp_id_reserved(item->value[schema->pk].s);
}

/* converters/derived.c: the derived plans, by operation; NULL for CORE ones. */
extern esp_op_fn *const esp_derived[ESP_OP_COUNT_ALL];

#endif
