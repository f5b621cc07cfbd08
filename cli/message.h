#ifndef ESP_CLI_MESSAGE_H
#define ESP_CLI_MESSAGE_H
/* The one place that tells a person what went wrong and what to do. */
#include "cli/command.h"

/* `espalier: FILE:LINE:COLUMN: sentence` and what to do, on stderr. */
void esp_message_print(const struct esp_cli *cli);
/* 0 done, 1 give up, 2 input or options must change, 3 may succeed later (cli->findings: 4). */
int esp_message_exit_code(const struct esp_cli *cli, enum esp_status status);

#endif
