#include "stores/dynamodb/client.h"

#include "stores/dynamodb/json_scan.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <zlib.h>

#define MS_NS   UINT64_C(1000000)
#define SKEW_NS (INT64_C(4) * 60 * 1000000000) /* facts sheet 1.5 */

enum {
    BODY_BYTES_MAX = 20 << 20, /* DynamoDB takes 16 MB */
    HEADER_BYTES_MAX = 64 << 10,
    POLL_MS_MAX = 100, /* how long a wish to stop may go unseen */
    UNREACHED_ATTEMPTS_MAX = 4,
    ANSWER_KEPT_BYTES_MAX = 4 << 20,
};

#define TARGET(name) "X-Amz-Target: DynamoDB_20120810." name
static const char *const target_headers[] = {
    [ESP_OP_GET_ITEM] = TARGET("GetItem"),
    [ESP_OP_BATCH_GET_ITEM] = TARGET("BatchGetItem"),
    [ESP_OP_TRANSACT_GET_ITEMS] = TARGET("TransactGetItems"),
    [ESP_OP_QUERY] = TARGET("Query"),
    [ESP_OP_SCAN] = TARGET("Scan"),
    [ESP_OP_PUT_ITEM] = TARGET("PutItem"),
    [ESP_OP_DELETE_ITEM] = TARGET("DeleteItem"),
    [ESP_OP_UPDATE_ITEM] = TARGET("UpdateItem"),
    [ESP_OP_BATCH_WRITE_ITEM] = TARGET("BatchWriteItem"),
    [ESP_OP_TRANSACT_WRITE_ITEMS] = TARGET("TransactWriteItems"),
    [ESP_OP_CREATE_TABLE] = TARGET("CreateTable"),
    [ESP_OP_DESCRIBE_TABLE] = TARGET("DescribeTable"),
    [ESP_OP_DELETE_TABLE] = TARGET("DeleteTable"),
    [ESP_OP_LIST_TABLES] = TARGET("ListTables"),
};

static const char *target_of(enum esp_operation operation) {
    return target_headers[operation] + sizeof "X-Amz-Target: " - 1;
}

static const char *name_of(enum esp_operation operation) {
    return target_headers[operation] + sizeof TARGET("") - 1;
}

/* --- life ----------------------------------------------------------------------- */

static enum esp_status call_init(struct esp_client *client, struct esp_call *call,
                                 struct esp_error *err) {
    const struct esp_aws_settings *s = &client->endpoint->settings;
    const struct esp_alloc *alloc = client->endpoint->alloc;
    struct esp_http_place place = {s->url.ptr, s->ca_bundle, s->loopback};
    call->client = client;
    esp_buf_init(&call->body, alloc, BODY_BYTES_MAX);
    esp_buf_init(&call->authorization, alloc, HEADER_BYTES_MAX);
    esp_buf_init(&call->token, alloc, HEADER_BYTES_MAX);
    enum esp_status status = esp_exchange_init(&call->x, &place, alloc, err);
    call->x.owner = call;
    return status;
}

static void call_fini(struct esp_client *client, struct esp_call *call) {
    esp_exchange_fini(&client->http, &call->x);
    if (call->client) {
        if (call->token.ptr) {
            OPENSSL_cleanse(call->token.ptr, call->token.cap);
        }
        esp_buf_fini(&call->body);
        esp_buf_fini(&call->authorization);
        esp_buf_fini(&call->token);
    }
}

enum esp_status esp_client_open(struct esp_client *client, struct esp_endpoint *endpoint,
                                unsigned calls, struct esp_usage *usage, struct esp_error *err) {
    const struct esp_alloc *alloc = endpoint->alloc;
    memset(client, 0, sizeof *client);
    client->endpoint = endpoint;
    client->usage = usage;
    esp_retry_init(&client->retry, endpoint->seed, atomic_fetch_add(&endpoint->clients, 1),
                   esp_now_ns(endpoint->clock));
    esp_credential_copy_init(&client->keys, alloc);
    enum esp_status status = esp_signer_init(&client->signer, alloc, err);
    if (status == ESP_OK) {
        status = esp_http_init(&client->http, calls, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    client->calls = esp_calloc(alloc, calls, sizeof *client->calls);
    client->idle = esp_calloc(alloc, calls, sizeof *client->idle);
    client->call_count = calls;
    if (!client->calls || !client->idle) {
        return esp_fail_nomem(err);
    }
    for (unsigned i = calls; i-- > 0 && status == ESP_OK;) {
        client->idle[client->idle_count++] = i;
        status = call_init(client, &client->calls[i], err);
    }
    return status;
}

void esp_client_close(struct esp_client *client) {
    if (!client->endpoint) {
        return;
    }
    const struct esp_alloc *alloc = client->endpoint->alloc;
    for (unsigned i = 0; client->calls && i < client->call_count; i++) {
        call_fini(client, &client->calls[i]);
    }
    esp_http_fini(&client->http);
    esp_signer_fini(&client->signer);
    esp_credential_copy_fini(&client->keys);
    esp_release(alloc, client->calls, client->call_count * sizeof *client->calls);
    esp_release(alloc, client->idle, client->call_count * sizeof *client->idle);
    memset(client, 0, sizeof *client);
}

struct esp_call *esp_client_take(struct esp_client *client) {
    if (client->idle_count == 0) {
        return NULL;
    }
    struct esp_call *call = &client->calls[client->idle[--client->idle_count]];
    esp_buf_reset(&call->body);
    call->once = false;
    return call;
}

void esp_client_release(struct esp_call *call) {
    struct esp_client *client = call->client;
    client->idle[client->idle_count++] = (unsigned)(call - client->calls);
    if (call->x.answer.cap > ANSWER_KEPT_BYTES_MAX) { /* one huge page must not stay for ever */
        esp_buf_fini(&call->x.answer);
        esp_buf_init(&call->x.answer, client->endpoint->alloc, ESP_HTTP_ANSWER_BYTES_MAX);
    }
}

/* --- sending -------------------------------------------------------------------- */

/* The signing time, corrected by what the server's clock says. */
static void update_date(struct esp_client *client) {
    uint64_t wall_ns =
        esp_wall_ns(client->endpoint->clock) +
        (uint64_t)atomic_load_explicit(&client->endpoint->clock_offset_ns, memory_order_relaxed);
    uint64_t second = wall_ns / UINT64_C(1000000000);
    if (second != client->dated_s || client->date[0] == '\0') {
        client->dated_s = second;
        esp_wall_format_iso(wall_ns, client->date);
    }
}

static enum esp_status update_key(struct esp_client *client, struct esp_error *err) {
    struct esp_endpoint *endpoint = client->endpoint;
    struct esp_credential_copy *keys = &client->keys;
    if (esp_credentials_changed(endpoint->credentials, keys->generation)) {
        enum esp_status status = esp_credentials_get(endpoint->credentials, keys, err);
        if (status != ESP_OK) {
            return status;
        }
    }
    return esp_signer_needs_key(&client->signer, client->date, keys->generation)
               ? esp_signer_set_key(&client->signer, client->date, keys->generation,
                                    esp_buf_str(&keys->key_id), esp_buf_str(&keys->secret),
                                    endpoint->settings.region, err)
               : ESP_OK;
}

static enum esp_status sign(struct esp_call *call, struct esp_error *err) {
    struct esp_client *client = call->client;
    const struct esp_aws_settings *s = &client->endpoint->settings;
    struct esp_str token = esp_buf_str(&client->keys.token);
    if (call->body.failed) {
        return esp_fail_nomem(err);
    }
    esp_buf_reset(&call->authorization);
    ESP_BUF_LIT(&call->authorization, "Authorization: ");
    enum esp_status status = esp_signer_sign(&client->signer, client->date, s->host, s->region,
                                             token, esp_str_from(target_of(call->operation)),
                                             esp_buf_str(&call->body), &call->authorization, err);
    memcpy(call->date, "X-Amz-Date: ", 12);
    memcpy(call->date + 12, client->date, sizeof client->date);
    esp_buf_reset(&call->token);
    if (token.len) {
        ESP_BUF_LIT(&call->token, "X-Amz-Security-Token: ");
        esp_buf_put_str(&call->token, token);
        if (!esp_buf_cstr(&call->token)) {
            return esp_fail_nomem(err);
        }
    }
    return status == ESP_OK && !esp_buf_cstr(&call->authorization) ? esp_fail_nomem(err) : status;
}

static enum esp_status send_call(struct esp_call *call, struct esp_error *err) {
    struct esp_client *client = call->client;
    update_date(client);
    enum esp_status status = update_key(client, err);
    if (status == ESP_OK) {
        status = sign(call, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    const char *headers[ESP_HTTP_HEADERS] = {"Content-Type: " ESP_DYNAMODB_CONTENT_TYPE,
                                             target_headers[call->operation],
                                             call->date,
                                             call->authorization.ptr,
                                             "Accept:", /* without: not sent */
                                             "Expect:"};
    size_t count = 6;
    if (call->token.len) {
        headers[count++] = call->token.ptr;
    }
    /* One try takes half of the time at most, so that a dead connection leaves some. */
    uint64_t timeout_ms = client->endpoint->timeout_ms / 2;
    status = esp_http_start(&client->http, &call->x, headers, count, esp_buf_str(&call->body),
                            timeout_ms ? timeout_ms : 1, err);
    if (status == ESP_OK) {
        call->state = ESP_CALL_SENT;
        client->sent++;
        client->usage->requests++;
    }
    return status;
}

/* --- outcomes -------------------------------------------------------------------- */

static bool is_fatal(enum esp_status status) {
    return status == ESP_ERR_UNAVAILABLE || status == ESP_ERR_CREDENTIALS ||
           status == ESP_ERR_NOMEM || status == ESP_ERR_CANCELLED || status == ESP_ERR_INTERNAL;
}

void esp_client_give_up(struct esp_client *client, enum esp_status status,
                        const struct esp_error *why) {
    if (client->fatal == ESP_OK) {
        client->fatal = status;
        client->fatal_error = *why;
    }
}

void esp_client_recover(struct esp_client *client) {
    client->fatal = ESP_OK;
    esp_error_clear(&client->fatal_error);
}

/* The call has come to its end, well or not. */
static void finish(struct esp_call *call, enum esp_status status) {
    call->status = status;
    call->state = ESP_CALL_IDLE;
    if (is_fatal(status) && !call->once) { /* losing track of one change says nothing of others */
        esp_client_give_up(call->client, status, &call->error);
    }
    call->done(call);
}

static void fail_sending(struct esp_call *call, enum esp_status status) {
    call->error.status = status;
    finish(call, status);
}

void esp_client_submit(struct esp_call *call) {
    struct esp_client *client = call->client;
    call->maybe_done = call->cancelled = false;
    call->attempts = 0;
    call->retried_for = ESP_VERDICT_FINAL;
    call->begun_ns = esp_now_ns(client->endpoint->clock);
    esp_error_clear(&call->error);
    if (client->fatal != ESP_OK) {
        call->error = client->fatal_error;
        finish(call, client->fatal);
        return;
    }
    enum esp_status status = send_call(call, &call->error);
    if (status != ESP_OK) {
        fail_sending(call, status);
    }
}

/* Records the failure of a try as the call's error. */
static void set_error(struct esp_call *call, enum esp_status status, const char *sentence) {
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
    set_error(call, failure.status, sentence);
    if (call->once && failure.maybe_done) {
        esp_error_clear(&call->error);
        set_error(call, ESP_ERR_UNAVAILABLE,
                  "the answer was lost, so that it is not known whether "
                  "the change was made; it was not tried again");
        failure.status = ESP_ERR_UNAVAILABLE;
    } else if (schedule(call, failure.verdict, attempts_max)) {
        return;
    }
    finish(call, failure.status);
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
    set_error(call, failure.status, reason);
    if (schedule(call, why, esp_retry_attempts_max(why))) {
        return true;
    }
    call->status = failure.status;
    return false;
}

/* Corrects the clock by the Date header; false when there is nothing to correct. */
static bool correct_clock(struct esp_call *call) {
    struct esp_endpoint *endpoint = call->client->endpoint;
    time_t server_s = call->x.date[0] && !call->x.cached ? curl_getdate(call->x.date, NULL) : -1;
    if (server_s <= 0) {
        return false;
    }
    int64_t offset_ns = (int64_t)server_s * 1000000000 - (int64_t)esp_wall_ns(endpoint->clock);
    int64_t change_ns = offset_ns - atomic_load(&endpoint->clock_offset_ns);
    if (change_ns < SKEW_NS && change_ns > -SKEW_NS) {
        return false;
    }
    atomic_store(&endpoint->clock_offset_ns, offset_ns);
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

static void on_unanswered(struct esp_call *call) {
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

static void on_answered(struct esp_call *call) {
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
        finish(call, ESP_OK);
        return;
    }
    char sentence[900];
    struct esp_failure failure = read_error(call, sentence, sizeof sentence);
    if ((failure.verdict == ESP_VERDICT_CLOCK && !correct_clock(call)) ||
        (failure.verdict == ESP_VERDICT_RENEW &&
         !esp_credentials_renew(client->endpoint->credentials, client->keys.generation))) {
        failure.verdict = ESP_VERDICT_FINAL;
    }
    if (failure.cancelled) { /* whoever sent it knows which of its actions the reasons are for */
        set_error(call, ESP_ERR_CONDITION, sentence);
        call->cancelled = true;
        finish(call, ESP_ERR_CONDITION);
        return;
    }
    fail(call, failure, sentence, esp_retry_attempts_max(failure.verdict));
}

static bool stop_wanted(const struct esp_client *client, uint64_t now_ns) {
    return (client->stop && *client->stop && **client->stop) ||
           (client->deadline_ns && *client->deadline_ns && now_ns > *client->deadline_ns);
}

/* The caller wants to stop: whatever is in flight is forgotten. */
static void stop_all(struct esp_client *client) {
    bool wish = client->stop && *client->stop && **client->stop;
    for (unsigned i = 0; i < client->call_count; i++) {
        struct esp_call *call = &client->calls[i];
        if (call->state == ESP_CALL_IDLE) {
            continue;
        }
        if (call->state == ESP_CALL_SENT) {
            esp_http_abort(&client->http, &call->x);
            client->sent--;
            call->maybe_done = true;
        } else {
            client->waiting--;
        }
        enum esp_status status = wish ? ESP_ERR_CANCELLED : ESP_ERR_UNAVAILABLE;
        call->x.status = 0;
        set_error(call, status, wish ? "stopped on request" : "the time allowed is over");
        finish(call, status);
    }
}

/* Sends what is due; returns how long until the next one is, or UINT64_MAX. */
static uint64_t send_due(struct esp_client *client, uint64_t now_ns) {
    uint64_t next_ns = UINT64_MAX;
    for (unsigned i = 0; client->waiting && i < client->call_count; i++) {
        struct esp_call *call = &client->calls[i];
        if (call->state != ESP_CALL_WAITING) {
            continue;
        }
        if (client->fatal != ESP_OK) {
            client->waiting--;
            finish(call, call->error.status);
        } else if (call->due_ns <= now_ns) {
            client->waiting--;
            struct esp_error why = ESP_ERROR_INIT;
            enum esp_status status = send_call(call, &why);
            if (status != ESP_OK) {
                call->error = why;
                fail_sending(call, status);
            }
        } else if (call->due_ns - now_ns < next_ns) {
            next_ns = call->due_ns - now_ns;
        }
    }
    return next_ns;
}

static void collect(struct esp_client *client) {
    struct esp_exchange *x;
    while ((x = esp_http_finished(&client->http)) != NULL) {
        struct esp_call *call = x->owner;
        client->sent--;
        (x->outcome == ESP_HTTP_ANSWERED ? on_answered : on_unanswered)(call);
    }
}

void esp_client_step(struct esp_client *client, bool wait) {
    const struct esp_clock *clock = client->endpoint->clock;
    struct esp_error why = ESP_ERROR_INIT;
    uint64_t now_ns = esp_now_ns(clock);
    if (stop_wanted(client, now_ns)) {
        stop_all(client);
        return;
    }
    uint64_t next_ns = client->waiting ? send_due(client, now_ns) : UINT64_MAX;
    uint64_t most_ns = POLL_MS_MAX * MS_NS, wait_ns = next_ns < most_ns ? next_ns : most_ns;
    enum esp_status status = ESP_OK;
    if (client->sent) {
        status =
            esp_http_drive(&client->http, wait ? (int)((wait_ns + MS_NS - 1) / MS_NS) : 0, &why);
        collect(client);
    } else if (wait && client->waiting && wait_ns) {
        esp_sleep_ns(clock, wait_ns);
    }
    if (status != ESP_OK) {
        esp_client_give_up(client, status, &why);
        stop_all(client);
    }
}

void esp_client_finish(struct esp_client *client) {
    while (client->sent || client->waiting) {
        esp_client_step(client, true);
    }
}

enum esp_status esp_client_fail(struct esp_error *err, enum esp_status status,
                                const struct esp_error *why) {
    if (err && err->status == ESP_OK) {
        *err = *why;
        err->status = status;
    }
    return status;
}

static void on_single_done(struct esp_call *call) {
    (void)call;
}

enum esp_status esp_client_call(struct esp_call *call, struct esp_error *err) {
    call->done = on_single_done;
    esp_client_submit(call);
    esp_client_finish(call->client);
    return call->status == ESP_OK ? ESP_OK : esp_client_fail(err, call->status, &call->error);
}
