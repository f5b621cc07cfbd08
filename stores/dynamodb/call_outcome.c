/* What became of a try: an answer, an error answer, or nothing; and whether another is made. */
#include "stores/dynamodb/client.h"
#include "stores/dynamodb/json_scan.h"

#include <stdio.h>
#include <zlib.h>

#define MS_NS   UINT64_C(1000000)
#define SKEW_NS (INT64_C(4) * 60 * 1000000000) /* facts sheet 1.5 */

enum { UNREACHED_ATTEMPTS_MAX = 4 };

/* "PutItem" */
static const char *name_of(enum esp_operation operation) {
    return esp_operation_target(operation) + sizeof "DynamoDB_20120810." - 1;
}

/* Records the failure of a try as the call's error. */
void esp_call_set_error(struct esp_call *call, enum esp_status status, const char *sentence) {
    struct esp_client *client = call->client;
    esp_error_clear(&call->error);
    esp_fail(&call->error, status, "%s: %s", name_of(call->operation), sentence);
    call->error.http_status = (int)call->x.status;
    snprintf(call->error.source, sizeof call->error.source, "%s",
             client->endpoint->settings.url.ptr);
}

/* Whether there is time and money for another try; if so the call waits for it. */
static bool schedule(struct esp_call *call, enum esp_verdict verdict, unsigned attempts_max) {
    struct esp_client *client = call->client;
    if (client->fatal != ESP_OK || verdict == ESP_VERDICT_FINAL) {
        return false;
    }
    if (verdict != call->retried_for) {
        call->retried_for = verdict;
        call->attempts = 0;
    }
    call->attempts++;
    if (call->attempts >= attempts_max) {
        return false;
    }
    uint64_t now_ns = esp_now_ns(client->endpoint->clock);
    uint64_t wait_ns =
        esp_retry_wait_ns(&client->retry, verdict, call->attempts, call->x.retry_after_ms, now_ns);
    if (now_ns + wait_ns - call->begun_ns > client->endpoint->timeout_ms * MS_NS ||
        (client->deadline_ns && *client->deadline_ns && now_ns + wait_ns > *client->deadline_ns)) {
        return false;
    }
    call->state = ESP_CALL_WAITING;
    call->cancelled = false;
    call->due_ns = now_ns + wait_ns;
    client->waiting++;
    client->usage->retries++;
    return true;
}

static void fail(struct esp_call *call, struct esp_failure failure, const char *sentence,
                 unsigned attempts_max) {
    struct esp_client *client = call->client;
    call->maybe_done = call->maybe_done || failure.maybe_done;
    client->usage->throttled += failure.verdict == ESP_VERDICT_THROTTLED;
    esp_call_set_error(call, failure.status, sentence);
    if (call->once && failure.maybe_done) {
        esp_error_clear(&call->error);
        esp_call_set_error(call, ESP_ERR_UNAVAILABLE,
                           "the answer was lost, so that it is not known whether "
                           "the change was made; it was not tried again");
        failure.status = ESP_ERR_UNAVAILABLE;
    } else if (schedule(call, failure.verdict, attempts_max)) {
        return;
    }
    esp_call_finish(call, failure.status);
}

bool esp_client_again(struct esp_call *call, enum esp_verdict why, bool progress,
                      const char *reason) {
    struct esp_client *client = call->client;
    struct esp_failure failure = {why,
                                  why == ESP_VERDICT_THROTTLED  ? ESP_ERR_THROTTLED
                                  : why == ESP_VERDICT_CONFLICT ? ESP_ERR_CONFLICT
                                                                : ESP_ERR_UNAVAILABLE,
                                  why == ESP_VERDICT_TRANSIENT, false};
    call->maybe_done = call->maybe_done || failure.maybe_done;
    client->usage->throttled += why == ESP_VERDICT_THROTTLED;
    if (progress) {
        call->begun_ns = esp_now_ns(client->endpoint->clock);
        call->attempts = 0;
        esp_retry_succeeded(&client->retry, why);
    }
    esp_call_set_error(call, failure.status, reason);
    if (schedule(call, why, esp_retry_attempts_max(why))) {
        return true;
    }
    call->status = failure.status;
    return false;
}

static bool is_skewed(int64_t ns) {
    return ns >= SKEW_NS || ns <= -SKEW_NS;
}

/* Whether the time that the call was signed with is to blame, by the Date header; corrects the
 * clock, unless the answer to another call has done so meanwhile. */
static bool correct_clock(struct esp_call *call) {
    struct esp_endpoint *endpoint = call->client->endpoint;
    time_t server_s = call->x.date[0] && !call->x.cached ? curl_getdate(call->x.date, NULL) : -1;
    if (server_s <= 0) {
        return false;
    }
    int64_t server_ns = (int64_t)server_s * 1000000000;
    if (!is_skewed(server_ns - (int64_t)call->signed_wall_ns)) {
        return false;
    }
    int64_t offset_ns = server_ns - (int64_t)esp_wall_ns(endpoint->clock);
    if (is_skewed(offset_ns - atomic_load(&endpoint->clock_offset_ns))) {
        atomic_store(&endpoint->clock_offset_ns, offset_ns);
    }
    return true;
}

/* An error answer: its name without prefix and its sentence, both as text. */
static struct esp_failure read_error(struct esp_call *call, char *sentence, size_t size) {
    struct esp_buf name, text;
    struct esp_str body = esp_buf_str(&call->x.answer);
    esp_buf_init(&name, call->client->endpoint->alloc, 4096);
    esp_buf_init(&text, call->client->endpoint->alloc, 64 << 10);
    if (!esp_json_put_text(&name, esp_json_find(body, "__type"))) {
        esp_buf_reset(&name);
        esp_buf_put_str(&name, esp_str_from(call->x.error_name));
    }
    if (!esp_json_put_text(&text, esp_json_find(body, "message"))) {
        esp_buf_reset(&text);
        esp_json_put_text(&text, esp_json_find(body, "Message"));
    }
    struct esp_str word = esp_buf_str(&name);
    const char *hash = word.len ? memrchr(word.ptr, '#', word.len) : NULL;
    if (hash) {
        word = (struct esp_str){hash + 1, (size_t)(word.ptr + word.len - hash - 1)};
    }
    const char *colon = word.len ? memchr(word.ptr, ':', word.len) : NULL;
    word.len = colon ? (size_t)(colon - word.ptr) : word.len;
    struct esp_failure failure = esp_failure_classify(call->x.status, word);
    if (word.len == 0) {
        snprintf(sentence, size,
                 "the endpoint answered HTTP status %ld without the name of an error",
                 call->x.status);
    } else if (text.len == 0) {
        snprintf(sentence, size, "%.*s", ESP_FMT(word));
    } else {
        snprintf(sentence, size, "%.*s: %.*s", ESP_FMT(word), ESP_FMT(esp_buf_str(&text)));
    }
    if (name.failed) { /* without the name it would pass for a refusal */
        failure = (struct esp_failure){ESP_VERDICT_FINAL, ESP_ERR_NOMEM, true, false};
        snprintf(sentence, size, "out of memory");
    }
    esp_buf_fini(&name);
    esp_buf_fini(&text);
    return failure;
}

static bool is_whole(const struct esp_exchange *x) {
    struct esp_str body = esp_buf_str(&x->answer);
    if (x->has_crc32) {
        return crc32(0, (const unsigned char *)body.ptr, (unsigned)body.len) == x->crc32;
    }
    struct esp_json_walk walk;
    struct esp_str name, value;
    esp_json_object(body, &walk);
    while (esp_json_member(&walk, &name, &value)) {
    }
    return !walk.broken;
}

void esp_call_unanswered(struct esp_call *call) {
    struct esp_endpoint *endpoint = call->client->endpoint;
    struct esp_exchange *x = &call->x;
    struct esp_failure failure = {ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, false, false};
    unsigned attempts_max = esp_retry_attempts_max(ESP_VERDICT_TRANSIENT);
    x->retry_after_ms = 0;
    switch (x->outcome) {
    case ESP_HTTP_NOMEM:
        failure = (struct esp_failure){ESP_VERDICT_FINAL, ESP_ERR_NOMEM, true, false};
        break;
    case ESP_HTTP_REFUSED:
        failure.verdict = ESP_VERDICT_FINAL;
        break;
    case ESP_HTTP_LOST:
        failure.maybe_done = true;
        break;
    default:
        if (!atomic_load(&endpoint->answered)) { /* probably nobody is there */
            attempts_max = UNREACHED_ATTEMPTS_MAX;
        }
        break;
    }
    char sentence[sizeof x->problem + 256];
    snprintf(sentence, sizeof sentence, "%s: %s", endpoint->settings.url.ptr, x->problem);
    fail(call, failure, sentence, attempts_max);
}

void esp_call_answered(struct esp_call *call) {
    struct esp_client *client = call->client;
    struct esp_exchange *x = &call->x;
    if (!atomic_load_explicit(&client->endpoint->answered, memory_order_relaxed)) {
        atomic_store(&client->endpoint->answered, true);
    }
    if (!is_whole(x) && (x->has_crc32 || x->status == 200)) {
        struct esp_failure broken = {ESP_VERDICT_TRANSIENT, ESP_ERR_UNAVAILABLE, true, false};
        fail(call, broken,
             x->has_crc32 ? "the answer's checksum is wrong" : "the answer is not a JSON object",
             esp_retry_attempts_max(ESP_VERDICT_TRANSIENT));
        return;
    }
    if (x->status == 200) {
        esp_retry_succeeded(&client->retry, call->retried_for);
        esp_call_finish(call, ESP_OK);
        return;
    }
    char sentence[900];
    struct esp_failure failure = read_error(call, sentence, sizeof sentence);
    if ((failure.verdict == ESP_VERDICT_CLOCK && !correct_clock(call)) ||
        (failure.verdict == ESP_VERDICT_RENEW &&
         !esp_credentials_renew(client->endpoint->credentials, call->signed_generation))) {
        failure.verdict = ESP_VERDICT_FINAL;
    }
    if (failure.cancelled) { /* whoever sent it knows which of its actions the reasons are for */
        esp_call_set_error(call, ESP_ERR_CONDITION, sentence);
        call->cancelled = true;
        esp_call_finish(call, ESP_ERR_CONDITION);
        return;
    }
    fail(call, failure, sentence, esp_retry_attempts_max(failure.verdict));
}
