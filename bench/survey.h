#ifndef ESP_BENCH_SURVEY_H
#define ESP_BENCH_SURVEY_H
/*
 * What a layout makes of a forest, by one pass over its items and without a store: bytes,
 * write units, the JSON that ImportTable would be billed for, and for the table and each
 * index the partition key that gets most write units: DynamoDB serves one partition key
 * with at most ESP_PARTITION_WRITE_MAX write and ESP_PARTITION_READ_MAX read units a second
 * (shared facts sheet 5.2).
 */
#include "converters/layout.h"

enum { ESP_PARTITION_WRITE_MAX = 1000, ESP_PARTITION_READ_MAX = 3000 };
/* Storage is billed with 100 bytes more for each item and each index entry. */
enum { ESP_STORAGE_OVERHEAD_BYTES = 100 };
/* Up to this many different partition keys are counted exactly; above it the figures are
 * upper bounds: too high by at most hot.units_over units (frequent items by Misra and Gries). */
enum { ESP_SURVEY_KEYS_MAX = 1 << 20 };

struct esp_hot_key {
    char key[64]; /* printable; cut when longer, with "..." */
    double units; /* write units of the load that fall on it */
    double units_over;
    uint64_t items, bytes; /* stored under it */
};

/* The table, or one index of it. */
struct esp_survey_part {
    uint64_t entries, bytes;
    double write_units; /* of the load into an empty table */
    struct esp_hot_key hot;
};

struct esp_survey {
    struct esp_survey_part part[1 + ESP_INDEX_MAX]; /* the table, then the indexes in order */
    uint64_t json_bytes; /* DynamoDB JSON lines {"Item":{...}}, as ImportTable reads them */
};

/* `keys_max` 0 means ESP_SURVEY_KEYS_MAX; tests pass less.  `stop` may be NULL. */
enum esp_status esp_survey_run(const struct esp_forest *forest, const struct esp_layout *layout,
                               uint32_t keys_max, const struct esp_alloc *alloc,
                               const volatile int *stop, struct esp_survey *out,
                               struct esp_error *err) ESP_MUST_CHECK;

/* Bytes that storage is billed for: all parts, with the overhead. */
uint64_t esp_survey_storage_bytes(const struct esp_survey *survey);

#endif
