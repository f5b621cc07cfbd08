#include "bench/sample.h"

/* A forest where so many draws in a row fail has hardly a legal case. */
enum { DRAW_TRIES_MAX = 1000 };

/* All operations on one node share this stream, so that they get the same nodes; the
 * streams of the others are their numbers. */
static const uint64_t node_stream = 1000;

static esp_node any_node(struct esp_rng *rng, const struct esp_forest *f) {
    return (esp_node)esp_rng_below(rng, f->count);
}

/* False when v is among the sorted picks already. */
static bool insert_sorted(struct esp_pick *picks, uint32_t count, esp_node v) {
    uint32_t lo = 0, hi = count;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (picks[middle].at < v) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    if (lo < count && picks[lo].at == v) {
        return false;
    }
    memmove(picks + lo + 1, picks + lo, (count - lo) * sizeof *picks);
    picks[lo] = (struct esp_pick){.at = v, .to = ESP_NODE_NONE};
    return true;
}

/* Different nodes, uniformly (Floyd's algorithm), in random order: a cut of the samples
 * is then a fair sample too. */
static uint32_t draw_nodes(const struct esp_forest *f, uint32_t sample, uint64_t seed,
                           struct esp_pick *picks) {
    struct esp_rng rng;
    esp_rng_init(&rng, seed, node_stream);
    uint32_t count = sample < f->count ? sample : f->count;
    for (uint32_t i = 0; i < count; i++) {
        esp_node last = f->count - count + i;
        if (!insert_sorted(picks, i, (esp_node)esp_rng_below(&rng, (uint64_t)last + 1))) {
            (void)insert_sorted(picks, i, last);
        }
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = (uint32_t)esp_rng_below(&rng, i);
        struct esp_pick swapped = picks[i - 1];
        picks[i - 1] = picks[j];
        picks[j] = swapped;
    }
    return count;
}

static esp_node random_ancestor(struct esp_rng *rng, const struct esp_forest *f, esp_node v) {
    if (f->depth[v] == 0) {
        return any_node(rng, f);
    }
    uint64_t steps = 1 + esp_rng_below(rng, f->depth[v]);
    for (; steps > 0; steps--) {
        v = f->parent[v];
    }
    return v;
}

static uint32_t tree_depth(const struct esp_forest *f, esp_node root) {
    uint32_t depth = 0;
    for (esp_node v = root; v < root + f->size[root]; v++) {
        depth = f->depth[v] > depth ? f->depth[v] : depth;
    }
    return depth;
}

static void pick_levels(struct esp_rng *rng, const struct esp_forest *f, struct esp_pick *picks,
                        uint32_t count) {
    esp_node known_root = ESP_NODE_NONE; /* walking a big tree once is enough */
    uint32_t depth = 0;
    for (uint32_t i = 0; i < count; i++) {
        picks[i].at = esp_forest_root(f, picks[i].at);
        if (picks[i].at != known_root) {
            known_root = picks[i].at;
            depth = tree_depth(f, known_root);
        }
        picks[i].lo = (uint32_t)esp_rng_below(rng, (uint64_t)depth + 1);
    }
}

static uint32_t draw_moves(struct esp_rng *rng, const struct esp_forest *f, uint32_t sample,
                           struct esp_pick *picks) {
    uint32_t count = 0;
    for (uint32_t tries = 0; count < sample && tries < DRAW_TRIES_MAX; tries++) {
        esp_node v = any_node(rng, f), to = any_node(rng, f);
        if (to != v && to != f->parent[v] && !esp_forest_is_below(f, to, v)) {
            picks[count++] = (struct esp_pick){.at = v, .to = to};
            tries = 0;
        }
    }
    return count;
}

uint32_t esp_sample_draw(const struct esp_forest *forest, enum esp_op op, uint32_t sample,
                         uint64_t seed, struct esp_pick *picks) {
    struct esp_rng rng;
    esp_rng_init(&rng, seed, op);
    if (op == ESP_OP_MOVE) {
        return draw_moves(&rng, forest, sample, picks);
    }
    if (op == ESP_OP_ROOTS) {
        picks[0] = (struct esp_pick){.at = 0, .to = ESP_NODE_NONE};
        return sample ? 1 : 0;
    }
    uint32_t count = draw_nodes(forest, sample, seed, picks);
    if (op == ESP_OP_LEVEL) {
        pick_levels(&rng, forest, picks, count);
    }
    if (op == ESP_OP_TREE && count > ESP_SAMPLE_TREES_MAX) {
        count = ESP_SAMPLE_TREES_MAX;
    }
    for (uint32_t i = 0; i < count; i++) {
        esp_node root = esp_forest_root(forest, picks[i].at);
        if (op == ESP_OP_TREE) {
            picks[i].at = root;
        } else if (op == ESP_OP_WINDOW) {
            picks[i].lo = 1;
            picks[i].hi = 2;
        } else if (op == ESP_OP_IS_DESCENDANT) {
            picks[i].to =
                i % 2 ? any_node(&rng, forest) : random_ancestor(&rng, forest, picks[i].at);
        } else if (op == ESP_OP_LCA) {
            picks[i].to = root + (esp_node)esp_rng_below(&rng, forest->size[root]);
        }
    }
    return count;
}
