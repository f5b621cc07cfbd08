#ifndef ESP_TESTS_FAKE_ENDPOINT_H
#define ESP_TESTS_FAKE_ENDPOINT_H
/*
 * A DynamoDB endpoint of the tests: an HTTP server on a free loopback port that keeps
 * items in memory and does to each request what a script says.  One thread a connection;
 * the script is called under a lock.
 *
 * It knows as much as the tests need: tables with string keys, whole items, conditions of
 * one comparison, SET / REMOVE / ADD of one level, one page unless Limit is given, one
 * unit for everything.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum esp_fake_fault {
    ESP_FAKE_NONE,
    ESP_FAKE_ERROR_BEFORE, /* status and error name, nothing done */
    ESP_FAKE_ERROR_AFTER,  /* the same, but the request was carried out */
    ESP_FAKE_DROP_BEFORE,  /* connection closed without an answer, nothing done */
    ESP_FAKE_DROP_AFTER,   /* the same, but carried out */
    ESP_FAKE_TRUNCATE,     /* half an answer, then closed */
    ESP_FAKE_WRONG_CRC,
    ESP_FAKE_GARBAGE,     /* 200 without a checksum, and no JSON */
    ESP_FAKE_UNPROCESSED, /* batches: `keep` of their parts are left undone, none of others */
    ESP_FAKE_CONFLICT,    /* transactions: cancelled by TransactionConflict */
};

struct esp_fake_action {
    enum esp_fake_fault fault;
    int status;             /* of an error */
    const char *error_name; /* of an error; NULL: a body that is no JSON */
    size_t keep;            /* UNPROCESSED */
    unsigned delay_ms, retry_after_ms;
    bool chunked, no_crc, no_date;
    int64_t skew_s; /* added to the Date header and to the clock that checks X-Amz-Date */
};

struct esp_fake_request {
    const char *operation; /* "PutItem" */
    const char *head;      /* request line and headers */
    const char *body;
    uint64_t number; /* 0, 1, ... in order of arrival */
};
typedef struct esp_fake_action esp_fake_script_fn(void *ctx, const struct esp_fake_request *r);

struct esp_fake;
/* Fails the test when it cannot listen.  script NULL: no faults. */
struct esp_fake *esp_fake_start(esp_fake_script_fn *script, void *ctx);
void esp_fake_stop(struct esp_fake *fake);
const char *esp_fake_url(const struct esp_fake *fake); /* "http://127.0.0.1:PORT" */
void esp_fake_set_script(struct esp_fake *fake, esp_fake_script_fn *script, void *ctx);

/* A table with keys of type S (sk NULL: none) and, given, a global index on them. */
void esp_fake_add_table(struct esp_fake *fake, const char *name, const char *pk, const char *sk,
                        const char *index_pk);
uint64_t esp_fake_requests(struct esp_fake *fake);
size_t esp_fake_item_count(struct esp_fake *fake, const char *table);
/* The item as JSON, malloc'ed, or NULL; `key` as the partition key's text. */
char *esp_fake_item(struct esp_fake *fake, const char *table, const char *key);
/* An item with this attribute is refused by ValidationException, its batch with it. */
#define ESP_FAKE_POISON "poison"

#endif
