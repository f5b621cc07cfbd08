#ifndef ESP_CLI_MEASURE_H
#define ESP_CLI_MEASURE_H
/* What `compare` and `plan` take and do alike: measuring layouts, and writing reports. */
#include "bench/report.h"
#include "cli/shared.h"

/* A command's own options struct has this as its first member. */
struct esp_measure_options {
    struct esp_cli_options common; /* first: the shared tables point into it */
    const char *layouts, *store, *table_prefix, *prices, *report;
    uint64_t sample, seed, workers;
    double round_trip_ms;
    int addressing; /* enum esp_addressing */
    bool keep_tables, no_report;
};
extern const struct esp_option esp_measure_option_table[];

/* Everything a measurement borrows from; lives as long as its result. */
struct esp_measurement {
    struct esp_forest *forest;
    struct esp_store *store;
    struct esp_layout *layouts;
    struct esp_prices prices;
    const struct esp_reporter *reporter; /* of --report; NULL: none given */
    struct esp_buf source_name, command;
    struct esp_compare_options options;
    struct esp_comparison comparison;
    bool compared;
};

/* Check options, read the sources, measure the operations marked in `op`.
 * esp_measure_close also after a failure. */
enum esp_status esp_measure_run(struct esp_cli *cli, const struct esp_measure_options *options,
                                const bool op[ESP_OP_COUNT_ALL], char **operands, size_t count,
                                struct esp_measurement *out) ESP_MUST_CHECK;
void esp_measure_close(struct esp_cli *cli, struct esp_measurement *m);

/* Print the result (exactly one of the two is given) as a table, or JSON with --json, and write
 * the report files: that of --report, else BASE.md and BASE.json unless --no-report or --json. */
enum esp_status esp_measure_report(struct esp_cli *cli, const struct esp_measure_options *options,
                                   const struct esp_measurement *m,
                                   const struct esp_comparison *comparison,
                                   const struct esp_plan_result *plan,
                                   const char *base) ESP_MUST_CHECK;

/* The operations of a comma-separated list; NULL: all.  ERR_USAGE proposes the nearest. */
enum esp_status esp_measure_operations(struct esp_cli *cli, const char *list,
                                       bool op[ESP_OP_COUNT_ALL]) ESP_MUST_CHECK;

#endif
