/* SPDX-License-Identifier: MIT
**
** guard.h -- the twelve figures by which guard.c compares two builds.
**
** They use only long-standing features of the extension, so that it can be
** compared with an old build.
*/
#ifndef BENCH_GUARD_H
#define BENCH_GUARD_H

#include <stddef.h>

#include "worker.h"

enum {
  GUARD_LOAD,   /* fill an empty table in key order */
  GUARD_RANDOM, /* and in random order */
  GUARD_GET,    /* emb_get, uniform keys, in memory */
  GUARD_ZIPF,   /* the same, Zipf's distribution */
  GUARD_MIXED,  /* alternating Get and Put of the same keys */
  GUARD_FIRST,  /* the same, right after a checkpoint */
  GUARD_APPLY,  /* emb_apply to a table with Adagrad */
  GUARD_SELECT, /* rows by key */
  GUARD_UPDATE, /* rows by key, 1,024 in a transaction */
  GUARD_DISK,   /* emb_get from a table eight times its memory */
  GUARD_MATCH,  /* the 10 nearest of all rows */
  GUARD_CLIENT, /* emb_get in a process that this one serves */
  GUARD_FIGURES
};

extern const char *const guard_names[GUARD_FIGURES];
extern const char *const guard_units[GUARD_FIGURES];

struct guard_side {
  const char *extension;
  char directory[512];
  size_t keys;
};

/* A worker that has loaded this side's extension.  An order's `what` is a
** figure; its answer is rows per second. */
void guard_live(struct ends *ends, void *side);

#endif
