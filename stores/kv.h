#ifndef ESP_STORES_KV_H
#define ESP_STORES_KV_H
/*
 * An ordered key-value database: the little that the engine needs of one.  Trees are known
 * by number; in each, keys are bytes in memcmp order, shorter first.  Tree 0 is the
 * engine's catalog and always there.
 *
 * A session is one thread's access.  It has at most one transaction open: any number of
 * readers see the last commit before they began, one writer at a time.  Every pointer a
 * session gives out is valid until its next write or the end of its transaction.
 */
#include "core/mem.h"

enum { ESP_KV_CATALOG = 0 };

enum esp_kv_mode {
    ESP_KV_READ,
    ESP_KV_WRITE,
    ESP_KV_DEFINE, /* a write that may call tree_create */
};

struct esp_kv {
    const struct esp_kv_ops *ops;
    const struct esp_alloc *alloc;
};
struct esp_kv_session {
    struct esp_kv *kv;
};

enum esp_kv_place {
    ESP_KV_AT_OR_AFTER, /* the first key that is not below the given one */
    ESP_KV_BEFORE,      /* the last key below the given one */
    ESP_KV_NEXT,        /* from where the last look-up ended; the key is not read */
    ESP_KV_PREVIOUS,
};

struct esp_kv_ops {
    enum esp_status (*session_open)(struct esp_kv *kv, struct esp_kv_session **out,
                                    struct esp_error *err);
    void (*session_close)(struct esp_kv_session *s); /* NULL is fine */

    enum esp_status (*begin)(struct esp_kv_session *s, enum esp_kv_mode mode,
                             struct esp_error *err);
    /* Ends a write; it is on disk when this returns (unless the database was told not to
     * wait).  On failure nothing of it was done. */
    enum esp_status (*commit)(struct esp_kv_session *s, struct esp_error *err);
    void (*end)(struct esp_kv_session *s); /* ends a read, takes back a write; none is fine */
    /* Changes with every commit of anybody; the same number means the same contents. */
    uint64_t (*version)(struct esp_kv_session *s);

    /* Is the tree usable in this transaction?  If not: end it, tree_open, begin again. */
    bool (*tree_ready)(struct esp_kv_session *s, uint32_t tree);
    enum esp_status (*tree_open)(struct esp_kv_session *s, uint32_t tree, struct esp_error *err);
    /* Make the tree; it may be there already, empty (a cleared one).  Mode DEFINE. */
    enum esp_status (*tree_create)(struct esp_kv_session *s, uint32_t tree, struct esp_error *err);
    /* Delete every key; the tree stays. */
    enum esp_status (*tree_clear)(struct esp_kv_session *s, uint32_t tree, struct esp_error *err);

    /* ERR_NOT_FOUND, without a sentence, when the key is not there. */
    enum esp_status (*get)(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_str *value, struct esp_error *err);
    enum esp_status (*put)(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_str value, struct esp_error *err);
    /* A key that is not there is fine. */
    enum esp_status (*del)(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                           struct esp_error *err);
    /* A put behind every key of the tree, for sorted loads. */
    enum esp_status (*append)(struct esp_kv_session *s, uint32_t tree, struct esp_str key,
                              struct esp_str value, struct esp_error *err);
    /* One position per session; writes lose it.  ESP_STOP when there is no such key. */
    enum esp_status (*look)(struct esp_kv_session *s, uint32_t tree, enum esp_kv_place place,
                            struct esp_str at, struct esp_str *key, struct esp_str *value,
                            struct esp_error *err);

    /* A claim on a tree under construction; it ends with the process.  False: another
     * one has it. */
    bool (*claim)(struct esp_kv_session *s, uint32_t tree);
    void (*unclaim)(struct esp_kv_session *s, uint32_t tree);
    /* Where sorted runs may be spilled: a folder, or NULL for the usual temporary one. */
    const char *(*spill_folder)(struct esp_kv *kv);
};

#endif
