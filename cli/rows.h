#ifndef ESP_CLI_ROWS_H
#define ESP_CLI_ROWS_H
/*
 * Items as rows of cells: what the csv and table formats of `convert` print.  The columns are the
 * layout's attributes, then every payload attribute in order of first occurrence.
 */
#include "converters/layout.h"

enum { ESP_ROW_COLUMNS_MAX = 1024 };

struct esp_rows {
    const struct esp_schema *schema;
    const struct esp_alloc *alloc;
    struct esp_arena names;
    struct esp_str column[ESP_ROW_COLUMNS_MAX]; /* of the payload */
    uint32_t count;
};

/* Collects the names in one pass over the forest.  ERR_LIMIT above ESP_ROW_COLUMNS_MAX.
 * esp_rows_fini also after a failure. */
enum esp_status esp_rows_init(struct esp_rows *rows, const struct esp_schema *schema,
                              const struct esp_forest *forest, const struct esp_alloc *alloc,
                              struct esp_error *err) ESP_MUST_CHECK;
void esp_rows_fini(struct esp_rows *rows);

static inline size_t esp_rows_width(const struct esp_rows *rows) {
    return rows->schema->attr_count + rows->count;
}
struct esp_str esp_rows_name(const struct esp_rows *rows, size_t column);
/* Append a cell as text: S as it is, N as digits, anything else as plain JSON; nothing when the
 * item lacks it.  `scratch` may be reset afterwards. */
void esp_rows_put_cell(const struct esp_rows *rows, const struct esp_item *item, size_t column,
                       struct esp_arena *scratch, struct esp_buf *out);
/* Append a cell as CSV: in quotes where it must be. */
void esp_csv_put_cell(struct esp_buf *out, struct esp_str cell);

#endif
