/* SPDX-License-Identifier: MIT
**
** backup.h -- ext/backup/: copies of a database with all its stores.
**
** ROLE      backup.c makes a copy or brings it up to date, check.c reads all of
**           one, moment.c holds a database as it is at one moment.  Used by
**           tvf/backup.c.
** STATES    A copy: being made (under a name of its own) -> complete (renamed);
**           backup.c has the steps and what a crash leaves.
** THREADS   As conn.h says; another process or connection may write to the
**           database meanwhile.
*/
#ifndef EMB_EXT_BACKUP_H
#define EMB_EXT_BACKUP_H

#include "../table/table.h"

struct backup_row {
  char *table;        /* NULL: the database's own file */
  sqlite3_int64 rows; /* of a table */
  sqlite3_int64 bytes, copied;
  int incremental;
  char *problem; /* of a check; NULL: none */
};

struct backup_rows {
  struct backup_row *rows;
  size_t n;
};

/* Makes or brings up to date the copy of a schema; fills rows. */
int ext_backup_make(struct ext_conn *conn, const char *schema,
                    const char *target, struct backup_rows *rows, char **err);
/* Reads all of a copy, or of any database with its stores. */
int ext_backup_check(struct ext_conn *conn, const char *target,
                     struct backup_rows *rows, char **err);
void ext_backup_free(struct backup_rows *rows);

/* One more row, empty; NULL without memory. */
struct backup_row *ext_backup_row(struct backup_rows *rows);
/* The absolute path that text means, as for ATTACH; an URI may have no
** parameters. */
int ext_backup_path(const char *text, char **path, char **err);

/* moment.c: the database as it is at one moment, for reading. */
struct ext_moment {
  struct ext_conn *conn;
  const char *schema;
  sqlite3 *lock;         /* holds the write lock; or NULL */
  sqlite3 *reader;       /* in a read transaction */
  const char *source;    /* the schema of reader that is meant */
  int own;               /* reader is the caller's connection, in a transaction
                            that this began */
  sqlite3_int64 version; /* of its data */
  int locked;            /* the write lock was taken: no transaction is open */
};
/* To be called within a statement that reads.  No one else can commit to
** the schema from now on, except where it is open read-only, until
** ext_moment_open_up. */
int ext_moment_begin(struct ext_moment *moment, struct ext_conn *conn,
                     const char *schema, char **err);
/* Others may commit; the reader goes on seeing the moment.
** SQLITE_BUSY_SNAPSHOT, without a text: others have, and it does not. */
int ext_moment_open_up(struct ext_moment *moment, char **err);
void ext_moment_end(struct ext_moment *moment);

#endif
