#include "core/mem.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int esp_str_cmp(struct esp_str a, struct esp_str b) {
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common ? memcmp(a.ptr, b.ptr, common) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static void *libc_resize(void *ctx, void *old, size_t old_size, size_t new_size) {
    (void)ctx, (void)old_size;
    return realloc(old, new_size ? new_size : 1);
}

static void libc_release(void *ctx, void *ptr, size_t size) {
    (void)ctx, (void)size;
    free(ptr);
}

const struct esp_alloc esp_alloc_libc = {libc_resize, libc_release, NULL, 0};

void *esp_calloc(const struct esp_alloc *alloc, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    void *ptr = esp_resize(alloc, NULL, 0, bytes);
    return ptr ? memset(ptr, 0, bytes) : NULL;
}

/* --- big arrays ------------------------------------------------------------ */

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Other allocators count or fail on purpose, so they must see big arrays too. */
static bool is_mapped(const struct esp_alloc *alloc, size_t size) {
    return size >= HUGE_PAGE_BYTES && alloc->resize == libc_resize;
}

void *esp_big_alloc(const struct esp_alloc *alloc, size_t size) {
    if (!is_mapped(alloc, size)) {
        return esp_calloc(alloc, size, 1);
    }
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ptr == MAP_FAILED) {
        return NULL;
    }
    madvise(ptr, size, MADV_HUGEPAGE); /* a wish: without it the array is only slower */
    return ptr;
}

void esp_big_free(const struct esp_alloc *alloc, void *ptr, size_t size) {
    if (ptr && is_mapped(alloc, size)) {
        munmap(ptr, size);
    } else {
        esp_release(alloc, ptr, size);
    }
}

void *esp_big_resize(const struct esp_alloc *alloc, void *old, size_t old_size, size_t new_size) {
    if (old && is_mapped(alloc, old_size) && is_mapped(alloc, new_size)) {
        void *ptr = mremap(old, old_size, new_size, MREMAP_MAYMOVE);
        if (ptr == MAP_FAILED) {
            return NULL;
        }
        madvise(ptr, new_size, MADV_HUGEPAGE);
        return ptr;
    }
    if (!(old && is_mapped(alloc, old_size)) && !is_mapped(alloc, new_size)) {
        char *ptr = esp_resize(alloc, old, old_size, new_size);
        if (ptr && new_size > old_size) {
            memset(ptr + old_size, 0, new_size - old_size);
        }
        return ptr;
    }
    void *ptr = esp_big_alloc(alloc, new_size);
    if (ptr && old) {
        memcpy(ptr, old, old_size < new_size ? old_size : new_size);
        esp_big_free(alloc, old, old_size);
    }
    return ptr;
}

/* --- arenas ------------------------------------------------------------------ */

struct esp_arena_chunk {
    struct esp_arena_chunk *next;
    size_t size, used; /* bytes of `bytes` */
    _Alignas(16) char bytes[];
};
enum { ARENA_CHUNK_BYTES = 64 << 10, ARENA_ALIGN = 16 };

void esp_arena_init(struct esp_arena *arena, const struct esp_alloc *alloc, size_t limit_bytes) {
    *arena = (struct esp_arena){.alloc = alloc, .limit_bytes = limit_bytes};
}

static void free_chunks(const struct esp_alloc *alloc, struct esp_arena_chunk *chunk) {
    while (chunk) {
        struct esp_arena_chunk *next = chunk->next;
        esp_release(alloc, chunk, sizeof *chunk + chunk->size);
        chunk = next;
    }
}

void esp_arena_fini(struct esp_arena *arena) {
    if (arena->alloc) {
        free_chunks(arena->alloc, arena->head);
        free_chunks(arena->alloc, arena->spare);
    }
    arena->head = arena->spare = NULL;
    arena->used_bytes = 0;
}

void esp_arena_reset(struct esp_arena *arena) {
    while (arena->head) {
        struct esp_arena_chunk *chunk = arena->head;
        arena->head = chunk->next;
        chunk->used = 0;
        chunk->next = arena->spare;
        arena->spare = chunk;
    }
    arena->used_bytes = 0;
}

/* A chunk with room for `size`: a spare one, or a new one that is at least as big as a
 * quarter of what is in use, so that the number of chunks stays logarithmic. */
static struct esp_arena_chunk *add_chunk(struct esp_arena *arena, size_t size) {
    for (struct esp_arena_chunk **at = &arena->spare; *at; at = &(*at)->next) {
        struct esp_arena_chunk *chunk = *at;
        if (chunk->size >= size) {
            *at = chunk->next;
            chunk->next = arena->head;
            return arena->head = chunk;
        }
    }
    size_t want = arena->alloc->arena_chunk_bytes;
    if (want == 0) {
        want =
            ARENA_CHUNK_BYTES > arena->used_bytes / 4 ? ARENA_CHUNK_BYTES : arena->used_bytes / 4;
    }
    want = want < size ? size : want;
    struct esp_arena_chunk *chunk =
        esp_resize(arena->alloc, NULL, 0, sizeof(struct esp_arena_chunk) + want);
    if (!chunk) {
        return NULL;
    }
    *chunk = (struct esp_arena_chunk){.next = arena->head, .size = want};
    return arena->head = chunk;
}

void *esp_arena_alloc(struct esp_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2 || arena->limit_bytes - arena->used_bytes < size) {
        return NULL;
    }
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    struct esp_arena_chunk *chunk = arena->head;
    if (!chunk || chunk->size - chunk->used < size) {
        chunk = add_chunk(arena, size);
        if (!chunk) {
            return NULL;
        }
    }
    void *ptr = chunk->bytes + chunk->used;
    chunk->used += size;
    arena->used_bytes += size;
    if (arena->used_bytes > arena->limit_bytes) {
        arena->used_bytes = arena->limit_bytes; /* the rounding up; nothing more fits */
    }
    return ptr;
}

void *esp_arena_calloc(struct esp_arena *arena, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        return NULL;
    }
    void *ptr = esp_arena_alloc(arena, bytes);
    return ptr ? memset(ptr, 0, bytes) : NULL;
}

struct esp_str esp_arena_dup(struct esp_arena *arena, struct esp_str s) {
    char *ptr = s.len < SIZE_MAX ? esp_arena_alloc(arena, s.len + 1) : NULL;
    if (!ptr) {
        return (struct esp_str){NULL, 0};
    }
    if (s.len) {
        memcpy(ptr, s.ptr, s.len);
    }
    ptr[s.len] = 0;
    return (struct esp_str){ptr, s.len};
}

struct esp_str esp_arena_fmt(struct esp_arena *arena, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *ptr = len < 0 ? NULL : esp_arena_alloc(arena, (size_t)len + 1);
    if (ptr) {
        vsnprintf(ptr, (size_t)len + 1, fmt, again);
    }
    va_end(again);
    return (struct esp_str){ptr, ptr ? (size_t)len : 0};
}

/* --- growing buffers ---------------------------------------------------------- */

void esp_buf_init(struct esp_buf *buf, const struct esp_alloc *alloc, size_t limit_bytes) {
    *buf = (struct esp_buf){.alloc = alloc, .limit = limit_bytes};
}

void esp_buf_fini(struct esp_buf *buf) {
    if (buf->alloc) {
        esp_release(buf->alloc, buf->ptr, buf->cap);
    }
    buf->ptr = NULL;
    buf->len = buf->cap = 0;
}

bool esp_buf_reserve(struct esp_buf *buf, size_t more) {
    if (buf->failed || buf->limit - buf->len < more) {
        buf->failed = true;
        return false;
    }
    if (buf->cap - buf->len >= more) {
        return true;
    }
    size_t cap = buf->cap ? buf->cap : 256;
    while (cap - buf->len < more) {
        cap = cap > buf->limit / 2 ? buf->limit : cap * 2;
    }
    char *ptr = esp_resize(buf->alloc, buf->ptr, buf->cap, cap);
    if (!ptr) {
        buf->failed = true;
        return false;
    }
    buf->ptr = ptr;
    buf->cap = cap;
    return true;
}

void esp_buf_put_i64(struct esp_buf *buf, int64_t n) {
    char digits[20], *at = digits + sizeof digits;
    uint64_t rest = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (n < 0) {
        *--at = '-';
    }
    esp_buf_put(buf, at, (size_t)(digits + sizeof digits - at));
}

void esp_buf_printf(struct esp_buf *buf, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len >= 0 && esp_buf_reserve(buf, (size_t)len + 1)) {
        vsnprintf(buf->ptr + buf->len, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

const char *esp_buf_cstr(struct esp_buf *buf) {
    if (!esp_buf_reserve(buf, 1)) {
        return NULL;
    }
    buf->ptr[buf->len] = 0;
    return buf->ptr;
}

/* --- hashing -------------------------------------------------------------------- */

static uint64_t read64(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return le64toh(x);
}

static uint64_t read32(const unsigned char *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return le32toh(x);
}

static uint64_t mix(uint64_t a, uint64_t b) {
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

uint64_t esp_hash64(const void *bytes, size_t len, uint64_t seed) {
    const uint64_t k0 = 0x9E3779B97F4A7C15u, k1 = 0xC2B2AE3D27D4EB4Fu, k2 = 0x165667B19E3779F9u;
    const unsigned char *p = bytes;
    size_t left = len;
    uint64_t hash = seed ^ k0;
    while (left > 16) {
        hash = mix(read64(p) ^ k1, read64(p + 8) ^ hash);
        p += 16;
        left -= 16;
    }
    uint64_t a = 0, b = 0;
    if (left >= 8) {
        a = read64(p);
        b = read64(p + left - 8);
    } else if (left >= 4) {
        a = read32(p) << 32 | read32(p + left - 4); /* overlapping reads see every byte */
    } else if (left) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
    }
    return mix(mix(a ^ k1, b ^ hash) ^ k2, len ^ k0);
}
