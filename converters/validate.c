#include "converters/validate.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    /* Room for everything in an item but the payload: structural names and ids.  Only nodes
     * that come near the limit are measured exactly. */
    STRUCTURE_BYTES_MAX = ESP_ATTR_MAX * 255 + 4 * ESP_PK_BYTES_MAX,
};

enum esp_status esp_validate_fail(const struct esp_forest *f, esp_node v, struct esp_error *err,
                                  enum esp_status status, const char *fmt, ...) {
    char text[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (err && err->status == ESP_OK) {
        err->line = esp_forest_line(f, v);
    }
    return esp_fail(err, status, "%s", text);
}

struct size_check {
    const struct esp_layout *layout;
    uint32_t size_max;
};

static enum esp_status measure_item(void *ctx, const struct esp_item *item) {
    struct size_check *check = ctx;
    uint32_t size = esp_item_size(&check->layout->schema, item);
    check->size_max = size > check->size_max ? size : check->size_max;
    return ESP_OK;
}

static enum esp_status check_size(const struct esp_layout *l, const struct esp_forest *f,
                                  esp_node v, struct esp_arena *scratch, struct esp_error *err) {
    struct size_check check = {.layout = l};
    struct esp_str id = esp_forest_id(f, v);
    esp_arena_reset(scratch);
    enum esp_status status = l->ops->emit(l, f, v, 1, scratch, measure_item, &check);
    if (status == ESP_OK && check.size_max > ESP_ITEM_BYTES_MAX) {
        status = esp_validate_fail(f, v, err, ESP_ERR_LIMIT,
                                   "the item of '%.*s' has %u bytes; DynamoDB takes at most %d: "
                                   "leave columns out or keep large values elsewhere",
                                   ESP_FMT(id), check.size_max, ESP_ITEM_BYTES_MAX);
    }
    return status;
}

static enum esp_status check_names(const struct esp_layout *l, const struct esp_forest *f,
                                   esp_node v, struct esp_arena *scratch, struct esp_error *err) {
    struct esp_data data = esp_forest_data(f, v);
    struct esp_str id = esp_forest_id(f, v);
    struct esp_member member;
    for (size_t pos = 0; esp_data_next(data, &pos, scratch, &member);) {
        int at = esp_schema_find_attr(&l->schema, member.name);
        if (at >= 0) {
            return esp_validate_fail(
                f, v, err, ESP_ERR_INPUT,
                "the payload of '%.*s' has an attribute '%.*s', which is what the layout %s calls "
                "one of its own: rename the column, or the layout's attribute with --set "
                "attr.%.*s=NAME",
                ESP_FMT(id), ESP_FMT(member.name), l->ops->name,
                ESP_FMT(l->ops->schema.attr[at].name));
        }
    }
    return ESP_OK;
}

/* The forest as a whole may tell that no node needs a look. */
static bool needs_look(const struct esp_layout *l, const struct esp_forest *f) {
    if (f->data_size_max > ESP_ITEM_BYTES_MAX - STRUCTURE_BYTES_MAX) {
        return true;
    }
    for (size_t i = 0; i < l->schema.attr_count; i++) {
        if (esp_forest_may_have(f, l->schema.attr[i].name)) {
            return true;
        }
    }
    return false;
}

/* Is there a byte in the prefix that no id has? */
static bool cannot_be_reserved(const struct esp_forest *f) {
    const char *prefix = ESP_RESERVED_PREFIX;
    while (*prefix && f->id_has[(unsigned char)*prefix]) {
        prefix++;
    }
    return *prefix != '\0';
}

static enum esp_status check_reserved(const struct esp_forest *f, struct esp_error *err) {
    if (cannot_be_reserved(f)) {
        return ESP_OK;
    }
    for (esp_node v = 0; v < f->count; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        struct esp_str id = esp_forest_id(f, v);
        if (esp_id_reserved(id)) {
            return esp_validate_fail(f, v, err, ESP_ERR_INPUT,
                                     "the id '%.*s' begins with '" ESP_RESERVED_PREFIX
                                     "', which is for items of the program's own",
                                     ESP_FMT(id));
        }
    }
    return ESP_OK;
}

enum esp_status esp_validate_items(const struct esp_layout *l, const struct esp_forest *f,
                                   struct esp_error *err) {
    struct esp_arena scratch;
    enum esp_status status = check_reserved(f, err);
    if (status != ESP_OK || !needs_look(l, f)) {
        return status;
    }
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    for (esp_node v = 0; status == ESP_OK && v < f->count; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        status = check_names(l, f, v, &scratch, err);
        if (status == ESP_OK &&
            esp_forest_data(f, v).size > ESP_ITEM_BYTES_MAX - STRUCTURE_BYTES_MAX) {
            status = check_size(l, f, v, &scratch, err);
        }
        if (scratch.used_bytes) {
            esp_arena_reset(&scratch);
        }
    }
    esp_arena_fini(&scratch);
    return status;
}
