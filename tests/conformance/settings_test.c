/* `repair` with other settings than the table was made with: nothing is written, and it says so.
 * Every item is whole then, and looks damaged: what would be put together is another tree. */
#include "loader/repair.h"
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"

#include <stdlib.h>

/* Settings of the table, and those of the repair; NULL: none. */
static const struct {
    const char *layout, *made[2], *given[2];
    bool refused; /* by a sentence; else what cannot be told is named and left */
} cases[] = {
    {"path", {NULL}, {"separator=|"}, true},
    {"path", {"separator=|"}, {NULL}, true},
    {"path", {NULL}, {"attr.Depth=other"}, false},
    {"path", {"depth=off"}, {NULL}, false},
    {"tree-path", {NULL}, {"separator=|"}, true},
    {"tree-path", {"separator=/"}, {"separator=#"}, true},
    {"tree-path", {NULL}, {"attr.depth=other"}, false},
    {"path-key", {NULL}, {"separator=|"}, true},
    {"path-key", {NULL}, {"hierarchy=all"}, false},
    {"path-key", {"hierarchy=all"}, {NULL}, false},
    {"path-key", {"segment=2"}, {NULL}, false},
    {"path-key", {"segment=2"}, {"segment=3"}, true},
    {"path-key", {"segment=3"}, {"segment=2"}, false},
    {"path-key", {"segment=2"}, {"segment=2", "separator=|"}, true},
    {"path-key", {"by=name", "name=name"}, {NULL}, true},
    {"path-key", {NULL}, {"by=name", "name=name"}, true},
    {"path-key", {"by=name"}, {"by=name", "separator=|"}, true},
    {"path-key", {NULL}, {"ancestors=on"}, true},
    {"path-key", {NULL}, {"attr.depth=other"}, true},
    {"replica", {NULL}, {"attr.Ancestor ID=other"}, true},
    {"nested-set", {NULL}, {"attr.parentId=other"}, true},
    {"nested-set", {NULL}, {"attr.depth=other"}, false},
    {"nested-set", {NULL}, {"attr.rgt=other"}, true},
    {"adjacency", {NULL}, {"attr.parentId=other"}, true},
    {"adjacency", {NULL}, {"attr.depth=other"}, false},
    {"adjacency", {"depth=off"}, {NULL}, false},
    {"entity", {NULL}, {"node=OTHER"}, false},
    {"entity", {NULL}, {"separator=|"}, false},
    {"entity", {NULL}, {"refs=on"}, true},
    {"graph", {NULL}, {"node=OTHER"}, false},
    {"graph", {"node=OTHER"}, {NULL}, false},
    {"graph", {NULL}, {"edge=OTHER"}, false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Siblings with one name cannot be told by names. */
static struct esp_forest *chain(void) {
    static const struct drives_row rows[] = {{"C", ""},   {"I", "C"},   {"II", "I"},
                                             {"a", "II"}, {"III", "a"}, {"IV", "III"}};
    return forest_of_rows(rows, sizeof rows / sizeof rows[0]);
}

static void make_layout(struct esp_layout *layout, const char *name, const char *const set[2]) {
    struct esp_error err = ESP_ERROR_INIT;
    static struct esp_strings sets[2]; /* of the table, of the repair: borrowed by the layouts */
    static int at;
    struct esp_strings *own = &sets[at++ % 2];
    *own = (struct esp_strings){.count = 0};
    for (int i = 0; i < 2 && set[i]; i++) {
        own->value[own->count++] = set[i];
    }
    assert_ok(esp_layout_init(layout, esp_layout_find(name), own, &err), &err);
}

static enum esp_status count_finding(void *ctx, const struct esp_finding *finding) {
    (void)finding;
    ++*(size_t *)ctx;
    return ESP_OK;
}

static enum esp_status count_note(void *ctx, enum esp_repair_note note,
                                  const struct esp_finding *finding) {
    assert_true(finding->id.len > 0);
    *(size_t *)ctx += note == ESP_REPAIR_LEFT;
    return ESP_OK;
}

static enum esp_status repair(struct suite_table *t, const struct esp_layout *layout, bool *whole,
                              size_t *left) {
    struct esp_repair r = {.tell = count_note, .ctx = left};
    struct esp_table *table = NULL;
    struct esp_session *session = NULL;
    enum esp_status status =
        esp_table_open(t->store, t->table->name, &layout->schema, &table, &t->err);
    if (status != ESP_OK) {
        return status; /* a key has another name */
    }
    assert_ok(esp_session_open(table, &session, &t->err), &t->err);
    struct esp_access access = {
        .layout = layout, .session = session, .scratch = &t->scratch, .err = &t->err};
    status = esp_repair_run(&access, &r);
    *whole = esp_repair_is_whole(&r);
    assert_true(session->usage.items_written == 0);
    esp_session_close(session);
    esp_table_close(table);
    return status;
}

static void nothing_is_written(struct esp_store *store, size_t i) {
    struct esp_layout made, given;
    struct suite_table t;
    bool whole = false;
    size_t left = 0, findings = 0;
    make_layout(&made, cases[i].layout, cases[i].made);
    make_layout(&given, cases[i].layout, cases[i].given);
    struct esp_forest *forest = made.settings.by ? chain() : drives_forest();
    suite_table_open(&t, store, &made, "settings", forest);
    enum esp_status status = repair(&t, &given, &whole, &left);
    bool right = cases[i].refused ? status == ESP_ERR_REFUSED || status == ESP_ERR_USAGE
                                  : status == ESP_OK || status == ESP_ERR_REFUSED;
    if (!right || (status == ESP_OK && (whole || left == 0))) {
        fail_msg("case %zu, %s with %s: %s, whole %d, %zu left: %s", i, cases[i].layout,
                 cases[i].given[0] ? cases[i].given[0] : "nothing", esp_status_name(status), whole,
                 left, t.err.message);
    }
    esp_error_clear(&t.err);
    assert_ok(made.ops->check(&t.access, count_finding, &findings), &t.err);
    assert_int_equal(findings, 0);
    suite_table_close(&t);
    esp_forest_free(forest);
}

static void other_settings_write_nothing(void **state) {
    (void)state;
    struct esp_store *store = NULL;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; i < CASES; i++) {
        nothing_is_written(store, i);
    }
    esp_store_close(store);
}

/* No layout is forgotten. */
static void every_layout_is_tried(void **state) {
    (void)state;
    for (size_t k = 0; esp_layouts[k]; k++) {
        bool tried = false;
        for (size_t i = 0; i < CASES; i++) {
            tried = tried || strcmp(cases[i].layout, esp_layouts[k]->name) == 0;
        }
        if (!tried) {
            fail_msg("%s has no case", esp_layouts[k]->name);
        }
    }
}

static char folder[256];

static int make_folder(void **state) {
    (void)state;
    esp_test_mkdir(folder);
    return setenv("XDG_STATE_HOME", folder, 1);
}

static int remove_folder(void **state) {
    (void)state;
    esp_test_rmdir(folder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(other_settings_write_nothing),
                                       cmocka_unit_test(every_layout_is_tried)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
