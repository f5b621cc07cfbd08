/*
 * Records in any order -> forest.
 *
 * Adding: the record's text is copied at once; looking up its id and its parent's waits
 * until a batch is full, so that the cache misses of a batch overlap.  A parent that has not
 * been seen becomes a placeholder node that its record fills in later.
 *
 * Freezing: tree/numbering.h puts the nodes in pre-order.
 */
#include "tree/forest_owner.h"
#include "tree/id_table.h"
#include "tree/numbering.h"

#include <stdio.h>

enum { BATCH_RECORDS = 32, AHEAD = 16, SHOWN_BYTES_MAX = 300, NAMES_BYTES_MAX = 4 << 20 };
#define PLACEHOLDER UINT32_MAX /* data_len of a node whose record has not come */

/* A record whose ids are still to be looked up. */
struct pending {
    struct esp_node_text *text;
    size_t parent_at, parent_len; /* in parent_bytes; len 0: a root */
    uint32_t tag, parent_tag;
    bool same_parent; /* as the row before: rows often come sibling after sibling */
};

/* A further parent of a node, from a later row (several_parents). */
struct further {
    esp_node child, parent;
    uint32_t line;
};

struct esp_forest_builder {
    const struct esp_alloc *alloc;
    char source[256];
    const char *(*locate)(void *ctx, uint64_t *line); /* see struct esp_forest_options */
    void *locate_ctx;
    bool own_id_is_root, several_parents;
    uint64_t memory_limit;

    struct text_chunks chunks;
    struct text_chunks placeholders; /* ids of parents that came before their record */
    struct id_table ids;

    uint32_t count; /* nodes, placeholders included */
    char **text;    /* struct esp_node_text of each */
    esp_node *parent;
    esp_node *order;  /* nodes in the order their records came */
    uint32_t arrived; /* records so far */
    struct further *further;
    uint32_t further_count;
    uint32_t text_cap, parent_cap, order_cap, further_cap;
    uint64_t id_bytes, data_bytes; /* of these records */
    uint32_t id_len_max, data_size_max;
    bool id_has[256];
    struct names names;

    struct pending batch[BATCH_RECORDS];
    size_t batch_count;
    esp_node last_parent; /* of the row looked up last, when it had one */
    struct esp_buf parent_bytes;
};

static struct esp_node_text *text_of(const struct esp_forest_builder *b, esp_node v) {
    return (void *)b->text[v];
}

static struct esp_str id_of(const struct esp_forest_builder *b, esp_node v) {
    return (struct esp_str){text_of(b, v)->bytes, text_of(b, v)->id_len};
}

/* As much of an id as leaves room for the rest of a sentence. */
static struct esp_str shown(struct esp_str id) {
    return (struct esp_str){id.ptr, id.len < SHOWN_BYTES_MAX ? id.len : SHOWN_BYTES_MAX};
}

/* Add the place to an error that has none yet; line 0: only the file is known. */
static enum esp_status fail_at(const struct esp_forest_builder *b, struct esp_error *err,
                               enum esp_status status, uint64_t line) {
    if (err && err->status == status && !err->source[0]) {
        const char *source = b->locate && line ? b->locate(b->locate_ctx, &line) : b->source;
        snprintf(err->source, sizeof err->source, "%s", source);
        err->line = line;
    }
    return status;
}

/* ": it is on line 7 already", in which file too when there are several. */
static void say_where(const struct esp_forest_builder *b, uint64_t line, char *out, size_t size) {
    const char *source = b->locate && line ? b->locate(b->locate_ctx, &line) : NULL;
    out[0] = 0;
    if (line) {
        snprintf(out, size, ": it is on line %llu%s%.200s already", (unsigned long long)line,
                 source ? " of " : "", source ? source : "");
    }
}

enum esp_status esp_forest_builder_new(const struct esp_alloc *alloc,
                                       const struct esp_forest_options *options,
                                       struct esp_forest_builder **out, struct esp_error *err) {
    struct esp_forest_builder *b = esp_calloc(alloc, 1, sizeof *b);
    if (!b) {
        return esp_fail_nomem(err);
    }
    b->alloc = alloc;
    esp_arena_init(&b->names.arena, alloc, NAMES_BYTES_MAX);
    esp_buf_init(&b->parent_bytes, alloc, (size_t)BATCH_RECORDS * ESP_ID_BYTES_MAX);
    if (options) {
        snprintf(b->source, sizeof b->source, "%s", options->source ? options->source : "");
        b->locate = options->locate;
        b->locate_ctx = options->locate_ctx;
        b->own_id_is_root = options->own_id_is_root;
        b->several_parents = options->several_parents;
        b->memory_limit = options->memory_limit;
    }
    if (id_table_init(&b->ids, alloc, 0) != ESP_OK) {
        esp_forest_builder_free(b);
        return esp_fail_nomem(err);
    }
    *out = b;
    return ESP_OK;
}

static void free_array(const struct esp_alloc *alloc, void *array, size_t count, size_t size) {
    if (array) {
        esp_big_free(alloc, array, count * size);
    }
}

void esp_forest_builder_free(struct esp_forest_builder *b) {
    if (!b) {
        return;
    }
    text_chunks_free(&b->chunks, b->alloc);
    text_chunks_free(&b->placeholders, b->alloc);
    esp_arena_fini(&b->names.arena);
    id_table_fini(&b->ids);
    free_array(b->alloc, b->text, b->text_cap, sizeof *b->text);
    free_array(b->alloc, b->parent, b->parent_cap, sizeof *b->parent);
    free_array(b->alloc, b->order, b->order_cap, sizeof *b->order);
    free_array(b->alloc, b->further, b->further_cap, sizeof *b->further);
    esp_buf_fini(&b->parent_bytes);
    esp_release(b->alloc, b, sizeof *b);
}

/* --- adding ----------------------------------------------------------------------- */

static enum esp_status check_limit(const struct esp_forest_builder *b, uint64_t bytes,
                                   struct esp_error *err) {
    if (b->memory_limit && bytes > b->memory_limit) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "the tree needs more than the memory limit of %llu MiB after %u rows",
                        (unsigned long long)(b->memory_limit >> 20), b->arrived);
    }
    return ESP_OK;
}

static uint64_t bytes_in_use(const struct esp_forest_builder *b) {
    return b->chunks.bytes + b->placeholders.bytes + id_table_bytes(&b->ids) +
           (uint64_t)b->text_cap * sizeof *b->text + (uint64_t)b->parent_cap * sizeof *b->parent +
           (uint64_t)b->order_cap * sizeof *b->order +
           (uint64_t)b->further_cap * sizeof *b->further;
}

static bool resize_array(const struct esp_alloc *alloc, void **array, size_t size, uint32_t *cap,
                         uint32_t new_cap) {
    void *resized = esp_big_resize(alloc, *array, *cap * size, new_cap * size);
    if (!resized) {
        return false;
    }
    *array = resized;
    *cap = new_cap;
    return true;
}

/* Room for one more element after `used`. */
static enum esp_status grow_array(struct esp_forest_builder *b, void **array, size_t size,
                                  uint32_t *cap, uint32_t used, struct esp_error *err) {
    if (used < *cap) {
        return ESP_OK;
    }
    if (used == ESP_NODE_NONE - 1) {
        return esp_fail(err, ESP_ERR_LIMIT, "more than %u nodes", used);
    }
    uint64_t want = *cap ? (uint64_t)*cap + *cap / 2 : 256;
    want = want < ESP_NODE_NONE - 1 ? want : ESP_NODE_NONE - 1;
    if (!resize_array(b->alloc, array, size, cap, (uint32_t)want)) {
        return esp_fail_nomem(err);
    }
    return check_limit(b, bytes_in_use(b), err);
}

/* Give back the slack of the arrays; one that cannot be made smaller keeps it. */
static void shrink_arrays(struct esp_forest_builder *b) {
    (void)(resize_array(b->alloc, (void **)&b->text, sizeof *b->text, &b->text_cap, b->count) &&
           resize_array(b->alloc, (void **)&b->parent, sizeof *b->parent, &b->parent_cap,
                        b->count) &&
           resize_array(b->alloc, (void **)&b->order, sizeof *b->order, &b->order_cap, b->arrived));
}

static enum esp_status new_node(struct esp_forest_builder *b, struct esp_node_text *text,
                                uint32_t tag, esp_node *out, struct esp_error *err) {
    enum esp_status status =
        grow_array(b, (void **)&b->text, sizeof *b->text, &b->text_cap, b->count, err);
    if (status == ESP_OK) {
        status =
            grow_array(b, (void **)&b->parent, sizeof *b->parent, &b->parent_cap, b->count, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (id_table_add(&b->ids, tag, b->count) != ESP_OK) {
        return esp_fail_nomem(err);
    }
    b->text[b->count] = (char *)text;
    b->parent[b->count] = ESP_NODE_NONE;
    *out = b->count++;
    return ESP_OK;
}

static struct esp_node_text *new_text(struct text_chunks *chunks, const struct esp_alloc *alloc,
                                      struct esp_str id, struct esp_data data, uint64_t line) {
    struct esp_node_text *text = text_chunks_alloc(chunks, alloc, sizeof *text + id.len + data.len);
    if (text) {
        text->line = line < UINT32_MAX ? (uint32_t)line : UINT32_MAX;
        text->id_len = (uint16_t)id.len;
        text->data_len = data.len;
        text->data_size = data.size;
        memcpy(text->bytes, id.ptr, id.len);
        if (data.len) {
            memcpy(text->bytes + id.len, data.text, data.len);
        }
    }
    return text;
}

/* The node of a parent id, made as a placeholder when it is not known. */
static enum esp_status intern_parent(struct esp_forest_builder *b, const struct pending *row,
                                     esp_node *out, struct esp_error *err) {
    if (row->same_parent) {
        *out = b->last_parent;
        return ESP_OK;
    }
    struct esp_str id = {b->parent_bytes.ptr + row->parent_at, row->parent_len};
    *out = id_table_find(&b->ids, (const char *const *)b->text, id, row->parent_tag);
    if (*out != ESP_NODE_NONE) {
        return ESP_OK;
    }
    struct esp_data none = {NULL, 0, 0};
    struct esp_node_text *text = new_text(&b->placeholders, b->alloc, id, none, row->text->line);
    if (!text) {
        return esp_fail_nomem(err);
    }
    text->data_len = PLACEHOLDER;
    return new_node(b, text, row->parent_tag, out, err);
}

static enum esp_status fail_twice(const struct esp_forest_builder *b, struct esp_str id,
                                  uint64_t line, bool below, struct esp_error *err) {
    char where[280];
    say_where(b, line, where, sizeof where);
    return esp_fail(
        err, ESP_ERR_DUPLICATE, "the id '%.*s' occurs a second time%s; ids must be unique%s",
        ESP_FMT(shown(id)), where,
        below && !b->several_parents ? ": only --layout graph takes a node with several parents"
                                     : "");
}

/* A row of a node that is there.  Its payload, if any, must be the first row's. */
static enum esp_status add_further(struct esp_forest_builder *b, const struct pending *row,
                                   esp_node v, struct esp_error *err) {
    const struct esp_node_text *first = text_of(b, v), *text = row->text;
    struct esp_str id = id_of(b, v);
    struct esp_str data = {text->bytes + text->id_len, text->data_len};
    struct esp_str known = {first->bytes + first->id_len, first->data_len};
    esp_node parent;
    if (!b->several_parents || row->parent_len == 0) {
        return fail_twice(b, id, first->line, row->parent_len > 0, err);
    }
    if (data.len && !esp_str_eq(data, known)) {
        char where[280];
        say_where(b, first->line, where, sizeof where);
        return esp_fail(err, ESP_ERR_DUPLICATE,
                        "the id '%.*s' occurs a second time with other attributes%s: a row for a "
                        "further parent has the same ones, or none",
                        ESP_FMT(shown(id)), where);
    }
    enum esp_status status = intern_parent(b, row, &parent, err);
    if (status == ESP_OK) {
        b->last_parent = parent;
        status = grow_array(b, (void **)&b->further, sizeof *b->further, &b->further_cap,
                            b->further_count, err);
    }
    if (status == ESP_OK) {
        b->further[b->further_count++] = (struct further){v, parent, text->line};
        b->id_bytes -= text->id_len; /* it was counted as a node */
        b->data_bytes -= text->data_size;
    }
    return status;
}

static enum esp_status intern(struct esp_forest_builder *b, const struct pending *row,
                              struct esp_error *err) {
    struct esp_str id = {row->text->bytes, row->text->id_len};
    esp_node v = id_table_find(&b->ids, (const char *const *)b->text, id, row->tag);
    enum esp_status status = ESP_OK;
    if (v == ESP_NODE_NONE) {
        status = new_node(b, row->text, row->tag, &v, err);
    } else if (text_of(b, v)->data_len == PLACEHOLDER) {
        b->text[v] = (char *)row->text;
    } else {
        return add_further(b, row, v, err);
    }
    if (status == ESP_OK && row->parent_len) {
        esp_node parent;
        status = intern_parent(b, row, &parent, err);
        if (status == ESP_OK) {
            b->parent[v] = b->last_parent = parent;
        }
    }
    if (status == ESP_OK) {
        status =
            grow_array(b, (void **)&b->order, sizeof *b->order, &b->order_cap, b->arrived, err);
    }
    if (status == ESP_OK) {
        b->order[b->arrived++] = v;
    }
    return status;
}

/* Bring what a look-up will touch into the cache: slots first, then ids. */
static void prefetch_ids(const struct esp_forest_builder *b) {
    esp_node likely[2 * BATCH_RECORDS];
    size_t n = 0;
    for (size_t i = 0; i < b->batch_count; i++) {
        const struct pending *row = &b->batch[i];
        esp_node v = id_table_guess(&b->ids, row->tag);
        if (v != ESP_NODE_NONE) {
            __builtin_prefetch(&b->parent[v], 1);
            likely[n++] = v;
        }
        if (row->parent_len && !row->same_parent) {
            v = id_table_guess(&b->ids, row->parent_tag);
            if (v != ESP_NODE_NONE) {
                likely[n++] = v;
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        __builtin_prefetch(&b->text[likely[i]]);
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = b->text[likely[i]];
        __builtin_prefetch(text);
        __builtin_prefetch(text + 2 * sizeof(struct esp_node_text)); /* ids may span two lines */
    }
}

static enum esp_status flush(struct esp_forest_builder *b, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    prefetch_ids(b);
    for (size_t i = 0; i < b->batch_count && status == ESP_OK; i++) {
        status = intern(b, &b->batch[i], err);
        if (status != ESP_OK) {
            status = fail_at(b, err, status, b->batch[i].text->line);
        }
    }
    b->batch_count = 0;
    esp_buf_reset(&b->parent_bytes);
    return status;
}

/* Keep the parent's id until the row is looked up. */
static bool pend_parent(struct esp_forest_builder *b, struct pending *row, struct esp_str parent) {
    if (b->batch_count && parent.len) {
        const struct pending *before = row - 1;
        if (before->parent_len == parent.len &&
            memcmp(b->parent_bytes.ptr + before->parent_at, parent.ptr, parent.len) == 0) {
            row->same_parent = true;
            row->parent_at = before->parent_at;
            return true;
        }
    }
    row->parent_at = b->parent_bytes.len;
    if (parent.len) {
        row->parent_tag = id_tag(parent);
        __builtin_prefetch(&b->ids.slot[id_home(&b->ids, row->parent_tag)]);
        esp_buf_put_str(&b->parent_bytes, parent);
    }
    return !b->parent_bytes.failed;
}

/* A list without one of the names would be no answer: what cannot be kept makes it unknown. */
static void note_names(struct esp_forest_builder *b, const struct esp_record *record) {
    b->names.incomplete |= !record->names_known && record->data.len;
    for (size_t i = 0; i < record->new_name_count && !b->names.incomplete; i++) {
        struct listed_name *name = esp_arena_alloc(&b->names.arena, sizeof *name);
        struct esp_str copy = {NULL, 0};
        if (name) {
            copy = esp_arena_dup(&b->names.arena, record->new_names[i]);
        }
        if (copy.ptr) {
            *name = (struct listed_name){b->names.head, copy};
            b->names.head = name;
        } else {
            b->names.incomplete = true;
        }
    }
}

/* What layouts would otherwise have to ask every node for. */
static void note_facts(struct esp_forest_builder *b, const struct esp_record *record) {
    uint32_t id_len = (uint32_t)record->id.len, data_size = record->data.size;
    b->id_bytes += id_len;
    b->data_bytes += data_size;
    b->id_len_max = id_len > b->id_len_max ? id_len : b->id_len_max;
    b->data_size_max = data_size > b->data_size_max ? data_size : b->data_size_max;
    for (uint32_t i = 0; i < id_len; i++) {
        b->id_has[(unsigned char)record->id.ptr[i]] = true;
    }
    note_names(b, record);
}

enum esp_status esp_forest_builder_add(struct esp_forest_builder *b,
                                       const struct esp_record *record, struct esp_error *err) {
    struct esp_str parent = record->parent_id;
    if (record->id.len == 0 || record->id.len > ESP_ID_BYTES_MAX || parent.len > ESP_ID_BYTES_MAX) {
        enum esp_status status = record->id.len == 0 ? ESP_ERR_INPUT : ESP_ERR_LIMIT;
        if (record->id.len == 0) {
            esp_fail(err, status, "the id is empty");
        } else {
            esp_fail(err, status, "an id of %zu bytes: DynamoDB takes %d at most",
                     record->id.len > parent.len ? record->id.len : parent.len, ESP_ID_BYTES_MAX);
        }
        return fail_at(b, err, status, record->line);
    }
    if (esp_str_eq(record->id, parent)) {
        if (!b->own_id_is_root) {
            esp_fail(err, ESP_ERR_CYCLE, "'%.*s' is its own parent", ESP_FMT(shown(record->id)));
            return fail_at(b, err, ESP_ERR_CYCLE, record->line);
        }
        parent.len = 0;
    }
    struct pending *row = &b->batch[b->batch_count];
    uint64_t bytes_before = b->chunks.bytes;
    *row = (struct pending){.tag = id_tag(record->id), .parent_len = parent.len};
    __builtin_prefetch(&b->ids.slot[id_home(&b->ids, row->tag)]);
    row->text = new_text(&b->chunks, b->alloc, record->id, record->data, record->line);
    if (!row->text || !pend_parent(b, row, parent)) {
        return esp_fail_nomem(err);
    }
    note_facts(b, record);
    b->batch_count++;
    if (b->chunks.bytes != bytes_before) {
        enum esp_status status = check_limit(b, bytes_in_use(b), err);
        if (status != ESP_OK) {
            return fail_at(b, err, status, record->line);
        }
    }
    return b->batch_count == BATCH_RECORDS ? flush(b, err) : ESP_OK;
}

/* --- checking ------------------------------------------------------------------------ */

static enum esp_status check_orphans(const struct esp_forest_builder *b, struct esp_error *err) {
    if (b->arrived == b->count) {
        return ESP_OK; /* no placeholder is left */
    }
    esp_node first = ESP_NODE_NONE, missing = ESP_NODE_NONE;
    uint32_t orphans = 0, line = 0;
    for (uint32_t i = 0; i < b->arrived + b->further_count; i++) {
        bool further = i >= b->arrived;
        esp_node v = further ? b->further[i - b->arrived].child : b->order[i];
        esp_node p = further ? b->further[i - b->arrived].parent : b->parent[v];
        if (p != ESP_NODE_NONE && text_of(b, p)->data_len == PLACEHOLDER) {
            orphans++;
            if (first == ESP_NODE_NONE) {
                first = v;
                missing = p;
                line = further ? b->further[i - b->arrived].line : text_of(b, v)->line;
            }
        }
    }
    char more[64] = "";
    if (orphans > 1) {
        snprintf(more, sizeof more, "; %u more rows name a missing parent", orphans - 1);
    }
    esp_fail(err, ESP_ERR_ORPHAN, "the parent '%.*s' of '%.*s' is not in the input%s",
             ESP_FMT(shown(id_of(b, missing))), ESP_FMT(shown(id_of(b, first))), more);
    return fail_at(b, err, ESP_ERR_ORPHAN, line);
}

/* `inside` is a node that no root leads to; its ancestors lead into a cycle. */
static enum esp_status report_cycle(const struct esp_forest_builder *b, esp_node inside,
                                    struct esp_error *err) {
    for (uint32_t i = 0; i < b->count; i++) {
        inside = b->parent[inside]; /* after `count` steps up we are on the cycle */
    }
    esp_node first = inside;
    uint32_t length = 0;
    for (esp_node v = inside; length == 0 || v != inside; v = b->parent[v]) {
        first = text_of(b, v)->line < text_of(b, first)->line ? v : first;
        length++;
    }
    struct esp_str closing = shown(id_of(b, first));
    char text[sizeof err->message];
    size_t room = sizeof text - 96 - closing.len, len = 0; /* 96: the words around the ids */
    esp_node v = first;
    uint32_t named = 0;
    for (; named < length; named++, v = b->parent[v]) {
        struct esp_str id = shown(id_of(b, v));
        if (len + id.len + 4 > room) {
            break;
        }
        len += (size_t)snprintf(text + len, sizeof text - len, "%.*s -> ", ESP_FMT(id));
    }
    text[len] = 0;
    char rest[32] = "";
    if (named < length) {
        snprintf(rest, sizeof rest, "%u more -> ", length - named);
    }
    esp_fail(err, ESP_ERR_CYCLE, "a cycle of %u nodes, each the child of the next: %s%s%.*s",
             length, text, rest, ESP_FMT(closing));
    return fail_at(b, err, ESP_ERR_CYCLE, text_of(b, first)->line);
}

/* --- numbering ----------------------------------------------------------------------- */

/* Bytes a node while everything is moved to its place: `text` (8), the numbering (16) and
 * the forest's own arrays (20). */
enum { FREEZE_BYTES = 44 };

static bool new_arrays(struct esp_forest_owner *owner, uint32_t count) {
    owner->count = count;
    owner->parent = esp_big_alloc(owner->alloc, count * sizeof *owner->parent);
    owner->size = esp_big_alloc(owner->alloc, count * sizeof *owner->size);
    owner->depth = esp_big_alloc(owner->alloc, count * sizeof *owner->depth);
    owner->text = esp_big_alloc(owner->alloc, count * sizeof *owner->text);
    return owner->parent && owner->size && owner->depth && owner->text;
}

/* Scatter everything from level order to its pre-order position. */
static void fill_forest(const struct esp_forest_builder *b, const struct numbering *n,
                        struct esp_forest *f) {
    struct esp_forest_owner *owner = f->owner;
    uint32_t depth = 0, level_start = 0;
    for (uint32_t at = 0; at < n->count; at++) {
        if (at + AHEAD < n->count) {
            uint32_t ahead = n->position[at + AHEAD];
            __builtin_prefetch(&b->text[n->level[at + AHEAD]]);
            __builtin_prefetch(&owner->parent[ahead], 1);
            __builtin_prefetch(&owner->size[ahead], 1);
            __builtin_prefetch(&owner->depth[ahead], 1);
            __builtin_prefetch(&owner->text[ahead], 1);
        }
        uint32_t position = n->position[at];
        if (at < n->root_count) {
            owner->parent[position] = ESP_NODE_NONE;
        } else {
            if (n->above[at] >= level_start) { /* the first node below the current level */
                depth++;
                level_start = at;
            }
            owner->parent[position] = n->position[n->above[at]];
        }
        owner->size[position] = n->size[at];
        owner->depth[position] = depth;
        owner->text[position] = b->text[n->level[at]];
    }
    f->depth_max = depth;
    f->id_bytes = b->id_bytes;
    f->data_bytes = b->data_bytes;
    f->id_len_max = b->id_len_max;
    f->data_size_max = b->data_size_max;
    memcpy(f->id_has, b->id_has, sizeof f->id_has);
}

static enum esp_status fail_with_cycle(const struct esp_forest_builder *b,
                                       const struct numbering *n, struct esp_error *err) {
    uint32_t *reached = n->above; /* no longer needed: now 1 for nodes that a root leads to */
    memset(reached, 0, n->count * sizeof *reached);
    for (uint32_t at = 0; at < n->reached; at++) {
        reached[n->level[at]] = 1;
    }
    esp_node inside = 0;
    while (reached[inside]) {
        inside++;
    }
    return report_cycle(b, inside, err);
}

/* All rows are looked up; are they a forest as far as single rows can tell? */
static enum esp_status check_rows(struct esp_forest_builder *b, struct esp_error *err) {
    enum esp_status status = flush(b, err);
    if (status != ESP_OK) {
        return status;
    }
    if (b->count == 0) {
        esp_fail(err, ESP_ERR_INPUT, "the input holds no rows");
        return fail_at(b, err, ESP_ERR_INPUT, 0);
    }
    return check_orphans(b, err);
}

/* Further parents become links between nodes as the forest numbers them. */
static enum esp_status fill_links(const struct esp_forest_builder *b, const struct numbering *n,
                                  struct esp_forest *f, struct esp_error *err) {
    if (b->further_count == 0) {
        return ESP_OK;
    }
    esp_node *position = esp_big_alloc(b->alloc, n->count * sizeof *position);
    struct esp_link *link = esp_arena_calloc(&f->owner->links, b->further_count, sizeof *link);
    enum esp_status status = position && link ? ESP_OK : esp_fail_nomem(err);
    for (uint32_t at = 0; status == ESP_OK && at < n->count; at++) {
        position[n->level[at]] = n->position[at];
    }
    for (uint32_t i = 0; status == ESP_OK && i < b->further_count; i++) {
        link[i].child = position[b->further[i].child];
        link[i].parent = position[b->further[i].parent];
        link[i].line = b->further[i].line;
        link[i].number = i;
    }
    if (position) {
        esp_big_free(b->alloc, position, n->count * sizeof *position);
    }
    if (status == ESP_OK) {
        struct esp_error inner = ESP_ERROR_INIT;
        status = forest_set_links(f, link, b->further_count, &inner);
        if (status != ESP_OK) {
            esp_fail(err, status, "%s", inner.message);
            status = fail_at(b, err, status, inner.line);
        }
    }
    return status;
}

static enum esp_status freeze(struct esp_forest_builder *b, struct numbering *n,
                              struct esp_forest *f, struct esp_error *err) {
    enum esp_status status = check_rows(b, err);
    if (status != ESP_OK) {
        return status;
    }
    id_table_fini(&b->ids);
    text_chunks_free(&b->placeholders, b->alloc);
    shrink_arrays(b);
    status = check_limit(b, b->chunks.bytes + (uint64_t)b->count * FREEZE_BYTES, err);
    if (status != ESP_OK) {
        return fail_at(b, err, status, 0);
    }
    n->count = b->count;
    if (!numbering_levels(n, b->parent, b->order)) {
        return esp_fail_nomem(err);
    }
    if (n->reached < n->count) {
        return fail_with_cycle(b, n, err);
    }
    free_array(b->alloc, b->order, b->order_cap, sizeof *b->order);
    free_array(b->alloc, b->parent, b->parent_cap, sizeof *b->parent);
    b->order = b->parent = NULL;
    if (!numbering_positions(n) || !new_arrays(f->owner, n->count)) {
        return esp_fail_nomem(err);
    }
    fill_forest(b, n, f);
    forest_adopt(f, n->count, n->root_count, &b->chunks, &b->names);
    f->several_sources = b->locate != NULL;
    return fill_links(b, n, f, err);
}

enum esp_status esp_forest_freeze(struct esp_forest_builder *b, struct esp_forest **out,
                                  struct esp_error *err) {
    struct numbering n = {.alloc = b->alloc};
    struct esp_forest *f = forest_new(b->alloc);
    enum esp_status status = f ? freeze(b, &n, f, err) : esp_fail_nomem(err);
    if (status == ESP_OK) {
        *out = f;
    } else {
        esp_forest_free(f);
    }
    numbering_fini(&n);
    esp_forest_builder_free(b);
    return status;
}
