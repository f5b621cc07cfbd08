#ifndef ESP_STORES_BULK_LOAD_H
#define ESP_STORES_BULK_LOAD_H
/*
 * The bulk stream of the embedded stores: puts are collected in runs, sorted, and loaded in
 * key order.  Into an empty table everything is appended to a fresh tree that becomes the
 * table's in one step: after a crash the table has all of the load or nothing.  Into a
 * table with items they are upserts in several commits, each with its index entries.
 *
 * Threads: every session collects and sorts its own runs.  A flush hands them to the table
 * and waits until the sessions of other threads have flushed theirs too; the last one
 * loads them all.  Nobody is waited for who has stopped putting.
 */
#include "stores/store.h"

struct engine_table;
struct bulk_table;
struct bulk_session;

enum esp_status bulk_table_new(struct engine_table *table, struct bulk_table **out,
                               struct esp_error *err) ESP_MUST_CHECK;
void bulk_table_free(struct bulk_table *bulk); /* NULL is fine */
/* Drops what was not flushed.  NULL is fine. */
void bulk_session_free(struct bulk_session *bulk);
/* For tests: how many bytes the runs of a table may take in memory before they are spilled,
 * and how many a commit may have. */
void esp_bulk_limit(struct esp_table *table, size_t memory_bytes, size_t commit_bytes);

#endif
