/* SPDX-License-Identifier: MIT
**
** near.h -- suggests a known name for an unknown one.
**
** ROLE      For error texts.  The caller offers the known names and appends
**           the result of near_text:
**               struct near near;
**               near_start(&near, text, length);
**               while (...) near_offer(&near, name);
**               ... "unknown optimizer: %.*s%s", length, text, near_text(&near)
**           unknown optimizer: adma; expected sgd, adam or ftrl; did you mean
**           adam?
** NEAR      The fewest letters to insert, delete, change, or swap with the next
**           one (optimal string alignment distance), ignoring case.  At most
**           one letter, or a third of the longer name, so that dissimilar names
**           are not suggested.  The first of several equally near names wins.
** FAILURE   None; allocates nothing.  A list that is too long is truncated.  A
**           name of more than NEAR_MAX letters is near to no other name.
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
  const char *last; /* not in the list yet: "or" may precede it */
  size_t used;
  char list[NEAR_TEXT];
};

void near_start(struct near *near, const char *text, size_t length);
/* name must stay valid until near_text. */
void near_offer(struct near *near, const char *name);
const char *near_text(struct near *near);

/* Are they equal, ignoring the case of ASCII letters? */
int near_same(const char *name, const char *text, size_t length);

#endif
