#ifndef ESP_STORES_ENGINE_SESSION_H
#define ESP_STORES_ENGINE_SESSION_H
/* Private to engine*.c and bulk_*.c: an open table and a session of it. */
#include "stores/catalog.h"
#include "stores/keys.h"
#include "stores/record.h"

struct esp_engine {
    struct esp_kv *kv;
    const struct esp_alloc *alloc;
    uint64_t page_bytes;
};

/* Immutable after open, but for `bulk`, which has its own lock. */
struct engine_table {
    struct esp_engine *engine;
    struct esp_arena arena; /* names */
    struct esp_str name;
    /* As stored, with the indexes that the caller's schema names first and in its order:
     * positions of indexes mean the same in both. */
    struct esp_schema schema;
    int stored_index[ESP_INDEX_MAX]; /* position in the definition */
    const struct esp_schema *view;   /* the caller's */
    uint32_t incarnation;            /* the one that `schema` is of */
    bool same_attrs;                 /* both have the same attributes at the same positions */
    struct bulk_table *bulk;
};

/* Between trial_begin and trial_end one write transaction is open all the time: the state is
 * that of e->state, and begin and commit have nothing to do. */
enum engine_trial { ENGINE_NO_TRIAL, ENGINE_TRIAL, ENGINE_TRIAL_LOST /* a request failed */ };

struct engine_session {
    struct esp_session *base;
    struct engine_table *table;
    struct esp_kv_session *kv;
    enum engine_trial trial;
    bool busy;                    /* in a call; a callback that calls again gets `child` */
    struct engine_session *child; /* made when it is first needed */
    struct esp_table_state state; /* as of `version` */
    uint64_t version;
    bool state_known;
    struct esp_arena arena;       /* of the request at hand */
    struct esp_arena scratch;     /* of the item at hand */
    struct esp_buf record, entry; /* being written */
    struct esp_key key, low, high;
    struct bulk_session *bulk;
};

/* An item and its stored form. */
struct engine_image {
    struct esp_item item;
    struct esp_str record;
};

/* Number of the index in keys. */
static inline unsigned engine_key_tree(const struct engine_table *t, int index) {
    return index == ESP_PRIMARY ? 0 : 1 + (unsigned)t->stored_index[index];
}

/* The session for a call, not in one already; leave it when the call ends. */
enum esp_status engine_enter(struct esp_session *session, struct engine_session **out,
                             struct esp_error *err) ESP_MUST_CHECK;
static inline void engine_leave(struct engine_session *e) {
    e->busy = false;
}

/* Begin a transaction in which e->state and its tree are valid.  ERR_NOT_FOUND: dropped since
 * the table was opened, also when another of its name is there now. */
enum esp_status engine_begin(struct engine_session *e, enum esp_kv_mode mode,
                             struct esp_error *err) ESP_MUST_CHECK;
/* Commit with the state as e->state has it now. */
enum esp_status engine_commit(struct engine_session *e, struct esp_error *err) ESP_MUST_CHECK;

/* The caller's item as it is stored; `store` is used when the schemas differ. */
enum esp_status engine_item_in(struct engine_session *e, const struct esp_item *item,
                               struct esp_item *store, const struct esp_item **out,
                               struct esp_error *err) ESP_MUST_CHECK;
enum esp_status engine_recast_in(const struct engine_table *t, const struct esp_item *item,
                                 struct esp_arena *arena, struct esp_item *out,
                                 struct esp_error *err) ESP_MUST_CHECK;
/* ERR_REFUSED / ERR_LIMIT unless the table key in `item` may be one. */
enum esp_status engine_check_key(const struct engine_table *t, const struct esp_item *item,
                                 struct esp_error *err) ESP_MUST_CHECK;
/* Do two of these keys agree? */
bool engine_has_duplicate(const struct esp_str *keys, size_t n);

/* One read request, in a read transaction.  Sets its outcome. */
void engine_read(struct engine_session *e, struct esp_request *r);
/* One write request, in a write transaction: done as a whole or not at all, its outcome in
 * it.  Fails only when the transaction must be given up; *changed says whether there is
 * something to commit. */
enum esp_status engine_write(struct engine_session *e, struct esp_request *r, bool *changed,
                             struct esp_error *err) ESP_MUST_CHECK;
/* Change the item under `key` from `old` to `new_image` (NULL: none), indexes and state too. */
enum esp_status engine_replace(struct engine_session *e, struct esp_str key,
                               const struct engine_image *old, const struct engine_image *new_image,
                               struct esp_error *err) ESP_MUST_CHECK;
/* ERR_IO: a record is not one of the table's schema. */
enum esp_status engine_damaged(const struct engine_session *e, struct esp_error *err);
/* The record under `key` as an image that borrows from the database; *found. */
enum esp_status engine_load(struct engine_session *e, struct esp_str key, struct engine_image *out,
                            bool *found, struct esp_error *err) ESP_MUST_CHECK;

#endif
