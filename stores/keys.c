#include "stores/keys.h"

static void put(struct esp_key *key, const void *bytes, size_t len) {
    memcpy(key->bytes + key->len, bytes, len);
    key->len += len;
}

/* S and B with 00 written 00 FF, so that the end mark 00 00 sorts before all that follows. */
static void put_escaped(struct esp_key *key, struct esp_str s) {
    while (s.len) {
        const char *zero = memchr(s.ptr, 0, s.len);
        size_t len = zero ? (size_t)(zero - s.ptr) : s.len;
        put(key, s.ptr, len);
        if (zero) {
            put(key, "\0\377", 2);
            len++;
        }
        s.ptr += len;
        s.len -= len;
    }
}

static void put_number(struct esp_key *key, const struct esp_value *value) {
    struct esp_number number;
    esp_value_to_number(value, &number);
    key->len += esp_number_key(&number, key->bytes + key->len);
}

static void put_value(struct esp_key *key, const struct esp_value *value, bool last) {
    if (value->type == ESP_TYPE_N) {
        put_number(key, value);
    } else if (last) {
        if (value->s.len) {
            put(key, value->s.ptr, value->s.len);
        }
    } else {
        put_escaped(key, value->s);
        put(key, "\0\0", 2);
    }
}

static void put_partition(struct esp_key *key, unsigned tree, const struct esp_value *pk) {
    key->bytes[0] = (unsigned char)tree;
    key->len = 1 + ESP_KEY_HASH_BYTES;
    put_value(key, pk, false);
    size_t front = 1 + ESP_KEY_HASH_BYTES;
    uint64_t hash = __builtin_bswap64(esp_hash64(key->bytes + front, key->len - front, 0));
    memcpy(key->bytes + 1, &hash, sizeof hash);
}

void esp_key_of_item(const struct esp_schema *schema, const struct esp_item *item,
                     struct esp_key *out) {
    put_partition(out, 0, &item->value[schema->pk]);
    if (schema->sk >= 0) {
        put_value(out, &item->value[schema->sk], true);
    }
}

bool esp_key_of_entry(const struct esp_schema *schema, int index, unsigned tree,
                      const struct esp_item *item, struct esp_key *out) {
    const struct esp_index *ix = &schema->index[index];
    if (item->value[ix->pk].type == ESP_TYPE_NONE ||
        (ix->sk >= 0 && item->value[ix->sk].type == ESP_TYPE_NONE)) {
        return false;
    }
    put_partition(out, tree, &item->value[ix->pk]);
    if (ix->sk >= 0) {
        put_value(out, &item->value[ix->sk], false);
    }
    put_value(out, &item->value[schema->pk], schema->sk < 0);
    if (schema->sk >= 0) {
        put_value(out, &item->value[schema->sk], true);
    }
    return true;
}

/* The smallest key above all that begin with this one. */
static void skip_prefix(struct esp_key *key) {
    while (key->bytes[key->len - 1] == 0xFF) {
        key->len--;
    }
    key->bytes[key->len - 1]++;
}

void esp_key_step(struct esp_key *key) {
    key->bytes[key->len++] = 0;
}

static void copy(struct esp_key *to, const struct esp_key *from) {
    to->len = from->len;
    memcpy(to->bytes, from->bytes, from->len);
}

/* The smallest key above those whose sort key is the one `key` ends with. */
static void skip_sort_key(struct esp_key *key, bool last) {
    if (last) {
        esp_key_step(key);
    } else {
        skip_prefix(key);
    }
}

void esp_key_range(const struct esp_schema *schema, const struct esp_query *query, unsigned tree,
                   struct esp_key *low, struct esp_key *high) {
    bool last = query->index == ESP_PRIMARY; /* is the sort key the last part of the key? */
    int sk = last ? schema->sk : schema->index[query->index].sk;
    bool open_ended = query->op == ESP_ANY || query->op == ESP_GT || query->op == ESP_GE ||
                      (query->op == ESP_PREFIX && query->lo.s.len == 0);
    put_partition(low, tree, &query->pk);
    copy(high, low);
    if (sk < 0 && last) {
        esp_key_step(high);
        return;
    }
    if (open_ended) {
        skip_prefix(high);
    }
    switch (query->op) {
    case ESP_GT:
    case ESP_GE:
        put_value(low, &query->lo, last);
        if (query->op == ESP_GT) {
            skip_sort_key(low, last);
        }
        break;
    case ESP_LT:
    case ESP_LE:
        put_value(high, &query->lo, last);
        if (query->op == ESP_LE) {
            skip_sort_key(high, last);
        }
        break;
    case ESP_EQ:
    case ESP_BETWEEN:
        put_value(low, &query->lo, last);
        put_value(high, query->op == ESP_EQ ? &query->lo : &query->hi, last);
        skip_sort_key(high, last);
        break;
    case ESP_PREFIX:
        if (query->lo.s.len == 0) {
            break;
        }
        if (last) {
            put(low, query->lo.s.ptr, query->lo.s.len);
        } else {
            put_escaped(low, query->lo.s);
        }
        copy(high, low);
        skip_prefix(high);
        break;
    default: /* ANY; others were refused */
        break;
    }
}

static void put_hash_bound(struct esp_key *key, unsigned tree, uint32_t segment,
                           uint32_t segments) {
    uint64_t bound = segments ? (uint64_t)(((unsigned __int128)segment << 64) / segments) : segment;
    key->bytes[0] = (unsigned char)tree;
    for (int i = 0; i < ESP_KEY_HASH_BYTES; i++) {
        key->bytes[1 + i] = (unsigned char)(bound >> (56 - 8 * i));
    }
    key->len = 1 + ESP_KEY_HASH_BYTES;
}

void esp_key_segment(unsigned tree, uint32_t segment, uint32_t segments, struct esp_key *low,
                     struct esp_key *high) {
    put_hash_bound(low, tree, segment, segments);
    if (segment + 1 < segments) {
        put_hash_bound(high, tree, segment + 1, segments);
    } else {
        high->bytes[0] = (unsigned char)(tree + 1);
        high->len = 1;
    }
}
