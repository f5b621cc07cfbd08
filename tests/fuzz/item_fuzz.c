/* Items as DynamoDB JSON: what is accepted has one canonical text, and its size and digest. */
#include <string.h>

#include "stores/item.h"
#include "tests/fuzz/fuzz.h"

enum { ARENA_BYTES_MAX = 64 << 20 };

static struct esp_schema fuzz_schema(void) {
    struct esp_schema s = {.attr_count = 3, .pk = 0, .sk = 1, .index_count = 1};
    s.attr[0] = (struct esp_attr){ESP_STR("p"), ESP_TYPE_S};
    s.attr[1] = (struct esp_attr){ESP_STR("s"), ESP_TYPE_N};
    s.attr[2] = (struct esp_attr){ESP_STR("x"), ESP_TYPE_NONE};
    s.index[0] = (struct esp_index){
        .pk = 2, .sk = -1, .projection = ESP_PROJECT_INCLUDE, .include = {ESP_STR("a")}};
    s.index[0].include_count = 1;
    return s;
}

static struct esp_str encode(const struct esp_schema *schema, const struct esp_item *item,
                             struct esp_buf *out) {
    esp_buf_reset(out);
    esp_buf_put_char(out, '{');
    esp_item_put_json(out, schema, item);
    esp_buf_put_char(out, '}');
    fuzz_require(!out->failed);
    return esp_buf_str(out);
}

static void walk(struct esp_data data, struct esp_arena *arena) {
    struct esp_member member;
    struct esp_str found;
    uint32_t sum = 0, size;
    size_t pos = 0;
    while (esp_data_next(data, &pos, arena, &member)) {
        struct esp_value value;
        fuzz_require(esp_json_value_size(member.value, &size, NULL) == ESP_OK);
        fuzz_require(esp_value_parse(member.value, arena, &value, NULL) == ESP_OK);
        fuzz_require(esp_value_size(&value) == size);
        fuzz_require(esp_value_equal(&value, &value));
        fuzz_require(esp_data_find(data, member.name, &found));
        sum += (uint32_t)member.name.len + size;
    }
    fuzz_require(sum == data.size);
}

static void check_item(const struct esp_schema *schema, const struct esp_item *item,
                       struct esp_arena *arena) {
    struct esp_buf one, two;
    struct esp_item again;
    struct esp_data merged;
    esp_buf_init(&one, &esp_alloc_libc, ARENA_BYTES_MAX);
    esp_buf_init(&two, &esp_alloc_libc, ARENA_BYTES_MAX);
    struct esp_str text = encode(schema, item, &one);
    fuzz_require(esp_item_parse(schema, text, arena, &again, NULL) == ESP_OK);
    fuzz_require(esp_str_eq(text, encode(schema, &again, &two)));
    fuzz_require(esp_item_size(schema, item) == esp_item_size(schema, &again));
    fuzz_require(esp_item_equal(schema, item, &again));
    fuzz_require(esp_item_digest(schema, item) == esp_item_digest(schema, &again));
    fuzz_require(esp_entry_size(schema, &schema->index[0], item) <= esp_item_size(schema, item));
    enum esp_status status = esp_item_check(schema, item, NULL);
    fuzz_require(status == ESP_OK || status == ESP_ERR_REFUSED || status == ESP_ERR_LIMIT);
    walk(item->data, arena);
    if (esp_data_merge(item->data, (struct esp_data){0}, NULL, 0, arena, &merged, NULL) == ESP_OK) {
        fuzz_require(esp_data_equal(item->data, merged));
    }
    esp_buf_reset(&two);
    esp_data_put_plain_json(&two, item->data);
    fuzz_require(!two.failed);
    esp_buf_fini(&one);
    esp_buf_fini(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct esp_schema schema = fuzz_schema();
    struct esp_str text = {(const char *)data, size};
    struct esp_arena arena;
    struct esp_item item;
    struct esp_error err = ESP_ERROR_INIT;
    esp_arena_init(&arena, &esp_alloc_libc, ARENA_BYTES_MAX);
    enum esp_status status = esp_item_parse(&schema, text, &arena, &item, &err);
    fuzz_require(status == ESP_OK || status == ESP_ERR_INPUT || status == ESP_ERR_REFUSED);
    fuzz_require(err.status == status);
    if (status == ESP_OK) {
        check_item(&schema, &item, &arena);
    }
    esp_arena_fini(&arena);
    return 0;
}
