/* SPDX-License-Identifier: MIT
**
** draw.h -- one call of emb_sample under way: what is asked, and where its keys
** come from.
**
** A SOURCE  gives some rows at a time, inside a stay in the epoch: their keys
**           in draw.keys, each with the probability of a single draw in
**           draw.p where the rows differ in it, and what was found of them in
**           the session's entries and words.  What must not come, or has come
**           already, or is not there, it leaves out itself (draw__admits), and
**           counts as a draw all the same.
**
**   slots.c   uniform: places of the index
**   law.c     log-uniform: ranks by a formula
**   weights.c frequency: keys in the order of how often they were updated
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
  size_t n;     /* rows that are asked for */
  int replaces; /* a key may come more than once */
  int tells;    /* p is asked for */
  uint64_t random;
  double draws;  /* so far, up to the last row: with what was left out */
  double most;   /* beyond that many the keys are listed instead */
  uint64_t rows; /* of the table that may come, when the call began */
  struct keyset set;
  int uses_set; /* there is something that must not come */

  /* The rows of a round, at most s->chunk. */
  int64_t *keys;
  double *p; /* of a single draw; not used by a uniform source */
  uint8_t *found;

  uint32_t (*next)(struct draw *d, uint32_t want);
  double log_range; /* law.c */
  int64_t range;
  struct weights *weights; /* weights.c; and of how->power: */
  const double *cumulated;
  double *own_cumulated; /* the same, if only this call has it */
  struct listed {        /* listed.c */
    int64_t *keys;
    double *p;    /* of a single draw; NULL: all the same */
    double *when; /* without replacement: at which draw the key came; with it,
                     sums of p; NULL: uniform */
    size_t count, at;
  } list;
};

/* Whether a key may come, and has not, if it may come only once. */
static inline int draw__admits(struct draw *d, int64_t key) {
  return !d->uses_set ||
         (d->replaces ? !keyset_has(&d->set, key) : keyset_add(&d->set, key));
}

/* Looks up the keys d->keys[0..n) and keeps those that are there and admitted,
** at most `want` of them, in their order, each with its p; how many.  Every key
** up to the last one that is kept is a draw.  Inside an epoch. */
uint32_t draw__keep(struct draw *d, uint32_t n, uint32_t want);

/* Each a source: its beginning, and `next`. */
void slots__begin(struct draw *d);
int law__begin(struct draw *d);
int listed__begin(struct draw *d);
void listed__end(struct draw *d);

/* law.c: the probability of a rank, of a single draw. */
double law__of(const struct draw *d, int64_t key);

#endif
