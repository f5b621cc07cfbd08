/* The loader against a store that refuses, fails, leaves and miscounts on demand: whatever
 * happens, planned = written + refused + left. */
#include "loader/crew.h"
#include "loader/loader.h"
#include "tests/support/support.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 3000, ARITY = 7, NODES_PER_TASK = 16, WORKERS = 4 };

/* --- a store that does as it is told ----------------------------------------------------- */

struct fake {
    uint64_t refuse_every; /* put number k * this is refused; 0: none */
    uint64_t fail_at;      /* this put fails, and all after it; 0: none */
    uint64_t stop_at;      /* this put raises the stop flag; 0: none */
    uint64_t leave_every;  /* so many are left at flush; 0: none */
    int sessions_refused;  /* session_open fails so often */
    uint64_t scanned_more; /* a scan finds so many more than were written */
    bool exists, lies;     /* lies: counts more than it was given */
    struct esp_schema existing;
    _Atomic uint64_t puts, written, sessions, creates, drops;
    volatile int stop;
    pthread_mutex_t lock;
    uint8_t *seen; /* times that the item of node number n was put (path layout) */
};

static struct fake *fake_of(struct esp_session *s) {
    return s->table->store->impl;
}

static enum esp_status fake_describe(struct esp_store *store, const char *name,
                                     struct esp_arena *arena, struct esp_table_info *out,
                                     struct esp_error *err) {
    struct fake *f = store->impl;
    (void)arena;
    if (!f->exists) {
        return esp_fail(err, ESP_ERR_NOT_FOUND, "no table %s", name);
    }
    memset(out, 0, sizeof *out);
    out->schema = f->existing;
    return ESP_OK;
}

static enum esp_status fake_create(struct esp_store *store, const char *name,
                                   const struct esp_schema *schema,
                                   const struct esp_table_options *options, struct esp_error *err) {
    struct fake *f = store->impl;
    (void)name, (void)err;
    assert_non_null(options);
    f->existing = *schema;
    f->creates++;
    return ESP_OK;
}

static enum esp_status fake_drop(struct esp_store *store, const char *name, struct esp_error *err) {
    (void)name, (void)err;
    ((struct fake *)store->impl)->drops++;
    return ESP_OK;
}

static enum esp_status fake_table_open(struct esp_table *table, struct esp_error *err) {
    (void)table, (void)err;
    return ESP_OK;
}

static void fake_table_close(struct esp_table *table) {
    (void)table;
}

static enum esp_status fake_session_open(struct esp_session *session, struct esp_error *err) {
    struct fake *f = fake_of(session);
    if (f->sessions++ < (uint64_t)f->sessions_refused) {
        return esp_fail(err, ESP_ERR_CREDENTIALS, "no session for you");
    }
    return ESP_OK;
}

static void fake_session_close(struct esp_session *session) {
    (void)session;
}

static void note_seen(struct fake *f, const struct esp_item *item) {
    if (f->seen) {
        long number = strtol(item->value[0].s.ptr + 1, NULL, 10);
        pthread_mutex_lock(&f->lock);
        f->seen[number]++;
        pthread_mutex_unlock(&f->lock);
    }
}

static enum esp_status fake_bulk_put(struct esp_session *session, const struct esp_item *item,
                                     struct esp_error *err) {
    struct fake *f = fake_of(session);
    uint64_t number = atomic_fetch_add(&f->puts, 1) + 1;
    if (f->stop_at && number == f->stop_at) {
        __atomic_store_n(&f->stop, 1, __ATOMIC_RELAXED);
    }
    if (f->fail_at && number >= f->fail_at) {
        session->bulk.left++;
        return esp_fail(err, ESP_ERR_UNAVAILABLE, "the wire is cut");
    }
    if (f->refuse_every && number % f->refuse_every == 0) {
        struct esp_error why = ESP_ERROR_INIT;
        esp_fail(&why, ESP_ERR_REFUSED, "I do not like it");
        session->bulk.refused++;
        session->on_refused(session->on_refused_ctx, item, &why);
        return ESP_OK;
    }
    note_seen(f, item);
    esp_meter_write(&session->table->schema, NULL, item, false, &session->usage);
    return ESP_OK; /* in flight: written at flush */
}

static enum esp_status fake_bulk_flush(struct esp_session *session, struct esp_error *err) {
    struct fake *f = fake_of(session);
    struct esp_bulk_counts *b = &session->bulk;
    (void)err;
    uint64_t pending = b->planned - b->refused - b->left;
    uint64_t left = f->leave_every && pending > f->leave_every ? f->leave_every : 0;
    b->left += left;
    b->written += pending - left;
    f->written += pending - left;
    if (f->lies) { /* the session layer finds out */
        b->written++;
    }
    return ESP_OK;
}

static enum esp_status fake_execute(struct esp_session *session, struct esp_request *requests,
                                    size_t n, struct esp_error *err) {
    struct fake *f = fake_of(session);
    (void)err;
    static const struct esp_item nothing;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(requests[i].kind, ESP_REQ_SCAN);
        const struct esp_scan *scan = requests[i].scan;
        uint64_t items = (f->written + f->scanned_more) / scan->segments;
        if (scan->segment == 0) {
            items += (f->written + f->scanned_more) % scan->segments;
        }
        requests[i].status = ESP_OK;
        requests[i].more = false;
        for (uint64_t k = 0; k < items; k++) {
            requests[i].fn(requests[i].ctx, &nothing);
        }
    }
    return ESP_OK;
}

static const struct esp_store_ops fake_ops = {
    .name = "fake",
    .describe_table = fake_describe,
    .create_table = fake_create,
    .drop_table = fake_drop,
    .table_open = fake_table_open,
    .table_close = fake_table_close,
    .session_open = fake_session_open,
    .session_close = fake_session_close,
    .execute = fake_execute,
    .bulk_put = fake_bulk_put,
    .bulk_flush = fake_bulk_flush,
};

/* --- the tree and one load ------------------------------------------------------------------- */

static struct esp_forest *forest;

static int make_forest(void **state) {
    (void)state;
    struct esp_forest_options options = {.source = "made"};
    struct esp_forest_builder *builder = NULL;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (int i = 0; i < NODES; i++) {
        char id[16], parent[16];
        int id_len = snprintf(id, sizeof id, "n%d", i);
        int parent_len = i ? snprintf(parent, sizeof parent, "n%d", (i - 1) / ARITY) : 0;
        struct esp_record record = {.id = {id, (size_t)id_len},
                                    .parent_id = {parent, (size_t)parent_len},
                                    .data = {"\"a\":{\"N\":\"1\"}", 13, 3}};
        assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
    }
    assert_ok(esp_forest_freeze(builder, &forest, &err), &err);
    return 0;
}

static int free_forest(void **state) {
    (void)state;
    esp_forest_free(forest);
    return 0;
}

struct outcome {
    enum esp_status status;
    struct esp_error err;
    struct esp_load_result result;
};

static void layout_open(struct esp_layout *layout, const char *name) {
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_layout_init(layout, esp_layout_find(name), NULL, &err), &err);
}

static struct outcome run(struct fake *fake, const char *layout_name,
                          struct esp_load_options options, esp_progress_fn *progress, void *ctx) {
    static const struct esp_store_config config;
    struct outcome out = {.err = ESP_ERROR_INIT};
    struct esp_layout layout;
    struct esp_table *table = NULL;
    struct esp_store store = {.ops = &fake_ops,
                              .target = "",
                              .alloc = &esp_alloc_libc,
                              .clock = &esp_clock_system,
                              .config = &config,
                              .impl = fake};
    layout_open(&layout, layout_name);
    pthread_mutex_init(&fake->lock, NULL);
    assert_ok(esp_table_open(&store, "t", &layout.schema, &table, &out.err), &out.err);
    options.nodes_per_task = NODES_PER_TASK;
    options.workers = WORKERS;
    out.status = esp_load_run(forest, &layout, table, &options, &fake->stop, progress, ctx,
                              &out.result, &out.err);
    esp_table_close(table);
    pthread_mutex_destroy(&fake->lock);
    const struct esp_load_result *r = &out.result;
    assert_true(r->items_planned == r->items_written + r->items_refused + r->items_left);
    assert_true(fake->lies ||
                r->items_planned == layout.ops->item_count(&layout, forest, 0, forest->count));
    return out;
}

/* --- tests ---------------------------------------------------------------------------------------
 */

static void every_item_is_written_once(void **state) {
    (void)state;
    struct fake fake = {.seen = calloc(NODES, 1)};
    struct outcome o = run(&fake, "path", (struct esp_load_options){.verify = true}, NULL, NULL);
    assert_status(ESP_OK, o.status);
    assert_int_equal(o.result.items_written, NODES);
    assert_int_equal(o.result.verified, 1);
    assert_int_equal(o.result.items_counted, NODES);
    assert_int_equal(o.result.usage.items_written, NODES);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(fake.seen[i], 1);
    }
    free(fake.seen);
}

static void a_replica_counts_copies(void **state) {
    (void)state;
    struct fake fake = {.exists = false};
    struct outcome o = run(&fake, "replica", (struct esp_load_options){.workers = 0}, NULL, NULL);
    assert_status(ESP_OK, o.status);
    assert_true(o.result.items_written > NODES);
    assert_int_equal(o.result.items_written, fake.written);
    assert_int_equal(o.result.verified, -1);
}

struct refusals {
    uint64_t count;
    atomic_int inside;
};

static void count_refusal(void *ctx, const struct esp_item *item, const struct esp_error *why) {
    struct refusals *r = ctx;
    assert_int_equal(r->inside++, 0); /* one at a time */
    assert_non_null(item);
    sched_yield(); /* whoever does not wait comes in now */
    assert_string_equal(why->message, "I do not like it");
    r->count++;
    r->inside--;
}

static void refused_items_are_handed_over_and_counted(void **state) {
    (void)state;
    struct fake fake = {.refuse_every = 7};
    struct refusals refusals = {.count = 0};
    struct outcome o =
        run(&fake, "path",
            (struct esp_load_options){.on_refused = count_refusal, .on_refused_ctx = &refusals},
            NULL, NULL);
    assert_status(ESP_ERR_REFUSED, o.status);
    assert_int_equal(o.result.items_refused, NODES / 7);
    assert_int_equal(refusals.count, NODES / 7);
    assert_int_equal(o.result.items_left, 0);
    assert_string_equal(o.err.message,
                        "428 of 3000 items were refused; the first: I do not like it");
}

static void the_first_failure_ends_it(void **state) {
    (void)state;
    struct fake fake = {.fail_at = 1000};
    struct outcome o = run(&fake, "path", (struct esp_load_options){.verify = true}, NULL, NULL);
    assert_status(ESP_ERR_UNAVAILABLE, o.status);
    assert_string_equal(o.err.message, "the wire is cut");
    assert_int_equal(o.result.items_written, 999);
    assert_int_equal(o.result.items_left, NODES - 999);
    assert_int_equal(o.result.verified, -1); /* a half load is not counted */
}

static void stop_is_obeyed(void **state) {
    (void)state;
    struct fake fake = {.stop_at = 500};
    struct outcome o = run(&fake, "path", (struct esp_load_options){.workers = 0}, NULL, NULL);
    assert_status(ESP_ERR_CANCELLED, o.status);
    assert_true(o.result.items_written >= 499);
    assert_true(o.result.items_left > 0);
    assert_int_equal(o.result.items_written, fake.written);
}

static void what_a_flush_leaves_is_a_failure(void **state) {
    (void)state;
    struct fake fake = {.leave_every = 1};
    struct outcome o = run(&fake, "path", (struct esp_load_options){.workers = 0}, NULL, NULL);
    assert_status(ESP_ERR_THROTTLED, o.status);
    assert_true(o.result.items_left >= 1 && o.result.items_left <= WORKERS);
}

static void a_store_that_miscounts_is_found_out(void **state) {
    (void)state;
    struct fake fake = {.lies = true};
    struct outcome o = run(&fake, "path", (struct esp_load_options){.workers = 0}, NULL, NULL);
    assert_status(ESP_ERR_INTERNAL, o.status);
}

static void a_scan_that_counts_otherwise_is_a_failure(void **state) {
    (void)state;
    struct fake fake = {.scanned_more = 1};
    struct outcome o = run(&fake, "path", (struct esp_load_options){.verify = true}, NULL, NULL);
    assert_status(ESP_ERR_INTERNAL, o.status);
    assert_int_equal(o.result.verified, 0);
    assert_int_equal(o.result.items_counted, NODES + 1);
    assert_string_equal(o.err.message, "table t holds 3001 items, 3000 were written");
    struct fake refusing = {.refuse_every = 10, .scanned_more = 1}; /* the worse of the two */
    o = run(&refusing, "path", (struct esp_load_options){.verify = true}, NULL, NULL);
    assert_status(ESP_ERR_INTERNAL, o.status);
    assert_string_equal(o.err.message, "table t holds 2701 items, 2700 were written");
}

static void a_worker_without_a_session_ends_it(void **state) {
    (void)state;
    struct fake fake = {.sessions_refused = 1};
    struct outcome o = run(&fake, "path", (struct esp_load_options){.workers = 0}, NULL, NULL);
    assert_status(ESP_ERR_CREDENTIALS, o.status);
    assert_string_equal(o.err.message, "no session for you");
}

static void remember(void *ctx, const struct esp_load_progress *progress) {
    *(struct esp_load_progress *)ctx = *progress;
}

static void the_last_progress_is_the_whole(void **state) {
    (void)state;
    struct fake fake = {.refuse_every = 10};
    struct esp_load_progress last = {.nodes_total = 0};
    struct outcome o =
        run(&fake, "replica", (struct esp_load_options){.workers = 0}, remember, &last);
    assert_int_equal(last.nodes_total, NODES);
    assert_int_equal(last.nodes_done, NODES);
    assert_int_equal(last.items_total, o.result.items_planned);
    assert_int_equal(last.items_done, o.result.items_planned);
    assert_true(last.usage.items_written == o.result.usage.items_written);
}

static void a_dry_run_touches_nothing(void **state) {
    (void)state;
    struct fake fake = {.fail_at = 1}, real = {.exists = false};
    struct outcome dry =
        run(&fake, "replica", (struct esp_load_options){.dry_run = true}, NULL, NULL);
    struct outcome wet = run(&real, "replica", (struct esp_load_options){.workers = 0}, NULL, NULL);
    assert_status(ESP_OK, dry.status);
    assert_int_equal(fake.sessions, 0);
    assert_int_equal(dry.result.items_left, dry.result.items_planned);
    assert_true(esp_units_total(&dry.result.usage.write) ==
                esp_units_total(&wet.result.usage.write));
    assert_int_equal(dry.result.usage.bytes_written, wet.result.usage.bytes_written);
}

static void a_quote_does_not_depend_on_the_workers(void **state) {
    (void)state;
    struct esp_layout layout;
    struct esp_usage one, many;
    struct esp_error err = ESP_ERROR_INIT;
    layout_open(&layout, "nested-set");
    assert_ok(esp_load_quote(forest, &layout, 1, &esp_alloc_libc, &one, &err), &err);
    assert_ok(esp_load_quote(forest, &layout, WORKERS, &esp_alloc_libc, &many, &err), &err);
    assert_int_equal(one.items_written, NODES);
    assert_memory_equal(&one, &many, sizeof one);
}

static void a_table_is_prepared_as_asked(void **state) {
    (void)state;
    struct fake fake = {.exists = false};
    struct esp_store store = {.ops = &fake_ops, .alloc = &esp_alloc_libc, .impl = &fake};
    struct esp_layout path, replica;
    struct esp_error err = ESP_ERROR_INIT;
    layout_open(&path, "path");
    layout_open(&replica, "replica");
    assert_ok(esp_table_prepare(&store, "t", &path.schema, ESP_IF_EXISTS_FAIL, NULL, &err), &err);
    assert_int_equal(fake.creates, 1);
    fake.exists = true; /* and is what create was given */
    assert_status(ESP_ERR_EXISTS,
                  esp_table_prepare(&store, "t", &path.schema, ESP_IF_EXISTS_FAIL, NULL, &err));
    assert_string_equal(err.message, "table t exists already");
    esp_error_clear(&err);
    assert_ok(esp_table_prepare(&store, "t", &path.schema, ESP_IF_EXISTS_APPEND, NULL, &err), &err);
    assert_status(ESP_ERR_REFUSED, esp_table_prepare(&store, "t", &replica.schema,
                                                     ESP_IF_EXISTS_APPEND, NULL, NULL));
    assert_int_equal(fake.creates, 1);
    assert_int_equal(fake.drops, 0);
    assert_ok(esp_table_prepare(&store, "t", &replica.schema, ESP_IF_EXISTS_REPLACE, NULL, &err),
              &err);
    assert_int_equal(fake.drops, 1);
    assert_int_equal(fake.creates, 2);
}

static void a_crew_is_as_big_as_makes_sense(void **state) {
    (void)state;
    assert_int_equal(esp_crew_size(3, 100), 3);
    assert_int_equal(esp_crew_size(8, 2), 2);
    assert_int_equal(esp_crew_size(8, 0), 1);
    assert_int_equal(esp_crew_size(1 << 20, 1 << 20), ESP_CREW_MAX);
    assert_true(esp_crew_size(0, 1 << 20) >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_written_once),
        cmocka_unit_test(a_replica_counts_copies),
        cmocka_unit_test(refused_items_are_handed_over_and_counted),
        cmocka_unit_test(the_first_failure_ends_it),
        cmocka_unit_test(stop_is_obeyed),
        cmocka_unit_test(what_a_flush_leaves_is_a_failure),
        cmocka_unit_test(a_store_that_miscounts_is_found_out),
        cmocka_unit_test(a_scan_that_counts_otherwise_is_a_failure),
        cmocka_unit_test(a_worker_without_a_session_ends_it),
        cmocka_unit_test(the_last_progress_is_the_whole),
        cmocka_unit_test(a_dry_run_touches_nothing),
        cmocka_unit_test(a_quote_does_not_depend_on_the_workers),
        cmocka_unit_test(a_table_is_prepared_as_asked),
        cmocka_unit_test(a_crew_is_as_big_as_makes_sense),
    };
    return cmocka_run_group_tests(tests, make_forest, free_forest);
}
