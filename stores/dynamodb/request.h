#ifndef ESP_STORES_DYNAMODB_REQUEST_H
#define ESP_STORES_DYNAMODB_REQUEST_H
/*
 * Requests as DynamoDB JSON, written straight into the body that is sent.  Knows the
 * operations' members (shared dynamodb-api.md), nothing of HTTP.  Attribute names and
 * values in expressions are always placeholders: 573 words are reserved.
 */
#include "stores/dynamodb/client.h"
#include "stores/store.h"

/* Scratch of one thread. */
struct esp_request_encoder {
    const char *table; /* borrowed, as is the schema */
    const struct esp_schema *schema;
    struct esp_buf names, values; /* members of ExpressionAttributeNames / Values */
    unsigned name_count, value_count;
};
void esp_request_encoder_init(struct esp_request_encoder *e, const char *table,
                              const struct esp_schema *schema, const struct esp_alloc *alloc);
void esp_request_encoder_fini(struct esp_request_encoder *e); /* zeroed is fine */

/* Append the request's body; a failed `out` is its only failure.  `token`: 32 characters
 * that make a transaction idempotent; else unused. */
enum esp_operation esp_encode_request(struct esp_request_encoder *e,
                                      const struct esp_request *request, const char *token,
                                      struct esp_buf *out);
/* BatchWriteItem bodies in pieces: begin, items, end. */
void esp_encode_batch_begin(struct esp_buf *out, const char *table);
void esp_encode_batch_item(struct esp_buf *out, const struct esp_schema *schema,
                           const struct esp_item *item);
void esp_encode_batch_end(struct esp_buf *out);

void esp_encode_create_table(struct esp_buf *out, const char *table,
                             const struct esp_schema *schema,
                             const struct esp_table_options *options);
/* {"TableName":...} of DescribeTable and DeleteTable. */
void esp_encode_table_name(struct esp_buf *out, const char *table);

#endif
