/* Every write of every layout, cut after the k-th item for every k.  With a journal: a repair
 * finishes it, and another one undoes it.  Without: the table is put together from its items.
 * No node is lost in any case. */
#include "loader/edit.h"
#include "loader/repair.h"
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"
#include "tests/support/model.h"
#include "tests/support/torn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Journals are synced thousands of times here, and the machine is not switched off. */
int fsync(int fd) {
    (void)fd;
    return 0;
}

/* --- what is tried ----------------------------------------------------------------------- */

struct trial {
    enum esp_op op;
    const char *at, *to;
};
static const struct trial trials[] = {
    {ESP_OP_INSERT, "new", "c"},
    {ESP_OP_INSERT, "new", ""},
    {ESP_OP_INSERT_SUBTREE, "", "V"},
    {ESP_OP_INSERT_SUBTREE, "", ""},
    {ESP_OP_UPDATE, "d", ""},
    {ESP_OP_UPDATE, "D", ""},
    /* within a tree: deeper, higher, at one depth */
    {ESP_OP_MOVE, "d", "c"},
    {ESP_OP_MOVE, "d", "D"},
    {ESP_OP_MOVE, "d", "III"},
    /* to another tree; a root under a node */
    {ESP_OP_MOVE, "V", "C"},
    {ESP_OP_MOVE, "V", "II"},
    {ESP_OP_MOVE, "C", "d"},
    {ESP_OP_MOVE, "D", "I"},
    /* to be a root; a leaf */
    {ESP_OP_MOVE, "V", ""},
    {ESP_OP_MOVE, "d", ""},
    {ESP_OP_MOVE, "i", "a"},
    {ESP_OP_REMOVE, "V", ""},
    {ESP_OP_REMOVE, "i", ""},
    {ESP_OP_REMOVE, "D", ""},
    {ESP_OP_PROMOTE, "V", ""},
    {ESP_OP_PROMOTE, "d", ""},
    {ESP_OP_PROMOTE, "e", ""},
};
enum { TRIALS = sizeof trials / sizeof trials[0] };

static const struct drives_row subtree_rows[] = {
    {"s", ""}, {"s1", "s"}, {"s11", "s1"}, {"s2", "s"}};

/* --- one run ----------------------------------------------------------------------------- */

struct run {
    struct torn_store *torn;
    const struct esp_layout *layout;
    const struct trial *trial;
    size_t k;
    const char *doing;
    struct esp_forest *forest, *subtree;
    struct suite_table t;
    struct model before, after;
    struct esp_args args;
    char journal[300];
    size_t findings, notes;
};

#define run_fail(r, fmt, ...)                                                                      \
    fail_msg("%s: %s '%s' to '%s' cut after %zu, %s: " fmt, (r)->layout->ops->name,                \
             esp_op_info[(r)->trial->op].name, (r)->trial->at, (r)->trial->to, (r)->k, (r)->doing, \
             __VA_ARGS__)
#define run_ok(r, call)                                                                            \
    do {                                                                                           \
        enum esp_status status_ = (call);                                                          \
        if (status_ != ESP_OK) {                                                                   \
            run_fail(r, "%s: %s: %s", #call, esp_status_name(status_), (r)->t.err.message);        \
        }                                                                                          \
    } while (0)

static void set_args(struct run *r) {
    static const char data[] = "\"name\":{\"S\":\"another\"}";
    const struct trial *trial = r->trial;
    r->args = (struct esp_args){.to.id = esp_str_from(trial->to), .subtree = r->subtree};
    if (trial->op == ESP_OP_INSERT) {
        r->args.id = esp_str_from(trial->at);
    } else {
        r->args.at.id = esp_str_from(trial->at);
    }
    if (trial->op == ESP_OP_INSERT || trial->op == ESP_OP_UPDATE) {
        r->args.data = (struct esp_data){data, sizeof data - 1, 11};
    }
}

static void begin(struct run *r) {
    set_args(r);
    suite_table_open(&r->t, r->torn->store, r->layout, "torn", r->forest);
    model_init(&r->before, r->forest);
    model_init(&r->after, r->forest);
    assert_int_equal(model_write(&r->after, r->trial->op, &r->args), ESP_OK);
}

static void end(struct run *r) {
    model_fini(&r->before);
    model_fini(&r->after);
    suite_table_close(&r->t);
}

/* --- comparing --------------------------------------------------------------------------- */

struct answer {
    struct esp_arena *arena;
    struct esp_node_view node[32];
    uint32_t count;
};

static enum esp_status keep_node(void *ctx, const struct esp_node_view *node) {
    struct answer *answer = ctx;
    assert_true(answer->count < sizeof answer->node / sizeof answer->node[0]);
    struct esp_node_view *copy = &answer->node[answer->count++];
    struct esp_str data = {node->data.text, node->data.len};
    copy->id = esp_arena_dup(answer->arena, node->id);
    copy->data =
        (struct esp_data){esp_arena_dup(answer->arena, data).ptr, node->data.len, node->data.size};
    return ESP_OK;
}

static enum esp_status ask(struct run *r, enum esp_op op, struct esp_str id,
                           struct answer *answer) {
    struct esp_args args = {.at.id = id};
    esp_arena_reset(&r->t.scratch);
    esp_error_clear(&r->t.err);
    *answer = (struct answer){.arena = &r->t.scratch};
    return esp_operate(&r->t.access, op, &args, keep_node, answer);
}

static bool has_data(const struct model *model, uint32_t v, const struct esp_node_view *node) {
    return v != ESP_NODE_NONE && esp_data_equal(model->node[v].data, node->data);
}

/* Every node that is there before and after is there, with one of its payloads. */
static void no_node_is_lost(struct run *r) {
    for (uint32_t v = 0; v < r->before.count; v++) {
        struct answer got;
        struct esp_str id = r->before.node[v].id;
        uint32_t w = model_find(&r->after, id);
        if (w == ESP_NODE_NONE) {
            continue;
        }
        enum esp_status status = ask(r, ESP_OP_NODE, id, &got);
        if (status != ESP_OK || got.count != 1) {
            run_fail(r, "the node '%.*s' is lost: %s", ESP_FMT(id), r->t.err.message);
        }
        if (!has_data(&r->before, v, &got.node[0]) && !has_data(&r->after, w, &got.node[0])) {
            run_fail(r, "the node '%.*s' has lost its payload", ESP_FMT(id));
        }
    }
}

static bool has_id(const struct answer *answer, struct esp_str id) {
    bool found = false;
    for (uint32_t i = 0; i < answer->count; i++) {
        found = found || esp_str_eq(answer->node[i].id, id);
    }
    return found;
}

/* The nodes above each node and those below it are the model's, and so is its payload. */
static void tree_is(struct run *r, const struct model *model) {
    static const enum esp_op ops[] = {ESP_OP_NODE, ESP_OP_ANCESTORS, ESP_OP_DESCENDANTS};
    for (uint32_t i = 0; i < 3 * model->count; i++) {
        uint32_t v = i / 3;
        enum esp_op op = ops[i % 3];
        struct esp_args args = {.at.id = model->node[v].id};
        struct answer got;
        if (!model->node[v].alive) {
            if (ask(r, ESP_OP_NODE, args.at.id, &got) != ESP_ERR_NOT_FOUND) {
                run_fail(r, "the node '%.*s' is still there", ESP_FMT(args.at.id));
            }
            continue;
        }
        struct model_answer want = model_read(model, op, &args);
        run_ok(r, ask(r, op, args.at.id, &got));
        bool same = got.count == want.count;
        for (uint32_t k = 0; same && k < want.count; k++) {
            same = has_id(&got, model->node[want.node[k]].id);
        }
        if (!same || (op == ESP_OP_NODE && !has_data(model, v, &got.node[0]))) {
            run_fail(r, "%s of '%.*s' is wrong", esp_op_info[op].name, ESP_FMT(args.at.id));
        }
        free(want.node);
    }
}

static enum esp_status count_finding(void *ctx, const struct esp_finding *finding) {
    struct run *r = ctx;
    (void)finding;
    r->findings++;
    return ESP_OK;
}

static size_t check(struct run *r) {
    r->findings = 0;
    esp_arena_reset(&r->t.scratch);
    esp_error_clear(&r->t.err);
    run_ok(r, r->layout->ops->check(&r->t.access, count_finding, r));
    return r->findings;
}

/* Is the parent that the table has for the node the model's? */
static bool parent_is(struct run *r, const struct model *model, struct esp_str id,
                      const struct answer *got) {
    uint32_t v = model_find(model, id);
    uint32_t parent = v == ESP_NODE_NONE ? v : model->node[v].parent;
    (void)r;
    return parent == ESP_NODE_NONE
               ? got->count == 0
               : got->count == 1 && esp_str_eq(got->node[0].id, model->node[parent].id);
}

/* Where the check finds nothing each node is where it was, or where it shall be. */
static void damage_is_told(struct run *r) {
    for (uint32_t v = 0; check(r) == 0 && v < r->before.count; v++) {
        struct answer got;
        struct esp_str id = r->before.node[v].id;
        if (model_find(&r->after, id) == ESP_NODE_NONE) {
            continue;
        }
        run_ok(r, ask(r, ESP_OP_PARENT, id, &got));
        if (!parent_is(r, &r->before, id, &got) && !parent_is(r, &r->after, id, &got)) {
            run_fail(r, "the check finds nothing, but '%.*s' is astray", ESP_FMT(id));
        }
    }
}

/* --- with a journal ---------------------------------------------------------------------- */

static enum esp_status edit(struct run *r) {
    struct esp_edit_options options = {
        .journal = r->journal,
        .edit = {.layout = r->layout->ops->name, .operation = esp_op_info[r->trial->op].name},
        .repair_command = "repair",
    };
    struct esp_edit_result result;
    esp_arena_reset(&r->t.scratch);
    return esp_edit_run(&r->t.access, r->trial->op, &r->args, &options, &result);
}

static enum esp_status note(void *ctx, enum esp_repair_note kind,
                            const struct esp_finding *finding) {
    struct run *r = ctx;
    assert_non_null(finding->name);
    assert_true(finding->id.len > 0);
    r->notes += kind == ESP_REPAIR_LEFT;
    return ESP_OK;
}

static void mend(struct run *r, bool undo) {
    struct esp_repair repair = {.undo = undo, .journal = r->journal, .tell = note, .ctx = r};
    esp_arena_reset(&r->t.scratch);
    esp_error_clear(&r->t.err);
    run_ok(r, esp_repair_run(&r->t.access, &repair));
    if (!esp_repair_is_whole(&repair) || repair.rebuild.findings ||
        repair.state != (undo ? ESP_REPAIR_UNDONE : ESP_REPAIR_FINISHED)) {
        run_fail(r, "the repair ends in state %d with %llu findings", repair.state,
                 (unsigned long long)repair.rebuild.findings);
    }
    assert_int_equal(access(r->journal, F_OK), -1);
    assert_int_equal(check(r), 0);
    tree_is(r, undo ? &r->before : &r->after);
}

/* False when k was enough. */
static bool cut_edit(struct run *r, bool undo) {
    r->doing = undo ? "edit, undone" : "edit, finished";
    begin(r);
    torn_store_cut(r->torn, r->k);
    enum esp_status status = edit(r);
    bool nothing = r->torn->spent == 0;
    torn_store_heal(r->torn);
    if (status != ESP_OK && status != ESP_ERR_UNAVAILABLE) {
        run_fail(r, "%s: %s", esp_status_name(status), r->t.err.message);
    }
    esp_error_clear(&r->t.err);
    bool journal = access(r->journal, F_OK) == 0;
    if (status == ESP_OK) {
        assert_false(journal);
        assert_int_equal(check(r), 0);
        tree_is(r, &r->after);
    } else {
        no_node_is_lost(r);
        damage_is_told(r);
        if (journal) {
            mend(r, undo);
        } else if (!nothing) {
            run_fail(r, "%zu items are written, and there is no journal", r->torn->spent);
        } else {
            tree_is(r, &r->before);
        }
    }
    end(r);
    return status != ESP_OK;
}

/* --- without ------------------------------------------------------------------------------ */

struct statistics {
    size_t cuts, whole, left;
};

static bool cut_operation(struct run *r, struct statistics *statistics) {
    r->doing = "rebuilt";
    begin(r);
    torn_store_cut(r->torn, r->k);
    enum esp_status status = esp_operate(&r->t.access, r->trial->op, &r->args, NULL, NULL);
    torn_store_heal(r->torn);
    if (status != ESP_OK && status != ESP_ERR_UNAVAILABLE) {
        run_fail(r, "%s: %s", esp_status_name(status), r->t.err.message);
    }
    esp_error_clear(&r->t.err);
    no_node_is_lost(r);
    struct esp_repair repair = {.tell = note, .ctx = r};
    r->notes = 0;
    esp_arena_reset(&r->t.scratch);
    run_ok(r, esp_repair_run(&r->t.access, &repair));
    no_node_is_lost(r);
    bool whole = esp_repair_is_whole(&repair);
    if (whole != (check(r) == 0) || (!whole && r->notes == 0)) {
        run_fail(r, "%zu findings are left, %zu told, whole %d", r->findings, r->notes, whole);
    }
    if (whole) {
        damage_is_told(r);
    }
    /* A remove takes parents before children, and a new node may be there before its parent is
     * told; only then something cannot be told. */
    if (!whole && r->trial->op != ESP_OP_REMOVE && r->trial->op != ESP_OP_INSERT_SUBTREE) {
        run_fail(r, "%zu findings are left", r->findings);
    }
    statistics->cuts++;
    statistics->whole += whole;
    statistics->left += !whole;
    end(r);
    return status != ESP_OK;
}

/* --- all of it --------------------------------------------------------------------------- */

typedef bool cut_fn(struct run *r, struct statistics *statistics);

static bool cut_and_finish(struct run *r, struct statistics *statistics) {
    statistics->cuts++;
    return cut_edit(r, false);
}

static bool cut_and_undo(struct run *r, struct statistics *statistics) {
    statistics->cuts++;
    return cut_edit(r, true);
}

static char folder[256];

static void cut_everything(cut_fn *cut) {
    struct torn_store torn;
    struct esp_layout layouts[SUITE_LAYOUTS_MAX];
    size_t count = suite_layouts(layouts);
    struct run r = {.torn = &torn, .forest = drives_forest()};
    r.subtree = forest_of_rows(subtree_rows, sizeof subtree_rows / sizeof subtree_rows[0]);
    snprintf(r.journal, sizeof r.journal, "%s/a.journal", folder);
    torn_store_open(&torn);
    for (size_t i = 0; i < count; i++) {
        struct statistics statistics = {0};
        r.layout = &layouts[i];
        for (size_t k = 0; k < TRIALS; k++) {
            r.trial = &trials[k];
            if (esp_layout_has(r.layout, r.trial->op)) {
                for (r.k = 0; cut(&r, &statistics); r.k++) {
                }
            }
        }
        print_message("%-12s %5zu cuts, %5zu mended, %4zu left\n", r.layout->ops->name,
                      statistics.cuts, statistics.whole, statistics.left);
    }
    torn_store_close(&torn);
    esp_forest_free(r.forest);
    esp_forest_free(r.subtree);
}

static void cut_edits_are_finished(void **state) {
    (void)state;
    cut_everything(cut_and_finish);
}

static void cut_edits_are_undone(void **state) {
    (void)state;
    cut_everything(cut_and_undo);
}

static void cut_operations_are_put_together(void **state) {
    (void)state;
    cut_everything(cut_operation);
}

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
    const struct CMUnitTest tests[] = {cmocka_unit_test(cut_edits_are_finished),
                                       cmocka_unit_test(cut_edits_are_undone),
                                       cmocka_unit_test(cut_operations_are_put_together)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
