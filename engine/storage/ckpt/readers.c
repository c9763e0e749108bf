/* SPDX-License-Identifier: MIT
**
** readers.c -- see readers.h.
*/
#include "readers.h"

#include "engine/storage/kernel/retention.h"
#include "engine/emb.h"

uint64_t readers__lowest(struct core *core, uint64_t generation) {
  uint64_t at = UINT64_MAX;
  if (core->temporary ||
      core->env->byte_lock_lowest(core->env, core->log.file, generation, &at)) {
    return UINT64_MAX;
  }
  return at;
}

void readers__hold(struct core *core, const uint64_t *extents, uint64_t count,
                   uint64_t generation) {
  struct readers *r = &core->readers;
  uint64_t had = atomic_load(&r->count), n = 0, i = 0;
  struct held *all =
      count ? core->env->resize(core->env, NULL, (had + count) * sizeof *all)
            : NULL;
  if (!all) {
    return;
  }
  for (uint64_t k = 0; k < count; k++) {
    while (i < had && r->held[i].extent < extents[k]) {
      all[n++] = r->held[i++];
    }
    if (i < had && r->held[i].extent == extents[k]) {
      all[n++] = r->held[i++];
    } else {
      all[n++] = (struct held){extents[k], generation};
    }
  }
  while (i < had) {
    all[n++] = r->held[i++];
  }
  core->env->release(core->env, r->held);
  r->held = all;
  atomic_store(&r->count, n);
  emb_check(readers_valid(core));
}

static int too_much(const struct core *core) {
  const struct layout *l = &core->layout;
  int64_t keys = atomic_load(&core->count);
  uint64_t most =
      (uint64_t)(keys > 0 ? keys : 0) * l->page_bytes / l->slots * 2;
  uint64_t least =
      core->readers.bytes_min ? core->readers.bytes_min : READERS_BYTES;
  return atomic_load(&core->readers.count) * l->extent_bytes >
         (most > least ? most : least);
}

uint64_t readers_release(struct core *core, uint64_t generation, int is_new) {
  struct readers *r = &core->readers;
  uint64_t lowest = too_much(core) || EMB_SEED(SEED_READER_MARKS_IGNORED)
                        ? UINT64_MAX
                        : readers__lowest(core, generation);
  uint64_t n = atomic_load(&r->count), left = 0;
  pthread_mutex_lock(&core->flush_lock);
  for (uint64_t i = 0; i < n; i++) {
    if (r->held[i].gone <= lowest) {
      emb_assert(retention_allows(core, r->held[i].extent));
      log_drop(&core->log, r->held[i].extent);
    } else {
      r->held[left++] = r->held[i];
    }
  }
  atomic_store(&r->count, left);
  emb_check(readers_valid(core));
  uint64_t slots = log_free_left(&core->log, is_new ? generation : 0, lowest);
  if (lowest == UINT64_MAX) {
    log_withhold(&core->log, 0);
  }
  log_trim(&core->log, 0, NULL); /* an optimisation: may fail */
  pthread_mutex_unlock(&core->flush_lock);
  return (n - left + slots) * core->layout.extent_bytes;
}

void readers_begin(struct core *core, uint64_t generation) {
  atomic_store(&core->readers.count, 0); /* from the log loaded before */
  log_withhold(&core->log, readers__lowest(core, generation) != UINT64_MAX &&
                               !EMB_SEED(SEED_SPACE_BEING_READ_REUSED));
}

void readers_free(struct core *core) {
  core->env->release(core->env, core->readers.held);
}
