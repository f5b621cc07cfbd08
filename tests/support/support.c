#include "tests/support/support.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

const char *esp_test_status_name(enum esp_status status) {
    static char name[64];
    snprintf(name, sizeof name, "ESP_%s", esp_status_name(status));
    return name;
}

void esp_test_mkdir(char path[256]) {
    const char *base = getenv("TMPDIR");
    snprintf(path, 256, "%s/espalier-test-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(path)) {
        fail_msg("mkdtemp %s: %s", path, strerror(errno));
    }
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

void esp_test_rmdir(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

char *esp_test_read_file(const char *path, size_t *len) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail_msg("%s: %s", path, strerror(errno));
        return NULL;
    }
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    size_t got = fread(bytes, 1, (size_t)size, file);
    fclose(file);
    bytes[got] = 0;
    if (len) {
        *len = got;
    }
    return bytes;
}

void esp_test_write_file(const char *path, const void *bytes, size_t len) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) {
        fail_msg("%s: %s", path, strerror(errno));
    }
}

int esp_test_run(const char *command, char **out) {
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t len = 0, cap = 1 << 16;
    char *text = malloc(cap);
    assert_non_null(text);
    for (size_t got; (got = fread(text + len, 1, cap - len - 1, pipe)) > 0;) {
        len += got;
        if (cap - len < 4096) {
            cap *= 2;
            text = realloc(text, cap);
            assert_non_null(text);
        }
    }
    text[len] = 0;
    int status = pclose(pipe);
    if (out) {
        *out = text;
    } else {
        free(text);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
