/* SPDX-License-Identifier: MIT
**
** points.h -- the vectors among which neighbours are looked for, and what the
** right answer is.
**
** CLUSTERED  A mixture of Gaussians: one cluster for 250 vectors, 4,000 at
**            most, the i-th with a share of i^-0.7 of the vectors, and a width
**            of 0.3 to 0.8 times that of the centres.  Element j of a centre,
**            and of what is added to it, has a standard deviation of
**            (1 + j/4)^-0.5, so vectors have fewer dimensions in effect than
**            elements, as trained ones do.  Clusters overlap, and lists of an
**            index cut them: one of 1,024 lists for a million vectors of 64
**            elements must probe about twelve for a recall of 0.95.  Queries
**            are further draws.
** TRAINED    The synsets that `make demo` has trained on WordNet.  Queries are
**            rows taken out of it.
**
** Row i has key i + 1.  All is the same in each run.
*/
#ifndef BENCH_POINTS_H
#define BENCH_POINTS_H

#include <stddef.h>
#include <stdint.h>

struct points {
  size_t n, dim;
  float *vectors; /* n */
  size_t asked;
  float *queries; /* asked */
};

void points_make(struct points *points, size_t n, size_t dim, size_t asked);
/* Of a store's directory; 0: there is none. */
int points_read(struct points *points, const char *directory, size_t asked);
void points_free(struct points *points);

/* The Euclidean distance, as plain as can be: an oracle. */
double points_distance(const float *a, const float *b, size_t dim);

/* How much of the k nearest of n queries was found, 0 to 1: a neighbour counts
** that is no farther than the k-th of the truth, which is in order.  Keys of
** rows that are not there do not count. */
double points_recall(const struct points *points, const float *queries,
                     size_t n, size_t k, const int64_t *truth,
                     const int64_t *found);

/* Compares an exact answer with that of an oracle which may round.  The end, if
** a neighbour is farther than the oracle's of the same rank, or a distance is
** not that of its row.  Returns of how many neighbours the oracle's was
** farther. */
size_t points_verify(const struct points *points, const float *queries,
                     size_t n, size_t k, const int64_t *oracle,
                     const int64_t *keys, const double *distances,
                     const char *name);

#endif
