#include "importers/columns.h"
#include "importers/encode.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>
#include <yajl/yajl_parse.h>

/* --- names -------------------------------------------------------------------------- */

/* Best first; lower case, without '_', '-' and blanks. */
static const char *const usual_ids[] = {"id",   "nodeid", "key",        "code",       "uuid",
                                        "guid", "itemid", "categoryid", "employeeid", NULL};
static const char *const usual_parents[] = {
    "parentid",   "parent",       "parentnodeid",     "parentkey", "parentcode", "parentuuid",
    "parentguid", "parentitemid", "parentcategoryid", "managerid", "manager",    "reportsto",
    NULL};

static int usual_rank(const char *const *names, struct esp_str name) {
    char plain[32];
    size_t len = 0;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (c == '_' || c == '-' || c == ' ') {
            continue;
        }
        if (len == sizeof plain) {
            return 0;
        }
        plain[len++] = (char)tolower((unsigned char)c);
    }
    for (int i = 0; names[i]; i++) {
        if (esp_str_eq(esp_str_from(names[i]), (struct esp_str){plain, len})) {
            return 100 - i;
        }
    }
    return 0;
}

int esp_usual_id(struct esp_str name) {
    return usual_rank(usual_ids, name);
}

int esp_usual_parent(struct esp_str name) {
    return usual_rank(usual_parents, name);
}

enum esp_status esp_id_check(struct esp_str id, const char *what, struct esp_error *err) {
    if (id.len == 0) {
        return esp_fail(err, ESP_ERR_INPUT, "the %s is empty", what);
    }
    if (id.len > ESP_ID_BYTES_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT, "the %s has %zu bytes, but a key has at most %d", what,
                        id.len, ESP_ID_BYTES_MAX);
    }
    return ESP_OK;
}

/* --- types -------------------------------------------------------------------------- */

static const char *const type_names[] = {"S", "N", "BOOL", "NULL", "L", "M", "SS", "NS", "B", NULL};

struct esp_str esp_column_option_name(const char *option) {
    const char *colon = strrchr(option, ':');
    return (struct esp_str){option, colon ? (size_t)(colon - option) : 0};
}

enum esp_status esp_column_options_check(const struct esp_source_options *options,
                                         struct esp_error *err) {
    for (size_t i = 0; i < options->column.count; i++) {
        const char *option = options->column.value[i];
        struct esp_str name = esp_column_option_name(option);
        const char *const *type = type_names;
        while (name.len && *type && strcmp(*type, option + name.len + 1) != 0) {
            type++;
        }
        if (!name.len || !*type) {
            return esp_fail(err, ESP_ERR_USAGE,
                            "--column %s is not NAME:TYPE, with one of the types S N BOOL NULL L M "
                            "SS NS B",
                            option);
        }
    }
    return ESP_OK;
}

enum esp_status esp_column_init(struct esp_column *column, struct esp_arena *arena,
                                struct esp_str name, const struct esp_source_options *options,
                                struct esp_error *err) {
    enum esp_status status = esp_name_check(name, err);
    if (status != ESP_OK) {
        return status;
    }
    *column = (struct esp_column){.name = name};
    for (size_t i = 0; i < options->column.count; i++) {
        struct esp_str wanted = esp_column_option_name(options->column.value[i]);
        if (esp_str_eq(wanted, name)) {
            snprintf(column->type, sizeof column->type, "%s",
                     options->column.value[i] + wanted.len + 1);
        }
    }
    struct esp_buf prefix;
    esp_buf_init(&prefix, arena->alloc, 6 * ESP_NAME_BYTES_MAX + 16);
    esp_buf_put_char(&prefix, '"');
    esp_text_put(&prefix, name);
    ESP_BUF_LIT(&prefix, "\":");
    struct esp_str text = {NULL, 0};
    if (!prefix.failed) {
        text = esp_arena_dup(arena, esp_buf_str(&prefix));
    }
    esp_buf_fini(&prefix);
    column->json_prefix = (char *)(uintptr_t)text.ptr;
    column->json_prefix_len = text.len;
    return text.ptr ? ESP_OK : esp_fail_nomem(err);
}

/* --- values of text ------------------------------------------------------------------- */

static bool is_word(struct esp_str value, const char *word) {
    return value.len == strlen(word) && strncasecmp(value.ptr, word, value.len) == 0;
}

static enum esp_status not_of_type(const struct esp_column *column, struct esp_str value,
                                   const char *wanted, struct esp_error *err) {
    return esp_fail(err, ESP_ERR_INPUT, "'%.*s' in column '%.*s' is not %s",
                    value.len > 100 ? 100 : (int)value.len, value.ptr,
                    column->name.len > 100 ? 100 : (int)column->name.len, column->name.ptr, wanted);
}

/* Once more, for the reason. */
static enum esp_status not_a_number(const struct esp_column *column, struct esp_str value,
                                    struct esp_buf *out, struct esp_error *err) {
    struct esp_error why = ESP_ERROR_INIT;
    uint32_t size = 0;
    char wanted[256];
    snprintf(wanted, sizeof wanted, "a number (N): %.200s",
             esp_number_put(out, value, &size, &why) == ESP_OK ? "" : why.message);
    return not_of_type(column, value, wanted, err);
}

static enum esp_status put_bool(const struct esp_column *column, struct esp_str value,
                                struct esp_buf *out, struct esp_error *err) {
    if (is_word(value, "true") || is_word(value, "1")) {
        ESP_BUF_LIT(out, "{\"BOOL\":true}");
    } else if (is_word(value, "false") || is_word(value, "0")) {
        ESP_BUF_LIT(out, "{\"BOOL\":false}");
    } else {
        return not_of_type(column, value, "true or false (BOOL)", err);
    }
    return ESP_OK;
}

static int base64_digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Standard alphabet, padded, no bits lost: what every engine takes (facts sheet 2.1). */
static enum esp_status put_base64(const struct esp_column *column, struct esp_str value,
                                  struct esp_buf *out, uint32_t *size, struct esp_error *err) {
    size_t padding = 0;
    while (padding < 2 && padding < value.len && value.ptr[value.len - 1 - padding] == '=') {
        padding++;
    }
    bool good = value.len % 4 == 0;
    int digit = 0;
    for (size_t i = 0; good && i < value.len - padding; i++) {
        digit = base64_digit(value.ptr[i]);
        good = digit >= 0;
    }
    if (!good || (digit & ((1 << (2 * padding)) - 1)) != 0) {
        return not_of_type(column, value, "base64 with its padding (B)", err);
    }
    ESP_BUF_LIT(out, "{\"B\":\"");
    esp_buf_put_str(out, value);
    ESP_BUF_LIT(out, "\"}");
    *size += (uint32_t)(value.len / 4 * 3 - padding);
    return ESP_OK;
}

/* The JSON text of a list, map or set in one cell. */
struct cell {
    struct esp_encoder encoder;
    const struct esp_column *column;
    enum esp_encoder_kind kind; /* what the outermost value must be */
    enum esp_status status;
    struct esp_error *err;
};

static int cell_result(struct cell *cell, enum esp_status status) {
    cell->status = status;
    return status == ESP_OK;
}

/* Nothing but the list, map or set itself may stand outermost. */
static bool cell_outermost(struct cell *cell) {
    if (cell->encoder.depth == 0) {
        cell->status = esp_fail(
            cell->err, ESP_ERR_INPUT, "a value in column '%.*s' is not a JSON %s",
            ESP_FMT(cell->column->name), cell->kind == ESP_ENCODE_M ? "object (M)" : "array");
    }
    return cell->encoder.depth == 0;
}

static int cell_null(void *ctx) {
    struct cell *cell = ctx;
    return !cell_outermost(cell) && cell_result(cell, esp_encode_null(&cell->encoder, cell->err));
}

static int cell_boolean(void *ctx, int value) {
    struct cell *cell = ctx;
    return !cell_outermost(cell) &&
           cell_result(cell, esp_encode_bool(&cell->encoder, value != 0, cell->err));
}

static int cell_number(void *ctx, const char *text, size_t len) {
    struct cell *cell = ctx;
    return !cell_outermost(cell) &&
           cell_result(cell,
                       esp_encode_number(&cell->encoder, (struct esp_str){text, len}, cell->err));
}

static int cell_string(void *ctx, const unsigned char *text, size_t len) {
    struct cell *cell = ctx;
    struct esp_str value = {(const char *)text, len};
    return !cell_outermost(cell) &&
           cell_result(cell, esp_encode_string(&cell->encoder, value, cell->err));
}

static int cell_open_map(void *ctx) {
    struct cell *cell = ctx;
    if (cell->kind != ESP_ENCODE_M && cell_outermost(cell)) {
        return 0;
    }
    return cell_result(cell, esp_encode_open(&cell->encoder, ESP_ENCODE_M, cell->err));
}

static int cell_key(void *ctx, const unsigned char *text, size_t len) {
    struct cell *cell = ctx;
    struct esp_str key = {(const char *)text, len};
    return cell_result(cell, esp_encode_key(&cell->encoder, key, cell->err));
}

static int cell_open_array(void *ctx) {
    struct cell *cell = ctx;
    if (cell->kind == ESP_ENCODE_M && cell_outermost(cell)) {
        return 0;
    }
    enum esp_encoder_kind kind = cell->encoder.depth ? ESP_ENCODE_L : cell->kind;
    return cell_result(cell, esp_encode_open(&cell->encoder, kind, cell->err));
}

static int cell_close(void *ctx) {
    struct cell *cell = ctx;
    return cell_result(cell, esp_encode_close(&cell->encoder, cell->err));
}

/* Such columns are rare: a parser a cell is affordable. */
static enum esp_status put_json(const struct esp_column *column, enum esp_encoder_kind kind,
                                struct esp_str value, struct esp_buf *out, uint32_t *size,
                                struct esp_error *err) {
    static const yajl_callbacks callbacks = {
        .yajl_null = cell_null,
        .yajl_boolean = cell_boolean,
        .yajl_number = cell_number,
        .yajl_string = cell_string,
        .yajl_start_map = cell_open_map,
        .yajl_map_key = cell_key,
        .yajl_end_map = cell_close,
        .yajl_start_array = cell_open_array,
        .yajl_end_array = cell_close,
    };
    struct cell cell = {.column = column, .kind = kind, .err = err};
    esp_encoder_init(&cell.encoder, out->alloc, out);
    cell.encoder.size = *size;
    yajl_handle parser = yajl_alloc(&callbacks, NULL, &cell);
    if (!parser) {
        return esp_fail_nomem(err);
    }
    yajl_status outcome = yajl_parse(parser, (const unsigned char *)value.ptr, value.len);
    if (outcome == yajl_status_ok) {
        outcome = yajl_complete_parse(parser);
    }
    if (cell.status == ESP_OK && outcome != yajl_status_ok) {
        cell.status = not_of_type(column, value, "valid JSON", err);
    }
    yajl_free(parser);
    *size = cell.encoder.size;
    esp_encoder_fini(&cell.encoder);
    return cell.status;
}

/* "a|b|c", or a JSON array. */
static enum esp_status put_set(const struct esp_column *column, enum esp_encoder_kind kind,
                               struct esp_str value, struct esp_buf *out, uint32_t *size,
                               struct esp_error *err) {
    if (value.ptr[0] == '[') {
        return put_json(column, kind, value, out, size, err);
    }
    struct esp_encoder encoder;
    esp_encoder_init(&encoder, out->alloc, out);
    encoder.size = *size;
    enum esp_status status = esp_encode_open(&encoder, kind, err);
    for (size_t start = 0; status == ESP_OK && start <= value.len;) {
        const char *bar = memchr(value.ptr + start, '|', value.len - start);
        size_t end = bar ? (size_t)(bar - value.ptr) : value.len;
        if (end == start) {
            status = not_of_type(column, value, "a set of members that are not empty", err);
        } else {
            struct esp_str member = {value.ptr + start, end - start};
            status = esp_encode_string(&encoder, member, err);
        }
        start = end + 1;
    }
    if (status == ESP_OK) {
        status = esp_encode_close(&encoder, err);
    }
    *size = encoder.size;
    esp_encoder_fini(&encoder);
    return status;
}

/* A number only when its canonical form is the text itself: "007" and "1.0" stay text. */
static bool put_inferred(struct esp_str value, struct esp_buf *out, uint32_t *size) {
    if (esp_str_eq(value, ESP_STR("true")) || esp_str_eq(value, ESP_STR("false"))) {
        ESP_BUF_LIT(out, "{\"BOOL\":");
        esp_buf_put_str(out, value);
        esp_buf_put_char(out, '}');
        *size += 1;
        return true;
    }
    if (value.ptr[0] != '-' && (value.ptr[0] < '0' || value.ptr[0] > '9')) {
        return false;
    }
    size_t start = out->len;
    uint32_t number_size = 0;
    if (esp_number_put(out, value, &number_size, NULL) != ESP_OK || out->failed ||
        out->len - start != value.len + strlen("{\"N\":\"\"}") ||
        memcmp(out->ptr + start + strlen("{\"N\":\""), value.ptr, value.len) != 0) {
        out->len = start;
        return false;
    }
    *size += number_size;
    return true;
}

/* A value of a column with a type of its own. */
static enum esp_status put_typed(const struct esp_column *column, struct esp_str value,
                                 struct esp_buf *out, uint32_t *size, struct esp_error *err) {
    const char *type = column->type;
    if (strcmp(type, "N") == 0) {
        return esp_number_put(out, value, size, NULL) == ESP_OK
                   ? ESP_OK
                   : not_a_number(column, value, out, err);
    }
    if (strcmp(type, "BOOL") == 0) {
        *size += 1;
        return put_bool(column, value, out, err);
    }
    if (strcmp(type, "NULL") == 0) {
        ESP_BUF_LIT(out, "{\"NULL\":true}");
        *size += 1;
        return is_word(value, "null") || is_word(value, "true")
                   ? ESP_OK
                   : not_of_type(column, value, "null (NULL)", err);
    }
    if (strcmp(type, "B") == 0) {
        return put_base64(column, value, out, size, err);
    }
    if (strcmp(type, "SS") == 0 || strcmp(type, "NS") == 0) {
        return put_set(column, type[0] == 'S' ? ESP_ENCODE_SS : ESP_ENCODE_NS, value, out, size,
                       err);
    }
    return put_json(column, type[0] == 'L' ? ESP_ENCODE_L : ESP_ENCODE_M, value, out, size, err);
}

enum esp_status esp_column_put(const struct esp_column *column, struct esp_str value, bool infer,
                               struct esp_buf *out, uint32_t *size, struct esp_error *err) {
    if (value.len == 0) {
        return ESP_OK;
    }
    if (value.len > 2 * ESP_DATA_BYTES_MAX) {
        return esp_data_check(out, UINT32_MAX, err);
    }
    struct esp_str prefix = {column->json_prefix, column->json_prefix_len};
    *size += (uint32_t)column->name.len;
    bool untyped = column->type[0] == 0;
    if ((untyped && !infer) || (column->type[0] == 'S' && column->type[1] == 0)) {
        esp_string_put(out, prefix, value);
        *size += (uint32_t)value.len;
        return esp_data_check(out, *size, err);
    }
    esp_buf_put_str(out, prefix);
    enum esp_status status = ESP_OK;
    if (!untyped) {
        status = put_typed(column, value, out, size, err);
    } else if (!put_inferred(value, out, size)) {
        esp_string_put(out, ESP_STR(""), value);
        *size += (uint32_t)value.len;
    }
    return status == ESP_OK ? esp_data_check(out, *size, err) : status;
}
