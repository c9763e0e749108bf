/* SPDX-License-Identifier: MIT
**
** fork_help.h -- fork, also under AddressSanitizer.
**
** A child inherits the locks that other threads of its parent hold in the
** sanitizer's allocator, which releases none of them after a fork (GCC 12,
** clang 14); it would wait for them for ever.  test_fork returns only children
** that have tried these locks; a child that waits for one is killed, and
** another is forked.
*/
#ifndef EMB_FORK_HELP_H
#define EMB_FORK_HELP_H

#include <sys/types.h>

/* As fork. */
pid_t test_fork(void);

#endif
