/* SPDX-License-Identifier: MIT
**
** advice.c -- how effective the memory is, and what twice as much would save.
**
** Sessions count reads of keys that exist; cache/ghost.c counts the reads from
** disk that twice the memory would have saved.  Recent numbers are the
** difference from a sample one to two PERIODs old, so that neither the warm-up
** of a table nor last week's work distorts them.
**
** THREADS   Any; advice.lock.
*/
#include "advice.h"
#include "engine/table/jobs/tasks.h"
#include "engine/table/store/metrics.h"

struct advice_sample { /* metrics at one moment, since the open */
  uint64_t us, reads, hits, spared;
};

struct advice {
  pthread_mutex_t lock;
  struct advice_sample old, last; /* lock */
};

static struct advice *advice_of(const emb_store *store) {
  return store->features[FEATURE_memory];
}

#define PERIOD_US UINT64_C(30000000)
/* Fewer reads give no advice. */
#define READS_MIN 1000
#define ENOUGH 990 /* thousandths: hardly any reads left to save */
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
  struct advice *advice = advice_of(store);
  struct advice_sample now = advice_look(store);
  pthread_mutex_lock(&advice->lock);
  advice->old = advice->last = now;
  pthread_mutex_unlock(&advice->lock);
}

/* ---- the task ------------------------------------------------------------ */

static int advice_due(struct pass *pass) {
  struct advice *advice = advice_of(pass->store);
  struct env *env = pass->store->core.env;
  pthread_mutex_lock(&advice->lock);
  uint64_t last = advice->last.us;
  pthread_mutex_unlock(&advice->lock);
  return env->now_us(env) - last >= PERIOD_US;
}

static int advice_run(struct pass *pass, enum outcome *did, emb_err *err) {
  struct advice *advice = advice_of(pass->store);
  struct advice_sample now = advice_look(pass->store);
  (void)err;
  pthread_mutex_lock(&advice->lock);
  if (now.us - advice->last.us >= PERIOD_US) { /* no other thread has done it */
    advice->old = advice->last;
    advice->last = now;
    *did = PIECE_DONE;
  }
  pthread_mutex_unlock(&advice->lock);
  return EMB_OK;
}

/* After a period without reads there is nothing to record until the next call.
** A client reads nothing here. */
static uint64_t advice_rest(struct pass *pass) {
  struct advice *advice = advice_of(pass->store);
  struct advice_sample now = advice_look(pass->store);
  pthread_mutex_lock(&advice->lock);
  struct advice_sample old = advice->old, last = advice->last;
  pthread_mutex_unlock(&advice->lock);
  int is_idle = now.reads == last.reads && last.reads == old.reads &&
                !tasks_were_roused(pass->store, now.us);
  if (is_idle || atomic_load(&pass->store->remote.links)) {
    return TASKS_NEVER;
  }
  return now.us - last.us < PERIOD_US ? PERIOD_US - (now.us - last.us) : 0;
}

static const struct task task_advice = {
    TASK_NAMED("advice"), .lane = LANE_AFTER, .due = advice_due,
    .rest = advice_rest,  .run = advice_run,
};

/* ---- for emb_stats ------------------------------------------------------- */

static int64_t to_thousandths(uint64_t part, uint64_t all) {
  part = part < all ? part : all;
  return all ? (int64_t)((part * 1000 + all / 2) / all) : -1;
}

/* A rate of -1: there were no reads.  Both rates cover the last 30 to 60
** seconds; `twice` is the rate with twice the memory. */
static const char *advice_text(uint64_t reads, int64_t recent, int64_t twice) {
  return reads < READS_MIN  ? "too few reads to tell"
         : recent >= ENOUGH ? "enough: nearly all reads are served from memory"
         : twice - recent >= GAIN
             ? "more: twice the memory would save many reads from disk"
             : "twice the memory would change little";
}

static void advice_metrics(emb_store *store, struct metrics *to) {
  struct advice *advice = advice_of(store);
  struct advice_sample now = advice_look(store);
  pthread_mutex_lock(&advice->lock);
  struct advice_sample old = advice->old;
  pthread_mutex_unlock(&advice->lock);
  uint64_t reads = now.reads - old.reads, hits = now.hits - old.hits;
  int64_t recent = to_thousandths(hits, reads);
  int64_t twice = to_thousandths(hits + (now.spared - old.spared), reads);
  metric_number(to, "hit_permille",
                (uint64_t)to_thousandths(now.hits, now.reads));
  metric_number(to, "hit_permille_recent", (uint64_t)recent);
  metric_number(to, "hit_permille_twice_memory", (uint64_t)twice);
  metric_text(to, "memory_advice", advice_text(reads, recent, twice));
}

/* ---- the feature --------------------------------------------------------- */

static int advice_init(emb_store *store, emb_err *err) {
  (void)err;
  pthread_mutex_init(&advice_of(store)->lock, NULL);
  return EMB_OK;
}

const struct feature feature_memory = {
    .name = "memory",
    .state_bytes = sizeof(struct advice),
    .tasks = FEATURE_TASKS(&task_advice),
    .init = advice_init,
    .metrics = advice_metrics,
};
