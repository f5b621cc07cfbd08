#ifndef ESP_LOADER_JOURNAL_H
#define ESP_LOADER_JOURNAL_H
/*
 * The journal of an edit: what every item was and shall be, on disk before the first write, so
 * that an edit which was cut can be finished or undone (loader/repair.h).
 *
 *   {"espalier_journal":1,"kind":"edit","store":..,"table":..,"layout":..,"set":[..],
 *    "operation":..,"arguments":[..],"writes":N,"started":"2026-11-21T05:45:00Z"}
 *   {"stage":0,"together":false,"key":{..},"before":{..},"after":{..}}     a line an image;
 *                                                             null: no item
 *   {"complete":true,"entries":N}
 *   {"done":true}                                                          only after the last
 * write
 *
 * Every line has a checksum in front (loader/journal_lines.h).  A journal is written beside its
 * name and gets the name when it is on disk, so one without `complete` means that nothing was sent.
 * It is locked while it is open: of two edits of a table the second one is refused.
 * No secrets are in it: of the store's URL it has what names the place, never user or password.
 */
#include "core/option.h"
#include "stores/store.h"

struct esp_images; /* loader/images.h */
struct esp_journal;

/* Append the path of a table's journal to `out`:
 * ${XDG_STATE_HOME:-$HOME/.local/state}/espalier/HASH-TABLE.journal, or a file of that name in
 * the working directory when there is no home.  Makes the folder (0700).  The hash is of the
 * store's place and the table's name.  ERR_IO, ERR_NOMEM. */
enum esp_status esp_journal_path(const struct esp_store *store, const char *table,
                                 struct esp_buf *out, struct esp_error *err) ESP_MUST_CHECK;

/* What an edit is, as on its command line.  Borrowed. */
struct esp_journal_edit {
    const char *layout;
    const struct esp_strings *set; /* texts of --set; NULL: none */
    const char *operation;
    const struct esp_strings *arguments; /* words after the operation; NULL: none */
};

/* Put the journal on disk, before the first write: when it returns ESP_OK, a crash at any later
 * moment can be mended.  `path` NULL: esp_journal_path.  The schema is the table's.
 *   ERR_EXISTS    there is a journal of an edit that was cut: `espalier repair` first
 *   ERR_CONFLICT  another edit of this table is at work
 *   ERR_IO        names the file; nothing is left behind */
enum esp_status esp_journal_create(const char *path, const struct esp_table *table,
                                   const struct esp_journal_edit *edit,
                                   const struct esp_images *images, struct esp_journal **out,
                                   struct esp_error *err) ESP_MUST_CHECK;
/* After the last write was acknowledged, or when the table is as before: says so in the file and
 * removes it.  Close it all the same. */
enum esp_status esp_journal_done(struct esp_journal *journal, struct esp_error *err) ESP_MUST_CHECK;
/* Unlocks; the file stays unless it was done.  NULL is fine. */
void esp_journal_close(struct esp_journal *journal);
/* Its file name, for messages; borrowed from the journal. */
const char *esp_journal_name(const struct esp_journal *journal);

/* --- reading ------------------------------------------------------------------------------ */

enum esp_journal_state {
    ESP_JOURNAL_UNSENT, /* cut while it was written: the edit had sent nothing */
    ESP_JOURNAL_OPEN,   /* the edit was cut, or failed */
    ESP_JOURNAL_DONE,   /* the edit was done; only the file was not removed */
};

/* What the header says; strings live as long as the journal.  Empty when UNSENT. */
struct esp_journal_head {
    struct esp_str store, table, layout, operation, started;
    struct esp_strings set, arguments;
    uint64_t writes;
};

/* Open and lock one that is there, and read all of it.
 *   ERR_NOT_FOUND  no such file             ERR_CONFLICT  an edit or a repair is using it
 *   ERR_INPUT      a damaged line: file and line named      ERR_IO, ERR_NOMEM */
enum esp_status esp_journal_open(const char *path, const struct esp_alloc *alloc,
                                 struct esp_journal **out, struct esp_error *err) ESP_MUST_CHECK;
enum esp_journal_state esp_journal_state(const struct esp_journal *journal);
const struct esp_journal_head *esp_journal_head(const struct esp_journal *journal);
/* ERR_REFUSED with a sentence when the journal is of another store, table, layout or settings. */
enum esp_status esp_journal_match(const struct esp_journal *journal, const struct esp_table *table,
                                  const struct esp_journal_edit *edit,
                                  struct esp_error *err) ESP_MUST_CHECK;
/* Its images are added to `out`, which was initialised with the table's schema.  ERR_INPUT names
 * file and line. */
enum esp_status esp_journal_images(struct esp_journal *journal, struct esp_images *out,
                                   struct esp_error *err) ESP_MUST_CHECK;

/* Remove what an edit left that was cut while it wrote its journal: it had sent nothing.  *dropped:
 * there was something.  ERR_CONFLICT: an edit is writing one now; ERR_IO. */
enum esp_status esp_journal_drop_draft(const char *path, const struct esp_alloc *alloc,
                                       bool *dropped, struct esp_error *err) ESP_MUST_CHECK;

#endif
