#ifndef ESP_BENCH_HISTOGRAM_H
#define ESP_BENCH_HISTOGRAM_H
/*
 * Latency histogram, log-linear: any value up to 2^42 ns (73 min) is recorded within
 * 1/128 (0.8 %) of itself; larger ones saturate.  Single writer; merge after join.
 */
#include "core/mem.h"

struct esp_histogram;
enum esp_status esp_histogram_new(const struct esp_alloc *alloc,
                                  struct esp_histogram **out) ESP_MUST_CHECK;
void esp_histogram_free(struct esp_histogram *h); /* NULL is fine */
void esp_histogram_record(struct esp_histogram *h, uint64_t value_ns);
void esp_histogram_merge(struct esp_histogram *into, const struct esp_histogram *from);
uint64_t esp_histogram_count(const struct esp_histogram *h);
uint64_t esp_histogram_max_ns(const struct esp_histogram *h); /* exact; 0 when empty */
double esp_histogram_mean_ns(const struct esp_histogram *h);  /* exact */
/* q in [0, 1]; upper edge of the bucket, so a percentile is never understated. */
uint64_t esp_histogram_quantile_ns(const struct esp_histogram *h, double q);
#endif
