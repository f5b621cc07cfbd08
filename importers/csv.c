/*
 * CSV and TSV, read by libcsv in its strict mode.  Blanks are part of a value, as RFC 4180
 * has it (around the names in the header they are not), blank lines are skipped, an empty
 * cell is an absent attribute.
 *
 * libcsv knows no positions, so it is fed one physical line at a time: a record begins
 * where a line begins, unless a quoted field is still open.  The text of such a record is
 * kept, so that an error can be located by looking at the record once more; the common
 * path keeps nothing.  UTF-8 is checked by the line, which gives the exact byte for free.
 *
 * A line without a quote needs no parser: it is cut at its separators, by the rules libcsv
 * has, in a third of the time.  Everything with a quote or a lone carriage return is libcsv's.
 */
#include "importers/columns.h"
#include "importers/encode.h"

#include <csv.h>
#include <stdio.h>
#include <strings.h>

enum {
    RECORD_BYTES_MAX = 16 << 20, /* of a record with line breaks in quotes */
    COLUMNS_MAX = 4096,
};

struct csv_run {
    const struct esp_source_options *options;
    esp_record_fn *emit;
    void *emit_ctx;
    struct esp_error *err;
    struct csv_parser parser;

    struct esp_arena arena;     /* names and prefixes */
    struct esp_column *columns; /* `count` of them once the header is read */
    size_t count, id_column, parent_column;
    struct esp_str *names; /* of the columns that become attributes, until a record lists them */
    size_t name_count;

    /* The record being read. */
    size_t field; /* fields so far */
    uint32_t size;
    struct esp_buf data, id, parent;
    unsigned rows_in_line; /* that ended in the physical line being fed */

    /* Where we are. */
    struct esp_str text;   /* the physical line being fed */
    uint64_t line, offset; /* of that line */
    uint64_t record_line, record_offset;
    struct esp_buf record; /* the record's earlier lines, when it has any */

    enum esp_status status; /* of the callbacks, which cannot stop libcsv */
    size_t bad_field;       /* that `status` is about */
};

/* --- positions (only when something is wrong) -------------------------------------------- */

/* Where field `index` of the record starts; its end when it has fewer. */
static size_t locate_field(struct esp_str record, char separator, size_t index) {
    bool quoted = false;
    size_t field = 0, i = 0;
    for (; i < record.len && field < index; i++) {
        char c = record.ptr[i];
        if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && c == separator) {
            field++;
        } else if (!quoted && (c == '\n' || c == '\r')) {
            break;
        }
    }
    return i;
}

/* Give the error its place: `at` bytes into the record. */
static enum esp_status place(struct csv_run *run, enum esp_status status, size_t at) {
    struct esp_error *err = run->err;
    if (status == ESP_OK || !err || err->line) {
        return status;
    }
    err->line = run->record_line;
    err->column = at + 1;
    err->byte_offset = run->record_offset + at;
    for (size_t i = 0; i < at && i < run->record.len; i++) {
        if (run->record.ptr[i] == '\n') {
            err->line++;
            err->column = at - i;
        }
    }
    return status;
}

/* The whole record as far as it has been read, in run->record. */
static struct esp_str whole_record(struct csv_run *run) {
    esp_buf_put_str(&run->record, run->text);
    return esp_buf_str(&run->record);
}

static enum esp_status place_field(struct csv_run *run, enum esp_status status, size_t field) {
    struct esp_str record = whole_record(run);
    return place(run, status, locate_field(record, (char)csv_get_delim(&run->parser), field));
}

/* libcsv refused the byte at `at` of the line. */
static enum esp_status fail_quoting(struct csv_run *run, size_t at) {
    if (csv_error(&run->parser) != CSV_EPARSE) {
        return esp_fail_nomem(run->err);
    }
    size_t before = run->record.len;
    struct esp_str record = whole_record(run);
    size_t start = locate_field(record, (char)csv_get_delim(&run->parser), run->field);
    uint64_t start_line = run->record_line;
    for (size_t i = 0; i < start; i++) {
        start_line += record.ptr[i] == '\n';
    }
    enum esp_status status;
    if (!run->parser.quoted) {
        status = esp_fail(run->err, ESP_ERR_INPUT,
                          "a quote in the middle of an unquoted field: put the whole field in "
                          "quotes and double the quotes inside it");
    } else {
        status = esp_fail(run->err, ESP_ERR_INPUT,
                          "text after the closing quote of the field that begins on line %llu: "
                          "quotes inside a quoted field must be doubled",
                          (unsigned long long)start_line);
    }
    return place(run, status, before + at);
}

/* --- header ---------------------------------------------------------------------------- */

static void fail_field(struct csv_run *run, size_t field, enum esp_status status) {
    run->status = status;
    run->bad_field = field;
}

static bool in_second_row(struct csv_run *run) {
    if (run->rows_in_line && run->status == ESP_OK) {
        fail_field(run, SIZE_MAX,
                   esp_fail(run->err, ESP_ERR_INPUT,
                            "a lone carriage return ends a row in the middle of the line: convert "
                            "the file's line ends to LF or CRLF"));
    }
    return run->rows_in_line != 0;
}

static void on_header_field(void *text, size_t len, void *ctx) {
    struct csv_run *run = ctx;
    if (run->status != ESP_OK || in_second_row(run)) {
        return;
    }
    size_t k = run->field++;
    if (k == COLUMNS_MAX) {
        fail_field(
            run, k,
            esp_fail(run->err, ESP_ERR_LIMIT, "the header has more than %d columns", COLUMNS_MAX));
        return;
    }
    if (len == 0) {
        fail_field(run, k,
                   esp_fail(run->err, ESP_ERR_INPUT,
                            "column %zu has no name: name it in the header, or remove it (a "
                            "separator at the end of the line makes one)",
                            k + 1));
        return;
    }
    struct esp_str name = esp_arena_dup(&run->arena, (struct esp_str){text, len});
    for (size_t i = 0; i < k && name.ptr; i++) {
        if (esp_str_eq(run->columns[i].name, name)) {
            fail_field(run, k,
                       esp_fail(run->err, ESP_ERR_INPUT,
                                "columns %zu and %zu are both named '%.*s': rename one of them",
                                i + 1, k + 1, ESP_FMT(name)));
            return;
        }
    }
    fail_field(run, k,
               name.ptr
                   ? esp_column_init(&run->columns[k], &run->arena, name, run->options, run->err)
                   : esp_fail_nomem(run->err));
    run->count = k + 1;
}

/* "id, name, pop": as many as fit into `out`. */
static const char *list_columns(const struct csv_run *run, char out[512]) {
    size_t len = 0;
    out[0] = 0;
    for (size_t i = 0; i < run->count && len < 440; i++) {
        struct esp_str name = run->columns[i].name;
        int room = name.len > 60 ? 60 : (int)name.len;
        len += (size_t)snprintf(out + len, 512 - len, "%s%.*s", i ? ", " : "", room, name.ptr);
    }
    return out;
}

/* The position in `text`, 1-based, or 0 when it is no number. */
static size_t parse_number(const char *text) {
    size_t number = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || number > COLUMNS_MAX) {
            return 0;
        }
        number = number * 10 + (size_t)(*c - '0');
    }
    return number;
}

static enum esp_status find_column(struct csv_run *run, const char *wanted, const char *option,
                                   int (*usual)(struct esp_str name), size_t *out) {
    char list[512];
    if (wanted) {
        for (size_t i = 0; i < run->count; i++) {
            if (esp_str_eq(run->columns[i].name, esp_str_from(wanted))) {
                *out = i;
                return ESP_OK;
            }
        }
        size_t number = parse_number(wanted);
        if (number < 1 || number > run->count) {
            return esp_fail(run->err, ESP_ERR_USAGE,
                            "--%s %.100s: there is no such column; the columns are %s", option,
                            wanted, list_columns(run, list));
        }
        *out = number - 1;
        return ESP_OK;
    }
    int best = 0;
    for (size_t i = 0; i < run->count; i++) {
        int rank = usual(run->columns[i].name);
        if (rank > best) {
            best = rank;
            *out = i;
        }
    }
    return best ? ESP_OK
                : esp_fail(run->err, ESP_ERR_INPUT,
                           "no column looks like the %s; the columns are %s: name one with --%s",
                           strcmp(option, "id") == 0 ? "node's id" : "parent's id",
                           list_columns(run, list), option);
}

/* Every --column names a column, and not the id's or the parent's unless as text. */
static enum esp_status check_column_options(struct csv_run *run) {
    char list[512];
    for (size_t i = 0; i < run->options->column.count; i++) {
        struct esp_str name = esp_column_option_name(run->options->column.value[i]);
        size_t k = 0;
        while (k < run->count && !esp_str_eq(run->columns[k].name, name)) {
            k++;
        }
        if (k == run->count) {
            return esp_fail(run->err, ESP_ERR_USAGE,
                            "--column %.100s: there is no such column; the columns are %s",
                            run->options->column.value[i], list_columns(run, list));
        }
        if ((k == run->id_column || k == run->parent_column) &&
            strcmp(run->columns[k].type, "S") != 0) {
            return esp_fail(run->err, ESP_ERR_USAGE,
                            "--column %.100s: ids are text (S), whatever they look like",
                            run->options->column.value[i]);
        }
    }
    return ESP_OK;
}

static void on_header_row(int terminator, void *ctx) {
    (void)terminator;
    struct csv_run *run = ctx;
    run->rows_in_line++;
    run->field = 0;
}

/* For the first record to say. */
static enum esp_status list_names(struct csv_run *run) {
    run->names = esp_arena_calloc(&run->arena, run->count, sizeof *run->names);
    if (!run->names) {
        return esp_fail_nomem(run->err);
    }
    for (size_t i = 0; i < run->count; i++) {
        if (i != run->id_column && i != run->parent_column) {
            run->names[run->name_count++] = run->columns[i].name;
        }
    }
    return ESP_OK;
}

static enum esp_status finish_header(struct csv_run *run) {
    enum esp_status status =
        find_column(run, run->options->id, "id", esp_usual_id, &run->id_column);
    if (status == ESP_OK) {
        status =
            find_column(run, run->options->parent, "parent", esp_usual_parent, &run->parent_column);
    }
    if (status == ESP_OK && run->id_column == run->parent_column) {
        status = esp_fail(run->err, ESP_ERR_USAGE,
                          "column '%.*s' cannot be the id and the parent's id at once",
                          ESP_FMT(run->columns[run->id_column].name));
    }
    if (status == ESP_OK) {
        status = check_column_options(run);
    }
    return status == ESP_OK ? list_names(run) : status;
}

/* --- rows ------------------------------------------------------------------------------ */

static void on_field(void *text, size_t len, void *ctx) {
    struct csv_run *run = ctx;
    if (run->status != ESP_OK || in_second_row(run)) {
        return;
    }
    size_t k = run->field++;
    if (k >= run->count) {
        return; /* on_row complains */
    }
    struct esp_str value = {text, len};
    if (k == run->id_column || k == run->parent_column) {
        struct esp_buf *to = k == run->id_column ? &run->id : &run->parent;
        if (len > ESP_ID_BYTES_MAX) {
            fail_field(run, k,
                       esp_id_check(value, k == run->id_column ? "id" : "parent's id", run->err));
        }
        esp_buf_put_str(to, value);
        return;
    }
    if (len == 0) {
        return;
    }
    if (run->data.len) {
        esp_buf_put_char(&run->data, ',');
    }
    enum esp_status status = esp_column_put(&run->columns[k], value, run->options->infer,
                                            &run->data, &run->size, run->err);
    if (status != ESP_OK) {
        fail_field(run, k, status);
    }
}

static bool is_blank(struct esp_str text) {
    for (size_t i = 0; i < text.len; i++) {
        if (!strchr(" \t\r\n", text.ptr[i])) {
            return false;
        }
    }
    return true;
}

static void on_row(int terminator, void *ctx) {
    (void)terminator;
    struct csv_run *run = ctx;
    run->rows_in_line++;
    if (run->status != ESP_OK) {
        return;
    }
    struct esp_str id = esp_buf_str(&run->id);
    if (run->id.failed || run->parent.failed) {
        fail_field(run, 0, esp_fail_nomem(run->err));
    } else if (run->field != run->count) {
        fail_field(run, run->field < run->count ? SIZE_MAX : run->count,
                   esp_fail(run->err, ESP_ERR_INPUT,
                            "the row has %zu fields, but the header has %zu columns", run->field,
                            run->count));
    } else if (is_blank(id)) { /* blanks alone name nothing */
        fail_field(run, run->id_column, esp_id_check(ESP_STR(""), "id", run->err));
    } else {
        struct esp_record record = {
            .id = id,
            .parent_id = esp_parent_resolve(id, esp_buf_str(&run->parent), run->options),
            .data = {run->data.ptr, (uint32_t)run->data.len, run->size},
            .line = run->record_line,
            .names_known = true,
            .new_names = run->names,
            .new_name_count = run->name_count,
        };
        run->name_count = 0;
        fail_field(run, 0, run->emit(run->emit_ctx, &record, run->err));
    }
    run->field = 0;
    run->size = 0;
    esp_buf_reset(&run->data);
    esp_buf_reset(&run->id);
    esp_buf_reset(&run->parent);
}

/* --- lines ----------------------------------------------------------------------------- */

static bool has_suffix(const char *name, const char *suffix) {
    size_t a = strlen(name), b = strlen(suffix);
    return a >= b && strcasecmp(name + a - b, suffix) == 0;
}

/* The separator: as told, by the file's name, or the most frequent one of the header. */
static enum esp_status choose_separator(const struct csv_run *run, const char *name,
                                        unsigned char *out) {
    const char *told = run->options->separator;
    if (told) {
        bool tab = strcmp(told, "\\t") == 0 || strcasecmp(told, "tab") == 0;
        if (!tab && (strlen(told) != 1 || strchr("\"\r\n", told[0]) || (told[0] & 0x80))) {
            return esp_fail(run->err, ESP_ERR_USAGE,
                            "--separator %.20s: a separator is one ASCII character, not a quote or "
                            "a line end",
                            told);
        }
        *out = tab ? '\t' : (unsigned char)told[0];
        return ESP_OK;
    }
    if ((run->options->from && strcmp(run->options->from, "tsv") == 0) ||
        has_suffix(name, ".tsv") || has_suffix(name, ".tsv.gz") || has_suffix(name, ".tsv.zst")) {
        *out = '\t';
        return ESP_OK;
    }
    static const char known[] = {',', ';', '\t'};
    size_t seen[3] = {0};
    bool quoted = false;
    for (size_t i = 0; i < run->text.len; i++) {
        quoted ^= run->text.ptr[i] == '"';
        for (int k = 0; !quoted && k < 3; k++) {
            seen[k] += run->text.ptr[i] == known[k];
        }
    }
    int best = seen[1] > seen[0];
    *out = (unsigned char)known[seen[2] > seen[best] ? 2 : best];
    return ESP_OK;
}

/* NUL and invalid UTF-8 are nowhere allowed. */
static enum esp_status check_text(struct csv_run *run) {
    struct esp_utf8 utf8 = ESP_UTF8_INIT;
    int64_t bad = 0;
    if (esp_utf8_check(&utf8, run->text, &bad)) {
        if (utf8.need == 0) {
            return ESP_OK;
        }
        bad = (int64_t)run->text.len - utf8.seen; /* the file ends within a character */
    }
    enum esp_status status =
        utf8.lead == 0
            ? esp_fail(run->err, ESP_ERR_INPUT, "a NUL byte: is this a text file")
            : esp_fail(run->err, ESP_ERR_INPUT,
                       "invalid UTF-8 (byte 0x%02x): convert the file to UTF-8", utf8.lead);
    return place(run, status, run->record.len + (size_t)bad);
}

/* What a callback, or libcsv itself, found wrong with the line just fed. */
static enum esp_status check_parsed(struct csv_run *run, size_t parsed) {
    if (run->status == ESP_OK && parsed != run->text.len) {
        return fail_quoting(run, parsed);
    }
    if (run->status != ESP_OK && run->bad_field == SIZE_MAX) {
        /* About the end of the row: where the line, less its end, is over. */
        size_t end = run->text.len;
        const char *cr = memchr(run->text.ptr, '\r', end);
        while (end && (run->text.ptr[end - 1] == '\n' || run->text.ptr[end - 1] == '\r')) {
            end--;
        }
        if (run->rows_in_line && cr && (size_t)(cr - run->text.ptr) < end) {
            end = (size_t)(cr - run->text.ptr);
        }
        size_t before = run->record.len;
        whole_record(run);
        return place(run, run->status, before + end);
    }
    return run->status == ESP_OK ? ESP_OK : place_field(run, run->status, run->bad_field);
}

/* A quoted field goes on in the next line: keep this one. */
static enum esp_status keep_line(struct csv_run *run) {
    if (run->record.len + run->text.len > RECORD_BYTES_MAX) {
        enum esp_status status =
            esp_fail(run->err, ESP_ERR_LIMIT,
                     "the quoted field that begins here does not end within %d MiB: is its closing "
                     "quote missing",
                     RECORD_BYTES_MAX >> 20);
        run->text.len = 0;
        return place_field(run, status, run->field);
    }
    esp_buf_put_str(&run->record, run->text);
    return run->record.failed ? esp_fail_nomem(run->err) : ESP_OK;
}

static bool is_padding(char c, char separator) {
    return (c == ' ' || c == '\t') && c != separator;
}

/* The line as a whole row, when nothing in it needs libcsv; false when something does. */
static bool split_plain(struct csv_run *run) {
    char separator = (char)csv_get_delim(&run->parser);
    const char *at = run->text.ptr, *end = at + run->text.len;
    if (run->parser.pstate || memchr(at, '"', run->text.len)) {
        return false;
    }
    end -= end > at && end[-1] == '\n';
    end -= end > at && end[-1] == '\r';
    if (memchr(at, '\r', (size_t)(end - at))) {
        return false;
    }
    const char *text = at;
    while (text < end && is_padding(*text, separator)) {
        text++;
    }
    if (text == end) {
        return true; /* a blank line */
    }
    for (bool more = true; more;) {
        const char *stop = memchr(at, separator, (size_t)(end - at));
        more = stop != NULL;
        stop = more ? stop : end;
        on_field((void *)(uintptr_t)at, (size_t)(stop - at), run); /* which only reads */
        at = stop + more;
    }
    on_row('\n', run);
    return true;
}

/* libcsv cuts what this calls a blank off a value's ends. */
static int never_a_blank(unsigned char c) {
    (void)c;
    return 0;
}

/* Feed the line in run->text. */
static enum esp_status feed_line(struct csv_run *run, bool *header_done) {
    enum esp_status status = check_text(run);
    if (status != ESP_OK) {
        return status;
    }
    run->rows_in_line = 0;
    size_t parsed = run->text.len;
    if (!*header_done || !split_plain(run)) {
        parsed = csv_parse(&run->parser, run->text.ptr, run->text.len,
                           *header_done ? on_field : on_header_field,
                           *header_done ? on_row : on_header_row, run);
    }
    if (run->status != ESP_OK || parsed != run->text.len) {
        return check_parsed(run, parsed);
    }
    if (run->rows_in_line) {
        esp_buf_reset(&run->record);
        if (!*header_done) {
            *header_done = true;
            csv_set_space_func(&run->parser, never_a_blank);
            return place(run, finish_header(run), 0);
        }
        return ESP_OK;
    }
    /* Within quotes, or a blank line, or a last line without its end. */
    return run->parser.pstate ? keep_line(run) : ESP_OK;
}

/* The end of the input may end a row, or reveal a quote that is still open. */
static enum esp_status finish(struct csv_run *run, bool *header_done) {
    run->text = (struct esp_str){NULL, 0};
    run->rows_in_line = 0;
    if (csv_fini(&run->parser, *header_done ? on_field : on_header_field,
                 *header_done ? on_row : on_header_row, run) != 0) {
        return place_field(run,
                           esp_fail(run->err, ESP_ERR_INPUT,
                                    "the quoted field that begins here is not closed before the "
                                    "end of the file"),
                           run->field);
    }
    if (run->status != ESP_OK) {
        return run->bad_field == SIZE_MAX ? place(run, run->status, run->record.len)
                                          : place_field(run, run->status, run->bad_field);
    }
    if (!*header_done && run->rows_in_line) {
        return place(run, finish_header(run), 0);
    }
    return run->count
               ? ESP_OK
               : esp_fail(run->err, ESP_ERR_INPUT,
                          "the file is empty: a header with the columns' names was expected");
}

static enum esp_status read_lines(struct csv_run *run, struct esp_reader *in) {
    bool header_done = false, separator_known = false;
    for (;;) {
        enum esp_status status = esp_reader_line(in, &run->text, run->err);
        if (status != ESP_OK) {
            return status;
        }
        if (run->text.len == 0) {
            return finish(run, &header_done);
        }
        size_t whole_len = run->text.len;
        if (run->line++ == 0 && run->text.len >= 3 &&
            memcmp(run->text.ptr, "\xef\xbb\xbf", 3) == 0) {
            run->text.ptr += 3;
            run->text.len -= 3;
            run->offset = 3;
        }
        if (run->record.len == 0) {
            run->record_line = run->line;
            run->record_offset = run->offset;
        }
        if (!separator_known && !is_blank(run->text)) {
            unsigned char separator = 0;
            status = choose_separator(run, esp_reader_name(in), &separator);
            if (status != ESP_OK) {
                return status;
            }
            csv_set_delim(&run->parser, separator);
            separator_known = true;
        }
        status = feed_line(run, &header_done);
        if (status != ESP_OK) {
            return status;
        }
        run->offset = run->line == 1 ? whole_len : run->offset + whole_len;
    }
}

static enum esp_status run_csv(struct esp_reader *in, const struct esp_source_options *options,
                               const struct esp_alloc *alloc, esp_record_fn *emit, void *ctx,
                               struct esp_error *err) {
    enum esp_status status = esp_column_options_check(options, err);
    if (status != ESP_OK) {
        return status;
    }
    struct csv_run run = {.options = options, .emit = emit, .emit_ctx = ctx, .err = err};
    if (csv_init(&run.parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        return esp_fail_nomem(err);
    }
    csv_set_blk_size(&run.parser, 64 << 10);
    esp_arena_init(&run.arena, alloc, SIZE_MAX);
    esp_buf_init(&run.data, alloc, ESP_DATA_TEXT_MAX);
    esp_buf_init(&run.id, alloc, 2 * ESP_ID_BYTES_MAX);
    esp_buf_init(&run.parent, alloc, 2 * ESP_ID_BYTES_MAX);
    esp_buf_init(&run.record, alloc, RECORD_BYTES_MAX + (size_t)ESP_LINE_BYTES_MAX);
    run.columns = esp_arena_calloc(&run.arena, COLUMNS_MAX, sizeof *run.columns);
    status = run.columns ? read_lines(&run, in) : esp_fail_nomem(err);
    esp_buf_fini(&run.record);
    esp_buf_fini(&run.parent);
    esp_buf_fini(&run.id);
    esp_buf_fini(&run.data);
    esp_arena_fini(&run.arena);
    csv_free(&run.parser);
    return status;
}

/* Any text might be CSV: the other formats say when it is theirs. */
static int sniff(struct esp_str head) {
    const char *end = memchr(head.ptr, '\n', head.len);
    struct esp_str line = {head.ptr, end ? (size_t)(end - head.ptr) : head.len};
    size_t separators = 0;
    for (size_t i = 0; i < line.len; i++) {
        unsigned char c = (unsigned char)line.ptr[i];
        if (c < 0x20 && c != '\t' && c != '\r') {
            return 0;
        }
        separators += c == ',' || c == ';' || c == '\t';
    }
    return separators ? 50 : 20;
}

static const char *const extensions[] = {"csv", "tsv", NULL};
const struct esp_importer esp_importer_csv = {
    .name = "csv",
    .summary = "comma, semicolon or tab separated, with a header: a row a node",
    .extensions = extensions,
    .sniff = sniff,
    .run = run_csv,
};
