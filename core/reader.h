#ifndef ESP_CORE_READER_H
#define ESP_CORE_READER_H
/*
 * Buffered byte source that knows its name and position: files, stdin, memory,
 * and .gz / .zst of them (recognised by content).  Reads ahead so that formats
 * can be recognised without seeking.  One owner, one thread.
 */
#include "core/mem.h"

struct esp_reader;

/* "-" is stdin.  ERR_IO (with errno text) or ERR_NOMEM. */
enum esp_status esp_reader_open(const char *path, const struct esp_alloc *alloc,
                                struct esp_reader **out, struct esp_error *err) ESP_MUST_CHECK;
/* Reads borrowed memory; `name` is used in messages and copied. */
enum esp_status esp_reader_open_memory(struct esp_str bytes, const char *name,
                                       const struct esp_alloc *alloc, struct esp_reader **out,
                                       struct esp_error *err) ESP_MUST_CHECK;
void esp_reader_close(struct esp_reader *reader); /* NULL is fine */

const char *esp_reader_name(const struct esp_reader *reader);

/* What comes next, without consuming it: up to `want` bytes (at most 64 KiB);
 * shorter only at the end.  Borrowed until the next call. */
enum esp_status esp_reader_peek(struct esp_reader *reader, size_t want, struct esp_str *out,
                                struct esp_error *err) ESP_MUST_CHECK;
/* The next run of bytes, consumed; len == 0 at the end.  Borrowed until the next call. */
enum esp_status esp_reader_next(struct esp_reader *reader, struct esp_str *out,
                                struct esp_error *err) ESP_MUST_CHECK;
/* The next line with its '\n' (the last one may lack it), consumed; len == 0 at the end.
 * ERR_LIMIT when a line is longer than ESP_LINE_BYTES_MAX.  Borrowed until the next call. */
enum { ESP_LINE_BYTES_MAX = 64 << 20 };
enum esp_status esp_reader_line(struct esp_reader *reader, struct esp_str *out,
                                struct esp_error *err) ESP_MUST_CHECK;
/* Bytes consumed so far, after decompression. */
uint64_t esp_reader_offset(const struct esp_reader *reader);
/* For progress: bytes taken from the file, and its size (0 = unknown). */
uint64_t esp_reader_raw_offset(const struct esp_reader *reader);
uint64_t esp_reader_raw_size(const struct esp_reader *reader);

#endif
