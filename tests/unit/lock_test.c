/* Locks of trees: who has one, for how long, and that nothing takes the item for a node. */
#include "loader/lock.h"

#include "tests/support/drives.h"
#include "tests/unit/edit_cases.h"

#include "converters/access.h"
#include "converters/validate.h"

enum { SECONDS = 60 };
static const uint64_t ns_per_s = 1000000000;

struct fixture {
    struct esp_virtual_clock time;
    struct esp_clock clock;
    struct esp_layout layout;
    struct esp_store *store;
    struct esp_forest *forest;
    struct suite_table one, other;
};

static void set_up_with(struct fixture *f, const struct esp_layout *layout) {
    f->time = (struct esp_virtual_clock){.wall_ns = 1800000000 * ns_per_s};
    f->clock = esp_clock_virtual(&f->time);
    f->layout = *layout;
    f->store = store_without_trials(&f->clock);
    f->forest = drives_forest();
    suite_table_open(&f->one, f->store, &f->layout, "locked", f->forest);
    second_session(&f->other, &f->one);
}

static void set_up(struct fixture *f) {
    struct esp_layout layout;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_layout_init(&layout, esp_layout_find("path"), NULL, &err), &err);
    set_up_with(f, &layout);
}

static void tear_down(struct fixture *f) {
    second_session_close(&f->other);
    suite_table_close(&f->one);
    esp_store_close(f->store);
    esp_forest_free(f->forest);
}

static void pass_time(struct fixture *f, uint64_t seconds) {
    f->time.now_ns += seconds * ns_per_s;
    f->time.wall_ns += seconds * ns_per_s;
}

static enum esp_status take(struct suite_table *t, const char *at, const char *to,
                            struct esp_lock **lock) {
    struct esp_args args = {.at.id = esp_str_from(at), .to.id = esp_str_from(to)};
    esp_error_clear(&t->err);
    return esp_lock_take(&t->access, ESP_OP_MOVE, &args, SECONDS, lock);
}

static enum esp_status count_reserved(void *ctx, const struct esp_item *item) {
    struct suite_table *t = *(struct suite_table **)ctx;
    *(uint64_t *)((void **)ctx)[1] += esp_item_reserved(&t->layout->schema, item);
    return ESP_OK;
}

static uint64_t lock_items(struct suite_table *t) {
    uint64_t count = 0;
    void *ctx[] = {t, &count};
    struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = true};
    assert_ok(esp_session_scan(t->session, &scan, count_reserved, ctx, &t->err), &t->err);
    return count;
}

static void two_do_not_have_one_tree(void **state) {
    (void)state;
    struct fixture f;
    struct esp_lock *mine, *theirs;
    set_up(&f);
    uint64_t before = table_digest(&f.one);
    assert_ok(take(&f.one, "d", "a", &mine), &f.one.err);
    assert_int_equal(lock_items(&f.one), 1);
    pass_time(&f, 18);
    assert_int_equal(take(&f.other, "I", "c", &theirs), ESP_ERR_CONFLICT);
    assert_null(theirs);
    assert_non_null(strstr(f.other.err.message, "the tree 'D' is locked by "));
    assert_non_null(strstr(f.other.err.message, "; the lock runs out in 42 s unless"));
    assert_int_equal(lock_items(&f.one), 1); /* that of C was given back */
    assert_ok(take(&f.other, "I", "II", &theirs), &f.other.err);
    assert_int_equal(lock_items(&f.one), 2);
    assert_ok(esp_lock_release(mine, &f.one.err), &f.one.err);
    assert_ok(esp_lock_release(theirs, &f.other.err), &f.other.err);
    assert_true(table_digest(&f.one) == before);
    tear_down(&f);
}

static void the_trees_concerned(void **state) {
    (void)state;
    struct fixture f;
    struct esp_lock *lock;
    set_up(&f);
    struct esp_args insert = {.id = ESP_STR("new")};
    assert_ok(esp_lock_take(&f.one.access, ESP_OP_INSERT, &insert, SECONDS, &lock), &f.one.err);
    struct esp_item key = esp_item_key(&f.layout.schema, ESP_STR("espalier:lock:new"), 0);
    struct esp_item_list found;
    esp_item_list_init(&found, &f.one.access);
    assert_ok(esp_session_get(f.one.session, &key, 1, true, esp_item_list_add, &found, &f.one.err),
              &f.one.err);
    assert_int_equal(found.count, 1);
    struct esp_str value;
    assert_true(esp_data_find(found.item[0].data, ESP_STR("expires"), &value));
    assert_true(esp_str_eq(value, ESP_STR("{\"N\":\"1800000060\"}")));
    assert_ok(esp_lock_release(lock, &f.one.err), &f.one.err);
    assert_ok(take(&f.one, "d", "", &lock), &f.one.err); /* D, and d will be a tree */
    assert_int_equal(lock_items(&f.one), 2);
    assert_ok(esp_lock_release(lock, &f.one.err), &f.one.err);
    assert_ok(take(&f.one, "d", "I", &lock), &f.one.err);
    assert_int_equal(lock_items(&f.one), 2);
    assert_ok(esp_lock_release(lock, &f.one.err), &f.one.err);
    assert_int_equal(take(&f.one, "nobody", "I", &lock), ESP_ERR_NOT_FOUND);
    assert_int_equal(lock_items(&f.one), 0);
    tear_down(&f);
}

static void what_has_run_out_is_taken_over(void **state) {
    (void)state;
    struct fixture f;
    struct esp_lock *mine, *theirs;
    set_up(&f);
    assert_ok(take(&f.one, "d", "a", &mine), &f.one.err);
    pass_time(&f, SECONDS);
    struct esp_str tree, owner;
    assert_false(esp_lock_taken_over(mine, &tree, &owner));
    assert_ok(take(&f.other, "d", "a", &theirs), &f.other.err);
    assert_true(esp_lock_taken_over(theirs, &tree, &owner));
    assert_true(esp_str_eq(tree, ESP_STR("D")));
    assert_non_null(memchr(owner.ptr, ':', owner.len)); /* host:pid:random */
    assert_int_equal(lock_items(&f.one), 1);
    assert_int_equal(esp_lock_keep(mine, &f.one.err), ESP_ERR_CONFLICT);
    assert_string_equal(f.one.err.message,
                        "the lock of the tree 'D' had run out and somebody took it");
    assert_int_equal(esp_lock_release(mine, NULL), ESP_OK);
    assert_int_equal(lock_items(&f.one), 1); /* theirs */
    assert_ok(esp_lock_keep(theirs, &f.other.err), &f.other.err);
    assert_ok(esp_lock_release(theirs, &f.other.err), &f.other.err);
    assert_int_equal(lock_items(&f.one), 0);
    tear_down(&f);
}

static void it_is_kept_by_renewing(void **state) {
    (void)state;
    struct fixture f;
    struct esp_lock *mine, *theirs;
    set_up(&f);
    assert_ok(take(&f.one, "d", "I", &mine), &f.one.err);
    uint64_t written = f.one.session->usage.items_written;
    for (int i = 0; i < 29; i++) {
        pass_time(&f, 1);
        assert_ok(esp_lock_keep(mine, &f.one.err), &f.one.err);
    }
    assert_int_equal(f.one.session->usage.items_written, written); /* half is not over */
    for (int i = 0; i < 10; i++) {
        pass_time(&f, 31);
        assert_ok(esp_lock_keep(mine, &f.one.err), &f.one.err);
        assert_int_equal(take(&f.other, "d", "a", &theirs), ESP_ERR_CONFLICT);
        assert_int_equal(take(&f.other, "I", "II", &theirs), ESP_ERR_CONFLICT);
    }
    pass_time(&f, 2 * SECONDS); /* run out, but nobody took it */
    assert_ok(esp_lock_keep(mine, &f.one.err), &f.one.err);
    assert_int_equal(take(&f.other, "d", "a", &theirs), ESP_ERR_CONFLICT);
    assert_ok(esp_lock_release(mine, &f.one.err), &f.one.err);
    tear_down(&f);
}

static void it_is_released_after_a_stop(void **state) {
    (void)state;
    struct fixture f;
    struct esp_lock *lock;
    const volatile int stop = 1;
    set_up(&f);
    assert_ok(take(&f.one, "d", "a", &lock), &f.one.err);
    f.one.session->stop = &stop;
    f.one.session->deadline_ns = 1;
    assert_ok(esp_lock_release(lock, &f.one.err), &f.one.err);
    assert_ptr_equal(f.one.session->stop, &stop);
    assert_int_equal(f.one.session->deadline_ns, 1);
    assert_int_equal(lock_items(&f.other), 0);
    f.one.session->stop = NULL;
    f.one.session->deadline_ns = 0;
    tear_down(&f);
}

/* --- every layout ------------------------------------------------------------------------- */

static enum esp_status count_node(void *ctx, const struct esp_node_view *node) {
    assert_false(esp_id_reserved(node->id));
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static uint64_t count_nodes(struct suite_table *t, enum esp_op op, const char *at) {
    struct esp_args args = {.at.id = esp_str_from(at)};
    uint64_t count = 0;
    assert_ok(esp_operate(&t->access, op, &args, count_node, &count), &t->err);
    return count;
}

static void it_is_no_node(struct fixture *f) {
    struct suite_table *t = &f->one;
    struct esp_lock *lock;
    struct esp_args args = {.at.id = ESP_STR("espalier:lock:D")};
    uint64_t count = 0;
    assert_ok(take(t, "d", "I", &lock), &t->err);
    assert_true(lock_items(t) >= 2);
    assert_int_equal(count_nodes(t, ESP_OP_ROOTS, ""), 2);
    assert_int_equal(count_nodes(t, ESP_OP_TREE, "D"), 12);
    assert_int_equal(count_nodes(t, ESP_OP_CHILDREN, "C"), 2);
    assert_int_equal(esp_operate(&t->access, ESP_OP_NODE, &args, count_node, &count),
                     ESP_ERR_NOT_FOUND);
    esp_error_clear(&t->err);
    args.at.id = ESP_STR("i");
    args.to.id = ESP_STR("espalier:lock:D");
    assert_int_equal(esp_operate(&t->access, ESP_OP_MOVE, &args, count_node, &count),
                     ESP_ERR_NOT_FOUND);
    assert_int_equal(count_findings(t), 0);
    assert_ok(esp_lock_release(lock, &t->err), &t->err);
    assert_int_equal(lock_items(t), 0);
}

static void no_layout_takes_it_for_a_node(void **state) {
    (void)state;
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    for (size_t i = 0; i < n; i++) {
        struct fixture f;
        set_up_with(&f, &layouts[i]);
        it_is_no_node(&f);
        tear_down(&f);
    }
}

static void such_ids_are_refused(void **state) {
    (void)state;
    static const struct drives_row rows[] = {{"root", ""}, {"espalier:lock:D", "root"}};
    static const struct drives_row fine[] = {{"root", ""}, {"espalier", "root"}, {"a:b", "root"}};
    struct esp_forest *forest = forest_of_rows(rows, 2), *good = forest_of_rows(fine, 3);
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    struct fixture f;
    set_up(&f);
    struct esp_args args = {.id = ESP_STR("espalier:x"), .to.id = ESP_STR("c")};
    assert_int_equal(esp_operate(&f.one.access, ESP_OP_INSERT, &args, NULL, NULL), ESP_ERR_INPUT);
    assert_string_equal(f.one.err.message, "the id 'espalier:x' begins with 'espalier:', which is "
                                           "for items of the program's own");
    esp_error_clear(&f.one.err);
    args = (struct esp_args){.subtree = forest, .to.id = ESP_STR("c")};
    if (esp_layout_has(&f.layout, ESP_OP_INSERT_SUBTREE)) {
        assert_int_equal(esp_operate(&f.one.access, ESP_OP_INSERT_SUBTREE, &args, NULL, NULL),
                         ESP_ERR_INPUT);
    }
    tear_down(&f);
    for (size_t i = 0; i < n; i++) {
        struct esp_error err = ESP_ERROR_INIT;
        assert_int_equal(layouts[i].ops->validate(&layouts[i], forest, &err), ESP_ERR_INPUT);
        assert_int_equal(err.line, 2);
        esp_error_clear(&err);
        assert_ok(layouts[i].ops->validate(&layouts[i], good, &err), &err);
    }
    esp_forest_free(forest);
    esp_forest_free(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_do_not_have_one_tree),
        cmocka_unit_test(the_trees_concerned),
        cmocka_unit_test(what_has_run_out_is_taken_over),
        cmocka_unit_test(it_is_kept_by_renewing),
        cmocka_unit_test(it_is_released_after_a_stop),
        cmocka_unit_test(no_layout_takes_it_for_a_node),
        cmocka_unit_test(such_ids_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
