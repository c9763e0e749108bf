/* SPDX-License-Identifier: MIT
**
** limit.h -- a limit on the memory of this process, page cache included, by a
** control group of its own (version 1 or 2, as the system has it).
*/
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include <stdint.h>

/* Puts the calling process into a new group.  0: not possible here. */
int limit_memory(uint64_t bytes);
/* The most that the group has used, and how often it was at the limit. */
uint64_t limit_peak(void);
/* Removes the group of a child that has ended. */
void limit_remove(int process);
/* 1 when limit_memory will work. */
int limit_possible(void);

#endif
