/* Reads in pages: what they cost, whose starts are taken, what happens when the table changes
 * between pages.  That all pages together are the whole answer, the suite says of every layout
 * and operation. */
#include "converters/paging.h"
#include "tests/conformance/suite.h"
#include "tests/support/alloc.h"
#include "tests/support/drives.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHILDREN = 200, START_BYTES_MAX = 8192 };

struct fixture {
    struct esp_test_alloc alloc;
    struct esp_store *store;
    struct esp_layout layout;
    struct suite_table t;
    char ids[64 * 1024]; /* of the answer so far, each behind a blank */
    uint64_t count;
    char next[START_BYTES_MAX];
};

static void open_fixture(struct fixture *f, const char *layout, const struct esp_forest *forest) {
    struct esp_error err = ESP_ERROR_INIT;
    memset(f, 0, sizeof *f);
    esp_test_alloc_init(&f->alloc, 0);
    assert_ok(esp_layout_init(&f->layout, esp_layout_find(layout), NULL, &err), &err);
    assert_ok(esp_store_open("memory:", NULL, &esp_clock_system, &f->alloc.alloc, &f->store, &err),
              &err);
    suite_table_open(&f->t, f->store, &f->layout, "paging", forest);
    esp_arena_fini(&f->t.scratch);
    esp_arena_init(&f->t.scratch, &f->alloc.alloc, SIZE_MAX);
}

static void close_fixture(struct fixture *f) {
    esp_error_clear(&f->t.err);
    suite_table_close(&f->t);
    esp_store_close(f->store);
    esp_test_alloc_done(&f->alloc);
}

static enum esp_status keep_id(void *ctx, const struct esp_node_view *node) {
    struct fixture *f = ctx;
    size_t len = strlen(f->ids);
    snprintf(f->ids + len, sizeof f->ids - len, " %.*s", ESP_FMT(node->id));
    f->count++;
    return ESP_OK;
}

/* One page from `start`; its end is f->next. */
static enum esp_status page(struct fixture *f, enum esp_op op, const struct esp_args *args,
                            uint64_t limit, const char *start) {
    char from[START_BYTES_MAX];
    snprintf(from, sizeof from, "%s", start);
    struct esp_paging paging = {.limit = limit, .start = esp_str_from(from)};
    esp_error_clear(&f->t.err);
    esp_arena_reset(&f->t.scratch);
    f->t.access.paging = &paging;
    enum esp_status status = esp_operate(&f->t.access, op, args, keep_id, f);
    f->t.access.paging = NULL;
    assert_null(paging.run);
    snprintf(f->next, sizeof f->next, "%.*s", ESP_FMT(paging.next));
    assert_true(status == ESP_OK || f->t.err.message[0]);
    return status;
}

static void write_node(struct fixture *f, enum esp_op op, const char *at, const char *to) {
    struct esp_args args = {.at.id = esp_str_from(at), .to.id = esp_str_from(to)};
    args.id = op == ESP_OP_INSERT ? args.at.id : args.id;
    esp_arena_reset(&f->t.scratch);
    assert_ok(esp_operate(&f->t.access, op, &args, NULL, NULL), &f->t.err);
}

/* A tree of 200 leaves below "r", and as many in another one. */
static struct esp_forest *wide_forest(void) {
    static char text[2 * CHILDREN][8];
    static struct drives_row rows[2 * CHILDREN + 2];
    uint32_t n = 0;
    rows[n++] = (struct drives_row){"r", ""};
    rows[n++] = (struct drives_row){"s", ""};
    for (uint32_t i = 0; i < 2 * CHILDREN; i++) {
        snprintf(text[i], sizeof text[i], "n%03u", i);
        rows[n++] = (struct drives_row){text[i], i % 2 ? "s" : "r"};
    }
    return forest_of_rows(rows, n);
}

/* --- costs ------------------------------------------------------------------------ */

static const struct {
    const char *layout;
    enum esp_op op;
} native[] = {
    {"path", ESP_OP_CHILDREN},       {"path", ESP_OP_DESCENDANTS},
    {"path", ESP_OP_SIBLINGS},       {"path", ESP_OP_WINDOW},
    {"path", ESP_OP_LEVEL},          {"path", ESP_OP_TREE},
    {"tree-path", ESP_OP_CHILDREN},  {"tree-path", ESP_OP_DESCENDANTS},
    {"tree-path", ESP_OP_WINDOW},    {"tree-path", ESP_OP_TREE},
    {"replica", ESP_OP_CHILDREN},    {"replica", ESP_OP_DESCENDANTS},
    {"replica", ESP_OP_SIBLINGS},    {"replica", ESP_OP_WINDOW},
    {"replica", ESP_OP_LEVEL},       {"nested-set", ESP_OP_CHILDREN},
    {"nested-set", ESP_OP_SIBLINGS}, {"nested-set", ESP_OP_DESCENDANTS},
    {"nested-set", ESP_OP_WINDOW},   {"nested-set", ESP_OP_LEVEL},
    {"nested-set", ESP_OP_TREE},     {"adjacency", ESP_OP_CHILDREN},
    {"adjacency", ESP_OP_SIBLINGS},  {"graph", ESP_OP_CHILDREN},
    {"graph", ESP_OP_NEIGHBOURS},    {"graph", ESP_OP_SIBLINGS},
};

/* Items read: those of the page, and a few to find where it is. */
static void a_page_of_one_query_reads_what_it_has(void **state) {
    (void)state;
    enum { LIMIT = 10, LOOK_UPS_MAX = 4 };
    struct esp_forest *forest = wide_forest();
    for (size_t i = 0; i < sizeof native / sizeof native[0]; i++) {
        struct fixture f;
        struct esp_args args = {.at.id = ESP_STR("r"), .lo = 1, .hi = 2, .type = ESP_STR("PARENT")};
        /* graph reads edges, and the nodes that they leave */
        uint64_t each = strcmp(native[i].layout, "graph") == 0 ? 2 : 1;
        open_fixture(&f, native[i].layout, forest);
        if (native[i].op == ESP_OP_SIBLINGS) {
            args.at.id = ESP_STR("n100");
        }
        for (uint32_t pages = 0; pages == 0 || f.next[0]; pages++) {
            uint64_t read = f.t.session->usage.items_read, before = f.count;
            assert_ok(page(&f, native[i].op, &args, LIMIT, f.next), &f.t.err);
            read = f.t.session->usage.items_read - read;
            if (read > each * (f.count - before) + LOOK_UPS_MAX) {
                fail_msg("%s %s: page %u has %llu nodes and has read %llu items", native[i].layout,
                         esp_op_info[native[i].op].name, pages,
                         (unsigned long long)(f.count - before), (unsigned long long)read);
            }
            assert_true(pages < CHILDREN);
        }
        assert_int_equal(f.count, native[i].op == ESP_OP_SIBLINGS ? CHILDREN - 1
                                  : native[i].op == ESP_OP_TREE   ? CHILDREN + 1
                                                                  : CHILDREN);
        close_fixture(&f);
    }
    esp_forest_free(forest);
}

/* --- starts ----------------------------------------------------------------------- */

static void refused(struct fixture *f, enum esp_op op, const struct esp_args *args,
                    const char *start, const char *part) {
    uint64_t requests = f->t.session->usage.requests;
    assert_int_equal(page(f, op, args, 2, start), ESP_ERR_USAGE);
    if (!strstr(f->t.err.message, part)) {
        fail_msg("'%s' is not in: %s", part, f->t.err.message);
    }
    assert_int_equal(f->t.session->usage.requests, requests);
    assert_string_equal(f->next, "");
}

static void starts_are_good_for_their_query_only(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    struct esp_args args = {.at.id = ESP_STR("D")}, other = {.at.id = ESP_STR("V")};
    struct esp_strings sets = {{"separator=|"}, 1};
    struct esp_error err = ESP_ERROR_INIT;
    struct fixture f, g;
    struct esp_layout layout;
    char start[START_BYTES_MAX];
    open_fixture(&f, "path", forest);
    assert_ok(page(&f, ESP_OP_DESCENDANTS, &args, 2, ""), &f.t.err);
    snprintf(start, sizeof start, "%s", f.next);
    refused(&f, ESP_OP_DESCENDANTS, &other, start, "another query");
    refused(&f, ESP_OP_CHILDREN, &args, start, "another query");
    args.hi = 3;
    refused(&f, ESP_OP_DESCENDANTS, &args, start, "another query");
    args.hi = 0;
    refused(&f, ESP_OP_DESCENDANTS, &args, "nonsense", "damaged");
    refused(&f, ESP_OP_DESCENDANTS, &args, "e30", "damaged"); /* {} */
    assert_int_equal(page(&f, ESP_OP_DESCENDANTS, &args, 0, start), ESP_ERR_USAGE);
    assert_ok(esp_layout_init(&layout, esp_layout_find("path"), &sets, &err), &err);
    f.t.access.layout = &layout;
    refused(&f, ESP_OP_DESCENDANTS, &args, start, "another query");
    f.t.access.layout = &f.layout;
    open_fixture(&g, "adjacency", forest);
    refused(&g, ESP_OP_DESCENDANTS, &args, start, "another query");
    close_fixture(&g);
    assert_ok(page(&f, ESP_OP_DESCENDANTS, &args, 100, start), &f.t.err);
    assert_int_equal(f.count, 2 + 9);
    close_fixture(&f);
    esp_forest_free(forest);
}

/* Whatever is wrong with it, it is refused or it is a page. */
static void damaged_starts_do_no_harm(void **state) {
    (void)state;
    static const char letters[] = "A_-z9+/= \x80";
    struct esp_forest *forest = drives_forest();
    struct esp_args args = {.at.id = ESP_STR("D"), .lo = 0, .hi = 3};
    struct fixture f;
    open_fixture(&f, "path", forest);
    for (uint32_t first = 1; first < 3; first++) { /* a loose node, an item */
        char start[START_BYTES_MAX], bad[START_BYTES_MAX];
        assert_ok(page(&f, ESP_OP_WINDOW, &args, first, ""), &f.t.err);
        snprintf(start, sizeof start, "%s", f.next);
        for (size_t at = 0; at < strlen(start); at++) {
            for (size_t k = 0; k < sizeof letters; k++) { /* the last one cuts it */
                snprintf(bad, sizeof bad, "%s", start);
                bad[at] = letters[k];
                enum esp_status status = page(&f, ESP_OP_WINDOW, &args, 3, bad);
                assert_true(status == ESP_OK || status == ESP_ERR_USAGE ||
                            status == ESP_ERR_REFUSED);
                f.ids[0] = 0;
            }
        }
    }
    close_fixture(&f);
    esp_forest_free(forest);
}

/* --- changes between pages -------------------------------------------------------- */

static void nodes_come_and_go_between_pages(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    struct esp_args args = {.at.id = ESP_STR("d")};
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct fixture f;
        open_fixture(&f, esp_layouts[i]->name, forest);
        assert_ok(page(&f, ESP_OP_LEAVES, &args, 1, ""), &f.t.err);
        assert_string_equal(f.ids, " i");
        write_node(&f, ESP_OP_REMOVE, "i", "");
        write_node(&f, ESP_OP_INSERT, "hh", "d"); /* before the place reached */
        write_node(&f, ESP_OP_INSERT, "iij", "d");
        assert_ok(page(&f, ESP_OP_LEAVES, &args, 100, f.next), &f.t.err);
        assert_string_equal(f.ids, " i ii iii iij");
        assert_string_equal(f.next, "");
        close_fixture(&f);
    }
    esp_forest_free(forest);
}

/* Behind a removed item a query goes on; in another tree there is no such place. */
static void a_moved_node_is_asked_for_anew(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    struct esp_args args = {.at.id = ESP_STR("d")};
    struct fixture f;
    open_fixture(&f, "path", forest);
    assert_ok(page(&f, ESP_OP_CHILDREN, &args, 1, ""), &f.t.err);
    write_node(&f, ESP_OP_REMOVE, "i", "");
    assert_ok(page(&f, ESP_OP_CHILDREN, &args, 1, f.next), &f.t.err);
    assert_string_equal(f.ids, " i ii");
    char start[START_BYTES_MAX];
    snprintf(start, sizeof start, "%s", f.next);
    write_node(&f, ESP_OP_MOVE, "d", "C");
    assert_int_equal(page(&f, ESP_OP_CHILDREN, &args, 1, start), ESP_ERR_REFUSED);
    assert_non_null(strstr(f.t.err.message, "begin again"));
    /* ancestors: the one that the page ended with is none any more */
    args.at.id = ESP_STR("e");
    assert_ok(page(&f, ESP_OP_ANCESTORS, &args, 1, ""), &f.t.err);
    assert_string_equal(f.ids, " i ii D");
    snprintf(start, sizeof start, "%s", f.next);
    assert_ok(page(&f, ESP_OP_ANCESTORS, &args, 1, start), &f.t.err);
    assert_string_equal(f.ids, " i ii D V");
    write_node(&f, ESP_OP_MOVE, "V", "C");
    assert_int_equal(page(&f, ESP_OP_ANCESTORS, &args, 1, start), ESP_ERR_REFUSED);
    close_fixture(&f);
    esp_forest_free(forest);
}

/* A second parent, and the siblings are no longer what one query finds. */
static void a_shared_node_is_asked_for_anew(void **state) {
    (void)state;
    struct esp_forest *forest = wide_forest();
    struct esp_args args = {.at.id = ESP_STR("n000")};
    struct esp_args link = {
        .at.id = ESP_STR("n000"), .to.id = ESP_STR("s"), .type = ESP_STR("PARENT")};
    struct fixture f;
    char start[START_BYTES_MAX];
    open_fixture(&f, "graph", forest);
    assert_ok(page(&f, ESP_OP_SIBLINGS, &args, 2, ""), &f.t.err);
    assert_string_equal(f.ids, " n002 n004");
    snprintf(start, sizeof start, "%s", f.next);
    esp_arena_reset(&f.t.scratch);
    assert_ok(esp_operate(&f.t.access, ESP_OP_LINK, &link, NULL, NULL), &f.t.err);
    assert_int_equal(page(&f, ESP_OP_SIBLINGS, &args, 2, start), ESP_ERR_REFUSED);
    assert_non_null(strstr(f.t.err.message, "begin again"));
    close_fixture(&f);
    esp_forest_free(forest);
}

/* --- memory ----------------------------------------------------------------------- */

static void without_memory_a_page_fails_and_nothing_else(void **state) {
    (void)state;
    struct esp_forest *forest = drives_forest();
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct esp_args args = {.at.id = ESP_STR("D"), .lo = 0, .hi = 2};
        struct fixture f;
        enum esp_status status = ESP_ERR_NOMEM;
        char start[START_BYTES_MAX];
        open_fixture(&f, esp_layouts[i]->name, forest);
        assert_ok(page(&f, ESP_OP_WINDOW, &args, 3, ""), &f.t.err);
        snprintf(start, sizeof start, "%s", f.next);
        for (size_t n = 1; status == ESP_ERR_NOMEM; n++) {
            esp_arena_fini(&f.t.scratch);
            esp_arena_init(&f.t.scratch, &f.alloc.alloc, SIZE_MAX);
            f.alloc.calls = 0;
            f.alloc.fail_at = n;
            status = page(&f, ESP_OP_WINDOW, &args, 3, start);
            f.alloc.fail_at = 0;
            assert_true(n < 10000);
        }
        assert_ok(status, &f.t.err);
        assert_true(f.next[0]);
        close_fixture(&f);
    }
    esp_forest_free(forest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_one_query_reads_what_it_has),
        cmocka_unit_test(starts_are_good_for_their_query_only),
        cmocka_unit_test(damaged_starts_do_no_harm),
        cmocka_unit_test(nodes_come_and_go_between_pages),
        cmocka_unit_test(a_moved_node_is_asked_for_anew),
        cmocka_unit_test(a_shared_node_is_asked_for_anew),
        cmocka_unit_test(without_memory_a_page_fails_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
