#ifndef ESP_TESTS_TORN_H
#define ESP_TESTS_TORN_H
/*
 * A memory: store whose writes are cut: after so many items the connection is gone, in the middle
 * of a batch too; a transaction is done or not.  It has no trials, so that what works in several
 * requests is seen to.  One at a time.
 */
#include "stores/store.h"

struct torn_store {
    struct esp_store *store;
    struct esp_store_ops ops;
    const struct esp_store_ops *inner;
    size_t budget; /* items that may still be written; SIZE_MAX: any number */
    size_t spent;  /* items written */
};
void torn_store_open(struct torn_store *torn);
void torn_store_close(struct torn_store *torn);
/* The next writes are cut after k items. */
void torn_store_cut(struct torn_store *torn, size_t k);
/* Nothing is cut any more. */
void torn_store_heal(struct torn_store *torn);

#endif
