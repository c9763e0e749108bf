/* SPDX-License-Identifier: MIT
**
** auc.c -- area under the ROC curve, from the sum of ranks (Mann and Whitney).
*/
#include "auc.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b) {
  float left = ((const struct outcome *)a)->score;
  float right = ((const struct outcome *)b)->score;
  return (left > right) - (left < right);
}

double auc(struct outcome *outcomes, size_t count) {
  qsort(outcomes, count, sizeof(*outcomes), compare);
  double ranks = 0, clicked = 0; /* of clicked outcomes */
  for (size_t i = 0; i < count;) {
    size_t end = i, hits = 0;
    for (; end < count && outcomes[end].score <= outcomes[i].score; end++) {
      hits += outcomes[end].clicked != 0;
    }
    ranks += (double)hits * ((double)(i + end + 1) / 2); /* ranks from 1 */
    clicked += (double)hits;
    i = end;
  }
  double rest = (double)count - clicked;
  return clicked > 0 && rest > 0
             ? (ranks - clicked * (clicked + 1) / 2) / (clicked * rest)
             : NAN;
}
