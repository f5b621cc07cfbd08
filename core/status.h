#ifndef ESP_CORE_STATUS_H
#define ESP_CORE_STATUS_H
/*
 * How every fallible function in espalier reports failure.
 *
 * Rule: return `enum esp_status`; results go through out-parameters.  Functions
 * that can say more than a code take a `struct esp_error *err` as their LAST
 * parameter; NULL means "the caller does not care".  Library code never prints,
 * never exits, and keeps no thread-local or global error.
 */
#include <stdint.h>

enum esp_status {
#define ESP_STATUS(name, class, text) ESP_##name,
#include "core/status.def"
#undef ESP_STATUS
    ESP_STATUS_COUNT
};

/* What a caller may do about a status; cli/ maps it to the exit code. */
enum esp_status_class {
    ESP_CLASS_DONE,  /* exit 0 */
    ESP_CLASS_USER,  /* exit 2: input, options or credentials must change */
    ESP_CLASS_RETRY, /* exit 3: the same call may succeed later */
    ESP_CLASS_FATAL, /* exit 1: give up */
};

/* Where and why something failed.  Caller-owned; initialise with ESP_ERROR_INIT. */
struct esp_error {
    enum esp_status status;
    char message[1024];   /* one English sentence, no trailing newline or full stop */
    char source[256];     /* file name, "-" for stdin, or endpoint; "" if none */
    uint64_t line;        /* 1-based; 0 = not applicable */
    uint64_t column;      /* 1-based, in bytes; 0 = not applicable */
    uint64_t byte_offset; /* of the offending byte, valid when line != 0 */
    int os_errno;         /* errno at the failure, 0 if none */
    int http_status;      /* 0 if the failure was not an HTTP response */
};
#define ESP_ERROR_INIT                                                                             \
    { .status = ESP_OK }

#define ESP_MUST_CHECK         __attribute__((warn_unused_result))
#define ESP_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* Fill *err unless it already holds an error (the first error wins: it is the
 * cause, later ones are consequences).  Always returns `status`, so that a
 * failure reads `return esp_fail(err, ESP_ERR_CYCLE, "node %s ...", id);`. */
enum esp_status esp_fail(struct esp_error *err, enum esp_status status, const char *fmt, ...)
    ESP_PRINTF(3, 4);

/* Like esp_fail with ESP_ERR_NOMEM and a fixed sentence. */
enum esp_status esp_fail_nomem(struct esp_error *err);

/* Forget a failure that has been dealt with, so that the next one is recorded. */
void esp_error_clear(struct esp_error *err);

const char *esp_status_name(enum esp_status status); /* "ERR_CYCLE"; static storage */
const char *esp_status_text(enum esp_status status); /* static storage */
enum esp_status_class esp_status_class(enum esp_status status);

#endif
