/*
 * The local store as a database: reopened, opened twice, by several processes, killed while it
 * writes and while it loads.  What was acknowledged is there, and indexes agree with items.
 */
#include "stores/bulk_load.h"
#include "tests/support/support.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <lmdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    struct esp_schema schema;
    struct esp_store *store;
    struct esp_table *table;
    struct esp_session *session;
    struct esp_error err;
    char folder[256], url[300];
};

static void fill_schema(struct esp_schema *s) {
    memset(s, 0, sizeof *s);
    s->attr_count = 3;
    s->attr[0] = (struct esp_attr){ESP_STR("id"), ESP_TYPE_S};
    s->attr[1] = (struct esp_attr){ESP_STR("group"), ESP_TYPE_S};
    s->attr[2] = (struct esp_attr){ESP_STR("n"), ESP_TYPE_N};
    s->sk = -1;
    s->index_count = 1;
    s->index[0] = (struct esp_index){.name = ESP_STR("by-group"), .pk = 1, .sk = 2};
}

static void open_all(struct fixture *f, bool create) {
    f->err = (struct esp_error)ESP_ERROR_INIT;
    fill_schema(&f->schema);
    assert_ok(esp_store_open(f->url, NULL, &esp_clock_system, &esp_alloc_libc, &f->store, &f->err),
              &f->err);
    if (create) {
        assert_ok(f->store->ops->create_table(f->store, "local", &f->schema, NULL, &f->err),
                  &f->err);
    }
    assert_ok(esp_table_open(f->store, "local", &f->schema, &f->table, &f->err), &f->err);
    assert_ok(esp_session_open(f->table, &f->session, &f->err), &f->err);
}

static void close_all(struct fixture *f) {
    esp_session_close(f->session);
    esp_table_close(f->table);
    esp_store_close(f->store);
}

static void make_folder(struct fixture *f) {
    esp_test_mkdir(f->folder);
    snprintf(f->url, sizeof f->url, "local:%s/db", f->folder);
}

static void make_item(uint32_t i, char id[32], struct esp_item *out) {
    memset(out, 0, sizeof *out);
    snprintf(id, 32, "item-%u", i);
    out->value[0] = esp_s(esp_str_from(id));
    out->value[1] = esp_s(i % 2 ? ESP_STR("odd") : ESP_STR("even"));
    out->value[2] = esp_n(i);
}

static enum esp_status put(struct fixture *f, uint32_t i) {
    char id[32];
    struct esp_write w = {.kind = ESP_PUT};
    make_item(i, id, &w.item);
    return esp_session_write(f->session, &w, 1, NULL, &f->err);
}

struct census {
    uint64_t count, sum;
};
static enum esp_status take(void *ctx, const struct esp_item *item) {
    struct census *c = ctx;
    c->count++;
    c->sum += (uint64_t)item->value[2].n;
    return ESP_OK;
}

/* The table's items; the index must hold the same ones, and the counters too. */
static struct census census(struct fixture *f) {
    struct census items = {0}, entries = {0};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    struct esp_table_info info;
    struct esp_arena arena;
    assert_ok(esp_session_scan(f->session, &scan, take, &items, &f->err), &f->err);
    scan.index = 0;
    assert_ok(esp_session_scan(f->session, &scan, take, &entries, &f->err), &f->err);
    assert_int_equal(items.count, entries.count);
    assert_int_equal(items.sum, entries.sum);
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    assert_ok(f->store->ops->describe_table(f->store, "local", &arena, &info, &f->err), &f->err);
    assert_int_equal(info.item_count, items.count);
    esp_arena_fini(&arena);
    return items;
}

static void tables_are_there_after_reopening(void **state) {
    (void)state;
    struct fixture f;
    make_folder(&f);
    open_all(&f, true);
    for (uint32_t i = 0; i < 50; i++) {
        assert_ok(put(&f, i), &f.err);
    }
    close_all(&f);
    open_all(&f, false);
    assert_int_equal(census(&f).count, 50);
    assert_int_equal(census(&f).sum, 49 * 50 / 2);
    close_all(&f);
    esp_test_rmdir(f.folder);
}

static void a_folder_may_be_opened_twice(void **state) {
    (void)state;
    struct fixture f, g;
    make_folder(&f);
    open_all(&f, true);
    g = f;
    open_all(&g, false);
    assert_ok(put(&f, 1), &f.err);
    assert_ok(put(&g, 2), &g.err);
    assert_int_equal(census(&f).count, 2);
    close_all(&f);
    assert_ok(put(&g, 3), &g.err);
    assert_int_equal(census(&g).count, 3);
    close_all(&g);
    esp_test_rmdir(f.folder);
}

/* The length of a string within the stored items, made longer than what is stored. */
static void damage_items(struct fixture *f) {
    static const char stored[] = "\1\6item-7";
    char path[300];
    size_t len, found = 0;
    snprintf(path, sizeof path, "%s/db/data.mdb", f->folder);
    char *bytes = esp_test_read_file(path, &len);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    for (size_t at = 0; at + sizeof stored <= len; at++) {
        if (memcmp(bytes + at, stored, sizeof stored - 1) == 0) {
            assert_int_equal(fseek(file, (long)at + 1, SEEK_SET), 0);
            assert_int_equal(fputc(200, file), 200);
            found++;
        }
    }
    assert_int_equal(fclose(file), 0);
    free(bytes);
    assert_true(found > 0);
}

static void a_damaged_item_is_reported(void **state) {
    (void)state;
    struct fixture f;
    struct census c = {0};
    struct esp_scan scan = {.index = ESP_PRIMARY};
    struct esp_item key = {.value = {esp_s(ESP_STR("item-7"))}};
    make_folder(&f);
    open_all(&f, true);
    assert_ok(put(&f, 7), &f.err);
    close_all(&f);
    damage_items(&f);
    open_all(&f, false);
    assert_status(ESP_ERR_IO, esp_session_scan(f.session, &scan, take, &c, &f.err));
    assert_non_null(strstr(f.err.message, "the store is damaged"));
    assert_status(ESP_ERR_IO, esp_session_get(f.session, &key, 1, true, take, &c, NULL));
    f.err = (struct esp_error)ESP_ERROR_INIT;
    assert_status(ESP_ERR_IO, put(&f, 7)); /* needs to know what it replaces */
    assert_int_equal(c.count, 0);
    close_all(&f);
    esp_test_rmdir(f.folder);
}

static void a_bad_folder_is_named(void **state) {
    (void)state;
    struct fixture f;
    struct esp_error err = ESP_ERROR_INIT;
    make_folder(&f);
    snprintf(f.url, sizeof f.url, "local:%s/no/such", f.folder);
    assert_status(ESP_ERR_IO,
                  esp_store_open(f.url, NULL, &esp_clock_system, &esp_alloc_libc, &f.store, &err));
    assert_non_null(strstr(err.message, "/no/such"));
    snprintf(f.url, sizeof f.url, "local:%s/file", f.folder);
    esp_test_write_file(f.url + 6, "x", 1);
    err = (struct esp_error)ESP_ERROR_INIT;
    assert_status(ESP_ERR_IO,
                  esp_store_open(f.url, NULL, &esp_clock_system, &esp_alloc_libc, &f.store, &err));
    assert_non_null(strstr(err.message, "/file"));
    esp_test_rmdir(f.folder);
}

static int entries_in(const char *folder) {
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        count += e->d_name[0] != '.';
    }
    closedir(dir);
    return count;
}

static void a_temporary_store_leaves_nothing(void **state) {
    (void)state;
    struct fixture f;
    char *before = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
    esp_test_mkdir(f.folder);
    setenv("TMPDIR", f.folder, 1);
    snprintf(f.url, sizeof f.url, "local:");
    open_all(&f, true);
    esp_bulk_limit(f.table, 1, 1); /* spills and parts too */
    for (uint32_t i = 0; i < 100; i++) {
        char id[32];
        struct esp_item item;
        make_item(i, id, &item);
        assert_ok(esp_session_bulk_put(f.session, &item, &f.err), &f.err);
    }
    assert_ok(esp_session_bulk_flush(f.session, &f.err), &f.err);
    assert_int_equal(census(&f).count, 100);
    assert_int_equal(entries_in(f.folder), 0); /* even while it is open */
    close_all(&f);
    if (before) {
        setenv("TMPDIR", before, 1);
    } else {
        unsetenv("TMPDIR");
    }
    free(before);
    esp_test_rmdir(f.folder);
}

/* --- other processes ------------------------------------------------------------ */

/* Run `work` in a child and return its exit status. */
static int in_child(struct fixture *f, int (*work)(struct fixture *f)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(work(f));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int put_from_child(struct fixture *f) {
    open_all(f, false);
    for (uint32_t i = 100; i < 150; i++) {
        if (put(f, i) != ESP_OK) {
            return 1;
        }
    }
    close_all(f);
    return 0;
}

static int create_from_child(struct fixture *f) {
    open_all(f, false);
    if (f->store->ops->drop_table(f->store, "local", &f->err) != ESP_OK) {
        return 1;
    }
    close_all(f);
    open_all(f, true); /* in a tree that was another table's */
    if (put(f, 7) != ESP_OK) {
        return 2;
    }
    if (f->store->ops->create_table(f->store, "other", &f->schema, NULL, &f->err) != ESP_OK) {
        return 3;
    }
    close_all(f);
    return 0;
}

/* --- maps ----------------------------------------------------------------------- */

static struct {
    bool small;   /* the map of what is opened next */
    bool no_room; /* for the map that is taken over */
    unsigned adopted;
} maps;

/* In place of LMDB's, which it calls. */
int mdb_env_set_mapsize(MDB_env *env, size_t bytes) {
    int (*real)(MDB_env *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "mdb_env_set_mapsize");
    struct rlimit before, tight;
    assert_non_null(symbol);
    memcpy(&real, &symbol, sizeof real);
    if (bytes) {
        return real(env, maps.small ? 1 << 20 : bytes);
    }
    maps.adopted++;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = 1 << 20; /* less than is in use: nothing more can be mapped */
    if (maps.no_room) {
        assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    }
    int code = real(env, bytes);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    return code;
}

enum { GROWN_ITEMS = 30000 };

static int grow_from_child(struct fixture *f) {
    open_all(f, false);
    for (uint32_t i = 0; i < GROWN_ITEMS; i++) {
        char id[32];
        struct esp_item item;
        make_item(i, id, &item);
        if (esp_session_bulk_put(f->session, &item, &f->err) != ESP_OK) {
            return 1;
        }
    }
    enum esp_status status = esp_session_bulk_flush(f->session, &f->err);
    close_all(f);
    return status == ESP_OK ? 0 : 2;
}

/* Everybody fails with a sentence, and once all have closed it, it can be used again. */
static bool is_lost_until_reopened(struct fixture *f) {
    struct fixture g = *f;
    struct esp_scan scan = {.index = ESP_PRIMARY};
    struct census c = {0};
    bool lost = put(f, 1) == ESP_ERR_IO && strstr(f->err.message, "address space");
    lost = lost && esp_session_scan(f->session, &scan, take, &c, NULL) == ESP_ERR_IO;
    lost = lost && f->store->ops->drop_table(f->store, "local", NULL) == ESP_ERR_IO;
    lost = lost && esp_store_open(g.url, NULL, &esp_clock_system, &esp_alloc_libc, &g.store,
                                  NULL) == ESP_ERR_IO;
    close_all(f);
    maps.small = false;
    open_all(f, false);
    return lost && census(f).count == GROWN_ITEMS && put(f, 1) == ESP_OK;
}

/* Another process makes more of the store than this one has mapped. */
static void a_map_that_has_become_too_small(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it needs the address space that this test takes away */
#endif
    for (int no_room = 0; no_room < 2; no_room++) {
        struct fixture f;
        int ready[2], go[2], status;
        char byte;
        make_folder(&f);
        assert_int_equal(pipe(ready) | pipe(go), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            maps.small = true;
            maps.no_room = no_room;
            open_all(&f, true);
            bool good = write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1;
            good = good && (no_room ? is_lost_until_reopened(&f)
                                    : census(&f).count == GROWN_ITEMS && put(&f, 1) == ESP_OK);
            close_all(&f);
            _exit(good && maps.adopted == 1 ? 0 : 1);
        }
        assert_int_equal(read(ready[0], &byte, 1), 1);
        assert_int_equal(in_child(&f, grow_from_child), 0);
        assert_int_equal(write(go[1], "x", 1), 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
        esp_test_rmdir(f.folder);
    }
}

/* --- tables --------------------------------------------------------------------- */

static void open_table_again(struct fixture *f) {
    f->err = (struct esp_error)ESP_ERROR_INIT;
    esp_session_close(f->session);
    esp_table_close(f->table);
    assert_ok(esp_table_open(f->store, "local", &f->schema, &f->table, &f->err), &f->err);
    assert_ok(esp_session_open(f->table, &f->session, &f->err), &f->err);
}

/* LMDB must not be carried over a fork: the child is made by a process that has not opened. */
static void processes_share_a_folder(void **state) {
    (void)state;
    struct fixture f;
    int ready[2], go[2], status;
    char byte;
    make_folder(&f);
    assert_int_equal(pipe(ready) | pipe(go), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) { /* opens first, and looks again after the others have written */
        open_all(&f, true);
        bool good = put(&f, 1) == ESP_OK && write(ready[1], "x", 1) == 1 &&
                    read(go[0], &byte, 1) == 1 && census(&f).count == 51 &&
                    write(ready[1], "x", 1) == 1 && read(go[0], &byte, 1) == 1 &&
                    put(&f, 8) == ESP_ERR_NOT_FOUND;
        open_table_again(&f); /* the one there is now */
        good = good && census(&f).count == 1;
        close_all(&f);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(in_child(&f, put_from_child), 0);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(in_child(&f, create_from_child), 0);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(ready[0]), close(ready[1]), close(go[0]), close(go[1]);
    esp_test_rmdir(f.folder);
}

/* Puts item after item and says so through the pipe after each. */
static void write_until_killed(struct fixture *f, uint32_t first, int out) {
    open_all(f, false);
    for (uint32_t i = first;; i++) {
        if (put(f, i) != ESP_OK || write(out, &i, sizeof i) != sizeof i) {
            _exit(1);
        }
    }
}

static int check_from_child(struct fixture *f) {
    uint32_t acknowledged;
    FILE *file = fopen(getenv("ESP_TEST_EXPECT"), "rb");
    if (!file || fread(&acknowledged, sizeof acknowledged, 1, file) != 1) {
        return 9;
    }
    fclose(file);
    open_all(f, false);
    struct census c = census(f);
    close_all(f);
    /* all that was acknowledged, and at most the one that was under way */
    return c.count == acknowledged || c.count == (uint64_t)acknowledged + 1 ? (int)(c.count % 2)
                                                                            : 9;
}

static void acknowledged_puts_survive_kill(void **state) {
    (void)state;
    enum { ROUNDS = 20 };
    struct fixture f;
    uint32_t next = 0;
    char expect[300];
    make_folder(&f);
    snprintf(expect, sizeof expect, "%s/expect", f.folder);
    setenv("ESP_TEST_EXPECT", expect, 1);
    if (fork() == 0) {
        open_all(&f, true);
        close_all(&f);
        _exit(0);
    }
    wait(NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int pipes[2], status;
        uint32_t seen, want = next + (uint32_t)round % 7 + 1;
        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            write_until_killed(&f, next, pipes[1]);
        }
        close(pipes[1]);
        while (next < want && read(pipes[0], &seen, sizeof seen) == sizeof seen) {
            next = seen + 1;
        }
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        while (read(pipes[0], &seen, sizeof seen) == sizeof seen) {
            next = seen + 1; /* acknowledged before the signal came */
        }
        close(pipes[0]);
        assert_true(WIFSIGNALED(status));
        assert_true(next >= want);
        esp_test_write_file(expect, &next, sizeof next);
        int parity = in_child(&f, check_from_child);
        assert_true(parity == 0 || parity == 1);
        next += parity != (int)(next % 2); /* the one under way was done */
    }
    unsetenv("ESP_TEST_EXPECT");
    esp_test_rmdir(f.folder);
}

enum { BULK_ITEMS = 20000 };

static int load_all(struct fixture *f) {
    open_all(f, false);
    esp_bulk_limit(f->table, 1 << 20, 1 << 15); /* many commits, some runs */
    for (uint32_t i = 0; i < BULK_ITEMS; i++) {
        char id[32];
        struct esp_item item;
        make_item(i, id, &item);
        if (esp_session_bulk_put(f->session, &item, &f->err) != ESP_OK) {
            return 1;
        }
    }
    int status = esp_session_bulk_flush(f->session, &f->err) == ESP_OK ? 0 : 1;
    close_all(f);
    return status;
}

static int count_items(struct fixture *f) {
    open_all(f, false);
    struct census c = census(f);
    close_all(f);
    return c.count == 0 ? 0 : c.count == BULK_ITEMS ? 1 : 9;
}

static uint64_t data_bytes(const struct fixture *f) {
    char path[300];
    struct stat st;
    snprintf(path, sizeof path, "%s/db/data.mdb", f->folder);
    assert_int_equal(stat(path, &st), 0);
    return (uint64_t)st.st_size;
}

static void a_killed_load_leaves_all_or_nothing(void **state) {
    (void)state;
    enum { ROUNDS = 12 };
    struct fixture f;
    int outcome = 0;
    make_folder(&f);
    if (fork() == 0) {
        open_all(&f, true);
        close_all(&f);
        _exit(0);
    }
    wait(NULL);
    uint64_t whole = 0, most = 0;
    for (int round = 0; round < ROUNDS && outcome == 0; round++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            _exit(load_all(&f));
        }
        /* somewhere within the load: when the file has grown by so many steps */
        uint64_t begin = data_bytes(&f), until = begin + (uint64_t)round * 300000;
        while (waitpid(child, &status, WNOHANG) == 0) {
            if (data_bytes(&f) > until || (round > 5 && data_bytes(&f) >= most && most > until)) {
                kill(child, SIGKILL);
                waitpid(child, &status, 0);
                break;
            }
            usleep(200);
        }
        outcome = in_child(&f, count_items);
        assert_true(outcome == 0 || outcome == 1);
        most = data_bytes(&f) > most ? data_bytes(&f) : most;
    }
    if (outcome == 0) {
        assert_int_equal(in_child(&f, load_all), 0);
        assert_int_equal(in_child(&f, count_items), 1);
    }
    whole = data_bytes(&f);
    /* what killed loads left was used again: a few loads' worth at most, not a dozen */
    assert_true(whole < (uint64_t)40 << 20);
    esp_test_rmdir(f.folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* those that fork come first: nothing has been opened in this process yet */
        cmocka_unit_test(a_map_that_has_become_too_small),
        cmocka_unit_test(processes_share_a_folder),
        cmocka_unit_test(acknowledged_puts_survive_kill),
        cmocka_unit_test(a_killed_load_leaves_all_or_nothing),
        cmocka_unit_test(tables_are_there_after_reopening),
        cmocka_unit_test(a_folder_may_be_opened_twice),
        cmocka_unit_test(a_damaged_item_is_reported),
        cmocka_unit_test(a_bad_folder_is_named),
        cmocka_unit_test(a_temporary_store_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
