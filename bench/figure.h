#ifndef ESP_BENCH_FIGURE_H
#define ESP_BENCH_FIGURE_H
/* What is kept of one figure over the samples of an operation: exact, from the sorted samples. */
#include <stdint.h>

/* Percentiles by nearest rank: the smallest sample that at least that share of them does not
 * exceed.  A 99th percentile of fewer samples than ESP_FIGURE_P99_SAMPLES_MIN is the maximum
 * by another name; reports leave it out. */
struct esp_figure {
    double mean, p50, p90, p99, max;
};
enum { ESP_FIGURE_P99_SAMPLES_MIN = 100 };

/* Sorts `values` (count of them); all zero when count is 0. */
struct esp_figure esp_figure_of(double *values, uint32_t count);

#endif
