#include "converters/write_plan.h"

#include "converters/idmap.h"

void esp_write_plan_init(struct esp_write_plan *plan, const struct esp_schema *schema,
                         struct esp_arena *arena) {
    *plan = (struct esp_write_plan){.schema = schema, .arena = arena};
}

static bool copy_text(struct esp_arena *arena, struct esp_str *text) {
    if (text->len) {
        *text = esp_arena_dup(arena, *text);
    }
    return text->len == 0 || text->ptr;
}

static bool copy_changes(struct esp_arena *arena, struct esp_write *write) {
    struct esp_change *copy = esp_arena_calloc(arena, write->change_count + 1, sizeof *copy);
    bool copied = copy != NULL;
    for (size_t i = 0; copied && i < write->change_count; i++) {
        copy[i] = write->changes[i];
        copied = copy_text(arena, &copy[i].name) && copy_text(arena, &copy[i].value.s);
    }
    write->changes = copy;
    return copied;
}

static bool copy_conditions(struct esp_arena *arena, struct esp_write *write) {
    struct esp_condition *copy = esp_arena_calloc(arena, write->condition_count + 1, sizeof *copy);
    bool copied = copy != NULL;
    for (size_t i = 0; copied && i < write->condition_count; i++) {
        copy[i] = write->condition[i];
        copied = copy_text(arena, &copy[i].name) && copy_text(arena, &copy[i].lo.s) &&
                 copy_text(arena, &copy[i].hi.s);
    }
    write->condition = copy;
    return copied;
}

static bool copy_old(struct esp_write_plan *plan, struct esp_write *write) {
    struct esp_item *copy = esp_arena_alloc(plan->arena, sizeof *copy);
    if (!copy || esp_item_dup(plan->schema, plan->arena, write->old, copy) != ESP_OK) {
        return false;
    }
    write->old = copy;
    return true;
}

static bool copy_write(struct esp_write_plan *plan, struct esp_write *write) {
    struct esp_item item = write->item;
    return esp_item_dup(plan->schema, plan->arena, &item, &write->item) == ESP_OK &&
           copy_changes(plan->arena, write) && copy_conditions(plan->arena, write) &&
           (!write->old || copy_old(plan, write));
}

enum esp_status esp_write_plan_add(struct esp_write_plan *plan, const struct esp_write *writes,
                                   size_t n, bool together) {
    for (size_t i = 0; i < n; i++) {
        struct esp_planned *grown = plan->count < UINT32_MAX
                                        ? esp_arena_grow(plan->arena, plan->write, &plan->cap,
                                                         plan->count + 1, sizeof *grown)
                                        : NULL;
        if (!grown) {
            return ESP_ERR_NOMEM;
        }
        plan->write = grown;
        grown[plan->count] =
            (struct esp_planned){.write = writes[i], .stage = plan->stage, .together = together};
        if (!copy_write(plan, &grown[plan->count].write)) {
            return ESP_ERR_NOMEM;
        }
        plan->count++;
    }
    plan->stage += n > 0;
    return ESP_OK;
}

enum esp_status esp_write_plan_rely(struct esp_write_plan *plan, const struct esp_item *item) {
    struct esp_item *grown = esp_arena_grow(plan->arena, plan->basis, &plan->basis_cap,
                                            plan->basis_count + 1, sizeof *grown);
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    plan->basis = grown;
    enum esp_status status =
        esp_item_dup(plan->schema, plan->arena, item, &grown[plan->basis_count]);
    plan->basis_count += status == ESP_OK;
    return status;
}
