/* Another writer who comes while an edit is planned, payloads that are newer than a repair, answers
 * that are lost beside refusals, and how many round trips the last look takes. */
#include "loader/edit.h"

#include "loader/repair.h"
#include "tests/support/drives.h"
#include "tests/unit/edit_cases.h"

#include <stdio.h>
#include <unistd.h>

static char folder[256], journal[512];

static struct esp_edit_options plain(void) {
    return (struct esp_edit_options){.journal = journal,
                                     .edit = {.layout = "any", .operation = "edit"},
                                     .repair_command = "`mend it`"};
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

static enum esp_status edit(struct suite_table *t, const struct edit_case *c) {
    struct esp_args args = edit_args(c);
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    options.edit.layout = t->layout->ops->name;
    esp_error_clear(&t->err);
    esp_arena_reset(&t->scratch);
    return esp_edit_run(&t->access, c->op, &args, &options, &result);
}

/* --- a store that something happens to ---------------------------------------------------- */

static struct {
    const struct esp_store_ops *inner;
    struct suite_table *other; /* strikes before the request number `when`; NULL: nobody */
    const struct edit_case *other_case;
    size_t when;
    bool at_write; /* before the first write instead */
    bool other_is_at_work, struck;
    bool wrote;         /* the edit has begun to write */
    size_t writes_left; /* then nobody answers any more */
    bool mixed; /* the first write of a bunch is refused, the answer to the second is lost */
} world;

static void strike(void) {
    struct suite_table *t = world.other;
    struct esp_args args = edit_args(world.other_case);
    world.struck = world.other_is_at_work = true;
    assert_ok(esp_operate(&t->access, world.other_case->op, &args, NULL, NULL), &t->err);
    world.other_is_at_work = false;
}

static enum esp_status execute(struct esp_session *session, struct esp_request *requests, size_t n,
                               struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        struct esp_request *r = &requests[i];
        bool write = r->kind == ESP_REQ_WRITE || r->kind == ESP_REQ_TRANSACT;
        if (world.other && !world.other_is_at_work && !world.wrote &&
            (world.at_write ? write : world.when-- == 0)) {
            strike();
        }
        if (write && world.writes_left-- == 0) {
            world.writes_left = 0;
            return esp_fail(err, ESP_ERR_UNAVAILABLE, "the connection is gone");
        }
        world.wrote = world.wrote || (write && !world.other_is_at_work);
        if (write && world.mixed && i == 0 && n > 1) {
            r->status = ESP_ERR_CONDITION;
            continue;
        }
        status = world.inner->execute(session, r, 1, err);
        if (write && world.mixed && i == 1) {
            r->status = ESP_ERR_UNAVAILABLE;
        }
    }
    return status;
}

struct fixture {
    struct esp_store *store;
    struct esp_store_ops ops;
    struct suite_table one, other;
};

static void begin(struct fixture *f, const struct esp_layout *layout,
                  const struct esp_forest *forest) {
    memset(&world, 0, sizeof world);
    world.writes_left = SIZE_MAX;
    f->store = store_without_trials(&esp_clock_system);
    suite_table_open(&f->one, f->store, layout, "raced", forest);
    second_session(&f->other, &f->one);
    world.inner = f->store->ops;
    f->ops = *f->store->ops;
    f->ops.execute = execute;
    f->store->ops = &f->ops;
}

/* From here on nothing happens any more. */
static void calm(void) {
    world.other = NULL;
    world.mixed = false;
    world.writes_left = SIZE_MAX;
}

static void end(struct fixture *f) {
    calm();
    second_session_close(&f->other);
    suite_table_close(&f->one);
    esp_store_close(f->store);
    (void)unlink(journal);
}

/* --- two writers, one of them while the other one plans ----------------------------------- */

/* The table after one edit, or two one after the other; 0: refused. */
static uint64_t digest_after(const struct esp_layout *layout, const struct esp_forest *forest,
                             const struct edit_case *first, const struct edit_case *second) {
    struct esp_store *store = store_without_trials(&esp_clock_system);
    const struct edit_case *cases[2] = {first, second};
    enum esp_status status = ESP_OK;
    struct suite_table t;
    suite_table_open(&t, store, layout, "at-once", forest);
    for (size_t i = 0; status == ESP_OK && i < 2 && cases[i]; i++) {
        struct esp_args args = edit_args(cases[i]);
        esp_arena_reset(&t.scratch);
        status = esp_operate(&t.access, cases[i]->op, &args, NULL, NULL);
    }
    esp_error_clear(&t.err);
    uint64_t digest = status == ESP_OK ? table_digest(&t) : 0;
    suite_table_close(&t);
    esp_store_close(store);
    return digest;
}

struct pair {
    const struct esp_layout *layout;
    const struct esp_forest *forest;
    const struct edit_case *one, *other;
    uint64_t other_alone, one_first, other_first;
};

/* False when the edit had begun to write, or was over, before the other writer came. */
static bool race(const struct pair *p, size_t when) {
    struct fixture f;
    begin(&f, p->layout, p->forest);
    world.other = &f.other;
    world.other_case = p->other;
    world.when = when;
    enum esp_status status = edit(&f.one, p->one);
    bool struck = world.struck;
    calm();
    uint64_t left = table_digest(&f.one);
    bool right = status == ESP_OK ? left == p->one_first || left == p->other_first
                                  : left == p->other_alone && access(journal, F_OK) != 0 &&
                                        (status == ESP_ERR_CONFLICT ||
                                         esp_status_class(status) == ESP_CLASS_USER);
    if (struck && (!right || count_findings(&f.one))) {
        fail_msg("%s: %s, and %s before its request %zu: %s, %s", p->layout->ops->name,
                 p->one->name, p->other->name, when, esp_status_name(status), f.one.err.message);
    }
    end(&f);
    return struck;
}

/* Without an index of ids, a scan has looked for the id of a new node; nobody looks again. */
static bool same_id_elsewhere(const struct pair *p) {
    return p->layout->settings.by_id == ESP_SWITCH_OFF && p->one->op == ESP_OP_INSERT_SUBTREE &&
           p->other->op == ESP_OP_INSERT_SUBTREE;
}

static size_t sweep(struct pair *p) {
    size_t when = 0;
    if (!esp_layout_has(p->layout, p->one->op) || !esp_layout_has(p->layout, p->other->op) ||
        same_id_elsewhere(p)) {
        return 0;
    }
    p->other_alone = digest_after(p->layout, p->forest, p->other, NULL);
    p->one_first = digest_after(p->layout, p->forest, p->one, p->other);
    p->other_first = digest_after(p->layout, p->forest, p->other, p->one);
    while (race(p, when)) {
        when++;
    }
    return when;
}

/* Pairs that have gone wrong: in all layouts. */
static const char *const known[][2] = {
    {"move across", "update below"},
    {"move up", "update below"},
    {"promote", "update below"},
    {"move across", "promote"},
    {"move across", "insert into the moved subtree"},
    {"move out", "promote"},
};

static void while_one_plans(void **state) {
    (void)state;
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts), races = 0;
    struct esp_forest *forest = drives_forest();
    for (size_t i = 0; i < n; i++) {
        struct pair p = {.layout = &layouts[i], .forest = forest};
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            p.one = find_case(known[k][0]);
            p.other = find_case(known[k][1]);
            races += sweep(&p);
        }
        /* Every pair in some layouts. */
        for (size_t k = i % 97; k < edit_case_count * edit_case_count; k += 97) {
            p.one = &edit_cases[k % edit_case_count];
            p.other = &edit_cases[k / edit_case_count];
            races += sweep(&p);
        }
    }
    assert_true(races > 500);
    esp_forest_free(forest);
}

/* --- repair ------------------------------------------------------------------------------- */

/* The items of "d": at most one before its move, two while it is moved. */
struct places {
    const struct esp_layout *layout;
    struct esp_item key[2];
    bool has_note[2];
    size_t count;
    struct esp_arena *arena;
};

static enum esp_status note_place(void *ctx, const struct esp_item *item) {
    struct places *p = ctx;
    struct esp_node_view view;
    struct esp_str value;
    if (!p->layout->ops->view(p->layout, item, &view) || !esp_str_eq(view.id, ESP_STR("d"))) {
        return ESP_OK;
    }
    assert_in_range(p->count, 0, 1);
    p->has_note[p->count] = esp_data_find(item->data, ESP_STR("note"), &value);
    return esp_item_dup(&p->layout->schema, p->arena, item, &p->key[p->count++]);
}

static void find_places(struct suite_table *t, struct places *p) {
    struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = true};
    *p = (struct places){.layout = t->layout, .arena = &t->scratch};
    assert_ok(esp_session_scan(t->session, &scan, note_place, p, &t->err), &t->err);
}

static void put_note(struct suite_table *t, const struct esp_item *key) {
    struct esp_change change = {ESP_CHANGE_SET, ESP_STR("note"), esp_s(ESP_STR("newer"))};
    struct esp_write write = {
        .kind = ESP_UPDATE, .item = *key, .changes = &change, .change_count = 1};
    assert_ok(esp_session_write(t->session, &write, 1, NULL, &t->err), &t->err);
}

/* A move is cut when both places are there; then somebody writes to the one that would go. */
static void newer_payloads_survive(bool undo) {
    struct esp_layout layout;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct places before, both, after;
    struct fixture f;
    assert_ok(esp_layout_init(&layout, esp_layout_find("path-key"), NULL, &err), &err);
    begin(&f, &layout, forest);
    find_places(&f.other, &before);
    assert_int_equal(before.count, 1);
    world.writes_left = 4; /* the puts of d and of all below it */
    assert_int_equal(edit(&f.one, find_case("move across")), ESP_ERR_UNAVAILABLE);
    calm();
    find_places(&f.other, &both);
    assert_int_equal(both.count, 2);
    bool first_is_old = esp_item_same_key(&layout.schema, &both.key[0], &before.key[0]);
    put_note(&f.other, &both.key[first_is_old == undo]);
    struct esp_repair repair = {.journal = journal, .undo = undo};
    esp_error_clear(&f.one.err);
    esp_arena_reset(&f.one.scratch);
    assert_ok(esp_repair_run(&f.one.access, &repair), &f.one.err);
    assert_int_equal(repair.strange, 1);
    assert_int_equal(repair.withheld, 4);
    assert_int_equal(repair.state, ESP_REPAIR_UNMENDED);
    assert_false(esp_repair_is_whole(&repair));
    assert_int_equal(access(journal, F_OK), 0);
    find_places(&f.other, &after);
    assert_int_equal(after.count, 2);
    assert_true(after.has_note[0] != after.has_note[1]);
    end(&f);
    esp_forest_free(forest);
}

static void repair_deletes_no_newer_payload(void **state) {
    (void)state;
    newer_payloads_survive(false);
    newer_payloads_survive(true);
}

/* --- lost answers ------------------------------------------------------------------------- */

static void a_lost_answer_beside_a_refusal(void **state) {
    (void)state;
    struct esp_layout layout;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct fixture f;
    assert_ok(esp_layout_init(&layout, esp_layout_find("path"), NULL, &err), &err);
    begin(&f, &layout, forest);
    world.mixed = true;
    assert_int_equal(edit(&f.one, find_case("move across")), ESP_ERR_UNAVAILABLE);
    assert_non_null(strstr(f.one.err.message, "it is not known"));
    assert_int_equal(access(journal, F_OK), 0);
    end(&f);
    esp_forest_free(forest);
}

/* The new parent goes elsewhere when the plan is made. */
static void who_may_have_read_it_half_done(void **state) {
    (void)state;
    static const struct edit_case away = {"move the new parent", ESP_OP_MOVE, "c", "a", ""};
    struct esp_layout layout;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct fixture f;
    assert_ok(esp_layout_init(&layout, esp_layout_find("path"), NULL, &err), &err);
    begin(&f, &layout, forest);
    world.other = &f.other;
    world.other_case = &away;
    world.at_write = true;
    assert_int_equal(edit(&f.one, find_case("move across")), ESP_ERR_CONFLICT);
    calm();
    assert_string_equal(f.one.err.message,
                        "another writer changed the item ID=c; nothing of this edit remains, but "
                        "others may have read it half done: `check` tells");
    assert_true(table_digest(&f.one) == digest_after(&layout, forest, &away, NULL));
    assert_int_equal(count_findings(&f.one), 0);
    assert_int_not_equal(access(journal, F_OK), 0);
    end(&f);
    esp_forest_free(forest);
}

/* --- the last look ------------------------------------------------------------------------ */

static void ranges_are_asked_for_together(void **state) {
    (void)state;
    enum { ROWS = 301 };
    static struct drives_row rows[ROWS];
    static char ids[ROWS][8];
    struct esp_layout layout;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    struct fixture f;
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(ids[i], sizeof ids[i], "s%zu", i);
        rows[i] = (struct drives_row){ids[i], i ? ids[0] : ""};
    }
    struct esp_forest *forest = forest_of_rows(rows, ROWS);
    assert_ok(esp_layout_init(&layout, esp_layout_find("adjacency"), NULL, &err), &err);
    begin(&f, &layout, forest);
    struct esp_args args = {.at.id = ESP_STR("s0")};
    uint64_t before = f.one.session->usage.round_trips;
    assert_ok(esp_edit_run(&f.one.access, ESP_OP_REMOVE, &args, &options, &result), &f.one.err);
    assert_int_equal(result.deletes, ROWS);
    assert_in_range(f.one.session->usage.round_trips - before, 1, 40);
    end(&f);
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(while_one_plans),
        cmocka_unit_test(repair_deletes_no_newer_payload),
        cmocka_unit_test(a_lost_answer_beside_a_refusal),
        cmocka_unit_test(who_may_have_read_it_half_done),
        cmocka_unit_test(ranges_are_asked_for_together),
    };
    esp_test_mkdir(folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    esp_test_rmdir(folder);
    edit_cases_fini();
    return failed;
}
