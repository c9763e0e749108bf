/* SPDX-License-Identifier: MIT
**
** strike.h -- a function of the test that runs before each call that changes
** a file or a directory, of the engine and of SQLite: it kills the process
** there, or fails the call.
*/
#ifndef EMB_TESTS_STRIKE_H
#define EMB_TESTS_STRIKE_H

#include "engine/base/env/env.h"

/* 0: the call is carried out.  Otherwise it fails with this errno. */
typedef int strike_function(void);

/* An env that is the operating system's except for the calls that open,
** write, sync, truncate, unlink, rename and link, make and remove directories,
** and submit to a queue.  The same table at every call. */
struct env *strike_engine(strike_function *strike);
/* The calls of SQLite's default VFS that write, truncate and unlink. */
void strike_sqlite(strike_function *strike);

#endif
