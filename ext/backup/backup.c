/* SPDX-License-Identifier: MIT
**
** backup.c -- emb_backup(): a database and all its stores, of one moment, in
** another place.
**
**   1  find the schema's emb tables and open their stores
**   2  look at the target: nothing is there, or an earlier backup of the same
**      tables that has not been written to
**   3  hold up all commits (moment.c); wait until the last commit has
**      reached the stores; a mark in each store: that is the moment
**                                                           [take_moment]
**   4  let writers go on; write the stores' indexes; copy the pages of the
**      database, which is soon done                         [copy_pages]
**   5  copy the stores, and let the copied database's rows name the copies
**                                            [copy_stores, complete_database]
**   6  publish
**
** FILES of a first backup to copy.db, until step 6:
**             copy.db-backup-new        the database
**             copy.db-backup-new-emb/   its stores
**           They get their names by two renames, the database's last: from then
**           on there is a backup.
**        of a later one: copy.db-backup-new, and the new stores beside the old
**           ones in copy.db-emb, under other names.  They are named by the
**           rows of copy.db from the commit on with which SQLite's own backup
**           puts the new pages into it; so copy.db is at every moment the old
**           backup or the new one.  Then the old stores are removed.
** LOCK      A backup in progress holds an exclusive lock on
**           copy.db-backup-new, as SQLite locks databases.
** LEFT OVER What a process that died has left has one of these names, or is a
**           store in copy.db-emb that no row of copy.db names.  The next call
**           removes it, if the lock is not held.
** KNOWN     That the target is a backup, and untouched, is in its stores
**           (engine/backup/copied.h): of which store each is a copy, that it
**           has not been written to, and a checksum of copy.db.
**           A first backup that ended between its two renames has left
**           copy.db-emb; only the rows of copy.db-backup-new, which name what
**           is in it, distinguish it from an unrelated directory.  So
**           copy.db-backup-new is removed after copy.db-emb, never before.
** FAILURE   All that was made is removed, as far as that does not fail itself;
**           copy.db is as it was.
*/
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGES_STEP 64 /* of the database, between two looks at the clock */
#define SUM_BYTES 65536
#define COMMIT_MS 10000
#define LOCK_MS 1000
#define ATTEMPTS 50 /* tries to find a moment */

/* One emb table. */
struct part {
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

struct backup {
  struct ext_conn *conn;
  const char *schema;
  char *target, *target_emb; /* copy.db, copy.db-emb */
  char *new, *new_emb;       /* copy.db-backup-new, ... */
  char *vfs;
  int again;    /* the target is there */
  int made_new; /* the lock is held: what is called so is ours */
  int half;     /* copy.db-emb may be what copy.db-backup-new's rows name */
  struct part *parts;
  size_t n;
  struct ext_moment moment;
  sqlite3 *out; /* copy.db-backup-new */
  char **old;   /* plain names of the target's stores */
  size_t olds;
  sqlite3_int64 bytes; /* of the database */
};

static int engine_error(char **err, int code, const emb_err *error) {
  return ext_engine_error(err, code, error->text);
}

static int part_error(struct part *part, int code, char **err) {
  return ext_engine_error(err, code, emb_errmsg(part->session));
}

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

/* ---- paths --------------------------------------------------------------- */

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* "file:/a%20b" or "file:///a%20b" without parameters. */
static int decode_uri(const char *text, char **path, char **err) {
  const char *from = text + 5;
  sqlite3_str *to;
  if (strncmp(from, "//", 2) == 0) {
    const char *slash = strchr(from + 2, '/');
    size_t n = slash ? (size_t)(slash - from) - 2 : strlen(from + 2);
    if (slash == NULL ||
        (n != 0 && (n != 9 || strncmp(from + 2, "localhost", 9) != 0)))
      return ext_error(err, SQLITE_ERROR, "no such host: %s", text);
    from = slash;
  }
  to = sqlite3_str_new(NULL);
  for (; *from && *from != '#'; from++) {
    int high = *from == '%' ? hex_digit(from[1]) : -1;
    int low = high >= 0 ? hex_digit(from[2]) : -1;
    if (*from == '?') {
      sqlite3_free(sqlite3_str_finish(to));
      return ext_error(err, SQLITE_ERROR,
                       "the name of a backup takes no parameters: %s", text);
    }
    sqlite3_str_appendchar(to, 1, low >= 0 ? (char)(high * 16 + low) : *from);
    from += low >= 0 ? 2 : 0;
  }
  if (sqlite3_str_errcode(to) == SQLITE_NOMEM) {
    sqlite3_free(sqlite3_str_finish(to));
    return SQLITE_NOMEM;
  }
  *path = sqlite3_str_finish(to);
  return *path ? SQLITE_OK
               : ext_error(err, SQLITE_ERROR, "a backup needs a path");
}

int ext_backup_path(const char *text, char **path, char **err) {
  sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
  char *plain = NULL;
  int rc;
  *path = NULL;
  if (strncmp(text, "file:", 5) == 0) {
    rc = decode_uri(text, &plain, err);
  } else {
    plain = sqlite3_mprintf("%s", text);
    rc = plain ? SQLITE_OK : SQLITE_NOMEM;
  }
  if (rc == SQLITE_OK && (plain[0] == 0 || strcmp(plain, ":memory:") == 0))
    rc = ext_error(err, SQLITE_ERROR, "a backup needs a path, got '%s'", plain);
  if (rc == SQLITE_OK) {
    *path = sqlite3_malloc(vfs->mxPathname + 1);
    rc = *path ? vfs->xFullPathname(vfs, plain, vfs->mxPathname + 1, *path)
               : SQLITE_NOMEM;
    if (rc == SQLITE_OK_SYMLINK)
      rc = SQLITE_OK;
    if (rc != SQLITE_OK && rc != SQLITE_NOMEM)
      rc = ext_error(err, rc, "cannot open \"%s\"", plain);
  }
  sqlite3_free(plain);
  if (rc != SQLITE_OK) {
    sqlite3_free(*path);
    *path = NULL;
  }
  return rc;
}

/* *there: whether something has this name, and is not an empty file if `full`
** is set. */
static int backup_look(const char *path, const char *suffix, int full,
                       int *there, char **err) {
  char *name = sqlite3_mprintf("%s%s", path, suffix);
  struct stat st;
  int rc = name ? SQLITE_OK : SQLITE_NOMEM;
  *there = 0;
  if (rc == SQLITE_OK && lstat(name, &st) == 0)
    *there = !full || st.st_size > 0;
  else if (rc == SQLITE_OK && errno != ENOENT)
    rc = ext_error(err, SQLITE_CANTOPEN, "cannot open \"%s\": %s", name,
                   strerror(errno));
  sqlite3_free(name);
  return rc;
}

static void unlink_with(const char *path, const char *suffix) {
  char *name = sqlite3_mprintf("%s%s", path, suffix);
  if (name)
    unlink(name);
  sqlite3_free(name);
}

/* A database and what SQLite has beside it. */
static void unlink_database(const char *path) {
  unlink_with(path, "-journal");
  unlink_with(path, "-wal");
  unlink_with(path, "-shm");
  unlink_with(path, "");
}

/* ---- the tables ---------------------------------------------------------- */

/* Does this text of sqlite_schema make an emb table? */
static int is_emb(const char *sql) {
  for (const char *at = sql; (at = strchr(at, ' ')) != NULL; at++) {
    const char *word = at + 1;
    if (sqlite3_strnicmp(word, "using", 5) != 0)
      continue;
    word += 5;
    while (*word == ' ' || *word == '\t' || *word == '\n' || *word == '\r')
      word++;
    word += *word == '"' || *word == '[' || *word == '`' || *word == '\'';
    if (sqlite3_strnicmp(word, "emb", 3) == 0 &&
        strchr("( \t\r\n\"]`');", word[3]) != NULL)
      return 1;
  }
  return 0;
}

static int take_part(struct part *part, struct ext_table *table, char **err) {
  struct ext_place place;
  int rc = ext_txn_read(table, err);
  if (rc != SQLITE_OK)
    return rc;
  if (table->link->in_txn)
    return ext_error(err, SQLITE_LOCKED,
                     "emb_backup cannot run within a transaction that has "
                     "written");
  rc = ext_place_read(table, &place, err);
  if (rc != SQLITE_OK)
    return rc;
  part->dir = place.dir;
  memcpy(part->uuid, place.uuid, sizeof part->uuid);
  part->link = table->link;
  part->link->cursors++;
  return SQLITE_OK;
}

static int add_part(struct backup *b, const char *name, char **err) {
  struct part *parts = sqlite3_realloc64(b->parts, (b->n + 1) * sizeof *parts);
  struct ext_table *table;
  struct part *part;
  char *full = sqlite3_mprintf("%s.%s", b->schema, name);
  int rc = parts && full ? SQLITE_OK : SQLITE_NOMEM;
  if (parts)
    b->parts = parts;
  if (rc == SQLITE_OK) {
    part = &parts[b->n++];
    memset(part, 0, sizeof *part);
    part->name = sqlite3_mprintf("%s", name);
    rc = part->name ? ext_conn_find(b->conn, full, &table, err) : SQLITE_NOMEM;
  }
  sqlite3_free(full);
  if (rc == SQLITE_OK) {
    ext_table_hold(table);
    rc = take_part(part, table, err);
    (void)ext_table_let_go(table);
  }
  return rc;
}

/* Names first: opening tables may change what a statement reads. */
static int list_tables(struct backup *b, char ***names, size_t *n, char **err) {
  sqlite3 *db = b->conn->db;
  sqlite3_stmt *list = NULL;
  char *sql =
      sqlite3_mprintf("SELECT name, sql FROM \"%w\".sqlite_schema WHERE "
                      "type = 'table' AND rootpage = 0 ORDER BY name",
                      b->schema);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &list, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *names = NULL;
  *n = 0;
  while (rc == SQLITE_OK && sqlite3_step(list) == SQLITE_ROW) {
    const char *name, *text;
    char **more;
    rc = ext_column_text(list, 0, &name);
    if (rc == SQLITE_OK)
      rc = ext_column_text(list, 1, &text);
    if (rc != SQLITE_OK)
      break;
    if (name == NULL || text == NULL || !is_emb(text))
      continue;
    more = sqlite3_realloc64(*names, (*n + 1) * sizeof *more);
    if (more == NULL) {
      rc = SQLITE_NOMEM;
      break;
    }
    *names = more;
    more[*n] = sqlite3_mprintf("%s", name);
    rc = more[*n] ? SQLITE_OK : SQLITE_NOMEM;
    *n += rc == SQLITE_OK;
  }
  if (rc == SQLITE_OK)
    return ext_sql_error(err, db, sqlite3_finalize(list));
  if (rc != SQLITE_NOMEM)
    ext_sql_error(err, db, rc);
  sqlite3_finalize(list);
  return rc;
}

static int by_store(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const struct part *)a)->link->store;
  uintptr_t y = (uintptr_t)((const struct part *)b)->link->store;
  return x < y ? -1 : x > y;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct part *)a)->name, ((const struct part *)b)->name);
}

static int find_parts(struct backup *b, char **err) {
  char **names;
  size_t n;
  int rc = list_tables(b, &names, &n, err);
  for (size_t i = 0; i < n; i++) {
    if (rc == SQLITE_OK)
      rc = add_part(b, names[i], err);
    sqlite3_free(names[i]);
  }
  sqlite3_free(names);
  /* Two backups at once lock the stores in the same order. */
  if (rc == SQLITE_OK && b->n)
    qsort(b->parts, b->n, sizeof *b->parts, by_store);
  return rc;
}

/* ---- the database's file ------------------------------------------------- */

static int backup_open_file(struct backup *b, const char *path, int flags,
                            sqlite3 **db, char **err) {
  int rc = sqlite3_open_v2(path, db, flags | SQLITE_OPEN_PRIVATECACHE, b->vfs);
  if (rc != SQLITE_OK && *db)
    return ext_error(err, rc, "cannot open \"%s\": %s", path,
                     sqlite3_errmsg(*db));
  return rc;
}

/* XXH3 belongs to the engine; this only has to detect changes made by hand, and
** goes over small numbers of bytes. */
static uint64_t backup_mix(uint64_t sum, const unsigned char *bytes, size_t n) {
  for (size_t i = 0; i + 8 <= n; i += 8) {
    uint64_t word;
    memcpy(&word, bytes + i, 8);
    sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    sum ^= sum >> 29;
  }
  return sum;
}

/* A checksum of a database's file, without what in its head differs between
** the file and a copy of it that SQLite made.  The connection is in a
** transaction; nothing is in a WAL. */
static int sum_file(sqlite3 *db, uint64_t *sum, sqlite3_int64 *size,
                    char **err) {
  static const unsigned char changing[][2] = {
      {18, 2}, {24, 8}, {40, 4}, {92, 8}};
  unsigned char *bytes = sqlite3_malloc(SUM_BYTES);
  sqlite3_file *file = NULL;
  int rc = bytes ? SQLITE_OK : SQLITE_NOMEM;
  *sum = 1;
  *size = 0;
  if (rc == SQLITE_OK)
    rc = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (rc == SQLITE_OK && file->pMethods == NULL)
    rc = SQLITE_CANTOPEN;
  if (rc == SQLITE_OK)
    rc = file->pMethods->xFileSize(file, size);
  for (sqlite3_int64 at = 0; rc == SQLITE_OK && at < *size; at += SUM_BYTES) {
    int n = *size - at < SUM_BYTES ? (int)(*size - at) : SUM_BYTES;
    memset(bytes, 0, SUM_BYTES);
    rc = file->pMethods->xRead(file, bytes, n, at);
    for (size_t i = 0; at == 0 && i < sizeof changing / sizeof changing[0]; i++)
      memset(bytes + changing[i][0], 0, changing[i][1]);
    *sum = backup_mix(*sum, bytes, SUM_BYTES);
  }
  sqlite3_free(bytes);
  return rc == SQLITE_OK || rc == SQLITE_NOMEM
             ? rc
             : ext_error(err, rc, "cannot read the database's file");
}

/* ---- the target ---------------------------------------------------------- */

static int not_ours(struct backup *b, char **err) {
  return ext_error(err, SQLITE_CANTOPEN,
                   "\"%s\" exists and is no earlier backup of this database; "
                   "nothing is overwritten",
                   b->target);
}

static void hex_of(const uint8_t uuid[16], char hex[33]) {
  for (int i = 0; i < 16; i++)
    sqlite3_snprintf(3, hex + 2 * i, "%02x", (unsigned)uuid[i]);
}

struct looking {
  struct backup *b;
  uint64_t sum;
  int rc, ours; /* ours: how many are copies of tables that we have */
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

/* A row of the target: its store must be a copy, as it was made.  A row of
** a table that is not emb's has no directory. */
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
    hex_of(of.source, source);
    hex_of(of.uuid, copy);
    if (strspn(source, "0") == 32 || strcmp(copy, uuid) != 0)
      l->rc = not_ours(b, l->err);
    else if (!of.untouched || of.number != l->sum)
      l->rc = ext_error(l->err, SQLITE_CANTOPEN,
                        "\"%s\" is a backup, but was changed since; nothing "
                        "is overwritten",
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

/* An earlier backup of these tables that has not been written to.  Reading it
** rolls back what a process left that died while bringing it up to date. */
static int look_at_earlier(struct backup *b, char **err) {
  struct looking l = {b, 0, SQLITE_OK, 0, err};
  sqlite3_int64 size;
  sqlite3 *db = NULL;
  int rc = backup_open_file(b, b->target, SQLITE_OPEN_READWRITE, &db, err);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(db, 5000);
    rc = sqlite3_exec(db, "BEGIN; SELECT count(*) FROM sqlite_schema", NULL,
                      NULL, NULL);
    if (rc == SQLITE_NOTADB)
      rc = not_ours(b, err);
    else
      ext_sql_error(err, db, rc);
  }
  if (rc == SQLITE_OK)
    rc = sum_file(db, &l.sum, &size, err);
  if (rc == SQLITE_OK)
    rc = ext_place_each(db, "main", look_at_row, &l, err);
  if (rc == SQLITE_OK)
    rc = l.rc;
  sqlite3_close(db);
  return rc == SQLITE_OK && l.ours == 0 ? not_ours(b, err) : rc;
}

/* Of a first backup that was cut off between its two renames: copy.db-emb has
** its name, and what it holds are the stores that the rows of
** copy.db-backup-new name. */
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
    hex_of(of.uuid, copy);
    h->found += of.untouched && strcmp(copy, uuid) == 0;
  }
  sqlite3_free(path);
  h->rc = rc == EMB_NOMEM ? SQLITE_NOMEM : SQLITE_OK;
  return h->rc != SQLITE_OK;
}

/* How many names are in a directory; -1: that cannot be read. */
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

/* Those stores, and nothing else.  0 also where files do not say. */
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

/* Nothing may be there, but what a first backup that was cut off has left. */
static int look_at_nothing(struct backup *b, char **err) {
  static const char *const others[] = {"-emb", "-journal", "-wal", "-shm"};
  int rc = SQLITE_OK, there = 0;
  for (size_t i = 0; rc == SQLITE_OK && i < 4; i++) {
    int half = 0;
    rc = backup_look(b->target, others[i], 0, &there, err);
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

/* Opens copy.db-backup-new and takes its lock.  Of two that try at once one
** gets it: neither keeps what it has (as in exclusive mode) while it waits.
** The file may have got its final name meanwhile. */
static int take_lock(struct backup *b, char **err) {
  int there, moved = 0;
  int rc = backup_look(b->new, "", 0, &there, err);
  if (rc != SQLITE_OK)
    return rc;
  b->half = there && !b->again; /* until it has been looked at */
  rc = backup_open_file(b, b->new, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                        &b->out, err);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(b->out, LOCK_MS);
    rc = sqlite3_exec(b->out,
                      "BEGIN EXCLUSIVE; PRAGMA locking_mode=EXCLUSIVE; "
                      "COMMIT; PRAGMA journal_mode=DELETE",
                      NULL, NULL, NULL);
    if (rc == SQLITE_OK &&
        sqlite3_file_control(b->out, "main", SQLITE_FCNTL_HAS_MOVED, &moved) ==
            SQLITE_OK &&
        moved)
      rc = SQLITE_BUSY;
    if (rc == SQLITE_BUSY)
      rc = ext_error(err, rc, "a backup to \"%s\" is being made", b->target);
    else if (rc == SQLITE_NOTADB)
      rc = ext_error(err, SQLITE_CANTOPEN,
                     "\"%s\" exists; nothing is overwritten", b->new);
    else if (rc != SQLITE_OK)
      ext_sql_error(err, b->out, rc);
  }
  b->made_new = rc == SQLITE_OK || (!there && rc != SQLITE_BUSY);
  return rc;
}

/* Of stores that no row of the target names. */
static int remove_unnamed(struct backup *b, char **err) {
  emb_err error;
  int rc = emb_place_remove_others(b->target_emb, (const char *const *)b->old,
                                   b->olds, &error);
  return rc ? engine_error(err, rc, &error) : SQLITE_OK;
}

/* The lock is held: so what has these names was left by a process that died,
** or could not clean up.  The half of a backup first gets its other name back,
** under which it need not be whole to be known. */
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
    return engine_error(err, rc, &error);
  return b->again ? remove_unnamed(b, err) : SQLITE_OK;
}

static int prepare_target(struct backup *b, char **err) {
  int rc = backup_look(b->target, "", 0, &b->again, err);
  if (rc == SQLITE_OK && b->again)
    rc = look_at_earlier(b, err);
  if (rc == SQLITE_OK)
    rc = take_lock(b, err);
  if (rc == SQLITE_OK && !b->again)
    rc = look_at_nothing(b, err);
  if (rc == SQLITE_OK)
    rc = backup_remove_leftovers(b, err);
  if (rc == SQLITE_OK) {
    emb_err error;
    int made = emb_place_make(b->new_emb, &error);
    if (made)
      rc = engine_error(err, made, &error);
  }
  return rc;
}

/* ---- the moment ---------------------------------------------------------- */

static int open_sessions(struct backup *b, char **err) {
  for (size_t i = 0; i < b->n; i++) {
    struct part *part = &b->parts[i];
    emb_err error;
    int rc = emb_session_open(part->link->store, &part->session, &error);
    if (rc)
      return engine_error(err, rc, &error);
    emb_session_interrupt(part->session, ext_link_interrupted, b->conn);
  }
  return SQLITE_OK;
}

struct backup_backup_reading {
  struct backup *b;
  int rc;
};

/* A row as the moment has it. */
static int backup_read_row(void *arg, const char *shadow, const char *uuid,
                           const char *dir) {
  struct backup_backup_reading *r = arg;
  struct backup *b = r->b;
  (void)dir;
  for (size_t i = 0; i < b->n; i++)
    if (strcmp(b->parts[i].uuid, uuid) == 0 && !b->parts[i].shadow) {
      b->parts[i].shadow = sqlite3_mprintf("%s", shadow);
      if (b->parts[i].shadow == NULL)
        r->rc = SQLITE_NOMEM;
    }
  return r->rc != SQLITE_OK;
}

static int backup_read_txn(struct backup *b, struct part *part, char **err) {
  sqlite3 *db = b->moment.reader;
  sqlite3_stmt *row = NULL;
  char *sql = sqlite3_mprintf("SELECT txn FROM \"%w\".\"%w\" WHERE uuid = %Q",
                              b->moment.source, part->shadow, part->uuid);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &row, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  if (rc == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW)
    part->txn = sqlite3_column_int64(row, 0);
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(row);
  return ext_sql_error(err, db, rc);
}

/* As many emb tables as were found, and the same ones. */
static int count_tables(struct backup *b, size_t *n, char **err) {
  sqlite3 *db = b->moment.reader;
  sqlite3_stmt *list = NULL;
  char *sql = sqlite3_mprintf("SELECT sql FROM \"%w\".sqlite_schema WHERE "
                              "type = 'table' AND rootpage = 0",
                              b->moment.source);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &list, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *n = 0;
  while (rc == SQLITE_OK && sqlite3_step(list) == SQLITE_ROW) {
    const char *text;
    rc = ext_column_text(list, 0, &text);
    *n += rc == SQLITE_OK && text && is_emb(text);
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(list);
  else
    sqlite3_finalize(list);
  return ext_sql_error(err, db, rc);
}

static int backup_read_rows(struct backup *b, char **err) {
  struct backup_backup_reading r = {b, SQLITE_OK};
  size_t n = 0;
  int rc = ext_place_each(b->moment.reader, b->moment.source, backup_read_row,
                          &r, err);
  if (rc == SQLITE_OK)
    rc = r.rc;
  if (rc == SQLITE_OK)
    rc = count_tables(b, &n, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++)
    rc = b->parts[i].shadow ? backup_read_txn(b, &b->parts[i], err)
                            : SQLITE_SCHEMA;
  if (rc == SQLITE_SCHEMA || (rc == SQLITE_OK && n != b->n))
    rc = ext_error(err, SQLITE_BUSY,
                   "a table was created or dropped meanwhile; try again");
  return rc;
}

/* The process owns the store, where it may; and what a crash has left in doubt
** is decided by the row, which is the newest. */
static int own_store(struct backup *b, struct part *part, int is_reader,
                     char **err) {
  emb_store *store = part->link->store;
  int rc = is_reader ? emb_exists(part->session, NULL, 0, NULL)
                     : emb_delete(part->session, NULL, 0, NULL);
  uint64_t doubt = emb_in_doubt(store);
  (void)b;
  if (!is_reader && rc == EMB_LOCKED && doubt) {
    int commit = part->txn >= 0 && (uint64_t)part->txn >= doubt;
    if (commit || (uint64_t)part->txn == emb_committed(store)) {
      emb_err error;
      rc = emb_resolve(store, commit, &error);
      return rc ? engine_error(err, rc, &error) : SQLITE_OK;
    }
  }
  return rc ? part_error(part, rc, err) : SQLITE_OK;
}

/* A commit that SQLite is through with may not have reached the store yet.
** Where the write lock is held, the store's transaction is over as soon as
** another may begin; else one may be open, and waiting for us. */
static int await_commit(struct backup *b, struct part *part, char **err) {
  emb_store *store = part->link->store;
  int rc = SQLITE_OK;
  if (b->moment.locked) {
    int begun = emb_begin(part->session);
    if (begun)
      return part_error(part, begun, err);
    emb_rollback(part->session);
  }
  for (int ms = 0; rc == SQLITE_OK && part->link->atomic && ms < COMMIT_MS &&
                   emb_committed(store) < (uint64_t)part->txn;
       ms++) {
    sqlite3_sleep(1);
    if (ext_link_interrupted(b->conn))
      rc = ext_error(err, SQLITE_INTERRUPT, "interrupted");
  }
  return rc;
}

static int backup_settle(struct backup *b, struct part *part, char **err) {
  emb_store *store = part->link->store;
  int is_reader = sqlite3_db_readonly(b->conn->db, b->schema) == 1;
  int rc = own_store(b, part, is_reader, err);
  if (rc == SQLITE_OK && !is_reader)
    rc = await_commit(b, part, err);
  if (rc == SQLITE_OK && part->link->atomic &&
      (uint64_t)part->txn != emb_committed(store))
    rc = ext_error(err, is_reader ? SQLITE_BUSY : SQLITE_CORRUPT_VTAB,
                   "the store of %s is at transaction %llu but the database "
                   "recorded %lld%s",
                   part->name, (unsigned long long)emb_committed(store),
                   part->txn,
                   is_reader ? ": it must be opened for writing once"
                             : " (restored copy?); see 'adopt'");
  return rc;
}

static int mark_stores(struct backup *b, char **err) {
  int rc = ext_moment_begin(&b->moment, b->conn, b->schema, err);
  if (rc == SQLITE_OK)
    rc = backup_read_rows(b, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++)
    rc = backup_settle(b, &b->parts[i], err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    struct part *part = &b->parts[i];
    int made = emb_backup_begin(part->session, b->new_emb, &part->backup);
    if (made)
      rc = part_error(part, made, err);
  }
  return rc == SQLITE_OK ? ext_moment_open_up(&b->moment, err) : rc;
}

static int take_moment(struct backup *b, char **err) {
  int rc = mark_stores(b, err);
  for (int attempt = 0; rc == SQLITE_BUSY_SNAPSHOT && attempt < ATTEMPTS;
       attempt++) {
    for (size_t i = 0; i < b->n; i++) {
      emb_backup_end(b->parts[i].backup);
      b->parts[i].backup = NULL;
      sqlite3_free(b->parts[i].shadow);
      b->parts[i].shadow = NULL;
    }
    ext_moment_end(&b->moment);
    rc = mark_stores(b, err);
  }
  if (rc == SQLITE_BUSY_SNAPSHOT)
    rc = ext_error(err, SQLITE_BUSY, "others commit all the time");
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    int made = emb_backup_freeze(b->parts[i].backup);
    if (made)
      rc = part_error(&b->parts[i], made, err);
  }
  return rc;
}

/* ---- copying ------------------------------------------------------------- */

/* The names of the copies: what the stores are called here, or where that is
** taken the next that is free. */
static int name_copies(struct backup *b, char **err) {
  const char *parent = b->again ? b->target_emb : b->new_emb;
  for (size_t i = 0; i < b->n; i++) {
    struct part *part = &b->parts[i];
    char *base = part->dir ? sqlite3_mprintf("%s", part->dir)
                           : ext_place_encode(part->name);
    for (int number = 1; base; number++) {
      int taken = 0;
      int rc;
      sqlite3_free(part->to_dir);
      sqlite3_free(part->to);
      part->to_dir = number > 1 ? sqlite3_mprintf("%s-%d", base, number)
                                : sqlite3_mprintf("%s", base);
      part->to =
          part->to_dir ? sqlite3_mprintf("%s/%s", parent, part->to_dir) : NULL;
      rc = part->to ? backup_look(part->to, "", 0, &taken, err) : SQLITE_NOMEM;
      for (size_t k = 0; rc == SQLITE_OK && k < i; k++)
        taken |= strcmp(b->parts[k].to_dir, part->to_dir) == 0;
      if (rc != SQLITE_OK) {
        sqlite3_free(base);
        return rc;
      }
      if (!taken)
        break;
    }
    if (base == NULL)
      return SQLITE_NOMEM;
    sqlite3_free(base);
  }
  return SQLITE_OK;
}

/* Whether the earlier copy's log has no other link: backups that are kept by
** hard links (cp -l) must not get new extents in old file slots. */
static int is_unshared(const char *base) {
  char *log = sqlite3_mprintf("%s/log", base);
  struct stat st;
  int is = log && stat(log, &st) == 0 && st.st_nlink == 1;
  sqlite3_free(log);
  return is;
}

/* A store directory appears in the one that is there, or in the new one. */
static int copy_stores(struct backup *b, char **err) {
  int rc = name_copies(b, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    struct part *part = &b->parts[i];
    const char *base =
        part->base && is_unshared(part->base) ? part->base : NULL;
    int made = emb_backup_write(part->backup, part->to, base, &part->info);
    if (made)
      rc = part_error(part, made, err);
    part->made = made == EMB_OK;
    emb_backup_end(part->backup);
    part->backup = NULL;
  }
  return rc;
}

/* Copies all pages. */
static int copy_pages(struct backup *b, sqlite3 *to, sqlite3 *from,
                      const char *schema, char **err) {
  sqlite3_backup *copy = sqlite3_backup_init(to, "main", from, schema);
  int rc = SQLITE_OK, waited = 0;
  if (copy == NULL)
    return ext_sql_error(err, to, sqlite3_errcode(to));
  while (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
    if (ext_link_interrupted(b->conn)) {
      rc = SQLITE_INTERRUPT;
      break;
    }
    rc = sqlite3_backup_step(copy, PAGES_STEP);
    if (rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
      if (++waited > 1000)
        break;
      sqlite3_sleep(10);
    }
  }
  if (rc == SQLITE_DONE)
    rc = sqlite3_backup_finish(copy);
  else
    sqlite3_backup_finish(copy);
  return rc == SQLITE_INTERRUPT ? ext_error(err, rc, "interrupted")
         : rc == SQLITE_OK || rc == SQLITE_NOMEM
             ? rc
             : ext_error(err, rc, "cannot copy the database: %s",
                         sqlite3_errstr(rc));
}

/* The row of a copy names the copied store. */
static int backup_move_row(struct backup *b, struct part *part, char **err) {
  char uuid[33];
  char *sql;
  int rc;
  hex_of(part->info.uuid, uuid);
  sql = sqlite3_mprintf("UPDATE \"%w\" SET uuid = %Q, dir = %Q WHERE id = 1 "
                        "AND uuid = %Q",
                        part->shadow, uuid, part->to_dir, part->uuid);
  if (sql == NULL)
    return SQLITE_NOMEM;
  rc = sqlite3_exec(b->out, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  if (rc == SQLITE_OK && sqlite3_changes(b->out) != 1)
    return ext_error(err, SQLITE_CORRUPT_VTAB, "%s names no store",
                     part->shadow);
  if (rc != SQLITE_OK)
    return ext_sql_error(err, b->out, rc);
  sql = sqlite3_mprintf("UPDATE \"%w\" SET place = %Q WHERE id = 1",
                        part->shadow, b->target_emb);
  if (sql == NULL)
    return SQLITE_NOMEM;
  rc = sqlite3_exec(b->out, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return rc == SQLITE_ERROR ? SQLITE_OK /* an older table has no such column */
                            : ext_sql_error(err, b->out, rc);
}

static int copy_database(struct backup *b, char **err) {
  int rc = copy_pages(b, b->out, b->moment.reader, b->moment.source, err);
  ext_moment_end(&b->moment);
  return rc;
}

static int complete_database(struct backup *b, char **err) {
  uint64_t sum = 0;
  int rc = ext_exec(b->out, err, "PRAGMA journal_mode=DELETE");
  if (rc == SQLITE_OK)
    rc = ext_exec(b->out, err, "PRAGMA synchronous=FULL");
  if (rc == SQLITE_OK)
    rc = ext_exec(b->out, err, "BEGIN");
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++)
    rc = backup_move_row(b, &b->parts[i], err);
  if (rc == SQLITE_OK)
    rc = ext_exec(b->out, err, "COMMIT");
  if (rc == SQLITE_OK)
    rc = sum_file(b->out, &sum, &b->bytes, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    emb_err error;
    int tagged = emb_backup_tag(b->parts[i].to, sum, &error);
    if (tagged)
      rc = engine_error(err, tagged, &error);
  }
  return rc;
}

/* ---- publishing ---------------------------------------------------------- */

/* After the first rename.  Where the second has happened all the same, the
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
    return engine_error(err, rc, &error);
  b->half = b->n > 0;
  if (b->n)
    rc = emb_place_rename(b->new_emb, b->target_emb, &error);
  else
    rc = emb_place_remove(b->new_emb, &error);
  if (rc)
    return engine_error(err, rc, &error);
  rc = emb_file_rename(b->new, b->target, 0, &error);
  if (rc) {
    if (b->n)
      backup_take_back(b);
    return engine_error(err, rc, &error);
  }
  b->half = 0;
  b->made_new = 0;
  return SQLITE_OK;
}

/* What the target's rows named before. */
static void remove_old(struct backup *b) {
  for (size_t i = 0; i < b->olds; i++) {
    char *path = sqlite3_mprintf("%s/%s", b->target_emb, b->old[i]);
    emb_err error;
    int rc = path ? emb_destroy(path, &error) : EMB_OK;
    if (rc)
      sqlite3_log(ext_code(rc), "emb: deleting %s: %s", path, error.text);
    sqlite3_free(path);
  }
}

/* From the commit in here on the target is the new backup. */
static int publish_again(struct backup *b, char **err) {
  sqlite3 *db = NULL;
  emb_err error;
  int rc = emb_place_sync(b->target_emb, &error);
  rc = rc ? engine_error(err, rc, &error)
          : backup_open_file(b, b->target, SQLITE_OPEN_READWRITE, &db, err);
  if (rc == SQLITE_OK) {
    sqlite3_busy_timeout(db, 5000);
    rc = ext_exec(db, err, "PRAGMA synchronous=EXTRA");
  }
  if (rc == SQLITE_OK)
    rc = copy_pages(b, db, b->out, "main", err);
  sqlite3_close(db);
  if (rc == SQLITE_OK)
    for (size_t i = 0; i < b->n; i++)
      b->parts[i].made = 0;
  if (rc == SQLITE_OK)
    remove_old(b);
  return rc;
}

/* ---- the call ------------------------------------------------------------ */

static int backup_report(struct backup *b, struct backup_rows *rows) {
  struct backup_row *row = ext_backup_row(rows);
  if (row == NULL)
    return SQLITE_NOMEM;
  row->bytes = row->copied = b->bytes;
  if (b->n)
    qsort(b->parts, b->n, sizeof *b->parts, by_name);
  for (size_t i = 0; i < b->n; i++) {
    struct part *part = &b->parts[i];
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
  int rc = find_parts(b, err);
  if (rc == SQLITE_OK)
    rc = prepare_target(b, err);
  if (rc == SQLITE_OK)
    rc = open_sessions(b, err);
  if (rc == SQLITE_OK)
    rc = take_moment(b, err);
  if (rc == SQLITE_OK)
    rc = copy_database(b, err);
  if (rc == SQLITE_OK)
    rc = copy_stores(b, err);
  if (rc == SQLITE_OK)
    rc = complete_database(b, err);
  if (rc == SQLITE_OK)
    rc = backup_report(b, rows); /* before what cannot be undone */
  if (rc == SQLITE_OK)
    rc = b->again ? publish_again(b, err) : publish_first(b, err);
  return rc;
}

/* Whether the next call needs copy.db-backup-new to recognise copy.db-emb. */
static int is_needed(struct backup *b) {
  struct stat st;
  return b->half && (lstat(b->target_emb, &st) == 0 || errno != ENOENT);
}

static void clean_up(struct backup *b) {
  int remove_new;
  for (size_t i = 0; i < b->n; i++) {
    struct part *part = &b->parts[i];
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
    unlink_database(b->new);
  sqlite3_close(b->out);
  /* What closing left; unless another backup has begun with the same names. */
  if (remove_new && access(b->new, F_OK) != 0)
    unlink_database(b->new);
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
