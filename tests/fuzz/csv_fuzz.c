/* CSV: the first byte chooses options, the rest is the file. */
#include "tests/fuzz/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    static const char *const types[] = {"t:S", "t:N",  "t:BOOL", "t:NULL", "t:L",
                                        "t:M", "t:SS", "t:NS",   "t:B"};
    struct esp_source_options options = {.infer = data[0] & 1};
    if (data[0] & 2) {
        options.id = "1";
        options.parent = "2";
    }
    if (data[0] >> 4 < 9) {
        options.column.value[options.column.count++] = types[data[0] >> 4];
    }
    struct fuzz_records records = {0, 0};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_reader *in;
    struct esp_str text = {(const char *)data + 1, size - 1};
    fuzz_require(esp_reader_open_memory(text, "fuzz", &esp_alloc_libc, &in, &err) == ESP_OK);
    enum esp_status status = esp_importer_find("csv")->run(in, &options, &esp_alloc_libc,
                                                           fuzz_take_record, &records, &err);
    esp_reader_close(in);
    if (text.len < 2 || (data[1] != 0x1f && data[1] != 0x28)) { /* not compressed */
        fuzz_check_end(status, &err, text.len);
    }
    return 0;
}
