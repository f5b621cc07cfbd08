#ifndef ESP_LOADER_REBUILD_H
#define ESP_LOADER_REBUILD_H
/*
 * Repair without a journal, by what the items themselves tell: the check names damaged nodes, the
 * trees they are in are put together from what the layout's items say of nodes and parents, and
 * the layout makes items of them again.  What differs from the table becomes images.
 *
 * Nothing is written here, and nothing that holds the last copy of a node is planned to be
 * deleted.  What cannot be told is left as it is, and named.  Memory: a record for each id in the
 * table, and the items of damaged trees.  Reads: the check's scan, one more, and the items of
 * damaged trees.
 */
#include "converters/layout.h"
#include "loader/images.h"

struct esp_rebuild {
    esp_finding_fn *found;    /* what the check finds; may be NULL */
    esp_finding_fn *left;     /* what cannot be told and is left as it is; may be NULL */
    esp_finding_fn *chosen;   /* items contradict each other: which one is followed; may be NULL */
    esp_finding_fn *restored; /* nodes that come back without their payload; may be NULL */
    void *ctx;                /* of the four */
    /* out */
    uint64_t findings;       /* of the check */
    uint64_t trees, nodes;   /* damaged ones that are put together again */
    uint64_t left_count;     /* calls of `left` */
    uint64_t restored_count; /* calls of `restored` */
    uint64_t items;          /* in the table */
};

/* What the table was made with other settings than the layout's is refused, not put together: most
 * items tell no node or parent then, or have an attribute under another name.
 *
 * Plan what makes the table whole: images are added to `images`, which was initialised with the
 * table's schema; puts and updates are stage 0, deletes stage 1.  No findings: no images.
 *   ERR_REFUSED           the settings are not the table's
 *   ERR_INPUT, ERR_LIMIT  the trees cannot be laid out: the layout's validation says why
 * Others from the store. */
enum esp_status esp_rebuild_plan(struct esp_access *a, struct esp_rebuild *rebuild,
                                 struct esp_images *images) ESP_MUST_CHECK;

#endif
