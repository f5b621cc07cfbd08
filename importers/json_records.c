#include "importers/json_records.h"
#include "core/number.h"
#include "importers/columns.h"
#include "importers/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <yajl/yajl_parse.h>

/* What an outermost value, or the value of a key, is taken for. */
enum state {
    AT_TOP,    /* nothing yet */
    IN_ROOTS,  /* between the records of the outermost array */
    IN_RECORD, /* before a key */
    AT_ID,     /* before the value of such a key */
    AT_PARENT,
    AT_CHILDREN,
    AT_ATTRIBUTE,
    IN_CHILDREN,    /* between the records of a children array */
    MAYBE_ENVELOPE, /* an array as the first member of the outermost object */
    AFTER_ENVELOPE,
    DONE,
};
enum role { ATTRIBUTE, ID, PARENT, CHILDREN };

/* A key that records have. */
struct key {
    struct esp_column column;
    uint32_t hash;
    uint32_t next; /* the key that came after it last time: very likely again */
    enum role role;
};

/* A record whose object is still open. */
struct frame {
    struct esp_json_place place;
    size_t text_start, ids_start, members_start, pending_start; /* in the stacks */
    size_t id, parent;                                          /* in `ids` */
    uint32_t id_len, parent_len;
    uint32_t size;
    bool has_id, has_parent, has_children;
};

/* A child that waits for its parent's id; id, parent and data follow. */
struct pending {
    struct esp_json_place place;
    uint32_t id_len, parent_len, data_len, size;
};

struct esp_json_records {
    const struct esp_source_options *options;
    const struct esp_alloc *alloc;
    esp_record_fn *emit;
    void *emit_ctx;
    bool lines, survey;

    yajl_handle parser;
    struct esp_error *err;
    enum esp_status status; /* of the callback that stopped yajl */
    struct esp_json_text text;
    size_t token_end;                  /* in the piece: where the last whole token ends */
    char separator;                    /* what may come before the next; 0 = nothing more */
    bool token_open;                   /* a token goes on from an earlier piece ... */
    struct esp_json_place token_place; /* ... and begins here */

    struct esp_arena arena; /* names */
    struct esp_buf keys;    /* struct key */
    uint32_t *slots;        /* hash table of keys, 1-based; slot_count is a power of two */
    uint32_t slot_count, last_key;
    bool id_known, parent_known, seen_relation;

    enum state state;
    bool in_array;                   /* the records stand in an outermost array */
    const struct esp_column *column; /* AT_ATTRIBUTE, MAYBE_ENVELOPE */
    struct esp_buf frames, ids, members, pending, data;
    struct esp_encoder encoder;
    uint64_t count;
};

/* --- stacks -------------------------------------------------------------------------- */

static size_t frame_count(const struct esp_json_records *r) {
    return r->frames.len / sizeof(struct frame);
}

/* The innermost open record; there is one. */
static struct frame *top_frame(struct esp_json_records *r) {
    return (struct frame *)(void *)(r->frames.ptr + r->frames.len) - 1;
}

static struct key *key_at(const struct esp_json_records *r, uint32_t index) {
    return (struct key *)(void *)r->keys.ptr + index;
}

static struct esp_str frame_id(const struct esp_json_records *r, const struct frame *frame) {
    return (struct esp_str){r->ids.ptr + frame->id, frame->id_len};
}

static size_t skip_blanks(struct esp_str text, size_t at) {
    while (at < text.len && memchr(" \t\r\n", text.ptr[at], 4)) {
        at++;
    }
    return at;
}

/* Where the token after the last whole one begins.  The separator that may stand before it
 * is none; a second one, or the wrong one, is. */
static struct esp_json_place token_place(struct esp_json_records *r) {
    if (r->token_open) {
        return r->token_place;
    }
    struct esp_str piece = r->text.piece;
    size_t at = skip_blanks(piece, r->token_end);
    if (at < piece.len && r->separator && piece.ptr[at] == r->separator) {
        r->separator = 0;
        r->token_end = at + 1;
        at = skip_blanks(piece, at + 1);
    }
    return esp_json_text_place(&r->text, r->text.piece_offset + at);
}

/* The stacks' own limits, which are far above what fits into memory on most machines. */
static enum esp_status stack_failure(const struct esp_json_records *r) {
    if (r->pending.failed && r->pending.len > ESP_JSON_PENDING_BYTES_MAX / 2) {
        return esp_fail(r->err, ESP_ERR_LIMIT,
                        "more than %d MiB of children come before their parent's id: put the id "
                        "before the children",
                        ESP_JSON_PENDING_BYTES_MAX >> 20);
    }
    if (r->data.failed && r->data.len > ESP_JSON_OPEN_BYTES_MAX / 2) {
        return esp_fail(r->err, ESP_ERR_LIMIT, "the open records hold more than %d MiB",
                        ESP_JSON_OPEN_BYTES_MAX >> 20);
    }
    return esp_fail_nomem(r->err);
}

/* --- emitting ------------------------------------------------------------------------- */

static enum esp_status emit(struct esp_json_records *r, const struct esp_record *record,
                            const struct esp_json_place *place) {
    r->count++;
    enum esp_status status = r->emit(r->emit_ctx, record, r->err);
    if (status != ESP_OK) {
        esp_json_error_place(r->err, place);
    }
    return status;
}

/* A child whose parent's id is known.  A parent it names itself must be the same. */
static enum esp_status emit_child(struct esp_json_records *r, struct esp_record *child,
                                  struct esp_str parent, const struct esp_json_place *place) {
    struct esp_str named = esp_parent_resolve(child->id, child->parent_id, r->options);
    enum esp_status status = ESP_OK;
    if (named.len && !esp_str_eq(named, parent)) {
        status =
            esp_fail(r->err, ESP_ERR_INPUT,
                     "the record says that its parent is '%.*s', but stands in the children of "
                     "'%.*s'",
                     named.len > 100 ? 100 : (int)named.len, named.ptr,
                     parent.len > 100 ? 100 : (int)parent.len, parent.ptr);
    } else if (esp_str_eq(child->id, parent)) {
        status =
            esp_fail(r->err, ESP_ERR_INPUT, "the record has the id of the record it stands in");
    }
    if (status != ESP_OK) {
        esp_json_error_place(r->err, place);
        return status;
    }
    child->parent_id = parent;
    return emit(r, child, place);
}

static enum esp_status put_pending(struct esp_json_records *r, const struct esp_record *child,
                                   const struct esp_json_place *place) {
    struct pending head = {*place, (uint32_t)child->id.len, (uint32_t)child->parent_id.len,
                           child->data.len, child->data.size};
    esp_buf_put(&r->pending, &head, sizeof head);
    esp_buf_put_str(&r->pending, child->id);
    esp_buf_put_str(&r->pending, child->parent_id);
    esp_buf_put(&r->pending, child->data.text, child->data.len);
    return r->pending.failed ? stack_failure(r) : ESP_OK;
}

/* The children of the innermost record that waited for its id. `parent` empty = roots. */
static enum esp_status emit_pending(struct esp_json_records *r, struct esp_str parent) {
    size_t start = top_frame(r)->pending_start;
    for (size_t at = start; at < r->pending.len;) {
        struct pending head;
        memcpy(&head, r->pending.ptr + at, sizeof head);
        const char *bytes = r->pending.ptr + at + sizeof head;
        struct esp_record child = {
            .id = {bytes, head.id_len},
            .parent_id = {bytes + head.id_len, head.parent_len},
            .data = {bytes + head.id_len + head.parent_len, head.data_len, head.size},
            .line = head.place.line,
        };
        if (!parent.len) {
            child.parent_id = esp_parent_resolve(child.id, child.parent_id, r->options);
        }
        enum esp_status status =
            parent.len ? emit_child(r, &child, parent, &head.place) : emit(r, &child, &head.place);
        if (status != ESP_OK) {
            return status;
        }
        at += sizeof head + head.id_len + head.parent_len + head.data_len;
    }
    r->pending.len = start;
    return ESP_OK;
}

/* --- keys ----------------------------------------------------------------------------- */

/* "id, name, pop": the attributes met so far, as many as fit. */
static const char *list_keys(const struct esp_json_records *r, char out[512]) {
    size_t len = 0, count = r->keys.len / sizeof(struct key);
    out[0] = 0;
    for (uint32_t i = 0; i < count && len < 440; i++) {
        struct esp_str name = key_at(r, i)->column.name;
        len += (size_t)snprintf(out + len, 512 - len, "%s%.*s", i ? ", " : "",
                                name.len > 60 ? 60 : (int)name.len, name.ptr);
    }
    return out;
}

static enum esp_status set_role(struct esp_json_records *r, struct key *key, enum role role) {
    key->role = role;
    r->id_known |= role == ID;
    r->parent_known |= role == PARENT;
    if ((role == ID || role == PARENT) && key->column.type[0] &&
        strcmp(key->column.type, "S") != 0) {
        return esp_fail(r->err, ESP_ERR_USAGE,
                        "--column %.*s:%s: ids are text (S), whatever they look like",
                        ESP_FMT(key->column.name), key->column.type);
    }
    return ESP_OK;
}

/* What a key met for the first time is. */
static enum role role_of_name(const struct esp_json_records *r, struct esp_str name) {
    const struct esp_source_options *o = r->options;
    if (o->id && esp_str_eq(name, esp_str_from(o->id))) {
        return ID;
    }
    if (o->parent && esp_str_eq(name, esp_str_from(o->parent))) {
        return PARENT;
    }
    if (esp_str_eq(name, esp_str_from(o->children ? o->children : "children"))) {
        return CHILDREN;
    }
    if (!r->survey && !o->id && !r->id_known && esp_usual_id(name)) {
        return ID;
    }
    if (!r->survey && !o->parent && !r->parent_known && esp_usual_parent(name)) {
        return PARENT;
    }
    return ATTRIBUTE;
}

/* Twice the slots, so that no more than half of them are taken. */
static bool grow_slots(struct esp_json_records *r) {
    uint32_t count = r->slot_count ? 2 * r->slot_count : 256;
    uint32_t *slots = esp_calloc(r->alloc, count, sizeof *slots);
    if (!slots) {
        return false;
    }
    for (uint32_t k = 0; k < r->keys.len / sizeof(struct key); k++) {
        uint32_t at = key_at(r, k)->hash & (count - 1);
        while (slots[at]) {
            at = (at + 1) & (count - 1);
        }
        slots[at] = k + 1;
    }
    esp_release(r->alloc, r->slots, r->slot_count * sizeof *slots);
    r->slots = slots;
    r->slot_count = count;
    return true;
}

static enum esp_status add_key(struct esp_json_records *r, struct esp_str name, uint32_t hash,
                               uint32_t *out) {
    uint32_t count = (uint32_t)(r->keys.len / sizeof(struct key));
    if (count == ESP_JSON_KEYS_MAX) {
        return esp_fail(r->err, ESP_ERR_LIMIT, "the records have more than %d different keys",
                        ESP_JSON_KEYS_MAX);
    }
    struct key key = {.hash = hash, .role = role_of_name(r, name)};
    enum esp_status status = esp_name_check(name, r->err);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_str copy = esp_arena_dup(&r->arena, name);
    if (!copy.ptr) {
        return esp_fail_nomem(r->err);
    }
    status = esp_column_init(&key.column, &r->arena, copy, r->options, r->err);
    if (status != ESP_OK) {
        return status;
    }
    esp_buf_put(&r->keys, &key, sizeof key);
    if (r->keys.failed || (2 * (count + 1) > r->slot_count && !grow_slots(r))) {
        return esp_fail_nomem(r->err);
    }
    uint32_t at = hash & (r->slot_count - 1);
    while (r->slots[at] && r->slots[at] != count + 1) { /* grow_slots may have put it */
        at = (at + 1) & (r->slot_count - 1);
    }
    r->slots[at] = count + 1;
    *out = count;
    return set_role(r, key_at(r, count), key.role);
}

/* The key of this name; most often the one that followed the last key the last time. */
static enum esp_status find_key(struct esp_json_records *r, struct esp_str name, uint32_t *out) {
    if (r->keys.len) {
        uint32_t likely = key_at(r, r->last_key)->next;
        if (esp_str_eq(key_at(r, likely)->column.name, name)) {
            *out = r->last_key = likely;
            return ESP_OK;
        }
    }
    uint32_t hash = (uint32_t)esp_hash64(name.ptr, name.len, 0);
    uint32_t found = 0;
    for (uint32_t at = hash; r->slot_count; at++) {
        found = r->slots[at & (r->slot_count - 1)];
        if (!found || (key_at(r, found - 1)->hash == hash &&
                       esp_str_eq(key_at(r, found - 1)->column.name, name))) {
            break;
        }
    }
    uint32_t index = found - 1;
    if (!found) {
        enum esp_status status = add_key(r, name, hash, &index);
        if (status != ESP_OK) {
            return status;
        }
    }
    key_at(r, r->last_key)->next = index;
    *out = r->last_key = index;
    return ESP_OK;
}

static enum esp_status repeated_key(struct esp_json_records *r, struct esp_str name) {
    return esp_fail(r->err, ESP_ERR_INPUT, "the record has the key '%.*s' twice",
                    name.len > 100 ? 100 : (int)name.len, name.ptr);
}

static enum esp_status begin_member(struct esp_json_records *r, struct esp_str name) {
    uint32_t index;
    enum esp_status status = find_key(r, name, &index);
    if (status != ESP_OK) {
        return status;
    }
    const struct key *key = key_at(r, index);
    struct frame *frame = top_frame(r);
    static const enum state states[] = {AT_ATTRIBUTE, AT_ID, AT_PARENT, AT_CHILDREN};
    r->state = states[key->role];
    r->column = &key->column;
    bool *seen = key->role == ID         ? &frame->has_id
                 : key->role == PARENT   ? &frame->has_parent
                 : key->role == CHILDREN ? &frame->has_children
                                         : NULL;
    if (seen) {
        r->seen_relation |= key->role != ID;
        return *seen ? repeated_key(r, name) : (*seen = true, ESP_OK);
    }
    const uint32_t *members = (const void *)(r->members.ptr + frame->members_start);
    size_t count = (r->members.len - frame->members_start) / sizeof *members;
    for (size_t i = 0; i < count; i++) {
        if (members[i] == index) {
            return repeated_key(r, name);
        }
    }
    esp_buf_put(&r->members, &index, sizeof index);
    return r->members.failed ? esp_fail_nomem(r->err) : ESP_OK;
}

/* --- records -------------------------------------------------------------------------- */

static enum esp_status open_record(struct esp_json_records *r) {
    if (frame_count(r) == ESP_JSON_DEPTH_MAX) {
        return esp_fail(r->err, ESP_ERR_LIMIT, "records are nested deeper than %d levels",
                        ESP_JSON_DEPTH_MAX);
    }
    struct frame frame = {
        .place = esp_json_text_place(&r->text,
                                     r->text.piece_offset + yajl_get_bytes_consumed(r->parser) - 1),
        .text_start = r->data.len,
        .ids_start = r->ids.len,
        .members_start = r->members.len,
        .pending_start = r->pending.len,
    };
    esp_buf_put(&r->frames, &frame, sizeof frame);
    r->state = IN_RECORD;
    return r->frames.failed ? esp_fail_nomem(r->err) : ESP_OK;
}

static void pop_frame(struct esp_json_records *r) {
    const struct frame *frame = top_frame(r);
    r->data.len = frame->text_start;
    r->ids.len = frame->ids_start;
    r->members.len = frame->members_start;
    r->pending.len = frame->pending_start;
    r->frames.len -= sizeof *frame;
    r->state = frame_count(r) ? IN_CHILDREN : r->in_array ? IN_ROOTS : DONE;
}

static enum esp_status missing_id(struct esp_json_records *r, const struct frame *frame) {
    char list[512];
    enum esp_status status;
    if (r->id_known || r->options->id) {
        struct esp_str name = esp_str_from(r->options->id);
        for (uint32_t i = 0; i < r->keys.len / sizeof(struct key); i++) {
            if (key_at(r, i)->role == ID) {
                name = key_at(r, i)->column.name;
            }
        }
        status = esp_fail(r->err, ESP_ERR_INPUT, "the record has no id (its key '%.*s' is missing)",
                          name.len > 100 ? 100 : (int)name.len, name.ptr);
    } else {
        status = esp_fail(r->err, ESP_ERR_INPUT,
                          "no key looks like the record's id; the keys are %s: name one with --id",
                          list_keys(r, list));
    }
    esp_json_error_place(r->err, &frame->place);
    return status;
}

static enum esp_status close_record(struct esp_json_records *r) {
    struct frame *frame = top_frame(r);
    enum esp_status status = ESP_OK;
    if (r->survey) {
        pop_frame(r);
        return ESP_OK;
    }
    if (r->data.failed) {
        return stack_failure(r);
    }
    if (!frame->has_id) {
        /* {"children": [...]} and nothing else: an envelope after all. */
        if (frame_count(r) > 1 || r->lines || !frame->has_children || frame->has_parent ||
            r->data.len > frame->text_start) {
            return missing_id(r, frame);
        }
        status = emit_pending(r, (struct esp_str){NULL, 0});
        pop_frame(r);
        return status;
    }
    struct esp_record record = {
        .id = frame_id(r, frame),
        .parent_id = {r->ids.ptr + frame->parent, frame->parent_len},
        .data = {r->data.ptr + frame->text_start, (uint32_t)(r->data.len - frame->text_start),
                 frame->size},
        .line = frame->place.line,
    };
    struct esp_json_place place = frame->place;
    if (frame_count(r) == 1) {
        record.parent_id = esp_parent_resolve(record.id, record.parent_id, r->options);
        status = emit(r, &record, &place);
    } else if (frame[-1].has_id) {
        status = emit_child(r, &record, frame_id(r, &frame[-1]), &place);
    } else {
        /* Its own children are done, so its part of `pending` is empty. */
        status = put_pending(r, &record, &place);
        frame->pending_start = r->pending.len;
    }
    pop_frame(r);
    return status;
}

/* Text or a number; numbers in canonical form, so that 1 and 1.0 are the same id. */
static enum esp_status set_id(struct esp_json_records *r, struct esp_str text, bool number,
                              const char *what, size_t *at, uint32_t *len) {
    char canonical[ESP_NUMBER_TEXT_MAX];
    bool whole = true;
    for (size_t i = 0; number && i < text.len; i++) {
        whole &= text.ptr[i] >= '0' && text.ptr[i] <= '9';
    }
    if (!whole) {
        struct esp_number value;
        enum esp_status status = esp_number_parse(text, &value, r->err);
        if (status != ESP_OK) {
            return status;
        }
        text = (struct esp_str){canonical, esp_number_format(&value, canonical)};
    }
    if (text.len > ESP_ID_BYTES_MAX || (!text.len && strcmp(what, "id") == 0)) {
        return esp_id_check(text, what, r->err);
    }
    *at = r->ids.len;
    *len = (uint32_t)text.len;
    esp_buf_put_str(&r->ids, text);
    return r->ids.failed ? esp_fail_nomem(r->err) : ESP_OK;
}

/* --- values --------------------------------------------------------------------------- */

enum scalar { SCALAR_NULL, SCALAR_TRUE, SCALAR_FALSE, SCALAR_NUMBER, SCALAR_STRING };

static enum esp_status encode_scalar(struct esp_json_records *r, enum scalar kind,
                                     struct esp_str text) {
    switch (kind) {
    case SCALAR_NULL:
        return esp_encode_null(&r->encoder, r->err);
    case SCALAR_TRUE:
    case SCALAR_FALSE:
        return esp_encode_bool(&r->encoder, kind == SCALAR_TRUE, r->err);
    case SCALAR_NUMBER:
        return esp_encode_number(&r->encoder, text, r->err);
    case SCALAR_STRING:
    default:
        return esp_encode_string(&r->encoder, text, r->err);
    }
}

/* The comma before every member but the first. */
static void separate_attributes(struct esp_json_records *r) {
    if (r->data.len > top_frame(r)->text_start) {
        esp_buf_put_char(&r->data, ',');
    }
}

static void begin_attribute(struct esp_json_records *r) {
    separate_attributes(r);
    esp_buf_put(&r->data, r->column->json_prefix, r->column->json_prefix_len);
    r->encoder.size = top_frame(r)->size + (uint32_t)r->column->name.len;
}

static enum esp_status end_attribute(struct esp_json_records *r) {
    r->state = IN_RECORD;
    top_frame(r)->size = r->encoder.size;
    return r->data.failed ? stack_failure(r) : esp_data_check(&r->data, r->encoder.size, r->err);
}

/* The type the JSON value has by itself is the one --column wants. */
static bool is_natural(const char *type, enum scalar kind) {
    switch (kind) {
    case SCALAR_NULL:
        return true;
    case SCALAR_TRUE:
    case SCALAR_FALSE:
        return strcmp(type, "BOOL") == 0;
    case SCALAR_NUMBER:
        return strcmp(type, "N") == 0;
    case SCALAR_STRING:
    default:
        return strcmp(type, "S") == 0;
    }
}

static enum esp_status scalar_attribute(struct esp_json_records *r, enum scalar kind,
                                        struct esp_str text) {
    const char *type = r->column->type;
    if (type[0] && !is_natural(type, kind)) {
        struct esp_str value = kind == SCALAR_TRUE    ? ESP_STR("true")
                               : kind == SCALAR_FALSE ? ESP_STR("false")
                                                      : text;
        r->state = IN_RECORD;
        if (value.len == 0) { /* no number, no set: absent */
            return ESP_OK;
        }
        separate_attributes(r);
        return esp_column_put(r->column, value, false, &r->data, &top_frame(r)->size, r->err);
    }
    begin_attribute(r);
    enum esp_status status = encode_scalar(r, kind, text);
    return status == ESP_OK ? end_attribute(r) : status;
}

static enum esp_status open_attribute(struct esp_json_records *r, bool map) {
    const char *type = r->column->type;
    enum esp_encoder_kind kind = map                       ? ESP_ENCODE_M
                                 : strcmp(type, "SS") == 0 ? ESP_ENCODE_SS
                                 : strcmp(type, "NS") == 0 ? ESP_ENCODE_NS
                                                           : ESP_ENCODE_L;
    if (type[0] && kind <= ESP_ENCODE_M && strcmp(type, map ? "M" : "L") != 0) {
        return esp_fail(r->err, ESP_ERR_INPUT, "the key '%.*s' is to be %s, but here is %s",
                        ESP_FMT(r->column->name), type, map ? "an object" : "an array");
    }
    begin_attribute(r);
    return esp_encode_open(&r->encoder, kind, r->err);
}

/* An array at the start of the outermost object does not hold records: an attribute. */
static enum esp_status leave_envelope(struct esp_json_records *r) {
    r->state = AT_ATTRIBUTE;
    return open_attribute(r, false);
}

/* A value where the format has none of its kind. */
static enum esp_status unexpected(struct esp_json_records *r, const char *what) {
    switch (r->state) {
    case AT_TOP:
        return esp_fail(r->err, ESP_ERR_INPUT,
                        r->lines
                            ? "a line must be an object, but here is %s"
                            : "the records must stand in an array or an object, but here is %s",
                        what);
    case AT_ID:
        return esp_fail(r->err, ESP_ERR_INPUT, "an id must be text or a number, but here is %s",
                        what);
    case AT_PARENT:
        return esp_fail(r->err, ESP_ERR_INPUT,
                        "a parent's id must be text, a number or null, but here is %s: name "
                        "another key with --parent",
                        what);
    case AT_CHILDREN:
        return esp_fail(r->err, ESP_ERR_INPUT,
                        "the children must be an array of records, but here is %s", what);
    case DONE:
        return esp_fail(r->err, ESP_ERR_INPUT, "a second value in one line: %s", what);
    default:
        return esp_fail(r->err, ESP_ERR_INPUT, "a record must be an object, but here is %s", what);
    }
}

static enum esp_status take_scalar(struct esp_json_records *r, enum scalar kind,
                                   struct esp_str text) {
    static const char *const names[] = {"null", "true", "false", "a number", "a string"};
    struct frame *frame;
    enum esp_status status;
    switch (r->state) {
    case AT_ATTRIBUTE:
        return scalar_attribute(r, kind, text);
    case AT_ID:
        if (kind < SCALAR_NUMBER) {
            return unexpected(r, names[kind]);
        }
        frame = top_frame(r);
        status = set_id(r, text, kind == SCALAR_NUMBER, "id", &frame->id, &frame->id_len);
        r->state = IN_RECORD;
        return status == ESP_OK && !r->survey ? emit_pending(r, frame_id(r, frame)) : status;
    case AT_PARENT:
        r->state = kind == SCALAR_NULL || kind >= SCALAR_NUMBER ? IN_RECORD : AT_PARENT;
        if (r->state == AT_PARENT) {
            return unexpected(r, names[kind]);
        }
        frame = top_frame(r);
        return kind == SCALAR_NULL ? ESP_OK
                                   : set_id(r, text, kind == SCALAR_NUMBER, "parent's id",
                                            &frame->parent, &frame->parent_len);
    case AT_CHILDREN:
        if (kind != SCALAR_NULL) {
            return unexpected(r, names[kind]);
        }
        r->state = IN_RECORD;
        return ESP_OK;
    case MAYBE_ENVELOPE:
        status = leave_envelope(r);
        return status == ESP_OK ? encode_scalar(r, kind, text) : status;
    default:
        return unexpected(r, names[kind]);
    }
}

static enum esp_status take_open_map(struct esp_json_records *r) {
    switch (r->state) {
    case AT_TOP:
    case IN_ROOTS:
    case IN_CHILDREN:
        return open_record(r);
    case MAYBE_ENVELOPE: /* an array of objects: the records */
        pop_frame(r);
        r->in_array = true;
        return open_record(r);
    case AT_ATTRIBUTE:
        return open_attribute(r, true);
    default:
        return unexpected(r, "an object");
    }
}

static enum esp_status take_open_array(struct esp_json_records *r) {
    const struct frame *frame;
    enum esp_status status;
    switch (r->state) {
    case AT_TOP:
        if (r->lines) {
            return unexpected(r, "an array");
        }
        r->in_array = true;
        r->state = IN_ROOTS;
        return ESP_OK;
    case AT_CHILDREN:
        r->state = IN_CHILDREN;
        return ESP_OK;
    case AT_ATTRIBUTE:
        frame = top_frame(r);
        if (!r->lines && !r->in_array && frame_count(r) == 1 && !frame->has_id &&
            !frame->has_parent && !frame->has_children && r->data.len == frame->text_start &&
            r->column->type[0] == 0) {
            r->state = MAYBE_ENVELOPE;
            return ESP_OK;
        }
        return open_attribute(r, false);
    case MAYBE_ENVELOPE:
        status = leave_envelope(r);
        return status == ESP_OK ? esp_encode_open(&r->encoder, ESP_ENCODE_L, r->err) : status;
    default:
        return unexpected(r, "an array");
    }
}

static enum esp_status take_close_array(struct esp_json_records *r) {
    enum esp_status status;
    switch (r->state) {
    case IN_CHILDREN:
        r->state = IN_RECORD;
        return ESP_OK;
    case MAYBE_ENVELOPE:
        status = leave_envelope(r);
        if (status == ESP_OK) {
            status = esp_encode_close(&r->encoder, r->err);
        }
        return status == ESP_OK ? end_attribute(r) : status;
    default: /* IN_ROOTS; an envelope goes on, but may hold nothing more */
        r->state = AFTER_ENVELOPE;
        return ESP_OK;
    }
}

/* --- yajl's events --------------------------------------------------------------------- */

/* What every event ends with; `separator` = what may follow it before the next event. */
static int after(struct esp_json_records *r, enum esp_status status, char separator) {
    if (status != ESP_OK) {
        r->status = status;
        return 0;
    }
    r->separator = separator;
    r->token_end = yajl_get_bytes_consumed(r->parser);
    r->token_open = false;
    return 1;
}

static int on_scalar(struct esp_json_records *r, enum scalar kind, struct esp_str text) {
    return after(r, r->encoder.depth ? encode_scalar(r, kind, text) : take_scalar(r, kind, text),
                 ',');
}

static int on_null(void *ctx) {
    return on_scalar(ctx, SCALAR_NULL, (struct esp_str){NULL, 0});
}

static int on_boolean(void *ctx, int value) {
    return on_scalar(ctx, value ? SCALAR_TRUE : SCALAR_FALSE, (struct esp_str){NULL, 0});
}

static int on_number(void *ctx, const char *text, size_t len) {
    return on_scalar(ctx, SCALAR_NUMBER, (struct esp_str){text, len});
}

static int on_string(void *ctx, const unsigned char *text, size_t len) {
    return on_scalar(ctx, SCALAR_STRING, (struct esp_str){(const char *)text, len});
}

static int on_open_map(void *ctx) {
    struct esp_json_records *r = ctx;
    return after(
        r, r->encoder.depth ? esp_encode_open(&r->encoder, ESP_ENCODE_M, r->err) : take_open_map(r),
        0);
}

static int on_key(void *ctx, const unsigned char *text, size_t len) {
    struct esp_json_records *r = ctx;
    struct esp_str name = {(const char *)text, len};
    enum esp_status status;
    if (r->encoder.depth) {
        status = esp_encode_key(&r->encoder, name, r->err);
    } else if (r->state == AFTER_ENVELOPE) {
        status = esp_fail(r->err, ESP_ERR_INPUT,
                          "the object around the array of records may hold nothing else");
    } else {
        status = begin_member(r, name);
    }
    return after(r, status, ':');
}

static int on_open_array(void *ctx) {
    struct esp_json_records *r = ctx;
    return after(r,
                 r->encoder.depth ? esp_encode_open(&r->encoder, ESP_ENCODE_L, r->err)
                                  : take_open_array(r),
                 0);
}

static int on_close(struct esp_json_records *r, bool map) {
    enum esp_status status;
    if (r->encoder.depth) {
        status = esp_encode_close(&r->encoder, r->err);
        if (status == ESP_OK && r->encoder.depth == 0) {
            status = end_attribute(r);
        }
    } else if (!map) {
        status = take_close_array(r);
    } else if (r->state == AFTER_ENVELOPE) {
        r->state = DONE;
        status = ESP_OK;
    } else {
        status = close_record(r);
    }
    return after(r, status, ',');
}

static int on_close_map(void *ctx) {
    return on_close(ctx, true);
}

static int on_close_array(void *ctx) {
    return on_close(ctx, false);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_open_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_close_map,
    .yajl_start_array = on_open_array,
    .yajl_end_array = on_close_array,
};

/* --- yajl's memory ---------------------------------------------------------------------
 * yajl grows its stack by 128 bytes at a time, which is quadratic in the depth where
 * realloc has to copy: here blocks grow to twice their size.  It does not look whether it
 * got memory, so this is the one place that does not take it from the caller's allocator. */

struct block {
    size_t size; /* of `bytes` */
    size_t unused;
    char bytes[];
};

static void *resize_block(void *ctx, void *old, size_t size) {
    (void)ctx;
    struct block *block = old ? (struct block *)(void *)((char *)old - sizeof *block) : NULL;
    size_t old_size = block ? block->size : 0;
    if (size > old_size || !block) {
        size_t wanted = size > 2 * old_size ? size : 2 * old_size;
        block = esp_resize(&esp_alloc_libc, block, block ? sizeof *block + old_size : 0,
                           sizeof *block + wanted);
        if (!block) {
            return NULL;
        }
        block->size = wanted;
    }
    return block->bytes;
}

static void *new_block(void *ctx, size_t size) {
    return resize_block(ctx, NULL, size);
}

static void free_block(void *ctx, void *bytes) {
    (void)ctx;
    if (bytes) {
        struct block *block = (struct block *)(void *)((char *)bytes - sizeof *block);
        esp_release(&esp_alloc_libc, block, sizeof *block + block->size);
    }
}

static enum esp_status new_parser(struct esp_json_records *r) {
    yajl_alloc_funcs memory = {new_block, resize_block, free_block, NULL};
    if (r->parser) {
        yajl_free(r->parser);
    }
    r->parser = yajl_alloc(&callbacks, &memory, r); /* which it copies */
    if (!r->parser || !yajl_config(r->parser, yajl_dont_validate_strings, 1) ||
        !yajl_config(r->parser, yajl_allow_multiple_values, r->lines ? 1 : 0)) {
        return esp_fail_nomem(r->err);
    }
    return ESP_OK;
}

/* --- feeding --------------------------------------------------------------------------- */

enum esp_status esp_json_records_new(const struct esp_source_options *options, bool lines,
                                     const struct esp_alloc *alloc, esp_record_fn *emit_record,
                                     void *ctx, struct esp_json_records **out,
                                     struct esp_error *err) {
    *out = NULL;
    enum esp_status status = esp_column_options_check(options, err);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_json_records *r = esp_calloc(alloc, 1, sizeof *r);
    if (!r) {
        return esp_fail_nomem(err);
    }
    *r = (struct esp_json_records){.options = options,
                                   .alloc = alloc,
                                   .emit = emit_record,
                                   .emit_ctx = ctx,
                                   .lines = lines,
                                   .err = err};
    esp_json_text_init(&r->text, 0);
    esp_arena_init(&r->arena, alloc, SIZE_MAX);
    esp_buf_init(&r->keys, alloc, ESP_JSON_KEYS_MAX * sizeof(struct key));
    esp_buf_init(&r->frames, alloc, ESP_JSON_DEPTH_MAX * sizeof(struct frame));
    esp_buf_init(&r->ids, alloc, 2 * (size_t)ESP_JSON_OPEN_BYTES_MAX);
    esp_buf_init(&r->members, alloc, ESP_JSON_OPEN_BYTES_MAX);
    esp_buf_init(&r->pending, alloc, ESP_JSON_PENDING_BYTES_MAX);
    esp_buf_init(&r->data, alloc, ESP_JSON_OPEN_BYTES_MAX);
    esp_encoder_init(&r->encoder, alloc, &r->data);
    /* Never empty, so that pointers into them are pointers. */
    bool got = esp_buf_reserve(&r->ids, 256) && esp_buf_reserve(&r->members, 256) &&
               esp_buf_reserve(&r->pending, 256) && esp_buf_reserve(&r->data, 256) &&
               esp_buf_reserve(&r->encoder.names, 256);
    status = got ? new_parser(r) : esp_fail_nomem(err);
    if (status != ESP_OK) {
        esp_json_records_free(r);
        return status;
    }
    *out = r;
    return ESP_OK;
}

void esp_json_records_free(struct esp_json_records *r) {
    if (!r) {
        return;
    }
    if (r->parser) {
        yajl_free(r->parser);
    }
    esp_encoder_fini(&r->encoder);
    esp_buf_fini(&r->data);
    esp_buf_fini(&r->pending);
    esp_buf_fini(&r->members);
    esp_buf_fini(&r->ids);
    esp_buf_fini(&r->frames);
    esp_buf_fini(&r->keys);
    esp_arena_fini(&r->arena);
    esp_release(r->alloc, r->slots, r->slot_count * sizeof *r->slots);
    esp_release(r->alloc, r, sizeof *r);
}

/* Empty stacks, as before the first byte; the keys stay. */
static enum esp_status restart(struct esp_json_records *r, uint64_t offset) {
    esp_json_text_init(&r->text, offset);
    esp_buf_reset(&r->frames);
    esp_buf_reset(&r->ids);
    esp_buf_reset(&r->members);
    esp_buf_reset(&r->pending);
    esp_buf_reset(&r->data);
    esp_buf_reset(&r->encoder.names);
    r->encoder.depth = 0;
    r->state = AT_TOP;
    r->in_array = r->token_open = r->seen_relation = false;
    r->separator = 0;
    r->status = ESP_OK;
    r->count = 0;
    return new_parser(r);
}

/* The best of the usual names becomes what `rank` ranks names for. */
static enum esp_status choose_role(struct esp_json_records *r, int (*rank)(struct esp_str name),
                                   enum role role) {
    struct key *best = NULL;
    for (uint32_t i = 0; i < r->keys.len / sizeof(struct key); i++) {
        struct key *key = key_at(r, i);
        if (key->role == ATTRIBUTE &&
            rank(key->column.name) > (best ? rank(best->column.name) : 0)) {
            best = key;
        }
    }
    return best ? set_role(r, best, role) : ESP_OK;
}

enum esp_status esp_json_records_begin(struct esp_json_records *r, struct esp_reader *in,
                                       size_t *skip, struct esp_error *err) {
    struct esp_str head;
    enum esp_status status = esp_reader_peek(in, ESP_JSON_HEAD_BYTES, &head, err);
    if (status != ESP_OK) {
        return status;
    }
    *skip = head.len >= 3 && memcmp(head.ptr, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    /* A pass that emits nothing; the real pass reports what is wrong with the text. */
    r->survey = true;
    r->err = NULL;
    r->text.piece = (struct esp_str){head.ptr + *skip, head.len - *skip};
    (void)yajl_parse(r->parser, (const unsigned char *)head.ptr + *skip, head.len - *skip);
    r->survey = false;
    r->err = err;
    status = restart(r, *skip);
    if (status == ESP_OK && !r->options->id) {
        status = choose_role(r, esp_usual_id, ID);
    }
    if (status == ESP_OK && !r->options->parent) {
        status = choose_role(r, esp_usual_parent, PARENT);
    }
    return status;
}

/* yajl stopped: by a callback, or because the text is not JSON. */
static enum esp_status fail_parse(struct esp_json_records *r) {
    if (r->status != ESP_OK) {
        struct esp_json_place place = token_place(r);
        esp_json_error_place(r->err, &place);
        return r->status;
    }
    /* "lexical error: invalid char in json text.\n" */
    unsigned char *reason = yajl_get_error(r->parser, 0, NULL, 0);
    const char *text = reason ? (const char *)reason : "syntax error";
    const char *colon = strstr(text, ": ");
    text = colon ? colon + 2 : text;
    enum esp_status status =
        esp_fail(r->err, ESP_ERR_INPUT, "not valid JSON: %.*s", (int)strcspn(text, ".\n"), text);
    if (reason) {
        yajl_free_error(r->parser, reason);
    }
    struct esp_json_place place = token_place(r);
    esp_json_error_place(r->err, &place);
    return status;
}

static enum esp_status feed(struct esp_json_records *r, struct esp_str bytes) {
    struct esp_error *err = r->err;
    if (bytes.len == 0) {
        return ESP_OK;
    }
    size_t good = esp_json_text_take(&r->text, bytes);
    r->token_end = 0;
    if (yajl_parse(r->parser, (const unsigned char *)bytes.ptr, good) != yajl_status_ok) {
        return fail_parse(r);
    }
    if (good < bytes.len) {
        return esp_json_text_fail(&r->text, err);
    }
    if (!r->token_open) {
        struct esp_json_place place = token_place(r);
        r->token_open = place.offset < r->text.piece_offset + bytes.len;
        r->token_place = place;
    } else if (r->text.piece_offset + bytes.len - r->token_place.offset >
               ESP_JSON_TOKEN_BYTES_MAX) {
        enum esp_status status =
            esp_fail(err, ESP_ERR_LIMIT, "the value that begins here is longer than %d MiB",
                     ESP_JSON_TOKEN_BYTES_MAX >> 20);
        esp_json_error_place(err, &r->token_place);
        return status;
    }
    esp_json_text_leave(&r->text);
    return ESP_OK;
}

/* The text (`what`: the file, the line) is over at `place`, and should not be. */
static enum esp_status fail_end(struct esp_json_records *r, const char *what,
                                struct esp_json_place place) {
    enum esp_status status;
    if (r->frames.len) {
        status = esp_fail(r->err, ESP_ERR_INPUT,
                          "the %s ends within the record that begins on line %llu", what,
                          (unsigned long long)top_frame(r)->place.line);
    } else {
        status =
            esp_fail(r->err, ESP_ERR_INPUT, "the %s ends too early: it is not whole JSON", what);
    }
    esp_json_error_place(r->err, &place);
    return status;
}

enum esp_status esp_json_records_feed(struct esp_json_records *r, struct esp_str bytes,
                                      struct esp_error *err) {
    r->err = err;
    uint64_t line = r->text.line, offset = r->text.piece_offset;
    enum esp_status status = feed(r, bytes);
    if (!r->lines || status != ESP_OK) {
        return status;
    }
    bool ended = bytes.len && bytes.ptr[bytes.len - 1] == '\n';
    if (r->token_open && !ended) {
        status = feed(r, ESP_STR("\n")); /* or it might be half a number */
    }
    if (status == ESP_OK && (r->frames.len || r->token_open)) {
        size_t len = bytes.len - ended;
        return fail_end(r, "line", (struct esp_json_place){line, len + 1, offset + len});
    }
    r->state = AT_TOP;
    return status;
}

enum esp_status esp_json_records_finish(struct esp_json_records *r, struct esp_error *err) {
    r->err = err;
    struct esp_json_place end = {r->text.line, r->text.piece_offset - r->text.line_offset + 1,
                                 r->text.piece_offset};
    if (r->lines ? r->count == 0 : r->state == AT_TOP && !r->token_open) {
        return esp_fail(err, ESP_ERR_INPUT, "the file is empty");
    }
    if (!r->lines && yajl_complete_parse(r->parser) != yajl_status_ok) {
        if (r->status == ESP_OK) {
            return fail_end(r, "file", end);
        }
        esp_json_error_place(err, &r->token_place); /* a number, ended by the end */
        return r->status;
    }
    if (r->count > 1 && !r->seen_relation) {
        char list[512];
        return esp_fail(err, ESP_ERR_INPUT,
                        "no record has a parent or children; the keys are %s: name one with "
                        "--parent or --children",
                        list_keys(r, list));
    }
    return ESP_OK;
}

/* --- a whole source ----------------------------------------------------------------- */

static enum esp_status feed_all(struct esp_json_records *r, struct esp_reader *in,
                                struct esp_error *err) {
    size_t mark = 0;
    enum esp_status status = esp_json_records_begin(r, in, &mark, err);
    while (status == ESP_OK) {
        struct esp_str bytes;
        status = r->lines ? esp_reader_line(in, &bytes, err) : esp_reader_next(in, &bytes, err);
        if (status != ESP_OK || bytes.len == 0) {
            break;
        }
        size_t skip = bytes.len < mark ? bytes.len : mark;
        mark -= skip;
        struct esp_str rest = {bytes.ptr + skip, bytes.len - skip};
        status = esp_json_records_feed(r, rest, err);
    }
    return status == ESP_OK ? esp_json_records_finish(r, err) : status;
}

enum esp_status esp_json_records_run(struct esp_reader *in,
                                     const struct esp_source_options *options, bool lines,
                                     const struct esp_alloc *alloc, esp_record_fn *emit_record,
                                     void *ctx, struct esp_error *err) {
    struct esp_json_records *records;
    enum esp_status status =
        esp_json_records_new(options, lines, alloc, emit_record, ctx, &records, err);
    if (status != ESP_OK) {
        return status;
    }
    status = feed_all(records, in, err);
    esp_json_records_free(records);
    return status;
}

size_t esp_json_text_start(struct esp_str head) {
    size_t i = head.len >= 3 && memcmp(head.ptr, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < head.len && memchr(" \t\r\n", head.ptr[i], 4)) {
        i++;
    }
    return i;
}
