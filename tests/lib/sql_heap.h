/* SPDX-License-Identifier: MIT
**
** sql_heap.h -- SQLite's allocations, of which the n-th fails.
**
** SQLite's heap is replaced before its first use, so a test that fails
** allocations calls sql_heap_replace in a constructor.  Each allocation that
** may fail is noted (stacks.h).  Calls may come from any thread.
*/
#ifndef EMB_SQL_HEAP_H
#define EMB_SQL_HEAP_H

#include <stdint.h>

void sql_heap_replace(void);
/* From now on the n-th allocation (from 1) fails, or if forever is set all
** from the n-th on; 0: none. */
void sql_heap_arm(int64_t n, int forever);
/* No further one fails; sql_heap_fired still tells whether one has. */
void sql_heap_disarm(void);
/* 1 when an allocation has failed since sql_heap_arm. */
int sql_heap_fired(void);

#endif
