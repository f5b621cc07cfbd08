#include "tests/conformance/by_plan.h"

#include "converters/access.h"
#include "converters/write_plan.h"

#include <stdlib.h>

static const struct esp_schema *sort_schema;

static int by_key(const void *a, const void *b) {
    const struct esp_item *x = &(*(const struct esp_planned *const *)a)->write.item;
    const struct esp_item *y = &(*(const struct esp_planned *const *)b)->write.item;
    int order = esp_value_cmp(&x->value[sort_schema->pk], &y->value[sort_schema->pk]);
    return order || sort_schema->sk < 0
               ? order
               : esp_value_cmp(&x->value[sort_schema->sk], &y->value[sort_schema->sk]);
}

static void no_key_twice(const struct suite_table *t, const struct esp_write_plan *plan,
                         enum esp_op op) {
    const struct esp_planned **sorted = calloc((size_t)plan->count + 1, sizeof(void *));
    assert_non_null(sorted);
    for (uint32_t i = 0; i < plan->count; i++) {
        sorted[i] = &plan->write[i];
    }
    sort_schema = &t->layout->schema;
    qsort(sorted, plan->count, sizeof *sorted, by_key);
    for (uint32_t i = 1; i < plan->count; i++) {
        if (by_key(&sorted[i - 1], &sorted[i]) == 0) {
            struct esp_str pk = esp_item_text(&sorted[i]->write.item, sort_schema->pk);
            fail_msg("%s: the plan of %s writes '%.*s' in stage %u and in stage %u",
                     t->layout->ops->name, esp_op_info[op].name, ESP_FMT(pk), sorted[i - 1]->stage,
                     sorted[i]->stage);
        }
    }
    free(sorted);
}

struct basis {
    const struct esp_schema *schema;
    const struct esp_item *item;
    bool found;
};

/* Structural attributes only: the payload may change meanwhile. */
static enum esp_status compare_basis(void *ctx, const struct esp_item *item) {
    struct basis *basis = ctx;
    struct esp_item x = *basis->item, y = *item;
    x.data = y.data = (struct esp_data){NULL, 0, 0};
    basis->found = esp_item_equal(basis->schema, &x, &y);
    return ESP_OK;
}

static void basis_is_there(struct suite_table *t, const struct esp_write_plan *plan,
                           enum esp_op op) {
    for (uint32_t i = 0; i < plan->basis_count; i++) {
        struct basis basis = {&t->layout->schema, &plan->basis[i], false};
        struct esp_item key = plan->basis[i];
        assert_ok(esp_session_get(t->session, &key, 1, t->access.consistent, compare_basis, &basis,
                                  &t->err),
                  &t->err);
        if (!basis.found) {
            struct esp_str pk = esp_item_text(&key, t->layout->schema.pk);
            fail_msg("%s: the plan of %s relies on '%.*s', which is not in the table like that",
                     t->layout->ops->name, esp_op_info[op].name, ESP_FMT(pk));
        }
    }
}

/* Stage by stage; a stage is either one transaction or free in its order: it goes backwards. */
static enum esp_status carry_out(struct suite_table *t, const struct esp_write_plan *plan) {
    struct esp_write *w = calloc((size_t)plan->count + 1, sizeof *w);
    enum esp_status status = ESP_OK;
    assert_non_null(w);
    for (uint32_t first = 0, n; status == ESP_OK && first < plan->count; first += n) {
        const struct esp_planned *stage = &plan->write[first];
        for (n = 0; first + n < plan->count && stage[n].stage == stage->stage; n++) {
            assert_true(stage[n].together == stage->together);
        }
        assert_true(first + n == plan->count || stage[n].stage > stage->stage);
        for (uint32_t i = 0; i < n; i++) {
            w[i] = stage[n - 1 - i].write;
        }
        status = stage->together ? esp_session_transact(t->session, w, n, &t->err)
                                 : esp_session_write(t->session, w, n, NULL, &t->err);
    }
    free(w);
    return status;
}

static enum esp_status ignore_node(void *ctx, const struct esp_node_view *node) {
    (void)ctx, (void)node;
    return ESP_OK;
}

enum esp_status by_plan(struct suite_table *t, enum esp_op op, const struct esp_args *args) {
    struct esp_arena arena;
    struct esp_write_plan plan;
    uint64_t written = t->session->usage.items_written;
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    esp_write_plan_init(&plan, &t->layout->schema, &arena);
    t->access.plan = &plan;
    enum esp_status status = esp_operate(&t->access, op, args, ignore_node, NULL);
    t->access.plan = NULL;
    if (t->session->usage.items_written != written) {
        fail_msg("%s: %s wrote although it was to be recorded", t->layout->ops->name,
                 esp_op_info[op].name);
    }
    esp_arena_fini(&t->scratch); /* the plan must not need it */
    esp_arena_init(&t->scratch, &esp_alloc_libc, SIZE_MAX);
    if (status == ESP_OK) {
        basis_is_there(t, &plan, op);
        status = carry_out(t, &plan);
    }
    if (status == ESP_OK) { /* one that is refused may have planned to renumber what refuses it */
        no_key_twice(t, &plan, op);
    }
    esp_arena_fini(&arena);
    return status;
}
