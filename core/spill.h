#ifndef ESP_CORE_SPILL_H
#define ESP_CORE_SPILL_H
/*
 * Memory for what may grow larger than the machine's: an allocator whose blocks come from
 * `inner` up to a limit; past it big blocks come from unlinked files in TMPDIR (else the usual
 * folder for such files), mapped shared.  The kernel writes those out when memory is short, so
 * the process's own memory stays near the limit whatever is asked for.  Room on the disk is
 * taken when a block is made: a full disk is a NULL, not a signal later.
 *
 * Made for arenas, whose chunks grow with what they hold.  Thread-safe.
 */
#include "core/mem.h"

#include <pthread.h>

/* Smaller blocks never go to a file. */
enum { ESP_SPILL_BLOCK_BYTES_MIN = 1 << 20 };

struct esp_spill {
    struct esp_alloc alloc;        /* to be passed on; its ctx is this spill, which must not move */
    const struct esp_alloc *inner; /* borrowed */
    size_t limit_bytes;
    pthread_mutex_t lock; /* protects what follows */
    size_t inner_bytes;   /* taken from `inner` now */
    size_t file_bytes;    /* in files now */
    struct esp_spill_block *blocks;
};

void esp_spill_init(struct esp_spill *spill, const struct esp_alloc *inner, size_t limit_bytes);
/* Everything must have been released. */
void esp_spill_fini(struct esp_spill *spill);

#endif
