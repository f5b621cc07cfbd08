#include "core/spill.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A block in a file.  There are few: arenas ask for ever larger ones. */
struct esp_spill_block {
    struct esp_spill_block *next;
    void *ptr;
    size_t size;
};

/* A file without a name, of `size` bytes that the disk has set aside; -1: none. */
static int file_open(size_t size) {
    const char *folder = getenv("TMPDIR");
    char path[4096];
    folder = folder && folder[0] ? folder : P_tmpdir;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) { /* a file system that has no nameless files */
        int len = snprintf(path, sizeof path, "%s/espalier-XXXXXX", folder);
        fd = len > 0 && (size_t)len < sizeof path ? mkostemp(path, O_CLOEXEC) : -1;
        if (fd >= 0) {
            unlink(path);
        }
    }
    if (fd >= 0 && posix_fallocate(fd, 0, (off_t)size) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Under the lock. */
static void *block_new(struct esp_spill *spill, size_t size) {
    struct esp_spill_block *block = esp_resize(spill->inner, NULL, 0, sizeof *block);
    int fd = block ? file_open(size) : -1;
    void *ptr = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) {
        close(fd); /* the mapping keeps the file */
    }
    if (ptr == MAP_FAILED) {
        esp_release(spill->inner, block, sizeof *block);
        return NULL;
    }
    *block = (struct esp_spill_block){spill->blocks, ptr, size};
    spill->blocks = block;
    spill->file_bytes += size;
    return ptr;
}

/* Under the lock.  False: the block is not in a file. */
static bool block_free(struct esp_spill *spill, void *ptr) {
    for (struct esp_spill_block **at = &spill->blocks; *at; at = &(*at)->next) {
        struct esp_spill_block *block = *at;
        if (block->ptr == ptr) {
            *at = block->next;
            spill->file_bytes -= block->size;
            munmap(block->ptr, block->size);
            esp_release(spill->inner, block, sizeof *block);
            return true;
        }
    }
    return false;
}

static void give_back(struct esp_spill *spill, void *ptr, size_t size) {
    if (ptr && !block_free(spill, ptr)) {
        spill->inner_bytes -= size;
        esp_release(spill->inner, ptr, size);
    }
}

static void *take(struct esp_spill *spill, size_t size) {
    if (size >= ESP_SPILL_BLOCK_BYTES_MIN && (spill->inner_bytes >= spill->limit_bytes ||
                                              size > spill->limit_bytes - spill->inner_bytes)) {
        return block_new(spill, size);
    }
    void *ptr = esp_resize(spill->inner, NULL, 0, size);
    spill->inner_bytes += ptr ? size : 0;
    return ptr;
}

static void *spill_resize(void *ctx, void *old, size_t old_size, size_t new_size) {
    struct esp_spill *spill = ctx;
    pthread_mutex_lock(&spill->lock);
    void *ptr = take(spill, new_size);
    if (ptr && old) {
        memcpy(ptr, old, old_size < new_size ? old_size : new_size);
        give_back(spill, old, old_size);
    }
    pthread_mutex_unlock(&spill->lock);
    return ptr;
}

static void spill_release(void *ctx, void *ptr, size_t size) {
    struct esp_spill *spill = ctx;
    pthread_mutex_lock(&spill->lock);
    give_back(spill, ptr, size);
    pthread_mutex_unlock(&spill->lock);
}

void esp_spill_init(struct esp_spill *spill, const struct esp_alloc *inner, size_t limit_bytes) {
    *spill = (struct esp_spill){
        .alloc = {spill_resize, spill_release, spill, inner->arena_chunk_bytes},
        .inner = inner,
        .limit_bytes = limit_bytes,
    };
    pthread_mutex_init(&spill->lock, NULL);
}

void esp_spill_fini(struct esp_spill *spill) {
    pthread_mutex_destroy(&spill->lock);
}
