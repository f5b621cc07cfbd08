#include "tests/vectors/step.h"

#include "stores/item_text.h"
#include "tests/support/expressions.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEYS_MAX = 100 };

static bool fail(struct vector_run *run, const char *what, const char *detail) {
    snprintf(run->problem, sizeof run->problem, "%s: %.400s", what, detail);
    return false;
}

/* What the store says of a request. */
static bool outcome(struct vector_run *run, enum esp_status status, const struct esp_error *err) {
    run->refused = status != ESP_OK;
    return status == ESP_OK || fail(run, esp_status_name(status), err->message);
}

static struct esp_str text_of(json_t *object, const char *member) {
    return esp_str_from(json_string_value(json_object_get(object, member)));
}

/* --- tables ----------------------------------------------------------------------- */

static int key_position(const struct esp_schema *schema, json_t *key_schema, const char *type) {
    for (size_t i = 0; i < json_array_size(key_schema); i++) {
        json_t *element = json_array_get(key_schema, i);
        if (esp_str_eq(text_of(element, "KeyType"), esp_str_from(type))) {
            return esp_schema_find_attr(schema, text_of(element, "AttributeName"));
        }
    }
    return -1;
}

static bool read_indexes(struct esp_schema *schema, json_t *list, bool local) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (schema->index_count == ESP_INDEX_MAX) {
            return false;
        }
        json_t *definition = json_array_get(list, i);
        json_t *projection = json_object_get(definition, "Projection");
        json_t *include = json_object_get(projection, "NonKeyAttributes");
        struct esp_str type = text_of(projection, "ProjectionType");
        struct esp_index *index = &schema->index[schema->index_count++];
        index->name = text_of(definition, "IndexName");
        index->local = local;
        index->pk = key_position(schema, json_object_get(definition, "KeySchema"), "HASH");
        index->sk = key_position(schema, json_object_get(definition, "KeySchema"), "RANGE");
        index->projection = esp_str_eq(type, ESP_STR("ALL"))         ? ESP_PROJECT_ALL
                            : esp_str_eq(type, ESP_STR("KEYS_ONLY")) ? ESP_PROJECT_KEYS
                                                                     : ESP_PROJECT_INCLUDE;
        for (size_t k = 0; k < json_array_size(include) && k < ESP_INCLUDE_MAX; k++) {
            index->include[index->include_count++] =
                esp_str_from(json_string_value(json_array_get(include, k)));
        }
    }
    return true;
}

static bool read_schema(struct esp_schema *schema, json_t *definition) {
    json_t *attributes = json_object_get(definition, "AttributeDefinitions");
    memset(schema, 0, sizeof *schema);
    for (size_t i = 0; i < json_array_size(attributes) && i < ESP_ATTR_MAX; i++) {
        json_t *attribute = json_array_get(attributes, i);
        char type = text_of(attribute, "AttributeType").ptr[0];
        schema->attr[schema->attr_count].name = text_of(attribute, "AttributeName");
        schema->attr[schema->attr_count++].type = type == 'S'   ? ESP_TYPE_S
                                                  : type == 'N' ? ESP_TYPE_N
                                                                : ESP_TYPE_B;
    }
    schema->pk = key_position(schema, json_object_get(definition, "KeySchema"), "HASH");
    schema->sk = key_position(schema, json_object_get(definition, "KeySchema"), "RANGE");
    return read_indexes(schema, json_object_get(definition, "GlobalSecondaryIndexes"), false) &&
           read_indexes(schema, json_object_get(definition, "LocalSecondaryIndexes"), true);
}

bool vector_open_tables(struct vector_run *run, json_t *definitions) {
    for (size_t i = 0; i < json_array_size(definitions) && i < VECTOR_TABLES_MAX; i++) {
        struct vector_table *t = &run->table[run->table_count++];
        struct esp_error err = ESP_ERROR_INIT;
        const char name[] = {'t', 'a', 'b', 'l', 'e', (char)('0' + i), 0};
        t->name = json_string_value(json_object_get(json_array_get(definitions, i), "TableName"));
        if (!read_schema(&t->schema, json_array_get(definitions, i))) {
            return fail(run, t->name, "too many indexes");
        }
        if (run->store->ops->create_table(run->store, name, &t->schema,
                                          &(struct esp_table_options){0}, &err) != ESP_OK ||
            esp_table_open(run->store, name, &t->schema, &t->table, &err) != ESP_OK ||
            esp_session_open(t->table, &t->session, &err) != ESP_OK) {
            return fail(run, t->name, err.message);
        }
    }
    return true;
}

void vector_close_tables(struct vector_run *run) {
    for (size_t i = 0; i < run->table_count; i++) {
        esp_session_close(run->table[i].session);
        esp_table_close(run->table[i].table);
    }
    run->table_count = 0;
}

static struct vector_table *find_table(struct vector_run *run, const char *name) {
    for (size_t i = 0; name && i < run->table_count; i++) {
        if (strcmp(run->table[i].name, name) == 0) {
            return &run->table[i];
        }
    }
    fail(run, "no such table", name ? name : "");
    return NULL;
}

static struct vector_table *table_of(struct vector_run *run, json_t *request) {
    return find_table(run, json_string_value(json_object_get(request, "TableName")));
}

/* --- items ------------------------------------------------------------------------ */

static bool read_item(struct vector_run *run, const struct vector_table *t, json_t *json,
                      struct esp_item *out) {
    struct esp_error err = ESP_ERROR_INIT;
    char *text = json_dumps(json, JSON_COMPACT);
    enum esp_status status =
        text ? esp_item_parse(&t->schema, esp_str_from(text), &run->arena, out, &err)
             : ESP_ERR_INPUT;
    free(text);
    return outcome(run, status, &err);
}

struct current {
    const struct esp_schema *schema;
    struct esp_arena *arena;
    struct esp_item item;
    bool found;
};

static enum esp_status keep(void *ctx, const struct esp_item *item) {
    struct current *c = ctx;
    c->found = true;
    return esp_item_dup(c->schema, c->arena, item, &c->item);
}

/* The item with this key as it is now; not metered. */
static bool look(struct vector_run *run, struct vector_table *t, const struct esp_item *key,
                 struct current *out) {
    struct esp_item copy = *key;
    struct esp_usage usage = t->session->usage;
    struct esp_error err = ESP_ERROR_INIT;
    *out = (struct current){.schema = &t->schema, .arena = &run->arena};
    enum esp_status status = esp_session_get(t->session, &copy, 1, true, keep, out, &err);
    t->session->usage = usage;
    return status == ESP_OK || fail(run, "reading an item", err.message);
}

static struct esp_expression expression(struct vector_run *run, const struct vector_table *t,
                                        json_t *request) {
    return (struct esp_expression){.names = json_object_get(request, "ExpressionAttributeNames"),
                                   .values = json_object_get(request, "ExpressionAttributeValues"),
                                   .schema = &t->schema,
                                   .arena = &run->arena};
}

/* --- writes ----------------------------------------------------------------------- */

/* The write that a Put, Update, Delete or ConditionCheck describes. */
static bool read_write(struct vector_run *run, struct vector_table *t, enum esp_write_kind kind,
                       json_t *request, struct esp_write *out) {
    struct esp_expression e = expression(run, t, request);
    json_t *condition = json_object_get(request, "ConditionExpression");
    json_t *update = json_object_get(request, "UpdateExpression");
    memset(out, 0, sizeof *out);
    out->kind = kind;
    if (!read_item(run, t, json_object_get(request, kind == ESP_PUT ? "Item" : "Key"),
                   &out->item)) {
        return false;
    }
    if (condition) {
        struct esp_terms *terms = esp_arena_calloc(&run->arena, 1, sizeof *terms);
        if (!terms || !esp_expression_terms(&e, json_string_value(condition), terms)) {
            return fail(run, "condition", e.problem);
        }
        if (terms->contains_count) {
            return fail(run, "condition", "contains has no typed form");
        }
        out->condition = terms->condition;
        out->condition_count = terms->count;
    }
    if (kind == ESP_UPDATE && update) {
        struct esp_clauses *clauses = esp_arena_calloc(&run->arena, 1, sizeof *clauses);
        struct current current;
        if (!clauses || !look(run, t, &out->item, &current)) {
            return false;
        }
        if (!esp_expression_update(&e, json_string_value(update),
                                   current.found ? &current.item : NULL, clauses)) {
            return fail(run, "update", e.problem);
        }
        out->changes = clauses->change;
        out->change_count = clauses->count;
    }
    return true;
}

static bool do_write(struct vector_run *run, enum esp_write_kind kind, json_t *request) {
    struct vector_table *t = table_of(run, request);
    struct esp_write w;
    struct esp_error err = ESP_ERROR_INIT;
    if (!t || !read_write(run, t, kind, request, &w)) {
        return false;
    }
    return outcome(run, esp_session_write(t->session, &w, 1, NULL, &err), &err);
}

static bool do_batch_write(struct vector_run *run, json_t *request) {
    const char *name;
    json_t *list;
    json_object_foreach(json_object_get(request, "RequestItems"), name, list) {
        struct vector_table *t = find_table(run, name);
        size_t n = json_array_size(list);
        struct esp_write *w = esp_arena_calloc(&run->arena, n + 1, sizeof *w);
        struct esp_error err = ESP_ERROR_INIT;
        if (!t || !w) {
            return false;
        }
        for (size_t i = 0; i < n; i++) {
            json_t *put = json_object_get(json_array_get(list, i), "PutRequest");
            json_t *gone = json_object_get(json_array_get(list, i), "DeleteRequest");
            if (!read_write(run, t, put ? ESP_PUT : ESP_DELETE, put ? put : gone, &w[i])) {
                return false;
            }
        }
        if (!outcome(run, esp_session_write(t->session, w, n, NULL, &err), &err)) {
            return false;
        }
    }
    return true;
}

/* --- transactions ----------------------------------------------------------------- */

/* Bytes of the items of a transaction: the larger of before and after. */
static bool note_bytes(struct vector_run *run, struct vector_token *token,
                       const struct esp_write *w) {
    for (size_t i = 0; i < token->count; i++) {
        struct vector_table *t = &run->table[token->table[i]];
        struct current current;
        if (!look(run, t, &w[i].item, &current)) {
            return false;
        }
        uint32_t bytes = current.found ? esp_item_size(&t->schema, &current.item) : 0;
        token->bytes[i] = bytes > token->bytes[i] ? bytes : token->bytes[i];
    }
    return true;
}

/* The same token again is charged as a read of the items (facts sheet 4.5). */
static bool is_replay(struct vector_run *run, const char *token) {
    for (size_t i = 0; token && i < run->token_count; i++) {
        const struct vector_token *known = &run->token[i];
        if (strcmp(known->token, token) == 0) {
            for (size_t k = 0; k < known->count; k++) {
                esp_meter_get(known->bytes[k], ESP_TRANSACTION,
                              &run->table[known->table[k]].session->usage);
            }
            return true;
        }
    }
    return false;
}

static bool read_actions(struct vector_run *run, json_t *items, struct esp_write *w,
                         struct vector_token *token) {
    static const char *const names[] = {"Put", "Delete", "Update", "ConditionCheck"};
    token->count = json_array_size(items);
    for (size_t i = 0; i < token->count; i++) {
        for (int kind = ESP_PUT; kind <= ESP_CHECK; kind++) {
            json_t *action = json_object_get(json_array_get(items, i), names[kind]);
            struct vector_table *t = action ? table_of(run, action) : NULL;
            if (!action) {
                continue;
            }
            if (!t || !read_write(run, t, (enum esp_write_kind)kind, action, &w[i])) {
                return false;
            }
            token->table[i] = (size_t)(t - run->table);
        }
    }
    return true;
}

/* A transaction over two tables is two here: the units are the same. */
static bool do_transact_write(struct vector_run *run, json_t *request) {
    json_t *items = json_object_get(request, "TransactItems");
    json_t *given = json_object_get(request, "ClientRequestToken");
    const char *name =
        given ? esp_arena_dup(&run->arena, text_of(request, "ClientRequestToken")).ptr : NULL;
    struct vector_token token = {.token = name};
    struct esp_write *w = esp_arena_calloc(&run->arena, 2 * VECTOR_ACTIONS_MAX, sizeof *w);
    struct esp_write *part = w + VECTOR_ACTIONS_MAX;
    if (!w || json_array_size(items) > VECTOR_ACTIONS_MAX) {
        return fail(run, "TransactItems", "too many");
    }
    if (is_replay(run, name)) {
        return true;
    }
    if (!read_actions(run, items, w, &token) || !note_bytes(run, &token, w)) {
        return false;
    }
    for (size_t k = 0; k < run->table_count; k++) {
        struct esp_error err = ESP_ERROR_INIT;
        size_t n = 0;
        for (size_t i = 0; i < token.count; i++) {
            if (token.table[i] == k) {
                part[n++] = w[i];
            }
        }
        if (!outcome(run, esp_session_transact(run->table[k].session, part, n, &err), &err)) {
            return false;
        }
    }
    if (name && run->token_count < VECTOR_TOKENS_MAX) {
        if (!note_bytes(run, &token, w)) {
            return false;
        }
        run->token[run->token_count++] = token;
    }
    return true;
}

/* --- reads ------------------------------------------------------------------------ */

struct counting {
    struct vector_run *run;
    const struct vector_table *table;
    const struct esp_terms *terms; /* of which only `contains` is looked at */
};

/* S: a part of it; a set: a member. */
static bool contains(const struct esp_value *value, const struct esp_value *what,
                     struct esp_arena *arena) {
    struct esp_text t;
    if (value->type == ESP_TYPE_S && what->type == ESP_TYPE_S) {
        return memmem(value->s.ptr, value->s.len, what->s.ptr, what->s.len) != NULL;
    }
    if (value->type != ESP_TYPE_JSON) {
        return false;
    }
    esp_text_init_value(&t, value->s, NULL);
    while (esp_text_next(&t) == ESP_OK && t.event != ESP_TEXT_DONE) {
        if (t.event == ESP_TEXT_SCALAR && what->type == ESP_TYPE_S && t.tag == ESP_TAG_S &&
            esp_str_eq(esp_text_normal(&t, arena), what->s)) {
            return true;
        }
    }
    return false;
}

static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    struct counting *c = ctx;
    for (size_t i = 0; c->terms && i < c->terms->contains_count; i++) {
        struct esp_value value;
        if (esp_item_find(&c->table->schema, item, c->terms->contains[i].name, &c->run->arena,
                          &value, NULL) != ESP_OK ||
            !contains(&value, &c->terms->contains[i].lo, &c->run->arena)) {
            return ESP_OK;
        }
    }
    c->run->returned++;
    return ESP_OK;
}

static bool do_keys(struct vector_run *run, struct vector_table *t, json_t **json, size_t n,
                    enum esp_consistency consistency) {
    struct esp_item *keys = esp_arena_calloc(&run->arena, n + 1, sizeof *keys);
    struct counting counting = {run, t, NULL};
    struct esp_error err = ESP_ERROR_INIT;
    for (size_t i = 0; i < n; i++) {
        if (!keys || !read_item(run, t, json[i], &keys[i])) {
            return false;
        }
    }
    if (consistency != ESP_TRANSACTION) {
        return outcome(run,
                       esp_session_get(t->session, keys, n, consistency == ESP_STRONG, count_item,
                                       &counting, &err),
                       &err);
    }
    struct esp_request r = {.kind = ESP_REQ_GET, .fn = count_item, .ctx = &counting};
    r.get.keys = keys;
    r.get.n = n;
    r.get.consistency = consistency;
    enum esp_status called = run->store->ops->execute(t->session, &r, 1, &err);
    return outcome(run, called, &err) && outcome(run, r.status, &r.error);
}

static enum esp_consistency consistency_of(json_t *request) {
    return json_is_true(json_object_get(request, "ConsistentRead")) ? ESP_STRONG : ESP_EVENTUAL;
}

static bool do_get(struct vector_run *run, json_t *request) {
    struct vector_table *t = table_of(run, request);
    json_t *key = json_object_get(request, "Key");
    return t && do_keys(run, t, &key, 1, consistency_of(request));
}

static bool do_batch_get(struct vector_run *run, json_t *request) {
    const char *name;
    json_t *part;
    json_object_foreach(json_object_get(request, "RequestItems"), name, part) {
        struct vector_table *t = find_table(run, name);
        json_t *list = json_object_get(part, "Keys"), *keys[KEYS_MAX];
        size_t n = json_array_size(list);
        for (size_t i = 0; i < n && i < KEYS_MAX; i++) {
            keys[i] = json_array_get(list, i);
        }
        if (!t || n > KEYS_MAX || !do_keys(run, t, keys, n, consistency_of(part))) {
            return false;
        }
    }
    return true;
}

static bool do_transact_get(struct vector_run *run, json_t *request) {
    json_t *items = json_object_get(request, "TransactItems");
    for (size_t k = 0; k < run->table_count; k++) {
        json_t *keys[KEYS_MAX];
        size_t n = 0;
        for (size_t i = 0; i < json_array_size(items) && n < KEYS_MAX; i++) {
            json_t *get = json_object_get(json_array_get(items, i), "Get");
            if (table_of(run, get) == &run->table[k]) {
                keys[n++] = json_object_get(get, "Key");
            }
        }
        if (n && !do_keys(run, &run->table[k], keys, n, ESP_TRANSACTION)) {
            return false;
        }
    }
    return true;
}

/* --- queries and scans -------------------------------------------------------------- */

static bool find_index(struct vector_run *run, const struct vector_table *t, json_t *request,
                       int *out) {
    json_t *name = json_object_get(request, "IndexName");
    *out = ESP_PRIMARY;
    for (size_t i = 0; name && i < t->schema.index_count; i++) {
        if (esp_str_eq(t->schema.index[i].name, esp_str_from(json_string_value(name)))) {
            *out = (int)i;
            return true;
        }
    }
    return !name || fail(run, "no such index", json_string_value(name));
}

static bool is_projected(const struct esp_schema *schema, const struct esp_index *index,
                         struct esp_str name) {
    int position = esp_schema_find_attr(schema, name);
    if (index->projection == ESP_PROJECT_ALL ||
        (position >= 0 && (position == schema->pk || position == schema->sk ||
                           position == index->pk || position == index->sk))) {
        return true;
    }
    for (size_t i = 0; i < index->include_count; i++) {
        if (esp_str_eq(index->include[i], name)) {
            return true;
        }
    }
    return false;
}

/* Does the query ask for what its index does not hold? */
static bool wants_fetch(struct vector_run *run, const struct vector_table *t, json_t *request,
                        int index, bool *fetch) {
    struct esp_expression e = expression(run, t, request);
    json_t *projection = json_object_get(request, "ProjectionExpression");
    struct esp_str names[ESP_TEST_TERMS_MAX], select = text_of(request, "Select");
    size_t count = 0;
    *fetch = index != ESP_PRIMARY && esp_str_eq(select, ESP_STR("ALL_ATTRIBUTES")) &&
             t->schema.index[index].projection != ESP_PROJECT_ALL;
    if (index == ESP_PRIMARY || !projection) {
        return true;
    }
    if (!esp_expression_names(&e, json_string_value(projection), names, &count)) {
        return fail(run, "projection", e.problem);
    }
    for (size_t i = 0; i < count; i++) {
        *fetch = *fetch || !is_projected(&t->schema, &t->schema.index[index], names[i]);
    }
    return true;
}

static bool read_filter(struct vector_run *run, const struct vector_table *t, json_t *request,
                        struct esp_terms *out) {
    struct esp_expression e = expression(run, t, request);
    json_t *filter = json_object_get(request, "FilterExpression");
    out->count = out->contains_count = 0;
    return !filter || esp_expression_terms(&e, json_string_value(filter), out) ||
           fail(run, "filter", e.problem);
}

static bool read_key_condition(struct vector_run *run, const struct vector_table *t,
                               json_t *request, struct esp_query *q) {
    const struct esp_schema *s = &t->schema;
    struct esp_expression e = expression(run, t, request);
    struct esp_terms terms;
    int pk = q->index == ESP_PRIMARY ? s->pk : s->index[q->index].pk;
    int sk = q->index == ESP_PRIMARY ? s->sk : s->index[q->index].sk;
    if (!esp_expression_terms(
            &e, json_string_value(json_object_get(request, "KeyConditionExpression")), &terms)) {
        return fail(run, "key condition", e.problem);
    }
    for (size_t i = 0; i < terms.count; i++) {
        int position = esp_schema_find_attr(s, terms.condition[i].name);
        if (position == pk && terms.condition[i].op == ESP_EQ) {
            q->pk = terms.condition[i].lo;
        } else if (position == sk && sk >= 0) {
            q->op = terms.condition[i].op;
            q->lo = terms.condition[i].lo;
            q->hi = terms.condition[i].hi;
        } else {
            return fail(run, "key condition", "not on a key of the index");
        }
    }
    return true;
}

static bool begin_cursor(struct vector_run *run, const struct vector_table *t, json_t *request,
                         int index, struct esp_cursor *cursor) {
    json_t *from = json_object_get(request, "ExclusiveStartKey");
    struct esp_item item;
    cursor->set = false;
    if (from) {
        if (!read_item(run, t, from, &item)) {
            return false;
        }
        esp_cursor_set(cursor, &t->schema, index, &item);
    }
    return true;
}

static bool do_query(struct vector_run *run, json_t *request) {
    struct vector_table *t = table_of(run, request);
    struct esp_query q = {.op = ESP_ANY};
    struct esp_terms filter;
    struct esp_cursor cursor;
    struct esp_error err = ESP_ERROR_INIT;
    struct counting counting = {run, t, &filter};
    if (!t || !find_index(run, t, request, &q.index) || !read_filter(run, t, request, &filter) ||
        !read_key_condition(run, t, request, &q) ||
        !wants_fetch(run, t, request, q.index, &q.fetch) ||
        !begin_cursor(run, t, request, q.index, &cursor)) {
        return false;
    }
    q.filter = filter.condition;
    q.filter_count = filter.count;
    q.consistent = consistency_of(request) == ESP_STRONG;
    q.reverse = json_is_false(json_object_get(request, "ScanIndexForward"));
    q.limit = (uint64_t)json_integer_value(json_object_get(request, "Limit"));
    return outcome(
        run,
        esp_session_query_page(t->session, &q, &cursor, &run->more, count_item, &counting, &err),
        &err);
}

static bool do_scan(struct vector_run *run, json_t *request) {
    struct vector_table *t = table_of(run, request);
    struct esp_scan scan = {.index = ESP_PRIMARY};
    struct esp_terms filter;
    struct esp_cursor cursor;
    struct esp_error err = ESP_ERROR_INIT;
    struct counting counting = {run, t, &filter};
    if (!t || !find_index(run, t, request, &scan.index) || !read_filter(run, t, request, &filter) ||
        !begin_cursor(run, t, request, scan.index, &cursor)) {
        return false;
    }
    scan.filter = filter.condition;
    scan.filter_count = filter.count;
    scan.consistent = consistency_of(request) == ESP_STRONG;
    scan.segment = (uint32_t)json_integer_value(json_object_get(request, "Segment"));
    scan.segments = (uint32_t)json_integer_value(json_object_get(request, "TotalSegments"));
    scan.limit = (uint64_t)json_integer_value(json_object_get(request, "Limit"));
    struct esp_request r = {.kind = ESP_REQ_SCAN, .fn = count_item, .ctx = &counting};
    r.scan = &scan;
    r.cursor = &cursor;
    enum esp_status called = run->store->ops->execute(t->session, &r, 1, &err);
    run->more = r.more;
    return outcome(run, called, &err) && outcome(run, r.status, &r.error);
}

/* --- all of them -------------------------------------------------------------------- */

bool vector_do(struct vector_run *run, const char *operation, json_t *request) {
    static const struct {
        const char *name;
        bool (*perform)(struct vector_run *, json_t *);
    } others[] = {{"GetItem", do_get},
                  {"BatchGetItem", do_batch_get},
                  {"BatchWriteItem", do_batch_write},
                  {"Query", do_query},
                  {"Scan", do_scan},
                  {"TransactWriteItems", do_transact_write},
                  {"TransactGetItems", do_transact_get}};
    static const struct {
        const char *name;
        enum esp_write_kind kind;
    } writes[] = {{"PutItem", ESP_PUT}, {"UpdateItem", ESP_UPDATE}, {"DeleteItem", ESP_DELETE}};
    run->refused = false;
    run->returned = 0;
    run->more = false;
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++) {
        if (strcmp(operation, writes[i].name) == 0) {
            return do_write(run, writes[i].kind, request);
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(operation, others[i].name) == 0) {
            return others[i].perform(run, request);
        }
    }
    return fail(run, "unknown operation", operation);
}
