/*
 * Workers take ranges of nodes, then segments of the scan, from atomic counters; what they
 * count is their own and is added up after join.
 *
 * Shared while the source is converted: the map of expected items, with one slot an item.  A
 * worker claims a slot by exchanging its key from 0, and alone writes the digest then.  Between
 * converting and scanning lies a join.  While the table is scanned, keys stand still and the
 * lowest bits of a slot's digest say what was found, set by an atomic OR.
 */
#include "loader/verify.h"

#include "loader/crew.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    SEGMENTS_PER_WORKER = 4,
    NODES_PER_TASK = 4096,
    SCRATCH_BYTES_MAX = 1 << 30,
    NAMED_MAX = 100,
    TEXT_BYTES_MAX = 1 << 16, /* of a key, escaped, and of names of attributes */
};

/* --- scanning, divided by segments --------------------------------------------------- */

struct scanning {
    struct esp_table *table;
    const volatile int *stop;
    uint32_t segments;
    atomic_uint next;
};

/* One worker's share. */
static enum esp_status scan_share(struct scanning *job, esp_item_fn *fn, void *ctx,
                                  struct esp_usage *usage, struct esp_error *err) {
    struct esp_session *session = NULL;
    enum esp_status status = esp_session_open(job->table, &session, err);
    while (status == ESP_OK) {
        struct esp_scan scan = {.index = ESP_PRIMARY,
                                .segment = atomic_fetch_add(&job->next, 1),
                                .segments = job->segments,
                                .consistent = true};
        if (scan.segment >= job->segments) {
            break;
        }
        session->stop = job->stop;
        status = esp_session_scan(session, &scan, fn, ctx, err);
    }
    if (session) {
        esp_usage_add(usage, &session->usage);
    }
    esp_session_close(session);
    return status;
}

struct counter {
    uint64_t items;
    struct esp_usage usage;
    enum esp_status status;
    struct esp_error error;
    char pad[ESP_CACHE_PAD_BYTES];
};

static enum esp_status count_item(void *ctx, const struct esp_item *item) {
    (void)item;
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static void count_segments(void *shared, void *own) {
    struct counter *me = own;
    me->status = scan_share(shared, count_item, &me->items, &me->usage, &me->error);
}

enum esp_status esp_table_count(struct esp_table *table, uint32_t workers, const volatile int *stop,
                                uint64_t *items, struct esp_error *err) {
    const struct esp_alloc *alloc = table->store->alloc;
    workers = esp_crew_size(workers, ESP_CREW_MAX);
    struct scanning job = {.table = table, .stop = stop, .segments = workers * SEGMENTS_PER_WORKER};
    struct counter *counters = esp_calloc(alloc, workers, sizeof *counters);
    struct esp_crew crew = {.workers = workers,
                            .work = count_segments,
                            .shared = &job,
                            .own = counters,
                            .own_size = sizeof *counters};
    *items = 0;
    if (!counters) {
        return esp_fail_nomem(err);
    }
    enum esp_status status = esp_crew_run(&crew, err);
    for (uint32_t i = 0; i < workers; i++) {
        *items += counters[i].items;
        if (status == ESP_OK && counters[i].status != ESP_OK) {
            status = counters[i].status;
            if (err && err->status == ESP_OK) {
                *err = counters[i].error;
            }
        }
    }
    esp_release(alloc, counters, workers * sizeof *counters);
    return status;
}

/* --- the map of expected items --------------------------------------------------------- */

/* What was found of an item, in the lowest bits of its digest. */
enum found { FOUND_NOT = 0, FOUND_SAME = 1, FOUND_DIFFERENT = 2, FOUND_MASK = 3 };

struct expected {
    _Atomic uint64_t key;    /* digest of the primary key; 0 = free */
    _Atomic uint64_t digest; /* of the item, but for the lowest bits */
};

/* An item of the table that the source does not make. */
struct extra {
    struct esp_buf key, id;
};

struct verifying {
    const struct esp_forest *forest;
    const struct esp_layout *layout;
    const struct esp_alloc *alloc, *memory;
    uint32_t named;
    struct scanning scan;
    struct expected *slot;
    uint64_t slot_count;
    _Atomic uint64_t next;
    atomic_bool failed, scanning_now;
};

struct verifier {
    struct verifying *job;
    struct esp_arena scratch;
    struct esp_item key; /* only the primary key is set */
    struct esp_buf key_text;
    uint64_t source_items, source_digest, table_items, table_digest;
    uint64_t same, different, extra_count;
    struct extra *extra; /* the smallest by key, sorted */
    uint32_t extra_kept;
    struct esp_usage usage;
    enum esp_status status;
    struct esp_error error;
    char pad[ESP_CACHE_PAD_BYTES];
};

static uint64_t key_digest(struct verifier *me, const struct esp_item *item) {
    const struct esp_schema *schema = &me->job->layout->schema;
    me->key.value[schema->pk] = item->value[schema->pk];
    if (schema->sk >= 0) {
        me->key.value[schema->sk] = item->value[schema->sk];
    }
    uint64_t digest = esp_item_digest(schema, &me->key);
    return digest ? digest : 1;
}

static uint64_t first_slot(const struct verifying *job, uint64_t key) {
    return (uint64_t)(((unsigned __int128)key * job->slot_count) >> 64);
}

/* The item's slot, or NULL. */
static struct expected *find_expected(const struct verifying *job, uint64_t key) {
    for (uint64_t at = first_slot(job, key);; at = at + 1 == job->slot_count ? 0 : at + 1) {
        uint64_t there = atomic_load_explicit(&job->slot[at].key, memory_order_relaxed);
        if (there == 0 || there == key) {
            return there ? &job->slot[at] : NULL;
        }
    }
}

/* False: there is an item with this key already. */
static bool expect(struct verifying *job, uint64_t key, uint64_t digest) {
    for (uint64_t at = first_slot(job, key);; at = at + 1 == job->slot_count ? 0 : at + 1) {
        uint64_t there = 0;
        if (atomic_compare_exchange_strong(&job->slot[at].key, &there, key)) {
            atomic_store_explicit(&job->slot[at].digest, digest & ~(uint64_t)FOUND_MASK,
                                  memory_order_relaxed);
            return true;
        }
        if (there == key) {
            return false;
        }
    }
}

/* --- in a worker's thread: what the source makes ---------------------------------------- */

static enum esp_status expect_item(void *ctx, const struct esp_item *item) {
    struct verifier *me = ctx;
    uint64_t digest = esp_item_digest(&me->job->layout->schema, item);
    me->source_items++;
    me->source_digest += digest;
    return expect(me->job, key_digest(me, item), digest)
               ? ESP_OK
               : esp_fail(&me->error, ESP_ERR_INTERNAL,
                          "two items that the layout %s makes have the same key",
                          me->job->layout->ops->name);
}

static enum esp_status convert_ranges(struct verifier *me) {
    struct verifying *job = me->job;
    enum esp_status status = ESP_OK;
    while (status == ESP_OK && !atomic_load(&job->failed) && !esp_stop_wanted(job->scan.stop)) {
        uint64_t first = atomic_fetch_add(&job->next, NODES_PER_TASK);
        if (first >= job->forest->count) {
            break;
        }
        uint64_t left = job->forest->count - first;
        status = job->layout->ops->emit(job->layout, job->forest, (esp_node)first,
                                        left < NODES_PER_TASK ? (uint32_t)left : NODES_PER_TASK,
                                        &me->scratch, expect_item, me);
        esp_arena_reset(&me->scratch);
    }
    return status;
}

/* --- in a worker's thread: what the table holds ------------------------------------------- */

static void put_key(struct esp_buf *out, const struct esp_schema *schema,
                    const struct esp_item *item) {
    esp_buf_reset(out);
    esp_buf_put_char(out, '{');
    esp_item_put_key_json(out, schema, item);
    esp_buf_put_char(out, '}');
}

/* The id of the node that an item, or a further copy or a link of it, belongs to. */
static void put_id(struct esp_buf *out, const struct esp_layout *layout,
                   const struct esp_item *item) {
    struct esp_id_room room;
    struct esp_node_view node = {.depth = -1};
    if (!esp_layout_view(layout, item, &room, &node)) {
        node.id = (struct esp_str){0};
        bool copy = layout->ops->copy && layout->ops->copy(layout, item, &node);
        if (!copy && layout->ops->relation) {
            (void)layout->ops->relation(layout, item, &node);
        }
    }
    esp_buf_put_str(out, node.id);
}

/* Keep the smallest keys, so that the same are named however the scan was divided. */
static enum esp_status keep_extra(struct verifier *me, const struct esp_item *item) {
    const struct esp_layout *layout = me->job->layout;
    put_key(&me->key_text, &layout->schema, item);
    if (me->job->named == 0 || (me->extra_kept == me->job->named &&
                                esp_str_cmp(esp_buf_str(&me->key_text),
                                            esp_buf_str(&me->extra[me->extra_kept - 1].key)) > 0)) {
        return ESP_OK;
    }
    me->extra_kept += me->extra_kept < me->job->named;
    uint32_t at = me->extra_kept - 1;
    struct extra kept = me->extra[at];
    esp_buf_reset(&kept.key);
    esp_buf_reset(&kept.id);
    esp_buf_put_str(&kept.key, esp_buf_str(&me->key_text));
    put_id(&kept.id, layout, item);
    for (; at > 0 && esp_str_cmp(esp_buf_str(&kept.key), esp_buf_str(&me->extra[at - 1].key)) < 0;
         at--) {
        me->extra[at] = me->extra[at - 1];
    }
    me->extra[at] = kept;
    return me->key_text.failed || kept.key.failed || kept.id.failed ? ESP_ERR_NOMEM : ESP_OK;
}

static enum esp_status compare_item(void *ctx, const struct esp_item *item) {
    struct verifier *me = ctx;
    const struct esp_schema *schema = &me->job->layout->schema;
    if (esp_item_reserved(schema, item)) {
        return ESP_OK;
    }
    uint64_t digest = esp_item_digest(schema, item);
    me->table_items++;
    me->table_digest += digest;
    struct expected *expected = find_expected(me->job, key_digest(me, item));
    if (!expected) {
        me->extra_count++;
        return keep_extra(me, item);
    }
    uint64_t wanted = atomic_load_explicit(&expected->digest, memory_order_relaxed);
    bool same = ((digest ^ wanted) & ~(uint64_t)FOUND_MASK) == 0;
    atomic_fetch_or_explicit(&expected->digest, same ? FOUND_SAME : FOUND_DIFFERENT,
                             memory_order_relaxed);
    me->same += same;
    me->different += !same;
    return ESP_OK;
}

static void work(void *shared, void *own) {
    struct verifying *job = shared;
    struct verifier *me = own;
    if (atomic_load(&job->scanning_now)) {
        me->status = scan_share(&job->scan, compare_item, me, &me->usage, &me->error);
    } else {
        me->status = convert_ranges(me);
    }
    if (me->status != ESP_OK) {
        atomic_store(&job->failed, true);
        esp_fail(&me->error, me->status, "%s", esp_status_text(me->status));
    }
}

/* --- in the caller's thread: names for what differs ---------------------------------------- */

struct naming {
    struct verifying *job;
    struct verifier *worker; /* any of them: its key and text are free now */
    struct esp_session *session;
    struct esp_str id; /* of the node being converted */
    uint32_t left[ESP_DIFFERENCE_KINDS];
    const struct esp_item *wanted; /* what the source makes, while the table's is read */
    struct esp_arena values;
    struct esp_buf names;
    esp_difference_fn *fn;
    void *ctx;
    struct esp_error *err;
};

static void put_name(struct naming *n, struct esp_str name) {
    if (n->names.len) {
        ESP_BUF_LIT(&n->names, ", ");
    }
    esp_buf_put_str(&n->names, name);
}

static bool same_text_value(struct naming *n, struct esp_str a, struct esp_str b) {
    struct esp_value x, y;
    bool same = esp_value_parse(a, &n->values, &x, NULL) == ESP_OK &&
                esp_value_parse(b, &n->values, &y, NULL) == ESP_OK && esp_value_equal(&x, &y);
    esp_arena_reset(&n->values);
    return same;
}

/* The attributes by which the table's item differs. */
static enum esp_status name_attributes(void *ctx, const struct esp_item *found) {
    struct naming *n = ctx;
    const struct esp_schema *schema = &n->job->layout->schema;
    const struct esp_data one = n->wanted->data, other = found->data;
    struct esp_arena names;
    struct esp_member member;
    struct esp_str value;
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (!esp_value_equal(&n->wanted->value[i], &found->value[i])) {
            put_name(n, schema->attr[i].name);
        }
    }
    esp_arena_init(&names, n->job->alloc, SCRATCH_BYTES_MAX);
    for (size_t pos = 0; esp_data_next(one, &pos, &names, &member);) {
        if (!esp_data_find(other, member.name, &value) ||
            !same_text_value(n, member.value, value)) {
            put_name(n, member.name);
        }
    }
    for (size_t pos = 0; esp_data_next(other, &pos, &names, &member);) {
        if (!esp_data_find(one, member.name, &value)) {
            put_name(n, member.name);
        }
    }
    esp_arena_fini(&names);
    return ESP_OK;
}

static enum esp_status name_item(void *ctx, const struct esp_item *item) {
    struct naming *n = ctx;
    const struct esp_schema *schema = &n->job->layout->schema;
    struct esp_buf *text = &n->worker->key_text;
    struct expected *expected = find_expected(n->job, key_digest(n->worker, item));
    uint64_t found = atomic_load(&expected->digest) & FOUND_MASK;
    enum esp_difference_kind kind =
        found == FOUND_NOT ? ESP_DIFFERENCE_MISSING : ESP_DIFFERENCE_DIFFERENT;
    if (found == FOUND_SAME || n->left[kind] == 0) {
        return ESP_OK;
    }
    n->left[kind]--;
    put_key(text, schema, item);
    esp_buf_reset(&n->names);
    enum esp_status status = ESP_OK;
    if (kind == ESP_DIFFERENCE_DIFFERENT) {
        struct esp_item key = n->worker->key;
        n->wanted = item;
        status = esp_session_get(n->session, &key, 1, true, name_attributes, n, n->err);
    }
    if (status == ESP_OK && (text->failed || n->names.failed)) {
        status = esp_fail_nomem(n->err);
    }
    struct esp_difference difference = {kind, esp_buf_str(text), n->id, esp_buf_str(&n->names)};
    return status == ESP_OK ? n->fn(n->ctx, &difference) : status;
}

static enum esp_status name_source(struct naming *n, const struct esp_verify_result *result) {
    const struct verifying *job = n->job;
    enum esp_status status = ESP_OK;
    for (int kind = 0; kind < ESP_DIFFERENCE_KINDS; kind++) {
        uint64_t count = result->count[kind];
        n->left[kind] = count < job->named ? (uint32_t)count : job->named;
    }
    for (esp_node v = 0; status == ESP_OK && v < job->forest->count &&
                         (n->left[ESP_DIFFERENCE_MISSING] || n->left[ESP_DIFFERENCE_DIFFERENT]);
         v++) {
        n->id = esp_forest_id(job->forest, v);
        status = job->layout->ops->emit(job->layout, job->forest, v, 1, &n->worker->scratch,
                                        name_item, n);
        esp_arena_reset(&n->worker->scratch);
    }
    return status;
}

/* All workers' lists are sorted: the smallest head is next. */
static enum esp_status name_extra(struct naming *n, struct verifier *workers, uint32_t count) {
    uint32_t at[ESP_CREW_MAX] = {0};
    enum esp_status status = ESP_OK;
    while (status == ESP_OK && n->left[ESP_DIFFERENCE_EXTRA]--) {
        struct extra *least = NULL;
        uint32_t from = 0;
        for (uint32_t i = 0; i < count; i++) {
            struct extra *head = at[i] < workers[i].extra_kept ? &workers[i].extra[at[i]] : NULL;
            if (head &&
                (!least || esp_str_cmp(esp_buf_str(&head->key), esp_buf_str(&least->key)) < 0)) {
                least = head;
                from = i;
            }
        }
        if (!least) {
            break;
        }
        at[from]++;
        struct esp_difference difference = {ESP_DIFFERENCE_EXTRA, esp_buf_str(&least->key),
                                            esp_buf_str(&least->id), ESP_STR("")};
        status = n->fn(n->ctx, &difference);
    }
    return status;
}

static enum esp_status name_all(struct verifying *job, struct verifier *workers, uint32_t count,
                                esp_difference_fn *fn, void *ctx, struct esp_verify_result *result,
                                struct esp_error *err) {
    struct naming n = {.job = job, .worker = workers, .fn = fn, .ctx = ctx, .err = err};
    enum esp_status status = esp_session_open(job->scan.table, &n.session, err);
    esp_arena_init(&n.values, job->alloc, SCRATCH_BYTES_MAX);
    esp_buf_init(&n.names, job->alloc, TEXT_BYTES_MAX);
    if (status == ESP_OK) {
        status = name_source(&n, result);
    }
    if (status == ESP_OK) {
        status = name_extra(&n, workers, count);
    }
    if (n.session) {
        esp_usage_add(&result->usage, &n.session->usage);
    }
    esp_session_close(n.session);
    esp_buf_fini(&n.names);
    esp_arena_fini(&n.values);
    return status;
}

/* --- in the caller's thread: all of it ----------------------------------------------------- */

static void verifier_fini(struct verifier *w) {
    for (uint32_t i = 0; w->extra && i < w->job->named; i++) {
        esp_buf_fini(&w->extra[i].key);
        esp_buf_fini(&w->extra[i].id);
    }
    esp_release(w->job->alloc, w->extra, (w->job->named + 1) * sizeof *w->extra);
    esp_buf_fini(&w->key_text);
    esp_arena_fini(&w->scratch);
}

static enum esp_status verifier_init(struct verifier *w, struct verifying *job) {
    w->job = job;
    esp_arena_init(&w->scratch, job->alloc, SCRATCH_BYTES_MAX);
    esp_buf_init(&w->key_text, job->alloc, TEXT_BYTES_MAX);
    w->extra = esp_calloc(job->alloc, job->named + 1, sizeof *w->extra);
    for (uint32_t i = 0; w->extra && i < job->named; i++) {
        esp_buf_init(&w->extra[i].key, job->alloc, TEXT_BYTES_MAX);
        esp_buf_init(&w->extra[i].id, job->alloc, TEXT_BYTES_MAX);
    }
    return w->extra ? ESP_OK : ESP_ERR_NOMEM;
}

/* Both halves, one after the other, by the same crew. */
static enum esp_status run_crew(struct verifying *job, struct verifier *workers, uint32_t count,
                                struct esp_error *err) {
    struct esp_crew crew = {
        .workers = count, .work = work, .shared = job, .own = workers, .own_size = sizeof *workers};
    enum esp_status status = ESP_OK;
    for (int half = 0; status == ESP_OK && half < 2; half++) {
        atomic_store(&job->scanning_now, half == 1);
        status = esp_crew_run(&crew, err);
        for (uint32_t i = 0; i < count && status == ESP_OK; i++) {
            status = workers[i].status;
            if (status != ESP_OK && err && err->status == ESP_OK) {
                *err = workers[i].error;
            }
        }
        if (status == ESP_OK && esp_stop_wanted(job->scan.stop)) {
            status = esp_fail(err, ESP_ERR_CANCELLED, "stopped on request");
        }
    }
    return status;
}

static void add_up(const struct verifier *workers, uint32_t count,
                   struct esp_verify_result *result) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct verifier *w = &workers[i];
        result->source_items += w->source_items;
        result->source_digest += w->source_digest;
        result->table_items += w->table_items;
        result->table_digest += w->table_digest;
        result->count[ESP_DIFFERENCE_DIFFERENT] += w->different;
        result->count[ESP_DIFFERENCE_EXTRA] += w->extra_count;
        seen += w->same + w->different;
        esp_usage_add(&result->usage, &w->usage);
    }
    result->count[ESP_DIFFERENCE_MISSING] = result->source_items - seen;
}

static enum esp_status verify_with(struct verifying *job, struct verifier *workers, uint32_t count,
                                   esp_difference_fn *fn, void *ctx,
                                   struct esp_verify_result *result, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; i < count && status == ESP_OK; i++) {
        status = verifier_init(&workers[i], job);
    }
    if (status == ESP_OK) {
        status = run_crew(job, workers, count, err);
    }
    if (status == ESP_OK) {
        add_up(workers, count, result);
    }
    if (status == ESP_OK && !esp_verify_equal(result)) {
        status = name_all(job, workers, count, fn, ctx, result, err);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (workers[i].job) {
            verifier_fini(&workers[i]);
        }
    }
    return status;
}

enum esp_status esp_table_verify(const struct esp_forest *forest, const struct esp_layout *layout,
                                 struct esp_table *table, const struct esp_verify_options *options,
                                 esp_difference_fn *fn, void *ctx, struct esp_verify_result *result,
                                 struct esp_error *err) {
    const struct esp_alloc *alloc = table->store->alloc;
    uint64_t items = layout->ops->item_count(layout, forest, 0, forest->count);
    uint32_t count = esp_crew_size(options->workers, ESP_CREW_MAX);
    struct verifying job = {
        .forest = forest,
        .layout = layout,
        .alloc = alloc,
        .memory = options->memory ? options->memory : alloc,
        .named = options->named < NAMED_MAX ? options->named : NAMED_MAX,
        .scan = {.table = table, .stop = options->stop, .segments = count * SEGMENTS_PER_WORKER},
        .slot_count = items + items / 3 + 2, /* never full */
    };
    memset(result, 0, sizeof *result);
    job.slot = esp_big_alloc(job.memory, job.slot_count * sizeof *job.slot);
    struct verifier *workers = esp_calloc(alloc, count, sizeof *workers);
    enum esp_status status = job.slot && workers
                                 ? verify_with(&job, workers, count, fn, ctx, result, err)
                                 : ESP_ERR_NOMEM;
    esp_release(alloc, workers, count * sizeof *workers);
    esp_big_free(job.memory, job.slot, job.slot_count * sizeof *job.slot);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(err) : status;
}
