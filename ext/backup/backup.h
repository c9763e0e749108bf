/* SPDX-License-Identifier: MIT
**
** backup.h -- ext/backup/: copies of a database with all its stores.
**
** ROLE      backup.c makes a copy or brings it up to date, with tables.c,
**           target.c, copy.c, database.c and path.c; check.c reads a whole
**           copy; moment.c fixes a database at one moment.  Used by
**           tvf/backup.c.
** STATES    A copy: being made (under a temporary name) -> complete (renamed).
**           backup.c has the steps, and what a crash leaves.
** THREADS   As conn.h says.  Other processes and connections may write to the
**           database during a backup.
*/
#ifndef EMB_EXT_BACKUP_H
#define EMB_EXT_BACKUP_H

#include "ext/table/table.h"

struct backup_row {
  char *table;        /* NULL: the database's own file */
  sqlite3_int64 rows; /* of a table */
  sqlite3_int64 bytes, copied;
  int incremental;
  char *problem; /* found by a check; NULL: none */
};

struct backup_rows {
  struct backup_row *rows;
  size_t n;
};

/* Makes the copy of a schema, or brings it up to date; fills rows. */
int ext_backup_make(struct ext_conn *conn, const char *schema,
                    const char *target, struct backup_rows *rows, char **err);
/* Reads a whole copy, or any database with its stores. */
int ext_backup_check(struct ext_conn *conn, const char *target,
                     struct backup_rows *rows, char **err);
void ext_backup_free(struct backup_rows *rows);

/* Appends an empty row; NULL if out of memory. */
struct backup_row *ext_backup_row(struct backup_rows *rows);
/* Resolves text to an absolute path, as ATTACH does; a URI must not have
** parameters. */
int ext_backup_path(const char *text, char **path, char **err);

/* moment.c: the database at one moment, for reading. */
struct ext_moment {
  struct ext_conn *conn;
  const char *schema;
  sqlite3 *lock;         /* holds the write lock; or NULL */
  sqlite3 *reader;       /* in a read transaction */
  const char *source;    /* the schema of reader to copy */
  int own;               /* reader is the caller's connection, in a transaction
                            begun here */
  sqlite3_int64 version; /* of its data */
  int locked;            /* the write lock was taken: no transaction is open */
};
/* Must be called within a reading statement.  From then on until
** ext_moment_open_up no other connection can commit to the schema, unless the
** schema is open read-only here. */
int ext_moment_begin(struct ext_moment *moment, struct ext_conn *conn,
                     const char *schema, char **err);
/* Lets other connections commit again; the reader still sees the moment.
** SQLITE_BUSY_SNAPSHOT, without a text: others have committed, and the reader
** does not see the moment. */
int ext_moment_open_up(struct ext_moment *moment, char **err);
void ext_moment_end(struct ext_moment *moment);
/* Whose connections are these?  Only in self-checking builds. */
int ext_moment_valid(const struct ext_moment *moment);

/* ---- private to this folder ---------------------------------------------- */

/* One emb table. */
struct backup_part {
  char *name;            /* the table's */
  char *shadow;          /* name of its shadow table, at the moment */
  struct ext_link *link; /* held */
  char uuid[33];
  char *dir;            /* plain name of the store; NULL: temporary */
  sqlite3_int64 txn;    /* at the moment */
  emb_session *session; /* of its own */
  emb_backup *backup;
  char *to_dir, *to, *base; /* plain name, path; path of an earlier copy */
  emb_backup_info info;
  int made;
};

/* Limit of waits for a lock on the target. */
#define EXT_BACKUP_WAIT_MS 5000

struct backup {
  struct ext_conn *conn;
  const char *schema;
  char *target, *target_emb; /* copy.db, copy.db-emb */
  char *new, *new_emb;       /* copy.db-backup-new, ... */
  char *vfs;
  int again;    /* the target exists */
  int made_new; /* the lock is held: files of these names are ours */
  int half;     /* copy.db-emb may hold the stores that the rows of
                   copy.db-backup-new name */
  struct backup_part *parts;
  size_t n;
  struct ext_moment moment;
  int attempts;         /* to fix the moment, between commits of others */
  sqlite3 *out;         /* copy.db-backup-new, */
  struct ext_wait wait; /* and its lock waits */
  char **old;           /* plain names of the target's old stores */
  size_t olds;
  sqlite3_int64 bytes; /* of the database file */
};

/* backup_valid.c, only in self-checking builds: may this step come now?  The
** steps are those of backup.c. */
enum backup_step {
  BACKUP_MARK,     /* 3: the stores, perhaps not for the first time */
  BACKUP_DATABASE, /* 4 */
  BACKUP_STORES,   /* 5 */
  BACKUP_COMPLETE,
  BACKUP_PUBLISH, /* 6 */
};
int ext_backup_may(const struct backup *b, enum backup_step step);

/* path.c.  Engine errors: of a call, and of the session of a table. */
int ext_backup_error(char **err, int code, const emb_err *error);
int ext_backup_part_error(struct backup_part *part, int code, char **err);
void ext_backup_hex(const uint8_t uuid[16], char hex[33]);
/* *there: does a file of this name exist, and if `full` is set, is it not
** empty? */
int ext_backup_look(const char *path, const char *suffix, int full, int *there,
                    char **err);
/* Removes a database and the files that SQLite keeps next to it. */
void ext_backup_unlink(const char *path);

/* tables.c: steps 1 and 3. */
int ext_backup_tables(struct backup *b, char **err);
int ext_backup_sessions(struct backup *b, char **err);
int ext_backup_moment(struct backup *b, char **err);

/* target.c: step 2, the lock, and the removal of leftovers. */
int ext_backup_target(struct backup *b, char **err);

/* copy.c: steps 4 and 5. */
int ext_backup_database(struct backup *b, char **err);
int ext_backup_stores(struct backup *b, char **err);
int ext_backup_complete(struct backup *b, char **err);

/* database.c */
int ext_backup_open(struct backup *b, const char *path, int flags, sqlite3 **db,
                    char **err);
/* A checksum of a database file, without the header fields in which a copy by
** SQLite differs from the original.  The connection must be in a transaction,
** and the WAL empty. */
int ext_backup_sum(sqlite3 *db, uint64_t *sum, sqlite3_int64 *size, char **err);
/* Copies all pages. */
int ext_backup_pages(struct backup *b, sqlite3 *to, sqlite3 *from,
                     const char *schema, char **err);

#endif
