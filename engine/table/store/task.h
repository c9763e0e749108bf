/* SPDX-License-Identifier: MIT
**
** task.h -- background work as a list of tasks; how they work together is in
** tasks.c.
**
** A task is a constant of the type below, in a file of its feature, and one
** name in the descriptor of that (feature.h).  emb_stats then shows it.
*/
#ifndef EMB_STORE_TASK_H
#define EMB_STORE_TASK_H

#include "engine/storage/kernel/core.h"
#include "engine/emb.h"
#include "engine/storage/kernel/space.h"

/* Where the tasks of the list run, and under which lock. */
enum lane {
  LANE_FLUSH,   /* the thread that keeps frames free; no lock */
  LANE_RELEASE, /* first in a pass of the other thread; ckpt_lock */
  LANE_WORK,    /* what follows in it; ckpt_lock */
  LANE_AFTER    /* the same thread, when that has nothing more to do; no lock */
};

/* What one run of a task did. */
enum outcome {
  PIECE_NONE, /* there was nothing to do */
  PIECE_DONE, /* something, and that is all */
  PIECE_MORE  /* something, and there may be more: the list is gone through
              ** again at once */
};

/* What background work depends on, at one moment. */
struct moment {
  uint64_t tail, first_page;
  int64_t keys;
};

/* One pass over a lane of the list, as its tasks see it. */
struct pass {
  emb_store *store;
  void *state; /* TASK_STATE words of the task that is asked; zeros at first */
  int by_thread; /* not by emb_step, whose caller says when it is time */
  /* In LANE_WORK: */
  int quiet;          /* no version was given out for a while */
  int unchanged;      /* nothing was written since a pass found nothing to do */
  int did;            /* a task of this pass did something */
  int is_measured;    /* pass_space was asked */
  struct space space; /* and this is what it found */
};

struct task {
  const char *name;
  const char *metrics[3]; /* TASK_NAMED sets both */
  enum lane lane;
  /* In LANE_WORK, or NULL: is this a reason for a pass although nothing was
  ** written?  Asked before the first task of the pass runs. */
  int (*wakes)(struct pass *pass);
  /* Is there something to do?  NULL: run finds out. */
  int (*due)(struct pass *pass);
  /* Nothing was written, and a pass has found nothing to do: microseconds
  ** until there may be something all the same.  NULL: never. */
  uint64_t (*rest)(struct pass *pass);
  /* One bounded piece of work. */
  int (*run)(struct pass *pass, enum outcome *did, emb_err *err);
};
#define TASK_NAMED(text)                                                       \
  .name = (text), .metrics = {"task_" text "_ms_ago", "task_" text "_us",      \
                              "task_" text "_pieces"}

#define TASK_STATE 4

/* Of one task in one store. */
struct task_slot {
  const struct task *task;
  uint64_t state[TASK_STATE]; /* the lock of its lane */
  /* Of the last run that was due, and how many did something.  Written by the
  ** task's thread, read by emb_stats; relaxed. */
  _Atomic uint64_t ended_us, took_us, pieces;
};

/* After a pass of a lane that failed, of LANE_WORK or LANE_AFTER; the lock of
** the lane. */
struct lane_pause {          /* who makes a pass writes and reads; relaxed */
  _Atomic uint32_t failures; /* passes that failed since one that did not */
  _Atomic uint64_t until_us; /* the thread makes none before that */
};

/* Errors whose texts are kept: one that emb_stats gave out stays as it is until
** so many others have come. */
#define TASK_ERRORS 8

struct tasks {
  struct task_slot *slots; /* in the order in which they run */
  size_t count;
  struct lane_pause pauses[LANE_AFTER + 1]; /* by lane */
  pthread_mutex_t error_lock;
  emb_err errors[TASK_ERRORS]; /* "task: text", round and round; error_lock */
  uint32_t error_at;           /* the newest one; error_lock */
  uint64_t error_count, error_us; /* how often, and when; error_lock */
  /* When a pass found nothing to do, and which version was seen first when;
  ** ckpt_lock. */
  struct moment idle;
  uint64_t seen_version, seen_us;
  uint64_t roused_us; /* when its rest was ended; the thread of LANE_WORK */
};

#endif
