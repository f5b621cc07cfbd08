#include "converters/layout.h"

extern const struct esp_layout_ops esp_layout_adjacency;
const struct esp_layout_ops esp_layout_adjacency = {.name = "adjacency"};
