#include "stores/dynamodb/request.h"

enum { EXPRESSION_BYTES_MAX = 20 << 20 };

void esp_request_encoder_init(struct esp_request_encoder *e, const char *table,
                              const struct esp_schema *schema, const struct esp_alloc *alloc) {
    *e = (struct esp_request_encoder){.table = table, .schema = schema};
    esp_buf_init(&e->names, alloc, EXPRESSION_BYTES_MAX);
    esp_buf_init(&e->values, alloc, EXPRESSION_BYTES_MAX);
}

void esp_request_encoder_fini(struct esp_request_encoder *e) {
    if (e->names.alloc) {
        esp_buf_fini(&e->names);
        esp_buf_fini(&e->values);
    }
}

static void put_quoted(struct esp_buf *out, const char *text) {
    esp_json_put_string(out, esp_str_from(text));
}

/* --- expressions ------------------------------------------------------------------ */

static void expressions_begin(struct esp_request_encoder *e) {
    esp_buf_reset(&e->names);
    esp_buf_reset(&e->values);
    e->name_count = e->value_count = 0;
}

/* "#n0" into the expression, "#n0":"name" into the names. */
static void put_name(struct esp_request_encoder *e, struct esp_buf *out, struct esp_str name) {
    if (e->name_count > 0) {
        esp_buf_put_char(&e->names, ',');
    }
    ESP_BUF_LIT(&e->names, "\"#n");
    esp_buf_put_i64(&e->names, e->name_count);
    ESP_BUF_LIT(&e->names, "\":");
    esp_json_put_string(&e->names, name);
    ESP_BUF_LIT(out, "#n");
    esp_buf_put_i64(out, e->name_count++);
}

static void put_value(struct esp_request_encoder *e, struct esp_buf *out,
                      const struct esp_value *value) {
    if (e->value_count > 0) {
        esp_buf_put_char(&e->values, ',');
    }
    ESP_BUF_LIT(&e->values, "\":v");
    esp_buf_put_i64(&e->values, e->value_count);
    ESP_BUF_LIT(&e->values, "\":");
    esp_value_put_json(&e->values, value);
    ESP_BUF_LIT(out, ":v");
    esp_buf_put_i64(out, e->value_count++);
}

/* A failure to collect names or values must not go unseen. */
static void expressions_end(struct esp_request_encoder *e, struct esp_buf *out) {
    if (e->name_count > 0) {
        ESP_BUF_LIT(out, ",\"ExpressionAttributeNames\":{");
        esp_buf_put_str(out, esp_buf_str(&e->names));
        esp_buf_put_char(out, '}');
    }
    if (e->value_count > 0) {
        ESP_BUF_LIT(out, ",\"ExpressionAttributeValues\":{");
        esp_buf_put_str(out, esp_buf_str(&e->values));
        esp_buf_put_char(out, '}');
    }
    out->failed = out->failed || e->names.failed || e->values.failed;
}

static void put_function(struct esp_request_encoder *e, struct esp_buf *out, const char *function,
                         struct esp_str name, const struct esp_value *value) {
    esp_buf_put_str(out, esp_str_from(function));
    esp_buf_put_char(out, '(');
    put_name(e, out, name);
    if (value) {
        esp_buf_put_char(out, ',');
        put_value(e, out, value);
    }
    esp_buf_put_char(out, ')');
}

static void put_comparison(struct esp_request_encoder *e, struct esp_buf *out, struct esp_str name,
                           enum esp_compare op, const struct esp_value *lo,
                           const struct esp_value *hi) {
    static const char *const signs[] = {
        [ESP_EQ] = " = ",  [ESP_LT] = " < ",  [ESP_LE] = " <= ",          [ESP_GT] = " > ",
        [ESP_GE] = " >= ", [ESP_NE] = " <> ", [ESP_BETWEEN] = " BETWEEN "};
    switch (op) {
    case ESP_PREFIX:
        put_function(e, out, "begins_with", name, lo);
        break;
    case ESP_EXISTS:
        put_function(e, out, "attribute_exists", name, NULL);
        break;
    case ESP_NOT_EXISTS:
        put_function(e, out, "attribute_not_exists", name, NULL);
        break;
    default:
        put_name(e, out, name);
        esp_buf_put_str(out, esp_str_from(signs[op]));
        put_value(e, out, lo);
        if (op == ESP_BETWEEN) {
            ESP_BUF_LIT(out, " AND ");
            put_value(e, out, hi);
        }
    }
}

/* ,"member":"a AND b", or nothing when every condition always holds. */
static void put_conditions(struct esp_request_encoder *e, struct esp_buf *out, const char *member,
                           const struct esp_condition *conditions, size_t count) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        const struct esp_condition *c = &conditions[i];
        if (c->op == ESP_ANY) {
            continue;
        }
        if (any) {
            ESP_BUF_LIT(out, " AND ");
        } else {
            ESP_BUF_LIT(out, ",\"");
            esp_buf_put_str(out, esp_str_from(member));
            ESP_BUF_LIT(out, "\":\"");
        }
        put_comparison(e, out, c->name, c->op, &c->lo, &c->hi);
        any = true;
    }
    if (any) {
        esp_buf_put_char(out, '"');
    }
}

static void put_changes(struct esp_request_encoder *e, struct esp_buf *out,
                        const struct esp_change *changes, size_t count) {
    static const char *const words[] = {[ESP_CHANGE_SET] = "SET ",
                                        [ESP_CHANGE_REMOVE] = "REMOVE ",
                                        [ESP_CHANGE_ADD] = "ADD ",
                                        [ESP_CHANGE_DELETE] = "DELETE "};
    if (count == 0) {
        return; /* makes sure that the item exists */
    }
    ESP_BUF_LIT(out, ",\"UpdateExpression\":\"");
    bool first_clause = true;
    for (int kind = ESP_CHANGE_SET; kind <= ESP_CHANGE_DELETE; kind++) {
        bool first = true;
        for (size_t i = 0; i < count; i++) {
            if ((int)changes[i].kind != kind) {
                continue;
            }
            if (!first) {
                ESP_BUF_LIT(out, ", ");
            } else {
                esp_buf_put_str(out, esp_str_from(first_clause ? "" : " "));
                esp_buf_put_str(out, esp_str_from(words[kind]));
            }
            first = first_clause = false;
            put_name(e, out, changes[i].name);
            if (kind == ESP_CHANGE_SET) {
                ESP_BUF_LIT(out, " = ");
            } else if (kind != ESP_CHANGE_REMOVE) {
                esp_buf_put_char(out, ' ');
            }
            if (kind != ESP_CHANGE_REMOVE) {
                put_value(e, out, &changes[i].value);
            }
        }
    }
    esp_buf_put_char(out, '"');
}

/* --- reads ---------------------------------------------------------------------- */

static void put_table_member(const struct esp_request_encoder *e, struct esp_buf *out) {
    ESP_BUF_LIT(out, "\"TableName\":");
    put_quoted(out, e->table);
}

static void put_key_object(const struct esp_request_encoder *e, struct esp_buf *out,
                           const struct esp_item *item) {
    esp_buf_put_char(out, '{');
    esp_item_put_key_json(out, e->schema, item);
    esp_buf_put_char(out, '}');
}

static enum esp_operation encode_get(struct esp_request_encoder *e, const struct esp_request *r,
                                     struct esp_buf *out) {
    bool transaction = r->get.consistency == ESP_TRANSACTION;
    bool strong = r->get.consistency == ESP_STRONG;
    if (r->get.n == 1 && !transaction) {
        esp_buf_put_char(out, '{');
        put_table_member(e, out);
        ESP_BUF_LIT(out, ",\"ReturnConsumedCapacity\":\"INDEXES\"");
        if (strong) {
            ESP_BUF_LIT(out, ",\"ConsistentRead\":true");
        }
        ESP_BUF_LIT(out, ",\"Key\":");
        put_key_object(e, out, &r->get.keys[0]);
        esp_buf_put_char(out, '}');
        return ESP_OP_GET_ITEM;
    }
    ESP_BUF_LIT(out, "{\"ReturnConsumedCapacity\":\"INDEXES\",");
    if (transaction) {
        ESP_BUF_LIT(out, "\"TransactItems\":[");
        for (size_t i = 0; i < r->get.n; i++) {
            esp_buf_put_str(out, i ? ESP_STR(",{\"Get\":{") : ESP_STR("{\"Get\":{"));
            put_table_member(e, out);
            ESP_BUF_LIT(out, ",\"Key\":");
            put_key_object(e, out, &r->get.keys[i]);
            ESP_BUF_LIT(out, "}}");
        }
        ESP_BUF_LIT(out, "]}");
        return ESP_OP_TRANSACT_GET_ITEMS;
    }
    ESP_BUF_LIT(out, "\"RequestItems\":{");
    put_quoted(out, e->table);
    esp_buf_put_str(out, strong ? ESP_STR(":{\"ConsistentRead\":true,\"Keys\":[")
                                : ESP_STR(":{\"Keys\":["));
    for (size_t i = 0; i < r->get.n; i++) {
        if (i > 0) {
            esp_buf_put_char(out, ',');
        }
        put_key_object(e, out, &r->get.keys[i]);
    }
    ESP_BUF_LIT(out, "]}}}");
    return ESP_OP_BATCH_GET_ITEM;
}

/* What Query and Scan share at the front: table, index, consistency, page size. */
static void put_read_head(struct esp_request_encoder *e, struct esp_buf *out, int index,
                          bool consistent, uint64_t limit) {
    esp_buf_put_char(out, '{');
    put_table_member(e, out);
    ESP_BUF_LIT(out, ",\"ReturnConsumedCapacity\":\"INDEXES\"");
    if (index != ESP_PRIMARY) {
        ESP_BUF_LIT(out, ",\"IndexName\":");
        esp_json_put_string(out, e->schema->index[index].name);
    }
    if (consistent && (index == ESP_PRIMARY || e->schema->index[index].local)) {
        ESP_BUF_LIT(out, ",\"ConsistentRead\":true");
    }
    if (limit > 0) {
        ESP_BUF_LIT(out, ",\"Limit\":");
        esp_buf_put_i64(out, limit < INT32_MAX ? (int64_t)limit : INT32_MAX);
    }
}

/* ,"ExclusiveStartKey":{table key and index key}: each attribute once. */
static void put_cursor(const struct esp_request_encoder *e, struct esp_buf *out, int index,
                       const struct esp_cursor *cursor) {
    if (!cursor || !cursor->set) {
        return;
    }
    const struct esp_schema *schema = e->schema;
    ESP_BUF_LIT(out, ",\"ExclusiveStartKey\":{");
    esp_item_put_key_json(out, schema, &cursor->key);
    if (index != ESP_PRIMARY) {
        int extra[2] = {schema->index[index].pk, schema->index[index].sk};
        for (int i = 0; i < 2; i++) {
            if (extra[i] >= 0 && extra[i] != schema->pk && extra[i] != schema->sk) {
                esp_buf_put_char(out, ',');
                esp_json_put_string(out, schema->attr[extra[i]].name);
                esp_buf_put_char(out, ':');
                esp_value_put_json(out, &cursor->key.value[extra[i]]);
            }
        }
    }
    esp_buf_put_char(out, '}');
}

static enum esp_operation encode_query(struct esp_request_encoder *e, const struct esp_request *r,
                                       struct esp_buf *out) {
    const struct esp_query *q = r->query;
    const struct esp_schema *schema = e->schema;
    int pk = q->index == ESP_PRIMARY ? schema->pk : schema->index[q->index].pk;
    int sk = q->index == ESP_PRIMARY ? schema->sk : schema->index[q->index].sk;
    put_read_head(e, out, q->index, q->consistent, q->limit);
    if (q->reverse) {
        ESP_BUF_LIT(out, ",\"ScanIndexForward\":false");
    }
    if (q->fetch && q->index != ESP_PRIMARY && schema->index[q->index].local) {
        ESP_BUF_LIT(out, ",\"Select\":\"ALL_ATTRIBUTES\"");
    }
    put_cursor(e, out, q->index, r->cursor);
    ESP_BUF_LIT(out, ",\"KeyConditionExpression\":\"");
    put_comparison(e, out, schema->attr[pk].name, ESP_EQ, &q->pk, NULL);
    if (q->op != ESP_ANY && sk >= 0) {
        ESP_BUF_LIT(out, " AND ");
        put_comparison(e, out, schema->attr[sk].name, q->op, &q->lo, &q->hi);
    }
    esp_buf_put_char(out, '"');
    put_conditions(e, out, "FilterExpression", q->filter, q->filter_count);
    expressions_end(e, out);
    esp_buf_put_char(out, '}');
    return ESP_OP_QUERY;
}

static enum esp_operation encode_scan(struct esp_request_encoder *e, const struct esp_request *r,
                                      struct esp_buf *out) {
    const struct esp_scan *s = r->scan;
    put_read_head(e, out, s->index, s->consistent, s->limit);
    if (s->segments > 1) {
        ESP_BUF_LIT(out, ",\"Segment\":");
        esp_buf_put_i64(out, s->segment);
        ESP_BUF_LIT(out, ",\"TotalSegments\":");
        esp_buf_put_i64(out, s->segments);
    }
    put_cursor(e, out, s->index, r->cursor);
    put_conditions(e, out, "FilterExpression", s->filter, s->filter_count);
    expressions_end(e, out);
    esp_buf_put_char(out, '}');
    return ESP_OP_SCAN;
}

/* --- writes --------------------------------------------------------------------- */

/* The members of one write after TableName, its conditions and expressions included. */
static void put_write(struct esp_request_encoder *e, struct esp_buf *out,
                      const struct esp_write *w) {
    if (w->kind == ESP_PUT) {
        ESP_BUF_LIT(out, ",\"Item\":{");
        esp_item_put_json(out, e->schema, &w->item);
        esp_buf_put_char(out, '}');
    } else {
        ESP_BUF_LIT(out, ",\"Key\":");
        put_key_object(e, out, &w->item);
    }
    if (w->kind == ESP_UPDATE) {
        put_changes(e, out, w->changes, w->change_count);
    }
    put_conditions(e, out, "ConditionExpression", w->condition, w->condition_count);
    expressions_end(e, out);
}

static enum esp_operation encode_write(struct esp_request_encoder *e, const struct esp_write *w,
                                       struct esp_buf *out) {
    esp_buf_put_char(out, '{');
    put_table_member(e, out);
    ESP_BUF_LIT(out, ",\"ReturnConsumedCapacity\":\"INDEXES\",\"ReturnValues\":\"ALL_OLD\"");
    put_write(e, out, w);
    esp_buf_put_char(out, '}');
    return w->kind == ESP_PUT      ? ESP_OP_PUT_ITEM
           : w->kind == ESP_DELETE ? ESP_OP_DELETE_ITEM
                                   : ESP_OP_UPDATE_ITEM;
}

void esp_encode_batch_begin(struct esp_buf *out, const char *table) {
    ESP_BUF_LIT(out, "{\"ReturnConsumedCapacity\":\"INDEXES\",\"RequestItems\":{");
    put_quoted(out, table);
    ESP_BUF_LIT(out, ":[");
}

void esp_encode_batch_item(struct esp_buf *out, const struct esp_schema *schema,
                           const struct esp_item *item) {
    ESP_BUF_LIT(out, "{\"PutRequest\":{\"Item\":{");
    esp_item_put_json(out, schema, item);
    ESP_BUF_LIT(out, "}}}");
}

void esp_encode_batch_end(struct esp_buf *out) {
    ESP_BUF_LIT(out, "]}}");
}

static enum esp_operation encode_batch(struct esp_request_encoder *e, const struct esp_request *r,
                                       struct esp_buf *out) {
    esp_encode_batch_begin(out, e->table);
    for (size_t i = 0; i < r->write.n; i++) {
        const struct esp_write *w = &r->write.w[i];
        if (i > 0) {
            esp_buf_put_char(out, ',');
        }
        if (w->kind == ESP_PUT) {
            esp_encode_batch_item(out, e->schema, &w->item);
        } else {
            ESP_BUF_LIT(out, "{\"DeleteRequest\":{\"Key\":");
            put_key_object(e, out, &w->item);
            ESP_BUF_LIT(out, "}}");
        }
    }
    esp_encode_batch_end(out);
    return ESP_OP_BATCH_WRITE_ITEM;
}

static enum esp_operation encode_transaction(struct esp_request_encoder *e,
                                             const struct esp_request *r, const char *token,
                                             struct esp_buf *out) {
    static const char *const words[] = {[ESP_PUT] = "{\"Put\":{",
                                        [ESP_DELETE] = "{\"Delete\":{",
                                        [ESP_UPDATE] = "{\"Update\":{",
                                        [ESP_CHECK] = "{\"ConditionCheck\":{"};
    ESP_BUF_LIT(out, "{\"ReturnConsumedCapacity\":\"INDEXES\",\"ClientRequestToken\":");
    put_quoted(out, token);
    ESP_BUF_LIT(out, ",\"TransactItems\":[");
    for (size_t i = 0; i < r->write.n; i++) {
        if (i > 0) {
            esp_buf_put_char(out, ',');
        }
        expressions_begin(e); /* placeholders belong to one action */
        esp_buf_put_str(out, esp_str_from(words[r->write.w[i].kind]));
        put_table_member(e, out);
        put_write(e, out, &r->write.w[i]);
        ESP_BUF_LIT(out, "}}");
    }
    ESP_BUF_LIT(out, "]}");
    return ESP_OP_TRANSACT_WRITE_ITEMS;
}

enum esp_operation esp_encode_request(struct esp_request_encoder *e,
                                      const struct esp_request *request, const char *token,
                                      struct esp_buf *out) {
    expressions_begin(e);
    switch (request->kind) {
    case ESP_REQ_GET:
        return encode_get(e, request, out);
    case ESP_REQ_QUERY:
        return encode_query(e, request, out);
    case ESP_REQ_SCAN:
        return encode_scan(e, request, out);
    case ESP_REQ_TRANSACT:
        return encode_transaction(e, request, token, out);
    default:
        return request->write.n == 1 ? encode_write(e, &request->write.w[0], out)
                                     : encode_batch(e, request, out);
    }
}
