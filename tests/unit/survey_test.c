/* What the survey counts, against sums made here item by item. */
#include "tests/support/drives.h"

#include "bench/survey.h"
#include <stdio.h>

static void init_layout(struct esp_layout *layout, const char *name) {
    struct esp_strings sets = {.count = 0};
    struct esp_error err = ESP_ERROR_INIT;
    const struct esp_layout_ops *ops = esp_layout_find(name);
    assert_non_null(ops);
    assert_ok(esp_layout_init(layout, ops, &sets, &err), &err);
}

struct sums {
    const struct esp_layout *layout;
    uint64_t entries[1 + ESP_INDEX_MAX], bytes[1 + ESP_INDEX_MAX], json_bytes;
};

static enum esp_status add_item(void *ctx, const struct esp_item *item) {
    struct sums *sums = ctx;
    const struct esp_schema *schema = &sums->layout->schema;
    struct esp_buf json;
    sums->entries[0]++;
    sums->bytes[0] += esp_item_size(schema, item);
    for (size_t i = 0; i < schema->index_count; i++) {
        uint32_t bytes = esp_entry_size(schema, &schema->index[i], item);
        sums->entries[i + 1] += bytes > 0;
        sums->bytes[i + 1] += bytes;
    }
    esp_buf_init(&json, &esp_alloc_libc, 1 << 20);
    ESP_BUF_LIT(&json, "{\"Item\":{");
    esp_item_put_json(&json, schema, item);
    ESP_BUF_LIT(&json, "}}\n");
    sums->json_bytes += json.len;
    esp_buf_fini(&json);
    return ESP_OK;
}

static void sums_are_those_of_the_items(void **state) {
    struct esp_forest *f = *state;
    for (size_t i = 0; esp_layouts[i]; i++) {
        struct esp_layout layout;
        struct esp_survey survey;
        struct esp_arena arena;
        struct esp_error err = ESP_ERROR_INIT;
        init_layout(&layout, esp_layouts[i]->name);
        struct sums sums = {.layout = &layout};
        esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
        assert_int_equal(layout.ops->emit(&layout, f, 0, f->count, &arena, add_item, &sums),
                         ESP_OK);
        assert_ok(esp_survey_run(f, &layout, 0, &esp_alloc_libc, NULL, &survey, &err), &err);
        uint64_t storage = 0;
        for (size_t p = 0; p <= layout.schema.index_count; p++) {
            assert_int_equal(survey.part[p].entries, sums.entries[p]);
            assert_int_equal(survey.part[p].bytes, sums.bytes[p]);
            assert_true(survey.part[p].write_units == (double)sums.entries[p]); /* all < 1 KB */
            assert_true(survey.part[p].hot.units_over == 0);
            storage += sums.bytes[p] + 100 * sums.entries[p];
        }
        assert_int_equal(survey.json_bytes, sums.json_bytes);
        assert_int_equal(esp_survey_storage_bytes(&survey), storage);
        esp_arena_fini(&arena);
    }
}

static void hot_keys_of_the_example(void **state) {
    struct esp_forest *f = *state;
    struct esp_layout layout;
    struct esp_survey survey;
    struct esp_error err = ESP_ERROR_INIT;

    init_layout(&layout, "path"); /* all folders of drive D are under one index key */
    assert_ok(esp_survey_run(f, &layout, 0, &esp_alloc_libc, NULL, &survey, &err), &err);
    assert_int_equal(survey.part[0].hot.items, 1);
    assert_string_equal(survey.part[1].hot.key, "D");
    assert_int_equal(survey.part[1].hot.items, 11);
    assert_true(survey.part[1].hot.units == 11);

    init_layout(&layout, "replica"); /* i, ii and iii have 4 items each; D has 12 below it */
    assert_ok(esp_survey_run(f, &layout, 0, &esp_alloc_libc, NULL, &survey, &err), &err);
    assert_string_equal(survey.part[0].hot.key, "iii"); /* the longest id breaks the tie */
    assert_int_equal(survey.part[0].hot.items, 4);
    assert_string_equal(survey.part[1].hot.key, "D");
    assert_int_equal(survey.part[1].hot.items, 12);

    init_layout(&layout, "adjacency"); /* D and d have three children each */
    assert_ok(esp_survey_run(f, &layout, 0, &esp_alloc_libc, NULL, &survey, &err), &err);
    assert_int_equal(survey.part[1].hot.items, 3);
}

/* One parent with 500 children, and 500 parents with one: with room for 16 counters only the
 * big one must still be found, and its count must be right within the stated error. */
static void few_counters_still_find_the_hot_key(void **state) {
    (void)state;
    enum { PAIRS = 500 };
    static char ids[3 * PAIRS + 2][12];
    static struct drives_row rows[3 * PAIRS + 1];
    size_t n = 0;
    rows[n++] = (struct drives_row){"hot", ""};
    for (int i = 0; i < PAIRS; i++) {
        snprintf(ids[3 * i], sizeof ids[0], "h%d", i);
        snprintf(ids[3 * i + 1], sizeof ids[0], "p%d", i);
        snprintf(ids[3 * i + 2], sizeof ids[0], "c%d", i);
        rows[n++] = (struct drives_row){ids[3 * i], "hot"};
        rows[n++] = (struct drives_row){ids[3 * i + 1], ""};
        rows[n++] = (struct drives_row){ids[3 * i + 2], ids[3 * i + 1]};
    }
    struct esp_forest *f = forest_of_rows(rows, n);
    struct esp_layout layout;
    struct esp_survey survey;
    struct esp_error err = ESP_ERROR_INIT;
    init_layout(&layout, "adjacency");
    assert_ok(esp_survey_run(f, &layout, 16, &esp_alloc_libc, NULL, &survey, &err), &err);
    const struct esp_hot_key *hot = &survey.part[1].hot;
    assert_string_equal(hot->key, "hot");
    assert_true(hot->units_over > 0);
    assert_true(hot->units >= PAIRS && hot->units - hot->units_over <= PAIRS);
    esp_forest_free(f);
}

static void long_keys_are_cut(void **state) {
    (void)state;
    static char id[200];
    memset(id, 'k', sizeof id - 1);
    struct drives_row row = {id, ""};
    struct esp_forest *f = forest_of_rows(&row, 1);
    struct esp_layout layout;
    struct esp_survey survey;
    struct esp_error err = ESP_ERROR_INIT;
    init_layout(&layout, "adjacency");
    assert_ok(esp_survey_run(f, &layout, 0, &esp_alloc_libc, NULL, &survey, &err), &err);
    assert_int_equal(strlen(survey.part[0].hot.key), 63);
    assert_string_equal(survey.part[0].hot.key + 60, "...");
    esp_forest_free(f);
}

static void stop_is_obeyed(void **state) {
    struct esp_layout layout;
    struct esp_survey survey;
    struct esp_error err = ESP_ERROR_INIT;
    volatile int stop = 1;
    init_layout(&layout, "path");
    assert_status(ESP_ERR_CANCELLED,
                  esp_survey_run(*state, &layout, 0, &esp_alloc_libc, &stop, &survey, &err));
}

static int make(void **state) {
    *state = drives_forest();
    return 0;
}

static int forget(void **state) {
    esp_forest_free(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_items),
        cmocka_unit_test(hot_keys_of_the_example),
        cmocka_unit_test(few_counters_still_find_the_hot_key),
        cmocka_unit_test(long_keys_are_cut),
        cmocka_unit_test(stop_is_obeyed),
    };
    return cmocka_run_group_tests(tests, make, forget);
}
