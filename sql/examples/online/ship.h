/* SPDX-License-Identifier: MIT
**
** ship.h -- brings a serving copy up to date with the trainer.
**
**   trainer's database                    directory           copy's database
**   users, items --- ship_export --->  users-<mark> ...   --- ship_apply --->
**   dense ------- ship_export_dense ->  dense         --- ship_apply_dense --->
**
** Rows are sent as deltas.  Each consumer of a trainer has a directory of its
** own and its own pace.  A file appears in the directory complete, by rename,
** before it is acknowledged to the trainer's table; it is removed after the
** copy's table has it.  So after a crash of either side, at most one file is
** made or applied a second time.  That changes nothing: files hold values,
** are applied in the order of their marks, and the copy records which files
** it has.
*/
#ifndef ONLINE_SHIP_H
#define ONLINE_SHIP_H

#include "../../lib/database.h"

struct shipment {
  sqlite3_int64 rows, bytes;
};

/* Makes the directory of a consumer if it does not exist. */
void ship_open(const char *directory);

/* Writes the rows of a table that changed since this consumer's last file to
** a new file; no file if no row changed.  Not inside a transaction. */
struct shipment ship_export(sqlite3 *trainer, const char *table,
                            const char *directory);

/* Applies the files of a table in the directory, and removes them. */
struct shipment ship_apply(sqlite3 *copy, const char *table,
                           const char *directory);

/* The same for the dense part, which is always sent in full; a new file
** replaces an older one that was not fetched. */
void ship_export_dense(sqlite3 *trainer, const char *directory);

/* 1 if there was a file. */
int ship_apply_dense(sqlite3 *copy, const char *directory);

#endif
