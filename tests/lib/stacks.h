/* SPDX-License-Identifier: MIT
**
** stacks.h -- which calls of a run are failed: one of each call stack.
**
** A run makes thousands of calls that can fail, most of them from a loop that
** has made the same call before.  So one run, in which nothing fails, notes the
** stack of each call, and of all calls with one stack the seed chooses one, to
** fail in a run of its own.
**
** STACK     The functions from the call outward: of SQLite's the nearest five,
**           then ours, up to the one that SQLite called.  What is further out
**           made the same call in another statement.  Without SQLite, the
**           nearest ten.
** GROUP     A statement, say.  A stack fails that no group of the test has had,
**           and some do that are new only in this group.
** AMOUNT    LONG chooses every call, SHARE=n one in n of those chosen.
** THREADS   Calls of several threads are noted in the order in which they come;
**           a run whose order is different fails another call.
*/
#ifndef EMB_TEST_STACKS_H
#define EMB_TEST_STACKS_H

#include <stddef.h>
#include <stdint.h>

/* The number of a call that no run reaches. */
#define STACKS_NEVER INT64_MAX

/* Calls run(arg, STACKS_NEVER, 0), and then run(arg, n, 0) for each chosen
** call, numbered from 1.  Of the stacks new only in this group one in `again`
** fails.  In one of `lasting` cases (0: in none) also run(arg, n, 1) is called,
** in which all later calls fail, too.  Each run says whether its call came.
** Ends early when too many checks have failed.  Returns how many calls came. */
uint64_t stacks_each(const char *group, unsigned again, unsigned lasting,
                     int (*run)(void *arg, uint64_t n, int forever), void *arg);
/* One more call that could fail; does nothing unless calls are being noted. */
void stacks_note(void);

#endif
