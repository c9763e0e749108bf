/* SPDX-License-Identifier: MIT
**
** describe_advice.c -- the rows `advice` of emb_describe: what to change.
**
** A row is a statement of SQL, and as a remark the measured figure that is the
** reason for it.  The statement removes the cause, and with it the row.  If
** nothing is to be changed, or the database is read-only, the only row is
** 'none'.
*/
#include "describe.h"
SQLITE_EXTENSION_INIT3

#include <stdlib.h>
#include <string.h>

/* The engine itself leaves as much waste in a small table (kernel/space.h). */
#define KEPT_WASTE_MIN (1 << 20)
/* Calls of clients after which few keys per call are worth a remark, and the
** number of keys that is few. */
#define CLIENT_CALLS_MIN 10000
#define CLIENT_KEYS_FEW 4

static void advise(struct describe_rows *rows, char *sql, char *reason) {
  ext_describe_add(rows, "advice", sql, reason);
}

/* INSERT INTO items(items, arg) VALUES (command, arg); arg NULL: without. */
static char *advice_command(const struct describe_facts *facts,
                            const char *command, const char *arg) {
  const struct ext_table *table = facts->table;
  int is_main = sqlite3_stricmp(table->schema, "main") == 0;
  char *schema = ext_describe_quote(table->schema);
  char *name = ext_describe_quote(table->name);
  char *sql = NULL;
  if (schema && name)
    sql = arg ? sqlite3_mprintf("INSERT INTO %s%s%s(%s, arg) VALUES (%Q, %Q)",
                                is_main ? "" : schema, is_main ? "" : ".", name,
                                name, command, arg)
              : sqlite3_mprintf("INSERT INTO %s%s%s(%s) VALUES (%Q)",
                                is_main ? "" : schema, is_main ? "" : ".", name,
                                name, command);
  sqlite3_free(schema);
  sqlite3_free(name);
  return sql;
}

/* SELECT function(table, name). */
static char *advice_call(const struct describe_facts *facts,
                         const char *function, const char *name) {
  char *table = ext_describe_full_name(facts->table);
  char *sql = table
                  ? sqlite3_mprintf("SELECT %s(%Q, %Q)", function, table, name)
                  : NULL;
  sqlite3_free(table);
  return sql;
}

/* ---- memory -------------------------------------------------------------- */

/* Twice the memory, or what all rows need if that is less. */
static sqlite3_int64 memory_to_set(const struct describe_facts *facts) {
  sqlite3_int64 mib = 1 << 20;
  sqlite3_int64 live = ext_describe_number(facts, "live_bytes");
  sqlite3_int64 all = live + live / 8 + mib;
  sqlite3_int64 twice = 2 * ext_describe_number(facts, "memory_bytes");
  return ((twice < all ? twice : all) + mib - 1) / mib;
}

/* The environment is stronger than 'set memory', and 'memory' than both. */
static void advise_more_memory(const struct describe_facts *facts,
                               struct describe_rows *rows) {
  sqlite3_int64 recent = ext_describe_number(facts, "hit_permille_recent");
  sqlite3_int64 twice = ext_describe_number(facts, "hit_permille_twice_memory");
  const char *command = getenv("EMB_MEMORY") ? "memory" : "set memory";
  char *size = sqlite3_mprintf("%lldMiB", memory_to_set(facts));
  if (size)
    advise(rows, advice_command(facts, command, size),
           sqlite3_mprintf("%lld.%lld %% of the recent reads were served from "
                           "memory, with twice the memory %lld.%lld %%",
                           recent / 10, recent % 10, twice / 10, twice % 10));
  else
    rows->rc = SQLITE_NOMEM;
  sqlite3_free(size);
}

/* Whether the reads were too few, or nearly all served from memory, is said by
** the text of memory_advice. */
static void advise_memory(const struct describe_facts *facts,
                          struct describe_rows *rows) {
  const char *advice = ext_describe_text(facts, "memory_advice");
  sqlite3_int64 live = ext_describe_number(facts, "live_bytes");
  sqlite3_int64 there = ext_describe_number(facts, "rows_in_memory");
  sqlite3_int64 keys = ext_describe_number(facts, "keys");
  int is_room = live + live / 8 <= ext_describe_number(facts, "memory_bytes");
  if (strncmp(advice, "too few", 7) == 0 || strncmp(advice, "enough", 6) == 0)
    return;
  if (is_room && there < keys)
    advise(rows, advice_command(facts, "warm", NULL),
           sqlite3_mprintf("%lld of %lld rows are in memory, which has room "
                           "for all",
                           there, keys));
  else if (strncmp(advice, "more", 4) == 0)
    advise_more_memory(facts, rows);
}

/* ---- disk ---------------------------------------------------------------- */

static const emb_snapshot_info *
largest_snapshot(const struct describe_facts *facts) {
  const emb_snapshot_info *largest = NULL;
  for (size_t i = 0; i < facts->snapshot_count; i++)
    if (largest == NULL || facts->snapshots[i].bytes > largest->bytes)
      largest = &facts->snapshots[i];
  return largest;
}

static const emb_consumer *
largest_consumer(const struct describe_facts *facts) {
  const emb_consumer *largest = NULL;
  for (size_t i = 0; i < facts->consumer_count; i++)
    if (largest == NULL || facts->consumers[i].kept_bytes > largest->kept_bytes)
      largest = &facts->consumers[i];
  return largest;
}

/* The consumer may be as it should be, and only late. */
static void advise_kept(const struct describe_facts *facts,
                        struct describe_rows *rows) {
  const emb_snapshot_info *snapshot = largest_snapshot(facts);
  const emb_consumer *consumer = largest_consumer(facts);
  char *reason = sqlite3_mprintf(
      "the log uses %z for rows of %z",
      ext_describe_size(ext_describe_number(facts, "log_bytes")),
      ext_describe_size(ext_describe_number(facts, "live_bytes")));
  if (snapshot && (!consumer || snapshot->bytes >= consumer->kept_bytes))
    advise(rows, advice_call(facts, "emb_snapshot_drop", snapshot->name),
           sqlite3_mprintf("%z; this snapshot keeps %z", reason,
                           ext_describe_size((sqlite3_int64)snapshot->bytes)));
  else if (consumer && consumer->name[0])
    advise(rows, advice_call(facts, "emb_delta_drop", consumer->name),
           sqlite3_mprintf(
               "%z; this consumer keeps %z: acknowledge its delta "
               "with emb_delta_ack, or drop it",
               reason, ext_describe_size((sqlite3_int64)consumer->kept_bytes)));
  else
    sqlite3_free(reason);
}

/* Only if snapshots and consumers keep it: the store frees other waste itself,
** in the background. */
static void advise_space(const struct describe_facts *facts,
                         struct describe_rows *rows) {
  sqlite3_int64 live = ext_describe_number(facts, "live_bytes");
  sqlite3_int64 most = live + KEPT_WASTE_MIN;
  sqlite3_int64 waste = ext_describe_number(facts, "log_bytes") -
                        ext_describe_number(facts, "dead_bytes") - live;
  if (waste > most && ext_describe_number(facts, "kept_bytes") > most)
    advise_kept(facts, rows);
}

/* ---- the rest ------------------------------------------------------------ */

/* With serve='off' a process is behind whenever another one has written. */
static void advise_state(const struct describe_facts *facts,
                         struct describe_rows *rows) {
  int is_ahead = strcmp(facts->state, "ahead") == 0;
  int is_other = ext_describe_number(facts, "owner_pid") &&
                 !ext_describe_number(facts, "owner");
  if (is_ahead || (strcmp(facts->state, "behind") == 0 && !is_other))
    advise(rows, advice_command(facts, "adopt", NULL),
           sqlite3_mprintf("the %s has transactions that the %s does not have, "
                           "because one of the two is an older copy; put the "
                           "other one in its place, or declare with this that "
                           "the rows are as they should be",
                           is_ahead ? "store" : "database",
                           is_ahead ? "database" : "store"));
}

static void advise_damaged(const struct describe_facts *facts,
                           struct describe_rows *rows) {
  for (size_t i = 0; i < facts->snapshot_count; i++)
    if (facts->snapshots[i].damaged)
      advise(rows,
             advice_call(facts, "emb_snapshot_drop", facts->snapshots[i].name),
             sqlite3_mprintf("the snapshot is damaged"));
  for (size_t i = 0; i < facts->consumer_count; i++)
    if (facts->consumers[i].state && facts->consumers[i].name[0])
      advise(rows,
             advice_call(facts, "emb_delta_begin", facts->consumers[i].name),
             sqlite3_mprintf("the consumer has lost its place, and begins "
                             "again with all rows"));
}

/* memory= of an index limits it; the index is one of a vector's. */
static void advise_index(const struct describe_facts *facts,
                         struct describe_rows *rows) {
  const char *state = ext_describe_text(facts, "nearest_index");
  if (strcmp(state, "more than memory=") != 0)
    return;
  for (int i = -1; (i = ext_describe_indexed(facts, (uint32_t)(i + 1))) >= 0;) {
    char *command = sqlite3_mprintf("set %s.index",
                                    ext_vtab(facts->table)->options.vectors[i]);
    if (command)
      advise(rows, advice_command(facts, command, "ivf"),
             sqlite3_mprintf("searches compare all rows: the index needs more "
                             "than its memory= allows; in force when the store "
                             "is next opened"));
    else
      rows->rc = SQLITE_NOMEM;
    sqlite3_free(command);
  }
}

/* The keys that all sessions have read since the opening, over the calls of the
** clients that are there now: at least the keys per call of a client, if most
** of the calls read. */
static void advise_clients(const struct describe_facts *facts,
                           struct describe_rows *rows) {
  uint64_t keys = (uint64_t)ext_describe_number(facts, "get_keys");
  int is_text = ext_vtab(facts->table)->options.text_key;
  uint64_t calls = 0;
  for (size_t i = 1; i < facts->client_count; i++)
    calls += facts->clients[i].calls;
  if (calls < CLIENT_CALLS_MIN || keys < calls / 2 ||
      keys / calls >= CLIENT_KEYS_FEW)
    return;
  char *name = ext_describe_full_name(facts->table);
  if (name)
    advise(rows,
           sqlite3_mprintf("SELECT emb_get(%Q, %Q)", name,
                           is_text ? "[\"a\",\"b\",\"c\"]" : "[1,2,3]"),
           sqlite3_mprintf("clients have made %llu calls, and %llu keys were "
                           "read: a call to the owner takes thousands of keys",
                           calls, keys));
  else
    rows->rc = SQLITE_NOMEM;
  sqlite3_free(name);
}

void ext_describe_advice(const struct describe_facts *facts,
                         struct describe_rows *rows) {
  static void (*const all[])(const struct describe_facts *,
                             struct describe_rows *) = {
      advise_state, advise_memory,  advise_space,
      advise_index, advise_damaged, advise_clients};
  size_t before = rows->n;
  if (facts->table->link->readonly) {
    advise(rows, sqlite3_mprintf("none"),
           sqlite3_mprintf("the database is read-only"));
    return;
  }
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    all[i](facts, rows);
  if (rows->n == before)
    advise(rows, sqlite3_mprintf("none"), NULL);
}
