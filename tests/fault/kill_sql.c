/* SPDX-License-Identifier: MIT
**
** kill_sql.c -- SQL rows and vectors of one transaction, when the process is
** killed: a child does the work of sql_work.h with real files, and kills
** itself before one of the calls of the engine or SQLite that change a file.
** Within a COMMIT, which includes everything between the prepared record in
** the store and the end of SQLite's commit, each call has its turn.
**
** SEED repeats a run.  LONG=5 also kills at all other calls.
*/
#include "fork_help.h"
#include "sql_work.h"

#include "engine/table/owner/registry.h"
#include "disk.h"
#include "strike.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* ---- kill ---------------------------------------------------------------- */

enum { CALLS = 4000 };

static struct shared { /* with the child */
  int begun, acked, calls;
  uint8_t in_commit[CALLS]; /* by call */
} * shared;

static int kill_at; /* this call; 0: none */

/* Before every call that changes a file. */
static int strike(void) {
  int call = ++shared->calls;
  if (call < CALLS)
    shared->in_commit[call] = shared->begun != shared->acked;
  if (call == kill_at)
    (void)raise(SIGKILL);
  return 0;
}

static void kill_begun(int n) { shared->begun = n; }
static void kill_acked(int n) { shared->acked = n; }

static void work_and_die(const char *path, uint64_t random, int txns) {
  struct env *env = strike_engine(strike);
  struct work w = {random, path, NULL, txns, kill_begun, kill_acked};
  disk_no_threads(env); /* the calls are the same in every run */
  env_set_default(env);
  strike_sqlite(strike);
  work_do(&w);
}

/* 0 good, 1 failed, -1 killed. */
static int run_child(const char *path, uint64_t random, int txns) {
  int status = 0;
  (void)fflush(NULL);
  pid_t child = test_fork();
  if (child == 0) {
    if (txns)
      work_and_die(path, random, txns);
    else
      (void)work_examine(path, NULL, shared->acked, shared->begun,
                         work_first[kill_at % WORK_FIRST], NULL);
    (void)fflush(NULL);
    _exit(atomic_load(&test_state.failures) ? 1 : 0);
  }
  CHECK(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
    return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* The database of a run, in its own directory. */
static const char *path_of(int call) {
  static char path[400];
  (void)snprintf(path, sizeof path, "%s/%s-%d", test_dir(), work_mode->journal,
                 call);
  CHECK_EQ_INT(mkdir(path, 0755), 0);
  return strcat(path, "/app.db");
}

static int kill_everywhere(const struct mode *mode, int txns) {
  static struct shared all;
  uint64_t random = test_random();
  int kills = 0, tried = 0;
  work_mode = mode;
  kill_at = 0;
  memset(shared, 0, sizeof *shared);
  work_and_die(path_of(0), random, txns); /* it does not die yet */
  all = *shared;
  /* Databases of later runs are examined with threads and the real calls. */
  env_set_default(&env_posix);
  (void)sqlite3_vfs_find(NULL)->xSetSystemCall(sqlite3_vfs_find(NULL), NULL,
                                               NULL);
  if (!CHECK(all.calls < CALLS))
    return 0;
  /* Each call of a COMMIT and one in five of the others; with a share, of
  ** these fewer, each time other ones. */
  unsigned share = (help_share() + 3) / 4, from = test_below(5 * share);
  for (int call = 1; call <= all.calls; call++) {
    unsigned every = (all.in_commit[call] ? 1 : 5) * share;
    if (((unsigned)call + from) % every >= help_long())
      continue;
    const char *path = path_of(call);
    memset(shared, 0, sizeof *shared);
    kill_at = call;
    (void)snprintf(work_moment, sizeof work_moment, "killed at call %d", call);
    int end = run_child(path, random, txns);
    if (!CHECK(end <= 0) || !CHECK_EQ_INT(run_child(path, 0, 0), 0))
      break;
    kills += end < 0;
    tried++;
  }
  /* The number of requests submitted together depends on timing, so the last
  ** calls may never come. */
  test_check(kills > tried * 9 / 10, __FILE__, __LINE__,
             "only %d of %d were killed", kills, tried);
  work_forget();
  return kills;
}

TEST(killed_at_every_call) {
  static const struct mode modes[] = {{"DELETE", "FULL", 0},
                                      {"WAL", "FULL", 0}};
  int kills = 0;
  if (!test_dir())
    return;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!CHECK(shared != MAP_FAILED))
    return;
  for (int i = 0; i < 2 && !atomic_load(&test_state.failures); i++)
    kills += kill_everywhere(&modes[i], 6);
  test_count("kill points", (uint64_t)kills);
  munmap(shared, sizeof *shared);
}
