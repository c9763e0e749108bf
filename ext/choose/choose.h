/* SPDX-License-Identifier: MIT
**
** choose.h -- ext/choose/: the functions that choose what to train on.
**
** ROLE      Take values of SQL, hand them to what computes in the engine
**           (engine/choose/, through emb.h), and make its answer a result.  No
**           table, no file: INNOCUOUS and DETERMINISTIC, both entry points of
**           the extension have them.
** FILES     random.c (emb_random), choose.c (registers all).
** THREADS   No state.
*/
#ifndef EMB_EXT_CHOOSE_H
#define EMB_EXT_CHOOSE_H

#include "../tvf/tvf.h"

#define CHOOSE_FLAGS (SQLITE_UTF8 | SQLITE_INNOCUOUS | SQLITE_DETERMINISTIC)

/* Registers all of them on a connection.  Returns an SQLite code. */
int ext_choose_register(sqlite3 *db);

/* The parts of it, each in a file of its own. */
int ext_choose_random_register(sqlite3 *db);

#endif
