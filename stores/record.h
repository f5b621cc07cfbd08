#ifndef ESP_STORES_RECORD_H
#define ESP_STORES_RECORD_H
/*
 * The stored form of an item or of an index entry: what DynamoDB would charge for it,
 * the structural attributes in the order of the table's schema, the payload as it came.
 * Views of a record point into it: nothing is copied.
 */
#include "stores/item.h"

/* Append the record of an item that is charged with `size` bytes. */
void esp_record_put(struct esp_buf *out, const struct esp_schema *schema,
                    const struct esp_item *item, uint32_t size);
/* View of a record; borrows its bytes.  They may come from a disk: false when they are not what
 * esp_record_put makes of an item of this schema; the item is empty then. */
bool esp_record_view(const struct esp_schema *schema, struct esp_str record, struct esp_item *out);
/* Bytes DynamoDB charges for what the record holds; for one that can be viewed. */
static inline uint32_t esp_record_size(struct esp_str record) {
    uint32_t size;
    memcpy(&size, record.ptr, sizeof size);
    return size;
}

/* The part of an item that an index keeps; new text is in `arena`.  ERR_NOMEM. */
enum esp_status esp_item_project(const struct esp_schema *schema, const struct esp_index *index,
                                 const struct esp_item *item, struct esp_arena *arena,
                                 struct esp_item *out, struct esp_error *err) ESP_MUST_CHECK;

#endif
