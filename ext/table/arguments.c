/* SPDX-License-Identifier: MIT
**
** arguments.c -- the arguments of CREATE VIRTUAL TABLE ... USING emb(...).
**
** ARGUMENT   SQLite passes each argument as text, comments removed and quotes
**            kept.  An argument that starts with `name =` is an option, any
**            other a column definition:
**                key INTEGER PRIMARY KEY     at most once; default name "key"
**                vector FLOAT[64]            once or more, optionally followed
**                                            by optimizer=...
**                                            initializer=... metric=...
**                                            index=...
**                +title TEXT                 an auxiliary column
**                                            (aux_declare.c)
** NAMES      are identifiers, bare or quoted in any of SQLite's four ways.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

/* Does SQLite accept this byte in an identifier? */
static int is_identifier(char c) {
  return text_is_name(c) || c == '$' || (c & 0x80) != 0;
}

/* Length without trailing space. */
static int argument_trimmed(const char *at) {
  return (int)text_trimmed(at, strlen(at));
}

/* Reads an identifier or a quoted text at *at and advances *at.  *out: NULL if
** there is none.  Returns SQLITE_OK or SQLITE_NOMEM. */
static int identifier_read(const char **at, char **out) {
  const char *from = *at;
  const char *to = from;
  char close = *from == '[' ? ']' : *from;
  if (close == '"' || close == '\'' || close == '`' || close == ']') {
    char *name;
    int n = 0;
    *out = NULL;
    for (to++; *to && (*to != close || (close != ']' && to[1] == close)); to++)
      if (*to == close)
        to++;
    if (*to == 0)
      return SQLITE_OK;
    if ((name = sqlite3_malloc64((size_t)(to - from))) == NULL)
      return SQLITE_NOMEM;
    for (from++; from < to; from++) {
      name[n++] = *from;
      if (*from == close)
        from++;
    }
    name[n] = 0;
    *at = to + 1;
    *out = name;
    return SQLITE_OK;
  }
  while (is_identifier(*to))
    to++;
  *at = to;
  *out = to == from ? NULL : sqlite3_mprintf("%.*s", (int)(to - from), from);
  return to == from || *out ? SQLITE_OK : SQLITE_NOMEM;
}

/* Skips a keyword, in any case. */
static int keyword_read(const char **at, const char *word) {
  size_t n = strlen(word);
  if (sqlite3_strnicmp(*at, word, (int)n) != 0 || is_identifier((*at)[n]))
    return 0;
  *at = text_space(*at + n);
  return 1;
}

/* ---- columns ------------------------------------------------------------- */

static int check_name(const struct ext_options *options, const char *name,
                      char **err) {
  int times = 0;
  if (options->key)
    times += sqlite3_stricmp(name, options->key) == 0;
  for (uint32_t i = 0; i < ext_vectors(options); i++)
    times += sqlite3_stricmp(name, options->vectors[i]) == 0;
  times += ext_aux_named(options, name);
  return times > 1
             ? ext_error(err, SQLITE_ERROR, "duplicate column name: %s", name)
             : SQLITE_OK;
}

/* Reads a value: quoted, or up to a byte of `end` outside of parentheses.
** Advances *at past it.  *value: NULL if there is none. */
static int argument_value(const char **at, const char *end, char **value) {
  const char *from = *at;
  int depth = 0;
  if (*from == '\'' || *from == '"')
    return identifier_read(at, value);
  for (; **at && (depth || !strchr(end, **at)); (*at)++)
    depth += (**at == '(') - (**at == ')');
  *value =
      *at == from ? NULL : sqlite3_mprintf("%.*s", (int)(*at - from), from);
  return *at == from || *value ? SQLITE_OK : SQLITE_NOMEM;
}

/* Parses what may follow a vector's type: optimizer=..., initializer=...,
** metric=..., index=... */
static int parse_attribute(emb_segment *segment, const char **at,
                           const char *column, char **err) {
  const struct ext_option *option = NULL;
  const char *from = *at;
  char *name, *value = NULL, **to;
  int rc = identifier_read(at, &name);
  if (rc != SQLITE_OK)
    return rc;
  if (name)
    option = ext_option_find(name);
  sqlite3_free(name);
  if (option == NULL || option->in_column == 0 || !text__equals(at))
    return ext_error(err, SQLITE_ERROR,
                     "cannot understand: %.*s; expected optimizer=, "
                     "initializer=, metric= or index= after the type of %s",
                     argument_trimmed(from), from, column);
  to = ext_option_column_text(segment, option);
  if (*to)
    return ext_error(err, SQLITE_ERROR, "given twice: %.*s",
                     argument_trimmed(from), from);
  rc = argument_value(at, " \t\r\n", &value);
  if (rc == SQLITE_OK && value == NULL)
    rc = ext_error(err, SQLITE_ERROR, "cannot understand the value of %.*s",
                   argument_trimmed(from), from);
  *to = value;
  *at = text_space(*at);
  return rc == SQLITE_OK ? ext_option_check(option, column, value, err) : rc;
}

/* Skips "FLOAT[" or the like. */
static int read_type(const char **at, uint32_t *type) {
  static const struct {
    const char *word;
    uint32_t type;
  } types[] = {{"float", EMB_F32},
               {"float32", EMB_F32},
               {"f32", EMB_F32},
               {"float16", EMB_F16},
               {"f16", EMB_F16}};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
    if (keyword_read(at, types[i].word)) {
      *type = types[i].type;
      return *(*at)++ == '[';
    }
  return 0;
}

/* Parses what follows the name of a vector column: FLOAT[64] ... */
static int parse_vector(struct ext_options *options, char *name, const char *at,
                        char **err) {
  uint32_t i = options->config.segment_count;
  emb_segment *segment = &options->segments[i < EMB_SEGMENTS_MAX ? i : 0];
  const char *from = at;
  const char *dim_from;
  uint64_t dim = 0;
  uint32_t type = EMB_F32;
  int valid, rc;
  if (!read_type(&at, &type)) {
    rc = ext_error(err, SQLITE_ERROR,
                   "unknown column type: %.*s; expected FLOAT[N] or "
                   "FLOAT16[N] for a vector, INTEGER PRIMARY KEY or TEXT "
                   "PRIMARY KEY for the key",
                   argument_trimmed(from), from);
  } else if (i == EMB_SEGMENTS_MAX) {
    rc = ext_error(err, SQLITE_ERROR, "more than %d vector columns",
                   EMB_SEGMENTS_MAX);
  } else {
    rc = SQLITE_OK;
  }
  if (rc != SQLITE_OK) {
    sqlite3_free(name);
    return rc;
  }
  options->vectors[i] = name;
  options->config.segment_count++;
  at = dim_from = text_space(at);
  valid = text_digits(&at, EMB_DIM_MAX, &dim) && dim >= 1;
  at = text_space(at);
  if (!valid || *at != ']')
    return ext_error(err, SQLITE_ERROR,
                     "dimension must be between 1 and %d, got %.*s",
                     EMB_DIM_MAX, (int)strcspn(dim_from, "] \t\r\n"), dim_from);
  segment->dim = (uint32_t)dim;
  segment->type = type;
  at = text_space(at + 1);
  while (rc == SQLITE_OK && *at)
    rc = parse_attribute(segment, &at, name, err);
  return rc == SQLITE_OK ? check_name(options, name, err) : rc;
}

static int parse_column(struct ext_options *options, const char *text,
                        char **err) {
  const char *at = text;
  char *name;
  int is_key, is_text = 0;
  int rc = identifier_read(&at, &name);
  if (rc != SQLITE_OK)
    return rc;
  if (name == NULL)
    return ext_error(err, SQLITE_ERROR, "cannot understand: %.*s",
                     argument_trimmed(text), text);
  at = text_space(at);
  {
    const char *type = at;
    is_key = keyword_read(&type, "integer") ||
             (is_text = keyword_read(&type, "text"));
    is_key =
        is_key && keyword_read(&type, "primary") && keyword_read(&type, "key");
    if (is_key && is_text && keyword_read(&type, "not"))
      is_key = keyword_read(&type, "null");
    is_key = is_key && *type == 0;
  }
  if (!is_key)
    return parse_vector(options, name, at, err);
  if (options->key) {
    sqlite3_free(name);
    return ext_error(err, SQLITE_ERROR, "more than one key column");
  }
  options->key = name;
  options->text_key = is_text;
  return check_name(options, name, err);
}

/* +name type */
static int parse_aux(struct ext_options *options, const char *text,
                     char **err) {
  const char *at = text_space(text + 1);
  char *name;
  int rc = identifier_read(&at, &name);
  if (rc != SQLITE_OK)
    return rc;
  if (name == NULL)
    return ext_error(err, SQLITE_ERROR, "cannot understand: %.*s",
                     argument_trimmed(text), text);
  rc = ext_aux_add(options, name, text_space(at), err);
  return rc == SQLITE_OK ? check_name(options, name, err) : rc;
}

/* ---- options ------------------------------------------------------------- */

/* EMB_WARM=off in the environment is warm='off' for all tables of the
** process. */
static int is_cold_process(void) {
  const char *value = getenv("EMB_WARM");
  int is_warm = 1;
  return value && unit_is_bool(value, &is_warm) && !is_warm;
}

/* `at` is past the `=` and any space after it. */
static int parse_option(struct ext_options *options, const char *name,
                        const char *at, char **err) {
  const struct ext_option *option = ext_option_find(name);
  int rc = SQLITE_OK;
  char *value;
  if (*at == '\'' || *at == '"') {
    rc = identifier_read(&at, &value);
    if (value && *text_space(at) != 0) {
      sqlite3_free(value);
      value = NULL;
    }
  } else {
    value = sqlite3_mprintf("%.*s", argument_trimmed(at), at);
    rc = value ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (rc != SQLITE_OK)
    return rc;
  if (value == NULL)
    return ext_error(err, SQLITE_ERROR, "cannot understand the value of %s",
                     name);
  rc = option ? ext_option_set(options, option, value, err)
              : ext_option_unknown(name, err);
  sqlite3_free(value);
  return rc;
}

static int parse_argument(struct ext_options *options, const char *text,
                          char **err) {
  const char *at = text = text_space(text);
  char *name;
  int rc;
  if (*text == '+')
    return parse_aux(options, text, err);
  rc = identifier_read(&at, &name);
  if (rc != SQLITE_OK)
    return rc;
  if (name && text__equals(&at))
    rc = parse_option(options, name, at, err);
  else
    rc = parse_column(options, text, err);
  sqlite3_free(name);
  return rc;
}

/* No column may have the name of a hidden one, which depends on an option. */
static int check_reserved(const struct ext_options *options, char **err) {
  const char *bad = NULL;
  for (int i = options->aux_count - 1; i >= 0; i--)
    if (ext_column_is_reserved(options, options->aux[i].name))
      bad = options->aux[i].name;
  for (uint32_t i = ext_vectors(options); i-- > 0;)
    if (ext_column_is_reserved(options, options->vectors[i]))
      bad = options->vectors[i];
  if (ext_column_is_reserved(options, options->key))
    bad = options->key;
  return bad ? ext_error(err, SQLITE_ERROR, "column name is reserved: %s", bad)
             : SQLITE_OK;
}

/* Derives and checks what depends on all arguments. */
static int arguments_finish(struct ext_options *options, char **err) {
  emb_config *config = &options->config;
  uint32_t n = ext_vectors(options);
  uint64_t dim = ext_vector_first(options, n);
  if (dim > EMB_DIM_MAX)
    return ext_error(err, SQLITE_ERROR,
                     "the dimensions of all vectors must be at most %d "
                     "together, got %llu",
                     EMB_DIM_MAX, (unsigned long long)dim);
  options->optimized = config->optimizer != NULL;
  for (uint32_t i = 0; i < n; i++)
    options->optimized |= options->segments[i].optimizer != NULL;
  config->dim = (uint32_t)dim;
  config->type = options->segments[0].type;
  config->segments = options->segments;
  if (is_cold_process())
    config->flags |= EMB_OPEN_COLD;
  emb_check(ext_options_valid(options));
  return SQLITE_OK;
}

int ext_arguments_parse(struct ext_options *options, int argc,
                        const char *const *argv, char **err) {
  int rc = SQLITE_OK;
  ext_options_init(options);
  for (int i = 3; i < argc && rc == SQLITE_OK; i++)
    rc = parse_argument(options, argv[i], err);
  if (rc == SQLITE_OK)
    rc = ext_options_check(options, err);
  if (rc != SQLITE_OK)
    return rc;
  if (ext_vectors(options) == 0)
    return ext_error(err, SQLITE_ERROR,
                     "no vector column declared; expected e.g. vector "
                     "FLOAT[64]");
  if (options->key == NULL)
    options->key = sqlite3_mprintf("key");
  if (options->key == NULL)
    return SQLITE_NOMEM;
  rc = check_reserved(options, err);
  return rc == SQLITE_OK ? arguments_finish(options, err) : rc;
}
