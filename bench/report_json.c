/* For programs: the members of `compare --json` and `plan --json` ("schema": 1). */
#include "bench/report.h"
#include <jansson.h>

enum { JSON_DIGITS = 12 };

/* jansson's setters take ownership, and fail when given NULL: one check of the root's
 * completeness at the end is enough. */
static void set_number(json_t *object, const char *member, double value, bool *ok) {
    *ok = json_object_set_new(object, member, json_real(value)) == 0 && *ok;
}

static void set_count(json_t *object, const char *member, uint64_t value, bool *ok) {
    *ok = json_object_set_new(object, member, json_integer((json_int_t)value)) == 0 && *ok;
}

static void set_text(json_t *object, const char *member, struct esp_str value, bool *ok) {
    json_t *text = json_stringn(value.ptr ? value.ptr : "", value.len);
    if (!text) { /* not UTF-8: a binary key */
        text = json_string("?");
    }
    *ok = json_object_set_new(object, member, text) == 0 && *ok;
}

static void set_bool(json_t *object, const char *member, bool value, bool *ok) {
    *ok = json_object_set_new(object, member, json_boolean(value)) == 0 && *ok;
}

static void set_null(json_t *object, const char *member, bool *ok) {
    *ok = json_object_set_new(object, member, json_null()) == 0 && *ok;
}

/* A new object (or array) inside another; borrowed. */
static json_t *set_object(json_t *object, const char *member, bool *ok) {
    json_t *inner = json_object();
    *ok = json_object_set_new(object, member, inner) == 0 && *ok;
    return inner;
}

static json_t *set_array(json_t *object, const char *member, bool *ok) {
    json_t *inner = json_array();
    *ok = json_object_set_new(object, member, inner) == 0 && *ok;
    return inner;
}

static json_t *append_object(json_t *array, bool *ok) {
    json_t *inner = json_object();
    *ok = json_array_append_new(array, inner) == 0 && *ok;
    return inner;
}

static void set_figure(json_t *object, const char *member, const struct esp_figure *figure,
                       bool *ok) {
    json_t *inner = set_object(object, member, ok);
    set_number(inner, "mean", figure->mean, ok);
    set_number(inner, "p50", figure->p50, ok);
    set_number(inner, "p90", figure->p90, ok);
    set_number(inner, "p99", figure->p99, ok);
    set_number(inner, "max", figure->max, ok);
}

static void set_units(json_t *object, const char *member, const struct esp_schema *schema,
                      const struct esp_units *units, bool *ok) {
    json_t *inner = set_object(object, member, ok);
    set_number(inner, "table", units->table, ok);
    json_t *indexes = set_object(inner, "indexes", ok);
    for (size_t i = 0; i < schema->index_count; i++) {
        char name[256];
        size_t len = schema->index[i].name.len < sizeof name - 1 ? schema->index[i].name.len
                                                                 : sizeof name - 1;
        memcpy(name, schema->index[i].name.ptr, len);
        name[len] = '\0';
        set_number(indexes, name, units->index[i], ok);
    }
}

static void put_operation(json_t *array, const struct esp_comparison *c,
                          const struct esp_layout_result *layout, int op, bool *ok) {
    const struct esp_op_result *r = &layout->op[op];
    json_t *object = append_object(array, ok);
    set_text(object, "name", esp_str_from(esp_op_info[op].name), ok);
    set_text(object, "plan", r->plan == ESP_PLAN_NATIVE ? ESP_STR("native") : ESP_STR("derived"),
             ok);
    set_count(object, "samples", r->samples, ok);
    set_figure(object, "read_units", &r->read_units, ok);
    set_figure(object, "write_units", &r->write_units, ok);
    if (c->billed) {
        set_figure(object, "read_units_billed", &r->read_units_billed, ok);
        set_figure(object, "write_units_billed", &r->write_units_billed, ok);
    } else {
        set_null(object, "read_units_billed", ok);
        set_null(object, "write_units_billed", ok);
    }
    set_units(object, "read_units_by_part", &layout->layout->schema, &r->read_mean, ok);
    set_units(object, "write_units_by_part", &layout->layout->schema, &r->write_mean, ok);
    set_bool(object, "read_units_estimated", r->read_estimated, ok);
    set_bool(object, "write_units_estimated", r->write_estimated, ok);
    set_figure(object, "requests", &r->requests, ok);
    set_figure(object, "round_trips", &r->round_trips, ok);
    set_figure(object, "items_read", &r->items_read, ok);
    set_figure(object, "items_returned", &r->items_returned, ok);
    set_figure(object, "items_written", &r->items_written, ok);
    set_number(object, "usd_per_million", r->usd_per_million, ok);
    json_t *latency = set_object(object, "latency_us", ok);
    set_figure(latency, "measured", &r->latency_us, ok);
    if (c->remote) {
        set_null(latency, "modelled", ok);
    } else {
        set_figure(latency, "modelled", &r->modelled_us, ok);
    }
}

static void put_load(json_t *object, const struct esp_comparison *c,
                     const struct esp_layout_result *r, bool *ok) {
    json_t *load = set_object(object, "load", ok);
    set_count(load, "items", r->load.items_written, ok);
    set_count(load, "item_bytes", r->item_bytes, ok);
    set_count(load, "index_bytes", r->index_bytes, ok);
    set_count(load, "storage_bytes", r->storage_bytes, ok);
    set_count(load, "import_bytes", r->survey.json_bytes, ok);
    set_number(load, "write_units", esp_units_total(&r->load.usage.write), ok);
    if (c->billed) {
        set_number(load, "write_units_billed", esp_units_total(&r->load.usage.billed_write), ok);
    } else {
        set_null(load, "write_units_billed", ok);
    }
    set_count(load, "requests", r->load.usage.requests, ok);
    set_number(load, "usd_on_demand", r->load_usd, ok);
    set_number(load, "usd_import", r->import_usd, ok);
    set_number(load, "usd_storage_month", r->storage_usd_month, ok);
    set_number(load, "elapsed_s", (double)r->load.elapsed_ns / 1e9, ok);
}

static struct esp_str part_name(const struct esp_layout *layout, size_t part) {
    return part == 0 ? ESP_STR("table") : layout->schema.index[part - 1].name;
}

static void put_hot_keys(json_t *object, const struct esp_layout_result *r, bool *ok) {
    json_t *array = set_array(object, "hot_keys", ok);
    for (size_t p = 0; p <= r->layout->schema.index_count; p++) {
        const struct esp_survey_part *part = &r->survey.part[p];
        json_t *hot = append_object(array, ok);
        set_text(hot, "part", part_name(r->layout, p), ok);
        set_text(hot, "key", esp_str_from(part->hot.key), ok);
        set_count(hot, "items", part->hot.items, ok);
        set_count(hot, "bytes", part->hot.bytes, ok);
        set_number(hot, "write_units", part->hot.units, ok);
        set_number(hot, "write_units_over", part->hot.units_over, ok);
        set_number(hot, "share", part->write_units > 0 ? part->hot.units / part->write_units : 0,
                   ok);
    }
}

static void put_source(json_t *root, const struct esp_comparison *c, bool *ok) {
    char date[21];
    set_count(root, "schema", 1, ok);
    json_t *source = set_object(root, "source", ok);
    set_text(source, "name", esp_str_from(c->options.source_name), ok);
    set_count(source, "nodes", c->nodes, ok);
    set_count(source, "roots", c->roots, ok);
    set_count(source, "depth_max", c->depth_max, ok);
    set_count(source, "payload_bytes", c->payload_bytes, ok);
    esp_wall_format_rfc3339(c->started_wall_ns, date);
    set_text(root, "date", esp_str_from(date), ok);
    set_text(root, "store", esp_str_from(c->store_name), ok);
    set_text(root, "addressing",
             c->options.addressing == ESP_ADDRESS_KEY ? ESP_STR("key") : ESP_STR("id"), ok);
    set_bool(root, "consistent", c->options.consistent, ok);
    set_count(root, "seed", c->options.seed, ok);
    set_count(root, "sample", c->options.sample, ok);
    json_t *prices = set_object(root, "prices", ok);
    set_text(prices, "date", esp_str_from(c->prices.date), ok);
    set_text(prices, "region", esp_str_from(c->prices.region), ok);
    set_text(prices, "source", esp_str_from(c->prices.source), ok);
}

static int append_text(const char *text, size_t len, void *out) {
    esp_buf_put(out, text, len);
    return 0;
}

/* Gives the root away. */
static enum esp_status dump(json_t *root, bool ok, struct esp_buf *out) {
    int failed = !ok || json_dump_callback(root, append_text, out,
                                           JSON_INDENT(1) | JSON_REAL_PRECISION(JSON_DIGITS));
    json_decref(root);
    esp_buf_put_char(out, '\n');
    return failed || out->failed ? ESP_ERR_NOMEM : ESP_OK;
}

static enum esp_status compare(const struct esp_comparison *c, struct esp_buf *out) {
    bool ok = true;
    json_t *root = json_object();
    put_source(root, c, &ok);
    if (c->remote) {
        set_null(root, "round_trip_ms", &ok);
    } else {
        set_number(root, "round_trip_ms", c->options.round_trip_ms, &ok);
    }
    set_number(root, "elapsed_s", (double)c->elapsed_ns / 1e9, &ok);
    json_t *array = set_array(root, "layouts", &ok);
    for (size_t i = 0; i < c->options.layout_count; i++) {
        const struct esp_layout_result *r = &c->layout[i];
        json_t *layout = append_object(array, &ok);
        set_text(layout, "name", esp_str_from(r->layout->ops->name), &ok);
        put_load(layout, c, r, &ok);
        put_hot_keys(layout, r, &ok);
        json_t *operations = set_array(layout, "operations", &ok);
        for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
            if (r->op[op].samples) {
                put_operation(operations, c, r, op, &ok);
            }
        }
    }
    return dump(root, ok, out);
}

static void put_plan_part(json_t *array, const struct esp_plan_layout *l, size_t p, bool *ok) {
    const struct esp_plan_part *part = &l->part[p];
    json_t *object = append_object(array, ok);
    set_text(object, "part", part_name(l->measured->layout, p), ok);
    set_number(object, "read_units_per_second", part->read_units_second, ok);
    set_number(object, "write_units_per_second", part->write_units_second, ok);
    set_number(object, "read_units_provisioned", part->read_provisioned, ok);
    set_number(object, "write_units_provisioned", part->write_provisioned, ok);
    json_t *hot = set_object(object, "hot_key", ok);
    set_text(hot, "key", esp_str_from(l->measured->survey.part[p].hot.key), ok);
    set_number(hot, "write_share", part->hot_write_share, ok);
    set_number(hot, "write_units_per_second", part->hot_write_second, ok);
    set_count(hot, "write_units_per_second_max", ESP_PARTITION_WRITE_MAX, ok);
    set_number(hot, "read_share", part->hot_read_share, ok);
    set_number(hot, "read_units_per_second", part->hot_read_second, ok);
    set_count(hot, "read_units_per_second_max", ESP_PARTITION_READ_MAX, ok);
    set_number(hot, "load_seconds", part->load_seconds_hot, ok);
}

static void put_plan_layout(json_t *array, const struct esp_plan_layout *l, bool *ok) {
    json_t *object = append_object(array, ok);
    set_text(object, "name", esp_str_from(l->measured->layout->ops->name), ok);
    json_t *month = set_object(object, "month", ok);
    set_number(month, "read_units", l->read_units_month, ok);
    set_number(month, "write_units", l->write_units_month, ok);
    set_number(month, "usd_on_demand", l->usd_on_demand, ok);
    set_number(month, "usd_provisioned", l->usd_provisioned, ok);
    set_count(month, "storage_bytes", l->measured->storage_bytes, ok);
    set_number(month, "usd_storage", l->usd_storage, ok);
    json_t *load = set_object(object, "load", ok);
    set_number(load, "write_units", l->load_write_units, ok);
    set_number(load, "usd_batch_write", l->usd_load_batch, ok);
    set_number(load, "seconds_new_table", l->load_seconds_new, ok);
    set_count(load, "import_bytes", l->measured->survey.json_bytes, ok);
    set_number(load, "usd_import", l->usd_load_import, ok);
    set_bool(object, "too_hot", l->too_hot, ok);
    json_t *parts = set_array(object, "parts", ok);
    for (size_t p = 0; p < l->part_count; p++) {
        put_plan_part(parts, l, p, ok);
    }
}

static enum esp_status plan(const struct esp_plan_result *p, struct esp_buf *out) {
    bool ok = true;
    json_t *root = json_object();
    put_source(root, p->comparison, &ok);
    json_t *workload = set_object(root, "workload", &ok);
    set_text(workload, "name", esp_str_from(p->workload.name), &ok);
    set_number(workload, "rate_per_second", p->workload.rate_per_second, &ok);
    json_t *mix = set_object(workload, "mix", &ok);
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (p->workload.share[op] > 0) {
            set_number(mix, esp_op_info[op].name, p->workload.share[op], &ok);
        }
    }
    set_number(root, "headroom_percent", p->options.headroom_percent, &ok);
    set_bool(root, "free_tier", p->options.free_tier, &ok);
    json_t *array = set_array(root, "layouts", &ok);
    for (size_t i = 0; i < p->comparison->options.layout_count; i++) {
        put_plan_layout(array, &p->layout[i], &ok);
    }
    return dump(root, ok, out);
}

const struct esp_reporter esp_reporter_json = {
    .name = "json",
    .extension = "json",
    .summary = "everything measured, for programs (\"schema\": 1)",
    .compare = compare,
    .plan = plan,
};
