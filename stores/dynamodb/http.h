#ifndef ESP_STORES_DYNAMODB_HTTP_H
#define ESP_STORES_DYNAMODB_HTTP_H
/*
 * POST requests over libcurl's multi interface: many in flight on one thread, connections
 * kept alive.  Knows HTTP; knows neither signatures nor retries nor what is in a body.
 * TLS certificates are always verified.
 */
#include "core/mem.h"
#include <curl/curl.h>

enum {
    ESP_HTTP_HEADERS = 8,
    ESP_HTTP_ANSWER_BYTES_MAX = 128 << 20, /* 16 MB of items as JSON, escapes and tags included */
};

struct esp_http_place {
    const char *url;       /* "https://host[:port]" */
    const char *ca_bundle; /* file; NULL: the system's */
    bool direct;           /* never through a proxy */
};

enum esp_http_outcome {
    ESP_HTTP_ANSWERED, /* a whole answer is there, of whatever status */
    ESP_HTTP_UNSENT,   /* the server has not seen the request */
    ESP_HTTP_LOST,     /* sent, and no whole answer: it may or may not have been carried out */
    ESP_HTTP_REFUSED,  /* the server's certificate cannot be verified */
    ESP_HTTP_NOMEM,    /* no memory, or an answer over ESP_HTTP_ANSWER_BYTES_MAX */
};

/* One request at a time; reused for ever.  Text given to start is borrowed until the
 * exchange is finished or aborted. */
struct esp_exchange {
    CURL *easy;
    struct curl_slist headers[ESP_HTTP_HEADERS];
    void *owner; /* the caller's */
    unsigned sends;
    bool running;

    enum esp_http_outcome outcome;
    long status;            /* HTTP status, when answered */
    struct esp_buf answer;  /* the body as received */
    bool has_crc32, cached; /* `cached`: an Age header, so that Date is not now */
    uint32_t crc32;
    uint64_t retry_after_ms;
    char date[40], error_name[80];      /* "" when there is no such header */
    char problem[CURL_ERROR_SIZE + 64]; /* what went wrong, when not answered */
};

struct esp_http {
    CURLM *multi;
    unsigned running;
};

enum esp_status esp_http_init(struct esp_http *http, unsigned connections,
                              struct esp_error *err) ESP_MUST_CHECK;
void esp_http_fini(struct esp_http *http); /* zeroed is fine; exchanges first */
enum esp_status esp_exchange_init(struct esp_exchange *x, const struct esp_http_place *place,
                                  const struct esp_alloc *alloc,
                                  struct esp_error *err) ESP_MUST_CHECK;
void esp_exchange_fini(struct esp_http *http, struct esp_exchange *x); /* zeroed is fine */

/* Header lines are NUL-terminated "Name: value"; `count` <= ESP_HTTP_HEADERS. */
enum esp_status esp_http_start(struct esp_http *http, struct esp_exchange *x,
                               const char *const *headers, size_t count, struct esp_str body,
                               uint64_t timeout_ms, struct esp_error *err) ESP_MUST_CHECK;
/* Moves everything on, after waiting at most wait_ms for something to happen. */
enum esp_status esp_http_drive(struct esp_http *http, int wait_ms,
                               struct esp_error *err) ESP_MUST_CHECK;
/* The next finished exchange, or NULL. */
struct esp_exchange *esp_http_finished(struct esp_http *http);
/* Forget a running exchange; its connection is closed. */
void esp_http_abort(struct esp_http *http, struct esp_exchange *x);

#endif
