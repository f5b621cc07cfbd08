/* Plain, gzip and zstd input: the same lines and positions, whatever the buffers. */
#include "core/reader.h"
#include "core/rng.h"
#include "tests/support/alloc.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

/* Lines of all lengths, some larger than a read; the last one without its end. */
static char *make_text(size_t *len) {
    struct esp_rng rng;
    esp_rng_init(&rng, 3, 0);
    size_t cap = 6 << 20;
    char *text = malloc(cap);
    assert_non_null(text);
    *len = 0;
    while (*len < cap - (3 << 20)) {
        size_t line = esp_rng_below(&rng, 300) ? esp_rng_below(&rng, 200) : 2500000;
        for (size_t i = 0; i < line; i++) {
            text[(*len)++] = (char)('a' + esp_rng_below(&rng, 26));
        }
        text[(*len)++] = '\n';
        if (*len > (3 << 20)) {
            break;
        }
    }
    text[(*len)++] = 'x';
    return text;
}

static void expect_lines(const char *path, const char *text, size_t len) {
    struct esp_reader *r;
    struct esp_str line, head;
    struct esp_error err = ESP_ERROR_INIT;
    size_t at = 0;
    assert_ok(esp_reader_open(path, &esp_alloc_libc, &r, &err), &err);
    assert_ok(esp_reader_peek(r, 4096, &head, &err), &err);
    assert_int_equal(head.len, len < 4096 ? len : 4096);
    assert_memory_equal(head.ptr, text, head.len);
    do {
        assert_ok(esp_reader_line(r, &line, &err), &err);
        assert_true(at + line.len <= len);
        assert_memory_equal(line.ptr, text + at, line.len);
        at += line.len;
        assert_int_equal(esp_reader_offset(r), at);
        assert_true(line.len == 0 || at == len || line.ptr[line.len - 1] == '\n');
        assert_true(line.len == 0 || !memchr(line.ptr, '\n', line.len - 1));
    } while (line.len);
    assert_int_equal(at, len);
    esp_reader_close(r);
    at = 0;
    assert_ok(esp_reader_open(path, &esp_alloc_libc, &r, &err), &err);
    do {
        assert_ok(esp_reader_next(r, &line, &err), &err);
        assert_memory_equal(line.ptr ? line.ptr : "", text + at, line.len);
        at += line.len;
    } while (line.len);
    assert_int_equal(at, len);
    assert_int_equal(esp_reader_raw_offset(r), esp_reader_raw_size(r));
    esp_reader_close(r);
}

static void all_codings_give_the_same_lines(void **state) {
    (void)state;
    char dir[256], command[1024], path[300];
    size_t len;
    char *text = make_text(&len);
    esp_test_mkdir(dir);
    snprintf(path, sizeof path, "%s/t", dir);
    esp_test_write_file(path, text, len);
    /* several gzip members and several zstd frames one after another are one input */
    snprintf(
        command, sizeof command,
        "cd %s && gzip -k t && head -c 1000 t | gzip > m.gz && tail -c +1001 t | gzip >> m.gz && "
        "zstd -q -k t && head -c 1000 t | zstd -q > m.zst && tail -c +1001 t | zstd -q >> m.zst",
        dir);
    assert_int_equal(esp_test_run(command, NULL), 0);
    expect_lines(path, text, len);
    snprintf(path, sizeof path, "%s/t.gz", dir);
    expect_lines(path, text, len);
    snprintf(path, sizeof path, "%s/m.gz", dir);
    expect_lines(path, text, len);
    snprintf(path, sizeof path, "%s/t.zst", dir);
    expect_lines(path, text, len);
    snprintf(path, sizeof path, "%s/m.zst", dir);
    expect_lines(path, text, len);
    esp_test_rmdir(dir);
    free(text);
}

/* zstd frame of "hello\nworld\n" made by the reference tool. */
static const unsigned char zstd_frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x61, 0x00, 0x00,
                                           'h',  'e',  'l',  'l',  'o',  '\n', 'w',  'o',  'r',
                                           'l',  'd',  0x0a, 0xb5, 0x0e, 0x87, 0x17};

static enum esp_status read_memory(const void *bytes, size_t len, const struct esp_alloc *alloc,
                                   struct esp_buf *out, struct esp_error *err) {
    struct esp_reader *r;
    struct esp_str line;
    enum esp_status status =
        esp_reader_open_memory((struct esp_str){bytes, len}, "memory", alloc, &r, err);
    if (status != ESP_OK) {
        return status;
    }
    do {
        status = esp_reader_line(r, &line, err);
        if (status == ESP_OK) {
            esp_buf_put_str(out, line);
        }
    } while (status == ESP_OK && line.len);
    esp_reader_close(r);
    return status;
}

static void damaged_input_is_named(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_buf out;
    esp_buf_init(&out, &esp_alloc_libc, 1 << 20);
    static const char gzip_start[] = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03";
    assert_status(ESP_ERR_INPUT,
                  read_memory(gzip_start, sizeof gzip_start - 1, &esp_alloc_libc, &out, &err));
    assert_string_equal(err.message, "the compressed data ends too early");
    assert_string_equal(err.source, "memory");
    esp_error_clear(&err);
    static const char gzip_bad[] = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff\xff\xff";
    assert_status(ESP_ERR_INPUT,
                  read_memory(gzip_bad, sizeof gzip_bad - 1, &esp_alloc_libc, &out, &err));
    assert_string_equal(err.message, "the gzip data is damaged");
    esp_error_clear(&err);
    assert_status(ESP_ERR_INPUT, read_memory(zstd_frame, 12, &esp_alloc_libc, &out, &err));
    assert_string_equal(err.message, "the compressed data ends too early");
    struct esp_reader *r;
    esp_error_clear(&err);
    assert_status(ESP_ERR_IO, esp_reader_open("no/such/file", &esp_alloc_libc, &r, &err));
    assert_string_equal(err.message, "cannot open the file: No such file or directory");
    assert_string_equal(err.source, "no/such/file");
    esp_error_clear(&err);
    assert_status(ESP_ERR_IO, esp_reader_open("tests", &esp_alloc_libc, &r, &err));
    esp_buf_fini(&out);
}

static void small_inputs(void **state) {
    (void)state;
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_buf out;
    esp_buf_init(&out, &esp_alloc_libc, 1 << 20);
    assert_ok(read_memory("", 0, &esp_alloc_libc, &out, &err), &err);
    assert_int_equal(out.len, 0);
    assert_ok(read_memory("a", 1, &esp_alloc_libc, &out, &err), &err);
    assert_ok(read_memory("b\nc", 3, &esp_alloc_libc, &out, &err), &err);
    assert_ok(read_memory(zstd_frame, sizeof zstd_frame, &esp_alloc_libc, &out, &err), &err);
    assert_string_equal(esp_buf_cstr(&out), "ab\nchello\nworld\n");
    esp_buf_fini(&out);
}

/* A line's end may be the first or the last byte of a read. */
static void lines_end_anywhere_in_a_read(void **state) {
    (void)state;
    enum { READ_BYTES = 1 << 20 };
    char *text = malloc(READ_BYTES + 8);
    assert_non_null(text);
    for (size_t len = READ_BYTES - 2; len <= READ_BYTES + 1; len++) {
        memset(text, 'x', len);
        memcpy(text + len, "\nend", 4);
        struct esp_error err = ESP_ERROR_INIT;
        struct esp_reader *r;
        struct esp_str line;
        assert_ok(esp_reader_open_memory((struct esp_str){text, len + 4}, "memory", &esp_alloc_libc,
                                         &r, &err),
                  &err);
        assert_ok(esp_reader_line(r, &line, &err), &err);
        assert_int_equal(line.len, len + 1);
        assert_ok(esp_reader_line(r, &line, &err), &err);
        assert_true(esp_str_eq(line, ESP_STR("end")));
        esp_reader_close(r);
    }
    free(text);
}

static void endless_lines_are_refused(void **state) {
    (void)state;
    size_t len = (size_t)ESP_LINE_BYTES_MAX + (4 << 20);
    char *text = malloc(len);
    assert_non_null(text);
    memset(text, 'x', len);
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_buf out;
    esp_buf_init(&out, &esp_alloc_libc, 1 << 20);
    assert_status(ESP_ERR_LIMIT, read_memory(text, len, &esp_alloc_libc, &out, &err));
    assert_string_equal(err.message, "a line is longer than 64 MiB");
    assert_string_equal(err.source, "memory");
    esp_buf_fini(&out);
    free(text);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    struct esp_test_alloc a;
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        struct esp_buf out;
        esp_buf_init(&out, &esp_alloc_libc, 1 << 20);
        enum esp_status status = read_memory("a\nb\n", 4, &a.alloc, &out, NULL);
        esp_buf_fini(&out);
        assert_true(status == ESP_OK || status == ESP_ERR_NOMEM);
        if (esp_test_alloc_done(&a)) {
            break;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_codings_give_the_same_lines),
        cmocka_unit_test(damaged_input_is_named),
        cmocka_unit_test(small_inputs),
        cmocka_unit_test(lines_end_anywhere_in_a_read),
        cmocka_unit_test(endless_lines_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
