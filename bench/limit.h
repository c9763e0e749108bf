/* SPDX-License-Identifier: MIT
**
** limit.h -- limits the memory of this process, page cache included, with a
** control group (version 1 or 2, whichever the system has).
*/
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include <stdint.h>

/* Puts the calling process into a new group.  0: not possible here. */
int limit_memory(uint64_t bytes);
/* Peak memory of the group, in bytes. */
uint64_t limit_peak(void);
/* Removes the group of a child that has ended. */
void limit_remove(int process);
/* 1 if limit_memory will work. */
int limit_possible(void);

#endif
