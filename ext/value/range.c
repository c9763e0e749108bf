/* SPDX-License-Identifier: MIT
**
** range.c -- the keys and distances that satisfy a comparison.
**
** SQLite omits a comparison that the table claims to have done, so the results
** here must match SQLite's exactly.  SQLite compares an INTEGER column with any
** other value as follows:
**   - text that looks like a number counts as that number;
**   - an integer and a real are compared exactly, without rounding; but an
**     INTEGER PRIMARY KEY never equals the real -2^63, because SQLite first
**     converts the real to an integer, and refuses to convert that one;
**   - every text and every BLOB is greater than every number;
**   - a comparison with NULL is never true.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <stdint.h>
#include <string.h>

#define TWO_63 9223372036854775808.0
#define RANGE_OPS "=<l>g"

static void range_none(struct ext_range *range) {
  range->lo = 1;
  range->hi = 0;
}

void ext_range_all(struct ext_range *range) {
  range->lo = INT64_MIN;
  range->hi = INT64_MAX;
}

static void range_at_least(struct ext_range *range, sqlite3_int64 lo) {
  if (lo > range->lo)
    range->lo = lo;
}

static void at_most(struct ext_range *range, sqlite3_int64 hi) {
  if (hi < range->hi)
    range->hi = hi;
}

static void narrow_int(struct ext_range *range, char op, sqlite3_int64 value) {
  switch (op) {
  case '=':
    range_at_least(range, value);
    at_most(range, value);
    break;
  case '<':
    value == INT64_MIN ? range_none(range) : at_most(range, value - 1);
    break;
  case 'l':
    at_most(range, value);
    break;
  case '>':
    value == INT64_MAX ? range_none(range) : range_at_least(range, value + 1);
    break;
  default:
    range_at_least(range, value);
  }
}

static void narrow_real(struct ext_range *range, char op, double value) {
  int below = op == '<' || op == 'l';
  if (value >= TWO_63) { /* above every key */
    if (!below)
      range_none(range);
  } else if (value < -TWO_63) {
    if (op != '>' && op != 'g')
      range_none(range);
  } else if (op == '=' && value == -TWO_63) {
    range_none(range);
  } else if (value == floor(value)) {
    narrow_int(range, op, (sqlite3_int64)value);
  } else if (op == '=') {
    range_none(range);
  } else {
    narrow_int(range, below ? 'l' : 'g',
               (sqlite3_int64)(below ? floor(value) : ceil(value)));
  }
}

void ext_range_narrow(struct ext_range *range, char op, sqlite3_value *value) {
  emb_assert(op && strchr(RANGE_OPS, op));
  if (range->lo > range->hi)
    return;
  switch (sqlite3_value_numeric_type(value)) {
  case SQLITE_INTEGER:
    narrow_int(range, op, sqlite3_value_int64(value));
    break;
  case SQLITE_FLOAT:
    narrow_real(range, op, sqlite3_value_double(value));
    break;
  case SQLITE_NULL:
    range_none(range);
    break;
  default:
    if (op != '<' && op != 'l')
      range_none(range);
  }
}

int ext_range_key(sqlite3_value *value, int64_t *key) {
  struct ext_range range;
  ext_range_all(&range);
  ext_range_narrow(&range, '=', value);
  *key = range.lo;
  return range.lo == range.hi;
}

/* ---- REAL values --------------------------------------------------------- */

void ext_reals_all(struct ext_reals *reals) {
  reals->least = -INFINITY;
  reals->most = INFINITY;
}

static void reals_none(struct ext_reals *reals) {
  reals->least = INFINITY;
  reals->most = -INFINITY;
}

static void reals_narrow_real(struct ext_reals *reals, char op, double value) {
  double least = -INFINITY, most = INFINITY;
  switch (op) {
  case '<':
    most = nextafter(value, -INFINITY);
    break;
  case 'l':
    most = value;
    break;
  case '>':
    least = nextafter(value, INFINITY);
    break;
  case 'g':
    least = value;
    break;
  default:
    least = most = value;
  }
  reals->least = fmax(reals->least, least);
  reals->most = fmin(reals->most, most);
}

/* An integer that double cannot represent lies between two doubles.  The
** comparison uses the one it rounds to, made strict or not to stay exact. */
static void reals_narrow_int(struct ext_reals *reals, char op,
                             sqlite3_int64 value) {
  double real = (double)value;
  int above = real >= TWO_63 || (sqlite3_int64)real > value;
  int below = !above && (sqlite3_int64)real < value;
  if ((above || below) && op == '=') {
    reals_none(reals);
    return;
  }
  if (op == '<' || op == 'l')
    op = above ? '<' : below ? 'l' : op;
  else if (op == '>' || op == 'g')
    op = above ? 'g' : below ? '>' : op;
  reals_narrow_real(reals, op, real);
}

void ext_reals_narrow(struct ext_reals *reals, char op, sqlite3_value *value) {
  emb_assert(op && strchr(RANGE_OPS, op));
  switch (sqlite3_value_numeric_type(value)) {
  case SQLITE_INTEGER:
    reals_narrow_int(reals, op, sqlite3_value_int64(value));
    break;
  case SQLITE_FLOAT:
    reals_narrow_real(reals, op, sqlite3_value_double(value));
    break;
  case SQLITE_NULL:
    reals_none(reals);
    break;
  default:
    if (op != '<' && op != 'l')
      reals_none(reals);
  }
}
