#ifndef ESP_STORES_RECAST_H
#define ESP_STORES_RECAST_H
/*
 * The same item under another schema: attributes that only one of the two knows as
 * structural move between the positions and the payload.  A table may be opened with other
 * non-key attributes than it was made with.
 */
#include "stores/item.h"

/* Do both schemas have the same attributes at the same positions? */
bool esp_schema_same_attrs(const struct esp_schema *a, const struct esp_schema *b);
/* `item` of schema `from` as one of schema `to`; new text is in `arena`. */
enum esp_status esp_item_recast(const struct esp_schema *from, const struct esp_schema *to,
                                const struct esp_item *item, struct esp_arena *arena,
                                struct esp_item *out, struct esp_error *err) ESP_MUST_CHECK;

#endif
