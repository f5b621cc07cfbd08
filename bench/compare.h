#ifndef ESP_BENCH_COMPARE_H
#define ESP_BENCH_COMPARE_H
/*
 * Compare: load each layout, run each operation on a seeded sample of nodes, keep counts,
 * units and latencies.  Writes are undone after each sample (stores/undo.h), so that every
 * sample starts from the same table.  Never prints; see bench/report.h.
 */
#include "bench/figure.h"
#include "bench/prices.h"
#include "bench/survey.h"
#include "loader/loader.h"

enum esp_addressing { ESP_ADDRESS_ID, ESP_ADDRESS_KEY }; /* resolve the id / client knows the key */

/* All borrowed, also by the result, for its life. */
struct esp_compare_options {
    const struct esp_layout *layouts; /* array */
    size_t layout_count;
    bool op[ESP_OP_COUNT_ALL]; /* which operations */
    uint32_t sample;           /* nodes an operation; 0 = 200 */
    uint64_t seed;
    enum esp_addressing addressing;
    bool consistent;
    uint32_t workers;         /* of the load */
    double round_trip_ms;     /* for the modelled latency; 0 = 1 ms; stated in the report */
    const char *table_prefix; /* tables are PREFIX-LAYOUT; NULL = "espalier-compare" */
    bool keep_tables;
    const char *source_name; /* for the report: file names, "-" */
    const char *command;     /* for the report: how to repeat it; NULL: not stated */
};

struct esp_op_result {
    enum esp_plan plan;
    uint32_t samples; /* 0: not run */
    struct esp_figure read_units, write_units, read_units_billed, write_units_billed;
    struct esp_figure requests, round_trips, items_read, items_returned, items_written;
    struct esp_figure latency_us, modelled_us;
    struct esp_units read_mean, write_mean; /* by table and index */
    double usd_per_million;                 /* a million such operations, on demand */
    bool read_estimated, write_estimated;   /* see esp_usage */
};

struct esp_layout_result {
    const struct esp_layout *layout;
    struct esp_load_result load;
    struct esp_survey survey;
    uint64_t item_bytes, index_bytes, storage_bytes; /* storage: + 100 an item and entry */
    double load_usd, import_usd, storage_usd_month;
    struct esp_op_result op[ESP_OP_COUNT_ALL];
};

struct esp_comparison {
    struct esp_compare_options options; /* defaults filled in */
    struct esp_prices prices;
    char store_name[32];
    bool remote, billed; /* billed: the store reports consumed capacity */
    uint64_t nodes, roots, depth_max, payload_bytes;
    uint64_t started_wall_ns, elapsed_ns;
    struct esp_layout_result *layout; /* options.layout_count */
};

typedef void esp_compare_progress_fn(void *ctx, const char *layout, const char *what);

/* `out` is owned by the caller: esp_comparison_fini, also after a failure.  A table that
 * exists already is never touched: ERR_EXISTS.  Tables made are dropped again, also after a
 * failure, unless keep_tables.  A store that discards what it gets is refused
 * (ERR_UNSUPPORTED).  `stop` and `progress` may be NULL. */
enum esp_status esp_compare_run(const struct esp_forest *forest, struct esp_store *store,
                                const struct esp_compare_options *options,
                                const struct esp_prices *prices, const volatile int *stop,
                                esp_compare_progress_fn *progress, void *progress_ctx,
                                struct esp_comparison *out, struct esp_error *err) ESP_MUST_CHECK;
void esp_comparison_fini(struct esp_comparison *comparison, const struct esp_alloc *alloc);

#endif
