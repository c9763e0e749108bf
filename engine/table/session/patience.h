/* SPDX-License-Identifier: MIT
**
** patience.h -- how long a session waits for an unresponsive owner.  All waits
** of one statement share an emb_patience (emb.h), so together they take no
** longer than one wait; a session without an emb_patience waits that long in
** each call.
**
** STATES of a patience
**
**   fresh    spent_us = 0: a wait may take the whole limit
**   spent    a wait was in vain: the rest of the limit is left, at least a
**            moment, so that an owner that has just resumed is found.  Fresh
**            again after a sign of life [patience_alive], when the caller says
**            that its statement has ended (spent_us = 0), or when the limit
**            has passed since the wait
**   silent   no owner has given a sign of life since: calls that end something
**            (a rollback, a close) wait only a moment, even if the patience is
**            fresh; the ends of one transaction in several stores of one
**            process share one moment
*/
#ifndef EMB_SESSION_PATIENCE_H
#define EMB_SESSION_PATIENCE_H

#include "session.h"

/* The patience set by emb_wait_with, returned once; may be NULL. */
emb_patience *patience_of_thread(void);
/* Maximum duration of the session's next wait. */
uint64_t patience_left_us(const emb_session *s);
/* As patience_left_us, for a call that only ends something at `process`. */
uint64_t patience_end_us(const emb_session *s, int64_t process);
/* Maximum duration if nothing has been waited for yet: an owner that has begun
** a call is given up only after this time. */
uint64_t patience_most_us(const emb_session *s);
/* The process is known not to answer, and the caller only asks for its state
** (limit_us): it is not waited for again. */
int patience_is_over(const emb_session *s, int64_t process);
/* A wait for this process was in vain. */
void patience_spend(emb_session *s, int64_t process, uint64_t waited_us);
void patience_spend_of(struct core *core, emb_patience *patience,
                       int64_t process, uint64_t waited_us);
/* An owner has given a sign of life. */
static inline void patience_alive(emb_session *s) {
  if (s->waits.patience &&
      (s->waits.patience->spent_us || s->waits.patience->is_silent)) {
    s->waits.patience->spent_us = 0;
    s->waits.patience->is_silent = 0;
  }
}

#endif
