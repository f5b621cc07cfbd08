/* `check` finds every kind of damage, and names who is concerned.  Each case breaks one item of
 * the two drives (datasets/drives.csv) in a way that no operation would. */
#include "converters/access.h"
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"

#include <stdio.h>

enum how { DELETE, SET_TEXT, SET_NUMBER, UNSET };

static const struct damage {
    const char *layout, *id;
    int64_t distance; /* replica: which row */
    enum how how;
    const char *attr, *text;
    int64_t number;
    const char *name, *found, *other; /* a finding that must be reported */
} damages[] = {
    /* d goes below IV, its children do not follow */
    {"path", "d", 0, SET_TEXT, "Path", "/IV/", 0, "bad-path", "i", "d"},
    {"path", "a", 0, UNSET, "Root", NULL, 0, "bad-path", "a", ""},
    {"path", "a", 0, SET_TEXT, "Path", "III", 0, "bad-path", "a", ""},
    {"path", "c", 0, SET_TEXT, "Path", "/IV/c/", 0, "bad-path", "c", "c"},
    {"path", "c", 0, SET_TEXT, "Root", "C", 0, "wrong-root", "c", "IV"},
    {"path", "I", 0, SET_TEXT, "Path", "/no/", 0, "missing-parent", "I", "no"},
    {"path", "IV", 0, DELETE, NULL, NULL, 0, "missing-parent", "c", "IV"},
    {"path", "e", 0, SET_NUMBER, "Depth", NULL, 7, "wrong-depth", "e", ""},
    {"path", "e", 0, UNSET, "Depth", NULL, 0, "wrong-depth", "e", ""},
    {"path", "C", 0, SET_NUMBER, "Depth", NULL, 1, "wrong-depth", "C", ""},

    /* d goes below IV, its children do not follow */
    {"tree-path", "d", 0, SET_TEXT, "path", "D#IV#d#", 0, "bad-path", "i", "d"},
    {"tree-path", "a", 0, UNSET, "treeId", NULL, 0, "bad-path", "a", ""},
    {"tree-path", "a", 0, UNSET, "path", NULL, 0, "bad-path", "a", ""},
    {"tree-path", "a", 0, SET_TEXT, "path", "D#III#a", 0, "bad-path", "a", ""},
    {"tree-path", "a", 0, SET_TEXT, "path", "D#III#", 0, "bad-path", "a", ""},
    {"tree-path", "a", 0, SET_TEXT, "path", "#III#a#", 0, "bad-path", "a", ""},
    {"tree-path", "c", 0, SET_TEXT, "treeId", "C", 0, "wrong-tree", "c", "IV"},
    {"tree-path", "C", 0, SET_TEXT, "treeId", "D", 0, "wrong-tree", "C", ""},
    {"tree-path", "I", 0, SET_TEXT, "path", "C#no#I#", 0, "missing-parent", "I", "no"},
    {"tree-path", "IV", 0, DELETE, NULL, NULL, 0, "missing-parent", "c", "IV"},
    {"tree-path", "e", 0, SET_NUMBER, "depth", NULL, 7, "wrong-depth", "e", ""},
    {"tree-path", "C", 0, UNSET, "depth", NULL, 0, "wrong-depth", "C", ""},

    {"replica", "i", 1, DELETE, NULL, NULL, 0, "missing-row", "i", "V"},
    {"replica", "i", 3, DELETE, NULL, NULL, 0, "missing-row", "i", ""},
    {"replica", "V", 0, DELETE, NULL, NULL, 0, "missing-row", "V", "D"},
    {"replica", "V", 0, DELETE, NULL, NULL, 0, "dangling-row", "e", "V"},
    {"replica", "C", 0, DELETE, NULL, NULL, 0, "dangling-row", "I", "C"},
    {"replica", "i", 2, SET_TEXT, "name", "another", 0, "stale-payload", "i", "V"},
    {"replica", "i", 2, SET_TEXT, "Ancestor ID", "IV", 0, "wrong-ancestor", "i", "IV"},
    {"replica", "C", 0, SET_TEXT, "Ancestor ID", "D", 0, "wrong-ancestor", "C", "D"},
    /* its child rows reach further up than the node itself does */
    {"replica", "d", 2, DELETE, NULL, NULL, 0, "dangling-row", "i", "D"},

    {"nested-set", "III", 0, SET_NUMBER, "rgt", NULL, 9, "overlap", "IV", "III"},
    {"nested-set", "c", 0, SET_NUMBER, "rgt", NULL, 9, "interval", "c", ""},
    {"nested-set", "c", 0, UNSET, "rgt", NULL, 0, "interval", "c", ""},
    {"nested-set", "e", 0, SET_NUMBER, "lft", NULL, 13, "duplicate-lft", "e", "d"},
    {"nested-set", "e", 0, SET_NUMBER, "depth", NULL, 9, "wrong-depth", "e", "V"},
    {"nested-set", "e", 0, SET_TEXT, "parentId", "IV", 0, "wrong-parent", "e", "V"},
    {"nested-set", "e", 0, UNSET, "parentId", NULL, 0, "wrong-parent", "e", "V"},
    {"nested-set", "IV", 0, DELETE, NULL, NULL, 0, "missing-parent", "c", "IV"},
    {"nested-set", "a", 0, SET_TEXT, "treeId", "C", 0, "wrong-tree", "a", "C"},
    {"nested-set", "C", 0, SET_TEXT, "treeId", "D", 0, "wrong-tree", "C", "D"},

    {"adjacency", "IV", 0, DELETE, NULL, NULL, 0, "missing-parent", "c", "IV"},
    {"adjacency", "V", 0, SET_TEXT, "parentId", "d", 0, "cycle", "V", "d"},
    {"adjacency", "a", 0, SET_TEXT, "parentId", "a", 0, "cycle", "a", "a"},
    {"adjacency", "e", 0, SET_NUMBER, "depth", NULL, 9, "wrong-depth", "e", "V"},
    {"adjacency", "III", 0, UNSET, "parentId", NULL, 0, "wrong-depth", "III", ""},
    {"adjacency", "e", 0, UNSET, "depth", NULL, 0, "wrong-depth", "e", "V"},
};

/* Of layouts with several items a node. */
static const struct item_damage {
    struct damage damage;
    const char *sk;  /* which item; NULL: the node's own */
    const char *set; /* a setting; NULL: none */
} item_damages[] = {
    {{"entity", "IV", 0, DELETE, NULL, NULL, 0, "missing-meta", "IV", "D"}, NULL, NULL},
    {{"entity", "IV", 0, DELETE, NULL, NULL, 0, "missing-parent", "c", "IV"}, NULL, NULL},
    {{"entity", "C", 0, DELETE, NULL, NULL, 0, "missing-parent", "I", "C"}, NULL, NULL},
    {{"entity", "c", 0, DELETE, NULL, NULL, 0, "missing-meta", "c", "IV"}, NULL, NULL},
    {{"entity", "i", 0, DELETE, NULL, NULL, 0, "missing-parent-item", "i", "d"}, "PARENT#d", NULL},
    {{"entity", "d", 0, DELETE, NULL, NULL, 0, "missing-child-item", "i", "d"}, "CHILD#i", NULL},
    {{"entity", "i", 0, SET_TEXT, "x", "y", 0, "two-parents", "i", "d"}, "PARENT#e", NULL},
    {{"entity", "i", 0, SET_TEXT, "x", "y", 0, "missing-child-item", "i", "e"}, "PARENT#e", NULL},
    {{"entity", "e", 0, SET_TEXT, "x", "y", 0, "missing-parent-item", "i", "e"}, "CHILD#i", NULL},
    {{"entity", "c", 0, SET_TEXT, "x", "y", 0, "missing-meta", "no", "c"}, "CHILD#no", NULL},
    {{"entity", "C", 0, SET_TEXT, "x", "y", 0, "cycle", "C", "I"}, "PARENT#I", NULL},
    {{"entity", "e", 0, SET_NUMBER, "depth", NULL, 9, "wrong-depth", "e", "V"}, NULL, NULL},
    {{"entity", "e", 0, UNSET, "depth", NULL, 0, "wrong-depth", "e", "V"}, NULL, NULL},
    {{"entity", "d", 0, SET_TEXT, "childId", "e", 0, "wrong-reference", "i", "d"},
     "CHILD#i",
     "refs=on"},
    {{"entity", "i", 0, UNSET, "parentId", NULL, 0, "wrong-reference", "i", "d"},
     "PARENT#d",
     "refs=on"},
};

/* The key of a node's item where the id does not give it. */
struct wanted {
    struct suite_table *t;
    struct esp_str id;
    struct esp_item *key;
};

static enum esp_status keep_key(void *ctx, const struct esp_item *item) {
    struct wanted *wanted = ctx;
    struct esp_node_view view;
    struct suite_table *t = wanted->t;
    return t->layout->ops->view(t->layout, item, &view) && esp_str_eq(view.id, wanted->id)
               ? esp_item_dup(&t->layout->schema, &t->scratch, item, wanted->key)
               : ESP_OK;
}

static void find_key(struct suite_table *t, struct esp_str id, struct esp_item *key) {
    struct wanted wanted = {t, id, key};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    if (t->layout->ops->key_is_place) {
        assert_ok(esp_session_scan(t->session, &scan, keep_key, &wanted, &t->err), &t->err);
    } else {
        assert_ok(esp_access_key(&t->access, id, key), &t->err);
    }
}

static void break_item(struct suite_table *t, const struct damage *damage, const char *sk) {
    const struct esp_schema *schema = &t->layout->schema;
    struct esp_change change = {.kind = ESP_CHANGE_SET};
    struct esp_write write = {.kind = ESP_UPDATE, .changes = &change, .change_count = 1};
    find_key(t, esp_str_from(damage->id), &write.item);
    if (sk) {
        write.item.value[schema->sk] = esp_s(esp_str_from(sk));
    } else if (schema->sk >= 0 && schema->attr[schema->sk].type == ESP_TYPE_N) {
        write.item.value[schema->sk] = esp_n(damage->distance);
    }
    if (damage->how == DELETE) {
        write.kind = ESP_DELETE;
        write.change_count = 0;
    } else {
        change.name = esp_str_from(damage->attr);
    }
    if (damage->how == UNSET) {
        change.kind = ESP_CHANGE_REMOVE;
    } else if (damage->how == SET_NUMBER) {
        change.value = esp_n(damage->number);
    } else {
        change.value = esp_s(esp_str_from(damage->text));
    }
    assert_ok(esp_session_write(t->session, &write, 1, NULL, &t->err), &t->err);
}

struct findings {
    const struct damage *damage; /* NULL: nothing may be found */
    bool found;
    size_t count;
    char all[4096];
};

static enum esp_status note(void *ctx, const struct esp_finding *finding) {
    struct findings *f = ctx;
    size_t len = strlen(f->all);
    f->count++;
    snprintf(f->all + len, sizeof f->all - len, "\n  %s '%.*s' '%.*s': %s", finding->name,
             ESP_FMT(finding->id), ESP_FMT(finding->other), finding->text);
    f->found = f->found || (f->damage && strcmp(finding->name, f->damage->name) == 0 &&
                            esp_str_eq(finding->id, esp_str_from(f->damage->found)) &&
                            esp_str_eq(finding->other, esp_str_from(f->damage->other)));
    return ESP_OK;
}

static void damage_is_found(struct esp_store *store, const struct esp_forest *forest,
                            const struct damage *damage, const char *sk, const char *set) {
    struct esp_layout layout;
    struct suite_table t;
    struct esp_error err = ESP_ERROR_INIT;
    struct findings before = {.found = false}, after = {.damage = damage};
    struct esp_strings sets = {{set}, set != NULL};
    assert_ok(esp_layout_init(&layout, esp_layout_find(damage->layout), &sets, &err), &err);
    suite_table_open(&t, store, &layout, "damage", forest);
    assert_ok(layout.ops->check(&t.access, note, &before), &t.err);
    assert_string_equal(before.all, "");
    break_item(&t, damage, sk);
    assert_ok(layout.ops->check(&t.access, note, &after), &t.err);
    if (!after.found) {
        fail_msg("%s '%s' %s %s: no %s '%s' '%s' among:%s", damage->layout, damage->id,
                 sk ? sk : "", damage->attr ? damage->attr : "deleted", damage->name, damage->found,
                 damage->other, after.all);
    }
    if (strcmp(damage->name, "cycle") == 0) {      /* what hangs on a cycle is not accused too */
        assert_int_equal(after.count, sk ? 2 : 1); /* one end of a link lacks the other */
    }
    suite_table_close(&t);
}

static void every_damage_is_found(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        damage_is_found(store, forest, &damages[i], NULL, NULL);
    }
    for (size_t i = 0; i < sizeof item_damages / sizeof item_damages[0]; i++) {
        const struct item_damage *item = &item_damages[i];
        damage_is_found(store, forest, &item->damage, item->sk, item->set);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

/* A stopped check passes the status on. */
static enum esp_status stop(void *ctx, const struct esp_finding *finding) {
    (void)finding;
    ++*(int *)ctx;
    return ESP_STOP;
}

static void a_finding_can_stop_the_check(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct esp_layout layout;
        struct suite_table t;
        int count = 0;
        struct damage damage = {esp_layouts[i]->name, "V", 0, DELETE, NULL, NULL, 0, "", "", ""};
        assert_ok(esp_layout_init(&layout, esp_layouts[i], NULL, &err), &err);
        suite_table_open(&t, store, &layout, "damage", forest);
        break_item(&t, &damage, NULL);
        assert_int_equal(layout.ops->check(&t.access, stop, &count), ESP_STOP);
        assert_int_equal(count, 1);
        suite_table_close(&t);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_damage_is_found),
        cmocka_unit_test(a_finding_can_stop_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
