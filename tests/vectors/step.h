#ifndef ESP_TESTS_STEP_H
#define ESP_TESTS_STEP_H
/*
 * One step of a vector: a DynamoDB request as JSON, done as typed requests on sessions of a
 * store.  What it cost is in the usage of the sessions.
 */
#include <jansson.h>

#include "stores/store.h"

enum { VECTOR_TABLES_MAX = 4, VECTOR_TOKENS_MAX = 8, VECTOR_ACTIONS_MAX = 100 };

struct vector_table {
    const char *name; /* as in the vector: "$T" */
    struct esp_schema schema;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_usage before; /* the step under test */
};

/* A transaction that was done, for a replay with the same token: bytes of each item. */
struct vector_token {
    const char *token;
    size_t count;
    size_t table[VECTOR_ACTIONS_MAX];
    uint32_t bytes[VECTOR_ACTIONS_MAX];
};

struct vector_run {
    struct esp_store *store;
    struct vector_table table[VECTOR_TABLES_MAX];
    size_t table_count;
    struct vector_token token[VECTOR_TOKENS_MAX];
    size_t token_count;
    struct esp_arena arena;
    uint64_t returned; /* items the last step returned */
    bool refused;      /* the last step is one that DynamoDB does not do */
    bool more;         /* the last step ended with a LastEvaluatedKey */
    char problem[512]; /* why a step could not be done */
};

/* Make the vector's tables and open a session on each. */
bool vector_open_tables(struct vector_run *run, json_t *definitions);
void vector_close_tables(struct vector_run *run);
/* False: the step could not be understood, or it was refused (run->refused); the sentence is
 * in run->problem. */
bool vector_do(struct vector_run *run, const char *operation, json_t *request);

#endif
