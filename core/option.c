#include "core/option.h"

#include <math.h>
#include <stdlib.h>

static const struct esp_option *find_in(const struct esp_option *options, const char *name,
                                        size_t name_len) {
    for (const struct esp_option *o = options; o->name; o++) {
        if (strlen(o->name) == name_len && memcmp(o->name, name, name_len) == 0) {
            return o;
        }
    }
    return NULL;
}

static bool takes_argument(const struct esp_option *o) {
    return o->type != ESP_OPT_FLAG && o->type != ESP_OPT_OPTFLAG;
}

static enum esp_status needs_value(const struct esp_option *o, struct esp_error *err) {
    return esp_fail(err, ESP_ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name,
                    o->argument ? o->argument : "VALUE");
}

static enum esp_status parse_u64(const struct esp_option *o, const char *text, uint64_t *out,
                                 struct esp_error *err) {
    uint64_t value = 0, unit = 1, max = o->max ? o->max : UINT64_MAX;
    const char *at = text;
    bool number = *at >= '0' && *at <= '9', fits = true;
    for (; *at >= '0' && *at <= '9'; at++) {
        fits = fits && !__builtin_mul_overflow(value, 10u, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(*at - '0'), &value);
    }
    switch (*at) {
    case 'k':
        unit = 1000;
        break;
    case 'M':
        unit = 1000000;
        break;
    case 'G':
        unit = 1000000000;
        break;
    default:
        at--; /* no suffix: what follows must be the end */
        break;
    }
    if (!number || at[1]) {
        return esp_fail(err, ESP_ERR_USAGE, "--%s takes a whole number (k, M, G allowed), not '%s'",
                        o->name, text);
    }
    fits = fits && !__builtin_mul_overflow(value, unit, &value);
    if (!fits || value > max || value < o->min) {
        bool small = fits && value < o->min;
        return esp_fail(err, ESP_ERR_USAGE, "--%s takes at %s %llu, not '%s'", o->name,
                        small ? "least" : "most", (unsigned long long)(small ? o->min : max), text);
    }
    *out = value;
    return ESP_OK;
}

static enum esp_status parse_double(const char *name, const char *text, double *out,
                                    struct esp_error *err) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0) {
        return esp_fail(err, ESP_ERR_USAGE, "--%s takes a number of 0 or more, not '%s'", name,
                        text);
    }
    *out = value;
    return ESP_OK;
}

static enum esp_status parse_choice(const struct esp_option *o, const char *text, int *out,
                                    struct esp_error *err) {
    char known[256] = "";
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *out = i;
            return ESP_OK;
        }
        size_t used = strlen(known);
        strncat(known, i ? ", " : "", sizeof known - used - 1);
        used = strlen(known);
        strncat(known, o->choices[i], sizeof known - used - 1);
    }
    return esp_fail(err, ESP_ERR_USAGE, "--%s takes one of %s, not '%s'", o->name, known, text);
}

static enum esp_status store_value(const struct esp_option *o, void *values, const char *value,
                                   struct esp_error *err) {
    char *field = (char *)values + o->offset;
    switch (o->type) {
    case ESP_OPT_FLAG:
        if (value && *value) {
            return esp_fail(err, ESP_ERR_USAGE, "--%s takes no value", o->name);
        }
        *(bool *)(void *)field = true;
        return ESP_OK;
    case ESP_OPT_OPTFLAG:
        *(const char **)(void *)field = value ? value : "";
        return ESP_OK;
    case ESP_OPT_STRING:
        *(const char **)(void *)field = value;
        return ESP_OK;
    case ESP_OPT_U64:
        return parse_u64(o, value, (uint64_t *)(void *)field, err);
    case ESP_OPT_DOUBLE:
        return parse_double(o->name, value, (double *)(void *)field, err);
    case ESP_OPT_CHOICE:
        return parse_choice(o, value, (int *)(void *)field, err);
    case ESP_OPT_LIST: {
        struct esp_strings *list = (struct esp_strings *)(void *)field;
        if (list->count == ESP_OPTION_LIST_MAX) {
            return esp_fail(err, ESP_ERR_USAGE, "--%s may be given %d times at most", o->name,
                            ESP_OPTION_LIST_MAX);
        }
        list->value[list->count++] = value;
        return ESP_OK;
    }
    }
    return ESP_ERR_INTERNAL;
}

enum esp_status esp_options_default(const struct esp_option *options, void *values, size_t size,
                                    struct esp_error *err) {
    memset(values, 0, size);
    for (const struct esp_option *o = options; o->name; o++) {
        enum esp_status status = o->fallback ? store_value(o, values, o->fallback, err) : ESP_OK;
        if (status != ESP_OK) {
            return status;
        }
    }
    return ESP_OK;
}

/* --- proposals for a name that does not exist ------------------------------------- */

enum { NAME_MAX_LEN = 40 };

/* Levenshtein's; names longer than NAME_MAX_LEN are far from everything. */
int esp_name_distance(const char *a, size_t a_len, const char *b) {
    size_t b_len = strlen(b);
    int row[NAME_MAX_LEN + 1];
    if (a_len > NAME_MAX_LEN || b_len > NAME_MAX_LEN) {
        return NAME_MAX_LEN;
    }
    for (size_t k = 0; k <= b_len; k++) {
        row[k] = (int)k;
    }
    for (size_t i = 1; i <= a_len; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t k = 1; k <= b_len; k++) {
            int best = diagonal + (a[i - 1] != b[k - 1]);
            diagonal = row[k];
            best = row[k] + 1 < best ? row[k] + 1 : best;
            row[k] = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
        }
    }
    return row[b_len];
}

static enum esp_status unknown_option(const struct esp_option *const *sets, const char *name,
                                      size_t len, struct esp_error *err) {
    const char *nearest = NULL;
    int best = len < 4 ? 2 : ESP_NAME_FAR;
    for (size_t i = 0; sets[i]; i++) {
        for (const struct esp_option *o = sets[i]; o->name; o++) {
            int d = esp_name_distance(name, len, o->name);
            if (d < best) {
                best = d;
                nearest = o->name;
            }
        }
    }
    return esp_fail(err, ESP_ERR_USAGE, "unknown option --%.*s%s%s%s", (int)len, name,
                    nearest ? ": did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
}

enum esp_status esp_option_set(const struct esp_option *options, void *values, const char *name,
                               const char *value, struct esp_error *err) {
    const struct esp_option *o = find_in(options, name, strlen(name));
    if (!o) {
        const struct esp_option *const sets[] = {options, NULL};
        return unknown_option(sets, name, strlen(name), err);
    }
    if (takes_argument(o) && !value) {
        return needs_value(o, err);
    }
    return store_value(o, values, value, err);
}

/* --- command line -------------------------------------------------------------------- */

/* argv[*at] is an option; *at is left on its last word. */
static enum esp_status parse_one(const struct esp_option *const *sets, void *values, int argc,
                                 char **argv, int *at, struct esp_error *err) {
    const char *word = argv[*at];
    if (word[1] != '-') {
        word = strcmp(word, "-h") == 0 ? "--help" : word;
        if (word[1] != '-') {
            return esp_fail(err, ESP_ERR_USAGE, "unknown option %s: options are spelled --name",
                            word);
        }
    }
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t len = equals ? (size_t)(equals - name) : strlen(name);
    const struct esp_option *o = NULL;
    for (size_t i = 0; sets[i] && !o; i++) {
        o = find_in(sets[i], name, len);
    }
    if (!o) {
        return unknown_option(sets, name, len, err);
    }
    const char *value = equals ? equals + 1 : NULL;
    if (takes_argument(o) && !value) {
        if (*at + 1 >= argc) {
            return needs_value(o, err);
        }
        value = argv[++*at];
    }
    if (o->type == ESP_OPT_FLAG && equals) {
        return esp_fail(err, ESP_ERR_USAGE, "--%s takes no value", o->name);
    }
    return store_value(o, values, value, err);
}

enum esp_status esp_options_parse(const struct esp_option *const *sets, void *values, int argc,
                                  char **argv, int *operand_count, struct esp_error *err) {
    int operands = 0;
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (only_operands || argv[i][0] != '-' || argv[i][1] == 0) {
            argv[operands++] = argv[i];
        } else {
            enum esp_status status = parse_one(sets, values, argc, argv, &i, err);
            if (status != ESP_OK) {
                return status;
            }
        }
    }
    *operand_count = operands;
    return ESP_OK;
}

void esp_options_help(const struct esp_option *options, struct esp_buf *out) {
    for (const struct esp_option *o = options; o->name; o++) {
        struct esp_buf row;
        esp_buf_init(&row, out->alloc, 256);
        esp_buf_printf(&row, "  --%s%s%s", o->name,
                       o->type == ESP_OPT_OPTFLAG ? "[=" : (o->argument ? " " : ""),
                       o->argument ? o->argument : "");
        if (o->type == ESP_OPT_OPTFLAG) {
            esp_buf_put_char(&row, ']');
        }
        const char *text = esp_buf_cstr(&row);
        esp_buf_printf(out, "%-30s ", text ? text : "");
        esp_buf_put_str(out, esp_str_from(o->help));
        if (o->type == ESP_OPT_CHOICE) {
            ESP_BUF_LIT(out, ": ");
            for (size_t i = 0; o->choices[i]; i++) {
                esp_buf_printf(out, "%s%s", i ? ", " : "", o->choices[i]);
            }
        }
        if (o->fallback) {
            esp_buf_printf(out, " (%s)", o->fallback);
        }
        esp_buf_put_char(out, '\n');
        esp_buf_fini(&row);
    }
}
