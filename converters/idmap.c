#include "converters/idmap.h"

enum { SLOTS_MIN = 64, ARRAY_MIN = 16 };

void *esp_arena_grow(struct esp_arena *arena, void *old, uint32_t *cap, uint32_t need,
                     size_t size) {
    if (need <= *cap) {
        return old;
    }
    uint64_t wanted = *cap ? 2 * (uint64_t)*cap : ARRAY_MIN;
    wanted = wanted < need ? need : wanted > UINT32_MAX ? UINT32_MAX : wanted;
    void *grown = esp_arena_calloc(arena, (size_t)wanted, size);
    if (grown) {
        if (*cap) {
            memcpy(grown, old, *cap * size);
        }
        *cap = (uint32_t)wanted;
    }
    return grown;
}

void esp_idmap_init(struct esp_idmap *map, struct esp_arena *arena) {
    *map = (struct esp_idmap){.arena = arena};
}

/* The slot of `id`, or the free one where it would go. */
static size_t slot_of(const struct esp_idmap *map, struct esp_str id) {
    size_t mask = map->slot_count - 1, at = esp_hash64(id.ptr, id.len, 0) & mask;
    while (map->slot[at] && !esp_str_eq(map->id[map->slot[at] - 1], id)) {
        at = (at + 1) & mask;
    }
    return at;
}

static enum esp_status grow_slots(struct esp_idmap *map) {
    size_t count = map->slot_count ? 2 * map->slot_count : SLOTS_MIN;
    uint32_t *slot = esp_arena_calloc(map->arena, count, sizeof *slot);
    if (!slot) {
        return ESP_ERR_NOMEM;
    }
    map->slot = slot;
    map->slot_count = count;
    for (uint32_t i = 0; i < map->count; i++) {
        map->slot[slot_of(map, map->id[i])] = i + 1;
    }
    return ESP_OK;
}

uint32_t esp_idmap_find(const struct esp_idmap *map, struct esp_str id) {
    if (map->count == 0) {
        return ESP_IDMAP_NONE;
    }
    size_t at = slot_of(map, id);
    return map->slot[at] ? map->slot[at] - 1 : ESP_IDMAP_NONE;
}

enum esp_status esp_idmap_intern(struct esp_idmap *map, struct esp_str id, uint32_t *out) {
    /* Half full at most, so that a look-up ends after a few slots. */
    if (2 * ((size_t)map->count + 1) > map->slot_count && grow_slots(map) != ESP_OK) {
        return ESP_ERR_NOMEM;
    }
    size_t at = slot_of(map, id);
    if (map->slot[at]) {
        *out = map->slot[at] - 1;
        return ESP_OK;
    }
    struct esp_str *ids = NULL, copy = {0};
    if (map->count < ESP_IDMAP_NONE - 1) {
        ids = esp_arena_grow(map->arena, map->id, &map->cap, map->count + 1, sizeof *ids);
        copy = esp_arena_dup(map->arena, id);
    }
    if (!ids || !copy.ptr) {
        return ESP_ERR_NOMEM;
    }
    map->id = ids;
    map->id[map->count] = copy;
    *out = map->count++;
    map->slot[at] = map->count;
    return ESP_OK;
}
