/* SPDX-License-Identifier: MIT
**
** describe.h -- private to tvf/: emb_describe, in steps.
**
**   describe_facts.c   collects the facts
**   describe_rows.c    puts them into words, a row for each
**   describe_advice.c  adds rows with the SQL that changes what a fact shows
**   describe.c         is the table-valued function
**
** The facts are those of emb_stats, emb_clients, emb_snapshots,
** emb_delta_consumers and emb_tables, and are found as these find them.
*/
#ifndef EMB_EXT_DESCRIBE_H
#define EMB_EXT_DESCRIBE_H

#include "tvf.h"

/* Everything but `table` and `consumers` is zero if the owner is silent. */
struct describe_facts {
  struct ext_table *table;
  emb_stat *stats;
  size_t stat_count;
  int is_silent; /* the owner does not answer: only stats' owner_pid is known */

  sqlite3_int64 rows;
  const char *state; /* as in emb_tables */
  emb_client *clients;
  size_t client_count;
  emb_snapshot_info snapshots[EMB_SNAPSHOTS_MAX];
  size_t snapshot_count;
  emb_consumer *consumers;
  size_t consumer_count;
  int are_consumers_hidden; /* by a transaction that has changed the table */

  sqlite3_int64 disk_bytes;      /* of the store's files; -1: temporary */
  sqlite3_int64 checkpointed_at; /* in seconds since 1970; -1: temporary */
  sqlite3_int64 now;
};

/* value NULL: the number. */
struct describe_row {
  const char *name;
  char *value;
  sqlite3_int64 number;
  char *remark; /* or NULL */
};

struct describe_rows {
  struct describe_row *list;
  size_t n;
  int rc; /* SQLITE_NOMEM: some row is missing */
};

/* describe_facts.c.  *facts must be zeroed before; the caller must call
** ext_describe_free, even after an error. */
int ext_describe_find(struct ext_conn *conn, const char *name,
                      struct describe_facts *facts, char **err);
void ext_describe_free(struct describe_facts *facts);
/* Values of a metric; 0 and "" if there is none of this name. */
sqlite3_int64 ext_describe_number(const struct describe_facts *facts,
                                  const char *name);
const char *ext_describe_text(const struct describe_facts *facts,
                              const char *name);
/* The number of the first vector from `from` on that has an index, or -1. */
int ext_describe_indexed(const struct describe_facts *facts, uint32_t from);

/* describe_rows.c.  Takes ownership of value and remark; value NULL is out of
** memory. */
void ext_describe_add(struct describe_rows *rows, const char *name, char *value,
                      char *remark);
/* "64.0 MiB", to be freed. */
char *ext_describe_size(sqlite3_int64 bytes);
/* A name as SQL needs it: in quotes only if it must be.  To be freed. */
char *ext_describe_quote(const char *name);
/* The table's name as a function's argument, without the quotes. */
char *ext_describe_full_name(const struct ext_table *table);
void ext_describe_rows(const struct describe_facts *facts,
                       struct describe_rows *rows);
/* describe_advice.c. */
void ext_describe_advice(const struct describe_facts *facts,
                         struct describe_rows *rows);

#endif
