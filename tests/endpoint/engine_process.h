#ifndef ESP_TESTS_ENDPOINT_ENGINE_PROCESS_H
#define ESP_TESTS_ENDPOINT_ENGINE_PROCESS_H
/* A DynamoDB engine as a child process on a free loopback port (see engines.sh). */
#include "tests/support/support.h"

#include <sys/types.h>

struct esp_test_engine {
    const char *name; /* "dynoxide", "dynamodb-local" */
    pid_t pid;
    char url[64]; /* http://127.0.0.1:PORT */
};

/* False when the engine could not be fetched: the caller skips. */
bool esp_test_engine_available(const char *name);
/* False when it does not accept connections within a minute. */
bool esp_test_engine_start(struct esp_test_engine *engine, const char *name);
void esp_test_engine_stop(struct esp_test_engine *engine);

#endif
