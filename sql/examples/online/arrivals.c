/* SPDX-License-Identifier: MIT
**
** arrivals.c -- clicks on their way to the log; see arrivals.h.
*/
#include "arrivals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../lib/database.h"
#include "../../lib/random.h"

enum { DELAY = 120, TWICE = 16, AGAIN = 30 }; /* seconds, one in, seconds */

static void add(struct arrivals *arrivals, struct arrival arrival) {
  if (arrivals->count == arrivals->room) {
    size_t room = arrivals->room * 2 + 64;
    struct arrival *list = need(room, sizeof(*list));
    if (arrivals->count) {
      memcpy(list, arrivals->list, arrivals->count * sizeof(*list));
    }
    free(arrivals->list);
    arrivals->list = list;
    arrivals->room = room;
  }
  arrivals->list[arrivals->count++] = arrival;
}

void arrivals_add(struct arrivals *arrivals, int64_t request, int64_t shown) {
  uint64_t random = (uint64_t)request;
  int64_t delay = (int64_t)(-log(1 - random_unit(&random)) * DELAY);
  struct arrival arrival = {request, shown + delay, shown + delay};
  add(arrivals, arrival);
  if (random_below(&random, TWICE) == 0) {
    arrival.arrives += AGAIN;
    add(arrivals, arrival);
  }
}

static int order(const void *left, const void *right) {
  const struct arrival *a = left, *b = right;
  if (a->arrives != b->arrives) {
    return a->arrives < b->arrives ? -1 : 1;
  }
  return a->request < b->request ? -1 : a->request > b->request;
}

size_t arrivals_due(struct arrivals *arrivals, int64_t now) {
  size_t count = 0;
  if (arrivals->count) {
    qsort(arrivals->list, arrivals->count, sizeof(*arrivals->list), order);
  }
  while (count < arrivals->count && arrivals->list[count].arrives <= now) {
    count++;
  }
  return count;
}

void arrivals_take(struct arrivals *arrivals, size_t count) {
  arrivals->count -= count;
  if (arrivals->count) {
    memmove(arrivals->list, arrivals->list + count,
            arrivals->count * sizeof(*arrivals->list));
  }
}
