#include "cli/message.h"

#include <stdio.h>

enum { EXIT_DONE = 0, EXIT_FATAL = 1, EXIT_USER = 2, EXIT_RETRY = 3, EXIT_FINDINGS = 4 };

int esp_message_exit_code(const struct esp_cli *cli, enum esp_status status) {
    switch (esp_status_class(status)) {
    case ESP_CLASS_DONE:
        return cli->findings ? EXIT_FINDINGS : EXIT_DONE;
    case ESP_CLASS_USER:
        return EXIT_USER;
    case ESP_CLASS_RETRY:
        return EXIT_RETRY;
    case ESP_CLASS_FATAL:
        break;
    }
    return EXIT_FATAL;
}

/* What to do about a failure when the command says nothing better. */
static const char *usual_hint(enum esp_status status) {
    switch (status) {
    case ESP_ERR_CREDENTIALS:
        return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile: --profile "
               "NAME; "
               "when access is denied, the user or role lacks the permission for that operation";
    case ESP_ERR_THROTTLED:
        return "repeat it later, with fewer --workers, or give the table more capacity";
    case ESP_ERR_UNAVAILABLE:
        return "check the address and the network, then repeat the command";
    case ESP_ERR_CONFLICT:
        return "repeat the command";
    case ESP_ERR_NOMEM:
        return "a machine with more memory, or a part of the input, will do";
    case ESP_ERR_INTERNAL:
        return "this is a mistake in espalier: please report it with the command line";
    default:
        return NULL;
    }
}

void esp_message_print(const struct esp_cli *cli) {
    const struct esp_error *err = &cli->err;
    fprintf(stderr, "espalier: ");
    if (err->source[0]) {
        fprintf(stderr, "%s:", err->source);
    }
    if (err->line) {
        fprintf(stderr, "%llu:", (unsigned long long)err->line);
    }
    if (err->line && err->column) {
        fprintf(stderr, "%llu:", (unsigned long long)err->column);
    }
    const char *message = err->message[0] ? err->message : esp_status_text(err->status);
    fprintf(stderr, "%s%s\n", err->source[0] || err->line ? " " : "", message);
    const char *hint = cli->hint ? cli->hint : usual_hint(err->status);
    if (hint) {
        fprintf(stderr, "espalier: %s\n", hint);
    } else if (err->status == ESP_ERR_USAGE) {
        fprintf(stderr, "espalier: see espalier %s%s--help\n",
                cli->command ? cli->command->name : "", cli->command ? " " : "");
    }
}
