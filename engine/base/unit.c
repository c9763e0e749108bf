/* SPDX-License-Identifier: MIT
**
** unit.c -- parses booleans, and numbers with a unit; see unit.h.
*/
#include "unit.h"

#include "near.h"
#include "text.h"

#include <stddef.h>

struct unit {
  const char *name;
  uint64_t size;
};

static const struct unit unit_bools[] = {{"yes", 1},   {"on", 1}, {"true", 1},
                                         {"1", 1},     {"no", 0}, {"off", 0},
                                         {"false", 0}, {"0", 0},  {NULL, 0}};
static const struct unit unit_sizes[] = {{"b", 1},
                                         {"kb", 1000},
                                         {"mb", 1000000},
                                         {"gb", 1000000000},
                                         {"tb", 1000000000000},
                                         {"kib", UINT64_C(1) << 10},
                                         {"mib", UINT64_C(1) << 20},
                                         {"gib", UINT64_C(1) << 30},
                                         {"tib", UINT64_C(1) << 40},
                                         {NULL, 0}};

#define MS UINT64_C(1000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define WEEK (7 * DAY)
static const struct unit unit_times[] = {{"us", 1},
                                         {"ms", MS},
                                         {"millisecond", MS},
                                         {"milliseconds", MS},
                                         {"s", SECOND},
                                         {"sec", SECOND},
                                         {"second", SECOND},
                                         {"seconds", SECOND},
                                         {"min", MINUTE},
                                         {"minute", MINUTE},
                                         {"minutes", MINUTE},
                                         {"h", HOUR},
                                         {"hour", HOUR},
                                         {"hours", HOUR},
                                         {"d", DAY},
                                         {"day", DAY},
                                         {"days", DAY},
                                         {"w", WEEK},
                                         {"week", WEEK},
                                         {"weeks", WEEK},
                                         {NULL, 0}};

/* Skips one of the names, which must be a whole word. */
static int unit_find(const struct unit *units, const char **at,
                     uint64_t *size) {
  size_t n = text_name(*at);
  for (; units->name; units++) {
    if (near_same(units->name, *at, n)) {
      *size = units->size;
      *at += n;
      return 1;
    }
  }
  return 0;
}

int unit__bool(const char **at, int *is) {
  uint64_t found = 0;
  int there = unit_find(unit_bools, at, &found);
  *is = (int)found;
  return there;
}

int unit_is_bool(const char *text, int *is) {
  return unit__bool(&text, is) && *text == 0;
}

int unit__of_size(const char **at, uint64_t *bytes) {
  const char *unit = text_space(*at);
  *bytes = 1;
  if (text_name(unit) == 0) {
    return 1;
  }
  if (!unit_find(unit_sizes, &unit, bytes)) {
    return 0;
  }
  *at = unit;
  return 1;
}

int unit_size(const char **at, uint64_t *bytes) {
  const char *from = *at;
  uint64_t number, unit;
  if (!text_digits(&from, INT64_MAX, &number) || !unit__of_size(&from, &unit) ||
      number > (uint64_t)INT64_MAX / unit) {
    return 0;
  }
  *bytes = number * unit;
  *at = from;
  return 1;
}

int unit_time(const char **at, uint64_t plain, uint64_t *us) {
  const char *from = *at;
  uint64_t number, unit = plain;
  if (!text_digits(&from, INT64_MAX, &number)) {
    return 0;
  }
  const char *name = text_space(from);
  if (text_name(name) > 0) {
    if (!unit_find(unit_times, &name, &unit)) {
      return 0;
    }
    from = name;
  }
  if (unit == 0 || number > (uint64_t)INT64_MAX / unit) {
    return 0;
  }
  *us = number * unit;
  *at = from;
  return 1;
}

int unit__share(const char **at, double *share) {
  const char *end = *at + text__double(*at, share);
  if (end == *at) {
    return 0;
  }
  if (*text_space(end) == '%') {
    *share /= 100;
    end = text_space(end) + 1;
  }
  if (text_is_name(*end) || *end == '.') {
    return 0;
  }
  *at = end;
  return 1;
}
