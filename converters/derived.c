#include "converters/layout.h"

esp_op_fn *const esp_derived[ESP_OP_COUNT_ALL] = {NULL};
