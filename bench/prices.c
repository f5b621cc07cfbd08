#include "bench/prices.h"

#include "bench/config.h"
#include "bench/embedded_prices.h"
#include <stddef.h>
#include <stdio.h>

static const double gb_bytes = 1024.0 * 1024.0 * 1024.0;

static const struct {
    const char *member;
    size_t offset;
} numbers[] = {
    {"write_request_per_million", offsetof(struct esp_prices, write_request_per_million)},
    {"read_request_per_million", offsetof(struct esp_prices, read_request_per_million)},
    {"write_unit_hour", offsetof(struct esp_prices, write_unit_hour)},
    {"read_unit_hour", offsetof(struct esp_prices, read_unit_hour)},
    {"storage_gb_month", offsetof(struct esp_prices, storage_gb_month)},
    {"storage_free_gb", offsetof(struct esp_prices, storage_free_gb)},
    {"import_gb", offsetof(struct esp_prices, import_gb)},
};

static enum esp_status unknown_region(const json_t *regions, const char *region,
                                      struct esp_error *err) {
    char known[512] = "";
    size_t used = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)regions, name, value) {
        int more = snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", name);
        if (more < 0 || (size_t)more >= sizeof known - used) {
            break;
        }
        used += (size_t)more;
    }
    return esp_fail(err, ESP_ERR_USAGE, "no prices for region \"%s\"; there are: %s", region,
                    known);
}

/* The region's note says what is not its own price, so it travels with the source. */
static enum esp_status read_source(const json_t *root, const json_t *region, struct esp_prices *out,
                                   struct esp_error *err) {
    enum esp_status status =
        esp_config_text(root, "", "source", out->source, sizeof out->source, err);
    if (status == ESP_OK && json_object_get(region, "note")) {
        char note[256];
        status = esp_config_text(region, out->region, "note", note, sizeof note, err);
        if (status == ESP_OK) {
            size_t used = strlen(out->source);
            snprintf(out->source + used, sizeof out->source - used, " (%s: %s)", out->region, note);
        }
    }
    return status;
}

static enum esp_status read_prices(const json_t *root, const char *region, struct esp_prices *out,
                                   struct esp_error *err) {
    enum esp_status status = esp_config_text(root, "", "date", out->date, sizeof out->date, err);
    if (status == ESP_OK && !region) {
        status = esp_config_text(root, "", "default_region", out->region, sizeof out->region, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    const json_t *regions = json_object_get(root, "regions");
    if (!json_is_object(regions)) {
        return esp_fail(err, ESP_ERR_INPUT, "member \"regions\" must be an object");
    }
    const json_t *prices = json_object_get(regions, region ? region : out->region);
    if (!json_is_object(prices)) {
        return unknown_region(regions, region ? region : out->region, err);
    }
    if (region) {
        snprintf(out->region, sizeof out->region, "%s", region);
    }
    status = read_source(root, prices, out, err);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && status == ESP_OK; i++) {
        double number = 0;
        status = esp_config_number(prices, out->region, numbers[i].member, &number, err);
        memcpy((char *)out + numbers[i].offset, &number, sizeof number);
    }
    return status;
}

enum esp_status esp_prices_load(const char *path, const char *region, const struct esp_alloc *alloc,
                                struct esp_prices *out, struct esp_error *err) {
    json_t *root = NULL;
    memset(out, 0, sizeof *out);
    enum esp_status status =
        path ? esp_config_read(path, alloc, &root, err)
             : esp_config_parse(ESP_STR(esp_embedded_prices), "built-in prices", &root, err);
    if (status != ESP_OK) {
        return status;
    }
    status = read_prices(root, region, out, err);
    json_decref(root);
    if (status != ESP_OK && path && err && err->source[0] == '\0') {
        snprintf(err->source, sizeof err->source, "%s", path);
    }
    return status;
}

double esp_price_requests(const struct esp_prices *prices, double read_units, double write_units) {
    return (read_units * prices->read_request_per_million +
            write_units * prices->write_request_per_million) /
           1e6;
}

double esp_price_storage(const struct esp_prices *prices, double bytes, bool free_tier) {
    double gb = bytes / gb_bytes - (free_tier ? prices->storage_free_gb : 0);
    return gb > 0 ? gb * prices->storage_gb_month : 0;
}

double esp_price_import(const struct esp_prices *prices, double bytes) {
    return bytes / gb_bytes * prices->import_gb;
}

double esp_price_provisioned(const struct esp_prices *prices, double read_units,
                             double write_units) {
    return ESP_MONTH_HOURS *
           (read_units * prices->read_unit_hour + write_units * prices->write_unit_hour);
}
