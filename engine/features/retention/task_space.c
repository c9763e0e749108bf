/* SPDX-License-Identifier: MIT
**
** task_space.c -- background tasks that free space: extents that readers no
** longer need, compaction, the checkpoint, and a shorter file.
*/
#include "engine/storage/ckpt/readers.h"
#include "engine/table/jobs/tasks.h"
#include "task.h"
#include "compact.h"
#include "shorten.h"
#include "engine/table/session/session.h"

/* The log that recovery would replay is kept shorter than this, or than the
** live data plus a quarter if that is more: a table that is entirely in memory
** is copied to the tail once after a checkpoint, and then changed in place,
** without a checkpoint that would make it read-only again. */
#define REPLAY_BYTES (UINT64_C(256) << 20)
/* Maximum time until immediate writes are durable. */
#define CHECKPOINT_US UINT64_C(60000000)
/* Extents moved within the file for one checkpoint. */
#define MOVES 1024

/* ---- readers ------------------------------------------------------------- */

/* Are there extents that other processes may still be reading? */
static int readers_due(struct pass *pass) {
  struct core *core = &pass->store->core;
  return atomic_load(&core->readers.count) || core->log.withheld;
}

static int readers_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  uint64_t index = store->checkpoint.manifest.index_generation;
  (void)err;
  if (readers_release(&store->core, index, 0)) {
    tasks_look_again(store); /* the file may be shortened */
    *did = PIECE_DONE;
  }
  return EMB_OK;
}

/* A reading process releases its lock without notice, so poll. */
static uint64_t readers_rest(struct pass *pass) {
  return readers_due(pass) ? 0 : TASKS_NEVER;
}

const struct task task_readers = {
    TASK_NAMED("readers"), .lane = LANE_RELEASE, .due = readers_due,
    .rest = readers_rest,  .run = readers_run,
};

/* ---- compact ------------------------------------------------------------- */

static int compact_due(struct pass *pass) {
  return space_wasted(&pass->store->core, pass_space(pass), pass->quiet);
}

static int compact_run(struct pass *pass, enum outcome *did, emb_err *err) {
  struct core *core = &pass->store->core;
  int some = 0;
  int rc = compact__one(core, pass->store->work_slot, 0, &some, err);
  *did = some ? PIECE_MORE : PIECE_NONE;
  if (rc == EMB_FULL && !atomic_load(&core->log.failed)) {
    err_clear(err); /* a checkpoint may free dead extents */
    rc = EMB_OK;
  }
  return rc;
}

const struct task task_compact = {
    TASK_NAMED("compact"),
    .lane = LANE_WORK,
    .due = compact_due,
    .run = compact_run,
};

/* ---- checkpoint ---------------------------------------------------------- */

struct checkpoint_state { /* when the newest checkpoint was first seen */
  uint64_t generation, us;
};
_Static_assert(sizeof(struct checkpoint_state) <= TASK_STATE * 8, "state");

/* Bytes of log since the last checkpoint. */
static uint64_t replay_bytes(emb_store *store) {
  struct core *core = &store->core;
  uint64_t tail = atomic_load(&core->log.tail);
  uint64_t replay = store->checkpoint.manifest.replay;
  return tail > replay ? (tail - replay) * core->layout.page_bytes : 0;
}

/* Microseconds until writes since the last checkpoint have waited long
** enough. */
static uint64_t checkpoint_rest(struct pass *pass) {
  struct checkpoint_state *newest = pass->state;
  emb_store *store = pass->store;
  struct core *core = &store->core;
  const struct manifest *m = &store->checkpoint.manifest;
  uint64_t now = core->env->now_us(core->env);
  if (newest->generation != m->generation) {
    newest->generation = m->generation;
    newest->us = now;
  }
  if (core->temporary ||
      store->checkpoint.version == atomic_load(&core->version)) {
    return TASKS_NEVER;
  }
  uint64_t waited = now - newest->us;
  return waited > CHECKPOINT_US ? 0 : CHECKPOINT_US - waited + 1;
}

static int checkpoint_late(struct pass *pass) {
  return checkpoint_rest(pass) == 0;
}

static int checkpoint_wakes(struct pass *pass) {
  return pass->unchanged && checkpoint_late(pass);
}

/* Did a request for space fail? */
static int is_short(const emb_store *store) {
  return atomic_load_explicit(&store->core.log.full, memory_order_relaxed);
}

/* Bytes that writes will append because a checkpoint makes everything
** read-only: the next write of each row that is still changed in place goes to
** the tail. */
static uint64_t checkpoint_cost(const struct core *core, uint64_t live) {
  uint64_t tail = atomic_load(&core->log.tail);
  uint64_t from = atomic_load(&core->log.read_only);
  uint64_t bytes = tail > from ? (tail - from) * core->layout.page_bytes : 0;
  return bytes < live ? bytes : live;
}

/* Would a checkpoint free enough for a writer that finds the disk full?  If
** not, checkpoint would follow checkpoint. */
static int worth_freeing(const struct space *space) {
  return space->dead > space->used / 64;
}

static int checkpoint_due(struct pass *pass) {
  emb_store *store = pass->store;
  const struct space *space = pass_space(pass);
  uint64_t live = space->live + space->kept_live;
  uint64_t most = live + live / 4;
  most = most > REPLAY_BYTES ? most : REPLAY_BYTES;
  uint64_t replay = replay_bytes(store);
  /* With a transaction open a checkpoint shortens nothing and frees only
  ** extents that were dead before the transaction began. */
  if (atomic_load(&store->core.txn_first_page) && replay > most) {
    return 0;
  }
  /* During writes a checkpoint must free twice what it costs, and a quarter of
  ** the rows for its own index file.  With less, a table in memory whose rows
  ** were half at the tail did not come back to writing in place: 24 checkpoints
  ** a second, 1.2 GB/s written, 0.57 of the speed, for good; with twice as much
  ** memory as rows, 0.12 of the speed.  Transactions of 1,024 rows took 17
  ** checkpoints a second, and take 5. */
  if (space_freeable(&store->core, space) &&
      (pass->quiet ||
       (space_urgent(&store->core, space) &&
        (space->dead >= 2 * checkpoint_cost(&store->core, live) + live / 4 ||
         EMB_SEED(SEED_CHECKPOINT_AT_ANY_COST))))) {
    return 1;
  }
  if (is_short(store) && worth_freeing(space)) {
    return 1;
  }
  return (!store->core.temporary && replay > most) || checkpoint_late(pass);
}

static int checkpoint_run(struct pass *pass, enum outcome *did, emb_err *err) {
  emb_store *store = pass->store;
  struct checkpoint *checkpoint = &store->checkpoint;
  uint64_t before = checkpoint->manifest.generation;
  emb_err failure;
  uint32_t moved = 0;
  int shortened = EMB_OK;
  /* While writes go on, the file becomes shorter with the checkpoints of each
  ** minute.  A part of it that cannot be moved must not keep the writes from
  ** becoming durable. */
  if (!pass->quiet && checkpoint_late(pass) && !store->core.temporary &&
      shorten__due(&store->core, 0)) {
    shortened = shorten__file(&store->core, checkpoint->manifest.replay, MOVES,
                              &moved, &failure);
  }
  int rc = checkpoint_take(&store->core, store->work_slot, checkpoint, 0, err);
  if (checkpoint->manifest.generation != before) {
    *did = checkpoint->dead_bytes > 0 ? PIECE_MORE : PIECE_DONE;
  }
  if (!rc && shortened) {
    *err = failure;
  }
  return rc ? rc : shortened;
}

const struct task task_checkpoint = {
    TASK_NAMED("checkpoint"), .lane = LANE_WORK,     .wakes = checkpoint_wakes,
    .due = checkpoint_due,    .run = checkpoint_run, .rest = checkpoint_rest,
};

/* ---- shorten ------------------------------------------------------------- */

int shorten__space(emb_store *store, int *did, emb_err *err) {
  struct core *core = &store->core;
  uint32_t moved = 0;
  if (core->temporary || !shorten__due(core, 0)) {
    return EMB_OK;
  }
  uint64_t bits = core->layout.extent_bits;
  uint64_t replay = store->checkpoint.manifest.replay >> bits;
  int rc = shorten__file(core, store->checkpoint.manifest.replay, MOVES, &moved,
                         err);
  /* Extents above replay cannot move: if they make the file long, and nothing
  ** is being written, a checkpoint makes them movable. */
  int quiet = tasks_quiet(store) || atomic_load(&store->sessions.count) == 0;
  int held = quiet && !moved && replay < atomic_load(&core->log.tail) >> bits &&
             !atomic_load(&core->txn_first_page);
  if (!rc && (moved || held)) {
    rc = checkpoint_take(core, store->work_slot, &store->checkpoint, 0, err);
    *did = !rc;
  }
  return rc;
}

/* Only in a pass in which no other task did anything, and when writes pause: it
** takes a checkpoint, after which every key is written to the tail again. */
static int shorten_now(struct pass *pass) {
  struct core *core = &pass->store->core;
  return pass->quiet && !pass->did && !core->temporary && shorten__due(core, 0);
}

static int shorten_run(struct pass *pass, enum outcome *did, emb_err *err) {
  int some = 0;
  int rc = shorten__space(pass->store, &some, err);
  *did = some ? PIECE_MORE : PIECE_NONE;
  return rc;
}

const struct task task_shorten = {
    TASK_NAMED("shorten"),
    .lane = LANE_WORK,
    .due = shorten_now,
    .run = shorten_run,
};
