#include "bench/workload.h"

#include "bench/config.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static const struct {
    const char *name;
    struct esp_str text;
} builtin[] = {
#define ESP_EMBEDDED_WORKLOAD(name, text) {name, {text, sizeof(text) - 1}},
#include "bench/embedded_workloads.def"
#undef ESP_EMBEDDED_WORKLOAD
};
enum { BUILTIN_COUNT = sizeof builtin / sizeof builtin[0] };

/* "a, b, c" into a fixed text; what does not fit is left out. */
static void list_append(char *list, size_t size, const char *name) {
    size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

static enum esp_status unknown_operation(const char *name, struct esp_error *err) {
    char known[512] = "";
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (esp_op_measured(op)) {
            list_append(known, sizeof known, esp_op_info[op].name);
        }
    }
    return esp_fail(err, ESP_ERR_INPUT, "mix: \"%s\" is no operation; there are: %s", name, known);
}

static enum esp_status read_mix(const json_t *mix, struct esp_workload *out,
                                struct esp_error *err) {
    if (!json_is_object(mix)) {
        return esp_fail(err, ESP_ERR_INPUT, "member \"mix\" must be an object of weights");
    }
    double sum = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)mix, name, value) {
        int op = esp_op_find(name);
        if (op < 0 || !esp_op_measured(op)) {
            return unknown_operation(name, err);
        }
        enum esp_status status = esp_config_number(mix, "mix", name, &out->share[op], err);
        if (status != ESP_OK) {
            return status;
        }
        sum += out->share[op];
    }
    if (!(sum > 0)) {
        return esp_fail(err, ESP_ERR_INPUT, "member \"mix\" holds no weight above 0");
    }
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        out->share[op] /= sum;
    }
    return ESP_OK;
}

static enum esp_status read_workload(const json_t *root, struct esp_workload *out,
                                     struct esp_error *err) {
    memset(out, 0, sizeof *out);
    enum esp_status status = esp_config_text(root, "", "name", out->name, sizeof out->name, err);
    if (status == ESP_OK && json_object_get(root, "summary")) {
        status = esp_config_text(root, "", "summary", out->summary, sizeof out->summary, err);
    }
    if (status == ESP_OK) {
        status = esp_config_number(root, "", "rate_per_second", &out->rate_per_second, err);
    }
    if (status == ESP_OK && !(out->rate_per_second > 0)) {
        status = esp_fail(err, ESP_ERR_INPUT, "member \"rate_per_second\" must be above 0");
    }
    return status == ESP_OK ? read_mix(json_object_get(root, "mix"), out, err) : status;
}

enum esp_status esp_workload_builtin(size_t position, struct esp_workload *out,
                                     struct esp_error *err) {
    if (position >= BUILTIN_COUNT) {
        return esp_fail(err, ESP_ERR_NOT_FOUND, "there are %d workloads", (int)BUILTIN_COUNT);
    }
    json_t *root = NULL;
    enum esp_status status =
        esp_config_parse(builtin[position].text, builtin[position].name, &root, err);
    if (status == ESP_OK) {
        status = read_workload(root, out, err);
        json_decref(root);
    }
    return status;
}

enum esp_status esp_workload_load(const char *name_or_path, const struct esp_alloc *alloc,
                                  struct esp_workload *out, struct esp_error *err) {
    char known[512] = "";
    for (size_t i = 0; i < BUILTIN_COUNT; i++) {
        if (strcmp(builtin[i].name, name_or_path) == 0) {
            return esp_workload_builtin(i, out, err);
        }
        list_append(known, sizeof known, builtin[i].name);
    }
    if (access(name_or_path, F_OK) != 0 && errno == ENOENT) {
        return esp_fail(err, ESP_ERR_USAGE, "\"%s\" is neither a file nor one of the workloads: %s",
                        name_or_path, known);
    }
    json_t *root = NULL;
    enum esp_status status = esp_config_read(name_or_path, alloc, &root, err);
    if (status != ESP_OK) {
        return status;
    }
    status = read_workload(root, out, err);
    json_decref(root);
    if (status != ESP_OK && err && err->source[0] == '\0') {
        snprintf(err->source, sizeof err->source, "%s", name_or_path);
    }
    return status;
}
