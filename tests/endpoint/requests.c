#include "tests/endpoint/requests.h"

#include "tests/support/support.h"

#include <stdio.h>

static struct esp_attr attr(const char *name, enum esp_type type) {
    return (struct esp_attr){esp_str_from(name), type};
}

static struct esp_index index_of(const char *name, int pk, int sk, enum esp_projection projection) {
    return (struct esp_index){
        .name = esp_str_from(name), .pk = pk, .sk = sk, .projection = projection};
}

void test_schema_make(int shape, struct esp_schema *schema) {
    memset(schema, 0, sizeof *schema);
    schema->sk = 1;
    schema->attr_count = 5;
    switch (shape) {
    case 0: /* strings; a GSI of everything and one of keys */
        schema->attr[0] = attr("p", ESP_TYPE_S);
        schema->attr[1] = attr("s", ESP_TYPE_S);
        schema->attr[2] = attr("g", ESP_TYPE_S);
        schema->attr[3] = attr("h", ESP_TYPE_S);
        schema->attr_count = 4;
        schema->index[0] = index_of("gall", 2, 3, ESP_PROJECT_ALL);
        schema->index[1] = index_of("gkey", 3, -1, ESP_PROJECT_KEYS);
        schema->index_count = 2;
        break;
    case 1: /* number sort key; an INCLUDE index on a number; LSIs */
        schema->attr[0] = attr("p", ESP_TYPE_S);
        schema->attr[1] = attr("s", ESP_TYPE_N);
        schema->attr[2] = attr("g", ESP_TYPE_S);
        schema->attr[3] = attr("n", ESP_TYPE_N);
        schema->attr[4] = attr("t", ESP_TYPE_S);
        schema->index[0] = index_of("gin", 2, 3, ESP_PROJECT_INCLUDE);
        schema->index[0].include[0] = ESP_STR("a");
        schema->index[0].include_count = 1;
        schema->index[1] = index_of("lall", 0, 4, ESP_PROJECT_ALL);
        schema->index[1].local = true;
        schema->index[2] = index_of("lkey", 0, 3, ESP_PROJECT_KEYS);
        schema->index[2].local = true;
        schema->index_count = 3;
        break;
    default: /* number partition key without a sort key; a binary index */
        schema->attr[0] = attr("p", ESP_TYPE_N);
        schema->attr[1] = attr("b", ESP_TYPE_B);
        schema->attr[2] = attr("g", ESP_TYPE_S);
        schema->attr_count = 3;
        schema->sk = -1;
        schema->index[0] = index_of("gbin", 2, 1, ESP_PROJECT_ALL);
        schema->index_count = 1;
        break;
    }
}

/* Values that are near each other in order, prefixes of each other, and of all lengths. */
static const char *const words[] = {"a",   "ab",     "abc",  "b",  "a/b/", "a/",     "a0",
                                    "é",   "漢字",   "😀",    "A",  "n1",   "n10",    "n101",
                                    "a%b", "x\"y\\", "\x01", "～", "zz",   "n1/n10/"};
static const char *const numbers[] = {
    "0",      "1",    "-1",   "10",
    "2",      "100",  "-100", "0.5",
    "1.5",    "-1.5", "1e20", "1e-20",
    "15",     "9",    "1.50", "12345678901234567890123456789012345678",
    "-0.001", "42",   "7",    "1e100"};
enum { WORD_COUNT = 20 };

static struct esp_value random_value(struct esp_rng *rng, enum esp_type type,
                                     struct esp_arena *arena, uint32_t space) {
    size_t pick = esp_rng_below(rng, space < WORD_COUNT ? space : WORD_COUNT);
    if (type == ESP_TYPE_N) {
        struct esp_number number;
        struct esp_value value;
        struct esp_error err = ESP_ERROR_INIT;
        assert_ok(esp_number_parse(esp_str_from(numbers[pick]), &number, &err), &err);
        assert_ok(esp_value_from_number(&number, arena, &value, &err), &err);
        return value;
    }
    struct esp_str text = esp_str_from(words[pick]);
    return type == ESP_TYPE_B ? esp_b(text) : esp_s(text);
}

static struct esp_value filler(struct esp_rng *rng, struct esp_arena *arena) {
    static const uint32_t sizes[] = {1, 20, 300, 900, 1100, 2500, 4200};
    uint32_t len = sizes[esp_rng_below(rng, 7)] + (uint32_t)esp_rng_below(rng, 30);
    char *text = esp_arena_alloc(arena, len);
    assert_non_null(text);
    memset(text, 'x', len);
    return esp_s((struct esp_str){text, len});
}

/* Payload attributes: a (string), d (filler), m (map), l (list), c (counter), e (set). */
static struct esp_data random_data(struct esp_rng *rng, struct esp_arena *arena) {
    static const char *const extras[] = {
        "",
        ",\"m\":{\"M\":{\"k\":{\"S\":\"v\"},\"l\":{\"L\":[{\"N\":\"1\"},{\"BOOL\":true}]}}}",
        ",\"l\":{\"L\":[{\"S\":\"x\"},{\"NULL\":true}]}",
        ",\"c\":{\"N\":\"5\"}",
        ",\"e\":{\"SS\":[\"a\",\"bb\"]}",
        ",\"c\":{\"N\":\"-12.5\"},\"e\":{\"SS\":[\"b\"]}"};
    struct esp_schema none = {.attr_count = 0, .pk = -1, .sk = -1};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_item item;
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 20);
    ESP_BUF_LIT(&text, "{\"a\":");
    struct esp_value a = random_value(rng, ESP_TYPE_S, arena, WORD_COUNT);
    esp_value_put_json(&text, &a);
    ESP_BUF_LIT(&text, ",\"d\":");
    struct esp_value d = filler(rng, arena);
    esp_value_put_json(&text, &d);
    esp_buf_put_str(&text, esp_str_from(extras[esp_rng_below(rng, 6)]));
    esp_buf_put_char(&text, '}');
    assert_ok(esp_item_parse(&none, esp_buf_str(&text), arena, &item, &err), &err);
    esp_buf_fini(&text);
    return item.data;
}

static void random_key(const struct esp_schema *schema, struct esp_rng *rng,
                       struct esp_arena *arena, struct esp_item *item) {
    memset(item, 0, sizeof *item);
    item->value[schema->pk] =
        random_value(rng, schema->attr[schema->pk].type, arena, schema->sk < 0 ? WORD_COUNT : 3);
    if (schema->sk >= 0) {
        item->value[schema->sk] =
            random_value(rng, schema->attr[schema->sk].type, arena, WORD_COUNT);
    }
}

static void random_item(const struct esp_schema *schema, struct esp_rng *rng,
                        struct esp_arena *arena, struct esp_item *item) {
    random_key(schema, rng, arena, item);
    for (int i = 0; i < (int)schema->attr_count; i++) {
        if (i != schema->pk && i != schema->sk && esp_rng_below(rng, 4)) {
            item->value[i] = random_value(rng, schema->attr[i].type, arena, 6);
        }
    }
    item->data = random_data(rng, arena);
}

/* The structural attributes of an item are those of its schema; no key twice in a batch. */
static bool same_key(const struct esp_schema *schema, const struct esp_item *a,
                     const struct esp_item *b) {
    return esp_value_cmp(&a->value[schema->pk], &b->value[schema->pk]) == 0 &&
           (schema->sk < 0 || esp_value_cmp(&a->value[schema->sk], &b->value[schema->sk]) == 0);
}

static void random_condition(struct esp_rng *rng, struct esp_arena *arena,
                             struct esp_condition *out) {
    static const enum esp_compare ops[] = {ESP_EXISTS, ESP_NOT_EXISTS, ESP_EQ, ESP_NE,    ESP_LT,
                                           ESP_LE,     ESP_GT,         ESP_GE, ESP_PREFIX};
    memset(out, 0, sizeof *out);
    if (esp_rng_below(rng, 3) == 0) {
        out->name = ESP_STR("c");
        out->op = ops[esp_rng_below(rng, 8)];
        out->lo = random_value(rng, ESP_TYPE_N, arena, WORD_COUNT);
    } else {
        out->name = ESP_STR("a");
        out->op = ops[esp_rng_below(rng, 9)];
        out->lo = random_value(rng, ESP_TYPE_S, arena, WORD_COUNT);
    }
}

static void random_changes(const struct esp_schema *schema, struct esp_rng *rng,
                           struct esp_arena *arena, struct esp_write *write,
                           struct test_request *out) {
    struct esp_change *change = esp_arena_calloc(arena, 4, sizeof *change);
    assert_non_null(change);
    size_t n = 0;
    change[n++] = (struct esp_change){ESP_CHANGE_SET, ESP_STR("a"),
                                      random_value(rng, ESP_TYPE_S, arena, WORD_COUNT)};
    if (esp_rng_below(rng, 2)) {
        change[n++] = (struct esp_change){ESP_CHANGE_SET, ESP_STR("d"), filler(rng, arena)};
    } else if (esp_rng_below(rng, 2)) {
        change[n++] = (struct esp_change){.kind = ESP_CHANGE_REMOVE, .name = ESP_STR("d")};
    }
    int structural = (int)schema->attr_count - 1;
    if (structural != schema->pk && structural != schema->sk && esp_rng_below(rng, 2)) {
        change[n++] =
            (struct esp_change){ESP_CHANGE_SET, schema->attr[structural].name,
                                random_value(rng, schema->attr[structural].type, arena, 6)};
        out->sets_index_key = true;
    }
    if (esp_rng_below(rng, 3) == 0) {
        change[n++] = (struct esp_change){ESP_CHANGE_ADD, ESP_STR("c"),
                                          random_value(rng, ESP_TYPE_N, arena, 10)};
    } else if (esp_rng_below(rng, 3) == 0) {
        struct esp_value set = {.type = ESP_TYPE_JSON, .s = ESP_STR("{\"SS\":[\"bb\",\"q\"]}")};
        change[n++] = (struct esp_change){
            esp_rng_below(rng, 2) ? ESP_CHANGE_ADD : ESP_CHANGE_DELETE, ESP_STR("e"), set};
    }
    write->changes = change;
    write->change_count = n;
}

static void make_write(const struct esp_schema *schema, struct esp_rng *rng,
                       struct esp_arena *arena, struct test_request *out, bool transaction) {
    size_t n = transaction ? 1 + esp_rng_below(rng, 5)
                           : (esp_rng_below(rng, 3) == 0 ? 2 + esp_rng_below(rng, 8) : 1);
    struct esp_write *w = esp_arena_calloc(arena, n, sizeof *w);
    assert_non_null(w);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        struct esp_write *write = &w[used];
        memset(write, 0, sizeof *write);
        uint64_t pick = esp_rng_below(rng, n > 1 && !transaction ? 3 : 5);
        write->kind = pick < 2    ? ESP_PUT
                      : pick == 2 ? ESP_DELETE
                      : pick == 3 ? ESP_UPDATE
                                  : (transaction ? ESP_CHECK : ESP_PUT);
        if (write->kind == ESP_PUT) {
            random_item(schema, rng, arena, &write->item);
        } else {
            random_key(schema, rng, arena, &write->item);
        }
        if (write->kind == ESP_UPDATE) {
            random_changes(schema, rng, arena, write, out);
        }
        if (write->kind == ESP_CHECK || (n == 1 && esp_rng_below(rng, 3) == 0)) {
            random_condition(rng, arena, &out->condition[0]);
            if (write->kind == ESP_CHECK) {
                struct esp_condition *own = esp_arena_calloc(arena, 1, sizeof *own);
                assert_non_null(own);
                *own =
                    (struct esp_condition){.name = schema->attr[schema->pk].name, .op = ESP_EXISTS};
                write->condition = own;
            } else {
                write->condition = &out->condition[0];
            }
            write->condition_count = 1;
        }
        bool again = false;
        for (size_t k = 0; k < used; k++) {
            again = again || same_key(schema, &w[k].item, &write->item);
        }
        used += !again;
    }
    out->request.kind = transaction ? ESP_REQ_TRANSACT : ESP_REQ_WRITE;
    out->request.write.w = w;
    out->request.write.n = used;
    snprintf(out->text, sizeof out->text, "%s of %zu, the first of kind %d%s",
             transaction ? "transaction" : "write", used, w[0].kind,
             w[0].condition ? " with a condition" : "");
}

static void make_get(const struct esp_schema *schema, struct esp_rng *rng, struct esp_arena *arena,
                     struct test_request *out) {
    size_t n = 1 + (esp_rng_below(rng, 2) ? esp_rng_below(rng, 12) : 0), used = 0;
    struct esp_item *keys = esp_arena_calloc(arena, n, sizeof *keys);
    assert_non_null(keys);
    for (size_t i = 0; i < n; i++) {
        bool again = false;
        random_key(schema, rng, arena, &keys[used]);
        for (size_t k = 0; k < used; k++) {
            again = again || same_key(schema, &keys[k], &keys[used]);
        }
        used += !again;
    }
    out->request.kind = ESP_REQ_GET;
    out->request.get.keys = keys;
    out->request.get.n = used;
    out->request.get.consistency = (enum esp_consistency)esp_rng_below(rng, 3);
    snprintf(out->text, sizeof out->text, "get of %zu, consistency %d", used,
             out->request.get.consistency);
}

static void make_query(const struct esp_schema *schema, struct esp_rng *rng,
                       struct esp_arena *arena, struct test_request *out) {
    static const enum esp_compare ops[] = {ESP_ANY, ESP_EQ, ESP_LT,      ESP_LE,
                                           ESP_GT,  ESP_GE, ESP_BETWEEN, ESP_PREFIX};
    struct esp_query *query = &out->query;
    query->index = (int)esp_rng_below(rng, schema->index_count + 1) - 1;
    const struct esp_index *index =
        query->index == ESP_PRIMARY ? NULL : &schema->index[query->index];
    int pk = index ? index->pk : schema->pk, sk = index ? index->sk : schema->sk;
    query->pk = random_value(rng, schema->attr[pk].type, arena, index && !index->local ? 6 : 3);
    if (sk >= 0) {
        enum esp_type type = schema->attr[sk].type;
        query->op = ops[esp_rng_below(rng, type == ESP_TYPE_N ? 7 : 8)];
        query->lo = random_value(rng, type, arena, WORD_COUNT);
        query->hi = random_value(rng, type, arena, WORD_COUNT);
        if (esp_value_cmp(&query->lo, &query->hi) > 0) {
            struct esp_value swap = query->lo;
            query->lo = query->hi;
            query->hi = swap;
        }
    }
    query->reverse = esp_rng_below(rng, 2);
    query->consistent = (!index || index->local) && esp_rng_below(rng, 2);
    query->fetch = index && index->local && esp_rng_below(rng, 2);
    query->limit = !index && esp_rng_below(rng, 3) == 0 ? 1 + esp_rng_below(rng, 4) : 0;
    if (esp_rng_below(rng, 3) == 0 && (!index || index->projection == ESP_PROJECT_ALL)) {
        random_condition(rng, arena, &out->condition[0]);
        query->filter = out->condition;
        query->filter_count = 1;
    }
    out->request.kind = ESP_REQ_QUERY;
    out->request.query = query;
    out->request.cursor = &out->cursor;
    snprintf(out->text, sizeof out->text, "query of index %d, op %d, limit %d%s%s%s%s",
             query->index, query->op, (int)query->limit, query->reverse ? ", reverse" : "",
             query->consistent ? ", consistent" : "", query->fetch ? ", fetch" : "",
             query->filter ? ", filter" : "");
}

static void make_scan(const struct esp_schema *schema, struct esp_rng *rng, struct esp_arena *arena,
                      struct test_request *out) {
    struct esp_scan *scan = &out->scan;
    scan->index = (int)esp_rng_below(rng, schema->index_count + 1) - 1;
    scan->consistent = scan->index == ESP_PRIMARY && esp_rng_below(rng, 2);
    if (scan->index == ESP_PRIMARY && esp_rng_below(rng, 2)) {
        random_condition(rng, arena, &out->condition[0]);
        scan->filter = out->condition;
        scan->filter_count = 1;
    }
    out->request.kind = ESP_REQ_SCAN;
    out->request.scan = scan;
    out->request.cursor = &out->cursor;
    snprintf(out->text, sizeof out->text, "scan of index %d%s%s", scan->index,
             scan->consistent ? ", consistent" : "", scan->filter ? ", filter" : "");
}

void test_request_make(const struct esp_schema *schema, uint64_t seed, struct esp_arena *arena,
                       struct test_request *out) {
    struct esp_rng rng;
    esp_rng_init(&rng, seed, 7);
    memset(out, 0, offsetof(struct test_request, cursor));
    memset(&out->query, 0, sizeof *out - offsetof(struct test_request, query));
    out->cursor.set = false;
    uint64_t pick = esp_rng_below(&rng, 100);
    if (pick < 45) {
        make_write(schema, &rng, arena, out, false);
    } else if (pick < 55) {
        make_write(schema, &rng, arena, out, true);
    } else if (pick < 70) {
        make_get(schema, &rng, arena, out);
    } else if (pick < 97) {
        make_query(schema, &rng, arena, out);
    } else {
        make_scan(schema, &rng, arena, out);
    }
}

const char *test_request_outcome_deviation(const struct test_request *ours,
                                           const struct test_request *theirs) {
    const struct esp_request *mine = &ours->request, *other = &theirs->request;
    if (mine->kind == ESP_REQ_QUERY && mine->status == ESP_OK && other->status == ESP_OK &&
        ours->query.limit && ours->query.filter) {
        return "FILTERED_LIMIT_HAS_NO_MORE";
    }
    if (mine->kind == ESP_REQ_QUERY && ours->query.limit && ours->query.op == ESP_ANY) {
        return "LIMIT_WITHOUT_SORT_KEY_HAS_NO_MORE";
    }
    return NULL;
}

const char *test_request_item_deviation(const struct test_request *request) {
    if (request->request.kind == ESP_REQ_QUERY && request->query.op == ESP_PREFIX) {
        return "KEY_PREFIX_IGNORES_CASE";
    }
    return NULL;
}

static double deletes(const struct test_request *request) {
    double count = 0;
    for (size_t i = 0; i < request->request.write.n; i++) {
        count += request->request.write.w[i].kind == ESP_DELETE;
    }
    return count;
}

/* What an engine charges more than we do is index arms, and at most `table_more` on the table.
 * A single write must not be charged an arm that is there by our meter at another price. */
static bool charges_more(const struct test_request *request, double table_more,
                         const struct esp_usage *ours, const struct esp_usage *theirs) {
    double more = theirs->billed_write.table - ours->write.table;
    bool all = more >= 0 && more <= table_more;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        double our_arm = ours->write.index[i], their_arm = theirs->billed_write.index[i];
        all = all && (their_arm == our_arm ||
                      (request->request.write.n > 1 ? their_arm > our_arm : our_arm == 0));
    }
    return all;
}

const char *test_request_unit_deviation(const struct test_request *request,
                                        const struct esp_usage *ours,
                                        const struct esp_usage *theirs) {
    double our_read = esp_units_total(&ours->read),
           their_read = esp_units_total(&theirs->billed_read);
    switch (request->request.kind) {
    case ESP_REQ_GET:
        return request->request.get.n > 1 && their_read < our_read ? "BATCH_GET_MISSING_IS_FREE"
                                                                   : NULL;
    case ESP_REQ_QUERY:
        if (request->query.fetch && their_read > 0) {
            return "LSI_FETCH_IS_SUMMED";
        }
        return their_read == 0 && ours->items_read == 0 ? "EMPTY_PAGE_IS_FREE" : NULL;
    case ESP_REQ_SCAN:
        if (their_read == 0 && ours->items_read == 0) {
            return "EMPTY_PAGE_IS_FREE";
        }
        if (request->scan.index >= 0 && theirs->billed_read.table == our_read) {
            return "LSI_SCAN_IS_ON_THE_TABLE";
        }
        return request->scan.index >= 0 ? "INDEX_SCAN_SUMS_ITEMS" : NULL;
    case ESP_REQ_WRITE:
        if (charges_more(request, 0, ours, theirs)) {
            return "INDEX_KEY_IN_HALVES";
        }
        if (request->request.write.n > 1 && charges_more(request, deletes(request), ours, theirs)) {
            return "BATCH_DELETE_MISSING_IS_TWO";
        }
        return "LSI_ENTRY_PLUS_100";
    case ESP_REQ_TRANSACT:
        return "TRANSACTION_UNITS";
    }
    return NULL;
}
