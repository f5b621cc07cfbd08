/*
 * DynamoDB JSON, out: the hot path of every store that sends or keeps text.  Strings are
 * scanned and copied a word at a time, buffers are reused, nothing is formatted by printf.
 */
#include "stores/item_text.h"

/* --- strings ------------------------------------------------------------------ */

static uint64_t load_word(const char *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* Up to 7 bytes: two halves that overlap, or byte by byte. */
static bool copy_plain_short(char *to, struct esp_str bytes) {
    if (bytes.len >= 4) {
        uint32_t first, last;
        memcpy(&first, bytes.ptr, 4);
        memcpy(&last, bytes.ptr + bytes.len - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + bytes.len - 4, &last, 4);
        return esp_word_needs_escape(first | (uint64_t)last << 32) == 0;
    }
    uint64_t word = 0x2020202020202020u;
    for (size_t i = 0; i < bytes.len; i++) {
        to[i] = bytes.ptr[i];
        word = word << 8 | (unsigned char)bytes.ptr[i];
    }
    return esp_word_needs_escape(word) == 0;
}

/* Copies `bytes` when none of them needs an escape; false (and rubbish) otherwise. */
static bool copy_plain(char *to, struct esp_str bytes) {
    uint64_t bad = 0, word;
    size_t i = 0;
    for (; i + 8 <= bytes.len; i += 8) {
        word = load_word(bytes.ptr + i);
        bad |= esp_word_needs_escape(word);
        memcpy(to + i, &word, 8);
    }
    if (i == bytes.len) {
        return bad == 0;
    }
    if (bytes.len >= 8) { /* the last word overlaps the one before */
        word = load_word(bytes.ptr + bytes.len - 8);
        memcpy(to + bytes.len - 8, &word, 8);
        return (bad | esp_word_needs_escape(word)) == 0;
    }
    return copy_plain_short(to, bytes);
}

static void put_escaped(struct esp_buf *out, unsigned char c) {
    static const char hex[] = "0123456789abcdef";
    static const char shorts[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                  ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};
    if (c < sizeof shorts && shorts[c]) {
        esp_buf_put(out, (char[]){'\\', shorts[c]}, 2);
    } else {
        esp_buf_put(out, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6);
    }
}

static void put_string_slowly(struct esp_buf *out, struct esp_str bytes) {
    size_t from = 0;
    esp_buf_put_char(out, '"');
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            esp_buf_put(out, bytes.ptr + from, i - from);
            put_escaped(out, c);
            from = i + 1;
        }
    }
    esp_buf_put(out, bytes.ptr + from, bytes.len - from);
    esp_buf_put_char(out, '"');
}

static bool room(struct esp_buf *out, size_t more) {
    return out->cap - out->len >= more || esp_buf_reserve(out, more);
}

void esp_json_put_string(struct esp_buf *out, struct esp_str bytes) {
    if (!room(out, bytes.len + 2)) {
        return;
    }
    char *to = out->ptr + out->len;
    if (!copy_plain(to + 1, bytes)) {
        put_string_slowly(out, bytes);
        return;
    }
    to[0] = '"';
    to[bytes.len + 1] = '"';
    out->len += bytes.len + 2;
}

/* --- base64 ------------------------------------------------------------------- */

void esp_base64_put(struct esp_buf *out, struct esp_str bytes) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (!room(out, (bytes.len + 2) / 3 * 4)) {
        return;
    }
    char *to = out->ptr + out->len;
    const unsigned char *from = (const unsigned char *)bytes.ptr;
    size_t left = bytes.len;
    for (; left >= 3; left -= 3, from += 3, to += 4) {
        uint32_t word = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
        to[0] = digits[word >> 18];
        to[1] = digits[word >> 12 & 63];
        to[2] = digits[word >> 6 & 63];
        to[3] = digits[word & 63];
    }
    if (left) {
        uint32_t word = (uint32_t)from[0] << 16 | (left == 2 ? (uint32_t)from[1] << 8 : 0);
        to[0] = digits[word >> 18];
        to[1] = digits[word >> 12 & 63];
        to[2] = left == 2 ? digits[word >> 6 & 63] : '=';
        to[3] = '=';
    }
    out->len += (bytes.len + 2) / 3 * 4;
}

/* --- values and items --------------------------------------------------------- */

void esp_value_put_json(struct esp_buf *out, const struct esp_value *value) {
    switch (value->type) {
    case ESP_TYPE_NONE:
        break;
    case ESP_TYPE_S:
        ESP_BUF_LIT(out, "{\"S\":");
        esp_json_put_string(out, value->s);
        esp_buf_put_char(out, '}');
        break;
    case ESP_TYPE_N:
        ESP_BUF_LIT(out, "{\"N\":\"");
        if (value->s.len) {
            esp_buf_put_str(out, value->s);
        } else {
            esp_buf_put_i64(out, value->n);
        }
        ESP_BUF_LIT(out, "\"}");
        break;
    case ESP_TYPE_B:
        ESP_BUF_LIT(out, "{\"B\":\"");
        esp_base64_put(out, value->s);
        ESP_BUF_LIT(out, "\"}");
        break;
    case ESP_TYPE_JSON:
        esp_buf_put_str(out, value->s);
        break;
    }
}

/* "name":{"S":" in one go: the usual member, of which there are several an item. */
static bool put_text_member(struct esp_buf *out, struct esp_str name, struct esp_str text) {
    if (!room(out, name.len + text.len + 24)) {
        return false;
    }
    char *to = out->ptr + out->len;
    *to = '"';
    if (!copy_plain(to + 1, name)) {
        return false;
    }
    to += 1 + name.len;
    memcpy(to, "\":{\"S\":\"", 8);
    if (!copy_plain(to + 8, text)) {
        return false;
    }
    memcpy(to + 8 + text.len, "\"}", 2);
    out->len += name.len + text.len + 11;
    return true;
}

static void put_member(struct esp_buf *out, const struct esp_schema *schema,
                       const struct esp_item *item, size_t i) {
    const struct esp_value *value = &item->value[i];
    if (value->type == ESP_TYPE_S && put_text_member(out, schema->attr[i].name, value->s)) {
        return;
    }
    esp_json_put_string(out, schema->attr[i].name);
    esp_buf_put_char(out, ':');
    esp_value_put_json(out, value);
}

void esp_item_put_json(struct esp_buf *out, const struct esp_schema *schema,
                       const struct esp_item *item) {
    bool first = true;
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (item->value[i].type == ESP_TYPE_NONE) {
            continue;
        }
        if (!first) {
            esp_buf_put_char(out, ',');
        }
        first = false;
        put_member(out, schema, item, i);
    }
    if (item->data.len) {
        if (!first) {
            esp_buf_put_char(out, ',');
        }
        esp_buf_put(out, item->data.text, item->data.len);
    }
}

void esp_item_put_key_json(struct esp_buf *out, const struct esp_schema *schema,
                           const struct esp_item *item) {
    put_member(out, schema, item, (size_t)schema->pk);
    if (schema->sk >= 0) {
        esp_buf_put_char(out, ',');
        put_member(out, schema, item, (size_t)schema->sk);
    }
}

/* --- walking encoded data ----------------------------------------------------- */

/* Past the string that begins at `at` (a quote); NULL when it does not end. */
static const char *skip_string(const char *at, const char *end) {
    for (at++; at < end; at++) {
        if (*at == '"') {
            return at + 1;
        }
        if (*at == '\\') {
            at++;
        }
    }
    return NULL;
}

/* Past the value that begins at `at` (a brace). */
static const char *skip_value(const char *at, const char *end) {
    size_t depth = 0;
    while (at && at < end) {
        char c = *at;
        if (c == '"') {
            at = skip_string(at, end);
            continue;
        }
        at++;
        if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return at;
        }
    }
    return NULL;
}

bool esp_data_next_escaped(struct esp_data data, size_t *pos, struct esp_member *out) {
    if (*pos >= data.len || data.text[*pos] != '"') {
        return false;
    }
    const char *end = data.text + data.len, *at = data.text + *pos;
    const char *name_end = skip_string(at, end);
    if (!name_end || name_end + 1 >= end || *name_end != ':' || name_end[1] != '{') {
        return false;
    }
    const char *value_end = skip_value(name_end + 1, end);
    if (!value_end) {
        return false;
    }
    out->name = (struct esp_str){at + 1, (size_t)(name_end - at) - 2};
    out->value = (struct esp_str){name_end + 1, (size_t)(value_end - name_end) - 1};
    out->raw = (struct esp_str){at, (size_t)(value_end - at)};
    *pos = (size_t)(value_end - data.text) + 1; /* past the comma, or past the end */
    return true;
}

bool esp_data_next(struct esp_data data, size_t *pos, struct esp_arena *scratch,
                   struct esp_member *out) {
    size_t begin = *pos;
    if (!esp_data_next_escaped(data, pos, out)) {
        return false;
    }
    if (out->name.len && memchr(out->name.ptr, '\\', out->name.len)) {
        char *name = esp_arena_alloc(scratch, out->name.len);
        if (!name) {
            *pos = begin;
            return false;
        }
        out->name = (struct esp_str){name, esp_text_unescape(out->name, name)};
    }
    return true;
}

bool esp_data_find(struct esp_data data, struct esp_str name, struct esp_str *value) {
    struct esp_member member;
    for (size_t pos = 0; esp_data_next_escaped(data, &pos, &member);) {
        if (esp_text_equals(member.name, name)) {
            *value = member.value;
            return true;
        }
    }
    return false;
}

/* --- plain JSON --------------------------------------------------------------- */

static void put_plain_scalar(struct esp_buf *out, const struct esp_text *t) {
    bool quoted = t->tag == ESP_TAG_S || t->tag == ESP_TAG_B;
    if (quoted) {
        esp_buf_put_char(out, '"');
    }
    if (t->tag == ESP_TAG_NULL) {
        ESP_BUF_LIT(out, "null");
    } else {
        esp_buf_put_str(out, t->token);
    }
    if (quoted) {
        esp_buf_put_char(out, '"');
    }
}

static void put_plain_value(struct esp_buf *out, struct esp_str value) {
    struct esp_text t;
    bool comma = false;
    esp_text_init_value(&t, value, NULL);
    while (esp_text_next(&t) == ESP_OK && t.event != ESP_TEXT_DONE) {
        if (t.event == ESP_TEXT_END) {
            esp_buf_put_char(out, t.tag == ESP_TAG_M ? '}' : ']');
            comma = true;
            continue;
        }
        if (comma) {
            esp_buf_put_char(out, ',');
        }
        if (t.key.ptr) {
            esp_buf_put_char(out, '"');
            esp_buf_put_str(out, t.key);
            ESP_BUF_LIT(out, "\":");
        }
        comma = t.event == ESP_TEXT_SCALAR;
        if (t.event == ESP_TEXT_BEGIN) {
            esp_buf_put_char(out, t.tag == ESP_TAG_M ? '{' : '[');
        } else {
            put_plain_scalar(out, &t);
        }
    }
}

void esp_data_put_plain_json(struct esp_buf *out, struct esp_data data) {
    struct esp_member member;
    for (size_t pos = 0; esp_data_next_escaped(data, &pos, &member);) {
        if (member.raw.ptr != data.text) {
            esp_buf_put_char(out, ',');
        }
        esp_buf_put(out, member.raw.ptr, (size_t)(member.value.ptr - member.raw.ptr));
        put_plain_value(out, member.value);
    }
}

/* --- sets of strings ------------------------------------------------------------ */

static const char set_head[] = "{\"SS\":[";

bool esp_set_next(const struct esp_value *set, size_t *pos, struct esp_arena *arena,
                  struct esp_str *out) {
    struct esp_str text = set->s;
    size_t head = sizeof set_head - 1;
    if (set->type != ESP_TYPE_JSON || text.len < head || memcmp(text.ptr, set_head, head) != 0) {
        return false;
    }
    size_t at = *pos ? *pos : head;
    at += at < text.len && text.ptr[at] == ',';
    if (at >= text.len || text.ptr[at] != '"') {
        return false;
    }
    struct esp_str escaped = {text.ptr + at + 1, 0};
    bool any = false;
    for (at++; at < text.len && text.ptr[at] != '"'; at++) {
        if (text.ptr[at] == '\\') {
            any = true;
            at++;
        }
    }
    escaped.len = (size_t)(text.ptr + at - escaped.ptr);
    *pos = at + 1;
    *out = escaped;
    if (any) {
        char *plain = esp_arena_alloc(arena, escaped.len);
        *out = (struct esp_str){plain, plain ? esp_text_unescape(escaped, plain) : 0};
    }
    return true;
}

enum esp_status esp_set_make(const struct esp_str *members, size_t count, struct esp_arena *arena,
                             struct esp_value *out) {
    struct esp_arena_buf text;
    size_t bytes = sizeof set_head + 2;
    *out = (struct esp_value){.type = ESP_TYPE_NONE};
    if (count == 0) {
        return ESP_OK;
    }
    for (size_t i = 0; i < count; i++) {
        bytes += members[i].len + 3;
    }
    esp_arena_buf_init(&text, arena, bytes + 8); /* a string needs a little more to be copied */
    ESP_BUF_LIT(&text.buf, "{\"SS\":[");
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            esp_buf_put_char(&text.buf, ',');
        }
        esp_json_put_string(&text.buf, members[i]);
    }
    ESP_BUF_LIT(&text.buf, "]}");
    *out = (struct esp_value){ESP_TYPE_JSON, esp_buf_str(&text.buf), 0};
    return text.buf.failed ? ESP_ERR_NOMEM : ESP_OK;
}
