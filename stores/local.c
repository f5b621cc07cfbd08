/*
 * local: tables in a folder, in LMDB.  Trees are LMDB's named databases.
 *
 * LMDB's keys end at 511 bytes, DynamoDB's are longer.  A key of up to 510 bytes is LMDB's
 * own.  Of a longer one LMDB gets the first 511 bytes, and the value is a bucket: all keys
 * with that beginning, each {u32 bytes of the key's rest, u32 bytes of the value, rest,
 * value}, in order.  The length of LMDB's key tells which of the two it is.
 */
#include <time.h>

#include "stores/engine.h"
#include "stores/local_env.h"

enum {
    BUCKET_KEY_BYTES = 511,
    BUCKET_BYTES_MAX = 1 << 30,
    ENTRY_HEAD_BYTES = 8,
    RESIZE_WAIT_S = 10
};

struct local_kv {
    struct esp_kv base;
    struct local_env *env;
};

/* Where the last look-up ended. */
struct position {
    MDB_val key, value;
    bool bucket;
    size_t at; /* of the entry in the bucket */
};

struct local_session {
    struct esp_kv_session base;
    MDB_txn *txn;    /* open; NULL: none */
    MDB_txn *reader; /* kept for the next read */
    enum esp_kv_mode mode;
    unsigned opened;  /* trees that this transaction can see, by ordinal */
    uint32_t created; /* tree made in this transaction; 0: none */
    MDB_dbi created_dbi;
    MDB_cursor *cursor; /* of look */
    uint32_t cursor_tree;
    bool cursor_bound; /* to this transaction */
    struct position position;
    struct esp_buf key; /* a long key put together again */
    struct esp_buf bucket;
    MDB_cursor *append_cursor;
    uint32_t append_tree;
    struct esp_buf pending; /* a bucket being appended: LMDB's key, then the entries */
    uint32_t pending_tree;
};

static struct local_session *own(struct esp_kv_session *s) {
    return (struct local_session *)(void *)s;
}

static struct local_env *env_of(struct esp_kv_session *s) {
    return ((struct local_kv *)(void *)s->kv)->env;
}

static MDB_dbi dbi_of(struct esp_kv_session *s, uint32_t tree) {
    return tree && tree == own(s)->created ? own(s)->created_dbi : env_of(s)->trees[tree].dbi;
}

static MDB_val val(struct esp_str s) {
    return (MDB_val){s.len, (void *)(uintptr_t)s.ptr};
}

static struct esp_str str(MDB_val v) {
    return (struct esp_str){v.mv_data, v.mv_size};
}

static enum esp_status fail(struct esp_kv_session *s, int code, const char *doing,
                            struct esp_error *err) {
    return local_env_fail(env_of(s), code, doing, err);
}

/* --- sessions and transactions -------------------------------------------------- */

static enum esp_status session_open(struct esp_kv *kv, struct esp_kv_session **out,
                                    struct esp_error *err) {
    struct local_session *s = esp_calloc(kv->alloc, 1, sizeof *s);
    if (!s) {
        return esp_fail_nomem(err);
    }
    s->base.kv = kv;
    esp_buf_init(&s->key, kv->alloc, BUCKET_BYTES_MAX);
    esp_buf_init(&s->bucket, kv->alloc, BUCKET_BYTES_MAX);
    esp_buf_init(&s->pending, kv->alloc, BUCKET_BYTES_MAX);
    *out = &s->base;
    return ESP_OK;
}

static int begin_read(struct local_session *s) {
    MDB_env *env = env_of(&s->base)->env;
    int code;
    if (s->reader) {
        code = mdb_txn_renew(s->reader);
    } else {
        code = mdb_txn_begin(env, NULL, MDB_RDONLY, &s->reader);
        if (code == MDB_READERS_FULL) { /* perhaps some of them have crashed */
            int dead;
            mdb_reader_check(env, &dead);
            code = mdb_txn_begin(env, NULL, MDB_RDONLY, &s->reader);
        }
        s->reader = code ? NULL : s->reader;
    }
    s->txn = code ? NULL : s->reader;
    return code;
}

static int begin_in_map(struct local_session *s) {
    return s->mode == ESP_KV_READ ? begin_read(s)
                                  : mdb_txn_begin(env_of(&s->base)->env, NULL, 0, &s->txn);
}

/* Another process has a bigger map: take it over, once nobody here uses the old one. */
static int adopt_map(struct local_env *env) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += RESIZE_WAIT_S;
    if (pthread_rwlock_timedwrlock(&env->map, &until) != 0) {
        return MDB_MAP_RESIZED;
    }
    /* LMDB gives up the old map first.  Without a new one it must not be used, only closed. */
    int code = env->lost ? 0 : mdb_env_set_mapsize(env->env, 0);
    env->lost = env->lost || code != 0;
    pthread_rwlock_unlock(&env->map);
    return 0; /* beginning again says what has become of it */
}

/* The reader's cursor must not meet a write's transaction. */
static void close_read_cursor(struct local_session *s) {
    if (s->cursor && !s->cursor_bound) {
        mdb_cursor_close(s->cursor);
        s->cursor = NULL;
    }
}

static enum esp_status begin(struct esp_kv_session *kv_session, enum esp_kv_mode mode,
                             struct esp_error *err) {
    struct local_session *s = own(kv_session);
    struct local_env *env = env_of(kv_session);
    if (mode == ESP_KV_DEFINE) {
        pthread_mutex_lock(&env->define);
    }
    if (mode != ESP_KV_READ) {
        close_read_cursor(s);
    }
    s->mode = mode;
    s->created = 0;
    for (bool adopted = false;; adopted = true) {
        pthread_rwlock_rdlock(&env->map);
        s->opened = atomic_load(&env->opened);
        enum esp_status status = local_env_check(env, err);
        int code = status == ESP_OK ? begin_in_map(s) : 0;
        if (status == ESP_OK && code == 0) {
            return ESP_OK;
        }
        s->txn = NULL;
        pthread_rwlock_unlock(&env->map);
        if (code == MDB_MAP_RESIZED && !adopted) {
            code = adopt_map(env);
        }
        if (status != ESP_OK || code) {
            if (mode == ESP_KV_DEFINE) {
                pthread_mutex_unlock(&env->define);
            }
            return status != ESP_OK ? status
                                    : fail(kv_session, code, "beginning a transaction", err);
        }
    }
}

static void unlock(struct local_session *s) {
    struct local_env *env = env_of(&s->base);
    s->txn = NULL;
    pthread_rwlock_unlock(&env->map);
    if (s->mode == ESP_KV_DEFINE) {
        pthread_mutex_unlock(&env->define);
    }
}

/* LMDB frees the cursors of a write with it; those of reads are used again. */
static void drop_cursors(struct local_session *s) {
    if (s->mode != ESP_KV_READ) {
        s->cursor = NULL;
        s->append_cursor = NULL;
    }
    s->cursor_bound = false;
}

static void end(struct esp_kv_session *kv_session) {
    struct local_session *s = own(kv_session);
    if (!s->txn) {
        return;
    }
    drop_cursors(s);
    esp_buf_reset(&s->pending);
    if (s->mode == ESP_KV_READ) {
        mdb_txn_reset(s->txn);
    } else {
        mdb_txn_abort(s->txn);
    }
    unlock(s);
}

static enum esp_status flush_pending(struct esp_kv_session *kv_session, struct esp_error *err);

static enum esp_status commit(struct esp_kv_session *kv_session, struct esp_error *err) {
    struct local_session *s = own(kv_session);
    enum esp_status status = flush_pending(kv_session, err);
    if (status != ESP_OK) {
        end(kv_session);
        return status;
    }
    drop_cursors(s);
    int code = mdb_txn_commit(s->txn);
    if (code == 0 && s->created) {
        local_env_publish(env_of(kv_session), s->created, s->created_dbi);
    }
    unlock(s);
    return code ? fail(kv_session, code, "committing", err) : ESP_OK;
}

static void session_close(struct esp_kv_session *kv_session) {
    if (!kv_session) {
        return;
    }
    struct local_session *s = own(kv_session);
    end(kv_session);
    close_read_cursor(s);
    if (s->reader) {
        mdb_txn_abort(s->reader);
    }
    esp_buf_fini(&s->key);
    esp_buf_fini(&s->bucket);
    esp_buf_fini(&s->pending);
    esp_release(s->base.kv->alloc, s, sizeof *s);
}

static uint64_t version(struct esp_kv_session *s) {
    return mdb_txn_id(own(s)->txn);
}

/* --- trees ---------------------------------------------------------------------- */

static bool tree_ready(struct esp_kv_session *s, uint32_t tree) {
    if (tree >= LOCAL_TREES_MAX) {
        return false;
    }
    unsigned ordinal = atomic_load(&env_of(s)->trees[tree].ordinal);
    return (ordinal && ordinal <= own(s)->opened) || (tree && tree == own(s)->created);
}

static enum esp_status tree_open(struct esp_kv_session *s, uint32_t tree, struct esp_error *err) {
    return local_env_open_tree(env_of(s), tree, err);
}

static enum esp_status tree_create(struct esp_kv_session *s, uint32_t tree, struct esp_error *err) {
    MDB_dbi dbi;
    enum esp_status status = local_env_dbi(env_of(s), own(s)->txn, tree, MDB_CREATE, &dbi, err);
    if (status == ESP_OK) {
        own(s)->created = tree;
        own(s)->created_dbi = dbi;
    }
    return status;
}

static enum esp_status tree_clear(struct esp_kv_session *s, uint32_t tree, struct esp_error *err) {
    int code = mdb_drop(own(s)->txn, dbi_of(s, tree), 0);
    return code ? fail(s, code, "emptying a table", err) : ESP_OK;
}

/* --- buckets -------------------------------------------------------------------- */

static bool is_long(struct esp_str key) {
    return key.len >= BUCKET_KEY_BYTES;
}

static struct esp_str front_of(struct esp_str key) {
    return (struct esp_str){key.ptr, is_long(key) ? BUCKET_KEY_BYTES : key.len};
}

static struct esp_str rest_of(struct esp_str key) {
    return (struct esp_str){key.ptr + BUCKET_KEY_BYTES, key.len - BUCKET_KEY_BYTES};
}

/* The entry at a place in a bucket; returns the place behind it. */
static size_t bucket_entry(struct esp_str bucket, size_t at, struct esp_str *rest,
                           struct esp_str *value) {
    uint32_t head[2];
    memcpy(head, bucket.ptr + at, ENTRY_HEAD_BYTES);
    at += ENTRY_HEAD_BYTES;
    *rest = (struct esp_str){bucket.ptr + at, head[0]};
    *value = (struct esp_str){bucket.ptr + at + head[0], head[1]};
    return at + head[0] + head[1];
}

/* The place of the first entry that is not below `rest`; *before is the one in front of
 * it, or `at` itself when that is the first. */
static size_t bucket_seek(struct esp_str bucket, struct esp_str rest, size_t *before) {
    struct esp_str entry, value;
    size_t at = 0;
    *before = 0;
    while (at < bucket.len) {
        size_t next = bucket_entry(bucket, at, &entry, &value);
        if (esp_str_cmp(entry, rest) >= 0) {
            break;
        }
        *before = at;
        at = next;
    }
    return at;
}

static bool bucket_has(struct esp_str bucket, size_t at, struct esp_str rest, size_t *next,
                       struct esp_str *value) {
    struct esp_str entry;
    *next = at;
    if (at == bucket.len) {
        return false;
    }
    size_t behind = bucket_entry(bucket, at, &entry, value);
    if (!esp_str_eq(entry, rest)) {
        return false;
    }
    *next = behind;
    return true;
}

static void put_entry(struct esp_buf *out, struct esp_str rest, struct esp_str value) {
    uint32_t head[2] = {(uint32_t)rest.len, (uint32_t)value.len};
    esp_buf_put(out, head, ENTRY_HEAD_BYTES);
    esp_buf_put_str(out, rest);
    esp_buf_put_str(out, value);
}

/* The bucket of a long key; empty when there is none. */
static int get_bucket(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                      struct esp_str *bucket) {
    MDB_val front = val(front_of(key)), value;
    int code = mdb_get(own(s)->txn, dbi_of(s, tree), &front, &value);
    *bucket = code ? (struct esp_str){"", 0} : str(value);
    return code == MDB_NOTFOUND ? 0 : code;
}

/* Write a bucket with one entry replaced, added (`value`) or taken out (NULL). */
static enum esp_status change_bucket(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                                     const struct esp_str *value, struct esp_error *err) {
    struct esp_buf *out = &own(s)->bucket;
    struct esp_str bucket, there;
    size_t before, next;
    int code = get_bucket(s, tree, key, &bucket);
    if (code) {
        return fail(s, code, "reading", err);
    }
    size_t at = bucket_seek(bucket, rest_of(key), &before);
    if (!bucket_has(bucket, at, rest_of(key), &next, &there) && !value) {
        return ESP_OK;
    }
    esp_buf_reset(out);
    esp_buf_put(out, bucket.ptr, at);
    if (value) {
        put_entry(out, rest_of(key), *value);
    }
    esp_buf_put(out, bucket.ptr + next, bucket.len - next);
    if (out->failed) {
        return esp_fail_nomem(err);
    }
    MDB_val front = val(front_of(key)), data = val(esp_buf_str(out));
    code = out->len ? mdb_put(own(s)->txn, dbi_of(s, tree), &front, &data, 0)
                    : mdb_del(own(s)->txn, dbi_of(s, tree), &front, NULL);
    return code ? fail(s, code, "writing", err) : ESP_OK;
}

/* --- entries -------------------------------------------------------------------- */

static enum esp_status get(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_str *value, struct esp_error *err) {
    int code;
    if (__builtin_expect(is_long(key), 0)) {
        struct esp_str bucket;
        size_t before, next;
        code = get_bucket(s, tree, key, &bucket);
        if (code == 0) {
            size_t at = bucket_seek(bucket, rest_of(key), &before);
            return bucket_has(bucket, at, rest_of(key), &next, value) ? ESP_OK : ESP_ERR_NOT_FOUND;
        }
    } else {
        MDB_val k = val(key), v;
        code = mdb_get(own(s)->txn, dbi_of(s, tree), &k, &v);
        if (code == 0) {
            *value = str(v);
            return ESP_OK;
        }
        if (code == MDB_NOTFOUND) {
            return ESP_ERR_NOT_FOUND;
        }
    }
    return fail(s, code, "reading", err);
}

static enum esp_status put(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_str value, struct esp_error *err) {
    if (is_long(key)) {
        return change_bucket(s, tree, key, &value, err);
    }
    MDB_val k = val(key), v = val(value);
    int code = mdb_put(own(s)->txn, dbi_of(s, tree), &k, &v, 0);
    return code ? fail(s, code, "writing", err) : ESP_OK;
}

static enum esp_status del(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_error *err) {
    if (is_long(key)) {
        return change_bucket(s, tree, key, NULL, err);
    }
    MDB_val k = val(key);
    int code = mdb_del(own(s)->txn, dbi_of(s, tree), &k, NULL);
    return code && code != MDB_NOTFOUND ? fail(s, code, "deleting", err) : ESP_OK;
}

/* --- appending ------------------------------------------------------------------ */

/* Behind all keys of the tree; MDB_KEYEXIST when there are some behind it. */
static int append_pair(struct esp_kv_session *kv_session, uint32_t tree, struct esp_str key,
                       struct esp_str value) {
    struct local_session *s = own(kv_session);
    if (!s->append_cursor || s->append_tree != tree) {
        if (s->append_cursor) {
            mdb_cursor_close(s->append_cursor);
        }
        int code = mdb_cursor_open(s->txn, dbi_of(kv_session, tree), &s->append_cursor);
        if (code) {
            s->append_cursor = NULL;
            return code;
        }
        s->append_tree = tree;
    }
    MDB_val k = val(key), v = val(value);
    return mdb_cursor_put(s->append_cursor, &k, &v, MDB_APPEND);
}

/* The bucket is there already, from an earlier commit: its entries go in one by one. */
static enum esp_status merge_pending(struct esp_kv_session *kv_session, struct esp_str entries,
                                     struct esp_error *err) {
    struct local_session *s = own(kv_session);
    enum esp_status status = ESP_OK;
    for (size_t at = 0; at < entries.len && status == ESP_OK;) {
        struct esp_str rest, value;
        at = bucket_entry(entries, at, &rest, &value);
        esp_buf_reset(&s->key);
        esp_buf_put(&s->key, s->pending.ptr, BUCKET_KEY_BYTES);
        esp_buf_put_str(&s->key, rest);
        status = s->key.failed ? esp_fail_nomem(err)
                               : change_bucket(kv_session, s->pending_tree, esp_buf_str(&s->key),
                                               &value, err);
    }
    return status;
}

static enum esp_status flush_pending(struct esp_kv_session *kv_session, struct esp_error *err) {
    struct local_session *s = own(kv_session);
    if (s->pending.len == 0) {
        return ESP_OK;
    }
    struct esp_str front = {s->pending.ptr, BUCKET_KEY_BYTES};
    struct esp_str entries = {s->pending.ptr + BUCKET_KEY_BYTES, s->pending.len - BUCKET_KEY_BYTES};
    int code = append_pair(kv_session, s->pending_tree, front, entries);
    enum esp_status status = ESP_OK;
    if (code == MDB_KEYEXIST) {
        status = merge_pending(kv_session, entries, err);
    } else if (code) {
        status = fail(kv_session, code, "appending", err);
    }
    esp_buf_reset(&s->pending);
    return status;
}

static enum esp_status append_long(struct esp_kv_session *kv_session, uint32_t tree,
                                   struct esp_str key, struct esp_str value,
                                   struct esp_error *err) {
    struct local_session *s = own(kv_session);
    bool same = s->pending.len && s->pending_tree == tree &&
                memcmp(s->pending.ptr, key.ptr, BUCKET_KEY_BYTES) == 0;
    if (!same) {
        enum esp_status status = flush_pending(kv_session, err);
        if (status != ESP_OK) {
            return status;
        }
        s->pending_tree = tree;
        esp_buf_put(&s->pending, key.ptr, BUCKET_KEY_BYTES);
    }
    put_entry(&s->pending, rest_of(key), value);
    if (s->pending.failed) {
        esp_buf_reset(&s->pending);
        return esp_fail_nomem(err);
    }
    return ESP_OK;
}

static enum esp_status append(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                              struct esp_str value, struct esp_error *err) {
    if (__builtin_expect(is_long(key), 0)) {
        return append_long(s, tree, key, value, err);
    }
    enum esp_status status = flush_pending(s, err);
    int code = status == ESP_OK ? append_pair(s, tree, key, value) : 0;
    if (code == MDB_KEYEXIST) {
        return put(s, tree, key, value, err);
    }
    return code ? fail(s, code, "appending", err) : status;
}

/* --- looking -------------------------------------------------------------------- */

/* The session's cursor, in this tree and transaction. */
static int bind_cursor(struct esp_kv_session *kv_session, uint32_t tree) {
    struct local_session *s = own(kv_session);
    if (s->cursor && s->cursor_tree == tree) {
        int code = s->cursor_bound ? 0 : mdb_cursor_renew(s->txn, s->cursor);
        s->cursor_bound = true;
        return code;
    }
    if (s->cursor) {
        mdb_cursor_close(s->cursor);
    }
    int code = mdb_cursor_open(s->txn, dbi_of(kv_session, tree), &s->cursor);
    s->cursor = code ? NULL : s->cursor;
    s->cursor_tree = tree;
    s->cursor_bound = code == 0;
    return code;
}

static int move(struct local_session *s, MDB_cursor_op op) {
    struct position *p = &s->position;
    int code = mdb_cursor_get(s->cursor, &p->key, &p->value, op);
    p->bucket = code == 0 && p->key.mv_size == BUCKET_KEY_BYTES;
    p->at = 0;
    return code;
}

/* The place of the last entry of the bucket the cursor is at. */
static size_t last_entry(const struct position *p) {
    struct esp_str rest, value, bucket = str(p->value);
    size_t at = 0;
    for (size_t next = 0; next < bucket.len;) {
        at = next;
        next = bucket_entry(bucket, at, &rest, &value);
    }
    return at;
}

static int move_back(struct local_session *s, MDB_cursor_op op) {
    int code = move(s, op);
    if (code == 0 && s->position.bucket) {
        s->position.at = last_entry(&s->position);
    }
    return code;
}

/* Is the cursor at the bucket that `at` would be in? */
static bool at_bucket_of(const struct position *p, struct esp_str at) {
    return p->bucket && is_long(at) && memcmp(p->key.mv_data, at.ptr, BUCKET_KEY_BYTES) == 0;
}

static int seek_forward(struct local_session *s, struct esp_str at) {
    struct position *p = &s->position;
    size_t before;
    p->key = val(front_of(at));
    int code = move(s, MDB_SET_RANGE);
    if (code == 0 && at_bucket_of(p, at)) {
        p->at = bucket_seek(str(p->value), rest_of(at), &before);
        if (p->at == p->value.mv_size) {
            code = move(s, MDB_NEXT);
        }
    }
    return code;
}

static int seek_back(struct local_session *s, struct esp_str at) {
    struct position *p = &s->position;
    size_t before;
    p->key = val(front_of(at));
    int code = move(s, MDB_SET_RANGE);
    if (code == MDB_NOTFOUND) {
        return move_back(s, MDB_LAST);
    }
    if (code == 0 && at_bucket_of(p, at) && bucket_seek(str(p->value), rest_of(at), &before) > 0) {
        p->at = before;
        return 0;
    }
    return code ? code : move_back(s, MDB_PREV);
}

static int step_forward(struct local_session *s) {
    struct position *p = &s->position;
    struct esp_str rest, value;
    if (p->bucket) {
        p->at = bucket_entry(str(p->value), p->at, &rest, &value);
        if (p->at < p->value.mv_size) {
            return 0;
        }
    }
    return move(s, MDB_NEXT);
}

static int step_back(struct local_session *s) {
    struct position *p = &s->position;
    struct esp_str rest, value;
    if (p->bucket && p->at > 0) {
        bucket_entry(str(p->value), p->at, &rest, &value);
        bucket_seek(str(p->value), rest, &p->at);
        return 0;
    }
    return move_back(s, MDB_PREV);
}

static enum esp_status look(struct esp_kv_session *kv_session, uint32_t tree,
                            enum esp_kv_place place, struct esp_str at, struct esp_str *key,
                            struct esp_str *value, struct esp_error *err) {
    struct local_session *s = own(kv_session);
    struct position *p = &s->position;
    int code = bind_cursor(kv_session, tree);
    if (code == 0) {
        code = place == ESP_KV_AT_OR_AFTER ? seek_forward(s, at)
               : place == ESP_KV_BEFORE    ? seek_back(s, at)
               : place == ESP_KV_NEXT      ? step_forward(s)
                                           : step_back(s);
    }
    if (code) {
        return code == MDB_NOTFOUND ? ESP_STOP : fail(kv_session, code, "reading", err);
    }
    if (__builtin_expect(!p->bucket, 1)) {
        *key = str(p->key);
        *value = str(p->value);
        return ESP_OK;
    }
    struct esp_str rest;
    bucket_entry(str(p->value), p->at, &rest, value);
    esp_buf_reset(&s->key);
    esp_buf_put(&s->key, p->key.mv_data, p->key.mv_size);
    esp_buf_put_str(&s->key, rest);
    *key = esp_buf_str(&s->key);
    return s->key.failed ? esp_fail_nomem(err) : ESP_OK;
}

static bool claim(struct esp_kv_session *s, uint32_t tree) {
    return local_env_claim(env_of(s), tree);
}

static void unclaim(struct esp_kv_session *s, uint32_t tree) {
    local_env_unclaim(env_of(s), tree);
}

static const char *spill_folder(struct esp_kv *kv) {
    const struct local_env *env = ((struct local_kv *)(void *)kv)->env;
    return env->temporary ? NULL : env->path;
}

static const struct esp_kv_ops local_ops = {
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
    .append = append,
    .look = look,
    .claim = claim,
    .unclaim = unclaim,
    .spill_folder = spill_folder,
};

/* --- the store ------------------------------------------------------------------ */

static enum esp_status open_store(struct esp_store *store, struct esp_error *err) {
    if (store->config && store->config->must_exist && !local_env_exists(store->target)) {
        return esp_fail(err, ESP_ERR_NOT_FOUND, "there is no store in the folder '%s'",
                        store->target);
    }
    struct local_kv *kv = esp_calloc(store->alloc, 1, sizeof *kv);
    if (!kv) {
        return esp_fail_nomem(err);
    }
    kv->base = (struct esp_kv){&local_ops, store->alloc};
    enum esp_status status =
        local_env_open(store->target, !(store->config && store->config->no_sync), &kv->env, err);
    if (status == ESP_OK) {
        status = esp_engine_attach(store, &kv->base, err);
        if (status != ESP_OK) {
            local_env_close(kv->env);
        }
    }
    if (status != ESP_OK) {
        esp_release(store->alloc, kv, sizeof *kv);
    }
    return status;
}

static void close_store(struct esp_store *store) {
    struct local_kv *kv = (struct local_kv *)(void *)esp_engine_detach(store);
    if (kv) {
        local_env_close(kv->env);
        esp_release(store->alloc, kv, sizeof *kv);
    }
}

const struct esp_store_ops esp_store_local = {
    .name = "local",
    .schemes = "local:",
    .summary = "keeps tables in a folder, in an LMDB database",
    .open = open_store,
    .close = close_store,
    ESP_ENGINE_OPS,
};
