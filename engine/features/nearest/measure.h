/* SPDX-License-Identifier: MIT
**
** measure.h -- measures the recall of an index: the task takes rows of the
** table, and queries that were asked, as sample queries, finds their true
** neighbours by comparing every row with them, and sees where the index has
** those neighbours (ivf/recall.h).
**
** 1  choosing   keys, from some partitions of the store's key index
** 2  reading    their rows, which are the queries
** 3  rows       every row is compared with all queries
** 4  lists      for each order in which lists may be probed (ivf/order.h), and
**               for each neighbour, the position of its list; the best order
** 5  codes      the candidates of each query, by code
**
** A row is not its own neighbour.  A neighbour that is in no list is recent, so
** every search compares it; it does not count.
**
** WHEN    Before an index is first used.  Again when so many rows have changed,
**         or so many queries have been asked, that the curve may not hold any
**         more; but a measurement may take at most a twentieth of the time.
** THREADS The task's, under nearest_index.lock.
*/
#ifndef EMB_NEAREST_MEASURE_H
#define EMB_NEAREST_MEASURE_H

#include "engine/math/ivf/ivf.h"
#include "engine/math/ivf/recall.h"
#include "exact.h"
#include "walk.h"

struct nearest_index;
struct index_set;

#define MEASURE_ROWS 1000 /* rows that are queries */
#define MEASURE_ASKED 64  /* fewer queries asked say too little */

enum {
  MEASURE_READING,
  MEASURE_PASS,
  MEASURE_LISTS,
  MEASURE_CODES,
};

struct measuring {
  int is_on;
  struct index_set *set;
  uint32_t segment, phase;
  uint64_t worked_us; /* so far */
  uint64_t changed;   /* set->changed when it began */
  uint64_t seen;      /* queries asked until then */
  float *queries;
  int64_t *keys; /* of the rows that are queries */
  size_t wanted, count, read;
  size_t rows, n; /* queries: rows, and all */
  size_t at;      /* queries done in this phase */
  struct walk walk;
  struct ask ask;
  struct search search;
  struct extents e; /* has the comparison */
  int compares;
  int64_t *near; /* the neighbours of each query, and their number */
  double *far;
  size_t *counts;
  struct recall_measure recall; /* of the best order so far */
  struct recall_measure trial;  /* of another */
  uint32_t order;
  struct ivf_search find;
  struct recall_candidate *candidates;
  size_t candidate_room;
};

/* Microseconds until a measurement of the set in use is due; TASKS_NEVER: not
** before something changes. */
uint64_t measure__rest_us(struct nearest_index *x, struct index_set *set);
/* Does one piece of measuring a set, after ending that of another.  *done: the
** set's curves are complete. */
int measure__piece(struct nearest_index *x, struct index_set *set, int *done);
void measure__end(struct nearest_index *x);

#endif
