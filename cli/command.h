#ifndef ESP_CLI_COMMAND_H
#define ESP_CLI_COMMAND_H
/*
 * A subcommand: one const table of what it is called, what it takes and what it does.
 *
 * To add one: write cli/NAME.c defining `const struct esp_command esp_command_NAME` and add
 * one line to cli/commands.def.  Help, manual page, docs/cli.md and the tests read the same
 * table.
 */
#include "core/clock.h"
#include "core/option.h"
#include "stores/store.h"

/* What a running command works with; one thread. */
struct esp_cli {
    const struct esp_command *command;
    const struct esp_alloc *alloc;
    const struct esp_clock *clock;
    struct esp_error err;           /* printed by main when run fails */
    const char *hint;               /* what to do about the failure, when the command knows
                                       better than cli/message.c; borrowed, no full stop */
    bool findings;                  /* all done, but something was found or refused: exit 4 */
    struct esp_store_config config; /* filled by esp_cli_store_open */
    uint64_t *line_starts;          /* of the sources read, for messages; freed by main */
    size_t source_count;
};

struct esp_command {
    const char *name;     /* "import" */
    const char *summary;  /* one line, no full stop */
    const char *operands; /* as in the usage line: "SOURCE..."; "" when there are none */
    const char *required; /* options that must be given, as in the usage line; "" for none */
    const char *details;  /* some lines on what it does, each ending with '\n'; may be NULL */
    const char *example;  /* command lines, each ending with '\n' */
    const struct esp_option *const *options; /* NULL-terminated list of tables over one struct */
    size_t options_size;                     /* of that struct, which begins with the fields that
                                                the shared tables of cli/shared.h point to */
    size_t operand_min, operand_max;
    /* Data goes to stdout, messages to stderr.  A failure is told in cli->err and returned. */
    enum esp_status (*run)(struct esp_cli *cli, void *options, char **operands, size_t count);
};

enum { ESP_OPERANDS_ANY = 1 << 20 };

extern const struct esp_command *const esp_commands[];        /* NULL-terminated, in order of use */
const struct esp_command *esp_command_find(const char *name); /* or NULL */

#endif
