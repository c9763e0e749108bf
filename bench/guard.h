/* SPDX-License-Identifier: MIT
**
** guard.h -- the eight figures that guard.c compares two builds by.
**
** They use only what the extension has had for long, so that it can be compared
** with an old one.
*/
#ifndef BENCH_GUARD_H
#define BENCH_GUARD_H

#include <stddef.h>

#include "worker.h"

enum {
  GUARD_LOAD,   /* an empty table is filled in the order of its keys */
  GUARD_GET,    /* emb_get, uniform keys, in memory */
  GUARD_ZIPF,   /* the same, Zipf's distribution */
  GUARD_MIXED,  /* a Get and a Put of the same keys by turns */
  GUARD_APPLY,  /* emb_rmw into a table with Adagrad */
  GUARD_SELECT, /* rows by key */
  GUARD_UPDATE, /* rows by key, 1,024 in a transaction */
  GUARD_DISK,   /* emb_get from a table eight times its memory */
  GUARD_FIGURES
};

extern const char *const guard_names[GUARD_FIGURES];
extern const char *const guard_units[GUARD_FIGURES];

struct guard_side {
  const char *extension;
  char directory[512];
  size_t keys;
};

/* A worker that has loaded the extension of this side; an order's `what` is a
** figure, and its answer rows a second. */
void guard_live(struct ends *ends, void *side);

#endif
