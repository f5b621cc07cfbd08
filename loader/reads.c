#include "loader/reads.h"

#include "stores/keys.h"

enum { READ_KEYS = 4096, READ_RANGES = 512 }; /* of items, at once */

/* An item as it was read: its key, and digests of the structural attributes that the answers had
 * and of the payload. */
struct esp_read_item {
    struct esp_value pk, sk;
    uint32_t attributes; /* bit i: schema->attr[i] */
    uint32_t bytes;      /* of what the answer had */
    bool whole;          /* the payload too */
    bool again;          /* verify: it was found */
    uint64_t attr[ESP_ATTR_MAX], payload;
};

/* A query, answered up to `last` (NONE: to its end) of its sort key. */
struct esp_read_range {
    const struct esp_query *source; /* whose it was, while it goes on */
    struct esp_query query;         /* a copy */
    struct esp_value last;
    bool open; /* answered in part: an answer to the rest may follow */
};

/* --- remembering -------------------------------------------------------------------------- */

static bool copy_value(struct esp_arena *arena, struct esp_value *value) {
    if (value->type != ESP_TYPE_NONE && value->s.len) {
        value->s = esp_arena_dup(arena, value->s);
    }
    return value->s.len == 0 || value->s.ptr;
}

static uint64_t digest_of(const struct esp_schema *schema, const struct esp_item *item, size_t i) {
    struct esp_item part = {.data = {0}};
    part.value[i] = item->value[i];
    return esp_item_digest(schema, &part);
}

/* In those of `attributes` that were read? */
static bool same_structure(const struct esp_schema *schema, const struct esp_read_item *kept,
                           const struct esp_item *item, uint32_t attributes) {
    bool same = true;
    for (size_t i = 0; same && i < schema->attr_count; i++) {
        same = !((attributes & kept->attributes) >> i & 1) ||
               kept->attr[i] == digest_of(schema, item, i);
    }
    return same;
}

static uint64_t payload_of(const struct esp_schema *schema, const struct esp_item *item) {
    struct esp_item part = {.data = item->data};
    return esp_item_digest(schema, &part);
}

/* What an index does not project is not known to be missing. */
static uint32_t attributes_of(const struct esp_schema *schema, const struct esp_item *item,
                              bool whole) {
    uint32_t attributes = 0;
    for (size_t i = 0; i < schema->attr_count; i++) {
        attributes |= (uint32_t)(whole || item->value[i].type != ESP_TYPE_NONE) << i;
    }
    return attributes;
}

/* The key's number; a new one has an item that is empty but for its key. */
static enum esp_status find_room(struct esp_reads *reads, const struct esp_item *item,
                                 uint32_t *number, bool *known) {
    const struct esp_schema *schema = reads->schema;
    struct esp_key key;
    uint32_t count = reads->keys.count;
    esp_key_of_item(schema, item, &key);
    if (esp_idmap_intern(&reads->keys, esp_key_str(&key), number) != ESP_OK) {
        return ESP_ERR_NOMEM;
    }
    struct esp_read_item *grown = esp_arena_grow(reads->arena, reads->item, &reads->item_cap,
                                                 reads->keys.count, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    reads->item = grown;
    *known = *number < count;
    if (*known) {
        return ESP_OK;
    }
    struct esp_read_item *kept = &grown[*number];
    *kept = (struct esp_read_item){.pk = item->value[schema->pk]};
    kept->sk.type = ESP_TYPE_NONE;
    if (schema->sk >= 0) {
        kept->sk = item->value[schema->sk];
    }
    bool copied = copy_value(reads->arena, &kept->pk) && copy_value(reads->arena, &kept->sk);
    return copied ? ESP_OK : ESP_ERR_NOMEM;
}

/* Two answers that tell different things of one item: what was planned from them is of no one
 * time.  A payload counts only for edits that put it elsewhere. */
static enum esp_status keep_item(void *ctx, int index, const struct esp_item *item) {
    struct esp_reads *reads = ctx;
    const struct esp_schema *schema = reads->schema;
    uint32_t number;
    bool known;
    enum esp_status status = find_room(reads, item, &number, &known);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_read_item *kept = &reads->item[number];
    bool whole = index == ESP_PRIMARY || schema->index[index].projection == ESP_PROJECT_ALL;
    uint32_t attributes = attributes_of(schema, item, whole);
    if (known && !same_structure(schema, kept, item, attributes)) {
        reads->mixed = number;
        return ESP_ERR_CONFLICT;
    }
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (attributes >> i & 1) {
            kept->attr[i] = digest_of(schema, item, i);
        }
    }
    kept->attributes |= attributes;
    if (whole) {
        uint64_t payload = payload_of(schema, item);
        if (kept->whole && payload != kept->payload) {
            reads->mixed_payload = number;
        }
        kept->payload = payload;
        kept->whole = true;
    }
    kept->bytes = esp_item_size(schema, item);
    return ESP_OK;
}

static bool copy_query(struct esp_arena *arena, const struct esp_query *from,
                       struct esp_query *to) {
    struct esp_condition *filter = esp_arena_calloc(arena, from->filter_count + 1, sizeof *filter);
    *to = *from;
    to->filter = filter;
    to->limit = 0;
    to->consistent = true; /* where that can be */
    bool copied = filter && copy_value(arena, &to->pk) && copy_value(arena, &to->lo) &&
                  copy_value(arena, &to->hi);
    for (size_t i = 0; copied && i < from->filter_count; i++) {
        filter[i] = from->filter[i];
        if (filter[i].name.len) {
            filter[i].name = esp_arena_dup(arena, filter[i].name);
        }
        copied = (filter[i].name.len == 0 || filter[i].name.ptr) &&
                 copy_value(arena, &filter[i].lo) && copy_value(arena, &filter[i].hi);
    }
    return copied;
}

static int sort_key_of(const struct esp_schema *schema, int index) {
    return index == ESP_PRIMARY ? schema->sk : schema->index[index].sk;
}

static enum esp_status keep_range(void *ctx, const struct esp_query *query, bool begun,
                                  const struct esp_cursor *end) {
    struct esp_reads *reads = ctx;
    struct esp_read_range *last = NULL;
    int sk = sort_key_of(reads->schema, query->index);
    for (uint32_t i = reads->range_count; begun && !last && i > 0; i--) {
        struct esp_read_range *range = &reads->range[i - 1];
        last = range->open && range->source == query ? range : NULL;
    }
    if (!last) {
        struct esp_read_range *grown = esp_arena_grow(reads->arena, reads->range, &reads->range_cap,
                                                      reads->range_count + 1, sizeof *grown);
        if (!grown) {
            return ESP_ERR_NOMEM;
        }
        reads->range = grown;
        last = &grown[reads->range_count];
        *last = (struct esp_read_range){.source = query};
        if (!copy_query(reads->arena, query, &last->query)) {
            return ESP_ERR_NOMEM;
        }
        reads->range_count++;
    }
    last->open = end->set;
    last->last = (struct esp_value){.type = ESP_TYPE_NONE};
    if (end->set && sk >= 0) {
        last->last = end->key.value[sk];
    }
    return copy_value(reads->arena, &last->last) ? ESP_OK : ESP_ERR_NOMEM;
}

void esp_reads_init(struct esp_reads *reads, const struct esp_schema *schema,
                    struct esp_arena *arena) {
    *reads = (struct esp_reads){
        .schema = schema, .arena = arena, .mixed = ESP_IDMAP_NONE, .mixed_payload = ESP_IDMAP_NONE};
    reads->watch = (struct esp_watch){keep_item, keep_range, reads};
    esp_idmap_init(&reads->keys, arena);
}

/* --- verifying ---------------------------------------------------------------------------- */

struct verifier {
    const struct esp_reads *reads;
    const struct esp_images *images;
    struct esp_session *session;
    bool payload;
    struct esp_error *err;
    struct esp_arena arena;
    const struct esp_read_range *range;
};

static enum esp_status conflict(struct verifier *v, const struct esp_item *item, const char *what) {
    struct esp_str key = esp_item_key_text(v->reads->schema, item, &v->arena);
    return esp_fail(v->err, ESP_ERR_CONFLICT, "another writer %s the item %.*s", what,
                    ESP_FMT(key));
}

static struct esp_read_item *find(const struct esp_reads *reads, const struct esp_item *item) {
    struct esp_key key;
    esp_key_of_item(reads->schema, item, &key);
    uint32_t number = esp_idmap_find(&reads->keys, esp_key_str(&key));
    return number == ESP_IDMAP_NONE ? NULL : &reads->item[number];
}

static struct esp_item key_of(const struct esp_schema *schema, const struct esp_read_item *kept) {
    struct esp_item key = {.data = {0}};
    key.value[schema->pk] = kept->pk;
    if (schema->sk >= 0) {
        key.value[schema->sk] = kept->sk;
    }
    return key;
}

static bool is_same(const struct esp_schema *schema, const struct esp_read_item *kept,
                    const struct esp_item *item, bool payload) {
    return same_structure(schema, kept, item, kept->attributes) &&
           (!payload || !kept->whole || payload_of(schema, item) == kept->payload);
}

static enum esp_status compare_item(void *ctx, const struct esp_item *item) {
    struct verifier *v = ctx;
    const struct esp_schema *schema = v->reads->schema;
    struct esp_read_item *kept = find(v->reads, item);
    if (!kept) { /* a store that answers what was not asked for */
        return ESP_ERR_INTERNAL;
    }
    kept->again = true;
    return is_same(schema, kept, item, v->payload) ? ESP_OK : conflict(v, item, "changed");
}

static enum esp_status verify_items(struct verifier *v) {
    const struct esp_reads *reads = v->reads;
    struct esp_item *keys = esp_arena_calloc(&v->arena, READ_KEYS, sizeof *keys);
    enum esp_status status = keys ? ESP_OK : esp_fail_nomem(v->err);
    for (uint32_t at = 0; status == ESP_OK && at < reads->keys.count;) {
        uint32_t from = at, n = 0;
        for (; at < reads->keys.count && n < READ_KEYS; at++) {
            struct esp_item key = key_of(reads->schema, &reads->item[at]);
            reads->item[at].again = esp_images_find(v->images, &key) != NULL;
            if (!reads->item[at].again) {
                keys[n++] = key;
            }
        }
        status = esp_session_get(v->session, keys, n, true, compare_item, v, v->err);
        for (uint32_t i = from; status == ESP_OK && i < at; i++) {
            if (!reads->item[i].again) {
                struct esp_item key = key_of(reads->schema, &reads->item[i]);
                status = conflict(v, &key, "deleted");
            }
        }
    }
    return status;
}

/* Past what was read?  Later items of the answer are so too. */
static bool is_beyond(const struct verifier *v, const struct esp_item *item) {
    const struct esp_read_range *range = v->range;
    int sk = sort_key_of(v->reads->schema, range->query.index);
    if (range->last.type == ESP_TYPE_NONE || item->value[sk].type != range->last.type) {
        return false;
    }
    int order = esp_value_cmp(&item->value[sk], &range->last);
    return range->query.reverse ? order < 0 : order > 0;
}

static enum esp_status look_for_new(void *ctx, const struct esp_item *item) {
    struct verifier *v = ctx;
    if (is_beyond(v, item)) {
        return ESP_STOP;
    }
    return find(v->reads, item) || esp_images_find(v->images, item) ? ESP_OK
                                                                    : conflict(v, item, "put");
}

/* Ranges that were read to their ends need not be told apart: they are asked for together. */
static enum esp_status verify_closed(struct verifier *v) {
    const struct esp_reads *reads = v->reads;
    struct esp_query *q = esp_arena_calloc(&v->arena, READ_RANGES, sizeof *q);
    static const struct esp_read_range to_its_end = {.open = false};
    enum esp_status status = q ? ESP_OK : esp_fail_nomem(v->err);
    v->range = &to_its_end;
    for (uint32_t at = 0; status == ESP_OK && at < reads->range_count;) {
        size_t n = 0;
        for (; at < reads->range_count && n < READ_RANGES; at++) {
            const struct esp_read_range *range = &reads->range[at];
            if (!range->open && range->last.type == ESP_TYPE_NONE) {
                q[n++] = range->query;
            }
        }
        status = esp_session_query_many(v->session, q, n, look_for_new, v, v->err);
    }
    return status;
}

static enum esp_status verify_ranges(struct verifier *v) {
    enum esp_status status = verify_closed(v);
    for (uint32_t i = 0; status == ESP_OK && i < v->reads->range_count; i++) {
        v->range = &v->reads->range[i];
        if (v->range->last.type == ESP_TYPE_NONE) {
            continue; /* looked at, or without a sort key: nobody knows what was read of it */
        }
        status = esp_session_query(v->session, &v->range->query, look_for_new, v, v->err);
        status = status == ESP_STOP ? ESP_OK : status;
    }
    return status;
}

double esp_reads_key_units(const struct esp_reads *reads, const struct esp_images *images) {
    double units = 0;
    for (uint32_t i = 0; i < reads->keys.count; i++) {
        struct esp_item key = key_of(reads->schema, &reads->item[i]);
        if (!esp_images_find(images, &key)) {
            units += esp_read_units(reads->item[i].bytes, true);
        }
    }
    return units;
}

/* --- one's own plan ----------------------------------------------------------------------- */

static enum esp_status overtaken(const struct esp_reads *reads, uint32_t number,
                                 struct esp_error *err) {
    struct esp_item key = key_of(reads->schema, &reads->item[number]);
    struct esp_str text = esp_item_key_text(reads->schema, &key, reads->arena);
    return esp_fail(err, ESP_ERR_CONFLICT,
                    "another writer changed the item %.*s while the edit was planned",
                    ESP_FMT(text));
}

enum esp_status esp_reads_agree(const struct esp_reads *reads, const struct esp_images *images,
                                bool payload, struct esp_error *err) {
    if (esp_reads_are_mixed(reads)) {
        return overtaken(reads, reads->mixed, err);
    }
    if (payload && reads->mixed_payload != ESP_IDMAP_NONE) {
        return overtaken(reads, reads->mixed_payload, err);
    }
    for (uint32_t i = 0; i < images->count; i++) {
        const struct esp_image *image = &images->image[i];
        const struct esp_read_item *kept = find(reads, esp_image_item(image));
        if (kept &&
            (!image->has_before || !is_same(reads->schema, kept, &image->before, payload))) {
            return overtaken(reads, (uint32_t)(kept - reads->item), err);
        }
    }
    return ESP_OK;
}

/* --- later -------------------------------------------------------------------------------- */

enum esp_status esp_reads_verify(const struct esp_reads *reads, const struct esp_images *images,
                                 struct esp_session *session, bool payload, struct esp_error *err) {
    struct verifier v = {
        .reads = reads, .images = images, .session = session, .payload = payload, .err = err};
    esp_arena_init(&v.arena, images->arena->alloc, SIZE_MAX);
    enum esp_status status = verify_items(&v);
    if (status == ESP_OK) {
        status = verify_ranges(&v);
    }
    esp_arena_fini(&v.arena);
    return status;
}
