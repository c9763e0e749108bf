/* SPDX-License-Identifier: MIT
**
** checkpoint.c -- see checkpoint.h.
*/
#include "checkpoint.h"

#include <string.h>

#include "../core/keep.h"
#include "../emb.h"
#include "dump.h"
#include "seen.h"

struct dead {
  uint64_t *numbers; /* ascending */
  uint64_t count;
  const struct checkpoint *checkpoint;
};

/* Extents below page `limit` without live records, that nobody keeps.  They
** stay so: records are only ever added at the tail, snapshots are taken of what
** is live, and marks at the tail. */
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
        atomic_load(&extent->live) == 0 && !keep_needed(core, e)) {
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
  return checkpoint->ask && checkpoint->ask(checkpoint->ask_arg);
}

static void fill(struct core *core, struct manifest *m, int clean) {
  memcpy(m->uuid, core->uuid, sizeof m->uuid);
  m->clean = clean != 0;
  checkpoint_describe(core, m);
  m->version = atomic_load(&core->version);
  m->txn_last = atomic_load(&core->txn_last);
  m->txn_committed = atomic_load(&core->txn_committed);
  m->newest = atomic_load(&core->newest);
}

static int write_manifest(struct core *core, struct checkpoint *checkpoint,
                          struct manifest *m, emb_err *err) {
  int rc = manifest_write(core->env, core->dir, m, !core->temporary, err);
  if (rc) {
    /* Which slots are valid is not known any more. */
    int none = 0;
    atomic_compare_exchange_strong(&core->log.failed, &none, rc);
    return rc;
  }
  checkpoint->manifest = *m;
  return EMB_OK;
}

static void free_dead(struct core *core, struct dead *dead) {
  pthread_mutex_lock(&core->flush_lock);
  for (uint64_t i = 0; i < dead->count; i++) {
    log_drop(&core->log, dead->numbers[i]);
  }
  log_free_left(&core->log);
  log_trim(&core->log, 0, NULL); /* an optimisation: may fail */
  pthread_mutex_unlock(&core->flush_lock);
}

/* From *replay on nothing is written yet, and every word below it is where
** its writer wanted it.  Nothing is sealed: the keys that are put during the
** dump would be copied, and a second time after it. */
static int start(struct core *core, uint64_t *replay, emb_err *err) {
  if (core->temporary) {
    return core_flush_all(core, 0, replay, err);
  }
  int rc = core_failed(core, err);
  if (!rc) {
    *replay = log_cut(&core->log, NULL);
    epoch_wait(&core->epoch);
  }
  return rc;
}

int checkpoint_take(struct core *core, struct epoch_slot *slot,
                    struct checkpoint *checkpoint, int clean, emb_err *err) {
  struct manifest m = checkpoint->manifest;
  struct dead dead = {NULL, 0, checkpoint};
  const struct dump_calls calls = {is_dead, is_stopped, &dead};
  uint64_t old_index = m.index_blocks ? m.index_generation : 0, tail;
  uint64_t version = atomic_load(&core->version);
  int rc = start(core, &m.replay, err);
  if (rc) {
    return rc;
  }
  uint64_t open = atomic_load(&core->txn_first_page);
  if (open && open < m.replay) {
    m.replay = open;
  }
  keep_settle(core);
  rc = find_dead(core, m.replay, &dead);
  if (rc) {
    return err_set(err, rc, "out of memory");
  }
  if (core->temporary) { /* nobody will recover it: only free */
    checkpoint->manifest.replay = m.replay;
    checkpoint->manifest.generation++;
    checkpoint->dead_bytes = dead.count * core->layout.extent_bytes;
    free_dead(core, &dead);
    core->env->release(core->env, dead.numbers);
    return EMB_OK;
  }
  rc = seen_write(core, err);
  rc = rc ? rc : dump_write(core, slot, m.generation + 1, &calls, &m, err);
  if (!rc) {
    rc = core_flush_all(core, !EMB_SEED(18), &tail, err);
  }
  if (!rc) {
    fill(core, &m, clean);
    m.tail = tail;
    rc = write_manifest(core, checkpoint, &m, err);
  }
  if (!rc) {
    checkpoint->version = version;
    checkpoint->dead_bytes = dead.count * core->layout.extent_bytes;
    free_dead(core, &dead);
    if (old_index && !EMB_SEED(42)) {
      char path[PATH_BYTES];
      dump_path(path, sizeof path, core->dir, old_index);
      core->env->unlink(core->env, path);
    }
    count_add(&core->counters.checkpoints, 1);
  }
  core->env->release(core->env, dead.numbers);
  return rc;
}

int checkpoint_claim(struct core *core, struct checkpoint *checkpoint,
                     emb_err *err) {
  struct manifest m = checkpoint->manifest;
  /* The index file knows everything below, and recovery must not look for
  ** pages in an extent that log_resume left alone. */
  m.replay = m.tail = atomic_load(&core->log.tail);
  checkpoint->version = atomic_load(&core->version);
  fill(core, &m, 0);
  return write_manifest(core, checkpoint, &m, err);
}
