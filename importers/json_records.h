#ifndef ESP_IMPORTERS_JSON_RECORDS_H
#define ESP_IMPORTERS_JSON_RECORDS_H
/*
 * Records out of JSON text, for json.c and jsonl.c.  Text arrives in pieces of any size;
 * nothing but the records that are open is kept, never a document.
 *
 * A record is an object.  Its keys are the id, the parent's id, the children (an array of
 * records) and attributes, in any order.  A nested record is emitted when its object ends,
 * so children come before their parent, siblings in order.  What is kept meanwhile:
 *   - of each open record its id and the attributes seen so far;
 *   - when the id comes after the children, those children (not their descendants) until
 *     the id is known.
 * Each has a limit below.  No recursion: a chain of a million records is fine.
 */
#include "importers/importer.h"

enum {
    ESP_JSON_DEPTH_MAX = 1 << 22,         /* records inside each other */
    ESP_JSON_OPEN_BYTES_MAX = 1 << 30,    /* attributes of the open records */
    ESP_JSON_PENDING_BYTES_MAX = 1 << 30, /* children that wait for their parent's id */
    ESP_JSON_TOKEN_BYTES_MAX = 16 << 20,  /* of one string or number */
    ESP_JSON_KEYS_MAX = 1 << 16,          /* different keys of all records */
    ESP_JSON_HEAD_BYTES = 64 << 10,       /* looked at to recognise the id and the parent */
};

/* What an importer's run does: all of `in`, in lines (JSON Lines) or not. */
enum esp_status esp_json_records_run(struct esp_reader *in,
                                     const struct esp_source_options *options, bool lines,
                                     const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                                     struct esp_error *err) ESP_MUST_CHECK;
/* Where the text begins, behind a byte order mark and blanks; head.len when there is none. */
size_t esp_json_text_start(struct esp_str head);

/* --- the pieces of it, for text that arrives otherwise ---------------------------- */

struct esp_json_records;

/* `lines`: every line is one record (JSON Lines).  The rest is as esp_importer.run has it. */
enum esp_status esp_json_records_new(const struct esp_source_options *options, bool lines,
                                     const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                                     struct esp_json_records **out,
                                     struct esp_error *err) ESP_MUST_CHECK;
void esp_json_records_free(struct esp_json_records *records); /* NULL is fine */

/* Look at how the text begins, without consuming it, to find out which usual names the ids
 * have; once, before the first feed.  *skip = bytes of a byte order mark: not to be fed. */
enum esp_status esp_json_records_begin(struct esp_json_records *records, struct esp_reader *in,
                                       size_t *skip, struct esp_error *err) ESP_MUST_CHECK;
/* The next bytes, any number; with `lines` a whole line.  `err` gets line, column and
 * byte offset. */
enum esp_status esp_json_records_feed(struct esp_json_records *records, struct esp_str bytes,
                                      struct esp_error *err) ESP_MUST_CHECK;
/* All bytes were fed. */
enum esp_status esp_json_records_finish(struct esp_json_records *records,
                                        struct esp_error *err) ESP_MUST_CHECK;

#endif
