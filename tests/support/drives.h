#ifndef ESP_TESTS_DRIVES_H
#define ESP_TESTS_DRIVES_H
/* The example of the first seed document (two drives, 15 folders) as a forest, and other
 * small ones given as rows. */
#include "tests/support/support.h"

#include "tree/forest.h"

struct drives_row {
    const char *id, *parent; /* parent "" = root */
};

/* The payload of each row is `"name":{"S":"12345678"}`: 4 + 8 = 12 bytes. */
static inline struct esp_forest *forest_of_rows(const struct drives_row *rows, size_t count) {
    static const char data[] = "\"name\":{\"S\":\"12345678\"}";
    struct esp_forest_options options = {.source = "rows"};
    struct esp_forest_builder *builder = NULL;
    struct esp_forest *forest = NULL;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (size_t i = 0; i < count; i++) {
        struct esp_record record = {.id = esp_str_from(rows[i].id),
                                    .parent_id = esp_str_from(rows[i].parent),
                                    .data = {data, sizeof data - 1, 12},
                                    .line = i + 1};
        assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
    }
    assert_ok(esp_forest_freeze(builder, &forest, &err), &err);
    return forest;
}

static inline struct esp_forest *drives_forest(void) {
    static const struct drives_row rows[] = {
        {"C", ""},    {"I", "C"},   {"II", "C"}, {"D", ""},    {"III", "D"},
        {"a", "III"}, {"b", "III"}, {"IV", "D"}, {"c", "IV"},  {"V", "D"},
        {"d", "V"},   {"i", "d"},   {"ii", "d"}, {"iii", "d"}, {"e", "V"},
    };
    return forest_of_rows(rows, sizeof rows / sizeof rows[0]);
}

#endif
