/*
 * The embedded engine on both of its databases against a naive table: random requests, the
 * same answers in the same order, the same units.
 */
#include "table_model.h"
#include "tests/support/alloc.h"

#include <stdio.h>
#include <stdlib.h>

enum { ANSWER_MAX = 2 * TABLE_ITEMS_MAX };

struct answer {
    uint64_t digest[ANSWER_MAX];
    size_t count;
    const struct esp_schema *schema;
};

static enum esp_status collect(void *ctx, const struct esp_item *item) {
    struct answer *a = ctx;
    assert_true(a->count < ANSWER_MAX);
    a->digest[a->count++] = esp_item_digest(a->schema, item) * 31 + item->data.size;
    return ESP_OK;
}

static int compare_digests(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

struct fixture {
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_store_config config;
    struct esp_error err;
};

static void set_up(struct fixture *f, const char *url, const struct esp_schema *schema,
                   uint64_t page_bytes) {
    memset(f, 0, sizeof *f);
    f->config.page_bytes = page_bytes;
    assert_ok(
        esp_store_open(url, &f->config, &esp_clock_system, &esp_alloc_libc, &f->store, &f->err),
        &f->err);
    assert_ok(f->store->ops->create_table(f->store, "test", schema, NULL, &f->err), &f->err);
    assert_ok(esp_table_open(f->store, "test", schema, &f->table, &f->err), &f->err);
    assert_ok(esp_session_open(f->table, &f->session, &f->err), &f->err);
}

static void tear_down(struct fixture *f) {
    esp_session_close(f->session);
    esp_table_close(f->table);
    esp_store_close(f->store);
}

static void execute(struct fixture *f, struct esp_request *r) {
    assert_ok(f->store->ops->execute(f->session, r, 1, &f->err), &f->err);
    if (r->status != ESP_OK) {
        assert_true(r->error.message[0] != 0); /* a sentence for each refusal */
        esp_error_clear(&r->error);
    }
}

static void compare_usage(const struct esp_usage *a, const struct esp_usage *b) {
    assert_int_equal(a->requests, b->requests);
    assert_int_equal(a->items_read, b->items_read);
    assert_int_equal(a->items_returned, b->items_returned);
    assert_int_equal(a->items_written, b->items_written);
    assert_int_equal(a->bytes_read, b->bytes_read);
    assert_int_equal(a->bytes_written, b->bytes_written);
    assert_int_equal(a->index_bytes_written, b->index_bytes_written);
    assert_memory_equal(&a->read, &b->read, sizeof a->read);
    assert_memory_equal(&a->write, &b->write, sizeof a->write);
}

/* All pages of all segments; how they are cut is not the model's to say. */
static void compare_scan(struct fixture *f, struct table_model *m, struct table_request *t,
                         struct answer *ours, struct answer *theirs) {
    struct esp_scan scan = t->scan;
    struct esp_request r = t->request;
    uint32_t segments = scan.segments ? scan.segments : 1;
    r.ctx = theirs;
    table_model_execute(m, &r);
    for (scan.segment = 0; scan.segment < segments; scan.segment++) {
        struct esp_cursor cursor;
        cursor.set = false;
        do {
            r = t->request;
            r.ctx = ours;
            r.scan = &scan;
            r.cursor = &cursor;
            uint64_t read = f->session->usage.items_read;
            execute(f, &r);
            assert_status(ESP_OK, r.status);
            assert_true(!scan.limit || f->session->usage.items_read - read <= scan.limit);
        } while (r.more);
    }
    qsort(ours->digest, ours->count, sizeof ours->digest[0], compare_digests);
    qsort(theirs->digest, theirs->count, sizeof theirs->digest[0], compare_digests);
    m->usage = f->session->usage;
}

static void compare_query(struct fixture *f, struct table_model *m, struct table_request *t,
                          struct answer *ours, struct answer *theirs) {
    static struct esp_cursor their_cursor;
    their_cursor.set = false;
    for (bool more = true; more;) {
        struct esp_request r = t->request, s = t->request;
        r.ctx = ours;
        execute(f, &r);
        assert_status(ESP_OK, r.status);
        s.ctx = theirs;
        s.cursor = &their_cursor;
        table_model_execute(m, &s);
        assert_int_equal(r.more, s.more);
        more = r.more;
        if (more) {
            assert_true(esp_item_equal(&m->schema, &t->cursor.key, &their_cursor.key));
        }
    }
}

static void check_state(struct fixture *f, const struct table_model *m) {
    struct esp_arena arena;
    struct esp_table_info info;
    uint64_t bytes = 0, entry_bytes[ESP_INDEX_MAX] = {0};
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    assert_ok(f->store->ops->describe_table(f->store, "test", &arena, &info, &f->err), &f->err);
    for (size_t i = 0; i < m->count; i++) {
        bytes += esp_item_size(&m->schema, &m->item[i]);
        for (size_t k = 0; k < m->schema.index_count; k++) {
            entry_bytes[k] += esp_entry_size(&m->schema, &m->schema.index[k], &m->item[i]);
        }
    }
    assert_int_equal(info.item_count, m->count);
    assert_int_equal(info.item_bytes, bytes);
    assert_memory_equal(info.index_bytes, entry_bytes, sizeof entry_bytes);
    assert_ok(esp_schema_match(&m->schema, &info.schema, &f->err), &f->err);
    esp_arena_fini(&arena);
}

static void run_random(const char *url, int shape, uint64_t page_bytes, uint64_t seed,
                       int requests) {
    static struct answer ours, theirs;
    static struct table_request t;
    struct table_model m;
    struct fixture f;
    struct esp_rng rng;
    table_model_init(&m, shape, page_bytes);
    set_up(&f, url, &m.schema, page_bytes);
    esp_rng_init(&rng, seed, 0);
    for (int i = 0; i < requests; i++) {
        table_random_request(&m, &rng, &t);
        ours = theirs = (struct answer){.schema = &m.schema};
        t.request.fn = collect;
        if (t.request.kind == ESP_REQ_SCAN) {
            compare_scan(&f, &m, &t, &ours, &theirs);
        } else if (t.request.kind == ESP_REQ_QUERY) {
            compare_query(&f, &m, &t, &ours, &theirs);
        } else {
            struct esp_request r = t.request, s = t.request;
            r.ctx = &ours;
            execute(&f, &r);
            s.ctx = &theirs;
            table_model_execute(&m, &s);
            if (r.status != s.status) {
                fail_msg("%s shape %d request %d: %s, the model says %s", url, shape, i,
                         esp_status_name(r.status), esp_status_name(s.status));
            }
        }
        if (ours.count != theirs.count ||
            memcmp(ours.digest, theirs.digest, ours.count * sizeof ours.digest[0]) != 0) {
            fail_msg("%s shape %d request %d of kind %d: %zu items, the model has %zu", url, shape,
                     i, (int)t.request.kind, ours.count, theirs.count);
        }
        compare_usage(&f.session->usage, &m.usage);
    }
    check_state(&f, &m);
    tear_down(&f);
    table_model_fini(&m);
}

static void answers_like_the_model(void **state) {
    (void)state;
    for (int shape = 0; shape < TABLE_SHAPES; shape++) {
        run_random("memory:", shape, 100, 1 + (uint64_t)shape, 3000);
        run_random("memory:", shape, 1 << 20, 11 + (uint64_t)shape, 1500);
        run_random("local:", shape, 100, 21 + (uint64_t)shape, 3000);
        run_random("local:", shape, 1 << 20, 31 + (uint64_t)shape, 1500);
    }
}

/* --- single rules --------------------------------------------------------------- */

static const char *const urls[] = {"memory:", "local:"};

static void put_numbered(struct fixture *f, const struct esp_schema *schema, int count) {
    for (int i = 0; i < count; i++) {
        char sk[16];
        struct esp_write w = {.kind = ESP_PUT};
        (void)schema;
        snprintf(sk, sizeof sk, "k%02d", i);
        w.item.value[0] = esp_s(ESP_STR("p"));
        w.item.value[1] = esp_s(esp_str_from(sk));
        assert_ok(esp_session_write(f->session, &w, 1, NULL, &f->err), &f->err);
    }
}

static void puts_do_not_find_it(struct fixture *f) {
    struct esp_write w = {.kind = ESP_PUT};
    w.item.value[0] = esp_s(ESP_STR("p"));
    w.item.value[1] = esp_s(ESP_STR("k00"));
    assert_status(ESP_ERR_NOT_FOUND, esp_session_write(f->session, &w, 1, NULL, NULL));
    assert_ok(esp_session_bulk_put(f->session, &w.item, &f->err), &f->err);
    assert_status(ESP_ERR_NOT_FOUND, esp_session_bulk_flush(f->session, NULL));
}

static void a_limit_that_fits_gives_a_cursor(void **state) {
    (void)state;
    static struct answer a;
    for (int u = 0; u < 2; u++) {
        struct table_model m;
        struct fixture f;
        static struct esp_cursor cursor;
        bool more;
        table_model_init(&m, 0, 1 << 20);
        set_up(&f, urls[u], &m.schema, 0);
        put_numbered(&f, &m.schema, 5);
        struct esp_query q = {.index = ESP_PRIMARY, .pk = esp_s(ESP_STR("p")), .limit = 5};
        a = (struct answer){.schema = &m.schema};
        cursor.set = false;
        assert_ok(esp_session_query_page(f.session, &q, &cursor, &more, collect, &a, &f.err),
                  &f.err);
        assert_int_equal(a.count, 5);
        assert_true(more);
        double units = f.session->usage.read.table;
        assert_ok(esp_session_query_page(f.session, &q, &cursor, &more, collect, &a, &f.err),
                  &f.err);
        assert_int_equal(a.count, 5);
        assert_false(more);
        assert_true(f.session->usage.read.table == units + 0.5); /* an empty page is charged */
        q.limit = 6;
        cursor.set = false;
        assert_ok(esp_session_query_page(f.session, &q, &cursor, &more, collect, &a, &f.err),
                  &f.err);
        assert_false(more);
        tear_down(&f);
        table_model_fini(&m);
    }
}

static void a_cursor_outside_is_refused(void **state) {
    (void)state;
    static struct answer a;
    static struct esp_cursor cursor;
    for (int u = 0; u < 2; u++) {
        struct table_model m;
        struct fixture f;
        struct esp_item key = {.data = {0}};
        bool more;
        table_model_init(&m, 0, 1 << 20);
        set_up(&f, urls[u], &m.schema, 0);
        put_numbered(&f, &m.schema, 5);
        struct esp_query q = {.index = ESP_PRIMARY,
                              .pk = esp_s(ESP_STR("p")),
                              .op = ESP_LT,
                              .lo = esp_s(ESP_STR("k03"))};
        a = (struct answer){.schema = &m.schema};
        key.value[0] = esp_s(ESP_STR("p"));
        key.value[1] = esp_s(ESP_STR("k015")); /* not there, but in the range */
        esp_cursor_set(&cursor, &m.schema, ESP_PRIMARY, &key);
        assert_ok(esp_session_query_page(f.session, &q, &cursor, &more, collect, &a, &f.err),
                  &f.err);
        assert_int_equal(a.count, 1);
        key.value[1] = esp_s(ESP_STR("k03"));
        esp_cursor_set(&cursor, &m.schema, ESP_PRIMARY, &key);
        assert_status(ESP_ERR_REFUSED,
                      esp_session_query_page(f.session, &q, &cursor, &more, collect, &a, NULL));
        key.value[0] = esp_s(ESP_STR("q"));
        esp_cursor_set(&cursor, &m.schema, ESP_PRIMARY, &key);
        assert_status(ESP_ERR_REFUSED,
                      esp_session_query_page(f.session, &q, &cursor, &more, collect, &a, NULL));
        tear_down(&f);
        table_model_fini(&m);
    }
}

/* A read within a read, from its callback. */
struct nested {
    struct fixture *f;
    struct answer *inner;
    int writes;
    enum esp_status write_status;
};

static enum esp_status read_again(void *ctx, const struct esp_item *item) {
    struct nested *n = ctx;
    struct esp_item key = {.data = {0}};
    struct esp_error err = ESP_ERROR_INIT;
    key.value[0] = item->value[0];
    key.value[1] = item->value[1];
    struct esp_write w = {.kind = ESP_DELETE, .item = key};
    assert_ok(esp_session_get(n->f->session, &key, 1, false, collect, n->inner, &err), &err);
    n->write_status = esp_session_write(n->f->session, &w, 1, NULL, &err);
    return ESP_OK;
}

static void callbacks_may_use_the_session(void **state) {
    (void)state;
    static struct answer inner;
    for (int u = 0; u < 2; u++) {
        struct table_model m;
        struct fixture f;
        table_model_init(&m, 0, 1 << 20);
        set_up(&f, urls[u], &m.schema, 0);
        put_numbered(&f, &m.schema, 5);
        inner = (struct answer){.schema = &m.schema};
        struct nested n = {&f, &inner, 0, ESP_OK};
        struct esp_scan scan = {.index = ESP_PRIMARY};
        assert_ok(esp_session_scan(f.session, &scan, read_again, &n, &f.err), &f.err);
        assert_int_equal(inner.count, 5);
        if (u == 0) { /* one lock, and this thread has it: refused, not waited for */
            assert_status(ESP_ERR_UNSUPPORTED, n.write_status);
        } else {
            assert_status(ESP_OK, n.write_status);
        }
        tear_down(&f);
        table_model_fini(&m);
    }
}

static void refuses_what_dynamodb_refuses(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        struct table_model m;
        struct fixture f;
        static char long_text[4096];
        memset(long_text, 'x', sizeof long_text);
        table_model_init(&m, 0, 1 << 20);
        set_up(&f, urls[u], &m.schema, 0);
        put_numbered(&f, &m.schema, 2);
        struct esp_write w[3] = {{.kind = ESP_PUT}, {.kind = ESP_PUT}, {.kind = ESP_PUT}};
        struct esp_request r = {.kind = ESP_REQ_WRITE, .write = {w, 2}};
        for (int i = 0; i < 3; i++) {
            w[i].item.value[0] = esp_s(ESP_STR("twice"));
            w[i].item.value[1] = esp_s(ESP_STR("same"));
        }
        execute(&f, &r); /* a key twice */
        assert_status(ESP_ERR_REFUSED, r.status);
        w[1].item.value[1] = esp_s((struct esp_str){long_text, 1025});
        execute(&f, &r); /* one too long: the good one is not written either */
        assert_status(ESP_ERR_LIMIT, r.status);
        r.write.n = 1;
        w[0].kind = ESP_CHECK;
        execute(&f, &r);
        assert_status(ESP_ERR_REFUSED, r.status);
        struct esp_table_info info;
        struct esp_arena arena;
        esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
        assert_ok(f.store->ops->describe_table(f.store, "test", &arena, &info, &f.err), &f.err);
        assert_int_equal(info.item_count, 2);
        assert_status(ESP_ERR_EXISTS,
                      f.store->ops->create_table(f.store, "test", &m.schema, NULL, NULL));
        assert_status(ESP_ERR_REFUSED,
                      f.store->ops->create_table(f.store, "a/b", &m.schema, NULL, NULL));
        assert_status(ESP_ERR_NOT_FOUND, f.store->ops->drop_table(f.store, "nothing", NULL));
        assert_ok(f.store->ops->drop_table(f.store, "test", &f.err), &f.err);
        w[0].kind = ESP_PUT;
        assert_status(ESP_ERR_NOT_FOUND, f.store->ops->execute(f.session, &r, 1, NULL));
        esp_arena_fini(&arena);
        tear_down(&f);
        table_model_fini(&m);
    }
}

/* A table opened with another idea of which attributes are structural. */
/* Another store, perhaps another process, drops the table and makes one of the same name: what
 * is in that one must not be read with the schema that the first was opened with. */
static void a_replaced_table_is_noticed(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        struct table_model m;
        struct fixture f;
        struct esp_schema other = {.attr = {{ESP_STR("z"), ESP_TYPE_S}}, .attr_count = 1, .sk = -1};
        struct esp_item keys[1];
        struct esp_write w = {.kind = ESP_PUT};
        struct esp_query q = {.index = ESP_PRIMARY, .pk = esp_s(ESP_STR("p"))};
        static struct answer a;
        table_model_init(&m, 0, 1 << 20);
        set_up(&f, urls[u], &m.schema, 0);
        put_numbered(&f, &m.schema, 3);
        a = (struct answer){.schema = &m.schema};
        assert_ok(esp_session_query(f.session, &q, collect, &a, &f.err), &f.err);
        assert_int_equal(a.count, 3);
        assert_ok(f.store->ops->drop_table(f.store, "test", &f.err), &f.err);
        assert_status(ESP_ERR_NOT_FOUND, esp_session_query(f.session, &q, collect, &a, NULL));
        for (int same = 0; same < 2; same++) { /* also when the schema is the same */
            struct esp_table *table;
            struct esp_session *session;
            const struct esp_schema *schema = same ? &m.schema : &other;
            assert_ok(f.store->ops->create_table(f.store, "test", schema, NULL, &f.err), &f.err);
            assert_ok(esp_table_open(f.store, "test", schema, &table, &f.err), &f.err);
            assert_ok(esp_session_open(table, &session, &f.err), &f.err);
            memset(&w.item, 0, sizeof w.item);
            w.item.value[0] = esp_s(ESP_STR("p"));
            if (same) {
                w.item.value[1] = esp_s(ESP_STR("k"));
            }
            assert_ok(esp_session_write(session, &w, 1, NULL, &f.err), &f.err);
            memset(keys, 0, sizeof keys);
            keys[0].value[0] = esp_s(ESP_STR("p"));
            keys[0].value[1] = esp_s(ESP_STR("k"));
            struct esp_error err = ESP_ERROR_INIT;
            assert_status(ESP_ERR_NOT_FOUND,
                          esp_session_get(f.session, keys, 1, true, collect, &a, &err));
            assert_non_null(strstr(err.message, "was replaced"));
            assert_status(ESP_ERR_NOT_FOUND, esp_session_query(f.session, &q, collect, &a, NULL));
            puts_do_not_find_it(&f);
            assert_int_equal(a.count, 3);
            esp_session_close(session);
            esp_table_close(table);
            assert_ok(f.store->ops->drop_table(f.store, "test", &f.err), &f.err);
        }
        tear_down(&f);
        table_model_fini(&m);
    }
}

static void schemas_may_differ_in_attributes(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        struct table_model m;
        struct fixture f;
        struct esp_table *table;
        struct esp_session *session;
        struct esp_schema other;
        static struct answer before, after;
        table_model_init(&m, 0, 1 << 20);
        set_up(&f, urls[u], &m.schema, 0);
        struct esp_write w = {.kind = ESP_PUT};
        w.item.value[0] = esp_s(ESP_STR("p"));
        w.item.value[1] = esp_s(ESP_STR("k"));
        w.item.value[5] = esp_n(7); /* "free" */
        w.item.data = (struct esp_data){"\"name\":{\"S\":\"x\"}", 16, 5};
        assert_ok(esp_session_write(f.session, &w, 1, NULL, &f.err), &f.err);
        other = m.schema;
        other.attr[5] = (struct esp_attr){ESP_STR("name"), ESP_TYPE_NONE};
        assert_ok(esp_table_open(f.store, "test", &other, &table, &f.err), &f.err);
        assert_ok(esp_session_open(table, &session, &f.err), &f.err);
        struct esp_scan scan = {.index = ESP_PRIMARY};
        before = after = (struct answer){.schema = &other};
        assert_ok(esp_session_scan(session, &scan, collect, &after, &f.err), &f.err);
        assert_int_equal(after.count, 1);
        struct esp_item wanted = w.item;
        wanted.value[5] = esp_s(ESP_STR("x"));
        wanted.data = (struct esp_data){"\"free\":{\"N\":\"7\"}", 16, 6};
        collect(&before, &wanted);
        assert_int_equal(before.digest[0], after.digest[0]);
        struct esp_write again = {.kind = ESP_PUT, .item = wanted};
        assert_ok(esp_session_write(session, &again, 1, NULL, &f.err), &f.err);
        before = after = (struct answer){.schema = &m.schema};
        assert_ok(esp_session_scan(f.session, &scan, collect, &after, &f.err), &f.err);
        collect(&before, &w.item);
        assert_int_equal(before.digest[0], after.digest[0]);
        esp_session_close(session);
        esp_table_close(table);
        tear_down(&f);
        table_model_fini(&m);
    }
}

/* --- memory runs out ------------------------------------------------------------ */

static enum esp_status work(const struct esp_alloc *alloc, const char *url, struct table_model *m,
                            struct esp_error *err) {
    static struct answer a;
    static struct table_request t;
    struct esp_store_config config = {.page_bytes = 500};
    struct esp_store *store = NULL;
    struct esp_table *table = NULL;
    struct esp_session *session = NULL;
    struct esp_rng rng;
    esp_rng_init(&rng, 5, 0);
    enum esp_status status = esp_store_open(url, &config, &esp_clock_system, alloc, &store, err);
    if (status == ESP_OK) {
        status = store->ops->create_table(store, "test", &m->schema, NULL, err);
    }
    if (status == ESP_OK) {
        status = esp_table_open(store, "test", &m->schema, &table, err);
    }
    if (status == ESP_OK) {
        status = esp_session_open(table, &session, err);
    }
    for (int i = 0; i < 25 && status == ESP_OK; i++) {
        table_random_request(m, &rng, &t);
        a = (struct answer){.schema = &m->schema};
        t.request.fn = collect;
        t.request.ctx = &a;
        status = store->ops->execute(session, &t.request, 1, err);
        if (status == ESP_OK && t.request.status == ESP_ERR_NOMEM) {
            status = ESP_ERR_NOMEM;
        }
    }
    for (int i = 0; i < 10 && status == ESP_OK; i++) {
        struct esp_item item;
        table_random_item(m, &rng, &item);
        status = esp_session_bulk_put(session, &item, err);
    }
    if (status == ESP_OK) {
        status = esp_session_bulk_flush(session, err);
    }
    esp_session_close(session);
    esp_table_close(table);
    esp_store_close(store);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    for (int u = 0; u < 2; u++) {
        struct table_model m;
        struct esp_test_alloc a;
        table_model_init(&m, 0, 500);
        for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
            struct esp_error err = ESP_ERROR_INIT;
            enum esp_status status = work(&a.alloc, urls[u], &m, &err);
            if (status != ESP_OK && status != ESP_ERR_NOMEM) {
                fail_msg("allocation %zu: %s: %s", n, esp_status_name(status), err.message);
            }
            if (esp_test_alloc_done(&a)) {
                assert_status(ESP_OK, status);
                break;
            }
        }
        table_model_fini(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_like_the_model),
        cmocka_unit_test(a_limit_that_fits_gives_a_cursor),
        cmocka_unit_test(a_cursor_outside_is_refused),
        cmocka_unit_test(callbacks_may_use_the_session),
        cmocka_unit_test(refuses_what_dynamodb_refuses),
        cmocka_unit_test(a_replaced_table_is_noticed),
        cmocka_unit_test(schemas_may_differ_in_attributes),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
