/* SPDX-License-Identifier: MIT
**
** rows.h -- shared by a session's batch calls: all rows of a chunk are looked
** up first, and then each row is processed while the records of later rows are
** being prefetched.
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
