#include "tests/support/expressions.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

/* --- tokens ----------------------------------------------------------------------- */

/* A word (name, #name, :value, keyword), or one of ( ) , + - = < > <= >= <>; len 0: the end. */
struct reader {
    struct esp_expression *e;
    const char *at;
    struct esp_str token;
};

static bool fail(struct reader *r, const char *what) {
    snprintf(r->e->problem, sizeof r->e->problem, "%s at \"%.40s\"", what,
             r->token.len ? r->token.ptr : r->at);
    return false;
}

static bool is_word_char(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '#' || c == ':';
}

static void advance(struct reader *r) {
    while (isspace((unsigned char)*r->at)) {
        r->at++;
    }
    const char *from = r->at;
    if (is_word_char(*r->at)) {
        while (is_word_char(*r->at)) {
            r->at++;
        }
    } else if (*r->at) {
        r->at++;
        if ((*from == '<' && (*r->at == '=' || *r->at == '>')) || (*from == '>' && *r->at == '=')) {
            r->at++;
        }
    }
    r->token = (struct esp_str){from, (size_t)(r->at - from)};
}

static bool is(const struct reader *r, const char *word) {
    return r->token.len == strlen(word) && strncasecmp(r->token.ptr, word, r->token.len) == 0;
}

static bool take(struct reader *r, const char *word) {
    if (!is(r, word)) {
        return false;
    }
    advance(r);
    return true;
}

static bool expect(struct reader *r, const char *word) {
    return take(r, word) || fail(r, word);
}

static const char *token_text(struct reader *r) {
    return esp_arena_dup(r->e->arena, r->token).ptr;
}

/* --- operands --------------------------------------------------------------------- */

static bool read_name(struct reader *r, struct esp_str *out) {
    if (r->token.len == 0 || r->token.ptr[0] == ':' || !is_word_char(r->token.ptr[0])) {
        return fail(r, "expected a name");
    }
    const char *text = token_text(r);
    if (text && text[0] == '#') {
        text = json_string_value(json_object_get(r->e->names, text));
    }
    if (!text) {
        return fail(r, "a name that is not given");
    }
    *out = esp_str_from(text);
    advance(r);
    return true;
}

bool esp_expression_value(struct esp_expression *e, json_t *typed, struct esp_value *out) {
    struct esp_error err = ESP_ERROR_INIT;
    char *text = json_dumps(typed, JSON_COMPACT);
    enum esp_status status =
        text ? esp_value_parse(esp_str_from(text), e->arena, out, &err) : ESP_ERR_NOMEM;
    free(text);
    if (status != ESP_OK) {
        snprintf(e->problem, sizeof e->problem, "a value: %.200s", err.message);
    }
    return status == ESP_OK;
}

static bool read_value(struct reader *r, struct esp_value *out) {
    if (r->token.len == 0 || r->token.ptr[0] != ':') {
        return fail(r, "expected a value");
    }
    json_t *typed = json_object_get(r->e->values, token_text(r));
    if (!typed) {
        return fail(r, "a value that is not given");
    }
    advance(r);
    return esp_expression_value(r->e, typed, out);
}

/* --- conditions ------------------------------------------------------------------- */

static bool read_function(struct reader *r, struct esp_condition *out, bool *contains) {
    static const struct {
        const char *name;
        enum esp_compare op;
        bool has_value;
    } functions[] = {{"attribute_exists", ESP_EXISTS, false},
                     {"attribute_not_exists", ESP_NOT_EXISTS, false},
                     {"begins_with", ESP_PREFIX, true},
                     {"contains", ESP_ANY, true}};
    for (size_t i = 0; i < 4; i++) {
        if (!is(r, functions[i].name)) {
            continue;
        }
        advance(r);
        out->op = functions[i].op;
        *contains = i == 3;
        return expect(r, "(") && read_name(r, &out->name) &&
               (!functions[i].has_value || (expect(r, ",") && read_value(r, &out->lo))) &&
               expect(r, ")");
    }
    return false;
}

static bool read_comparison(struct reader *r, struct esp_condition *out) {
    static const struct {
        const char *sign;
        enum esp_compare op;
    } signs[] = {{"=", ESP_EQ}, {"<", ESP_LT},  {"<=", ESP_LE},
                 {">", ESP_GT}, {">=", ESP_GE}, {"<>", ESP_NE}};
    if (!read_name(r, &out->name)) {
        return false;
    }
    if (take(r, "BETWEEN")) {
        out->op = ESP_BETWEEN;
        return read_value(r, &out->lo) && expect(r, "AND") && read_value(r, &out->hi);
    }
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (take(r, signs[i].sign)) {
            out->op = signs[i].op;
            return read_value(r, &out->lo);
        }
    }
    return fail(r, "expected a comparison");
}

bool esp_expression_terms(struct esp_expression *e, const char *text, struct esp_terms *out) {
    struct reader r = {.e = e, .at = text};
    out->count = out->contains_count = 0;
    advance(&r);
    do {
        struct esp_condition term = {.name = {0, 0}};
        bool contains = false;
        size_t open = 0;
        for (; take(&r, "("); open++) {
        }
        e->problem[0] = 0;
        if (!read_function(&r, &term, &contains) &&
            (e->problem[0] || !read_comparison(&r, &term))) {
            return false;
        }
        for (; open; open--) {
            if (!expect(&r, ")")) {
                return false;
            }
        }
        if (out->count == ESP_TEST_TERMS_MAX || out->contains_count == ESP_TEST_TERMS_MAX) {
            return fail(&r, "too many terms");
        }
        if (contains) {
            out->contains[out->contains_count++] = term;
        } else {
            out->condition[out->count++] = term;
        }
    } while (take(&r, "AND"));
    return r.token.len == 0 || fail(&r, "only terms joined by AND are known");
}

bool esp_expression_names(struct esp_expression *e, const char *text, struct esp_str *out,
                          size_t *count) {
    struct reader r = {.e = e, .at = text};
    *count = 0;
    advance(&r);
    do {
        if (*count == ESP_TEST_TERMS_MAX) {
            return fail(&r, "too many names");
        }
        if (!read_name(&r, &out[(*count)++])) {
            return false;
        }
    } while (take(&r, ","));
    return r.token.len == 0 || fail(&r, "only names are known");
}

/* --- updates ---------------------------------------------------------------------- */

static bool current_value(struct reader *r, const struct esp_item *current, struct esp_str name,
                          struct esp_value *out) {
    *out = (struct esp_value){.type = ESP_TYPE_NONE};
    return !current || esp_item_find(r->e->schema, current, name, r->e->arena, out, NULL) == ESP_OK;
}

/* :v, a name, or if_not_exists(name, operand). */
static bool read_operand(struct reader *r, const struct esp_item *current, struct esp_value *out) {
    struct esp_str name;
    if (r->token.len && r->token.ptr[0] == ':') {
        return read_value(r, out);
    }
    if (take(r, "if_not_exists")) {
        struct esp_value other;
        if (!expect(r, "(") || !read_name(r, &name) || !expect(r, ",") || !read_value(r, &other) ||
            !expect(r, ")") || !current_value(r, current, name, out)) {
            return false;
        }
        *out = out->type == ESP_TYPE_NONE ? other : *out;
        return true;
    }
    if (!read_name(r, &name) || !current_value(r, current, name, out)) {
        return false;
    }
    return out->type != ESP_TYPE_NONE || fail(r, "the item has no such attribute");
}

static bool add(struct reader *r, struct esp_value *sum, const struct esp_value *more, bool minus) {
    struct esp_number a, b, total;
    if (sum->type != ESP_TYPE_N || more->type != ESP_TYPE_N) {
        return fail(r, "an operand of a sum is no number");
    }
    esp_value_to_number(sum, &a);
    esp_value_to_number(more, &b);
    b.sign = (int8_t)(minus ? -b.sign : b.sign);
    return (esp_number_add(&a, &b, &total, NULL) == ESP_OK &&
            esp_value_from_number(&total, r->e->arena, sum, NULL) == ESP_OK) ||
           fail(r, "the sum cannot be had");
}

static bool read_assignment(struct reader *r, const struct esp_item *current,
                            struct esp_change *out) {
    struct esp_value more;
    if (!read_name(r, &out->name) || !expect(r, "=") || !read_operand(r, current, &out->value)) {
        return false;
    }
    bool minus = is(r, "-");
    if (!minus && !is(r, "+")) {
        return true;
    }
    advance(r);
    return read_operand(r, current, &more) && add(r, &out->value, &more, minus);
}

bool esp_expression_update(struct esp_expression *e, const char *text,
                           const struct esp_item *current, struct esp_clauses *out) {
    static const char *const clauses[] = {"SET", "REMOVE", "ADD", "DELETE"}; /* esp_change_kind */
    struct reader r = {.e = e, .at = text};
    int kind = -1;
    out->count = 0;
    advance(&r);
    while (r.token.len) {
        for (int i = 0; i < 4; i++) {
            if (take(&r, clauses[i])) {
                kind = i;
                break;
            }
        }
        if (kind < 0 || out->count == ESP_TEST_TERMS_MAX) {
            return fail(&r, "expected a clause");
        }
        struct esp_change *change = &out->change[out->count++];
        *change = (struct esp_change){.kind = (enum esp_change_kind)kind};
        bool ok = change->kind == ESP_CHANGE_SET ? read_assignment(&r, current, change)
                                                 : read_name(&r, &change->name);
        if (ok && (change->kind == ESP_CHANGE_ADD || change->kind == ESP_CHANGE_DELETE)) {
            ok = read_value(&r, &change->value);
        }
        if (!ok) {
            return false;
        }
        take(&r, ",");
    }
    return true;
}
