#include "converters/check.h"

void esp_check_init(struct esp_check *check, struct esp_access *a, size_t record_size,
                    esp_finding_fn *fn, void *ctx) {
    *check = (struct esp_check){
        .access = a, .record_size = record_size, .fn = fn, .ctx = ctx, .record = NULL};
    esp_arena_init(&check->arena, a->session->table->store->alloc, SIZE_MAX);
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

static enum esp_status pass_node(void *ctx, const struct esp_item *item) {
    struct nodes_only *only = ctx;
    return esp_item_reserved(&only->check->access->layout->schema, item)
               ? ESP_OK
               : only->fn(only->check, item);
}

enum esp_status esp_check_scan(struct esp_check *check, esp_item_fn *fn) {
    struct esp_access *a = check->access;
    struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = a->consistent};
    struct nodes_only only = {check, fn};
    return esp_session_scan(a->session, &scan, pass_node, &only, a->err);
}

enum esp_status esp_check_report(struct esp_check *check, const char *name, uint32_t id,
                                 uint32_t other, const char *text) {
    struct esp_finding finding = {.name = name, .id = check->ids.id[id], .text = text};
    if (other != ESP_IDMAP_NONE) {
        finding.other = check->ids.id[other];
    }
    return check->fn(check->ctx, &finding);
}
