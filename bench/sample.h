#ifndef ESP_BENCH_SAMPLE_H
#define ESP_BENCH_SAMPLE_H
/*
 * Which nodes an operation is tried on: drawn once from a seed and used for every layout, so
 * that layouts are compared on the same work.  Operations on one node all get the same nodes;
 * the others draw from a random stream of their own, so that leaving one out changes none.
 */
#include "converters/layout.h"
#include "core/rng.h"

/* tree: reads everything; a few samples say as much as many.  The same goes for any operation
 * once it has read and written so many items. */
enum { ESP_SAMPLE_TREES_MAX = 5, ESP_SAMPLE_MAX = 10000, ESP_SAMPLE_ITEMS_MAX = 5000000 };

/* One use of an operation, in terms of the forest. */
struct esp_pick {
    esp_node at;     /* the node; insert: the parent; level, tree: a root */
    esp_node to;     /* move: the new parent; is-descendant, lca: the other node; else NONE */
    uint32_t lo, hi; /* window: 1 and 2; level: the depth in lo */
};

/* Draw picks for `op` into picks[0 .. sample), sample <= ESP_SAMPLE_MAX; returns how many there
 * are: fewer where the forest has fewer nodes, where the operation has no arguments (roots: 1),
 * reads a whole tree (ESP_SAMPLE_TREES_MAX), or has no legal case (move in a forest of one node:
 * 0).
 *
 * Nodes are drawn without repetition, uniformly over all nodes: leaves are as frequent as they
 * are.  is-descendant: every second pair is a node and one of its ancestors.  lca: two nodes of
 * one tree.  level: a depth that the node's tree has.  move: subtree and new parent are drawn
 * until the move is legal and changes something. */
uint32_t esp_sample_draw(const struct esp_forest *forest, enum esp_op op, uint32_t sample,
                         uint64_t seed, struct esp_pick *picks);

#endif
