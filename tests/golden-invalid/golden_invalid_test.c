/*
 * Input that must be refused: every line of cases.txt names a file, options and what must
 * be said about it.  All cases run; the failures are listed together.
 */
#include <stdio.h>
#include <stdlib.h>

#include "importers/importer.h"
#include "tests/support/support.h"

#define FOLDER "tests/golden-invalid/"

/* "--id X --column Y" onto options; `text` is cut into words and must outlive them. */
static void set_options(struct esp_source_options *options, char *text) {
    struct esp_error err = ESP_ERROR_INIT;
    char *rest = NULL;
    for (char *name = strtok_r(text, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        const char *value = strtok_r(NULL, " ", &rest);
        assert_ok(esp_option_set(esp_source_option_table, options, name + 2, value, &err), &err);
    }
}

/* Cut `line` at the next " | ". */
static char *next_part(char **line) {
    char *part = *line, *bar = strstr(part, "|");
    assert_non_null(bar);
    *line = bar + 2;
    for (*bar = 0; bar > part && bar[-1] == ' ';) {
        *--bar = 0;
    }
    return part + strspn(part, " ");
}

/* One case; appends to `out` when it is not as expected. */
static void run_case(char *line, struct esp_buf *out) {
    struct esp_error err = ESP_ERROR_INIT, ignored = ESP_ERROR_INIT;
    struct esp_source_options options;
    struct esp_forest *forest = NULL;
    const char *file = next_part(&line);
    char path[512];
    snprintf(path, sizeof path, FOLDER "cases/%s", file);
    assert_ok(esp_options_default(esp_source_option_table, &options, sizeof options, &ignored),
              &ignored);
    set_options(&options, next_part(&line));

    const char *const paths[] = {path};
    enum esp_status status =
        esp_import_files(paths, 1, &options, &esp_alloc_libc, &forest, NULL, NULL, &err);
    char got[1200];
    snprintf(got, sizeof got, "%s %llu %llu %s", esp_status_name(status),
             (unsigned long long)err.line, (unsigned long long)err.column, err.message);
    /* Code, line and column exactly, then a part of the sentence. */
    int head = 0;
    sscanf(line, "%*s %*u %*u%n", &head);
    assert_true(head > 0);
    const char *fragment = line + head + (line[head] == ' ');
    if (strncmp(got, line, (size_t)head) != 0 || got[head] != ' ' || !strstr(got, fragment)) {
        esp_buf_printf(out, "%s\n  must be: %s\n  but was: %s\n", file, line, got);
    } else if (err.source[0] && strcmp(err.source, path) != 0) {
        esp_buf_printf(out, "%s\n  the error names the file %s\n", file, err.source);
    } else if (status != ESP_ERR_USAGE && !err.source[0]) {
        esp_buf_printf(out, "%s\n  the error names no file\n", file);
    }
    esp_forest_free(forest);
}

static void every_case_is_refused_as_written(void **state) {
    (void)state;
    struct esp_buf failures;
    esp_buf_init(&failures, &esp_alloc_libc, 1 << 20);
    char *list = esp_test_read_file(FOLDER "cases.txt", NULL), *rest = NULL;
    unsigned count = 0;
    for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] != '#') {
            run_case(line, &failures);
            count++;
        }
    }
    free(list);
    assert_true(count >= 35);
    if (failures.len) {
        fail_msg("\n%s", esp_buf_cstr(&failures));
    }
    esp_buf_fini(&failures);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_case_is_refused_as_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
