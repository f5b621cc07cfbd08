/* The update half of an UpdateItem, and an update of a node's payload. */
#include "stores/item_text.h"

/* What becomes of one attribute of the payload. */
struct edit {
    struct esp_str name;
    struct esp_str value; /* its DynamoDB JSON */
    bool remove;
    bool done; /* was put in place of what was there */
};

static struct edit *find_edit(struct edit *edits, size_t count, struct esp_str escaped) {
    for (size_t i = 0; i < count; i++) {
        if (esp_text_equals(escaped, edits[i].name)) {
            return &edits[i];
        }
    }
    return NULL;
}

static void put_comma(struct esp_buf *out) {
    if (out->len) {
        esp_buf_put_char(out, ',');
    }
}

/* One pass over the old members; what was not among them goes to the end. */
static enum esp_status rewrite(struct esp_data old, struct edit *edits, size_t count,
                               struct esp_arena *arena, struct esp_data *out,
                               struct esp_error *err) {
    struct esp_arena_buf text;
    struct esp_member member;
    uint32_t size = old.size, value_size = 0;
    size_t more = 0;
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < count; i++) {
        more += edits[i].remove ? 0 : edits[i].name.len + edits[i].value.len + 4;
    }
    esp_arena_buf_init(&text, arena, old.len + more);
    for (size_t pos = 0; esp_data_next_escaped(old, &pos, &member);) {
        struct edit *edit = find_edit(edits, count, member.name);
        if (!edit) {
            put_comma(&text.buf);
            esp_buf_put_str(&text.buf, member.raw);
            continue;
        }
        status = esp_json_value_size(member.value, &value_size, err);
        if (status != ESP_OK) {
            return status;
        }
        size -= (uint32_t)edit->name.len + value_size;
        if (!edit->remove) { /* the name keeps its place and spelling */
            put_comma(&text.buf);
            esp_buf_put(&text.buf, member.raw.ptr, (size_t)(member.value.ptr - member.raw.ptr));
            esp_buf_put_str(&text.buf, edit->value);
            edit->done = true;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (edits[i].remove) {
            continue;
        }
        status = esp_json_value_size(edits[i].value, &value_size, err);
        if (status != ESP_OK) {
            return status;
        }
        size += (uint32_t)edits[i].name.len + value_size;
        if (!edits[i].done) {
            put_comma(&text.buf);
            esp_json_put_string(&text.buf, edits[i].name);
            esp_buf_put_char(&text.buf, ':');
            esp_buf_put_str(&text.buf, edits[i].value);
        }
    }
    if (text.buf.failed) {
        return esp_fail_nomem(err);
    }
    *out = (struct esp_data){text.buf.ptr, (uint32_t)text.buf.len, size};
    return ESP_OK;
}

/* --- esp_data_merge ------------------------------------------------------------ */

static size_t count_members(struct esp_data data) {
    struct esp_member member;
    size_t count = 0;
    for (size_t pos = 0; esp_data_next_escaped(data, &pos, &member);) {
        count++;
    }
    return count;
}

enum esp_status esp_data_merge(struct esp_data old, struct esp_data set,
                               const struct esp_str *remove, size_t remove_count,
                               struct esp_arena *arena, struct esp_data *out,
                               struct esp_error *err) {
    struct esp_member member;
    size_t count = 0, members = count_members(set);
    struct edit *edits = esp_arena_calloc(arena, members + remove_count + 1, sizeof *edits);
    if (!edits) {
        return esp_fail_nomem(err);
    }
    for (size_t pos = 0; count < members && esp_data_next(set, &pos, arena, &member); count++) {
        edits[count] = (struct edit){.name = member.name, .value = member.value};
    }
    if (count < members) { /* an unescaped name found no memory */
        return esp_fail_nomem(err);
    }
    for (size_t i = 0; i < remove_count; i++) {
        for (size_t k = 0; k < members; k++) {
            if (esp_str_eq(edits[k].name, remove[i])) {
                return esp_fail(err, ESP_ERR_REFUSED, "attribute %.*s is both set and removed",
                                ESP_FMT(remove[i]));
            }
        }
        edits[count++] = (struct edit){.name = remove[i], .remove = true};
    }
    return rewrite(old, edits, count, arena, out, err);
}

/* --- ADD and DELETE ------------------------------------------------------------- */

static enum esp_status refuse(struct esp_error *err, const struct esp_change *change,
                              const char *why) {
    return esp_fail(err, ESP_ERR_REFUSED, "attribute %.*s: %s", ESP_FMT(change->name), why);
}

/* A set, taken apart; members in one spelling each. */
struct members {
    enum esp_tag set;
    struct esp_str *member;
    size_t count;
};

/* False when `value` is no set; ESP_ERR_NOMEM through *status. */
static bool take_apart(const struct esp_value *value, struct esp_arena *arena, struct members *out,
                       enum esp_status *status) {
    struct esp_text t;
    size_t cap = 0;
    if (value->type != ESP_TYPE_JSON) {
        return false;
    }
    esp_text_init_value(&t, value->s, NULL);
    if (esp_text_next(&t) != ESP_OK || t.event != ESP_TEXT_BEGIN || t.tag == ESP_TAG_L ||
        t.tag == ESP_TAG_M) {
        return false;
    }
    *out = (struct members){.set = t.tag};
    while (esp_text_next(&t) == ESP_OK && t.event == ESP_TEXT_SCALAR) {
        if (out->count == cap) {
            struct esp_str *more = esp_arena_calloc(arena, 2 * cap + 8, sizeof *more);
            if (!more) {
                *status = ESP_ERR_NOMEM;
                return true;
            }
            if (cap) {
                memcpy(more, out->member, cap * sizeof *more);
            }
            out->member = more;
            cap = 2 * cap + 8;
        }
        out->member[out->count] = esp_text_normal(&t, arena);
        if (!out->member[out->count++].ptr) {
            *status = ESP_ERR_NOMEM;
            return true;
        }
    }
    return true;
}

static void put_members(struct esp_buf *out, const struct members *from,
                        const struct esp_str_set *except, bool *any) {
    enum esp_tag scalar = from->set == ESP_TAG_SS   ? ESP_TAG_S
                          : from->set == ESP_TAG_NS ? ESP_TAG_N
                                                    : ESP_TAG_B;
    for (size_t i = 0; i < from->count; i++) {
        if (except && esp_str_set_has(except, from->member[i])) {
            continue;
        }
        if (*any) {
            esp_buf_put_char(out, ',');
        }
        *any = true;
        esp_text_put_normal(out, scalar, from->member[i]);
    }
}

/* old + more, or old - more: what of the second set is not in the first one, and the other
 * way round. */
static enum esp_status combine_sets(const struct members *old, const struct members *more, bool add,
                                    struct esp_arena *arena, struct esp_value *out,
                                    struct esp_error *err) {
    const struct members *known = add ? old : more;
    struct esp_arena_buf text;
    struct esp_str_set set;
    bool any = false;
    if (!esp_str_set_init(&set, known->count, arena)) {
        return esp_fail_nomem(err);
    }
    for (size_t i = 0; i < known->count; i++) {
        esp_str_set_add(&set, known->member[i]);
    }
    esp_arena_buf_init(&text, arena, 64);
    ESP_BUF_LIT(&text.buf, "{\"");
    esp_buf_put_str(&text.buf, esp_str_from(esp_tag_names[old->set]));
    ESP_BUF_LIT(&text.buf, "\":[");
    put_members(&text.buf, old, add ? NULL : &set, &any);
    if (add) {
        put_members(&text.buf, more, &set, &any);
    }
    ESP_BUF_LIT(&text.buf, "]}");
    if (text.buf.failed) {
        return esp_fail_nomem(err);
    }
    *out = any ? (struct esp_value){ESP_TYPE_JSON, esp_buf_str(&text.buf), 0}
               : (struct esp_value){.type = ESP_TYPE_NONE}; /* an empty set is no attribute */
    return ESP_OK;
}

static enum esp_status add_numbers(const struct esp_value *old, const struct esp_value *more,
                                   struct esp_arena *arena, struct esp_value *out,
                                   struct esp_error *err) {
    struct esp_number a, b, sum;
    esp_value_to_number(old, &a);
    esp_value_to_number(more, &b);
    enum esp_status status = esp_number_add(&a, &b, &sum, err);
    return status == ESP_OK ? esp_value_from_number(&sum, arena, out, err) : status;
}

static enum esp_status add_or_delete(const struct esp_change *change, const struct esp_value *old,
                                     struct esp_arena *arena, struct esp_value *out,
                                     struct esp_error *err) {
    bool add = change->kind == ESP_CHANGE_ADD;
    enum esp_status status = ESP_OK;
    struct members have, more;
    if (add && change->value.type == ESP_TYPE_N) {
        if (old->type == ESP_TYPE_NONE) {
            *out = change->value;
            return ESP_OK;
        }
        return old->type == ESP_TYPE_N
                   ? add_numbers(old, &change->value, arena, out, err)
                   : refuse(err, change, "ADD of a number to what is no number");
    }
    bool is_set = take_apart(&change->value, arena, &more, &status);
    if (!is_set) {
        return refuse(err, change, add ? "ADD takes a number or a set" : "DELETE takes a set");
    }
    if (old->type == ESP_TYPE_NONE && status == ESP_OK) {
        *out = add ? change->value : *old;
        return ESP_OK;
    }
    is_set = take_apart(old, arena, &have, &status);
    if (status != ESP_OK) {
        return esp_fail_nomem(err);
    }
    if (!is_set || have.set != more.set) {
        return refuse(err, change, "the attribute is no set of the operand's type");
    }
    return combine_sets(&have, &more, add, arena, out, err);
}

/* --- esp_item_apply ------------------------------------------------------------- */

static bool is_key(const struct esp_schema *schema, struct esp_str name) {
    return esp_str_eq(name, schema->attr[schema->pk].name) ||
           (schema->sk >= 0 && esp_str_eq(name, schema->attr[schema->sk].name));
}

static enum esp_status new_value(const struct esp_schema *schema, const struct esp_item *old,
                                 const struct esp_change *change, struct esp_arena *arena,
                                 struct esp_value *out, struct esp_error *err) {
    struct esp_value current;
    if (change->kind == ESP_CHANGE_REMOVE) {
        *out = (struct esp_value){.type = ESP_TYPE_NONE};
        return ESP_OK;
    }
    if (change->value.type == ESP_TYPE_NONE) {
        return refuse(err, change, "the change has no value");
    }
    if (change->kind == ESP_CHANGE_SET) {
        *out = change->value;
        return ESP_OK;
    }
    enum esp_status status = esp_item_find(schema, old, change->name, arena, &current, err);
    return status == ESP_OK ? add_or_delete(change, &current, arena, out, err) : status;
}

static enum esp_status value_text(const struct esp_value *value, struct esp_arena *arena,
                                  struct esp_str *out, struct esp_error *err) {
    struct esp_arena_buf text;
    esp_arena_buf_init(&text, arena, value->s.len + 32);
    esp_value_put_json(&text.buf, value);
    *out = esp_buf_str(&text.buf);
    return text.buf.failed ? esp_fail_nomem(err) : ESP_OK;
}

static enum esp_status check_changes(const struct esp_schema *schema,
                                     const struct esp_change *changes, size_t count,
                                     struct esp_error *err) {
    for (size_t i = 0; i < count; i++) {
        if (is_key(schema, changes[i].name)) {
            return refuse(err, &changes[i], "this attribute is part of the key");
        }
        for (size_t k = 0; k < i; k++) {
            if (esp_str_eq(changes[i].name, changes[k].name)) {
                return refuse(err, &changes[i], "it is changed twice in one update");
            }
        }
    }
    return ESP_OK;
}

enum esp_status esp_item_apply(const struct esp_schema *schema, const struct esp_item *old,
                               const struct esp_change *changes, size_t count,
                               struct esp_arena *arena, struct esp_item *out,
                               struct esp_error *err) {
    enum esp_status status = check_changes(schema, changes, count, err);
    struct edit *edits = esp_arena_calloc(arena, count + 1, sizeof *edits);
    size_t edit_count = 0;
    if (status == ESP_OK && !edits) {
        status = esp_fail_nomem(err);
    }
    if (status == ESP_OK && out != old) {
        esp_item_copy(schema, out, old);
    }
    for (size_t i = 0; i < count && status == ESP_OK; i++) {
        struct esp_value value;
        int position = esp_schema_find_attr(schema, changes[i].name);
        status = new_value(schema, old, &changes[i], arena, &value, err);
        if (status != ESP_OK) {
            break;
        }
        if (position >= 0) {
            out->value[position] = value;
            continue;
        }
        struct edit *edit = &edits[edit_count++];
        edit->name = changes[i].name;
        edit->remove = value.type == ESP_TYPE_NONE;
        status = edit->remove ? ESP_OK : value_text(&value, arena, &edit->value, err);
    }
    if (status == ESP_OK && edit_count) {
        status = rewrite(old->data, edits, edit_count, arena, &out->data, err);
    }
    return status;
}
