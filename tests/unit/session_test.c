/*
 * The session layer over a scripted store: splitting, waves, pages, what is left undone,
 * failures, the counts, and undo.
 */
#include "stores/undo.h"
#include "tests/support/support.h"

/* --- the scripted store ----------------------------------------------------------- */

/* It keeps numbers 0..KEYS-1 as items n = number; the script says how it answers. */
enum { KEYS = 20000, LOG = 512 };

static struct script {
    bool there[KEYS];
    int64_t payload[KEYS];
    size_t undone_next;            /* of each of the next batches this many are left undone ... */
    unsigned undone_batches;       /* ... for so many batches */
    enum esp_status undone_status; /* of those batches */
    uint64_t pages; /* of every query and scan; the query's pk, the scan's segment adds to it */
    int64_t refuse; /* a write of this number is refused; -1: none */
    enum esp_status fail; /* the whole call fails ... */
    unsigned fail_after;  /* ... when so many calls were fine */
    bool flush_loses;     /* the bulk stream forgets one item */
    unsigned stuck_at; /* from this page on (1: the second) the cursor does not move; 0: it does */
    bool cursor_lost;  /* more pages are to come, and there is no cursor */

    struct {
        enum esp_request_kind kind;
        size_t n;
    } log[LOG];
    size_t logged, calls, window_max;
} script;

static struct esp_schema number_schema(void) {
    struct esp_schema s = {.attr_count = 2, .pk = 0, .sk = -1};
    s.attr[0] = (struct esp_attr){ESP_STR("n"), ESP_TYPE_N};
    s.attr[1] = (struct esp_attr){ESP_STR("x"), ESP_TYPE_NONE};
    return s;
}

static struct esp_item number_item(int64_t n, int64_t x) {
    return (struct esp_item){.value = {esp_n(n), esp_n(x)}};
}

static size_t leave_undone(size_t n) {
    if (script.undone_batches == 0) {
        return 0;
    }
    script.undone_batches--;
    return script.undone_next < n ? script.undone_next : n;
}

static void answer_get(struct esp_session *s, struct esp_request *r) {
    r->undone = leave_undone(r->get.n);
    for (size_t i = 0; i < r->get.n && r->status == ESP_OK; i++) {
        int64_t n = r->get.keys[i].value[0].n;
        if (i < r->undone) { /* the first ones, which are at the front already */
            continue;
        }
        esp_meter_get(script.there[n] ? 5 : 0, r->get.consistency, &s->usage);
        if (script.there[n]) {
            struct esp_item item = number_item(n, script.payload[n]);
            s->usage.items_returned++;
            r->status = r->fn(r->ctx, &item);
        }
    }
}

static void answer_page(struct esp_session *s, struct esp_request *r) {
    uint64_t pages =
        script.pages + (r->kind == ESP_REQ_QUERY ? (uint64_t)r->query->pk.n : r->scan->segment);
    int64_t page = r->cursor->set ? r->cursor->key.value[0].n : 0;
    struct esp_item item = number_item(page, 0);
    esp_meter_page(-1, 5, 1, false, &s->usage);
    r->status = r->fn(r->ctx, &item);
    r->more = (uint64_t)page + 1 < pages;
    if (r->more && script.cursor_lost) {
        r->cursor->set = false;
    } else if (r->more && !(script.stuck_at && page >= (int64_t)script.stuck_at)) {
        item = number_item(page + 1, 0);
        esp_cursor_set(r->cursor, &s->table->schema, ESP_PRIMARY, &item);
    }
}

static void answer_write(struct esp_session *s, struct esp_request *r) {
    bool batch = r->write.n > 1;
    for (size_t i = 0; i < r->write.n; i++) {
        const struct esp_write *w = &r->write.w[i];
        assert_true(!batch || (w->kind != ESP_UPDATE && w->condition_count == 0) ||
                    r->kind == ESP_REQ_TRANSACT);
        if (w->item.value[0].n == script.refuse) { /* nothing of a batch is written then */
            r->status = esp_fail(&r->error, ESP_ERR_REFUSED, "number %lld is refused",
                                 (long long)script.refuse);
            return;
        }
        if (w->condition_count && !script.there[w->item.value[0].n]) {
            r->status = esp_fail(&r->error, ESP_ERR_CONDITION, "nothing there");
            return;
        }
    }
    r->undone = r->kind == ESP_REQ_WRITE ? leave_undone(r->write.n) : 0;
    if (r->undone && script.undone_status != ESP_OK) {
        r->status = esp_fail(&r->error, script.undone_status, "the rest was not accepted");
    }
    for (size_t i = r->undone; i < r->write.n; i++) {
        const struct esp_write *w = &r->write.w[i];
        int64_t n = w->item.value[0].n;
        esp_meter_write(&s->table->schema, NULL, &w->item, false, &s->usage);
        script.there[n] = w->kind != ESP_DELETE;
        script.payload[n] = w->kind == ESP_UPDATE ? w->changes[0].value.n : w->item.value[1].n;
    }
}

static enum esp_status execute(struct esp_session *s, struct esp_request *requests, size_t n,
                               struct esp_error *err) {
    assert_true(n >= 1);
    script.window_max = n > script.window_max ? n : script.window_max;
    if (script.fail != ESP_OK && script.calls++ >= script.fail_after) {
        return esp_fail(err, script.fail, "scripted failure");
    }
    for (size_t i = 0; i < n; i++) {
        struct esp_request *r = &requests[i];
        bool writes = r->kind == ESP_REQ_WRITE || r->kind == ESP_REQ_TRANSACT;
        assert_int_equal(r->status, ESP_OK);
        assert_int_equal(r->undone, 0);
        assert_false(r->more);
        s->usage.requests++;
        if (script.logged < LOG) {
            script.log[script.logged].kind = r->kind;
            script.log[script.logged++].n = r->kind == ESP_REQ_GET ? r->get.n
                                            : writes               ? r->write.n
                                                                   : 1;
        }
        if (r->kind == ESP_REQ_GET) {
            answer_get(s, r);
        } else if (writes) {
            answer_write(s, r);
        } else {
            answer_page(s, r);
        }
    }
    return ESP_OK;
}

static enum esp_status session_open(struct esp_session *s, struct esp_error *err) {
    (void)s, (void)err;
    return ESP_OK;
}

static void session_close(struct esp_session *s) {
    (void)s;
}

static enum esp_status bulk_put(struct esp_session *s, const struct esp_item *item,
                                struct esp_error *err) {
    if (script.fail != ESP_OK) {
        return esp_fail(err, script.fail, "scripted failure");
    }
    if (item->value[0].n == script.refuse) {
        s->bulk.refused++;
    } else {
        s->bulk.written++;
    }
    return ESP_OK;
}

static enum esp_status bulk_flush(struct esp_session *s, struct esp_error *err) {
    if (script.flush_loses) {
        s->bulk.written--;
    }
    return script.fail == ESP_OK ? ESP_OK : esp_fail(err, script.fail, "scripted failure");
}

static const struct esp_store_ops ops = {.name = "scripted",
                                         .schemes = "scripted:",
                                         .execute = execute,
                                         .session_open = session_open,
                                         .session_close = session_close,
                                         .bulk_put = bulk_put,
                                         .bulk_flush = bulk_flush};

static struct esp_virtual_clock time_now;
static struct esp_clock the_clock;
static const struct esp_store_config config = {.seed = 7};
static struct esp_store store;
static struct esp_table table;
static struct esp_session *session;

static int open_session(void **state) {
    (void)state;
    memset(&script, 0, sizeof script);
    script.refuse = -1;
    script.pages = 1;
    time_now = (struct esp_virtual_clock){1000, 0};
    the_clock = esp_clock_virtual(&time_now);
    store = (struct esp_store){&ops, "", &esp_alloc_libc, &the_clock, &config, NULL};
    table = (struct esp_table){.store = &store, .name = "t", .schema = number_schema()};
    return esp_session_open(&table, &session, NULL) == ESP_OK ? 0 : -1;
}

static int close_session(void **state) {
    (void)state;
    esp_session_close(session);
    return 0;
}

static enum esp_status count(void *ctx, const struct esp_item *item) {
    (void)item;
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static enum esp_status stop_at_once(void *ctx, const struct esp_item *item) {
    (void)item;
    ++*(uint64_t *)ctx;
    return ESP_STOP;
}

/* --- reads -------------------------------------------------------------------------- */

static struct esp_item keys[KEYS];

static void fill_keys(size_t n) {
    for (size_t i = 0; i < n; i++) {
        keys[i] = number_item((int64_t)i, 0);
        script.there[i] = true;
    }
}

static void gets_are_split_and_overlap(void **state) {
    (void)state;
    uint64_t got = 0;
    fill_keys(10050);
    script.there[3] = false;
    assert_status(ESP_OK, esp_session_get(session, keys, 10050, true, count, &got, NULL));
    assert_int_equal(got, 10049);
    assert_int_equal(session->usage.requests, 101);
    assert_int_equal(session->usage.round_trips, 1);
    assert_int_equal(script.window_max, 64);
    assert_int_equal(script.log[0].n, 100);
    assert_int_equal(script.log[100].n, 50);
    assert_true(session->usage.read.table == 10050);
    assert_status(ESP_OK, esp_session_get(session, keys, 0, true, count, &got, NULL));
    assert_int_equal(session->usage.requests, 101);
}

static void keys_left_undone_are_asked_again(void **state) {
    (void)state;
    uint64_t got = 0;
    fill_keys(250);
    script.undone_next = 40;
    script.undone_batches = 3;
    assert_status(ESP_OK, esp_session_get(session, keys, 250, false, count, &got, NULL));
    assert_int_equal(got, 250);
    /* 100 100 50, then the 120 that were left */
    assert_int_equal(session->usage.requests, 5);
    assert_int_equal(session->usage.round_trips, 2);
    assert_int_equal(script.log[3].n, 100);
    assert_int_equal(script.log[4].n, 20);
    /* an answer that was cut is no throttling: going on is no retry and does not wait */
    assert_int_equal(session->usage.retries, 0);
    assert_true(time_now.now_ns == 1000);
    /* nothing at all is */
    fill_keys(30);
    script.undone_next = 30;
    script.undone_batches = 1;
    assert_status(ESP_OK, esp_session_get(session, keys, 30, false, count, &got, NULL));
    assert_int_equal(session->usage.retries, 1);
    assert_true(time_now.now_ns > 1000 && time_now.now_ns <= 1000 + 100000000);
}

static void keys_that_never_come(void **state) {
    (void)state;
    uint64_t got = 0;
    struct esp_error err = ESP_ERROR_INIT;
    fill_keys(30);
    script.undone_next = 100;
    script.undone_batches = 1000;
    assert_status(ESP_ERR_THROTTLED, esp_session_get(session, keys, 30, false, count, &got, &err));
    assert_string_equal(err.message, "30 keys were left undone 10 times");
    assert_int_equal(got, 0);
    assert_int_equal(session->usage.requests, 10);
    assert_true(time_now.now_ns < 60ull * 1000000000);
}

static void a_callback_stops_reads(void **state) {
    (void)state;
    uint64_t got = 0;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_query q = {.index = ESP_PRIMARY, .pk = esp_n(9)};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    fill_keys(250);
    assert_status(ESP_STOP, esp_session_get(session, keys, 1, true, stop_at_once, &got, &err));
    assert_status(ESP_STOP, esp_session_query(session, &q, stop_at_once, &got, &err));
    script.pages = 5;
    assert_status(ESP_STOP, esp_session_scan(session, &scan, stop_at_once, &got, &err));
    assert_int_equal(got, 3);
    assert_int_equal(err.status, ESP_OK);
}

static void pages_are_followed(void **state) {
    (void)state;
    uint64_t got = 0;
    struct esp_query q = {.index = ESP_PRIMARY, .pk = esp_n(4)};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    assert_status(ESP_OK, esp_session_query(session, &q, count, &got, NULL));
    assert_int_equal(got, 5);
    assert_int_equal(session->usage.round_trips, 5);
    script.pages = 3;
    assert_status(ESP_OK, esp_session_scan(session, &scan, count, &got, NULL));
    assert_int_equal(got, 8);
    assert_int_equal(session->usage.round_trips, 8);

    struct esp_cursor cursor = {.set = false};
    bool more;
    q.pk.n = -1; /* two pages */
    assert_status(ESP_OK, esp_session_query_page(session, &q, &cursor, &more, count, &got, NULL));
    assert_true(more);
    assert_status(ESP_OK, esp_session_query_page(session, &q, &cursor, &more, count, &got, NULL));
    assert_false(more);
    assert_int_equal(got, 10);
}

static void reads_fail_that_do_not_go_on(uint64_t pages_read) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_query q[2] = {{.index = ESP_PRIMARY, .pk = esp_n(0)},
                             {.index = ESP_PRIMARY, .pk = esp_n(-4)}};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    uint64_t got = 0;
    script.pages = 5;
    assert_status(ESP_ERR_INTERNAL, esp_session_query(session, q, count, &got, &err));
    assert_non_null(strstr(err.message, "does not go on"));
    assert_int_equal(got, pages_read);
    assert_status(ESP_ERR_INTERNAL, esp_session_scan(session, &scan, count, &got, NULL));
    assert_int_equal(got, 2 * pages_read);
    /* the second query has one page */
    assert_status(ESP_ERR_INTERNAL, esp_session_query_many(session, q, 2, count, &got, NULL));
    assert_int_equal(got, 3 * pages_read + 1);
    assert_status(ESP_ERR_INTERNAL, esp_session_scan_many(session, &scan, 1, count, &got, NULL));
    assert_int_equal(got, 4 * pages_read + 1);
}

static void a_cursor_that_stands_still_is_no_endless_read(void **state) {
    (void)state;
    script.stuck_at = 2;
    reads_fail_that_do_not_go_on(3);
    script.cursor_lost = true;
    reads_fail_that_do_not_go_on(1);
}

/* 200 queries of 1 to 5 pages each, 64 in flight. */
static void many_queries_overlap(void **state) {
    (void)state;
    static struct esp_query q[200];
    uint64_t got = 0, pages = 0;
    for (size_t i = 0; i < 200; i++) {
        q[i] = (struct esp_query){.index = ESP_PRIMARY, .pk = esp_n((int64_t)(i * 7 % 5))};
        pages += 1 + i * 7 % 5;
    }
    assert_status(ESP_OK, esp_session_query_many(session, q, 200, count, &got, NULL));
    assert_int_equal(got, pages);
    assert_int_equal(session->usage.requests, pages);
    assert_int_equal(session->usage.round_trips, 5);
    assert_int_equal(script.window_max, 64);
    assert_status(ESP_STOP, esp_session_query_many(session, q, 200, stop_at_once, &got, NULL));
}

/* 8 segments of 1 to 8 pages, each asked for once a round trip. */
static void segments_of_a_scan_overlap(void **state) {
    (void)state;
    uint64_t got = 0;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_scan scan = {.index = ESP_PRIMARY};
    assert_status(ESP_OK, esp_session_scan_many(session, &scan, 8, count, &got, NULL));
    assert_int_equal(got, 36);
    assert_int_equal(session->usage.requests, 36);
    assert_int_equal(session->usage.round_trips, 8);
    assert_int_equal(script.window_max, 8);
    assert_status(ESP_OK, esp_session_scan_many(session, &scan, 1, count, &got, NULL));
    assert_int_equal(got, 37);
    assert_status(ESP_STOP, esp_session_scan_many(session, &scan, 8, stop_at_once, &got, &err));
    assert_int_equal(err.status, ESP_OK);
    assert_status(ESP_ERR_USAGE, esp_session_scan_many(session, &scan, 65, count, &got, NULL));
    assert_status(ESP_ERR_USAGE, esp_session_scan_many(session, &scan, 0, count, &got, NULL));
}

/* --- writes ------------------------------------------------------------------------- */

static struct esp_write writes[KEYS];

static void fill_writes(size_t n, enum esp_write_kind kind) {
    for (size_t i = 0; i < n; i++) {
        writes[i] = (struct esp_write){.kind = kind, .item = number_item((int64_t)i, 5)};
    }
}

static size_t how_many_there(void) {
    size_t n = 0;
    for (size_t i = 0; i < KEYS; i++) {
        n += script.there[i];
    }
    return n;
}

static void writes_are_batched_or_single(void **state) {
    (void)state;
    static const struct esp_change change = {
        ESP_CHANGE_SET, {"x", 1}, {.type = ESP_TYPE_N, .n = 9}};
    struct esp_condition exists = {ESP_STR("n"), ESP_EXISTS, {0}, {0}};
    size_t left = 99, batches = 0, singles = 0;
    fill_writes(60, ESP_PUT);
    script.there[20] = script.there[30] = true;
    writes[10].kind = ESP_UPDATE;
    writes[10].changes = &change;
    writes[10].change_count = 1;
    writes[20].condition = &exists;
    writes[20].condition_count = 1;
    writes[30].kind = ESP_DELETE;
    assert_status(ESP_OK, esp_session_write(session, writes, 60, &left, NULL));
    assert_int_equal(left, 0);
    assert_int_equal(how_many_there(), 59);
    assert_int_equal(script.payload[10], 9);
    for (size_t i = 0; i < script.logged; i++) {
        batches += script.log[i].n > 1;
        singles += script.log[i].n == 1;
        assert_true(script.log[i].n <= 25);
    }
    assert_int_equal(batches, 3); /* 58 = 25 + 25 + 8 */
    assert_int_equal(singles, 2);
    assert_int_equal(session->usage.round_trips, 1);
    assert_int_equal(session->usage.items_written, 60);
}

static void writes_left_undone_are_sent_again(void **state) {
    (void)state;
    size_t left = 99;
    fill_writes(2000, ESP_PUT);
    script.undone_next = 3;
    script.undone_batches = 90;
    assert_status(ESP_OK, esp_session_write(session, writes, 2000, &left, NULL));
    assert_int_equal(left, 0);
    assert_int_equal(how_many_there(), 2000);
    assert_int_equal(session->usage.items_written, 2000);
    /* 80 batches leave 240: 10 batches leave 30: 2 batches */
    assert_int_equal(session->usage.requests, 80 + 10 + 2);
    assert_int_equal(session->usage.round_trips, 3);
    assert_int_equal(session->usage.retries, 0);
    assert_true(time_now.now_ns == 1000);
}

static void writes_that_are_never_done(void **state) {
    (void)state;
    size_t left = 99;
    struct esp_error err = ESP_ERROR_INIT;
    fill_writes(30, ESP_PUT);
    script.undone_next = 5;
    script.undone_batches = 1000;
    /* 25 and 5: the first leaves 5, the second all */
    assert_status(ESP_ERR_THROTTLED, esp_session_write(session, writes, 30, &left, &err));
    assert_int_equal(left, 5);
    assert_int_equal(how_many_there(), 25);
    for (size_t i = 0; i < left; i++) {
        assert_false(script.there[writes[i].item.value[0].n]);
    }
}

/* A batch of which a part was done before the store gave up: only the rest is left. */
static void a_batch_that_failed_half_way(void **state) {
    (void)state;
    static const enum esp_status failures[] = {ESP_ERR_THROTTLED, ESP_ERR_UNAVAILABLE};
    for (size_t i = 0; i < 2; i++) {
        size_t left = 99;
        memset(script.there, 0, sizeof script.there);
        fill_writes(60, ESP_PUT);
        script.undone_status = failures[i];
        script.undone_next = 3;
        script.undone_batches = 2;
        enum esp_status status = esp_session_write(session, writes, 60, &left, NULL);
        assert_int_equal(status, failures[i]);
        assert_int_equal(left, 6);
        assert_int_equal(how_many_there(), 54);
        for (size_t k = 0; k < left; k++) {
            assert_false(script.there[writes[k].item.value[0].n]);
        }
        script.undone_next = 25; /* nothing of it */
        script.undone_batches = 1;
        fill_writes(60, ESP_DELETE);
        assert_int_equal(esp_session_write(session, writes, 60, &left, NULL), failures[i]);
        assert_int_equal(left, 25);
    }
}

static void one_refused_write_fails_alone(void **state) {
    (void)state;
    size_t left = 99;
    struct esp_error err = ESP_ERROR_INIT;
    fill_writes(60, ESP_PUT);
    script.refuse = 30;
    assert_status(ESP_ERR_REFUSED, esp_session_write(session, writes, 60, &left, &err));
    assert_string_equal(err.message, "number 30 is refused");
    assert_int_equal(left, 1);
    assert_int_equal(writes[0].item.value[0].n, 30);
    assert_int_equal(how_many_there(), 59);
    assert_int_equal(session->usage.items_written, 59);
}

static void a_condition_that_does_not_hold(void **state) {
    (void)state;
    struct esp_condition exists = {ESP_STR("n"), ESP_EXISTS, {0}, {0}};
    size_t left = 99;
    fill_writes(5, ESP_PUT);
    writes[1].condition = &exists;
    writes[1].condition_count = 1;
    assert_status(ESP_ERR_CONDITION, esp_session_write(session, writes, 5, &left, NULL));
    assert_int_equal(left, 1);
    assert_int_equal(writes[0].item.value[0].n, 1);
    assert_int_equal(how_many_there(), 4);
}

static void an_unreachable_store_leaves_the_rest(void **state) {
    (void)state;
    size_t left = 99;
    struct esp_error err = ESP_ERROR_INIT;
    fill_writes(5000, ESP_PUT);
    script.fail = ESP_ERR_UNAVAILABLE;
    script.fail_after = 2; /* two windows of 64 batches are fine */
    assert_status(ESP_ERR_UNAVAILABLE, esp_session_write(session, writes, 5000, &left, &err));
    assert_string_equal(err.message, "scripted failure");
    assert_int_equal(left, 5000 - 2 * 64 * 25);
    for (size_t i = 0; i < left; i++) {
        assert_false(script.there[writes[i].item.value[0].n]);
    }
}

static void transactions_are_whole(void **state) {
    (void)state;
    fill_writes(101, ESP_PUT);
    assert_status(ESP_OK, esp_session_transact(session, writes, 100, NULL));
    assert_int_equal(script.log[0].kind, ESP_REQ_TRANSACT);
    assert_int_equal(script.log[0].n, 100);
    assert_int_equal(session->usage.round_trips, 1);
    assert_status(ESP_ERR_LIMIT, esp_session_transact(session, writes, 101, NULL));
    script.refuse = 7;
    assert_status(ESP_ERR_REFUSED, esp_session_transact(session, writes, 100, NULL));
    assert_status(ESP_OK, esp_session_transact(session, writes, 0, NULL));
    writes[0].kind = ESP_CHECK;
    assert_status(ESP_ERR_USAGE, esp_session_write(session, writes, 1, NULL, NULL));
}

/* --- limits ------------------------------------------------------------------------- */

static void a_stop_and_a_deadline_are_obeyed(void **state) {
    (void)state;
    int stop = 1;
    uint64_t got = 0;
    struct esp_query q = {.index = ESP_PRIMARY, .pk = esp_n(4)};
    session->stop = &stop;
    assert_status(ESP_ERR_CANCELLED, esp_session_query(session, &q, count, &got, NULL));
    stop = 0;
    session->deadline_ns = time_now.now_ns;
    assert_status(ESP_ERR_UNAVAILABLE, esp_session_query(session, &q, count, &got, NULL));
    assert_int_equal(got, 0);
    /* waiting for a resend ends at the deadline */
    session->deadline_ns = time_now.now_ns + 200000000;
    fill_writes(5, ESP_PUT);
    script.undone_next = 5;
    script.undone_batches = 1000;
    assert_status(ESP_ERR_UNAVAILABLE, esp_session_write(session, writes, 5, NULL, NULL));
    assert_true(time_now.now_ns < session->deadline_ns + 50000000);
}

static void bulk_counts_add_up(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    script.refuse = 3;
    for (int64_t i = 0; i < 10; i++) {
        struct esp_item item = number_item(i, 0);
        assert_ok(esp_session_bulk_put(session, &item, &err), &err);
    }
    assert_ok(esp_session_bulk_flush(session, &err), &err);
    assert_int_equal(session->bulk.planned, 10);
    assert_int_equal(session->bulk.written, 9);
    assert_int_equal(session->bulk.refused, 1);
    struct esp_item more = number_item(11, 0);
    script.fail = ESP_ERR_UNAVAILABLE;
    assert_status(ESP_ERR_UNAVAILABLE, esp_session_bulk_put(session, &more, NULL));
    assert_status(ESP_ERR_UNAVAILABLE, esp_session_bulk_flush(session, NULL));
    assert_int_equal(session->bulk.left, 1);
    script.fail = ESP_OK;
    assert_ok(esp_session_bulk_flush(session, &err), &err);
    script.flush_loses = true; /* a store that cannot account for an item is broken */
    assert_status(ESP_ERR_INTERNAL, esp_session_bulk_flush(session, &err));
}

/* --- undo --------------------------------------------------------------------------- */

static void undo_puts_everything_back(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    static const struct esp_change change = {
        ESP_CHANGE_SET, {"x", 1}, {.type = ESP_TYPE_N, .n = 9}};
    for (size_t i = 0; i < 300; i++) {
        script.there[i] = i % 2 == 0;
        script.payload[i] = (int64_t)i;
    }
    assert_ok(esp_undo_begin(session, &err), &err);
    for (int round = 0; round < 3; round++) {
        fill_writes(300, ESP_PUT);
        struct esp_usage before = session->usage;
        assert_ok(esp_session_write(session, writes, 300, NULL, &err), &err);
        assert_int_equal(how_many_there(), 300);
        assert_int_equal(session->usage.requests - before.requests, 12);
        assert_int_equal(session->usage.items_read, 0);
        assert_int_equal(session->usage.round_trips - before.round_trips, 1);
        /* a second write of the same keys does not move the image */
        writes[0] = (struct esp_write){
            .kind = ESP_UPDATE, .item = number_item(0, 0), .changes = &change, .change_count = 1};
        writes[1] = (struct esp_write){.kind = ESP_DELETE, .item = number_item(1, 0)};
        assert_ok(esp_session_transact(session, writes, 2, &err), &err);
        before = session->usage;
        assert_ok(esp_undo_rollback(session, &err), &err);
        assert_memory_equal(&before, &session->usage, sizeof before);
        for (size_t i = 0; i < 300; i++) {
            assert_int_equal(script.there[i], i % 2 == 0);
            assert_true(!script.there[i] || script.payload[i] == (int64_t)i);
        }
    }
    assert_int_equal(esp_undo_end(session, NULL), ESP_OK);
    fill_writes(1, ESP_DELETE);
    assert_ok(esp_session_write(session, writes, 1, NULL, &err), &err);
    assert_ok(esp_undo_rollback(session, &err), &err);
    assert_false(script.there[0]);
}

/* Whatever the session was stopped for: closing it leaves nothing half written. */
static void closing_takes_back_what_undo_recorded(void **state) {
    (void)state;
    static const int stop = 1;
    struct esp_error err = ESP_ERROR_INIT;
    for (int closing = 0; closing < 2; closing++) {
        script.there[2] = true;
        assert_ok(esp_undo_begin(session, &err), &err);
        fill_writes(60, ESP_PUT);
        assert_ok(esp_session_write(session, writes, 60, NULL, &err), &err);
        session->stop = &stop;
        session->deadline_ns = 1;
        if (closing) {
            esp_session_close(session);
            assert_ok(esp_session_open(&table, &session, &err), &err);
        } else {
            assert_ok(esp_undo_abandon(session, &err), &err);
            assert_ptr_equal(session->stop, &stop);
            assert_true(session->deadline_ns == 1);
            assert_null(session->undo);
            session->stop = NULL;
            session->deadline_ns = 0;
        }
        assert_int_equal(how_many_there(), 1);
    }
    assert_int_equal(esp_undo_abandon(session, &err), ESP_OK); /* off is fine */
    assert_ok(esp_undo_begin(session, &err), &err);
    fill_writes(5, ESP_PUT);
    assert_ok(esp_session_write(session, writes, 5, NULL, &err), &err);
    script.fail = ESP_ERR_UNAVAILABLE; /* it cannot put them back */
    assert_int_equal(esp_undo_abandon(session, NULL), ESP_ERR_UNAVAILABLE);
    assert_null(session->undo);
}

static void undo_that_cannot_read_does_not_write(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_undo_begin(session, &err), &err);
    fill_writes(5, ESP_PUT);
    script.fail = ESP_ERR_UNAVAILABLE;
    size_t left = 0;
    assert_status(ESP_ERR_UNAVAILABLE, esp_session_write(session, writes, 5, &left, NULL));
    assert_int_equal(left, 5);
    assert_int_equal(how_many_there(), 0);
    script.fail = ESP_OK;
    script.there[2] = true;
    assert_ok(esp_session_write(session, writes, 5, &left, &err), &err);
    script.undone_next = 3; /* images and puts that come late */
    script.undone_batches = 1;
    assert_ok(esp_undo_rollback(session, &err), &err);
    assert_int_equal(how_many_there(), 1);
    assert_true(esp_undo_overhead_ns(session) == 0);
}

static void undo_accounts_its_time(void **state) {
    (void)state;
    assert_status(ESP_OK, esp_undo_begin(session, NULL));
    fill_writes(5, ESP_PUT);
    script.undone_next = 5; /* so that reading the images waits */
    script.undone_batches = 1;
    uint64_t begin_ns = time_now.now_ns;
    assert_status(ESP_OK, esp_session_write(session, writes, 5, NULL, NULL));
    assert_true(esp_undo_overhead_ns(session) > 0);
    assert_true(esp_undo_overhead_ns(session) == time_now.now_ns - begin_ns);
    assert_status(ESP_OK, esp_undo_rollback(session, NULL));
    assert_true(esp_undo_overhead_ns(session) == 0);
}

static char trial_calls[32];

static enum esp_status trial_begin(struct esp_session *s, struct esp_error *err) {
    (void)s, (void)err;
    trial_calls[strlen(trial_calls)] = 'b';
    return ESP_OK;
}

static enum esp_status trial_end(struct esp_session *s, bool keep, struct esp_error *err) {
    (void)s, (void)err;
    trial_calls[strlen(trial_calls)] = keep ? 'k' : 'r';
    return ESP_OK;
}

/* A store that can take writes back itself is not asked for images. */
static void undo_by_trials_reads_nothing(void **state) {
    (void)state;
    static struct esp_store_ops trying;
    trying = ops;
    trying.trial_begin = trial_begin;
    trying.trial_end = trial_end;
    store.ops = &trying;
    memset(trial_calls, 0, sizeof trial_calls);
    fill_writes(5, ESP_PUT);
    assert_status(ESP_OK, esp_undo_begin(session, NULL));
    assert_status(ESP_OK, esp_session_write(session, writes, 5, NULL, NULL));
    assert_status(ESP_OK, esp_undo_rollback(session, NULL));
    assert_int_equal(session->usage.requests, 1);
    assert_int_equal(script.logged, 1);
    assert_status(ESP_OK, esp_undo_begin(session, NULL)); /* nothing was written: nothing kept */
    fill_writes(5, ESP_PUT);
    assert_status(ESP_OK, esp_session_write(session, writes, 5, NULL, NULL));
    assert_int_equal(esp_undo_end(session, NULL), ESP_OK);
    assert_int_equal(esp_undo_end(session, NULL), ESP_OK);
    assert_string_equal(trial_calls, "brbrbk");
}

/* --- cursors ------------------------------------------------------------------------ */

static void cursors_hold_their_keys(void **state) {
    (void)state;
    struct esp_schema s = {.attr_count = 3, .pk = 0, .sk = 1, .index_count = 1};
    s.index[0] = (struct esp_index){.pk = 2, .sk = 1};
    char pk[] = "tree", sk[] = "/a", index_pk[] = "7";
    struct esp_item item = {.value = {esp_s((struct esp_str){pk, 4}),
                                      esp_s((struct esp_str){sk, 2}),
                                      esp_s((struct esp_str){index_pk, 1})}};
    struct esp_cursor cursor;
    esp_cursor_set(&cursor, &s, 0, &item);
    memset(pk, 0, 4), memset(sk, 0, 2), memset(index_pk, 0, 1);
    assert_true(cursor.set);
    assert_true(esp_str_eq(cursor.key.value[0].s, ESP_STR("tree")));
    assert_true(esp_str_eq(cursor.key.value[1].s, ESP_STR("/a")));
    assert_true(esp_str_eq(cursor.key.value[2].s, ESP_STR("7")));
    esp_cursor_set(&cursor, &s, ESP_PRIMARY, &cursor.key); /* from itself */
    assert_true(esp_str_eq(cursor.key.value[1].s, ESP_STR("/a")));
    assert_int_equal(cursor.key.value[2].type, ESP_TYPE_NONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_session, close_session)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(gets_are_split_and_overlap),
        TEST(keys_left_undone_are_asked_again),
        TEST(keys_that_never_come),
        TEST(a_callback_stops_reads),
        TEST(pages_are_followed),
        TEST(a_cursor_that_stands_still_is_no_endless_read),
        TEST(many_queries_overlap),
        TEST(segments_of_a_scan_overlap),
        TEST(writes_are_batched_or_single),
        TEST(writes_left_undone_are_sent_again),
        TEST(writes_that_are_never_done),
        TEST(a_batch_that_failed_half_way),
        TEST(one_refused_write_fails_alone),
        TEST(a_condition_that_does_not_hold),
        TEST(an_unreachable_store_leaves_the_rest),
        TEST(transactions_are_whole),
        TEST(a_stop_and_a_deadline_are_obeyed),
        TEST(bulk_counts_add_up),
        TEST(undo_puts_everything_back),
        TEST(closing_takes_back_what_undo_recorded),
        TEST(undo_that_cannot_read_does_not_write),
        TEST(undo_accounts_its_time),
        TEST(undo_by_trials_reads_nothing),
        TEST(cursors_hold_their_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
