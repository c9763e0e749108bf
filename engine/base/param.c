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

/* The same for a value with a unit, which may have spaces. */
static int shown_phrase(const char *at) {
  size_t n = text_trimmed(at, strcspn(at, ",()"));
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
    (void)text__double(to, &back);
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

static void set_value(void *to, const struct param *param, double value) {
  if (param->is == PARAM_INTEGER) {
    *(int64_t *)(void *)((char *)to + param->at) = (int64_t)value;
  } else {
    *value_of(to, param) = value;
  }
}

static int is_in_range(const struct param *param, double value) {
  return (param->open ? value > param->low && value < param->high
                      : value >= param->low && value <= param->high) &&
         (!param->whole || value == floor(value));
}

static int check_range(const struct param_kind *kind, const struct param *param,
                       double value, const char *text, emb_err *err) {
  char low[PRINT_MAX], high[PRINT_MAX];
  int is_time = param->is == PARAM_TIME;
  const char *unit = is_time ? " s" : "";
  if (is_in_range(param, value)) {
    return EMB_OK;
  }
  print_number(is_time ? param->low / 1e6 : param->low, low);
  print_number(is_time ? param->high / 1e6 : param->high, high);
  return err_set(
      err, EMB_RANGE, "%s: %s must be %s%s %s%s and %s%s%s, got %.*s",
      kind->name, param->name, param->whole ? "a whole number " : "",
      param->open ? "above" : "between", low, unit, param->open ? "below " : "",
      high, unit, is_time ? shown_phrase(text) : shown_length(text), text);
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

static int not_a_value(const struct param_kind *kind, const struct param *param,
                       const char *from, emb_err *err) {
  static const char *const expected[] = {
      [PARAM_NUMBER] = "a number",
      [PARAM_BOOL] = "yes or no",
      [PARAM_BYTES] = "a number or a size like 16MB",
      [PARAM_MIB] = "a number or a size like 16MB",
      [PARAM_TIME] = "a time with a unit like 500ms or 2s",
      [PARAM_SHARE] = "a share like 0.25 or 25%",
      [PARAM_INTEGER] = "a whole number"};
  return err_set(
      err, EMB_RANGE, "%s: %s is not %s: \"%.*s\"", kind->name, param->name,
      expected[param->is],
      param->is >= PARAM_TIME ? shown_phrase(from) : shown_length(from), from);
}

/* Reads a value of any of the types that are a double. */
static int read_value(const struct param *param, const char **at,
                      double *value) {
  const char *from = *at;
  uint64_t number = 1;
  int is = 0, legal;
  switch (param->is) {
  case PARAM_BOOL:
    legal = unit__bool(at, &is);
    *value = is;
    return legal;
  case PARAM_TIME:
    legal = unit_time(at, 0, &number);
    *value = (double)number;
    return legal;
  case PARAM_SHARE:
    return unit__share(at, value);
  default:
    *at += text__double(*at, value);
    legal = *at > from;
  }
  if (legal && param->is >= PARAM_BYTES && text_name(text_space(*at)) > 0) {
    legal = unit__of_size(at, &number);
    *value *= (double)number;
    *value = param->is == PARAM_MIB ? ceil(*value / (1 << 20)) : *value;
  }
  return legal;
}

/* Parses a value at *at and advances *at past it. */
static int parse_value(const struct param_kind *kind, const struct param *param,
                       const char **at, void *to, emb_err *err) {
  const char *from = *at;
  double value = 0;
  if (!read_value(param, at, &value) || text_is_name(**at) || **at == '.') {
    return not_a_value(kind, param, from, err);
  }
  set_value(to, param, value);
  return check_range(kind, param, value, from, err);
}

static int parse_integer(const struct param_kind *kind,
                         const struct param *param, const char **at, void *to,
                         emb_err *err) {
  const char *from = *at;
  int negative = text_word(at, "-");
  uint64_t number = 0;
  if (!text_digits(at, INT64_MAX, &number) || text_is_name(**at) ||
      **at == '.') {
    return not_a_value(kind, param, from, err);
  }
  *(int64_t *)(void *)((char *)to + param->at) =
      negative ? -(int64_t)number : (int64_t)number;
  return EMB_OK;
}

static int parse_word(const struct param_kind *kind, const struct param *param,
                      const char **at, void *to, emb_err *err) {
  size_t n = text__dashed(*at);
  struct near near;
  near_start(&near, *at, n);
  for (int i = 0; param->words[i]; i++) {
    if (near_same(param->words[i], *at, n)) {
      set_value(to, param, i);
      *at += n;
      return EMB_OK;
    }
    near_offer(&near, param->words[i]);
  }
  return err_set(err, EMB_RANGE, "%s: unknown %s: %.*s%s", kind->name,
                 param->name, shown_phrase(*at), *at, near_text(&near));
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
  size_t n = text__dashed(name);
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
  if (!text__equals(at)) {
    (void)err_set(err, EMB_RANGE, "%s: expected = after %s, got \"%.*s\"",
                  kind->name, param->name, shown_length(*at), *at);
    return -1;
  }
  return i;
}

static int is_param(const struct param_list *list,
                    const struct param_kind *kind, const char *at, size_t n) {
  const struct param *param;
  for (int i = 0; (param = param_at(list, kind, i)); i++) {
    if (near_same(param->name, at, n)) {
      return 1;
    }
  }
  return 0;
}

/* Is a word here a value?  It is when the next parameter takes words; and in
** place of a name, after which no = follows, if any parameter does. */
static int is_word(const struct param_list *list, const struct param_kind *kind,
                   const struct param_seen *seen, const char *at) {
  size_t n = text__dashed(at);
  const char *after = at + n;
  const struct param *next = param_at(list, kind, seen->alone), *param;
  int takes_words = 0;
  if (n == 0 || text__equals(&after)) {
    return 0;
  }
  for (int i = 0; (param = param_at(list, kind, i)); i++) {
    takes_words |= param->is >= PARAM_WORD;
  }
  return (next && next->is >= PARAM_WORD) ||
         (takes_words && seen->is_named && !is_param(list, kind, at, n));
}

/* Does a value without a name begin here? */
static int is_alone(const struct param_list *list,
                    const struct param_kind *kind,
                    const struct param_seen *seen, const char *at) {
  const char *from = at, *after = at;
  int is;
  return text_is_digit(*at) || *at == '-' ||
         (unit__bool(&after, &is) && !text__equals(&after) && after > from) ||
         is_word(list, kind, seen, at);
}

static int parse_choice(const struct param_list *list, const char **at,
                        void *to, uint32_t *kind, emb_err *err);

/* Parses the value of a parameter of any type. */
static int parse_any(const struct param_kind *kind, const struct param *param,
                     const char **at, void *to, emb_err *err) {
  uint32_t which = 0;
  int rc;
  switch (param->is) {
  case PARAM_INTEGER:
    return parse_integer(kind, param, at, to, err);
  case PARAM_WORD:
    return parse_word(kind, param, at, to, err);
  case PARAM_CHOICE:
    rc = parse_choice(param->choices, at, to, &which, err);
    set_value(to, param, which);
    return rc;
  default:
    return parse_value(kind, param, at, to, err);
  }
}

/* Parses `name = value`, or a value alone, at *at and advances *at past it. */
static int parse_one(const struct param_list *list,
                     const struct param_kind *kind, const char **at, void *to,
                     struct param_seen *seen, emb_err *err) {
  const char *from = *at;
  int alone = is_alone(list, kind, seen, from);
  int i = alone ? seen->alone++ : parse_name(list, kind, at, err);
  const struct param *param = i < 0 ? NULL : param_at(list, kind, i);
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
  if (parse_any(kind, param, at, to, err)) {
    return EMB_RANGE;
  }
  *at = text_space(*at);
  return EMB_OK;
}

/* Parses the parameters in parentheses after a name, if they are there. */
static int parse_rest(const struct param_list *list,
                      const struct param_kind *kind, const char **at, void *to,
                      emb_err *err) {
  struct param_seen seen = {0};
  if (**at != '(') {
    return EMB_OK;
  }
  *at = text_space(*at + 1);
  while (**at != ')') {
    if (parse_one(list, kind, at, to, &seen, err)) {
      return EMB_RANGE;
    }
    if (**at == ',') {
      *at = text_space(*at + 1);
      if (**at != ')') {
        continue;
      }
      return err_set(err, EMB_RANGE, "%s: expected a parameter, got \")\"",
                     kind->name);
    }
    if (**at != ')') {
      return err_set(err, EMB_RANGE, "%s: expected , or ), got \"%.*s\"",
                     kind->name, shown_length(*at), *at);
    }
  }
  *at = text_space(*at + 1);
  return EMB_OK;
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

/* Parses a name and its parameters at *at, and advances *at past them and the
** spaces after them. */
static int parse_choice(const struct param_list *list, const char **at,
                        void *to, uint32_t *kind, emb_err *err) {
  size_t n = text__dashed(*at);
  const struct param_kind *found = list->kinds;
  const struct param *param;
  while (found->name && !near_same(found->name, *at, n)) {
    found++;
  }
  if (found->name == NULL) {
    return unknown_kind(list, *at, n, err);
  }
  *kind = (uint32_t)(found - list->kinds);
  for (int i = 0; (param = param_at(list, found, i)); i++) {
    emb_assert(param->is >= PARAM_INTEGER ||
               (param->low <= param->value && param->value <= param->high));
    set_value(to, param, param->value);
  }
  *at = text_space(*at + n);
  return parse_rest(list, found, at, to, err);
}

int param_parse(const struct param_list *list, const char *text, void *to,
                uint32_t *kind, emb_err *err) {
  const char *at = text_space(text);
  int rc = parse_choice(list, &at, to, kind, err);
  return rc || *at == 0
             ? rc
             : err_set(err, EMB_RANGE, "%s: more text at the end: %.*s",
                       list->kinds[*kind].name, shown_length(at), at);
}

size_t param_print(const struct param_list *list, uint32_t kind,
                   const void *from, char *out, size_t size) {
  const struct param_kind *it = &list->kinds[kind];
  const struct param *param;
  int n = snprintf(out, size, "%s(", it->name);
  for (int i = 0; (param = param_at(list, it, i)); i++) {
    char number[PRINT_MAX];
    double value;
    emb_assert(param->is <= PARAM_MIB);
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
