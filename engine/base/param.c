/* SPDX-License-Identifier: MIT
**
** param.c -- choices with parameters, as text; see param.h.
**
** NUMBERS   strtod and snprintf convert exactly, but with the decimal point of
**           the host's locale.  So a number is handed to strtod as an integer
**           with an exponent, which needs no point (0.05 as 5e-2), and only
**           the digits and the exponent of snprintf's text are used.
*/
#include "param.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 64, EXPONENT_MAX = 9999, SHOWN_MAX = 40 };

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         c == '_';
}

static const char *skip_space(const char *at) {
  while (is_space(*at)) {
    at++;
  }
  return at;
}

static size_t name_length(const char *at) {
  size_t n = 0;
  while (is_name(at[n])) {
    n++;
  }
  return n;
}

static int same(const char *name, const char *at, size_t n) {
  return strlen(name) == n && memcmp(name, at, n) == 0;
}

/* How much of a text an error shows: up to the next delimiter. */
static int shown(const char *at) {
  size_t n = strcspn(at, ",() \t\r\n");
  n = n == 0 && *at != 0 ? 1 : n;
  return n < SHOWN_MAX ? (int)n : SHOWN_MAX;
}

/* ---- numbers ------------------------------------------------------------ */

/* Copies digits; returns how many.  Those that do not fit are counted too. */
static size_t take_digits(const char *from, char *to, size_t room) {
  size_t n = 0;
  for (; is_digit(from[n]); n++) {
    if (n < room) {
      to[n] = from[n];
    }
  }
  return n;
}

/* Reads the number at text; returns its length, 0 if there is none or it is
** too long. */
static size_t read_number(const char *text, double *value) {
  char plain[NUMBER_MAX + 16];
  const char *at = text + (*text == '-');
  size_t n = take_digits(at, plain, NUMBER_MAX), fraction = 0;
  long exponent = 0;
  at += n;
  if (n > 0 && n <= NUMBER_MAX && *at == '.') {
    fraction = take_digits(at + 1, plain + n, NUMBER_MAX - n);
    at += 1 + fraction;
    if (fraction == 0) {
      return 0;
    }
  }
  if (n == 0 || n + fraction > NUMBER_MAX) {
    return 0;
  }
  if (*at == 'e' || *at == 'E') {
    int negative = at[1] == '-';
    at += 1 + (at[1] == '-' || at[1] == '+');
    if (!is_digit(*at)) {
      return 0;
    }
    for (; is_digit(*at); at++) {
      if (exponent < EXPONENT_MAX) { /* beyond it all are 0 or infinite */
        exponent = exponent * 10 + (*at - '0');
      }
    }
    exponent = negative ? -exponent : exponent;
  }
  (void)snprintf(plain + n + fraction, 16, "e%ld", exponent - (long)fraction);
  *value = strtod(plain, NULL);
  if (*text == '-' && *value != 0) {
    *value = -*value;
  }
  return (size_t)(at - text);
}

/* digits * 10^(exponent - n + 1), written as 0.05, 12, 1.5e-10.  The room is
** enough for 17 digits and what stands between them. */
static void write_number(const char *digits, int n, int exponent, char *to) {
  int plain = exponent >= -4 && exponent <= 8;
  int point = plain ? exponent + 1 : 1; /* where it stands in the digits */
  for (int i = point < 1 ? point - 1 : 0; i < n || i < point; i++) {
    if (i == point) {
      *to++ = '.';
    }
    *to++ = i >= 0 && i < n ? digits[i] : '0';
  }
  (void)snprintf(to, 8, plain ? "%s" : "%se%d", "", exponent);
}

enum { PRINT_MAX = 40 };

static void print_number(double x, char to[PRINT_MAX]) {
  char text[PRINT_MAX], digits[20];
  double back = 0;
  assert(isfinite(x));
  if (x < 0) {
    *to++ = '-';
  }
  for (int precision = 0;; precision++) {
    int n = 0, exponent = 0;
    (void)snprintf(text, sizeof text, "%.*e", precision, fabs(x));
    const char *e = strchr(text, 'e');
    for (const char *at = text; at < e; at++) {
      if (is_digit(*at)) {
        digits[n++] = *at;
      }
    }
    exponent = (int)strtol(e + 1, NULL, 10);
    write_number(digits, n, exponent, to);
    (void)read_number(to, &back);
    if (back == fabs(x) || precision == 16) {
      return; /* 17 digits name every double */
    }
  }
}

/* ---- parsing ------------------------------------------------------------ */

/* Parameter number i of a kind: its own, then the common ones; NULL after the
** last. */
static const struct param *param_at(const struct param_list *list,
                                    const struct param_kind *kind, int i) {
  const struct param *own = kind->param;
  for (; own->name; own++) {
    if (i-- == 0) {
      return own;
    }
  }
  return list->common[i].name ? &list->common[i] : NULL;
}

static double *value_of(void *to, const struct param *param) {
  return (double *)(void *)((char *)to + param->at);
}

static int check_range(const struct param_kind *kind, const struct param *param,
                       double value, const char *text, emb_err *err) {
  char low[PRINT_MAX], high[PRINT_MAX];
  if (value >= param->low && value <= param->high &&
      (!param->whole || value == floor(value))) {
    return EMB_OK;
  }
  print_number(param->low, low);
  print_number(param->high, high);
  return err_set(err, EMB_RANGE, "%s: %s must be %sbetween %s and %s, got %.*s",
                 kind->name, param->name, param->whole ? "a whole number " : "",
                 low, high, shown(text), text);
}

/* Reads `name = number` at *at and moves on. */
static int parse_one(const struct param_list *list,
                     const struct param_kind *kind, const char **at, void *to,
                     uint32_t *seen, emb_err *err) {
  const char *name = *at;
  size_t n = name_length(name);
  const struct param *param;
  double value;
  int i = 0;
  while ((param = param_at(list, kind, i)) && !same(param->name, name, n)) {
    i++;
  }
  if (n == 0) {
    return err_set(err, EMB_RANGE, "%s: expected a parameter, got \"%.*s\"",
                   kind->name, shown(name), name);
  }
  if (param == NULL) {
    return err_set(err, EMB_RANGE, "%s: unknown parameter: %.*s", kind->name,
                   n < SHOWN_MAX ? (int)n : SHOWN_MAX, name);
  }
  assert(i < PARAM_MAX);
  if (*seen & 1u << i) {
    return err_set(err, EMB_RANGE, "%s: %s is given twice", kind->name,
                   param->name);
  }
  *seen |= 1u << i;
  *at = skip_space(name + n);
  if (**at != '=') {
    return err_set(err, EMB_RANGE, "%s: expected = after %s, got \"%.*s\"",
                   kind->name, param->name, shown(*at), *at);
  }
  *at = skip_space(*at + 1);
  n = read_number(*at, &value);
  if (n == 0 || is_name((*at)[n]) || (*at)[n] == '.') {
    return err_set(err, EMB_RANGE, "%s: %s is not a number: \"%.*s\"",
                   kind->name, param->name, shown(*at), *at);
  }
  if (check_range(kind, param, value, *at, err)) {
    return EMB_RANGE;
  }
  *value_of(to, param) = value;
  *at = skip_space(*at + n);
  return EMB_OK;
}

/* What follows the name. */
static int parse_rest(const struct param_list *list,
                      const struct param_kind *kind, const char *at, void *to,
                      emb_err *err) {
  uint32_t seen = 0;
  if (*at == '(') {
    at = skip_space(at + 1);
    while (*at != ')') {
      if (parse_one(list, kind, &at, to, &seen, err)) {
        return EMB_RANGE;
      }
      if (*at == ',') {
        at = skip_space(at + 1);
        if (*at != ')') {
          continue;
        }
        return err_set(err, EMB_RANGE, "%s: expected a parameter, got \")\"",
                       kind->name);
      }
      if (*at != ')') {
        return err_set(err, EMB_RANGE, "%s: expected , or ), got \"%.*s\"",
                       kind->name, shown(at), at);
      }
    }
    at = skip_space(at + 1);
  }
  return *at == 0 ? EMB_OK
                  : err_set(err, EMB_RANGE, "%s: more text at the end: %.*s",
                            kind->name, shown(at), at);
}

int param_parse(const struct param_list *list, const char *text, void *to,
                uint32_t *kind, emb_err *err) {
  const char *at = skip_space(text);
  size_t n = name_length(at);
  const struct param_kind *found = list->kinds;
  const struct param *param;
  while (found->name && !same(found->name, at, n)) {
    found++;
  }
  if (found->name == NULL) {
    return err_set(err, EMB_RANGE, "unknown %s: %.*s", list->what,
                   n ? (n < SHOWN_MAX ? (int)n : SHOWN_MAX) : shown(at), at);
  }
  *kind = (uint32_t)(found - list->kinds);
  for (int i = 0; (param = param_at(list, found, i)); i++) {
    *value_of(to, param) = param->value;
  }
  return parse_rest(list, found, skip_space(at + n), to, err);
}

size_t param_print(const struct param_list *list, uint32_t kind,
                   const void *from, char *out, size_t size) {
  const struct param_kind *it = &list->kinds[kind];
  const struct param *param;
  int n = snprintf(out, size, "%s(", it->name);
  for (int i = 0; (param = param_at(list, it, i)); i++) {
    char number[PRINT_MAX];
    double value;
    memcpy(&value, (const char *)from + param->at, sizeof value);
    print_number(value, number);
    if (n < 0 || (size_t)n >= size) {
      return 0;
    }
    n += snprintf(out + n, size - (size_t)n, "%s%s=%s", i ? ", " : "",
                  param->name, number);
  }
  if (n < 0 || (size_t)n + 1 >= size) {
    return 0;
  }
  memcpy(out + n, ")", 2);
  return (size_t)n + 1;
}
