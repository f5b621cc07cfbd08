#ifndef ESP_STORES_CONDITION_H
#define ESP_STORES_CONDITION_H
/* Do conditions and filters hold, as DynamoDB evaluates them? */
#include "stores/store.h"

/* ERR_REFUSED for what DynamoDB refuses whatever the item is: BETWEEN with bounds of two
 * types or the wrong way round, begins_with of a number, an order of sets or documents. */
enum esp_status esp_conditions_check(const struct esp_condition *list, size_t count,
                                     struct esp_error *err) ESP_MUST_CHECK;
/* *holds = all of them do for the item; NULL is a missing item, without any attribute.
 * `scratch` is used for attributes of the payload. */
enum esp_status esp_conditions_hold(const struct esp_schema *schema,
                                    const struct esp_condition *list, size_t count,
                                    const struct esp_item *item, struct esp_arena *scratch,
                                    bool *holds, struct esp_error *err) ESP_MUST_CHECK;

#endif
