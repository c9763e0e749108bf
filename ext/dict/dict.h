/* SPDX-License-Identifier: MIT
**
** dict.h -- ext/dict/: the dictionary of a table with text keys.
**
** The engine's keys are integers.  A table with
**
**     CREATE VIRTUAL TABLE words USING emb(word TEXT PRIMARY KEY, ...)
**
** has a number for each text.  SQLite keeps the numbers in a shadow table of
** the same database, as part of the same transactions:
**
**     words_keys(id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL)
**
** ROLE      Finds the number of a text and the text of a number, adds texts,
**           and removes texts without rows.  Knows a connection and the names
**           of a schema and a table, but no stores and no table objects: it is
**           below conn/, whose links each own one dictionary (table/keys.c
**           converts SQL values).
** FILES     dict.c (lookups), many.c (lookups of many texts), ahead.c (reading
**           ahead), change.c (adding and removing texts), statement.c (SQL),
**           cache.c (the cache of a connection), dict_valid.c (checks).
** WHICH     There may be more texts than rows, never fewer: rows expire, are
**           evicted and deleted, and leave their text.  A transaction writes
**           both.  A function that acts on the engine at once commits its texts
**           before it writes a row, and then checks that they still exist
**           (AGAIN).
** NUMBERS   are one more than the largest, which is never removed, so they are
**           not reused.  The numbers of a transaction that is rolled back are
**           reused: no row and no cache has them.  A number that nevertheless
**           has a row in the store (the database was restored from an older
**           copy) is skipped.
** REMOVED   only by the command 'optimize', which holds SQLite's write lock, in
**           two transactions: one marks a text without a row, by making it a
**           BLOB, and a later one removes the text if it still has no row.
**           Lookups find a marked text like any other.  A writer that is about
**           to write its row at once clears the mark first, just as it would
**           add a new text.  The column `removals` of words_emb counts both.
** CACHE     Texts and numbers that were looked up, in both directions, at most
**           EXT_DICT_BYTES.  An absent text is not cached, because another
**           connection may add it.
**             Only committed texts are cached, because SQLite does not report
**           all ways in which a transaction or a savepoint is undone: those
**           with numbers up to the largest before the open transaction of this
**           connection added any (`limit`).
**             ext_dict_begin, once per statement or call, reads removals, and
**           empties the cache if the number differs from the last one, even if
**           the removal was this connection's own and has been undone.
** AGAIN     Between ext_dict_begin and a write that acts at once, another
**           connection may mark or remove a text that has no row yet.  The
**           writer then sees a different number of removals, and puts the text
**           back (ext_dict_restore).  It sees no difference while the other
**           connection has looked for rows and not yet committed, so a single
**           transaction would not be enough.  A writer concurrent with the
**           marking transaction leaves a row with a marked text, which the
**           removing transaction finds.  A writer concurrent with the removing
**           transaction has begun before the mark, and sees the mark now.
** HELD      A file has too many texts for that check, so no text is removed
**           while its rows are written (ext_dict_hold).
** STATEMENTS  are prepared once.  sqlite3_close refuses while any exist, but it
**           disconnects the table objects before it checks.  With the last
**           table object, ext_dict_idle finalizes the statements.
** FAILURE   SQLite's errors, as ext_sql_error returns them.  After an error the
**           cache has no wrong entries.
** THREADS   As conn.h says.
*/
#ifndef EMB_EXT_DICT_H
#define EMB_EXT_DICT_H

#include "ext/value/value.h"

/* Memory limit of a connection for the texts of one table. */
#define EXT_DICT_BYTES (128u << 20)

/* Suffix of the name of the shadow table, after the table's name. */
#define EXT_DICT_TABLE "keys"

/* ---- cache.c ------------------------------------------------------------- */

struct ext_cache;

struct ext_cache *ext_cache_new(void);
void ext_cache_free(struct ext_cache *cache);
void ext_cache_clear(struct ext_cache *cache);
/* Finds the number of each text, 0 if not cached; returns how many are not
** cached. */
size_t ext_cache_find(struct ext_cache *cache, const struct ext_text *texts,
                      size_t n, int64_t *ids);
/* 0: not cached.  The text is valid until the next call. */
int ext_cache_text(struct ext_cache *cache, int64_t id, struct ext_text *text);
/* Caches nothing if memory runs out or the text is too long. */
void ext_cache_add(struct ext_cache *cache, const struct ext_text *text,
                   int64_t id);
void ext_cache_add_many(struct ext_cache *cache, const struct ext_text *texts,
                        const int64_t *ids, size_t n);
/* Makes room for this many more texts of the mean size so far; 0: it cannot. */
int ext_cache_reserve(struct ext_cache *cache, uint64_t more);

/* ---- dict.c -------------------------------------------------------------- */

struct ext_dict;

/* Returns an empty dictionary; NULL if out of memory. */
struct ext_dict *ext_dict_new(void);
void ext_dict_free(struct ext_dict *dict); /* NULL is allowed */
void ext_dict_idle(struct ext_dict *dict); /* NULL is allowed */

/* Must be called once per statement or call, before the other functions: sets
** the database and the table, and brings the cache up to date. */
int ext_dict_begin(struct ext_dict *dict, sqlite3 *db, const char *schema,
                   const char *table, char **err);
/* Empties the cache, so that lookups read from SQLite. */
void ext_dict_forget(struct ext_dict *dict);
/* The connection's transaction has ended; NULL is allowed. */
void ext_dict_end(struct ext_dict *dict);
/* Is the number committed?  0: the open transaction has added its text, or may
** have. */
int ext_dict_is_committed(const struct ext_dict *dict, int64_t id);
/* The number of removals, as of the last begin. */
int64_t ext_dict_removals(const struct ext_dict *dict);
/* Sets ids[i] to the number of texts[i], 0 if it has none; *absent: how many
** are absent or marked. */
int ext_dict_find(struct ext_dict *dict, const struct ext_text *texts, size_t n,
                  int64_t *ids, size_t *absent, char **err);
/* Calls visit with the number of each text that equals the numeric value, in
** the sense of SQLite's `column of texts = number`, where either side may have
** been converted: '5' and '5.0' equal 5. */
int ext_dict_equal(struct ext_dict *dict, sqlite3_value *number,
                   int (*visit)(void *arg, int64_t id), void *arg, char **err);
/* Sets text->at to NULL if the number has no text.  The text is valid until the
** next call. */
int ext_dict_text(struct ext_dict *dict, int64_t id, struct ext_text *text,
                  char **err);
/* Between these two calls SQLite keeps reading, so that it does not lock and
** unlock its file for each of many texts.  Writers of the file may have to
** wait. */
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
/* Assigns numbers to the texts whose ids[i] is 0, in the open transaction, and
** clears the marks of the others. */
int ext_dict_add(struct ext_dict *dict, const struct ext_dict_batch *batch,
                 const struct ext_dict_rows *rows, char **err);
/* As above, and commits them: through `other`, a connection to the same file
** whose schema is main, or with NULL through the connection itself, which must
** not be in a write transaction. */
int ext_dict_add_now(struct ext_dict *dict, sqlite3 *other,
                     const struct ext_dict_batch *batch,
                     const struct ext_dict_rows *rows, char **err);
/* Restores texts with these numbers, and commits.  Sets taken[i] if that is
** impossible because the text has got another number. */
int ext_dict_restore(struct ext_dict *dict, sqlite3 *other,
                     const struct ext_dict_batch *batch, uint8_t *taken,
                     char **err);
/* Prevents removals until ext_dict_let_go, by holding SQLite's write lock in a
** transaction that writes nothing, on the same connection as above.  *removals:
** the current count. */
struct ext_dict_held {
  sqlite3 *db;           /* NULL: nothing is held */
  sqlite3_stmt *reads;   /* see UNDONE in change.c; or NULL */
  sqlite3_stmt *refused; /* the same */
};
int ext_dict_hold(struct ext_dict *dict, sqlite3 *other, int64_t *removals,
                  struct ext_dict_held *held, char **err);
void ext_dict_let_go(struct ext_dict_held *held);
/* Marks the texts whose numbers have no row, and removes those marked before
** the open transaction, which must be a write transaction. */
int ext_dict_clean(struct ext_dict *dict, const struct ext_dict_rows *rows,
                   char **err);

/* The column of words_emb that counts removals. */
#define EXT_DICT_REMOVALS ", removals INTEGER NOT NULL DEFAULT 0"
/* Create, rename and drop the shadow table, with its table. */
int ext_dict_create(sqlite3 *db, const char *schema, const char *table,
                    char **err);
int ext_dict_rename(sqlite3 *db, const char *schema, const char *table,
                    const char *name, char **err);
int ext_dict_drop(sqlite3 *db, const char *schema, const char *table,
                  char **err);

#endif
