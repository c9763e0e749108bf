/* SPDX-License-Identifier: MIT
**
** param.c -- choices with parameters, as text; see param.h.
**
** NUMBERS   text.h parses them.  snprintf converts exactly, but with the
**           decimal point of the host's locale, so only the digits and the
**           exponent of its output are used.
*/
#include "param.h"
#include "debug.h"
#include "near.h"
#include "text.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 40 };

/* Length of the text that an error shows: up to the next delimiter. */
static int shown_length(const char *at) {
  size_t n = strcspn(at, ",() \t\r\n");
  n = n == 0 && *at != 0 ? 1 : n;
  return n < SHOWN_MAX ? (int)n : SHOWN_MAX;
}

/* ---- printing numbers ---------------------------------------------------- */

/* Writes digits * 10^(exponent - n + 1) as 0.05, 12, 1.5e-10.  `to` has room
** for 17 digits and the characters around them. */
static void write_number(const char *digits, int n, int exponent, char *to) {
  int plain = exponent >= -4 && exponent <= 8;
  int point = plain ? exponent + 1 : 1; /* its position in the digits */
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
  emb_assert(isfinite(x));
  if (x < 0) {
    *to++ = '-';
  }
  for (int precision = 0;; precision++) {
    int n = 0, exponent = 0;
    (void)snprintf(text, sizeof text, "%.*e", precision, fabs(x));
    const char *e = strchr(text, 'e');
    for (const char *at = text; at < e; at++) {
      if (text_is_digit(*at)) {
        digits[n++] = *at;
      }
    }
    exponent = (int)strtol(e + 1, NULL, 10);
    write_number(digits, n, exponent, to);
    (void)text_double(to, &back);
    if (back == fabs(x) || precision == 16) {
      return; /* 17 digits identify every double */
    }
  }
}

/* ---- parsing ------------------------------------------------------------- */

/* Returns parameter i of a kind: first its own, then the common ones; NULL
** after the last. */
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
                 low, high, shown_length(text), text);
}

static int unknown_parameter(const struct param_list *list,
                             const struct param_kind *kind, const char *name,
                             size_t n, emb_err *err) {
  const struct param *param;
  struct near near;
  near_start(&near, name, n);
  for (int i = 0; (param = param_at(list, kind, i)); i++) {
    near_offer(&near, param->name);
  }
  return err_set(err, EMB_RANGE, "%s: unknown parameter: %.*s%s", kind->name,
                 n < SHOWN_MAX ? (int)n : SHOWN_MAX, name, near_text(&near));
}

/* Parses a value at *at and advances *at past it. */
static int parse_value(const struct param_kind *kind, const struct param *param,
                       const char **at, double *value, emb_err *err) {
  const char *from = *at;
  uint64_t unit = 1;
  int is = 0, legal;
  if (param->is == PARAM_BOOL) {
    legal = unit__bool(at, &is);
    *value = is;
  } else {
    *at += text_double(*at, value);
    legal = *at > from;
  }
  if (legal && param->is >= PARAM_BYTES && text_name(text_space(*at)) > 0) {
    legal = unit__of_size(at, &unit);
    *value *= (double)unit;
    *value = param->is == PARAM_MIB ? ceil(*value / (1 << 20)) : *value;
  }
  if (legal && !text_is_name(**at) && **at != '.') {
    return check_range(kind, param, *value, from, err);
  }
  return err_set(err, EMB_RANGE, "%s: %s is not %s: \"%.*s\"", kind->name,
                 param->name,
                 param->is == PARAM_BOOL     ? "yes or no"
                 : param->is == PARAM_NUMBER ? "a number"
                                             : "a number or a size like 16MB",
                 shown_length(from), from);
}

/* What has been parsed of the parameters. */
struct param_seen {
  uint32_t given; /* bit i: parameter i */
  int alone;      /* number of values without a name */
  int is_named;   /* a value with a name has been parsed */
};

/* Parses `name =` at *at and returns the parameter's number; -1: an error. */
static int parse_name(const struct param_list *list,
                      const struct param_kind *kind, const char **at,
                      emb_err *err) {
  const char *name = *at;
  size_t n = text_dashed(name);
  const struct param *param;
  int i = 0;
  while ((param = param_at(list, kind, i)) &&
         !near_same(param->name, name, n)) {
    i++;
  }
  if (n == 0) {
    (void)err_set(err, EMB_RANGE, "%s: expected a parameter, got \"%.*s\"",
                  kind->name, shown_length(name), name);
    return -1;
  }
  if (param == NULL) {
    (void)unknown_parameter(list, kind, name, n, err);
    return -1;
  }
  *at = text_space(name + n);
  if (!text_equals(at)) {
    (void)err_set(err, EMB_RANGE, "%s: expected = after %s, got \"%.*s\"",
                  kind->name, param->name, shown_length(*at), *at);
    return -1;
  }
  return i;
}

/* Does a value without a name begin here? */
static int is_alone(const char *at) {
  const char *from = at;
  int is;
  return text_is_digit(*at) || *at == '-' ||
         (unit__bool(&at, &is) && !text_equals(&at) && at > from);
}

/* Parses `name = value`, or a value alone, at *at and advances *at past it. */
static int parse_one(const struct param_list *list,
                     const struct param_kind *kind, const char **at, void *to,
                     struct param_seen *seen, emb_err *err) {
  const char *from = *at;
  int alone = is_alone(from);
  int i = alone ? seen->alone++ : parse_name(list, kind, at, err);
  const struct param *param = i < 0 ? NULL : param_at(list, kind, i);
  double value = 0;
  if (i < 0) {
    return EMB_RANGE;
  }
  if (alone && (param == NULL || seen->is_named)) {
    return err_set(err, EMB_RANGE, "%s: %s, got \"%.*s\"", kind->name,
                   param ? "a value after one with a name needs a name too"
                         : "more values than parameters",
                   shown_length(from), from);
  }
  seen->is_named |= !alone;
  emb_assert(i < PARAM_MAX);
  if (seen->given & 1u << i) {
    return err_set(err, EMB_RANGE, "%s: %s is given twice", kind->name,
                   param->name);
  }
  seen->given |= 1u << i;
  if (parse_value(kind, param, at, &value, err)) {
    return EMB_RANGE;
  }
  *value_of(to, param) = value;
  *at = text_space(*at);
  return EMB_OK;
}

/* Parses the text after the name. */
static int parse_rest(const struct param_list *list,
                      const struct param_kind *kind, const char *at, void *to,
                      emb_err *err) {
  struct param_seen seen = {0};
  if (*at == '(') {
    at = text_space(at + 1);
    while (*at != ')') {
      if (parse_one(list, kind, &at, to, &seen, err)) {
        return EMB_RANGE;
      }
      if (*at == ',') {
        at = text_space(at + 1);
        if (*at != ')') {
          continue;
        }
        return err_set(err, EMB_RANGE, "%s: expected a parameter, got \")\"",
                       kind->name);
      }
      if (*at != ')') {
        return err_set(err, EMB_RANGE, "%s: expected , or ), got \"%.*s\"",
                       kind->name, shown_length(at), at);
      }
    }
    at = text_space(at + 1);
  }
  return *at == 0 ? EMB_OK
                  : err_set(err, EMB_RANGE, "%s: more text at the end: %.*s",
                            kind->name, shown_length(at), at);
}

static int unknown_kind(const struct param_list *list, const char *at, size_t n,
                        emb_err *err) {
  struct near near;
  near_start(&near, at, n);
  for (const struct param_kind *kind = list->kinds; kind->name; kind++) {
    near_offer(&near, kind->name);
  }
  return err_set(err, EMB_RANGE, "unknown %s: %.*s%s", list->what,
                 n ? (n < SHOWN_MAX ? (int)n : SHOWN_MAX) : shown_length(at),
                 at, near_text(&near));
}

int param_parse(const struct param_list *list, const char *text, void *to,
                uint32_t *kind, emb_err *err) {
  const char *at = text_space(text);
  size_t n = text_dashed(at);
  const struct param_kind *found = list->kinds;
  const struct param *param;
  while (found->name && !near_same(found->name, at, n)) {
    found++;
  }
  if (found->name == NULL) {
    return unknown_kind(list, at, n, err);
  }
  *kind = (uint32_t)(found - list->kinds);
  for (int i = 0; (param = param_at(list, found, i)); i++) {
    emb_assert(param->low <= param->value && param->value <= param->high);
    *value_of(to, param) = param->value;
  }
  return parse_rest(list, found, text_space(at + n), to, err);
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
