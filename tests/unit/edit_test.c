/* Edits on stores with trials and without: what they do and cost, and what becomes of them when
 * somebody else writes, the connection goes, or the user stops. */
#include "loader/edit.h"

#include "loader/lock.h"
#include "tests/support/drives.h"
#include "tests/unit/edit_cases.h"

#include <stdio.h>
#include <unistd.h>

static char folder[256], journal[512], other_journal[512];

static struct esp_edit_options plain(void) {
    return (struct esp_edit_options){.journal = journal,
                                     .edit = {.layout = "any", .operation = "edit"},
                                     .repair_command = "`mend it`"};
}

static enum esp_status edit(struct suite_table *t, const struct edit_case *c,
                            const struct esp_edit_options *options,
                            struct esp_edit_result *result) {
    struct esp_args args = edit_args(c);
    esp_error_clear(&t->err);
    return esp_edit_run(&t->access, c->op, &args, options, result);
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

/* --- every edit of every layout, on both kinds of stores ----------------------------------- */

typedef void case_fn(struct suite_table *t, const struct edit_case *c);

static void for_every_case(case_fn *fn) {
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    struct esp_forest *forest = drives_forest();
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *stores[2];
    stores[0] = store_without_trials(&esp_clock_system);
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &stores[1], &err),
              &err);
    for (size_t i = 0; i < 2 * n * edit_case_count; i++) {
        const struct esp_layout *layout = &layouts[i / 2 % n];
        const struct edit_case *c = &edit_cases[i / 2 / n];
        struct suite_table t;
        if (esp_layout_has(layout, c->op)) {
            suite_table_open(&t, stores[i % 2], layout, "edited", forest);
            fn(&t, c);
            suite_table_close(&t);
        }
    }
    esp_store_close(stores[0]);
    esp_store_close(stores[1]);
    esp_forest_free(forest);
}

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

static void same_units(struct suite_table *t, const struct edit_case *c, const struct esp_units *a,
                       const struct esp_units *b) {
    bool same = a->table == b->table;
    for (size_t i = 0; i < ESP_INDEX_MAX; i++) {
        same = same && a->index[i] == b->index[i];
    }
    if (!same) {
        fail_msg("%s, %s: %g and %g units", t->layout->ops->name, c->name, esp_units_total(a),
                 esp_units_total(b));
    }
}

static void same_counts(struct suite_table *t, const struct edit_case *c,
                        const struct esp_edit_result *a, const struct esp_edit_result *b) {
    if (a->puts != b->puts || a->updates != b->updates || a->deletes != b->deletes ||
        a->unchanged != b->unchanged || a->item_bytes != b->item_bytes) {
        fail_msg("%s, %s: %llu puts, %llu updates, %llu deletes, %llu unchanged, %llu bytes",
                 t->layout->ops->name, c->name, (unsigned long long)b->puts,
                 (unsigned long long)b->updates, (unsigned long long)b->deletes,
                 (unsigned long long)b->unchanged, (unsigned long long)b->item_bytes);
    }
}

static struct esp_units units_since(const struct suite_table *t, const struct esp_units *before) {
    struct esp_units units = t->session->usage.write;
    units.table -= before->table;
    for (size_t i = 0; i < ESP_INDEX_MAX; i++) {
        units.index[i] -= before->index[i];
    }
    return units;
}

/* Reads before a run are told roughly: not too few, and not far too many. */
static void foretells_reads(struct suite_table *t, const struct edit_case *c,
                            const struct esp_edit_result *dry,
                            const struct esp_edit_result *result) {
    double told = dry->read_units, used = result->read_units;
    if (4 * used > 5 * told + 4 || told > 2 * used + 1) {
        fail_msg("%s, %s: %g read units, not %g", t->layout->ops->name, c->name, used, told);
    }
}

static void costs_what_the_dry_run_says(struct suite_table *t, const struct edit_case *c) {
    struct esp_edit_options options = plain();
    struct esp_edit_result dry, result;
    uint64_t before = table_digest(t);
    struct esp_units written = t->session->usage.write;
    options.dry_run = true;
    assert_ok(edit(t, c, &options, &dry), &t->err);
    assert_true(table_digest(t) == before);
    struct esp_units units = units_since(t, &written);
    assert_true(esp_units_total(&units) == 0);
    assert_false(dry.transaction);
    options.dry_run = false;
    assert_ok(edit(t, c, &options, &result), &t->err);
    units = units_since(t, &written);
    same_units(t, c, &dry.usage.write, &units);
    same_units(t, c, &result.usage.write, &units);
    assert_int_equal(dry.usage.items_written, result.usage.items_written);
    same_counts(t, c, &dry, &result);
    foretells_reads(t, c, &dry, &result);
    assert_true(table_digest(t) == digest_after(t, c));
    assert_int_equal(count_findings(t), 0);
    assert_int_equal(access(journal, F_OK), -1);
}

static void dry_runs_are_exact(void **state) {
    (void)state;
    for_every_case(costs_what_the_dry_run_says);
}

static void is_one_transaction(struct suite_table *t, const struct edit_case *c) {
    struct esp_edit_options options = plain();
    struct esp_edit_result dry, result;
    uint64_t before = table_digest(t), expected = digest_after(t, c);
    options.atomic = options.dry_run = true;
    assert_ok(edit(t, c, &options, &dry), &t->err);
    assert_true(table_digest(t) == before);
    options.dry_run = false;
    struct esp_units written = t->session->usage.write;
    assert_ok(edit(t, c, &options, &result), &t->err);
    struct esp_units units = units_since(t, &written);
    assert_true(result.transaction);
    same_units(t, c, &dry.usage.write, &units);
    same_counts(t, c, &dry, &result);
    foretells_reads(t, c, &dry, &result);
    assert_true(table_digest(t) == expected);
    assert_int_equal(count_findings(t), 0);
}

static void atomic_edits_are_transactions(void **state) {
    (void)state;
    for_every_case(is_one_transaction);
}

static void with_a_lock(struct suite_table *t, const struct edit_case *c) {
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    options.lock_s = 60;
    assert_ok(edit(t, c, &options, &result), &t->err);
    assert_false(result.lock_left);
    assert_true(table_digest(t) == digest_after(t, c));
}

static void locks_are_given_back(void **state) {
    (void)state;
    for_every_case(with_a_lock);
}

/* --- two writers -------------------------------------------------------------------------- */

/* The other writer, who does everything between somebody's plan and writes. */
struct other {
    struct suite_table *t;
    const struct edit_case *c;
    enum esp_status status;
    uint64_t digest; /* of the table as it leaves it */
};

static enum esp_status other_writes(void *ctx, const struct esp_images *images) {
    struct other *other = ctx;
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    (void)images;
    options.journal = other_journal;
    other->status = edit(other->t, other->c, &options, &result);
    other->digest = table_digest(other->t);
    return ESP_OK;
}

/* The two one after the other, at once. */
static uint64_t digest_of_both(struct suite_table *t, const struct edit_case *first,
                               const struct edit_case *second) {
    struct esp_forest *forest = drives_forest();
    struct suite_table other;
    struct esp_args args = edit_args(first), then = edit_args(second);
    suite_table_open(&other, t->store, t->layout, "at-once", forest);
    assert_ok(esp_operate(&other.access, first->op, &args, NULL, NULL), &other.err);
    esp_error_clear(&other.err);
    enum esp_status after = esp_operate(&other.access, second->op, &then, NULL, NULL);
    assert_true(after == ESP_OK || esp_status_class(after) == ESP_CLASS_USER);
    uint64_t digest = table_digest(&other);
    suite_table_close(&other);
    esp_forest_free(forest);
    return digest;
}

/* A conflict leaves the table as the other writer left it; else the table is as if the two had
 * come one after the other. */
static void interleave(struct esp_store *store, const struct esp_layout *layout,
                       const struct esp_forest *forest, const struct edit_case *a,
                       const struct edit_case *b, bool atomic, size_t *conflicts) {
    struct suite_table t, second;
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    suite_table_open(&t, store, layout, "two", forest);
    second_session(&second, &t);
    struct other other = {.t = &second, .c = b};
    options.planned = other_writes;
    options.ctx = &other;
    options.atomic = atomic;
    enum esp_status status = edit(&t, a, &options, &result);
    uint64_t left = table_digest(&t);
    bool right = status == ESP_ERR_CONFLICT ? left == other.digest
                 : status == ESP_OK
                     ? left == digest_of_both(&t, a, b) || left == digest_of_both(&t, b, a)
                     : false;
    *conflicts += status == ESP_ERR_CONFLICT;
    if (other.status != ESP_OK || !right || access(journal, F_OK) == 0) {
        fail_msg("%s%s: %s, while another writer did %s (%s): %s, %s", layout->ops->name,
                 atomic ? " atomic" : "", a->name, b->name, esp_status_name(other.status),
                 esp_status_name(status), t.err.message);
    }
    if (status == ESP_ERR_CONFLICT && !strstr(t.err.message, "; nothing")) {
        fail_msg("does not say what remains: %s", t.err.message);
    }
    if (count_findings(&t)) {
        fail_msg("%s: %s, while another writer did %s: damage", layout->ops->name, a->name,
                 b->name);
    }
    second_session_close(&second);
    suite_table_close(&t);
}

/* Without an index of ids, a scan has looked for the id of a new node; nobody looks again. */
static bool same_id_elsewhere(const struct esp_layout *layout, const struct edit_case *a,
                              const struct edit_case *b) {
    return layout->settings.by_id == ESP_SWITCH_OFF && a->op == ESP_OP_INSERT_SUBTREE &&
           b->op == ESP_OP_INSERT_SUBTREE;
}

static void two_writers(void **state) {
    (void)state;
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t n = suite_layouts(layouts);
    struct esp_forest *forest = drives_forest();
    struct esp_store *store = store_without_trials(&esp_clock_system);
    for (size_t i = 0; i < n; i++) {
        size_t conflicts = 0;
        for (size_t k = 0; k < edit_case_count * edit_case_count; k++) {
            const struct edit_case *a = &edit_cases[k % edit_case_count];
            const struct edit_case *b = &edit_cases[k / edit_case_count];
            bool atomic = (i + k / edit_case_count) % 3 == 0;
            if ((i + k) % 13 != 0 || same_id_elsewhere(&layouts[i], a, b)) {
                continue; /* every pair in some layouts; journals take their time */
            }
            if (esp_layout_has(&layouts[i], a->op) && esp_layout_has(&layouts[i], b->op)) {
                interleave(store, &layouts[i], forest, a, b, atomic, &conflicts);
            }
        }
        assert_true(conflicts > 1);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

/* --- single things, in the layout path ---------------------------------------------------- */

/* What the next requests meet. */
static struct {
    const struct esp_store_ops *inner;
    size_t writes; /* until something happens */
    enum { GO_AWAY, STOP, OTHER_WRITER } event;
    volatile int stop;
    struct suite_table *other; /* OTHER_WRITER: moves a node that the edit has not written yet */
    size_t lost_after;         /* writes after which nobody answers; 0: never */
    size_t written;
    bool gone; /* nobody answers any more */
} world;

static enum esp_status execute(struct esp_session *session, struct esp_request *requests, size_t n,
                               struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        bool write = requests[i].kind == ESP_REQ_WRITE || requests[i].kind == ESP_REQ_TRANSACT;
        bool now = write && world.writes-- == 0;
        if (now && world.event == OTHER_WRITER && world.other) {
            struct suite_table *other = world.other;
            world.other = NULL;
            struct esp_args args = {.at.id = ESP_STR("iii"), .to.id = ESP_STR("e")};
            assert_ok(esp_operate(&other->access, ESP_OP_MOVE, &args, NULL, NULL), &other->err);
            now = false;
        }
        world.written += write;
        world.gone = world.gone || (now && world.event == GO_AWAY) ||
                     (world.lost_after && world.written > world.lost_after);
        world.stop = world.stop || (now && world.event == STOP);
        if (world.gone) {
            return esp_fail(err, ESP_ERR_UNAVAILABLE, "the connection is gone");
        }
        status = world.inner->execute(session, &requests[i], 1, err);
    }
    return status;
}

struct fixture {
    struct esp_layout layout;
    struct esp_store *store;
    struct esp_store_ops ops;
    struct esp_forest *forest;
    struct suite_table one, other;
};

static void set_up(struct fixture *f) {
    struct esp_error err = ESP_ERROR_INIT;
    memset(&world, 0, sizeof world);
    world.writes = SIZE_MAX;
    assert_ok(esp_layout_init(&f->layout, esp_layout_find("path"), NULL, &err), &err);
    f->store = store_without_trials(&esp_clock_system);
    world.inner = f->store->ops;
    f->ops = *f->store->ops;
    f->ops.execute = execute;
    f->store->ops = &f->ops;
    f->forest = drives_forest();
    suite_table_open(&f->one, f->store, &f->layout, "edited", f->forest);
    second_session(&f->other, &f->one);
    f->one.session->stop = &world.stop;
}

static void tear_down(struct fixture *f) {
    world.gone = false;
    world.stop = 0;
    world.writes = SIZE_MAX;
    second_session_close(&f->other);
    suite_table_close(&f->one);
    esp_store_close(f->store);
    esp_forest_free(f->forest);
    (void)unlink(journal);
}

static enum esp_status edit_named(struct fixture *f, const char *name) {
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    return edit(&f->one, find_case(name), &options, &result);
}

static void says(struct fixture *f, const char *text) {
    if (!strstr(f->one.err.message, text)) {
        fail_msg("'%s' does not say '%s'", f->one.err.message, text);
    }
}

static void a_cut_edit_leaves_its_journal(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f);
    uint64_t before = table_digest(&f.one);
    world.writes = 3;
    assert_int_equal(edit_named(&f, "remove a subtree"), ESP_ERR_UNAVAILABLE);
    says(&f, "the connection is gone; ");
    says(&f, " writes of this edit are done, of ");
    says(&f, "; `mend it` finishes or undoes it (the journal is ");
    assert_int_equal(access(journal, F_OK), 0);
    world.gone = false;
    world.writes = SIZE_MAX;
    assert_true(table_digest(&f.one) != before);
    uint64_t cut = table_digest(&f.one);
    assert_int_equal(edit_named(&f, "insert a root"), ESP_ERR_REFUSED); /* needs no journal */
    says(&f, "an edit of this table was cut; `mend it` finishes or undoes it");
    assert_true(table_digest(&f.one) == cut);
    tear_down(&f);
}

static void a_stopped_edit_leaves_its_journal(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f);
    world.event = STOP;
    world.writes = 0;
    assert_int_equal(edit_named(&f, "move across"), ESP_ERR_CANCELLED);
    says(&f, "stopped on request; 3 of 4 writes of this edit are done");
    says(&f, "`mend it`");
    assert_int_equal(access(journal, F_OK), 0);
    tear_down(&f);
}

static void what_was_not_begun_leaves_nothing(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f);
    world.stop = 1;
    assert_int_equal(edit_named(&f, "move across"), ESP_ERR_CANCELLED);
    assert_string_equal(f.one.err.message, "stopped on request");
    assert_int_equal(access(journal, F_OK), -1);
    tear_down(&f);
}

/* One write needs no journal, but nobody knows what became of it. */
static void a_single_write_says_so(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f);
    world.writes = 0;
    assert_int_equal(edit_named(&f, "insert a leaf"), ESP_ERR_UNAVAILABLE);
    assert_string_equal(f.one.err.message, "the connection is gone; 0 of 1 writes of this edit are "
                                           "done, of 1 it is not known");
    assert_int_equal(access(journal, F_OK), -1);
    tear_down(&f);
}

static void a_conflict_in_the_middle_is_taken_back(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f);
    world.event = OTHER_WRITER;
    world.writes = 1;
    world.other = &f.other;
    assert_int_equal(edit_named(&f, "move across"), ESP_ERR_CONFLICT);
    assert_string_equal(f.one.err.message,
                        "another writer changed the item ID=iii; nothing of this edit remains");
    assert_int_equal(count_findings(&f.one), 0);
    assert_int_equal(access(journal, F_OK), -1);
    tear_down(&f);
}

/* Between the writes and the look at what they follow from, somebody puts a child there; then
 * nobody answers to the taking back. */
static void what_cannot_be_taken_back_is_left_to_repair(void **state) {
    (void)state;
    struct fixture f;
    set_up(&f);
    world.event = OTHER_WRITER;
    world.writes = 1;
    world.other = &f.other;
    world.lost_after = 4;
    assert_int_equal(edit_named(&f, "move across"), ESP_ERR_CONFLICT);
    says(&f, "another writer changed the item ID=iii; 0 of 4 writes of this edit are done, of 2 "
             "it is not known");
    says(&f, "; `mend it` finishes or undoes it");
    assert_int_equal(access(journal, F_OK), 0);
    tear_down(&f);
}

static void atomic_edits_have_an_end(void **state) {
    (void)state;
    struct fixture f;
    enum { ROWS = 101 };
    static struct drives_row rows[ROWS];
    static char ids[ROWS][8];
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    set_up(&f);
    for (size_t i = 0; i < ROWS; i++) {
        snprintf(ids[i], sizeof ids[i], "s%zu", i);
        rows[i] = (struct drives_row){ids[i], i ? ids[0] : ""};
    }
    struct esp_forest *many = forest_of_rows(rows, ROWS);
    struct esp_args args = {.subtree = many, .to.id = ESP_STR("c")};
    options.atomic = true;
    assert_int_equal(esp_edit_run(&f.one.access, ESP_OP_INSERT_SUBTREE, &args, &options, &result),
                     ESP_ERR_LIMIT);
    says(&f, "insert-subtree would write 101 items; a transaction takes at most 100");
    esp_error_clear(&f.one.err);
    options.atomic = false;
    assert_ok(esp_edit_run(&f.one.access, ESP_OP_INSERT_SUBTREE, &args, &options, &result),
              &f.one.err);
    assert_int_equal(result.puts, ROWS);
    esp_forest_free(many);
    tear_down(&f);
}

/* --- locks -------------------------------------------------------------------------------- */

static void a_locked_tree_is_left_alone(void **state) {
    (void)state;
    struct fixture f;
    struct esp_lock *lock;
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    struct esp_args at = {.at.id = ESP_STR("a")};
    set_up(&f);
    assert_ok(esp_lock_take(&f.other.access, ESP_OP_REMOVE, &at, 60, &lock), &f.other.err);
    uint64_t before = table_digest(&f.one);
    options.lock_s = 60;
    assert_int_equal(edit(&f.one, find_case("move across"), &options, &result), ESP_ERR_CONFLICT);
    says(&f, "the tree 'D' is locked by ");
    assert_true(table_digest(&f.one) == before);
    options.lock_s = 0; /* who does not ask for a lock does not mind */
    assert_ok(edit(&f.one, find_case("move across"), &options, &result), &f.one.err);
    assert_ok(esp_lock_release(lock, &f.other.err), &f.other.err);
    tear_down(&f);
}

struct thief {
    struct suite_table *t;
    struct esp_virtual_clock *time;
    struct esp_lock *lock;
};

/* So long that the lock has run out; somebody takes it. */
static enum esp_status take_over(void *ctx, const struct esp_images *images) {
    struct thief *thief = ctx;
    struct esp_args at = {.at.id = ESP_STR("a")};
    (void)images;
    thief->time->now_ns += UINT64_C(61000000000);
    thief->time->wall_ns += UINT64_C(61000000000);
    assert_ok(esp_lock_take(&thief->t->access, ESP_OP_REMOVE, &at, 60, &thief->lock),
              &thief->t->err);
    return ESP_OK;
}

static void a_lost_lock_stops_the_edit(void **state) {
    (void)state;
    struct esp_virtual_clock time = {.wall_ns = UINT64_C(1800000000000000000)};
    struct esp_clock clock = esp_clock_virtual(&time);
    struct esp_layout layout;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store = store_without_trials(&clock);
    struct suite_table t, second;
    assert_ok(esp_layout_init(&layout, esp_layout_find("path"), NULL, &err), &err);
    suite_table_open(&t, store, &layout, "lost", forest);
    second_session(&second, &t);
    struct thief thief = {.t = &second, .time = &time};
    struct esp_edit_options options = plain();
    struct esp_edit_result result;
    options.lock_s = 60;
    options.planned = take_over;
    options.ctx = &thief;
    uint64_t before = table_digest(&t);
    assert_int_equal(edit(&t, find_case("move across"), &options, &result), ESP_ERR_CONFLICT);
    assert_string_equal(t.err.message, "the lock of the tree 'D' had run out and somebody took it; "
                                       "nothing was written");
    assert_ok(esp_lock_release(thief.lock, &second.err), &second.err);
    assert_true(table_digest(&t) == before);
    assert_int_equal(access(journal, F_OK), -1);
    second_session_close(&second);
    suite_table_close(&t);
    esp_store_close(store);
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dry_runs_are_exact),
        cmocka_unit_test(atomic_edits_are_transactions),
        cmocka_unit_test(locks_are_given_back),
        cmocka_unit_test(two_writers),
        cmocka_unit_test(a_cut_edit_leaves_its_journal),
        cmocka_unit_test(a_stopped_edit_leaves_its_journal),
        cmocka_unit_test(what_was_not_begun_leaves_nothing),
        cmocka_unit_test(a_single_write_says_so),
        cmocka_unit_test(a_conflict_in_the_middle_is_taken_back),
        cmocka_unit_test(what_cannot_be_taken_back_is_left_to_repair),
        cmocka_unit_test(atomic_edits_have_an_end),
        cmocka_unit_test(a_locked_tree_is_left_alone),
        cmocka_unit_test(a_lost_lock_stops_the_edit),
    };
    esp_test_mkdir(folder);
    snprintf(journal, sizeof journal, "%s/journal", folder);
    snprintf(other_journal, sizeof other_journal, "%s/other-journal", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    esp_test_rmdir(folder);
    edit_cases_fini();
    return failed;
}
