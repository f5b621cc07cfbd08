#ifndef ESP_CLI_SHAPE_H
#define ESP_CLI_SHAPE_H
/*
 * A synthetic tree without contents: which node is below which.
 *
 * A measured profile is scaled to exactly `count` nodes: on each level the profile's share of
 * nodes gets a child each, and the rest of the next level is shared among them in proportion
 * to heavy-tailed weights.  Independent branching would make no giant directories, and those
 * are what hurts a partition key.
 */
#include "cli/profiles.h"
#include "core/mem.h"

#define ESP_SHAPE_ROOT UINT32_MAX

struct esp_shape {
    uint32_t count;
    uint32_t *parent; /* of node i: below i, or ESP_SHAPE_ROOT */
};

/* Same profile, count and seed: same shape.  count >= 1; 4 bytes a node.  ERR_NOMEM. */
enum esp_status esp_shape_make(const struct esp_profile *profile, uint32_t count, uint64_t seed,
                               const struct esp_alloc *alloc, struct esp_shape *out,
                               struct esp_error *err) ESP_MUST_CHECK;
void esp_shape_fini(struct esp_shape *shape, const struct esp_alloc *alloc);

#endif
