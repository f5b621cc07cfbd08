#ifndef ESP_CLI_SHARED_H
#define ESP_CLI_SHARED_H
/*
 * What several subcommands take and do alike: options of sources, stores and layouts, opening
 * them, printing.
 */
#include "bench/prices.h"
#include "cli/command.h"
#include "converters/layout.h"
#include "importers/importer.h"

/* The fields of the shared option tables.  A command's own options struct has this as its
 * first member (or is this). */
struct esp_cli_options {
    struct esp_source_options source; /* first: esp_source_option_table points into it */
    bool help;
    /* layout */
    const char *layout,
        *layout_file; /* the file is read into layout and set before a command runs */
    struct esp_strings set;
    const char *edges; /* cli/edges.h */
    /* store */
    const char *table;
    uint64_t connections, batch, timeout_s;
    const char *region, *profile;
    /* output */
    bool json, consistent;
    const char *progress; /* NULL: on a terminal only; "": always; "json" */
};
extern const struct esp_option esp_cli_help_option[];     /* --help: every command has it */
extern const struct esp_option esp_cli_layout_options[];  /* --layout --layout-file --set */
extern const struct esp_option esp_cli_table_options[];   /* --table */
extern const struct esp_option esp_cli_store_options[];   /* --connections --batch --region ... */
extern const struct esp_option esp_cli_read_options[];    /* --consistent */
extern const struct esp_option esp_cli_json_option[];     /* --json */
extern const struct esp_option esp_cli_progress_option[]; /* --progress */

/* ERR_USAGE "import needs --table NAME" unless value is given. */
enum esp_status esp_cli_require(struct esp_cli *cli, const char *value,
                                const char *option) ESP_MUST_CHECK;

/* Files (or "-") to a forest; *rows (may be NULL): records read. */
enum esp_status esp_cli_read_source(struct esp_cli *cli, const struct esp_cli_options *options,
                                    char **paths, size_t count, struct esp_forest **forest,
                                    uint64_t *rows) ESP_MUST_CHECK;
/* Validate a forest for a layout: as layout->ops->validate, with the file named. */
enum esp_status esp_cli_validate(struct esp_cli *cli, const struct esp_layout *layout,
                                 const struct esp_forest *forest, char **paths,
                                 size_t count) ESP_MUST_CHECK;
/* What an errno of opening a file by a name the user gave means: ERR_INPUT when another name
 * is needed, else ERR_IO. */
enum esp_status esp_cli_open_status(int number);
/* A layout by name with the --set options given; ERR_USAGE proposes the nearest name. */
enum esp_status esp_cli_layout_open(struct esp_cli *cli, const char *name,
                                    const struct esp_strings *sets,
                                    struct esp_layout *layout) ESP_MUST_CHECK;
/* A store with the settings of the store options; closed with esp_store_close. */
enum esp_status esp_cli_store_open(struct esp_cli *cli, const struct esp_cli_options *options,
                                   const char *url, struct esp_store **store) ESP_MUST_CHECK;

/* A layout in a table, ready for operations. */
struct esp_cli_access {
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_layout layout;
    struct esp_arena scratch;
    struct esp_access access; /* err is cli->err */
};
/* Opens the store, --table and --layout; ERR_REFUSED when the table is not of this layout.
 * esp_cli_access_close also after a failure. */
enum esp_status esp_cli_access_open(struct esp_cli *cli, const struct esp_cli_options *options,
                                    const char *url, struct esp_cli_access *out) ESP_MUST_CHECK;
void esp_cli_access_close(struct esp_cli_access *access);

/* An operation by name for `query` (reads) or `edit` (writes), and whether `count` arguments
 * are right for it; ERR_USAGE says what would be. */
enum esp_status esp_cli_operation(struct esp_cli *cli, const char *name, bool write, size_t count,
                                  enum esp_op *op) ESP_MUST_CHECK;
/* Append a "cost" object: what the session has used. */
void esp_cli_put_cost_json(struct esp_buf *out, const struct esp_usage *usage, bool write);
/* The same as a sentence. */
void esp_cli_put_cost(struct esp_buf *out, const struct esp_usage *usage, bool write);

/* Append a finding: members of a JSON object without braces, or "NAME ID OTHER: text" and a line
 * feed. */
void esp_cli_put_finding(struct esp_buf *out, const struct esp_finding *finding, bool json);

/* From now on Ctrl-C (and SIGTERM) only sets the flag, the second one kills.  For work that
 * has something to bring to a good end. */
const volatile int *esp_cli_catch_signals(void);
/* Raise the flag as a signal would. */
void esp_cli_stop(void);

/* The built-in prices; the file's default region when `region` is not in it. */
enum esp_status esp_cli_prices(struct esp_cli *cli, const char *region,
                               struct esp_prices *out) ESP_MUST_CHECK;

/* Write a buffer to stdout, and reset it.  ERR_NOMEM when the buffer has failed, ERR_IO. */
enum esp_status esp_cli_print(struct esp_cli *cli, struct esp_buf *text) ESP_MUST_CHECK;
/* A number in JSON: at most 12 significant digits, no exponent where none is needed. */
void esp_cli_put_number(struct esp_buf *out, double value);
/* The nearest of `count` names, or NULL when none is near. */
const char *esp_cli_nearest(const char *name, const char *(*name_at)(size_t i), size_t count);

#endif
