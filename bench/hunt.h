/* SPDX-License-Identifier: MIT
**
** hunt.h -- shared by the parts of the nearest-neighbour benchmark: a set of
** vectors, the finders that search it, turns, and the right answer.
*/
#ifndef BENCH_HUNT_H
#define BENCH_HUNT_H

#include "finder.h"
#include "harness.h"

enum { NEIGHBOURS = 10, ASKED = 256, HUNTERS_MAX = 8 };

struct hunt {
  const struct options *options;
  struct figure *figure;
  struct points points;
  const char *what; /* short name of the vectors */
  double seconds;   /* minimum length of a turn */
  size_t lists;     /* of inverted files */
  int64_t *truth;   /* NEIGHBOURS per query */
};

/* An open finder. */
struct hunter {
  const struct finder_kind *kind;
  void *finder;
};

/* Opens a finder in its own directory.  If that is not possible, adds a note,
** leaves `to` unchanged and returns 0. */
int hunter_open(const struct hunt *hunt, const struct finder_kind *kind,
                struct hunter *to);
void hunter_close(const struct hunter *hunter);
struct finder_options hunt_options(const struct hunt *hunt, const char *name);

struct turn {
  double rate; /* queries per second */
  size_t queries;
  struct usage usage;
};
/* Calls with `each` queries until the turn has lasted long enough. */
struct turn hunt_turn(const struct hunt *hunt, const struct hunter *hunter,
                      size_t each, int threads, int effort);
/* Runs rounds of turns of all finders to compare. */
void hunt_compare(const struct hunt *hunt, struct group *group,
                  const struct hunter *hunters, int count, size_t each,
                  int threads);
/* The finder whose exact answer counts as right: FAISS flat, or emb without
** FAISS. */
const struct finder_kind *hunt_judge(void);
/* Sets hunt->truth to the answers of hunt_judge. */
void hunt_find_truth(struct hunt *hunt);
/* Compares the finder's exact answers to the first n queries with hunt->truth,
** `each` queries per call. */
void hunt_verify(const struct hunt *hunt, const struct hunter *hunter, size_t n,
                 size_t each);
/* Recall over all queries, `each` queries per call. */
double hunt_recall(const struct hunt *hunt, const struct hunter *hunter,
                   size_t each, int effort);
/* "1 thread", "2 threads" */
const char *hunt_threads(int threads);

#endif
