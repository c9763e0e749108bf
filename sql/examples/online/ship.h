/* SPDX-License-Identifier: MIT
**
** ship.h -- how a serving copy follows the model that trains.
**
**   trainer's database                    directory           copy's database
**   users, items --- ship_export --->  users-<mark> ...   --- ship_apply --->
**   dense ------- ship_export_dense ->  dense         --- ship_apply_dense --->
**
** Rows go as deltas.  Each consumer of a trainer has a directory of its own and
** goes at its own pace.  A file appears in it complete, by rename, before it is
** acknowledged to the trainer's table; and it goes away after the copy's table
** has it.  So after a crash of either side at most a file is made or applied
** once more, which changes nothing: files hold values, are applied in the order
** of their marks, and the copy records which it has.
*/
#ifndef ONLINE_SHIP_H
#define ONLINE_SHIP_H

#include "../../lib/database.h"

struct shipment {
  sqlite3_int64 rows, bytes;
};

/* Makes the directory of a consumer if it is not there. */
void ship_open(const char *directory);

/* Writes the rows of a table that changed since this consumer's last file to a
** new one; none when there are none.  Not inside a transaction. */
struct shipment ship_export(sqlite3 *trainer, const char *table,
                            const char *directory);

/* Applies the files of a table that are there, and removes them. */
struct shipment ship_apply(sqlite3 *copy, const char *table,
                           const char *directory);

/* The same for the dense part, which goes as a whole; the newest replaces one
** that was not fetched. */
void ship_export_dense(sqlite3 *trainer, const char *directory);

/* 1 when there was one. */
int ship_apply_dense(sqlite3 *copy, const char *directory);

#endif
