/* Requests as the text that is sent, and answers taken apart, whole or cut anywhere. */
#include "stores/dynamodb/answer.h"
#include "stores/dynamodb/request.h"
#include "tests/support/support.h"

#include <stdio.h>

static const struct esp_schema schema = {
    .attr = {{{"ID", 2}, ESP_TYPE_S},
             {{"Depth", 5}, ESP_TYPE_N},
             {{"Root", 4}, ESP_TYPE_S},
             {{"Path", 4}, ESP_TYPE_S}},
    .attr_count = 4,
    .pk = 0,
    .sk = 1,
    .index = {{.name = {"gsi1", 4}, .pk = 2, .sk = 3},
              {.name = {"lsi", 3},
               .pk = 0,
               .sk = 3,
               .local = true,
               .projection = ESP_PROJECT_INCLUDE,
               .include = {{"a", 1}, {"b", 1}},
               .include_count = 2}},
    .index_count = 2,
};

struct fixture {
    struct esp_request_encoder encoder;
    struct esp_buf out;
    struct esp_item item;
};

static int set_up(void **state) {
    static struct fixture f;
    memset(&f, 0, sizeof f);
    esp_request_encoder_init(&f.encoder, "t", &schema, &esp_alloc_libc);
    esp_buf_init(&f.out, &esp_alloc_libc, 1 << 20);
    f.item.value[0] = esp_s(ESP_STR("a\"\n"));
    f.item.value[1] = esp_n(-3);
    f.item.value[2] = esp_s(ESP_STR("r"));
    f.item.value[3] = esp_s(ESP_STR("/x/"));
    f.item.data = (struct esp_data){"\"n\":{\"S\":\"v\"}", 13, 2};
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    esp_request_encoder_fini(&f->encoder);
    esp_buf_fini(&f->out);
    return 0;
}

#define KEY      "\"ID\":{\"S\":\"a\\\"\\n\"},\"Depth\":{\"N\":\"-3\"}"
#define ITEM     KEY ",\"Root\":{\"S\":\"r\"},\"Path\":{\"S\":\"/x/\"},\"n\":{\"S\":\"v\"}"
#define CAPACITY "\"ReturnConsumedCapacity\":\"INDEXES\""

static void assert_request(struct fixture *f, const struct esp_request *r,
                           enum esp_operation operation, const char *expected) {
    esp_buf_reset(&f->out);
    assert_int_equal(
        esp_encode_request(&f->encoder, r, "0123456789abcdef0123456789abcdef", &f->out), operation);
    assert_string_equal(esp_buf_cstr(&f->out), expected);
}

static void test_gets(void **state) {
    struct fixture *f = *state;
    struct esp_item keys[2] = {f->item, f->item};
    struct esp_request r = {.kind = ESP_REQ_GET, .get = {keys, 1, ESP_STRONG}};
    assert_request(f, &r, ESP_OP_GET_ITEM,
                   "{\"TableName\":\"t\"," CAPACITY ",\"ConsistentRead\":true,\"Key\":{" KEY "}}");
    r.get.n = 2;
    r.get.consistency = ESP_EVENTUAL;
    assert_request(f, &r, ESP_OP_BATCH_GET_ITEM,
                   "{" CAPACITY ",\"RequestItems\":{\"t\":{\"Keys\":[{" KEY "},{" KEY "}]}}}");
    r.get.n = 1;
    r.get.consistency = ESP_TRANSACTION;
    assert_request(f, &r, ESP_OP_TRANSACT_GET_ITEMS,
                   "{" CAPACITY ",\"TransactItems\":[{\"Get\":{\"TableName\":\"t\",\"Key\":{" KEY
                   "}}}]}");
}

static void test_query(void **state) {
    struct fixture *f = *state;
    struct esp_condition filter[] = {
        {.name = ESP_STR("ignored"), .op = ESP_ANY},
        {.name = ESP_STR("Level"), .op = ESP_BETWEEN, .lo = esp_n(1), .hi = esp_n(2)},
        {.name = ESP_STR("x"), .op = ESP_NE, .lo = esp_n(0)}};
    struct esp_query q = {.index = 0,
                          .pk = esp_s(ESP_STR("r")),
                          .op = ESP_PREFIX,
                          .lo = esp_s(ESP_STR("/x")),
                          .filter = filter,
                          .filter_count = 3,
                          .consistent = true, /* not for a global index */
                          .reverse = true,
                          .limit = 7};
    struct esp_cursor cursor = {.set = true, .key = f->item};
    struct esp_request r = {.kind = ESP_REQ_QUERY, .query = &q, .cursor = &cursor};
    assert_request(
        f, &r, ESP_OP_QUERY,
        "{\"TableName\":\"t\"," CAPACITY ",\"IndexName\":\"gsi1\",\"Limit\":7,\"ScanIndexForward\":"
        "false,\"ExclusiveStartKey\":{" KEY ",\"Root\":{\"S\":\"r\"},\"Path\":{\"S\":\"/x/\"}},"
        "\"KeyConditionExpression\":\"#n0 = :v0 AND begins_with(#n1,:v1)\",\"FilterExpression\":"
        "\"#n2 BETWEEN :v2 AND :v3 AND #n3 <> :v4\",\"ExpressionAttributeNames\":{\"#n0\":\"Root\","
        "\"#n1\":\"Path\",\"#n2\":\"Level\",\"#n3\":\"x\"},\"ExpressionAttributeValues\":{\":v0\":"
        "{\"S\":\"r\"},\":v1\":{\"S\":\"/x\"},\":v2\":{\"N\":\"1\"},\":v3\":{\"N\":\"2\"},\":v4\":"
        "{\"N\":\"0\"}}}");
    q = (struct esp_query){
        .index = 1, .pk = esp_s(ESP_STR("r")), .fetch = true, .consistent = true};
    cursor.set = false;
    assert_request(f, &r, ESP_OP_QUERY,
                   "{\"TableName\":\"t\"," CAPACITY
                   ",\"IndexName\":\"lsi\",\"ConsistentRead\":true,\"Select\":\"ALL_ATTRIBUTES\","
                   "\"KeyConditionExpression\":\"#n0 = :v0\",\"ExpressionAttributeNames\":{\"#n0\":"
                   "\"ID\"},\"ExpressionAttributeValues\":{\":v0\":{\"S\":\"r\"}}}");
}

static void test_scan(void **state) {
    struct fixture *f = *state;
    struct esp_scan s = {.index = ESP_PRIMARY, .segment = 2, .segments = 3, .consistent = true};
    struct esp_request r = {.kind = ESP_REQ_SCAN, .scan = &s};
    assert_request(f, &r, ESP_OP_SCAN,
                   "{\"TableName\":\"t\"," CAPACITY
                   ",\"ConsistentRead\":true,\"Segment\":2,\"TotalSegments\":3}");
}

static void test_writes(void **state) {
    struct fixture *f = *state;
    struct esp_condition is_new = {.name = ESP_STR("ID"), .op = ESP_NOT_EXISTS};
    struct esp_change changes[] = {{ESP_CHANGE_REMOVE, ESP_STR("gone"), {0}},
                                   {ESP_CHANGE_SET, ESP_STR("Path"), esp_s(ESP_STR("/y/"))},
                                   {ESP_CHANGE_ADD, ESP_STR("sum"), esp_n(1)},
                                   {ESP_CHANGE_SET, ESP_STR("z"), esp_n(2)}};
    struct esp_write w = {
        .kind = ESP_PUT, .item = f->item, .condition = &is_new, .condition_count = 1};
    struct esp_request r = {.kind = ESP_REQ_WRITE, .write = {&w, 1}};
    assert_request(f, &r, ESP_OP_PUT_ITEM,
                   "{\"TableName\":\"t\"," CAPACITY ",\"ReturnValues\":\"ALL_OLD\",\"Item\":{" ITEM
                   "},\"ConditionExpression\":\"attribute_not_exists(#n0)\","
                   "\"ExpressionAttributeNames\":{\"#n0\":\"ID\"}}");
    w = (struct esp_write){
        .kind = ESP_UPDATE, .item = f->item, .changes = changes, .change_count = 4};
    assert_request(
        f, &r, ESP_OP_UPDATE_ITEM,
        "{\"TableName\":\"t\"," CAPACITY ",\"ReturnValues\":\"ALL_OLD\",\"Key\":{" KEY
        "},\"UpdateExpression\":\"SET #n0 = :v0, #n1 = :v1 REMOVE #n2 ADD #n3 :v2\","
        "\"ExpressionAttributeNames\":{\"#n0\":\"Path\",\"#n1\":\"z\",\"#n2\":\"gone\","
        "\"#n3\":\"sum\"},\"ExpressionAttributeValues\":{\":v0\":{\"S\":\"/y/\"},\":v1\":"
        "{\"N\":\"2\"},\":v2\":{\"N\":\"1\"}}}");
    struct esp_write two[2] = {{.kind = ESP_PUT, .item = f->item},
                               {.kind = ESP_DELETE, .item = f->item}};
    r.write.w = two;
    r.write.n = 2;
    assert_request(f, &r, ESP_OP_BATCH_WRITE_ITEM,
                   "{" CAPACITY ",\"RequestItems\":{\"t\":[{\"PutRequest\":{\"Item\":{" ITEM
                   "}}},{\"DeleteRequest\":{\"Key\":{" KEY "}}}]}}");
    two[1].kind = ESP_CHECK;
    two[1].condition = &is_new;
    two[1].condition_count = 1;
    r.kind = ESP_REQ_TRANSACT;
    assert_request(f, &r, ESP_OP_TRANSACT_WRITE_ITEMS,
                   "{" CAPACITY ",\"ClientRequestToken\":\"0123456789abcdef0123456789abcdef\","
                   "\"TransactItems\":[{\"Put\":{\"TableName\":\"t\",\"Item\":{" ITEM
                   "}}},{\"ConditionCheck\":{\"TableName\":\"t\",\"Key\":{" KEY
                   "},\"ConditionExpression\":\"attribute_not_exists(#n0)\","
                   "\"ExpressionAttributeNames\":{\"#n0\":\"ID\"}}}]}");
}

static void test_create_table(void **state) {
    struct fixture *f = *state;
    struct esp_table_options provisioned = {ESP_BILLING_PROVISIONED, 5, 7};
#define UNITS "\"ProvisionedThroughput\":{\"ReadCapacityUnits\":5,\"WriteCapacityUnits\":7}"
    esp_encode_create_table(&f->out, "t", &schema, &provisioned);
    assert_string_equal(
        esp_buf_cstr(&f->out),
        "{\"TableName\":\"t\"," UNITS
        ",\"BillingMode\":\"PROVISIONED\",\"KeySchema\":[{\"KeyType\":"
        "\"HASH\",\"AttributeName\":\"ID\"},{\"KeyType\":\"RANGE\",\"AttributeName\":\"Depth\"}],"
        "\"AttributeDefinitions\":[{\"AttributeName\":\"ID\",\"AttributeType\":\"S\"},"
        "{\"AttributeName\":\"Depth\",\"AttributeType\":\"N\"},{\"AttributeName\":\"Root\","
        "\"AttributeType\":\"S\"},{\"AttributeName\":\"Path\",\"AttributeType\":\"S\"}],"
        "\"LocalSecondaryIndexes\":[{\"IndexName\":\"lsi\",\"KeySchema\":[{\"KeyType\":\"HASH\","
        "\"AttributeName\":\"ID\"},{\"KeyType\":\"RANGE\",\"AttributeName\":\"Path\"}],"
        "\"Projection\":{\"ProjectionType\":\"INCLUDE\",\"NonKeyAttributes\":[\"a\",\"b\"]}}],"
        "\"GlobalSecondaryIndexes\":[{\"IndexName\":\"gsi1\",\"KeySchema\":[{\"KeyType\":\"HASH\","
        "\"AttributeName\":\"Root\"},{\"KeyType\":\"RANGE\",\"AttributeName\":\"Path\"}],"
        "\"Projection\":{\"ProjectionType\":\"ALL\"}," UNITS "}]}");
}

/* --- answers ------------------------------------------------------------------------------ */

static const char page[] =
    "{ \"Items\" : [ {\"ID\":{\"S\":\"x\\\\\"}}, {\"ID\":{\"S\":\"]}\\\"\"}} ] ,\"Count\":2,"
    "\"ScannedCount\":12,\"LastEvaluatedKey\":{\"ID\":{\"S\":\"y\"}},\"Unknown\":[{},[1,\"]\"]],"
    "\"ConsumedCapacity\":{\"TableName\":\"t\",\"CapacityUnits\":4.5,\"Table\":{\"CapacityUnits\":"
    "1},\"GlobalSecondaryIndexes\":{\"gsi1\":{\"CapacityUnits\":2.0},\"other\":{\"CapacityUnits\":"
    "1.0}},\"LocalSecondaryIndexes\":{\"lsi\":{\"CapacityUnits\":0.5}}}}";

static void test_page(void **state) {
    (void)state;
    struct esp_answer answer;
    struct esp_json_walk walk;
    struct esp_str item;
    struct esp_usage usage = {0};
    esp_answer_split(ESP_STR(page), &answer);
    assert_false(answer.broken);
    assert_int_equal(answer.count, 2);
    assert_int_equal(answer.scanned, 12);
    assert_true(esp_str_eq(answer.last_key, ESP_STR("{\"ID\":{\"S\":\"y\"}}")));
    assert_true(esp_json_array(answer.items, &walk));
    assert_true(esp_json_element(&walk, &item));
    assert_true(esp_str_eq(item, ESP_STR("{\"ID\":{\"S\":\"x\\\\\"}}")));
    assert_true(esp_json_element(&walk, &item));
    assert_true(esp_str_eq(item, ESP_STR("{\"ID\":{\"S\":\"]}\\\"\"}}")));
    assert_false(esp_json_element(&walk, &item));
    assert_false(walk.broken);
    assert_true(esp_answer_bill(&answer, &schema, false, &usage) == 4.5);
    assert_true(usage.billed);
    assert_true(usage.billed_read.table == 2.0); /* with the index that is not known */
    assert_true(usage.billed_read.index[0] == 2.0);
    assert_true(usage.billed_read.index[1] == 0.5);
    assert_true(esp_units_total(&usage.billed_write) == 0);
}

static void test_cut_anywhere(void **state) {
    (void)state;
    for (size_t len = 0; len < sizeof page - 1; len++) {
        struct esp_answer answer;
        char *copy = test_malloc(len ? len : 1); /* its end is the end of memory */
        memcpy(copy, page, len);
        esp_answer_split((struct esp_str){copy, len}, &answer);
        assert_true(answer.broken);
        test_free(copy);
    }
}

static void test_replayed_transaction_is_a_read(void **state) {
    (void)state;
    struct esp_answer answer;
    struct esp_usage usage = {0};
    esp_answer_split(ESP_STR("{\"ConsumedCapacity\":[{\"TableName\":\"t\",\"CapacityUnits\":4,"
                             "\"ReadCapacityUnits\":4}]}"),
                     &answer);
    esp_answer_bill(&answer, &schema, true, &usage);
    assert_true(usage.billed_read.table == 4);
    assert_true(usage.billed_write.table == 0);
}

static void test_unprocessed(void **state) {
    (void)state;
    struct esp_json_walk walk;
    struct esp_str key;
    assert_false(esp_answer_table(ESP_STR("{}"), "Keys", &walk));
    assert_false(esp_json_element(&walk, &key));
    assert_true(esp_answer_table(ESP_STR("{\"t\":{\"ConsistentRead\":true,\"Keys\":[{},{}]}}"),
                                 "Keys", &walk));
    assert_true(esp_json_element(&walk, &key) && esp_json_element(&walk, &key));
    assert_false(esp_json_element(&walk, &key));
}

static void assert_cancelled(const char *reasons, enum esp_verdict verdict, enum esp_status status,
                             const char *sentence) {
    char text[200], body[400];
    struct esp_answer answer;
    int len = snprintf(body, sizeof body, "{\"CancellationReasons\":%s}", reasons);
    esp_answer_split((struct esp_str){body, (size_t)len}, &answer);
    struct esp_failure why = esp_answer_cancelled(&answer, 3, &esp_alloc_libc, text, sizeof text);
    assert_int_equal(why.verdict, verdict);
    assert_int_equal(why.status, status);
    assert_string_equal(text, sentence);
}

static void test_cancelled_transactions(void **state) {
    (void)state;
    assert_cancelled("[{\"Code\":\"None\"},{\"Code\":\"ThrottlingError\"},{\"Code\":"
                     "\"ConditionalCheckFailed\",\"Message\":\"The \\u0063heck\"}]",
                     ESP_VERDICT_FINAL, ESP_ERR_CONDITION,
                     "action 3 of 3: ConditionalCheckFailed: The check");
    assert_cancelled("[{\"Code\":\"None\"},{\"Code\":\"TransactionConflict\"}]",
                     ESP_VERDICT_CONFLICT, ESP_ERR_CONFLICT, "action 2 of 3: TransactionConflict");
    assert_cancelled("[{\"Code\":\"ProvisionedThroughputExceeded\"}]", ESP_VERDICT_THROTTLED,
                     ESP_ERR_THROTTLED, "action 1 of 3: ProvisionedThroughputExceeded");
    assert_cancelled("[{\"Code\":\"ValidationError\"},{\"Code\":\"ConditionalCheckFailed\"}]",
                     ESP_VERDICT_FINAL, ESP_ERR_REFUSED, "action 1 of 3: ValidationError");
    assert_cancelled("null", ESP_VERDICT_FINAL, ESP_ERR_REFUSED,
                     "TransactionCanceledException without reasons");
}

static void test_strings(void **state) {
    (void)state;
    struct esp_buf out;
    esp_buf_init(&out, &esp_alloc_libc, 100);
    assert_true(esp_json_put_text(&out, ESP_STR("\"a\\\"\\/\\n\\u00e9\\ud83d\\ude00\\ud800z\"")));
    assert_string_equal(esp_buf_cstr(&out), "a\"/\n\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbdz");
    assert_false(esp_json_put_text(&out, ESP_STR("5")));
    assert_false(esp_json_put_text(&out, ESP_STR("\"\\x\"")));
    assert_false(esp_json_put_text(&out, ESP_STR("\"\\u12\"")));
    assert_true(esp_json_number(ESP_STR("1.795239664961E9")) == 1795239664.961);
    assert_true(esp_json_number(ESP_STR("\"5\"")) == 0);
    esp_buf_fini(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_gets),
        TEST(test_query),
        TEST(test_scan),
        TEST(test_writes),
        TEST(test_create_table),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_replayed_transaction_is_a_read),
        cmocka_unit_test(test_unprocessed),
        cmocka_unit_test(test_cancelled_transactions),
        cmocka_unit_test(test_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
