/*
 * Equality by value and digests.  Sets and maps have no order, so they are compared by sums
 * of digests: one pass, no memory, any nesting.  Equal means equal in two independent
 * 64-bit digests; that two different values agree in both happens once in 2^128.
 */
#include "stores/item_text.h"

/* Bytes that arrive in pieces, hashed so that the pieces do not matter. */
struct stream {
    uint64_t hash;
    size_t count;
    char chunk[256];
};

static void stream_begin(struct stream *s, uint64_t seed, enum esp_tag tag) {
    s->hash = seed + 0x9e3779b97f4a7c15u * (uint64_t)(tag + 1);
    s->count = 0;
}

static void stream_put(struct stream *s, const char *bytes, size_t len) {
    while (len) {
        size_t n = sizeof s->chunk - s->count;
        n = n < len ? n : len;
        memcpy(s->chunk + s->count, bytes, n);
        s->count += n;
        bytes += n;
        len -= n;
        if (s->count == sizeof s->chunk) {
            s->hash = esp_hash64(s->chunk, s->count, s->hash);
            s->count = 0;
        }
    }
}

static uint64_t stream_end(struct stream *s) {
    return esp_hash64(s->chunk, s->count, s->hash);
}

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t pair[2] = {a, b};
    return esp_hash64(pair, sizeof pair, 0);
}

/* --- scalars ------------------------------------------------------------------ */

static uint64_t hash_bytes(struct esp_str bytes, enum esp_tag tag, uint64_t seed) {
    struct stream s;
    stream_begin(&s, seed, tag);
    stream_put(&s, bytes.ptr, bytes.len);
    return stream_end(&s);
}

static uint64_t hash_escaped(struct esp_str escaped, enum esp_tag tag, uint64_t seed) {
    if (!escaped.len || !memchr(escaped.ptr, '\\', escaped.len)) {
        return hash_bytes(escaped, tag, seed);
    }
    struct stream s;
    stream_begin(&s, seed, tag);
    for (const char *at = escaped.ptr, *end = at + escaped.len; at < end;) {
        char c[4];
        size_t n = esp_text_unescape_char(&at, c);
        stream_put(&s, c, n);
    }
    return stream_end(&s);
}

/* Four digits are three bytes, so a chunk of text decodes on its own. */
static uint64_t hash_base64(struct esp_str text, uint64_t seed) {
    struct stream s;
    char bytes[192];
    if (text.len && memchr(text.ptr, '\\', text.len)) {
        return hash_escaped(text, ESP_TAG_B, seed); /* not canonical: not ours */
    }
    stream_begin(&s, seed, ESP_TAG_B);
    for (size_t i = 0; i < text.len; i += 256) {
        size_t n = text.len - i < 256 ? text.len - i : 256;
        stream_put(&s, bytes, esp_base64_decode((struct esp_str){text.ptr + i, n}, bytes));
    }
    return stream_end(&s);
}

static uint64_t hash_number(const struct esp_number *number, uint64_t seed) {
    unsigned char key[ESP_NUMBER_KEY_MAX];
    size_t len = esp_number_key(number, key);
    return hash_bytes((struct esp_str){(const char *)key, len}, ESP_TAG_N, seed);
}

static uint64_t hash_scalar(const struct esp_text *t, uint64_t seed) {
    switch (t->tag) {
    case ESP_TAG_N:
        return hash_number(&t->number, seed);
    case ESP_TAG_B:
        return hash_base64(t->token, seed);
    default:
        return hash_escaped(t->token, t->tag, seed);
    }
}

/* --- values ------------------------------------------------------------------- */

static uint64_t hash_text(struct esp_str text, uint64_t seed) {
    uint64_t sum[ESP_NESTING_MAX + 2] = {0}, key[ESP_NESTING_MAX + 2] = {0};
    struct esp_text t;
    esp_text_init_value(&t, text, NULL);
    while (esp_text_next(&t) == ESP_OK && t.event != ESP_TEXT_DONE) {
        int level = t.depth; /* of the container that the finished value goes into */
        uint64_t hash;
        if (t.event == ESP_TEXT_BEGIN) {
            key[level - 1] = t.key.ptr ? hash_escaped(t.key, ESP_TAG_S, seed) : 0;
            sum[level] = 0;
            continue;
        }
        if (t.event == ESP_TEXT_END) {
            hash = mix(sum[level + 1], seed + (uint64_t)t.tag);
        } else {
            hash = hash_scalar(&t, seed);
            key[level] = t.key.ptr ? hash_escaped(t.key, ESP_TAG_S, seed) : 0;
        }
        if (t.inside == ESP_TAG_L) {
            sum[level] = mix(sum[level], hash);
        } else if (t.inside == ESP_TAG_M) {
            sum[level] += mix(key[level], hash);
        } else {
            sum[level] += hash;
        }
    }
    return sum[0];
}

static uint64_t hash_value(const struct esp_value *value, uint64_t seed) {
    struct esp_number number;
    switch (value->type) {
    case ESP_TYPE_S:
        return hash_bytes(value->s, ESP_TAG_S, seed);
    case ESP_TYPE_N:
        esp_value_to_number(value, &number);
        return hash_number(&number, seed);
    case ESP_TYPE_B:
        return hash_bytes(value->s, ESP_TAG_B, seed);
    case ESP_TYPE_JSON:
        return hash_text(value->s, seed);
    case ESP_TYPE_NONE:
        break;
    }
    return 0;
}

static uint64_t hash_data(struct esp_data data, uint64_t seed) {
    struct esp_member member;
    uint64_t sum = 0;
    for (size_t pos = 0; esp_data_next_escaped(data, &pos, &member);) {
        sum += mix(hash_escaped(member.name, ESP_TAG_S, seed), hash_text(member.value, seed));
    }
    return sum;
}

/* --- the public part ---------------------------------------------------------- */

static const uint64_t seeds[2] = {0x243f6a8885a308d3u, 0x13198a2e03707344u};

static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len) {
    return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

bool esp_data_equal(struct esp_data a, struct esp_data b) {
    if (same_text(a.text, a.len, b.text, b.len)) {
        return true;
    }
    return a.size == b.size && hash_data(a, seeds[0]) == hash_data(b, seeds[0]) &&
           hash_data(a, seeds[1]) == hash_data(b, seeds[1]);
}

bool esp_value_equal(const struct esp_value *a, const struct esp_value *b) {
    if (a->type != b->type) {
        return false;
    }
    if (a->type != ESP_TYPE_JSON) { /* of what is absent nothing else means anything */
        return a->type == ESP_TYPE_NONE || esp_value_cmp(a, b) == 0;
    }
    return same_text(a->s.ptr, a->s.len, b->s.ptr, b->s.len) ||
           (hash_text(a->s, seeds[0]) == hash_text(b->s, seeds[0]) &&
            hash_text(a->s, seeds[1]) == hash_text(b->s, seeds[1]));
}

bool esp_item_equal(const struct esp_schema *schema, const struct esp_item *a,
                    const struct esp_item *b) {
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (!esp_value_equal(&a->value[i], &b->value[i])) {
            return false;
        }
    }
    return esp_data_equal(a->data, b->data);
}

uint64_t esp_item_digest(const struct esp_schema *schema, const struct esp_item *item) {
    uint64_t seed = seeds[0], sum = hash_data(item->data, seed);
    for (size_t i = 0; i < schema->attr_count; i++) {
        if (item->value[i].type != ESP_TYPE_NONE) {
            sum += mix(hash_bytes(schema->attr[i].name, ESP_TAG_S, seed),
                       hash_value(&item->value[i], seed));
        }
    }
    return sum;
}
