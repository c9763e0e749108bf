/* SPDX-License-Identifier: MIT
**
** contest.h -- competing stores: each is loaded once, stays open, and is
** measured in short turns, one store after the other, round after round.
**
** A contestant with a memory limit runs in a child process whose control group
** is limited to exactly that much memory, page cache included; a contestant
** without one runs in this process.  The work is the same.  Only one runs at a
** time, and each must have come to rest before the next one's turn.
**
** In every turn, one batch in eight is checked: all its keys must be found, and
** sixteen of its vectors must be whole and belong to their keys.
*/
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "harness.h"
#include "keys.h"
#include "store.h"

/* Work of each thread, batch after batch. */
enum pattern {
  GET,
  PUT,
  HALF,  /* a Get, a Put of other keys, ... */
  TRAIN, /* a Get, a Put of the same keys, ... */
};

struct workload {
  enum pattern pattern;
  const struct trace *trace;
  int threads;
  int disjoint;        /* each thread has its own keys: key modulo threads */
  double seconds;      /* measured */
  double warm_seconds; /* before that, not measured */
  uint64_t warm_keys;  /* or until this many keys, whichever is sooner; 0: no */
};

struct result {
  double keys_per_second; /* Gets and Puts */
  uint64_t keys;
  struct usage usage;
  uint64_t disk_read, disk_written; /* by the process, by the system's count */
  double rest_seconds;              /* until it was at rest again */
};

struct contestant;

/* name: NULL for the kind's name.  limit 0: in this process. */
struct contestant *contestant_new(const struct store_kind *kind,
                                  const char *name,
                                  const struct store_options *options,
                                  uint64_t limit_bytes);
const char *contestant_name(const struct contestant *contestant);
/* Opens the store, and sessions for `threads` threads.  Traces must exist by
** now. */
void contestant_open(struct contestant *contestant, int threads);
struct result contestant_run(struct contestant *contestant,
                             const struct workload *workload);
/* Gets each key of the table twice, so that all that fits in memory is
** there. */
void contestant_read_all(struct contestant *contestant);
/* Puts each key twice, so that records are where Puts leave them. */
void contestant_write_all(struct contestant *contestant);
int64_t contestant_figure(struct contestant *contestant, const char *name);
/* Resident memory of its process; with a limit, also the peak of the group. */
uint64_t contestant_resident(struct contestant *contestant, uint64_t *peak);
/* Adds keys from + 1 .. to; only for a contestant in this process. */
void contestant_fill(struct contestant *contestant, size_t from, size_t to);
void contestant_close(struct contestant *contestant);
/* 1 if its process has ended by itself: the limit was too small for it. */
int contestant_dead(const struct contestant *contestant);

/* Fills a new store with keys 1 .. options->keys in key order, closes it, and
** drops its files from the page cache. */
void load_store(const struct store_kind *kind,
                const struct store_options *options);
/* The same in a separate process, for stores that children will open: threads
** that a library has started in this process would be missing in the children.
** Returns the size of the store's index in bytes, or 0 if unknown. */
uint64_t load_store_apart(const struct store_kind *kind,
                          const struct store_options *options);

#endif
