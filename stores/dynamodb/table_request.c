/* Requests about tables: their keys, indexes and billing as DynamoDB wants them. */
#include "stores/dynamodb/request.h"

void esp_encode_table_name(struct esp_buf *out, const char *table) {
    ESP_BUF_LIT(out, "{\"TableName\":");
    esp_json_put_string(out, esp_str_from(table));
    esp_buf_put_char(out, '}');
}

static void put_key_schema(struct esp_buf *out, const struct esp_schema *schema, int pk, int sk) {
    ESP_BUF_LIT(out, "\"KeySchema\":[{\"KeyType\":\"HASH\",\"AttributeName\":");
    esp_json_put_string(out, schema->attr[pk].name);
    esp_buf_put_char(out, '}');
    if (sk >= 0) {
        ESP_BUF_LIT(out, ",{\"KeyType\":\"RANGE\",\"AttributeName\":");
        esp_json_put_string(out, schema->attr[sk].name);
        esp_buf_put_char(out, '}');
    }
    esp_buf_put_char(out, ']');
}

static void put_throughput(struct esp_buf *out, const struct esp_table_options *options) {
    if (options->billing == ESP_BILLING_PROVISIONED) {
        ESP_BUF_LIT(out, ",\"ProvisionedThroughput\":{\"ReadCapacityUnits\":");
        esp_buf_put_i64(out, options->provisioned_read ? (int64_t)options->provisioned_read : 1);
        ESP_BUF_LIT(out, ",\"WriteCapacityUnits\":");
        esp_buf_put_i64(out, options->provisioned_write ? (int64_t)options->provisioned_write : 1);
        esp_buf_put_char(out, '}');
    }
}

static void put_index(struct esp_buf *out, const struct esp_schema *schema,
                      const struct esp_index *index, const struct esp_table_options *options) {
    ESP_BUF_LIT(out, "{\"IndexName\":");
    esp_json_put_string(out, index->name);
    esp_buf_put_char(out, ',');
    put_key_schema(out, schema, index->pk, index->sk);
    ESP_BUF_LIT(out, ",\"Projection\":{\"ProjectionType\":");
    esp_json_put_string(out, esp_str_from(index->projection == ESP_PROJECT_ALL    ? "ALL"
                                          : index->projection == ESP_PROJECT_KEYS ? "KEYS_ONLY"
                                                                                  : "INCLUDE"));
    if (index->projection == ESP_PROJECT_INCLUDE) {
        ESP_BUF_LIT(out, ",\"NonKeyAttributes\":[");
        for (size_t i = 0; i < index->include_count; i++) {
            if (i > 0) {
                esp_buf_put_char(out, ',');
            }
            esp_json_put_string(out, index->include[i]);
        }
        esp_buf_put_char(out, ']');
    }
    esp_buf_put_char(out, '}');
    if (!index->local) {
        put_throughput(out, options);
    }
    esp_buf_put_char(out, '}');
}

static void put_indexes(struct esp_buf *out, const struct esp_schema *schema, bool local,
                        const struct esp_table_options *options) {
    bool any = false;
    for (size_t i = 0; i < schema->index_count; i++) {
        if (schema->index[i].local != local) {
            continue;
        }
        esp_buf_put_str(out, any     ? ESP_STR(",")
                             : local ? ESP_STR(",\"LocalSecondaryIndexes\":[")
                                     : ESP_STR(",\"GlobalSecondaryIndexes\":["));
        put_index(out, schema, &schema->index[i], options);
        any = true;
    }
    if (any) {
        esp_buf_put_char(out, ']');
    }
}

/* Exactly the attributes that are in a key: others are refused. */
static void put_definitions(struct esp_buf *out, const struct esp_schema *schema) {
    static const char *const letters[] = {
        [ESP_TYPE_S] = "S", [ESP_TYPE_N] = "N", [ESP_TYPE_B] = "B"};
    bool any = false;
    ESP_BUF_LIT(out, ",\"AttributeDefinitions\":[");
    for (int i = 0; i < (int)schema->attr_count; i++) {
        if (!esp_schema_is_key(schema, i)) {
            continue;
        }
        esp_buf_put_str(out,
                        any ? ESP_STR(",{\"AttributeName\":") : ESP_STR("{\"AttributeName\":"));
        esp_json_put_string(out, schema->attr[i].name);
        ESP_BUF_LIT(out, ",\"AttributeType\":");
        enum esp_type type = schema->attr[i].type;
        esp_json_put_string(
            out, esp_str_from(type == ESP_TYPE_N || type == ESP_TYPE_B ? letters[type] : "S"));
        esp_buf_put_char(out, '}');
        any = true;
    }
    esp_buf_put_char(out, ']');
}

void esp_encode_create_table(struct esp_buf *out, const char *table,
                             const struct esp_schema *schema,
                             const struct esp_table_options *options) {
    ESP_BUF_LIT(out, "{\"TableName\":");
    esp_json_put_string(out, esp_str_from(table));
    if (options->billing == ESP_BILLING_PROVISIONED) {
        put_throughput(out, options);
        ESP_BUF_LIT(out, ",\"BillingMode\":\"PROVISIONED\",");
    } else {
        ESP_BUF_LIT(out, ",\"BillingMode\":\"PAY_PER_REQUEST\",");
    }
    put_key_schema(out, schema, schema->pk, schema->sk);
    put_definitions(out, schema);
    put_indexes(out, schema, true, options);
    put_indexes(out, schema, false, options);
    esp_buf_put_char(out, '}');
}
