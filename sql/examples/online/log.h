/* SPDX-License-Identifier: MIT
**
** log.h -- the log of events, in which a server writes and a trainer reads.
**
** An ordinary database: event(id, request, time, kind, features), id from 1 in
** the order in which they came, as emb_join takes them.  A request is what was
** shown at a second of the log's clock, with its features; an event of kind
** 'click' is that this was clicked; one without a request says what time it is.
** ended(requests) has a row when no more will come.  Two processes may have it
** open.
*/
#ifndef ONLINE_LOG_H
#define ONLINE_LOG_H

#include "model.h"

/* What a model needs to know of a request: a BLOB. */
struct features {
  int64_t keys[FIELDS];
  int64_t place;
};

struct log {
  sqlite3 *db;
  sqlite3_stmt *append;
};

void log_open(struct log *log, const char *file);
void log_close(struct log *log);

/* Number of the last request; 0: none. */
sqlite3_int64 log_last_request(struct log *log);

/* Inside a transaction of the caller's.  features: NULL for a click; request: 0
** for a time. */
void log_append(struct log *log, sqlite3_int64 request, sqlite3_int64 time,
                const struct features *features);

#endif
