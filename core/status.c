#include "core/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static const struct {
    const char *name, *text;
    enum esp_status_class class;
} statuses[ESP_STATUS_COUNT] = {
#define ESP_STATUS(name, class, text) {#name, text, ESP_CLASS_##class},
#include "core/status.def"
#undef ESP_STATUS
};

enum esp_status esp_fail(struct esp_error *err, enum esp_status status, const char *fmt, ...) {
    if (err && err->status == ESP_OK) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
        err->status = status;
    }
    return status;
}

enum esp_status esp_fail_nomem(struct esp_error *err) {
    return esp_fail(err, ESP_ERR_NOMEM, "out of memory");
}

void esp_error_clear(struct esp_error *err) {
    if (err) {
        *err = (struct esp_error)ESP_ERROR_INIT;
    }
}

const char *esp_status_name(enum esp_status status) {
    return (unsigned)status < ESP_STATUS_COUNT ? statuses[status].name : "ERR_UNKNOWN";
}

const char *esp_status_text(enum esp_status status) {
    return (unsigned)status < ESP_STATUS_COUNT ? statuses[status].text : "unknown status";
}

enum esp_status_class esp_status_class(enum esp_status status) {
    return (unsigned)status < ESP_STATUS_COUNT ? statuses[status].class : ESP_CLASS_FATAL;
}
