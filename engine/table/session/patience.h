/* SPDX-License-Identifier: MIT
**
** patience.h -- how long a session waits for an owner that gives no sign of
** life.  All waits of one statement share an emb_patience (emb.h), so together
** they take no longer than one; a session without one waits that long in each
** call.
**
** STATES of a patience
**
**   fresh    spent_us = 0: a wait may take all of the limit
**   spent    a wait was in vain: what is left is a moment, so that an owner
**            that has just gone on is found.  Fresh again by a sign of life
**            [patience_alive], when the caller says that its statement has
**            ended (spent_us = 0), and when the limit has passed since
**   silent   as long as no owner has given a sign of life since: what ends
**            something (a rollback, a close) waits for a moment, even where it
**            is fresh; the ends of one transaction in several stores of one
**            process wait for one moment together
*/
#ifndef EMB_SESSION_PATIENCE_H
#define EMB_SESSION_PATIENCE_H

#include "session.h"

/* What emb_wait_with has said, once; may be NULL. */
emb_patience *patience_of_thread(void);
/* How long the session's next wait may take. */
uint64_t patience_left_us(const emb_session *s);
/* The same of a call that only ends something, by this process. */
uint64_t patience_end_us(const emb_session *s, int64_t process);
/* What it may take where nothing has been waited for: only then an owner that
** has begun a call is given up. */
uint64_t patience_most_us(const emb_session *s);
/* The process is known not to answer, and the caller asks for its state only
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
