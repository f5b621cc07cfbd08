#include "cli/shape.h"

#include "core/rng.h"

#include <math.h>

/* Streams of random numbers, one for each use. */
enum { STREAM_INNER = 1, STREAM_WEIGHTS, STREAM_ATTACH };

/* --- measured profiles ------------------------------------------------------------------- */

/* Nodes of each level: one at least, the rest by the shares, exactly `count` together.  A small
 * tree has only the first levels.  Returns their number. */
static size_t level_counts(const struct esp_profile *p, uint32_t count,
                           uint32_t out[ESP_PROFILE_LEVELS_MAX]) {
    size_t levels = p->levels < count ? p->levels : count;
    double total = 0, sum = 0;
    uint32_t given = 0, rest = count - (uint32_t)levels;
    for (size_t d = 0; d < levels; d++) {
        total += p->share[d];
    }
    for (size_t d = 0; d < levels; d++) { /* differences of rounded sums: no rest is left over */
        sum += p->share[d];
        double until = total > 0 ? floor((double)rest * (sum / total) + 0.5) : 0;
        uint32_t end = d + 1 == levels || until > rest ? rest : (uint32_t)until;
        out[d] = 1 + end - given;
        given = end;
    }
    return levels;
}

static double draw_weight(const struct esp_profile *p, struct esp_rng *rng) {
    if (p->weights == ESP_WEIGHTS_PARETO) {
        return pow(1 - esp_rng_unit(rng), -1 / p->spread);
    }
    return exp(p->spread * esp_rng_normal(rng));
}

/* Give each node of the next level a parent on this one: `first` and `count` are this level's
 * nodes, the next level follows.  Weights are drawn twice from the same state, so that no list
 * of them is needed. */
static void connect_level(const struct esp_profile *p, size_t depth, uint32_t first, uint32_t count,
                          uint32_t children, struct esp_rng *inner, struct esp_rng *weights,
                          uint32_t *parent) {
    uint32_t parents = (uint32_t)(p->inner[depth] * count + 0.5);
    parents = parents > children ? children : parents;
    parents = parents > count ? count : parents;
    parents = parents ? parents : 1;
    struct esp_rng again = *weights;
    double total = 0, sum = 0;
    for (uint32_t k = 0; k < parents; k++) {
        total += draw_weight(p, weights);
    }
    uint32_t child = first + count, extra = children - parents, given = 0, wanted = parents;
    for (uint32_t i = 0; i < count && wanted > 0; i++) {
        if (esp_rng_below(inner, count - i) >= wanted) {
            continue;
        }
        wanted--;
        sum += draw_weight(p, &again);
        double until = floor((double)extra * (sum / total) + 0.5);
        uint32_t end = wanted == 0 || until > extra ? extra : (uint32_t)until;
        for (uint32_t n = 1 + end - given; n > 0; n--) {
            parent[child++] = first + i;
        }
        given = end;
    }
}

static void make_levels(const struct esp_profile *p, struct esp_shape *shape, uint64_t seed) {
    uint32_t level[ESP_PROFILE_LEVELS_MAX] = {0}, first = 0;
    size_t levels = level_counts(p, shape->count, level);
    struct esp_rng inner, weights;
    esp_rng_init(&inner, seed, STREAM_INNER);
    esp_rng_init(&weights, seed, STREAM_WEIGHTS);
    for (uint32_t i = 0; i < level[0]; i++) {
        shape->parent[i] = ESP_SHAPE_ROOT;
    }
    for (size_t d = 0; d + 1 < levels; d++) {
        connect_level(p, d, first, level[d], level[d + 1], &inner, &weights, shape->parent);
        first += level[d];
    }
}

/* --- discussions --------------------------------------------------------------------------- */

/* A comment answers the newest one, the first one, or an earlier one in proportion to its
 * replies + 1: a random comment, or the parent of a random one. */
static uint32_t answered(uint32_t first, uint32_t next, const uint32_t *parent,
                         struct esp_rng *rng) {
    const double newest = 0.35, root = 0.35;
    double kind = esp_rng_unit(rng);
    if (kind < newest) {
        return next - 1;
    }
    if (kind < newest + root) {
        return first;
    }
    uint32_t n = next - first;
    uint64_t pick = esp_rng_below(rng, 2 * (uint64_t)n - 1);
    return pick < n ? first + (uint32_t)pick : parent[first + (uint32_t)(pick - n) + 1];
}

static void make_threads(struct esp_shape *shape, uint64_t seed) {
    enum { THREAD_NODES_MEAN = 20 };
    struct esp_rng sizes, attach;
    esp_rng_init(&sizes, seed, STREAM_WEIGHTS);
    esp_rng_init(&attach, seed, STREAM_ATTACH);
    for (uint32_t i = 0, first = 0, end = 0; i < shape->count; i++) {
        if (i == end) { /* sizes are exponential: most threads are short */
            double size = -log(1 - esp_rng_unit(&sizes)) * THREAD_NODES_MEAN;
            first = i;
            end = shape->count - i > size + 1 ? i + 1 + (uint32_t)size : shape->count;
            shape->parent[i] = ESP_SHAPE_ROOT;
        } else {
            shape->parent[i] = answered(first, i, shape->parent, &attach);
        }
    }
}

/* --- degenerate ones ------------------------------------------------------------------------- */

static uint32_t plain_parent(const struct esp_profile *p, uint32_t i, uint32_t count,
                             struct esp_rng *rng) {
    uint32_t roots = count / 10 ? count / 10 : 1;
    switch (p->kind) {
    case ESP_PROFILE_FOREST:
        return i < roots ? ESP_SHAPE_ROOT : i % roots;
    case ESP_PROFILE_STAR:
        return i ? 0 : ESP_SHAPE_ROOT;
    case ESP_PROFILE_KARY:
        return i ? (i - 1) / p->arity : ESP_SHAPE_ROOT;
    case ESP_PROFILE_RANDOM:
        return i ? (uint32_t)esp_rng_below(rng, i) : ESP_SHAPE_ROOT;
    case ESP_PROFILE_COMB: /* even: the path, odd: the leaf at the node before */
        return i % 2 ? i - 1 : (i ? i - 2 : ESP_SHAPE_ROOT);
    default:
        return i ? i - 1 : ESP_SHAPE_ROOT; /* a chain */
    }
}

enum esp_status esp_shape_make(const struct esp_profile *profile, uint32_t count, uint64_t seed,
                               const struct esp_alloc *alloc, struct esp_shape *out,
                               struct esp_error *err) {
    out->count = count;
    out->parent = esp_big_alloc(alloc, (size_t)count * sizeof *out->parent);
    if (!out->parent) {
        return esp_fail_nomem(err);
    }
    if (profile->kind == ESP_PROFILE_LEVELS) {
        make_levels(profile, out, seed);
    } else if (profile->kind == ESP_PROFILE_THREADS) {
        make_threads(out, seed);
    } else {
        struct esp_rng rng;
        esp_rng_init(&rng, seed, STREAM_ATTACH);
        for (uint32_t i = 0; i < count; i++) {
            out->parent[i] = plain_parent(profile, i, count, &rng);
        }
    }
    return ESP_OK;
}

void esp_shape_fini(struct esp_shape *shape, const struct esp_alloc *alloc) {
    if (shape->parent) {
        esp_big_free(alloc, shape->parent, (size_t)shape->count * sizeof *shape->parent);
    }
}
