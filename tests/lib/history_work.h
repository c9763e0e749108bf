/* SPDX-License-Identifier: MIT
**
** history_work.h -- sessions that work on a bounded store and record their
** operations for history.h: threads of one process, or of several.
**
** The keys are a few hot ones, on which sessions wait, a few hundred warm ones
** and many cold ones.  Besides the workers one thread checkpoints and
** optimizes, and one adds keys, so that the index grows, and then writes them
** again: with the least memory the log turns over many times.  So all keys
** are changed in place, copied to the tail, paged out, read from disk,
** cached, looked ahead and moved by compaction while leases are held.
**
** A vector carries its writer and the writer's count, which reveals a torn
** vector and a vector returned with another's version.
**
**   mixed    A worker keeps leases while it asks for more, so workers wait for
**            each other in circles.  The timeout is short; a refused worker
**            gives back everything.  Some Puts have no lease, and some leases
**            end by emb_release.
**   ordered  A worker puts back everything that it got before it asks again.
**            Then no worker may ever be refused: the timeout is longer than
**            the test.
*/
#ifndef EMB_HISTORY_WORK_H
#define EMB_HISTORY_WORK_H

#include "history.h"
#include "store_help.h"

#include <pthread.h>

enum {
  HISTORY_DIM = 64,
  HISTORY_KEYS = 16000,
  HISTORY_WORKERS = 8,
  HISTORY_OTHERS = 2, /* history_keep, history_grow */
  HISTORY_BATCH = 8,
  HISTORY_HELD = 24, /* with leases on this many keys the worker gives back */
  HISTORY_LOOK_MS = 50,
  HISTORY_STILL_MS = 30000,
};

/* Shared by all workers, of any process. */
struct history_shared {
  struct history_clock clock;
  /* Set by main, read by all; relaxed. */
  _Atomic int over;
  /* Relaxed counters of events. */
  _Atomic uint64_t refused, released, blind;
};

struct history_world {
  emb_store *store;
  uint32_t bound;
  int ordered;
  struct history_shared *shared;
};

struct history_held {
  int64_t key;
  int leases;
};

struct history_worker {
  struct history_world *w;
  uint32_t number; /* of the writer, from 1 */
  pthread_t thread;
  emb_session *s;
  uint64_t random;
  /* Grows with each round; relaxed, for the watchdog. */
  _Atomic uint64_t rounds;
  struct history history;
  uint32_t sequence;
  struct history_held held[HISTORY_HELD + 3 * HISTORY_BATCH];
  uint32_t held_n;
  size_t leases;
  int64_t keys[HISTORY_BATCH];
  uint8_t found[HISTORY_BATCH];
  uint64_t versions[HISTORY_BATCH];
  float vectors[HISTORY_BATCH * HISTORY_DIM];
};

/* With the least memory. */
emb_config history_config(uint32_t bound, int ordered, uint32_t io);

/* All keys, by a worker that has a session. */
void history_load(struct history_worker *k);

/* Opens the worker's session and starts `work` with it: one of these. */
int history_start(struct history_worker *k, struct history_world *w,
                  uint32_t number, void *(*work)(void *));
void *history_work(void *worker);
void *history_keep(void *worker);
/* Uses its own keys, which no other worker touches. */
void *history_grow(void *worker);

/* A worker that does nothing for half a minute ends the process: a hang is
** the one failure that cannot be reported normally. */
struct history_watch {
  uint64_t last[HISTORY_WORKERS + HISTORY_OTHERS];
  unsigned still[HISTORY_WORKERS + HISTORY_OTHERS];
};
/* Pauses, then looks at each. */
void history_look(struct history_watch *watch,
                  const struct history_worker *workers, uint32_t n);
/* The worker's last call, too, must return in time. */
void history_join(struct history_worker *k);

/* Events without which the test proves nothing: the records were in all
** places.  0: *missing is the first metric that is missing. */
int history_was_everywhere(const struct history_world *w, const char **missing);

/* The pending reads of each key are as many as `held` says. */
int history_pending(emb_session *s, const uint32_t *held);

/* Judges the histories of the workers. */
void history_judge(const struct history *histories, size_t count,
                   uint32_t bound);

#endif
