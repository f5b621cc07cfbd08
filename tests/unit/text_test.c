#include "tests/support/support.h"

#include "bench/report.h"
#include "bench/text.h"
#include <stdlib.h>

static void numbers_for_people(void **state) {
    (void)state;
    char t[ESP_TEXT_MAX];
    assert_string_equal(esp_text_count(t, 0), "0");
    assert_string_equal(esp_text_count(t, 999), "999");
    assert_string_equal(esp_text_count(t, 27813), "27,813");
    assert_string_equal(esp_text_count(t, UINT64_MAX), "18,446,744,073,709,551,615");
    assert_string_equal(esp_text_figure(t, 0), "0");
    assert_string_equal(esp_text_figure(t, 0.004), "<0.01");
    assert_string_equal(esp_text_figure(t, 0.5), "0.5");
    assert_string_equal(esp_text_figure(t, 1), "1");
    assert_string_equal(esp_text_figure(t, 1.234), "1.23");
    assert_string_equal(esp_text_figure(t, 12.34), "12.3");
    assert_string_equal(esp_text_figure(t, 99.96), "100");
    assert_string_equal(esp_text_figure(t, 1234.6), "1,235");
    assert_string_equal(esp_text_bytes(t, 1023), "1,023 B");
    assert_string_equal(esp_text_bytes(t, 1536), "1.5 KB");
    assert_string_equal(esp_text_bytes(t, 3.0 * 1024 * 1024 * 1024), "3 GB");
    assert_string_equal(esp_text_usd(t, 0), "$0.00");
    assert_string_equal(esp_text_usd(t, 0.0066656), "$0.0067");
    assert_string_equal(esp_text_usd(t, 0.1), "$0.10");
    assert_string_equal(esp_text_usd(t, 12.4), "$12.40");
    assert_string_equal(esp_text_usd(t, 54321), "$54,321");
    assert_string_equal(esp_text_seconds(t, 0.5), "0.5 s");
    assert_string_equal(esp_text_seconds(t, 300), "5 min");
    assert_string_equal(esp_text_seconds(t, 7200), "2 h");
    assert_string_equal(esp_text_percent(t, 0.073), "7.3 %");
    assert_string_equal(esp_text_percent(t, 1), "100 %");
}

static void fill(struct esp_grid *grid) {
    esp_grid_init(grid, &esp_alloc_libc, 3, 1);
    esp_grid_add(grid, false, "%s", "");
    esp_grid_add(grid, false, "path");
    esp_grid_add(grid, false, "replica");
    esp_grid_add(grid, false,
                 "n\xC3\xB6"
                 "de");
    esp_grid_add(grid, true, "0.5");
    esp_grid_add(grid, false, "%d|%d", 12, 3);
}

static void a_grid_is_aligned_and_marked(void **state) {
    (void)state;
    struct esp_grid grid;
    struct esp_buf out;
    fill(&grid);
    esp_buf_init(&out, &esp_alloc_libc, 4096);
    esp_grid_put_text(&grid, &out);
    assert_string_equal(esp_buf_cstr(&out), "        path   replica\n"
                                            "  n\xC3\xB6"
                                            "de   0.5*     12|3\n");
    esp_buf_fini(&out);
    esp_grid_fini(&grid);
}

static void a_grid_becomes_markdown(void **state) {
    (void)state;
    struct esp_grid grid;
    struct esp_buf out;
    fill(&grid);
    esp_buf_init(&out, &esp_alloc_libc, 4096);
    esp_grid_put_markdown(&grid, &out);
    assert_string_equal(esp_buf_cstr(&out), "|  | path | replica |\n|---|---:|---:|\n"
                                            "| n\xC3\xB6"
                                            "de | **0.5** | 12\\|3 |\n");
    esp_buf_fini(&out);
    esp_grid_fini(&grid);
}

static void reporters_are_found_by_name_and_extension(void **state) {
    (void)state;
    assert_string_equal(esp_reporter_find("markdown")->name, "markdown");
    assert_string_equal(esp_reporter_find("md")->name, "markdown");
    assert_string_equal(esp_reporter_find("out/report.md")->name, "markdown");
    assert_string_equal(esp_reporter_find("report.json")->name, "json");
    assert_string_equal(esp_reporter_find("table")->name, "table");
    assert_null(esp_reporter_find("report.html"));
    assert_null(esp_reporter_find("report"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_for_people),
        cmocka_unit_test(a_grid_is_aligned_and_marked),
        cmocka_unit_test(a_grid_becomes_markdown),
        cmocka_unit_test(reporters_are_found_by_name_and_extension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
