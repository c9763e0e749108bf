/* SPDX-License-Identifier: MIT
**
** get.h -- the stages of a Get, for emb_get and for batches that run in the
** background (ahead.c).
*/
#ifndef EMB_ROWS_GET_H
#define EMB_ROWS_GET_H

#include "engine/table/jobs/job.h"

/* A key of the batch is at its staleness bound; not a code of emb.h. */
#define GET_BLOCKED (-5)

/* Receives the vectors of a Get in key order while they are in the processor's
** caches, instead of all of them at the end. */
struct get_taker {
  float *vectors;    /* room for `rows` vectors */
  uint32_t rows;     /* at most s->chunk */
  uint32_t together; /* rows per call of take(), if none is on disk */
  void *arg;
  /* The batch begins.  Called again if the batch restarts because a key was at
  ** its staleness bound. */
  void (*begin)(void *arg);
  /* n rows, from row `at` of the batch.  In an epoch, so it must not wait. */
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
      *state; /* NULL, or: FETCH_BLOCKED for rows at their bound; Get goes on */
  uint8_t *counted;              /* NULL, or: 1 for each counted row */
  const struct get_taker *taker; /* NULL: vectors has room for all rows */
  size_t at;      /* for the taker: position of the chunk in the batch, */
  uint32_t taken; /* rows of the chunk already taken, */
  int taken_rc;   /* and what take() returned */
  int promote;    /* offer records read from disk to the cache */
  uint32_t call;  /* number of the counting call; 0: not counted */
  uint64_t in_memory, in_cache, on_disk, absent;
};

/* Where a row's vector goes. */
static inline float *get_vector(const struct get *g, uint32_t row,
                                uint32_t dim) {
  emb_assert(row >= g->taken); /* else its place holds another row */
  return g->vectors + (size_t)(row - g->taken) * dim;
}

/* A row has a vector, and this version. */
static inline void get_found(struct get *g, uint32_t row, uint64_t version) {
  if (g->found) {
    g->found[row] = 1;
  }
  if (g->versions) {
    g->versions[row] = version;
  }
}

/* emb_peek that also returns tracks; vectors, found, versions and tracks may
** each be NULL. */
int get_peek(emb_session *s, const int64_t *keys, size_t n, const emb_rows *to);
/* emb_get, or emb_peek if `counts` is 0, with the vectors handed to a taker.
** An error returned by the taker ends the call like any other error. */
int get_by_pieces(emb_session *s, const int64_t *keys, size_t n, int counts,
                  const struct get_taker *taker);
/* Rows [0, n), n at most s->chunk: copies the records in memory, and notes
** those on disk in s->cold[0..*cold).  KEY_BLOCKED: row *blocked may not be
** read yet; the rows before it were counted. */
int get_in_memory(struct get *g, uint32_t n, uint32_t *cold, uint32_t *blocked);
/* Delivers rows [0, n), n at most s->chunk, whose entries and words the caller
** has found in the same stay in the epoch and put into s->entries and s->words.
** Records on disk are noted.  Not counted. */
void get_deliver_rows(struct get *g, uint32_t n, uint32_t *cold);
/* Adds the results of a Get of n keys to the session's metrics. */
void get_tally(const struct get *g, size_t n);
/* Reads the rows in s->cold. */
int get_from_disk(struct get *g, uint32_t cold);
/* Looks up and copies a single row, inside an epoch; not counted.  1: done; 0:
** on disk, noted. */
int get_row(struct get *g, uint32_t row, uint32_t *cold);
void get_absent(struct get *g, uint32_t row);
/* Hands the rows of the chunk before this one to the taker; the buffer is then
** reused from its beginning. */
void get__hand_over(struct get *g, uint32_t row);

#endif
