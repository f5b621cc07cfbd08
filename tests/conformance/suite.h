#ifndef ESP_TESTS_SUITE_H
#define ESP_TESTS_SUITE_H
/*
 * The conformance suite: a layout in a store against the model.  Random forests are loaded,
 * every operation is asked of many nodes, by id and by key, before and after random writes,
 * and all answers, payloads included, must be the model's.  Half of the writes are recorded as a
 * plan first, which must change nothing, and are then carried out.  Works with any store that can
 * make tables; a failure prints the layout, the seed and the step.
 */
#include "converters/layout.h"
#include "tests/support/random_forest.h"

struct suite_options {
    uint64_t seed;      /* of the first forest; the others have the next ones */
    uint32_t forests;   /* how many */
    uint32_t nodes_max; /* a forest */
    uint32_t writes;    /* random ones, after each forest's reads */
    uint32_t sample;    /* nodes asked about in a round of reads */
    const char *table;  /* made and dropped for each forest */
    bool consistent;
};
/* Fails the running test at the first difference. */
void suite_run(struct esp_store *store, const struct esp_layout *layout,
               const struct suite_options *options);

/* A random forest that the layout takes.  Free it with esp_forest_free. */
struct esp_forest *suite_forest(const struct esp_layout *layout, struct esp_rng *rng,
                                uint32_t nodes_max);

/* The table of one forest, for tests that go on from a loaded layout. */
struct suite_table {
    struct esp_store *store;
    const struct esp_layout *layout;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_arena scratch;
    struct esp_error err;
    struct esp_access access; /* uses the four above */
};
void suite_table_open(struct suite_table *t, struct esp_store *store,
                      const struct esp_layout *layout, const char *name,
                      const struct esp_forest *forest);
void suite_table_close(struct suite_table *t); /* drops the table */

/* Layouts as the suite runs them: the registered ones, and again with other settings. */
enum { SUITE_LAYOUTS_MAX = 40 };
size_t suite_layouts(struct esp_layout layouts[SUITE_LAYOUTS_MAX]);

#endif
