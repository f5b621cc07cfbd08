/*
 * null: meters what is written and throws it away; reads find nothing.  It measures
 * espalier's own cost, and quotes a load without a database.
 */
#include "stores/store.h"

static enum esp_status open_store(struct esp_store *store, struct esp_error *err) {
    (void)store, (void)err;
    return ESP_OK;
}

static void close_store(struct esp_store *store) {
    (void)store;
}

static enum esp_status list_tables(struct esp_store *store,
                                   enum esp_status (*fn)(void *ctx, struct esp_str name), void *ctx,
                                   struct esp_error *err) {
    (void)store, (void)fn, (void)ctx, (void)err;
    return ESP_OK;
}

/* Never there, so that whoever prepares a table goes on to make it. */
static enum esp_status describe_table(struct esp_store *store, const char *name,
                                      struct esp_arena *arena, struct esp_table_info *out,
                                      struct esp_error *err) {
    (void)store, (void)arena, (void)out;
    return esp_fail(err, ESP_ERR_NOT_FOUND, "the null store keeps no table %s", name);
}

static enum esp_status create_table(struct esp_store *store, const char *name,
                                    const struct esp_schema *schema,
                                    const struct esp_table_options *options,
                                    struct esp_error *err) {
    (void)store, (void)name, (void)schema, (void)options, (void)err;
    return ESP_OK;
}

static enum esp_status drop_table(struct esp_store *store, const char *name,
                                  struct esp_error *err) {
    (void)store;
    return esp_fail(err, ESP_ERR_NOT_FOUND, "the null store keeps no table %s", name);
}

static enum esp_status table_open(struct esp_table *table, struct esp_error *err) {
    (void)table, (void)err;
    return ESP_OK;
}

static void table_close(struct esp_table *table) {
    (void)table;
}

static enum esp_status session_open(struct esp_session *session, struct esp_error *err) {
    (void)session, (void)err;
    return ESP_OK;
}

static void session_close(struct esp_session *session) {
    (void)session;
}

/* What an update starts from: the item the caller knows of, else just its key. */
static struct esp_item update_base(const struct esp_schema *schema, const struct esp_write *w) {
    struct esp_item base = {.data = {0}};
    if (w->old) {
        esp_item_copy(schema, &base, w->old);
        return base;
    }
    base.value[schema->pk] = w->item.value[schema->pk];
    if (schema->sk >= 0) {
        base.value[schema->sk] = w->item.value[schema->sk];
    }
    return base;
}

/* The previous item is whatever the caller says it is: nothing is kept to look at. */
static enum esp_status write_one(struct esp_session *s, const struct esp_write *w, bool transaction,
                                 struct esp_error *err) {
    const struct esp_schema *schema = &s->table->schema;
    struct esp_item base, image;
    switch (w->kind) {
    case ESP_PUT: {
        enum esp_status status = esp_item_check(schema, &w->item, err);
        if (status == ESP_OK) {
            esp_meter_write(schema, w->old, &w->item, transaction, &s->usage);
        }
        return status;
    }
    case ESP_DELETE:
        esp_meter_write(schema, w->old, NULL, transaction, &s->usage);
        return ESP_OK;
    case ESP_UPDATE: {
        base = update_base(schema, w);
        enum esp_status status =
            esp_item_apply(schema, &base, w->changes, w->change_count, &s->arena, &image, err);
        if (status == ESP_OK) {
            esp_meter_write(schema, w->old, &image, transaction, &s->usage);
        }
        return status;
    }
    case ESP_CHECK:
        esp_meter_check(schema, w->old, &s->usage);
        return ESP_OK;
    }
    return ESP_ERR_INTERNAL;
}

/* GSIs are eventually consistent whatever is asked. */
static void meter_empty_page(struct esp_session *s, int index, bool consistent) {
    bool strong = consistent && (index == ESP_PRIMARY || s->table->schema.index[index].local);
    esp_meter_page(index, 0, 0, strong, &s->usage);
}

static void execute_one(struct esp_session *s, struct esp_request *r) {
    bool transaction = r->kind == ESP_REQ_TRANSACT;
    s->usage.requests++;
    r->status = ESP_OK;
    r->more = false;
    r->undone = 0;
    switch (r->kind) {
    case ESP_REQ_GET:
        for (size_t i = 0; i < r->get.n; i++) {
            esp_meter_get(0, r->get.consistency, &s->usage);
        }
        break;
    case ESP_REQ_QUERY:
        meter_empty_page(s, r->query->index, r->query->consistent);
        break;
    case ESP_REQ_SCAN:
        meter_empty_page(s, r->scan->index, r->scan->consistent);
        break;
    case ESP_REQ_WRITE:
    case ESP_REQ_TRANSACT:
        for (size_t i = 0; i < r->write.n && r->status == ESP_OK; i++) {
            r->status = write_one(s, &r->write.w[i], transaction, &r->error);
        }
        break;
    }
}

static enum esp_status execute(struct esp_session *session, struct esp_request *requests, size_t n,
                               struct esp_error *err) {
    (void)err;
    for (size_t i = 0; i < n; i++) {
        execute_one(session, &requests[i]);
    }
    return ESP_OK;
}

/* What DynamoDB would refuse is refused here too, so that a dry run shows it. */
static enum esp_status bulk_put(struct esp_session *session, const struct esp_item *item,
                                struct esp_error *err) {
    const struct esp_schema *schema = &session->table->schema;
    (void)err;
    if (__builtin_expect(esp_item_check(schema, item, NULL) != ESP_OK, 0)) {
        struct esp_error why = ESP_ERROR_INIT;
        session->bulk.refused++;
        if (session->on_refused && esp_item_check(schema, item, &why) != ESP_OK) {
            session->on_refused(session->on_refused_ctx, item, &why);
        }
        return ESP_OK;
    }
    esp_meter_write(schema, NULL, item, false, &session->usage);
    session->bulk.written++;
    return ESP_OK;
}

static enum esp_status bulk_flush(struct esp_session *session, struct esp_error *err) {
    (void)session, (void)err;
    return ESP_OK;
}

const struct esp_store_ops esp_store_null = {
    .name = "null",
    .schemes = "null:",
    .summary = "keeps nothing; measures the conversion itself",
    .flags = ESP_STORE_DISCARDS,
    .open = open_store,
    .close = close_store,
    .list_tables = list_tables,
    .describe_table = describe_table,
    .create_table = create_table,
    .drop_table = drop_table,
    .table_open = table_open,
    .table_close = table_close,
    .session_open = session_open,
    .session_close = session_close,
    .execute = execute,
    .bulk_put = bulk_put,
    .bulk_flush = bulk_flush,
};
