/* SPDX-License-Identifier: MIT
**
** copy.c -- copies the stores and the database of a backup.
*/
#include "engine/storage/pack/emb_file.h"
#include "backup.h"
SQLITE_EXTENSION_INIT3

#include <string.h>
#include <sys/stat.h>

/* Names the copies: the name of the store here or, if it is taken, the next
** free one. */
static int name_copies(struct backup *b, char **err) {
  const char *parent = b->again ? b->target_emb : b->new_emb;
  for (size_t i = 0; i < b->n; i++) {
    struct backup_part *part = &b->parts[i];
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
      rc = part->to ? ext_backup_look(part->to, "", 0, &taken, err)
                    : SQLITE_NOMEM;
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

/* Does the log of the earlier copy have no other hard links?  Backups preserved
** by hard links (cp -l) must not get new extents in old file slots. */
static int is_unshared(const char *base) {
  char *log = sqlite3_mprintf("%s/log", base);
  struct stat st;
  int is = log && stat(log, &st) == 0 && st.st_nlink == 1;
  sqlite3_free(log);
  return is;
}

/* Creates the store directories in the existing target, or in the new one. */
int ext_backup_stores(struct backup *b, char **err) {
  int rc;
  emb_check(ext_backup_may(b, BACKUP_STORES));
  rc = name_copies(b, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    struct backup_part *part = &b->parts[i];
    const char *base =
        part->base && is_unshared(part->base) ? part->base : NULL;
    int made = emb_backup_write(part->backup, part->to, base, &part->info);
    if (made)
      rc = ext_backup_part_error(part, made, err);
    part->made = made == EMB_OK;
    emb_backup_end(part->backup);
    part->backup = NULL;
  }
  return rc;
}

/* Makes the row of a copy name the copied store. */
static int backup_move_row(struct backup *b, struct backup_part *part,
                           char **err) {
  char uuid[33];
  char *sql;
  int rc;
  ext_backup_hex(part->info.uuid, uuid);
  sql = sqlite3_mprintf("UPDATE \"%w\" SET uuid = %Q, dir = %Q WHERE id = 1 "
                        "AND uuid = %Q",
                        part->shadow, uuid, part->to_dir, part->uuid);
  if (sql == NULL)
    return SQLITE_NOMEM;
  rc = sqlite3_exec(b->out, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  if (rc == SQLITE_OK && sqlite3_changes(b->out) != 1)
    return ext_error(err, SQLITE_CORRUPT_VTAB, "%s does not name a store",
                     part->shadow);
  if (rc != SQLITE_OK)
    return ext_sql_error(err, b->out, rc);
  sql = sqlite3_mprintf("UPDATE \"%w\" SET place = %Q WHERE id = 1",
                        part->shadow, b->target_emb);
  if (sql == NULL)
    return SQLITE_NOMEM;
  rc = sqlite3_exec(b->out, sql, NULL, NULL, NULL);
  sqlite3_free(sql);
  return rc == SQLITE_ERROR ? SQLITE_OK /* an older table lacks the column */
                            : ext_sql_error(err, b->out, rc);
}

int ext_backup_database(struct backup *b, char **err) {
  int rc;
  emb_check(ext_backup_may(b, BACKUP_DATABASE));
  rc = ext_backup_pages(b, b->out, b->moment.reader, b->moment.source, err);
  ext_moment_end(&b->moment);
  return rc;
}

int ext_backup_complete(struct backup *b, char **err) {
  uint64_t sum = 0;
  int rc;
  emb_check(ext_backup_may(b, BACKUP_COMPLETE));
  rc = ext_exec(b->out, err, "PRAGMA journal_mode=DELETE");
  if (rc == SQLITE_OK)
    rc = ext_exec(b->out, err, "PRAGMA synchronous=FULL");
  if (rc == SQLITE_OK)
    rc = ext_exec(b->out, err, "BEGIN");
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++)
    rc = backup_move_row(b, &b->parts[i], err);
  if (rc == SQLITE_OK)
    rc = ext_exec(b->out, err, "COMMIT");
  if (rc == SQLITE_OK)
    rc = ext_backup_sum(b->out, &sum, &b->bytes, err);
  for (size_t i = 0; rc == SQLITE_OK && i < b->n; i++) {
    emb_err error;
    int tagged = emb_backup_tag(b->parts[i].to, sum, &error);
    if (tagged)
      rc = ext_backup_error(err, tagged, &error);
  }
  return rc;
}
