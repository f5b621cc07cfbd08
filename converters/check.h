#ifndef ESP_CONVERTERS_CHECK_H
#define ESP_CONVERTERS_CHECK_H
/*
 * What the layouts' checks share: one scan of the table, a record for each id that occurs in
 * it, findings.  Memory: the record, the id and about 32 bytes for each id, nothing else, in
 * an arena that ends with the check; it comes from the session's `memory`, so that a check of a
 * table of any size can be given a limit.
 */
#include "converters/access.h"

struct esp_check {
    struct esp_access *access;
    struct esp_arena arena;
    struct esp_idmap ids; /* ids of nodes, and of parents that may not exist */
    char *record;         /* ids.count of them, zeroed when an id is new */
    uint32_t record_cap;
    size_t record_size;
    esp_finding_fn *fn;
    void *ctx;
};
void esp_check_init(struct esp_check *check, struct esp_access *a, size_t record_size,
                    esp_finding_fn *fn, void *ctx);
void esp_check_fini(struct esp_check *check);
/* The number of an id, with a record. */
enum esp_status esp_check_number(struct esp_check *check, struct esp_str id, uint32_t *out);
static inline void *esp_check_record(const struct esp_check *check, uint32_t number) {
    return check->record + number * check->record_size; /* moves when ids are added */
}
/* Pass every item of the table that is a node's to `fn` with the check as its ctx, and report
 * every attribute of the layout that has another type than the schema's (wrong-type).  Items of one
 * partition key come in order, those of others in any order and between them. */
enum esp_status esp_check_scan(struct esp_check *check, esp_item_fn *fn);
/* `id` and `other` are numbers; other == ESP_IDMAP_NONE: no other node is concerned. */
enum esp_status esp_check_report(struct esp_check *check, const char *name, uint32_t id,
                                 uint32_t other, const char *text);

/* What a layout knows of the way up that keeps the parent's id with the node; its records begin
 * with it. */
struct esp_check_way {
    bool present;    /* the node exists */
    uint8_t state;   /* esp_check_ways' own, as `real` */
    uint32_t parent; /* number + 1; 0 = a root */
    int64_t depth;   /* as stored */
    int64_t real;
};
/* Follow the parents of all nodes: missing-parent, cycle and, with `depths`, wrong-depth. */
enum esp_status esp_check_ways(struct esp_check *check, bool depths);

#endif
