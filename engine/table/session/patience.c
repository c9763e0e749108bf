/* SPDX-License-Identifier: MIT
**
** patience.c -- see patience.h.
**
** THREADS  One at a time of the sessions that share the patience.
*/
#include "patience.h"

#define LEAST_US 1000000 /* minimum before an owner counts as stopped */
#define MOMENT_US 50000  /* a running owner responds within this time; */
#define AGAIN_US 1000    /* the time for an owner that has just had MOMENT_US */

static uint64_t most_us(uint64_t timeout_us) {
  return timeout_us > LEAST_US ? timeout_us : LEAST_US;
}

uint64_t patience_most_us(const emb_session *s) {
  return most_us(session_timeout_us(s));
}

static uint64_t left_us(struct env *env, const emb_patience *p, uint64_t most) {
  uint64_t limit = p && p->limit_us ? p->limit_us : most;
  if (!p || !p->spent_us || env->now_us(env) - p->since_us >= limit) {
    return limit;
  }
  return p->spent_us + MOMENT_US < limit ? limit - p->spent_us : MOMENT_US;
}

uint64_t patience_left_us(const emb_session *s) {
  return left_us(s->core->env, s->waits.patience, patience_most_us(s));
}

uint64_t patience_end_us(const emb_session *s, int64_t process) {
  const emb_patience *p = s->waits.patience;
  struct env *env = s->core->env;
  if (!p || !p->is_silent) {
    return patience_left_us(s);
  }
  return process && p->process == process &&
                 env->now_us(env) - p->since_us < MOMENT_US
             ? AGAIN_US
             : MOMENT_US;
}

int patience_is_over(const emb_session *s, int64_t process) {
  const emb_patience *p = s->waits.patience;
  return p && p->limit_us && p->spent_us >= p->limit_us && p->process &&
         p->process == process;
}

void patience_spend_of(struct core *core, emb_patience *p, int64_t process,
                       uint64_t waited_us) {
  if (p) {
    p->spent_us += waited_us;
    p->since_us = core->env->now_us(core->env);
    p->is_silent = 1;
    p->process = process;
  }
}

void patience_spend(emb_session *s, int64_t process, uint64_t waited_us) {
  patience_spend_of(s->core, s->waits.patience, process, waited_us);
}

/* Taken by the first call that may wait.  A call on a store that this process
** owns leaves it in place, until the next emb_wait_with. */
static _Thread_local emb_patience *of_thread;

void emb_wait_with(emb_patience *patience) { of_thread = patience; }

emb_patience *patience_of_thread(void) {
  emb_patience *patience = of_thread;
  of_thread = NULL;
  return patience;
}

void emb_session_patience(emb_session *session, emb_patience *patience) {
  session->waits.patience = patience;
}
