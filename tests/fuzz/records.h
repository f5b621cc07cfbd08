#ifndef ESP_TESTS_FUZZ_RECORDS_H
#define ESP_TESTS_FUZZ_RECORDS_H
/* What must hold of every record an importer makes, whatever it read. */
#include "importers/importer.h"
#include "stores/item.h"
#include "tests/fuzz/fuzz.h"

/* A digest of the records so far, to compare two ways of reading one text. */
struct fuzz_records {
    uint64_t count, digest;
};

/* An esp_record_fn.  The data must be members that stores read, and of the size they say. */
static inline enum esp_status fuzz_take_record(void *ctx, const struct esp_record *record,
                                               struct esp_error *err) {
    (void)err;
    struct fuzz_records *records = ctx;
    fuzz_require(record->id.len >= 1 && record->id.len <= ESP_ID_BYTES_MAX);
    fuzz_require(record->parent_id.len <= ESP_ID_BYTES_MAX);
    fuzz_require(!esp_str_eq(record->id, record->parent_id));
    fuzz_require(record->line >= 1);
    struct esp_arena scratch;
    struct esp_member member;
    uint32_t size = 0;
    size_t pos = 0;
    esp_arena_init(&scratch, &esp_alloc_libc, SIZE_MAX);
    while (pos < record->data.len && esp_data_next(record->data, &pos, &scratch, &member)) {
        uint32_t value_size = 0;
        fuzz_require(esp_json_value_size(member.value, &value_size, NULL) == ESP_OK);
        fuzz_require(member.name.len > 0);
        size += (uint32_t)member.name.len + value_size;
    }
    esp_arena_fini(&scratch);
    fuzz_require(size == record->data.size);
    records->count++;
    records->digest = esp_hash64(record->id.ptr, record->id.len, records->digest);
    records->digest = esp_hash64(record->parent_id.ptr, record->parent_id.len, records->digest);
    records->digest = esp_hash64(record->data.text, record->data.len, records->digest);
    records->digest ^= record->line;
    return ESP_OK;
}

/* What must hold of how the import ended. */
static inline void fuzz_check_end(enum esp_status status, const struct esp_error *err,
                                  size_t size) {
    fuzz_require(status == ESP_OK || status == ESP_ERR_INPUT || status == ESP_ERR_LIMIT ||
                 status == ESP_ERR_USAGE);
    fuzz_require(status == err->status);
    fuzz_require((status == ESP_OK) == (err->message[0] == 0));
    fuzz_require(err->byte_offset <= size);
    fuzz_require(err->column <= size + 1 && err->line <= size + 1);
    fuzz_require((err->line == 0) == (err->column == 0));
}

#endif
