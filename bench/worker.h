/* SPDX-License-Identifier: MIT
**
** worker.h -- worker processes of a benchmark, which execute orders one after
** the other.
**
** A worker is forked by a process that has no store open.  It reports that it
** is ready, and then answers each order.  It ends when there are no more
** orders, or is killed.  A worker that ends by itself ends the benchmark; and
** when the benchmark ends, for any reason except a signal, so do all workers.
*/
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <sys/types.h>

struct order {
  int what; /* meaning up to the benchmark */
  int number;
  double seconds, start;
};

struct answer {
  double value[3];
};

struct worker {
  pid_t pid; /* 0: there is none */
  int orders, answers;
};

/* The worker's ends of the pipes. */
struct ends {
  int orders, answers;
};

/* Also removes the directory when this process ends. */
void worker_clean(const char *directory);

/* Forks a child that runs `live`, and waits for its first answer. */
struct answer worker_start(struct worker *worker,
                           void (*live)(struct ends *ends, void *arg),
                           void *arg);
void worker_tell(struct worker *worker, const struct order *order);
struct answer worker_hear(struct worker *worker);
struct answer worker_ask(struct worker *worker, const struct order *order);
/* Sends no more orders, and waits until the worker has ended successfully. */
void worker_end(struct worker *worker);
/* Kills the worker at once; *when: the time just before. */
void worker_kill(struct worker *worker, double *when);
/* Sends SIGSTOP, and waits until the worker has stopped. */
void worker_stop(struct worker *worker);
/* Processor seconds of all its threads, read without involving the worker. */
double worker_cpu(const struct worker *worker);
/* Waits until the workers have been idle for a moment (or 30 s). */
void worker_settle(const struct worker *const *workers, int n);
/* The worker's memory in bytes, from /proc: "Rss:" or "Pss:". */
double worker_memory(const struct worker *worker, const char *name);

/* In the child.  Receives an order.  0: there are no more. */
int worker_next(struct ends *ends, struct order *order);
void worker_say(struct ends *ends, const struct answer *answer);

#endif
