/* espalier drop: delete a table, after asking. */
#include "cli/shared.h"

#include <stdio.h>
#include <unistd.h>

struct drop_options {
    struct esp_cli_options shared;
    bool yes;
};

static enum esp_status confirm(struct esp_cli *cli, const char *table) {
    char answer[16];
    if (!isatty(STDIN_FILENO)) {
        cli->hint = "--yes drops it without asking";
        return esp_fail(&cli->err, ESP_ERR_USAGE,
                        "table %s is not dropped: there is no terminal to ask on", table);
    }
    fprintf(stderr, "Drop table %s with everything in it? [y/N] ", table);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y')) {
        return ESP_OK;
    }
    return esp_fail(&cli->err, ESP_ERR_CANCELLED, "table %s is not dropped", table);
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct drop_options *o = options;
    struct esp_store *store;
    (void)count;
    enum esp_status status = esp_cli_require(cli, o->shared.table, "--table NAME");
    if (status == ESP_OK) {
        cli->config.must_exist = true;
        status = esp_cli_store_open(cli, &o->shared, operands[0], &store);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (!o->yes) {
        status = confirm(cli, o->shared.table);
    }
    if (status == ESP_OK) {
        status = store->ops->drop_table(store, o->shared.table, &cli->err);
    }
    if (status == ESP_OK) {
        fprintf(stderr, "table %s is dropped\n", o->shared.table);
    }
    esp_store_close(store);
    return status;
}

static const struct esp_option own_options[] = {{.name = "yes",
                                                 .type = ESP_OPT_FLAG,
                                                 .offset = offsetof(struct drop_options, yes),
                                                 .help = "do not ask"},
                                                {.name = NULL}};
static const struct esp_option *const tables[] = {esp_cli_table_options, own_options,
                                                  esp_cli_store_options, NULL};

const struct esp_command esp_command_drop = {
    .name = "drop",
    .summary = "delete a table with everything in it",
    .operands = "STORE",
    .required = "--table NAME",
    .example = "  espalier drop local:db --table world --yes\n",
    .options = tables,
    .options_size = sizeof(struct drop_options),
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
