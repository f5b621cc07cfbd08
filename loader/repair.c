#include "loader/repair.h"

struct job {
    struct esp_access *a;
    struct esp_repair *repair;
    struct esp_arena arena; /* of images */
    uint64_t missing;       /* entries that could be written after all was done */
    bool clean;             /* the check has found nothing */
};

static enum esp_status tell(struct job *j, enum esp_repair_note note,
                            const struct esp_finding *finding) {
    struct esp_repair *r = j->repair;
    return r->tell ? r->tell(r->ctx, note, finding) : ESP_OK;
}

static void images_init(struct job *j, struct esp_images *images) {
    esp_images_init(images, &j->a->session->table->schema, &j->arena);
}

static enum esp_status tell_remains(void *ctx, const struct esp_finding *finding) {
    struct job *j = ctx;
    j->repair->remaining++;
    return tell(j, ESP_REPAIR_REMAINS, finding);
}

static enum esp_status check_again(struct job *j) {
    bool consistent = j->a->consistent;
    j->a->consistent = true;
    j->repair->checked = true;
    enum esp_status status = j->a->layout->ops->check(j->a, tell_remains, j);
    j->a->consistent = consistent;
    return status;
}

/* --- from the journal --------------------------------------------------------------------- */

static enum esp_status tell_strange(void *ctx, const struct esp_image *image,
                                    const struct esp_item *now) {
    struct job *j = ctx;
    struct esp_finding finding = {
        .name = "changed-since",
        .id = esp_item_key_text(&j->a->session->table->schema, esp_image_item(image), &j->arena),
        .text = now ? "the item is neither as before the edit nor as after it"
                    : "the item is gone, though the edit leaves one here"};
    return finding.id.ptr ? tell(j, ESP_REPAIR_STRANGE, &finding) : esp_fail_nomem(j->a->err);
}

static bool is_delete(const struct job *j, const struct esp_image *image) {
    return j->repair->undo ? !image->has_before : !image->has_after;
}

/* The images without deletes of whole items. */
static enum esp_status without_deletes(struct job *j, const struct esp_images *images,
                                       struct esp_images *out) {
    enum esp_status status = ESP_OK;
    images_init(j, out);
    for (uint32_t i = 0; status == ESP_OK && i < images->count; i++) {
        if (!is_delete(j, &images->image[i])) {
            status = esp_images_add(out, &images->image[i], j->a->err);
        }
    }
    return status;
}

/* Look at all items: how far did the edit come?  What is strange is told once, here. */
static enum esp_status look(struct job *j, struct esp_images *images, struct esp_images_run *run) {
    *run = (struct esp_images_run){
        .way = j->repair->undo ? ESP_IMAGES_BACK : ESP_IMAGES_FORWARD,
        .idempotent = true,
        .look_only = true,
        .strange = tell_strange,
        .ctx = j,
    };
    enum esp_status status = esp_images_run(images, j->a->session, run, j->a->err);
    j->repair->entries = images->count;
    j->repair->written = run->written;
    j->repair->already = run->already;
    j->repair->strange = run->strange_count;
    return status;
}

/* Is every item as it shall be? */
static enum esp_status is_mended(struct job *j, struct esp_images *images, bool *out) {
    struct esp_images_run run = {
        .way = j->repair->undo ? ESP_IMAGES_BACK : ESP_IMAGES_FORWARD,
        .idempotent = true,
        .look_only = true,
    };
    enum esp_status status = esp_images_run(images, j->a->session, &run, j->a->err);
    *out = run.written + run.strange_count == 0;
    j->missing = run.written;
    return status;
}

/* A delete may rely on a put of the same edit (a node that moved to another key): where something
 * is strange nobody knows, and no item is deleted. */
static enum esp_status carry_out(struct job *j, struct esp_images *images, bool *mended) {
    struct esp_repair *r = j->repair;
    struct esp_images_run run;
    struct esp_images some;
    enum esp_status status = look(j, images, &run);
    *mended = false;
    if (status != ESP_OK || r->dry_run) {
        return status;
    }
    run = (struct esp_images_run){.way = run.way, .idempotent = true};
    struct esp_images *now = images;
    if (r->strange) {
        status = without_deletes(j, images, &some);
        r->withheld = images->count - some.count;
        now = &some;
    }
    if (status == ESP_OK) {
        status = esp_images_run(now, j->a->session, &run, j->a->err);
        r->written = run.written;
    }
    return status == ESP_OK ? is_mended(j, images, mended) : status;
}

/* All is done but what somebody else has changed since.  Where the check finds nothing the table
 * is whole as it is, and no repeat of the repair would do more: the journal has no use any more. */
static enum esp_status settle(struct job *j) {
    struct esp_repair *r = j->repair;
    if (r->rebuild_anyway) {
        r->state = ESP_REPAIR_SETTLED;
        return ESP_OK;
    }
    enum esp_status status = check_again(j);
    j->clean = status == ESP_OK && r->remaining == 0;
    if (j->clean) {
        r->state = ESP_REPAIR_SETTLED;
    }
    return status;
}

static enum esp_status mend(struct job *j, struct esp_journal *journal) {
    struct esp_repair *r = j->repair;
    const struct esp_journal_edit edit = {.layout = j->a->layout->ops->name, .set = r->set};
    struct esp_images images;
    bool mended = false;
    enum esp_status status = esp_journal_match(journal, j->a->session->table, &edit, j->a->err);
    if (status == ESP_OK) {
        r->operation = esp_arena_dup(j->a->scratch, esp_journal_head(journal)->operation);
        images_init(j, &images);
        status = r->operation.ptr ? esp_journal_images(journal, &images, j->a->err)
                                  : esp_fail_nomem(j->a->err);
    }
    if (status == ESP_OK) {
        status = carry_out(j, &images, &mended);
    }
    if (status == ESP_OK && (r->dry_run ? r->strange == 0 : mended)) {
        r->state = r->undo ? ESP_REPAIR_UNDONE : ESP_REPAIR_FINISHED;
    } else if (status == ESP_OK && !r->dry_run && r->strange && j->missing <= r->withheld) {
        status = settle(j);
    }
    return status;
}

static enum esp_status from_open_journal(struct job *j, struct esp_journal *journal) {
    struct esp_repair *r = j->repair;
    enum esp_journal_state state = esp_journal_state(journal);
    r->state = state == ESP_JOURNAL_UNSENT ? ESP_REPAIR_UNSENT
               : state == ESP_JOURNAL_DONE ? ESP_REPAIR_WAS_DONE
                                           : ESP_REPAIR_UNMENDED;
    enum esp_status status = state == ESP_JOURNAL_OPEN ? mend(j, journal) : ESP_OK;
    return status == ESP_OK && !r->dry_run && r->state != ESP_REPAIR_UNMENDED
               ? esp_journal_done(journal, j->a->err)
               : status;
}

static enum esp_status drop_draft(struct job *j, const char *path) {
    bool dropped = false;
    enum esp_status status =
        j->repair->dry_run ? ESP_OK
                           : esp_journal_drop_draft(path, j->arena.alloc, &dropped, j->a->err);
    if (dropped && j->repair->state == ESP_REPAIR_NO_JOURNAL) {
        j->repair->state = ESP_REPAIR_UNSENT;
    }
    return status;
}

static enum esp_status from_journal(struct job *j) {
    struct esp_table *table = j->a->session->table;
    struct esp_journal *journal = NULL;
    struct esp_buf own_path;
    const char *path = j->repair->journal;
    enum esp_status status = ESP_OK;
    esp_buf_init(&own_path, j->arena.alloc, SIZE_MAX);
    if (!path) {
        status = esp_journal_path(table->store, table->name, &own_path, j->a->err);
        path = own_path.ptr;
    }
    if (status == ESP_OK) {
        status = esp_journal_open(path, j->arena.alloc, &journal, j->a->err);
    }
    if (status == ESP_ERR_NOT_FOUND && !j->repair->journal) {
        if (j->a->err) {
            esp_error_clear(j->a->err);
        }
        status = ESP_OK;
    }
    if (status == ESP_OK && journal) {
        status = from_open_journal(j, journal);
    }
    if (status == ESP_OK) {
        status = drop_draft(j, path);
    }
    esp_journal_close(journal);
    esp_buf_fini(&own_path);
    return status;
}

/* --- from the items ----------------------------------------------------------------------- */

static enum esp_status tell_found(void *ctx, const struct esp_finding *finding) {
    return tell(ctx, ESP_REPAIR_FOUND, finding);
}

static enum esp_status tell_left(void *ctx, const struct esp_finding *finding) {
    return tell(ctx, ESP_REPAIR_LEFT, finding);
}

static enum esp_status tell_chosen(void *ctx, const struct esp_finding *finding) {
    return tell(ctx, ESP_REPAIR_CHOSEN, finding);
}

static enum esp_status tell_restored(void *ctx, const struct esp_finding *finding) {
    return tell(ctx, ESP_REPAIR_RESTORED, finding);
}

static enum esp_status plan_rebuild(struct job *j, struct esp_images *images) {
    struct esp_repair *r = j->repair;
    images_init(j, images);
    r->rebuilt = true;
    r->rebuild = (struct esp_rebuild){.found = tell_found,
                                      .left = tell_left,
                                      .chosen = tell_chosen,
                                      .restored = tell_restored,
                                      .ctx = j};
    enum esp_status status = esp_rebuild_plan(j->a, &r->rebuild, images);
    esp_images_sum(images, false, &r->sum);
    return status;
}

static enum esp_status rebuild(struct job *j) {
    struct esp_images images;
    struct esp_images_run run = {.way = ESP_IMAGES_FORWARD};
    enum esp_status status = plan_rebuild(j, &images);
    if (status != ESP_OK || j->repair->dry_run || j->repair->rebuild.findings == 0) {
        return status;
    }
    if (images.count) {
        status = esp_images_run(&images, j->a->session, &run, j->a->err);
    }
    return status == ESP_OK ? check_again(j) : status;
}

/* A store with trials lets nobody write in between, and keeps all of it or nothing. */
static enum esp_status from_items(struct job *j) {
    struct esp_session *session = j->a->session;
    const struct esp_store_ops *ops = session->table->store->ops;
    bool whole = ops->trial_begin && !j->repair->dry_run;
    enum esp_status status = whole ? ops->trial_begin(session, j->a->err) : ESP_OK;
    if (status != ESP_OK) {
        return status;
    }
    status = rebuild(j);
    if (whole) {
        bool keep = status == ESP_OK;
        enum esp_status ended = ops->trial_end(session, keep, keep ? j->a->err : NULL);
        status = keep ? ended : status;
    }
    return status;
}

/* --- the public part ---------------------------------------------------------------------- */

enum esp_status esp_repair_run(struct esp_access *a, struct esp_repair *repair) {
    struct job j = {.a = a, .repair = repair};
    repair->state = ESP_REPAIR_NO_JOURNAL;
    repair->operation = (struct esp_str){NULL, 0};
    repair->entries = repair->written = repair->already = repair->strange = repair->withheld = 0;
    repair->rebuilt = repair->checked = false;
    repair->rebuild = (struct esp_rebuild){.ctx = NULL};
    repair->sum = (struct esp_images_sum){.puts = 0};
    repair->remaining = 0;
    esp_arena_init(&j.arena, a->session->table->store->alloc, SIZE_MAX);
    enum esp_status status = from_journal(&j);
    /* What the items tell counts only when nothing of the edit is to come. */
    bool pending = repair->state == ESP_REPAIR_UNMENDED || (repair->dry_run && repair->written);
    if (status == ESP_OK && !pending && !j.clean) {
        status = from_items(&j);
    }
    esp_arena_fini(&j.arena);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

bool esp_repair_is_whole(const struct esp_repair *repair) {
    return repair->state != ESP_REPAIR_UNMENDED && repair->rebuild.left_count == 0 &&
           repair->remaining == 0;
}
