/*
 * How fast one core sends: signed BatchWriteItem requests of ready items to the sink of
 * this folder, which runs on another core.  What is measured is encoding, signing, HTTP
 * and the accounting of answers.
 *
 *   wire_bench [ITEMS] [CONNECTIONS]      5 million items, 16 connections by default
 *
 * The client is pinned to core 0, the sink to core 1.
 */
#include "stores/store.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct sink {
    pid_t pid;
    int input; /* closing it ends the sink */
    FILE *output;
    int port;
};

static void pin(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(core, &cores);
    sched_setaffinity(0, sizeof cores, &cores);
}

static void start_sink(struct sink *sink) {
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 8);
    int in[2], out[2];
    if (len < 0 || pipe(in) != 0 || pipe(out) != 0) {
        perror("wire_bench");
        exit(1);
    }
    path[len] = '\0';
    snprintf(strrchr(path, '/') + 1, 8, "sink");
    sink->pid = fork();
    if (sink->pid == 0) {
        pin(1);
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        close(in[1]);
        execl(path, path, (char *)NULL);
        perror(path);
        _exit(1);
    }
    close(in[0]);
    close(out[1]);
    sink->input = in[1];
    sink->output = fdopen(out[0], "r");
    if (!sink->output || fscanf(sink->output, "%d", &sink->port) != 1) {
        fputs("wire_bench: the sink does not start\n", stderr);
        exit(1);
    }
}

static void stop_sink(struct sink *sink, uint64_t *requests, uint64_t *items) {
    unsigned long long r = 0, i = 0;
    close(sink->input);
    if (fscanf(sink->output, "%llu requests %llu items", &r, &i) != 2) {
        fputs("wire_bench: the sink gives no counts\n", stderr);
    }
    fclose(sink->output);
    waitpid(sink->pid, NULL, 0);
    *requests = r;
    *items = i;
}

static double cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void check(enum esp_status status, const struct esp_error *err) {
    if (status != ESP_OK) {
        fprintf(stderr, "wire_bench: %s\n", err->message);
        exit(1);
    }
}

/* About 200 bytes by DynamoDB's rules, 290 as JSON: the items of layout `path`. */
static void send_items(struct esp_session *session, uint64_t count, struct esp_error *err) {
    static const char data[] =
        "\"name\":{\"S\":\"Node with a name of some length\"},\"code\":{\"N\":\"4711\"},"
        "\"note\":{\"S\":\"a payload attribute that pads the item to the usual size\"}";
    char id[10] = "n";
    struct esp_item item = {.data = {data, sizeof data - 1, 4 + 30 + 4 + 3 + 4 + 56}};
    item.value[0] = esp_s((struct esp_str){id, sizeof id});
    item.value[1] = esp_s(ESP_STR("n000000001"));
    item.value[2] = esp_s(ESP_STR("/n000000012/n000000123/n000001234/n000012345/"));
    for (uint64_t i = 0; i < count; i++) {
        uint64_t rest = i; /* printf would cost more than encoding the item */
        for (int at = 9; at > 0; at--, rest /= 10) {
            id[at] = (char)('0' + rest % 10);
        }
        item.value[3] = esp_n((int64_t)(i % 7));
        check(esp_session_bulk_put(session, &item, err), err);
    }
    check(esp_session_bulk_flush(session, err), err);
}

int main(int argc, char **argv) {
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000000;
    struct esp_store_config config = {.connections =
                                          argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 16};
    struct esp_schema schema = {.attr = {{ESP_STR("ID"), ESP_TYPE_S},
                                         {ESP_STR("Root"), ESP_TYPE_S},
                                         {ESP_STR("Path"), ESP_TYPE_S},
                                         {ESP_STR("Depth"), ESP_TYPE_N}},
                                .attr_count = 4,
                                .pk = 0,
                                .sk = -1,
                                .index = {{.name = ESP_STR("gsi1"), .pk = 1, .sk = 2}},
                                .index_count = 1};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct sink sink;
    char url[64];
    start_sink(&sink);
    pin(0);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", sink.port);
    check(esp_store_open(url, &config, &esp_clock_system, &esp_alloc_libc, &store, &err), &err);
    check(esp_table_open(store, "sink", &schema, &table, &err), &err);
    check(esp_session_open(table, &session, &err), &err);
    send_items(session, count / 20, &err); /* connections and buffers warm */

    double cpu_begun = cpu_s();
    uint64_t begun_ns = esp_now_ns(&esp_clock_system);
    uint64_t requests_before = session->usage.requests;
    send_items(session, count, &err);
    double elapsed_s = (double)(esp_now_ns(&esp_clock_system) - begun_ns) * 1e-9;
    double used_s = cpu_s() - cpu_begun;
    double requests = (double)(session->usage.requests - requests_before);
    uint64_t written = session->bulk.written, seen_requests, seen_items;
    esp_session_close(session);
    esp_table_close(table);
    esp_store_close(store);
    stop_sink(&sink, &seen_requests, &seen_items);
    printf("%llu items, %u connections: %.0f items/s wall, %.0f items per CPU second, %.2f CPU "
           "us/request\n",
           (unsigned long long)count, config.connections, (double)count / elapsed_s,
           (double)count / used_s, used_s * 1e6 / requests);
    if (seen_items != written) {
        fprintf(stderr, "wire_bench: the sink saw %llu items, %llu were acknowledged\n",
                (unsigned long long)seen_items, (unsigned long long)written);
        return 1;
    }
    return 0;
}
