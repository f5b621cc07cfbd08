#ifndef ESP_TESTS_BY_PLAN_H
#define ESP_TESTS_BY_PLAN_H
/* Write operations done in two steps: recorded as a plan, then carried out stage by stage. */
#include "tests/conformance/suite.h"

/* Fails the test when recording writes something, when a key occurs twice in the plan, or when
 * an item that the plan relies on is not in the table as it says.  The outcome is that of the
 * recording, or of the first stage that failed: ERR_CONDITION for what the operation done at once
 * calls ERR_EXISTS or ERR_NOT_FOUND. */
enum esp_status by_plan(struct suite_table *t, enum esp_op op, const struct esp_args *args);

#endif
