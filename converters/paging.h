#ifndef ESP_CONVERTERS_PAGING_H
#define ESP_CONVERTERS_PAGING_H
/*
 * Reads in pages: with esp_access.paging set, a read passes on at most `limit` nodes and says
 * where the next page begins.  All pages together are the whole answer, each node once.
 *
 * An answer is a row of parts: those that a query finds, and loose nodes that come between them
 * in any other way.  A query is begun behind the last item of the page before and ends with the
 * page: what other pages have is neither read nor paid for.  Loose nodes are all read each time,
 * in the order of their ids (ancestors: root first), so that nodes inserted or removed meanwhile
 * make no other one be missed or come twice.
 */
#include "converters/layout.h"

struct esp_page_run;
struct esp_paging {
    uint64_t limit;       /* nodes on the page at most; 1 or more */
    struct esp_str start; /* `next` of the page before; len 0: the first page */
    struct esp_str next;  /* out: text of letters, digits, '-' and '_' in the scratch arena; len 0:
                             this page was the last.  The last one may be empty */
    struct esp_page_run *run; /* NULL, but while an operation runs */
};

/* What esp_operate does with a read when a->paging is set: `plan` is asked for one page.
 * ERR_USAGE: no limit, or a start that is damaged or is another query's.  ERR_REFUSED: what the
 * start says is no longer part of the answer. */
enum esp_status esp_paging_operate(struct esp_access *a, enum esp_op op, esp_op_fn *plan,
                                   const struct esp_args *args, esp_node_fn *fn, void *ctx);

/* esp_session_query for plans: items go to add(sink), which passes one node or none of each on to
 * fn(ctx).  When those are what the plan was given, only the page's part is read.  *earlier (may
 * be NULL): pages before this one had some of what the query finds, or all. */
enum esp_status esp_paging_query(struct esp_access *a, const struct esp_query *q, esp_item_fn *add,
                                 void *sink, esp_node_fn *fn, void *ctx, bool *earlier);

/* The same for a query that finds keys of nodes: add(sink) keeps the key of one node or none of
 * each item and counts it in *kept; then pass(sink) reads the nodes of those keys and passes them
 * on to fn(ctx).  So only the page's nodes are read. */
struct esp_page_keys {
    esp_item_fn *add;
    enum esp_status (*pass)(void *sink, esp_node_fn *fn, void *ctx);
    void *sink;
    const uint32_t *kept;
};
enum esp_status esp_paging_query_keys(struct esp_access *a, const struct esp_query *q,
                                      const struct esp_page_keys *keys, esp_node_fn *fn, void *ctx,
                                      bool *earlier);

#endif
