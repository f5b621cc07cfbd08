#ifndef ESP_CLI_OUTPUT_H
#define ESP_CLI_OUTPUT_H
/*
 * A file that appears under its name only when it is whole: it is written as NAME.tmp and
 * renamed at the end.  "-" is stdout; what is there already and no regular file (a pipe, a
 * device) is written directly.
 */
#include "cli/command.h"

struct esp_output {
    struct esp_cli *cli;
    const char *path;
    int fd;
    char temporary[4096]; /* "": written directly */
};

enum esp_status esp_output_open(struct esp_cli *cli, const char *path,
                                struct esp_output *out) ESP_MUST_CHECK;
enum esp_status esp_output_write(struct esp_output *out, struct esp_str bytes) ESP_MUST_CHECK;
/* Brings it to disk and under its name when `status` is ESP_OK, else removes it.  Returns the
 * first failure. */
enum esp_status esp_output_close(struct esp_output *out, enum esp_status status) ESP_MUST_CHECK;

#endif
