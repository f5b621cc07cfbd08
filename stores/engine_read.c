/* GetItem and its batches, Query, Scan. */
#include "stores/condition.h"
#include "stores/engine_session.h"
#include "stores/recast.h"

enum {
    GET_KEYS_MAX = 100,
    BATCH_GET_BYTES_MAX = 16 << 20,
    TRANSACT_BYTES_MAX = 4 << 20,
    SEGMENTS_MAX = 1000000
};

/* Hand an item to the callback, as the caller's schema has it. */
static enum esp_status deliver(struct engine_session *e, struct esp_request *r,
                               const struct esp_item *item) {
    struct esp_item recast;
    e->base->usage.items_returned++;
    if (__builtin_expect(!e->table->same_attrs, 0)) {
        enum esp_status status = esp_item_recast(&e->table->schema, e->table->view, item,
                                                 &e->scratch, &recast, &r->error);
        if (status != ESP_OK) {
            return status;
        }
        item = &recast;
    }
    return r->fn ? r->fn(r->ctx, item) : ESP_OK;
}

/* --- by key --------------------------------------------------------------------- */

/* The keys of the request as they are stored, checked; no two may be equal. */
static enum esp_status encode_keys(struct engine_session *e, struct esp_request *r,
                                   struct esp_str *keys) {
    struct esp_item recast;
    const struct esp_item *item;
    for (size_t i = 0; i < r->get.n; i++) {
        enum esp_status status = engine_item_in(e, &r->get.keys[i], &recast, &item, &r->error);
        if (status == ESP_OK) {
            status = engine_check_key(e->table, item, &r->error);
        }
        if (status != ESP_OK) {
            return status;
        }
        esp_key_of_item(&e->table->schema, item, &e->key);
        keys[i] = esp_arena_dup(&e->arena, esp_key_str(&e->key));
        if (!keys[i].ptr) {
            return esp_fail_nomem(&r->error);
        }
    }
    return engine_has_duplicate(keys, r->get.n)
               ? esp_fail(&r->error, ESP_ERR_REFUSED, "the same key is read twice in one request")
               : ESP_OK;
}

static enum esp_status get_one(struct engine_session *e, struct esp_request *r, struct esp_str key,
                               uint64_t *bytes) {
    struct engine_image image;
    bool found;
    enum esp_status status = engine_load(e, key, &image, &found, &r->error);
    if (status != ESP_OK) {
        return status;
    }
    uint32_t size = found ? esp_record_size(image.record) : 0;
    *bytes += size;
    esp_meter_get(size, r->get.consistency, &e->base->usage);
    if (found) {
        status = deliver(e, r, &image.item);
        if (e->scratch.used_bytes) {
            esp_arena_reset(&e->scratch);
        }
    }
    return status;
}

static enum esp_status get_single(struct engine_session *e, struct esp_request *r) {
    struct esp_item recast;
    const struct esp_item *item;
    uint64_t bytes = 0;
    enum esp_status status = engine_item_in(e, &r->get.keys[0], &recast, &item, &r->error);
    if (status == ESP_OK) {
        status = engine_check_key(e->table, item, &r->error);
    }
    if (status != ESP_OK) {
        return status;
    }
    esp_key_of_item(&e->table->schema, item, &e->key);
    return get_one(e, r, esp_key_str(&e->key), &bytes);
}

static enum esp_status get(struct engine_session *e, struct esp_request *r) {
    struct esp_str keys[GET_KEYS_MAX];
    bool transaction = r->get.consistency == ESP_TRANSACTION;
    uint64_t bytes = 0;
    if (r->get.n == 1) {
        return get_single(e, r);
    }
    if (r->get.n == 0 || r->get.n > GET_KEYS_MAX) {
        return esp_fail(&r->error, ESP_ERR_REFUSED, "a request reads 1 to %d keys, not %zu",
                        GET_KEYS_MAX, r->get.n);
    }
    enum esp_status status = encode_keys(e, r, keys);
    for (size_t i = 0; i < r->get.n && status == ESP_OK; i++) {
        if (!transaction && bytes >= BATCH_GET_BYTES_MAX) {
            r->undone = r->get.n - i;
            for (size_t k = 0; k < r->undone; k++) {
                esp_item_copy(e->table->view, &r->get.keys[k], &r->get.keys[i + k]);
            }
            break;
        }
        status = get_one(e, r, keys[i], &bytes);
        if (status == ESP_OK && transaction && bytes > TRANSACT_BYTES_MAX) {
            status =
                esp_fail(&r->error, ESP_ERR_LIMIT,
                         "the items of a transaction have more than %d bytes", TRANSACT_BYTES_MAX);
        }
    }
    return status;
}

/* --- pages ---------------------------------------------------------------------- */

/* One page of a Query or Scan: e->low <= key < e->high, from the cursor on. */
struct page {
    int index; /* ESP_PRIMARY or a position */
    bool reverse, fetch, strong;
    const struct esp_condition *filter;
    size_t filter_count;
    uint64_t limit;
    uint64_t items, bytes; /* evaluated */
};

/* Go on behind the cursor: it must lie where this read may come to. */
static enum esp_status seek_cursor(struct engine_session *e, struct esp_request *r,
                                   const struct page *page) {
    struct esp_item recast;
    const struct esp_schema *schema = &e->table->schema;
    const struct esp_item *item;
    if (!r->cursor || !r->cursor->set) {
        return ESP_OK;
    }
    enum esp_status status = engine_item_in(e, &r->cursor->key, &recast, &item, &r->error);
    if (status == ESP_OK) {
        status = engine_check_key(e->table, item, &r->error);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (page->index == ESP_PRIMARY) {
        esp_key_of_item(schema, item, &e->key);
    } else if (!esp_key_of_entry(schema, page->index, engine_key_tree(e->table, page->index), item,
                                 &e->key)) {
        return esp_fail(&r->error, ESP_ERR_REFUSED, "the start key lacks a key attribute");
    }
    struct esp_str key = esp_key_str(&e->key);
    if (esp_str_cmp(key, esp_key_str(&e->low)) < 0 ||
        esp_str_cmp(key, esp_key_str(&e->high)) >= 0) {
        return esp_fail(&r->error, ESP_ERR_REFUSED, "the start key is outside of what is read");
    }
    struct esp_key *bound = page->reverse ? &e->high : &e->low;
    bound->len = e->key.len;
    memcpy(bound->bytes, e->key.bytes, e->key.len);
    if (!page->reverse) {
        esp_key_step(bound);
    }
    return ESP_OK;
}

/* The whole item of an entry in a local index. */
static enum esp_status fetch(struct engine_session *e, struct esp_request *r, bool strong,
                             struct esp_item *item) {
    struct engine_image image;
    bool found;
    esp_key_of_item(&e->table->schema, item, &e->key);
    enum esp_status status = engine_load(e, esp_key_str(&e->key), &image, &found, &r->error);
    if (status == ESP_OK && !found) {
        status = esp_fail(&r->error, ESP_ERR_INTERNAL, "an index entry has no item");
    }
    if (status == ESP_OK) {
        esp_meter_fetch(esp_record_size(image.record), strong, &e->base->usage);
        esp_item_copy(&e->table->schema, item, &image.item);
    }
    return status;
}

/* Evaluate one record; *end says that the page is over after it. */
static enum esp_status evaluate(struct engine_session *e, struct esp_request *r, struct page *page,
                                struct esp_str record, bool *end) {
    const struct esp_schema *schema = &e->table->schema;
    struct esp_item item;
    bool holds = true;
    enum esp_status status = ESP_OK;
    if (!esp_record_view(schema, record, &item)) {
        return engine_damaged(e, &r->error);
    }
    page->items++;
    page->bytes += esp_record_size(record);
    *end = page->items == page->limit || page->bytes >= e->table->engine->page_bytes;
    if (*end) {
        struct esp_item recast;
        const struct esp_item *key = &item;
        if (!e->table->same_attrs) {
            key = &recast;
            status =
                esp_item_recast(schema, e->table->view, &item, &e->scratch, &recast, &r->error);
        }
        if (status == ESP_OK && r->cursor) {
            esp_cursor_set(r->cursor, e->table->view, page->index, key);
        }
        r->more = status == ESP_OK;
    }
    if (status == ESP_OK && page->fetch) {
        status = fetch(e, r, page->strong, &item);
    }
    if (status == ESP_OK && page->filter_count) {
        status = esp_conditions_hold(schema, page->filter, page->filter_count, &item, &e->scratch,
                                     &holds, &r->error);
    }
    if (status == ESP_OK && holds) {
        status = deliver(e, r, &item);
    }
    if (e->scratch.used_bytes) {
        esp_arena_reset(&e->scratch);
    }
    return status;
}

static enum esp_status read_page(struct engine_session *e, struct esp_request *r,
                                 struct page *page) {
    const struct esp_kv_ops *ops = e->kv->kv->ops;
    uint32_t tree = e->state.tree;
    struct esp_str low = esp_key_str(&e->low), high = esp_key_str(&e->high), key, record;
    bool end = false;
    enum esp_status status =
        page->reverse ? ops->look(e->kv, tree, ESP_KV_BEFORE, high, &key, &record, &r->error)
                      : ops->look(e->kv, tree, ESP_KV_AT_OR_AFTER, low, &key, &record, &r->error);
    while (status == ESP_OK) {
        if (page->reverse ? esp_str_cmp(key, low) < 0 : esp_str_cmp(key, high) >= 0) {
            break;
        }
        status = evaluate(e, r, page, record, &end);
        if (status != ESP_OK || end) {
            goto metered;
        }
        status = ops->look(e->kv, tree, page->reverse ? ESP_KV_PREVIOUS : ESP_KV_NEXT, low, &key,
                           &record, &r->error);
    }
    status = status == ESP_STOP ? ESP_OK : status; /* the tree ends here */
metered:
    esp_meter_page(page->index, page->bytes, page->items, page->strong, &e->base->usage);
    return status;
}

static enum esp_status check_page(struct engine_session *e, struct esp_request *r,
                                  struct page *page) {
    if (page->index < ESP_PRIMARY || page->index >= (int)e->table->view->index_count) {
        return esp_fail(&r->error, ESP_ERR_REFUSED, "the table has no index number %d",
                        page->index);
    }
    bool local = page->index != ESP_PRIMARY && e->table->schema.index[page->index].local;
    if (page->fetch && !local) {
        return esp_fail(&r->error, ESP_ERR_REFUSED,
                        "only queries of a local index fetch what is not projected");
    }
    if (page->fetch && e->table->schema.index[page->index].projection == ESP_PROJECT_ALL) {
        page->fetch = false; /* the entry has everything */
    }
    return esp_conditions_check(page->filter, page->filter_count, &r->error);
}

/* --- Query ---------------------------------------------------------------------- */

static enum esp_status check_sort_value(const struct esp_attr *attr, const struct esp_value *value,
                                        bool may_be_empty, struct esp_error *err) {
    if (value->type != attr->type) {
        return esp_fail(err, ESP_ERR_REFUSED, "the condition on sort key %.*s has another type",
                        ESP_FMT(attr->name));
    }
    if (value->type != ESP_TYPE_N && value->s.len == 0 && !may_be_empty) {
        return esp_fail(err, ESP_ERR_REFUSED, "the condition on sort key %.*s has an empty value",
                        ESP_FMT(attr->name));
    }
    if (value->type != ESP_TYPE_N && value->s.len > ESP_SK_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "the condition on sort key %.*s has %zu bytes, at most %d",
                        ESP_FMT(attr->name), value->s.len, ESP_SK_BYTES_MAX);
    }
    return ESP_OK;
}

static enum esp_status check_sort_condition(const struct esp_schema *schema, int sk,
                                            const struct esp_query *q, struct esp_error *err) {
    if (q->op == ESP_ANY) {
        return ESP_OK;
    }
    if (sk < 0 || q->op > ESP_PREFIX) {
        return esp_fail(err, ESP_ERR_REFUSED, "the sort key cannot be compared like that");
    }
    const struct esp_attr *attr = &schema->attr[sk];
    enum esp_status status = check_sort_value(attr, &q->lo, q->op == ESP_PREFIX, err);
    if (status == ESP_OK && q->op == ESP_BETWEEN) {
        status = check_sort_value(attr, &q->hi, false, err);
        if (status == ESP_OK && esp_value_cmp(&q->lo, &q->hi) > 0) {
            status = esp_fail(err, ESP_ERR_REFUSED, "the bounds of BETWEEN are not in order");
        }
    }
    if (status == ESP_OK && q->op == ESP_PREFIX && attr->type == ESP_TYPE_N) {
        status = esp_fail(err, ESP_ERR_REFUSED, "begins_with needs a string or binary sort key");
    }
    return status;
}

static enum esp_status check_query(struct engine_session *e, const struct esp_query *q,
                                   struct esp_error *err) {
    const struct esp_schema *schema = &e->table->schema;
    bool primary = q->index == ESP_PRIMARY;
    int pk = primary ? schema->pk : schema->index[q->index].pk;
    int sk = primary ? schema->sk : schema->index[q->index].sk;
    const struct esp_attr *attr = &schema->attr[pk];
    if (q->pk.type != attr->type || (q->pk.type != ESP_TYPE_N && q->pk.s.len == 0)) {
        return esp_fail(err, ESP_ERR_REFUSED,
                        "the partition key %.*s needs a value of its own type that is not empty",
                        ESP_FMT(attr->name));
    }
    if (q->pk.type != ESP_TYPE_N && q->pk.s.len > ESP_PK_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT, "the partition key %.*s has %zu bytes, at most %d",
                        ESP_FMT(attr->name), q->pk.s.len, ESP_PK_BYTES_MAX);
    }
    for (size_t i = 0; i < q->filter_count; i++) {
        int position = esp_schema_find_attr(schema, q->filter[i].name);
        if (position >= 0 && (position == pk || position == sk)) {
            return esp_fail(err, ESP_ERR_REFUSED, "a filter may not name key attribute %.*s",
                            ESP_FMT(q->filter[i].name));
        }
    }
    return check_sort_condition(schema, sk, q, err);
}

static enum esp_status query(struct engine_session *e, struct esp_request *r) {
    const struct esp_query *q = r->query;
    struct page page = {.index = q->index,
                        .reverse = q->reverse,
                        .fetch = q->fetch,
                        .filter = q->filter,
                        .filter_count = q->filter_count,
                        .limit = q->limit};
    enum esp_status status = check_page(e, r, &page);
    if (status == ESP_OK) {
        status = check_query(e, q, &r->error);
    }
    if (status != ESP_OK) {
        return status;
    }
    page.strong =
        q->consistent && (q->index == ESP_PRIMARY || e->table->schema.index[q->index].local);
    esp_key_range(&e->table->schema, q, engine_key_tree(e->table, q->index), &e->low, &e->high);
    status = seek_cursor(e, r, &page);
    return status == ESP_OK ? read_page(e, r, &page) : status;
}

/* --- Scan ----------------------------------------------------------------------- */

static enum esp_status scan(struct engine_session *e, struct esp_request *r) {
    const struct esp_scan *s = r->scan;
    uint32_t segments = s->segments ? s->segments : 1;
    struct page page = {
        .index = s->index, .filter = s->filter, .filter_count = s->filter_count, .limit = s->limit};
    enum esp_status status = check_page(e, r, &page);
    if (status != ESP_OK) {
        return status;
    }
    if (segments > SEGMENTS_MAX || s->segment >= segments) {
        return esp_fail(&r->error, ESP_ERR_REFUSED, "there is no segment %u of %u", s->segment,
                        segments);
    }
    page.strong =
        s->consistent && (s->index == ESP_PRIMARY || e->table->schema.index[s->index].local);
    esp_key_segment(engine_key_tree(e->table, s->index), s->segment, segments, &e->low, &e->high);
    status = seek_cursor(e, r, &page);
    return status == ESP_OK ? read_page(e, r, &page) : status;
}

void engine_read(struct engine_session *e, struct esp_request *r) {
    r->more = false;
    r->undone = 0;
    switch (r->kind) {
    case ESP_REQ_GET:
        r->status = get(e, r);
        break;
    case ESP_REQ_QUERY:
        r->status = query(e, r);
        break;
    case ESP_REQ_SCAN:
        r->status = scan(e, r);
        break;
    default:
        r->status = esp_fail(&r->error, ESP_ERR_INTERNAL, "no read");
        break;
    }
    if (r->status != ESP_OK) {
        r->more = false;
    }
}
