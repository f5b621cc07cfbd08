#include "stores/dynamodb/credential_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { WORDS_MAX = 64, WAIT_S_MAX = 60, OUTPUT_BYTES_MAX = 64 << 10 };

/* Splits in place of a copy in `arena`: blanks, '...' and "..." with \" and \\ in the latter. */
static enum esp_status split_words(struct esp_str command, struct esp_arena *arena,
                                   char *words[WORDS_MAX + 1], struct esp_error *err) {
    char *to = esp_arena_alloc(arena, command.len + 1);
    size_t count = 0;
    char quote = 0;
    bool in_word = false;
    if (!to) {
        return esp_fail_nomem(err);
    }
    for (size_t i = 0; i < command.len; i++) {
        char c = command.ptr[i];
        if (!quote && (c == ' ' || c == '\t')) {
            if (in_word) {
                *to++ = '\0';
                in_word = false;
            }
            continue;
        }
        if (!in_word) {
            if (count == WORDS_MAX) {
                return esp_fail(err, ESP_ERR_CREDENTIALS, "credential_process has over %d words",
                                WORDS_MAX);
            }
            words[count++] = to;
            in_word = true;
        }
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
        } else if (c == '\\' && quote != '\'' && i + 1 < command.len) {
            *to++ = command.ptr[++i];
        } else {
            *to++ = c;
        }
    }
    *to = '\0';
    words[count] = NULL;
    return count && !quote ? ESP_OK
                           : esp_fail(err, ESP_ERR_CREDENTIALS, "credential_process is %s",
                                      quote ? "missing a closing quote" : "empty");
}

static enum esp_status spawn(char *const words[], int write_end, pid_t *pid,
                             struct esp_error *err) {
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed) {
        return esp_fail(err, ESP_ERR_CREDENTIALS, "credential_process: %s", strerror(failed));
    }
    failed = posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
    if (!failed) {
        failed = posix_spawnp(pid, words[0], &actions, NULL, words, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failed ? esp_fail(err, ESP_ERR_CREDENTIALS, "credential_process: cannot run %s: %s",
                             words[0], strerror(failed))
                  : ESP_OK;
}

static enum esp_status read_output(int fd, struct esp_buf *out, struct esp_error *err) {
    uint64_t begun_ns = esp_now_ns(&esp_clock_system); /* the process lives in real time */
    for (;;) {
        int left_ms =
            WAIT_S_MAX * 1000 - (int)((esp_now_ns(&esp_clock_system) - begun_ns) / 1000000);
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int got = left_ms > 0 ? poll(&ready, 1, left_ms) : 0;
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return esp_fail(err, ESP_ERR_CREDENTIALS, "credential_process took over %d s",
                            WAIT_S_MAX);
        }
        if (!esp_buf_reserve(out, 4096)) {
            return esp_fail(err, ESP_ERR_CREDENTIALS, "credential_process printed too much");
        }
        ssize_t count = read(fd, out->ptr + out->len, 4096);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return ESP_OK;
        }
        out->len += (size_t)count;
    }
}

static enum esp_status run_words(char *const words[], struct esp_buf *out, struct esp_error *err) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0) {
        return esp_fail(err, ESP_ERR_IO, "credential_process: %s", strerror(errno));
    }
    pid_t pid = 0;
    enum esp_status status = spawn(words, ends[1], &pid, err);
    close(ends[1]);
    if (status == ESP_OK) {
        status = read_output(ends[0], out, err);
        if (status != ESP_OK) {
            kill(pid, SIGKILL);
        }
        int result = 0;
        while (waitpid(pid, &result, 0) < 0 && errno == EINTR) {
        }
        if (status == ESP_OK && !(WIFEXITED(result) && WEXITSTATUS(result) == 0)) {
            status = esp_fail(err, ESP_ERR_CREDENTIALS, "credential_process %s failed (%s %d)",
                              words[0], WIFEXITED(result) ? "exit code" : "signal",
                              WIFEXITED(result) ? WEXITSTATUS(result) : WTERMSIG(result));
        }
    }
    close(ends[0]);
    return status;
}

enum esp_status esp_credential_process_run(struct esp_str command, const struct esp_alloc *alloc,
                                           struct esp_buf *out, struct esp_error *err) {
    struct esp_arena arena;
    char *words[WORDS_MAX + 1];
    esp_arena_init(&arena, alloc, OUTPUT_BYTES_MAX + command.len);
    esp_buf_reset(out);
    enum esp_status status = esp_buf_reserve(out, OUTPUT_BYTES_MAX / 2) /* never moved: secrets */
                                 ? split_words(command, &arena, words, err)
                                 : esp_fail_nomem(err);
    if (status == ESP_OK) {
        status = run_words(words, out, err);
    }
    esp_arena_fini(&arena);
    return status;
}
