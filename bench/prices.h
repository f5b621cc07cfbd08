#ifndef ESP_BENCH_PRICES_H
#define ESP_BENCH_PRICES_H
/* The price file: dated, with its source, replaceable (datasets/prices.json by default). */
#include "core/mem.h"

struct esp_prices {
    char date[16], region[32], source[512];
    double write_request_per_million, read_request_per_million; /* USD, on demand */
    double write_unit_hour, read_unit_hour;                     /* USD, provisioned */
    double storage_gb_month, storage_free_gb;                   /* USD; GB = 2^30 bytes */
    double import_gb;                                           /* USD per GB uncompressed */
};
/* path NULL: the prices built in at compile time from datasets/prices.json.  region NULL:
 * the file's default.  ERR_INPUT names what is missing. */
enum esp_status esp_prices_load(const char *path, const char *region, const struct esp_alloc *alloc,
                                struct esp_prices *out, struct esp_error *err) ESP_MUST_CHECK;
#endif
