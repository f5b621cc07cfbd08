#include "tests/support/edit_kill.h"

#include "core/rng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMAND_BYTES = 2048, RANK = 6 /* children of a node of the subtree */ };

/* Runs `espalier COMMAND STORE --table tree --layout LAYOUT REST`; *out may be NULL. */
static int run(const struct edit_kill *k, const char *command, const char *layout, const char *rest,
               char **out) {
    char line[COMMAND_BYTES];
    snprintf(line, sizeof line, "%s %s %s --table tree --layout %s %s 2>&1", k->program, command,
             k->store, layout, rest);
    return esp_test_run(line, out);
}

/* R has the children A and B; below A is the subtree that moves to B. */
static void load(const struct edit_kill *k, const char *layout) {
    char path[512], line[COMMAND_BYTES], *out = NULL;
    snprintf(path, sizeof path, "%s/tree.csv", k->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("id,parent_id,name\nR,,root\nA,R,a\nB,R,b\n", file);
    for (unsigned i = 0; i < k->nodes; i++) {
        char parent[32] = "A";
        if (i >= RANK) {
            snprintf(parent, sizeof parent, "n%u", i / RANK - 1);
        }
        fprintf(file, "n%u,%s,node %u\n", i, parent, i);
    }
    fclose(file);
    snprintf(line, sizeof line,
             "%s import %s --to %s --table tree --layout %s --if-exists replace"
             " 2>&1",
             k->program, path, k->store, layout);
    if (esp_test_run(line, &out) != 0) {
        fail_msg("%s: %s", line, out);
    }
    free(out);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The move; killed after `delay_s`, if that is not negative.  Returns how long it took. */
static double move(const struct edit_kill *k, const char *layout, double delay_s) {
    double from = now_s();
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) {
            _exit(99);
        }
        execl(k->program, k->program, "edit", k->store, "--table", "tree", "--layout", layout,
              "move", "A", "B", (char *)NULL);
        _exit(98);
    }
    if (delay_s >= 0) {
        usleep((useconds_t)(delay_s * 1e6));
        kill(pid, SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (delay_s < 0) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    return now_s() - from;
}

/* Is the table whole, and the subtree where it was or where it goes? */
static void judge(struct edit_kill *k, const char *layout, bool finished) {
    char *out = NULL, want[64];
    int code = run(k, "check", layout, "", &out);
    if (code != 0) {
        fail_msg("%s: after the repair the check says %d: %s", layout, code, out);
    }
    free(out);
    assert_int_equal(run(k, "query", layout, "count B", &out), 0);
    snprintf(want, sizeof want, "%u\n", k->nodes + 1);
    bool moved = strncmp(out, want, strlen(want)) == 0, still = strncmp(out, "0\n", 2) == 0;
    if (!moved && (finished || !still)) {
        fail_msg("%s: after the repair %s nodes are below B", layout, out);
    }
    free(out);
}

void edit_kill_layout(struct edit_kill *k, const char *layout) {
    struct esp_rng rng;
    char *out = NULL;
    esp_rng_init(&rng, k->seed, 0);
    load(k, layout);
    double whole_s = move(k, layout, -1);
    judge(k, layout, true);
    for (unsigned i = 0; i < k->rounds; i++) {
        load(k, layout);
        move(k, layout, whole_s * (double)esp_rng_below(&rng, 1000) / 1000);
        int code = run(k, "repair", layout, "", &out);
        if (code != 0) {
            fail_msg("%s: the repair ends with %d: %s", layout, code, out);
        }
        bool finished = strstr(out, "the edit is finished") != NULL;
        k->mended += finished;
        free(out);
        judge(k, layout, finished);
    }
}
