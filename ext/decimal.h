/* SPDX-License-Identifier: MIT
**
** decimal.h -- numbers as JSON writes them, exactly and in any locale.
**
** ROLE      Text to float32 and int64, float32 to text.  strtod and printf
**           read and write a decimal comma where the host process has set
**           such a locale, and SQLite's own conversions round twice on the
**           way to float32; so this is our own.
** EXACT     decimal_to_float gives the float nearest to the text, ties to
**           even, for any number of digits.  decimal_print gives the fewest
**           digits that decimal_to_float turns back into the same float.
** THREADS   No state.
*/
#ifndef EMB_EXT_DECIMAL_H
#define EMB_EXT_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

/* A scanned number: digits * 10^exponent, and a rest that matters only for
** rounding when `more` is set. */
struct decimal {
  uint64_t digits;  /* the first 19 significant digits */
  int64_t exponent; /* power of ten of the last of them */
  int negative;
  int more;         /* a digit after the 19th is not 0 */
  const char *text; /* the mantissa without its sign, borrowed; read only when
                       `more` is set */
  size_t text_size;
};

/* Scans a number of JSON's grammar at the start of text.  Returns how many
** bytes belong to it; *valid is 0 when the grammar breaks after them. */
size_t decimal_scan(const char *text, size_t size, struct decimal *number,
                    int *valid);

/* Infinite when float32 is too small, a signed zero when too coarse. */
float decimal_to_float(const struct decimal *number);

/* 1 and *out when the number is an integer that int64 holds, else 0. */
int decimal_to_int64(const struct decimal *number, int64_t *out);

/* "-0.000123456789" and "-1.23456789e-45" have 15. */
#define DECIMAL_PRINT_MAX 16

/* Writes a finite x as a JSON number, not terminated; returns its length. */
size_t decimal_print(float x, char out[DECIMAL_PRINT_MAX]);

#endif
