/* Stores by their names, and the null store through the whole interface. */
#include "stores/undo.h"
#include "tests/support/alloc.h"
#include "tests/support/support.h"

static struct esp_schema node_schema(void) {
    struct esp_schema s = {.attr_count = 2, .pk = 0, .sk = -1, .index_count = 1};
    s.attr[0] = (struct esp_attr){ESP_STR("id"), ESP_TYPE_S};
    s.attr[1] = (struct esp_attr){ESP_STR("g"), ESP_TYPE_N};
    s.index[0] = (struct esp_index){.name = ESP_STR("by-g"), .pk = 1, .sk = -1};
    return s;
}

static void unknown_schemes_are_told_the_known_ones(void **state) {
    (void)state;
    struct esp_store *store = NULL;
    static const char *const wrong[] = {"", "null", "nul:", "mysql://host", "ftp://x", "/tmp/x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct esp_error err = ESP_ERROR_INIT;
        assert_status(ESP_ERR_USAGE, esp_store_open(wrong[i], NULL, &esp_clock_system,
                                                    &esp_alloc_libc, &store, &err));
        assert_null(store);
        for (size_t k = 0; esp_stores[k]; k++) { /* each first scheme is in the sentence */
            char scheme[32] = {0};
            memcpy(scheme, esp_stores[k]->schemes, strcspn(esp_stores[k]->schemes, " "));
            assert_non_null(strstr(err.message, scheme));
        }
    }
}

static void every_store_is_whole(void **state) {
    (void)state;
    for (size_t i = 0; esp_stores[i]; i++) {
        const struct esp_store_ops *o = esp_stores[i];
        assert_true(o->name && o->schemes && o->summary && o->open && o->close && o->list_tables &&
                    o->describe_table && o->create_table && o->drop_table && o->table_open &&
                    o->table_close && o->session_open && o->session_close && o->execute &&
                    o->bulk_put && o->bulk_flush);
    }
}

static enum esp_status never(void *ctx, const struct esp_item *item) {
    (void)ctx, (void)item;
    fail_msg("the null store returned an item");
    return ESP_OK;
}

static void count_refused(void *ctx, const struct esp_item *item, const struct esp_error *why) {
    (void)item;
    assert_non_null(strstr(why->message, "is empty"));
    ++*(unsigned *)ctx;
}

static void use_session(struct esp_session *s) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_item keys[] = {{.value = {esp_s(ESP_STR("a"))}}, {.value = {esp_s(ESP_STR("b"))}}};
    struct esp_query q = {.index = 0, .pk = esp_n(1)};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    struct esp_change change = {ESP_CHANGE_SET, ESP_STR("x"), esp_s(ESP_STR("y"))};
    struct esp_write w[] = {
        {.kind = ESP_PUT, .item = {.value = {esp_s(ESP_STR("a")), esp_n(1)}}},
        {.kind = ESP_UPDATE, .item = keys[0], .changes = &change, .change_count = 1},
        {.kind = ESP_DELETE, .item = keys[1]}};
    assert_ok(esp_session_get(s, keys, 2, false, never, NULL, &err), &err);
    assert_ok(esp_session_query(s, &q, never, NULL, &err), &err);
    assert_ok(esp_session_scan(s, &scan, never, NULL, &err), &err);
    assert_true(s->usage.read.table == 1 + 0.5);
    assert_true(s->usage.read.index[0] == 0.5);
    assert_ok(esp_session_write(s, w, 3, NULL, &err), &err);
    assert_true(s->usage.write.table == 3);
    assert_true(s->usage.write.index[0] == 1);
    w[0].kind = ESP_CHECK;
    assert_ok(esp_session_transact(s, w, 1, &err), &err);
    assert_true(s->usage.write.table == 5);
    assert_int_equal(s->usage.items_written, 3);
}

static void the_null_store_meters_and_keeps_nothing(void **state) {
    (void)state;
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *s;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_schema schema = node_schema();
    struct esp_table_info info;
    unsigned refused = 0;
    assert_ok(esp_store_open("null:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    assert_string_equal(store->target, "");
    assert_true(store->ops->flags & ESP_STORE_DISCARDS);
    assert_status(ESP_ERR_NOT_FOUND, store->ops->describe_table(store, "t", NULL, &info, NULL));
    assert_ok(store->ops->create_table(store, "t", &schema, NULL, &err), &err);
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_status(ESP_ERR_USAGE, esp_table_open(store, name, &schema, &table, NULL));
    assert_ok(esp_table_open(store, "t", &schema, &table, &err), &err);
    assert_ok(esp_session_open(table, &s, &err), &err);
    use_session(s);
    s->on_refused = count_refused;
    s->on_refused_ctx = &refused;
    struct esp_item good = {.value = {esp_s(ESP_STR("a")), esp_n(1)}}, bad = good;
    bad.value[0].s.len = 0;
    assert_ok(esp_session_bulk_put(s, &good, &err), &err);
    assert_ok(esp_session_bulk_put(s, &bad, &err), &err);
    assert_ok(esp_session_bulk_flush(s, &err), &err);
    assert_int_equal(s->bulk.planned, 2);
    assert_int_equal(s->bulk.written, 1);
    assert_int_equal(refused, 1);
    esp_session_close(s);
    esp_table_close(table);
    esp_store_close(store);
    esp_session_close(NULL);
    esp_table_close(NULL);
    esp_store_close(NULL);
}

/* Open, write with undo on, roll back, close. */
static enum esp_status all_of_it(const struct esp_alloc *alloc, struct esp_error *err) {
    struct esp_store *store = NULL;
    struct esp_table *table = NULL;
    struct esp_session *s = NULL;
    struct esp_schema schema = node_schema();
    struct esp_write w[30];
    static char ids[30][4];
    for (int i = 0; i < 30; i++) {
        ids[i][0] = 'n', ids[i][1] = (char)('0' + i / 10), ids[i][2] = (char)('0' + i % 10);
        w[i] = (struct esp_write){
            .kind = ESP_PUT, .item = {.value = {esp_s((struct esp_str){ids[i], 3}), esp_n(i)}}};
    }
    enum esp_status status = esp_store_open("null:", NULL, &esp_clock_system, alloc, &store, err);
    if (status == ESP_OK) {
        status = esp_table_open(store, "t", &schema, &table, err);
    }
    if (status == ESP_OK) {
        status = esp_session_open(table, &s, err);
    }
    if (status == ESP_OK) {
        status = esp_undo_begin(s, err);
    }
    for (int round = 0; round < 2 && status == ESP_OK; round++) {
        status = esp_session_write(s, w, 30, NULL, err);
        if (status == ESP_OK) {
            status = esp_undo_rollback(s, err);
        }
    }
    esp_session_close(s);
    esp_table_close(table);
    esp_store_close(store);
    return status;
}

static void memory_runs_out(void **state) {
    (void)state;
    struct esp_test_alloc a;
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        struct esp_error err = ESP_ERROR_INIT;
        enum esp_status status = all_of_it(&a.alloc, &err);
        assert_int_equal(err.status, status);
        if (esp_test_alloc_done(&a)) {
            assert_int_equal(status, ESP_OK);
            assert_true(n > 60);
            break;
        }
        assert_int_equal(status, ESP_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_schemes_are_told_the_known_ones),
        cmocka_unit_test(every_store_is_whole),
        cmocka_unit_test(the_null_store_meters_and_keeps_nothing),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
