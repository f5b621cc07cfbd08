/*
 * espalier killed in the middle of a move on a real engine: the repair finishes it, in every
 * layout. edit_kill_on_engine_test ENGINE ESPALIER
 */
#include "tests/endpoint/engine_process.h"
#include "tests/support/edit_kill.h"

#include <stdio.h>
#include <stdlib.h>

static const char *engine_name, *program;

static void killed_edits_are_finished(void **state) {
    (void)state;
    static const char *const layouts[] = {"path",       "tree-path", "path-key", "replica",
                                          "nested-set", "adjacency", "entity",   "graph"};
    struct esp_test_engine engine;
    char folder[256];
    esp_test_mkdir(folder);
    assert_int_equal(setenv("XDG_STATE_HOME", folder, 1), 0);
    assert_int_equal(setenv("AWS_REGION", "us-east-1", 1), 0);
    assert_int_equal(setenv("AWS_ACCESS_KEY_ID", "test", 1), 0);
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "test", 1), 0);
    assert_true(esp_test_engine_start(&engine, engine_name));
    struct edit_kill k = {
        .program = program, .store = engine.url, .folder = folder, .nodes = 300, .rounds = 5};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        k.seed = (unsigned)i;
        edit_kill_layout(&k, layouts[i]);
    }
    print_message("%u edits were cut and finished\n", k.mended);
    assert_true(k.mended > 0);
    esp_test_engine_stop(&engine);
    esp_test_rmdir(folder);
}

int main(int argc, char **argv) {
    assert_true(argc > 2);
    engine_name = argv[1];
    program = argv[2];
    if (!esp_test_engine_available(engine_name)) {
        return 77; /* ctest: skipped */
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_edits_are_finished)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
