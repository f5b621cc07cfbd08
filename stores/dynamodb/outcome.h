#ifndef ESP_STORES_DYNAMODB_OUTCOME_H
#define ESP_STORES_DYNAMODB_OUTCOME_H
/*
 * What an answer means for the request it answers: items to its callback, units to the
 * meter, undone keys and writes to the front.  Sends nothing; execute.c does.
 */
#include "stores/dynamodb/answer.h"
#include "stores/dynamodb/dynamodb_session.h"

enum { ESP_REQUEST_TOKEN_LEN = 32 };

/* A request in flight. */
struct esp_pending {
    struct esp_dynamodb_session *ds;
    struct esp_request *request;
    size_t left;            /* keys or writes not done yet: the first ones */
    bool reading_back;      /* a GetItem that finds out whether a write was ours */
    struct esp_error error; /* of the write that is read back */
    char token[ESP_REQUEST_TOKEN_LEN + 1];
};

static inline const struct esp_schema *esp_pending_schema(const struct esp_pending *p) {
    return &p->ds->session->table->schema;
}
static inline struct esp_usage *esp_pending_usage(const struct esp_pending *p) {
    return &p->ds->session->usage;
}
/* Parses an item of the answer into the session's arena, which is emptied first. */
enum esp_status esp_pending_parse(struct esp_pending *p, struct esp_str json, struct esp_item *out,
                                  struct esp_error *err) ESP_MUST_CHECK;
/* The answer left undone what it was not asked for: ERR_INTERNAL. */
enum esp_status esp_pending_broken(struct esp_pending *p);

/* Each returns the request's status; its error is set when it failed. */
enum esp_status esp_outcome_get(struct esp_pending *p, enum esp_operation operation,
                                const struct esp_answer *answer);
/* `billed`: units the endpoint reports for this page. */
enum esp_status esp_outcome_page(struct esp_pending *p, const struct esp_answer *answer,
                                 double billed);
/* `maybe_done`: an earlier try may have been carried out too. */
enum esp_status esp_outcome_write(struct esp_pending *p, const struct esp_answer *answer,
                                  bool maybe_done);
enum esp_status esp_outcome_batch_write(struct esp_pending *p, const struct esp_answer *answer);
enum esp_status esp_outcome_transaction(struct esp_pending *p);
/* The item was read after a refused condition: was it this write that made it so? */
enum esp_status esp_outcome_read_back(struct esp_pending *p, const struct esp_answer *answer);

#endif
