#include "bench/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { GRID_BYTES_MAX = 4 << 20 };

const char *esp_text_count(char out[ESP_TEXT_MAX], uint64_t n) {
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            out[used++] = ',';
        }
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

const char *esp_text_figure(char out[ESP_TEXT_MAX], double value) {
    if (value > 0 && value < 0.01) {
        return memcpy(out, "<0.01", 6);
    }
    if (value >= 99.95) {
        return esp_text_count(out, (uint64_t)(value + 0.5));
    }
    bool one = value >= 9.995 || value == floor(value * 10) / 10;
    snprintf(out, ESP_TEXT_MAX, one ? "%.1f" : "%.2f", value);
    size_t len = strlen(out);
    if (len > 2 && strcmp(out + len - 2, ".0") == 0) {
        out[len - 2] = '\0';
    }
    return out;
}

const char *esp_text_bytes(char out[ESP_TEXT_MAX], double bytes) {
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB"};
    size_t u = 0;
    while (bytes >= 1024 && u + 1 < sizeof unit / sizeof unit[0]) {
        bytes /= 1024;
        u++;
    }
    char number[ESP_TEXT_MAX];
    snprintf(out, ESP_TEXT_MAX, "%.20s %s", esp_text_figure(number, bytes), unit[u]);
    return out;
}

/* At least two significant digits, so that cents of a cent do not vanish. */
const char *esp_text_usd(char out[ESP_TEXT_MAX], double usd) {
    if (usd >= 1000) {
        char number[ESP_TEXT_MAX];
        snprintf(out, ESP_TEXT_MAX, "$%.40s", esp_text_count(number, (uint64_t)(usd + 0.5)));
        return out;
    }
    int decimals = 2;
    if (usd > 0 && usd < 1) {
        decimals = 1 - (int)floor(log10(usd));
        decimals = decimals > 9 ? 9 : decimals;
    }
    snprintf(out, ESP_TEXT_MAX, "$%.*f", decimals, usd);
    return out;
}

const char *esp_text_seconds(char out[ESP_TEXT_MAX], double s) {
    char number[ESP_TEXT_MAX];
    const char *unit = "s";
    if (s >= 2 * 3600) {
        s /= 3600;
        unit = "h";
    } else if (s >= 120) {
        s /= 60;
        unit = "min";
    }
    snprintf(out, ESP_TEXT_MAX, "%.30s %s", esp_text_figure(number, s), unit);
    return out;
}

const char *esp_text_percent(char out[ESP_TEXT_MAX], double share) {
    char number[ESP_TEXT_MAX];
    snprintf(out, ESP_TEXT_MAX, "%.30s %%", esp_text_figure(number, share * 100));
    return out;
}

void esp_grid_init(struct esp_grid *grid, const struct esp_alloc *alloc, size_t columns,
                   size_t left) {
    grid->columns = columns;
    grid->left = left;
    esp_buf_init(&grid->cells, alloc, GRID_BYTES_MAX);
}

void esp_grid_fini(struct esp_grid *grid) {
    esp_buf_fini(&grid->cells);
}

void esp_grid_add(struct esp_grid *grid, bool best, const char *fmt, ...) {
    struct esp_cell cell = {.best = best};
    va_list args;
    va_start(args, fmt);
    vsnprintf(cell.text, sizeof cell.text, fmt, args);
    va_end(args);
    esp_buf_put(&grid->cells, &cell, sizeof cell);
}

static const struct esp_cell *cell_at(const struct esp_grid *grid, size_t i) {
    return (const struct esp_cell *)(const void *)grid->cells.ptr + i;
}

static size_t cell_count(const struct esp_grid *grid) {
    return grid->cells.len / sizeof(struct esp_cell);
}

/* Columns on the screen: bytes that do not continue a UTF-8 character. */
static size_t text_width(const char *text) {
    size_t width = 0;
    for (; *text; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

static void put_spaces(struct esp_buf *out, size_t n) {
    for (; n > 0; n--) {
        esp_buf_put_char(out, ' ');
    }
}

static size_t column_width(const struct esp_grid *grid, size_t column) {
    size_t width = 0;
    for (size_t i = column; i < cell_count(grid); i += grid->columns) {
        size_t w = text_width(cell_at(grid, i)->text);
        width = w > width ? w : width;
    }
    return width;
}

static bool has_best(const struct esp_grid *grid) {
    for (size_t i = 0; i < cell_count(grid); i++) {
        if (cell_at(grid, i)->best) {
            return true;
        }
    }
    return false;
}

void esp_grid_put_text(const struct esp_grid *grid, struct esp_buf *out) {
    bool marks = has_best(grid);
    if (grid->cells.failed) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < cell_count(grid); i++) {
        const struct esp_cell *cell = cell_at(grid, i);
        size_t column = i % grid->columns;
        size_t pad = column_width(grid, column) - text_width(cell->text);
        bool last = column + 1 == grid->columns;
        put_spaces(out, 2);
        put_spaces(out, column < grid->left ? 0 : pad);
        esp_buf_put_str(out, esp_str_from(cell->text));
        put_spaces(out, column < grid->left && !last ? pad : 0);
        if (cell->best) {
            esp_buf_put_char(out, '*');
        } else if (marks && column >= grid->left && !last) {
            esp_buf_put_char(out, ' ');
        }
        if (last) {
            esp_buf_put_char(out, '\n');
        }
    }
}

static void put_markdown_text(struct esp_buf *out, const char *text) {
    for (; *text; text++) {
        if (strchr("|*_`<\\", *text)) {
            esp_buf_put_char(out, '\\');
        }
        esp_buf_put_char(out, *text);
    }
}

void esp_grid_put_markdown(const struct esp_grid *grid, struct esp_buf *out) {
    if (grid->cells.failed) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < cell_count(grid); i++) {
        const struct esp_cell *cell = cell_at(grid, i);
        esp_buf_put_str(out, i % grid->columns ? ESP_STR(" | ") : ESP_STR("| "));
        esp_buf_put_str(out, cell->best ? ESP_STR("**") : ESP_STR(""));
        put_markdown_text(out, cell->text);
        esp_buf_put_str(out, cell->best ? ESP_STR("**") : ESP_STR(""));
        if ((i + 1) % grid->columns == 0) {
            ESP_BUF_LIT(out, " |\n");
        }
        if (i + 1 == grid->columns) { /* the heading is complete */
            for (size_t c = 0; c < grid->columns; c++) {
                esp_buf_put_str(out, c < grid->left ? ESP_STR("|---") : ESP_STR("|---:"));
            }
            ESP_BUF_LIT(out, "|\n");
        }
    }
}
