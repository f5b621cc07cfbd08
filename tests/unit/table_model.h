#ifndef ESP_TESTS_TABLE_MODEL_H
#define ESP_TESTS_TABLE_MODEL_H
/*
 * The oracle of the engine's tests: a table as an array of items, every request answered by
 * looking at all of them.  And seeded random tables, items and requests to compare by.
 */
#include "core/rng.h"
#include "stores/store.h"
#include "tests/support/support.h"

enum { TABLE_SHAPES = 3, TABLE_ITEMS_MAX = 4096, TABLE_LISTED_MAX = TABLE_ITEMS_MAX };

struct table_model {
    struct esp_schema schema;
    struct esp_arena arena;
    struct esp_item *item;
    size_t count;
    uint64_t page_bytes;
    struct esp_usage usage;
};
void table_model_init(struct table_model *m, int shape, uint64_t page_bytes);
void table_model_fini(struct table_model *m);
/* Do the request; items go to its callback.  Scans are answered in any order, on one page. */
void table_model_execute(struct table_model *m, struct esp_request *r);
struct esp_item *table_model_find(struct table_model *m, const struct esp_item *key);

void table_random_item(struct table_model *m, struct esp_rng *rng, struct esp_item *out);
/* Storage of one random request. */
struct table_request {
    struct esp_request request;
    struct esp_query query;
    struct esp_scan scan;
    struct esp_write write[30];
    struct esp_item key[30];
    struct esp_change change[30][3];
    struct esp_condition condition[30][2];
    struct esp_cursor cursor;
};
void table_random_request(struct table_model *m, struct esp_rng *rng, struct table_request *out);

#endif
