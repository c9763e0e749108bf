/* SPDX-License-Identifier: MIT
**
** options.c -- the text of emb_config.gradients:
**
**     none
**     average
**     average(max=16, expire=500ms, outlier=norm(3.5))
**
** Parts are optional and may come in any order; spaces are allowed anywhere
** except within a word or a number.  An error text names the mistake.  Nothing
** is allocated.
*/
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "bank.h"

#define EXPIRE_MOST_US (UINT64_C(24) * 3600 * 1000000)

#define SHOWN 60 /* maximum bytes of the text shown in an error */

static const struct outlier_name {
  const char *name;
  double initial, low, high;
  int beyond; /* low and high are themselves excluded */
  const char *legal;
} outlier_names[] = {
    [OUTLIER_NORM] = {"norm", 3.5, 0, 1e9, 1, "a number above 0"},
    [OUTLIER_MAD] = {"mad", 3.5, 0, 1e9, 1, "a number above 0"},
    [OUTLIER_COSINE] = {"cosine", -0.2, -1, 1, 0, "a number from -1 to 1"},
    [OUTLIER_TRIM] = {"trim", 0.1, 0, 0.5, 1, "a number above 0 and below 0.5"},
};
enum { OUTLIERS = sizeof outlier_names / sizeof outlier_names[0] };

/* Number of bytes to show in an error: up to the next comma outside
** parentheses, or to the end. */
static int bank_shown(const char *at) {
  int n = 0, depth = 0;
  while (at[n] && n < SHOWN &&
         !(depth == 0 && (at[n] == ',' || at[n] == ')'))) {
    depth += (at[n] == '(') - (at[n] == ')');
    n++;
  }
  return n;
}

static int bank_wrong(emb_err *err, const char *what, const char *legal,
                      const char *at) {
  return err_set(err, EMB_RANGE, "gradients: %s must be %s, got %.*s", what,
                 legal, bank_shown(at), at);
}

static int set_max(struct bank_rule *rule, const char **at, emb_err *err) {
  const char *from = *at;
  uint64_t max;
  if (!text_digits(at, BANK_MAX, &max) || !max) {
    return bank_wrong(err, "max", "a whole number from 1 to 65536", from);
  }
  rule->max = (uint32_t)max;
  return EMB_OK;
}

static int set_expire(struct bank_rule *rule, const char **at, emb_err *err) {
  static const struct {
    const char *name;
    uint64_t us;
  } units[] = {{"ms", 1000},
               {"s", 1000000},
               {"min", 60000000},
               {"h", UINT64_C(3600000000)}};
  const char *from = *at;
  uint64_t number, us = 0;
  if (text_digits(at, EXPIRE_MOST_US, &number)) {
    *at = text_space(*at);
    for (size_t i = 0; !us && i < sizeof units / sizeof units[0]; i++) {
      const char *unit = *at;
      if (text_word(&unit, units[i].name) && !text_is_name(*unit) &&
          number <= EXPIRE_MOST_US / units[i].us) {
        us = number * units[i].us;
        *at = unit;
      }
    }
  }
  if (!us) {
    return bank_wrong(err, "expire", "a time from 1ms to 24h, like 500ms or 2s",
                      from);
  }
  rule->expire_us = us;
  return EMB_OK;
}

/* Parses the number in parentheses after the name, if there is one. */
static int set_limit(struct bank_rule *rule, const char **at, emb_err *err) {
  const struct outlier_name *o = &outlier_names[rule->outlier];
  const char *from;
  rule->limit = o->initial;
  *at = text_space(*at);
  if (!text_word(at, "(")) {
    return EMB_OK;
  }
  from = *at = text_space(*at);
  size_t length = text_double(*at, &rule->limit);
  *at = text_space(*at + length);
  int legal = length && rule->limit >= o->low && rule->limit <= o->high &&
              !(o->beyond && (rule->limit <= o->low ||
                              (o->high < 1 && rule->limit >= o->high)));
  if (!legal || !text_word(at, ")")) {
    char what[32];
    snprintf(what, sizeof what, "outlier=%s(...)", o->name);
    return bank_wrong(err, what, o->legal, from);
  }
  return EMB_OK;
}

static int set_outlier(struct bank_rule *rule, const char **at, emb_err *err) {
  const char *from = *at;
  if (text_word(at, "none") && !text_is_name(**at)) {
    rule->outlier = OUTLIER_NONE;
    return EMB_OK;
  }
  for (uint32_t i = OUTLIER_NONE + 1; i < OUTLIERS; i++) {
    *at = from;
    if (text_word(at, outlier_names[i].name) && !text_is_name(**at)) {
      rule->outlier = i;
      return set_limit(rule, at, err);
    }
  }
  return bank_wrong(err, "outlier",
                    "none, norm(z), mad(z), cosine(c) or trim(p)", from);
}

static const struct bank_part {
  const char *name;
  int (*set)(struct bank_rule *, const char **, emb_err *);
} parts[] = {
    {"max", set_max}, {"expire", set_expire}, {"outlier", set_outlier}};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* Parses one part; *seen has a bit for each part already given. */
static int bank_set_part(struct bank_rule *rule, const char **at,
                         uint32_t *seen, emb_err *err) {
  const char *from = *at;
  for (uint32_t i = 0; i < PARTS; i++) {
    *at = from;
    if (!text_word(at, parts[i].name) || text_is_name(**at)) {
      continue;
    }
    *at = text_space(*at);
    if (!text_word(at, "=")) {
      break;
    }
    if (*seen >> i & 1) {
      return err_set(err, EMB_RANGE, "gradients: %s is given twice",
                     parts[i].name);
    }
    *seen |= 1u << i;
    *at = text_space(*at);
    return parts[i].set(rule, at, err);
  }
  return bank_wrong(err, "a part of average",
                    "max=, expire= or outlier=", from);
}

static int bank_set_parts(struct bank_rule *rule, const char **at,
                          emb_err *err) {
  uint32_t seen = 0;
  *at = text_space(*at);
  if (text_word(at, ")")) {
    return EMB_OK;
  }
  for (;;) {
    int rc = bank_set_part(rule, at, &seen, err);
    if (rc) {
      return rc;
    }
    *at = text_space(*at);
    if (text_word(at, ")")) {
      return EMB_OK;
    }
    if (!text_word(at, ",")) {
      return bank_wrong(err, "what follows a part", "a comma or )",
                        **at ? *at : "nothing");
    }
    *at = text_space(*at);
  }
}

int bank__parse(struct bank_rule *rule, const char *text, emb_err *err) {
  const char *from = text ? text_space(text) : "none", *at = from;
  *rule = (struct bank_rule){
      .max = 16, .expire_us = 500000, .outlier = OUTLIER_NONE};
  int rc = EMB_OK;
  if (text_word(&at, "average") && !text_is_name(*at)) {
    rule->is_on = 1;
    at = text_space(at);
    rc = text_word(&at, "(") ? bank_set_parts(rule, &at, err) : EMB_OK;
  } else if (at = from, !text_word(&at, "none")) {
    return err_set(err, EMB_RANGE,
                   "unknown gradients: %s; expected none or average(...)",
                   from);
  }
  at = text_space(at);
  return rc || !*at ? rc : bank_wrong(err, "what follows", "nothing", at);
}

int emb_check_gradients(const char *text, emb_err *err) {
  struct bank_rule rule;
  return bank__parse(&rule, text, err);
}
