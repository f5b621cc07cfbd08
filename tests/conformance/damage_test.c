/* `check` finds every kind of damage, and names who is concerned.  Each case breaks one item of
 * the two drives (datasets/drives.csv) in a way that no operation would. */
#include "converters/access.h"
#include "tests/conformance/suite.h"
#include "tests/support/drives.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

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
    {"path", "C", 0, SET_TEXT, "Root", "C", 0, "bad-path", "C", ""},
    {"path", "a", 0, UNSET, "Path", NULL, 0, "bad-path", "a", ""},
    {"path", "e", 0, SET_TEXT, "Depth", "2", 0, "wrong-type", "e", ""},
    {"path", "e", 0, SET_TEXT, "Depth", "2", 0, "wrong-depth", "e", ""},

    {"tree-path", "d", 0, SET_TEXT, "path", "D#IV#d#", 0, "bad-path", "i", "d"},
    {"tree-path", "a", 0, UNSET, "treeId", NULL, 0, "bad-path", "a", ""},
    {"tree-path", "a", 0, SET_TEXT, "path", "D#III#a", 0, "bad-path", "a", ""},
    {"tree-path", "c", 0, SET_TEXT, "path", "D#IV#x#", 0, "bad-path", "c", ""},
    {"tree-path", "c", 0, SET_TEXT, "path", "D#IV#c#c#", 0, "bad-path", "c", "c"},
    {"tree-path", "c", 0, SET_TEXT, "treeId", "C", 0, "wrong-tree", "c", "IV"},
    {"tree-path", "C", 0, SET_TEXT, "treeId", "D", 0, "wrong-tree", "C", ""},
    {"tree-path", "I", 0, SET_TEXT, "path", "C#no#I#", 0, "missing-parent", "I", "no"},
    {"tree-path", "IV", 0, DELETE, NULL, NULL, 0, "missing-parent", "c", "IV"},
    {"tree-path", "e", 0, SET_NUMBER, "depth", NULL, 7, "wrong-depth", "e", ""},
    {"tree-path", "e", 0, UNSET, "depth", NULL, 0, "wrong-depth", "e", ""},
    {"tree-path", "C", 0, SET_NUMBER, "depth", NULL, 1, "wrong-depth", "C", ""},
    {"tree-path", "C", 0, SET_TEXT, "depth", "0", 0, "wrong-type", "C", ""},
    {"tree-path", "C", 0, UNSET, "path", NULL, 0, "bad-path", "C", ""},

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
    {"replica", "i", 2, UNSET, "Ancestor ID", NULL, 0, "dangling-row", "i", ""},
    /* its child rows reach further up than the node itself does */
    {"replica", "d", 2, DELETE, NULL, NULL, 0, "dangling-row", "i", "D"},

    {"nested-set", "III", 0, SET_NUMBER, "rgt", NULL, 9, "overlap", "IV", "III"},
    {"nested-set", "c", 0, SET_NUMBER, "rgt", NULL, 9, "interval", "c", ""},
    /* who has no place is named, what is below it is not */
    {"nested-set", "c", 0, UNSET, "rgt", NULL, 0, "missing-interval", "c", ""},
    {"nested-set", "V", 0, UNSET, "lft", NULL, 0, "missing-interval", "V", ""},
    {"nested-set", "D", 0, UNSET, "rgt", NULL, 0, "missing-interval", "D", ""},
    {"nested-set", "V", 0, UNSET, "treeId", NULL, 0, "wrong-tree", "V", ""},
    {"nested-set", "D", 0, UNSET, "treeId", NULL, 0, "wrong-tree", "D", ""},
    {"nested-set", "V", 0, SET_TEXT, "rgt", "x", 0, "wrong-type", "V", ""},
    {"nested-set", "e", 0, SET_NUMBER, "parentId", NULL, 5, "wrong-type", "e", ""},
    {"nested-set", "e", 0, SET_TEXT, "depth", "2", 0, "wrong-type", "e", ""},
    {"nested-set", "e", 0, UNSET, "depth", NULL, 0, "wrong-depth", "e", "V"},
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
    {"adjacency", "e", 0, SET_TEXT, "depth", "2", 0, "wrong-type", "e", ""},
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
    {{"entity", "e", 0, SET_TEXT, "depth", "2", 0, "wrong-type", "e", ""}, NULL, NULL},
    {{"entity", "d", 0, SET_NUMBER, "childId", NULL, 5, "wrong-type", "NODE#d", "CHILD#i"},
     "CHILD#i",
     "refs=on"},
};

/* Items that go and come: where a node's place is its key. */
static const struct place_damage {
    struct damage damage; /* only names */
    const char *set;      /* a setting; NULL: none */
    const char *gone;     /* primary key; NULL: none */
    const char *put;      /* item; NULL: none */
} place_damages[] = {
#define PLACE(pk, sk)   "\"pk\":{\"S\":\"" pk "\"},\"sk\":{\"S\":\"" sk "\"}"
#define NODE(id, depth) ",\"id\":{\"S\":\"" id "\"},\"depth\":{\"N\":\"" depth "\"}"
    {{.layout = "path-key", .name = "bad-path", .found = "e", .other = ""},
     NULL,
     PLACE("D", "D/V/e"),
     PLACE("D", "D/V/x") NODE("e", "2")},
    {{.layout = "path-key", .name = "bad-path", .found = "e", .other = "d"},
     NULL,
     PLACE("D", "D/V/e"),
     PLACE("D", "D/IV/d/e") NODE("e", "3")},
    {{.layout = "path-key", .name = "missing-id", .found = "e", .other = ""},
     NULL,
     NULL,
     PLACE("D", "D/V/e") ",\"depth\":{\"N\":\"2\"}"},
    {{.layout = "path-key", .name = "wrong-type", .found = "e", .other = ""},
     NULL,
     NULL,
     PLACE("D", "D/V/e") ",\"id\":{\"S\":\"e\"},\"depth\":{\"S\":\"2\"}"},
    {{.layout = "path-key", .name = "wrong-depth", .found = "e", .other = ""},
     NULL,
     NULL,
     PLACE("D", "D/V/e") NODE("e", "7")},
    {{.layout = "path-key", .name = "wrong-depth", .found = "e", .other = "V"},
     "segment=1",
     NULL,
     PLACE("D/V", "e") NODE("e", "7")},
    {{.layout = "path-key", .name = "wrong-ancestors", .found = "e", .other = ""},
     "ancestors=on",
     NULL,
     PLACE("D", "D/V/e") NODE("e", "2") ",\"ancestors\":{\"L\":[{\"S\":\"D\"}]}"},
    {{.layout = "path-key", .name = "wrong-partition", .found = "C", .other = ""},
     NULL,
     PLACE("C", "C"),
     PLACE("D", "C") NODE("C", "0")},
    {{.layout = "path-key", .name = "wrong-partition", .found = "I", .other = "C"},
     NULL,
     PLACE("C", "C/I"),
     PLACE("D", "C/I") NODE("I", "1")},
    {{.layout = "path-key", .name = "wrong-partition", .found = "I", .other = ""},
     "hierarchy=H",
     PLACE("H", "C/I"),
     PLACE("G", "C/I") NODE("I", "1")},
    {{.layout = "path-key", .name = "duplicate-node", .found = "e", .other = ""},
     NULL,
     NULL,
     PLACE("D", "D/IV/e") NODE("e", "2")},
    {{.layout = "path-key", .name = "missing-parent", .found = "c", .other = "IV"},
     NULL,
     PLACE("D", "D/IV"),
     NULL},
    {{.layout = "path-key", .name = "cycle", .found = "V", .other = "d"},
     "segment=1",
     PLACE("D/D", "V"),
     PLACE("D/d", "V") NODE("V", "3")},
#undef PLACE
#undef NODE
};

enum {
    PLACE_CASES = sizeof place_damages / sizeof place_damages[0],
    PLAIN_CASES = sizeof damages / sizeof damages[0],
    ITEM_CASES = sizeof item_damages / sizeof item_damages[0],
    CASES = PLAIN_CASES + ITEM_CASES + PLACE_CASES
};

static const struct damage *case_at(size_t i) {
    if (i < PLAIN_CASES) {
        return &damages[i];
    }
    i -= PLAIN_CASES;
    return i < ITEM_CASES ? &item_damages[i].damage : &place_damages[i - ITEM_CASES].damage;
}

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
    if (strcmp(damage->name, "missing-interval") == 0 ||
        (strcmp(damage->name, "wrong-tree") == 0 && damage->how == UNSET)) {
        assert_string_equal(strchr(after.all + 1, '\n') ? after.all : "", "");
    }
    if (strcmp(damage->name, "cycle") == 0) {      /* what hangs on a cycle is not accused too */
        assert_int_equal(after.count, sk ? 2 : 1); /* one end of a link lacks the other */
    }
    suite_table_close(&t);
}

static void write_json(struct suite_table *t, enum esp_write_kind kind, const char *members) {
    struct esp_write write = {.kind = kind};
    char json[512];
    int len = snprintf(json, sizeof json, "{%s}", members);
    assert_in_range(len, 2, sizeof json - 1);
    assert_ok(esp_item_parse(&t->layout->schema, (struct esp_str){json, (size_t)len}, &t->scratch,
                             &write.item, &t->err),
              &t->err);
    assert_ok(esp_session_write(t->session, &write, 1, NULL, &t->err), &t->err);
}

static void place_is_found(struct esp_store *store, const struct esp_forest *forest,
                           const struct place_damage *place) {
    struct esp_layout layout;
    struct suite_table t;
    struct esp_error err = ESP_ERROR_INIT;
    struct findings before = {.found = false}, after = {.damage = &place->damage};
    struct esp_strings sets = {{place->set}, place->set != NULL};
    assert_ok(esp_layout_init(&layout, esp_layout_find(place->damage.layout), &sets, &err), &err);
    suite_table_open(&t, store, &layout, "damage", forest);
    assert_ok(layout.ops->check(&t.access, note, &before), &t.err);
    assert_string_equal(before.all, "");
    if (place->gone) {
        write_json(&t, ESP_DELETE, place->gone);
    }
    if (place->put) {
        write_json(&t, ESP_PUT, place->put);
    }
    assert_ok(layout.ops->check(&t.access, note, &after), &t.err);
    if (!after.found) {
        fail_msg("%s: no %s '%s' '%s' among:%s", place->damage.layout, place->damage.name,
                 place->damage.found, place->damage.other, after.all);
    }
    suite_table_close(&t);
}

static void every_damage_is_found_in(const struct esp_store_config *config, unsigned flags) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest = drives_forest();
    struct esp_store *store;
    assert_ok(esp_store_open("memory:", config, &esp_clock_system, &esp_alloc_libc, &store, &err),
              &err);
    struct esp_store_ops ops = *store->ops;
    ops.flags |= flags;
    store->ops = &ops;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        damage_is_found(store, forest, &damages[i], NULL, NULL);
    }
    for (size_t i = 0; i < sizeof item_damages / sizeof item_damages[0]; i++) {
        const struct item_damage *item = &item_damages[i];
        damage_is_found(store, forest, &item->damage, item->sk, item->set);
    }
    for (size_t i = 0; i < PLACE_CASES; i++) {
        place_is_found(store, forest, &place_damages[i]);
    }
    esp_store_close(store);
    esp_forest_free(forest);
}

static void every_damage_is_found(void **state) {
    (void)state;
    every_damage_is_found_in(NULL, 0);
}

/* The check of a store behind a network scans segments side by side: their items mix. */
static void every_damage_is_found_in_segments(void **state) {
    (void)state;
    struct esp_store_config config = {.page_bytes = 100};
    every_damage_is_found_in(&config, ESP_STORE_REMOTE);
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

/* --- no finding is dead -------------------------------------------------------------- */

/* Layouts and the files they are in, from layouts.def. */
static struct source { char layout[32], base[32]; /* "nested-set", "nested_set" */ } sources[32];
static size_t source_count;

static void read_sources(void) {
    char *text = esp_test_read_file("converters/layouts.def", NULL);
    source_count = 0;
    for (const char *at = text; (at = strstr(at, "\nESP_LAYOUT("));) {
        struct source *s = &sources[source_count++];
        at++;
        char file[64];
        assert_int_equal(sscanf(at, "ESP_LAYOUT(%31[a-z_], %63[a-z_/].c)", s->layout, file), 2);
        const char *slash = strrchr(file, '/');
        snprintf(s->base, sizeof s->base, "%s", slash ? slash + 1 : file);
        for (char *c = s->layout; *c; c++) {
            *c = *c == '_' ? '-' : *c;
        }
    }
    free(text);
}

/* The layouts' file that FILE is, or is a part of: path_key for path_key_read.c; "" for none. */
static const char *base_of(const char *file) {
    const char *base = "";
    for (size_t i = 0; i < source_count; i++) {
        size_t len = strlen(sources[i].base);
        if (strncmp(file, sources[i].base, len) == 0 && (file[len] == '.' || file[len] == '_') &&
            len > strlen(base)) {
            base = sources[i].base;
        }
    }
    return base;
}

/* Does a case provoke the finding in a layout of that file; in any, if it is no layout's? */
static bool is_provoked(const char *file, struct esp_str name) {
    const char *base = base_of(file);
    for (size_t i = 0; i < CASES; i++) {
        const struct damage *damage = case_at(i);
        for (size_t k = 0; k < source_count; k++) {
            if (strcmp(sources[k].layout, damage->layout) == 0 &&
                (!base[0] || strcmp(sources[k].base, base) == 0) &&
                esp_str_eq(name, esp_str_from(damage->name))) {
                return true;
            }
        }
    }
    return false;
}

/* In a call of esp_check_report names come before the sentence, which has blanks. */
static size_t look_for_dead_names(const char *file, const char *text) {
    size_t dead = 0;
    static const char call[] = "esp_check_report(";
    for (const char *at = text; (at = strstr(at, call));) {
        const char *end = strchr(at, ';');
        for (at += sizeof call - 1; (at = strchr(at, '"')) && at < end;) {
            size_t len = strcspn(++at, "\"");
            if (memchr(at, ' ', len)) {
                break;
            }
            if (!is_provoked(file, (struct esp_str){at, len})) {
                print_message("converters/%s: no case provokes '%.*s'\n", file, (int)len, at);
                dead++;
            }
            at += len + 1;
        }
        at = end;
    }
    return dead;
}

static void no_finding_is_dead(void **state) {
    (void)state;
    size_t dead = 0, files = 0;
    glob_t found;
    read_sources();
    assert_int_equal(glob("converters/*.c", 0, NULL, &found), 0);
    assert_int_equal(glob("converters/*/*.c", GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        char *text = esp_test_read_file(found.gl_pathv[i], NULL);
        dead += look_for_dead_names(strrchr(found.gl_pathv[i], '/') + 1, text);
        files += strstr(text, "esp_check_report(") != NULL;
        free(text);
    }
    globfree(&found);
    assert_true(files >= 5);
    assert_int_equal(dead, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_damage_is_found),
        cmocka_unit_test(every_damage_is_found_in_segments),
        cmocka_unit_test(a_finding_can_stop_the_check),
        cmocka_unit_test(no_finding_is_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
