#include "tests/golden/golden_lines.h"

#include "importers/importer.h"

#include <stdio.h>
#include <stdlib.h>

struct esp_forest *golden_import(const char *path) {
    struct esp_source_options options = {.from = NULL};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_forest *forest;
    assert_ok(esp_import_files(&path, 1, &options, &esp_alloc_libc, &forest, NULL, NULL, &err),
              &err);
    return forest;
}

void golden_layout(struct esp_layout *layout, const char *name, const char *const *sets,
                   size_t count) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_strings list = {.count = count};
    for (size_t i = 0; i < count; i++) {
        list.value[i] = sets[i];
    }
    assert_ok(esp_layout_init(layout, esp_layout_find(name), &list, &err), &err);
}

void golden_add(struct golden_lines *lines, struct esp_buf *text) {
    assert_true(lines->count < sizeof lines->line / sizeof lines->line[0]);
    lines->line[lines->count] = strdup(esp_buf_cstr(text));
    assert_non_null(lines->line[lines->count++]);
}

enum esp_status golden_add_item(void *ctx, const struct esp_item *item) {
    struct golden_lines *lines = ctx;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 16);
    esp_buf_put_char(&text, '{');
    esp_item_put_json(&text, lines->schema, item);
    esp_buf_put_char(&text, '}');
    golden_add(lines, &text);
    esp_buf_fini(&text);
    return ESP_OK;
}

int golden_by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void golden_compare(struct golden_lines *lines, const char *path) {
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 20);
    for (size_t i = 0; i < lines->count; i++) {
        esp_buf_printf(&text, "%s\n", lines->line[i]);
        free(lines->line[i]);
    }
    assert_false(text.failed);
    if (getenv("ESP_GOLDEN_REWRITE")) {
        esp_test_write_file(path, text.ptr, text.len);
    }
    char *golden = esp_test_read_file(path, NULL);
    assert_string_equal(golden, esp_buf_cstr(&text));
    free(golden);
    esp_buf_fini(&text);
}
