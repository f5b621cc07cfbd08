/*
 * The arithmetic of a plan, worked out by hand for a made-up layout with one index:
 * 100 operations a second, 75 % children (2 read units on the index), 25 % update
 * (1 read unit on the table, 1 write unit there and 2 on the index).
 */
#include "tests/support/support.h"

#include "bench/plan.h"
#include <math.h>

#define assert_near(actual, expected)                                                              \
    do {                                                                                           \
        double a_ = (actual), e_ = (expected);                                                     \
        if (!(fabs(a_ - e_) <= 1e-9 * (1 + fabs(e_)))) {                                           \
            fail_msg("%s is %.12g, not %.12g", #actual, a_, e_);                                   \
        }                                                                                          \
    } while (0)

static const double gb = 1024.0 * 1024 * 1024;
static const struct esp_layout_ops ops = {.name = "made-up"};

struct fixture {
    struct esp_layout layout;
    struct esp_layout_result result;
    struct esp_comparison comparison;
    struct esp_workload workload;
};

static void set_up(struct fixture *f) {
    struct esp_error err = ESP_ERROR_INIT;
    memset(f, 0, sizeof *f);
    f->layout = (struct esp_layout){.ops = &ops};
    f->layout.schema.index_count = 1;
    f->layout.schema.index[0].name = ESP_STR("gsi1");
    f->result.layout = &f->layout;
    f->comparison.options.layouts = &f->layout;
    f->comparison.options.layout_count = 1;
    f->comparison.layout = &f->result;
    assert_ok(esp_prices_load(NULL, NULL, &esp_alloc_libc, &f->comparison.prices, &err), &err);

    f->result.op[ESP_OP_CHILDREN].samples = 200;
    f->result.op[ESP_OP_CHILDREN].read_mean.index[0] = 2;
    f->result.op[ESP_OP_UPDATE].samples = 200;
    f->result.op[ESP_OP_UPDATE].read_mean.table = 1;
    f->result.op[ESP_OP_UPDATE].write_mean.table = 1;
    f->result.op[ESP_OP_UPDATE].write_mean.index[0] = 2;

    /* A million items of 900 bytes; one root holds half of the index. */
    f->result.survey.part[0] =
        (struct esp_survey_part){.entries = 1000000, .bytes = 900000000, .write_units = 1000000};
    f->result.survey.part[0].hot = (struct esp_hot_key){.units = 1, .items = 1, .bytes = 900};
    f->result.survey.part[1] =
        (struct esp_survey_part){.entries = 1000000, .bytes = 900000000, .write_units = 1000000};
    f->result.survey.part[1].hot =
        (struct esp_hot_key){.units = 500000, .items = 500000, .bytes = 450000000};
    f->result.survey.json_bytes = (uint64_t)(2 * gb);
    f->result.storage_bytes = esp_survey_storage_bytes(&f->result.survey);
    f->result.import_usd = esp_price_import(&f->comparison.prices, 2 * gb);

    f->workload.rate_per_second = 100;
    f->workload.share[ESP_OP_CHILDREN] = 0.75;
    f->workload.share[ESP_OP_UPDATE] = 0.25;
}

static void make(const struct fixture *f, const struct esp_plan_options *options,
                 struct esp_plan_result *plan) {
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_plan_make(&f->comparison, &f->workload, options, &esp_alloc_libc, plan, &err),
              &err);
}

static void units_and_money_of_a_month(void **state) {
    (void)state;
    struct fixture f;
    struct esp_plan_result plan;
    set_up(&f);
    make(&f, &(struct esp_plan_options){.headroom_percent = 30}, &plan);
    const struct esp_plan_layout *l = &plan.layout[0];
    assert_int_equal(l->part_count, 2);
    assert_near(l->part[0].read_units_second, 25);
    assert_near(l->part[0].write_units_second, 25);
    assert_near(l->part[1].read_units_second, 150);
    assert_near(l->part[1].write_units_second, 50);
    /* 2,628,000 seconds: 175 and 75 units each */
    assert_near(l->read_units_month, 459900000);
    assert_near(l->write_units_month, 197100000);
    assert_near(l->usd_on_demand, 459.9 * 0.125 + 197.1 * 0.625);
    /* 25 + 30 % = 32.5 -> 33, 150 -> 195, 50 -> 65 */
    assert_near(l->part[0].read_provisioned, 33);
    assert_near(l->part[1].read_provisioned, 195);
    assert_near(l->part[1].write_provisioned, 65);
    assert_near(l->usd_provisioned, (33 + 195) * 0.0949 + (33 + 65) * 0.4745);
    esp_plan_fini(&plan, &esp_alloc_libc);
}

static void storage_and_load(void **state) {
    (void)state;
    struct fixture f;
    struct esp_plan_result plan;
    set_up(&f);
    make(&f, &(struct esp_plan_options){.headroom_percent = 30}, &plan);
    const struct esp_plan_layout *l = &plan.layout[0];
    assert_near(l->storage_gb, 2e6 * 1000 / gb);
    assert_near(l->usd_storage, 2e9 / gb * 0.25);
    assert_near(l->load_write_units, 2000000);
    assert_near(l->usd_load_batch, 1.25);
    assert_near(l->usd_load_import, 0.30);
    /* 1,000,000 / 4,000 = 250 s for a new table; half of the index on one key: 500 s */
    assert_near(l->part[1].load_seconds_hot, 500);
    assert_near(l->load_seconds_new, 500);
    esp_plan_fini(&plan, &esp_alloc_libc);

    make(&f, &(struct esp_plan_options){.free_tier = true}, &plan);
    assert_near(plan.layout[0].usd_storage, 0); /* below 25 GB */
    assert_near(plan.layout[0].part[0].read_provisioned, 25);
    esp_plan_fini(&plan, &esp_alloc_libc);
}

static void hot_keys_at_the_rate(void **state) {
    (void)state;
    struct fixture f;
    struct esp_plan_result plan;
    set_up(&f);
    make(&f, &(struct esp_plan_options){0}, &plan);
    const struct esp_plan_part *index = &plan.layout[0].part[1];
    assert_near(index->hot_write_share, 0.5);
    assert_near(index->hot_read_share, 0.5);
    assert_near(index->hot_write_second, 25);
    assert_near(index->hot_read_second, 75);
    assert_false(plan.layout[0].too_hot);
    esp_plan_fini(&plan, &esp_alloc_libc);

    f.workload.rate_per_second = 4000; /* 2,000 writes a second, half of them on one key */
    make(&f, &(struct esp_plan_options){0}, &plan);
    assert_near(plan.layout[0].part[1].hot_write_second, 1000);
    assert_false(plan.layout[0].part[1].hot_read_second > ESP_PARTITION_READ_MAX);
    assert_false(plan.layout[0].too_hot);
    esp_plan_fini(&plan, &esp_alloc_libc);

    f.workload.rate_per_second = 4010;
    make(&f, &(struct esp_plan_options){0}, &plan);
    assert_true(plan.layout[0].too_hot);
    esp_plan_fini(&plan, &esp_alloc_libc);
}

static void an_idle_table_still_has_a_unit(void **state) {
    (void)state;
    struct fixture f;
    struct esp_plan_result plan;
    set_up(&f);
    f.workload.share[ESP_OP_CHILDREN] = 1;
    f.workload.share[ESP_OP_UPDATE] = 0;
    make(&f, &(struct esp_plan_options){.headroom_percent = 30}, &plan);
    assert_near(plan.layout[0].part[0].write_units_second, 0);
    assert_near(plan.layout[0].part[0].write_provisioned, 1);
    esp_plan_fini(&plan, &esp_alloc_libc);
}

static void an_operation_without_figures_is_named(void **state) {
    (void)state;
    struct fixture f;
    struct esp_plan_result plan;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_plan_options options = {0};
    set_up(&f);
    f.workload.share[ESP_OP_MOVE] = 0.1;
    assert_status(ESP_ERR_USAGE, esp_plan_make(&f.comparison, &f.workload, &options,
                                               &esp_alloc_libc, &plan, &err));
    assert_non_null(strstr(err.message, "move"));
    esp_plan_fini(&plan, &esp_alloc_libc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_and_money_of_a_month),
        cmocka_unit_test(storage_and_load),
        cmocka_unit_test(hot_keys_at_the_rate),
        cmocka_unit_test(an_idle_table_still_has_a_unit),
        cmocka_unit_test(an_operation_without_figures_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
