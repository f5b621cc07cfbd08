#ifndef ESP_TESTS_GOLDEN_LINES_H
#define ESP_TESTS_GOLDEN_LINES_H
/* What golden tests share: sources, and lines of text that are compared with a file.
 * ESP_GOLDEN_REWRITE=1 writes the files anew; the difference is then for review. */
#include "tests/conformance/suite.h"

/* A source, recognised as the command line does.  Free it with esp_forest_free. */
struct esp_forest *golden_import(const char *path);
/* A layout with `count` settings (NULL: the defaults). */
void golden_layout(struct esp_layout *layout, const char *name, const char *const *sets,
                   size_t count);

/* Lines, owned until they are compared. */
struct golden_lines {
    const struct esp_schema *schema; /* of items */
    char *line[1024];
    size_t count;
};
void golden_add(struct golden_lines *lines, struct esp_buf *text);
/* An item as DynamoDB JSON; an esp_item_fn. */
enum esp_status golden_add_item(void *lines, const struct esp_item *item);
int golden_by_text(const void *a, const void *b); /* for qsort of lines */
/* Fails the test when the file holds other lines; the lines are freed. */
void golden_compare(struct golden_lines *lines, const char *path);

#endif
