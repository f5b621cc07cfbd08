/*
 * PutItem, UpdateItem, DeleteItem, BatchWriteItem, TransactWriteItems.  Every request is
 * planned in full before its first change, so that one that is refused leaves nothing.
 */
#include "stores/condition.h"
#include "stores/engine_session.h"

enum {
    BATCH_WRITES_MAX = 25,
    TRANSACT_WRITES_MAX = 100,
    TRANSACT_BYTES_MAX = 4 << 20,
};

/* What one write is going to do. */
struct plan {
    struct esp_str key;
    bool had, has; /* an item before, after */
    struct engine_image old;
    struct esp_item new_item;
};

enum esp_status engine_damaged(const struct engine_session *e, struct esp_error *err) {
    return esp_fail(err, ESP_ERR_IO, "table %.*s: an item cannot be read: the store is damaged",
                    ESP_FMT(e->table->name));
}

enum esp_status engine_load(struct engine_session *e, struct esp_str key, struct engine_image *out,
                            bool *found, struct esp_error *err) {
    enum esp_status status = e->kv->kv->ops->get(e->kv, e->state.tree, key, &out->record, err);
    *found = status == ESP_OK;
    if (*found && !esp_record_view(&e->table->schema, out->record, &out->item)) {
        *found = false;
        return engine_damaged(e, err);
    }
    return status == ESP_ERR_NOT_FOUND ? ESP_OK : status;
}

/* --- changing ------------------------------------------------------------------- */

/* The entry that `image` has in an index: its key, its record in `out`. */
static enum esp_status encode_entry(struct engine_session *e, int index,
                                    const struct engine_image *image, struct esp_buf *buf,
                                    struct esp_str *out, struct esp_error *err) {
    const struct esp_schema *schema = &e->table->schema;
    const struct esp_index *ix = &schema->index[index];
    struct esp_item part;
    if (ix->projection == ESP_PROJECT_ALL) {
        *out = image->record;
        return ESP_OK;
    }
    enum esp_status status = esp_item_project(schema, ix, &image->item, &e->scratch, &part, err);
    if (status != ESP_OK) {
        return status;
    }
    size_t start = buf->len;
    esp_record_put(buf, schema, &part, esp_entry_size(schema, ix, &image->item));
    *out = (struct esp_str){buf->ptr + start, buf->len - start};
    return buf->failed ? esp_fail_nomem(err) : ESP_OK;
}

static enum esp_status replace_entry(struct engine_session *e, int index,
                                     const struct engine_image *old,
                                     const struct engine_image *new_image, struct esp_error *err) {
    const struct esp_kv_ops *ops = e->kv->kv->ops;
    const struct esp_schema *schema = &e->table->schema;
    unsigned key_tree = engine_key_tree(e->table, index);
    int at = e->table->stored_index[index];
    struct esp_key *old_key = &e->low, *new_key = &e->high;
    struct esp_str old_record = {0}, new_record = {0};
    bool had = old && esp_key_of_entry(schema, index, key_tree, &old->item, old_key);
    bool has = new_image && esp_key_of_entry(schema, index, key_tree, &new_image->item, new_key);
    bool same_key = had && has && esp_str_eq(esp_key_str(old_key), esp_key_str(new_key));
    enum esp_status status = ESP_OK;
    esp_buf_reset(&e->entry);
    if (has && !esp_buf_reserve(&e->entry, 2 * (size_t)new_image->record.len +
                                               (had ? 2 * (size_t)old->record.len : 0))) {
        return esp_fail_nomem(err); /* the first record must not move when the second is put */
    }
    if (had) {
        status = encode_entry(e, index, old, &e->entry, &old_record, err);
    }
    if (has && status == ESP_OK) {
        status = encode_entry(e, index, new_image, &e->entry, &new_record, err);
    }
    if (status == ESP_OK && had) {
        e->state.entries[at]--;
        e->state.entry_bytes[at] -= esp_record_size(old_record);
    }
    if (status == ESP_OK && has) {
        e->state.entries[at]++;
        e->state.entry_bytes[at] += esp_record_size(new_record);
    }
    if (status == ESP_OK && has && !(same_key && esp_str_eq(old_record, new_record))) {
        status = ops->put(e->kv, e->state.tree, esp_key_str(new_key), new_record, err);
    }
    if (status == ESP_OK && had && !same_key) {
        status = ops->del(e->kv, e->state.tree, esp_key_str(old_key), err);
    }
    esp_arena_reset(&e->scratch);
    return status;
}

enum esp_status engine_replace(struct engine_session *e, struct esp_str key,
                               const struct engine_image *old, const struct engine_image *new_image,
                               struct esp_error *err) {
    const struct esp_kv_ops *ops = e->kv->kv->ops;
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < e->table->schema.index_count && status == ESP_OK; i++) {
        status = replace_entry(e, (int)i, old, new_image, err);
    }
    if (old) {
        e->state.items--;
        e->state.item_bytes -= esp_record_size(old->record);
    }
    if (new_image) {
        e->state.items++;
        e->state.item_bytes += esp_record_size(new_image->record);
    }
    if (status == ESP_OK && new_image && !(old && esp_str_eq(old->record, new_image->record))) {
        status = ops->put(e->kv, e->state.tree, key, new_image->record, err);
    } else if (status == ESP_OK && old && !new_image) {
        status = ops->del(e->kv, e->state.tree, key, err);
    }
    return status;
}

static enum esp_status carry_out(struct engine_session *e, const struct plan *plan,
                                 struct esp_error *err) {
    struct engine_image new_image;
    if (plan->has) {
        esp_buf_reset(&e->record);
        esp_record_put(&e->record, &e->table->schema, &plan->new_item,
                       esp_item_size(&e->table->schema, &plan->new_item));
        if (e->record.failed) {
            return esp_fail_nomem(err);
        }
        esp_item_copy(&e->table->schema, &new_image.item, &plan->new_item);
        new_image.record = esp_buf_str(&e->record);
    }
    return engine_replace(e, plan->key, plan->had ? &plan->old : NULL,
                          plan->has ? &new_image : NULL, err);
}

/* --- planning ------------------------------------------------------------------- */

/* The item as it is now, copied: later writes of this transaction may move it. */
static enum esp_status load_old(struct engine_session *e, struct plan *plan,
                                struct esp_error *err) {
    enum esp_status status = engine_load(e, plan->key, &plan->old, &plan->had, err);
    if (status != ESP_OK || !plan->had) {
        return status;
    }
    plan->old.record = esp_arena_dup(&e->arena, plan->old.record);
    if (!plan->old.record.ptr) {
        return esp_fail_nomem(err);
    }
    esp_record_view(&e->table->schema, plan->old.record, &plan->old.item);
    return ESP_OK;
}

static enum esp_status update(struct engine_session *e, const struct esp_write *w,
                              const struct esp_item *item, struct plan *plan,
                              struct esp_error *err) {
    const struct esp_schema *schema = &e->table->schema;
    struct esp_item key;
    const struct esp_item *old = &plan->old.item;
    if (!plan->had) {
        memset(&key, 0, sizeof key);
        key.value[schema->pk] = item->value[schema->pk];
        if (schema->sk >= 0) {
            key.value[schema->sk] = item->value[schema->sk];
        }
        old = &key;
    }
    plan->has = true;
    enum esp_status status =
        esp_item_apply(schema, old, w->changes, w->change_count, &e->arena, &plan->new_item, err);
    return status == ESP_OK ? esp_item_check(schema, &plan->new_item, err) : status;
}

/* Everything about a write that does not depend on what is stored. */
static enum esp_status begin_plan(struct engine_session *e, const struct esp_write *w,
                                  struct plan *plan, struct esp_error *err) {
    struct esp_item recast;
    const struct esp_item *item;
    enum esp_status status = engine_item_in(e, &w->item, &recast, &item, err);
    if (status == ESP_OK) {
        status = w->kind == ESP_PUT ? esp_item_check(&e->table->schema, item, err)
                                    : engine_check_key(e->table, item, err);
    }
    if (status == ESP_OK) {
        status = esp_conditions_check(w->condition, w->condition_count, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    esp_key_of_item(&e->table->schema, item, &e->key);
    plan->key = esp_arena_dup(&e->arena, esp_key_str(&e->key));
    plan->had = plan->has = false;
    esp_item_copy(&e->table->schema, &plan->new_item, item);
    return plan->key.ptr ? ESP_OK : esp_fail_nomem(err);
}

/* What it finds and what it makes of it.  *holds: does its condition? */
static enum esp_status finish_plan(struct engine_session *e, const struct esp_write *w,
                                   struct plan *plan, bool *holds, struct esp_error *err) {
    enum esp_status status = load_old(e, plan, err);
    if (status == ESP_OK) {
        status = esp_conditions_hold(&e->table->schema, w->condition, w->condition_count,
                                     plan->had ? &plan->old.item : NULL, &e->arena, holds, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (w->kind == ESP_UPDATE) {
        struct esp_item key;
        esp_item_copy(&e->table->schema, &key, &plan->new_item);
        return *holds ? update(e, w, &key, plan, err) : ESP_OK;
    }
    plan->has = w->kind == ESP_PUT;
    return ESP_OK;
}

/* --- requests ------------------------------------------------------------------- */

/* What a write that its condition refused is charged at most (facts sheet 4.1). */
static void meter_refused(struct engine_session *e, const struct plan *plan, bool transaction) {
    uint32_t old_size = plan->had ? esp_record_size(plan->old.record) : 0;
    uint32_t new_size = plan->has ? esp_item_size(&e->table->schema, &plan->new_item) : 0;
    e->base->usage.write.table +=
        esp_write_units(old_size > new_size ? old_size : new_size) * (transaction ? 2.0 : 1.0);
}

static void meter(struct engine_session *e, enum esp_write_kind kind, const struct plan *plan,
                  bool transaction) {
    const struct esp_item *old = plan->had ? &plan->old.item : NULL;
    if (kind == ESP_CHECK) {
        esp_meter_check(&e->table->schema, old, &e->base->usage);
    } else {
        esp_meter_write(&e->table->schema, old, plan->has ? &plan->new_item : NULL, transaction,
                        &e->base->usage);
    }
}

static enum esp_status check_shape(const struct esp_request *r, struct esp_error *err) {
    bool transaction = r->kind == ESP_REQ_TRANSACT;
    size_t most = transaction ? TRANSACT_WRITES_MAX : BATCH_WRITES_MAX;
    if (r->write.n == 0 || r->write.n > most) {
        return esp_fail(err, ESP_ERR_LIMIT, "a request has 1 to %zu writes, not %zu", most,
                        r->write.n);
    }
    for (size_t i = 0; i < r->write.n && !transaction; i++) {
        const struct esp_write *w = &r->write.w[i];
        if (w->kind == ESP_CHECK) {
            return esp_fail(err, ESP_ERR_REFUSED, "only a transaction checks without writing");
        }
        if (r->write.n > 1 && (w->kind == ESP_UPDATE || w->condition_count)) {
            return esp_fail(err, ESP_ERR_REFUSED,
                            "a batch has unconditional puts and deletes only");
        }
    }
    return ESP_OK;
}

static enum esp_status check_duplicates(const struct plan *plans, size_t n, struct esp_error *err) {
    struct esp_str keys[TRANSACT_WRITES_MAX];
    for (size_t i = 0; i < n; i++) {
        keys[i] = plans[i].key;
    }
    return engine_has_duplicate(keys, n)
               ? esp_fail(err, ESP_ERR_REFUSED, "the same item is written twice in one request")
               : ESP_OK;
}

/* Says which conditions failed, as a cancelled transaction does. */
static enum esp_status refuse(struct engine_session *e, const struct esp_request *r,
                              const struct plan *plans, const bool *holds, struct esp_error *err) {
    bool transaction = r->kind == ESP_REQ_TRANSACT;
    size_t first = r->write.n, count = 0;
    for (size_t i = 0; i < r->write.n; i++) {
        meter_refused(e, &plans[i], transaction);
        if (!holds[i]) {
            first = first < i ? first : i;
            count++;
        }
    }
    if (!transaction) {
        return esp_fail(err, ESP_ERR_CONDITION, "the condition of the write does not hold");
    }
    return esp_fail(err, ESP_ERR_CONDITION,
                    "the condition of write %zu of %zu in the transaction does not hold"
                    " (%zu conditions fail)",
                    first + 1, r->write.n, count);
}

static enum esp_status check_transaction_size(struct engine_session *e, const struct plan *plans,
                                              size_t n, struct esp_error *err) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += plans[i].has ? esp_item_size(&e->table->schema, &plans[i].new_item) : 0;
    }
    return bytes > TRANSACT_BYTES_MAX
               ? esp_fail(err, ESP_ERR_LIMIT,
                          "the items of a transaction have %llu bytes, at most %d",
                          (unsigned long long)bytes, TRANSACT_BYTES_MAX)
               : ESP_OK;
}

/* Plan all writes of a request; what fails here leaves nothing behind. */
static enum esp_status plan_request(struct engine_session *e, struct esp_request *r,
                                    struct plan *plans, struct esp_error *err) {
    bool holds[TRANSACT_WRITES_MAX], all_hold = true;
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < r->write.n && status == ESP_OK; i++) {
        status = begin_plan(e, &r->write.w[i], &plans[i], err);
    }
    if (status == ESP_OK && r->write.n > 1) {
        status = check_duplicates(plans, r->write.n, err);
    }
    for (size_t i = 0; i < r->write.n && status == ESP_OK; i++) {
        status = finish_plan(e, &r->write.w[i], &plans[i], &holds[i], err);
        all_hold &= status == ESP_OK && holds[i];
    }
    if (status == ESP_OK && !all_hold) {
        status = refuse(e, r, plans, holds, err);
    }
    if (status == ESP_OK && r->kind == ESP_REQ_TRANSACT) {
        status = check_transaction_size(e, plans, r->write.n, err);
    }
    return status;
}

enum esp_status engine_write(struct engine_session *e, struct esp_request *r, bool *changed,
                             struct esp_error *err) {
    r->more = false;
    r->undone = 0;
    r->status = check_shape(r, &r->error);
    if (r->status != ESP_OK) {
        return ESP_OK;
    }
    struct plan *plans = esp_arena_alloc(&e->arena, r->write.n * sizeof *plans);
    if (!plans) {
        return esp_fail_nomem(err);
    }
    r->status = plan_request(e, r, plans, &r->error);
    if (r->status != ESP_OK) {
        bool fatal = esp_status_class(r->status) == ESP_CLASS_FATAL;
        return fatal ? esp_fail(err, r->status, "%s", r->error.message) : ESP_OK;
    }
    for (size_t i = 0; i < r->write.n; i++) {
        enum esp_write_kind kind = r->write.w[i].kind;
        enum esp_status status = kind == ESP_CHECK ? ESP_OK : carry_out(e, &plans[i], err);
        if (status != ESP_OK) {
            r->status = status;
            return status;
        }
        meter(e, kind, &plans[i], r->kind == ESP_REQ_TRANSACT);
        *changed |= kind != ESP_CHECK;
    }
    return ESP_OK;
}
