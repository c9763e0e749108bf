/* SPDX-License-Identifier: MIT
**
** failing.h -- an env that fails a chosen call.
**
** ROLE      struct failing stands between the engine and another env.  It
**           counts the calls of chosen kinds and fails the n-th, or all from
**           the n-th on, with a chosen errno.  A loop over n that ends when a
**           run makes fewer than n calls has failed every call there is.
**           Pass it to env_set_default, or to whatever takes an env.
** QUEUES    A queue is a list: requests are carried out at queue_wait, in an
**           order and in batches that the seed decides.  So a run is the same
**           each time, whatever the machine does, and completions come in
**           orders that a disk would rarely give.  A failed read leaves
**           garbage in its buffer; a failed write has written nothing, or its
**           first half.
** BOOKS     Resources given out and not taken back are counted: files, locks,
**           queues, threads, memory; ports, peers and watches as files.
**           After a close all must be 0.
** CLOCK     now_us is the real clock plus skew_us, or with still_us set,
**           still_us plus skew_us; the same holds for wall_s and
**           still_wall_s.  With `jump` set, a sleep or a wait for a condition
**           or a word moves skew_us instead of sleeping; it takes late_us
**           longer than asked.  A wait for another process waits.
** THREADS   Calls may come from any thread.  Arm and read it while none runs.
*/
#ifndef EMB_FAILING_H
#define EMB_FAILING_H

#include <pthread.h>

#include "engine/base/env/env.h"

enum failing_kind {
  FAILING_OPEN,
  FAILING_READ,
  FAILING_WRITE,
  FAILING_SYNC,
  FAILING_SIZE,
  FAILING_TRUNCATE,
  FAILING_RESERVE,
  FAILING_ROOM,
  FAILING_PUNCH,
  FAILING_UNLINK,
  FAILING_RENAME,
  FAILING_LINK,
  FAILING_MAKE_DIR,
  FAILING_REMOVE_DIR,
  FAILING_OPEN_DIR,
  FAILING_SYNC_DIR,
  FAILING_LIST_DIR,
  FAILING_IDENTITY,
  FAILING_LOCK,
  FAILING_QUEUE_OPEN,
  FAILING_QUEUE_SUBMIT,
  FAILING_QUEUE_WAIT,
  FAILING_QUEUE_READ,  /* the completion of one request */
  FAILING_QUEUE_WRITE, /* the same */
  FAILING_RANDOM,
  FAILING_ALLOCATE,
  FAILING_RESIZE,
  FAILING_MAP,
  FAILING_THREAD_START,
  FAILING_PEER,   /* port_open, peer_open, watch_open */
  FAILING_SHARED, /* shared_make */
  FAILING_KINDS
};

_Static_assert(FAILING_KINDS < 32, "a bit for each, and one beyond");

#define FAILING_BIT(kind) (UINT32_C(1) << (kind))
#define FAILING_MEMORY                                                         \
  (FAILING_BIT(FAILING_ALLOCATE) | FAILING_BIT(FAILING_RESIZE) |               \
   FAILING_BIT(FAILING_MAP) | FAILING_BIT(FAILING_SHARED))
/* Calls that may find the disk full. */
#define FAILING_WRITES                                                         \
  (FAILING_BIT(FAILING_OPEN) | FAILING_BIT(FAILING_WRITE) |                    \
   FAILING_BIT(FAILING_SYNC) | FAILING_BIT(FAILING_TRUNCATE) |                 \
   FAILING_BIT(FAILING_MAKE_DIR) | FAILING_BIT(FAILING_SYNC_DIR) |             \
   FAILING_BIT(FAILING_RESERVE) | FAILING_BIT(FAILING_QUEUE_WRITE))
/* Calls that take a descriptor. */
#define FAILING_DESCRIPTORS                                                    \
  (FAILING_BIT(FAILING_OPEN) | FAILING_BIT(FAILING_OPEN_DIR) |                 \
   FAILING_BIT(FAILING_LIST_DIR) | FAILING_BIT(FAILING_LOCK) |                 \
   FAILING_BIT(FAILING_QUEUE_OPEN) | FAILING_BIT(FAILING_PEER) |               \
   FAILING_BIT(FAILING_SHARED))
#define FAILING_IO                                                             \
  ((FAILING_BIT(FAILING_KINDS) - 1) & ~FAILING_MEMORY &                        \
   ~FAILING_BIT(FAILING_THREAD_START))

struct failing {
  struct env env; /* what the engine is given */
  struct env *below;
  int jump;         /* a sleep moves the clock */
  uint64_t late_us; /* and overshoots by this */
  uint64_t still_us;
  uint32_t still_wall_s;
  uint64_t looks;  /* at the clock; lock */
  int64_t skew_us; /* lock */
  uint64_t random; /* state of the generator that orders completions; lock */

  pthread_mutex_t lock;
  uint32_t kinds; /* bits; lock, like all that follows */
  uint64_t nth;   /* 0: none fails */
  int forever;
  int error;

  uint64_t calls; /* of these kinds since arming */
  uint64_t fired; /* how many of them failed */
  enum failing_kind first;
  char first_path[256]; /* of the file, "" where there is none */
  uint64_t resyncs;     /* syncs of a file after a failed one */
  uint64_t sync_calls;  /* of files, successful or not */

  int64_t files, locks, queues, threads, blocks;
};

/* Everything passes; below: usually &env_posix. */
void failing_init(struct failing *, struct env *below, uint64_t seed);
void failing_free(struct failing *);
/* From now on the n-th call (from 1) of these kinds fails, or if forever is
** set all from the n-th on.  n = 0 disarms; the figures of what failed stay. */
void failing_arm(struct failing *, uint32_t kinds, uint64_t n, int forever,
                 int error);
void failing_disarm(struct failing *);
/* Moves the clock forward. */
void failing_pass(struct failing *, uint64_t us);
/* Files, locks, queues, threads and blocks of memory not given back. */
int64_t failing_out(struct failing *);
const char *failing_name(enum failing_kind);

/* ---- failing each call of a test: failing_each.c ------------------------- */

/* What fails, and how. */
struct failing_case {
  const char *name;
  uint32_t kinds;
  int error;
};

enum {
  FAILING_CASE_IO,
  FAILING_CASE_FULL,
  FAILING_CASE_MEMORY,
  FAILING_CASE_DESCRIPTORS,
  FAILING_CASES
};
extern const struct failing_case failing_cases[FAILING_CASES];

/* From the first to the second, f stands between all stores and the operating
** system. */
void failing_begin(struct failing *f);
void failing_end(struct failing *f);

/* One run of a test: arms f with the case and n, and returns 1 if the call
** came.  Lasting: all calls from the n-th on fail. */
typedef int failing_try(uint64_t n, const struct failing_case *how,
                        int forever);
/* Runs it for each call that stacks.h chooses until a check has failed, and
** for one in `lasting` of them again with a lasting failure.  Returns how many
** calls came. */
uint64_t failing_each(const struct failing_case *how, unsigned lasting,
                      failing_try *run);

/* A check in such a run; a failure prints the call that failed, what was
** checked, and a number. */
#define FAILING_CHECK(f_, holds_, n_, what_, is_)                              \
  failing_check((f_), (holds_), __FILE__, __LINE__, (n_), (what_), (is_))
int failing_check(const struct failing *f, int holds, const char *file,
                  int line, uint64_t n, const char *what, int is);
/* All resources are given back. */
#define FAILING_CHECK_OUT(f_, n_)                                              \
  FAILING_CHECK((f_), failing_out(f_) == 0, (n_), "still out are",             \
                (int)failing_out(f_))

#endif
