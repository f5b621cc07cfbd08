#include "converters/graph/edge_set.h"

#include "converters/idmap.h"

#include <stdlib.h>

/* --- texts -------------------------------------------------------------------------- */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool all_digits(struct esp_str text) {
    for (size_t i = 0; i < text.len; i++) {
        if (!is_digit(text.ptr[i])) {
            return false;
        }
    }
    return text.len > 0;
}

bool esp_edge_type_valid(struct esp_str type) {
    return type.len > 0 && !memchr(type.ptr, '-', type.len) && !memchr(type.ptr, '#', type.len);
}

bool esp_edge_weight_valid(struct esp_str gsi0) {
    size_t digits = 0;
    while (digits < gsi0.len && is_digit(gsi0.ptr[digits])) {
        digits++;
    }
    if (digits == 0 || digits == gsi0.len) {
        return digits > 0;
    }
    struct esp_str role = {gsi0.ptr + digits + 1, gsi0.len - digits - 1};
    return gsi0.ptr[digits] == '-' && esp_edge_type_valid(role) && !all_digits(role);
}

int64_t esp_edge_rank(struct esp_str gsi0) {
    int64_t rank = 0;
    if (gsi0.len != ESP_RANK_DIGITS || !all_digits(gsi0)) {
        return -1;
    }
    for (size_t i = 0; i < gsi0.len; i++) {
        rank = 10 * rank + (gsi0.ptr[i] - '0');
    }
    return rank;
}

void esp_edge_put_rank(int64_t rank, char out[ESP_RANK_DIGITS]) {
    for (size_t i = ESP_RANK_DIGITS; i-- > 0; rank /= 10) {
        out[i] = (char)('0' + rank % 10);
    }
}

bool esp_edge_parse_target(struct esp_str target, struct esp_str *type, struct esp_str *key) {
    const char *dash = target.len ? memchr(target.ptr, '-', target.len) : NULL;
    if (!dash) {
        return false;
    }
    *type = (struct esp_str){target.ptr, (size_t)(dash - target.ptr)};
    *key = (struct esp_str){dash + 1, target.len - type->len - 1};
    return key->len > 0 && esp_edge_type_valid(*type);
}

/* Where the last part of the text begins; 0 when there is no '-' before it. */
static size_t last_part(struct esp_str text) {
    const char *dash = text.len ? memrchr(text.ptr, '-', text.len) : NULL;
    return dash ? (size_t)(dash - text.ptr) + 1 : 0;
}

bool esp_edge_parse_entry(struct esp_str entry, struct esp_edge *out) {
    size_t at = last_part(entry);
    if (at > 0 && !all_digits((struct esp_str){entry.ptr + at, entry.len - at})) {
        at = last_part((struct esp_str){entry.ptr, at - 1}); /* that was the role */
    }
    if (at == 0) {
        return false;
    }
    *out = (struct esp_edge){.gsi0 = {entry.ptr + at, entry.len - at}};
    return esp_edge_weight_valid(out->gsi0) &&
           esp_edge_parse_target((struct esp_str){entry.ptr, at - 1}, &out->type, &out->key);
}

/* a-b or, with c, a-b-c. */
static struct esp_str join(struct esp_arena *arena, struct esp_str a, struct esp_str b,
                           struct esp_str c) {
    char *text = esp_arena_alloc(arena, a.len + b.len + c.len + 2);
    size_t len = a.len;
    if (!text) {
        return (struct esp_str){NULL, 0};
    }
    memcpy(text, a.ptr, a.len);
    text[len++] = '-';
    if (b.len) {
        memcpy(text + len, b.ptr, b.len);
        len += b.len;
    }
    if (c.len) {
        text[len++] = '-';
        memcpy(text + len, c.ptr, c.len);
        len += c.len;
    }
    return (struct esp_str){text, len};
}

struct esp_str esp_edge_target(struct esp_arena *arena, struct esp_str type, struct esp_str key) {
    return join(arena, type, key, (struct esp_str){NULL, 0});
}

/* --- finding ------------------------------------------------------------------------ */

enum { LOOK_THROUGH_MAX = 32, SLOTS_PER_EDGE = 4 };
/* A slot has a position + 1. */
static const uint32_t slot_empty = 0, slot_gone = UINT32_MAX;

static uint64_t edge_hash(struct esp_str type, struct esp_str key) {
    return esp_hash64(key.ptr, key.len, esp_hash64(type.ptr, type.len, 0));
}

static bool is_edge(const struct esp_edge *edge, struct esp_str type, struct esp_str key) {
    return esp_str_eq(edge->key, key) && esp_str_eq(edge->type, type);
}

static uint32_t slot_of(const struct esp_edge_set *set, const struct esp_edge *edge) {
    return (uint32_t)edge_hash(edge->type, edge->key) & (set->slot_count - 1);
}

static void fill_slot(struct esp_edge_set *set, uint32_t position) {
    uint32_t at = slot_of(set, &set->edge[position]);
    while (set->slot[at] != slot_empty) {
        at = (at + 1) & (set->slot_count - 1);
    }
    set->slot[at] = position + 1;
    set->slots_used++;
}

/* Of an edge that is in the table. */
static void change_slot(struct esp_edge_set *set, uint32_t position, uint32_t value) {
    uint32_t at = slot_of(set, &set->edge[position]);
    while (set->slot[at] != position + 1) {
        at = (at + 1) & (set->slot_count - 1);
    }
    set->slot[at] = value;
}

static enum esp_status make_slots(struct esp_edge_set *set) {
    size_t count = LOOK_THROUGH_MAX;
    while (count < (size_t)set->count * SLOTS_PER_EDGE) {
        count *= 2;
    }
    uint32_t *slot = count < slot_gone ? esp_arena_calloc(set->arena, count, sizeof *slot) : NULL;
    if (!slot) {
        return ESP_ERR_NOMEM;
    }
    set->slot = slot;
    set->slot_count = (uint32_t)count;
    set->slots_used = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        fill_slot(set, i);
    }
    return ESP_OK;
}

/* The last edge is new. */
static enum esp_status note_last(struct esp_edge_set *set) {
    if (set->count <= LOOK_THROUGH_MAX && !set->slot) {
        return ESP_OK;
    }
    if (!set->slot || set->slots_used + 1 > set->slot_count / 2) {
        return make_slots(set);
    }
    fill_slot(set, set->count - 1);
    return ESP_OK;
}

struct esp_edge *esp_edge_set_find(const struct esp_edge_set *set, struct esp_str type,
                                   struct esp_str key) {
    if (set->slot) {
        uint32_t at = (uint32_t)edge_hash(type, key) & (set->slot_count - 1);
        for (; set->slot[at] != slot_empty; at = (at + 1) & (set->slot_count - 1)) {
            uint32_t position = set->slot[at] - 1;
            if (set->slot[at] != slot_gone && is_edge(&set->edge[position], type, key)) {
                return &set->edge[position];
            }
        }
        return NULL;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        if (is_edge(&set->edge[i], type, key)) {
            return &set->edge[i];
        }
    }
    return NULL;
}

/* --- sets --------------------------------------------------------------------------- */

static size_t entry_bytes(const struct esp_edge *edge) {
    return edge->type.len ? edge->type.len + edge->key.len + edge->gsi0.len + 2 : edge->key.len;
}

static enum esp_status add_omitted(struct esp_edge_set *set, struct esp_str type) {
    struct esp_str *grown = esp_arena_grow(set->arena, set->omitted, &set->omitted_cap,
                                           set->omitted_count + 1, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    set->omitted = grown;
    grown[set->omitted_count++] = type;
    return ESP_OK;
}

enum esp_status esp_edge_set_read(struct esp_edge_set *set, struct esp_arena *arena,
                                  const struct esp_value *entries,
                                  const struct esp_value *omitted) {
    struct esp_str text;
    enum esp_status status = ESP_OK;
    *set = (struct esp_edge_set){.arena = arena};
    for (size_t pos = 0; status == ESP_OK && esp_set_next(entries, &pos, arena, &text);) {
        struct esp_edge edge;
        if (!esp_edge_parse_entry(text, &edge)) {
            edge = (struct esp_edge){.key = text};
        }
        status = text.ptr ? esp_edge_set_add(set, &edge) : ESP_ERR_NOMEM;
    }
    for (size_t pos = 0; status == ESP_OK && esp_set_next(omitted, &pos, arena, &text);) {
        status = text.ptr ? add_omitted(set, text) : ESP_ERR_NOMEM;
    }
    return status;
}

bool esp_edge_set_omits(const struct esp_edge_set *set, struct esp_str type) {
    for (uint32_t i = 0; i < set->omitted_count; i++) {
        if (esp_str_eq(set->omitted[i], type)) {
            return true;
        }
    }
    return false;
}

struct esp_edge *esp_edge_set_next(const struct esp_edge_set *set, struct esp_str type,
                                   uint32_t *at) {
    while (*at < set->count) {
        struct esp_edge *edge = &set->edge[(*at)++];
        if (esp_str_eq(edge->type, type)) {
            return edge;
        }
    }
    return NULL;
}

enum esp_status esp_edge_set_add(struct esp_edge_set *set, const struct esp_edge *edge) {
    struct esp_edge *grown =
        esp_arena_grow(set->arena, set->edge, &set->cap, set->count + 1, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    set->edge = grown;
    grown[set->count++] = *edge;
    return note_last(set);
}

void esp_edge_set_remove(struct esp_edge_set *set, struct esp_edge *edge) {
    uint32_t position = (uint32_t)(edge - set->edge), last = set->count - 1;
    if (set->slot) {
        change_slot(set, position, slot_gone);
        if (position != last) {
            change_slot(set, last, position + 1);
        }
    }
    set->count = last;
    *edge = set->edge[last];
}

void esp_edge_set_unmark(struct esp_edge_set *set, struct esp_str type) {
    for (uint32_t i = 0; i < set->omitted_count; i++) {
        if (esp_str_eq(set->omitted[i], type)) {
            set->omitted[i] = set->omitted[--set->omitted_count];
            return;
        }
    }
}

/* --- leaving out -------------------------------------------------------------------- */

static bool in_list(const char *list, struct esp_str type) {
    while (list) {
        size_t len = strcspn(list, ",");
        if (len == type.len && memcmp(list, type.ptr, len) == 0) {
            return true;
        }
        list = list[len] ? list + len + 1 : NULL;
    }
    return false;
}

/* Edges, those of one type together, and in the order of their keys. */
static int by_type(const void *a, const void *b) {
    const struct esp_edge *x = a, *y = b;
    int order = esp_str_cmp(x->type, y->type);
    order = order ? order : esp_str_cmp(x->key, y->key);
    return order ? order : esp_str_cmp(x->gsi0, y->gsi0);
}

/* edge[first .. return value) are of one type. */
static uint32_t type_end(const struct esp_edge_set *set, uint32_t first) {
    uint32_t end = first;
    while (end < set->count && esp_str_eq(set->edge[end].type, set->edge[first].type)) {
        end++;
    }
    return end;
}

static enum esp_status leave_out(struct esp_edge_set *set, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        set->edge[i].left_out = true;
    }
    struct esp_str type = set->edge[first].type;
    return esp_edge_set_omits(set, type) ? ESP_OK : add_omitted(set, type);
}

/* The type with the most bytes goes; false: there is none left. */
static bool drop_largest(struct esp_edge_set *set, uint64_t *bytes, enum esp_status *status) {
    uint64_t largest = 0;
    uint32_t at = 0, at_end = 0;
    for (uint32_t first = 0, end; first < set->count; first = end) {
        uint64_t sum = 0;
        end = type_end(set, first);
        for (uint32_t i = first; i < end && set->edge[i].type.len; i++) {
            sum += set->edge[i].left_out ? 0 : entry_bytes(&set->edge[i]);
        }
        if (sum > largest) {
            largest = sum;
            at = first;
            at_end = end;
        }
    }
    if (largest) {
        *status = leave_out(set, at, at_end);
        *bytes -= largest;
    }
    return largest > 0;
}

enum esp_status esp_edge_set_fit(struct esp_edge_set *set, const char *omit, uint64_t bytes) {
    enum esp_status status = ESP_OK;
    uint64_t sum = 0;
    if (set->count) {
        qsort(set->edge, set->count, sizeof *set->edge, by_type);
        set->slot = NULL; /* positions have changed */
    }
    for (uint32_t first = 0, end; status == ESP_OK && first < set->count; first = end) {
        struct esp_str type = set->edge[first].type;
        end = type_end(set, first);
        if (type.len && (in_list(omit, type) || esp_edge_set_omits(set, type))) {
            status = leave_out(set, first, end);
            continue;
        }
        for (uint32_t i = first; i < end; i++) {
            sum += entry_bytes(&set->edge[i]);
        }
    }
    while (status == ESP_OK && sum > bytes && drop_largest(set, &sum, &status)) {
    }
    return status;
}

uint64_t esp_edge_set_bytes(const struct esp_edge_set *set) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        sum += set->edge[i].left_out ? 0 : entry_bytes(&set->edge[i]);
    }
    return sum;
}

static int by_bytes(const void *a, const void *b) {
    return esp_str_cmp(*(const struct esp_str *)a, *(const struct esp_str *)b);
}

enum esp_status esp_edge_set_values(const struct esp_edge_set *set, struct esp_value *entries,
                                    struct esp_value *omitted) {
    struct esp_str *text = esp_arena_calloc(set->arena, (size_t)set->count + 1, sizeof *text);
    size_t n = 0;
    if (!text) {
        return ESP_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        const struct esp_edge *edge = &set->edge[i];
        if (edge->left_out) {
            continue;
        }
        text[n] = edge->type.len ? join(set->arena, edge->type, edge->key, edge->gsi0) : edge->key;
        if (!text[n++].ptr) {
            return ESP_ERR_NOMEM;
        }
    }
    if (n > 1) {
        qsort(text, n, sizeof *text, by_bytes);
    }
    if (set->omitted_count > 1) {
        qsort(set->omitted, set->omitted_count, sizeof *set->omitted, by_bytes);
    }
    enum esp_status status = esp_set_make(text, n, set->arena, entries);
    return status == ESP_OK ? esp_set_make(set->omitted, set->omitted_count, set->arena, omitted)
                            : status;
}
