#ifndef ESP_LOADER_CREW_H
#define ESP_LOADER_CREW_H
/*
 * A crew: threads that do one job together; private to loader/.
 *
 * Each worker calls `work` once with the shared state and its own.  What they divide, they
 * divide themselves, with an atomic counter in the shared state.  The caller's thread waits
 * and, meanwhile, calls `tick`.
 */
#include "core/mem.h"

struct esp_crew {
    uint32_t workers;
    void (*work)(void *shared, void *own);
    void *shared;
    void *own; /* array of `workers` states of own_size bytes, on lines of cache of their own */
    size_t own_size;
    void (*tick)(void *ctx); /* about 5 times a second, from the caller's thread; may be NULL */
    void *tick_ctx;
};

enum { ESP_CREW_MAX = 256, ESP_CACHE_PAD_BYTES = 64 };

/* How many workers make sense: `asked`, or one a core for 0; never more than tasks. */
uint32_t esp_crew_size(uint32_t asked, uint64_t tasks);
/* Returns when every worker has returned.  Fewer threads than asked for is no failure as long
 * as there is one: the work is divided by a counter. */
enum esp_status esp_crew_run(const struct esp_crew *crew, struct esp_error *err) ESP_MUST_CHECK;

#endif
