#include "converters/graft.h"

#include "converters/access.h"
#include "converters/node_list.h"

struct graft {
    struct esp_access *access;
    const struct esp_forest *subtree; /* the caller's */
    struct esp_answer above;          /* root first, the new parent last */
    struct esp_forest *merged;        /* owned; NULL: the subtree is its own */
    const struct esp_forest *forest;  /* merged, or the subtree */
    esp_node first;                   /* of the new nodes in it */
    struct esp_item_list parent;      /* the items of the new parent, as emitted */
    struct esp_item_list items;       /* what is to be written */
};

static enum esp_status exists(struct esp_access *a, struct esp_str id) {
    return esp_access_outcome(a, ESP_ERR_CONDITION, id, ESP_ERR_EXISTS);
}

/* --- the forest ------------------------------------------------------------------- */

static enum esp_status read_above(struct graft *g, const struct esp_locator *to) {
    struct esp_access *a = g->access;
    enum esp_status status = esp_answer_read(a, ESP_OP_ANCESTORS, to, false, &g->above);
    struct esp_args self = {.at = *to};
    if (status == ESP_OK) {
        status = esp_operate(a, ESP_OP_NODE, &self, esp_answer_add, &g->above);
    }
    return status;
}

/* A new node that is called like one above would be no second one, but a cycle. */
static enum esp_status refuse_known(struct graft *g) {
    struct esp_idmap above;
    uint32_t number;
    enum esp_status status = ESP_OK;
    esp_idmap_init(&above, g->access->scratch);
    for (uint32_t i = 0; status == ESP_OK && i < g->above.count; i++) {
        status = esp_idmap_intern(&above, g->above.node[i].id, &number);
    }
    for (esp_node v = 0; status == ESP_OK && v < g->subtree->count; v++) {
        struct esp_str id = esp_forest_id(g->subtree, v);
        status = esp_idmap_find(&above, id) == ESP_IDMAP_NONE ? ESP_OK : exists(g->access, id);
    }
    return status;
}

static enum esp_status add_above(const struct graft *g, struct esp_forest_builder *builder) {
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < g->above.count; i++) {
        struct esp_record record = {.id = g->above.node[i].id, .data = g->above.node[i].data};
        if (i) {
            record.parent_id = g->above.node[i - 1].id;
        }
        status = esp_forest_builder_add(builder, &record, g->access->err);
    }
    return status;
}

static enum esp_status add_new(const struct graft *g, struct esp_forest_builder *builder) {
    const struct esp_forest *f = g->subtree;
    enum esp_status status = ESP_OK;
    for (esp_node v = 0; status == ESP_OK && v < f->count; v++) {
        struct esp_record record = {.id = esp_forest_id(f, v),
                                    .data = esp_forest_data(f, v),
                                    .line = esp_forest_line(f, v)};
        record.parent_id = f->parent[v] == ESP_NODE_NONE ? g->above.node[g->above.count - 1].id
                                                         : esp_forest_id(f, f->parent[v]);
        status = esp_forest_builder_add(builder, &record, g->access->err);
    }
    return status;
}

/* The nodes above are a chain, so the new ones follow it without a gap. */
static enum esp_status merge(struct graft *g) {
    struct esp_access *a = g->access;
    struct esp_forest_options options = {.source = NULL};
    struct esp_forest_builder *builder = NULL;
    enum esp_status status =
        esp_forest_builder_new(a->session->table->store->alloc, &options, &builder, a->err);
    if (status == ESP_OK) {
        status = add_above(g, builder);
    }
    if (status == ESP_OK) {
        status = add_new(g, builder);
    }
    if (status != ESP_OK) {
        esp_forest_builder_free(builder);
        return status;
    }
    status = esp_forest_freeze(builder, &g->merged, a->err);
    g->forest = g->merged;
    g->first = g->above.count;
    return status;
}

/* --- the items -------------------------------------------------------------------- */

static enum esp_status emit(struct graft *g) {
    struct esp_access *a = g->access;
    const struct esp_layout *l = a->layout;
    uint32_t count = g->subtree->count;
    enum esp_status status = l->ops->validate(l, g->forest, a->err);
    esp_item_list_init(&g->parent, a);
    esp_item_list_init(&g->items, a);
    if (status == ESP_OK && g->first) {
        status =
            l->ops->emit(l, g->forest, g->first - 1, 1, a->scratch, esp_item_list_add, &g->parent);
    }
    if (status == ESP_OK) {
        status =
            l->ops->emit(l, g->forest, g->first, count, a->scratch, esp_item_list_add, &g->items);
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

/* The new items follow from the parent as it was read first: it may not be another one by now. */
static enum esp_status rely_on_parent(struct graft *g, const struct esp_item *emitted,
                                      const struct esp_item *found) {
    const struct esp_schema *schema = &g->access->layout->schema;
    for (size_t i = 0; i < schema->attr_count; i++) {
        const struct esp_value *a = &emitted->value[i], *b = &found->value[i];
        if (a->type != ESP_TYPE_NONE && b->type != ESP_TYPE_NONE && !esp_value_equal(a, b)) {
            return esp_fail(g->access->err, ESP_ERR_CONFLICT,
                            "another writer changed the new parent while the edit was planned");
        }
    }
    return esp_access_rely(g->access, found);
}

/* Items that are there already: those of the parent, which the plan relies on, or one too many. */
static enum esp_status sort_out(struct graft *g, const struct esp_item_list *found) {
    const struct esp_layout *l = g->access->layout;
    enum esp_status status = ESP_OK;
    for (uint32_t i = 0; status == ESP_OK && i < found->count; i++) {
        const struct esp_item *item = &found->item[i];
        struct esp_node_view view;
        uint32_t k = 0;
        while (k < g->parent.count && !esp_item_same_key(&l->schema, item, &g->parent.item[k])) {
            k++;
        }
        if (k < g->parent.count) {
            status = rely_on_parent(g, &g->parent.item[k], item);
        } else if (l->ops->view(l, item, &view)) {
            status = exists(g->access, view.id);
        }
    }
    return status;
}

/* Where a key says the place of a node, its id may be taken in another one. */
static enum esp_status look_elsewhere(struct graft *g) {
    struct esp_access *a = g->access;
    enum esp_status status = ESP_OK;
    for (esp_node v = 0; status == ESP_OK && v < g->subtree->count; v++) {
        struct esp_locator at = {.id = esp_forest_id(g->subtree, v)};
        struct esp_answer found;
        status = esp_answer_read(a, ESP_OP_NODE, &at, true, &found);
        if (status == ESP_ERR_NOT_FOUND) {
            status = ESP_OK;
            if (a->err) {
                esp_error_clear(a->err);
            }
        } else if (status == ESP_OK) {
            status = exists(a, at.id);
        }
    }
    return status;
}

/* One round trip for the parent's items and those that the new nodes' own would replace. */
static enum esp_status look(struct graft *g) {
    struct esp_access *a = g->access;
    const struct esp_layout *l = a->layout;
    struct esp_item *keys =
        esp_arena_calloc(a->scratch, (size_t)g->parent.count + g->items.count + 1, sizeof *keys);
    struct esp_item_list found;
    size_t n = 0;
    if (!keys) {
        return esp_fail_nomem(a->err);
    }
    for (uint32_t i = 0; i < g->parent.count; i++) {
        keys[n++] = g->parent.item[i];
    }
    for (uint32_t i = 0; i < g->items.count; i++) {
        struct esp_node_view view;
        keys[n] = g->items.item[i];
        n += l->ops->view(l, &keys[n], &view);
    }
    esp_item_list_init(&found, a);
    enum esp_status status =
        esp_session_get(a->session, keys, n, a->consistent, esp_item_list_add, &found, a->err);
    if (status == ESP_OK) {
        status = sort_out(g, &found);
    }
    return status == ESP_OK && l->ops->key_is_place ? look_elsewhere(g) : status;
}

static enum esp_status put(struct graft *g) {
    struct esp_access *a = g->access;
    struct esp_writes writes;
    enum esp_status status = esp_writes_init(&writes, a, g->items.count);
    for (uint32_t i = 0; status == ESP_OK && i < g->items.count; i++) {
        struct esp_write write = {.kind = ESP_PUT,
                                  .item = g->items.item[i],
                                  .condition = &writes.absent,
                                  .condition_count = 1};
        status = esp_writes_add(&writes, &write);
    }
    if (status == ESP_OK) {
        status = esp_writes_flush(&writes);
    }
    if (status == ESP_ERR_CONDITION) { /* looked for in vain a moment ago */
        if (a->err) {
            esp_error_clear(a->err);
        }
        status = esp_fail(a->err, ESP_ERR_EXISTS,
                          "a node of the subtree has been added by others meanwhile: some of the "
                          "new nodes are written");
    }
    return status;
}

enum esp_status esp_graft(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                          void *ctx) {
    (void)fn, (void)ctx;
    struct graft g = {.access = a, .subtree = args->subtree, .forest = args->subtree};
    enum esp_status status = ESP_OK;
    if (args->to.id.len) {
        status = read_above(&g, &args->to);
        if (status == ESP_OK) {
            status = refuse_known(&g);
        }
        if (status == ESP_OK) {
            status = merge(&g);
        }
    }
    if (status == ESP_OK) {
        status = emit(&g);
    }
    if (status == ESP_OK) {
        status = look(&g);
    }
    if (status == ESP_OK) {
        status = put(&g);
    }
    esp_forest_free(g.merged);
    return status;
}
