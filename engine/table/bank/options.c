/* SPDX-License-Identifier: MIT
**
** options.c -- the text of emb_config.gradients:
**
**     none
**     average
**     average(max=16, expire=500ms, outlier=norm(z=3.5))
**     average(16, 500ms, norm(3.5))
**
** base/param.h has its grammar.
*/
#include <stddef.h>

#include "engine/base/param.h"
#include "bank.h"

/* What a text says. */
struct bank_text {
  double max, expire_us, outlier, limit;
};

#define P(name_, at_) .name = (name_), .at = offsetof(struct bank_text, at_)
#define END                                                                    \
  { .name = NULL }
#define Z                                                                      \
  { P("z", limit), .value = 3.5, .high = 1e9, .open = 1 }

static const struct param no_parameters[] = {END};
static const struct param outlier_z[] = {Z, END};
static const struct param outlier_cosine[] = {
    {P("c", limit), .value = -0.2, .low = -1, .high = 1}, END};
static const struct param outlier_trim[] = {
    {P("p", limit), .value = 0.1, .high = 0.5, .open = 1, .is = PARAM_SHARE},
    END};
static const struct param_kind outlier_kinds[] = {
    [OUTLIER_NONE] = {"none", no_parameters},
    [OUTLIER_NORM] = {"norm", outlier_z},
    [OUTLIER_MAD] = {"mad", outlier_z},
    [OUTLIER_COSINE] = {"cosine", outlier_cosine},
    [OUTLIER_TRIM] = {"trim", outlier_trim},
    {NULL, NULL}};
static const struct param_list outlier_list = {"outlier", outlier_kinds,
                                               no_parameters};

static const struct param average[] = {
    {P("max", max), .value = 16, .low = 1, .high = BANK_MAX, .whole = 1},
    {P("expire", expire_us), .value = 500e3, .low = 1e3, .high = 24 * 3600e6,
     .is = PARAM_TIME},
    {P("outlier", outlier), .value = OUTLIER_NONE, .is = PARAM_CHOICE,
     .choices = &outlier_list},
    END};
enum { BANK_NONE, BANK_AVERAGE };
static const struct param_kind bank_kinds[] = {
    [BANK_NONE] = {"none", no_parameters},
    [BANK_AVERAGE] = {"average", average},
    {NULL, NULL}};
static const struct param_list bank_list = {"gradients", bank_kinds,
                                            no_parameters};

int bank__parse(struct bank_rule *rule, const char *text, emb_err *err) {
  struct bank_text parsed = {.max = 16, .expire_us = 500e3};
  uint32_t kind = BANK_NONE;
  int rc = param_parse(&bank_list, text ? text : "none", &parsed, &kind, err);
  *rule = (struct bank_rule){.is_on = kind == BANK_AVERAGE,
                             .max = (uint32_t)parsed.max,
                             .expire_us = (uint64_t)parsed.expire_us,
                             .outlier = (uint32_t)parsed.outlier,
                             .limit = parsed.limit};
  return rc;
}

int emb_check_gradients(const char *text, emb_err *err) {
  struct bank_rule rule;
  return bank__parse(&rule, text, err);
}
