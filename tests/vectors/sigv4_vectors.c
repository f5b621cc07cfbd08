/*
 * Runs the signature vectors: every intermediate value that a vector gives is checked.
 *
 *   sigv4_vectors [FILE]      tests/vectors/sigv4-vectors.json without FILE
 *
 * Prints what differs and "N passed, N failed"; exit code 1 when a vector failed.
 */
#include "stores/dynamodb/sign.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct run {
    struct esp_sha256 sha;
    unsigned passed, failed;
};

static struct esp_str member(const json_t *object, const char *name) {
    const json_t *text = json_object_get(object, name);
    return (struct esp_str){json_string_value(text), json_string_length(text)};
}

static bool differs(const char *id, const char *what, struct esp_str expected, struct esp_str got) {
    if (expected.ptr && !esp_str_eq(expected, got)) {
        printf("%s: %s differs\n  expected %.*s\n  got      %.*s\n", id, what, ESP_FMT(expected),
               ESP_FMT(got));
        return true;
    }
    return false;
}

static bool key_differs(const char *id, const char *what, const json_t *expect,
                        const unsigned char key[ESP_SHA256_BYTES]) {
    char hex[ESP_SHA256_HEX + 1];
    for (size_t i = 0; i < ESP_SHA256_BYTES; i++) {
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    }
    return differs(id, what, member(expect, what), (struct esp_str){hex, ESP_SHA256_HEX});
}

/* What DynamoDB's own signer, with its cached key, makes of the same request. */
static bool signer_differs(const char *id, const struct esp_sign_input *in, struct esp_str host,
                           struct esp_str token, struct esp_str target, struct esp_str expected) {
    struct esp_signer signer;
    struct esp_buf out;
    struct esp_error err = ESP_ERROR_INIT;
    esp_buf_init(&out, &esp_alloc_libc, 1 << 16);
    enum esp_status status = esp_signer_init(&signer, &esp_alloc_libc, &err);
    if (status == ESP_OK) {
        status = esp_signer_set_key(&signer, in->amz_date.ptr, 1, in->key_id, in->secret,
                                    in->region, &err);
    }
    if (status == ESP_OK) {
        status = esp_signer_sign(&signer, in->amz_date.ptr, host, in->region, token, target,
                                 in->body, &out, &err);
    }
    bool wrong =
        status != ESP_OK || differs(id, "authorization (cached key)", expected, esp_buf_str(&out));
    esp_signer_fini(&signer);
    esp_buf_fini(&out);
    return wrong;
}

static void check(struct run *run, const char *id, const struct esp_sign_input *in,
                  const json_t *expect) {
    struct esp_sign_trace trace;
    struct esp_error err = ESP_ERROR_INIT;
    unsigned wrong = 0;
    esp_sign_trace_init(&trace, &esp_alloc_libc);
    if (esp_sign(&run->sha, in, &trace, &err) != ESP_OK) {
        printf("%s: %s\n", id, err.message);
        wrong++;
    } else {
        wrong += differs(id, "canonicalRequest", member(expect, "canonicalRequest"),
                         esp_buf_str(&trace.canonical_request));
        wrong += differs(id, "stringToSign", member(expect, "stringToSign"),
                         esp_buf_str(&trace.string_to_sign));
        wrong += key_differs(id, "kDate", expect, trace.key_date);
        wrong += key_differs(id, "kRegion", expect, trace.key_region);
        wrong += key_differs(id, "kService", expect, trace.key_service);
        wrong += key_differs(id, "signingKey", expect, trace.key_signing);
        wrong += differs(id, "signature", member(expect, "signature"),
                         (struct esp_str){trace.signature, ESP_SHA256_HEX});
        wrong += differs(id, "authorization", member(expect, "authorization"),
                         esp_buf_str(&trace.authorization));
    }
    esp_sign_trace_fini(&trace);
    run->passed += wrong == 0;
    run->failed += wrong != 0;
}

static void run_vector(struct run *run, const json_t *vector) {
    const json_t *input = json_object_get(vector, "input");
    const json_t *expect = json_object_get(vector, "expect");
    const char *id = json_string_value(json_object_get(vector, "id"));
    struct esp_sign_header headers[ESP_SIGN_HEADERS_MAX];
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(input, "headers"), name, value) {
        if (count < ESP_SIGN_HEADERS_MAX) {
            headers[count++] = (struct esp_sign_header){esp_str_from(name),
                                                        esp_str_from(json_string_value(value))};
        }
    }
    const json_t *all = json_object_get(input, "headers");
    struct esp_sign_input in = {.method = member(input, "method"),
                                .path = member(input, "path"),
                                .query = member(input, "query"),
                                .headers = headers,
                                .header_count = count,
                                .body = member(input, "body"),
                                .key_id = member(input, "access_key_id"),
                                .secret = member(input, "secret_access_key"),
                                .region = member(input, "region"),
                                .service = member(input, "service"),
                                .amz_date = member(all, "x-amz-date")};
    check(run, id ? id : "(no id)", &in, expect);
    if (esp_str_eq(in.service, ESP_STR("dynamodb")) && member(all, "x-amz-target").len &&
        signer_differs(id, &in, member(all, "host"), member(all, "x-amz-security-token"),
                       member(all, "x-amz-target"), member(expect, "authorization"))) {
        run->failed++;
    }
}

/* The public vectors of aws-c-auth give only a signature: their requests are these. */
static void run_public(struct run *run, const json_t *vector) {
    static const char token[] = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
    static const char form_hash[] =
        "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"; /* sent as a header */
    static const struct {
        const char *id, *method, *body;
        struct esp_sign_header extra[3];
        size_t extra_count;
    } known[] = {
        {"aws-c-auth/get-vanilla", "GET", "", {{{0, 0}, {0, 0}}}, 0},
        {"aws-c-auth/get-vanilla-with-session-token",
         "GET",
         "",
         {{{"X-Amz-Security-Token", 20}, {token, sizeof token - 1}}},
         1},
        {"aws-c-auth/post-vanilla", "POST", "", {{{0, 0}, {0, 0}}}, 0},
        {"aws-c-auth/post-header-key-sort", "POST", "", {{{"My-Header1", 10}, {"value1", 6}}}, 1},
        {"aws-c-auth/post-header-key-case", "POST", "", {{{0, 0}, {0, 0}}}, 0},
        {"aws-c-auth/post-header-value-case", "POST", "", {{{"My-Header1", 10}, {"VALUE1", 6}}}, 1},
        {"aws-c-auth/get-header-value-trim",
         "GET",
         "",
         {{{"My-Header1", 10}, {" value1", 7}}, {{"My-Header2", 10}, {" \"a   b   c\"", 12}}},
         2},
        {"aws-c-auth/post-x-www-form-urlencoded",
         "POST",
         "Param1=value1",
         {{{"Content-Type", 12}, {"application/x-www-form-urlencoded", 33}},
          {{"Content-Length", 14}, {"13", 2}},
          {{"X-Amz-Content-Sha256", 20}, {form_hash, sizeof form_hash - 1}}},
         3},
    };
    struct esp_str id = member(vector, "id");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!esp_str_eq(id, esp_str_from(known[i].id))) {
            continue;
        }
        struct esp_sign_header headers[5] = {{ESP_STR("Host"), ESP_STR("example.amazonaws.com")},
                                             {ESP_STR("X-Amz-Date"), ESP_STR("20150830T123600Z")}};
        memcpy(headers + 2, known[i].extra, sizeof known[i].extra);
        struct esp_sign_input in = {
            .method = esp_str_from(known[i].method),
            .path = ESP_STR("/"),
            .query = ESP_STR(""),
            .headers = headers,
            .header_count = 2 + known[i].extra_count,
            .body = esp_str_from(known[i].body),
            .key_id = ESP_STR("AKIDEXAMPLE"),
            .secret = ESP_STR("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            .region = ESP_STR("us-east-1"),
            .service = ESP_STR("service"),
            .amz_date = ESP_STR("20150830T123600Z"),
        };
        check(run, known[i].id, &in, vector);
        return;
    }
    printf("%.*s: the request of this public vector is not known here\n", ESP_FMT(id));
    run->failed++;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "tests/vectors/sigv4-vectors.json";
    struct run run = {.passed = 0};
    struct esp_error err = ESP_ERROR_INIT;
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why), *vector;
    size_t i;
    if (!root || esp_sha256_init(&run.sha, &err) != ESP_OK) {
        fprintf(stderr, "sigv4_vectors: %s: %s\n", path, root ? err.message : why.text);
        return 1;
    }
    json_array_foreach(json_object_get(root, "public_signatures"), i, vector) {
        run_public(&run, vector);
    }
    json_array_foreach(json_object_get(root, "vectors"), i, vector) {
        run_vector(&run, vector);
    }
    json_decref(root);
    esp_sha256_fini(&run.sha);
    printf("%u passed, %u failed\n", run.passed, run.failed);
    return run.failed || run.passed == 0;
}
