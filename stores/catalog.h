#ifndef ESP_STORES_CATALOG_H
#define ESP_STORES_CATALOG_H
/*
 * The catalog of an embedded store: which tables there are, how they are defined, which tree
 * holds each and how much is in it.  Tree numbers of dropped tables are used again.
 */
#include "stores/kv.h"
#include "stores/store.h"

/* What changes with every write of a table. */
struct esp_table_state {
    uint32_t tree;
    uint32_t incarnation; /* which of the tables that have had this name; never used again */
    uint64_t items, item_bytes;
    uint64_t entries[ESP_INDEX_MAX], entry_bytes[ESP_INDEX_MAX]; /* as defined */
};

struct esp_table_definition {
    struct esp_schema schema; /* names in the reader's arena */
    struct esp_table_options options;
};

/* All of these work in the session's open transaction. */

/* ERR_NOT_FOUND when there is no such table. */
enum esp_status esp_catalog_state_get(struct esp_kv_session *kv, struct esp_str name,
                                      struct esp_table_state *out,
                                      struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_catalog_state_put(struct esp_kv_session *kv, struct esp_str name,
                                      const struct esp_table_state *state,
                                      struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_catalog_definition(struct esp_kv_session *kv, struct esp_str name,
                                       struct esp_arena *arena, struct esp_table_definition *out,
                                       struct esp_error *err) ESP_MUST_CHECK;
/* In a transaction that may define: ERR_EXISTS when there is one. */
enum esp_status esp_catalog_create(struct esp_kv_session *kv, struct esp_str name,
                                   const struct esp_table_definition *definition,
                                   struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_catalog_drop(struct esp_kv_session *kv, struct esp_str name,
                                 struct esp_error *err) ESP_MUST_CHECK;
/* The first name above `after` (empty: the first of all), copied to `out`; ESP_STOP at the
 * end. */
enum esp_status esp_catalog_next(struct esp_kv_session *kv, struct esp_str after, char out[256],
                                 struct esp_error *err) ESP_MUST_CHECK;

/* A fresh tree that is under construction: known to the catalog, of no table yet.  What a
 * crash leaves of it is taken back by esp_catalog_recover. */
enum esp_status esp_catalog_tree_begin(struct esp_kv_session *kv, uint32_t *tree,
                                       struct esp_error *err) ESP_MUST_CHECK;
/* It is a table's from now on. */
enum esp_status esp_catalog_tree_done(struct esp_kv_session *kv, uint32_t tree,
                                      struct esp_error *err) ESP_MUST_CHECK;
/* Empty a tree and give its number back. */
enum esp_status esp_catalog_tree_free(struct esp_kv_session *kv, uint32_t tree,
                                      struct esp_error *err) ESP_MUST_CHECK;
/* A tree under construction above `after`; 0 when there is none. */
enum esp_status esp_catalog_tree_unfinished(struct esp_kv_session *kv, uint32_t after,
                                            uint32_t *tree, struct esp_error *err) ESP_MUST_CHECK;

#endif
