#ifndef ESP_STORES_DYNAMODB_PROFILE_FILE_H
#define ESP_STORES_DYNAMODB_PROFILE_FILE_H
/*
 * The shared AWS configuration files, ~/.aws/credentials and ~/.aws/config (shared facts
 * sheet 11.2): sections, keys, nested keys.  Knows the syntax, not what keys mean.
 * Values may be secrets, so messages about a file name lines, never their text.
 */
#include "core/mem.h"

enum esp_profile_syntax {
    ESP_PROFILE_CREDENTIALS, /* [NAME] */
    ESP_PROFILE_CONFIG,      /* [default], [profile NAME], [services NAME]; " #" comments */
};
enum { ESP_PROFILE_FILE_BYTES_MAX = 1 << 20 };

struct esp_profile_entry {
    struct esp_str section; /* "default", "profile NAME", "services NAME" ...; blanks as one */
    struct esp_str parent;  /* of a nested key; else empty */
    struct esp_str key;     /* as written; compared without case */
    struct esp_str value;
};

/* A file in memory; immutable after load. */
struct esp_profile_file {
    const struct esp_alloc *alloc;
    struct esp_buf text; /* zeroed when freed: it may hold secrets */
    struct esp_arena arena;
    struct esp_profile_entry *entries;
    size_t count, cap;
    bool exists;
};
/* A file that does not exist is an empty one.  ERR_INPUT (file and line) when it is
 * malformed, ERR_IO, ERR_LIMIT, ERR_NOMEM; call fini in every case. */
enum esp_status esp_profile_file_load(struct esp_profile_file *file, const char *path,
                                      enum esp_profile_syntax syntax, const struct esp_alloc *alloc,
                                      struct esp_error *err) ESP_MUST_CHECK;
void esp_profile_file_fini(struct esp_profile_file *file); /* zeroed is fine */

bool esp_profile_file_has(const struct esp_profile_file *file, struct esp_str section);
/* The last value of a key, len == 0 when there is none.  parent NULL: not nested. */
struct esp_str esp_profile_file_get(const struct esp_profile_file *file, struct esp_str section,
                                    const char *parent, const char *key);

#endif
