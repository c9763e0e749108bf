/* SPDX-License-Identifier: MIT
**
** describe_facts.c -- the facts of emb_describe.
**
** They are collected one after another, so they may differ by what others
** write meanwhile.
*/
#include "describe.h"
SQLITE_EXTENSION_INIT3

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- looking at the facts ------------------------------------------------ */

static const emb_stat *describe_stat(const struct describe_facts *facts,
                                     const char *name) {
  for (size_t i = 0; i < facts->stat_count; i++)
    if (strcmp(facts->stats[i].name, name) == 0)
      return &facts->stats[i];
  return NULL;
}

sqlite3_int64 ext_describe_number(const struct describe_facts *facts,
                                  const char *name) {
  const emb_stat *stat = describe_stat(facts, name);
  return stat ? stat->value : 0;
}

const char *ext_describe_text(const struct describe_facts *facts,
                              const char *name) {
  const emb_stat *stat = describe_stat(facts, name);
  return stat && stat->text ? stat->text : "";
}

int ext_describe_indexed(const struct describe_facts *facts, uint32_t from) {
  const struct ext_table *table = facts->table;
  for (uint32_t i = from; i < ext_vectors(&ext_vtab(table)->options); i++)
    if (emb_has_index(table->link->store, i))
      return (int)i;
  return -1;
}

/* ---- collecting them ----------------------------------------------------- */

/* Blocks, as du counts them, with the directory itself: a file may have holes,
** or room to grow. */
static void measure_files(struct describe_facts *facts, const char *path) {
  DIR *dir = opendir(path);
  struct dirent *entry;
  struct stat st;
  while (dir && (entry = readdir(dir)) != NULL) {
    if (strcmp(entry->d_name, "..") == 0 ||
        fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    facts->disk_bytes += (sqlite3_int64)st.st_blocks * 512;
    /* Every checkpoint writes it, and nothing else does before the next. */
    if (strcmp(entry->d_name, "manifest") == 0)
      facts->checkpointed_at = st.st_mtime;
  }
  if (dir)
    closedir(dir);
}

static int find_consumers(struct describe_facts *facts, char **err) {
  size_t n = 0;
  int rc = facts->table->link->path /* a temporary store has none */
               ? ext_tvf_consumers(facts->table, &facts->consumers, &n, err)
               : SQLITE_OK;
  facts->consumer_count = rc == SQLITE_OK ? n : 0;
  if (rc != SQLITE_LOCKED)
    return rc; /* or no error */
  sqlite3_free(*err);
  *err = NULL;
  facts->are_consumers_hidden = 1;
  return SQLITE_OK;
}

static int find_more(struct describe_facts *facts, char **err) {
  struct ext_table *table = facts->table;
  int rc = ext_link_count_now(table->link, &facts->rows, err);
  if (rc == SQLITE_OK)
    rc = ext_tvf_state(table, &facts->state, err);
  if (rc == SQLITE_OK)
    rc = ext_tvf_clients(table, &facts->clients, &facts->client_count);
  if (rc == SQLITE_OK)
    rc =
        ext_tvf_snapshots(table, facts->snapshots, &facts->snapshot_count, err);
  if (rc == SQLITE_OK)
    rc = find_consumers(facts, err);
  facts->now = time(NULL);
  if (table->link->path)
    measure_files(facts, table->link->path);
  else
    facts->disk_bytes = facts->checkpointed_at = -1;
  return rc;
}

int ext_describe_find(struct ext_conn *conn, const char *name,
                      struct describe_facts *facts, char **err) {
  int rc = ext_tvf_stats(conn, name, &facts->table, &facts->stats,
                         &facts->stat_count, err);
  if (rc != SQLITE_OK)
    return rc;
  facts->is_silent = describe_stat(facts, "keys") == NULL;
  if (facts->is_silent)
    return SQLITE_OK;
  rc = find_more(facts, err);
  if (rc == SQLITE_BUSY && conn->patience.is_silent) { /* since a moment */
    sqlite3_free(*err);
    *err = NULL;
    facts->is_silent = 1;
    rc = SQLITE_OK;
  }
  return rc;
}

void ext_describe_free(struct describe_facts *facts) {
  sqlite3_free(facts->stats);
  sqlite3_free(facts->clients);
  sqlite3_free(facts->consumers);
  memset(facts, 0, sizeof *facts);
}
