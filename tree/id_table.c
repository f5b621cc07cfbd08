#include "tree/id_table.h"

enum { BITS_MIN = 6, BITS_MAX = 32 };

static enum esp_status make_slots(struct id_table *table, unsigned bits) {
    table->slot = esp_big_alloc(table->alloc, sizeof(struct id_slot) << bits);
    if (!table->slot) {
        return ESP_ERR_NOMEM;
    }
    table->bits = bits;
    return ESP_OK;
}

/* Ids that 1 << bits slots hold before they become too full for short probes. */
static uint64_t capacity_of(unsigned bits) {
    return bits < BITS_MAX ? ((uint64_t)3 << bits) / 4 : UINT32_MAX;
}

enum esp_status id_table_init(struct id_table *table, const struct esp_alloc *alloc,
                              uint32_t expected) {
    unsigned bits = BITS_MIN;
    while (capacity_of(bits) < expected) {
        bits++;
    }
    *table = (struct id_table){.alloc = alloc};
    return make_slots(table, bits);
}

size_t id_table_bytes(const struct id_table *table) {
    return table->slot ? sizeof(struct id_slot) << table->bits : 0;
}

void id_table_fini(struct id_table *table) {
    if (table->slot) {
        esp_big_free(table->alloc, table->slot, id_table_bytes(table));
        table->slot = NULL;
    }
}

esp_node id_table_find(const struct id_table *table, const char *const *text, struct esp_str id,
                       uint32_t tag) {
    size_t mask = ((size_t)1 << table->bits) - 1;
    for (size_t i = id_home(table, tag); table->slot[i].node_plus_1; i = (i + 1) & mask) {
        if (table->slot[i].tag == tag) {
            esp_node v = table->slot[i].node_plus_1 - 1;
            const struct esp_node_text *t = (const void *)text[v];
            if (t->id_len == id.len && memcmp(t->bytes, id.ptr, id.len) == 0) {
                return v;
            }
        }
    }
    return ESP_NODE_NONE;
}

static void place(struct id_table *table, struct id_slot slot) {
    size_t mask = ((size_t)1 << table->bits) - 1, i = id_home(table, slot.tag);
    while (table->slot[i].node_plus_1) {
        i = (i + 1) & mask;
    }
    table->slot[i] = slot;
}

enum esp_status id_table_add(struct id_table *table, uint32_t tag, esp_node node) {
    if (table->count >= capacity_of(table->bits)) {
        struct id_table old = *table;
        if (make_slots(table, old.bits + 1) != ESP_OK) {
            *table = old;
            return ESP_ERR_NOMEM;
        }
        for (size_t i = 0; i < (size_t)1 << old.bits; i++) {
            if (old.slot[i].node_plus_1) {
                place(table, old.slot[i]);
            }
        }
        id_table_fini(&old);
    }
    place(table, (struct id_slot){node + 1, tag});
    table->count++;
    return ESP_OK;
}
