/* SPDX-License-Identifier: MIT
**
** short_processes.c -- many processes that start, read and write one row of a
** bounded table through SQL, and exit: one after another, and many at the
** same time.  Some are killed, with a lease, within a transaction, or just as
** they exit.
**
** Each must succeed and leave nothing behind: no session, lease, descriptor
** or mapping of the process that owns the store.
*/
#include "process_help.h"
#include "sql_help.h"
#include "store_help.h"

#include <signal.h>

enum { ONE_BY_ONE = 200, AT_ONCE = 30, HOT = 1000000 };

/* How the visitor ends. */
enum ending { ENDS, IS_KILLED, IS_KILLED_WITH_LEASE, IS_KILLED_IN_TRANSACTION };

static const char *database(void) { return help_path("test.db"); }

/* ---- the processes ------------------------------------------------------- */

PROCESS(owner) {
  sqlite3 *db = sql_connect(process_argument(0), 0);
  sql_runs(db, "SELECT emb_put('items', '[1000000]', '[0,0]')");
  CHECK_EQ_INT(sql_integer(db, "SELECT owner FROM emb_tables"), 1);
  process_tell("owns");
  (void)process_told("end");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

static void run_about(sqlite3 *db, const char *format, int key) {
  char sql[200];
  (void)snprintf(sql, sizeof sql, format, key, key);
  sql_runs(db, sql);
}

/* Arguments: file, number, how it ends. */
PROCESS(visitor) {
  int key = (int)process_number(1);
  enum ending ending = (enum ending)process_number(2);
  process_tell("here");
  if (!process_told("go"))
    return;
  sqlite3 *db = sql_connect(process_argument(0), 0);
  run_about(db, "SELECT emb_put('items', '[%d]', '[%d,1]')", key);
  run_about(db, "SELECT emb_get('items', '[%d]')", key);
  if (ending == IS_KILLED_IN_TRANSACTION)
    run_about(db,
              "BEGIN IMMEDIATE; INSERT OR REPLACE INTO items "
              "VALUES(%d, '[%d,7]')",
              key);
  if (ending == IS_KILLED_WITH_LEASE || ending == IS_KILLED_IN_TRANSACTION)
    (void)raise(SIGKILL);
  run_about(db, "SELECT emb_put('items', '[%d]', '[%d,2]')", key);
  run_about(db, "SELECT emb_rmw('items', '[1000000]', '[1,0]')", key);
  process_tell("done");
  if (ending == IS_KILLED)
    (void)raise(SIGKILL);
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* ---- the owner as the system sees it ------------------------------------- */

struct held {
  int descriptors, shared, threads, sessions;
};

static int entries_of(pid_t pid, const char *what) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
  return help_entries(path);
}

/* Memory that it shares with clients. */
static int mappings_of(pid_t pid) {
  char path[64], line[512];
  int n = 0;
  (void)snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f))
    n += strstr(line, "/memfd:emb") != NULL;
  if (f)
    (void)fclose(f);
  return n;
}

static struct held look(sqlite3 *db, pid_t owner) {
  /* First: the resources that it needs there stay. */
  int n = (int)sql_integer(db, "SELECT count(*) FROM emb_clients('items')");
  return (struct held){entries_of(owner, "fd"), mappings_of(owner),
                       entries_of(owner, "task"), n};
}

/* The owner notices the end of a client a moment later; permanent resources
** stay.  There may be fewer than before: then a client was just ending. */
static void check_left(sqlite3 *db, pid_t owner, struct held before) {
  struct held now = before;
  for (int i = 0; i < 10000; i++) {
    now = look(db, owner);
    if (now.descriptors <= before.descriptors && now.shared <= before.shared &&
        now.threads <= before.threads && now.sessions == before.sessions)
      return;
    (void)usleep(1000);
  }
  CHECK(now.descriptors <= before.descriptors);
  CHECK(now.shared <= before.shared);
  CHECK(now.threads <= before.threads);
  CHECK_EQ_INT(now.sessions, before.sessions);
}

/* ---- visits -------------------------------------------------------------- */

struct visits {
  sqlite3 *db;
  struct process owner;
  int next;   /* number of a visitor, and its key */
  int killed; /* before all was done */
};

static enum ending choose(void) {
  return test_random() % 5 ? ENDS : (enum ending)(test_random() % 4);
}

static int visitor_start(struct visits *v, struct process *p,
                         enum ending ending) {
  char key[16], how[16];
  (void)snprintf(key, sizeof key, "%d", ++v->next);
  (void)snprintf(how, sizeof how, "%d", (int)ending);
  return process_start(p, "visitor",
                       (const char *[]){database(), key, how, NULL}) &&
         process_hear(p, "here");
}

static void visitor_end(struct visits *v, struct process *p,
                        enum ending ending) {
  int is_early =
      ending == IS_KILLED_WITH_LEASE || ending == IS_KILLED_IN_TRANSACTION;
  v->killed += is_early;
  if (!is_early)
    (void)process_hear(p, "done");
  if (ending == ENDS)
    process_end(p);
  else
    process_end_killed(p);
}

/* `n` visits, `at_once` at a time. */
static void visit(struct visits *v, int n, int at_once) {
  struct process p[AT_ONCE];
  enum ending endings[AT_ONCE];
  for (int i = 0; i < n && atomic_load(&test_state.failures) == 0;
       i += at_once) {
    for (int k = 0; k < at_once; k++) {
      endings[k] = choose();
      if (!visitor_start(v, &p[k], endings[k]))
        return;
    }
    for (int k = 0; k < at_once; k++)
      process_say(&p[k], "go");
    for (int k = 0; k < at_once; k++)
      visitor_end(v, &p[k], endings[k]);
  }
}

static void check_rows(const struct visits *v) {
  CHECK_EQ_INT(sql_integer(v->db, "SELECT emb_dot(vector, '[1,0]') FROM items "
                                  "WHERE key = 1000000 AND mode = 'peek'"),
               v->next - v->killed);
  CHECK_EQ_INT(sql_integer(v->db, "SELECT count(*) FROM items"), v->next + 1);
  CHECK_EQ_INT(sql_integer(v->db, "SELECT count(*) FROM items WHERE key < "
                                  "1000000 AND emb_dot(vector, '[1,0]') = key"),
               v->next);
  CHECK_EQ_INT(sql_integer(v->db, "SELECT count(*) FROM items WHERE key < "
                                  "1000000 AND emb_dot(vector, '[0,1]') = 2"),
               v->next - v->killed);
  CHECK_EQ_INT(sql_integer(v->db, "SELECT count(*) FROM items WHERE clock > 0"),
               0);
}

static void run(int n, int at_once) {
  struct visits v = {.next = 0};
  v.db = sql_connect(database(), 0);
  sql_runs(v.db, "CREATE VIRTUAL TABLE items USING "
                 "emb(vector FLOAT[2], staleness=2, timeout=60000)");
  (void)sqlite3_close(v.db);
  if (!process_start(&v.owner, "owner", (const char *[]){database(), NULL}) ||
      !process_hear(&v.owner, "owns"))
    return;
  v.db = sql_connect(database(), 0);
  visit(&v, 2 * at_once, at_once); /* what is allocated once */
  struct held before = look(v.db, v.owner.pid);
  for (int i = 0; i < 1000 && before.sessions > 2; i++) {
    (void)usleep(10000);
    before = look(v.db, v.owner.pid);
  }
  CHECK_EQ_INT(before.sessions, 2); /* the owner's row, and this one */
  visit(&v, n, at_once);
  check_left(v.db, v.owner.pid, before);
  check_rows(&v);
  sql_runs(v.db, "INSERT INTO items(items) VALUES('integrity-check')");
  (void)sqlite3_close(v.db);
  process_end(&v.owner);
  test_count("short processes", (uint64_t)v.next);
}

TEST(one_after_the_other) { run((int)help_amount(ONE_BY_ONE), 1); }
TEST(many_at_once) { run((int)help_long() * AT_ONCE, AT_ONCE); }
