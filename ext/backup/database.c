/* SPDX-License-Identifier: MIT
**
** database.c -- opens, checksums and copies a database file.
*/
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

#define PAGES_STEP 64 /* of the database, between checks for an interrupt */
#define SUM_BYTES 65536

int ext_backup_open(struct backup *b, const char *path, int flags, sqlite3 **db,
                    char **err) {
  int rc = sqlite3_open_v2(path, db, flags | SQLITE_OPEN_PRIVATECACHE, b->vfs);
  if (rc != SQLITE_OK && *db)
    return ext_error(err, rc, "cannot open \"%s\": %s", path,
                     sqlite3_errmsg(*db));
  return rc;
}

/* XXH3 belongs to the engine.  This checksum only has to detect changes made by
** hand, and covers few bytes. */
static uint64_t backup_mix(uint64_t sum, const unsigned char *bytes, size_t n) {
  for (size_t i = 0; i + 8 <= n; i += 8) {
    uint64_t word;
    memcpy(&word, bytes + i, 8);
    sum = (sum ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    sum ^= sum >> 29;
  }
  return sum;
}

int ext_backup_sum(sqlite3 *db, uint64_t *sum, sqlite3_int64 *size,
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

int ext_backup_pages(struct backup *b, sqlite3 *to, sqlite3 *from,
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
