#include "converters/access.h"
#include "converters/paging.h"
#include "converters/way.h"

#include <stdio.h>

#define ESP_LAYOUT(name, source) extern const struct esp_layout_ops esp_layout_##name;
#include "converters/layouts.def"
#undef ESP_LAYOUT

const struct esp_layout_ops *const esp_layouts[] = {
#define ESP_LAYOUT(name, source) &esp_layout_##name,
#include "converters/layouts.def"
#undef ESP_LAYOUT
    NULL,
};

enum { READ = 0, WRITE = 1 };
#define DERIVED ESP_OP_DERIVED
#define CORE    ESP_OP_CORE
#define EXTRA   ESP_OP_EXTRA

const struct esp_op_info esp_op_info[ESP_OP_COUNT_ALL] = {
#define ESP_OPERATION(NAME, name, kind, origin, arguments, text)                                   \
    [ESP_OP_##NAME] = {name, arguments, text, kind, origin},
#include "converters/operations.def"
#undef ESP_OPERATION
};

int esp_op_find(const char *name) {
    for (int op = 0; op < ESP_OP_COUNT_ALL; op++) {
        if (strcmp(esp_op_info[op].name, name) == 0) {
            return op;
        }
    }
    return -1;
}

const struct esp_layout_ops *esp_layout_find(const char *name) {
    for (size_t i = 0; esp_layouts[i]; i++) {
        if (strcmp(esp_layouts[i]->name, name) == 0) {
            return esp_layouts[i];
        }
    }
    return NULL;
}

const char *const esp_switch_names[] = {"on", "off", NULL};

/* --- settings ------------------------------------------------------------------ */

enum {
    NAME_BYTES_MAX = 255, /* DynamoDB's limit for names of keys and of indexes */
    INDEX_NAME_BYTES_MIN = 3,
    KEY_BYTES_MAX = 31, /* of a setting's own name, e.g. "separator" */
};

/* What an option's sentence says of "--gap" is said of "--set gap=many:". */
static enum esp_status set_option(struct esp_layout *layout, const char *text, const char *key,
                                  const char *value, struct esp_error *err) {
    struct esp_error why = ESP_ERROR_INIT;
    enum esp_status status =
        esp_option_set(layout->ops->options, &layout->settings, key, value, &why);
    const char *rest = strchr(why.message, ' ');
    return status == ESP_OK
               ? ESP_OK
               : esp_fail(err, status, "--set %s: %s", text, rest ? rest + 1 : why.message);
}

/* Splits "KEY=VALUE" (attr.OLD=NEW has the key "attr" and the value "OLD=NEW"). */
static enum esp_status set_one(struct esp_layout *layout, const char *text, struct esp_error *err) {
    static const char *const lists[] = {"attr.", "index."};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        size_t len = strlen(lists[i]);
        struct esp_strings *list = i ? &layout->settings.index : &layout->settings.attr;
        if (strncmp(text, lists[i], len) == 0) {
            if (list->count == ESP_OPTION_LIST_MAX) {
                return esp_fail(err, ESP_ERR_USAGE, "--set %s: more than %d of these", text,
                                ESP_OPTION_LIST_MAX);
            }
            list->value[list->count++] = text + len;
            return ESP_OK;
        }
    }
    char key[KEY_BYTES_MAX + 1];
    const char *equals = strchr(text, '=');
    size_t len = equals ? (size_t)(equals - text) : strlen(text);
    if (!equals || len == 0 || len > KEY_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_USAGE, "--set %s: must be KEY=VALUE", text);
    }
    memcpy(key, text, len);
    key[len] = 0;
    for (const struct esp_option *o = layout->ops->options; o && o->name; o++) {
        if (strcmp(o->name, key) == 0) {
            return set_option(layout, text, key, equals + 1, err);
        }
    }
    char known[256];
    size_t used = 0;
    known[0] = 0;
    for (const struct esp_option *o = layout->ops->options; o && o->name; o++) {
        int more = snprintf(known + used, sizeof known - used, "%s, ", o->name);
        used += more > 0 && (size_t)more < sizeof known - used ? (size_t)more : 0;
    }
    return esp_fail(err, ESP_ERR_USAGE,
                    "--set %s: the layout %s has no setting '%s'; it has %sattr.OLD, index.OLD",
                    text, layout->ops->name, key, known);
}

/* One character: a longer separator could overlap itself inside ids. */
static enum esp_status check_separator(struct esp_str separator, struct esp_error *err) {
    size_t characters = 0;
    for (size_t i = 0; i < separator.len; i++) {
        characters += ((unsigned char)separator.ptr[i] & 0xC0) != 0x80;
    }
    if (characters != 1) {
        return esp_fail(err, ESP_ERR_USAGE, "--set separator=%.*s: must be one character",
                        ESP_FMT(separator));
    }
    return ESP_OK;
}

/* Splits "OLD=NEW" of attr.OLD=NEW and index.OLD=NEW. */
static enum esp_status split_rename(const char *kind, const char *text, struct esp_str *old,
                                    struct esp_str *name, struct esp_error *err) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) {
        return esp_fail(err, ESP_ERR_USAGE, "--set %s.%s: must be %s.OLD=NEW", kind, text, kind);
    }
    *old = (struct esp_str){text, (size_t)(equals - text)};
    *name = esp_str_from(equals + 1);
    if (name->len > NAME_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_USAGE, "--set %s.%.*s: the new name has over %d bytes", kind,
                        ESP_FMT(*old), NAME_BYTES_MAX);
    }
    return ESP_OK;
}

static enum esp_status rename_attr(struct esp_layout *layout, const char *text,
                                   struct esp_error *err) {
    struct esp_str old, name;
    enum esp_status status = split_rename("attr", text, &old, &name, err);
    if (status != ESP_OK) {
        return status;
    }
    int at = esp_schema_find_attr(&layout->ops->schema, old);
    if (at < 0) {
        return esp_fail(err, ESP_ERR_USAGE, "--set attr.%s: the layout %s has no attribute '%.*s'",
                        text, layout->ops->name, ESP_FMT(old));
    }
    layout->schema.attr[at].name = name;
    return ESP_OK;
}

static enum esp_status rename_index(struct esp_layout *layout, const char *text,
                                    struct esp_error *err) {
    struct esp_str old, name;
    enum esp_status status = split_rename("index", text, &old, &name, err);
    if (status != ESP_OK) {
        return status;
    }
    bool valid = name.len >= INDEX_NAME_BYTES_MIN;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        valid = valid && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-');
    }
    if (!valid) {
        return esp_fail(
            err, ESP_ERR_USAGE,
            "--set index.%s: an index name has 3 to 255 characters of a-z A-Z 0-9 _ . -", text);
    }
    for (size_t i = 0; i < layout->schema.index_count; i++) {
        if (esp_str_eq(layout->ops->schema.index[i].name, old)) {
            layout->schema.index[i].name = name;
            return ESP_OK;
        }
    }
    return esp_fail(err, ESP_ERR_USAGE, "--set index.%s: the layout %s has no index '%.*s'", text,
                    layout->ops->name, ESP_FMT(old));
}

/* A name for what these settings do not store would be of no use. */
static enum esp_status check_renamed(const struct esp_layout *layout, struct esp_error *err) {
    const struct esp_schema *schema = &layout->ops->schema;
    for (size_t i = layout->schema.attr_count; i < schema->attr_count; i++) {
        if (!esp_str_eq(layout->schema.attr[i].name, schema->attr[i].name)) {
            return esp_fail(err, ESP_ERR_USAGE,
                            "--set attr.%.*s=%.*s: with the other settings it is not stored",
                            ESP_FMT(schema->attr[i].name), ESP_FMT(layout->schema.attr[i].name));
        }
    }
    return ESP_OK;
}

static enum esp_status check_names(const struct esp_schema *schema, struct esp_error *err) {
    for (size_t i = 0; i < schema->attr_count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (esp_str_eq(schema->attr[i].name, schema->attr[k].name)) {
                return esp_fail(err, ESP_ERR_USAGE, "two attributes would be called '%.*s'",
                                ESP_FMT(schema->attr[i].name));
            }
        }
    }
    return ESP_OK;
}

enum esp_status esp_layout_init(struct esp_layout *layout, const struct esp_layout_ops *ops,
                                const struct esp_strings *sets, struct esp_error *err) {
    memset(layout, 0, sizeof *layout);
    layout->ops = ops;
    layout->schema = ops->schema;
    enum esp_status status = ESP_OK;
    if (ops->options) {
        status = esp_options_default(ops->options, &layout->settings, sizeof layout->settings, err);
    }
    for (size_t i = 0; status == ESP_OK && sets && i < sets->count; i++) {
        status = set_one(layout, sets->value[i], err);
    }
    if (status == ESP_OK && layout->settings.separator) {
        layout->separator = esp_str_from(layout->settings.separator);
        status = check_separator(layout->separator, err);
    }
    for (size_t i = 0; status == ESP_OK && i < layout->settings.attr.count; i++) {
        status = rename_attr(layout, layout->settings.attr.value[i], err);
    }
    for (size_t i = 0; status == ESP_OK && i < layout->settings.index.count; i++) {
        status = rename_index(layout, layout->settings.index.value[i], err);
    }
    if (status == ESP_OK && ops->configure) {
        status = ops->configure(layout, err);
    }
    if (status == ESP_OK) {
        status = check_renamed(layout, err);
    }
    return status == ESP_OK ? check_names(&layout->schema, err) : status;
}

/* --- operations ---------------------------------------------------------------- */

static esp_op_fn *plan_of(const struct esp_layout *layout, enum esp_op op) {
    if (layout->ops->op[op]) {
        return layout->ops->op[op];
    }
    return op == ESP_OP_INSERT_SUBTREE && layout->ops->ordered ? NULL : esp_derived[op];
}

bool esp_layout_has(const struct esp_layout *layout, enum esp_op op) {
    return plan_of(layout, op) != NULL;
}

enum esp_plan esp_layout_plan(const struct esp_layout *layout, enum esp_op op) {
    return layout->ops->op[op] ? ESP_PLAN_NATIVE : ESP_PLAN_DERIVED;
}

/* Whatever has such an id is no node, and none gets one. */
static enum esp_status check_ids(struct esp_access *a, enum esp_op op,
                                 const struct esp_args *args) {
    const struct esp_forest *f = op == ESP_OP_INSERT_SUBTREE ? args->subtree : NULL;
    struct esp_str id = op == ESP_OP_INSERT ? args->id : (struct esp_str){"", 0};
    struct esp_str at[] = {op == ESP_OP_INSERT ? id : args->at.id, args->to.id};
    for (esp_node v = 0; f && f->id_has[':'] && v < f->count && !esp_id_reserved(id); v++) {
        id = esp_forest_id(f, v);
    }
    if (esp_id_reserved(id)) {
        return esp_fail(a->err, ESP_ERR_INPUT,
                        "the id '%.*s' begins with '" ESP_RESERVED_PREFIX
                        "', which is for items of the program's own",
                        ESP_FMT(id));
    }
    if (op == ESP_OP_INSERT && id.len == 0) {
        return esp_fail(a->err, ESP_ERR_REFUSED, "the id is empty");
    }
    return esp_id_reserved(at[0])   ? esp_access_missing(a, at[0])
           : esp_id_reserved(at[1]) ? esp_access_missing(a, at[1])
                                    : ESP_OK;
}

enum esp_status esp_operate(struct esp_access *a, enum esp_op op, const struct esp_args *args,
                            esp_node_fn *fn, void *ctx) {
    esp_op_fn *plan = plan_of(a->layout, op);
    if (!plan) {
        return esp_fail(a->err, ESP_ERR_UNSUPPORTED, "the layout %s has no operation '%s'",
                        a->layout->ops->name, esp_op_info[op].name);
    }
    if (op == ESP_OP_WINDOW && args->lo > args->hi) {
        return esp_fail(a->err, ESP_ERR_USAGE, "a window from %u to %u is empty", args->lo,
                        args->hi);
    }
    enum esp_status checked = check_ids(a, op, args);
    if (checked != ESP_OK) {
        return checked;
    }
    bool page = a->paging && !a->paging->run && !esp_op_info[op].write;
    enum esp_status status =
        page ? esp_paging_operate(a, op, plan, args, fn, ctx) : plan(a, args, fn, ctx);
    return status == ESP_ERR_NOMEM ? esp_fail_nomem(a->err) : status;
}

bool esp_layout_view(const struct esp_layout *layout, const struct esp_item *item,
                     struct esp_id_room *room, struct esp_node_view *out) {
    if (!layout->ops->view(layout, item, out)) {
        return false;
    }
    if (out->escaped) {
        out->parent_id = esp_way_id(layout, out->parent_id, room);
        out->escaped = false;
    }
    return true;
}

enum esp_status esp_resolve(struct esp_access *a, struct esp_str id, struct esp_locator *out) {
    return a->layout->ops->resolve(a, id, out);
}
