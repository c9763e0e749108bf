/* SPDX-License-Identifier: MIT
**
** join.h -- ext/data/join/: joins requests and their features with the actions
** that follow, and makes training examples of them.
**
** ROLE      Does the work of a stream processor and its queues for a
**           recommender that learns online (Liu et al., "Monolith", 2022, 3.1):
**           a joiner takes events from sources, and gives each request as an
**           example once.
**           Uses SQL only, no store of the engine.  Used by join/create.c and
**           join/tvf.c; a connection keeps the list of its joiners.
** TABLES    A joiner consists of ordinary tables (schema.c), whose names begin
**           with its own.  Only they are authoritative.  Memory holds a copy of
**           part of them (memory.c), and a stamp in `counts` proves the copy
**           current.  Each call writes a new stamp, so that a ROLLBACK, a
**           crash, or a call of another connection is detected and the copy is
**           read again (load.c).
** A CALL    processes all rows of one user query in one transaction, together
**           with the position of its source, requests, actions, states,
**           examples and counts (call.c).  So input that is sent again is
**           processed once.
**
**             request --> waiting --> joined            an action came in time
**                            |           ^
**                            |           | late action, late = 'correct'
**                            v           |
**                      window ends: negative, or dropped by sampling
**
** TIME      Only the events' own times count.  The watermark is the least of
**           the sources' newest times, less `delay`: nothing older is expected.
**           It moves with each event.  How an event is treated depends on the
**           watermark alone, not on how the stream was divided into calls or on
**           how much memory there is; only the order of the examples depends on
**           those.
**             A request at t waits until the watermark reaches t + window, the
**             longest window of a kind.  It is remembered until the watermark
**             reaches t + window + remember, and is then removed.
**             An action at t without a request is kept until the watermark
**             reaches t + early.
** STATES    Two bits a request, by its number (states.c).
** FINDING   Requests are found by id (find.c).  The newest are in two halves of
**           memory with their features (memory.c).  When the younger half is
**           full, the places of the older half, hash and number, go to the
**           table `places` as a run sorted by hash (spill.c).  So all writes
**           are at the end of a table, however many requests wait.  Each run
**           has a filter that rules out ids.
** WEIGHTS   A negative that was kept with probability r = share has
**             weight    1 / r    for a weighted loss, or
**             log_odds  -ln r    for all examples, added to the score in
**                                training only.
**           Keeping negatives at the rate r multiplies the
**           odds p / (1 - p) in the remaining examples by 1 / r, so the score
**           of a model trained on them is too high by -ln r (King and Zeng,
**           "Logistic regression in rare events data", 2001: their prior
**           correction, and their weighting; Monolith's LogitCorrection is the
**           former).  Either one makes the model calibrated; using both is
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

/* Processes the rows of the query.  *examples returns the examples of this
** call; the caller steps through it and finalizes it. */
int ext_join_run(struct ext_joiners *joiners, sqlite3 *db,
                 const struct ext_join_ask *ask, sqlite3_stmt **examples,
                 char **err);
/* An empty list of joiners, or NULL if out of memory.  Free it with
** ext_joiners_free. */
struct ext_joiners *ext_joiners_new(void);
void ext_joiners_free(void *joiners);

#endif
