/* A document that stands alone: what was measured, how, and how to repeat it. */
#include "bench/matrix.h"
#include "bench/report.h"

static void put_date(const struct esp_comparison *c, struct esp_buf *out) {
    char date[21];
    esp_wall_format_rfc3339(c->started_wall_ns, date);
    esp_buf_printf(out, "%s", date);
}

static void put_setting(const struct esp_comparison *c, struct esp_buf *out) {
    ESP_BUF_LIT(out, "- Tree: ");
    esp_matrix_put_source(c, out);
    ESP_BUF_LIT(out, "\n- Measured: ");
    put_date(c, out);
    ESP_BUF_LIT(out, ", ");
    esp_matrix_put_setting(c, out);
    ESP_BUF_LIT(out, "\n- ");
    esp_matrix_put_prices(c, out);
    ESP_BUF_LIT(out, "\n");
}

static void put_reproduce(const struct esp_comparison *c, struct esp_buf *out) {
    if (c->options.command) {
        esp_buf_printf(
            out,
            "\n## How to repeat it\n\n```\n%s\n```\n\nSame source, seed and version: the "
            "same units, to the last digit. Latencies vary.\n",
            c->options.command);
    }
}

static void put_section(struct esp_buf *out, const char *title, const char *cells,
                        struct esp_grid *grid) {
    esp_buf_printf(out, "\n## %s\n\nCells: %s.\n\n", title, cells);
    esp_grid_put_markdown(grid, out);
    esp_grid_fini(grid);
}

static void put_reading_notes(const struct esp_comparison *c, struct esp_buf *out) {
    ESP_BUF_LIT(
        out, "\n## How to read it\n\n"
             "- **Bold**: the cheapest of its row, where they differ: fewest USD, then fewest "
             "round trips.\n"
             "- **'**: a derived plan, made of other operations; the others are the layout's own."
             "\n"
             "- Units are computed from bytes by DynamoDB's documented rules, indexes included: "
             "a write unit is 1 KB, a read unit 4 KB, half when eventually consistent. Queries of "
             "a global index are always eventually consistent.\n"
             "- Writes were undone after each sample, so every sample met the same table; undoing "
             "is in no figure.\n"
             "- A 99th percentile is shown from 100 samples on.\n");
    if (c->options.addressing == ESP_ADDRESS_ID) {
        ESP_BUF_LIT(out, "- Nodes were named by id: looking up what the layout needs beside it (a "
                         "path, interval bounds) is part of the figures.\n");
    } else {
        ESP_BUF_LIT(out,
                    "- Nodes were named by key: the caller knows what the layout needs (a path, "
                    "interval bounds), as one that has just read the node does.\n");
    }
    if (!c->remote) {
        esp_buf_printf(out,
                       "- Latencies are those of this store on this machine, one operation at a "
                       "time. (Modelled): round trips x %g ms. Neither is DynamoDB's.\n",
                       c->options.round_trip_ms);
    }
}

static enum esp_status compare(const struct esp_comparison *c, struct esp_buf *out) {
    ESP_BUF_LIT(out, "# Layouts compared\n\n");
    put_setting(c, out);
    for (int m = 0; m < ESP_MATRIX_COUNT; m++) {
        enum esp_matrix matrix = (enum esp_matrix)m;
        struct esp_grid grid;
        if (esp_matrix_present(c, matrix)) {
            esp_matrix_fill(c, matrix, out->alloc, &grid);
            put_section(out, esp_matrix_title(matrix), esp_matrix_cells(matrix), &grid);
        }
    }
    put_reading_notes(c, out);
    put_reproduce(c, out);
    return out->failed ? ESP_ERR_NOMEM : ESP_OK;
}

static enum esp_status plan(const struct esp_plan_result *p, struct esp_buf *out) {
    esp_buf_printf(out, "# Capacity plan: %s\n\n", p->workload.name);
    put_setting(p->comparison, out);
    esp_buf_printf(out, "- Workload: %g operations a second: ", p->workload.rate_per_second);
    esp_matrix_put_mix(&p->workload, out);
    ESP_BUF_LIT(out, "\n");
    for (int m = 0; m < ESP_PLAN_MATRIX_COUNT; m++) {
        enum esp_plan_matrix matrix = (enum esp_plan_matrix)m;
        struct esp_grid grid;
        esp_plan_matrix_fill(p, matrix, out->alloc, &grid);
        put_section(out, esp_plan_matrix_title(matrix), esp_plan_matrix_cells(matrix), &grid);
    }
    ESP_BUF_LIT(out, "\n## What is assumed\n\n");
    esp_matrix_put_assumptions(p, out);
    ESP_BUF_LIT(out, "\n");
    put_reproduce(p->comparison, out);
    return out->failed ? ESP_ERR_NOMEM : ESP_OK;
}

const struct esp_reporter esp_reporter_markdown = {
    .name = "markdown",
    .extension = "md",
    .summary = "a document with everything measured and how to repeat it",
    .compare = compare,
    .plan = plan,
};
