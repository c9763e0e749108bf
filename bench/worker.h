/* SPDX-License-Identifier: MIT
**
** worker.h -- processes of a benchmark that do what they are told, one order
** after the other.
**
** A worker is forked by a process that has no store open, says that it is
** ready, and then answers each order.  It ends when there are no more, or is
** killed.  One that ends by itself ends the benchmark, and when that ends, for
** whatever reason but a signal, so do all workers.
*/
#ifndef BENCH_WORKER_H
#define BENCH_WORKER_H

#include <sys/types.h>

struct order {
  int what; /* the benchmark's */
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

/* The worker's ends. */
struct ends {
  int orders, answers;
};

/* At the end of this process the directory is removed, too. */
void worker_clean(const char *directory);

/* Forks; `live` is what the child does, and its first answer is awaited. */
struct answer worker_start(struct worker *worker,
                           void (*live)(struct ends *ends, void *arg),
                           void *arg);
void worker_tell(struct worker *worker, const struct order *order);
struct answer worker_hear(struct worker *worker);
struct answer worker_ask(struct worker *worker, const struct order *order);
/* No more orders: waits until it has ended well. */
void worker_end(struct worker *worker);
/* Kills it at once; when is what the clock said just before. */
void worker_kill(struct worker *worker, double *when);
/* SIGSTOP, and it has stopped. */
void worker_stop(struct worker *worker);
/* Processor seconds of all its threads: it does not notice. */
double worker_cpu(const struct worker *worker);
/* Waits until they have not worked for a moment (or 30 s). */
void worker_settle(const struct worker *const *workers, int n);
/* Its memory in bytes: of /proc, "Rss:" or "Pss:". */
double worker_memory(const struct worker *worker, const char *name);

/* In the child.  0: there are no more. */
int worker_next(struct ends *ends, struct order *order);
void worker_say(struct ends *ends, const struct answer *answer);

#endif
