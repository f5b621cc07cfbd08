#ifndef ESP_STORES_KEYS_H
#define ESP_STORES_KEYS_H
/*
 * Keys of the embedded stores: one byte string whose memcmp order is DynamoDB's.
 *
 *   item   0            hash8(partition key)  partition key  [sort key]
 *   entry  1 + index    hash8(partition key)  partition key  [sort key]  table key
 *
 * The hash in front spreads partitions evenly, so that a segment of a parallel scan is a
 * range of hashes.  S and B: the bytes with 00 written 00 FF and 00 00 behind them; a sort
 * key that comes last is written as it is.  N: esp_number_key, which needs no end mark.
 * Ties in an index are ordered by the table key.
 */
#include "stores/store.h"

enum {
    ESP_KEY_HASH_BYTES = 8,
    ESP_KEY_BYTES_MAX =
        1 + ESP_KEY_HASH_BYTES + 2 * (2 * ESP_PK_BYTES_MAX + 2) + 2 * (2 * ESP_SK_BYTES_MAX + 2) + 1
};

struct esp_key {
    size_t len;
    unsigned char bytes[ESP_KEY_BYTES_MAX];
};
static inline struct esp_str esp_key_str(const struct esp_key *key) {
    return (struct esp_str){(const char *)key->bytes, key->len};
}

/* The item's key.  Its key attributes have been checked. */
void esp_key_of_item(const struct esp_schema *schema, const struct esp_item *item,
                     struct esp_key *out);
/* The item's key in schema->index[index], written under number `tree` (1 or more); false
 * when the item is not in the index. */
bool esp_key_of_entry(const struct esp_schema *schema, int index, unsigned tree,
                      const struct esp_item *item, struct esp_key *out);

/* What a Query reads: low <= key < high.  `tree` 0 goes with query->index ESP_PRIMARY. */
void esp_key_range(const struct esp_schema *schema, const struct esp_query *query, unsigned tree,
                   struct esp_key *low, struct esp_key *high);
/* What segment `segment` of `segments` of a Scan reads. */
void esp_key_segment(unsigned tree, uint32_t segment, uint32_t segments, struct esp_key *low,
                     struct esp_key *high);

/* The smallest key above this one. */
void esp_key_step(struct esp_key *key);

#endif
