#ifndef ESP_CONVERTERS_WAY_H
#define ESP_CONVERTERS_WAY_H
/*
 * Ways: the ids from a root down to a node, written into one text; what the layouts of the path
 * family keep.  An id in such a text is a part, and the layout's separator stands between parts.
 * With escape=percent the separator, '%' and control characters of an id are written %XX in its
 * part, so that ids may contain them; without it a part is the id.
 *
 * Knows texts.  Whether a way begins with the root and ends with the node itself, and whether a
 * separator closes it, is each layout's own.
 */
#include "converters/access.h"

enum {
    /* A sort key holds at most this many levels: an id and a separator each. */
    ESP_WAY_LEVELS_MAX = ESP_SK_BYTES_MAX / 2 + 4,
    ESP_WAY_ESCAPE_BYTES = 3, /* what a byte of an id becomes at most */
    ESP_WAY_TEXT_MAX = ESP_SK_BYTES_MAX + ESP_WAY_ESCAPE_BYTES * ESP_ID_BYTES_MAX + 16,
};

/* --- settings --------------------------------------------------------------------- */

extern const char *const esp_way_escapes[]; /* names of esp_layout_settings.escape */

/* Rows of a layout's table of options. */
#define ESP_WAY_SEPARATOR(DEFAULT)                                                                 \
    {                                                                                              \
        .name = "separator", .type = ESP_OPT_STRING,                                               \
        .offset = offsetof(struct esp_layout_settings, separator), .argument = "C",                \
        .fallback = (DEFAULT),                                                                     \
        .help = "the character between the ids of a path; ids have it only with escape=percent"    \
    }
#define ESP_WAY_ESCAPE                                                                             \
    {                                                                                              \
        .name = "escape", .type = ESP_OPT_CHOICE,                                                  \
        .offset = offsetof(struct esp_layout_settings, escape), .argument = "none|percent",        \
        .fallback = "none", .choices = esp_way_escapes,                                            \
        .help = "percent: paths have separators, '%' and control characters of ids as %XX"         \
    }

/* For esp_layout_ops.configure.  ERR_USAGE: a separator that %XX could contain. */
enum esp_status esp_way_configure(struct esp_layout *l, struct esp_error *err) ESP_MUST_CHECK;

/* --- parts ------------------------------------------------------------------------ */

/* Write the part of `id` to `to`, at most ESP_WAY_ESCAPE_BYTES for each byte of it.  Returns the
 * bytes written; `to` NULL: those it would write. */
size_t esp_way_put(const struct esp_layout *l, struct esp_str id, char *to);
/* Is `part` what esp_way_put makes of `id`? */
bool esp_way_is_part(const struct esp_layout *l, struct esp_str part, struct esp_str id);
/* `before`, then the part of `id`, then `after`, in `arena`; ptr == NULL: no memory. */
struct esp_str esp_way_join(const struct esp_layout *l, struct esp_arena *arena,
                            struct esp_str before, struct esp_str id, struct esp_str after);
/* The id of a part: the part itself, or in `room`.  A '%' that begins no %XX is taken for
 * itself. */
struct esp_str esp_way_id(const struct esp_layout *l, struct esp_str part,
                          struct esp_id_room *room);

/* --- texts ------------------------------------------------------------------------ */

/* The part of `text` at *pos, which begins at 0; false at the end.  A separator at the end
 * closes the last part, one at the beginning follows an empty part. */
bool esp_way_next(const struct esp_layout *l, struct esp_str text, size_t *pos,
                  struct esp_str *part);
/* Separators in `text`. */
uint32_t esp_way_count(const struct esp_layout *l, struct esp_str text);
bool esp_way_closed(const struct esp_layout *l, struct esp_str text); /* ends with a separator? */
/* Bytes before the last part: all up to the last separator, which is included.  One that closes
 * the text does not count. */
size_t esp_way_last(const struct esp_layout *l, struct esp_str text);
/* `first` (len 0: none), then the ids of all parts of `text` that are not empty, in order, in
 * `arena`.  ERR_NOMEM. */
enum esp_status esp_way_ids(const struct esp_layout *l, struct esp_arena *arena,
                            struct esp_str first, struct esp_str text, struct esp_str **out,
                            size_t *count) ESP_MUST_CHECK;

/* --- forests ---------------------------------------------------------------------- */

/* The way that grows and shrinks while nodes pass in pre-order. */
struct esp_way_stack {
    uint32_t end[ESP_WAY_LEVELS_MAX + 1]; /* bytes of `text` that n parts take; end[0] == 0 */
    char text[ESP_WAY_TEXT_MAX];          /* a separator after each part */
};
/* The part of `id` and a separator go behind the first `depth` parts.  False: that is more than a
 * sort key and a separator; the stack is good for nodes higher up. */
bool esp_way_push(const struct esp_layout *l, struct esp_way_stack *stack, uint32_t depth,
                  struct esp_str id);
/* Push all ancestors of v, the root by its id, or as an empty part. */
bool esp_way_above(const struct esp_layout *l, struct esp_way_stack *stack,
                   const struct esp_forest *f, esp_node v, bool name_root);

/* A setting with a usual separator that is none of these bytes, as a shell takes it: for messages.
 * NULL: none. */
const char *esp_way_free_separator(const bool has[256]);
/* ERR_INPUT when ids contain the separator and nothing is escaped: names the rows, and a separator
 * that no id contains.  O(nodes) at most. */
enum esp_status esp_way_validate(const struct esp_layout *l, const struct esp_forest *f,
                                 struct esp_error *err) ESP_MUST_CHECK;
/* The same for one id: of a node to be inserted. */
enum esp_status esp_way_check_id(struct esp_access *a, struct esp_str id) ESP_MUST_CHECK;

#endif
