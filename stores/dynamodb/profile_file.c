#include "stores/dynamodb/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <strings.h>
#include <unistd.h>

static enum esp_status read_file(struct esp_profile_file *file, const char *path,
                                 struct esp_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR
                   ? ESP_OK
                   : esp_fail(err, ESP_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    }
    file->exists = true;
    /* Room for nearly every such file at once: growing would leave copies of secrets behind. */
    enum esp_status status = esp_buf_reserve(&file->text, 64 << 10) ? ESP_OK : esp_fail_nomem(err);
    while (status == ESP_OK) {
        if (!esp_buf_reserve(&file->text, 4096)) {
            status = file->text.len + 4096 > ESP_PROFILE_FILE_BYTES_MAX
                         ? esp_fail(err, ESP_ERR_LIMIT, "%s is larger than 1 MiB", path)
                         : esp_fail_nomem(err);
            break;
        }
        ssize_t got = read(fd, file->text.ptr + file->text.len, 4096);
        if (got == 0) {
            break;
        }
        if (got > 0) {
            file->text.len += (size_t)got;
        } else if (errno != EINTR) {
            status = esp_fail(err, ESP_ERR_IO, "cannot read %s: %s", path, strerror(errno));
        }
    }
    close(fd);
    return status;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static struct esp_str trim(struct esp_str s) {
    while (s.len && is_blank(s.ptr[s.len - 1])) {
        s.len--;
    }
    while (s.len && is_blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    return s;
}

/* What remains of a line without a comment that begins with a blank and # or ;. */
static struct esp_str without_comment(struct esp_str s) {
    for (size_t i = 1; i < s.len; i++) {
        if ((s.ptr[i] == '#' || s.ptr[i] == ';') && is_blank(s.ptr[i - 1])) {
            s.len = i;
        }
    }
    return trim(s);
}

enum line_verdict { LINE_FINE, LINE_MALFORMED, LINE_NOMEM };

/* "[profile  "x y"]" -> "profile x y" in the arena. */
static enum line_verdict section_name(struct esp_arena *arena, struct esp_str line,
                                      struct esp_str *out) {
    const char *close = memchr(line.ptr, ']', line.len);
    if (!close) {
        return LINE_MALFORMED;
    }
    struct esp_str inside = trim((struct esp_str){line.ptr + 1, (size_t)(close - line.ptr - 1)});
    char *name = esp_arena_alloc(arena, inside.len + 1);
    size_t len = 0;
    bool quoted = false;
    if (!name) {
        return LINE_NOMEM;
    }
    for (size_t i = 0; i < inside.len; i++) {
        char c = inside.ptr[i];
        if (c == '"' || c == '\'') {
            quoted = !quoted;
        } else if (!is_blank(c) || quoted) {
            name[len++] = c;
        } else if (len > 0 && name[len - 1] != ' ') {
            name[len++] = ' ';
        }
    }
    *out = (struct esp_str){name, len};
    return len > 0 ? LINE_FINE : LINE_MALFORMED;
}

struct parser {
    struct esp_profile_file *file;
    enum esp_profile_syntax syntax;
    struct esp_str section, parent;
};

static bool add_entry(struct parser *p, struct esp_str parent, struct esp_str key,
                      struct esp_str value) {
    struct esp_profile_file *file = p->file;
    if (file->count == file->cap) {
        size_t cap = file->cap ? 2 * file->cap : 32, old = file->cap * sizeof *file->entries;
        void *grown = esp_resize(file->alloc, file->entries, old, cap * sizeof *file->entries);
        if (!grown) {
            return false;
        }
        file->entries = grown;
        file->cap = cap;
    }
    file->entries[file->count++] = (struct esp_profile_entry){p->section, parent, key, value};
    return true;
}

static enum line_verdict parse_line(struct parser *p, struct esp_str raw) {
    struct esp_str line = trim(raw);
    if (line.len == 0 || line.ptr[0] == '#' || line.ptr[0] == ';') {
        return LINE_FINE;
    }
    bool nested = is_blank(raw.ptr[0]);
    if (line.ptr[0] == '[' && !nested) {
        enum line_verdict verdict = section_name(&p->file->arena, line, &p->section);
        p->parent = (struct esp_str){NULL, 0};
        if (verdict != LINE_FINE) {
            return verdict;
        }
        /* A section without keys must be found too. */
        return add_entry(p, p->parent, p->parent, p->parent) ? LINE_FINE : LINE_NOMEM;
    }
    const char *equals = memchr(line.ptr, '=', line.len);
    if (nested && !equals) {
        return p->parent.len ? LINE_FINE : LINE_MALFORMED; /* more of the value above */
    }
    if (!equals || equals == line.ptr || p->section.len == 0 || (nested && p->parent.len == 0)) {
        return LINE_MALFORMED;
    }
    struct esp_str key = trim((struct esp_str){line.ptr, (size_t)(equals - line.ptr)});
    struct esp_str value = {equals + 1, (size_t)(line.ptr + line.len - equals - 1)};
    value = p->syntax == ESP_PROFILE_CONFIG ? without_comment(value) : trim(value);
    if (!nested) {
        p->parent = key;
    }
    return add_entry(p, nested ? p->parent : (struct esp_str){NULL, 0}, key, value) ? LINE_FINE
                                                                                    : LINE_NOMEM;
}

enum esp_status esp_profile_file_load(struct esp_profile_file *file, const char *path,
                                      enum esp_profile_syntax syntax, const struct esp_alloc *alloc,
                                      struct esp_error *err) {
    memset(file, 0, sizeof *file);
    file->alloc = alloc;
    esp_buf_init(&file->text, alloc, ESP_PROFILE_FILE_BYTES_MAX);
    esp_arena_init(&file->arena, alloc, ESP_PROFILE_FILE_BYTES_MAX);
    enum esp_status status = read_file(file, path, err);
    struct parser parser = {.file = file, .syntax = syntax};
    const char *at = file->text.ptr ? file->text.ptr : "", *end = at + file->text.len;
    for (uint64_t number = 1; status == ESP_OK && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct esp_str line = {at, (size_t)((newline ? newline : end) - at)};
        enum line_verdict verdict = parse_line(&parser, line);
        if (verdict == LINE_NOMEM) {
            status = esp_fail_nomem(err);
        } else if (verdict == LINE_MALFORMED) {
            status = esp_fail(err, ESP_ERR_INPUT, "%s: line %llu is no section, key or comment",
                              path, (unsigned long long)number);
        }
        at = newline ? newline + 1 : end;
    }
    return status;
}

void esp_profile_file_fini(struct esp_profile_file *file) {
    if (!file->alloc) {
        return;
    }
    if (file->text.ptr) {
        OPENSSL_cleanse(file->text.ptr, file->text.cap);
    }
    esp_buf_fini(&file->text);
    esp_arena_fini(&file->arena);
    esp_release(file->alloc, file->entries, file->cap * sizeof *file->entries);
    memset(file, 0, sizeof *file);
}

bool esp_profile_file_has(const struct esp_profile_file *file, struct esp_str section) {
    for (size_t i = 0; i < file->count; i++) {
        if (esp_str_eq(file->entries[i].section, section)) {
            return true;
        }
    }
    return false;
}

static bool same_word(struct esp_str a, const char *b) {
    return a.len == strlen(b) && strncasecmp(a.ptr, b, a.len) == 0;
}

struct esp_str esp_profile_file_get(const struct esp_profile_file *file, struct esp_str section,
                                    const char *parent, const char *key) {
    for (size_t i = file->count; i-- > 0;) {
        const struct esp_profile_entry *e = &file->entries[i];
        if (same_word(e->key, key) && esp_str_eq(e->section, section) &&
            (parent ? same_word(e->parent, parent) : e->parent.len == 0)) {
            return e->value;
        }
    }
    return (struct esp_str){NULL, 0};
}
