#include "bench/figure.h"

#include <stdlib.h>

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Per mille, not a fraction: 0.99 * 100 is not 99 in binary. */
static double at_rank(const double *sorted, uint32_t count, uint32_t per_mille) {
    uint64_t rank = ((uint64_t)count * per_mille + 999) / 1000;
    return sorted[rank ? rank - 1 : 0];
}

struct esp_figure esp_figure_of(double *values, uint32_t count) {
    struct esp_figure figure = {0};
    if (count == 0) {
        return figure;
    }
    qsort(values, count, sizeof *values, compare_doubles);
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
    }
    figure.mean = sum / count;
    figure.p50 = at_rank(values, count, 500);
    figure.p90 = at_rank(values, count, 900);
    figure.p99 = at_rank(values, count, 990);
    figure.max = values[count - 1];
    return figure;
}
