/* Numbers: what is accepted has one canonical form, one order and one sum. */
#include <string.h>

#include "core/number.h"
#include "tests/fuzz/fuzz.h"

static void check_key(const struct esp_number *a, const struct esp_number *b) {
    unsigned char ka[ESP_NUMBER_KEY_MAX], kb[ESP_NUMBER_KEY_MAX];
    size_t la = esp_number_key(a, ka), lb = esp_number_key(b, kb);
    fuzz_require(la >= 1 && la <= ESP_NUMBER_KEY_MAX && lb >= 1 && lb <= ESP_NUMBER_KEY_MAX);
    int order = memcmp(ka, kb, la < lb ? la : lb);
    order = order ? order : (la > lb) - (la < lb);
    order = (order > 0) - (order < 0);
    fuzz_require(order == esp_number_cmp(a, b));
    fuzz_require(order == -esp_number_cmp(b, a));
}

static void check_one(const struct esp_number *n) {
    char text[ESP_NUMBER_TEXT_MAX], again_text[ESP_NUMBER_TEXT_MAX];
    struct esp_number again, sum, minus = *n;
    size_t len = esp_number_format(n, text);
    fuzz_require(len >= 1 && len <= ESP_NUMBER_TEXT_MAX);
    fuzz_require(esp_number_parse((struct esp_str){text, len}, &again, NULL) == ESP_OK);
    fuzz_require(esp_number_cmp(n, &again) == 0);
    fuzz_require(esp_number_format(&again, again_text) == len);
    fuzz_require(memcmp(text, again_text, len) == 0);
    uint32_t size = esp_number_size(n);
    fuzz_require(size >= 1 && size <= 21);
    int64_t integer;
    if (esp_number_to_i64(n, &integer)) {
        fuzz_require(esp_number_size_i64(integer) == size);
        esp_number_from_i64(integer, &again);
        fuzz_require(esp_number_cmp(n, &again) == 0);
    }
    minus.sign = (int8_t)-minus.sign;
    fuzz_require(esp_number_add(n, &minus, &sum, NULL) == ESP_OK && sum.sign == 0);
}

/* Two numbers with a line end between them. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *split = size ? memchr(data, '\n', size) : NULL;
    size_t len = split ? (size_t)(split - data) : size;
    struct esp_str left = {(const char *)data, len};
    struct esp_str right = split ? (struct esp_str){(const char *)split + 1, size - len - 1} : left;
    struct esp_number a, b, ab, ba;
    if (esp_number_parse(left, &a, NULL) != ESP_OK) {
        return 0;
    }
    check_one(&a);
    if (esp_number_parse(right, &b, NULL) != ESP_OK) {
        return 0;
    }
    check_one(&b);
    check_key(&a, &b);
    enum esp_status status = esp_number_add(&a, &b, &ab, NULL);
    fuzz_require(status == ESP_OK || status == ESP_ERR_LIMIT);
    fuzz_require(esp_number_add(&b, &a, &ba, NULL) == status);
    if (status == ESP_OK) {
        check_one(&ab);
        fuzz_require(esp_number_cmp(&ab, &ba) == 0);
    }
    return 0;
}
