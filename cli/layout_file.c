#include "cli/layout_file.h"

#include "bench/config.h"

#include <stdarg.h>
#include <stdio.h>

/* A file being read. */
struct layout_file {
    struct esp_cli *cli;
    const char *path;
    struct esp_str text;
    json_t *root;
    struct esp_arena *texts;
    const struct esp_layout_ops *ops;
    struct esp_strings sets; /* in the order of `origin` */
    struct origin {
        const char *group, *member; /* borrowed from the JSON */
    } origin[ESP_OPTION_LIST_MAX];
};

/* --- where a member is ------------------------------------------------------------------ */

/* The line of root[group][member], or of root[group] when member is NULL; the text is valid
 * JSON.  0: spelled with escapes, or not there. */
static uint64_t line_of(struct esp_str text, const char *group, const char *member) {
    uint64_t line = 1;
    int depth = 0;
    bool inside = false; /* of root[group] */
    for (size_t at = 0; at < text.len; at++) {
        char c = text.ptr[at];
        line += c == '\n';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (c != '"') {
            continue;
        }
        size_t begin = ++at, after;
        while (text.ptr[at] != '"') {
            at += 1 + (text.ptr[at] == '\\');
        }
        struct esp_str word = {text.ptr + begin, at - begin};
        for (after = at + 1; after < text.len && strchr(" \t\r\n", text.ptr[after]); after++) {
        }
        bool key = after < text.len && text.ptr[after] == ':';
        if (key && depth == 1) {
            inside = esp_str_eq(word, esp_str_from(group));
        }
        if (key && inside &&
            (member ? depth == 2 && esp_str_eq(word, esp_str_from(member)) : depth == 1)) {
            return line;
        }
    }
    return 0;
}

/* A finding about root[group][member], or about root[group] when member is NULL. */
static enum esp_status ESP_PRINTF(4, 5)
    fail_at(struct layout_file *f, const char *group, const char *member, const char *fmt, ...) {
    struct esp_error *err = &f->cli->err;
    char text[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (err->status == ESP_OK) {
        snprintf(err->source, sizeof err->source, "%s", f->path);
        err->line = line_of(f->text, group, member);
    }
    return esp_fail(err, ESP_ERR_INPUT, "member \"%s%s%s\" %s", group, member ? "." : "",
                    member ? member : "", text);
}

/* --- what may stand where ------------------------------------------------------------------ */

/* "a, b, c" of what name_at gives before its first NULL. */
struct names {
    char text[512];
};

static void add_name(struct names *names, struct esp_str name) {
    size_t used = strlen(names->text);
    snprintf(names->text + used, sizeof names->text - used, "%s%.*s", used ? ", " : "",
             ESP_FMT(name));
}

static enum esp_status add_set(struct layout_file *f, const char *group, const char *member,
                               struct esp_str text) {
    if (!text.ptr) {
        return esp_fail_nomem(&f->cli->err);
    }
    if (f->sets.count == ESP_OPTION_LIST_MAX) {
        return fail_at(f, group, member, "is one too many: a layout file holds at most %d",
                       ESP_OPTION_LIST_MAX);
    }
    f->origin[f->sets.count] = (struct origin){group, member};
    f->sets.value[f->sets.count++] = text.ptr;
    return ESP_OK;
}

static enum esp_status take_setting(struct layout_file *f, const char *key, const json_t *value) {
    struct names known = {""};
    bool found = false;
    for (const struct esp_option *o = f->ops->options; o && o->name; o++) {
        found = found || strcmp(o->name, key) == 0;
        add_name(&known, esp_str_from(o->name));
    }
    if (!found) {
        return fail_at(f, "set", key, "is no setting of the layout %s; it has %s", f->ops->name,
                       known.text[0] ? known.text : "none");
    }
    if (json_is_integer(value)) {
        return add_set(
            f, "set", key,
            esp_arena_fmt(f->texts, "%s=%lld", key, (long long)json_integer_value(value)));
    }
    if (json_is_string(value)) {
        return add_set(f, "set", key,
                       esp_arena_fmt(f->texts, "%s=%s", key, json_string_value(value)));
    }
    return fail_at(f, "set", key, "must be a text or a whole number");
}

static enum esp_status check_new_name(struct layout_file *f, const char *group, const char *old,
                                      const json_t *value) {
    return json_is_string(value) && json_string_length(value)
               ? ESP_OK
               : fail_at(f, group, old, "must be a text: the name that the table uses");
}

static enum esp_status take_attribute(struct layout_file *f, const char *old, const json_t *value) {
    struct names known = {""};
    for (size_t i = 0; i < f->ops->schema.attr_count; i++) {
        add_name(&known, f->ops->schema.attr[i].name);
    }
    if (esp_schema_find_attr(&f->ops->schema, esp_str_from(old)) < 0) {
        return fail_at(f, "attributes", old, "is no attribute of the layout %s; it has %s",
                       f->ops->name, known.text);
    }
    enum esp_status status = check_new_name(f, "attributes", old, value);
    return status == ESP_OK
               ? add_set(f, "attributes", old,
                         esp_arena_fmt(f->texts, "attr.%s=%s", old, json_string_value(value)))
               : status;
}

static enum esp_status take_index(struct layout_file *f, const char *old, const json_t *value) {
    struct names known = {""};
    bool found = false;
    for (size_t i = 0; i < f->ops->schema.index_count; i++) {
        found = found || esp_str_eq(f->ops->schema.index[i].name, esp_str_from(old));
        add_name(&known, f->ops->schema.index[i].name);
    }
    if (!found) {
        return fail_at(f, "indexes", old, "is no index of the layout %s; it has %s", f->ops->name,
                       known.text[0] ? known.text : "none");
    }
    enum esp_status status = check_new_name(f, "indexes", old, value);
    return status == ESP_OK
               ? add_set(f, "indexes", old,
                         esp_arena_fmt(f->texts, "index.%s=%s", old, json_string_value(value)))
               : status;
}

static const struct {
    const char *name;
    enum esp_status (*take)(struct layout_file *f, const char *member, const json_t *value);
} groups[] = {{"set", take_setting}, {"attributes", take_attribute}, {"indexes", take_index}};
enum { GROUPS = sizeof groups / sizeof groups[0] };

static enum esp_status take_group(struct layout_file *f, size_t group) {
    json_t *object = json_object_get(f->root, groups[group].name);
    enum esp_status status = ESP_OK;
    if (!object) {
        return ESP_OK;
    }
    if (!json_is_object(object)) {
        return fail_at(f, groups[group].name, NULL, "must be an object");
    }
    for (void *at = json_object_iter(object); at && status == ESP_OK;
         at = json_object_iter_next(object, at)) {
        status = groups[group].take(f, json_object_iter_key(at), json_object_iter_value(at));
    }
    return status;
}

static enum esp_status check_members(struct layout_file *f) {
    static const char *const others[] = {"layout", "description"};
    for (void *at = json_object_iter(f->root); at; at = json_object_iter_next(f->root, at)) {
        const char *name = json_object_iter_key(at);
        bool known = strcmp(name, others[0]) == 0 || strcmp(name, others[1]) == 0;
        for (size_t i = 0; i < GROUPS; i++) {
            known = known || strcmp(name, groups[i].name) == 0;
        }
        if (!known) {
            return fail_at(f, name, NULL,
                           "is unknown; there are layout, set, attributes, indexes, description");
        }
    }
    return ESP_OK;
}

static enum esp_status take_layout(struct layout_file *f) {
    const json_t *value = json_object_get(f->root, "layout");
    struct names known = {""};
    for (size_t i = 0; esp_layouts[i]; i++) {
        add_name(&known, esp_str_from(esp_layouts[i]->name));
    }
    if (!value) {
        return fail_at(f, "layout", NULL, "is missing; it is one of %s", known.text);
    }
    f->ops = json_is_string(value) ? esp_layout_find(json_string_value(value)) : NULL;
    return f->ops ? ESP_OK
                  : fail_at(f, "layout", NULL, "names no layout; it must be one of %s", known.text);
}

/* All together: whoever fails with the ones before it is the one to blame. */
static enum esp_status try_layout(struct layout_file *f) {
    struct esp_error whole = ESP_ERROR_INIT;
    struct esp_layout layout;
    struct esp_strings sets = f->sets;
    if (esp_layout_init(&layout, f->ops, &sets, &whole) == ESP_OK) {
        return ESP_OK;
    }
    for (sets.count = 1; sets.count <= f->sets.count; sets.count++) {
        struct esp_error err = ESP_ERROR_INIT;
        if (esp_layout_init(&layout, f->ops, &sets, &err) != ESP_OK) {
            const struct origin *o = &f->origin[sets.count - 1];
            const char *colon = strstr(err.message, ": "), *dash = strchr(err.message, ' ');
            const char *text = strncmp(err.message, "--set ", 6) == 0 && colon ? colon + 2
                               : strncmp(err.message, "--", 2) == 0 && dash    ? dash + 1
                                                                               : err.message;
            return fail_at(f, o->group, o->member, "will not do: %s", text);
        }
    }
    return fail_at(f, "layout", NULL, "will not do: %s", whole.message);
}

/* The file's settings come first, so that those of the command line win. */
static enum esp_status merge(struct layout_file *f, struct esp_cli_options *options) {
    struct esp_error *err = &f->cli->err;
    if (options->layout && strcmp(options->layout, f->ops->name) != 0) {
        return esp_fail(err, ESP_ERR_USAGE, "--layout %s, but %s is for the layout %s",
                        options->layout, f->path, f->ops->name);
    }
    if (f->sets.count + options->set.count > ESP_OPTION_LIST_MAX) {
        return esp_fail(err, ESP_ERR_USAGE, "%s and --set: more than %d settings together", f->path,
                        ESP_OPTION_LIST_MAX);
    }
    for (size_t i = 0; i < options->set.count; i++) {
        f->sets.value[f->sets.count++] = options->set.value[i];
    }
    options->layout = f->ops->name;
    options->set = f->sets;
    return ESP_OK;
}

static enum esp_status take_all(struct layout_file *f, struct esp_cli_options *options) {
    enum esp_status status = check_members(f);
    if (status == ESP_OK) {
        status = take_layout(f);
    }
    for (size_t i = 0; i < GROUPS && status == ESP_OK; i++) {
        status = take_group(f, i);
    }
    if (status == ESP_OK) {
        status = try_layout(f);
    }
    return status == ESP_OK ? merge(f, options) : status;
}

enum esp_status esp_layout_file_read(struct esp_cli *cli, struct esp_arena *texts,
                                     struct esp_cli_options *options) {
    struct layout_file f = {.cli = cli, .path = options->layout_file, .texts = texts};
    struct esp_buf text;
    esp_buf_init(&text, cli->alloc, ESP_CONFIG_BYTES_MAX);
    enum esp_status status = esp_config_load(f.path, cli->alloc, &text, &cli->err);
    if (status == ESP_ERR_IO) {
        status = esp_cli_open_status(cli->err.os_errno);
    }
    if (status == ESP_OK) {
        f.text = esp_buf_str(&text);
        status = esp_config_parse(f.text, f.path, &f.root, &cli->err);
    }
    if (status == ESP_OK) {
        status = take_all(&f, options);
    }
    json_decref(f.root);
    esp_buf_fini(&text);
    return status;
}
