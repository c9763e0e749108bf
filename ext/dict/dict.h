/* SPDX-License-Identifier: MIT
**
** dict.h -- ext/dict/: the dictionary of a table with text keys.
**
** The engine's keys are integers.  A table with
**
**     CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY KEY, ...)
**
** has a number for each text, given by SQLite itself, in a shadow table of the
** same database and of the same transactions:
**
**     words_keys(id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL)
**
** ROLE      Finds the number of a text and the text of a number, adds texts,
**           and removes those without rows.  Knows a connection and the names
**           of a schema and a table, no stores and no table objects: it is
**           below conn/, whose links each own one (table/keys.c has what SQL
**           passes and gets).
** FILES     dict.c (texts and numbers are looked up), many.c (many at once),
**           ahead.c (before they are asked for), change.c (texts are added and
**           removed), statement.c (SQL), cache.c (what the connection
**           remembers).
** WHICH     There may be more texts than rows, never fewer: rows expire, are
**           evicted and deleted, and leave their text.  A transaction writes
**           both.  A function that acts on the engine at once has its texts
**           committed before it writes a row, and looks behind it whether they
**           still are (AGAIN).
** NUMBERS   are one more than the largest, so they are not given again, as long
**           as that one stays: it is never removed.  Of a transaction that is
**           rolled back they are: nothing has a row with them, and no cache has
**           them.  A number that has a row in the store all the same (the
**           database was restored from an older copy) is passed over.
** REMOVED   by the command 'optimize' only, which has SQLite's write lock, in
**           two transactions: one marks a text that has no row, by making it a
**           BLOB, and a later one removes it if it has none still.  A text that
**           is marked is found like any other; who is about to write its row at
**           once takes the mark off first, as he would add a new text.
**           words_emb has a column `removals`, that counts both.
** CACHE     Texts and numbers that were looked up, in both directions, at most
**           EXT_DICT_BYTES; a text that is absent is not remembered, for
**           another connection may add it.
**             What is remembered must be committed, for SQLite does not report
**           all ways in which a transaction or a savepoint is undone: those
**           with numbers up to the largest one before the open transaction of
**           this connection added some (`limit`).
**             ext_dict_begin, once per statement or call, reads removals, and
**           forgets all when it is another number than last time: also when
**           the removal was this connection's own and is undone.
** AGAIN     Between ext_dict_begin and a write that acts at once another
**           connection may mark or remove a text that has no row yet.  The
**           writer then sees another number of removals, and puts the text back
**           (ext_dict_restore).  It sees none while the other one has looked
**           for rows and not yet committed: one transaction is not enough.  Who
**           writes beside the one that marks leaves a row with a marked text,
**           which the other one finds; who writes beside the one that removes
**           has begun before the mark, and sees that now.
** HELD      A file has too many texts for that: while its rows are written,
**           none is removed (ext_dict_hold).
** STATEMENTS  are prepared once.  sqlite3_close refuses if there are any, but
**           before it looks it disconnects the table objects: with the last one
**           ext_dict_idle finalizes them.
** FAILURE   SQLite's errors, as ext_sql_error gives them.  After one the cache
**           has nothing that is not so.
** THREADS   As conn.h says.
*/
#ifndef EMB_EXT_DICT_H
#define EMB_EXT_DICT_H

#include "ext/value/value.h"

/* Memory of a connection for one table's texts. */
#define EXT_DICT_BYTES (128u << 20)

/* The shadow table is called so, behind the table's name. */
#define EXT_DICT_TABLE "keys"

/* ---- cache.c ------------------------------------------------------------- */

struct ext_cache;

struct ext_cache *ext_cache_new(void);
void ext_cache_free(struct ext_cache *cache);
void ext_cache_clear(struct ext_cache *cache);
/* The number of each, 0 where it is not known; how many are not. */
size_t ext_cache_find(struct ext_cache *cache, const struct ext_text *texts,
                      size_t n, int64_t *ids);
/* 0: it is not known.  The text stays until the next call. */
int ext_cache_text(struct ext_cache *cache, int64_t id, struct ext_text *text);
/* Without memory, or for a text that is long, nothing is remembered. */
void ext_cache_add(struct ext_cache *cache, const struct ext_text *text,
                   int64_t id);
void ext_cache_add_many(struct ext_cache *cache, const struct ext_text *texts,
                        const int64_t *ids, size_t n);
/* Makes room for so many more texts like those that it has; 0: there is none.
 */
int ext_cache_reserve(struct ext_cache *cache, uint64_t more);

/* ---- dict.c -------------------------------------------------------------- */

struct ext_dict;

/* Zeros; NULL without memory. */
struct ext_dict *ext_dict_new(void);
void ext_dict_free(struct ext_dict *dict); /* NULL is allowed */
void ext_dict_idle(struct ext_dict *dict); /* NULL is allowed */

/* To be called once per statement or call, before the others: these are the
** database and the table, and the cache is as they are now. */
int ext_dict_begin(struct ext_dict *dict, sqlite3 *db, const char *schema,
                   const char *table, char **err);
/* What is looked up from now on is read from SQLite. */
void ext_dict_forget(struct ext_dict *dict);
/* The connection's transaction has ended; NULL is allowed. */
void ext_dict_end(struct ext_dict *dict);
/* No: it is of a text that the open transaction has added, or may have. */
int ext_dict_is_committed(const struct ext_dict *dict, int64_t id);
/* How often texts were removed, as of the last begin. */
int64_t ext_dict_removals(const struct ext_dict *dict);
/* ids[i] is the number of texts[i], 0: there is none; *absent: how many are not
** there, or marked. */
int ext_dict_find(struct ext_dict *dict, const struct ext_text *texts, size_t n,
                  int64_t *ids, size_t *absent, char **err);
/* Calls visit with the number of each text that equals the number, as `column
** of texts = number` is meant by SQLite, where either side may have been
** converted: '5' and '5.0' equal 5. */
int ext_dict_equal(struct ext_dict *dict, sqlite3_value *number,
                   int (*visit)(void *arg, int64_t id), void *arg, char **err);
/* text->at is NULL where the number has none; it stays until the next call. */
int ext_dict_text(struct ext_dict *dict, int64_t id, struct ext_text *text,
                  char **err);
/* Between these SQLite goes on reading, so that it does not lock and unlock its
** file for each of many texts; writers of the file may have to wait. */
void ext_dict_stay(struct ext_dict *dict);
void ext_dict_leave(struct ext_dict *dict);
/* ---- change.c ------------------------------------------------------------ */

/* Which numbers have a row: are[i] is 1 or 0. */
struct ext_dict_rows {
  int (*exist)(void *arg, const int64_t *ids, size_t n, uint8_t *are,
               char **err);
  void *arg;
};

/* n texts and their numbers. */
struct ext_dict_batch {
  const struct ext_text *texts;
  size_t n;
  int64_t *ids;
};
/* Gives numbers to those texts whose ids[i] is 0, in the transaction that there
** is; the others are marked no more. */
int ext_dict_add(struct ext_dict *dict, const struct ext_dict_batch *batch,
                 const struct ext_dict_rows *rows, char **err);
/* The same, and they are committed: through `other`, a connection to the same
** file whose schema is main, or with NULL through the connection itself, which
** is in no transaction that writes. */
int ext_dict_add_now(struct ext_dict *dict, sqlite3 *other,
                     const struct ext_dict_batch *batch,
                     const struct ext_dict_rows *rows, char **err);
/* Texts with these numbers are there again, committed; taken[i] is set where
** that cannot be, since the text has got another number. */
int ext_dict_restore(struct ext_dict *dict, sqlite3 *other,
                     const struct ext_dict_batch *batch, uint8_t *taken,
                     char **err);
/* No text is removed from here to ext_dict_let_go: SQLite's write lock, of the
** same connection as above, in a transaction that writes nothing.  *removals is
** as of now. */
struct ext_dict_held {
  sqlite3 *db;         /* NULL: nothing is held */
  sqlite3_stmt *reads; /* what SQLite undoes it by without memory, or NULL */
};
int ext_dict_hold(struct ext_dict *dict, sqlite3 *other, int64_t *removals,
                  struct ext_dict_held *held, char **err);
void ext_dict_let_go(struct ext_dict_held *held);
/* Marks the texts whose numbers have no row, and removes those that were marked
** before the transaction that there is, which writes. */
int ext_dict_clean(struct ext_dict *dict, const struct ext_dict_rows *rows,
                   char **err);

/* The column of words_emb that counts removals. */
#define EXT_DICT_REMOVALS ", removals INTEGER NOT NULL DEFAULT 0"
/* The shadow table of a new table; of one that gets another name, or goes. */
int ext_dict_create(sqlite3 *db, const char *schema, const char *table,
                    char **err);
int ext_dict_rename(sqlite3 *db, const char *schema, const char *table,
                    const char *name, char **err);
int ext_dict_drop(sqlite3 *db, const char *schema, const char *table,
                  char **err);

#endif
