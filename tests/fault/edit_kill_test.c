/* espalier killed in the middle of a move on an embedded store: all of it is there, or nothing. */
#include "tests/support/edit_kill.h"

#include <stdio.h>
#include <stdlib.h>

static const char *program;

static void killed_edits_are_whole(void **state) {
    (void)state;
    char folder[256], store[300];
    esp_test_mkdir(folder);
    assert_int_equal(setenv("XDG_STATE_HOME", folder, 1), 0);
    snprintf(store, sizeof store, "local:%s/db", folder);
    struct edit_kill k = {
        .program = program, .store = store, .folder = folder, .nodes = 2000, .rounds = 4};
    static const char *const layouts[] = {"path", "replica", "nested-set", "path-key"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        edit_kill_layout(&k, layouts[i]);
    }
    assert_int_equal(k.mended, 0);
    esp_test_rmdir(folder);
}

int main(int argc, char **argv) {
    assert_true(argc > 1);
    program = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_edits_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
