/* SPDX-License-Identifier: MIT
**
** pairs.c -- the argument `options` of functions: a list of name=value pairs,
**
**     'column=title, probes=8, radius=0.5'
**
** in any order, each name at most once.  A value that contains a comma, or
** starts or ends with a space, must be in double quotes.
*/
#include "value.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

struct pair {
  const char *name, *value;
  size_t name_size, value_size;
};

/* Reads the pair at *at and advances *at past it.  0: syntax error. */
static int pair_next(const char **at, struct pair *pair) {
  pair->name = *at = text_space(*at);
  pair->name_size = text__dashed(*at);
  *at += pair->name_size;
  if (pair->name_size == 0 || !text__equals(at))
    return 0;
  if (**at == '"') {
    const char *end = strchr(++*at, '"');
    if (end == NULL)
      return 0;
    pair->value = *at;
    pair->value_size = (size_t)(end - *at);
    *at = text_space(end + 1);
  } else {
    pair->value = *at;
    pair->value_size = text_trimmed(*at, strcspn(*at, ","));
    *at = text_space(*at + pair->value_size);
  }
  if (**at == ',')
    return text_space(++*at)[0] != 0;
  return **at == 0;
}

static int pair_find(const struct pair *pair, const struct ext_pair_names *all,
                     uint64_t *seen, int *i, char **err) {
  const char *const *names = all->names;
  struct near near;
  near_start(&near, pair->name, pair->name_size);
  for (*i = 0; *i < all->n; ++*i) {
    if (near_same(names[*i], pair->name, pair->name_size))
      break;
    near_offer(&near, names[*i]);
  }
  if (*i == all->n)
    return ext_error(err, SQLITE_ERROR, "unknown option: %.*s%s",
                     (int)pair->name_size, pair->name, near_text(&near));
  if (*seen >> *i & 1)
    return ext_error(err, SQLITE_ERROR, "given twice: %s", names[*i]);
  *seen |= UINT64_C(1) << *i;
  return SQLITE_OK;
}

int ext_pairs(sqlite3_value *value, const struct ext_pair_names *names,
              void *arg, char **err) {
  const char *text = NULL, *at;
  uint64_t seen = 0;
  int rc = SQLITE_OK;
  emb_assert(names->n <= 64); /* bits of `seen` */
  if (value == NULL || sqlite3_value_type(value) == SQLITE_NULL)
    return SQLITE_OK;
  rc = ext_arg_text(value, "options", &text, err);
  if (rc != SQLITE_OK)
    return rc;
  for (at = text_space(text); *at && rc == SQLITE_OK;) {
    struct pair pair;
    char *copy;
    int i;
    if (!pair_next(&at, &pair))
      return ext_error(err, SQLITE_ERROR,
                       "cannot understand the options: %s; expected e.g. %s",
                       text, names->example);
    rc = pair_find(&pair, names, &seen, &i, err);
    if (rc != SQLITE_OK)
      break;
    copy = sqlite3_mprintf("%.*s", (int)pair.value_size, pair.value);
    rc = copy ? names->take(arg, i, copy, err) : SQLITE_NOMEM;
    sqlite3_free(copy);
  }
  return rc;
}
