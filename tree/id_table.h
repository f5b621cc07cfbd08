#ifndef ESP_TREE_ID_TABLE_H
#define ESP_TREE_ID_TABLE_H
/*
 * Hash table from id to node number: open addressing, 8 bytes a slot (node and 32 bits of
 * the hash).  Slots are placed by the top bits of those 32, so that growing is a sequential
 * pass that reads no id.  Ids themselves are compared in the nodes' text.
 */
#include "tree/forest.h"

struct id_slot {
    uint32_t node_plus_1; /* 0: free, so that fresh memory is an empty table */
    uint32_t tag;
};
struct id_table {
    const struct esp_alloc *alloc;
    struct id_slot *slot;
    unsigned bits;  /* 1 << bits slots */
    uint32_t count; /* slots in use */
};

/* Room for `expected` ids before it grows. */
enum esp_status id_table_init(struct id_table *table, const struct esp_alloc *alloc,
                              uint32_t expected);
void id_table_fini(struct id_table *table);
size_t id_table_bytes(const struct id_table *table);

static inline uint32_t id_tag(struct esp_str id) {
    return (uint32_t)(esp_hash64(id.ptr, id.len, 0) >> 32);
}
static inline size_t id_home(const struct id_table *table, uint32_t tag) {
    return tag >> (32 - table->bits);
}
/* The first node whose tag is the same, most likely the one with this id, or ESP_NODE_NONE:
 * for prefetching, because it reads slots only. */
static inline esp_node id_table_guess(const struct id_table *table, uint32_t tag) {
    size_t mask = ((size_t)1 << table->bits) - 1, i = id_home(table, tag);
    while (table->slot[i].node_plus_1 && table->slot[i].tag != tag) {
        i = (i + 1) & mask;
    }
    return table->slot[i].node_plus_1 - 1; /* a free slot gives ESP_NODE_NONE */
}
/* The node with this id, or ESP_NODE_NONE. */
esp_node id_table_find(const struct id_table *table, const char *const *text, struct esp_str id,
                       uint32_t tag);
/* Add an id that is not there.  ERR_NOMEM when it must grow and cannot. */
enum esp_status id_table_add(struct id_table *table, uint32_t tag, esp_node node);

#endif
