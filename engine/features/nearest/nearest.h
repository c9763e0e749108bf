/* SPDX-License-Identifier: MIT
**
** nearest.h -- the nearest neighbours of vectors: what is asked (ask.h), and
** who answers: exact.c for a table, and nearest.c for a snapshot.
*/
#ifndef EMB_NEAREST_H
#define EMB_NEAREST_H

#include "ask.h"

/* exact.c: every row of the table. */
int exact__table(const struct ask *ask, struct best *best);
/* indexed.c: those that an index says.  *done: 0, it cannot be done so, and
** what best has is not all. */
int indexed__table(const struct ask *ask, struct best *best, int *done);

#endif
