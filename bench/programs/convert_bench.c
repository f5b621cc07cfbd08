/*
 * Items a second that one core converts: each layout into the null store (which meters every
 * item), and again with each item encoded as DynamoDB JSON into a reused buffer.
 *
 *   convert_bench [NODES [LAYOUT]]     a complete 10-ary tree, 10-character ids, 100 bytes of
 *                                      payload; default 1000000 and all layouts
 */
#include "converters/layout.h"
#include "core/rng.h"

#include <stdio.h>
#include <stdlib.h>

enum { NODES_PER_CALL = 4096, REPETITIONS = 3, FANOUT = 10 };

static void check(enum esp_status status, const struct esp_error *err) {
    if (status != ESP_OK) {
        fprintf(stderr, "%s: %s\n", esp_status_name(status), err->message);
        exit(1);
    }
}

static struct esp_str put_id(char id[10], uint32_t v) {
    id[0] = 'n';
    for (int i = 9; i > 0; i--, v /= 10) {
        id[i] = (char)('0' + v % 10);
    }
    return (struct esp_str){id, 10};
}

/* A breadth-first file has its parents first; a shuffled one leaves a node's text anywhere. */
static struct esp_forest *build(uint32_t n, bool shuffled) {
    static const char data[] =
        "\"name\":{\"S\":\"a name of some thirty-five bytes....\"},\"rank\":{\"N\":\"12345\"},"
        "\"note\":{\"S\":\"012345678901234\"}";
    struct esp_forest_options options = {.source = "bench"};
    struct esp_forest_builder *builder;
    struct esp_forest *forest;
    struct esp_error err = ESP_ERROR_INIT;
    uint32_t *order = malloc((size_t)n * sizeof *order);
    if (!order) {
        exit(1);
    }
    for (uint32_t v = 0; v < n; v++) {
        order[v] = v;
    }
    if (shuffled) {
        struct esp_rng rng;
        esp_rng_init(&rng, 1, 0);
        esp_rng_shuffle_u32(&rng, order, n);
    }
    check(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        char id[10], parent[10];
        uint32_t v = order[i];
        struct esp_record record = {.line = i + 2};
        record.id = put_id(id, v);
        if (v) {
            record.parent_id = put_id(parent, (v - 1) / FANOUT);
        }
        record.data = (struct esp_data){data, sizeof data - 1, 72};
        check(esp_forest_builder_add(builder, &record, &err), &err);
    }
    check(esp_forest_freeze(builder, &forest, &err), &err);
    free(order);
    return forest;
}

struct sink {
    struct esp_session *session;
    struct esp_buf json;
    uint64_t json_bytes;
};

static enum esp_status put(void *ctx, const struct esp_item *item) {
    return esp_session_bulk_put(((struct sink *)ctx)->session, item, NULL);
}

static enum esp_status encode(void *ctx, const struct esp_item *item) {
    struct sink *sink = ctx;
    esp_buf_reset(&sink->json);
    esp_item_put_json(&sink->json, &sink->session->table->schema, item);
    sink->json_bytes += sink->json.len;
    return ESP_OK;
}

static uint64_t convert(const struct esp_layout *layout, const struct esp_forest *f,
                        esp_item_fn *fn, struct sink *sink) {
    struct esp_arena scratch;
    struct esp_error err = ESP_ERROR_INIT;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    uint64_t start = esp_now_ns(&esp_clock_system);
    for (esp_node v = 0; v < f->count; v += NODES_PER_CALL) {
        uint32_t n = f->count - v < NODES_PER_CALL ? f->count - v : NODES_PER_CALL;
        esp_arena_reset(&scratch);
        check(layout->ops->emit(layout, f, v, n, &scratch, fn, sink), &err);
    }
    uint64_t elapsed = esp_now_ns(&esp_clock_system) - start;
    esp_arena_fini(&scratch);
    return elapsed;
}

static void measure(const struct esp_layout_ops *ops, const struct esp_forest *f,
                    const char *order) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_layout layout;
    struct esp_store *store;
    struct esp_table *table;
    struct sink sink = {0};
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX}, checked = UINT64_MAX;
    esp_buf_init(&sink.json, &esp_alloc_libc, 1 << 20);
    check(esp_layout_init(&layout, ops, NULL, &err), &err);
    check(esp_store_open("null:", NULL, &esp_clock_system, &esp_alloc_libc, &store, &err), &err);
    check(esp_table_open(store, "bench", &layout.schema, &table, &err), &err);
    check(esp_session_open(table, &sink.session, &err), &err);
    for (int i = 0; i < REPETITIONS; i++) {
        esp_item_fn *const fn[2] = {put, encode};
        for (int k = 0; k < 2; k++) {
            uint64_t ns = convert(&layout, f, fn[k], &sink);
            best[k] = ns < best[k] ? ns : best[k];
        }
        uint64_t start = esp_now_ns(&esp_clock_system);
        check(ops->validate(&layout, f, &err), &err);
        uint64_t ns = esp_now_ns(&esp_clock_system) - start;
        checked = ns < checked ? ns : checked;
    }
    double items = (double)ops->item_count(&layout, f, 0, f->count);
    printf("%-10s %-8s %9.0f items  metered %6.1f M/s  JSON %6.1f M/s (%.0f bytes an item)  "
           "validate %5.1f ns a node\n",
           ops->name, order, items, items * 1e3 / (double)best[0], items * 1e3 / (double)best[1],
           (double)sink.json_bytes / items / REPETITIONS, (double)checked / f->count);
    fflush(stdout);
    esp_session_close(sink.session);
    esp_table_close(table);
    esp_store_close(store);
    esp_buf_fini(&sink.json);
}

int main(int argc, char **argv) {
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    for (int shuffled = 0; n && shuffled < 2; shuffled++) {
        struct esp_forest *f = build(n, shuffled);
        for (size_t i = 0; esp_layouts[i]; i++) {
            if (argc < 3 || strcmp(argv[2], esp_layouts[i]->name) == 0) {
                measure(esp_layouts[i], f, shuffled ? "shuffled" : "in order");
            }
        }
        esp_forest_free(f);
    }
    return 0;
}
