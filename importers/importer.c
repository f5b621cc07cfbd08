#include "importers/importer.h"

#define ESP_IMPORTER(name, source) extern const struct esp_importer esp_importer_##name;
#include "importers/importers.def"
#undef ESP_IMPORTER

const struct esp_importer *const esp_importers[] = {
#define ESP_IMPORTER(name, source) &esp_importer_##name,
#include "importers/importers.def"
#undef ESP_IMPORTER
    NULL};

#define SOURCE_OPTION(field, kind, flag, argument_text, help_text)                                 \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct esp_source_options, field),          \
        .argument = argument_text, .help = help_text                                               \
    }
const struct esp_option esp_source_option_table[] = {
    SOURCE_OPTION(from, ESP_OPT_STRING, "from", "FORMAT",
                  "format of the source: csv, json or jsonl; recognised when not given"),
    SOURCE_OPTION(id, ESP_OPT_STRING, "id", "COLUMN",
                  "column (name or number) or JSON key of the node's id"),
    SOURCE_OPTION(parent, ESP_OPT_STRING, "parent", "COLUMN",
                  "column (name or number) or JSON key of the parent's id"),
    SOURCE_OPTION(parent_none, ESP_OPT_STRING, "parent-none", "VALUE",
                  "a parent value that means: this node is a root"),
    SOURCE_OPTION(children, ESP_OPT_STRING, "children", "KEY",
                  "JSON key of the nested children (children)"),
    SOURCE_OPTION(separator, ESP_OPT_STRING, "separator", "C",
                  "CSV separator; recognised when not given: comma, semicolon or tab"),
    SOURCE_OPTION(column, ESP_OPT_LIST, "column", "NAME:TYPE",
                  "type of a column: S N BOOL NULL L M SS NS B; may be repeated"),
    SOURCE_OPTION(infer, ESP_OPT_FLAG, "infer", NULL,
                  "make numbers and true/false of text where that loses nothing"),
    {.name = NULL}};

const struct esp_importer *esp_importer_find(const char *name) {
    for (size_t i = 0; esp_importers[i]; i++) {
        if (strcmp(esp_importers[i]->name, name) == 0) {
            return esp_importers[i];
        }
    }
    return NULL;
}

enum esp_status esp_importer_choose(struct esp_reader *in, const struct esp_source_options *options,
                                    const struct esp_importer **out, struct esp_error *err) {
    (void)in, (void)options, (void)out;
    return esp_fail(err, ESP_ERR_UNSUPPORTED, "importers are not there yet");
}

enum esp_status esp_import_files(const char *const *paths, size_t path_count,
                                 const struct esp_source_options *options,
                                 const struct esp_alloc *alloc, struct esp_forest **out,
                                 uint64_t *rows, struct esp_error *err) {
    (void)paths, (void)path_count, (void)options, (void)alloc, (void)out, (void)rows;
    return esp_fail(err, ESP_ERR_UNSUPPORTED, "importers are not there yet");
}
