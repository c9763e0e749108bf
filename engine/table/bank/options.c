/* SPDX-License-Identifier: MIT
**
** options.c -- the text of emb_config.gradients:
**
**     none
**     average
**     average(max=16, expire=500ms, outlier=norm(z=3.5))
**     average(16, 500ms, norm(3.5))
**
** Parts are optional; those with a name may come in any order, after those
** without one.  Spaces are allowed anywhere
** except within a word or a number.  An error text names the mistake.  Nothing
** is allocated.
*/
#include <stdio.h>
#include <string.h>

#include "engine/base/near.h"
#include "engine/base/text.h"
#include "engine/base/unit.h"
#include "bank.h"

#define EXPIRE_MOST_US (UINT64_C(24) * 3600 * 1000000)

#define SHOWN 60 /* maximum bytes of the text shown in an error */

static const struct outlier_name {
  const char *name, *parameter;
  double initial, low, high;
  int beyond; /* low and high are themselves excluded */
  const char *legal;
} outlier_names[] = {
    [OUTLIER_NORM] = {"norm", "z", 3.5, 0, 1e9, 1, "a number above 0"},
    [OUTLIER_MAD] = {"mad", "z", 3.5, 0, 1e9, 1, "a number above 0"},
    [OUTLIER_COSINE] = {"cosine", "c", -0.2, -1, 1, 0, "a number from -1 to 1"},
    [OUTLIER_TRIM] = {"trim", "p", 0.1, 0, 0.5, 1,
                      "a number above 0 and below 0.5"},
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
  const char *from = *at;
  uint64_t us = 0;
  if (!unit_time(at, 0, &us) || us < 1000 || us > EXPIRE_MOST_US) {
    return bank_wrong(err, "expire", "a time from 1ms to 24h, like 500ms or 2s",
                      from);
  }
  rule->expire_us = us;
  return EMB_OK;
}

/* Reads the number of the rule; that of trim is a share, and may have a %. */
static int read_outlier_limit(struct bank_rule *rule, const char **at) {
  if (rule->outlier == OUTLIER_TRIM) {
    return unit_share(at, &rule->limit);
  }
  size_t n = text_double(*at, &rule->limit);
  *at += n;
  return n > 0;
}

/* Parses `(3.5)` or `(z=3.5)` after the name, if it is there. */
static int set_limit(struct bank_rule *rule, const char **at, emb_err *err) {
  const struct outlier_name *o = &outlier_names[rule->outlier];
  const char *from, *name;
  rule->limit = o->initial;
  *at = text_space(*at);
  if (!text_word(at, "(")) {
    return EMB_OK;
  }
  from = *at = name = text_space(*at);
  if (near_same(o->parameter, name, text_name(name))) {
    name += text_name(name);
    *at = text_equals(&name) ? name : from;
  }
  int legal = read_outlier_limit(rule, at);
  *at = text_space(*at);
  legal = legal && rule->limit >= o->low && rule->limit <= o->high &&
          !(o->beyond &&
            (rule->limit <= o->low || (o->high < 1 && rule->limit >= o->high)));
  if (!legal || !text_word(at, ")")) {
    char what[32];
    snprintf(what, sizeof what, "outlier=%s(...)", o->name);
    return bank_wrong(err, what, o->legal, from);
  }
  return EMB_OK;
}

static int set_outlier(struct bank_rule *rule, const char **at, emb_err *err) {
  const char *from = *at;
  size_t n = text_dashed(from);
  *at += n;
  if (near_same("none", from, n)) {
    rule->outlier = OUTLIER_NONE;
    return EMB_OK;
  }
  for (uint32_t i = OUTLIER_NONE + 1; i < OUTLIERS; i++) {
    if (near_same(outlier_names[i].name, from, n)) {
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

/* What has been parsed of the parts. */
struct parts_seen {
  uint32_t given; /* bit i: part i */
  uint32_t alone; /* number of values without a name */
  int is_named;   /* a value with a name has been parsed */
};

/* Parses `name =`, if it is there; returns the number of the part, or of the
** next one for a value alone; PARTS: there is no such part. */
static uint32_t bank_part(const char **at, struct parts_seen *seen) {
  size_t n = text_dashed(*at);
  const char *value = *at + n;
  uint32_t i = 0;
  if (!text_equals(&value)) {
    return seen->is_named ? PARTS : seen->alone++;
  }
  while (i < PARTS && !near_same(parts[i].name, *at, n)) {
    i++;
  }
  *at = value;
  seen->is_named = 1;
  return i;
}

/* Parses one part. */
static int bank_set_part(struct bank_rule *rule, const char **at,
                         struct parts_seen *seen, emb_err *err) {
  const char *from = *at;
  uint32_t i = bank_part(at, seen);
  if (i >= PARTS) {
    return bank_wrong(err, "a part of average",
                      "max=, expire= or outlier=", from);
  }
  if (seen->given >> i & 1) {
    return err_set(err, EMB_RANGE, "gradients: %s is given twice",
                   parts[i].name);
  }
  seen->given |= 1u << i;
  return parts[i].set(rule, at, err);
}

static int bank_set_parts(struct bank_rule *rule, const char **at,
                          emb_err *err) {
  struct parts_seen seen = {0};
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
  size_t n = text_dashed(from);
  at += n;
  if (near_same("average", from, n)) {
    rule->is_on = 1;
    at = text_space(at);
    rc = text_word(&at, "(") ? bank_set_parts(rule, &at, err) : EMB_OK;
  } else if (!near_same("none", from, n)) {
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
