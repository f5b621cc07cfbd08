/*
 * JSON: an array of records, flat or nested; one record with everything below it; or an
 * object around the array that holds nothing else.
 */
#include "importers/json_records.h"

static enum esp_status feed_all(struct esp_reader *in, struct esp_json_records *records,
                                struct esp_error *err) {
    size_t mark = 0;
    enum esp_status status = esp_json_records_begin(records, in, &mark, err);
    while (status == ESP_OK) {
        struct esp_str bytes;
        status = esp_reader_next(in, &bytes, err);
        if (status != ESP_OK || bytes.len == 0) {
            break;
        }
        size_t skip = bytes.len < mark ? bytes.len : mark;
        mark -= skip;
        struct esp_str rest = {bytes.ptr + skip, bytes.len - skip};
        status = esp_json_records_feed(records, rest, err);
    }
    return status == ESP_OK ? esp_json_records_finish(records, err) : status;
}

static enum esp_status run(struct esp_reader *in, const struct esp_source_options *options,
                           const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                           struct esp_error *err) {
    struct esp_json_records *records;
    enum esp_status status = esp_json_records_new(options, false, alloc, emit, ctx, &records, err);
    if (status != ESP_OK) {
        return status;
    }
    status = feed_all(in, records, err);
    esp_json_records_free(records);
    return status;
}

static int sniff(struct esp_str head) {
    size_t i = head.len >= 3 && memcmp(head.ptr, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < head.len && memchr(" \t\r\n", head.ptr[i], 4)) {
        i++;
    }
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
