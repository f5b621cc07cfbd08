/* What answers to reads mean for the request: items, units, what is left undone. */
#include "stores/dynamodb/outcome.h"

enum esp_status esp_pending_parse(struct esp_pending *p, struct esp_str json, struct esp_item *out,
                                  struct esp_error *err) {
    esp_arena_reset(&p->ds->arena);
    return esp_item_parse(esp_pending_schema(p), json, &p->ds->arena, out, err);
}

static enum esp_status deliver(struct esp_pending *p, const struct esp_item *item) {
    struct esp_request *r = p->request;
    esp_pending_usage(p)->items_returned++;
    return r->fn ? r->fn(r->ctx, item) : ESP_OK;
}

static enum esp_status deliver_one(struct esp_pending *p, struct esp_str json,
                                   enum esp_consistency consistency) {
    struct esp_item item;
    enum esp_status status = esp_pending_parse(p, json, &item, &p->request->error);
    if (status == ESP_OK) {
        esp_meter_get(esp_item_size(esp_pending_schema(p), &item), consistency,
                      esp_pending_usage(p));
        status = deliver(p, &item);
    }
    return status;
}

/* Moves the key among the first `left` that equals `item` to `front`; false: there is none. */
static bool keep_key(struct esp_pending *p, const struct esp_item *item, size_t front) {
    const struct esp_schema *schema = esp_pending_schema(p);
    struct esp_item *keys = p->request->get.keys;
    for (size_t i = front; i < p->left; i++) {
        if (esp_item_same_key(schema, &keys[i], item)) {
            struct esp_item moved;
            esp_item_copy(schema, &moved, &keys[i]);
            esp_item_copy(schema, &keys[i], &keys[front]);
            esp_item_copy(schema, &keys[front], &moved);
            return true;
        }
    }
    return false;
}

enum esp_status esp_pending_broken(struct esp_pending *p) {
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
        status = esp_pending_parse(p, json, &key, &p->request->error);
        if (status == ESP_OK && !keep_key(p, &key, undone++)) {
            status = esp_pending_broken(p);
        }
    }
    if (status == ESP_OK) {
        for (size_t missing = p->left - undone; missing > returned; missing--) {
            esp_meter_get(0, consistency, esp_pending_usage(p));
        }
    }
    p->left = undone;
    return status;
}

enum esp_status esp_outcome_get(struct esp_pending *p, enum esp_operation operation,
                                const struct esp_answer *answer) {
    if (operation == ESP_OP_BATCH_GET_ITEM) {
        return on_batch_get(p, answer);
    }
    enum esp_status status = ESP_OK;
    if (operation == ESP_OP_GET_ITEM) {
        if (answer->item.len) {
            status = deliver_one(p, answer->item, p->request->get.consistency);
        } else {
            esp_meter_get(0, p->request->get.consistency, esp_pending_usage(p));
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
                esp_meter_get(0, ESP_TRANSACTION, esp_pending_usage(p));
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
    const struct esp_schema *schema = esp_pending_schema(p);
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
    struct esp_usage *usage = esp_pending_usage(p);
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

enum esp_status esp_outcome_page(struct esp_pending *p, const struct esp_answer *answer,
                                 double billed) {
    const struct esp_schema *schema = esp_pending_schema(p);
    struct esp_request *r = p->request;
    struct page page = page_of(p);
    struct esp_json_walk walk;
    struct esp_str json;
    uint64_t bytes = 0, items = 0;
    enum esp_status status = ESP_OK;
    esp_json_array(answer->items, &walk);
    while (status == ESP_OK && esp_json_element(&walk, &json)) {
        struct esp_item item;
        status = esp_pending_parse(p, json, &item, &r->error);
        if (status != ESP_OK) {
            break;
        }
        items++;
        bytes += page.index == ESP_PRIMARY
                     ? esp_item_size(schema, &item)
                     : esp_entry_size(schema, &schema->index[page.index], &item);
        if (page.fetch) {
            esp_meter_fetch(esp_item_size(schema, &item), page.strong, esp_pending_usage(p));
        }
        status = deliver(p, &item);
    }
    if (status == ESP_OK || status == ESP_STOP) {
        meter_page(p, answer, &page, bytes, items, billed);
    }
    r->more = false;
    if (status == ESP_OK && answer->last_key.len) {
        struct esp_item key;
        status = esp_pending_parse(p, answer->last_key, &key, &r->error);
        if (status == ESP_OK && r->cursor) {
            esp_cursor_set(r->cursor, schema, page.index, &key);
        }
        r->more = status == ESP_OK;
    }
    return status;
}
