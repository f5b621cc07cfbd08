/* The program against a scripted endpoint: exit codes 2, 3 and 4, the counts that go with them,
 * refused items in their file, Ctrl-C. */
#include "tests/support/fake_endpoint.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

static const char *program;

struct scene {
    struct esp_fake *fake;
    char folder[256];
};

static int open_scene(void **state) {
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    esp_test_mkdir(s->folder);
    s->fake = esp_fake_start(NULL, NULL);
    setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "verysecret", 1);
    setenv("AWS_REGION", "eu-west-1", 1);
    *state = s;
    return 0;
}

static int close_scene(void **state) {
    struct scene *s = *state;
    esp_fake_stop(s->fake);
    esp_test_rmdir(s->folder);
    free(s);
    return 0;
}

static void write_tree(struct scene *s, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/tree.csv", s->folder);
    esp_test_write_file(path, text, strlen(text));
}

/* Import tree.csv; *out is stdout and stderr together. */
static int import(struct scene *s, const char *before, const char *options, char **out) {
    char command[2048];
    snprintf(command, sizeof command,
             "cd '%s' && %s '%s' import tree.csv --layout adjacency --to %s --table nodes --json "
             "--workers 1 %s 2>&1",
             s->folder, before, program, esp_fake_url(s->fake), options);
    return esp_test_run(command, out);
}

static uint64_t number_of(const char *json, const char *name) {
    char key[64];
    unsigned long long value = 0;
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(json, key);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(key), "%llu", &value), 1);
    return value;
}

static void assert_identity(const char *json) {
    assert_int_equal(number_of(json, "items_planned"), number_of(json, "items_written") +
                                                           number_of(json, "items_refused") +
                                                           number_of(json, "items_left"));
}

static const char poisoned[] = "id,parent_id,poison\na,,\nb,a,x\nc,a,\nd,c,\n";

static void a_refused_item_is_exit_2_unless_allowed(void **state) {
    char *out;
    write_tree(*state, poisoned);
    assert_int_equal(import(*state, "", "", &out), 2);
    assert_int_equal(number_of(out, "items_refused"), 1);
    assert_identity(out);
    assert_non_null(strstr(out, "espalier: the store refused 1 items, the first: "));
    assert_non_null(strstr(out, "--max-errors"));
    free(out);
}

static void allowed_refusals_are_exit_4(void **state) {
    struct scene *s = *state;
    char *out, path[512];
    write_tree(s, poisoned);
    assert_int_equal(import(s, "", "--max-errors 1 --rejects r.jsonl", &out), 4);
    assert_int_equal(number_of(out, "items_planned"), 4);
    assert_int_equal(number_of(out, "items_written"), 3);
    assert_int_equal(number_of(out, "items_refused"), 1);
    assert_identity(out);
    free(out);
    snprintf(path, sizeof path, "%s/r.jsonl", s->folder);
    char *rejects = esp_test_read_file(path, NULL);
    assert_non_null(strstr(rejects, "{\"Item\":{\"id\":{\"S\":\"b\"}"));
    assert_non_null(strstr(rejects, ",\"reason\":\""));
    assert_int_equal(strcspn(rejects, "\n") + 1, strlen(rejects)); /* one line */
    free(rejects);
    assert_int_equal(esp_fake_item_count(s->fake, "nodes"), 3);
}

static struct esp_fake_action throttle(void *ctx, const struct esp_fake_request *r) {
    (void)ctx;
    struct esp_fake_action action = {.fault = ESP_FAKE_NONE};
    if (strcmp(r->operation, "BatchWriteItem") == 0) {
        action.fault = ESP_FAKE_ERROR_BEFORE;
        action.status = 400;
        action.error_name = "ProvisionedThroughputExceededException";
    }
    return action;
}

static void throttled_out_is_exit_3(void **state) {
    struct scene *s = *state;
    char *out;
    write_tree(s, "id,parent_id\na,\nb,a\n");
    esp_fake_set_script(s->fake, throttle, NULL);
    assert_int_equal(import(s, "", "--timeout 1", &out), 3);
    assert_int_equal(number_of(out, "items_left"), 2);
    assert_identity(out);
    free(out);
}

static void ctrl_c_is_exit_3_with_its_counts(void **state) {
    struct scene *s = *state;
    char *out;
    write_tree(s, "id,parent_id\na,\nb,a\n");
    esp_fake_set_script(s->fake, throttle, NULL);
    /* long enough for the program to be at its retries, however busy the machine is */
    assert_int_equal(import(s, "timeout --preserve-status -s INT 4", "--timeout 60", &out), 3);
    assert_int_equal(number_of(out, "items_planned"), 2);
    assert_identity(out);
    assert_non_null(strstr(out, "stopped"));
    free(out);
}

static struct esp_fake_action deny(void *ctx, const struct esp_fake_request *r) {
    (void)ctx, (void)r;
    return (struct esp_fake_action){
        .fault = ESP_FAKE_ERROR_BEFORE, .status = 400, .error_name = "UnrecognizedClientException"};
}

static void wrong_credentials_are_exit_2_and_not_shown(void **state) {
    struct scene *s = *state;
    char *out;
    write_tree(s, "id,parent_id\na,\nb,a\n");
    esp_fake_set_script(s->fake, deny, NULL);
    assert_int_equal(import(s, "", "", &out), 2);
    assert_null(strstr(out, "verysecret"));
    assert_null(strstr(out, "Signature"));
    free(out);
}

/* A name that DynamoDB would not take is told before anything is asked. */
static struct esp_fake_action count_requests(void *ctx, const struct esp_fake_request *r) {
    (void)r;
    ++*(int *)ctx;
    return (struct esp_fake_action){.fault = ESP_FAKE_NONE};
}

static void a_short_table_name_is_not_asked_for(void **state) {
    struct scene *s = *state;
    char *out;
    int requests = 0;
    write_tree(s, "id,parent_id\na,\nb,a\n");
    esp_fake_set_script(s->fake, count_requests, &requests);
    assert_int_equal(import(s, "", "--table ab", &out), 2);
    assert_non_null(strstr(out, "espalier: a table name has 3 to 255 characters, not 2"));
    assert_int_equal(requests, 0);
    free(out);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, open_scene, close_scene)
        SCENE(a_refused_item_is_exit_2_unless_allowed),
        SCENE(allowed_refusals_are_exit_4),
        SCENE(throttled_out_is_exit_3),
        SCENE(ctrl_c_is_exit_3_with_its_counts),
        SCENE(wrong_credentials_are_exit_2_and_not_shown),
        SCENE(a_short_table_name_is_not_asked_for),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: endpoint_exit_test ESPALIER\n");
        return 2;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
