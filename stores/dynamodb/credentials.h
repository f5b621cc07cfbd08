#ifndef ESP_STORES_DYNAMODB_CREDENTIALS_H
#define ESP_STORES_DYNAMODB_CREDENTIALS_H
/*
 * Where the keys come from (shared facts sheet 11.1): environment, shared credentials
 * file, credential_process, config file; for endpoints on this machine keys of no meaning
 * when there are none.  Found once, kept for all threads, renewed when they expire.
 *
 * Secrets are in no message and are zeroed when they are replaced or freed.
 */
#include "core/clock.h"
#include "stores/dynamodb/settings.h"

struct esp_credentials;

/* settings and clock are borrowed.  Looks nothing up yet. */
enum esp_status esp_credentials_new(const struct esp_aws_settings *settings,
                                    const struct esp_clock *clock, const struct esp_alloc *alloc,
                                    struct esp_credentials **out,
                                    struct esp_error *err) ESP_MUST_CHECK;
void esp_credentials_free(struct esp_credentials *credentials); /* NULL is fine */

/* One thread's copy.  Zero it and set the buffers up with init. */
struct esp_credential_copy {
    struct esp_buf key_id, secret, token;
    uint64_t generation; /* of what was copied; 0 = nothing */
};
void esp_credential_copy_init(struct esp_credential_copy *copy, const struct esp_alloc *alloc);
void esp_credential_copy_fini(struct esp_credential_copy *copy);

/* False while `generation` is still what to sign with: cheap, no lock. */
bool esp_credentials_changed(const struct esp_credentials *credentials, uint64_t generation);
/* The keys to sign with now.  ERR_CREDENTIALS names every place that was looked at. */
enum esp_status esp_credentials_get(struct esp_credentials *credentials,
                                    struct esp_credential_copy *copy,
                                    struct esp_error *err) ESP_MUST_CHECK;
/* The service says that these have expired: look again.  True when there are others now. */
bool esp_credentials_renew(struct esp_credentials *credentials, uint64_t generation);

#endif
