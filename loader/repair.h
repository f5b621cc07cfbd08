#ifndef ESP_LOADER_REPAIR_H
#define ESP_LOADER_REPAIR_H
/*
 * Mending a table after an edit that was cut: from its journal if there is one, then, if the check
 * still finds damage, from what the items tell (loader/rebuild.h).  Can itself be cut, and
 * repeated.
 */
#include "loader/journal.h"
#include "loader/rebuild.h"

/* What a repair tells of while it works. */
enum esp_repair_note {
    ESP_REPAIR_STRANGE,  /* journal: the item is neither as before nor as after; it is left alone */
    ESP_REPAIR_FOUND,    /* the check finds it */
    ESP_REPAIR_CHOSEN,   /* rebuild: items contradict each other; what is followed */
    ESP_REPAIR_LEFT,     /* rebuild: cannot be told; it is left alone */
    ESP_REPAIR_RESTORED, /* rebuild: a node comes back, its payload does not */
    ESP_REPAIR_REMAINS,  /* the check finds it afterwards */
};

enum esp_repair_journal {
    ESP_REPAIR_NO_JOURNAL,
    ESP_REPAIR_UNSENT,   /* cut while it was written: nothing had been sent */
    ESP_REPAIR_WAS_DONE, /* the edit was done; only its journal was left */
    ESP_REPAIR_FINISHED,
    ESP_REPAIR_UNDONE,
    ESP_REPAIR_SETTLED,  /* only what somebody else changed is left alone; the journal goes, because
                            the check finds nothing, or because the trees are rebuilt */
    ESP_REPAIR_UNMENDED, /* something was left alone; the journal stays */
};

struct esp_repair {
    bool undo;           /* take the edit back instead of finishing it */
    bool dry_run;        /* write nothing */
    bool rebuild_anyway; /* give up a journal of which something is left alone: what the items tell
                            counts then */
    const char *journal; /* its file; ERR_NOT_FOUND when there is none.  NULL: esp_journal_path,
                            which need not be there */
    const struct esp_strings *set; /* texts of --set, as in the journal; NULL: none */
    /* May be NULL.  Not ESP_OK ends the repair. */
    enum esp_status (*tell)(void *ctx, enum esp_repair_note note,
                            const struct esp_finding *finding);
    void *ctx;
    /* out */
    enum esp_repair_journal state;
    struct esp_str operation; /* of the journal; in a->scratch's memory until it is reset */
    uint64_t entries;         /* items of the journal: written, already so, strange */
    uint64_t written, already, strange;
    uint64_t withheld;          /* deletes that were not done because something is strange */
    bool checked;               /* `remaining` is known */
    bool rebuilt;               /* the check was run; the counts below are known */
    struct esp_rebuild rebuild; /* its counts */
    struct esp_images_sum sum;  /* what the rebuild writes, or would */
    uint64_t remaining;         /* findings of the check afterwards; not in a dry run */
};

/* *repair's out part is filled on failure too.  ESP_OK also when something could not be mended: see
 * esp_repair_is_whole.
 *   ERR_CONFLICT  an edit is at work on this machine, or somebody changed what was to be mended
 *   ERR_REFUSED   the journal is of another table, layout or settings
 *   ERR_INPUT     the journal is damaged: file and line named */
enum esp_status esp_repair_run(struct esp_access *a, struct esp_repair *repair) ESP_MUST_CHECK;
/* Is (in a dry run: would be) all mended? */
bool esp_repair_is_whole(const struct esp_repair *repair);

#endif
