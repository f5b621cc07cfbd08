/*
 * A DynamoDB endpoint that answers at once and keeps nothing: what remains is the cost of
 * the client and of HTTP.  One thread, epoll.
 *
 *   sink [PORT]      listens on 127.0.0.1, a free port without PORT; prints it; ends when
 *                    its standard input does, then prints requests and items
 *
 * BatchWriteItem is answered with nothing unprocessed, DescribeTable with a table of
 * layout `path`.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

enum { REQUEST_BYTES_MAX = 17 << 20, FIRST_BYTES = 1 << 16, EVENTS = 64 };

struct connection {
    int fd;
    char *bytes;
    size_t len, cap;
};

struct counts {
    uint64_t requests, items;
};

static const char table_json[] =
    "{\"Table\":{\"TableName\":\"sink\",\"TableStatus\":\"ACTIVE\",\"AttributeDefinitions\":["
    "{\"AttributeName\":\"ID\",\"AttributeType\":\"S\"},"
    "{\"AttributeName\":\"Root\",\"AttributeType\":\"S\"},"
    "{\"AttributeName\":\"Path\",\"AttributeType\":\"S\"}],"
    "\"KeySchema\":[{\"AttributeName\":\"ID\",\"KeyType\":\"HASH\"}],"
    "\"GlobalSecondaryIndexes\":[{\"IndexName\":\"gsi1\",\"IndexStatus\":\"ACTIVE\",\"KeySchema\":["
    "{\"AttributeName\":\"Root\",\"KeyType\":\"HASH\"},{\"AttributeName\":\"Path\",\"KeyType\":"
    "\"RANGE\"}],\"Projection\":{\"ProjectionType\":\"ALL\"}}]}}";

struct answer {
    char text[1500];
    size_t len;
};

static void make_answer(struct answer *a, const char *body) {
    uint32_t crc = (uint32_t)crc32(0, (const unsigned char *)body, (unsigned)strlen(body));
    int len = snprintf(a->text, sizeof a->text,
                       "HTTP/1.1 200 OK\r\nServer: Server\r\nContent-Type: "
                       "application/x-amz-json-1.0\r\nContent-Length: %zu\r\nConnection: "
                       "keep-alive\r\nx-amzn-RequestId: "
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567ABCDEFGHIJKLMNOPQRST\r\n"
                       "x-amz-crc32: %u\r\n\r\n%s",
                       strlen(body), crc, body);
    a->len = (size_t)len;
}

static uint64_t count_items(const char *body, size_t len) {
    static const char word[] = "{\"PutRequest\"";
    uint64_t items = 0;
    const char *at = body, *end = body + len;
    while ((at = memmem(at, (size_t)(end - at), word, sizeof word - 1)) != NULL) {
        items++;
        at += sizeof word - 1;
    }
    return items;
}

/* Bytes of the first whole request, 0 when more must come; answers it. */
static size_t serve_one(struct connection *c, size_t from, const struct answer *written,
                        const struct answer *table, struct counts *counts) {
    const char *text = c->bytes + from;
    const char *blank = memmem(text, c->len - from, "\r\n\r\n", 4);
    if (!blank) {
        return 0;
    }
    size_t head = (size_t)(blank - text) + 4, body = 0;
    const char *length = strcasestr(text, "\r\nContent-Length:");
    if (length && length < blank) {
        body = strtoul(length + 17, NULL, 10);
    }
    if (c->len - from < head + body) {
        return 0;
    }
    const char *describe = memmem(text, head, ".DescribeTable", 14);
    const struct answer *answer = describe ? table : written;
    counts->requests++;
    counts->items += count_items(text + head, body);
    if (write(c->fd, answer->text, answer->len) != (ssize_t)answer->len) {
        return 0;
    }
    return head + body;
}

/* False when the connection has ended. */
static bool serve(struct connection *c, const struct answer *written, const struct answer *table,
                  struct counts *counts) {
    if (c->cap - c->len < FIRST_BYTES) {
        size_t cap = 2 * c->cap + 2 * FIRST_BYTES;
        char *grown = cap <= 2 * (size_t)REQUEST_BYTES_MAX ? realloc(c->bytes, cap + 1) : NULL;
        if (!grown) {
            return false;
        }
        c->bytes = grown;
        c->cap = cap;
    }
    ssize_t got = read(c->fd, c->bytes + c->len, c->cap - c->len);
    if (got <= 0) {
        return false;
    }
    c->len += (size_t)got;
    c->bytes[c->len] = '\0';
    size_t from = 0, used;
    while (from < c->len && (used = serve_one(c, from, written, table, counts)) > 0) {
        from += used;
    }
    memmove(c->bytes, c->bytes + from, c->len - from);
    c->len -= from;
    return true;
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) != 0 || listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        perror("sink");
        exit(1);
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void add(int epoll, int fd, void *what) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void accept_one(int epoll, int listener) {
    struct connection *c = calloc(1, sizeof *c);
    int one = 1;
    if (!c) {
        return;
    }
    c->fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    add(epoll, c->fd, c);
}

int main(int argc, char **argv) {
    static char listening, input; /* marks of the two descriptors that are no connections */
    struct answer written, table;
    struct counts counts = {0, 0};
    make_answer(&written, "{\"UnprocessedItems\":{}}");
    make_answer(&table, table_json);
    int listener = listen_on(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    add(epoll, listener, &listening);
    add(epoll, STDIN_FILENO, &input);
    for (bool going = true; going;) {
        struct epoll_event events[EVENTS];
        int n = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            char byte;
            if ((void *)c == &listening) {
                accept_one(epoll, listener);
            } else if ((void *)c == &input) {
                going = read(STDIN_FILENO, &byte, 1) > 0;
            } else if (!serve(c, &written, &table, &counts)) {
                close(c->fd);
                free(c->bytes);
                free(c);
            }
        }
    }
    printf("%llu requests %llu items\n", (unsigned long long)counts.requests,
           (unsigned long long)counts.items);
    return 0;
}
