#ifndef ESP_STORES_DYNAMODB_SIGN_H
#define ESP_STORES_DYNAMODB_SIGN_H
/*
 * AWS Signature Version 4 (shared facts sheet 1.4).
 *
 * esp_sign does one request of any shape and keeps every intermediate value;
 * esp_signer is the same with the key of the day and the digest kept between requests.
 * Knows nothing about HTTP or about where credentials come from.  One thread each.
 */
#include "core/mem.h"
#include <openssl/evp.h>

enum {
    ESP_SHA256_BYTES = 32,
    ESP_SHA256_HEX = 64,
    ESP_AMZ_DATE_LEN = 16,     /* 20261121T054500Z */
    ESP_SIGN_HEADERS_MAX = 32, /* signed headers of one request */
};

/* SHA-256 fetched once, with a context that is used again and again. */
struct esp_sha256 {
    EVP_MD *md;
    EVP_MD_CTX *ctx;
};
enum esp_status esp_sha256_init(struct esp_sha256 *sha, struct esp_error *err) ESP_MUST_CHECK;
void esp_sha256_fini(struct esp_sha256 *sha); /* zeroed is fine */

struct esp_sign_header {
    struct esp_str name, value;
};

/* What is signed; everything borrowed. */
struct esp_sign_input {
    struct esp_str method, path, query;    /* path and query as they are sent */
    const struct esp_sign_header *headers; /* in any order and case; all of them are signed */
    size_t header_count;
    struct esp_str body;
    struct esp_str key_id, secret, region, service;
    struct esp_str amz_date; /* ESP_AMZ_DATE_LEN bytes */
};

/* Every intermediate value; buffers are owned, esp_sign_trace_fini zeroes and frees them. */
struct esp_sign_trace {
    struct esp_buf canonical_request, string_to_sign, authorization;
    unsigned char key_date[ESP_SHA256_BYTES], key_region[ESP_SHA256_BYTES];
    unsigned char key_service[ESP_SHA256_BYTES], key_signing[ESP_SHA256_BYTES];
    char signature[ESP_SHA256_HEX];
};
void esp_sign_trace_init(struct esp_sign_trace *trace, const struct esp_alloc *alloc);
void esp_sign_trace_fini(struct esp_sign_trace *trace);

/* ERR_INPUT for a malformed date or too many headers; ERR_NOMEM. */
enum esp_status esp_sign(struct esp_sha256 *sha, const struct esp_sign_input *in,
                         struct esp_sign_trace *out, struct esp_error *err) ESP_MUST_CHECK;

/* The signer of one session: DynamoDB's fixed set of headers, the key of the day cached. */
struct esp_signer {
    struct esp_sha256 sha;
    char day[8];             /* the day `inner` and `outer` are for */
    uint64_t generation;     /* of the credentials they are for; 0 = none yet */
    unsigned char inner[64]; /* signing key xor ipad, and xor opad: HMAC without its key setup */
    unsigned char outer[64];
    struct esp_buf canonical;  /* scratch */
    struct esp_buf credential; /* "Credential=AK/day/region/dynamodb/aws4_request, " */
};
enum esp_status esp_signer_init(struct esp_signer *signer, const struct esp_alloc *alloc,
                                struct esp_error *err) ESP_MUST_CHECK;
void esp_signer_fini(struct esp_signer *signer); /* zeroes the keys; zeroed is fine */
/* Whether esp_signer_set_key must be called before signing for this day. */
bool esp_signer_needs_key(const struct esp_signer *signer, const char *amz_date,
                          uint64_t generation);
enum esp_status esp_signer_set_key(struct esp_signer *signer, const char *amz_date,
                                   uint64_t generation, struct esp_str key_id,
                                   struct esp_str secret, struct esp_str region,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* Appends the Authorization header's value for a POST / of `body`.  `token` may be
 * empty.  The key must have been set.  ERR_NOMEM, ERR_INTERNAL. */
enum esp_status esp_signer_sign(struct esp_signer *signer, const char *amz_date,
                                struct esp_str host, struct esp_str region, struct esp_str token,
                                struct esp_str target, struct esp_str body,
                                struct esp_buf *authorization,
                                struct esp_error *err) ESP_MUST_CHECK;

#define ESP_DYNAMODB_CONTENT_TYPE "application/x-amz-json-1.0"

#endif
