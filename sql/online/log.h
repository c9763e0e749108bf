/* SPDX-License-Identifier: MIT
**
** log.h -- the log of clicks, in which a server writes and a trainer reads.
**
** An ordinary database: click(id, hour, user, item, place, clicked), id from 1
** in the order in which they came, and ended(clicks) with a row when no more
** will come.  Two processes may have it open.
*/
#ifndef ONLINE_LOG_H
#define ONLINE_LOG_H

#include "model.h"

struct log {
  sqlite3 *db;
  sqlite3_stmt *append, *read;
};

void log_open(struct log *log, const char *file);
void log_close(struct log *log);

/* Id of the last click; 0: none. */
sqlite3_int64 log_last(struct log *log);

/* Inside a transaction of the caller's. */
void log_append(struct log *log, sqlite3_int64 id, double hour,
                const struct batch *batch, size_t n);

/* The clicks after an id, at most BATCH.  hour: of the last of them. */
void log_read(struct log *log, sqlite3_int64 after, struct batch *batch,
              double *hour);

#endif
