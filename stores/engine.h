#ifndef ESP_STORES_ENGINE_H
#define ESP_STORES_ENGINE_H
/* DynamoDB's semantics over an ordered key-value store: what memory: and local: share. */
#include "stores/store.h"

#endif
