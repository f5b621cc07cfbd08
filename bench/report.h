#ifndef ESP_BENCH_REPORT_H
#define ESP_BENCH_REPORT_H
/*
 * Reports: one file a format, one line in reports.def.  A reporter appends text to a buffer;
 * it computes nothing that is not in the result, and prints nothing.
 *
 * To add one: write bench/report_NAME.c defining `const struct esp_reporter
 * esp_reporter_NAME` and add one line to reports.def.
 */
#include "bench/plan.h"

struct esp_reporter {
    const char *name;      /* "markdown" */
    const char *extension; /* "md"; NULL: no file form */
    const char *summary;
    enum esp_status (*compare)(const struct esp_comparison *c, struct esp_buf *out);
    enum esp_status (*plan)(const struct esp_plan_result *p, struct esp_buf *out);
};
extern const struct esp_reporter *const esp_reporters[]; /* NULL-terminated */
/* By name, file extension or the extension of a file name; NULL when unknown. */
const struct esp_reporter *esp_reporter_find(const char *name_or_file);
#endif
