#include "stores/dynamodb/json_scan.h"

#include <stdlib.h>

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
        at++;
    }
    return at;
}

/* `at` is behind the opening quote; returns the closing one, or NULL. */
static const char *string_end(const char *at, const char *end) {
    const char *from = at;
    while (at < end) {
        const char *quote = memchr(at, '"', (size_t)(end - at));
        if (!quote) {
            return NULL;
        }
        const char *slash = quote;
        while (slash > from && slash[-1] == '\\') {
            slash--;
        }
        if ((quote - slash) % 2 == 0) {
            return quote;
        }
        at = quote + 1;
    }
    return NULL;
}

/* Returns what follows the object or array that `at` opens, or NULL. */
static const char *bracket_end(const char *at, const char *end) {
    size_t depth = 0;
    while (at < end) {
        char c = *at++;
        if (c == '"') {
            at = string_end(at, end);
            if (!at) {
                return NULL;
            }
            at++;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (--depth == 0) {
                return at;
            }
        }
    }
    return NULL;
}

static const char *value_end(const char *at, const char *end) {
    if (at == end) {
        return NULL;
    }
    if (*at == '{' || *at == '[') {
        return bracket_end(at, end);
    }
    if (*at == '"') {
        const char *quote = string_end(at + 1, end);
        return quote ? quote + 1 : NULL;
    }
    const char *from = at;
    while (at < end && !strchr(",]} \t\r\n", *at)) {
        at++;
    }
    return at > from ? at : NULL;
}

static bool walk_begin(struct esp_str text, char open, struct esp_json_walk *walk) {
    const char *from = text.ptr ? text.ptr : "", *end = from + text.len;
    const char *at = skip_blanks(from, end);
    bool right = at < end && *at == open;
    *walk = (struct esp_json_walk){right ? at + 1 : end, end, true, !right};
    return right;
}

bool esp_json_object(struct esp_str text, struct esp_json_walk *walk) {
    return walk_begin(text, '{', walk);
}

bool esp_json_array(struct esp_str text, struct esp_json_walk *walk) {
    return walk_begin(text, '[', walk);
}

static bool walk_break(struct esp_json_walk *walk) {
    walk->broken = true;
    walk->at = walk->end;
    return false;
}

/* To the first byte of the next member or element; false at the end. */
static bool walk_next(struct esp_json_walk *walk, char close) {
    if (walk->broken) {
        return false;
    }
    const char *at = skip_blanks(walk->at, walk->end);
    if (at == walk->end) {
        return walk_break(walk);
    }
    if (*at == close) {
        walk->at = at; /* asked again, the answer is the same */
        return false;
    }
    if (!walk->first) {
        if (*at != ',') {
            return walk_break(walk);
        }
        at = skip_blanks(at + 1, walk->end);
    }
    walk->first = false;
    walk->at = at;
    return true;
}

static bool walk_value(struct esp_json_walk *walk, struct esp_str *value) {
    const char *end = value_end(walk->at, walk->end);
    if (!end) {
        return walk_break(walk);
    }
    *value = (struct esp_str){walk->at, (size_t)(end - walk->at)};
    walk->at = end;
    return true;
}

bool esp_json_member(struct esp_json_walk *walk, struct esp_str *name, struct esp_str *value) {
    if (!walk_next(walk, '}')) {
        return false;
    }
    const char *quote =
        walk->at < walk->end && *walk->at == '"' ? string_end(walk->at + 1, walk->end) : NULL;
    if (!quote) {
        return walk_break(walk);
    }
    *name = (struct esp_str){walk->at + 1, (size_t)(quote - walk->at - 1)};
    const char *at = skip_blanks(quote + 1, walk->end);
    if (at == walk->end || *at != ':') {
        return walk_break(walk);
    }
    walk->at = skip_blanks(at + 1, walk->end);
    return walk_value(walk, value);
}

bool esp_json_element(struct esp_json_walk *walk, struct esp_str *value) {
    return walk_next(walk, ']') && walk_value(walk, value);
}

struct esp_str esp_json_find(struct esp_str object, const char *name) {
    struct esp_str wanted = esp_str_from(name), found, value;
    struct esp_json_walk walk;
    esp_json_object(object, &walk);
    while (esp_json_member(&walk, &found, &value)) {
        if (esp_str_eq(found, wanted)) {
            return value;
        }
    }
    return (struct esp_str){NULL, 0};
}

double esp_json_number(struct esp_str value) {
    char text[64];
    if (value.len == 0 || value.len >= sizeof text || value.ptr[0] == '"') {
        return 0;
    }
    memcpy(text, value.ptr, value.len);
    text[value.len] = '\0';
    return strtod(text, NULL);
}

/* Four hexadecimal digits, or -1. */
static int32_t hex4(const char *at, const char *end) {
    int32_t code = 0;
    if (end - at < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        code = code * 16 + digit;
    }
    return code;
}

static void put_utf8(struct esp_buf *out, uint32_t code) {
    if (code < 0x80) {
        esp_buf_put_char(out, (char)code);
    } else if (code < 0x800) {
        esp_buf_put_char(out, (char)(0xc0 | code >> 6));
        esp_buf_put_char(out, (char)(0x80 | (code & 0x3f)));
    } else if (code < 0x10000) {
        esp_buf_put_char(out, (char)(0xe0 | code >> 12));
        esp_buf_put_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
        esp_buf_put_char(out, (char)(0x80 | (code & 0x3f)));
    } else {
        esp_buf_put_char(out, (char)(0xf0 | code >> 18));
        esp_buf_put_char(out, (char)(0x80 | (code >> 12 & 0x3f)));
        esp_buf_put_char(out, (char)(0x80 | (code >> 6 & 0x3f)));
        esp_buf_put_char(out, (char)(0x80 | (code & 0x3f)));
    }
}

/* `at` is behind "\u"; returns what follows, or NULL. */
static const char *put_unicode(struct esp_buf *out, const char *at, const char *end) {
    int32_t code = hex4(at, end);
    if (code < 0) {
        return NULL;
    }
    at += 4;
    if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        int32_t low = hex4(at + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
            put_utf8(out, 0x10000 + ((uint32_t)(code - 0xd800) << 10) + (uint32_t)(low - 0xdc00));
            return at + 6;
        }
    }
    put_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : (uint32_t)code);
    return at;
}

bool esp_json_put_text(struct esp_buf *out, struct esp_str value) {
    if (value.len < 2 || value.ptr[0] != '"') {
        return false;
    }
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *at = value.ptr + 1, *end = value.ptr + value.len - 1;
    while (at < end) {
        if (*at != '\\') {
            esp_buf_put_char(out, *at++);
            continue;
        }
        const char *escape = at + 1 < end && at[1] ? strchr(from, at[1]) : NULL;
        if (escape) {
            esp_buf_put_char(out, to[escape - from]);
            at += 2;
        } else if (at + 1 < end && at[1] == 'u') {
            at = put_unicode(out, at + 2, end);
            if (!at) {
                return false;
            }
        } else {
            return false;
        }
    }
    return true;
}
