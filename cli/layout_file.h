#ifndef ESP_CLI_LAYOUT_FILE_H
#define ESP_CLI_LAYOUT_FILE_H
/*
 * --layout-file FILE: the layout, settings and names of a table that exists, as JSON:
 *   {"layout": "path", "set": {"separator": "#"}, "attributes": {"Path": "way"},
 *    "indexes": {"gsi1": "by-root"}, "description": "what it is for"}
 * "attributes" and "indexes" give the layout's own names those that the table uses.
 */
#include "cli/shared.h"

/* Read options->layout_file into options->layout and options->set: as if it had been written on
 * the command line before everything else.  Texts are in `texts` and must live as long as the
 * options are used.  ERR_INPUT names file, line and member; ERR_USAGE when --layout is another. */
enum esp_status esp_layout_file_read(struct esp_cli *cli, struct esp_arena *texts,
                                     struct esp_cli_options *options) ESP_MUST_CHECK;

#endif
