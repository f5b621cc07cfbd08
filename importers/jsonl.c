/*
 * JSON Lines: every line a record, flat or with its children inside it.  Blank lines are
 * skipped.
 */
#include "importers/json_records.h"

static enum esp_status run(struct esp_reader *in, const struct esp_source_options *options,
                           const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                           struct esp_error *err) {
    return esp_json_records_run(in, options, true, alloc, emit, ctx, err);
}

/* The braces of the first line, outside of strings, are balanced. */
static int sniff(struct esp_str head) {
    size_t i = esp_json_text_start(head);
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
