/*
 * Threads: everything behind `lock` but `generation` and `check_at_ns`, which are read
 * without it to see cheaply that nothing has changed.
 */
#include "stores/dynamodb/credentials.h"

#include "stores/dynamodb/credential_process.h"
#include "stores/dynamodb/json_scan.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { KEY_BYTES_MAX = 16 << 10, OUTPUT_BYTES_MAX = 128 << 10 };
#define SECOND_NS           UINT64_C(1000000000)
#define ADVISORY_BEFORE_NS  (15 * 60 * SECOND_NS) /* facts sheet 11.7 */
#define MANDATORY_BEFORE_NS (10 * 60 * SECOND_NS)

struct keys {
    struct esp_buf key_id, secret, token;
    uint64_t expires_ns; /* wall; 0 = never */
};

struct esp_credentials {
    const struct esp_aws_settings *settings;
    const struct esp_clock *clock;
    const struct esp_alloc *alloc;
    pthread_mutex_t lock;
    struct keys keys;
    bool renewable;               /* a credential_process made them */
    _Atomic uint64_t generation;  /* 0 = not looked up yet */
    _Atomic uint64_t check_at_ns; /* wall time from which to look again */
};

static void buf_cleanse(struct esp_buf *buf) {
    if (buf->ptr) {
        OPENSSL_cleanse(buf->ptr, buf->cap);
    }
    esp_buf_reset(buf);
}

static void keys_init(struct keys *keys, const struct esp_alloc *alloc) {
    esp_buf_init(&keys->key_id, alloc, KEY_BYTES_MAX);
    esp_buf_init(&keys->secret, alloc, KEY_BYTES_MAX);
    esp_buf_init(&keys->token, alloc, KEY_BYTES_MAX);
    keys->expires_ns = 0;
}

static void keys_cleanse(struct keys *keys) {
    buf_cleanse(&keys->key_id);
    buf_cleanse(&keys->secret);
    buf_cleanse(&keys->token);
    keys->expires_ns = 0;
}

static void keys_fini(struct keys *keys) {
    keys_cleanse(keys);
    esp_buf_fini(&keys->key_id);
    esp_buf_fini(&keys->secret);
    esp_buf_fini(&keys->token);
}

static void put_exact(struct esp_buf *to, struct esp_str from) {
    buf_cleanse(to);
    esp_buf_put_str(to, from);
}

static void keys_set(struct keys *keys, struct esp_str key_id, struct esp_str secret,
                     struct esp_str token) {
    put_exact(&keys->key_id, key_id);
    put_exact(&keys->secret, secret);
    put_exact(&keys->token, token);
}

/* A header must not be broken by what is in a key id or a token. */
static bool is_clean(struct esp_str s) {
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] <= ' ' || s.ptr[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

/* "2026-11-21T06:00:00Z", also with a fraction or an offset; false when it is neither. */
static bool parse_time(struct esp_str s, uint64_t *wall_ns) {
    char text[40];
    struct tm tm = {0};
    if (s.len >= sizeof text) {
        return false;
    }
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest) {
        return false;
    }
    if (*rest == '.') {
        rest += 1 + strspn(rest + 1, "0123456789");
    }
    int64_t seconds = timegm(&tm);
    if (strcmp(rest, "Z") != 0) {
        struct tm offset = {0};
        const char *end =
            *rest == '+' || *rest == '-' ? strptime(rest + 1, "%H:%M", &offset) : NULL;
        if (!end || *end) {
            return false;
        }
        int64_t shift = offset.tm_hour * 3600 + offset.tm_min * 60;
        seconds -= *rest == '+' ? shift : -shift;
    }
    *wall_ns = seconds > 0 ? (uint64_t)seconds * SECOND_NS : 1;
    return true;
}

/* --- the places, in order ------------------------------------------------------- */

/* Each returns ESP_OK and sets *found, or fails. */
static enum esp_status from_environment(struct keys *keys, bool *found, struct esp_error *err) {
    struct esp_str key_id = esp_str_from(getenv("AWS_ACCESS_KEY_ID"));
    struct esp_str secret = esp_str_from(getenv("AWS_SECRET_ACCESS_KEY"));
    struct esp_str token = esp_str_from(getenv("AWS_SESSION_TOKEN"));
    struct esp_str expires = esp_str_from(getenv("AWS_CREDENTIAL_EXPIRATION"));
    if (token.len == 0) {
        token = esp_str_from(getenv("AWS_SECURITY_TOKEN"));
    }
    if (key_id.len == 0) {
        return ESP_OK;
    }
    if (secret.len == 0) {
        return esp_fail(err, ESP_ERR_CREDENTIALS,
                        "AWS_ACCESS_KEY_ID is set but AWS_SECRET_ACCESS_KEY is not");
    }
    keys_set(keys, key_id, secret, token);
    if (expires.len && !parse_time(expires, &keys->expires_ns)) {
        return esp_fail(err, ESP_ERR_CREDENTIALS, "AWS_CREDENTIAL_EXPIRATION is not a time");
    }
    *found = true;
    return ESP_OK;
}

static enum esp_status from_file(const struct esp_aws_settings *s, enum esp_profile_syntax which,
                                 const char *path, struct keys *keys, bool *found,
                                 struct esp_error *err) {
    struct esp_str key_id = esp_aws_profile_get_in(s, which, "aws_access_key_id");
    struct esp_str secret = esp_aws_profile_get_in(s, which, "aws_secret_access_key");
    if (key_id.len == 0 && secret.len == 0) {
        return ESP_OK;
    }
    if (key_id.len == 0 || secret.len == 0) {
        return esp_fail(err, ESP_ERR_CREDENTIALS, "profile %.*s in %s has no %s",
                        ESP_FMT(s->profile), path,
                        secret.len ? "aws_access_key_id" : "aws_secret_access_key");
    }
    keys_set(keys, key_id, secret, esp_aws_profile_get_in(s, which, "aws_session_token"));
    *found = true;
    return ESP_OK;
}

static enum esp_status read_process_answer(struct esp_str answer, struct keys *keys,
                                           struct esp_error *err) {
    struct esp_str expires = esp_json_find(answer, "Expiration");
    struct esp_str token = esp_json_find(answer, "SessionToken");
    if (esp_json_number(esp_json_find(answer, "Version")) != 1) {
        return esp_fail(err, ESP_ERR_CREDENTIALS,
                        "credential_process did not answer with \"Version\":1");
    }
    keys_cleanse(keys);
    bool complete =
        esp_json_put_text(&keys->key_id, esp_json_find(answer, "AccessKeyId")) &&
        esp_json_put_text(&keys->secret, esp_json_find(answer, "SecretAccessKey")) &&
        (token.len == 0 || token.ptr[0] == 'n' || esp_json_put_text(&keys->token, token));
    if (keys->key_id.failed || keys->secret.failed || keys->token.failed) {
        return esp_fail_nomem(err);
    }
    if (!complete || keys->key_id.len == 0 || keys->secret.len == 0) {
        return esp_fail(err, ESP_ERR_CREDENTIALS,
                        "credential_process gave no AccessKeyId and SecretAccessKey");
    }
    if (expires.len > 2 && expires.ptr[0] == '"' &&
        !parse_time((struct esp_str){expires.ptr + 1, expires.len - 2}, &keys->expires_ns)) {
        return esp_fail(err, ESP_ERR_CREDENTIALS,
                        "credential_process: its Expiration is not a time");
    }
    return ESP_OK;
}

static enum esp_status from_process(struct esp_credentials *c, struct keys *keys, bool *found,
                                    struct esp_error *err) {
    struct esp_str command = esp_aws_profile_get(c->settings, "credential_process");
    if (command.len == 0) {
        return ESP_OK;
    }
    struct esp_buf output;
    esp_buf_init(&output, c->alloc, OUTPUT_BYTES_MAX);
    enum esp_status status = esp_credential_process_run(command, c->alloc, &output, err);
    if (status == ESP_OK) {
        status = read_process_answer(esp_buf_str(&output), keys, err);
    }
    buf_cleanse(&output);
    esp_buf_fini(&output);
    *found = status == ESP_OK;
    return status;
}

static enum esp_status not_found(const struct esp_aws_settings *s, struct esp_error *err) {
    static const char *const unsupported[] = {"sso_session", "sso_start_url", "role_arn",
                                              "web_identity_token_file", "login_session"};
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        if (esp_aws_profile_get(s, unsupported[i]).len) {
            return esp_fail(
                err, ESP_ERR_CREDENTIALS,
                "profile %.*s uses %s, which is not read here: add credential_process = "
                "aws configure export-credentials --profile %.*s --format process to a "
                "profile of its own",
                ESP_FMT(s->profile), unsupported[i], ESP_FMT(s->profile));
        }
    }
    return esp_fail(err, ESP_ERR_CREDENTIALS,
                    "no credentials: not in the environment (AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY)%s, and profile %.*s has none in %s%s or %s%s",
                    s->profile_option ? ", which --profile passes over" : "", ESP_FMT(s->profile),
                    *s->credentials_path ? s->credentials_path : "~/.aws/credentials",
                    s->credentials.exists ? "" : " (no such file)",
                    *s->config_path ? s->config_path : "~/.aws/config",
                    s->config.exists ? "" : " (no such file)");
}

static enum esp_status look_up(struct esp_credentials *c, struct keys *keys, bool *renewable,
                               struct esp_error *err) {
    const struct esp_aws_settings *s = c->settings;
    bool found = false;
    enum esp_status status = ESP_OK;
    *renewable = false;
    if (!s->profile_option) {
        status = from_environment(keys, &found, err);
    }
    if (status == ESP_OK && !found) {
        status = from_file(s, ESP_PROFILE_CREDENTIALS, s->credentials_path, keys, &found, err);
    }
    if (status == ESP_OK && !found) {
        status = from_process(c, keys, &found, err);
        *renewable = found;
    }
    if (status == ESP_OK && !found) {
        status = from_file(s, ESP_PROFILE_CONFIG, s->config_path, keys, &found, err);
    }
    if (status == ESP_OK && !found && s->loopback) {
        keys_set(keys, ESP_STR("local"), ESP_STR("local"), (struct esp_str){NULL, 0});
        found = true;
    }
    if (status == ESP_OK && !found) {
        return not_found(s, err);
    }
    if (status == ESP_OK && (keys->key_id.failed || keys->secret.failed || keys->token.failed)) {
        return esp_fail_nomem(err);
    }
    if (status == ESP_OK &&
        !(is_clean(esp_buf_str(&keys->key_id)) && is_clean(esp_buf_str(&keys->token)))) {
        return esp_fail(
            err, ESP_ERR_CREDENTIALS,
            "the access key id or session token has blanks or control characters in it");
    }
    return status;
}

/* --- shared use ------------------------------------------------------------------ */

enum esp_status esp_credentials_new(const struct esp_aws_settings *settings,
                                    const struct esp_clock *clock, const struct esp_alloc *alloc,
                                    struct esp_credentials **out, struct esp_error *err) {
    struct esp_credentials *c = esp_calloc(alloc, 1, sizeof *c);
    if (!c) {
        return esp_fail_nomem(err);
    }
    c->settings = settings;
    c->clock = clock;
    c->alloc = alloc;
    keys_init(&c->keys, alloc);
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return ESP_OK;
}

void esp_credentials_free(struct esp_credentials *c) {
    if (c) {
        keys_fini(&c->keys);
        pthread_mutex_destroy(&c->lock);
        esp_release(c->alloc, c, sizeof *c);
    }
}

void esp_credential_copy_init(struct esp_credential_copy *copy, const struct esp_alloc *alloc) {
    esp_buf_init(&copy->key_id, alloc, KEY_BYTES_MAX);
    esp_buf_init(&copy->secret, alloc, KEY_BYTES_MAX);
    esp_buf_init(&copy->token, alloc, KEY_BYTES_MAX);
    copy->generation = 0;
}

void esp_credential_copy_fini(struct esp_credential_copy *copy) {
    if (copy->key_id.alloc) {
        buf_cleanse(&copy->key_id);
        buf_cleanse(&copy->secret);
        buf_cleanse(&copy->token);
        esp_buf_fini(&copy->key_id);
        esp_buf_fini(&copy->secret);
        esp_buf_fini(&copy->token);
    }
}

bool esp_credentials_changed(const struct esp_credentials *c, uint64_t generation) {
    return atomic_load_explicit(&c->generation, memory_order_acquire) != generation ||
           esp_wall_ns(c->clock) >= atomic_load_explicit(&c->check_at_ns, memory_order_relaxed);
}

/* Under the lock: replaces the keys by what is to be had now. */
static enum esp_status load(struct esp_credentials *c, struct esp_error *err) {
    struct keys fresh;
    bool renewable;
    keys_init(&fresh, c->alloc);
    enum esp_status status = look_up(c, &fresh, &renewable, err);
    if (status == ESP_OK) {
        struct keys old = c->keys;
        c->keys = fresh;
        fresh = old;
        c->renewable = renewable;
        uint64_t expires_ns = c->keys.expires_ns;
        atomic_store(&c->check_at_ns, expires_ns == 0 ? UINT64_MAX
                                      : expires_ns > ADVISORY_BEFORE_NS
                                          ? expires_ns - ADVISORY_BEFORE_NS
                                          : 0);
        atomic_fetch_add(&c->generation, 1);
    }
    keys_fini(&fresh);
    return status;
}

/* Under the lock: renew keys that expire soon; a failure counts only when it is late. */
static enum esp_status renew_in_time(struct esp_credentials *c, struct esp_error *err) {
    uint64_t now_ns = esp_wall_ns(c->clock), expires_ns = c->keys.expires_ns;
    if (now_ns < atomic_load(&c->check_at_ns)) {
        return ESP_OK;
    }
    if (c->renewable) {
        struct esp_error why = ESP_ERROR_INIT;
        enum esp_status status = load(c, &why);
        if (status != ESP_OK && now_ns + MANDATORY_BEFORE_NS >= expires_ns) {
            return esp_fail(err, status, "%s", why.message);
        }
    }
    if (c->keys.expires_ns && c->keys.expires_ns <= now_ns) {
        return esp_fail(err, ESP_ERR_CREDENTIALS, "the credentials have expired");
    }
    if (now_ns >= atomic_load(&c->check_at_ns)) { /* not again with every request */
        atomic_store(&c->check_at_ns, now_ns + 60 * SECOND_NS);
    }
    return ESP_OK;
}

enum esp_status esp_credentials_get(struct esp_credentials *c, struct esp_credential_copy *copy,
                                    struct esp_error *err) {
    pthread_mutex_lock(&c->lock);
    enum esp_status status = atomic_load(&c->generation) == 0 ? load(c, err) : ESP_OK;
    if (status == ESP_OK) {
        status = renew_in_time(c, err);
    }
    if (status == ESP_OK) {
        put_exact(&copy->key_id, esp_buf_str(&c->keys.key_id));
        put_exact(&copy->secret, esp_buf_str(&c->keys.secret));
        put_exact(&copy->token, esp_buf_str(&c->keys.token));
        copy->generation = atomic_load(&c->generation);
        if (copy->key_id.failed || copy->secret.failed || copy->token.failed) {
            copy->generation = 0;
            status = esp_fail_nomem(err);
        }
    }
    pthread_mutex_unlock(&c->lock);
    return status;
}

bool esp_credentials_renew(struct esp_credentials *c, uint64_t generation) {
    pthread_mutex_lock(&c->lock);
    bool others = atomic_load(&c->generation) != generation;
    if (!others && c->renewable) {
        others = load(c, NULL) == ESP_OK;
    }
    pthread_mutex_unlock(&c->lock);
    return others;
}
