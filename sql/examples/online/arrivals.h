/* SPDX-License-Identifier: MIT
**
** arrivals.h -- clicks on their way to the log.
**
** A visitor clicks some time after the page was shown, on average two minutes,
** and one click of 16 is reported twice, as by a browser that saw no answer.
** The same request has the same delay in each run.
*/
#ifndef ONLINE_ARRIVALS_H
#define ONLINE_ARRIVALS_H

#include <stddef.h>
#include <stdint.h>

/* Seconds within which a click belongs to its request.  The server writes them
** when a step ends, so that some find that their request is a negative already,
** which they correct. */
enum { CLICK_WINDOW = 600 };

struct arrival {
  int64_t request, clicked, arrives; /* seconds */
};

struct arrivals {
  struct arrival *list;
  size_t count, room;
};

/* What was shown at that second was clicked. */
void arrivals_add(struct arrivals *arrivals, int64_t request, int64_t shown);
/* Those that arrive up to now, in their order, at the head of the list: how
** many. */
size_t arrivals_due(struct arrivals *arrivals, int64_t now);
/* Takes these away. */
void arrivals_take(struct arrivals *arrivals, size_t count);

#endif
