#include "core/number.h"

#include <stdlib.h>

enum { MAGNITUDE_MIN = -129, MAGNITUDE_MAX = 126 }; /* of `exponent`: 1E-130 .. 9.9E+125 */

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Digits and exponent without leading and trailing zeros, or zero. */
static void normalise(struct esp_number *n) {
    size_t first = 0;
    while (first < n->count && n->digit[first] == 0) {
        first++;
    }
    while (n->count > first && n->digit[n->count - 1] == 0) {
        n->count--;
    }
    n->count = (uint8_t)(n->count - first);
    memmove(n->digit, n->digit + first, n->count);
    n->exponent = (int16_t)(n->exponent - (int16_t)first);
    if (n->count == 0) {
        n->sign = 0;
        n->exponent = 0;
    }
}

static enum esp_status check_range(const struct esp_number *n, enum esp_status outside,
                                   struct esp_error *err) {
    if (n->count && n->exponent > MAGNITUDE_MAX) {
        return esp_fail(err, outside, "the number is larger than 9.99E+125");
    }
    if (n->count && n->exponent < MAGNITUDE_MIN) {
        return esp_fail(err, outside, "the number is closer to zero than 1E-130");
    }
    return ESP_OK;
}

/* The exponent after 'e'; saturates far outside the range.  False when it is no exponent. */
static bool parse_exponent(const char *at, const char *end, int *out) {
    bool negative = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) {
        at++;
    }
    if (at == end) {
        return false;
    }
    int value = 0;
    for (; at < end; at++) {
        if (!is_digit(*at)) {
            return false;
        }
        value = value > 100000 ? value : value * 10 + (*at - '0');
    }
    *out = negative ? -value : value;
    return true;
}

enum esp_status esp_number_parse(struct esp_str text, struct esp_number *out,
                                 struct esp_error *err) {
    const char *at = text.len ? text.ptr : "", *end = at + text.len;
    *out = (struct esp_number){.sign = 1};
    if (at < end && (*at == '+' || *at == '-')) {
        out->sign = *at++ == '-' ? -1 : 1;
    }
    /* `point` is where the decimal point is, counted from the first significant digit. */
    int point = 0, seen = 0;
    bool after_point = false;
    size_t pending_zeros = 0;
    for (; at < end && (is_digit(*at) || (*at == '.' && !after_point)); at++) {
        if (*at == '.') {
            after_point = true;
            continue;
        }
        seen = 1;
        bool leading = *at == '0' && out->count == 0;
        if (!after_point && !leading) {
            point = point > 100000 ? point : point + 1;
        } else if (after_point && leading) {
            point = point < -100000 ? point : point - 1;
        }
        if (leading) {
            continue;
        }
        if (*at == '0') {
            pending_zeros++; /* counts only if another digit follows */
            continue;
        }
        if (out->count + pending_zeros + 1 > ESP_NUMBER_DIGITS_MAX) {
            return esp_fail(err, ESP_ERR_INPUT, "the number has more than 38 significant digits");
        }
        memset(out->digit + out->count, 0, pending_zeros);
        out->count = (uint8_t)(out->count + pending_zeros);
        pending_zeros = 0;
        out->digit[out->count++] = (uint8_t)(*at - '0');
    }
    int exponent = 0;
    if (!seen ||
        (at < end && ((*at != 'e' && *at != 'E') || !parse_exponent(at + 1, end, &exponent)))) {
        return esp_fail(err, ESP_ERR_INPUT, "'%.*s' is not a number",
                        (int)(text.len < 60 ? text.len : 60), text.ptr ? text.ptr : "");
    }
    if (out->count == 0) {
        *out = (struct esp_number){0};
        return ESP_OK;
    }
    int magnitude = point + exponent;
    out->exponent = (int16_t)(magnitude > 1000 ? 1000 : magnitude < -1000 ? -1000 : magnitude);
    return check_range(out, ESP_ERR_INPUT, err);
}

void esp_number_from_i64(int64_t value, struct esp_number *out) {
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char digits[20];
    size_t count = 0;
    *out = (struct esp_number){.sign = value < 0 ? -1 : 1};
    while (rest) {
        digits[count++] = (char)(rest % 10);
        rest /= 10;
    }
    for (size_t i = 0; i < count; i++) {
        out->digit[i] = (uint8_t)digits[count - 1 - i];
    }
    out->count = (uint8_t)count;
    out->exponent = (int16_t)count;
    normalise(out);
}

bool esp_number_to_i64(const struct esp_number *n, int64_t *out) {
    if (n->count == 0) {
        *out = 0;
        return true;
    }
    if (n->exponent < n->count || n->exponent > 19) {
        return false; /* a fraction, or too large */
    }
    uint64_t value = 0;
    for (int i = 0; i < n->exponent; i++) {
        uint64_t digit = i < n->count ? n->digit[i] : 0;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    uint64_t limit = (uint64_t)INT64_MAX + (n->sign < 0);
    if (value > limit) {
        return false;
    }
    *out = n->sign < 0 ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

double esp_number_to_double(const struct esp_number *n) {
    char text[ESP_NUMBER_TEXT_MAX + 1];
    text[esp_number_format(n, text)] = 0;
    return strtod(text, NULL);
}

size_t esp_number_format(const struct esp_number *n, char out[ESP_NUMBER_TEXT_MAX]) {
    char *at = out;
    if (n->count == 0) {
        *at++ = '0';
        return 1;
    }
    if (n->sign < 0) {
        *at++ = '-';
    }
    if (n->exponent <= 0) {
        *at++ = '0';
    }
    for (int i = 0; i < n->exponent; i++) {
        *at++ = (char)('0' + (i < n->count ? n->digit[i] : 0));
    }
    if (n->count > n->exponent) {
        *at++ = '.';
        for (int i = n->exponent; i < 0; i++) {
            *at++ = '0';
        }
        for (int i = n->exponent > 0 ? n->exponent : 0; i < n->count; i++) {
            *at++ = (char)('0' + n->digit[i]);
        }
    }
    return (size_t)(at - out);
}

static int cmp_magnitude(const struct esp_number *a, const struct esp_number *b) {
    if (a->exponent != b->exponent) {
        return a->exponent < b->exponent ? -1 : 1;
    }
    size_t common = a->count < b->count ? a->count : b->count;
    int order = memcmp(a->digit, b->digit, common);
    if (order) {
        return order < 0 ? -1 : 1;
    }
    return (a->count > b->count) - (a->count < b->count);
}

int esp_number_cmp(const struct esp_number *a, const struct esp_number *b) {
    if (a->sign != b->sign) {
        return a->sign < b->sign ? -1 : 1;
    }
    return a->sign == 0 ? 0 : a->sign * cmp_magnitude(a, b);
}

/* Digits laid out on a common grid: position 0 is worth 10^(top-1). */
enum { GRID_DIGITS = 260 };

static void lay_out(const struct esp_number *n, int top, uint8_t grid[GRID_DIGITS]) {
    memset(grid, 0, GRID_DIGITS);
    memcpy(grid + (top - n->exponent), n->digit, n->count);
}

enum esp_status esp_number_add(const struct esp_number *a, const struct esp_number *b,
                               struct esp_number *sum, struct esp_error *err) {
    if (a->count == 0 || b->count == 0) {
        *sum = a->count == 0 ? *b : *a;
        return ESP_OK;
    }
    const struct esp_number *big = cmp_magnitude(a, b) >= 0 ? a : b, *small = big == a ? b : a;
    int top = big->exponent + 1; /* room for a carry */
    if (top - small->exponent + small->count > GRID_DIGITS) {
        return esp_fail(err, ESP_ERR_LIMIT, "the sum has more than 38 significant digits");
    }
    uint8_t x[GRID_DIGITS], y[GRID_DIGITS];
    lay_out(big, top, x);
    lay_out(small, top, y);
    int carry = 0, direction = a->sign == b->sign ? 1 : -1;
    for (int i = GRID_DIGITS - 1; i >= 0; i--) {
        int digit = x[i] + direction * y[i] + carry;
        carry = digit < 0 ? -1 : digit > 9;
        x[i] = (uint8_t)(digit - 10 * carry);
    }
    int first = 0, last = GRID_DIGITS;
    while (first < last && x[first] == 0) {
        first++;
    }
    while (last > first && x[last - 1] == 0) {
        last--;
    }
    if (last - first > ESP_NUMBER_DIGITS_MAX) {
        return esp_fail(err, ESP_ERR_LIMIT, "the sum has more than 38 significant digits");
    }
    *sum = (struct esp_number){.sign = first == last ? 0 : big->sign,
                               .count = (uint8_t)(last - first),
                               .exponent = (int16_t)(first == last ? 0 : top - first)};
    memcpy(sum->digit, x + first, sum->count);
    return check_range(sum, ESP_ERR_LIMIT, err);
}

/* Facts sheet 3.2: e is the exponent of d0.d1d2..., so digits are paired on the point. */
static uint32_t size_of(int e, uint32_t digits, bool negative) {
    uint32_t pairs = e & 1 ? (digits + 1) / 2 : digits / 2 + 1;
    uint32_t size = 1 + pairs + negative;
    return size > 21 ? 21 : size;
}

uint32_t esp_number_size(const struct esp_number *n) {
    return n->count == 0 ? 1 : size_of(n->exponent - 1, n->count, n->sign < 0);
}

uint32_t esp_number_size_i64(int64_t value) {
    if (value == 0) {
        return 1;
    }
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint32_t zeros = 0, digits = 0;
    while (rest % 10 == 0) {
        rest /= 10;
        zeros++;
    }
    for (; rest; rest /= 10) {
        digits++;
    }
    return size_of((int)(digits + zeros) - 1, digits, value < 0);
}

/* Sign, exponent, then digits in pairs + 1, closed by 0; everything inverted for negative
 * numbers, so that a larger magnitude sorts first. */
size_t esp_number_key(const struct esp_number *n, unsigned char out[ESP_NUMBER_KEY_MAX]) {
    size_t len = 0;
    if (n->count == 0) {
        out[len++] = 0x80;
        return len;
    }
    out[len++] = n->sign < 0 ? 0x00 : 0xFF;
    out[len++] = (unsigned char)(n->exponent - MAGNITUDE_MIN);
    for (int i = 0; i < n->count; i += 2) {
        int low = i + 1 < n->count ? n->digit[i + 1] : 0;
        out[len++] = (unsigned char)(n->digit[i] * 10 + low + 1);
    }
    out[len++] = 0;
    for (size_t i = 1; n->sign < 0 && i < len; i++) {
        out[i] = (unsigned char)~out[i];
    }
    return len;
}
