#ifndef ESP_CONVERTERS_IDMAP_H
#define ESP_CONVERTERS_IDMAP_H
/*
 * Ids to small numbers, in an arena: what breadth-first plans, ordered answers and checks
 * use to say "this node again".  Costs the id, 16 bytes and about 8 bytes of slots each;
 * growing leaves the old slots in the arena (at most as much again).  Not thread-safe.
 */
#include "core/mem.h"

enum { ESP_IDMAP_NONE = 0xFFFFFFFF };

struct esp_idmap {
    struct esp_arena *arena; /* borrowed */
    struct esp_str *id;      /* by number; copies in the arena */
    uint32_t count, cap;
    uint32_t *slot; /* number + 1, 0 = free */
    size_t slot_count;
};

void esp_idmap_init(struct esp_idmap *map, struct esp_arena *arena); /* takes no memory yet */
/* The number of `id`: the one it has, or the next free one.  ERR_NOMEM. */
enum esp_status esp_idmap_intern(struct esp_idmap *map, struct esp_str id,
                                 uint32_t *out) ESP_MUST_CHECK;
uint32_t esp_idmap_find(const struct esp_idmap *map, struct esp_str id); /* or ESP_IDMAP_NONE */

/* An arena array that holds `need` elements at least: doubled and copied when it is too
 * small.  NULL on failure; the old one stays valid. */
void *esp_arena_grow(struct esp_arena *arena, void *old, uint32_t *cap, uint32_t need,
                     size_t size) ESP_MUST_CHECK;

#endif
