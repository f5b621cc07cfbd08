#ifndef ESP_STORES_ENGINE_H
#define ESP_STORES_ENGINE_H
/*
 * DynamoDB's semantics over an ordered key-value database: what memory: and local: share.
 * Those two open a database, attach it, and leave the rest of esp_store_ops to the
 * functions below.
 */
#include "stores/kv.h"
#include "stores/store.h"

/* Serve `store` from `kv` (borrowed until esp_engine_detach).  Takes back what a crash
 * left under construction. */
enum esp_status esp_engine_attach(struct esp_store *store, struct esp_kv *kv,
                                  struct esp_error *err) ESP_MUST_CHECK;
struct esp_kv *esp_engine_detach(struct esp_store *store); /* NULL when nothing is attached */

enum esp_status esp_engine_list_tables(struct esp_store *store,
                                       enum esp_status (*fn)(void *ctx, struct esp_str name),
                                       void *ctx, struct esp_error *err);
enum esp_status esp_engine_describe_table(struct esp_store *store, const char *name,
                                          struct esp_arena *arena, struct esp_table_info *out,
                                          struct esp_error *err);
enum esp_status esp_engine_create_table(struct esp_store *store, const char *name,
                                        const struct esp_schema *schema,
                                        const struct esp_table_options *options,
                                        struct esp_error *err);
enum esp_status esp_engine_drop_table(struct esp_store *store, const char *name,
                                      struct esp_error *err);
enum esp_status esp_engine_table_open(struct esp_table *table, struct esp_error *err);
void esp_engine_table_close(struct esp_table *table);
enum esp_status esp_engine_session_open(struct esp_session *session, struct esp_error *err);
void esp_engine_session_close(struct esp_session *session);
enum esp_status esp_engine_execute(struct esp_session *session, struct esp_request *requests,
                                   size_t n, struct esp_error *err);
enum esp_status esp_engine_bulk_put(struct esp_session *session, const struct esp_item *item,
                                    struct esp_error *err);
enum esp_status esp_engine_bulk_flush(struct esp_session *session, struct esp_error *err);
enum esp_status esp_engine_trial_begin(struct esp_session *session, struct esp_error *err);
enum esp_status esp_engine_trial_end(struct esp_session *session, bool keep, struct esp_error *err);

#define ESP_ENGINE_OPS                                                                             \
    .list_tables = esp_engine_list_tables, .describe_table = esp_engine_describe_table,            \
    .create_table = esp_engine_create_table, .drop_table = esp_engine_drop_table,                  \
    .table_open = esp_engine_table_open, .table_close = esp_engine_table_close,                    \
    .session_open = esp_engine_session_open, .session_close = esp_engine_session_close,            \
    .execute = esp_engine_execute, .bulk_put = esp_engine_bulk_put,                                \
    .bulk_flush = esp_engine_bulk_flush, .trial_begin = esp_engine_trial_begin,                    \
    .trial_end = esp_engine_trial_end

#endif
