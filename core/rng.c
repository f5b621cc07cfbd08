#include "core/rng.h"

#include <math.h>

/* xoshiro256** by Blackman and Vigna, seeded by splitmix64 as its authors advise. */
static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void esp_rng_init(struct esp_rng *rng, uint64_t seed, uint64_t stream) {
    uint64_t state = seed ^ (stream * 0xD1342543DE82EF95u);
    for (int i = 0; i < 4; i++) {
        rng->state[i] = splitmix64(&state);
    }
}

static uint64_t rotate(uint64_t x, int bits) {
    return (x << bits) | (x >> (64 - bits));
}

uint64_t esp_rng_u64(struct esp_rng *rng) {
    uint64_t *s = rng->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* Lemire's method: a multiplication, and a division only when the result could be biased. */
uint64_t esp_rng_below(struct esp_rng *rng, uint64_t bound) {
    unsigned __int128 m = (unsigned __int128)esp_rng_u64(rng) * bound;
    if ((uint64_t)m < bound) {
        uint64_t threshold = -bound % bound;
        while ((uint64_t)m < threshold) {
            m = (unsigned __int128)esp_rng_u64(rng) * bound;
        }
    }
    return (uint64_t)(m >> 64);
}

double esp_rng_unit(struct esp_rng *rng) {
    return (double)(esp_rng_u64(rng) >> 11) * 0x1.0p-53;
}

double esp_rng_normal(struct esp_rng *rng) {
    double u = 1.0 - esp_rng_unit(rng), v = esp_rng_unit(rng); /* u in (0, 1] */
    return sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v);
}

void esp_rng_shuffle_u32(struct esp_rng *rng, uint32_t *values, size_t count) {
    for (size_t i = count; i > 1; i--) {
        size_t k = (size_t)esp_rng_below(rng, i);
        uint32_t swap = values[i - 1];
        values[i - 1] = values[k];
        values[k] = swap;
    }
}
