/* The meter: DynamoDB's documented arithmetic, in whole units of bytes until the end. */
#include "stores/capacity.h"

enum { WRITE_UNIT_BYTES = 1024, READ_UNIT_BYTES = 4096 };

static double units(uint64_t bytes, uint64_t unit_bytes) {
    return bytes <= unit_bytes ? 1.0 : (double)((bytes + unit_bytes - 1) / unit_bytes);
}

double esp_write_units(uint64_t bytes) {
    return units(bytes, WRITE_UNIT_BYTES);
}

double esp_read_units(uint64_t bytes, bool strong) {
    return units(bytes, READ_UNIT_BYTES) * (strong ? 1.0 : 0.5);
}

void esp_units_add(struct esp_units *sum, const struct esp_units *part) {
    sum->table += part->table;
    for (int i = 0; i < ESP_INDEX_MAX; i++) {
        sum->index[i] += part->index[i];
    }
}

void esp_usage_add(struct esp_usage *sum, const struct esp_usage *part) {
    sum->requests += part->requests;
    sum->round_trips += part->round_trips;
    sum->retries += part->retries;
    sum->throttled += part->throttled;
    sum->items_read += part->items_read;
    sum->items_returned += part->items_returned;
    sum->items_written += part->items_written;
    sum->items_added += part->items_added;
    sum->items_deleted += part->items_deleted;
    sum->items_changed += part->items_changed;
    sum->bytes_read += part->bytes_read;
    sum->bytes_written += part->bytes_written;
    sum->index_bytes_written += part->index_bytes_written;
    esp_units_add(&sum->read, &part->read);
    esp_units_add(&sum->write, &part->write);
    esp_units_add(&sum->billed_read, &part->billed_read);
    esp_units_add(&sum->billed_write, &part->billed_write);
    sum->billed |= part->billed;
    sum->write_estimated |= part->write_estimated;
    sum->read_estimated |= part->read_estimated;
}

static bool same_value(const struct esp_item *a, const struct esp_item *b, int position) {
    return position < 0 || esp_value_cmp(&a->value[position], &b->value[position]) == 0;
}

/* A projected attribute that is no key: structural or in the payload. */
static bool same_included(const struct esp_schema *schema, const struct esp_item *a,
                          const struct esp_item *b, struct esp_str name) {
    int position = esp_schema_find_attr(schema, name);
    if (position >= 0) {
        return esp_value_equal(&a->value[position], &b->value[position]);
    }
    struct esp_str x, y;
    bool in_a = esp_data_find(a->data, name, &x), in_b = esp_data_find(b->data, name, &y);
    if (!in_a || !in_b) {
        return in_a == in_b;
    }
    return esp_value_equal(&(struct esp_value){ESP_TYPE_JSON, x, 0},
                           &(struct esp_value){ESP_TYPE_JSON, y, 0});
}

/* Both are in the index with the same key: does the entry stay as it is? */
static bool same_entry(const struct esp_schema *schema, const struct esp_index *index,
                       const struct esp_item *a, const struct esp_item *b) {
    if (index->projection == ESP_PROJECT_ALL) {
        return esp_item_equal(schema, a, b);
    }
    for (size_t i = 0; index->projection == ESP_PROJECT_INCLUDE && i < index->include_count; i++) {
        if (!same_included(schema, a, b, index->include[i])) {
            return false;
        }
    }
    return true;
}

static uint32_t entry_size(const struct esp_schema *schema, const struct esp_index *index,
                           const struct esp_item *item, uint32_t item_size) {
    if (!item) {
        return 0;
    }
    if (index->projection == ESP_PROJECT_ALL) { /* the item's size is known already */
        bool in_index = item->value[index->pk].type != ESP_TYPE_NONE &&
                        (index->sk < 0 || item->value[index->sk].type != ESP_TYPE_NONE);
        return in_index ? item_size : 0;
    }
    return esp_entry_size(schema, index, item);
}

void esp_meter_write(const struct esp_schema *schema, const struct esp_item *old,
                     const struct esp_item *new_item, bool transaction, struct esp_usage *usage) {
    uint32_t old_size = old ? esp_item_size(schema, old) : 0;
    uint32_t new_size = new_item ? esp_item_size(schema, new_item) : 0;
    usage->write.table +=
        esp_write_units(old_size > new_size ? old_size : new_size) * (transaction ? 2.0 : 1.0);
    usage->items_written++;
    usage->items_added += !old && new_item;
    usage->items_deleted += old && !new_item;
    usage->items_changed += old && new_item && !esp_item_equal(schema, old, new_item);
    usage->bytes_written += new_size;
    for (size_t i = 0; i < schema->index_count; i++) {
        const struct esp_index *index = &schema->index[i];
        uint32_t before = entry_size(schema, index, old, old_size);
        uint32_t after = entry_size(schema, index, new_item, new_size);
        double *arm = &usage->write.index[i];
        if (!before && !after) {
            continue;
        }
        if (!before || !after) {
            *arm += esp_write_units(before + after);
        } else if (!same_value(old, new_item, index->pk) || !same_value(old, new_item, index->sk)) {
            *arm += esp_write_units(before) + esp_write_units(after);
        } else if (!same_entry(schema, index, old, new_item)) {
            *arm += esp_write_units(before > after ? before : after);
        } else {
            continue; /* the entry is not touched */
        }
        usage->index_bytes_written += after;
    }
}

void esp_meter_check(const struct esp_schema *schema, const struct esp_item *item,
                     struct esp_usage *usage) {
    usage->write.table += 2.0 * esp_write_units(item ? esp_item_size(schema, item) : 0);
}

void esp_meter_get(uint32_t size, enum esp_consistency consistency, struct esp_usage *usage) {
    usage->read.table += esp_read_units(size, consistency != ESP_EVENTUAL) *
                         (consistency == ESP_TRANSACTION ? 2.0 : 1.0);
    usage->items_read += size > 0;
    usage->bytes_read += size;
}

void esp_meter_page(int index, uint64_t bytes, uint64_t items, bool strong,
                    struct esp_usage *usage) {
    double *arm = index == -1 ? &usage->read.table : &usage->read.index[index];
    *arm += esp_read_units(bytes, strong);
    usage->items_read += items;
    usage->bytes_read += bytes;
}

void esp_meter_fetch(uint32_t size, bool strong, struct esp_usage *usage) {
    usage->read.table += esp_read_units(size, strong);
    usage->bytes_read += size;
}
