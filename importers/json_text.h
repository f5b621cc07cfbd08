#ifndef ESP_IMPORTERS_JSON_TEXT_H
#define ESP_IMPORTERS_JSON_TEXT_H
/*
 * JSON text below its grammar: where we are in it, and what yajl lets pass: invalid UTF-8
 * (its own check takes overlong forms and surrogates) and escapes of lone surrogates (it
 * makes a question mark of them).  Text arrives in pieces of any size.
 */
#include "importers/encode.h"

struct esp_json_text {
    struct esp_str piece;   /* being read */
    uint64_t piece_offset;  /* of its first byte */
    uint64_t line;          /* 1-based, at `counted` */
    uint64_t line_offset;   /* where that line starts */
    uint64_t counted;       /* line ends before this offset are counted */
    struct esp_utf8 utf8;   /* a character that goes on in the next piece */
    uint64_t escape_offset; /* of the escape being read */
    uint16_t unit;          /* its value so far */
    uint8_t escape;         /* 0 outside, 1 after the backslash, 2..5 before a hex digit */
    bool high;              /* a high surrogate waits for its low one */
    bool lone;              /* what is wrong at bad_offset is a surrogate */
    uint64_t bad_offset;    /* UINT64_MAX = nothing is wrong */
};
struct esp_json_place {
    uint64_t line, column, offset;
};

/* `offset` = bytes that came before (a byte order mark). */
void esp_json_text_init(struct esp_json_text *text, uint64_t offset);
/* Take the next piece.  Returns how many of its bytes are good. */
size_t esp_json_text_take(struct esp_json_text *text, struct esp_str piece);
/* Not all were good: say what is wrong and where. */
enum esp_status esp_json_text_fail(struct esp_json_text *text,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* The place of an offset in the piece, at or after the last one asked for. */
struct esp_json_place esp_json_text_place(struct esp_json_text *text, uint64_t offset);
/* Done with the piece. */
void esp_json_text_leave(struct esp_json_text *text);

void esp_json_error_place(struct esp_error *err, const struct esp_json_place *place);

#endif
