#ifndef ESP_STORES_BULK_RUN_H
#define ESP_STORES_BULK_RUN_H
/*
 * Runs: puts collected in memory, sorted by key, spilled to a file when memory runs out, and
 * merged.  List 0 of a run has the items, list 1 + i the entries of index i; entries of
 * indexes that project everything share the item's record.
 */
#include "stores/keys.h"

enum { BULK_LISTS_MAX = 1 + ESP_INDEX_MAX, BULK_SLABS_MAX = 256 };

struct bulk_sort { /* an entry of a list, to be sorted */
    uint64_t head; /* the key's 8 bytes at the depth that sorting has come to, big-endian */
    uint32_t ref;  /* where its block is; higher = put later */
};

struct bulk_list {
    struct bulk_sort *sort; /* until spilled */
    size_t count, cap;
    uint64_t file_begin, file_end; /* when spilled */
};

struct bulk_run {
    struct bulk_run *next;
    const struct esp_alloc *alloc;
    uint64_t number; /* runs of a table in the order they were begun */
    uint64_t puts;
    unsigned list_count;
    struct bulk_list list[BULK_LISTS_MAX];
    char *slab[BULK_SLABS_MAX];
    size_t slab_bytes[BULK_SLABS_MAX];
    size_t slab_count, slab_used;
    size_t bytes;     /* of memory */
    int fd;           /* spilled; -1: in memory */
    bool heads_moved; /* by an earlier sort; more may have been put since */
};

/* What a run has under a key. */
struct bulk_pair {
    struct esp_str key, record;
    uint64_t sequence; /* of the put: higher = later, over all runs */
    bool lasting;      /* in the run's memory: valid as long as the run */
};

struct bulk_run *bulk_run_new(const struct esp_alloc *alloc, unsigned list_count, uint64_t number);
void bulk_run_free(struct bulk_run *run); /* NULL is fine */

/* The room one more pair may take at most. */
size_t bulk_run_need(struct esp_str key, struct esp_str record);
/* Add an item; *ref names it for its entries.  ERR_NOMEM, ERR_LIMIT. */
enum esp_status bulk_run_put(struct bulk_run *run, struct esp_str key, struct esp_str record,
                             uint32_t *ref, struct esp_error *err) ESP_MUST_CHECK;
/* Add an entry of that item to list 1 and up; an empty record means the item's own. */
enum esp_status bulk_run_put_entry(struct bulk_run *run, unsigned list, struct esp_str key,
                                   struct esp_str record, uint32_t item_ref,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* Take back the last put with its entries so far: it could not be added whole. */
void bulk_run_drop_last(struct bulk_run *run, uint32_t ref);

enum esp_status bulk_run_sort(struct bulk_run *run, struct esp_error *err) ESP_MUST_CHECK;
/* Write a sorted run to an unnamed file in `folder` (NULL: the temporary one) and give its
 * memory back.  After a failure it is in memory as before. */
enum esp_status bulk_run_spill(struct bulk_run *run, const char *folder,
                               struct esp_error *err) ESP_MUST_CHECK;

/* --- merging -------------------------------------------------------------------- */

struct bulk_merge;
/* Merge one list of sorted runs; equal keys come in the order they were put. */
enum esp_status bulk_merge_new(struct bulk_run *runs, unsigned list, const struct esp_alloc *alloc,
                               struct bulk_merge **out, struct esp_error *err) ESP_MUST_CHECK;
void bulk_merge_free(struct bulk_merge *merge); /* NULL is fine */
/* The next pair, valid until the next call if not longer; ESP_STOP at the end. */
enum esp_status bulk_merge_next(struct bulk_merge *merge, struct bulk_pair *out,
                                struct esp_error *err) ESP_MUST_CHECK;

#endif
