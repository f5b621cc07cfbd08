/* Documents against the program: docs/cli.md and docs/espalier.1 are what it prints, and every
 * option that a command's table has is in its help once. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

static const char *program;

static char *output_of(const char *arguments) {
    char command[4096], *out;
    snprintf(command, sizeof command, "'%s' %s", program, arguments);
    assert_int_equal(esp_test_run(command, &out), 0);
    return out;
}

static void compare(const char *arguments, const char *path) {
    char *printed = output_of(arguments);
    if (getenv("ESP_CLI_REWRITE")) {
        esp_test_write_file(path, printed, strlen(printed));
    }
    char *kept = esp_test_read_file(path, NULL);
    bool same = strcmp(printed, kept) == 0;
    free(printed);
    free(kept);
    if (!same) {
        fail_msg("%s is not what espalier %s prints: run the test with ESP_CLI_REWRITE=1", path,
                 arguments);
    }
}

static void the_reference_is_what_the_program_prints(void **state) {
    (void)state;
    compare("list commands --markdown", "docs/cli.md");
}

static void the_manual_page_is_what_the_program_prints(void **state) {
    (void)state;
    compare("list commands --man", "docs/espalier.1");
}

/* The options of one help text: each name once, each with a line of help. */
static void check_help(const char *name) {
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s --help", name);
    char *help = output_of(arguments);
    assert_non_null(strstr(help, "usage: espalier "));
    assert_non_null(strstr(help, "example:\n  "));
    assert_non_null(strstr(help, "  --help "));
    for (char *at = help; (at = strstr(at, "\n  --"));) {
        char option[64];
        assert_int_equal(sscanf(at, " --%48[a-z-]", option), 1);
        char first[80], row[512];
        snprintf(first, sizeof first, "\n  --%s", option);
        at += 1;
        for (char *again = at; (again = strstr(again, first)); again++) {
            char next = again[strlen(first)];
            if (next == ' ' || next == '[' || next == '\n') {
                fail_msg("espalier %s has --%s twice", name, option);
            }
        }
        snprintf(row, sizeof row, "%.*s", (int)strcspn(at, "\n"), at);
        assert_true(strlen(row) > strlen(option) + 12); /* there is a help text */
    }
    free(help);
}

static void every_command_has_help(void **state) {
    (void)state;
    char *list = output_of("list commands"), *rest = list;
    size_t count = 0;
    for (char *line; (line = strsep(&rest, "\n")) && line[0];) {
        line[strcspn(line, " ")] = 0;
        check_help(line);
        count++;
    }
    assert_true(count >= 11);
    free(list);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reference_is_what_the_program_prints),
        cmocka_unit_test(the_manual_page_is_what_the_program_prints),
        cmocka_unit_test(every_command_has_help),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: reference_test ESPALIER\n");
        return 2;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
