/*
 * memory: tables in this process only.  Trees are ordered maps under one lock: many readers
 * or one writer.  A writer notes what it replaced, so that it can be taken back.  A thread
 * that writes while it reads (in a callback) would wait for itself: it is refused.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "stores/btree.h"
#include "stores/engine.h"

enum { TREES_MAX = 1 << 20 };

/* One step of the open write, to be taken back or to be forgotten. */
struct undo_step {
    struct esp_entry *old, *put; /* the entry there was, the one there is; NULL: none */
    struct esp_btree cleared;    /* when both are NULL: the contents of a cleared tree */
    uint32_t tree;
};

struct memory_kv {
    struct esp_kv base;
    pthread_rwlock_t lock;
    struct esp_btree *trees;
    size_t tree_count;
    uint64_t version;
    struct undo_step *steps; /* the writer's */
    size_t step_count, step_cap;
    pthread_mutex_t list_lock;
    struct memory_session *sessions; /* all there are; under list_lock */
};

struct memory_session {
    struct esp_kv_session base;
    struct memory_session *previous, *next;
    atomic_bool reading;
    _Atomic(pthread_t) reader; /* who reads, while `reading` */
    bool writing;
    struct esp_btree_place place;
};

static struct memory_kv *kv_of(struct esp_kv_session *s) {
    return (struct memory_kv *)(void *)s->kv;
}

static struct memory_session *own(struct esp_kv_session *s) {
    return (struct memory_session *)(void *)s;
}

static struct esp_btree *tree_of(struct esp_kv_session *s, uint32_t tree) {
    return &kv_of(s)->trees[tree];
}

/* --- sessions and transactions -------------------------------------------------- */

static enum esp_status session_open(struct esp_kv *kv, struct esp_kv_session **out,
                                    struct esp_error *err) {
    struct memory_session *s = esp_calloc(kv->alloc, 1, sizeof *s);
    if (!s) {
        return esp_fail_nomem(err);
    }
    struct memory_kv *own_kv = (struct memory_kv *)(void *)kv;
    s->base.kv = kv;
    pthread_mutex_lock(&own_kv->list_lock);
    s->next = own_kv->sessions;
    if (s->next) {
        s->next->previous = s;
    }
    own_kv->sessions = s;
    pthread_mutex_unlock(&own_kv->list_lock);
    *out = &s->base;
    return ESP_OK;
}

/* Does this thread read already, in whichever session? */
static bool thread_reads(struct memory_kv *kv) {
    bool reads = false;
    pthread_mutex_lock(&kv->list_lock);
    for (struct memory_session *s = kv->sessions; s && !reads; s = s->next) {
        reads = atomic_load(&s->reading) && pthread_equal(atomic_load(&s->reader), pthread_self());
    }
    pthread_mutex_unlock(&kv->list_lock);
    return reads;
}

static enum esp_status begin(struct esp_kv_session *s, enum esp_kv_mode mode,
                             struct esp_error *err) {
    if (mode == ESP_KV_READ) {
        if (pthread_rwlock_rdlock(&kv_of(s)->lock) != 0) {
            return esp_fail(err, ESP_ERR_LIMIT, "too many reads of the memory store at once");
        }
        atomic_store(&own(s)->reader, pthread_self());
        atomic_store(&own(s)->reading, true);
        return ESP_OK;
    }
    if (thread_reads(kv_of(s))) {
        return esp_fail(err, ESP_ERR_UNSUPPORTED,
                        "the memory store cannot write while the same thread reads from it");
    }
    pthread_rwlock_wrlock(&kv_of(s)->lock);
    own(s)->writing = true;
    return ESP_OK;
}

static void unlock(struct esp_kv_session *s) {
    atomic_store(&own(s)->reading, false);
    own(s)->writing = false;
    own(s)->place.leaf = NULL;
    pthread_rwlock_unlock(&kv_of(s)->lock);
}

static enum esp_status commit(struct esp_kv_session *s, struct esp_error *err) {
    struct memory_kv *kv = kv_of(s);
    (void)err;
    for (size_t i = 0; i < kv->step_count; i++) {
        esp_entry_free(kv->base.alloc, kv->steps[i].old);
        esp_btree_clear(&kv->steps[i].cleared, kv->base.alloc);
    }
    kv->step_count = 0;
    kv->version++;
    unlock(s);
    return ESP_OK;
}

/* Nothing here needs memory: what was removed has its place still. */
static void take_back(struct memory_kv *kv, struct undo_step *step) {
    struct esp_btree *tree = &kv->trees[step->tree];
    struct esp_entry *out = NULL;
    if (!step->old && !step->put) {
        esp_btree_clear(tree, kv->base.alloc);
        *tree = step->cleared;
    } else if (!step->old) {
        out = esp_btree_remove(tree, esp_entry_key(step->put));
    } else if (esp_btree_put(tree, kv->base.alloc, step->old, &out) != ESP_OK) {
        out = step->old; /* cannot happen */
    }
    esp_entry_free(kv->base.alloc, out);
}

static void end(struct esp_kv_session *s) {
    struct memory_kv *kv = kv_of(s);
    if (own(s)->writing) {
        while (kv->step_count) {
            take_back(kv, &kv->steps[--kv->step_count]);
        }
    }
    if (own(s)->writing || atomic_load(&own(s)->reading)) {
        unlock(s);
    }
}

static void session_close(struct esp_kv_session *s) {
    if (s) {
        struct memory_kv *kv = kv_of(s);
        end(s);
        pthread_mutex_lock(&kv->list_lock);
        if (own(s)->next) {
            own(s)->next->previous = own(s)->previous;
        }
        if (own(s)->previous) {
            own(s)->previous->next = own(s)->next;
        } else {
            kv->sessions = own(s)->next;
        }
        pthread_mutex_unlock(&kv->list_lock);
        esp_release(s->kv->alloc, own(s), sizeof(struct memory_session));
    }
}

static uint64_t version(struct esp_kv_session *s) {
    return kv_of(s)->version;
}

/* --- trees ---------------------------------------------------------------------- */

static bool tree_ready(struct esp_kv_session *s, uint32_t tree) {
    return tree < kv_of(s)->tree_count;
}

static enum esp_status tree_open(struct esp_kv_session *s, uint32_t tree, struct esp_error *err) {
    (void)s;
    return esp_fail(err, ESP_ERR_INTERNAL, "the memory store has no tree %u", tree);
}

static enum esp_status tree_create(struct esp_kv_session *s, uint32_t tree, struct esp_error *err) {
    struct memory_kv *kv = kv_of(s);
    if (tree < kv->tree_count) {
        return ESP_OK;
    }
    if (tree >= TREES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT, "the memory store has %d tables already", TREES_MAX);
    }
    struct esp_btree *trees = esp_resize(kv->base.alloc, kv->trees, kv->tree_count * sizeof *trees,
                                         ((size_t)tree + 1) * sizeof *trees);
    if (!trees) {
        return esp_fail_nomem(err);
    }
    memset(trees + kv->tree_count, 0, ((size_t)tree + 1 - kv->tree_count) * sizeof *trees);
    kv->trees = trees;
    kv->tree_count = (size_t)tree + 1;
    return ESP_OK;
}

/* Room for one more step; NULL when there is no memory. */
static struct undo_step *new_step(struct memory_kv *kv, uint32_t tree) {
    if (kv->step_count == kv->step_cap) {
        size_t cap = kv->step_cap ? 2 * kv->step_cap : 64;
        struct undo_step *steps = esp_resize(kv->base.alloc, kv->steps,
                                             kv->step_cap * sizeof *steps, cap * sizeof *steps);
        if (!steps) {
            return NULL;
        }
        kv->steps = steps;
        kv->step_cap = cap;
    }
    struct undo_step *step = &kv->steps[kv->step_count];
    memset(step, 0, sizeof *step);
    step->tree = tree;
    return step;
}

static enum esp_status tree_clear(struct esp_kv_session *s, uint32_t tree, struct esp_error *err) {
    struct undo_step *step = new_step(kv_of(s), tree);
    if (!step) {
        return esp_fail_nomem(err);
    }
    step->cleared = *tree_of(s, tree);
    *tree_of(s, tree) = (struct esp_btree){0};
    kv_of(s)->step_count++;
    return ESP_OK;
}

/* --- entries -------------------------------------------------------------------- */

static enum esp_status get(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_str *value, struct esp_error *err) {
    (void)err;
    const struct esp_entry *entry = esp_btree_find(tree_of(s, tree), key);
    if (!entry) {
        return ESP_ERR_NOT_FOUND;
    }
    *value = esp_entry_value(entry);
    return ESP_OK;
}

static enum esp_status put(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_str value, struct esp_error *err) {
    const struct esp_alloc *alloc = s->kv->alloc;
    struct undo_step *step = new_step(kv_of(s), tree);
    struct esp_entry *entry = step ? esp_entry_new(alloc, key, value) : NULL;
    if (!entry || esp_btree_put(tree_of(s, tree), alloc, entry, &step->old) != ESP_OK) {
        esp_entry_free(alloc, entry);
        return esp_fail_nomem(err);
    }
    step->put = entry;
    kv_of(s)->step_count++;
    return ESP_OK;
}

static enum esp_status del(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_error *err) {
    struct undo_step *step = new_step(kv_of(s), tree);
    if (!step) {
        return esp_fail_nomem(err);
    }
    step->old = esp_btree_remove(tree_of(s, tree), key);
    kv_of(s)->step_count += step->old != NULL;
    return ESP_OK;
}

static enum esp_status look(struct esp_kv_session *s, uint32_t tree, enum esp_kv_place place,
                            struct esp_str at, struct esp_str *key, struct esp_str *value,
                            struct esp_error *err) {
    (void)err;
    const struct esp_entry *entry = NULL;
    switch (place) {
    case ESP_KV_AT_OR_AFTER:
        entry = esp_btree_at_or_after(tree_of(s, tree), at, &own(s)->place);
        break;
    case ESP_KV_BEFORE:
        entry = esp_btree_before(tree_of(s, tree), at, &own(s)->place);
        break;
    case ESP_KV_NEXT:
        entry = esp_btree_next(&own(s)->place);
        break;
    case ESP_KV_PREVIOUS:
        entry = esp_btree_previous(&own(s)->place);
        break;
    }
    if (!entry) {
        return ESP_STOP;
    }
    *key = esp_entry_key(entry);
    *value = esp_entry_value(entry);
    return ESP_OK;
}

static bool claim(struct esp_kv_session *s, uint32_t tree) {
    (void)s, (void)tree;
    return true; /* nobody else can see it */
}

static void unclaim(struct esp_kv_session *s, uint32_t tree) {
    (void)s, (void)tree;
}

static const char *spill_folder(struct esp_kv *kv) {
    (void)kv;
    return NULL;
}

static const struct esp_kv_ops memory_ops = {
    .session_open = session_open,
    .session_close = session_close,
    .begin = begin,
    .commit = commit,
    .end = end,
    .version = version,
    .tree_ready = tree_ready,
    .tree_open = tree_open,
    .tree_create = tree_create,
    .tree_clear = tree_clear,
    .get = get,
    .put = put,
    .del = del,
    .append = put,
    .look = look,
    .claim = claim,
    .unclaim = unclaim,
    .spill_folder = spill_folder,
};

/* --- the store ------------------------------------------------------------------ */

static void kv_free(struct memory_kv *kv) {
    const struct esp_alloc *alloc = kv->base.alloc;
    for (size_t i = 0; i < kv->tree_count; i++) {
        esp_btree_clear(&kv->trees[i], alloc);
    }
    esp_release(alloc, kv->trees, kv->tree_count * sizeof *kv->trees);
    esp_release(alloc, kv->steps, kv->step_cap * sizeof *kv->steps);
    pthread_rwlock_destroy(&kv->lock);
    pthread_mutex_destroy(&kv->list_lock);
    esp_release(alloc, kv, sizeof *kv);
}

static enum esp_status open_store(struct esp_store *store, struct esp_error *err) {
    struct memory_kv *kv = esp_calloc(store->alloc, 1, sizeof *kv);
    if (!kv) {
        return esp_fail_nomem(err);
    }
    kv->base = (struct esp_kv){&memory_ops, store->alloc};
    kv->version = 1;
    pthread_rwlock_init(&kv->lock, NULL);
    pthread_mutex_init(&kv->list_lock, NULL);
    kv->trees = esp_calloc(store->alloc, 1, sizeof *kv->trees); /* the catalog */
    kv->tree_count = kv->trees ? 1 : 0;
    enum esp_status status =
        kv->trees ? esp_engine_attach(store, &kv->base, err) : esp_fail_nomem(err);
    if (status != ESP_OK) {
        kv_free(kv);
    }
    return status;
}

static void close_store(struct esp_store *store) {
    struct esp_kv *kv = esp_engine_detach(store);
    if (kv) {
        kv_free((struct memory_kv *)(void *)kv);
    }
}

const struct esp_store_ops esp_store_memory = {
    .name = "memory",
    .schemes = "memory:",
    .summary = "keeps tables in memory, gone when the process ends",
    .open = open_store,
    .close = close_store,
    ESP_ENGINE_OPS,
};
