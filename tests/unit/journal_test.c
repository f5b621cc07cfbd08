/* Journals that were cut at every byte, damaged at every line, used twice, or met a full disk. */
#include "loader/images.h"
#include "loader/journal.h"
#include "tests/support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The folders that were synced. */
static struct {
    ino_t folder[64];
    size_t count;
} synced;

int fsync(int fd) {
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && synced.count < 64) {
        synced.folder[synced.count++] = st.st_ino;
    }
    return (int)syscall(SYS_fsync, fd);
}

static bool is_synced(const char *folder) {
    struct stat st;
    bool found = false;
    assert_int_equal(stat(folder, &st), 0);
    for (size_t i = 0; i < synced.count; i++) {
        found = found || synced.folder[i] == st.st_ino;
    }
    return found;
}

static const struct esp_schema schema = {
    .attr = {{{"ID", 2}, ESP_TYPE_S}, {{"Path", 4}, ESP_TYPE_S}},
    .attr_count = 2,
    .pk = 0,
    .sk = -1,
};

struct fixture {
    char folder[256], path[300], draft[310];
    struct esp_store *store;
    struct esp_table *table;
    struct esp_arena arena;
    struct esp_images images;
    struct esp_error err;
};

static const struct esp_strings sets = {{"separator=|", "attr.Path=p \"q\""}, 2};
static const struct esp_strings arguments = {{"V", "C\xc3\xa4"}, 2};
static const struct esp_journal_edit an_edit = {"path", &sets, "move", &arguments};

static struct esp_item item_of(const char *id, const char *path) {
    static const char data[] = "\"name\":{\"S\":\"a \\\"b\\\"\\n\"}";
    struct esp_item item = {.data = {data, sizeof data - 1, 12}};
    item.value[0] = esp_s(esp_str_from(id));
    item.value[1] = esp_s(esp_str_from(path));
    return item;
}

static int setup(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    esp_test_mkdir(f->folder);
    snprintf(f->path, sizeof f->path, "%s/x.journal", f->folder);
    snprintf(f->draft, sizeof f->draft, "%s.tmp", f->path);
    assert_ok(
        esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &f->store, &f->err),
        &f->err);
    assert_ok(f->store->ops->create_table(f->store, "drives", &schema,
                                          &(struct esp_table_options){0}, &f->err),
              &f->err);
    assert_ok(esp_table_open(f->store, "drives", &schema, &f->table, &f->err), &f->err);
    esp_arena_init(&f->arena, &esp_alloc_libc, SIZE_MAX);
    esp_images_init(&f->images, &schema, &f->arena);
    struct esp_image image[] = {
        {.has_after = true, .after = item_of("a", "/x/")},
        {.has_before = true,
         .before = item_of("b", "/"),
         .has_after = true,
         .after = item_of("b", "/x/"),
         .stage = 1,
         .together = true},
        {.has_before = true, .before = item_of("c", "/"), .stage = 2},
    };
    for (size_t i = 0; i < 3; i++) {
        assert_ok(esp_images_add(&f->images, &image[i], &f->err), &f->err);
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    esp_table_close(f->table);
    esp_store_close(f->store);
    esp_arena_fini(&f->arena);
    esp_test_rmdir(f->folder);
    free(f);
    return 0;
}

static enum esp_status create(struct fixture *f, struct esp_journal **out) {
    esp_error_clear(&f->err);
    return esp_journal_create(f->path, f->table, &an_edit, &f->images, out, &f->err);
}

static enum esp_status reopen(struct fixture *f, struct esp_journal **out) {
    esp_error_clear(&f->err);
    return esp_journal_open(f->path, &esp_alloc_libc, out, &f->err);
}

static void what_is_written_is_read(void **state) {
    struct fixture *f = *state;
    struct esp_journal *journal;
    struct esp_images got;
    struct stat st;
    assert_ok(create(f, &journal), &f->err);
    esp_journal_close(journal);
    assert_int_equal(stat(f->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(access(f->draft, F_OK), -1);
    assert_ok(reopen(f, &journal), &f->err);
    assert_int_equal(esp_journal_state(journal), ESP_JOURNAL_OPEN);
    const struct esp_journal_head *head = esp_journal_head(journal);
    assert_true(esp_str_eq(head->operation, ESP_STR("move")));
    assert_string_equal(head->arguments.value[1], arguments.value[1]);
    assert_string_equal(head->set.value[1], sets.value[1]);
    assert_int_equal(head->writes, 3);
    assert_ok(esp_journal_match(journal, f->table, &an_edit, &f->err), &f->err);
    esp_images_init(&got, &schema, &f->arena);
    assert_ok(esp_journal_images(journal, &got, &f->err), &f->err);
    assert_int_equal(got.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct esp_image *a = &got.image[i], *b = &f->images.image[i];
        assert_int_equal(a->stage, b->stage);
        assert_int_equal(a->together, b->together);
        assert_int_equal(a->has_before, b->has_before);
        assert_int_equal(a->has_after, b->has_after);
        assert_true(!a->has_before || esp_item_equal(&schema, &a->before, &b->before));
        assert_true(!a->has_after || esp_item_equal(&schema, &a->after, &b->after));
    }
    assert_ok(esp_journal_done(journal, &f->err), &f->err);
    esp_journal_close(journal);
    assert_int_equal(access(f->path, F_OK), -1);
}

static void another_table_or_layout_is_refused(void **state) {
    struct fixture *f = *state;
    struct esp_journal *journal;
    struct esp_journal_edit other = an_edit;
    assert_ok(create(f, &journal), &f->err);
    other.layout = "replica";
    assert_status(ESP_ERR_REFUSED, esp_journal_match(journal, f->table, &other, NULL));
    other = an_edit;
    other.set = NULL;
    assert_status(ESP_ERR_REFUSED, esp_journal_match(journal, f->table, &other, NULL));
    esp_journal_close(journal);
}

static void two_edits_cannot_share_one(void **state) {
    struct fixture *f = *state;
    struct esp_journal *journal, *second;
    assert_ok(create(f, &journal), &f->err);
    assert_status(ESP_ERR_CONFLICT, create(f, &second));
    assert_status(ESP_ERR_CONFLICT, reopen(f, &second));
    esp_journal_close(journal); /* as a crash would */
    assert_status(ESP_ERR_EXISTS, create(f, &second));
    assert_non_null(strstr(f->err.message, f->path));
    assert_ok(reopen(f, &journal), &f->err);
    assert_ok(esp_journal_done(journal, &f->err), &f->err);
    esp_journal_close(journal);
    assert_ok(create(f, &journal), &f->err);
    esp_journal_close(journal);
}

/* The whole file, with `done`. */
static char *whole_file(struct fixture *f, size_t *len, size_t *complete) {
    struct esp_journal *journal;
    assert_ok(create(f, &journal), &f->err);
    esp_journal_close(journal);
    char *text = esp_test_read_file(f->path, complete);
    static const char done[] = "9d6c5f13 {\"done\":true}\n";
    text = realloc(text, *complete + sizeof done);
    assert_non_null(text);
    memcpy(text + *complete, done, sizeof done);
    *len = *complete + sizeof done - 1;
    return text;
}

static void cut_at_every_byte(void **state) {
    struct fixture *f = *state;
    size_t len, complete;
    char *text = whole_file(f, &len, &complete);
    for (size_t cut = 0; cut < len; cut++) {
        struct esp_journal *journal;
        esp_test_write_file(f->path, text, cut);
        assert_ok(reopen(f, &journal), &f->err);
        assert_int_equal(esp_journal_state(journal),
                         cut < complete ? ESP_JOURNAL_UNSENT : ESP_JOURNAL_OPEN);
        assert_ok(esp_journal_done(journal, &f->err), &f->err);
        esp_journal_close(journal);
        assert_int_equal(access(f->path, F_OK), -1);
    }
    free(text);
}

/* One bit of each byte. */
static void damaged_at_every_byte(void **state) {
    struct fixture *f = *state;
    size_t len, complete;
    char *text = whole_file(f, &len, &complete);
    uint64_t line = 1;
    for (size_t i = 0; i < complete; i++) {
        struct esp_journal *journal;
        char was = text[i];
        text[i] ^= 4;
        esp_test_write_file(f->path, text, complete);
        if (i + 1 == complete) { /* without its line feed the last line is cut */
            assert_ok(reopen(f, &journal), &f->err);
            assert_int_equal(esp_journal_state(journal), ESP_JOURNAL_UNSENT);
            esp_journal_close(journal);
        } else {
            assert_status(ESP_ERR_INPUT, reopen(f, &journal));
            assert_int_equal(f->err.line, line);
            assert_string_equal(f->err.source, f->path);
        }
        text[i] = was;
        line += was == '\n';
    }
    free(text);
}

static void a_full_disk_leaves_nothing(void **state) {
    struct fixture *f = *state;
    struct esp_journal *journal;
    struct rlimit limit, old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit = old;
    limit.rlim_cur = 300; /* bytes: less than the journal has */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    enum esp_status status = create(f, &journal);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_status(ESP_ERR_IO, status);
    assert_non_null(strstr(f->err.message, f->path));
    assert_int_equal(access(f->path, F_OK), -1);
    assert_int_equal(access(f->draft, F_OK), -1);
}

static void drafts_are_dropped(void **state) {
    struct fixture *f = *state;
    bool dropped = true;
    assert_ok(esp_journal_drop_draft(f->path, &esp_alloc_libc, &dropped, &f->err), &f->err);
    assert_false(dropped);
    esp_test_write_file(f->draft, "half", 4);
    assert_ok(esp_journal_drop_draft(f->path, &esp_alloc_libc, &dropped, &f->err), &f->err);
    assert_true(dropped);
    assert_int_equal(access(f->draft, F_OK), -1);
}

static void the_path_is_in_the_users_state(void **state) {
    struct fixture *f = *state;
    struct esp_buf path;
    struct stat st;
    char state_folder[300], made[320];
    esp_buf_init(&path, &esp_alloc_libc, 4096);
    snprintf(state_folder, sizeof state_folder, "%s/state", f->folder);
    assert_int_equal(setenv("XDG_STATE_HOME", state_folder, 1), 0);
    synced.count = 0;
    assert_ok(esp_journal_path(f->store, "a/b", &path, &f->err), &f->err);
    assert_true(is_synced(f->folder) && is_synced(state_folder)); /* both have a new folder */
    synced.count = 0;
    struct esp_buf again;
    esp_buf_init(&again, &esp_alloc_libc, SIZE_MAX);
    assert_ok(esp_journal_path(f->store, "a/b", &again, &f->err), &f->err);
    assert_true(esp_str_eq(esp_buf_str(&again), esp_buf_str(&path)));
    assert_int_equal(synced.count, 0);
    esp_buf_fini(&again);
    assert_non_null(strstr(path.ptr, "/state/espalier/"));
    assert_non_null(strstr(path.ptr, "-a_b.journal"));
    snprintf(made, sizeof made, "%s/espalier", state_folder);
    assert_int_equal(stat(made, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(unsetenv("XDG_STATE_HOME"), 0);
    esp_buf_fini(&path);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),    TEST(another_table_or_layout_is_refused),
        TEST(two_edits_cannot_share_one), TEST(cut_at_every_byte),
        TEST(damaged_at_every_byte),      TEST(a_full_disk_leaves_nothing),
        TEST(drafts_are_dropped),         TEST(the_path_is_in_the_users_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
