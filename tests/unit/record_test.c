/* Records: what goes in comes out, projections keep what they name, B+ tree and recast. */
#include "core/rng.h"
#include "stores/btree.h"
#include "stores/recast.h"
#include "stores/record.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

static const struct esp_schema schema = {
    .attr_count = 6,
    .attr = {{{"p", 1}, ESP_TYPE_S},
             {{"s", 1}, ESP_TYPE_B},
             {{"n", 1}, ESP_TYPE_N},
             {{"big", 3}, ESP_TYPE_NONE},
             {{"set", 3}, ESP_TYPE_NONE},
             {{"gone", 4}, ESP_TYPE_NONE}},
    .pk = 0,
    .sk = 1,
};

static char long_text[70000];

static struct esp_item sample(void) {
    struct esp_item item = {.data = {0}};
    memset(long_text, 'x', sizeof long_text);
    item.value[0] = esp_s(ESP_STR("key"));
    item.value[1] = esp_b((struct esp_str){"\0\xff", 2});
    item.value[2] = (struct esp_value){ESP_TYPE_N, ESP_STR("-1.5"), 0};
    item.value[3] = esp_s((struct esp_str){long_text, sizeof long_text});
    item.value[4] = (struct esp_value){ESP_TYPE_JSON, ESP_STR("{\"SS\":[\"a\",\"b\"]}"), 0};
    item.data = (struct esp_data){"\"name\":{\"S\":\"x\"},\"k\\\"\":{\"N\":\"5\"}", 32, 9};
    return item;
}

static void what_goes_in_comes_out(void **state) {
    (void)state;
    static const size_t lengths[] = {0, 1, 254, 255, 256, 65535, 65536, 70000};
    struct esp_buf buf;
    esp_buf_init(&buf, &esp_alloc_libc, SIZE_MAX);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct esp_item item = sample(), view;
        item.value[3].s.len = lengths[i];
        item.value[2] = i % 2 ? esp_n(INT64_MIN + (int64_t)i) : item.value[2];
        esp_buf_reset(&buf);
        esp_record_put(&buf, &schema, &item, 12345);
        assert_false(buf.failed);
        assert_int_equal(esp_record_size(esp_buf_str(&buf)), 12345);
        assert_true(esp_record_view(&schema, esp_buf_str(&buf), &view));
        assert_true(esp_item_equal(&schema, &item, &view));
        assert_int_equal(view.data.size, item.data.size);
        assert_int_equal(view.value[5].type, ESP_TYPE_NONE);
        assert_true(view.data.text + view.data.len == buf.ptr + buf.len);
    }
    esp_buf_fini(&buf);
}

/* Bytes from a disk may be anything.  In memory of exactly their length a sanitizer sees every
 * look behind them. */
static bool can_be_viewed(const char *bytes, size_t len) {
    struct esp_item view;
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy + 1, bytes, len);
    bool good = esp_record_view(&schema, (struct esp_str){copy + 1, len}, &view);
    if (good) {
        assert_true(view.data.text + view.data.len == copy + 1 + len);
        assert_int_equal(view.value[0].type, ESP_TYPE_S);
        assert_true(view.value[0].s.len <= ESP_PK_BYTES_MAX);
        assert_true(view.value[1].s.len <= ESP_SK_BYTES_MAX);
        for (size_t i = 0; i < schema.attr_count; i++) {
            struct esp_str s = view.value[i].s;
            assert_true(s.len == 0 || (s.ptr > copy && s.ptr + s.len <= copy + 1 + len));
        }
    } else {
        assert_int_equal(view.value[0].type, ESP_TYPE_NONE);
        assert_int_equal(view.data.len, 0);
    }
    free(copy);
    return good;
}

static void a_damaged_record_is_noticed(void **state) {
    (void)state;
    struct esp_buf buf;
    struct esp_item item = sample();
    struct esp_rng rng;
    item.value[3].s.len = 300;
    esp_rng_init(&rng, 5, 0);
    esp_buf_init(&buf, &esp_alloc_libc, SIZE_MAX);
    esp_record_put(&buf, &schema, &item, 12345);
    assert_true(can_be_viewed(buf.ptr, buf.len));
    for (size_t len = 0; len < buf.len; len++) { /* cut off anywhere */
        assert_false(can_be_viewed(buf.ptr, len));
    }
    for (size_t at = 0; at < buf.len; at++) { /* any byte another */
        for (int i = 0; i < 8; i++) {
            char was = buf.ptr[at];
            buf.ptr[at] = (char)(i == 0 ? 255 : esp_rng_below(&rng, 256));
            can_be_viewed(buf.ptr, buf.len);
            buf.ptr[at] = was;
        }
    }
    item.value[0] = esp_s((struct esp_str){long_text, ESP_PK_BYTES_MAX + 1}); /* no key */
    esp_buf_reset(&buf);
    esp_record_put(&buf, &schema, &item, 12345);
    assert_false(can_be_viewed(buf.ptr, buf.len));
    esp_buf_fini(&buf);
}

static void projections_keep_what_they_name(void **state) {
    (void)state;
    struct esp_index index = {.pk = 2, .sk = -1, .projection = ESP_PROJECT_INCLUDE};
    struct esp_item item = sample(), part;
    struct esp_arena arena;
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    index.include[0] = ESP_STR("k\"");
    index.include[1] = ESP_STR("set");
    index.include_count = 2;
    assert_status(ESP_OK, esp_item_project(&schema, &index, &item, &arena, &part, NULL));
    assert_int_equal(part.value[0].type, ESP_TYPE_S);
    assert_int_equal(part.value[1].type, ESP_TYPE_B);
    assert_int_equal(part.value[2].type, ESP_TYPE_N);
    assert_int_equal(part.value[3].type, ESP_TYPE_NONE);
    assert_int_equal(part.value[4].type, ESP_TYPE_JSON);
    assert_int_equal(part.data.len, 15);
    assert_memory_equal(part.data.text, "\"k\\\"\":{\"N\":\"5\"}", 15);
    assert_int_equal(esp_item_size(&schema, &part), esp_entry_size(&schema, &index, &item));
    index.projection = ESP_PROJECT_KEYS;
    index.include_count = 0;
    assert_status(ESP_OK, esp_item_project(&schema, &index, &item, &arena, &part, NULL));
    assert_int_equal(part.value[4].type, ESP_TYPE_NONE);
    assert_int_equal(part.data.len, 0);
    assert_int_equal(esp_item_size(&schema, &part), esp_entry_size(&schema, &index, &item));
    esp_arena_fini(&arena);
}

static void a_recast_there_and_back_changes_nothing(void **state) {
    (void)state;
    struct esp_schema other = schema;
    struct esp_item item = sample(), there, back;
    struct esp_arena arena;
    esp_arena_init(&arena, &esp_alloc_libc, SIZE_MAX);
    other.attr[2] = (struct esp_attr){ESP_STR("name"), ESP_TYPE_NONE};
    other.attr[4] = schema.attr[3]; /* elsewhere */
    other.attr[3] = (struct esp_attr){ESP_STR("k\""), ESP_TYPE_NONE};
    assert_false(esp_schema_same_attrs(&schema, &other));
    assert_true(esp_schema_same_attrs(&schema, &schema));
    assert_status(ESP_OK, esp_item_recast(&schema, &other, &item, &arena, &there, NULL));
    assert_int_equal(there.value[2].type, ESP_TYPE_S);
    assert_int_equal(there.value[3].n, 5);
    assert_int_equal(there.value[4].s.len, sizeof long_text);
    assert_int_equal(esp_item_size(&schema, &item), esp_item_size(&other, &there));
    assert_status(ESP_OK, esp_item_recast(&other, &schema, &there, &arena, &back, NULL));
    assert_true(esp_item_equal(&schema, &item, &back));
    assert_int_equal(back.data.size, item.data.size);
    esp_arena_fini(&arena);
}

/* --- the map in memory ---------------------------------------------------------- */

enum { KEYS = 3000 };

static struct esp_str key_of(uint32_t i, char text[32]) {
    int len = snprintf(text, 32, "same-beginning-%06u", i);
    return (struct esp_str){text, (size_t)len};
}

static void check_tree(const struct esp_btree *tree, const uint32_t *value) {
    struct esp_btree_place place;
    char text[32];
    struct esp_entry *entry = esp_btree_at_or_after(tree, ESP_STR(""), &place);
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct esp_entry *found = esp_btree_find(tree, key_of(i, text));
        assert_int_equal(found != NULL, value[i] != 0);
        if (value[i]) {
            assert_ptr_equal(found, entry);
            assert_memory_equal(esp_entry_value(found).ptr, &value[i], sizeof value[i]);
            entry = esp_btree_next(&place);
        }
    }
    assert_null(entry);
    entry = esp_btree_before(tree, ESP_STR("t"), &place);
    for (uint32_t i = KEYS; i-- > 0;) {
        if (value[i]) {
            assert_true(esp_str_eq(esp_entry_key(entry), key_of(i, text)));
            entry = esp_btree_previous(&place);
        }
    }
    assert_null(entry);
}

static void the_tree_is_a_sorted_map(void **state) {
    (void)state;
    static uint32_t value[KEYS];
    struct esp_btree tree = {0};
    struct esp_rng rng;
    memset(value, 0, sizeof value);
    esp_rng_init(&rng, 4, 0);
    for (uint32_t step = 1; step <= 40000; step++) {
        char text[32];
        uint32_t i = (uint32_t)esp_rng_below(&rng, KEYS);
        struct esp_entry *old;
        bool shrink = step / 10000 % 2; /* grows, then nearly empties, twice */
        if (esp_rng_below(&rng, 10) < (shrink ? 9u : 2u)) {
            old = esp_btree_remove(&tree, key_of(i, text));
            assert_int_equal(old != NULL, value[i] != 0);
            value[i] = 0;
        } else {
            struct esp_entry *entry =
                esp_entry_new(&esp_alloc_libc, key_of(i, text),
                              (struct esp_str){(const char *)&step, sizeof step});
            assert_non_null(entry);
            assert_status(ESP_OK, esp_btree_put(&tree, &esp_alloc_libc, entry, &old));
            assert_int_equal(old != NULL, value[i] != 0);
            value[i] = step;
        }
        esp_entry_free(&esp_alloc_libc, old);
        if (step % 5000 == 0) {
            check_tree(&tree, value);
        }
    }
    esp_btree_clear(&tree, &esp_alloc_libc);
    assert_null(esp_btree_find(&tree, ESP_STR("x")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(a_damaged_record_is_noticed),
        cmocka_unit_test(projections_keep_what_they_name),
        cmocka_unit_test(a_recast_there_and_back_changes_nothing),
        cmocka_unit_test(the_tree_is_a_sorted_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
