/* SPDX-License-Identifier: MIT
**
** asked.h -- a sample of the queries that were asked, kept with the index: the
** recall is measured on them as well as on rows of the table (measure.c),
** because queries may lie where there are few rows.
**
** SAMPLE   The first ASKED_KEPT queries.  Then one query in ASKED_EACH replaces
**          a random one: the sample covers some thousands of the latest.
** THREADS  Any thread notes queries; the lock is held for one copy.
*/
#ifndef EMB_NEAREST_ASKED_H
#define EMB_NEAREST_ASKED_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/env/env.h"
#include "engine/base/spin.h"

#define ASKED_KEPT 512
#define ASKED_EACH 8

struct asked { /* of one vector of the rows */
  spin_lock lock;
  float *at;     /* ASKED_KEPT queries; NULL until the first; lock */
  uint32_t n;    /* lock */
  uint64_t seen; /* queries, in all; lock */
};

/* Notes some of n queries.  Without memory for the sample, none. */
void asked__note(struct asked *asked, struct env *env, const float *queries,
                 size_t n, uint32_t dim);
/* Copies the sample, at most ASKED_KEPT queries, and returns their number. */
uint32_t asked__copy(struct asked *asked, float *to, uint32_t dim);
/* Replaces the sample by that of a file. */
void asked__set(struct asked *asked, struct env *env, const float *from,
                uint32_t n, uint32_t dim);
uint64_t asked__seen(struct asked *asked);
/* Bytes of memory used. */
uint64_t asked__bytes(struct asked *asked, uint32_t dim);
void asked__free(struct asked *asked, struct env *env);

#endif
