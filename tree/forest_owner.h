#ifndef ESP_TREE_FOREST_OWNER_H
#define ESP_TREE_FOREST_OWNER_H
/* What a forest owns; shared by builder.c and forest.c only. */
#include "core/prefault.h"
#include "tree/forest.h"

/* Node texts, packed one after another in big chunks. */
struct text_chunk;
struct text_chunks {
    struct text_chunk *head; /* the chunk being filled */
    uint64_t bytes;          /* taken from the allocator */
    struct esp_prefault ahead;
};
/* Texts are written at the pace of the importer, which must not wait for fresh pages: those of
 * a big chunk are made ahead, see `ahead`. */
void *text_chunks_alloc(struct text_chunks *chunks, const struct esp_alloc *alloc, size_t size);
void text_chunks_free(struct text_chunks *chunks, const struct esp_alloc *alloc);

/* Attribute names that sources have listed. */
struct listed_name {
    struct listed_name *next;
    struct esp_str name;
};
struct names {
    struct esp_arena arena;
    struct listed_name *head;
    bool incomplete; /* some data came without its names, or there were too many */
};

struct esp_forest_owner {
    const struct esp_alloc *alloc;
    struct text_chunks chunks;
    struct names names;
    uint32_t count; /* length of the arrays */
    esp_node *parent;
    uint32_t *size, *depth;
    const char **text;
    struct esp_arena links; /* struct esp_link, their positions and texts */
};

/* Publish links: put in order, checked for duplicates and cycles; in `owner->links` already. */
enum esp_status forest_set_links(struct esp_forest *f, struct esp_link *link, uint32_t count,
                                 struct esp_error *err);

struct esp_forest *
forest_new(const struct esp_alloc *alloc); /* empty, with an owner; NULL: no memory */
/* Publish the owner's arrays and take the texts and names over. */
void forest_adopt(struct esp_forest *f, uint32_t count, uint32_t root_count,
                  struct text_chunks *chunks, struct names *names);

#endif
