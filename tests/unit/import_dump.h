#ifndef ESP_TESTS_UNIT_IMPORT_DUMP_H
#define ESP_TESTS_UNIT_IMPORT_DUMP_H
/* What an importer makes of a text, as text: a line a record, then how it ended. */
#include "importers/importer.h"

/* Zeroed options, then those of `args` ("--id X --column Y", words cut at blanks; may be
 * NULL), which points into `words`. */
struct import_options {
    struct esp_source_options values;
    char words[512];
};
void import_options_set(struct import_options *options, const char *args);

/* "LINE ID<PARENT SIZE {data}\n" for each record, then "OK\n" or
 * "CODE LINE:COLUMN BYTE sentence\n".  malloc'ed.  Reads from memory and from a file,
 * plain and compressed; fails the test when these do not agree. */
char *import_dump(const char *format, const char *text, size_t len, const char *args);

#define assert_import(format, args, text, expected)                                                \
    do {                                                                                           \
        char *dump_ = import_dump(format, text, sizeof(text) - 1, args);                           \
        assert_string_equal(dump_, expected);                                                      \
        free(dump_);                                                                               \
    } while (0)

/* An esp_record_fn that appends such a line to a struct esp_buf. */
enum esp_status import_dump_record(void *buf, const struct esp_record *record,
                                   struct esp_error *err);
void import_dump_end(struct esp_buf *out, enum esp_status status, const struct esp_error *err);

#endif
