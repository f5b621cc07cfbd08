#ifndef ESP_LOADER_JOURNAL_LINES_H
#define ESP_LOADER_JOURNAL_LINES_H
/*
 * A file of checksummed lines that is locked while it is open: what journals are made of.
 * Knows nothing of what the lines say.  Private to loader/.
 *
 *   1c291ca3 {"a":1}      crc32 of what follows the blank, eight hex digits
 *
 * Such a file is written as NAME.tmp and gets its name when it is on disk, whole.  After that
 * lines may be added.  Failures are ERR_IO and name the file.
 */
#include "core/mem.h"

struct esp_line_file {
    const struct esp_alloc *alloc; /* borrowed */
    char *name, *draft;            /* "X" and "X.tmp", in one block; NULL: not open */
    size_t name_bytes;             /* of that block */
    int fd;                        /* locked */
    bool published;                /* it has its name */
    bool cut;                      /* reading has found a last line that was cut ... */
    uint64_t whole_bytes;          /* ... behind so many; it goes before a line is added */
    struct esp_buf out;            /* lines that are not written yet */
};

/* Begin a draft.  A draft that somebody left is written over.
 *   ERR_EXISTS  the file is there, and nobody uses it      ERR_CONFLICT  somebody uses it */
enum esp_status esp_line_file_create(const char *name, const struct esp_alloc *alloc,
                                     struct esp_line_file *file,
                                     struct esp_error *err) ESP_MUST_CHECK;
/* One that is there, for reading and for adding lines.  ERR_NOT_FOUND, ERR_CONFLICT. */
enum esp_status esp_line_file_open(const char *name, const struct esp_alloc *alloc,
                                   struct esp_line_file *file,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* A draft that somebody left, to remove it.  ERR_NOT_FOUND, ERR_CONFLICT. */
enum esp_status esp_line_file_open_draft(const char *name, const struct esp_alloc *alloc,
                                         struct esp_line_file *file,
                                         struct esp_error *err) ESP_MUST_CHECK;
/* Unlocks.  A draft is removed, a file with a name stays.  Zeroed is fine. */
void esp_line_file_close(struct esp_line_file *file);

/* Add a line (no line feed in it); buffered. */
enum esp_status esp_line_file_add(struct esp_line_file *file, struct esp_str text,
                                  struct esp_error *err) ESP_MUST_CHECK;
/* All lines added are on disk when it returns ESP_OK; a draft gets its name. */
enum esp_status esp_line_file_sync(struct esp_line_file *file,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* Remove the file for good; close it all the same. */
enum esp_status esp_line_file_remove(struct esp_line_file *file,
                                     struct esp_error *err) ESP_MUST_CHECK;

/* The folder that `name` is in is on disk when it returns ESP_OK: a name in it that was given or
 * taken stays so after a crash. */
enum esp_status esp_line_file_sync_folder(const char *name, const struct esp_alloc *alloc,
                                          struct esp_error *err) ESP_MUST_CHECK;

/* Pass every line, without checksum and line feed, to `fn`; `line` counts from 1.  A last line
 * without a line feed was cut while it was written: it is left out.  ERR_INPUT with file and line:
 * a wrong checksum.  What fn returns ends the call when it is not ESP_OK, and is returned. */
typedef enum esp_status esp_line_fn(void *ctx, struct esp_str text, uint64_t line,
                                    struct esp_error *err);
enum esp_status esp_line_file_read(struct esp_line_file *file, esp_line_fn *fn, void *ctx,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* ERR_INPUT about a line of the file. */
enum esp_status esp_line_file_fail(const char *name, uint64_t line, const char *what,
                                   struct esp_error *err);

#endif
