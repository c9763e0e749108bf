/* SPDX-License-Identifier: MIT
**
** backup.c -- emb_backup(): copies a database and all its stores, as of one
** moment, to another place.
**
**   1  find the schema's emb tables and open their stores
**   2  check the target: either nothing exists there, or an earlier backup of
**      the same tables that has not been written to    [ext_backup_target]
**   3  block all commits (moment.c); wait until the last commit has reached
**      the stores; set a mark in each store: that is the moment
**                                                      [ext_backup_moment]
**   4  let writers go on; write the stores' indexes; copy the pages of the
**      database, which takes a short time              [ext_backup_database]
**   5  copy the stores, and make the rows of the copied database name the
**      copies                         [ext_backup_stores, ext_backup_complete]
**   6  publish                            [publish_first, publish_again]
**
** FILES of a first backup to copy.db, until step 6:
**             copy.db-backup-new        the database
**             copy.db-backup-new-emb/   its stores
**           Two renames give them their names, the database's last: from then
**           on the backup exists.
**        of a later one: copy.db-backup-new, and the new stores next to the old
**           ones in copy.db-emb, under other names.  SQLite's own backup
**           copies the new pages into copy.db, whose rows name the new stores
**           from that commit on; so copy.db is at every moment the old backup
**           or the new one.  Then the old stores are removed.
** LOCK      A backup in progress holds an exclusive lock on
**           copy.db-backup-new, as SQLite locks databases.
** LEFT OVER Files left by a process that died have one of these names, or are
**           stores in copy.db-emb that no row of copy.db names.  The next call
**           removes them, if the lock is not held.
** KNOWN     The stores of the target record that it is an untouched backup
**           (engine/features/backup/copied.h): each store says which store it
**           is a copy of, that it has not been written to, and a checksum of
**           copy.db.
**           A first backup that ended between its two renames has left
**           copy.db-emb.  Only the rows of copy.db-backup-new, which name its
**           contents, distinguish it from an unrelated directory.  So
**           copy.db-backup-new is removed after copy.db-emb, never before.
** FAILURE   All new files are removed, as far as the removal itself does not
**           fail; copy.db is unchanged.
*/
#include "engine/storage/pack/emb_file.h"
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- rows of a result ---------------------------------------------------- */

struct backup_row *ext_backup_row(struct backup_rows *rows) {
  struct backup_row *more =
      sqlite3_realloc64(rows->rows, (rows->n + 1) * sizeof *more);
  if (more == NULL)
    return NULL;
  rows->rows = more;
  memset(&more[rows->n], 0, sizeof *more);
  return &more[rows->n++];
}

void ext_backup_free(struct backup_rows *rows) {
  for (size_t i = 0; i < rows->n; i++) {
    sqlite3_free(rows->rows[i].table);
    sqlite3_free(rows->rows[i].problem);
  }
  sqlite3_free(rows->rows);
  rows->rows = NULL;
  rows->n = 0;
}

/* ---- publishing ---------------------------------------------------------- */

/* Undoes the first rename.  If the second happened in spite of its error, the
** stores stay with copy.db. */
static void backup_take_back(struct backup *b) {
  struct stat st;
  if (lstat(b->target, &st) != 0 && errno == ENOENT &&
      emb_place_rename(b->target_emb, b->new_emb, NULL) == EMB_OK)
    b->half = 0;
}

static int publish_first(struct backup *b, char **err) {
  emb_err error;
  int rc = emb_place_sync(b->new_emb, &error);
  if (rc)
    return ext_backup_error(err, rc, &error);
  b->half = b->n > 0;
  if (b->n)
    rc = emb_place_rename(b->new_emb, b->target_emb, &error);
  else
    rc = emb_place_remove(b->new_emb, &error);
  if (rc)
    return ext_backup_error(err, rc, &error);
  rc = emb_file_rename(b->new, b->target, 0, &error);
  if (rc) {
    if (b->n)
      backup_take_back(b);
    return ext_backup_error(err, rc, &error);
  }
  b->half = 0;
  b->made_new = 0;
  return SQLITE_OK;
}

/* Removes the stores that the target's rows named before. */
static void remove_old(struct backup *b) {
  for (size_t i = 0; i < b->olds && !EMB_SEED(SEED_BACKUP_KEEPS_OLD_STORES);
       i++) {
    char *path = sqlite3_mprintf("%s/%s", b->target_emb, b->old[i]);
    emb_err error;
    int rc = path ? emb_destroy(path, &error) : EMB_OK;
    if (rc)
      sqlite3_log(ext_code(rc), "emb: deleting %s: %s", path, error.text);
    sqlite3_free(path);
  }
}

/* The commit in here turns the target into the new backup. */
static int publish_again(struct backup *b, char **err) {
  sqlite3 *db = NULL;
  struct ext_wait wait;
  emb_err error;
  int rc = emb_place_sync(b->target_emb, &error);
  rc = rc ? ext_backup_error(err, rc, &error)
          : ext_backup_open(b, b->target, SQLITE_OPEN_READWRITE, &db, err);
  if (rc == SQLITE_OK) {
    ext_wait_for_locks(&wait, b->conn, db, EXT_BACKUP_WAIT_MS);
    rc = ext_exec(db, err, "PRAGMA synchronous=EXTRA");
  }
  if (rc == SQLITE_OK)
    rc = ext_backup_pages(b, db, b->out, "main", err);
  sqlite3_close(db);
  if (rc == SQLITE_OK)
    for (size_t i = 0; i < b->n; i++)
      b->parts[i].made = 0;
  if (rc == SQLITE_OK)
    remove_old(b);
  return rc;
}

/* ---- the call ------------------------------------------------------------ */

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct backup_part *)a)->name,
                ((const struct backup_part *)b)->name);
}

static int backup_report(struct backup *b, struct backup_rows *rows) {
  struct backup_row *row = ext_backup_row(rows);
  if (row == NULL)
    return SQLITE_NOMEM;
  row->bytes = row->copied = b->bytes;
  if (b->n)
    qsort(b->parts, b->n, sizeof *b->parts, by_name);
  for (size_t i = 0; i < b->n; i++) {
    struct backup_part *part = &b->parts[i];
    row = ext_backup_row(rows);
    if (row == NULL)
      return SQLITE_NOMEM;
    row->table = sqlite3_mprintf("%s", part->name);
    if (row->table == NULL)
      return SQLITE_NOMEM;
    row->rows = part->info.rows;
    row->bytes = (sqlite3_int64)part->info.bytes;
    row->copied = (sqlite3_int64)part->info.copied;
    row->incremental = part->info.base_used;
  }
  return SQLITE_OK;
}

static int backup_make_file(struct backup *b, struct backup_rows *rows,
                            char **err) {
  int rc = ext_backup_tables(b, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_target(b, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_sessions(b, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_moment(b, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_database(b, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_stores(b, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_complete(b, err);
  if (rc == SQLITE_OK)
    rc = backup_report(b, rows); /* before the steps that cannot be undone */
  emb_check(rc != SQLITE_OK || ext_backup_may(b, BACKUP_PUBLISH));
  if (rc == SQLITE_OK)
    rc = b->again ? publish_again(b, err) : publish_first(b, err);
  return rc;
}

/* Does the next call need copy.db-backup-new to recognise copy.db-emb? */
static int is_needed(struct backup *b) {
  struct stat st;
  return b->half && (lstat(b->target_emb, &st) == 0 || errno != ENOENT);
}

static void clean_up(struct backup *b) {
  int remove_new;
  for (size_t i = 0; i < b->n; i++) {
    struct backup_part *part = &b->parts[i];
    emb_backup_end(part->backup);
    if (part->session)
      emb_session_close(part->session);
    if (b->again && part->made)
      (void)emb_destroy(part->to, NULL);
    if (part->link)
      part->link->cursors--;
    sqlite3_free(part->name);
    sqlite3_free(part->shadow);
    sqlite3_free(part->dir);
    sqlite3_free(part->to_dir);
    sqlite3_free(part->to);
    sqlite3_free(part->base);
  }
  ext_moment_end(&b->moment);
  remove_new = b->made_new && !is_needed(b);
  if (b->made_new)
    (void)emb_place_remove(b->new_emb, NULL);
  if (remove_new)
    ext_backup_unlink(b->new);
  sqlite3_close(b->out);
  /* Removes files left by closing, unless another backup has begun under the
  ** same names. */
  if (remove_new && access(b->new, F_OK) != 0)
    ext_backup_unlink(b->new);
  for (size_t i = 0; i < b->olds; i++)
    sqlite3_free(b->old[i]);
  sqlite3_free(b->old);
  sqlite3_free(b->parts);
  sqlite3_free(b->target);
  sqlite3_free(b->target_emb);
  sqlite3_free(b->new);
  sqlite3_free(b->new_emb);
  sqlite3_free(b->vfs);
}

static int name_files(struct backup *b, const char *target, char **err) {
  sqlite3_vfs *vfs = NULL;
  const char *file = ext_place_file(b->conn->db, b->schema);
  int rc = ext_backup_path(target, &b->target, err);
  if (rc != SQLITE_OK)
    return rc;
  if (file[0] && strcmp(file, b->target) == 0)
    return ext_error(err, SQLITE_CANTOPEN, "\"%s\" is the database itself",
                     b->target);
  b->target_emb = sqlite3_mprintf("%s-emb", b->target);
  b->new = sqlite3_mprintf("%s-backup-new", b->target);
  b->new_emb = sqlite3_mprintf("%s-backup-new-emb", b->target);
  if (!b->target_emb || !b->new || !b->new_emb)
    return SQLITE_NOMEM;
  if (file[0] &&
      sqlite3_file_control(b->conn->db, b->schema, SQLITE_FCNTL_VFS_POINTER,
                           &vfs) == SQLITE_OK &&
      vfs && (b->vfs = sqlite3_mprintf("%s", vfs->zName)) == NULL)
    return SQLITE_NOMEM;
  return SQLITE_OK;
}

int ext_backup_make(struct ext_conn *conn, const char *schema,
                    const char *target, struct backup_rows *rows, char **err) {
  struct backup b;
  int rc = ext_conn_check(conn, err);
  memset(&b, 0, sizeof b);
  b.conn = conn;
  b.schema = schema;
  if (rc == SQLITE_OK)
    rc = ext_conn_may_write(conn, err);
  if (rc == SQLITE_OK && sqlite3_db_readonly(conn->db, schema) < 0)
    rc = ext_error(err, SQLITE_ERROR, "unknown database: %s", schema);
  if (rc == SQLITE_OK &&
      sqlite3_txn_state(conn->db, schema) == SQLITE_TXN_WRITE)
    rc = ext_error(err, SQLITE_LOCKED,
                   "emb_backup cannot run within a transaction that has "
                   "written");
  if (rc == SQLITE_OK)
    rc = name_files(&b, target, err);
  if (rc == SQLITE_OK) {
    ext_conn_tidy(conn);
    rc = backup_make_file(&b, rows, err);
  }
  clean_up(&b);
  return rc;
}
