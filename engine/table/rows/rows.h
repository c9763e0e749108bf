/* SPDX-License-Identifier: MIT
**
** rows.h -- what the batches of a session share: all rows of a chunk are found
** first, and then each is worked on while the records of the next ones are
** already on their way from memory.
*/
#ifndef EMB_ROWS_H
#define EMB_ROWS_H

#include "engine/table/session/session.h"

/* Rows between the prefetch of a record and its use: enough to cover an access
** to memory, few enough that what was prefetched is not lost again. */
#define ROWS_AHEAD 16

/* Cache lines of a record that are prefetched.  Of a record of 272 bytes, five
** of its five or six: the processor's own prefetcher brings the last.  Of one
** of 528, five lines gave 3.4 M updates a second and ten 5.0 M. */
#define ROWS_LINES 5
#define ROWS_LINES_LARGE 12

/* Entries and words of rows [from, n) of a chunk, into the session's arrays.
** Inside an epoch. */
static inline void rows_find(emb_session *s, const int64_t *keys, uint32_t from,
                             uint32_t n) {
  for (uint32_t i = from; i < n; i++) {
    s->hashes[i] = hash_key(keys[i]);
  }
  index_find_batch(&s->core->index, keys + from, s->hashes + from, n - from,
                   s->entries + from, s->words + from);
}

/* Of a record of which so many bytes of the value are wanted. */
static inline uint32_t rows_lines(uint32_t value_bytes) {
  uint32_t lines = (REC_HEAD_BYTES + value_bytes) / 64 + 2;
  return lines <= ROWS_LINES + 1    ? lines < ROWS_LINES ? lines : ROWS_LINES
         : lines < ROWS_LINES_LARGE ? lines
                                    : ROWS_LINES_LARGE;
}

/* The record, if any, is wanted soon.  It is prefetched into the second-level
** cache only, since more requests for that can be under way than for the
** first: 2 M keys of 64 floats gave 19 M Gets a second instead of 13 M. */
static inline void rows_prefetch(const struct rec *rec, uint32_t lines) {
  if (rec) {
    for (uint32_t i = 0; i < lines; i++) {
      __builtin_prefetch((const char *)rec + (size_t)i * 64, 0, 2);
      __asm__ volatile(""); /* gcc 12 drops loops that do nothing else */
    }
  }
}

#endif
