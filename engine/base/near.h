/* SPDX-License-Identifier: MIT
**
** near.h -- compares names, and suggests a known one for an unknown one.
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
**           one (optimal string alignment distance), ignoring case, with - as
**           _.  At most one letter, or a third of the longer name, so that
**           dissimilar names are not suggested.  The first of several equally
**           near names wins.
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

/* Are they the same word?  The case of ASCII letters does not matter, and `-`
** is the same as `_`: k-center, K_Center.  All names of options, and the words
** that are their values, are compared by these functions. */
int near_same(const char *name, const char *text, size_t length);
/* The same for a whole text. */
int near_is(const char *name, const char *text);
/* Below, at or above 0: the order of two words; 0 if they are the same. */
int near_order(const char *a, size_t n, const char *b, size_t m);

#endif
