/* SPDX-License-Identifier: MIT
**
** finder.h -- one interface to everything that finds nearest neighbours: a set
** of vectors, filled once and searched for the k nearest to each of n queries.
**
** All are called the same way: one call, with a given number of threads of
** their own; keys (row number plus one) and distances in the caller's memory.
** Also included by C++.
*/
#ifndef BENCH_FINDER_H
#define BENCH_FINDER_H

#include <stddef.h>
#include <stdint.h>

#include "points.h"

struct finder_options {
  const struct points *points;
  char directory[400];   /* exists; for this finder only */
  const char *extension; /* emb.so */
  const char *results;   /* for files kept between runs, and vec0.so */
  uint64_t memory_bytes; /* emb only: option memory; 0: all fits */
  size_t lists;          /* of an inverted file */
  const char *index;     /* emb only: the option; NULL: of so many lists */
  int threads;           /* used to build it */
};

struct question {
  const float *queries;
  size_t n, k;
  int threads;
  int effort; /* lists to probe, or search width in a graph */
};

struct finder_kind {
  const char *name;
  const char *about;
  /* Name of the effort; NULL: there is none, the search is exact. */
  const char *effort;
  /* Builds it.  NULL: not possible here. */
  void *(*open)(const struct finder_options *options);
  void (*close)(void *finder);
  /* Finds k keys and distances per query, nearest first; keys are 0 where there
  ** are fewer.  A ceiling leaves both arrays unchanged. */
  void (*ask)(void *finder, const struct question *question, int64_t *keys,
              double *distances);
  /* Memory of the index, without the vectors; NULL: unknown. */
  uint64_t (*index_bytes)(void *finder);
};

extern const struct finder_kind finder_read;   /* a ceiling: reads all bytes */
extern const struct finder_kind finder_device; /* as above, from disk */
extern const struct finder_kind finder_emb;    /* emb_nearest, exact */
extern const struct finder_kind finder_emb_index; /* with its index */
extern const struct finder_kind finder_emb_95;    /* index=ivf */
extern const struct finder_kind finder_emb_99;    /* ivf(recall=0.99) */
extern const struct finder_kind finder_emb_sql;   /* vector MATCH */
extern const struct finder_kind finder_sqlite_vec;
/* Where vec0.so has these indexes. */
extern const struct finder_kind finder_vec_bits, finder_vec_int8;
extern const struct finder_kind finder_vec_diskann;
/* Their addresses are NULL where FAISS is not installed. */
extern const struct finder_kind finder_faiss_flat __attribute__((weak));
extern const struct finder_kind finder_faiss_ivf __attribute__((weak));
extern const struct finder_kind finder_faiss_hnsw __attribute__((weak));

#endif
