#include "loader/edit.h"

#include "loader/lock.h"
#include "loader/reads.h"

enum { PLANS_MAX = 4, CAUSE_BYTES_MAX = 480 };

/* One edit at work. */
struct edit {
    struct esp_access *a;
    enum esp_op op;
    const struct esp_args *args;
    const struct esp_edit_options *options;
    struct esp_edit_result *result;
    struct esp_lock *lock; /* NULL: none */
    struct esp_arena arena;
    struct esp_images images;
    struct esp_reads reads; /* what they follow from */
    double own_reads;       /* read units of the operation, as planned */
};

static const struct esp_store_ops *ops_of(const struct edit *e) {
    return e->a->session->table->store->ops;
}

static bool runs_in_trial(const struct edit *e) {
    return ops_of(e)->trial_begin && !e->options->atomic;
}

/* The failure so far, and what came of it.  `then` begins with "; ". */
static enum esp_status add_to_error(struct edit *e, enum esp_status status, struct esp_str then) {
    struct esp_error *err = e->a->err;
    if (err && then.ptr) {
        struct esp_error cause = *err;
        int len = (int)strnlen(cause.message, CAUSE_BYTES_MAX);
        esp_error_clear(err);
        esp_fail(err, status, "%.*s%.*s", len, cause.message, ESP_FMT(then));
        err->os_errno = cause.os_errno;
        err->http_status = cause.http_status;
    }
    return status;
}

static double read_units(const struct edit *e) {
    return esp_units_total(&e->a->session->usage.read);
}

/* --- journals of edits that were cut ------------------------------------------------------ */

static enum esp_status refuse_unfinished(struct edit *e, const char *name) {
    return esp_fail(e->a->err, ESP_ERR_REFUSED, /* a repeat would end in the same way */
                    "an edit of this table was cut; %s finishes or undoes it (its journal is %s)",
                    e->options->repair_command, name);
}

static enum esp_status look_at_journal(struct edit *e, const char *path) {
    struct esp_journal *journal = NULL;
    struct esp_error *err = e->a->err;
    enum esp_status status = esp_journal_open(path, e->arena.alloc, &journal, err);
    if (status == ESP_ERR_NOT_FOUND) {
        if (err) {
            esp_error_clear(err);
        }
        return ESP_OK;
    }
    if (status == ESP_OK && esp_journal_state(journal) == ESP_JOURNAL_OPEN) {
        status = refuse_unfinished(e, path);
    }
    esp_journal_close(journal);
    return status;
}

/* A plan made from a table that an edit left half done would be wrong. */
static enum esp_status check_no_journal(struct edit *e) {
    struct esp_table *table = e->a->session->table;
    struct esp_error ignored = ESP_ERROR_INIT;
    struct esp_buf path;
    if (e->options->journal) {
        return look_at_journal(e, e->options->journal);
    }
    esp_buf_init(&path, e->arena.alloc, SIZE_MAX);
    /* Without a place for it there is none; whoever needs one will be told. */
    enum esp_status status = ESP_OK;
    if (esp_journal_path(table->store, table->name, &path, &ignored) == ESP_OK &&
        esp_buf_cstr(&path)) {
        status = look_at_journal(e, path.ptr);
    }
    esp_buf_fini(&path);
    return status;
}

/* --- the plan ----------------------------------------------------------------------------- */

/* Does the edit put payloads somewhere else that it has read?  What an insert puts is new; an
 * update that puts is one that renames. */
static bool copies_payloads(const struct edit *e) {
    bool puts = false;
    for (uint32_t i = 0; !puts && i < e->images.count; i++) {
        puts = !e->images.image[i].has_before;
    }
    return puts && (e->op == ESP_OP_MOVE || e->op == ESP_OP_PROMOTE || e->op == ESP_OP_UPDATE);
}

static enum esp_status verify(struct edit *e) {
    return esp_reads_verify(&e->reads, &e->images, e->a->session, copies_payloads(e), e->a->err);
}

/* Is the plan of one state of the table?  One that finds nothing to do is not looked at later. */
static enum esp_status check_plan(struct edit *e) {
    if (e->a->err) {
        esp_error_clear(e->a->err);
    }
    enum esp_status status = esp_reads_agree(&e->reads, &e->images, copies_payloads(e), e->a->err);
    return status == ESP_OK && e->images.count == 0 ? verify(e) : status;
}

static enum esp_status plan_once(struct edit *e) {
    struct esp_access *a = e->a;
    struct esp_write_plan plan;
    bool consistent = a->consistent;
    const struct esp_schema *schema = &a->session->table->schema;
    esp_write_plan_init(&plan, schema, &e->arena);
    esp_images_init(&e->images, schema, &e->arena);
    esp_reads_init(&e->reads, schema, &e->arena);
    a->session->watch = &e->reads.watch;
    a->plan = &plan;
    a->consistent = true;
    double before = read_units(e);
    enum esp_status status = esp_operate(a, e->op, e->args, NULL, NULL);
    a->plan = NULL;
    a->session->watch = NULL;
    a->consistent = consistent;
    e->own_reads = read_units(e) - before;
    if (status == ESP_OK) {
        status = esp_images_plan(&e->images, a, &plan);
    }
    return status == ESP_OK || esp_reads_are_mixed(&e->reads) ? check_plan(e) : status;
}

/* As long as nothing is written, a plan that was overtaken is made anew. */
static enum esp_status make_plan(struct edit *e) {
    enum esp_status status = plan_once(e);
    for (unsigned i = 1; status == ESP_ERR_CONFLICT && i < PLANS_MAX; i++) {
        if (e->a->err) {
            esp_error_clear(e->a->err);
        }
        esp_arena_reset(&e->arena);
        status = plan_once(e);
    }
    return status;
}

static void fill_result(struct edit *e) {
    struct esp_edit_result *r = e->result;
    struct esp_images_sum sum;
    esp_images_sum(&e->images, e->options->atomic, &sum);
    r->puts = sum.puts;
    r->updates = sum.updates;
    r->deletes = sum.deletes;
    r->item_bytes = sum.item_bytes;
    r->unchanged = e->images.unchanged;
    r->usage = sum.usage;
    if (runs_in_trial(e)) { /* which sends the operation's own writes */
        esp_usage_add(&r->usage, &e->images.unchanged_usage);
        r->item_bytes += e->images.unchanged_usage.bytes_written;
    }
}

static enum esp_status plan(struct edit *e) {
    enum esp_status status = make_plan(e);
    if (status != ESP_OK) {
        return status;
    }
    fill_result(e);
    if (e->options->atomic && e->images.count > ESP_IMAGES_TRANSACTION_MAX) {
        return esp_fail(e->a->err, ESP_ERR_LIMIT,
                        "%s would write %u items; a transaction takes at most %d",
                        esp_op_info[e->op].name, e->images.count, ESP_IMAGES_TRANSACTION_MAX);
    }
    return e->options->planned ? e->options->planned(e->options->ctx, &e->images) : ESP_OK;
}

/* --- carrying it out ---------------------------------------------------------------------- */

static enum esp_status keep_lock(void *ctx, struct esp_error *err) {
    struct edit *e = ctx;
    return e->lock ? esp_lock_keep(e->lock, err) : ESP_OK;
}

struct states {
    uint32_t done, unknown;
};

static struct states count_states(const struct esp_images *images) {
    struct states s = {0, 0};
    for (uint32_t i = 0; i < images->count; i++) {
        s.done += images->image[i].state == ESP_IMAGE_DONE;
        s.unknown += images->image[i].state == ESP_IMAGE_UNKNOWN;
    }
    return s;
}

/* A transaction cannot be taken back, so what it follows from is looked at before. */
static enum esp_status forward(struct edit *e) {
    struct esp_images_run run = {.way = ESP_IMAGES_FORWARD,
                                 .transaction = e->options->atomic,
                                 .payloads = copies_payloads(e),
                                 .before_wave = keep_lock,
                                 .ctx = e};
    enum esp_status status = e->options->atomic ? verify(e) : ESP_OK;
    if (status == ESP_OK) {
        status = esp_images_run(&e->images, e->a->session, &run, e->a->err);
    }
    return status == ESP_OK && !e->options->atomic ? verify(e) : status;
}

/* The read units of a run, from its plan, which took so many: verify asks the ranges again, and
 * payloads are looked at before deletes.  The keys among what the operation read are counted
 * twice: nobody knows how much of it were ranges. */
static double expected_reads(const struct edit *e, double plan_units) {
    if (runs_in_trial(e)) {
        return e->own_reads;
    }
    bool copies = copies_payloads(e);
    double units = plan_units + esp_reads_key_units(&e->reads, &e->images);
    units += e->reads.range_count ? e->own_reads : 0;
    for (uint32_t i = 0; copies && i < e->images.count; i++) {
        const struct esp_image *image = &e->images.image[i];
        if (!image->has_after) {
            units += esp_read_units(esp_item_size(e->images.schema, &image->before), true);
        }
    }
    return e->images.count ? units : plan_units;
}

/* Take back one's own writes; false when some are still there, or may be. */
static bool take_back(struct edit *e) {
    struct esp_images_run run = {.way = ESP_IMAGES_BACK, .idempotent = true, .only_done = true};
    return count_states(&e->images).unknown == 0 &&
           esp_images_run(&e->images, e->a->session, &run, NULL) == ESP_OK &&
           run.strange_count == 0;
}

/* While the writes were under way others could read them: a plan made then was of a table that is
 * none any more.  Only what one's own plan has read tells of such a writer. */
static struct esp_str what_remains(struct edit *e) {
    enum esp_status status = esp_reads_verify(&e->reads, &e->images, e->a->session, false, NULL);
    return status == ESP_OK
               ? ESP_STR("; nothing of this edit remains")
               : ESP_STR("; nothing of this edit remains, but others may have read it half done: "
                         "`check` tells");
}

static struct esp_str what_is_left(struct edit *e, struct states s) {
    if (e->options->atomic) {
        return esp_arena_fmt(&e->arena, "; it is not known whether the transaction was done: all "
                                        "of the edit, or nothing of it");
    }
    struct esp_str unknown = {"", 0};
    if (s.unknown) {
        unknown = esp_arena_fmt(&e->arena, ", of %u it is not known", s.unknown);
    }
    return esp_arena_fmt(&e->arena, "; %u of %u writes of this edit are done%.*s", s.done,
                         e->images.count, ESP_FMT(unknown));
}

/* After a failure: take back what a conflict left; what is left after anything else stays for
 * a repair.  *over: nothing of the edit is in the table. */
static enum esp_status settle(struct edit *e, enum esp_status status, bool *over) {
    struct states s = count_states(&e->images);
    *over = s.done + s.unknown == 0;
    if (*over) {
        return status == ESP_ERR_CONFLICT
                   ? add_to_error(e, status, ESP_STR("; nothing was written"))
                   : status;
    }
    if (status == ESP_ERR_CONFLICT && take_back(e)) {
        *over = true;
        return add_to_error(e, status, what_remains(e));
    }
    return add_to_error(e, status, what_is_left(e, count_states(&e->images)));
}

static enum esp_status run_short(struct edit *e) {
    bool over;
    enum esp_status status = e->images.count ? forward(e) : ESP_OK;
    return status == ESP_OK ? status : settle(e, status, &over);
}

static enum esp_status open_journal(struct edit *e, struct esp_journal **journal) {
    struct esp_error *err = e->a->err;
    enum esp_status status = esp_journal_create(e->options->journal, e->a->session->table,
                                                &e->options->edit, &e->images, journal, err);
    if (status == ESP_ERR_EXISTS) { /* somebody was cut since check_no_journal */
        if (err) {
            esp_error_clear(err);
        }
        status = refuse_unfinished(e, e->options->journal ? e->options->journal : "there");
    }
    return status;
}

static enum esp_status run_journalled(struct edit *e) {
    struct esp_journal *journal = NULL;
    bool over = true;
    enum esp_status status = open_journal(e, &journal);
    if (status != ESP_OK) {
        return status;
    }
    status = forward(e);
    if (status != ESP_OK) {
        status = settle(e, status, &over);
    }
    if (!over) {
        struct esp_str then =
            esp_arena_fmt(&e->arena, "; %s finishes or undoes it (the journal is %s)",
                          e->options->repair_command, esp_journal_name(journal));
        status = add_to_error(e, status, then);
    } else {
        enum esp_status done = esp_journal_done(journal, status == ESP_OK ? e->a->err : NULL);
        if (status == ESP_OK && done != ESP_OK) {
            status = add_to_error(e, done, ESP_STR("; the edit itself is done"));
        }
    }
    esp_journal_close(journal);
    return status;
}

/* --- stores with trials ------------------------------------------------------------------- */

/* What the operation's own writes were: a store with trials knows what was there. */
static void fill_from_session(struct edit *e, const struct esp_usage *before) {
    const struct esp_usage *now = &e->a->session->usage;
    struct esp_edit_result *r = e->result;
    for (size_t i = 0; i < ESP_INDEX_MAX; i++) {
        r->usage.write.index[i] = now->write.index[i] - before->write.index[i];
    }
    r->usage.write.table = now->write.table - before->write.table;
    r->usage.items_written = now->items_written - before->items_written;
    r->puts = now->items_added - before->items_added;
    r->deletes = now->items_deleted - before->items_deleted;
    r->updates = now->items_changed - before->items_changed;
    r->unchanged = r->usage.items_written - r->puts - r->deletes - r->updates;
    r->item_bytes = now->bytes_written - before->bytes_written;
}

/* All or nothing, and nobody else writes meanwhile. */
static enum esp_status run_in_trial(struct edit *e) {
    struct esp_access *a = e->a;
    struct esp_session *session = a->session;
    struct esp_usage before = session->usage;
    enum esp_status status = ops_of(e)->trial_begin(session, a->err);
    if (status != ESP_OK) {
        return status;
    }
    status = keep_lock(e, a->err);
    if (status == ESP_OK) {
        status = esp_operate(a, e->op, e->args, NULL, NULL);
    }
    bool keep = status == ESP_OK;
    enum esp_status ended = ops_of(e)->trial_end(session, keep, keep ? a->err : NULL);
    fill_from_session(e, &before);
    return keep ? ended : status;
}

/* --- the public part ---------------------------------------------------------------------- */

static enum esp_status do_edit(struct edit *e) {
    if (runs_in_trial(e) && !e->options->dry_run) {
        return run_in_trial(e);
    }
    enum esp_status status = plan(e);
    if (status != ESP_OK || e->options->dry_run) {
        return status;
    }
    return e->options->atomic || e->images.count <= 1 ? run_short(e) : run_journalled(e);
}

static void tell_taken_over(const struct edit *e) {
    struct esp_str tree, owner;
    if (e->lock && e->options->took_over && esp_lock_taken_over(e->lock, &tree, &owner)) {
        e->options->took_over(tree, owner);
    }
}

enum esp_status esp_edit_run(struct esp_access *a, enum esp_op op, const struct esp_args *args,
                             const struct esp_edit_options *options,
                             struct esp_edit_result *result) {
    struct edit e = {.a = a, .op = op, .args = args, .options = options, .result = result};
    enum esp_status status = ESP_OK;
    double before = read_units(&e);
    *result = (struct esp_edit_result){.transaction = options->atomic};
    esp_arena_init(&e.arena, a->session->table->store->alloc, SIZE_MAX);
    if (!options->dry_run && !runs_in_trial(&e)) {
        status = check_no_journal(&e);
    }
    if (status == ESP_OK && options->lock_s && !options->dry_run) {
        status = esp_lock_take(a, op, args, options->lock_s, &e.lock);
        tell_taken_over(&e);
    }
    if (status == ESP_OK) {
        status = do_edit(&e);
    }
    result->read_units = read_units(&e) - before;
    if (status == ESP_OK && options->dry_run) {
        result->read_units = expected_reads(&e, result->read_units);
    }
    result->lock_left = esp_lock_release(e.lock, NULL) != ESP_OK;
    esp_arena_fini(&e.arena);
    return status;
}
