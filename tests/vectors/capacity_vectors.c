/*
 * Runs capacity vectors through the memory store and compares what the meter says with
 * expect.service of each.  One line a vector that fails, and a sum; 1 when any failed.
 *
 *   capacity_vectors [FILE ...]     default: tests/vectors/capacity-vectors.json
 */
#include "tests/vectors/expand.h"
#include "tests/vectors/step.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char default_file[] = "tests/vectors/capacity-vectors.json";
enum { STEP_BYTES_MAX = 256 << 20 };

struct totals {
    unsigned passed, failed;
};

static bool problem(struct vector_run *run, const char *fmt, ...) ESP_PRINTF(2, 3);
static bool problem(struct vector_run *run, const char *fmt, ...) {
    va_list arguments;
    va_start(arguments, fmt);
    vsnprintf(run->problem, sizeof run->problem, fmt, arguments);
    va_end(arguments);
    return false;
}

/* --- steps -------------------------------------------------------------------------- */

static bool do_step(struct vector_run *run, json_t *step, int i) {
    json_t *request = esp_vector_expand(json_object_get(step, "request"), i);
    bool ok = vector_do(run, json_string_value(json_object_get(step, "op")), request);
    json_decref(request);
    return ok;
}

static bool set_up(struct vector_run *run, json_t *steps) {
    for (size_t i = 0; i < json_array_size(steps); i++) {
        json_t *step = json_array_get(steps, i), *times = json_object_get(step, "times");
        int n = times ? (int)json_integer_value(times) : 1;
        for (int k = 0; k < n; k++) {
            if (!do_step(run, step, times ? k : -1)) {
                return false;
            }
        }
    }
    return true;
}

/* --- comparing ------------------------------------------------------------------------ */

static double units_since(const struct vector_table *t, int index, bool read) {
    const struct esp_usage *now = &t->session->usage, *then = &t->before;
    const struct esp_units *a = read ? &now->read : &now->write;
    const struct esp_units *b = read ? &then->read : &then->write;
    return index < 0 ? a->table - b->table : a->index[index] - b->index[index];
}

static double total_since(const struct vector_table *t, bool read) {
    double sum = units_since(t, -1, read);
    for (size_t i = 0; i < t->schema.index_count; i++) {
        sum += units_since(t, (int)i, read);
    }
    return sum;
}

static bool same(struct vector_run *run, const char *what, json_t *expected, double got) {
    if (expected && json_number_value(expected) != got) {
        return problem(run, "%s: %g, expected %g", what, got, json_number_value(expected));
    }
    return true;
}

/* The three figures of an object: of the table (index -1), an index, or all (-2). */
static bool same_figures(struct vector_run *run, const struct vector_table *t, const char *what,
                         json_t *expected, int index) {
    double read = index == -2 ? total_since(t, true) : units_since(t, index, true);
    double write = index == -2 ? total_since(t, false) : units_since(t, index, false);
    return same(run, what, json_object_get(expected, "CapacityUnits"), read + write) &&
           same(run, what, json_object_get(expected, "ReadCapacityUnits"), read) &&
           same(run, what, json_object_get(expected, "WriteCapacityUnits"), write);
}

static bool same_indexes(struct vector_run *run, const struct vector_table *t, json_t *expected) {
    for (size_t i = 0; i < t->schema.index_count; i++) {
        const struct esp_index *index = &t->schema.index[i];
        const char *map = index->local ? "LocalSecondaryIndexes" : "GlobalSecondaryIndexes";
        char name[256];
        snprintf(name, sizeof name, "%.*s", ESP_FMT(index->name));
        json_t *arm = json_object_get(json_object_get(expected, map), name);
        double got = units_since(t, (int)i, true) + units_since(t, (int)i, false);
        if (!arm && got != 0) {
            return problem(run, "index %s: %g, expected no arm", name, got);
        }
        if (arm && !same_figures(run, t, name, arm, (int)i)) {
            return false;
        }
    }
    return true;
}

static bool same_table(struct vector_run *run, const struct vector_table *t, json_t *expected) {
    if (!expected) {
        double got = total_since(t, true) + total_since(t, false);
        return got == 0 || problem(run, "table %s: %g, expected nothing", t->name, got);
    }
    json_t *arm = json_object_get(expected, "Table"); /* present: the arms are listed */
    return same_figures(run, t, "total", expected, -2) &&
           (!arm || (same_figures(run, t, "table", arm, -1) && same_indexes(run, t, expected)));
}

static json_t *expected_for(json_t *expected, const struct vector_table *t, bool only_table) {
    if (json_is_object(expected)) {
        return only_table ? expected : NULL;
    }
    for (size_t i = 0; i < json_array_size(expected); i++) {
        json_t *one = json_array_get(expected, i);
        if (strcmp(json_string_value(json_object_get(one, "TableName")), t->name) == 0) {
            return one;
        }
    }
    return NULL;
}

/* Bytes that writes left behind, where the vector has them. */
static bool same_sizes(struct vector_run *run, json_t *vector) {
    json_t *sizes = json_object_get(vector, "sizes");
    uint64_t expected = 0, got = 0;
    if (strncmp(json_string_value(json_object_get(vector, "op")), "Transact", 8) == 0 ||
        !json_object_get(json_array_get(sizes, 0), "after")) {
        return true;
    }
    for (size_t i = 0; i < json_array_size(sizes); i++) {
        expected +=
            (uint64_t)json_integer_value(json_object_get(json_array_get(sizes, i), "after"));
    }
    for (size_t i = 0; i < run->table_count; i++) {
        got += run->table[i].session->usage.bytes_written - run->table[i].before.bytes_written;
    }
    return got == expected || problem(run, "%llu bytes written, expected %llu",
                                      (unsigned long long)got, (unsigned long long)expected);
}

static bool same_counts(struct vector_run *run, json_t *vector) {
    json_t *count = json_object_get(vector, "count"), *scanned = json_object_get(vector, "scanned");
    json_t *more = json_object_get(vector, "more");
    uint64_t read = 0;
    for (size_t i = 0; i < run->table_count; i++) {
        read += run->table[i].session->usage.items_read - run->table[i].before.items_read;
    }
    return same(run, "items returned", count, (double)run->returned) &&
           same(run, "items evaluated", scanned, (double)read) &&
           (!more || run->more == json_is_true(more) ||
            problem(run, "a LastEvaluatedKey was %sexpected", run->more ? "not " : ""));
}

static bool compare(struct vector_run *run, json_t *vector) {
    json_t *expected = json_object_get(json_object_get(vector, "expect"), "service");
    for (size_t i = 0; i < run->table_count; i++) {
        /* an object is about the one table that it names, or the first */
        const char *name = json_string_value(json_object_get(expected, "TableName"));
        bool only_table = name ? strcmp(name, run->table[i].name) == 0 : i == 0;
        if (!same_table(run, &run->table[i], expected_for(expected, &run->table[i], only_table))) {
            return false;
        }
    }
    return same_counts(run, vector) && same_sizes(run, vector);
}

/* --- vectors -------------------------------------------------------------------------- */

static bool run_steps(struct vector_run *run, json_t *vector) {
    json_t *expected = json_object_get(json_object_get(vector, "expect"), "service");
    if (!expected) {
        return problem(run, "the vector has no expect.service");
    }
    if (!vector_open_tables(run, json_object_get(vector, "tables")) ||
        !set_up(run, json_object_get(vector, "setup"))) {
        return false;
    }
    for (size_t i = 0; i < run->table_count; i++) {
        run->table[i].before = run->table[i].session->usage;
    }
    bool done = do_step(run, vector, -1);
    if (json_object_get(expected, "error")) {
        return (!done && run->refused) || problem(run, "was expected to be refused");
    }
    return done && compare(run, vector);
}

static bool run_vector(json_t *vector, char problem_text[512]) {
    struct vector_run *run = calloc(1, sizeof *run);
    struct esp_error err = ESP_ERROR_INIT;
    bool ok = false;
    if (!run) {
        return false;
    }
    esp_arena_init(&run->arena, &esp_alloc_libc, STEP_BYTES_MAX);
    if (esp_store_open("memory:", NULL, &esp_clock_system, &esp_alloc_libc, &run->store, &err) ==
        ESP_OK) {
        ok = run_steps(run, vector);
        vector_close_tables(run);
        esp_store_close(run->store);
    } else {
        problem(run, "%s", err.message);
    }
    memcpy(problem_text, run->problem, sizeof run->problem);
    esp_arena_fini(&run->arena);
    free(run);
    return ok;
}

static bool run_file(const char *path, struct totals *totals) {
    json_error_t error;
    json_t *file = json_load_file(path, JSON_ALLOW_NUL, &error);
    json_t *vectors = json_object_get(file, "vectors");
    if (!json_is_array(vectors)) {
        fprintf(stderr, "%s: %s\n", path, file ? "no vectors" : error.text);
        json_decref(file);
        return false;
    }
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        json_t *vector = json_array_get(vectors, i);
        char text[512] = "";
        if (run_vector(vector, text)) {
            totals->passed++;
            continue;
        }
        totals->failed++;
        printf("%s: %s (%s)\n", json_string_value(json_object_get(vector, "id")), text,
               json_string_value(json_object_get(vector, "about")));
    }
    json_decref(file);
    return true;
}

int main(int argc, char **argv) {
    struct totals totals = {0, 0};
    bool read = true;
    for (int i = 1; i < argc; i++) {
        read = run_file(argv[i], &totals) && read;
    }
    if (argc < 2) {
        read = run_file(default_file, &totals);
    }
    printf("%u passed, %u failed\n", totals.passed, totals.failed);
    return read && totals.failed == 0 ? 0 : 1;
}
