#include "loader/journal_lines.h"

#include "core/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum {
    FLUSH_BYTES = 256 << 10,
    BUFFER_BYTES_MAX = 128 << 20,
    CHECKSUM_DIGITS = 8,
    LOCK_TRIES = 8, /* times that the name may go to another file between open and lock */
};

/* --- failures --------------------------------------------------------------------- */

static enum esp_status fail_io(const char *name, const char *what, struct esp_error *err) {
    int number = errno;
    enum esp_status status = esp_fail(err, ESP_ERR_IO, "%s: %s: %s", name, what, strerror(number));
    if (err && err->os_errno == 0) {
        err->os_errno = number;
    }
    return status;
}

enum esp_status esp_line_file_fail(const char *name, uint64_t line, const char *what,
                                   struct esp_error *err) {
    bool first = err && err->status == ESP_OK;
    enum esp_status status = esp_fail(err, ESP_ERR_INPUT, "%s", what);
    if (first) {
        snprintf(err->source, sizeof err->source, "%s", name);
        err->line = line;
    }
    return status;
}

/* --- opening, locking ------------------------------------------------------------- */

static enum esp_status file_init(struct esp_line_file *file, const char *name,
                                 const struct esp_alloc *alloc, struct esp_error *err) {
    size_t len = strlen(name) + 1;
    *file = (struct esp_line_file){.alloc = alloc, .fd = -1, .name_bytes = 2 * len + 4};
    file->name = esp_calloc(alloc, 1, file->name_bytes);
    if (!file->name) {
        return esp_fail_nomem(err);
    }
    file->draft = file->name + len;
    memcpy(file->name, name, len);
    memcpy(file->draft, name, len - 1);
    memcpy(file->draft + len - 1, ".tmp", 5);
    esp_buf_init(&file->out, alloc, BUFFER_BYTES_MAX);
    return ESP_OK;
}

static bool is_named(int fd, const char *name) {
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && stat(name, &named) == 0 &&
           open_file.st_dev == named.st_dev && open_file.st_ino == named.st_ino;
}

/* Open and lock what has this name now.  Whoever holds the lock of the file with a name is the
 * only one who renames or removes it, so a name cannot leave a locked file. */
static enum esp_status open_locked(struct esp_line_file *file, const char *name, int flags,
                                   struct esp_error *err) {
    for (int i = 0; i < LOCK_TRIES; i++) {
        file->fd = open(name, O_RDWR | O_CLOEXEC | O_APPEND | flags, 0600);
        if (file->fd < 0) {
            return errno == ENOENT && !(flags & O_CREAT)
                       ? esp_fail(err, ESP_ERR_NOT_FOUND, "there is no journal %s", name)
                       : fail_io(name, "cannot open the journal", err);
        }
        bool locked = flock(file->fd, LOCK_EX | LOCK_NB) == 0;
        bool named = is_named(file->fd, name);
        if (locked && named) {
            return ESP_OK;
        }
        bool busy = !locked && named;
        close(file->fd);
        file->fd = -1;
        if (busy) {
            break;
        }
    }
    return esp_fail(err, ESP_ERR_CONFLICT,
                    "%s: another edit or repair of this table is at work: wait for it", name);
}

/* Is the file itself there, and does somebody use it? */
static enum esp_status check_free(const struct esp_line_file *file, struct esp_error *err) {
    int fd = open(file->name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? ESP_OK : fail_io(file->name, "cannot open the journal", err);
    }
    bool used = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd);
    return used ? esp_fail(err, ESP_ERR_CONFLICT,
                           "%s: another edit or repair of this table is at work: wait for it",
                           file->name)
                : esp_fail(err, ESP_ERR_EXISTS,
                           "%s is the journal of an edit of this table that was cut", file->name);
}

enum esp_status esp_line_file_create(const char *name, const struct esp_alloc *alloc,
                                     struct esp_line_file *file, struct esp_error *err) {
    enum esp_status status = file_init(file, name, alloc, err);
    if (status == ESP_OK) {
        status = open_locked(file, file->draft, O_CREAT, err);
    }
    if (status == ESP_OK) {
        status = check_free(file, err);
    }
    if (status == ESP_OK && ftruncate(file->fd, 0) != 0) {
        status = fail_io(file->draft, "cannot write the journal", err);
    }
    if (status != ESP_OK) {
        esp_line_file_close(file);
    }
    return status;
}

static enum esp_status open_file(const char *name, bool draft, const struct esp_alloc *alloc,
                                 struct esp_line_file *file, struct esp_error *err) {
    enum esp_status status = file_init(file, name, alloc, err);
    if (status == ESP_OK) {
        status = open_locked(file, draft ? file->draft : file->name, 0, err);
    }
    if (status != ESP_OK) {
        esp_line_file_close(file);
        return status;
    }
    file->published = !draft;
    return ESP_OK;
}

enum esp_status esp_line_file_open(const char *name, const struct esp_alloc *alloc,
                                   struct esp_line_file *file, struct esp_error *err) {
    return open_file(name, false, alloc, file, err);
}

enum esp_status esp_line_file_open_draft(const char *name, const struct esp_alloc *alloc,
                                         struct esp_line_file *file, struct esp_error *err) {
    return open_file(name, true, alloc, file, err);
}

void esp_line_file_close(struct esp_line_file *file) {
    if (!file->name) {
        return;
    }
    if (file->fd >= 0) {
        if (!file->published) {
            unlink(file->draft);
        }
        close(file->fd);
    }
    esp_buf_fini(&file->out);
    esp_release(file->alloc, file->name, file->name_bytes);
    *file = (struct esp_line_file){.fd = -1};
}

/* --- writing ---------------------------------------------------------------------- */

static const char *current_name(const struct esp_line_file *file) {
    return file->published ? file->name : file->draft;
}

static enum esp_status flush(struct esp_line_file *file, struct esp_error *err) {
    size_t done = 0;
    if (file->out.failed) {
        return esp_fail_nomem(err);
    }
    if (file->cut && ftruncate(file->fd, (off_t)file->whole_bytes) != 0) {
        return fail_io(file->name, "cannot write the journal", err);
    }
    file->cut = false;
    while (done < file->out.len) {
        ssize_t n = write(file->fd, file->out.ptr + done, file->out.len - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_io(current_name(file), "cannot write the journal", err);
        }
        done += (size_t)n;
    }
    esp_buf_reset(&file->out);
    return ESP_OK;
}

enum esp_status esp_line_file_add(struct esp_line_file *file, struct esp_str text,
                                  struct esp_error *err) {
    unsigned long sum = crc32(0, (const unsigned char *)text.ptr, (unsigned)text.len);
    esp_buf_printf(&file->out, "%08lx ", sum);
    esp_buf_put_str(&file->out, text);
    esp_buf_put_char(&file->out, '\n');
    if (file->out.failed) {
        return esp_fail_nomem(err);
    }
    return file->out.len >= FLUSH_BYTES ? flush(file, err) : ESP_OK;
}

/* A name that was given or taken is on disk when its folder is. */
enum esp_status esp_line_file_sync_folder(const char *name, const struct esp_alloc *alloc,
                                          struct esp_error *err) {
    const char *slash = strrchr(name, '/');
    size_t len = slash ? (size_t)(slash - name) + (slash == name) : 1;
    char *folder = esp_calloc(alloc, 1, len + 1);
    if (!folder) {
        return esp_fail_nomem(err);
    }
    memcpy(folder, slash ? name : ".", len);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum esp_status status = ESP_OK;
    if (fd < 0 || fsync(fd) != 0) {
        status = fail_io(folder, "cannot sync the folder of the journal", err);
    }
    if (fd >= 0) {
        close(fd);
    }
    esp_release(alloc, folder, len + 1);
    return status;
}

enum esp_status esp_line_file_sync(struct esp_line_file *file, struct esp_error *err) {
    enum esp_status status = flush(file, err);
    if (status == ESP_OK && fsync(file->fd) != 0) {
        status = fail_io(current_name(file), "cannot sync the journal", err);
    }
    if (status != ESP_OK || file->published) {
        return status;
    }
    if (rename(file->draft, file->name) != 0) {
        return fail_io(file->draft, "cannot give the journal its name", err);
    }
    file->published = true;
    status = esp_line_file_sync_folder(file->name, file->alloc, err);
    if (status != ESP_OK) { /* it might be gone after a crash: as if it had not been written */
        unlink(file->name);
    }
    return status;
}

enum esp_status esp_line_file_remove(struct esp_line_file *file, struct esp_error *err) {
    if (unlink(current_name(file)) != 0) {
        return fail_io(current_name(file), "cannot remove the journal", err);
    }
    file->published = true; /* there is no draft to remove any more */
    return esp_line_file_sync_folder(file->name, file->alloc, err);
}

/* --- reading ---------------------------------------------------------------------- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Splits "checksum text"; false when they do not agree. */
static bool is_whole(struct esp_str line, struct esp_str *text) {
    unsigned long sum = 0;
    if (line.len <= CHECKSUM_DIGITS || line.ptr[CHECKSUM_DIGITS] != ' ') {
        return false;
    }
    for (size_t i = 0; i < CHECKSUM_DIGITS; i++) {
        int digit = hex_digit(line.ptr[i]);
        if (digit < 0) {
            return false;
        }
        sum = sum << 4 | (unsigned long)digit;
    }
    *text = (struct esp_str){line.ptr + CHECKSUM_DIGITS + 1, line.len - CHECKSUM_DIGITS - 1};
    return crc32(0, (const unsigned char *)text->ptr, (unsigned)text->len) == sum;
}

enum esp_status esp_line_file_read(struct esp_line_file *file, esp_line_fn *fn, void *ctx,
                                   struct esp_error *err) {
    struct esp_reader *reader = NULL;
    enum esp_status status = esp_reader_open(file->name, file->alloc, &reader, err);
    for (uint64_t n = 1; status == ESP_OK; n++) {
        struct esp_str line, text;
        status = esp_reader_line(reader, &line, err);
        if (status != ESP_OK || line.len == 0) {
            break;
        }
        if (line.ptr[line.len - 1] != '\n') {
            file->cut = true;
            file->whole_bytes = esp_reader_offset(reader) - line.len;
            break;
        }
        line.len--;
        status = is_whole(line, &text)
                     ? fn(ctx, text, n, err)
                     : esp_line_file_fail(file->name, n,
                                          "the line is damaged: its checksum is wrong", err);
    }
    esp_reader_close(reader);
    return status;
}
