/* espalier plan: what a workload on a tree costs a month in each layout. */
#include "cli/measure.h"

struct plan_options {
    struct esp_measure_options measure; /* first */
    const char *workload;
    double rate, headroom;
    bool free_tier;
};

#define FIELD(name) offsetof(struct plan_options, name)
static const struct esp_option own_options[] = {
    {.name = "workload",
     .type = ESP_OPT_STRING,
     .offset = FIELD(workload),
     .argument = "FILE|NAME",
     .help = "mix and rate of operations (espalier list workloads)"},
    {.name = "rate",
     .type = ESP_OPT_DOUBLE,
     .offset = FIELD(rate),
     .argument = "N",
     .help = "operations a second, instead of the workload's"},
    {.name = "headroom",
     .type = ESP_OPT_DOUBLE,
     .offset = FIELD(headroom),
     .argument = "PERCENT",
     .fallback = "30",
     .help = "provisioned capacity above the mean"},
    {.name = "free-tier",
     .type = ESP_OPT_FLAG,
     .offset = FIELD(free_tier),
     .help = "take the free storage off"},
    {.name = NULL},
};
#undef FIELD

static enum esp_status make_plan(struct esp_cli *cli, const struct plan_options *options,
                                 const struct esp_workload *workload,
                                 const struct esp_measurement *m) {
    struct esp_plan_options plan_options = {.headroom_percent = options->headroom,
                                            .free_tier = options->free_tier};
    struct esp_plan_result plan;
    enum esp_status status =
        esp_plan_make(&m->comparison, workload, &plan_options, cli->alloc, &plan, &cli->err);
    if (status == ESP_OK) {
        status = esp_measure_report(cli, &options->measure, m, NULL, &plan, "espalier-plan");
    }
    esp_plan_fini(&plan, cli->alloc);
    return status;
}

static enum esp_status run(struct esp_cli *cli, void *values, char **operands, size_t count) {
    const struct plan_options *options = values;
    bool op[ESP_OP_COUNT_ALL];
    struct esp_workload workload;
    struct esp_measurement m;
    enum esp_status status = esp_cli_require(cli, options->workload, "--workload NAME");
    if (status == ESP_OK) {
        status = esp_workload_load(options->workload, cli->alloc, &workload, &cli->err);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (options->rate > 0) {
        workload.rate_per_second = options->rate;
    }
    for (int i = 0; i < ESP_OP_COUNT_ALL; i++) {
        op[i] = workload.share[i] > 0;
    }
    status = esp_measure_run(cli, &options->measure, op, operands, count, &m);
    if (status == ESP_OK) {
        status = make_plan(cli, options, &workload, &m);
    }
    esp_measure_close(cli, &m);
    return status;
}

static const struct esp_option *const option_tables[] = {
    own_options,          esp_measure_option_table, esp_source_option_table, esp_cli_store_options,
    esp_cli_read_options, esp_cli_json_option,      esp_cli_progress_option, NULL,
};

const struct esp_command esp_command_plan = {
    .name = "plan",
    .summary = "plan capacity: units, money, storage, load and hot keys of a workload",
    .operands = "SOURCE...",
    .required = "--workload FILE|NAME",
    .details = "Measures the workload's operations as compare does, then multiplies with the rate\n"
               "and prices. Writes espalier-plan.md and espalier-plan.json.\n",
    .example = "  espalier plan datasets/world.csv --workload read-heavy --rate 500\n",
    .options = option_tables,
    .options_size = sizeof(struct plan_options),
    .operand_min = 1,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
