#ifndef ESP_TESTS_EXPAND_H
#define ESP_TESTS_EXPAND_H
/* The small language of the vector files: {"$rep":[s,n]}, {"$b64":[byte,n]}, {i} and {n}. */
#include <jansson.h>

/* A new value with everything spelled out; i < 0: {i} and {n} stand for themselves. */
json_t *esp_vector_expand(json_t *value, int i);

#endif
