#include "bench/survey.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* {"Item":{ ... }} and the line feed around an item's members. */
enum { IMPORT_LINE_BYTES = 12 };
enum { COUNTER_START = 1024, NODES_A_STEP = 4096 };

/* One partition key; `hash` 0 is an empty slot. */
struct counter {
    uint64_t hash, units, items, bytes;
};

/* Counters by hash of the key, open addressing.  Keys themselves are not kept: the winner's
 * text is found by a second pass.  (Two keys of one 64-bit hash would be counted as one; for
 * a million keys the odds are below 1 in 10 million.) */
struct counters {
    const struct esp_alloc *alloc;
    struct counter *slot;
    uint32_t capacity, used, keys_max; /* capacity: power of two */
    uint64_t units_over;               /* taken off by shrinking */
};

struct survey_run {
    const struct esp_layout *layout;
    struct esp_survey *out;
    struct counters counters[1 + ESP_INDEX_MAX];
    struct esp_buf json;
    /* second pass */
    uint64_t wanted[1 + ESP_INDEX_MAX];
    int wanted_left;
};

static uint64_t key_hash(const struct esp_value *key) {
    uint64_t hash = key->type == ESP_TYPE_N && key->s.len == 0
                        ? esp_hash64(&key->n, sizeof key->n, ESP_TYPE_N)
                        : esp_hash64(key->s.ptr, key->s.len, key->type);
    return hash ? hash : 1;
}

static struct counter *find_slot(struct counter *slot, uint32_t capacity, uint64_t hash) {
    uint32_t i = (uint32_t)hash & (capacity - 1);
    while (slot[i].hash != 0 && slot[i].hash != hash) {
        i = (i + 1) & (capacity - 1);
    }
    return &slot[i];
}

/* Into a table of `capacity`, without the counters that hold no more than `less`. */
static bool rebuild(struct counters *c, uint32_t capacity, uint64_t less) {
    struct counter *slot = esp_calloc(c->alloc, capacity, sizeof *slot);
    if (!slot) {
        return false;
    }
    c->used = 0;
    for (uint32_t i = 0; i < c->capacity; i++) {
        if (c->slot[i].hash && c->slot[i].units > less) {
            struct counter *to = find_slot(slot, capacity, c->slot[i].hash);
            *to = c->slot[i];
            to->units -= less;
            c->used++;
        }
    }
    esp_release(c->alloc, c->slot, c->capacity * sizeof *c->slot);
    c->slot = slot;
    c->capacity = capacity;
    return true;
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The median of all counters is taken off each: at least half of them go, and what a key
 * loses, so many units of others were dropped with it (Misra and Gries 1982, in batches). */
static bool shrink(struct counters *c) {
    uint64_t *units = esp_calloc(c->alloc, c->used, sizeof *units);
    if (!units) {
        return false;
    }
    size_t count = c->used, n = 0;
    for (uint32_t i = 0; i < c->capacity; i++) {
        if (c->slot[i].hash) {
            units[n++] = c->slot[i].units;
        }
    }
    qsort(units, n, sizeof *units, compare_u64);
    uint64_t median = units[n / 2];
    esp_release(c->alloc, units, count * sizeof *units);
    c->units_over += median;
    return rebuild(c, c->capacity, median);
}

static bool count_key(struct counters *c, uint64_t hash, uint64_t units, uint32_t bytes) {
    if (c->capacity == 0 && !rebuild(c, COUNTER_START, 0)) {
        return false;
    }
    struct counter *slot = find_slot(c->slot, c->capacity, hash);
    if (slot->hash == 0) {
        if (c->used >= c->keys_max) {
            if (!shrink(c)) {
                return false;
            }
            slot = find_slot(c->slot, c->capacity, hash);
        } else if (c->used * 2 >= c->capacity) {
            if (!rebuild(c, c->capacity * 2, 0)) {
                return false;
            }
            slot = find_slot(c->slot, c->capacity, hash);
        }
        slot->hash = hash;
        c->used++;
    }
    slot->units += units;
    slot->items++;
    slot->bytes += bytes;
    return true;
}

/* Size of the item (part 0) or of its entry in index part - 1; 0 = not in it. */
static uint32_t part_size(const struct esp_schema *schema, size_t part,
                          const struct esp_item *item) {
    return part == 0 ? esp_item_size(schema, item)
                     : esp_entry_size(schema, &schema->index[part - 1], item);
}

static const struct esp_value *part_key(const struct esp_schema *schema, size_t part,
                                        const struct esp_item *item) {
    return &item->value[part == 0 ? schema->pk : schema->index[part - 1].pk];
}

static enum esp_status survey_item(void *ctx, const struct esp_item *item) {
    struct survey_run *run = ctx;
    const struct esp_schema *schema = &run->layout->schema;
    for (size_t p = 0; p <= schema->index_count; p++) {
        uint32_t bytes = part_size(schema, p, item);
        if (bytes == 0) {
            continue;
        }
        struct esp_survey_part *part = &run->out->part[p];
        double units = esp_write_units(bytes);
        part->entries++;
        part->bytes += bytes;
        part->write_units += units;
        if (!count_key(&run->counters[p], key_hash(part_key(schema, p, item)), (uint64_t)units,
                       bytes)) {
            return ESP_ERR_NOMEM;
        }
    }
    esp_buf_reset(&run->json);
    esp_item_put_json(&run->json, schema, item);
    run->out->json_bytes += run->json.len + IMPORT_LINE_BYTES;
    return run->json.failed ? ESP_ERR_NOMEM : ESP_OK;
}

static void pick_hottest(struct survey_run *run, size_t p) {
    const struct counters *c = &run->counters[p];
    const struct counter *hot = NULL;
    for (uint32_t i = 0; i < c->capacity; i++) {
        const struct counter *slot = &c->slot[i];
        /* Ties are broken by bytes, then hash, so that the answer does not depend on order. */
        if (slot->hash && (!hot || slot->units > hot->units ||
                           (slot->units == hot->units &&
                            (slot->bytes > hot->bytes ||
                             (slot->bytes == hot->bytes && slot->hash < hot->hash))))) {
            hot = slot;
        }
    }
    if (hot) {
        struct esp_hot_key *out = &run->out->part[p].hot;
        out->units = (double)(hot->units + c->units_over);
        out->units_over = (double)c->units_over;
        out->items = hot->items;
        out->bytes = hot->bytes;
        run->wanted[p] = hot->hash;
        run->wanted_left++;
    }
}

static void print_key(const struct esp_value *key, char *out, size_t size) {
    struct esp_str text = key->s;
    char number[24];
    if (key->type == ESP_TYPE_N && text.len == 0) {
        int len = snprintf(number, sizeof number, "%lld", (long long)key->n);
        text = (struct esp_str){number, (size_t)len};
    }
    bool cut = text.len >= size;
    size_t len = cut ? size - 4 : text.len;
    while (cut && len > 0 && ((unsigned char)text.ptr[len] & 0xC0) == 0x80) {
        len--; /* not in the middle of a UTF-8 character */
    }
    for (size_t i = 0; i < len; i++) {
        out[i] = key->type == ESP_TYPE_B || iscntrl((unsigned char)text.ptr[i]) ? '?' : text.ptr[i];
    }
    memcpy(out + len, cut ? "..." : "", cut ? 4 : 1);
}

static enum esp_status name_item(void *ctx, const struct esp_item *item) {
    struct survey_run *run = ctx;
    const struct esp_schema *schema = &run->layout->schema;
    for (size_t p = 0; p <= schema->index_count; p++) {
        if (run->wanted[p] == 0 || part_size(schema, p, item) == 0) {
            continue;
        }
        const struct esp_value *key = part_key(schema, p, item);
        if (key_hash(key) == run->wanted[p]) {
            struct esp_hot_key *hot = &run->out->part[p].hot;
            print_key(key, hot->key, sizeof hot->key);
            run->wanted[p] = 0;
            run->wanted_left--;
        }
    }
    return run->wanted_left ? ESP_OK : ESP_STOP;
}

/* The whole conversion, step by step, so that scratch stays small and `stop` is seen. */
static enum esp_status emit_all(const struct esp_forest *f, const struct esp_layout *layout,
                                struct esp_arena *scratch, const volatile int *stop,
                                esp_item_fn *fn, void *ctx, struct esp_error *err) {
    for (esp_node first = 0; first < f->count; first += NODES_A_STEP) {
        uint32_t n = f->count - first < NODES_A_STEP ? f->count - first : NODES_A_STEP;
        esp_arena_reset(scratch);
        enum esp_status status = layout->ops->emit(layout, f, first, n, scratch, fn, ctx);
        if (status == ESP_STOP) {
            return ESP_OK;
        }
        if (status == ESP_ERR_NOMEM) {
            return esp_fail_nomem(err);
        }
        if (status != ESP_OK) {
            return esp_fail(err, status, "%s: converting failed", layout->ops->name);
        }
        if (esp_stop_wanted(stop)) {
            return esp_fail(err, ESP_ERR_CANCELLED, "stopped on request");
        }
        if (f->count - first <= NODES_A_STEP) {
            break; /* first must not wrap round */
        }
    }
    return ESP_OK;
}

enum esp_status esp_survey_run(const struct esp_forest *forest, const struct esp_layout *layout,
                               uint32_t keys_max, const struct esp_alloc *alloc,
                               const volatile int *stop, struct esp_survey *out,
                               struct esp_error *err) {
    struct survey_run run = {.layout = layout, .out = out};
    struct esp_arena scratch;
    size_t parts = 1 + layout->schema.index_count;
    memset(out, 0, sizeof *out);
    esp_arena_init(&scratch, alloc, SIZE_MAX);
    esp_buf_init(&run.json, alloc, SIZE_MAX);
    for (size_t p = 0; p < parts; p++) {
        run.counters[p].alloc = alloc;
        run.counters[p].keys_max = keys_max ? keys_max : ESP_SURVEY_KEYS_MAX;
    }
    enum esp_status status = emit_all(forest, layout, &scratch, stop, survey_item, &run, err);
    for (size_t p = 0; p < parts && status == ESP_OK; p++) {
        pick_hottest(&run, p);
    }
    if (status == ESP_OK && run.wanted_left) {
        status = emit_all(forest, layout, &scratch, stop, name_item, &run, err);
    }
    for (size_t p = 0; p < parts; p++) {
        esp_release(alloc, run.counters[p].slot,
                    run.counters[p].capacity * sizeof *run.counters[p].slot);
    }
    esp_buf_fini(&run.json);
    esp_arena_fini(&scratch);
    return status;
}

uint64_t esp_survey_storage_bytes(const struct esp_survey *survey) {
    uint64_t bytes = 0;
    for (size_t p = 0; p <= ESP_INDEX_MAX; p++) {
        bytes += survey->part[p].bytes + survey->part[p].entries * ESP_STORAGE_OVERHEAD_BYTES;
    }
    return bytes;
}
