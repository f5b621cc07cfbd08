#include "bench/compare.h"

#include "bench/sample.h"
#include "stores/undo.h"
#include <math.h>
#include <stdio.h>

enum { SAMPLE_DEFAULT = 200 };
static const double round_trip_ms_default = 1;
static const char table_prefix_default[] = "espalier-compare";

enum figure {
    READ_UNITS,
    WRITE_UNITS,
    READ_BILLED,
    WRITE_BILLED,
    REQUESTS,
    ROUND_TRIPS,
    ITEMS_READ,
    ITEMS_RETURNED,
    ITEMS_WRITTEN,
    LATENCY_US,
    FIGURE_COUNT
};

/* What one layout's run needs; one thread. */
struct run {
    const struct esp_forest *forest;
    struct esp_store *store;
    const struct esp_compare_options *options;
    const volatile int *stop;
    struct esp_comparison *out;
    struct esp_error *err;
    const struct esp_layout *layout;
    struct esp_session *session;
    struct esp_arena scratch;   /* the operation's */
    struct esp_arena arguments; /* of the current sample */
    struct esp_pick *picks;     /* options->sample of them */
    double *values;             /* FIGURE_COUNT columns of options->sample */
};

static double *column(struct run *run, enum figure figure) {
    return run->values + (size_t)figure * run->options->sample;
}

/* --- arguments ---------------------------------------------------------------- */

static enum esp_status locate(struct run *run, esp_node v, struct esp_locator *out) {
    if (run->options->addressing == ESP_ADDRESS_KEY) {
        return run->layout->ops->locate(run->layout, run->forest, v, &run->arguments, out);
    }
    *out = (struct esp_locator){.id = esp_forest_id(run->forest, v)};
    return ESP_OK;
}

/* One member `"name":{"S":"..."}` as data of its own. */
static enum esp_status make_member(struct run *run, struct esp_str name, size_t value_len,
                                   char fill, struct esp_data *out) {
    struct esp_buf text;
    esp_buf_init(&text, run->arguments.alloc, ESP_ITEM_BYTES_MAX * 2);
    esp_json_put_string(&text, name);
    ESP_BUF_LIT(&text, ":{\"S\":\"");
    for (size_t i = 0; i < value_len; i++) {
        esp_buf_put_char(&text, fill);
    }
    ESP_BUF_LIT(&text, "\"}");
    struct esp_str copy = {NULL, 0};
    if (!text.failed) {
        copy = esp_arena_dup(&run->arguments, esp_buf_str(&text));
    }
    esp_buf_fini(&text);
    if (!copy.ptr) {
        return esp_fail_nomem(run->err);
    }
    *out = (struct esp_data){copy.ptr, (uint32_t)copy.len, (uint32_t)(name.len + value_len)};
    return ESP_OK;
}

/* update: the first text attribute gets another value of the same length, so that the item
 * keeps its size; a node without one gets a small attribute more. */
static enum esp_status make_update(struct run *run, esp_node v, struct esp_data *out) {
    struct esp_data data = esp_forest_data(run->forest, v);
    struct esp_member member;
    size_t pos = 0;
    while (esp_data_next(data, &pos, &run->arguments, &member)) {
        struct esp_value value;
        enum esp_status status = esp_value_parse(member.value, &run->arguments, &value, run->err);
        if (status != ESP_OK) {
            return status;
        }
        if (value.type == ESP_TYPE_S && value.s.len > 0) {
            return make_member(run, member.name, value.s.len, value.s.ptr[0] == 'x' ? 'y' : 'x',
                               out);
        }
    }
    return make_member(run, ESP_STR("note"), 8, 'x', out);
}

/* insert: a fresh id, and the payload of the node that becomes its parent. */
static enum esp_status make_insert(struct run *run, uint32_t sample, esp_node parent,
                                   struct esp_args *args) {
    struct esp_str seed = {(const char *)&run->options->seed, sizeof run->options->seed};
    args->id = esp_arena_fmt(&run->arguments, "new%016llx",
                             (unsigned long long)esp_hash64(seed.ptr, seed.len, sample));
    args->data = esp_forest_data(run->forest, parent);
    return args->id.ptr ? ESP_OK : esp_fail_nomem(run->err);
}

static enum esp_status make_args(struct run *run, enum esp_op op, uint32_t sample,
                                 struct esp_args *args) {
    const struct esp_pick *pick = &run->picks[sample];
    enum esp_status status = ESP_OK;
    memset(args, 0, sizeof *args);
    args->lo = pick->lo;
    args->hi = pick->hi;
    if (op == ESP_OP_ROOTS) {
        return ESP_OK;
    }
    if (op == ESP_OP_INSERT) {
        status = make_insert(run, sample, pick->at, args);
        return status == ESP_OK ? locate(run, pick->at, &args->to) : status;
    }
    status = locate(run, pick->at, &args->at);
    if (status == ESP_OK && pick->to != ESP_NODE_NONE) {
        status = locate(run, pick->to, &args->to);
    }
    if (status == ESP_OK && op == ESP_OP_UPDATE) {
        status = make_update(run, pick->at, &args->data);
    }
    return status;
}

/* --- one operation ------------------------------------------------------------ */

static enum esp_status ignore_node(void *ctx, const struct esp_node_view *node) {
    (void)ctx;
    (void)node;
    return ESP_OK;
}

static void keep_units(struct esp_units *mean, const struct esp_units *before,
                       const struct esp_units *after) {
    mean->table += after->table - before->table;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        mean->index[i] += after->index[i] - before->index[i];
    }
}

static void keep_sample(struct run *run, uint32_t i, const struct esp_usage *before,
                        const struct esp_usage *after, uint64_t latency_ns) {
    column(run, READ_UNITS)[i] = esp_units_total(&after->read) - esp_units_total(&before->read);
    column(run, WRITE_UNITS)[i] = esp_units_total(&after->write) - esp_units_total(&before->write);
    column(run, READ_BILLED)[i] =
        esp_units_total(&after->billed_read) - esp_units_total(&before->billed_read);
    column(run, WRITE_BILLED)[i] =
        esp_units_total(&after->billed_write) - esp_units_total(&before->billed_write);
    column(run, REQUESTS)[i] = (double)(after->requests - before->requests);
    column(run, ROUND_TRIPS)[i] = (double)(after->round_trips - before->round_trips);
    column(run, ITEMS_READ)[i] = (double)(after->items_read - before->items_read);
    column(run, ITEMS_RETURNED)[i] = (double)(after->items_returned - before->items_returned);
    column(run, ITEMS_WRITTEN)[i] = (double)(after->items_written - before->items_written);
    column(run, LATENCY_US)[i] = (double)latency_ns / 1e3;
}

static enum esp_status run_sample(struct run *run, enum esp_op op, uint32_t i,
                                  struct esp_op_result *result) {
    struct esp_session *session = run->session;
    const struct esp_clock *clock = run->store->clock;
    struct esp_access access = {.layout = run->layout,
                                .session = session,
                                .scratch = &run->scratch,
                                .consistent = run->options->consistent,
                                .err = run->err};
    struct esp_args args;
    esp_arena_reset(&run->scratch);
    esp_arena_reset(&run->arguments);
    enum esp_status status = make_args(run, op, i, &args);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_usage before = session->usage;
    uint64_t started_ns = esp_now_ns(clock);
    status = esp_operate(&access, op, &args, ignore_node, NULL);
    uint64_t latency_ns = esp_now_ns(clock) - started_ns;
    if (status == ESP_OK && esp_op_info[op].write) {
        uint64_t overhead_ns = esp_undo_overhead_ns(session);
        latency_ns -= overhead_ns < latency_ns ? overhead_ns : latency_ns;
    }
    if (status != ESP_OK) {
        return status;
    }
    keep_sample(run, i, &before, &session->usage, latency_ns);
    keep_units(&result->read_mean, &before.read, &session->usage.read);
    keep_units(&result->write_mean, &before.write, &session->usage.write);
    return esp_op_info[op].write ? esp_undo_rollback(session, run->err) : ESP_OK;
}

static void divide_units(struct esp_units *units, uint32_t count) {
    units->table /= count;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        units->index[i] /= count;
    }
}

static struct esp_figure scale(struct esp_figure figure, double factor) {
    return (struct esp_figure){figure.mean * factor, figure.p50 * factor, figure.p90 * factor,
                               figure.p99 * factor, figure.max * factor};
}

static void finish_operation(struct run *run, uint32_t count, struct esp_op_result *result) {
    struct esp_figure *const figure[FIGURE_COUNT] = {
        [READ_UNITS] = &result->read_units,
        [WRITE_UNITS] = &result->write_units,
        [READ_BILLED] = &result->read_units_billed,
        [WRITE_BILLED] = &result->write_units_billed,
        [REQUESTS] = &result->requests,
        [ROUND_TRIPS] = &result->round_trips,
        [ITEMS_READ] = &result->items_read,
        [ITEMS_RETURNED] = &result->items_returned,
        [ITEMS_WRITTEN] = &result->items_written,
        [LATENCY_US] = &result->latency_us,
    };
    for (int f = 0; f < FIGURE_COUNT; f++) {
        *figure[f] = esp_figure_of(column(run, (enum figure)f), count);
    }
    if (count == 0) {
        return;
    }
    if (!run->out->remote) {
        result->modelled_us = scale(result->round_trips, run->options->round_trip_ms * 1e3);
    }
    divide_units(&result->read_mean, count);
    divide_units(&result->write_mean, count);
    result->usd_per_million = 1e6 * esp_price_requests(&run->out->prices, result->read_units.mean,
                                                       result->write_units.mean);
    result->read_estimated = run->session->usage.read_estimated;
    result->write_estimated = run->session->usage.write_estimated;
    result->samples = count;
}

/* Renumbering a large tree 200 times would take hours and say no more than a few times. */
static bool is_enough(const struct run *run, uint32_t samples, const struct esp_usage *before) {
    const struct esp_usage *now = &run->session->usage;
    return samples >= ESP_SAMPLE_TREES_MAX &&
           now->items_read - before->items_read + now->items_written - before->items_written >
               ESP_SAMPLE_ITEMS_MAX;
}

static enum esp_status run_operation(struct run *run, enum esp_op op,
                                     struct esp_op_result *result) {
    bool write = esp_op_info[op].write;
    uint32_t count =
        esp_sample_draw(run->forest, op, run->options->sample, run->options->seed, run->picks);
    result->plan = esp_layout_plan(run->layout, op);
    run->session->usage.read_estimated = run->session->usage.write_estimated = false;
    const struct esp_usage before = run->session->usage;
    enum esp_status status = write ? esp_undo_begin(run->session, run->err) : ESP_OK;
    for (uint32_t i = 0; i < count && status == ESP_OK; i++) {
        if (is_enough(run, i, &before)) {
            count = i;
            break;
        }
        if (esp_stop_wanted(run->stop)) {
            status = esp_fail(run->err, ESP_ERR_CANCELLED, "stopped on request");
            break;
        }
        status = run_sample(run, op, i, result);
        if (status != ESP_OK) {
            struct esp_str id = esp_forest_id(run->forest, run->picks[i].at);
            (void)esp_fail(run->err, status, "%s: %s of \"%.*s\": %s", run->layout->ops->name,
                           esp_op_info[op].name, ESP_FMT(id), esp_status_text(status));
        }
    }
    if (write && status != ESP_OK) { /* perhaps half of a sample is written */
        (void)esp_undo_abandon(run->session, NULL);
    } else if (write) {
        status = esp_undo_end(run->session, run->err);
    }
    if (status == ESP_OK) {
        finish_operation(run, count, result);
    }
    return status;
}

/* --- one layout --------------------------------------------------------------- */

static void finish_load(struct run *run, struct esp_layout_result *result) {
    const struct esp_survey *survey = &result->survey;
    const struct esp_prices *prices = &run->out->prices;
    result->item_bytes = survey->part[0].bytes;
    for (size_t p = 1; p <= ESP_INDEX_MAX; p++) {
        result->index_bytes += survey->part[p].bytes;
    }
    result->storage_bytes = esp_survey_storage_bytes(survey);
    result->load_usd = esp_price_requests(prices, esp_units_total(&result->load.usage.read),
                                          esp_units_total(&result->load.usage.write));
    result->import_usd = esp_price_import(prices, (double)survey->json_bytes);
    result->storage_usd_month = esp_price_storage(prices, (double)result->storage_bytes, false);
    run->out->billed = run->out->billed && result->load.usage.billed;
}

static enum esp_status measure(struct run *run, struct esp_table *table,
                               struct esp_layout_result *result, esp_compare_progress_fn *progress,
                               void *progress_ctx) {
    struct esp_load_options load = {.workers = run->options->workers};
    const char *name = run->layout->ops->name;
    if (progress) {
        progress(progress_ctx, name, "load");
    }
    enum esp_status status = esp_load_run(run->forest, run->layout, table, &load, run->stop, NULL,
                                          NULL, &result->load, run->err);
    if (status != ESP_OK) {
        return status;
    }
    finish_load(run, result);
    status = esp_session_open(table, &run->session, run->err);
    if (status != ESP_OK) {
        return status;
    }
    run->session->stop = run->stop;
    for (int op = 0; op < ESP_OP_COUNT_ALL && status == ESP_OK; op++) {
        if (run->options->op[op]) {
            if (progress) {
                progress(progress_ctx, name, esp_op_info[op].name);
            }
            status = run_operation(run, (enum esp_op)op, &result->op[op]);
        }
    }
    esp_session_close(run->session);
    return status;
}

static enum esp_status run_layout(struct run *run, struct esp_layout_result *result,
                                  esp_compare_progress_fn *progress, void *progress_ctx) {
    char name[256];
    struct esp_table_options make = {0};
    struct esp_table *table = NULL;
    struct esp_error later = ESP_ERROR_INIT; /* of tidying up after a failure */
    run->layout = result->layout;
    snprintf(name, sizeof name, "%s-%s", run->options->table_prefix, run->layout->ops->name);
    enum esp_status status = esp_survey_run(run->forest, run->layout, 0, run->store->alloc,
                                            run->stop, &result->survey, run->err);
    if (status == ESP_OK) {
        status = esp_table_prepare(run->store, name, &run->layout->schema, ESP_IF_EXISTS_FAIL,
                                   &make, run->err);
    }
    if (status != ESP_OK) {
        return status;
    }
    status = esp_table_open(run->store, name, &run->layout->schema, &table, run->err);
    if (status == ESP_OK) {
        status = measure(run, table, result, progress, progress_ctx);
    }
    esp_table_close(table);
    if (!run->options->keep_tables) {
        enum esp_status dropped =
            run->store->ops->drop_table(run->store, name, status == ESP_OK ? run->err : &later);
        status = status == ESP_OK ? dropped : status;
    }
    return status;
}

/* --- the comparison ----------------------------------------------------------- */

static enum esp_status check_options(const struct esp_comparison *c, const struct esp_store *store,
                                     struct esp_error *err) {
    if (store->ops->flags & ESP_STORE_DISCARDS) {
        return esp_fail(err, ESP_ERR_UNSUPPORTED,
                        "the %s store keeps nothing, so there is nothing to read back and compare",
                        store->ops->name);
    }
    if (c->options.sample > ESP_SAMPLE_MAX) {
        return esp_fail(err, ESP_ERR_USAGE, "a sample of %u is more than %d", c->options.sample,
                        ESP_SAMPLE_MAX);
    }
    return ESP_OK;
}

static void describe(struct esp_comparison *c, const struct esp_forest *forest,
                     const struct esp_store *store, const struct esp_compare_options *options,
                     const struct esp_prices *prices) {
    memset(c, 0, sizeof *c);
    c->options = *options;
    c->options.sample = options->sample ? options->sample : SAMPLE_DEFAULT;
    if (!(options->round_trip_ms > 0)) {
        c->options.round_trip_ms = round_trip_ms_default;
    }
    if (!options->table_prefix) {
        c->options.table_prefix = table_prefix_default;
    }
    c->prices = *prices;
    snprintf(c->store_name, sizeof c->store_name, "%s", store->ops->name);
    c->remote = store->ops->flags & ESP_STORE_REMOTE;
    c->billed = store->ops->flags & ESP_STORE_BILLS;
    c->nodes = forest->count;
    c->roots = forest->root_count;
    c->depth_max = forest->depth_max;
    c->payload_bytes = forest->data_bytes;
    c->started_wall_ns = esp_wall_ns(store->clock);
}

static enum esp_status run_layouts(struct run *run, esp_compare_progress_fn *progress,
                                   void *progress_ctx) {
    struct esp_comparison *out = run->out;
    const struct esp_alloc *alloc = run->store->alloc;
    size_t sample = out->options.sample;
    enum esp_status status = ESP_OK;
    run->picks = esp_calloc(alloc, sample, sizeof *run->picks);
    run->values = esp_calloc(alloc, FIGURE_COUNT * sample, sizeof *run->values);
    esp_arena_init(&run->scratch, alloc, SIZE_MAX);
    esp_arena_init(&run->arguments, alloc, SIZE_MAX);
    if (!run->picks || !run->values) {
        status = esp_fail_nomem(run->err);
    }
    /* All are checked before the first is loaded. */
    for (size_t i = 0; i < out->options.layout_count && status == ESP_OK; i++) {
        const struct esp_layout *layout = &out->options.layouts[i];
        out->layout[i].layout = layout;
        status = layout->ops->validate(layout, run->forest, run->err);
    }
    for (size_t i = 0; i < out->options.layout_count && status == ESP_OK; i++) {
        status = run_layout(run, &out->layout[i], progress, progress_ctx);
    }
    esp_arena_fini(&run->arguments);
    esp_arena_fini(&run->scratch);
    esp_release(alloc, run->values, FIGURE_COUNT * sample * sizeof *run->values);
    esp_release(alloc, run->picks, sample * sizeof *run->picks);
    return status;
}

enum esp_status esp_compare_run(const struct esp_forest *forest, struct esp_store *store,
                                const struct esp_compare_options *options,
                                const struct esp_prices *prices, const volatile int *stop,
                                esp_compare_progress_fn *progress, void *progress_ctx,
                                struct esp_comparison *out, struct esp_error *err) {
    uint64_t started_ns = esp_now_ns(store->clock);
    describe(out, forest, store, options, prices);
    enum esp_status status = check_options(out, store, err);
    if (status != ESP_OK) {
        return status;
    }
    out->layout = esp_calloc(store->alloc, options->layout_count, sizeof *out->layout);
    if (!out->layout) {
        return esp_fail_nomem(err);
    }
    struct run run = {.forest = forest,
                      .store = store,
                      .options = &out->options,
                      .stop = stop,
                      .out = out,
                      .err = err};
    status = run_layouts(&run, progress, progress_ctx);
    out->elapsed_ns = esp_now_ns(store->clock) - started_ns;
    return status;
}

void esp_comparison_fini(struct esp_comparison *comparison, const struct esp_alloc *alloc) {
    esp_release(alloc, comparison->layout,
                comparison->options.layout_count * sizeof *comparison->layout);
    comparison->layout = NULL;
}
