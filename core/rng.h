#ifndef ESP_CORE_RNG_H
#define ESP_CORE_RNG_H
/*
 * Seeded random numbers: one stream per consumer, so that adding a consumer
 * does not shift the others.  Same seed and stream, same numbers, everywhere.
 * Not thread-safe; one per thread.
 */
#include <stddef.h>
#include <stdint.h>

struct esp_rng {
    uint64_t state[4];
};
void esp_rng_init(struct esp_rng *rng, uint64_t seed, uint64_t stream);
uint64_t esp_rng_u64(struct esp_rng *rng);
/* Uniform in [0, bound), without bias; bound >= 1. */
uint64_t esp_rng_below(struct esp_rng *rng, uint64_t bound);
double esp_rng_unit(struct esp_rng *rng);   /* uniform in [0, 1) */
double esp_rng_normal(struct esp_rng *rng); /* mean 0, deviation 1 */
void esp_rng_shuffle_u32(struct esp_rng *rng, uint32_t *values, size_t count);

#endif
