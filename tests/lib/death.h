/* SPDX-License-Identifier: MIT
**
** death.h -- death tests: proofs that an assertion fires.
**
** A test of `tests/unit/<folder>/<name>_valid.c` makes a valid structure, then
** breaks one field at a time, each in a child process:
**
**     CHECK(lease_valid(&leases));
**     CHECK_FIRES(leases.used++; lease_valid(&leases));
**     CHECK_ALL_FIRED("engine/table/session/lease_valid.c");
**
** Programs of this name are only built in variants that check themselves
** (engine/base/debug.h): elsewhere nothing fires.
*/
#ifndef EMB_TEST_DEATH_H
#define EMB_TEST_DEATH_H

#include "test.h"

/* The statements, run in a child process, end in an assertion. */
#define CHECK_FIRES(...)                                                       \
  do {                                                                         \
    if (death_fork()) {                                                        \
      __VA_ARGS__;                                                             \
      death_survived();                                                        \
    }                                                                          \
    death_check(#__VA_ARGS__, __FILE__, __LINE__);                             \
  } while (0)

/* Each assertion of this source file fired in one of the checks before. */
#define CHECK_ALL_FIRED(path) death_check_all(path, __FILE__, __LINE__)

/* Returns 1 in the child, whose messages the parent reads. */
int death_fork(void);
/* Ends the child, in which nothing fired. */
_Noreturn void death_survived(void);
/* Waits for the child, and notes the place of the assertion that ended it. */
void death_check(const char *what, const char *file, int line);
/* What the last child wrote to stderr: place, function, and condition. */
const char *death_text(void);
void death_check_all(const char *path, const char *file, int line);

#endif
