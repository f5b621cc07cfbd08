#ifndef ESP_STORES_STORE_H
#define ESP_STORES_STORE_H
/*
 * Store: keeps items in tables.  Knows keys and bytes, knows nothing about trees.
 *
 *   esp_store    a database or endpoint; shared by all threads after open
 *   esp_table    one table of it with its schema; shared by all threads after open
 *   esp_session  one thread's use of a table: connections or transactions, buffers, meter
 *
 * Layouts, the loader and the bench call the esp_session_* functions.  Those check
 * arguments, split requests to DynamoDB's limits, fetch all pages, resend what was left
 * undone, and add up usage; a store implements single raw requests (`execute`) and the
 * bulk stream.
 *
 * To add a store: write stores/NAME.c (or stores/NAME/) defining
 * `const struct esp_store_ops esp_store_NAME` and add one line to stores/stores.def.
 * tests/conformance covers it from then on.
 */
#include "core/clock.h"
#include "core/option.h"
#include "stores/capacity.h"

/* --- requests --------------------------------------------------------------- */

enum esp_compare {
    ESP_ANY,
    ESP_EQ,
    ESP_LT,
    ESP_LE,
    ESP_GT,
    ESP_GE,
    ESP_BETWEEN,
    ESP_PREFIX,
    ESP_EXISTS,
    ESP_NOT_EXISTS,
    ESP_NE
};
enum { ESP_PRIMARY = -1 };

/* A condition on one attribute: a filter of a read, or a condition of a write.
 * A list of them holds when all do. */
struct esp_condition {
    struct esp_str name; /* structural or payload attribute */
    enum esp_compare op;
    struct esp_value lo, hi; /* hi only for BETWEEN (inclusive) */
};

/* Where a Query or Scan goes on: the LastEvaluatedKey.  Zeroed = from the start. */
struct esp_cursor {
    bool set;
    struct esp_item key; /* table key and index key; strings point into `bytes` */
    char bytes[2 * (ESP_PK_BYTES_MAX + ESP_SK_BYTES_MAX)];
};
/* Make a cursor from an item's keys; strings are copied. index: ESP_PRIMARY or position. */
void esp_cursor_set(struct esp_cursor *cursor, const struct esp_schema *schema, int index,
                    const struct esp_item *item);

struct esp_query {
    int index; /* ESP_PRIMARY or a position in schema->index */
    struct esp_value pk;
    enum esp_compare op; /* on the sort key: ANY, EQ, LT, LE, GT, GE, BETWEEN, PREFIX */
    struct esp_value lo, hi;
    const struct esp_condition *filter; /* all must hold; NULL when filter_count == 0 */
    size_t filter_count;
    bool consistent; /* table and LSIs only; ignored for GSIs: they are eventual */
    bool reverse;
    bool fetch;     /* LSI only: ALL_ATTRIBUTES although the index does not project them */
    uint64_t limit; /* items EVALUATED at most on a page; 0 = up to 1 MB */
};

struct esp_scan {
    int index;
    uint32_t segment, segments; /* segments == 0 means one */
    const struct esp_condition *filter;
    size_t filter_count;
    bool consistent;
    uint64_t limit; /* per page, as above */
};

enum esp_write_kind { ESP_PUT, ESP_DELETE, ESP_UPDATE, ESP_CHECK /* transactions only */ };
struct esp_write {
    enum esp_write_kind kind;
    struct esp_item item;             /* PUT: the item; else only the primary key is read */
    const struct esp_change *changes; /* UPDATE */
    size_t change_count;
    const struct esp_condition *condition; /* NULL: unconditional */
    size_t condition_count;
    /* What the caller knows to be there now (NULL: nothing, or not known): lets a store
     * that cannot see it meter the write.  Stores that can see it do not look. */
    const struct esp_item *old;
};

enum esp_request_kind {
    ESP_REQ_GET,      /* GetItem (n == 1), BatchGetItem (<= 100), TransactGetItems */
    ESP_REQ_QUERY,    /* one page */
    ESP_REQ_SCAN,     /* one page of one segment */
    ESP_REQ_WRITE,    /* n == 1: PutItem, DeleteItem, UpdateItem; else BatchWriteItem (<= 25
                         unconditional puts and deletes, no key twice) */
    ESP_REQ_TRANSACT, /* TransactWriteItems, <= 100 writes */
};

/* One raw request and its outcome. */
struct esp_request {
    enum esp_request_kind kind;
    union {
        struct {
            struct esp_item *keys; /* scratch: undone ones are moved to the front */
            size_t n;
            enum esp_consistency consistency;
        } get;
        const struct esp_query *query;
        const struct esp_scan *scan;
        struct {
            struct esp_write *w; /* scratch: undone ones are moved to the front */
            size_t n;
        } write;
    };
    struct esp_cursor *cursor; /* QUERY, SCAN: where to start; updated */
    esp_item_fn *fn;           /* GET, QUERY, SCAN: receives the items */
    void *ctx;
    /* outcome */
    enum esp_status status; /* ERR_CONDITION, ERR_CONFLICT, ... of this request */
    struct esp_error error;
    bool more;     /* QUERY, SCAN: another page follows from the cursor */
    size_t undone; /* GET, WRITE: keys or writes left (Unprocessed...) */
};

/* --- the plug-in ------------------------------------------------------------- */

enum esp_store_flag {
    ESP_STORE_BILLS = 1 << 0,    /* reports consumed capacity */
    ESP_STORE_REMOTE = 1 << 1,   /* latency includes a network */
    ESP_STORE_DISCARDS = 1 << 2, /* reads return nothing (null store) */
};

struct esp_store;
struct esp_table;
struct esp_session;

enum esp_billing { ESP_BILLING_UNKNOWN, ESP_BILLING_ON_DEMAND, ESP_BILLING_PROVISIONED };
struct esp_table_info {
    char name[256];
    char status[32];                 /* "ACTIVE" ... */
    uint64_t item_count, item_bytes; /* as the store knows them; DynamoDB's are hours old */
    uint64_t index_bytes[ESP_INDEX_MAX];
    enum esp_billing billing;
    uint64_t provisioned_read, provisioned_write; /* units a second */
    uint64_t warm_read, warm_write;               /* 0 = not reported */
    struct esp_schema schema; /* key attributes only; names in the caller's arena */
};

/* How a table is to be made. */
struct esp_table_options {
    enum esp_billing billing; /* UNKNOWN means on demand */
    uint64_t provisioned_read, provisioned_write;
};

struct esp_store_ops {
    const char *name;    /* "local" */
    const char *schemes; /* "local:" or "http:// https://": prefixes of STORE, blank-separated */
    const char *summary; /* one line for `espalier list stores` */
    unsigned flags;

    /* store->target is what follows the scheme ("DIR"), or the whole URL for http. */
    enum esp_status (*open)(struct esp_store *store, struct esp_error *err);
    void (*close)(struct esp_store *store);
    enum esp_status (*list_tables)(struct esp_store *store,
                                   enum esp_status (*fn)(void *ctx, struct esp_str name), void *ctx,
                                   struct esp_error *err);
    /* ERR_NOT_FOUND when there is no such table. */
    enum esp_status (*describe_table)(struct esp_store *store, const char *name,
                                      struct esp_arena *arena, struct esp_table_info *out,
                                      struct esp_error *err);
    /* ERR_EXISTS when there is one.  Returns when the table is ACTIVE / gone. */
    enum esp_status (*create_table)(struct esp_store *store, const char *name,
                                    const struct esp_schema *schema,
                                    const struct esp_table_options *options, struct esp_error *err);
    enum esp_status (*drop_table)(struct esp_store *store, const char *name, struct esp_error *err);

    enum esp_status (*table_open)(struct esp_table *table, struct esp_error *err);
    void (*table_close)(struct esp_table *table);
    enum esp_status (*session_open)(struct esp_session *session, struct esp_error *err);
    void (*session_close)(struct esp_session *session);

    /* Execute n independent requests, overlapped where the store can.  Outcomes and usage
     * are per request: an outcome that concerns one request (condition, undone part) is in
     * it and the call returns ESP_OK; the call itself fails only when going on is useless
     * (unreachable, credentials, no memory).  Adds to session->usage; requests and retries
     * are counted here, round trips by the session layer.  Retries what is retryable. */
    enum esp_status (*execute)(struct esp_session *session, struct esp_request *requests, size_t n,
                               struct esp_error *err);

    /* The bulk stream: puts in any order, no conditions, batches and connections kept full.
     * The item is encoded or copied before the call returns.  flush: every put of this
     * session so far is acknowledged (and, on a table of the local store, visible) or
     * counted in session->bulk as refused or left.  After a flush that failed, or was stopped,
     * its puts are left and forgotten; of those to an empty table of the local store none is
     * there then. */
    enum esp_status (*bulk_put)(struct esp_session *session, const struct esp_item *item,
                                struct esp_error *err);
    enum esp_status (*bulk_flush)(struct esp_session *session, struct esp_error *err);

    /* Optional, both or neither (NULL): a trial.  What the session writes after trial_begin only
     * the session sees; trial_end takes it back, or keeps it.  Other writers of the store wait
     * meanwhile; the same thread must not use another session of it, nor the bulk stream. */
    enum esp_status (*trial_begin)(struct esp_session *session, struct esp_error *err);
    enum esp_status (*trial_end)(struct esp_session *session, bool keep, struct esp_error *err);

    /* Optional: append where the store is, when the URL alone does not say (region, profile).
     * No secrets. */
    void (*put_place)(const struct esp_store *store, struct esp_buf *out);
};

struct esp_store {
    const struct esp_store_ops *ops;
    const char *target; /* owned copy */
    const struct esp_alloc *alloc;
    const struct esp_clock *clock;
    const struct esp_store_config *config; /* borrowed; see below */
    void *impl;
};

/* Settings a command line may give; zeroed = defaults. */
struct esp_store_config {
    const char *region, *profile, *endpoint_url; /* NULL: from environment and files */
    uint32_t connections;                        /* in flight per session; 0 = 16 */
    uint32_t batch;                              /* items a BatchWriteItem; 0 = 25 */
    uint64_t seed;                               /* jitter */
    bool no_sync;                                /* local: do not wait for the disk at commit */
    bool must_exist;     /* local: ERR_NOT_FOUND instead of making a store that is not there */
    uint64_t timeout_ms; /* give up on one operation after this; 0 = 60 s */
    uint64_t page_bytes; /* local, memory: bytes a page; 0 = 1 MiB (tests use 100) */
};

struct esp_table {
    struct esp_store *store; /* borrowed; must outlive the table */
    char name[256];
    struct esp_schema schema; /* copy; names borrowed from the layout */
    void *impl;
};

/* What became of bulk puts: planned = written + refused + left after a flush. */
struct esp_bulk_counts {
    uint64_t planned, written, refused, left;
};

/* Told of what a session's calls read, by somebody who wants to know later whether it still holds.
 * What they return that is not ESP_OK ends the call. */
struct esp_watch {
    /* Every item given to a caller; index: ESP_PRIMARY, or where it was found. */
    enum esp_status (*item)(void *ctx, int index, const struct esp_item *item);
    /* A query was answered up to `end` (not set: to its end); `begun`: an earlier answer to the
     * same query was told of. */
    enum esp_status (*range)(void *ctx, const struct esp_query *query, bool begun,
                             const struct esp_cursor *end);
    void *ctx;
};

struct esp_session {
    struct esp_table *table; /* borrowed; must outlive the session */
    struct esp_usage usage;  /* everything this session has done so far */
    struct esp_bulk_counts bulk;
    /* Receives every refused bulk item with its reason; may be NULL. */
    void (*on_refused)(void *ctx, const struct esp_item *item, const struct esp_error *why);
    void *on_refused_ctx;
    const volatile int *stop; /* polled while waiting; set from a signal handler; may be NULL */
    uint64_t deadline_ns;     /* monotonic; 0 = none; past it calls return ERR_UNAVAILABLE */
    struct esp_undo *undo;    /* see stores/undo.h; NULL: off */
    const struct esp_watch *watch; /* of reads by key and queries; NULL: nobody; borrowed */
    /* For what callers keep of a whole table (checks); NULL: the store's.  See core/spill.h. */
    const struct esp_alloc *memory;
    struct esp_arena arena; /* the session layer's own scratch */
    void *impl;
};

/* --- what callers use --------------------------------------------------------- */
/* In all reads, what `fn` returns ends the call when it is not ESP_OK, and is returned (a store
 * reports it as the request's status).  A callback may use the session again, but not within
 * a store that answers from inside a read transaction: collect keys first. */

extern const struct esp_store_ops *const esp_stores[]; /* NULL-terminated */

/* STORE as on the command line: "local:DIR", "memory:", "null:", "dynamodb:",
 * "http://host:port".  ERR_USAGE lists the schemes.  config and clock are borrowed;
 * config may be NULL. */
enum esp_status esp_store_open(const char *url, const struct esp_store_config *config,
                               const struct esp_clock *clock, const struct esp_alloc *alloc,
                               struct esp_store **out, struct esp_error *err) ESP_MUST_CHECK;
void esp_store_close(struct esp_store *store); /* NULL is fine */
/* Append what tells this store from all others, without secrets: for files that are kept about
 * its tables.  "https://dynamodb.eu-west-1.amazonaws.com". */
void esp_store_put_place(const struct esp_store *store, struct esp_buf *out);
enum { ESP_TABLE_NAME_BYTES_MIN = 3, ESP_TABLE_NAME_BYTES_MAX = 255 };
/* ERR_REFUSED with a sentence when DynamoDB would not take the name. */
enum esp_status esp_table_name_check(const char *name, struct esp_error *err) ESP_MUST_CHECK;
/* The table need not exist yet for DISCARDS stores; else ERR_NOT_FOUND. */
enum esp_status esp_table_open(struct esp_store *store, const char *name,
                               const struct esp_schema *schema, struct esp_table **out,
                               struct esp_error *err) ESP_MUST_CHECK;
void esp_table_close(struct esp_table *table); /* NULL is fine */
enum esp_status esp_session_open(struct esp_table *table, struct esp_session **out,
                                 struct esp_error *err) ESP_MUST_CHECK;
void esp_session_close(struct esp_session *session); /* NULL is fine */

/* Missing keys are skipped silently: count what arrives.  No key twice.  Batches of 100,
 * overlapped: one round trip.  keys[] is scratch. */
enum esp_status esp_session_get(struct esp_session *s, struct esp_item *keys, size_t n,
                                bool consistent, esp_item_fn *fn, void *ctx,
                                struct esp_error *err) ESP_MUST_CHECK;
/* All pages, in sort-key order. */
enum esp_status esp_session_query(struct esp_session *s, const struct esp_query *q, esp_item_fn *fn,
                                  void *ctx, struct esp_error *err) ESP_MUST_CHECK;
/* One page from the cursor; *more says whether another follows. */
enum esp_status esp_session_query_page(struct esp_session *s, const struct esp_query *q,
                                       struct esp_cursor *cursor, bool *more, esp_item_fn *fn,
                                       void *ctx, struct esp_error *err) ESP_MUST_CHECK;
/* n independent queries, all pages, overlapped; round trips = the longest chain of pages.
 * Order across queries is free; `fn` gets the items of all of them. */
enum esp_status esp_session_query_many(struct esp_session *s, const struct esp_query *q, size_t n,
                                       esp_item_fn *fn, void *ctx,
                                       struct esp_error *err) ESP_MUST_CHECK;
/* All pages of one segment (or of the table). */
enum esp_status esp_session_scan(struct esp_session *s, const struct esp_scan *scan,
                                 esp_item_fn *fn, void *ctx, struct esp_error *err) ESP_MUST_CHECK;
/* The whole table (or index) in 1 to 64 segments whose requests overlap; round trips = the
 * longest chain of pages.  `scan` without its segments.  Items of one partition key come in
 * order, with items of others between them. */
enum esp_status esp_session_scan_many(struct esp_session *s, const struct esp_scan *scan,
                                      uint32_t segments, esp_item_fn *fn, void *ctx,
                                      struct esp_error *err) ESP_MUST_CHECK;
/* Do all n writes, in any order, overlapped: unconditional puts and deletes in batches,
 * updates and conditional writes one request each.  No key twice.  w[] is scratch.
 * The first refused one fails the call (ERR_CONDITION ...), the others are done all the
 * same; a failure after which nobody knows (no answer) counts before all refusals.  *left (if
 * not NULL) is how many were not done, or are not known to be, and w[0 .. *left) are those. */
enum esp_status esp_session_write(struct esp_session *s, struct esp_write *w, size_t n,
                                  size_t *left, struct esp_error *err) ESP_MUST_CHECK;
/* All or nothing, at most 100; ERR_LIMIT above. */
enum esp_status esp_session_transact(struct esp_session *s, struct esp_write *w, size_t n,
                                     struct esp_error *err) ESP_MUST_CHECK;
/* The bulk stream (see esp_store_ops).  Counts planned here. */
enum esp_status esp_session_bulk_put(struct esp_session *s, const struct esp_item *item,
                                     struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_session_bulk_flush(struct esp_session *s, struct esp_error *err) ESP_MUST_CHECK;

/* Does the owner of `stop` want to stop?  NULL: never.  Threads and signal handlers set it. */
static inline bool esp_stop_wanted(const volatile int *stop) {
    return stop && __atomic_load_n(stop, __ATOMIC_RELAXED);
}

/* May it go on?  ERR_CANCELLED after `stop`, ERR_UNAVAILABLE past the deadline.  For stores, to
 * ask within calls that take long. */
enum esp_status esp_session_check(const struct esp_session *s,
                                  struct esp_error *err) ESP_MUST_CHECK;

#endif
