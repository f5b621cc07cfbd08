#include "importers/importer.h"

#include <stdio.h>
#include <strings.h>

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
                  "format of the source: csv, tsv, json or jsonl; recognised when not given"),
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

static bool has_extension(const struct esp_importer *importer, struct esp_str extension) {
    for (size_t i = 0; importer->extensions[i]; i++) {
        struct esp_str known = esp_str_from(importer->extensions[i]);
        if (known.len == extension.len && strncasecmp(known.ptr, extension.ptr, known.len) == 0) {
            return true;
        }
    }
    return false;
}

const struct esp_importer *esp_importer_find(const char *name) {
    for (size_t i = 0; esp_importers[i]; i++) {
        if (strcmp(esp_importers[i]->name, name) == 0) {
            return esp_importers[i];
        }
    }
    for (size_t i = 0; esp_importers[i]; i++) { /* "tsv" is read by csv */
        if (has_extension(esp_importers[i], esp_str_from(name))) {
            return esp_importers[i];
        }
    }
    return NULL;
}

/* "csv" of "dir/x.CSV.gz"; empty when there is none. */
static struct esp_str file_extension(const char *name) {
    const char *slash = strrchr(name, '/');
    struct esp_str base = esp_str_from(slash ? slash + 1 : name);
    for (;;) {
        const char *dot = memrchr(base.ptr, '.', base.len);
        if (!dot) {
            return (struct esp_str){NULL, 0};
        }
        struct esp_str extension = {dot + 1, base.len - (size_t)(dot + 1 - base.ptr)};
        if (!(extension.len == 2 && strncasecmp(extension.ptr, "gz", 2) == 0) &&
            !(extension.len == 3 && strncasecmp(extension.ptr, "zst", 3) == 0)) {
            return extension;
        }
        base.len = (size_t)(dot - base.ptr);
    }
}

/* "csv, json, jsonl" */
static const char *list_importers(char out[256]) {
    size_t len = 0;
    out[0] = 0;
    for (size_t i = 0; esp_importers[i] && len < 200; i++) {
        len +=
            (size_t)snprintf(out + len, 256 - len, "%s%s", i ? ", " : "", esp_importers[i]->name);
    }
    return out;
}

enum { SNIFF_BYTES = 4096, EXTENSION_SCORE = 25 };

enum esp_status esp_importer_choose(struct esp_reader *in, const struct esp_source_options *options,
                                    const struct esp_importer **out, struct esp_error *err) {
    char list[256];
    *out = NULL;
    if (options->from) {
        *out = esp_importer_find(options->from);
        return *out ? ESP_OK
                    : esp_fail(err, ESP_ERR_USAGE,
                               "--from %.50s: there is no such format; there are %s", options->from,
                               list_importers(list));
    }
    struct esp_str head;
    enum esp_status status = esp_reader_peek(in, SNIFF_BYTES, &head, err);
    if (status != ESP_OK) {
        return status;
    }
    if (head.len == 0) {
        return esp_fail(err, ESP_ERR_INPUT, "the file is empty");
    }
    if (head.len >= 2 &&
        (memcmp(head.ptr, "\xff\xfe", 2) == 0 || memcmp(head.ptr, "\xfe\xff", 2) == 0)) {
        return esp_fail(err, ESP_ERR_INPUT,
                        "the file is UTF-16: convert it first (iconv -f UTF-16 -t UTF-8)");
    }
    struct esp_str extension = file_extension(esp_reader_name(in));
    int best = 0;
    for (size_t i = 0; esp_importers[i]; i++) {
        int score = esp_importers[i]->sniff(head);
        score += score && has_extension(esp_importers[i], extension) ? EXTENSION_SCORE : 0;
        if (score > best) {
            best = score;
            *out = esp_importers[i];
        }
    }
    return best ? ESP_OK
                : esp_fail(err, ESP_ERR_INPUT,
                           "the file's format is not recognised: name it with --from (%s)",
                           list_importers(list));
}

/* --- files to a forest ------------------------------------------------------------------ */

struct sink {
    struct esp_forest_builder *builder;
    uint64_t rows;
    uint64_t line_start, line_end; /* lines before this file; the last one seen, counted through */
};

static enum esp_status add_record(void *ctx, const struct esp_record *record,
                                  struct esp_error *err) {
    struct sink *sink = ctx;
    sink->rows++;
    if (sink->line_start == 0) {
        sink->line_end = record->line > sink->line_end ? record->line : sink->line_end;
        return esp_forest_builder_add(sink->builder, record, err);
    }
    struct esp_record counted = *record;
    counted.line += sink->line_start;
    sink->line_end = counted.line > sink->line_end ? counted.line : sink->line_end;
    return esp_forest_builder_add(sink->builder, &counted, err);
}

const char *esp_sources_locate(const struct esp_sources *sources, uint64_t *line) {
    size_t i = sources->count - 1;
    while (i > 0 && sources->line_starts[i] >= *line) {
        i--;
    }
    *line -= sources->line_starts[i];
    return sources->paths[i];
}

static const char *locate(void *ctx, uint64_t *line) {
    return esp_sources_locate(ctx, line);
}

static enum esp_status import_file(const char *path, const struct esp_source_options *options,
                                   const struct esp_alloc *alloc, struct sink *sink,
                                   struct esp_error *err) {
    struct esp_reader *in;
    enum esp_status status = esp_reader_open(path, alloc, &in, err);
    if (status == ESP_OK) {
        const struct esp_importer *importer;
        status = esp_importer_choose(in, options, &importer, err);
        if (status == ESP_OK) {
            status = importer->run(in, options, alloc, add_record, sink, err);
        }
        esp_reader_close(in);
    }
    if (status != ESP_OK && status != ESP_ERR_USAGE && err && !err->source[0]) {
        snprintf(err->source, sizeof err->source, "%s", path);
    }
    return status;
}

static enum esp_status check_paths(const char *const *paths, size_t path_count,
                                   struct esp_error *err) {
    size_t stdin_count = 0;
    for (size_t i = 0; i < path_count; i++) {
        stdin_count += strcmp(paths[i], "-") == 0;
    }
    if (path_count == 0 || stdin_count > 1) {
        return esp_fail(err, ESP_ERR_USAGE,
                        path_count ? "standard input (-) can be read only once"
                                   : "no source: name a file, or - for standard input");
    }
    return ESP_OK;
}

enum esp_status esp_import_files(const char *const *paths, size_t path_count,
                                 const struct esp_source_options *options,
                                 const struct esp_alloc *alloc, struct esp_forest **out,
                                 uint64_t *rows, uint64_t *line_starts, struct esp_error *err) {
    *out = NULL;
    enum esp_status status = check_paths(paths, path_count, err);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_sources sources = {paths, path_count, line_starts};
    struct esp_forest_options forest_options = {
        .source = paths[0], .own_id_is_root = true, .several_parents = options->several_parents};
    if (path_count > 1 && line_starts) {
        forest_options.locate = locate;
        forest_options.locate_ctx = &sources;
    }
    struct sink sink = {.rows = 0};
    status = esp_forest_builder_new(alloc, &forest_options, &sink.builder, err);
    if (status != ESP_OK) {
        return status;
    }
    for (size_t i = 0; i < path_count && status == ESP_OK; i++) {
        sink.line_start = path_count > 1 ? sink.line_end : 0;
        if (line_starts) {
            line_starts[i] = sink.line_start;
        }
        status = import_file(paths[i], options, alloc, &sink, err);
    }
    if (rows) {
        *rows = sink.rows;
    }
    if (status != ESP_OK) {
        esp_forest_builder_free(sink.builder);
        return status;
    }
    status = esp_forest_freeze(sink.builder, out, err);
    if (status != ESP_OK && err && !err->source[0]) {
        snprintf(err->source, sizeof err->source, "%s", paths[0]);
    }
    return status;
}
