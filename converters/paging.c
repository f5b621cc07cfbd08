#include "converters/paging.h"

#include "converters/node_list.h"
#include "stores/item_text.h"

#include <stdio.h>
#include <stdlib.h>

enum { VERSION = 1, DIGEST_TEXT_LEN = 16, LIMIT_GROWTH_MAX = 4 };
/* Of items to evaluate: DynamoDB's is a 32 bit number, and 1 MB ends a page long before. */
static const uint64_t request_limit_max = 1000000;

/* One page of one operation.  Groups of loose nodes have even numbers, queries odd ones. */
struct esp_page_run {
    struct esp_access *access;
    esp_node_fn *fn; /* the caller's */
    void *ctx;
    enum esp_op op;
    char digest[DIGEST_TEXT_LEN + 1];
    uint64_t left, passed; /* nodes that still fit; that have gone to the caller */
    uint64_t group;
    bool querying;
    bool full; /* the page is over, and more follows */
    /* Where the page begins: in group `from`, behind the loose node `after` (ptr NULL: at the
     * group's first) or behind the item with `key`. */
    uint64_t from;
    struct esp_str after;
    struct esp_item key;
    bool has_key;
    struct esp_arena arena; /* of the loose nodes of one group */
    struct esp_answer loose;
};

/* --- cursors ---------------------------------------------------------------------- */

/* A cursor is an item of this table, as JSON, in base64. */
enum { C_VERSION, C_DIGEST, C_GROUP, C_AFTER, C_KEY, C_COUNT };
static const struct esp_schema cursor_schema = {
    .attr = {[C_VERSION] = {{"v", 1}, ESP_TYPE_N},
             [C_DIGEST] = {{"q", 1}, ESP_TYPE_S},
             [C_GROUP] = {{"g", 1}, ESP_TYPE_N},
             [C_AFTER] = {{"a", 1}, ESP_TYPE_S},
             [C_KEY] = {{"k", 1}, ESP_TYPE_NONE}},
    .attr_count = C_COUNT,
    .pk = C_VERSION,
    .sk = -1,
};
static const char key_open[] = "{\"M\":", key_close[] = "}";
/* Escapes make up to six bytes of one; each attribute's name comes with it. */
enum { CURSOR_BYTES_MAX = 1 << 17 };

static uint64_t hash_str(uint64_t hash, struct esp_str s) {
    uint64_t len = s.len;
    return esp_hash64(s.ptr, s.len, esp_hash64(&len, sizeof len, hash));
}

static uint64_t hash_settings(uint64_t hash, const struct esp_layout *l) {
    for (const struct esp_option *o = l->ops->options; o && o->name; o++) {
        const char *field = (const char *)&l->settings + o->offset;
        const char *text;
        switch (o->type) {
        case ESP_OPT_STRING:
        case ESP_OPT_OPTFLAG:
            memcpy(&text, field, sizeof text);
            hash = hash_str(hash, esp_str_from(text));
            break;
        case ESP_OPT_FLAG:
            hash = esp_hash64(field, sizeof(bool), hash);
            break;
        case ESP_OPT_CHOICE:
            hash = esp_hash64(field, sizeof(int), hash);
            break;
        case ESP_OPT_U64:
        case ESP_OPT_DOUBLE:
            hash = esp_hash64(field, sizeof(uint64_t), hash);
            break;
        case ESP_OPT_LIST: /* names of attributes and indexes: they are in the schema */
            break;
        }
    }
    for (size_t i = 0; i < l->schema.attr_count; i++) {
        hash = hash_str(hash, l->schema.attr[i].name);
    }
    for (size_t i = 0; i < l->schema.index_count; i++) {
        hash = hash_str(hash, l->schema.index[i].name);
    }
    return hash;
}

/* What a cursor is good for: this operation with these arguments on this table. */
static void make_digest(struct esp_page_run *run, const struct esp_args *args) {
    const struct esp_access *a = run->access;
    uint32_t depths[2] = {args->lo, args->hi};
    struct esp_str texts[] = {esp_str_from(a->layout->ops->name),
                              esp_str_from(a->session->table->name),
                              esp_str_from(esp_op_info[run->op].name),
                              args->at.id,
                              args->to.id,
                              args->type,
                              args->weight};
    uint64_t hash = hash_settings(VERSION, a->layout);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hash = hash_str(hash, texts[i]);
    }
    hash = esp_hash64(depths, sizeof depths, hash);
    snprintf(run->digest, sizeof run->digest, "%016llx", (unsigned long long)hash);
}

/* base64 without what shells and URLs take for something else, in place. */
static size_t to_url(char *text, size_t len) {
    while (len && text[len - 1] == '=') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        text[i] = (char)(text[i] == '+' ? '-' : text[i] == '/' ? '_' : text[i]);
    }
    return len;
}

/* The page is over: the next one begins in `group`, behind `after` or behind `key` (both NULL:
 * at its first node).  Returns ESP_STOP. */
static enum esp_status stop_page(struct esp_page_run *run, uint64_t group,
                                 const struct esp_str *after, const struct esp_item *key) {
    struct esp_access *a = run->access;
    struct esp_arena_buf json, text;
    struct esp_item cursor = {.value = {[C_VERSION] = esp_n(VERSION),
                                        [C_DIGEST] = esp_s(esp_str_from(run->digest)),
                                        [C_GROUP] = esp_n((int64_t)group)}};
    esp_arena_buf_init(&json, a->scratch, 0);
    esp_arena_buf_init(&text, a->scratch, 0);
    if (after) {
        cursor.value[C_AFTER] = esp_s(*after);
    }
    if (key) {
        esp_buf_put_str(&text.buf, esp_str_from(key_open));
        ESP_BUF_LIT(&text.buf, "{");
        esp_item_put_json(&text.buf, &a->layout->schema, key);
        ESP_BUF_LIT(&text.buf, "}");
        esp_buf_put_str(&text.buf, esp_str_from(key_close));
        cursor.value[C_KEY] =
            (struct esp_value){.type = ESP_TYPE_JSON, .s = esp_buf_str(&text.buf)};
    }
    ESP_BUF_LIT(&json.buf, "{");
    esp_item_put_json(&json.buf, &cursor_schema, &cursor);
    ESP_BUF_LIT(&json.buf, "}");
    struct esp_arena_buf out;
    esp_arena_buf_init(&out, a->scratch, 0);
    esp_base64_put(&out.buf, esp_buf_str(&json.buf));
    if (text.buf.failed || json.buf.failed || out.buf.failed) {
        return ESP_ERR_NOMEM;
    }
    run->full = true;
    a->paging->next = (struct esp_str){out.buf.ptr, to_url(out.buf.ptr, out.buf.len)};
    return ESP_STOP;
}

static enum esp_status bad_cursor(struct esp_access *a) {
    if (a->err) {
        esp_error_clear(a->err);
    }
    return esp_fail(a->err, ESP_ERR_USAGE,
                    "the start of the page is damaged: give what the page before it ended with");
}

/* The JSON of a cursor; ptr == NULL: it is none, or there is no memory (*status says). */
static struct esp_str decode(struct esp_access *a, struct esp_str text, enum esp_status *status) {
    struct esp_str none = {NULL, 0}, padded = {NULL, (text.len + 3) / 4 * 4};
    if (text.len > CURSOR_BYTES_MAX) {
        *status = bad_cursor(a);
        return none;
    }
    char *copy = esp_arena_alloc(a->scratch, padded.len + 1);
    char *json = esp_arena_alloc(a->scratch, padded.len + 1);
    if (!copy || !json) {
        *status = ESP_ERR_NOMEM;
        return none;
    }
    memset(copy, '=', padded.len);
    for (size_t i = 0; i < text.len; i++) {
        copy[i] = (char)(text.ptr[i] == '-' ? '+' : text.ptr[i] == '_' ? '/' : text.ptr[i]);
    }
    padded.ptr = copy;
    if (!esp_base64_is_valid(padded)) {
        *status = bad_cursor(a);
        return none;
    }
    *status = ESP_OK;
    return (struct esp_str){json, esp_base64_decode(padded, json)};
}

static bool is_text(const struct esp_value *value, enum esp_type type) {
    return value->type == ESP_TYPE_NONE || value->type == type;
}

static enum esp_status read_position(struct esp_page_run *run, const struct esp_item *cursor) {
    struct esp_access *a = run->access;
    struct esp_str json = cursor->value[C_KEY].s;
    const struct esp_value *value = cursor->value;
    if (value[C_GROUP].type != ESP_TYPE_N || value[C_GROUP].s.len || value[C_GROUP].n < 0 ||
        !is_text(&value[C_AFTER], ESP_TYPE_S) || !is_text(&value[C_KEY], ESP_TYPE_JSON)) {
        return bad_cursor(a);
    }
    run->from = (uint64_t)value[C_GROUP].n;
    run->after = value[C_AFTER].type == ESP_TYPE_S ? value[C_AFTER].s : run->after;
    run->has_key = value[C_KEY].type == ESP_TYPE_JSON;
    if (!run->has_key) {
        return ESP_OK;
    }
    size_t open = sizeof key_open - 1, close = sizeof key_close - 1;
    if (json.len < open + close || memcmp(json.ptr, key_open, open) != 0) {
        return bad_cursor(a);
    }
    json = (struct esp_str){json.ptr + open, json.len - open - close};
    enum esp_status status =
        esp_item_parse(&a->layout->schema, json, a->scratch, &run->key, a->err);
    return status == ESP_OK || status == ESP_ERR_NOMEM ? status : bad_cursor(a);
}

static enum esp_status read_start(struct esp_page_run *run, struct esp_str start) {
    struct esp_access *a = run->access;
    struct esp_item cursor;
    enum esp_status status;
    struct esp_str json = decode(a, start, &status);
    if (status == ESP_OK) {
        status = esp_item_parse(&cursor_schema, json, a->scratch, &cursor, a->err);
    }
    if (status != ESP_OK) {
        return status == ESP_ERR_NOMEM ? status : bad_cursor(a);
    }
    const struct esp_value *version = &cursor.value[C_VERSION];
    if (version->type != ESP_TYPE_N || version->s.len || version->n != VERSION ||
        cursor.value[C_DIGEST].type != ESP_TYPE_S || cursor.data.len) {
        return bad_cursor(a);
    }
    if (!esp_str_eq(cursor.value[C_DIGEST].s, esp_str_from(run->digest))) {
        return esp_fail(a->err, ESP_ERR_USAGE,
                        "the start is that of another query: operation, arguments, table, layout "
                        "and its settings must be those of the page before");
    }
    return read_position(run, &cursor);
}

/* --- loose nodes ------------------------------------------------------------------ */

static enum esp_status changed(struct esp_access *a) {
    return esp_fail(a->err, ESP_ERR_REFUSED,
                    "the table has changed since the page before: what it ended with is no longer "
                    "part of the answer; begin again with the first page");
}

static int by_id(const void *a, const void *b) {
    return esp_str_cmp(((const struct esp_node_view *)a)->id,
                       ((const struct esp_node_view *)b)->id);
}

/* The first loose node of this page; ancestors are in their own order. */
static enum esp_status first_loose(struct esp_page_run *run, uint32_t *at) {
    struct esp_answer *loose = &run->loose;
    bool ordered = run->op == ESP_OP_ANCESTORS;
    *at = 0;
    if (!ordered && loose->count) {
        qsort(loose->node, loose->count, sizeof *loose->node, by_id);
    }
    if (run->group != run->from || !run->after.ptr) {
        return ESP_OK;
    }
    while (*at < loose->count && (ordered ? !esp_str_eq(loose->node[*at].id, run->after)
                                          : esp_str_cmp(loose->node[*at].id, run->after) <= 0)) {
        ++*at;
    }
    if (ordered && *at == loose->count) {
        return changed(run->access);
    }
    *at += ordered;
    return ESP_OK;
}

/* A group of loose nodes is complete: those of this page go to the caller. */
static enum esp_status end_loose(struct esp_page_run *run) {
    struct esp_answer *loose = &run->loose;
    const struct esp_str *last = NULL;
    uint32_t at;
    if (run->group < run->from) {
        return ESP_OK;
    }
    enum esp_status status = first_loose(run, &at);
    for (; status == ESP_OK && at < loose->count; at++) {
        if (last && esp_str_eq(*last, loose->node[at].id)) {
            continue; /* met on two ways */
        }
        if (run->left == 0) {
            return stop_page(run, run->group, last, NULL);
        }
        run->left--;
        run->passed++;
        last = &loose->node[at].id;
        status = run->fn(run->ctx, &loose->node[at]);
    }
    esp_arena_reset(&run->arena);
    *loose = (struct esp_answer){.arena = &run->arena};
    return status;
}

/* What plans are given as the receiver of their nodes. */
static enum esp_status page_node(void *ctx, const struct esp_node_view *node) {
    struct esp_page_run *run = ctx;
    if (run->full) { /* the plan goes on, but nobody asks */
        return ESP_STOP;
    }
    if (!run->querying) {
        return run->group < run->from ? ESP_OK : esp_answer_add(&run->loose, node);
    }
    if (run->left == 0) {
        run->full = true;
        return ESP_STOP;
    }
    run->left--;
    run->passed++;
    return run->fn(run->ctx, node);
}

/* --- queries ---------------------------------------------------------------------- */

/* Does what the query finds go around an item with this sort key? */
static bool in_range(const struct esp_query *q, const struct esp_value *key) {
    bool prefixed = key->s.len >= q->lo.s.len && q->op == ESP_PREFIX &&
                    (q->lo.s.len == 0 || memcmp(key->s.ptr, q->lo.s.ptr, q->lo.s.len) == 0);
    int lo = q->op == ESP_ANY || q->op == ESP_PREFIX ? 0 : esp_value_cmp(key, &q->lo);
    switch (q->op) {
    case ESP_EQ:
        return lo == 0;
    case ESP_LT:
        return lo < 0;
    case ESP_LE:
        return lo <= 0;
    case ESP_GT:
        return lo > 0;
    case ESP_GE:
        return lo >= 0;
    case ESP_BETWEEN:
        return lo >= 0 && esp_value_cmp(key, &q->hi) <= 0;
    case ESP_PREFIX:
        return prefixed;
    default:
        return true;
    }
}

/* Begin behind the item that the page before ended with. */
static enum esp_status set_cursor(struct esp_page_run *run, const struct esp_query *q,
                                  struct esp_cursor *cursor) {
    struct esp_access *a = run->access;
    const struct esp_schema *schema = &a->layout->schema;
    int keys[4] = {schema->pk, schema->sk, schema->pk, schema->sk};
    if (q->index != ESP_PRIMARY) {
        keys[2] = schema->index[q->index].pk;
        keys[3] = schema->index[q->index].sk;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i] >= 0 && run->key.value[keys[i]].type != schema->attr[keys[i]].type) {
            return bad_cursor(a);
        }
    }
    esp_cursor_set(cursor, schema, q->index, &run->key);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i] >= 0 && cursor->key.value[keys[i]].type == ESP_TYPE_NONE) {
            return bad_cursor(a); /* too long for a key */
        }
    }
    bool inside = esp_value_cmp(&cursor->key.value[keys[2]], &q->pk) == 0 &&
                  (keys[3] < 0 || in_range(q, &cursor->key.value[keys[3]]));
    return inside ? ESP_OK : changed(a);
}

/* Between the store and the plan's receiver: remembers the last item of the page. */
struct tap {
    struct esp_page_run *run;
    int index;
    esp_item_fn *add;
    void *sink;
    struct esp_cursor last;
};

static enum esp_status tap_add(void *ctx, const struct esp_item *item) {
    struct tap *tap = ctx;
    uint64_t before = tap->run->passed;
    enum esp_status status = tap->add(tap->sink, item);
    if (status == ESP_OK && tap->run->passed > before && tap->run->left == 0) {
        esp_cursor_set(&tap->last, &tap->run->access->layout->schema, tap->index, item);
    }
    return status;
}

/* Items to evaluate next when the last `limit` gave `found` nodes of which `left` more fit: a
 * filter, or a node that is left out, makes it more than that. */
static uint64_t next_limit(uint64_t limit, uint64_t found, uint64_t left) {
    uint64_t most =
        limit * LIMIT_GROWTH_MAX < request_limit_max ? limit * LIMIT_GROWTH_MAX : request_limit_max;
    uint64_t wanted = found && left < UINT64_MAX / limit ? (left + 1) * limit / found + 1 : most;
    return wanted < most ? wanted : most;
}

/* What is left of a query behind the cursor.  Begun at the upper bound of BETWEEN it is that bound
 * alone; DynamoDB Local takes no such cursor otherwise. */
static struct esp_query rest_of(const struct esp_schema *schema, const struct esp_query *q,
                                const struct esp_cursor *cursor) {
    struct esp_query rest = *q;
    int sk = q->index == ESP_PRIMARY ? schema->sk : schema->index[q->index].sk;
    if (cursor->set && q->op == ESP_BETWEEN && !q->reverse &&
        esp_value_cmp(&cursor->key.value[sk], &q->hi) == 0) {
        rest.op = ESP_EQ;
        rest.lo = q->hi;
    }
    return rest;
}

static enum esp_status run_query(struct esp_page_run *run, const struct esp_query *q,
                                 struct tap *tap, struct esp_cursor *cursor) {
    struct esp_access *a = run->access;
    struct esp_query page = rest_of(&a->layout->schema, q, cursor);
    bool more = true;
    enum esp_status status = ESP_OK;
    /* One more than fits: it says whether another page follows. */
    page.limit = run->left < request_limit_max ? run->left + 1 : request_limit_max;
    while (status == ESP_OK && more) {
        uint64_t before = run->passed;
        run->querying = true;
        status = esp_session_query_page(a->session, &page, cursor, &more, tap_add, tap, a->err);
        run->querying = false;
        if (status == ESP_STOP && run->full) {
            return stop_page(run, run->group, NULL, &tap->last.key);
        }
        if (status == ESP_OK && more && run->left == 0) {
            return stop_page(run, run->group, NULL, &cursor->key);
        }
        page.limit = next_limit(page.limit, run->passed - before, run->left);
    }
    return status;
}

/* The page that fn(ctx) belongs to; NULL: the whole answer is wanted. */
static struct esp_page_run *page_of(const struct esp_access *a, esp_node_fn *fn, const void *ctx) {
    struct esp_page_run *run = a->paging ? a->paging->run : NULL;
    return fn == page_node && ctx == run ? run : NULL;
}

static enum esp_status page_query(struct esp_page_run *run, const struct esp_query *q,
                                  esp_item_fn *add, void *sink, bool *earlier) {
    struct esp_cursor cursor = {.set = false};
    bool had = false;
    enum esp_status status = run->full ? ESP_STOP : end_loose(run);
    if (status != ESP_OK) {
        return status;
    }
    run->group++;
    had = run->group < run->from;
    if (run->group == run->from && run->has_key) {
        had = true;
        status = set_cursor(run, q, &cursor);
    }
    if (status == ESP_OK && run->group >= run->from) {
        struct tap tap = {.run = run, .index = q->index, .add = add, .sink = sink};
        status =
            run->left ? run_query(run, q, &tap, &cursor) : stop_page(run, run->group, NULL, NULL);
    }
    run->group++;
    if (earlier) {
        *earlier = had;
    }
    return status;
}

enum esp_status esp_paging_query(struct esp_access *a, const struct esp_query *q, esp_item_fn *add,
                                 void *sink, esp_node_fn *fn, void *ctx, bool *earlier) {
    struct esp_page_run *run = page_of(a, fn, ctx);
    if (run) {
        return page_query(run, q, add, sink, earlier);
    }
    if (earlier) {
        *earlier = false;
    }
    return esp_session_query(a->session, q, add, sink, a->err);
}

/* Keys count as the nodes that they become when the query has ended. */
struct key_count {
    struct esp_page_run *run;
    const struct esp_page_keys *keys;
};

static enum esp_status count_key(void *ctx, const struct esp_item *item) {
    struct key_count *count = ctx;
    struct esp_page_run *run = count->run;
    uint32_t before = *count->keys->kept;
    if (run->left == 0) {
        run->full = true;
        return ESP_STOP;
    }
    enum esp_status status = count->keys->add(count->keys->sink, item);
    run->left -= *count->keys->kept - before;
    run->passed += *count->keys->kept - before;
    return status;
}

enum esp_status esp_paging_query_keys(struct esp_access *a, const struct esp_query *q,
                                      const struct esp_page_keys *keys, esp_node_fn *fn, void *ctx,
                                      bool *earlier) {
    struct esp_page_run *run = page_of(a, fn, ctx);
    struct key_count count = {run, keys};
    if (!run) {
        enum esp_status status = esp_paging_query(a, q, keys->add, keys->sink, fn, ctx, earlier);
        return status == ESP_OK ? keys->pass(keys->sink, fn, ctx) : status;
    }
    enum esp_status status = page_query(run, q, count_key, &count, earlier);
    if (status == ESP_OK || (status == ESP_STOP && run->full)) {
        enum esp_status passed = keys->pass(keys->sink, run->fn, run->ctx);
        status = passed == ESP_OK ? status : passed;
    }
    return status;
}

/* --- pages ------------------------------------------------------------------------ */

enum esp_status esp_paging_operate(struct esp_access *a, enum esp_op op, esp_op_fn *plan,
                                   const struct esp_args *args, esp_node_fn *fn, void *ctx) {
    struct esp_paging *paging = a->paging;
    struct esp_page_run run = {
        .access = a, .fn = fn, .ctx = ctx, .op = op, .left = paging->limit, .after = {NULL, 0}};
    paging->next = (struct esp_str){NULL, 0};
    if (paging->limit == 0) {
        return esp_fail(a->err, ESP_ERR_USAGE, "a page has room for one node at least");
    }
    make_digest(&run, args);
    enum esp_status status = paging->start.len ? read_start(&run, paging->start) : ESP_OK;
    if (status != ESP_OK) {
        return status;
    }
    esp_arena_init(&run.arena, a->session->table->store->alloc, SIZE_MAX);
    run.loose.arena = &run.arena;
    paging->run = &run;
    status = plan(a, args, page_node, &run);
    if (status == ESP_OK && !run.full) {
        status = end_loose(&run);
    }
    if (status == ESP_OK && !run.full && run.has_key && run.group < run.from) {
        status = changed(a); /* the plan has fewer queries than it had */
    }
    paging->run = NULL;
    esp_arena_fini(&run.arena);
    if (run.full && (status == ESP_STOP || status == ESP_OK)) {
        return ESP_OK;
    }
    paging->next = (struct esp_str){NULL, 0};
    return status;
}
