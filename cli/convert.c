/*
 * espalier convert: items as text, without a store.
 *
 * Two threads convert ranges of nodes into slots; the main thread writes the slots in tree
 * order.  Slot k % SLOTS belongs to task k from the moment the main thread has written task
 * k - SLOTS until it has written task k; `ready` and `written` say whose turn it is and are
 * protected by the lock.  Everything else a worker touches is immutable or its own.
 */
#include "bench/text.h"
#include "cli/edges.h"
#include "cli/output.h"
#include "cli/rows.h"
#include "cli/shared.h"

#include <pthread.h>

enum {
    NODES_PER_TASK = 2048,
    SLOTS = 8,
    WORKERS = 2,
    SLOT_BYTES_MAX = 1 << 30,
    SCRATCH_BYTES_MAX = 1 << 30,
    TABLE_BYTES_MAX = 64 << 20,
    TABLE_COLUMNS_MAX = 12, /* more do not fit a screen */
};

enum format { FORMAT_JSON, FORMAT_CSV, FORMAT_TABLE };

struct convert_options {
    struct esp_cli_options shared;
    const char *output;
    int format;
    uint64_t limit;
};

struct slot {
    struct esp_buf text;
    enum esp_status status;
    bool ready; /* converted, not yet written */
};

struct conversion {
    struct esp_cli *cli;
    const struct convert_options *options;
    struct esp_layout layout;
    struct esp_forest *forest;
    struct esp_rows rows; /* csv, table */
    struct slot slot[SLOTS];
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t tasks, next, written;
    bool stop;
};

/* One worker's own. */
struct converter {
    struct conversion *job;
    struct esp_buf *out; /* of the task in hand */
    struct esp_arena scratch, cells;
    struct esp_buf cell;
};

/* --- items to text --------------------------------------------------------------------------- */

static void put_json(struct converter *c, const struct esp_item *item) {
    ESP_BUF_LIT(c->out, "{\"Item\":{");
    esp_item_put_json(c->out, &c->job->layout.schema, item);
    ESP_BUF_LIT(c->out, "}}\n");
}

static void put_csv(struct converter *c, const struct esp_item *item) {
    const struct esp_rows *rows = &c->job->rows;
    for (size_t i = 0; i < esp_rows_width(rows); i++) {
        if (i > 0) {
            esp_buf_put_char(c->out, ',');
        }
        esp_buf_reset(&c->cell);
        esp_rows_put_cell(rows, item, i, &c->cells, &c->cell);
        c->out->failed = c->out->failed || c->cell.failed;
        esp_csv_put_cell(c->out, esp_buf_str(&c->cell));
    }
    esp_buf_put_char(c->out, '\n');
    esp_arena_reset(&c->cells);
}

static enum esp_status put_item(void *ctx, const struct esp_item *item) {
    struct converter *c = ctx;
    if (c->job->options->format == FORMAT_JSON) {
        put_json(c, item);
    } else {
        put_csv(c, item);
    }
    return c->out->failed ? ESP_ERR_NOMEM : ESP_OK;
}

/* --- in the workers' threads ------------------------------------------------------------------ */

/* The next task whose slot is free; false when there is none left. */
static bool take_task(struct conversion *job, uint64_t *task) {
    pthread_mutex_lock(&job->lock);
    while (!job->stop && job->next < job->tasks && job->next >= job->written + SLOTS) {
        pthread_cond_wait(&job->changed, &job->lock);
    }
    bool taken = !job->stop && job->next < job->tasks;
    if (taken) {
        *task = job->next++;
    }
    pthread_mutex_unlock(&job->lock);
    return taken;
}

static void *convert_tasks(void *arg) {
    struct converter *c = arg;
    struct conversion *job = c->job;
    for (uint64_t task; take_task(job, &task);) {
        struct slot *slot = &job->slot[task % SLOTS];
        uint64_t first = task * NODES_PER_TASK, left = job->forest->count - first;
        uint32_t n = left < NODES_PER_TASK ? (uint32_t)left : NODES_PER_TASK;
        esp_buf_reset(&slot->text);
        c->out = &slot->text;
        enum esp_status status = job->layout.ops->emit(&job->layout, job->forest, (esp_node)first,
                                                       n, &c->scratch, put_item, c);
        esp_arena_reset(&c->scratch);
        pthread_mutex_lock(&job->lock);
        slot->status = status;
        slot->ready = true;
        pthread_cond_broadcast(&job->changed);
        pthread_mutex_unlock(&job->lock);
    }
    return NULL;
}

/* --- in the main thread ------------------------------------------------------------------------
 */

static enum esp_status write_slots(struct conversion *job, struct esp_output *output) {
    enum esp_status status = ESP_OK;
    for (uint64_t task = 0; status == ESP_OK && task < job->tasks; task++) {
        struct slot *slot = &job->slot[task % SLOTS];
        pthread_mutex_lock(&job->lock);
        while (!slot->ready) {
            pthread_cond_wait(&job->changed, &job->lock);
        }
        pthread_mutex_unlock(&job->lock);
        status = slot->status;
        if (status == ESP_OK) {
            status = esp_output_write(output, esp_buf_str(&slot->text));
        } else {
            esp_fail(&job->cli->err, status, "the conversion failed: %s", esp_status_text(status));
        }
        pthread_mutex_lock(&job->lock);
        slot->ready = false;
        job->written = task + 1;
        job->stop = status != ESP_OK;
        pthread_cond_broadcast(&job->changed);
        pthread_mutex_unlock(&job->lock);
    }
    return status;
}

static void converter_init(struct converter *c, struct conversion *job) {
    c->job = job;
    esp_arena_init(&c->scratch, job->cli->alloc, SCRATCH_BYTES_MAX);
    esp_arena_init(&c->cells, job->cli->alloc, SCRATCH_BYTES_MAX);
    esp_buf_init(&c->cell, job->cli->alloc, SLOT_BYTES_MAX);
}

static void converter_fini(struct converter *c) {
    esp_buf_fini(&c->cell);
    esp_arena_fini(&c->cells);
    esp_arena_fini(&c->scratch);
}

static enum esp_status run_workers(struct conversion *job, struct esp_output *output) {
    struct converter worker[WORKERS];
    pthread_t thread[WORKERS];
    size_t started = 0;
    int failure = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        converter_init(&worker[i], job);
        failure = pthread_create(&thread[started], NULL, convert_tasks, &worker[i]);
        started += failure == 0;
    }
    enum esp_status status = started ? write_slots(job, output)
                                     : esp_fail(&job->cli->err, ESP_ERR_NOMEM,
                                                "no thread can be started: %s", strerror(failure));
    for (size_t i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        converter_fini(&worker[i]);
    }
    return status;
}

static enum esp_status write_heading(struct conversion *job, struct esp_output *output) {
    struct esp_buf line;
    esp_buf_init(&line, job->cli->alloc, TABLE_BYTES_MAX);
    for (size_t i = 0; i < esp_rows_width(&job->rows); i++) {
        if (i > 0) {
            esp_buf_put_char(&line, ',');
        }
        esp_csv_put_cell(&line, esp_rows_name(&job->rows, i));
    }
    esp_buf_put_char(&line, '\n');
    enum esp_status status =
        line.failed ? esp_fail_nomem(&job->cli->err) : esp_output_write(output, esp_buf_str(&line));
    esp_buf_fini(&line);
    return status;
}

static enum esp_status write_stream(struct conversion *job, struct esp_output *output) {
    job->tasks = (job->forest->count + (uint64_t)NODES_PER_TASK - 1) / NODES_PER_TASK;
    pthread_mutex_init(&job->lock, NULL);
    pthread_cond_init(&job->changed, NULL);
    for (size_t i = 0; i < SLOTS; i++) {
        esp_buf_init(&job->slot[i].text, job->cli->alloc, SLOT_BYTES_MAX);
    }
    enum esp_status status =
        job->options->format == FORMAT_CSV ? write_heading(job, output) : ESP_OK;
    if (status == ESP_OK) {
        status = run_workers(job, output);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        esp_buf_fini(&job->slot[i].text);
    }
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    return status;
}

/* --- the table for people ----------------------------------------------------------------------
 */

struct table {
    struct converter *converter;
    struct esp_grid grid;
    uint64_t rows, limit;
};

static enum esp_status put_row(void *ctx, const struct esp_item *item) {
    struct table *t = ctx;
    struct converter *c = t->converter;
    if (t->rows++ == t->limit) {
        return ESP_STOP;
    }
    for (size_t i = 0; i < t->grid.columns; i++) {
        esp_buf_reset(&c->cell);
        esp_rows_put_cell(&c->job->rows, item, i, &c->cells, &c->cell);
        esp_grid_add(&t->grid, false, "%.*s", ESP_FMT(esp_buf_str(&c->cell)));
    }
    esp_arena_reset(&c->cells);
    return ESP_OK;
}

static enum esp_status write_table(struct conversion *job, struct esp_output *output) {
    struct converter c;
    struct esp_buf text;
    size_t width = esp_rows_width(&job->rows);
    struct table t = {.converter = &c, .limit = job->options->limit};
    converter_init(&c, job);
    esp_buf_init(&text, job->cli->alloc, TABLE_BYTES_MAX);
    width = width < TABLE_COLUMNS_MAX ? width : TABLE_COLUMNS_MAX;
    esp_grid_init(&t.grid, job->cli->alloc, width, width);
    for (size_t i = 0; i < width; i++) {
        esp_grid_add(&t.grid, false, "%.*s", ESP_FMT(esp_rows_name(&job->rows, i)));
    }
    enum esp_status status = ESP_OK;
    for (uint64_t first = 0; status == ESP_OK && first < job->forest->count;
         first += NODES_PER_TASK) {
        uint64_t left = job->forest->count - first;
        status = job->layout.ops->emit(&job->layout, job->forest, (esp_node)first,
                                       left < NODES_PER_TASK ? (uint32_t)left : NODES_PER_TASK,
                                       &c.scratch, put_row, &t);
        esp_arena_reset(&c.scratch);
    }
    bool cut = status == ESP_STOP;
    if (status == ESP_OK || cut) {
        esp_grid_put_text(&t.grid, &text);
        if (cut) {
            esp_buf_printf(&text, "... %llu rows of %llu; --limit N shows more\n",
                           (unsigned long long)t.limit,
                           (unsigned long long)job->layout.ops->item_count(
                               &job->layout, job->forest, 0, job->forest->count));
        }
        status = text.failed ? esp_fail_nomem(&job->cli->err)
                             : esp_output_write(output, esp_buf_str(&text));
    }
    esp_grid_fini(&t.grid);
    esp_buf_fini(&text);
    converter_fini(&c);
    return status;
}

/* --- the command
 * ---------------------------------------------------------------------------------- */

static enum esp_status convert(struct conversion *job) {
    const struct convert_options *o = job->options;
    struct esp_output output;
    enum esp_status status = ESP_OK;
    if (o->format != FORMAT_JSON) {
        status = esp_rows_init(&job->rows, &job->layout.schema, job->forest, job->cli->alloc,
                               &job->cli->err);
    }
    if (status == ESP_OK) {
        status = esp_output_open(job->cli, o->output, &output);
    }
    if (status == ESP_OK) {
        status = o->format == FORMAT_TABLE ? write_table(job, &output) : write_stream(job, &output);
        status = esp_output_close(&output, status);
    }
    if (o->format != FORMAT_JSON) {
        esp_rows_fini(&job->rows);
    }
    return status;
}

static enum esp_status run(struct esp_cli *cli, void *options, char **operands, size_t count) {
    struct conversion *job = esp_calloc(cli->alloc, 1, sizeof *job);
    if (!job) {
        return esp_fail_nomem(&cli->err);
    }
    job->cli = cli;
    job->options = options;
    const struct esp_cli_options *shared = &job->options->shared;
    enum esp_status status = esp_cli_layout_open(cli, shared->layout, &shared->set, &job->layout);
    if (status == ESP_OK) {
        status = esp_cli_read_source(cli, shared, operands, count, &job->forest, NULL);
    }
    if (status == ESP_OK) {
        status = esp_cli_validate(cli, &job->layout, job->forest, operands, count);
    }
    if (status == ESP_OK) {
        status = convert(job);
    }
    esp_forest_free(job->forest);
    esp_release(cli->alloc, job, sizeof *job);
    return status;
}

static const char *const format_names[] = {"dynamodb-json", "csv", "table", NULL};

#define OWN(field, kind, flag, argument_text, fallback_text, names, help_text)                     \
    {                                                                                              \
        .name = flag, .type = kind, .offset = offsetof(struct convert_options, field),             \
        .argument = argument_text, .fallback = fallback_text, .choices = names, .help = help_text  \
    }
static const struct esp_option own_options[] = {
    OWN(output, ESP_OPT_STRING, "output", "FILE", "-", NULL, "where to; - is stdout"),
    OWN(format, ESP_OPT_CHOICE, "format", "FORMAT", "dynamodb-json", format_names,
        "of the items, one a line"),
    OWN(limit, ESP_OPT_U64, "limit", "N", "50", NULL, "rows of --format table"),
    {.name = NULL}};
static const struct esp_option *const tables[] = {
    esp_cli_layout_options, own_options, esp_source_option_table, esp_cli_edges_option, NULL};

const struct esp_command esp_command_convert = {
    .name = "convert",
    .summary = "print the items a tree becomes, without a store",
    .operands = "SOURCE...",
    .required = "--layout LAYOUT",
    .details = "Items come in tree order. A file appears under its name only when it is whole.\n",
    .example = "  espalier convert datasets/drives.csv --layout replica --format table\n"
               "  espalier convert datasets/world.csv --layout path --output items.json\n",
    .options = tables,
    .options_size = sizeof(struct convert_options),
    .operand_min = 1,
    .operand_max = ESP_OPERANDS_ANY,
    .run = run,
};
