/* SPDX-License-Identifier: MIT
**
** arrivals.h -- clicks on their way to the log.
**
** A visitor clicks on average two minutes after the page was shown, and one
** click in 16 is reported twice, as by a browser that got no answer.  A
** request has the same delay in each run.
*/
#ifndef ONLINE_ARRIVALS_H
#define ONLINE_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

/* Seconds within which a click belongs to its request.  The server writes
** clicks at the end of a step, so for some the request is already a negative
** example, which they correct. */
enum { CLICK_WINDOW = 600 };

struct arrival {
  int64_t request, clicked, arrives; /* seconds */
};

struct arrivals {
  struct arrival *list;
  size_t count, room;
};

/* Adds the click on a request that was shown at that second. */
void arrivals_add(struct arrivals *arrivals, int64_t request, int64_t shown);
/* Moves the clicks that have arrived by `now` to the head of the list, in order
** of arrival.  Returns their number. */
size_t arrivals_due(struct arrivals *arrivals, int64_t now);
/* Removes the first `count`. */
void arrivals_take(struct arrivals *arrivals, size_t count);

#endif
