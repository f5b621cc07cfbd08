/* What errors mean, how long retries wait, and that they are paid for. */
#include "stores/dynamodb/retry.h"
#include "tests/support/support.h"

#define MS_NS       UINT64_C(1000000)
#define PATIENCE_MS UINT64_C(60000)

static void assert_failure(long http_status, const char *name, enum esp_verdict verdict,
                           enum esp_status status, bool maybe_done) {
    struct esp_failure f = esp_failure_classify(http_status, esp_str_from(name));
    assert_int_equal(f.verdict, verdict);
    assert_int_equal(f.status, status);
    assert_int_equal(f.maybe_done, maybe_done);
}

static void test_errors(void **state) {
    (void)state;
    assert_failure(400, "ThrottlingException", ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false);
    assert_failure(400, "ValidationException", ESP_VERDICT_FINAL, ESP_ERR_REFUSED, false);
    assert_failure(400, "ConditionalCheckFailedException", ESP_VERDICT_FINAL, ESP_ERR_CONDITION,
                   false);
    assert_failure(400, "TransactionConflictException", ESP_VERDICT_CONFLICT, ESP_ERR_CONFLICT,
                   false);
    assert_failure(409, "ReplicatedWriteConflictException", ESP_VERDICT_CONFLICT, ESP_ERR_CONFLICT,
                   false);
    assert_failure(500, "InternalServerError", ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true);
    assert_failure(400, "ExpiredTokenException", ESP_VERDICT_RENEW, ESP_ERR_CREDENTIALS, false);
    assert_failure(400, "InvalidSignatureException", ESP_VERDICT_CLOCK, ESP_ERR_CREDENTIALS, false);
    assert_failure(400, "ResourceNotFoundException", ESP_VERDICT_FINAL, ESP_ERR_NOT_FOUND, false);
    assert_failure(503, "", ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true);
    assert_failure(429, "", ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false);
    assert_failure(403, "", ESP_VERDICT_FINAL, ESP_ERR_CREDENTIALS, false);
    assert_failure(413, "", ESP_VERDICT_FINAL, ESP_ERR_REFUSED, false);
    assert_failure(302, "", ESP_VERDICT_FINAL, ESP_ERR_REFUSED, false);
}

static void test_waits_grow_to_a_cap(void **state) {
    (void)state;
    for (unsigned attempt = 1; attempt < 40; attempt++) {
        uint64_t longest = 0, cap_ms = attempt < 10 ? UINT64_C(50) << (attempt - 1) : 20000;
        for (uint64_t stream = 0; stream < 200; stream++) {
            struct esp_retry retry;
            esp_retry_init(&retry, 1, stream, PATIENCE_MS, 0);
            uint64_t wait = esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, attempt, 0, 0);
            longest = wait > longest ? wait : longest;
        }
        cap_ms = cap_ms < 20000 ? cap_ms : 20000;
        assert_true(longest <= cap_ms * MS_NS);
        assert_true(longest > cap_ms * MS_NS * 9 / 10); /* full jitter uses all of it */
    }
}

static void test_asked_for_wait_is_kept_within_reason(void **state) {
    (void)state;
    struct esp_retry retry;
    esp_retry_init(&retry, 1, 1, PATIENCE_MS, 0);
    assert_true(esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 3000, 0) == 3000 * MS_NS);
    uint64_t wait = esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 3600000, 0);
    assert_true(wait >= 5000 * MS_NS && wait <= 5050 * MS_NS);
    uint64_t wraps_ms = UINT64_MAX / MS_NS + 2; /* in nanoseconds next to nothing */
    assert_true(esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, wraps_ms, 0) >= 5000 * MS_NS);
}

static void test_no_retry_without_a_token(void **state) {
    (void)state;
    struct esp_retry retry;
    esp_retry_init(&retry, 1, 1, PATIENCE_MS, 0);
    for (int i = 0; i < 100; i++) { /* 500 tokens, 5 each */
        assert_true(esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 0, 0) <= 50 * MS_NS);
    }
    uint64_t first = esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 0, 0);
    uint64_t second = esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 0, 0);
    assert_true(first == 500 * MS_NS); /* 10 tokens a second */
    assert_true(second == 1000 * MS_NS);
    esp_retry_succeeded(&retry, ESP_VERDICT_THROTTLED);
    esp_retry_succeeded(&retry, ESP_VERDICT_THROTTLED);
    assert_true(esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 0, 0) == 500 * MS_NS);
    uint64_t later_ns = UINT64_C(3600) * 1000000000;
    assert_true(esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 0, later_ns) <= 50 * MS_NS);
}

/* However much has been throttled, waits end while there is time for some more tries. */
static void test_debt_is_bounded(void **state) {
    (void)state;
    struct esp_retry retry;
    esp_retry_init(&retry, 1, 1, PATIENCE_MS, 0);
    uint64_t shortest = UINT64_MAX, longest = 0;
    for (int i = 0; i < 2000; i++) {
        uint64_t wait = esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 0, 0);
        if (i >= 1000) {
            shortest = wait < shortest ? wait : shortest;
            longest = wait > longest ? wait : longest;
        }
    }
    assert_true(longest <= PATIENCE_MS / 4 * MS_NS);
    assert_true(shortest >= PATIENCE_MS / 8 * MS_NS);           /* still a slow load */
    assert_true(longest - shortest > PATIENCE_MS / 16 * MS_NS); /* not all at once */
    for (int i = 0; i < 200; i++) {
        esp_retry_succeeded(&retry, ESP_VERDICT_THROTTLED);
    }
    assert_true(esp_retry_wait_ns(&retry, ESP_VERDICT_THROTTLED, 1, 0, 0) <= 50 * MS_NS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_waits_grow_to_a_cap),
        cmocka_unit_test(test_asked_for_wait_is_kept_within_reason),
        cmocka_unit_test(test_no_retry_without_a_token),
        cmocka_unit_test(test_debt_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
