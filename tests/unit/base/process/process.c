/* SPDX-License-Identifier: MIT
**
** process.c -- what the stores of one process share: a piece of background work
** never overlaps itself and runs as often as it was woken, hundreds of stores
** need no more threads than a few, and rings and buffers are reused.
*/
#include "fork_help.h"
#include "store_help.h"

#include "engine/base/env/env.h"
#include "engine/base/process/process.h"

#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GIVE_UP_MS = 25000 };

static int count_entries(const char *path) {
  DIR *dir = opendir(path);
  int n = 0;
  while (dir && readdir(dir))
    n++;
  if (dir)
    (void)closedir(dir);
  return n - 2;
}

/* Without the sanitizer's own threads. */
static int threads(void) {
  return count_entries("/proc/self/task") - THREAD_SANITIZED;
}

/* A thread that was joined may still be listed for a moment. */
static int await_threads(int most) {
  for (int ms = 0; ms < GIVE_UP_MS && threads() > most; ms++)
    (void)usleep(1000);
  return CHECK(threads() <= most);
}

/* Without the descriptor that is open during the count. */
static int descriptors(void) { return count_entries("/proc/self/fd") - 1; }

/* ---- background work ----------------------------------------------------- */

struct piece {
  struct background background;
  _Atomic int runs, inside, waits, go_on;
  _Atomic uint64_t due_us; /* returned by the run */
};

static uint64_t run_piece(void *arg) {
  struct piece *p = arg;
  CHECK_EQ_INT(atomic_fetch_add(&p->inside, 1), 0);
  if (atomic_load(&p->waits)) {
    background_waits(&p->background, 1);
    while (!atomic_load(&p->go_on))
      (void)usleep(200);
    background_waits(&p->background, -1);
  }
  atomic_fetch_sub(&p->inside, 1);
  atomic_fetch_add(&p->runs, 1);
  return atomic_load(&p->due_us);
}

static int await_runs(struct piece *p, int runs) {
  for (int ms = 0; ms < GIVE_UP_MS && atomic_load(&p->runs) < runs; ms++)
    (void)usleep(1000);
  return CHECK(atomic_load(&p->runs) >= runs);
}

static void await_inside(struct piece *p) {
  for (int ms = 0; ms < GIVE_UP_MS && !atomic_load(&p->inside); ms++)
    (void)usleep(1000);
  CHECK(atomic_load(&p->inside));
}

static void start(struct piece *p, struct process *process,
                  enum background_kind kind) {
  atomic_store(&p->due_us, BACKGROUND_NEVER);
  CHECK_EQ_INT(background_start(&p->background, process, kind, run_piece, p),
               0);
}

TEST(a_wake_is_a_run) {
  static struct piece p;
  struct process *process;
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  background_wake(&p.background); /* before its start: no effect */
  start(&p, process, BACKGROUND_WORK);
  for (int i = 1; i <= 100; i++) {
    background_wake(&p.background);
    await_runs(&p, i);
  }
  background_end(&p.background);
  int runs = atomic_load(&p.runs);
  background_wake(&p.background);
  (void)usleep(2000);
  CHECK_EQ_INT(atomic_load(&p.runs), runs);
  process_leave(process);
  await_threads(1);
}

/* A piece that is woken while it runs, runs again. */
TEST(a_wake_while_it_runs_is_kept) {
  static struct piece p;
  struct process *process;
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  atomic_store(&p.waits, 1);
  start(&p, process, BACKGROUND_JOBS);
  background_wake(&p.background);
  await_inside(&p);
  background_wake(&p.background);
  background_wake(&p.background);
  CHECK_EQ_INT(atomic_load(&p.runs), 0);
  atomic_store(&p.go_on, 1);
  await_runs(&p, 2);
  (void)usleep(2000);
  CHECK_EQ_INT(atomic_load(&p.runs), 2);
  background_end(&p.background);
  process_leave(process);
}

/* The earliest piece runs first; a wake runs a piece before its moment. */
TEST(moments_come_in_order) {
  enum { PIECES = 64 };
  static struct piece pieces[PIECES];
  struct process *process;
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  uint64_t far = env_posix.now_us(&env_posix) + UINT64_C(3600) * 1000000;
  for (int i = 0; i < PIECES; i++) {
    start(&pieces[i], process, BACKGROUND_FLUSH);
    atomic_store(&pieces[i].due_us, far + test_random() % 1000000);
    background_wake(&pieces[i].background);
    await_runs(&pieces[i], 1);
  }
  CHECK(threads() <= 1 + 4);
  for (int i = 0; i < PIECES; i++) { /* all wait for their moments */
    int k = (int)(test_random() % PIECES), runs = atomic_load(&pieces[k].runs);
    atomic_store(&pieces[k].due_us, i % 2 ? far + test_random() % 1000000 : 0);
    background_wake(&pieces[k].background);
    await_runs(&pieces[k], runs + (i % 2 ? 1 : 3)); /* 0: immediate rerun */
    atomic_store(&pieces[k].due_us, far);
  }
  for (int i = 0; i < PIECES; i++)
    background_end(&pieces[(i * 37) % PIECES].background);
  process_leave(process);
  await_threads(1);
}

/* Work that waits for other work does not keep a thread from it. */
TEST(who_waits_lets_another_run) {
  enum { WAITING = 12 };
  static struct piece waiting[WAITING], last;
  struct process *process;
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  for (int i = 0; i < WAITING; i++) {
    atomic_store(&waiting[i].waits, 1);
    start(&waiting[i], process, BACKGROUND_JOBS);
    background_wake(&waiting[i].background);
    await_inside(&waiting[i]);
  }
  start(&last, process, BACKGROUND_JOBS);
  background_wake(&last.background);
  await_runs(&last, 1);
  CHECK(threads() > WAITING);
  for (int i = 0; i < WAITING; i++) {
    atomic_store(&waiting[i].go_on, 1);
    await_runs(&waiting[i], 1);
  }
  await_threads(1 + 4); /* four of this kind */
  for (int i = 0; i < WAITING; i++)
    background_end(&waiting[i].background);
  background_end(&last.background);
  process_leave(process);
}

TEST(a_child_begins_anew) {
  static struct piece p, own;
  struct process *process, *other;
  if (THREAD_SANITIZED) /* it allows no thread after a fork */
    return;
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  start(&p, process, BACKGROUND_WORK);
  (void)fflush(stdout);
  pid_t pid = test_fork();
  if (pid == 0) {
    (void)alarm(60);
    if (process_join(&env_posix, &other) || other == process)
      _exit(2);
    atomic_store(&own.due_us, BACKGROUND_NEVER);
    if (background_start(&own.background, other, BACKGROUND_WORK, run_piece,
                         &own))
      _exit(3);
    background_wake(&own.background);
    if (!await_runs(&own, 1))
      _exit(4);
    background_end(&own.background);
    process_leave(other);
    _exit(0);
  }
  int status = -1;
  CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  background_end(&p.background);
  process_leave(process);
}

/* ---- rings and buffers --------------------------------------------------- */

TEST(rings_are_used_again) {
  struct process *process;
  struct process_queue q;
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  for (int i = 0; i < 200; i++) {
    CHECK_EQ_INT(process_queue_take(process, ENV_QUEUE_POOL, 8, &q), 0);
    struct env_queue *first = q.queue;
    process_queue_give(process, &q);
    CHECK(!q.queue);
    CHECK_EQ_INT(process_queue_take(process, ENV_QUEUE_POOL, 8, &q), 0);
    CHECK(q.queue == first);
    process_queue_give(process, &q);
    void *at = process_buffer_take(process, 65536);
    process_buffer_give(process, at, 65536);
    CHECK(process_buffer_take(process, 65536) == at);
    process_buffer_give(process, at, 65536);
  }
  process_leave(process);
}

/* Without a descriptor for a ring, threads do the reads; and only a few rings
** are kept open. */
TEST(without_descriptors_threads_read) {
  struct process *process;
  struct process_queue queues[40], q;
  struct rlimit limit, low;
  if (!CHECK_EQ_INT(process_join(&env_posix, &process), 0))
    return;
  int before = descriptors(), n = 0;
  while (n < 40 &&
         process_queue_take(process, ENV_QUEUE_URING, 8, &queues[n]) == 0)
    n++;
  for (int i = 0; i < n; i++)
    process_queue_give(process, &queues[i]);
  CHECK(descriptors() <= before + 8);
  CHECK_EQ_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
  low = limit;
  low.rlim_cur = 3;
  CHECK_EQ_INT(setrlimit(RLIMIT_NOFILE, &low), 0);
  int rc = process_queue_take(process, ENV_QUEUE_URING, 9, &q);
  CHECK_EQ_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
  CHECK_EQ_INT(rc, 0);
  CHECK_EQ_INT(q.kind, ENV_QUEUE_POOL);
  process_queue_give(process, &q);
  process_leave(process);
  CHECK_EQ_INT(descriptors(), before);
}

/* ---- many stores --------------------------------------------------------- */

TEST(idle_stores_cost_two_descriptors) {
  enum { STORES = 120, DIM = 4 };
  static emb_store *stores[STORES];
  static emb_session *sessions[STORES];
  static char dirs[STORES][64];
  float vector[DIM] = {1, 2, 3, 4}, back[DIM];
  int64_t key = 7;
  int before = descriptors();
  emb_config c = {
      .dim = DIM, .flags = EMB_OPEN_CREATE, .memory_bytes = 4 << 20};
  for (int i = 0; i < STORES; i++) {
    (void)snprintf(dirs[i], sizeof dirs[i], "store-%d", i);
    if (!help_open(help_path(dirs[i]), &c, &stores[i], &sessions[i]))
      return;
    OK(sessions[i], emb_put(sessions[i], &key, 1, vector, NULL));
  }
  /* The kept rings, and the hub's descriptors: watch, wake, port, its name. */
  CHECK(descriptors() <= before + 2 * STORES + 8 + 4);
  CHECK(threads() <= 1 + 4 + 4 + 1);
  for (int i = 0; i < STORES; i++) {
    uint64_t ticket;
    uint8_t found = 0;
    const emb_rows to = {.vectors = back, .found = &found};
    OK(sessions[i], emb_prefetch(sessions[i], &key, 1, &to, &ticket));
    OK(sessions[i], emb_prefetch_synchronize(sessions[i], ticket, NULL));
    CHECK(found && back[2] == 3);
  }
  CHECK(threads() <= 1 + 4 + 4 + 4 + 1);
  CHECK(descriptors() <= before + 2 * STORES + 8 + 4);
  for (int i = 0; i < STORES; i++)
    help_close(stores[i], sessions[i]);
  CHECK_EQ_INT(descriptors(), before);
  await_threads(1);
}
