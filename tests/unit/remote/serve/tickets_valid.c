/* SPDX-License-Identifier: MIT
**
** tickets_valid.c -- each assertion about a session's tickets fires.
*/
#include "death.h"

#include "engine/remote/serve/tickets.h"
#include "engine/table/jobs/job.h"

static struct core core;
static struct link_slot slot;
static struct link link_ = {.slot = &slot, .serial = 7};
static emb_session session;
static struct remote_ticket *flying, *back, *done, *lost;

static struct remote_ticket *add(int kind) {
  struct remote_ticket *t = env_posix.allocate(&env_posix, sizeof *t);
  t->kind = kind;
  tickets__add(&session, t);
  t->serial = session.link->serial;
  t->there = t->number = ++session.tickets.last;
  return t;
}

/* A session whose owner has left, with one ticket ended and one lost, and that
** has begun two more at the next owner. */
static void make(void) {
  core.env = &env_posix;
  session.core = &core;
  session.link = &link_;
  done = add(JOB_READ);
  lost = add(JOB_READ);
  slot.ended[slot.ended_count++] =
      (struct slot_ticket){.ticket = done->there, .code = EMB_OK};
  tickets__left(&session, &link_, 1);
  CHECK_EQ_INT(done->state, TICKET_DONE);
  CHECK_EQ_INT(lost->state, TICKET_LOST);
  link_.serial++;
  flying = add(JOB_READ);
  back = add(JOB_WRITE);
}

TEST(broken_tickets) {
  make();
  CHECK(tickets_valid(&session));
  CHECK_FIRES(flying->kind = JOB_READ + JOB_WRITE + 7; tickets_valid(&session));
  CHECK_FIRES(back->memory.base = &slot; tickets_valid(&session));
  CHECK_FIRES(flying->number = 0; tickets_valid(&session));
  CHECK_FIRES(link_.serial++; tickets_valid(&session));
  CHECK_FIRES(session.link = NULL; tickets_valid(&session));
  CHECK_FIRES(done->code = -1; tickets_valid(&session));
  CHECK_FIRES(done->has_died = 1; tickets_valid(&session));
  CHECK_FIRES(lost->state = (enum ticket_state)7; tickets_valid(&session));
  CHECK_FIRES(back->number = flying->number; tickets_valid(&session));
  CHECK_ALL_FIRED("engine/remote/serve/tickets_valid.c");
  CHECK_FIRES(lost->state = TICKET_FLYING; tickets__end(&session, done));
  tickets__left(&session, &link_, 0);
  tickets__free(&session);
}
