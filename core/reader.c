#include "core/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

enum { READ_BYTES = 1 << 20, PEEK_BYTES_MAX = 64 << 10 };

enum coding { CODING_PLAIN, CODING_GZIP, CODING_ZSTD };

/* raw bytes (file or memory) -> decoder -> window [pos, len) of `text` -> caller */
struct esp_reader {
    const struct esp_alloc *alloc;
    char name[256];
    int fd;                /* -1: memory */
    struct esp_str memory; /* what is left of it */
    uint64_t raw_offset, raw_size;

    enum coding coding;
    bool sniffed;       /* coding is known */
    bool raw_ended;     /* no more raw bytes */
    bool stream_open;   /* inside a compressed member or frame */
    struct esp_buf raw; /* compressed bytes not yet decoded: [raw_pos, raw.len) */
    size_t raw_pos;
    z_stream gzip;
    bool gzip_ready;
    ZSTD_DStream *zstd;

    struct esp_buf text; /* decoded bytes: [pos, text.len) are still to be consumed */
    size_t pos;
    bool ended; /* text holds the last bytes there are */
    uint64_t offset;
};

static enum esp_status new_reader(const struct esp_alloc *alloc, const char *name,
                                  struct esp_reader **out, struct esp_error *err) {
    struct esp_reader *r = esp_calloc(alloc, 1, sizeof *r);
    if (!r) {
        return esp_fail_nomem(err);
    }
    r->alloc = alloc;
    r->fd = -1;
    snprintf(r->name, sizeof r->name, "%s", name);
    esp_buf_init(&r->raw, alloc, 4 * READ_BYTES);
    esp_buf_init(&r->text, alloc, (size_t)ESP_LINE_BYTES_MAX + 4 * (size_t)READ_BYTES);
    *out = r;
    return ESP_OK;
}

static enum esp_status io_error(struct esp_reader *r, const char *what, struct esp_error *err) {
    int saved = errno;
    enum esp_status status = esp_fail(err, ESP_ERR_IO, "cannot %s: %s", what, strerror(saved));
    if (err && err->status == status && !err->source[0]) {
        snprintf(err->source, sizeof err->source, "%s", r->name);
        err->os_errno = saved;
    }
    return status;
}

static enum esp_status input_error(struct esp_reader *r, const char *sentence,
                                   struct esp_error *err) {
    enum esp_status status = esp_fail(err, ESP_ERR_INPUT, "%s", sentence);
    if (err && !err->source[0]) {
        snprintf(err->source, sizeof err->source, "%s", r->name);
    }
    return status;
}

enum esp_status esp_reader_open(const char *path, const struct esp_alloc *alloc,
                                struct esp_reader **out, struct esp_error *err) {
    struct esp_reader *r = NULL;
    enum esp_status status = new_reader(alloc, path, &r, err);
    if (status != ESP_OK) {
        return status;
    }
    struct stat st;
    r->fd = strcmp(path, "-") == 0 ? dup(0) : open(path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0 || fstat(r->fd, &st) != 0) {
        status = io_error(r, "open the file", err);
    } else if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        status = io_error(r, "read", err);
    } else {
        r->raw_size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
        *out = r;
        return ESP_OK;
    }
    esp_reader_close(r);
    return status;
}

enum esp_status esp_reader_open_memory(struct esp_str bytes, const char *name,
                                       const struct esp_alloc *alloc, struct esp_reader **out,
                                       struct esp_error *err) {
    enum esp_status status = new_reader(alloc, name, out, err);
    if (status == ESP_OK) {
        (*out)->memory = bytes;
        (*out)->raw_size = bytes.len;
    }
    return status;
}

void esp_reader_close(struct esp_reader *r) {
    if (!r) {
        return;
    }
    if (r->fd >= 0) {
        close(r->fd);
    }
    if (r->gzip_ready) {
        inflateEnd(&r->gzip);
    }
    ZSTD_freeDStream(r->zstd);
    esp_buf_fini(&r->raw);
    esp_buf_fini(&r->text);
    esp_release(r->alloc, r, sizeof *r);
}

const char *esp_reader_name(const struct esp_reader *r) {
    return r->name;
}

uint64_t esp_reader_offset(const struct esp_reader *r) {
    return r->offset;
}

uint64_t esp_reader_raw_offset(const struct esp_reader *r) {
    return r->raw_offset;
}

uint64_t esp_reader_raw_size(const struct esp_reader *r) {
    return r->raw_size;
}

/* Append up to READ_BYTES raw bytes to `buf`; sets raw_ended at the end. */
static enum esp_status read_raw(struct esp_reader *r, struct esp_buf *buf, struct esp_error *err) {
    if (!esp_buf_reserve(buf, READ_BYTES)) {
        return esp_fail_nomem(err);
    }
    ssize_t got;
    if (r->fd < 0) {
        got = (ssize_t)(r->memory.len < READ_BYTES ? r->memory.len : READ_BYTES);
        if (got) {
            memcpy(buf->ptr + buf->len, r->memory.ptr, (size_t)got);
        }
        r->memory.ptr += got;
        r->memory.len -= (size_t)got;
    } else {
        do {
            got = read(r->fd, buf->ptr + buf->len, READ_BYTES);
        } while (got < 0 && errno == EINTR);
        if (got < 0) {
            return io_error(r, "read", err);
        }
    }
    r->raw_ended = got == 0;
    r->raw_offset += (uint64_t)got;
    buf->len += (size_t)got;
    return ESP_OK;
}

/* The first bytes decide how the rest is coded. */
static enum esp_status sniff_coding(struct esp_reader *r, struct esp_error *err) {
    while (r->raw.len < 4 && !r->raw_ended) {
        enum esp_status status = read_raw(r, &r->raw, err);
        if (status != ESP_OK) {
            return status;
        }
    }
    r->sniffed = true;
    if (r->raw.len >= 2 && memcmp(r->raw.ptr, "\x1f\x8b", 2) == 0) {
        r->coding = CODING_GZIP;
        if (inflateInit2(&r->gzip, 15 + 16) != Z_OK) {
            return esp_fail_nomem(err);
        }
        r->gzip_ready = true;
    } else if (r->raw.len >= 4 && memcmp(r->raw.ptr, "\x28\xb5\x2f\xfd", 4) == 0) {
        r->coding = CODING_ZSTD;
        r->zstd = ZSTD_createDStream();
        if (!r->zstd || ZSTD_isError(ZSTD_initDStream(r->zstd))) {
            return esp_fail_nomem(err);
        }
    }
    return ESP_OK;
}

static enum esp_status decode_gzip(struct esp_reader *r, struct esp_error *err) {
    r->gzip.next_in = (unsigned char *)r->raw.ptr + r->raw_pos;
    r->gzip.avail_in = (unsigned)(r->raw.len - r->raw_pos);
    r->gzip.next_out = (unsigned char *)r->text.ptr + r->text.len;
    r->gzip.avail_out = READ_BYTES;
    int result = inflate(&r->gzip, Z_NO_FLUSH);
    r->raw_pos = r->raw.len - r->gzip.avail_in;
    r->text.len += READ_BYTES - r->gzip.avail_out;
    if (result == Z_STREAM_END) {
        r->stream_open = false; /* another member may follow */
        inflateReset(&r->gzip);
    } else if (result == Z_OK || result == Z_BUF_ERROR) {
        r->stream_open = true;
    } else if (result == Z_MEM_ERROR) {
        return esp_fail_nomem(err);
    } else {
        return input_error(r, "the gzip data is damaged", err);
    }
    return ESP_OK;
}

static enum esp_status decode_zstd(struct esp_reader *r, struct esp_error *err) {
    ZSTD_inBuffer in = {r->raw.ptr, r->raw.len, r->raw_pos};
    ZSTD_outBuffer out = {r->text.ptr + r->text.len, READ_BYTES, 0};
    size_t result = ZSTD_decompressStream(r->zstd, &out, &in);
    if (ZSTD_isError(result)) {
        return input_error(r, "the zstd data is damaged", err);
    }
    r->raw_pos = in.pos;
    r->text.len += out.pos;
    r->stream_open = result != 0;
    return ESP_OK;
}

/* Make room at the end of `text` by dropping what was consumed. */
static bool make_room(struct esp_reader *r) {
    if (r->pos == r->text.len) {
        r->pos = r->text.len = 0;
    } else if (r->pos > 0) {
        memmove(r->text.ptr, r->text.ptr + r->pos, r->text.len - r->pos);
        r->text.len -= r->pos;
        r->pos = 0;
    }
    return esp_buf_reserve(&r->text, READ_BYTES);
}

static enum esp_status decode_more(struct esp_reader *r, struct esp_error *err) {
    size_t before = r->text.len;
    while (r->text.len == before && !r->ended) {
        if (r->raw_pos == r->raw.len && !r->raw_ended) {
            r->raw_pos = r->raw.len = 0;
            enum esp_status status = read_raw(r, &r->raw, err);
            if (status != ESP_OK) {
                return status;
            }
        }
        if (r->raw_pos == r->raw.len && r->raw_ended) {
            /* Decoders may still hold output of input they have taken. */
            size_t held = r->text.len;
            if (r->stream_open) {
                enum esp_status status =
                    r->coding == CODING_GZIP ? decode_gzip(r, err) : decode_zstd(r, err);
                if (status != ESP_OK) {
                    return status;
                }
            }
            if (r->text.len == held) {
                r->ended = true;
                if (r->stream_open) {
                    return input_error(r, "the compressed data ends too early", err);
                }
            }
            continue;
        }
        enum esp_status status =
            r->coding == CODING_GZIP ? decode_gzip(r, err) : decode_zstd(r, err);
        if (status != ESP_OK) {
            return status;
        }
    }
    return ESP_OK;
}

/* Append at least one byte to the window, or set `ended`. */
static enum esp_status fill(struct esp_reader *r, struct esp_error *err) {
    if (!r->sniffed) {
        enum esp_status status = sniff_coding(r, err);
        if (status != ESP_OK) {
            return status;
        }
        if (r->coding == CODING_PLAIN) { /* what was read to sniff is text */
            struct esp_buf swap = r->text;
            r->text = r->raw;
            r->text.limit = swap.limit;
            r->raw = swap;
            r->raw.limit = 4 * READ_BYTES;
            r->ended = r->raw_ended && r->text.len == 0;
            return ESP_OK;
        }
    }
    if (!make_room(r)) {
        return esp_fail_nomem(err);
    }
    if (r->coding != CODING_PLAIN) {
        return decode_more(r, err);
    }
    enum esp_status status = read_raw(r, &r->text, err);
    r->ended = r->raw_ended;
    return status;
}

enum esp_status esp_reader_peek(struct esp_reader *r, size_t want, struct esp_str *out,
                                struct esp_error *err) {
    want = want < PEEK_BYTES_MAX ? want : PEEK_BYTES_MAX;
    while (r->text.len - r->pos < want && !r->ended) {
        enum esp_status status = fill(r, err);
        if (status != ESP_OK) {
            return status;
        }
    }
    size_t have = r->text.len - r->pos;
    *out = (struct esp_str){r->text.ptr + r->pos, have < want ? have : want};
    return ESP_OK;
}

static void consume(struct esp_reader *r, size_t len, struct esp_str *out) {
    *out = (struct esp_str){r->text.ptr ? r->text.ptr + r->pos : NULL, len};
    r->pos += len;
    r->offset += len;
}

enum esp_status esp_reader_next(struct esp_reader *r, struct esp_str *out, struct esp_error *err) {
    if (r->pos == r->text.len && !r->ended) {
        enum esp_status status = fill(r, err);
        if (status != ESP_OK) {
            return status;
        }
    }
    consume(r, r->text.len - r->pos, out);
    return ESP_OK;
}

enum esp_status esp_reader_line(struct esp_reader *r, struct esp_str *out, struct esp_error *err) {
    size_t searched = 0; /* bytes of the window known to hold no '\n' */
    for (;;) {
        size_t have = r->text.len - r->pos;
        const char *end =
            have > searched ? memchr(r->text.ptr + r->pos + searched, '\n', have - searched) : NULL;
        if (end) {
            consume(r, (size_t)(end - (r->text.ptr + r->pos)) + 1, out);
            return ESP_OK;
        }
        if (r->ended) {
            consume(r, have, out);
            return ESP_OK;
        }
        if (have > ESP_LINE_BYTES_MAX) {
            enum esp_status status = esp_fail(err, ESP_ERR_LIMIT, "a line is longer than %d MiB",
                                              ESP_LINE_BYTES_MAX >> 20);
            if (err && !err->source[0]) {
                snprintf(err->source, sizeof err->source, "%s", r->name);
            }
            return status;
        }
        searched = have;
        enum esp_status status = fill(r, err);
        if (status != ESP_OK) {
            return status;
        }
    }
}
