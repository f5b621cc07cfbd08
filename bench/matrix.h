#ifndef ESP_BENCH_MATRIX_H
#define ESP_BENCH_MATRIX_H
/*
 * The parts of a comparison or plan as grids, the same for every report that people read;
 * private to bench/.  Each fills an initialised grid of the width given by its _columns.
 */
#include "bench/plan.h"
#include "bench/text.h"

enum esp_matrix {
    ESP_MATRIX_LOAD,        /* items, bytes, units, money: a column a layout */
    ESP_MATRIX_READS,       /* mean units (round trips/requests) */
    ESP_MATRIX_WRITES,      /* the same, write and read units */
    ESP_MATRIX_READS_TAIL,  /* p99 units | items read > returned */
    ESP_MATRIX_WRITES_TAIL, /* p99 write units | items read > written */
    ESP_MATRIX_MONEY,       /* USD a million operations */
    ESP_MATRIX_LATENCY,     /* p50 / p99 measured, (modelled) */
    ESP_MATRIX_BILLED,      /* where the endpoint's own units are others */
    ESP_MATRIX_HOT,         /* a row for each table and index */
    ESP_MATRIX_COUNT
};
/* What a section is called, and what its cells say; static text. */
const char *esp_matrix_title(enum esp_matrix matrix);
const char *esp_matrix_cells(enum esp_matrix matrix);
/* False when nothing of it was measured. */
bool esp_matrix_present(const struct esp_comparison *c, enum esp_matrix matrix);
/* Initialises the grid: esp_grid_fini. */
void esp_matrix_fill(const struct esp_comparison *c, enum esp_matrix matrix,
                     const struct esp_alloc *alloc, struct esp_grid *grid);

enum esp_plan_matrix {
    ESP_PLAN_MATRIX_MONTH, /* units and money a month: a column a layout */
    ESP_PLAN_MATRIX_LOAD,  /* the one-off load */
    ESP_PLAN_MATRIX_HOT,   /* a row for each table and index */
    ESP_PLAN_MATRIX_COUNT
};
const char *esp_plan_matrix_title(enum esp_plan_matrix matrix);
const char *esp_plan_matrix_cells(enum esp_plan_matrix matrix);
void esp_plan_matrix_fill(const struct esp_plan_result *p, enum esp_plan_matrix matrix,
                          const struct esp_alloc *alloc, struct esp_grid *grid);

/* "world.csv: 5,333 nodes, 1 root, depth 5, ..." */
void esp_matrix_put_source(const struct esp_comparison *c, struct esp_buf *out);
/* "store local, nodes named by id, 200 samples an operation, seed 1, ..." */
void esp_matrix_put_setting(const struct esp_comparison *c, struct esp_buf *out);
/* "Prices: us-east-1, 2026-08-31: ..." */
void esp_matrix_put_prices(const struct esp_comparison *c, struct esp_buf *out);
/* "node 30 %, children 30 %, ..." */
void esp_matrix_put_mix(const struct esp_workload *w, struct esp_buf *out);
/* What a plan takes for granted, as sentences. */
void esp_matrix_put_assumptions(const struct esp_plan_result *p, struct esp_buf *out);

#endif
