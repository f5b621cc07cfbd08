#ifndef ESP_LOADER_EDIT_H
#define ESP_LOADER_EDIT_H
/*
 * One write operation, carried out so that it is whole or can be made whole: what is protected
 * how, says docs/decisions/0010-edits-are-planned.md.
 *
 *   stores with trials        the operation runs in one; all of it or nothing is kept
 *   others                    plan, images, journal, conditional writes, the basis once more
 *   `atomic`, on any store    plan, images, one transaction
 */
#include "loader/images.h"
#include "loader/journal.h"

struct esp_edit_options {
    bool dry_run;                 /* plan only: nothing is written, nothing is locked */
    bool atomic;                  /* ERR_LIMIT for more than 100 items */
    uint64_t lock_s;              /* lock the trees concerned for so long (loader/lock.h); 0: no */
    const char *journal;          /* its file; NULL: esp_journal_path */
    struct esp_journal_edit edit; /* what the journal shall say of it */
    const char *repair_command;   /* for messages: finishes or undoes an edit that was cut */
    /* Told of the plan before it is carried out; not on stores with trials unless dry_run or
     * atomic.  Not ESP_OK ends the edit.  May be NULL. */
    enum esp_status (*planned)(void *ctx, const struct esp_images *images);
    void *ctx;
    /* Told before anything is read or written that the tree's lock was another owner's and had run
     * out: that edit may be half done.  May be NULL. */
    void (*took_over)(struct esp_str tree, struct esp_str owner);
};

struct esp_edit_result {
    bool transaction; /* one transaction does all */
    uint64_t puts, updates, deletes;
    uint64_t unchanged; /* writes that change nothing; without a plan to go by they are sent */
    uint64_t item_bytes;
    struct esp_usage usage; /* the write half: what the writes cost, or would */
    double read_units;      /* that the edit used, the lock's included.  dry_run: that a run without
                               a lock would, about, if nobody else writes meanwhile */
    bool lock_left;         /* a lock could not be released and stays until it has run out */
};

/* Do `op`, which is a WRITE.  a->plan is NULL.  Errors of the operation are those of esp_operate,
 * and nothing is written then; further
 *   ERR_REFUSED   an unfinished journal of this table; the message names the repair
 *   ERR_CONFLICT  another writer, a lock; the message says
 *                 whether something of this edit is left
 *   ERR_LIMIT     atomic, and more than 100 items
 * After any other failure in the middle the journal stays, and the message says what is left and
 * how to go on. */
enum esp_status esp_edit_run(struct esp_access *a, enum esp_op op, const struct esp_args *args,
                             const struct esp_edit_options *options,
                             struct esp_edit_result *result) ESP_MUST_CHECK;

#endif
