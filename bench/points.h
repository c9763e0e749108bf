/* SPDX-License-Identifier: MIT
**
** points.h -- the vectors searched for neighbours, and the right answer.
**
** CLUSTERED  A mixture of Gaussians: one cluster for 250 vectors, 4,000 at
**            most, the i-th with a share of i^-0.7 of the vectors, and a width
**            of 0.3 to 0.8 times that of the centres.  Element j of a centre,
**            and of the offset from it, has a standard deviation of
**            (1 + j/4)^-0.5, so vectors have fewer effective dimensions than
**            elements, as trained vectors do.  Clusters overlap, and an index's
**            lists cut them: one of 1,024 lists for a million vectors of 64
**            elements must probe about twelve for a recall of 0.95.  Queries
**            are further draws.
** SPREAD     Without clusters: elements that are independent and nearly normal,
**            the same divided by the length of the vector, or multiplied by one
**            factor for each vector, whose distribution has heavy tails.
** TRAINED    The synsets that `make demo` has trained on WordNet.  Queries are
**            rows removed from the set.
**
** Row i has key i + 1.  Everything is the same in each run.
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
enum points_spread { POINTS_NORMAL, POINTS_SPHERE, POINTS_HEAVY };
void points_spread(struct points *points, enum points_spread how, size_t n,
                   size_t dim, size_t asked);
/* Reads the vectors of the store in a directory.  0: there is none. */
int points_read(struct points *points, const char *directory, size_t asked);
void points_free(struct points *points);

/* The Euclidean distance, computed naively, as an oracle. */
double points_distance(const float *a, const float *b, size_t dim);

/* Fraction of the k nearest of n queries that was found, 0 to 1.  A neighbour
** counts if it is no farther than the k-th of the truth, which is sorted.  Keys
** of missing rows do not count. */
double points_recall(const struct points *points, const float *queries,
                     size_t n, size_t k, const int64_t *truth,
                     const int64_t *found);

/* Compares an exact answer with that of an oracle, which may round.  Ends the
** program if a neighbour is farther than the oracle's of the same rank, or if a
** distance is not that of its row.  Returns the number of neighbours for which
** the oracle's was farther. */
size_t points_verify(const struct points *points, const float *queries,
                     size_t n, size_t k, const int64_t *oracle,
                     const int64_t *keys, const double *distances,
                     const char *name);

#endif
