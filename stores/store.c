/* The registry of stores, and opening stores and tables by name. */
#include "stores/store.h"

#define ESP_STORE(name, source) extern const struct esp_store_ops esp_store_##name;
#include "stores/stores.def"
#undef ESP_STORE

const struct esp_store_ops *const esp_stores[] = {
#define ESP_STORE(name, source) &esp_store_##name,
#include "stores/stores.def"
#undef ESP_STORE
    NULL};

/* The next of the blank-separated prefixes; len 0 at the end. */
static struct esp_str next_scheme(const char **at) {
    while (**at == ' ') {
        (*at)++;
    }
    const char *from = *at;
    while (**at && **at != ' ') {
        (*at)++;
    }
    return (struct esp_str){from, (size_t)(*at - from)};
}

static const struct esp_store_ops *find_ops(const char *url, const char **target) {
    for (size_t i = 0; esp_stores[i]; i++) {
        const char *at = esp_stores[i]->schemes;
        for (struct esp_str s; (s = next_scheme(&at)).len;) {
            if (strncmp(url, s.ptr, s.len) == 0) {
                /* an endpoint is its whole URL; the others are named behind the colon */
                *target = s.ptr[s.len - 1] == '/' ? url : url + s.len;
                return esp_stores[i];
            }
        }
    }
    return NULL;
}

static enum esp_status fail_scheme(const char *url, struct esp_error *err) {
    char list[256] = "";
    size_t len = 0;
    for (size_t i = 0; esp_stores[i]; i++) {
        const char *at = esp_stores[i]->schemes;
        for (struct esp_str s; (s = next_scheme(&at)).len && len + s.len + 3 < sizeof list;) {
            const char *comma = len ? ", " : "";
            memcpy(list + len, comma, strlen(comma));
            len += strlen(comma);
            memcpy(list + len, s.ptr, s.len);
            len += s.len;
        }
    }
    list[len] = 0;
    return esp_fail(err, ESP_ERR_USAGE, "%s is no store; a store begins with one of %s", url, list);
}

enum esp_status esp_store_open(const char *url, const struct esp_store_config *config,
                               const struct esp_clock *clock, const struct esp_alloc *alloc,
                               struct esp_store **out, struct esp_error *err) {
    static const struct esp_store_config defaults;
    const char *target = NULL;
    const struct esp_store_ops *ops = find_ops(url, &target);
    *out = NULL;
    if (!ops) {
        return fail_scheme(url, err);
    }
    /* one block: the store and its copy of the target */
    struct esp_store *store = esp_calloc(alloc, 1, sizeof *store + strlen(target) + 1);
    if (!store) {
        return esp_fail_nomem(err);
    }
    store->ops = ops;
    store->target = memcpy(store + 1, target, strlen(target) + 1);
    store->alloc = alloc;
    store->clock = clock;
    store->config = config ? config : &defaults;
    enum esp_status status = ops->open(store, err);
    if (status != ESP_OK) {
        esp_release(alloc, store, sizeof *store + strlen(target) + 1);
        return status;
    }
    *out = store;
    return ESP_OK;
}

void esp_store_close(struct esp_store *store) {
    if (store) {
        store->ops->close(store);
        esp_release(store->alloc, store, sizeof *store + strlen(store->target) + 1);
    }
}

void esp_store_put_place(const struct esp_store *store, struct esp_buf *out) {
    if (store->ops->put_place) {
        store->ops->put_place(store, out);
    } else {
        esp_buf_printf(out, "%s:%s", store->ops->name, store->target);
    }
}

enum esp_status esp_table_name_check(const char *name, struct esp_error *err) {
    size_t len = strnlen(name, ESP_TABLE_NAME_BYTES_MAX + 1);
    if (len < ESP_TABLE_NAME_BYTES_MIN || len > ESP_TABLE_NAME_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_REFUSED, "a table name has %d to %d characters, not %zu",
                        ESP_TABLE_NAME_BYTES_MIN, ESP_TABLE_NAME_BYTES_MAX, len);
    }
    for (const char *c = name; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (!letter && !(*c >= '0' && *c <= '9') && *c != '_' && *c != '.' && *c != '-') {
            return esp_fail(err, ESP_ERR_REFUSED,
                            "the table name %s may contain letters, digits, '_', '.' and '-' only",
                            name);
        }
    }
    return ESP_OK;
}

enum esp_status esp_table_open(struct esp_store *store, const char *name,
                               const struct esp_schema *schema, struct esp_table **out,
                               struct esp_error *err) {
    *out = NULL;
    struct esp_table *table = esp_calloc(store->alloc, 1, sizeof *table);
    if (!table) {
        return esp_fail_nomem(err);
    }
    if (strlen(name) >= sizeof table->name) {
        esp_release(store->alloc, table, sizeof *table);
        return esp_fail(err, ESP_ERR_USAGE, "the table name has %zu bytes, at most 255",
                        strlen(name));
    }
    memcpy(table->name, name, strlen(name) + 1);
    table->store = store;
    table->schema = *schema;
    enum esp_status status = store->ops->table_open(table, err);
    if (status != ESP_OK) {
        esp_release(store->alloc, table, sizeof *table);
        return status;
    }
    *out = table;
    return ESP_OK;
}

void esp_table_close(struct esp_table *table) {
    if (table) {
        table->store->ops->table_close(table);
        esp_release(table->store->alloc, table, sizeof *table);
    }
}
