#include "loader/crew.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { TICK_NS = 200000000, SECOND_NS = 1000000000 };

/* Shared by the caller and all workers; `running` and `done` are protected by `lock`. */
struct gang {
    const struct esp_crew *crew;
    pthread_mutex_t lock;
    pthread_cond_t done;
    uint32_t started, running;
};

struct place {
    struct gang *gang;
    void *own;
};

uint32_t esp_crew_size(uint32_t asked, uint64_t tasks) {
    uint64_t size = asked;
    if (size == 0) {
        long cores = sysconf(_SC_NPROCESSORS_ONLN);
        size = cores > 0 ? (uint64_t)cores : 1;
    }
    size = size < ESP_CREW_MAX ? size : ESP_CREW_MAX;
    size = size < tasks ? size : tasks;
    return size ? (uint32_t)size : 1;
}

static void *enter(void *arg) {
    struct place *place = arg;
    struct gang *gang = place->gang;
    gang->crew->work(gang->crew->shared, place->own);
    pthread_mutex_lock(&gang->lock);
    gang->running--;
    pthread_cond_signal(&gang->done);
    pthread_mutex_unlock(&gang->lock);
    return NULL;
}

static void wait_ticking(struct gang *gang) {
    const struct esp_crew *crew = gang->crew;
    pthread_mutex_lock(&gang->lock);
    while (gang->running > 0) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_NS;
        until.tv_sec += until.tv_nsec / SECOND_NS;
        until.tv_nsec %= SECOND_NS;
        if (pthread_cond_timedwait(&gang->done, &gang->lock, &until) != 0 && crew->tick) {
            pthread_mutex_unlock(&gang->lock);
            crew->tick(crew->tick_ctx);
            pthread_mutex_lock(&gang->lock);
        }
    }
    pthread_mutex_unlock(&gang->lock);
}

enum esp_status esp_crew_run(const struct esp_crew *crew, struct esp_error *err) {
    pthread_t thread[ESP_CREW_MAX];
    struct place place[ESP_CREW_MAX];
    struct gang gang = {.crew = crew, .running = crew->workers};
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&gang.lock, NULL);
    pthread_cond_init(&gang.done, &attr);
    int failure = 0;
    for (uint32_t i = 0; i < crew->workers && failure == 0; i++) {
        place[i] = (struct place){&gang, (char *)crew->own + i * crew->own_size};
        failure = pthread_create(&thread[i], NULL, enter, &place[i]);
        gang.started += failure == 0;
    }
    pthread_mutex_lock(&gang.lock);
    gang.running -= crew->workers - gang.started; /* those that never came */
    pthread_mutex_unlock(&gang.lock);
    wait_ticking(&gang);
    for (uint32_t i = 0; i < gang.started; i++) {
        pthread_join(thread[i], NULL);
    }
    pthread_cond_destroy(&gang.done);
    pthread_mutex_destroy(&gang.lock);
    pthread_condattr_destroy(&attr);
    if (gang.started == 0) {
        return esp_fail(err, ESP_ERR_NOMEM, "no thread can be started: %s", strerror(failure));
    }
    return ESP_OK;
}
