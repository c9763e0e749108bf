/* SPDX-License-Identifier: MIT
**
** dict_sql.h -- private to dict/: what dict.c and change.c share.
*/
#ifndef EMB_EXT_DICT_SQL_H
#define EMB_EXT_DICT_SQL_H

#include "dict.h"

enum dict_statement {
  DICT_CHECK, /* removals, and the largest number */
  DICT_FIND,
  DICT_TEXT,
  DICT_ADD,
  DICT_STATEMENTS
};

struct ext_dict {
  sqlite3 *db; /* as of the last begin */
  char *schema, *table;
  sqlite3_stmt *statements[DICT_STATEMENTS]; /* NULL: not prepared */
  int keeps; /* there is a table object: they may stay prepared */
  struct ext_cache *cache;
  int64_t removals;
  int64_t limit;  /* the numbers up to it are committed */
  int64_t newest; /* that was given, in whatever transaction there is */
  char *text;     /* the last one that was read from SQLite */
  size_t room;
};

/* One that is ready to be run, to be given to ext_dict_done. */
int ext_dict_statement(struct ext_dict *dict, enum dict_statement which,
                       sqlite3_stmt **statement, char **err);
/* Resets it; rc: of the last step.  SQLITE_OK, or the error. */
int ext_dict_done(struct ext_dict *dict, enum dict_statement which,
                  sqlite3_stmt *statement, int rc, char **err);
/* *id is 0 where the text is not there.  `find` is prepared. */
int ext_dict_look(sqlite3_stmt *find, const struct ext_text *text, int64_t *id);
/* Binds a text, which may be empty. */
int ext_dict_bind(sqlite3_stmt *statement, int i, const struct ext_text *text);
void ext_dict_remember(struct ext_dict *dict, const struct ext_text *text,
                       int64_t id);

#endif
