#ifndef ESP_LOADER_VERIFY_H
#define ESP_LOADER_VERIFY_H
/*
 * What a table holds, by a parallel scan: how many items, and whether they are exactly those
 * that a forest becomes.
 */
#include "converters/layout.h"

/* Not metered: the sessions' usage is dropped.  `stop` may be NULL. */
enum esp_status esp_table_count(struct esp_table *table, uint32_t workers, const volatile int *stop,
                                uint64_t *items, struct esp_error *err) ESP_MUST_CHECK;

enum esp_difference_kind {
    ESP_DIFFERENCE_MISSING,   /* the source makes it, the table has it not */
    ESP_DIFFERENCE_DIFFERENT, /* both have the key, with other attributes */
    ESP_DIFFERENCE_EXTRA,     /* the table has it, the source does not make it */
    ESP_DIFFERENCE_KINDS
};

/* One item; borrowed during the call. */
struct esp_difference {
    enum esp_difference_kind kind;
    struct esp_str key;        /* its primary key as DynamoDB JSON, with braces */
    struct esp_str id;         /* of its node; empty when the item does not say */
    struct esp_str attributes; /* different: names with other values, ", " between */
};
typedef enum esp_status esp_difference_fn(void *ctx, const struct esp_difference *difference);

struct esp_verify_options {
    uint32_t workers; /* threads, one session each; 0 = one a core */
    uint32_t named;   /* differences of each kind that are passed on, at most 100 */
    /* For the map of expected items, about 22 bytes each; NULL: the store's. */
    const struct esp_alloc *memory;
    const volatile int *stop; /* may be NULL */
};

/* Digests are sums of esp_item_digest: the order of items does not matter. */
struct esp_verify_result {
    uint64_t source_items, source_digest;
    uint64_t table_items, table_digest; /* reserved items left out */
    uint64_t count[ESP_DIFFERENCE_KINDS];
    struct esp_usage usage; /* of the scan, and of reading what differs again */
};
static inline bool esp_verify_equal(const struct esp_verify_result *r) {
    return r->count[ESP_DIFFERENCE_MISSING] + r->count[ESP_DIFFERENCE_DIFFERENT] +
               r->count[ESP_DIFFERENCE_EXTRA] ==
           0;
}

/* Scan the table, consistently, and compare.  `fn` gets the first differences: missing and
 * different ones in tree order, then extra ones by key.  ESP_OK also when there are some. */
enum esp_status esp_table_verify(const struct esp_forest *forest, const struct esp_layout *layout,
                                 struct esp_table *table, const struct esp_verify_options *options,
                                 esp_difference_fn *fn, void *ctx, struct esp_verify_result *result,
                                 struct esp_error *err) ESP_MUST_CHECK;

#endif
