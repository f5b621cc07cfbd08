/* Stores, tables and sessions of the embedded engine, and the order requests are done in. */
#include "stores/engine.h"

#include "stores/bulk_load.h"
#include "stores/engine_session.h"
#include "stores/recast.h"

enum {
    PAGE_BYTES = 1 << 20,
    ARENA_BYTES_MAX = 1 << 30,  /* of one request */
    RECORD_BYTES_MAX = 64 << 20 /* of one item's stored form */
};

/* --- stores --------------------------------------------------------------------- */

static struct esp_engine *engine_of(struct esp_store *store) {
    return store->impl;
}

/* One construction that nobody works on any more. */
static enum esp_status recover_tree(struct esp_kv_session *kv, uint32_t tree,
                                    struct esp_error *err) {
    const struct esp_kv_ops *ops = kv->kv->ops;
    uint32_t found;
    if (!ops->claim(kv, tree)) {
        return ESP_OK; /* another process is at it */
    }
    enum esp_status status = ops->tree_open(kv, tree, err);
    if (status == ESP_OK) {
        status = ops->begin(kv, ESP_KV_DEFINE, err);
    }
    if (status == ESP_OK) { /* it may have been finished since we looked */
        status = esp_catalog_tree_unfinished(kv, tree - 1, &found, err);
        if (status == ESP_OK && found == tree) {
            status = esp_catalog_tree_free(kv, tree, err);
        }
        if (status == ESP_OK) {
            status = ops->commit(kv, err);
        } else {
            ops->end(kv);
        }
    }
    ops->unclaim(kv, tree);
    return status;
}

static enum esp_status recover(struct esp_kv_session *kv, struct esp_error *err) {
    const struct esp_kv_ops *ops = kv->kv->ops;
    uint32_t tree = 0;
    for (;;) {
        enum esp_status status = ops->begin(kv, ESP_KV_READ, err);
        if (status == ESP_OK) {
            status = esp_catalog_tree_unfinished(kv, tree, &tree, err);
            ops->end(kv);
        }
        if (status != ESP_OK || tree == 0) {
            return status;
        }
        status = recover_tree(kv, tree, err);
        if (status != ESP_OK) {
            return status;
        }
    }
}

enum esp_status esp_engine_attach(struct esp_store *store, struct esp_kv *kv,
                                  struct esp_error *err) {
    struct esp_kv_session *session;
    struct esp_engine *engine = esp_calloc(store->alloc, 1, sizeof *engine);
    if (!engine) {
        return esp_fail_nomem(err);
    }
    uint64_t page_bytes = store->config ? store->config->page_bytes : 0;
    engine->kv = kv;
    engine->alloc = store->alloc;
    engine->page_bytes = page_bytes ? page_bytes : PAGE_BYTES;
    enum esp_status status = kv->ops->session_open(kv, &session, err);
    if (status == ESP_OK) {
        status = recover(session, err);
        kv->ops->session_close(session);
    }
    if (status != ESP_OK) {
        esp_release(store->alloc, engine, sizeof *engine);
        return status;
    }
    store->impl = engine;
    return ESP_OK;
}

struct esp_kv *esp_engine_detach(struct esp_store *store) {
    struct esp_engine *engine = engine_of(store);
    struct esp_kv *kv = engine ? engine->kv : NULL;
    esp_release(store->alloc, engine, sizeof *engine);
    store->impl = NULL;
    return kv;
}

/* A session of its own for a call that concerns the whole store. */
static enum esp_status control_begin(struct esp_store *store, enum esp_kv_mode mode,
                                     struct esp_kv_session **out, struct esp_error *err) {
    struct esp_kv *kv = engine_of(store)->kv;
    enum esp_status status = kv->ops->session_open(kv, out, err);
    if (status != ESP_OK) {
        return status;
    }
    status = kv->ops->begin(*out, mode, err);
    if (status != ESP_OK) {
        kv->ops->session_close(*out);
    }
    return status;
}

static enum esp_status control_end(struct esp_kv_session *kv, bool write, enum esp_status status,
                                   struct esp_error *err) {
    const struct esp_kv_ops *ops = kv->kv->ops;
    if (write && status == ESP_OK) {
        status = ops->commit(kv, err);
    } else {
        ops->end(kv);
    }
    ops->session_close(kv);
    return status;
}

enum esp_status esp_engine_list_tables(struct esp_store *store,
                                       enum esp_status (*fn)(void *ctx, struct esp_str name),
                                       void *ctx, struct esp_error *err) {
    struct esp_kv_session *kv;
    char name[256] = "";
    enum esp_status status = control_begin(store, ESP_KV_READ, &kv, err);
    if (status != ESP_OK) {
        return status;
    }
    do {
        status = esp_catalog_next(kv, esp_str_from(name), name, err);
        if (status == ESP_OK) {
            status = fn(ctx, esp_str_from(name));
        } else if (status == ESP_STOP) {
            return control_end(kv, false, ESP_OK, err);
        }
    } while (status == ESP_OK);
    return control_end(kv, false, status, err);
}

/* Only the attributes that are keys of the table or of an index. */
static void keep_key_attrs(const struct esp_schema *from, struct esp_schema *to) {
    int position[ESP_ATTR_MAX + 1], *at = position + 1; /* at[-1] is -1 */
    for (int i = -1; i < ESP_ATTR_MAX; i++) {
        at[i] = -1;
    }
    memset(to, 0, sizeof *to);
    for (int i = 0; i < (int)from->attr_count; i++) {
        if (esp_schema_is_key(from, i)) {
            at[i] = (int)to->attr_count;
            to->attr[to->attr_count++] = from->attr[i];
        }
    }
    to->pk = at[from->pk];
    to->sk = at[from->sk];
    to->index_count = from->index_count;
    for (size_t k = 0; k < from->index_count; k++) {
        to->index[k] = from->index[k];
        to->index[k].pk = at[from->index[k].pk];
        to->index[k].sk = at[from->index[k].sk];
    }
}

enum esp_status esp_engine_describe_table(struct esp_store *store, const char *name,
                                          struct esp_arena *arena, struct esp_table_info *out,
                                          struct esp_error *err) {
    struct esp_kv_session *kv;
    struct esp_table_definition definition;
    struct esp_table_state state;
    memset(out, 0, sizeof *out);
    enum esp_status status = control_begin(store, ESP_KV_READ, &kv, err);
    if (status != ESP_OK) {
        return status;
    }
    status = esp_catalog_definition(kv, esp_str_from(name), arena, &definition, err);
    if (status == ESP_OK) {
        status = esp_catalog_state_get(kv, esp_str_from(name), &state, err);
    }
    if (status == ESP_OK) {
        memcpy(out->name, name, strnlen(name, sizeof out->name - 1));
        memcpy(out->status, "ACTIVE", sizeof "ACTIVE");
        out->item_count = state.items;
        out->item_bytes = state.item_bytes;
        memcpy(out->index_bytes, state.entry_bytes, sizeof out->index_bytes);
        out->billing = definition.options.billing;
        out->provisioned_read = definition.options.provisioned_read;
        out->provisioned_write = definition.options.provisioned_write;
        keep_key_attrs(&definition.schema, &out->schema);
    }
    return control_end(kv, false, status, err);
}

enum esp_status esp_engine_create_table(struct esp_store *store, const char *name,
                                        const struct esp_schema *schema,
                                        const struct esp_table_options *options,
                                        struct esp_error *err) {
    struct esp_kv_session *kv;
    struct esp_table_definition definition = {.schema = *schema};
    if (options) {
        definition.options = *options;
    }
    if (definition.options.billing == ESP_BILLING_UNKNOWN) {
        definition.options.billing = ESP_BILLING_ON_DEMAND;
    }
    enum esp_status status = esp_table_name_check(name, err);
    if (status == ESP_OK) {
        status = control_begin(store, ESP_KV_DEFINE, &kv, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    status = esp_catalog_create(kv, esp_str_from(name), &definition, err);
    return control_end(kv, true, status, err);
}

enum esp_status esp_engine_drop_table(struct esp_store *store, const char *name,
                                      struct esp_error *err) {
    struct esp_kv *kv = engine_of(store)->kv;
    struct esp_kv_session *session;
    struct esp_table_state state;
    for (;;) {
        enum esp_status status = control_begin(store, ESP_KV_WRITE, &session, err);
        if (status != ESP_OK) {
            return status;
        }
        status = esp_catalog_state_get(session, esp_str_from(name), &state, err);
        if (status != ESP_OK || kv->ops->tree_ready(session, state.tree)) {
            if (status == ESP_OK) {
                status = esp_catalog_drop(session, esp_str_from(name), err);
            }
            return control_end(session, true, status, err);
        }
        kv->ops->end(session);
        status = kv->ops->tree_open(session, state.tree, err);
        kv->ops->session_close(session);
        if (status != ESP_OK) {
            return status;
        }
    }
}

/* --- tables --------------------------------------------------------------------- */

/* The stored schema with the indexes in the caller's order, the others behind them. */
static void order_indexes(struct engine_table *t, const struct esp_schema *stored) {
    const struct esp_schema *view = t->view;
    bool taken[ESP_INDEX_MAX] = {false};
    size_t count = 0;
    t->schema = *stored;
    for (size_t i = 0; i < view->index_count; i++) {
        for (size_t k = 0; k < stored->index_count; k++) {
            if (esp_str_eq(stored->index[k].name, view->index[i].name)) {
                t->schema.index[count] = stored->index[k];
                t->stored_index[count++] = (int)k;
                taken[k] = true;
            }
        }
    }
    for (size_t k = 0; k < stored->index_count; k++) {
        if (!taken[k]) {
            t->schema.index[count] = stored->index[k];
            t->stored_index[count++] = (int)k;
        }
    }
}

enum esp_status esp_engine_table_open(struct esp_table *table, struct esp_error *err) {
    const struct esp_alloc *alloc = table->store->alloc;
    struct esp_kv_session *kv;
    struct esp_table_definition definition;
    struct esp_table_state state = {0};
    struct engine_table *t = esp_calloc(alloc, 1, sizeof *t);
    if (!t) {
        return esp_fail_nomem(err);
    }
    t->engine = engine_of(table->store);
    t->view = &table->schema;
    esp_arena_init(&t->arena, alloc, ARENA_BYTES_MAX);
    t->name = esp_arena_dup(&t->arena, esp_str_from(table->name));
    table->impl = t;
    enum esp_status status = t->name.ptr ? ESP_OK : esp_fail_nomem(err);
    if (status == ESP_OK) {
        status = control_begin(table->store, ESP_KV_READ, &kv, err);
    }
    if (status == ESP_OK) {
        status = esp_catalog_definition(kv, t->name, &t->arena, &definition, err);
        if (status == ESP_OK) {
            status = esp_catalog_state_get(kv, t->name, &state, err);
        }
        status = control_end(kv, false, status, err);
    }
    if (status == ESP_OK) {
        status = esp_schema_match(&table->schema, &definition.schema, err);
    }
    if (status == ESP_OK) {
        t->incarnation = state.incarnation;
        order_indexes(t, &definition.schema);
        t->same_attrs = esp_schema_same_attrs(&t->schema, t->view);
        status = bulk_table_new(t, &t->bulk, err);
    }
    if (status != ESP_OK) {
        esp_engine_table_close(table);
    }
    return status;
}

void esp_engine_table_close(struct esp_table *table) {
    struct engine_table *t = table->impl;
    if (t) {
        bulk_table_free(t->bulk);
        esp_arena_fini(&t->arena);
        esp_release(table->store->alloc, t, sizeof *t);
        table->impl = NULL;
    }
}

/* --- sessions ------------------------------------------------------------------- */

static void session_free(struct engine_session *e) {
    while (e) {
        struct engine_session *child = e->child;
        const struct esp_alloc *alloc = e->table->engine->alloc;
        bulk_session_free(e->bulk);
        e->table->engine->kv->ops->session_close(e->kv);
        esp_arena_fini(&e->arena);
        esp_arena_fini(&e->scratch);
        esp_buf_fini(&e->record);
        esp_buf_fini(&e->entry);
        esp_release(alloc, e, sizeof *e);
        e = child;
    }
}

static enum esp_status session_new(struct esp_session *base, struct engine_session **out,
                                   struct esp_error *err) {
    struct engine_table *t = base->table->impl;
    const struct esp_alloc *alloc = t->engine->alloc;
    struct engine_session *e = esp_calloc(alloc, 1, sizeof *e);
    if (!e) {
        return esp_fail_nomem(err);
    }
    e->base = base;
    e->table = t;
    esp_arena_init(&e->arena, alloc, ARENA_BYTES_MAX);
    esp_arena_init(&e->scratch, alloc, ARENA_BYTES_MAX);
    esp_buf_init(&e->record, alloc, RECORD_BYTES_MAX);
    esp_buf_init(&e->entry, alloc, RECORD_BYTES_MAX);
    enum esp_status status = t->engine->kv->ops->session_open(t->engine->kv, &e->kv, err);
    if (status != ESP_OK) {
        session_free(e);
        return status;
    }
    *out = e;
    return ESP_OK;
}

enum esp_status esp_engine_session_open(struct esp_session *session, struct esp_error *err) {
    struct engine_session *e = NULL; /* set when the status is ESP_OK */
    enum esp_status status = session_new(session, &e, err);
    session->impl = status == ESP_OK ? e : NULL;
    return status;
}

void esp_engine_session_close(struct esp_session *session) {
    session_free(session->impl);
    session->impl = NULL;
}

enum esp_status engine_enter(struct esp_session *session, struct engine_session **out,
                             struct esp_error *err) {
    struct engine_session *e = session->impl;
    while (e->busy) {
        if (e->trial != ENGINE_NO_TRIAL) {
            return esp_fail(err, ESP_ERR_UNSUPPORTED,
                            "a callback cannot make requests of its own in a trial");
        }
        if (!e->child) {
            enum esp_status status = session_new(session, &e->child, err);
            if (status != ESP_OK) {
                return status;
            }
        }
        e = e->child;
    }
    e->busy = true;
    *out = e;
    return ESP_OK;
}

enum esp_status engine_begin(struct engine_session *e, enum esp_kv_mode mode,
                             struct esp_error *err) {
    const struct esp_kv_ops *ops = e->kv->kv->ops;
    if (e->trial != ENGINE_NO_TRIAL) {
        return e->trial == ENGINE_TRIAL
                   ? ESP_OK
                   : esp_fail(err, ESP_ERR_IO, "an earlier failure has ended the trial");
    }
    for (;;) {
        enum esp_status status = ops->begin(e->kv, mode, err);
        if (status != ESP_OK) {
            return status;
        }
        uint64_t version = ops->version(e->kv);
        if (mode != ESP_KV_READ || !e->state_known || e->version != version) {
            e->state_known = false;
            status = esp_catalog_state_get(e->kv, e->table->name, &e->state, err);
            if (status == ESP_OK && e->state.incarnation != e->table->incarnation) {
                status = esp_fail(err, ESP_ERR_NOT_FOUND,
                                  "the table %.*s was replaced meanwhile: open it again",
                                  ESP_FMT(e->table->name));
            }
            if (status != ESP_OK) {
                ops->end(e->kv);
                return status;
            }
        }
        if (ops->tree_ready(e->kv, e->state.tree)) {
            e->state_known = mode == ESP_KV_READ; /* a write changes it */
            e->version = version;
            return ESP_OK;
        }
        ops->end(e->kv);
        status = ops->tree_open(e->kv, e->state.tree, err);
        if (status != ESP_OK) {
            return status;
        }
    }
}

enum esp_status engine_commit(struct engine_session *e, struct esp_error *err) {
    const struct esp_kv_ops *ops = e->kv->kv->ops;
    if (e->trial != ENGINE_NO_TRIAL) {
        return ESP_OK;
    }
    enum esp_status status = esp_catalog_state_put(e->kv, e->table->name, &e->state, err);
    if (status == ESP_OK) {
        return ops->commit(e->kv, err);
    }
    ops->end(e->kv);
    return status;
}

/* --- requests ------------------------------------------------------------------- */

enum esp_status engine_recast_in(const struct engine_table *t, const struct esp_item *item,
                                 struct esp_arena *arena, struct esp_item *out,
                                 struct esp_error *err) {
    return esp_item_recast(t->view, &t->schema, item, arena, out, err);
}

enum esp_status engine_item_in(struct engine_session *e, const struct esp_item *item,
                               struct esp_item *store, const struct esp_item **out,
                               struct esp_error *err) {
    if (__builtin_expect(e->table->same_attrs, 1)) {
        *out = item;
        return ESP_OK;
    }
    *out = store;
    return engine_recast_in(e->table, item, &e->arena, store, err);
}

static bool key_fits(const struct esp_schema *schema, const struct esp_item *item, int position,
                     size_t bytes_max) {
    const struct esp_value *value = &item->value[position];
    return value->type == schema->attr[position].type &&
           (value->type == ESP_TYPE_N || (value->s.len > 0 && value->s.len <= bytes_max));
}

enum esp_status engine_check_key(const struct engine_table *t, const struct esp_item *item,
                                 struct esp_error *err) {
    const struct esp_schema *schema = &t->schema;
    if (__builtin_expect(
            key_fits(schema, item, schema->pk, ESP_PK_BYTES_MAX) &&
                (schema->sk < 0 || key_fits(schema, item, schema->sk, ESP_SK_BYTES_MAX)),
            1)) {
        return ESP_OK;
    }
    struct esp_item key; /* only to have the sentence said by who says it everywhere */
    memset(&key, 0, sizeof key);
    key.value[schema->pk] = item->value[schema->pk];
    if (schema->sk >= 0) {
        key.value[schema->sk] = item->value[schema->sk];
    }
    enum esp_status status = esp_item_check(schema, &key, err);
    return status == ESP_OK ? esp_fail(err, ESP_ERR_REFUSED, "the key is not valid") : status;
}

bool engine_has_duplicate(const struct esp_str *keys, size_t n) {
    enum { SLOTS = 256 }; /* requests have 100 keys at most */
    uint8_t slots[SLOTS] = {0};
    for (size_t i = 0; i < n; i++) {
        size_t slot = esp_hash64(keys[i].ptr, keys[i].len, 0) % SLOTS;
        while (slots[slot]) {
            if (esp_str_eq(keys[slots[slot] - 1], keys[i])) {
                return true;
            }
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = (uint8_t)(i + 1);
    }
    return false;
}

static bool is_write(const struct esp_request *r) {
    return r->kind == ESP_REQ_WRITE || r->kind == ESP_REQ_TRANSACT;
}

/* A request that was refused has changed nothing, so a trial goes on; one that failed may have. */
static void end_transaction(struct engine_session *e, enum esp_status status) {
    if (e->trial == ENGINE_TRIAL && status == ESP_OK) {
        return;
    }
    if (e->trial == ENGINE_TRIAL) {
        e->trial = ENGINE_TRIAL_LOST;
    }
    e->kv->kv->ops->end(e->kv);
}

enum esp_status esp_engine_trial_begin(struct esp_session *session, struct esp_error *err) {
    struct engine_session *e = session->impl;
    enum esp_status status = engine_begin(e, ESP_KV_WRITE, err);
    if (status == ESP_OK) {
        e->trial = ENGINE_TRIAL;
    }
    return status;
}

enum esp_status esp_engine_trial_end(struct esp_session *session, bool keep,
                                     struct esp_error *err) {
    struct engine_session *e = session->impl;
    enum engine_trial trial = e->trial;
    e->trial = ENGINE_NO_TRIAL;
    if (trial == ENGINE_TRIAL && keep) {
        return engine_commit(e, err);
    }
    e->kv->kv->ops->end(e->kv);
    return trial == ENGINE_TRIAL || !keep
               ? ESP_OK
               : esp_fail(err, ESP_ERR_IO, "an earlier failure has ended the trial");
}

static enum esp_status execute_reads(struct engine_session *e, struct esp_request *requests,
                                     size_t n, struct esp_error *err) {
    enum esp_status status = engine_begin(e, ESP_KV_READ, err);
    if (status != ESP_OK) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        e->base->usage.requests++;
        engine_read(e, &requests[i]);
        esp_arena_reset(&e->arena);
    }
    end_transaction(e, ESP_OK);
    return ESP_OK;
}

/* Writes given at once share one commit; each is whole in itself. */
static enum esp_status execute_writes(struct engine_session *e, struct esp_request *requests,
                                      size_t n, struct esp_error *err) {
    struct esp_usage before = e->base->usage;
    bool changed = false;
    enum esp_status status = engine_begin(e, ESP_KV_WRITE, err);
    if (status != ESP_OK) {
        return status;
    }
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        e->base->usage.requests++;
        status = engine_write(e, &requests[i], &changed, err);
        esp_arena_reset(&e->arena);
    }
    if (status == ESP_OK && changed) {
        status = engine_commit(e, err);
    } else {
        end_transaction(e, status);
    }
    if (status != ESP_OK) { /* nothing of it was done */
        uint64_t tried = e->base->usage.requests;
        e->base->usage = before;
        e->base->usage.requests = tried;
    }
    return status;
}

enum esp_status esp_engine_execute(struct esp_session *session, struct esp_request *requests,
                                   size_t n, struct esp_error *err) {
    struct engine_session *e = NULL;
    enum esp_status status = engine_enter(session, &e, err);
    if (status != ESP_OK) {
        return status;
    }
    for (size_t i = 0, count; i < n && status == ESP_OK; i += count) {
        bool writes = is_write(&requests[i]);
        for (count = 1; i + count < n && is_write(&requests[i + count]) == writes; count++) {
        }
        status = writes ? execute_writes(e, requests + i, count, err)
                        : execute_reads(e, requests + i, count, err);
    }
    engine_leave(e);
    return status;
}
