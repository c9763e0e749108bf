/* SPDX-License-Identifier: MIT
**
** ttl.c -- see ttl.h.
*/
#include "ttl.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/debug.h"
#include "engine/base/near.h"
#include "engine/base/text.h"
#include "engine/base/unit.h"
#include "engine/emb.h"

#define SLOT_MAX 32767

/* Reads a time, as "7d". */
static int read_time(const char **at, uint32_t *seconds) {
  const char *from = *at;
  uint64_t us;
  *seconds = 0;
  if (near_same("none", from, text_name(from))) {
    *at += text_name(from);
    return 1;
  }
  if (!unit_time(at, 0, &us) || us == 0 || us % 1000000 != 0 ||
      us / 1000000 >= TTL_NEVER) {
    return 0;
  }
  *seconds = (uint32_t)(us / 1000000);
  return 1;
}

/* Reads "5:" or "8-15:"; 0: there is none, and *at is unchanged. */
static int ttl_read_slots(const char **at, struct ttl_slots *slots) {
  const char *from = *at;
  uint64_t low, high;
  if (!text_digits(&from, SLOT_MAX, &low)) {
    return 0;
  }
  from = text_space(from);
  high = low;
  if (*from == '-') {
    from = text_space(from + 1);
    if (!text_digits(&from, SLOT_MAX, &high)) {
      return 0;
    }
    from = text_space(from);
  }
  if (*from != ':' || high < low) {
    return 0;
  }
  slots->low = (uint32_t)low;
  slots->high = (uint32_t)high;
  *at = text_space(from + 1);
  return 1;
}

/* Inserts the slots in order.  EMB_RANGE: they overlap others. */
static int ttl_insert(struct ttl *ttl, const struct ttl_slots *slots,
                      emb_err *err) {
  uint32_t at = ttl->count;
  if (at == TTL_SLOTS_MAX) {
    return err_set(err, EMB_RANGE, "ttl: more than %d slots or ranges of them",
                   TTL_SLOTS_MAX);
  }
  for (; at > 0 && ttl->slots[at - 1].low > slots->high; at--) {
  }
  if (at > 0 && ttl->slots[at - 1].high >= slots->low) {
    return err_set(err, EMB_RANGE, "ttl: slot %u is given twice",
                   ttl->slots[at - 1].low > slots->low ? ttl->slots[at - 1].low
                                                       : slots->low);
  }
  memmove(&ttl->slots[at + 1], &ttl->slots[at],
          (ttl->count - at) * sizeof *slots);
  ttl->slots[at] = *slots;
  ttl->count++;
  return EMB_OK;
}

int ttl__parse(struct ttl *ttl, const char *text, emb_err *err) {
  const char *at = text_space(text);
  int rc = EMB_OK;
  memset(ttl, 0, sizeof *ttl);
  for (int first = 1; !rc; first = 0) {
    struct ttl_slots slots;
    const char *from = at;
    int some = ttl_read_slots(&at, &slots);
    if ((!some && !first) || !read_time(&at, &slots.seconds)) {
      return err_set(err, EMB_RANGE,
                     "unknown value for ttl: %.*s; expected e.g. 30d, or "
                     "30d, 5:7d, 8-15:none",
                     (int)strcspn(from, ","), from);
    }
    if (some) {
      rc = ttl_insert(ttl, &slots, err);
    } else {
      ttl->seconds = slots.seconds;
    }
    at = text_space(at);
    if (!rc && *at == 0) {
      emb_check(ttl_valid(ttl));
      return EMB_OK;
    }
    if (!rc && *at++ != ',') {
      rc = err_set(err, EMB_RANGE,
                   "unknown value for ttl: %s; expected a comma between times",
                   from);
    }
    at = text_space(at);
  }
  return rc;
}

static size_t print_time(char *to, size_t size, uint32_t seconds) {
  int n =
      seconds ? snprintf(to, size, "%us", seconds) : snprintf(to, size, "none");
  return n < 0 ? 0 : (size_t)n;
}

void ttl__print(const struct ttl *ttl, char *to, size_t size) {
  size_t n = print_time(to, size, ttl->seconds);
  for (uint32_t i = 0; i < ttl->count && n < size; i++) {
    const struct ttl_slots *slots = &ttl->slots[i];
    n += (size_t)snprintf(to + n, size - n, ",%u-%u:", slots->low, slots->high);
    n += n < size ? print_time(to + n, size - n, slots->seconds) : 0;
  }
}

uint32_t ttl_least(const struct ttl *ttl) {
  uint32_t least = ttl->seconds;
  for (uint32_t i = 0; i < ttl->count; i++) {
    uint32_t seconds = ttl->slots[i].seconds;
    least = seconds && (!least || seconds < least) ? seconds : least;
  }
  return least;
}

uint32_t ttl_due(const struct ttl *ttl, int64_t key, uint32_t updated_at) {
  uint32_t slot = ttl_slot(key), low = 0, high = ttl->count;
  uint32_t seconds = ttl->seconds;
  while (low < high) { /* the first range that does not end before the slot */
    uint32_t middle = (low + high) / 2;
    if (ttl->slots[middle].high < slot) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low < ttl->count && ttl->slots[low].low <= slot) {
    seconds = ttl->slots[low].seconds;
  }
  return !seconds || !updated_at || updated_at >= TTL_NEVER - seconds
             ? TTL_NEVER
             : updated_at + seconds;
}
