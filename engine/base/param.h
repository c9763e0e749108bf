/* SPDX-License-Identifier: MIT
**
** param.h -- choices with parameters, as text: adagrad(lr=0.05, eps=1e-10).
**
** TEXT      A name, then the parameters separated by commas, in parentheses
**           that may be omitted when empty: first values alone, in the order
**           of the list, then parameter=value pairs in any order.  Spaces may
**           separate any of these, and case is ignored.  A value is a number,
**           a boolean, size, time or share of unit.h, one of several words, or
**           another name with parameters: average(8, outlier=trim(10%)).  A
**           word or such a name may be a value alone, too: if no = follows and
**           its turn in the list has come.  A number is -digits.digits
**           e-digits, where sign, fraction and exponent are optional: never
**           inf, nan, hex, or a decimal comma.
** EXACT     A number is the nearest double to its text, in any locale, and is
**           printed with the fewest digits that read back as the same double.
** FAILURE   A text that cannot be parsed is EMB_RANGE.  The error names the
**           offending part and, for an unknown name, lists the known names.
**           Nothing is allocated.
** THREADS   No state.
*/
#ifndef EMB_BASE_PARAM_H
#define EMB_BASE_PARAM_H

#include "err.h"

#include <stddef.h>

enum param_is {
  PARAM_NUMBER,
  PARAM_BOOL,  /* 0 or 1 */
  PARAM_BYTES, /* a size */
  PARAM_MIB,   /* a size, or a number of MiB; the value is in MiB, rounded up */
  /* The following are only parsed, never printed. */
  PARAM_TIME,    /* with a unit; the value is in microseconds */
  PARAM_SHARE,   /* a fraction or a percentage */
  PARAM_INTEGER, /* any int64_t, and stored as one */
  PARAM_WORD,    /* one of `words`; the value is its index */
  PARAM_CHOICE   /* a name of `choices`; the value is its index */
};

struct param_list;

/* A parameter: a double at offset `at` of the caller's structure. */
struct param {
  const char *name; /* NULL ends a list */
  size_t at;
  double value;             /* default */
  double low, high;         /* legal range, inclusive */
  int whole;                /* whole numbers only */
  int open;                 /* the range is exclusive */
  enum param_is is;         /* how it is written */
  const char *const *words; /* NULL ends them */
  /* Its parameters are in the same structure. */
  const struct param_list *choices;
};

/* A name, and its parameters besides the common ones of its list. */
struct param_kind {
  const char *name;          /* NULL ends a list */
  const struct param *param; /* at most PARAM_MAX with the common ones */
};

struct param_list {
  const char *what; /* for messages: "optimizer" */
  const struct param_kind *kinds;
  const struct param *common;
};

enum { PARAM_MAX = 16 };

/* Parses a text: sets *kind to its index in list->kinds, and sets all of that
** kind's parameters and the common ones in *to. */
int param_parse(const struct param_list *list, const char *text, void *to,
                uint32_t *kind, emb_err *err);

/* Writes the text with all parameters and their values, zero-terminated.
** Returns its length without the zero; or 0, with undefined contents of out, if
** size is too small. */
size_t param_print(const struct param_list *list, uint32_t kind,
                   const void *from, char *out, size_t size);

#endif
