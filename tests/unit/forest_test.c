/* Records in any order -> forest, against a naive reference; every way a tree can be wrong. */
#include "core/rng.h"
#include "tests/support/alloc.h"
#include "tests/support/support.h"
#include "tree/forest.h"

#include <stdio.h>
#include <stdlib.h>

struct row {
    const char *id, *parent;
};

static enum esp_status build(const struct esp_alloc *alloc, const struct row *rows, size_t n,
                             struct esp_forest **out, struct esp_error *err) {
    struct esp_forest_options options = {.source = "rows.csv"};
    struct esp_forest_builder *builder;
    enum esp_status status = esp_forest_builder_new(alloc, &options, &builder, err);
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        struct esp_record record = {.id = esp_str_from(rows[i].id),
                                    .parent_id = esp_str_from(rows[i].parent),
                                    .data = {"\"a\":{\"S\":\"b\"}", 13, 2},
                                    .line = i + 2};
        status = esp_forest_builder_add(builder, &record, err);
        if (status != ESP_OK) {
            esp_forest_builder_free(builder);
            return status;
        }
    }
    return status == ESP_OK ? esp_forest_freeze(builder, out, err) : status;
}

static void small_forest_is_numbered_in_pre_order(void **state) {
    (void)state;
    static const struct row rows[] = {{"e", "b"}, {"x", ""},  {"b", "a"}, {"c", "a"},
                                      {"a", ""},  {"d", "b"}, {"y", "x"}};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *f;
    assert_ok(build(&esp_alloc_libc, rows, 7, &f, &err), &err);
    static const char *const order[] = {"x", "y", "a", "b", "e", "d", "c"};
    static const uint32_t size[] = {2, 1, 5, 3, 1, 1, 1}, depth[] = {0, 1, 0, 1, 2, 2, 1};
    for (esp_node v = 0; v < 7; v++) {
        assert_true(esp_str_eq(esp_forest_id(f, v), esp_str_from(order[v])));
        assert_int_equal(f->size[v], size[v]);
        assert_int_equal(f->depth[v], depth[v]);
    }
    assert_int_equal(f->root_count, 2);
    assert_int_equal(f->depth_max, 2);
    assert_int_equal(f->id_bytes, 7);
    assert_int_equal(f->data_bytes, 14);
    assert_int_equal(esp_forest_line(f, 4), 2);
    assert_int_equal(esp_forest_next_sibling(f, 3), 6);
    assert_int_equal(esp_forest_next_sibling(f, 0), 2);
    assert_int_equal(esp_forest_next_sibling(f, 2), ESP_NODE_NONE);
    assert_int_equal(esp_forest_root(f, 5), 2);
    assert_true(esp_forest_is_below(f, 4, 2));
    assert_false(esp_forest_is_below(f, 2, 2));
    struct esp_forest_ids *ids;
    assert_ok(esp_forest_ids_new(f, &esp_alloc_libc, &ids, &err), &err);
    for (esp_node v = 0; v < 7; v++) {
        assert_int_equal(esp_forest_find(ids, esp_forest_id(f, v)), v);
    }
    assert_int_equal(esp_forest_find(ids, ESP_STR("nobody")), ESP_NODE_NONE);
    esp_forest_ids_free(ids);
    esp_forest_free(f);
}

static void expect_failure(const struct row *rows, size_t n, enum esp_status status, uint64_t line,
                           const char *sentence) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *f = NULL;
    assert_int_equal(build(&esp_alloc_libc, rows, n, &f, &err), status);
    assert_string_equal(err.message, sentence);
    assert_string_equal(err.source, "rows.csv");
    assert_int_equal(err.line, line);
}

static void wrong_trees_are_named(void **state) {
    (void)state;
    static const struct row orphan[] = {{"a", ""}, {"b", "z"}, {"c", "y"}, {"d", "z"}};
    expect_failure(orphan, 4, ESP_ERR_ORPHAN, 3,
                   "the parent 'z' of 'b' is not in the input; 2 more rows name a missing parent");
    static const struct row twice[] = {{"a", ""}, {"b", "a"}, {"a", "b"}};
    expect_failure(twice, 3, ESP_ERR_DUPLICATE, 4,
                   "the id 'a' occurs a second time: it is on line 2 already; ids must be unique: "
                   "only --layout graph takes a node with several parents");
    static const struct row self[] = {{"a", ""}, {"b", "b"}};
    expect_failure(self, 2, ESP_ERR_CYCLE, 3, "'b' is its own parent");
    static const struct row cycle[] = {{"r", ""},  {"t", "c"}, {"c", "b"},
                                       {"b", "a"}, {"a", "c"}, {"u", "t"}};
    expect_failure(cycle, 6, ESP_ERR_CYCLE, 4,
                   "a cycle of 3 nodes, each the child of the next: c -> b -> a -> c");
    expect_failure(NULL, 0, ESP_ERR_INPUT, 0, "the input holds no rows");
    static const struct row no_id[] = {{"", ""}};
    expect_failure(no_id, 1, ESP_ERR_INPUT, 2, "the id is empty");
}

static void long_cycle_names_what_fits(void **state) {
    (void)state;
    enum { N = 5000 };
    static char ids[N][24];
    static struct row rows[N];
    for (int i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "some-long-id-%d", i);
        rows[i] = (struct row){ids[i], ids[(i + 1) % N]};
        if (i) {
            rows[i - 1].parent = ids[i];
        }
    }
    rows[N - 1].parent = ids[0];
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *f;
    assert_int_equal(build(&esp_alloc_libc, rows, N, &f, &err), ESP_ERR_CYCLE);
    assert_non_null(strstr(err.message, "a cycle of 5000 nodes"));
    assert_non_null(strstr(err.message, "more -> some-long-id-0"));
    const char *end = err.message + strlen(err.message);
    assert_string_equal(end - strlen(" more -> some-long-id-0"), " more -> some-long-id-0");
}

static int atoi_id(struct esp_str id) {
    return (int)strtol(id.ptr + 1, NULL, 10); /* stops at the data that follows */
}

/* Parents of a random forest; the reference walks up for everything. */
static void random_forests_match_a_walk(void **state) {
    (void)state;
    enum { N_MAX = 300 };
    static char ids[N_MAX][12];
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct esp_rng rng;
        esp_rng_init(&rng, seed, 0);
        uint32_t n = 1 + (uint32_t)esp_rng_below(&rng, N_MAX), order[N_MAX];
        int parent[N_MAX];
        struct row rows[N_MAX];
        for (uint32_t i = 0; i < n; i++) {
            snprintf(ids[i], sizeof ids[i], "n%u", i);
            parent[i] = i && esp_rng_below(&rng, 20) ? (int)esp_rng_below(&rng, i) : -1;
            order[i] = i;
        }
        esp_rng_shuffle_u32(&rng, order, n);
        for (uint32_t i = 0; i < n; i++) {
            rows[i] =
                (struct row){ids[order[i]], parent[order[i]] < 0 ? "" : ids[parent[order[i]]]};
        }
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_forest *f;
        assert_ok(build(&esp_alloc_libc, rows, n, &f, &err), &err);
        assert_int_equal(f->count, n);
        for (esp_node v = 0; v < n; v++) {
            int i = atoi_id(esp_forest_id(f, v)), up = parent[i];
            uint32_t depth = 0, below = 0;
            for (int k = i; parent[k] >= 0; k = parent[k]) {
                depth++;
            }
            for (uint32_t k = 0; k < n; k++) {
                for (int a = (int)k; a >= 0; a = parent[a]) {
                    below += a == i;
                }
            }
            assert_int_equal(f->depth[v], depth);
            assert_int_equal(f->size[v], below);
            if (up < 0) {
                assert_int_equal(f->parent[v], ESP_NODE_NONE);
            } else {
                assert_int_equal(atoi_id(esp_forest_id(f, f->parent[v])), up);
                assert_true(esp_forest_is_below(f, v, f->parent[v]));
            }
            esp_node next = esp_forest_next_sibling(f, v);
            if (next != ESP_NODE_NONE) { /* siblings in the order of their rows */
                assert_int_equal(f->parent[next], f->parent[v]);
                assert_true(esp_forest_line(f, next) > esp_forest_line(f, v));
            }
        }
        esp_forest_free(f);
    }
}

static void deep_and_wide_trees_work(void **state) {
    (void)state;
    enum { N = 1000000 };
    for (int star = 0; star < 2; star++) {
        struct esp_forest_options options = {.source = "big"};
        struct esp_forest_builder *builder;
        struct esp_forest *f;
        struct esp_error err = ESP_ERROR_INIT;
        assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
        for (int i = N; i-- > 0;) { /* children before their parents */
            char id[16], parent[16] = "";
            snprintf(id, sizeof id, "%d", i);
            if (i) {
                snprintf(parent, sizeof parent, "%d", star ? 0 : i - 1);
            }
            struct esp_record record = {.id = esp_str_from(id), .parent_id = esp_str_from(parent)};
            assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
        }
        assert_ok(esp_forest_freeze(builder, &f, &err), &err);
        assert_int_equal(f->count, N);
        assert_int_equal(f->depth_max, star ? 1 : N - 1);
        assert_int_equal(f->size[0], N);
        esp_forest_free(f);
    }
}

static enum esp_status build_some(const struct esp_alloc *alloc) {
    static char ids[700][8];
    static struct row rows[700];
    for (int i = 0; i < 700; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        rows[699 - i] = (struct row){ids[i], i ? ids[i / 3] : ""};
    }
    rows[699].parent = "";
    struct esp_forest *f;
    struct esp_forest_ids *ids_table;
    enum esp_status status = build(alloc, rows, 700, &f, NULL);
    if (status == ESP_OK) {
        status = esp_forest_ids_new(f, alloc, &ids_table, NULL);
        if (status == ESP_OK) {
            esp_forest_ids_free(ids_table);
        }
        esp_forest_free(f);
    }
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct esp_test_alloc a;
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        enum esp_status status = build_some(&a.alloc);
        assert_true(status == ESP_OK || status == ESP_ERR_NOMEM);
        if (esp_test_alloc_done(&a)) {
            break;
        }
    }
}

/* Rows straight into a builder; freed when one is refused. */
static enum esp_status build_records(const struct esp_forest_options *options,
                                     const struct esp_record *records, size_t n,
                                     struct esp_forest **out, struct esp_error *err) {
    struct esp_forest_builder *builder;
    enum esp_status status = esp_forest_builder_new(&esp_alloc_libc, options, &builder, err);
    assert_int_equal(status, ESP_OK);
    for (size_t i = 0; i < n; i++) {
        status = esp_forest_builder_add(builder, &records[i], err);
        if (status != ESP_OK) {
            esp_forest_builder_free(builder);
            return status;
        }
    }
    return esp_forest_freeze(builder, out, err);
}

static void text_and_lines_are_kept(void **state) {
    (void)state;
    static const char a[] = "\"name\":{\"S\":\"A\"}", b[] = "\"pop\":{\"N\":\"5\"}";
    const struct esp_record records[] = {{.id = ESP_STR("child"),
                                          .parent_id = ESP_STR("top"),
                                          .data = {b, sizeof b - 1, 5},
                                          .line = UINT64_MAX},
                                         {.id = {"nul\0id", 6}, .parent_id = ESP_STR("top")},
                                         {.id = ESP_STR("top"),
                                          .parent_id = ESP_STR("top"),
                                          .data = {a, sizeof a - 1, 5},
                                          .line = 4}};
    struct esp_forest_options options = {.own_id_is_root = true};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *f;
    assert_ok(build_records(&options, records, 3, &f, &err), &err);
    static const int order[] = {2, 0, 1};
    for (esp_node v = 0; v < 3; v++) {
        const struct esp_record *r = &records[order[v]];
        struct esp_data data = esp_forest_data(f, v);
        assert_true(esp_str_eq(esp_forest_id(f, v), r->id));
        assert_true(esp_str_eq((struct esp_str){data.text, data.len},
                               (struct esp_str){r->data.text, r->data.len}));
        assert_int_equal(data.size, r->data.size);
    }
    assert_int_equal(esp_forest_line(f, 0), 4);
    assert_int_equal(esp_forest_line(f, 1), UINT32_MAX); /* as far as it goes */
    assert_int_equal(esp_forest_line(f, 2), 0);
    assert_int_equal(f->data_bytes, 10);
    assert_int_equal(f->id_bytes, 3 + 5 + 6);
    esp_forest_free(f);
}

static void long_ids_are_refused_or_cut_in_messages(void **state) {
    (void)state;
    static char text[ESP_ID_BYTES_MAX + 1];
    memset(text, 'x', sizeof text);
    struct esp_str longest = {text, ESP_ID_BYTES_MAX}, too_long = {text, ESP_ID_BYTES_MAX + 1};
    struct esp_forest_options options = {.source = "rows.csv"};
    struct esp_forest *f;
    struct esp_record records[] = {{.id = longest, .line = 2},
                                   {.id = ESP_STR("a"), .parent_id = longest, .line = 3}};
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(build_records(&options, records, 2, &f, &err), &err);
    assert_int_equal(f->depth_max, 1);
    esp_forest_free(f);
    records[1].parent_id = too_long;
    assert_status(ESP_ERR_LIMIT, build_records(&options, records, 2, &f, &err));
    assert_string_equal(err.message, "an id of 2049 bytes: DynamoDB takes 2048 at most");
    assert_string_equal(err.source, "rows.csv");
    assert_int_equal(err.line, 3);
    records[1] = (struct esp_record){.id = longest, .line = 3};
    esp_error_clear(&err);
    assert_status(ESP_ERR_DUPLICATE, build_records(&options, records, 2, &f, &err));
    assert_non_null(strstr(err.message, "x' occurs a second time: it is on line 2 already"));
    text[0] = 'y'; /* the parent is another id now */
    records[0] = (struct esp_record){.id = ESP_STR("b"), .parent_id = longest, .line = 2};
    esp_error_clear(&err);
    assert_status(ESP_ERR_ORPHAN, build_records(&options, records, 1, &f, &err));
    assert_non_null(strstr(err.message, "x' of 'b' is not in the input"));
}

static void a_forest_knows_what_layouts_ask(void **state) {
    (void)state;
    struct esp_str name = ESP_STR("a"), many[] = {ESP_STR("b"), ESP_STR("c")};
    struct esp_data data = {"\"a\":{\"S\":\"xy\"}", 14, 3};
    struct esp_record records[] = {
        {.id = ESP_STR("r"), .names_known = true, .new_names = &name, .new_name_count = 1},
        {.id = ESP_STR("s/\xff"), .parent_id = ESP_STR("r"), .data = data, .names_known = true},
        {.id = ESP_STR("t"), .names_known = true, .new_names = many, .new_name_count = 2}};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *f;
    assert_ok(build_records(NULL, records, 3, &f, &err), &err);
    assert_int_equal(f->id_len_max, 3);
    assert_int_equal(f->data_size_max, 3);
    for (int c = 0; c < 256; c++) {
        assert_int_equal(f->id_has[c], c == 'r' || c == 's' || c == '/' || c == 0xff || c == 't');
    }
    assert_true(esp_forest_may_have(f, name));
    assert_true(esp_forest_may_have(f, many[0]));
    assert_true(esp_forest_may_have(f, many[1]));
    assert_false(esp_forest_may_have(f, ESP_STR("d")));
    esp_forest_free(f);
    records[1].names_known = false; /* then it may have any */
    assert_ok(build_records(NULL, records, 3, &f, &err), &err);
    assert_true(esp_forest_may_have(f, ESP_STR("d")));
    esp_forest_free(f);
    records[1].data.len = 0; /* no data, no names */
    assert_ok(build_records(NULL, records, 3, &f, &err), &err);
    assert_false(esp_forest_may_have(f, ESP_STR("d")));
    esp_forest_free(f);
    name = (struct esp_str){calloc(1, 5 << 20), 5 << 20}; /* more than is kept */
    assert_ok(build_records(NULL, records, 3, &f, &err), &err);
    assert_true(esp_forest_may_have(f, ESP_STR("d")));
    esp_forest_free(f);
    free((void *)(uintptr_t)name.ptr);
}

static void memory_limit_is_an_error(void **state) {
    (void)state;
    struct esp_forest_options options = {.source = "rows.csv", .memory_limit = 1 << 20};
    struct esp_forest_builder *builder;
    struct esp_error err = ESP_ERROR_INIT;
    enum esp_status status = ESP_OK;
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (int i = 0; i < 100000 && status == ESP_OK; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        struct esp_record record = {.id = esp_str_from(id)};
        status = esp_forest_builder_add(builder, &record, &err);
    }
    assert_int_equal(status, ESP_ERR_LIMIT);
    assert_non_null(strstr(err.message, "memory limit of 1 MiB"));
    assert_string_equal(err.source, "rows.csv");
    esp_forest_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_forest_is_numbered_in_pre_order),
        cmocka_unit_test(wrong_trees_are_named),
        cmocka_unit_test(long_cycle_names_what_fits),
        cmocka_unit_test(random_forests_match_a_walk),
        cmocka_unit_test(deep_and_wide_trees_work),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(text_and_lines_are_kept),
        cmocka_unit_test(long_ids_are_refused_or_cut_in_messages),
        cmocka_unit_test(a_forest_knows_what_layouts_ask),
        cmocka_unit_test(memory_limit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
