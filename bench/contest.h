/* SPDX-License-Identifier: MIT
**
** contest.h -- stores that compete: each is loaded once, stays open, and is
** measured in short turns, one after the other, round after round.
**
** A contestant with a memory limit lives in a child process whose control
** group holds exactly that much, page cache included; one without lives in
** this process.  The work is the same.  Only one works at a time; before the
** next one's turn the last has come to rest.
**
** Checked in every turn: all keys of one batch in eight are there, and
** sixteen of its vectors are whole and of their key.
*/
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "harness.h"
#include "keys.h"
#include "store.h"

/* What threads do, each a batch after the other. */
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
  int disjoint;        /* threads have keys of their own: key modulo threads */
  double seconds;      /* measured */
  double warm_seconds; /* before it, not measured */
  uint64_t warm_keys;  /* or until so many keys, whichever is sooner; 0: no */
};

struct result {
  double keys_per_second; /* Gets and Puts */
  uint64_t keys;
  struct usage usage;
  uint64_t disk_read, disk_written; /* by the process, as the system counts */
  double rest_seconds;              /* until it had come to rest again */
};

struct contestant;

/* A name of its own, or NULL: the kind's.  limit 0: in this process. */
struct contestant *contestant_new(const struct store_kind *kind,
                                  const char *name,
                                  const struct store_options *options,
                                  uint64_t limit_bytes);
const char *contestant_name(const struct contestant *contestant);
/* Opens the store, and sessions for so many threads.  Traces must exist by
** now. */
void contestant_open(struct contestant *contestant, int threads);
struct result contestant_run(struct contestant *contestant,
                             const struct workload *workload);
/* Gets each key of the table, twice: what fits in memory is there then. */
void contestant_read_all(struct contestant *contestant);
/* Puts each key twice: records are then where Puts leave them. */
void contestant_write_all(struct contestant *contestant);
int64_t contestant_figure(struct contestant *contestant, const char *name);
/* Resident memory of its process; with a limit, the group's peak as well. */
uint64_t contestant_resident(struct contestant *contestant, uint64_t *peak);
/* Adds the keys from + 1 .. to; in this process only. */
void contestant_fill(struct contestant *contestant, size_t from, size_t to);
void contestant_close(struct contestant *contestant);
/* 1 when its process has ended by itself: its limit was too small for it. */
int contestant_dead(const struct contestant *contestant);

/* Fills a new store with keys 1 .. options->keys in key order, closes it, and
** takes its files out of the page cache. */
void load_store(const struct store_kind *kind,
                const struct store_options *options);
/* The same in a process of its own, for stores that children will open: what a
** library has started here (threads) would be missing there.  Returns the
** bytes of the store's index, if that is known, else 0. */
uint64_t load_store_apart(const struct store_kind *kind,
                          const struct store_options *options);

#endif
