/*
 * The session layer: splits what callers ask into requests a store executes, overlaps
 * them in windows, follows pages, resends what was left undone.
 *
 * Every call works in waves: all requests of a wave are independent, so a wave is one
 * round trip however many windows it takes; what the store left undone, or the next page
 * of a query, goes into a later wave.
 */
#include "core/rng.h"
#include "stores/undo.h"

enum {
    GET_KEYS_MAX = 100,    /* BatchGetItem */
    BATCH_WRITES_MAX = 25, /* BatchWriteItem */
    TRANSACT_WRITES_MAX = 100,
    WINDOW_REQUESTS = 64,        /* given to a store at once */
    SCRATCH_BYTES_MAX = 1 << 30, /* of the session's arena */
    RESENDS_MAX = 10,            /* without any progress */
    BACKOFF_BASE_MS = 50,        /* full jitter: a random part of base * 2^n */
    BACKOFF_MAX_MS = 20000,
    WAIT_SLICE_MS = 50, /* between two looks at `stop` */
};
static const uint64_t ns_per_ms = 1000000;

struct own_session {
    struct esp_session base;
    struct esp_rng rng;
    int depth; /* calls in progress: a callback may use the session again */
};

static struct own_session *own(struct esp_session *s) {
    return (struct own_session *)s;
}

/* Scratch lives as long as the outermost call. */
static void enter(struct esp_session *s) {
    if (own(s)->depth++ == 0) {
        esp_arena_reset(&s->arena);
    }
}

static enum esp_status leave(struct esp_session *s, enum esp_status status) {
    own(s)->depth--;
    return status;
}

void esp_cursor_set(struct esp_cursor *cursor, const struct esp_schema *schema, int index,
                    const struct esp_item *item) {
    int keys[4] = {schema->pk, schema->sk, -1, -1};
    size_t used = 0;
    if (index != ESP_PRIMARY) {
        keys[2] = schema->index[index].pk;
        keys[3] = schema->index[index].sk;
    }
    struct esp_item key = {.data = {0}};
    for (int i = 0; i < 4; i++) {
        if (keys[i] < 0 || key.value[keys[i]].type != ESP_TYPE_NONE) {
            continue;
        }
        struct esp_value *value = &key.value[keys[i]];
        *value = item->value[keys[i]];
        if (value->type != ESP_TYPE_NONE && value->s.len) {
            if (value->s.len > sizeof cursor->bytes - used) { /* no key: an endpoint is wrong */
                *value = (struct esp_value){.type = ESP_TYPE_NONE};
                continue;
            }
            memmove(cursor->bytes + used, value->s.ptr, value->s.len);
            value->s.ptr = cursor->bytes + used;
            used += value->s.len;
        }
    }
    cursor->key = key;
    cursor->set = true;
}

/* --- sessions ----------------------------------------------------------------- */

enum esp_status esp_session_open(struct esp_table *table, struct esp_session **out,
                                 struct esp_error *err) {
    const struct esp_store *store = table->store;
    struct own_session *o = esp_calloc(store->alloc, 1, sizeof *o);
    *out = NULL;
    if (!o) {
        return esp_fail_nomem(err);
    }
    o->base.table = table;
    esp_arena_init(&o->base.arena, store->alloc, SCRATCH_BYTES_MAX);
    /* sessions of several threads must not wait in step */
    esp_rng_init(&o->rng, store->config->seed ^ esp_now_ns(store->clock), 1);
    enum esp_status status = store->ops->session_open(&o->base, err);
    if (status != ESP_OK) {
        esp_arena_fini(&o->base.arena);
        esp_release(store->alloc, o, sizeof *o);
        return status;
    }
    *out = &o->base;
    return ESP_OK;
}

void esp_session_close(struct esp_session *session) {
    if (!session) {
        return;
    }
    const struct esp_store *store = session->table->store;
    (void)esp_undo_abandon(session, NULL);
    store->ops->session_close(session);
    esp_arena_fini(&session->arena);
    esp_release(store->alloc, own(session), sizeof(struct own_session));
}

/* --- executing ------------------------------------------------------------------ */

enum esp_status esp_session_check(const struct esp_session *s, struct esp_error *err) {
    if (esp_stop_wanted(s->stop)) {
        return esp_fail(err, ESP_ERR_CANCELLED, "stopped on request");
    }
    if (s->deadline_ns && esp_now_ns(s->table->store->clock) >= s->deadline_ns) {
        return esp_fail(err, ESP_ERR_UNAVAILABLE, "the time for this operation is over");
    }
    return ESP_OK;
}

static void prepare(struct esp_request *r, enum esp_request_kind kind) {
    memset(r, 0, offsetof(struct esp_request, error));
    r->kind = kind;
    esp_error_clear(&r->error);
    r->more = false;
    r->undone = 0;
}

static enum esp_status run(struct esp_session *s, struct esp_request *requests, size_t n,
                           struct esp_error *err) {
    enum esp_status status = esp_session_check(s, err);
    return status == ESP_OK ? s->table->store->ops->execute(s, requests, n, err) : status;
}

/* The outcome of a request that failed, as the call's. */
static enum esp_status fail_with(const struct esp_request *r, struct esp_error *err) {
    if (r->status == ESP_STOP) {
        return ESP_STOP; /* the callback's wish, no error */
    }
    if (err && err->status == ESP_OK) {
        *err = r->error;
        if (err->status == ESP_OK) {
            return esp_fail(err, r->status, "%s", esp_status_text(r->status));
        }
    }
    return r->status;
}

/* Wait before resend number `resend` (from 0), with full jitter. */
static enum esp_status back_off(struct esp_session *s, unsigned resend, struct esp_error *err) {
    const struct esp_clock *clock = s->table->store->clock;
    uint64_t most_ms = (uint64_t)BACKOFF_BASE_MS << resend;
    most_ms = most_ms < BACKOFF_MAX_MS ? most_ms : BACKOFF_MAX_MS;
    uint64_t left_ns = (uint64_t)(esp_rng_unit(&own(s)->rng) * (double)(most_ms * ns_per_ms));
    while (left_ns) {
        enum esp_status status = esp_session_check(s, err);
        uint64_t slice = left_ns < WAIT_SLICE_MS * ns_per_ms ? left_ns : WAIT_SLICE_MS * ns_per_ms;
        if (status != ESP_OK) {
            return status;
        }
        esp_sleep_ns(clock, slice);
        left_ns -= slice;
    }
    return ESP_OK;
}

/* What a call that resends remembers between its waves. */
struct resending {
    unsigned fruitless; /* waves in sequence that did nothing */
};

/* After a wave that left `undone` of `tried`: a store that does a part at a time is asked for the
 * next part; one that did nothing is left alone for a while, or given up. */
static enum esp_status before_resend(struct esp_session *s, struct resending *r, size_t tried,
                                     size_t undone, size_t request_max, const char *what,
                                     struct esp_error *err) {
    if (undone < tried) {
        r->fruitless = 0;
        return ESP_OK;
    }
    s->usage.retries += (undone + request_max - 1) / request_max;
    if (++r->fruitless >= RESENDS_MAX) {
        return esp_fail(err, ESP_ERR_THROTTLED, "%zu %s were left undone %d times", undone, what,
                        RESENDS_MAX);
    }
    return back_off(s, r->fruitless, err);
}

static struct esp_request *new_window(struct esp_session *s, size_t requests,
                                      struct esp_error *err) {
    size_t n = requests < WINDOW_REQUESTS ? requests : WINDOW_REQUESTS;
    struct esp_request *window = esp_arena_alloc(&s->arena, n * sizeof *window);
    if (!window) {
        esp_fail_nomem(err);
    }
    return window;
}

/* --- watched reads --------------------------------------------------------------- */

/* Between a store and a caller's function. */
struct watched {
    const struct esp_watch *watch;
    int index;
    esp_item_fn *fn;
    void *ctx;
};

static enum esp_status pass_watched(void *ctx, const struct esp_item *item) {
    struct watched *w = ctx;
    enum esp_status status = w->watch->item(w->watch->ctx, w->index, item);
    return status == ESP_OK ? w->fn(w->ctx, item) : status;
}

static enum esp_status tell_range(const struct esp_session *s, const struct esp_query *q,
                                  bool begun, const struct esp_cursor *cursor, bool more) {
    static const struct esp_cursor end = {.set = false};
    return s->watch ? s->watch->range(s->watch->ctx, q, begun, more ? cursor : &end) : ESP_OK;
}

/* --- reads by key --------------------------------------------------------------- */

/* All keys once; *undone of them are at the front of keys[] afterwards. */
static enum esp_status get_wave(struct esp_session *s, struct esp_request *window,
                                struct esp_item *keys, size_t n, bool consistent, esp_item_fn *fn,
                                void *ctx, size_t *undone, struct esp_error *err) {
    *undone = 0;
    for (size_t at = 0; at < n;) {
        size_t count = 0;
        for (; count < WINDOW_REQUESTS && at < n; count++) {
            struct esp_request *r = &window[count];
            prepare(r, ESP_REQ_GET);
            r->get.keys = keys + at;
            r->get.n = n - at < GET_KEYS_MAX ? n - at : GET_KEYS_MAX;
            r->get.consistency = consistent ? ESP_STRONG : ESP_EVENTUAL;
            r->fn = fn;
            r->ctx = ctx;
            at += r->get.n;
        }
        enum esp_status status = run(s, window, count, err);
        for (size_t i = 0; i < count && status == ESP_OK; i++) {
            if (window[i].status != ESP_OK) {
                status = fail_with(&window[i], err);
            }
            for (size_t k = 0; k < window[i].undone; k++) {
                esp_item_copy(&s->table->schema, &keys[(*undone)++], &window[i].get.keys[k]);
            }
        }
        if (status != ESP_OK) {
            return status;
        }
    }
    return ESP_OK;
}

enum esp_status esp_session_get(struct esp_session *s, struct esp_item *keys, size_t n,
                                bool consistent, esp_item_fn *fn, void *ctx,
                                struct esp_error *err) {
    struct resending resending = {0};
    struct watched watched = {s->watch, ESP_PRIMARY, fn, ctx};
    if (n == 0) {
        return ESP_OK;
    }
    if (s->watch) {
        fn = pass_watched;
        ctx = &watched;
    }
    enter(s);
    struct esp_request *window = new_window(s, (n + GET_KEYS_MAX - 1) / GET_KEYS_MAX, err);
    enum esp_status status = window ? ESP_OK : ESP_ERR_NOMEM;
    while (status == ESP_OK && n > 0) {
        size_t undone;
        status = get_wave(s, window, keys, n, consistent, fn, ctx, &undone, err);
        s->usage.round_trips++;
        if (status == ESP_OK && undone) {
            status = before_resend(s, &resending, n, undone, GET_KEYS_MAX, "keys", err);
        }
        n = undone;
    }
    return leave(s, status);
}

/* --- queries and scans ---------------------------------------------------------- */

/* Where a cursor is; 0: at the beginning. */
static uint64_t mark_of(const struct esp_session *s, const struct esp_cursor *cursor) {
    uint64_t mark = 1;
    for (size_t i = 0; cursor->set && i < s->table->schema.attr_count; i++) {
        const struct esp_value *v = &cursor->key.value[i];
        bool text = v->type == ESP_TYPE_S || v->s.len;
        mark = v->type == ESP_TYPE_NONE ? mark
               : text                   ? esp_hash64(v->s.ptr, v->s.len, mark + i)
                                        : esp_hash64(&v->n, sizeof v->n, mark + i);
    }
    return cursor->set ? mark | 1 : 0;
}

/* After a page that is not the last: has the cursor moved?  Else the pages have no end. */
static enum esp_status goes_on(const struct esp_session *s, const struct esp_cursor *cursor,
                               uint64_t *mark, struct esp_error *err) {
    uint64_t before = *mark;
    *mark = mark_of(s, cursor);
    return *mark && *mark != before
               ? ESP_OK
               : esp_fail(err, ESP_ERR_INTERNAL,
                          "the endpoint does not go on: another page is to follow from where the "
                          "last one began");
}

static enum esp_status one_page(struct esp_session *s, struct esp_request *r,
                                struct esp_cursor *cursor, bool *more, esp_item_fn *fn, void *ctx,
                                struct esp_error *err) {
    r->cursor = cursor;
    r->fn = fn;
    r->ctx = ctx;
    uint64_t mark = mark_of(s, cursor);
    enum esp_status status = run(s, r, 1, err);
    s->usage.round_trips++;
    if (status == ESP_OK && r->status != ESP_OK) {
        status = fail_with(r, err);
    }
    if (status == ESP_OK && r->more) {
        status = goes_on(s, cursor, &mark, err);
    }
    *more = status == ESP_OK && r->more;
    return status;
}

enum esp_status esp_session_query_page(struct esp_session *s, const struct esp_query *q,
                                       struct esp_cursor *cursor, bool *more, esp_item_fn *fn,
                                       void *ctx, struct esp_error *err) {
    struct esp_request r;
    struct watched watched = {s->watch, q->index, fn, ctx};
    bool begun = cursor->set;
    enter(s);
    prepare(&r, ESP_REQ_QUERY);
    r.query = q;
    enum esp_status status =
        one_page(s, &r, cursor, more, s->watch ? pass_watched : fn, s->watch ? &watched : ctx, err);
    return leave(s, status == ESP_OK ? tell_range(s, q, begun, cursor, *more) : status);
}

enum esp_status esp_session_query(struct esp_session *s, const struct esp_query *q, esp_item_fn *fn,
                                  void *ctx, struct esp_error *err) {
    struct esp_cursor cursor;
    bool more = true;
    enum esp_status status = ESP_OK;
    cursor.set = false;
    while (status == ESP_OK && more) {
        status = esp_session_query_page(s, q, &cursor, &more, fn, ctx, err);
    }
    return status;
}

enum esp_status esp_session_scan(struct esp_session *s, const struct esp_scan *scan,
                                 esp_item_fn *fn, void *ctx, struct esp_error *err) {
    struct esp_cursor cursor;
    bool more = true;
    enum esp_status status = ESP_OK;
    cursor.set = false;
    enter(s);
    while (status == ESP_OK && more) {
        struct esp_request r;
        prepare(&r, ESP_REQ_SCAN);
        r.scan = scan;
        status = one_page(s, &r, &cursor, &more, fn, ctx, err);
    }
    return leave(s, status);
}

/* Queries, or segments of a scan, in flight: slot i is request i, its cursor, where that was, and
 * the pages it has had. */
struct flight {
    struct esp_request *requests;
    struct esp_cursor *cursors, *free_cursors[WINDOW_REQUESTS];
    uint64_t pages[WINDOW_REQUESTS], marks[WINDOW_REQUESTS];
    size_t count, free_count;
    uint64_t longest; /* chain of pages */
};

static enum esp_status flight_init(struct esp_session *s, struct flight *f, size_t n,
                                   struct esp_error *err) {
    size_t slots = n < WINDOW_REQUESTS ? n : WINDOW_REQUESTS;
    f->count = f->free_count = 0;
    f->longest = 0;
    f->cursors = esp_arena_alloc(&s->arena, slots * sizeof *f->cursors);
    f->requests = new_window(s, slots, err);
    if (!f->cursors || !f->requests) {
        return esp_fail_nomem(err);
    }
    while (f->free_count < slots) {
        f->free_cursors[f->free_count] = &f->cursors[f->free_count];
        f->free_count++;
    }
    return ESP_OK;
}

/* The next request in flight, from its first page; what it asks for is still to be set. */
static struct esp_request *take_off(struct flight *f, enum esp_request_kind kind, esp_item_fn *fn,
                                    void *ctx) {
    struct esp_request *r = &f->requests[f->count];
    prepare(r, kind);
    r->cursor = f->free_cursors[--f->free_count];
    r->cursor->set = false;
    r->fn = fn;
    r->ctx = ctx;
    f->marks[f->count] = 0;
    f->pages[f->count++] = 0;
    return r;
}

/* Ask for the next page of `from`; both may be the same. */
static void fly_on(struct esp_request *r, const struct esp_request *from) {
    const struct esp_query *query = from->kind == ESP_REQ_QUERY ? from->query : NULL;
    const struct esp_scan *scan = from->kind == ESP_REQ_SCAN ? from->scan : NULL;
    struct esp_cursor *cursor = from->cursor;
    esp_item_fn *fn = from->fn;
    void *ctx = from->ctx;
    prepare(r, from->kind);
    if (query) {
        r->query = query;
    } else {
        r->scan = scan;
    }
    r->cursor = cursor;
    r->fn = fn;
    r->ctx = ctx;
}

/* Drop the requests that are through; the others go on. */
static enum esp_status land(const struct esp_session *s, struct flight *f, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct esp_request *r = &f->requests[i];
        uint64_t pages = f->pages[i] + 1;
        f->longest = pages > f->longest ? pages : f->longest;
        if (r->status != ESP_OK && status == ESP_OK) {
            status = fail_with(r, err);
        }
        if (!r->more) {
            f->free_cursors[f->free_count++] = r->cursor;
            continue;
        }
        uint64_t mark = f->marks[i];
        if (status == ESP_OK) {
            status = goes_on(s, r->cursor, &mark, err);
        }
        fly_on(&f->requests[kept], r);
        f->marks[kept] = mark;
        f->pages[kept++] = pages;
    }
    f->count = kept;
    return status;
}

enum esp_status esp_session_query_many(struct esp_session *s, const struct esp_query *q, size_t n,
                                       esp_item_fn *fn, void *ctx, struct esp_error *err) {
    struct flight f;
    size_t started = 0;
    if (n == 0) {
        return ESP_OK;
    }
    enter(s);
    enum esp_status status = flight_init(s, &f, n, err);
    struct watched *watched = s->watch ? esp_arena_alloc(&s->arena, n * sizeof *watched) : NULL;
    if (status == ESP_OK && s->watch && !watched) {
        status = esp_fail_nomem(err);
    }
    while (status == ESP_OK && (f.count || started < n)) {
        for (; f.free_count && started < n; started++) {
            if (watched) {
                watched[started] = (struct watched){s->watch, q[started].index, fn, ctx};
            }
            take_off(&f, ESP_REQ_QUERY, watched ? pass_watched : fn,
                     watched ? (void *)&watched[started] : ctx)
                ->query = &q[started];
        }
        status = run(s, f.requests, f.count, err);
        if (status == ESP_OK) {
            status = land(s, &f, err);
        }
    }
    s->usage.round_trips += f.longest;
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        status = tell_range(s, &q[i], false, NULL, false);
    }
    return leave(s, status);
}

enum esp_status esp_session_scan_many(struct esp_session *s, const struct esp_scan *scan,
                                      uint32_t segments, esp_item_fn *fn, void *ctx,
                                      struct esp_error *err) {
    struct flight f;
    if (segments == 0 || segments > WINDOW_REQUESTS) {
        return esp_fail(err, ESP_ERR_USAGE, "a scan in %u segments: 1 to %d overlap", segments,
                        WINDOW_REQUESTS);
    }
    enter(s);
    struct esp_scan *segment = esp_arena_calloc(&s->arena, segments, sizeof *segment);
    enum esp_status status = segment ? flight_init(s, &f, segments, err) : esp_fail_nomem(err);
    if (status != ESP_OK) {
        return leave(s, status);
    }
    for (uint32_t i = 0; i < segments; i++) {
        segment[i] = *scan;
        segment[i].segment = i;
        segment[i].segments = segments;
        take_off(&f, ESP_REQ_SCAN, fn, ctx)->scan = &segment[i];
    }
    while (status == ESP_OK && f.count) {
        status = run(s, f.requests, f.count, err);
        if (status == ESP_OK) {
            status = land(s, &f, err);
        }
    }
    s->usage.round_trips += f.longest;
    return leave(s, status);
}

/* --- writes --------------------------------------------------------------------- */

/* What is to become of each write; the order is the order they are sorted in. */
enum fate { TO_BATCH, TO_SEND_ALONE, REFUSED, DONE };

struct writing {
    struct esp_session *s;
    struct esp_write *w;
    uint8_t *fate; /* of w[i] */
    size_t n;
    size_t batched, alone, refused; /* after sorting: so many of each at the front */
    struct esp_request *window;
    size_t undone, tried; /* in this wave */
    enum esp_status status;
    struct esp_error *err;
};

static size_t gather(struct writing *g, size_t from, enum fate fate) {
    size_t to = from;
    for (size_t i = from; i < g->n; i++) {
        if (g->fate[i] != fate) {
            continue;
        }
        if (i != to) {
            struct esp_write w = g->w[i];
            g->w[i] = g->w[to];
            g->w[to] = w;
            g->fate[i] = g->fate[to];
            g->fate[to] = (uint8_t)fate;
        }
        to++;
    }
    return to - from;
}

/* Writes to batch first, then those that go alone, then the refused; forget the done. */
static void sort_writes(struct writing *g) {
    g->batched = gather(g, 0, TO_BATCH);
    g->alone = gather(g, g->batched, TO_SEND_ALONE);
    g->refused = gather(g, g->batched + g->alone, REFUSED);
    g->n = g->batched + g->alone + g->refused;
}

static bool is_refusal(enum esp_status status) {
    return status == ESP_ERR_CONFLICT || esp_status_class(status) == ESP_CLASS_USER;
}

/* The first failure counts, but a refusal gives way to one after which nobody knows what was done:
 * the caller takes what is left for not done otherwise. */
static void note_failure(struct writing *g, const struct esp_request *r) {
    if (is_refusal(g->status) && !is_refusal(r->status)) {
        g->status = ESP_OK;
        esp_error_clear(g->err);
    }
    if (g->status == ESP_OK) {
        g->status = fail_with(r, g->err);
    }
}

/* A whole window without an answer. */
static void note_lost(struct writing *g, enum esp_status status, const struct esp_error *error) {
    if (g->status == ESP_OK || is_refusal(g->status)) {
        g->status = status;
        if (g->err) {
            *g->err = *error;
        }
    }
}

/* One wrong item makes DynamoDB refuse the whole batch: its writes go on one by one, so that
 * only the wrong one fails. */
static void take_outcome(struct writing *g, const struct esp_request *r) {
    size_t first = (size_t)(r->write.w - g->w), left = r->undone;
    enum fate fate = (enum fate)g->fate[first];
    if (r->status != ESP_OK) {
        bool split = r->write.n > 1 && esp_status_class(r->status) == ESP_CLASS_USER;
        fate = split ? TO_SEND_ALONE : REFUSED;
        /* What was done before it failed stays done; no rest known means all of it. */
        left = left > 0 && left < r->write.n ? left : r->write.n;
        if (!split) {
            note_failure(g, r);
        }
    } else {
        g->undone += left;
    }
    for (size_t i = 0; i < r->write.n; i++) {
        g->fate[first + i] = (uint8_t)(i < left ? fate : DONE);
    }
}

/* The next request of the wave from w[at]; returns past its writes. */
static size_t add_write(struct writing *g, struct esp_request *r, size_t at) {
    const struct esp_store_config *config = g->s->table->store->config;
    size_t most =
        config->batch && config->batch < BATCH_WRITES_MAX ? config->batch : BATCH_WRITES_MAX;
    size_t left = at < g->batched ? g->batched - at : 1;
    prepare(r, ESP_REQ_WRITE);
    r->write.w = g->w + at;
    r->write.n = at < g->batched && left > most ? most : left;
    return at + r->write.n;
}

static enum esp_status write_wave(struct writing *g) {
    size_t end = g->batched + g->alone;
    g->undone = 0;
    g->tried = end;
    g->s->usage.round_trips++;
    for (size_t at = 0; at < end;) {
        size_t count = 0;
        while (count < WINDOW_REQUESTS && at < end) {
            at = add_write(g, &g->window[count++], at);
        }
        struct esp_error lost = ESP_ERROR_INIT;
        enum esp_status status = run(g->s, g->window, count, &lost);
        if (status != ESP_OK) { /* none of this window is known to be done */
            note_lost(g, status, &lost);
            return status;
        }
        for (size_t i = 0; i < count; i++) {
            take_outcome(g, &g->window[i]);
        }
    }
    return ESP_OK;
}

static enum esp_status begin_writes(struct writing *g) {
    g->fate = esp_arena_alloc(&g->s->arena, g->n);
    g->window = new_window(g->s, g->n, g->err);
    if (!g->fate || !g->window) {
        return esp_fail_nomem(g->err);
    }
    for (size_t i = 0; i < g->n; i++) {
        const struct esp_write *w = &g->w[i];
        if (w->kind == ESP_CHECK) {
            return esp_fail(g->err, ESP_ERR_USAGE, "a check is for transactions only");
        }
        bool batched = w->kind != ESP_UPDATE && w->condition_count == 0;
        g->fate[i] = (uint8_t)(batched ? TO_BATCH : TO_SEND_ALONE);
    }
    return g->s->undo ? esp_undo_record(g->s, g->w, g->n, g->err) : ESP_OK;
}

enum esp_status esp_session_write(struct esp_session *s, struct esp_write *w, size_t n,
                                  size_t *left, struct esp_error *err) {
    struct resending resending = {0};
    struct writing g = {.s = s, .w = w, .n = n, .err = err};
    enum esp_status status = ESP_OK;
    if (left) {
        *left = n;
    }
    if (n == 0) {
        return ESP_OK;
    }
    enter(s);
    status = begin_writes(&g);
    if (status == ESP_OK) {
        sort_writes(&g);
    }
    while (status == ESP_OK && g.batched + g.alone > 0) {
        status = write_wave(&g);
        sort_writes(&g);
        if (status == ESP_OK && g.undone) {
            status =
                before_resend(s, &resending, g.tried, g.undone, BATCH_WRITES_MAX, "writes", err);
        }
    }
    if (left) {
        *left = g.n;
    }
    return leave(s, g.status != ESP_OK ? g.status : status);
}

enum esp_status esp_session_transact(struct esp_session *s, struct esp_write *w, size_t n,
                                     struct esp_error *err) {
    struct esp_request r;
    if (n == 0) {
        return ESP_OK;
    }
    if (n > TRANSACT_WRITES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT, "a transaction of %zu writes, at most %d", n,
                        TRANSACT_WRITES_MAX);
    }
    enter(s);
    enum esp_status status = s->undo ? esp_undo_record(s, w, n, err) : ESP_OK;
    if (status == ESP_OK) {
        prepare(&r, ESP_REQ_TRANSACT);
        r.write.w = w;
        r.write.n = n;
        status = run(s, &r, 1, err);
        s->usage.round_trips++;
    }
    if (status == ESP_OK && r.status != ESP_OK) {
        status = fail_with(&r, err);
    }
    return leave(s, status);
}

/* --- the bulk stream ------------------------------------------------------------ */

enum esp_status esp_session_bulk_put(struct esp_session *s, const struct esp_item *item,
                                     struct esp_error *err) {
    const struct esp_store_ops *ops = s->table->store->ops;
    if (!(ops->flags & ESP_STORE_REMOTE) && s->bulk.planned % BATCH_WRITES_MAX == 0) {
        s->usage.requests++; /* as an endpoint would be sent; its store counts its own */
    }
    s->bulk.planned++;
    return ops->bulk_put(s, item, err);
}

enum esp_status esp_session_bulk_flush(struct esp_session *s, struct esp_error *err) {
    enum esp_status status = s->table->store->ops->bulk_flush(s, err);
    struct esp_bulk_counts *b = &s->bulk;
    if (status != ESP_OK) { /* what is not known to be written or refused was left */
        b->left = b->planned - b->written - b->refused;
    } else if (b->planned != b->written + b->refused + b->left) {
        status = esp_fail(err, ESP_ERR_INTERNAL,
                          "the %s store was given %llu items and accounts for %llu",
                          s->table->store->ops->name, (unsigned long long)b->planned,
                          (unsigned long long)(b->written + b->refused + b->left));
    }
    return status;
}
