/*
 * JSON Lines: every line a record, flat or with its children inside it.  Blank lines are
 * skipped.
 */
#include "importers/json_records.h"

static enum esp_status feed_lines(struct esp_reader *in, struct esp_json_records *records,
                                  struct esp_error *err) {
    size_t mark = 0;
    enum esp_status status = esp_json_records_begin(records, in, &mark, err);
    while (status == ESP_OK) {
        struct esp_str line;
        status = esp_reader_line(in, &line, err);
        if (status != ESP_OK || line.len == 0) {
            break;
        }
        struct esp_str rest = {line.ptr + mark, line.len - mark};
        mark = 0;
        status = esp_json_records_feed(records, rest, err);
    }
    return status == ESP_OK ? esp_json_records_finish(records, err) : status;
}

static enum esp_status run(struct esp_reader *in, const struct esp_source_options *options,
                           const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                           struct esp_error *err) {
    struct esp_json_records *records;
    enum esp_status status = esp_json_records_new(options, true, alloc, emit, ctx, &records, err);
    if (status != ESP_OK) {
        return status;
    }
    status = feed_lines(in, records, err);
    esp_json_records_free(records);
    return status;
}

/* The braces of the first line, outside of strings, are balanced. */
static int sniff(struct esp_str head) {
    size_t i = head.len >= 3 && memcmp(head.ptr, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < head.len && memchr(" \t\r\n", head.ptr[i], 4)) {
        i++;
    }
    if (i == head.len || head.ptr[i] != '{') {
        return 0;
    }
    int depth = 0;
    bool quoted = false;
    for (; i < head.len && head.ptr[i] != '\n'; i++) {
        char c = head.ptr[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
        } else {
            quoted = c == '"';
            depth += (c == '{') - (c == '}');
        }
    }
    if (i >= head.len) {
        return 50; /* one line so far: as good as JSON */
    }
    return depth == 0 && !quoted ? 80 : 10;
}

static const char *const extensions[] = {"jsonl", "ndjson", NULL};
const struct esp_importer esp_importer_jsonl = {
    .name = "jsonl",
    .summary = "JSON Lines: every line a record, flat or with its children inside it",
    .extensions = extensions,
    .sniff = sniff,
    .run = run,
};
