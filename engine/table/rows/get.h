/* SPDX-License-Identifier: MIT
**
** get.h -- the parts of a Get, for emb_get and for batches that run in the
** background (ahead.c).
*/
#ifndef EMB_ROWS_GET_H
#define EMB_ROWS_GET_H

#include "engine/table/jobs/job.h"

/* A key of the batch is at its staleness bound; no code of emb.h. */
#define GET_BLOCKED (-5)

/* Who takes the vectors of a Get in the order of its keys, while they are in
** the processor's caches, instead of all at its end. */
struct get_taker {
  float *vectors;    /* room for `rows` of them */
  uint32_t rows;     /* at most s->chunk */
  uint32_t together; /* that many are taken at a time, if none is on disk */
  void *arg;
  /* The batch begins; once more where it has to begin anew, since a key was at
  ** its staleness bound. */
  void (*begin)(void *arg);
  /* n rows, of the batch's from `at` on.  In an epoch, so it does not wait. */
  int (*take)(void *arg, size_t at, const float *rows, uint32_t n);
};

struct get {
  emb_session *s;
  const int64_t *keys;
  float *vectors;
  uint8_t *found;
  uint64_t *versions;
  emb_track *tracks; /* or NULL */
  uint8_t
      *state; /* NULL, or: a row at its bound is FETCH_BLOCKED, not the end */
  uint8_t *counted;              /* NULL, or: 1 for each row that is counted */
  const struct get_taker *taker; /* NULL: vectors has room for all */
  size_t at;      /* for the taker: the first row of the chunk in the batch, */
  uint32_t taken; /* rows of the chunk that it has, */
  int taken_rc;   /* and what it said to these */
  int promote;    /* offer what comes from disk to the cache */
  uint32_t call;  /* number of the call that counts; 0: nothing is counted */
  uint64_t in_memory, in_cache, on_disk, absent;
};

/* Where a row's vector goes. */
static inline float *get_vector(const struct get *g, uint32_t row,
                                uint32_t dim) {
  return g->vectors + (size_t)(row - g->taken) * dim;
}

/* emb_peek with one more result: vectors, found, versions and tracks, each of
** which may be NULL. */
int get_peek(emb_session *s, const int64_t *keys, size_t n, const emb_rows *to);
/* emb_get, or emb_peek where nothing counts, with the vectors for a taker. What
** it returns ends the call as any other error. */
int get_by_pieces(emb_session *s, const int64_t *keys, size_t n, int counts,
                  const struct get_taker *taker);
/* Rows [0, n), n at most s->chunk: copies what is in memory, and notes what is
** on disk in s->cold[0..*cold).  KEY_BLOCKED: row *blocked may not be read
** yet; the rows before it were counted. */
int get_in_memory(struct get *g, uint32_t n, uint32_t *cold, uint32_t *blocked);
/* Delivers rows [0, n), n at most s->chunk, whose entries and words are in
** s->entries and s->words: of a caller that has found them itself, in the same
** stay in the epoch.  What is on disk is noted.  Not counted. */
void get_deliver_rows(struct get *g, uint32_t n, uint32_t *cold);
/* Adds what was done for n keys to the session's metrics. */
void get_tally(const struct get *g, size_t n);
/* Reads the rows in s->cold. */
int get_from_disk(struct get *g, uint32_t cold);
/* One row by itself, from the index on, inside an epoch; not counted.  1: done;
** 0: on disk, noted. */
int get_row(struct get *g, uint32_t row, uint32_t *cold);
void get_absent(struct get *g, uint32_t row);

#endif
