#ifndef ESP_CORE_MEM_H
#define ESP_CORE_MEM_H
/*
 * Strings, allocators, arenas, growing buffers.
 *
 * Vocabulary used in every doc comment:
 *   owned     - the holder frees it (X_new/X_free, or X_init/X_fini for embedded objects)
 *   borrowed  - valid until the event the comment names; copy it to keep it
 *   given     - ownership moves to the callee, also when the call fails
 */
#include "core/status.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* A borrowed run of bytes.  Not NUL-terminated; may contain NUL.  Pass by value. */
struct esp_str {
    const char *ptr; /* may be NULL only when len == 0 */
    size_t len;      /* bytes */
};
#define ESP_STR(literal) ((struct esp_str){(literal), sizeof(literal) - 1})
/* printf("%.*s", ESP_FMT(s)); */
#define ESP_FMT(s) (int)(s).len, (s).ptr ? (s).ptr : ""

static inline struct esp_str esp_str_from(const char *text) {
    return (struct esp_str){text, text ? strlen(text) : 0};
}
static inline bool esp_str_eq(struct esp_str a, struct esp_str b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
int esp_str_cmp(struct esp_str a, struct esp_str b); /* memcmp order, shorter first */

/* Where memory comes from.  `resize` follows realloc; `release` accepts NULL.
 * Thread-safe.  Tests pass an allocator that fails the n-th call. */
struct esp_alloc {
    void *(*resize)(void *ctx, void *old, size_t old_size, size_t new_size);
    void (*release)(void *ctx, void *ptr, size_t size);
    void *ctx;
    /* Arenas take memory in chunks this big; 0 = 64 KiB.  Fault tests set 1, so
     * that every arena allocation reaches `resize` and can be made to fail. */
    size_t arena_chunk_bytes;
};
extern const struct esp_alloc esp_alloc_libc;

static inline void *esp_resize(const struct esp_alloc *a, void *old, size_t old_size,
                               size_t new_size) {
    return a->resize(a->ctx, old, old_size, new_size);
}
static inline void esp_release(const struct esp_alloc *a, void *ptr, size_t size) {
    a->release(a->ctx, ptr, size);
}
/* Zeroed memory, or NULL. */
void *esp_calloc(const struct esp_alloc *alloc, size_t count, size_t size) ESP_MUST_CHECK;

/* Big arrays (from 2 MiB up) straight from the kernel on huge pages where it has
 * them, zeroed; smaller ones from `alloc`.  Free with the same size. */
void *esp_big_alloc(const struct esp_alloc *alloc, size_t size) ESP_MUST_CHECK;
void esp_big_free(const struct esp_alloc *alloc, void *ptr, size_t size);
/* Like realloc on such an array; what is new is zeroed.  NULL: the old one is untouched. */
void *esp_big_resize(const struct esp_alloc *alloc, void *old, size_t old_size,
                     size_t new_size) ESP_MUST_CHECK;

/* Bump allocator: many allocations, one free.  Not thread-safe: one per owner. */
struct esp_arena {
    const struct esp_alloc *alloc; /* borrowed for the arena's life */
    struct esp_arena_chunk *head;  /* the chunk in use; older ones follow */
    struct esp_arena_chunk *spare; /* kept by reset for reuse */
    size_t used_bytes;             /* handed out, alignment included */
    size_t limit_bytes;            /* allocation past it fails with NULL */
};

/* Cannot fail; takes no memory until the first allocation. */
void esp_arena_init(struct esp_arena *arena, const struct esp_alloc *alloc, size_t limit_bytes);
void esp_arena_fini(struct esp_arena *arena);
/* Forget every allocation, keep the memory for reuse. */
void esp_arena_reset(struct esp_arena *arena);
/* 16-byte aligned, uninitialised, borrowed until reset/fini.  NULL = no memory or limit. */
void *esp_arena_alloc(struct esp_arena *arena, size_t size) ESP_MUST_CHECK;
/* Zeroed array; NULL also when count * size overflows. */
void *esp_arena_calloc(struct esp_arena *arena, size_t count, size_t size) ESP_MUST_CHECK;
/* Copy `s` (plus a NUL not counted in len).  ptr == NULL on failure. */
struct esp_str esp_arena_dup(struct esp_arena *arena, struct esp_str s) ESP_MUST_CHECK;
struct esp_str esp_arena_fmt(struct esp_arena *arena, const char *fmt, ...)
    ESP_PRINTF(2, 3) ESP_MUST_CHECK;

/* Growing byte buffer with a maximum.  A failed append sets `failed` and every
 * later append does nothing, so that a run of appends needs one check at its end. */
struct esp_buf {
    const struct esp_alloc *alloc; /* borrowed for the buffer's life */
    char *ptr;
    size_t len, cap, limit; /* bytes */
    bool failed;            /* out of memory or past `limit` since the last reset */
};
void esp_buf_init(struct esp_buf *buf, const struct esp_alloc *alloc, size_t limit_bytes);
void esp_buf_fini(struct esp_buf *buf);
static inline void esp_buf_reset(struct esp_buf *buf) { /* keeps the memory */
    buf->len = 0;
    buf->failed = false;
}
/* Room for `more` bytes at ptr + len; false (and `failed`) when there is none. */
bool esp_buf_reserve(struct esp_buf *buf, size_t more);
static inline void esp_buf_put(struct esp_buf *buf, const void *bytes, size_t len) {
    if (len && !buf->failed && (buf->cap - buf->len >= len || esp_buf_reserve(buf, len))) {
        memcpy(buf->ptr + buf->len, bytes, len);
        buf->len += len;
    }
}
static inline void esp_buf_put_str(struct esp_buf *buf, struct esp_str s) {
    esp_buf_put(buf, s.ptr, s.len);
}
static inline void esp_buf_put_char(struct esp_buf *buf, char c) {
    esp_buf_put(buf, &c, 1);
}
#define ESP_BUF_LIT(buf, literal) esp_buf_put((buf), (literal), sizeof(literal) - 1)
void esp_buf_put_i64(struct esp_buf *buf, int64_t n); /* decimal */
void esp_buf_printf(struct esp_buf *buf, const char *fmt, ...) ESP_PRINTF(2, 3);
/* NUL-terminates (the NUL is not counted); NULL when the buffer has failed. */
const char *esp_buf_cstr(struct esp_buf *buf);
static inline struct esp_str esp_buf_str(const struct esp_buf *buf) {
    return (struct esp_str){buf->ptr, buf->len};
}

/* 64-bit hash of bytes, good enough for hash tables and digests of trusted data.
 * Stable across runs and machines (little-endian reads). */
uint64_t esp_hash64(const void *bytes, size_t len, uint64_t seed);

#endif
