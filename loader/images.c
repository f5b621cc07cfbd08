/* The list of images, how a plan becomes one, and what carrying it out costs. */
#include "loader/images.h"

#include "converters/access.h"
#include "stores/condition.h"
#include "stores/keys.h"

enum { READ_KEYS = 4096 }; /* of items, at once */

void esp_images_init(struct esp_images *images, const struct esp_schema *schema,
                     struct esp_arena *arena) {
    *images = (struct esp_images){.schema = schema, .arena = arena};
    esp_idmap_init(&images->keys, arena);
}

/* --- keys --------------------------------------------------------------------------------- */

static void put_key_part(struct esp_buf *out, const struct esp_schema *schema,
                         const struct esp_item *item, int attr) {
    const struct esp_value *value = &item->value[attr];
    esp_buf_put_str(out, schema->attr[attr].name);
    esp_buf_put_char(out, '=');
    if (value->type == ESP_TYPE_S) {
        esp_buf_put_str(out, value->s);
    } else if (value->type == ESP_TYPE_N && value->s.len == 0) {
        esp_buf_put_i64(out, value->n);
    } else {
        esp_value_put_json(out, value);
    }
}

struct esp_str esp_item_key_text(const struct esp_schema *schema, const struct esp_item *item,
                                 struct esp_arena *arena) {
    struct esp_buf text;
    struct esp_str out = {.ptr = NULL};
    esp_buf_init(&text, arena->alloc, SIZE_MAX);
    put_key_part(&text, schema, item, schema->pk);
    if (schema->sk >= 0) {
        ESP_BUF_LIT(&text, ", ");
        put_key_part(&text, schema, item, schema->sk);
    }
    if (!text.failed) {
        out = esp_arena_dup(arena, esp_buf_str(&text));
    }
    esp_buf_fini(&text);
    return out;
}

/* What esp_key_of_item needs: parts of a key's types, and not too long for it. */
static bool has_key(const struct esp_schema *schema, const struct esp_item *item) {
    const struct esp_value *pk = &item->value[schema->pk];
    const struct esp_value *sk = schema->sk >= 0 ? &item->value[schema->sk] : NULL;
    return pk->type == schema->attr[schema->pk].type && pk->s.len <= ESP_PK_BYTES_MAX &&
           (!sk || (sk->type == schema->attr[schema->sk].type && sk->s.len <= ESP_SK_BYTES_MAX));
}

static uint32_t position_of(const struct esp_images *images, const struct esp_item *item) {
    struct esp_key key;
    if (!has_key(images->schema, item)) {
        return ESP_IDMAP_NONE;
    }
    esp_key_of_item(images->schema, item, &key);
    return esp_idmap_find(&images->keys, esp_key_str(&key));
}

struct esp_image *esp_images_find(const struct esp_images *images, const struct esp_item *item) {
    uint32_t at = position_of(images, item);
    return at == ESP_IDMAP_NONE ? NULL : &images->image[at];
}

/* --- the list ----------------------------------------------------------------------------- */

/* The key gets the next number. */
static enum esp_status intern(struct esp_images *images, const struct esp_item *item,
                              struct esp_error *err) {
    struct esp_key key;
    uint32_t number, next = images->keys.count;
    if (!has_key(images->schema, item)) {
        return esp_fail(err, ESP_ERR_LIMIT,
                        "an item's key is missing, of another type, or longer than %d and %d bytes",
                        ESP_PK_BYTES_MAX, ESP_SK_BYTES_MAX);
    }
    esp_key_of_item(images->schema, item, &key);
    if (esp_idmap_intern(&images->keys, esp_key_str(&key), &number) != ESP_OK) {
        return esp_fail_nomem(err);
    }
    if (number != next) {
        struct esp_str text = esp_item_key_text(images->schema, item, images->arena);
        return esp_fail(err, ESP_ERR_INTERNAL, "an edit would write the item %.*s twice",
                        ESP_FMT(text));
    }
    return ESP_OK;
}

/* Without copies: what the image points to stays. */
static enum esp_status append(struct esp_images *images, const struct esp_image *image,
                              struct esp_error *err) {
    struct esp_image *grown = images->count < UINT32_MAX
                                  ? esp_arena_grow(images->arena, images->image, &images->cap,
                                                   images->count + 1, sizeof *grown)
                                  : NULL;
    if (!grown) {
        return esp_fail_nomem(err);
    }
    images->image = grown;
    enum esp_status status = intern(images, esp_image_item(image), err);
    if (status == ESP_OK) {
        grown[images->count++] = *image;
    }
    return status;
}

enum esp_status esp_images_add(struct esp_images *images, const struct esp_image *image,
                               struct esp_error *err) {
    struct esp_image copy = *image;
    uint32_t last = images->count ? images->image[images->count - 1].stage : 0;
    if ((!image->has_before && !image->has_after) || image->stage < last) {
        return esp_fail(err, ESP_ERR_INTERNAL, "an image without an item, or of a stage before");
    }
    enum esp_status status = ESP_OK;
    if (image->has_before) {
        status = esp_item_dup(images->schema, images->arena, &image->before, &copy.before);
    }
    if (status == ESP_OK && image->has_after) {
        status = esp_item_dup(images->schema, images->arena, &image->after, &copy.after);
    }
    return status == ESP_OK ? append(images, &copy, err) : esp_fail_nomem(err);
}

/* --- from a plan -------------------------------------------------------------------------- */

/* The key alone. */
static void copy_key(const struct esp_schema *schema, const struct esp_item *item,
                     struct esp_item *key) {
    *key = (struct esp_item){.data = {0}};
    key->value[schema->pk] = item->value[schema->pk];
    if (schema->sk >= 0) {
        key->value[schema->sk] = item->value[schema->sk];
    }
}

/* Until they are read, all images are of items that are not there. */
static enum esp_status begin(struct esp_images *images, const struct esp_write_plan *plan,
                             struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < plan->count; i++) {
        const struct esp_planned *planned = &plan->write[i];
        struct esp_image image = {.has_after = true, /* for now it holds the key */
                                  .stage = planned->stage,
                                  .together = planned->together};
        copy_key(images->schema, &planned->write.item, &image.after);
        status = append(images, &image, err);
    }
    return status;
}

static enum esp_status take_before(void *ctx, const struct esp_item *item) {
    struct esp_images *images = ctx;
    uint32_t at = position_of(images, item);
    if (at == ESP_IDMAP_NONE) { /* a store that answers what was not asked for */
        return ESP_ERR_INTERNAL;
    }
    images->image[at].has_before = true;
    return esp_item_dup(images->schema, images->arena, item, &images->image[at].before);
}

static enum esp_status read_before(struct esp_images *images, struct esp_access *a) {
    uint32_t most = images->count < READ_KEYS ? images->count : READ_KEYS;
    struct esp_item *keys = esp_arena_calloc(images->arena, (size_t)most + 1, sizeof *keys);
    enum esp_status status = keys ? ESP_OK : ESP_ERR_NOMEM;
    for (uint32_t at = 0; status == ESP_OK && at < images->count;) {
        uint32_t n = images->count - at < most ? images->count - at : most;
        for (uint32_t i = 0; i < n; i++) {
            keys[i] = images->image[at + i].after;
        }
        status = esp_session_get(a->session, keys, n, true, take_before, images, a->err);
        at += n;
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* Does the write go by a payload that the operation knew?  A put carries on what it knew; a delete
 * may be of something it has put elsewhere, but `old` without a payload may be a key alone. */
static bool knows_payload(const struct esp_write *write) {
    return write->old &&
           (write->kind == ESP_PUT || (write->kind == ESP_DELETE && write->old->data.len > 0));
}

/* Has what the operation went by changed since it was read?  An index may have told less than
 * all attributes. */
static bool is_stale(const struct esp_schema *schema, const struct esp_write *write,
                     const struct esp_image *image) {
    bool stale = write->old && !image->has_before;
    for (size_t i = 0; !stale && write->old && i < schema->attr_count; i++) {
        const struct esp_value *old = &write->old->value[i];
        stale = old->type != ESP_TYPE_NONE && !esp_value_equal(old, &image->before.value[i]);
    }
    return stale || (knows_payload(write) && !esp_data_equal(write->old->data, image->before.data));
}

static enum esp_status conflict(struct esp_images *images, struct esp_access *a,
                                const struct esp_item *item) {
    struct esp_str key = esp_item_key_text(images->schema, item, images->arena);
    return esp_fail(a->err, ESP_ERR_CONFLICT,
                    "another writer changed the item %.*s while the edit was planned",
                    ESP_FMT(key));
}

/* A condition of the plan does not hold: on the key it is the operation's refusal. */
static enum esp_status refuse(struct esp_images *images, struct esp_access *a,
                              const struct esp_write *write) {
    const struct esp_schema *schema = images->schema;
    struct esp_id_room *room = esp_arena_alloc(images->arena, sizeof *room);
    struct esp_node_view view;
    struct esp_str id = write->item.value[schema->pk].s;
    enum esp_status refused = ESP_OK;
    for (size_t i = 0; i < write->condition_count; i++) {
        if (esp_str_eq(write->condition[i].name, schema->attr[schema->pk].name)) {
            refused = write->condition[i].op == ESP_NOT_EXISTS ? ESP_ERR_EXISTS : ESP_ERR_NOT_FOUND;
        }
    }
    if (refused == ESP_OK) {
        return conflict(images, a, &write->item);
    }
    if (room && esp_layout_view(a->layout, &write->item, room, &view)) {
        id = view.id;
    }
    return esp_access_outcome(a, ESP_ERR_CONDITION, id, refused);
}

static enum esp_status check_write(struct esp_images *images, struct esp_access *a,
                                   const struct esp_write *write, const struct esp_image *image) {
    bool holds;
    if (is_stale(images->schema, write, image)) {
        return conflict(images, a, &write->item);
    }
    enum esp_status status = esp_conditions_hold(
        images->schema, write->condition, write->condition_count,
        image->has_before ? &image->before : NULL, images->arena, &holds, a->err);
    return status == ESP_OK && !holds ? refuse(images, a, write) : status;
}

/* What the write makes of the item. */
static enum esp_status make_after(struct esp_images *images, struct esp_access *a,
                                  const struct esp_write *write, struct esp_image *image) {
    const struct esp_item *old = image->has_before ? &image->before : &image->after;
    enum esp_status status = ESP_OK;
    image->has_after = write->kind == ESP_PUT || write->kind == ESP_UPDATE;
    if (write->kind == ESP_PUT) {
        esp_item_copy(images->schema, &image->after, &write->item);
    } else if (write->kind == ESP_UPDATE) {
        struct esp_item after;
        status = esp_item_apply(images->schema, old, write->changes, write->change_count,
                                images->arena, &after, a->err);
        if (status == ESP_OK) {
            esp_item_copy(images->schema, &image->after, &after);
        }
    }
    return status == ESP_OK && image->has_after
               ? esp_item_check(images->schema, &image->after, a->err)
               : status;
}

static enum esp_status rely(struct esp_images *images, const struct esp_item *item,
                            struct esp_error *err) {
    struct esp_item *grown = esp_arena_grow(images->arena, images->basis, &images->basis_cap,
                                            images->basis_count + 1, sizeof *grown);
    if (!grown) {
        return esp_fail_nomem(err);
    }
    images->basis = grown;
    grown[images->basis_count++] = *item;
    return ESP_OK;
}

static bool changes_nothing(const struct esp_schema *schema, const struct esp_image *image) {
    return image->has_before == image->has_after &&
           (!image->has_before || esp_item_equal(schema, &image->before, &image->after));
}

/* Leave out what changes nothing; a check becomes something to rely on. */
static enum esp_status drop_unchanged(struct esp_images *images, const struct esp_write_plan *plan,
                                      struct esp_error *err) {
    const struct esp_schema *schema = images->schema;
    uint32_t kept = 0;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < images->count; i++) {
        struct esp_image *image = &images->image[i];
        const struct esp_item *before = image->has_before ? &image->before : NULL;
        bool check = plan->write[i].write.kind == ESP_CHECK;
        if (check) {
            esp_meter_check(schema, before, &images->unchanged_usage);
            status = before ? rely(images, before, err) : ESP_OK;
        } else if (changes_nothing(schema, image)) {
            esp_meter_write(schema, before, before, image->together, &images->unchanged_usage);
            images->unchanged++;
        } else {
            images->image[kept++] = *image;
        }
    }
    if (status != ESP_OK || kept == images->count) {
        return status;
    }
    images->count = kept;
    esp_idmap_init(&images->keys, images->arena);
    for (uint32_t i = 0; status == ESP_OK && i < kept; i++) {
        status = intern(images, esp_image_item(&images->image[i]), err);
    }
    return status;
}

enum esp_status esp_images_plan(struct esp_images *images, struct esp_access *a,
                                const struct esp_write_plan *plan) {
    enum esp_status status = begin(images, plan, a->err);
    if (status == ESP_OK) {
        status = read_before(images, a);
    }
    for (uint32_t i = 0; status == ESP_OK && i < images->count; i++) {
        const struct esp_write *write = &plan->write[i].write;
        status = check_write(images, a, write, &images->image[i]);
        if (status == ESP_OK) {
            status = make_after(images, a, write, &images->image[i]);
        }
    }
    for (uint32_t i = 0; status == ESP_OK && i < plan->basis_count; i++) {
        status = rely(images, &plan->basis[i], a->err);
    }
    return status == ESP_OK ? drop_unchanged(images, plan, a->err) : status;
}

/* --- figures ------------------------------------------------------------------------------ */

void esp_images_sum(const struct esp_images *images, bool transaction, struct esp_images_sum *out) {
    *out = (struct esp_images_sum){.puts = 0};
    for (uint32_t i = 0; i < images->count; i++) {
        const struct esp_image *image = &images->image[i];
        out->puts += !image->has_before;
        out->deletes += !image->has_after;
        out->updates += image->has_before && image->has_after;
        out->item_bytes += image->has_after ? esp_item_size(images->schema, &image->after) : 0;
        esp_meter_write(images->schema, image->has_before ? &image->before : NULL,
                        image->has_after ? &image->after : NULL, transaction || image->together,
                        &out->usage);
    }
    for (uint32_t i = 0; transaction && images->count && i < images->basis_count; i++) {
        if (!esp_images_find(images, &images->basis[i])) {
            esp_meter_check(images->schema, &images->basis[i], &out->usage);
        }
    }
}
