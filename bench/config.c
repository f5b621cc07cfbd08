#include "bench/config.h"

#include "core/reader.h"
#include <math.h>
#include <stdio.h>

enum esp_status esp_config_parse(struct esp_str text, const char *name, json_t **out,
                                 struct esp_error *err) {
    json_error_t why;
    json_t *root = json_loadb(text.ptr ? text.ptr : "", text.len, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        enum esp_status status = esp_fail(err, ESP_ERR_INPUT, "not valid JSON: %s", why.text);
        if (err && err->source[0] == '\0') {
            snprintf(err->source, sizeof err->source, "%s", name);
            err->line = why.line > 0 ? (uint64_t)why.line : 0;
            err->column = why.column > 0 ? (uint64_t)why.column : 0;
            err->byte_offset = why.position > 0 ? (uint64_t)why.position : 0;
        }
        return status;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        return esp_fail(err, ESP_ERR_INPUT, "%s: a JSON object was expected", name);
    }
    *out = root;
    return ESP_OK;
}

enum esp_status esp_config_load(const char *path, const struct esp_alloc *alloc,
                                struct esp_buf *out, struct esp_error *err) {
    struct esp_reader *reader = NULL;
    enum esp_status status = esp_reader_open(path, alloc, &reader, err);
    while (status == ESP_OK) {
        struct esp_str part;
        status = esp_reader_next(reader, &part, err);
        if (status != ESP_OK || part.len == 0) {
            break;
        }
        esp_buf_put_str(out, part);
    }
    if (status == ESP_OK && out->failed) {
        status = esp_fail(err, ESP_ERR_LIMIT, "%s: more than %zu bytes", path, out->limit);
    }
    esp_reader_close(reader);
    return status;
}

enum esp_status esp_config_read(const char *path, const struct esp_alloc *alloc, json_t **out,
                                struct esp_error *err) {
    struct esp_buf text;
    esp_buf_init(&text, alloc, ESP_CONFIG_BYTES_MAX);
    enum esp_status status = esp_config_load(path, alloc, &text, err);
    if (status == ESP_OK) {
        status = esp_config_parse(esp_buf_str(&text), path, out, err);
    }
    esp_buf_fini(&text);
    return status;
}

static enum esp_status wrong(const char *where, const char *member, const char *what,
                             struct esp_error *err) {
    return esp_fail(err, ESP_ERR_INPUT, "%s%smember \"%s\" %s", where, where[0] ? ": " : "", member,
                    what);
}

enum esp_status esp_config_number(const json_t *object, const char *where, const char *member,
                                  double *out, struct esp_error *err) {
    const json_t *value = json_object_get(object, member);
    if (!value) {
        return wrong(where, member, "is missing", err);
    }
    if (!json_is_number(value)) {
        return wrong(where, member, "must be a number", err);
    }
    double number = json_number_value(value);
    if (!isfinite(number) || number < 0) {
        return wrong(where, member, "must not be negative", err);
    }
    *out = number;
    return ESP_OK;
}

enum esp_status esp_config_text(const json_t *object, const char *where, const char *member,
                                char *out, size_t size, struct esp_error *err) {
    const json_t *value = json_object_get(object, member);
    if (!value) {
        return wrong(where, member, "is missing", err);
    }
    if (!json_is_string(value) || json_string_length(value) == 0) {
        return wrong(where, member, "must be a text", err);
    }
    if (json_string_length(value) >= size) {
        return wrong(where, member, "is too long", err);
    }
    memcpy(out, json_string_value(value), json_string_length(value) + 1);
    return ESP_OK;
}
