#ifndef ESP_STORES_DYNAMODB_SESSION_H
#define ESP_STORES_DYNAMODB_SESSION_H
/* What a session of the DynamoDB store is made of, and the functions of the store. */
#include "stores/dynamodb/request.h"

#include <pthread.h>

enum { ESP_DYNAMODB_BATCH_MAX = 25, ESP_DYNAMODB_CONNECTIONS_MAX = 1024 };

/* store->impl */
struct esp_dynamodb {
    struct esp_endpoint endpoint;
    pthread_mutex_t control_lock; /* one thread at a time creates, describes, drops */
    struct esp_client control;
    struct esp_usage control_usage; /* of no interest, but a client needs one */
    bool control_open;
};

struct esp_pending; /* execute.c: a request in flight */
struct esp_batch;   /* bulk.c: items in flight */

/* session->impl */
struct esp_dynamodb_session {
    struct esp_session *session;
    struct esp_client client;
    struct esp_request_encoder encoder;
    struct esp_arena arena; /* items out of one answer */

    struct esp_pending *pending; /* one a call */
    size_t open;                 /* requests of this execute not finished yet */

    struct esp_batch *batches; /* one a call */
    struct esp_batch *filling; /* or NULL */
    uint32_t batch_items;      /* items of a full batch */
    uint8_t *key_filter;       /* counts keys in flight by hash */
    struct esp_error failure;  /* why bulk items were left; status ESP_OK: none were */
};

/* execute.c */
enum esp_status esp_execute_init(struct esp_dynamodb_session *ds,
                                 struct esp_error *err) ESP_MUST_CHECK;
void esp_execute_fini(struct esp_dynamodb_session *ds);
enum esp_status esp_dynamodb_execute(struct esp_session *session, struct esp_request *requests,
                                     size_t n, struct esp_error *err);

/* bulk.c */
enum esp_status esp_bulk_init(struct esp_dynamodb_session *ds,
                              struct esp_error *err) ESP_MUST_CHECK;
void esp_bulk_fini(struct esp_dynamodb_session *ds);
/* The batch being filled is sent as it is, so that it holds no call; waits for nothing. */
void esp_bulk_submit(struct esp_dynamodb_session *ds);
enum esp_status esp_dynamodb_bulk_put(struct esp_session *session, const struct esp_item *item,
                                      struct esp_error *err);
enum esp_status esp_dynamodb_bulk_flush(struct esp_session *session, struct esp_error *err);

/* control.c */
enum esp_status esp_dynamodb_list_tables(struct esp_store *store,
                                         enum esp_status (*fn)(void *ctx, struct esp_str name),
                                         void *ctx, struct esp_error *err);
enum esp_status esp_dynamodb_describe_table(struct esp_store *store, const char *name,
                                            struct esp_arena *arena, struct esp_table_info *out,
                                            struct esp_error *err);
enum esp_status esp_dynamodb_create_table(struct esp_store *store, const char *name,
                                          const struct esp_schema *schema,
                                          const struct esp_table_options *options,
                                          struct esp_error *err);
enum esp_status esp_dynamodb_drop_table(struct esp_store *store, const char *name,
                                        struct esp_error *err);
/* Until DescribeTable says ACTIVE, table and indexes. */
enum esp_status esp_dynamodb_wait_active(struct esp_store *store, const char *name,
                                         struct esp_arena *arena, struct esp_table_info *out,
                                         struct esp_error *err);

#endif
