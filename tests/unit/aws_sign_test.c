/*
 * Signatures compared with libcurl's own signer: it sends a request to a socket of this
 * test, which signs what arrived with the date that arrived and must get the same header.
 */
#include "core/rng.h"
#include "stores/dynamodb/sign.h"
#include "tests/support/support.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 40, REQUEST_BYTES_MAX = 1 << 17 };

/* One request at a time, kept whole. */
struct recorder {
    int listener, port;
    char bytes[REQUEST_BYTES_MAX + 1];
};

static void *record_one(void *arg) {
    struct recorder *r = arg;
    int fd = accept(r->listener, NULL, NULL);
    size_t len = 0, wanted = SIZE_MAX;
    while (len < wanted) {
        ssize_t got = recv(fd, r->bytes + len, REQUEST_BYTES_MAX - len, 0);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
        r->bytes[len] = '\0';
        const char *blank = strstr(r->bytes, "\r\n\r\n");
        const char *length = strcasestr(r->bytes, "\r\nContent-Length:");
        if (blank) {
            wanted = (size_t)(blank - r->bytes) + 4 + (length ? strtoul(length + 17, NULL, 10) : 0);
        }
    }
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    ssize_t sent = write(fd, answer, sizeof answer - 1);
    (void)sent;
    close(fd);
    return NULL;
}

static void recorder_open(struct recorder *r) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listener, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(r->listener, 4), 0);
    assert_int_equal(getsockname(r->listener, (struct sockaddr *)&address, &len), 0);
    r->port = ntohs(address.sin_port);
}

/* The value of a header that was recorded, in `out`. */
static void recorded(const struct recorder *r, const char *name, char *out, size_t size) {
    char word[64];
    snprintf(word, sizeof word, "\r\n%s:", name);
    const char *at = strcasestr(r->bytes, word);
    assert_non_null(at);
    at += strlen(word);
    at += strspn(at, " ");
    snprintf(out, size, "%.*s", (int)strcspn(at, "\r"), at);
}

static void random_text(struct esp_rng *rng, char *out, size_t len) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/+=";
    for (size_t i = 0; i < len; i++) {
        out[i] = letters[esp_rng_below(rng, sizeof letters - 1)];
    }
    out[len] = '\0';
}

struct round {
    char key_id[32], secret[48], token[400], body[8192];
    size_t body_len;
    bool has_token;
};

static void send_by_libcurl(struct recorder *r, const struct round *round) {
    char url[64], password[128], token[512];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, record_one, r), 0);
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = NULL;
    headers = curl_slist_append(headers, "Content-Type: application/x-amz-json-1.0");
    headers = curl_slist_append(headers, "X-Amz-Target: DynamoDB_20120810.PutItem");
    if (round->has_token) {
        snprintf(token, sizeof token, "X-Amz-Security-Token: %s", round->token);
        headers = curl_slist_append(headers, token);
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", r->port);
    snprintf(password, sizeof password, "%s:%s", round->key_id, round->secret);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:dynamodb");
    curl_easy_setopt(easy, CURLOPT_USERPWD, password);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, round->body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)round->body_len);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    assert_int_equal(curl_easy_perform(easy), CURLE_OK);
    curl_slist_free_all(headers);
    curl_easy_cleanup(easy);
    pthread_join(thread, NULL);
}

static void test_same_as_libcurl(void **state) {
    (void)state;
    static struct recorder recorder;
    struct esp_signer signer;
    struct esp_buf authorization;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_rng rng;
    esp_rng_init(&rng, 20261121, 0);
    recorder_open(&recorder);
    assert_ok(esp_signer_init(&signer, &esp_alloc_libc, &err), &err);
    esp_buf_init(&authorization, &esp_alloc_libc, 1 << 16);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        static struct round round;
        char theirs[2048], date[64], host[64];
        random_text(&rng, round.key_id, 1 + esp_rng_below(&rng, 24));
        random_text(&rng, round.secret, 1 + esp_rng_below(&rng, 44));
        round.has_token = esp_rng_below(&rng, 2);
        random_text(&rng, round.token, 1 + esp_rng_below(&rng, 300));
        round.body_len = esp_rng_below(&rng, sizeof round.body);
        for (size_t k = 0; k < round.body_len; k++) {
            round.body[k] = (char)esp_rng_below(&rng, 256);
        }
        send_by_libcurl(&recorder, &round);
        recorded(&recorder, "Authorization", theirs, sizeof theirs);
        recorded(&recorder, "X-Amz-Date", date, sizeof date);
        recorded(&recorder, "Host", host, sizeof host);
        assert_true(esp_signer_needs_key(&signer, date, i));
        assert_ok(esp_signer_set_key(&signer, date, i, esp_str_from(round.key_id),
                                     esp_str_from(round.secret), ESP_STR("us-east-1"), &err),
                  &err);
        assert_false(esp_signer_needs_key(&signer, date, i));
        esp_buf_reset(&authorization);
        struct esp_str token = esp_str_from(round.has_token ? round.token : "");
        assert_ok(esp_signer_sign(&signer, date, esp_str_from(host), ESP_STR("us-east-1"), token,
                                  ESP_STR("DynamoDB_20120810.PutItem"),
                                  (struct esp_str){round.body, round.body_len}, &authorization,
                                  &err),
                  &err);
        assert_string_equal(esp_buf_cstr(&authorization), theirs);
    }
    esp_buf_fini(&authorization);
    esp_signer_fini(&signer);
    close(recorder.listener);
}

static void test_key_is_of_its_day(void **state) {
    (void)state;
    struct esp_signer signer;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_signer_init(&signer, &esp_alloc_libc, &err), &err);
    assert_ok(esp_signer_set_key(&signer, "20261231T235959Z", 1, ESP_STR("k"), ESP_STR("s"),
                                 ESP_STR("us-east-1"), &err),
              &err);
    assert_false(esp_signer_needs_key(&signer, "20261231T000000Z", 1));
    assert_true(esp_signer_needs_key(&signer, "20270101T000000Z", 1));
    assert_true(esp_signer_needs_key(&signer, "20261231T000000Z", 2));
    esp_signer_fini(&signer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_libcurl),
        cmocka_unit_test(test_key_is_of_its_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
