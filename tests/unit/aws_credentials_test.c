/* Where keys, region and endpoint come from; what is wrong is said without a secret. */
#include "stores/dynamodb/credentials.h"
#include "tests/support/alloc.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SECRET "wJalrXUtnFEMI/K7MDENG+SECRET"

static const char *const variables[] = {
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_CREDENTIAL_EXPIRATION",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_DYNAMODB",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_CA_BUNDLE",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
};

struct place {
    char folder[256];
    struct esp_virtual_clock time;
    struct esp_clock clock;
    struct esp_store_config config;
    struct esp_aws_settings settings;
    struct esp_credentials *credentials;
    struct esp_credential_copy copy;
    struct esp_error err;
};

static int set_up(void **state) {
    static struct place place;
    memset(&place, 0, sizeof place);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        unsetenv(variables[i]);
    }
    esp_test_mkdir(place.folder);
    setenv("HOME", place.folder, 1);
    place.time.wall_ns = UINT64_C(1795239900) * 1000000000; /* 2026-11-21T05:45:00Z */
    place.clock = esp_clock_virtual(&place.time);
    *state = &place;
    return 0;
}

static int tear_down(void **state) {
    struct place *p = *state;
    esp_credential_copy_fini(&p->copy);
    esp_credentials_free(p->credentials);
    esp_aws_settings_fini(&p->settings);
    esp_test_rmdir(p->folder);
    return 0;
}

static void write_file(struct place *p, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/.aws", p->folder);
    char *command = NULL;
    assert_true(asprintf(&command, "mkdir -p '%s'", path) > 0);
    assert_int_equal(esp_test_run(command, NULL), 0);
    free(command);
    snprintf(path, sizeof path, "%s/.aws/%s", p->folder, name);
    esp_test_write_file(path, text, strlen(text));
}

static enum esp_status find_with(struct place *p, const char *target,
                                 const struct esp_alloc *alloc) {
    enum esp_status status =
        esp_aws_settings_init(&p->settings, target, &p->config, alloc, &p->err);
    if (status == ESP_OK) {
        status = esp_credentials_new(&p->settings, &p->clock, alloc, &p->credentials, &p->err);
    }
    if (status == ESP_OK) {
        esp_credential_copy_init(&p->copy, alloc);
        status = esp_credentials_get(p->credentials, &p->copy, &p->err);
    }
    assert_null(strstr(p->err.message, SECRET));
    return status;
}

static enum esp_status find(struct place *p, const char *target) {
    return find_with(p, target, &esp_alloc_libc);
}

static void forget(struct place *p) {
    esp_credentials_free(p->credentials);
    esp_credential_copy_fini(&p->copy);
    esp_aws_settings_fini(&p->settings);
    p->credentials = NULL;
    esp_error_clear(&p->err);
}

static void assert_text(struct esp_str got, const char *expected) {
    if (!esp_str_eq(got, esp_str_from(expected))) {
        fail_msg("\"%.*s\" is not \"%s\"", ESP_FMT(got), expected);
    }
}

static void assert_keys(struct place *p, const char *key_id, const char *secret,
                        const char *token) {
    assert_text(esp_buf_str(&p->copy.key_id), key_id);
    assert_text(esp_buf_str(&p->copy.secret), secret);
    assert_text(esp_buf_str(&p->copy.token), token);
}

static void test_environment(void **state) {
    struct place *p = *state;
    setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    setenv("AWS_SESSION_TOKEN", "TOKEN", 1);
    setenv("AWS_REGION", "eu-west-1", 1);
    setenv("AWS_DEFAULT_REGION", "us-west-2", 1);
    write_file(p, "credentials", "[default]\naws_access_key_id=F\naws_secret_access_key=G\n");
    assert_ok(find(p, ""), &p->err);
    assert_keys(p, "AKIDENV", SECRET, "TOKEN");
    assert_text(p->settings.url, "https://dynamodb.eu-west-1.amazonaws.com");
    assert_text(p->settings.host, "dynamodb.eu-west-1.amazonaws.com");
    assert_false(p->settings.loopback);
}

static void test_half_an_environment(void **state) {
    struct place *p = *state;
    setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
    assert_status(ESP_ERR_CREDENTIALS, find(p, "http://localhost:8000"));
    assert_non_null(strstr(p->err.message, "AWS_SECRET_ACCESS_KEY"));
}

static void test_profiles(void **state) {
    struct place *p = *state;
    write_file(p, "credentials",
               "# a comment\n[default]\naws_access_key_id = A\n"
               "aws_secret_access_key = one\n\n[ work ]\nAWS_ACCESS_KEY_ID=B\n"
               "aws_secret_access_key=two #3\naws_session_token=T\n");
    write_file(p, "config",
               "[default]\nregion = us-east-2\n[profile work]\nregion = ap-south-1 # near\n"
               "services = tables\n[services tables]\ns3 =\n  endpoint_url = http://wrong\n"
               "dynamodb =\n  endpoint_url = https://ddb.example:8443/\n");
    setenv("AWS_PROFILE", "work", 1);
    assert_ok(find(p, ""), &p->err);
    assert_keys(p, "B", "two #3", "T"); /* comments behind values are for the config file */
    assert_text(p->settings.region, "ap-south-1");
    assert_text(p->settings.url, "https://ddb.example:8443");
    assert_text(p->settings.host, "ddb.example:8443");
}

static void test_named_profile_passes_over_the_environment(void **state) {
    struct place *p = *state;
    setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    write_file(p, "config",
               "[profile x]\nregion=cn-north-1\naws_access_key_id=C\naws_secret_access_key=s\n");
    p->config.profile = "x";
    assert_ok(find(p, ""), &p->err);
    assert_keys(p, "C", "s", "");
    assert_text(p->settings.url, "https://dynamodb.cn-north-1.amazonaws.com.cn");
}

static void test_unknown_profile(void **state) {
    struct place *p = *state;
    write_file(p, "config", "[default]\nregion=us-east-1\n");
    setenv("AWS_PROFILE", "nobody", 1);
    assert_status(ESP_ERR_CREDENTIALS, find(p, ""));
    assert_non_null(strstr(p->err.message, "nobody"));
}

static void test_nothing_found_names_every_place(void **state) {
    struct place *p = *state;
    p->config.region = "us-east-1";
    assert_status(ESP_ERR_CREDENTIALS, find(p, ""));
    assert_non_null(strstr(p->err.message, "AWS_ACCESS_KEY_ID"));
    assert_non_null(strstr(p->err.message, "/.aws/credentials (no such file)"));
    assert_non_null(strstr(p->err.message, "/.aws/config (no such file)"));
}

static void test_sso_profile_says_how(void **state) {
    struct place *p = *state;
    write_file(p, "config", "[default]\nregion=us-east-1\nsso_session=corp\n");
    assert_status(ESP_ERR_CREDENTIALS, find(p, ""));
    assert_non_null(strstr(p->err.message, "sso_session"));
    assert_non_null(strstr(p->err.message, "credential_process"));
}

static void test_no_region(void **state) {
    struct place *p = *state;
    assert_status(ESP_ERR_USAGE, find(p, ""));
    assert_non_null(strstr(p->err.message, "AWS_REGION"));
}

static void test_loopback_needs_no_keys(void **state) {
    struct place *p = *state;
    assert_ok(find(p, "http://127.0.0.1:8000"), &p->err);
    assert_keys(p, "local", "local", "");
    assert_text(p->settings.region, "us-east-1");
    assert_text(p->settings.host, "127.0.0.1:8000");
    assert_true(p->settings.loopback);
}

static void test_other_endpoints_do(void **state) {
    struct place *p = *state;
    assert_status(ESP_ERR_CREDENTIALS, find(p, "http://10.0.0.1:8000"));
}

static void test_standard_port_is_not_in_the_host(void **state) {
    struct place *p = *state;
    assert_ok(find(p, "http://[::1]:80"), &p->err);
    assert_text(p->settings.host, "[::1]");
}

static void test_endpoint_variables(void **state) {
    struct place *p = *state;
    setenv("AWS_ENDPOINT_URL", "http://localhost:1", 1);
    setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://localhost:2", 1);
    assert_ok(find(p, ""), &p->err);
    assert_text(p->settings.url, "http://localhost:2");
}

static void test_endpoint_variables_ignored(void **state) {
    struct place *p = *state;
    setenv("AWS_ENDPOINT_URL", "http://localhost:1", 1);
    setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "TRUE", 1);
    setenv("AWS_USE_FIPS_ENDPOINT", "true", 1);
    p->config.region = "us-gov-west-1";
    assert_status(ESP_ERR_CREDENTIALS, find(p, ""));
    assert_text(p->settings.url, "https://dynamodb-fips.us-gov-west-1.amazonaws.com");
}

static void test_bad_endpoints(void **state) {
    static const char *const bad[] = {"http://",
                                      "http://a b",
                                      "http://h:0",
                                      "http://h:99999",
                                      "http://h/path",
                                      "http://user:" SECRET "@h",
                                      "http://user:p@" SECRET "@h",
                                      "http://h?x",
                                      "http://h:8000x",
                                      "https://",
                                      "http://h\r\nX: y"};
    struct place *p = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(ESP_ERR_USAGE, find(p, bad[i]));
        esp_aws_settings_fini(&p->settings);
        esp_error_clear(&p->err);
    }
    p->config.region = "us east";
    assert_status(ESP_ERR_USAGE, find(p, ""));
}

static void test_malformed_files_name_the_line_only(void **state) {
    static const char *const bad[] = {
        "[default]\naws_secret_access_key " SECRET "\n",
        "aws_access_key_id=A\n[default]\naws_secret_access_key=" SECRET "\n",
        "[default\naws_access_key_id=" SECRET "\n",
        "[]\naws_access_key_id=" SECRET "\n",
        "[default]\n=" SECRET "\n",
    };
    struct place *p = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(p, "credentials", bad[i]);
        assert_status(ESP_ERR_INPUT, find(p, "http://localhost:8000"));
        assert_non_null(strstr(p->err.message, "/.aws/credentials: line "));
        esp_aws_settings_fini(&p->settings);
        esp_error_clear(&p->err);
    }
}

static void test_section_that_begins_with_nothing_quoted(void **state) {
    struct place *p = *state;
    write_file(p, "credentials",
               "[\"\" default]\naws_access_key_id=A\naws_secret_access_key=" SECRET "\n");
    assert_ok(find(p, "http://localhost:8000"), &p->err);
    assert_keys(p, "A", SECRET, "");
}

static void test_half_a_profile(void **state) {
    struct place *p = *state;
    write_file(p, "credentials", "[default]\naws_secret_access_key=" SECRET "\n");
    assert_status(ESP_ERR_CREDENTIALS, find(p, "http://localhost:8000"));
    assert_non_null(strstr(p->err.message, "has no aws_access_key_id"));
}

static void test_key_that_would_break_a_header(void **state) {
    struct place *p = *state;
    setenv("AWS_ACCESS_KEY_ID", "A\r\nHost: evil", 1);
    setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    assert_status(ESP_ERR_CREDENTIALS, find(p, "http://localhost:8000"));
}

/* --- credential_process ------------------------------------------------------------------ */

static void use_process(struct place *p, const char *script) {
    char path[512], config[1024];
    snprintf(path, sizeof path, "%s/keys here.sh", p->folder);
    esp_test_write_file(path, script, strlen(script));
    snprintf(config, sizeof config, "[default]\ncredential_process = /bin/sh \"%s\" 'one word'\n",
             path);
    write_file(p, "config", config);
}

static void test_process(void **state) {
    struct place *p = *state;
    use_process(p, "[ \"$1\" = 'one word' ] || exit 9\n"
                   "echo '{\"Version\": 1, \"AccessKeyId\": \"P\", \"SecretAccessKey\": \"" SECRET
                   "\",\n \"SessionToken\": \"T\\/U\"}'");
    assert_ok(find(p, "http://10.0.0.1"), &p->err);
    assert_keys(p, "P", SECRET, "T/U");
}

static void test_process_failures(void **state) {
    static const char *const bad[] = {
        ("echo " SECRET "; exit 3"),
        ("echo '{\"Version\":2,\"AccessKeyId\":\"P\",\"SecretAccessKey\":\"" SECRET "\"}'"),
        ("echo '{\"Version\":1,\"AccessKeyId\":\"P\"}'"),
        ("echo " SECRET),
        ("kill -9 $$"),
    };
    struct place *p = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        use_process(p, bad[i]);
        assert_status(ESP_ERR_CREDENTIALS, find(p, "http://localhost:8000"));
        assert_non_null(strstr(p->err.message, "credential_process"));
        forget(p);
    }
}

static void test_memory_runs_out(void **state) {
    struct place *p = *state;
    struct esp_test_alloc a;
    use_process(p, "echo '{\"Version\":1,\"AccessKeyId\":\"P\",\"SecretAccessKey\":\"" SECRET
                   "\",\"SessionToken\":\"T\"}'");
    for (size_t n = 1; esp_test_alloc_init(&a, n); n++) {
        enum esp_status status = find_with(p, "http://localhost:8000", &a.alloc);
        struct esp_error err = p->err;
        forget(p);
        if (esp_test_alloc_done(&a)) {
            assert_ok(status, &err);
            break;
        }
        assert_string_equal(esp_status_name(status), "ERR_NOMEM");
    }
}

static void test_process_is_renewed_before_it_expires(void **state) {
    struct place *p = *state;
    use_process(p, "echo x >> \"$0.count\"; n=$(wc -l < \"$0.count\" | tr -d ' ')\n"
                   "echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"P$n\\\",\\\"SecretAccessKey"
                   "\\\":\\\"s\\\",\\\"Expiration\\\":\\\"2026-11-21T0$((5 + n)):45:00Z\\\"}\"");
    assert_ok(find(p, "http://localhost:8000"), &p->err);
    assert_keys(p, "P1", "s", "");
    assert_false(esp_credentials_changed(p->credentials, p->copy.generation));
    p->time.wall_ns += UINT64_C(46) * 60 * 1000000000; /* 14 minutes are left */
    assert_true(esp_credentials_changed(p->credentials, p->copy.generation));
    assert_ok(esp_credentials_get(p->credentials, &p->copy, &p->err), &p->err);
    assert_keys(p, "P2", "s", "");
    assert_false(esp_credentials_changed(p->credentials, p->copy.generation));
    assert_true(esp_credentials_renew(p->credentials, p->copy.generation));
    assert_true(esp_credentials_changed(p->credentials, p->copy.generation));
}

static void test_expired_keys_are_refused(void **state) {
    struct place *p = *state;
    setenv("AWS_ACCESS_KEY_ID", "A", 1);
    setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
    setenv("AWS_CREDENTIAL_EXPIRATION", "2026-11-21T05:50:00+00:00", 1);
    assert_ok(find(p, "http://localhost:8000"), &p->err);
    p->time.wall_ns += UINT64_C(6) * 60 * 1000000000;
    assert_true(esp_credentials_changed(p->credentials, p->copy.generation));
    assert_status(ESP_ERR_CREDENTIALS, esp_credentials_get(p->credentials, &p->copy, &p->err));
    assert_non_null(strstr(p->err.message, "expired"));
    assert_false(esp_credentials_renew(p->credentials, p->copy.generation));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_environment),
        TEST(test_half_an_environment),
        TEST(test_profiles),
        TEST(test_named_profile_passes_over_the_environment),
        TEST(test_unknown_profile),
        TEST(test_nothing_found_names_every_place),
        TEST(test_sso_profile_says_how),
        TEST(test_no_region),
        TEST(test_loopback_needs_no_keys),
        TEST(test_other_endpoints_do),
        TEST(test_standard_port_is_not_in_the_host),
        TEST(test_endpoint_variables),
        TEST(test_endpoint_variables_ignored),
        TEST(test_bad_endpoints),
        TEST(test_malformed_files_name_the_line_only),
        TEST(test_section_that_begins_with_nothing_quoted),
        TEST(test_half_a_profile),
        TEST(test_key_that_would_break_a_header),
        TEST(test_process),
        TEST(test_process_failures),
        TEST(test_memory_runs_out),
        TEST(test_process_is_renewed_before_it_expires),
        TEST(test_expired_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
