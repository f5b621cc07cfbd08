/*
 * Workers take segments of the scan from an atomic counter and count items in a variable of
 * their own; the counts are added up after join.
 */
#include "loader/verify.h"

#include "loader/crew.h"

#include <stdatomic.h>

enum { SEGMENTS_PER_WORKER = 4 };

struct counting {
    struct esp_table *table;
    const volatile int *stop;
    uint32_t segments;
    atomic_uint next;
};

struct counter {
    uint64_t items;
    enum esp_status status;
    struct esp_error error;
    char pad[ESP_CACHE_PAD_BYTES];
};

static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    (void)item;
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static void count_segments(void *shared, void *own) {
    struct counting *job = shared;
    struct counter *me = own;
    struct esp_session *session = NULL;
    me->status = esp_session_open(job->table, &session, &me->error);
    while (me->status == ESP_OK) {
        struct esp_scan scan = {.index = ESP_PRIMARY,
                                .segment = atomic_fetch_add(&job->next, 1),
                                .segments = job->segments,
                                .consistent = true};
        if (scan.segment >= job->segments) {
            break;
        }
        session->stop = job->stop;
        me->status = esp_session_scan(session, &scan, count_item, &me->items, &me->error);
    }
    esp_session_close(session);
}

enum esp_status esp_table_count(struct esp_table *table, uint32_t workers, const volatile int *stop,
                                uint64_t *items, struct esp_error *err) {
    const struct esp_alloc *alloc = table->store->alloc;
    workers = esp_crew_size(workers, ESP_CREW_MAX);
    struct counting job = {.table = table, .stop = stop, .segments = workers * SEGMENTS_PER_WORKER};
    struct counter *counters = esp_calloc(alloc, workers, sizeof *counters);
    struct esp_crew crew = {.workers = workers,
                            .work = count_segments,
                            .shared = &job,
                            .own = counters,
                            .own_size = sizeof *counters};
    *items = 0;
    if (!counters) {
        return esp_fail_nomem(err);
    }
    enum esp_status status = esp_crew_run(&crew, err);
    for (uint32_t i = 0; i < workers; i++) {
        *items += counters[i].items;
        if (status == ESP_OK && counters[i].status != ESP_OK) {
            status = counters[i].status;
            if (err && err->status == ESP_OK) {
                *err = counters[i].error;
            }
        }
    }
    esp_release(alloc, counters, workers * sizeof *counters);
    return status;
}
