/*
 * JSON: an array of records, flat or nested; one record with everything below it; or an
 * object around the array that holds nothing else.
 */
#include "importers/json_records.h"

static enum esp_status run(struct esp_reader *in, const struct esp_source_options *options,
                           const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                           struct esp_error *err) {
    return esp_json_records_run(in, options, false, alloc, emit, ctx, err);
}

static int sniff(struct esp_str head) {
    size_t i = esp_json_text_start(head);
    if (i == head.len) {
        return 0;
    }
    return head.ptr[i] == '[' ? 90 : head.ptr[i] == '{' ? 60 : 0;
}

static const char *const extensions[] = {"json", NULL};
const struct esp_importer esp_importer_json = {
    .name = "json",
    .summary = "an array of records, or records with their children inside them",
    .extensions = extensions,
    .sniff = sniff,
    .run = run,
};
