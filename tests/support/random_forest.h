#ifndef ESP_TESTS_RANDOM_FOREST_H
#define ESP_TESTS_RANDOM_FOREST_H
/*
 * Random forests that are hard on purpose: ids that are prefixes of each other (n1 n10 n101),
 * Unicode, blanks, the separators and prefixes of layouts, quotes, ids that differ only in case;
 * chains, stars, single nodes, many roots; rows in any order; payloads of every type.
 */
#include "core/rng.h"
#include "tests/support/support.h"
#include "tree/forest.h"

enum { TEST_ID_BYTES_MAX = 1024, TEST_DATA_BYTES_MAX = 1024 };

/* Zeroed: any id of some bytes, numbered from 1, none of them given. */
struct esp_test_forest_options {
    uint32_t nodes_max;        /* 1 or more */
    const char *without;       /* text that no id contains; NULL: anything goes */
    uint32_t long_id_bytes;    /* now and then an id of up to so many; at most
                                  TEST_ID_BYTES_MAX - 1; 0: none */
    uint32_t numbers_from;     /* the first node's number less 1 */
    struct esp_str another_id; /* ptr != NULL: the id of one of the nodes */
};

/* An id that no other number gives; written to `out`. */
struct esp_str esp_test_random_id(struct esp_rng *rng,
                                  const struct esp_test_forest_options *options, uint32_t number,
                                  char out[TEST_ID_BYTES_MAX]);
/* Up to four attributes; the text is written to `out`. */
struct esp_data esp_test_random_data(struct esp_rng *rng, char out[TEST_DATA_BYTES_MAX]);
/* The names those attributes can have; NULL-terminated. */
extern const char *const esp_test_data_names[];
/* 1 to nodes_max nodes.  Free it with esp_forest_free. */
struct esp_forest *esp_test_random_forest(struct esp_rng *rng,
                                          const struct esp_test_forest_options *options);

#endif
