/* SPDX-License-Identifier: MIT
**
** nearest_options.c -- the options of emb_nearest:
**
**     'column=title, mode=exact, probes=8, radius=0.5, threads=2,
**      snapshot=monday'
**
** each at most once, in any order.  A value with a comma or a space around it
** is in double quotes.
*/
#include "tvf.h"
SQLITE_EXTENSION_INIT3

#include <math.h>
#include <string.h>

#define NEAREST_THREADS_MAX 1024

struct option_text {
  const char *name, *value;
  size_t name_size, value_size;
};

static const char *const names[] = {"column", "mode",    "probes",
                                    "radius", "threads", "snapshot"};
enum {
  WITH_COLUMN,
  WITH_MODE,
  WITH_PROBES,
  WITH_RADIUS,
  WITH_THREADS,
  WITH_SNAPSHOT,
  WITHS
};

/* The next of the text, at which *at is; 0: it is none. */
static int option_next(const char **at, struct option_text *option) {
  option->name = *at = text_space(*at);
  option->name_size = text__name(*at);
  *at += option->name_size;
  if (option->name_size == 0 || !text__equals(at))
    return 0;
  if (**at == '"') {
    const char *end = strchr(++*at, '"');
    if (end == NULL)
      return 0;
    option->value = *at;
    option->value_size = (size_t)(end - *at);
    *at = text_space(end + 1);
  } else {
    option->value = *at;
    option->value_size = text_trimmed(*at, strcspn(*at, ","));
    *at = text_space(*at + option->value_size);
  }
  if (**at == ',')
    return text_space(++*at)[0] != 0;
  return **at == 0;
}

static int option_column(const struct ext_options *options, const char *value,
                         uint32_t *segment, char **err) {
  struct near near;
  near_start(&near, value, strlen(value));
  for (*segment = 0; *segment < ext_vectors(options); ++*segment) {
    const char *name = options->vectors[*segment];
    if (sqlite3_stricmp(name, value) == 0)
      return SQLITE_OK;
    near_offer(&near, name);
  }
  return ext_error(err, SQLITE_ERROR, "no vector column: %s%s", value,
                   near_text(&near));
}

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
  size_t size = text_double(value, &how->most);
  if (size == 0 || value[size])
    return ext_error(err, SQLITE_ERROR,
                     "unknown value for radius: %s; expected a number", value);
  how->flags |= EMB_NEAREST_WITHIN;
  how->least = -INFINITY;
  return SQLITE_OK;
}

static int option_take(const struct ext_options *options, int i,
                       const char *value, struct nearest_options *with,
                       char **err) {
  emb_nearest_how *how = &with->how;
  switch (i) {
  case WITH_COLUMN:
    return option_column(options, value, &how->segment, err);
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
  case WITH_THREADS:
    return option_number(names[i], value, NEAREST_THREADS_MAX, &how->threads,
                         err);
  default:
    with->snapshot = sqlite3_mprintf("%s", value);
    return with->snapshot ? SQLITE_OK : SQLITE_NOMEM;
  }
}

static int option_find(const struct option_text *option, int *seen, int *i,
                       char **err) {
  struct near near;
  near_start(&near, option->name, option->name_size);
  for (*i = 0; *i < WITHS; ++*i) {
    if (near_same(names[*i], option->name, option->name_size))
      break;
    near_offer(&near, names[*i]);
  }
  if (*i == WITHS)
    return ext_error(err, SQLITE_ERROR, "unknown option: %.*s%s",
                     (int)option->name_size, option->name, near_text(&near));
  if (*seen & 1 << *i)
    return ext_error(err, SQLITE_ERROR, "given twice: %s", names[*i]);
  *seen |= 1 << *i;
  return SQLITE_OK;
}

int ext_nearest_options(const struct ext_options *options, sqlite3_value *value,
                        struct nearest_options *with, char **err) {
  const char *text = NULL, *at;
  int seen = 0, rc = SQLITE_OK;
  if (value == NULL || sqlite3_value_type(value) == SQLITE_NULL)
    return SQLITE_OK;
  rc = ext_arg_text(value, "options", &text, err);
  if (rc != SQLITE_OK)
    return rc;
  for (at = text_space(text); *at && rc == SQLITE_OK;) {
    struct option_text option;
    char *copy;
    int i;
    if (!option_next(&at, &option))
      return ext_error(err, SQLITE_ERROR,
                       "cannot understand the options: %s; expected e.g. "
                       "column=vector, radius=0.5",
                       text);
    rc = option_find(&option, &seen, &i, err);
    if (rc != SQLITE_OK)
      break;
    copy = sqlite3_mprintf("%.*s", (int)option.value_size, option.value);
    rc = copy ? option_take(options, i, copy, with, err) : SQLITE_NOMEM;
    sqlite3_free(copy);
  }
  return rc;
}
