#ifndef ESP_LOADER_LOCK_H
#define ESP_LOADER_LOCK_H
/*
 * Locks of trees: an item a tree, put where no other is, renewed while the holder works, deleted
 * at the end.  Only edits that ask for a lock respect locks (`edit --lock`).  Why they are there:
 * docs/decisions/0010-edits-are-planned.md.
 *
 * The item: partition key ESP_RESERVED_PREFIX "lock:TREE", sort key (where the table has one)
 * "lock" or -1; `owner` (host:pid:random) and `expires` (seconds since 1970).  It is in no index,
 * because it has none of the layout's other attributes.  One that has run out may be taken over.
 */
#include "converters/layout.h"

struct esp_lock;

enum { ESP_LOCK_SECONDS_MAX = 24 * 3600 };

/* Lock the trees that the operation concerns: those of `at` and of `to`, and that of a node that
 * becomes a root; in a layout where a node may be in several trees, all of them.  In the order of
 * their ids, so that two edits cannot wait for each other.  Nothing is locked after a failure.
 *   seconds        1 .. ESP_LOCK_SECONDS_MAX: how long it holds when its owner is gone
 *   ERR_NOT_FOUND  `at` or `to` is absent
 *   ERR_CONFLICT   locked by somebody else: names the tree, the owner, and the seconds left */
enum esp_status esp_lock_take(struct esp_access *a, enum esp_op op, const struct esp_args *args,
                              uint64_t seconds, struct esp_lock **out) ESP_MUST_CHECK;
/* Was a lock among them that had run out?  Its owner may have left an edit of that tree half done.
 * The first one's tree and owner are borrowed from the lock. */
bool esp_lock_taken_over(const struct esp_lock *lock, struct esp_str *tree, struct esp_str *owner);
/* To be called again and again while the holder works: renews when half of the time is over.
 * ERR_CONFLICT: it had run out, and somebody took it; the holder must not write any more. */
enum esp_status esp_lock_keep(struct esp_lock *lock, struct esp_error *err) ESP_MUST_CHECK;
/* Unlock what is still the holder's, also when the session was stopped or its time is over; takes
 * a few seconds at most.  Frees the lock; NULL is fine.  Fails when an item could not be deleted:
 * it then stays until it has run out. */
enum esp_status esp_lock_release(struct esp_lock *lock, struct esp_error *err);

#endif
