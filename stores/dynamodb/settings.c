#include "stores/dynamodb/settings.h"

#include <stdlib.h>
#include <strings.h>

enum { SETTINGS_BYTES_MAX = 1 << 20, REGION_LEN_MAX = 64, HOST_LEN_MAX = 255 };

static struct esp_str env(const char *name) {
    return esp_str_from(getenv(name));
}

static bool is_true(struct esp_str s) {
    return s.len == 4 && strncasecmp(s.ptr, "true", 4) == 0;
}

static struct esp_str first_of(struct esp_str a, struct esp_str b) {
    return a.len ? a : b;
}

/* --- files and profile --------------------------------------------------------- */

static const char *file_path(struct esp_arena *arena, const char *variable, const char *name) {
    struct esp_str given = env(variable), home = env("HOME");
    if (given.len > 1 && given.ptr[0] == '~' && given.ptr[1] == '/' && home.len) {
        return esp_arena_fmt(arena, "%s%s", home.ptr, given.ptr + 1).ptr;
    }
    if (given.len) {
        return esp_arena_dup(arena, given).ptr;
    }
    return home.len ? esp_arena_fmt(arena, "%s/.aws/%s", home.ptr, name).ptr : "";
}

/* "default" or "profile NAME"; ptr NULL: no memory. */
static struct esp_str config_section(struct esp_arena *arena, struct esp_str profile) {
    return esp_str_eq(profile, ESP_STR("default"))
               ? profile
               : esp_arena_fmt(arena, "profile %.*s", ESP_FMT(profile));
}

struct esp_str esp_aws_profile_get_in(const struct esp_aws_settings *s,
                                      enum esp_profile_syntax which, const char *key) {
    if (which == ESP_PROFILE_CREDENTIALS) {
        return esp_profile_file_get(&s->credentials, s->profile, NULL, key);
    }
    struct esp_str value = esp_profile_file_get(&s->config, s->config_section, NULL, key);
    if (value.len == 0 && esp_str_eq(s->profile, ESP_STR("default"))) {
        value = esp_profile_file_get(&s->config, ESP_STR("profile default"), NULL, key);
    }
    return value;
}

struct esp_str esp_aws_profile_get(const struct esp_aws_settings *s, const char *key) {
    return first_of(esp_aws_profile_get_in(s, ESP_PROFILE_CREDENTIALS, key),
                    esp_aws_profile_get_in(s, ESP_PROFILE_CONFIG, key));
}

static enum esp_status load_profile(struct esp_aws_settings *s,
                                    const struct esp_store_config *config,
                                    const struct esp_alloc *alloc, struct esp_error *err) {
    s->credentials_path = file_path(&s->arena, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
    s->config_path = file_path(&s->arena, "AWS_CONFIG_FILE", "config");
    struct esp_str named = config->profile
                               ? esp_str_from(config->profile)
                               : first_of(env("AWS_PROFILE"), env("AWS_DEFAULT_PROFILE"));
    s->profile_option = config->profile && *config->profile;
    s->profile = esp_arena_dup(&s->arena, first_of(named, ESP_STR("default")));
    s->config_section = s->profile.ptr ? config_section(&s->arena, s->profile) : s->profile;
    if (!s->credentials_path || !s->config_path || !s->config_section.ptr) {
        return esp_fail_nomem(err);
    }
    enum esp_status status = ESP_OK;
    if (*s->credentials_path) {
        status = esp_profile_file_load(&s->credentials, s->credentials_path,
                                       ESP_PROFILE_CREDENTIALS, alloc, err);
    }
    if (status == ESP_OK && *s->config_path) {
        status = esp_profile_file_load(&s->config, s->config_path, ESP_PROFILE_CONFIG, alloc, err);
    }
    if (status == ESP_OK && named.len && !esp_str_eq(named, ESP_STR("default")) &&
        !esp_profile_file_has(&s->credentials, s->profile) &&
        !esp_profile_file_has(&s->config, s->config_section)) {
        return esp_fail(err, ESP_ERR_CREDENTIALS, "profile %.*s is neither in %s nor in %s",
                        ESP_FMT(s->profile), s->credentials_path, s->config_path);
    }
    return status;
}

/* --- region and endpoint -------------------------------------------------------- */

static bool is_name(struct esp_str s, size_t len_max) {
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-')) {
            return false;
        }
    }
    return s.len >= 1 && s.len <= len_max;
}

static struct esp_str find_region(const struct esp_aws_settings *s,
                                  const struct esp_store_config *config) {
    struct esp_str region = esp_str_from(config->region);
    region = first_of(region, env("AWS_REGION"));
    region = first_of(region, env("AWS_DEFAULT_REGION"));
    return first_of(region, esp_aws_profile_get(s, "region"));
}

/* An endpoint that is configured for everybody, or empty. */
static struct esp_str find_endpoint(const struct esp_aws_settings *s,
                                    const struct esp_store_config *config) {
    if (config->endpoint_url && *config->endpoint_url) {
        return esp_str_from(config->endpoint_url);
    }
    if (is_true(env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) ||
        is_true(esp_aws_profile_get(s, "ignore_configured_endpoint_urls"))) {
        return (struct esp_str){NULL, 0};
    }
    struct esp_str url = first_of(env("AWS_ENDPOINT_URL_DYNAMODB"), env("AWS_ENDPOINT_URL"));
    struct esp_str services = esp_aws_profile_get(s, "services");
    for (size_t i = 0; url.len == 0 && services.len && i < s->config.count; i++) {
        struct esp_str section = s->config.entries[i].section;
        if (section.len == services.len + 9 && memcmp(section.ptr, "services ", 9) == 0 &&
            memcmp(section.ptr + 9, services.ptr, services.len) == 0) {
            url = esp_profile_file_get(&s->config, section, "dynamodb", "endpoint_url");
        }
    }
    return first_of(url, esp_aws_profile_get(s, "endpoint_url"));
}

static struct esp_str aws_url(struct esp_aws_settings *s) {
    bool dual = is_true(first_of(env("AWS_USE_DUALSTACK_ENDPOINT"),
                                 esp_aws_profile_get(s, "use_dualstack_endpoint")));
    bool fips = is_true(
        first_of(env("AWS_USE_FIPS_ENDPOINT"), esp_aws_profile_get(s, "use_fips_endpoint")));
    const char *suffix = dual ? "api.aws" : "amazonaws.com";
    if (strncmp(s->region.ptr, "cn-", 3) == 0) {
        suffix = dual ? "api.amazonwebservices.com.cn" : "amazonaws.com.cn";
    } else if (strncmp(s->region.ptr, "eusc-", 5) == 0) {
        suffix = dual ? "api.amazonwebservices.eu" : "amazonaws.eu";
    }
    return esp_arena_fmt(&s->arena, "https://dynamodb%s.%s.%s", fips ? "-fips" : "", s->region.ptr,
                         suffix);
}

static bool is_loopback(struct esp_str host) {
    return esp_str_eq(host, ESP_STR("localhost")) || esp_str_eq(host, ESP_STR("[::1]")) ||
           (host.len > 4 && memcmp(host.ptr, "127.", 4) == 0);
}

static bool is_port(struct esp_str s) {
    unsigned long port = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9') {
            return false;
        }
        port = port * 10 + (unsigned long)(s.ptr[i] - '0');
    }
    return s.len >= 1 && s.len <= 5 && port >= 1 && port <= 65535;
}

static bool is_host(struct esp_str s) {
    bool bracket = s.len > 2 && s.ptr[0] == '[' && s.ptr[s.len - 1] == ']';
    for (size_t i = bracket; i < s.len - bracket; i++) {
        char c = s.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '.' || c == '_' || (bracket && c == ':'))) {
            return false;
        }
    }
    return s.len >= 1 && s.len <= HOST_LEN_MAX;
}

/* Takes the URL apart; scheme, host and port and nothing else. */
static enum esp_status take_url(struct esp_aws_settings *s, struct esp_str url,
                                struct esp_error *err) {
    bool tls = url.len > 8 && memcmp(url.ptr, "https://", 8) == 0;
    bool plain = url.len > 7 && memcmp(url.ptr, "http://", 7) == 0;
    size_t skip = tls ? 8 : 7;
    if (tls || plain) {
        struct esp_str rest = {url.ptr + skip, url.len - skip};
        if (rest.ptr[rest.len - 1] == '/') {
            rest.len--;
        }
        const char *bracket = memrchr(rest.ptr, ']', rest.len);
        const char *colon = memrchr(rest.ptr, ':', rest.len);
        if (colon && bracket && colon < bracket) {
            colon = NULL;
        }
        struct esp_str host = {rest.ptr, colon ? (size_t)(colon - rest.ptr) : rest.len};
        struct esp_str port = {colon ? colon + 1 : NULL, colon ? rest.len - host.len - 1 : 0};
        if (is_host(host) && (!colon || is_port(port))) {
            bool standard = !colon || esp_str_eq(port, tls ? ESP_STR("443") : ESP_STR("80"));
            s->url =
                esp_arena_fmt(&s->arena, "%s%.*s", tls ? "https://" : "http://", ESP_FMT(rest));
            s->host = esp_arena_dup(&s->arena, standard ? host : rest);
            s->loopback = is_loopback(host);
            return s->url.ptr && s->host.ptr ? ESP_OK : esp_fail_nomem(err);
        }
    }
    /* The text is not repeated: it might hold a password before an @. */
    return esp_fail(
        err, ESP_ERR_USAGE,
        "the endpoint must be http://HOST[:PORT] or https://HOST[:PORT], without a path");
}

static enum esp_status find_place(struct esp_aws_settings *s, const char *target,
                                  const struct esp_store_config *config, struct esp_error *err) {
    struct esp_str url = *target ? esp_str_from(target) : find_endpoint(s, config);
    struct esp_str region = find_region(s, config);
    if (region.len && !is_name(region, REGION_LEN_MAX)) {
        return esp_fail(err, ESP_ERR_USAGE, "\"%.*s\" cannot be the name of a region",
                        region.len > 80 ? 80 : (int)region.len, region.ptr);
    }
    if (region.len == 0 && url.len == 0) {
        return esp_fail(
            err, ESP_ERR_USAGE,
            "no region: give --region, set AWS_REGION, or write region = ... for profile "
            "%.*s in %s",
            ESP_FMT(s->profile), s->config_path);
    }
    if (url.len == 0 && esp_str_eq(region, ESP_STR("local"))) {
        url = ESP_STR("http://localhost:8000");
    }
    if (region.len == 0 || esp_str_eq(region, ESP_STR("local"))) {
        region = ESP_STR("us-east-1");
    }
    s->region = esp_arena_dup(&s->arena, region);
    if (s->region.ptr && url.len == 0) {
        url = aws_url(s);
    }
    if (!s->region.ptr || !url.ptr) {
        return esp_fail_nomem(err);
    }
    return take_url(s, url, err);
}

enum esp_status esp_aws_settings_init(struct esp_aws_settings *s, const char *target,
                                      const struct esp_store_config *config,
                                      const struct esp_alloc *alloc, struct esp_error *err) {
    static const struct esp_store_config none;
    memset(s, 0, sizeof *s);
    esp_arena_init(&s->arena, alloc, SETTINGS_BYTES_MAX);
    config = config ? config : &none;
    enum esp_status status = load_profile(s, config, alloc, err);
    if (status == ESP_OK) {
        status = find_place(s, target, config, err);
    }
    struct esp_str bundle =
        first_of(env("AWS_CA_BUNDLE"), status == ESP_OK ? esp_aws_profile_get(s, "ca_bundle")
                                                        : (struct esp_str){NULL, 0});
    if (status == ESP_OK && bundle.len) {
        s->ca_bundle = esp_arena_dup(&s->arena, bundle).ptr;
        status = s->ca_bundle ? ESP_OK : esp_fail_nomem(err);
    }
    return status;
}

void esp_aws_settings_fini(struct esp_aws_settings *s) {
    esp_profile_file_fini(&s->credentials);
    esp_profile_file_fini(&s->config);
    if (s->arena.alloc) {
        esp_arena_fini(&s->arena);
    }
    memset(s, 0, sizeof *s);
}
