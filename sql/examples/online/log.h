/* SPDX-License-Identifier: MIT
**
** log.h -- the log of events, written by a server and read by a trainer.
**
** An ordinary database: event(id, request, time, kind, features), with ids
** from 1 in the order of the events, as emb_join requires.  A request is an
** item shown at a second of the log's clock, with its features; an event of
** kind 'click' is a click on it; an event without a request only gives the
** time.  ended(requests) has a row when no more events will come.  Two
** processes may have the log open.
*/
#ifndef ONLINE_LOG_H
#define ONLINE_LOG_H

#include "model.h"

/* The features of a request, stored as a BLOB. */
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

/* Call it inside a transaction.  features: NULL for a click; request: 0 for a
** time. */
void log_append(struct log *log, sqlite3_int64 request, sqlite3_int64 time,
                const struct features *features);

#endif
