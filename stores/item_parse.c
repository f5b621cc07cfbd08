/* Items, values and sizes from DynamoDB JSON text, over the events of item_text.h. */
#include "stores/item_text.h"

static bool is_set(enum esp_tag tag) {
    return tag == ESP_TAG_SS || tag == ESP_TAG_NS || tag == ESP_TAG_BS;
}

static uint32_t plain_len(struct esp_str text, bool escaped) {
    return (uint32_t)(escaped ? esp_text_unescaped_len(text) : text.len);
}

/* What the current event adds to the size (facts sheet 3.1). */
static uint32_t event_size(const struct esp_text *t) {
    uint32_t size = 0;
    if (t->event == ESP_TEXT_END) {
        return 0;
    }
    if (t->inside == ESP_TAG_L || t->inside == ESP_TAG_M) {
        size += 1 + (t->key.ptr ? plain_len(t->key, t->key_escaped) : 0);
    }
    if (t->event == ESP_TEXT_BEGIN) {
        return size + (is_set(t->tag) ? 0 : 3);
    }
    switch (t->tag) {
    case ESP_TAG_S:
        return size + plain_len(t->token, t->token_escaped);
    case ESP_TAG_N:
        return size + esp_number_size(&t->number);
    case ESP_TAG_B:
        return size + (uint32_t)esp_base64_size(t->token);
    default:
        return size + 1;
    }
}

enum esp_status esp_json_value_size(struct esp_str text, uint32_t *size, struct esp_error *err) {
    struct esp_text t;
    enum esp_status status;
    uint32_t sum = 0;
    esp_text_init_value(&t, text, err);
    while ((status = esp_text_next(&t)) == ESP_OK && t.event != ESP_TEXT_DONE) {
        sum += event_size(&t);
    }
    *size = status == ESP_OK ? sum : 0;
    return status;
}

/* --- canonical text ----------------------------------------------------------- */

/* A string between quotes: as it came when it holds no escape, else with only the escapes
 * that JSON requires. */
static bool put_token(struct esp_buf *out, struct esp_str token, bool escaped,
                      struct esp_arena *arena) {
    if (!escaped) {
        esp_buf_put_char(out, '"');
        esp_buf_put_str(out, token);
        esp_buf_put_char(out, '"');
        return true;
    }
    char *plain = esp_arena_alloc(arena, token.len);
    if (plain) {
        esp_json_put_string(out, (struct esp_str){plain, esp_text_unescape(token, plain)});
    }
    return plain != NULL;
}

static bool put_scalar(struct esp_buf *out, const struct esp_text *t, struct esp_arena *arena) {
    char text[ESP_NUMBER_TEXT_MAX];
    switch (t->tag) {
    case ESP_TAG_N:
        esp_buf_put_char(out, '"');
        esp_buf_put(out, text, esp_number_format(&t->number, text));
        esp_buf_put_char(out, '"');
        return true;
    case ESP_TAG_BOOL:
    case ESP_TAG_NULL:
        esp_buf_put_str(out, t->token);
        return true;
    default:
        return put_token(out, t->token, t->token_escaped, arena);
    }
}

/* The members of the set whose canonical text is `members`, "a","b": no two may be equal. */
static enum esp_status check_set(struct esp_text *t, struct esp_str members,
                                 struct esp_arena *arena) {
    struct esp_str_set set;
    if (!esp_str_set_init(&set, t->count, arena)) {
        return esp_fail_nomem(t->err);
    }
    const char *at = members.ptr, *end = at + members.len;
    while (at < end) {
        const char *from = at++;
        while (*at != '"') {
            at += *at == '\\' ? 2 : 1;
        }
        at++;
        if (!esp_str_set_add(&set, (struct esp_str){from, (size_t)(at - from)})) {
            return esp_text_fail(t, "a set must not hold a member twice");
        }
        at++; /* the comma */
    }
    return ESP_OK;
}

static size_t tag_len(enum esp_tag tag) {
    bool word = tag == ESP_TAG_BOOL || tag == ESP_TAG_NULL;
    return word ? 4 : is_set(tag) ? 2 : 1;
}

static void put_begin(struct esp_buf *out, const struct esp_text *t) {
    esp_buf_put(out, "{\"", 2);
    esp_buf_put(out, esp_tag_names[t->tag], tag_len(t->tag));
    esp_buf_put(out, "\":", 2);
}

/* Append the value that begins with the current event, up to its end, and add its size
 * (the name of an attribute not included). */
static enum esp_status put_value(struct esp_text *t, struct esp_buf *out, struct esp_arena *arena,
                                 uint32_t *size) {
    int base = t->depth - (t->event == ESP_TEXT_BEGIN ? 1 : 0);
    size_t set_begin = 0;
    bool comma = false;
    for (;;) {
        enum esp_status status = ESP_OK;
        bool ok = true;
        *size += event_size(t);
        if (comma && t->event != ESP_TEXT_END) {
            esp_buf_put_char(out, ',');
        }
        if (t->key.ptr && t->inside == ESP_TAG_M) {
            ok = put_token(out, t->key, t->key_escaped, arena);
            esp_buf_put_char(out, ':');
        }
        comma = t->event != ESP_TEXT_BEGIN;
        if (t->event == ESP_TEXT_BEGIN) {
            put_begin(out, t);
            esp_buf_put_char(out, t->tag == ESP_TAG_M ? '{' : '[');
            set_begin = out->len;
        } else if (t->event == ESP_TEXT_END) {
            if (is_set(t->tag) && !out->failed) {
                status = check_set(t, (struct esp_str){out->ptr + set_begin, out->len - set_begin},
                                   arena);
            }
            esp_buf_put(out, t->tag == ESP_TAG_M ? "}}" : "]}", 2);
        } else if (t->inside >= 0 && is_set((enum esp_tag)t->inside)) {
            ok = ok && put_scalar(out, t, arena);
        } else {
            put_begin(out, t);
            ok = ok && put_scalar(out, t, arena);
            esp_buf_put_char(out, '}');
        }
        if (!ok || out->failed) {
            return esp_fail_nomem(t->err);
        }
        if (status != ESP_OK || t->depth == base) {
            return status;
        }
        status = esp_text_next(t);
        if (status != ESP_OK) {
            return status;
        }
    }
}

/* --- values and items --------------------------------------------------------- */

static enum esp_status dup_token(struct esp_text *t, struct esp_arena *arena, struct esp_str *out) {
    char *bytes = esp_arena_alloc(arena, t->token.len ? t->token.len : 1);
    if (!bytes) {
        return esp_fail_nomem(t->err);
    }
    size_t len = t->token.len;
    if (t->tag == ESP_TAG_B) {
        len = esp_base64_decode(t->token, bytes);
    } else if (t->token_escaped) {
        len = esp_text_unescape(t->token, bytes);
    } else {
        memcpy(bytes, t->token.ptr, len);
    }
    *out = (struct esp_str){bytes, len};
    return ESP_OK;
}

/* The value that begins with the current event. */
static enum esp_status take_value(struct esp_text *t, struct esp_arena *arena,
                                  struct esp_value *out) {
    if (t->event == ESP_TEXT_SCALAR && t->tag == ESP_TAG_N) {
        return esp_value_from_number(&t->number, arena, out, t->err);
    }
    *out = (struct esp_value){.type = ESP_TYPE_JSON};
    if (t->event == ESP_TEXT_SCALAR && (t->tag == ESP_TAG_S || t->tag == ESP_TAG_B)) {
        out->type = t->tag == ESP_TAG_S ? ESP_TYPE_S : ESP_TYPE_B;
        return dup_token(t, arena, &out->s);
    }
    struct esp_arena_buf text;
    uint32_t size = 0;
    esp_arena_buf_init(&text, arena, 64);
    enum esp_status status = put_value(t, &text.buf, arena, &size);
    out->s = esp_buf_str(&text.buf);
    return status;
}

enum esp_status esp_value_parse(struct esp_str json, struct esp_arena *arena, struct esp_value *out,
                                struct esp_error *err) {
    struct esp_text t;
    esp_text_init_value(&t, json, err);
    enum esp_status status = esp_text_next(&t);
    if (status == ESP_OK) {
        status = take_value(&t, arena, out);
    }
    return status == ESP_OK ? esp_text_next(&t) : status; /* nothing may follow */
}

static enum esp_status take_structural(struct esp_text *t, const struct esp_schema *schema, int i,
                                       struct esp_arena *arena, struct esp_item *out) {
    const struct esp_attr *attr = &schema->attr[i];
    if (out->value[i].type != ESP_TYPE_NONE) {
        return esp_text_fail(t, "an attribute occurs twice");
    }
    enum esp_status status = take_value(t, arena, &out->value[i]);
    if (status == ESP_OK && attr->type != ESP_TYPE_NONE && out->value[i].type != attr->type &&
        esp_schema_is_key(schema, i)) {
        return esp_fail(t->err, ESP_ERR_REFUSED, "attribute %.*s is a key and must be of type %s",
                        ESP_FMT(attr->name), esp_type_name(attr->type));
    }
    return status;
}

/* The position of the attribute whose (escaped) name the walk is at, or -1. */
static int find_attr(const struct esp_schema *schema, const struct esp_text *t) {
    if (!t->key_escaped) {
        return esp_schema_find_attr(schema, t->key);
    }
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (esp_text_equals(t->key, schema->attr[i].name)) {
            return (int)i;
        }
    }
    return -1;
}

static enum esp_status take_payload(struct esp_text *t, struct esp_buf *out,
                                    struct esp_arena *arena, uint32_t *size) {
    *size += plain_len(t->key, t->key_escaped);
    if (out->len) {
        esp_buf_put_char(out, ',');
    }
    if (!put_token(out, t->key, t->key_escaped, arena)) {
        return esp_fail_nomem(t->err);
    }
    esp_buf_put_char(out, ':');
    return put_value(t, out, arena, size);
}

enum esp_status esp_item_parse(const struct esp_schema *schema, struct esp_str json,
                               struct esp_arena *arena, struct esp_item *out,
                               struct esp_error *err) {
    struct esp_text t;
    struct esp_arena_buf data = {.buf = {.alloc = NULL}};
    uint32_t size = 0;
    enum esp_status status;
    for (size_t i = 0; i < schema->attr_count; i++) {
        out->value[i] = (struct esp_value){.type = ESP_TYPE_NONE};
    }
    esp_text_init_item(&t, json, err);
    while ((status = esp_text_next(&t)) == ESP_OK && t.event != ESP_TEXT_DONE) {
        int position = find_attr(schema, &t);
        if (position >= 0) {
            status = take_structural(&t, schema, position, arena, out);
        } else {
            if (!data.buf.alloc) { /* the rest of the text is room enough, mostly */
                esp_arena_buf_init(&data, arena, (size_t)(t.end - t.key.ptr));
            }
            status = take_payload(&t, &data.buf, arena, &size);
        }
        if (status != ESP_OK) {
            break;
        }
    }
    out->data = (struct esp_data){data.buf.ptr, (uint32_t)data.buf.len, size};
    return status;
}
