#include "tests/support/model.h"

#include <stdlib.h>

static uint32_t add_node(struct model *m, struct esp_str id, uint32_t parent,
                         struct esp_data data) {
    if (m->count == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->node = realloc(m->node, m->cap * sizeof *m->node);
        assert_non_null(m->node);
    }
    struct esp_str text = esp_arena_dup(&m->arena, (struct esp_str){data.text, data.len});
    m->node[m->count] = (struct model_node){
        .id = esp_arena_dup(&m->arena, id),
        .data = {text.ptr, data.len, data.size},
        .parent = parent,
        .rank = m->next_rank++,
        .alive = true,
    };
    return m->count++;
}

void model_init(struct model *m, const struct esp_forest *f) {
    memset(m, 0, sizeof *m);
    esp_arena_init(&m->arena, &esp_alloc_libc, SIZE_MAX);
    for (esp_node v = 0; v < f->count; v++) {
        add_node(m, esp_forest_id(f, v), f->parent[v], esp_forest_data(f, v));
    }
}

void model_fini(struct model *m) {
    free(m->node);
    esp_arena_fini(&m->arena);
}

uint32_t model_find(const struct model *m, struct esp_str id) {
    for (uint32_t v = 0; v < m->count; v++) {
        if (m->node[v].alive && esp_str_eq(m->node[v].id, id)) {
            return v;
        }
    }
    return ESP_NODE_NONE;
}

uint32_t model_depth(const struct model *m, uint32_t v) {
    uint32_t depth = 0;
    for (; m->node[v].parent != ESP_NODE_NONE; v = m->node[v].parent) {
        depth++;
    }
    return depth;
}

uint32_t model_root(const struct model *m, uint32_t v) {
    while (m->node[v].parent != ESP_NODE_NONE) {
        v = m->node[v].parent;
    }
    return v;
}

static bool is_below(const struct model *m, uint32_t v, uint32_t ancestor) {
    while (m->node[v].parent != ESP_NODE_NONE) {
        v = m->node[v].parent;
        if (v == ancestor) {
            return true;
        }
    }
    return false;
}

/* The living child of `parent` with the smallest rank above `rank`, or NONE. */
static uint32_t next_child(const struct model *m, uint32_t parent, uint64_t above, bool first) {
    uint32_t best = ESP_NODE_NONE;
    for (uint32_t v = 0; v < m->count; v++) {
        const struct model_node *node = &m->node[v];
        if (node->alive && node->parent == parent && (first || node->rank > above) &&
            (best == ESP_NODE_NONE || node->rank < m->node[best].rank)) {
            best = v;
        }
    }
    return best;
}

/* Appends the subtree of v, v included, in pre-order. */
static void preorder(const struct model *m, uint32_t v, struct model_answer *out) {
    uint32_t top = v;
    out->node[out->count++] = v;
    uint32_t child = next_child(m, v, 0, true);
    for (;;) {
        if (child != ESP_NODE_NONE) {
            out->node[out->count++] = child;
            v = child;
            child = next_child(m, v, 0, true);
        } else if (v == top) {
            return;
        } else {
            child = next_child(m, m->node[v].parent, m->node[v].rank, false);
            v = m->node[v].parent;
        }
    }
}

/* Keep the nodes for which the operation asks. */
static void keep(const struct model *m, struct model_answer *out, uint32_t at, uint64_t lo,
                 uint64_t hi, bool leaves) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        uint32_t v = out->node[i], relative = model_depth(m, v) - model_depth(m, at);
        bool leaf = next_child(m, v, 0, true) == ESP_NODE_NONE;
        if (relative >= lo && relative <= hi && (leaf || !leaves)) {
            out->node[kept++] = v;
        }
    }
    out->count = kept;
}

static void read_below(const struct model *m, enum esp_op op, const struct esp_args *args,
                       uint32_t at, struct model_answer *out) {
    preorder(m, at, out);
    switch (op) {
    case ESP_OP_CHILDREN:
        keep(m, out, at, 1, 1, false);
        break;
    case ESP_OP_WINDOW:
        keep(m, out, at, args->lo, args->hi, false);
        break;
    case ESP_OP_LEVEL:
        keep(m, out, at, args->lo, args->lo, false);
        break;
    case ESP_OP_LEAVES:
        keep(m, out, at, 1, UINT32_MAX, true);
        break;
    case ESP_OP_TREE:
        break;
    case ESP_OP_COUNT:
        out->value = out->count - 1;
        out->count = 0;
        break;
    default:
        keep(m, out, at, 1, UINT32_MAX, false);
    }
}

static void read_above(const struct model *m, uint32_t at, struct model_answer *out) {
    out->count = model_depth(m, at);
    for (uint32_t i = out->count; i-- > 0;) {
        at = m->node[at].parent;
        out->node[i] = at;
    }
}

static void read_lca(const struct model *m, uint32_t a, uint32_t b, struct model_answer *out) {
    while (a != b && !is_below(m, b, a)) {
        a = m->node[a].parent;
        if (a == ESP_NODE_NONE) {
            return;
        }
    }
    out->node[out->count++] = a;
}

struct model_answer model_read(const struct model *m, enum esp_op op, const struct esp_args *args) {
    struct model_answer out = {.node = calloc((size_t)m->count + 1, sizeof *out.node)};
    bool two = op == ESP_OP_LCA || op == ESP_OP_IS_DESCENDANT;
    uint32_t at = model_find(m, args->at.id), to = two ? model_find(m, args->to.id) : 0;
    assert_non_null(out.node);
    if (op == ESP_OP_ROOTS) {
        for (uint32_t v = next_child(m, ESP_NODE_NONE, 0, true); v != ESP_NODE_NONE;
             v = next_child(m, ESP_NODE_NONE, m->node[v].rank, false)) {
            out.node[out.count++] = v;
        }
        return out;
    }
    if (at == ESP_NODE_NONE || to == ESP_NODE_NONE) {
        out.status = ESP_ERR_NOT_FOUND;
        return out;
    }
    uint32_t parent = m->node[at].parent;
    switch (op) {
    case ESP_OP_NODE:
        out.node[out.count++] = at;
        break;
    case ESP_OP_PARENT:
        out.node[0] = parent;
        out.count = parent != ESP_NODE_NONE;
        break;
    case ESP_OP_SIBLINGS:
        for (uint32_t v = next_child(m, parent, 0, true);
             parent != ESP_NODE_NONE && v != ESP_NODE_NONE;
             v = next_child(m, parent, m->node[v].rank, false)) {
            out.node[out.count] = v;
            out.count += v != at;
        }
        break;
    case ESP_OP_ANCESTORS:
        read_above(m, at, &out);
        break;
    case ESP_OP_IS_DESCENDANT:
        out.value = is_below(m, at, to);
        break;
    case ESP_OP_LCA:
        read_lca(m, at, to, &out);
        break;
    default:
        read_below(m, op, args, at, &out);
    }
    return out;
}

/* A childless node goes; else its children come where it was, in their order. */
static enum esp_status promote(struct model *m, uint32_t at) {
    uint32_t parent = m->node[at].parent, child = next_child(m, at, 0, true);
    if (parent == ESP_NODE_NONE && child != ESP_NODE_NONE) {
        return ESP_ERR_REFUSED;
    }
    /* Everyone below the parent is ranked anew: first all ranks are taken, then given. */
    uint32_t *order = calloc(m->count, sizeof *order), n = 0;
    assert_non_null(order);
    for (uint32_t v = next_child(m, parent, 0, true); v != ESP_NODE_NONE;
         v = next_child(m, parent, m->node[v].rank, false)) {
        if (v != at) {
            order[n++] = v;
            continue;
        }
        for (; child != ESP_NODE_NONE; child = next_child(m, at, m->node[child].rank, false)) {
            order[n++] = child;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        m->node[order[i]].parent = parent;
        m->node[order[i]].rank = m->next_rank++;
    }
    m->node[at].alive = false;
    free(order);
    return ESP_OK;
}

static enum esp_status insert_subtree(struct model *m, const struct esp_forest *f, uint32_t to) {
    for (esp_node v = 0; v < f->count; v++) {
        if (model_find(m, esp_forest_id(f, v)) != ESP_NODE_NONE) {
            return ESP_ERR_EXISTS;
        }
    }
    uint32_t first = m->count;
    for (esp_node v = 0; v < f->count; v++) {
        uint32_t parent = f->parent[v] == ESP_NODE_NONE ? to : first + f->parent[v];
        add_node(m, esp_forest_id(f, v), parent, esp_forest_data(f, v));
    }
    return ESP_OK;
}

/* A node leaves its subtree last, because is_below goes by living links. */
static void remove_subtree(struct model *m, uint32_t at) {
    for (uint32_t v = 0; v < m->count; v++) {
        if (m->node[v].alive && is_below(m, v, at)) {
            m->node[v].alive = false;
        }
    }
    m->node[at].alive = false;
}

static enum esp_status move(struct model *m, uint32_t at, uint32_t to) {
    if (to != ESP_NODE_NONE && (to == at || is_below(m, to, at))) {
        return ESP_ERR_CYCLE;
    }
    if (m->node[at].parent != to) {
        m->node[at].parent = to;
        m->node[at].rank = m->next_rank++;
    }
    return ESP_OK;
}

enum esp_status model_write(struct model *m, enum esp_op op, const struct esp_args *args) {
    struct esp_error err = ESP_ERROR_INIT;
    bool adds = op == ESP_OP_INSERT || op == ESP_OP_INSERT_SUBTREE;
    uint32_t at = adds ? ESP_NODE_NONE : model_find(m, args->at.id);
    uint32_t to = args->to.id.len ? model_find(m, args->to.id) : ESP_NODE_NONE;
    if ((!adds && at == ESP_NODE_NONE) || (args->to.id.len && to == ESP_NODE_NONE)) {
        return ESP_ERR_NOT_FOUND;
    }
    switch (op) {
    case ESP_OP_INSERT:
        if (model_find(m, args->id) != ESP_NODE_NONE) {
            return ESP_ERR_EXISTS;
        }
        add_node(m, args->id, to, args->data);
        return ESP_OK;
    case ESP_OP_INSERT_SUBTREE:
        return insert_subtree(m, args->subtree, to);
    case ESP_OP_UPDATE:
        assert_ok(esp_data_merge(m->node[at].data, args->data, args->remove, args->remove_count,
                                 &m->arena, &m->node[at].data, &err),
                  &err);
        return ESP_OK;
    case ESP_OP_MOVE:
        return move(m, at, to);
    case ESP_OP_PROMOTE:
        return promote(m, at);
    default:
        remove_subtree(m, at);
        return ESP_OK;
    }
}
