#include "bench/matrix.h"

#include <math.h>
#include <stdio.h>

static const struct {
    const char *title, *cells;
} sections[ESP_MATRIX_COUNT] = {
    [ESP_MATRIX_LOAD] = {"Load", "the whole tree into an empty table"},
    [ESP_MATRIX_READS] = {"Reads", "mean read units (round trips, or round trips/requests)"},
    [ESP_MATRIX_WRITES] = {"Writes",
                           "mean write units w + read units r (round trips, or .../requests)"},
    [ESP_MATRIX_READS_TAIL] = {"Reads: tail and waste",
                               "99th percentile of read units | mean items read > returned"},
    [ESP_MATRIX_WRITES_TAIL] = {"Writes: tail",
                                "99th percentile of write units | mean items written"},
    [ESP_MATRIX_MONEY] = {"Money", "USD for a million operations, on demand"},
    [ESP_MATRIX_LATENCY] = {"Latency", "microseconds in this store, median / 99th percentile"},
    [ESP_MATRIX_BILLED] =
        {"Billed otherwise",
         "mean units as the endpoint reports them, where they are not the computed ones"},
    [ESP_MATRIX_HOT] = {"Hottest partition keys", "write units of the load that fall on one key"},
};

const char *esp_matrix_title(enum esp_matrix matrix) {
    return sections[matrix].title;
}

const char *esp_matrix_cells(enum esp_matrix matrix) {
    return sections[matrix].cells;
}

static size_t layouts(const struct esp_comparison *c) {
    return c->options.layout_count;
}

/* --- cells -------------------------------------------------------------------- */

static void add_heading(struct esp_grid *grid, const struct esp_comparison *c, const char *first) {
    esp_grid_add(grid, false, "%s", first);
    for (size_t i = 0; i < layouts(c); i++) {
        esp_grid_add(grid, false, "%s", c->layout[i].layout->ops->name);
    }
}

/* " (2)" or, when requests overlap, " (2/17)". */
static void format_trips(char *out, size_t size, const struct esp_op_result *r) {
    char trips[ESP_TEXT_MAX], requests[ESP_TEXT_MAX];
    esp_text_figure(trips, r->round_trips.mean);
    esp_text_figure(requests, r->requests.mean);
    if (strcmp(trips, requests) == 0) {
        snprintf(out, size, "(%s)", trips);
    } else {
        snprintf(out, size, "(%s/%s)", trips, requests);
    }
}

static const char *plan_mark(const struct esp_op_result *r) {
    return r->plan == ESP_PLAN_DERIVED ? "'" : "";
}

static const char *format_p99(char out[ESP_TEXT_MAX], const struct esp_figure *figure,
                              uint32_t samples) {
    if (samples < ESP_FIGURE_P99_SAMPLES_MIN) {
        return memcpy(out, "-", 2);
    }
    return esp_text_figure(out, figure->p99);
}

static bool billed_alike(const struct esp_op_result *r) {
    const double tolerance = 1e-9;
    return fabs(r->read_units.mean - r->read_units_billed.mean) < tolerance &&
           fabs(r->write_units.mean - r->write_units_billed.mean) < tolerance;
}

static void add_cell(struct esp_grid *grid, enum esp_matrix matrix, bool best,
                     const struct esp_comparison *c, const struct esp_op_result *r) {
    char a[ESP_TEXT_MAX], b[ESP_TEXT_MAX], d[ESP_TEXT_MAX], trips[2 * ESP_TEXT_MAX];
    const char *mark = plan_mark(r);
    format_trips(trips, sizeof trips, r);
    switch (matrix) {
    case ESP_MATRIX_READS:
        esp_grid_add(grid, best, "%s %s%s", esp_text_figure(a, r->read_units.mean), trips, mark);
        break;
    case ESP_MATRIX_WRITES:
        esp_grid_add(grid, best, "%sw %sr %s%s", esp_text_figure(a, r->write_units.mean),
                     esp_text_figure(b, r->read_units.mean), trips, mark);
        break;
    case ESP_MATRIX_READS_TAIL:
        esp_grid_add(grid, false, "%s | %s > %s", format_p99(a, &r->read_units, r->samples),
                     esp_text_figure(b, r->items_read.mean),
                     esp_text_figure(d, r->items_returned.mean));
        break;
    case ESP_MATRIX_WRITES_TAIL:
        esp_grid_add(grid, false, "%s | %s", format_p99(a, &r->write_units, r->samples),
                     esp_text_figure(b, r->items_written.mean));
        break;
    case ESP_MATRIX_MONEY:
        esp_grid_add(grid, best, "%s", esp_text_usd(a, r->usd_per_million));
        break;
    case ESP_MATRIX_BILLED:
        if (billed_alike(r)) {
            esp_grid_add(grid, false, "=");
        } else {
            esp_grid_add(grid, false, "%sw %sr", esp_text_figure(a, r->write_units_billed.mean),
                         esp_text_figure(b, r->read_units_billed.mean));
        }
        break;
    default: /* ESP_MATRIX_LATENCY */
        if (c->remote) {
            esp_grid_add(grid, false, "%s / %s", esp_text_figure(a, r->latency_us.p50),
                         format_p99(b, &r->latency_us, r->samples));
        } else {
            esp_grid_add(grid, false, "%s / %s (%s)", esp_text_figure(a, r->latency_us.p50),
                         format_p99(b, &r->latency_us, r->samples),
                         esp_text_figure(d, r->modelled_us.p50));
        }
        break;
    }
}

/* Cheaper in money; where that is equal, in round trips. */
static bool cheaper(const struct esp_op_result *a, const struct esp_op_result *b) {
    const double tolerance = 1e-9;
    if (a->usd_per_million + tolerance < b->usd_per_million) {
        return true;
    }
    return a->usd_per_million < b->usd_per_million + tolerance &&
           a->round_trips.mean + tolerance < b->round_trips.mean;
}

/* The cheapest of its row; no mark where all cost the same. */
static bool is_best(const struct esp_comparison *c, int op, size_t position) {
    bool beats_one = false;
    for (size_t i = 0; i < layouts(c); i++) {
        if (cheaper(&c->layout[i].op[op], &c->layout[position].op[op])) {
            return false;
        }
        beats_one = beats_one || cheaper(&c->layout[position].op[op], &c->layout[i].op[op]);
    }
    return beats_one;
}

static bool billed_otherwise(const struct esp_comparison *c, int op) {
    bool otherwise = false;
    for (size_t i = 0; c->billed && i < layouts(c); i++) {
        otherwise = otherwise || !billed_alike(&c->layout[i].op[op]);
    }
    return otherwise;
}

static bool in_matrix(const struct esp_comparison *c, enum esp_matrix matrix, int op) {
    bool write = esp_op_info[op].write;
    switch (matrix) {
    case ESP_MATRIX_READS:
    case ESP_MATRIX_READS_TAIL:
        return !write;
    case ESP_MATRIX_WRITES:
    case ESP_MATRIX_WRITES_TAIL:
        return write;
    case ESP_MATRIX_BILLED:
        return billed_otherwise(c, op);
    default:
        return true;
    }
}

static bool measured(const struct esp_comparison *c, int op) {
    return layouts(c) > 0 && c->layout[0].op[op].samples > 0;
}

static void fill_operations(const struct esp_comparison *c, enum esp_matrix matrix,
                            struct esp_grid *grid) {
    add_heading(grid, c, "");
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (!in_matrix(c, matrix, op) || !measured(c, op)) {
            continue;
        }
        esp_grid_add(grid, false, "%s", esp_op_info[op].name);
        for (size_t i = 0; i < layouts(c); i++) {
            add_cell(grid, matrix, is_best(c, op, i), c, &c->layout[i].op[op]);
        }
    }
}

/* --- the load ------------------------------------------------------------------ */

enum load_row {
    LOAD_ITEMS,
    LOAD_ITEM_BYTES,
    LOAD_INDEX_BYTES,
    LOAD_STORAGE,
    LOAD_WRITE_UNITS,
    LOAD_REQUESTS,
    LOAD_USD,
    LOAD_IMPORT_USD,
    LOAD_STORAGE_USD,
    LOAD_SECONDS,
    LOAD_ROW_COUNT
};
static const char *const load_rows[LOAD_ROW_COUNT] = {
    "items",
    "item bytes",
    "index bytes",
    "storage billed",
    "write units",
    "requests",
    "USD, BatchWriteItem",
    "USD, ImportTable",
    "USD a month, storage",
    "seconds in this store",
};

static void add_load_cell(struct esp_grid *grid, enum load_row row,
                          const struct esp_layout_result *r) {
    char text[ESP_TEXT_MAX];
    switch (row) {
    case LOAD_ITEMS:
        esp_text_count(text, r->load.items_written);
        break;
    case LOAD_ITEM_BYTES:
        esp_text_bytes(text, (double)r->item_bytes);
        break;
    case LOAD_INDEX_BYTES:
        esp_text_bytes(text, (double)r->index_bytes);
        break;
    case LOAD_STORAGE:
        esp_text_bytes(text, (double)r->storage_bytes);
        break;
    case LOAD_WRITE_UNITS:
        esp_text_figure(text, esp_units_total(&r->load.usage.write));
        break;
    case LOAD_REQUESTS:
        esp_text_count(text, r->load.usage.requests);
        break;
    case LOAD_USD:
        esp_text_usd(text, r->load_usd);
        break;
    case LOAD_IMPORT_USD:
        esp_text_usd(text, r->import_usd);
        break;
    case LOAD_STORAGE_USD:
        esp_text_usd(text, r->storage_usd_month);
        break;
    default: /* LOAD_SECONDS */
        esp_text_figure(text, (double)r->load.elapsed_ns / 1e9);
        break;
    }
    esp_grid_add(grid, false, "%s", text);
}

static void fill_load(const struct esp_comparison *c, struct esp_grid *grid) {
    add_heading(grid, c, "");
    for (int row = 0; row < LOAD_ROW_COUNT; row++) {
        esp_grid_add(grid, false, "%s", load_rows[row]);
        for (size_t i = 0; i < layouts(c); i++) {
            add_load_cell(grid, (enum load_row)row, &c->layout[i]);
        }
    }
}

/* --- hot keys -------------------------------------------------------------------- */

/* "table" or the index's name. */
static void add_part_cells(struct esp_grid *grid, const struct esp_layout *layout, size_t part) {
    struct esp_str name = part == 0 ? ESP_STR("table") : layout->schema.index[part - 1].name;
    esp_grid_add(grid, false, "%s", layout->ops->name);
    esp_grid_add(grid, false, "%.*s", ESP_FMT(name));
}

static void add_texts(struct esp_grid *grid, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        esp_grid_add(grid, false, "%s", texts[i]);
    }
}

static const char *const hot_heading[] = {
    "layout", "table or index", "hottest key", "items", "write units", "share", "at 1,000/s",
};

static void fill_hot(const struct esp_comparison *c, struct esp_grid *grid) {
    char a[ESP_TEXT_MAX];
    add_texts(grid, hot_heading, sizeof hot_heading / sizeof hot_heading[0]);
    for (size_t i = 0; i < layouts(c); i++) {
        const struct esp_layout_result *r = &c->layout[i];
        for (size_t p = 0; p <= r->layout->schema.index_count; p++) {
            const struct esp_survey_part *part = &r->survey.part[p];
            add_part_cells(grid, r->layout, p);
            esp_grid_add(grid, false, "%.40s", part->hot.key);
            esp_grid_add(grid, false, "%s", esp_text_count(a, part->hot.items));
            esp_grid_add(grid, false, "%s%s", part->hot.units_over > 0 ? "<= " : "",
                         esp_text_figure(a, part->hot.units));
            esp_grid_add(grid, false, "%s",
                         esp_text_percent(
                             a, part->write_units > 0 ? part->hot.units / part->write_units : 0));
            esp_grid_add(grid, false, "%s",
                         esp_text_seconds(a, part->hot.units / ESP_PARTITION_WRITE_MAX));
        }
    }
}

bool esp_matrix_present(const struct esp_comparison *c, enum esp_matrix matrix) {
    if (matrix == ESP_MATRIX_LOAD || matrix == ESP_MATRIX_HOT) {
        return true;
    }
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (in_matrix(c, matrix, op) && measured(c, op)) {
            return true;
        }
    }
    return false;
}

void esp_matrix_fill(const struct esp_comparison *c, enum esp_matrix matrix,
                     const struct esp_alloc *alloc, struct esp_grid *grid) {
    if (matrix == ESP_MATRIX_HOT) {
        esp_grid_init(grid, alloc, sizeof hot_heading / sizeof hot_heading[0], 3);
        fill_hot(c, grid);
        return;
    }
    esp_grid_init(grid, alloc, 1 + layouts(c), 1);
    if (matrix == ESP_MATRIX_LOAD) {
        fill_load(c, grid);
    } else {
        fill_operations(c, matrix, grid);
    }
}

/* --- plans ----------------------------------------------------------------------- */

static const struct {
    const char *title, *cells;
} plan_sections[ESP_PLAN_MATRIX_COUNT] = {
    [ESP_PLAN_MATRIX_MONTH] = {"Every month", "at the rate and mix above, 730 hours"},
    [ESP_PLAN_MATRIX_LOAD] = {"Once, for the load", "BatchWriteItem or ImportTable"},
    [ESP_PLAN_MATRIX_HOT] = {"Hottest partition keys",
                             "units a second on one key; DynamoDB gives one key 1,000 write "
                             "and 3,000 read units"},
};

const char *esp_plan_matrix_title(enum esp_plan_matrix matrix) {
    return plan_sections[matrix].title;
}

const char *esp_plan_matrix_cells(enum esp_plan_matrix matrix) {
    return plan_sections[matrix].cells;
}

/* One row of figures: where in the layout's plan it is and how it is written. */
struct plan_row {
    const char *name;
    double (*value)(const struct esp_plan_layout *l);
    const char *(*format)(char out[ESP_TEXT_MAX], double value);
    bool compare; /* mark the cheapest */
};

static double read_units_second(const struct esp_plan_layout *l) {
    return l->read_units_month / (ESP_MONTH_HOURS * 3600.0);
}
static double write_units_second(const struct esp_plan_layout *l) {
    return l->write_units_month / (ESP_MONTH_HOURS * 3600.0);
}
static double read_units_month(const struct esp_plan_layout *l) {
    return l->read_units_month;
}
static double write_units_month(const struct esp_plan_layout *l) {
    return l->write_units_month;
}
static double usd_on_demand(const struct esp_plan_layout *l) {
    return l->usd_on_demand;
}
static double usd_provisioned(const struct esp_plan_layout *l) {
    return l->usd_provisioned;
}
static double storage_bytes(const struct esp_plan_layout *l) {
    return (double)l->measured->storage_bytes;
}
static double usd_storage(const struct esp_plan_layout *l) {
    return l->usd_storage;
}
static double usd_total_on_demand(const struct esp_plan_layout *l) {
    return l->usd_on_demand + l->usd_storage;
}
static double usd_total_provisioned(const struct esp_plan_layout *l) {
    return l->usd_provisioned + l->usd_storage;
}
static double load_write_units(const struct esp_plan_layout *l) {
    return l->load_write_units;
}
static double usd_load_batch(const struct esp_plan_layout *l) {
    return l->usd_load_batch;
}
static double load_seconds_new(const struct esp_plan_layout *l) {
    return l->load_seconds_new;
}
static double import_bytes(const struct esp_plan_layout *l) {
    return (double)l->measured->survey.json_bytes;
}
static double usd_load_import(const struct esp_plan_layout *l) {
    return l->usd_load_import;
}

static const struct plan_row month_rows[] = {
    {"read units a second", read_units_second, esp_text_figure, false},
    {"write units a second", write_units_second, esp_text_figure, false},
    {"read units", read_units_month, esp_text_figure, false},
    {"write units", write_units_month, esp_text_figure, false},
    {"USD, on demand", usd_on_demand, esp_text_usd, true},
    {"USD, provisioned", usd_provisioned, esp_text_usd, true},
    {"storage billed", storage_bytes, esp_text_bytes, false},
    {"USD, storage", usd_storage, esp_text_usd, true},
    {"USD in all, on demand", usd_total_on_demand, esp_text_usd, true},
    {"USD in all, provisioned", usd_total_provisioned, esp_text_usd, true},
};
static const struct plan_row load_plan_rows[] = {
    {"write units", load_write_units, esp_text_figure, false},
    {"USD, BatchWriteItem", usd_load_batch, esp_text_usd, true},
    {"time on a new table", load_seconds_new, esp_text_seconds, true},
    {"ImportTable source", import_bytes, esp_text_bytes, false},
    {"USD, ImportTable", usd_load_import, esp_text_usd, true},
};

static bool is_least(const struct esp_plan_result *p, const struct plan_row *row, size_t position) {
    double own = row->value(&p->layout[position]);
    bool beats_one = false;
    for (size_t i = 0; i < layouts(p->comparison); i++) {
        double other = row->value(&p->layout[i]);
        if (other < own) {
            return false;
        }
        beats_one = beats_one || other > own;
    }
    return row->compare && beats_one;
}

static void fill_plan_rows(const struct esp_plan_result *p, const struct plan_row *rows,
                           size_t count, struct esp_grid *grid) {
    char text[ESP_TEXT_MAX];
    add_heading(grid, p->comparison, "");
    for (size_t r = 0; r < count; r++) {
        esp_grid_add(grid, false, "%s", rows[r].name);
        for (size_t i = 0; i < layouts(p->comparison); i++) {
            esp_grid_add(grid, is_least(p, &rows[r], i), "%s",
                         rows[r].format(text, rows[r].value(&p->layout[i])));
        }
    }
}

static const char *const plan_hot_heading[] = {
    "layout", "table or index", "hottest key", "of writes", "write/s", "of reads", "read/s",
};

static void fill_plan_hot(const struct esp_plan_result *p, struct esp_grid *grid) {
    char a[ESP_TEXT_MAX];
    add_texts(grid, plan_hot_heading, sizeof plan_hot_heading / sizeof plan_hot_heading[0]);
    for (size_t i = 0; i < layouts(p->comparison); i++) {
        const struct esp_plan_layout *l = &p->layout[i];
        for (size_t n = 0; n < l->part_count; n++) {
            const struct esp_plan_part *part = &l->part[n];
            add_part_cells(grid, l->measured->layout, n);
            esp_grid_add(grid, false, "%.40s", l->measured->survey.part[n].hot.key);
            esp_grid_add(grid, false, "%s", esp_text_percent(a, part->hot_write_share));
            esp_grid_add(grid, false, "%s%s", esp_text_figure(a, part->hot_write_second),
                         part->hot_write_second > ESP_PARTITION_WRITE_MAX ? " !" : "");
            esp_grid_add(grid, false, "%s", esp_text_percent(a, part->hot_read_share));
            esp_grid_add(grid, false, "%s%s", esp_text_figure(a, part->hot_read_second),
                         part->hot_read_second > ESP_PARTITION_READ_MAX ? " !" : "");
        }
    }
}

void esp_plan_matrix_fill(const struct esp_plan_result *p, enum esp_plan_matrix matrix,
                          const struct esp_alloc *alloc, struct esp_grid *grid) {
    if (matrix == ESP_PLAN_MATRIX_HOT) {
        esp_grid_init(grid, alloc, sizeof plan_hot_heading / sizeof plan_hot_heading[0], 3);
        fill_plan_hot(p, grid);
        return;
    }
    esp_grid_init(grid, alloc, 1 + layouts(p->comparison), 1);
    if (matrix == ESP_PLAN_MATRIX_MONTH) {
        fill_plan_rows(p, month_rows, sizeof month_rows / sizeof month_rows[0], grid);
    } else {
        fill_plan_rows(p, load_plan_rows, sizeof load_plan_rows / sizeof load_plan_rows[0], grid);
    }
}

/* --- sentences --------------------------------------------------------------------- */

void esp_matrix_put_source(const struct esp_comparison *c, struct esp_buf *out) {
    char nodes[ESP_TEXT_MAX], roots[ESP_TEXT_MAX], payload[ESP_TEXT_MAX];
    esp_buf_printf(out, "%s: %s node%s, %s root%s, depth %llu, %s bytes of payload a node",
                   c->options.source_name ? c->options.source_name : "tree",
                   esp_text_count(nodes, c->nodes), c->nodes == 1 ? "" : "s",
                   esp_text_count(roots, c->roots), c->roots == 1 ? "" : "s",
                   (unsigned long long)c->depth_max,
                   esp_text_figure(payload, (double)c->payload_bytes / (double)c->nodes));
}

void esp_matrix_put_setting(const struct esp_comparison *c, struct esp_buf *out) {
    esp_buf_printf(
        out, "store %s, nodes named by %s, up to %u samples an operation, seed %llu, %s reads",
        c->store_name, c->options.addressing == ESP_ADDRESS_KEY ? "key" : "id", c->options.sample,
        (unsigned long long)c->options.seed,
        c->options.consistent ? "strongly consistent" : "eventually consistent");
}

void esp_matrix_put_prices(const struct esp_comparison *c, struct esp_buf *out) {
    esp_buf_printf(out, "Prices: %s, %s: %s", c->prices.region, c->prices.date, c->prices.source);
}

void esp_matrix_put_mix(const struct esp_workload *w, struct esp_buf *out) {
    char share[ESP_TEXT_MAX];
    const char *separator = "";
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (w->share[op] > 0) {
            esp_buf_printf(out, "%s%s %s", separator, esp_op_info[op].name,
                           esp_text_percent(share, w->share[op]));
            separator = ", ";
        }
    }
}

void esp_matrix_put_assumptions(const struct esp_plan_result *p, struct esp_buf *out) {
    esp_buf_printf(
        out,
        "The rate is even over the month of 730 hours; operations meet nodes as the "
        "sample did.\nProvisioned capacity is the mean plus %g %%, whole units, at least 1 "
        "for the table and each index;\n  no free units are taken off.\n",
        p->options.headroom_percent);
    ESP_BUF_LIT(out, "Writes fall on partition keys as the load's write units did, reads in "
                     "proportion to the bytes stored under a key.\n");
    ESP_BUF_LIT(out,
                "A new on-demand table takes 4,000 write units a second, each index too, and one "
                "partition key 1,000.\n");
    esp_buf_printf(out,
                   "Storage is items and index entries plus 100 bytes each, GB of 2^30 bytes%s.",
                   p->options.free_tier ? "; the free part is taken off" : "");
}
