#include "tests/unit/edit_cases.h"

#include "tests/support/drives.h"

const struct edit_case edit_cases[] = {
    {"insert a leaf", ESP_OP_INSERT, "", "c", "new"},
    {"insert into the moved subtree", ESP_OP_INSERT, "", "d", "new2"},
    {"insert a root", ESP_OP_INSERT, "", "", "new3"},
    {"update", ESP_OP_UPDATE, "V", "", ""},
    {"update below", ESP_OP_UPDATE, "d", "", ""},
    {"move across", ESP_OP_MOVE, "d", "c", ""},
    {"move to another tree", ESP_OP_MOVE, "V", "I", ""},
    {"move up", ESP_OP_MOVE, "d", "D", ""},
    {"move out", ESP_OP_MOVE, "V", "", ""},
    {"remove a subtree", ESP_OP_REMOVE, "V", "", ""},
    {"remove a leaf", ESP_OP_REMOVE, "ii", "", ""},
    {"promote", ESP_OP_PROMOTE, "V", "", ""},
    {"promote below", ESP_OP_PROMOTE, "d", "", ""},
    {"insert a subtree", ESP_OP_INSERT_SUBTREE, "", "c", ""},
    {"insert a tree", ESP_OP_INSERT_SUBTREE, "", "", ""},
    {"link", ESP_OP_LINK, "a", "c", ""},
};
const size_t edit_case_count = sizeof edit_cases / sizeof edit_cases[0];

static struct esp_forest *subtree;

struct esp_args edit_args(const struct edit_case *c) {
    static const char data[] = "\"name\":{\"S\":\"another\"},\"size\":{\"N\":\"5\"}";
    static const struct drives_row rows[] = {{"s", ""}, {"t", "s"}, {"u", "s"}, {"w", "t"}};
    struct esp_args args = {
        .at.id = esp_str_from(c->at), .to.id = esp_str_from(c->to), .id = esp_str_from(c->id)};
    if (c->op == ESP_OP_INSERT || c->op == ESP_OP_UPDATE) {
        args.data = (struct esp_data){data, sizeof data - 1, 17};
    }
    if (c->op == ESP_OP_INSERT_SUBTREE) {
        subtree = subtree ? subtree : forest_of_rows(rows, sizeof rows / sizeof rows[0]);
        args.subtree = subtree;
    }
    if (c->op == ESP_OP_LINK) {
        args.type = ESP_STR("LIKES");
        args.weight = ESP_STR("500-much");
    }
    return args;
}

void edit_cases_fini(void) {
    esp_forest_free(subtree);
    subtree = NULL;
}

struct esp_store *store_without_trials(const struct esp_clock *clock) {
    static struct esp_store_ops ops;
    struct esp_store *store;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_store_open("memory:", NULL, clock, &esp_alloc_libc, &store, &err), &err);
    ops = *store->ops;
    ops.trial_begin = NULL;
    ops.trial_end = NULL;
    store->ops = &ops;
    return store;
}

struct digest {
    const struct esp_schema *schema;
    uint64_t sum, items;
};

static enum esp_status add_digest(void *ctx, const struct esp_item *item) {
    struct digest *digest = ctx;
    digest->sum += esp_item_digest(digest->schema, item);
    digest->items++;
    return ESP_OK;
}

uint64_t table_digest(struct suite_table *t) {
    struct digest digest = {.schema = &t->layout->schema};
    struct esp_scan scan = {.index = ESP_PRIMARY, .consistent = true};
    assert_ok(esp_session_scan(t->session, &scan, add_digest, &digest, &t->err), &t->err);
    return digest.sum + digest.items;
}

static enum esp_status count_finding(void *ctx, const struct esp_finding *finding) {
    (void)finding;
    ++*(size_t *)ctx;
    return ESP_OK;
}

size_t count_findings(struct suite_table *t) {
    size_t findings = 0;
    esp_error_clear(&t->err);
    assert_ok(t->layout->ops->check(&t->access, count_finding, &findings), &t->err);
    return findings;
}

void second_session(struct suite_table *t, const struct suite_table *first) {
    *t = *first;
    t->err = (struct esp_error)ESP_ERROR_INIT;
    esp_arena_init(&t->scratch, &esp_alloc_libc, SIZE_MAX);
    assert_ok(esp_session_open(t->table, &t->session, &t->err), &t->err);
    t->access.session = t->session;
    t->access.scratch = &t->scratch;
    t->access.err = &t->err;
}

void second_session_close(struct suite_table *t) {
    esp_session_close(t->session);
    esp_arena_fini(&t->scratch);
}

enum esp_status plan_case(struct suite_table *t, const struct edit_case *c,
                          struct esp_images *images) {
    struct esp_args args = edit_args(c);
    struct esp_write_plan plan;
    esp_write_plan_init(&plan, &t->table->schema, &t->scratch);
    esp_images_init(images, &t->table->schema, &t->scratch);
    t->access.plan = &plan;
    enum esp_status status = esp_operate(&t->access, c->op, &args, NULL, NULL);
    t->access.plan = NULL;
    return status == ESP_OK ? esp_images_plan(images, &t->access, &plan) : status;
}
