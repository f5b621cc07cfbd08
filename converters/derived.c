/*
 * Derived plans: operations made of the CORE ones that every layout brings, written once.
 * They run through esp_operate, so a better native plan of a part is used where there is one.
 */
#include "converters/access.h"
#include "converters/graft.h"
#include "converters/node_list.h"

/* Passes on all but one node. */
struct all_but {
    struct esp_str id;
    esp_node_fn *fn;
    void *ctx;
};

static enum esp_status pass_others(void *ctx, const struct esp_node_view *node) {
    struct all_but *others = ctx;
    return esp_str_eq(node->id, others->id) ? ESP_OK : others->fn(others->ctx, node);
}

static enum esp_status siblings(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                                void *ctx) {
    struct esp_answer parent;
    struct all_but others = {args->at.id, fn, ctx};
    enum esp_status status = esp_answer_read(a, ESP_OP_PARENT, &args->at, true, &parent);
    if (status != ESP_OK || parent.count == 0) {
        return status;
    }
    struct esp_args up = {.at.id = parent.node[0].id};
    return esp_operate(a, ESP_OP_CHILDREN, &up, pass_others, &others);
}

static enum esp_status level(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                             void *ctx) {
    struct esp_args window = {.at = args->at, .lo = args->lo, .hi = args->lo};
    return esp_operate(a, ESP_OP_WINDOW, &window, fn, ctx);
}

static enum esp_status tree(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                            void *ctx) {
    struct esp_args window = {.at = args->at, .lo = 0, .hi = UINT32_MAX};
    return esp_operate(a, ESP_OP_WINDOW, &window, fn, ctx);
}

/* Descendants that are nobody's parent.  Needs answers that carry the parent. */
static enum esp_status leaves(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                              void *ctx) {
    struct esp_answer all;
    struct esp_idmap parents;
    uint32_t number;
    enum esp_status status = esp_answer_read(a, ESP_OP_DESCENDANTS, &args->at, false, &all);
    esp_idmap_init(&parents, a->scratch);
    for (uint32_t i = 0; status == ESP_OK && i < all.count; i++) {
        status = all.node[i].parent_id.ptr
                     ? esp_idmap_intern(&parents, all.node[i].parent_id, &number)
                     : esp_fail(a->err, ESP_ERR_UNSUPPORTED,
                                "the layout %s does not say whose children descendants are",
                                a->layout->ops->name);
    }
    for (uint32_t i = 0; status == ESP_OK && i < all.count; i++) {
        if (esp_idmap_find(&parents, all.node[i].id) == ESP_IDMAP_NONE) {
            status = fn(ctx, &all.node[i]);
        }
    }
    return status;
}

static enum esp_status count_node(void *ctx, const struct esp_node_view *node) {
    (void)node;
    ++*(uint64_t *)ctx;
    return ESP_OK;
}

static enum esp_status count(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                             void *ctx) {
    (void)fn, (void)ctx;
    struct esp_args below = {.at = args->at};
    a->value = 0;
    return esp_operate(a, ESP_OP_DESCENDANTS, &below, count_node, &a->value);
}

static enum esp_status ignore_node(void *ctx, const struct esp_node_view *node) {
    (void)ctx, (void)node;
    return ESP_OK;
}

static enum esp_status is_descendant(struct esp_access *a, const struct esp_args *args,
                                     esp_node_fn *fn, void *ctx) {
    (void)fn, (void)ctx;
    struct esp_answer above;
    enum esp_status status = esp_answer_read(a, ESP_OP_ANCESTORS, &args->at, true, &above);
    a->value = 0;
    for (uint32_t i = 0; status == ESP_OK && i < above.count; i++) {
        a->value |= esp_str_eq(above.node[i].id, args->to.id);
    }
    struct esp_args other = {.at = args->to};
    return status == ESP_OK && !a->value && !args->to.key
               ? esp_operate(a, ESP_OP_NODE, &other, ignore_node, NULL)
               : status;
}

/* Both ways down, node by node from the root, as far as they are the same. */
static enum esp_status lca(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                           void *ctx) {
    struct esp_answer one, other;
    if (esp_str_eq(args->at.id, args->to.id)) {
        struct esp_args self = {.at = args->at};
        return esp_operate(a, ESP_OP_NODE, &self, fn, ctx);
    }
    enum esp_status status = esp_answer_read(a, ESP_OP_ANCESTORS, &args->at, false, &one);
    if (status == ESP_OK) {
        status = esp_answer_read(a, ESP_OP_ANCESTORS, &args->to, false, &other);
    }
    if (status != ESP_OK) {
        return status;
    }
    const struct esp_node_view *lowest = NULL;
    for (uint32_t i = 0; i <= one.count && i <= other.count; i++) {
        struct esp_str x = i < one.count ? one.node[i].id : args->at.id;
        struct esp_str y = i < other.count ? other.node[i].id : args->to.id;
        if (!esp_str_eq(x, y)) {
            break;
        }
        lowest = i < one.count ? &one.node[i] : &other.node[i];
    }
    return lowest ? fn(ctx, lowest) : ESP_OK; /* none: they are in different trees */
}

static enum esp_status root_add(void *sink, const struct esp_item *item) {
    const struct esp_node_sink *s = sink;
    return esp_item_reserved(&s->access->layout->schema, item) ? ESP_OK
                                                               : esp_node_sink_add(sink, item);
}

/* A scan of the table, filtered to what has no parent. */
static enum esp_status roots(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                             void *ctx) {
    (void)args;
    int parent_attr = a->layout->ops->parent_attr;
    if (parent_attr < 0) {
        return esp_fail(a->err, ESP_ERR_UNSUPPORTED, "no attribute of the layout %s marks roots",
                        a->layout->ops->name);
    }
    struct esp_condition filter = {.name = a->layout->schema.attr[parent_attr].name,
                                   .op = ESP_NOT_EXISTS};
    struct esp_scan scan = {
        .index = ESP_PRIMARY, .filter = &filter, .filter_count = 1, .consistent = a->consistent};
    struct esp_node_sink sink = {.access = a, .fn = fn, .ctx = ctx};
    return esp_session_scan(a->session, &scan, root_add, &sink, a->err);
}

esp_op_fn *const esp_derived[ESP_OP_COUNT_ALL] = {
    [ESP_OP_SIBLINGS] = siblings, [ESP_OP_LEVEL] = level, [ESP_OP_TREE] = tree,
    [ESP_OP_LEAVES] = leaves,     [ESP_OP_COUNT] = count, [ESP_OP_IS_DESCENDANT] = is_descendant,
    [ESP_OP_LCA] = lca,           [ESP_OP_ROOTS] = roots, [ESP_OP_INSERT_SUBTREE] = esp_graft,
};
