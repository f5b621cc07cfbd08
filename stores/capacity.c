#include "stores/capacity.h"

void esp_units_add(struct esp_units *sum, const struct esp_units *part) {
    (void)sum, (void)part;
}

void esp_usage_add(struct esp_usage *sum, const struct esp_usage *part) {
    (void)sum, (void)part;
}

double esp_write_units(uint64_t bytes) {
    (void)bytes;
    return 0;
}

double esp_read_units(uint64_t bytes, bool strong) {
    (void)bytes, (void)strong;
    return 0;
}

void esp_meter_write(const struct esp_schema *schema, const struct esp_item *old,
                     const struct esp_item *new_item, bool transaction, struct esp_usage *usage) {
    (void)schema, (void)old, (void)new_item, (void)transaction, (void)usage;
}

void esp_meter_check(const struct esp_schema *schema, const struct esp_item *item,
                     struct esp_usage *usage) {
    (void)schema, (void)item, (void)usage;
}

void esp_meter_get(uint32_t size, enum esp_consistency consistency, struct esp_usage *usage) {
    (void)size, (void)consistency, (void)usage;
}

void esp_meter_page(int index, uint64_t bytes, uint64_t items, bool strong,
                    struct esp_usage *usage) {
    (void)index, (void)bytes, (void)items, (void)strong, (void)usage;
}

void esp_meter_fetch(uint32_t size, bool strong, struct esp_usage *usage) {
    (void)size, (void)strong, (void)usage;
}
