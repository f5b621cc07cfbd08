#include "converters/layout.h"

extern const struct esp_layout_ops esp_layout_nested_set;
const struct esp_layout_ops esp_layout_nested_set = {.name = "nested-set"};
