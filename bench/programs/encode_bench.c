/*
 * Nanoseconds an item: the meter, DynamoDB's checks, encoding and parsing of DynamoDB JSON, for
 * items like those of the path layout (about 200 bytes of JSON, one index that projects all).
 *
 *   encode_bench [ITEMS]      default: 5,000,000
 */
#include "core/clock.h"
#include "stores/capacity.h"

#include <stdio.h>
#include <stdlib.h>

enum { VARIANTS = 1024, TEXT_BYTES = 128 };

struct input {
    struct esp_item item[VARIANTS];
    char path[VARIANTS][TEXT_BYTES], id[VARIANTS][TEXT_BYTES], data[VARIANTS][TEXT_BYTES];
    struct esp_str json[VARIANTS];
};

static struct esp_schema path_schema(void) {
    struct esp_schema s = {.attr_count = 4, .pk = 0, .sk = 1, .index_count = 1};
    s.attr[0] = (struct esp_attr){ESP_STR("t"), ESP_TYPE_S};
    s.attr[1] = (struct esp_attr){ESP_STR("p"), ESP_TYPE_S};
    s.attr[2] = (struct esp_attr){ESP_STR("id"), ESP_TYPE_S};
    s.attr[3] = (struct esp_attr){ESP_STR("d"), ESP_TYPE_NONE};
    s.index[0] = (struct esp_index){.name = ESP_STR("by-id"), .pk = 2, .sk = -1};
    return s;
}

static void make_input(struct input *in) {
    for (int i = 0; i < VARIANTS; i++) {
        int path = snprintf(in->path[i], TEXT_BYTES, "/n1/n%d/n%d/n%d", i % 10, i % 100, i);
        int id = snprintf(in->id[i], TEXT_BYTES, "n%d", i);
        int data =
            snprintf(in->data[i], TEXT_BYTES,
                     "\"name\":{\"S\":\"node number %d of the tree\"},\"pop\":{\"N\":\"%d\"},"
                     "\"note\":{\"S\":\"some more text\"}",
                     i, i * 37);
        struct esp_item *item = &in->item[i];
        item->value[0] = esp_s(ESP_STR("n1"));
        item->value[1] = esp_s((struct esp_str){in->path[i], (size_t)path});
        item->value[2] = esp_s((struct esp_str){in->id[i], (size_t)id});
        item->value[3] = esp_n(i % 12);
        item->data = (struct esp_data){in->data[i], (uint32_t)data, 70};
    }
}

static void report(const char *what, uint64_t begin_ns, uint64_t items, double check) {
    double ns = (double)(esp_now_ns(&esp_clock_system) - begin_ns) / (double)items;
    printf("%-8s %7.1f ns an item, %6.1f million a second   (%g)\n", what, ns, 1e3 / ns, check);
}

static void bench_meter(const struct esp_schema *s, const struct input *in, uint64_t items) {
    struct esp_usage usage = {0};
    uint64_t begin = esp_now_ns(&esp_clock_system);
    for (uint64_t i = 0; i < items; i++) {
        esp_meter_write(s, NULL, &in->item[i % VARIANTS], false, &usage);
    }
    report("meter", begin, items, esp_units_total(&usage.write));
}

static void bench_check(const struct esp_schema *s, const struct input *in, uint64_t items) {
    uint64_t good = 0, begin = esp_now_ns(&esp_clock_system);
    for (uint64_t i = 0; i < items; i++) {
        good += esp_item_check(s, &in->item[i % VARIANTS], NULL) == ESP_OK;
    }
    report("check", begin, items, (double)good);
}

static void bench_encode(const struct esp_schema *s, const struct input *in, uint64_t items) {
    struct esp_buf out;
    uint64_t bytes = 0;
    esp_buf_init(&out, &esp_alloc_libc, 1 << 20);
    uint64_t begin = esp_now_ns(&esp_clock_system);
    for (uint64_t i = 0; i < items; i++) {
        if (i % 25 == 0) { /* as many as go into a request */
            bytes += out.len;
            esp_buf_reset(&out);
        }
        esp_item_put_json(&out, s, &in->item[i % VARIANTS]);
    }
    bytes += out.len;
    report("encode", begin, items, (double)bytes / (double)items);
    esp_buf_fini(&out);
}

static bool bench_parse(const struct esp_schema *s, struct input *in, uint64_t items) {
    struct esp_arena kept, scratch;
    struct esp_buf out;
    struct esp_item item;
    uint64_t bytes = 0;
    bool ok = true;
    esp_arena_init(&kept, &esp_alloc_libc, 1 << 20);
    esp_arena_init(&scratch, &esp_alloc_libc, 1 << 20);
    esp_buf_init(&out, &esp_alloc_libc, 1 << 20);
    for (int i = 0; i < VARIANTS; i++) {
        esp_buf_reset(&out);
        esp_buf_put_char(&out, '{');
        esp_item_put_json(&out, s, &in->item[i]);
        esp_buf_put_char(&out, '}');
        in->json[i] = esp_arena_dup(&kept, esp_buf_str(&out));
    }
    uint64_t begin = esp_now_ns(&esp_clock_system);
    for (uint64_t i = 0; i < items && ok; i++) {
        esp_arena_reset(&scratch);
        ok = esp_item_parse(s, in->json[i % VARIANTS], &scratch, &item, NULL) == ESP_OK;
        bytes += item.data.len;
    }
    report("parse", begin, items, (double)bytes / (double)items);
    esp_buf_fini(&out);
    esp_arena_fini(&scratch);
    esp_arena_fini(&kept);
    return ok;
}

int main(int argc, char **argv) {
    uint64_t items = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000000;
    struct esp_schema schema = path_schema();
    struct input *in = calloc(1, sizeof *in);
    if (!in || items == 0) {
        return 1;
    }
    make_input(in);
    bench_meter(&schema, in, items);
    bench_check(&schema, in, items);
    bench_encode(&schema, in, items);
    bool ok = bench_parse(&schema, in, items / 5 + 1);
    free(in);
    return ok ? 0 : 1;
}
