#ifndef ESP_STORES_DYNAMODB_SETTINGS_H
#define ESP_STORES_DYNAMODB_SETTINGS_H
/*
 * Where requests go: profile, region and endpoint out of options, environment and the
 * shared files, in the order of the facts sheet (11.2, 11.8).  Immutable after init, so
 * threads share it.
 */
#include "stores/dynamodb/profile_file.h"
#include "stores/store.h"

struct esp_aws_settings {
    struct esp_arena arena;
    struct esp_profile_file credentials, config;
    const char *credentials_path, *config_path; /* "" when there is no home folder */
    struct esp_str profile;                     /* "default" when none was named */
    struct esp_str config_section;              /* of the profile in the config file */
    bool profile_option;   /* named by the caller: goes before environment keys */
    struct esp_str url;    /* "https://dynamodb.us-east-1.amazonaws.com" */
    struct esp_str host;   /* as the Host header has it */
    struct esp_str region; /* signed for */
    const char *ca_bundle; /* NULL: the system's */
    bool loopback;         /* the endpoint is on this machine */
};
/* `target`: an http(s) URL, or "" for the configured endpoint or AWS's own.  ERR_USAGE
 * (no region, malformed URL or name), ERR_CREDENTIALS (no such profile), and what reading
 * the files can give.  Call fini in every case. */
enum esp_status esp_aws_settings_init(struct esp_aws_settings *settings, const char *target,
                                      const struct esp_store_config *config,
                                      const struct esp_alloc *alloc,
                                      struct esp_error *err) ESP_MUST_CHECK;
void esp_aws_settings_fini(struct esp_aws_settings *settings); /* zeroed is fine */

/* A key of the profile: the credentials file wins over the config file; len == 0: absent. */
struct esp_str esp_aws_profile_get(const struct esp_aws_settings *settings, const char *key);
/* The profile's key in one of the two files. */
struct esp_str esp_aws_profile_get_in(const struct esp_aws_settings *settings,
                                      enum esp_profile_syntax which, const char *key);

#endif
