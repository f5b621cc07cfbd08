/*
 * Speed of reading: CSV, nested JSON and JSON Lines of one shuffled (CSV, JSON Lines) or
 * nested tree, from memory, into a sink that only counts, and into the tree.
 *
 *   import_bench [NODES]      (default 1000000; rows of about 96 bytes)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/clock.h"
#include "core/rng.h"
#include "importers/importer.h"

enum { FANOUT = 10 };

/* A 10-ary tree in heap order, ids of 10 characters, one name in ten quoted. */
static void put_row(struct esp_buf *out, uint32_t v) {
    char parent[16] = "";
    if (v) {
        snprintf(parent, sizeof parent, "n%09" PRIu32, (v - 1) / FANOUT);
    }
    const char *quote = v % 10 == 0 ? "\"" : "";
    esp_buf_printf(out,
                   "n%09" PRIu32 ",%s,%sDepartment%s %" PRIu32
                   "%s,a line of descriptive text of no great length,%" PRIu32 "\n",
                   v, parent, quote, *quote ? ", of" : "", v % 1000, quote, v * 7 % 100000);
}

static void put_object(struct esp_buf *out, uint32_t v, bool flat) {
    esp_buf_printf(out, "{\"id\":\"n%09" PRIu32 "\",", v);
    if (flat && v) {
        esp_buf_printf(out, "\"parent\":\"n%09" PRIu32 "\",", (v - 1) / FANOUT);
    }
    esp_buf_printf(out,
                   "\"name\":\"Department %" PRIu32
                   "\",\"text\":\"a line of descriptive text of no great length\",\"pop\":%" PRIu32,
                   v % 1000, v * 7 % 100000);
}

static void make_csv(struct esp_buf *out, const uint32_t *order, uint32_t count) {
    esp_buf_put_str(out, ESP_STR("id,parent_id,name,text,pop\n"));
    for (uint32_t i = 0; i < count; i++) {
        put_row(out, order[i]);
    }
}

static void make_lines(struct esp_buf *out, const uint32_t *order, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        put_object(out, order[i], true);
        esp_buf_put_str(out, ESP_STR("}\n"));
    }
}

/* Depth first without recursion: after v comes its first child, or what follows. */
static void make_nested(struct esp_buf *out, uint32_t count) {
    uint32_t v = 0;
    put_object(out, v, false);
    for (;;) {
        if ((uint64_t)v * FANOUT + 1 < count) {
            esp_buf_put_str(out, ESP_STR(",\"children\":[\n"));
            v = v * FANOUT + 1;
        } else {
            esp_buf_put_char(out, '}');
            while (v && (v % FANOUT == 0 || v + 1 == count)) { /* the last sibling */
                esp_buf_put_str(out, ESP_STR("]}"));
                v = (v - 1) / FANOUT;
            }
            if (v == 0) {
                return;
            }
            esp_buf_put_str(out, ESP_STR(",\n"));
            v++;
        }
        put_object(out, v, false);
    }
}

struct tally {
    uint64_t rows, bytes;
};

static enum esp_status count_record(void *ctx, const struct esp_record *record,
                                    struct esp_error *err) {
    (void)err;
    struct tally *tally = ctx;
    tally->rows++;
    tally->bytes += record->data.size + record->id.len;
    return ESP_OK;
}

static enum esp_status build_record(void *ctx, const struct esp_record *record,
                                    struct esp_error *err) {
    return esp_forest_builder_add(ctx, record, err);
}

static void check(enum esp_status status, const struct esp_error *err) {
    if (status != ESP_OK) {
        fprintf(stderr, "import_bench: line %" PRIu64 ": %s\n", err->line, err->message);
        exit(1);
    }
}

/* Processor time: what other programs take on a busy machine is not ours. */
static uint64_t cpu_ns(void) {
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void show(const char *format, const char *sink, uint64_t wall_ns, uint64_t ns, size_t bytes,
                 uint32_t count) {
    printf("%-6s %-6s %7.1f MB, wall %6.3f s, CPU %6.3f s: %7.1f MB/s %7.1f ns/node %6.2f M "
           "nodes/s\n",
           format, sink, (double)bytes / 1e6, (double)wall_ns / 1e9, (double)ns / 1e9,
           (double)bytes * 1e3 / (double)ns, (double)ns / count, count * 1e3 / (double)ns);
}

static void measure(const char *format, struct esp_str text, uint32_t count) {
    struct esp_error err = ESP_ERROR_INIT;
    const struct esp_importer *importer = esp_importer_find(format);
    const struct esp_source_options options = {.from = format};
    for (int into_tree = 0; into_tree < 2; into_tree++) {
        struct esp_reader *in;
        struct esp_forest_builder *builder = NULL;
        struct esp_forest *forest = NULL;
        struct tally tally = {0, 0};
        check(esp_reader_open_memory(text, format, &esp_alloc_libc, &in, &err), &err);
        uint64_t wall_start = esp_now_ns(&esp_clock_system), cpu_start = cpu_ns();
        if (into_tree) {
            struct esp_forest_options forest_options = {.source = format};
            check(esp_forest_builder_new(&esp_alloc_libc, &forest_options, &builder, &err), &err);
            check(importer->run(in, &options, &esp_alloc_libc, build_record, builder, &err), &err);
            check(esp_forest_freeze(builder, &forest, &err), &err);
            tally.rows = forest->count;
        } else {
            check(importer->run(in, &options, &esp_alloc_libc, count_record, &tally, &err), &err);
        }
        uint64_t cpu = cpu_ns() - cpu_start;
        uint64_t wall = esp_now_ns(&esp_clock_system) - wall_start;
        if (tally.rows != count) {
            fprintf(stderr, "import_bench: %s: %" PRIu64 " of %" PRIu32 " nodes\n", format,
                    tally.rows, count);
            exit(1);
        }
        show(format, into_tree ? "tree" : "count", wall, cpu, text.len, count);
        esp_forest_free(forest);
        esp_reader_close(in);
    }
}

int main(int argc, char **argv) {
    uint64_t nodes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    if (nodes < 1 || nodes > 100000000) {
        fprintf(stderr, "usage: import_bench [NODES]  (1 to 100000000)\n");
        return 2;
    }
    uint32_t count = (uint32_t)nodes;
    uint32_t *order = esp_big_alloc(&esp_alloc_libc, count * sizeof *order);
    struct esp_buf text;
    esp_buf_init(&text, &esp_alloc_libc, SIZE_MAX);
    if (!order || !esp_buf_reserve(&text, count * (size_t)200)) {
        fprintf(stderr, "import_bench: out of memory\n");
        return 1;
    }
    struct esp_rng rng;
    esp_rng_init(&rng, 1, 0);
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    esp_rng_shuffle_u32(&rng, order, count);
    make_csv(&text, order, count);
    measure("csv", esp_buf_str(&text), count);
    esp_buf_reset(&text);
    make_nested(&text, count);
    measure("json", esp_buf_str(&text), count);
    esp_buf_reset(&text);
    make_lines(&text, order, count);
    measure("jsonl", esp_buf_str(&text), count);
    esp_buf_fini(&text);
    esp_big_free(&esp_alloc_libc, order, count * sizeof *order);
    return 0;
}
