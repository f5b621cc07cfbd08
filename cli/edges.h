#ifndef ESP_CLI_EDGES_H
#define ESP_CLI_EDGES_H
/* --edges FILE: edges beside the tree's own, read into a forest as links. */
#include "cli/shared.h"

extern const struct esp_option esp_cli_edges_option[]; /* --edges */

/* Rows with the columns source, target, type and weight, ids as in the forest; other columns are
 * the edge's attributes.  Nothing to do without --edges.  ERR_INPUT, ERR_ORPHAN, ERR_DUPLICATE,
 * ERR_CYCLE with file and line. */
enum esp_status esp_cli_read_edges(struct esp_cli *cli, const struct esp_cli_options *options,
                                   struct esp_forest *forest) ESP_MUST_CHECK;

#endif
