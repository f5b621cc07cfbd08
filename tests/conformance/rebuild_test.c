/* `repair` without a journal, after damage that no cut edit leaves: somebody wrote or deleted an
 * item of the two drives (datasets/drives.csv).  What the items tell is put back; what they do not
 * tell is named and left; nothing becomes something else. */
#include "converters/access.h"
#include "loader/edit.h"
#include "loader/repair.h"
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"
#include "tests/support/torn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum how { DELETE, SET_TEXT, SET_NUMBER, UNSET };

static const struct {
    const char *layout, *set; /* a setting; NULL: none */
    struct wound {
        const char *id, *sk; /* NULL: the node's own item; no id: there is none */
        enum how how;
        const char *attr, *text;
        int64_t number;
    } wound[3];
    const char *note; /* the one that must be told: "left lost-parent III"; NULL: it is mended */
    const char *node, *parent; /* afterwards; parent "": a root, "?": the answer has none */
} cases[] = {
    /* What got lost makes no root. */
    {"path",
     NULL,
     {{"a", NULL, UNSET, "Path", NULL, 0}, {"a", NULL, UNSET, "Root", NULL, 0}},
     "left lost-parent a",
     "a",
     "?"},
    {"path", NULL, {{"I", NULL, UNSET, "Root", NULL, 0}}, "left lost-parent I", "I", "?"},
    {"nested-set",
     NULL,
     {{"d", NULL, UNSET, "parentId", NULL, 0}, {"d", NULL, SET_NUMBER, "lft", NULL, 0}},
     "left lost-parent d",
     "d",
     "?"},
    {"path", NULL, {{"c", NULL, UNSET, "Root", NULL, 0}}, NULL, "c", "IV"},
    {"tree-path", NULL, {{"a", NULL, UNSET, "treeId", NULL, 0}}, NULL, "a", "III"},
    {"adjacency", NULL, {{"V", NULL, UNSET, "parentId", NULL, 0}}, "left lost-parent V", "V", "?"},
    {"adjacency", "depth=off", {{"V", NULL, UNSET, "parentId", NULL, 0}}, NULL, "V", ""},
    {"entity", NULL, {{"a", "PARENT#III", DELETE, NULL, NULL, 0}}, NULL, "a", "III"},
    {"entity",
     NULL,
     {{"a", "PARENT#III", DELETE, NULL, NULL, 0}, {"III", "CHILD#a", DELETE, NULL, NULL, 0}},
     "left lost-parent a",
     NULL,
     NULL},
    /* Paths of the nodes below tell, too. */
    {"path", NULL, {{"III", NULL, UNSET, "Root", NULL, 0}}, NULL, "III", "D"},
    {"path", "depth=off", {{"III", NULL, UNSET, "Root", NULL, 0}}, NULL, "III", "D"},
    {"path", NULL, {{"d", NULL, UNSET, "Path", NULL, 0}}, NULL, "d", "V"},
    {"path", NULL, {{"C", NULL, SET_NUMBER, "Depth", NULL, 1}}, NULL, "C", ""},
    {"tree-path", NULL, {{"C", NULL, SET_TEXT, "treeId", "D", 0}}, NULL, "C", ""},
    {"tree-path", NULL, {{"d", NULL, UNSET, "path", NULL, 0}}, NULL, "d", "V"},
    /* Numbers tell a parent that parentId does not. */
    {"nested-set", NULL, {{"d", NULL, UNSET, "parentId", NULL, 0}}, NULL, "d", "V"},
    {"nested-set", NULL, {{"d", NULL, SET_TEXT, "parentId", "no", 0}}, NULL, "d", "V"},
    {"nested-set", NULL, {{"III", NULL, SET_TEXT, "parentId", "no", 0}}, NULL, "III", "D"},
    {"nested-set",
     NULL,
     {{"IV", NULL, DELETE, NULL, NULL, 0}},
     "left missing-parent c",
     NULL,
     NULL},
    {"nested-set", NULL, {{"C", NULL, SET_TEXT, "treeId", "D", 0}}, NULL, "C", ""},
    {"nested-set", NULL, {{"C", NULL, SET_NUMBER, "depth", NULL, 1}}, NULL, "C", ""},
    /* What is left of a node brings it back, without its payload, and says so. */
    {"entity",
     NULL,
     {{"a", NULL, DELETE, NULL, NULL, 0}},
     "restored restored-without-payload a",
     "a",
     "III"},
    {"entity",
     NULL,
     {{"IV", NULL, DELETE, NULL, NULL, 0}},
     "restored restored-without-payload IV",
     "c",
     "IV"},
    {"entity",
     NULL,
     {{"IV", NULL, DELETE, NULL, NULL, 0}, {"IV", "PARENT#D", DELETE, NULL, NULL, 0}},
     "restored restored-without-payload IV",
     "IV",
     "D"},
    {"graph",
     NULL,
     {{"a", NULL, DELETE, NULL, NULL, 0}},
     "restored restored-without-payload a",
     "a",
     "III"},
    /* A copy that nothing else tells of goes. */
    {"entity", NULL, {{"c", "CHILD#no", SET_TEXT, "x", "y", 0}}, NULL, "c", "IV"},
};

struct notes {
    char all[4096];
    size_t findings;
};

static enum esp_status note(void *ctx, enum esp_repair_note kind,
                            const struct esp_finding *finding) {
    static const char *const names[] = {"changed", "found",    "chosen",
                                        "left",    "restored", "remains"};
    struct notes *notes = ctx;
    size_t len = strlen(notes->all);
    snprintf(notes->all + len, sizeof notes->all - len, "%s %s %.*s\n", names[kind], finding->name,
             ESP_FMT(finding->id));
    return ESP_OK;
}

static enum esp_status count_finding(void *ctx, const struct esp_finding *finding) {
    (void)finding;
    ++*(size_t *)ctx;
    return ESP_OK;
}

static void wound_item(struct suite_table *t, const struct wound *wound) {
    const struct esp_schema *schema = &t->layout->schema;
    struct esp_change change = {.kind = ESP_CHANGE_SET};
    struct esp_write write = {.kind = ESP_UPDATE, .changes = &change, .change_count = 1};
    assert_ok(esp_access_key(&t->access, esp_str_from(wound->id), &write.item), &t->err);
    if (wound->sk) {
        write.item.value[schema->sk] = esp_s(esp_str_from(wound->sk));
    }
    if (wound->how == DELETE) {
        write.kind = ESP_DELETE;
        write.change_count = 0;
    } else {
        change.name = esp_str_from(wound->attr);
    }
    if (wound->how == UNSET) {
        change.kind = ESP_CHANGE_REMOVE;
    } else if (wound->how == SET_NUMBER) {
        change.value = esp_n(wound->number);
    } else if (wound->how == SET_TEXT) {
        change.value = esp_s(esp_str_from(wound->text));
    }
    assert_ok(esp_session_write(t->session, &write, 1, NULL, &t->err), &t->err);
}

static enum esp_status keep_parent(void *ctx, const struct esp_node_view *node) {
    snprintf(ctx, 64, "%.*s", ESP_FMT(node->parent_id.ptr ? node->parent_id : ESP_STR("?")));
    return ESP_OK;
}

static enum esp_status keep_id(void *ctx, const struct esp_node_view *node) {
    snprintf(ctx, 64, "%.*s", ESP_FMT(node->id));
    return ESP_OK;
}

static void parent_of(struct suite_table *t, const char *id, const char *want, char *out) {
    struct esp_args args = {.at.id = esp_str_from(id)};
    bool stored = strcmp(want, "?") == 0;
    out[0] = '\0';
    assert_ok(esp_operate(&t->access, stored ? ESP_OP_NODE : ESP_OP_PARENT, &args,
                          stored ? keep_parent : keep_id, out),
              &t->err);
}

static size_t check(struct suite_table *t) {
    size_t findings = 0;
    assert_ok(t->layout->ops->check(&t->access, count_finding, &findings), &t->err);
    return findings;
}

static void case_is_mended(struct esp_store *store, const struct esp_forest *forest, size_t i) {
    struct esp_layout layout;
    struct suite_table t;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_strings sets = {{cases[i].set}, cases[i].set != NULL};
    struct notes notes = {.findings = 0};
    struct esp_repair repair = {.tell = note, .ctx = &notes};
    char parent[64];
    assert_ok(esp_layout_init(&layout, esp_layout_find(cases[i].layout), &sets, &err), &err);
    suite_table_open(&t, store, &layout, "rebuild", forest);
    for (const struct wound *wound = cases[i].wound; wound < cases[i].wound + 3 && wound->id;
         wound++) {
        wound_item(&t, wound);
    }
    esp_arena_reset(&t.scratch);
    assert_ok(esp_repair_run(&t.access, &repair), &t.err);
    bool told = strstr(notes.all, "left ") != NULL;
    bool right = cases[i].note ? strstr(notes.all, cases[i].note) != NULL
                               : !told && repair.rebuild.restored_count == 0;
    if (!right || esp_repair_is_whole(&repair) != (check(&t) == 0 && !told)) {
        fail_msg("case %zu, %s: %zu findings, notes:\n%s", i, cases[i].layout, check(&t),
                 notes.all);
    }
    if (cases[i].node) {
        parent_of(&t, cases[i].node, cases[i].parent, parent);
        if (strcmp(parent, cases[i].parent) != 0) {
            fail_msg("case %zu, %s: '%s' is below '%s', notes:\n%s", i, cases[i].layout,
                     cases[i].node, parent, notes.all);
        }
    }
    suite_table_close(&t);
}

static void damage_is_mended_or_named(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        case_is_mended(store, forest, i);
    }
    esp_store_close(store);
    esp_forest_free(forest);
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

/* --- a journal of which somebody else has changed an item ---------------------------------- */

struct cut {
    struct torn_store torn;
    struct esp_layout layout;
    struct suite_table t;
    struct esp_forest *forest, *subtree;
    char journal[300];
};

/* An edit is cut after some items, then somebody puts a node below another parent. */
static void cut_and_change(struct cut *c, enum esp_op op, const char *at, const char *to,
                           const struct wound *wounds) {
    static const struct drives_row rows[] = {{"s", ""}, {"s1", "s"}, {"s11", "s1"}, {"s2", "s"}};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_args args = {.at.id = esp_str_from(at), .to.id = esp_str_from(to)};
    struct esp_edit_options options = {
        .journal = c->journal,
        .edit = {.layout = "adjacency", .operation = esp_op_info[op].name},
        .repair_command = "repair",
    };
    struct esp_edit_result result;
    assert_ok(esp_layout_init(&c->layout, esp_layout_find("adjacency"), NULL, &err), &err);
    c->forest = drives_forest();
    c->subtree = forest_of_rows(rows, sizeof rows / sizeof rows[0]);
    args.subtree = op == ESP_OP_INSERT_SUBTREE ? c->subtree : NULL;
    snprintf(c->journal, sizeof c->journal, "%s/a.journal", folder);
    torn_store_open(&c->torn);
    suite_table_open(&c->t, c->torn.store, &c->layout, "cut", c->forest);
    torn_store_cut(&c->torn, 3);
    assert_int_equal(esp_edit_run(&c->t.access, op, &args, &options, &result), ESP_ERR_UNAVAILABLE);
    torn_store_heal(&c->torn);
    esp_error_clear(&c->t.err);
    assert_int_equal(access(c->journal, F_OK), 0);
    wound_item(&c->t, &wounds[0]);
    wound_item(&c->t, &wounds[1]);
}

static void cut_end(struct cut *c) {
    suite_table_close(&c->t);
    torn_store_close(&c->torn);
    esp_forest_free(c->forest);
    esp_forest_free(c->subtree);
    (void)unlink(c->journal);
}

static void repair_is(struct cut *c, struct esp_repair how, enum esp_repair_journal state,
                      bool whole, uint64_t changed) {
    struct notes notes = {.findings = 0};
    struct esp_repair repair = {.undo = how.undo,
                                .rebuild_anyway = how.rebuild_anyway,
                                .journal = access(c->journal, F_OK) == 0 ? c->journal : NULL,
                                .tell = note,
                                .ctx = &notes};
    esp_arena_reset(&c->t.scratch);
    assert_ok(esp_repair_run(&c->t.access, &repair), &c->t.err);
    if (repair.state != state || esp_repair_is_whole(&repair) != whole ||
        repair.strange != changed) {
        fail_msg("state %d, %llu changed, notes:\n%s", repair.state,
                 (unsigned long long)repair.strange, notes.all);
    }
    assert_int_equal(access(c->journal, F_OK) == 0, state == ESP_REPAIR_UNMENDED);
}

static void a_journal_of_a_whole_table_goes(void **state) {
    static const struct wound wounds[] = {{"s11", NULL, SET_TEXT, "parentId", "D", 0},
                                          {"s11", NULL, SET_NUMBER, "depth", NULL, 1}};
    (void)state;
    for (int undo = 0; undo < 2; undo++) {
        struct cut c;
        cut_and_change(&c, ESP_OP_INSERT_SUBTREE, "", "V", wounds);
        repair_is(&c, (struct esp_repair){.undo = undo}, ESP_REPAIR_SETTLED, true, 1);
        repair_is(&c, (struct esp_repair){.undo = undo}, ESP_REPAIR_NO_JOURNAL, true, 0);
        cut_end(&c);
    }
}

static void a_journal_can_be_given_up(void **state) {
    static const struct wound wounds[] = {{"e", NULL, SET_NUMBER, "depth", NULL, 7},
                                          {"e", NULL, SET_NUMBER, "depth", NULL, 9}};
    struct cut c;
    (void)state;
    cut_and_change(&c, ESP_OP_MOVE, "V", "IV", wounds);
    for (int i = 0; i < 2; i++) {
        repair_is(&c, (struct esp_repair){.undo = false}, ESP_REPAIR_UNMENDED, false, 1);
    }
    repair_is(&c, (struct esp_repair){.rebuild_anyway = true}, ESP_REPAIR_SETTLED, true, 1);
    repair_is(&c, (struct esp_repair){.undo = false}, ESP_REPAIR_NO_JOURNAL, true, 0);
    cut_end(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(damage_is_mended_or_named),
                                       cmocka_unit_test(a_journal_of_a_whole_table_goes),
                                       cmocka_unit_test(a_journal_can_be_given_up)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
