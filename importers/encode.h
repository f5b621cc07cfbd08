#ifndef ESP_IMPORTERS_ENCODE_H
#define ESP_IMPORTERS_ENCODE_H
/*
 * Values to DynamoDB JSON, with the bytes DynamoDB charges for them (facts sheet 2.1,
 * 3.1): what an importer does once, so that no later stage has to look into a payload.
 * Knows nothing of records or file formats.
 */
#include "core/mem.h"

enum {
    ESP_DATA_BYTES_MAX = 400 << 10, /* of charged size: no item can hold more (3.4) */
    ESP_NESTING_MAX = 32,           /* levels of a value, itself included (2.1) */
    ESP_NAME_BYTES_MAX = 65535,     /* of an attribute's name or a map's key (2.4) */
    /* Of encoded text: more than data of the legal size can take.  The worst is a list
     * of numbers like 1e125: 136 bytes of text each, charged 3. */
    ESP_DATA_TEXT_MAX = 64 * ESP_DATA_BYTES_MAX,
};

/* Text arriving in pieces: is it UTF-8 (RFC 3629: no overlong forms, no surrogates) and
 * free of NUL?  Start with ESP_UTF8_INIT; `need` is 0 between characters. */
struct esp_utf8 {
    uint8_t need;      /* continuation bytes still to come */
    uint8_t seen;      /* bytes of the character so far */
    uint8_t low, high; /* what the next byte must lie between */
    uint8_t lead;      /* the first byte of the character, or of the offending one */
};
#define ESP_UTF8_INIT ((struct esp_utf8){.need = 0})
/* False when `bytes` holds a bad sequence: *bad is then where it starts, relative to
 * bytes.ptr, so negative (down to -3) when it started in an earlier piece. */
bool esp_utf8_check(struct esp_utf8 *state, struct esp_str bytes, int64_t *bad);

/* Append `text`, which must be UTF-8, escaped as inside a JSON string (no quotes). */
void esp_text_put(struct esp_buf *out, struct esp_str text);
/* Append `before` as it is and `{"S":"..."}`: the hot path of every importer. */
void esp_string_put(struct esp_buf *out, struct esp_str before, struct esp_str text);
/* Append `{"N":"..."}` in canonical form and add the charged bytes to *size. */
enum esp_status esp_number_put(struct esp_buf *out, struct esp_str text, uint32_t *size,
                               struct esp_error *err) ESP_MUST_CHECK;
/* The same without `{"N":` and `}`: a member of a number set. */
enum esp_status esp_number_text_put(struct esp_buf *out, struct esp_str text, uint32_t *size,
                                    struct esp_error *err) ESP_MUST_CHECK;

/* One value as a run of events.  The kind of what is open: */
enum esp_encoder_kind { ESP_ENCODE_L, ESP_ENCODE_M, ESP_ENCODE_SS, ESP_ENCODE_NS };

struct esp_encoder {
    struct esp_buf *out;  /* borrowed: may hold other text before the value */
    struct esp_buf names; /* struct encoded_name: keys of open maps, members of open sets */
    uint32_t size;        /* charged bytes; the caller sets the start */
    uint32_t depth;       /* open lists, maps and sets */
    struct esp_encoder_level {
        enum esp_encoder_kind kind;
        uint32_t count;       /* members so far */
        uint32_t names_start; /* of this level, in `names`, bytes */
    } level[ESP_NESTING_MAX];
};
void esp_encoder_init(struct esp_encoder *encoder, const struct esp_alloc *alloc,
                      struct esp_buf *out);
void esp_encoder_fini(struct esp_encoder *encoder);
/* ERR_INPUT for what DynamoDB refuses (a key twice, an empty name, a set that is empty or
 * has a member twice or of another type, a number out of range); ERR_LIMIT for nesting and
 * size.  A failure of `out` is left in out->failed. */
enum esp_status esp_encode_null(struct esp_encoder *e, struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_encode_bool(struct esp_encoder *e, bool value,
                                struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_encode_number(struct esp_encoder *e, struct esp_str text,
                                  struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_encode_string(struct esp_encoder *e, struct esp_str text,
                                  struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_encode_open(struct esp_encoder *e, enum esp_encoder_kind kind,
                                struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_encode_key(struct esp_encoder *e, struct esp_str key,
                               struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_encode_close(struct esp_encoder *e, struct esp_error *err) ESP_MUST_CHECK;

/* ERR_LIMIT when a record's data is more than any item can hold. */
enum esp_status esp_data_check(const struct esp_buf *out, uint32_t size,
                               struct esp_error *err) ESP_MUST_CHECK;
/* A name an attribute can have: ERR_INPUT when empty, ERR_LIMIT when too long. */
enum esp_status esp_name_check(struct esp_str name, struct esp_error *err) ESP_MUST_CHECK;

#endif
