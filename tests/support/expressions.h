#ifndef ESP_TESTS_EXPRESSIONS_H
#define ESP_TESTS_EXPRESSIONS_H
/*
 * DynamoDB's expressions as the test vectors use them, translated into typed conditions and
 * changes: terms joined by AND, and the clauses of an update.  Paths are attribute names
 * (#n or bare), operands are values (:v).  Test only: espalier itself builds no text to parse.
 */
#include <jansson.h>

#include "stores/store.h"

enum { ESP_TEST_TERMS_MAX = 16 };

/* What an expression refers to.  Everything is borrowed; results are in the arena. */
struct esp_expression {
    json_t *names, *values; /* ExpressionAttributeNames and -Values; may be NULL */
    const struct esp_schema *schema;
    struct esp_arena *arena;
    char problem[256]; /* why parsing failed */
};

/* A list of terms that all must hold.  `contains` has no typed form: the runner looks itself. */
struct esp_terms {
    struct esp_condition condition[ESP_TEST_TERMS_MAX];
    size_t count;
    struct esp_condition contains[ESP_TEST_TERMS_MAX]; /* name and lo */
    size_t contains_count;
};
bool esp_expression_terms(struct esp_expression *e, const char *text, struct esp_terms *out);

/* `current` is the item as it is (NULL: none): SET n = n + :x is a change by its value. */
struct esp_clauses {
    struct esp_change change[ESP_TEST_TERMS_MAX];
    size_t count;
};
bool esp_expression_update(struct esp_expression *e, const char *text,
                           const struct esp_item *current, struct esp_clauses *out);

/* Names of a projection, separated by commas. */
bool esp_expression_names(struct esp_expression *e, const char *text, struct esp_str *out,
                          size_t *count);
bool esp_expression_value(struct esp_expression *e, json_t *typed, struct esp_value *out);

#endif
