#ifndef ESP_STORES_DYNAMODB_ANSWER_H
#define ESP_STORES_DYNAMODB_ANSWER_H
/*
 * Answers of DynamoDB taken apart in place: each item's text goes straight to
 * esp_item_parse, nothing is built in between.
 */
#include "stores/capacity.h"
#include "stores/dynamodb/json_scan.h"
#include "stores/dynamodb/retry.h"

/* The members of an answer as they are written; len == 0 = absent. */
struct esp_answer {
    struct esp_str item, items, attributes, responses, unprocessed, last_key, capacity, reasons;
    uint64_t count, scanned;
    bool broken;
};
/* Reads the top level once; everything is borrowed from `body`. */
void esp_answer_split(struct esp_str body, struct esp_answer *out);

/* Adds ConsumedCapacity to usage->billed_*; `write` says where, unless the answer does.
 * Returns the total. */
double esp_answer_bill(const struct esp_answer *answer, const struct esp_schema *schema, bool write,
                       struct esp_usage *usage);

/* Walks the only table of {"TABLE":[...]} or, `member` given, {"TABLE":{"member":[...]}};
 * an empty object is an empty list. */
bool esp_answer_table(struct esp_str object, const char *member, struct esp_json_walk *walk);

/* Why a transaction was cancelled: the first action that failed for good, else what may be
 * retried.  The sentence gets its position and the service's words. */
struct esp_failure esp_answer_cancelled(const struct esp_answer *answer, size_t actions,
                                        const struct esp_alloc *alloc, char *sentence, size_t size);

#endif
