/*
 * Layout, numbers little-endian:
 *   u32 size charged, u32 bytes of payload, u32 size charged for the payload,
 *   for each attribute of the schema a tag byte and what it needs, the payload's text.
 */
#include "stores/record.h"

enum { HEADER_BYTES = 12, LONG_LEN = 255, STRING_HEAD_MAX = 6 };
enum tag { TAG_NONE, TAG_S, TAG_N, TAG_B, TAG_JSON, TAG_N_TEXT };

static char *put_string(char *at, enum tag tag, struct esp_str s) {
    *at++ = (char)tag;
    if (s.len < LONG_LEN) {
        *at++ = (char)s.len;
    } else {
        uint32_t len = (uint32_t)s.len;
        *at++ = (char)LONG_LEN;
        memcpy(at, &len, sizeof len);
        at += sizeof len;
    }
    if (s.len) {
        memcpy(at, s.ptr, s.len);
    }
    return at + s.len;
}

static char *put_value(char *at, const struct esp_value *value) {
    switch (value->type) {
    case ESP_TYPE_NONE:
        *at++ = TAG_NONE;
        return at;
    case ESP_TYPE_S:
        return put_string(at, TAG_S, value->s);
    case ESP_TYPE_B:
        return put_string(at, TAG_B, value->s);
    case ESP_TYPE_JSON:
        return put_string(at, TAG_JSON, value->s);
    case ESP_TYPE_N:
        if (value->s.len) {
            return put_string(at, TAG_N_TEXT, value->s);
        }
        *at++ = TAG_N;
        memcpy(at, &value->n, sizeof value->n);
        return at + sizeof value->n;
    }
    return at;
}

void esp_record_put(struct esp_buf *out, const struct esp_schema *schema,
                    const struct esp_item *item, uint32_t size) {
    size_t bound = HEADER_BYTES + item->data.len;
    for (size_t i = 0; i < schema->attr_count; i++) {
        const struct esp_value *value = &item->value[i];
        bound += 1 + sizeof value->n + STRING_HEAD_MAX;
        bound += value->type == ESP_TYPE_NONE ? 0 : value->s.len;
    }
    if (!esp_buf_reserve(out, bound)) {
        return;
    }
    char *at = out->ptr + out->len;
    uint32_t head[3] = {size, item->data.len, item->data.size};
    memcpy(at, head, HEADER_BYTES);
    at += HEADER_BYTES;
    for (size_t i = 0; i < schema->attr_count; i++) {
        at = put_value(at, &item->value[i]);
    }
    if (item->data.len) {
        memcpy(at, item->data.text, item->data.len);
        at += item->data.len;
    }
    out->len = (size_t)(at - out->ptr);
}

/* What is left of a record. */
struct reader {
    const char *at, *end;
};

static bool has(const struct reader *r, size_t bytes) {
    return __builtin_expect((size_t)(r->end - r->at) >= bytes, 1);
}

static bool view_string(struct reader *r, enum esp_type type, struct esp_value *out) {
    uint32_t len;
    if (!has(r, 1)) {
        return false;
    }
    len = (unsigned char)*r->at++;
    if (len == LONG_LEN) {
        if (!has(r, sizeof len)) {
            return false;
        }
        memcpy(&len, r->at, sizeof len);
        r->at += sizeof len;
    }
    if (!has(r, len)) {
        return false;
    }
    *out = (struct esp_value){type, {r->at, len}, 0};
    r->at += len;
    return true;
}

static bool view_value(struct reader *r, struct esp_value *out) {
    if (!has(r, 1)) {
        return false;
    }
    switch ((enum tag) * r->at++) {
    case TAG_S:
        return view_string(r, ESP_TYPE_S, out);
    case TAG_B:
        return view_string(r, ESP_TYPE_B, out);
    case TAG_JSON:
        return view_string(r, ESP_TYPE_JSON, out);
    case TAG_N_TEXT:
        return view_string(r, ESP_TYPE_N, out);
    case TAG_N:
        *out = (struct esp_value){.type = ESP_TYPE_N};
        if (!has(r, sizeof out->n)) {
            return false;
        }
        memcpy(&out->n, r->at, sizeof out->n);
        r->at += sizeof out->n;
        return true;
    case TAG_NONE:
        *out = (struct esp_value){.type = ESP_TYPE_NONE};
        return true;
    }
    return false;
}

/* Keys are made of these, in buffers as long as the longest that are allowed. */
static bool may_be_key(const struct esp_schema *schema, const struct esp_item *item, int position,
                       size_t bytes_max, bool needed) {
    if (position < 0) {
        return true;
    }
    const struct esp_value *value = &item->value[position];
    return value->type == ESP_TYPE_NONE
               ? !needed
               : value->type == schema->attr[position].type && value->s.len <= bytes_max;
}

static bool keys_fit(const struct esp_schema *schema, const struct esp_item *item) {
    bool fit = may_be_key(schema, item, schema->pk, ESP_PK_BYTES_MAX, true) &&
               may_be_key(schema, item, schema->sk, ESP_SK_BYTES_MAX, true);
    for (size_t i = 0; i < schema->index_count && fit; i++) {
        fit = may_be_key(schema, item, schema->index[i].pk, ESP_PK_BYTES_MAX, false) &&
              may_be_key(schema, item, schema->index[i].sk, ESP_SK_BYTES_MAX, false);
    }
    return fit;
}

bool esp_record_view(const struct esp_schema *schema, struct esp_str record, struct esp_item *out) {
    struct reader r = {record.ptr, record.ptr + record.len};
    uint32_t head[3] = {0};
    bool good = has(&r, HEADER_BYTES);
    if (good) {
        memcpy(head, r.at, HEADER_BYTES);
        r.at += HEADER_BYTES;
    }
    for (size_t i = 0; i < schema->attr_count && good; i++) {
        good = view_value(&r, &out->value[i]);
    }
    out->data = (struct esp_data){r.at, head[1], head[2]};
    if (good && (size_t)(r.end - r.at) == head[1] && keys_fit(schema, out)) {
        return true;
    }
    memset(out, 0, sizeof *out);
    return false;
}

static bool is_included(const struct esp_index *index, struct esp_str name) {
    for (size_t i = 0; i < index->include_count; i++) {
        if (esp_str_eq(index->include[i], name)) {
            return true;
        }
    }
    return false;
}

/* The included members of the payload, as they are written there. */
static enum esp_status project_data(const struct esp_index *index, struct esp_data data,
                                    struct esp_arena *arena, struct esp_data *out,
                                    struct esp_error *err) {
    struct esp_member member;
    char *text = esp_arena_alloc(arena, data.len);
    uint32_t size;
    if (!text) {
        return esp_fail_nomem(err);
    }
    *out = (struct esp_data){text, 0, 0};
    for (size_t pos = 0; esp_data_next(data, &pos, arena, &member);) {
        if (!is_included(index, member.name)) {
            continue;
        }
        enum esp_status status = esp_json_value_size(member.value, &size, err);
        if (status != ESP_OK) {
            return status;
        }
        if (out->len) {
            text[out->len++] = ',';
        }
        memcpy(text + out->len, member.raw.ptr, member.raw.len);
        out->len += (uint32_t)member.raw.len;
        out->size += (uint32_t)member.name.len + size;
    }
    return ESP_OK;
}

enum esp_status esp_item_project(const struct esp_schema *schema, const struct esp_index *index,
                                 const struct esp_item *item, struct esp_arena *arena,
                                 struct esp_item *out, struct esp_error *err) {
    esp_item_copy(schema, out, item);
    if (index->projection == ESP_PROJECT_ALL) {
        return ESP_OK;
    }
    for (int i = 0; i < (int)schema->attr_count; i++) {
        bool is_key = i == schema->pk || i == schema->sk || i == index->pk || i == index->sk;
        if (!is_key && !is_included(index, schema->attr[i].name)) {
            out->value[i] = (struct esp_value){.type = ESP_TYPE_NONE};
        }
    }
    out->data = (struct esp_data){0};
    return index->include_count && item->data.len
               ? project_data(index, item->data, arena, &out->data, err)
               : ESP_OK;
}
