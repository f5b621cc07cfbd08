#ifndef ESP_STORES_ITEM_H
#define ESP_STORES_ITEM_H
/*
 * The data model shared by layouts (which decide what items exist) and stores
 * (which keep them): DynamoDB's, cut down to what hierarchies need.
 *
 * An item is a few structural attributes, known to a schema by position, plus
 * everything else as DynamoDB JSON text that was encoded once (`struct esp_data`).
 */
#include "core/number.h"
#include "tree/forest.h"

enum esp_type {
    ESP_TYPE_NONE, /* attribute absent */
    ESP_TYPE_S,    /* UTF-8 text; as a key it sorts by bytes */
    ESP_TYPE_N,    /* number; as a key it sorts by value */
    ESP_TYPE_B,    /* bytes; as a key they sort unsigned, shorter first */
    ESP_TYPE_JSON, /* any other: its DynamoDB JSON, e.g. {"SS":["a"]}; never a key */
};

const char *esp_type_name(enum esp_type type); /* "N", "a document or set"; static storage */

struct esp_value {
    enum esp_type type;
    /* S, B: the bytes, not escaped, not base64.  JSON: the text.
     * N: empty when the number is whole and fits `n`, else its canonical text. */
    struct esp_str s;
    int64_t n;
};
static inline struct esp_value esp_s(struct esp_str s) {
    return (struct esp_value){ESP_TYPE_S, s, 0};
}
static inline struct esp_value esp_n(int64_t n) {
    return (struct esp_value){ESP_TYPE_N, {0, 0}, n};
}
static inline struct esp_value esp_b(struct esp_str s) {
    return (struct esp_value){ESP_TYPE_B, s, 0};
}
/* N from a parsed number: whole numbers that fit go to n, others as text in `arena`. */
enum esp_status esp_value_from_number(const struct esp_number *number, struct esp_arena *arena,
                                      struct esp_value *out, struct esp_error *err) ESP_MUST_CHECK;
void esp_value_to_number(const struct esp_value *value, struct esp_number *out); /* type N */

enum { ESP_ATTR_MAX = 12, ESP_INDEX_MAX = 5, ESP_INCLUDE_MAX = 20 };
enum { ESP_ITEM_BYTES_MAX = 409600, ESP_PK_BYTES_MAX = 2048, ESP_SK_BYTES_MAX = 1024 };

struct esp_attr {
    struct esp_str name; /* as stored; short, because DynamoDB bills name bytes */
    enum esp_type type;  /* S, N or B for keys; NONE = any type */
};

enum esp_projection { ESP_PROJECT_ALL, ESP_PROJECT_KEYS, ESP_PROJECT_INCLUDE };

/* A secondary index.  An item that lacks pk or sk is not in the index. */
struct esp_index {
    struct esp_str name;
    int pk, sk; /* positions in esp_schema.attrs; sk == -1: no sort key */
    enum esp_projection projection;
    bool local;                              /* LSI: pk is the table's, may be read consistently */
    struct esp_str include[ESP_INCLUDE_MAX]; /* ESP_PROJECT_INCLUDE: attribute names */
    size_t include_count;
};

/* A table's definition; plain data, copied freely.  Names are borrowed. */
struct esp_schema {
    struct esp_attr attr[ESP_ATTR_MAX];
    size_t attr_count;
    int pk, sk; /* primary key positions; sk == -1: no sort key */
    struct esp_index index[ESP_INDEX_MAX];
    size_t index_count;
};
/* Position of the attribute, or -1. */
int esp_schema_find_attr(const struct esp_schema *schema, struct esp_str name);
/* Is the attribute at this position a key of the table or of an index?  DynamoDB takes keys of
 * the schema's type alone; any other attribute may come with any type. */
bool esp_schema_is_key(const struct esp_schema *schema, int position);
/* ERR_REFUSED with a sentence when `have` (a table that exists) cannot serve `want`:
 * other key, index missing or different. Attributes that are no keys do not matter. */
enum esp_status esp_schema_match(const struct esp_schema *want, const struct esp_schema *have,
                                 struct esp_error *err) ESP_MUST_CHECK;

/* value[i] belongs to schema->attr[i]; only the first attr_count are meaningful.
 * Strings and data are borrowed. */
struct esp_item {
    struct esp_value value[ESP_ATTR_MAX];
    struct esp_data data;
};
/* Copy the meaningful part of an item (cheaper than struct assignment), and the deep
 * copy into an arena (ERR_NOMEM). */
void esp_item_copy(const struct esp_schema *schema, struct esp_item *to,
                   const struct esp_item *from);
enum esp_status esp_item_dup(const struct esp_schema *schema, struct esp_arena *arena,
                             const struct esp_item *from, struct esp_item *to) ESP_MUST_CHECK;

/* Receives one item, valid during the call only.  Not ESP_OK stops the producer
 * (ESP_STOP: without an error). */
typedef enum esp_status esp_item_fn(void *ctx, const struct esp_item *item);

/* --- sizes (facts sheet 3) -------------------------------------------------- */

/* Bytes of one value, the name not included. */
uint32_t esp_value_size(const struct esp_value *value);
/* Bytes DynamoDB charges for the item: attribute names plus values. */
uint32_t esp_item_size(const struct esp_schema *schema, const struct esp_item *item);
/* Bytes of the item's entry in an index (table keys, index keys, projected attributes,
 * each once), or 0 when the item is not in the index. */
uint32_t esp_entry_size(const struct esp_schema *schema, const struct esp_index *index,
                        const struct esp_item *item);
/* ERR_LIMIT / ERR_REFUSED when DynamoDB would refuse the item: key missing, empty, of the
 * wrong type or too long (index keys too), item over 400 KB.  Names attribute and bytes. */
enum esp_status esp_item_check(const struct esp_schema *schema, const struct esp_item *item,
                               struct esp_error *err) ESP_MUST_CHECK;
/* --- equality --------------------------------------------------------------- */

/* By value: numbers numerically, sets without order, maps without order. */
bool esp_data_equal(struct esp_data a, struct esp_data b);
bool esp_value_equal(const struct esp_value *a, const struct esp_value *b); /* any types */
bool esp_item_equal(const struct esp_schema *schema, const struct esp_item *a,
                    const struct esp_item *b);
/* -1, 0, 1 in DynamoDB's key order; both of the same type S, N or B. */
int esp_value_cmp(const struct esp_value *a, const struct esp_value *b);
/* Have both the same primary key? */
bool esp_item_same_key(const struct esp_schema *schema, const struct esp_item *a,
                       const struct esp_item *b);
/* Independent of the order of attributes; for digests over a table. */
uint64_t esp_item_digest(const struct esp_schema *schema, const struct esp_item *item);

/* --- DynamoDB JSON (stores/item_json.c) -------------------------------------- */

/* All texts are canonical: no blanks between tokens, numbers in canonical spelling, base64
 * with padding, only the escapes JSON requires.  What importers encode may hold any escapes. */

/* Append `bytes` as a JSON string with quotes, escaped as JSON needs. */
void esp_json_put_string(struct esp_buf *out, struct esp_str bytes);
/* Append a value with its type tag: {"S":"x"}. */
void esp_value_put_json(struct esp_buf *out, const struct esp_value *value);
/* Append the item's members without braces. */
void esp_item_put_json(struct esp_buf *out, const struct esp_schema *schema,
                       const struct esp_item *item);
/* Append only the members of the primary key. */
void esp_item_put_key_json(struct esp_buf *out, const struct esp_schema *schema,
                           const struct esp_item *item);

/* Walk the members of encoded data. */
struct esp_member {
    struct esp_str name;  /* unescaped; in the text or in the walker's scratch */
    struct esp_str value; /* the value's DynamoDB JSON text: {"S":"x"} */
    struct esp_str raw;   /* the whole member: "name":{"S":"x"} */
};
/* *pos starts at 0; false at the end.  The text must be what espalier encoded or
 * what esp_item_parse accepted.  `scratch` is needed only for escaped names; without memory for
 * one the walk ends before it: *pos is then less than data.len. */
bool esp_data_next(struct esp_data data, size_t *pos, struct esp_arena *scratch,
                   struct esp_member *out);
/* The value text of the member with this (unescaped) name; false when there is none. */
bool esp_data_find(struct esp_data data, struct esp_str name, struct esp_str *value);
/* The attribute of that name, wherever it is: structural or in the payload (parsed into
 * `arena`).  Absent: ESP_TYPE_NONE and ESP_OK. */
enum esp_status esp_item_find(const struct esp_schema *schema, const struct esp_item *item,
                              struct esp_str name, struct esp_arena *arena, struct esp_value *out,
                              struct esp_error *err) ESP_MUST_CHECK;
/* Bytes DynamoDB charges for a value given as DynamoDB JSON text, name not included.
 * ERR_INPUT for what is no value; duplicates in sets are not looked for. */
enum esp_status esp_json_value_size(struct esp_str text, uint32_t *size,
                                    struct esp_error *err) ESP_MUST_CHECK;

/* Parse an item given as DynamoDB JSON (an object with braces): structural attributes
 * go to their positions, the rest becomes data in canonical form (no blanks, numbers
 * canonical, order of members kept).  Strings are in `arena`.  Validates types, numbers, UTF-8,
 * base64, nesting (32), sets; ERR_INPUT names the byte.  A key (esp_schema_is_key) of another type
 * than the schema's is ERR_REFUSED; any other attribute keeps the type that it has.  That no name
 * of the payload occurs twice is not checked. */
enum esp_status esp_item_parse(const struct esp_schema *schema, struct esp_str json,
                               struct esp_arena *arena, struct esp_item *out,
                               struct esp_error *err) ESP_MUST_CHECK;
/* A value as plain DynamoDB JSON text -> struct esp_value (S, N, B decoded, others JSON). */
enum esp_status esp_value_parse(struct esp_str json, struct esp_arena *arena, struct esp_value *out,
                                struct esp_error *err) ESP_MUST_CHECK;

/* Walk the members of a set of strings, {"SS":["a"]}: unescaped, borrowed from the value or in
 * `arena`.  *pos starts at 0; false at the end, and at once for any other value.  out->ptr ==
 * NULL: no memory. */
bool esp_set_next(const struct esp_value *set, size_t *pos, struct esp_arena *arena,
                  struct esp_str *out);
/* A set of strings, none of them twice, with its text in `arena`; of no strings: no attribute. */
enum esp_status esp_set_make(const struct esp_str *members, size_t count, struct esp_arena *arena,
                             struct esp_value *out) ESP_MUST_CHECK;

/* Append data as plain JSON members without braces: "name":"x","pop":5 (sets as arrays,
 * binaries as base64 text). */
void esp_data_put_plain_json(struct esp_buf *out, struct esp_data data);

/* --- changes: the update half of an UpdateItem ------------------------------- */

enum esp_change_kind { ESP_CHANGE_SET, ESP_CHANGE_REMOVE, ESP_CHANGE_ADD, ESP_CHANGE_DELETE };
struct esp_change {
    enum esp_change_kind kind;
    struct esp_str name;    /* structural or payload attribute */
    struct esp_value value; /* SET: any; ADD: N or a set; DELETE: a set; REMOVE: unused */
};
/* The item after `changes` to `old` (of a missing item: just its key); new strings in
 * `arena`.  ERR_REFUSED for what DynamoDB refuses (a key attribute, ADD to a string, two
 * changes of one attribute ...), ERR_LIMIT for a sum of more than 38 digits.  Whether the
 * result may be stored says esp_item_check. */
enum esp_status esp_item_apply(const struct esp_schema *schema, const struct esp_item *old,
                               const struct esp_change *changes, size_t count,
                               struct esp_arena *arena, struct esp_item *out,
                               struct esp_error *err) ESP_MUST_CHECK;
/* Data `old` with the members of `set` put in (in place, or at the end) and `remove`d names
 * taken out: what an `update` of a node makes of its payload.  Text in `arena`. */
enum esp_status esp_data_merge(struct esp_data old, struct esp_data set,
                               const struct esp_str *remove, size_t remove_count,
                               struct esp_arena *arena, struct esp_data *out,
                               struct esp_error *err) ESP_MUST_CHECK;

#endif
