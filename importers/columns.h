#ifndef ESP_IMPORTERS_COLUMNS_H
#define ESP_IMPORTERS_COLUMNS_H
/*
 * What the formats share about columns and keys: which one is the id, which the
 * parent, and what type the others have.
 */
#include "importers/importer.h"

/* Makes the column of a name: its type from options->column.  The name must outlive the
 * column; json_prefix is borrowed from `arena`.  ERR_INPUT / ERR_LIMIT for names DynamoDB
 * refuses, ERR_USAGE for a type there is not. */
enum esp_status esp_column_init(struct esp_column *column, struct esp_arena *arena,
                                struct esp_str name, const struct esp_source_options *options,
                                struct esp_error *err) ESP_MUST_CHECK;
/* ERR_USAGE when one of options->column is not NAME:TYPE. */
enum esp_status esp_column_options_check(const struct esp_source_options *options,
                                         struct esp_error *err) ESP_MUST_CHECK;
/* The name in "NAME:TYPE" (the last colon counts). */
struct esp_str esp_column_option_name(const char *option);

/* Names that are usual for the node's id or its parent's; case, '_', '-' and blanks do not
 * matter.  0 = not usual, else the higher the better. */
int esp_usual_id(struct esp_str name);
int esp_usual_parent(struct esp_str name);

/* The parent id that counts: empty for a root, be it by `none`, its own id or absence. */
static inline struct esp_str esp_parent_resolve(struct esp_str id, struct esp_str parent,
                                                const struct esp_source_options *options) {
    if ((!options->own_parent && esp_str_eq(id, parent)) ||
        (options->parent_none && esp_str_eq(parent, esp_str_from(options->parent_none)))) {
        return (struct esp_str){NULL, 0};
    }
    return parent;
}
/* ERR_INPUT for an empty id, ERR_LIMIT for one longer than a key can be.  `what` = "id". */
enum esp_status esp_id_check(struct esp_str id, const char *what,
                             struct esp_error *err) ESP_MUST_CHECK;

#endif
