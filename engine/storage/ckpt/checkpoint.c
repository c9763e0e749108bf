/* SPDX-License-Identifier: MIT
**
** checkpoint.c -- see checkpoint.h.
*/
#include "checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "engine/storage/kernel/retention.h"
#include "engine/storage/kernel/reserve.h"
#include "engine/emb.h"
#include "dump.h"
#include "identity.h"
#include "readers.h"

struct dead {
  uint64_t *numbers; /* ascending */
  uint64_t count;
  const struct checkpoint *checkpoint;
  struct core *core;
  uint64_t tail; /* set by seal_log */
  emb_err *err;
};

/* Finds the extents below page `limit` that have no live records and that no
** retention hold needs.  They stay dead: records are only ever added at the
** tail, snapshots cover only live records, and marks are taken at the tail. */
static int find_dead(struct core *core, uint64_t limit, struct dead *dead) {
  struct log *log = &core->log;
  uint64_t end = limit >> core->layout.extent_bits;
  dead->count = 0;
  dead->numbers =
      core->env->resize(core->env, NULL,
                        (size_t)(end > log->first ? end - log->first + 1 : 1) *
                            sizeof *dead->numbers);
  if (!dead->numbers) {
    return EMB_NOMEM;
  }
  pthread_mutex_lock(&log->lock); /* the table must not be replaced */
  for (uint64_t e = log->first; e < end; e++) {
    struct extent *extent = log_extent(log, e);
    if (extent_phys(extent) != EXTENT_NOWHERE &&
        atomic_load(&extent->live) == 0 && !retention_needed(core, e)) {
      dead->numbers[dead->count++] = e;
    }
  }
  pthread_mutex_unlock(&log->lock);
  return EMB_OK;
}

static int is_dead(void *arg, uint64_t number) {
  const struct dead *dead = arg;
  uint64_t low = 0, high = dead->count;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    if (dead->numbers[middle] < number) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < dead->count && dead->numbers[low] == number;
}

void checkpoint_describe(const struct core *core, struct manifest *m) {
  m->dim = core->schema.dim;
  m->type = core->schema.segments[0].type;
  m->page_bytes = core->layout.page_bytes;
  m->extent_bytes = core->layout.extent_bytes;
  memset(m->schema, 0, sizeof m->schema);
  if (!schema_is_plain(&core->schema)) {
    schema_print(&core->schema, m->schema, NULL); /* it fits: open.c */
  }
}

static int is_stopped(void *arg) {
  const struct checkpoint *checkpoint = ((const struct dead *)arg)->checkpoint;
  return checkpoint->interrupt &&
         checkpoint->interrupt(checkpoint->interrupt_arg);
}

/* Called after the index entries are written.  Makes everything they name
** durable before the extents are listed, so the list covers all extents up to
** the tail. */
static int seal_log(void *arg, uint64_t *tail) {
  struct dead *dead = arg;
  int rc = core_flush_all(dead->core, !EMB_SEED(SEED_CHECKPOINT_NOT_SYNCED),
                          &dead->tail, dead->err);
  *tail = dead->tail;
  return rc;
}

/* Returns the newest transaction that the dump may contain part of.  The load
** order matters: a transaction that ends between the loads is seen by the
** second. */
static uint64_t newest_committed(const struct core *core) {
  uint64_t settling = atomic_load(&core->txn_settling);
  uint64_t committed = atomic_load(&core->txn_committed);
  return settling > committed ? settling : committed;
}

static void checkpoint_fill(struct core *core, struct manifest *m, int clean) {
  memcpy(m->uuid, core->uuid, sizeof m->uuid);
  m->clean = clean != 0;
  checkpoint_describe(core, m);
  m->version = atomic_load(&core->version);
  m->txn_last = atomic_load(&core->txn_last);
  m->txn_committed = newest_committed(core);
  m->newest = atomic_load(&core->newest);
}

static int checkpoint_write_manifest(struct core *core,
                                     struct checkpoint *checkpoint,
                                     struct manifest *m, emb_err *err) {
  uint64_t before = m->generation;
  emb_err first;
  emb_assert(m->replay <= m->tail);
  emb_assert(m->tail <= atomic_load(&core->log.synced)); /* P1 */
  struct env_file *file;
  int rc = identity_check(core, err);
  rc = rc ? rc : identity__open(core, &file, err);
  if (rc) {
    return rc;
  }
  identity__expect(core, before, before + MANIFEST_STEP);
  rc = manifest__write_open(core->env, file, core->dir, m, 1, &first);
  core->env->close(core->env, file);
  if (rc) {
    /* It is no longer known which slots are valid. */
    char why[sizeof core->log.why];
    (void)snprintf(why, sizeof why, "%.200s; no writes until reopened",
                   first.text);
    log_give_up(&core->log, rc, why);
    return err_set(err, rc, "%s", first.text);
  }
  emb_assert(m->generation == before + MANIFEST_STEP);
  identity__expect(core, m->generation, m->generation);
  checkpoint->manifest = *m;
  return EMB_OK;
}

/* Called once the checkpoint with this index file is valid.  Returns the bytes
** freed. */
static uint64_t free_dead(struct core *core, struct dead *dead,
                          uint64_t generation) {
  uint64_t freed = 0;
  if (readers__lowest(core, generation) != UINT64_MAX ||
      atomic_load(&core->readers.count)) {
    readers__hold(core, dead->numbers, dead->count, generation);
    return readers_release(core, generation, 1);
  }
  pthread_mutex_lock(&core->flush_lock);
  for (; freed < dead->count; freed++) {
    emb_assert(
        retention_allows(core, dead->numbers[freed])); /* D1, snapshots */
    log_drop(&core->log, dead->numbers[freed]);
  }
  log_free_left(&core->log, generation, UINT64_MAX);
  log_withhold(&core->log, 0);
  log_trim(&core->log, 0, NULL); /* an optimisation: may fail */
  emb_check(log_file_slots_valid(&core->log));
  pthread_mutex_unlock(&core->flush_lock);
  return freed * core->layout.extent_bytes;
}

/* Afterwards nothing is written yet from *replay on, and every write below it
** is complete.  Nothing is sealed: otherwise each key put during the dump would
** be copied, and again after the dump. */
static int checkpoint_start(struct core *core,
                            const struct checkpoint *checkpoint,
                            uint64_t *replay, emb_err *err) {
  if (core->temporary) {
    return core_flush_all(core, 0, replay, err);
  }
  int rc = core_failed(core, err); /* if so, the generation is unknown */
  if (rc) {
    return rc;
  }
  uint64_t generation = checkpoint->manifest.generation;
  identity__expect(core, generation, generation);
  rc = identity_check(core, err);
  if (!rc) {
    *replay = log_cut(&core->log, NULL);
    epoch_wait(&core->epoch);
  }
  return rc;
}

int checkpoint_take(struct core *core, struct epoch_slot *slot,
                    struct checkpoint *checkpoint, int clean, emb_err *err) {
  struct manifest m = checkpoint->manifest;
  struct dead dead = {NULL, 0, checkpoint, core, 0, err};
  const struct dump_calls calls = {is_dead, is_stopped, seal_log, &dead};
  uint64_t version = atomic_load(&core->version);
  int rc = checkpoint_start(core, checkpoint, &m.replay, err);
  if (rc) {
    return rc;
  }
  uint64_t open = atomic_load(&core->txn_first_page);
  if (open && open < m.replay) {
    m.replay = open;
  }
  retention_settle(core);
  rc = find_dead(core, m.replay, &dead);
  if (rc) {
    return err_set(err, rc, "out of memory");
  }
  if (core->temporary) { /* never recovered: only free extents */
    checkpoint->manifest.replay = m.replay;
    checkpoint->manifest.generation++;
    checkpoint->dead_bytes = free_dead(core, &dead, 1);
    core->env->release(core->env, dead.numbers);
    return EMB_OK;
  }
  rc = checkpoint->save(core, slot, err);
  rc = rc ? rc : dump__write(core, slot, m.generation + 1, &calls, &m, err);
  if (!rc) {
    checkpoint_fill(core, &m, clean);
    m.tail = dead.tail;
    rc = checkpoint_write_manifest(core, checkpoint, &m, err);
  }
  if (!rc) {
    checkpoint->version = version;
    checkpoint->dead_bytes = free_dead(core, &dead, m.index_generation);
    reserve_index_end(core, m.index_generation, m.index_blocks);
    count_add(&core->counters.checkpoints, 1);
  }
  core->env->release(core->env, dead.numbers);
  return rc;
}

int checkpoint_claim(struct core *core, struct checkpoint *checkpoint,
                     emb_err *err) {
  struct manifest m = checkpoint->manifest;
  int rc = core_failed(core, err);
  if (rc) {
    return rc;
  }
  /* The index file covers everything below the tail, and recovery must not look
  ** for pages in an extent that log_resume left untouched. */
  m.replay = m.tail = atomic_load(&core->log.tail);
  checkpoint->version = atomic_load(&core->version);
  checkpoint_fill(core, &m, 0);
  identity__expect(core, m.generation, m.generation);
  return checkpoint_write_manifest(core, checkpoint, &m, err);
}
