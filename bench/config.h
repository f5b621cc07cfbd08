#ifndef ESP_BENCH_CONFIG_H
#define ESP_BENCH_CONFIG_H
/* Small JSON files with settings (prices, workloads, layout files), read with jansson. */
#include "core/mem.h"
#include <jansson.h>

enum { ESP_CONFIG_BYTES_MAX = 1 << 20 };

/* The text of file `path` into `out`, which has been initialised with a limit; ERR_IO, ERR_LIMIT.
 */
enum esp_status esp_config_load(const char *path, const struct esp_alloc *alloc,
                                struct esp_buf *out, struct esp_error *err) ESP_MUST_CHECK;
/* The object in file `path`; ERR_IO, ERR_LIMIT, ERR_INPUT with line and column.  `out` is a
 * new reference: json_decref. */
enum esp_status esp_config_read(const char *path, const struct esp_alloc *alloc, json_t **out,
                                struct esp_error *err) ESP_MUST_CHECK;
/* The same from text; `name` is used in messages. */
enum esp_status esp_config_parse(struct esp_str text, const char *name, json_t **out,
                                 struct esp_error *err) ESP_MUST_CHECK;
/* A finite number >= 0, or a text of 1 to size - 1 bytes, that must be there.  ERR_INPUT names
 * `where` (may be "") and the member. */
enum esp_status esp_config_number(const json_t *object, const char *where, const char *member,
                                  double *out, struct esp_error *err) ESP_MUST_CHECK;
enum esp_status esp_config_text(const json_t *object, const char *where, const char *member,
                                char *out, size_t size, struct esp_error *err) ESP_MUST_CHECK;
#endif
