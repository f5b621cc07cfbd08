#include "tests/support/support.h"

#include "bench/figure.h"

static void nothing_gives_zeros(void **state) {
    (void)state;
    struct esp_figure f = esp_figure_of(NULL, 0);
    assert_true(f.mean == 0 && f.p50 == 0 && f.p90 == 0 && f.p99 == 0 && f.max == 0);
}

static void one_sample_is_every_percentile(void **state) {
    (void)state;
    double values[] = {2.5};
    struct esp_figure f = esp_figure_of(values, 1);
    assert_true(f.mean == 2.5 && f.p50 == 2.5 && f.p90 == 2.5 && f.p99 == 2.5 && f.max == 2.5);
}

/* 1 to 100 in another order: the n-th percentile is n by nearest rank. */
static void percentiles_are_nearest_ranks(void **state) {
    (void)state;
    double values[100];
    for (int i = 0; i < 100; i++) {
        values[i] = (i * 37) % 100 + 1;
    }
    struct esp_figure f = esp_figure_of(values, 100);
    assert_true(f.mean == 50.5);
    assert_true(f.p50 == 50);
    assert_true(f.p90 == 90);
    assert_true(f.p99 == 99);
    assert_true(f.max == 100);
}

/* Never below the share asked for: of 3 samples 2 are needed for a half. */
static void percentiles_round_up(void **state) {
    (void)state;
    double values[] = {30, 10, 20};
    struct esp_figure f = esp_figure_of(values, 3);
    assert_true(f.p50 == 20);
    assert_true(f.p90 == 30);
    assert_true(f.p99 == 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_gives_zeros),
        cmocka_unit_test(one_sample_is_every_percentile),
        cmocka_unit_test(percentiles_are_nearest_ranks),
        cmocka_unit_test(percentiles_round_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
