/* SPDX-License-Identifier: MIT
**
** get.h -- the parts of a Get, for emb_get and for batches that run in the
** background (ahead.c).
*/
#ifndef EMB_STORE_GET_H
#define EMB_STORE_GET_H

#include "store.h"

/* A key of the batch is at its staleness bound; no code of emb.h. */
#define GET_BLOCKED (-5)

/* What becomes of a row of a batch in the background. */
enum {
  ROW_DONE = 0,
  ROW_COLD = 1,    /* a worker reads it */
  ROW_BLOCKED = 2, /* at its bound when the batch began */
  ROW_AGAIN = 3,   /* moved while it was read, or is to be read anew */
  ROW_KEPT = 4,    /* was read from disk, before it is counted again */
};

struct get {
  emb_session *s;
  const int64_t *keys;
  float *vectors;
  uint8_t *found;
  uint64_t *versions;
  emb_track *tracks; /* or NULL */
  uint8_t *state; /* NULL, or: a row at its bound is ROW_BLOCKED, not the end */
  int admit;      /* offer what comes from disk to the cache */
  uint32_t call;  /* number of the call that counts; 0: nothing is counted */
  uint64_t in_memory, in_cache, on_disk, absent;
};

/* emb_peek with one more result. */
int get_peek(emb_session *s, const int64_t *keys, size_t n, float *vectors,
             uint8_t *found, uint64_t *versions, emb_track *tracks);
/* Rows [0, n), n at most s->chunk: copies what is in memory, and notes what is
** on disk in s->cold[0..*cold).  KEY_BLOCKED: row *blocked may not be read
** yet; the rows before it were counted. */
int get_in_memory(struct get *g, uint32_t n, uint32_t *cold, uint32_t *blocked);
/* Reads the rows in s->cold. */
int get_from_disk(struct get *g, uint32_t cold);
/* One row by itself, from the index on, inside an epoch; not counted.  1: done;
** 0: on disk, noted. */
int get_row(struct get *g, uint32_t row, uint32_t *cold);
void get_absent(struct get *g, uint32_t row);

#endif
