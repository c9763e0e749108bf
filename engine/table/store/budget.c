/* SPDX-License-Identifier: MIT
**
** budget.c -- converts a budget in bytes, emb_config's memory_bytes, to frames.
** features/memory/ changes the budget of an open store.
*/
#include "budget.h"

#define MEMORY_MIN (UINT64_C(4) << 20)
#define FRAMES_MIN 16

int budget_check(struct env *env, uint64_t bytes, emb_err *err) {
  const char *whose;
  uint64_t most = env->memory_limit(env, &whose);
  return bytes <= most
             ? EMB_OK
             : err_set(err, EMB_RANGE,
                       "memory of %llu bytes is more than %s: %llu bytes",
                       (unsigned long long)bytes, whose,
                       (unsigned long long)most);
}

uint64_t budget_least(const struct layout *layout) {
  uint64_t least = (uint64_t)FRAMES_MIN * layout->extent_bytes;
  return least > MEMORY_MIN ? least : MEMORY_MIN;
}

uint32_t budget_frames(const struct layout *layout, uint64_t bytes) {
  uint64_t least = budget_least(layout);
  uint64_t frames = (bytes > least ? bytes : least) / layout->extent_bytes;
  return frames < UINT32_MAX / 4 ? (uint32_t)frames : UINT32_MAX / 4;
}

void budget_sample(struct core *core) {
  ghosts_size(&core->ghosts, (uint64_t)frames_count(&core->frames) *
                                 core->cache.slots_per_frame);
}

uint64_t local_memory_least(const emb_store *store) {
  return budget_least(&store->core.layout);
}

void emb_set_timeout(emb_store *store, uint64_t ms) {
  atomic_store(&store->core.timeout_ms, ms);
}
