#ifndef ESP_TESTS_ENDPOINT_REQUESTS_H
#define ESP_TESTS_ENDPOINT_REQUESTS_H
/* Seeded random tables and raw requests for the differential test. */
#include "core/rng.h"
#include "stores/store.h"

enum { TEST_SHAPE_COUNT = 3 };
/* Table definitions with string, number and binary keys, GSIs and LSIs of all projections. */
void test_schema_make(int shape, struct esp_schema *schema);

struct test_request {
    struct esp_request request;
    struct esp_cursor cursor;
    struct esp_query query;
    struct esp_scan scan;
    struct esp_condition condition[2];
    bool sets_index_key; /* an update writes an index key */
    char text[128];      /* what it is, for messages */
};
/* The same seed makes the same request, for any store.  Keys come from a small space, so
 * that requests meet. */
void test_request_make(const struct esp_schema *schema, uint64_t seed, struct esp_arena *arena,
                       struct test_request *out);

/* The deviation (deviations.def) that a difference looks like, or NULL. */
const char *test_request_outcome_deviation(const struct test_request *ours,
                                           const struct test_request *theirs);
const char *test_request_item_deviation(const struct test_request *request);
const char *test_request_unit_deviation(const struct test_request *request,
                                        const struct esp_usage *ours,
                                        const struct esp_usage *theirs);

#endif
