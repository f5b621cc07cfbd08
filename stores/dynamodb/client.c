#include "stores/dynamodb/client.h"
#include "stores/store.h"

#include <openssl/crypto.h>

#define MS_NS UINT64_C(1000000)

enum {
    BODY_BYTES_MAX = 20 << 20, /* DynamoDB takes 16 MB */
    HEADER_BYTES_MAX = 64 << 10,
    POLL_MS_MAX = 100, /* how long a wish to stop may go unseen */
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

const char *esp_operation_target(enum esp_operation operation) {
    return target_headers[operation] + sizeof "X-Amz-Target: " - 1;
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
                   endpoint->timeout_ms, esp_now_ns(endpoint->clock));
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
    client->dated_ns = wall_ns;
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
    enum esp_status status =
        esp_signer_sign(&client->signer, client->date, s->host, s->region, token,
                        esp_str_from(esp_operation_target(call->operation)),
                        esp_buf_str(&call->body), &call->authorization, err);
    call->signed_wall_ns = client->dated_ns;
    call->signed_generation = client->keys.generation;
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
void esp_call_finish(struct esp_call *call, enum esp_status status) {
    call->status = status;
    call->state = ESP_CALL_IDLE;
    if (is_fatal(status) && !call->once) { /* losing track of one change says nothing of others */
        esp_client_give_up(call->client, status, &call->error);
    }
    call->done(call);
}

static void fail_sending(struct esp_call *call, enum esp_status status) {
    call->error.status = status;
    esp_call_finish(call, status);
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
        esp_call_finish(call, client->fatal);
        return;
    }
    enum esp_status status = send_call(call, &call->error);
    if (status != ESP_OK) {
        fail_sending(call, status);
    }
}

static bool stop_asked_for(const struct esp_client *client) {
    return client->stop && esp_stop_wanted(*client->stop);
}

static bool stop_wanted(const struct esp_client *client, uint64_t now_ns) {
    return stop_asked_for(client) ||
           (client->deadline_ns && *client->deadline_ns && now_ns > *client->deadline_ns);
}

/* The caller wants to stop: whatever is in flight is forgotten. */
static void stop_all(struct esp_client *client) {
    bool wish = stop_asked_for(client);
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
        esp_call_set_error(call, status, wish ? "stopped on request" : "the time allowed is over");
        esp_call_finish(call, status);
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
            esp_call_finish(call, call->error.status);
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
        (x->outcome == ESP_HTTP_ANSWERED ? esp_call_answered : esp_call_unanswered)(call);
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
