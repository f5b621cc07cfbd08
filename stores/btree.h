#ifndef ESP_STORES_BTREE_H
#define ESP_STORES_BTREE_H
/*
 * An ordered map in memory: a B+ tree of entries that the caller makes and owns.  Keys are
 * compared by memcmp, shorter first; nodes keep each key's first bytes beside the pointer,
 * so that most comparisons touch the node alone.
 *
 * Removal never merges nodes.  So whatever was removed can be put back without memory, which
 * is what taking back a transaction needs.  One writer or many readers, by the caller's lock.
 */
#include "core/mem.h"

struct esp_entry {
    uint32_t key_len, value_len;
    char bytes[]; /* key, then value */
};
static inline struct esp_str esp_entry_key(const struct esp_entry *entry) {
    return (struct esp_str){entry->bytes, entry->key_len};
}
static inline struct esp_str esp_entry_value(const struct esp_entry *entry) {
    return (struct esp_str){entry->bytes + entry->key_len, entry->value_len};
}
/* NULL when there is no memory. */
struct esp_entry *esp_entry_new(const struct esp_alloc *alloc, struct esp_str key,
                                struct esp_str value) ESP_MUST_CHECK;
void esp_entry_free(const struct esp_alloc *alloc, struct esp_entry *entry); /* NULL is fine */

/* Zeroed = empty. */
struct esp_btree {
    void *root;
    unsigned height; /* levels of inner nodes above the leaves */
};
struct esp_btree_place {
    struct btree_leaf *leaf; /* NULL: nowhere */
    unsigned at;
};

struct esp_entry *esp_btree_find(const struct esp_btree *tree, struct esp_str key);
/* *old is the entry of that key that it replaces, or NULL.  ERR_NOMEM: nothing changed. */
enum esp_status esp_btree_put(struct esp_btree *tree, const struct esp_alloc *alloc,
                              struct esp_entry *entry, struct esp_entry **old) ESP_MUST_CHECK;
/* The entry taken out, or NULL. */
struct esp_entry *esp_btree_remove(struct esp_btree *tree, struct esp_str key);
/* Free nodes and entries. */
void esp_btree_clear(struct esp_btree *tree, const struct esp_alloc *alloc);

/* The first entry not below `key`, the last one below it; NULL when there is none. */
struct esp_entry *esp_btree_at_or_after(const struct esp_btree *tree, struct esp_str key,
                                        struct esp_btree_place *place);
struct esp_entry *esp_btree_before(const struct esp_btree *tree, struct esp_str key,
                                   struct esp_btree_place *place);
struct esp_entry *esp_btree_next(struct esp_btree_place *place);
struct esp_entry *esp_btree_previous(struct esp_btree_place *place);

#endif
