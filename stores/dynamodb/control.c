/* Tables: made, described, listed, dropped.  Answers are small, so jansson reads them. */
#include "stores/dynamodb/dynamodb_session.h"

#include <jansson.h>
#include <stdio.h>

enum {
    FIRST_WAIT_MS = 100,
    LONGEST_WAIT_MS = 5000,
    TABLE_WAIT_S_MAX = 600,
    UNSEEN_S_MAX = 60, /* a table just made; seconds are the usual */
    LIST_PAGES_MAX = 1000,
};
#define MS_NS UINT64_C(1000000)

/* --- one call at a time --------------------------------------------------------------- */

/* Locks, and opens the client with the first call. */
static enum esp_status control_begin(struct esp_store *store, struct esp_call **call,
                                     struct esp_error *err) {
    struct esp_dynamodb *dynamodb = store->impl;
    enum esp_status status = ESP_OK;
    pthread_mutex_lock(&dynamodb->control_lock);
    if (!dynamodb->control_open) {
        status = esp_client_open(&dynamodb->control, &dynamodb->endpoint, 1,
                                 &dynamodb->control_usage, err);
        if (status == ESP_OK) {
            dynamodb->control_open = true;
        } else {
            esp_client_close(&dynamodb->control);
        }
    }
    if (status == ESP_OK) {
        esp_client_recover(&dynamodb->control);
        *call = esp_client_take(&dynamodb->control);
    } else {
        pthread_mutex_unlock(&dynamodb->control_lock);
    }
    return status;
}

static void control_end(struct esp_store *store, struct esp_call *call) {
    struct esp_dynamodb *dynamodb = store->impl;
    esp_client_release(call);
    pthread_mutex_unlock(&dynamodb->control_lock);
}

static enum esp_status load_answer(const struct esp_call *call, json_t **out,
                                   struct esp_error *err) {
    struct esp_str body = esp_buf_str(&call->x.answer);
    json_error_t why;
    *out = json_loadb(body.ptr ? body.ptr : "", body.len, 0, &why);
    return *out ? ESP_OK
                : esp_fail(err, ESP_ERR_UNAVAILABLE, "the endpoint's answer is not JSON: %s",
                           why.text);
}

/* --- describe -------------------------------------------------------------------------- */

struct describer {
    struct esp_arena *arena;
    struct esp_table_info *out;
    const json_t *definitions;
    bool failed; /* no memory */
};

static struct esp_str copy_text(struct describer *d, const json_t *text) {
    struct esp_str s = {json_string_value(text), json_string_length(text)};
    struct esp_str copy = esp_arena_dup(d->arena, s.ptr ? s : ESP_STR(""));
    d->failed = d->failed || !copy.ptr;
    return copy;
}

static enum esp_type defined_type(const struct describer *d, struct esp_str name) {
    for (size_t i = 0; i < json_array_size(d->definitions); i++) {
        const json_t *row = json_array_get(d->definitions, i);
        if (esp_str_eq(esp_str_from(json_string_value(json_object_get(row, "AttributeName"))),
                       name)) {
            const char *type = json_string_value(json_object_get(row, "AttributeType"));
            return type && *type == 'N'   ? ESP_TYPE_N
                   : type && *type == 'B' ? ESP_TYPE_B
                                          : ESP_TYPE_S;
        }
    }
    return ESP_TYPE_S;
}

/* Position of the key attribute in the schema, added when it is new; -1: no room. */
static int key_attr(struct describer *d, const json_t *name) {
    struct esp_schema *schema = &d->out->schema;
    int at = esp_schema_find_attr(schema, esp_str_from(json_string_value(name)));
    if (at < 0 && schema->attr_count < ESP_ATTR_MAX) {
        struct esp_str text = copy_text(d, name);
        at = (int)schema->attr_count++;
        schema->attr[at] = (struct esp_attr){text, defined_type(d, text)};
    }
    return at;
}

static void read_key_schema(struct describer *d, const json_t *keys, int *pk, int *sk) {
    *pk = *sk = -1;
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const json_t *row = json_array_get(keys, i);
        const char *type = json_string_value(json_object_get(row, "KeyType"));
        int at = key_attr(d, json_object_get(row, "AttributeName"));
        if (type && *type == 'R') {
            *sk = at;
        } else if (*pk < 0) {
            *pk = at;
        }
    }
}

static void read_indexes(struct describer *d, const json_t *indexes, bool local) {
    struct esp_schema *schema = &d->out->schema;
    for (size_t i = 0; i < json_array_size(indexes) && schema->index_count < ESP_INDEX_MAX; i++) {
        const json_t *row = json_array_get(indexes, i);
        const json_t *projection = json_object_get(row, "Projection");
        const json_t *others = json_object_get(projection, "NonKeyAttributes");
        const char *type = json_string_value(json_object_get(projection, "ProjectionType"));
        struct esp_index *index = &schema->index[schema->index_count];
        memset(index, 0, sizeof *index);
        index->name = copy_text(d, json_object_get(row, "IndexName"));
        index->local = local;
        index->projection = type && *type == 'K'   ? ESP_PROJECT_KEYS
                            : type && *type == 'I' ? ESP_PROJECT_INCLUDE
                                                   : ESP_PROJECT_ALL;
        for (size_t j = 0; j < json_array_size(others) && j < ESP_INCLUDE_MAX; j++) {
            index->include[index->include_count++] = copy_text(d, json_array_get(others, j));
        }
        read_key_schema(d, json_object_get(row, "KeySchema"), &index->pk, &index->sk);
        d->out->index_bytes[schema->index_count] =
            (uint64_t)json_number_value(json_object_get(row, "IndexSizeBytes"));
        schema->index_count++;
    }
}

static uint64_t number_in(const json_t *object, const char *name) {
    return (uint64_t)json_number_value(json_object_get(object, name));
}

static void read_table(struct describer *d, const json_t *table) {
    struct esp_table_info *out = d->out;
    const json_t *throughput = json_object_get(table, "ProvisionedThroughput");
    const json_t *warm = json_object_get(table, "WarmThroughput");
    const char *name = json_string_value(json_object_get(table, "TableName"));
    const char *status = json_string_value(json_object_get(table, "TableStatus"));
    const char *mode = json_string_value(
        json_object_get(json_object_get(table, "BillingModeSummary"), "BillingMode"));
    snprintf(out->name, sizeof out->name, "%s", name ? name : "");
    snprintf(out->status, sizeof out->status, "%s", status ? status : "");
    out->item_count = number_in(table, "ItemCount");
    out->item_bytes = number_in(table, "TableSizeBytes");
    out->provisioned_read = number_in(throughput, "ReadCapacityUnits");
    out->provisioned_write = number_in(throughput, "WriteCapacityUnits");
    out->warm_read = number_in(warm, "ReadUnitsPerSecond");
    out->warm_write = number_in(warm, "WriteUnitsPerSecond");
    out->billing = mode && strcmp(mode, "PAY_PER_REQUEST") == 0 ? ESP_BILLING_ON_DEMAND
                   : mode || out->provisioned_write             ? ESP_BILLING_PROVISIONED
                                                                : ESP_BILLING_UNKNOWN;
    d->definitions = json_object_get(table, "AttributeDefinitions");
    read_key_schema(d, json_object_get(table, "KeySchema"), &out->schema.pk, &out->schema.sk);
    read_indexes(d, json_object_get(table, "LocalSecondaryIndexes"), true);
    read_indexes(d, json_object_get(table, "GlobalSecondaryIndexes"), false);
}

static bool indexes_active(const json_t *table) {
    const json_t *indexes = json_object_get(table, "GlobalSecondaryIndexes");
    for (size_t i = 0; i < json_array_size(indexes); i++) {
        const char *status =
            json_string_value(json_object_get(json_array_get(indexes, i), "IndexStatus"));
        if (status && strcmp(status, "ACTIVE") != 0) {
            return false;
        }
    }
    return true;
}

/* *active: the table and all its indexes are. */
static enum esp_status describe(struct esp_store *store, const char *name, struct esp_arena *arena,
                                struct esp_table_info *out, bool *active, struct esp_error *err) {
    struct esp_call *call;
    json_t *root = NULL;
    bool is_arn = strncmp(name, "arn:", 4) == 0; /* which may stand for a name */
    enum esp_status status = is_arn ? ESP_OK : esp_table_name_check(name, err);
    if (status == ESP_OK) {
        status = control_begin(store, &call, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    call->operation = ESP_OP_DESCRIBE_TABLE;
    esp_encode_table_name(&call->body, name);
    status = esp_client_call(call, NULL);
    if (status == ESP_ERR_NOT_FOUND) {
        esp_fail(err, status, "table %s does not exist", name);
    } else if (status != ESP_OK) {
        esp_client_fail(err, status, &call->error);
    } else {
        status = load_answer(call, &root, err);
    }
    control_end(store, call);
    if (status == ESP_OK) {
        const json_t *table = json_object_get(root, "Table");
        struct describer d = {.arena = arena, .out = out};
        memset(out, 0, sizeof *out);
        read_table(&d, table);
        *active = strcmp(out->status, "ACTIVE") == 0 && indexes_active(table);
        if (d.failed) {
            status = esp_fail_nomem(err);
        } else if (out->schema.pk < 0) {
            status = esp_fail(err, ESP_ERR_UNAVAILABLE, "DescribeTable: the answer has no key");
        }
    }
    json_decref(root);
    return status;
}

enum esp_status esp_dynamodb_describe_table(struct esp_store *store, const char *name,
                                            struct esp_arena *arena, struct esp_table_info *out,
                                            struct esp_error *err) {
    bool active;
    return describe(store, name, arena, out, &active, err);
}

/* --- waiting --------------------------------------------------------------------------- */

struct waiter {
    struct esp_store *store;
    uint64_t begun_ns, wait_ms;
};

static int64_t has_waited_s(const struct waiter *w) {
    return (int64_t)((esp_now_ns(w->store->clock) - w->begun_ns) / UINT64_C(1000000000));
}

/* False when it has taken too long. */
static bool wait_more(struct waiter *w) {
    const struct esp_clock *clock = w->store->clock;
    if (has_waited_s(w) >= TABLE_WAIT_S_MAX) {
        return false;
    }
    esp_sleep_ns(clock, w->wait_ms * MS_NS);
    w->wait_ms = 2 * w->wait_ms < LONGEST_WAIT_MS ? 2 * w->wait_ms : LONGEST_WAIT_MS;
    return true;
}

/* `unseen_s_max`: DescribeTable may answer for as long that there is no such table; it reads
 * what CreateTable has just written without waiting for all of it. */
static enum esp_status wait_active(struct esp_store *store, const char *name, int unseen_s_max,
                                   struct esp_arena *arena, struct esp_table_info *out,
                                   struct esp_error *err) {
    struct waiter waiter = {store, esp_now_ns(store->clock), FIRST_WAIT_MS};
    bool active = false;
    for (;;) {
        struct esp_error why = ESP_ERROR_INIT;
        esp_arena_reset(arena);
        enum esp_status status = describe(store, name, arena, out, &active, &why);
        if (status == ESP_OK && active) {
            return ESP_OK;
        }
        bool unseen = status == ESP_ERR_NOT_FOUND && has_waited_s(&waiter) < unseen_s_max;
        if (status != ESP_OK && !unseen) {
            return esp_client_fail(err, status, &why);
        }
        if (!unseen && strcmp(out->status, "DELETING") == 0) {
            return esp_fail(err, ESP_ERR_NOT_FOUND, "table %s is being deleted", name);
        }
        if (!wait_more(&waiter)) {
            return esp_fail(err, ESP_ERR_UNAVAILABLE, "table %s is still %s after %d s", name,
                            out->status, TABLE_WAIT_S_MAX);
        }
    }
}

enum esp_status esp_dynamodb_wait_active(struct esp_store *store, const char *name,
                                         struct esp_arena *arena, struct esp_table_info *out,
                                         struct esp_error *err) {
    return wait_active(store, name, 0, arena, out, err);
}

/* --- create, drop, list ------------------------------------------------------------------ */

/* Asked before a change: when the answer to the change itself is lost, "exists already" and
 * "does not exist" could not be told from the change having been made. */
static enum esp_status look_first(struct esp_store *store, const char *name, bool *exists,
                                  struct esp_error *err) {
    struct esp_arena arena;
    struct esp_table_info info;
    struct esp_error why = ESP_ERROR_INIT;
    esp_arena_init(&arena, store->alloc, 1 << 20);
    enum esp_status status = esp_dynamodb_describe_table(store, name, &arena, &info, &why);
    esp_arena_fini(&arena);
    *exists = status == ESP_OK;
    return status == ESP_OK || status == ESP_ERR_NOT_FOUND ? ESP_OK
                                                           : esp_client_fail(err, status, &why);
}

enum esp_status esp_dynamodb_create_table(struct esp_store *store, const char *name,
                                          const struct esp_schema *schema,
                                          const struct esp_table_options *options,
                                          struct esp_error *err) {
    static const struct esp_table_options on_demand;
    struct esp_call *call;
    bool exists;
    enum esp_status status = look_first(store, name, &exists, err);
    if (status == ESP_OK && exists) {
        return esp_fail(err, ESP_ERR_EXISTS, "table %s exists already", name);
    }
    if (status == ESP_OK) {
        status = control_begin(store, &call, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    call->operation = ESP_OP_CREATE_TABLE;
    esp_encode_create_table(&call->body, name, schema, options ? options : &on_demand);
    status = esp_client_call(call, NULL);
    bool ours = status == ESP_ERR_EXISTS && call->maybe_done; /* an answer was lost */
    if (status == ESP_ERR_EXISTS && !ours) {
        esp_fail(err, status, "table %s exists already", name);
    } else if (status != ESP_OK && !ours) {
        esp_client_fail(err, status, &call->error);
    }
    control_end(store, call);
    if (status != ESP_OK && !ours) {
        return status;
    }
    struct esp_arena arena;
    struct esp_table_info info;
    esp_arena_init(&arena, store->alloc, 1 << 20);
    status = wait_active(store, name, UNSEEN_S_MAX, &arena, &info, err);
    esp_arena_fini(&arena);
    return status;
}

static enum esp_status wait_gone(struct esp_store *store, const char *name, struct esp_error *err) {
    struct waiter waiter = {store, esp_now_ns(store->clock), FIRST_WAIT_MS};
    struct esp_arena arena;
    struct esp_table_info info;
    enum esp_status status;
    esp_arena_init(&arena, store->alloc, 1 << 20);
    do {
        esp_arena_reset(&arena);
        struct esp_error why = ESP_ERROR_INIT;
        status = esp_dynamodb_describe_table(store, name, &arena, &info, &why);
        if (status != ESP_OK && status != ESP_ERR_NOT_FOUND) {
            esp_client_fail(err, status, &why);
        }
    } while (status == ESP_OK && wait_more(&waiter));
    esp_arena_fini(&arena);
    if (status == ESP_OK) {
        return esp_fail(err, ESP_ERR_UNAVAILABLE, "table %s is still there after %d s", name,
                        TABLE_WAIT_S_MAX);
    }
    return status == ESP_ERR_NOT_FOUND ? ESP_OK : status;
}

enum esp_status esp_dynamodb_drop_table(struct esp_store *store, const char *name,
                                        struct esp_error *err) {
    struct esp_call *call;
    bool exists;
    enum esp_status status = look_first(store, name, &exists, err);
    if (status == ESP_OK && !exists) {
        return esp_fail(err, ESP_ERR_NOT_FOUND, "table %s does not exist", name);
    }
    if (status == ESP_OK) {
        status = control_begin(store, &call, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    call->operation = ESP_OP_DELETE_TABLE;
    esp_encode_table_name(&call->body, name);
    status = esp_client_call(call, NULL);
    if (status == ESP_ERR_NOT_FOUND && call->maybe_done) {
        status = ESP_OK; /* the first try did it and its answer was lost */
    } else if (status == ESP_ERR_NOT_FOUND) {
        esp_fail(err, status, "table %s does not exist", name);
    } else if (status != ESP_OK) {
        esp_client_fail(err, status, &call->error);
    }
    control_end(store, call);
    return status == ESP_OK ? wait_gone(store, name, err) : status;
}

/* One page of names into an array; *last: where the next one starts, or empty. */
static enum esp_status list_page(struct esp_store *store, char last[256], json_t **root,
                                 struct esp_error *err) {
    struct esp_call *call;
    enum esp_status status = control_begin(store, &call, err);
    if (status != ESP_OK) {
        return status;
    }
    call->operation = ESP_OP_LIST_TABLES;
    ESP_BUF_LIT(&call->body, "{");
    if (*last) {
        ESP_BUF_LIT(&call->body, "\"ExclusiveStartTableName\":");
        esp_json_put_string(&call->body, esp_str_from(last));
    }
    ESP_BUF_LIT(&call->body, "}");
    status = esp_client_call(call, err);
    if (status == ESP_OK) {
        status = load_answer(call, root, err);
    }
    control_end(store, call);
    if (status == ESP_OK) {
        const char *next = json_string_value(json_object_get(*root, "LastEvaluatedTableName"));
        snprintf(last, 256, "%s", next ? next : "");
    }
    return status;
}

enum esp_status esp_dynamodb_list_tables(struct esp_store *store,
                                         enum esp_status (*fn)(void *ctx, struct esp_str name),
                                         void *ctx, struct esp_error *err) {
    char last[256] = "";
    for (int page = 0; page < LIST_PAGES_MAX; page++) {
        json_t *root = NULL;
        enum esp_status status = list_page(store, last, &root, err);
        const json_t *names = json_object_get(root, "TableNames");
        for (size_t i = 0; status == ESP_OK && i < json_array_size(names); i++) {
            status = fn(ctx, esp_str_from(json_string_value(json_array_get(names, i))));
        }
        json_decref(root);
        if (status != ESP_OK || !*last) {
            return status == ESP_STOP ? ESP_OK : status;
        }
    }
    return esp_fail(err, ESP_ERR_LIMIT, "there are over %d pages of table names", LIST_PAGES_MAX);
}
