/* Undo on the embedded stores, where it is one transaction; session_test has it on a store
 * without.  Item: id (S), index by kind (S). */
#include "tests/support/support.h"

#include "stores/undo.h"
#include <stdio.h>

static const char *const urls[] = {"memory:", "local:"};

struct fixture {
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_schema schema;
};

static void set_up(struct fixture *f, const char *url) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_table_options options = {.billing = ESP_BILLING_ON_DEMAND};
    memset(f, 0, sizeof *f);
    f->schema = (struct esp_schema){
        .attr = {{ESP_STR("id"), ESP_TYPE_S}, {ESP_STR("kind"), ESP_TYPE_S}},
        .attr_count = 2,
        .pk = 0,
        .sk = -1,
        .index = {{.name = ESP_STR("by-kind"), .pk = 1, .sk = -1, .projection = ESP_PROJECT_ALL}},
        .index_count = 1,
    };
    assert_ok(esp_store_open(url, NULL, &esp_clock_system, &esp_alloc_libc, &f->store, &err), &err);
    assert_ok(f->store->ops->create_table(f->store, "table", &f->schema, &options, &err), &err);
    assert_ok(esp_table_open(f->store, "table", &f->schema, &f->table, &err), &err);
    assert_ok(esp_session_open(f->table, &f->session, &err), &err);
}

static void tear_down(struct fixture *f) {
    struct esp_error err = ESP_ERROR_INIT;
    esp_session_close(f->session);
    esp_table_close(f->table);
    assert_ok(f->store->ops->drop_table(f->store, "table", &err), &err);
    esp_store_close(f->store);
}

static struct esp_write write_of(enum esp_write_kind kind, const char *id, const char *item_kind) {
    struct esp_write w = {.kind = kind};
    w.item.value[0] = esp_s(esp_str_from(id));
    w.item.value[1] = esp_s(esp_str_from(item_kind));
    return w;
}

static void do_write(struct fixture *f, enum esp_write_kind kind, const char *id,
                     const char *item_kind) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_write w = write_of(kind, id, item_kind);
    assert_ok(esp_session_write(f->session, &w, 1, NULL, &err), &err);
}

static enum esp_status add_id(void *ctx, const struct esp_item *item) {
    char *ids = ctx;
    size_t used = strlen(ids);
    snprintf(ids + used, 64 - used, "%.*s ", ESP_FMT(item->value[0].s));
    return ESP_OK;
}

/* The ids that an index query for a kind, or (NULL) a scan of the table finds. */
static void assert_ids(struct esp_session *session, const char *kind, const char *expected) {
    struct esp_error err = ESP_ERROR_INIT;
    char ids[64] = "";
    if (kind) {
        struct esp_query query = {.index = 0, .pk = esp_s(esp_str_from(kind))};
        assert_ok(esp_session_query(session, &query, add_id, ids, &err), &err);
    } else {
        struct esp_scan scan = {.index = ESP_PRIMARY};
        assert_ok(esp_session_scan(session, &scan, add_id, ids, &err), &err);
    }
    assert_string_equal(ids, expected);
}

static uint64_t item_count(struct fixture *f) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_table_info info;
    struct esp_arena arena;
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    assert_ok(f->store->ops->describe_table(f->store, "table", &arena, &info, &err), &err);
    esp_arena_fini(&arena);
    return info.item_count;
}

static void rollback_takes_back_what_was_written(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct fixture f;
        struct esp_error err = ESP_ERROR_INIT;
        set_up(&f, urls[i]);
        do_write(&f, ESP_PUT, "a", "fruit");
        assert_ok(esp_undo_begin(f.session, &err), &err);
        for (int round = 0; round < 3; round++) {
            do_write(&f, ESP_PUT, "b", "fruit");
            assert_ids(f.session, "fruit", "a b ");
            do_write(&f, ESP_PUT, "a", "nut");
            do_write(&f, ESP_DELETE, "b", "");
            assert_ids(f.session, "fruit", "");
            assert_ids(f.session, "nut", "a ");
            struct esp_usage usage = f.session->usage;
            assert_ok(esp_undo_rollback(f.session, &err), &err);
            assert_memory_equal(&usage, &f.session->usage, sizeof usage);
            assert_ids(f.session, "fruit", "a ");
            assert_ids(f.session, "nut", "");
            assert_ids(f.session, NULL, "a ");
        }
        assert_ok(esp_undo_end(f.session, &err), &err);
        assert_ids(f.session, "fruit", "a ");
        assert_int_equal(item_count(&f), 1);
        tear_down(&f);
    }
}

static void end_keeps_what_was_written(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct fixture f;
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_session *other;
        set_up(&f, urls[i]);
        assert_ok(esp_undo_begin(f.session, &err), &err);
        do_write(&f, ESP_PUT, "a", "fruit");
        assert_ok(esp_undo_begin(f.session, &err), &err); /* again: keeps, too */
        do_write(&f, ESP_PUT, "b", "fruit");
        assert_ok(esp_undo_end(f.session, &err), &err);
        do_write(&f, ESP_PUT, "c", "fruit"); /* an ordinary write once more */
        assert_ok(esp_session_open(f.table, &other, &err), &err);
        assert_ids(other, "fruit", "a b c ");
        assert_int_equal(item_count(&f), 3);
        esp_session_close(other);
        tear_down(&f);
    }
}

static void closing_takes_back(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct fixture f;
        struct esp_error err = ESP_ERROR_INIT;
        set_up(&f, urls[i]);
        do_write(&f, ESP_PUT, "a", "fruit");
        assert_ok(esp_undo_begin(f.session, &err), &err);
        do_write(&f, ESP_PUT, "b", "fruit");
        esp_session_close(f.session);
        assert_ok(esp_session_open(f.table, &f.session, &err), &err);
        assert_ids(f.session, "fruit", "a ");
        assert_int_equal(item_count(&f), 1);
        tear_down(&f);
    }
}

static void a_refused_write_does_not_end_it(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        struct fixture f;
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_condition absent = {.name = ESP_STR("id"), .op = ESP_NOT_EXISTS};
        set_up(&f, urls[i]);
        assert_ok(esp_undo_begin(f.session, &err), &err);
        do_write(&f, ESP_PUT, "a", "fruit");
        struct esp_write w = write_of(ESP_PUT, "a", "nut");
        w.condition = &absent;
        w.condition_count = 1;
        assert_status(ESP_ERR_CONDITION, esp_session_write(f.session, &w, 1, NULL, &err));
        do_write(&f, ESP_PUT, "b", "fruit");
        assert_ids(f.session, "fruit", "a b ");
        assert_ok(esp_undo_rollback(f.session, &err), &err);
        assert_ids(f.session, NULL, "");
        tear_down(&f); /* closing the session ends it */
    }
}

/* Readers of the LMDB store are not held up, and see what was there before. */
static void nobody_else_sees_it(void **state) {
    (void)state;
    struct fixture f;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_session *other;
    set_up(&f, "local:");
    do_write(&f, ESP_PUT, "a", "fruit");
    assert_ok(esp_session_open(f.table, &other, &err), &err);
    assert_ok(esp_undo_begin(f.session, &err), &err);
    do_write(&f, ESP_PUT, "b", "fruit");
    assert_ids(f.session, "fruit", "a b ");
    assert_ids(other, "fruit", "a ");
    assert_ok(esp_undo_end(f.session, &err), &err);
    assert_ids(other, "fruit", "a b ");
    esp_session_close(other);
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rollback_takes_back_what_was_written),
        cmocka_unit_test(end_keeps_what_was_written),
        cmocka_unit_test(closing_takes_back),
        cmocka_unit_test(a_refused_write_does_not_end_it),
        cmocka_unit_test(nobody_else_sees_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
