#include "bench/plan.h"

#include <math.h>

/* What a new on-demand table, and each of its indexes, takes at once (facts sheet 5.2). */
static const double new_table_write_units_second = 4000;
static const double gb_bytes = 1024.0 * 1024.0 * 1024.0;

static double units_of_part(const struct esp_units *units, size_t part) {
    return part == 0 ? units->table : units->index[part - 1];
}

static double provision(double units_second, double headroom_percent) {
    double units = ceil(units_second * (1 + headroom_percent / 100));
    return units > 1 ? units : 1;
}

static void plan_part(const struct esp_plan_result *plan, const struct esp_layout_result *measured,
                      size_t p, struct esp_plan_part *out) {
    const struct esp_workload *workload = &plan->workload;
    const struct esp_survey_part *survey = &measured->survey.part[p];
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        double rate = workload->rate_per_second * workload->share[op];
        if (rate > 0) {
            out->read_units_second += rate * units_of_part(&measured->op[op].read_mean, p);
            out->write_units_second += rate * units_of_part(&measured->op[op].write_mean, p);
        }
    }
    out->read_provisioned = provision(out->read_units_second, plan->options.headroom_percent);
    out->write_provisioned = provision(out->write_units_second, plan->options.headroom_percent);
    if (survey->write_units > 0) {
        out->hot_write_share = survey->hot.units / survey->write_units;
        out->hot_read_share = (double)survey->hot.bytes / (double)survey->bytes;
    }
    out->hot_read_second = out->read_units_second * out->hot_read_share;
    out->hot_write_second = out->write_units_second * out->hot_write_share;
    out->load_seconds_hot = survey->hot.units / ESP_PARTITION_WRITE_MAX;
}

static void plan_layout(const struct esp_plan_result *plan, struct esp_plan_layout *out) {
    const struct esp_layout_result *measured = out->measured;
    const struct esp_prices *prices = &plan->comparison->prices;
    const double month_s = ESP_MONTH_HOURS * 3600.0;
    double read_provisioned = 0, write_provisioned = 0;
    out->part_count = 1 + measured->layout->schema.index_count;
    for (size_t p = 0; p < out->part_count; p++) {
        struct esp_plan_part *part = &out->part[p];
        const struct esp_survey_part *survey = &measured->survey.part[p];
        plan_part(plan, measured, p, part);
        out->read_units_month += part->read_units_second * month_s;
        out->write_units_month += part->write_units_second * month_s;
        read_provisioned += part->read_provisioned;
        write_provisioned += part->write_provisioned;
        out->load_write_units += survey->write_units;
        out->load_seconds_new =
            fmax(out->load_seconds_new,
                 fmax(survey->write_units / new_table_write_units_second, part->load_seconds_hot));
        out->too_hot = out->too_hot || part->hot_read_second > ESP_PARTITION_READ_MAX ||
                       part->hot_write_second > ESP_PARTITION_WRITE_MAX;
    }
    out->usd_on_demand = esp_price_requests(prices, out->read_units_month, out->write_units_month);
    out->usd_provisioned = esp_price_provisioned(prices, read_provisioned, write_provisioned);
    out->storage_gb = (double)measured->storage_bytes / gb_bytes;
    out->usd_storage =
        esp_price_storage(prices, (double)measured->storage_bytes, plan->options.free_tier);
    out->usd_load_batch = esp_price_requests(prices, 0, out->load_write_units);
    out->import_gb = (double)measured->survey.json_bytes / gb_bytes;
    out->usd_load_import = measured->import_usd;
}

static enum esp_status check_measured(const struct esp_comparison *comparison,
                                      const struct esp_workload *workload, struct esp_error *err) {
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        for (size_t i = 0; i < comparison->options.layout_count; i++) {
            if (workload->share[op] > 0 && comparison->layout[i].op[op].samples == 0) {
                return esp_fail(err, ESP_ERR_USAGE,
                                "workload %s has \"%s\", for which this tree gave no sample",
                                workload->name, esp_op_info[op].name);
            }
        }
    }
    return ESP_OK;
}

enum esp_status esp_plan_make(const struct esp_comparison *comparison,
                              const struct esp_workload *workload,
                              const struct esp_plan_options *options, const struct esp_alloc *alloc,
                              struct esp_plan_result *out, struct esp_error *err) {
    *out = (struct esp_plan_result){
        .comparison = comparison, .workload = *workload, .options = *options};
    enum esp_status status = check_measured(comparison, workload, err);
    if (status != ESP_OK) {
        return status;
    }
    out->layout = esp_calloc(alloc, comparison->options.layout_count, sizeof *out->layout);
    if (!out->layout) {
        return esp_fail_nomem(err);
    }
    for (size_t i = 0; i < comparison->options.layout_count; i++) {
        out->layout[i].measured = &comparison->layout[i];
        plan_layout(out, &out->layout[i]);
    }
    return ESP_OK;
}

void esp_plan_fini(struct esp_plan_result *plan, const struct esp_alloc *alloc) {
    if (plan->layout) {
        esp_release(alloc, plan->layout,
                    plan->comparison->options.layout_count * sizeof *plan->layout);
    }
    plan->layout = NULL;
}
