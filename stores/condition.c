#include "stores/condition.h"

static bool is_ordered(enum esp_type type) {
    return type == ESP_TYPE_S || type == ESP_TYPE_N || type == ESP_TYPE_B;
}

static enum esp_status check(const struct esp_condition *c, struct esp_error *err) {
    switch (c->op) {
    case ESP_EXISTS:
    case ESP_NOT_EXISTS:
    case ESP_ANY:
        return ESP_OK;
    case ESP_EQ:
    case ESP_NE:
        return c->lo.type != ESP_TYPE_NONE
                   ? ESP_OK
                   : esp_fail(err, ESP_ERR_REFUSED, "a condition on %.*s compares with no value",
                              ESP_FMT(c->name));
    case ESP_PREFIX:
        return c->lo.type == ESP_TYPE_S || c->lo.type == ESP_TYPE_B
                   ? ESP_OK
                   : esp_fail(err, ESP_ERR_REFUSED,
                              "begins_with on %.*s needs a string or binary value",
                              ESP_FMT(c->name));
    case ESP_BETWEEN:
        if (c->lo.type != c->hi.type || !is_ordered(c->lo.type) ||
            esp_value_cmp(&c->lo, &c->hi) > 0) {
            return esp_fail(err, ESP_ERR_REFUSED,
                            "the bounds of BETWEEN on %.*s must be of one type and in order",
                            ESP_FMT(c->name));
        }
        return ESP_OK;
    default:
        return is_ordered(c->lo.type)
                   ? ESP_OK
                   : esp_fail(err, ESP_ERR_REFUSED,
                              "a comparison of %.*s needs a string, number or binary value",
                              ESP_FMT(c->name));
    }
}

enum esp_status esp_conditions_check(const struct esp_condition *list, size_t count,
                                     struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < count && status == ESP_OK; i++) {
        status = check(&list[i], err);
    }
    return status;
}

static bool begins_with(const struct esp_value *value, struct esp_str prefix) {
    return value->s.len >= prefix.len &&
           (prefix.len == 0 || memcmp(value->s.ptr, prefix.ptr, prefix.len) == 0);
}

static bool holds_for(const struct esp_condition *c, const struct esp_value *value) {
    bool same_type = value->type == c->lo.type;
    switch (c->op) {
    case ESP_ANY:
        return true;
    case ESP_EQ:
        return value->type != ESP_TYPE_NONE && esp_value_equal(value, &c->lo);
    case ESP_NE: /* a missing attribute is unequal to everything */
        return value->type == ESP_TYPE_NONE || !esp_value_equal(value, &c->lo);
    case ESP_LT:
        return same_type && esp_value_cmp(value, &c->lo) < 0;
    case ESP_LE:
        return same_type && esp_value_cmp(value, &c->lo) <= 0;
    case ESP_GT:
        return same_type && esp_value_cmp(value, &c->lo) > 0;
    case ESP_GE:
        return same_type && esp_value_cmp(value, &c->lo) >= 0;
    case ESP_BETWEEN:
        return same_type && esp_value_cmp(value, &c->lo) >= 0 && esp_value_cmp(value, &c->hi) <= 0;
    case ESP_PREFIX:
        return same_type && begins_with(value, c->lo.s);
    case ESP_EXISTS:
        return value->type != ESP_TYPE_NONE;
    case ESP_NOT_EXISTS:
        return value->type == ESP_TYPE_NONE;
    }
    return false;
}

/* The attribute a condition is about.  Whether it exists can be told without parsing it. */
static enum esp_status find(const struct esp_schema *schema, const struct esp_condition *c,
                            const struct esp_item *item, struct esp_arena *scratch,
                            struct esp_value *out, struct esp_error *err) {
    *out = (struct esp_value){.type = ESP_TYPE_NONE};
    if (!item) {
        return ESP_OK;
    }
    int position = esp_schema_find_attr(schema, c->name);
    if (position >= 0) {
        *out = item->value[position];
        return ESP_OK;
    }
    struct esp_str text;
    if (!esp_data_find(item->data, c->name, &text)) {
        return ESP_OK;
    }
    if (c->op == ESP_EXISTS || c->op == ESP_NOT_EXISTS) {
        *out = (struct esp_value){ESP_TYPE_JSON, text, 0};
        return ESP_OK;
    }
    return esp_value_parse(text, scratch, out, err);
}

enum esp_status esp_conditions_hold(const struct esp_schema *schema,
                                    const struct esp_condition *list, size_t count,
                                    const struct esp_item *item, struct esp_arena *scratch,
                                    bool *holds, struct esp_error *err) {
    struct esp_value value;
    *holds = true;
    for (size_t i = 0; i < count && *holds; i++) {
        enum esp_status status = find(schema, &list[i], item, scratch, &value, err);
        if (status != ESP_OK) {
            return status;
        }
        *holds = holds_for(&list[i], &value);
    }
    return ESP_OK;
}
