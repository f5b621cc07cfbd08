/* Links of a forest: further parents from rows, edges added by id, cycles over both. */
#include "tests/support/alloc.h"
#include "tests/support/support.h"
#include "tree/forest.h"

struct row {
    const char *id, *parent, *data; /* data "" = none */
};

static enum esp_status build(const struct esp_alloc *alloc, const struct row *rows, size_t n,
                             bool several, struct esp_forest **out, struct esp_error *err) {
    struct esp_forest_options options = {.source = "rows.csv", .several_parents = several};
    struct esp_forest_builder *builder;
    enum esp_status status = esp_forest_builder_new(alloc, &options, &builder, err);
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        uint32_t len = (uint32_t)strlen(rows[i].data);
        struct esp_record record = {.id = esp_str_from(rows[i].id),
                                    .parent_id = esp_str_from(rows[i].parent),
                                    .data = {rows[i].data, len, len},
                                    .line = i + 2};
        status = esp_forest_builder_add(builder, &record, err);
        if (status != ESP_OK) {
            esp_forest_builder_free(builder);
            return status;
        }
    }
    return status == ESP_OK ? esp_forest_freeze(builder, out, err) : status;
}

static bool is_node(const struct esp_forest *f, esp_node v, const char *id) {
    return esp_str_eq(esp_forest_id(f, v), esp_str_from(id));
}

/* c is below a, b and d; rows for further parents come before the parents do. */
static const struct row shared[] = {
    {"c", "a", "\"n\":{\"N\":\"1\"}"}, {"c", "b", ""}, {"a", "", ""},
    {"c", "d", "\"n\":{\"N\":\"1\"}"}, {"b", "", ""},  {"d", "b", ""}};

static void further_rows_become_links(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *f;
    assert_ok(build(&esp_alloc_libc, shared, 6, true, &f, &err), &err);
    assert_int_equal(f->count, 4);
    assert_int_equal(f->id_bytes, 4);
    assert_int_equal(f->data_bytes, 13);
    assert_int_equal(f->link_count, 2);
    assert_true(is_node(f, f->link[0].child, "c") && is_node(f, f->link[1].child, "c"));
    assert_true(is_node(f, f->link[0].parent, "b") && is_node(f, f->link[1].parent, "d"));
    assert_int_equal(f->link[0].line, 3);
    assert_int_equal(f->link[1].line, 5);
    uint32_t first;
    assert_int_equal(esp_forest_links_from(f, f->link[0].child, &first), 2);
    assert_int_equal(first, 0);
    assert_int_equal(esp_forest_links_from(f, f->link[0].parent, &first), 0);
    assert_int_equal(esp_forest_links_to(f, f->link[0].parent, &first), 1);
    assert_int_equal(f->link_in[first], 0);
    assert_int_equal(esp_forest_links_to(f, f->link[0].child, &first), 0);
    esp_forest_free(f);
}

static void wrong_rows_are_named(void **state) {
    (void)state;
    static const struct {
        struct row rows[4];
        size_t n;
        bool several;
        enum esp_status status;
        uint64_t line;
        const char *part;
    } cases[] = {
        {{{"a", "", ""}, {"b", "", ""}, {"c", "a", ""}, {"c", "b", ""}},
         4,
         false,
         ESP_ERR_DUPLICATE,
         5,
         "'c' occurs a second time: it is on line 4 already; ids must be unique: only --layout "
         "graph takes a node with several parents"},
        {{{"a", "", ""}, {"b", "", ""}, {"c", "a", "\"n\":{\"N\":\"1\"}"}, {"c", "b", "x"}},
         4,
         true,
         ESP_ERR_DUPLICATE,
         5,
         "'c' occurs a second time with other attributes: it is on line 4 already"},
        {{{"a", "", ""}, {"c", "a", ""}, {"c", "a", ""}},
         3,
         true,
         ESP_ERR_DUPLICATE,
         4,
         "'c' occurs a second time below 'a': it is on line 3 already"},
        {{{"a", "", ""}, {"c", "a", ""}, {"c", "", ""}},
         3,
         true,
         ESP_ERR_DUPLICATE,
         4,
         "'c' occurs a second time: it is on line 3 already"},
        {{{"a", "", ""}, {"c", "a", ""}, {"c", "z", ""}},
         3,
         true,
         ESP_ERR_ORPHAN,
         4,
         "the parent 'z' of 'c' is not in the input"},
        {{{"a", "", ""}, {"b", "a", ""}, {"c", "b", ""}, {"b", "c", ""}},
         4,
         true,
         ESP_ERR_CYCLE,
         5,
         "a cycle of 2 nodes, each the child of the next: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_forest *f = NULL;
        assert_int_equal(
            build(&esp_alloc_libc, cases[i].rows, cases[i].n, cases[i].several, &f, &err),
            cases[i].status);
        if (!strstr(err.message, cases[i].part)) {
            fail_msg("case %zu: %s", i, err.message);
        }
        assert_int_equal(err.line, cases[i].line);
        assert_string_equal(err.source, "rows.csv");
    }
}

static struct esp_link_row edge(const char *child, const char *parent, const char *type,
                                const char *weight) {
    return (struct esp_link_row){.child = esp_str_from(child),
                                 .parent = esp_str_from(parent),
                                 .type = esp_str_from(type),
                                 .weight = esp_str_from(weight),
                                 .line = 7};
}

static void edges_are_added_by_id(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *f;
    assert_ok(build(&esp_alloc_libc, shared, 6, true, &f, &err), &err);
    struct esp_link_row rows[] = {edge("d", "c", "LIKES", "500-A"), edge("c", "d", "LIKES", "")};
    assert_ok(esp_forest_add_links(f, rows, 2, "edges.csv", &err), &err);
    assert_int_equal(f->link_count, 4);
    assert_int_equal(f->link_type_count, 2); /* further parents, LIKES */
    assert_true(esp_forest_has_link_type(f, (struct esp_str){NULL, 0}));
    assert_true(esp_forest_has_link_type(f, ESP_STR("LIKES")));
    assert_false(esp_forest_has_link_type(f, ESP_STR("LIKE")));
    assert_false(esp_forest_has_link_type(f, ESP_STR("MORE")));
    uint32_t first;
    esp_node c = f->link[0].child;
    assert_true(is_node(f, c, "c"));
    assert_int_equal(esp_forest_links_from(f, c, &first), 3);
    assert_true(esp_str_eq(f->link[first + 2].type, ESP_STR("LIKES")));
    assert_int_equal(esp_forest_links_to(f, c, &first), 1);
    assert_true(esp_str_eq(f->link[f->link_in[first]].weight, ESP_STR("500-A")));
    /* LIKES leads round in a circle, which is no matter unless it means parents */
    assert_ok(esp_forest_check_links(f, ESP_STR("OTHER"), &err), &err);
    assert_int_equal(esp_forest_check_links(f, ESP_STR("LIKES"), &err), ESP_ERR_CYCLE);
    assert_non_null(strstr(err.message, "a cycle of 2 nodes"));
    esp_error_clear(&err);
    static const struct {
        const char *child, *parent, *type;
        enum esp_status status;
    } wrong[] = {
        {"c", "nobody", "LIKES", ESP_ERR_ORPHAN},
        {"nobody", "c", "LIKES", ESP_ERR_ORPHAN},
        {"c", "d", "LIKES", ESP_ERR_DUPLICATE},
        {"c", "a", "", ESP_ERR_DUPLICATE},
        {"b", "c", "", ESP_ERR_CYCLE},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct esp_link_row row = edge(wrong[i].child, wrong[i].parent, wrong[i].type, "");
        assert_int_equal(esp_forest_add_links(f, &row, 1, "edges.csv", &err), wrong[i].status);
        assert_string_equal(err.source, "edges.csv");
        assert_int_equal(err.line, 7);
        assert_int_equal(f->link_count, 4);
        esp_error_clear(&err);
    }
    esp_forest_free(f);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct esp_link_row row = edge("d", "c", "LIKES", "500-A");
    enum esp_status status = ESP_ERR_NOMEM;
    for (size_t n = 1; status == ESP_ERR_NOMEM; n++) {
        struct esp_test_alloc alloc;
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_forest *f = NULL;
        esp_test_alloc_init(&alloc, n);
        status = build(&alloc.alloc, shared, 6, true, &f, &err);
        if (status == ESP_OK) {
            status = esp_forest_add_links(f, &row, 1, NULL, &err);
            esp_forest_free(f);
        }
        assert_true(status == ESP_OK || err.status == ESP_ERR_NOMEM);
        esp_test_alloc_done(&alloc);
    }
    assert_int_equal(status, ESP_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(further_rows_become_links),
        cmocka_unit_test(wrong_rows_are_named),
        cmocka_unit_test(edges_are_added_by_id),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
