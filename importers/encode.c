#include "importers/encode.h"
#include "core/number.h"

#define EVERY_BYTE(b) (UINT64_C(0x0101010101010101) * (b))

static uint64_t load_word(const char *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* --- UTF-8 ----------------------------------------------------------------------- */

/* True when all eight bytes are 0x01..0x7f. */
static bool is_plain_word(uint64_t word) {
    return (((word - EVERY_BYTE(0x01)) | word) & EVERY_BYTE(0x80)) == 0;
}

static bool utf8_start(struct esp_utf8 *state, uint8_t byte) {
    *state = (struct esp_utf8){.seen = 1, .low = 0x80, .high = 0xbf, .lead = byte};
    if (byte >= 0xc2 && byte <= 0xdf) {
        state->need = 1;
    } else if (byte >= 0xe0 && byte <= 0xef) {
        state->need = 2;
        state->low = byte == 0xe0 ? 0xa0 : 0x80;
        state->high = byte == 0xed ? 0x9f : 0xbf;
    } else if (byte >= 0xf0 && byte <= 0xf4) {
        state->need = 3;
        state->low = byte == 0xf0 ? 0x90 : 0x80;
        state->high = byte == 0xf4 ? 0x8f : 0xbf;
    } else {
        return byte >= 0x01 && byte <= 0x7f;
    }
    return true;
}

bool esp_utf8_check(struct esp_utf8 *state, struct esp_str bytes, int64_t *bad) {
    size_t i = 0;
    while (i < bytes.len) {
        if (state->need == 0) {
            while (bytes.len - i >= 8 && is_plain_word(load_word(bytes.ptr + i))) {
                i += 8;
            }
            if (i == bytes.len) {
                break;
            }
            if (!utf8_start(state, (uint8_t)bytes.ptr[i])) {
                *bad = (int64_t)i;
                return false;
            }
        } else {
            uint8_t byte = (uint8_t)bytes.ptr[i];
            if (byte < state->low || byte > state->high) {
                *bad = (int64_t)i - state->seen;
                return false;
            }
            state->low = 0x80;
            state->high = 0xbf;
            state->seen++;
            state->need--;
        }
        i++;
    }
    return true;
}

/* --- text and numbers --------------------------------------------------------------- */

/* May also be true for a word that needs none: then the byte loop finds out. */
static bool has_escape(uint64_t word) {
    uint64_t quote = word ^ EVERY_BYTE('"'), backslash = word ^ EVERY_BYTE('\\');
    uint64_t hit = ((word - EVERY_BYTE(0x20)) & ~word) | ((quote - EVERY_BYTE(0x01)) & ~quote) |
                   ((backslash - EVERY_BYTE(0x01)) & ~backslash);
    return (hit & EVERY_BYTE(0x80)) != 0;
}

static void escape_byte(struct esp_buf *out, unsigned char c) {
    static const char digits[] = "0123456789abcdef";
    char escape[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
    const char *brief = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *pair = brief; *pair; pair += 2) {
        if ((unsigned char)pair[0] == c) {
            escape[1] = pair[1];
            esp_buf_put(out, escape, 2);
            return;
        }
    }
    esp_buf_put(out, escape, sizeof escape);
}

/* From the first byte that may need an escape. */
static void put_with_escapes(struct esp_buf *out, struct esp_str text) {
    size_t start = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            esp_buf_put(out, text.ptr + start, i - start);
            escape_byte(out, c);
            start = i + 1;
        }
    }
    esp_buf_put(out, text.ptr + start, text.len - start);
}

/* Copy up to the first byte that may need an escape; most text needs none.  Returns how
 * many bytes. */
static inline size_t copy_plain(char *to, struct esp_str text) {
    size_t i = 0;
    for (; text.len - i >= 8; i += 8) {
        uint64_t word = load_word(text.ptr + i);
        if (has_escape(word)) {
            return i;
        }
        memcpy(to + i, &word, 8);
    }
    for (; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\') {
            break;
        }
        to[i] = (char)c;
    }
    return i;
}

void esp_text_put(struct esp_buf *out, struct esp_str text) {
    if (text.len == 0 || (out->cap - out->len < text.len && !esp_buf_reserve(out, text.len))) {
        return;
    }
    size_t plain = copy_plain(out->ptr + out->len, text);
    out->len += plain;
    if (plain < text.len) {
        put_with_escapes(out, (struct esp_str){text.ptr + plain, text.len - plain});
    }
}

void esp_string_put(struct esp_buf *out, struct esp_str before, struct esp_str text) {
    static const char open[6] = "{\"S\":\"", close[2] = "\"}";
    size_t need = before.len + text.len + sizeof open + sizeof close;
    if (out->cap - out->len < need && !esp_buf_reserve(out, need)) {
        return;
    }
    char *to = out->ptr + out->len;
    memcpy(to, before.ptr, before.len);
    to += before.len;
    memcpy(to, open, sizeof open);
    to += sizeof open;
    size_t plain = copy_plain(to, text);
    to += plain;
    if (plain == text.len) {
        memcpy(to, close, sizeof close);
        out->len = (size_t)(to + sizeof close - out->ptr);
        return;
    }
    out->len = (size_t)(to - out->ptr);
    put_with_escapes(out, (struct esp_str){text.ptr + plain, text.len - plain});
    esp_buf_put(out, close, sizeof close);
}

/* A whole number in canonical form that fits 64 bits, by far the most common kind. */
static bool plain_integer(struct esp_str text, int64_t *value) {
    size_t i = text.len && text.ptr[0] == '-';
    if (text.len - i < 1 || text.len - i > 18 || (text.ptr[i] == '0' && text.len > 1)) {
        return false;
    }
    int64_t sum = 0;
    for (size_t k = i; k < text.len; k++) {
        if (text.ptr[k] < '0' || text.ptr[k] > '9') {
            return false;
        }
        sum = sum * 10 + (text.ptr[k] - '0');
    }
    *value = i ? -sum : sum;
    return true;
}

enum esp_status esp_number_text_put(struct esp_buf *out, struct esp_str text, uint32_t *size,
                                    struct esp_error *err) {
    int64_t integer;
    if (plain_integer(text, &integer)) {
        esp_buf_put_char(out, '"');
        esp_buf_put_str(out, text);
        *size += esp_number_size_i64(integer);
    } else {
        struct esp_number number;
        enum esp_status status = esp_number_parse(text, &number, err);
        if (status != ESP_OK) {
            return status;
        }
        char canonical[ESP_NUMBER_TEXT_MAX];
        size_t len = esp_number_format(&number, canonical);
        esp_buf_put_char(out, '"');
        esp_buf_put(out, canonical, len);
        *size += esp_number_size(&number);
    }
    esp_buf_put_char(out, '"');
    return ESP_OK;
}

enum esp_status esp_number_put(struct esp_buf *out, struct esp_str text, uint32_t *size,
                               struct esp_error *err) {
    ESP_BUF_LIT(out, "{\"N\":");
    enum esp_status status = esp_number_text_put(out, text, size, err);
    esp_buf_put_char(out, '}');
    return status;
}

enum esp_status esp_data_check(const struct esp_buf *out, uint32_t size, struct esp_error *err) {
    if (size > ESP_DATA_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "the record's attributes take more than the %d bytes a DynamoDB item can "
                        "hold",
                        ESP_DATA_BYTES_MAX);
    }
    return out->failed ? esp_fail_nomem(err) : ESP_OK;
}

enum esp_status esp_name_check(struct esp_str name, struct esp_error *err) {
    if (name.len == 0) {
        return esp_fail(err, ESP_ERR_INPUT, "an attribute needs a name, but this one is empty");
    }
    if (name.len > ESP_NAME_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "a name of %zu bytes is too long: an attribute's name has at most %d",
                        name.len, ESP_NAME_BYTES_MAX);
    }
    return ESP_OK;
}

/* --- values as events --------------------------------------------------------------- */

/* A key or set member that is in `out` already: enough to find it a second time. */
struct encoded_name {
    uint32_t hash, len;
    size_t offset; /* in `out`, of its opening quote */
};
enum { NAMES_BYTES_MAX = ESP_DATA_BYTES_MAX * sizeof(struct encoded_name) };

void esp_encoder_init(struct esp_encoder *encoder, const struct esp_alloc *alloc,
                      struct esp_buf *out) {
    *encoder = (struct esp_encoder){.out = out};
    esp_buf_init(&encoder->names, alloc, NAMES_BYTES_MAX);
}

void esp_encoder_fini(struct esp_encoder *encoder) {
    esp_buf_fini(&encoder->names);
}

/* The text from `offset` to the end of `out` is a name of the open level: ERR_INPUT when
 * the level has it already.  Escapes are deterministic, so equal names are equal text. */
static enum esp_status note_name(struct esp_encoder *e, size_t offset, const char *what,
                                 struct esp_error *err) {
    if (e->out->failed) {
        return ESP_OK;
    }
    const char *text = e->out->ptr + offset;
    size_t len = e->out->len - offset;
    uint32_t hash = (uint32_t)esp_hash64(text, len, 0);
    for (size_t at = e->level[e->depth - 1].names_start; at < e->names.len;
         at += sizeof(struct encoded_name)) {
        struct encoded_name other;
        memcpy(&other, e->names.ptr + at, sizeof other);
        if (other.hash == hash && other.len == len &&
            memcmp(e->out->ptr + other.offset, text, len) == 0) {
            return esp_fail(err, ESP_ERR_INPUT, "%s %.*s occurs more than once", what,
                            len > 200 ? 200 : (int)len, text);
        }
    }
    struct encoded_name name = {.hash = hash, .len = (uint32_t)len, .offset = offset};
    esp_buf_put(&e->names, &name, sizeof name);
    return e->names.failed ? esp_fail_nomem(err) : ESP_OK;
}

/* What every value does first: its place in the list or set it is in. */
static enum esp_status begin_value(struct esp_encoder *e, struct esp_error *err) {
    if (e->size > ESP_DATA_BYTES_MAX || e->out->failed) {
        return esp_data_check(e->out, e->size, err);
    }
    if (e->depth == 0) {
        return ESP_OK;
    }
    if (e->depth >= ESP_NESTING_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "lists and maps are nested deeper than the %d levels DynamoDB allows",
                        ESP_NESTING_MAX);
    }
    struct esp_encoder_level *level = &e->level[e->depth - 1];
    if (level->kind != ESP_ENCODE_M) {
        if (level->count++) {
            esp_buf_put_char(e->out, ',');
        }
        e->size += level->kind == ESP_ENCODE_L;
    }
    return ESP_OK;
}

static bool in_set(const struct esp_encoder *e) {
    return e->depth && e->level[e->depth - 1].kind >= ESP_ENCODE_SS;
}

static enum esp_status wrong_member(const struct esp_encoder *e, struct esp_error *err) {
    return esp_fail(err, ESP_ERR_INPUT, "a %s may hold nothing but %s",
                    e->level[e->depth - 1].kind == ESP_ENCODE_SS ? "string set (SS)"
                                                                 : "number set (NS)",
                    e->level[e->depth - 1].kind == ESP_ENCODE_SS ? "strings" : "numbers");
}

enum esp_status esp_encode_null(struct esp_encoder *e, struct esp_error *err) {
    enum esp_status status = in_set(e) ? wrong_member(e, err) : begin_value(e, err);
    ESP_BUF_LIT(e->out, "{\"NULL\":true}");
    e->size += 1;
    return status;
}

enum esp_status esp_encode_bool(struct esp_encoder *e, bool value, struct esp_error *err) {
    enum esp_status status = in_set(e) ? wrong_member(e, err) : begin_value(e, err);
    if (value) {
        ESP_BUF_LIT(e->out, "{\"BOOL\":true}");
    } else {
        ESP_BUF_LIT(e->out, "{\"BOOL\":false}");
    }
    e->size += 1;
    return status;
}

enum esp_status esp_encode_number(struct esp_encoder *e, struct esp_str text,
                                  struct esp_error *err) {
    if (in_set(e) && e->level[e->depth - 1].kind != ESP_ENCODE_NS) {
        return wrong_member(e, err);
    }
    enum esp_status status = begin_value(e, err);
    if (status != ESP_OK) {
        return status;
    }
    if (!in_set(e)) {
        return esp_number_put(e->out, text, &e->size, err);
    }
    size_t start = e->out->len;
    status = esp_number_text_put(e->out, text, &e->size, err);
    return status == ESP_OK ? note_name(e, start, "the set's member", err) : status;
}

enum esp_status esp_encode_string(struct esp_encoder *e, struct esp_str text,
                                  struct esp_error *err) {
    if (in_set(e) && e->level[e->depth - 1].kind == ESP_ENCODE_NS) {
        return esp_encode_number(e, text, err);
    }
    enum esp_status status = begin_value(e, err);
    if (status != ESP_OK) {
        return status;
    }
    if (text.len > ESP_DATA_BYTES_MAX) {
        e->size = ESP_DATA_BYTES_MAX + 1;
        return esp_data_check(e->out, e->size, err);
    }
    e->size += (uint32_t)text.len;
    if (!in_set(e)) {
        esp_string_put(e->out, ESP_STR(""), text);
        return ESP_OK;
    }
    size_t start = e->out->len;
    esp_buf_put_char(e->out, '"');
    esp_text_put(e->out, text);
    esp_buf_put_char(e->out, '"');
    return note_name(e, start, "the set's member", err);
}

enum esp_status esp_encode_open(struct esp_encoder *e, enum esp_encoder_kind kind,
                                struct esp_error *err) {
    static const char *const opening[] = {"{\"L\":[", "{\"M\":{", "{\"SS\":[", "{\"NS\":["};
    enum esp_status status = in_set(e) ? wrong_member(e, err) : begin_value(e, err);
    if (status != ESP_OK) {
        return status;
    }
    esp_buf_put_str(e->out, esp_str_from(opening[kind]));
    e->size += kind <= ESP_ENCODE_M ? 3 : 0;
    e->level[e->depth++] =
        (struct esp_encoder_level){.kind = kind, .names_start = (uint32_t)e->names.len};
    return ESP_OK;
}

enum esp_status esp_encode_key(struct esp_encoder *e, struct esp_str key, struct esp_error *err) {
    enum esp_status status = esp_name_check(key, err);
    if (status != ESP_OK) {
        return status;
    }
    if (e->level[e->depth - 1].count++) {
        esp_buf_put_char(e->out, ',');
    }
    size_t start = e->out->len;
    esp_buf_put_char(e->out, '"');
    esp_text_put(e->out, key);
    esp_buf_put_char(e->out, '"');
    e->size += 1 + (uint32_t)key.len;
    status = note_name(e, start, "the key", err);
    esp_buf_put_char(e->out, ':');
    return status;
}

enum esp_status esp_encode_close(struct esp_encoder *e, struct esp_error *err) {
    const struct esp_encoder_level *level = &e->level[--e->depth];
    e->names.len = level->names_start;
    if (level->kind >= ESP_ENCODE_SS && level->count == 0) {
        return esp_fail(err, ESP_ERR_INPUT, "a set needs at least one member");
    }
    esp_buf_put_str(e->out, level->kind == ESP_ENCODE_M ? ESP_STR("}}") : ESP_STR("]}"));
    return ESP_OK;
}
