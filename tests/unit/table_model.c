#include "table_model.h"

#include <stdlib.h>

/* --- tables --------------------------------------------------------------------- */

static struct esp_attr attr(const char *name, enum esp_type type) {
    return (struct esp_attr){esp_str_from(name), type};
}

static struct esp_index global(const char *name, int pk, int sk, enum esp_projection projection) {
    return (struct esp_index){
        .name = esp_str_from(name), .pk = pk, .sk = sk, .projection = projection};
}

static void make_schema(int shape, struct esp_schema *s) {
    memset(s, 0, sizeof *s);
    s->attr_count = 6;
    s->attr[0] = attr("pk", shape == 2 ? ESP_TYPE_N : ESP_TYPE_S);
    s->attr[1] = attr("sk", shape == 2 ? ESP_TYPE_B : ESP_TYPE_S);
    s->attr[2] = attr("s", ESP_TYPE_S);
    s->attr[3] = attr("n", ESP_TYPE_N);
    s->attr[4] = attr("b", ESP_TYPE_B);
    s->attr[5] = attr("free", ESP_TYPE_NONE);
    s->sk = shape == 1 ? -1 : 1;
    s->index[0] = global("by-number", 2, 3, ESP_PROJECT_ALL);
    s->index[1] = global("by-bytes", 2, 4, ESP_PROJECT_KEYS);
    s->index[2] = global("by-s", 2, -1, ESP_PROJECT_INCLUDE);
    s->index[2].include[0] = ESP_STR("name");
    s->index[2].include[1] = ESP_STR("n");
    s->index[2].include_count = 2;
    s->index_count = 3;
    if (shape != 1) {
        s->index[3] = global("local-b", 0, 4, ESP_PROJECT_KEYS);
        s->index[3].local = true;
        s->index[4] = global("local-s", 0, 2, ESP_PROJECT_INCLUDE);
        s->index[4].local = true;
        s->index[4].include[0] = ESP_STR("free");
        s->index[4].include_count = 1;
        s->index_count = 5;
    }
}

void table_model_init(struct table_model *m, int shape, uint64_t page_bytes) {
    memset(m, 0, sizeof *m);
    make_schema(shape, &m->schema);
    m->page_bytes = page_bytes;
    esp_arena_init(&m->arena, &esp_alloc_libc, SIZE_MAX);
    m->item = calloc(TABLE_ITEMS_MAX, sizeof *m->item);
    assert_non_null(m->item);
}

void table_model_fini(struct table_model *m) {
    free(m->item);
    esp_arena_fini(&m->arena);
}

/* --- answers -------------------------------------------------------------------- */

static bool same_key(const struct esp_schema *s, const struct esp_item *a,
                     const struct esp_item *b) {
    return esp_value_equal(&a->value[s->pk], &b->value[s->pk]) &&
           (s->sk < 0 || esp_value_equal(&a->value[s->sk], &b->value[s->sk]));
}

struct esp_item *table_model_find(struct table_model *m, const struct esp_item *key) {
    for (size_t i = 0; i < m->count; i++) {
        if (same_key(&m->schema, &m->item[i], key)) {
            return &m->item[i];
        }
    }
    return NULL;
}

static bool begins_with(struct esp_str s, struct esp_str prefix) {
    return s.len >= prefix.len && (!prefix.len || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static bool compares(const struct esp_value *v, enum esp_compare op, const struct esp_value *lo,
                     const struct esp_value *hi) {
    bool ordered = v->type == lo->type;
    switch (op) {
    case ESP_ANY:
        return true;
    case ESP_EXISTS:
        return v->type != ESP_TYPE_NONE;
    case ESP_NOT_EXISTS:
        return v->type == ESP_TYPE_NONE;
    case ESP_EQ:
        return esp_value_equal(v, lo);
    case ESP_NE:
        return !esp_value_equal(v, lo);
    case ESP_LT:
        return ordered && esp_value_cmp(v, lo) < 0;
    case ESP_LE:
        return ordered && esp_value_cmp(v, lo) <= 0;
    case ESP_GT:
        return ordered && esp_value_cmp(v, lo) > 0;
    case ESP_GE:
        return ordered && esp_value_cmp(v, lo) >= 0;
    case ESP_BETWEEN:
        return ordered && esp_value_cmp(v, lo) >= 0 && esp_value_cmp(v, hi) <= 0;
    case ESP_PREFIX:
        return ordered && begins_with(v->s, lo->s);
    }
    return false;
}

static bool holds(struct table_model *m, const struct esp_condition *c, size_t n,
                  const struct esp_item *item) {
    struct esp_item none = {.data = {0}};
    struct esp_error err = ESP_ERROR_INIT;
    for (size_t i = 0; i < n; i++) {
        struct esp_value v;
        assert_ok(esp_item_find(&m->schema, item ? item : &none, c[i].name, &m->arena, &v, &err),
                  &err);
        if (!compares(&v, c[i].op, &c[i].lo, &c[i].hi)) {
            return false;
        }
    }
    return true;
}

static bool in_index(const struct table_model *m, int index, const struct esp_item *item) {
    const struct esp_index *ix = index == ESP_PRIMARY ? NULL : &m->schema.index[index];
    return !ix || (item->value[ix->pk].type != ESP_TYPE_NONE &&
                   (ix->sk < 0 || item->value[ix->sk].type != ESP_TYPE_NONE));
}

static int cmp_at(const struct esp_item *a, const struct esp_item *b, int position) {
    return position < 0 ? 0 : esp_value_cmp(&a->value[position], &b->value[position]);
}

/* Within one partition: the sort key, then the table's key. */
static int cmp_items(const struct table_model *m, int index, const struct esp_item *a,
                     const struct esp_item *b) {
    int order = cmp_at(a, b, index == ESP_PRIMARY ? m->schema.sk : m->schema.index[index].sk);
    order = order ? order : cmp_at(a, b, m->schema.pk);
    return order ? order : cmp_at(a, b, m->schema.sk);
}

static bool is_projected(const struct esp_schema *s, const struct esp_index *ix,
                         struct esp_str name) {
    const int keys[] = {s->pk, s->sk, ix->pk, ix->sk};
    for (int i = 0; i < 4; i++) {
        if (keys[i] >= 0 && esp_str_eq(s->attr[keys[i]].name, name)) {
            return true;
        }
    }
    for (size_t i = 0; i < ix->include_count; i++) {
        if (esp_str_eq(ix->include[i], name)) {
            return true;
        }
    }
    return false;
}

/* What the index has of an item. */
static void project(struct table_model *m, int index, const struct esp_item *item,
                    struct esp_item *out) {
    *out = *item;
    if (index == ESP_PRIMARY || m->schema.index[index].projection == ESP_PROJECT_ALL) {
        return;
    }
    const struct esp_index *ix = &m->schema.index[index];
    struct esp_member member;
    struct esp_buf text;
    uint32_t size = 0, value_size;
    esp_buf_init(&text, &esp_alloc_libc, SIZE_MAX);
    for (size_t i = 0; i < m->schema.attr_count; i++) {
        if (!is_projected(&m->schema, ix, m->schema.attr[i].name)) {
            out->value[i].type = ESP_TYPE_NONE;
        }
    }
    for (size_t pos = 0; esp_data_next(item->data, &pos, &m->arena, &member);) {
        if (is_projected(&m->schema, ix, member.name)) {
            esp_buf_printf(&text, "%s%.*s", text.len ? "," : "", ESP_FMT(member.raw));
            assert_status(ESP_OK, esp_json_value_size(member.value, &value_size, NULL));
            size += (uint32_t)member.name.len + value_size;
        }
    }
    struct esp_str copy = esp_arena_dup(&m->arena, esp_buf_str(&text));
    esp_buf_fini(&text);
    out->data = (struct esp_data){copy.ptr, (uint32_t)copy.len, size};
}

static const struct table_model *sorting;
static int sorting_index;

static int compare_listed(const void *a, const void *b) {
    struct esp_item *const *x = a, *const *y = b;
    return cmp_items(sorting, sorting_index, *x, *y);
}

static void deliver(struct table_model *m, struct esp_request *r, const struct esp_item *item) {
    m->usage.items_returned++;
    r->status = r->fn(r->ctx, item);
}

static void query(struct table_model *m, struct esp_request *r) {
    static struct esp_item *listed[TABLE_LISTED_MAX];
    const struct esp_query *q = r->query;
    const struct esp_index *ix = q->index == ESP_PRIMARY ? NULL : &m->schema.index[q->index];
    int pk = ix ? ix->pk : m->schema.pk, sk = ix ? ix->sk : m->schema.sk;
    size_t count = 0;
    uint64_t bytes = 0, items = 0;
    bool strong = q->consistent && (!ix || ix->local);
    for (size_t i = 0; i < m->count; i++) {
        struct esp_item *item = &m->item[i];
        if (in_index(m, q->index, item) && esp_value_equal(&item->value[pk], &q->pk) &&
            (q->op == ESP_ANY || compares(&item->value[sk], q->op, &q->lo, &q->hi))) {
            listed[count++] = item;
        }
    }
    sorting = m;
    sorting_index = q->index;
    qsort(listed, count, sizeof listed[0], compare_listed);
    for (size_t i = 0; i < count && !r->more; i++) {
        struct esp_item *item = listed[q->reverse ? count - 1 - i : i], part;
        if (r->cursor->set) {
            int order = cmp_items(m, q->index, item, &r->cursor->key);
            if (q->reverse ? order >= 0 : order <= 0) {
                continue;
            }
        }
        items++;
        bytes += ix ? esp_entry_size(&m->schema, ix, item) : esp_item_size(&m->schema, item);
        r->more = items == q->limit || bytes >= m->page_bytes;
        if (q->fetch) {
            esp_meter_fetch(esp_item_size(&m->schema, item), strong, &m->usage);
            part = *item;
        } else {
            project(m, q->index, item, &part);
        }
        if (holds(m, q->filter, q->filter_count, &part)) {
            deliver(m, r, &part);
        }
        if (r->more) {
            esp_cursor_set(r->cursor, &m->schema, q->index, item);
        }
    }
    esp_meter_page(q->index, bytes, items, strong, &m->usage);
}

static void scan(struct table_model *m, struct esp_request *r) {
    for (size_t i = 0; i < m->count; i++) {
        struct esp_item part;
        if (in_index(m, r->scan->index, &m->item[i])) {
            project(m, r->scan->index, &m->item[i], &part);
            if (holds(m, r->scan->filter, r->scan->filter_count, &part)) {
                deliver(m, r, &part);
            }
        }
    }
}

static void get(struct table_model *m, struct esp_request *r) {
    for (size_t i = 0; i < r->get.n; i++) {
        struct esp_item *item = table_model_find(m, &r->get.keys[i]);
        esp_meter_get(item ? esp_item_size(&m->schema, item) : 0, r->get.consistency, &m->usage);
        if (item) {
            deliver(m, r, item);
        }
    }
}

static void write_one(struct table_model *m, const struct esp_write *w, const struct esp_item *next,
                      bool transaction) {
    struct esp_item *old = table_model_find(m, &w->item);
    bool has = w->kind == ESP_PUT || w->kind == ESP_UPDATE;
    if (w->kind == ESP_CHECK) {
        esp_meter_check(&m->schema, old, &m->usage);
        return;
    }
    esp_meter_write(&m->schema, old, has ? next : NULL, transaction, &m->usage);
    if (old && !has) {
        *old = m->item[--m->count];
    } else if (has) {
        if (!old) {
            assert_true(m->count < TABLE_ITEMS_MAX);
            old = &m->item[m->count++];
        }
        assert_status(ESP_OK, esp_item_dup(&m->schema, &m->arena, next, old));
    }
}

static void write_all(struct table_model *m, struct esp_request *r) {
    static struct esp_item next[100];
    bool transaction = r->kind == ESP_REQ_TRANSACT;
    double refused_units = 0;
    bool all_hold = true;
    for (size_t i = 0; i < r->write.n && r->status == ESP_OK; i++) {
        const struct esp_write *w = &r->write.w[i];
        const struct esp_item *old = table_model_find(m, &w->item);
        bool hold = holds(m, w->condition, w->condition_count, old);
        struct esp_item key = {.data = {0}};
        key.value[m->schema.pk] = w->item.value[m->schema.pk];
        if (m->schema.sk >= 0) {
            key.value[m->schema.sk] = w->item.value[m->schema.sk];
        }
        next[i] = w->item;
        all_hold &= hold;
        if (w->kind == ESP_UPDATE && hold) {
            r->status = esp_item_apply(&m->schema, old ? old : &key, w->changes, w->change_count,
                                       &m->arena, &next[i], NULL);
        }
        if (r->status == ESP_OK && (w->kind == ESP_PUT || (w->kind == ESP_UPDATE && hold))) {
            r->status = esp_item_check(&m->schema, &next[i], NULL);
        }
        uint32_t size = old ? esp_item_size(&m->schema, old) : 0, next_size = 0;
        if (w->kind == ESP_PUT || (w->kind == ESP_UPDATE && hold)) {
            next_size = esp_item_size(&m->schema, &next[i]);
        }
        refused_units +=
            esp_write_units(size > next_size ? size : next_size) * (transaction ? 2 : 1);
    }
    if (r->status == ESP_OK && !all_hold) {
        r->status = ESP_ERR_CONDITION;
        m->usage.write.table += refused_units;
    }
    for (size_t i = 0; i < r->write.n && r->status == ESP_OK; i++) {
        write_one(m, &r->write.w[i], &next[i], transaction);
    }
}

void table_model_execute(struct table_model *m, struct esp_request *r) {
    m->usage.requests++;
    r->status = ESP_OK;
    r->more = false;
    r->undone = 0;
    switch (r->kind) {
    case ESP_REQ_GET:
        get(m, r);
        break;
    case ESP_REQ_QUERY:
        query(m, r);
        break;
    case ESP_REQ_SCAN:
        scan(m, r);
        break;
    default:
        write_all(m, r);
    }
    r->cursor = r->more ? r->cursor : NULL;
}

/* --- chance --------------------------------------------------------------------- */

static struct esp_str dup_text(struct table_model *m, const char *text, size_t len) {
    return esp_arena_dup(&m->arena, (struct esp_str){text, len});
}

/* Few different ones, so that requests meet: prefixes of each other, zeros, long ones that
 * agree for hundreds of bytes. */
static struct esp_str random_text(struct table_model *m, struct esp_rng *rng, size_t bytes_max) {
    static const char *const words[] = {"n",   "n1",    "n10", "n101",     "n11",  "/",
                                        "/a/", "/a/b/", "/a0", "\xc3\xa9", "\x7f", "\xff\xff"};
    char text[2048];
    uint64_t kind = esp_rng_below(rng, 10);
    if (kind < 6) {
        const char *word = words[esp_rng_below(rng, 12)];
        return dup_text(m, word, strlen(word));
    }
    if (kind < 8) {
        static const char zeros[][4] = {"\0", "a\0", "a\0\0", "a\0b", "\0\xff"};
        uint64_t which = esp_rng_below(rng, 5);
        return dup_text(m, zeros[which], 1 + which % 4);
    }
    const size_t lengths[] = {490, 500, 511, 700, bytes_max};
    size_t len = lengths[esp_rng_below(rng, 5)];
    memset(text, 'x', sizeof text);
    text[len - 1] = (char)('a' + esp_rng_below(rng, 3));
    return dup_text(m, text, len);
}

static struct esp_value random_number(struct table_model *m, struct esp_rng *rng) {
    static const char *const texts[] = {"0",     "1",      "-1",        "10",         "2",
                                        "1.5",   "-1.5",   "1e-130",    "9.99e125",   "-9.99e125",
                                        "0.001", "-0.001", "123456789", "1234567.89", "1e20"};
    struct esp_number number;
    struct esp_value value;
    assert_status(ESP_OK,
                  esp_number_parse(esp_str_from(texts[esp_rng_below(rng, 15)]), &number, NULL));
    assert_status(ESP_OK, esp_value_from_number(&number, &m->arena, &value, NULL));
    return value;
}

static struct esp_value random_value(struct table_model *m, struct esp_rng *rng, enum esp_type type,
                                     size_t bytes_max) {
    if (type == ESP_TYPE_NONE) {
        type = (enum esp_type)(ESP_TYPE_S + esp_rng_below(rng, 3));
    }
    return type == ESP_TYPE_N   ? random_number(m, rng)
           : type == ESP_TYPE_S ? esp_s(random_text(m, rng, bytes_max))
                                : esp_b(random_text(m, rng, bytes_max));
}

static struct esp_data random_data(struct table_model *m, struct esp_rng *rng) {
    static const char *const texts[] = {
        "",
        "\"name\":{\"S\":\"x\"}",
        "\"name\":{\"N\":\"5\"},\"tags\":{\"SS\":[\"a\",\"b\"]}",
        "\"other\":{\"L\":[{\"S\":\"y\"}]},\"name\":{\"S\":\"abc\"},\"ok\":{\"BOOL\":true}",
    };
    static const uint32_t sizes[] = {0, 5, 12, 23};
    uint64_t which = esp_rng_below(rng, 5);
    if (which == 4) { /* a big one */
        char text[3100] = "\"name\":{\"S\":\"";
        size_t head = strlen(text), len = 100 + esp_rng_below(rng, 2900);
        memset(text + head, 'z', len);
        memcpy(text + head + len, "\"}", 2);
        return (struct esp_data){dup_text(m, text, head + len + 2).ptr, (uint32_t)(head + len + 2),
                                 (uint32_t)(4 + len)};
    }
    return (struct esp_data){texts[which], (uint32_t)strlen(texts[which]), sizes[which]};
}

static void random_key(struct table_model *m, struct esp_rng *rng, struct esp_item *out) {
    const struct esp_schema *s = &m->schema;
    memset(out, 0, sizeof *out);
    if (m->count && esp_rng_below(rng, 3) == 0) { /* one that is there */
        const struct esp_item *item = &m->item[esp_rng_below(rng, m->count)];
        out->value[s->pk] = item->value[s->pk];
        if (s->sk >= 0) {
            out->value[s->sk] = item->value[s->sk];
        }
        return;
    }
    out->value[s->pk] = random_value(m, rng, s->attr[s->pk].type, ESP_PK_BYTES_MAX);
    if (s->sk >= 0) {
        out->value[s->sk] = random_value(m, rng, s->attr[s->sk].type, ESP_SK_BYTES_MAX);
    }
}

void table_random_item(struct table_model *m, struct esp_rng *rng, struct esp_item *out) {
    random_key(m, rng, out);
    for (int i = 2; i < (int)m->schema.attr_count; i++) {
        if (esp_rng_below(rng, 3)) {
            size_t most = i == 2 ? ESP_PK_BYTES_MAX : ESP_SK_BYTES_MAX;
            most = i == 2 && m->schema.index_count == 5 ? ESP_SK_BYTES_MAX : most;
            out->value[i] = random_value(m, rng, m->schema.attr[i].type, most);
        }
    }
    out->data = random_data(m, rng);
}

static size_t random_conditions(struct table_model *m, struct esp_rng *rng,
                                struct esp_condition *out, bool keys_too) {
    static const char *const names[] = {"free", "name", "tags", "nothing", "n", "s", "pk"};
    size_t count = esp_rng_below(rng, 3);
    for (size_t i = 0; i < count; i++) {
        struct esp_condition *c = &out[i];
        c->name = esp_str_from(names[esp_rng_below(rng, keys_too ? 7 : 4)]);
        c->op = (enum esp_compare)esp_rng_below(rng, ESP_NE + 1);
        c->lo = random_value(m, rng, ESP_TYPE_NONE, 600);
        c->hi = random_value(m, rng, c->lo.type, 600);
        if (c->op == ESP_BETWEEN && esp_value_cmp(&c->lo, &c->hi) > 0) {
            struct esp_value swap = c->lo;
            c->lo = c->hi;
            c->hi = swap;
        }
        if (c->op == ESP_PREFIX && c->lo.type == ESP_TYPE_N) {
            c->op = ESP_EXISTS;
        }
    }
    return count;
}

static void random_query(struct table_model *m, struct esp_rng *rng, struct table_request *out) {
    const struct esp_schema *s = &m->schema;
    struct esp_query *q = &out->query;
    out->request.kind = ESP_REQ_QUERY;
    out->request.query = q;
    out->request.cursor = &out->cursor;
    q->index = (int)esp_rng_below(rng, s->index_count + 1) - 1;
    const struct esp_index *ix = q->index == ESP_PRIMARY ? NULL : &s->index[q->index];
    int pk = ix ? ix->pk : s->pk, sk = ix ? ix->sk : s->sk;
    const struct esp_item *like = m->count ? &m->item[esp_rng_below(rng, m->count)] : NULL;
    q->pk = like && like->value[pk].type != ESP_TYPE_NONE && esp_rng_below(rng, 5)
                ? like->value[pk]
                : random_value(m, rng, s->attr[pk].type, ESP_SK_BYTES_MAX);
    q->op = sk < 0 ? ESP_ANY : (enum esp_compare)esp_rng_below(rng, ESP_PREFIX + 1);
    if (q->op != ESP_ANY) {
        q->op = q->op == ESP_PREFIX && s->attr[sk].type == ESP_TYPE_N ? ESP_GE : q->op;
        q->lo = random_value(m, rng, s->attr[sk].type, ESP_SK_BYTES_MAX);
        q->hi = random_value(m, rng, s->attr[sk].type, ESP_SK_BYTES_MAX);
        if (esp_value_cmp(&q->lo, &q->hi) > 0 && q->op == ESP_BETWEEN) {
            q->hi = q->lo;
        }
    }
    q->reverse = esp_rng_below(rng, 2);
    q->consistent = esp_rng_below(rng, 2);
    q->fetch = ix && ix->local && esp_rng_below(rng, 2);
    q->limit = esp_rng_below(rng, 2) ? 1 + esp_rng_below(rng, 4) : 0;
    q->filter = out->condition[0];
    q->filter_count =
        esp_rng_below(rng, 3) ? 0 : random_conditions(m, rng, out->condition[0], false);
}

static void random_changes(struct table_model *m, struct esp_rng *rng, struct esp_write *w,
                           struct esp_change *change) {
    static const char *const names[] = {"s", "n", "b", "free", "name", "count"};
    size_t first = esp_rng_below(rng, 6);
    w->changes = change;
    w->change_count = esp_rng_below(rng, 4);
    for (size_t i = 0; i < w->change_count; i++) {
        size_t which = (first + i) % 6;
        change[i].name = esp_str_from(names[which]);
        change[i].kind = esp_rng_below(rng, 3) ? ESP_CHANGE_SET : ESP_CHANGE_REMOVE;
        if (which == 5) {
            change[i].kind = ESP_CHANGE_ADD;
            change[i].value = esp_n((int64_t)esp_rng_below(rng, 100) - 50);
            continue;
        }
        enum esp_type type = which < 3 ? m->schema.attr[2 + which].type : ESP_TYPE_NONE;
        if (esp_rng_below(rng, 20) == 0) {
            type = ESP_TYPE_NONE; /* perhaps the wrong one: refused for an index key */
        }
        change[i].value = random_value(m, rng, type, 600);
    }
}

static void random_write(struct table_model *m, struct esp_rng *rng, struct table_request *out) {
    uint64_t kind = esp_rng_below(rng, 10);
    size_t n = kind < 6 ? 1 : 1 + esp_rng_below(rng, 25), made = 0;
    bool batch = kind >= 6 && kind < 8 && n > 1;
    out->request.kind = kind >= 8 ? ESP_REQ_TRANSACT : ESP_REQ_WRITE;
    for (size_t i = 0; i < n; i++) {
        struct esp_write *w = &out->write[made];
        bool twice = false;
        memset(w, 0, sizeof *w);
        w->kind = (enum esp_write_kind)esp_rng_below(rng, kind >= 8 ? 4 : batch ? 2 : 3);
        if (w->kind == ESP_PUT) {
            table_random_item(m, rng, &w->item);
        } else {
            random_key(m, rng, &w->item);
        }
        if (w->kind == ESP_UPDATE) {
            random_changes(m, rng, w, out->change[made]);
        }
        if (!batch && esp_rng_below(rng, kind >= 8 ? 12 : 3) == 0) {
            w->condition = out->condition[made];
            w->condition_count = random_conditions(m, rng, out->condition[made], true);
        }
        for (size_t k = 0; k < made; k++) {
            twice |= same_key(&m->schema, &out->write[k].item, &w->item);
        }
        made += !twice;
    }
    out->request.write.w = out->write;
    out->request.write.n = made;
}

static void random_get(struct table_model *m, struct esp_rng *rng, struct table_request *out) {
    size_t n = esp_rng_below(rng, 2) ? 1 : 1 + esp_rng_below(rng, 30), made = 0;
    out->request.kind = ESP_REQ_GET;
    for (size_t i = 0; i < n; i++) {
        bool twice = false;
        random_key(m, rng, &out->key[made]);
        for (size_t k = 0; k < made; k++) {
            twice |= same_key(&m->schema, &out->key[k], &out->key[made]);
        }
        made += !twice;
    }
    out->request.get.keys = out->key;
    out->request.get.n = made;
    out->request.get.consistency = (enum esp_consistency)esp_rng_below(rng, 3);
}

void table_random_request(struct table_model *m, struct esp_rng *rng, struct table_request *out) {
    memset(&out->request, 0, sizeof out->request);
    memset(&out->query, 0, sizeof out->query);
    memset(&out->scan, 0, sizeof out->scan);
    out->cursor.set = false;
    uint64_t kind = esp_rng_below(rng, 20);
    if (kind < 9) {
        random_query(m, rng, out);
    } else if (kind < 11) {
        random_get(m, rng, out);
    } else if (kind < 12) {
        out->request.kind = ESP_REQ_SCAN;
        out->request.scan = &out->scan;
        out->request.cursor = &out->cursor;
        out->scan.index = (int)esp_rng_below(rng, m->schema.index_count + 1) - 1;
        out->scan.segments = (uint32_t)esp_rng_below(rng, 4);
        out->scan.limit = esp_rng_below(rng, 3);
        out->scan.filter = out->condition[0];
        out->scan.filter_count = random_conditions(m, rng, out->condition[0], false);
    } else {
        random_write(m, rng, out);
    }
}
