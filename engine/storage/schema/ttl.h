/* SPDX-License-Identifier: MIT
**
** ttl.h -- how long rows live after their last update: a default, and times for
** slots of keys.
**
** SLOT      of a key: bits 48 to 62, a number below 32768, as in Monolith.
** TEXT      "30d, 5:7d, 8-15:none": first the time for keys whose slot is not
**           listed, then slots or ranges of slots, in any order, without
**           overlap.  A time is that of unit.h, a whole number of seconds, at
**           least 1; "none": never expires, as with no text.
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
  uint32_t low, high; /* both inclusive */
  uint32_t seconds;   /* 0: never expires */
};

struct ttl {
  uint32_t seconds; /* 0: never expires */
  uint32_t count;
  struct ttl_slots slots[TTL_SLOTS_MAX]; /* in ascending order */
};

/* The text of EMB_RANGE says what is wrong. */
int ttl__parse(struct ttl *ttl, const char *text, emb_err *err);
/* Writes what ttl__parse reads; "none" if nothing expires.  TTL_TEXT_MAX is
** always enough. */
void ttl__print(const struct ttl *ttl, char *to, size_t size);
static inline int ttl_any(const struct ttl *ttl) {
  return ttl->seconds || ttl->count;
}
/* Returns the shortest time, or 0 if nothing expires. */
uint32_t ttl_least(const struct ttl *ttl);
static inline uint32_t ttl_slot(int64_t key) {
  return (uint32_t)((uint64_t)key >> 48) & 0x7fff;
}
/* Returns when a row last updated at `updated_at` is due; a row without a known
** time (0) never is. */
uint32_t ttl_due(const struct ttl *ttl, int64_t key, uint32_t updated_at);
/* Only in self-checking builds. */
int ttl_valid(const struct ttl *ttl);

#endif
