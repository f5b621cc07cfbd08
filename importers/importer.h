#ifndef ESP_IMPORTERS_IMPORTER_H
#define ESP_IMPORTERS_IMPORTER_H
/*
 * Importer: bytes in, records out.  Knows a file format, knows nothing about
 * layouts or stores.  To add one: write importers/NAME.c defining
 * `const struct esp_importer esp_importer_NAME` and add one line to
 * importers/importers.def.
 */
#include "core/option.h"
#include "core/reader.h"
#include "tree/forest.h"

/* Receives one record; a status other than ESP_OK stops the import and is returned. */
typedef enum esp_status esp_record_fn(void *ctx, const struct esp_record *record,
                                      struct esp_error *err);

/* How a source is to be read; the union of what the formats need (cli.md: Sources). */
struct esp_source_options {
    const char *from;          /* "csv", "json", "jsonl"; NULL = recognise */
    const char *id, *parent;   /* column name or 1-based number, or JSON key; NULL = usual names */
    const char *parent_none;   /* a parent value that means: root; NULL = only empty */
    const char *children;      /* JSON key of the nested children; NULL = "children" */
    const char *separator;     /* CSV: one byte; NULL = ',' (';' or tab when recognised) */
    struct esp_strings column; /* "NAME:TYPE" */
    bool infer;                /* N and BOOL where that is lossless */
    bool several_parents;      /* as in struct esp_forest_options; no option of the table */
    bool own_parent;           /* a parent that is the id itself is passed on, and means no root; no
                                  option of the table either */
};
extern const struct esp_option esp_source_option_table[]; /* --from --id --parent ... */

struct esp_importer {
    const char *name;              /* "csv": the value of --from */
    const char *summary;           /* one line for `espalier list importers` */
    const char *const *extensions; /* {"csv", "tsv", NULL} */

    /* How likely `head` (up to 4096 bytes) is this format: 0 = no, 100 = certain. */
    int (*sniff)(struct esp_str head);
    /* Push every record to `emit`, in file order, holding at most one buffer of input.
     * err gets source, line, column and byte offset. */
    enum esp_status (*run)(struct esp_reader *in, const struct esp_source_options *options,
                           const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                           struct esp_error *err);
};

extern const struct esp_importer *const esp_importers[];        /* NULL-terminated */
const struct esp_importer *esp_importer_find(const char *name); /* or NULL */
/* By name, else by content and extension; ERR_USAGE / ERR_INPUT with what to do. */
enum esp_status esp_importer_choose(struct esp_reader *in, const struct esp_source_options *options,
                                    const struct esp_importer **out,
                                    struct esp_error *err) ESP_MUST_CHECK;

/* Several files, their lines counted through: line_starts[i] lines come before those of file i. */
struct esp_sources {
    const char *const *paths;
    size_t count;
    uint64_t *line_starts;
};
/* The file that has *line, which becomes the number there. */
const char *esp_sources_locate(const struct esp_sources *sources, uint64_t *line);

/* The whole way from files (or "-") to a forest. `rows` (may be NULL) counts records.  The
 * forest's lines are counted through; `line_starts` (path_count of them; NULL for one file) is
 * filled for esp_sources_locate. */
enum esp_status esp_import_files(const char *const *paths, size_t path_count,
                                 const struct esp_source_options *options,
                                 const struct esp_alloc *alloc, struct esp_forest **out,
                                 uint64_t *rows, uint64_t *line_starts,
                                 struct esp_error *err) ESP_MUST_CHECK;

/* --- shared by the formats (importers/columns.c) ------------------------------- */

/* What becomes of a column or key: its name encoded once, its type. */
struct esp_column {
    struct esp_str name;
    char *json_prefix; /* `"name":` */
    size_t json_prefix_len;
    char type[5]; /* "S", "N", "BOOL", "NULL", "L", "M", "SS", "NS", "B"; "" = by --infer or S */
};
/* Append one member made of text `value` (UTF-8) to `out`, and its charged size to *size; the
 * comma before it is the caller's.  Empty text makes no member.  ERR_INPUT when the text is not of
 * the column's type, ERR_LIMIT when *size is more than an item can hold.  Errors are without a
 * position: the caller adds it. */
enum esp_status esp_column_put(const struct esp_column *column, struct esp_str value, bool infer,
                               struct esp_buf *out, uint32_t *size,
                               struct esp_error *err) ESP_MUST_CHECK;

#endif
