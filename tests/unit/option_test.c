/* Options from tables: every type, every way to be wrong. */
#include "core/option.h"
#include "tests/support/support.h"

struct values {
    bool force;
    const char *table, *progress;
    uint64_t workers;
    double rate;
    int billing;
    struct esp_strings set;
};
static const char *const billings[] = {"on-demand", "provisioned", NULL};
#define AT(field) offsetof(struct values, field)
static const struct esp_option options[] = {
    {.name = "force", .type = ESP_OPT_FLAG, .offset = AT(force), .help = "do it"},
    {.name = "table",
     .type = ESP_OPT_STRING,
     .offset = AT(table),
     .argument = "NAME",
     .fallback = "t1",
     .help = "the table"},
    {.name = "workers",
     .type = ESP_OPT_U64,
     .offset = AT(workers),
     .argument = "N",
     .help = "threads"},
    {.name = "size", .type = ESP_OPT_U64, .offset = AT(workers), .min = 1, .max = 2000},
    {.name = "rate",
     .type = ESP_OPT_DOUBLE,
     .offset = AT(rate),
     .argument = "X",
     .fallback = "2.5",
     .help = "rate"},
    {.name = "billing",
     .type = ESP_OPT_CHOICE,
     .offset = AT(billing),
     .argument = "MODE",
     .help = "billing",
     .choices = billings},
    {.name = "set", .type = ESP_OPT_LIST, .offset = AT(set), .argument = "K=V", .help = "settings"},
    {.name = "progress",
     .type = ESP_OPT_OPTFLAG,
     .offset = AT(progress),
     .argument = "FORMAT",
     .help = "progress"},
    {.name = NULL},
};
static const struct esp_option *const sets[] = {options, NULL};

static enum esp_status parse(struct values *v, int *operands, char **argv, struct esp_error *err) {
    int argc = 0;
    while (argv[argc]) {
        argc++;
    }
    assert_ok(esp_options_default(options, v, sizeof *v, err), err);
    return esp_options_parse(sets, v, argc, argv, operands, err);
}

static void options_and_operands_in_any_order(void **state) {
    (void)state;
    char *argv[] = {(char *)"a.csv",       (char *)"--force",    (char *)"--workers=4k",
                    (char *)"-",           (char *)"--table",    (char *)"x",
                    (char *)"--set",       (char *)"a=1",        (char *)"--set=b=2",
                    (char *)"--rate",      (char *)"1e3",        (char *)"--billing",
                    (char *)"provisioned", (char *)"--progress", (char *)"b",
                    (char *)"--",          (char *)"--c",        NULL};
    struct values v;
    struct esp_error err = ESP_ERROR_INIT;
    int operands;
    assert_ok(parse(&v, &operands, argv, &err), &err);
    assert_true(v.force);
    assert_string_equal(v.table, "x");
    assert_int_equal(v.workers, 4000);
    assert_true(v.rate == 1000);
    assert_int_equal(v.billing, 1);
    assert_int_equal(v.set.count, 2);
    assert_string_equal(v.set.value[1], "b=2");
    assert_string_equal(v.progress, "");
    assert_int_equal(operands, 4);
    assert_string_equal(argv[0], "a.csv");
    assert_string_equal(argv[1], "-");
    assert_string_equal(argv[2], "b");
    assert_string_equal(argv[3], "--c");
}

static void wrong_use_is_a_sentence(void **state) {
    (void)state;
    static const struct {
        const char *argv[3], *sentence;
    } rows[] = {
        {{"--workres", "4"}, "unknown option --workres: did you mean --workers?"},
        {{"--zzzzzzzz"}, "unknown option --zzzzzzzz"},
        {{"-x"}, "unknown option -x: options are spelled --name"},
        {{"--table"}, "--table needs a value: --table NAME"},
        {{"--force=1"}, "--force takes no value"},
        {{"--workers", "4x"}, "--workers takes a whole number (k, M, G allowed), not '4x'"},
        {{"--workers", "-1"}, "--workers takes a whole number (k, M, G allowed), not '-1'"},
        {{"--workers", "99999999999999999999"},
         "--workers takes at most 18446744073709551615, not '99999999999999999999'"},
        {{"--size", "0"}, "--size takes at least 1, not '0'"},
        {{"--size", "3k"}, "--size takes at most 2000, not '3k'"},
        {{"--rate", "nan"}, "--rate takes a number of 0 or more, not 'nan'"},
        {{"--billing", "free"}, "--billing takes one of on-demand, provisioned, not 'free'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *argv[] = {(char *)rows[i].argv[0], (char *)rows[i].argv[1], NULL};
        struct values v;
        struct esp_error err = ESP_ERROR_INIT;
        int operands;
        assert_status(ESP_ERR_USAGE, parse(&v, &operands, argv, &err));
        assert_string_equal(err.message, rows[i].sentence);
    }
}

static void one_option_by_name(void **state) {
    (void)state;
    struct values v;
    struct esp_error err = ESP_ERROR_INIT;
    assert_ok(esp_options_default(options, &v, sizeof v, &err), &err);
    assert_string_equal(v.table, "t1");
    assert_true(v.rate == 2.5);
    assert_ok(esp_option_set(options, &v, "workers", "7", &err), &err);
    assert_int_equal(v.workers, 7);
    assert_status(ESP_ERR_USAGE, esp_option_set(options, &v, "worker", "7", &err));
    esp_error_clear(&err);
    assert_status(ESP_ERR_USAGE, esp_option_set(options, &v, "workers", NULL, &err));
    assert_non_null(strstr(err.message, "--workers needs a value"));
}

static void help_has_a_row_an_option(void **state) {
    (void)state;
    struct esp_buf out;
    esp_buf_init(&out, &esp_alloc_libc, 1 << 16);
    esp_options_help(options, &out);
    const char *text = esp_buf_cstr(&out);
    assert_non_null(strstr(text, "  --force                      do it\n"));
    assert_non_null(strstr(text, "  --table NAME                 the table (t1)\n"));
    assert_non_null(
        strstr(text, "  --billing MODE               billing: on-demand, provisioned\n"));
    assert_non_null(strstr(text, "  --progress[=FORMAT]          progress\n"));
    esp_buf_fini(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_operands_in_any_order),
        cmocka_unit_test(wrong_use_is_a_sentence),
        cmocka_unit_test(one_option_by_name),
        cmocka_unit_test(help_has_a_row_an_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
