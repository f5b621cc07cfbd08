#ifndef ESP_STORES_UNDO_H
#define ESP_STORES_UNDO_H
/*
 * Undo for one session: while it is on, the image of every item is read before it is
 * written, and rollback puts all of them back.  Neither is metered.  The bench uses it
 * so that each sampled write starts from the same table, on any store.  The bulk stream is
 * not recorded: it is for loads, which are undone by dropping the table.
 *
 * A store with trials (esp_store_ops.trial_begin) needs no images: everything is one
 * transaction, which rollback takes back.  Nothing of it is committed until then, so
 * latencies of writes lack the commit.
 */
#include "stores/store.h"

struct esp_undo;
enum esp_status esp_undo_begin(struct esp_session *s, struct esp_error *err) ESP_MUST_CHECK;
/* Put everything back; undo stays on, empty. */
enum esp_status esp_undo_rollback(struct esp_session *s, struct esp_error *err) ESP_MUST_CHECK;
/* Keep what was written since begin or the last rollback; off is fine.  Undo is off then, also
 * after a failure; it fails only where a trial cannot be committed (nothing is kept then). */
enum esp_status esp_undo_end(struct esp_session *s, struct esp_error *err);
/* After a failure: put everything back, whatever the session's stop flag and deadline say, and turn
 * undo off; off is fine.  It fails when not everything could be put back.  Closing a session does
 * the same. */
enum esp_status esp_undo_abandon(struct esp_session *s, struct esp_error *err);
/* Time spent reading images since begin or the last rollback: not the operation's. */
uint64_t esp_undo_overhead_ns(const struct esp_session *s);

/* Called by the session layer before it executes writes. */
enum esp_status esp_undo_record(struct esp_session *s, const struct esp_write *w, size_t n,
                                struct esp_error *err) ESP_MUST_CHECK;
#endif
