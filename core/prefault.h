#ifndef ESP_CORE_PREFAULT_H
#define ESP_CORE_PREFAULT_H
/*
 * Fresh memory costs its first user: the kernel clears every page when it is first written.  For
 * memory that one thread fills for seconds that is up to half of its time, so another thread
 * has the pages made, ahead of the writer.  Contents are never touched.
 */
#include "core/mem.h"

#include <pthread.h>

struct esp_prefault {
    void *ptr;
    size_t size;
    pthread_t thread;
    bool running; /* the thread is to be joined */
};

/* Make the pages of [ptr, ptr + size), which stays allocated until esp_prefault_wait.  A wish:
 * nothing happens when ptr is not at the start of a page, or there is no thread, or the kernel
 * does not know how.  `p` stays where it is while it runs, and has nothing running before. */
void esp_prefault_start(struct esp_prefault *p, void *ptr, size_t size);
/* Wait for what runs, if anything does. */
void esp_prefault_wait(struct esp_prefault *p);

#endif
