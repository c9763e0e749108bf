/* SPDX-License-Identifier: MIT
**
** driver.h -- asks a pipeline's policies when to train, and on what.
**
** All state is in the tables of ../schema.sql; policies are the SQL of
** policies.sql.
*/
#ifndef CHANGELOGS_DRIVER_H
#define CHANGELOGS_DRIVER_H

#include <stdint.h>

#include "../../lib/database.h"

/* Takes in what has come before `now`, asks the trigger policy, and writes its
** decision down.  The number of the new trigger; -1: none.  The first time
*there
** always is one. */
int64_t driver_ask(sqlite3 *db, int64_t pipeline, int64_t now);

/* Fills table selection for it; how many were chosen. */
int64_t driver_select(sqlite3 *db, int64_t pipeline, int64_t trigger);

/* 1 if the selection is by the newest model's losses, of table score. */
int driver_wants_scores(sqlite3 *db, int64_t pipeline);

#endif
