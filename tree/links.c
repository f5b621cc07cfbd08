/*
 * Links: the edges of a forest beside the tree's own.  They are sorted by the node they leave,
 * and listed by the node they lead to, so that both ends find theirs by bisection.
 */
#include "tree/forest_owner.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHOWN_BYTES_MAX = 300 };

static struct esp_str shown(struct esp_str id) {
    return (struct esp_str){id.ptr, id.len < SHOWN_BYTES_MAX ? id.len : SHOWN_BYTES_MAX};
}

/* --- finding -------------------------------------------------------------------------- */

/* The first link, in the one order or the other, whose end is v or a node behind it. */
static uint32_t first_at(const struct esp_forest *f, esp_node v, bool in) {
    uint32_t lo = 0, hi = f->link_count;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        esp_node end = in ? f->link[f->link_in[middle]].parent : f->link[middle].child;
        if (end < v) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

uint32_t esp_forest_links_from(const struct esp_forest *f, esp_node v, uint32_t *first) {
    *first = first_at(f, v, false);
    return first_at(f, v + 1, false) - *first;
}

uint32_t esp_forest_links_to(const struct esp_forest *f, esp_node v, uint32_t *first) {
    *first = first_at(f, v, true);
    return first_at(f, v + 1, true) - *first;
}

bool esp_forest_has_link_type(const struct esp_forest *f, struct esp_str type) {
    uint32_t lo = 0, hi = f->link_type_count;
    while (lo < hi) {
        uint32_t middle = lo + (hi - lo) / 2;
        if (esp_str_cmp(f->link_type[middle], type) < 0) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo < f->link_type_count && esp_str_eq(f->link_type[lo], type);
}

/* --- publishing ------------------------------------------------------------------------- */

static int compare_nodes(esp_node a, esp_node b) {
    return (a > b) - (a < b);
}

static int same_edge(const struct esp_link *a, const struct esp_link *b) {
    int order = compare_nodes(a->child, b->child);
    order = order ? order : esp_str_cmp(a->type, b->type);
    return order ? order : compare_nodes(a->parent, b->parent);
}

static int by_child(const void *a, const void *b) {
    int order = same_edge(a, b);
    return order ? order
                 : compare_nodes(((const struct esp_link *)a)->number,
                                 ((const struct esp_link *)b)->number);
}

/* By parent and number, through pointers that become positions afterwards. */
static int by_parent(const void *a, const void *b) {
    const struct esp_link *x = *(const struct esp_link *const *)a;
    const struct esp_link *y = *(const struct esp_link *const *)b;
    int order = compare_nodes(x->parent, y->parent);
    return order ? order : compare_nodes(x->number, y->number);
}

/* Where the link came from, for an error that has no place yet. */
static void say_place(const struct esp_link *link, struct esp_error *err) {
    if (err && !err->line) {
        err->line = link->line;
        if (link->source && !err->source[0]) {
            snprintf(err->source, sizeof err->source, "%s", link->source);
        }
    }
}

static enum esp_status fail_twice(const struct esp_forest *f, const struct esp_link *link,
                                  uint32_t before, struct esp_error *err) {
    char where[64] = "";
    if (before) {
        snprintf(where, sizeof where, ": it is on line %u already", before);
    }
    enum esp_status status =
        link->type.len
            ? esp_fail(err, ESP_ERR_DUPLICATE,
                       "the edge %.*s from '%.*s' to '%.*s' occurs a second time%s",
                       ESP_FMT(shown(link->type)), ESP_FMT(shown(esp_forest_id(f, link->child))),
                       ESP_FMT(shown(esp_forest_id(f, link->parent))), where)
            : esp_fail(err, ESP_ERR_DUPLICATE, "the id '%.*s' occurs a second time below '%.*s'%s",
                       ESP_FMT(shown(esp_forest_id(f, link->child))),
                       ESP_FMT(shown(esp_forest_id(f, link->parent))), where);
    say_place(link, err);
    return status;
}

static enum esp_status find_twice(const struct esp_forest *f, struct esp_error *err) {
    for (uint32_t i = 0; i < f->link_count; i++) {
        const struct esp_link *link = &f->link[i];
        if (i > 0 && same_edge(link, link - 1) == 0) {
            return fail_twice(f, link, link[-1].line, err);
        }
        if (link->type.len == 0 && f->parent[link->child] == link->parent) {
            return fail_twice(f, link, esp_forest_line(f, link->child), err);
        }
    }
    return ESP_OK;
}

static int by_text(const void *a, const void *b) {
    return esp_str_cmp(*(const struct esp_str *)a, *(const struct esp_str *)b);
}

/* The types of the links; room for as many as there are links. */
static uint32_t list_types(const struct esp_link *link, uint32_t count, struct esp_str *type) {
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; i < count; i++) { /* those of one child are in order of types */
        if (n == 0 || !esp_str_eq(type[n - 1], link[i].type)) {
            type[n++] = link[i].type;
        }
    }
    if (n > 1) {
        qsort(type, n, sizeof *type, by_text);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (kept == 0 || !esp_str_eq(type[kept - 1], type[i])) {
            type[kept++] = type[i];
        }
    }
    return kept;
}

enum esp_status forest_set_links(struct esp_forest *f, struct esp_link *link, uint32_t count,
                                 struct esp_error *err) {
    const struct esp_alloc *alloc = f->owner->alloc;
    const struct esp_link **at = count ? esp_calloc(alloc, count, sizeof *at) : NULL;
    uint32_t *in = esp_arena_calloc(&f->owner->links, count ? count : 1, sizeof *in);
    struct esp_str *type = esp_arena_calloc(&f->owner->links, count ? count : 1, sizeof *type);
    if (!in || !type || (count && !at)) {
        esp_release(alloc, at, count * sizeof *at);
        return esp_fail_nomem(err);
    }
    struct esp_forest before = *f;
    qsort(link, count, sizeof *link, by_child);
    for (uint32_t i = 0; i < count; i++) {
        at[i] = &link[i];
    }
    if (count) {
        qsort(at, count, sizeof *at, by_parent);
    }
    for (uint32_t i = 0; i < count; i++) {
        in[i] = (uint32_t)(at[i] - link);
    }
    esp_release(alloc, at, count * sizeof *at);
    f->link = link;
    f->link_in = in;
    f->link_count = count;
    f->link_type = type;
    f->link_type_count = list_types(link, count, type);
    enum esp_status status = find_twice(f, err);
    if (status == ESP_OK) {
        status = esp_forest_check_links(f, (struct esp_str){NULL, 0}, err);
    }
    if (status != ESP_OK) {
        f->link = before.link;
        f->link_in = before.link_in;
        f->link_count = before.link_count;
        f->link_type = before.link_type;
        f->link_type_count = before.link_type_count;
    }
    return status;
}

/* --- cycles ------------------------------------------------------------------------------- */

static bool is_parent(const struct esp_link *link, struct esp_str type) {
    return link->type.len == 0 || esp_str_eq(link->type, type);
}

/* What is left when nodes without parents are taken away, again and again. */
struct peeling {
    const struct esp_forest *f;
    struct esp_str type;
    uint32_t *waiting; /* parents of each node that are still there */
    esp_node *queue;
    uint32_t count; /* of nodes taken away, which stand in the queue */
};

static void count_parents(struct peeling *p) {
    for (esp_node v = 0; v < p->f->count; v++) {
        p->waiting[v] += p->f->parent[v] != ESP_NODE_NONE;
    }
    for (uint32_t i = 0; i < p->f->link_count; i++) {
        p->waiting[p->f->link[i].child] += is_parent(&p->f->link[i], p->type);
    }
}

static void release_child(struct peeling *p, esp_node child) {
    if (--p->waiting[child] == 0) {
        p->queue[p->count++] = child;
    }
}

static void peel(struct peeling *p) {
    const struct esp_forest *f = p->f;
    for (esp_node v = 0; v < f->count; v++) {
        if (p->waiting[v] == 0) {
            p->queue[p->count++] = v;
        }
    }
    for (uint32_t at = 0; at < p->count; at++) {
        esp_node v = p->queue[at];
        uint32_t first, n = esp_forest_links_to(f, v, &first);
        for (esp_node c = esp_forest_first_child(f, v); c != ESP_NODE_NONE;
             c = esp_forest_next_sibling(f, c)) {
            release_child(p, c);
        }
        for (uint32_t i = first; i < first + n; i++) {
            if (is_parent(&f->link[f->link_in[i]], p->type)) {
                release_child(p, f->link[f->link_in[i]].child);
            }
        }
    }
}

/* A parent of v that is still there; *link (may be NULL) when a link leads to it. */
static esp_node parent_left(const struct peeling *p, esp_node v, const struct esp_link **link) {
    const struct esp_forest *f = p->f;
    uint32_t first, n = esp_forest_links_from(f, v, &first);
    for (uint32_t i = first; i < first + n; i++) {
        if (is_parent(&f->link[i], p->type) && p->waiting[f->link[i].parent]) {
            *link = &f->link[i];
            return f->link[i].parent;
        }
    }
    return f->parent[v];
}

static enum esp_status report_cycle(const struct peeling *p, struct esp_error *err) {
    const struct esp_forest *f = p->f;
    const struct esp_link *link = NULL;
    char text[sizeof err->message];
    esp_node v = 0;
    while (!p->waiting[v]) {
        v++;
    }
    for (uint32_t i = 0; i < f->count; i++) {
        v = parent_left(p, v, &link); /* after `count` steps up we are on the cycle */
    }
    esp_node first = v;
    struct esp_str closing = shown(esp_forest_id(f, first));
    size_t room = sizeof text - 96 - closing.len, len = 0; /* 96: the words around the ids */
    uint32_t length = 0, named = 0;
    link = NULL;
    do {
        struct esp_str id = shown(esp_forest_id(f, v));
        if (named == length && len + id.len + 4 <= room) {
            len += (size_t)snprintf(text + len, sizeof text - len, "%.*s -> ", ESP_FMT(id));
            named++;
        }
        length++;
        v = parent_left(p, v, &link);
    } while (v != first);
    text[len] = 0;
    char rest[32] = "";
    if (named < length) {
        snprintf(rest, sizeof rest, "%u more -> ", length - named);
    }
    esp_fail(err, ESP_ERR_CYCLE, "a cycle of %u nodes, each the child of the next: %s%s%.*s",
             length, text, rest, ESP_FMT(closing));
    if (link) {
        say_place(link, err);
    }
    return ESP_ERR_CYCLE;
}

enum esp_status esp_forest_check_links(const struct esp_forest *f, struct esp_str type,
                                       struct esp_error *err) {
    const struct esp_alloc *alloc = f->owner->alloc;
    struct peeling p = {.f = f, .type = type};
    if (!esp_forest_has_link_type(f, type) &&
        !esp_forest_has_link_type(f, (struct esp_str){NULL, 0})) {
        return ESP_OK;
    }
    p.waiting = esp_big_alloc(alloc, f->count * sizeof *p.waiting);
    p.queue = esp_big_alloc(alloc, f->count * sizeof *p.queue);
    enum esp_status status = p.waiting && p.queue ? ESP_OK : esp_fail_nomem(err);
    if (status == ESP_OK) {
        memset(p.waiting, 0, f->count * sizeof *p.waiting); /* small ones are not zeroed */
        count_parents(&p);
        peel(&p);
        status = p.count < f->count ? report_cycle(&p, err) : ESP_OK;
    }
    if (p.waiting) {
        esp_big_free(alloc, p.waiting, f->count * sizeof *p.waiting);
    }
    if (p.queue) {
        esp_big_free(alloc, p.queue, f->count * sizeof *p.queue);
    }
    return status;
}

/* --- adding by id --------------------------------------------------------------------------- */

static enum esp_status find_ends(const struct esp_forest_ids *ids, const struct esp_link_row *row,
                                 struct esp_link *link, struct esp_error *err) {
    link->child = esp_forest_find(ids, row->child);
    link->parent = esp_forest_find(ids, row->parent);
    if (link->child != ESP_NODE_NONE && link->parent != ESP_NODE_NONE) {
        return ESP_OK;
    }
    struct esp_str missing = link->child == ESP_NODE_NONE ? row->child : row->parent;
    return esp_fail(
        err, ESP_ERR_ORPHAN, "the edge from '%.*s' to '%.*s': there is no node '%.*s' in the input",
        ESP_FMT(shown(row->child)), ESP_FMT(shown(row->parent)), ESP_FMT(shown(missing)));
}

static bool copy_text(struct esp_arena *arena, struct esp_str from, struct esp_str *to) {
    *to = (struct esp_str){NULL, 0};
    if (from.len) {
        *to = esp_arena_dup(arena, from);
    }
    return from.len == 0 || to->ptr;
}

static enum esp_status make_link(struct esp_forest *f, const struct esp_forest_ids *ids,
                                 const struct esp_link_row *row, struct esp_link *link,
                                 struct esp_error *err) {
    struct esp_arena *arena = &f->owner->links;
    struct esp_str data;
    enum esp_status status = find_ends(ids, row, link, err);
    link->line = row->line < UINT32_MAX ? (uint32_t)row->line : UINT32_MAX;
    if (status != ESP_OK) {
        say_place(link, err);
        return status;
    }
    if (!copy_text(arena, row->type, &link->type) ||
        !copy_text(arena, row->weight, &link->weight) ||
        !copy_text(arena, (struct esp_str){row->data.text, row->data.len}, &data)) {
        return esp_fail_nomem(err);
    }
    link->data = (struct esp_data){data.ptr, row->data.len, row->data.size};
    return ESP_OK;
}

enum esp_status esp_forest_add_links(struct esp_forest *f, const struct esp_link_row *rows,
                                     size_t count, const char *source, struct esp_error *err) {
    struct esp_forest_ids *ids = NULL;
    if (count > UINT32_MAX - 1 - f->link_count) {
        return esp_fail(err, ESP_ERR_LIMIT, "more than %u edges", UINT32_MAX - 1);
    }
    uint32_t total = f->link_count + (uint32_t)count;
    struct esp_str file = {NULL, 0};
    struct esp_link *link = esp_arena_calloc(&f->owner->links, (size_t)total + 1, sizeof *link);
    if (!link || (source && !copy_text(&f->owner->links, esp_str_from(source), &file))) {
        return esp_fail_nomem(err);
    }
    enum esp_status status = esp_forest_ids_new(f, f->owner->alloc, &ids, err);
    if (f->link_count) {
        memcpy(link, f->link, f->link_count * sizeof *link);
    }
    for (uint32_t i = f->link_count; status == ESP_OK && i < total; i++) {
        link[i].number = i;
        link[i].source = file.ptr;
        status = make_link(f, ids, &rows[i - f->link_count], &link[i], err);
    }
    esp_forest_ids_free(ids);
    return status == ESP_OK ? forest_set_links(f, link, total, err) : status;
}
