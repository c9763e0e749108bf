/* SPDX-License-Identifier: MIT
**
** nearest.h -- the nearest neighbours of vectors: ask.h has the query; exact.c
** and indexed.c answer it for a table, nearest.c for a snapshot.
*/
#ifndef EMB_NEAREST_H
#define EMB_NEAREST_H

#include "ask.h"

/* exact.c: compares every row of the table. */
int exact__table(const struct ask *ask, struct best *best);
/* indexed.c: compares the rows that an index selects.  *done: 0: the index
** cannot answer, and `best` is incomplete. */
int indexed__table(const struct ask *ask, struct best *best, int *done);
/* As emb_nearest_plan, for the ask's conditions. */
void indexed__plan(const struct ask *ask, emb_search_plan *plan);

#endif
