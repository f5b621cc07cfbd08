/*
 * Keys in tree 0:
 *   D name    the definition        S name    the state
 *   F tree    a free tree           L tree    a tree under construction
 *   N         the next tree number that was never used
 *   I         the incarnation of the table that is created next
 */
#include "stores/catalog.h"

enum { NAME_BYTES_MAX = 255, DEFINITION_BYTES_MAX = 64 << 10, FORMAT = 1 };

struct catalog_key {
    char bytes[1 + NAME_BYTES_MAX];
    size_t len;
};

static struct esp_str name_key(struct catalog_key *key, char kind, struct esp_str name) {
    key->bytes[0] = kind;
    key->len = 1 + (name.len < NAME_BYTES_MAX ? name.len : NAME_BYTES_MAX);
    memcpy(key->bytes + 1, name.ptr, key->len - 1);
    return (struct esp_str){key->bytes, key->len};
}

static struct esp_str tree_key(struct catalog_key *key, char kind, uint32_t tree) {
    uint32_t big_endian = __builtin_bswap32(tree);
    return name_key(key, kind, (struct esp_str){(const char *)&big_endian, sizeof big_endian});
}

static enum esp_status get(struct esp_kv_session *kv, struct esp_str key, struct esp_str *value,
                           struct esp_error *err) {
    return kv->kv->ops->get(kv, ESP_KV_CATALOG, key, value, err);
}

static enum esp_status put(struct esp_kv_session *kv, struct esp_str key, struct esp_str value,
                           struct esp_error *err) {
    return kv->kv->ops->put(kv, ESP_KV_CATALOG, key, value, err);
}

static enum esp_status del(struct esp_kv_session *kv, struct esp_str key, struct esp_error *err) {
    return kv->kv->ops->del(kv, ESP_KV_CATALOG, key, err);
}

static enum esp_status damaged(struct esp_str name, struct esp_error *err) {
    return esp_fail(err, ESP_ERR_IO, "the catalog's entry of table %.*s is damaged", ESP_FMT(name));
}

/* --- state ---------------------------------------------------------------------- */

enum esp_status esp_catalog_state_get(struct esp_kv_session *kv, struct esp_str name,
                                      struct esp_table_state *out, struct esp_error *err) {
    struct catalog_key key;
    struct esp_str value;
    enum esp_status status = get(kv, name_key(&key, 'S', name), &value, err);
    if (status == ESP_ERR_NOT_FOUND) {
        return esp_fail(err, status, "there is no table %.*s", ESP_FMT(name));
    }
    if (status == ESP_OK && value.len != sizeof *out) {
        return damaged(name, err);
    }
    if (status == ESP_OK) {
        memcpy(out, value.ptr, sizeof *out);
    }
    return status;
}

enum esp_status esp_catalog_state_put(struct esp_kv_session *kv, struct esp_str name,
                                      const struct esp_table_state *state, struct esp_error *err) {
    struct catalog_key key;
    return put(kv, name_key(&key, 'S', name), (struct esp_str){(const char *)state, sizeof *state},
               err);
}

/* A number that was never used, of the counter 'N' or 'I'. */
static enum esp_status next_number(struct esp_kv_session *kv, char counter, uint32_t *out,
                                   struct esp_error *err) {
    struct catalog_key key;
    struct esp_str value, none = {"", 0};
    uint32_t next = 1;
    enum esp_status status = get(kv, name_key(&key, counter, none), &value, err);
    if (status == ESP_OK) {
        if (value.len != sizeof next) {
            return esp_fail(err, ESP_ERR_IO, "a counter of the catalog is damaged");
        }
        memcpy(&next, value.ptr, sizeof next);
    } else if (status != ESP_ERR_NOT_FOUND) {
        return status;
    }
    *out = next++;
    return put(kv, name_key(&key, counter, none),
               (struct esp_str){(const char *)&next, sizeof next}, err);
}

/* --- definitions ---------------------------------------------------------------- */

static void put_u64(struct esp_buf *out, uint64_t n) {
    esp_buf_put(out, &n, sizeof n);
}

static void put_byte(struct esp_buf *out, int n) {
    esp_buf_put_char(out, (char)n);
}

static void put_name(struct esp_buf *out, struct esp_str name) {
    uint16_t len = (uint16_t)name.len;
    esp_buf_put(out, &len, sizeof len);
    esp_buf_put(out, name.ptr, len);
}

static void put_definition(struct esp_buf *out, const struct esp_table_definition *d) {
    put_byte(out, FORMAT);
    put_byte(out, (int)d->options.billing);
    put_u64(out, d->options.provisioned_read);
    put_u64(out, d->options.provisioned_write);
    put_byte(out, (int)d->schema.attr_count);
    for (size_t i = 0; i < d->schema.attr_count; i++) {
        put_byte(out, (int)d->schema.attr[i].type);
        put_name(out, d->schema.attr[i].name);
    }
    put_byte(out, d->schema.pk);
    put_byte(out, d->schema.sk);
    put_byte(out, (int)d->schema.index_count);
    for (size_t i = 0; i < d->schema.index_count; i++) {
        const struct esp_index *index = &d->schema.index[i];
        put_name(out, index->name);
        put_byte(out, index->pk);
        put_byte(out, index->sk);
        put_byte(out, (int)index->projection);
        put_byte(out, index->local);
        put_byte(out, (int)index->include_count);
        for (size_t k = 0; k < index->include_count; k++) {
            put_name(out, index->include[k]);
        }
    }
}

struct definition_reader {
    struct esp_str rest;
    struct esp_arena *arena;
    enum esp_status status; /* ERR_IO when the bytes make no sense, ERR_NOMEM */
};

static void take(struct definition_reader *r, void *out, size_t len) {
    if (r->rest.len < len) {
        r->status = r->status == ESP_OK ? ESP_ERR_IO : r->status;
        memset(out, 0, len);
        return;
    }
    memcpy(out, r->rest.ptr, len);
    r->rest.ptr += len;
    r->rest.len -= len;
}

static int take_byte(struct definition_reader *r, int most) {
    signed char byte;
    take(r, &byte, 1);
    if (byte < -1 || byte > most) {
        r->status = r->status == ESP_OK ? ESP_ERR_IO : r->status;
        return 0;
    }
    return byte;
}

static size_t take_count(struct definition_reader *r, int most) {
    int count = take_byte(r, most);
    return count < 0 ? 0 : (size_t)count;
}

static struct esp_str take_name(struct definition_reader *r) {
    uint16_t len;
    take(r, &len, sizeof len);
    if (r->status != ESP_OK || r->rest.len < len) {
        r->status = r->status == ESP_OK ? ESP_ERR_IO : r->status;
        return (struct esp_str){0, 0};
    }
    struct esp_str name = esp_arena_dup(r->arena, (struct esp_str){r->rest.ptr, len});
    if (!name.ptr) {
        r->status = ESP_ERR_NOMEM;
    }
    r->rest.ptr += len;
    r->rest.len -= len;
    return name;
}

static void take_index(struct definition_reader *r, const struct esp_schema *schema,
                       struct esp_index *index) {
    index->name = take_name(r);
    index->pk = take_byte(r, (int)schema->attr_count - 1);
    index->sk = take_byte(r, (int)schema->attr_count - 1);
    index->projection = (enum esp_projection)take_byte(r, ESP_PROJECT_INCLUDE);
    index->local = take_byte(r, 1) == 1;
    index->include_count = take_count(r, ESP_INCLUDE_MAX);
    for (size_t k = 0; k < index->include_count; k++) {
        index->include[k] = take_name(r);
    }
}

static void take_definition(struct definition_reader *r, struct esp_table_definition *d) {
    memset(d, 0, sizeof *d);
    if (take_byte(r, FORMAT) != FORMAT) {
        r->status = ESP_ERR_IO;
    }
    d->options.billing = (enum esp_billing)take_byte(r, ESP_BILLING_PROVISIONED);
    take(r, &d->options.provisioned_read, sizeof d->options.provisioned_read);
    take(r, &d->options.provisioned_write, sizeof d->options.provisioned_write);
    d->schema.attr_count = take_count(r, ESP_ATTR_MAX);
    for (size_t i = 0; i < d->schema.attr_count; i++) {
        d->schema.attr[i].type = (enum esp_type)take_byte(r, ESP_TYPE_JSON);
        d->schema.attr[i].name = take_name(r);
    }
    d->schema.pk = take_byte(r, (int)d->schema.attr_count - 1);
    d->schema.sk = take_byte(r, (int)d->schema.attr_count - 1);
    d->schema.index_count = take_count(r, ESP_INDEX_MAX);
    for (size_t i = 0; i < d->schema.index_count; i++) {
        take_index(r, &d->schema, &d->schema.index[i]);
    }
}

enum esp_status esp_catalog_definition(struct esp_kv_session *kv, struct esp_str name,
                                       struct esp_arena *arena, struct esp_table_definition *out,
                                       struct esp_error *err) {
    struct catalog_key key;
    struct definition_reader r = {.arena = arena};
    enum esp_status status = get(kv, name_key(&key, 'D', name), &r.rest, err);
    if (status == ESP_ERR_NOT_FOUND) {
        return esp_fail(err, status, "there is no table %.*s", ESP_FMT(name));
    }
    if (status == ESP_OK) {
        take_definition(&r, out);
        status = r.status;
    }
    return status == ESP_ERR_IO      ? damaged(name, err)
           : status == ESP_ERR_NOMEM ? esp_fail_nomem(err)
                                     : status;
}

enum esp_status esp_catalog_create(struct esp_kv_session *kv, struct esp_str name,
                                   const struct esp_table_definition *definition,
                                   struct esp_error *err) {
    struct catalog_key key;
    struct esp_str value;
    struct esp_table_state state = {0};
    struct esp_buf text;
    enum esp_status status = get(kv, name_key(&key, 'D', name), &value, err);
    if (status == ESP_OK) {
        return esp_fail(err, ESP_ERR_EXISTS, "the table %.*s exists already", ESP_FMT(name));
    }
    if (status != ESP_ERR_NOT_FOUND) {
        return status;
    }
    esp_buf_init(&text, kv->kv->alloc, DEFINITION_BYTES_MAX);
    put_definition(&text, definition);
    status = text.failed ? esp_fail_nomem(err)
                         : put(kv, name_key(&key, 'D', name), esp_buf_str(&text), err);
    esp_buf_fini(&text);
    if (status == ESP_OK) {
        status = esp_catalog_tree_begin(kv, &state.tree, err);
    }
    if (status == ESP_OK) {
        status = esp_catalog_tree_done(kv, state.tree, err);
    }
    if (status == ESP_OK) {
        status = next_number(kv, 'I', &state.incarnation, err);
    }
    return status == ESP_OK ? esp_catalog_state_put(kv, name, &state, err) : status;
}

enum esp_status esp_catalog_drop(struct esp_kv_session *kv, struct esp_str name,
                                 struct esp_error *err) {
    struct catalog_key key;
    struct esp_table_state state;
    enum esp_status status = esp_catalog_state_get(kv, name, &state, err);
    if (status == ESP_OK) {
        status = del(kv, name_key(&key, 'D', name), err);
    }
    if (status == ESP_OK) {
        status = del(kv, name_key(&key, 'S', name), err);
    }
    return status == ESP_OK ? esp_catalog_tree_free(kv, state.tree, err) : status;
}

enum esp_status esp_catalog_next(struct esp_kv_session *kv, struct esp_str after, char out[256],
                                 struct esp_error *err) {
    struct catalog_key at;
    struct esp_str key, value;
    name_key(&at, 'D', after);
    enum esp_status status =
        kv->kv->ops->look(kv, ESP_KV_CATALOG, ESP_KV_AT_OR_AFTER,
                          (struct esp_str){at.bytes, at.len}, &key, &value, err);
    if (status == ESP_OK && after.len && esp_str_eq(key, (struct esp_str){at.bytes, at.len})) {
        status = kv->kv->ops->look(kv, ESP_KV_CATALOG, ESP_KV_NEXT, after, &key, &value, err);
    }
    if (status != ESP_OK) {
        return status;
    }
    if (key.len < 2 || key.ptr[0] != 'D') {
        return ESP_STOP;
    }
    memcpy(out, key.ptr + 1, key.len - 1);
    out[key.len - 1] = 0;
    return ESP_OK;
}

/* --- trees ---------------------------------------------------------------------- */

/* The first tree of this kind above `after`; 0 when there is none. */
static enum esp_status first_tree(struct esp_kv_session *kv, char kind, uint32_t after,
                                  uint32_t *tree, struct esp_error *err) {
    struct catalog_key at;
    struct esp_str key, value;
    enum esp_status status = kv->kv->ops->look(kv, ESP_KV_CATALOG, ESP_KV_AT_OR_AFTER,
                                               tree_key(&at, kind, after + 1), &key, &value, err);
    *tree = 0;
    if (status == ESP_OK && key.len == 1 + sizeof *tree && key.ptr[0] == kind) {
        memcpy(tree, key.ptr + 1, sizeof *tree);
        *tree = __builtin_bswap32(*tree);
    }
    return status == ESP_STOP ? ESP_OK : status;
}

enum esp_status esp_catalog_tree_begin(struct esp_kv_session *kv, uint32_t *tree,
                                       struct esp_error *err) {
    struct catalog_key key;
    enum esp_status status = first_tree(kv, 'F', 0, tree, err);
    if (status == ESP_OK) {
        status = *tree ? del(kv, tree_key(&key, 'F', *tree), err) : next_number(kv, 'N', tree, err);
    }
    if (status == ESP_OK) {
        status = put(kv, tree_key(&key, 'L', *tree), (struct esp_str){"", 0}, err);
    }
    return status == ESP_OK ? kv->kv->ops->tree_create(kv, *tree, err) : status;
}

enum esp_status esp_catalog_tree_done(struct esp_kv_session *kv, uint32_t tree,
                                      struct esp_error *err) {
    struct catalog_key key;
    return del(kv, tree_key(&key, 'L', tree), err);
}

enum esp_status esp_catalog_tree_free(struct esp_kv_session *kv, uint32_t tree,
                                      struct esp_error *err) {
    struct catalog_key key;
    enum esp_status status = kv->kv->ops->tree_clear(kv, tree, err);
    if (status == ESP_OK) {
        status = esp_catalog_tree_done(kv, tree, err);
    }
    return status == ESP_OK ? put(kv, tree_key(&key, 'F', tree), (struct esp_str){"", 0}, err)
                            : status;
}

enum esp_status esp_catalog_tree_unfinished(struct esp_kv_session *kv, uint32_t after,
                                            uint32_t *tree, struct esp_error *err) {
    return first_tree(kv, 'L', after, tree, err);
}
