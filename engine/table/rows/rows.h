/* SPDX-License-Identifier: MIT
**
** rows.h -- shared by a session's batch calls: each row of a chunk is processed
** while the records of later rows are being prefetched, and the buckets of rows
** further ahead.
*/
#ifndef EMB_ROWS_H
#define EMB_ROWS_H

#include "engine/table/session/session.h"

/* Rows between the prefetch of a record and its use: enough to cover a memory
** access, few enough that prefetched lines are not evicted before their use. */
#define ROWS_AHEAD 16

/* Cache lines prefetched per record.  A record of 272 bytes has five or six
** lines: five are prefetched, and the processor's own prefetcher brings the
** last.  For records of 528 bytes, five lines gave 3.4 M updates a second and
** ten 5.0 M. */
#define ROWS_LINES 5
#define ROWS_LINES_LARGE 12

/* Finds the entries and words of rows [from, n) of a chunk, and stores them in
** the session's arrays.  Inside an epoch. */
static inline void rows_find(emb_session *s, const int64_t *keys, uint32_t from,
                             uint32_t n) {
  emb_assert(!epoch_outside());
  for (uint32_t i = from; i < n; i++) {
    s->hashes[i] = hash_key(keys[i]);
  }
  index_find_batch(&s->core->index, keys + from, s->hashes + from, n - from,
                   s->entries + from, s->words + from);
}

/* A lookup of rows [from, n) of a chunk that stays some blocks ahead of the
** processed rows, so that buckets are fetched while records are copied.  The
** results are those of rows_find. */
struct rows_finder {
  emb_session *s;
  const int64_t *keys;
  uint32_t n;
  uint32_t begun;   /* rows below this: the first bucket was prefetched, */
  uint32_t matched; /* and matched, */
  uint32_t found;   /* and they have entry and word */
  uint32_t steps;
  struct index_probe blocks[3];
};

static inline void finder_begin(struct rows_finder *f, emb_session *s,
                                const int64_t *keys, uint32_t from,
                                uint32_t n) {
  f->s = s;
  f->keys = keys;
  f->n = n;
  f->begun = f->matched = f->found = from;
  f->steps = 0;
}
/* Looks up until row `row` is found.  find.c */
void finder__until(struct rows_finder *f, uint32_t row);

/* Lines of a record to prefetch, if `value_bytes` of its value will be read. */
static inline uint32_t rows_lines(uint32_t value_bytes) {
  uint32_t lines = (REC_HEAD_BYTES + value_bytes) / 64 + 2;
  return lines <= ROWS_LINES + 1    ? lines < ROWS_LINES ? lines : ROWS_LINES
         : lines < ROWS_LINES_LARGE ? lines
                                    : ROWS_LINES_LARGE;
}

/* Prefetches a record, if any.  It goes into the second-level cache only,
** because more requests can be in flight for that than for the first: 2 M keys
** of 64 floats gave 19 M Gets a second instead of 13 M. */
static inline void rows_prefetch(const struct rec *rec, uint32_t lines) {
  if (rec) {
    for (uint32_t i = 0; i < lines; i++) {
      __builtin_prefetch((const char *)rec + (size_t)i * 64, 0, 2);
      __asm__ volatile(""); /* gcc 12 drops loops that do nothing else */
    }
  }
}

#endif
