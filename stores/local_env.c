#include "stores/local_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { READERS_MAX = 1024, KEY_BYTES_MIN = 511, FILE_MODE = 0644, FOLDER_MODE = 0755 };
/* Address space only: the file is as big as what is in it. */
static const size_t map_bytes = SANITIZED ? (size_t)16 << 30 : (size_t)256 << 30;
static const size_t map_bytes_min = (size_t)1 << 28;

/* The one thing that must be known process-wide: which folders are open here. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct local_env *registry;

enum esp_status local_env_fail(const struct local_env *env, int code, const char *doing,
                               struct esp_error *err) {
    switch (code) {
    case ENOMEM:
        return esp_fail_nomem(err);
    case MDB_MAP_FULL:
        return esp_fail(err, ESP_ERR_LIMIT, "%s: the local store %s is full", doing, env->path);
    case MDB_READERS_FULL:
        return esp_fail(err, ESP_ERR_LIMIT, "%s: more than %d sessions use the local store %s",
                        doing, READERS_MAX, env->path);
    default:
        if (err && err->status == ESP_OK && code > 0) {
            err->os_errno = code;
        }
        return esp_fail(err, ESP_ERR_IO, "%s: local store %s: %s", doing, env->path,
                        mdb_strerror(code));
    }
}

/* --- trees ---------------------------------------------------------------------- */

enum esp_status local_env_dbi(struct local_env *env, MDB_txn *txn, uint32_t tree, unsigned flags,
                              MDB_dbi *dbi, struct esp_error *err) {
    char name[16];
    if (tree >= LOCAL_TREES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT, "the local store %s has %d tables already", env->path,
                        LOCAL_TREES_MAX);
    }
    snprintf(name, sizeof name, "t%u", tree);
    int code = mdb_dbi_open(txn, name, flags, dbi);
    return code ? local_env_fail(env, code, "opening a table", err) : ESP_OK;
}

void local_env_publish(struct local_env *env, uint32_t tree, MDB_dbi dbi) {
    if (atomic_load(&env->trees[tree].ordinal) == 0) {
        env->trees[tree].dbi = dbi;
        unsigned ordinal = atomic_load(&env->opened) + 1;
        atomic_store(&env->trees[tree].ordinal, ordinal);
        atomic_store(&env->opened, ordinal);
    }
}

/* In a transaction of its own: only what is committed can be used by others. */
static enum esp_status open_tree(struct local_env *env, uint32_t tree, unsigned flags,
                                 struct esp_error *err) {
    MDB_txn *txn;
    MDB_dbi dbi;
    int code = mdb_txn_begin(env->env, NULL, flags ? 0 : MDB_RDONLY, &txn);
    if (code) {
        return local_env_fail(env, code, "opening a table", err);
    }
    enum esp_status status = local_env_dbi(env, txn, tree, flags, &dbi, err);
    if (status != ESP_OK) {
        mdb_txn_abort(txn);
        return status;
    }
    code = mdb_txn_commit(txn);
    if (code) {
        return local_env_fail(env, code, "opening a table", err);
    }
    local_env_publish(env, tree, dbi);
    return ESP_OK;
}

enum esp_status local_env_check(const struct local_env *env, struct esp_error *err) {
    return env->lost ? esp_fail(err, ESP_ERR_IO,
                                "the local store %s has become too big for the address space that "
                                "is left: close it everywhere and open it again",
                                env->path)
                     : ESP_OK;
}

enum esp_status local_env_open_tree(struct local_env *env, uint32_t tree, struct esp_error *err) {
    if (tree >= LOCAL_TREES_MAX) {
        return esp_fail(err, ESP_ERR_IO, "the catalog of the local store %s is damaged", env->path);
    }
    pthread_mutex_lock(&env->define);
    pthread_rwlock_rdlock(&env->map);
    enum esp_status status = local_env_check(env, err);
    if (status == ESP_OK && atomic_load(&env->trees[tree].ordinal) == 0) {
        status = open_tree(env, tree, 0, err);
    }
    pthread_rwlock_unlock(&env->map);
    pthread_mutex_unlock(&env->define);
    return status;
}

/* --- claims --------------------------------------------------------------------- */

static bool lock_byte(struct local_env *env, uint32_t tree, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = tree, .l_len = 1};
    return env->claim_fd < 0 || fcntl(env->claim_fd, F_OFD_SETLK, &lock) == 0;
}

bool local_env_claim(struct local_env *env, uint32_t tree) {
    pthread_mutex_lock(&env->claim_lock);
    bool got = tree < LOCAL_TREES_MAX && !env->claimed[tree] && lock_byte(env, tree, F_WRLCK);
    if (got) {
        env->claimed[tree] = true;
    }
    pthread_mutex_unlock(&env->claim_lock);
    return got;
}

void local_env_unclaim(struct local_env *env, uint32_t tree) {
    pthread_mutex_lock(&env->claim_lock);
    lock_byte(env, tree, F_UNLCK);
    env->claimed[tree] = false;
    pthread_mutex_unlock(&env->claim_lock);
}

/* --- opening -------------------------------------------------------------------- */

static enum esp_status fail_errno(const char *path, const char *doing, struct esp_error *err) {
    int code = errno;
    if (err && err->status == ESP_OK) {
        err->os_errno = code;
    }
    return esp_fail(err, ESP_ERR_IO, "cannot %s %s: %s", doing, path, strerror(code));
}

bool local_env_exists(const char *folder) {
    char file[1100];
    int len = snprintf(file, sizeof file, "%s/data.mdb", folder);
    return len < (int)sizeof file && access(file, F_OK) == 0;
}

static enum esp_status make_folder(struct local_env *env, const char *folder,
                                   struct esp_error *err) {
    struct stat st;
    if (env->temporary) {
        const char *base = getenv("TMPDIR");
        snprintf(env->path, sizeof env->path, "%s/espalier-XXXXXX", base && *base ? base : "/tmp");
        if (!mkdtemp(env->path)) {
            return fail_errno(env->path, "make the temporary folder", err);
        }
    } else {
        if (strlen(folder) >= sizeof env->path) {
            return esp_fail(err, ESP_ERR_IO, "the name of the folder %.100s... is too long",
                            folder);
        }
        memcpy(env->path, folder, strlen(folder) + 1);
        if (mkdir(folder, FOLDER_MODE) != 0 && errno != EEXIST) {
            return fail_errno(folder, "make the folder", err);
        }
    }
    if (stat(env->path, &st) != 0) {
        return fail_errno(env->path, "look at the folder", err);
    }
    if (!S_ISDIR(st.st_mode)) {
        errno = ENOTDIR;
        return fail_errno(env->path, "open the folder", err);
    }
    env->device = st.st_dev;
    env->inode = st.st_ino;
    return ESP_OK;
}

static int try_open(struct local_env *env, size_t bytes) {
    int code = mdb_env_create(&env->env);
    if (code) {
        env->env = NULL;
        return code;
    }
    mdb_env_set_mapsize(env->env, bytes);
    mdb_env_set_maxdbs(env->env, LOCAL_TREES_MAX);
    mdb_env_set_maxreaders(env->env, READERS_MAX);
    code = mdb_env_open(env->env, env->path, MDB_NOTLS | (env->sync ? 0 : MDB_NOSYNC), FILE_MODE);
    if (code) {
        mdb_env_close(env->env);
        env->env = NULL;
    }
    return code;
}

/* Where address space is short, with less of it. */
static enum esp_status open_env(struct local_env *env, struct esp_error *err) {
    int code = ENOMEM;
    for (size_t bytes = map_bytes; code == ENOMEM && bytes >= map_bytes_min; bytes /= 2) {
        code = try_open(env, bytes);
    }
    if (code) {
        return local_env_fail(env, code, "opening", err);
    }
    if (mdb_env_get_maxkeysize(env->env) < KEY_BYTES_MIN) {
        return esp_fail(err, ESP_ERR_UNSUPPORTED, "this LMDB was built for keys under %d bytes",
                        KEY_BYTES_MIN);
    }
    int dead;
    mdb_reader_check(env->env, &dead); /* what crashed processes left */
    return open_tree(env, 0, MDB_CREATE, err);
}

static void file_in(const struct local_env *env, const char *name, char out[1100]) {
    snprintf(out, 1100, "%s/%s", env->path, name);
}

static enum esp_status open_claims(struct local_env *env, struct esp_error *err) {
    char path[1100];
    file_in(env, "load.lock", path);
    env->claim_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);
    return env->claim_fd < 0 ? fail_errno(path, "open", err) : ESP_OK;
}

static void forget_folder(const struct local_env *env) {
    static const char *const names[] = {"data.mdb", "lock.mdb"};
    char path[1100];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        file_in(env, names[i], path);
        unlink(path);
    }
    rmdir(env->path);
}

static void env_free(struct local_env *env) {
    if (env->env) {
        mdb_env_close(env->env);
    }
    if (env->claim_fd >= 0) {
        close(env->claim_fd);
    }
    pthread_rwlock_destroy(&env->map);
    pthread_mutex_destroy(&env->define);
    pthread_mutex_destroy(&env->claim_lock);
    esp_release(&esp_alloc_libc, env, sizeof *env);
}

static struct local_env *find_open(const struct local_env *like) {
    for (struct local_env *env = registry; env && !like->temporary; env = env->next) {
        if (!env->temporary && env->device == like->device && env->inode == like->inode) {
            return env;
        }
    }
    return NULL;
}

/* Another user of an environment that is open: the stricter wish about the disk counts. */
static struct local_env *join(struct local_env *env, bool sync) {
    env->users++;
    if (sync && !env->sync) {
        env->sync = true;
        mdb_env_set_flags(env->env, MDB_NOSYNC, 0);
        mdb_env_sync(env->env, 1);
    }
    return env;
}

static enum esp_status open_new(struct local_env *env, struct esp_error *err) {
    enum esp_status status = open_env(env, err);
    if (env->temporary) {
        forget_folder(env);
    } else if (status == ESP_OK) {
        status = open_claims(env, err);
    }
    return status;
}

enum esp_status local_env_open(const char *folder, bool sync, struct local_env **out,
                               struct esp_error *err) {
    /* shared by stores with allocators of their own: it comes from none of them */
    struct local_env *env = esp_calloc(&esp_alloc_libc, 1, sizeof *env);
    if (!env) {
        return esp_fail_nomem(err);
    }
    env->temporary = folder[0] == 0;
    env->sync = sync && !env->temporary;
    env->users = 1;
    env->claim_fd = -1;
    pthread_rwlock_init(&env->map, NULL);
    pthread_mutex_init(&env->define, NULL);
    pthread_mutex_init(&env->claim_lock, NULL);
    pthread_mutex_lock(&registry_lock);
    enum esp_status status = make_folder(env, folder, err);
    struct local_env *there = status == ESP_OK ? find_open(env) : NULL;
    if (there) {
        *out = join(there, sync);
    } else if (status == ESP_OK) {
        status = open_new(env, err);
    }
    if (!there && status == ESP_OK) {
        env->next = registry;
        registry = env;
        *out = env;
    }
    pthread_mutex_unlock(&registry_lock);
    if (there || status != ESP_OK) {
        env_free(env);
    }
    return status;
}

void local_env_close(struct local_env *env) {
    pthread_mutex_lock(&registry_lock);
    bool last = --env->users == 0;
    if (last) {
        struct local_env **link = &registry;
        while (*link != env) {
            link = &(*link)->next;
        }
        *link = env->next;
        env_free(env); /* before anybody may open the folder again */
    }
    pthread_mutex_unlock(&registry_lock);
}
