/* SPDX-License-Identifier: MIT
**
** dict_sql.h -- private to dict/: what the files of dict/ share.
*/
#ifndef EMB_EXT_DICT_SQL_H
#define EMB_EXT_DICT_SQL_H

#include "dict.h"

enum dict_statement {
  DICT_CHECK, /* removals, and the largest number */
  DICT_FIND,
  DICT_FIND_MARKED, /* those that are marked */
  DICT_MANY,        /* DICT_FIND of many texts */
  DICT_TEXT,
  DICT_AHEAD,
  DICT_UNMARK,
  DICT_ADD,
  DICT_STATEMENTS
};

/* Fewer texts are looked up one after another, more in steps of so many. */
#define DICT_MANY_MIN 8
#define DICT_MANY_STEP 64

struct ext_dict {
  sqlite3 *db; /* as of the last begin */
  char *schema, *table;
  sqlite3_stmt *statements[DICT_STATEMENTS]; /* NULL: not prepared */
  int keeps; /* there is a table object: they may stay prepared */
  struct ext_cache *cache;
  int64_t removals;
  int64_t limit;  /* the numbers up to it are committed */
  int64_t newest; /* that was given, in whatever transaction there is */
  int marks;      /* that transaction has marked texts */
  int64_t ahead;  /* the texts up to it were read ahead (ahead.c) */
  size_t owed;    /* so many may be read, for what was looked up */
  char *text;     /* the last one that was read from SQLite */
  size_t room;
};

/* ---- statement.c --------------------------------------------------------- */

/* One that is ready to be run, to be given to ext_dict_done. */
int ext_dict_statement(struct ext_dict *dict, enum dict_statement which,
                       sqlite3_stmt **statement, char **err);
/* Resets it; rc: of the last step.  SQLITE_OK, or the error. */
int ext_dict_done(struct ext_dict *dict, enum dict_statement which,
                  sqlite3_stmt *statement, int rc, char **err);
/* Binds a text, which may be empty. */
int ext_dict_bind(sqlite3_stmt *statement, int i, const struct ext_text *text);
void ext_dict_remember(struct ext_dict *dict, const struct ext_text *text,
                       int64_t id);

/* ---- many.c -------------------------------------------------------------- */

/* Looks for those whose ids[i] is 0, and remembers what it finds.  The
** statement is DICT_MANY. */
int ext_dict_look_many(struct ext_dict *dict, sqlite3_stmt *statement,
                       const struct ext_text *texts, size_t n, int64_t *ids);

/* ---- ahead.c ------------------------------------------------------------- */

/* So many texts were found that the cache did not have. */
int ext_dict_ahead(struct ext_dict *dict, size_t found, char **err);

#endif
