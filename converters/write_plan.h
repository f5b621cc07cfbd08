#ifndef ESP_CONVERTERS_WRITE_PLAN_H
#define ESP_CONVERTERS_WRITE_PLAN_H
/*
 * The plan of a write operation: every write it would send, recorded instead of done.  With
 * esp_access.plan set, an operation reads the table as it is and leaves its writes here; what
 * carries them out (loader/) can show them, price them, journal them, do them as one
 * transaction.  Knows items, no key design and no tree.
 *
 * Writes of one stage may go in any order; a stage begins when the one before is acknowledged.
 */
#include "converters/layout.h"

struct esp_planned {
    struct esp_write write; /* PUT, DELETE or UPDATE; all it points to is the plan's.  write.old:
                               what the operation knew of the item, or NULL */
    uint32_t stage;         /* 0, 1, ... */
    bool together;          /* with the others of its stage that say so in one transaction */
};

struct esp_write_plan {
    const struct esp_schema *schema; /* borrowed */
    struct esp_arena *arena;         /* borrowed; everything below is in it */
    struct esp_planned *write;
    uint32_t count, cap;
    uint32_t stage; /* of the next write */
    /* Items that the operation read and relies on although it does not write them, e.g. the
     * parent of an insert: the plan is good as long as their structural attributes stay. */
    struct esp_item *basis;
    uint32_t basis_count, basis_cap;
};
void esp_write_plan_init(struct esp_write_plan *plan, const struct esp_schema *schema,
                         struct esp_arena *arena);
/* Copies.  ERR_NOMEM. */
enum esp_status esp_write_plan_add(struct esp_write_plan *plan, const struct esp_write *writes,
                                   size_t n, bool together) ESP_MUST_CHECK;
enum esp_status esp_write_plan_rely(struct esp_write_plan *plan,
                                    const struct esp_item *item) ESP_MUST_CHECK;

#endif
