#include "cli/help.h"

#include "cli/shared.h"

void esp_help_put_usage(const struct esp_command *command, struct esp_buf *out) {
    esp_buf_printf(out, "espalier %s%s%s%s%s", command->name, command->operands[0] ? " " : "",
                   command->operands, command->required[0] ? " " : "", command->required);
}

static const char text_exit_codes[] =
    "Exit codes: 0 all done; 1 failed; 2 the input, the options or the credentials must change;\n"
    "3 may succeed when repeated; 4 done, but items were refused or problems found.\n";

void esp_help_put_program(struct esp_buf *out) {
    ESP_BUF_LIT(out, "espalier: trees into DynamoDB: convert, load, measure\n\n"
                     "usage: espalier COMMAND [options]\n\ncommands:\n");
    for (size_t i = 0; esp_commands[i]; i++) {
        esp_buf_printf(out, "  %-10s %s\n", esp_commands[i]->name, esp_commands[i]->summary);
    }
    ESP_BUF_LIT(out, "\nespalier COMMAND --help shows the options and an example.\n"
                     "espalier --version shows the version.\n\n");
    ESP_BUF_LIT(out, text_exit_codes);
}

void esp_help_put_command(const struct esp_command *command, struct esp_buf *out) {
    ESP_BUF_LIT(out, "usage: ");
    esp_help_put_usage(command, out);
    esp_buf_printf(out, " [options]\n\n%s\n", command->summary);
    if (command->details) {
        esp_buf_put_str(out, esp_str_from(command->details));
    }
    ESP_BUF_LIT(out, "\noptions:\n");
    for (size_t i = 0; command->options[i]; i++) {
        esp_options_help(command->options[i], out);
    }
    esp_options_help(esp_cli_help_option, out);
    esp_buf_printf(out, "\nexample:\n%s", command->example);
}

/* --- the reference --------------------------------------------------------------- */

void esp_help_put_markdown(struct esp_buf *out) {
    ESP_BUF_LIT(out, "# The command line\n\n"
                     "Made by `espalier list commands --markdown` from the tables that the "
                     "program itself\nreads; a test compares the two.\n\n```\n");
    esp_help_put_program(out);
    ESP_BUF_LIT(out, "```\n");
    for (size_t i = 0; esp_commands[i]; i++) {
        esp_buf_printf(out, "\n## %s\n\n```\n", esp_commands[i]->name);
        esp_help_put_command(esp_commands[i], out);
        ESP_BUF_LIT(out, "```\n");
    }
}

/* Text as troff takes it: backslashes and hyphens escaped, no line begins with a request. */
static void put_troff(struct esp_buf *out, struct esp_str text) {
    bool line_start = true;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (line_start && (c == '.' || c == '\'')) {
            ESP_BUF_LIT(out, "\\&");
        }
        if (c == '\\') {
            ESP_BUF_LIT(out, "\\e");
        } else if (c == '-') {
            ESP_BUF_LIT(out, "\\-");
        } else {
            esp_buf_put_char(out, c);
        }
        line_start = c == '\n';
    }
}

static void put_troff_block(struct esp_buf *out, const struct esp_buf *text) {
    ESP_BUF_LIT(out, ".nf\n");
    put_troff(out, esp_buf_str(text));
    ESP_BUF_LIT(out, ".fi\n");
}

void esp_help_put_man(struct esp_buf *out) {
    struct esp_buf text;
    esp_buf_init(&text, out->alloc, out->limit);
    ESP_BUF_LIT(out, ".\\\" Made by: espalier list commands --man\n"
                     ".TH ESPALIER 1 \"\" \"espalier " ESP_VERSION "\" \"User Commands\"\n"
                     ".SH NAME\nespalier \\- trees into DynamoDB: convert, load, measure\n"
                     ".SH SYNOPSIS\n");
    esp_help_put_program(&text);
    put_troff_block(out, &text);
    ESP_BUF_LIT(out, ".SH COMMANDS\n");
    for (size_t i = 0; esp_commands[i]; i++) {
        esp_buf_printf(out, ".SS %s\n", esp_commands[i]->name);
        esp_buf_reset(&text);
        esp_help_put_command(esp_commands[i], &text);
        put_troff_block(out, &text);
    }
    out->failed = out->failed || text.failed;
    esp_buf_fini(&text);
}
