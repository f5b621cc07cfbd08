#include "core/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static uint64_t read_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t system_now(void *ctx) {
    (void)ctx;
    return read_clock(CLOCK_MONOTONIC);
}

static uint64_t system_wall(void *ctx) {
    (void)ctx;
    return read_clock(CLOCK_REALTIME);
}

static void system_sleep(void *ctx, uint64_t ns) {
    (void)ctx;
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

const struct esp_clock esp_clock_system = {system_now, system_wall, system_sleep, NULL};

static uint64_t virtual_now(void *ctx) {
    return ((struct esp_virtual_clock *)ctx)->now_ns;
}

static uint64_t virtual_wall(void *ctx) {
    return ((struct esp_virtual_clock *)ctx)->wall_ns;
}

static void virtual_sleep(void *ctx, uint64_t ns) {
    struct esp_virtual_clock *state = ctx;
    state->now_ns += ns;
    state->wall_ns += ns;
}

struct esp_clock esp_clock_virtual(struct esp_virtual_clock *state) {
    return (struct esp_clock){virtual_now, virtual_wall, virtual_sleep, state};
}

static void utc(uint64_t wall_ns, struct tm *out) {
    time_t seconds = (time_t)(wall_ns / 1000000000u);
    gmtime_r(&seconds, out);
}

void esp_wall_format_iso(uint64_t wall_ns, char out[17]) {
    struct tm t;
    utc(wall_ns, &t);
    strftime(out, 17, "%Y%m%dT%H%M%SZ", &t);
}

void esp_wall_format_rfc3339(uint64_t wall_ns, char out[21]) {
    struct tm t;
    utc(wall_ns, &t);
    strftime(out, 21, "%Y-%m-%dT%H:%M:%SZ", &t);
}
