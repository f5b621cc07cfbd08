/*
 * The embedded stores: bulk load of items like those of the path layout (an index that projects
 * all), random GetItem on one thread, queries of a path's prefix, single durable puts.
 *
 *   local_bench [ITEMS] [STORE]      default: 1,000,000 local: (a temporary one)
 */
#include "core/rng.h"
#include "stores/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { GETS = 1000000, QUERIES = 100000, PUTS = 1000, FANOUT = 10, TEXT_BYTES = 256 };

/* Item i of a 10-ary tree: its path holds the ids of its ancestors below the root. */
struct node {
    char id[32], path[TEXT_BYTES], data[TEXT_BYTES];
    struct esp_item item;
};

static struct esp_schema path_schema(void) {
    struct esp_schema s = {.attr_count = 4, .pk = 0, .sk = -1, .index_count = 1};
    s.attr[0] = (struct esp_attr){ESP_STR("ID"), ESP_TYPE_S};
    s.attr[1] = (struct esp_attr){ESP_STR("Root"), ESP_TYPE_S};
    s.attr[2] = (struct esp_attr){ESP_STR("Path"), ESP_TYPE_S};
    s.attr[3] = (struct esp_attr){ESP_STR("Depth"), ESP_TYPE_N};
    s.index[0] = (struct esp_index){.name = ESP_STR("gsi1"), .pk = 1, .sk = 2};
    return s;
}

static void write_id(uint64_t i, char out[32]) {
    snprintf(out, 32, "n%09llu", (unsigned long long)i);
}

static void make_node(uint64_t i, struct node *n) {
    uint64_t up[32];
    int depth = 0;
    size_t path = 0;
    for (uint64_t at = i; at > 0; at = (at - 1) / FANOUT) {
        up[depth++] = at;
    }
    write_id(i, n->id);
    n->path[path++] = '/';
    for (int k = depth - 1; k > 0; k--) {
        write_id(up[k], n->path + path);
        path += strlen(n->path + path);
        n->path[path++] = '/';
    }
    int data =
        snprintf(n->data, TEXT_BYTES,
                 "\"name\":{\"S\":\"node number %llu of the tree\"},\"pop\":{\"N\":\"%llu\"},"
                 "\"note\":{\"S\":\"some text that makes it about as long as others are\"}",
                 (unsigned long long)i, (unsigned long long)(i * 37 % 100000));
    memset(&n->item, 0, sizeof n->item);
    n->item.value[0] = esp_s(esp_str_from(n->id));
    if (i > 0) {
        n->item.value[1] = esp_s(ESP_STR("n000000000"));
        n->item.value[2] = esp_s((struct esp_str){n->path, path});
    }
    n->item.value[3] = esp_n(depth);
    n->item.data = (struct esp_data){n->data, (uint32_t)data, (uint32_t)data - 34};
}

static void fail(const struct esp_error *err) {
    fprintf(stderr, "local_bench: %s\n", err->message);
    exit(1);
}

static void check(enum esp_status status, const struct esp_error *err) {
    if (status != ESP_OK) {
        fail(err);
    }
}

static double seconds(uint64_t begin_ns) {
    return (double)(esp_now_ns(&esp_clock_system) - begin_ns) / 1e9;
}

/* Of all threads, in the kernel too: what does not depend on what else runs, or on the disk. */
static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static enum esp_status count(void *ctx, const struct esp_item *item) {
    *(uint64_t *)ctx += item->data.len > 0;
    return ESP_OK;
}

static void load(struct esp_session *s, uint64_t items, struct esp_error *err) {
    struct node n;
    double begin_cpu_s = cpu_seconds();
    uint64_t begin = esp_now_ns(&esp_clock_system);
    for (uint64_t i = 0; i < items; i++) { /* scattered, as the ids of a real tree are */
        make_node(i * 7919 % items, &n);
        check(esp_session_bulk_put(s, &n.item, err), err);
    }
    double put_s = seconds(begin), put_cpu_s = cpu_seconds() - begin_cpu_s;
    check(esp_session_bulk_flush(s, err), err);
    double all_s = seconds(begin), all_cpu_s = cpu_seconds() - begin_cpu_s;
    begin_cpu_s = cpu_seconds();
    for (uint64_t i = 0; i < items; i++) {
        make_node(i * 7919 % items, &n);
    }
    double make_s = cpu_seconds() - begin_cpu_s;
    printf("bulk load   %6.3f s: %.3f s putting, %.3f s flushing; %.0f items a second\n", all_s,
           put_s, all_s - put_s, (double)items / all_s);
    printf("  of CPU    %6.3f s: %.3f s putting, of it %.3f s making the items; %.3f s flushing\n",
           all_cpu_s, put_cpu_s, make_s, all_cpu_s - put_cpu_s);
}

static void get(struct esp_session *s, uint64_t items, struct esp_error *err) {
    struct esp_rng rng;
    uint64_t found = 0, begin = esp_now_ns(&esp_clock_system);
    esp_rng_init(&rng, 1, 0);
    for (int i = 0; i < GETS; i++) {
        char id[32];
        struct esp_item key = {.data = {0}};
        write_id(esp_rng_below(&rng, items), id);
        key.value[0] = esp_s(esp_str_from(id));
        check(esp_session_get(s, &key, 1, false, count, &found, err), err);
    }
    double s_all = seconds(begin);
    printf("GetItem     %6.0f ns, %.0f a second on one thread (%llu of %d found)\n",
           s_all / GETS * 1e9, GETS / s_all, (unsigned long long)found, GETS);
}

static void query(struct esp_session *s, uint64_t items, struct esp_error *err) {
    struct esp_rng rng;
    uint64_t found = 0, begin = esp_now_ns(&esp_clock_system);
    esp_rng_init(&rng, 2, 0);
    for (int i = 0; i < QUERIES; i++) {
        struct node n;
        char prefix[TEXT_BYTES + 32];
        make_node(items / 200 + esp_rng_below(&rng, items / 100), &n);
        int len = snprintf(prefix, sizeof prefix, "%.*s%s/", ESP_FMT(n.item.value[2].s), n.id);
        struct esp_query q = {.index = 0,
                              .pk = n.item.value[1],
                              .op = ESP_PREFIX,
                              .lo = esp_s((struct esp_str){prefix, (size_t)len})};
        check(esp_session_query(s, &q, count, &found, err), err);
    }
    double s_all = seconds(begin);
    printf("Query       %6.0f ns, %.0f a second of a prefix with %.1f items\n",
           s_all / QUERIES * 1e9, QUERIES / s_all, (double)found / QUERIES);
}

static void put(struct esp_session *s, uint64_t items, struct esp_error *err) {
    uint64_t begin = esp_now_ns(&esp_clock_system);
    for (uint64_t i = 0; i < PUTS; i++) {
        struct node n;
        make_node(items + i, &n);
        struct esp_write w = {.kind = ESP_PUT, .item = n.item};
        check(esp_session_write(s, &w, 1, NULL, err), err);
    }
    printf("PutItem     %6.1f us with its index entry, one commit each\n",
           seconds(begin) / PUTS * 1e6);
}

int main(int argc, char **argv) {
    uint64_t items = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    const char *url = argc > 2 ? argv[2] : "local:";
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_schema schema = path_schema();
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct rusage usage;
    check(esp_store_open(url, NULL, &esp_clock_system, &esp_alloc_libc, &store, &err), &err);
    if (store->ops->create_table(store, "bench", &schema, NULL, NULL) == ESP_ERR_EXISTS) {
        check(store->ops->drop_table(store, "bench", &err), &err);
        check(store->ops->create_table(store, "bench", &schema, NULL, &err), &err);
    }
    check(esp_table_open(store, "bench", &schema, &table, &err), &err);
    check(esp_session_open(table, &session, &err), &err);
    load(session, items, &err);
    get(session, items, &err);
    query(session, items, &err);
    put(session, items, &err);
    esp_session_close(session);
    esp_table_close(table);
    esp_store_close(store);
    getrusage(RUSAGE_SELF, &usage);
    printf("memory      %ld MiB at most, mapped pages of the database included\n",
           usage.ru_maxrss / 1024);
    return 0;
}
