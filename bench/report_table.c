/* Tables for a terminal: 100 to 120 columns with four layouts, no colour. */
#include "bench/matrix.h"
#include "bench/report.h"
#include <ctype.h>

/* READS  mean read units (round trips) */
static void put_title(struct esp_buf *out, const char *title, const char *cells) {
    esp_buf_put_char(out, '\n');
    for (; *title; title++) {
        esp_buf_put_char(out, (char)toupper((unsigned char)*title));
    }
    esp_buf_printf(out, "  %s\n", cells);
}

static void put_prices(const struct esp_comparison *c, struct esp_buf *out) {
    esp_buf_printf(out, "Prices: list, %s, of %s; reports name the source.\n", c->prices.region,
                   c->prices.date);
}

static void put_compare_notes(const struct esp_comparison *c, struct esp_buf *out) {
    ESP_BUF_LIT(out,
                "\n* cheapest of its row, where they differ: fewest USD, then fewest round trips."
                "  ' derived: made of other\n  operations, no plan of the layout's own.\n");
    ESP_BUF_LIT(out,
                "Units are computed from bytes by DynamoDB's documented rules, indexes included;"
                " 1 write unit = 1 KB, 1 read unit =\n  4 KB, half when eventually consistent.");
    ESP_BUF_LIT(out, "  Writes were undone after each sample; p99 needs 100 samples.\n");
    if (!c->remote) {
        esp_buf_printf(
            out,
            "Latencies are this machine's, in process; (modelled) is round trips x %g ms. "
            "Neither is DynamoDB's.\n",
            c->options.round_trip_ms);
    }
    put_prices(c, out);
}

static enum esp_status compare(const struct esp_comparison *c, struct esp_buf *out) {
    esp_matrix_put_source(c, out);
    esp_buf_put_char(out, '\n');
    esp_matrix_put_setting(c, out);
    esp_buf_put_char(out, '\n');
    for (int m = 0; m < ESP_MATRIX_COUNT; m++) {
        enum esp_matrix matrix = (enum esp_matrix)m;
        if (matrix == ESP_MATRIX_MONEY || !esp_matrix_present(c, matrix)) {
            continue; /* money is in the files; the mark of the cheapest says it here */
        }
        struct esp_grid grid;
        put_title(out, esp_matrix_title(matrix), esp_matrix_cells(matrix));
        esp_matrix_fill(c, matrix, out->alloc, &grid);
        esp_grid_put_text(&grid, out);
        esp_grid_fini(&grid);
    }
    put_compare_notes(c, out);
    return out->failed ? ESP_ERR_NOMEM : ESP_OK;
}

static enum esp_status plan(const struct esp_plan_result *p, struct esp_buf *out) {
    esp_matrix_put_source(p->comparison, out);
    esp_buf_printf(out, "\nworkload %s: %g operations a second\n  ", p->workload.name,
                   p->workload.rate_per_second);
    esp_matrix_put_mix(&p->workload, out);
    ESP_BUF_LIT(out, "\nmeasured in ");
    esp_matrix_put_setting(p->comparison, out);
    esp_buf_put_char(out, '\n');
    for (int m = 0; m < ESP_PLAN_MATRIX_COUNT; m++) {
        enum esp_plan_matrix matrix = (enum esp_plan_matrix)m;
        struct esp_grid grid;
        put_title(out, esp_plan_matrix_title(matrix), esp_plan_matrix_cells(matrix));
        esp_plan_matrix_fill(p, matrix, out->alloc, &grid);
        esp_grid_put_text(&grid, out);
        esp_grid_fini(&grid);
    }
    ESP_BUF_LIT(out, "\n* cheapest of its row.  ! more than one partition key is given.\n");
    esp_matrix_put_assumptions(p, out);
    esp_buf_put_char(out, '\n');
    put_prices(p->comparison, out);
    return out->failed ? ESP_ERR_NOMEM : ESP_OK;
}

const struct esp_reporter esp_reporter_table = {
    .name = "table",
    .extension = NULL,
    .summary = "aligned tables for a terminal",
    .compare = compare,
    .plan = plan,
};
