/* SPDX-License-Identifier: MIT
**
** path.c -- file names and errors of backups.
*/
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int ext_backup_error(char **err, int code, const emb_err *error) {
  return ext_engine_error(err, code, error->text);
}

int ext_backup_part_error(struct backup_part *part, int code, char **err) {
  return ext_engine_error(err, code, emb_errmsg(part->session));
}

void ext_backup_hex(const uint8_t uuid[16], char hex[33]) {
  for (int i = 0; i < 16; i++)
    sqlite3_snprintf(3, hex + 2 * i, "%02x", (unsigned)uuid[i]);
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* Decodes "file:/a%20b" or "file:///a%20b", without parameters. */
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
    rc = ext_error(err, SQLITE_ERROR,
                   "a backup needs a path, got '%s'; "
                   "give the name of a file",
                   plain);
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

int ext_backup_look(const char *path, const char *suffix, int full, int *there,
                    char **err) {
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

void ext_backup_unlink(const char *path) {
  unlink_with(path, "-journal");
  unlink_with(path, "-wal");
  unlink_with(path, "-shm");
  unlink_with(path, "");
}
