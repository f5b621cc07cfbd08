#include <stdio.h>
#include <stdlib.h>

#include "import_dump.h"
#include "tests/support/support.h"

static void rows_become_records(void **state) {
    (void)state;
    assert_import("csv", NULL,
                  "id,parent_id,name,text\n"
                  "a,,Root,\n"
                  "b,a,Child,\"say \"\"hi\"\", \\o/\"\n"
                  "c,c,own parent,\n",
                  "2 a< 8 {\"name\":{\"S\":\"Root\"}}\n"
                  "3 b<a 26 {\"name\":{\"S\":\"Child\"},\"text\":{\"S\":\"say \\\"hi\\\", "
                  "\\\\o/\"}}\n"
                  "4 c< 14 {\"name\":{\"S\":\"own parent\"}}\n"
                  "OK\n");
}

static void line_breaks_marks_and_blank_lines(void **state) {
    (void)state;
    assert_import("csv", NULL,
                  "\xef\xbb\xbfid,parent,t\r\n"
                  "\r\n"
                  "a,,\"x\r\ny\n\nz\"\r\n"
                  "   \r\n"
                  "b,a,last",
                  "3 a< 8 {\"t\":{\"S\":\"x\\r\\ny\\n\\nz\"}}\n"
                  "8 b<a 5 {\"t\":{\"S\":\"last\"}}\n"
                  "OK\n");
    /* The mark is no part of a quoted first name either. */
    assert_import("csv", NULL, "\xef\xbb\xbf\"id\",\"parent\"\na,\n", "2 a< 0 {}\nOK\n");
    /* Blanks are part of a value, with or without quotes in the row; not of a name. */
    assert_import("csv", NULL, "id, parent ,t\na,, x \nb,a,\" y\"\n c,a,z\nd,a,\"q\"\n",
                  "2 a< 4 {\"t\":{\"S\":\" x \"}}\n3 b<a 3 {\"t\":{\"S\":\" y\"}}\n"
                  "4  c<a 2 {\"t\":{\"S\":\"z\"}}\n5 d<a 2 {\"t\":{\"S\":\"q\"}}\nOK\n");
    assert_import("csv", NULL, "id\tparent\tt\na\t\t x \n\t\t\nb\ta\t\n",
                  "2 a< 4 {\"t\":{\"S\":\" x \"}}\nERR_INPUT 3:1 19 the id is empty\n");
    /* A header of several lines. */
    assert_import("csv", NULL, "id,\"parent\",\"a\nb\"\nx,,1\n",
                  "3 x< 4 {\"a\\nb\":{\"S\":\"1\"}}\nOK\n");
}

static void separators_are_recognised(void **state) {
    (void)state;
    const char *expected = "2 a< 4 {\"n\":{\"S\":\"x,y\"}}\n3 b<a 2 {\"n\":{\"S\":\"z\"}}\nOK\n";
    assert_import("csv", NULL, "id;parent;n\na;;x,y\nb;a;z\n", expected);
    assert_import("csv", NULL, "id\tparent\tn\na\t\tx,y\nb\ta\tz\n", expected);
    assert_import("csv", NULL, "id,\"parent\",\"n\"\na,,\"x,y\"\nb,a,z\n", expected);
    assert_import("csv", "--separator |", "id|parent|n\na||x,y\nb|a|z\n", expected);
    assert_import("csv", "--separator tab", "id\tparent\tn\na\t\tx,y\nb\ta\tz\n", expected);
    assert_import("csv", "--from tsv", "id\tparent\tn\na\t\tx,y\nb\ta\tz\n", expected);
    /* One in quotes does not count. */
    assert_import("csv", NULL, "\"a;b;c;d\",id,parent\n1,x,\n",
                  "2 x< 8 {\"a;b;c;d\":{\"S\":\"1\"}}\nOK\n");
}

static void id_and_parent_columns(void **state) {
    (void)state;
    const char *text_expected = "2 a< 2 {\"x\":{\"S\":\"1\"}}\n3 b<a 2 {\"x\":{\"S\":\"2\"}}\nOK\n";
    assert_import("csv", NULL, "x,Parent ID,ID\n1,,a\n2,a,b\n", text_expected);
    assert_import("csv", NULL, "manager_id,x,employee_id\n,1,a\na,2,b\n", text_expected);
    assert_import("csv", NULL, "x,code,parentCode\n1,a,\n2,b,a\n", text_expected);
    assert_import("csv", "--id nr --parent boss", "nr,boss,x\na,,1\nb,a,2\n", text_expected);
    assert_import("csv", "--id 3 --parent 2", "x,boss,nr\n1,,a\n2,a,b\n", text_expected);
    /* A column of that name goes before the number; the best usual name wins. */
    assert_import("csv", "--id 3", "3,parent,x\na,,1\nb,a,2\n", text_expected);
    assert_import("csv", NULL, "code,id,parent\n1,a,\n", "2 a< 5 {\"code\":{\"S\":\"1\"}}\nOK\n");
    assert_import("csv", "--parent-none 0", "id,parent,x\na,0,1\nb,a,2\n", text_expected);
}

static void types_of_columns(void **state) {
    (void)state;
    assert_import("csv", "--column n:N --column b:BOOL --column z:NULL",
                  "id,parent,n,b,z\na,,007,TRUE,null\nb,a,1.50e1,0,\nc,a,-0,,\n",
                  "2 a< 7 {\"n\":{\"N\":\"7\"},\"b\":{\"BOOL\":true},\"z\":{\"NULL\":true}}\n"
                  "3 b<a 5 {\"n\":{\"N\":\"15\"},\"b\":{\"BOOL\":false}}\n"
                  "4 c<a 2 {\"n\":{\"N\":\"0\"}}\nOK\n");
}

static void inference_loses_nothing(void **state) {
    (void)state;
    assert_import("csv", "--infer",
                  "id,parent,v\n"
                  "a,,12\nb,a,007\nc,a,1.0\nd,a,-1.5\ne,a,1e3\nf,a,+5\ng,a,true\nh,a,True\n"
                  "i,a,-0\nj,a,0\nk,a,12345678901234567890123456789012345678\n"
                  "l,a,123456789012345678901234567890123456789\nm,a,.5\nn,a,-\n",
                  "2 a< 3 {\"v\":{\"N\":\"12\"}}\n"
                  "3 b<a 4 {\"v\":{\"S\":\"007\"}}\n"
                  "4 c<a 4 {\"v\":{\"S\":\"1.0\"}}\n"
                  "5 d<a 5 {\"v\":{\"N\":\"-1.5\"}}\n"
                  "6 e<a 4 {\"v\":{\"S\":\"1e3\"}}\n"
                  "7 f<a 3 {\"v\":{\"S\":\"+5\"}}\n"
                  "8 g<a 2 {\"v\":{\"BOOL\":true}}\n"
                  "9 h<a 5 {\"v\":{\"S\":\"True\"}}\n"
                  "10 i<a 3 {\"v\":{\"S\":\"-0\"}}\n"
                  "11 j<a 2 {\"v\":{\"N\":\"0\"}}\n"
                  "12 k<a 21 {\"v\":{\"N\":\"12345678901234567890123456789012345678\"}}\n"
                  "13 l<a 40 {\"v\":{\"S\":\"123456789012345678901234567890123456789\"}}\n"
                  "14 m<a 3 {\"v\":{\"S\":\".5\"}}\n"
                  "15 n<a 2 {\"v\":{\"S\":\"-\"}}\nOK\n");
    /* What is told goes before what is inferred. */
    assert_import("csv", "--infer --column v:S", "id,parent,v\na,,12\n",
                  "2 a< 3 {\"v\":{\"S\":\"12\"}}\nOK\n");
}

static void errors_know_their_byte(void **state) {
    (void)state;
    assert_import("csv", NULL, "\xef\xbb\xbfid,parent,n\na,,\"x\ny\"\nb,a,\"q\nq\"!\n",
                  "2 a< 4 {\"n\":{\"S\":\"x\\ny\"}}\n"
                  "ERR_INPUT 5:3 33 text after the closing quote of the field that begins on line "
                  "4: quotes inside a quoted field must be doubled\n");
    assert_import("csv", "--column n:N", "id,n,parent\r\na,1,\r\nb,\"2\n\",\xff\r\n",
                  "2 a< 3 {\"n\":{\"N\":\"1\"}}\n"
                  "ERR_INPUT 4:3 26 invalid UTF-8 (byte 0xff): convert the file to UTF-8\n");
}

/* Many rows of many lengths, so that lines lie across the edges of every buffer. */
static void edges_of_buffers(void **state) {
    (void)state;
    struct esp_buf text, expected;
    esp_buf_init(&text, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&expected, &esp_alloc_libc, SIZE_MAX);
    esp_buf_put_str(&text, ESP_STR("id,parent,n\n"));
    unsigned line = 2;
    for (unsigned i = 0; i < 3000; i++) {
        unsigned len = i * 37 % 211;
        esp_buf_printf(&text, "i%u,%s,\"", i, i ? "i0" : "");
        esp_buf_printf(&expected, "%u i%u<%s %u {", line, i, i ? "i0" : "", len ? len + 1 : 0);
        esp_buf_put_str(&expected, len ? ESP_STR("\"n\":{\"S\":\"") : ESP_STR(""));
        for (unsigned k = 0; k < len; k++) {
            bool line_end = k % 50 == 49;
            esp_buf_put_char(&text, line_end ? '\n' : (char)('a' + k % 26));
            esp_buf_put(&expected, line_end ? "\\n" : &(char){(char)('a' + k % 26)},
                        line_end ? 2 : 1);
            line += line_end;
        }
        esp_buf_put_str(&text, ESP_STR("\"\n"));
        esp_buf_put_str(&expected, len ? ESP_STR("\"}}\n") : ESP_STR("}\n"));
        line++;
    }
    esp_buf_put_str(&expected, ESP_STR("OK\n"));
    char *dump = import_dump("csv", text.ptr, text.len, NULL);
    assert_string_equal(dump, esp_buf_cstr(&expected));
    free(dump);
    esp_buf_fini(&text);
    esp_buf_fini(&expected);
}

/* Lines without a quote do not go through libcsv: the same cells in quotes, which do, must
 * make the same records. */
static void plain_lines_are_as_quoted_ones(void **state) {
    (void)state;
    static const char *const cells[] = {
        "", "x", "a b", "  a", "b  ", " \t ", "\xe6\xbc\xa2", "\\ \x01 ", "long enough for words",
        ";"};
    enum { CELLS = sizeof cells / sizeof *cells };
    static const char *const ends[] = {"\n", "\r\n", "\n \n", "\r\n\r\n"};
    struct esp_buf plain, quoted;
    esp_buf_init(&plain, &esp_alloc_libc, SIZE_MAX);
    esp_buf_init(&quoted, &esp_alloc_libc, SIZE_MAX);
    esp_buf_put_str(&plain, ESP_STR("id,parent,a,b,c\n"));
    esp_buf_put_str(&quoted, ESP_STR("id,parent,a,b,c\n"));
    for (unsigned i = 0; i < CELLS * CELLS * CELLS; i++) {
        const char *cell[3] = {cells[i % CELLS], cells[i / CELLS % CELLS],
                               cells[i / CELLS / CELLS]};
        esp_buf_printf(&plain, "i%u,%s", i, i ? "i0" : "");
        esp_buf_printf(&quoted, "\"i%u\",\"%s\"", i, i ? "i0" : "");
        for (int k = 0; k < 3; k++) {
            esp_buf_printf(&plain, ",%s", cell[k]);
            esp_buf_printf(&quoted, ",\"%s\"", cell[k]);
        }
        esp_buf_put_str(&plain, esp_str_from(ends[i % 4]));
        esp_buf_put_str(&quoted, esp_str_from(ends[i % 4]));
    }
    char *a = import_dump("csv", plain.ptr, plain.len, NULL);
    char *b = import_dump("csv", quoted.ptr, quoted.len, NULL);
    assert_string_equal(a, b);
    assert_non_null(strstr(a, " i999<i0 "));
    free(a);
    free(b);
    esp_buf_fini(&plain);
    esp_buf_fini(&quoted);
}

static enum esp_status stop_at_second(void *ctx, const struct esp_record *record,
                                      struct esp_error *err) {
    (void)record;
    return ++*(unsigned *)ctx == 2 ? esp_fail(err, ESP_ERR_CONDITION, "enough") : ESP_OK;
}

static void what_emit_says_ends_the_import(void **state) {
    (void)state;
    static const struct esp_source_options options = {.from = "csv"};
    struct esp_error err = ESP_ERROR_INIT;
    struct esp_reader *in;
    unsigned calls = 0;
    assert_ok(esp_reader_open_memory(ESP_STR("id,parent\na,\nb,a\nc,a\n"), "m", &esp_alloc_libc,
                                     &in, &err),
              &err);
    assert_status(ESP_ERR_CONDITION, esp_importer_find("csv")->run(in, &options, &esp_alloc_libc,
                                                                   stop_at_second, &calls, &err));
    assert_int_equal(calls, 2);
    assert_string_equal(err.message, "enough");
    assert_int_equal(err.line, 3);
    esp_reader_close(in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_become_records),
        cmocka_unit_test(line_breaks_marks_and_blank_lines),
        cmocka_unit_test(separators_are_recognised),
        cmocka_unit_test(id_and_parent_columns),
        cmocka_unit_test(types_of_columns),
        cmocka_unit_test(inference_loses_nothing),
        cmocka_unit_test(errors_know_their_byte),
        cmocka_unit_test(edges_of_buffers),
        cmocka_unit_test(plain_lines_are_as_quoted_ones),
        cmocka_unit_test(what_emit_says_ends_the_import),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
