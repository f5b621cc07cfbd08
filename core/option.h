#ifndef ESP_CORE_OPTION_H
#define ESP_CORE_OPTION_H
/*
 * One row describes an option once: the command line, `--set KEY=VALUE`, help,
 * the manual page and the test that compares them all read it.
 */
#include "core/mem.h"

enum esp_option_type {
    ESP_OPT_FLAG,    /* bool: --name sets it */
    ESP_OPT_STRING,  /* const char *: borrowed from argv or the text given */
    ESP_OPT_U64,     /* uint64_t: decimal, suffixes k M G (powers of 1000) */
    ESP_OPT_DOUBLE,  /* double: finite, >= 0 */
    ESP_OPT_CHOICE,  /* int: position in `choices` */
    ESP_OPT_LIST,    /* struct esp_strings: may be given several times, order kept */
    ESP_OPT_OPTFLAG, /* const char *: --name (value "") or --name=VALUE; NULL when absent */
};

enum { ESP_OPTION_LIST_MAX = 64 };
struct esp_strings {
    const char *value[ESP_OPTION_LIST_MAX];
    size_t count;
};

struct esp_option {
    const char *name; /* "max-wcu"; an array of options ends with name == NULL */
    enum esp_option_type type;
    size_t offset;              /* of the field in the options struct */
    const char *argument;       /* "N", "FILE"; NULL for a flag */
    const char *fallback;       /* value when absent, as text; NULL = zeroed field */
    const char *help;           /* one line, no full stop */
    const char *const *choices; /* ESP_OPT_CHOICE: NULL-terminated */
    uint64_t min, max;          /* ESP_OPT_U64: of a value that is given; max 0: any */
};

/* Fill `values` (zeroed by the callee first) with the fallbacks. */
enum esp_status esp_options_default(const struct esp_option *options, void *values, size_t size,
                                    struct esp_error *err) ESP_MUST_CHECK;
/* One option by name; ERR_USAGE names the option, the value and what would be right. */
enum esp_status esp_option_set(const struct esp_option *options, void *values, const char *name,
                               const char *value, struct esp_error *err) ESP_MUST_CHECK;
/* GNU style: --name VALUE, --name=VALUE, --, options and operands in any order.
 * Operands are moved to the front of argv; *operand_count is their number.
 * Unknown options are refused with the nearest known one as a proposal.
 * `sets` is a NULL-terminated list of option tables that share `values`. */
enum esp_status esp_options_parse(const struct esp_option *const *sets, void *values, int argc,
                                  char **argv, int *operand_count,
                                  struct esp_error *err) ESP_MUST_CHECK;
/* Append the help of a table, one row an option, to `out`. */
void esp_options_help(const struct esp_option *options, struct esp_buf *out);

/* How many characters must change to make `name` (of len bytes) the known name: for
 * proposals.  From ESP_NAME_FAR on a proposal is no help. */
enum { ESP_NAME_FAR = 3 };
int esp_name_distance(const char *name, size_t len, const char *known);

#endif
