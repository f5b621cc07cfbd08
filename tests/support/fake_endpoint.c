#include "tests/support/fake_endpoint.h"
#include "tests/support/support.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { CONNECTIONS_MAX = 1024, REQUEST_BYTES_MAX = 20 << 20, CLOCK_SLACK_S = 300 };

struct esp_fake {
    int listener;
    char url[64];
    pthread_t acceptor;
    pthread_mutex_t lock; /* everything below */
    esp_fake_script_fn *script;
    void *ctx;
    uint64_t requests;
    json_t *tables; /* name -> {"description":{...},"items":{key:item}} */
    json_t *tokens; /* of transactions that were carried out */
    struct connection {
        int fd;
        pthread_t thread;
        struct esp_fake *fake;
    } connections[CONNECTIONS_MAX];
    size_t connection_count;
    bool stopping;
};

/* --- items ------------------------------------------------------------------------ */

static json_t *table_of(struct esp_fake *fake, const json_t *request) {
    return json_object_get(fake->tables, json_string_value(json_object_get(request, "TableName")));
}

static const char *key_name(const json_t *table, size_t i) {
    const json_t *keys = json_object_get(json_object_get(table, "description"), "KeySchema");
    return json_string_value(json_object_get(json_array_get(keys, i), "AttributeName"));
}

/* The text of the key attributes: malloc'ed. */
static char *key_text(const json_t *table, const json_t *item) {
    const char *pk = key_name(table, 0), *sk = key_name(table, 1);
    const char *p = json_string_value(json_object_get(json_object_get(item, pk), "S"));
    const char *s = sk ? json_string_value(json_object_get(json_object_get(item, sk), "S")) : "";
    char *text = NULL;
    if (!p || !s || asprintf(&text, "%s%s%s", p, sk ? "\n" : "", s) < 0) {
        return NULL;
    }
    return text;
}

static json_t *items_of(const json_t *table) {
    return json_object_get(table, "items");
}

static bool is_poisoned(const json_t *item) {
    return json_object_get(item, ESP_FAKE_POISON) != NULL;
}

/* --- answers ---------------------------------------------------------------------- */

struct reply {
    int status;
    json_t *body;
};

static struct reply error_reply(int status, const char *name, const char *message) {
    char type[200];
    snprintf(type, sizeof type, "com.amazonaws.dynamodb.v20120810#%s", name);
    return (struct reply){status, json_pack("{s:s,s:s}", "__type", type, "message", message)};
}

static struct reply refused(const char *message) {
    return error_reply(400, "ValidationException", message);
}

static json_t *one_unit(const char *table) {
    return json_pack("{s:s,s:f,s:{s:f}}", "TableName", table, "CapacityUnits", 1.0, "Table",
                     "CapacityUnits", 1.0);
}

/* --- expressions --------------------------------------------------------------------- */

static const char *placeholder_name(const json_t *r, const char *text) {
    char word[32] = "";
    sscanf(text, "%31[#a-z0-9]", word);
    return json_string_value(json_object_get(json_object_get(r, "ExpressionAttributeNames"), word));
}

static const json_t *placeholder_value(const json_t *r, const char *text) {
    char word[32] = "";
    sscanf(text, "%31[:a-z0-9]", word);
    return json_object_get(json_object_get(r, "ExpressionAttributeValues"), word);
}

static bool condition_holds(const json_t *r, const json_t *item) {
    const char *text = json_string_value(json_object_get(r, "ConditionExpression"));
    if (!text) {
        return true;
    }
    const char *hash = strchr(text, '#');
    const json_t *value = json_object_get(item, placeholder_name(r, hash ? hash : ""));
    if (strncmp(text, "attribute_not_exists", 20) == 0) {
        return value == NULL;
    }
    if (strncmp(text, "attribute_exists", 16) == 0) {
        return value != NULL;
    }
    const char *colon = strchr(text, ':');
    return value && colon && json_equal(value, placeholder_value(r, colon));
}

static void apply_change(const json_t *r, char kind, const char *clause, json_t *item) {
    const char *name = placeholder_name(r, clause), *colon = strchr(clause, ':');
    const json_t *value = colon ? placeholder_value(r, colon) : NULL;
    if (kind == 'R') {
        json_object_del(item, name);
    } else if (kind == 'S') {
        json_object_set_new(item, name, json_deep_copy(value));
    } else {
        const char *old = json_string_value(json_object_get(json_object_get(item, name), "N"));
        const char *add = json_string_value(json_object_get(value, "N"));
        char sum[32];
        snprintf(sum, sizeof sum, "%lld",
                 (old ? strtoll(old, NULL, 10) : 0) + (add ? strtoll(add, NULL, 10) : 0));
        json_object_set_new(item, name, json_pack("{s:s}", "N", sum));
    }
}

/* "SET #n0 = :v0, #n1 = :v1 REMOVE #n2 ADD #n3 :v2" */
static void apply_changes(const json_t *r, json_t *item) {
    const char *text = json_string_value(json_object_get(r, "UpdateExpression"));
    char kind = 'S';
    for (const char *at = text; at && *at; at++) {
        if (*at >= 'A' && *at <= 'Z') {
            kind = *at;
            at += strcspn(at, " ") - 1;
        } else if (*at == '#') {
            char clause[64];
            size_t len = strcspn(at, ",RADS");
            snprintf(clause, sizeof clause, "%.*s", (int)(len < 63 ? len : 63), at);
            apply_change(r, kind, clause, item);
            at += len - 1;
        }
    }
}

/* --- operations ------------------------------------------------------------------------ */

/* One write; `action` is the member of a transaction or the request itself. */
static void write_one(const json_t *table, const json_t *r, const char *kind, const char *key,
                      json_t **old) {
    json_t *items = items_of(table);
    *old = json_incref(json_object_get(items, key));
    if (strcmp(kind, "Put") == 0) {
        json_object_set_new(items, key, json_deep_copy(json_object_get(r, "Item")));
    } else if (strcmp(kind, "Delete") == 0) {
        json_object_del(items, key);
    } else if (strcmp(kind, "Update") == 0) {
        json_t *item = json_deep_copy(*old ? *old : json_object_get(r, "Key"));
        apply_changes(r, item);
        json_object_set_new(items, key, item);
    }
}

static struct reply single_write(const json_t *table, const json_t *r, const char *kind) {
    const json_t *item = json_object_get(r, kind[0] == 'P' ? "Item" : "Key");
    char *key = key_text(table, item);
    json_t *old = NULL;
    if (!key || is_poisoned(item)) {
        free(key);
        return refused("One or more parameter values were invalid");
    }
    if (!condition_holds(r, json_object_get(items_of(table), key))) {
        free(key);
        return error_reply(400, "ConditionalCheckFailedException",
                           "The conditional request failed");
    }
    write_one(table, r, kind, key, &old);
    free(key);
    json_t *body = json_object();
    if (old && json_object_get(r, "ReturnValues")) {
        json_object_set(body, "Attributes", old);
    }
    json_decref(old);
    return (struct reply){200, body};
}

static struct reply batch_write(struct esp_fake *fake, const json_t *r, size_t keep) {
    json_t *unprocessed = json_object(), *list, *one;
    const char *name;
    size_t i;
    json_object_foreach(json_object_get(r, "RequestItems"), name, list) {
        json_t *table = json_object_get(fake->tables, name), *left = json_array(), *old;
        json_t *seen = json_object();
        bool bad = !table || json_array_size(list) > 25 || json_array_size(list) == 0;
        json_array_foreach(list, i, one) {
            const json_t *put = json_object_get(json_object_get(one, "PutRequest"), "Item");
            char *key =
                table ? key_text(table, put ? put
                                            : json_object_get(json_object_get(one, "DeleteRequest"),
                                                              "Key"))
                      : NULL;
            bad = bad || !key || is_poisoned(put) || json_object_get(seen, key);
            if (key) {
                json_object_set_new(seen, key, json_true());
            }
            free(key);
        }
        json_decref(seen);
        if (bad) {
            json_decref(left);
            json_decref(unprocessed);
            return table ? refused("Provided list of items is invalid")
                         : error_reply(400, "ResourceNotFoundException",
                                       "Requested resource not found");
        }
        json_array_foreach(list, i, one) {
            if (i < keep) {
                json_array_append(left, one);
                continue;
            }
            const json_t *put = json_object_get(one, "PutRequest");
            const json_t *del = json_object_get(one, "DeleteRequest");
            char *key = key_text(table, json_object_get(put ? put : del, put ? "Item" : "Key"));
            write_one(table, put, put ? "Put" : "Delete", key, &old);
            json_decref(old);
            free(key);
        }
        if (json_array_size(left)) {
            json_object_set(unprocessed, name, left);
        }
        json_decref(left);
    }
    return (struct reply){200, json_pack("{s:o}", "UnprocessedItems", unprocessed)};
}

static struct reply batch_get(struct esp_fake *fake, const json_t *r, size_t keep) {
    json_t *responses = json_object(), *unprocessed = json_object(), *want, *key_object;
    const char *name;
    size_t i;
    json_object_foreach(json_object_get(r, "RequestItems"), name, want) {
        json_t *table = json_object_get(fake->tables, name);
        json_t *found = json_array(), *left = json_array();
        json_array_foreach(json_object_get(want, "Keys"), i, key_object) {
            char *key = key_text(table, key_object);
            json_t *item = json_object_get(items_of(table), key ? key : "");
            if (i < keep) {
                json_array_append(left, key_object);
            } else if (item) {
                json_array_append(found, item);
            }
            free(key);
        }
        json_object_set_new(responses, name, found);
        if (json_array_size(left)) {
            json_object_set_new(unprocessed, name, json_pack("{s:O}", "Keys", left));
        }
        json_decref(left);
    }
    return (struct reply){
        200, json_pack("{s:o,s:o}", "Responses", responses, "UnprocessedKeys", unprocessed)};
}

static struct reply transact_write(struct esp_fake *fake, const json_t *r, bool conflict) {
    const char *token = json_string_value(json_object_get(r, "ClientRequestToken"));
    json_t *reasons = json_array(), *one, *action, *old;
    const char *kind;
    bool cancelled = false;
    size_t i;
    if (token && json_object_get(fake->tokens, token)) {
        json_decref(reasons);
        return (struct reply){200, json_object()};
    }
    for (int pass = 0; pass < 2 && !cancelled; pass++) {
        json_array_foreach(json_object_get(r, "TransactItems"), i, one) {
            json_object_foreach(one, kind, action) {
                json_t *table = table_of(fake, action);
                const json_t *item = json_object_get(action, kind[0] == 'P' ? "Item" : "Key");
                char *key = key_text(table, item);
                const char *code = "None";
                if (pass == 1) {
                    write_one(table, action, kind, key, &old);
                    json_decref(old);
                } else if (conflict && i == 0) {
                    code = "TransactionConflict";
                } else if (!condition_holds(action, json_object_get(items_of(table), key))) {
                    code = "ConditionalCheckFailed";
                }
                cancelled = cancelled || code[0] != 'N';
                json_array_append_new(reasons, json_pack("{s:s}", "Code", code));
                free(key);
            }
        }
    }
    if (!cancelled) {
        json_object_set_new(fake->tokens, token ? token : "", json_true());
        json_decref(reasons);
        return (struct reply){200, json_object()};
    }
    struct reply reply = error_reply(400, "TransactionCanceledException", "Transaction cancelled");
    json_object_set_new(reply.body, "CancellationReasons", reasons);
    return reply;
}

/* Query and Scan: every item whose pk (of table or index) is wanted, Limit of them. */
static struct reply read_page(const json_t *table, const json_t *r, bool query) {
    const char *text = json_string_value(json_object_get(r, "KeyConditionExpression"));
    const char *name = query && text ? placeholder_name(r, text) : NULL;
    const json_t *value = query && text ? placeholder_value(r, strchr(text, ':')) : NULL;
    size_t limit = (size_t)json_integer_value(json_object_get(r, "Limit")), count = 0;
    char *from = key_text(table, json_object_get(r, "ExclusiveStartKey"));
    json_t *items = json_array(), *last = NULL, *item;
    const char *key;
    bool started = from == NULL;
    json_object_foreach(items_of(table), key, item) {
        if (started && (!query || json_equal(json_object_get(item, name), value))) {
            if (limit && count == limit) {
                break;
            }
            json_array_append(items, item);
            last = item;
            count++;
        }
        started = started || strcmp(key, from) == 0;
    }
    json_t *body = json_pack("{s:o,s:I,s:I}", "Items", items, "Count", (json_int_t)count,
                             "ScannedCount", (json_int_t)count);
    if (limit && count == limit) {
        const char *pk = key_name(table, 0), *sk = key_name(table, 1);
        json_t *position = json_pack("{s:O}", pk, json_object_get(last, pk));
        if (sk) {
            json_object_set(position, sk, json_object_get(last, sk));
        }
        if (name && strcmp(name, pk) != 0) {
            json_object_set(position, name, json_object_get(last, name));
        }
        json_object_set_new(body, "LastEvaluatedKey", position);
    }
    free(from);
    return (struct reply){200, body};
}

static struct reply create_table(struct esp_fake *fake, const json_t *r) {
    json_t *description = json_deep_copy(r);
    json_object_set_new(description, "TableStatus", json_string("ACTIVE"));
    json_object_set_new(fake->tables, json_string_value(json_object_get(r, "TableName")),
                        json_pack("{s:O,s:{}}", "description", description, "items"));
    return (struct reply){200, json_pack("{s:o}", "TableDescription", description)};
}

static struct reply on_tables(struct esp_fake *fake, const char *op, const json_t *r) {
    json_t *table = table_of(fake, r);
    if (strcmp(op, "ListTables") == 0) {
        json_t *names = json_array(), *one;
        const char *name;
        json_object_foreach(fake->tables, name, one) {
            json_array_append_new(names, json_string(name));
        }
        return (struct reply){200, json_pack("{s:o}", "TableNames", names)};
    }
    if (strcmp(op, "CreateTable") == 0) {
        return table ? error_reply(400, "ResourceInUseException", "Table already exists")
                     : create_table(fake, r);
    }
    if (!table) {
        return error_reply(400, "ResourceNotFoundException", "Requested resource not found");
    }
    json_t *body =
        json_pack("{s:O}", strcmp(op, "DescribeTable") == 0 ? "Table" : "TableDescription",
                  json_object_get(table, "description"));
    if (strcmp(op, "DeleteTable") == 0) {
        json_object_del(fake->tables, json_string_value(json_object_get(r, "TableName")));
    }
    return (struct reply){200, body};
}

static struct reply perform(struct esp_fake *fake, const char *op, const json_t *r,
                            const struct esp_fake_action *action) {
    size_t keep = action->fault == ESP_FAKE_UNPROCESSED ? action->keep : 0;
    if (strstr(op, "Table")) {
        return on_tables(fake, op, r);
    }
    if (strcmp(op, "BatchWriteItem") == 0) {
        return batch_write(fake, r, keep);
    }
    if (strcmp(op, "BatchGetItem") == 0) {
        return batch_get(fake, r, keep);
    }
    if (strcmp(op, "TransactWriteItems") == 0) {
        return transact_write(fake, r, action->fault == ESP_FAKE_CONFLICT);
    }
    json_t *table = table_of(fake, r);
    if (!table) {
        return error_reply(400, "ResourceNotFoundException", "Requested resource not found");
    }
    if (strcmp(op, "GetItem") == 0) {
        char *key = key_text(table, json_object_get(r, "Key"));
        json_t *item = json_object_get(items_of(table), key ? key : "");
        free(key);
        return (struct reply){200, item ? json_pack("{s:O}", "Item", item) : json_object()};
    }
    if (strcmp(op, "Query") == 0 || strcmp(op, "Scan") == 0) {
        return read_page(table, r, op[0] == 'Q');
    }
    const char *kind = strcmp(op, "PutItem") == 0      ? "Put"
                       : strcmp(op, "DeleteItem") == 0 ? "Delete"
                       : strcmp(op, "UpdateItem") == 0 ? "Update"
                                                       : NULL;
    return kind ? single_write(table, r, kind)
                : error_reply(400, "UnknownOperationException", "unknown operation");
}

/* --- HTTP ----------------------------------------------------------------------------- */

static bool clock_refused(const char *head, int64_t skew_s) {
    const char *date = strcasestr(head, "\r\nX-Amz-Date: ");
    struct tm tm = {0};
    if (!date || !strptime(date + 14, "%Y%m%dT%H%M%SZ", &tm)) {
        return true;
    }
    int64_t off_s = (int64_t)timegm(&tm) - ((int64_t)time(NULL) + skew_s);
    return off_s > CLOCK_SLACK_S || off_s < -CLOCK_SLACK_S;
}

static bool send_all(int fd, const char *bytes, size_t len) {
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

/* False when the connection ends with it. */
static bool send_reply(int fd, const struct reply *reply, const struct esp_fake_action *action) {
    char *body = action->fault == ESP_FAKE_GARBAGE ? strdup("<html>proxy</html>")
                 : reply->body                     ? json_dumps(reply->body, JSON_COMPACT)
                                                   : strdup("Service Unavailable");
    size_t len = strlen(body), size = len + 1024, at;
    char *text = malloc(size), date[64];
    uint32_t crc = (uint32_t)crc32(0, (const unsigned char *)body, (unsigned)len);
    time_t now = time(NULL) + action->skew_s;
    struct tm tm;
    strftime(date, sizeof date, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", gmtime_r(&now, &tm));
    at = (size_t)snprintf(
        text, size, "HTTP/1.1 %d X\r\nContent-Type: application/x-amz-json-1.0\r\n%s",
        action->fault == ESP_FAKE_GARBAGE ? 200 : reply->status, action->no_date ? "" : date);
    if (!action->no_crc && action->fault != ESP_FAKE_GARBAGE) {
        at += (size_t)snprintf(text + at, size - at, "x-amz-crc32: %u\r\n",
                               action->fault == ESP_FAKE_WRONG_CRC ? ~crc : crc);
    }
    if (action->retry_after_ms) {
        at += (size_t)snprintf(text + at, size - at, "x-amz-retry-after: %u\r\n",
                               action->retry_after_ms);
    }
    if (action->chunked) {
        size_t half = len / 2;
        at += (size_t)snprintf(
            text + at, size - at,
            "Transfer-Encoding: chunked\r\n\r\n%zx\r\n%.*s\r\n%zx\r\n%s\r\n0\r\n\r\n",
            half ? half : len, (int)(half ? half : len), body, len - half, half ? body + half : "");
    } else {
        at += (size_t)snprintf(text + at, size - at, "Content-Length: %zu\r\n\r\n%s", len, body);
    }
    bool cut = action->fault == ESP_FAKE_TRUNCATE;
    bool sent = send_all(fd, text, cut ? at - len / 2 - 1 : at);
    free(text);
    free(body);
    return sent && !cut;
}

/* A request is whole: do what the script says.  False when the connection ends. */
static bool serve(struct esp_fake *fake, int fd, const char *head, const char *body) {
    char op[64] = "";
    const char *target = strcasestr(head, "\r\nX-Amz-Target: DynamoDB_20120810.");
    if (target) {
        sscanf(target + 34, "%63[A-Za-z]", op);
    }
    struct esp_fake_action action = {.fault = ESP_FAKE_NONE};
    struct reply reply = {0, NULL};
    json_t *request = json_loads(body, 0, NULL);
    pthread_mutex_lock(&fake->lock);
    struct esp_fake_request seen = {op, head, body, fake->requests++};
    if (fake->script) {
        action = fake->script(fake->ctx, &seen);
    }
    bool undone = action.fault == ESP_FAKE_ERROR_BEFORE || action.fault == ESP_FAKE_DROP_BEFORE;
    if (!request) {
        reply = error_reply(400, "SerializationException", "the request is not JSON");
    } else if (clock_refused(head, action.skew_s)) {
        reply = error_reply(400, "InvalidSignatureException", "Signature expired");
    } else if (!undone) {
        reply = perform(fake, op, request, &action);
        const char *table = json_string_value(json_object_get(request, "TableName"));
        if (reply.status == 200 && table && !strstr(op, "Table")) {
            json_object_set_new(reply.body, "ConsumedCapacity", one_unit(table));
        }
    }
    if (action.fault == ESP_FAKE_ERROR_BEFORE || action.fault == ESP_FAKE_ERROR_AFTER) {
        json_decref(reply.body);
        reply = action.error_name ? error_reply(action.status, action.error_name, "as scripted")
                                  : (struct reply){action.status, NULL};
    }
    pthread_mutex_unlock(&fake->lock);
    if (action.delay_ms) {
        usleep(action.delay_ms * 1000);
    }
    bool drop = action.fault == ESP_FAKE_DROP_BEFORE || action.fault == ESP_FAKE_DROP_AFTER;
    bool alive = !drop && send_reply(fd, &reply, &action);
    json_decref(reply.body);
    json_decref(request);
    return alive;
}

static void *run_connection(void *arg) {
    const struct connection *c = arg;
    int fd = c->fd;
    struct esp_fake *fake = c->fake;
    size_t len = 0, cap = 1 << 16;
    char *bytes = malloc(cap + 1);
    for (;;) {
        ssize_t got = recv(fd, bytes + len, cap - len, 0);
        if (got <= 0) {
            break;
        }
        len += (size_t)got;
        bytes[len] = '\0';
        char *blank = strstr(bytes, "\r\n\r\n");
        const char *length = strcasestr(bytes, "\r\nContent-Length:");
        size_t head = blank ? (size_t)(blank - bytes) + 4 : 0;
        size_t body = blank && length && length < blank ? strtoul(length + 17, NULL, 10) : 0;
        if (blank && len >= head + body) {
            *blank = '\0'; /* one request at a time: nothing follows it */
            len = 0;
            if (!serve(fake, fd, bytes, bytes + head)) {
                break;
            }
        } else if (head + body > cap && head + body < REQUEST_BYTES_MAX) {
            cap = head + body;
            bytes = realloc(bytes, cap + 1);
        }
    }
    free(bytes);
    shutdown(fd, SHUT_RDWR);
    return NULL;
}

static void *run_acceptor(void *arg) {
    struct esp_fake *fake = arg;
    for (;;) {
        int one = 1, fd = accept(fake->listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        pthread_mutex_lock(&fake->lock);
        size_t i = fake->connection_count;
        bool room = !fake->stopping && i < CONNECTIONS_MAX;
        if (room) {
            fake->connections[i].fd = fd;
            fake->connections[i].fake = fake;
            room = pthread_create(&fake->connections[i].thread, NULL, run_connection,
                                  &fake->connections[i]) == 0;
            fake->connection_count += room;
        }
        pthread_mutex_unlock(&fake->lock);
        if (!room) {
            close(fd);
        }
    }
}

/* --- life ------------------------------------------------------------------------------ */

struct esp_fake *esp_fake_start(esp_fake_script_fn *script, void *ctx) {
    struct esp_fake *fake = calloc(1, sizeof *fake);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    assert_non_null(fake);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (const struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fake->listener, 64), 0);
    assert_int_equal(getsockname(fake->listener, (struct sockaddr *)&address, &len), 0);
    snprintf(fake->url, sizeof fake->url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    pthread_mutex_init(&fake->lock, NULL);
    fake->script = script;
    fake->ctx = ctx;
    fake->tables = json_object();
    fake->tokens = json_object();
    assert_int_equal(pthread_create(&fake->acceptor, NULL, run_acceptor, fake), 0);
    return fake;
}

void esp_fake_stop(struct esp_fake *fake) {
    pthread_mutex_lock(&fake->lock);
    fake->stopping = true;
    shutdown(fake->listener, SHUT_RDWR);
    for (size_t i = 0; i < fake->connection_count; i++) {
        shutdown(fake->connections[i].fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&fake->lock);
    pthread_join(fake->acceptor, NULL);
    for (size_t i = 0; i < fake->connection_count; i++) {
        pthread_join(fake->connections[i].thread, NULL);
        close(fake->connections[i].fd);
    }
    close(fake->listener);
    json_decref(fake->tables);
    json_decref(fake->tokens);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

const char *esp_fake_url(const struct esp_fake *fake) {
    return fake->url;
}

void esp_fake_set_script(struct esp_fake *fake, esp_fake_script_fn *script, void *ctx) {
    pthread_mutex_lock(&fake->lock);
    fake->script = script;
    fake->ctx = ctx;
    pthread_mutex_unlock(&fake->lock);
}

static json_t *key_schema(const char *pk, const char *sk) {
    json_t *keys = json_pack("[{s:s,s:s}]", "AttributeName", pk, "KeyType", "HASH");
    if (sk) {
        json_array_append_new(keys,
                              json_pack("{s:s,s:s}", "AttributeName", sk, "KeyType", "RANGE"));
    }
    return keys;
}

void esp_fake_add_table(struct esp_fake *fake, const char *name, const char *pk, const char *sk,
                        const char *index_pk) {
    json_t *description = json_pack("{s:s,s:s,s:o}", "TableName", name, "TableStatus", "ACTIVE",
                                    "KeySchema", key_schema(pk, sk));
    if (index_pk) {
        json_object_set_new(description, "GlobalSecondaryIndexes",
                            json_pack("[{s:s,s:o,s:{s:s}}]", "IndexName", "by-parent", "KeySchema",
                                      key_schema(index_pk, NULL), "Projection", "ProjectionType",
                                      "ALL"));
    }
    pthread_mutex_lock(&fake->lock);
    json_object_set_new(fake->tables, name,
                        json_pack("{s:o,s:{}}", "description", description, "items"));
    pthread_mutex_unlock(&fake->lock);
}

uint64_t esp_fake_requests(struct esp_fake *fake) {
    pthread_mutex_lock(&fake->lock);
    uint64_t requests = fake->requests;
    pthread_mutex_unlock(&fake->lock);
    return requests;
}

size_t esp_fake_item_count(struct esp_fake *fake, const char *table) {
    pthread_mutex_lock(&fake->lock);
    size_t count = json_object_size(items_of(json_object_get(fake->tables, table)));
    pthread_mutex_unlock(&fake->lock);
    return count;
}

char *esp_fake_item(struct esp_fake *fake, const char *table, const char *key) {
    pthread_mutex_lock(&fake->lock);
    json_t *item = json_object_get(items_of(json_object_get(fake->tables, table)), key);
    char *text = item ? json_dumps(item, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    pthread_mutex_unlock(&fake->lock);
    return text;
}
