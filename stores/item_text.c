/* DynamoDB JSON in: a strict pull parser with its own stack (see item_text.h). */
#include "stores/item_text.h"

const char *const esp_tag_names[] = {"S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "L", "M"};
enum { TAG_COUNT = sizeof esp_tag_names / sizeof esp_tag_names[0] };
enum { NAME_BYTES_MAX = 65535 };

enum esp_status esp_text_fail(struct esp_text *t, const char *what) {
    return esp_fail(t->err, ESP_ERR_INPUT, "%s, at byte %zu of the DynamoDB JSON", what,
                    (size_t)(t->at - t->begin));
}

static void init(struct esp_text *t, struct esp_str text, struct esp_error *err, bool is_item) {
    t->begin = t->at = text.ptr;
    t->end = text.ptr + text.len;
    t->err = err;
    t->depth = 0;
    t->is_item = is_item;
    t->begun = false;
}

void esp_text_init_value(struct esp_text *t, struct esp_str text, struct esp_error *err) {
    init(t, text, err, false);
}

void esp_text_init_item(struct esp_text *t, struct esp_str text, struct esp_error *err) {
    init(t, text, err, true);
}

/* --- tokens ------------------------------------------------------------------- */

static void skip_blanks(struct esp_text *t) {
    while (t->at < t->end &&
           (*t->at == ' ' || *t->at == '\n' || *t->at == '\r' || *t->at == '\t')) {
        t->at++;
    }
}

/* Takes `c`, with blanks before it. */
static inline bool take(struct esp_text *t, char c) {
    if (t->at < t->end && *t->at <= ' ') { /* seldom */
        skip_blanks(t);
    }
    if (t->at < t->end && *t->at == c) {
        t->at++;
        return true;
    }
    return false;
}

static enum esp_status fail_expected(struct esp_text *t, char c) {
    char what[] = "expected 'x'";
    what[10] = c;
    return esp_text_fail(t, what);
}

static inline enum esp_status expect(struct esp_text *t, char c) {
    return take(t, c) ? ESP_OK : fail_expected(t, c);
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* The value of the four digits at `at`, or -1. */
static int hex4(const char *at, const char *end) {
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = at + i < end ? hex_digit(at[i]) : -1;
        if (digit < 0) {
            return -1;
        }
        value = value << 4 | digit;
    }
    return value;
}

/* Length of the escape at `at` (a backslash), a surrogate pair being one; 0: not valid. */
static size_t escape_len(const char *at, const char *end) {
    if (at + 1 >= end) {
        return 0;
    }
    if (at[1] != 'u') {
        return memchr("\"\\/bfnrt", at[1], 8) ? 2 : 0;
    }
    int unit = hex4(at + 2, end);
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) {
        return 0;
    }
    if (unit < 0xd800 || unit >= 0xe000) {
        return 6;
    }
    int low = at + 8 <= end && at[6] == '\\' && at[7] == 'u' ? hex4(at + 8, end) : -1;
    return low >= 0xdc00 && low < 0xe000 ? 12 : 0;
}

/* Length of the UTF-8 sequence at `at` (a byte above 0x7f); 0: not valid. */
static size_t utf8_len(const char *at, const char *end) {
    const unsigned char *b = (const unsigned char *)at;
    size_t left = (size_t)(end - at);
    size_t len = b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : b[0] < 0xf5 ? 4 : 0;
    if (len == 0 || len > left) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((b[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool overlong = (b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xf0 && b[1] < 0x90);
    bool outside = (b[0] == 0xed && b[1] >= 0xa0) || (b[0] == 0xf4 && b[1] >= 0x90);
    return overlong || outside ? 0 : len;
}

/* Past the characters that need no look: no quote, no escape, nothing above ASCII. */
static void skip_ordinary(struct esp_text *t) {
    const uint64_t tops = 0x8080808080808080u;
    while (t->end - t->at >= 8) {
        uint64_t word;
        memcpy(&word, t->at, sizeof word);
        if (esp_word_needs_escape(word) | (word & tops)) {
            return;
        }
        t->at += 8;
    }
}

static enum esp_status take_string(struct esp_text *t, struct esp_str *out, bool *escaped) {
    enum esp_status status = expect(t, '"');
    if (status != ESP_OK) {
        return status;
    }
    const char *from = t->at;
    *escaped = false;
    skip_ordinary(t);
    while (t->at < t->end) {
        unsigned char c = (unsigned char)*t->at;
        size_t len = 1;
        if (c == '"') {
            *out = (struct esp_str){from, (size_t)(t->at - from)};
            t->at++;
            return ESP_OK;
        }
        if (c < 0x20) {
            return esp_text_fail(t, "a control character in a string");
        }
        if (c == '\\') {
            *escaped = true;
            if (!(len = escape_len(t->at, t->end))) {
                return esp_text_fail(t, "not a valid escape");
            }
        }
        if (c > 0x7f && !(len = utf8_len(t->at, t->end))) {
            return esp_text_fail(t, "not valid UTF-8");
        }
        t->at += len;
    }
    return esp_text_fail(t, "the string does not end");
}

/* --- scalars ------------------------------------------------------------------ */

static enum esp_status check_number(struct esp_text *t) {
    char plain[512];
    struct esp_str text = t->token;
    if (t->token_escaped) {
        if (text.len > sizeof plain) {
            return esp_text_fail(t, "not a number");
        }
        text = (struct esp_str){plain, esp_text_unescape(text, plain)};
    }
    enum esp_status status = esp_number_parse(text, &t->number, t->err);
    return status == ESP_ERR_LIMIT ? ESP_ERR_INPUT : status;
}

/* A scalar that is a string: the value of S, N or B, or a member of a set. */
static enum esp_status take_scalar(struct esp_text *t, enum esp_tag tag) {
    t->event = ESP_TEXT_SCALAR;
    t->tag = tag;
    enum esp_status status = take_string(t, &t->token, &t->token_escaped);
    if (status == ESP_OK && tag == ESP_TAG_N) {
        status = check_number(t);
    }
    if (status == ESP_OK && tag == ESP_TAG_B && !esp_base64_is_valid(t->token)) {
        status = esp_text_fail(t, "not valid base64");
    }
    return status;
}

static enum esp_status take_word(struct esp_text *t, enum esp_tag tag) {
    const struct esp_str words[] = {ESP_STR("true"), ESP_STR("false")};
    t->event = ESP_TEXT_SCALAR;
    t->tag = tag;
    skip_blanks(t);
    for (int i = 0; i < (tag == ESP_TAG_NULL ? 1 : 2); i++) {
        if ((size_t)(t->end - t->at) >= words[i].len &&
            memcmp(t->at, words[i].ptr, words[i].len) == 0) {
            t->token = (struct esp_str){t->at, words[i].len};
            t->at += words[i].len;
            return ESP_OK;
        }
    }
    return esp_text_fail(t, tag == ESP_TAG_NULL ? "NULL must be true" : "expected true or false");
}

static bool is_set(enum esp_tag tag) {
    return tag == ESP_TAG_SS || tag == ESP_TAG_NS || tag == ESP_TAG_BS;
}

static enum esp_tag member_tag(enum esp_tag set) {
    return set == ESP_TAG_SS ? ESP_TAG_S : set == ESP_TAG_NS ? ESP_TAG_N : ESP_TAG_B;
}

/* --- values ------------------------------------------------------------------- */

/* The type by its name, or -1: S N B L M, SS NS BS, BOOL NULL. */
static int find_tag(struct esp_str name) {
    for (int i = 0; i < TAG_COUNT; i++) {
        const char *known = esp_tag_names[i];
        if (name.len && name.ptr[0] == known[0] && esp_str_eq(name, esp_str_from(known))) {
            return i;
        }
    }
    return -1;
}

static enum esp_status take_tag(struct esp_text *t, enum esp_tag *tag) {
    struct esp_str name;
    bool escaped;
    enum esp_status status = take_string(t, &name, &escaped);
    if (status != ESP_OK) {
        return status;
    }
    int found = find_tag(name);
    if (found < 0) {
        return esp_text_fail(t, "an unknown type of value");
    }
    *tag = (enum esp_tag)found;
    return expect(t, ':');
}

/* The closing brace of {"S":"x"}; a second member is the usual mistake. */
static enum esp_status close_value(struct esp_text *t) {
    return take(t, '}') ? ESP_OK : esp_text_fail(t, "a value must have exactly one type");
}

static enum esp_status begin_container(struct esp_text *t, enum esp_tag tag) {
    t->event = ESP_TEXT_BEGIN;
    t->tag = tag;
    t->stack[t->depth].tag = tag;
    t->stack[t->depth].count = 0;
    t->depth++;
    return expect(t, tag == ESP_TAG_M ? '{' : '[');
}

static enum esp_status begin_value(struct esp_text *t) {
    enum esp_tag tag = ESP_TAG_S;
    if (t->depth - (t->is_item ? 1 : 0) >= ESP_NESTING_MAX) {
        return esp_text_fail(t, "nested deeper than 32 levels");
    }
    enum esp_status status = expect(t, '{');
    if (status == ESP_OK) {
        status = take_tag(t, &tag);
    }
    if (status != ESP_OK) {
        return status;
    }
    switch (tag) {
    case ESP_TAG_S:
    case ESP_TAG_N:
    case ESP_TAG_B:
        status = take_scalar(t, tag);
        break;
    case ESP_TAG_BOOL:
    case ESP_TAG_NULL:
        status = take_word(t, tag);
        break;
    default:
        return begin_container(t, tag);
    }
    return status == ESP_OK ? close_value(t) : status;
}

static enum esp_status take_key(struct esp_text *t) {
    enum esp_status status = take_string(t, &t->key, &t->key_escaped);
    if (status != ESP_OK) {
        return status;
    }
    if (t->depth == 1 && t->is_item &&
        (t->key.len == 0 ||
         (t->key.len > NAME_BYTES_MAX && esp_text_unescaped_len(t->key) > NAME_BYTES_MAX))) {
        return esp_text_fail(t, "an attribute name has 1 to 65535 bytes");
    }
    return expect(t, ':');
}

static enum esp_status end_container(struct esp_text *t) {
    t->depth--;
    t->event = ESP_TEXT_END;
    t->tag = t->stack[t->depth].tag;
    t->count = t->stack[t->depth].count;
    t->inside = t->depth > (t->is_item ? 1 : 0) ? (int)t->stack[t->depth - 1].tag : -1;
    if (is_set(t->tag) && t->count == 0) {
        return esp_text_fail(t, "a set must not be empty");
    }
    if (t->is_item && t->depth == 0) { /* the item's own brace */
        t->event = ESP_TEXT_DONE;
        skip_blanks(t);
        return t->at == t->end ? ESP_OK : esp_text_fail(t, "text after the end of the item");
    }
    return close_value(t);
}

enum esp_status esp_text_next(struct esp_text *t) {
    t->key = (struct esp_str){0, 0};
    t->inside = -1;
    if (!t->begun) {
        t->begun = true;
        if (!t->is_item) {
            return begin_value(t);
        }
        enum esp_status status = begin_container(t, ESP_TAG_M);
        if (status != ESP_OK) {
            return status;
        }
    }
    if (t->depth == 0) {
        t->event = ESP_TEXT_DONE;
        skip_blanks(t);
        return t->at == t->end ? ESP_OK : esp_text_fail(t, "text after the end of the value");
    }
    enum esp_tag container = t->stack[t->depth - 1].tag;
    if (take(t, container == ESP_TAG_M ? '}' : ']')) {
        return end_container(t);
    }
    if (t->stack[t->depth - 1].count++ > 0) {
        enum esp_status status = expect(t, ',');
        if (status != ESP_OK) {
            return status;
        }
    }
    t->inside = t->is_item && t->depth == 1 ? -1 : (int)container;
    if (is_set(container)) {
        return take_scalar(t, member_tag(container));
    }
    if (container == ESP_TAG_M) {
        enum esp_status status = take_key(t);
        if (status != ESP_OK) {
            return status;
        }
    }
    return begin_value(t);
}

/* --- accepted text ------------------------------------------------------------ */

static size_t put_utf8(uint32_t c, char out[4]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (char)(lead[len] | c);
    return len;
}

size_t esp_text_unescape_char(const char **at, char out[4]) {
    const char *c = *at;
    if (*c != '\\') {
        *at = c + 1;
        out[0] = *c;
        return 1;
    }
    if (c[1] != 'u') {
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *which = memchr(from, c[1], 5);
        out[0] = which ? to[which - from] : c[1];
        *at = c + 2;
        return 1;
    }
    uint32_t unit = (uint32_t)hex4(c + 2, c + 6);
    *at = c + 6;
    if (unit >= 0xd800 && unit < 0xdc00) {
        uint32_t low = (uint32_t)hex4(c + 8, c + 12);
        *at = c + 12;
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    return put_utf8(unit, out);
}

static const char *find_backslash(const char *at, const char *end) {
    const char *found = at < end ? memchr(at, '\\', (size_t)(end - at)) : NULL;
    return found ? found : end;
}

size_t esp_text_unescaped_len(struct esp_str escaped) {
    const char *at = escaped.ptr, *end = at + escaped.len;
    size_t len = 0;
    char bytes[4];
    while (at < end) {
        const char *stop = find_backslash(at, end);
        len += (size_t)(stop - at);
        at = stop;
        if (at < end) {
            len += esp_text_unescape_char(&at, bytes);
        }
    }
    return len;
}

size_t esp_text_unescape(struct esp_str escaped, char *out) {
    const char *at = escaped.ptr, *end = at + escaped.len;
    char *to = out, bytes[4];
    while (at < end) {
        const char *stop = find_backslash(at, end);
        memcpy(to, at, (size_t)(stop - at));
        to += stop - at;
        at = stop;
        if (at < end) {
            size_t n = esp_text_unescape_char(&at, bytes);
            memcpy(to, bytes, n);
            to += n;
        }
    }
    return (size_t)(to - out);
}

bool esp_text_equals(struct esp_str escaped, struct esp_str plain) {
    const char *at = escaped.ptr, *end = at + escaped.len;
    char bytes[4];
    if (find_backslash(at, end) == end) {
        return esp_str_eq(escaped, plain);
    }
    size_t i = 0;
    while (at < end) {
        size_t n = esp_text_unescape_char(&at, bytes);
        if (n > plain.len - i || memcmp(bytes, plain.ptr + i, n) != 0) {
            return false;
        }
        i += n;
    }
    return i == plain.len;
}

/* --- base64 ------------------------------------------------------------------- */

static int base64_digit(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Decodes; `out` NULL only counts.  False when the text is not strict base64.  A slash may
 * come as an escape, as some encoders of JSON write it. */
static bool base64_decode(struct esp_str text, char *out, size_t *size) {
    const char *at = text.ptr, *end = at + text.len;
    uint32_t word = 0;
    size_t digits = 0, padding = 0, written = 0;
    char c[4];
    while (at < end) {
        if (esp_text_unescape_char(&at, c) != 1) {
            return false;
        }
        int digit = c[0] == '=' ? 0 : base64_digit(c[0]);
        padding += c[0] == '=';
        if (digit < 0 || (padding && c[0] != '=') || padding > 2) {
            return false;
        }
        word = word << 6 | (uint32_t)digit;
        if (++digits % 4 != 0) {
            continue;
        }
        if (padding && (word & (padding == 1 ? 0xff : 0xffff))) {
            return false; /* bits that belong to no byte */
        }
        for (size_t i = 0; i < 3 - padding; i++, written++) {
            if (out) {
                out[written] = (char)(word >> (16 - 8 * i));
            }
        }
        word = 0;
    }
    *size = written;
    return digits % 4 == 0;
}

bool esp_base64_is_valid(struct esp_str text) {
    size_t size;
    return base64_decode(text, NULL, &size);
}

size_t esp_base64_size(struct esp_str text) {
    size_t size;
    return base64_decode(text, NULL, &size) ? size : 0;
}

size_t esp_base64_decode(struct esp_str text, char *out) {
    size_t size;
    return base64_decode(text, out, &size) ? size : 0;
}

/* --- memory ------------------------------------------------------------------- */

static void *arena_resize(void *ctx, void *old, size_t old_size, size_t new_size) {
    void *bytes = esp_arena_alloc(ctx, new_size);
    if (bytes && old) {
        memcpy(bytes, old, old_size < new_size ? old_size : new_size);
    }
    return bytes;
}

static void arena_release(void *ctx, void *ptr, size_t size) {
    (void)ctx, (void)ptr, (void)size;
}

void esp_arena_buf_init(struct esp_arena_buf *ab, struct esp_arena *arena, size_t expected_bytes) {
    ab->alloc = (struct esp_alloc){arena_resize, arena_release, arena, 0};
    esp_buf_init(&ab->buf, &ab->alloc, ESP_ITEM_TEXT_BYTES_MAX);
    esp_buf_reserve(&ab->buf, expected_bytes + 16);
}

bool esp_str_set_init(struct esp_str_set *set, size_t count_max, struct esp_arena *arena) {
    size_t slots = 4;
    while (slots < 2 * count_max) {
        slots *= 2;
    }
    set->mask = slots - 1;
    set->slot = esp_arena_calloc(arena, slots, sizeof *set->slot);
    return set->slot != NULL;
}

/* Where `s` is, or the free slot where it would go. */
static struct esp_str *find_slot(const struct esp_str_set *set, struct esp_str s) {
    size_t i = esp_hash64(s.ptr, s.len, 0) & set->mask;
    while (set->slot[i].ptr && !esp_str_eq(set->slot[i], s)) {
        i = (i + 1) & set->mask;
    }
    return &set->slot[i];
}

bool esp_str_set_has(const struct esp_str_set *set, struct esp_str s) {
    return find_slot(set, s)->ptr != NULL;
}

bool esp_str_set_add(struct esp_str_set *set, struct esp_str s) {
    struct esp_str *slot = find_slot(set, s);
    if (slot->ptr) {
        return false;
    }
    *slot = s;
    return true;
}

struct esp_str esp_text_normal(const struct esp_text *t, struct esp_arena *arena) {
    if (t->tag == ESP_TAG_N) {
        char text[ESP_NUMBER_TEXT_MAX];
        size_t len = esp_number_format(&t->number, text);
        return esp_arena_dup(arena, (struct esp_str){text, len});
    }
    if (!t->token_escaped) {
        return t->token;
    }
    char *plain = esp_arena_alloc(arena, t->token.len);
    return (struct esp_str){plain, plain ? esp_text_unescape(t->token, plain) : 0};
}

void esp_text_put_normal(struct esp_buf *out, enum esp_tag scalar, struct esp_str normal) {
    if (scalar == ESP_TAG_S) {
        esp_json_put_string(out, normal);
        return;
    }
    esp_buf_put_char(out, '"');
    esp_buf_put_str(out, normal);
    esp_buf_put_char(out, '"');
}
