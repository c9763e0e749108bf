/* SPDX-License-Identifier: MIT
**
** takeover.c -- processes that share a database come, leave, die, stop, fork
** and touch each other's files at any moment, so its store changes owner all
** the time.  No acknowledged value may be lost, and no reader may see a value
** go back.
**
** Each of 2 to 5 members has one connection, or two through two copies of the
** library, and runs random transactions, reads, scans and batches.  The test
** kills and stops some of them.  Each round has its own database, journal
** mode and options, chosen by the seed.  Other rounds lose the store's
** directory, and others kill an owner at a known moment.
**
** MUST HOLD What takeover_help.h says, and
**           - in a write transaction, and in a read transaction during which
**             nobody else has committed, the vector equals the ordinary row;
**           - a connection reads the row its emb_put wrote, or an earlier error
**             told it that an owner has gone;
**           - each ticket gives its rows, or one error;
**           - the first use after the death of an owner gives that error;
**           - a backup holds both tables at one moment, and nothing sound is
**             reported as damaged or of another age;
**           - when all have gone, both tables are equal and the store is sound.
** AMOUNT    TAKEOVER_SECONDS=n, else 10, LONG=n times as long.  SEED repeats
**           the choices, not the moments.  TAKEOVER_EVENTS, TAKEOVER_JOURNAL
**           and TAKEOVER_MEMBERS override its choices.
*/
#include "fork_help.h"
#include "takeover_help.h"

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 10, ROUND_MS = 2000, CHILD_S = 20 };

static uint64_t below(uint64_t n) { return takeover_below(n); }

static void pause_us(uint64_t us) { (void)usleep((useconds_t)us); }

/* ---- other actions of a process ------------------------------------------ */

static int touch_file(const char *path, const struct stat *st, int type,
                      struct FTW *ftw) {
  char bytes[512];
  (void)st;
  (void)ftw;
  int fd = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    (void)!read(fd, bytes, sizeof bytes);
    (void)close(fd);
  }
  return 0;
}

/* Not the database itself: its locks are SQLite's. */
static const char *store_of(const char *dir) {
  static char path[700];
  (void)snprintf(path, sizeof path, "%s-emb", takeover_file(dir));
  return path;
}

/* In a child, which has none of the engine's threads. */
static void use_own_connection(const char *dir) {
  struct connection c = {0};
  atomic_fetch_add(&takeover->children, 1);
  takeover_connect(&c, dir, MEMBERS, 0);
  for (int i = 0; i < 3 && !atomic_load(&takeover->over); i++) {
    takeover_read(&c);
    takeover_write(&c);
  }
  takeover_leave(&c);
  atomic_fetch_sub(&takeover->children, 1);
}

/* In WAL mode the child opens no connection: it inherits the memory of SQLite's
** locks, which says that the child holds them.  It opens none under a sanitizer
** either, because a thread that the child does not have may have locked the
** sanitizer's allocator. */
static void fork_child(const char *dir, enum event event) {
  uint64_t us = below(4) ? below(3000000) : 0;
  (void)fflush(stdout);
  if (event == CHILD && (takeover->is_wal || SANITIZED))
    return;
  pid_t pid = test_fork();
  if (pid != 0)
    return;
  (void)alarm(CHILD_S);
  if (event == EXEC)
    (void)execl("/bin/sleep", "sleep", "3", (char *)NULL);
  if (event == CHILD) {
    (void)alarm(2 * HANG_MS / 1000);
    use_own_connection(dir);
  } else
    pause_us(us);
  _exit(0);
}

/* ---- the members --------------------------------------------------------- */

struct member {
  const char *dir;
  int slot, only_reads;
  struct connection of[2];
};

static void connect_to(struct member *m, int i) {
  takeover_connect(&m->of[i], m->dir, m->slot, i);
}

/* One random action. */
static void act(struct member *m, struct connection *c) {
  static const struct {
    enum event event;
    unsigned weight;
  } choices[] = {{LEAVE, 4},  {FORK, 1},    {CHILD, 1},      {EXEC, 1},
                 {TOUCH, 2},  {TRIGGER, 8}, {CHECKPOINT, 2}, {READ, 20},
                 {SCAN, 4},   {PUT, 10},    {PREFETCH, 12},  {WRITE_BACK, 6},
                 {BACKUP, 2}, {VERIFY, 3},  {EVENTS, 24}};
  uint64_t at = below(100);
  int i = 0;
  for (; at >= choices[i].weight; i++)
    at -= choices[i].weight;
  enum event event = choices[i].event;
  if (takeover->is_hasty && below(5) == 0)
    event = LEAVE;
  if (m->only_reads && event > LEAVE)
    event = below(4) ? READ : SCAN;
  if (event == EVENTS || !takeover_has(event))
    (m->only_reads ? takeover_read : takeover_write)(c);
  else if (event == LEAVE) {
    takeover_leave(c);
    pause_us(below(2) ? 0 : below(30000));
    connect_to(m, c->is_copy);
  } else if (event == FORK || event == CHILD || event == EXEC)
    fork_child(m->dir, c->scan ? FORK : event);
  else if (event == TOUCH)
    (void)nftw(store_of(m->dir), touch_file, 16, FTW_PHYS);
  else if (event == TRIGGER)
    takeover_trigger(c);
  else if (event == CHECKPOINT)
    (void)takeover_run(c, "INSERT INTO v(v) VALUES('checkpoint')");
  else if (event == VERIFY)
    takeover_verify(c);
  else if (event == BACKUP)
    takeover_backup(c, m->dir);
  else if (event == READ)
    takeover_read(c);
  else if (event == SCAN)
    takeover_scan(c);
  else if (event == PUT)
    takeover_put(c);
  else
    takeover_batch(c, event);
}

/* Arguments: directory, slot. */
PROCESS(member) {
  struct member m = {.dir = process_argument(0),
                     .slot = (int)process_number(1)};
  if (!takeover_share(m.dir))
    return;
  int n = takeover->has_copy && below(3) ? 2 : 1;
  m.only_reads = takeover_has(READ) && m.slot > 0 && below(3) == 0;
  for (int i = 0; i < n; i++)
    connect_to(&m, i);
  while (!atomic_load(&takeover->over)) {
    struct connection *c = &m.of[below((uint64_t)n)];
    for (int i = 0; i < n && !takeover->is_wal; i++)
      if (m.of[i].scan) /* its scan blocks the other's COMMIT */
        c = &m.of[i];
    if (c->scan && below(3))
      takeover_scan(c);
    act(&m, c);
    while (waitpid(-1, NULL, WNOHANG) > 0)
      ;
    if (below(4) == 0)
      pause_us(below(3000));
  }
  for (int i = 0; i < n; i++)
    takeover_leave(&m.of[i]);
}

/* ---- a round ------------------------------------------------------------- */

struct round {
  const char *dir;
  struct process members[MEMBERS];
  int kills, stops;
};

static const char *choose_journal(void) {
  static const char *const modes[] = {"WAL",     "WAL",      "DELETE",
                                      "PERSIST", "TRUNCATE", "MEMORY"};
  const char *chosen = getenv("TAKEOVER_JOURNAL");
  const char *journal = modes[below(6)];
  return chosen ? chosen : journal;
}

static void choose_settings(const char *journal) {
  const char *chosen = getenv("TAKEOVER_MEMBERS");
  takeover->members = 2 + (int)below(MEMBERS - 1);
  if (chosen)
    takeover->members = atoi(chosen);
  if (takeover->members < 1 || takeover->members > MEMBERS)
    takeover->members = MEMBERS;
  takeover->timeout_ms = below(2) ? 300 : 5000;
  takeover->bound = below(3) ? -1 : (int)below(2) * 2;
  takeover->is_wal = strcmp(journal, "WAL") == 0;
  takeover->is_synced = below(3) == 0;
  takeover->is_hasty = below(2) != 0;
  takeover->may_kill = strcmp(journal, "MEMORY") != 0;
  takeover->has_copy = takeover_has(COPY) && below(2);
  printf("round %d: %s, %d members, timeout %d, staleness %d, synchronous %d, "
         "haste %d, copy %d\n",
         takeover->round, journal, takeover->members, takeover->timeout_ms,
         takeover->bound, takeover->is_synced, takeover->is_hasty,
         takeover->has_copy);
}

/* Copies emb.so from EMB_SO, as set by make, or from where make leaves it. */
static int copy_library(const char *dir) {
  const char *given = getenv("EMB_SO");
  char command[1500];
  (void)snprintf(command, sizeof command,
                 "d=$(dirname '%s'); for f in '%s' \"$d\"/../emb.so "
                 "\"$d\"/../../emb.so; do [ -f \"$f\" ] && exec cp \"$f\" "
                 "'%s/copy.so'; done; exit 1",
                 test_state.program, given ? given : "", dir);
  return CHECK_EQ_INT(system(command), 0);
}

static int member_start(struct round *r, int slot) {
  char text[16];
  (void)snprintf(text, sizeof text, "%d", slot);
  atomic_store(&takeover->places[slot].since_ms, 0);
  return process_start(&r->members[slot], "member",
                       (const char *[]){r->dir, text, NULL});
}

/* 1: the round may begin.  It has its own directory below the test's. */
static int round_begin(struct round *r, int number, enum directory directory) {
  static char dir[400];
  (void)snprintf(dir, sizeof dir, "%s/%d", test_dir(), number);
  *r = (struct round){.dir = dir};
  (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* for orphans_end */
  if (!CHECK_EQ_INT(mkdir(dir, 0700), 0) || !takeover_share(dir))
    return 0;
  takeover->round = number;
  takeover->directory = directory;
  const char *journal = choose_journal();
  choose_settings(journal);
  return takeover_make_tables(dir, journal) &&
         (!takeover->has_copy || copy_library(dir));
}

static int members_start(struct round *r) {
  for (int i = 0; i < takeover->members; i++)
    if (!member_start(r, i))
      return 0;
  return 1;
}

static int has_ended(const struct process *p) {
  siginfo_t info = {0};
  return p->pid == 0 || (waitid(P_PID, (id_t)p->pid, &info,
                                WEXITED | WNOHANG | WNOWAIT) == 0 &&
                         info.si_pid == p->pid);
}

/* Each member ends by itself; a member that does not is killed. */
static void members_end(struct round *r) {
  int64_t limit = takeover_ms() + 2 * HANG_MS;
  atomic_store(&takeover->over, 1);
  for (int i = 0; i < takeover->members; i++) {
    while (!has_ended(&r->members[i]) && takeover_ms() < limit &&
           takeover_watch(r->members, takeover->members))
      pause_us(2000);
    if (r->members[i].pid && !CHECK(has_ended(&r->members[i])))
      process_kill(&r->members[i]);
    else if (r->members[i].pid)
      (void)process_end(&r->members[i]);
  }
  while (atomic_load(&takeover->children) > 0 && takeover_ms() < limit &&
         atomic_load(&takeover->failures) == 0)
    pause_us(2000);
  CHECK(atomic_load(&takeover->children) == 0 ||
        atomic_load(&takeover->failures));
  CHECK_EQ_INT(atomic_load(&takeover->failures), 0);
}

/* Processes that the members left behind and that live on are children of
** this process by now. */
static void orphans_end(void) {
  char path[64], pid[32] = "";
  (void)snprintf(path, sizeof path, "/proc/self/task/%d/children",
                 (int)getpid());
  for (int i = 0; i < 1000; i++) {
    FILE *f = fopen(path, "re");
    int n = f ? fscanf(f, "%31s", pid) : 0;
    if (f)
      (void)fclose(f);
    if (n != 1)
      return;
    (void)kill((pid_t)atoi(pid), SIGKILL);
    (void)waitpid((pid_t)atoi(pid), NULL, 0);
  }
}

/* One member is killed and started again, or stopped: for less than its
** timeout, or for longer. */
static void kill_or_stop(struct round *r) {
  int slot = (int)below((uint64_t)takeover->members);
  struct process *p = &r->members[slot];
  uint64_t ms = below(6) ? below((uint64_t)takeover->timeout_ms / 2)
                         : (uint64_t)takeover->timeout_ms + below(500);
  if (has_ended(p))
    return;
  if (takeover_has(KILL) && takeover->may_kill && below(3)) {
    process_kill(p);
    r->kills++;
    pause_us(below(2) ? 0 : below(40000));
    (void)member_start(r, slot);
  } else if (takeover_has(STOP)) {
    process_stop(p);
    pause_us(1000 * (ms < 1500 ? ms : 1500));
    process_go_on(p);
    r->stops++;
  }
}

/* ---- the end of a round -------------------------------------------------- */

static int failed(void) { return atomic_load(&test_state.failures) != 0; }

static void round_end(struct round *r) {
  printf(
      "round %d: %d killed, %d stopped; %d commits, %d reads, %d tickets, "
      "%d told of a death, %d busy, %d refused, %d backups\n",
      takeover->round, r->kills, r->stops, (int)atomic_load(&takeover->commits),
      (int)atomic_load(&takeover->reads), (int)atomic_load(&takeover->tickets),
      (int)atomic_load(&takeover->told), (int)atomic_load(&takeover->busy),
      (int)atomic_load(&takeover->refused),
      (int)atomic_load(&takeover->backups));
  test_count("processes killed beside others", (uint64_t)r->kills);
  orphans_end();
  process_memory_end(takeover, sizeof *takeover);
  takeover = NULL;
  if (!failed())
    (void)nftw(r->dir, test_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static unsigned storm_rounds(void) {
  const char *text = getenv("TAKEOVER_SECONDS");
  uint64_t n = text ? strtoull(text, NULL, 10) : help_amount(SECONDS);
  n = n * 1000 / ROUND_MS;
  return n < 1 ? 1 : (unsigned)n;
}

TEST(store_changes_hands) {
  unsigned rounds = storm_rounds();
  uint64_t commits = 0;
  /* On a busy machine a round may end before the first commit; all of twenty
  ** do not. */
  for (unsigned i = 0; (i < rounds || (!commits && i < 20)) && !failed(); i++) {
    struct round r;
    if (!round_begin(&r, (int)i, STAYS) || !members_start(&r))
      return;
    int64_t end = takeover_ms() + ROUND_MS;
    while (takeover_ms() < end && !atomic_load(&takeover->over) &&
           takeover_watch(r.members, takeover->members)) {
      pause_us(1000 + below(below(2) ? 20000 : 150000));
      kill_or_stop(&r);
    }
    members_end(&r);
    commits += atomic_load(&takeover->commits);
    if (below(2)) /* processes that live on do not hold the store */
      orphans_end();
    takeover_check_all(r.dir);
    round_end(&r);
  }
  CHECK(commits > 0);
}

/* ---- the directory ------------------------------------------------------- */

static int shell(const char *format, const char *a, const char *b) {
  char command[1600];
  (void)snprintf(command, sizeof command, format, a, b);
  return CHECK_EQ_INT(system(command), 0);
}

static void work_for(struct round *r, int64_t ms) {
  int64_t end = takeover_ms() + ms;
  while (takeover_ms() < end && takeover_watch(r->members, takeover->members))
    pause_us(5000);
}

static void change_directory(struct round *r, const char *away,
                             const char *older) {
  const char *store = store_of(r->dir);
  atomic_store(&takeover->phase, DURING);
  CHECK_EQ_INT(rename(store, away), 0);
  if (takeover->directory == DELETED)
    (void)shell("rm -rf '%s'", away, "");
  if (takeover->directory == REPLACED)
    CHECK_EQ_INT(rename(older, store), 0);
  atomic_store(&takeover->phase, AFTER);
  work_for(r, 400);
  if (takeover->directory == MOVED) {
    test_check(rename(away, store) == 0, __FILE__, __LINE__,
               "%s was made anew: %s", store, strerror(errno));
    atomic_store(&takeover->phase, BACK);
    work_for(r, 200);
  }
}

static void lose_directory(enum directory directory) {
  struct round r;
  char away[500], older[500];
  if (!takeover_has(DIRECTORY))
    SKIP("TAKEOVER_EVENTS has no directory");
  if (!round_begin(&r, 0, directory))
    return;
  (void)snprintf(away, sizeof away, "%s/away", r.dir);
  (void)snprintf(older, sizeof older, "%s/older", r.dir);
  if (!shell("cp -r '%s' '%s'", store_of(r.dir), older) || !members_start(&r))
    return;
  work_for(&r, 200);
  change_directory(&r, away, older);
  members_end(&r);
  if (directory == MOVED)
    takeover_check_all(r.dir);
  takeover_check_after(r.dir);
  round_end(&r);
}

TEST(directory_is_deleted) { lose_directory(DELETED); }
TEST(directory_is_moved_and_back) { lose_directory(MOVED); }
TEST(directory_is_replaced_by_an_older_one) { lose_directory(REPLACED); }

/* ---- the first use after a death ----------------------------------------- */

static const char *const uses[] = {
    "SELECT count(*) FROM v",
    "SELECT vector FROM v WHERE key = 1",
    "SELECT key, vector FROM v",
    "SELECT key FROM v WHERE key > 3 ORDER BY key LIMIT 1",
    "SELECT emb_get('v', '[1]')",
    "SELECT emb_peek('v', '[1]')",
    "SELECT emb_put('v', '[1]', '[1,1,1,1]')",
    "SELECT emb_prefetch('v', '[1]')",
    "SELECT emb_write_back('v', '[1]', '[1,1,1,1]')",
    "SELECT emb_snapshot('v', 's')",
    "INSERT INTO v(v) VALUES('checkpoint')",
    "UPDATE v SET vector = emb_add(vector, '[1,1,1,1]') WHERE key = 1",
    "BEGIN IMMEDIATE; DELETE FROM v WHERE key = 5; COMMIT",
    "SELECT emb_prefetch_synchronize('v')",
    "SELECT emb_write_back_synchronize('v')",
    "COMMIT",
};
enum { USES = sizeof uses / sizeof uses[0] };

/* Between the death and the use there may be nothing, a process that owns the
** store, or a process that only reads it. */
enum between { NOTHING, OWNS, READS };

/* Arguments: directory, OWNS or READS. */
PROCESS(other) {
  int owns = process_number(1) == OWNS;
  sqlite3 *db = sql_connect(takeover_file(process_argument(0)), 0);
  (void)sql_runs(db, owns ? "UPDATE v SET vector = '[5,5,5,5]' WHERE key = 7"
                          : "SELECT count(*) FROM v");
  if (owns)
    CHECK_EQ_INT(sql_integer(db, "SELECT owner FROM emb_tables"), 1);
  process_tell("there");
  (void)process_told("end");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
}

/* SQL that prepares this use. */
static const char *preparation(unsigned use) {
  if (strstr(uses[use], "prefetch_synchronize"))
    return "SELECT emb_prefetch('v', '[1]'); SELECT emb_prefetch('v', '[2]')";
  if (strstr(uses[use], "write_back_synchronize"))
    return "SELECT emb_write_back('v', '[1]', '[2,2,2,2]'); "
           "SELECT emb_write_back('v', '[2]', '[2,2,2,2]')";
  if (strcmp(uses[use], "COMMIT") == 0)
    return "BEGIN; UPDATE v SET vector = '[8,8,8,8]' WHERE key = 3";
  return "";
}

static int check_told(sqlite3 *db, const char *sql) {
  int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
  const char *text = sqlite3_errmsg(db);
  return test_check(sqlite3_extended_errcode(db) == SQLITE_ABORT_ROLLBACK &&
                        strstr(text, "has died"),
                    __FILE__, __LINE__,
                    "after the owner's death %s gave %d: %s", sql, rc,
                    rc ? text : "no error");
}

/* After the error, everything works. */
static void use_again(sqlite3 *db, unsigned use) {
  if (!sqlite3_get_autocommit(db))
    (void)sql_runs(db, "ROLLBACK");
  (void)sql_runs(db, "SELECT count(*) FROM v");
  (void)sql_runs(db, strcmp(uses[use], "COMMIT") ? uses[use] : "BEGIN; COMMIT");
}

/* Arguments: directory, use, whether a checkpoint has the initial state. */
PROCESS(client) {
  unsigned use = (unsigned)process_number(1) % USES;
  (void)alarm(2 * HANG_MS / 1000);
  sqlite3 *db = sql_connect(takeover_file(process_argument(0)), 0);
  if (process_number(2))
    (void)sql_runs(db, "INSERT INTO v(v) VALUES('checkpoint')");
  (void)sql_runs(db, "SELECT emb_put('v', '[6]', '[4,4,4,4]')");
  (void)sql_runs(db, preparation(use));
  process_tell("ready");
  if (!process_told("use"))
    return;
  int is_told = check_told(db, uses[use]);
  if (is_told && strstr(uses[use], "_synchronize")) /* each ticket */
    is_told = check_told(db, uses[use]);
  if (is_told)
    use_again(db, use);
  if (strstr(uses[use], "emb_snapshot")) /* else the next client finds it */
    (void)sqlite3_exec(db, "SELECT emb_snapshot_drop('v', 's')", NULL, NULL,
                       NULL);
  if (!sqlite3_get_autocommit(db))
    (void)sql_runs(db, "ROLLBACK");
  CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK);
  process_tell("done");
}

static int other_start(struct process *p, const char *dir,
                       enum between between) {
  return process_start(
             p, "other",
             (const char *[]){dir, between == OWNS ? "1" : "2", NULL}) &&
         process_hear(p, "there");
}

static void use_after_a_death(const char *dir, unsigned use,
                              enum between between, int has_checkpoint) {
  struct process owner, client, other;
  char text[16];
  (void)snprintf(text, sizeof text, "%u", use);
  if (!other_start(&owner, dir, OWNS) ||
      !process_start(
          &client, "client",
          (const char *[]){dir, text, has_checkpoint ? "1" : "0", NULL}) ||
      !process_hear(&client, "ready"))
    return;
  process_kill(&owner);
  if (between == OWNS && strcmp(uses[use], "COMMIT") == 0)
    between = READS; /* the client has SQLite's lock */
  int is_there = between != NOTHING && other_start(&other, dir, between);
  process_say(&client, "use");
  (void)process_hear(&client, "done");
  (void)process_end(&client);
  if (is_there)
    (void)process_end(&other);
}

/* Sets a timeout so long that nothing here is SQLITE_BUSY. */
static int make_patient(const char *dir) {
  sqlite3 *db = sql_connect(takeover_file(dir), 0);
  int good = sql_runs(db, "INSERT INTO v(v, arg) VALUES('set timeout', 60000)");
  return CHECK_EQ_INT(sqlite3_close(db), SQLITE_OK) && good;
}

TEST(first_use_after_a_death) {
  static const char *const names[] = {"at once", "when another one owns it",
                                      "when another one has read"};
  struct round r;
  unsigned n = help_amount(2 * USES), first = (unsigned)below(USES);
  if (!takeover_has(KILL))
    SKIP("TAKEOVER_EVENTS has no kill");
  if (!round_begin(&r, 0, STAYS) || !make_patient(r.dir))
    return;
  for (unsigned i = 0; i < n; i++) {
    unsigned before = atomic_load(&test_state.failures);
    enum between between = (enum between)below(3);
    int has_checkpoint = below(2) != 0;
    use_after_a_death(r.dir, (first + i) % USES, between, has_checkpoint);
    if (atomic_load(&test_state.failures) != before)
      printf("that was \"%s\", %s%s\n", uses[(first + i) % USES],
             names[between], has_checkpoint ? ", after a checkpoint" : "");
  }
  round_end(&r);
}
