#ifndef ESP_TESTS_FUZZ_H
#define ESP_TESTS_FUZZ_H
/* What libFuzzer and replay.c call, and how a target says that something is wrong. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program where a sanitizer, libFuzzer or a debugger sees it. */
#define fuzz_require(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
