#include "stores/dynamodb/sign.h"

#include <openssl/crypto.h>

enum { SIGN_TEXT_MAX = 1 << 20, BLOCK = 64 };

#define ALGORITHM  "AWS4-HMAC-SHA256"
#define TERMINATOR "aws4_request"

/* --- digests ----------------------------------------------------------------- */

enum esp_status esp_sha256_init(struct esp_sha256 *sha, struct esp_error *err) {
    sha->md = EVP_MD_fetch(NULL, "SHA256", NULL);
    sha->ctx = EVP_MD_CTX_new();
    if (!sha->md || !sha->ctx) {
        esp_sha256_fini(sha);
        return esp_fail(err, ESP_ERR_INTERNAL, "OpenSSL has no SHA-256 to sign requests with");
    }
    return ESP_OK;
}

void esp_sha256_fini(struct esp_sha256 *sha) {
    EVP_MD_CTX_free(sha->ctx);
    EVP_MD_free(sha->md);
    sha->ctx = NULL;
    sha->md = NULL;
}

/* Digest of `head` followed by `tail`. */
static bool digest2(struct esp_sha256 *sha, struct esp_str head, struct esp_str tail,
                    unsigned char out[ESP_SHA256_BYTES]) {
    return EVP_DigestInit_ex2(sha->ctx, sha->md, NULL) == 1 &&
           EVP_DigestUpdate(sha->ctx, head.ptr, head.len) == 1 &&
           EVP_DigestUpdate(sha->ctx, tail.ptr, tail.len) == 1 &&
           EVP_DigestFinal_ex(sha->ctx, out, NULL) == 1;
}

static struct esp_str bytes(const void *ptr, size_t len) {
    return (struct esp_str){ptr, len};
}

static bool hmac_pads(struct esp_sha256 *sha, struct esp_str key, unsigned char inner[BLOCK],
                      unsigned char outer[BLOCK]) {
    unsigned char block[BLOCK] = {0};
    if (key.len <= BLOCK) {
        memcpy(block, key.ptr, key.len);
    } else if (!digest2(sha, key, bytes("", 0), block)) {
        return false;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    OPENSSL_cleanse(block, sizeof block);
    return true;
}

static bool hmac_padded(struct esp_sha256 *sha, const unsigned char inner[BLOCK],
                        const unsigned char outer[BLOCK], struct esp_str text,
                        unsigned char out[ESP_SHA256_BYTES]) {
    return digest2(sha, bytes(inner, BLOCK), text, out) &&
           digest2(sha, bytes(outer, BLOCK), bytes(out, ESP_SHA256_BYTES), out);
}

static bool hmac(struct esp_sha256 *sha, struct esp_str key, struct esp_str text,
                 unsigned char out[ESP_SHA256_BYTES]) {
    unsigned char inner[BLOCK], outer[BLOCK];
    bool ok = hmac_pads(sha, key, inner, outer) && hmac_padded(sha, inner, outer, text, out);
    OPENSSL_cleanse(inner, sizeof inner);
    OPENSSL_cleanse(outer, sizeof outer);
    return ok;
}

static void put_hex(const unsigned char digest[ESP_SHA256_BYTES], char out[ESP_SHA256_HEX]) {
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < ESP_SHA256_BYTES; i++) {
        out[2 * i] = hex[digest[i] >> 4];
        out[2 * i + 1] = hex[digest[i] & 15];
    }
}

static enum esp_status digest_failed(struct esp_error *err) {
    return esp_fail(err, ESP_ERR_INTERNAL, "OpenSSL failed to compute a SHA-256 digest");
}

/* --- the steps --------------------------------------------------------------- */

struct keys {
    unsigned char date[ESP_SHA256_BYTES], region[ESP_SHA256_BYTES];
    unsigned char service[ESP_SHA256_BYTES], signing[ESP_SHA256_BYTES];
};

static bool derive_keys(struct esp_sha256 *sha, struct esp_buf *scratch, struct esp_str secret,
                        struct esp_str day, struct esp_str region, struct esp_str service,
                        struct keys *keys) {
    esp_buf_reset(scratch);
    ESP_BUF_LIT(scratch, "AWS4");
    esp_buf_put_str(scratch, secret);
    if (scratch->failed) {
        return false;
    }
    bool ok = hmac(sha, esp_buf_str(scratch), day, keys->date) &&
              hmac(sha, bytes(keys->date, ESP_SHA256_BYTES), region, keys->region) &&
              hmac(sha, bytes(keys->region, ESP_SHA256_BYTES), service, keys->service) &&
              hmac(sha, bytes(keys->service, ESP_SHA256_BYTES), ESP_STR(TERMINATOR), keys->signing);
    OPENSSL_cleanse(scratch->ptr, scratch->len);
    esp_buf_reset(scratch);
    return ok;
}

static void put_header_names(struct esp_buf *out, const struct esp_sign_header *headers,
                             size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            esp_buf_put_char(out, ';');
        }
        esp_buf_put_str(out, headers[i].name);
    }
}

/* Headers lower-case, trimmed and in order. */
static void put_canonical_request(struct esp_buf *out, struct esp_str method, struct esp_str path,
                                  struct esp_str query, const struct esp_sign_header *headers,
                                  size_t count, const char body_hash[ESP_SHA256_HEX]) {
    esp_buf_put_str(out, method);
    esp_buf_put_char(out, '\n');
    esp_buf_put_str(out, path);
    esp_buf_put_char(out, '\n');
    esp_buf_put_str(out, query);
    esp_buf_put_char(out, '\n');
    for (size_t i = 0; i < count; i++) {
        esp_buf_put_str(out, headers[i].name);
        esp_buf_put_char(out, ':');
        esp_buf_put_str(out, headers[i].value);
        esp_buf_put_char(out, '\n');
    }
    esp_buf_put_char(out, '\n');
    put_header_names(out, headers, count);
    esp_buf_put_char(out, '\n');
    esp_buf_put(out, body_hash, ESP_SHA256_HEX);
}

static void put_scope(struct esp_buf *out, const char *amz_date, struct esp_str region,
                      struct esp_str service) {
    esp_buf_put(out, amz_date, 8);
    esp_buf_put_char(out, '/');
    esp_buf_put_str(out, region);
    esp_buf_put_char(out, '/');
    esp_buf_put_str(out, service);
    ESP_BUF_LIT(out, "/" TERMINATOR);
}

static void put_string_to_sign(struct esp_buf *out, const char *amz_date, struct esp_str region,
                               struct esp_str service, const char request_hash[ESP_SHA256_HEX]) {
    ESP_BUF_LIT(out, ALGORITHM "\n");
    esp_buf_put(out, amz_date, ESP_AMZ_DATE_LEN);
    esp_buf_put_char(out, '\n');
    put_scope(out, amz_date, region, service);
    esp_buf_put_char(out, '\n');
    esp_buf_put(out, request_hash, ESP_SHA256_HEX);
}

static void put_credential(struct esp_buf *out, struct esp_str key_id, const char *amz_date,
                           struct esp_str region, struct esp_str service) {
    ESP_BUF_LIT(out, ALGORITHM " Credential=");
    esp_buf_put_str(out, key_id);
    esp_buf_put_char(out, '/');
    put_scope(out, amz_date, region, service);
    ESP_BUF_LIT(out, ", SignedHeaders=");
}

/* --- any request ------------------------------------------------------------- */

void esp_sign_trace_init(struct esp_sign_trace *trace, const struct esp_alloc *alloc) {
    memset(trace, 0, sizeof *trace);
    /* The body is not part of the text, so a limit on it is one on header bytes. */
    esp_buf_init(&trace->canonical_request, alloc, SIGN_TEXT_MAX);
    esp_buf_init(&trace->string_to_sign, alloc, SIGN_TEXT_MAX);
    esp_buf_init(&trace->authorization, alloc, SIGN_TEXT_MAX);
}

static void buf_cleanse(struct esp_buf *buf) {
    if (buf->ptr) {
        OPENSSL_cleanse(buf->ptr, buf->cap);
        esp_buf_fini(buf);
    }
}

void esp_sign_trace_fini(struct esp_sign_trace *trace) {
    buf_cleanse(&trace->canonical_request);
    buf_cleanse(&trace->string_to_sign);
    buf_cleanse(&trace->authorization);
    OPENSSL_cleanse(trace, sizeof *trace);
}

static void put_lower(struct esp_buf *out, struct esp_str s) {
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        esp_buf_put_char(out, c >= 'A' && c <= 'Z' ? (char)(c + 32) : c);
    }
}

/* Without blanks around it, and inner runs of blanks as one. */
static void put_trimmed(struct esp_buf *out, struct esp_str s) {
    size_t start = out->len;
    for (size_t i = 0; i < s.len; i++) {
        bool blank = s.ptr[i] == ' ' || s.ptr[i] == '\t';
        if (!blank) {
            esp_buf_put_char(out, s.ptr[i]);
        } else if (out->len > start && out->ptr[out->len - 1] != ' ') {
            esp_buf_put_char(out, ' ');
        }
    }
    if (out->len > start && out->ptr[out->len - 1] == ' ') {
        out->len--;
    }
}

/* Lower-case, trimmed and sorted copies of the headers; their bytes are in `text`. */
static bool normalise_headers(const struct esp_sign_input *in, struct esp_buf *text,
                              struct esp_sign_header out[ESP_SIGN_HEADERS_MAX]) {
    size_t name_at[ESP_SIGN_HEADERS_MAX], value_at[ESP_SIGN_HEADERS_MAX];
    size_t end_at[ESP_SIGN_HEADERS_MAX];
    for (size_t i = 0; i < in->header_count; i++) {
        name_at[i] = text->len;
        put_lower(text, in->headers[i].name);
        value_at[i] = text->len;
        put_trimmed(text, in->headers[i].value);
        end_at[i] = text->len;
    }
    if (text->failed) {
        return false;
    }
    for (size_t i = 0; i < in->header_count; i++) { /* the text no longer moves */
        struct esp_sign_header h = {bytes(text->ptr + name_at[i], value_at[i] - name_at[i]),
                                    bytes(text->ptr + value_at[i], end_at[i] - value_at[i])};
        size_t at = i;
        for (; at > 0 && esp_str_cmp(out[at - 1].name, h.name) > 0; at--) {
            out[at] = out[at - 1];
        }
        out[at] = h;
    }
    return true;
}

enum esp_status esp_sign(struct esp_sha256 *sha, const struct esp_sign_input *in,
                         struct esp_sign_trace *out, struct esp_error *err) {
    if (in->amz_date.len != ESP_AMZ_DATE_LEN || in->header_count > ESP_SIGN_HEADERS_MAX) {
        return esp_fail(err, ESP_ERR_INPUT, "cannot sign: %s",
                        in->amz_date.len != ESP_AMZ_DATE_LEN ? "X-Amz-Date is malformed"
                                                             : "too many headers");
    }
    const char *date = in->amz_date.ptr;
    struct keys keys;
    unsigned char digest[ESP_SHA256_BYTES];
    char hash[ESP_SHA256_HEX];
    struct esp_sign_header headers[ESP_SIGN_HEADERS_MAX];
    esp_buf_reset(&out->canonical_request);
    esp_buf_reset(&out->string_to_sign);
    esp_buf_reset(&out->authorization);

    if (!derive_keys(sha, &out->string_to_sign, in->secret, bytes(date, 8), in->region, in->service,
                     &keys) ||
        !digest2(sha, in->body, bytes("", 0), digest)) {
        return digest_failed(err);
    }
    memcpy(out->key_date, keys.date, ESP_SHA256_BYTES);
    memcpy(out->key_region, keys.region, ESP_SHA256_BYTES);
    memcpy(out->key_service, keys.service, ESP_SHA256_BYTES);
    memcpy(out->key_signing, keys.signing, ESP_SHA256_BYTES);
    OPENSSL_cleanse(&keys, sizeof keys);
    put_hex(digest, hash);
    struct esp_buf text;
    esp_buf_init(&text, out->authorization.alloc, SIGN_TEXT_MAX);
    if (normalise_headers(in, &text, headers)) {
        put_canonical_request(&out->canonical_request, in->method, in->path, in->query, headers,
                              in->header_count, hash);
        put_credential(&out->authorization, in->key_id, date, in->region, in->service);
        put_header_names(&out->authorization, headers, in->header_count);
    }
    bool ok =
        !text.failed && digest2(sha, esp_buf_str(&out->canonical_request), bytes("", 0), digest);
    buf_cleanse(&text);
    if (!ok) {
        return esp_fail_nomem(err);
    }
    put_hex(digest, hash);
    put_string_to_sign(&out->string_to_sign, date, in->region, in->service, hash);
    if (!hmac(sha, bytes(out->key_signing, ESP_SHA256_BYTES), esp_buf_str(&out->string_to_sign),
              digest)) {
        return digest_failed(err);
    }
    put_hex(digest, out->signature);
    ESP_BUF_LIT(&out->authorization, ", Signature=");
    esp_buf_put(&out->authorization, out->signature, ESP_SHA256_HEX);
    if (out->canonical_request.failed || out->string_to_sign.failed || out->authorization.failed) {
        return esp_fail_nomem(err);
    }
    return ESP_OK;
}

/* --- DynamoDB's requests ------------------------------------------------------ */

enum esp_status esp_signer_init(struct esp_signer *signer, const struct esp_alloc *alloc,
                                struct esp_error *err) {
    memset(signer, 0, sizeof *signer);
    esp_buf_init(&signer->canonical, alloc, SIGN_TEXT_MAX);
    esp_buf_init(&signer->credential, alloc, SIGN_TEXT_MAX);
    return esp_sha256_init(&signer->sha, err);
}

void esp_signer_fini(struct esp_signer *signer) {
    esp_sha256_fini(&signer->sha);
    buf_cleanse(&signer->canonical);
    buf_cleanse(&signer->credential);
    OPENSSL_cleanse(signer, sizeof *signer);
}

bool esp_signer_needs_key(const struct esp_signer *signer, const char *amz_date,
                          uint64_t generation) {
    return signer->generation != generation || memcmp(signer->day, amz_date, 8) != 0;
}

enum esp_status esp_signer_set_key(struct esp_signer *signer, const char *amz_date,
                                   uint64_t generation, struct esp_str key_id,
                                   struct esp_str secret, struct esp_str region,
                                   struct esp_error *err) {
    struct keys keys;
    bool ok = derive_keys(&signer->sha, &signer->canonical, secret, bytes(amz_date, 8), region,
                          ESP_STR("dynamodb"), &keys) &&
              hmac_pads(&signer->sha, bytes(keys.signing, ESP_SHA256_BYTES), signer->inner,
                        signer->outer);
    OPENSSL_cleanse(&keys, sizeof keys);
    esp_buf_reset(&signer->credential);
    put_credential(&signer->credential, key_id, amz_date, region, ESP_STR("dynamodb"));
    if (!ok || signer->credential.failed) {
        bool nomem = signer->credential.failed || signer->canonical.failed;
        return nomem ? esp_fail_nomem(err) : digest_failed(err);
    }
    memcpy(signer->day, amz_date, sizeof signer->day);
    signer->generation = generation;
    return ESP_OK;
}

enum esp_status esp_signer_sign(struct esp_signer *signer, const char *amz_date,
                                struct esp_str host, struct esp_str region, struct esp_str token,
                                struct esp_str target, struct esp_str body,
                                struct esp_buf *authorization, struct esp_error *err) {
    struct esp_sign_header headers[5] = {
        {ESP_STR("content-type"), ESP_STR(ESP_DYNAMODB_CONTENT_TYPE)},
        {ESP_STR("host"), host},
        {ESP_STR("x-amz-date"), bytes(amz_date, ESP_AMZ_DATE_LEN)}};
    size_t count = 3;
    if (token.len > 0) {
        headers[count++] = (struct esp_sign_header){ESP_STR("x-amz-security-token"), token};
    }
    headers[count++] = (struct esp_sign_header){ESP_STR("x-amz-target"), target};

    unsigned char digest[ESP_SHA256_BYTES];
    char hash[ESP_SHA256_HEX];
    struct esp_buf *text = &signer->canonical;
    if (!digest2(&signer->sha, body, bytes("", 0), digest)) {
        return digest_failed(err);
    }
    put_hex(digest, hash);
    esp_buf_reset(text);
    put_canonical_request(text, ESP_STR("POST"), ESP_STR("/"), bytes("", 0), headers, count, hash);
    if (text->failed || !digest2(&signer->sha, esp_buf_str(text), bytes("", 0), digest)) {
        return text->failed ? esp_fail_nomem(err) : digest_failed(err);
    }
    put_hex(digest, hash);
    esp_buf_reset(text);
    put_string_to_sign(text, amz_date, region, ESP_STR("dynamodb"), hash);
    if (text->failed ||
        !hmac_padded(&signer->sha, signer->inner, signer->outer, esp_buf_str(text), digest)) {
        return text->failed ? esp_fail_nomem(err) : digest_failed(err);
    }
    put_hex(digest, hash);
    esp_buf_put_str(authorization, esp_buf_str(&signer->credential));
    put_header_names(authorization, headers, count);
    ESP_BUF_LIT(authorization, ", Signature=");
    esp_buf_put(authorization, hash, ESP_SHA256_HEX);
    return authorization->failed ? esp_fail_nomem(err) : ESP_OK;
}
