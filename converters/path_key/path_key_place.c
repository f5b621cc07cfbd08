#include "converters/path_key/path_key.h"

uint32_t esp_place_parts(const struct esp_layout *l, struct esp_str sk) {
    return esp_way_count(l, sk) + 1;
}

struct esp_str esp_place_last(const struct esp_layout *l, struct esp_str sk) {
    size_t start = esp_way_last(l, sk);
    return (struct esp_str){sk.ptr + start, sk.len - start};
}

bool esp_place_cut(const struct esp_layout *l, struct esp_str pk, struct esp_str *top,
                   struct esp_str *anchor) {
    struct esp_str sep = l->separator;
    const char *cut =
        l->settings.segment && pk.len ? memmem(pk.ptr, pk.len, sep.ptr, sep.len) : NULL;
    *top = pk;
    *anchor = (struct esp_str){"", 0};
    if (!cut) {
        return false;
    }
    top->len = (size_t)(cut - pk.ptr);
    *anchor = (struct esp_str){cut + sep.len, pk.len - top->len - sep.len};
    return true;
}

bool esp_place_is_root(const struct esp_layout *l, const struct esp_place *place) {
    struct esp_str top, anchor;
    return esp_place_parts(l, place->sk) == 1 && !esp_place_cut(l, place->pk, &top, &anchor);
}

bool esp_place_is_anchor(const struct esp_layout *l, struct esp_str sk) {
    return l->settings.segment && esp_place_parts(l, sk) == l->settings.segment;
}

struct esp_place esp_place_of(const struct esp_layout *l, const struct esp_item *item) {
    struct esp_str top, anchor;
    struct esp_place place = {esp_item_text(item, PATH_KEY_PK), esp_item_text(item, PATH_KEY_SK),
                              -1};
    if (esp_path_key_has_depth(l)) {
        place.depth = esp_item_number(item, PATH_KEY_DEPTH, -1);
    }
    /* What the index tells has no depth; a way from the root does. */
    if (place.depth < 0 && !esp_place_cut(l, place.pk, &top, &anchor)) {
        place.depth = (int64_t)esp_place_parts(l, place.sk) - 1;
    }
    return place;
}

struct esp_item esp_place_key(const struct esp_place *place) {
    struct esp_item key = {0};
    key.value[PATH_KEY_PK] = esp_s(place->pk);
    key.value[PATH_KEY_SK] = esp_s(place->sk);
    return key;
}

/* a, b and c one after another. */
static struct esp_str join(struct esp_arena *arena, struct esp_str a, struct esp_str b,
                           struct esp_str c) {
    struct esp_str part[] = {a, b, c}, out = {.len = 0};
    char *text = esp_arena_alloc(arena, a.len + b.len + c.len + 1);
    for (size_t i = 0; text && i < sizeof part / sizeof part[0]; i++) {
        if (part[i].len) {
            memcpy(text + out.len, part[i].ptr, part[i].len);
            out.len += part[i].len;
        }
    }
    out.ptr = text;
    return out;
}

enum esp_status esp_place_root(const struct esp_layout *l, struct esp_arena *arena,
                               struct esp_str id, struct esp_str part, struct esp_place *out) {
    struct esp_str none = {"", 0};
    out->pk = l->settings.hierarchy ? esp_str_from(l->settings.hierarchy)
                                    : esp_way_join(l, arena, none, id, none);
    out->sk = part;
    out->depth = 0;
    return out->pk.ptr ? ESP_OK : ESP_ERR_NOMEM;
}

/* The bytes that the first n parts of a way take, and the separator after them. */
static size_t parts_end(const struct esp_layout *l, struct esp_str way, uint64_t n) {
    struct esp_str part;
    size_t pos = 0;
    while (n-- > 0 && esp_way_next(l, way, &pos, &part)) {
    }
    return pos;
}

enum esp_status esp_place_below(const struct esp_layout *l, struct esp_arena *arena,
                                const struct esp_place *from, struct esp_str way,
                                struct esp_place *out) {
    struct esp_str sep = l->separator, top, anchor;
    uint64_t segment = l->settings.segment;
    uint64_t have = esp_place_parts(l, from->sk), more = esp_place_parts(l, way);
    struct esp_place place = {.depth = from->depth < 0 ? -1 : from->depth + (int64_t)more};
    if (segment == 0 || have + more <= segment) {
        place.pk = from->pk;
        place.sk = join(arena, from->sk, sep, way);
    } else {
        /* The last anchor on the way: a node on it, or `from` itself. */
        uint64_t above = (have + more - 1) / segment * segment - have;
        size_t end = parts_end(l, way, above);
        anchor = esp_place_last(l, above ? (struct esp_str){way.ptr, end - sep.len} : from->sk);
        struct esp_str rest = {way.ptr + end, way.len - end}, part = anchor;
        esp_place_cut(l, from->pk, &top, &anchor);
        place.pk = join(arena, top, sep, part);
        place.sk = esp_arena_dup(arena, rest);
    }
    *out = place;
    return place.pk.ptr && place.sk.ptr ? ESP_OK : ESP_ERR_NOMEM;
}

enum esp_status esp_place_inside(const struct esp_layout *l, struct esp_arena *arena,
                                 const struct esp_place *from, struct esp_str *pk,
                                 struct esp_str *prefix) {
    struct esp_str top, anchor, none = {"", 0};
    if (esp_place_is_anchor(l, from->sk)) {
        esp_place_cut(l, from->pk, &top, &anchor);
        *pk = join(arena, top, l->separator, esp_place_last(l, from->sk));
        *prefix = none;
    } else {
        *pk = from->pk;
        *prefix = join(arena, from->sk, l->separator, none);
    }
    return pk->ptr && prefix->ptr ? ESP_OK : ESP_ERR_NOMEM;
}

enum esp_status esp_place_ancestors(const struct esp_layout *l, struct esp_arena *arena,
                                    struct esp_str sk, struct esp_value *out) {
    struct esp_str part;
    struct esp_buf buf;
    bool first = true;
    esp_buf_init(&buf, arena->alloc, SIZE_MAX);
    ESP_BUF_LIT(&buf, "{\"L\":[");
    for (size_t pos = 0; esp_way_next(l, sk, &pos, &part);) {
        struct esp_str way = {sk.ptr, (size_t)(part.ptr - sk.ptr) + part.len};
        if (way.len == sk.len) {
            break;
        }
        if (!first) {
            esp_buf_put_char(&buf, ',');
        }
        first = false;
        ESP_BUF_LIT(&buf, "{\"S\":");
        esp_json_put_string(&buf, way);
        esp_buf_put_char(&buf, '}');
    }
    ESP_BUF_LIT(&buf, "]}");
    *out = (struct esp_value){.type = ESP_TYPE_JSON};
    out->s = buf.failed ? (struct esp_str){0} : esp_arena_dup(arena, esp_buf_str(&buf));
    esp_buf_fini(&buf);
    return out->s.ptr ? ESP_OK : ESP_ERR_NOMEM;
}

enum esp_status esp_path_key_name(const struct esp_layout *l, struct esp_data data,
                                  struct esp_arena *arena, struct esp_str *out) {
    struct esp_str text;
    struct esp_value value;
    *out = (struct esp_str){0};
    if (!esp_data_find(data, esp_str_from(l->settings.name), &text)) {
        return ESP_OK;
    }
    enum esp_status status = esp_value_parse(text, arena, &value, NULL);
    if (status == ESP_OK && value.type == ESP_TYPE_S) {
        *out = value.s;
    }
    return status;
}
