/*
 * The embedded store against a real engine, request by request: the same seeded requests go to
 * both; outcome, items and capacity units must be the same.  What an engine is known to do
 * differently from DynamoDB stands in deviations.def with its reason; nothing else may differ,
 * and a listed deviation that is no longer seen fails the test as well.
 *
 *   differential_test ENGINE [SEED [REQUESTS]]
 */
#include "stores/store.h"
#include "tests/endpoint/engine_process.h"
#include "tests/endpoint/requests.h"

#include <stdio.h>
#include <stdlib.h>

enum deviation {
#define ESP_DEVIATION(engine, NAME, reason) DEVIATION_##NAME,
#include "tests/endpoint/deviations.def"
#undef ESP_DEVIATION
    DEVIATION_COUNT
};

static const struct {
    const char *engine, *name;
} deviations[DEVIATION_COUNT + 1] = {
#define ESP_DEVIATION(engine, NAME, reason) {engine, #NAME},
#include "tests/endpoint/deviations.def"
#undef ESP_DEVIATION
};

static size_t seen[DEVIATION_COUNT + 1];
static const char *engine_name;
static uint64_t first_seed = 1, request_total = 6000;

/* True when this engine is known to do `name`; counts it as seen. */
static bool deviates(const char *name) {
    for (int i = 0; i < DEVIATION_COUNT; i++) {
        if (strcmp(deviations[i].name, name) == 0 &&
            strcmp(deviations[i].engine, engine_name) == 0) {
            seen[i]++;
            return true;
        }
    }
    return false;
}

/* One side: a store, its table, and what the last request gave. */
struct side {
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_arena arena; /* of the last request and its items */
    struct esp_item *items;
    size_t count, cap;
    struct esp_usage usage; /* of the last request */
    struct test_request request;
};

static enum esp_status keep_item(void *ctx, const struct esp_item *item) {
    struct side *side = ctx;
    if (side->count == side->cap) {
        size_t cap = side->cap ? side->cap * 2 : 64;
        side->items = realloc(side->items, cap * sizeof *side->items);
        assert_non_null(side->items);
        side->cap = cap;
    }
    return esp_item_dup(&side->table->schema, &side->arena, item, &side->items[side->count++]);
}

static void open_side(struct side *side, const char *url, const struct esp_store_config *config,
                      const char *table, const struct esp_schema *schema) {
    struct esp_error err = ESP_ERROR_INIT;
    memset(side, 0, sizeof *side);
    esp_arena_init(&side->arena, &esp_alloc_libc, SIZE_MAX);
    assert_ok(esp_store_open(url, config, &esp_clock_system, &esp_alloc_libc, &side->store, &err),
              &err);
    assert_ok(side->store->ops->create_table(side->store, table, schema,
                                             &(struct esp_table_options){0}, &err),
              &err);
    assert_ok(esp_table_open(side->store, table, schema, &side->table, &err), &err);
    assert_ok(esp_session_open(side->table, &side->session, &err), &err);
}

static void close_side(struct side *side) {
    struct esp_error err = ESP_ERROR_INIT;
    esp_session_close(side->session);
    assert_ok(side->store->ops->drop_table(side->store, side->table->name, &err), &err);
    esp_table_close(side->table);
    esp_store_close(side->store);
    esp_arena_fini(&side->arena);
    free(side->items);
}

static void run_request(struct side *side, uint64_t seed) {
    struct esp_error err = ESP_ERROR_INIT;
    esp_arena_reset(&side->arena);
    side->count = 0;
    test_request_make(&side->table->schema, seed, &side->arena, &side->request);
    struct esp_request *request = &side->request.request;
    request->fn = keep_item;
    request->ctx = side;
    memset(&side->session->usage, 0, sizeof side->session->usage);
    assert_ok(side->session->table->store->ops->execute(side->session, request, 1, &err), &err);
    side->usage = side->session->usage;
}

static const struct esp_schema *order_schema;
static int by_primary_key(const void *a, const void *b) {
    const struct esp_item *x = a, *y = b;
    int order = esp_value_cmp(&x->value[order_schema->pk], &y->value[order_schema->pk]);
    return order || order_schema->sk < 0
               ? order
               : esp_value_cmp(&x->value[order_schema->sk], &y->value[order_schema->sk]);
}

/* Items of a query come in sort-key order; ties of an index in any order. */
static bool in_query_order(const struct side *side) {
    const struct esp_query *query = side->request.request.query;
    const struct esp_schema *schema = &side->table->schema;
    int sk = query->index == ESP_PRIMARY ? schema->sk : schema->index[query->index].sk;
    for (size_t i = 1; sk >= 0 && i < side->count; i++) {
        int order = esp_value_cmp(&side->items[i - 1].value[sk], &side->items[i].value[sk]);
        if (query->reverse ? order < 0 : order > 0) {
            return false;
        }
    }
    return true;
}

static void describe(const struct side *side, const char *what, uint64_t seed) {
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, 1 << 24);
    for (size_t i = 0; i < side->count && i < 8; i++) {
        ESP_BUF_LIT(&text, "\n  {");
        esp_item_put_json(&text, &side->table->schema, &side->items[i]);
        esp_buf_put_char(&text, '}');
    }
    const struct esp_request *request = &side->request.request;
    bool writes = request->kind == ESP_REQ_WRITE || request->kind == ESP_REQ_TRANSACT;
    for (size_t i = 0; writes && i < request->write.n; i++) {
        esp_buf_printf(&text, "\n  write %d {", request->write.w[i].kind);
        esp_item_put_json(&text, &side->table->schema, &request->write.w[i].item);
        esp_buf_put_char(&text, '}');
    }
    print_message("%s %s: seed %llu %s: %s (%s), %zu items, more %d%s\n", side->store->ops->name,
                  what, (unsigned long long)seed, side->request.text,
                  esp_status_name(side->request.request.status),
                  side->request.request.error.message, side->count, side->request.request.more,
                  text.len ? esp_buf_cstr(&text) : "");
    esp_buf_fini(&text);
}

static void differ(const struct side *local, const struct side *engine, const char *what,
                   uint64_t seed) {
    describe(local, what, seed);
    describe(engine, what, seed);
    fail_msg("%s differ for seed %llu", what, (unsigned long long)seed);
}

/* False when a known deviation makes the rest of the comparison pointless. */
static bool compare_items(struct side *local, struct side *engine, uint64_t seed) {
    const struct esp_schema *schema = &local->table->schema;
    bool query = local->request.request.kind == ESP_REQ_QUERY;
    const char *known = test_request_item_deviation(&local->request);
    if (known && local->count != engine->count && deviates(known)) {
        return false;
    }
    if (local->count != engine->count ||
        (query && (!in_query_order(local) || !in_query_order(engine)))) {
        differ(local, engine, "items", seed);
    }
    if (local->count && !(query && local->request.request.query->index == ESP_PRIMARY)) {
        order_schema = schema;
        qsort(local->items, local->count, sizeof *local->items, by_primary_key);
        qsort(engine->items, engine->count, sizeof *engine->items, by_primary_key);
    }
    for (size_t i = 0; i < local->count; i++) {
        if (!esp_item_equal(schema, &local->items[i], &engine->items[i])) {
            differ(local, engine, "items", seed);
        }
    }
    return true;
}

static bool same_units(const struct esp_units *a, const struct esp_units *b) {
    bool same = a->table == b->table;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        same = same && a->index[i] == b->index[i];
    }
    return same;
}

static void print_units(const char *name, const struct esp_units *u) {
    print_message("  %s: table %g, indexes %g %g %g %g\n", name, u->table, u->index[0], u->index[1],
                  u->index[2], u->index[3]);
}

static void compare_units(const struct side *local, const struct side *engine, uint64_t seed) {
    const struct esp_usage *ours = &local->usage, *theirs = &engine->usage;
    if (local->request.request.status != ESP_OK) {
        return; /* refused requests report no capacity */
    }
    if (!same_units(&ours->read, &theirs->billed_read) ||
        !same_units(&ours->write, &theirs->billed_write)) {
        const char *known = test_request_unit_deviation(&local->request, ours, theirs);
        if (known && deviates(known)) {
            return;
        }
        print_units("local read", &ours->read);
        print_units("engine read", &theirs->billed_read);
        print_units("local write", &ours->write);
        print_units("engine write", &theirs->billed_write);
        print_message("known deviation it may be: %s\n", known ? known : "none");
        differ(local, engine, "units", seed);
    }
    /* The meter of the HTTP store, from what it sees on the wire, agrees with the embedded one. */
    if ((!theirs->read_estimated && !same_units(&ours->read, &theirs->read)) ||
        (!theirs->write_estimated && !same_units(&ours->write, &theirs->write))) {
        print_units("local read", &ours->read);
        print_units("client read", &theirs->read);
        print_units("local write", &ours->write);
        print_units("client write", &theirs->write);
        differ(local, engine, "metered units", seed);
    }
}

static void compare_shape(const char *url, int shape, uint64_t seed, uint64_t requests) {
    struct esp_store_config config = {.no_sync = true, .seed = seed};
    struct esp_schema schema;
    struct side local, engine;
    char table[64];
    snprintf(table, sizeof table, "differential-%d-%llu", shape, (unsigned long long)seed);
    test_schema_make(shape, &schema);
    open_side(&local, "local:", &config, table, &schema);
    open_side(&engine, url, &config, table, &schema);
    for (uint64_t i = 0; i < requests; i++) {
        uint64_t request_seed = seed * 1000003 + i;
        run_request(&local, request_seed);
        run_request(&engine, request_seed);
        struct esp_request *ours = &local.request.request, *theirs = &engine.request.request;
        if (ours->status != theirs->status || ours->more != theirs->more ||
            (ours->status == ESP_OK && ours->undone != theirs->undone)) {
            const char *known = test_request_outcome_deviation(&local.request, &engine.request);
            if (!known || !deviates(known)) {
                differ(&local, &engine, "outcomes", request_seed);
            }
            continue;
        }
        if (compare_items(&local, &engine, request_seed)) {
            compare_units(&local, &engine, request_seed);
        }
    }
    close_side(&local);
    close_side(&engine);
}

static void requests_agree(void **state) {
    (void)state;
    struct esp_test_engine engine;
    assert_true(esp_test_engine_start(&engine, engine_name));
    for (int shape = 0; shape < TEST_SHAPE_COUNT; shape++) {
        compare_shape(engine.url, shape, first_seed + (uint64_t)shape,
                      request_total / TEST_SHAPE_COUNT);
    }
    esp_test_engine_stop(&engine);
    for (int i = 0; i < DEVIATION_COUNT; i++) {
        if (strcmp(deviations[i].engine, engine_name) == 0 && !seen[i] && first_seed == 1) {
            fail_msg("%s no longer deviates by %s: take it off deviations.def", engine_name,
                     deviations[i].name);
        }
    }
}

int main(int argc, char **argv) {
    engine_name = argc > 1 ? argv[1] : "dynoxide";
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    request_total = argc > 3 ? strtoull(argv[3], NULL, 10) : request_total;
    if (!esp_test_engine_available(engine_name)) {
        return 77; /* ctest: skipped */
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(requests_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
