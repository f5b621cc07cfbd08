/*
 * JSON and JSON Lines: the first byte chooses options and the size of pieces, the rest is
 * the file.  Read whole and in pieces, it must make the same records and the same error.
 */
#include "importers/json_records.h"
#include "tests/fuzz/records.h"

static enum esp_status read_in_pieces(struct esp_str text, const struct esp_source_options *options,
                                      size_t piece, struct fuzz_records *records,
                                      struct esp_error *err) {
    struct esp_json_records *r;
    struct esp_reader *in;
    size_t skip;
    enum esp_status status =
        esp_json_records_new(options, false, &esp_alloc_libc, fuzz_take_record, records, &r, err);
    if (status != ESP_OK) {
        return status;
    }
    fuzz_require(esp_reader_open_memory(text, "fuzz", &esp_alloc_libc, &in, err) == ESP_OK);
    status = esp_json_records_begin(r, in, &skip, err);
    for (size_t at = skip; at < text.len && status == ESP_OK; at += piece) {
        size_t rest = text.len - at;
        struct esp_str bytes = {text.ptr + at, rest < piece ? rest : piece};
        status = esp_json_records_feed(r, bytes, err);
    }
    if (status == ESP_OK) {
        status = esp_json_records_finish(r, err);
    }
    esp_reader_close(in);
    esp_json_records_free(r);
    return status;
}

static enum esp_status read_lines(struct esp_str text, const struct esp_source_options *options,
                                  struct fuzz_records *records, struct esp_error *err) {
    struct esp_reader *in;
    fuzz_require(esp_reader_open_memory(text, "fuzz", &esp_alloc_libc, &in, err) == ESP_OK);
    enum esp_status status = esp_importer_find("jsonl")->run(in, options, &esp_alloc_libc,
                                                             fuzz_take_record, records, err);
    esp_reader_close(in);
    return status;
}

static bool is_about_text(const struct esp_error *err) {
    return strstr(err->message, "UTF-8") || strstr(err->message, "surrogate");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* Compressed text is the reader's business (reader_fuzz.c). */
    if (size < 2 || data[1] == 0x1f || data[1] == 0x28) {
        return 0;
    }
    static const char *const types[] = {"t:S", "t:N",  "t:BOOL", "t:NULL", "t:L",
                                        "t:M", "t:SS", "t:NS",   "t:B"};
    struct esp_source_options options = {.parent_none = data[0] & 1 ? "-" : NULL};
    if (data[0] >> 4 < 9) {
        options.column.value[options.column.count++] = types[data[0] >> 4];
    }
    struct esp_str text = {(const char *)data + 1, size - 1};
    struct esp_error err = ESP_ERROR_INIT, piece_err = ESP_ERROR_INIT, line_err = ESP_ERROR_INIT;
    struct fuzz_records whole = {0, 0}, pieces = {0, 0}, lines = {0, 0};
    enum esp_status status = read_in_pieces(text, &options, text.len, &whole, &err);
    fuzz_check_end(status, &err, text.len);

    size_t piece = 1 + (data[0] >> 1) % 7;
    fuzz_require(read_in_pieces(text, &options, piece, &pieces, &piece_err) == status);
    fuzz_require(pieces.count == whole.count && pieces.digest == whole.digest);
    /* Bad characters are looked for a piece ahead of yajl, which may have its own complaint. */
    if (!is_about_text(&err) && !is_about_text(&piece_err)) {
        fuzz_require(piece_err.line == err.line && piece_err.column == err.column &&
                     piece_err.byte_offset == err.byte_offset);
        fuzz_require(strcmp(piece_err.message, err.message) == 0);
    }

    status = read_lines(text, &options, &lines, &line_err);
    fuzz_check_end(status, &line_err, text.len);
    return 0;
}
