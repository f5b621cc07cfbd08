#include "loader/journal.h"

#include "loader/images.h"
#include "loader/journal_lines.h"
#include "stores/dynamodb/json_scan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { TEXT_BYTES_MAX = 64 << 20 };

struct esp_journal {
    const struct esp_alloc *alloc;
    struct esp_line_file file;
    struct esp_arena arena; /* of the head */
    struct esp_buf text;    /* a line, or a string of one */
    struct esp_journal_head head;
    enum esp_journal_state state;
    /* while reading */
    uint64_t entries;
    struct esp_images *images; /* NULL: only count */
};

/* --- where ------------------------------------------------------------------------ */

/* A new folder is on disk when the one it is in is: a journal in it shall not be lost. */
static enum esp_status make_folder(const char *path, const struct esp_alloc *alloc,
                                   struct esp_error *err) {
    if (mkdir(path, 0700) == 0) {
        return esp_line_file_sync_folder(path, alloc, err);
    }
    if (errno == EEXIST) {
        return ESP_OK;
    }
    return esp_fail(err, ESP_ERR_IO, "%s: cannot make the folder of journals: %s", path,
                    strerror(errno));
}

/* Every folder of an absolute path from byte `from` on. */
static enum esp_status make_folders(char *path, size_t from, const struct esp_alloc *alloc,
                                    struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (char *slash = strchr(path + from, '/'); status == ESP_OK && slash;
         slash = strchr(slash + 1, '/')) {
        if (slash > path) {
            *slash = '\0';
            status = make_folder(path, alloc, err);
            *slash = '/';
        }
    }
    return status;
}

/* The names that tables may have are fine for files; others are made so, the hash tells them
 * apart. */
static void put_file_name(struct esp_buf *out, struct esp_str place, const char *table) {
    uint64_t hash = esp_hash64(table, strlen(table), esp_hash64(place.ptr, place.len, 1));
    esp_buf_printf(out, "%016llx-", (unsigned long long)hash);
    for (size_t i = 0; table[i] && i < 128; i++) {
        char c = table[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || (c == '.' && i);
        esp_buf_put_char(out, plain ? c : '_');
    }
    ESP_BUF_LIT(out, ".journal");
}

enum esp_status esp_journal_path(const struct esp_store *store, const char *table,
                                 struct esp_buf *out, struct esp_error *err) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool has_state = state && state[0] == '/', has_home = home && home[0];
    enum esp_status status = ESP_OK;
    struct esp_buf place;
    size_t from = out->len;
    esp_buf_init(&place, store->alloc, TEXT_BYTES_MAX);
    if (has_state || has_home) {
        esp_buf_printf(out, "%s%s/espalier/", has_state ? state : home,
                       has_state ? "" : "/.local/state");
        size_t root = from + (has_state ? 0 : strlen(home));
        status = esp_buf_cstr(out) ? make_folders(out->ptr, root, store->alloc, err)
                                   : esp_fail_nomem(err);
    }
    esp_store_put_place(store, &place);
    put_file_name(out, esp_buf_str(&place), table);
    bool failed = place.failed || !esp_buf_cstr(out);
    esp_buf_fini(&place);
    return status == ESP_OK && failed ? esp_fail_nomem(err) : status;
}

/* --- writing ---------------------------------------------------------------------- */

static void put_member(struct esp_buf *out, const char *name, struct esp_str value) {
    esp_buf_printf(out, "\"%s\":", name);
    esp_json_put_string(out, value);
    esp_buf_put_char(out, ',');
}

static void put_list(struct esp_buf *out, const char *name, const struct esp_strings *list) {
    esp_buf_printf(out, "\"%s\":[", name);
    for (size_t i = 0; list && i < list->count; i++) {
        if (i) {
            esp_buf_put_char(out, ',');
        }
        esp_json_put_string(out, esp_str_from(list->value[i]));
    }
    ESP_BUF_LIT(out, "],");
}

static enum esp_status add_text(struct esp_journal *j, struct esp_error *err) {
    return j->text.failed ? esp_fail_nomem(err)
                          : esp_line_file_add(&j->file, esp_buf_str(&j->text), err);
}

static enum esp_status write_head(struct esp_journal *j, const struct esp_table *table,
                                  const struct esp_journal_edit *edit, uint32_t writes,
                                  struct esp_error *err) {
    struct esp_buf place;
    char started[21];
    esp_buf_init(&place, j->alloc, TEXT_BYTES_MAX);
    esp_store_put_place(table->store, &place);
    esp_wall_format_rfc3339(esp_wall_ns(table->store->clock), started);
    esp_buf_reset(&j->text);
    ESP_BUF_LIT(&j->text, "{\"espalier_journal\":1,");
    put_member(&j->text, "kind", ESP_STR("edit"));
    put_member(&j->text, "store", esp_buf_str(&place));
    put_member(&j->text, "table", esp_str_from(table->name));
    put_member(&j->text, "layout", esp_str_from(edit->layout));
    put_list(&j->text, "set", edit->set);
    put_member(&j->text, "operation", esp_str_from(edit->operation));
    put_list(&j->text, "arguments", edit->arguments);
    esp_buf_printf(&j->text, "\"writes\":%u,\"started\":\"%s\"}", writes, started);
    bool failed = place.failed;
    esp_buf_fini(&place);
    return failed ? esp_fail_nomem(err) : add_text(j, err);
}

static void put_item(struct esp_buf *out, const char *name, const struct esp_schema *schema,
                     const struct esp_item *item) {
    esp_buf_printf(out, ",\"%s\":", name);
    if (item) {
        esp_buf_put_char(out, '{');
        esp_item_put_json(out, schema, item);
        esp_buf_put_char(out, '}');
    } else {
        ESP_BUF_LIT(out, "null");
    }
}

static enum esp_status write_image(struct esp_journal *j, const struct esp_schema *schema,
                                   const struct esp_image *image, struct esp_error *err) {
    esp_buf_reset(&j->text);
    esp_buf_printf(&j->text, "{\"stage\":%u,\"together\":%s,\"key\":{", image->stage,
                   image->together ? "true" : "false");
    esp_item_put_key_json(&j->text, schema, esp_image_item(image));
    esp_buf_put_char(&j->text, '}');
    put_item(&j->text, "before", schema, image->has_before ? &image->before : NULL);
    put_item(&j->text, "after", schema, image->has_after ? &image->after : NULL);
    esp_buf_put_char(&j->text, '}');
    return add_text(j, err);
}

static enum esp_status journal_new(const struct esp_alloc *alloc, struct esp_journal **out,
                                   struct esp_error *err) {
    struct esp_journal *j = esp_calloc(alloc, 1, sizeof *j);
    *out = j;
    if (!j) {
        return esp_fail_nomem(err);
    }
    j->alloc = alloc;
    esp_arena_init(&j->arena, alloc, SIZE_MAX);
    esp_buf_init(&j->text, alloc, TEXT_BYTES_MAX);
    return ESP_OK;
}

/* A journal whose edit was done, or had sent nothing, is in nobody's way. */
static enum esp_status begin_file(struct esp_journal *j, const char *path, struct esp_error *err) {
    enum esp_status status = esp_line_file_create(path, j->alloc, &j->file, err);
    if (status != ESP_ERR_EXISTS) {
        return status;
    }
    struct esp_journal *old = NULL;
    struct esp_error ignored = ESP_ERROR_INIT;
    bool removed = esp_journal_open(path, j->alloc, &old, &ignored) == ESP_OK &&
                   old->state != ESP_JOURNAL_OPEN &&
                   esp_line_file_remove(&old->file, &ignored) == ESP_OK;
    esp_journal_close(old);
    if (!removed) {
        return status;
    }
    if (err) {
        esp_error_clear(err);
    }
    return esp_line_file_create(path, j->alloc, &j->file, err);
}

static enum esp_status write_all(struct esp_journal *j, const struct esp_table *table,
                                 const struct esp_journal_edit *edit,
                                 const struct esp_images *images, struct esp_error *err) {
    enum esp_status status = write_head(j, table, edit, images->count, err);
    for (uint32_t i = 0; status == ESP_OK && i < images->count; i++) {
        status = write_image(j, images->schema, &images->image[i], err);
    }
    if (status == ESP_OK) {
        esp_buf_reset(&j->text);
        esp_buf_printf(&j->text, "{\"complete\":true,\"entries\":%u}", images->count);
        status = add_text(j, err);
    }
    return status == ESP_OK ? esp_line_file_sync(&j->file, err) : status;
}

enum esp_status esp_journal_create(const char *path, const struct esp_table *table,
                                   const struct esp_journal_edit *edit,
                                   const struct esp_images *images, struct esp_journal **out,
                                   struct esp_error *err) {
    struct esp_buf own_path;
    struct esp_journal *j;
    enum esp_status status = journal_new(table->store->alloc, &j, err);
    *out = NULL;
    if (status != ESP_OK) {
        return status;
    }
    esp_buf_init(&own_path, j->alloc, TEXT_BYTES_MAX);
    if (!path) {
        status = esp_journal_path(table->store, table->name, &own_path, err);
        path = own_path.ptr;
    }
    if (status == ESP_OK) {
        status = begin_file(j, path, err);
    }
    if (status == ESP_OK) {
        status = write_all(j, table, edit, images, err);
    }
    esp_buf_fini(&own_path);
    if (status != ESP_OK) {
        esp_journal_close(j);
        return status;
    }
    j->state = ESP_JOURNAL_OPEN;
    *out = j;
    return ESP_OK;
}

enum esp_status esp_journal_done(struct esp_journal *journal, struct esp_error *err) {
    struct esp_error full = ESP_ERROR_INIT;
    /* Should the disk have no room for the line, removing the file says the same. */
    if (journal->state == ESP_JOURNAL_OPEN &&
        esp_line_file_add(&journal->file, ESP_STR("{\"done\":true}"), &full) == ESP_OK &&
        esp_line_file_sync(&journal->file, &full) == ESP_OK) {
        journal->state = ESP_JOURNAL_DONE;
    }
    return esp_line_file_remove(&journal->file, err);
}

void esp_journal_close(struct esp_journal *journal) {
    if (journal) {
        esp_line_file_close(&journal->file);
        esp_arena_fini(&journal->arena);
        esp_buf_fini(&journal->text);
        esp_release(journal->alloc, journal, sizeof *journal);
    }
}

const char *esp_journal_name(const struct esp_journal *journal) {
    return journal->file.name;
}

enum esp_journal_state esp_journal_state(const struct esp_journal *journal) {
    return journal->state;
}

const struct esp_journal_head *esp_journal_head(const struct esp_journal *journal) {
    return &journal->head;
}

/* --- reading ---------------------------------------------------------------------- */

/* A JSON string, in the arena. */
static struct esp_str read_text(struct esp_journal *j, struct esp_str json) {
    struct esp_str none = {NULL, 0};
    esp_buf_reset(&j->text);
    if (json.len == 0 || json.ptr[0] != '"' || !esp_json_put_text(&j->text, json)) {
        return none;
    }
    return j->text.failed ? none : esp_arena_dup(&j->arena, esp_buf_str(&j->text));
}

static bool read_list(struct esp_journal *j, struct esp_str json, struct esp_strings *list) {
    struct esp_json_walk walk;
    struct esp_str element;
    bool good = esp_json_array(json, &walk);
    list->count = 0;
    while (good && esp_json_element(&walk, &element)) {
        struct esp_str text = read_text(j, element);
        good = text.ptr && list->count < ESP_OPTION_LIST_MAX;
        if (good) {
            list->value[list->count++] = text.ptr;
        }
    }
    return good && !walk.broken;
}

static bool read_number(struct esp_str json, uint64_t *out) {
    uint64_t n = 0;
    bool good = json.len > 0 && json.len < 19;
    for (size_t i = 0; good && i < json.len; i++) {
        good = json.ptr[i] >= '0' && json.ptr[i] <= '9';
        n = 10 * n + (uint64_t)(json.ptr[i] - '0');
    }
    *out = n;
    return good;
}

static bool is_true(struct esp_str json) {
    return esp_str_eq(json, ESP_STR("true"));
}

static enum esp_status read_head(struct esp_journal *j, struct esp_str text, uint64_t line,
                                 struct esp_error *err) {
    uint64_t version;
    struct esp_journal_head *head = &j->head;
    if (!read_number(esp_json_find(text, "espalier_journal"), &version)) {
        return esp_line_file_fail(j->file.name, line, "this is no journal of espalier", err);
    }
    if (version != 1 || !esp_str_eq(esp_json_find(text, "kind"), ESP_STR("\"edit\""))) {
        return esp_line_file_fail(
            j->file.name, line, "this journal is not one of an edit, or of a newer espalier", err);
    }
    head->store = read_text(j, esp_json_find(text, "store"));
    head->table = read_text(j, esp_json_find(text, "table"));
    head->layout = read_text(j, esp_json_find(text, "layout"));
    head->operation = read_text(j, esp_json_find(text, "operation"));
    head->started = read_text(j, esp_json_find(text, "started"));
    bool good = head->store.ptr && head->table.ptr && head->layout.ptr && head->operation.ptr &&
                head->started.ptr && read_list(j, esp_json_find(text, "set"), &head->set) &&
                read_list(j, esp_json_find(text, "arguments"), &head->arguments) &&
                read_number(esp_json_find(text, "writes"), &head->writes);
    return good ? ESP_OK
                : esp_line_file_fail(j->file.name, line, "the journal's header lacks something",
                                     err);
}

/* null: no item. */
static enum esp_status read_item(struct esp_journal *j, struct esp_str json, struct esp_item *item,
                                 bool *has, struct esp_error *err) {
    *has = !esp_str_eq(json, ESP_STR("null"));
    return *has ? esp_item_parse(j->images->schema, json, j->images->arena, item, err) : ESP_OK;
}

static enum esp_status read_image(struct esp_journal *j, struct esp_str text, uint64_t line,
                                  struct esp_error *err) {
    struct esp_image image = {.stage = 0};
    struct esp_error detail = ESP_ERROR_INIT;
    uint64_t stage;
    bool good = read_number(esp_json_find(text, "stage"), &stage) && stage <= UINT32_MAX;
    image.stage = (uint32_t)stage;
    image.together = is_true(esp_json_find(text, "together"));
    enum esp_status status =
        read_item(j, esp_json_find(text, "before"), &image.before, &image.has_before, &detail);
    if (status == ESP_OK) {
        status =
            read_item(j, esp_json_find(text, "after"), &image.after, &image.has_after, &detail);
    }
    if (status == ESP_OK && good && (image.has_before || image.has_after)) {
        status = esp_images_add(j->images, &image, &detail);
    } else if (status == ESP_OK) {
        status = ESP_ERR_INPUT;
    }
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(err)
           : status == ESP_OK
               ? ESP_OK
               : esp_line_file_fail(j->file.name, line,
                                    detail.message[0] ? detail.message
                                                      : "the entry is not an image of an item",
                                    err);
}

static enum esp_status read_line(void *ctx, struct esp_str text, uint64_t line,
                                 struct esp_error *err) {
    struct esp_journal *j = ctx;
    uint64_t entries;
    if (line == 1) {
        return j->images ? ESP_OK : read_head(j, text, line, err);
    }
    if (is_true(esp_json_find(text, "done")) && j->state != ESP_JOURNAL_UNSENT) {
        j->state = ESP_JOURNAL_DONE;
        return ESP_OK;
    }
    if (is_true(esp_json_find(text, "complete"))) {
        bool same = read_number(esp_json_find(text, "entries"), &entries) &&
                    entries == j->entries && entries == j->head.writes;
        j->state = ESP_JOURNAL_OPEN;
        return same ? ESP_OK
                    : esp_line_file_fail(j->file.name, line, "entries of the journal are missing",
                                         err);
    }
    if (j->state != ESP_JOURNAL_UNSENT || esp_json_find(text, "stage").len == 0) {
        return esp_line_file_fail(j->file.name, line, "the line does not belong here", err);
    }
    j->entries++;
    return j->images ? read_image(j, text, line, err) : ESP_OK;
}

static enum esp_status read_all(struct esp_journal *j, struct esp_images *images,
                                struct esp_error *err) {
    j->images = images;
    j->entries = 0;
    j->state = ESP_JOURNAL_UNSENT;
    enum esp_status status = esp_line_file_read(&j->file, read_line, j, err);
    j->images = NULL;
    return status;
}

enum esp_status esp_journal_open(const char *path, const struct esp_alloc *alloc,
                                 struct esp_journal **out, struct esp_error *err) {
    struct esp_journal *j;
    enum esp_status status = journal_new(alloc, &j, err);
    *out = NULL;
    if (status != ESP_OK) {
        return status;
    }
    status = esp_line_file_open(path, alloc, &j->file, err);
    if (status == ESP_OK) {
        status = read_all(j, NULL, err);
    }
    if (status != ESP_OK) {
        esp_journal_close(j);
        return status;
    }
    *out = j;
    return ESP_OK;
}

enum esp_status esp_journal_images(struct esp_journal *journal, struct esp_images *out,
                                   struct esp_error *err) {
    enum esp_journal_state state = journal->state;
    enum esp_status status = read_all(journal, out, err);
    journal->state = state;
    return status;
}

static bool same_list(const struct esp_strings *a, const struct esp_strings *b) {
    size_t count = b ? b->count : 0;
    bool same = a->count == count;
    for (size_t i = 0; same && i < count; i++) {
        same = strcmp(a->value[i], b->value[i]) == 0;
    }
    return same;
}

static enum esp_status put_wanted(const struct esp_journal *j, struct esp_error *err) {
    char sets[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < j->head.set.count; i++) {
        int n = snprintf(sets + used, sizeof sets - used, " --set '%s'", j->head.set.value[i]);
        used += n > 0 && (size_t)n < sizeof sets - used ? (size_t)n : 0;
    }
    return esp_fail(err, ESP_ERR_REFUSED,
                    "%s is the journal of an edit made with --layout %.*s%s: give the same",
                    j->file.name, ESP_FMT(j->head.layout), sets);
}

enum esp_status esp_journal_match(const struct esp_journal *journal, const struct esp_table *table,
                                  const struct esp_journal_edit *edit, struct esp_error *err) {
    const struct esp_journal_head *head = &journal->head;
    struct esp_buf place;
    esp_buf_init(&place, journal->alloc, TEXT_BYTES_MAX);
    esp_store_put_place(table->store, &place);
    bool failed = place.failed;
    bool here = esp_str_eq(esp_buf_str(&place), head->store) &&
                esp_str_eq(esp_str_from(table->name), head->table);
    esp_buf_fini(&place);
    if (failed) {
        return esp_fail_nomem(err);
    }
    if (!here) {
        return esp_fail(err, ESP_ERR_REFUSED, "%s is the journal of the table '%.*s' in %.*s",
                        journal->file.name, ESP_FMT(head->table), ESP_FMT(head->store));
    }
    bool same =
        esp_str_eq(head->layout, esp_str_from(edit->layout)) && same_list(&head->set, edit->set);
    return same ? ESP_OK : put_wanted(journal, err);
}

enum esp_status esp_journal_drop_draft(const char *path, const struct esp_alloc *alloc,
                                       bool *dropped, struct esp_error *err) {
    struct esp_line_file file;
    enum esp_status status = esp_line_file_open_draft(path, alloc, &file, err);
    *dropped = status == ESP_OK;
    if (status == ESP_ERR_NOT_FOUND) {
        if (err) {
            esp_error_clear(err);
        }
        return ESP_OK;
    }
    if (status == ESP_OK) {
        status = esp_line_file_remove(&file, err);
        esp_line_file_close(&file);
    }
    return status;
}
