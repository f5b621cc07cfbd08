#ifndef ESP_LOADER_VERIFY_H
#define ESP_LOADER_VERIFY_H
/* Counting what a table holds, by a parallel scan; private to loader/. */
#include "stores/store.h"

/* Not metered: the sessions' usage is dropped.  `stop` may be NULL. */
enum esp_status esp_table_count(struct esp_table *table, uint32_t workers, const volatile int *stop,
                                uint64_t *items, struct esp_error *err) ESP_MUST_CHECK;

#endif
