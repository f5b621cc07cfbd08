#ifndef ESP_TESTS_EDIT_CASES_H
#define ESP_TESTS_EDIT_CASES_H
/* Edits of the drives forest, the same ones for every layout, and what tests of them share. */
#include "tests/conformance/suite.h"

#include "loader/images.h"

struct edit_case {
    const char *name;
    enum esp_op op;
    const char *at, *to, *id; /* "": none */
};
extern const struct edit_case edit_cases[];
extern const size_t edit_case_count;

/* The arguments; the subtree of insert-subtree is a forest made at the first call. */
struct esp_args edit_args(const struct edit_case *c);
void edit_cases_fini(void);

/* A memory store that has no trials, as endpoints have none; close it with esp_store_close. */
struct esp_store *store_without_trials(const struct esp_clock *clock);

/* Digest of all items of the table, locks included. */
uint64_t table_digest(struct suite_table *t);
/* Findings of the layout's check. */
size_t count_findings(struct suite_table *t);
/* Another session of the same table, with its own scratch and error. */
void second_session(struct suite_table *t, const struct suite_table *first);
void second_session_close(struct suite_table *t);

/* The plan of a case, in t->scratch. */
enum esp_status plan_case(struct suite_table *t, const struct edit_case *c,
                          struct esp_images *images);

#endif
