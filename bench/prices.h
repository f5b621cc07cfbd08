#ifndef ESP_BENCH_PRICES_H
#define ESP_BENCH_PRICES_H
/*
 * The price file: dated, with its source, replaceable (datasets/prices.json by default,
 * which is built in).  The rules that turn units and bytes into money are here and nowhere
 * else (shared facts sheet 10): a GB is 2^30 bytes, a month 730 hours.
 */
#include "core/mem.h"

struct esp_prices {
    char date[16], region[32];
    char source[1024];                                          /* and the region's note */
    double write_request_per_million, read_request_per_million; /* USD, on demand */
    double write_unit_hour, read_unit_hour;                     /* USD, provisioned */
    double storage_gb_month, storage_free_gb;                   /* USD; GB */
    double import_gb;                                           /* USD per GB uncompressed */
};

enum { ESP_MONTH_HOURS = 730 };

/* path NULL: the prices built in at compile time from datasets/prices.json.  region NULL:
 * the file's default.  ERR_INPUT names the member that is missing or wrong, ERR_USAGE an
 * unknown region and those there are, ERR_IO a file that cannot be read. */
enum esp_status esp_prices_load(const char *path, const char *region, const struct esp_alloc *alloc,
                                struct esp_prices *out, struct esp_error *err) ESP_MUST_CHECK;

/* USD of this many request units, on demand. */
double esp_price_requests(const struct esp_prices *prices, double read_units, double write_units);
/* USD a month of storing so many bytes; `free_tier`: less the part that is free. */
double esp_price_storage(const struct esp_prices *prices, double bytes, bool free_tier);
/* USD of an ImportTable of so many bytes of uncompressed source. */
double esp_price_import(const struct esp_prices *prices, double bytes);
/* USD a month of provisioned units a second. */
double esp_price_provisioned(const struct esp_prices *prices, double read_units,
                             double write_units);
#endif
