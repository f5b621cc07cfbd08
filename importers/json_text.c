#include "importers/json_text.h"

void esp_json_text_init(struct esp_json_text *text, uint64_t offset) {
    *text = (struct esp_json_text){.utf8 = ESP_UTF8_INIT,
                                   .line = 1,
                                   .line_offset = offset,
                                   .counted = offset,
                                   .piece_offset = offset,
                                   .bad_offset = UINT64_MAX};
}

struct esp_json_place esp_json_text_place(struct esp_json_text *text, uint64_t offset) {
    if (offset < text->counted) { /* begun in an earlier piece, in this line */
        return (struct esp_json_place){text->line, offset - text->line_offset + 1, offset};
    }
    const char *from = text->piece.ptr + (text->counted - text->piece_offset);
    const char *to = text->piece.ptr + (offset - text->piece_offset);
    while (from < to && (from = memchr(from, '\n', (size_t)(to - from))) != NULL) {
        from++;
        text->line++;
        text->line_offset = text->piece_offset + (uint64_t)(from - text->piece.ptr);
    }
    text->counted = offset;
    return (struct esp_json_place){text->line, offset - text->line_offset + 1, offset};
}

void esp_json_text_leave(struct esp_json_text *text) {
    uint64_t end = text->piece_offset + text->piece.len;
    if (text->piece.len) {
        esp_json_text_place(text, end);
    }
    text->piece = (struct esp_str){NULL, 0};
    text->piece_offset = end;
}

void esp_json_error_place(struct esp_error *err, const struct esp_json_place *place) {
    if (err && err->line == 0) {
        err->line = place->line;
        err->column = place->column;
        err->byte_offset = place->offset;
    }
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The escape is complete: false when its surrogate stands alone. */
static bool end_escape(struct esp_json_text *text) {
    bool is_high = text->unit >= 0xd800 && text->unit <= 0xdbff;
    bool is_low = text->unit >= 0xdc00 && text->unit <= 0xdfff;
    text->escape = 0;
    if (text->high != is_low) {
        return false;
    }
    text->high = is_high;
    return true;
}

/* False when a surrogate is found to stand alone.  Malformed escapes are yajl's business. */
static bool check_escapes(struct esp_json_text *text) {
    for (size_t i = 0; i < text->piece.len; i++) {
        char c = text->piece.ptr[i];
        if (text->escape == 0) {
            if (text->high && c != '\\') {
                return false;
            }
            const char *next = memchr(text->piece.ptr + i, '\\', text->piece.len - i);
            if (!next) {
                return true;
            }
            i = (size_t)(next - text->piece.ptr);
            text->escape = 1;
            if (!text->high) {
                text->escape_offset = text->piece_offset + i;
            }
        } else if (text->escape == 1) {
            if (c != 'u' && text->high) {
                return false;
            }
            text->escape = c == 'u' ? 2 : 0;
            text->unit = 0;
        } else {
            int digit = hex_value(c);
            if (digit < 0) {
                text->escape = 0;
                text->high = false;
                continue;
            }
            text->unit = (uint16_t)(text->unit << 4 | digit);
            if (text->escape++ == 5 && !end_escape(text)) {
                return false;
            }
        }
    }
    return true;
}

size_t esp_json_text_take(struct esp_json_text *text, struct esp_str piece) {
    text->piece = piece;
    int64_t bad;
    if (!esp_utf8_check(&text->utf8, piece, &bad)) {
        text->bad_offset = text->piece_offset + (uint64_t)bad;
    }
    if (!check_escapes(text) && text->escape_offset < text->bad_offset) {
        text->bad_offset = text->escape_offset;
        text->lone = true;
    }
    if (text->bad_offset == UINT64_MAX) {
        return piece.len;
    }
    return text->bad_offset > text->piece_offset ? (size_t)(text->bad_offset - text->piece_offset)
                                                 : 0;
}

enum esp_status esp_json_text_fail(struct esp_json_text *text, struct esp_error *err) {
    struct esp_json_place place = esp_json_text_place(text, text->bad_offset);
    enum esp_status status;
    if (text->lone) {
        status =
            esp_fail(err, ESP_ERR_INPUT,
                     "the escape of a lone surrogate (half of a character) stands for no text");
    } else if (text->utf8.lead == 0) {
        status = esp_fail(err, ESP_ERR_INPUT, "a NUL byte: is this a text file");
    } else {
        status =
            esp_fail(err, ESP_ERR_INPUT, "invalid UTF-8 (byte 0x%02x): convert the file to UTF-8",
                     text->utf8.lead);
    }
    esp_json_error_place(err, &place);
    return status;
}
