#ifndef ESP_LOADER_IMAGES_H
#define ESP_LOADER_IMAGES_H
/*
 * A write plan as images: what each item is before and after.  Knows items and conditions, no
 * tree.  Images can be shown, priced, journalled, carried out, and taken back.
 *
 * Every write of an image is conditional: a put on nothing being there, an update on every
 * structural attribute that it changes still having the other image's value, a delete on all
 * structural attributes being as in the image.  So two writers cannot silently overwrite each
 * other's structure: one of them gets ERR_CONFLICT.  A payload that somebody else changed
 * meanwhile survives an update, and does not hinder one.
 */
#include "converters/write_plan.h"

#include "converters/idmap.h"

/* What has become of it; not journalled. */
enum esp_image_state {
    ESP_IMAGE_UNTOUCHED,
    ESP_IMAGE_DONE,    /* acknowledged, or found to be so */
    ESP_IMAGE_UNKNOWN, /* sent, no answer */
};

/* One item.  Not both absent; not equal (except in what a caller adds itself). */
struct esp_image {
    struct esp_item before, after; /* meaningful when has_...; the key is in both */
    bool has_before, has_after;
    uint32_t stage; /* of one stage in any order; stages one after another */
    bool together;  /* with the others of its stage that say so in one transaction */
    enum esp_image_state state;
    /* of esp_images_run */
    uint32_t place;
    bool left;
};

struct esp_images {
    const struct esp_schema *schema; /* borrowed */
    struct esp_arena *arena;         /* borrowed; everything below is in it */
    struct esp_image *image;         /* by stage */
    uint32_t count, cap;
    struct esp_idmap keys; /* number = position in image[] */
    /* Items that are relied on: see esp_write_plan.basis. */
    struct esp_item *basis;
    uint32_t basis_count, basis_cap;
    /* Writes of the plan that would change nothing: left out, but a caller that sends the plan's
     * own writes pays for them. */
    uint64_t unchanged;
    struct esp_usage unchanged_usage; /* the write half */
};
/* The schema is the table's (names in use); it and the arena are borrowed. */
void esp_images_init(struct esp_images *images, const struct esp_schema *schema,
                     struct esp_arena *arena);
/* Add a deep copy.  Stages must not fall from one to the next.  ERR_INTERNAL when the key is
 * there already, or when there is no item at all; ERR_NOMEM. */
enum esp_status esp_images_add(struct esp_images *images, const struct esp_image *image,
                               struct esp_error *err) ESP_MUST_CHECK;
/* The key that before and after share: whichever is there. */
static inline const struct esp_item *esp_image_item(const struct esp_image *image) {
    return image->has_before ? &image->before : &image->after;
}
/* The key as people read it, for messages: "ID=V, Relative Depth=0".  In `arena`; ptr == NULL: no
 * memory. */
struct esp_str esp_item_key_text(const struct esp_schema *schema, const struct esp_item *item,
                                 struct esp_arena *arena);

/* The image of the item with this key; NULL: there is none. */
struct esp_image *esp_images_find(const struct esp_images *images, const struct esp_item *item);

/* The images of a plan made with `a`: reads the items of all its keys, consistently.  Writes that
 * change nothing are left out and counted.  What the plan points to is borrowed.
 *   ERR_EXISTS, ERR_NOT_FOUND  a condition of the plan fails on what is there: the operation's
 *                              refusal, with its sentence
 *   ERR_CONFLICT               the operation read something else: changed since the plan was made
 *   ERR_LIMIT, ERR_REFUSED     DynamoDB would refuse an item
 *   ERR_INTERNAL               two writes of one key */
enum esp_status esp_images_plan(struct esp_images *images, struct esp_access *a,
                                const struct esp_write_plan *plan) ESP_MUST_CHECK;

/* What carrying images out does and costs. */
struct esp_images_sum {
    uint64_t puts, updates, deletes;
    uint64_t item_bytes;    /* of what is written, after the write */
    struct esp_usage usage; /* the write half: units by table and index, items, bytes */
};
/* `transaction`: all in one; else only images that say `together` cost twice. */
void esp_images_sum(const struct esp_images *images, bool transaction, struct esp_images_sum *out);

enum esp_images_way { ESP_IMAGES_FORWARD, ESP_IMAGES_BACK };

/* How to carry images out, and what came of it. */
struct esp_images_run {
    enum esp_images_way way; /* BACK: from after to before, stages in reverse order */
    /* Look first: what is as it shall be is fine, and what is neither as before nor as after (in
     * the attributes that the image changes; a whole item: in its structural ones, and what is to
     * be deleted in its payload too) is told to `strange` and left alone.  For repairs, where
     * nobody knows how far somebody came. Not set: such an item is ERR_CONFLICT. */
    bool idempotent;
    bool look_only;   /* with idempotent: write nothing, `written` counts what would be */
    bool payloads;    /* deletes are of items whose payload, too, is as in the image: it was put
                         elsewhere by the same edit.  Looked at right before the write */
    bool only_done;   /* pass over images that are UNTOUCHED: take back one's own writes only */
    bool transaction; /* all in one, at most 100; the basis is checked in it, or after it if it
                         does not fit; stages do not matter then */
    /* `now` is NULL when there is no item.  May be NULL.  Not ESP_OK: ends the run. */
    enum esp_status (*strange)(void *ctx, const struct esp_image *image,
                               const struct esp_item *now);
    /* Before every wave of at most ESP_IMAGES_WAVE writes: not ESP_OK ends the run.  May be NULL.
     */
    enum esp_status (*before_wave)(void *ctx, struct esp_error *err);
    void *ctx;
    /* out */
    uint64_t written, already, strange_count;
};
enum { ESP_IMAGES_WAVE = 1024, ESP_IMAGES_TRANSACTION_MAX = 100 };

/* Carry out all images; states are kept in them (BACK: what was taken back is UNTOUCHED again).
 *   ERR_CONFLICT  an item is not as its image says; the message names its key.  What was done
 *                 before and beside it stays done, and says so in its state
 *   others        from the store; what was in flight is UNKNOWN */
enum esp_status esp_images_run(struct esp_images *images, struct esp_session *session,
                               struct esp_images_run *run, struct esp_error *err) ESP_MUST_CHECK;
/* Are the items that the plan relies on still there, with the same structural attributes?  Items
 * that the plan writes itself are passed over.  Reads consistently.  ERR_CONFLICT names the key. */
enum esp_status esp_images_verify_basis(const struct esp_images *images,
                                        struct esp_session *session,
                                        struct esp_error *err) ESP_MUST_CHECK;

#endif
