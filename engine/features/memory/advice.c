/* SPDX-License-Identifier: MIT
**
** advice.c -- how well the memory serves, and what twice as much would do.
**
** Reads of keys that are there are counted by the sessions; those from disk
** that twice the memory would have spared, by cache/ghost.c.  What is recent is
** the difference to a sample that is one to two PERIODs old, so that neither
** the time in which a table became warm nor last week's work says anything of
** now.
**
** THREADS   Any; advice.lock.
*/
#include "advice.h"
#include "engine/table/jobs/tasks.h"

#define PERIOD_US UINT64_C(30000000)
/* Fewer say nothing. */
#define READS_MIN 1000
#define ENOUGH 990 /* thousandths: hardly anything is left to spare */
#define GAIN 20

static struct advice_sample advice_look(emb_store *store) {
  struct core *core = &store->core;
  uint64_t tally[TALLIES];
  session_tallies(store, tally);
  uint64_t hits = tally[TALLY_MEMORY] + atomic_load(&core->counters.get_cache);
  return (struct advice_sample){core->env->now_us(core->env),
                                hits + tally[TALLY_DISK], hits,
                                atomic_load(&core->ghosts.spared)};
}

void advice__begin(emb_store *store) {
  struct advice *advice = &store->advice;
  struct advice_sample now = advice_look(store);
  pthread_mutex_lock(&advice->lock);
  advice->old = advice->last = now;
  pthread_mutex_unlock(&advice->lock);
}

/* ---- the task ------------------------------------------------------------ */

static int advice_due(struct pass *pass) {
  struct advice *advice = &pass->store->advice;
  struct env *env = pass->store->core.env;
  pthread_mutex_lock(&advice->lock);
  uint64_t last = advice->last.us;
  pthread_mutex_unlock(&advice->lock);
  return env->now_us(env) - last >= PERIOD_US;
}

static int advice_run(struct pass *pass, enum outcome *did, emb_err *err) {
  struct advice *advice = &pass->store->advice;
  struct advice_sample now = advice_look(pass->store);
  (void)err;
  pthread_mutex_lock(&advice->lock);
  if (now.us - advice->last.us >= PERIOD_US) { /* not another one meanwhile */
    advice->old = advice->last;
    advice->last = now;
    *did = PIECE_DONE;
  }
  pthread_mutex_unlock(&advice->lock);
  return EMB_OK;
}

/* Where nothing was read for a period there is nothing to note, until the next
** call; a client reads nothing here. */
static uint64_t advice_rest(struct pass *pass) {
  struct advice *advice = &pass->store->advice;
  struct advice_sample now = advice_look(pass->store);
  pthread_mutex_lock(&advice->lock);
  struct advice_sample old = advice->old, last = advice->last;
  pthread_mutex_unlock(&advice->lock);
  int is_idle = now.reads == last.reads && last.reads == old.reads &&
                !tasks_were_roused(pass->store, now.us);
  if (is_idle || atomic_load(&pass->store->served)) {
    return TASKS_NEVER;
  }
  return now.us - last.us < PERIOD_US ? PERIOD_US - (now.us - last.us) : 0;
}

const struct task task_advice = {
    TASK_NAMED("advice"), .lane = LANE_AFTER, .due = advice_due,
    .rest = advice_rest,  .run = advice_run,
};

/* ---- what is said -------------------------------------------------------- */

static int64_t thousandths(uint64_t part, uint64_t all) {
  part = part < all ? part : all;
  return all ? (int64_t)((part * 1000 + all / 2) / all) : -1;
}

static const char *advise(uint64_t reads, const struct advice_metrics *f) {
  return reads < READS_MIN ? "too few reads to say"
         : f->hits_recent >= ENOUGH
             ? "enough: nearly everything that is read is in memory"
         : f->hits_twice - f->hits_recent >= GAIN
             ? "more: twice the memory would spare many reads from disk"
             : "twice the memory would change little";
}

void advice_metrics(emb_store *store, struct advice_metrics *f) {
  struct advice *advice = &store->advice;
  struct advice_sample now = advice_look(store);
  pthread_mutex_lock(&advice->lock);
  struct advice_sample old = advice->old;
  pthread_mutex_unlock(&advice->lock);
  uint64_t reads = now.reads - old.reads, hits = now.hits - old.hits;
  f->hits = thousandths(now.hits, now.reads);
  f->hits_recent = thousandths(hits, reads);
  f->hits_twice = thousandths(hits + (now.spared - old.spared), reads);
  f->text = advise(reads, f);
}
