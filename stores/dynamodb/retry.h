#ifndef ESP_STORES_DYNAMODB_RETRY_H
#define ESP_STORES_DYNAMODB_RETRY_H
/*
 * What an error means and when to try again (shared facts sheet 7.1 and 7.4): full jitter,
 * and a bucket of tokens that every retry of a session is paid from.  Sends nothing.
 */
#include "core/mem.h"
#include "core/rng.h"

enum esp_verdict {
    ESP_VERDICT_FINAL,     /* the same request would fail again */
    ESP_VERDICT_TRANSIENT, /* broken connection, 5xx, wrong checksum */
    ESP_VERDICT_THROTTLED, /* too fast */
    ESP_VERDICT_CONFLICT,  /* another writer at the same item */
    ESP_VERDICT_CLOCK,     /* once, when the clock could be corrected */
    ESP_VERDICT_RENEW,     /* once, when there are other credentials */
    ESP_VERDICT_ONCE,      /* once */
};

struct esp_failure {
    enum esp_verdict verdict;
    enum esp_status status; /* when no retry helps */
    bool maybe_done;        /* the request may have been carried out */
    bool cancelled;         /* a transaction: its reasons decide */
};
/* `name` is the error's without its prefix; may be empty. */
struct esp_failure esp_failure_classify(long http_status, struct esp_str name);

struct esp_retry {
    struct esp_rng rng;
    double tokens;   /* below 0: waits for them have been handed out */
    double debt_max; /* how far below */
    uint64_t refilled_ns;
};
/* `patience_ms`: how long a call is tried; waits for tokens end well before it. */
void esp_retry_init(struct esp_retry *retry, uint64_t seed, uint64_t stream, uint64_t patience_ms,
                    uint64_t now_ns);
/* Pays for one retry; the wait before it, which is never shorter than the bucket needs to
 * pay, as far as its debt may go.  `attempt`: 1 before the second try.  `asked_ms`:
 * x-amz-retry-after, 0 = none. */
uint64_t esp_retry_wait_ns(struct esp_retry *retry, enum esp_verdict verdict, unsigned attempt,
                           uint64_t asked_ms, uint64_t now_ns);
/* A request succeeded; `verdict` is what its last retry was for (FINAL: first time). */
void esp_retry_succeeded(struct esp_retry *retry, enum esp_verdict verdict);
/* Tries of one request at most; throttling is bounded by time only. */
unsigned esp_retry_attempts_max(enum esp_verdict verdict);

#endif
