/*
 * Style that matters is checked by the machine: include directions between folders, banned
 * functions, dead files, unique file names, formatting, the length of functions.
 * Runs in the repository's root and reads its text; a finding names file and line.
 */
#include "tests/support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FILES_MAX = 1024, FUNCTION_LINES_MAX = 90, LINE_BYTES_MAX = 100 };

static char *files[FILES_MAX];
static size_t file_count;
static size_t finding_count;

static void finding(const char *file, size_t line, const char *text, const char *detail) {
    print_message("%s:%zu: %s%s\n", file, line, text, detail);
    finding_count++;
}

static bool ends_with(const char *text, const char *end) {
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_c(const char *path) {
    return ends_with(path, ".c") || ends_with(path, ".h");
}

static void collect(const char *folder, int depth) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    assert_true(depth < 8);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[512];
        struct stat st;
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_int_equal(stat(path, &st), 0);
        if (S_ISDIR(st.st_mode)) {
            collect(path, depth + 1);
        } else {
            assert_true(file_count < FILES_MAX);
            files[file_count++] = strdup(path);
        }
    }
    closedir(dir);
}

static const char *const folders[] = {"core",   "tree",  "importers", "stores", "converters",
                                      "loader", "bench", "cli",       "tests",  NULL};

static int collect_all(void **state) {
    (void)state;
    for (size_t i = 0; folders[i]; i++) {
        collect(folders[i], 0);
    }
    return 0;
}

static int forget_all(void **state) {
    (void)state;
    for (size_t i = 0; i < file_count; i++) {
        free(files[i]);
    }
    return 0;
}

/* Which folders a folder may include; "" ends the list.  Tests may include everything. */
static const struct {
    const char *folder;
    const char *may[8];
} directions[] = {
    {"core", {"core"}},
    {"tree", {"core", "tree"}},
    {"importers", {"core", "tree", "importers"}},
    {"stores", {"core", "tree", "stores"}},
    {"converters", {"core", "tree", "stores", "converters"}},
    {"loader", {"core", "tree", "stores", "converters", "loader"}},
    {"bench", {"core", "tree", "stores", "converters", "loader", "bench"}},
    {"cli", {"core", "tree", "importers", "stores", "converters", "loader", "bench", "cli"}},
};

static bool may_include(const char *file, const char *included) {
    for (size_t i = 0; i < sizeof directions / sizeof directions[0]; i++) {
        size_t len = strlen(directions[i].folder);
        if (strncmp(file, directions[i].folder, len) != 0 || file[len] != '/') {
            continue;
        }
        for (size_t k = 0; k < 8 && directions[i].may[k]; k++) {
            size_t may_len = strlen(directions[i].may[k]);
            if (strncmp(included, directions[i].may[k], may_len) == 0 && included[may_len] == '/') {
                return true;
            }
        }
        return strncmp(file, "bench/programs/", 15) == 0;
    }
    return true;
}

/* Functions that lose errors, overflow, or bypass the allocator; `where` limits a ban to the
 * library folders (programs and tests may print, exit and use malloc). */
static const struct {
    const char *name;
    bool library_only;
    const char *allowed_in; /* one file that may, and why it is the one */
} banned[] = {
    {"sprintf", false, NULL},       {"strcpy", false, NULL},        {"strcat", false, NULL},
    {"gets", false, NULL},          {"atoi", false, NULL},          {"atof", false, NULL},
    {"strtok", false, NULL},        {"rand", false, NULL},          {"localtime", false, NULL},
    {"malloc", true, "core/mem.c"}, {"calloc", true, "core/mem.c"}, {"realloc", true, "core/mem.c"},
    {"strdup", true, NULL},         {"printf", true, NULL},         {"puts", true, NULL},
    {"exit", true, NULL},           {"abort", true, NULL},          {"system", true, NULL},
};

static bool is_library(const char *file) {
    return strncmp(file, "cli/", 4) != 0 && strncmp(file, "tests/", 6) != 0 &&
           strncmp(file, "bench/programs/", 15) != 0;
}

static bool is_word(char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static void check_banned(const char *file, size_t line, const char *text) {
    for (size_t i = 0; i < sizeof banned / sizeof banned[0]; i++) {
        if ((banned[i].library_only && !is_library(file)) ||
            (banned[i].allowed_in && strcmp(file, banned[i].allowed_in) == 0)) {
            continue;
        }
        size_t len = strlen(banned[i].name);
        for (const char *at = text; (at = strstr(at, banned[i].name)); at += len) {
            if ((at == text || (!is_word(at[-1]) && at[-1] != '.' && at[-1] != '>')) &&
                at[len] == '(') {
                finding(file, line, "banned function: ", banned[i].name);
            }
        }
    }
}

/* Code only: text inside string literals and comments is blanked out. */
static void blank_text(char *line, bool *in_comment) {
    bool in_string = false;
    char quote = 0;
    for (char *c = line; *c; c++) {
        if (*in_comment) {
            if (c[0] == '*' && c[1] == '/') {
                *in_comment = false;
                c[0] = ' ';
                c[1] = ' ';
            } else {
                *c = ' ';
            }
        } else if (in_string) {
            if (*c == '\\' && c[1]) {
                *c++ = ' ';
                *c = ' ';
            } else if (*c == quote) {
                in_string = false;
            } else {
                *c = ' ';
            }
        } else if (*c == '"' || *c == '\'') {
            in_string = true;
            quote = *c;
        } else if (c[0] == '/' && c[1] == '*') {
            *in_comment = true;
            *c = ' ';
        }
    }
}

static void check_include(const char *file, size_t line, const char *text) {
    char included[256];
    if (sscanf(text, "#include \"%255[^\"]\"", included) == 1 && !may_include(file, included)) {
        finding(file, line, "this folder must not include ", included);
    }
}

static void check_c_file(const char *file) {
    char *text = esp_test_read_file(file, NULL), *rest = text;
    bool in_comment = false;
    size_t line = 0, function_start = 0;
    for (char *row; (row = strsep(&rest, "\n"));) {
        line++;
        size_t columns = 0;
        for (const char *c = row; *c; c++) {
            columns += ((unsigned char)*c & 0xC0) != 0x80;
        }
        if (columns > LINE_BYTES_MAX) {
            finding(file, line, "longer than 100 columns", "");
        }
        if (strchr(row, '\t')) {
            finding(file, line, "a tab", "");
        }
        if (!ends_with(file, "tidy_test.c") && (strstr(row, "TODO") || strstr(row, "FIXME"))) {
            finding(file, line, "unfinished work may not be committed", "");
        }
        check_include(file, line, row);
        blank_text(row, &in_comment);
        check_banned(file, line, row);
        if (row[0] != ' ' && row[0] != '#' && row[0] != '}' && ends_with(row, ") {")) {
            function_start = line;
        } else if (strcmp(row, "}") == 0 && function_start) {
            if (line - function_start > FUNCTION_LINES_MAX) {
                finding(file, function_start, "a function longer than 90 lines", "");
            }
            function_start = 0;
        }
    }
    free(text);
}

static void sources_follow_the_rules(void **state) {
    (void)state;
    finding_count = 0;
    for (size_t i = 0; i < file_count; i++) {
        if (is_c(files[i])) {
            check_c_file(files[i]);
        }
    }
    assert_int_equal(finding_count, 0);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void names_are_unique(void **state) {
    (void)state;
    finding_count = 0;
    for (size_t i = 0; i < file_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (is_c(files[i]) && strcmp(base_name(files[i]), base_name(files[k])) == 0) {
                finding(files[i], 1, "same name as ", files[k]);
            }
        }
    }
    assert_int_equal(finding_count, 0);
}

/* Every .c file is named by a CMakeLists.txt or .def of its folder or of the one above. */
static void no_file_is_dead(void **state) {
    (void)state;
    finding_count = 0;
    char *build = NULL;
    size_t build_len = 0;
    for (size_t i = 0; i < file_count; i++) {
        if (strstr(files[i], "CMakeLists.txt") || ends_with(files[i], ".def")) {
            size_t len;
            char *text = esp_test_read_file(files[i], &len);
            build = realloc(build, build_len + len + 1);
            assert_non_null(build);
            memcpy(build + build_len, text, len + 1);
            build_len += len;
            free(text);
        }
    }
    for (size_t i = 0; i < file_count; i++) {
        char stem[256];
        snprintf(stem, sizeof stem, "%s", base_name(files[i]));
        if (ends_with(files[i], ".c") && !strstr(build, stem)) {
            stem[strlen(stem) - 2] = 0; /* programs may be listed without ".c" */
            if (!strstr(build, stem)) {
                finding(files[i], 1, "no CMakeLists.txt or .def names this file", "");
            }
        }
    }
    free(build);
    assert_int_equal(finding_count, 0);
}

static void formatting_is_clang_formats(void **state) {
    (void)state;
    if (esp_test_run("clang-format-14 --version >/dev/null 2>&1", NULL) != 0) {
        skip(); /* test.sh installs it; other versions format differently */
    }
    char *out;
    int code = esp_test_run("find core tree importers stores converters loader bench cli tests "
                            "-name '*.[ch]' | xargs clang-format-14 --dry-run -Werror 2>&1 | "
                            "grep -m 20 error; test ${PIPESTATUS:-0} = 0",
                            &out);
    if (out[0]) {
        print_message("%s", out);
    }
    bool clean = out[0] == 0;
    free(out);
    assert_int_equal(code, 0);
    assert_true(clean);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources_follow_the_rules),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(no_file_is_dead),
        cmocka_unit_test(formatting_is_clang_formats),
    };
    return cmocka_run_group_tests(tests, collect_all, forget_all);
}
