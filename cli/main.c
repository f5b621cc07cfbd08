/* espalier: finds the subcommand, parses its options, runs it, and turns its status into
 * messages and an exit code. */
#include "cli/help.h"
#include "cli/layout_file.h"
#include "cli/message.h"
#include "cli/shared.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>

#define ESP_COMMAND(name, source) extern const struct esp_command esp_command_##name;
#include "cli/commands.def"
#undef ESP_COMMAND

const struct esp_command *const esp_commands[] = {
#define ESP_COMMAND(name, source) &esp_command_##name,
#include "cli/commands.def"
#undef ESP_COMMAND
    NULL};

enum { HELP_BYTES_MAX = 1 << 20, OPTION_TABLES_MAX = 12 };

const struct esp_command *esp_command_find(const char *name) {
    for (size_t i = 0; esp_commands[i]; i++) {
        if (strcmp(esp_commands[i]->name, name) == 0) {
            return esp_commands[i];
        }
    }
    return NULL;
}

static const char *command_name(size_t i) {
    return esp_commands[i]->name;
}

static enum esp_status unknown_command(struct esp_cli *cli, const char *name) {
    size_t count = 0;
    while (esp_commands[count]) {
        count++;
    }
    const char *nearest = esp_cli_nearest(name, command_name, count);
    return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is no command%s%s%s", name,
                    nearest ? ": did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

static enum esp_status print_help(struct esp_cli *cli) {
    struct esp_buf text;
    esp_buf_init(&text, cli->alloc, HELP_BYTES_MAX);
    if (cli->command) {
        esp_help_put_command(cli->command, &text);
    } else {
        esp_help_put_program(&text);
    }
    enum esp_status status = esp_cli_print(cli, &text);
    esp_buf_fini(&text);
    return status;
}

/* The fallbacks of all the command's option tables. */
static enum esp_status set_fallbacks(struct esp_cli *cli, void *options) {
    for (const struct esp_option *const *table = cli->command->options; *table; table++) {
        for (const struct esp_option *o = *table; o->name; o++) {
            enum esp_status status =
                o->fallback ? esp_option_set(*table, options, o->name, o->fallback, &cli->err)
                            : ESP_OK;
            if (status != ESP_OK) {
                return status;
            }
        }
    }
    return ESP_OK;
}

static enum esp_status parse(struct esp_cli *cli, void *options, int argc, char **argv,
                             int *operands) {
    const struct esp_option *tables[OPTION_TABLES_MAX + 1] = {esp_cli_help_option};
    for (size_t i = 0; cli->command->options[i]; i++) {
        if (i + 1 == OPTION_TABLES_MAX) {
            return esp_fail(&cli->err, ESP_ERR_INTERNAL, "too many tables of options");
        }
        tables[i + 1] = cli->command->options[i];
    }
    enum esp_status status = set_fallbacks(cli, options);
    return status == ESP_OK ? esp_options_parse(tables, options, argc, argv, operands, &cli->err)
                            : status;
}

static enum esp_status check_operands(struct esp_cli *cli, char **operands, size_t count) {
    const struct esp_command *c = cli->command;
    if (count > c->operand_max) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s is one argument too many: %s takes %s",
                        operands[c->operand_max], c->name, c->operands[0] ? c->operands : "none");
    }
    if (count < c->operand_min) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "%s needs %s", c->name, c->operands);
    }
    return ESP_OK;
}

static enum esp_status run_parsed(struct esp_cli *cli, struct esp_cli_options *options,
                                  char **operands, size_t count) {
    struct esp_arena texts;
    enum esp_status status = check_operands(cli, operands, count);
    esp_arena_init(&texts, cli->alloc, SIZE_MAX);
    if (status == ESP_OK && options->layout_file) {
        status = esp_layout_file_read(cli, &texts, options);
    }
    if (status == ESP_OK) {
        status = cli->command->run(cli, options, operands, count);
        esp_release(cli->alloc, cli->line_starts, cli->source_count * sizeof *cli->line_starts);
    }
    esp_arena_fini(&texts);
    return status;
}

static enum esp_status run_command(struct esp_cli *cli, int argc, char **argv) {
    void *options = esp_calloc(cli->alloc, 1, cli->command->options_size);
    int operands = 0;
    if (!options) {
        return esp_fail_nomem(&cli->err);
    }
    enum esp_status status = parse(cli, options, argc, argv, &operands);
    if (status == ESP_OK && ((struct esp_cli_options *)options)->help) {
        status = print_help(cli);
    } else if (status == ESP_OK) {
        status = run_parsed(cli, options, argv, (size_t)operands);
    }
    esp_release(cli->alloc, options, cli->command->options_size);
    return status;
}

static enum esp_status dispatch(struct esp_cli *cli, int argc, char **argv) {
    if (argc < 2) {
        return esp_fail(&cli->err, ESP_ERR_USAGE, "a command is missing");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return print_help(cli);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("espalier %s\n", ESP_VERSION);
        return ESP_OK;
    }
    cli->command = esp_command_find(argv[1]);
    if (!cli->command) {
        return unknown_command(cli, argv[1]);
    }
    return run_command(cli, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
    struct esp_cli cli = {
        .alloc = &esp_alloc_libc, .clock = &esp_clock_system, .err = ESP_ERROR_INIT};
    signal(SIGPIPE, SIG_IGN); /* a write that fails says so itself */
    enum esp_status status = dispatch(&cli, argc, argv);
    if (status == ESP_OK && fflush(stdout) != 0) {
        status = esp_fail(&cli.err, ESP_ERR_IO, "cannot write the result: %s", strerror(errno));
        cli.err.os_errno = errno;
    }
    /* Whoever closed the pipe has seen enough and needs no message. */
    if (status != ESP_OK && !(status == ESP_ERR_IO && cli.err.os_errno == EPIPE)) {
        cli.err.status = status;
        esp_message_print(&cli);
    }
    return esp_message_exit_code(&cli, status);
}
