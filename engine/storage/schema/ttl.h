/* SPDX-License-Identifier: MIT
**
** ttl.h -- how long rows live after their last update: for all keys, and for
** slots of keys.
**
** SLOT      of a key: bits 48 to 62, a number below 32768, as in Monolith.
** TEXT      "30d, 5:7d, 8-15:none": first the time for keys whose slot is not
**           named, then slots or ranges of them, in any order, none twice.  A
**           time is a whole number of s, min, h, d or w, at least 1; "none":
**           for ever, as without a word.
*/
#ifndef EMB_SCHEMA_TTL_H
#define EMB_SCHEMA_TTL_H

#include "engine/base/err.h"

#include <stddef.h>
#include <stdint.h>

#define TTL_SLOTS_MAX 64
#define TTL_TEXT_MAX (TTL_SLOTS_MAX * 26 + 16)
#define TTL_NEVER UINT32_MAX

struct ttl_slots {
  uint32_t low, high; /* both included */
  uint32_t seconds;   /* 0: for ever */
};

struct ttl {
  uint32_t seconds; /* 0: for ever */
  uint32_t count;
  struct ttl_slots slots[TTL_SLOTS_MAX]; /* ascending */
};

/* EMB_RANGE names what is wrong. */
int ttl__parse(struct ttl *ttl, const char *text, emb_err *err);
/* What ttl__parse reads; "none" if nothing ends.  TTL_TEXT_MAX is enough. */
void ttl__print(const struct ttl *ttl, char *to, size_t size);
static inline int ttl_any(const struct ttl *ttl) {
  return ttl->seconds || ttl->count;
}
/* The shortest, 0 if nothing ends. */
uint32_t ttl_least(const struct ttl *ttl);
static inline uint32_t ttl_slot(int64_t key) {
  return (uint32_t)((uint64_t)key >> 48) & 0x7fff;
}
/* When a row whose last update was then is due; one without a known time (0) is
** not. */
uint32_t ttl_due(const struct ttl *ttl, int64_t key, uint32_t updated_at);

#endif
