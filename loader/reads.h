#ifndef ESP_LOADER_READS_H
#define ESP_LOADER_READS_H
/*
 * What a plan was made from: every item that was read, by digest, and every range that was queried.
 * Later, does all of that still hold?  Knows items and queries, no tree.
 *
 * Items are read again by key, consistently; those that the edit writes are passed over, because
 * its writes are conditional; that their images are of what was read is looked at by itself. Ranges
 * are queried again, for items that were not there: a child that somebody put below a node that is
 * being moved.  An index may be behind, so a range says "yes" too early at times; what it finds is
 * true.
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
    /* An item of which two answers told different things; ESP_IDMAP_NONE: there is none. */
    uint32_t mixed, mixed_payload;
    struct esp_watch watch;
};
/* From now on, until session->watch is put back, the session's reads are remembered: set it to
 * &reads->watch. */
void esp_reads_init(struct esp_reads *reads, const struct esp_schema *schema,
                    struct esp_arena *arena);
/* Did one operation read an item twice, and somebody changed its structure in between?  The call
 * that read it then ended with ERR_CONFLICT, without a sentence. */
static inline bool esp_reads_are_mixed(const struct esp_reads *reads) {
    return reads->mixed != ESP_IDMAP_NONE;
}
/* Before anything is written: are the answers of one time, and are the images of what was read
 * when the operation went by it?  Reads nothing.  `payload` as below.  ERR_CONFLICT. */
enum esp_status esp_reads_agree(const struct esp_reads *reads, const struct esp_images *images,
                                bool payload, struct esp_error *err) ESP_MUST_CHECK;
/* ERR_CONFLICT names the key of what was changed, deleted or put since.  `payload`: changed
 * payloads count too, where whole items were read. */
enum esp_status esp_reads_verify(const struct esp_reads *reads, const struct esp_images *images,
                                 struct esp_session *session, bool payload,
                                 struct esp_error *err) ESP_MUST_CHECK;
/* Read units of the items that it reads again by key; the ranges come on top. */
double esp_reads_key_units(const struct esp_reads *reads, const struct esp_images *images);

#endif
