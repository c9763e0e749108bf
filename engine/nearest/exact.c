/* SPDX-License-Identifier: MIT
**
** exact.c -- the nearest among all rows of a table.
*/
#include "nearest.h"

enum { EXACT_ROWS = 256 };

int exact__table(const struct ask *ask, struct best *best) {
  emb_session *s = ask->s;
  struct env *env = s->core->env;
  const emb_nearest_how *how = &ask->how;
  int is_range = (how->flags & EMB_NEAREST_RANGE) != 0;
  size_t dim = s->core->layout.dim, n = 1;
  int64_t keys[EXACT_ROWS];
  emb_scan *scan = NULL;
  float *vectors = env->allocate(env, EXACT_ROWS * dim * sizeof *vectors);
  const emb_rows to = {.keys = keys, .vectors = vectors};
  int rc = vectors ? EMB_OK : session_error(s, EMB_NOMEM, "out of memory");
  rc =
      rc ? rc
         : local_scan_open(s, is_range ? how->lo : INT64_MIN,
                           is_range ? how->hi : INT64_MAX, EMB_SCAN_ANY, &scan);
  while (!rc && n) {
    rc = local_scan_next_rows(scan, EXACT_ROWS, &to, &n);
    for (size_t i = 0; !rc && i < n; i++) {
      if (nearest__admits(ask, keys[i])) {
        nearest__offer(ask, best, keys[i],
                       vectors + i * dim + ask->segment->first);
      }
    }
  }
  local_scan_close(scan);
  env->release(env, vectors);
  return rc;
}
