/* SPDX-License-Identifier: MIT
**
** place.c -- where a table's store is, and the shadow table that says so.
**
** PATHS     Database /d/app.db, table items: the store is the directory
**           /d/app.db-emb/items, or items-2 and so on when that one exists.
**           The name is fixed at CREATE; RENAME does not move the store.
**           Bytes other than [A-Za-z0-9_.-] are written %XX, and so is a dot
**           in front.
** ROW       The shadow table items_emb has one row:
**               id      1
**               uuid    the store's, 32 hex digits
**               dir     its directory's plain name, NULL if it is temporary
**               txn     number of the last transaction that SQLite committed
**               format  EXT_PLACE_FORMAT
**           A database file may come from anywhere, so dir is held against
**           the alphabet above before it is put into a path.
** TEMPORARY A table of an in-memory or temporary database has a store in
**           $SQLITE_TMPDIR, $TMPDIR, /var/tmp or /tmp that lives as long as
**           the connection.  It has the shadow table too: its uuid finds the
**           store again after SQLite re-created the table object, and its
**           absence tells that a DROP was committed.
*/
#include "ext.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACE_NAME_MAX 200 /* of 255 that file systems allow */

/* ---- paths --------------------------------------------------------------- */

static int is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
}

static int is_plain_name(const char *name) {
  size_t n = 0;
  if (name[0] == '.')
    return 0;
  for (; name[n]; n++)
    if (!is_plain(name[n]) && name[n] != '%')
      return 0;
  return n > 0 && n < 256;
}

static char *encode_name(const char *name) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (size_t i = 0; name[i] && sqlite3_str_length(out) < PLACE_NAME_MAX; i++)
    if (is_plain(name[i]) && !(i == 0 && name[i] == '.'))
      sqlite3_str_appendchar(out, 1, name[i]);
    else
      sqlite3_str_appendf(out, "%%%02X", (unsigned)(unsigned char)name[i]);
  return sqlite3_str_finish(out);
}

char *ext_place_path(const char *file, const char *dir) {
  return dir ? sqlite3_mprintf("%s-emb/%s", file, dir)
             : sqlite3_mprintf("%s-emb", file);
}

const char *ext_place_file(sqlite3 *db, const char *schema) {
  const char *file = sqlite3_db_filename(db, schema);
  sqlite3_vfs *vfs = NULL;
  if (file == NULL || file[0] == 0)
    return "";
  /* "file:/name?vfs=memdb" has a name and no file. */
  sqlite3_file_control(db, schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
  return vfs && strcmp(vfs->zName, "memdb") == 0 ? "" : file;
}

int ext_place_sync(const char *file) {
  const char *slash = strrchr(file, '/');
  size_t n = slash ? (size_t)(slash - file) + 1 : 0;
  char *dir = sqlite3_mprintf("%.*s.", (int)n, file);
  int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  int rc = fd < 0 || fsync(fd) != 0 ? errno : 0;
  if (fd >= 0)
    close(fd);
  sqlite3_free(dir);
  return rc;
}

/* A name under which nothing exists yet.  The database's write lock, which
** CREATE holds, keeps others from choosing it too. */
static char *choose_name(const char *file, const char *table) {
  char *base = encode_name(table);
  char *name = base ? sqlite3_mprintf("%s", base) : NULL;
  for (int i = 2; name; i++) {
    struct stat st;
    char *path = ext_place_path(file, name);
    int taken = path && lstat(path, &st) == 0;
    if (path == NULL || taken) {
      sqlite3_free(name);
      name = path ? sqlite3_mprintf("%s-%d", base, i) : NULL;
    }
    sqlite3_free(path);
    if (!taken)
      break;
  }
  sqlite3_free(base);
  return name;
}

static const char *temporary_parent(void) {
  const char *dirs[] = {getenv("SQLITE_TMPDIR"), getenv("TMPDIR"), "/var/tmp",
                        "/tmp"};
  for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
    struct stat st;
    if (dirs[i] && stat(dirs[i], &st) == 0 && S_ISDIR(st.st_mode) &&
        access(dirs[i], W_OK | X_OK) == 0)
      return dirs[i];
  }
  return ".";
}

/* ---- the shadow table's row ---------------------------------------------- */

static int check_row(struct ext_table *table, sqlite3_stmt *row,
                     struct ext_place *place, char **err) {
  const char *uuid = (const char *)sqlite3_column_text(row, 0);
  const char *dir = (const char *)sqlite3_column_text(row, 1);
  int format = sqlite3_column_int(row, 3);
  if (format > EXT_PLACE_FORMAT)
    return ext_error(err, SQLITE_ERROR,
                     "format %d is newer than this library (%d)", format,
                     EXT_PLACE_FORMAT);
  if (format != EXT_PLACE_FORMAT || uuid == NULL || strlen(uuid) != 32 ||
      (dir && !is_plain_name(dir)))
    return ext_error(err, SQLITE_CORRUPT_VTAB, "%s_emb names no store",
                     table->name);
  memcpy(place->uuid, uuid, 33);
  place->txn = sqlite3_column_int64(row, 2);
  place->dir = dir ? sqlite3_mprintf("%s", dir) : NULL;
  return dir && place->dir == NULL ? SQLITE_NOMEM : SQLITE_OK;
}

int ext_place_read(struct ext_table *table, struct ext_place *place,
                   char **err) {
  sqlite3 *db = table->conn->db;
  sqlite3_stmt *row = NULL;
  char *sql = sqlite3_mprintf("SELECT uuid, dir, txn, format "
                              "FROM \"%w\".\"%w_emb\" WHERE id = 1",
                              table->schema, table->name);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &row, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  place->dir = NULL;
  if (rc == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
    rc = check_row(table, row, place, err);
    sqlite3_finalize(row);
    return rc;
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(row);
  if (rc == SQLITE_OK)
    return ext_error(err, SQLITE_CORRUPT_VTAB, "%s_emb names no store",
                     table->name);
  if (rc == SQLITE_ERROR)
    rc = SQLITE_CORRUPT_VTAB;
  return ext_sql_error(err, db, rc);
}

int ext_place_each(sqlite3 *db, const char *schema,
                   int (*visit)(void *arg, const char *table, const char *uuid,
                                const char *dir),
                   void *arg, char **err) {
  sqlite3_stmt *names = NULL;
  int rc, stop = 0;
  char *sql = sqlite3_mprintf("SELECT name FROM \"%w\".sqlite_schema WHERE "
                              "type = 'table' AND rootpage > 0 AND "
                              "name LIKE '%%!_emb' ESCAPE '!'",
                              schema);
  rc = sql ? sqlite3_prepare_v2(db, sql, -1, &names, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  while (rc == SQLITE_OK && !stop && sqlite3_step(names) == SQLITE_ROW) {
    const char *name = (const char *)sqlite3_column_text(names, 0);
    sqlite3_stmt *row = NULL;
    if (name == NULL) {
      rc = SQLITE_NOMEM;
      break;
    }
    sql = sqlite3_mprintf("SELECT t.uuid, t.dir FROM \"%w\".\"%w\" AS t",
                          schema, name);
    rc = sql ? sqlite3_prepare_v2(db, sql, -1, &row, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    while (rc == SQLITE_OK && !stop && sqlite3_step(row) == SQLITE_ROW) {
      const char *uuid = (const char *)sqlite3_column_text(row, 0);
      stop = visit(arg, name, uuid ? uuid : "",
                   (const char *)sqlite3_column_text(row, 1));
    }
    if (rc == SQLITE_OK)
      rc = sqlite3_finalize(row);
    else if (rc == SQLITE_ERROR)
      rc = SQLITE_OK; /* somebody else's table that ends in _emb */
  }
  if (rc != SQLITE_OK)
    ext_sql_error(err, db, rc);
  if (rc == SQLITE_OK)
    rc = ext_sql_error(err, db, sqlite3_finalize(names));
  else
    sqlite3_finalize(names);
  return rc;
}

struct find {
  const char *uuid;
  char *name;
  int found;
};

static int find_uuid(void *arg, const char *table, const char *uuid,
                     const char *dir) {
  struct find *find = arg;
  (void)dir;
  if (strcmp(uuid, find->uuid) != 0)
    return 0;
  find->name = sqlite3_mprintf("%s", table);
  find->found = 1;
  return 1;
}

int ext_place_find(sqlite3 *db, const char *schema, const char *uuid,
                   char **name, char **err) {
  struct find find = {uuid, NULL, 0};
  int rc = ext_place_each(db, schema, find_uuid, &find, err);
  *name = find.name;
  /* Without memory for the name it must not seem to be nowhere. */
  return rc == SQLITE_OK && find.found && !find.name && !EMB_SEED(27)
             ? SQLITE_NOMEM
             : rc;
}

/* *found = 0 also when there is no such table. */
static int mark(struct ext_table *table, const char *shadow, sqlite3_int64 txn,
                int *found, char **err) {
  sqlite3 *db = table->conn->db;
  sqlite3_stmt *update = NULL;
  char *sql = sqlite3_mprintf("UPDATE \"%w\".\"%w\" SET txn = %lld "
                              "WHERE id = 1 AND uuid = %Q",
                              table->schema, shadow, txn, table->link->uuid);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &update, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *found = 0;
  if (rc == SQLITE_ERROR)
    return SQLITE_OK;
  if (rc == SQLITE_OK) {
    sqlite3_step(update);
    rc = sqlite3_finalize(update);
    *found = rc == SQLITE_OK && sqlite3_changes(db) == 1;
  }
  return ext_sql_error(err, db, rc);
}

int ext_place_mark(struct ext_table *table, sqlite3_int64 txn, int *found,
                   char **err) {
  char *shadow = sqlite3_mprintf("%s_emb", table->name);
  int rc = shadow ? mark(table, shadow, txn, found, err) : SQLITE_NOMEM;
  sqlite3_free(shadow);
  if (rc != SQLITE_OK || *found)
    return rc;
  rc = ext_place_find(table->conn->db, table->schema, table->link->uuid,
                      &shadow, err);
  if (rc == SQLITE_OK && shadow)
    rc = mark(table, shadow, txn, found, err);
  sqlite3_free(shadow);
  return rc;
}

/* ---- creation ------------------------------------------------------------ */

/* Makes the store in *dir, which is NULL for a temporary one. */
static int make_store(struct ext_table *table, char *dir, char **err) {
  emb_config config = table->options.config;
  emb_err engine_err;
  emb_store *store;
  char *path = NULL;
  int rc = SQLITE_OK;
  config.flags |= EMB_OPEN_CREATE;
  if (dir == NULL)
    config.flags |= EMB_OPEN_TEMPORARY;
  else if ((path = ext_place_path(table->file, dir)) == NULL)
    rc = SQLITE_NOMEM;
  if (rc == SQLITE_OK) {
    rc = emb_open(path ? path : temporary_parent(), &config, &store,
                  &engine_err);
    if (rc)
      rc = ext_engine_error(err, rc, engine_err.text);
    else
      rc = ext_link_add(table, store, path, err);
  }
  if (rc == SQLITE_OK)
    rc = ext_orphan_add(table, table->link->uuid, path, err);
  sqlite3_free(path);
  return rc;
}

int ext_place_create(struct ext_table *table, char **err) {
  sqlite3 *db = table->conn->db;
  char *dir = NULL;
  int rc;
  if (table->file[0]) {
    dir = choose_name(table->file, table->name);
    if (dir == NULL)
      return SQLITE_NOMEM;
  }
  rc = ext_exec(db, err,
                "CREATE TABLE \"%w\".\"%w_emb\"(id INTEGER PRIMARY KEY "
                "CHECK(id = 1), uuid TEXT, dir TEXT, txn INTEGER, "
                "format INTEGER)",
                table->schema, table->name);
  if (rc == SQLITE_OK)
    rc = make_store(table, dir, err);
  if (rc == SQLITE_OK)
    rc = ext_exec(
        db, err, "INSERT INTO \"%w\".\"%w_emb\" VALUES(1, %Q, %Q, 0, %d)",
        table->schema, table->name, table->link->uuid, dir, EXT_PLACE_FORMAT);
  sqlite3_free(dir);
  return rc;
}
