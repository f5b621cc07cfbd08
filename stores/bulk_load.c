#include "stores/bulk_load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "stores/bulk_run.h"
#include "stores/engine.h"
#include "stores/engine_session.h"

enum {
    MEMORY_BYTES = 448 << 20, /* of the runs of a table; above it they are spilled */
    SPILL_PART_MIN = 16,      /* no run below this part of the limit is spilled */
    COMMIT_BYTES = 32 << 20,  /* of a load; the next part gets a commit of its own */
    RECORD_BYTES_MAX = 64 << 20,
    WAIT_SLICE_MS = 20,
    STALLED_SLICES = 50,   /* others that put nothing for so long are not waited for */
    PAIRS_PER_LOOK = 1024, /* loaded between two looks at the session's `stop` */
    PUTS_PER_SHOW = 256    /* metered between two additions to the session's usage */
};

/* Runs that are loaded together, and how that ended.  Freed by the last who waits for it. */
struct bulk_batch {
    unsigned users;
    struct bulk_run *runs;
    bool done;
    enum esp_status status;
    struct esp_error error;
};

struct bulk_table {
    struct engine_table *table;
    const struct esp_alloc *alloc;
    pthread_mutex_t lock; /* of everything below but `memory` */
    pthread_cond_t changed;
    struct bulk_session *active;  /* sessions with puts that are not flushed */
    struct bulk_batch *gathering; /* flushed, not yet being loaded; NULL: nothing */
    bool loading;
    uint64_t next_run;
    atomic_size_t memory; /* bytes of all runs */
    size_t limit, commit_bytes;
};

/* Of one thread, but for `puts`, `sorting` and, under the table's lock, the links. */
struct bulk_session {
    struct bulk_table *bulk;
    struct bulk_session *previous, *next;
    bool active;
    pthread_t thread;
    atomic_ullong puts;       /* ever */
    atomic_bool sorting;      /* or spilling: no puts, but at work */
    uint64_t pending;         /* since the last flush */
    struct esp_usage metered; /* of those; the session's usage shows them already */
    struct esp_usage fresh;   /* of the latest of those, which it does not show yet */
    struct bulk_run *run;     /* being filled */
    size_t counted;           /* bytes of it in bulk->memory */
    struct bulk_run *spilled; /* full ones */
    struct esp_arena arena;
    struct esp_buf record, entry;
    struct esp_key key;
};

/* --- tables and sessions -------------------------------------------------------- */

enum esp_status bulk_table_new(struct engine_table *table, struct bulk_table **out,
                               struct esp_error *err) {
    const struct esp_alloc *alloc = table->engine->alloc;
    struct bulk_table *b = esp_calloc(alloc, 1, sizeof *b);
    pthread_condattr_t attr;
    *out = b;
    if (!b) {
        return esp_fail_nomem(err);
    }
    b->table = table;
    b->alloc = alloc;
    b->limit = MEMORY_BYTES;
    b->commit_bytes = COMMIT_BYTES;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&b->changed, &attr);
    pthread_condattr_destroy(&attr);
    return ESP_OK;
}

void bulk_table_free(struct bulk_table *b) {
    if (b) {
        pthread_mutex_destroy(&b->lock);
        pthread_cond_destroy(&b->changed);
        esp_release(b->alloc, b, sizeof *b);
    }
}

void esp_bulk_limit(struct esp_table *table, size_t memory_bytes, size_t commit_bytes) {
    struct engine_table *t = table->impl;
    t->bulk->limit = memory_bytes;
    t->bulk->commit_bytes = commit_bytes;
}

static struct bulk_session *session_new(struct bulk_table *bulk) {
    struct bulk_session *s = esp_calloc(bulk->alloc, 1, sizeof *s);
    if (s) {
        s->bulk = bulk;
        esp_arena_init(&s->arena, bulk->alloc, RECORD_BYTES_MAX);
        esp_buf_init(&s->record, bulk->alloc, RECORD_BYTES_MAX);
        esp_buf_init(&s->entry, bulk->alloc, RECORD_BYTES_MAX);
    }
    return s;
}

static void free_runs(struct bulk_run *run) {
    while (run) {
        struct bulk_run *next = run->next;
        bulk_run_free(run);
        run = next;
    }
}

/* It has puts that are not flushed, or it has none any more.  With the lock held. */
static void set_active(struct bulk_session *s, bool active) {
    struct bulk_table *b = s->bulk;
    if (active == s->active) {
        return;
    }
    s->active = active;
    if (active) {
        s->thread = pthread_self();
        s->previous = NULL;
        s->next = b->active;
        if (s->next) {
            s->next->previous = s;
        }
        b->active = s;
        return;
    }
    if (s->next) {
        s->next->previous = s->previous;
    }
    if (s->previous) {
        s->previous->next = s->next;
    } else {
        b->active = s->next;
    }
    pthread_cond_broadcast(&b->changed);
}

/* Keep the sum of memory in step with the session's run. */
static void count_memory(struct bulk_session *s) {
    size_t bytes = s->run ? s->run->bytes : 0;
    if (bytes != s->counted) {
        atomic_fetch_add(&s->bulk->memory, bytes - s->counted); /* wraps as it should */
        s->counted = bytes;
    }
}

/* What was metered of the pending puts, to the session's usage. */
static void show_metered(struct bulk_session *s, struct esp_usage *usage) {
    esp_usage_add(usage, &s->fresh);
    esp_usage_add(&s->metered, &s->fresh);
    memset(&s->fresh, 0, sizeof s->fresh);
}

/* The pending puts have come to nothing: nor do they cost. */
static void take_back_metered(struct bulk_session *s, struct esp_usage *usage) {
    const struct esp_usage *m = &s->metered;
    usage->items_written -= m->items_written;
    usage->bytes_written -= m->bytes_written;
    usage->index_bytes_written -= m->index_bytes_written;
    usage->write.table -= m->write.table;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        usage->write.index[i] -= m->write.index[i];
    }
}

static void drop_puts(struct bulk_session *s) {
    bulk_run_free(s->run);
    s->run = NULL;
    count_memory(s);
    free_runs(s->spilled);
    s->spilled = NULL;
    s->pending = 0;
    pthread_mutex_lock(&s->bulk->lock);
    set_active(s, false);
    pthread_mutex_unlock(&s->bulk->lock);
}

void bulk_session_free(struct bulk_session *s) {
    if (s) {
        drop_puts(s);
        esp_arena_fini(&s->arena);
        esp_buf_fini(&s->record);
        esp_buf_fini(&s->entry);
        esp_release(s->bulk->alloc, s, sizeof *s);
    }
}

/* --- putting -------------------------------------------------------------------- */

static enum esp_status begin_run(struct bulk_session *s, struct esp_error *err) {
    struct bulk_table *b = s->bulk;
    pthread_mutex_lock(&b->lock);
    uint64_t number = b->next_run++;
    set_active(s, true);
    pthread_mutex_unlock(&b->lock);
    s->run = bulk_run_new(b->alloc, 1 + (unsigned)b->table->schema.index_count, number);
    return s->run ? ESP_OK : esp_fail_nomem(err);
}

static enum esp_status put_entries(struct bulk_session *s, const struct esp_item *item,
                                   uint32_t ref, struct esp_error *err) {
    const struct engine_table *t = s->bulk->table;
    enum esp_status status = ESP_OK;
    for (int i = 0; i < (int)t->schema.index_count && status == ESP_OK; i++) {
        const struct esp_index *index = &t->schema.index[i];
        struct esp_str record = {0};
        struct esp_item part;
        if (!esp_key_of_entry(&t->schema, i, engine_key_tree(t, i), item, &s->key)) {
            continue;
        }
        if (index->projection != ESP_PROJECT_ALL) {
            status = esp_item_project(&t->schema, index, item, &s->arena, &part, err);
            if (status != ESP_OK) {
                return status;
            }
            esp_buf_reset(&s->entry);
            esp_record_put(&s->entry, &t->schema, &part, esp_entry_size(&t->schema, index, item));
            if (s->entry.failed) {
                return esp_fail_nomem(err);
            }
            record = esp_buf_str(&s->entry);
        }
        /* lists follow the definition, as the numbers in keys do */
        status = bulk_run_put_entry(s->run, engine_key_tree(t, i), esp_key_str(&s->key), record,
                                    ref, err);
    }
    return status;
}

static enum esp_status put_item(struct bulk_session *s, const struct esp_item *item,
                                struct esp_error *err) {
    const struct esp_schema *schema = &s->bulk->table->schema;
    uint32_t ref;
    esp_buf_reset(&s->record);
    esp_record_put(&s->record, schema, item, esp_item_size(schema, item));
    if (s->record.failed) {
        return esp_fail_nomem(err);
    }
    esp_key_of_item(schema, item, &s->key);
    enum esp_status status =
        bulk_run_put(s->run, esp_key_str(&s->key), esp_buf_str(&s->record), &ref, err);
    if (status == ESP_OK) {
        status = put_entries(s, item, ref, err);
        if (status != ESP_OK) {
            bulk_run_drop_last(s->run, ref);
        }
    }
    return status;
}

/* Memory is short: the session's run goes to a file, unless it is too small to help. */
static enum esp_status spill_if_full(struct bulk_session *s, struct esp_error *err) {
    struct bulk_table *b = s->bulk;
    if (atomic_load(&b->memory) <= b->limit || s->run->bytes < b->limit / SPILL_PART_MIN) {
        return ESP_OK;
    }
    struct esp_kv *kv = b->table->engine->kv;
    atomic_store(&s->sorting, true);
    enum esp_status status = bulk_run_sort(s->run, err);
    if (status == ESP_OK) {
        status = bulk_run_spill(s->run, kv->ops->spill_folder(kv), err);
    }
    atomic_store(&s->sorting, false);
    if (status == ESP_OK) {
        count_memory(s);
        s->run->next = s->spilled;
        s->spilled = s->run;
        s->run = NULL;
        s->counted = 0;
    }
    return status;
}

static void refuse(struct esp_session *session, const struct esp_item *item,
                   const struct esp_error *why) {
    session->bulk.refused++;
    if (session->on_refused) {
        session->on_refused(session->on_refused_ctx, item, why);
    }
}

enum esp_status esp_engine_bulk_put(struct esp_session *session, const struct esp_item *item,
                                    struct esp_error *err) {
    struct engine_session *e = session->impl;
    struct engine_table *t = e->table;
    struct esp_item recast;
    const struct esp_item *stored = item;
    struct esp_error why = ESP_ERROR_INIT;
    if (!e->bulk && !(e->bulk = session_new(t->bulk))) {
        return esp_fail_nomem(err);
    }
    struct bulk_session *s = e->bulk;
    if (!t->same_attrs) {
        enum esp_status status = engine_recast_in(t, item, &s->arena, &recast, err);
        if (status != ESP_OK) {
            return status;
        }
        stored = &recast;
    }
    if (__builtin_expect(esp_item_check(&t->schema, stored, &why) != ESP_OK, 0)) {
        refuse(session, item, &why);
        return ESP_OK;
    }
    enum esp_status status = s->run ? ESP_OK : begin_run(s, err);
    if (status == ESP_OK) {
        status = put_item(s, stored, err);
    }
    if (s->arena.used_bytes) {
        esp_arena_reset(&s->arena);
    }
    if (status != ESP_OK) {
        return status;
    }
    s->pending++;
    atomic_fetch_add_explicit(&s->puts, 1, memory_order_relaxed);
    esp_meter_write(&t->schema, NULL, stored, false, &s->fresh);
    if (s->fresh.items_written == PUTS_PER_SHOW) {
        show_metered(s, &session->usage);
    }
    count_memory(s);
    return spill_if_full(s, err);
}

/* --- loading -------------------------------------------------------------------- */

struct load {
    struct engine_session *e;
    const struct esp_kv_ops *ops;
    struct bulk_run *runs;
    uint32_t tree;
    bool in_parts;                /* commit now and then: nobody sees the tree yet */
    uint64_t bytes;               /* since the last commit */
    struct esp_table_state state; /* what was loaded */
    struct bulk_pair held;        /* the last item, not yet loaded */
    struct esp_buf held_bytes;    /* its key and record, if they would not last */
    bool holding;
    unsigned unlooked; /* pairs since the last look at `stop` */
    uint64_t *dead;    /* puts that a later one of the same key replaced */
    size_t dead_count, dead_cap;
    struct esp_error *err;
};

static enum esp_status hold(struct load *l, const struct bulk_pair *pair) {
    l->held = *pair;
    l->holding = true;
    if (pair->lasting) {
        return ESP_OK;
    }
    esp_buf_reset(&l->held_bytes);
    esp_buf_put_str(&l->held_bytes, pair->key);
    esp_buf_put_str(&l->held_bytes, pair->record);
    if (l->held_bytes.failed) {
        return esp_fail_nomem(l->err);
    }
    l->held.key.ptr = l->held_bytes.ptr;
    l->held.record.ptr = l->held_bytes.ptr + pair->key.len;
    return ESP_OK;
}

/* Nothing is in the table yet when a load into an empty one ends here. */
static enum esp_status look_at_stop(struct load *l) {
    if (++l->unlooked < PAIRS_PER_LOOK) {
        return ESP_OK;
    }
    l->unlooked = 0;
    return esp_session_check(l->e->base, l->err);
}

/* It was metered as a put of something new; it replaces `old`. */
static void meter_replacement(struct load *l, struct esp_str old, struct esp_str record) {
    const struct esp_schema *schema = &l->e->table->schema;
    struct esp_usage is = {0}, was = {0}, *usage = &l->e->base->usage;
    struct esp_item before, after;
    esp_record_view(schema, old, &before);
    esp_record_view(schema, record, &after);
    esp_meter_write(schema, &before, &after, false, &is);
    esp_meter_write(schema, NULL, &after, false, &was);
    usage->write.table += is.write.table - was.write.table;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        usage->write.index[i] += is.write.index[i] - was.write.index[i];
    }
    usage->index_bytes_written += is.index_bytes_written - was.index_bytes_written;
}

static enum esp_status note_dead(struct load *l) {
    if (l->dead_count == l->dead_cap) {
        size_t cap = l->dead_cap ? 2 * l->dead_cap : 256;
        uint64_t *dead = esp_resize(l->e->table->engine->alloc, l->dead, l->dead_cap * sizeof *dead,
                                    cap * sizeof *dead);
        if (!dead) {
            return esp_fail_nomem(l->err);
        }
        l->dead = dead;
        l->dead_cap = cap;
    }
    l->dead[l->dead_count++] = l->held.sequence;
    return ESP_OK;
}

static int compare_sequences(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static bool is_dead(const struct load *l, uint64_t sequence) {
    return l->dead_count &&
           bsearch(&sequence, l->dead, l->dead_count, sizeof *l->dead, compare_sequences) != NULL;
}

static enum esp_status append(struct load *l, struct esp_str key, struct esp_str record) {
    struct esp_kv_session *kv = l->e->kv;
    enum esp_status status = look_at_stop(l);
    if (status != ESP_OK) {
        return status;
    }
    if (l->in_parts && l->bytes >= l->e->table->bulk->commit_bytes) {
        status = l->ops->commit(kv, l->err);
        if (status == ESP_OK) {
            status = l->ops->begin(kv, ESP_KV_WRITE, l->err);
        }
        if (status != ESP_OK) {
            return status;
        }
        l->bytes = 0;
    }
    l->bytes += key.len + record.len;
    return l->ops->append(kv, l->tree, key, record, l->err);
}

/* Each key's last put; `use` loads the one that is held. */
static enum esp_status for_each_item(struct load *l, enum esp_status (*use)(struct load *l)) {
    struct bulk_merge *merge;
    struct bulk_pair pair;
    enum esp_status status = bulk_merge_new(l->runs, 0, l->e->table->engine->alloc, &merge, l->err);
    l->holding = false;
    while (status == ESP_OK && (status = bulk_merge_next(merge, &pair, l->err)) == ESP_OK) {
        if (l->holding && esp_str_eq(l->held.key, pair.key)) {
            meter_replacement(l, l->held.record, pair.record);
            status = note_dead(l);
        } else if (l->holding) {
            status = use(l);
        }
        if (status == ESP_OK) {
            status = hold(l, &pair);
        }
    }
    if (status == ESP_STOP) {
        status = l->holding ? use(l) : ESP_OK;
    }
    bulk_merge_free(merge);
    return status;
}

static enum esp_status append_item(struct load *l) {
    l->state.items++;
    l->state.item_bytes += esp_record_size(l->held.record);
    return append(l, l->held.key, l->held.record);
}

static enum esp_status append_entries(struct load *l, unsigned list) {
    struct bulk_merge *merge;
    struct bulk_pair pair;
    enum esp_status status =
        bulk_merge_new(l->runs, list, l->e->table->engine->alloc, &merge, l->err);
    while (status == ESP_OK && (status = bulk_merge_next(merge, &pair, l->err)) == ESP_OK) {
        if (is_dead(l, pair.sequence)) {
            continue;
        }
        l->state.entries[list - 1]++;
        l->state.entry_bytes[list - 1] += esp_record_size(pair.record);
        status = append(l, pair.key, pair.record);
    }
    bulk_merge_free(merge);
    return status == ESP_STOP ? ESP_OK : status;
}

/* Everything, in key order, into a tree that is empty.  A write transaction is open
 * before and after; not after a failed commit. */
static enum esp_status append_all(struct load *l) {
    enum esp_status status = for_each_item(l, append_item);
    if (l->dead_count) {
        qsort(l->dead, l->dead_count, sizeof *l->dead, compare_sequences);
    }
    for (unsigned i = 1; i <= l->e->table->schema.index_count && status == ESP_OK; i++) {
        status = append_entries(l, i);
    }
    return status;
}

static void take_state(struct load *l) {
    struct esp_table_state *to = &l->e->state;
    to->items = l->state.items;
    to->item_bytes = l->state.item_bytes;
    memcpy(to->entries, l->state.entries, sizeof to->entries);
    memcpy(to->entry_bytes, l->state.entry_bytes, sizeof to->entry_bytes);
}

/* Little enough for one commit: straight into the table's own tree. */
static enum esp_status append_to_table(struct load *l) {
    l->tree = l->e->state.tree;
    enum esp_status status = append_all(l);
    if (status != ESP_OK) {
        l->ops->end(l->e->kv);
        return status;
    }
    take_state(l);
    return engine_commit(l->e, l->err);
}

/* --- upserts -------------------------------------------------------------------- */

/* Put a record where another may be, in the open transaction. */
static enum esp_status upsert(struct engine_session *e, struct esp_str key, struct esp_str record,
                              struct esp_str *old_record, struct esp_error *err) {
    struct engine_image old, new_image = {.record = record};
    bool had;
    *old_record = (struct esp_str){0};
    enum esp_status status = engine_load(e, key, &old, &had, err);
    if (status != ESP_OK) {
        return status;
    }
    if (had) { /* the writes to come may move it */
        old.record = esp_arena_dup(&e->arena, old.record);
        if (!old.record.ptr) {
            return esp_fail_nomem(err);
        }
        esp_record_view(&e->table->schema, old.record, &old.item);
        *old_record = old.record;
    }
    esp_record_view(&e->table->schema, record, &new_image.item);
    return engine_replace(e, key, had ? &old : NULL, &new_image, err);
}

static enum esp_status upsert_held(struct load *l) {
    struct engine_session *e = l->e;
    struct esp_str old;
    enum esp_status status = look_at_stop(l);
    if (status != ESP_OK) {
        return status;
    }
    if (l->bytes >= l->e->table->bulk->commit_bytes) {
        status = engine_commit(e, l->err);
        if (status == ESP_OK) {
            status = engine_begin(e, ESP_KV_WRITE, l->err);
        }
        if (status != ESP_OK) {
            return status;
        }
        l->bytes = 0;
    }
    l->bytes += l->held.key.len + l->held.record.len;
    status = upsert(e, l->held.key, l->held.record, &old, l->err);
    if (status == ESP_OK && old.len) {
        meter_replacement(l, old, l->held.record);
    }
    esp_arena_reset(&e->arena);
    return status;
}

static enum esp_status upsert_all(struct load *l) {
    enum esp_status status = for_each_item(l, upsert_held);
    if (status == ESP_OK) {
        return engine_commit(l->e, l->err);
    }
    l->ops->end(l->e->kv);
    return status;
}

/* --- a fresh tree --------------------------------------------------------------- */

static enum esp_status begin_tree(struct load *l) {
    struct esp_kv_session *kv = l->e->kv;
    enum esp_status status = l->ops->begin(kv, ESP_KV_DEFINE, l->err);
    if (status != ESP_OK) {
        return status;
    }
    status = esp_catalog_tree_begin(kv, &l->tree, l->err);
    if (status == ESP_OK && !l->ops->claim(kv, l->tree)) {
        status = esp_fail(l->err, ESP_ERR_INTERNAL, "a free tree is being loaded by another");
    }
    if (status != ESP_OK) {
        l->ops->end(kv);
        return status;
    }
    status = l->ops->commit(kv, l->err);
    if (status != ESP_OK) {
        l->ops->unclaim(kv, l->tree);
    }
    return status;
}

/* Take back what could not be finished.  If even this fails, the next open does it. */
static void abandon_tree(struct load *l) {
    struct esp_kv_session *kv = l->e->kv;
    l->ops->end(kv);
    if (l->ops->begin(kv, ESP_KV_WRITE, NULL) == ESP_OK) {
        if (!l->ops->tree_ready(kv, l->tree) ||
            esp_catalog_tree_free(kv, l->tree, NULL) != ESP_OK ||
            l->ops->commit(kv, NULL) != ESP_OK) {
            l->ops->end(kv);
        }
    }
    l->ops->unclaim(kv, l->tree);
}

/* Somebody wrote to the table since we looked: those items go on top of what was loaded. */
static enum esp_status move_items(struct load *l, uint32_t from) {
    struct engine_session *e = l->e;
    struct esp_key at = {.len = 1, .bytes = {0}};
    struct esp_str key, record, old;
    enum esp_status status;
    while ((status = l->ops->look(e->kv, from, ESP_KV_AT_OR_AFTER, esp_key_str(&at), &key, &record,
                                  l->err)) == ESP_OK) {
        if (key.ptr[0] != 0) {
            return ESP_OK; /* entries: they follow from the items */
        }
        memcpy(at.bytes, key.ptr, key.len);
        at.len = key.len;
        record = esp_arena_dup(&e->arena, record);
        if (!record.ptr) {
            return esp_fail_nomem(l->err);
        }
        status = upsert(e, esp_key_str(&at), record, &old, l->err);
        if (status != ESP_OK) {
            return status;
        }
        esp_key_step(&at);
        esp_arena_reset(&e->arena);
    }
    return status == ESP_STOP ? ESP_OK : status;
}

/* The fresh tree becomes the table's: from here on it is all there. */
static enum esp_status finish_tree(struct load *l) {
    struct engine_session *e = l->e;
    enum esp_status status = l->ops->commit(e->kv, l->err);
    if (status == ESP_OK) {
        status = engine_begin(e, ESP_KV_WRITE, l->err);
    }
    if (status != ESP_OK) {
        return status;
    }
    struct esp_table_state old = e->state;
    e->state.tree = l->tree;
    take_state(l);
    if (old.items) {
        status = move_items(l, old.tree);
    }
    if (status == ESP_OK) {
        status = esp_catalog_tree_free(e->kv, old.tree, l->err);
    }
    if (status == ESP_OK) {
        status = esp_catalog_tree_done(e->kv, l->tree, l->err);
    }
    return status == ESP_OK ? engine_commit(e, l->err) : status;
}

static enum esp_status build_tree(struct load *l) {
    enum esp_status status = begin_tree(l);
    if (status != ESP_OK) {
        return status;
    }
    l->in_parts = true;
    status = l->ops->begin(l->e->kv, ESP_KV_WRITE, l->err);
    if (status == ESP_OK) {
        status = append_all(l);
    }
    if (status == ESP_OK) {
        status = finish_tree(l);
    }
    if (status != ESP_OK) {
        abandon_tree(l);
        return status;
    }
    l->ops->unclaim(l->e->kv, l->tree);
    return ESP_OK;
}

static uint64_t bytes_of(const struct bulk_run *run) {
    uint64_t bytes = 0;
    for (; run; run = run->next) {
        bytes += run->fd >= 0 ? run->list[run->list_count - 1].file_end : run->bytes;
    }
    return bytes;
}

static enum esp_status load_runs(struct engine_session *e, struct bulk_run *runs,
                                 struct esp_error *err) {
    struct load l = {.e = e, .ops = e->kv->kv->ops, .runs = runs, .err = err};
    struct esp_usage usage = e->base->usage;
    esp_buf_init(&l.held_bytes, e->table->engine->alloc, RECORD_BYTES_MAX);
    enum esp_status status = esp_session_check(e->base, err);
    if (status == ESP_OK) {
        status = engine_begin(e, ESP_KV_WRITE, err);
    }
    if (status == ESP_OK && e->state.items) {
        status = upsert_all(&l);
    } else if (status == ESP_OK && bytes_of(runs) <= e->table->bulk->commit_bytes) {
        status = append_to_table(&l);
    } else if (status == ESP_OK) {
        l.ops->end(e->kv);
        status = build_tree(&l);
    }
    if (status != ESP_OK) {
        e->base->usage = usage; /* corrections of what did not happen */
    }
    esp_arena_reset(&e->arena);
    esp_buf_fini(&l.held_bytes);
    esp_release(e->table->engine->alloc, l.dead, l.dead_cap * sizeof *l.dead);
    return status;
}

/* --- flushing ------------------------------------------------------------------- */

/* Give the session's runs to the batch that is gathering.  With the lock held. */
static struct bulk_batch *hand_over(struct bulk_session *s) {
    struct bulk_table *b = s->bulk;
    if (!b->gathering) {
        b->gathering = esp_calloc(b->alloc, 1, sizeof *b->gathering);
        if (!b->gathering) {
            return NULL;
        }
    }
    struct bulk_run *runs = s->spilled;
    if (s->run) {
        s->run->next = runs;
        runs = s->run;
    }
    struct bulk_run **end = &b->gathering->runs;
    while (*end) {
        end = &(*end)->next;
    }
    *end = runs;
    b->gathering->users++;
    s->run = s->spilled = NULL;
    s->counted = 0; /* it is the batch's from here on */
    s->pending = 0;
    set_active(s, false);
    return b->gathering;
}

/* May the others still hand something over?  Then their number of puts, else 0. */
static uint64_t others_at_work(const struct bulk_table *b) {
    uint64_t puts = 0;
    for (const struct bulk_session *s = b->active; s; s = s->next) {
        if (!pthread_equal(s->thread, pthread_self())) {
            puts += atomic_load_explicit(&s->puts, memory_order_relaxed);
        }
    }
    return puts;
}

static bool others_sorting(const struct bulk_table *b) {
    for (const struct bulk_session *s = b->active; s; s = s->next) {
        if (atomic_load(&s->sorting)) {
            return true;
        }
    }
    return false;
}

static void wait_slice(struct bulk_table *b) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_SLICE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_cond_timedwait(&b->changed, &b->lock, &until);
}

/* Wait until the batch is loaded, or it falls to this thread to load it (true). */
static bool wait_for_turn(struct bulk_table *b, const struct bulk_batch *batch,
                          const struct esp_session *session) {
    uint64_t puts = 0;
    int stalled = 0;
    while (!batch->done) {
        uint64_t now = batch == b->gathering ? others_at_work(b) : 1;
        if (!b->loading && batch == b->gathering &&
            (now == 0 || stalled > STALLED_SLICES || esp_session_check(session, NULL) != ESP_OK)) {
            return true;
        }
        stalled = now == puts && !b->loading && !others_sorting(b) ? stalled + 1 : 0;
        puts = now;
        wait_slice(b);
    }
    return false;
}

static void load_batch(struct bulk_table *b, struct engine_session *e, struct bulk_batch *batch) {
    b->loading = true;
    b->gathering = NULL;
    pthread_mutex_unlock(&b->lock);
    struct esp_error error = ESP_ERROR_INIT;
    enum esp_status status = load_runs(e, batch->runs, &error);
    size_t bytes = 0;
    for (const struct bulk_run *run = batch->runs; run; run = run->next) {
        bytes += run->bytes;
    }
    free_runs(batch->runs);
    atomic_fetch_sub(&b->memory, bytes);
    pthread_mutex_lock(&b->lock);
    batch->status = status;
    batch->error = error;
    batch->done = true;
    b->loading = false;
    pthread_cond_broadcast(&b->changed);
}

static enum esp_status load_with_others(struct bulk_session *s, struct engine_session *e,
                                        struct esp_error *err) {
    struct bulk_table *b = s->bulk;
    pthread_mutex_lock(&b->lock);
    struct bulk_batch *batch = hand_over(s);
    if (!batch) {
        pthread_mutex_unlock(&b->lock);
        drop_puts(s);
        return esp_fail_nomem(err);
    }
    if (wait_for_turn(b, batch, e->base)) {
        load_batch(b, e, batch);
    }
    enum esp_status status = batch->status;
    if (status != ESP_OK) {
        esp_fail(err, status, "%s", batch->error.message);
    }
    if (--batch->users == 0) {
        esp_release(b->alloc, batch, sizeof *batch);
    }
    pthread_mutex_unlock(&b->lock);
    return status;
}

static enum esp_status sort_for_flush(struct bulk_session *s, struct esp_error *err) {
    atomic_store(&s->sorting, true);
    enum esp_status status = s->run ? bulk_run_sort(s->run, err) : ESP_OK;
    atomic_store(&s->sorting, false);
    return status;
}

enum esp_status esp_engine_bulk_flush(struct esp_session *session, struct esp_error *err) {
    struct engine_session *e = session->impl, *free_session;
    struct bulk_session *s = e->bulk;
    if (!s || !s->pending) {
        return ESP_OK;
    }
    uint64_t puts = s->pending;
    show_metered(s, &session->usage);
    enum esp_status status = esp_session_check(session, err);
    if (status == ESP_OK) {
        status = sort_for_flush(s, err);
    }
    if (status == ESP_OK) {
        status = engine_enter(session, &free_session, err);
    }
    if (status == ESP_OK) {
        count_memory(s);
        status = load_with_others(s, free_session, err);
        engine_leave(free_session);
    } else {
        drop_puts(s); /* they are counted as left */
    }
    if (status == ESP_OK) {
        session->bulk.written += puts;
    } else {
        take_back_metered(s, &session->usage);
    }
    memset(&s->metered, 0, sizeof s->metered);
    return status;
}
