#ifndef ESP_TREE_FOREST_OWNER_H
#define ESP_TREE_FOREST_OWNER_H
/* What a forest owns; shared by builder.c and forest.c only. */
#include "tree/forest.h"

/* Node texts, packed one after another in big chunks. */
struct text_chunk;
struct text_chunks {
    struct text_chunk *head; /* the chunk being filled */
    uint64_t bytes;          /* taken from the allocator */
};
void *text_chunks_alloc(struct text_chunks *chunks, const struct esp_alloc *alloc, size_t size);
void text_chunks_free(struct text_chunks *chunks, const struct esp_alloc *alloc);

struct esp_forest_owner {
    const struct esp_alloc *alloc;
    struct text_chunks chunks;
    uint32_t count; /* length of the arrays */
    esp_node *parent;
    uint32_t *size, *depth;
    const char **text;
};

struct esp_forest *
forest_new(const struct esp_alloc *alloc); /* empty, with an owner; NULL: no memory */
/* Publish the owner's arrays and take the texts over. */
void forest_adopt(struct esp_forest *f, uint32_t count, uint32_t root_count,
                  struct text_chunks *chunks);

#endif
