/* SPDX-License-Identifier: MIT
**
** step.c -- background work: a bounded piece at a time.
**
** Two threads drive a store, only by calling these functions in a loop: one
** keeps frames free (core_make_room), one checkpoints and compacts.  Without
** threads (EMB_OPEN_STEP) emb_step does both, so a test can run the same code
** in an order that a seed decides.
*/
#include "../life/compact.h"
#include "../life/expire.h"
#include "../life/shorten.h"
#include "job.h"
#include "step.h"

/* The log that recovery would replay is kept shorter than this, or than a
** quarter more than the live data if that is more: a table that is in memory
** as a whole is copied to the tail once after a checkpoint, and then changed
** in place, without a checkpoint that would make it read-only again. */
#define REPLAY_BYTES (UINT64_C(256) << 20)
/* Immediate writes are durable after this time at the latest. */
#define CHECKPOINT_US UINT64_C(60000000)
#define WORK_PAUSE_MS 50
#define QUIET_US UINT64_C(1000000)
#define EXPIRE_US UINT64_C(1000000)
/* Extents that are moved within the file for one checkpoint. */
#define MOVES 1024

/* Bytes of log since the last checkpoint. */
static uint64_t replay_bytes(emb_store *store) {
  struct core *core = &store->core;
  uint64_t tail = atomic_load(&core->log.tail);
  uint64_t replay = store->checkpoint.manifest.replay;
  return tail > replay ? (tail - replay) * core->layout.page_bytes : 0;
}

/* Writes since the last checkpoint have waited long enough. */
static int checkpoint_late(emb_store *store) {
  struct core *core = &store->core;
  const struct manifest *m = &store->checkpoint.manifest;
  uint64_t now = core->env->now_us(core->env);
  if (store->late_generation != m->generation) {
    store->late_generation = m->generation;
    store->late_us = now;
  }
  return !core->temporary &&
         store->checkpoint.version != atomic_load(&core->version) &&
         now - store->late_us > CHECKPOINT_US;
}

/* No version was given out for a while; two looks may follow each other at
** once.  A caller of emb_step says himself when it is time. */
static int quiet(emb_store *store) {
  struct core *core = &store->core;
  uint64_t version = atomic_load(&core->version);
  uint64_t now = core->env->now_us(core->env);
  if (version != store->seen_version) {
    store->seen_version = version;
    store->seen_us = now;
  }
  return core->step_mode || now - store->seen_us >= QUIET_US;
}

static int checkpoint_due(emb_store *store, const struct space *space,
                          int still) {
  uint64_t live = space->live + space->kept_live;
  uint64_t most = live + live / 4;
  most = most > REPLAY_BYTES ? most : REPLAY_BYTES;
  uint64_t replay = replay_bytes(store);
  /* With a transaction open a checkpoint shortens nothing and frees only what
  ** was dead before it began. */
  if (atomic_load(&store->core.txn_first_page) && replay > most) {
    return 0;
  }
  /* A checkpoint makes everything read-only, so while writes go on space is
  ** freed only when there is much of it. */
  if (space_freeable(&store->core, space) &&
      (still || space_urgent(&store->core, space))) {
    return 1;
  }
  return (!store->core.temporary && replay > most) || checkpoint_late(store);
}

/* Moves some extents down in the file and makes that durable. */
int step_shorten(emb_store *store, int *did, emb_err *err) {
  struct core *core = &store->core;
  uint32_t moved = 0;
  if (core->temporary || !shorten_due(core, 0)) {
    return EMB_OK;
  }
  uint64_t bits = core->layout.extent_bits;
  uint64_t replay = store->checkpoint.manifest.replay >> bits;
  int rc =
      shorten_file(core, store->checkpoint.manifest.replay, MOVES, &moved, err);
  /* Extents above replay stand where they are: if it is they that make the file
  ** long, and nothing is being written, a checkpoint lets them be moved. */
  int still = quiet(store) || atomic_load(&store->sessions) == 0;
  int held = still && !moved && replay < atomic_load(&core->log.tail) >> bits &&
             !atomic_load(&core->txn_first_page);
  if (!rc && (moved || held)) {
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
    *did = !rc;
  }
  return rc;
}

/* What background work depends on, as it is now. */
static struct idle look(const emb_store *store) {
  const struct core *core = &store->core;
  return (struct idle){atomic_load(&core->log.tail),
                       atomic_load(&core->txn_first_page),
                       atomic_load(&core->count)};
}

/* Nothing was written or deleted since a look that found nothing to do. */
static int is_idle(const emb_store *store, const struct idle *now) {
  return store->idle.tail == now->tail && store->idle.keys == now->keys &&
         store->idle.first_page == now->first_page;
}

/* The extent whose rows are to expire now, 0: there is none.  Asked for at most
** once a second, except by a caller of emb_step, who says when it is time. */
static uint64_t expiring(emb_store *store, uint32_t *now) {
  struct core *core = &store->core;
  uint64_t us = core->env->now_us(core->env);
  if (!ttl_any(&core->schema.ttl) ||
      (!core->step_mode && us - store->expired_us < EXPIRE_US)) {
    return 0;
  }
  *now = core_time(core);
  uint64_t number = expire_choose(core, *now, expire_slack(core));
  if (!number) {
    store->expired_us = us;
  }
  return number;
}

/* Is a round to be begun, or to be gone on with?  One that found nothing to
** remove is followed by another when something was written or deleted, or a
** transaction began or ended. */
static int evicting(emb_store *store) {
  return store->evict.count ||
         (evict_over(&store->core, 0) &&
          (store->evict_idle.version != atomic_load(&store->core.version) ||
           store->evict_idle.first_page !=
               atomic_load(&store->core.txn_first_page)));
}

static int evict_some(emb_store *store, int *did, emb_err *err) {
  struct evict *round = &store->evict;
  struct evict_idle idle = {atomic_load(&store->core.version),
                            atomic_load(&store->core.txn_first_page)};
  uint64_t removed = 0;
  int ended;
  int rc =
      evict_piece(&store->core, store->work_slot, round, &removed, &ended, err);
  store->evict_idle =
      ended && !round->removed ? idle : (struct evict_idle){0, 0};
  *did |= !rc;
  return rc;
}

int step_work(emb_store *store, int *more, emb_err *err) {
  struct core *core = &store->core;
  struct space space;
  int did = 0, rc = EMB_OK;
  *more = 0;
  if (!atomic_load(&store->owner) || atomic_load(&store->in_doubt) ||
      atomic_load(&core->log.failed)) {
    return EMB_OK;
  }
  pthread_mutex_lock(&core->ckpt_lock);
  if (snapshots_reap(core, &store->snapshots)) {
    store->idle.tail = 0; /* there is something to free */
  }
  int still = quiet(store);
  /* Before anything is measured: a commit that ends meanwhile changes it. */
  struct idle now = look(store);
  uint32_t time = 0;
  uint64_t due = expiring(store, &time), removed = 0;
  if (is_idle(store, &now) && !checkpoint_late(store) && !due &&
      !evicting(store)) {
    pthread_mutex_unlock(&core->ckpt_lock);
    return EMB_OK;
  }
  if (due) {
    rc = expire_extent(core, store->work_slot, due, time,
                       time - expire_slack(core) + 1, &removed, err);
    did = !rc;
  }
  if (!rc && evicting(store)) {
    rc = evict_some(store, &did, err);
  }
  int forgot = did;
  space_measure(core, &space);
  if (!rc && space_wasted(core, &space)) {
    rc = compact_one(core, store->work_slot, 0, &did, err);
    did |= forgot;
  }
  if (!rc && checkpoint_due(store, &space, still)) {
    uint64_t freed = store->checkpoint.manifest.generation;
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
    did |= store->checkpoint.manifest.generation != freed &&
           store->checkpoint.dead_bytes > 0;
  } else if (!rc && !did) {
    rc = step_shorten(store, &did, err);
  }
  if (!did && !rc && still) {
    store->idle = now;
  }
  pthread_mutex_unlock(&core->ckpt_lock);
  *more = did && !rc;
  return rc;
}

int step_flush(emb_store *store, int *more, emb_err *err) {
  int did = 0;
  int rc = core_make_room(&store->core, store->flush_slot, &did, err);
  *more = did && !rc;
  return rc;
}

int emb_step(emb_store *store, int *more) {
  int more_flush = 0, more_jobs = 0, more_work = 0;
  int rc = store_check(store, NULL);
  rc = rc ? rc : step_flush(store, &more_flush, NULL);
  rc = rc ? rc : job_step(store, &more_jobs, NULL);
  rc = rc ? rc : step_work(store, &more_work, NULL);
  *more = more_flush | more_jobs | more_work;
  return rc;
}

/* core->step: for a call that waits in a store without threads. */
int step_once(struct core *core, int *more, emb_err *err) {
  return step_flush((emb_store *)(void *)core, more, err);
}

/* ---- threads ----------------------------------------------------------- */

void step_flush_thread(void *arg) {
  emb_store *store = arg;
  struct core *core = &store->core;
  pthread_mutex_lock(&core->wake_lock);
  while (!core->stopping) {
    if (!core->work_wanted) {
      core_wait_ms(core, &core->wake, &core->wake_lock, 500);
    }
    core->work_wanted = 0;
    int more = !core->stopping;
    pthread_mutex_unlock(&core->wake_lock);
    while (more) {
      step_flush(store, &more, NULL);
    }
    pthread_mutex_lock(&core->wake_lock);
  }
  pthread_mutex_unlock(&core->wake_lock);
}

void step_work_thread(void *arg) {
  emb_store *store = arg;
  struct core *core = &store->core;
  pthread_mutex_lock(&core->wake_lock);
  while (!core->stopping) {
    core_wait_ms(core, &core->work, &core->wake_lock, WORK_PAUSE_MS);
    int more = !core->stopping;
    pthread_mutex_unlock(&core->wake_lock);
    if (more && step_work(store, &more, NULL)) {
      more = 0;
    }
    pthread_mutex_lock(&core->wake_lock);
    if (more) {
      /* Straight on, but let others have the locks. */
      pthread_mutex_unlock(&core->wake_lock);
      while (more && !step_stopping(core) &&
             step_work(store, &more, NULL) == EMB_OK) {
      }
      pthread_mutex_lock(&core->wake_lock);
    }
  }
  pthread_mutex_unlock(&core->wake_lock);
}

int step_stopping(struct core *core) {
  pthread_mutex_lock(&core->wake_lock);
  int stopping = core->stopping;
  pthread_mutex_unlock(&core->wake_lock);
  return stopping;
}
