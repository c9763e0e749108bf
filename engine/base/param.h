/* SPDX-License-Identifier: MIT
**
** param.h -- choices with parameters, as text: adagrad(lr=0.05, eps=1e-10).
**
** TEXT      name, then in parentheses, which may be left out when empty,
**           parameter=number separated by commas; spaces anywhere between, and
**           letters of either case.  A
**           number is -digits.digits e-digits of which sign, fraction and
**           exponent may be absent: never inf, nan, hex, or a decimal comma.
** EXACT     A number is the nearest double to its text, in any locale, and is
**           printed with the fewest digits that read back as the same.
** FAILURE   A text that is not understood is EMB_RANGE, and the error names
**           what in it, and for a name those that there are.  Nothing is
**           allocated.
** THREADS   No state.
*/
#ifndef EMB_BASE_PARAM_H
#define EMB_BASE_PARAM_H

#include "err.h"

#include <stddef.h>

/* A parameter: a double at offset `at` of the caller's structure. */
struct param {
  const char *name; /* NULL ends a list */
  size_t at;
  double value;     /* if the text does not give one */
  double low, high; /* legal values, both included */
  int whole;        /* whole numbers only */
};

/* A name and what it takes beside the common parameters of its list. */
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

/* Finds the kind, its index in list->kinds, and sets each of its parameters
** and of the common ones in *to. */
int param_parse(const struct param_list *list, const char *text, void *to,
                uint32_t *kind, emb_err *err);

/* Writes the text with all parameters, each with its value, and a terminating
** zero.  Returns the length without it; 0, and nothing useful in out, when
** size is not enough. */
size_t param_print(const struct param_list *list, uint32_t kind,
                   const void *from, char *out, size_t size);

#endif
