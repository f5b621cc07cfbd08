/*
 * Runs a fuzz target over its corpus: every file, and every file cut short at every byte
 * (at 512 places when it is long).  Crashing, or a sanitizer's report, is the failure.
 *
 *   NAME_fuzz_replay FOLDER
 */
#include <dirent.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

static const char *folder;

/* A copy of its own size, so that the address sanitizer sees reads past the end. */
static void run_input(const char *bytes, size_t len) {
    uint8_t *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static void the_corpus_and_its_prefixes(void **state) {
    (void)state;
    unsigned count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        char path[512];
        size_t len;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        char *bytes = esp_test_read_file(path, &len);
        size_t step = len > 512 ? len / 512 : 1;
        for (size_t cut = 0; cut < len; cut += step) {
            run_input(bytes, cut);
        }
        run_input(bytes, len);
        free(bytes);
        count++;
    }
    closedir(dir);
    assert_true(count > 0);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_corpus_and_its_prefixes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
