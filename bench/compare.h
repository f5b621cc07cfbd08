#ifndef ESP_BENCH_COMPARE_H
#define ESP_BENCH_COMPARE_H
/*
 * Compare: load each layout, run each operation on a seeded sample of nodes, keep counts,
 * units and latencies.  Writes are undone after each sample (stores/undo.h), so that every
 * sample starts from the same table.  Never prints; see bench/report.h.
 */
#include "bench/histogram.h"
#include "bench/prices.h"
#include "loader/loader.h"

enum esp_addressing { ESP_ADDRESS_ID, ESP_ADDRESS_KEY }; /* resolve the id / client knows the key */

struct esp_compare_options {
    const struct esp_layout *layouts; /* array */
    size_t layout_count;
    bool op[ESP_OP_COUNT_ALL]; /* which operations */
    uint32_t sample;           /* nodes an operation; 0 = 200 */
    uint64_t seed;
    enum esp_addressing addressing;
    bool consistent;
    uint32_t workers;         /* of the load */
    double round_trip_ms;     /* for the modelled latency; 0 = 1 ms... stated in the report */
    const char *table_prefix; /* tables are PREFIX-LAYOUT; NULL = "espalier-compare" */
    bool keep_tables;
};

/* Mean, median, 99th percentile and maximum of one figure over the samples. */
struct esp_figure {
    double mean, p50, p90, p99, max;
};

struct esp_op_result {
    enum esp_op op;
    enum esp_plan plan;
    uint32_t samples;
    struct esp_figure read_units, write_units, read_units_billed, write_units_billed;
    struct esp_figure requests, round_trips, items_read, items_returned, items_written;
    struct esp_figure latency_us, modelled_us;
    struct esp_units read_mean, write_mean; /* by table and index */
    double usd_per_million;
    bool billed;
};

struct esp_layout_result {
    const struct esp_layout *layout;
    struct esp_load_result load;
    uint64_t item_bytes, index_bytes, storage_bytes; /* storage: + 100 an item and entry */
    double load_usd;
    struct esp_op_result op[ESP_OP_COUNT_ALL]; /* samples == 0: not run */
    /* The hottest partition keys while loading, of the table and of each index. */
    struct esp_hot_key {
        char key[64];
        double units; /* write units that fall on it */
        uint64_t items;
    } hot[1 + ESP_INDEX_MAX];
};

struct esp_comparison {
    const struct esp_compare_options *options;
    struct esp_prices prices;
    char store_name[32];
    bool remote, bills;
    char source_name[256];
    uint64_t nodes, roots, depth_max, payload_bytes;
    uint64_t started_wall_ns, elapsed_ns;
    struct esp_layout_result *layout; /* options->layout_count */
};

/* `out` is owned by the caller: esp_comparison_fini, also after a failure. */
enum esp_status esp_compare_run(const struct esp_forest *forest, struct esp_store *store,
                                const struct esp_compare_options *options,
                                const struct esp_prices *prices, const volatile int *stop,
                                void (*progress)(void *ctx, const char *layout, const char *what),
                                void *progress_ctx, struct esp_comparison *out,
                                struct esp_error *err) ESP_MUST_CHECK;
void esp_comparison_fini(struct esp_comparison *comparison, const struct esp_alloc *alloc);

#endif
