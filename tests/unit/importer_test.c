#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "importers/importer.h"
#include "tests/support/support.h"

static const char *chosen(const char *name, struct esp_str text, const char *from) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_source_options options = {.from = from};
    const struct esp_importer *importer = NULL;
    struct esp_reader *in;
    assert_ok(esp_reader_open_memory(text, name, &esp_alloc_libc, &in, &err), &err);
    enum esp_status status = esp_importer_choose(in, &options, &importer, &err);
    esp_reader_close(in);
    return status == ESP_OK ? importer->name : esp_status_name(status);
}

static void formats_are_recognised(void **state) {
    (void)state;
    struct esp_str object = ESP_STR("{\"id\":1}"), two = ESP_STR("{\"id\":1}\n{\"id\":2}\n");
    assert_string_equal(chosen("x", ESP_STR("id,parent\n"), NULL), "csv");
    assert_string_equal(chosen("x", ESP_STR("\xef\xbb\xbfid;parent\n"), NULL), "csv");
    assert_string_equal(chosen("x.tsv", ESP_STR("id\tparent\n"), NULL), "csv");
    assert_string_equal(chosen("x", ESP_STR(" [\n"), NULL), "json");
    assert_string_equal(chosen("x", ESP_STR("\xef\xbb\xbf{\n"), NULL), "json");
    assert_string_equal(chosen("x", object, NULL), "json");
    assert_string_equal(chosen("x.jsonl", object, NULL), "jsonl");
    assert_string_equal(chosen("x.NDJSON.gz", object, NULL), "jsonl");
    assert_string_equal(chosen("x", two, NULL), "jsonl");
    assert_string_equal(chosen("x.json", two, NULL), "json");
    /* Braces in strings count for nothing. */
    assert_string_equal(chosen("x", ESP_STR("{\"id\":\"\\\"{\"}\n{}"), NULL), "jsonl");
    assert_string_equal(chosen("x", ESP_STR("\x01\x02\x03"), NULL), "ERR_INPUT");
    assert_string_equal(chosen("x", ESP_STR(""), NULL), "ERR_INPUT");
    assert_string_equal(chosen("x.json", ESP_STR("id,parent\n"), "tsv"), "csv");
    assert_string_equal(chosen("x", object, "xml"), "ERR_USAGE");
}

static void registry(void **state) {
    (void)state;
    size_t count = 0;
    for (; esp_importers[count]; count++) {
        const struct esp_importer *importer = esp_importers[count];
        assert_ptr_equal(esp_importer_find(importer->name), importer);
        assert_non_null(importer->summary);
        assert_non_null(importer->extensions[0]);
    }
    assert_int_equal(count, 3);
    assert_null(esp_importer_find("xml"));
}

static enum esp_status import_list(const char *const *paths, size_t count,
                                   struct esp_forest **forest, uint64_t *rows,
                                   struct esp_error *err) {
    static const struct esp_source_options options = {.from = NULL};
    uint64_t line_starts[8];
    *err = (struct esp_error)ESP_ERROR_INIT;
    assert_true(count <= 8);
    return esp_import_files(paths, count, &options, &esp_alloc_libc, forest, rows, line_starts,
                            err);
}

static void data_sets(void **state) {
    (void)state;
    static const struct {
        const char *path;
        uint32_t count, depth_max;
    } sets[] = {{"datasets/world.csv", 5333, 5}, {"datasets/animals.csv", 4017, 13}};
    for (size_t i = 0; i < 2; i++) {
        struct esp_error err;
        struct esp_forest *forest;
        uint64_t rows;
        assert_ok(import_list(&sets[i].path, 1, &forest, &rows, &err), &err);
        assert_int_equal(rows, sets[i].count);
        assert_int_equal(forest->count, sets[i].count);
        assert_int_equal(forest->depth_max, sets[i].depth_max);
        assert_int_equal(forest->root_count, 1);
        esp_forest_free(forest);
    }
}

/* A node in the notation of the formats; the depth is of `v`. */
static void put_node(struct esp_buf *out, const struct esp_forest *f, esp_node v, bool parent) {
    struct esp_str id = esp_forest_id(f, v);
    struct esp_data data = esp_forest_data(f, v);
    esp_buf_printf(out, "{\"id\":\"%.*s\"", ESP_FMT(id));
    if (parent && f->parent[v] != ESP_NODE_NONE) {
        esp_buf_printf(out, ",\"parent\":\"%.*s\"", ESP_FMT(esp_forest_id(f, f->parent[v])));
    }
    /* All columns are text here: "name":{"S":"x"} is "name":"x" in plain JSON. */
    const char *from = data.text, *end = data.text + data.len;
    if (data.len) {
        esp_buf_put_char(out, ',');
    }
    for (const char *at; from < end && (at = memmem(from, (size_t)(end - from), ":{\"S\":", 6));) {
        esp_buf_put(out, from, (size_t)(at - from) + 1);
        from = at + 6;
        const char *close = memmem(from, (size_t)(end - from), "\"}", 2);
        assert_non_null(close);
        esp_buf_put(out, from, (size_t)(close - from) + 1);
        from = close + 2;
    }
}

static void assert_same_forest(const struct esp_forest *a, const struct esp_forest *b) {
    assert_int_equal(a->count, b->count);
    assert_memory_equal(a->parent, b->parent, a->count * sizeof *a->parent);
    assert_memory_equal(a->size, b->size, a->count * sizeof *a->size);
    for (esp_node v = 0; v < a->count; v++) {
        struct esp_data da = esp_forest_data(a, v), db = esp_forest_data(b, v);
        assert_true(esp_str_eq(esp_forest_id(a, v), esp_forest_id(b, v)));
        assert_int_equal(da.size, db.size);
        assert_int_equal(da.len, db.len);
        assert_memory_equal(da.text, db.text, da.len);
    }
}

/* The same tree as CSV, nested JSON and JSON Lines is the same forest to the byte. */
static void one_tree_in_three_formats(void **state) {
    (void)state;
    char folder[256], path[2][300];
    const char *csv = "datasets/animals.csv";
    struct esp_error err;
    struct esp_forest *forest, *other;
    struct esp_buf lines, nested;
    assert_ok(import_list(&csv, 1, &forest, NULL, &err), &err);
    esp_buf_init(&lines, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&nested, &esp_alloc_libc, SIZE_MAX);
    for (esp_node v = 0; v < forest->count; v++) {
        put_node(&lines, forest, v, true);
        esp_buf_put_str(&lines, ESP_STR("}\n"));
        for (uint32_t up = v ? forest->depth[v - 1] + 1 : 0; up > forest->depth[v]; up--) {
            esp_buf_put_str(&nested, ESP_STR("]}")); /* of every level that ended */
        }
        if (v) {
            esp_buf_put_str(&nested, forest->parent[v] == v - 1 ? ESP_STR("") : ESP_STR(","));
        }
        put_node(&nested, forest, v, false);
        esp_buf_put_str(&nested, ESP_STR(",\n\"children\":["));
    }
    for (uint32_t up = forest->depth[forest->count - 1] + 1; up > 0; up--) {
        esp_buf_put_str(&nested, ESP_STR("]}"));
    }
    esp_test_mkdir(folder);
    snprintf(path[0], sizeof path[0], "%s/animals.jsonl", folder);
    snprintf(path[1], sizeof path[1], "%s/animals.json", folder);
    esp_test_write_file(path[0], lines.ptr, lines.len);
    esp_test_write_file(path[1], nested.ptr, nested.len);
    for (int i = 0; i < 2; i++) {
        const char *name = path[i];
        assert_ok(import_list(&name, 1, &other, NULL, &err), &err);
        assert_same_forest(forest, other);
        esp_forest_free(other);
    }
    esp_test_rmdir(folder);
    esp_buf_fini(&lines);
    esp_buf_fini(&nested);
    esp_forest_free(forest);
}

static void several_files_and_stdin(void **state) {
    (void)state;
    char folder[256], csv[300], json[300];
    struct esp_error err;
    struct esp_forest *forest;
    uint64_t rows;
    esp_test_mkdir(folder);
    snprintf(csv, sizeof csv, "%s/a.csv", folder);
    snprintf(json, sizeof json, "%s/b.json", folder);
    esp_test_write_file(csv, "id,parent\na,\nb,a\n", 17);
    esp_test_write_file(json, "[{\"id\":\"c\",\"parent\":\"b\"}]", 25);

    int saved = dup(0), file = open(json, O_RDONLY);
    assert_int_equal(dup2(file, 0), 0);
    close(file);
    const char *const both[] = {"-", csv};
    assert_ok(import_list(both, 2, &forest, &rows, &err), &err);
    dup2(saved, 0);
    close(saved);
    assert_int_equal(rows, 3);
    assert_int_equal(forest->depth_max, 2);
    esp_forest_free(forest);

    const char *const twice[] = {"-", "-"}, *const missing[] = {csv, "no/such/file"},
                      *const again[] = {csv, json, csv};
    assert_status(ESP_ERR_USAGE, import_list(twice, 2, &forest, NULL, &err));
    assert_status(ESP_ERR_USAGE, import_list(NULL, 0, &forest, NULL, &err));
    assert_status(ESP_ERR_IO, import_list(missing, 2, &forest, NULL, &err));
    assert_string_equal(err.source, "no/such/file");
    assert_status(ESP_ERR_DUPLICATE, import_list(again, 3, &forest, NULL, &err));
    assert_string_equal(err.source, csv); /* the third source */
    assert_int_equal(err.line, 2);
    assert_non_null(strstr(err.message, "it is on line 2 of "));
    assert_null(forest);
    esp_test_rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_recognised),
        cmocka_unit_test(registry),
        cmocka_unit_test(data_sets),
        cmocka_unit_test(one_tree_in_three_formats),
        cmocka_unit_test(several_files_and_stdin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
