#ifndef ESP_BENCH_PLAN_H
#define ESP_BENCH_PLAN_H
/*
 * Capacity planning: arithmetic over a comparison, a workload and prices.  Pure; no I/O.
 *
 * What is assumed, and stated in every report: the rate is even over the month; operations
 * hit nodes uniformly, as the sample did; writes fall on partition keys in proportion to the
 * write units of the load, reads in proportion to the bytes stored under them.
 */
#include "bench/compare.h"
#include "bench/workload.h"

struct esp_plan_options {
    double headroom_percent; /* provisioned capacity above the mean */
    bool free_tier;          /* take the free storage off */
};

/* One table or index at the workload's rate. */
struct esp_plan_part {
    double read_units_second, write_units_second; /* mean */
    double read_provisioned, write_provisioned;   /* whole units, at least 1 */
    double hot_read_share, hot_write_share;       /* of the part's units, hottest partition key */
    double hot_read_second, hot_write_second;     /* units a second on that key */
    double load_seconds_hot;                      /* the load's units on it at 1000 a second */
};

struct esp_plan_layout {
    const struct esp_layout_result *measured;
    struct esp_plan_part part[1 + ESP_INDEX_MAX]; /* the table, then the indexes in order */
    size_t part_count;
    double read_units_month, write_units_month;
    double usd_on_demand, usd_provisioned; /* a month, requests only */
    double storage_gb, usd_storage;        /* a month */
    double load_write_units, usd_load_batch;
    double load_seconds_new; /* new on-demand table: 4,000 units a second, and the hottest key */
    double import_gb, usd_load_import;
    bool too_hot; /* a partition key is asked for more than DynamoDB gives one */
};

struct esp_plan_result {
    const struct esp_comparison *comparison; /* borrowed */
    struct esp_workload workload;
    struct esp_plan_options options;
    struct esp_plan_layout *layout; /* comparison->options.layout_count */
};

/* Every operation of the workload must have been measured: ERR_USAGE names the one that was
 * not.  esp_plan_fini also after a failure. */
enum esp_status esp_plan_make(const struct esp_comparison *comparison,
                              const struct esp_workload *workload,
                              const struct esp_plan_options *options, const struct esp_alloc *alloc,
                              struct esp_plan_result *out, struct esp_error *err) ESP_MUST_CHECK;
void esp_plan_fini(struct esp_plan_result *plan, const struct esp_alloc *alloc);

#endif
