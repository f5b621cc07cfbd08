#ifndef ESP_TESTS_SUPPORT_H
#define ESP_TESTS_SUPPORT_H
/* What tests share: cmocka with what it needs, scratch folders, files, child processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mem.h"

/* Fails the test with the error's sentence unless the call succeeded. */
#define assert_ok(call, err)                                                                       \
    do {                                                                                           \
        enum esp_status status_ = (call);                                                          \
        if (status_ != ESP_OK) {                                                                   \
            fail_msg("%s: %s: %s", #call, esp_status_name(status_), (err)->message);               \
        }                                                                                          \
    } while (0)
#define assert_status(expected, call) assert_string_equal(#expected, esp_test_status_name(call))
const char *esp_test_status_name(enum esp_status status); /* "ESP_ERR_CYCLE" */

/* A fresh empty folder under $TMPDIR; removed with everything in it by esp_test_rmdir. */
void esp_test_mkdir(char path[256]);
void esp_test_rmdir(const char *path);

/* The whole file, NUL-terminated, malloc'ed (free it); fails the test when it cannot. */
char *esp_test_read_file(const char *path, size_t *len);
void esp_test_write_file(const char *path, const void *bytes, size_t len);

/* Run a command line by the shell; returns its exit code (128 + signal when killed).
 * *out (may be NULL) gets stdout, malloc'ed and NUL-terminated. */
int esp_test_run(const char *command, char **out);

#endif
