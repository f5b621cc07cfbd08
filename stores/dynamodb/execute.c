/* Single requests: many in flight, each retried by itself, outcomes into the request. */
#include "stores/dynamodb/outcome.h"

#include <openssl/rand.h>
#include <stdio.h>

enum { ARENA_BYTES_MAX = 64 << 20 };

enum esp_status esp_execute_init(struct esp_dynamodb_session *ds, struct esp_error *err) {
    ds->pending =
        esp_calloc(ds->client.endpoint->alloc, ds->client.call_count, sizeof *ds->pending);
    esp_arena_init(&ds->arena, ds->client.endpoint->alloc, ARENA_BYTES_MAX);
    return ds->pending ? ESP_OK : esp_fail_nomem(err);
}

void esp_execute_fini(struct esp_dynamodb_session *ds) {
    if (ds->client.endpoint) {
        esp_release(ds->client.endpoint->alloc, ds->pending,
                    ds->client.call_count * sizeof *ds->pending);
        ds->pending = NULL;
    }
    if (ds->arena.alloc) {
        esp_arena_fini(&ds->arena);
    }
}

/* --- a write that may have been ours: its item is read back ----------------------------- */

static bool starts_read_back(struct esp_pending *p, const struct esp_call *call) {
    const struct esp_request *r = p->request;
    return call->status == ESP_ERR_CONDITION && call->maybe_done && !p->reading_back &&
           r->kind == ESP_REQ_WRITE && r->write.n == 1;
}

static void encode(struct esp_pending *p, const struct esp_request *request,
                   struct esp_call *call) {
    esp_buf_reset(&call->body);
    call->operation = esp_encode_request(&p->ds->encoder, request, p->token, &call->body);
}

static void read_back(struct esp_pending *p, struct esp_call *call) {
    struct esp_request get = {.kind = ESP_REQ_GET,
                              .get = {&p->request->write.w[0].item, 1, ESP_STRONG}};
    p->reading_back = true;
    p->error = call->error;
    call->once = false;
    encode(p, &get, call);
    esp_client_submit(call);
}

/* --- from start to end ------------------------------------------------------------------ */

static void settle(struct esp_pending *p, struct esp_call *call, enum esp_status status) {
    struct esp_request *r = p->request;
    r->status = status;
    r->undone = r->kind == ESP_REQ_GET || r->kind == ESP_REQ_WRITE ? p->left : 0;
    p->ds->open--;
    esp_client_release(call);
}

static enum esp_status on_answer(struct esp_pending *p, struct esp_call *call) {
    const struct esp_schema *schema = esp_pending_schema(p);
    struct esp_answer answer;
    esp_answer_split(esp_buf_str(&call->x.answer), &answer);
    bool write = !p->reading_back &&
                 (p->request->kind == ESP_REQ_WRITE || p->request->kind == ESP_REQ_TRANSACT);
    double billed = esp_answer_bill(&answer, schema, write, esp_pending_usage(p));
    if (p->reading_back) {
        return esp_outcome_read_back(p, &answer);
    }
    switch (call->operation) {
    case ESP_OP_QUERY:
    case ESP_OP_SCAN:
        return esp_outcome_page(p, &answer, billed);
    case ESP_OP_BATCH_WRITE_ITEM:
        return esp_outcome_batch_write(p, &answer);
    case ESP_OP_TRANSACT_WRITE_ITEMS:
        return esp_outcome_transaction(p);
    case ESP_OP_PUT_ITEM:
    case ESP_OP_DELETE_ITEM:
    case ESP_OP_UPDATE_ITEM:
        return esp_outcome_write(p, &answer, call->maybe_done);
    default:
        return esp_outcome_get(p, call->operation, &answer);
    }
}

/* A transaction was cancelled: true when it will be tried again. */
static bool retry_cancelled(struct esp_pending *p, struct esp_call *call) {
    struct esp_answer answer;
    char sentence[900];
    esp_answer_split(esp_buf_str(&call->x.answer), &answer);
    size_t actions = p->request->kind == ESP_REQ_TRANSACT ? p->request->write.n : p->request->get.n;
    struct esp_failure why = esp_answer_cancelled(&answer, actions, call->client->endpoint->alloc,
                                                  sentence, sizeof sentence);
    if (why.verdict != ESP_VERDICT_FINAL && esp_client_again(call, why.verdict, false, sentence)) {
        return true;
    }
    esp_error_clear(&call->error);
    call->status =
        esp_fail(&call->error, why.status, "the transaction was cancelled: %s", sentence);
    call->error.http_status = (int)call->x.status;
    return false;
}

static void on_done(struct esp_call *call) {
    struct esp_pending *p = call->owner;
    if (call->cancelled && retry_cancelled(p, call)) {
        return;
    }
    if (call->status != ESP_OK) {
        if (starts_read_back(p, call)) {
            read_back(p, call);
            return;
        }
        p->request->error = call->error;
        settle(p, call, call->status);
        return;
    }
    size_t before = p->left;
    enum esp_status status = on_answer(p, call);
    bool batch =
        call->operation == ESP_OP_BATCH_GET_ITEM || call->operation == ESP_OP_BATCH_WRITE_ITEM;
    if (status == ESP_OK && batch && p->left > 0) {
        struct esp_request rest = *p->request;
        if (rest.kind == ESP_REQ_GET) {
            rest.get.n = p->left;
        } else {
            rest.write.n = p->left;
        }
        encode(p, &rest, call);
        if (esp_client_again(call, ESP_VERDICT_THROTTLED, p->left < before,
                             "the endpoint left a part of the batch undone")) {
            return;
        }
        p->request->error = call->error;
        status = call->status;
    }
    settle(p, call, status);
}

static bool is_once(const struct esp_request *r) {
    const struct esp_write *w = r->kind == ESP_REQ_WRITE && r->write.n == 1 ? r->write.w : NULL;
    for (size_t i = 0; w && w->kind == ESP_UPDATE && i < w->change_count; i++) {
        if (w->changes[i].kind == ESP_CHANGE_ADD && w->changes[i].value.type == ESP_TYPE_N) {
            return true; /* adding twice is not adding once */
        }
    }
    return false;
}

static void start(struct esp_dynamodb_session *ds, struct esp_request *r, struct esp_call *call) {
    struct esp_pending *p = &ds->pending[call - ds->client.calls];
    *p = (struct esp_pending){.ds = ds, .request = r};
    p->left = r->kind == ESP_REQ_GET ? r->get.n : r->kind == ESP_REQ_WRITE ? r->write.n : 0;
    r->status = ESP_OK;
    r->more = false;
    r->undone = p->left;
    esp_error_clear(&r->error);
    ds->open++;
    call->owner = p;
    call->done = on_done;
    call->once = is_once(r);
    if (r->kind == ESP_REQ_TRANSACT) {
        unsigned char noise[ESP_REQUEST_TOKEN_LEN / 2];
        if (RAND_bytes(noise, sizeof noise) != 1) {
            settle(p, call, esp_fail(&r->error, ESP_ERR_INTERNAL, "OpenSSL has no random bytes"));
            return;
        }
        for (size_t i = 0; i < sizeof noise; i++) {
            snprintf(p->token + 2 * i, 3, "%02x", noise[i]);
        }
    }
    encode(p, r, call);
    esp_client_submit(call);
}

enum esp_status esp_dynamodb_execute(struct esp_session *session, struct esp_request *requests,
                                     size_t n, struct esp_error *err) {
    struct esp_dynamodb_session *ds = session->impl;
    struct esp_client *client = &ds->client;
    size_t next = 0;
    if (ds->failure.status == ESP_OK) {
        esp_client_recover(client);
    }
    esp_bulk_submit(ds); /* the call that it holds may be the only one */
    while (next < n || ds->open > 0) {
        struct esp_call *call = next < n ? esp_client_take(client) : NULL;
        if (call) {
            start(ds, &requests[next++], call);
        } else {
            esp_client_step(client, true);
        }
    }
    return client->fatal == ESP_OK ? ESP_OK
                                   : esp_client_fail(err, client->fatal, &client->fatal_error);
}
