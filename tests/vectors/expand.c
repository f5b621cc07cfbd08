#include "tests/vectors/expand.h"

#include "core/mem.h"
#include "stores/item_text.h"

#include <stdlib.h>

enum { TEXT_BYTES_MAX = 8 << 20 };

static json_t *finish(struct esp_buf *text) {
    json_t *out = text->failed ? NULL : json_stringn(text->len ? text->ptr : "", text->len);
    esp_buf_fini(text);
    return out;
}

static json_t *expand_string(const char *from, size_t len, int i) {
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, TEXT_BYTES_MAX);
    for (size_t at = 0; at < len; at++) {
        bool placeholder = i >= 0 && at + 3 <= len && from[at] == '{' && from[at + 2] == '}';
        if (placeholder && from[at + 1] == 'i') {
            esp_buf_printf(&text, "%04d", i);
            at += 2;
        } else if (placeholder && from[at + 1] == 'n') {
            esp_buf_printf(&text, "%d", i);
            at += 2;
        } else {
            esp_buf_put_char(&text, from[at]);
        }
    }
    return finish(&text);
}

static json_t *repeat(json_t *arguments, int i) {
    json_t *unit = esp_vector_expand(json_array_get(arguments, 0), i);
    json_int_t count = json_integer_value(json_array_get(arguments, 1));
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, TEXT_BYTES_MAX);
    for (json_int_t k = 0; k < count; k++) {
        esp_buf_put(&text, json_string_value(unit), json_string_length(unit));
    }
    json_decref(unit);
    return finish(&text);
}

static json_t *base64(json_t *arguments) {
    char byte = (char)json_integer_value(json_array_get(arguments, 0));
    size_t count = (size_t)json_integer_value(json_array_get(arguments, 1));
    char *bytes = malloc(count + 1);
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, TEXT_BYTES_MAX);
    if (bytes) {
        memset(bytes, byte, count + 1);
        esp_base64_put(&text, (struct esp_str){bytes, count});
    }
    free(bytes);
    return finish(&text);
}

static json_t *expand_object(json_t *object, int i) {
    const char *key;
    json_t *member, *out = json_object();
    if (json_object_get(object, "$rep")) {
        json_decref(out);
        return repeat(json_object_get(object, "$rep"), i);
    }
    if (json_object_get(object, "$b64")) {
        json_decref(out);
        return base64(json_object_get(object, "$b64"));
    }
    json_object_foreach(object, key, member) {
        json_t *name = expand_string(key, strlen(key), i);
        json_object_set_new(out, json_string_value(name), esp_vector_expand(member, i));
        json_decref(name);
    }
    return out;
}

/* Recursion: the files are ours and shallow. */
json_t *esp_vector_expand(json_t *value, int i) {
    if (json_is_string(value)) {
        return expand_string(json_string_value(value), json_string_length(value), i);
    }
    if (json_is_object(value)) {
        return expand_object(value, i);
    }
    if (json_is_array(value)) {
        json_t *out = json_array();
        for (size_t k = 0; k < json_array_size(value); k++) {
            json_array_append_new(out, esp_vector_expand(json_array_get(value, k), i));
        }
        return out;
    }
    return json_incref(value);
}
