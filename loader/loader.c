/*
 * The thread protocol of a load.
 *
 * Shared and immutable while workers run: forest, layout, table, options.
 * Shared and atomic: `next` (the first node nobody has taken), `failed` (a worker gave up: the
 * others stop after the task in hand).
 * Shared under `refusing`: the caller's on_refused and the first reason for a refusal.
 * Of one worker alone: session, scratch arena, status and error.
 * Of one worker, under its own `lock`: the snapshot that progress reads, written once a task.
 *
 * A worker takes tasks of nodes_per_task nodes until none is left, then flushes its session, also
 * after a failure: only a flush says what became of the items that were in flight.  The caller's
 * thread reports progress and waits; after join it adds everything up.  planned comes from the
 * layout's item_count before anything is sent, written and refused from the sessions, and left
 * is the rest, so that planned = written + refused + left whatever happened.
 */
#include "loader/loader.h"

#include "loader/crew.h"
#include "loader/verify.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NODES_PER_TASK = 4096, SCRATCH_BYTES_MAX = 1 << 30, COUNT_NODES_MAX = 1 << 30 };

struct loading {
    const struct esp_forest *forest;
    const struct esp_layout *layout;
    struct esp_table *table;
    const struct esp_load_options *options;
    const volatile int *stop;
    uint32_t nodes_per_task;
    uint64_t items_planned, started_ns;
    struct worker *workers;
    uint32_t worker_count;
    esp_progress_fn *progress;
    void *progress_ctx;
    _Atomic uint64_t next;
    atomic_bool failed;
    pthread_mutex_t refusing;
    struct esp_error first_refusal;
};

/* What a worker shows of itself while it works. */
struct snapshot {
    uint64_t nodes_done, items_made, items_done;
    struct esp_usage usage;
};

struct worker {
    struct loading *load;
    struct esp_session *session;
    struct esp_arena scratch;
    enum esp_status status;
    struct esp_error error;
    struct esp_usage usage; /* of the session, kept when it is closed */
    struct esp_bulk_counts bulk;
    uint64_t nodes_done;
    pthread_mutex_t lock;
    struct snapshot shown;
    char pad[ESP_CACHE_PAD_BYTES];
};

/* --- in a worker's thread ------------------------------------------------------- */

static void refuse(void *ctx, const struct esp_item *item, const struct esp_error *why) {
    struct worker *me = ctx;
    struct loading *load = me->load;
    pthread_mutex_lock(&load->refusing);
    if (load->first_refusal.status == ESP_OK) {
        load->first_refusal = *why;
    }
    if (load->options->on_refused) {
        load->options->on_refused(load->options->on_refused_ctx, item, why);
    }
    pthread_mutex_unlock(&load->refusing);
}

static enum esp_status put(void *ctx, const struct esp_item *item) {
    struct worker *me = ctx;
    return esp_session_bulk_put(me->session, item, &me->error);
}

static void show(struct worker *me) {
    pthread_mutex_lock(&me->lock);
    me->shown.nodes_done = me->nodes_done;
    me->shown.items_made = me->session->bulk.planned;
    me->shown.items_done = me->session->bulk.written + me->session->bulk.refused;
    me->shown.usage = me->session->usage;
    pthread_mutex_unlock(&me->lock);
}

/* The flag may be raised by a signal or by another thread. */
static bool is_stopped(const struct loading *load) {
    return load->stop && __atomic_load_n(load->stop, __ATOMIC_RELAXED);
}

static bool should_stop(const struct loading *load) {
    return is_stopped(load) || atomic_load(&load->failed);
}

static enum esp_status put_ranges(struct worker *me) {
    struct loading *load = me->load;
    while (!should_stop(load)) {
        uint64_t first = atomic_fetch_add(&load->next, load->nodes_per_task);
        if (first >= load->forest->count) {
            break;
        }
        uint64_t left = load->forest->count - first;
        uint32_t n = left < load->nodes_per_task ? (uint32_t)left : load->nodes_per_task;
        enum esp_status status = load->layout->ops->emit(load->layout, load->forest,
                                                         (esp_node)first, n, &me->scratch, put, me);
        esp_arena_reset(&me->scratch);
        if (status != ESP_OK) {
            return status;
        }
        me->nodes_done += n;
        show(me);
    }
    return ESP_OK;
}

static void work(void *shared, void *own) {
    struct loading *load = shared;
    struct worker *me = own;
    esp_arena_init(&me->scratch, load->table->store->alloc, SCRATCH_BYTES_MAX);
    me->status = esp_session_open(load->table, &me->session, &me->error);
    if (me->status == ESP_OK) {
        me->session->stop = load->stop;
        me->session->on_refused = refuse;
        me->session->on_refused_ctx = me;
        me->status = put_ranges(me);
        if (me->status != ESP_OK) {
            atomic_store(&load->failed, true);
        }
        enum esp_status flushed = esp_session_bulk_flush(me->session, &me->error);
        me->status = me->status == ESP_OK ? flushed : me->status;
        show(me);
        me->usage = me->session->usage;
        me->bulk = me->session->bulk;
    }
    if (me->status != ESP_OK) {
        atomic_store(&load->failed, true);
    }
    esp_session_close(me->session);
    esp_arena_fini(&me->scratch);
}

/* --- in the caller's thread ----------------------------------------------------- */

static void report(void *ctx) {
    struct loading *load = ctx;
    struct esp_load_progress p = {.nodes_total = load->forest->count,
                                  .items_total = load->items_planned};
    for (uint32_t i = 0; i < load->worker_count; i++) {
        struct worker *w = &load->workers[i];
        pthread_mutex_lock(&w->lock);
        p.nodes_done += w->shown.nodes_done;
        p.items_made += w->shown.items_made;
        p.items_done += w->shown.items_done;
        esp_usage_add(&p.usage, &w->shown.usage);
        pthread_mutex_unlock(&w->lock);
    }
    p.elapsed_ns = esp_now_ns(load->table->store->clock) - load->started_ns;
    load->progress(load->progress_ctx, &p);
}

static uint64_t count_items(const struct esp_layout *layout, const struct esp_forest *forest) {
    uint64_t items = 0;
    for (uint64_t first = 0; first < forest->count; first += COUNT_NODES_MAX) {
        uint64_t left = forest->count - first;
        items += layout->ops->item_count(layout, forest, (esp_node)first,
                                         left < COUNT_NODES_MAX ? (uint32_t)left : COUNT_NODES_MAX);
    }
    return items;
}

/* The failure of a worker, if there is one: the cause before its consequences. */
static enum esp_status first_failure(const struct loading *load, struct esp_error *err) {
    const struct worker *cause = NULL;
    for (uint32_t i = 0; i < load->worker_count; i++) {
        const struct worker *w = &load->workers[i];
        if (w->status != ESP_OK && (!cause || cause->status == ESP_ERR_CANCELLED)) {
            cause = w;
        }
    }
    if (!cause) {
        return ESP_OK;
    }
    if (err && err->status == ESP_OK) {
        *err = cause->error;
        esp_fail(err, cause->status, "%s", esp_status_text(cause->status));
    }
    return cause->status;
}

/* Sums, and the verdict. */
static enum esp_status conclude(struct loading *load, enum esp_status status,
                                struct esp_load_result *result, struct esp_error *err) {
    uint64_t converted = 0;
    for (uint32_t i = 0; i < load->worker_count; i++) {
        const struct worker *w = &load->workers[i];
        esp_usage_add(&result->usage, &w->usage);
        result->items_written += w->bulk.written;
        result->items_refused += w->bulk.refused;
        converted += w->bulk.planned;
    }
    uint64_t known = result->items_written + result->items_refused;
    if (status == ESP_OK) {
        status = first_failure(load, err);
    }
    if (known > result->items_planned ||
        (status == ESP_OK && !should_stop(load) && converted != result->items_planned)) {
        status = esp_fail(err, ESP_ERR_INTERNAL,
                          "the layout announced %llu items and made %llu, of which the store "
                          "took %llu",
                          (unsigned long long)result->items_planned, (unsigned long long)converted,
                          (unsigned long long)known);
        result->items_planned = known > converted ? known : converted;
    }
    result->items_left = result->items_planned - known;
    if (status == ESP_OK && is_stopped(load) && result->items_left) {
        return esp_fail(err, ESP_ERR_CANCELLED, "stopped on request");
    }
    if (status == ESP_OK && result->items_left) {
        return esp_fail(err, ESP_ERR_THROTTLED, "%llu items were left undone",
                        (unsigned long long)result->items_left);
    }
    if (status == ESP_OK && result->items_refused) {
        return esp_fail(err, ESP_ERR_REFUSED, "%llu of %llu items were refused; the first: %s",
                        (unsigned long long)result->items_refused,
                        (unsigned long long)result->items_planned, load->first_refusal.message);
    }
    return status;
}

static enum esp_status load_all(struct loading *load, struct esp_load_result *result,
                                struct esp_error *err) {
    const struct esp_alloc *alloc = load->table->store->alloc;
    uint64_t tasks =
        (load->forest->count + (uint64_t)load->nodes_per_task - 1) / load->nodes_per_task;
    uint32_t count = esp_crew_size(load->options->workers, tasks);
    load->workers = esp_calloc(alloc, count, sizeof *load->workers);
    if (!load->workers) {
        result->items_left = result->items_planned;
        return esp_fail_nomem(err);
    }
    load->worker_count = count;
    for (uint32_t i = 0; i < count; i++) {
        load->workers[i].load = load;
        pthread_mutex_init(&load->workers[i].lock, NULL);
    }
    pthread_mutex_init(&load->refusing, NULL);
    struct esp_crew crew = {.workers = count,
                            .work = work,
                            .shared = load,
                            .own = load->workers,
                            .own_size = sizeof *load->workers,
                            .tick = load->progress ? report : NULL,
                            .tick_ctx = load};
    enum esp_status status = conclude(load, esp_crew_run(&crew, err), result, err);
    if (load->progress) {
        report(load);
    }
    pthread_mutex_destroy(&load->refusing);
    for (uint32_t i = 0; i < count; i++) {
        pthread_mutex_destroy(&load->workers[i].lock);
    }
    esp_release(alloc, load->workers, count * sizeof *load->workers);
    return status;
}

/* Says no also when the table was not empty before: who appends must not ask. */
static enum esp_status verify(const struct loading *load, struct esp_load_result *result,
                              struct esp_error *err) {
    struct esp_table *table = load->table;
    if (table->store->ops->flags & ESP_STORE_DISCARDS) {
        return ESP_OK;
    }
    enum esp_status status =
        esp_table_count(table, load->options->workers, load->stop, &result->items_counted, err);
    if (status != ESP_OK) {
        return status;
    }
    result->verified = result->items_counted == result->items_written;
    return result->verified
               ? ESP_OK
               : esp_fail(err, ESP_ERR_INTERNAL, "table %s holds %llu items, %llu were written",
                          table->name, (unsigned long long)result->items_counted,
                          (unsigned long long)result->items_written);
}

enum esp_status esp_load_run(const struct esp_forest *forest, const struct esp_layout *layout,
                             struct esp_table *table, const struct esp_load_options *options,
                             const volatile int *stop, esp_progress_fn *progress,
                             void *progress_ctx, struct esp_load_result *result,
                             struct esp_error *err) {
    const struct esp_clock *clock = table->store->clock;
    struct loading load = {
        .forest = forest,
        .layout = layout,
        .table = table,
        .options = options,
        .stop = stop,
        .nodes_per_task = options->nodes_per_task ? options->nodes_per_task : NODES_PER_TASK,
        .items_planned = count_items(layout, forest),
        .started_ns = esp_now_ns(clock),
        .progress = progress,
        .progress_ctx = progress_ctx,
    };
    enum esp_status status;
    *result = (struct esp_load_result){.verified = -1, .items_planned = load.items_planned};
    if (options->dry_run) {
        result->items_left = result->items_planned;
        status = esp_load_quote(forest, layout, options->workers, table->store->alloc,
                                &result->usage, err);
    } else {
        status = load_all(&load, result, err);
    }
    result->elapsed_ns = esp_now_ns(clock) - load.started_ns;
    if (options->verify && !options->dry_run && result->items_left == 0 &&
        (status == ESP_OK || status == ESP_ERR_REFUSED)) {
        struct esp_error local = ESP_ERROR_INIT;
        enum esp_status counted = verify(&load, result, &local);
        if (counted != ESP_OK) { /* worse than items refused */
            status = counted;
            if (err) {
                *err = local;
            }
        }
    }
    return status;
}
