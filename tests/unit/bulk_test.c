/*
 * The bulk stream of the embedded stores: whatever the order, the number, the duplicates, the
 * memory and the threads, the table is what single puts would have made of it.
 */
#include "stores/bulk_load.h"
#include "stores/bulk_run.h"
#include "table_model.h"
#include "tests/support/alloc.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static const char *const urls[] = {"memory:", "local:"};

struct fixture {
    struct esp_schema schema;
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_error err;
};

static struct esp_attr attr(const char *name, enum esp_type type) {
    return (struct esp_attr){esp_str_from(name), type};
}

static void set_up_in(struct fixture *f, const char *url, const struct esp_clock *clock,
                      const struct esp_alloc *alloc) {
    struct esp_schema *s = &f->schema;
    memset(f, 0, sizeof *f);
    s->attr_count = 4;
    s->attr[0] = attr("id", ESP_TYPE_S);
    s->attr[1] = attr("root", ESP_TYPE_S);
    s->attr[2] = attr("path", ESP_TYPE_S);
    s->attr[3] = attr("n", ESP_TYPE_N);
    s->sk = -1;
    s->index_count = 2;
    s->index[0] = (struct esp_index){.name = ESP_STR("by-path"), .pk = 1, .sk = 2};
    s->index[1] = (struct esp_index){
        .name = ESP_STR("by-n"), .pk = 1, .sk = 3, .projection = ESP_PROJECT_KEYS};
    assert_ok(esp_store_open(url, NULL, clock, alloc, &f->store, &f->err), &f->err);
    assert_ok(f->store->ops->create_table(f->store, "bulk", s, NULL, &f->err), &f->err);
    assert_ok(esp_table_open(f->store, "bulk", s, &f->table, &f->err), &f->err);
    assert_ok(esp_session_open(f->table, &f->session, &f->err), &f->err);
}

static void set_up(struct fixture *f, const char *url) {
    set_up_in(f, url, &esp_clock_system, &esp_alloc_libc);
}

static void tear_down(struct fixture *f) {
    esp_session_close(f->session);
    esp_table_close(f->table);
    esp_store_close(f->store);
}

/* Item i in its version v; some ids are longer than the keys of the database below. */
struct text {
    char id[1200], path[1024];
};
static void make_item(uint32_t i, uint32_t version, struct text *text, struct esp_item *out) {
    size_t pad = i % 97 == 0 ? 600 + i % 3 : 0;
    memset(out, 0, sizeof *out);
    memset(text->id, 'x', pad);
    int id = snprintf(text->id + pad, 32, "n%u", i);
    int path = snprintf(text->path, sizeof text->path, "/%u/%u/", i % 10, (i + version) % 100);
    if (i % 89 == 0) {
        memset(text->path + path, 'y', 700);
        path += 700;
    }
    out->value[0] = esp_s((struct esp_str){text->id, pad + (size_t)id});
    if (i % 13) {
        out->value[1] = esp_s(i % 2 ? ESP_STR("r1") : ESP_STR("r10"));
        out->value[2] = esp_s((struct esp_str){text->path, (size_t)path});
    }
    out->value[3] = esp_n((int64_t)(i * 7919 % 1000) - 500 + version);
}

static void bulk_put(struct fixture *f, struct esp_session *s, uint32_t i, uint32_t version) {
    struct text text;
    struct esp_item item;
    make_item(i, version, &text, &item);
    assert_ok(esp_session_bulk_put(s, &item, &f->err), &f->err);
}

/* --- what is there -------------------------------------------------------------- */

struct census {
    const struct esp_schema *schema;
    uint64_t count, digest, keys;
};

static enum esp_status take(void *ctx, const struct esp_item *item) {
    struct census *c = ctx;
    c->count++;
    c->digest += esp_item_digest(c->schema, item);
    return ESP_OK;
}

static void scan(struct fixture *f, int index, struct census *c) {
    struct esp_scan scan = {.index = index};
    *c = (struct census){.schema = &f->schema};
    assert_ok(esp_session_scan(f->session, &scan, take, c, &f->err), &f->err);
}

/* Items 0..n-1 in these versions, and nothing else, in the table and in its indexes. */
static void check_table(struct fixture *f, uint32_t n, const uint32_t *version) {
    struct census items, by_path, by_n, wanted = {.schema = &f->schema},
                                        wanted_path = {.schema = &f->schema},
                                        wanted_n = {.schema = &f->schema};
    uint64_t bytes = 0, path_bytes = 0, n_bytes = 0;
    struct esp_arena arena;
    struct esp_table_info info;
    for (uint32_t i = 0; i < n; i++) {
        struct text text;
        struct esp_item item;
        make_item(i, version[i], &text, &item);
        take(&wanted, &item);
        bytes += esp_item_size(&f->schema, &item);
        path_bytes += esp_entry_size(&f->schema, &f->schema.index[0], &item);
        n_bytes += esp_entry_size(&f->schema, &f->schema.index[1], &item);
        if (item.value[1].type != ESP_TYPE_NONE) {
            take(&wanted_path, &item);
            item.value[2].type = ESP_TYPE_NONE;
            take(&wanted_n, &item);
        }
    }
    scan(f, ESP_PRIMARY, &items);
    scan(f, 0, &by_path);
    scan(f, 1, &by_n);
    assert_int_equal(items.count, wanted.count);
    assert_int_equal(items.digest, wanted.digest);
    assert_int_equal(by_path.count, wanted_path.count);
    assert_int_equal(by_path.digest, wanted_path.digest);
    assert_int_equal(by_n.count, wanted_n.count);
    assert_int_equal(by_n.digest, wanted_n.digest);
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    assert_ok(f->store->ops->describe_table(f->store, "bulk", &arena, &info, &f->err), &f->err);
    assert_int_equal(info.item_count, n);
    assert_int_equal(info.item_bytes, bytes);
    assert_int_equal(info.index_bytes[0], path_bytes);
    assert_int_equal(info.index_bytes[1], n_bytes);
    esp_arena_fini(&arena);
}

/* --- one thread ----------------------------------------------------------------- */

static void load_shuffled(const char *url, uint32_t n, size_t limit, size_t commit) {
    struct fixture f;
    struct esp_rng rng;
    uint32_t *order = calloc(n, sizeof *order), *version = calloc(n, sizeof *version);
    set_up(&f, url);
    esp_rng_init(&rng, n, 0);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    esp_rng_shuffle_u32(&rng, order, n);
    if (limit) {
        esp_bulk_limit(f.table, limit, commit);
    }
    for (uint32_t i = 0; i < n; i++) {
        bulk_put(&f, f.session, order[i], 0);
    }
    assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
    assert_int_equal(f.session->bulk.written, n);
    assert_int_equal(f.session->usage.items_written, n);
    check_table(&f, n, version);
    free(order);
    free(version);
    tear_down(&f);
}

static void loads_in_any_order(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        load_shuffled(urls[u], 1, 0, 0);
        load_shuffled(urls[u], 100, 0, 0);
        load_shuffled(urls[u], 20000, 0, 0);
    }
}

static void spills_what_does_not_fit(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        load_shuffled(urls[u], 100, 1, 1 << 30);
        load_shuffled(urls[u], 500, 1 << 20, 1);
        load_shuffled(urls[u], 20000, 1 << 20, 1 << 18);
    }
}

/* Writes of a key again and again, and the same by single puts: the same table, units too. */
static void the_last_put_of_a_key_wins(void **state) {
    (void)state;
    enum { N = 500, PUTS = 2000 };
    for (int u = 0; u < 2; u++) {
        for (int spill = 0; spill < 2; spill++) {
            struct fixture f, g;
            struct esp_rng rng;
            uint32_t version[N] = {0};
            bool put[N] = {false};
            set_up(&f, urls[u]);
            set_up(&g, urls[u]);
            esp_rng_init(&rng, 3, 0);
            esp_bulk_limit(f.table, spill ? 1 << 16 : 1 << 28, spill ? 1 << 14 : 1 << 28);
            for (uint32_t k = 0; k < PUTS; k++) {
                uint32_t i = k < N ? k : (uint32_t)esp_rng_below(&rng, N);
                struct text text;
                struct esp_write w = {.kind = ESP_PUT};
                version[i] += put[i] && k % 3; /* now and then the same again */
                put[i] = true;
                bulk_put(&f, f.session, i, version[i]);
                make_item(i, version[i], &text, &w.item);
                assert_ok(esp_session_write(g.session, &w, 1, NULL, &g.err), &g.err);
            }
            assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
            assert_int_equal(f.session->bulk.written, PUTS);
            check_table(&f, N, version);
            assert_true(f.session->usage.write.table == g.session->usage.write.table);
            assert_true(f.session->usage.write.index[0] == g.session->usage.write.index[0]);
            assert_true(f.session->usage.write.index[1] == g.session->usage.write.index[1]);
            tear_down(&f);
            tear_down(&g);
        }
    }
}

static void goes_on_top_of_what_is_there(void **state) {
    (void)state;
    enum { N = 3000 };
    for (int u = 0; u < 2; u++) {
        struct fixture f, g;
        static uint32_t version[N];
        memset(version, 0, sizeof version);
        set_up(&f, urls[u]);
        set_up(&g, urls[u]);
        esp_bulk_limit(f.table, 1 << 30, 1 << 16);
        for (uint32_t round = 0; round < 3; round++) {
            for (uint32_t i = round * 500; i < N - 1000 + round * 500; i++) {
                struct text text;
                struct esp_write w = {.kind = ESP_PUT};
                version[i] = round;
                bulk_put(&f, f.session, i, round);
                make_item(i, round, &text, &w.item);
                assert_ok(esp_session_write(g.session, &w, 1, NULL, &g.err), &g.err);
            }
            assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
        }
        check_table(&f, N, version);
        assert_true(f.session->usage.write.table == g.session->usage.write.table);
        assert_true(f.session->usage.write.index[0] == g.session->usage.write.index[0]);
        tear_down(&f);
        tear_down(&g);
    }
}

static void count_refused(void *ctx, const struct esp_item *item, const struct esp_error *why) {
    (void)item;
    assert_true(why->message[0] != 0);
    ++*(int *)ctx;
}

static void refused_items_are_counted(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        struct fixture f;
        int refused = 0;
        uint32_t version[10] = {0};
        struct esp_item bad = {.data = {0}};
        set_up(&f, urls[u]);
        f.session->on_refused = count_refused;
        f.session->on_refused_ctx = &refused;
        for (uint32_t i = 0; i < 10; i++) {
            bulk_put(&f, f.session, i, 0);
            bad.value[0] = i % 2 ? esp_n(5) : esp_s(ESP_STR(""));
            assert_ok(esp_session_bulk_put(f.session, &bad, &f.err), &f.err);
        }
        assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
        assert_int_equal(refused, 10);
        assert_int_equal(f.session->bulk.planned, 20);
        assert_int_equal(f.session->bulk.refused, 10);
        assert_int_equal(f.session->bulk.written, 10);
        check_table(&f, 10, version);
        tear_down(&f);
    }
}

static void sessions_of_one_thread_do_not_wait(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        struct fixture f;
        struct esp_session *other;
        uint32_t version[20] = {0};
        set_up(&f, urls[u]);
        assert_ok(esp_session_open(f.table, &other, &f.err), &f.err);
        for (uint32_t i = 0; i < 20; i++) {
            bulk_put(&f, i % 2 ? other : f.session, i, 0);
        }
        assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
        assert_ok(esp_session_bulk_flush(other, &f.err), &f.err);
        check_table(&f, 20, version);
        bulk_put(&f, other, 500, 0); /* never flushed: never there */
        esp_session_close(other);
        check_table(&f, 20, version);
        tear_down(&f);
    }
}

/* --- stopping ------------------------------------------------------------------- */

/* What is left costs nothing. */
static void assert_nothing_metered(const struct esp_usage *usage) {
    assert_int_equal(usage->items_written, 0);
    assert_int_equal(usage->bytes_written, 0);
    assert_int_equal(usage->index_bytes_written, 0);
    assert_true(esp_units_total(&usage->write) == 0);
}

static void stops_on_request(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        struct fixture f;
        uint32_t version[20] = {0};
        int stop = 0;
        set_up(&f, urls[u]);
        f.session->stop = &stop;
        for (uint32_t i = 0; i < 20; i++) {
            bulk_put(&f, f.session, i, 0);
        }
        stop = 1;
        assert_status(ESP_ERR_CANCELLED, esp_session_bulk_flush(f.session, NULL));
        assert_int_equal(f.session->bulk.planned, 20);
        assert_int_equal(f.session->bulk.written, 0);
        assert_int_equal(f.session->bulk.left, 20);
        assert_nothing_metered(&f.session->usage);
        stop = 0;
        check_table(&f, 0, version);
        assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err); /* nothing is kept */
        check_table(&f, 0, version);
        for (uint32_t i = 0; i < 20; i++) {
            bulk_put(&f, f.session, i, 0);
        }
        assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
        assert_int_equal(f.session->bulk.written, 20);
        assert_int_equal(f.session->bulk.left, 20);
        assert_int_equal(f.session->usage.items_written, 20);
        check_table(&f, 20, version);
        tear_down(&f);
    }
}

/* Time passes when somebody asks for it. */
static uint64_t count_looks(void *looks) {
    return ++*(uint64_t *)looks;
}

/* Wherever a load is when its time is over: either all of it is there or nothing. */
static void a_deadline_leaves_all_or_nothing(void **state) {
    (void)state;
    enum { N = 5000, LOOKS_MAX = 100 };
    static uint32_t version[N];
    for (int u = 0; u < 2; u++) {
        uint64_t looks = 0, allowed = 0;
        struct esp_clock clock = esp_clock_system;
        struct fixture f;
        enum esp_status status = ESP_ERR_UNAVAILABLE;
        clock.now_ns = count_looks;
        clock.ctx = &looks;
        set_up_in(&f, urls[u], &clock, &esp_alloc_libc);
        esp_bulk_limit(f.table, 1 << 19, 1 << 16); /* runs and commits, several of each */
        while (status == ESP_ERR_UNAVAILABLE && allowed < LOOKS_MAX) {
            uint64_t left = f.session->bulk.left;
            check_table(&f, 0, version);
            for (uint32_t i = 0; i < N; i++) {
                bulk_put(&f, f.session, i, 0);
            }
            f.session->deadline_ns = looks + ++allowed;
            status = esp_session_bulk_flush(f.session, NULL);
            f.session->deadline_ns = 0;
            assert_int_equal(f.session->bulk.left, status == ESP_OK ? left : left + N);
            assert_int_equal(f.session->usage.items_written, status == ESP_OK ? N : 0);
        }
        assert_status(ESP_OK, status);
        assert_in_range(allowed, 10, LOOKS_MAX); /* it was cut off while it was loading, too */
        assert_int_equal(f.session->bulk.written, N);
        check_table(&f, N, version);
        tear_down(&f);
    }
}

/* --- failing -------------------------------------------------------------------- */

/* Files may not become longer than this, as if the disk were full; 0: they may. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Puts 0..n-1, the second half with the limit.  What a put answers is not looked at: when the
 * flush says so, all is there. */
static enum esp_status load_with_limit(struct fixture *f, uint32_t n, rlim_t bytes) {
    for (uint32_t i = 0; i < n; i++) {
        struct text text;
        struct esp_item item;
        if (i == n / 2) {
            limit_files(bytes);
        }
        make_item(i * 7919 % n, 0, &text, &item);
        enum esp_status status = esp_session_bulk_put(f->session, &item, NULL);
        if (status != ESP_OK && status != ESP_ERR_IO) {
            limit_files(0);
            fail_msg("put %u: %s", i, esp_status_name(status));
        }
    }
    enum esp_status status = esp_session_bulk_flush(f->session, NULL);
    limit_files(0);
    return status;
}

/* A run that cannot be spilled, or only in part, is still in memory: whether it was cut off in
 * its items or in its indexes, all of it is written, or all of it is left. */
static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    enum { N = 3000 };
    static const rlim_t limits[] = {1,      4096,   100000, 200000, 262144,
                                    300000, 400000, 524288, 1 << 20};
    static uint32_t version[N];
    unsigned written = 0, left = 0;
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    for (int u = 0; u < 2; u++) {
        for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
            struct fixture f;
            set_up(&f, urls[u]);
            esp_bulk_limit(f.table, 1 << 18, 1 << 16);
            enum esp_status status = load_with_limit(&f, N, limits[i]);
            assert_int_equal(f.session->bulk.planned, N);
            assert_int_equal(f.session->bulk.written, status == ESP_OK ? N : 0);
            assert_int_equal(f.session->bulk.left, status == ESP_OK ? 0 : N);
            assert_int_equal(f.session->usage.items_written, f.session->bulk.written);
            check_table(&f, status == ESP_OK ? N : 0, version);
            written += status == ESP_OK;
            left += status != ESP_OK;
            if (status != ESP_OK) { /* once there is room it goes through */
                assert_ok(load_with_limit(&f, N, 0), &f.err);
                check_table(&f, N, version);
            }
            tear_down(&f);
        }
    }
    signal(SIGXFSZ, before);
    assert_true(written > 0 && left > 0);
}

/* A run that could not be spilled gets more puts, and is sorted again. */
static void a_run_can_be_sorted_again(void **state) {
    (void)state;
    enum { N = 3000 };
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_rng rng;
    struct bulk_merge *merge;
    struct bulk_pair pair;
    char last[64] = "";
    uint32_t ref, count = 0;
    struct bulk_run *run = bulk_run_new(&esp_alloc_libc, 1, 0);
    assert_non_null(run);
    esp_rng_init(&rng, 9, 0);
    for (int i = 0; i < N; i++) { /* keys that agree in far more than the first 8 bytes */
        char key[64];
        int len = snprintf(key, sizeof key, "\1a beginning of %d and then %05d",
                           (int)esp_rng_below(&rng, 3), (int)esp_rng_below(&rng, 100000));
        assert_ok(bulk_run_put(run, (struct esp_str){key, (size_t)len}, ESP_STR("x"), &ref, &err),
                  &err);
        if (i % 1000 == 999) {
            assert_ok(bulk_run_sort(run, &err), &err);
        }
    }
    assert_ok(bulk_merge_new(run, 0, &esp_alloc_libc, &merge, &err), &err);
    while (bulk_merge_next(merge, &pair, &err) == ESP_OK) {
        assert_true(esp_str_cmp(esp_str_from(last), pair.key) <= 0);
        memcpy(last, pair.key.ptr, pair.key.len);
        count++;
    }
    assert_int_equal(count, N);
    bulk_merge_free(merge);
    bulk_run_free(run);
}

/* Whatever allocation of a flush fails: its puts are left and forgotten, and cost nothing. */
static void a_flush_without_memory_leaves_its_puts(void **state) {
    (void)state;
    enum { N = 30 };
    static uint32_t version[N];
    for (int u = 0; u < 2; u++) {
        bool done = false;
        for (size_t n = 1; !done; n++) {
            struct fixture f;
            struct esp_test_alloc a;
            esp_test_alloc_init(&a, 0);
            set_up_in(&f, urls[u], &esp_clock_system, &a.alloc);
            for (uint32_t i = 0; i < N; i++) {
                bulk_put(&f, f.session, i, 0);
            }
            a.fail_at = a.calls + n;
            enum esp_status status = esp_session_bulk_flush(f.session, NULL);
            done = a.calls < a.fail_at;
            a.fail_at = 0;
            if (status != ESP_OK) {
                assert_status(ESP_ERR_NOMEM, status);
                assert_int_equal(f.session->bulk.left, N);
                assert_nothing_metered(&f.session->usage);
                check_table(&f, 0, version);
                for (uint32_t i = 0; i < N; i++) {
                    bulk_put(&f, f.session, i, 0);
                }
                assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
            }
            assert_int_equal(f.session->bulk.written, N);
            assert_int_equal(f.session->usage.items_written, N);
            check_table(&f, N, version);
            tear_down(&f);
            assert_true(esp_test_alloc_done(&a));
        }
    }
}

/* --- threads -------------------------------------------------------------------- */

enum { THREADS = 4, PER_THREAD = 3000 };

struct worker {
    struct fixture *f;
    uint32_t number;
    uint64_t written;
    enum esp_status status;
};

static void *work(void *arg) {
    struct worker *w = arg;
    struct esp_session *session;
    w->status = esp_session_open(w->f->table, &session, NULL);
    if (w->status != ESP_OK) {
        return NULL;
    }
    for (uint32_t i = 0; i < PER_THREAD && w->status == ESP_OK; i++) {
        struct text text;
        struct esp_item item;
        make_item(i * THREADS + w->number, 0, &text, &item);
        w->status = esp_session_bulk_put(session, &item, NULL);
    }
    if (w->status == ESP_OK) {
        w->status = esp_session_bulk_flush(session, NULL);
    }
    w->written = session->bulk.written;
    esp_session_close(session);
    return NULL;
}

static void threads_load_together(void **state) {
    (void)state;
    static uint32_t version[THREADS * PER_THREAD];
    for (int u = 0; u < 2; u++) {
        struct fixture f;
        pthread_t thread[THREADS];
        struct worker worker[THREADS];
        set_up(&f, urls[u]);
        esp_bulk_limit(f.table, 1 << 20, 1 << 20);
        for (uint32_t i = 0; i < THREADS; i++) {
            worker[i] = (struct worker){.f = &f, .number = i};
            assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            pthread_join(thread[i], NULL);
            assert_status(ESP_OK, worker[i].status);
            assert_int_equal(worker[i].written, PER_THREAD);
        }
        check_table(&f, THREADS * PER_THREAD, version);
        tear_down(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_in_any_order),
        cmocka_unit_test(spills_what_does_not_fit),
        cmocka_unit_test(the_last_put_of_a_key_wins),
        cmocka_unit_test(goes_on_top_of_what_is_there),
        cmocka_unit_test(refused_items_are_counted),
        cmocka_unit_test(sessions_of_one_thread_do_not_wait),
        cmocka_unit_test(stops_on_request),
        cmocka_unit_test(a_deadline_leaves_all_or_nothing),
        cmocka_unit_test(a_full_disk_loses_nothing),
        cmocka_unit_test(a_run_can_be_sorted_again),
        cmocka_unit_test(a_flush_without_memory_leaves_its_puts),
        cmocka_unit_test(threads_load_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
