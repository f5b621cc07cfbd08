#ifndef ESP_CLI_PROGRESS_H
#define ESP_CLI_PROGRESS_H
/*
 * Progress on stderr: one line that is written over, at most six times a second, on a terminal
 * or with --progress; with --progress=json one object a line.
 */
#include "cli/shared.h"
#include "loader/loader.h"

enum esp_progress_mode { ESP_PROGRESS_OFF, ESP_PROGRESS_LINE, ESP_PROGRESS_JSON };
struct esp_cli_progress {
    enum esp_progress_mode mode;
    const struct esp_clock *clock;
    uint64_t shown_ns; /* when the line was last written; 0: never */
    bool line_open;    /* the cursor is behind a progress line */
};

/* ERR_USAGE for a --progress=VALUE that is not json. */
enum esp_status esp_cli_progress_init(struct esp_cli *cli, const struct esp_cli_options *options,
                                      struct esp_cli_progress *progress) ESP_MUST_CHECK;
/* An esp_progress_fn; ctx is the esp_cli_progress. */
void esp_cli_progress_load(void *ctx, const struct esp_load_progress *snapshot);
/* What is being done: "path: children".  An esp_compare_progress_fn. */
void esp_cli_progress_step(void *ctx, const char *part, const char *what);
/* Clears the line, so that other messages can follow. */
void esp_cli_progress_end(struct esp_cli_progress *progress);

#endif
