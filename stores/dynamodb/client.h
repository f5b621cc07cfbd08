#ifndef ESP_STORES_DYNAMODB_CLIENT_H
#define ESP_STORES_DYNAMODB_CLIENT_H
/*
 * Calls of DynamoDB operations: signed, sent, checked, retried.  A client belongs to one
 * thread and has a fixed number of calls, each in flight, waiting for its next try, or
 * idle.  What is in a body or an answer is the business of request.h and answer.h.
 *
 * Threads: clients of one store share its endpoint, and by atomics the clock's offset
 * and whether the endpoint has ever answered.
 */
#include "stores/capacity.h"
#include "stores/dynamodb/credentials.h"
#include "stores/dynamodb/http.h"
#include "stores/dynamodb/retry.h"
#include "stores/dynamodb/sign.h"

#include <stdatomic.h>

enum esp_operation {
    ESP_OP_GET_ITEM,
    ESP_OP_BATCH_GET_ITEM,
    ESP_OP_TRANSACT_GET_ITEMS,
    ESP_OP_QUERY,
    ESP_OP_SCAN,
    ESP_OP_PUT_ITEM,
    ESP_OP_DELETE_ITEM,
    ESP_OP_UPDATE_ITEM,
    ESP_OP_BATCH_WRITE_ITEM,
    ESP_OP_TRANSACT_WRITE_ITEMS,
    ESP_OP_CREATE_TABLE,
    ESP_OP_DESCRIBE_TABLE,
    ESP_OP_DELETE_TABLE,
    ESP_OP_LIST_TABLES,
};
const char *esp_operation_target(enum esp_operation operation); /* "DynamoDB_20120810.PutItem" */

/* Where requests go and as whom: one a store. */
struct esp_endpoint {
    const struct esp_alloc *alloc;
    const struct esp_clock *clock;
    struct esp_aws_settings settings;
    struct esp_credentials *credentials;
    uint64_t timeout_ms, seed;
    _Atomic int64_t clock_offset_ns; /* server minus ours */
    _Atomic bool answered;
    _Atomic uint64_t clients; /* ever made: a stream of random numbers each */
};

enum esp_call_state { ESP_CALL_IDLE, ESP_CALL_SENT, ESP_CALL_WAITING };

struct esp_client;
struct esp_call {
    /* Set before submitting; the body must not change before `done`. */
    enum esp_operation operation;
    struct esp_buf body;
    bool once; /* must not be sent again when it may have been carried out */
    void (*done)(struct esp_call *call); /* may submit again, this call too */
    void *owner;
    struct esp_client *client;

    /* Outcome.  ESP_OK: x.answer holds the answer, a whole JSON object. */
    enum esp_status status;
    struct esp_error error;
    bool maybe_done; /* an earlier try may have been carried out */
    bool cancelled;  /* a transaction, for reasons that are in x.answer */

    struct esp_exchange x;
    enum esp_call_state state;
    enum esp_verdict retried_for; /* FINAL: first try */
    unsigned attempts;            /* tries of this kind of failure so far */
    uint64_t begun_ns, due_ns;
    /* What the last try was signed with; by the time of its answer others may have corrected the
     * clock and renewed the credentials. */
    uint64_t signed_wall_ns, signed_generation;
    struct esp_buf authorization, token;
    char date[32]; /* "X-Amz-Date: ..." */
};

struct esp_client {
    struct esp_endpoint *endpoint;
    struct esp_http http;
    struct esp_signer signer;
    struct esp_retry retry;
    struct esp_credential_copy keys;
    struct esp_call *calls;
    unsigned call_count, sent, waiting;
    unsigned *idle; /* stack of idle calls */
    unsigned idle_count;
    struct esp_usage *usage;         /* requests, retries, throttled are counted there */
    const volatile int *const *stop; /* polled while waiting; both may be NULL */
    const uint64_t *deadline_ns;     /* monotonic, 0 = none; may be NULL */
    enum esp_status fatal;           /* why going on is useless; ESP_OK: it is not */
    struct esp_error fatal_error;
    uint64_t dated_ns; /* wall time of the server as far as known, when the last call was signed */
    uint64_t dated_s;  /* the second `date` is for */
    char date[17];
};

/* endpoint is borrowed and must outlive its clients.  Call close in every case. */
enum esp_status esp_client_open(struct esp_client *client, struct esp_endpoint *endpoint,
                                unsigned calls, struct esp_usage *usage,
                                struct esp_error *err) ESP_MUST_CHECK;
void esp_client_close(struct esp_client *client); /* zeroed is fine */

/* An idle call with an empty body, or NULL. */
struct esp_call *esp_client_take(struct esp_client *client);
/* Start it.  Failures come through `done` as well, which may run before this returns. */
void esp_client_submit(struct esp_call *call);
/* From `done`: the answer says that part of it must be asked for again; the caller changes
 * the body as it likes.  False (and status, error set) when it must not be tried again. */
bool esp_client_again(struct esp_call *call, enum esp_verdict why, bool progress,
                      const char *reason);
/* Give a taken call back without submitting it. */
void esp_client_release(struct esp_call *call);
/* Move all calls on; waits for something to happen when `wait`. */
void esp_client_step(struct esp_client *client, bool wait);
/* Until no call is sent or waiting. */
void esp_client_finish(struct esp_client *client);
/* One call from submit to outcome. */
enum esp_status esp_client_call(struct esp_call *call, struct esp_error *err) ESP_MUST_CHECK;
/* Reports `why` (endpoint and HTTP status included) as the caller's error; returns status. */
enum esp_status esp_client_fail(struct esp_error *err, enum esp_status status,
                                const struct esp_error *why);
/* Nothing can come of going on: calls that wait fail at once, those in flight end. */
void esp_client_give_up(struct esp_client *client, enum esp_status status,
                        const struct esp_error *why);
/* Ready for the next use after `fatal`. */
void esp_client_recover(struct esp_client *client);

/* --- between client.c, which moves calls, and call_outcome.c, which judges them --------- */

/* The call has come to its end, well or not. */
void esp_call_finish(struct esp_call *call, enum esp_status status);
/* Records the failure of a try as the call's error. */
void esp_call_set_error(struct esp_call *call, enum esp_status status, const char *sentence);
/* A try is over: finishes the call or lets it wait for the next one. */
void esp_call_answered(struct esp_call *call);
void esp_call_unanswered(struct esp_call *call);

#endif
