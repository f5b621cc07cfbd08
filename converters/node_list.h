#ifndef ESP_CONVERTERS_NODE_LIST_H
#define ESP_CONVERTERS_NODE_LIST_H
/* The nodes of an answer, copied: for those who need all of them before they go on. */
#include "converters/layout.h"

struct esp_answer {
    struct esp_arena *arena; /* borrowed; holds everything below */
    struct esp_node_view *node;
    uint32_t count, cap;
    bool without_data; /* payloads are not kept */
};
/* An esp_node_fn for it.  ERR_NOMEM. */
enum esp_status esp_answer_add(void *answer, const struct esp_node_view *node);
/* What the operation `op` at a node answers, in the scratch arena. */
enum esp_status esp_answer_read(struct esp_access *a, enum esp_op op, const struct esp_locator *at,
                                bool without_data, struct esp_answer *out) ESP_MUST_CHECK;

#endif
