/* SPDX-License-Identifier: MIT
**
** dict_sql.h -- private to dict/: declarations shared by its files.
*/
#ifndef EMB_EXT_DICT_SQL_H
#define EMB_EXT_DICT_SQL_H

#include "dict.h"

enum dict_statement {
  DICT_CHECK, /* removals, and the largest number */
  DICT_FIND,
  DICT_FIND_MARKED, /* marked texts only */
  DICT_MANY,        /* DICT_FIND of many texts */
  DICT_TEXT,
  DICT_AHEAD,
  DICT_UNMARK,
  DICT_ADD,
  DICT_STATEMENTS
};

/* Fewer texts than MIN are looked up one by one; more, in steps of STEP. */
#define DICT_MANY_MIN 8
#define DICT_MANY_STEP 64

struct ext_dict {
  sqlite3 *db; /* as of the last begin */
  char *schema, *table;
  sqlite3_stmt *statements[DICT_STATEMENTS]; /* NULL: not prepared */
  int keeps; /* a table object exists: statements may be kept */
  struct ext_cache *cache;
  int64_t removals;
  int64_t limit;  /* numbers up to this one are committed */
  int64_t newest; /* largest number assigned, committed or not */
  int marks;      /* the open transaction has marked texts */
  int64_t ahead;  /* texts up to this number were read ahead (ahead.c) */
  size_t owed;    /* texts that may be read ahead, earned by lookups */
  char *text;     /* the last text read from SQLite */
  size_t room;
};

/* ---- statement.c --------------------------------------------------------- */

/* Returns a statement ready to run, which the caller must pass to
** ext_dict_done. */
int ext_dict_statement(struct ext_dict *dict, enum dict_statement which,
                       sqlite3_stmt **statement, char **err);
/* Resets the statement.  rc: the result of its last step.  Returns SQLITE_OK,
** or the error. */
int ext_dict_done(struct ext_dict *dict, enum dict_statement which,
                  sqlite3_stmt *statement, int rc, char **err);
/* Binds a text, which may be empty. */
int ext_dict_bind(sqlite3_stmt *statement, int i, const struct ext_text *text);
void ext_dict_remember(struct ext_dict *dict, const struct ext_text *text,
                       int64_t id);

/* ---- many.c -------------------------------------------------------------- */

/* Looks up the texts whose ids[i] is 0, and caches those found.  The statement
** is DICT_MANY. */
int ext_dict_look_many(struct ext_dict *dict, sqlite3_stmt *statement,
                       const struct ext_text *texts, size_t n, int64_t *ids);

/* ---- ahead.c ------------------------------------------------------------- */

/* Reads texts ahead after a lookup has found `found` texts that the cache did
** not have. */
int ext_dict_ahead(struct ext_dict *dict, size_t found, char **err);

#endif
