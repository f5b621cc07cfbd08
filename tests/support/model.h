#ifndef ESP_TESTS_MODEL_H
#define ESP_TESTS_MODEL_H
/*
 * The oracle: a mutable forest so simple that it cannot be wrong, which answers every
 * operation of converters/operations.def.  Slow; for small forests.
 */
#include "converters/layout.h"
#include "tests/support/support.h"

struct model_node {
    struct esp_str id;
    struct esp_data data;
    uint32_t parent; /* ESP_NODE_NONE for a root */
    uint64_t rank;   /* orders siblings */
    bool alive;
};
struct model {
    struct esp_arena arena;
    struct model_node *node; /* removed ones stay, not alive */
    uint32_t count, cap;
    uint64_t next_rank;
};
void model_init(struct model *m, const struct esp_forest *f);
void model_fini(struct model *m);
uint32_t model_find(const struct model *m, struct esp_str id); /* or ESP_NODE_NONE */
uint32_t model_depth(const struct model *m, uint32_t v);
uint32_t model_root(const struct model *m, uint32_t v);

/* Nodes in the order an `ordered` layout gives. */
struct model_answer {
    enum esp_status status;
    uint32_t *node; /* free it */
    uint32_t count;
    uint64_t value;
};
struct model_answer model_read(const struct model *m, enum esp_op op, const struct esp_args *args);
enum esp_status model_write(struct model *m, enum esp_op op, const struct esp_args *args);

#endif
