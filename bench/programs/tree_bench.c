/*
 * Nanoseconds and bytes a node from records to a frozen forest, in order and shuffled.
 *
 *   tree_bench [NODES]        a complete 10-ary tree, 10-character ids, 70 bytes of data
 */
#include "core/clock.h"
#include "core/rng.h"
#include "tree/forest.h"

#include <stdio.h>
#include <stdlib.h>

/* Counts what is in use and its peak; huge arrays come through here as well. */
struct counting {
    uint64_t bytes, peak;
};

static void *count_resize(void *ctx, void *old, size_t old_size, size_t new_size) {
    struct counting *c = ctx;
    void *ptr = esp_alloc_libc.resize(NULL, old, old_size, new_size);
    c->bytes += new_size - old_size;
    c->peak = c->bytes > c->peak ? c->bytes : c->peak;
    return ptr;
}

static void count_release(void *ctx, void *ptr, size_t size) {
    ((struct counting *)ctx)->bytes -= ptr ? size : 0;
    esp_alloc_libc.release(NULL, ptr, size);
}

/* "n000001234": cheaper than printf, which would be most of what is measured. */
static struct esp_str put_id(char id[10], uint32_t v) {
    id[0] = 'n';
    for (int i = 9; i > 0; i--, v /= 10) {
        id[i] = (char)('0' + v % 10);
    }
    return (struct esp_str){id, 10};
}

static void build(const struct esp_alloc *alloc, const uint32_t *order, uint32_t n,
                  struct esp_forest **out) {
    static const char data[] =
        "\"name\":{\"S\":\"a name of some twenty bytes\"},\"rank\":{\"N\":\"12345\"}}";
    struct esp_forest_options options = {.source = "bench"};
    struct esp_forest_builder *builder;
    struct esp_error err = ESP_ERROR_INIT;
    if (esp_forest_builder_new(alloc, &options, &builder, &err) != ESP_OK) {
        exit(1);
    }
    for (uint32_t i = 0; i < n; i++) {
        char id[10], parent[10];
        uint32_t v = order[i];
        struct esp_record record = {.line = i + 2};
        record.id = put_id(id, v);
        if (v) {
            record.parent_id = put_id(parent, (v - 1) / 10);
        }
        record.data = (struct esp_data){data, sizeof data - 1, 40};
        if (esp_forest_builder_add(builder, &record, &err) != ESP_OK) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
    }
    if (esp_forest_freeze(builder, out, &err) != ESP_OK) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
}

static void run(const char *name, const uint32_t *order, uint32_t n) {
    struct counting counting = {0, 0};
    struct esp_alloc counted = {count_resize, count_release, &counting, 0};
    struct esp_forest *forest;
    uint64_t start = esp_now_ns(&esp_clock_system);
    build(&esp_alloc_libc, order, n, &forest);
    uint64_t elapsed = esp_now_ns(&esp_clock_system) - start;
    uint64_t text = forest->id_bytes + (uint64_t)n * esp_forest_data(forest, 0).len;
    esp_forest_free(forest);
    build(&counted, order, n, &forest);
    printf("%-9s %6.1f ns/node (making the records included), peak %5.1f bytes/node beside "
           "ids and payload\n",
           name, (double)elapsed / n, (double)(counting.peak - text) / n);
    esp_forest_free(forest);
}

int main(int argc, char **argv) {
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
    uint32_t *order = malloc((size_t)n * sizeof *order);
    struct esp_rng rng;
    if (!order) {
        return 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    run("in order", order, n);
    esp_rng_init(&rng, 1, 0);
    esp_rng_shuffle_u32(&rng, order, n);
    run("shuffled", order, n);
    free(order);
    return 0;
}
