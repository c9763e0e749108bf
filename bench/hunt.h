/* SPDX-License-Identifier: MIT
**
** hunt.h -- what the parts of the benchmark of nearest neighbours share: a set
** of vectors, all that look for neighbours among them, turns, and the right
** answer.
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
  const char *what; /* the vectors, in a word or two */
  double seconds;   /* of a turn, at least */
  size_t lists;     /* of inverted files */
  int64_t *truth;   /* NEIGHBOURS of each query */
};

/* One that looks for neighbours, and how it is asked. */
struct hunter {
  const struct finder_kind *kind;
  void *finder;
};

/* Opens it in a directory of its own; where that is not possible notes that,
** and `to` stays as it is: returns 0. */
int hunter_open(const struct hunt *hunt, const struct finder_kind *kind,
                struct hunter *to);
void hunter_close(const struct hunter *hunter);
struct finder_options hunt_options(const struct hunt *hunt, const char *name);

struct turn {
  double rate; /* queries per second */
  size_t queries;
  struct usage usage;
};
/* `each` queries a call, call after call until it has lasted. */
struct turn hunt_turn(const struct hunt *hunt, const struct hunter *hunter,
                      size_t each, int threads, int effort);
/* Rounds of turns of all that are to be compared. */
void hunt_compare(const struct hunt *hunt, struct group *group,
                  const struct hunter *hunters, int count, size_t each,
                  int threads);
/* Whose exact answer is the right one: FAISS flat; without FAISS emb. */
const struct finder_kind *hunt_judge(void);
/* What that finds. */
void hunt_find_truth(struct hunt *hunt);
/* Compares its exact answers to the first n queries with these, `each` in a
** call. */
void hunt_verify(const struct hunt *hunt, const struct hunter *hunter, size_t n,
                 size_t each);
/* Of all queries in one call. */
double hunt_recall(const struct hunt *hunt, const struct hunter *hunter,
                   int effort);
/* "1 thread", "2 threads" */
const char *hunt_threads(int threads);

#endif
