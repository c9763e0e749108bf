/* SPDX-License-Identifier: MIT
**
** shares.c -- how many frames of a budget are kept free, and the minimum shares
** of the log and the cache.
*/
#include "core.h"

/* The low-water mark of a budget of `frames` frames. */
static uint32_t low_water(uint32_t frames) {
  uint32_t low = frames / 32;
  return low < 2 ? 2 : low > 16 ? 16 : low;
}

static uint32_t log_min(uint32_t frames) {
  uint32_t min = frames / 8;
  return min < 4 ? 4 : min;
}

uint32_t core_low_water(const struct core *core) {
  return low_water(frames_count(&core->frames));
}

uint32_t core__log_min(const struct core *core) {
  return log_min(frames_count(&core->frames));
}

void core__twice(const struct core *core, uint32_t *cache, uint32_t *log) {
  uint32_t frames = frames_count(&core->frames);
  uint32_t resident = atomic_load(&core->log.resident);
  uint32_t cached = atomic_load(&core->cache.frame_count);
  uint32_t more = frames - (low_water(2 * frames) - low_water(frames));
  *log = cached && resident < log_min(frames) ? 0
         : cached && resident <= log_min(frames) + 1
             ? log_min(2 * frames) - log_min(frames)
             : (uint32_t)((uint64_t)more * resident / (resident + cached + 1));
  *cache = more - *log;
}

uint32_t core__cache_min(const struct core *core) {
  uint32_t min = frames_count(&core->frames) / 16;
  return min < 1 ? 1 : min;
}
