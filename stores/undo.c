/* Undo of a session: the first image of every key it writes, read before the write. */
#include "stores/undo.h"

enum { UNDO_BYTES_MAX = 1 << 30 }; /* all images together */

struct image {
    struct esp_str key; /* its JSON */
    struct esp_item item;
    bool existed; /* else `item` is the key */
};

struct esp_undo {
    bool trial;             /* the store takes writes back itself; only `written` is used then */
    bool written;           /* in the trial, since begin or the last rollback */
    struct esp_arena arena; /* keys and items */
    struct image *images;
    size_t count, cap;
    uint32_t *slots; /* open addressing: position + 1; 0 = free */
    size_t slot_count;
    uint64_t overhead_ns;
};

static const struct esp_alloc *alloc_of(const struct esp_session *s) {
    return s->table->store->alloc;
}

static uint32_t *find_slot(const struct esp_undo *u, struct esp_str key) {
    size_t i = esp_hash64(key.ptr, key.len, 0) & (u->slot_count - 1);
    while (u->slots[i] && !esp_str_eq(u->images[u->slots[i] - 1].key, key)) {
        i = (i + 1) & (u->slot_count - 1);
    }
    return &u->slots[i];
}

static void fill_slots(struct esp_undo *u) {
    memset(u->slots, 0, u->slot_count * sizeof *u->slots);
    for (size_t i = 0; i < u->count; i++) {
        *find_slot(u, u->images[i].key) = (uint32_t)i + 1;
    }
}

/* Room for `more` images, with the slots at most half full. */
static bool reserve(struct esp_undo *u, size_t more, const struct esp_alloc *alloc) {
    size_t cap = u->cap ? u->cap : 64;
    if (u->count + more <= u->cap) {
        return true;
    }
    while (cap < u->count + more) {
        cap *= 2;
    }
    uint32_t *slots = esp_calloc(alloc, 2 * cap, sizeof *slots);
    struct image *images =
        slots ? esp_resize(alloc, u->images, u->cap * sizeof *images, cap * sizeof *images) : NULL;
    if (!images) {
        esp_release(alloc, slots, 2 * cap * sizeof *slots);
        return false;
    }
    esp_release(alloc, u->slots, u->slot_count * sizeof *u->slots);
    u->images = images;
    u->cap = cap;
    u->slots = slots;
    u->slot_count = 2 * cap;
    fill_slots(u);
    return true;
}

static void forget(struct esp_undo *u) {
    u->count = 0;
    u->overhead_ns = 0;
    esp_arena_reset(&u->arena);
    if (u->slots) {
        fill_slots(u);
    }
}

static const struct esp_store_ops *ops_of(const struct esp_session *s) {
    return s->table->store->ops;
}

static enum esp_status restart_trial(struct esp_session *s, bool keep, struct esp_error *err) {
    enum esp_status status = ops_of(s)->trial_end(s, keep, err);
    s->undo->written = false;
    return status == ESP_OK ? ops_of(s)->trial_begin(s, err) : status;
}

enum esp_status esp_undo_begin(struct esp_session *s, struct esp_error *err) {
    if (s->undo && s->undo->trial) {
        return restart_trial(s, s->undo->written, err);
    }
    if (s->undo) {
        forget(s->undo);
        return ESP_OK;
    }
    s->undo = esp_calloc(alloc_of(s), 1, sizeof *s->undo);
    if (!s->undo) {
        return esp_fail_nomem(err);
    }
    esp_arena_init(&s->undo->arena, alloc_of(s), UNDO_BYTES_MAX);
    if (!ops_of(s)->trial_begin) {
        return ESP_OK;
    }
    enum esp_status status = ops_of(s)->trial_begin(s, err);
    s->undo->trial = status == ESP_OK;
    if (status != ESP_OK) {
        (void)esp_undo_end(s, NULL);
    }
    return status;
}

enum esp_status esp_undo_end(struct esp_session *s, struct esp_error *err) {
    struct esp_undo *u = s->undo;
    enum esp_status status = ESP_OK;
    if (!u) {
        return ESP_OK;
    }
    if (u->trial) {
        status = ops_of(s)->trial_end(s, u->written, err);
    }
    esp_arena_fini(&u->arena);
    esp_release(alloc_of(s), u->images, u->cap * sizeof *u->images);
    esp_release(alloc_of(s), u->slots, u->slot_count * sizeof *u->slots);
    esp_release(alloc_of(s), u, sizeof *u);
    s->undo = NULL;
    return status;
}

uint64_t esp_undo_overhead_ns(const struct esp_session *s) {
    return s->undo ? s->undo->overhead_ns : 0;
}

/* --- recording ------------------------------------------------------------------ */

static bool key_text(struct esp_undo *u, struct esp_buf *scratch, const struct esp_schema *schema,
                     const struct esp_item *item, struct esp_str *out) {
    esp_buf_reset(scratch);
    esp_item_put_key_json(scratch, schema, item);
    *out =
        scratch->failed ? (struct esp_str){0, 0} : esp_arena_dup(&u->arena, esp_buf_str(scratch));
    return out->ptr != NULL;
}

/* Note a key that is new, as if nothing were there. */
static bool add_key(struct esp_undo *u, struct esp_buf *scratch, const struct esp_schema *schema,
                    const struct esp_item *item) {
    struct esp_str key;
    struct esp_item only_key;
    if (!key_text(u, scratch, schema, item, &key)) {
        return false;
    }
    uint32_t *slot = find_slot(u, key);
    if (*slot) {
        return true;
    }
    struct image *image = &u->images[u->count];
    memset(&only_key, 0, sizeof only_key);
    only_key.value[schema->pk] = item->value[schema->pk];
    if (schema->sk >= 0) {
        only_key.value[schema->sk] = item->value[schema->sk];
    }
    memset(image, 0, sizeof *image);
    image->key = key;
    if (esp_item_dup(schema, &u->arena, &only_key, &image->item) != ESP_OK) {
        return false;
    }
    *slot = (uint32_t)++u->count;
    return true;
}

struct recording {
    struct esp_undo *undo;
    const struct esp_schema *schema;
    struct esp_buf *scratch;
};

static enum esp_status keep_image(void *ctx, const struct esp_item *item) {
    struct recording *r = ctx;
    esp_buf_reset(r->scratch);
    esp_item_put_key_json(r->scratch, r->schema, item);
    uint32_t slot = r->scratch->failed ? 0 : *find_slot(r->undo, esp_buf_str(r->scratch));
    if (slot == 0) {
        return r->scratch->failed ? ESP_ERR_NOMEM : ESP_ERR_INTERNAL;
    }
    struct image *image = &r->undo->images[slot - 1];
    image->existed = true;
    return esp_item_dup(r->schema, &r->undo->arena, item, &image->item);
}

/* Read the images from `first` on. */
static enum esp_status read_images(struct esp_session *s, size_t first, struct esp_buf *scratch,
                                   struct esp_error *err) {
    struct esp_undo *u = s->undo;
    const struct esp_schema *schema = &s->table->schema;
    size_t n = u->count - first;
    struct recording r = {u, schema, scratch};
    if (n == 0) {
        return ESP_OK;
    }
    struct esp_item *keys = esp_calloc(alloc_of(s), n, sizeof *keys);
    if (!keys) {
        return esp_fail_nomem(err);
    }
    for (size_t i = 0; i < n; i++) {
        esp_item_copy(schema, &keys[i], &u->images[first + i].item);
    }
    struct esp_usage usage = s->usage;
    enum esp_status status = esp_session_get(s, keys, n, true, keep_image, &r, err);
    s->usage = usage;
    esp_release(alloc_of(s), keys, n * sizeof *keys);
    return status;
}

enum esp_status esp_undo_record(struct esp_session *s, const struct esp_write *w, size_t n,
                                struct esp_error *err) {
    struct esp_undo *u = s->undo;
    const struct esp_clock *clock = s->table->store->clock;
    if (u->trial) {
        u->written = true;
        return ESP_OK;
    }
    uint64_t begin_ns = esp_now_ns(clock);
    size_t first = u->count;
    struct esp_buf scratch;
    if (!reserve(u, n, alloc_of(s))) {
        return esp_fail_nomem(err);
    }
    esp_buf_init(&scratch, alloc_of(s), UNDO_BYTES_MAX);
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        if (w[i].kind != ESP_CHECK && !add_key(u, &scratch, &s->table->schema, &w[i].item)) {
            status = esp_fail_nomem(err);
        }
    }
    if (status == ESP_OK) {
        status = read_images(s, first, &scratch, err);
    }
    if (status != ESP_OK) { /* these images are not known: the write does not happen */
        u->count = first;
        fill_slots(u);
    }
    esp_buf_fini(&scratch);
    u->overhead_ns += esp_now_ns(clock) - begin_ns;
    return status;
}

/* --- putting back ----------------------------------------------------------------- */

enum esp_status esp_undo_rollback(struct esp_session *s, struct esp_error *err) {
    struct esp_undo *u = s->undo;
    if (u && u->trial) {
        return restart_trial(s, false, err);
    }
    if (!u || u->count == 0) {
        if (u) {
            forget(u);
        }
        return ESP_OK;
    }
    struct esp_write *w = esp_calloc(alloc_of(s), u->count, sizeof *w);
    if (!w) {
        return esp_fail_nomem(err);
    }
    for (size_t i = 0; i < u->count; i++) {
        w[i].kind = u->images[i].existed ? ESP_PUT : ESP_DELETE;
        esp_item_copy(&s->table->schema, &w[i].item, &u->images[i].item);
    }
    struct esp_usage usage = s->usage;
    size_t count = u->count;
    s->undo = NULL; /* so that putting back is not recorded */
    enum esp_status status = esp_session_write(s, w, count, NULL, err);
    s->undo = u;
    s->usage = usage;
    esp_release(alloc_of(s), w, count * sizeof *w);
    if (status == ESP_OK) {
        forget(u);
    }
    return status;
}

enum esp_status esp_undo_abandon(struct esp_session *s, struct esp_error *err) {
    struct esp_undo *u = s->undo;
    const volatile int *stop = s->stop;
    uint64_t deadline_ns = s->deadline_ns;
    enum esp_status status = ESP_OK;
    if (!u) {
        return ESP_OK;
    }
    s->stop = NULL; /* what it was stopped for is to end like this */
    s->deadline_ns = 0;
    if (!u->trial) {
        status = esp_undo_rollback(s, err);
    }
    u->written = false; /* nothing for the end to keep */
    enum esp_status ended = esp_undo_end(s, status == ESP_OK ? err : NULL);
    s->stop = stop;
    s->deadline_ns = deadline_ns;
    return status == ESP_OK ? ended : status;
}
