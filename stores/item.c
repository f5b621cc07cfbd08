/* Schemas, copies, sizes by DynamoDB's rules, and what DynamoDB would refuse. */
#include "stores/item.h"

/* --- values ------------------------------------------------------------------- */

enum esp_status esp_value_from_number(const struct esp_number *number, struct esp_arena *arena,
                                      struct esp_value *out, struct esp_error *err) {
    int64_t n;
    if (esp_number_to_i64(number, &n)) {
        *out = esp_n(n);
        return ESP_OK;
    }
    char text[ESP_NUMBER_TEXT_MAX];
    size_t len = esp_number_format(number, text);
    struct esp_str copy = esp_arena_dup(arena, (struct esp_str){text, len});
    if (!copy.ptr) {
        return esp_fail_nomem(err);
    }
    *out = (struct esp_value){ESP_TYPE_N, copy, 0};
    return ESP_OK;
}

void esp_value_to_number(const struct esp_value *value, struct esp_number *out) {
    if (value->s.len == 0) {
        esp_number_from_i64(value->n, out);
    } else if (esp_number_parse(value->s, out, NULL) != ESP_OK) {
        esp_number_from_i64(0, out); /* cannot happen: the text is canonical */
    }
}

static int cmp_numbers(const struct esp_value *a, const struct esp_value *b) {
    if (a->s.len == 0 && b->s.len == 0) {
        return (a->n > b->n) - (a->n < b->n);
    }
    struct esp_number x, y;
    esp_value_to_number(a, &x);
    esp_value_to_number(b, &y);
    return esp_number_cmp(&x, &y);
}

int esp_value_cmp(const struct esp_value *a, const struct esp_value *b) {
    if (a->type != b->type) {
        return a->type < b->type ? -1 : 1;
    }
    if (a->type == ESP_TYPE_N) {
        return cmp_numbers(a, b);
    }
    int order = esp_str_cmp(a->s, b->s);
    return (order > 0) - (order < 0);
}

bool esp_item_same_key(const struct esp_schema *schema, const struct esp_item *a,
                       const struct esp_item *b) {
    return esp_value_cmp(&a->value[schema->pk], &b->value[schema->pk]) == 0 &&
           (schema->sk < 0 || esp_value_cmp(&a->value[schema->sk], &b->value[schema->sk]) == 0);
}

/* --- schemas ------------------------------------------------------------------ */

int esp_schema_find_attr(const struct esp_schema *schema, struct esp_str name) {
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (esp_str_eq(schema->attr[i].name, name)) {
            return (int)i;
        }
    }
    return -1;
}

bool esp_schema_is_key(const struct esp_schema *schema, int position) {
    bool is_key = position == schema->pk || position == schema->sk;
    for (size_t i = 0; i < schema->index_count; i++) {
        is_key = is_key || position == schema->index[i].pk || position == schema->index[i].sk;
    }
    return is_key;
}

static bool same_key_attr(const struct esp_schema *a, int i, const struct esp_schema *b, int k) {
    if (i < 0 || k < 0) {
        return i < 0 && k < 0;
    }
    return a->attr[i].type == b->attr[k].type && esp_str_eq(a->attr[i].name, b->attr[k].name);
}

static bool includes(const struct esp_index *index, struct esp_str name) {
    for (size_t i = 0; i < index->include_count; i++) {
        if (esp_str_eq(index->include[i], name)) {
            return true;
        }
    }
    return false;
}

static bool same_projection(const struct esp_index *a, const struct esp_index *b) {
    if (a->projection != b->projection) {
        return false;
    }
    if (a->projection != ESP_PROJECT_INCLUDE) {
        return true;
    }
    for (size_t i = 0; i < a->include_count; i++) {
        if (!includes(b, a->include[i])) {
            return false;
        }
    }
    return a->include_count == b->include_count;
}

enum esp_status esp_schema_match(const struct esp_schema *want, const struct esp_schema *have,
                                 struct esp_error *err) {
    if (!same_key_attr(want, want->pk, have, have->pk) ||
        !same_key_attr(want, want->sk, have, have->sk)) {
        return esp_fail(err, ESP_ERR_REFUSED, "the table that exists has another primary key");
    }
    for (size_t i = 0; i < want->index_count; i++) {
        const struct esp_index *w = &want->index[i], *h = NULL;
        for (size_t k = 0; k < have->index_count && !h; k++) {
            h = esp_str_eq(w->name, have->index[k].name) ? &have->index[k] : NULL;
        }
        if (!h) {
            return esp_fail(err, ESP_ERR_REFUSED, "the table that exists has no index %.*s",
                            ESP_FMT(w->name));
        }
        if (w->local != h->local || !same_key_attr(want, w->pk, have, h->pk) ||
            !same_key_attr(want, w->sk, have, h->sk)) {
            return esp_fail(err, ESP_ERR_REFUSED,
                            "index %.*s of the table that exists has another key",
                            ESP_FMT(w->name));
        }
        if (!same_projection(w, h)) {
            return esp_fail(err, ESP_ERR_REFUSED,
                            "index %.*s of the table that exists projects other attributes",
                            ESP_FMT(w->name));
        }
    }
    return ESP_OK;
}

/* --- copies ------------------------------------------------------------------- */

void esp_item_copy(const struct esp_schema *schema, struct esp_item *to,
                   const struct esp_item *from) {
    memcpy(to->value, from->value, schema->attr_count * sizeof to->value[0]);
    to->data = from->data;
}

/* All strings go into one allocation: an item is copied for each buffered write. */
enum esp_status esp_item_dup(const struct esp_schema *schema, struct esp_arena *arena,
                             const struct esp_item *from, struct esp_item *to) {
    size_t total = from->data.len;
    for (size_t i = 0; i < schema->attr_count; i++) {
        total += from->value[i].type == ESP_TYPE_NONE ? 0 : from->value[i].s.len;
    }
    char *at = esp_arena_alloc(arena, total ? total : 1);
    if (!at) {
        return ESP_ERR_NOMEM;
    }
    for (size_t i = 0; i < schema->attr_count; i++) {
        to->value[i] = from->value[i];
        if (from->value[i].type != ESP_TYPE_NONE && from->value[i].s.len) {
            memcpy(at, from->value[i].s.ptr, from->value[i].s.len);
            to->value[i].s.ptr = at;
            at += from->value[i].s.len;
        }
    }
    to->data = from->data;
    if (from->data.len) {
        memcpy(at, from->data.text, from->data.len);
        to->data.text = at;
    }
    return ESP_OK;
}

enum esp_status esp_item_find(const struct esp_schema *schema, const struct esp_item *item,
                              struct esp_str name, struct esp_arena *arena, struct esp_value *out,
                              struct esp_error *err) {
    int position = esp_schema_find_attr(schema, name);
    struct esp_str text;
    if (position >= 0) {
        *out = item->value[position];
        return ESP_OK;
    }
    if (!esp_data_find(item->data, name, &text)) {
        *out = (struct esp_value){.type = ESP_TYPE_NONE};
        return ESP_OK;
    }
    return esp_value_parse(text, arena, out, err);
}

/* --- sizes -------------------------------------------------------------------- */

static uint32_t number_text_size(struct esp_str text) {
    struct esp_number number;
    return esp_number_parse(text, &number, NULL) == ESP_OK ? esp_number_size(&number) : 0;
}

uint32_t esp_value_size(const struct esp_value *value) {
    uint32_t size;
    switch (value->type) {
    case ESP_TYPE_NONE:
        return 0;
    case ESP_TYPE_S:
    case ESP_TYPE_B:
        return (uint32_t)value->s.len;
    case ESP_TYPE_N:
        return value->s.len ? number_text_size(value->s) : esp_number_size_i64(value->n);
    case ESP_TYPE_JSON:
        return esp_json_value_size(value->s, &size, NULL) == ESP_OK ? size : 0;
    }
    return 0;
}

static uint32_t attr_size(const struct esp_schema *schema, const struct esp_item *item, int i) {
    const struct esp_value *value = &item->value[i];
    return value->type == ESP_TYPE_NONE
               ? 0
               : (uint32_t)schema->attr[i].name.len + esp_value_size(value);
}

uint32_t esp_item_size(const struct esp_schema *schema, const struct esp_item *item) {
    uint32_t size = item->data.size;
    for (size_t i = 0; i < schema->attr_count; i++) {
        size += attr_size(schema, item, (int)i);
    }
    return size;
}

static uint32_t included_size(const struct esp_schema *schema, const struct esp_item *item,
                              struct esp_str name) {
    struct esp_str text;
    uint32_t size;
    int position = esp_schema_find_attr(schema, name);
    if (position >= 0) {
        return attr_size(schema, item, position);
    }
    if (!esp_data_find(item->data, name, &text) ||
        esp_json_value_size(text, &size, NULL) != ESP_OK) {
        return 0;
    }
    return (uint32_t)name.len + size;
}

uint32_t esp_entry_size(const struct esp_schema *schema, const struct esp_index *index,
                        const struct esp_item *item) {
    if (item->value[index->pk].type == ESP_TYPE_NONE ||
        (index->sk >= 0 && item->value[index->sk].type == ESP_TYPE_NONE)) {
        return 0;
    }
    if (index->projection == ESP_PROJECT_ALL) {
        return esp_item_size(schema, item);
    }
    int keys[4] = {schema->pk, schema->sk, index->pk, index->sk};
    uint32_t size = 0, counted = 0; /* bit i: attribute i is in `size` */
    for (int i = 0; i < 4; i++) {
        if (keys[i] >= 0 && !(counted >> keys[i] & 1)) {
            size += attr_size(schema, item, keys[i]);
            counted |= 1u << keys[i];
        }
    }
    if (index->projection == ESP_PROJECT_INCLUDE) {
        for (size_t i = 0; i < index->include_count; i++) {
            int position = esp_schema_find_attr(schema, index->include[i]);
            if (position < 0 || !(counted >> position & 1)) {
                size += included_size(schema, item, index->include[i]);
            }
        }
    }
    return size;
}

/* --- what DynamoDB refuses ---------------------------------------------------- */

const char *esp_type_name(enum esp_type type) {
    static const char *const names[] = {"absent", "S", "N", "B", "a document or set"};
    return names[type];
}

/* A key attribute that is there: `where` says of what it is a key. */
static enum esp_status check_key(const struct esp_schema *schema, const struct esp_item *item,
                                 int position, size_t bytes_max, struct esp_str where,
                                 struct esp_error *err) {
    const struct esp_attr *attr = &schema->attr[position];
    const struct esp_value *value = &item->value[position];
    if (__builtin_expect(value->type != attr->type, 0)) {
        return esp_fail(err, ESP_ERR_REFUSED,
                        "key attribute %.*s of %.*s must be of type %s, not %s",
                        ESP_FMT(attr->name), ESP_FMT(where), esp_type_name(attr->type),
                        esp_type_name(value->type));
    }
    if (value->type == ESP_TYPE_N) {
        return ESP_OK;
    }
    if (__builtin_expect(value->s.len == 0, 0)) {
        return esp_fail(err, ESP_ERR_REFUSED, "key attribute %.*s of %.*s is empty",
                        ESP_FMT(attr->name), ESP_FMT(where));
    }
    if (__builtin_expect(value->s.len > bytes_max, 0)) {
        return esp_fail(err, ESP_ERR_LIMIT, "key attribute %.*s of %.*s has %zu bytes, at most %zu",
                        ESP_FMT(attr->name), ESP_FMT(where), value->s.len, bytes_max);
    }
    return ESP_OK;
}

static enum esp_status check_index(const struct esp_schema *schema, const struct esp_index *index,
                                   const struct esp_item *item, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    if (item->value[index->pk].type != ESP_TYPE_NONE) {
        status = check_key(schema, item, index->pk, ESP_PK_BYTES_MAX, index->name, err);
    }
    if (status == ESP_OK && index->sk >= 0 && item->value[index->sk].type != ESP_TYPE_NONE) {
        status = check_key(schema, item, index->sk, ESP_SK_BYTES_MAX, index->name, err);
    }
    return status;
}

static enum esp_status check_size(const struct esp_schema *schema, const struct esp_item *item,
                                  struct esp_error *err) {
    uint64_t size = esp_item_size(schema, item);
    if (__builtin_expect(size > ESP_ITEM_BYTES_MAX, 0)) {
        return esp_fail(err, ESP_ERR_LIMIT, "the item has %llu bytes, at most %d",
                        (unsigned long long)size, ESP_ITEM_BYTES_MAX);
    }
    uint64_t entries = 0; /* an item shares the limit with its entries in LSIs */
    for (size_t i = 0; i < schema->index_count; i++) {
        entries += schema->index[i].local ? esp_entry_size(schema, &schema->index[i], item) : 0;
    }
    if (__builtin_expect(entries > 0 && size + entries > ESP_ITEM_BYTES_MAX, 0)) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "the item and its entries in local indexes have %llu bytes, at most %d",
                        (unsigned long long)(size + entries), ESP_ITEM_BYTES_MAX);
    }
    return ESP_OK;
}

enum esp_status esp_item_check(const struct esp_schema *schema, const struct esp_item *item,
                               struct esp_error *err) {
    const struct esp_str table = ESP_STR("the table");
    enum esp_status status = check_key(schema, item, schema->pk, ESP_PK_BYTES_MAX, table, err);
    if (status == ESP_OK && schema->sk >= 0) {
        status = check_key(schema, item, schema->sk, ESP_SK_BYTES_MAX, table, err);
    }
    for (size_t i = 0; i < schema->index_count && status == ESP_OK; i++) {
        status = check_index(schema, &schema->index[i], item, err);
    }
    return status == ESP_OK ? check_size(schema, item, err) : status;
}
