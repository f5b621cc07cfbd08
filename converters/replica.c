#include "converters/layout.h"

extern const struct esp_layout_ops esp_layout_replica;
const struct esp_layout_ops esp_layout_replica = {.name = "replica"};
