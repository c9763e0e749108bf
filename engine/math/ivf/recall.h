/* SPDX-License-Identifier: MIT
**
** recall.h -- how many lists a search must probe, and how many rows it must
** compare, to find a given share of the nearest rows.
**
** Recall is the share of the true k nearest that a search finds, on average
** over queries.  It is measured on sample queries whose true neighbours are
** known: for each neighbour, the position of its list among the lists in the
** order in which that query probes them, and its rank by code among the entries
** probed so far.
**
** CONFIDENCE  A point of the curve holds with 95 percent confidence: were the
**             recall lower, a sample would look this good at most once in 20.
**             Neighbours of a query are found or missed together, so a sample
**             of n queries says less than n * k independent trials: the
**             variance between queries, relative to that of independent
**             trials, divides their number (Kish's design effect, "Survey
**             Sampling", 1965).  The bound for a few misses is that of a
**             Poisson variable, approximated as by Wilson and Hilferty ("The
**             Distribution of Chi-Square", PNAS 17, 1931).  The best of several
**             orders of the lists looks a little better than it is.  For k = 1
**             the bound is therefore one of 98 percent: of 2,000 trials with
**             five equally good and independent orders, 1.4 to 2.7 percent were
**             below the promise, and with a bound of 95 percent, 13.  For k =
**             10 and 100, whose design effect is estimated and taken to be
**             large, a bound of 95 is enough.
** GROUPS      Rows of the table and queries that were asked may need different
**             numbers of lists.  A point holds for each group.
** THREADS     None.
*/
#ifndef EMB_IVF_RECALL_H
#define EMB_IVF_RECALL_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/env/env.h"

/* Measured for 1, 10 and 100 neighbours. */
#define RECALL_KS 3
#define RECALL_MOST 100
/* recall_levels, and after them the promised level. */
#define RECALL_LEVELS 13
#define RECALL_PROMISED (RECALL_LEVELS - 1)
#define RECALL_GROUPS 2
/* No list. */
#define RECALL_NOWHERE UINT32_MAX

extern const uint32_t recall_ks[RECALL_KS];
extern const double recall_levels[RECALL_LEVELS - 1]; /* ascending */

struct recall_point {
  uint32_t probes; /* lists; 0: no number of lists is enough */
  uint32_t rows;   /* to compare; 0: all of these lists, which have no codes */
  float mean;      /* recall in the sample */
  float least;     /* the recall is at least this, with 95 % confidence */
};

struct recall_curve { /* as saved in the index's file */
  double promised;    /* the level of the last points; 0: those of a fixed
                         number of lists */
  uint32_t measured;  /* seconds since 1970; 0: never */
  uint32_t lists;     /* of the index */
  uint32_t rows;      /* of the table that were queries, */
  uint32_t asked;     /* and queries that were asked */
  uint32_t order;     /* in which lists are probed (order.h) */
  uint32_t unused;
  struct recall_point points[RECALL_LEVELS][RECALL_KS];
};
_Static_assert(sizeof(struct recall_curve) ==
                   32 + 16 * RECALL_LEVELS * RECALL_KS,
               "as in FORMAT.md");

/* Sets *to to what a search for k neighbours needs to reach this recall.  0:
** the curve has no such point, and all rows must be compared.  Between the
** measured k it interpolates, and above the last one it extrapolates. */
int recall_pick(const struct recall_curve *curve, double recall, size_t k,
                struct recall_point *to);

/* ---- measuring ----------------------------------------------------------- */

struct recall_form {
  size_t queries[RECALL_GROUPS];
  uint32_t lists;
  uint32_t order;            /* in which they are probed */
  uint32_t extra[RECALL_KS]; /* rows that make up for the codes; 0: no codes */
  double promised;           /* or 0 */
  uint32_t probes; /* fixed by the index's options; 0: they are chosen */
  int is_exact;    /* do codes tell nearly all different rows apart? */
};

/* Rows compared: k plus this many times `extra`. */
#define RECALL_STEPS 9
extern const double recall_steps[RECALL_STEPS];

struct recall_measure {
  struct env *env;
  struct recall_form form;
  size_t n; /* queries; those of the first group come first */
  /* Of each query: its neighbours, and the positions of their lists, in order
  ** of distance, and sorted for each k. */
  uint32_t *counts, *at, *sorted;
  double wanted[RECALL_GROUPS][RECALL_KS]; /* neighbours, over all queries */
  double design[RECALL_GROUPS][RECALL_KS]; /* design effects */
  struct recall_point points[RECALL_LEVELS][RECALL_KS];
  /* Neighbours found at each point, over all queries, by rows compared. */
  double found[RECALL_LEVELS][RECALL_KS][RECALL_GROUPS][RECALL_STEPS];
};

/* 0: no memory. */
int recall_begin(struct recall_measure *m, struct env *env,
                 const struct recall_form *form);
void recall_end(struct recall_measure *m);
/* Sets the positions of the lists of a query's nearest rows, in order of
** distance; n: at most RECALL_MOST. */
void recall_lists(struct recall_measure *m, size_t query, const uint32_t *at,
                  size_t n);
/* Chooses the lists to probe, once recall_lists has been called for every
** query. */
void recall_choose_lists(struct recall_measure *m);
/* Of two measures of the same queries, with the lists in another order: does
** the first need fewer lists for the promised recall or, if neither reaches it,
** for the highest that one does?  If the number of lists is fixed: does it find
** more?  recall_choose_lists has been called for both. */
int recall_is_better(const struct recall_measure *m,
                     const struct recall_measure *other);
/* The most lists, and the most rows, of any point. */
uint32_t recall_probes(const struct recall_measure *m);
uint32_t recall_rows(const struct recall_measure *m);

struct recall_candidate {
  float estimate;
  uint32_t at;     /* position of its list */
  uint32_t number; /* of the neighbour that it is, or RECALL_NOWHERE */
};
/* Adds a query's candidates by code: the best recall_rows of those in the
** first recall_probes lists.  Sorts them. */
void recall_rows_found(struct recall_measure *m, size_t query,
                       struct recall_candidate *all, size_t n);
/* Chooses the rows to compare, once recall_rows_found has been called for
** every query, unless there are no codes; and completes the curve, except for
** `measured`. */
void recall_choose(struct recall_measure *m, struct recall_curve *curve);

#endif
