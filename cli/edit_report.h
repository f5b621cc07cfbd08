#ifndef ESP_CLI_EDIT_REPORT_H
#define ESP_CLI_EDIT_REPORT_H
/* What `edit` prints: the plan of a dry run, and what became of an edit. */
#include "cli/shared.h"
#include "loader/edit.h"

/* What is being edited. */
struct esp_edit_report {
    struct esp_cli *cli;
    const struct esp_cli_options *options; /* of --json and --region */
    enum esp_op op;
    const struct esp_schema *schema;
    uint64_t limit; /* writes of the plan that are shown as text */
};

/* The writes of a dry run.  With --json this begins the object that esp_edit_report_end ends. */
enum esp_status esp_edit_report_plan(struct esp_edit_report *report,
                                     const struct esp_images *images) ESP_MUST_CHECK;
/* After the edit, or the dry run; `usage` is the session's. */
enum esp_status esp_edit_report_end(struct esp_edit_report *report,
                                    const struct esp_edit_result *result, bool dry_run,
                                    const struct esp_usage *usage) ESP_MUST_CHECK;

#endif
