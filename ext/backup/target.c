/* SPDX-License-Identifier: MIT
**
** target.c -- checks and prepares the target of a backup.
*/
#include "engine/storage/pack/emb_file.h"
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define LOCK_MS 1000

static int not_ours(struct backup *b, char **err) {
  return ext_error(err, SQLITE_CANTOPEN,
                   "\"%s\" exists and is not an earlier backup of this "
                   "database; nothing is overwritten",
                   b->target);
}

struct looking {
  struct backup *b;
  uint64_t sum;
  int rc, ours; /* ours: number of copies of our tables */
  char **err;
};

static int add_old(struct backup *b, const char *dir) {
  char **more = sqlite3_realloc64(b->old, (b->olds + 1) * sizeof *more);
  if (more == NULL)
    return SQLITE_NOMEM;
  b->old = more;
  more[b->olds] = sqlite3_mprintf("%s", dir);
  if (more[b->olds] == NULL)
    return SQLITE_NOMEM;
  b->olds++;
  return SQLITE_OK;
}

/* Checks a row of the target: its store must be an unmodified copy.  A row of a
** table that is not emb's has no directory. */
static int look_at_row(void *arg, const char *table, const char *uuid,
                       const char *dir) {
  struct looking *l = arg;
  struct backup *b = l->b;
  char source[33], copy[33], *path;
  emb_backup_of of;
  emb_err error;
  (void)table;
  if (dir == NULL || !ext_place_is_name(dir))
    return 0;
  path = sqlite3_mprintf("%s/%s", b->target_emb, dir);
  if (path == NULL) {
    l->rc = SQLITE_NOMEM;
    return 1;
  }
  if (emb_backup_look(path, &of, &error) != EMB_OK) {
    l->rc = ext_engine_error(l->err, error.code, error.text);
  } else {
    ext_backup_hex(of.source, source);
    ext_backup_hex(of.uuid, copy);
    if (strspn(source, "0") == 32 || strcmp(copy, uuid) != 0)
      l->rc = not_ours(b, l->err);
    else if ((!of.untouched || of.number != l->sum) &&
             !EMB_SEED(SEED_CHANGED_BACKUP_REPLACED))
      l->rc = ext_error(l->err, SQLITE_CANTOPEN,
                        "\"%s\" is a backup, but has changed since it was "
                        "made; nothing is overwritten",
                        b->target);
  }
  for (size_t i = 0; l->rc == SQLITE_OK && i < b->n; i++)
    if (strcmp(b->parts[i].uuid, source) == 0) {
      sqlite3_free(b->parts[i].base);
      b->parts[i].base = sqlite3_mprintf("%s", path);
      l->ours++;
    }
  sqlite3_free(path);
  if (l->rc == SQLITE_OK)
    l->rc = add_old(b, dir);
  return l->rc != SQLITE_OK;
}

/* Checks for an earlier backup of these tables that has not been written to.
** Reading it rolls back the changes of a process that died while bringing it up
** to date. */
static int look_at_earlier(struct backup *b, char **err) {
  struct looking l = {b, 0, SQLITE_OK, 0, err};
  struct ext_wait wait;
  sqlite3_int64 size;
  sqlite3 *db = NULL;
  int rc = ext_backup_open(b, b->target, SQLITE_OPEN_READWRITE, &db, err);
  if (rc == SQLITE_OK) {
    ext_wait_for_locks(&wait, b->conn, db, EXT_BACKUP_WAIT_MS);
    rc = sqlite3_exec(db, "BEGIN; SELECT count(*) FROM sqlite_schema", NULL,
                      NULL, NULL);
    if (rc == SQLITE_NOTADB)
      rc = not_ours(b, err);
    else
      rc = ext_wait_result(&wait, ext_sql_error(err, db, rc), err);
  }
  if (rc == SQLITE_OK)
    rc = ext_backup_sum(db, &l.sum, &size, err);
  if (rc == SQLITE_OK)
    rc = ext_place_each(db, "main", look_at_row, &l, err);
  if (rc == SQLITE_OK)
    rc = l.rc;
  sqlite3_close(db);
  return rc == SQLITE_OK && l.ours == 0 ? not_ours(b, err) : rc;
}

/* A first backup that was cut off between its two renames: copy.db-emb has its
** name, and contains the stores that the rows of copy.db-backup-new name. */
struct halves {
  struct backup *b;
  size_t rows, found;
  int rc;
};

static int look_at_half(void *arg, const char *table, const char *uuid,
                        const char *dir) {
  struct halves *h = arg;
  emb_backup_of of;
  char copy[33], *path;
  int rc;
  (void)table;
  if (dir == NULL || !ext_place_is_name(dir))
    return 0;
  h->rows++;
  path = sqlite3_mprintf("%s/%s", h->b->target_emb, dir);
  rc = path ? emb_backup_look(path, &of, NULL) : EMB_NOMEM;
  if (rc == EMB_OK) {
    ext_backup_hex(of.uuid, copy);
    h->found += of.untouched && strcmp(copy, uuid) == 0;
  }
  sqlite3_free(path);
  h->rc = rc == EMB_NOMEM ? SQLITE_NOMEM : SQLITE_OK;
  return h->rc != SQLITE_OK;
}

/* Counts the names in a directory; -1: it cannot be read. */
static int count_names(const char *path) {
  DIR *dir = opendir(path);
  struct dirent *entry;
  int n = 0;
  if (dir == NULL)
    return -1;
  for (errno = 0; (entry = readdir(dir)) != NULL; errno = 0)
    n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  n = errno ? -1 : n;
  closedir(dir);
  return n;
}

/* Does copy.db-emb contain exactly those stores?  0 also if the files do not
** tell. */
static int look_if_half(struct backup *b, int *is_half) {
  struct halves h = {b, 0, 0, SQLITE_OK};
  char *err = NULL;
  int rc = ext_place_each(b->out, "main", look_at_half, &h, &err);
  int n = count_names(b->target_emb);
  sqlite3_free(err);
  *is_half = rc == SQLITE_OK && h.rows > 0 && h.rows == h.found && n >= 0 &&
             (size_t)n == h.rows;
  return rc == SQLITE_NOMEM || rc == SQLITE_IOERR_NOMEM ? SQLITE_NOMEM : h.rc;
}

/* Checks that nothing exists there, except what a first backup that was cut off
** has left. */
static int look_at_nothing(struct backup *b, char **err) {
  static const char *const others[] = {"-emb", "-journal", "-wal", "-shm"};
  int rc = SQLITE_OK, there = 0;
  for (size_t i = 0; rc == SQLITE_OK && i < 4; i++) {
    int half = 0;
    rc = ext_backup_look(b->target, others[i], 0, &there, err);
    if (rc == SQLITE_OK && i == 0 && !there)
      b->half = 0;
    if (rc == SQLITE_OK && i == 0 && b->half)
      rc = look_if_half(b, &half);
    if (rc == SQLITE_OK && there && !half)
      rc = ext_error(err, SQLITE_CANTOPEN,
                     "\"%s%s\" exists; nothing is overwritten", b->target,
                     others[i]);
  }
  return rc;
}

/* Opens copy.db-backup-new and takes its lock.  If two processes try at once,
** one gets it, because neither keeps a lock while it waits (as it would in
** exclusive mode).  The file may have been renamed to its final name since. */
static int take_lock(struct backup *b, char **err) {
  int there, moved = 0;
  int rc = ext_backup_look(b->new, "", 0, &there, err);
  if (rc != SQLITE_OK)
    return rc;
  b->half = there; /* until checked */
  rc = ext_backup_open(b, b->new, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                       &b->out, err);
  if (rc == SQLITE_OK) {
    ext_wait_for_locks(&b->wait, b->conn, b->out, LOCK_MS);
    rc = sqlite3_exec(b->out,
                      "BEGIN EXCLUSIVE; PRAGMA locking_mode=EXCLUSIVE; "
                      "COMMIT; PRAGMA journal_mode=DELETE",
                      NULL, NULL, NULL);
    if (rc == SQLITE_OK &&
        sqlite3_file_control(b->out, "main", SQLITE_FCNTL_HAS_MOVED, &moved) ==
            SQLITE_OK &&
        moved)
      rc = SQLITE_BUSY;
    rc = ext_wait_result(&b->wait, rc, err);
    if (rc == SQLITE_INTERRUPT)
      return rc;
    if (rc == SQLITE_BUSY)
      rc = ext_error(err, rc, "another backup to \"%s\" is running", b->target);
    else if (rc == SQLITE_NOTADB)
      rc = ext_error(err, SQLITE_CANTOPEN,
                     "\"%s\" exists; nothing is overwritten", b->new);
    else if (rc != SQLITE_OK)
      ext_sql_error(err, b->out, rc);
  }
  b->made_new = !there && rc != SQLITE_BUSY;
  return rc;
}

/* Removes the stores that no row of the target names. */
static int remove_unnamed(struct backup *b, char **err) {
  emb_err error;
  int rc = emb_place_remove_others(b->target_emb, (const char *const *)b->old,
                                   b->olds, &error);
  return rc ? ext_backup_error(err, rc, &error) : SQLITE_OK;
}

/* The lock is held, so files with these names were left by a process that died
** or could not clean up.  The half of a backup is first renamed back, because
** under that name it is recognised even if it is not whole. */
static int backup_remove_leftovers(struct backup *b, char **err) {
  emb_err error;
  int rc = emb_place_remove(b->new_emb, &error);
  if (rc == EMB_OK && b->half) {
    rc = emb_place_rename(b->target_emb, b->new_emb, &error);
    if (rc == EMB_OK) {
      b->half = 0;
      rc = emb_place_remove(b->new_emb, &error);
    }
  }
  if (rc)
    return ext_backup_error(err, rc, &error);
  return b->again ? remove_unnamed(b, err) : SQLITE_OK;
}

/* All steps need the lock: without it, another backup may still be publishing,
** and the stores that its rows will name would be taken for leftovers. */
int ext_backup_target(struct backup *b, char **err) {
  int rc = take_lock(b, err);
  if (rc == SQLITE_OK)
    rc = ext_backup_look(b->target, "", 0, &b->again, err);
  if (rc == SQLITE_OK && b->again) {
    b->half = 0;
    rc = look_at_earlier(b, err);
  } else if (rc == SQLITE_OK)
    rc = look_at_nothing(b, err);
  if (rc == SQLITE_OK) {
    b->made_new = 1;
    rc = backup_remove_leftovers(b, err);
  }
  if (rc == SQLITE_OK) {
    emb_err error;
    int made = emb_place_make(b->new_emb, &error);
    if (made)
      rc = ext_backup_error(err, made, &error);
  }
  return rc;
}
