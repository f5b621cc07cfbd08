#ifndef ESP_BENCH_WORKLOAD_H
#define ESP_BENCH_WORKLOAD_H
/*
 * A workload: operations, in which proportion, how many a second.  JSON:
 *   {"name":"browse", "summary":"...", "rate_per_second":100, "mix":{"children":60, "node":40}}
 * The numbers of the mix are weights of any size.  Those in datasets/workloads are built in
 * and known by their name; to add one, add a file there.
 */
#include "converters/layout.h"

struct esp_workload {
    char name[64], summary[256];
    double rate_per_second;         /* operations, all together; > 0 */
    double share[ESP_OP_COUNT_ALL]; /* of all operations; sum 1 */
};

/* A name of a built-in one, else a file.  ERR_INPUT names the member that is wrong and lists
 * the operations where one is unknown; ERR_USAGE lists the built-in names where there is
 * neither such a name nor such a file. */
enum esp_status esp_workload_load(const char *name_or_path, const struct esp_alloc *alloc,
                                  struct esp_workload *out, struct esp_error *err) ESP_MUST_CHECK;

/* The built-in ones, by position; ERR_NOT_FOUND past the last. */
enum esp_status esp_workload_builtin(size_t position, struct esp_workload *out,
                                     struct esp_error *err) ESP_MUST_CHECK;
#endif
