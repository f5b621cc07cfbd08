#ifndef ESP_STORES_ITEM_TEXT_H
#define ESP_STORES_ITEM_TEXT_H
/*
 * DynamoDB JSON as a stream of events: what parsing, sizes, comparison and plain JSON
 * share.  Private to stores/item_*.c.
 *
 *   text    an item's members or one value, any JSON white space and escapes
 *   event   one scalar, or the begin or end of a list, map or set
 *
 * The walk checks everything that can be checked without looking back: types, numbers,
 * base64, UTF-8, nesting.  It keeps its own stack, so depth costs no C stack.
 */
#include "stores/item.h"

enum { ESP_NESTING_MAX = 32 }; /* levels, the attribute itself being the first */

enum esp_tag {
    ESP_TAG_S,
    ESP_TAG_N,
    ESP_TAG_B,
    ESP_TAG_BOOL,
    ESP_TAG_NULL,
    ESP_TAG_SS, /* a set: BEGIN, a SCALAR (S, N or B) a member, END */
    ESP_TAG_NS,
    ESP_TAG_BS,
    ESP_TAG_L,
    ESP_TAG_M, /* values in it carry a key */
};
extern const char *const esp_tag_names[]; /* "S" ... "M" */

enum esp_text_event { ESP_TEXT_SCALAR, ESP_TEXT_BEGIN, ESP_TEXT_END, ESP_TEXT_DONE };

struct esp_text {
    const char *begin, *at, *end;
    struct esp_error *err;
    /* The last event: its kind, and of what. */
    enum esp_text_event event;
    enum esp_tag tag;
    /* SCALAR: S, N, B: between the quotes, still escaped; BOOL: true or false. */
    struct esp_str token;
    struct esp_number number; /* SCALAR N */
    struct esp_str key; /* SCALAR and BEGIN of a member of a map or item: escaped; else NULL */
    int inside;         /* tag of the value the event is inside of; -1: of none */
    uint32_t count;     /* END: how many members there were */
    /* Containers we are in, outermost first; the item itself is one, a map. */
    int depth;
    struct {
        enum esp_tag tag;
        uint32_t count;
    } stack[ESP_NESTING_MAX + 1];
    bool is_item, begun;
    bool token_escaped, key_escaped; /* there is a backslash in it */
};
/* Walk one value: {"S":"x"}. */
void esp_text_init_value(struct esp_text *t, struct esp_str text, struct esp_error *err);
/* Walk an item: {"name":{"S":"x"}}: its events are those of a map, without BEGIN and END. */
void esp_text_init_item(struct esp_text *t, struct esp_str text, struct esp_error *err);
/* The next event.  ERR_INPUT with the byte offset in the sentence. */
enum esp_status esp_text_next(struct esp_text *t) ESP_MUST_CHECK;
enum esp_status esp_text_fail(struct esp_text *t, const char *what);

/* Escaped text between quotes, 1 to 4 bytes at a time: *at moves on, `out` gets the bytes of
 * one character; returns their number.  The text is one the walk has accepted. */
size_t esp_text_unescape_char(const char **at, char out[4]);
size_t esp_text_unescaped_len(struct esp_str escaped);
/* out has room for escaped.len bytes; returns how many were written. */
size_t esp_text_unescape(struct esp_str escaped, char *out);
bool esp_text_equals(struct esp_str escaped, struct esp_str plain);

/* Like esp_data_next, but names stay escaped. */
bool esp_data_next_escaped(struct esp_data data, size_t *pos, struct esp_member *out);

/* Not zero when a byte of the word must be escaped in JSON: a quote, a backslash or a control
 * character.  Each term is the usual test for a zero byte, or for a byte below 0x20. */
static inline uint64_t esp_word_needs_escape(uint64_t word) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
    return (((word - ones * 0x20) & ~word) | ((quote - ones) & ~quote) |
            ((backslash - ones) & ~backslash)) &
           tops;
}

/* Strict: padded, no trailing bits, the usual alphabet. */
bool esp_base64_is_valid(struct esp_str text);
size_t esp_base64_size(struct esp_str text); /* bytes of accepted base64 text, decoded */
size_t esp_base64_decode(struct esp_str text, char *out);
void esp_base64_put(struct esp_buf *out, struct esp_str bytes);

/* A buffer whose bytes live in an arena: finished text needs no copy and no free. */
enum { ESP_ITEM_TEXT_BYTES_MAX = 64 << 20 };
struct esp_arena_buf {
    struct esp_alloc alloc;
    struct esp_buf buf;
};
void esp_arena_buf_init(struct esp_arena_buf *ab, struct esp_arena *arena, size_t expected_bytes);

/* A set of strings, for the members of a DynamoDB set.  Strings are borrowed. */
struct esp_str_set {
    struct esp_str *slot; /* in the arena; ptr == NULL: free */
    size_t mask;
};
bool esp_str_set_init(struct esp_str_set *set, size_t count_max, struct esp_arena *arena);
bool esp_str_set_has(const struct esp_str_set *set, struct esp_str s);
bool esp_str_set_add(struct esp_str_set *set, struct esp_str s); /* false: it was there */

/* The current scalar of type S, N or B in one spelling: S unescaped, N canonical, B as
 * base64.  Borrowed from the text or in the arena; ptr == NULL: no memory. */
struct esp_str esp_text_normal(const struct esp_text *t, struct esp_arena *arena);
/* Append it as a JSON string. */
void esp_text_put_normal(struct esp_buf *out, enum esp_tag scalar, struct esp_str normal);

#endif
