/* SPDX-License-Identifier: MIT
**
** near.h -- what a name that is not known could have been.
**
** ROLE      For the texts of errors.  A caller offers the names that there are
**           and appends what near_text makes of them:
**               struct near near;
**               near_start(&near, text, length);
**               while (...) near_offer(&near, name);
**               ... "unknown optimizer: %.*s%s", length, text, near_text(&near)
**           unknown optimizer: adma; expected sgd, adam or ftrl; did you mean
**           adam?
** NEAR      Fewest letters to add, leave out, change, or swap with the next one
**           (the optimal string alignment distance), whatever their case.  No
**           more than one or a third of the longer name's, so that what has
**           little in common is not proposed.  Of two the first one.
** FAILURE   None; no memory.  A list that is too long ends early.  A name of
**           more than NEAR_MAX letters is not near to anything.
** THREADS   No state.
*/
#ifndef EMB_BASE_NEAR_H
#define EMB_BASE_NEAR_H

#include <stddef.h>

enum { NEAR_MAX = 32, NEAR_TEXT = 400 };

struct near {
  const char *text;
  size_t length;
  const char *best; /* the nearest so far, or NULL */
  size_t distance;
  const char *last; /* is not in the list yet: "or" may come before it */
  size_t used;
  char list[NEAR_TEXT];
};

void near_start(struct near *near, const char *text, size_t length);
/* name must stay until near_text. */
void near_offer(struct near *near, const char *name);
const char *near_text(struct near *near);

/* Whether they are the same, whatever the case of their ASCII letters. */
int near_same(const char *name, const char *text, size_t length);

#endif
