/* SPDX-License-Identifier: MIT
**
** draw.h -- a running call of emb_sample: its arguments, and the source of its
** keys.
**
** A SOURCE  returns some rows at a time, inside one stay in the epoch: their
**           keys in draw.keys, each with the probability of a single draw in
**           draw.p if the rows differ in it, and the entries and words found
**           for them in the session's entries and words.  The source itself
**           leaves out keys that are excluded, were drawn already, or are not
**           in the table (draw__admits), but counts them as draws.
**
**   slots.c   uniform: places of the index
**   law.c     log-uniform: ranks by a formula
**   weights.c frequency: keys in order of how often they were updated
**   listed.c  any of these, when drawing and rejecting would take too long: the
**             keys that may come are listed first
*/
#ifndef EMB_NEGATIVES_DRAW_H
#define EMB_NEGATIVES_DRAW_H

#include "engine/table/session/txn_map.h"
#include "keyset.h"
#include "random.h"

struct weights; /* weights.h */

struct draw {
  emb_session *s;
  const emb_sample_how *how;
  size_t n;     /* rows requested */
  int replaces; /* a key may come more than once */
  int tells;    /* p is requested */
  uint64_t random;
  double draws;  /* so far, up to the last row, with rejected ones */
  double most;   /* above this many the keys are listed instead */
  uint64_t rows; /* rows of the table that may come, at the start */
  struct keyset set;
  int uses_set; /* some keys are excluded */

  /* The rows of a round, at most s->chunk. */
  int64_t *keys;
  double *p; /* of a single draw; unused by a uniform source */
  uint8_t *found;

  uint32_t (*next)(struct draw *d, uint32_t want);
  double log_range; /* law.c */
  int64_t range;
  struct weights *weights; /* weights.c; and of how->power: */
  const double *cumulated;
  double *own_cumulated; /* likewise, if only this call has it */
  struct listed {        /* listed.c */
    int64_t *keys;
    double *p;    /* of a single draw; NULL: equal for all */
    double *when; /* without replacement: the draw at which the key came; with
                  ** it, sums of p; NULL: uniform */
    size_t count, at;
  } list;
};

/* May this key come?  If a key may come only once, it must not have come
** before. */
static inline int draw__admits(struct draw *d, int64_t key) {
  return !d->uses_set ||
         (d->replaces ? !keyset_has(&d->set, key) : keyset_add(&d->set, key));
}

/* Is the call between two rounds as described here?  And its list, which may
** take as long to check as to make?  Only in self-checking builds. */
int draw_valid(const struct draw *d);
int listed_valid(const struct draw *d);

/* Looks up the keys d->keys[0..n) and keeps those in the table and admitted, at
** most `want` of them, in order, each with its p; returns how many.  Every key
** up to the last one kept counts as a draw.  Inside an epoch. */
uint32_t draw__keep(struct draw *d, uint32_t n, uint32_t want);

/* Each begins a source and sets `next`. */
void slots__begin(struct draw *d);
int law__begin(struct draw *d);
int listed__begin(struct draw *d);
void listed__end(struct draw *d);

/* law.c: the probability of a rank in a single draw. */
double law__of(const struct draw *d, int64_t key);

#endif
