#ifndef ESP_BENCH_TEXT_H
#define ESP_BENCH_TEXT_H
/* Numbers for people, and grids of cells that print as aligned text or as Markdown. */
#include "core/mem.h"

enum { ESP_TEXT_MAX = 48 };

/* Each writes a NUL-terminated text and returns `out`. */
const char *esp_text_count(char out[ESP_TEXT_MAX], uint64_t n);     /* "27,813" */
const char *esp_text_bytes(char out[ESP_TEXT_MAX], double bytes);   /* "312 KB" of 1024 */
const char *esp_text_figure(char out[ESP_TEXT_MAX], double value);  /* "0.5", "12.3", "1,234" */
const char *esp_text_usd(char out[ESP_TEXT_MAX], double usd);       /* "$0.0067", "$12.40" */
const char *esp_text_seconds(char out[ESP_TEXT_MAX], double s);     /* "0.03 s", "4 min", "5.6 h" */
const char *esp_text_percent(char out[ESP_TEXT_MAX], double share); /* 0.073: "7.3 %" */

struct esp_cell {
    char text[80]; /* longer texts are cut; UTF-8 */
    bool best;     /* the cheapest of its row */
};

/* Cells in reading order; the first row is the heading. */
struct esp_grid {
    size_t columns, left; /* the first `left` columns are aligned left, the others right */
    struct esp_buf cells; /* struct esp_cell */
};
void esp_grid_init(struct esp_grid *grid, const struct esp_alloc *alloc, size_t columns,
                   size_t left);
void esp_grid_fini(struct esp_grid *grid);
void esp_grid_add(struct esp_grid *grid, bool best, const char *fmt, ...) ESP_PRINTF(3, 4);
/* Aligned columns; a '*' stands behind the best ones. */
void esp_grid_put_text(const struct esp_grid *grid, struct esp_buf *out);
/* A table; the best ones are bold. */
void esp_grid_put_markdown(const struct esp_grid *grid, struct esp_buf *out);

#endif
