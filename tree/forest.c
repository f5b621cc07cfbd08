#include "tree/forest_owner.h"
#include "tree/id_table.h"

/* --- texts ------------------------------------------------------------------------- */

enum { CHUNK_BYTES_MIN = 64 << 10, CHUNK_BYTES_MAX = 32 << 20, AHEAD_BYTES_MIN = 4 << 20 };

struct text_chunk {
    struct text_chunk *next;
    size_t size, used; /* header included */
};

void *text_chunks_alloc(struct text_chunks *chunks, const struct esp_alloc *alloc, size_t size) {
    struct text_chunk *chunk = chunks->head;
    if (!chunk || chunk->size - chunk->used < size) {
        /* an eighth of what there is: few chunks, and little slack in the last one */
        size_t want = chunks->bytes / 8;
        want = want < CHUNK_BYTES_MIN ? CHUNK_BYTES_MIN : want;
        want = want > CHUNK_BYTES_MAX ? CHUNK_BYTES_MAX : want;
        want = want < size + sizeof *chunk ? size + sizeof *chunk : want;
        chunk = esp_big_alloc(alloc, want);
        if (!chunk) {
            return NULL;
        }
        *chunk = (struct text_chunk){chunks->head, want, sizeof *chunk};
        chunks->head = chunk;
        chunks->bytes += want;
        esp_prefault_wait(&chunks->ahead); /* it was faster than who fills the chunk */
        if (want >= AHEAD_BYTES_MIN) {
            esp_prefault_start(&chunks->ahead, chunk, want);
        }
    }
    void *ptr = (char *)chunk + chunk->used;
    chunk->used += size;
    return ptr;
}

void text_chunks_free(struct text_chunks *chunks, const struct esp_alloc *alloc) {
    esp_prefault_wait(&chunks->ahead);
    while (chunks->head) {
        struct text_chunk *next = chunks->head->next;
        esp_big_free(alloc, chunks->head, chunks->head->size);
        chunks->head = next;
    }
    chunks->bytes = 0;
}

/* --- the forest ---------------------------------------------------------------------- */

struct esp_forest *forest_new(const struct esp_alloc *alloc) {
    struct esp_forest *f = esp_calloc(alloc, 1, sizeof *f + sizeof *f->owner);
    if (f) {
        f->owner = (void *)(f + 1);
        f->owner->alloc = alloc;
        esp_arena_init(&f->owner->links, alloc, SIZE_MAX);
    }
    return f;
}

void forest_adopt(struct esp_forest *f, uint32_t count, uint32_t root_count,
                  struct text_chunks *chunks, struct names *names) {
    f->owner->count = f->count = count;
    f->root_count = root_count;
    f->parent = f->owner->parent;
    f->size = f->owner->size;
    f->depth = f->owner->depth;
    f->text = f->owner->text;
    esp_prefault_wait(&chunks->ahead);
    f->owner->chunks = *chunks;
    *chunks = (struct text_chunks){.head = NULL};
    f->owner->names = *names;
    *names = (struct names){.head = NULL};
}

bool esp_forest_may_have(const struct esp_forest *f, struct esp_str name) {
    const struct listed_name *at = f->owner->names.head;
    while (at && !esp_str_eq(at->name, name)) {
        at = at->next;
    }
    return at || f->owner->names.incomplete;
}

void esp_forest_free(struct esp_forest *f) {
    if (!f) {
        return;
    }
    struct esp_forest_owner *o = f->owner;
    esp_big_free(o->alloc, o->parent, o->count * sizeof *o->parent);
    esp_big_free(o->alloc, o->size, o->count * sizeof *o->size);
    esp_big_free(o->alloc, o->depth, o->count * sizeof *o->depth);
    esp_big_free(o->alloc, (void *)o->text, o->count * sizeof *o->text);
    text_chunks_free(&o->chunks, o->alloc);
    esp_arena_fini(&o->names.arena);
    esp_arena_fini(&o->links);
    esp_release(o->alloc, f, sizeof *f + sizeof *f->owner);
}

esp_node esp_forest_root(const struct esp_forest *f, esp_node v) {
    while (f->parent[v] != ESP_NODE_NONE) {
        v = f->parent[v];
    }
    return v;
}

/* --- look-up by id --------------------------------------------------------------------- */

struct esp_forest_ids {
    const struct esp_forest *forest;
    struct id_table table;
};

enum esp_status esp_forest_ids_new(const struct esp_forest *f, const struct esp_alloc *alloc,
                                   struct esp_forest_ids **out, struct esp_error *err) {
    struct esp_forest_ids *ids = esp_calloc(alloc, 1, sizeof *ids);
    if (!ids || id_table_init(&ids->table, alloc, f->count) != ESP_OK) {
        esp_release(alloc, ids, sizeof *ids);
        return esp_fail_nomem(err);
    }
    ids->forest = f;
    for (esp_node v = 0; v < f->count; v++) {
        if (id_table_add(&ids->table, id_tag(esp_forest_id(f, v)), v) != ESP_OK) {
            esp_forest_ids_free(ids);
            return esp_fail_nomem(err);
        }
    }
    *out = ids;
    return ESP_OK;
}

void esp_forest_ids_free(struct esp_forest_ids *ids) {
    if (ids) {
        const struct esp_alloc *alloc = ids->table.alloc;
        id_table_fini(&ids->table);
        esp_release(alloc, ids, sizeof *ids);
    }
}

esp_node esp_forest_find(const struct esp_forest_ids *ids, struct esp_str id) {
    return id_table_find(&ids->table, ids->forest->text, id, id_tag(id));
}
