#include "converters/way.h"

#include "converters/validate.h"

#include <stdio.h>

const char *const esp_way_escapes[] = {"none", "percent", NULL};

static const char hex_digits[] = "0123456789ABCDEF";

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
}

enum esp_status esp_way_configure(struct esp_layout *l, struct esp_error *err) {
    char c = l->separator.len == 1 ? l->separator.ptr[0] : 0;
    return l->settings.escape && (c == '%' || is_hex(c))
               ? esp_fail(
                     err, ESP_ERR_USAGE,
                     "--set separator=%c: escape=percent writes it itself; take another separator",
                     c)
               : ESP_OK;
}

/* --- parts ------------------------------------------------------------------------ */

static bool starts_with(struct esp_str text, size_t at, struct esp_str part) {
    return text.len - at >= part.len && memcmp(text.ptr + at, part.ptr, part.len) == 0;
}

static bool is_control(char c) {
    return (unsigned char)c < ' ' || c == 0x7F;
}

/* How many bytes at `at` are to be escaped; 0: none. */
static size_t escaped_at(struct esp_str separator, struct esp_str id, size_t at) {
    if (starts_with(id, at, separator)) {
        return separator.len;
    }
    return id.ptr[at] == '%' || is_control(id.ptr[at]);
}

size_t esp_way_put(const struct esp_layout *l, struct esp_str id, char *to) {
    if (!l->settings.escape) {
        if (to && id.len) {
            memcpy(to, id.ptr, id.len);
        }
        return id.len;
    }
    size_t n = 0;
    for (size_t at = 0; at < id.len;) {
        size_t escaped = escaped_at(l->separator, id, at);
        if (escaped == 0) {
            if (to) {
                to[n] = id.ptr[at];
            }
            n++;
            at++;
        }
        for (; escaped; escaped--, at++, n += ESP_WAY_ESCAPE_BYTES) {
            if (to) {
                unsigned char c = (unsigned char)id.ptr[at];
                to[n] = '%';
                to[n + 1] = hex_digits[c >> 4];
                to[n + 2] = hex_digits[c & 15];
            }
        }
    }
    return n;
}

bool esp_way_is_part(const struct esp_layout *l, struct esp_str part, struct esp_str id) {
    char text[ESP_WAY_ESCAPE_BYTES * ESP_ID_BYTES_MAX];
    if (!l->settings.escape || id.len > ESP_ID_BYTES_MAX) {
        return esp_str_eq(part, id);
    }
    return esp_str_eq(part, (struct esp_str){text, esp_way_put(l, id, text)});
}

struct esp_str esp_way_join(const struct esp_layout *l, struct esp_arena *arena,
                            struct esp_str before, struct esp_str id, struct esp_str after) {
    size_t part = esp_way_put(l, id, NULL);
    char *text = esp_arena_alloc(arena, before.len + part + after.len + 1);
    if (text) {
        if (before.len) {
            memcpy(text, before.ptr, before.len);
        }
        esp_way_put(l, id, text + before.len);
        if (after.len) {
            memcpy(text + before.len + part, after.ptr, after.len);
        }
    }
    return (struct esp_str){text, text ? before.len + part + after.len : 0};
}

static int hex_value(char c) {
    return c <= '9' ? c - '0' : (c & ~0x20) - 'A' + 10;
}

struct esp_str esp_way_id(const struct esp_layout *l, struct esp_str part,
                          struct esp_id_room *room) {
    if (!l->settings.escape || part.len == 0 || !memchr(part.ptr, '%', part.len)) {
        return part;
    }
    size_t n = 0;
    for (size_t at = 0; at < part.len && n < sizeof room->text; n++) {
        const char *c = part.ptr + at;
        bool escaped =
            *c == '%' && part.len - at >= ESP_WAY_ESCAPE_BYTES && is_hex(c[1]) && is_hex(c[2]);
        room->text[n] = escaped ? (char)(hex_value(c[1]) << 4 | hex_value(c[2])) : *c;
        at += escaped ? ESP_WAY_ESCAPE_BYTES : 1;
    }
    return (struct esp_str){room->text, n};
}

/* --- texts ------------------------------------------------------------------------ */

bool esp_way_next(const struct esp_layout *l, struct esp_str text, size_t *pos,
                  struct esp_str *part) {
    if (*pos >= text.len) {
        return false;
    }
    const char *start = text.ptr + *pos;
    const char *end = memmem(start, text.len - *pos, l->separator.ptr, l->separator.len);
    part->ptr = start;
    part->len = end ? (size_t)(end - start) : text.len - *pos;
    *pos += part->len + l->separator.len;
    return true;
}

uint32_t esp_way_count(const struct esp_layout *l, struct esp_str text) {
    struct esp_str part;
    uint32_t n = 0;
    for (size_t pos = 0; esp_way_next(l, text, &pos, &part);) {
        n++;
    }
    return esp_way_closed(l, text) || n == 0 ? n : n - 1;
}

bool esp_way_closed(const struct esp_layout *l, struct esp_str text) {
    struct esp_str sep = l->separator;
    return text.len >= sep.len && starts_with(text, text.len - sep.len, sep);
}

size_t esp_way_last(const struct esp_layout *l, struct esp_str text) {
    struct esp_str sep = l->separator;
    size_t start = esp_way_closed(l, text) ? text.len - sep.len : text.len;
    while (start >= sep.len && !starts_with(text, start - sep.len, sep)) {
        start--;
    }
    return start >= sep.len ? start : 0;
}

enum esp_status esp_way_ids(const struct esp_layout *l, struct esp_arena *arena,
                            struct esp_str first, struct esp_str text, struct esp_str **out,
                            size_t *count) {
    struct esp_str *ids = esp_arena_calloc(arena, (size_t)esp_way_count(l, text) + 2, sizeof *ids);
    struct esp_str part;
    size_t n = 0;
    if (!ids) {
        return ESP_ERR_NOMEM;
    }
    if (first.len) {
        ids[n++] = first;
    }
    for (size_t pos = 0; esp_way_next(l, text, &pos, &part);) {
        struct esp_id_room room;
        struct esp_str id = esp_way_id(l, part, &room);
        if (id.ptr == room.text) {
            id = esp_arena_dup(arena, id);
        }
        if (!id.ptr) {
            return ESP_ERR_NOMEM;
        }
        ids[n] = id;
        n += id.len > 0;
    }
    *out = ids;
    *count = n;
    return ESP_OK;
}

/* --- forests ---------------------------------------------------------------------- */

bool esp_way_push(const struct esp_layout *l, struct esp_way_stack *stack, uint32_t depth,
                  struct esp_str id) {
    struct esp_str sep = l->separator;
    if (depth >= ESP_WAY_LEVELS_MAX || stack->end[depth] > ESP_SK_BYTES_MAX + sep.len) {
        return false;
    }
    size_t len = stack->end[depth];
    len += esp_way_put(l, id, stack->text + len);
    memcpy(stack->text + len, sep.ptr, sep.len);
    len += sep.len;
    stack->end[depth + 1] = (uint32_t)len;
    return len <= ESP_SK_BYTES_MAX + sep.len;
}

bool esp_way_above(const struct esp_layout *l, struct esp_way_stack *stack,
                   const struct esp_forest *f, esp_node v, bool name_root) {
    esp_node chain[ESP_WAY_LEVELS_MAX];
    uint32_t n = f->depth[v];
    bool fits = n <= ESP_WAY_LEVELS_MAX;
    stack->end[0] = 0;
    for (uint32_t i = n; fits && i-- > 0;) {
        v = f->parent[v];
        chain[i] = v;
    }
    for (uint32_t i = 0; fits && i < n; i++) {
        struct esp_str id = esp_forest_id(f, chain[i]);
        id.len = i || name_root ? id.len : 0;
        fits = esp_way_push(l, stack, i, id);
    }
    return fits;
}

static bool contains(const struct esp_layout *l, struct esp_str id) {
    return memmem(id.ptr, id.len, l->separator.ptr, l->separator.len) != NULL;
}

const char *esp_way_free_separator(const bool has[256]) {
    static const struct {
        const char *text, *shown;
    } candidates[] = {
        {"/", "'separator=/'"},         {"#", "'separator=#'"}, {"|", "'separator=|'"},
        {":", "'separator=:'"},         {"~", "'separator=~'"}, {">", "'separator=>'"},
        {"\x1f", "$'separator=\\x1f'"},
    };
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        if (!has[(unsigned char)candidates[i].text[0]]) {
            return candidates[i].shown;
        }
    }
    return NULL;
}

enum { ROWS_NAMED_MAX = 5, ROW_BYTES_MAX = 80 };

/* The ids with a separator: the first few with their lines. */
struct offenders {
    esp_node first;
    uint32_t count;
    char named[ROWS_NAMED_MAX * ROW_BYTES_MAX];
    size_t len;
};

static void add_offender(struct offenders *o, const struct esp_forest *f, esp_node v) {
    enum { ID_SHOWN_MAX = 40 };
    struct esp_str id = esp_forest_id(f, v);
    uint32_t line = esp_forest_line(f, v);
    if (o->count == 0) {
        o->first = v;
    }
    if (o->count++ >= ROWS_NAMED_MAX) {
        return;
    }
    char where[32] = "";
    if (line && !f->several_sources) { /* a line of all files together would mislead */
        snprintf(where, sizeof where, " (line %u)", line);
    }
    int n = snprintf(o->named + o->len, sizeof o->named - o->len, "%s'%.*s%s'%s",
                     o->count > 1 ? ", " : "", id.len > ID_SHOWN_MAX ? ID_SHOWN_MAX : (int)id.len,
                     id.ptr, id.len > ID_SHOWN_MAX ? "..." : "", where);
    o->len += n > 0 && (size_t)n < sizeof o->named - o->len ? (size_t)n : 0;
}

static enum esp_status separator_error(const struct esp_layout *l, const struct esp_forest *f,
                                       const struct offenders *o, struct esp_error *err) {
    const char *setting = esp_way_free_separator(f->id_has);
    char more[32] = "";
    if (o->count > ROWS_NAMED_MAX) {
        snprintf(more, sizeof more, " and %u more", o->count - ROWS_NAMED_MAX);
    }
    return esp_validate_fail(
        f, o->first, err, ESP_ERR_INPUT,
        "%s the separator '%.*s': %s%s; %s%s, or keep it with --set escape=percent",
        o->count > 1 ? "ids contain" : "an id contains", ESP_FMT(l->separator), o->named, more,
        setting ? "no id contains the one of --set "
                : "every usual one occurs in some id: find one that does not and give it with "
                  "--set separator=C",
        setting ? setting : "");
}

enum esp_status esp_way_validate(const struct esp_layout *l, const struct esp_forest *f,
                                 struct esp_error *err) {
    /* Most forests can be told to be fine without a look at their nodes. */
    if (l->settings.escape || !f->id_has[(unsigned char)l->separator.ptr[0]]) {
        return ESP_OK;
    }
    struct offenders o = {.count = 0};
    for (esp_node v = 0; v < f->count; v++) {
        esp_prefetch_text(f, v + ESP_PREFETCH_NODES);
        if (contains(l, esp_forest_id(f, v))) {
            add_offender(&o, f, v);
        }
    }
    return o.count ? separator_error(l, f, &o, err) : ESP_OK;
}

enum esp_status esp_way_check_id(struct esp_access *a, struct esp_str id) {
    const struct esp_layout *l = a->layout;
    return l->settings.escape || !contains(l, id)
               ? ESP_OK
               : esp_fail(a->err, ESP_ERR_INPUT,
                          "the id '%.*s' contains the separator '%.*s'; a table made with --set "
                          "escape=percent takes it",
                          ESP_FMT(id), ESP_FMT(l->separator));
}
