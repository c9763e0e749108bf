/* SPDX-License-Identifier: MIT
**
** help.c -- the table-valued function emb_help.
**
** It behaves as if declared
**     CREATE TABLE emb_help(name, kind, signature, arguments, result, errors,
**                           in_transaction, page, word HIDDEN)
** Without a word it has all rows, and for NULL none.  With a word it has the
** rows of the first of these that has any:
**   NAME      the name is the word; then come those of IN_NAME, unless the
**             word has the prefix emb_
**   IN_NAME   the name contains the word
**   IN_TEXT   the row contains the word or, if it has several, each of them
**   SOME      the row contains one of several words that is no short one
**   NEAR      the name is the nearest by spelling (engine/base/near.h)
** The prefix emb_ may be left out, case is ignored, - is the same as _, and
** American spelling is understood (neighbor).
** It reads only constants, so views may use it even with untrusted schemas.
*/
#include "help.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

static const struct ext_help *const help_lists[] = {
    ext_help_functions,  ext_help_arithmetic, ext_help_tables,
    ext_help_statements, ext_help_options,    ext_help_words,
    ext_help_statistics,
#ifndef EMB_OMIT_DATA
    ext_help_data,       ext_help_policies,
#endif
};
enum { HELP_LISTS = sizeof help_lists / sizeof help_lists[0] };

enum { HELP_NONE, HELP_WORD }; /* plans: is there a word? */
enum { HELP_COLUMN_WORD = 8, HELP_LONG_WORD = 4 };

enum help_how {
  HELP_ALL,
  HELP_NAME,
  HELP_IN_NAME,
  HELP_IN_TEXT,
  HELP_SOME,
  HELP_NEAR,
};

struct help_cursor {
  sqlite3_vtab_cursor base;   /* must be first: SQLite's part */
  sqlite3_value *argument;    /* a copy, or NULL */
  const char *word;           /* its text, without emb_ */
  int is_whole;               /* the text had emb_ */
  enum help_how how;          /* how rows are chosen */
  size_t list;                /* of row: HELP_LISTS at the end */
  const struct ext_help *row; /* NULL at the end */
};

/* ---- comparing ----------------------------------------------------------- */

static char help_letter(char c) {
  if (c >= 'A' && c <= 'Z')
    return (char)(c + 'a' - 'A');
  return c == '-' ? '_' : c;
}

/* Returns what follows in text after the n letters of word that it begins with,
** or NULL.  A `u` between `o` and `r` may be missing in the word. */
static const char *help_starts(const char *text, const char *word, size_t n) {
  const char *from = text;
  for (size_t i = 0; i < n; i++) {
    text += text > from && text[-1] == 'o' && text[0] == 'u' &&
            text[1] == 'r' && help_letter(word[i]) == 'r';
    if (help_letter(*text++) != help_letter(word[i]))
      return NULL;
  }
  return text;
}

static const char *help_after(const char *text, const char *word) {
  return help_starts(text, word, strlen(word));
}

static const char *help_without_prefix(const char *name) {
  const char *after = help_after(name, "emb_");
  return after ? after : name;
}

static int help_is_named(const struct ext_help *row, const char *word) {
  const char *after = help_after(help_without_prefix(row->name), word);
  return after && *after == 0;
}

static int help_contains(const char *text, const char *word, size_t n) {
  while (help_starts(text, word, n) == NULL)
    if (*text++ == 0)
      return 0;
  return 1;
}

static int help_row_contains(const struct ext_help *row, const char *word,
                             size_t n) {
  return help_contains(row->name, word, n) ||
         help_contains(row->kind, word, n) ||
         help_contains(row->signature, word, n) ||
         help_contains(row->arguments, word, n) ||
         help_contains(row->result, word, n) ||
         help_contains(row->page, word, n);
}

/* Does the row contain all words or, with `some`, a word of at least
** HELP_LONG_WORD letters? */
static int help_has_words(const struct ext_help *row, const char *words,
                          int some) {
  while (*words) {
    size_t n = strcspn(words, " ");
    int counts = n >= (some ? HELP_LONG_WORD : 1);
    if (counts && help_row_contains(row, words, n) == some)
      return some;
    words += n;
    words += strspn(words, " ");
  }
  return !some;
}

static int help_is_chosen(const struct help_cursor *cursor,
                          const struct ext_help *row) {
  const char *word = cursor->word;
  switch (cursor->how) {
  case HELP_ALL:
    return 1;
  case HELP_NAME:
  case HELP_NEAR:
    return help_is_named(row, word);
  case HELP_IN_NAME:
    return help_contains(row->name, word, strlen(word)) &&
           !help_is_named(row, word);
  case HELP_IN_TEXT:
  case HELP_SOME:
    return help_has_words(row, word, cursor->how == HELP_SOME);
  }
  return 0;
}

/* ---- the rows ------------------------------------------------------------ */

/* From cursor->row on, finds a row that is chosen. */
static void help_seek(struct help_cursor *cursor) {
  while (cursor->row) {
    emb_assert(cursor->list < HELP_LISTS);
    if (cursor->row->name == NULL)
      cursor->row =
          ++cursor->list < HELP_LISTS ? help_lists[cursor->list] : NULL;
    else if (help_is_chosen(cursor, cursor->row))
      return;
    else
      cursor->row++;
  }
}

static void help_start(struct help_cursor *cursor, enum help_how how) {
  cursor->how = how;
  cursor->list = 0;
  cursor->row = help_lists[0];
  help_seek(cursor);
}

/* Returns the name nearest to the word, or NULL. */
static const char *help_nearest(const char *word) {
  struct near near;
  near_start(&near, word, strlen(word));
  for (size_t i = 0; i < HELP_LISTS; i++)
    for (const struct ext_help *row = help_lists[i]; row->name; row++)
      near_offer(&near, help_without_prefix(row->name));
  return near.best;
}

static void help_find(struct help_cursor *cursor) {
  for (enum help_how how = HELP_NAME; how < HELP_NEAR; how++) {
    help_start(cursor, how);
    if (cursor->row)
      return;
  }
  cursor->word = help_nearest(cursor->word);
  if (cursor->word)
    help_start(cursor, HELP_NEAR);
}

/* ---- the module ---------------------------------------------------------- */

static int help_connect(sqlite3 *db, void *client, int argc,
                        const char *const *argv, sqlite3_vtab **out,
                        char **err) {
  int rc = ext_declare_vtab(db, "CREATE TABLE x(name TEXT, kind TEXT, "
                                "signature TEXT, arguments TEXT, result TEXT, "
                                "errors TEXT, in_transaction TEXT, page TEXT, "
                                "word HIDDEN)");
  (void)client, (void)argc, (void)argv;
  if (rc == SQLITE_OK)
    rc = sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
  if (rc != SQLITE_OK) {
    *err = sqlite3_mprintf("emb: %s", sqlite3_errmsg(db));
    return rc;
  }
  *out = sqlite3_malloc64(sizeof **out);
  if (*out == NULL)
    return SQLITE_NOMEM;
  memset(*out, 0, sizeof **out);
  return SQLITE_OK;
}

static int help_disconnect(sqlite3_vtab *table) {
  sqlite3_free(table);
  return SQLITE_OK;
}

static int help_best_index(sqlite3_vtab *table, sqlite3_index_info *info) {
  (void)table;
  info->idxNum = HELP_NONE;
  info->estimatedCost = 500;
  info->estimatedRows = 500;
  for (int i = 0; i < info->nConstraint; i++) {
    if (info->aConstraint[i].iColumn != HELP_COLUMN_WORD ||
        info->aConstraint[i].op != SQLITE_INDEX_CONSTRAINT_EQ)
      continue;
    if (!info->aConstraint[i].usable)
      return SQLITE_CONSTRAINT; /* makes SQLite try another join order */
    if (info->idxNum == HELP_NONE) {
      info->idxNum = HELP_WORD;
      info->aConstraintUsage[i].argvIndex = 1;
      info->aConstraintUsage[i].omit = 1;
      info->estimatedRows = 5;
    }
  }
  return SQLITE_OK;
}

static int help_open(sqlite3_vtab *table, sqlite3_vtab_cursor **out) {
  struct help_cursor *cursor = sqlite3_malloc64(sizeof *cursor);
  (void)table;
  if (cursor == NULL)
    return SQLITE_NOMEM;
  memset(cursor, 0, sizeof *cursor);
  *out = &cursor->base;
  return SQLITE_OK;
}

static void help_clear(struct help_cursor *cursor) {
  sqlite3_value_free(cursor->argument);
  cursor->argument = NULL;
  cursor->word = NULL;
  cursor->row = NULL;
}

static int help_close(sqlite3_vtab_cursor *base) {
  help_clear((struct help_cursor *)base);
  sqlite3_free(base);
  return SQLITE_OK;
}

static int help_filter(sqlite3_vtab_cursor *base, int plan, const char *name,
                       int argc, sqlite3_value **argv) {
  struct help_cursor *cursor = (struct help_cursor *)base;
  const char *word;
  (void)name, (void)argc;
  emb_assert(argc == plan); /* as help_best_index says */
  help_clear(cursor);
  if (plan == HELP_NONE) {
    help_start(cursor, HELP_ALL);
    return SQLITE_OK;
  }
  if (sqlite3_value_type(argv[0]) == SQLITE_NULL)
    return SQLITE_OK;
  cursor->argument = sqlite3_value_dup(argv[0]);
  word = (const char *)sqlite3_value_text(cursor->argument);
  if (word == NULL)
    return SQLITE_NOMEM;
  cursor->word = help_without_prefix(word);
  cursor->is_whole = cursor->word != word;
  help_find(cursor);
  return SQLITE_OK;
}

static int help_next(sqlite3_vtab_cursor *base) {
  struct help_cursor *cursor = (struct help_cursor *)base;
  emb_assert(cursor->row != NULL);
  cursor->row++;
  help_seek(cursor);
  if (cursor->row == NULL && cursor->how == HELP_NAME && !cursor->is_whole)
    help_start(cursor, HELP_IN_NAME);
  return SQLITE_OK;
}

static int help_eof(sqlite3_vtab_cursor *base) {
  return ((struct help_cursor *)base)->row == NULL;
}

static int help_column(sqlite3_vtab_cursor *base, sqlite3_context *context,
                       int column) {
  const struct help_cursor *cursor = (struct help_cursor *)base;
  const struct ext_help *row = cursor->row;
  const char *const texts[HELP_COLUMN_WORD] = {
      row->name,   row->kind,   row->signature,      row->arguments,
      row->result, row->errors, row->in_transaction, row->page};
  if (column < HELP_COLUMN_WORD)
    sqlite3_result_text(context, texts[column], -1, SQLITE_STATIC);
  else if (cursor->argument)
    sqlite3_result_value(context, cursor->argument);
  return SQLITE_OK;
}

/* Names are not unique; a row's place is. */
static int help_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *rowid) {
  const struct help_cursor *cursor = (struct help_cursor *)base;
  *rowid = (sqlite3_int64)(cursor->row - help_lists[cursor->list]);
  for (size_t i = 0; i < cursor->list; i++)
    for (const struct ext_help *row = help_lists[i]; row->name; row++)
      ++*rowid;
  return SQLITE_OK;
}

/* xCreate is NULL: the table always exists under this name, and no other can be
** created. */
static const sqlite3_module help_module = {
    .xConnect = help_connect,
    .xBestIndex = help_best_index,
    .xDisconnect = help_disconnect,
    .xOpen = help_open,
    .xClose = help_close,
    .xFilter = help_filter,
    .xNext = help_next,
    .xEof = help_eof,
    .xColumn = help_column,
    .xRowid = help_rowid,
};

int ext_help_register(sqlite3 *db) {
  return sqlite3_create_module(db, "emb_help", &help_module, NULL);
}
