#include "converters/node_list.h"

#include "converters/idmap.h"

/* Text that is there stays there: an empty one keeps a pointer. */
static bool copy_text(struct esp_arena *arena, struct esp_str *text) {
    if (!text->ptr) {
        return true;
    }
    *text = esp_arena_dup(arena, *text);
    return text->ptr != NULL;
}

static bool copy_data(struct esp_arena *arena, struct esp_data *data) {
    struct esp_str text = {data->text, data->len};
    bool copied = copy_text(arena, &text);
    data->text = text.ptr;
    return copied;
}

static bool copy_edge(struct esp_arena *arena, const struct esp_edge_view **edge) {
    struct esp_edge_view *copy = *edge ? esp_arena_alloc(arena, sizeof *copy) : NULL;
    if (!copy) {
        return !*edge;
    }
    *copy = **edge;
    *edge = copy;
    return copy_text(arena, &copy->source) && copy_text(arena, &copy->target) &&
           copy_text(arena, &copy->type) && copy_text(arena, &copy->weight) &&
           copy_data(arena, &copy->data);
}

enum esp_status esp_answer_add(void *ctx, const struct esp_node_view *node) {
    struct esp_answer *answer = ctx;
    struct esp_node_view copy = *node, *grown = NULL;
    if (answer->count < UINT32_MAX) {
        grown = esp_arena_grow(answer->arena, answer->node, &answer->cap, answer->count + 1,
                               sizeof *grown);
    }
    if (!grown) {
        return ESP_ERR_NOMEM;
    }
    answer->node = grown;
    copy.data.len = answer->without_data ? 0 : copy.data.len;
    bool copied = copy_text(answer->arena, &copy.id) && copy_text(answer->arena, &copy.parent_id) &&
                  copy_text(answer->arena, &copy.edges) && copy_edge(answer->arena, &copy.edge) &&
                  copy_data(answer->arena, &copy.data);
    if (!copied) {
        return ESP_ERR_NOMEM;
    }
    grown[answer->count++] = copy;
    return ESP_OK;
}

enum esp_status esp_answer_read(struct esp_access *a, enum esp_op op, const struct esp_locator *at,
                                bool without_data, struct esp_answer *out) {
    struct esp_args args = {.at = *at};
    *out = (struct esp_answer){.arena = a->scratch, .without_data = without_data};
    return esp_operate(a, op, &args, esp_answer_add, out);
}
