/* SPDX-License-Identifier: MIT
**
** finder.h -- one shape for all that find nearest neighbours: a set of vectors
** that was filled once, and is asked for the k nearest to each of n queries.
**
** Each is asked in the same way: one call, so many threads of its own, keys
** (row number plus one) and distances in the caller's memory.  Also read by
** C++.
*/
#ifndef BENCH_FINDER_H
#define BENCH_FINDER_H

#include <stddef.h>
#include <stdint.h>

#include "points.h"

struct finder_options {
  const struct points *points;
  char directory[400];   /* exists; of this finder alone */
  const char *extension; /* emb.so */
  const char *results;   /* directory of what outlives a run, vec0.so too */
  uint64_t memory_bytes; /* emb only: its option memory; 0: all fits */
  size_t lists;          /* of an inverted file */
  int threads;           /* that build it */
};

struct question {
  const float *queries;
  size_t n, k;
  int threads;
  int effort; /* lists that are probed, or width of the search in a graph */
};

struct finder_kind {
  const char *name;
  const char *about;
  /* What the effort is called; NULL: there is none, it is exact. */
  const char *effort;
  /* Builds it.  NULL: not possible here. */
  void *(*open)(const struct finder_options *options);
  void (*close)(void *finder);
  /* k keys and distances of each query, the nearest first; keys 0 where there
  ** are fewer.  A ceiling leaves them as they are. */
  void (*ask)(void *finder, const struct question *question, int64_t *keys,
              double *distances);
  /* Memory of the index, without the vectors; NULL: not known. */
  uint64_t (*index_bytes)(void *finder);
};

extern const struct finder_kind finder_read;   /* a ceiling: reads all bytes */
extern const struct finder_kind finder_device; /* the same from the disk */
extern const struct finder_kind finder_emb;    /* emb_nearest, exact */
extern const struct finder_kind finder_emb_index; /* and with its index */
extern const struct finder_kind finder_emb_sql;   /* vector MATCH */
extern const struct finder_kind finder_sqlite_vec;
/* Their addresses are NULL where FAISS is not installed. */
extern const struct finder_kind finder_faiss_flat __attribute__((weak));
extern const struct finder_kind finder_faiss_ivf __attribute__((weak));
extern const struct finder_kind finder_faiss_hnsw __attribute__((weak));

#endif
