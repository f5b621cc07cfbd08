#include "loader/lock.h"

#include "converters/access.h"
#include "core/rng.h"

#include <stdlib.h>
#include <unistd.h>

enum {
    LOOKS_MAX = 3,                          /* at trees that change while they are locked */
    TRIES_MAX = 5,                          /* at an item that others take and release */
    RELEASE_TIME_S = 5,                     /* for all items */
    TREE_BYTES_MAX = ESP_PK_BYTES_MAX - 32, /* longer ids are hashed */
};
static const uint64_t ns_per_s = 1000000000;
#define KEY_PREFIX ESP_RESERVED_PREFIX "lock:"

struct held {
    struct esp_str tree;
    struct esp_item key;
    bool mine;
};

struct esp_lock {
    struct esp_session *session;
    struct esp_arena arena;
    const struct esp_schema *schema;
    struct esp_str owner_name, expires_name; /* of the attributes */
    struct esp_str owner;
    uint64_t seconds, renewed_ns; /* monotonic */
    struct held *held;
    uint32_t count;
    struct esp_str left_tree, left_owner; /* the first that had run out; ptr == NULL: none */
};

static const struct esp_clock *clock_of(const struct esp_lock *lock) {
    return lock->session->table->store->clock;
}

static uint64_t now_s(const struct esp_lock *lock) {
    return esp_wall_ns(clock_of(lock)) / ns_per_s;
}

/* --- the item ----------------------------------------------------------------------------- */

/* A table may call a structural attribute so. */
static struct esp_str free_name(const struct esp_schema *schema, struct esp_str name,
                                struct esp_str other) {
    return esp_schema_find_attr(schema, name) < 0 ? name : other;
}

static enum esp_status make_key(struct esp_lock *lock, struct esp_str tree, struct esp_item *key,
                                struct esp_error *err) {
    const struct esp_schema *schema = lock->schema;
    struct esp_str id = esp_arena_fmt(&lock->arena, KEY_PREFIX "%.*s", ESP_FMT(tree));
    if (tree.len > TREE_BYTES_MAX) {
        id = esp_arena_fmt(&lock->arena, KEY_PREFIX "#%016llx",
                           (unsigned long long)esp_hash64(tree.ptr, tree.len, 0));
    }
    *key = (struct esp_item){.data = {0}};
    key->value[schema->pk] = esp_s(id);
    if (schema->sk >= 0) {
        enum esp_type type = schema->attr[schema->sk].type;
        key->value[schema->sk] = type == ESP_TYPE_N   ? esp_n(-1)
                                 : type == ESP_TYPE_B ? esp_b(ESP_STR("lock"))
                                                      : esp_s(ESP_STR("lock"));
    }
    return id.ptr ? ESP_OK : esp_fail_nomem(err);
}

static enum esp_status make_item(struct esp_lock *lock, const struct esp_item *key,
                                 uint64_t expires, struct esp_item *item, struct esp_error *err) {
    struct esp_change changes[] = {
        {ESP_CHANGE_SET, lock->owner_name, esp_s(lock->owner)},
        {ESP_CHANGE_SET, lock->expires_name, esp_n((int64_t)expires)},
    };
    return esp_item_apply(lock->schema, key, changes, 2, &lock->arena, item, err);
}

/* Who has it and until when; an item of something else has run out long ago. */
struct holder {
    struct esp_value owner, expires;
};

static enum esp_status read_holder(struct esp_lock *lock, const struct esp_item *item,
                                   struct holder *out, struct esp_error *err) {
    enum esp_status status =
        esp_item_find(lock->schema, item, lock->owner_name, &lock->arena, &out->owner, err);
    return status == ESP_OK ? esp_item_find(lock->schema, item, lock->expires_name, &lock->arena,
                                            &out->expires, err)
                            : status;
}

static uint64_t expires_s(const struct holder *holder) {
    bool whole = holder->expires.type == ESP_TYPE_N && holder->expires.s.len == 0;
    return whole && holder->expires.n > 0 ? (uint64_t)holder->expires.n : 0;
}

static struct esp_condition still(struct esp_str name, struct esp_value value) {
    return (struct esp_condition){
        .name = name, .op = value.type == ESP_TYPE_NONE ? ESP_NOT_EXISTS : ESP_EQ, .lo = value};
}

static enum esp_status send(struct esp_lock *lock, struct esp_write *write, struct esp_error *err) {
    return esp_session_write(lock->session, write, 1, NULL, err);
}

/* --- taking ------------------------------------------------------------------------------- */

struct found {
    struct esp_lock *lock;
    struct esp_item item;
    bool there;
};

static enum esp_status take_item(void *ctx, const struct esp_item *item) {
    struct found *found = ctx;
    found->there = true;
    return esp_item_dup(found->lock->schema, &found->lock->arena, item, &found->item);
}

static enum esp_status look(struct esp_lock *lock, const struct held *held, struct found *found,
                            struct esp_error *err) {
    struct esp_item key = held->key;
    *found = (struct found){.lock = lock};
    enum esp_status status = esp_session_get(lock->session, &key, 1, true, take_item, found, err);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(err) : status;
}

static enum esp_status refuse(struct esp_lock *lock, const struct held *held,
                              const struct holder *holder, struct esp_error *err) {
    struct esp_str owner = holder->owner.type == ESP_TYPE_S ? holder->owner.s : ESP_STR("somebody");
    return esp_fail(err, ESP_ERR_CONFLICT,
                    "the tree '%.*s' is locked by %.*s; the lock runs out in %llu s unless it is "
                    "renewed",
                    ESP_FMT(held->tree), ESP_FMT(owner),
                    (unsigned long long)(expires_s(holder) - now_s(lock)));
}

/* What had run out is ours now: whose was it? */
static void note_left(struct esp_lock *lock, const struct held *held, const struct holder *holder) {
    if (!lock->left_owner.ptr) {
        lock->left_tree = held->tree;
        lock->left_owner = holder->owner.type == ESP_TYPE_S ? holder->owner.s : ESP_STR("somebody");
    }
}

/* One try: where nothing is, or in place of what has run out.  ERR_CONDITION: somebody else was
 * faster. */
static enum esp_status try_take(struct esp_lock *lock, struct held *held, const struct found *found,
                                struct esp_error *err) {
    struct esp_condition conditions[2] = {
        {.name = lock->schema->attr[lock->schema->pk].name, .op = ESP_NOT_EXISTS}};
    struct esp_write put = {.kind = ESP_PUT, .condition = conditions, .condition_count = 1};
    struct holder holder;
    enum esp_status status = ESP_OK;
    if (found->there) {
        status = read_holder(lock, &found->item, &holder, err);
        if (status == ESP_OK && expires_s(&holder) > now_s(lock)) {
            return refuse(lock, held, &holder, err);
        }
        conditions[0] = still(lock->owner_name, holder.owner);
        conditions[1] = still(lock->expires_name, holder.expires);
        put.condition_count = 2;
        put.old = &found->item;
    }
    if (status == ESP_OK) {
        status = make_item(lock, &held->key, now_s(lock) + lock->seconds, &put.item, err);
    }
    status = status == ESP_OK ? send(lock, &put, err) : status;
    held->mine = status == ESP_OK;
    if (held->mine && found->there) {
        note_left(lock, held, &holder);
    }
    return status;
}

static enum esp_status take_one(struct esp_lock *lock, struct held *held, struct esp_error *err) {
    struct found found = {.lock = lock};
    enum esp_status status = try_take(lock, held, &found, err);
    for (unsigned i = 0; status == ESP_ERR_CONDITION && i < TRIES_MAX; i++) {
        if (err) {
            esp_error_clear(err);
        }
        status = look(lock, held, &found, err);
        if (status == ESP_OK) {
            status = try_take(lock, held, &found, err);
        }
    }
    if (status == ESP_ERR_CONDITION) {
        if (err) {
            esp_error_clear(err);
        }
        status = esp_fail(err, ESP_ERR_CONFLICT,
                          "others take and release the lock of the tree '%.*s' all the time",
                          ESP_FMT(held->tree));
    }
    return status;
}

/* --- which trees -------------------------------------------------------------------------- */

/* The roots above a node. */
struct roots {
    struct esp_arena *arena;
    bool several; /* a node may be in several trees */
    struct esp_str *id;
    uint32_t count, cap;
    uint32_t seen; /* ancestors of the node in question */
};

static enum esp_status add_root(struct roots *roots, struct esp_str id) {
    for (uint32_t i = 0; i < roots->count; i++) {
        if (esp_str_eq(roots->id[i], id)) {
            return ESP_OK;
        }
    }
    struct esp_str *grown =
        esp_arena_grow(roots->arena, roots->id, &roots->cap, roots->count + 1, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    roots->id = grown;
    grown[roots->count] = esp_arena_dup(roots->arena, id);
    return grown[roots->count++].ptr ? ESP_OK : ESP_ERR_NOMEM;
}

/* Ancestors come root first; where there are several, those without a parent are roots. */
static enum esp_status take_ancestor(void *ctx, const struct esp_node_view *node) {
    struct roots *roots = ctx;
    bool first = roots->seen++ == 0;
    bool root = roots->several ? node->parent_id.len == 0 : first;
    return root ? add_root(roots, node->id) : ESP_OK;
}

static enum esp_status add_roots_of(struct esp_access *a, const struct esp_locator *at,
                                    struct roots *roots) {
    struct esp_args args = {.at = *at};
    roots->seen = 0;
    enum esp_status status = esp_operate(a, ESP_OP_ANCESTORS, &args, take_ancestor, roots);
    return status == ESP_OK && roots->seen == 0 ? add_root(roots, at->id) : status;
}

static int by_id(const void *a, const void *b) {
    return esp_str_cmp(*(const struct esp_str *)a, *(const struct esp_str *)b);
}

static enum esp_status find_roots(struct esp_access *a, enum esp_op op, const struct esp_args *args,
                                  struct roots *roots) {
    enum esp_status status = ESP_OK;
    if (args->at.id.len) {
        status = add_roots_of(a, &args->at, roots);
    }
    if (status == ESP_OK && args->to.id.len) {
        status = add_roots_of(a, &args->to, roots);
    } else if (status == ESP_OK && op == ESP_OP_INSERT) {
        status = add_root(roots, args->id);
    } else if (status == ESP_OK && op == ESP_OP_MOVE) {
        status = add_root(roots, args->at.id);
    }
    const struct esp_forest *f = op == ESP_OP_INSERT_SUBTREE ? args->subtree : NULL;
    for (esp_node v = 0; status == ESP_OK && f && args->to.id.len == 0 && v < f->count;
         v += f->size[v]) {
        status = add_root(roots, esp_forest_id(f, v));
    }
    if (status == ESP_OK) {
        qsort(roots->id, roots->count, sizeof *roots->id, by_id);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* --- the public part ---------------------------------------------------------------------- */

static enum esp_status name_owner(struct esp_lock *lock, struct esp_error *err) {
    struct esp_rng rng;
    char host[256] = "host";
    long pid = (long)getpid();
    gethostname(host, sizeof host - 1);
    esp_rng_init(&rng, esp_wall_ns(clock_of(lock)) ^ (uint64_t)(uintptr_t)lock, (uint64_t)pid);
    lock->owner = esp_arena_fmt(&lock->arena, "%s:%ld:%016llx", host, pid,
                                (unsigned long long)esp_rng_u64(&rng));
    return lock->owner.ptr ? ESP_OK : esp_fail_nomem(err);
}

static enum esp_status lock_new(struct esp_access *a, uint64_t seconds, struct esp_lock **out) {
    const struct esp_alloc *alloc = a->session->table->store->alloc;
    const struct esp_schema *schema = &a->layout->schema;
    struct esp_lock *lock = esp_calloc(alloc, 1, sizeof *lock);
    *out = lock;
    if (!lock) {
        return esp_fail_nomem(a->err);
    }
    lock->session = a->session;
    lock->schema = schema;
    lock->seconds = seconds;
    lock->owner_name = free_name(schema, ESP_STR("owner"), ESP_STR("espalier:owner"));
    lock->expires_name = free_name(schema, ESP_STR("expires"), ESP_STR("espalier:expires"));
    esp_arena_init(&lock->arena, alloc, SIZE_MAX);
    return name_owner(lock, a->err);
}

static enum esp_status take_all(struct esp_lock *lock, const struct roots *roots,
                                struct esp_error *err) {
    lock->held = esp_arena_calloc(&lock->arena, (size_t)roots->count + 1, sizeof *lock->held);
    enum esp_status status = lock->held ? ESP_OK : esp_fail_nomem(err);
    lock->renewed_ns = esp_now_ns(clock_of(lock));
    for (lock->count = 0; status == ESP_OK && lock->count < roots->count; lock->count++) {
        struct held *held = &lock->held[lock->count];
        held->tree = roots->id[lock->count];
        status = make_key(lock, held->tree, &held->key, err);
        if (status == ESP_OK) {
            status = take_one(lock, held, err);
        }
    }
    return status;
}

static enum esp_status delete_held(struct esp_lock *lock, struct esp_error *err) {
    struct esp_condition condition = still(lock->owner_name, esp_s(lock->owner));
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; i < lock->count; i++) {
        struct held *held = &lock->held[i];
        struct esp_write write = {
            .kind = ESP_DELETE, .item = held->key, .condition = &condition, .condition_count = 1};
        struct esp_error error = ESP_ERROR_INIT;
        enum esp_status one = held->mine ? send(lock, &write, &error) : ESP_OK;
        held->mine = false;
        if (one != ESP_OK && one != ESP_ERR_CONDITION && status == ESP_OK) {
            status = esp_fail(err, one, "%s", error.message);
        }
    }
    lock->count = 0;
    return status;
}

static bool same_roots(const struct roots *a, const struct roots *b) {
    bool same = a->count == b->count;
    for (uint32_t i = 0; same && i < a->count; i++) {
        same = esp_str_eq(a->id[i], b->id[i]);
    }
    return same;
}

enum esp_status esp_lock_take(struct esp_access *a, enum esp_op op, const struct esp_args *args,
                              uint64_t seconds, struct esp_lock **out) {
    struct esp_lock *lock;
    bool settled = false;
    enum esp_status status = lock_new(a, seconds, &lock);
    *out = NULL;
    /* A tree may be moved between the look and the lock. */
    for (unsigned i = 0; status == ESP_OK && !settled && i < LOOKS_MAX; i++) {
        struct roots before = {.arena = &lock->arena, .several = a->layout->ops->several_parents};
        struct roots after = before;
        status = find_roots(a, op, args, &before);
        if (status == ESP_OK) {
            status = take_all(lock, &before, a->err);
        }
        if (status == ESP_OK) {
            status = find_roots(a, op, args, &after);
        }
        settled = status == ESP_OK && same_roots(&before, &after);
        if (!settled) {
            (void)delete_held(lock, NULL);
        }
    }
    if (status == ESP_OK && !settled) {
        status = esp_fail(a->err, ESP_ERR_CONFLICT,
                          "others move the nodes concerned while their trees are locked");
    }
    if (status != ESP_OK) {
        (void)esp_lock_release(lock, NULL);
        return status;
    }
    *out = lock;
    return ESP_OK;
}

bool esp_lock_taken_over(const struct esp_lock *lock, struct esp_str *tree, struct esp_str *owner) {
    *tree = lock->left_tree;
    *owner = lock->left_owner;
    return owner->ptr != NULL;
}

enum esp_status esp_lock_keep(struct esp_lock *lock, struct esp_error *err) {
    uint64_t now = esp_now_ns(clock_of(lock));
    struct esp_condition condition = still(lock->owner_name, esp_s(lock->owner));
    struct esp_change change = {ESP_CHANGE_SET, lock->expires_name,
                                esp_n((int64_t)(now_s(lock) + lock->seconds))};
    enum esp_status status = ESP_OK;
    if (now - lock->renewed_ns < lock->seconds * ns_per_s / 2) {
        return ESP_OK;
    }
    for (uint32_t i = 0; status == ESP_OK && i < lock->count; i++) {
        struct held *held = &lock->held[i];
        struct esp_write write = {.kind = ESP_UPDATE,
                                  .item = held->key,
                                  .changes = &change,
                                  .change_count = 1,
                                  .condition = &condition,
                                  .condition_count = 1};
        status = send(lock, &write, err);
        if (status == ESP_ERR_CONDITION) {
            held->mine = false;
            if (err) {
                esp_error_clear(err);
            }
            status = esp_fail(err, ESP_ERR_CONFLICT,
                              "the lock of the tree '%.*s' had run out and somebody took it",
                              ESP_FMT(held->tree));
        }
    }
    lock->renewed_ns = now;
    return status;
}

enum esp_status esp_lock_release(struct esp_lock *lock, struct esp_error *err) {
    if (!lock) {
        return ESP_OK;
    }
    struct esp_session *session = lock->session;
    const struct esp_alloc *alloc = lock->arena.alloc;
    const volatile int *stop = session->stop;
    uint64_t deadline_ns = session->deadline_ns;
    session->stop = NULL;
    session->deadline_ns = esp_now_ns(clock_of(lock)) + RELEASE_TIME_S * ns_per_s;
    enum esp_status status = delete_held(lock, err);
    session->stop = stop;
    session->deadline_ns = deadline_ns;
    esp_arena_fini(&lock->arena);
    esp_release(alloc, lock, sizeof *lock);
    return status;
}
