#ifndef ESP_STORES_LOCAL_ENV_H
#define ESP_STORES_LOCAL_ENV_H
/*
 * An LMDB environment (a folder) and its trees, shared by everything in this process that
 * opens the same folder: LMDB forbids opening one twice.
 *
 * Locks: `define` is held by whoever opens or creates trees, from before his transaction
 * until after it; `map` is held for reading by every transaction, for writing only to take
 * over a map that another process has made bigger.
 */
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/mem.h"

enum { LOCAL_TREES_MAX = 1024 }; /* tables at once, loads under way included */

struct local_tree {
    MDB_dbi dbi;
    atomic_uint ordinal; /* the n-th to be opened; 0: not open */
};

struct local_env {
    struct local_env *next; /* in the registry */
    unsigned users;
    uint64_t device, inode; /* of the folder */
    bool temporary, sync;
    MDB_env *env;
    pthread_rwlock_t map;
    bool lost; /* there is no map any more; under `map` */
    pthread_mutex_t define;
    struct local_tree trees[LOCAL_TREES_MAX]; /* [0] is the catalog */
    atomic_uint opened;                       /* trees so far */
    int claim_fd;                             /* byte n is locked: tree n is being built */
    pthread_mutex_t claim_lock;
    bool claimed[LOCAL_TREES_MAX]; /* by this process */
    char path[1024];
};

/* Has a store ever been opened in the folder? */
bool local_env_exists(const char *folder);
/* `folder` "" makes a temporary one, which has no name any more when this returns: it is
 * gone with the process whatever becomes of that. */
enum esp_status local_env_open(const char *folder, bool sync, struct local_env **out,
                               struct esp_error *err) ESP_MUST_CHECK;
void local_env_close(struct local_env *env);
/* Make a tree known that exists; takes `define`. */
enum esp_status local_env_open_tree(struct local_env *env, uint32_t tree,
                                    struct esp_error *err) ESP_MUST_CHECK;
/* May a transaction begin?  With `map` held. */
enum esp_status local_env_check(const struct local_env *env, struct esp_error *err) ESP_MUST_CHECK;
/* Inside a transaction, with `define` held. */
enum esp_status local_env_dbi(struct local_env *env, MDB_txn *txn, uint32_t tree, unsigned flags,
                              MDB_dbi *dbi, struct esp_error *err) ESP_MUST_CHECK;
/* After that transaction's commit. */
void local_env_publish(struct local_env *env, uint32_t tree, MDB_dbi dbi);
bool local_env_claim(struct local_env *env, uint32_t tree);
void local_env_unclaim(struct local_env *env, uint32_t tree);
/* The status and sentence for LMDB's error code. */
enum esp_status local_env_fail(const struct local_env *env, int code, const char *doing,
                               struct esp_error *err);

#endif
