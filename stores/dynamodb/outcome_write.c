/* What answers to writes mean for the request: units, what is left undone, what was ours. */
#include "stores/dynamodb/outcome.h"

static bool keep_write(struct esp_pending *p, const struct esp_item *item, size_t front) {
    struct esp_write *w = p->request->write.w;
    for (size_t i = front; i < p->left; i++) {
        if (esp_item_same_key(esp_pending_schema(p), &w[i].item, item)) {
            struct esp_write moved = w[i];
            w[i] = w[front];
            w[front] = moved;
            return true;
        }
    }
    return false;
}

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
    const struct esp_schema *schema = esp_pending_schema(p);
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
    struct esp_usage *usage = esp_pending_usage(p);
    struct esp_item result;
    const struct esp_item *after = NULL;
    if (w->kind == ESP_CHECK) {
        esp_meter_check(esp_pending_schema(p), old, usage);
    } else {
        if (w->kind != ESP_DELETE) {
            after = w->kind == ESP_PUT ? &w->item : updated(p, w, old, &result);
        }
        known = known && (after || w->kind == ESP_DELETE);
        esp_meter_write(esp_pending_schema(p), old, after, transaction, usage);
    }
    usage->write_estimated = usage->write_estimated || !known;
}

enum esp_status esp_outcome_write(struct esp_pending *p, const struct esp_answer *answer,
                                  bool maybe_done) {
    const struct esp_write *w = &p->request->write.w[0];
    struct esp_item old;
    p->left = 0;
    if (maybe_done) { /* what the last try found may be what an earlier one wrote */
        esp_arena_reset(&p->ds->arena);
        meter_write(p, w, w->old, false, false);
    } else if (answer->attributes.len) {
        enum esp_status status = esp_pending_parse(p, answer->attributes, &old, &p->request->error);
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

enum esp_status esp_outcome_batch_write(struct esp_pending *p, const struct esp_answer *answer) {
    struct esp_json_walk walk;
    struct esp_str json;
    size_t undone = 0;
    enum esp_status status = ESP_OK;
    esp_answer_table(answer->unprocessed, NULL, &walk);
    while (status == ESP_OK && esp_json_element(&walk, &json)) {
        struct esp_str put = esp_json_find(esp_json_find(json, "PutRequest"), "Item");
        struct esp_str key = esp_json_find(esp_json_find(json, "DeleteRequest"), "Key");
        struct esp_item item;
        status = esp_pending_parse(p, put.len ? put : key, &item, &p->request->error);
        if (status == ESP_OK && !keep_write(p, &item, undone++)) {
            status = esp_pending_broken(p);
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

enum esp_status esp_outcome_transaction(struct esp_pending *p) {
    for (size_t i = 0; i < p->request->write.n; i++) {
        const struct esp_write *w = &p->request->write.w[i];
        esp_arena_reset(&p->ds->arena);
        meter_write(p, w, w->old, w->old || must_be_new(esp_pending_schema(p), w), true);
    }
    p->left = 0;
    return ESP_OK;
}

/* Whether what is there now is what the write would have left. */
static bool was_ours(struct esp_pending *p, struct esp_str json) {
    const struct esp_write *w = &p->request->write.w[0];
    const struct esp_schema *schema = esp_pending_schema(p);
    struct esp_item now, after;
    if (w->kind == ESP_DELETE || json.len == 0) {
        return w->kind == ESP_DELETE && json.len == 0;
    }
    if (esp_pending_parse(p, json, &now, NULL) != ESP_OK) {
        return false;
    }
    const struct esp_item *wanted = w->kind == ESP_PUT ? &w->item : updated(p, w, &now, &after);
    return wanted && esp_item_equal(schema, &now, wanted);
}

enum esp_status esp_outcome_read_back(struct esp_pending *p, const struct esp_answer *answer) {
    struct esp_item found;
    bool there = answer->item.len && esp_pending_parse(p, answer->item, &found, NULL) == ESP_OK;
    esp_meter_get(there ? esp_item_size(esp_pending_schema(p), &found) : 0, ESP_STRONG,
                  esp_pending_usage(p));
    if (!was_ours(p, answer->item)) {
        p->request->error = p->error;
        return p->error.status;
    }
    esp_error_clear(&p->request->error);
    p->left = 0;
    meter_write(p, &p->request->write.w[0], p->request->write.w[0].old, false, false);
    return ESP_OK;
}
