#ifndef ESP_CORE_NUMBER_H
#define ESP_CORE_NUMBER_H
/*
 * DynamoDB numbers: decimal, up to 38 significant digits, magnitude 1E-130 to
 * 9.99E+125 (shared facts sheet 2.2).  A double is not enough, so a number is
 * digits and an exponent.
 */
#include "core/mem.h"

enum { ESP_NUMBER_DIGITS_MAX = 38, ESP_NUMBER_TEXT_MAX = 172 };

/* value = sign * 0.d1d2d3... * 10^exponent; no leading or trailing zero digits. */
struct esp_number {
    int8_t sign;                          /* -1, 0 (the number is zero), 1 */
    uint8_t count;                        /* significant digits; 0 for zero */
    int16_t exponent;                     /* position of the decimal point */
    uint8_t digit[ESP_NUMBER_DIGITS_MAX]; /* 0..9, most significant first */
};

/* Accepts what DynamoDB accepts ("5", "+5", "-5", "005", ".5", "5.", "1e2", "1.e5");
 * refuses blanks, "", "1e", "NaN", "0x10", over 38 digits, out of range.
 * ERR_INPUT with a sentence that says which. */
enum esp_status esp_number_parse(struct esp_str text, struct esp_number *out,
                                 struct esp_error *err) ESP_MUST_CHECK;
void esp_number_from_i64(int64_t value, struct esp_number *out);
/* True, and *out, when the number is whole and fits. */
bool esp_number_to_i64(const struct esp_number *n, int64_t *out);
double esp_number_to_double(const struct esp_number *n);
/* Canonical text as DynamoDB returns it: plain decimal, no exponent, no useless
 * zeros, no "+", no "-0".  Returns the length; `out` is not NUL-terminated. */
size_t esp_number_format(const struct esp_number *n, char out[ESP_NUMBER_TEXT_MAX]);
int esp_number_cmp(const struct esp_number *a, const struct esp_number *b); /* -1, 0, 1 */
/* Exact sum; ERR_LIMIT when it needs more than 38 digits or leaves the range. */
enum esp_status esp_number_add(const struct esp_number *a, const struct esp_number *b,
                               struct esp_number *sum, struct esp_error *err) ESP_MUST_CHECK;

/* Bytes DynamoDB charges for the value (facts sheet 3.2: digits in pairs aligned on
 * the decimal point + 1, + 1 when negative, at most 21): 1 for zero, else 2..21. */
uint32_t esp_number_size(const struct esp_number *n);
uint32_t esp_number_size_i64(int64_t value); /* the same, fast */

/* Order-preserving bytes: memcmp order of encodings = numeric order, and equal
 * numbers encode equally.  Returns the length (1..ESP_NUMBER_KEY_MAX).  No
 * encoding is a proper prefix of another one. */
enum { ESP_NUMBER_KEY_MAX = 24 };
size_t esp_number_key(const struct esp_number *n, unsigned char out[ESP_NUMBER_KEY_MAX]);

#endif
