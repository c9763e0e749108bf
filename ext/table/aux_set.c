/* SPDX-License-Identifier: MIT
**
** aux_set.c -- the keys that match conditions, as a set that a search for
** neighbours probes for each row.
**
** CACHE     Selecting half a million keys takes a hundred times as long as the
**           search that uses them.  So a table object caches the sets of its
**           last conditions.  A set is valid while the shadow table is
**           unchanged, as shown by:
**             data      SQLITE_FCNTL_DATA_VERSION, changed by any commit of any
**                       connection
**             written   while this connection has a write transaction, the
**                       number of rows it has written so far; else -1
**             undone    the savepoints and transactions undone so far: an undo
**                       removes rows, but does not reduce `written`
**           Each of them also changes when something else is written, and the
**           set is then rebuilt needlessly.
** REFERENCES  The table object holds one, and each scan that uses the set one.
*/
#include "aux_columns.h"
SQLITE_EXTENSION_INIT3

#include <string.h>

/* Limit of a table object's cache. */
#define SETS_BYTES_MAX (64 * 1024 * 1024)

static struct aux_stamp stamp_now(struct ext_table *table) {
  sqlite3 *db = table->conn->db;
  struct aux_stamp stamp = {.written = -1,
                            .undone = ext_vtab(table)->sets->undone};
  sqlite3_file_control(db, table->schema, SQLITE_FCNTL_DATA_VERSION,
                       &stamp.data);
  if (sqlite3_txn_state(db, table->schema) == SQLITE_TXN_WRITE)
    stamp.written = sqlite3_total_changes(db);
  return stamp;
}

static int set_is_valid(const struct ext_aux_set *set,
                        const struct aux_stamp *now) {
  return EMB_SEED(SEED_COLUMNS_SET_OUTDATED) ||
         (set->stamp.data == now->data && set->stamp.written == now->written &&
          set->stamp.undone == now->undone);
}

static void set_drop(struct ext_aux_set *set) {
  emb_assert(!set || set->refs > 0);
  if (set == NULL || --set->refs > 0)
    return;
  ext_aux_where_free(set->where);
  emb_filter_free(set->filter);
  sqlite3_free(set);
}

/* Drops outdated sets, and the least recently used ones over the limits. */
static void sets_trim(struct ext_aux_sets *sets, const struct aux_stamp *now) {
  struct ext_aux_set **at = &sets->first;
  size_t bytes = 0;
  int n = 0;
  while (*at) {
    struct ext_aux_set *set = *at;
    bytes += emb_filter_bytes(set->filter);
    if (set_is_valid(set, now) && ++n <= EXT_AUX_SETS_MAX &&
        (n == 1 || bytes <= SETS_BYTES_MAX)) {
      at = &set->next;
    } else {
      *at = set->next;
      set_drop(set);
    }
  }
  emb_check(ext_aux_sets_valid(sets));
}

/* Finds a set and moves it to the front; NULL if there is none. */
static struct ext_aux_set *find_set(struct ext_aux_sets *sets,
                                    const struct ext_aux_where *where) {
  for (struct ext_aux_set **at = &sets->first; *at; at = &(*at)->next) {
    struct ext_aux_set *set = *at;
    if (ext_aux_where_equal(set->where, where)) {
      *at = set->next;
      set->next = sets->first;
      sets->first = set;
      return set;
    }
  }
  return NULL;
}

/* Builds a set; takes ownership of the scan's conditions. */
static int make_set(struct ext_table *table, struct ext_aux_scan *scan,
                    const struct aux_stamp *stamp, char **err) {
  struct ext_aux_sets *sets = ext_vtab(table)->sets;
  struct ext_aux_set *set = sqlite3_malloc64(sizeof *set);
  int64_t *keys = NULL;
  size_t n = 0;
  int without = 0;
  int rc = set ? ext_aux_select(table, scan->where, &without, &keys, &n, err)
               : SQLITE_NOMEM;
  if (rc != SQLITE_OK) {
    sqlite3_free(set);
    return rc;
  }
  *set = (struct ext_aux_set){.refs = 1, .stamp = *stamp};
  rc = emb_filter_new(table->link->session, keys, n, without, &set->filter);
  sqlite3_free(keys);
  if (rc) {
    set_drop(set);
    return ext_link_error(table->link, rc, err);
  }
  set->where = scan->where;
  scan->where = NULL;
  set->next = sets->first;
  sets->first = set;
  sets_trim(sets, stamp);
  return SQLITE_OK;
}

int ext_aux_filter(struct ext_table *table, struct ext_aux_scan *scan,
                   const emb_filter **filter, char **err) {
  struct ext_aux_sets *sets = ext_aux_sets_of(table);
  struct aux_stamp stamp;
  int rc = SQLITE_OK;
  if (sets == NULL)
    return SQLITE_NOMEM;
  stamp = stamp_now(table);
  sets_trim(sets, &stamp);
  if (find_set(sets, scan->where) == NULL)
    rc = make_set(table, scan, &stamp, err);
  if (rc != SQLITE_OK)
    return rc;
  set_drop(scan->set);
  scan->set = sets->first;
  scan->set->refs++;
  *filter = scan->set->filter;
  return SQLITE_OK;
}

void ext_aux_sets_free(struct ext_table *table) {
  struct ext_aux_sets *sets = ext_vtab(table)->sets;
  if (sets == NULL)
    return;
  while (sets->first) {
    struct ext_aux_set *set = sets->first;
    sets->first = set->next;
    set_drop(set);
  }
  sqlite3_finalize(sets->select);
  sqlite3_free(sets);
  ext_vtab(table)->sets = NULL;
}

/* ---- scans --------------------------------------------------------------- */

void ext_aux_rewind(struct ext_aux_scan *scan) {
  emb_check(ext_aux_scan_valid(scan));
  ext_aux_leave(scan);
  ext_aux_where_free(scan->where);
  scan->where = NULL;
  set_drop(scan->set);
  scan->set = NULL;
}

void ext_aux_close(struct ext_aux_scan *scan) {
  ext_aux_rewind(scan);
  sqlite3_finalize(scan->row);
  scan->row = NULL;
}
