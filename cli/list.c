/* espalier list: what there is, read from the registries. */
#include "bench/workload.h"
#include "cli/help.h"
#include "cli/profiles.h"
#include "cli/shared.h"

#include <stdio.h>

enum { LIST_BYTES_MAX = 4 << 20 };

struct list_options {
    struct esp_cli_options shared;
    bool markdown, man;
};

/* One row of a list: a name, one line of text. */
struct list {
    struct esp_buf text;
    bool json;
    size_t count;
};

static void put_row(struct list *list, const char *name, const char *text) {
    if (!list->json) {
        esp_buf_printf(&list->text, "%-16s %s\n", name, text);
        return;
    }
    if (list->count++) {
        esp_buf_put_char(&list->text, ',');
    }
    ESP_BUF_LIT(&list->text, "{\"name\":");
    esp_json_put_string(&list->text, esp_str_from(name));
    ESP_BUF_LIT(&list->text, ",\"text\":");
    esp_json_put_string(&list->text, esp_str_from(text));
    ESP_BUF_LIT(&list->text, "}");
}

static void list_layouts(struct list *list) {
    for (size_t i = 0; esp_layouts[i]; i++) {
        put_row(list, esp_layouts[i]->name, esp_layouts[i]->summary);
    }
}

static void list_operations(struct list *list) {
    for (size_t i = 0; i < ESP_OP_COUNT_ALL; i++) {
        char text[256];
        snprintf(text, sizeof text, "%-14s %s%s", esp_op_info[i].arguments, esp_op_info[i].text,
                 esp_op_info[i].write ? " (write: espalier edit)" : "");
        put_row(list, esp_op_info[i].name, text);
    }
}

static void list_importers(struct list *list) {
    for (size_t i = 0; esp_importers[i]; i++) {
        put_row(list, esp_importers[i]->name, esp_importers[i]->summary);
    }
}

static void list_stores(struct list *list) {
    for (size_t i = 0; esp_stores[i]; i++) {
        put_row(list, esp_stores[i]->schemes, esp_stores[i]->summary);
    }
}

static void list_profiles(struct list *list) {
    for (const struct esp_profile *p = esp_profiles; p->name; p++) {
        put_row(list, p->name, p->summary);
    }
}

static void list_workloads(struct list *list) {
    struct esp_workload workload;
    for (size_t i = 0; esp_workload_builtin(i, &workload, NULL) == ESP_OK; i++) {
        put_row(list, workload.name, workload.summary);
    }
}

static void list_commands(struct list *list) {
    for (size_t i = 0; esp_commands[i]; i++) {
        put_row(list, esp_commands[i]->name, esp_commands[i]->summary);
    }
}

static const struct {
    const char *name;
    void (*fill)(struct list *list);
} kinds[] = {
    {"layouts", list_layouts},   {"operations", list_operations}, {"importers", list_importers},
    {"stores", list_stores},     {"profiles", list_profiles},     {"workloads", list_workloads},
    {"commands", list_commands},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static const char *kind_name(size_t i) {
    return kinds[i].name;
}

static enum esp_status unknown_kind(struct esp_cli *cli, const char *name) {
    const char *nearest = esp_cli_nearest(name, kind_name, KIND_COUNT);
    return esp_fail(&cli->err, ESP_ERR_USAGE, "there is no list of %s%s%s%s", name,
                    nearest ? ": did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static enum esp_status fill(struct esp_cli *cli, const struct list_options *o, const char *kind,
                            struct list *list) {
    size_t k = 0;
    while (k < KIND_COUNT && strcmp(kinds[k].name, kind) != 0) {
        k++;
    }
    if (k == KIND_COUNT) {
        return unknown_kind(cli, kind);
    }
    if ((o->markdown || o->man) && kinds[k].fill != list_commands) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "--%s is for list commands",
                        o->markdown ? "markdown" : "man");
    }
    if (o->markdown) {
        esp_help_put_markdown(&list->text);
    } else if (o->man) {
        esp_help_put_man(&list->text);
    } else if (list->json) {
        esp_buf_printf(&list->text, "{\"schema\":1,\"%s\":[", kind);
        kinds[k].fill(list);
        ESP_BUF_LIT(&list->text, "]}\n");
    } else {
        kinds[k].fill(list);
    }
    return ESP_OK;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    const struct list_options *o = options;
    struct list list = {.json = o->shared.json};
    (void)count;
    esp_buf_init(&list.text, cli->alloc, LIST_BYTES_MAX);
    enum esp_status status = fill(cli, o, operands[0], &list);
    if (status == ESP_OK) {
        status = esp_cli_print(cli, &list.text);
    }
    esp_buf_fini(&list.text);
    return status;
}

static const struct esp_option own_options[] = {
    {.name = "markdown",
     .type = ESP_OPT_FLAG,
     .offset = offsetof(struct list_options, markdown),
     .help = "list commands: the whole reference, as docs/cli.md"},
    {.name = "man",
     .type = ESP_OPT_FLAG,
     .offset = offsetof(struct list_options, man),
     .help = "list commands: the manual page"},
    {.name = NULL}};
static const struct esp_option *const tables[] = {own_options, esp_cli_json_option, NULL};

const struct esp_command esp_command_list = {
    .name = "list",
    .summary = "show the layouts, operations, formats and stores there are",
    .operands = "layouts|operations|importers|stores|profiles|workloads|commands",
    .required = "",
    .example = "  espalier list layouts\n",
    .options = tables,
    .options_size = sizeof(struct list_options),
    .operand_min = 1,
    .operand_max = 1,
    .run = run,
};
