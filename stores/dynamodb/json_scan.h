#ifndef ESP_STORES_DYNAMODB_JSON_SCAN_H
#define ESP_STORES_DYNAMODB_JSON_SCAN_H
/*
 * Finds the members of JSON text in one pass and hands out pieces of that text: no tree,
 * no copies, no recursion.  It trusts what is inside a value as long as strings and
 * brackets close; whoever uses a value checks it (esp_item_parse does).
 */
#include "core/mem.h"

/* A walk over an object or an array.  `text` is borrowed. */
struct esp_json_walk {
    const char *at, *end;
    bool first;
    bool broken; /* the text is not JSON: what came before the break was handed out */
};
/* False when the text is not an object / an array. */
bool esp_json_object(struct esp_str text, struct esp_json_walk *walk);
bool esp_json_array(struct esp_str text, struct esp_json_walk *walk);
/* The next member or element; false at the end, or where the text is broken.  Names come
 * as they are written, without quotes; values without blanks around them. */
bool esp_json_member(struct esp_json_walk *walk, struct esp_str *name, struct esp_str *value);
bool esp_json_element(struct esp_json_walk *walk, struct esp_str *value);

/* The value of a member of an object; len == 0 when there is none. */
struct esp_str esp_json_find(struct esp_str object, const char *name);
/* A number's value; 0 for anything else. */
double esp_json_number(struct esp_str value);
/* Append a string's characters without quotes and escapes; false when it is none. */
bool esp_json_put_text(struct esp_buf *out, struct esp_str value);

#endif
