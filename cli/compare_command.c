/* espalier compare: what each layout costs to load, to read and to write. */
#include "cli/measure.h"

struct compare_options {
    struct esp_measure_options measure; /* first */
    const char *ops;
};

static const struct esp_option own_options[] = {
    {.name = "ops",
     .type = ESP_OPT_STRING,
     .offset = offsetof(struct compare_options, ops),
     .argument = "X,Y,...",
     .help = "operations to run (default all; none: only load)"},
    {.name = NULL},
};

static enum esp_status run(struct esp_cli *cli, void *values, char **operands, size_t count) {
    const struct compare_options *options = values;
    bool op[ESP_OP_COUNT_ALL] = {false};
    struct esp_measurement m;
    enum esp_status status = ESP_OK;
    if (!options->ops || strcmp(options->ops, "none") != 0) {
        status = esp_measure_operations(cli, options->ops, op);
    }
    if (status != ESP_OK) {
        return status;
    }
    status = esp_measure_run(cli, &options->measure, op, operands, count, &m);
    if (status == ESP_OK) {
        status =
            esp_measure_report(cli, &options->measure, &m, &m.comparison, NULL, "espalier-compare");
    }
    esp_measure_close(cli, &m);
    return status;
}

static const struct esp_option *const option_tables[] = {
    own_options,          esp_measure_option_table, esp_source_option_table, esp_cli_store_options,
    esp_cli_read_options, esp_cli_json_option,      esp_cli_progress_option, NULL,
};

const struct esp_command esp_command_compare = {
    .name = "compare",
    .summary = "load a tree in several layouts and measure every operation on each",
    .operands = "SOURCE...",
    .required = "",
    .details = "Writes are undone after each sample. Prints the matrix and writes it to\n"
               "espalier-compare.md and espalier-compare.json. docs/measuring.md says what the\n"
               "figures mean.\n",
    .example = "  espalier compare datasets/world.csv\n"
               "  espalier compare tree.csv --layouts path,adjacency --ops children,move --json\n",
    .options = option_tables,
    .options_size = sizeof(struct compare_options),
    .operand_min = 1,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
