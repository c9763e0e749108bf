/* SPDX-License-Identifier: MIT
**
** nearest_options.c -- the options of emb_nearest:
**
**     'column=title, mode=exact, probes=8, radius=0.5, threads=2,
**      snapshot=monday, recall=0.99'
**
** parsed by ext_pairs (value.h).
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <string.h>

#define NEAREST_THREADS_MAX 1024

static const char *const names[] = {"column",  "mode",     "probes", "radius",
                                    "threads", "snapshot", "recall"};
enum {
  WITH_COLUMN,
  WITH_MODE,
  WITH_PROBES,
  WITH_RADIUS,
  WITH_THREADS,
  WITH_SNAPSHOT,
  WITH_RECALL,
  WITHS
};

static int option_number(const char *name, const char *value, uint64_t most,
                         uint32_t *number, char **err) {
  uint64_t digits;
  if (!text_whole(value, 1, most, &digits))
    return ext_error(err, SQLITE_ERROR,
                     "unknown value for %s: %s; expected 1 to %llu", name,
                     value, (unsigned long long)most);
  *number = (uint32_t)digits;
  return SQLITE_OK;
}

static int option_radius(const char *value, emb_nearest_how *how, char **err) {
  size_t size = text__double(value, &how->most);
  if (size == 0 || value[size])
    return ext_error(err, SQLITE_ERROR,
                     "unknown value for radius: %s; expected a number", value);
  how->flags |= EMB_NEAREST_WITHIN;
  how->least = -INFINITY;
  return SQLITE_OK;
}

static int option_recall(const char *value, double *recall, char **err) {
  size_t size = text__double(value, recall);
  if (size && !value[size] && *recall > 0 && *recall <= 1)
    return SQLITE_OK;
  return ext_error(
      err, SQLITE_ERROR,
      "unknown value for recall: %s; expected a number above 0 and "
      "at most 1",
      value);
}

static int option_take(const struct ext_options *options, int i,
                       const char *value, struct nearest_options *with,
                       char **err) {
  emb_nearest_how *how = &with->how;
  switch (i) {
  case WITH_COLUMN:
    return ext_fn_column(options, value, &how->segment, err);
  case WITH_MODE:
    if (sqlite3_stricmp(value, "exact") != 0)
      return ext_error(err, SQLITE_ERROR, "unknown mode: %s; expected exact",
                       value);
    how->flags |= EMB_NEAREST_EXACT;
    return SQLITE_OK;
  case WITH_PROBES:
    return option_number(names[i], value, INT32_MAX, &how->probes, err);
  case WITH_RADIUS:
    return option_radius(value, how, err);
  case WITH_RECALL:
    return option_recall(value, &how->recall, err);
  case WITH_THREADS:
    return option_number(names[i], value, NEAREST_THREADS_MAX, &how->threads,
                         err);
  default:
    with->snapshot = sqlite3_mprintf("%s", value);
    return with->snapshot ? SQLITE_OK : SQLITE_NOMEM;
  }
}

struct nearest_taking {
  const struct ext_options *options;
  struct nearest_options *with;
};

static int nearest_take(void *arg, int i, const char *value, char **err) {
  struct nearest_taking *taking = arg;
  return option_take(taking->options, i, value, taking->with, err);
}

int ext_nearest_options(const struct ext_options *options, sqlite3_value *value,
                        struct nearest_options *with, char **err) {
  static const struct ext_pair_names all = {
      names, WITHS, "column=vector, radius=0.5", nearest_take};
  struct nearest_taking taking = {options, with};
  return ext_pairs(value, &all, &taking, err);
}
