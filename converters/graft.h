#ifndef ESP_CONVERTERS_GRAFT_H
#define ESP_CONVERTERS_GRAFT_H
/*
 * insert-subtree, derived: the nodes above the new parent and the new nodes make a forest, whose
 * new part is converted as an import would.  Good for every layout whose items of a node depend
 * on the nodes above it alone; those that number siblings bring a plan of their own.
 */
#include "converters/layout.h"

/* An esp_op_fn.  Everything is checked before the first write: ERR_NOT_FOUND (the parent),
 * ERR_EXISTS names an id that is there, and what the layout's validate says.  Each item is put on
 * the condition that it is new, parents first. */
enum esp_status esp_graft(struct esp_access *a, const struct esp_args *args, esp_node_fn *fn,
                          void *ctx);

#endif
