/*
 * Workers take ranges of nodes from an atomic counter, convert them and meter each item into a
 * usage of their own; the usages are added up after join.
 */
#include "loader/crew.h"
#include "loader/loader.h"

#include <stdatomic.h>

enum { NODES_PER_TASK = 4096, SCRATCH_BYTES_MAX = 1 << 30 };

struct quoting {
    const struct esp_forest *forest;
    const struct esp_layout *layout;
    const struct esp_alloc *alloc;
    _Atomic uint64_t next;
    atomic_bool failed;
};

struct quoter {
    const struct esp_schema *schema;
    struct esp_usage usage;
    enum esp_status status;
    char pad[ESP_CACHE_PAD_BYTES];
};

static enum esp_status meter(void *ctx, const struct esp_item *item) {
    struct quoter *me = ctx;
    esp_meter_write(me->schema, NULL, item, false, &me->usage);
    return ESP_OK;
}

static void quote_ranges(void *shared, void *own) {
    struct quoting *job = shared;
    struct quoter *me = own;
    struct esp_arena scratch;
    esp_arena_init(&scratch, job->alloc, SCRATCH_BYTES_MAX);
    me->schema = &job->layout->schema;
    while (me->status == ESP_OK && !atomic_load(&job->failed)) {
        uint64_t first = atomic_fetch_add(&job->next, NODES_PER_TASK);
        if (first >= job->forest->count) {
            break;
        }
        uint64_t left = job->forest->count - first;
        me->status = job->layout->ops->emit(job->layout, job->forest, (esp_node)first,
                                            left < NODES_PER_TASK ? (uint32_t)left : NODES_PER_TASK,
                                            &scratch, meter, me);
        esp_arena_reset(&scratch);
    }
    if (me->status != ESP_OK) {
        atomic_store(&job->failed, true);
    }
    esp_arena_fini(&scratch);
}

enum esp_status esp_load_quote(const struct esp_forest *forest, const struct esp_layout *layout,
                               uint32_t workers, const struct esp_alloc *alloc,
                               struct esp_usage *usage, struct esp_error *err) {
    struct quoting job = {.forest = forest, .layout = layout, .alloc = alloc};
    memset(usage, 0, sizeof *usage);
    workers =
        esp_crew_size(workers, (forest->count + (uint64_t)NODES_PER_TASK - 1) / NODES_PER_TASK);
    struct quoter *quoters = esp_calloc(alloc, workers, sizeof *quoters);
    struct esp_crew crew = {.workers = workers,
                            .work = quote_ranges,
                            .shared = &job,
                            .own = quoters,
                            .own_size = sizeof *quoters};
    if (!quoters) {
        return esp_fail_nomem(err);
    }
    enum esp_status status = esp_crew_run(&crew, err);
    for (uint32_t i = 0; i < workers; i++) {
        esp_usage_add(usage, &quoters[i].usage);
        if (status == ESP_OK && quoters[i].status != ESP_OK) {
            status = esp_fail(err, quoters[i].status, "the conversion failed: %s",
                              esp_status_text(quoters[i].status));
        }
    }
    esp_release(alloc, quoters, workers * sizeof *quoters);
    return status;
}
