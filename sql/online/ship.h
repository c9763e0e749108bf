/* SPDX-License-Identifier: MIT
**
** ship.h -- how a serving copy follows the model that trains.
**
**   trainer                           directory            copy
**   users, items - ship_export -----> users-<version> ... - ship_apply ---->
**   dense -------- ship_export_dense > dense ------- ship_apply_dense ----->
**
** Each consumer of a trainer has a directory of its own and goes at its own
** pace.  A file appears in it complete, by rename, before the trainer's
** database says that the consumer has it; and it goes away after the copy's
** database has it.  So after a crash of either side at most a file is made or
** applied once more.  That does no harm: files hold values, not changes, and
** are applied in the order of their versions.
**
** What a file of rows is, and how to find what changed, is in ship_export and
** ship_apply and known nowhere else.
*/
#ifndef ONLINE_SHIP_H
#define ONLINE_SHIP_H

#include "../lib/database.h"

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
