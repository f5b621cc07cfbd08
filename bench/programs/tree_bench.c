/*
 * Nanoseconds and bytes a node from records to a frozen forest, in order and shuffled.
 *
 *   tree_bench [NODES]        a complete 10-ary tree, 10-character ids, 70 bytes of data
 *
 * Each build runs in a process of its own, so that its peak of resident memory is its own.
 */
#include "core/clock.h"
#include "core/rng.h"
#include "tree/forest.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPETITIONS = 3 };

static uint64_t cpu_ns(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return ((uint64_t)use.ru_utime.tv_sec + (uint64_t)use.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)use.ru_utime.tv_usec + (uint64_t)use.ru_stime.tv_usec) * 1000u;
}

static uint64_t peak_bytes(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (uint64_t)use.ru_maxrss * 1024u;
}

/* "n000001234": cheaper than printf, which would be most of what is measured. */
static struct esp_str put_id(char id[10], uint32_t v) {
    id[0] = 'n';
    for (int i = 9; i > 0; i--, v /= 10) {
        id[i] = (char)('0' + v % 10);
    }
    return (struct esp_str){id, 10};
}

static void check(enum esp_status status, const struct esp_error *err) {
    if (status != ESP_OK) {
        fprintf(stderr, "%s\n", err->message);
        exit(1);
    }
}

static void build(const char *name, const uint32_t *order, uint32_t n) {
    static const char data[] =
        "\"name\":{\"S\":\"a name of some twenty bytes\"},\"rank\":{\"N\":\"12345\"}}";
    struct esp_forest_options options = {.source = "bench"};
    struct esp_forest_builder *builder;
    struct esp_forest *forest;
    struct esp_error err = ESP_ERROR_INIT;
    uint64_t resident = peak_bytes(), cpu = cpu_ns(), start = esp_now_ns(&esp_clock_system);
    check(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        char id[10], parent[10];
        uint32_t v = order[i];
        struct esp_record record = {.line = i + 2};
        record.id = put_id(id, v);
        if (v) {
            record.parent_id = put_id(parent, (v - 1) / 10);
        }
        record.data = (struct esp_data){data, sizeof data - 1, 40};
        check(esp_forest_builder_add(builder, &record, &err), &err);
    }
    uint64_t added = esp_now_ns(&esp_clock_system);
    check(esp_forest_freeze(builder, &forest, &err), &err);
    uint64_t frozen = esp_now_ns(&esp_clock_system);
    cpu = cpu_ns() - cpu;
    uint64_t text = forest->id_bytes + (uint64_t)n * esp_forest_data(forest, 0).len;
    double beside = (double)(peak_bytes() - resident) - (double)text;
    printf("%-9s %6.1f ns/node to add (making the record included), %6.1f to freeze; %6.1f of cpu; "
           "peak %5.1f bytes/node beside ids and payload\n",
           name, (double)(added - start) / n, (double)(frozen - added) / n, (double)cpu / n,
           beside / n);
    esp_forest_free(forest);
}

static void run(const char *name, const uint32_t *order, uint32_t n) {
    for (int i = 0; i < REPETITIONS; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            build(name, order, n);
            exit(0);
        }
        waitpid(child, NULL, 0);
    }
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
