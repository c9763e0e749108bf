/* SPDX-License-Identifier: MIT
**
** place.c -- where a table's store is, and the shadow table that records it.
**
** PATHS     Database /d/app.db, table items: the store is the directory
**           /d/app.db-emb/items, or items-2 and so on when that one exists.
**           The name is fixed at CREATE; RENAME does not move the store.
**           Bytes other than [A-Za-z0-9_.-] are written %XX, and so is a
**           leading dot.  The directory of a table named "" is "%".
** ROW       The shadow table items_emb has one row:
**               id      1
**               uuid    the store's, 32 hex digits
**               dir     its directory's plain name, NULL if it is temporary
**               txn     number of the last transaction that SQLite committed
**               format  EXT_PLACE_FORMAT
**               place   the directory above, at the last write
**           A database file may come from anywhere, so dir is checked against
**           the alphabet above before it is put into a path.  place is never
**           opened: it only goes into the error message when the store is not
**           next to the database.  Tables made by older libraries do not have
**           this column.
*/
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PLACE_NAME_MAX 200 /* of 255 that file systems allow */
#define NEWEST_WAIT_MS 50  /* the lock is never held for long */

/* ---- paths --------------------------------------------------------------- */

static int is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
}

int ext_place_is_name(const char *name) {
  size_t n = 0;
  if (name[0] == '.')
    return 0;
  for (; name[n]; n++)
    if (!is_plain(name[n]) && name[n] != '%')
      return 0;
  return n > 0 && n < 256;
}

static void place_append_encoded(sqlite3_str *out, const char *text) {
  for (; *text; text++)
    if (is_plain(*text) || *text == '/')
      sqlite3_str_appendchar(out, 1, *text);
    else
      sqlite3_str_appendf(out, "%%%02X", (unsigned)(unsigned char)*text);
}

char *ext_place_encode(const char *name) {
  sqlite3_str *out = sqlite3_str_new(NULL);
  for (size_t i = 0; name[i] && sqlite3_str_length(out) < PLACE_NAME_MAX; i++)
    if (is_plain(name[i]) && !(i == 0 && name[i] == '.'))
      sqlite3_str_appendchar(out, 1, name[i]);
    else
      sqlite3_str_appendf(out, "%%%02X", (unsigned)(unsigned char)name[i]);
  if (name[0] == 0)
    sqlite3_str_appendchar(out, 1, '%');
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

int ext_place_open_dir(const char *file, int *fd) {
  const char *slash = strrchr(file, '/');
  size_t n = slash ? (size_t)(slash - file) + 1 : 0;
  char *dir = sqlite3_mprintf("%.*s.", (int)n, file);
  int rc = ENOMEM;
  *fd = -1;
  if (dir) {
    *fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = *fd < 0 ? errno : 0;
  }
  sqlite3_free(dir);
  return rc;
}

int ext_place_sync(const char *file) {
  int fd;
  int rc = ext_place_open_dir(file, &fd);
  if (rc == 0) {
    rc = fsync(fd) != 0 ? errno : 0;
    close(fd);
  }
  return rc;
}

/* If it fails for lack of memory, SQLite may have rolled the transaction
** back: so the statement must fail, too. */
static int place_pragma_is(sqlite3 *db, const char *schema, const char *name,
                           const char *value, int *is) {
  sqlite3_stmt *pragma = NULL;
  char *sql = sqlite3_mprintf("PRAGMA \"%w\".%s", schema, name);
  const char *text = NULL;
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &pragma, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  *is = 0;
  if (rc == SQLITE_OK && sqlite3_step(pragma) == SQLITE_ROW) {
    rc = ext_column_text(pragma, 0, &text);
    *is = text && sqlite3_stricmp(text, value) == 0;
    sqlite3_finalize(pragma);
    return rc;
  }
  return rc == SQLITE_OK ? sqlite3_finalize(pragma) : rc;
}

int ext_place_is_wal(sqlite3 *db, const char *schema, int *is) {
  return place_pragma_is(db, schema, "journal_mode", "wal", is);
}

int ext_place_is_exclusive(sqlite3 *db, const char *schema, int *is) {
  return place_pragma_is(db, schema, "locking_mode", "exclusive", is);
}

/* ---- the shadow table's row ---------------------------------------------- */

static int place_check_row(struct ext_table *table, sqlite3_stmt *row,
                           struct ext_place *place, char **err) {
  const char *uuid, *dir;
  int format = sqlite3_column_int(row, 3);
  int rc = ext_column_text(row, 0, &uuid);
  if (rc == SQLITE_OK)
    rc = ext_column_text(row, 1, &dir);
  if (rc != SQLITE_OK)
    return rc;
  if (format > EXT_PLACE_FORMAT)
    return ext_error(err, SQLITE_ERROR,
                     "format %d is newer than this library (%d)", format,
                     EXT_PLACE_FORMAT);
  if (format != EXT_PLACE_FORMAT || uuid == NULL || strlen(uuid) != 32 ||
      (dir && !ext_place_is_name(dir)))
    return ext_error(err, SQLITE_CORRUPT_VTAB, "%s_emb does not name a store",
                     table->name);
  memcpy(place->uuid, uuid, 33);
  place->txn = sqlite3_column_int64(row, 2);
  place->dir = dir ? sqlite3_mprintf("%s", dir) : NULL;
  return dir && place->dir == NULL ? SQLITE_NOMEM : SQLITE_OK;
}

/* 0: the table was dropped, and this connection had not noticed. */
static int is_in_schema(struct ext_table *table) {
  sqlite3 *db = table->conn->db;
  sqlite3_stmt *row = NULL;
  char *sql = sqlite3_mprintf("SELECT 1 FROM \"%w\".sqlite_schema WHERE type = "
                              "'table' AND name = %Q COLLATE nocase",
                              table->schema, table->name);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &row, NULL) : SQLITE_NOMEM;
  int is_in = rc != SQLITE_OK || sqlite3_step(row) != SQLITE_DONE;
  sqlite3_finalize(row);
  sqlite3_free(sql);
  return is_in;
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
    rc = place_check_row(table, row, place, err);
    sqlite3_finalize(row);
    return rc;
  }
  if (rc == SQLITE_OK)
    rc = sqlite3_finalize(row);
  if (rc == SQLITE_OK)
    return ext_error(err, SQLITE_CORRUPT_VTAB, "%s_emb does not name a store",
                     table->name);
  if (rc != SQLITE_ERROR)
    return ext_sql_error(err, db, rc);
  rc = ext_sql_error(err, db, SQLITE_CORRUPT_VTAB);
  if (rc == SQLITE_CORRUPT_VTAB && !is_in_schema(table))
    rc = ext_error(err, SQLITE_ERROR, "no such table: %s", table->name);
  return rc;
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
    if (rc == SQLITE_ERROR) {
      rc = SQLITE_OK; /* a foreign table whose name ends in _emb */
      continue;
    }
    while (rc == SQLITE_OK && !stop && sqlite3_step(row) == SQLITE_ROW) {
      const char *uuid, *dir;
      rc = ext_column_text(row, 0, &uuid);
      if (rc == SQLITE_OK)
        rc = ext_column_text(row, 1, &dir);
      if (rc == SQLITE_OK)
        stop = visit(arg, name, uuid ? uuid : "", dir);
    }
    if (rc == SQLITE_OK)
      rc = sqlite3_finalize(row);
    else
      sqlite3_finalize(row);
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
  /* Running out of memory for the name must not look like "not found". */
  return rc == SQLITE_OK && find.found && !find.name &&
                 !EMB_SEED(SEED_TABLE_LOST_WITHOUT_MEMORY)
             ? SQLITE_NOMEM
             : rc;
}

int ext_place_was(struct ext_table *table, char **was) {
  sqlite3_stmt *row = NULL;
  char *sql = sqlite3_mprintf("SELECT place FROM \"%w\".\"%w_emb\" "
                              "WHERE id = 1",
                              table->schema, table->name);
  int rc = sql ? sqlite3_prepare_v2(table->conn->db, sql, -1, &row, NULL)
               : SQLITE_NOMEM;
  sqlite3_free(sql);
  *was = NULL;
  if (rc == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW) {
    const char *text;
    rc = ext_column_text(row, 0, &text);
    if (rc == SQLITE_OK)
      *was = sqlite3_mprintf("%.1000s", text ? text : "");
    if (*was == NULL)
      rc = SQLITE_NOMEM;
    sqlite3_finalize(row);
  } else if (rc == SQLITE_OK) {
    rc = sqlite3_finalize(row);
  }
  /* It goes into a one-line error message, and may contain any character. */
  for (char *c = *was; c && *c; c++)
    if ((unsigned char)*c < ' ' || *c == 127)
      *c = '?';
  return rc == SQLITE_ERROR ? SQLITE_OK : rc;
}

/* *found = 0 also if there is no such table. */
static int place_record_txn(struct ext_table *table, const char *shadow,
                            sqlite3_int64 txn, int *found, char **err) {
  sqlite3 *db = table->conn->db;
  struct ext_link *link = table->link;
  sqlite3_stmt *update = NULL;
  char *place =
      link->moved ? sqlite3_mprintf(", place = '%q-emb'", link->file) : NULL;
  char *sql = link->moved && place == NULL
                  ? NULL
                  : sqlite3_mprintf("UPDATE \"%w\".\"%w\" SET txn = %lld%s "
                                    "WHERE id = 1 AND uuid = %Q",
                                    table->schema, shadow, txn,
                                    place ? place : "", link->uuid);
  int rc = sql ? sqlite3_prepare_v2(db, sql, -1, &update, NULL) : SQLITE_NOMEM;
  sqlite3_free(sql);
  sqlite3_free(place);
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

int ext_place_record_txn(struct ext_table *table, sqlite3_int64 txn, int *found,
                         char **err) {
  char *shadow = sqlite3_mprintf("%s_emb", table->name);
  int rc =
      shadow ? place_record_txn(table, shadow, txn, found, err) : SQLITE_NOMEM;
  sqlite3_free(shadow);
  if (rc != SQLITE_OK || *found)
    return rc;
  rc = ext_place_find(table->conn->db, table->schema, table->link->uuid,
                      &shadow, err);
  if (rc == SQLITE_OK && shadow)
    rc = place_record_txn(table, shadow, txn, found, err);
  sqlite3_free(shadow);
  return rc;
}

/* ---- the newest row ------------------------------------------------------ */

/* The URI that opens a schema's file again, with its original parameters; NULL
** if out of memory. */
static char *place_uri(sqlite3 *db, const char *schema, const char *file) {
  const char *name = sqlite3_db_filename(db, schema);
  sqlite3_str *uri = sqlite3_str_new(NULL);
  const char *key;
  sqlite3_str_appendall(uri, "file:");
  place_append_encoded(uri, file);
  sqlite3_str_appendall(uri, "?cache=private");
  for (int i = 0; (key = sqlite3_uri_key(name, i)) != NULL; i++) {
    if (strcmp(key, "cache") == 0)
      continue;
    sqlite3_str_appendchar(uri, 1, '&');
    place_append_encoded(uri, key);
    sqlite3_str_appendchar(uri, 1, '=');
    place_append_encoded(uri, sqlite3_uri_parameter(name, key));
  }
  return sqlite3_str_finish(uri);
}

/* The transaction number in the shadow table that names the store. */
static int place_read_txn(sqlite3 *db, const char *uuid, sqlite3_int64 *txn) {
  sqlite3_stmt *row = NULL;
  char *shadow = NULL, *sql = NULL, *err = NULL;
  int rc = ext_place_find(db, "main", uuid, &shadow, &err);
  int found = 0;
  sqlite3_free(err);
  if (rc == SQLITE_OK && shadow)
    sql = sqlite3_mprintf("SELECT txn FROM main.\"%w\" WHERE uuid = %Q", shadow,
                          uuid);
  if (sql && sqlite3_prepare_v2(db, sql, -1, &row, NULL) == SQLITE_OK &&
      sqlite3_step(row) == SQLITE_ROW) {
    *txn = sqlite3_column_int64(row, 0);
    found = 1;
  }
  sqlite3_finalize(row);
  sqlite3_free(sql);
  sqlite3_free(shadow);
  return found;
}

int ext_place_connect(struct ext_table *table, sqlite3 **db) {
  struct ext_conn *conn = table->conn;
  sqlite3_vfs *vfs = NULL;
  char *uri = place_uri(conn->db, table->schema, table->file);
  int rc = uri ? SQLITE_OK : SQLITE_NOMEM;
  *db = NULL;
  sqlite3_file_control(conn->db, table->schema, SQLITE_FCNTL_VFS_POINTER, &vfs);
  if (rc == SQLITE_OK)
    rc = sqlite3_open_v2(uri, db,
                         SQLITE_OPEN_READWRITE | SQLITE_OPEN_URI |
                             SQLITE_OPEN_PRIVATECACHE,
                         vfs ? vfs->zName : NULL);
  sqlite3_free(uri);
  return rc;
}

int ext_place_read_newest(struct ext_table *table, sqlite3_int64 *txn) {
  sqlite3 *db;
  int found = 0;
  if (ext_place_connect(table, &db) == SQLITE_OK) {
    sqlite3_busy_timeout(db, NEWEST_WAIT_MS);
    found =
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK &&
        place_read_txn(db, table->link->uuid, txn);
  }
  sqlite3_close(db);
  return found;
}
