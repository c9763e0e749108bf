/* SPDX-License-Identifier: MIT
**
** frames_valid.c -- checks the invariants of frames.h, in the variants that
** check themselves only (base/debug.h).
*/
#include "frames.h"

#if EMB_DEBUG > 0

int frames_valid(const struct frames *frames) {
  uint32_t left = frames_left(frames), made = frames_made(frames);
  emb_assert(left <= made && frames->untouched <= left);
  emb_assert(made + frames->retired_count <= frames->slot_count);
  return 1;
}

int frames_is_free(const struct frames *frames, const char *frame) {
  uint32_t left = frames_left(frames);
  for (uint32_t i = 0; i < left; i++) {
    if (frames->slots[i] == frame) {
      return 1;
    }
  }
  return 0;
}

#endif
