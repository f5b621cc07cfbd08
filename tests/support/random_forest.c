#include "tests/support/random_forest.h"

#include <stdio.h>
#include <stdlib.h>

/* Every style with its numbers gives ids that no other style gives. */
static const char *const styles[] = {
    "n%u",
    "n%u",
    "N%u",
    "%u",
    "%u0n",
    "\xC3\xA9%u",
    "\xE6\x97\xA5\xE6\x9C\xAC %u",
    " %u ",
    "%%%u",
    "#%u#",
    "a b%u",
    "A b%u",
    "-%u",
    "\"%u\\",
    "t\t%u",
    "_%u",
    "%%s%u",
    "\xF0\x9F\x8C\xB3%u",
    "n%u.",
    "x:%u>~",
    "/%u",
    "%u/",
    "a/%u/b",
    "#/%u",
    "%%2F%u",
    "%%%%25%u%%",
    "NODE-%u",
    "NODE#%u",
    "PARENT-%u",
    "PARENT-NODE-%u",
    "PARENT#n%u",
    "CHILD#%u",
    "CHILD-NODE-%u-",
    "META#%u",
    "%u-NODE-%u",
    "|%u|",
};

enum { LONG_ID_IN = 24 };

struct esp_str esp_test_random_id(struct esp_rng *rng,
                                  const struct esp_test_forest_options *options, uint32_t number,
                                  char out[TEST_ID_BYTES_MAX]) {
    int len;
    do {
        uint64_t style = esp_rng_below(rng, sizeof styles / sizeof styles[0]);
        len = snprintf(out, TEST_ID_BYTES_MAX, styles[style], number, number);
    } while (options->without && strstr(out, options->without));
    if (options->long_id_bytes && esp_rng_below(rng, LONG_ID_IN) == 0) {
        uint32_t bytes = 1 + (uint32_t)esp_rng_below(rng, options->long_id_bytes);
        while ((uint32_t)len < bytes) {
            out[len++] = '.';
        }
        out[len] = 0;
    }
    return (struct esp_str){out, (size_t)len};
}

/* Sizes by DynamoDB's rules: name bytes, then the value's. */
static const struct {
    const char *text;
    uint32_t size;
} members[] = {
    {"\"name\":{\"S\":\"Folder\"}", 10},
    {"\"gr\xC3\xB6\xC3\x9F"
     "e\":{\"S\":\"\xE6\x97\xA5\xE6\x9C\xAC\"}",
     13},
    {"\"pop\":{\"N\":\"12345\"}", 7},
    {"\"neg\":{\"N\":\"-0.5\"}", 6},
    {"\"flag\":{\"BOOL\":true}", 5},
    {"\"nil\":{\"NULL\":true}", 4},
    {"\"tags\":{\"SS\":[\"x\",\"yy\"]}", 7},
    {"\"list\":{\"L\":[{\"S\":\"a\"},{\"N\":\"1\"}]}", 12},
    {"\"map\":{\"M\":{\"k\":{\"S\":\"v\"}}}", 9},
    {"\"q\\\"uote\":{\"S\":\"tab\\there\"}", 14},
    {"\"bin\":{\"B\":\"AQI=\"}", 5},
};
const char *const esp_test_data_names[] = {"name",
                                           "gr\xC3\xB6\xC3\x9F"
                                           "e",
                                           "pop",
                                           "neg",
                                           "flag",
                                           "nil",
                                           "tags",
                                           "list",
                                           "map",
                                           "q\"uote",
                                           "bin",
                                           NULL};

struct esp_data esp_test_random_data(struct esp_rng *rng, char out[TEST_DATA_BYTES_MAX]) {
    struct esp_data data = {.text = out};
    uint64_t count = esp_rng_below(rng, 5), n = sizeof members / sizeof members[0];
    uint64_t at = esp_rng_below(rng, n);
    for (uint64_t i = 0; i < count; i++, at = (at + 1 + esp_rng_below(rng, 2)) % n) {
        size_t len = strlen(members[at].text);
        if (data.len) {
            out[data.len++] = ',';
        }
        memcpy(out + data.len, members[at].text, len);
        data.len += (uint32_t)len;
        data.size += members[at].size;
    }
    return data;
}

enum shape { CHAIN, STAR, RECURSIVE, DEEP, WIDE, SHAPES };
enum { CHAIN_NODES_MAX = 40 /* longer paths would not fit a sort key */ };

static uint32_t pick_parent(struct esp_rng *rng, enum shape shape, uint32_t v) {
    switch (shape) {
    case CHAIN:
        return v - 1;
    case STAR:
        return 0;
    case DEEP:
        return v - 1 - (uint32_t)esp_rng_below(rng, v < 3 ? v : 3);
    case WIDE:
        return (uint32_t)esp_rng_below(rng, v < 4 ? v : 4);
    default:
        return (uint32_t)esp_rng_below(rng, v);
    }
}

/* The builder is given one record a node, in the order of order[]. */
static struct esp_forest *build(struct esp_rng *rng, char (*id)[TEST_ID_BYTES_MAX],
                                const uint32_t *parent, const uint32_t *order, uint32_t n) {
    struct esp_forest_options options = {.source = "random"};
    struct esp_forest_builder *builder = NULL;
    struct esp_forest *forest = NULL;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_forest_builder_new(&esp_alloc_libc, &options, &builder, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        char data[TEST_DATA_BYTES_MAX];
        uint32_t v = order[i];
        struct esp_record record = {
            .id = esp_str_from(id[v]), .data = esp_test_random_data(rng, data), .line = i + 2};
        if (parent[v] != ESP_NODE_NONE) {
            record.parent_id = esp_str_from(id[parent[v]]);
        }
        assert_ok(esp_forest_builder_add(builder, &record, &err), &err);
    }
    assert_ok(esp_forest_freeze(builder, &forest, &err), &err);
    return forest;
}

struct esp_forest *esp_test_random_forest(struct esp_rng *rng,
                                          const struct esp_test_forest_options *options) {
    enum shape shape = (enum shape)esp_rng_below(rng, SHAPES);
    uint32_t most = (shape == CHAIN || shape == DEEP) && options->nodes_max > CHAIN_NODES_MAX
                        ? CHAIN_NODES_MAX
                        : options->nodes_max;
    uint32_t n = esp_rng_below(rng, 10) == 0 ? 1 : 1 + (uint32_t)esp_rng_below(rng, most);
    uint64_t roots_in_100 = esp_rng_below(rng, 3) == 0 ? 20 : esp_rng_below(rng, 3);
    uint32_t *parent = calloc(n, sizeof *parent), *order = calloc(n, sizeof *order);
    char(*id)[TEST_ID_BYTES_MAX] = calloc(n, sizeof *id);
    assert_true(parent && order && id);
    for (uint32_t v = 0; v < n; v++) {
        esp_test_random_id(rng, options, options->numbers_from + v + 1, id[v]);
        parent[v] = v == 0 || esp_rng_below(rng, 100) < roots_in_100 ? ESP_NODE_NONE
                                                                     : pick_parent(rng, shape, v);
        order[v] = v;
    }
    if (options->another_id.ptr) {
        char *text = id[esp_rng_below(rng, n)];
        assert_true(options->another_id.len < TEST_ID_BYTES_MAX);
        memcpy(text, options->another_id.ptr, options->another_id.len);
        text[options->another_id.len] = 0;
    }
    if (esp_rng_below(rng, 2)) {
        esp_rng_shuffle_u32(rng, order, n);
    }
    struct esp_forest *forest = build(rng, id, parent, order, n);
    free(parent);
    free(order);
    free(id);
    return forest;
}
