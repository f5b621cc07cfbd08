/*
 * Runs the transcripts in tests/cli/cases.  A case is a text file:
 *   # a comment
 *   $ espalier list layouts        a command line, run by sh in an empty folder
 *   > path ...                     its stdout, a line each
 *   ! espalier: ...                its stderr
 *   ? 2                            its exit code
 * The folder has a link `datasets` to the shipped trees, and espalier is found by its name.
 * Times and rates are replaced by N.  ESP_CLI_REWRITE=1 writes what came out into the files.
 */
#include "tests/support/support.h"

#include <dirent.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CASES_MAX = 200, TEXT_MAX = 1 << 20 };

static const char *cases_folder = "tests/cli/cases";
static char root[4096]; /* of the repository */

/* Growing text with a limit; a case that prints more is wrong. */
struct text {
    char *bytes;
    size_t len;
};

static void put(struct text *t, const char *bytes, size_t len) {
    assert_true(t->len + len < TEXT_MAX);
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
    t->bytes[t->len] = 0;
}

/* What differs from run to run. */
static const struct {
    const char *pattern;
    const char *before, *after; /* around the N */
} volatile_texts[] = {
    {"\"elapsed_s\":[0-9.]+", "\"elapsed_s\":", ""},
    {"^<?[0-9.,]+ (ms|s|min|h), [0-9,]+ items/s", "", " s, N items/s"},
};

static void put_steady(struct text *t, const char *line) {
    for (size_t i = 0; i < sizeof volatile_texts / sizeof volatile_texts[0]; i++) {
        regex_t regex;
        regmatch_t match;
        assert_int_equal(regcomp(&regex, volatile_texts[i].pattern, REG_EXTENDED), 0);
        int found = regexec(&regex, line, 1, &match, 0) == 0;
        regfree(&regex);
        if (found) {
            put(t, line, (size_t)match.rm_so);
            put(t, volatile_texts[i].before, strlen(volatile_texts[i].before));
            put(t, "N", 1);
            put(t, volatile_texts[i].after, strlen(volatile_texts[i].after));
            line += match.rm_eo;
        }
    }
    put(t, line, strlen(line));
}

static void put_lines(struct text *t, char prefix, char *lines) {
    for (char *line; (line = strsep(&lines, "\n"));) {
        if (!lines && !line[0]) {
            break; /* behind the last newline */
        }
        put(t, &prefix, 1);
        put(t, " ", line[0] ? 1 : 0);
        put_steady(t, line);
        put(t, "\n", 1);
    }
}

static void run_command(struct text *t, const char *folder, const char *command) {
    char line[8192], path[512], exit_line[32];
    snprintf(path, sizeof path, "%s/.stderr", folder);
    int len =
        snprintf(line, sizeof line, "cd '%s' && { %s\n} 2>.stderr </dev/null", folder, command);
    assert_true(len > 0 && (size_t)len < sizeof line);
    char *out;
    int code = esp_test_run(line, &out);
    char *err = esp_test_read_file(path, NULL);
    unlink(path);
    put_lines(t, '>', out);
    put_lines(t, '!', err);
    put(t, exit_line, (size_t)snprintf(exit_line, sizeof exit_line, "? %d\n", code));
    free(out);
    free(err);
}

/* The case as it would read after this run. */
static void replay(struct text *t, char *expected, const char *folder) {
    for (char *line; (line = strsep(&expected, "\n"));) {
        if (line[0] == '>' || line[0] == '!' || line[0] == '?' || (!expected && !line[0])) {
            continue;
        }
        put(t, line, strlen(line));
        put(t, "\n", 1);
        if (line[0] == '$') {
            run_command(t, folder, line + 1);
        }
    }
}

static void a_case_reads_as_it_ran(void **state) {
    char path[512], folder[256], link[512], target[8192];
    snprintf(path, sizeof path, "%s/%s/%s", root, cases_folder, (const char *)*state);
    esp_test_mkdir(folder);
    snprintf(link, sizeof link, "%s/datasets", folder);
    snprintf(target, sizeof target, "%s/datasets", root);
    assert_int_equal(symlink(target, link), 0);
    char *expected = esp_test_read_file(path, NULL);
    char *work = strdup(expected);
    struct text t = {malloc(TEXT_MAX), 0};
    assert_non_null(work);
    assert_non_null(t.bytes);
    t.bytes[0] = 0;
    replay(&t, work, folder);
    esp_test_rmdir(folder);
    if (getenv("ESP_CLI_REWRITE")) {
        esp_test_write_file(path, t.bytes, t.len);
    } else if (strcmp(expected, t.bytes) != 0) {
        fail_msg("%s: expected\n%s\n--- but ran as\n%s", path, expected, t.bytes);
    }
    free(t.bytes);
    free(work);
    free(expected);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

int main(int argc, char **argv) {
    static struct CMUnitTest tests[CASES_MAX];
    size_t count = 0;
    if (argc != 2 || !getcwd(root, sizeof root)) {
        fprintf(stderr, "usage: transcripts_test ESPALIER (in the root of the repository)\n");
        return 2;
    }
    char path[8192], folder[4096];
    snprintf(folder, sizeof folder, "%s", argv[1]);
    *strrchr(folder, '/') = 0;
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("LC_ALL", "C", 1);
    static const char *const unset[] = {"AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"};
    for (size_t i = 0; i < sizeof unset / sizeof unset[0]; i++) {
        unsetenv(unset[i]);
    }
    DIR *dir = opendir(cases_folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && count < CASES_MAX;) {
        if (entry->d_name[0] != '.') {
            char *name = strdup(entry->d_name);
            tests[count++] = (struct CMUnitTest){name, a_case_reads_as_it_ran, NULL, NULL, name};
        }
    }
    if (!dir || count == 0) {
        fprintf(stderr, "%s: %s\n", cases_folder, strerror(errno));
        return 2;
    }
    closedir(dir);
    qsort(tests, count, sizeof tests[0], by_name);
    int failed = _cmocka_run_group_tests("transcripts", tests, count, NULL, NULL);
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)tests[i].name);
    }
    return failed;
}
