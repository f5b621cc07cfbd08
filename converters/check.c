#include "converters/check.h"

#include <stdio.h>

/* Requests that a check has in flight where they wait for a network. */
enum { SEGMENTS = 8 };

void esp_check_init(struct esp_check *check, struct esp_access *a, size_t record_size,
                    esp_finding_fn *fn, void *ctx) {
    *check = (struct esp_check){
        .access = a, .record_size = record_size, .fn = fn, .ctx = ctx, .record = NULL};
    const struct esp_session *session = a->session;
    esp_arena_init(&check->arena, session->memory ? session->memory : session->table->store->alloc,
                   SIZE_MAX);
    esp_idmap_init(&check->ids, &check->arena);
}

void esp_check_fini(struct esp_check *check) {
    esp_arena_fini(&check->arena);
}

enum esp_status esp_check_number(struct esp_check *check, struct esp_str id, uint32_t *out) {
    enum esp_status status = esp_idmap_intern(&check->ids, id, out);
    if (status != ESP_OK) {
        return esp_fail_nomem(check->access->err);
    }
    char *record = esp_arena_grow(&check->arena, check->record, &check->record_cap,
                                  check->ids.count, check->record_size);
    if (!record) {
        return esp_fail_nomem(check->access->err);
    }
    check->record = record;
    return ESP_OK;
}

/* What is scanned, but for items that are no nodes. */
struct nodes_only {
    struct esp_check *check;
    esp_item_fn *fn;
};

/* An attribute of another type than the layout's: operations take it for absent. */
static enum esp_status report_type(struct esp_check *check, const struct esp_item *item, int attr) {
    const struct esp_layout *l = check->access->layout;
    const struct esp_schema *schema = &l->schema;
    struct esp_node_view node;
    struct esp_id_room room;
    char text[512];
    struct esp_finding finding = {.name = "wrong-type", .text = text};
    if (esp_layout_view(l, item, &room, &node)) {
        finding.id = node.id;
    } else { /* an item that is not the node's own */
        finding.id = esp_item_text(item, schema->pk);
        finding.other = schema->sk >= 0 ? esp_item_text(item, schema->sk) : finding.other;
    }
    snprintf(text, sizeof text, "the attribute %.*s is %s, must be %s; it is taken for absent",
             ESP_FMT(schema->attr[attr].name), esp_type_name(item->value[attr].type),
             esp_type_name(schema->attr[attr].type));
    return check->fn(check->ctx, &finding);
}

static enum esp_status pass_node(void *ctx, const struct esp_item *item) {
    struct nodes_only *only = ctx;
    const struct esp_schema *schema = &only->check->access->layout->schema;
    enum esp_status status = ESP_OK;
    if (esp_item_reserved(schema, item)) {
        return ESP_OK;
    }
    for (size_t i = 0; status == ESP_OK && i < schema->attr_count; i++) {
        enum esp_type type = item->value[i].type, wanted = schema->attr[i].type;
        if (__builtin_expect(type != wanted, 0) && type != ESP_TYPE_NONE &&
            wanted != ESP_TYPE_NONE) {
            status = report_type(only->check, item, (int)i);
        }
    }
    return status == ESP_OK ? only->fn(only->check, item) : status;
}

enum esp_status esp_check_scan(struct esp_check *check, esp_item_fn *fn) {
    struct esp_access *a = check->access;
    struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = a->consistent};
    struct nodes_only only = {check, fn};
    bool remote = a->session->table->store->ops->flags & ESP_STORE_REMOTE;
    return esp_session_scan_many(a->session, &scan, remote ? SEGMENTS : 1, pass_node, &only,
                                 a->err);
}

enum esp_status esp_check_report(struct esp_check *check, const char *name, uint32_t id,
                                 uint32_t other, const char *text) {
    struct esp_finding finding = {.name = name, .id = check->ids.id[id], .text = text};
    if (other != ESP_IDMAP_NONE) {
        finding.other = check->ids.id[other];
    }
    return check->fn(check->ctx, &finding);
}

/* --- the way up ------------------------------------------------------------------- */

enum { NEW, ON_THE_WAY, DONE, CYCLE /* on a cycle or below one */ };

static struct esp_check_way *way_of(const struct esp_check *check, uint32_t number) {
    return esp_check_record(check, number);
}

/* All ids of a cycle, as many as fit. */
static enum esp_status report_cycle(struct esp_check *check, uint32_t number) {
    char text[512] = "the parents of this node lead back to it:";
    size_t len = strlen(text);
    uint32_t at = number;
    do {
        struct esp_str id = check->ids.id[at];
        if (len + id.len + 8 > sizeof text) {
            memcpy(text + len, " ...", 5);
            break;
        }
        text[len++] = ' ';
        memcpy(text + len, id.ptr, id.len);
        len += id.len;
        text[len] = 0;
        at = way_of(check, at)->parent - 1;
    } while (at != number);
    return esp_check_report(check, "cycle", number, way_of(check, number)->parent - 1, text);
}

/* Up to the first node whose real depth is known, then down again on the same way.  `stack` has
 * room for every id. */
static enum esp_status follow(struct esp_check *check, uint32_t number, bool depths,
                              uint32_t *stack) {
    uint32_t n = 0, at = number;
    int64_t real = -1;
    bool cycle = false;
    enum esp_status status = ESP_OK;
    for (;;) {
        struct esp_check_way *way = way_of(check, at);
        if (way->state != NEW) {
            cycle = way->state != DONE;
            real = way->real;
            status = way->state == ON_THE_WAY ? report_cycle(check, at) : ESP_OK;
            break;
        }
        way->state = ON_THE_WAY;
        stack[n++] = at;
        if (!way->parent) {
            break;
        }
        at = way->parent - 1;
        if (!way_of(check, at)->present) {
            status = esp_check_report(check, "missing-parent", stack[n - 1], at,
                                      "the node that is named as its parent does not exist");
            real = way->depth - 1; /* what hangs below is judged by its own words */
            break;
        }
    }
    while (status == ESP_OK && n-- > 0) {
        struct esp_check_way *way = way_of(check, stack[n]);
        way->state = cycle ? CYCLE : DONE;
        way->real = ++real;
        if (depths && !cycle && way->depth != way->real) {
            status = esp_check_report(check, "wrong-depth", stack[n],
                                      way->parent ? way->parent - 1 : ESP_IDMAP_NONE,
                                      "depth is not the parent's depth + 1 (0 for a root)");
        }
    }
    return status;
}

enum esp_status esp_check_ways(struct esp_check *check, bool depths) {
    uint32_t *stack = esp_arena_calloc(&check->arena, (size_t)check->ids.count + 1, sizeof *stack);
    enum esp_status status = stack ? ESP_OK : esp_fail_nomem(check->access->err);
    for (uint32_t i = 0; status == ESP_OK && i < check->ids.count; i++) {
        status = way_of(check, i)->present ? follow(check, i, depths, stack) : ESP_OK;
    }
    return status;
}
