#ifndef ESP_STORES_DYNAMODB_CREDENTIAL_PROCESS_H
#define ESP_STORES_DYNAMODB_CREDENTIAL_PROCESS_H
/* Runs a `credential_process` of a profile (shared facts sheet 11.3). */
#include "core/clock.h"
#include "core/mem.h"

/* The command's words are split like a shell does, without a shell; its standard output
 * replaces `out` (zero it after use).  ERR_CREDENTIALS when it cannot be run, fails or
 * takes longer than a minute; its output is in no message. */
enum esp_status esp_credential_process_run(struct esp_str command, const struct esp_alloc *alloc,
                                           struct esp_buf *out,
                                           struct esp_error *err) ESP_MUST_CHECK;

#endif
