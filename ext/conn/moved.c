/* SPDX-License-Identifier: MIT
**
** moved.c -- finds a store that is not where its database expects it.
**
** COPIED    A copy of a database made by SQLite's means (.backup, VACUUM INTO,
**           .dump, a file copy) leaves the stores behind.  The copied shadow
**           table row says where they were, but only for messages: a path from
**           a database file is never opened.
** RENAMED   `mv app.db b.db` leaves app.db-emb next to b.db.  So a missing
**           store is looked for in the directories next to the database whose
**           names end in -emb, by the name and uuid in the row.
**
**               X-emb/items matches, X exists      this is a copy, and the
**                                                  store is X's: an error
**               X-emb/items matches, X is gone     this was X: the store is
**                                                  moved to its proper place
**               two matches with X gone            an error
**
**           The move ensures that only one database uses the store: a second
**           copy finds it gone.  The engine does not move a store that is open
**           here or owned by another process.  A read-only database cannot
**           move the store and reads it where it is.
*/
#include "engine/storage/pack/emb_file.h"
#include "conn.h"
SQLITE_EXTENSION_INIT3

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX "-emb"

struct moved_search {
  const struct ext_place *place;
  char *here;  /* directory of the database, with a slash at its end, or "" */
  char *found; /* X, if that database is gone */
  char *taken; /* X, if that database exists */
  int many;
};

static int has_uuid(const char *path, const char uuid[33]) {
  emb_backup_of of;
  char hex[33];
  if (emb_backup_look(path, &of, NULL) != EMB_OK)
    return 0;
  for (int i = 0; i < 16; i++)
    sqlite3_snprintf(3, hex + 2 * i, "%02x", (unsigned)of.uuid[i]);
  return strcmp(hex, uuid) == 0;
}

/* name: that of a directory X-emb. */
static int moved_look_at(struct moved_search *s, const char *name) {
  int n = (int)(strlen(name) - strlen(SUFFIX));
  char *store = sqlite3_mprintf("%s%s/%s", s->here, name, s->place->dir);
  char *database = sqlite3_mprintf("%s%.*s", s->here, n, name);
  int rc = store && database ? SQLITE_OK : SQLITE_NOMEM;
  struct stat st;
  if (rc == SQLITE_OK && has_uuid(store, s->place->uuid)) {
    /* A database that cannot be examined counts as existing. */
    int gone = lstat(database, &st) != 0 && errno == ENOENT;
    char **to = gone ? &s->found : &s->taken;
    s->many |= gone && s->found;
    sqlite3_free(*to);
    *to = database;
    database = NULL;
  }
  sqlite3_free(store);
  sqlite3_free(database);
  return rc;
}

static int moved_search(struct ext_table *table, struct moved_search *s) {
  const char *slash = strrchr(table->file, '/');
  int n = slash ? (int)(slash - table->file) + 1 : 0;
  struct dirent *entry;
  struct stat st;
  DIR *dir;
  int rc = SQLITE_OK;
  s->here = sqlite3_mprintf("%.*s", n, table->file);
  if (s->here == NULL)
    return SQLITE_NOMEM;
  dir = opendir(n ? s->here : ".");
  while (dir && rc == SQLITE_OK && (entry = readdir(dir)) != NULL) {
    size_t length = strlen(entry->d_name);
    if (length > strlen(SUFFIX) &&
        strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX) == 0 &&
        fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(st.st_mode))
      rc = moved_look_at(s, entry->d_name);
  }
  if (dir)
    closedir(dir);
  return rc;
}

static void moved_end_search(struct moved_search *s) {
  sqlite3_free(s->here);
  sqlite3_free(s->found);
  sqlite3_free(s->taken);
}

/* Another connection may move it at the same time; finding it in place then
** counts as success. */
static int moved_move(struct ext_table *table, const char *from, const char *to,
                      char **err) {
  char *parent = ext_place_path(table->file, NULL);
  char *old = sqlite3_mprintf("%s", from), *slash;
  struct stat st;
  emb_err error;
  int rc = EMB_OK;
  if (parent == NULL || old == NULL) {
    sqlite3_free(parent);
    sqlite3_free(old);
    return SQLITE_NOMEM;
  }
  if (stat(parent, &st) != 0 && errno == ENOENT) {
    rc = emb_place_make(parent, &error);
    if (rc && stat(parent, &st) == 0)
      rc = EMB_OK;
  }
  if (rc == EMB_OK)
    rc = emb_store_rename(from, to, &error);
  if (rc && stat(to, &st) == 0)
    rc = EMB_OK;
  if (rc == EMB_OK) {
    (void)ext_place_sync(table->file);
    slash = strrchr(old, '/');
    *slash = 0;
    (void)rmdir(old); /* succeeds for the last store */
  } else {
    (void)rmdir(parent); /* succeeds if it is new */
  }
  sqlite3_free(parent);
  sqlite3_free(old);
  return rc ? ext_engine_error(err, rc, error.text) : SQLITE_OK;
}

static int moved_use(struct ext_table *table, struct moved_search *s,
                     char **path, char **err) {
  char *from = sqlite3_mprintf("%s" SUFFIX "/%s", s->found, s->place->dir);
  int rc;
  if (from == NULL)
    return SQLITE_NOMEM;
  if (sqlite3_db_readonly(table->conn->db, table->schema) == 1) {
    sqlite3_free(*path);
    *path = from;
    return SQLITE_OK;
  }
  rc = moved_move(table, from, *path, err);
  sqlite3_free(from);
  return rc;
}

int ext_moved_find(struct ext_table *table, const struct ext_place *place,
                   char **path, char **err) {
  struct moved_search s = {.place = place};
  struct stat st;
  int rc;
  if (stat(*path, &st) == 0 || errno != ENOENT)
    return SQLITE_OK;
  rc = moved_search(table, &s);
  if (rc == SQLITE_OK && s.found && s.many)
    rc = ext_error(
        err, SQLITE_CANTOPEN,
        "the vectors of %s are in more than one directory, \"%s" SUFFIX
        "\" among them; remove the copies, or rename the "
        "right one to \"%s" SUFFIX "\"",
        table->name, s.found, table->file);
  else if (rc == SQLITE_OK && s.found)
    rc = moved_use(table, &s, path, err);
  else if (rc == SQLITE_OK && s.taken)
    rc = ext_error(err, SQLITE_CANTOPEN,
                   "the vectors of %s are those of \"%s\", and this copy of it "
                   "came without them; copy \"%s" SUFFIX "\" to \"%s" SUFFIX
                   "\", too, or make copies with "
                   "emb_backup()",
                   table->name, s.taken, s.taken, table->file);
  moved_end_search(&s);
  return rc;
}

int ext_moved_text(struct ext_table *table, const struct ext_place *place,
                   char **err) {
  char *was = NULL, *now = ext_place_path(table->file, NULL);
  int rc = now ? ext_place_was(table, &was) : SQLITE_NOMEM;
  if (rc == SQLITE_OK && was && was[0] && strcmp(was, now) != 0)
    rc = ext_error(err, SQLITE_CANTOPEN,
                   "the vectors of %s were in \"%s\" and are not with this "
                   "copy%s with emb_backup()",
                   table->name, was,
                   table->file[0]
                       ? "; copy that directory too, or make copies"
                       : ", which is in memory; use the database file itself, "
                         "or make a copy in a file");
  else if (rc == SQLITE_OK && table->file[0])
    rc = ext_error(err, SQLITE_CANTOPEN,
                   "the vectors of %s should be in \"%s/%s\", which is not "
                   "there; copy that directory too, or make copies with "
                   "emb_backup()",
                   table->name, now, place->dir);
  else if (rc == SQLITE_OK)
    rc = ext_error(err, SQLITE_CANTOPEN,
                   "the vectors of %s were not copied with this file; make "
                   "copies with emb_backup()",
                   table->name);
  sqlite3_free(was);
  sqlite3_free(now);
  return rc;
}
