/* SPDX-License-Identifier: MIT
**
** stages.h -- a batch goes through its lookups in stages that overlap.
**
** Row i waits for memory four times: for its partition, its first bucket, its
** second bucket (if it is not in the first), and its record.  Each stage asks
** for what the next one of the same row will touch, and meanwhile works on a
** row that was asked for STAGE rows ago.  Rows reach the last stage in their
** order.
*/
#ifndef EMB_STORE_STAGES_H
#define EMB_STORE_STAGES_H

#include "store.h"

/* Rows between two stages: enough to cover a memory access, few enough that
** what was asked for is not lost again; and between asking for a record, which
** is several lines, and using it. */
#define STAGE 22
#define STAGE_RECORD 16
#define STAGE_ROWS 64 /* rows on their way; a power of two */
_Static_assert(2 * STAGE + STAGE_RECORD < STAGE_ROWS, "rows on their way");

/* Everything is asked into the second-level cache only: more requests for that
** can be under way than for the first.  (2 M keys, 64 floats: 19 M Gets a
*second
** instead of 13 M.)
**
** Cache lines of a record that are asked for; the processor's own prefetcher
** sees the pattern after that. */
#define STAGE_LINES 5

struct stages {
  const struct index *index;
  const int64_t *keys;
  uint64_t *hashes; /* of all rows */
  uint32_t n;
  uint32_t lines;
  struct bucket *bucket[STAGE_ROWS];
  struct entry *entry[STAGE_ROWS];
  uint64_t word[STAGE_ROWS];
  struct rec *rec[STAGE_ROWS];
};

static inline void stages_begin(struct stages *st, emb_session *s,
                                const int64_t *keys, uint64_t *hashes,
                                uint32_t n) {
  uint32_t lines = s->core->layout.rec_bytes / 64 + 2;
  st->index = &s->core->index;
  st->keys = keys;
  st->hashes = hashes;
  st->n = n;
  st->lines = lines < STAGE_LINES ? lines : STAGE_LINES;
  for (uint32_t i = 0; i < n; i++) {
    hashes[i] = hash_key(keys[i]);
  }
}

/* The first stages, for turn i = 0 ..; returns the row whose entry and word are
** now known (found or not), or UINT32_MAX. */
static inline uint32_t stages_turn(struct stages *st, uint32_t i) {
  if (i + STAGE / 2 < st->n) {
    __builtin_prefetch(index_shape_of(st->index, st->hashes[i + STAGE / 2]), 0,
                       2);
  }
  if (i < st->n) {
    struct bucket *bucket = index_first_bucket(st->index, st->hashes[i]);
    __builtin_prefetch(bucket, 0, 2);
    st->bucket[i % STAGE_ROWS] = bucket;
  }
  uint32_t row = i - STAGE; /* wraps: then it is not below n */
  if (row < st->n) {
    uint32_t at = row % STAGE_ROWS;
    struct bucket *bucket = st->bucket[at];
    st->word[at] = 0;
    st->entry[at] =
        bucket ? index_match(bucket, st->keys[row], &st->word[at]) : NULL;
    if (!st->entry[at]) {
      bucket = index_second_bucket(st->index, st->hashes[row]);
      __builtin_prefetch(bucket, 0, 2);
      st->bucket[at] = bucket;
    }
  }
  row -= STAGE;
  if (row >= st->n) {
    return UINT32_MAX;
  }
  uint32_t at = row % STAGE_ROWS;
  if (!st->entry[at]) {
    struct bucket *bucket = st->bucket[at];
    st->entry[at] =
        bucket ? index_match(bucket, st->keys[row], &st->word[at]) : NULL;
  }
  if (!st->entry[at]) {
    st->entry[at] = index_find((struct index *)st->index, st->keys[row],
                               st->hashes[row], &st->word[at]);
  }
  return row;
}

/* The row's record is wanted soon. */
static inline void stages_ask(struct stages *st, uint32_t row,
                              struct rec *rec) {
  st->rec[row % STAGE_ROWS] = rec;
  if (rec) {
    for (uint32_t i = 0; i < st->lines; i++) {
      __builtin_prefetch((const char *)rec + (size_t)i * 64, 0, 2);
    }
  }
}

/* Turns until the last row has gone through all stages, and the row that is in
** the last one at turn i; it is below n if there is one. */
static inline uint32_t stages_turns(const struct stages *st) {
  return st->n + 2 * STAGE + STAGE_RECORD;
}
static inline uint32_t stages_last(uint32_t i) {
  return i - 2 * STAGE - STAGE_RECORD;
}

#endif
