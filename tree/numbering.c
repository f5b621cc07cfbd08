#include "tree/numbering.h"

enum { AHEAD = 16 }; /* how far before its use an element is prefetched */

/* Children of all nodes: those of v are child[first[v]] .. child[first[v + 1] - 1]. */
struct children {
    uint32_t *first; /* count + 2 */
    esp_node *child;
};

static void *new_array(const struct numbering *n) {
    return esp_big_alloc(n->alloc, n->count * sizeof(uint32_t));
}

static void free_array(const struct numbering *n, void *array) {
    if (array) {
        esp_big_free(n->alloc, array, n->count * sizeof(uint32_t));
    }
}

void numbering_fini(struct numbering *n) {
    free_array(n, n->level);
    free_array(n, n->above);
    free_array(n, n->size);
    free_array(n, n->position);
    n->level = n->above = n->size = n->position = NULL;
}

/* Counting sort by parent, stable in input order; roots go to the front of `level`. */
static void list_children(struct numbering *n, const esp_node *parent, const esp_node *order,
                          struct children *c) {
    /* Counts stand two places to the right, so that sums leave the start of p in first[p + 1],
     * and placing p's children moves it to their end: the start of p + 1. */
    for (esp_node v = 0; v < n->count; v++) {
        if (v + AHEAD < n->count && parent[v + AHEAD] != ESP_NODE_NONE) {
            __builtin_prefetch(&c->first[parent[v + AHEAD] + 2], 1);
        }
        if (parent[v] != ESP_NODE_NONE) {
            c->first[parent[v] + 2]++;
        }
    }
    for (size_t i = 2; i <= n->count; i++) {
        c->first[i] += c->first[i - 1];
    }
    for (uint32_t i = 0; i < n->count; i++) {
        if (i + 3 * AHEAD < n->count) {
            __builtin_prefetch(&parent[order[i + 3 * AHEAD]]);
        }
        if (i + 2 * AHEAD < n->count && parent[order[i + 2 * AHEAD]] != ESP_NODE_NONE) {
            __builtin_prefetch(&c->first[parent[order[i + 2 * AHEAD]] + 1], 1);
        }
        if (i + AHEAD < n->count && parent[order[i + AHEAD]] != ESP_NODE_NONE) {
            __builtin_prefetch(&c->child[c->first[parent[order[i + AHEAD]] + 1]], 1);
        }
        esp_node v = order[i], p = parent[v];
        if (p == ESP_NODE_NONE) {
            n->level[n->root_count++] = v;
        } else {
            c->child[c->first[p + 1]++] = v;
        }
    }
}

/* A queue: each node in it appends its children to its end. */
static void walk_levels(struct numbering *n, const struct children *c) {
    uint32_t end = n->root_count;
    for (uint32_t at = 0; at < end; at++) {
        if (at + 2 * AHEAD < end) {
            __builtin_prefetch(&c->first[n->level[at + 2 * AHEAD]]);
        }
        if (at + AHEAD < end) {
            __builtin_prefetch(&c->child[c->first[n->level[at + AHEAD]]]);
        }
        esp_node v = n->level[at];
        for (uint32_t i = c->first[v]; i < c->first[v + 1]; i++) {
            n->level[end] = c->child[i];
            n->above[end] = at;
            end++;
        }
    }
    n->reached = end;
}

bool numbering_levels(struct numbering *n, const esp_node *parent, const esp_node *order) {
    size_t first_bytes = ((size_t)n->count + 2) * sizeof(uint32_t);
    struct children c = {.first = esp_big_alloc(n->alloc, first_bytes), .child = new_array(n)};
    n->level = new_array(n);
    n->above = new_array(n);
    bool enough = c.first && c.child && n->level && n->above;
    if (enough) {
        list_children(n, parent, order, &c);
        walk_levels(n, &c);
    }
    if (c.first) {
        esp_big_free(n->alloc, c.first, first_bytes);
    }
    free_array(n, c.child);
    return enough;
}

bool numbering_positions(struct numbering *n) {
    n->size = new_array(n);
    n->position = new_array(n);
    if (!n->size || !n->position) {
        return false;
    }
    for (uint32_t at = n->count; at-- > 0;) {
        n->size[at]++;
        if (at >= n->root_count) {
            n->size[n->above[at]] += n->size[at];
        }
    }
    uint32_t next = 0; /* position for the next node, while nodes have the same parent */
    for (uint32_t at = 0; at < n->count; at++) {
        if (at >= n->root_count && (at == n->root_count || n->above[at] != n->above[at - 1])) {
            next = n->position[n->above[at]] + 1;
        }
        n->position[at] = next;
        next += n->size[at];
    }
    return true;
}
