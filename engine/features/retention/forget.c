/* SPDX-License-Identifier: MIT
**
** forget.c -- removes rows on request, or because a writer finds too many.  The
** background counterpart is task_rows.c.
*/
#include "forget.h"
#include "engine/table/jobs/begin.h"

#include "evict.h"
#include "expire.h"

/* Maximum number of extents a writer processes. */
#define PIECES 4
#define HELP_PART 16
#define WAIT_PART 8

int local_expire(emb_session *s, uint64_t *removed) {
  struct core *core = s->core;
  struct expire_pass pass = {.extent = 1};
  int rc = begin_work(s, "expire");
  while (!rc && pass.extent) {
    rc = session_lock(s, &core->ckpt_lock);
    if (rc) {
      break;
    }
    pass.now = core_time(core);
    pass.retry = pass.now + 1;
    pass.extent =
        ttl_any(&core->schema.ttl) ? expire__choose(core, pass.now, 0) : 0;
    rc = pass.extent ? expire__extent(core, s->store->work_slot, &pass, &s->err)
                     : EMB_OK;
    pthread_mutex_unlock(&core->ckpt_lock);
    rc = rc ? rc : session_interrupted(s);
  }
  if (removed) {
    *removed = pass.removed;
  }
  return rc;
}

int local_evict(emb_session *s, uint64_t *removed) {
  struct core *core = s->core;
  struct evict *round = evict_of(s->store);
  uint64_t gone = 0;
  int in_vain = 0, rc = begin_work(s, "evict");
  while (!rc && !in_vain && evict__over(core, 0)) {
    rc = session_lock(s, &core->ckpt_lock);
    if (rc) {
      break;
    }
    rc = evict__piece(core, s->store->work_slot, round, &gone, &in_vain,
                      &s->err);
    pthread_mutex_unlock(&core->ckpt_lock);
    rc = rc ? rc : session_interrupted(s);
  }
  if (removed) {
    *removed = gone;
  }
  return rc;
}

/* Under ckpt_lock.  Returns 0 if no row may be removed. */
static int evict_pieces(emb_session *s) {
  struct core *core = s->core;
  struct evict *round = evict_of(s->store);
  int in_vain = 0, rc = EMB_OK;
  for (int i = 0; !rc && i < PIECES && evict__over(core, HELP_PART); i++) {
    uint64_t removed = 0;
    rc = evict__piece(core, s->store->work_slot, round, &removed, &in_vain,
                      NULL);
    if (in_vain) {
      return 0;
    }
  }
  return !rc;
}

void forget__help(emb_session *s) {
  struct core *core = s->core;
  int goes_on = evict__over(core, HELP_PART) != 0 &&
                !EMB_SEED(SEED_WRITER_DOES_NOT_EVICT);
  while (goes_on) {
    int waits = evict__over(core, WAIT_PART) != 0;
    if (waits ? session_lock(s, &core->ckpt_lock)
              : pthread_mutex_trylock(&core->ckpt_lock)) {
      return;
    }
    goes_on = evict_pieces(s) && waits;
    pthread_mutex_unlock(&core->ckpt_lock);
  }
}
