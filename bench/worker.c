/* SPDX-License-Identifier: MIT
**
** worker.c -- worker processes that execute orders; see worker.h.
*/
#include "worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum { WORKERS_MAX = 64 };

static struct worker *workers[WORKERS_MAX]; /* NULL: free */
static char cleaned[512];
static pid_t home; /* the process that owns the workers */

/* ---- the list ------------------------------------------------------------ */

static void remember(struct worker *worker) {
  for (int i = 0; i < WORKERS_MAX; i++) {
    if (!workers[i]) {
      workers[i] = worker;
      return;
    }
  }
  die("too many processes");
}

static void forget(struct worker *worker) {
  close(worker->orders);
  close(worker->answers);
  for (int i = 0; i < WORKERS_MAX; i++) {
    if (workers[i] == worker) {
      workers[i] = NULL;
    }
  }
  worker->pid = 0;
}

static void clean(void) {
  if (getpid() != home) {
    return;
  }
  for (int i = 0; i < WORKERS_MAX; i++) {
    if (workers[i]) {
      kill(workers[i]->pid, SIGKILL);
      waitpid(workers[i]->pid, NULL, 0);
    }
  }
  if (cleaned[0]) {
    remove_tree(cleaned);
  }
}

void worker_clean(const char *directory) {
  snprintf(cleaned, sizeof(cleaned), "%s", directory);
  home = getpid();
  signal(SIGPIPE, SIG_IGN);
  if (atexit(clean)) {
    die("atexit: %s", strerror(errno));
  }
}

/* ---- life ---------------------------------------------------------------- */

static _Noreturn void be(struct ends *ends, pid_t parent,
                         void (*live)(struct ends *ends, void *arg),
                         void *arg) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    _exit(1);
  }
  /* Close the other workers' pipes, or they would not see the end of their
  ** orders. */
  for (int i = 0; i < WORKERS_MAX; i++) {
    if (workers[i]) {
      close(workers[i]->orders);
      close(workers[i]->answers);
      workers[i] = NULL; /* a worker may start its own */
    }
  }
  live(ends, arg);
  _exit(0);
}

struct answer worker_start(struct worker *worker,
                           void (*live)(struct ends *ends, void *arg),
                           void *arg) {
  int down[2], up[2];
  pid_t parent = getpid();
  if (pipe(down) || pipe(up)) {
    die("pipe: %s", strerror(errno));
  }
  fflush(stdout);
  worker->pid = fork();
  if (worker->pid < 0) {
    die("fork: %s", strerror(errno));
  }
  if (!worker->pid) {
    close(down[1]);
    close(up[0]);
    struct ends ends = {down[0], up[1]};
    be(&ends, parent, live, arg);
  }
  close(down[0]);
  close(up[1]);
  worker->orders = down[1];
  worker->answers = up[0];
  remember(worker);
  return worker_hear(worker);
}

void worker_tell(struct worker *worker, const struct order *order) {
  if (write(worker->orders, order, sizeof(*order)) != sizeof(*order)) {
    die("process %d has ended", (int)worker->pid);
  }
}

struct answer worker_hear(struct worker *worker) {
  struct answer answer;
  if (read(worker->answers, &answer, sizeof(answer)) != sizeof(answer)) {
    die("process %d has ended", (int)worker->pid);
  }
  return answer;
}

struct answer worker_ask(struct worker *worker, const struct order *order) {
  worker_tell(worker, order);
  return worker_hear(worker);
}

void worker_end(struct worker *worker) {
  int status;
  pid_t pid = worker->pid;
  forget(worker);
  if (waitpid(pid, &status, 0) != pid || status) {
    die("process %d has failed", (int)pid);
  }
}

void worker_kill(struct worker *worker, double *when) {
  pid_t pid = worker->pid;
  *when = now();
  if (kill(pid, SIGKILL) || waitpid(pid, NULL, 0) != pid) {
    die("process %d: %s", (int)pid, strerror(errno));
  }
  forget(worker);
}

void worker_stop(struct worker *worker) {
  if (kill(worker->pid, SIGSTOP) ||
      waitpid(worker->pid, NULL, WUNTRACED) != worker->pid) {
    die("process %d: %s", (int)worker->pid, strerror(errno));
  }
}

/* ---- resource usage ------------------------------------------------------ */

double worker_cpu(const struct worker *worker) {
  clockid_t id;
  struct timespec t;
  if (clock_getcpuclockid(worker->pid, &id) || clock_gettime(id, &t)) {
    die("process %d: no clock", (int)worker->pid);
  }
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu_of(const struct worker *const *some, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    sum += worker_cpu(some[i]);
  }
  return sum;
}

void worker_settle(const struct worker *const *some, int n) {
  double end = now() + 30;
  for (int quiet = 0; quiet < 5 && now() < end;) {
    double before = cpu_of(some, n);
    nap(0.02);
    quiet = cpu_of(some, n) - before < 0.0005 ? quiet + 1 : 0;
  }
}

double worker_memory(const struct worker *worker, const char *name) {
  FILE *f = fopen(path("/proc/%d/smaps_rollup", (int)worker->pid), "r");
  char line[256];
  size_t n = strlen(name);
  double bytes = -1;
  while (f && bytes < 0 && fgets(line, sizeof(line), f)) {
    bytes = strncmp(line, name, n) ? -1 : 1024 * atof(line + n);
  }
  if (!f || bytes < 0) {
    die("process %d: its memory is not known", (int)worker->pid);
  }
  fclose(f);
  return bytes;
}

/* ---- the child's side ---------------------------------------------------- */

int worker_next(struct ends *ends, struct order *order) {
  return read(ends->orders, order, sizeof(*order)) == sizeof(*order);
}

void worker_say(struct ends *ends, const struct answer *answer) {
  if (write(ends->answers, answer, sizeof(*answer)) != sizeof(*answer)) {
    die("nobody listens");
  }
}
