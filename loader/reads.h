#ifndef ESP_LOADER_READS_H
#define ESP_LOADER_READS_H
/*
 * What a plan was made from: every item that was read, by digest, and every range that was queried.
 * Later, does all of that still hold?  Knows items and queries, no tree.
 *
 * Items are read again by key, consistently; those that the edit writes are passed over, because
 * its writes are conditional.  Ranges are queried again, for items that were not there: a child
 * that somebody put below a node that is being moved.  An index may be behind, so a range says
 * "yes" too early at times; what it finds is true.
 */
#include "loader/images.h"

struct esp_reads {
    const struct esp_schema *schema; /* borrowed */
    struct esp_arena *arena;         /* borrowed; everything below is in it */
    struct esp_idmap keys;           /* number = position in item[] */
    struct esp_read_item *item;
    uint32_t item_cap;
    struct esp_read_range *range;
    uint32_t range_count, range_cap;
    struct esp_watch watch;
};
/* From now on, until session->watch is put back, the session's reads are remembered: set it to
 * &reads->watch. */
void esp_reads_init(struct esp_reads *reads, const struct esp_schema *schema,
                    struct esp_arena *arena);
/* ERR_CONFLICT names the key of what was changed, deleted or put since.  `payload`: changed
 * payloads count too, where whole items were read. */
enum esp_status esp_reads_verify(const struct esp_reads *reads, const struct esp_images *images,
                                 struct esp_session *session, bool payload,
                                 struct esp_error *err) ESP_MUST_CHECK;
/* Read units of the items that it reads again by key; the ranges come on top. */
double esp_reads_key_units(const struct esp_reads *reads, const struct esp_images *images);

#endif
