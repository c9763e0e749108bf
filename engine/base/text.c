/* SPDX-License-Identifier: MIT
**
** text.c -- parses the parts of texts like `name = 12`; see text.h.
**
** DOUBLES   strtod converts exactly, but expects the decimal point of the
**           host's locale.  It is therefore passed an integer with an exponent,
**           which needs no point: 5e-2 for 0.05.
*/
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 64, EXPONENT_MAX = 9999 };

const char *text_space(const char *at) {
  while (text_is_space(*at)) {
    at++;
  }
  return at;
}

size_t text_name(const char *at) {
  size_t n = 0;
  while (text_is_name(at[n])) {
    n++;
  }
  return n;
}

size_t text__dashed(const char *at) {
  size_t n = text_name(at);
  while (n > 0 && at[n] == '-' && text_name(at + n + 1) > 0) {
    n += 1 + text_name(at + n + 1);
  }
  return n;
}

size_t text_trimmed(const char *at, size_t length) {
  while (length > 0 && text_is_space(at[length - 1])) {
    length--;
  }
  return length;
}

int text_word(const char **at, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*at, word, n) != 0) {
    return 0;
  }
  *at += n;
  return 1;
}

int text__equals(const char **at) {
  const char *equals = text_space(*at);
  if (*equals != '=') {
    return 0;
  }
  *at = text_space(equals + 1);
  return 1;
}

int text_digits(const char **at, uint64_t most, uint64_t *number) {
  const char *to = *at;
  uint64_t n = 0;
  for (; text_is_digit(*to); to++) {
    uint64_t digit = (uint64_t)(*to - '0');
    if (digit > most || n > (most - digit) / 10) {
      return 0;
    }
    n = n * 10 + digit;
  }
  if (to == *at) {
    return 0;
  }
  *at = to;
  *number = n;
  return 1;
}

int text_whole(const char *text, uint64_t least, uint64_t most,
               uint64_t *number) {
  return text_digits(&text, most, number) && *text == 0 && *number >= least;
}

/* Copies digits; returns their number, including those that did not fit. */
static size_t copy_digits(const char *from, char *to, size_t room) {
  size_t n = 0;
  for (; text_is_digit(from[n]); n++) {
    if (n < room) {
      to[n] = from[n];
    }
  }
  return n;
}

/* Parses "e-5" and returns its length; 0: no digits. */
static size_t scan_exponent(const char *text, long *exponent) {
  const char *at = text + 1 + (text[1] == '-' || text[1] == '+');
  if (!text_is_digit(*at)) {
    return 0;
  }
  for (; text_is_digit(*at); at++) {
    if (*exponent < EXPONENT_MAX) { /* beyond: always 0 or infinite */
      *exponent = *exponent * 10 + (*at - '0');
    }
  }
  *exponent = text[1] == '-' ? -*exponent : *exponent;
  return (size_t)(at - text);
}

size_t text__double(const char *text, double *value) {
  char plain[DIGITS_MAX + 16];
  const char *at = text + (*text == '-');
  size_t n = copy_digits(at, plain, DIGITS_MAX), fraction = 0;
  long exponent = 0;
  at += n;
  if (n > 0 && n <= DIGITS_MAX && *at == '.') {
    fraction = copy_digits(at + 1, plain + n, DIGITS_MAX - n);
    at += 1 + fraction;
    if (fraction == 0) {
      return 0;
    }
  }
  if (n == 0 || n + fraction > DIGITS_MAX) {
    return 0;
  }
  if (*at == 'e' || *at == 'E') {
    size_t length = scan_exponent(at, &exponent);
    if (length == 0) {
      return 0;
    }
    at += length;
  }
  (void)snprintf(plain + n + fraction, 16, "e%ld", exponent - (long)fraction);
  *value = strtod(plain, NULL);
  if (*text == '-' && *value != 0) {
    *value = -*value;
  }
  return (size_t)(at - text);
}
