/* The DynamoDB store: any endpoint that speaks its protocol.  Puts the parts together. */
#include "stores/dynamodb/dynamodb_session.h"

enum { CONNECTIONS = 16, TIMEOUT_MS = 60000 };

static void dynamodb_close(struct esp_store *store) {
    struct esp_dynamodb *dynamodb = store->impl;
    if (dynamodb) {
        if (dynamodb->control_open) {
            esp_client_close(&dynamodb->control);
        }
        esp_credentials_free(dynamodb->endpoint.credentials);
        esp_aws_settings_fini(&dynamodb->endpoint.settings);
        pthread_mutex_destroy(&dynamodb->control_lock);
        esp_release(store->alloc, dynamodb, sizeof *dynamodb);
        curl_global_cleanup();
        store->impl = NULL;
    }
}

static enum esp_status dynamodb_open(struct esp_store *store, struct esp_error *err) {
    const struct esp_store_config *config = store->config;
    struct esp_dynamodb *dynamodb = esp_calloc(store->alloc, 1, sizeof *dynamodb);
    if (!dynamodb) {
        return esp_fail_nomem(err);
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        esp_release(store->alloc, dynamodb, sizeof *dynamodb);
        return esp_fail(err, ESP_ERR_INTERNAL, "libcurl cannot be initialised");
    }
    pthread_mutex_init(&dynamodb->control_lock, NULL);
    struct esp_endpoint *endpoint = &dynamodb->endpoint;
    endpoint->alloc = store->alloc;
    endpoint->clock = store->clock;
    endpoint->timeout_ms = config && config->timeout_ms ? config->timeout_ms : TIMEOUT_MS;
    endpoint->seed = config ? config->seed : 0;
    store->impl = dynamodb;
    enum esp_status status =
        esp_aws_settings_init(&endpoint->settings, store->target, config, store->alloc, err);
    if (status == ESP_OK) {
        status = esp_credentials_new(&endpoint->settings, store->clock, store->alloc,
                                     &endpoint->credentials, err);
    }
    if (status != ESP_OK) {
        dynamodb_close(store);
    }
    return status;
}

/* A table is another one in each region of an endpoint, and for each account. */
static void dynamodb_put_place(const struct esp_store *store, struct esp_buf *out) {
    const struct esp_dynamodb *dynamodb = store->impl;
    const struct esp_aws_settings *settings = &dynamodb->endpoint.settings;
    esp_buf_put_str(out, settings->url); /* has no user and password: those are refused */
    esp_buf_printf(out, " %.*s", ESP_FMT(settings->region));
    if (settings->profile_option) {
        esp_buf_printf(out, " %.*s", ESP_FMT(settings->profile));
    }
}

static enum esp_status dynamodb_table_open(struct esp_table *table, struct esp_error *err) {
    struct esp_arena arena;
    struct esp_table_info info;
    esp_arena_init(&arena, table->store->alloc, 1 << 20);
    enum esp_status status =
        esp_dynamodb_wait_active(table->store, table->name, &arena, &info, err);
    if (status == ESP_OK) {
        status = esp_schema_match(&table->schema, &info.schema, err);
    }
    esp_arena_fini(&arena);
    return status;
}

static void dynamodb_table_close(struct esp_table *table) {
    (void)table;
}

static void dynamodb_session_close(struct esp_session *session) {
    struct esp_dynamodb_session *ds = session->impl;
    if (ds) {
        const struct esp_alloc *alloc = session->table->store->alloc;
        esp_bulk_fini(ds);
        esp_execute_fini(ds);
        esp_request_encoder_fini(&ds->encoder);
        esp_client_close(&ds->client);
        esp_release(alloc, ds, sizeof *ds);
        session->impl = NULL;
    }
}

static enum esp_status dynamodb_session_open(struct esp_session *session, struct esp_error *err) {
    struct esp_store *store = session->table->store;
    const struct esp_store_config *config = store->config;
    struct esp_dynamodb *dynamodb = store->impl;
    struct esp_dynamodb_session *ds = esp_calloc(store->alloc, 1, sizeof *ds);
    if (!ds) {
        return esp_fail_nomem(err);
    }
    session->impl = ds;
    ds->session = session;
    uint32_t connections = config && config->connections ? config->connections : CONNECTIONS;
    uint32_t batch = config && config->batch ? config->batch : ESP_DYNAMODB_BATCH_MAX;
    if (connections > ESP_DYNAMODB_CONNECTIONS_MAX || batch > ESP_DYNAMODB_BATCH_MAX) {
        dynamodb_session_close(session);
        return esp_fail(err, ESP_ERR_USAGE, "at most %d connections and %d items a batch",
                        ESP_DYNAMODB_CONNECTIONS_MAX, ESP_DYNAMODB_BATCH_MAX);
    }
    ds->batch_items = batch;
    esp_request_encoder_init(&ds->encoder, session->table->name, &session->table->schema,
                             store->alloc);
    enum esp_status status =
        esp_client_open(&ds->client, &dynamodb->endpoint, connections, &session->usage, err);
    if (status == ESP_OK) {
        ds->client.stop = &session->stop;
        ds->client.deadline_ns = &session->deadline_ns;
        status = esp_execute_init(ds, err);
    }
    if (status == ESP_OK) {
        status = esp_bulk_init(ds, err);
    }
    if (status != ESP_OK) {
        dynamodb_session_close(session);
    }
    return status;
}

const struct esp_store_ops esp_store_dynamodb = {
    .name = "dynamodb",
    .schemes = "dynamodb: http:// https://",
    .summary = "DynamoDB, or any endpoint that speaks its protocol",
    .flags = ESP_STORE_BILLS | ESP_STORE_REMOTE,
    .open = dynamodb_open,
    .close = dynamodb_close,
    .list_tables = esp_dynamodb_list_tables,
    .describe_table = esp_dynamodb_describe_table,
    .create_table = esp_dynamodb_create_table,
    .drop_table = esp_dynamodb_drop_table,
    .table_open = dynamodb_table_open,
    .table_close = dynamodb_table_close,
    .session_open = dynamodb_session_open,
    .session_close = dynamodb_session_close,
    .execute = esp_dynamodb_execute,
    .bulk_put = esp_dynamodb_bulk_put,
    .bulk_flush = esp_dynamodb_bulk_flush,
    .put_place = dynamodb_put_place,
};
