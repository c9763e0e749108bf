/* SPDX-License-Identifier: MIT
**
** group.h -- groups the rows of a batch that have the same key: one row stands
** for all.  Gradients of a key are summed before its optimizer makes one step,
** as if the batch had distinct keys; of several Puts of a key the last one
** wins.  The memory belongs to a session and is kept for its next batch, up to
** some megabytes.
*/
#ifndef EMB_SESSION_GROUP_H
#define EMB_SESSION_GROUP_H

#include <stddef.h>
#include <stdint.h>

struct env;

struct groups {
  uint32_t *stands; /* per row: the row that stands for its key */
  uint32_t
      *sum_at; /* per row that stands for others: 1 + its position in sums */
  uint32_t *times; /* per row that stands for its key: rows of that key */
  float *sums;
  uint32_t *table; /* row + 1, open addressing */
  size_t rows_room, table_room, sums_room;
  int any; /* some key is repeated */
};

/* Which row stands for its key: the last, or the first; with GROUP_SUM the
** first, with the sum of all. */
enum group_by { GROUP_LAST, GROUP_FIRST, GROUP_SUM };

struct group_batch {
  const int64_t *keys;
  size_t n;          /* at most EMB_ROWS_MAX */
  const float *rows; /* dim floats each, for GROUP_SUM */
  uint32_t dim;
};
/* Groups the rows of a batch.  0: out of memory. */
int group_rows(struct groups *groups, struct env *env,
               const struct group_batch *batch, enum group_by by);
static inline int group_stands(const struct groups *groups, size_t row) {
  return !groups->any || groups->stands[row] == row;
}
static inline uint32_t group_times(const struct groups *groups, size_t row) {
  return groups->any ? groups->times[row] : 1;
}
/* The call is over: frees memory beyond what is kept for the next call. */
void group_end_call(struct groups *groups, struct env *env);
void group_free(struct groups *groups, struct env *env);

#endif
