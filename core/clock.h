#ifndef ESP_CORE_CLOCK_H
#define ESP_CORE_CLOCK_H
/*
 * Time is injected: everything that waits, stamps or measures takes a clock, so
 * that retries, pacing and reports can be tested to the byte.
 */
#include <stdint.h>

struct esp_clock {
    uint64_t (*now_ns)(void *ctx);  /* monotonic; only differences mean anything */
    uint64_t (*wall_ns)(void *ctx); /* since 1970-01-01 UTC */
    void (*sleep_ns)(void *ctx, uint64_t ns);
    void *ctx;
};
extern const struct esp_clock esp_clock_system; /* thread-safe */

/* A clock that moves only when it sleeps or is told to.  Not thread-safe. */
struct esp_virtual_clock {
    uint64_t now_ns, wall_ns;
};
struct esp_clock esp_clock_virtual(struct esp_virtual_clock *state); /* state is borrowed */

static inline uint64_t esp_now_ns(const struct esp_clock *c) {
    return c->now_ns(c->ctx);
}
static inline uint64_t esp_wall_ns(const struct esp_clock *c) {
    return c->wall_ns(c->ctx);
}
static inline void esp_sleep_ns(const struct esp_clock *c, uint64_t ns) {
    c->sleep_ns(c->ctx, ns);
}

/* "20261121T054500Z" (17 bytes with NUL) as SigV4 wants it. */
void esp_wall_format_iso(uint64_t wall_ns, char out[17]);
/* "2026-11-21T05:45:00Z" (21 bytes with NUL), for reports. */
void esp_wall_format_rfc3339(uint64_t wall_ns, char out[21]);

#endif
