#include "core/prefault.h"

#include <signal.h>
#include <sys/mman.h>

static void *make_pages(void *arg) {
    const struct esp_prefault *p = arg;
#ifdef MADV_POPULATE_WRITE
    (void)madvise(p->ptr, p->size, MADV_POPULATE_WRITE);
#else
    (void)p;
#endif
    return NULL;
}

void esp_prefault_start(struct esp_prefault *p, void *ptr, size_t size) {
    *p = (struct esp_prefault){.ptr = ptr, .size = size};
    sigset_t all, before;
    sigfillset(&all); /* signals are for threads that look after them */
    if (pthread_sigmask(SIG_SETMASK, &all, &before) == 0) {
        p->running = pthread_create(&p->thread, NULL, make_pages, p) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
}

void esp_prefault_wait(struct esp_prefault *p) {
    if (p->running) {
        pthread_join(p->thread, NULL);
        p->running = false;
    }
}
