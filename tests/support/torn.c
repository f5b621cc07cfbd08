#include "tests/support/torn.h"

#include "tests/support/support.h"

static struct torn_store *current;

/* Does what the budget allows. */
static enum esp_status execute_torn(struct esp_session *session, struct esp_request *requests,
                                    size_t n, struct esp_error *err) {
    enum esp_status status = ESP_OK;
    for (size_t i = 0; i < n && status == ESP_OK; i++) {
        struct esp_request *r = &requests[i];
        bool all = r->kind == ESP_REQ_TRANSACT, write = all || r->kind == ESP_REQ_WRITE;
        bool cut = write && r->write.n > current->budget;
        if (cut) {
            r->write.n = all ? 0 : current->budget;
        }
        if (!write || r->write.n) {
            current->budget -= write ? r->write.n : 0;
            current->spent += write ? r->write.n : 0;
            status = current->inner->execute(session, r, 1, err);
        }
        if (cut && status == ESP_OK) {
            status = esp_fail(err, ESP_ERR_UNAVAILABLE, "the connection is gone");
        }
    }
    return status;
}

void torn_store_open(struct torn_store *torn) {
    struct esp_error err = ESP_ERROR_INIT;
    assert_null(current);
    *torn = (struct torn_store){.budget = SIZE_MAX};
    assert_ok(
        esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &torn->store, &err),
        &err);
    torn->inner = torn->store->ops;
    torn->ops = *torn->inner;
    torn->ops.execute = execute_torn;
    torn->ops.trial_begin = NULL;
    torn->ops.trial_end = NULL;
    torn->store->ops = &torn->ops;
    current = torn;
}

void torn_store_close(struct torn_store *torn) {
    torn->store->ops = torn->inner;
    esp_store_close(torn->store);
    current = NULL;
}

void torn_store_cut(struct torn_store *torn, size_t k) {
    torn->budget = k;
    torn->spent = 0;
}

void torn_store_heal(struct torn_store *torn) {
    torn->budget = SIZE_MAX;
}
