#ifndef ESP_CONVERTERS_ACCESS_H
#define ESP_CONVERTERS_ACCESS_H
/*
 * What the operations of several layouts share: fetching nodes by id, passing items on as
 * nodes, paging through a range, sending many writes.  Knows items and nodes, no key design.
 *
 * Every function reports into a->err.  Memory is a->scratch unless a comment says otherwise.
 */
#include "converters/idmap.h"
#include "converters/layout.h"

/* --- items ---------------------------------------------------------------------- */

/* Copies of items in an arena; esp_item_list_add is an esp_item_fn for it. */
struct esp_item_list {
    const struct esp_schema *schema;
    struct esp_arena *arena;
    struct esp_item *item;
    uint32_t count, cap;
};
void esp_item_list_init(struct esp_item_list *list, struct esp_access *a);
enum esp_status esp_item_list_add(void *list, const struct esp_item *item);

/* The text of an S attribute; ptr == NULL when the item has none of that type. */
static inline struct esp_str esp_item_text(const struct esp_item *item, int attr) {
    const struct esp_value *v = &item->value[attr];
    return v->type == ESP_TYPE_S ? v->s : (struct esp_str){0};
}
/* A whole number; `fallback` when the item has none. */
static inline int64_t esp_item_number(const struct esp_item *item, int attr, int64_t fallback) {
    const struct esp_value *v = &item->value[attr];
    return v->type == ESP_TYPE_N && v->s.len == 0 ? v->n : fallback;
}
/* The key of the node `id` in a table keyed by id alone (or by id and number `sk`). */
struct esp_item esp_item_key(const struct esp_schema *schema, struct esp_str id, int64_t sk);

/* The key of the node's own item, as the layout makes it (esp_layout_ops.node_key). */
enum esp_status esp_access_key(struct esp_access *a, struct esp_str id, struct esp_item *key);

/* Items are passed on to `fn` as nodes, by the layout's view. */
struct esp_node_sink {
    struct esp_access *access;
    esp_node_fn *fn;
    void *ctx;
    struct esp_str skip; /* the node with this id is left out; ptr == NULL: none */
    uint64_t count;      /* items that came, left out ones included */
};
enum esp_status esp_node_sink_add(void *sink, const struct esp_item *item);
enum esp_status esp_access_pass(struct esp_access *a, const struct esp_item *item, esp_node_fn *fn,
                                void *ctx);

/* a, b and c one after another, in scratch; ptr == NULL: no memory. */
struct esp_str esp_access_join(struct esp_access *access, struct esp_str a, struct esp_str b,
                               struct esp_str c);

/* --- reads ---------------------------------------------------------------------- */

/* ERR_NOT_FOUND with a sentence. */
enum esp_status esp_access_missing(struct esp_access *a, struct esp_str id);
/* The item of one node; ERR_NOT_FOUND when there is none. */
enum esp_status esp_access_get(struct esp_access *a, struct esp_str id, struct esp_item *out);
/* The operation `node`: a GetItem of the node's own item, told by the layout's view.  An esp_op_fn.
 */
enum esp_status esp_access_node(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx);
/* The items of two nodes in one round trip; `second` empty: only the first is fetched.
 * ERR_NOT_FOUND names the one that is missing. */
enum esp_status esp_access_get_two(struct esp_access *a, struct esp_str first,
                                   struct esp_str second, struct esp_item *first_out,
                                   struct esp_item *second_out);
/* ERR_REFUSED: a root that has children cannot be promoted, they would have no parent. */
enum esp_status esp_access_root_has_children(struct esp_access *a, struct esp_str id);
/* ESP_OK when the node is there, else ERR_NOT_FOUND: a GetItem. */
enum esp_status esp_access_exists(struct esp_access *a, struct esp_str id);
/* Fetch the nodes `ids` in one round trip and pass them on in the order given; missing ones
 * are skipped (check reports them). */
enum esp_status esp_access_get_ordered(struct esp_access *a, const struct esp_str *ids, size_t n,
                                       esp_node_fn *fn, void *ctx);
/* Pass on everything a query finds, or the page's part of it (converters/paging.h).  *count (may
 * be NULL): how many; 0 only when the query finds nothing. */
enum esp_status esp_access_query(struct esp_access *a, const struct esp_query *q,
                                 struct esp_str skip, esp_node_fn *fn, void *ctx, uint64_t *count);
/* Page after page in bounded memory; the items live in `arena` until the function returns,
 * and it may write the items it was given. */
typedef enum esp_status esp_page_fn(void *ctx, struct esp_item *items, size_t n,
                                    struct esp_arena *arena);
enum esp_status esp_access_pages(struct esp_access *a, const struct esp_query *q, esp_page_fn *fn,
                                 void *ctx);

/* --- writes --------------------------------------------------------------------- */

/* Everything an operation writes goes through these, so that a plan can be made of it: n writes,
 * in any order, done when it returns, or recorded as a stage of a->plan.  w[] is scratch. */
enum esp_status esp_access_send(struct esp_access *a, struct esp_write *w, size_t n);
/* The same, all or none; at most 100. */
enum esp_status esp_access_transact(struct esp_access *a, struct esp_write *w, size_t n);
/* What is written follows from this item, which was read (esp_write_plan.basis). */
enum esp_status esp_access_rely(struct esp_access *a, const struct esp_item *item);

/* Writes collected and sent in bunches; what one bunch holds overlaps. */
enum { ESP_WRITES_MAX = 1024 };
struct esp_writes {
    struct esp_access *access;
    struct esp_write *w;
    size_t n, cap;
    struct esp_condition exists, absent; /* on the partition key */
};
/* `expected`: writes that will come, for the size of the first allocation. */
enum esp_status esp_writes_init(struct esp_writes *writes, struct esp_access *a, size_t expected);
/* What `write` points to must live until the next flush. */
enum esp_status esp_writes_add(struct esp_writes *writes, const struct esp_write *write);
enum esp_status esp_writes_flush(struct esp_writes *writes);
/* One conditional write.  A condition that fails becomes `refused` (ERR_EXISTS or
 * ERR_NOT_FOUND) with a sentence about `id`. */
enum esp_status esp_access_write(struct esp_access *a, struct esp_write *write, struct esp_str id,
                                 enum esp_status refused);
/* The same translation for the outcome of other writes. */
enum esp_status esp_access_outcome(struct esp_access *a, enum esp_status status, struct esp_str id,
                                   enum esp_status refused);

/* Put an item whose key must be new: ERR_EXISTS.  The item is checked against DynamoDB's
 * limits and its payload against the layout's attribute names first. */
enum esp_status esp_access_insert(struct esp_access *a, const struct esp_item *item,
                                  struct esp_str id);
/* The same checks alone. */
enum esp_status esp_access_check_insert(struct esp_access *a, const struct esp_item *item);
/* The changes an update's arguments ask for.  ERR_USAGE: nothing to change, an attribute that
 * is the layout's own, or one that is both set and removed. */
enum esp_status esp_access_changes(struct esp_access *a, const struct esp_args *args,
                                   struct esp_change **changes, size_t *count);
/* The update of a layout that keeps one item a node. */
enum esp_status esp_access_update(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx);
/* Delete all a query finds but the node itself, page by page, then the node, if it is there (else
 * ERR_NOT_FOUND); so a remove that was torn can be repeated.  `q` NULL: no descendants. */
enum esp_status esp_access_delete(struct esp_access *a, const struct esp_query *q,
                                  struct esp_str id, const struct esp_item *old);

/* A change that sets a structural attribute, and one that removes it. */
static inline struct esp_change esp_set(const struct esp_schema *schema, int attr,
                                        struct esp_value value) {
    return (struct esp_change){ESP_CHANGE_SET, schema->attr[attr].name, value};
}
static inline struct esp_change esp_unset(const struct esp_schema *schema, int attr) {
    return (struct esp_change){.kind = ESP_CHANGE_REMOVE, .name = schema->attr[attr].name};
}

#endif
