/*
 * The bulk stream: items are encoded once into the batch being filled; a full batch is
 * signed and sent by a free call, and stays with it until each of its items is written,
 * refused or given up.
 *
 * A batch keeps the text of its items, so that parts of it can be sent again: what the
 * endpoint left unprocessed, and halves of a batch that it refused, to find the item at
 * fault.  DynamoDB refuses two items of one key in a batch, and the last put of a key must
 * win, so a key waits until the one before it is acknowledged.
 */
#include "stores/dynamodb/answer.h"
#include "stores/dynamodb/dynamodb_session.h"

enum {
    BATCH_BYTES_MAX = 15 << 20, /* the service takes 16 MB */
    ITEM_TEXT_BYTES_MAX = 4 << 20,
    RANGES_MAX = 8, /* halves of halves of 25 items, and one to spare */
    KEY_FILTER_SLOTS = 1 << 16,
    ARENA_BYTES_MAX = 64 << 20,
};

enum fate { PENDING, WRITTEN, REFUSED };

struct range {
    uint32_t from, to;
};

struct esp_batch {
    struct esp_dynamodb_session *ds;
    struct esp_call *call;
    struct esp_buf text; /* {"PutRequest":...} of each item, commas between them */
    uint32_t count;
    uint32_t at[ESP_DYNAMODB_BATCH_MAX + 1]; /* where each text begins; its comma before it */
    uint64_t key[ESP_DYNAMODB_BATCH_MAX];
    enum fate fate[ESP_DYNAMODB_BATCH_MAX];
    struct range range;            /* being sent */
    struct range rest[RANGES_MAX]; /* to be sent after it */
    unsigned rest_count;
    bool whole;             /* nothing has gone wrong with it so far */
    struct esp_usage meter; /* of all its items */
};

enum esp_status esp_bulk_init(struct esp_dynamodb_session *ds, struct esp_error *err) {
    const struct esp_alloc *alloc = ds->client.endpoint->alloc;
    ds->batches = esp_calloc(alloc, ds->client.call_count, sizeof *ds->batches);
    ds->key_filter = esp_calloc(alloc, KEY_FILTER_SLOTS, 1);
    for (unsigned i = 0; ds->batches && i < ds->client.call_count; i++) {
        ds->batches[i].ds = ds;
        ds->batches[i].call = &ds->client.calls[i];
        esp_buf_init(&ds->batches[i].text, alloc, BATCH_BYTES_MAX + ITEM_TEXT_BYTES_MAX);
    }
    return ds->batches && ds->key_filter ? ESP_OK : esp_fail_nomem(err);
}

void esp_bulk_fini(struct esp_dynamodb_session *ds) {
    if (!ds->client.endpoint) {
        return;
    }
    const struct esp_alloc *alloc = ds->client.endpoint->alloc;
    for (unsigned i = 0; ds->batches && i < ds->client.call_count; i++) {
        esp_buf_fini(&ds->batches[i].text);
    }
    esp_release(alloc, ds->batches, ds->client.call_count * sizeof *ds->batches);
    esp_release(alloc, ds->key_filter, KEY_FILTER_SLOTS);
    ds->batches = NULL;
    ds->key_filter = NULL;
}

/* --- keys in flight ---------------------------------------------------------------- */

static uint64_t hash_value(const struct esp_value *value, uint64_t seed) {
    return value->type == ESP_TYPE_N && value->s.len == 0
               ? esp_hash64(&value->n, sizeof value->n, seed)
               : esp_hash64(value->s.ptr, value->s.len, seed);
}

static uint64_t hash_key(const struct esp_schema *schema, const struct esp_item *item) {
    uint64_t hash = hash_value(&item->value[schema->pk], 1);
    return schema->sk < 0 ? hash : hash_value(&item->value[schema->sk], hash);
}

static bool batch_has_key(const struct esp_batch *b, uint64_t key) {
    for (uint32_t i = 0; i < b->count; i++) {
        if (b->key[i] == key) {
            return true;
        }
    }
    return false;
}

/* A slot of the filter counts keys; at 255 it stays there and only costs look-ups. */
static void filter_add(struct esp_dynamodb_session *ds, uint64_t key) {
    uint8_t *slot = &ds->key_filter[key % KEY_FILTER_SLOTS];
    *slot += *slot < UINT8_MAX;
}

static void filter_remove(struct esp_dynamodb_session *ds, uint64_t key) {
    uint8_t *slot = &ds->key_filter[key % KEY_FILTER_SLOTS];
    *slot -= *slot < UINT8_MAX;
}

static bool key_in_flight(const struct esp_dynamodb_session *ds, uint64_t key) {
    if (ds->key_filter[key % KEY_FILTER_SLOTS] == 0) {
        return false;
    }
    for (unsigned i = 0; i < ds->client.call_count; i++) {
        if (batch_has_key(&ds->batches[i], key)) {
            return true;
        }
    }
    return false;
}

/* --- sending ------------------------------------------------------------------------ */

static struct esp_str item_text(const struct esp_batch *b, uint32_t i) {
    size_t end = i + 1 < b->count ? b->at[i + 1] - 1 : b->text.len;
    return (struct esp_str){b->text.ptr + b->at[i], end - b->at[i]};
}

static uint32_t pending_of(const struct esp_batch *b, struct range range) {
    uint32_t pending = 0;
    for (uint32_t i = range.from; i < range.to; i++) {
        pending += b->fate[i] == PENDING;
    }
    return pending;
}

/* The body: the pending items of the range. */
static void encode_range(struct esp_batch *b) {
    struct esp_buf *body = &b->call->body;
    esp_buf_reset(body);
    esp_encode_batch_begin(body, b->ds->session->table->name);
    if (b->whole) {
        esp_buf_put_str(body, esp_buf_str(&b->text));
    } else {
        bool first = true;
        for (uint32_t i = b->range.from; i < b->range.to; i++) {
            if (b->fate[i] == PENDING) {
                if (!first) {
                    esp_buf_put_char(body, ',');
                }
                esp_buf_put_str(body, item_text(b, i));
                first = false;
            }
        }
    }
    esp_encode_batch_end(body);
}

/* --- accounting --------------------------------------------------------------------- */

/* The item of a text, for its units or for a report; strings in the session's arena. */
static enum esp_status item_of(struct esp_batch *b, uint32_t i, struct esp_item *out,
                               struct esp_error *err) {
    struct esp_str put = esp_json_find(item_text(b, i), "PutRequest");
    esp_arena_reset(&b->ds->arena);
    return esp_item_parse(&b->ds->session->table->schema, esp_json_find(put, "Item"), &b->ds->arena,
                          out, err);
}

static void report_refused(struct esp_batch *b, uint32_t i, const struct esp_error *why) {
    struct esp_session *session = b->ds->session;
    struct esp_item item;
    b->fate[i] = REFUSED;
    session->bulk.refused++;
    if (session->on_refused && item_of(b, i, &item, NULL) == ESP_OK) {
        session->on_refused(session->on_refused_ctx, &item, why);
    }
}

static void meter_written(struct esp_batch *b, uint32_t written) {
    struct esp_session *session = b->ds->session;
    if (written == b->count) {
        esp_usage_add(&session->usage, &b->meter);
        return;
    }
    for (uint32_t i = 0; i < b->count; i++) {
        struct esp_item item;
        if (b->fate[i] == WRITTEN && item_of(b, i, &item, NULL) == ESP_OK) {
            esp_meter_write(&session->table->schema, NULL, &item, false, &session->usage);
        }
    }
}

/* Every item has its fate, or will never have one: what is pending is left. */
static void close_batch(struct esp_batch *b) {
    struct esp_bulk_counts *bulk = &b->ds->session->bulk;
    uint32_t written = 0, pending = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        written += b->fate[i] == WRITTEN;
        pending += b->fate[i] == PENDING;
        filter_remove(b->ds, b->key[i]);
    }
    meter_written(b, written);
    bulk->written += written;
    bulk->left += pending;
    b->count = 0;
    esp_client_release(b->call);
}

static void remember_failure(struct esp_dynamodb_session *ds, enum esp_status status,
                             const struct esp_error *why) {
    if (ds->failure.status == ESP_OK) {
        ds->failure = *why;
        ds->failure.status = status;
    }
}

/* --- answers ------------------------------------------------------------------------- */

/* Marks what is not unprocessed as written.  False: the answer makes no sense. */
static bool mark_written(struct esp_batch *b, const struct esp_answer *answer) {
    const struct esp_schema *schema = &b->ds->session->table->schema;
    bool undone[ESP_DYNAMODB_BATCH_MAX] = {false};
    struct esp_json_walk walk;
    struct esp_str json;
    esp_answer_table(answer->unprocessed, NULL, &walk);
    while (esp_json_element(&walk, &json)) {
        struct esp_str put = esp_json_find(json, "PutRequest");
        struct esp_item item;
        esp_arena_reset(&b->ds->arena);
        if (esp_item_parse(schema, esp_json_find(put, "Item"), &b->ds->arena, &item, NULL) !=
            ESP_OK) {
            return false;
        }
        uint64_t key = hash_key(schema, &item);
        uint32_t i = b->range.from;
        while (i < b->range.to && !(b->fate[i] == PENDING && b->key[i] == key)) {
            i++;
        }
        if (i == b->range.to) {
            return false;
        }
        undone[i] = true;
    }
    for (uint32_t i = b->range.from; i < b->range.to; i++) {
        if (b->fate[i] == PENDING && !undone[i]) {
            b->fate[i] = WRITTEN;
        }
    }
    return true;
}

/* True when a part of the range is to be sent again and will be. */
static bool resend(struct esp_batch *b, const struct esp_answer *answer) {
    uint32_t before = pending_of(b, b->range);
    if (!mark_written(b, answer)) { /* putting all of them once more harms nobody */
        return esp_client_again(b->call, ESP_VERDICT_TRANSIENT, false,
                                "the endpoint left items undone that it was not asked to write");
    }
    uint32_t pending = pending_of(b, b->range);
    if (pending == 0) {
        return false;
    }
    b->whole = false;
    encode_range(b);
    return esp_client_again(b->call, ESP_VERDICT_THROTTLED, pending < before,
                            "the endpoint left a part of the batch unprocessed");
}

/* The range was refused: its halves are next, or it is the item at fault. */
static void divide(struct esp_batch *b, const struct esp_error *why) {
    b->whole = false;
    if (b->range.to - b->range.from > 1) {
        uint32_t middle = (b->range.from + b->range.to) / 2;
        b->rest[b->rest_count++] = (struct range){middle, b->range.to};
        b->rest[b->rest_count++] = (struct range){b->range.from, middle};
    } else {
        report_refused(b, b->range.from, why);
    }
}

static void on_batch_done(struct esp_call *call) {
    struct esp_batch *b = call->owner;
    struct esp_dynamodb_session *ds = b->ds;
    struct esp_answer answer;
    if (call->status == ESP_OK) {
        esp_answer_split(esp_buf_str(&call->x.answer), &answer);
        esp_answer_bill(&answer, &ds->session->table->schema, true, &ds->session->usage);
        if (answer.unprocessed.len <= 2) { /* "{}": the usual case */
            answer.unprocessed.len = 0;
        }
        if (resend(b, &answer)) {
            return;
        }
    }
    if (call->status == ESP_ERR_REFUSED || call->status == ESP_ERR_LIMIT) {
        divide(b, &call->error);
    } else if (call->status != ESP_OK) {
        remember_failure(ds, call->status, &call->error);
        b->rest_count = 0;
        if (call->status == ESP_ERR_NOT_FOUND) { /* no table: the other batches fail too */
            esp_client_give_up(&ds->client, call->status, &call->error);
        }
    }
    while (b->rest_count > 0) {
        b->range = b->rest[--b->rest_count];
        if (pending_of(b, b->range) > 0) {
            encode_range(b);
            esp_client_submit(call);
            return;
        }
    }
    close_batch(b);
}

/* --- the stream ----------------------------------------------------------------------- */

static void submit(struct esp_dynamodb_session *ds) {
    struct esp_batch *b = ds->filling;
    ds->filling = NULL;
    b->range = (struct range){0, b->count};
    encode_range(b);
    esp_client_submit(b->call);
}

/* An empty batch to fill; there may have to be room first. */
static void open_batch(struct esp_dynamodb_session *ds) {
    struct esp_call *call;
    while ((call = esp_client_take(&ds->client)) == NULL) {
        esp_client_step(&ds->client, true);
    }
    struct esp_batch *b = &ds->batches[call - ds->client.calls];
    esp_buf_reset(&b->text);
    b->count = b->rest_count = 0;
    b->whole = true;
    memset(&b->meter, 0, sizeof b->meter);
    memset(b->fate, 0, sizeof b->fate);
    call->operation = ESP_OP_BATCH_WRITE_ITEM;
    call->owner = b;
    call->done = on_batch_done;
    ds->filling = b;
}

/* Until the put before of the same key is acknowledged. */
static void wait_for_key(struct esp_dynamodb_session *ds, uint64_t key) {
    if (ds->filling && batch_has_key(ds->filling, key)) {
        submit(ds);
    }
    while (key_in_flight(ds, key)) {
        esp_client_step(&ds->client, true);
    }
}

static enum esp_status left_behind(struct esp_dynamodb_session *ds, struct esp_error *err) {
    return esp_client_fail(err, ds->failure.status, &ds->failure);
}

enum esp_status esp_dynamodb_bulk_put(struct esp_session *session, const struct esp_item *item,
                                      struct esp_error *err) {
    struct esp_dynamodb_session *ds = session->impl;
    const struct esp_schema *schema = &session->table->schema;
    if (ds->failure.status != ESP_OK) {
        session->bulk.left++;
        return left_behind(ds, err);
    }
    uint64_t key = hash_key(schema, item);
    if (key_in_flight(ds, key)) {
        wait_for_key(ds, key);
    }
    if (!ds->filling) {
        open_batch(ds);
    }
    struct esp_batch *b = ds->filling;
    size_t text_len = b->text.len;
    if (b->count > 0) {
        esp_buf_put_char(&b->text, ',');
    }
    b->at[b->count] = (uint32_t)b->text.len;
    esp_encode_batch_item(&b->text, schema, item);
    if (b->text.failed) {
        b->text.len = text_len;
        b->text.failed = false;
        session->bulk.left++;
        return esp_fail_nomem(err);
    }
    b->key[b->count++] = key;
    filter_add(ds, key);
    esp_meter_write(schema, NULL, item, false, &b->meter);
    if (b->count == ds->batch_items || b->text.len >= BATCH_BYTES_MAX) {
        submit(ds);
    }
    return ESP_OK;
}

void esp_bulk_submit(struct esp_dynamodb_session *ds) {
    if (ds->filling && ds->filling->count > 0) {
        submit(ds);
    } else if (ds->filling) {
        esp_client_release(ds->filling->call);
        ds->filling = NULL;
    }
}

enum esp_status esp_dynamodb_bulk_flush(struct esp_session *session, struct esp_error *err) {
    struct esp_dynamodb_session *ds = session->impl;
    esp_bulk_submit(ds);
    esp_client_finish(&ds->client);
    enum esp_status status = ds->failure.status == ESP_OK ? ESP_OK : left_behind(ds, err);
    esp_error_clear(&ds->failure);
    esp_client_recover(&ds->client);
    return status;
}
