#include "stores/dynamodb/answer.h"

#include <stdio.h>

void esp_answer_split(struct esp_str body, struct esp_answer *out) {
    struct esp_json_walk walk;
    struct esp_str name, value;
    memset(out, 0, sizeof *out);
    const struct {
        struct esp_str name;
        struct esp_str *to;
    } members[] = {
        {ESP_STR("Item"), &out->item},
        {ESP_STR("Items"), &out->items},
        {ESP_STR("Attributes"), &out->attributes},
        {ESP_STR("Responses"), &out->responses},
        {ESP_STR("UnprocessedItems"), &out->unprocessed},
        {ESP_STR("UnprocessedKeys"), &out->unprocessed},
        {ESP_STR("LastEvaluatedKey"), &out->last_key},
        {ESP_STR("ConsumedCapacity"), &out->capacity},
        {ESP_STR("CancellationReasons"), &out->reasons},
    };
    esp_json_object(body, &walk);
    while (esp_json_member(&walk, &name, &value)) {
        if (esp_str_eq(name, ESP_STR("Count"))) {
            out->count = (uint64_t)esp_json_number(value);
        } else if (esp_str_eq(name, ESP_STR("ScannedCount"))) {
            out->scanned = (uint64_t)esp_json_number(value);
        }
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            if (esp_str_eq(name, members[i].name)) {
                bool absent = value.len == 4 && memcmp(value.ptr, "null", 4) == 0;
                *members[i].to = absent ? (struct esp_str){NULL, 0} : value;
            }
        }
    }
    out->broken = walk.broken;
}

/* --- capacity -------------------------------------------------------------------- */

static double units_of(struct esp_str arm) {
    return esp_json_number(esp_json_find(arm, "CapacityUnits"));
}

static void add_arms(struct esp_str arms, const struct esp_schema *schema,
                     struct esp_units *units) {
    struct esp_json_walk walk;
    struct esp_str name, arm;
    esp_json_object(arms, &walk);
    while (esp_json_member(&walk, &name, &arm)) {
        double *to =
            &units->table; /* an index this schema does not know is paid for all the same */
        for (size_t i = 0; i < schema->index_count; i++) {
            if (esp_str_eq(name, schema->index[i].name)) {
                to = &units->index[i];
            }
        }
        *to += units_of(arm);
    }
}

static double bill_one(struct esp_str capacity, const struct esp_schema *schema, bool write,
                       struct esp_usage *usage) {
    struct esp_units units = {0};
    struct esp_str table = esp_json_find(capacity, "Table");
    if (table.len) {
        units.table = units_of(table);
        add_arms(esp_json_find(capacity, "GlobalSecondaryIndexes"), schema, &units);
        add_arms(esp_json_find(capacity, "LocalSecondaryIndexes"), schema, &units);
    } else {
        units.table = units_of(capacity);
    }
    /* A replayed transaction is billed as a read (facts sheet 4.5). */
    bool as_read = esp_json_number(esp_json_find(capacity, "ReadCapacityUnits")) > 0 &&
                   esp_json_number(esp_json_find(capacity, "WriteCapacityUnits")) == 0;
    esp_units_add(write && !as_read ? &usage->billed_write : &usage->billed_read, &units);
    usage->billed = true;
    return esp_units_total(&units);
}

double esp_answer_bill(const struct esp_answer *answer, const struct esp_schema *schema, bool write,
                       struct esp_usage *usage) {
    if (answer->capacity.len == 0) {
        return 0;
    }
    struct esp_json_walk walk;
    struct esp_str one;
    double sum = 0;
    if (!esp_json_array(answer->capacity, &walk)) {
        return bill_one(answer->capacity, schema, write, usage);
    }
    while (esp_json_element(&walk, &one)) {
        sum += bill_one(one, schema, write, usage);
    }
    return sum;
}

bool esp_answer_table(struct esp_str object, const char *member, struct esp_json_walk *walk) {
    struct esp_json_walk tables;
    struct esp_str name, value;
    if (object.len && esp_json_object(object, &tables) && esp_json_member(&tables, &name, &value)) {
        return esp_json_array(member ? esp_json_find(value, member) : value, walk);
    }
    *walk = (struct esp_json_walk){NULL, NULL, true, true};
    return false;
}

/* --- cancelled transactions -------------------------------------------------------- */

static struct esp_failure reason_failure(struct esp_str code) {
    if (esp_str_eq(code, ESP_STR("\"TransactionConflict\""))) {
        return (struct esp_failure){ESP_VERDICT_CONFLICT, ESP_ERR_CONFLICT, false, false};
    }
    if (esp_str_eq(code, ESP_STR("\"ThrottlingError\"")) ||
        esp_str_eq(code, ESP_STR("\"ProvisionedThroughputExceeded\""))) {
        return (struct esp_failure){ESP_VERDICT_THROTTLED, ESP_ERR_THROTTLED, false, false};
    }
    bool condition = esp_str_eq(code, ESP_STR("\"ConditionalCheckFailed\"")) ||
                     esp_str_eq(code, ESP_STR("\"DuplicateItem\""));
    return (struct esp_failure){ESP_VERDICT_FINAL, condition ? ESP_ERR_CONDITION : ESP_ERR_REFUSED,
                                false, false};
}

struct esp_failure esp_answer_cancelled(const struct esp_answer *answer, size_t actions,
                                        const struct esp_alloc *alloc, char *sentence,
                                        size_t size) {
    struct esp_failure worst = {ESP_VERDICT_FINAL, ESP_ERR_REFUSED, false, false};
    struct esp_json_walk walk;
    struct esp_str reason;
    struct esp_buf text;
    bool any = false;
    esp_buf_init(&text, alloc, 64 << 10);
    snprintf(sentence, size, "TransactionCanceledException without reasons");
    esp_json_array(answer->reasons, &walk);
    for (size_t i = 1; esp_json_element(&walk, &reason); i++) {
        struct esp_str code = esp_json_find(reason, "Code");
        if (code.len < 2 || esp_str_eq(code, ESP_STR("\"None\"")) || code.ptr[0] != '"') {
            continue;
        }
        struct esp_failure failure = reason_failure(code);
        if (any && (failure.verdict != ESP_VERDICT_FINAL || worst.verdict == ESP_VERDICT_FINAL)) {
            continue;
        }
        any = true;
        worst = failure;
        esp_buf_reset(&text);
        esp_json_put_text(&text, esp_json_find(reason, "Message"));
        snprintf(sentence, size, "action %zu of %zu: %.*s%s%.*s", i, actions, (int)code.len - 2,
                 code.ptr + 1, text.len ? ": " : "", ESP_FMT(esp_buf_str(&text)));
    }
    esp_buf_fini(&text);
    return worst;
}
