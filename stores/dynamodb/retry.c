#include "stores/dynamodb/retry.h"

#define MS_NS  UINT64_C(1000000)
#define CAP_NS (CAP_MS * MS_NS)

/* Facts sheet 7.4; throttling starts lower than the SDKs do, because a bulk load meets it
 * all the time, and the bucket refills by time too, so that a load that is throttled for
 * long goes on slowly instead of failing.  For the same reason its debt has an end: many
 * connections would owe more in a second than the time of any of their calls could pay. */
enum {
    BASE_TRANSIENT_MS = 25,
    CAP_MS = 20000,
    BASE_THROTTLED_MS = 50,
    TOKENS_MAX = 500,
    COST_TRANSIENT = 14,
    COST_THROTTLED = 5,
    TOKENS_PER_S = 10,
    ASKED_OVER_MS_MAX = 5000,
    PAID_WAITS_MIN = 4, /* waits for tokens that fit into the patience with a call */
};

struct error_row {
    const char *name;
    struct esp_failure failure;
};

static const struct error_row errors[] = {
    {"ProvisionedThroughputExceededException",
     {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"ThrottlingException", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"Throttling", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"ThrottledException", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"RequestThrottled", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"RequestThrottledException", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"TooManyRequestsException", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"RequestLimitExceeded", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"BandwidthLimitExceeded", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"LimitExceededException", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"SlowDown", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"PriorRequestNotComplete", {ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false}},
    {"TransactionInProgressException", {ESP_VERDICT_THROTTLED, ESP_ERR_CONFLICT, false, false}},
    {"TransactionConflictException", {ESP_VERDICT_CONFLICT, ESP_ERR_CONFLICT, false, false}},
    {"ReplicatedWriteConflictException", {ESP_VERDICT_CONFLICT, ESP_ERR_CONFLICT, false, false}},
    {"InternalServerError", {ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true, false}},
    {"InternalFailure", {ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true, false}},
    {"ServiceUnavailable", {ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true, false}},
    {"RequestTimeout", {ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true, false}},
    {"RequestTimeoutException", {ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true, false}},
    {"UnrecognizedClientException", {ESP_VERDICT_ONCE, ESP_ERR_CREDENTIALS, false, false}},
    {"ExpiredTokenException", {ESP_VERDICT_RENEW, ESP_ERR_CREDENTIALS, false, false}},
    {"ExpiredToken", {ESP_VERDICT_RENEW, ESP_ERR_CREDENTIALS, false, false}},
    {"InvalidSignatureException", {ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false, false}},
    {"SignatureDoesNotMatch", {ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false, false}},
    {"RequestExpired", {ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false, false}},
    {"RequestInTheFuture", {ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false, false}},
    {"RequestTimeTooSkewed", {ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false, false}},
    {"AuthFailure", {ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false, false}},
    {"AccessDeniedException", {ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false, false}},
    {"IncompleteSignatureException", {ESP_VERDICT_FINAL, ESP_ERR_CREDENTIALS, false, false}},
    {"IncompleteSignature", {ESP_VERDICT_FINAL, ESP_ERR_CREDENTIALS, false, false}},
    {"MissingAuthenticationTokenException", {ESP_VERDICT_FINAL, ESP_ERR_CREDENTIALS, false, false}},
    {"MissingAuthenticationToken", {ESP_VERDICT_FINAL, ESP_ERR_CREDENTIALS, false, false}},
    {"ConditionalCheckFailedException", {ESP_VERDICT_FINAL, ESP_ERR_CONDITION, false, false}},
    {"TransactionCanceledException", {ESP_VERDICT_FINAL, ESP_ERR_CONDITION, false, true}},
    {"ResourceNotFoundException", {ESP_VERDICT_FINAL, ESP_ERR_NOT_FOUND, false, false}},
    {"TableNotFoundException", {ESP_VERDICT_FINAL, ESP_ERR_NOT_FOUND, false, false}},
    {"ResourceInUseException", {ESP_VERDICT_FINAL, ESP_ERR_EXISTS, false, false}},
    {"TableAlreadyExistsException", {ESP_VERDICT_FINAL, ESP_ERR_EXISTS, false, false}},
    {"ItemCollectionSizeLimitExceededException", {ESP_VERDICT_FINAL, ESP_ERR_LIMIT, false, false}},
};

struct esp_failure esp_failure_classify(long http_status, struct esp_str name) {
    for (size_t i = 0; name.len && i < sizeof errors / sizeof *errors; i++) {
        if (esp_str_eq(name, esp_str_from(errors[i].name))) {
            return errors[i].failure;
        }
    }
    if (http_status == 429) {
        return (struct esp_failure){ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false};
    }
    if (http_status >= 500 && http_status != 501 && http_status != 505) {
        return (struct esp_failure){ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true, false};
    }
    if (http_status == 401 || http_status == 403) {
        return (struct esp_failure){ESP_VERDICT_FINAL, ESP_ERR_CREDENTIALS, false, false};
    }
    return (struct esp_failure){ESP_VERDICT_FINAL, ESP_ERR_REFUSED, false, false};
}

void esp_retry_init(struct esp_retry *retry, uint64_t seed, uint64_t stream, uint64_t patience_ms,
                    uint64_t now_ns) {
    esp_rng_init(&retry->rng, seed, stream);
    retry->tokens = TOKENS_MAX;
    retry->refilled_ns = now_ns;
    uint64_t longest_ms = patience_ms / PAID_WAITS_MIN;
    longest_ms = longest_ms < CAP_MS ? longest_ms : CAP_MS;
    retry->debt_max = (double)longest_ms / 2 / 1e3 * TOKENS_PER_S;
}

static double cost_of(enum esp_verdict verdict) {
    return verdict == ESP_VERDICT_TRANSIENT ? COST_TRANSIENT : COST_THROTTLED;
}

static void add_tokens(struct esp_retry *retry, double tokens) {
    retry->tokens += tokens;
    if (retry->tokens > TOKENS_MAX) {
        retry->tokens = TOKENS_MAX;
    }
}

uint64_t esp_retry_wait_ns(struct esp_retry *retry, enum esp_verdict verdict, unsigned attempt,
                           uint64_t asked_ms, uint64_t now_ns) {
    add_tokens(retry, (double)(now_ns - retry->refilled_ns) / 1e9 * TOKENS_PER_S);
    retry->refilled_ns = now_ns;
    retry->tokens -= cost_of(verdict);

    uint64_t base_ms = verdict == ESP_VERDICT_THROTTLED ? BASE_THROTTLED_MS : BASE_TRANSIENT_MS;
    uint64_t most_ns = base_ms * MS_NS << (attempt < 20 ? attempt - 1 : 19);
    uint64_t wait_ns =
        (uint64_t)(esp_rng_unit(&retry->rng) * (double)(most_ns < CAP_NS ? most_ns : CAP_NS));
    uint64_t most_asked_ms = CAP_MS + ASKED_OVER_MS_MAX; /* before it is multiplied */
    uint64_t asked_ns = (asked_ms < most_asked_ms ? asked_ms : most_asked_ms) * MS_NS;
    if (asked_ns > wait_ns) {
        uint64_t longest_ns = wait_ns + ASKED_OVER_MS_MAX * MS_NS;
        wait_ns = asked_ns < longest_ns ? asked_ns : longest_ns;
    }
    if (retry->tokens < 0) {
        double paid_s = -retry->tokens / TOKENS_PER_S;
        if (-retry->tokens > retry->debt_max) { /* those beyond must not all come at once */
            retry->tokens = -retry->debt_max;
            paid_s = retry->debt_max / TOKENS_PER_S * (1 + esp_rng_unit(&retry->rng));
        }
        uint64_t paid_ns = (uint64_t)(paid_s * 1e9);
        wait_ns = paid_ns > wait_ns ? paid_ns : wait_ns;
    }
    return wait_ns;
}

void esp_retry_succeeded(struct esp_retry *retry, enum esp_verdict verdict) {
    add_tokens(retry, verdict == ESP_VERDICT_FINAL ? 1 : cost_of(verdict));
}

unsigned esp_retry_attempts_max(enum esp_verdict verdict) {
    switch (verdict) {
    case ESP_VERDICT_THROTTLED:
        return UINT32_MAX;
    case ESP_VERDICT_TRANSIENT:
    case ESP_VERDICT_CONFLICT:
        return 10;
    case ESP_VERDICT_CLOCK:
    case ESP_VERDICT_RENEW:
    case ESP_VERDICT_ONCE:
        return 2;
    default:
        return 1;
    }
}
