/* Images of plans: what they say, that carrying them out is what the operation does, that they can
 * be taken back and gone on with from anywhere, and that nobody else's writes are lost. */
#include "tests/support/drives.h"
#include "tests/unit/edit_cases.h"

#include "converters/access.h"

#include <stdio.h>

static struct esp_images_run forward(void) {
    return (struct esp_images_run){.way = ESP_IMAGES_FORWARD};
}

/* --- every edit of every layout ----------------------------------------------------------- */

typedef void case_fn(struct suite_table *t, const struct edit_case *c);

static void for_every_case(case_fn *fn) {
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts), ran = 0;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store = store_without_trials(&esp_clock_system);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < edit_case_count; k++) {
            if (esp_layout_has(&layouts[i], edit_cases[k].op)) {
                struct suite_table t;
                suite_table_open(&t, store, &layouts[i], "images", forest);
                fn(&t, &edit_cases[k]);
                suite_table_close(&t);
                ran++;
            }
        }
    }
    assert_true(ran >= 10 * n);
    esp_store_close(store);
    esp_forest_free(forest);
}

/* The operation itself, at once. */
static uint64_t digest_after(struct suite_table *t, const struct edit_case *c) {
    struct esp_forest *forest = drives_forest();
    struct suite_table other;
    struct esp_args args = edit_args(c);
    suite_table_open(&other, t->store, t->layout, "at-once", forest);
    assert_ok(esp_operate(&other.access, c->op, &args, NULL, NULL), &other.err);
    uint64_t digest = table_digest(&other);
    suite_table_close(&other);
    esp_forest_free(forest);
    return digest;
}

static void does_what_the_operation_does(struct suite_table *t, const struct edit_case *c) {
    struct esp_images images;
    struct esp_images_run run = forward();
    struct esp_images_sum sum;
    uint64_t before = table_digest(t);
    assert_ok(plan_case(t, c, &images), &t->err);
    assert_true(table_digest(t) == before);
    esp_images_sum(&images, false, &sum);
    double written = esp_units_total(&t->session->usage.write);
    assert_ok(esp_images_run(&images, t->session, &run, &t->err), &t->err);
    assert_ok(esp_images_verify_basis(&images, t->session, &t->err), &t->err);
    assert_int_equal(run.written, images.count);
    assert_int_equal(sum.puts + sum.updates + sum.deletes, images.count);
    assert_true(esp_units_total(&sum.usage.write) ==
                esp_units_total(&t->session->usage.write) - written);
    assert_true(table_digest(t) == digest_after(t, c));
    assert_int_equal(count_findings(t), 0);
    run.way = ESP_IMAGES_BACK;
    assert_ok(esp_images_run(&images, t->session, &run, &t->err), &t->err);
    assert_int_equal(run.written, images.count);
    assert_true(table_digest(t) == before);
}

static void carried_out_and_taken_back(void **state) {
    (void)state;
    for_every_case(does_what_the_operation_does);
}

static void one_transaction_costs_twice(struct suite_table *t, const struct edit_case *c) {
    struct esp_images images;
    struct esp_images_run run = forward();
    struct esp_images_sum sum;
    run.transaction = true;
    assert_ok(plan_case(t, c, &images), &t->err);
    esp_images_sum(&images, true, &sum);
    struct esp_usage before = t->session->usage;
    assert_ok(esp_images_run(&images, t->session, &run, &t->err), &t->err);
    assert_true(sum.usage.write.table == t->session->usage.write.table - before.write.table);
    assert_int_equal(t->session->usage.requests - before.requests, images.count ? 1 : 0);
    assert_true(table_digest(t) == digest_after(t, c));
}

static void carried_out_as_a_transaction(void **state) {
    (void)state;
    for_every_case(one_transaction_costs_twice);
}

/* Somebody was cut after k writes: from there it can be finished, and undone. */
static void from_anywhere(struct suite_table *t, const struct edit_case *c) {
    struct esp_images images;
    uint64_t before = table_digest(t), after = digest_after(t, c);
    assert_ok(plan_case(t, c, &images), &t->err);
    for (uint32_t k = 0; k <= images.count; k++) {
        struct esp_images first = images;
        struct esp_images_run run = forward();
        first.count = k;
        assert_ok(esp_images_run(&first, t->session, &run, &t->err), &t->err);
        run.idempotent = true;
        assert_ok(esp_images_run(&images, t->session, &run, &t->err), &t->err);
        assert_int_equal(run.already, k);
        assert_int_equal(run.written, images.count - k);
        assert_int_equal(run.strange_count, 0);
        assert_true(table_digest(t) == after);
        run.way = ESP_IMAGES_BACK;
        assert_ok(esp_images_run(&images, t->session, &run, &t->err), &t->err);
        assert_true(table_digest(t) == before);
        assert_int_equal(count_findings(t), 0);
        run.way = ESP_IMAGES_FORWARD;
        assert_ok(esp_images_run(&first, t->session, &run, &t->err), &t->err);
        run.way = ESP_IMAGES_BACK;
        assert_ok(esp_images_run(&images, t->session, &run, &t->err), &t->err);
        assert_int_equal(run.already, images.count - k);
        assert_true(table_digest(t) == before);
    }
}

static void finished_and_undone_from_anywhere(void **state) {
    (void)state;
    for_every_case(from_anywhere);
}

/* --- single things, in the layout path ---------------------------------------------------- */

struct fixture {
    struct suite_table t;
    struct esp_layout layout;
    struct esp_store *store;
    struct esp_forest *forest;
};

static void set_up(struct fixture *f) {
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_layout_init(&f->layout, esp_layout_find("path"), NULL, &err), &err);
    f->store = store_without_trials(&esp_clock_system);
    f->forest = drives_forest();
    suite_table_open(&f->t, f->store, &f->layout, "images", f->forest);
}

static void tear_down(struct fixture *f) {
    suite_table_close(&f->t);
    esp_store_close(f->store);
    esp_forest_free(f->forest);
}

static const struct edit_case *find_case(const char *name) {
    for (size_t i = 0; i < edit_case_count; i++) {
        if (strcmp(edit_cases[i].name, name) == 0) {
            return &edit_cases[i];
        }
    }
    fail_msg("no case %s", name);
    return NULL;
}

static void plan_named(struct fixture *f, const char *name, struct esp_images *images) {
    assert_ok(plan_case(&f->t, find_case(name), images), &f->t.err);
}

static void operate(struct fixture *f, enum esp_op op, const char *at, const char *to,
                    const char *data) {
    struct esp_args args = {.at.id = esp_str_from(at), .to.id = esp_str_from(to)};
    struct esp_item item;
    struct esp_str json = esp_arena_fmt(&f->t.scratch, "{%s}", data);
    assert_ok(esp_item_parse(&f->layout.schema, json, &f->t.scratch, &item, &f->t.err), &f->t.err);
    args.data = item.data;
    args.id = args.at.id;
    assert_ok(esp_operate(&f->t.access, op, &args, NULL, NULL), &f->t.err);
}

static void expect_error(struct fixture *f, enum esp_status status, enum esp_status want,
                         const char *message) {
    assert_string_equal(esp_test_status_name(status), esp_test_status_name(want));
    assert_string_equal(f->t.err.message, message);
    esp_error_clear(&f->t.err);
}

static void the_operations_refusals(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    const struct edit_case there = {"", ESP_OP_INSERT, "", "c", "V"};
    const struct edit_case missing = {"", ESP_OP_UPDATE, "nobody", "", ""};
    set_up(&f);
    expect_error(&f, plan_case(&f.t, &there, &images), ESP_ERR_EXISTS,
                 "there is a node 'V' already");
    expect_error(&f, plan_case(&f.t, &missing, &images), ESP_ERR_NOT_FOUND,
                 "there is no node 'nobody'");
    tear_down(&f);
}

static void what_changes_nothing_is_left_out(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    set_up(&f);
    operate(&f, ESP_OP_UPDATE, "V", "", "\"name\":{\"S\":\"another\"},\"size\":{\"N\":\"5\"}");
    plan_named(&f, "update", &images);
    assert_int_equal(images.count, 0);
    assert_int_equal(images.unchanged, 1);
    assert_true(images.unchanged_usage.write.table == 1);
    tear_down(&f);
}

static void one_key_twice_is_an_error(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_write_plan plan;
    set_up(&f);
    struct esp_write writes[2] = {{.kind = ESP_DELETE}, {.kind = ESP_DELETE}};
    writes[0].item.value[f.layout.schema.pk] = esp_s(ESP_STR("V"));
    writes[1].item = writes[0].item;
    esp_write_plan_init(&plan, &f.layout.schema, &f.t.scratch);
    esp_images_init(&images, &f.layout.schema, &f.t.scratch);
    assert_int_equal(esp_write_plan_add(&plan, writes, 2, false), ESP_OK);
    expect_error(&f, esp_images_plan(&images, &f.t.access, &plan), ESP_ERR_INTERNAL,
                 "an edit would write the item ID=V twice");
    tear_down(&f);
}

/* What the operation read was old: an index lags behind. */
static void a_plan_from_old_items_is_refused(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_write_plan plan;
    set_up(&f);
    struct esp_item old = {.data = {0}};
    struct esp_write write = {.kind = ESP_DELETE, .old = &old};
    old.value[f.layout.schema.pk] = write.item.value[f.layout.schema.pk] = esp_s(ESP_STR("V"));
    int path = esp_schema_find_attr(&f.layout.schema, ESP_STR("Path"));
    old.value[path] = esp_s(ESP_STR("/somewhere/else/"));
    esp_write_plan_init(&plan, &f.layout.schema, &f.t.scratch);
    esp_images_init(&images, &f.layout.schema, &f.t.scratch);
    assert_int_equal(esp_write_plan_add(&plan, &write, 1, false), ESP_OK);
    expect_error(&f, esp_images_plan(&images, &f.t.access, &plan), ESP_ERR_CONFLICT,
                 "another writer changed the item ID=V while the edit was planned");
    tear_down(&f);
}

static void others_payloads_survive(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_images_run run = forward();
    struct esp_item_list found = {.schema = NULL};
    set_up(&f);
    plan_named(&f, "move across", &images);
    operate(&f, ESP_OP_UPDATE, "ii", "", "\"note\":{\"S\":\"mine\"}");
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    esp_item_list_init(&found, &f.t.access);
    struct esp_item key = esp_item_key(&f.layout.schema, ESP_STR("ii"), 0);
    assert_ok(esp_session_get(f.t.session, &key, 1, true, esp_item_list_add, &found, &f.t.err),
              &f.t.err);
    struct esp_str value;
    assert_int_equal(found.count, 1);
    assert_true(esp_data_find(found.item[0].data, ESP_STR("note"), &value));
    assert_int_equal(count_findings(&f.t), 0);
    tear_down(&f);
}

static void somebody_elses_structure_is_a_conflict(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_images_run run = forward();
    set_up(&f);
    plan_named(&f, "move across", &images);
    operate(&f, ESP_OP_MOVE, "ii", "e", "");
    expect_error(&f, esp_images_run(&images, f.t.session, &run, &f.t.err), ESP_ERR_CONFLICT,
                 "another writer changed the item ID=ii");
    run = (struct esp_images_run){.way = ESP_IMAGES_BACK, .idempotent = true, .only_done = true};
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    assert_int_equal(run.strange_count, 0);
    assert_int_equal(count_findings(&f.t), 0);
    tear_down(&f);
}

/* What somebody else did just so is not taken back with one's own writes. */
static void taking_back_is_of_ones_own(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_images_run run = forward();
    set_up(&f);
    plan_named(&f, "remove a subtree", &images);
    operate(&f, ESP_OP_REMOVE, "d", "", "");
    uint64_t theirs = table_digest(&f.t);
    expect_error(&f, esp_images_run(&images, f.t.session, &run, &f.t.err), ESP_ERR_CONFLICT,
                 "another writer deleted the item ID=d");
    assert_true(table_digest(&f.t) != theirs);
    run = (struct esp_images_run){.way = ESP_IMAGES_BACK, .idempotent = true, .only_done = true};
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    assert_true(table_digest(&f.t) == theirs);
    tear_down(&f);
}

static enum esp_status note_strange(void *ctx, const struct esp_image *image,
                                    const struct esp_item *now) {
    char *text = ctx;
    size_t len = strlen(text);
    snprintf(text + len, 256 - len, "%.*s %s;", ESP_FMT(esp_image_item(image)->value[0].s),
             now ? "there" : "gone");
    return ESP_OK;
}

static void strange_items_are_left_alone(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    char told[256] = "";
    struct esp_images_run run = {.idempotent = true, .strange = note_strange, .ctx = told};
    set_up(&f);
    plan_named(&f, "move across", &images);
    operate(&f, ESP_OP_MOVE, "ii", "e", "");
    operate(&f, ESP_OP_REMOVE, "iii", "", "");
    run.look_only = true;
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    assert_int_equal(run.strange_count, 2);
    assert_int_equal(run.written, 2);
    run.look_only = false;
    told[0] = '\0';
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    assert_string_equal(told, "ii there;iii gone;");
    assert_int_equal(run.written, 2);
    tear_down(&f);
}

/* --- the basis ---------------------------------------------------------------------------- */

static void basis_is(struct fixture *f, struct esp_images *images, const char *id) {
    struct esp_item_list found;
    esp_item_list_init(&found, &f->t.access);
    struct esp_item key = esp_item_key(&f->layout.schema, esp_str_from(id), 0);
    assert_ok(esp_session_get(f->t.session, &key, 1, true, esp_item_list_add, &found, &f->t.err),
              &f->t.err);
    images->basis = found.item;
    images->basis_count = 1;
}

static void a_changed_basis_is_a_conflict(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_images_run run = {.transaction = true};
    set_up(&f);
    plan_named(&f, "insert a leaf", &images);
    basis_is(&f, &images, "c");
    assert_ok(esp_images_verify_basis(&images, f.t.session, &f.t.err), &f.t.err);
    operate(&f, ESP_OP_UPDATE, "c", "", "\"note\":{\"S\":\"only payload\"}");
    assert_ok(esp_images_verify_basis(&images, f.t.session, &f.t.err), &f.t.err);
    operate(&f, ESP_OP_MOVE, "c", "a", "");
    uint64_t theirs = table_digest(&f.t);
    expect_error(&f, esp_images_verify_basis(&images, f.t.session, &f.t.err), ESP_ERR_CONFLICT,
                 "another writer changed the item ID=c");
    expect_error(&f, esp_images_run(&images, f.t.session, &run, &f.t.err), ESP_ERR_CONFLICT,
                 "another writer changed the item ID=c");
    operate(&f, ESP_OP_REMOVE, "c", "", "");
    expect_error(&f, esp_images_verify_basis(&images, f.t.session, &f.t.err), ESP_ERR_CONFLICT,
                 "another writer deleted the item ID=c");
    assert_true(table_digest(&f.t) != theirs);
    assert_int_equal(count_findings(&f.t), 0);
    tear_down(&f);
}

static void a_transaction_has_an_end(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_images_run run = {.transaction = true};
    set_up(&f);
    esp_images_init(&images, &f.layout.schema, &f.t.scratch);
    for (uint32_t i = 0; i <= ESP_IMAGES_TRANSACTION_MAX; i++) {
        struct esp_image image = {.has_after = true};
        char id[16];
        snprintf(id, sizeof id, "x%u", i);
        image.after.value[f.layout.schema.pk] = esp_s(esp_str_from(id));
        assert_ok(esp_images_add(&images, &image, &f.t.err), &f.t.err);
    }
    uint64_t before = table_digest(&f.t);
    expect_error(&f, esp_images_run(&images, f.t.session, &run, &f.t.err), ESP_ERR_LIMIT,
                 "101 items would change; a transaction takes at most 100");
    assert_true(table_digest(&f.t) == before);
    images.count--;
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    tear_down(&f);
}

/* Many waves, an end in the middle of one, names with escapes. */
static void many_waves(void **state) {
    (void)state;
    struct fixture f;
    struct esp_images images;
    struct esp_images_run run = forward();
    static const char odd[] = "\"a\\\"b\":{\"S\":\"1\"}", other[] = "\"a\\\"b\":{\"S\":\"2\"}";
    enum { COUNT = 2 * ESP_IMAGES_WAVE + 17 };
    set_up(&f);
    uint64_t before = table_digest(&f.t);
    esp_images_init(&images, &f.layout.schema, &f.t.scratch);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct esp_image image = {.has_after = true, .stage = i / 1500};
        struct esp_str id = esp_arena_fmt(&f.t.scratch, "x%u", i);
        image.after.value[f.layout.schema.pk] = esp_s(id);
        image.after.data = (struct esp_data){odd, sizeof odd - 1, 4};
        assert_ok(esp_images_add(&images, &image, &f.t.err), &f.t.err);
    }
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    assert_int_equal(run.written, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        images.image[i].before = images.image[i].after;
        images.image[i].has_before = true;
        images.image[i].after.data.text = other;
    }
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    run.idempotent = true;
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    assert_int_equal(run.already, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        images.image[i].has_before = false;
    }
    run = (struct esp_images_run){.way = ESP_IMAGES_BACK};
    assert_ok(esp_images_run(&images, f.t.session, &run, &f.t.err), &f.t.err);
    assert_true(table_digest(&f.t) == before);
    tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carried_out_and_taken_back),
        cmocka_unit_test(carried_out_as_a_transaction),
        cmocka_unit_test(finished_and_undone_from_anywhere),
        cmocka_unit_test(the_operations_refusals),
        cmocka_unit_test(what_changes_nothing_is_left_out),
        cmocka_unit_test(one_key_twice_is_an_error),
        cmocka_unit_test(a_plan_from_old_items_is_refused),
        cmocka_unit_test(others_payloads_survive),
        cmocka_unit_test(somebody_elses_structure_is_a_conflict),
        cmocka_unit_test(taking_back_is_of_ones_own),
        cmocka_unit_test(strange_items_are_left_alone),
        cmocka_unit_test(a_changed_basis_is_a_conflict),
        cmocka_unit_test(a_transaction_has_an_end),
        cmocka_unit_test(many_waves),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    edit_cases_fini();
    return failed;
}
