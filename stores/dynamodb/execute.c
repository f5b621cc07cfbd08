/* Single requests: many in flight, each retried by itself, outcomes into the request. */
#include "stores/dynamodb/answer.h"
#include "stores/dynamodb/dynamodb_session.h"

#include <openssl/rand.h>
#include <stdio.h>

enum { ARENA_BYTES_MAX = 64 << 20, TOKEN_LEN = 32 };

/* A request in flight. */
struct esp_pending {
    struct esp_dynamodb_session *ds;
    struct esp_request *request;
    size_t left;            /* keys or writes not done yet: the first ones */
    bool reading_back;      /* a GetItem that finds out whether a write was ours */
    struct esp_error error; /* of the write that is read back */
    char token[TOKEN_LEN + 1];
};

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

static const struct esp_schema *schema_of(const struct esp_pending *p) {
    return &p->ds->session->table->schema;
}

static struct esp_usage *usage_of(const struct esp_pending *p) {
    return &p->ds->session->usage;
}

/* --- reads ------------------------------------------------------------------------- */

/* Parses an item of the answer into the arena, which is emptied first. */
static enum esp_status parse_item(struct esp_pending *p, struct esp_str json, struct esp_item *out,
                                  struct esp_error *err) {
    esp_arena_reset(&p->ds->arena);
    return esp_item_parse(schema_of(p), json, &p->ds->arena, out, err);
}

static enum esp_status deliver(struct esp_pending *p, const struct esp_item *item) {
    struct esp_request *r = p->request;
    usage_of(p)->items_returned++;
    return r->fn ? r->fn(r->ctx, item) : ESP_OK;
}

static enum esp_status deliver_one(struct esp_pending *p, struct esp_str json,
                                   enum esp_consistency consistency) {
    struct esp_item item;
    enum esp_status status = parse_item(p, json, &item, &p->request->error);
    if (status == ESP_OK) {
        esp_meter_get(esp_item_size(schema_of(p), &item), consistency, usage_of(p));
        status = deliver(p, &item);
    }
    return status;
}

static bool same_key(const struct esp_schema *schema, const struct esp_item *a,
                     const struct esp_item *b) {
    return esp_value_cmp(&a->value[schema->pk], &b->value[schema->pk]) == 0 &&
           (schema->sk < 0 || esp_value_cmp(&a->value[schema->sk], &b->value[schema->sk]) == 0);
}

/* Moves the key among the first `left` that equals `item` to `front`; false: there is none. */
static bool keep_key(struct esp_pending *p, const struct esp_item *item, size_t front) {
    const struct esp_schema *schema = schema_of(p);
    struct esp_item *keys = p->request->get.keys;
    for (size_t i = front; i < p->left; i++) {
        if (same_key(schema, &keys[i], item)) {
            struct esp_item moved;
            esp_item_copy(schema, &moved, &keys[i]);
            esp_item_copy(schema, &keys[i], &keys[front]);
            esp_item_copy(schema, &keys[front], &moved);
            return true;
        }
    }
    return false;
}

static bool keep_write(struct esp_pending *p, const struct esp_item *item, size_t front) {
    struct esp_write *w = p->request->write.w;
    for (size_t i = front; i < p->left; i++) {
        if (same_key(schema_of(p), &w[i].item, item)) {
            struct esp_write moved = w[i];
            w[i] = w[front];
            w[front] = moved;
            return true;
        }
    }
    return false;
}

static enum esp_status broken_answer(struct esp_pending *p) {
    return esp_fail(&p->request->error, ESP_ERR_INTERNAL,
                    "the endpoint left keys undone that it was not asked for");
}

static enum esp_status on_batch_get(struct esp_pending *p, const struct esp_answer *answer) {
    struct esp_json_walk walk;
    struct esp_str json;
    size_t returned = 0, undone = 0;
    enum esp_consistency consistency = p->request->get.consistency;
    enum esp_status status = ESP_OK;
    esp_answer_table(answer->responses, NULL, &walk);
    while (status == ESP_OK && esp_json_element(&walk, &json)) {
        returned++;
        status = deliver_one(p, json, consistency);
    }
    esp_answer_table(answer->unprocessed, "Keys", &walk);
    while (status == ESP_OK && esp_json_element(&walk, &json)) {
        struct esp_item key;
        status = parse_item(p, json, &key, &p->request->error);
        if (status == ESP_OK && !keep_key(p, &key, undone++)) {
            status = broken_answer(p);
        }
    }
    if (status == ESP_OK) {
        for (size_t missing = p->left - undone; missing > returned; missing--) {
            esp_meter_get(0, consistency, usage_of(p));
        }
    }
    p->left = undone;
    return status;
}

static enum esp_status on_get(struct esp_pending *p, enum esp_operation operation,
                              const struct esp_answer *answer) {
    if (operation == ESP_OP_BATCH_GET_ITEM) {
        return on_batch_get(p, answer);
    }
    enum esp_status status = ESP_OK;
    if (operation == ESP_OP_GET_ITEM) {
        if (answer->item.len) {
            status = deliver_one(p, answer->item, p->request->get.consistency);
        } else {
            esp_meter_get(0, p->request->get.consistency, usage_of(p));
        }
    } else {
        struct esp_json_walk walk;
        struct esp_str response;
        esp_json_array(answer->responses, &walk);
        while (status == ESP_OK && esp_json_element(&walk, &response)) {
            struct esp_str item = esp_json_find(response, "Item");
            if (item.len) {
                status = deliver_one(p, item, ESP_TRANSACTION);
            } else {
                esp_meter_get(0, ESP_TRANSACTION, usage_of(p));
            }
        }
    }
    p->left = 0;
    return status;
}

/* What Query and Scan have in common. */
struct page {
    int index;
    bool strong, fetch, filtered;
};

static struct page page_of(const struct esp_pending *p) {
    const struct esp_request *r = p->request;
    const struct esp_schema *schema = schema_of(p);
    bool query = r->kind == ESP_REQ_QUERY;
    struct page page = {.index = query ? r->query->index : r->scan->index,
                        .strong = query ? r->query->consistent : r->scan->consistent,
                        .filtered = query ? r->query->filter_count : r->scan->filter_count};
    bool local = page.index != ESP_PRIMARY && schema->index[page.index].local;
    page.strong = page.strong && (page.index == ESP_PRIMARY || local);
    page.fetch = query && r->query->fetch && local &&
                 schema->index[page.index].projection != ESP_PROJECT_ALL;
    return page;
}

/* Units of a page.  When a filter hid items that were read, only the endpoint knows. */
static void meter_page(struct esp_pending *p, const struct esp_answer *answer,
                       const struct page *page, uint64_t bytes, uint64_t items, double billed) {
    struct esp_usage *usage = usage_of(p);
    if (answer->scanned <= items) {
        esp_meter_page(page->index, bytes, items, page->strong, usage);
        return;
    }
    uint64_t evaluated = items ? bytes * answer->scanned / items : 0;
    if (billed > 0) {
        evaluated = (uint64_t)(billed * (page->strong ? 4096 : 8192));
    }
    usage->read_estimated = true;
    esp_meter_page(page->index, evaluated, answer->scanned, page->strong, usage);
}

static enum esp_status on_page(struct esp_pending *p, const struct esp_answer *answer,
                               double billed) {
    const struct esp_schema *schema = schema_of(p);
    struct esp_request *r = p->request;
    struct page page = page_of(p);
    struct esp_json_walk walk;
    struct esp_str json;
    uint64_t bytes = 0, items = 0;
    enum esp_status status = ESP_OK;
    esp_json_array(answer->items, &walk);
    while (status == ESP_OK && esp_json_element(&walk, &json)) {
        struct esp_item item;
        status = parse_item(p, json, &item, &r->error);
        if (status != ESP_OK) {
            break;
        }
        items++;
        bytes += page.index == ESP_PRIMARY
                     ? esp_item_size(schema, &item)
                     : esp_entry_size(schema, &schema->index[page.index], &item);
        if (page.fetch) {
            esp_meter_fetch(esp_item_size(schema, &item), page.strong, usage_of(p));
        }
        status = deliver(p, &item);
    }
    if (status == ESP_OK || status == ESP_STOP) {
        meter_page(p, answer, &page, bytes, items, billed);
    }
    r->more = false;
    if (status == ESP_OK && answer->last_key.len) {
        struct esp_item key;
        status = parse_item(p, answer->last_key, &key, &r->error);
        if (status == ESP_OK && r->cursor) {
            esp_cursor_set(r->cursor, schema, page.index, &key);
        }
        r->more = status == ESP_OK;
    }
    return status;
}

/* --- writes ------------------------------------------------------------------------ */

static bool must_be_new(const struct esp_schema *schema, const struct esp_write *w) {
    for (size_t i = 0; i < w->condition_count; i++) {
        if (w->condition[i].op == ESP_NOT_EXISTS &&
            esp_str_eq(w->condition[i].name, schema->attr[schema->pk].name)) {
            return true;
        }
    }
    return false;
}

/* The item after an update of `old` (NULL: none); NULL when it cannot be known. */
static const struct esp_item *updated(struct esp_pending *p, const struct esp_write *w,
                                      const struct esp_item *old, struct esp_item *out) {
    const struct esp_schema *schema = schema_of(p);
    struct esp_item key;
    if (!old) {
        memset(&key, 0, sizeof key);
        key.value[schema->pk] = w->item.value[schema->pk];
        if (schema->sk >= 0) {
            key.value[schema->sk] = w->item.value[schema->sk];
        }
        old = &key;
    }
    return esp_item_apply(schema, old, w->changes, w->change_count, &p->ds->arena, out, NULL) ==
                   ESP_OK
               ? out
               : NULL;
}

/* Meters a write whose previous item is `old` (NULL: none) or, not `known`, may have been. */
static void meter_write(struct esp_pending *p, const struct esp_write *w,
                        const struct esp_item *old, bool known, bool transaction) {
    struct esp_usage *usage = usage_of(p);
    struct esp_item result;
    const struct esp_item *after = NULL;
    if (w->kind == ESP_CHECK) {
        esp_meter_check(schema_of(p), old, usage);
    } else {
        if (w->kind != ESP_DELETE) {
            after = w->kind == ESP_PUT ? &w->item : updated(p, w, old, &result);
        }
        known = known && (after || w->kind == ESP_DELETE);
        esp_meter_write(schema_of(p), old, after, transaction, usage);
    }
    usage->write_estimated = usage->write_estimated || !known;
}

static enum esp_status on_single_write(struct esp_pending *p, const struct esp_answer *answer,
                                       bool maybe_done) {
    const struct esp_write *w = &p->request->write.w[0];
    struct esp_item old;
    p->left = 0;
    if (maybe_done) { /* what the last try found may be what an earlier one wrote */
        esp_arena_reset(&p->ds->arena);
        meter_write(p, w, w->old, false, false);
    } else if (answer->attributes.len) {
        enum esp_status status = parse_item(p, answer->attributes, &old, &p->request->error);
        if (status != ESP_OK) {
            return status;
        }
        meter_write(p, w, &old, true, false);
    } else {
        esp_arena_reset(&p->ds->arena);
        meter_write(p, w, NULL, true, false);
    }
    return ESP_OK;
}

static enum esp_status on_batch_write(struct esp_pending *p, const struct esp_answer *answer) {
    struct esp_json_walk walk;
    struct esp_str json;
    size_t undone = 0;
    enum esp_status status = ESP_OK;
    esp_answer_table(answer->unprocessed, NULL, &walk);
    while (status == ESP_OK && esp_json_element(&walk, &json)) {
        struct esp_str put = esp_json_find(esp_json_find(json, "PutRequest"), "Item");
        struct esp_str key = esp_json_find(esp_json_find(json, "DeleteRequest"), "Key");
        struct esp_item item;
        status = parse_item(p, put.len ? put : key, &item, &p->request->error);
        if (status == ESP_OK && !keep_write(p, &item, undone++)) {
            status = broken_answer(p);
        }
    }
    if (status != ESP_OK) {
        return status;
    }
    for (size_t i = undone; i < p->left; i++) {
        const struct esp_write *w = &p->request->write.w[i];
        meter_write(p, w, w->old, w->old != NULL, false);
    }
    p->left = undone;
    return ESP_OK;
}

static enum esp_status on_transaction(struct esp_pending *p) {
    for (size_t i = 0; i < p->request->write.n; i++) {
        const struct esp_write *w = &p->request->write.w[i];
        esp_arena_reset(&p->ds->arena);
        meter_write(p, w, w->old, w->old || must_be_new(schema_of(p), w), true);
    }
    p->left = 0;
    return ESP_OK;
}

/* --- writes that may have been ours -------------------------------------------------- */

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

/* Whether what is there now is what the write would have left. */
static bool was_ours(struct esp_pending *p, struct esp_str json) {
    const struct esp_write *w = &p->request->write.w[0];
    const struct esp_schema *schema = schema_of(p);
    struct esp_item now, after;
    if (w->kind == ESP_DELETE || json.len == 0) {
        return w->kind == ESP_DELETE && json.len == 0;
    }
    if (parse_item(p, json, &now, NULL) != ESP_OK) {
        return false;
    }
    const struct esp_item *wanted = w->kind == ESP_PUT ? &w->item : updated(p, w, &now, &after);
    return wanted && esp_item_equal(schema, &now, wanted);
}

static enum esp_status on_read_back(struct esp_pending *p, const struct esp_answer *answer) {
    struct esp_item found;
    bool there = answer->item.len && parse_item(p, answer->item, &found, NULL) == ESP_OK;
    esp_meter_get(there ? esp_item_size(schema_of(p), &found) : 0, ESP_STRONG, usage_of(p));
    if (!was_ours(p, answer->item)) {
        p->request->error = p->error;
        return p->error.status;
    }
    esp_error_clear(&p->request->error);
    p->left = 0;
    meter_write(p, &p->request->write.w[0], p->request->write.w[0].old, false, false);
    return ESP_OK;
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
    const struct esp_schema *schema = schema_of(p);
    struct esp_answer answer;
    esp_answer_split(esp_buf_str(&call->x.answer), &answer);
    bool write = !p->reading_back &&
                 (p->request->kind == ESP_REQ_WRITE || p->request->kind == ESP_REQ_TRANSACT);
    double billed = esp_answer_bill(&answer, schema, write, usage_of(p));
    if (p->reading_back) {
        return on_read_back(p, &answer);
    }
    switch (call->operation) {
    case ESP_OP_QUERY:
    case ESP_OP_SCAN:
        return on_page(p, &answer, billed);
    case ESP_OP_BATCH_WRITE_ITEM:
        return on_batch_write(p, &answer);
    case ESP_OP_TRANSACT_WRITE_ITEMS:
        return on_transaction(p);
    case ESP_OP_PUT_ITEM:
    case ESP_OP_DELETE_ITEM:
    case ESP_OP_UPDATE_ITEM:
        return on_single_write(p, &answer, call->maybe_done);
    default:
        return on_get(p, call->operation, &answer);
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
        unsigned char noise[TOKEN_LEN / 2];
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
