#ifndef ESP_CONVERTERS_EDGE_SET_H
#define ESP_CONVERTERS_EDGE_SET_H
/*
 * The texts of edges in the layout graph, and the set of them that a node carries.
 *
 *   key       what names a node: the prefix, '-' and its id; or the id alone
 *   target    of an edge: its type, '-' and the key of the node it leads to
 *   gsi0      a weight of digits, and perhaps '-' and a role: 500-LEAD
 *   entry     of a set: target, '-' and gsi0
 *
 * A type has no '-'; a role has none and is not all digits.  So an entry is read from both ends,
 * whatever the id between them holds.  Knows texts, no items of a table.
 */
#include "stores/item.h"

/* The gsi0 of an edge for which none was given. */
#define ESP_EDGE_WEIGHT "000"
enum { ESP_RANK_DIGITS = 10 /* the gsi0 of a tree edge: the child's rank, zero padded */ };
#define ESP_RANK_MAX INT64_C(9999999999)

struct esp_edge {
    struct esp_str type, key, gsi0; /* key: of the node it leads to.  type.len == 0: an entry that
                                       is none; all of it is in key */
    bool left_out;                  /* of the set that is stored */
};

bool esp_edge_type_valid(struct esp_str type);
bool esp_edge_weight_valid(struct esp_str gsi0);
/* A rank of exactly ESP_RANK_DIGITS digits, or -1. */
int64_t esp_edge_rank(struct esp_str gsi0);
/* Writes the ESP_RANK_DIGITS digits of a rank. */
void esp_edge_put_rank(int64_t rank, char out[ESP_RANK_DIGITS]);
/* Views into the text; false when it is none. */
bool esp_edge_parse_target(struct esp_str target, struct esp_str *type, struct esp_str *key);
bool esp_edge_parse_entry(struct esp_str entry, struct esp_edge *out);
/* TYPE-key; ptr == NULL: no memory. */
struct esp_str esp_edge_target(struct esp_arena *arena, struct esp_str type, struct esp_str key);

/* All edges of a node, as many as are known. */
struct esp_edge_set {
    struct esp_arena *arena; /* borrowed; holds everything */
    struct esp_edge *edge;
    uint32_t count, cap;
    struct esp_str *omitted; /* types that are left out of the set, and have edges */
    uint32_t omitted_count, omitted_cap;
    uint32_t *slot; /* of large sets: a hash table of positions; NULL: edges are looked through */
    uint32_t slot_count, slots_used; /* slot_count: a power of two */
};
/* From the values of the two attributes, to which texts without escapes stay pointing. ERR_NOMEM */
enum esp_status esp_edge_set_read(struct esp_edge_set *set, struct esp_arena *arena,
                                  const struct esp_value *entries,
                                  const struct esp_value *omitted) ESP_MUST_CHECK;
bool esp_edge_set_omits(const struct esp_edge_set *set, struct esp_str type);
/* The edge of that type to that node, or NULL. */
struct esp_edge *esp_edge_set_find(const struct esp_edge_set *set, struct esp_str type,
                                   struct esp_str key);
/* The next edge of a type from *at on, or NULL; *at starts at 0. */
struct esp_edge *esp_edge_set_next(const struct esp_edge_set *set, struct esp_str type,
                                   uint32_t *at);
/* One more; its texts are borrowed.  ERR_NOMEM */
enum esp_status esp_edge_set_add(struct esp_edge_set *set,
                                 const struct esp_edge *edge) ESP_MUST_CHECK;
void esp_edge_set_remove(struct esp_edge_set *set, struct esp_edge *edge);
/* The type has no edge any more that could be left out. */
void esp_edge_set_unmark(struct esp_edge_set *set, struct esp_str type);
/* Leave out the types of the list `omit` ("A,B"; NULL: none), those that are left out already,
 * and the largest ones as long as what remains has more than `bytes` bytes.  ERR_NOMEM */
enum esp_status esp_edge_set_fit(struct esp_edge_set *set, const char *omit,
                                 uint64_t bytes) ESP_MUST_CHECK;
/* Of the entries that are not left out. */
uint64_t esp_edge_set_bytes(const struct esp_edge_set *set);
/* The values of both attributes, in order of bytes.  ERR_NOMEM */
enum esp_status esp_edge_set_values(const struct esp_edge_set *set, struct esp_value *entries,
                                    struct esp_value *omitted) ESP_MUST_CHECK;

#endif
