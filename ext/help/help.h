/* SPDX-License-Identifier: MIT
**
** help.h -- what a user can name in SQL, as a table: functions, options,
** commands, optimizers and so on.
**
** ROLE      emb_help(word) reads it, and `make reference` writes
**           sql/manual/reference.md from it (ext/help/reference.sql).
** A ROW     describes one name of one kind.  A name may have rows of several
**           kinds: emb_snapshot is a function and a table-valued function.
** FILES     functions.c, arithmetic.c, tables.c, statements.c, options.c and
**           words.c have the rows, statistics.c those of emb_stats, and
**           data.c and policies.c those of choosing training data, which
**           -DEMB_OMIT_DATA leaves out.  help.c is the table-valued function.
** COMPLETE  tests/sql/help.test fails if something is registered or accepted
**           that has no row, or has a row and is not.
** THREADS   Constants only.
*/
#ifndef EMB_EXT_HELP_H
#define EMB_EXT_HELP_H

#include "ext/value/value.h"

/* One sentence per column, in plain words.  None is NULL. */
struct ext_help {
  const char *name; /* NULL ends a list */
  const char *kind;
  const char *signature; /* how it is written; optional arguments in brackets */
  const char *arguments; /* name, type and shape of each, between semicolons */
  const char *result;
  const char *errors;         /* which codes, and when */
  const char *in_transaction; /* "yes": ROLLBACK undoes it; "no": it acts at
                              ** once; "read": it changes nothing */
  const char *page;           /* of sql/manual/, with the heading */
};

extern const struct ext_help ext_help_functions[];
extern const struct ext_help ext_help_arithmetic[];
extern const struct ext_help ext_help_tables[];
extern const struct ext_help ext_help_statements[];
extern const struct ext_help ext_help_options[];
extern const struct ext_help ext_help_words[];
extern const struct ext_help ext_help_statistics[];
extern const struct ext_help ext_help_data[];
extern const struct ext_help ext_help_policies[];

/* Registers emb_help. */
int ext_help_register(sqlite3 *db);

/* ---- texts that many rows share ------------------------------------------ */

#define HELP_TABLE "table TEXT: 'items' or 'schema.items'"
#define HELP_KEYS "keys: BLOB of n int64, or a JSON array"
#define HELP_VECTORS                                                           \
  "BLOB of n*dim float32 or a JSON array, dim counting all vector columns"
#define HELP_VECTOR "BLOB of float32 or a JSON array of numbers"
#define HELP_NO_TABLE "SQLITE_ERROR if there is no such table"
#define HELP_TYPE "SQLITE_MISMATCH if a value has the wrong type or length"
#define HELP_READONLY "SQLITE_READONLY if the database is read-only"
#define HELP_NO_VECTOR                                                         \
  "SQLITE_MISMATCH if an argument is not a vector; SQLITE_ERROR if JSON is "   \
  "malformed"
#define HELP_CHANGED "SQLITE_LOCKED in a transaction that has changed the table"
#define HELP_DRAW                                                              \
  "n INTEGER: 0 to 268435456; distribution TEXT: 'uniform' (default), "        \
  "'log-uniform' or 'frequency(power)'; options TEXT: unique=yes or no, "      \
  "seed=n, range=n; without: keys to exclude, a BLOB of int64 or a JSON array"
#define HELP_CONSUMER "consumer TEXT: a name of 1 to 64 bytes"

#endif
