/* The reader, with .gz and .zst recognised: runs, lines and peeks see the same bytes. */
#include "core/reader.h"
#include "tests/fuzz/fuzz.h"

enum { OUTPUT_MAX = 4 << 20 }; /* compressed zeros grow a thousandfold */

static enum esp_status read_all(struct esp_str input, bool lines, uint64_t *bytes, uint64_t *digest,
                                struct esp_error *err) {
    struct esp_reader *in;
    struct esp_str part;
    enum esp_status status = esp_reader_open_memory(input, "fuzz", &esp_alloc_libc, &in, err);
    *bytes = *digest = 0;
    while (status == ESP_OK && *bytes < OUTPUT_MAX) {
        struct esp_str peeked;
        char first = 0;
        status = esp_reader_peek(in, 1 + *bytes % 5000, &peeked, err);
        if (status == ESP_OK && peeked.len) {
            first = peeked.ptr[0];
        }
        if (status == ESP_OK) {
            status = lines ? esp_reader_line(in, &part, err) : esp_reader_next(in, &part, err);
        }
        if (status != ESP_OK || part.len == 0) {
            break;
        }
        fuzz_require(part.ptr[0] == first);
        if (lines) {
            const char *end = memchr(part.ptr, '\n', part.len);
            fuzz_require(!end || end == part.ptr + part.len - 1);
        }
        for (size_t i = 0; i < part.len; i++) { /* the same however it is cut */
            *digest = (*digest ^ (uint8_t)part.ptr[i]) * UINT64_C(0x100000001b3);
        }
        *bytes += part.len;
        fuzz_require(esp_reader_offset(in) == *bytes);
    }
    esp_reader_close(in);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct esp_str input = {(const char *)data, size};
    struct esp_error err = ESP_ERROR_INIT, line_err = ESP_ERROR_INIT;
    uint64_t bytes, digest, line_bytes, line_digest;
    enum esp_status status = read_all(input, false, &bytes, &digest, &err);
    enum esp_status line_status = read_all(input, true, &line_bytes, &line_digest, &line_err);
    fuzz_require(status == err.status && line_status == line_err.status);
    if (status == ESP_OK && line_status == ESP_OK && bytes < OUTPUT_MAX &&
        line_bytes < OUTPUT_MAX) {
        fuzz_require(bytes == line_bytes && digest == line_digest);
    }
    return 0;
}
