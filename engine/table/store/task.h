/* SPDX-License-Identifier: MIT
**
** task.h -- background work as a list of tasks; tasks.c explains how they work
** together.
**
** A task is a constant of the type below, in a file of its feature, and is
** named in the feature's descriptor (feature.h).  emb_stats then shows it.
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
  LANE_WORK,    /* later in the same pass; ckpt_lock */
  LANE_AFTER    /* the same thread, once it has nothing else to do; no lock */
};

/* The result of one run of a task. */
enum outcome {
  PIECE_NONE, /* there was nothing to do */
  PIECE_DONE, /* did something, and has finished */
  PIECE_MORE  /* did something, and more may be left: the list is run again
              ** immediately */
};

/* The state on which background work depends, at one moment. */
struct moment {
  uint64_t tail, first_page;
  int64_t keys;
};

/* One pass over a lane of the list, as its tasks see it. */
struct pass {
  emb_store *store;
  void *state;   /* TASK_STATE words of the current task; zero at first */
  int by_thread; /* 0: by emb_step, whose caller decides when */
  /* In LANE_WORK: */
  int quiet;          /* no version has been given out for a while */
  int unchanged;      /* no writes since a pass found nothing to do */
  int did;            /* a task of this pass did something */
  int is_measured;    /* pass_space was called */
  struct space space; /* and this is its result */
};

struct task {
  const char *name;
  const char *metrics[3]; /* TASK_NAMED sets both */
  enum lane lane;
  /* In LANE_WORK, or NULL: is there a reason for a pass although nothing was
  ** written?  Asked before the first task of the pass runs. */
  int (*wakes)(struct pass *pass);
  /* Is there something to do?  NULL: run finds out. */
  int (*due)(struct pass *pass);
  /* When nothing was written and a pass has found nothing to do: microseconds
  ** until there may be work nevertheless.  NULL: never. */
  uint64_t (*rest)(struct pass *pass);
  /* One bounded piece of work. */
  int (*run)(struct pass *pass, enum outcome *did, emb_err *err);
};
#define TASK_NAMED(text)                                                       \
  .name = (text), .metrics = {"task_" text "_ms_ago", "task_" text "_us",      \
                              "task_" text "_pieces"}

#define TASK_STATE 4

/* The state of one task in one store. */
struct task_slot {
  const struct task *task;
  uint64_t state[TASK_STATE]; /* guarded by its lane's lock */
  /* End and duration of the last run that was due, and number of runs that did
  ** something.  Written by the task's thread, read by emb_stats; relaxed. */
  _Atomic uint64_t ended_us, took_us, pieces;
};

/* The pause after a failed pass of LANE_WORK or LANE_AFTER; the lane's lock. */
struct lane_pause {          /* the passing thread writes and reads; relaxed */
  _Atomic uint32_t failures; /* failed passes since the last success */
  _Atomic uint64_t until_us; /* no pass begins before this time */
};

/* Number of error texts kept: a text that emb_stats returned stays unchanged
** until this many others have followed. */
#define TASK_ERRORS 8

struct tasks {
  struct task_slot *slots; /* in the order in which they run */
  size_t count;
  struct lane_pause pauses[LANE_AFTER + 1]; /* by lane */
  pthread_mutex_t error_lock;
  emb_err errors[TASK_ERRORS];    /* "task: text", a ring; error_lock */
  uint32_t error_at;              /* the newest one; error_lock */
  uint64_t error_count, error_us; /* number, and time of the last; error_lock */
  /* The moment at which a pass found nothing to do; the last version seen, and
  ** when it was first seen.  ckpt_lock. */
  struct moment idle;
  uint64_t seen_version, seen_us;
  uint64_t roused_us; /* when its rest was ended; LANE_WORK's thread only */
};

#endif
