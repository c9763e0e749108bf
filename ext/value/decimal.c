/* SPDX-License-Identifier: MIT
**
** decimal.c -- JSON numbers to floats and back, exactly and in any locale.
**
** TO FLOAT  19 digits times a power of ten, in double, is within 2^-50 of the
**           number (at most four roundings of 2^-53 and a truncation of 1e-18).
**           If both ends of that interval round to the same float, that float
**           is the result; this holds for all but about one in 2^25 numbers.
**           Otherwise the two ends round to adjacent floats, and the number is
**           compared with the midpoint between them in big integers.  (The
**           scheme is Clinger's AlgorithmM with a float filter; see "How to
**           Read Floating Point Numbers Accurately", PLDI 1990.)
** PRINTING  For n = 1 .. 9 digits, the two n-digit decimals around x are
**           tried with ext_decimal_to_float.  The decimals that read back as x
**           form an interval around x, so if any n-digit decimal reads back as
**           x, one of these two does; with 9 digits one always does.
*/
#include "value.h"

#include <math.h>
#include <string.h>

/* 19 digits fit in uint64: 10^19 - 1 < 2^64. */
#define DIGITS_MAX 19

/* The midpoint of two floats has at most 113 significant digits (25 bits times
** 2^-150); from digits beyond 120, only whether all are zero matters. */
#define EXACT_DIGITS_MAX 120

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- scanning ------------------------------------------------------------ */

/* Adds one digit of the mantissa; `fraction`: it follows the decimal point. */
static void take_digit(struct decimal *number, int *count, char c,
                       int fraction) {
  if (*count > 0 || c != '0') {
    if (*count < DIGITS_MAX) {
      number->digits = number->digits * 10 + (uint64_t)(c - '0');
      ++*count;
    } else {
      number->more |= c != '0';
      ++number->exponent;
    }
  }
  if (fraction)
    --number->exponent;
}

/* Scans the digits after 'e'; returns the position after them. */
static size_t decimal_exponent(const char *text, size_t size, size_t at,
                               struct decimal *number) {
  int negative = 0;
  int64_t exponent = 0;
  if (at < size && (text[at] == '+' || text[at] == '-'))
    negative = text[at++] == '-';
  for (; at < size && is_digit(text[at]); at++) {
    if (exponent < INT64_C(1000000000000)) /* beyond any length of mantissa */
      exponent = exponent * 10 + (text[at] - '0');
  }
  number->exponent += negative ? -exponent : exponent;
  return at;
}

size_t ext_decimal_scan(const char *text, size_t size, struct decimal *number,
                        int *valid) {
  size_t at = 0, start;
  int count = 0;
  memset(number, 0, sizeof *number);
  *valid = 0;
  if (at < size && text[at] == '-') {
    number->negative = 1;
    at++;
  }
  number->text = text + at;
  start = at;
  if (at < size && text[at] == '0') {
    at++; /* JSON has no leading zeros */
  } else {
    for (; at < size && is_digit(text[at]); at++)
      take_digit(number, &count, text[at], 0);
  }
  if (at == start)
    return at;
  if (at < size && text[at] == '.') {
    start = ++at;
    for (; at < size && is_digit(text[at]); at++)
      take_digit(number, &count, text[at], 1);
    if (at == start)
      return at;
  }
  number->text_size = (size_t)(text + at - number->text);
  if (at < size && (text[at] == 'e' || text[at] == 'E')) {
    at = decimal_exponent(text, size, at + 1, number);
    if (!is_digit(text[at - 1]))
      return at;
  }
  *valid = 1;
  emb_check(ext_decimal_valid(number));
  return at;
}

int ext_decimal_to_int64(const struct decimal *number, int64_t *out) {
  uint64_t value = number->digits;
  uint64_t max = (uint64_t)INT64_MAX + (number->negative ? 1 : 0);
  int64_t exponent = number->exponent;
  if (number->more)
    return 0;
  for (; exponent < 0 && value != 0; exponent++) {
    if (value % 10 != 0)
      return 0;
    value /= 10;
  }
  for (; exponent > 0 && value != 0; exponent--) {
    if (value > max / 10)
      return 0;
    value *= 10;
  }
  if (value > max)
    return 0;
  if (number->negative && value != 0)
    *out = -(int64_t)(value - 1) - 1; /* no overflow on the way to INT64_MIN */
  else
    *out = (int64_t)value;
  return 1;
}

/* ---- big integers, only for ties and near ties --------------------------- */

/* The largest value is a 25-bit midpoint times 10^166 times 2^7: 640 bits. */
#define LIMBS_MAX 32

/* limb[0] is the least significant; limbs from n on are unused. */
struct big {
  uint32_t limb[LIMBS_MAX];
  int n;
};

/* b = b * factor + term */
static void big_mul_add(struct big *b, uint32_t factor, uint32_t term) {
  uint64_t carry = term;
  int i;
  for (i = 0; i < b->n; i++) {
    carry += (uint64_t)b->limb[i] * factor;
    b->limb[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry) {
    emb_assert(b->n < LIMBS_MAX);
    b->limb[b->n++] = (uint32_t)carry;
  }
}

/* b = b * base^power */
static void big_mul_power(struct big *b, uint32_t base, int64_t power) {
  for (; power > 0; power--)
    big_mul_add(b, base, 0);
}

static int big_compare(const struct big *a, const struct big *b) {
  int i;
  if (a->n != b->n)
    return a->n < b->n ? -1 : 1;
  for (i = a->n - 1; i >= 0; i--) {
    if (a->limb[i] != b->limb[i])
      return a->limb[i] < b->limb[i] ? -1 : 1;
  }
  return 0;
}

/* Reads the digits into b and returns the power of ten of the last one.
** Beyond EXACT_DIGITS_MAX digits, a final 1 stands for a nonzero remainder. */
static int64_t read_exact(const struct decimal *number, struct big *b) {
  int64_t exponent = number->exponent;
  int count = 0, rest = 0;
  size_t i;
  memset(b, 0, sizeof *b);
  b->limb[0] = (uint32_t)number->digits;
  b->limb[1] = (uint32_t)(number->digits >> 32);
  b->n = b->limb[1] ? 2 : 1;
  for (i = 0; number->more && i < number->text_size && !rest; i++) {
    char c = number->text[i];
    if (!is_digit(c) || (count == 0 && c == '0'))
      continue;
    count++;
    if (count > EXACT_DIGITS_MAX) {
      rest = c != '0';
    } else if (count > DIGITS_MAX) {
      big_mul_add(b, 10, (uint32_t)(c - '0'));
      exponent--;
    }
  }
  if (rest) {
    big_mul_add(b, 10, 1);
    exponent--;
  }
  return exponent;
}

/* Sign of |number| - midpoint, where midpoint > 0. */
static int compare_exact(const struct decimal *number, double midpoint) {
  struct big left, right;
  int64_t ten = read_exact(number, &left);
  int two;
  double mantissa = frexp(midpoint, &two);
  memset(&right, 0, sizeof right);
  big_mul_add(&right, 1, (uint32_t)ldexp(mantissa, 25));
  two -= 25;
  big_mul_power(ten > 0 ? &left : &right, 10, ten > 0 ? ten : -ten);
  big_mul_power(two > 0 ? &right : &left, 2, two > 0 ? two : -two);
  return big_compare(&left, &right);
}

/* ---- conversion ---------------------------------------------------------- */

/* x * 10^power with at most one rounding per 22 in power. */
static double decimal_scale(double x, int power) {
  static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                               1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                               1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  for (; power > 22; power -= 22)
    x *= ten[22];
  for (; power < -22; power += 22)
    x /= ten[22];
  return power < 0 ? x / ten[-power] : x * ten[power];
}

static uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static int count_digits(uint64_t value) {
  int count = 0;
  for (; value != 0; value /= 10)
    count++;
  return count;
}

float ext_decimal_to_float(const struct decimal *number) {
  /* the number is in [10^(magnitude-1), 10^magnitude) */
  int64_t magnitude = number->exponent + count_digits(number->digits);
  float low, high;
  if (number->digits == 0 || magnitude < -45) {
    low = 0; /* below 10^-46, less than half of the smallest float */
  } else if (magnitude > 39) {
    low = HUGE_VALF; /* 10^39 and above; the largest float is 3.4 * 10^38 */
  } else {
    double x = decimal_scale((double)number->digits, (int)number->exponent);
    low = (float)(x * (1 - 0x1p-50));
    high = (float)(x * (1 + 0x1p-50));
    if (low != high) {
      double above = isinf(high) ? 0x1p128 : (double)high;
      int side = compare_exact(number, ((double)low + above) / 2);
      if (side > 0 || (side == 0 && (float_bits(low) & 1)))
        low = high;
    }
  }
  return number->negative ? -low : low;
}

/* Returns the shortest digits that identify x > 0; *exponent is the power of
** ten of the last one. */
static uint64_t find_shortest(float x, int *exponent) {
  struct decimal number;
  int magnitude = (int)floor(log10((double)x));
  int n, i;
  if (decimal_scale((double)x, -magnitude) >= 10)
    magnitude++; /* log10 may be off by one rounding at a power of ten */
  else if (decimal_scale((double)x, -magnitude) < 1)
    magnitude--;
  memset(&number, 0, sizeof number);
  for (n = 1; n <= 9; n++) {
    double scaled = decimal_scale((double)x, n - 1 - magnitude);
    uint64_t below = (uint64_t)scaled;
    int nearer = scaled - (double)below > 0.5;
    number.exponent = *exponent = magnitude - (n - 1);
    for (i = 0; i < 2; i++) {
      number.digits = below + (uint64_t)(nearer ^ i);
      if (float_bits(ext_decimal_to_float(&number)) == float_bits(x))
        return number.digits;
    }
  }
  return number.digits; /* not reached: nine digits identify any float */
}

/* Writes value's decimal digits; returns their number. */
static int write_digits(uint64_t value, char *out) {
  int n = count_digits(value), i;
  for (i = n - 1; i >= 0; i--, value /= 10)
    out[i] = (char)('0' + value % 10);
  return n;
}

size_t ext_decimal_print(float x, char out[DECIMAL_PRINT_MAX]) {
  char digits[DIGITS_MAX];
  char *to = out;
  int n = 0, exponent = 0, point, i;
  emb_assert(isfinite(x));
  if (signbit(x))
    *to++ = '-';
  if (x != 0) {
    n = write_digits(find_shortest(fabsf(x), &exponent), digits);
    for (; digits[n - 1] == '0'; n--)
      exponent++;
  }
  point = n + exponent; /* position of the decimal point in digits */
  if (n == 0) {
    *to++ = '0';
  } else if (point > 9 || point < -3) { /* d.ddde-45 */
    for (i = 0; i < n; i++) {
      *to++ = digits[i];
      if (i == 0 && n > 1)
        *to++ = '.';
    }
    *to++ = 'e';
    point--;
    if (point < 0)
      *to++ = '-';
    to += write_digits((uint64_t)(point < 0 ? -point : point), to);
  } else { /* 0.000ddd, dd.ddd, ddd000 */
    for (i = point < 1 ? point - 1 : 0; i < n || i < point; i++) {
      if (i == point)
        *to++ = '.';
      *to++ = i >= 0 && i < n ? digits[i] : '0';
    }
  }
  return (size_t)(to - out);
}
