/* SPDX-License-Identifier: MIT
**
** join.h -- ext/data/join/: requests with their features, the actions that
** follow, and the training examples that they become.
**
** ROLE      What a stream processor and its queues do for a recommender that
**           learns online (Liu et al., "Monolith", 2022, 3.1): a joiner takes
**           events from sources, and gives each request as an example once.
**           Uses SQL only, no store of the engine.  Used by join/create.c and
**           join/tvf.c; a connection keeps the list of its joiners.
** TABLES    A joiner is ordinary tables (schema.c), whose names begin with its
**           own.  They are the only truth; memory holds a copy of part of them
**           (memory.c), and a stamp in `counts` proves the copy current.  Each
**           call writes a new stamp, so that a ROLLBACK, a crash, or a call of
**           another connection is detected and the copy is read again
**           (load.c).
** A CALL    takes in all rows of one user query, in one transaction: the
**           position of its source, requests, actions, states, examples and
**           counts (call.c).  So input that is sent again is taken in once.
**
**             request --> waiting --> joined            an action came in time
**                            |           ^
**                            |           | late action, late = 'correct'
**                            v           |
**                      window ends: negative, or dropped by sampling
**
** TIME      Only the events' own.  The watermark is the least of the sources'
**           newest times, less `delay`: nothing older is expected.  It moves
**           with each event.  How an event is treated depends on the watermark
**           alone, not on how the stream was divided into calls or on how much
**           memory there is; only the order of the examples depends on those.
**           A request at t
**             waits until the watermark reaches t + window, the longest kind's,
**             is known until it reaches that + remember, and is then removed,
**           and an action at t without a request until it reaches t + early.
** STATES    Two bits each, by number of request (states.c).
** FINDING   A request by its id (find.c): the newest are in two halves of
**           memory with their features (memory.c).  When one is full, the other
**           one's places, hash and number, go to the table `places`, as a run
**           sorted by hash (spill.c): all writes are at a table's end, whatever
**           waits.  A filter per run says where an id is not.
** WEIGHTS   Of a negative that was kept with probability r = share:
**             weight    1 / r    for a loss that is weighted, or
**             log_odds  -ln r    to be added to the score in training only,
**           for all examples.  Keeping negatives at the rate r multiplies the
**           odds p / (1 - p) in the remaining examples by 1 / r, so the score
**           of a model trained on them is too high by -ln r (King and Zeng,
**           "Logistic regression in rare events data", 2001: their prior
**           correction, and their weighting; Monolith's LogitCorrection is the
**           former).  Either makes the model calibrated; both together are
**           wrong.
** FAILURE   A failed call leaves tables and sources unchanged, and discards the
**           copy in memory.
** THREADS   Those of a connection.
*/
#ifndef EMB_EXT_JOIN_H
#define EMB_EXT_JOIN_H

#include "ext/conn/conn.h"

/* emb_join, and the functions that create and drop its tables [create.c]. */
int ext_join_register(struct ext_conn *conn);
int ext_join_tables_register(struct ext_conn *conn);

/* The joiners a connection has used: its client data "emb_join". */
struct ext_joiners;

/* Arguments of emb_join; batch may be NULL. */
struct ext_join_ask {
  sqlite3_value *joiner, *source, *query, *batch;
};

/* Creates the tables of a joiner; it is an error if they exist. */
int ext_join_create(sqlite3 *db, sqlite3_value *joiner, char **err);
int ext_join_drop(sqlite3 *db, sqlite3_value *joiner, char **err);

/* Takes in what the query gives.  *examples: to be stepped through for those
** that this gave, and then finalized. */
int ext_join_run(struct ext_joiners *joiners, sqlite3 *db,
                 const struct ext_join_ask *ask, sqlite3_stmt **examples,
                 char **err);
/* An empty list of joiners, or NULL if out of memory.  Free it with
** ext_joiners_free. */
struct ext_joiners *ext_joiners_new(void);
void ext_joiners_free(void *joiners);

#endif
