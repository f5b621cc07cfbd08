#include "cli/output.h"

#include "cli/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static enum esp_status fail(struct esp_output *out, const char *what) {
    struct esp_error *err = &out->cli->err;
    int number = errno;
    enum esp_status status =
        esp_fail(err, esp_cli_open_status(number), "cannot %s %s: %s", what,
                 strcmp(out->path, "-") == 0 ? "stdout" : out->path, strerror(number));
    err->os_errno = number;
    return status;
}

enum esp_status esp_output_open(struct esp_cli *cli, const char *path, struct esp_output *out) {
    enum { MODE = 0666 };
    struct stat st;
    *out = (struct esp_output){.cli = cli, .path = path, .fd = STDOUT_FILENO};
    if (strcmp(path, "-") == 0) {
        return ESP_OK;
    }
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
    } else {
        int len = snprintf(out->temporary, sizeof out->temporary, "%s.tmp", path);
        if ((size_t)len >= sizeof out->temporary) {
            errno = ENAMETOOLONG;
            return fail(out, "write");
        }
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, MODE);
    }
    return out->fd >= 0 ? ESP_OK : fail(out, "write");
}

enum esp_status esp_output_write(struct esp_output *out, struct esp_str bytes) {
    while (bytes.len > 0) {
        ssize_t done = write(out->fd, bytes.ptr, bytes.len);
        if (done < 0 && errno != EINTR) {
            return fail(out, "write");
        }
        bytes.ptr += done > 0 ? done : 0;
        bytes.len -= done > 0 ? (size_t)done : 0;
    }
    return ESP_OK;
}

enum esp_status esp_output_close(struct esp_output *out, enum esp_status status) {
    if (out->fd < 0 || out->fd == STDOUT_FILENO) {
        return status;
    }
    if (status == ESP_OK && out->temporary[0] && fsync(out->fd) != 0) {
        status = fail(out, "write");
    }
    if (close(out->fd) != 0 && status == ESP_OK) {
        status = fail(out, "write");
    }
    if (!out->temporary[0]) {
        return status;
    }
    if (status == ESP_OK && rename(out->temporary, out->path) != 0) {
        status = fail(out, "finish");
    }
    if (status != ESP_OK) {
        unlink(out->temporary);
    }
    return status;
}
