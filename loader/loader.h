#ifndef ESP_LOADER_LOADER_H
#define ESP_LOADER_LOADER_H
/*
 * Loader: forest -> layout -> store, in parallel.  Workers share the forest, the layout,
 * the table (all immutable or thread-safe) and one atomic task counter, and own everything
 * else; counts are merged after join.
 */
#include "converters/layout.h"

struct esp_load_options {
    uint32_t workers;        /* threads, one session each; 0 = one a core */
    uint32_t nodes_per_task; /* nodes converted between two looks at the counter; 0 = 4096 */
    bool dry_run;            /* convert and meter; write nothing */
    bool verify;             /* count the table at the end (a scan, not metered): for a load
                                into an empty table; a difference is ERR_INTERNAL */
    /* Receives every refused item with its reason, from any worker, one at a time. */
    void (*on_refused)(void *ctx, const struct esp_item *item, const struct esp_error *why);
    void *on_refused_ctx;
};

/* A consistent enough snapshot; counts never go down. */
struct esp_load_progress {
    uint64_t nodes_total, nodes_done;
    /* made and handed to the store; written or refused.  An embedded store writes all of a
     * load at its end, in the order of keys. */
    uint64_t items_total, items_made, items_done;
    uint64_t elapsed_ns;
    struct esp_usage usage;
};
/* Called from the thread that called esp_load_run, about 5 times a second. */
typedef void esp_progress_fn(void *ctx, const struct esp_load_progress *progress);

/* items_planned == items_written + items_refused + items_left, always. */
struct esp_load_result {
    uint64_t items_planned, items_written;
    uint64_t items_refused; /* the store said no: too big, bad key ... */
    uint64_t items_left;    /* not tried, or undone when the run stopped */
    uint64_t elapsed_ns;
    struct esp_usage usage;
    int verified;           /* 1 yes, 0 no (counts differ), -1 not checked */
    uint64_t items_counted; /* when verified >= 0 */
};

/* Returns ESP_OK only if every planned item is in the store (a dry run leaves them all and
 * returns ESP_OK).  ERR_REFUSED: every item was tried, some were refused.  ERR_CANCELLED after
 * `stop`.  *result is filled on failure too.  `stop` (may be NULL) is polled; set it from a signal
 * handler. */
enum esp_status esp_load_run(const struct esp_forest *forest, const struct esp_layout *layout,
                             struct esp_table *table, const struct esp_load_options *options,
                             const volatile int *stop, esp_progress_fn *progress,
                             void *progress_ctx, struct esp_load_result *result,
                             struct esp_error *err) ESP_MUST_CHECK;

/* What the load would cost, without a store: items, bytes and write units of the whole
 * conversion into a fresh table. */
enum esp_status esp_load_quote(const struct esp_forest *forest, const struct esp_layout *layout,
                               uint32_t workers, const struct esp_alloc *alloc,
                               struct esp_usage *usage, struct esp_error *err) ESP_MUST_CHECK;

/* The table a layout needs: made when missing, checked when there.  if_exists: fail, append,
 * replace. */
enum esp_if_exists { ESP_IF_EXISTS_FAIL, ESP_IF_EXISTS_APPEND, ESP_IF_EXISTS_REPLACE };
enum esp_status esp_table_prepare(struct esp_store *store, const char *name,
                                  const struct esp_schema *schema, enum esp_if_exists if_exists,
                                  const struct esp_table_options *options,
                                  struct esp_error *err) ESP_MUST_CHECK;

#endif
