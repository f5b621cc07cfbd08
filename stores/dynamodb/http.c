#include "stores/dynamodb/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { CONNECT_TIMEOUT_MS = 10000 };

enum esp_status esp_http_init(struct esp_http *http, unsigned connections, struct esp_error *err) {
    http->running = 0;
    http->multi = curl_multi_init();
    if (!http->multi) {
        return esp_fail_nomem(err);
    }
    curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, (long)connections);
    curl_multi_setopt(http->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    return ESP_OK;
}

void esp_http_fini(struct esp_http *http) {
    if (http->multi) {
        curl_multi_cleanup(http->multi);
        http->multi = NULL;
    }
}

/* --- what libcurl calls -------------------------------------------------------- */

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx) {
    struct esp_exchange *x = ctx;
    esp_buf_put(&x->answer, bytes, size * count);
    return x->answer.failed ? 0 : size * count;
}

/* The value of header line `line` when its name is `name`, with its end cut off. */
static bool header_value(struct esp_str line, const char *name, char *out, size_t out_size) {
    size_t len = strlen(name);
    if (line.len <= len || line.ptr[len] != ':' || strncasecmp(line.ptr, name, len) != 0) {
        return false;
    }
    const char *at = line.ptr + len + 1, *end = line.ptr + line.len;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (end > at && (unsigned char)end[-1] <= ' ') {
        end--;
    }
    len = (size_t)(end - at) < out_size ? (size_t)(end - at) : out_size - 1;
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

static size_t on_header(char *bytes, size_t size, size_t count, void *ctx) {
    struct esp_exchange *x = ctx;
    struct esp_str line = {bytes, size * count};
    char value[80];
    switch (line.len ? bytes[0] | 0x20 : 0) {
    case 'x':
        if (header_value(line, "x-amz-crc32", value, sizeof value)) {
            x->has_crc32 = true;
            x->crc32 = (uint32_t)strtoul(value, NULL, 10);
        } else if (header_value(line, "x-amz-retry-after", value, sizeof value)) {
            x->retry_after_ms = strtoul(value, NULL, 10);
        } else {
            header_value(line, "x-amzn-errortype", x->error_name, sizeof x->error_name);
        }
        break;
    case 'd':
        header_value(line, "date", x->date, sizeof x->date);
        break;
    case 'a':
        x->cached = x->cached || header_value(line, "age", value, sizeof value);
        break;
    default:
        break;
    }
    return line.len;
}

/* libcurl sends a request again, unasked, when a kept connection turns out to be closed.
 * The first one may have been carried out, so that is for the caller to decide. */
static int on_send(void *ctx, char *primary_ip, char *local_ip, int primary_port, int local_port) {
    struct esp_exchange *x = ctx;
    (void)primary_ip;
    (void)local_ip;
    (void)primary_port;
    (void)local_port;
    return ++x->sends > 1 ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

/* --- exchanges ------------------------------------------------------------------- */

enum esp_status esp_exchange_init(struct esp_exchange *x, const struct esp_http_place *place,
                                  const struct esp_alloc *alloc, struct esp_error *err) {
    memset(x, 0, sizeof *x);
    esp_buf_init(&x->answer, alloc, ESP_HTTP_ANSWER_BYTES_MAX);
    CURL *easy = x->easy = curl_easy_init();
    if (!easy) {
        return esp_fail_nomem(err);
    }
    bool ok = curl_easy_setopt(easy, CURLOPT_URL, place->url) == CURLE_OK;
    ok = ok && (!place->ca_bundle ||
                curl_easy_setopt(easy, CURLOPT_CAINFO, place->ca_bundle) == CURLE_OK);
    ok = ok && (!place->direct || curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK);
    if (!ok) {
        return esp_fail_nomem(err);
    }
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_send);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, x);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, x->problem);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, x);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, x->headers);
    return ESP_OK;
}

void esp_exchange_fini(struct esp_http *http, struct esp_exchange *x) {
    if (x->easy) {
        esp_http_abort(http, x);
        curl_easy_cleanup(x->easy);
        x->easy = NULL;
    }
    if (x->answer.alloc) {
        esp_buf_fini(&x->answer);
    }
}

enum esp_status esp_http_start(struct esp_http *http, struct esp_exchange *x,
                               const char *const *headers, size_t count, struct esp_str body,
                               uint64_t timeout_ms, struct esp_error *err) {
    for (size_t i = 0; i < count; i++) { /* libcurl only reads them */
        x->headers[i].data = (char *)(uintptr_t)headers[i];
        x->headers[i].next = i + 1 < count ? &x->headers[i + 1] : NULL;
    }
    esp_buf_reset(&x->answer);
    x->sends = 0;
    x->has_crc32 = x->cached = false;
    x->retry_after_ms = 0;
    x->date[0] = x->error_name[0] = x->problem[0] = '\0';
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, body.ptr ? body.ptr : "");
    curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.len);
    curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    if (curl_multi_add_handle(http->multi, x->easy) != CURLM_OK) {
        return esp_fail_nomem(err);
    }
    x->running = true;
    http->running++;
    return ESP_OK;
}

enum esp_status esp_http_drive(struct esp_http *http, int wait_ms, struct esp_error *err) {
    int still = 0;
    CURLMcode code = CURLM_OK;
    if (wait_ms > 0) {
        code = curl_multi_poll(http->multi, NULL, 0, wait_ms, NULL);
    }
    if (code == CURLM_OK) {
        code = curl_multi_perform(http->multi, &still);
    }
    return code == CURLM_OK ? ESP_OK
           : code == CURLM_OUT_OF_MEMORY
               ? esp_fail_nomem(err)
               : esp_fail(err, ESP_ERR_INTERNAL, "libcurl: %s", curl_multi_strerror(code));
}

static enum esp_http_outcome outcome_of(const struct esp_exchange *x, CURLcode code) {
    switch (code) {
    case CURLE_OK:
        return ESP_HTTP_ANSWERED;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return ESP_HTTP_REFUSED;
    case CURLE_OUT_OF_MEMORY:
        return ESP_HTTP_NOMEM;
    default:
        return x->answer.failed ? ESP_HTTP_NOMEM : x->sends == 0 ? ESP_HTTP_UNSENT : ESP_HTTP_LOST;
    }
}

struct esp_exchange *esp_http_finished(struct esp_http *http) {
    int left;
    CURLMsg *message = curl_multi_info_read(http->multi, &left);
    if (!message) {
        return NULL;
    }
    struct esp_exchange *x = NULL;
    CURLcode code = message->data.result;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &x);
    curl_multi_remove_handle(http->multi, x->easy); /* `message` is gone from here on */
    x->running = false;
    http->running--;
    x->outcome = outcome_of(x, code);
    x->status = 0;
    if (x->outcome == ESP_HTTP_ANSWERED) {
        curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &x->status);
    } else if (x->sends > 1 || x->problem[0] == '\0') {
        snprintf(x->problem, sizeof x->problem, "%s",
                 x->sends > 1 ? "the connection was closed before the answer"
                              : curl_easy_strerror(code));
    }
    return x;
}

void esp_http_abort(struct esp_http *http, struct esp_exchange *x) {
    if (x->running) {
        curl_multi_remove_handle(http->multi, x->easy);
        x->running = false;
        http->running--;
    }
}
