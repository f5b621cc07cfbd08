#include "import_dump.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/support.h"

void import_options_set(struct import_options *options, const char *args) {
    struct esp_error err = ESP_ERROR_INIT;
    char *rest = NULL;
    memset(options, 0, sizeof *options);
    snprintf(options->words, sizeof options->words, "%s", args ? args : "");
    for (char *name = strtok_r(options->words, " ", &rest); name;
         name = strtok_r(NULL, " ", &rest)) {
        const char *value = strcmp(name, "--infer") ? strtok_r(NULL, " ", &rest) : NULL;
        assert_ok(esp_option_set(esp_source_option_table, &options->values, name + 2, value, &err),
                  &err);
    }
}

enum esp_status import_dump_record(void *buf, const struct esp_record *record,
                                   struct esp_error *err) {
    (void)err;
    esp_buf_printf(buf, "%llu %.*s<%.*s %u {%.*s}\n", (unsigned long long)record->line,
                   ESP_FMT(record->id), ESP_FMT(record->parent_id), record->data.size,
                   (int)record->data.len, record->data.len ? record->data.text : "");
    return ESP_OK;
}

void import_dump_end(struct esp_buf *out, enum esp_status status, const struct esp_error *err) {
    if (status == ESP_OK) {
        esp_buf_put_str(out, ESP_STR("OK\n"));
        return;
    }
    esp_buf_printf(out, "%s %llu:%llu %llu %s\n", esp_status_name(status),
                   (unsigned long long)err->line, (unsigned long long)err->column,
                   (unsigned long long)err->byte_offset, err->message);
}

/* Runs the format over an open reader and closes it. */
static char *dump_reader(struct esp_reader *in, const char *format,
                         const struct esp_source_options *options) {
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_buf out;
    esp_buf_init(&out, &esp_alloc_libc, SIZE_MAX);
    const struct esp_importer *importer = esp_importer_find(format);
    assert_non_null(importer);
    import_dump_end(
        &out, importer->run(in, options, &esp_alloc_libc, import_dump_record, &out, &err), &err);
    esp_reader_close(in);
    char *copy = strdup(esp_buf_cstr(&out));
    assert_non_null(copy);
    esp_buf_fini(&out);
    return copy;
}

char *import_dump(const char *format, const char *text, size_t len, const char *args) {
    struct esp_error err = ESP_ERROR_INIT;
    struct import_options options;
    struct esp_reader *in;
    import_options_set(&options, args);
    assert_ok(
        esp_reader_open_memory((struct esp_str){text, len}, "memory", &esp_alloc_libc, &in, &err),
        &err);
    char *expected = dump_reader(in, format, &options.values);

    char folder[256], path[300], command[700];
    esp_test_mkdir(folder);
    snprintf(path, sizeof path, "%s/input", folder);
    esp_test_write_file(path, text, len);
    snprintf(command, sizeof command, "gzip -k %s", path);
    assert_int_equal(esp_test_run(command, NULL), 0);
    for (int compressed = 0; compressed < 2; compressed++) {
        snprintf(path, sizeof path, "%s/input%s", folder, compressed ? ".gz" : "");
        assert_ok(esp_reader_open(path, &esp_alloc_libc, &in, &err), &err);
        char *got = dump_reader(in, format, &options.values);
        assert_string_equal(got, expected);
        free(got);
    }
    esp_test_rmdir(folder);
    return expected;
}
