#include "converters/access.h"

#include "converters/paging.h"
#include "converters/write_plan.h"

/* --- items ---------------------------------------------------------------------- */

void esp_item_list_init(struct esp_item_list *list, struct esp_access *a) {
    *list = (struct esp_item_list){.schema = &a->layout->schema, .arena = a->scratch};
}

enum esp_status esp_item_list_add(void *list, const struct esp_item *item) {
    struct esp_item_list *l = list;
    struct esp_item *items = NULL;
    if (l->count < UINT32_MAX) {
        items = esp_arena_grow(l->arena, l->item, &l->cap, l->count + 1, sizeof *items);
    }
    if (!items) {
        return ESP_ERR_NOMEM;
    }
    l->item = items;
    enum esp_status status = esp_item_dup(l->schema, l->arena, item, &items[l->count]);
    l->count += status == ESP_OK;
    return status;
}

struct esp_item esp_item_key(const struct esp_schema *schema, struct esp_str id, int64_t sk) {
    struct esp_item key = {0};
    key.value[schema->pk] = esp_s(id);
    if (schema->sk >= 0) {
        key.value[schema->sk] = esp_n(sk);
    }
    return key;
}

enum esp_status esp_access_key(struct esp_access *a, struct esp_str id, struct esp_item *key) {
    if (!a->layout->ops->node_key) {
        *key = esp_item_key(&a->layout->schema, id, 0);
        return ESP_OK;
    }
    enum esp_status status = a->layout->ops->node_key(a->layout, id, a->scratch, key);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status esp_access_pass(struct esp_access *a, const struct esp_item *item, esp_node_fn *fn,
                                void *ctx) {
    struct esp_node_view view;
    struct esp_id_room room;
    return esp_layout_view(a->layout, item, &room, &view) ? fn(ctx, &view) : ESP_OK;
}

enum esp_status esp_node_sink_add(void *sink, const struct esp_item *item) {
    struct esp_node_sink *s = sink;
    const struct esp_layout *layout = s->access->layout;
    struct esp_node_view view;
    struct esp_id_room room;
    s->count++;
    if (!esp_layout_view(layout, item, &room, &view) ||
        (s->skip.ptr && esp_str_eq(s->skip, view.id))) {
        return ESP_OK;
    }
    return s->fn(s->ctx, &view);
}

struct esp_str esp_access_join(struct esp_access *access, struct esp_str a, struct esp_str b,
                               struct esp_str c) {
    struct esp_str part[] = {a, b, c}, out = {.len = 0};
    char *text = esp_arena_alloc(access->scratch, a.len + b.len + c.len + 1);
    for (size_t i = 0; text && i < sizeof part / sizeof part[0]; i++) {
        if (part[i].len) {
            memcpy(text + out.len, part[i].ptr, part[i].len);
            out.len += part[i].len;
        }
    }
    out.ptr = text;
    return out;
}

/* --- reads ---------------------------------------------------------------------- */

enum esp_status esp_access_missing(struct esp_access *a, struct esp_str id) {
    return esp_fail(a->err, ESP_ERR_NOT_FOUND, "there is no node '%.*s'", ESP_FMT(id));
}

enum esp_status esp_access_root_has_children(struct esp_access *a, struct esp_str id) {
    return esp_fail(a->err, ESP_ERR_REFUSED,
                    "'%.*s' is a root with children: there is no parent for them to go to",
                    ESP_FMT(id));
}

enum esp_status esp_access_get_two(struct esp_access *a, struct esp_str first,
                                   struct esp_str second, struct esp_item *first_out,
                                   struct esp_item *second_out) {
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_item_list found;
    esp_item_list_init(&found, a);
    struct esp_item keys[2];
    bool one = second.len == 0 || esp_str_eq(first, second);
    enum esp_status status = esp_access_key(a, first, &keys[0]);
    if (status == ESP_OK) {
        status = esp_access_key(a, second, &keys[1]);
    }
    struct esp_str pk[2] = {keys[0].value[schema->pk].s, keys[1].value[schema->pk].s};
    if (status == ESP_OK) {
        status = esp_session_get(a->session, keys, one ? 1 : 2, a->consistent, esp_item_list_add,
                                 &found, a->err);
    }
    if (status != ESP_OK) {
        return status;
    }
    bool have_first = false, have_second = second.len == 0;
    for (uint32_t i = 0; i < found.count; i++) {
        struct esp_str id = esp_item_text(&found.item[i], schema->pk);
        if (esp_str_eq(id, pk[0])) {
            *first_out = found.item[i];
            have_first = true;
        }
        if (second.len && esp_str_eq(id, pk[1])) {
            *second_out = found.item[i];
            have_second = true;
        }
    }
    return have_first && have_second ? ESP_OK : esp_access_missing(a, have_first ? second : first);
}

enum esp_status esp_access_get(struct esp_access *a, struct esp_str id, struct esp_item *out) {
    return esp_access_get_two(a, id, (struct esp_str){0}, out, NULL);
}

enum esp_status esp_access_node(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct esp_item item;
    enum esp_status status = esp_access_get(a, args->at.id, &item);
    return status == ESP_OK ? esp_access_pass(a, &item, fn, ctx) : status;
}

enum esp_status esp_access_exists(struct esp_access *a, struct esp_str id) {
    struct esp_item item;
    return esp_access_get(a, id, &item);
}

enum esp_status esp_access_get_ordered(struct esp_access *a, const struct esp_str *ids, size_t n,
                                       esp_node_fn *fn, void *ctx) {
    if (n == 0) {
        return ESP_OK;
    }
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_item *keys = esp_arena_calloc(a->scratch, n, sizeof *keys);
    struct esp_item **slot = esp_arena_calloc(a->scratch, n, sizeof *slot);
    struct esp_item_list found;
    struct esp_idmap map;
    esp_item_list_init(&found, a);
    esp_idmap_init(&map, a->scratch);
    enum esp_status status = keys && slot ? ESP_OK : ESP_ERR_NOMEM;
    /* An id twice (a damaged table) would be a key twice, which DynamoDB refuses. */
    for (size_t i = 0; status == ESP_OK && i < n; i++) {
        struct esp_item key;
        uint32_t number;
        status = esp_access_key(a, ids[i], &key);
        if (status == ESP_OK) {
            status = esp_idmap_intern(&map, key.value[schema->pk].s, &number);
        }
        if (status == ESP_OK) {
            keys[number] = key;
        }
    }
    if (status != ESP_OK) {
        return esp_fail_nomem(a->err);
    }
    status = esp_session_get(a->session, keys, map.count, a->consistent, esp_item_list_add, &found,
                             a->err);
    for (uint32_t i = 0; status == ESP_OK && i < found.count; i++) {
        uint32_t at = esp_idmap_find(&map, esp_item_text(&found.item[i], schema->pk));
        if (at != ESP_IDMAP_NONE) {
            slot[at] = &found.item[i];
        }
    }
    for (uint32_t i = 0; status == ESP_OK && i < map.count; i++) {
        status = slot[i] ? esp_access_pass(a, slot[i], fn, ctx) : ESP_OK;
    }
    return status;
}

enum esp_status esp_access_query(struct esp_access *a, const struct esp_query *q,
                                 struct esp_str skip, esp_node_fn *fn, void *ctx, uint64_t *count) {
    struct esp_node_sink sink = {.access = a, .fn = fn, .ctx = ctx, .skip = skip};
    bool earlier;
    enum esp_status status = esp_paging_query(a, q, esp_node_sink_add, &sink, fn, ctx, &earlier);
    if (count) {
        *count = sink.count + earlier;
    }
    return status;
}

enum esp_status esp_access_pages(struct esp_access *a, const struct esp_query *q, esp_page_fn *fn,
                                 void *ctx) {
    struct esp_arena arena;
    struct esp_cursor cursor = {0};
    bool more = true;
    enum esp_status status = ESP_OK;
    esp_arena_init(&arena, a->session->table->store->alloc, SIZE_MAX);
    while (status == ESP_OK && more) {
        struct esp_item_list page = {.schema = &a->layout->schema, .arena = &arena};
        esp_arena_reset(&arena);
        status =
            esp_session_query_page(a->session, q, &cursor, &more, esp_item_list_add, &page, a->err);
        if (status == ESP_OK && page.count) {
            status = fn(ctx, page.item, page.count, &arena);
        }
    }
    esp_arena_fini(&arena);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- writes --------------------------------------------------------------------- */

enum esp_status esp_access_send(struct esp_access *a, struct esp_write *w, size_t n) {
    enum esp_status status = a->plan ? esp_write_plan_add(a->plan, w, n, false)
                                     : esp_session_write(a->session, w, n, NULL, a->err);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status esp_access_transact(struct esp_access *a, struct esp_write *w, size_t n) {
    enum esp_status status = a->plan ? esp_write_plan_add(a->plan, w, n, true)
                                     : esp_session_transact(a->session, w, n, a->err);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status esp_access_rely(struct esp_access *a, const struct esp_item *item) {
    enum esp_status status = a->plan ? esp_write_plan_rely(a->plan, item) : ESP_OK;
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

enum esp_status esp_writes_init(struct esp_writes *writes, struct esp_access *a, size_t expected) {
    struct esp_str pk = a->layout->schema.attr[a->layout->schema.pk].name;
    *writes = (struct esp_writes){
        .access = a,
        .cap = expected < ESP_WRITES_MAX ? expected + 1 : ESP_WRITES_MAX,
        .exists = {.name = pk, .op = ESP_EXISTS},
        .absent = {.name = pk, .op = ESP_NOT_EXISTS},
    };
    writes->w = esp_arena_calloc(a->scratch, writes->cap, sizeof *writes->w);
    return writes->w ? ESP_OK : esp_fail_nomem(a->err);
}

enum esp_status esp_writes_flush(struct esp_writes *writes) {
    size_t n = writes->n;
    writes->n = 0;
    return n ? esp_access_send(writes->access, writes->w, n) : ESP_OK;
}

enum esp_status esp_writes_add(struct esp_writes *writes, const struct esp_write *write) {
    enum esp_status status = writes->n == writes->cap ? esp_writes_flush(writes) : ESP_OK;
    if (status == ESP_OK) {
        writes->w[writes->n++] = *write;
    }
    return status;
}

enum esp_status esp_access_outcome(struct esp_access *a, enum esp_status status, struct esp_str id,
                                   enum esp_status refused) {
    if (status != ESP_ERR_CONDITION) {
        return status;
    }
    if (a->err) {
        esp_error_clear(a->err);
    }
    return refused == ESP_ERR_EXISTS
               ? esp_fail(a->err, refused, "there is a node '%.*s' already", ESP_FMT(id))
               : esp_access_missing(a, id);
}

enum esp_status esp_access_write(struct esp_access *a, struct esp_write *write, struct esp_str id,
                                 enum esp_status refused) {
    struct esp_condition condition = {
        .name = a->layout->schema.attr[a->layout->schema.pk].name,
        .op = refused == ESP_ERR_EXISTS ? ESP_NOT_EXISTS : ESP_EXISTS,
    };
    write->condition = &condition;
    write->condition_count = 1;
    return esp_access_outcome(a, esp_access_send(a, write, 1), id, refused);
}

/* ERR_USAGE when a payload attribute is called like one of the layout's own. */
static enum esp_status check_payload(struct esp_access *a, struct esp_data data) {
    struct esp_member member;
    for (size_t pos = 0; esp_data_next(data, &pos, a->scratch, &member);) {
        if (esp_schema_find_attr(&a->layout->schema, member.name) >= 0) {
            return esp_fail(a->err, ESP_ERR_USAGE,
                            "the attribute '%.*s' belongs to the layout %s and cannot be payload",
                            ESP_FMT(member.name), a->layout->ops->name);
        }
    }
    return ESP_OK;
}

enum esp_status esp_access_check_insert(struct esp_access *a, const struct esp_item *item) {
    enum esp_status status = check_payload(a, item->data);
    return status == ESP_OK ? esp_item_check(&a->layout->schema, item, a->err) : status;
}

enum esp_status esp_access_insert(struct esp_access *a, const struct esp_item *item,
                                  struct esp_str id) {
    enum esp_status status = esp_access_check_insert(a, item);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_write write = {.kind = ESP_PUT, .item = *item};
    return esp_access_write(a, &write, id, ESP_ERR_EXISTS);
}

enum esp_status esp_access_changes(struct esp_access *a, const struct esp_args *args,
                                   struct esp_change **changes, size_t *count) {
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_member member;
    size_t n = 0;
    enum esp_status status = check_payload(a, args->data);
    for (size_t pos = 0; esp_data_next(args->data, &pos, a->scratch, &member);) {
        n++;
    }
    if (status == ESP_OK && n + args->remove_count == 0) {
        status = esp_fail(a->err, ESP_ERR_USAGE, "nothing to set and nothing to remove");
    }
    if (status != ESP_OK) {
        return status;
    }
    struct esp_change *list = esp_arena_calloc(a->scratch, n + args->remove_count, sizeof *list);
    if (!list) {
        return esp_fail_nomem(a->err);
    }
    n = 0;
    for (size_t pos = 0; status == ESP_OK && esp_data_next(args->data, &pos, a->scratch, &member);
         n++) {
        list[n] = (struct esp_change){.kind = ESP_CHANGE_SET, .name = member.name};
        status = esp_value_parse(member.value, a->scratch, &list[n].value, a->err);
    }
    for (size_t i = 0; status == ESP_OK && i < args->remove_count; i++, n++) {
        list[n] = (struct esp_change){.kind = ESP_CHANGE_REMOVE, .name = args->remove[i]};
        if (esp_schema_find_attr(schema, args->remove[i]) >= 0) {
            status = esp_fail(a->err, ESP_ERR_USAGE,
                              "the attribute '%.*s' belongs to the layout %s and cannot be removed",
                              ESP_FMT(args->remove[i]), a->layout->ops->name);
        }
        for (size_t k = 0; status == ESP_OK && k < n; k++) {
            if (esp_str_eq(list[k].name, args->remove[i])) {
                status = esp_fail(a->err, ESP_ERR_USAGE, "the attribute '%.*s' is changed twice",
                                  ESP_FMT(args->remove[i]));
            }
        }
    }
    *changes = list;
    *count = n;
    return status;
}

enum esp_status esp_access_update(struct esp_access *a, const struct esp_args *args,
                                  esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct esp_change *changes;
    size_t count;
    enum esp_status status = esp_access_changes(a, args, &changes, &count);
    if (status != ESP_OK) {
        return status;
    }
    struct esp_write write = {.kind = ESP_UPDATE, .changes = changes, .change_count = count};
    status = esp_access_key(a, args->at.id, &write.item);
    return status == ESP_OK ? esp_access_write(a, &write, args->at.id, ESP_ERR_NOT_FOUND) : status;
}

/* A node whose descendants are deleted. */
struct deletion {
    struct esp_access *access;
    struct esp_item key; /* its own: it goes last */
};

static enum esp_status delete_page(void *ctx, struct esp_item *items, size_t n,
                                   struct esp_arena *arena) {
    struct deletion *d = ctx;
    struct esp_write *w = esp_arena_calloc(arena, n, sizeof *w);
    size_t count = 0;
    if (!w) {
        return ESP_ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        if (!esp_item_same_key(&d->access->layout->schema, &items[i], &d->key)) {
            w[count++] = (struct esp_write){.kind = ESP_DELETE, .item = items[i], .old = &items[i]};
        }
    }
    return count ? esp_access_send(d->access, w, count) : ESP_OK;
}

enum esp_status esp_access_delete(struct esp_access *a, const struct esp_query *q,
                                  struct esp_str id, const struct esp_item *old) {
    struct esp_write write = {.kind = ESP_DELETE, .old = old};
    struct deletion deletion = {.access = a};
    enum esp_status status = esp_access_key(a, id, &deletion.key);
    if (status == ESP_OK && q) {
        status = esp_access_pages(a, q, delete_page, &deletion);
    }
    write.item = deletion.key;
    return status == ESP_OK ? esp_access_write(a, &write, id, ESP_ERR_NOT_FOUND) : status;
}
