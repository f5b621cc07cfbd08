#ifndef ESP_CLI_HELP_H
#define ESP_CLI_HELP_H
/* Texts made of the command tables: --help, docs/cli.md and the manual page. */
#include "cli/command.h"

void esp_help_put_program(struct esp_buf *out); /* espalier --help */
void esp_help_put_command(const struct esp_command *command, struct esp_buf *out); /* X --help */
/* "espalier import SOURCE... --layout L ..." */
void esp_help_put_usage(const struct esp_command *command, struct esp_buf *out);
void esp_help_put_markdown(struct esp_buf *out); /* the reference, as docs/cli.md has it */
void esp_help_put_man(struct esp_buf *out);      /* the manual page, as docs/espalier.1 has it */

#endif
