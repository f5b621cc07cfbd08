#include "stores/btree.h"

enum { FANOUT = 64, HEIGHT_MAX = 32 };

struct btree_leaf {
    struct btree_leaf *previous, *next;
    unsigned count;
    uint64_t head[FANOUT]; /* the first 8 bytes of each key, big-endian, zero padded */
    struct esp_entry *entry[FANOUT];
};

/* Child i holds the keys from bound i (child 0: from the beginning) up to bound i + 1. */
struct btree_inner {
    unsigned count; /* children */
    uint64_t head[FANOUT];
    struct esp_entry *bound[FANOUT]; /* own copies, without a value; [0] is unused */
    void *child[FANOUT];
};

struct esp_entry *esp_entry_new(const struct esp_alloc *alloc, struct esp_str key,
                                struct esp_str value) {
    struct esp_entry *entry = esp_resize(alloc, NULL, 0, sizeof *entry + key.len + value.len);
    if (entry) {
        entry->key_len = (uint32_t)key.len;
        entry->value_len = (uint32_t)value.len;
        if (key.len) {
            memcpy(entry->bytes, key.ptr, key.len);
        }
        if (value.len) {
            memcpy(entry->bytes + key.len, value.ptr, value.len);
        }
    }
    return entry;
}

void esp_entry_free(const struct esp_alloc *alloc, struct esp_entry *entry) {
    if (entry) {
        esp_release(alloc, entry, sizeof *entry + entry->key_len + entry->value_len);
    }
}

static uint64_t head_of(struct esp_str key) {
    unsigned char bytes[8] = {0};
    uint64_t head;
    if (key.len) {
        memcpy(bytes, key.ptr, key.len < sizeof bytes ? key.len : sizeof bytes);
    }
    memcpy(&head, bytes, sizeof head);
    return __builtin_bswap64(head);
}

/* Is the key at `entry` below `key`? */
static bool is_below(uint64_t entry_head, const struct esp_entry *entry, uint64_t head,
                     struct esp_str key) {
    return entry_head != head ? entry_head < head : esp_str_cmp(esp_entry_key(entry), key) < 0;
}

/* How many of the entries are below the key. */
static unsigned lower_bound(const uint64_t *heads, struct esp_entry *const *entries, unsigned count,
                            uint64_t head, struct esp_str key) {
    unsigned low = 0;
    while (count > 0) {
        unsigned half = count / 2;
        if (is_below(heads[low + half], entries[low + half], head, key)) {
            low += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return low;
}

/* The child that holds the key. */
static unsigned child_of(const struct btree_inner *node, uint64_t head, struct esp_str key) {
    unsigned below = lower_bound(node->head + 1, node->bound + 1, node->count - 1, head, key);
    bool exact = below + 1 < node->count && node->head[below + 1] == head &&
                 esp_str_eq(esp_entry_key(node->bound[below + 1]), key);
    return below + exact;
}

static struct btree_leaf *find_leaf(const struct esp_btree *tree, uint64_t head,
                                    struct esp_str key) {
    void *node = tree->root;
    for (unsigned level = tree->height; level > 0; level--) {
        const struct btree_inner *inner = node;
        node = inner->child[child_of(inner, head, key)];
    }
    return node;
}

static bool is_at(const struct btree_leaf *leaf, unsigned at, uint64_t head, struct esp_str key) {
    return at < leaf->count && leaf->head[at] == head &&
           esp_str_eq(esp_entry_key(leaf->entry[at]), key);
}

struct esp_entry *esp_btree_find(const struct esp_btree *tree, struct esp_str key) {
    uint64_t head = head_of(key);
    struct btree_leaf *leaf = find_leaf(tree, head, key);
    unsigned at = leaf ? lower_bound(leaf->head, leaf->entry, leaf->count, head, key) : 0;
    return leaf && is_at(leaf, at, head, key) ? leaf->entry[at] : NULL;
}

/* --- growing -------------------------------------------------------------------- */

/* Make room in a parent that has some: `right` follows child `at`. */
static void adopt(struct btree_inner *parent, unsigned at, struct esp_entry *bound, void *right) {
    unsigned moved = parent->count - at - 1;
    memmove(&parent->head[at + 2], &parent->head[at + 1], moved * sizeof parent->head[0]);
    memmove(&parent->bound[at + 2], &parent->bound[at + 1], moved * sizeof parent->bound[0]);
    memmove(&parent->child[at + 2], &parent->child[at + 1], moved * sizeof parent->child[0]);
    parent->head[at + 1] = head_of(esp_entry_key(bound));
    parent->bound[at + 1] = bound;
    parent->child[at + 1] = right;
    parent->count++;
}

/* Split a full leaf.  At the end of the tree keys mostly come in order: the left one stays
 * full then. */
static bool split_leaf(struct btree_inner *parent, unsigned at, const struct esp_alloc *alloc,
                       uint64_t head, struct esp_str key) {
    struct btree_leaf *left = parent->child[at];
    bool at_end =
        !left->next && is_below(left->head[FANOUT - 1], left->entry[FANOUT - 1], head, key);
    unsigned keep = at_end ? FANOUT - 1 : FANOUT / 2;
    struct btree_leaf *right = esp_resize(alloc, NULL, 0, sizeof *right);
    struct esp_entry *bound =
        right ? esp_entry_new(alloc, esp_entry_key(left->entry[keep]), (struct esp_str){0, 0})
              : NULL;
    if (!bound) {
        esp_release(alloc, right, sizeof *right);
        return false;
    }
    right->count = FANOUT - keep;
    memcpy(right->head, left->head + keep, right->count * sizeof right->head[0]);
    memcpy(right->entry, left->entry + keep, right->count * sizeof right->entry[0]);
    left->count = keep;
    right->next = left->next;
    right->previous = left;
    if (left->next) {
        left->next->previous = right;
    }
    left->next = right;
    adopt(parent, at, bound, right);
    return true;
}

static bool split_inner(struct btree_inner *parent, unsigned at, const struct esp_alloc *alloc) {
    struct btree_inner *left = parent->child[at];
    unsigned keep = FANOUT / 2;
    struct btree_inner *right = esp_resize(alloc, NULL, 0, sizeof *right);
    if (!right) {
        return false;
    }
    right->count = FANOUT - keep;
    memcpy(right->head, left->head + keep, right->count * sizeof right->head[0]);
    memcpy(right->bound, left->bound + keep, right->count * sizeof right->bound[0]);
    memcpy(right->child, left->child + keep, right->count * sizeof right->child[0]);
    left->count = keep;
    adopt(parent, at, right->bound[0], right); /* the bound moves up */
    right->bound[0] = NULL;
    return true;
}

static bool is_full(const void *node, bool leaf) {
    return leaf ? ((const struct btree_leaf *)node)->count == FANOUT
                : ((const struct btree_inner *)node)->count == FANOUT;
}

/* A root above the one there is, which has become full. */
static bool grow(struct esp_btree *tree, const struct esp_alloc *alloc) {
    struct btree_inner *root = esp_resize(alloc, NULL, 0, sizeof *root);
    if (root) {
        root->count = 1;
        root->head[0] = 0;
        root->bound[0] = NULL;
        root->child[0] = tree->root;
        tree->root = root;
        tree->height++;
    }
    return root != NULL;
}

/* The leaf for a key, with room in it: what is full on the way down is split first. */
static struct btree_leaf *leaf_with_room(struct esp_btree *tree, const struct esp_alloc *alloc,
                                         uint64_t head, struct esp_str key) {
    if (!tree->root) {
        struct btree_leaf *leaf = esp_resize(alloc, NULL, 0, sizeof *leaf);
        if (leaf) {
            leaf->previous = leaf->next = NULL;
            leaf->count = 0;
            tree->root = leaf;
        }
        return leaf;
    }
    if (is_full(tree->root, tree->height == 0) && !grow(tree, alloc)) {
        return NULL;
    }
    void *node = tree->root;
    for (unsigned level = tree->height; level > 0; level--) {
        struct btree_inner *inner = node;
        unsigned at = child_of(inner, head, key);
        bool leaf = level == 1;
        if (is_full(inner->child[at], leaf)) {
            if (!(leaf ? split_leaf(inner, at, alloc, head, key) : split_inner(inner, at, alloc))) {
                return NULL;
            }
            at = child_of(inner, head, key);
        }
        node = inner->child[at];
    }
    return node;
}

enum esp_status esp_btree_put(struct esp_btree *tree, const struct esp_alloc *alloc,
                              struct esp_entry *entry, struct esp_entry **old) {
    struct esp_str key = esp_entry_key(entry);
    uint64_t head = head_of(key);
    struct btree_leaf *leaf = find_leaf(tree, head, key);
    unsigned at = leaf ? lower_bound(leaf->head, leaf->entry, leaf->count, head, key) : 0;
    *old = NULL;
    if (leaf && is_at(leaf, at, head, key)) {
        *old = leaf->entry[at];
        leaf->entry[at] = entry;
        return ESP_OK;
    }
    if (!leaf || leaf->count == FANOUT) {
        leaf = leaf_with_room(tree, alloc, head, key);
        if (!leaf) {
            return ESP_ERR_NOMEM;
        }
        at = lower_bound(leaf->head, leaf->entry, leaf->count, head, key);
    }
    unsigned moved = leaf->count - at;
    memmove(&leaf->head[at + 1], &leaf->head[at], moved * sizeof leaf->head[0]);
    memmove(&leaf->entry[at + 1], &leaf->entry[at], moved * sizeof leaf->entry[0]);
    leaf->head[at] = head;
    leaf->entry[at] = entry;
    leaf->count++;
    return ESP_OK;
}

struct esp_entry *esp_btree_remove(struct esp_btree *tree, struct esp_str key) {
    uint64_t head = head_of(key);
    struct btree_leaf *leaf = find_leaf(tree, head, key);
    unsigned at = leaf ? lower_bound(leaf->head, leaf->entry, leaf->count, head, key) : 0;
    if (!leaf || !is_at(leaf, at, head, key)) {
        return NULL;
    }
    struct esp_entry *entry = leaf->entry[at];
    unsigned moved = leaf->count - at - 1;
    memmove(&leaf->head[at], &leaf->head[at + 1], moved * sizeof leaf->head[0]);
    memmove(&leaf->entry[at], &leaf->entry[at + 1], moved * sizeof leaf->entry[0]);
    leaf->count--;
    return entry;
}

/* --- the end -------------------------------------------------------------------- */

static void free_leaf(struct btree_leaf *leaf, const struct esp_alloc *alloc) {
    for (unsigned i = 0; i < leaf->count; i++) {
        esp_entry_free(alloc, leaf->entry[i]);
    }
    esp_release(alloc, leaf, sizeof *leaf);
}

void esp_btree_clear(struct esp_btree *tree, const struct esp_alloc *alloc) {
    struct btree_inner *node[HEIGHT_MAX]; /* the way down; child 0 .. at[] of each is freed */
    unsigned at[HEIGHT_MAX], depth = 0;
    if (tree->root && tree->height == 0) {
        free_leaf(tree->root, alloc);
    } else if (tree->root) {
        node[0] = tree->root;
        at[0] = 0;
        for (;;) {
            if (at[depth] == node[depth]->count) {
                esp_release(alloc, node[depth], sizeof *node[depth]);
                if (depth-- == 0) {
                    break;
                }
                continue;
            }
            void *child = node[depth]->child[at[depth]];
            esp_entry_free(alloc, at[depth] ? node[depth]->bound[at[depth]] : NULL);
            at[depth]++;
            if (depth + 1 == tree->height) {
                free_leaf(child, alloc);
            } else {
                node[++depth] = child;
                at[depth] = 0;
            }
        }
    }
    *tree = (struct esp_btree){0};
}

/* --- walking -------------------------------------------------------------------- */

static struct esp_entry *settle_forward(struct esp_btree_place *place) {
    while (place->leaf && place->at >= place->leaf->count) {
        place->leaf = place->leaf->next;
        place->at = 0;
    }
    return place->leaf ? place->leaf->entry[place->at] : NULL;
}

/* To the entry in front of the place. */
static struct esp_entry *settle_back(struct esp_btree_place *place) {
    while (place->leaf && place->at == 0) {
        place->leaf = place->leaf->previous;
        place->at = place->leaf ? place->leaf->count : 0;
    }
    return place->leaf ? place->leaf->entry[--place->at] : NULL;
}

static void seek(const struct esp_btree *tree, struct esp_str key, struct esp_btree_place *place) {
    uint64_t head = head_of(key);
    place->leaf = find_leaf(tree, head, key);
    place->at = place->leaf ? lower_bound(place->leaf->head, place->leaf->entry, place->leaf->count,
                                          head, key)
                            : 0;
}

struct esp_entry *esp_btree_at_or_after(const struct esp_btree *tree, struct esp_str key,
                                        struct esp_btree_place *place) {
    seek(tree, key, place);
    return settle_forward(place);
}

struct esp_entry *esp_btree_before(const struct esp_btree *tree, struct esp_str key,
                                   struct esp_btree_place *place) {
    seek(tree, key, place);
    return settle_back(place);
}

struct esp_entry *esp_btree_next(struct esp_btree_place *place) {
    if (place->leaf) {
        place->at++;
    }
    return settle_forward(place);
}

struct esp_entry *esp_btree_previous(struct esp_btree_place *place) {
    return settle_back(place);
}
