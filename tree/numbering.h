#ifndef ESP_TREE_NUMBERING_H
#define ESP_TREE_NUMBERING_H
/*
 * Parents -> level order -> subtree sizes -> pre-order positions, without recursion and
 * without following pointers in depth order.
 *
 * In level order the children of one node stand together and in the order of their parents.
 * So once nodes are in level order, every further step is a sequential pass.
 */
#include "tree/forest.h"

/* Arrays of `count` elements by level index: 0 is the first root. */
struct numbering {
    const struct esp_alloc *alloc;
    uint32_t count;      /* nodes */
    uint32_t root_count; /* the first ones in level order */
    uint32_t reached;    /* nodes that a root leads to; the arrays are filled up to here */
    esp_node *level;     /* the node at a level index, as `parent` and `order` number it */
    uint32_t *above;     /* level index of its parent; undefined for a root */
    uint32_t *size;      /* nodes in its subtree */
    uint32_t *position;  /* its place in pre-order */
};

/* Level order of `count` nodes: parent[v] of each (ESP_NODE_NONE: a root), and `order`, all
 * nodes in input order, which is the order of roots and of siblings.  False: no memory. */
bool numbering_levels(struct numbering *n, const esp_node *parent, const esp_node *order);
/* Sizes and positions, when all nodes were reached.  False: no memory. */
bool numbering_positions(struct numbering *n);
void numbering_fini(struct numbering *n);

#endif
