/* SPDX-License-Identifier: MIT
**
** aux_declare.c -- auxiliary columns, as CREATE declares them:
**
**     +name [type] [INDEXED]
**
** TYPE      is whatever SQLite accepts as a type: words, and one or two numbers
**           in parentheses.  It is copied into two statements, the declarations
**           of the table and of its shadow table, so a column has the same
**           affinity in both, and only words and numbers can get there.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Words that SQLite would parse as a constraint, or that have a meaning in a
** virtual table's declaration. */
static int is_constraint(const char *word, size_t n) {
  static const char *const words[] = {
      "primary",    "key",     "not",        "null",     "unique",
      "check",      "default", "collate",    "as",       "constraint",
      "references", "hidden",  "generated",  "always",   "autoincrement",
      "on",         "foreign", "deferrable", "initially"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    if (strlen(words[i]) == n && sqlite3_strnicmp(word, words[i], (int)n) == 0)
      return 1;
  return 0;
}

static size_t type_word_length(const char *at) {
  size_t n = 0;
  if (*at >= '0' && *at <= '9')
    return 0;
  while (text_is_name(at[n]))
    n++;
  return n;
}

/* Appends "(10)" or "(10, -2)" to the type; 0: syntax error. */
static int read_type_numbers(const char **at, sqlite3_str *type) {
  char end;
  sqlite3_str_appendchar(type, 1, '(');
  do {
    *at = text_space(*at + 1);
    if (**at == '-' || **at == '+')
      sqlite3_str_appendchar(type, 1, *(*at)++);
    if (**at < '0' || **at > '9')
      return 0;
    while (**at >= '0' && **at <= '9')
      sqlite3_str_appendchar(type, 1, *(*at)++);
    *at = text_space(*at);
    end = **at;
    sqlite3_str_appendchar(type, 1, end == ',' ? ',' : ')');
  } while (end == ',');
  *at = end == ')' ? text_space(*at + 1) : *at;
  return end == ')';
}

/* The rules of SQLite's datatype3.html, section 3.1. */
static enum ext_affinity affinity_of(const char *type) {
  static const struct {
    const char *part;
    enum ext_affinity affinity;
  } rules[] = {{"*int*", EXT_AFFINITY_NUMBER},
               {"*char*", EXT_AFFINITY_TEXT},
               {"*clob*", EXT_AFFINITY_TEXT},
               {"*text*", EXT_AFFINITY_TEXT},
               {"*blob*", EXT_AFFINITY_NONE}};
  char *lower = sqlite3_mprintf("%s", type);
  enum ext_affinity affinity =
      type[0] ? EXT_AFFINITY_NUMBER : EXT_AFFINITY_NONE;
  size_t i = 0;
  for (char *c = lower; c && *c; c++)
    *c |= *c >= 'A' && *c <= 'Z' ? 0x20 : 0;
  for (; lower && i < sizeof rules / sizeof rules[0]; i++)
    if (sqlite3_strglob(rules[i].part, lower) == 0) {
      affinity = rules[i].affinity;
      break;
    }
  sqlite3_free(lower);
  return affinity;
}

/* Parses the text after the name. */
static int read_aux_type(struct ext_aux_column *column, const char *rest,
                         char **err) {
  sqlite3_str *type = sqlite3_str_new(NULL);
  const char *at = rest;
  size_t n;
  int rc, good = 1;
  while (good && (n = type_word_length(at)) > 0 && !is_constraint(at, n)) {
    if (n == 7 && sqlite3_strnicmp(at, "indexed", 7) == 0) {
      column->indexed = 1;
      at = text_space(at + n);
      break;
    }
    sqlite3_str_appendf(type, "%s%.*s", sqlite3_str_length(type) ? " " : "",
                        (int)n, at);
    at = text_space(at + n);
    if (*at == '(')
      good = read_type_numbers(&at, type);
  }
  rc = sqlite3_str_errcode(type);
  column->type = sqlite3_str_finish(type);
  if (rc == SQLITE_OK && column->type == NULL)
    column->type = sqlite3_mprintf("");
  if (rc != SQLITE_OK || column->type == NULL)
    return SQLITE_NOMEM;
  column->affinity = affinity_of(column->type);
  return *at == 0
             ? SQLITE_OK
             : ext_error(err, SQLITE_ERROR,
                         "cannot understand: %.*s; expected a type, and "
                         "perhaps INDEXED, after +%s",
                         (int)text_trimmed(at, strlen(at)), at, column->name);
}

int ext_aux_add(struct ext_options *options, char *name, const char *rest,
                char **err) {
  int n = options->aux_count;
  struct ext_aux_column *more =
      sqlite3_realloc64(options->aux, ((size_t)n + 1) * sizeof *more);
  if (more == NULL) {
    sqlite3_free(name);
    return SQLITE_NOMEM;
  }
  options->aux = more;
  options->aux_count++;
  more[n] = (struct ext_aux_column){.name = name};
  if (sqlite3_stricmp(name, "id") == 0)
    return ext_error(err, SQLITE_ERROR,
                     "column name is reserved: %s (the name of the key in the "
                     "table of the columns with a +)",
                     name);
  return read_aux_type(&more[n], rest, err);
}

int ext_aux_named(const struct ext_options *options, const char *name) {
  int times = 0;
  for (int i = 0; i < options->aux_count; i++)
    times += sqlite3_stricmp(name, options->aux[i].name) == 0;
  return times;
}

void ext_aux_declare(const struct ext_options *options, sqlite3_str *sql) {
  for (int i = 0; i < options->aux_count; i++)
    sqlite3_str_appendf(sql, ", \"%w\" %s", options->aux[i].name,
                        options->aux[i].type);
}

void ext_aux_clear(struct ext_options *options) {
  for (int i = 0; i < options->aux_count; i++) {
    sqlite3_free(options->aux[i].name);
    sqlite3_free(options->aux[i].type);
  }
  sqlite3_free(options->aux);
  options->aux = NULL;
  options->aux_count = 0;
}
