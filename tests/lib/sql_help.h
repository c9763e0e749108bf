/* SPDX-License-Identifier: MIT
**
** sql_help.h -- shared by programs that use tables through SQL.
*/
#ifndef EMB_SQL_HELP_H
#define EMB_SQL_HELP_H

#include "test.h"

#include <sqlite3.h>

int sqlite3_emb_init(sqlite3 *db, char **message, const void *api);

/* A connection with the extension that waits ten seconds for others; flags of
** sqlite3_open_v2, besides those to read, write and create. */
sqlite3 *sql_connect(const char *file, int flags);

/* One in memory with the table items(vector FLOAT[1]), whose rows 1 to 3 hold
** their key. */
sqlite3 *sql_connect_items(void);

/* 1 when all statements succeeded. */
int sql_runs(sqlite3 *db, const char *sql);

/* The number in the first column of the first row; INT64_MIN, and a failed
** check, if there is none. */
int64_t sql_integer(sqlite3 *db, const char *sql);

#endif
