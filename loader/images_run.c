/*
 * Carrying images out: wave by wave, stage by stage, every write conditional.  What a wave leaves
 * is read again, to say what is in the way and to know what was done.
 */
#include "loader/images.h"

/* What an item is, seen from an image that is to be carried out. */
enum likeness { AS_FROM, AS_TO, OTHERWISE };

struct runner {
    const struct esp_images *images;
    struct esp_session *session;
    struct esp_images_run *run;
    struct esp_error *err;
    struct esp_arena arena; /* of one wave */
    /* the wave */
    struct esp_image **image;
    struct esp_item *now; /* what is there; meaningful where `there` */
    bool *there;
    struct esp_write *w;
    uint32_t count;
};

static const struct esp_item *from_of(const struct runner *r, const struct esp_image *image) {
    bool back = r->run->way == ESP_IMAGES_BACK;
    bool there = back ? image->has_after : image->has_before;
    return !there ? NULL : back ? &image->after : &image->before;
}

static const struct esp_item *to_of(const struct runner *r, const struct esp_image *image) {
    bool back = r->run->way == ESP_IMAGES_BACK;
    bool there = back ? image->has_before : image->has_after;
    return !there ? NULL : back ? &image->before : &image->after;
}

/* --- what is there ------------------------------------------------------------------------ */

static bool same_structure(const struct esp_schema *schema, const struct esp_item *a,
                           const struct esp_item *b) {
    bool same = true;
    for (size_t i = 0; same && i < schema->attr_count; i++) {
        same = esp_value_equal(&a->value[i], &b->value[i]);
    }
    return same;
}

/* The same member, or none in both? */
static bool same_member(struct esp_data a, struct esp_data b, struct esp_str name) {
    struct esp_str x, y;
    bool in_a = esp_data_find(a, name, &x), in_b = esp_data_find(b, name, &y);
    struct esp_value vx = {ESP_TYPE_JSON, x, 0}, vy = {ESP_TYPE_JSON, y, 0};
    return in_a == in_b && (!in_a || esp_value_equal(&vx, &vy));
}

/* Of the members of `names` that `from` and `to` have differently: which of the two is `now` like?
 * Both may be narrowed. */
static bool compare_members(struct esp_data names, const struct esp_item *from,
                            const struct esp_item *to, const struct esp_item *now,
                            struct esp_arena *arena, bool *like_from, bool *like_to) {
    struct esp_member member;
    size_t pos = 0;
    while (esp_data_next(names, &pos, arena, &member)) {
        if (!same_member(from->data, to->data, member.name)) {
            *like_from = *like_from && same_member(now->data, from->data, member.name);
            *like_to = *like_to && same_member(now->data, to->data, member.name);
        }
    }
    return pos >= names.len; /* else an escaped name found no memory */
}

static enum esp_status compare_update(struct runner *r, const struct esp_item *from,
                                      const struct esp_item *to, const struct esp_item *now,
                                      enum likeness *out) {
    bool like_from = true, like_to = true;
    for (size_t i = 0; i < r->images->schema->attr_count; i++) {
        if (!esp_value_equal(&from->value[i], &to->value[i])) {
            like_from = like_from && esp_value_equal(&now->value[i], &from->value[i]);
            like_to = like_to && esp_value_equal(&now->value[i], &to->value[i]);
        }
    }
    if (!compare_members(from->data, from, to, now, &r->arena, &like_from, &like_to) ||
        !compare_members(to->data, from, to, now, &r->arena, &like_from, &like_to)) {
        return esp_fail_nomem(r->err);
    }
    *out = like_to ? AS_TO : like_from ? AS_FROM : OTHERWISE;
    return ESP_OK;
}

static enum esp_status compare(struct runner *r, uint32_t i, enum likeness *out) {
    const struct esp_item *from = from_of(r, r->image[i]), *to = to_of(r, r->image[i]);
    const struct esp_item *now = r->there[i] ? &r->now[i] : NULL;
    *out = OTHERWISE;
    if (!now) {
        *out = !to ? AS_TO : !from ? AS_FROM : OTHERWISE;
    } else if (from && to) {
        return compare_update(r, from, to, now, out);
    } else if (same_structure(r->images->schema, now, from ? from : to)) {
        /* What a repair deletes may have been put elsewhere with the payload of its image: what
         * somebody has written since would be lost. */
        bool newer = from && r->run->idempotent && !esp_data_equal(from->data, now->data);
        *out = newer ? OTHERWISE : from ? AS_FROM : AS_TO;
    }
    return ESP_OK;
}

static enum esp_status take_now(void *ctx, const struct esp_item *item) {
    struct runner *r = ctx;
    const struct esp_image *image = esp_images_find(r->images, item);
    uint32_t i = image ? image->place : r->count;
    if (i >= r->count || r->image[i] != image) { /* a store that answers what was not asked for */
        return ESP_ERR_INTERNAL;
    }
    r->there[i] = true;
    return esp_item_dup(r->images->schema, &r->arena, item, &r->now[i]);
}

/* The items of the wave as they are. */
static enum esp_status look(struct runner *r) {
    const struct esp_schema *schema = r->images->schema;
    struct esp_item *keys = esp_arena_calloc(&r->arena, (size_t)r->count + 1, sizeof *keys);
    r->now = esp_arena_calloc(&r->arena, (size_t)r->count + 1, sizeof *r->now);
    r->there = esp_arena_calloc(&r->arena, (size_t)r->count + 1, sizeof *r->there);
    if (!keys || !r->now || !r->there) {
        return esp_fail_nomem(r->err);
    }
    for (uint32_t i = 0; i < r->count; i++) {
        esp_item_copy(schema, &keys[i], esp_image_item(r->image[i]));
        r->image[i]->place = i;
    }
    enum esp_status status = esp_session_get(r->session, keys, r->count, true, take_now, r, r->err);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(r->err) : status;
}

/* --- one image as a conditional write ----------------------------------------------------- */

static struct esp_condition is_there(const struct esp_schema *schema, bool there) {
    return (struct esp_condition){.name = schema->attr[schema->pk].name,
                                  .op = there ? ESP_EXISTS : ESP_NOT_EXISTS};
}

static struct esp_condition is_still(const struct esp_schema *schema, size_t attr,
                                     const struct esp_value *value) {
    struct esp_condition c = {.name = schema->attr[attr].name, .op = ESP_NOT_EXISTS};
    if (value->type != ESP_TYPE_NONE) {
        c.op = ESP_EQ;
        c.lo = *value;
    }
    return c;
}

static bool is_key(const struct esp_schema *schema, size_t attr) {
    return (int)attr == schema->pk || (int)attr == schema->sk;
}

/* There, with all structural attributes as in `item`. */
static struct esp_condition *as_it_is(const struct esp_schema *schema, const struct esp_item *item,
                                      struct esp_arena *arena, size_t *count) {
    struct esp_condition *list = esp_arena_calloc(arena, schema->attr_count + 1, sizeof *list);
    *count = 0;
    if (list) {
        list[(*count)++] = is_there(schema, true);
        for (size_t i = 0; i < schema->attr_count; i++) {
            if (!is_key(schema, i)) {
                list[(*count)++] = is_still(schema, i, &item->value[i]);
            }
        }
    }
    return list;
}

/* The changes of one update. */
struct changes {
    struct esp_change *change;
    uint32_t count, cap;
};

/* SET, or REMOVE when the value is none. */
static enum esp_status add_change(struct runner *r, struct changes *list, struct esp_str name,
                                  struct esp_value value) {
    struct esp_change *grown =
        esp_arena_grow(&r->arena, list->change, &list->cap, list->count + 1, sizeof *list->change);
    if (!grown) {
        return esp_fail_nomem(r->err);
    }
    bool there = value.type != ESP_TYPE_NONE;
    list->change = grown;
    grown[list->count++] =
        (struct esp_change){there ? ESP_CHANGE_SET : ESP_CHANGE_REMOVE, name, value};
    return ESP_OK;
}

/* SETs of what `to` has and `from` has not, or otherwise; REMOVEs of what only `from` has. */
static enum esp_status change_members(struct runner *r, const struct esp_item *from,
                                      const struct esp_item *to, struct changes *list) {
    struct esp_member member;
    struct esp_value value = {.type = ESP_TYPE_NONE};
    struct esp_str other;
    size_t pos = 0;
    enum esp_status status = ESP_OK;
    while (status == ESP_OK && esp_data_next(to->data, &pos, &r->arena, &member)) {
        if (!same_member(from->data, to->data, member.name)) {
            status = esp_value_parse(member.value, &r->arena, &value, r->err);
            if (status == ESP_OK) {
                status = add_change(r, list, member.name, value);
            }
        }
    }
    if (status != ESP_OK || pos < to->data.len) {
        return status != ESP_OK ? status : esp_fail_nomem(r->err);
    }
    value.type = ESP_TYPE_NONE;
    for (pos = 0; status == ESP_OK && esp_data_next(from->data, &pos, &r->arena, &member);) {
        if (!esp_data_find(to->data, member.name, &other)) {
            status = add_change(r, list, member.name, value);
        }
    }
    return status == ESP_OK && pos < from->data.len ? esp_fail_nomem(r->err) : status;
}

static enum esp_status make_update(struct runner *r, const struct esp_item *from,
                                   const struct esp_item *to, struct esp_write *w) {
    const struct esp_schema *schema = r->images->schema;
    struct esp_condition *list = esp_arena_calloc(&r->arena, schema->attr_count + 1, sizeof *list);
    struct changes changes = {.count = 0};
    size_t conditions = 0;
    enum esp_status status = list ? ESP_OK : esp_fail_nomem(r->err);
    if (list) {
        list[conditions++] = is_there(schema, true);
    }
    for (size_t i = 0; status == ESP_OK && i < schema->attr_count; i++) {
        if (!esp_value_equal(&from->value[i], &to->value[i])) {
            status = add_change(r, &changes, schema->attr[i].name, to->value[i]);
            list[conditions++] = is_still(schema, i, &from->value[i]);
        }
    }
    if (status == ESP_OK) {
        status = change_members(r, from, to, &changes);
    }
    w->kind = ESP_UPDATE;
    w->changes = changes.change;
    w->change_count = changes.count;
    w->condition = list;
    w->condition_count = conditions;
    return status;
}

static enum esp_status make_write(struct runner *r, const struct esp_image *image,
                                  struct esp_write *w) {
    const struct esp_schema *schema = r->images->schema;
    const struct esp_item *from = from_of(r, image), *to = to_of(r, image);
    *w = (struct esp_write){.kind = to ? ESP_PUT : ESP_DELETE, .old = from};
    esp_item_copy(schema, &w->item, to ? to : from);
    if (from && to) {
        return make_update(r, from, to, w);
    }
    if (to) {
        struct esp_condition *absent = esp_arena_alloc(&r->arena, sizeof *absent);
        if (absent) {
            *absent = is_there(schema, false);
        }
        w->condition = absent;
        w->condition_count = 1;
    } else {
        w->condition = as_it_is(schema, from, &r->arena, &w->condition_count);
    }
    return w->condition ? ESP_OK : esp_fail_nomem(r->err);
}

/* In a transaction: this item is as it was. */
static enum esp_status make_check(struct runner *r, const struct esp_item *item,
                                  struct esp_write *w) {
    *w = (struct esp_write){.kind = ESP_CHECK, .old = item};
    esp_item_copy(r->images->schema, &w->item, item);
    w->condition = as_it_is(r->images->schema, item, &r->arena, &w->condition_count);
    return w->condition ? ESP_OK : esp_fail_nomem(r->err);
}

/* --- one wave ----------------------------------------------------------------------------- */

static void set_state(struct runner *r, struct esp_image *image, bool carried_out) {
    bool back = r->run->way == ESP_IMAGES_BACK;
    image->state = carried_out != back ? ESP_IMAGE_DONE : ESP_IMAGE_UNTOUCHED;
}

static enum esp_status tell_strange(struct runner *r, uint32_t i) {
    r->run->strange_count++;
    return r->run->strange
               ? r->run->strange(r->run->ctx, r->image[i], r->there[i] ? &r->now[i] : NULL)
               : ESP_OK;
}

/* Leave out of the wave what is as it shall be, and what is strange. */
static enum esp_status look_first(struct runner *r) {
    uint32_t kept = 0;
    enum esp_status status = look(r);
    for (uint32_t i = 0; status == ESP_OK && i < r->count; i++) {
        enum likeness likeness;
        status = compare(r, i, &likeness);
        if (status == ESP_OK && likeness == OTHERWISE) {
            status = tell_strange(r, i);
        } else if (status == ESP_OK && likeness == AS_TO) {
            set_state(r, r->image[i], true);
            r->run->already++;
        } else {
            r->image[kept++] = r->image[i];
        }
    }
    r->count = kept;
    return status;
}

/* How `now` differs, in a word. */
static const char *what_happened(const struct runner *r, uint32_t i) {
    const struct esp_item *from = from_of(r, r->image[i]);
    return !r->there[i] ? "deleted" : from ? "changed" : "put";
}

static enum esp_status conflict(struct runner *r, const struct esp_item *item, const char *what) {
    struct esp_str key = esp_item_key_text(r->images->schema, item, &r->arena);
    if (r->err) {
        esp_error_clear(r->err);
    }
    return esp_fail(r->err, ESP_ERR_CONFLICT, "another writer %s the item %.*s", what,
                    ESP_FMT(key));
}

/* The wave is now what was left because conditions did not hold: whose is what is there? */
static enum esp_status judge_refused(struct runner *r, bool retried) {
    uint32_t culprit = 0;
    bool found = false;
    enum esp_status status = look(r);
    for (uint32_t i = 0; status == ESP_OK && i < r->count; i++) {
        enum likeness likeness;
        status = compare(r, i, &likeness);
        if (status == ESP_OK && likeness == AS_TO && r->run->idempotent) {
            set_state(r, r->image[i], true);
            r->run->already++;
        } else if (status == ESP_OK && r->run->idempotent) {
            status = tell_strange(r, i);
        } else if (status == ESP_OK) {
            /* An earlier try of the same request may have done it. */
            bool ours = likeness == AS_TO && retried;
            r->image[i]->state = ours ? ESP_IMAGE_UNKNOWN : r->image[i]->state;
            culprit = !found && likeness != AS_FROM ? i : culprit;
            found = found || likeness != AS_FROM;
        }
    }
    if (status != ESP_OK || r->run->idempotent) {
        return status;
    }
    return conflict(r, esp_image_item(r->image[culprit]),
                    found ? what_happened(r, culprit) : "was at");
}

/* Without an answer a write may have been done; a refused one was not. */
static bool is_refusal(enum esp_status status) {
    return status == ESP_ERR_CONFLICT || esp_status_class(status) == ESP_CLASS_USER;
}

/* The images of the writes w[0 .. left). */
static void mark_left(struct runner *r, size_t left) {
    bool all = left == r->count;
    for (size_t i = 0; i < left; i++) {
        struct esp_image *image = all ? r->image[i] : esp_images_find(r->images, &r->w[i].item);
        image->left = true;
    }
}

/* After the wave was sent: w[0 .. left) are not done, or not known to be. */
static enum esp_status settle(struct runner *r, enum esp_status status, size_t left, bool retried) {
    mark_left(r, left);
    uint32_t kept = 0;
    r->run->written += r->count - left;
    for (uint32_t i = 0; i < r->count; i++) {
        struct esp_image *image = r->image[i];
        if (!image->left) {
            set_state(r, image, true);
            continue;
        }
        image->left = false;
        image->state = is_refusal(status) ? image->state : ESP_IMAGE_UNKNOWN;
        r->image[kept++] = image;
    }
    r->count = kept;
    if (status != ESP_ERR_CONDITION && status != ESP_ERR_CONFLICT) {
        return status;
    }
    if (r->err) {
        esp_error_clear(r->err);
    }
    status = judge_refused(r, retried);
    for (uint32_t i = 0; retried && status != ESP_OK && status != ESP_ERR_CONFLICT && i < kept;
         i++) {
        r->image[i]->state = ESP_IMAGE_UNKNOWN; /* nobody could look */
    }
    return status;
}

static enum esp_status make_writes(struct runner *r) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < r->count; i++) {
        status = make_write(r, r->image[i], &r->w[i]);
    }
    return status;
}

/* A condition on a whole payload would not fit in a request. */
static enum esp_status check_payloads(struct runner *r) {
    bool deletes = false;
    for (uint32_t i = 0; r->run->payloads && i < r->count; i++) {
        deletes = deletes || !to_of(r, r->image[i]);
    }
    enum esp_status status = deletes ? look(r) : ESP_OK;
    for (uint32_t i = 0; deletes && status == ESP_OK && i < r->count; i++) {
        const struct esp_item *from = from_of(r, r->image[i]);
        if (!to_of(r, r->image[i]) && r->there[i] && !esp_data_equal(from->data, r->now[i].data)) {
            status = conflict(r, from, "changed");
        }
    }
    return status;
}

/* r->image[0 .. count). */
static enum esp_status send_wave(struct runner *r, bool together) {
    size_t left = 0;
    enum esp_status status =
        r->run->before_wave ? r->run->before_wave(r->run->ctx, r->err) : ESP_OK;
    esp_arena_reset(&r->arena);
    if (status == ESP_OK && r->run->idempotent) {
        status = look_first(r);
    }
    if (status == ESP_OK && r->run->look_only) {
        r->run->written += r->count;
        return ESP_OK;
    }
    if (status == ESP_OK) {
        status = check_payloads(r);
    }
    if (status == ESP_OK) {
        status = make_writes(r);
    }
    if (status != ESP_OK || r->count == 0) {
        return status;
    }
    uint64_t retries = r->session->usage.retries;
    if (together) {
        status = esp_session_transact(r->session, r->w, r->count, r->err);
        left = status == ESP_OK ? 0 : r->count;
    } else {
        status = esp_session_write(r->session, r->w, r->count, &left, r->err);
    }
    return settle(r, status, left, r->session->usage.retries != retries);
}

/* --- stages ------------------------------------------------------------------------------- */

static bool takes_part(const struct runner *r, const struct esp_image *image) {
    return !r->run->only_done || image->state != ESP_IMAGE_UNTOUCHED;
}

/* Images [lo, hi) of one stage that say `together`, or that do not. */
static enum esp_status run_part(struct runner *r, uint32_t lo, uint32_t hi, bool together) {
    enum esp_status status = ESP_OK;
    r->count = 0;
    for (uint32_t i = lo; status == ESP_OK && i < hi; i++) {
        struct esp_image *image = &r->images->image[i];
        if (image->together == together && takes_part(r, image)) {
            r->image[r->count++] = image;
        }
        if (r->count == ESP_IMAGES_WAVE || (r->count && i + 1 == hi)) {
            status = send_wave(r, together);
            r->count = 0;
        }
    }
    return status;
}

static enum esp_status run_stages(struct runner *r) {
    const struct esp_images *images = r->images;
    bool back = r->run->way == ESP_IMAGES_BACK;
    enum esp_status status = ESP_OK;
    for (uint32_t at = 0; status == ESP_OK && at < images->count;) {
        uint32_t lo = back ? images->count - at - 1 : at, hi = lo + 1;
        uint32_t stage = images->image[lo].stage;
        while (back && lo > 0 && images->image[lo - 1].stage == stage) {
            lo--;
        }
        while (!back && hi < images->count && images->image[hi].stage == stage) {
            hi++;
        }
        status = run_part(r, lo, hi, false);
        if (status == ESP_OK) {
            status = run_part(r, lo, hi, true);
        }
        at += hi - lo;
    }
    return status;
}

/* --- what is relied on -------------------------------------------------------------------- */

/* The items of the basis that are not written, each once, as images of items that are there. */
static enum esp_status unwritten_basis(struct runner *r, struct esp_images *out) {
    const struct esp_images *images = r->images;
    enum esp_status status = ESP_OK;
    esp_images_init(out, images->schema, &r->arena);
    for (uint32_t i = 0; status == ESP_OK && i < images->basis_count; i++) {
        struct esp_image image = {.has_before = true, .before = images->basis[i]};
        if (!esp_images_find(images, &image.before) && !esp_images_find(out, &image.before)) {
            status = esp_images_add(out, &image, r->err);
        }
    }
    return status;
}

static enum esp_status compare_basis(void *ctx, const struct esp_item *item) {
    const struct esp_images *basis = ctx;
    struct esp_image *image = esp_images_find(basis, item);
    if (!image) { /* a store that answers what was not asked for */
        return ESP_ERR_INTERNAL;
    }
    image->state =
        same_structure(basis->schema, &image->before, item) ? ESP_IMAGE_DONE : ESP_IMAGE_UNKNOWN;
    return ESP_OK;
}

/* ERR_CONFLICT when one is no more as it was. */
static enum esp_status verify(struct runner *r, struct esp_images *basis) {
    struct esp_item *keys = esp_arena_calloc(&r->arena, (size_t)basis->count + 1, sizeof *keys);
    if (!keys) {
        return esp_fail_nomem(r->err);
    }
    for (uint32_t i = 0; i < basis->count; i++) {
        keys[i] = basis->image[i].before;
    }
    enum esp_status status =
        esp_session_get(r->session, keys, basis->count, true, compare_basis, basis, r->err);
    for (uint32_t i = 0; status == ESP_OK && i < basis->count; i++) {
        const struct esp_image *image = &basis->image[i];
        if (image->state != ESP_IMAGE_DONE) {
            status = conflict(r, &image->before,
                              image->state == ESP_IMAGE_UNKNOWN ? "changed" : "deleted");
        }
    }
    return status;
}

/* All in one transaction, with a check of each item that is relied on if there is room. */
static enum esp_status run_transaction(struct runner *r) {
    struct esp_images basis;
    enum esp_status status = unwritten_basis(r, &basis);
    if (status == ESP_OK && r->images->count > ESP_IMAGES_TRANSACTION_MAX) {
        status =
            esp_fail(r->err, ESP_ERR_LIMIT, "%u items would change; a transaction takes at most %d",
                     r->images->count, ESP_IMAGES_TRANSACTION_MAX);
    }
    if (status == ESP_OK && r->run->before_wave) {
        status = r->run->before_wave(r->run->ctx, r->err);
    }
    for (r->count = 0; status == ESP_OK && r->count < r->images->count; r->count++) {
        r->image[r->count] = &r->images->image[r->count];
    }
    if (status == ESP_OK) {
        status = check_payloads(r);
    }
    if (status == ESP_OK) {
        status = make_writes(r);
    }
    uint32_t n = r->count;
    bool fits = n + basis.count <= ESP_IMAGES_TRANSACTION_MAX;
    for (uint32_t i = 0; status == ESP_OK && fits && i < basis.count; i++, n++) {
        status = make_check(r, &basis.image[i].before, &r->w[n]);
    }
    if (status != ESP_OK || r->count == 0) {
        return status;
    }
    uint64_t retries = r->session->usage.retries;
    status = esp_session_transact(r->session, r->w, n, r->err);
    bool retried = r->session->usage.retries != retries;
    if (status == ESP_ERR_CONDITION && fits) { /* perhaps it is the basis that changed */
        if (r->err) {
            esp_error_clear(r->err);
        }
        enum esp_status verified = verify(r, &basis);
        if (verified != ESP_OK) {
            return verified;
        }
    }
    status = settle(r, status, status == ESP_OK ? 0 : r->count, retried);
    return status == ESP_OK && !fits ? verify(r, &basis) : status;
}

/* --- the public part ---------------------------------------------------------------------- */

static enum esp_status begin(struct runner *r, struct esp_images *images,
                             struct esp_session *session, struct esp_images_run *run,
                             struct esp_error *err) {
    *r = (struct runner){.images = images, .session = session, .run = run, .err = err};
    esp_arena_init(&r->arena, images->arena->alloc, SIZE_MAX);
    r->image = esp_arena_calloc(images->arena, ESP_IMAGES_WAVE, sizeof(struct esp_image *));
    r->w = esp_arena_calloc(images->arena, ESP_IMAGES_WAVE, sizeof *r->w);
    return r->image && r->w ? ESP_OK : esp_fail_nomem(err);
}

enum esp_status esp_images_run(struct esp_images *images, struct esp_session *session,
                               struct esp_images_run *run, struct esp_error *err) {
    struct runner r;
    run->written = run->already = run->strange_count = 0;
    enum esp_status status = begin(&r, images, session, run, err);
    if (status == ESP_OK) {
        status = run->transaction ? run_transaction(&r) : run_stages(&r);
    }
    esp_arena_fini(&r.arena);
    return status;
}

enum esp_status esp_images_verify_basis(const struct esp_images *images,
                                        struct esp_session *session, struct esp_error *err) {
    struct runner r = {.images = images, .session = session, .err = err};
    struct esp_images basis;
    esp_arena_init(&r.arena, images->arena->alloc, SIZE_MAX);
    enum esp_status status = unwritten_basis(&r, &basis);
    if (status == ESP_OK) {
        status = verify(&r, &basis);
    }
    esp_arena_fini(&r.arena);
    return status;
}
