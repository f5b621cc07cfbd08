#include "tests/endpoint/engine_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int bound_socket(uint16_t *port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static bool accepts_connections(uint16_t port) {
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool connected = fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0;
    close(fd);
    return connected;
}

static void become_engine(const char *name, uint16_t port) {
    char port_text[16];
    int log = open("/dev/null", O_RDWR);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* an aborted test leaves no engine behind */
    dup2(log, 0);
    dup2(log, 1);
    dup2(log, 2);
    snprintf(port_text, sizeof port_text, "%u", port);
    execl("tests/endpoint/engines.sh", "engines.sh", "run", name, port_text, (char *)NULL);
    _exit(127);
}

bool esp_test_engine_available(const char *name) {
    char command[128];
    snprintf(command, sizeof command, "tests/endpoint/engines.sh have %s", name);
    return esp_test_run(command, NULL) == 0;
}

bool esp_test_engine_start(struct esp_test_engine *engine, const char *name) {
    uint16_t port;
    close(bound_socket(&port));
    *engine = (struct esp_test_engine){.name = name};
    snprintf(engine->url, sizeof engine->url, "http://127.0.0.1:%u", port);
    engine->pid = fork();
    assert_true(engine->pid >= 0);
    if (engine->pid == 0) {
        become_engine(name, port);
    }
    for (int tries = 0; tries < 600; tries++) {
        if (accepts_connections(port)) {
            return true;
        }
        if (waitpid(engine->pid, NULL, WNOHANG) == engine->pid) {
            engine->pid = 0;
            return false;
        }
        usleep(100000);
    }
    esp_test_engine_stop(engine);
    return false;
}

void esp_test_engine_stop(struct esp_test_engine *engine) {
    if (engine->pid > 0) {
        kill(engine->pid, SIGKILL);
        waitpid(engine->pid, NULL, 0);
        engine->pid = 0;
    }
}
