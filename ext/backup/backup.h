/* SPDX-License-Identifier: MIT
**
** backup.h -- ext/backup/: copies of a database with all its stores.
**
** ROLE      backup.c makes a copy or brings it up to date, with tables.c,
**           target.c, copy.c, database.c and path.c; check.c reads all of one;
**           moment.c holds a database as it is at one moment.  Used by
**           tvf/backup.c.
** STATES    A copy: being made (under a name of its own) -> complete (renamed);
**           backup.c has the steps and what a crash leaves.
** THREADS   As conn.h says; another process or connection may write to the
**           database meanwhile.
*/
#ifndef EMB_EXT_BACKUP_H
#define EMB_EXT_BACKUP_H

#include "ext/table/table.h"

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

/* ---- between the files of this folder ------------------------------------ */

/* One emb table. */
struct backup_part {
  char *name;            /* of the table */
  char *shadow;          /* at the moment */
  struct ext_link *link; /* held */
  char uuid[33];
  char *dir;            /* plain name of the store, NULL: temporary */
  sqlite3_int64 txn;    /* at the moment */
  emb_session *session; /* of its own */
  emb_backup *backup;
  char *to_dir, *to, *base; /* plain name, path; path of the earlier copy */
  emb_backup_info info;
  int made;
};

/* For a lock of the target's. */
#define EXT_BACKUP_WAIT_MS 5000

struct backup {
  struct ext_conn *conn;
  const char *schema;
  char *target, *target_emb; /* copy.db, copy.db-emb */
  char *new, *new_emb;       /* copy.db-backup-new, ... */
  char *vfs;
  int again;    /* the target is there */
  int made_new; /* the lock is held: what is called so is ours */
  int half;     /* copy.db-emb may be what copy.db-backup-new's rows name */
  struct backup_part *parts;
  size_t n;
  struct ext_moment moment;
  int attempts;         /* to find it, between the commits of others */
  sqlite3 *out;         /* copy.db-backup-new, */
  struct ext_wait wait; /* and how it waits */
  char **old;           /* plain names of the target's stores */
  size_t olds;
  sqlite3_int64 bytes; /* of the database */
};

/* path.c.  Errors of the engine, of a call and of a table's session. */
int ext_backup_error(char **err, int code, const emb_err *error);
int ext_backup_part_error(struct backup_part *part, int code, char **err);
void ext_backup_hex(const uint8_t uuid[16], char hex[33]);
/* *there: whether something has this name, and is not an empty file if `full`
** is set. */
int ext_backup_look(const char *path, const char *suffix, int full, int *there,
                    char **err);
/* Removes a database and what SQLite has beside it. */
void ext_backup_unlink(const char *path);

/* tables.c: steps 1 and 3. */
int ext_backup_tables(struct backup *b, char **err);
int ext_backup_sessions(struct backup *b, char **err);
int ext_backup_moment(struct backup *b, char **err);

/* target.c: step 2, and the lock; what is left over is removed. */
int ext_backup_target(struct backup *b, char **err);

/* copy.c: steps 4 and 5. */
int ext_backup_database(struct backup *b, char **err);
int ext_backup_stores(struct backup *b, char **err);
int ext_backup_complete(struct backup *b, char **err);

/* database.c */
int ext_backup_open(struct backup *b, const char *path, int flags, sqlite3 **db,
                    char **err);
/* A checksum of a database's file, without what in its head differs between
** the file and a copy of it that SQLite made.  The connection is in a
** transaction; nothing is in a WAL. */
int ext_backup_sum(sqlite3 *db, uint64_t *sum, sqlite3_int64 *size, char **err);
/* Copies all pages. */
int ext_backup_pages(struct backup *b, sqlite3 *to, sqlite3 *from,
                     const char *schema, char **err);

#endif
