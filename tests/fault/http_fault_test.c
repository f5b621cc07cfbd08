/*
 * The DynamoDB store against an endpoint that throttles, breaks connections, loses answers
 * and leaves parts undone: nothing may be lost, nothing counted twice, no retry may go on
 * for ever.  Waits cost no time: the clock of these tests jumps.
 */
#include "core/rng.h"
#include "stores/store.h"
#include "tests/support/alloc.h"
#include "tests/support/fake_endpoint.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIELD_ID, FIELD_PARENT, BULK_SCENARIOS = 120, SINGLE_SCENARIOS = 60 };

#define SECOND_NS UINT64_C(1000000000)

/* --- a clock that jumps -------------------------------------------------------------- */

struct jumping {
    _Atomic uint64_t slept_ns; /* scripts of the endpoint look at it */
    int64_t wall_off_ns;
};

static uint64_t jumping_now(void *ctx) {
    const struct jumping *j = ctx;
    return esp_now_ns(&esp_clock_system) + j->slept_ns;
}

static uint64_t jumping_wall(void *ctx) {
    const struct jumping *j = ctx;
    return esp_wall_ns(&esp_clock_system) + (uint64_t)j->wall_off_ns;
}

static void jumping_sleep(void *ctx, uint64_t ns) {
    ((struct jumping *)ctx)->slept_ns += ns;
}

/* --- what every test needs ------------------------------------------------------------- */

struct bench {
    struct jumping jumping;
    struct esp_clock clock;
    struct esp_store_config config;
    struct esp_fake *fake;
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_schema schema;
    struct esp_error err;
    uint64_t refused_seen;
};

static void on_refused(void *ctx, const struct esp_item *item, const struct esp_error *why) {
    struct bench *b = ctx;
    assert_int_equal(item->value[FIELD_ID].type, ESP_TYPE_S);
    assert_non_null(strstr(why->message, "ValidationException"));
    b->refused_seen++;
}

static void bench_connect(struct bench *b) {
    assert_ok(esp_store_open(esp_fake_url(b->fake), &b->config, &b->clock, &esp_alloc_libc,
                             &b->store, &b->err),
              &b->err);
    assert_ok(esp_table_open(b->store, "tree", &b->schema, &b->table, &b->err), &b->err);
    assert_ok(esp_session_open(b->table, &b->session, &b->err), &b->err);
    b->session->on_refused = on_refused;
    b->session->on_refused_ctx = b;
}

static void bench_open(struct bench *b, esp_fake_script_fn *script, void *ctx) {
    memset(b, 0, sizeof *b);
    b->clock = (struct esp_clock){jumping_now, jumping_wall, jumping_sleep, &b->jumping};
    b->config = (struct esp_store_config){.connections = 4, .timeout_ms = 20000};
    b->schema =
        (struct esp_schema){.attr = {{ESP_STR("ID"), ESP_TYPE_S}, {ESP_STR("Parent"), ESP_TYPE_S}},
                            .attr_count = 2,
                            .pk = FIELD_ID,
                            .sk = -1,
                            .index = {{.name = ESP_STR("by-parent"), .pk = FIELD_PARENT, .sk = -1}},
                            .index_count = 1};
    b->fake = esp_fake_start(NULL, NULL);
    esp_fake_add_table(b->fake, "tree", "ID", NULL, "Parent");
    bench_connect(b);
    esp_fake_set_script(b->fake, script, ctx);
}

/* Store, table and session once more, by the configuration as it is now. */
static void bench_reopen(struct bench *b) {
    esp_session_close(b->session);
    esp_table_close(b->table);
    esp_store_close(b->store);
    bench_connect(b);
}

static void bench_close(struct bench *b) {
    esp_session_close(b->session);
    esp_table_close(b->table);
    esp_store_close(b->store);
    esp_fake_stop(b->fake);
}

/* An item id with a number; `poisoned` makes the fake refuse it. */
static struct esp_item make_item(struct esp_arena *arena, unsigned id, unsigned number,
                                 bool poisoned) {
    struct esp_item item;
    memset(&item, 0, sizeof item);
    item.value[FIELD_ID] = esp_s(esp_arena_fmt(arena, "n%u", id));
    item.value[FIELD_PARENT] = esp_s(ESP_STR("p"));
    struct esp_str data = esp_arena_fmt(arena, "\"num\":{\"N\":\"%u\"}%s", number,
                                        poisoned ? ",\"" ESP_FAKE_POISON "\":{\"S\":\"x\"}" : "");
    item.data = (struct esp_data){data.ptr, (uint32_t)data.len, 3 + 4};
    return item;
}

/* The number of item `id` in the fake, or -1. */
static long stored_number(struct bench *b, unsigned id) {
    char key[32];
    snprintf(key, sizeof key, "n%u", id);
    char *text = esp_fake_item(b->fake, "tree", key);
    const char *at = text ? strstr(text, "\"num\":{\"N\":\"") : NULL;
    long number = at ? strtol(at + 12, NULL, 10) : -1;
    free(text);
    return number;
}

/* --- random faults ------------------------------------------------------------------------ */

struct chaos {
    struct esp_rng rng;
    unsigned percent; /* of requests that meet a fault */
    unsigned in_a_row, in_a_row_max;
    bool conflicts;
};

static struct esp_fake_action chaotic(void *ctx, const struct esp_fake_request *r) {
    static const struct esp_fake_action faults[] = {
        {.fault = ESP_FAKE_ERROR_BEFORE,
         .status = 400,
         .error_name = "ProvisionedThroughputExceededException"},
        {.fault = ESP_FAKE_ERROR_BEFORE,
         .status = 400,
         .error_name = "ThrottlingException",
         .retry_after_ms = 30},
        {.fault = ESP_FAKE_ERROR_BEFORE, .status = 500, .error_name = "InternalServerError"},
        {.fault = ESP_FAKE_ERROR_AFTER, .status = 500, .error_name = "InternalServerError"},
        {.fault = ESP_FAKE_ERROR_BEFORE, .status = 503},
        {.fault = ESP_FAKE_DROP_BEFORE},
        {.fault = ESP_FAKE_DROP_AFTER},
        {.fault = ESP_FAKE_TRUNCATE},
        {.fault = ESP_FAKE_WRONG_CRC},
        {.fault = ESP_FAKE_GARBAGE},
        {.fault = ESP_FAKE_UNPROCESSED, .keep = 1},
        {.fault = ESP_FAKE_UNPROCESSED, .keep = 24},
        {.fault = ESP_FAKE_UNPROCESSED, .keep = 25},
        {.fault = ESP_FAKE_CONFLICT},
        {.fault = ESP_FAKE_NONE, .chunked = true},
        {.fault = ESP_FAKE_NONE, .chunked = true, .no_crc = true},
        {.fault = ESP_FAKE_NONE, .no_date = true, .delay_ms = 2},
    };
    struct chaos *c = ctx;
    (void)r;
    if (c->in_a_row >= c->in_a_row_max || esp_rng_below(&c->rng, 100) >= c->percent) {
        c->in_a_row = 0;
        return (struct esp_fake_action){.fault = ESP_FAKE_NONE};
    }
    c->in_a_row++;
    return faults[esp_rng_below(&c->rng, sizeof faults / sizeof *faults)];
}

/* --- bulk loads --------------------------------------------------------------------------- */

static void bulk_scenario(unsigned seed) {
    struct chaos chaos = {.percent = seed % 60, .in_a_row_max = 6};
    struct bench b;
    struct esp_arena arena;
    struct esp_rng rng;
    esp_rng_init(&chaos.rng, seed, 1);
    esp_rng_init(&rng, seed, 2);
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, chaotic, &chaos);
    unsigned count = 1 + (unsigned)esp_rng_below(&rng, 400);
    unsigned ids = seed % 3 ? count : count / 4 + 1; /* the same keys again and again */
    long *expected = malloc(ids * sizeof *expected);
    uint64_t poisoned_count = 0;
    for (unsigned i = 0; i < ids; i++) {
        expected[i] = -1;
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned id = seed % 3 ? i : (unsigned)esp_rng_below(&rng, ids);
        bool poisoned = seed % 4 == 0 && esp_rng_below(&rng, 30) == 0;
        struct esp_item item = make_item(&arena, id, i, poisoned);
        assert_ok(esp_session_bulk_put(b.session, &item, &b.err), &b.err);
        poisoned_count += poisoned;
        expected[id] = poisoned ? expected[id] : (long)i;
    }
    assert_ok(esp_session_bulk_flush(b.session, &b.err), &b.err);
    const struct esp_bulk_counts *bulk = &b.session->bulk;
    assert_int_equal(bulk->planned, count);
    assert_int_equal(bulk->refused, poisoned_count);
    assert_int_equal(b.refused_seen, poisoned_count);
    assert_int_equal(bulk->left, 0);
    assert_int_equal(bulk->written, count - poisoned_count);
    assert_int_equal(b.session->usage.items_written, bulk->written);
    assert_true(esp_units_total(&b.session->usage.write) == 2.0 * (double)bulk->written);
    for (unsigned i = 0; i < ids; i++) {
        assert_int_equal(stored_number(&b, i), expected[i]);
    }
    free(expected);
    bench_close(&b);
    esp_arena_fini(&arena);
}

static void test_bulk_loads_lose_nothing(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < BULK_SCENARIOS; seed++) {
        bulk_scenario(seed);
    }
}

static struct esp_fake_action always(void *ctx, const struct esp_fake_request *r) {
    (void)r;
    return *(const struct esp_fake_action *)ctx;
}

/* Nothing ever succeeds: it ends, says why, and every item is accounted for. */
static void hopeless(struct esp_fake_action action, enum esp_status expected, const char *word) {
    struct bench b;
    struct esp_arena arena;
    enum esp_status status = ESP_OK;
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, always, &action);
    uint64_t before = esp_fake_requests(b.fake);
    for (unsigned i = 0; i < 150; i++) {
        struct esp_item item = make_item(&arena, i, i, false);
        enum esp_status s = esp_session_bulk_put(b.session, &item, &b.err);
        status = status == ESP_OK ? s : status;
    }
    enum esp_status flushed = esp_session_bulk_flush(b.session, &b.err);
    status = status == ESP_OK ? flushed : status;
    assert_string_equal(esp_status_name(status), esp_status_name(expected));
    if (!strstr(b.err.message, word)) {
        fail_msg("no \"%s\" in: %s", word, b.err.message);
    }
    assert_int_equal(b.session->bulk.planned, 150);
    assert_int_equal(b.session->bulk.left + b.session->bulk.written, 150);
    assert_int_equal(b.session->bulk.refused, 0);
    assert_true(esp_fake_requests(b.fake) - before < 400);
    assert_true(esp_fake_requests(b.fake) - before <= b.session->usage.requests);
    bench_close(&b);
    esp_arena_fini(&arena);
}

static void test_hopeless_loads_end(void **state) {
    (void)state;
    hopeless((struct esp_fake_action){.fault = ESP_FAKE_ERROR_BEFORE,
                                      .status = 400,
                                      .error_name = "ProvisionedThroughputExceededException"},
             ESP_ERR_THROTTLED, "ProvisionedThroughputExceededException");
    hopeless((struct esp_fake_action){.fault = ESP_FAKE_UNPROCESSED, .keep = 25}, ESP_ERR_THROTTLED,
             "unprocessed");
    hopeless((struct esp_fake_action){.fault = ESP_FAKE_ERROR_BEFORE,
                                      .status = 500,
                                      .error_name = "InternalServerError"},
             ESP_ERR_UNAVAILABLE, "InternalServerError");
    hopeless((struct esp_fake_action){.fault = ESP_FAKE_WRONG_CRC}, ESP_ERR_UNAVAILABLE,
             "checksum");
    hopeless((struct esp_fake_action){.fault = ESP_FAKE_DROP_AFTER}, ESP_ERR_UNAVAILABLE,
             "BatchWriteItem");
    hopeless((struct esp_fake_action){.fault = ESP_FAKE_ERROR_BEFORE,
                                      .status = 400,
                                      .error_name = "UnrecognizedClientException"},
             ESP_ERR_CREDENTIALS, "UnrecognizedClientException");
    hopeless((struct esp_fake_action){.fault = ESP_FAKE_ERROR_BEFORE,
                                      .status = 400,
                                      .error_name = "ResourceNotFoundException"},
             ESP_ERR_NOT_FOUND, "ResourceNotFoundException");
}

/* All is throttled until a moment of the jumping clock. */
struct throttling {
    struct jumping *jumping;
    uint64_t until_ns;
};

static struct esp_fake_action throttled_for_a_while(void *ctx, const struct esp_fake_request *r) {
    const struct throttling *t = ctx;
    (void)r;
    return jumping_now(t->jumping) < t->until_ns
               ? (struct esp_fake_action){.fault = ESP_FAKE_ERROR_BEFORE,
                                          .status = 400,
                                          .error_name = "ThrottlingException"}
               : (struct esp_fake_action){.fault = ESP_FAKE_NONE};
}

static void throttled_load(uint64_t timeout_s) {
    enum { CONNECTIONS = 200, BATCHES = 300 };
    struct bench b;
    struct esp_arena arena;
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, NULL, NULL);
    b.config.connections = CONNECTIONS;
    b.config.batch = 1;
    b.config.timeout_ms = timeout_s * 1000;
    bench_reopen(&b);
    uint64_t begun_ns = jumping_now(&b.jumping);
    struct throttling throttling = {&b.jumping, begun_ns + 5 * SECOND_NS};
    esp_fake_set_script(b.fake, throttled_for_a_while, &throttling);
    for (unsigned i = 0; i < BATCHES; i++) {
        struct esp_item item = make_item(&arena, i, i, false);
        assert_ok(esp_session_bulk_put(b.session, &item, &b.err), &b.err);
    }
    assert_ok(esp_session_bulk_flush(b.session, &b.err), &b.err);
    assert_int_equal(b.session->bulk.written, BATCHES);
    assert_true(b.session->usage.throttled >= CONNECTIONS);
    assert_true(jumping_now(&b.jumping) - begun_ns < timeout_s * SECOND_NS);
    bench_close(&b);
    esp_arena_fini(&arena);
}

static void test_throttling_of_many_is_outlived(void **state) {
    (void)state;
    throttled_load(60);
    throttled_load(20);
}

static void test_stop_is_seen(void **state) {
    (void)state;
    struct esp_fake_action action = {
        .fault = ESP_FAKE_ERROR_BEFORE, .status = 400, .error_name = "ThrottlingException"};
    struct bench b;
    struct esp_arena arena;
    int stop = 0;
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, always, &action);
    b.session->stop = &stop;
    struct esp_item item = make_item(&arena, 1, 1, false);
    assert_ok(esp_session_bulk_put(b.session, &item, &b.err), &b.err);
    stop = 1;
    assert_status(ESP_ERR_CANCELLED, esp_session_bulk_flush(b.session, &b.err));
    assert_int_equal(b.session->bulk.left, 1);
    bench_close(&b);
    esp_arena_fini(&arena);
}

/* --- single requests ------------------------------------------------------------------------ */

static enum esp_status run_one(struct bench *b, struct esp_write *w) {
    struct esp_request r = {.kind = ESP_REQ_WRITE, .write = {w, 1}};
    esp_error_clear(&b->err);
    enum esp_status status = b->store->ops->execute(b->session, &r, 1, &b->err);
    b->err = r.error;
    return status == ESP_OK ? r.status : status;
}

static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    (void)item;
    ++*(unsigned *)ctx;
    return ESP_OK;
}

static const struct esp_condition is_new = {.name = {"ID", 2}, .op = ESP_NOT_EXISTS};

static void single_scenario(unsigned seed) {
    struct chaos chaos = {.percent = 20 + seed % 50, .in_a_row_max = 3};
    struct bench b;
    struct esp_arena arena;
    esp_rng_init(&chaos.rng, seed, 3);
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, chaotic, &chaos);
    struct esp_change add = {ESP_CHANGE_ADD, ESP_STR("num"), esp_n(5)};
    for (unsigned id = 0; id < 12; id++) {
        struct esp_item item = make_item(&arena, id, 7, false);
        struct esp_write w = {
            .kind = ESP_PUT, .item = item, .condition = &is_new, .condition_count = 1};
        assert_ok(run_one(&b, &w), &b.err); /* also when the first answer was lost */
        assert_int_equal(stored_number(&b, id), 7);
        struct esp_write again = {.kind = ESP_PUT,
                                  .item = make_item(&arena, id, 8, false),
                                  .condition = &is_new,
                                  .condition_count = 1};
        assert_status(ESP_ERR_CONDITION, run_one(&b, &again));
        assert_int_equal(stored_number(&b, id), 7);
        struct esp_write sum = {
            .kind = ESP_UPDATE, .item = item, .changes = &add, .change_count = 1};
        enum esp_status status = run_one(&b, &sum);
        long number = stored_number(&b, id);
        if (status == ESP_OK) {
            assert_int_equal(number, 12);
        } else { /* the answer was lost: once or not at all, and it says so */
            assert_int_equal(status, ESP_ERR_UNAVAILABLE);
            assert_non_null(strstr(b.err.message, "not known"));
            assert_true(number == 7 || number == 12);
        }
        esp_error_clear(&b.err);
        assert_ok(esp_session_transact(b.session, &sum, 1, &b.err), &b.err);
        assert_int_equal(stored_number(&b, id), number + 5);
    }
    struct esp_item keys[40];
    unsigned found = 0;
    for (unsigned i = 0; i < 40; i++) {
        keys[i] = make_item(&arena, i, 0, false);
    }
    assert_ok(esp_session_get(b.session, keys, 40, true, count_item, &found, &b.err), &b.err);
    assert_int_equal(found, 12);
    struct esp_query query = {.index = 0, .pk = esp_s(ESP_STR("p")), .limit = 5};
    found = 0;
    assert_ok(esp_session_query(b.session, &query, count_item, &found, &b.err), &b.err);
    assert_int_equal(found, 12);
    for (unsigned i = 0; i < 12; i++) {
        static const struct esp_condition exists = {.name = {"ID", 2}, .op = ESP_EXISTS};
        struct esp_write del = {.kind = ESP_DELETE,
                                .item = make_item(&arena, i, 0, false),
                                .condition = &exists,
                                .condition_count = 1};
        assert_ok(run_one(&b, &del), &b.err);
    }
    assert_int_equal(esp_fake_item_count(b.fake, "tree"), 0);
    bench_close(&b);
    esp_arena_fini(&arena);
}

static void test_single_writes_happen_once(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < SINGLE_SCENARIOS; seed++) {
        single_scenario(seed);
    }
}

/* The first answer is lost, then all goes well. */
static struct esp_fake_action first_lost(void *ctx, const struct esp_fake_request *r) {
    unsigned *seen = ctx;
    (void)r;
    return (struct esp_fake_action){.fault = (*seen)++ == 0 ? ESP_FAKE_DROP_AFTER : ESP_FAKE_NONE};
}

static void test_lost_insert_of_another_item_stays_refused(void **state) {
    (void)state;
    struct bench b;
    struct esp_arena arena;
    unsigned seen = 0;
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, NULL, NULL);
    struct esp_write w = {.kind = ESP_PUT,
                          .item = make_item(&arena, 1, 1, false),
                          .condition = &is_new,
                          .condition_count = 1};
    assert_ok(run_one(&b, &w), &b.err);
    esp_fake_set_script(b.fake, first_lost, &seen);
    w.item = make_item(&arena, 1, 2, false); /* another one was there before */
    assert_status(ESP_ERR_CONDITION, run_one(&b, &w));
    assert_int_equal(stored_number(&b, 1), 1);
    seen = 0;
    w.item = make_item(&arena, 2, 2, false); /* this one is its own */
    uint64_t written = b.session->usage.items_written;
    assert_ok(run_one(&b, &w), &b.err);
    assert_int_equal(b.session->usage.items_written, written + 1);
    assert_true(b.session->usage.write_estimated);
    bench_close(&b);
    esp_arena_fini(&arena);
}

/* The only connection is the one whose batch is being filled. */
static void test_request_between_puts_and_flush(void **state) {
    (void)state;
    struct bench b;
    struct esp_arena arena;
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, NULL, NULL);
    b.config.connections = 1;
    bench_reopen(&b);
    struct esp_item item = make_item(&arena, 1, 1, false);
    assert_ok(esp_session_bulk_put(b.session, &item, &b.err), &b.err);
    struct esp_write w = {.kind = ESP_PUT, .item = make_item(&arena, 2, 2, false)};
    assert_ok(run_one(&b, &w), &b.err);
    assert_int_equal(stored_number(&b, 1), 1);
    assert_ok(esp_session_bulk_flush(b.session, &b.err), &b.err);
    assert_int_equal(b.session->bulk.written, 1);
    assert_int_equal(stored_number(&b, 2), 2);
    bench_close(&b);
    esp_arena_fini(&arena);
}

static void test_clock_is_corrected_once(void **state) {
    (void)state;
    struct bench b;
    struct esp_arena arena;
    struct esp_fake_action skewed = {.fault = ESP_FAKE_NONE, .skew_s = 3600};
    struct esp_fake_action dateless = {.fault = ESP_FAKE_NONE, .skew_s = -9000, .no_date = true};
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, always, &skewed);
    struct esp_write w = {.kind = ESP_PUT, .item = make_item(&arena, 1, 1, false)};
    assert_ok(run_one(&b, &w), &b.err);
    assert_int_equal(b.session->usage.requests, 2);
    assert_ok(run_one(&b, &w), &b.err); /* remembered */
    assert_int_equal(b.session->usage.requests, 3);
    esp_fake_set_script(b.fake, always, &dateless);
    assert_status(ESP_ERR_CREDENTIALS, run_one(&b, &w));
    assert_non_null(strstr(b.err.message, "Signature expired"));
    bench_close(&b);
    esp_arena_fini(&arena);
}

/* Several puts at once, each of which meets the same trouble. */
static void put_several(struct bench *b, struct esp_arena *arena) {
    struct esp_write w[4];
    struct esp_request r[4];
    for (unsigned i = 0; i < 4; i++) {
        w[i] = (struct esp_write){.kind = ESP_PUT, .item = make_item(arena, i, i, false)};
        r[i] = (struct esp_request){.kind = ESP_REQ_WRITE, .write = {&w[i], 1}};
    }
    assert_ok(b->store->ops->execute(b->session, r, 4, &b->err), &b->err);
    for (unsigned i = 0; i < 4; i++) {
        assert_ok(r[i].status, &r[i].error);
        assert_int_equal(stored_number(b, i), i);
    }
}

static void test_clock_jumps_while_several_are_in_flight(void **state) {
    (void)state;
    struct bench b;
    struct esp_arena arena;
    struct esp_fake_action skewed = {.fault = ESP_FAKE_NONE, .skew_s = 3600};
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, always, &skewed);
    put_several(&b, &arena);
    assert_int_equal(b.session->usage.requests, 8); /* each of them once more */
    b.jumping.wall_off_ns = -INT64_C(7200) * (int64_t)SECOND_NS;
    put_several(&b, &arena);
    assert_int_equal(b.session->usage.requests, 16);
    bench_close(&b);
    esp_arena_fini(&arena);
}

static long file_bytes(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (long)status.st_size : -1;
}

/* What the first keys signed has expired; one of the answers that say so is late. */
static struct esp_fake_action first_keys_expired(void *ctx, const struct esp_fake_request *r) {
    unsigned *refused = ctx;
    if (!strstr(r->head, "Credential=K1/")) {
        return (struct esp_fake_action){.fault = ESP_FAKE_NONE};
    }
    return (struct esp_fake_action){.fault = ESP_FAKE_ERROR_BEFORE,
                                    .status = 400,
                                    .error_name = "ExpiredTokenException",
                                    .delay_ms = ++*refused == 4 ? 300 : 0};
}

static void test_credentials_are_renewed_once_for_several(void **state) {
    (void)state;
    static const char process[] = "echo x >> \"$0.count\"; n=$(wc -l < \"$0.count\" | tr -d ' ')\n"
                                  "echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"K$n\\\","
                                  "\\\"SecretAccessKey\\\":\\\"s\\\"}\"\n";
    struct bench b;
    struct esp_arena arena;
    char folder[256], path[300], config[400];
    unsigned refused = 0;
    esp_test_mkdir(folder);
    snprintf(path, sizeof path, "%s/keys.sh", folder);
    esp_test_write_file(path, process, sizeof process - 1);
    snprintf(config, sizeof config, "[default]\ncredential_process = /bin/sh %s\n", path);
    snprintf(path, sizeof path, "%s/config", folder);
    esp_test_write_file(path, config, strlen(config));
    unsetenv("AWS_ACCESS_KEY_ID");
    setenv("AWS_CONFIG_FILE", path, 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, first_keys_expired, &refused);
    put_several(&b, &arena);
    assert_int_equal(refused, 4);
    assert_int_equal(b.session->usage.requests, 8);
    snprintf(path, sizeof path, "%s/keys.sh.count", folder);
    assert_int_equal(file_bytes(path), 4); /* twice "x\n" */
    bench_close(&b);
    esp_arena_fini(&arena);
    unsetenv("AWS_CONFIG_FILE");
    unsetenv("AWS_SHARED_CREDENTIALS_FILE");
    esp_test_rmdir(folder);
}

static void test_nobody_there(void **state) {
    (void)state;
    struct jumping jumping = {0};
    struct esp_clock clock = {jumping_now, jumping_wall, jumping_sleep, &jumping};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    struct esp_arena arena;
    struct esp_table_info info;
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 20);
    assert_ok(esp_store_open("http://127.0.0.1:1", NULL, &clock, &esp_alloc_libc, &store, &err),
              &err);
    assert_status(ESP_ERR_UNAVAILABLE,
                  store->ops->describe_table(store, "tree", &arena, &info, &err));
    assert_true(jumping.slept_ns < 2 * SECOND_NS);
    esp_store_close(store);
    esp_arena_fini(&arena);
}

static void test_slow_answers_time_out(void **state) {
    (void)state;
    struct bench b;
    struct esp_arena arena;
    struct esp_fake_action slow = {.fault = ESP_FAKE_NONE, .delay_ms = 400};
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, NULL, NULL);
    b.config.timeout_ms = 300;
    bench_reopen(&b);
    esp_fake_set_script(b.fake, always, &slow);
    struct esp_write w = {.kind = ESP_PUT, .item = make_item(&arena, 1, 1, false)};
    assert_status(ESP_ERR_UNAVAILABLE, run_one(&b, &w));
    bench_close(&b);
    esp_arena_fini(&arena);
}

/* Memory runs out at every point of a load, a read and a write. */
static enum esp_status work(struct bench *b, struct esp_arena *arena,
                            const struct esp_alloc *alloc) {
    struct esp_store *store = NULL;
    struct esp_table *table = NULL;
    struct esp_session *session = NULL;
    unsigned found = 0;
    enum esp_status status =
        esp_store_open(esp_fake_url(b->fake), &b->config, &b->clock, alloc, &store, &b->err);
    if (status == ESP_OK) {
        status = esp_table_open(store, "tree", &b->schema, &table, &b->err);
    }
    if (status == ESP_OK) {
        status = esp_session_open(table, &session, &b->err);
    }
    for (unsigned i = 0; status == ESP_OK && i < 30; i++) {
        struct esp_item item = make_item(arena, i, i, i == 3);
        status = esp_session_bulk_put(session, &item, &b->err);
    }
    if (session) {
        enum esp_status flushed = esp_session_bulk_flush(session, &b->err);
        status = status == ESP_OK ? flushed : status;
        assert_int_equal(session->bulk.planned,
                         session->bulk.written + session->bulk.refused + session->bulk.left);
    }
    if (status == ESP_OK) {
        struct esp_query query = {.index = 0, .pk = esp_s(ESP_STR("p")), .limit = 20};
        status = esp_session_query(session, &query, count_item, &found, &b->err);
    }
    if (status == ESP_OK) {
        assert_int_equal(found, 29);
        struct esp_write w = {.kind = ESP_PUT,
                              .item = make_item(arena, 1, 2, false),
                              .condition = &is_new,
                              .condition_count = 1};
        size_t left;
        status = esp_session_write(session, &w, 1, &left, &b->err);
        if (status == ESP_ERR_CONDITION) {
            status = ESP_OK;
            esp_error_clear(&b->err);
        }
    }
    esp_session_close(session);
    esp_table_close(table);
    esp_store_close(store);
    return status;
}

static void test_memory_runs_out(void **state) {
    (void)state;
    struct bench b;
    struct esp_arena arena;
    struct esp_test_alloc a;
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 24);
    bench_open(&b, NULL, NULL);
    b.config.connections = 2;
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        esp_error_clear(&b.err);
        enum esp_status status = work(&b, &arena, &a.alloc);
        if (esp_test_alloc_done(&a)) {
            assert_ok(status, &b.err);
            break;
        }
        if (status != ESP_OK) { /* some failures only cost a table's spare room */
            assert_string_equal(esp_status_name(status), "ERR_NOMEM");
        }
        esp_arena_reset(&arena);
    }
    bench_close(&b);
    esp_arena_fini(&arena);
}

static enum esp_status count_name(void *ctx, struct esp_str name) {
    (void)name;
    ++*(unsigned *)ctx;
    return ESP_OK;
}

static void test_table_lifecycle_through_faults(void **state) {
    (void)state;
    struct bench b;
    struct chaos chaos = {.percent = 40, .in_a_row_max = 3};
    unsigned names = 0;
    esp_rng_init(&chaos.rng, 1, 1);
    bench_open(&b, chaotic, &chaos);
    for (int i = 0; i < 20; i++) {
        assert_ok(b.store->ops->create_table(b.store, "usual", &b.schema, NULL, &b.err), &b.err);
        assert_status(ESP_ERR_EXISTS,
                      b.store->ops->create_table(b.store, "tree", &b.schema, NULL, NULL));
        names = 0;
        assert_ok(b.store->ops->list_tables(b.store, count_name, &names, &b.err), &b.err);
        assert_int_equal(names, 2);
        assert_ok(b.store->ops->drop_table(b.store, "usual", &b.err), &b.err);
        assert_status(ESP_ERR_NOT_FOUND, b.store->ops->drop_table(b.store, "none", NULL));
    }
    bench_close(&b);
}

/* For a while after CreateTable the endpoint does not know the table yet. */
struct lag {
    bool created;
    unsigned unseen; /* DescribeTable calls that do not find it */
};

static struct esp_fake_action lagging(void *ctx, const struct esp_fake_request *r) {
    struct lag *lag = ctx;
    bool unseen = lag->created && lag->unseen > 0 && strcmp(r->operation, "DescribeTable") == 0;
    lag->created = lag->created || strcmp(r->operation, "CreateTable") == 0;
    lag->unseen -= unseen;
    return unseen ? (struct esp_fake_action){.fault = ESP_FAKE_ERROR_BEFORE,
                                             .status = 400,
                                             .error_name = "ResourceNotFoundException"}
                  : (struct esp_fake_action){.fault = ESP_FAKE_NONE};
}

static void test_new_table_is_waited_for(void **state) {
    (void)state;
    struct bench b;
    struct esp_arena arena;
    struct esp_table_info info;
    struct lag lag = {.unseen = 4}, never = {.unseen = UINT32_MAX};
    esp_arena_init(&arena, &esp_alloc_libc, 1 << 20);
    bench_open(&b, lagging, &lag);
    assert_ok(b.store->ops->create_table(b.store, "usual", &b.schema, NULL, &b.err), &b.err);
    assert_int_equal(lag.unseen, 0);
    assert_int_equal(b.err.status, ESP_OK);
    assert_ok(b.store->ops->drop_table(b.store, "usual", &b.err), &b.err);

    esp_fake_set_script(b.fake, lagging, &never);
    assert_status(ESP_ERR_NOT_FOUND,
                  b.store->ops->create_table(b.store, "usual", &b.schema, NULL, &b.err));
    uint64_t before = esp_fake_requests(b.fake); /* of a table not just made it is final */
    assert_status(ESP_ERR_NOT_FOUND,
                  b.store->ops->describe_table(b.store, "usual", &arena, &info, &b.err));
    assert_int_equal(esp_fake_requests(b.fake), before + 1);
    bench_close(&b);
    esp_arena_fini(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk_loads_lose_nothing),
        cmocka_unit_test(test_hopeless_loads_end),
        cmocka_unit_test(test_throttling_of_many_is_outlived),
        cmocka_unit_test(test_stop_is_seen),
        cmocka_unit_test(test_single_writes_happen_once),
        cmocka_unit_test(test_lost_insert_of_another_item_stays_refused),
        cmocka_unit_test(test_request_between_puts_and_flush),
        cmocka_unit_test(test_clock_is_corrected_once),
        cmocka_unit_test(test_clock_jumps_while_several_are_in_flight),
        cmocka_unit_test(test_credentials_are_renewed_once_for_several),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_slow_answers_time_out),
        cmocka_unit_test(test_table_lifecycle_through_faults),
        cmocka_unit_test(test_new_table_is_waited_for),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
