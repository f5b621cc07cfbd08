#include "converters/layout.h"

extern const struct esp_layout_ops esp_layout_path;
const struct esp_layout_ops esp_layout_path = {.name = "path"};
