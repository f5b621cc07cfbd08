#include "cli/edit_report.h"

#include "bench/text.h"

enum { OUTPUT_BYTES_MAX = 1 << 26, FLUSH_BYTES = 1 << 16 };

static const char *kind_of(const struct esp_image *image) {
    return !image->has_before ? "put" : !image->has_after ? "delete" : "update";
}

/* --- the plan ----------------------------------------------------------------------------- */

static void put_write_json(struct esp_buf *out, const struct esp_schema *schema,
                           const struct esp_image *image) {
    esp_buf_printf(out, "{\"stage\":%u,\"kind\":\"%s\",\"key\":{", image->stage, kind_of(image));
    esp_item_put_key_json(out, schema, esp_image_item(image));
    ESP_BUF_LIT(out, "}}");
}

/* Which attributes an update changes; the payload as one. */
static void put_changes(struct esp_buf *out, const struct esp_schema *schema,
                        const struct esp_image *image) {
    const char *between = ": ";
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (!esp_value_equal(&image->before.value[i], &image->after.value[i])) {
            esp_buf_printf(out, "%s%.*s", between, ESP_FMT(schema->attr[i].name));
            between = ", ";
        }
    }
    if (!esp_data_equal(image->before.data, image->after.data)) {
        esp_buf_printf(out, "%spayload", between);
    }
}

static enum esp_status put_write_text(struct esp_buf *out, const struct esp_images *images,
                                      const struct esp_image *image, struct esp_error *err) {
    struct esp_str key = esp_item_key_text(images->schema, esp_image_item(image), images->arena);
    if (!key.ptr) {
        return esp_fail_nomem(err);
    }
    esp_buf_printf(out, "  %-6s %.*s", kind_of(image), ESP_FMT(key));
    if (image->has_before && image->has_after) {
        put_changes(out, images->schema, image);
    }
    esp_buf_put_char(out, '\n');
    return ESP_OK;
}

enum esp_status esp_edit_report_plan(struct esp_edit_report *report,
                                     const struct esp_images *images) {
    struct esp_cli *cli = report->cli;
    bool json = report->options->json;
    uint64_t shown = json || images->count < report->limit ? images->count : report->limit;
    struct esp_buf out;
    enum esp_status status = ESP_OK;
    esp_buf_init(&out, cli->alloc, OUTPUT_BYTES_MAX);
    if (json) {
        esp_buf_printf(&out, "{\"schema\":1,\"operation\":\"%s\",\"writes\":[",
                       esp_op_info[report->op].name);
    }
    for (uint32_t i = 0; status == ESP_OK && i < shown; i++) {
        if (json) {
            esp_buf_put(&out, ",", i > 0);
            put_write_json(&out, images->schema, &images->image[i]);
        } else {
            status = put_write_text(&out, images, &images->image[i], &cli->err);
        }
        if (status == ESP_OK && out.len > FLUSH_BYTES) {
            status = esp_cli_print(cli, &out);
        }
    }
    if (json) {
        ESP_BUF_LIT(&out, "],");
    } else if (shown < images->count) {
        esp_buf_printf(&out, "  ... %llu more; --limit N shows more\n",
                       (unsigned long long)(images->count - shown));
    }
    status = status == ESP_OK ? esp_cli_print(cli, &out) : status;
    esp_buf_fini(&out);
    return status;
}

/* --- the end ------------------------------------------------------------------------------ */

/* On demand, in USD. */
struct price {
    struct esp_prices of;
    double reads, writes;
};

static void put_units_json(struct esp_buf *out, const struct esp_schema *schema,
                           const struct esp_units *units) {
    ESP_BUF_LIT(out, "{\"total\":");
    esp_cli_put_number(out, esp_units_total(units));
    ESP_BUF_LIT(out, ",\"table\":");
    esp_cli_put_number(out, units->table);
    ESP_BUF_LIT(out, ",\"indexes\":{");
    for (size_t i = 0; i < schema->index_count; i++) {
        esp_buf_put(out, ",", i > 0);
        esp_json_put_string(out, schema->index[i].name);
        esp_buf_put_char(out, ':');
        esp_cli_put_number(out, units->index[i]);
    }
    ESP_BUF_LIT(out, "}}");
}

static void put_plan_json(struct esp_buf *out, const struct esp_edit_report *report,
                          const struct esp_edit_result *r, const struct price *price) {
    esp_buf_printf(out,
                   "\"plan\":{\"transaction\":%s,\"puts\":%llu,\"updates\":%llu,\"deletes\":%llu,"
                   "\"unchanged\":%llu,\"item_bytes\":%llu,\"write_units\":",
                   r->transaction ? "true" : "false", (unsigned long long)r->puts,
                   (unsigned long long)r->updates, (unsigned long long)r->deletes,
                   (unsigned long long)r->unchanged, (unsigned long long)r->item_bytes);
    put_units_json(out, report->schema, &r->usage.write);
    ESP_BUF_LIT(out, ",\"read_units\":");
    esp_cli_put_number(out, r->read_units);
    ESP_BUF_LIT(out, ",\"usd_writes\":");
    esp_cli_put_number(out, price->writes);
    ESP_BUF_LIT(out, ",\"usd_reads\":");
    esp_cli_put_number(out, price->reads);
    ESP_BUF_LIT(out, ",\"usd_on_demand\":");
    esp_cli_put_number(out, price->writes + price->reads);
    ESP_BUF_LIT(out, "},");
}

static void put_json(struct esp_buf *out, const struct esp_edit_report *report,
                     const struct esp_edit_result *r, bool dry_run, const struct price *price,
                     const struct esp_usage *usage) {
    if (!dry_run) { /* else the writes have begun it */
        esp_buf_printf(out, "{\"schema\":1,\"operation\":\"%s\",", esp_op_info[report->op].name);
    }
    esp_buf_printf(out, "\"dry_run\":%s,", dry_run ? "true" : "false");
    put_plan_json(out, report, r, price);
    if (r->lock_left) {
        ESP_BUF_LIT(out, "\"lock_left\":true,");
    }
    esp_cli_put_cost_json(out, usage, true);
    ESP_BUF_LIT(out, "}\n");
}

static void put_plan_text(struct esp_buf *out, const struct esp_edit_report *report,
                          const struct esp_edit_result *r, bool dry_run,
                          const struct price *price) {
    const struct esp_units *units = &r->usage.write;
    char text[ESP_TEXT_MAX];
    esp_buf_printf(out, "%s: puts %llu, updates %llu, deletes %llu", esp_op_info[report->op].name,
                   (unsigned long long)r->puts, (unsigned long long)r->updates,
                   (unsigned long long)r->deletes);
    if (r->unchanged) {
        esp_buf_printf(out, ", unchanged %llu", (unsigned long long)r->unchanged);
    }
    esp_buf_printf(out, "%s\n", r->transaction ? "; one transaction" : "");
    esp_cli_put_number(out, esp_units_total(units));
    ESP_BUF_LIT(out, " write units (table ");
    esp_cli_put_number(out, units->table);
    for (size_t i = 0; i < report->schema->index_count; i++) {
        esp_buf_printf(out, ", %.*s ", ESP_FMT(report->schema->index[i].name));
        esp_cli_put_number(out, units->index[i]);
    }
    esp_buf_printf(out, "): %s\n%s", esp_text_usd(text, price->writes), dry_run ? "about " : "");
    esp_cli_put_number(out, r->read_units);
    esp_buf_printf(out, " read units: %s\n", esp_text_usd(text, price->reads));
    esp_buf_printf(out, "together %s on demand (%s, prices of %s)\n",
                   esp_text_usd(text, price->writes + price->reads), price->of.region,
                   price->of.date);
}

enum esp_status esp_edit_report_end(struct esp_edit_report *report,
                                    const struct esp_edit_result *result, bool dry_run,
                                    const struct esp_usage *usage) {
    struct esp_cli *cli = report->cli;
    struct price price;
    struct esp_buf out;
    enum esp_status status = esp_cli_prices(cli, report->options->region, &price.of);
    if (status != ESP_OK) {
        return status;
    }
    price.writes = esp_price_requests(&price.of, 0, esp_units_total(&result->usage.write));
    price.reads = esp_price_requests(&price.of, result->read_units, 0);
    esp_buf_init(&out, cli->alloc, OUTPUT_BYTES_MAX);
    if (report->options->json) {
        put_json(&out, report, result, dry_run, &price, usage);
    } else {
        put_plan_text(&out, report, result, dry_run, &price);
        if (result->lock_left) {
            ESP_BUF_LIT(&out, "a lock could not be released; it stays until it has run out\n");
        }
        if (dry_run) {
            esp_cli_put_number(&out, esp_units_total(&usage->read));
            ESP_BUF_LIT(&out, " read units were used for this plan; nothing was written\n");
        } else {
            esp_cli_put_cost(&out, usage, true);
        }
    }
    status = esp_cli_print(cli, &out);
    esp_buf_fini(&out);
    return status;
}
